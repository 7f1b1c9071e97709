//! Anthropic: the messages API.
//!
//! Target: `POST /v1/messages`, `anthropic-version: 2023-06-01`, as of 2026. Three ways:
//!
//! - [`tools`]: what is visible, and nothing else.
//! - [`deferred`] with [`Search::Bm25`] or [`Search::Regex`]: all that the caller may use, what is
//!   not visible with `defer_loading`, and Anthropic's own search in place of `find_tool`.
//! - [`deferred`] with [`Search::Client`]: the same with `find_tool` as the search, answered by
//!   [`references`]: this project's ranking, and a prompt cache that no search breaks.
//!
//! With [`tools`], render the list anew after each [`find_tool`](crate::Session::find_tool): one that is
//! rendered once a turn never holds what the reply says is loaded. A [`deferred`] list holds all
//! definitions from the start; there it is the `tool_reference` blocks that must not be left out.

mod deferred;

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};

pub use deferred::{Referenced, Search, deferred, discovered, forget_references, references};

use super::answer::Answer;
use super::list::{ToolList, as_it_came, quote, raw};
use super::{items, schema, text, validity};
use crate::catalog::{Shape, VisibleTool};
use crate::error::Result;
use crate::session::{Call, Entry, FIND_TOOL, MetaTool, Visible};

/// `anthropic-beta` header for tool search on Anthropic's API and Microsoft Foundry, where a model
/// or an account still has it as a beta.
pub const TOOL_SEARCH_BETA: &str = "advanced-tool-use-2025-11-20";
/// The same on Google Vertex AI and Amazon Bedrock (there by `InvokeModel` only).
pub const TOOL_SEARCH_BETA_CLOUD: &str = "tool-search-tool-2025-10-19";

/// The list for `tools` of a messages request: what is visible.
///
/// A `defer_loading` that came along is dropped, and Anthropic's tool search left out: what is
/// visible is meant to be seen. For deferral use [`deferred`].
///
/// Render it for every request: after [`find_tool`](crate::Session::find_tool) an old list lacks
/// what the model was just told it can call.
///
/// # Example
/// ```
/// use toolrack::{Catalog, Engine, SessionOptions, anthropic};
///
/// let catalog = Catalog::parse(r#"[{"name": "add", "description": "Add numbers."}]"#)?;
/// let run = Engine::builder(catalog).build()?.session(SessionOptions::default())?;
/// assert_eq!(
///     anthropic::tools(run.visible()).json(),
///     r#"[{"name":"add","description":"Add numbers.","input_schema":{"type":"object","properties":{}}}]"#,
/// );
/// # Ok::<(), toolrack::Error>(())
/// ```
pub fn tools(visible: impl AsRef<Visible>) -> ToolList {
    ToolList::of(Shape::Anthropic, visible.as_ref(), |entry| match entry {
        Entry::Tool(shown) => tool(shown),
        Entry::Meta(meta) => meta_tool(meta),
    })
}

/// A tool in full.
fn tool(shown: &VisibleTool) -> Arc<RawValue> {
    shown.rendered(Shape::Anthropic, |shown| written(shown, &["defer_loading"], None))
}

fn written(
    shown: &VisibleTool,
    drop: &[&str],
    more: Option<(&'static str, &str)>,
) -> Arc<RawValue> {
    as_it_came(shown, Shape::Anthropic, drop, more).unwrap_or_else(|| {
        let parameters = schema::object(&shown.tool, Shape::Anthropic);
        let more = more.map(|(key, value)| format!(r#","{key}":{value}"#)).unwrap_or_default();
        definition(&shown.name, shown.tool.description(), &parameters, &more)
    })
}

fn meta_tool(meta: &MetaTool) -> Arc<RawValue> {
    definition(&meta.name, &meta.description, &meta.parameters, "")
}

fn definition(name: &str, description: &str, schema: &str, more: &str) -> Arc<RawValue> {
    raw(format!(
        r#"{{"name":{},"description":{},"input_schema":{schema}{more}}}"#,
        quote(name),
        quote(description),
    ))
}

/// The calls in a messages response, in order.
///
/// What Anthropic runs itself (`server_tool_use`) is not among them.
///
/// # Example
/// ```
/// use serde_json::json;
/// use toolrack::anthropic;
///
/// let message = json!({"role": "assistant", "content": [{"type": "text", "text": "Adding."},
///     {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}}]});
/// assert_eq!(anthropic::calls(&message)[0].arguments["a"], 1);
/// ```
pub fn calls(message: &Value) -> Vec<Call> {
    items(message, "content")
        .filter(|block| text(block, "type") == Some("tool_use"))
        .filter_map(|block| {
            Some(Call {
                id: text(block, "id").map(str::to_owned),
                name: text(block, "name")?.to_owned(),
                arguments: super::arguments(block.get("input")),
            })
        })
        .collect()
}

/// The block that answers a call. The blocks of all calls of a message go into one [`message`].
///
/// # Example
/// ```
/// use serde_json::json;
/// use toolrack::{Call, anthropic};
///
/// let call = Call::new("add", json!({})).with_id("toolu_1");
/// assert_eq!(
///     anthropic::message([anthropic::result(&call, "3")]),
///     json!({"role": "user", "content": [
///         {"type": "tool_result", "tool_use_id": "toolu_1", "content": "3"}]}),
/// );
/// ```
pub fn result(call: &Call, answer: impl Into<Answer>) -> Value {
    let answer = answer.into();
    let mut block = json!({
        "type": "tool_result",
        "tool_use_id": call.id.as_deref().unwrap_or_default(),
        "content": answer.text(),
    });
    if answer.is_error() {
        block["is_error"] = Value::Bool(true);
    }
    block
}

/// The user message that carries the answers to all calls of the message before.
pub fn message(results: impl IntoIterator<Item = Value>) -> Value {
    json!({"role": "user", "content": results.into_iter().collect::<Vec<_>>()})
}

/// Checks a list that was changed after it was rendered. A search tool is Anthropic's or one
/// called [`FIND_TOOL`]; [`ToolList::validate`] knows a meta-tool of another name.
///
/// # Errors
/// As [`ToolList::validate`].
///
/// # Example
/// ```
/// use serde_json::json;
/// use toolrack::anthropic;
///
/// let list = json!([{"name": "a", "input_schema": {"type": "object"}, "defer_loading": true}]);
/// assert_eq!(
///     anthropic::validate(&list).unwrap_err().to_string(),
///     "every tool of the list is deferred: leave one, such as the search tool, without defer_loading",
/// );
/// ```
pub fn validate(tools: &Value) -> Result<()> {
    validity::check(Shape::Anthropic, tools, FIND_TOOL)
}
