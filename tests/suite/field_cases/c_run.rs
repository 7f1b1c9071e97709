//! Group C: working set and session.

use std::process::Command;

use serde_json::{Value, json};
use toolrack::anthropic::Search;
use toolrack::{
    Call, Catalog, Engine, FindRequest, FindStatus, Listing, RefusalKind, RefuseReason,
    RuntimeContext, SessionOptions, Timing, TokenCounter, anthropic, openai,
};

use crate::fixtures::{allowed, many, names, refused, tool};

/// Counts 100 tokens for a tool whose definition says LARGE, 40 for NEW, 10 for anything else.
#[derive(Debug)]
struct BySize;

impl TokenCounter for BySize {
    fn count(&self, text: &str) -> usize {
        match text {
            text if text.contains("LARGE") => 100,
            text if text.contains("NEW") => 40,
            _ => 10,
        }
    }
}

fn sized() -> Engine {
    let mut tools = vec![
        tool("a/core_one", "First."),
        tool("a/core_two", "Second."),
        tool("a/pinned", "Third."),
    ];
    tools.extend((1..=3).map(|n| tool(&format!("a/used_{n}"), "A LARGE one.")));
    tools.extend((1..=3).map(|n| tool(&format!("a/fresh_{n}"), "A NEW one.")));
    Engine::builder(Catalog::from_tools(tools).unwrap()).token_counter(BySize).build().unwrap()
}

fn options() -> SessionOptions {
    SessionOptions::default()
        .core(["core_one", "core_two"])
        .pinned(["pinned"])
        .limit(6)
        .pass_through(0)
        .retrieve(0)
}

/// Case 19, Aureliolo/synthorg PR#1300 and ayunis-core PR#1526: the budget pass evicted what was just
/// found, or pushed the defaults out while the reply said "loaded".
#[test]
fn case_19_evicting_what_was_just_found() {
    let engine = sized();
    // Core, pin and meta-tool take 40, so that the three used tools leave 20 of the budget.
    let mut run = engine.session(options().token_budget(360)).unwrap();
    run.find_tool(&FindRequest::of_names(["used_1", "used_2", "used_3"])).unwrap();
    for used in ["a__used_1", "a__used_2", "a__used_3"] {
        let tool = allowed(&mut run, used);
        run.record_use(&tool);
    }
    assert_eq!(run.visible().tokens().sent, 340);

    // Used in this very step: they stay, and the reply says so of each.
    let wanted = FindRequest::of_names(["fresh_1", "fresh_2", "fresh_3"]);
    let reply = run.find_tool(&wanted).unwrap();
    assert_eq!(reply.status, FindStatus::BudgetFull);
    assert!(reply.loaded.is_empty());
    assert_eq!(reply.not_loaded.len(), 3);
    assert!(reply.not_loaded.iter().all(|(_, why)| *why == RefuseReason::ToolLimit));

    // Two steps on they are the least recent, and what is found takes their place.
    run.step();
    run.step();
    let reply = run.find_tool(&wanted).unwrap();
    assert_eq!(reply.status, FindStatus::Loaded, "{reply}");
    assert_eq!(
        names(&run),
        [
            "a__core_one",
            "a__core_two",
            "find_tool",
            "a__pinned",
            "a__fresh_1",
            "a__fresh_2",
            "a__fresh_3"
        ]
    );
    assert_eq!(run.visible().tokens().sent, 160);
    // And stays for the model to call it.
    let turn = run.step();
    assert!(turn.delta.evicted.iter().all(|(id, _)| id.name().starts_with("used_")));
    for found in ["a__fresh_1", "a__fresh_2", "a__fresh_3"] {
        allowed(&mut run, found);
    }
}

