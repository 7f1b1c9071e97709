//! Traces: what they hold, what they never hold, and that they replay to the same bytes.

use std::io;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use serde_json::{Value, json};
use toolrack::trace::{
    CatalogStamp, Event, Stage, Trace, TraceBuffer, TraceLevel, TraceSink, TraceWriter,
};
use toolrack::{
    Authorized, Call, Catalog, Engine, ErrorKind, FindRequest, Listing, Message, Replay,
    RuntimeContext, Session, SessionOptions, Shadow, Snapshot, SourceUpdate, StaticEmbedder,
    Timing, Tool, ToolId, ToolPolicy, TurnInput, Verdict,
};

const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/tools.json");

fn office() -> Engine {
    Engine::builder(Catalog::read(TOOLS).unwrap()).build().unwrap()
}

fn options() -> SessionOptions {
    SessionOptions::default().core(["agent/read_state"]).limit(8).retrieve(4).find_limit(3)
}

fn run_call(run: &mut Session, name: &str) {
    match run.authorize(&Call::new(name, json!({"secret": "hunter2"}))).unwrap() {
        Verdict::Run(tool) => run.record_use(&tool),
        Verdict::Refused(_) => {}
        other => panic!("{other:?}"),
    }
}

/// A run that goes through every stage.
fn whole_run(engine: &Engine, level: TraceLevel) -> TraceBuffer {
    let trace = TraceBuffer::new();
    let context = RuntimeContext::default().scopes(["read"]);
    let mut run = engine.session(options().context(context.clone())).unwrap();
    run.trace_at(level, trace.clone());
    run.turn("which invoices did we send last month?").unwrap();
    run_call(&mut run, "billing__list_invoices");
    run.note_reply("There are 52. Shall I open a ticket?");
    let earlier = [Message::assistant("Shall I open a ticket?")];
    run.turn(TurnInput::new("yes, do it").recent(earlier)).unwrap();
    let call = Call::new("find_tool", json!({"intent": "open a helpdesk ticket", "limit": "2"}));
    let Verdict::MetaTool(search) = run.authorize(&call.with_id("call_1")).unwrap() else {
        panic!("the meta-tool was not recognised")
    };
    run.find_tool(&search).unwrap();
    run.step();
    run_call(&mut run, "helpdesk__create_ticket");
    run_call(&mut run, "no_such_tool");
    run_call(&mut run, "fx__get_exchange_rate");
    run.pin("email/send_email").unwrap();
    run.unpin("email/send_email").unwrap();
    run.release("email/send_email").unwrap();
    let Verdict::Run(tool) =
        run.authorize(&Call::new("fx__get_exchange_rate", Value::Null)).unwrap()
    else {
        panic!("the tool was briefed")
    };
    run.abandon(&tool);
    run.on_compaction();
    run.set_context(context.approve_namespaces(["agent", "billing", "ledger"]));
    let news =
        r#"[{"name": "triage", "namespace": "ledger", "description": "Sort payments by age."}]"#;
    engine.refresh("news", Listing::parse(news).unwrap()).unwrap();
    run.turn("sort the payments by age").unwrap();
    trace
}

fn names(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(|event| event.stage.name()).collect()
}

#[test]
fn every_stage_is_written() {
    let trace = whole_run(&office(), TraceLevel::Run);
    let stages = names(&trace.events());
    for stage in [
        "open",
        "turn",
        "intent",
        "filter",
        "dense",
        "lexical",
        "fusion",
        "gate",
        "admission",
        "eviction",
        "list",
        "find_tool",
        "found",
        "authorize",
        "used",
        "abandoned",
        "reply",
        "pin",
        "unpin",
        "release",
        "compaction",
        "context",
        "refresh",
        "step",
    ] {
        assert!(stages.contains(&stage), "no {stage} in {stages:?}");
    }
    let first_turn: Vec<&str> = stages[1..].iter().copied().take(10).collect();
    assert_eq!(
        first_turn,
        [
            "list",
            "turn",
            "intent",
            "filter",
            "dense",
            "lexical",
            "fusion",
            "gate",
            "admission",
            "list"
        ]
    );
}

