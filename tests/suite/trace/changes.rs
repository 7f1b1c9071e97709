//! What changed, came in, left and was found, as the events tell it: what the call itself gave, and
//! what can be worked out by hand.

use toolrack::trace::{Admission, Eviction, Found, Listed, Refreshed, Search};
use toolrack::{Delta, EvictReason, FindReply, FindStatus, FoundTool, RefuseReason, Visible};

use super::*;
use crate::fixtures::{catalog, id, lexical, many, tool};

const LETTERS: [(&str, &str); 5] = [
    ("x/alpha", "Does alpha."),
    ("x/beta", "Does beta."),
    ("x/gamma", "Does gamma."),
    ("x/delta", "Does delta."),
    ("y/alpha", "Does alpha elsewhere."),
];

/// A run that loads by name alone.
fn by_name(options: SessionOptions) -> (Engine, Session, TraceBuffer) {
    let engine = lexical(&LETTERS);
    let mut run = engine.session(options.retrieve(0).pass_through(0)).unwrap();
    let trace = TraceBuffer::new();
    run.trace_to(trace.clone());
    (engine, run, trace)
}

fn load(run: &mut Session, names: &[&str]) -> FindReply {
    run.find_tool(&FindRequest::of_names(names.iter().copied())).unwrap()
}

macro_rules! only {
    ($trace:expr, $stage:ident) => {{
        let events = $trace.events();
        let list = events.into_iter().filter_map(|event| match event.stage {
            Stage::$stage(told) => Some(told),
            _ => None,
        });
        list.collect::<Vec<_>>()
    }};
}

/// Every tool that left, with the reason.
fn evicted(trace: &TraceBuffer) -> Vec<(ToolId, EvictReason)> {
    let told: Vec<Eviction> = only!(trace, Eviction);
    told.into_iter().flat_map(|told| told.evicted).map(|gone| (gone.tool, gone.why)).collect()
}

#[test]
fn each_reason_of_an_eviction_is_told() {
    let (_, mut run, trace) = by_name(SessionOptions::default().limit(3).stale_after(1));
    load(&mut run, &["beta"]);
    (0..3).for_each(|_| drop(run.step()));
    let delta = run.on_compaction();
    assert_eq!(delta.evicted, [(id("x/beta"), EvictReason::Stale { idle: 3 })]);
    assert_eq!(evicted(&trace), delta.evicted);
    let told: Vec<Eviction> = only!(trace, Eviction);
    assert!(told.last().unwrap().new_epoch);

    let (_, mut run, trace) = by_name(SessionOptions::default().limit(2).stale_after(9));
    for name in ["beta", "gamma", "delta"] {
        load(&mut run, &[name]);
        (0..2).for_each(|_| drop(run.step()));
    }
    assert_eq!(evicted(&trace), [(id("x/beta"), EvictReason::LeastRecent)]);

    let (engine, mut run, trace) = by_name(SessionOptions::default().limit(3));
    load(&mut run, &["beta", "gamma"]);
    let delta = run.release("beta").unwrap();
    assert_eq!(delta.evicted, [(id("x/beta"), EvictReason::Released)]);
    assert_eq!(evicted(&trace), delta.evicted);
    let rest = LETTERS.iter().filter(|(id, _)| *id != "x/gamma");
    let rest = rest.map(|(id, text)| tool(id, text)).collect::<Vec<_>>();
    engine.refresh("catalog", Listing::from_tools(rest)).unwrap();
    let turn = run.step();
    let gone = (id("x/gamma"), EvictReason::Gone);
    assert_eq!(turn.delta.evicted, [delta.evicted[0].clone(), gone.clone()]);
    assert_eq!(evicted(&trace), [delta.evicted[0].clone(), gone]);

    let engine = Engine::builder(Catalog::from_tools(many(4)).unwrap()).without_embedder();
    let engine = engine.build().unwrap();
    let mut run = engine.session(SessionOptions::default().limit(6).retrieve(0)).unwrap();
    let trace = TraceBuffer::new();
    run.trace_to(trace.clone());
    engine.refresh("more", Listing::from_tools(many(40).split_off(4))).unwrap();
    let turn = run.turn("").unwrap();
    let all: Vec<_> =
        many(4).iter().map(|tool| (tool.id().clone(), EvictReason::Outgrown)).collect();
    assert_eq!(turn.delta.evicted, all);
    assert_eq!(evicted(&trace), all);
}

