//! Reading the files of a model folder.

use std::path::Path;

use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};

/// The bytes of `name` in `folder`.
///
/// # Errors
/// [`ErrorKind::ModelFile`] when it is not there, [`ErrorKind::Io`] when it cannot be read.
pub(crate) fn read(folder: &Path, name: &str) -> Result<Vec<u8>> {
    let path = folder.join(name);
    std::fs::read(&path).map_err(|error| {
        let (kind, message) = if error.kind() != std::io::ErrorKind::NotFound {
            (ErrorKind::Io, format!("cannot read {}: make it a readable file", path.display()))
        } else if folder.is_dir() {
            let folder = folder.display();
            (
                ErrorKind::ModelFile,
                format!("{folder} has no {name}: add it or point at a folder that holds the model"),
            )
        } else {
            let folder = folder.display();
            (
                ErrorKind::ModelFile,
                format!("there is no folder {folder}: point at one that holds the model"),
            )
        };
        Error::new(kind, message).with_source(error)
    })
}

/// The JSON in `name` in `folder`; `Null` when there is no such file.
///
/// # Errors
/// [`ErrorKind::Io`] when it cannot be read, [`ErrorKind::ModelFile`] when it is not JSON.
#[cfg_attr(not(feature = "onnx"), allow(dead_code, reason = "only ONNX folders have config files"))]
pub(crate) fn read_json(folder: &Path, name: &str) -> Result<Value> {
    let path = folder.join(name);
    if !path.exists() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&read(folder, name)?).map_err(|error| {
        Error::new(
            ErrorKind::ModelFile,
            format!("{} is not JSON: mend or remove it", path.display()),
        )
        .with_source(error)
    })
}