#[test]
fn lines_are_numbered_json_that_reads_back() {
    let buffer = whole_run(&office(), TraceLevel::Operator);
    let trace = Trace::parse(&buffer.text());
    assert!(trace.damaged.is_empty());
    assert_eq!(trace.events, buffer.events());
    for (place, (event, line)) in trace.events.iter().zip(trace.lines()).enumerate() {
        assert_eq!(event.seq, place as u64);
        assert_eq!(&event.to_line(), line);
        let object: Value = serde_json::from_str(line).unwrap();
        assert_eq!(object["event"], event.stage.name());
    }
    assert!(trace.events.is_sorted_by_key(|event| event.turn));
    assert_eq!(trace.events.last().unwrap().turn, 3);
}

#[test]
fn the_ground_scores_thresholds_and_tokens_are_there() {
    let engine = office();
    let trace = whole_run(&engine, TraceLevel::Run);
    let events = trace.events();
    let Stage::Open(opened) = &events[0].stage else { panic!("{:?}", events[0]) };
    assert_eq!((opened.format, opened.catalog.version, opened.catalog.tools), (1, 1, 206));
    assert_eq!(opened.catalog.digest.len(), 64);
    assert_eq!(opened.model, engine.fingerprint());
    assert_eq!(opened.policy.version.len(), 16);
    let gate = events.iter().find_map(|event| match &event.stage {
        Stage::Gate(gate) => Some(gate),
        _ => None,
    });
    let gate = gate.unwrap();
    assert!(gate.admitted.iter().any(|judged| judged.tool.to_string() == "billing/list_invoices"));
    assert!(gate.thresholds.read <= gate.thresholds.write);
    let lists: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.stage {
            Stage::List(list) => Some(list),
            _ => None,
        })
        .collect();
    for list in lists {
        let tokens = list.tokens;
        assert!(tokens.sent > 0 && tokens.saved == tokens.naive - tokens.sent);
        assert_eq!(list.tools[0].to_string(), "agent/read_state");
    }
}