#[test]
fn what_a_caller_may_no_longer_use_is_told_to_be_gone() {
    let (_, mut run, trace) = by_name(SessionOptions::default().limit(3));
    load(&mut run, &["beta", "gamma"]);
    run.set_context(RuntimeContext::default().allow_tools([id("x/gamma")]));
    assert_eq!(evicted(&trace), [(id("x/beta"), EvictReason::Gone)]);
}

#[test]
fn what_came_in_was_refused_or_wanted_again_is_told() {
    let (_, mut run, trace) = by_name(SessionOptions::default().limit(2));
    load(&mut run, &["beta"]);
    let reply = load(&mut run, &["beta", "gamma", "delta"]);
    assert_eq!(reply.status, FindStatus::BudgetFull);
    let told: Vec<Admission> = only!(trace, Admission);
    let [first, second] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!((first.admitted.len(), first.touched.len()), (1, 0));
    let admitted: Vec<_> =
        second.admitted.iter().map(|entry| (entry.tool.clone(), entry.why)).collect();
    assert_eq!(admitted, [(id("x/gamma"), toolrack::AdmitReason::Found)]);
    let refused: Vec<_> =
        second.refused.iter().map(|entry| (entry.tool.clone(), entry.why)).collect();
    assert_eq!(refused, [(id("x/delta"), RefuseReason::ToolLimit)]);
    assert_eq!(second.touched, [id("x/beta")]);
    // The step that follows reports the same.
    let delta: Delta = run.step().delta;
    assert_eq!(delta.refused, refused);
    assert_eq!(delta.touched, second.touched);
    let again: Vec<Admission> = only!(trace, Admission);
    assert_eq!(again, told, "what was told is not told twice");
}

fn ids(tools: &[FoundTool]) -> Vec<ToolId> {
    tools.iter().map(|tool| tool.id.clone()).collect()
}

#[test]
fn a_search_is_told_as_it_was_asked_and_as_it_was_answered() {
    let (_, mut run, trace) = by_name(SessionOptions::default().limit(3));
    let mut whole = FindRequest::of_intents(["do the delta", "do the gamma"]).limit(2);
    whole.names = vec!["x/beta".into(), "nobody".into()];
    whole.describe = vec!["x/gamma".into()];
    let requests = [
        FindRequest::of_names(["beta", "gamma"]),
        FindRequest::of_names(["beta", "x/alpha", "delta"]),
        FindRequest::of_names(["alpha", "nobody"]),
        FindRequest::of_definitions(["delta"]),
        FindRequest::new("do the alpha").namespace("y"),
        FindRequest::new("qwertz asdfgh"),
        FindRequest::new("qwertz asdfgh"),
        whole,
    ];
    let replies = requests.each_ref().map(|request| run.find_tool(request).unwrap());
    let searches: Vec<Search> = only!(trace, FindTool);
    let found: Vec<Found> = only!(trace, Found).into_iter().map(|found| *found).collect();
    assert_eq!((searches.len(), found.len()), (requests.len(), replies.len()));
    for (told, asked) in searches.iter().zip(&requests) {
        assert_eq!(told.intents, asked.intents);
        assert_eq!(told.names, asked.names);
        assert_eq!(told.describe, asked.describe);
        assert_eq!(told.namespace, asked.namespace);
        assert_eq!(told.limit, asked.limit);
    }
    for (told, reply) in found.iter().zip(&replies) {
        assert_eq!(told.status, reply.json()["status"]);
        assert_eq!(told.loaded, ids(&reply.loaded));
        assert_eq!(told.visible, ids(&reply.visible));
        let not_loaded: Vec<_> =
            told.not_loaded.iter().map(|entry| (entry.tool.clone(), entry.why)).collect();
        let expected: Vec<_> =
            reply.not_loaded.iter().map(|(tool, why)| (tool.id.clone(), *why)).collect();
        assert_eq!(not_loaded, expected);
        assert_eq!(told.ambiguous, ids(&reply.ambiguous));
        assert_eq!(told.near, ids(&reply.near));
        assert_eq!(told.unknown_names, reply.unknown_names);
        assert_eq!((told.shown, told.total), (reply.shown, reply.total));
        assert_eq!(told.degraded, reply.degraded);
    }
    assert_eq!(found[0].loaded, [id("x/beta"), id("x/gamma")]);
    assert_eq!(
        found[1].not_loaded.iter().map(|entry| entry.why).collect::<Vec<_>>(),
        [RefuseReason::ToolLimit]
    );
    assert_eq!(found[2].ambiguous, [id("x/alpha"), id("y/alpha")]);
    assert_eq!(found[2].unknown_names, ["nobody"]);
    let statuses: Vec<&str> = found[5..7].iter().map(|found| found.status.as_str()).collect();
    assert_eq!(statuses, ["nothing-found", "repeated"]);
}

