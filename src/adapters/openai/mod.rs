//! OpenAI: chat completions here, the responses API in [`responses`].
//!
//! Target: `POST /v1/chat/completions` as of 2026; every server that speaks it takes the same.
//! Names are at most 64 of `[a-zA-Z0-9_-]`. OpenAI's own tool search exists in the responses API
//! only.
//!
//! OpenAI itself takes the types `function` and `custom` here, the latter with its fields at `custom`.
//! Built-in tools of the responses API (`web_search`, `file_search`, a flat `custom`) go out all the
//! same, since other servers that speak this API take them: keep them out of a catalog that is sent to
//! OpenAI by chat completions.
//!
//! Render the list anew after each [`find_tool`](crate::Session::find_tool): one that is rendered once
//! a turn never holds what the reply says is loaded.

pub mod responses;

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::answer::Answer;
use super::list::{ToolList, as_it_came, quote, raw};
use super::{arguments, items, schema, text, validity};
use crate::catalog::Shape;
use crate::error::Result;
use crate::session::{Call, Entry, FIND_TOOL, Visible};

/// The list for `tools` of a chat completions request.
///
/// Render it for every request: after [`find_tool`](crate::Session::find_tool) an old list lacks
/// what the model was just told it can call.
///
/// # Example
/// ```
/// use toolrack::{Catalog, Engine, SessionOptions, openai};
///
/// let catalog = Catalog::parse(r#"[{"name": "add", "description": "Add numbers."}]"#)?;
/// let engine = Engine::builder(catalog).build()?;
/// let run = engine.session(SessionOptions::default())?;
/// assert_eq!(
///     openai::tools(run.visible()).json(),
///     r#"[{"type":"function","function":{"name":"add","description":"Add numbers.","parameters":{"type":"object","properties":{}}}}]"#,
/// );
/// # Ok::<(), toolrack::Error>(())
/// ```
pub fn tools(visible: impl AsRef<Visible>) -> ToolList {
    ToolList::of(Shape::OpenAiChat, visible.as_ref(), |entry| match entry {
        Entry::Tool(shown) => shown.rendered(Shape::OpenAiChat, |shown| {
            as_it_came(shown, Shape::OpenAiChat, &[], None).unwrap_or_else(|| {
                let responses = shown.tool.shape() == Some(Shape::OpenAiResponses);
                let strict = shown.tool.original_field("strict").filter(|_| responses);
                let parameters = schema::object(&shown.tool, Shape::OpenAiChat);
                function(&shown.name, shown.tool.description(), &parameters, strict)
            })
        }),
        Entry::Meta(meta) => function(&meta.name, &meta.description, &meta.parameters, None),
    })
}

fn function(
    name: &str,
    description: &str,
    parameters: &str,
    strict: Option<&str>,
) -> Arc<RawValue> {
    raw(format!(
        r#"{{"type":"function","function":{{"name":{},"description":{},"parameters":{parameters}{}}}}}"#,
        quote(name),
        quote(description),
        strict.map(|flag| format!(r#","strict":{flag}"#)).unwrap_or_default()
    ))
}

/// The calls in a chat completions response, or in its assistant message, in order.
///
/// Calls of custom tools are left to the runtime, which passed them in. Arguments that are not
/// JSON stay a string, for the runtime to refuse in words.
///
/// # Example
/// ```
/// use serde_json::json;
/// use toolrack::openai;
///
/// let message = json!({"role": "assistant", "tool_calls": [
///     {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{\"a\": 1}"}}]});
/// let calls = openai::calls(&message);
/// assert_eq!((calls[0].name.as_str(), &calls[0].arguments["a"]), ("add", &json!(1)));
/// ```
pub fn calls(answer: &Value) -> Vec<Call> {
    let message = answer.pointer("/choices/0/message").unwrap_or(answer);
    items(message, "tool_calls")
        .filter_map(|call| {
            let function = call.get("function")?;
            Some(Call {
                id: text(call, "id").map(str::to_owned),
                name: text(function, "name")?.to_owned(),
                arguments: arguments(function.get("arguments")),
            })
        })
        .collect()
}

/// The message that answers a call; one follows the assistant message for each of its calls.
///
/// # Example
/// ```
/// use serde_json::json;
/// use toolrack::{Call, openai};
///
/// let call = Call::new("add", json!({})).with_id("c1");
/// assert_eq!(
///     openai::result(&call, "3"),
///     json!({"role": "tool", "tool_call_id": "c1", "content": "3"}),
/// );
/// ```
pub fn result(call: &Call, answer: impl Into<Answer>) -> Value {
    json!({
        "role": "tool",
        "tool_call_id": call.id.as_deref().unwrap_or_default(),
        "content": answer.into().text(),
    })
}

/// Checks a list that was changed after it was rendered.
///
/// # Errors
/// As [`ToolList::validate`].
pub fn validate(tools: &Value) -> Result<()> {
    validity::check(Shape::OpenAiChat, tools, FIND_TOOL)
}
