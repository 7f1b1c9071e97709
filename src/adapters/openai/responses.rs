//! OpenAI's responses API (`POST /v1/responses`, as of 2026).
//!
//! Render the list anew after each [`find_tool`](crate::Session::find_tool): one that is rendered once
//! a turn never holds what the reply says is loaded.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::answer::Answer;
use super::super::list::{ToolList, as_it_came, quote, raw};
use super::super::{arguments, items, schema, text, validity};
use crate::catalog::Shape;
use crate::error::Result;
use crate::session::{Call, Entry, FIND_TOOL, Visible};

/// The list for `tools` of a responses request.
///
/// This API takes functions as strict unless they say otherwise and then makes every parameter
/// mandatory, so a definition that did not come from OpenAI says `"strict":false`. A `defer_loading`
/// that came along is dropped: what is visible is meant to be seen, and without a search tool the
/// request would be refused.
///
/// Render it for every request: after [`find_tool`](crate::Session::find_tool) an old list lacks
/// what the model was just told it can call.
///
/// # Example
/// ```
/// use toolrack::{Catalog, Engine, SessionOptions, openai};
///
/// let catalog = Catalog::parse(r#"[{"name": "add", "description": "Add numbers."}]"#)?;
/// let run = Engine::builder(catalog).build()?.session(SessionOptions::default())?;
/// assert_eq!(
///     openai::responses::tools(run.visible()).json(),
///     r#"[{"type":"function","name":"add","description":"Add numbers.","parameters":{"type":"object","properties":{}},"strict":false}]"#,
/// );
/// # Ok::<(), toolrack::Error>(())
/// ```
pub fn tools(visible: impl AsRef<Visible>) -> ToolList {
    ToolList::of(Shape::OpenAiResponses, visible.as_ref(), |entry| match entry {
        Entry::Tool(shown) => shown.rendered(Shape::OpenAiResponses, |shown| {
            as_it_came(shown, Shape::OpenAiResponses, &["defer_loading"], None).unwrap_or_else(
                || {
                    let chat = shown.tool.shape() == Some(Shape::OpenAiChat);
                    let strict = shown.tool.original_field("strict").filter(|_| chat);
                    let parameters = schema::object(&shown.tool, Shape::OpenAiResponses);
                    function(&shown.name, shown.tool.description(), &parameters, strict)
                },
            )
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
        r#"{{"type":"function","name":{},"description":{},"parameters":{parameters},"strict":{}}}"#,
        quote(name),
        quote(description),
        strict.unwrap_or("false")
    ))
}

/// The calls in a response, in its `output`, or in a single output item, in order.
///
/// Calls of built-in and custom tools are left to the runtime, which passed them in.
///
/// # Example
/// ```
/// use serde_json::json;
/// use toolrack::openai;
///
/// let response = json!({"output": [{"type": "reasoning", "id": "rs_1"},
///     {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "add", "arguments": "{}"}]});
/// assert_eq!(openai::responses::calls(&response)[0].id.as_deref(), Some("c1"));
/// ```
pub fn calls(answer: &Value) -> Vec<Call> {
    let listed = answer.as_array().into_iter().flatten();
    let output = listed.chain(items(answer, "output")).chain([answer]);
    output
        .filter(|item| text(item, "type") == Some("function_call"))
        .filter_map(|item| {
            Some(Call {
                id: text(item, "call_id").map(str::to_owned),
                name: text(item, "name")?.to_owned(),
                arguments: arguments(item.get("arguments")),
            })
        })
        .collect()
}

/// The input item that answers a call; one follows for each call.
///
/// # Example
/// ```
/// use serde_json::json;
/// use toolrack::{Call, openai};
///
/// let call = Call::new("add", json!({})).with_id("c1");
/// assert_eq!(
///     openai::responses::result(&call, "3"),
///     json!({"type": "function_call_output", "call_id": "c1", "output": "3"}),
/// );
/// ```
pub fn result(call: &Call, answer: impl Into<Answer>) -> Value {
    json!({
        "type": "function_call_output",
        "call_id": call.id.as_deref().unwrap_or_default(),
        "output": answer.into().text(),
    })
}

/// Checks a list that was changed after it was rendered.
///
/// # Errors
/// As [`ToolList::validate`].
///
/// # Example
/// ```
/// use serde_json::json;
/// use toolrack::openai;
///
/// let list = json!([{"type": "function", "name": "a", "defer_loading": true},
///                   {"type": "function", "name": "b"}]);
/// assert_eq!(
///     openai::responses::validate(&list).unwrap_err().to_string(),
///     "tool 'a' is deferred but the list has no search tool: add one or remove defer_loading",
/// );
/// ```
pub fn validate(tools: &Value) -> Result<()> {
    validity::check(Shape::OpenAiResponses, tools, FIND_TOOL)
}
