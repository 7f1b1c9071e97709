//! A rendered list.

use std::fmt;
use std::sync::Arc;

use serde::ser::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{schema, validity};
use crate::catalog::{Builtin, Shape, VisibleTool};
use crate::error::Result;
use crate::session::{Entry, FIND_TOOL, Visible};

/// Tool definitions as JSON, in order, in the form in which a request takes them: a list, for MCP
/// an object with the list at `tools`.
///
/// Put it into a request with serde (only `serde_json` can carry the bytes), or take
/// [`json`](Self::json).
#[derive(Debug, Clone)]
pub struct ToolList {
    pub(super) shape: Shape,
    items: Vec<Item>,
    left_out: Vec<LeftOut>,
    /// The client's own search tool.
    pub(super) search: String,
    /// Names in the request's history of which the list has no tool.
    pub(super) missing: Vec<String>,
}

#[derive(Debug, Clone)]
struct Item {
    raw: Arc<RawValue>,
    builtin: bool,
}

impl ToolList {
    pub(super) fn new(shape: Shape) -> Self {
        Self {
            shape,
            items: Vec::new(),
            left_out: Vec::new(),
            search: FIND_TOOL.to_owned(),
            missing: Vec::new(),
        }
    }

    /// The visible list with each entry as `definition` writes it. Built-in tools stand before
    /// everything that comes and goes, so that the list only grows at its end.
    pub(super) fn of(
        shape: Shape,
        visible: &Visible,
        definition: impl Fn(Entry<'_>) -> Arc<RawValue>,
    ) -> Self {
        let mut list = Self::new(shape);
        if let Some(meta) = visible.meta_tool() {
            list.search.clone_from(&meta.name);
        }
        for entry in visible.lead() {
            list.push(definition(entry));
        }
        list.push_builtins(visible, true);
        for entry in visible.rest() {
            list.push(definition(entry));
        }
        list
    }

    pub(super) fn push(&mut self, raw: Arc<RawValue>) {
        self.items.push(Item { raw, builtin: false });
    }

    /// Adds the built-in tools that the provider takes. One that searches deferred tools is an
    /// error where nothing is deferred, so it goes out only when `searched` built-in tools bring
    /// deferred ones along.
    pub(super) fn push_builtins(&mut self, visible: &Visible, searched: bool) {
        let deferring = searched && self.takes_deferring(visible);
        for builtin in visible.builtins() {
            let why = if !takes(self.shape, builtin.shape()) {
                format!("it is {}'s", provider(builtin.shape()))
            } else if is_search(builtin.kind()) && !deferring {
                "no other tool is deferred".to_owned()
            } else {
                self.items.push(Item { raw: Arc::clone(builtin.raw()), builtin: true });
                continue;
            };
            self.left_out.push(LeftOut { builtin: builtin.clone(), why });
        }
    }

    /// Whether a built-in tool that the provider takes brings deferred tools along.
    pub(super) fn takes_deferring(&self, visible: &Visible) -> bool {
        visible
            .builtins()
            .filter(|builtin| takes(self.shape, builtin.shape()))
            .filter_map(|builtin| serde_json::from_str(builtin.json()).ok())
            .any(|builtin| defers(&builtin))
    }

    /// How many definitions there are, built-in ones included.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The definitions' JSON texts, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.items.iter().map(|item| item.raw.get())
    }

    /// Built-in tools of the catalog that this provider does not take, each with the reason.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Names of tools that the history of the request refers to and the list lacks, once each, in
    /// order: they left the catalog or the caller's reach since they were found.
    ///
    /// Anthropic refuses such a request; [`forget_references`](crate::anthropic::forget_references)
    /// mends the history. Only [`anthropic::deferred`](crate::anthropic::deferred) knows a history;
    /// for any other list there are none.
    pub fn missing_references(&self) -> &[String] {
        &self.missing
    }

