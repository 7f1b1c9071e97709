//! Gemini's function declarations.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::{Shape, common};
use crate::catalog::raw::{RawObject, describe, raw};
use crate::catalog::tool::ToolBuilder;
use crate::error::{Error, ErrorKind, Result};

const GROUPS: [&str; 2] = ["functionDeclarations", "function_declarations"];
const SCHEMAS: [&str; 2] = ["parametersJsonSchema", "parameters_json_schema"];

/// Declarations, and what else the group holds.
type Group = (Vec<Arc<RawValue>>, Option<Arc<RawValue>>);

/// The declarations of a group `{"functionDeclarations": [...], ...}`, and the rest of the group
/// (`{"googleSearch": {}}`), or `None` when `object` is no group.
pub(super) fn declarations(object: &RawObject) -> Option<Result<Group>> {
    let key = GROUPS.into_iter().find(|key| object.contains(key))?;
    let list = object.get(key).map(|raw| raw.get()).unwrap_or_default();
    let Ok(declarations) = serde_json::from_str(list) else {
        return Some(Err(Error::new(
            ErrorKind::InvalidTool,
            format!("field '{key}' is {}, not a list: give function declarations", describe(list)),
        )));
    };
    let mut rest = RawObject::default();
    for (name, value) in object.iter().filter(|(name, _)| *name != key) {
        rest.push(name, Arc::clone(value));
    }
    let rest = if rest.len() == 0 { Ok(None) } else { raw(&rest).map(Some) };
    Some(rest.map(|rest| (declarations, rest)))
}

/// `name`, `description`, and `parameters` or `parametersJsonSchema`.
pub(crate) fn tool(fields: RawObject) -> Result<ToolBuilder> {
    match SCHEMAS.into_iter().find(|key| fields.contains(key)) {
        Some(key) => common(
            Shape::Gemini,
            fields,
            key,
            &["name", "description", "parametersJsonSchema", "parameters_json_schema"],
        ),
        None => common(Shape::Gemini, fields, "parameters", &["name", "description", "parameters"]),
    }
}
