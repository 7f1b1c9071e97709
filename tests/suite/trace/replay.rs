//! A replay gives the same bytes, or says why not.

use super::*;
use crate::fixtures::{Mood, Words};

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
fn a_run_in_which_the_model_failed_for_a_while_replays() {
    let model = Words::new("words/1", 32);
    let tools = std::fs::read_to_string(TOOLS).unwrap();
    let engine =
        Engine::builder(Catalog::parse(&tools).unwrap()).embedder(model.clone()).build().unwrap();
    let trace = TraceBuffer::new();
    let mut run = engine.session(options()).unwrap();
    run.trace_to(trace.clone());
    run.turn("list the invoices").unwrap();
    model.set(Mood::Down);
    assert!(run.turn("open a helpdesk ticket").unwrap().selection.unwrap().is_degraded());
    assert!(run.find_tool(&FindRequest::new("send a mail")).unwrap().degraded.is_some());
    model.set(Mood::Well);
    run.turn("convert the amount").unwrap();
    let report = engine.replay(&Trace::parse(&trace.text())).unwrap();
    assert!(report.is_identical(), "{report}");
}

#[test]
fn a_use_of_a_tool_that_left_before_replays() {
    let listing = |text: &str| Listing::parse(text).unwrap();
    let (both, one) =
        (r#"[{"name": "a"}, {"name": "b"}, {"name": "c"}]"#, r#"[{"name": "b"}, {"name": "c"}]"#);
    let catalog = Catalog::from_listing("catalog", listing(both)).unwrap();
    let engine = Engine::builder(catalog).build().unwrap();
    let mut run =
        engine.session(SessionOptions::default().core(["a"]).limit(2).pass_through(0)).unwrap();
    run.visible();
    let Verdict::Run(open) = run.authorize(&Call::new("a", json!({}))).unwrap() else { panic!() };
    let trace = TraceBuffer::new();
    run.trace_to(trace.clone());
    engine.refresh("catalog", listing(one)).unwrap();
    run.step();
    run.record_use(&open);
    run.step();
    let again =
        Engine::builder(Catalog::from_listing("catalog", listing(both)).unwrap()).build().unwrap();
    let report = Replay::new(&again)
        .on_refresh(|_| again.refresh("catalog", listing(one)).map(drop))
        .run(&Trace::parse(&trace.text()))
        .unwrap();
    assert!(report.is_identical(), "{report}");
}

#[test]
fn a_run_trace_does_not_name_a_fallback_tool_out_of_reach() {
    let catalog =
        Catalog::parse(r#"[{"name": "zebra", "scopes": ["admin"]}, {"name": "b"}]"#).unwrap();
    let engine = Engine::builder(catalog).build().unwrap();
    let rules = IntentRules::english().with_fallback("zebra");
    let mut run =
        engine.session(SessionOptions::default().limit(1).pass_through(0).intent(rules)).unwrap();
    let trace = TraceBuffer::new();
    run.trace_to(trace.clone());
    run.turn("What is a mutex?").unwrap();
    assert!(!trace.text().contains("zebra"), "{}", trace.text());
    assert!(engine.replay(&Trace::parse(&trace.text())).unwrap().is_identical());
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
    run.visible();
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

/// A run by words alone, so that no model's arithmetic is in it, through every kind of event.
fn golden_run() -> TraceBuffer {
    let engine = small_by_words();
    let trace = TraceBuffer::new();
    let options =
        SessionOptions::default().core(["docs/search"]).limit(3).retrieve(1).find_limit(2);
    let context = RuntimeContext::default().scopes(["billing"]);
    let options = options.pass_through(0).stale_after(1).compressed(50);
    let mut run = engine.session(options.context(context)).unwrap();
    run.trace_at(TraceLevel::Operator, trace.clone());
    run.turn("what is the weather of the city?").unwrap();
    run_call(&mut run, "weather_get");
    run.note_reply("It rains. Shall I send a mail?");
    run.turn("yes, do it").unwrap();
    run.find_tool(&FindRequest::of_intents(["create an invoice", "book a table"])).unwrap();
    run.find_tool(&FindRequest::of_names(["search", "nobody"])).unwrap();
    run.find_tool(&FindRequest::of_definitions(["mail_send"])).unwrap();
    run.visible();
    run_call(&mut run, "mail_send");
    run_call(&mut run, "table_drop");
    run.note_shown(["tickets__search"]);
    (0..3).for_each(|_| drop(run.step()));
    run.pin("table_book").unwrap();
    run.unpin("table_book").unwrap();
    run.release("table_book").unwrap();
    run.on_compaction();
    run.set_context(super::context(2));
    run.turn("qwertz asdfgh").unwrap();
    trace
}

fn small_by_words() -> Engine {
    Engine::builder(Catalog::parse(CATALOGS[0]).unwrap()).without_embedder().build().unwrap()
}

/// `line` with its numbers to four digits and without the release: the logarithm of another machine
/// may differ in the last place.
fn rounded(line: &str) -> Value {
    fn round(value: &mut Value) {
        match value {
            Value::Number(number) if number.is_f64() => {
                *value = json!((number.as_f64().unwrap() * 1e4).round() / 1e4);
            }
            Value::Array(items) => items.iter_mut().for_each(round),
            Value::Object(fields) => fields.values_mut().for_each(round),
            _ => {}
        }
    }
    let mut value: Value = serde_json::from_str(line).unwrap();
    if let Value::Object(fields) = &mut value {
        fields.remove("release");
    }
    round(&mut value);
    value
}

/// `TOOLRACK_WRITE_GOLDEN=1` writes the file anew; read the difference before it is committed.
#[test]
fn a_run_of_an_earlier_day_is_written_and_replayed_as_it_was_then() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/golden-run.jsonl");
    let now = golden_run().text();
    if std::env::var_os("TOOLRACK_WRITE_GOLDEN").is_some() {
        std::fs::write(path, &now).unwrap();
    }
    let golden = Trace::read(path).unwrap();
    assert!(golden.damaged.is_empty());
    for (recorded, now) in golden.lines().iter().zip(now.lines()) {
        assert_eq!(rounded(recorded), rounded(now));
    }
    assert_eq!(golden.lines().len(), now.lines().count());
    if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        let report = small_by_words().replay(&golden).unwrap();
        assert!(report.is_identical(), "{report}");
    }
}