    /// The whole list as JSON.
    pub fn json(&self) -> String {
        let join = |builtin: Option<bool>| {
            let wanted =
                self.items.iter().filter(|item| builtin.is_none_or(|flag| item.builtin == flag));
            wanted.map(|item| item.raw.get()).collect::<Vec<_>>().join(",")
        };
        match self.shape {
            Shape::Mcp => format!(r#"{{"tools":[{}]}}"#, join(None)),
            Shape::Gemini => {
                let (builtins, declarations) = (join(Some(true)), join(Some(false)));
                let comma = if builtins.is_empty() || declarations.is_empty() { "" } else { "," };
                if declarations.is_empty() {
                    return format!("[{builtins}]");
                }
                format!(r#"[{builtins}{comma}{{"functionDeclarations":[{declarations}]}}]"#)
            }
            _ => format!("[{}]", join(None)),
        }
    }

    /// Whether the provider would take the list: names, their uniqueness, schemas, deferral, and how
    /// many there are of what it counts.
    ///
    /// What the adapters render keeps the rules by construction but for what the catalog brings
    /// along (a built-in tool with the name of another tool, a schema that the provider refuses) and
    /// the session's limit allows: OpenAI takes 128 tools, Gemini 512 functions. Whether the history
    /// fits the list is told by [`missing_references`](Self::missing_references).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidTool`](crate::ErrorKind::InvalidTool) for a name or a schema,
    /// [`DuplicateTool`](crate::ErrorKind::DuplicateTool) for a name that two tools have,
    /// [`InvalidSetting`](crate::ErrorKind::InvalidSetting) for deferral fields without a search
    /// tool, more tools or cache marks than the provider takes, or the like.
    ///
    /// # Example
    /// ```
    /// use toolrack::{Catalog, Engine, SessionOptions, anthropic};
    ///
    /// let catalog = Catalog::parse(
    ///     r#"[{"name": "bash"}, {"type": "bash_20250124", "name": "bash"}]"#)?;
    /// let run = Engine::builder(catalog).build()?.session(SessionOptions::default())?;
    /// assert_eq!(
    ///     anthropic::tools(run.visible()).validate().unwrap_err().to_string(),
    ///     "two tools of the list are called 'bash': rename one of them or give it a namespace",
    /// );
    /// # Ok::<(), toolrack::Error>(())
    /// ```
    pub fn validate(&self) -> Result<()> {
        let value = serde_json::from_str(&self.json()).unwrap_or_default();
        validity::check(self.shape, &value, &self.search)
    }
}

impl Default for ToolList {
    /// An empty list of OpenAI's chat completions.
    fn default() -> Self {
        Self::new(Shape::OpenAiChat)
    }
}

impl Serialize for ToolList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        raw(self.json()).serialize(serializer)
    }
}

impl fmt::Display for ToolList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.json())
    }
}

/// A built-in tool that is not in a list, and why.
#[derive(Debug, Clone)]
pub struct LeftOut {
    builtin: Builtin,
    why: String,
}

impl LeftOut {
    /// The tool.
    pub fn builtin(&self) -> &Builtin {
        &self.builtin
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "built-in tool '{}' is left out because {}", self.builtin.kind(), self.why)
    }
}

/// Whether a list of `list` shape takes a built-in tool of `builtin` shape. Servers that speak
/// OpenAI's chat completions take the built-in tools of its responses, more than OpenAI does.
fn takes(list: Shape, builtin: Shape) -> bool {
    list == builtin || (list == Shape::OpenAiChat && builtin == Shape::OpenAiResponses)
}

/// Whether a definition, or what it says of a server's tools, has `"defer_loading": true`.
pub(super) fn defers(definition: &Value) -> bool {
    match definition {
        Value::Object(fields) => {
            fields.get("defer_loading") == Some(&Value::Bool(true)) || fields.values().any(defers)
        }
        Value::Array(list) => list.iter().any(defers),
        _ => false,
    }
}

/// Whether a type is that of a provider's own tool search.
pub(super) fn is_search(kind: &str) -> bool {
    kind == "tool_search" || kind.starts_with("tool_search_tool_")
}

pub(super) fn provider(shape: Shape) -> &'static str {
    match shape {
        Shape::OpenAiChat | Shape::OpenAiResponses => "OpenAI",
        Shape::Anthropic => "Anthropic",
        Shape::Gemini => "Gemini",
        Shape::Mcp => "MCP",
        Shape::Native => "toolrack",
    }
}

/// The definition as it was read, under the tool's visible name and without the fields in `drop`,
/// when it came in `shape`. Of the parameters only what the provider refuses is mended: that they
/// do not say that they are an object and the like.
pub(super) fn as_it_came(
    shown: &VisibleTool,
    shape: Shape,
    drop: &[&str],
    more: Option<(&'static str, &str)>,
) -> Option<Arc<RawValue>> {
    let mut set: Vec<(&str, Arc<RawValue>)> = Vec::new();
    let schema = match shape {
        Shape::OpenAiChat | Shape::OpenAiResponses => "parameters",
        Shape::Anthropic => "input_schema",
        Shape::Mcp => "inputSchema",
        Shape::Gemini => {
            let parameters = shown.tool.original_field("parameters");
            let empty = parameters.is_some_and(schema::is_empty_object);
            let drop: &[&str] = if empty { &["parameters"] } else { drop };
            return shown.tool.original_in(shape, &shown.name, drop, &[]);
        }
        Shape::Native => return None,
    };
    if let Some(mended) = schema::mended(&shown.tool, shape) {
        set.push((schema, raw(mended)));
    }
    set.extend(more.map(|(key, value)| (key, raw(value.to_owned()))));
    shown.tool.original_in(shape, &shown.name, drop, &set)
}

/// `text`, which is JSON by construction.
pub(super) fn raw(text: String) -> Arc<RawValue> {
    match RawValue::from_string(text) {
        Ok(raw) => Arc::from(raw),
        // Parts are JSON strings and schemas that were parsed when the tool was built.
        Err(error) => unreachable!("a definition that is no JSON: {error}"),
    }
}

/// `text` as a JSON string.
pub(super) fn quote(text: &str) -> String {
    Value::from(text).to_string()
}
