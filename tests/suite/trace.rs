//! Traces: what they hold, what they never hold, and that they replay to the same bytes.

use std::io;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolrack::trace::{
    CatalogStamp, Event, Stage, Trace, TraceBuffer, TraceLevel, TraceSink, TraceWriter,
};
use toolrack::{
    Authorized, Call, Catalog, Engine, ErrorKind, Fallback, FindRequest, IntentRules, ListOrder,
    Listing, Message, Replay, RuntimeContext, Session, SessionOptions, Shadow, Snapshot,
    SourceUpdate, StaticEmbedder, Timing, Tool, ToolId, ToolPolicy, TurnInput, Verdict,
};

use spans::Log;

mod changes;
mod figures;
mod random;
mod replay;
mod shadow;
mod spans;

const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/tools.json");

pub(super) fn office() -> Engine {
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
pub(super) fn whole_run(engine: &Engine, level: TraceLevel) -> TraceBuffer {
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
    run.note_shown(["email__send_email"]);
    run_call(&mut run, "no_such_tool");
    run_call(&mut run, "fx__get_exchange_rate");
    run.visible();
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
        "taken",
        "shown",
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

fn small(which: usize) -> Engine {
    Engine::builder(Catalog::parse(CATALOGS[which]).unwrap()).build().unwrap()
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
    fn write(&mut self, event: Event) -> io::Result<()> {
        self.times += 1;
        if self.times.is_multiple_of(2) {
            return Err(io::Error::other("the disk is full"));
        }
        self.kept.lock().unwrap().push(event.to_line());
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
    // Written by the example `xray`. A released format is never written anew: count it up.
    let trace = Trace::parse(include_str!("../fixtures/trace-format-1.jsonl"));
    assert!(trace.damaged.is_empty(), "{:?}", trace.damaged);
    assert_eq!(trace.events.len(), trace.lines().len());
    for (event, line) in trace.events.iter().zip(trace.lines()) {
        assert_eq!(&event.to_line(), line);
    }
}
