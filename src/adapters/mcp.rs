//! The Model Context Protocol, for servers and gateways.
//!
//! Target: revision 2025-11-25 (2025-06-18 takes the same). A client caches the listing: after
//! [`find_tool`](crate::Session::find_tool) send `notifications/tools/list_changed` and answer the
//! `tools/list` that follows with a list rendered anew, or the model never sees what was loaded.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::answer::Answer;
use super::list::{ToolList, as_it_came, quote, raw};
use super::{schema, text, validity};
use crate::catalog::{Risk, Shape, Tool};
use crate::error::Result;
use crate::session::{Call, Entry, FIND_TOOL, Visible};

/// The result of a `tools/list` request: an object with the list at `tools`, on one page.
///
/// A tool that came from MCP keeps its annotations, title and output schema. Any other says what
/// its policy says of the risk; one whose risk was never stated says nothing, which clients take for
/// the worst. Providers' built-in tools are left out: no MCP client can call them.
///
/// Render it for every `tools/list`: after [`find_tool`](crate::Session::find_tool) an old list
/// lacks what the model was just told it can call.
///
/// # Example
/// ```
/// use toolrack::{Catalog, Engine, Risk, SessionOptions, Tool, mcp};
///
/// let tool = Tool::builder("wipe").description("Erase a disk.").risk(Risk::Destructive).build()?;
/// let catalog = Catalog::from_tools([tool])?;
/// let run = Engine::builder(catalog).build()?.session(SessionOptions::default())?;
/// assert_eq!(
///     mcp::tools(run.visible()).json(),
///     r#"{"tools":[{"name":"wipe","description":"Erase a disk.","inputSchema":{"type":"object","properties":{}},"annotations":{"readOnlyHint":false,"destructiveHint":true}}]}"#,
/// );
/// # Ok::<(), toolrack::Error>(())
/// ```
pub fn tools(visible: impl AsRef<Visible>) -> ToolList {
    ToolList::of(Shape::Mcp, visible.as_ref(), |entry| match entry {
        Entry::Tool(shown) => shown.rendered(Shape::Mcp, |shown| {
            as_it_came(shown, Shape::Mcp, &[], None).unwrap_or_else(|| {
                let tool = &shown.tool;
                let schema = schema::object(tool, Shape::Mcp);
                definition(&shown.name, tool.title(), tool.description(), &schema, hints(tool))
            })
        }),
        // Searching changes no world, only the list.
        Entry::Meta(meta) => definition(
            &meta.name,
            None,
            &meta.description,
            &meta.parameters,
            Some(r#"{"readOnlyHint":true}"#),
        ),
    })
}

fn definition(
    name: &str,
    title: Option<&str>,
    description: &str,
    schema: &str,
    annotations: Option<&str>,
) -> Arc<RawValue> {
    let title = title.map(|title| format!(r#""title":{},"#, quote(title))).unwrap_or_default();
    let annotations = annotations.map(|hints| format!(r#","annotations":{hints}"#));
    raw(format!(
        r#"{{"name":{},{title}"description":{},"inputSchema":{schema}{}}}"#,
        quote(name),
        quote(description),
        annotations.unwrap_or_default()
    ))
}

fn hints(tool: &Tool) -> Option<&'static str> {
    match tool.policy().risk {
        Risk::Read if tool.states_risk() => Some(r#"{"readOnlyHint":true}"#),
        Risk::Read => None,
        Risk::Write => Some(r#"{"readOnlyHint":false,"destructiveHint":false}"#),
        Risk::Destructive => Some(r#"{"readOnlyHint":false,"destructiveHint":true}"#),
    }
}

/// The call in a `tools/call` request or in its `params`; none in anything else.
///
/// The call's id is that of the request, a number in decimal; answer under the request's own.
///
/// # Example
/// ```
/// use serde_json::json;
/// use toolrack::mcp;
///
/// let request = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
///     "params": {"name": "add", "arguments": {"a": 1}}});
/// assert_eq!(mcp::calls(&request)[0].arguments["a"], 1);
/// assert!(mcp::calls(&json!({"id": 8, "method": "tools/list", "params": {}})).is_empty());
/// ```
pub fn calls(request: &Value) -> Vec<Call> {
    let other = text(request, "method").is_some_and(|method| method != "tools/call");
    let params = request.get("params").unwrap_or(request);
    let Some(name) = text(params, "name").filter(|_| !other) else { return Vec::new() };
    let id = request.get("id").and_then(|id| match id {
        Value::String(id) => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    });
    vec![Call { id, name: name.to_owned(), arguments: super::arguments(params.get("arguments")) }]
}

/// The `result` of a `tools/call` response.
///
/// An answer with data carries it as `structuredContent`, which is an object: any other data stands
/// in one, at `result`. A refusal or a failure is `isError`, which the model reads, not a protocol
/// error, which it would not.
///
/// # Example
/// ```
/// use serde_json::json;
/// use toolrack::{Call, mcp};
///
/// assert_eq!(
///     mcp::result(&Call::new("add", json!({})), "3"),
///     json!({"content": [{"type": "text", "text": "3"}], "isError": false}),
/// );
/// ```
pub fn result(_call: &Call, answer: impl Into<Answer>) -> Value {
    let answer = answer.into();
    let mut result = json!({
        "content": [{"type": "text", "text": answer.text()}],
        "isError": answer.is_error(),
    });
    if let Some(data) = answer.data() {
        result["structuredContent"] =
            if data.is_object() { data.clone() } else { json!({"result": data}) };
    }
    result
}

/// Checks a listing that was changed after it was rendered.
///
/// # Errors
/// As [`ToolList::validate`].
pub fn validate(listing: &Value) -> Result<()> {
    validity::check(Shape::Mcp, listing, FIND_TOOL)
}
