//! Replayed runs.

use serde_json::json;
use toolrack::eval::{
    Dataset, EngineSettings, Intent, ReplayFigures, ReplayOptions, ReplaySetting, replay,
};
use toolrack::trace::{TraceBuffer, TraceLevel};
use toolrack::{Call, Catalog, Engine, SessionOptions, StaticEmbedder, Timing, Verdict};

use crate::eval_shared::benchdata;

const TOOLS: &str = r#"[
    {"name": "send_mail", "description": "Send an e-mail to a person."},
    {"name": "read_file", "description": "Read a file from disk."},
    {"name": "book_room", "description": "Book a meeting room."},
    {"name": "get_weather", "description": "Get the weather forecast of a city."},
    {"name": "list_invoices", "description": "List the invoices of a month."},
    {"name": "divide_numbers", "description": "Divide one number by another."}]"#;

fn engine() -> EngineSettings {
    EngineSettings::with_embedder(StaticEmbedder::bundled())
}

fn figures(queries: &str, setting: ReplaySetting, options: ReplayOptions) -> ReplayFigures {
    let set = Dataset::parse("demo", TOOLS, queries).unwrap();
    let report = replay(&set, &engine(), &[setting], &options, &mut |_, _| {}).unwrap();
    report.settings.into_iter().next().unwrap()
}

#[test]
fn all_tools_are_always_visible_and_cached_after_the_first_request() {
    let run =
        r#"{"id": "1", "query": "weather?", "steps": ["get_weather", "get_weather", "send_mail"]}"#;
    let all = figures(run, ReplaySetting::all_tools(), ReplayOptions::default());
    assert_eq!((all.visible, all.lost, all.changes, all.thrash), (1.0, 0.0, 0.0, 0.0));
    // Four requests, one at the beginning and one after each step; all but the first are cached.
    assert_eq!((all.cached, all.tokens_share, all.tools), (0.75, 1.0, 6.0));
}

#[test]
fn what_is_not_visible_is_rescued_by_a_search_or_lost() {
    let run = r#"{"id": "1", "turns": [{"query": "what is the weather in Oslo?", "steps": ["get_weather", "book_room"]}]}"#;
    let top = figures(run, ReplaySetting::top_k(1), ReplayOptions::default());
    assert_eq!((top.visible, top.rescued, top.lost), (0.5, 0.0, 0.5));
    let options = SessionOptions::default().limit(3).retrieve(1).find_limit(1);
    let set = figures(run, ReplaySetting::working_set(options.clone()), ReplayOptions::default());
    assert_eq!((set.visible, set.rescued, set.lost), (0.5, 0.5, 0.0));
    assert!(set.changes > 0.0 && set.cached > 0.3 && set.tokens_share > 0.0);
    // Somebody who repeats the message finds nothing new.
    let message = ReplayOptions::default().intent(Intent::Message);
    let set = figures(run, ReplaySetting::working_set(options), message);
    assert_eq!((set.rescued, set.lost), (0.0, 0.5));
}

#[test]
fn a_tool_that_comes_back_at_once_is_thrash() {
    let run = r#"{"id": "1", "turns": [
        {"query": "weather forecast of Oslo", "steps": ["get_weather"]},
        {"query": "book a meeting room", "steps": ["book_room"]},
        {"query": "thanks", "steps": ["get_weather"]}]}"#;
    let run = run.replace('\n', " ");
    let options = SessionOptions::default().limit(1).retrieve(1).timing(Timing::Immediate);
    let tight = figures(&run, ReplaySetting::working_set(options), ReplayOptions::default());
    assert!((tight.thrash - 1.0 / 3.0).abs() < 1e-9, "{tight:?}");
    let options = SessionOptions::default().limit(3).retrieve(1);
    let roomy = figures(&run, ReplaySetting::working_set(options), ReplayOptions::default());
    assert_eq!((roomy.thrash, roomy.visible), (0.0, 1.0));
}

#[test]
fn alternatives_do_for_a_step() {
    let run = r#"{"id": "1", "query": "weather in Oslo", "tools": ["list_invoices"], "alternatives": {"list_invoices": ["get_weather"]}, "steps": ["list_invoices"]}"#;
    let top = figures(run, ReplaySetting::top_k(1), ReplayOptions::default());
    assert_eq!(top.visible, 1.0);
}