#[test]
fn arguments_of_calls_are_not_recorded() {
    let trace = whole_run(&office(), TraceLevel::Operator).text();
    assert!(!trace.contains("hunter2"));
    assert!(trace.contains(r#""arguments":{"intent":"open a helpdesk ticket","limit":"2"}"#));
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let one = whole_run(&office(), TraceLevel::Operator).text();
    assert_eq!(one, whole_run(&office(), TraceLevel::Operator).text());
}

#[test]
fn a_session_without_a_trace_writes_nothing_and_one_that_ended_its_trace_no_more() {
    let engine = office();
    let mut run = engine.session(options()).unwrap();
    let trace = TraceBuffer::new();
    run.trace_to(trace.clone());
    run.turn("list invoices").unwrap();
    let before = trace.len();
    run.end_trace();
    run.turn("list payments").unwrap();
    assert_eq!(trace.len(), before);
}

// ---------------------------------------------------------------- replay

#[test]
fn a_replay_in_another_process_gives_the_same_bytes() {
    let trace = Trace::parse(&whole_run(&office(), TraceLevel::Operator).text());
    // Another process counted other versions.
    let catalog = Catalog::parse(r#"[{"name": "other"}]"#).unwrap();
    catalog.refresh("catalog", Listing::parse("[]").unwrap()).unwrap();
    let tools = std::fs::read_to_string(TOOLS).unwrap();
    catalog.refresh(TOOLS, Listing::parse(&tools).unwrap()).unwrap();
    let engine = Engine::builder(catalog).build().unwrap();
    assert_ne!(engine.snapshot().version(), 1);
    let news =
        r#"[{"name": "triage", "namespace": "ledger", "description": "Sort payments by age."}]"#;
    let report = Replay::new(&engine)
        .on_refresh(|_| engine.refresh("news", Listing::parse(news)?).map(drop))
        .run(&trace)
        .unwrap();
    assert!(report.is_identical(), "{report}");
    assert_eq!(report.lines, trace.events.len());
}

#[test]
fn a_refresh_that_is_not_replayed_and_another_catalog_are_named() {
    let trace = Trace::parse(&whole_run(&office(), TraceLevel::Run).text());
    let error = office().replay(&trace).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CatalogMismatch);
    let text = error.to_string();
    assert!(text.starts_with("at event ") && text.contains("version 2 (207 tools"), "{text}");
    assert!(text.contains("the engine holds version 1 (206 tools"), "{text}");

    let other = Engine::builder(Catalog::parse(r#"[{"name": "a"}]"#).unwrap()).build().unwrap();
    let error = other.replay(&trace).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CatalogMismatch);
}

#[test]
fn another_model_is_named() {
    let engine = office();
    let trace = TraceBuffer::new();
    let mut run = engine.session(options()).unwrap();
    run.trace_to(trace.clone());
    run.turn("list the invoices").unwrap();
    let recorded = engine.fingerprint().unwrap();
    engine.swap(StaticEmbedder::bundled().truncated(64).unwrap()).unwrap();
    let error = engine.replay(&Trace::parse(&trace.text())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ModelMismatch);
    let text = error.to_string();
    assert!(text.contains(&recorded) && text.contains("first-64"), "{text}");
}

#[test]
fn the_first_line_that_differs_is_shown() {
    let engine = office();
    let buffer = TraceBuffer::new();
    let mut run = engine.session(options()).unwrap();
    run.trace_to(buffer.clone());
    run.turn("list the invoices").unwrap();
    let text = buffer.text();

    let forged = text.replace(r#""k":4"#, r#""k":5"#);
    let report = engine.replay(&Trace::parse(&forged)).unwrap();
    let difference = report.difference.as_ref().unwrap();
    assert_eq!(difference.line, 4);
    assert!(difference.recorded.as_ref().unwrap().contains(r#""k":5"#));
    assert!(difference.replayed.as_ref().unwrap().contains(r#""k":4"#));

    let cut: String = text.lines().take(6).flat_map(|line| [line, "\n"]).collect();
    let report = engine.replay(&Trace::parse(&cut)).unwrap();
    assert_eq!(report.difference.unwrap().recorded, None);
}

#[test]
fn damaged_traces_are_refused_with_the_line() {
    let engine = office();
    let buffer = TraceBuffer::new();
    let mut run = engine.session(options()).unwrap();
    run.trace_to(buffer.clone());
    run.turn("list the invoices").unwrap();

    let cut = &buffer.text()[..buffer.text().len() - 20];
    let trace = Trace::parse(cut);
    assert_eq!(trace.damaged.len(), 1);
    let error = engine.replay(&trace).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Format);
    assert!(
        error.to_string().starts_with(&format!("line {} of the trace is damaged", buffer.len()))
    );

    let error = engine.replay(&Trace::default()).unwrap_err();
    assert!(error.to_string().contains("does not begin with an 'open' event"), "{error}");

    let newer = buffer.text().replacen(r#""format":1"#, r#""format":2"#, 1);
    let error = engine.replay(&Trace::parse(&newer)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FormatVersion);
}

#[test]
fn a_trace_that_begins_in_the_middle_of_a_run_replays() {
    let engine = office();
    let mut run = engine.session(options().pinned(["email/send_email"])).unwrap();
    run.turn("which invoices did we send last month?").unwrap();
    run_call(&mut run, "billing__list_invoices");
    run.find_tool(&FindRequest::new("open a helpdesk ticket")).unwrap();
    run.unpin("email/send_email").unwrap();
    run_call(&mut run, "fx__get_exchange_rate");
    let Verdict::Run(pending) =
        run.authorize(&Call::new("fx__get_exchange_rate", Value::Null)).unwrap()
    else {
        panic!("the tool was briefed")
    };

    let trace = TraceBuffer::new();
    run.trace_to(trace.clone());
    run.record_use(&pending);
    run.find_tool(&FindRequest::new("open a helpdesk ticket")).unwrap();
    run.turn("yes").unwrap();
    let report = engine.replay(&Trace::parse(&trace.text())).unwrap();
    assert!(report.is_identical(), "{report}");
    assert!(trace.text().contains(r#""status":"repeated""#));
}

#[test]
fn a_pass_through_run_replays() {
    let catalog = Catalog::parse(r#"[{"name": "a"}, {"name": "b"}]"#).unwrap();
    let engine = Engine::builder(catalog).build().unwrap();
    let trace = TraceBuffer::new();
    let mut run = engine.session(SessionOptions::default()).unwrap();
    run.trace_to(trace.clone());
    run.turn("call b").unwrap();
    run_call(&mut run, "b");
    assert_eq!(names(&trace.events()), ["open", "list", "turn", "list", "authorize", "used"]);
    assert!(engine.replay(&Trace::parse(&trace.text())).unwrap().is_identical());
}

/// What a runtime may do, in any order.
#[derive(Debug, Clone)]
enum Act {
    Turn(usize),
    TurnWith(usize, usize),
    Step,
    Find(usize),
    FindNames(usize),
    Call(usize),
    Use,
    Abandon,
    Reply(usize),
    Pin(usize),
    Unpin(usize),
    Release(usize),
    Compact,
    Context(usize),
    Refresh(usize),
}

const WORDS: [&str; 6] = [
    "send the invoice to the customer",
    "yes, do it",
    "delete the old rows of the table",
    "what is the weather like",
    "select:docs/search, mail_send",
    "réserve une table pour deux",
];

const NAMES: [&str; 8] = [
    "docs/search",
    "tickets/search",
    "search",
    "mail_send",
    "invoice_create",
    "table_drop",
    "weather_get",
    "no_such_tool",
];

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..WORDS.len()).prop_map(Act::Turn),
        1 => (0..WORDS.len(), 0..WORDS.len()).prop_map(|(a, b)| Act::TurnWith(a, b)),
        1 => Just(Act::Step),
        2 => (0..WORDS.len()).prop_map(Act::Find),
        1 => (0..NAMES.len()).prop_map(Act::FindNames),
        3 => (0..NAMES.len()).prop_map(Act::Call),
        2 => Just(Act::Use),
        1 => Just(Act::Abandon),
        1 => (0..WORDS.len()).prop_map(Act::Reply),
        1 => (0..NAMES.len()).prop_map(Act::Pin),
        1 => (0..NAMES.len()).prop_map(Act::Unpin),
        1 => (0..NAMES.len()).prop_map(Act::Release),
        1 => Just(Act::Compact),
        1 => (0..CONTEXTS).prop_map(Act::Context),
        1 => (0..CATALOGS.len()).prop_map(Act::Refresh),
    ]
}

const CATALOGS: [&str; 3] = [
    r#"[{"name": "search", "namespace": "docs", "description": "Search the documents."},
        {"name": "search", "namespace": "tickets", "description": "Search the tickets."},
        {"name": "mail_send", "description": "Send a mail to a customer.", "policy": {"risk": "write"}},
        {"name": "invoice_create", "description": "Create an invoice.", "policy": {"risk": "write", "scopes": ["billing"]}},
        {"name": "table_drop", "description": "Delete a table with all its rows.", "policy": {"risk": "destructive", "roles": ["admin"]}},
        {"name": "weather_get", "description": "The weather of a city."},
        {"name": "table_book", "description": "Book a table at a restaurant."}]"#,
    r#"[{"name": "search", "namespace": "docs", "description": "Search the documents by words."},
        {"name": "mail_send", "description": "Send a mail to a customer.", "policy": {"risk": "write", "scopes": ["billing"]}},
        {"name": "invoice_create", "description": "Create an invoice."},
        {"name": "table_book", "description": "Book a table at a restaurant."},
        {"name": "weather_get", "description": "The weather of a city.", "policy": {"enabled": false}}]"#,
    r#"[{"name": "search", "namespace": "docs", "description": "Search the documents."},
        {"name": "table_drop", "description": "Delete a table."}]"#,
];

const CONTEXTS: usize = 5;

fn context(which: usize) -> RuntimeContext {
    let tools = |names: &[&str]| -> Vec<ToolId> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    };
    match which {
        0 => RuntimeContext::default(),
        1 => RuntimeContext::default().scopes(["billing"]).roles(["admin"]),
        2 => RuntimeContext::default().approve_namespaces(["docs"]),
        3 => RuntimeContext::default().allow_tools(tools(&[
            "docs/search",
            "default/weather_get",
            "default/table_drop",
            "default/mail_send",
            "docs/zebra_mail_send",
        ])),
        _ => RuntimeContext::default().allow_tools([]),
    }
}

/// Does `acts`, and gives the catalogs that there were.
fn perform(engine: &Engine, run: &mut Session, acts: &[Act]) -> Vec<Arc<Snapshot>> {
    let mut open: Vec<Authorized> = Vec::new();
    let mut snapshots = vec![engine.snapshot()];
    for act in acts {
        match *act {
            Act::Turn(text) => drop(run.turn(WORDS[text]).unwrap()),
            Act::TurnWith(text, before) => {
                let earlier = [Message::user(WORDS[before])];
                run.turn(TurnInput::new(WORDS[text]).recent(earlier)).unwrap();
            }
            Act::Step => drop(run.step()),
            Act::Find(text) => drop(run.find_tool(&FindRequest::new(WORDS[text])).unwrap()),
            Act::FindNames(name) => {
                run.find_tool(&FindRequest::of_names([NAMES[name]]).limit(2)).unwrap();
            }
            Act::Call(name) => {
                if let Verdict::Run(tool) =
                    run.authorize(&Call::new(NAMES[name], json!({}))).unwrap()
                {
                    open.push(tool);
                }
            }
            Act::Use => {
                if let Some(tool) = open.pop() {
                    run.record_use(&tool);
                }
            }
            Act::Abandon => {
                if let Some(tool) = open.pop() {
                    run.abandon(&tool);
                }
            }
            Act::Reply(text) => run.note_reply(WORDS[text]),
            Act::Pin(name) => drop(run.pin(NAMES[name])),
            Act::Unpin(name) => drop(run.unpin(NAMES[name])),
            Act::Release(name) => drop(run.release(NAMES[name])),
            Act::Compact => drop(run.on_compaction()),
            Act::Context(which) => run.set_context(context(which)),
            Act::Refresh(which) => {
                engine.refresh("catalog", Listing::parse(CATALOGS[which]).unwrap()).unwrap();
                snapshots.push(engine.snapshot());
            }
        }
    }
    snapshots
}

fn small(which: usize) -> Engine {
    Engine::builder(Catalog::parse(CATALOGS[which]).unwrap()).build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_run_replays_to_the_same_bytes(
        before in prop::collection::vec(act(), 0..6),
        acts in prop::collection::vec(act(), 1..25),
        first in 0..CONTEXTS,
        immediate in any::<bool>(),
        operator in any::<bool>(),
    ) {
        let timing = if immediate { Timing::Immediate } else { Timing::Epoch };
        let options =
            SessionOptions::default().limit(3).retrieve(2).stale_after(1).timing(timing).pass_through(0);
        let engine = small(0);
        let mut run = engine.session(options.context(context(first))).unwrap();
        // What happens before the trace begins is in its state. Contexts do not change there: that
        // may leave a search behind that names what is hidden now. A pin may pass the limit.
        let before: Vec<Act> = before
            .into_iter()
            .filter(|act| !matches!(act, Act::Context(_) | Act::Pin(_)))
            .collect();
        perform(&engine, &mut run, &before);
        // The run has to have seen the catalog of now.
        run.step();
        let start = engine.snapshot();
        let level = if operator { TraceLevel::Operator } else { TraceLevel::Run };
        let trace = TraceBuffer::new();
        run.trace_at(level, trace.clone());
        let snapshots = perform(&engine, &mut run, &acts);

        let again = engine_of(&start);
        let report = Replay::new(&again)
            .on_refresh(|stamp| {
                let same = |other: &&Arc<Snapshot>| CatalogStamp::of(other).digest == stamp.digest;
                let tools = snapshots.iter().find(same).unwrap().tools().cloned();
                // Taken out first: what stays would keep its place.
                again.refresh("catalog", SourceUpdate::Removed)?;
                again.refresh("catalog", Listing::from_tools(tools)).map(drop)
            })
            .run(&Trace::parse(&trace.text()))
            .unwrap();
        prop_assert!(report.is_identical(), "{}", report);
    }

    #[test]
    fn a_run_trace_names_no_hidden_tool(
        which in 0..CONTEXTS,
        acts in prop::collection::vec(act(), 1..25),
    ) {
        let engine = Engine::builder(secret_catalog()).build().unwrap();
        let options = SessionOptions::default().limit(3).retrieve(2).stale_after(1).pass_through(0);
        let mut run = engine.session(options.context(context(which))).unwrap();
        let trace = TraceBuffer::new();
        run.trace_to(trace.clone());
        let acts: Vec<Act> =
            acts.into_iter().filter(|act| !matches!(act, Act::Refresh(_))).collect();
        perform(&engine, &mut run, &acts);
        let text = trace.text();
        prop_assert!(!text.contains("zebra"), "{}", text);
        prop_assert!(text.contains(r#""excluded":4"#) || which > 0);
    }
}

fn engine_of(snapshot: &Snapshot) -> Engine {
    Engine::builder(Catalog::from_tools(snapshot.tools().cloned()).unwrap()).build().unwrap()
}

/// The first catalog and two tools that no context may use; one of them is on an allow-list.
fn secret_catalog() -> Catalog {
    let mut listing = Listing::parse(CATALOGS[0]).unwrap();
    for (name, namespace) in [("zebra_mail_send", "docs"), ("zebra", "zebra_space")] {
        let mut policy = ToolPolicy::default();
        policy.scopes = vec!["nobody has this".into()];
        let tool = Tool::builder(name)
            .policy(policy)
            .namespace(namespace)
            .description("zebra: send the invoice to the customer, delete the table, weather")
            .build()
            .unwrap();
        listing = Listing::from_tools(listing.tools().cloned().chain([tool]).collect::<Vec<_>>());
    }
    Catalog::from_listing("catalog", listing).unwrap()
}

#[test]
fn an_operator_trace_lists_hidden_tools_with_the_reason() {
    let engine = Engine::builder(secret_catalog()).build().unwrap();
    let allowed = ["docs/search", "docs/zebra_mail_send"].map(|id| id.parse().unwrap());
    let options = SessionOptions::default().context(RuntimeContext::default().allow_tools(allowed));
    let trace_of = |level| {
        let trace = TraceBuffer::new();
        let mut run = engine.session(options.clone()).unwrap();
        run.trace_at(level, trace.clone());
        run.turn("search").unwrap();
        trace
    };
    let run = trace_of(TraceLevel::Run).text();
    assert!(!run.contains("zebra") && !run.contains("hidden"), "{run}");
    assert!(run.contains(r#""eligible":1,"excluded":8"#), "{run}");

    let events = trace_of(TraceLevel::Operator).events();
    let Stage::Open(opened) = &events[0].stage else { panic!("{:?}", events[0]) };
    let hidden: Vec<String> = opened
        .policy
        .hidden
        .iter()
        .flatten()
        .map(|hidden| format!("{} {:?}", hidden.tool, hidden.reason))
        .collect();
    assert_eq!(hidden.len(), 8);
    assert!(hidden.contains(&"docs/zebra_mail_send Scope".to_owned()), "{hidden:?}");
    assert!(hidden.contains(&"tickets/search NotAllowed".to_owned()), "{hidden:?}");
}

#[test]
fn the_policy_version_changes_with_what_decides() {
    let version = |engine: &Engine, options: SessionOptions| {
        let trace = TraceBuffer::new();
        engine.session(options).unwrap().trace_to(trace.clone());
        let Stage::Open(opened) = trace.events()[0].stage.clone() else { panic!() };
        opened.policy.version
    };
    let engine = small(0);
    let plain = version(&engine, options_small());
    assert_eq!(plain, version(&small(0), options_small()));
    assert_ne!(plain, version(&engine, options_small().context(context(1))));
    assert_ne!(plain, version(&engine, options_small().retrieve(3)));
    assert_ne!(plain, version(&small(1), options_small()));
    // What an allow-list names besides the tools that there are decides nothing.
    let allow = |ids: &[&str]| {
        RuntimeContext::default().allow_tools(ids.iter().map(|id| id.parse().unwrap()))
    };
    assert_eq!(
        version(&engine, options_small().context(allow(&["docs/search"]))),
        version(&engine, options_small().context(allow(&["docs/search", "docs/missing"]))),
    );
}

fn options_small() -> SessionOptions {
    SessionOptions::default().limit(3)
}

// ---------------------------------------------------------------- sinks

/// Fails every other time.
struct Flaky {
    kept: Arc<Mutex<Vec<String>>>,
    times: u64,
}

impl TraceSink for Flaky {
    fn write(&mut self, _event: &Event, line: &str) -> io::Result<()> {
        self.times += 1;
        if self.times.is_multiple_of(2) {
            return Err(io::Error::other("the disk is full"));
        }
        self.kept.lock().unwrap().push(line.to_owned());
        Ok(())
    }
}

#[test]
fn a_failing_sink_never_fails_a_turn_and_is_reported_once() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let log = Log::default();
    let failures = tracing::subscriber::with_default(log.clone(), || {
        let mut run = office().session(options()).unwrap();
        run.trace_to(Flaky { kept: Arc::clone(&kept), times: 0 });
        run.turn("which invoices did we send last month?").unwrap();
        run.find_tool(&FindRequest::new("open a helpdesk ticket")).unwrap();
        run.trace_failures()
    });
    assert!(failures > 3);
    assert!(kept.lock().unwrap().len() as u64 >= failures);
    let warnings = log.lines("the trace cannot be written");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("the disk is full"));
}

#[test]
fn a_file_holds_what_was_done_after_each_call() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let mut run = office().session(options()).unwrap();
    run.trace_to(TraceWriter::create(&path).unwrap());
    run.turn("which invoices did we send last month?").unwrap();
    let trace = Trace::read(&path).unwrap();
    assert_eq!(names(&trace.events).last(), Some(&"list"));
    assert!(trace.damaged.is_empty());

    std::fs::write(&path, b"{\"seq\":0,\"turn\":0,\"event\":\"step\"}\n\xff\xfe\nnull\n\n")
        .unwrap();
    let trace = Trace::read(&path).unwrap();
    assert_eq!((trace.events.len(), trace.damaged.len()), (1, 2));
    assert_eq!(trace.damaged[0].line, 2);

    let missing = folder.path().join("no/such/folder/run.jsonl");
    assert_eq!(TraceWriter::create(&missing).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(Trace::read(&missing).unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn a_stored_trace_of_each_format_version_is_read() {
    let trace = Trace::parse(include_str!("../fixtures/trace-format-1.jsonl"));
    assert!(trace.damaged.is_empty(), "{:?}", trace.damaged);
    assert_eq!(trace.events.len(), trace.lines().len());
    for (event, line) in trace.events.iter().zip(trace.lines()) {
        assert_eq!(&event.to_line(), line);
    }
}

// ---------------------------------------------------------------- spans

/// Spans and events as text, one line each: name and fields.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn lines(&self, part: &str) -> Vec<String> {
        self.0.lock().unwrap().iter().filter(|line| line.contains(part)).cloned().collect()
    }
}

struct Fields<'a>(&'a mut String);

impl tracing::field::Visit for Fields<'_> {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        *self.0 += &format!(" {}={value:?}", field.name());
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("toolrack")
    }
    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        let mut line = span.metadata().name().to_owned();
        span.record(&mut Fields(&mut line));
        let mut lines = self.0.lock().unwrap();
        lines.push(line);
        tracing::span::Id::from_u64(lines.len() as u64)
    }
    fn record(&self, span: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        values.record(&mut Fields(&mut self.0.lock().unwrap()[span.into_u64() as usize - 1]));
    }
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = String::from("event");
        event.record(&mut Fields(&mut line));
        self.0.lock().unwrap().push(line);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn spans_tell_the_figures_of_each_call() {
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), || whole_run(&office(), TraceLevel::Run));
    let one = |name: &str| {
        let lines = log.lines(name);
        lines.into_iter().find(|line| line.starts_with(name)).unwrap_or_default()
    };
    let turn = one("turn");
    for field in ["outcome=", "admitted=", "tokens.naive=", "tokens.sent=", "tokens.saved="] {
        assert!(turn.contains(field), "{turn}");
    }
    assert!(one("select").contains("eligible=206"), "{}", one("select"));
    assert!(one("find_tool").contains("status="), "{}", one("find_tool"));
    assert!(one("authorize").contains("verdict=\"run\""), "{}", one("authorize"));
    assert!(one("refresh").contains("added=1"), "{}", one("refresh"));
    assert!(!one("filter").is_empty() && !one("rank").is_empty() && !one("step").is_empty());
    // What people and models say is in the trace only.
    assert!(log.lines("invoices did we send").is_empty());
}

// ---------------------------------------------------------------- shadow

#[test]
fn a_shadow_counts_what_would_have_been_missed() {
    let engine = office();
    let own: Vec<String> = engine
        .snapshot()
        .tools()
        .map(|tool| tool.id().to_string())
        .chain(["ghost".into()])
        .collect();
    let mut shadow = Shadow::new(engine.session(options()).unwrap());
    let turn = shadow.turn("which invoices did we send last month?", &own).unwrap();
    assert!(turn.visible.contains("billing__list_invoices"));
    shadow.call("billing/list_invoices").unwrap();
    shadow.call("agent__read_state").unwrap();
    shadow.call("helpdesk__create_ticket").unwrap();
    shadow.call("helpdesk__create_ticket").unwrap();
    shadow.call("ghost").unwrap();
    shadow.step();

    let report = shadow.report().clone();
    assert_eq!((report.turns, report.requests), (1, 2));
    assert_eq!((report.calls, report.unknown_calls), (4, 1));
    assert_eq!((report.shown, report.rescued), (3, 0));
    assert_eq!(report.missed_tools()[0].0.to_string(), "helpdesk/create_ticket");
    assert_eq!(report.unpriced.iter().collect::<Vec<_>>(), ["ghost"]);
    assert_eq!(report.own_tokens, report.naive_tokens);
    assert!(report.shadow_tokens * 4 < report.own_tokens, "{report}");
    assert!((report.shown_share() - 0.75).abs() < 1e-9 && report.reached_share() == 0.75);
    let text = report.to_string();
    assert!(text.contains("missed helpdesk/create_ticket, 1 times"), "{text}");
}

#[test]
fn a_shadow_counts_what_one_search_would_have_rescued() {
    let options = SessionOptions::default().limit(8).retrieve(0);
    let engine = office();
    let mut shadow = Shadow::new(engine.session(options).unwrap());
    shadow.turn("list the invoices of last month", ["billing/list_invoices"]).unwrap();
    shadow.call("billing/list_invoices").unwrap();
    let report = shadow.report();
    assert_eq!((report.shown, report.rescued, report.missed.len()), (0, 1, 0));
    assert_eq!(report.extra_requests, 1);
    assert_eq!(report.reached_share(), 1.0);
}

#[test]
fn a_shadow_tells_hidden_tools_from_missing_ones_no_more_than_a_session() {
    let engine = Engine::builder(secret_catalog()).build().unwrap();
    let mut shadow = Shadow::new(engine.session(options_small()).unwrap());
    shadow.turn("zebra", ["zebra_space/zebra"]).unwrap();
    shadow.call("zebra").unwrap();
    shadow.call("no_such_tool").unwrap();
    assert_eq!((shadow.report().calls, shadow.report().unknown_calls), (0, 2));
}