/// Case 19, second half: what does not fit is named, with the reason, and nothing leaves in vain.
#[test]
fn case_19_what_does_not_fit_is_named() {
    let engine = sized();
    let mut run = engine.session(options().token_budget(130)).unwrap();
    let reply = run.find_tool(&FindRequest::of_names(["fresh_1", "fresh_2", "fresh_3"])).unwrap();
    assert_eq!(reply.status, FindStatus::BudgetFull);
    insta::assert_snapshot!(reply, @r"
    Loaded 2 tools, callable from your next message on:
    - a__fresh_1: A NEW one.
    - a__fresh_2: A NEW one.
    Not loaded, because the token budget is used up; finish with other tools first:
    - a__fresh_3: A NEW one.
    ");
    run.step();
    run.step();
    let before = names(&run);
    // Larger than all that could leave: the two stay.
    let reply = run.find_tool(&FindRequest::of_names(["used_1"])).unwrap();
    assert_eq!(reply.not_loaded[0].1, RefuseReason::TokenBudget);
    assert_eq!(names(&run), before);
}

/// Case 21, pydantic/pydantic-ai#7189, anthropics/claude-code#84189 and openai/codex#19707: after the
/// history was compacted, a discovered tool must be advertised or findable, and the list that is sent
/// has to be consistent with itself.
#[test]
fn case_21_after_compaction() {
    for timing in [Timing::Epoch, Timing::Immediate] {
        let mut tools = many(40);
        tools.push(tool("ops/restart_service", "Restart a service of the cluster."));
        let engine = Engine::builder(Catalog::from_tools(tools).unwrap()).build().unwrap();
        let options = SessionOptions::default().limit(4).retrieve(1).timing(timing).stale_after(1);
        let mut run = engine.session(options).unwrap();
        let search = FindRequest::new("restart a service of the cluster");
        let reply = run.find_tool(&search).unwrap();
        assert!(reply.loaded.iter().any(|found| found.name == "ops__restart_service"));

        for compactions in 0..3 {
            for _ in 0..compactions {
                run.step();
            }
            run.on_compaction();
            let list = openai::tools(run.visible());
            let sent: Vec<String> = list
                .iter()
                .map(|text| serde_json::from_str::<Value>(text).unwrap())
                .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
                .collect();
            assert_eq!(sent, names(&run));
            assert!(sent.contains(&"find_tool".to_owned()));
            if sent.contains(&"ops__restart_service".to_owned()) {
                allowed(&mut run, "ops__restart_service");
                let id = allowed(&mut run, "ops__restart_service");
                run.abandon(&id);
                run.abandon(&id);
            } else {
                // Not in the list: its schema is forgotten, so that a call is answered with it.
                let refusal = refused(&mut run, "ops__restart_service");
                assert_eq!(refusal.kind, RefusalKind::NotLoaded);
                run.release("ops/restart_service").unwrap();
                run.on_compaction();
            }
            // The search counts as never made.
            let reply = run.find_tool(&search).unwrap();
            assert_ne!(reply.status, FindStatus::Repeated, "{reply}");
            assert!(run.visible().contains("ops__restart_service"));
        }
    }
}

/// Case 21 again, on Anthropic's deferred loading: the tool that was discovered leaves by a refresh, or
/// the caller's scope does. The history refers to what the list lacks, which is an error for ever unless
/// the history is mended.
#[test]
fn case_21_discovered_and_gone() {
    const THREE: &str = r#"[{"name": "a"}, {"name": "b", "description": "SECRET", "scopes": ["ops"]}, {"name": "c"}]"#;
    for by_refresh in [true, false] {
        let engine =
            Engine::builder(Catalog::parse(THREE).unwrap()).without_embedder().build().unwrap();
        let ops = RuntimeContext::default().scopes(["ops"]);
        let options = SessionOptions::default().limit(2).retrieve(0).pass_through(0).context(ops);
        let mut run = engine.session(options).unwrap();
        let sent = anthropic::deferred(&run, Search::Client, &json!([])).unwrap();
        let reply = run.find_tool(&FindRequest::of_names(["b", "c"])).unwrap();
        let call = Call::new("find_tool", json!({})).with_id("t1");
        let both = anthropic::references(&call, &reply, &sent).result;
        let mut one = both.clone();
        one["content"].as_array_mut().unwrap().retain(|block| block["tool_name"] == "b");
        let found = |name: &str| {
            json!({"type": "tool_search_tool_result", "tool_use_id": "s1", "content": {
            "type": "tool_search_tool_search_result",
            "tool_references": [{"type": "tool_reference", "tool_name": name}]}})
        };
        let history = json!([
            {"role": "user", "content": "restart it"},
            {"role": "assistant", "content": [found("b"), found("c")]},
            anthropic::message([both, one, json!({"type": "tool_result", "tool_use_id": "t2", "content": "done"})])]);

        let list = anthropic::deferred(&run, Search::Client, &history).unwrap();
        assert!(list.missing_references().is_empty());
        let mut mended = history.clone();
        assert!(anthropic::forget_references(&mut mended, &list).is_empty());
        assert_eq!(mended, history);

        if by_refresh {
            let left = Listing::parse(r#"[{"name": "a"}, {"name": "c"}]"#).unwrap();
            engine.refresh("catalog", left).unwrap();
        } else {
            run.set_context(RuntimeContext::default());
        }
        run.step();
        let list = anthropic::deferred(&run, Search::Client, &history).unwrap();
        assert!(!list.json().contains("\"b\""));
        assert_eq!(list.missing_references(), ["b"]);
        assert_eq!(anthropic::forget_references(&mut mended, &list), ["b"]);
        assert_eq!(anthropic::discovered(&mended), ["c"]);
        let gone = json!([{"type": "text", "text": "The tools that this search found are not available any more."}]);
        assert_eq!(mended[1]["content"][0]["content"]["tool_references"], json!([]));
        assert_eq!(mended[1]["content"][1], history[1]["content"][1]);
        assert_eq!(
            mended[2]["content"][0]["content"],
            json!([{"type": "tool_reference", "tool_name": "c"}])
        );
        assert_eq!(mended[2]["content"][1]["content"], gone);
        assert_eq!(mended[2]["content"][2], history[2]["content"][2]);
        assert!(!mended.to_string().contains("SECRET") && !mended.to_string().contains("\"b\""));
        let list = anthropic::deferred(&run, Search::Client, &mended).unwrap();
        assert!(list.missing_references().is_empty());
    }
}

/// Case 22, everruns PR#2130, runvendo/vendo PR#315 and mastra PR#17691: sessions on one engine never
/// see each other's tools, neither at the same time nor one after the other.
#[test]
fn case_22_two_sessions_one_engine() {
    let mut tools = many(60);
    tools.extend((0..100).map(|n| tool(&format!("ops/deploy_{n}"), "Deploy to production.")));
    let engine = Engine::builder(Catalog::from_tools(tools).unwrap()).build().unwrap();
    let options = || SessionOptions::default().limit(6).retrieve(2);

    let mut first = engine.session(options()).unwrap();
    first.pin("ops/deploy_7").unwrap();
    assert!(!engine.session(options()).unwrap().visible().contains("ops__deploy_7"));
    drop(first);
    assert!(!engine.session(options()).unwrap().visible().contains("ops__deploy_7"));

    std::thread::scope(|scope| {
        for n in 0..100 {
            let engine = &engine;
            scope.spawn(move || {
                let own = format!("ops__deploy_{n}");
                let mut run = engine.session(options()).unwrap();
                run.pin(&format!("ops/deploy_{n}")).unwrap();
                for _ in 0..5 {
                    run.turn("list the invoices of the register").unwrap();
                    let deploys: Vec<String> =
                        names(&run).into_iter().filter(|name| name.contains("deploy")).collect();
                    assert_eq!(deploys, [own.as_str()]);
                }
            });
        }
    });
}

/// The same steps wherever they run, and the bytes that would be sent.
fn rendered() -> String {
    let engine = Engine::builder(Catalog::from_tools(many(50)).unwrap()).build().unwrap();
    let options = SessionOptions::default().core(["area_3/get_contact_13"]).limit(8).retrieve(3);
    let mut run = engine.session(options).unwrap();
    run.turn("archive the shipment").unwrap();
    run.find_tool(&FindRequest::new("export a playlist")).unwrap();
    openai::tools(run.visible()).json()
}

/// Case 23, NousResearch/hermes-agent PR#63844, hass_local_openai_llm PR#119 and
/// Lakr233/FlowDown#273: the list came in the order of a hash map or of scores, and the provider's
/// cache was lost.
#[test]
fn case_23_unstable_list() {
    let first = rendered();
    for _ in 0..100 {
        assert_eq!(rendered(), first);
    }
    let program = std::env::current_exe().unwrap();
    for _ in 0..8 {
        let output = Command::new(&program)
            .args(["field_cases::c_run::case_23_rendered_elsewhere", "--exact", "--nocapture"])
            .env("TOOLRACK_RENDER", "1")
            .output()
            .unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        assert!(output.contains(&first), "{output}");
    }
}

/// Prints what [`case_23_unstable_list`] compares when that one runs it in a process of its own.
#[test]
fn case_23_rendered_elsewhere() {
    if std::env::var_os("TOOLRACK_RENDER").is_some() {
        println!("\n{}", rendered());
    }
}

/// Case 23, second half: a promotion appends, and touching an active tool moves nothing.
#[test]
fn case_23_a_promotion_appends_and_a_touch_moves_nothing() {
    let engine = Engine::builder(Catalog::from_tools(many(50)).unwrap()).build().unwrap();
    let mut run = engine.session(SessionOptions::default().limit(12).retrieve(3)).unwrap();
    run.turn("archive the shipment").unwrap();
    let start = openai::tools(run.visible()).json();
    let visible = names(&run);

    // Touch by a call, by a search and by a turn that wants the same.
    let used = allowed(&mut run, &visible[2]);
    run.record_use(&used);
    run.find_tool(&FindRequest::of_names([visible[1].as_str()])).unwrap();
    let turn = run.turn("archive the shipment").unwrap();
    assert!(!turn.delta.changes_list(), "{}", turn.delta);
    assert_eq!(openai::tools(&turn).json(), start);

    run.find_tool(&FindRequest::new("export a playlist")).unwrap();
    let grown = openai::tools(run.visible()).json();
    assert!(grown.starts_with(start.trim_end_matches(']')), "{grown}");
    assert!(grown.len() > start.len());
    assert_eq!(run.visible().epoch(), 0);
}
