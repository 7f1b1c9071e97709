//! Adapters: golden files, stable bytes, self-consistent lists, and the stale list.

mod bytes;
mod consistency;
mod golden;
#[cfg(feature = "rig")]
mod rig;
mod rules;
mod stale;

use serde_json::{Value, json};
use toolrack::{
    Answer, Call, Catalog, Engine, Session, SessionOptions, ToolList, anthropic, gemini, mcp,
    openai,
};

/// One adapter under test.
struct Adapter {
    name: &'static str,
    list: fn(&Session) -> ToolList,
    /// Callable names in a rendered list.
    names: fn(&Value) -> Vec<String>,
    /// What the model says to call a tool.
    says: fn(&str, Value) -> Value,
    calls: fn(&Value) -> Vec<Call>,
    result: fn(&Call, Answer) -> Value,
}

const ADAPTERS: [Adapter; 5] = [
    Adapter {
        name: "openai",
        list: |run| openai::tools(run.visible()),
        names: |list| names(list.as_array(), |entry| &entry["function"]),
        says: |name, arguments| {
            json!({"choices": [{"message": {"role": "assistant", "tool_calls": [{"id": "c1",
                "type": "function", "function": {"name": name, "arguments": arguments.to_string()}}]}}]})
        },
        calls: openai::calls,
        result: |call, answer| openai::result(call, answer),
    },
    Adapter {
        name: "openai responses",
        list: |run| openai::responses::tools(run.visible()),
        names: |list| names(list.as_array(), |entry| entry),
        says: |name, arguments| {
            json!({"output": [{"type": "function_call", "call_id": "c1", "name": name,
                "arguments": arguments.to_string()}]})
        },
        calls: openai::responses::calls,
        result: |call, answer| openai::responses::result(call, answer),
    },
    Adapter {
        name: "anthropic",
        list: |run| anthropic::tools(run.visible()),
        names: |list| names(list.as_array(), |entry| entry),
        says: |name, arguments| {
            json!({"role": "assistant", "content": [
                {"type": "text", "text": "One moment."},
                {"type": "tool_use", "id": "c1", "name": name, "input": arguments}]})
        },
        calls: anthropic::calls,
        result: |call, answer| anthropic::result(call, answer),
    },
    Adapter {
        name: "mcp",
        list: |run| mcp::tools(run.visible()),
        names: |list| names(list["tools"].as_array(), |entry| entry),
        says: |name, arguments| {
            json!({"jsonrpc": "2.0", "id": "c1", "method": "tools/call",
                "params": {"name": name, "arguments": arguments}})
        },
        calls: mcp::calls,
        result: |call, answer| mcp::result(call, answer),
    },
    Adapter {
        name: "gemini",
        list: |run| gemini::tools(run.visible()),
        names: |list| {
            let groups = list.as_array().into_iter().flatten();
            groups
                .flat_map(|group| names(group["functionDeclarations"].as_array(), |entry| entry))
                .collect()
        },
        says: |name, arguments| {
            json!({"candidates": [{"content": {"role": "model", "parts": [
                {"functionCall": {"id": "c1", "name": name, "args": arguments}}]}}]})
        },
        calls: gemini::calls,
        result: |call, answer| gemini::result(call, answer),
    },
];

fn names(list: Option<&Vec<Value>>, of: fn(&Value) -> &Value) -> Vec<String> {
    let named = list.into_iter().flatten().filter_map(|entry| of(entry)["name"].as_str());
    named.map(str::to_owned).collect()
}

fn value(list: &ToolList) -> Value {
    serde_json::from_str(&list.json()).unwrap()
}

fn engine(text: &str) -> Engine {
    Engine::builder(Catalog::parse(text).unwrap()).without_embedder().build().unwrap()
}

fn session(text: &str, options: SessionOptions) -> Session {
    engine(text).session(options).unwrap()
}

/// Six tools, one of which is core, with room for four.
fn six() -> Session {
    let text = r#"[
        {"name": "read_state", "description": "Read the notes of this run."},
        {"name": "list_invoices", "description": "List the invoices of a month."},
        {"name": "list_payments", "description": "List payments in the ledger."},
        {"name": "create_ticket", "description": "Open a helpdesk ticket."},
        {"name": "book_room", "description": "Reserve a meeting room."},
        {"name": "send_mail", "description": "Send an e-mail."},
        {"type": "web_search"}, {"type": "web_search_20250305", "name": "web_search"},
        {"googleSearch": {}}]"#;
    session(text, SessionOptions::default().core(["read_state"]).limit(4).retrieve(0))
}
