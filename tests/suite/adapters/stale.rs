//! The bug that users hit most: a list that is not read again after `find_tool`.

use serde_json::{Value, json};
use toolrack::{Answer, Call, Verdict};

use super::{ADAPTERS, Adapter, six, value};

/// A model that wants a ticket, looks for the tool, and calls it when it was sent. Tells whether the
/// call ran.
fn run_loop(adapter: &Adapter, reads_again: bool) -> bool {
    let mut run = six();
    run.turn("which invoices did we send last month?").unwrap();
    let mut list: Value = value(&(adapter.list)(&run));
    for _ in 0..4 {
        if reads_again {
            list = value(&(adapter.list)(&run));
        }
        // The model can only call what it was sent.
        let sent = (adapter.names)(&list);
        let said = if sent.iter().any(|name| name == "create_ticket") {
            (adapter.says)("create_ticket", json!({"subject": "mismatch"}))
        } else {
            assert!(sent.iter().any(|name| name == "find_tool"), "{}: {sent:?}", adapter.name);
            (adapter.says)("find_tool", json!({"names": ["create_ticket"]}))
        };
        let calls: Vec<Call> = (adapter.calls)(&said);
        assert_eq!(calls.len(), 1, "{}", adapter.name);
        match run.authorize(&calls[0]).unwrap() {
            Verdict::MetaTool(request) => {
                let reply = run.find_tool(&request).unwrap();
                assert!(reply.text().contains("create_ticket"), "{}", adapter.name);
                let result = (adapter.result)(&calls[0], Answer::from(&reply));
                assert!(result.to_string().contains("create_ticket"), "{}", adapter.name);
            }
            Verdict::Run(tool) => {
                assert_eq!(tool.id().to_string(), "default/create_ticket");
                run.record_use(&tool);
                return true;
            }
            other => panic!("{}: {other:?}", adapter.name),
        }
    }
    false
}

#[test]
fn a_list_that_is_read_again_holds_what_was_found() {
    for adapter in &ADAPTERS {
        assert!(run_loop(adapter, true), "{}", adapter.name);
    }
}

#[test]
fn a_list_that_is_rendered_once_a_turn_never_does() {
    for adapter in &ADAPTERS {
        assert!(!run_loop(adapter, false), "{}", adapter.name);
    }
}
