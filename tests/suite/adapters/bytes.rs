//! The same state gives the same bytes, and a list only grows at its end within an epoch.

use std::process::Command;

use proptest::prelude::*;
use serde_json::json;
use toolrack::anthropic::Search;
use toolrack::{Call, FindRequest, Session, Verdict, anthropic};

use super::{ADAPTERS, Adapter, six, value};

/// Every adapter's list of one state that has seen a turn and a search.
fn state() -> (Session, Vec<String>) {
    let mut run = six();
    run.turn("which invoices did we send last month?").unwrap();
    run.find_tool(&FindRequest::of_names(["list_invoices", "send_mail"])).unwrap();
    let lists = rendered(&run);
    (run, lists)
}

fn rendered(run: &Session) -> Vec<String> {
    let mut lists: Vec<String> = ADAPTERS.iter().map(|one| (one.list)(run).json()).collect();
    for search in [Search::Client, Search::Bm25, Search::Regex] {
        lists.push(anthropic::deferred(run, search, &json!([])).unwrap().json());
    }
    lists
}

#[test]
fn a_hundred_renderings_are_the_same() {
    let (run, first) = state();
    for _ in 0..100 {
        assert_eq!(rendered(&run), first);
    }
}

/// Not a test of its own: what the test below runs in other processes.
#[test]
fn print_lists() {
    for list in state().1 {
        println!("list {list}");
    }
}

#[test]
fn eight_processes_render_the_same() {
    let here: Vec<String> = state().1;
    for _ in 0..8 {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["adapters::bytes::print_lists", "--exact", "--nocapture"])
            .output()
            .unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        // The harness writes the test's name in front of the first line.
        let there: Vec<&str> = text
            .lines()
            .filter_map(|line| line.split_once("list [").or(line.split_once("list {")))
            .map(|(_, list)| list)
            .collect();
        let here: Vec<&str> = here.iter().map(|list| &list[1..]).collect();
        assert_eq!(there, here);
    }
}

#[test]
fn touching_an_active_tool_moves_nothing() {
    let (mut run, before) = state();
    for name in ["list_invoices", "send_mail", "list_invoices"] {
        match run.authorize(&Call::new(name, json!({}))).unwrap() {
            Verdict::Run(tool) => run.record_use(&tool),
            other => panic!("{name}: {other:?}"),
        }
        run.step();
        assert_eq!(rendered(&run), before);
    }
}

/// The text without the brackets that close it.
fn open(list: &str) -> &str {
    list.trim_end_matches([']', '}'])
}

/// The definitions that are not deferred: Anthropic leaves the others out of what it caches.
fn cached(run: &Session, search: Search) -> Vec<String> {
    let list = anthropic::deferred(run, search, &json!([])).unwrap();
    list.iter().filter(|one| !one.contains("defer_loading")).map(str::to_owned).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn within_an_epoch_a_list_begins_with_the_one_before(steps in prop::collection::vec(0..6_usize, 1..8)) {
        const NAMES: [&str; 6] =
            ["list_invoices", "list_payments", "create_ticket", "book_room", "send_mail", "read_state"];
        let mut run = six();
        let mut before: Vec<String> = ADAPTERS.iter().map(|one| (one.list)(&run).json()).collect();
        let mut kept = cached(&run, Search::Bm25);
        let mut epoch = run.visible().epoch();
        for step in steps {
            run.find_tool(&FindRequest::of_names([NAMES[step]])).unwrap();
            run.step();
            let same_epoch = run.visible().epoch() == epoch;
            epoch = run.visible().epoch();
            for (Adapter { name, list, .. }, before) in ADAPTERS.iter().zip(&mut before) {
                let now = list(&run);
                prop_assert!(now.validate().is_ok());
                let now = now.json();
                if same_epoch {
                    prop_assert!(now.starts_with(open(before)), "{name}: {before} then {now}");
                }
                *before = now;
            }
            let now = cached(&run, Search::Bm25);
            if same_epoch {
                prop_assert!(now.starts_with(&kept));
            }
            kept = now;
        }
    }
}

#[test]
fn a_search_of_the_clients_changes_no_byte() {
    let mut run = six();
    let mut messages = vec![json!({"role": "user", "content": "hello"})];
    let first = anthropic::deferred(&run, Search::Client, &json!(messages)).unwrap();
    let mut sent = first.clone();
    for (number, name) in ["send_mail", "book_room", "create_ticket"].into_iter().enumerate() {
        let call = Call::new("find_tool", json!({"names": [name]})).with_id(format!("c{number}"));
        let reply = run.find_tool(&FindRequest::of_names([name])).unwrap();
        let answer = anthropic::references(&call, &reply, &sent);
        messages.push(anthropic::message([answer.result]));
        sent = anthropic::deferred(&run, Search::Client, &json!(messages)).unwrap();
        assert_eq!(sent.json(), first.json());
        assert!(run.visible().contains(name));
    }
    // Compacted: the references are gone, so what is visible goes out in full.
    let after = anthropic::deferred(&run, Search::Client, &json!([])).unwrap();
    let in_full = |name: &str| {
        let list = value(&after);
        let entry = list.as_array().unwrap().iter().find(|one| one["name"] == name).unwrap();
        entry.get("defer_loading").is_none()
    };
    assert!(["send_mail", "book_room", "create_ticket"].into_iter().all(in_full));
}
