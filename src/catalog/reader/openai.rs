//! OpenAI's two shapes of a function tool.

use super::{NEST, Shape, common};
use crate::catalog::raw::RawObject;
use crate::catalog::tool::ToolBuilder;
use crate::error::Result;

/// Chat completions: `{"type": "function", "function": {"name", "description", "parameters"}}`.
pub(crate) fn nested(mut envelope: RawObject) -> Result<ToolBuilder> {
    envelope.keep_last(&["type", NEST]);
    let fields = envelope.object(NEST)?.unwrap_or_default();
    let mut builder =
        common(Shape::OpenAiChat, fields, "parameters", &["name", "description", "parameters"])?;
    if let Some(original) = &mut builder.original {
        original.envelope = Some(envelope);
    }
    Ok(builder)
}

/// Responses: `{"type": "function", "name", "description", "parameters"}`.
pub(crate) fn flat(fields: RawObject) -> Result<ToolBuilder> {
    let known = &["type", "name", "description", "parameters"];
    common(Shape::OpenAiResponses, fields, "parameters", known)
}
