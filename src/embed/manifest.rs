//! `toolrack.json`, the file that tells what a model folder holds.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::EmbedderProfile;
use crate::error::{Error, ErrorKind, Result};

/// File name of the manifest in a model folder.
pub(crate) const FILE_NAME: &str = "toolrack.json";

/// What a model folder says of itself. Every field may be left out.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Manifest {
    /// Name of the model, first part of its fingerprint.
    pub name: Option<String>,
    /// Revision of the weights, second part of the fingerprint.
    pub revision: Option<String>,
    /// Model file in the folder.
    pub file: Option<String>,
    /// Length of the vectors, checked against the model.
    pub dimensions: Option<usize>,
    /// Tokens read of one text.
    pub max_tokens: Option<usize>,
    /// `mean` or `cls`; ONNX models only.
    pub pooling: Option<String>,
    /// Put before every request; ONNX models only.
    pub query_prefix: Option<String>,
    /// Put before every tool text; ONNX models only.
    pub document_prefix: Option<String>,
    /// SHA-256 of the weights in hexadecimal digits; checked when present.
    pub sha256: Option<String>,
    /// Other weights of the same model in the folder, each with its SHA-256; ONNX models only.
    #[cfg_attr(not(feature = "onnx"), allow(dead_code, reason = "static models have one file"))]
    pub other_files: BTreeMap<String, String>,
    /// Licence and source of the weights, for people.
    #[allow(dead_code, reason = "read so that the key is known; shown to no one")]
    pub licence: Option<String>,
    #[allow(dead_code, reason = "read so that the key is known; shown to no one")]
    pub source: Option<String>,
    /// What was fitted to the model.
    pub profile: Option<EmbedderProfile>,
}

impl Manifest {
    /// The manifest of `folder`, or the empty one when it has none.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE_NAME);
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text, &path.display().to_string()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Error::new(
                ErrorKind::Io,
                format!("cannot read {}: make the file readable", path.display()),
            )
            .with_source(error)),
        }
    }

    /// The manifest in `text`; `place` names it in errors.
    pub(crate) fn parse(text: &str, place: &str) -> Result<Self> {
        let manifest: Self = serde_json::from_str(text).map_err(|error| {
            Error::new(
                ErrorKind::ModelFile,
                format!("{place} is not a model manifest ({error}): mend or remove it"),
            )
        })?;
        if let Some(profile) = &manifest.profile {
            profile.validate().map_err(|error| error.within(place))?;
        }
        Ok(manifest)
    }
}