#[test]
fn the_recommendation_names_the_smallest_k() {
    let runs = r#"{"id": "1", "query": "weather in Oslo", "steps": ["get_weather"]}
{"id": "2", "query": "book a meeting room", "steps": ["book_room"]}"#;
    let set = Dataset::parse("demo", TOOLS, runs).unwrap();
    let settings = [ReplaySetting::all_tools()];
    let report =
        replay(&set, &engine(), &settings, &ReplayOptions::default(), &mut |_, _| {}).unwrap();
    assert_eq!((report.n_runs, report.n_turns, report.n_steps), (2, 2, 2));
    assert_eq!(report.recommendation.k, Some((1, 1.0)));
    let text = report.recommendation.text();
    assert!(
        text.starts_with("K = 1 gives 1.000. With find_tool a limit of 4 gives 1.000; without, "),
        "{text}"
    );
}

#[test]
fn a_session_trace_is_replayed_as_it_went() {
    let catalog = Catalog::parse(TOOLS).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("yesterday.jsonl");
    let trace = TraceBuffer::new();
    let traced = Engine::builder(catalog.clone()).build().unwrap();
    let mut run = traced.session(SessionOptions::default().limit(2).retrieve(1)).unwrap();
    run.trace_at(TraceLevel::Operator, trace.clone());
    for (message, tool) in [
        ("book a meeting room", "book_room"),
        ("get me the weather forecast of Oslo", "get_weather"),
    ] {
        run.turn(message).unwrap();
        // What is refused is no step.
        let wrong = run.authorize(&Call::new("no_such_tool", json!({}))).unwrap();
        assert!(matches!(wrong, Verdict::Refused(_)));
        let Verdict::Run(tool) = run.authorize(&Call::new(tool, json!({}))).unwrap() else {
            panic!("{tool} is not visible");
        };
        run.record_use(&tool);
    }
    drop(run);
    std::fs::write(&path, trace.text()).unwrap();
    let set = Dataset::read_trace(&path, catalog.clone()).unwrap();
    let run = &set.queries()[0];
    let turns: Vec<(&str, Vec<String>)> = run
        .turns
        .iter()
        .map(|turn| {
            (turn.text.as_str(), turn.steps.iter().map(|&row| set.tool_name(row)).collect())
        })
        .collect();
    assert_eq!(
        turns,
        [
            ("book a meeting room", vec!["book_room".to_owned()]),
            ("get me the weather forecast of Oslo", vec!["get_weather".to_owned()])
        ]
    );
    let settings = [ReplaySetting::top_k(1)];
    let report =
        replay(&set, &engine(), &settings, &ReplayOptions::default(), &mut |_, _| {}).unwrap();
    assert_eq!((report.n_runs, report.n_turns, report.n_steps), (1, 2, 2));
    assert_eq!(report.settings[0].visible, 1.0);

    let (first, rest) =
        trace.text().split_once('\n').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    std::fs::write(&path, format!("{first}\n{{\"seq\":1\n{rest}")).unwrap();
    let broken = Dataset::read_trace(&path, catalog.clone()).unwrap_err().to_string();
    assert!(broken.contains("yesterday.jsonl, line 2: is no event of a trace"), "{broken}");
    std::fs::write(&path, format!("{first}\n")).unwrap();
    let idle = Dataset::read_trace(&path, catalog).unwrap_err().to_string();
    assert!(
        idle.ends_with(
            "no call was let through in this trace: give the trace of a run that used tools"
        ),
        "{idle}"
    );
}

#[test]
fn traces_need_a_catalog_and_runs_need_steps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.jsonl");
    std::fs::write(
        &path,
        r#"{"id": "a", "turns": [{"user": "weather?", "tools": ["get_weather"]}]}"#,
    )
    .unwrap();
    let set = Dataset::read_trace(&path, Catalog::parse(TOOLS).unwrap()).unwrap();
    assert_eq!((set.name(), set.queries()[0].slots.len()), ("trace", 1));

    let set = Dataset::parse("demo", TOOLS, r#"{"id": "1", "query": "q", "tools": []}"#).unwrap();
    let settings = [ReplaySetting::all_tools()];
    let error = replay(&set, &engine(), &settings, &ReplayOptions::default(), &mut |_, _| {});
    insta::assert_snapshot!(error.unwrap_err(), @"no query of demo has turns or steps: give runs to replay");
}

#[test]
fn a_working_set_beats_the_same_number_of_tools_a_turn() {
    let Some(folder) = benchdata("a_working_set_beats_the_same_number_of_tools_a_turn") else {
        return;
    };
    let set = Dataset::read(folder.join("tooltalk")).unwrap();
    let settings = [
        ReplaySetting::top_k(8),
        ReplaySetting::working_set(SessionOptions::default().limit(12).retrieve(8)),
    ];
    let report =
        replay(&set, &engine(), &settings, &ReplayOptions::default(), &mut |_, _| {}).unwrap();
    let [top, set] = &report.settings[..] else { panic!() };
    assert!(set.visible + set.rescued > top.visible, "{report:?}");
    assert!(set.cached > top.cached - 0.2);
}