#[test]
fn a_degraded_search_is_told_with_its_reason() {
    let words = crate::fixtures::Words::new("words", 32);
    let engine = Engine::builder(catalog(&LETTERS)).embedder(words.clone()).build().unwrap();
    let mut run = engine.session(SessionOptions::default().limit(2).retrieve(0)).unwrap();
    let trace = TraceBuffer::new();
    run.trace_to(trace.clone());
    words.set(crate::fixtures::Mood::Down);
    let reply = run.find_tool(&FindRequest::new("do the gamma")).unwrap();
    let told: Vec<Box<Found>> = only!(trace, Found);
    assert!(told[0].degraded.as_ref().unwrap().contains("503"));
    assert_eq!(told[0].degraded, reply.degraded);
}

#[test]
fn a_refresh_is_told_as_the_caller_sees_it() {
    let engine = small(0);
    let mut run = engine.session(options_small()).unwrap();
    let trace = TraceBuffer::new();
    run.trace_to(trace.clone());
    engine.refresh("catalog", Listing::parse(CATALOGS[1]).unwrap()).unwrap();
    run.step();
    let told: Vec<Box<Refreshed>> = only!(trace, Refresh);
    let [told] = told.as_slice() else { panic!("{told:?}") };
    // By hand: one lost its scope, one got rid of it, one was switched off, one is no longer listed.
    assert_eq!(told.added, [id("default/invoice_create")]);
    assert_eq!(
        told.removed,
        [id("tickets/search"), id("default/mail_send"), id("default/weather_get")]
    );
    assert_eq!(told.changed, [id("docs/search")]);
    assert_eq!(told.catalog, CatalogStamp::of(&engine.snapshot()));
    assert_eq!(told.catalog.tools, 5);
    assert_eq!((told.policy.eligible, told.policy.excluded), (3, 2));
    assert_eq!(told.model, engine.fingerprint());
}

#[test]
fn a_list_is_told_with_its_order_core_epoch_and_tokens() {
    let (engine, mut run, trace) = by_name(SessionOptions::default().limit(3).core(["delta"]));
    let mut lists: Vec<Visible> = vec![run.visible()];
    load(&mut run, &["beta"]);
    lists.push(run.step().visible);
    run.release("beta").unwrap();
    run.on_compaction();
    lists.push(run.step().visible);
    let told: Vec<Listed> = only!(trace, List);
    for list in &lists {
        let tools: Vec<ToolId> = list.tools().iter().map(|tool| tool.tool.id().clone()).collect();
        let same = told.iter().find(|told| told.epoch == list.epoch() && told.tools == tools);
        let told = same.unwrap_or_else(|| panic!("no {tools:?} in {told:?}"));
        assert_eq!((told.core, told.meta_tool.as_deref()), (1, Some("find_tool")));
        let tokens = list.tokens();
        assert_eq!((told.tokens.naive, told.tokens.sent), (tokens.naive, tokens.sent));
        assert_eq!(told.tokens.saved, tokens.naive.saturating_sub(tokens.sent));
    }
    assert_eq!(told[0].tools, [id("x/delta")]);
    let all: Vec<_> = LETTERS.iter().map(|(id, _)| id.parse::<ToolId>().unwrap()).collect();
    let whole = engine.session(SessionOptions::default().core(all.iter().map(ToString::to_string)));
    // What every tool takes is what a list of all takes.
    assert_eq!(told[0].tokens.naive, whole.unwrap().visible().tokens().sent);
}

#[test]
fn what_comes_near_and_is_kept_out_by_its_risk_is_told() {
    let mut gate = toolrack::Gate::default();
    gate.destructive = Some(1.0);
    let engine = Engine::builder(Catalog::parse(CATALOGS[0]).unwrap()).gate(gate).build().unwrap();
    let context = RuntimeContext::default().roles(["admin"]);
    let options = SessionOptions::default().limit(3).retrieve(0).context(context);
    let mut run = engine.session(options).unwrap();
    let trace = TraceBuffer::new();
    run.trace_to(trace.clone());
    let reply =
        run.find_tool(&FindRequest::new("delete a table with all its rows").limit(1)).unwrap();
    let told: Vec<Box<Found>> = only!(trace, Found);
    assert_eq!(told[0].near, [id("default/table_drop")]);
    assert_eq!(told[0].near, ids(&reply.near));
}
