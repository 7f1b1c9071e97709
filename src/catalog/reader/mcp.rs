//! Entries of an MCP `tools/list` result.

use std::sync::Arc;

use super::{Shape, common};
use crate::catalog::policy::Risk;
use crate::catalog::raw::RawObject;
use crate::catalog::tool::ToolBuilder;
use crate::error::Result;

/// An entry in our own form that a server wrote: nothing but its schema means what it would there.
pub(super) fn of_server(fields: &RawObject) -> Result<ToolBuilder> {
    let mut renamed = RawObject::default();
    for (key, value) in fields.iter() {
        renamed.push(if key == "parameters" { "inputSchema" } else { key }, Arc::clone(value));
    }
    tool(renamed)
}

/// `name`, `title`, `description`, `inputSchema`; the risk from `annotations`.
///
/// `readOnlyHint` true is a read; otherwise `destructiveHint` true is destructive and any other
/// annotation of the two a write. Without annotations the risk is the default. The hints come from
/// the server and are no proof: an operator's own policy goes over them.
pub(crate) fn tool(fields: RawObject) -> Result<ToolBuilder> {
    let annotations = fields.object("annotations")?.unwrap_or_default();
    let read_only = annotations.boolean("readOnlyHint")?;
    let destructive = annotations.boolean("destructiveHint")?;
    let title = annotations.string("title")?;
    let mut builder = common(
        Shape::Mcp,
        fields,
        "inputSchema",
        &["name", "title", "description", "inputSchema"],
    )?;
    builder.title = builder.title.or(title);
    builder.policy.risk = match (read_only, destructive) {
        (Some(true), _) | (None, None) => Risk::Read,
        (_, Some(true)) => Risk::Destructive,
        _ => Risk::Write,
    };
    Ok(builder)
}
