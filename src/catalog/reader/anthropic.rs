//! Anthropic's tools.

use super::{Shape, common};
use crate::catalog::raw::RawObject;
use crate::catalog::tool::ToolBuilder;
use crate::error::Result;

/// `name`, `description`, `input_schema`.
pub(crate) fn tool(fields: RawObject) -> Result<ToolBuilder> {
    common(
        Shape::Anthropic,
        fields,
        "input_schema",
        &["type", "name", "description", "input_schema"],
    )
}
