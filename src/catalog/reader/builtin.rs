//! Providers' own tools.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::{NEST, Shape};
use crate::catalog::findings::{Finding, findings};
use crate::catalog::raw::RawObject;
use crate::catalog::tool::ToolId;
use crate::digest::sha256_hex;

/// A provider's built-in tool (web search, code execution, ...): no schema, passed on untouched to
/// the provider in whose shape it is written, and to no other.
///
/// It has no policy of its own. A [`TrustPolicy`](crate::TrustPolicy) treats it like any tool, and a
/// [`RuntimeContext`](crate::RuntimeContext) that allows certain tools or approves certain namespaces
/// has to name it, by its [`id`](Self::id), for its caller to be given it.
///
/// # Example
/// ```
/// use toolrack::{Catalog, Shape};
///
/// let catalog = Catalog::parse(
///     r#"[{"name": "a"}, {"type": "web_search_20250305", "name": "web_search"},
///         {"type": "web_search"}, {"googleSearch": {}}]"#)?;
/// let snapshot = catalog.snapshot();
/// let shapes: Vec<Shape> = snapshot.builtins().map(|builtin| builtin.shape()).collect();
/// assert_eq!(shapes, [Shape::Anthropic, Shape::OpenAiResponses, Shape::Gemini]);
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Builtin {
    raw: Arc<RawValue>,
    shape: Shape,
    kind: String,
    name: Option<String>,
    id: ToolId,
    content_hash: String,
    findings: Arc<[Finding]>,
}

impl Builtin {
    /// The built-in tool in `raw`, whose shape is recognised unless it is known.
    pub(super) fn new(raw: Arc<RawValue>, shape: Option<Shape>) -> Self {
        let object = RawObject::parse(raw.get()).unwrap_or_default();
        let name = text(&object, "name")
            .or_else(|| text(&object.object("custom").ok().flatten()?, "name"));
        let kind = text(&object, "type")
            .or_else(|| object.iter().next().map(|(key, _)| key.to_owned()))
            .unwrap_or_default();
        let shape = shape.unwrap_or_else(|| recognise(&object));
        let id = id(&object, shape, name.as_deref());
        let (content_hash, findings) = (sha256_hex(raw.get()), findings(&id, raw.get()));
        Self { raw, shape, kind, name, id, content_hash, findings }
    }

    /// By what policies know it: the provider and its `type`, for Gemini its keys
    /// (`openai/web_search`, `gemini/googleSearch`, or `gemini/googleSearch+codeExecution` when they
    /// stand in one object). A name or a server's label is added if the type does not begin with it:
    /// `anthropic/bash_20250124`, but `openai/mcp:github`.
    ///
    /// # Example
    /// ```
    /// use toolrack::Listing;
    ///
    /// let listing = Listing::parse(
    ///     r#"[{"type": "bash_20250124", "name": "bash"}, {"type": "mcp", "server_label": "github"}]"#)?;
    /// let ids: Vec<String> = listing.builtins().iter().map(|one| one.id().to_string()).collect();
    /// assert_eq!(ids, ["anthropic/bash_20250124", "openai/mcp:github"]);
    /// # Ok::<(), toolrack::Error>(())
    /// ```
    pub fn id(&self) -> &ToolId {
        &self.id
    }

    /// SHA-256 (hexadecimal) over the definition as it was read.
    pub fn content_hash(&self) -> &str {
        &self.content_hash
    }

    /// The definition, byte for byte as it was read.
    pub fn json(&self) -> &str {
        self.raw.get()
    }

    /// The shape in which it is written; [`Shape::OpenAiChat`] only for what the responses API
    /// does not take.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Its `type`, or for Gemini's its key (`googleSearch`).
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The name by which the model calls it, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(crate) fn raw(&self) -> &Arc<RawValue> {
        &self.raw
    }

    /// What in the definition should be looked at.
    pub(crate) fn findings(&self) -> &[Finding] {
        &self.findings
    }
}

/// The type is always part of it: no tool may pass for another one by its name.
fn id(object: &RawObject, shape: Shape, name: Option<&str>) -> ToolId {
    let provider = match shape {
        Shape::Anthropic => "anthropic",
        Shape::Gemini => "gemini",
        _ => "openai",
    };
    let keys = || object.iter().map(|(key, _)| key).collect::<Vec<_>>().join("+");
    let mut kind = text(object, "type").unwrap_or_else(keys);
    let label = ["server_label", "mcp_server_name"].iter().find_map(|key| text(object, key));
    if let Some(more) = name.or(label.as_deref()).filter(|more| !kind.starts_with(more)) {
        kind = format!("{kind}:{more}");
    }
    ToolId::new(provider, kind).unwrap_or_else(|_| ToolId::nameless(provider))
}

fn text(object: &RawObject, key: &str) -> Option<String> {
    object.string(key).ok().flatten()
}

/// Anthropic dates its types in one piece (`bash_20250124`), OpenAI does not date them or with
/// joints (`web_search_preview_2025_03_11`), Gemini has none. New ones keep to that.
fn recognise(object: &RawObject) -> Shape {
    let Some(kind) = text(object, "type") else { return Shape::Gemini };
    if object.contains("custom") {
        return Shape::OpenAiChat;
    }
    let dated = kind
        .rsplit('_')
        .next()
        .is_some_and(|end| end.len() == 8 && end.bytes().all(|byte| byte.is_ascii_digit()));
    let undated = kind.starts_with("tool_search_tool_") || kind == "mcp_toolset";
    let named = object.contains("name") && !matches!(kind.as_str(), "custom" | "namespace");
    if dated || undated || named { Shape::Anthropic } else { Shape::OpenAiResponses }
}

/// Whether this is a provider's own tool: a type of its own and no schema, or no name at all.
pub(super) fn is_builtin(object: &RawObject) -> bool {
    let has_schema = ["parameters", "input_schema", "inputSchema", "parametersJsonSchema", NEST]
        .iter()
        .any(|key| object.contains(key));
    if has_schema {
        return false;
    }
    match object.string("type") {
        Ok(Some(kind)) => !matches!(kind.as_str(), "function" | "object"),
        _ => {
            // Gemini's: {"googleSearch": {}}.
            !object.contains("name")
                && object.len() > 0
                && object.iter().all(|(_, value)| value.get().trim_start().starts_with('{'))
        }
    }
}
