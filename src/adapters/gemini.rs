//! Gemini: `generateContent`.
//!
//! Target: the Gemini API `v1beta` and Vertex AI `v1`, both as of 2026, which take plain JSON schema
//! at `parametersJsonSchema`. A definition that came in Gemini's shape keeps its `parameters` in
//! Gemini's own dialect, but for an object without properties, which is left out: Gemini refuses it.
//! Names begin with a letter or an underscore and are at most 64 of `[a-zA-Z0-9_.:-]`.
//!
//! A built-in tool beside functions, such as `googleSearch`, is taken only from Gemini 3 on, and only
//! with `"toolConfig": {"includeServerSideToolInvocations": true}` in the request, which is the
//! caller's to add.
//!
//! Render the list anew after each [`find_tool`](crate::Session::find_tool): one that is rendered once
//! a turn never holds what the reply says is loaded.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::answer::Answer;
use super::list::{ToolList, as_it_came, quote, raw};
use super::{items, schema, text, validity};
use crate::catalog::Shape;
use crate::error::Result;
use crate::session::{Call, Entry, FIND_TOOL, Visible};

/// The list for `tools` of a `generateContent` request: built-in tools, then one group of
/// `functionDeclarations`.
///
/// Render it for every request: after [`find_tool`](crate::Session::find_tool) an old list lacks
/// what the model was just told it can call.
///
/// # Example
/// ```
/// use toolrack::{Catalog, Engine, SessionOptions, gemini};
///
/// let catalog = Catalog::parse(
///     r#"[{"name": "add", "description": "Add numbers.", "inputSchema": {"type": "object"}}]"#)?;
/// let run = Engine::builder(catalog).build()?.session(SessionOptions::default())?;
/// assert_eq!(
///     gemini::tools(run.visible()).json(),
///     r#"[{"functionDeclarations":[{"name":"add","description":"Add numbers.","parametersJsonSchema":{"type": "object"}}]}]"#,
/// );
/// # Ok::<(), toolrack::Error>(())
/// ```
pub fn tools(visible: impl AsRef<Visible>) -> ToolList {
    ToolList::of(Shape::Gemini, visible.as_ref(), |entry| match entry {
        Entry::Tool(shown) => shown.rendered(Shape::Gemini, |shown| {
            as_it_came(shown, Shape::Gemini, &[], None).unwrap_or_else(|| {
                // A function without parameters leaves them out.
                let schema =
                    shown.tool.parameters().map(|_| schema::object(&shown.tool, Shape::Gemini));
                declaration(&shown.name, shown.tool.description(), schema.as_deref())
            })
        }),
        Entry::Meta(meta) => declaration(&meta.name, &meta.description, Some(&meta.parameters)),
    })
}

fn declaration(name: &str, description: &str, schema: Option<&str>) -> Arc<RawValue> {
    let schema = schema.map(|schema| format!(r#","parametersJsonSchema":{schema}"#));
    raw(format!(
        r#"{{"name":{},"description":{}{}}}"#,
        quote(name),
        quote(description),
        schema.unwrap_or_default()
    ))
}

/// The calls in a response, its first candidate, or its content, in order; in all of them when they
/// are a list, as a stream's responses are. Fields may be spelt in snake case (`function_call`).
///
/// Send the model's content back as it came: its parts carry thought signatures.
///
/// # Example
/// ```
/// use serde_json::json;
/// use toolrack::gemini;
///
/// let response = json!({"candidates": [{"content": {"role": "model", "parts": [
///     {"functionCall": {"name": "add", "args": {"a": 1}}, "thoughtSignature": "…"}]}}]});
/// assert_eq!(gemini::calls(&response)[0].arguments["a"], 1);
/// ```
pub fn calls(response: &Value) -> Vec<Call> {
    let responses = response.as_array().map_or(std::slice::from_ref(response), Vec::as_slice);
    responses
        .iter()
        .flat_map(|response| {
            let candidate = response.pointer("/candidates/0").unwrap_or(response);
            items(candidate.get("content").unwrap_or(candidate), "parts")
        })
        .filter_map(|part| {
            let call = part.get("functionCall").or_else(|| part.get("function_call"))?;
            Some(Call {
                id: text(call, "id").map(str::to_owned),
                name: text(call, "name")?.to_owned(),
                arguments: super::arguments(call.get("args")),
            })
        })
        .collect()
}

/// The part that answers a call. The parts of all calls of a content go into one [`message`], in
/// the order of the calls.
///
/// # Example
/// ```
/// use serde_json::json;
/// use toolrack::{Call, gemini};
///
/// let call = Call::new("add", json!({}));
/// assert_eq!(
///     gemini::message([gemini::result(&call, "3")]),
///     json!({"role": "user", "parts": [
///         {"functionResponse": {"name": "add", "response": {"output": "3"}}}]}),
/// );
/// ```
pub fn result(call: &Call, answer: impl Into<Answer>) -> Value {
    let answer = answer.into();
    let key = if answer.is_error() { "error" } else { "output" };
    let mut response = json!({"name": call.name, "response": {key: answer.text()}});
    if let Some(id) = &call.id {
        response["id"] = id.as_str().into();
    }
    json!({"functionResponse": response})
}

/// The content that carries the answers to all calls of the content before.
pub fn message(results: impl IntoIterator<Item = Value>) -> Value {
    json!({"role": "user", "parts": results.into_iter().collect::<Vec<_>>()})
}

/// Checks a list that was changed after it was rendered.
///
/// # Errors
/// As [`ToolList::validate`].
pub fn validate(tools: &Value) -> Result<()> {
    validity::check(Shape::Gemini, tools, FIND_TOOL)
}
