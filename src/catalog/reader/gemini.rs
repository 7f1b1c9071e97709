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
    if !GROUPS.iter().any(|key| object.contains(key)) {
        return None;
    }
    let mut declarations: Vec<Arc<RawValue>> = Vec::new();
    for key in GROUPS {
        let Some(list) = object.get(key).map(|raw| raw.get()) else { continue };
        let Ok(listed) = serde_json::from_str::<Vec<_>>(list) else {
            return Some(Err(Error::new(
                ErrorKind::InvalidTool,
                format!(
                    "field '{key}' is {}, not a list: give function declarations",
                    describe(list)
                ),
            )));
        };
        declarations.extend(listed);
    }
    let mut rest = RawObject::default();
    for (name, value) in object.iter().filter(|(name, _)| !GROUPS.contains(name)) {
        rest.push(name, Arc::clone(value));
    }
    let rest = if rest.len() == 0 { Ok(None) } else { raw(&rest).map(Some) };
    Some(rest.map(|rest| (declarations, rest)))
}

/// `name`, `description`, and `parameters` or `parametersJsonSchema`.
pub(crate) fn tool(mut fields: RawObject) -> Result<ToolBuilder> {
    match SCHEMAS.into_iter().find(|key| fields.contains(key)) {
        Some(key) => {
            // One spelling is understood, and no other may be sent.
            SCHEMAS.iter().filter(|other| **other != key).for_each(|other| fields.remove(other));
            common(
                Shape::Gemini,
                fields,
                key,
                &["name", "description", "parametersJsonSchema", "parameters_json_schema"],
            )
        }
        None => common(Shape::Gemini, fields, "parameters", &["name", "description", "parameters"]),
    }
}
