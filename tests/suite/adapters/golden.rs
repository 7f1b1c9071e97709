//! Rendered lists against files that were read beside the providers' documentation. No provider has
//! been sent them; `openai.json` holds a built-in tool that OpenAI itself takes in responses only.
//!
//! `TOOLRACK_WRITE_GOLDEN=1` writes them anew; read the difference before it is committed.

use std::path::PathBuf;

use serde_json::json;
use toolrack::anthropic::Search;
use toolrack::{Session, SessionOptions, ToolList, anthropic, gemini, mcp, openai};

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/golden"))
}

/// All shapes mixed; two tools are not visible.
fn mixed() -> Session {
    let text = std::fs::read_to_string(folder().join("catalog.json")).unwrap();
    let shown = [
        "read_state",
        "list_invoices",
        "get_payment",
        "create_ticket",
        "delete_file",
        "book_room",
        "grep",
        "kalender/会議",
    ];
    super::session(&text, SessionOptions::default().core(shown).limit(9))
}

fn compare(name: &str, list: &ToolList) {
    let path = folder().join(name);
    let text = format!("{}\n", list.json());
    if std::env::var_os("TOOLRACK_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert!(text == golden, "{name}\nrendered: {text}golden:   {golden}");
    list.validate().unwrap();
    // With serde the same bytes reach the request.
    assert_eq!(serde_json::to_string(list).unwrap() + "\n", golden);
}

#[test]
fn openai_chat_completions() {
    compare("openai.json", &openai::tools(mixed().visible()));
}

#[test]
fn openai_responses() {
    compare("openai_responses.json", &openai::responses::tools(mixed().visible()));
}

#[test]
fn anthropic_plain() {
    compare("anthropic.json", &anthropic::tools(mixed().visible()));
}

#[test]
fn anthropic_with_its_own_search() {
    let run = mixed();
    for (name, search) in
        [("anthropic_bm25.json", Search::Bm25), ("anthropic_regex.json", Search::Regex)]
    {
        compare(name, &anthropic::deferred(&run, search, &json!([])).unwrap());
    }
}

#[test]
fn anthropic_with_find_tool_as_search() {
    let list = anthropic::deferred(&mixed(), Search::Client, &json!([])).unwrap();
    compare("anthropic_client.json", &list);
}

#[test]
fn mcp_listing() {
    compare("mcp.json", &mcp::tools(mixed().visible()));
}

#[test]
fn gemini_declarations() {
    compare("gemini.json", &gemini::tools(mixed().visible()));
}
