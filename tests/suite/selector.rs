//! Picking tools without a session, and the same conversation with one.

use serde_json::{Value, json};
use toolrack::trace::{Trace, TraceBuffer};
use toolrack::{
    Call, Catalog, Engine, ErrorKind, Fusion, IntentRules, Jaccard, LabelledQuery, PickReason,
    Pins, Result, Risk, RuntimeContext, Scorer, SelectRequest, Selector, Session, SessionOptions,
    Timing, Tool, Verdict,
};

use crate::fixtures::lexical;

const CORE: [&str; 5] = ["read_file", "write_file", "edit_file", "list_directory", "search_files"];
const KS: [usize; 7] = [3, 5, 8, 10, 15, 20, 30];

fn registry() -> Catalog {
    Catalog::parse(include_str!("../fixtures/registry61/tools.jsonl")).unwrap()
}

fn queries() -> Vec<LabelledQuery> {
    let text = include_str!("../fixtures/registry61/queries.jsonl");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn jaccard_gives_the_registrys_own_table() {
    let engine = Engine::builder(registry()).scorer(Jaccard).build().unwrap();
    let table = Selector::new(&engine).always_include(CORE).recall(&queries(), &KS).unwrap();
    insta::assert_snapshot!(table, @r"
       k  recall  reduction  of the ranked alone   (30 queries)
       3   53.3 %     87.8 %               95.3 %
       5   60.0 %     84.7 %               92.2 %
       8   60.0 %     79.8 %               87.3 %
      10   63.3 %     76.5 %               84.0 %
      15   70.0 %     68.2 %               75.7 %
      20   76.7 %     59.9 %               67.4 %
      30   80.0 %     43.3 %               50.8 %
    ");
    let at_10: Vec<usize> = table.rows[3].missed.iter().map(|place| place + 1).collect();
    assert_eq!(at_10, [16, 17, 19, 22, 23, 24, 25, 26, 27, 28, 29]);
}

#[test]
fn the_default_engine_finds_nine_of_ten() {
    let engine = Engine::builder(registry()).build().unwrap();
    let table = Selector::new(&engine).always_include(CORE).recall(&queries(), &[5, 10]).unwrap();
    assert!(table.rows[0].recall >= 0.85, "{table}");
    assert!(table.rows[1].recall >= 0.90, "{table}");
}

#[test]
fn tools_that_the_caller_may_not_use_are_no_saving() {
    let engine = lexical(&[("a/one", "Does one."), ("a/two", "Does two."), ("b/far", "Is far.")]);
    let context = RuntimeContext::default().approve_namespaces(["a"]);
    let asked = [LabelledQuery::new("do one", ["a/one"])];
    let table = Selector::new(&engine).context(context).recall(&asked, &[2]).unwrap();
    // All that there is for this caller is sent.
    assert_eq!((table.rows[0].recall, table.rows[0].reduction), (1.0, 0.0));
}

#[test]
fn places_are_for_ranked_tools_only_and_the_order_is_the_catalogs() {
    let engine = Engine::builder(registry()).scorer(Jaccard).build().unwrap();
    let mut pins = Pins::default();
    pins.pin("utilities/calculator".parse().unwrap());
    pins.pin("utilities/no_longer_there".parse().unwrap());
    let selector = Selector::new(&engine).top_k(3).always_include(["edit_file", "read_file"]);
    let picked = selector.select("post a message in the slack channel", &pins).unwrap();
    let count = |why: PickReason| picked.tools.iter().filter(|one| one.why == why).count();
    assert_eq!(picked.tools.len(), 6);
    assert_eq!((count(PickReason::Always), count(PickReason::Pinned)), (2, 1));
    assert_eq!(count(PickReason::Ranked), 3);
    let snapshot = engine.snapshot();
    let places: Vec<usize> = picked
        .tools
        .iter()
        .map(|one| snapshot.tools().position(|tool| tool == &one.tool).unwrap())
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(picked.tokens.sent < picked.tokens.naive / 5);

    // Below k nothing is ranked.
    let all = selector.clone().top_k(61).select("anything", &Pins::default()).unwrap();
    assert_eq!((all.tools.len(), all.selection), (61, None));

    // Without a match places stay empty when they are asked to.
    let bold = selector.clone().select("zzz", &Pins::default()).unwrap();
    let shy = selector.only_fitting().select("zzz", &Pins::default()).unwrap();
    assert_eq!((bold.tools.len(), shy.tools.len()), (5, 2));
}

#[test]
fn every_scorer_goes_through_the_same_calls() {
    /// By the length of the name, and wrong when asked to be.
    struct Length(bool);

    impl Scorer for Length {
        fn name(&self) -> String {
            "length".into()
        }
        fn score(&self, _: &str, tools: &[&Tool]) -> Result<Vec<f32>> {
            let n = if self.0 { 1 } else { tools.len() };
            Ok(tools.iter().take(n).map(|tool| tool.name().len() as f32).collect())
        }
    }

    let engine = Engine::builder(registry()).build().unwrap();
    let request = "what will the weather be like in Lyon, the forecast?";
    let best = |engine: &Engine| {
        let selection = engine.select(&SelectRequest::new(request).k(1)).unwrap();
        selection.best().unwrap().id.name().to_owned()
    };
    for engine in [
        engine.clone(),
        engine.with_scorer(Jaccard),
        engine.with_fusion(Fusion::LexicalOnly).unwrap(),
        engine.with_fusion(Fusion::DenseOnly).unwrap(),
    ] {
        assert_eq!(best(&engine), "weather_forecast");
    }
    assert_eq!(best(&engine.with_scorer(Length(false))), "github_create_pull_request");

    let explained = engine
        .with_scorer(Jaccard)
        .explain(&SelectRequest::new(request), &"weather/weather_forecast".parse().unwrap());
    assert!(explained.unwrap().to_string().contains("scorer       jaccard"));

    // A scorer that fails is like a model that fails: words alone, and it says so.
    let broken = engine.with_scorer(Length(true));
    let selection = broken.select(&SelectRequest::new(request)).unwrap();
    assert_eq!(selection.best().unwrap().id.name(), "weather_forecast");
    assert!(selection.degraded.unwrap().contains("1 scores for 61 tools"));
}

#[test]
fn a_scorers_thresholds_and_the_policy_hold_for_every_scorer() {
    #[derive(Debug)]
    struct Strict;

    impl Scorer for Strict {
        fn name(&self) -> String {
            "strict".into()
        }
        fn score(&self, request: &str, tools: &[&Tool]) -> Result<Vec<f32>> {
            assert!(tools.iter().all(|tool| tool.name() != "hidden_mail"));
            Jaccard.score(request, tools)
        }
        fn threshold(&self, risk: Risk) -> f32 {
            if risk == Risk::Destructive { 0.9 } else { 0.1 }
        }
    }

    let catalog = Catalog::parse(
        r#"[{"name": "purge_mail", "risk": "destructive"}, {"name": "read_mail"},
            {"name": "hidden_mail", "enabled": false}]"#,
    )
    .unwrap();
    let engine = Engine::builder(catalog).scorer(Strict).build().unwrap();
    let selection = engine.select(&SelectRequest::new("purge the mail please").k(1)).unwrap();
    // The one that the gate keeps out takes no place.
    assert_eq!(selection.best().unwrap().id.name(), "read_mail");
    assert_eq!(selection.rejected[0].0.id.name(), "purge_mail");
}

#[test]
fn what_is_discovered_stays_in_one_conversation_and_within_the_policy() {
    let engine = Engine::builder(registry()).scorer(Jaccard).build().unwrap();
    let selector = Selector::new(&engine).top_k(1);
    let (mut first, second) = (Pins::default(), Pins::default());
    let found = selector.discover("evaluate a math expression with numbers", &mut first).unwrap();
    assert_eq!(found.unwrap().name(), "calculator");
    // The identifier-free request scores 0 everywhere.
    assert_eq!(selector.discover("zzz qqq", &mut first).unwrap(), None);
    assert_eq!(first.iter().count(), 1);

    let request = "message the slack channel";
    let has = |selector: &Selector, pins: &Pins| {
        selector.select(request, pins).unwrap().names().any(|name| name.ends_with("calculator"))
    };
    assert!(has(&selector, &first) && !has(&selector, &second));
    let stored = serde_json::to_string(&first).unwrap();
    assert!(has(&selector, &serde_json::from_str(&stored).unwrap()));
    // A pin is no permission.
    let elsewhere = RuntimeContext::default().approve_namespaces(["slack"]);
    assert!(!has(&selector.clone().context(elsewhere), &first));

    let error = selector.always_include(["no_such_tool"]).select("x", &first).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownTool);
    assert_eq!(error.to_string(), "there is no tool 'no_such_tool': name a tool of the catalog");
}

fn conversation() -> Value {
    serde_json::from_str(include_str!("../fixtures/registry61/conversation.json")).unwrap()
}

fn strings(value: &Value) -> Vec<String> {
    let list = value.as_array().unwrap();
    list.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

fn four_tools(conversation: &Value) -> Catalog {
    let tools: Vec<Value> = conversation["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| {
            let mut tool = tool.clone();
            tool.as_object_mut().unwrap().remove("server");
            tool
        })
        .collect();
    Catalog::parse(&Value::from(tools).to_string()).unwrap()
}

/// Checks one list: to the letter for the Jaccard scorer, by what holds for any engine otherwise.
fn check(call: &Value, mut names: Vec<String>, to_the_letter: bool) {
    names.sort();
    if to_the_letter {
        assert_eq!(names, strings(&call["visible"]));
        return;
    }
    for name in strings(&call["must_show"]) {
        assert!(names.contains(&name), "{name} not in {names:?}");
    }
    for name in strings(&call["must_hide"]) {
        assert!(!names.contains(&name), "{name} in {names:?}");
    }
}

#[test]
fn three_turns_with_a_selector() {
    let conversation = conversation();
    let engine = Engine::builder(four_tools(&conversation)).build().unwrap();
    for (engine, jaccard) in [(engine.with_scorer(Jaccard), true), (engine, false)] {
        let selector = Selector::new(&engine).top_k(1);
        let mut pins = Pins::default();
        for turn in conversation["turns"].as_array().unwrap() {
            let user = turn["user"].as_str().unwrap();
            let mut extra_calls = 0;
            for call in turn["calls"].as_array().unwrap() {
                let picked = selector.select(user, &pins).unwrap();
                let mut names: Vec<String> = picked.names().map(str::to_owned).collect();
                names.push("discover_tools".into());
                let knows_synonyms = !jaccard && names.iter().any(|name| name == "calculator");
                if !(knows_synonyms && call["discover_returns"].is_string()) {
                    check(call, names, jaccard);
                }
                if let Some(expected) = call["discover_returns"].as_str() {
                    extra_calls += 1;
                    let query = call["model_calls"]["arguments"]["query"].as_str().unwrap();
                    let found = selector.discover(query, &mut pins).unwrap().unwrap();
                    assert_eq!(found.name(), expected);
                }
            }
            assert!(extra_calls <= 1);
            let stored = serde_json::to_string(&pins).unwrap();
            pins = serde_json::from_str(&stored).unwrap();
            let pinned: Vec<String> = pins.iter().map(|id| id.name().to_owned()).collect();
            assert_eq!(pinned, strings(&turn["pinned_after"]));
        }
    }
}

/// The article's selector as a session: one place a turn, nothing sticky but what was found.
fn run_options() -> SessionOptions {
    SessionOptions::default()
        .meta_tool("discover_tools")
        .limit(3)
        .pass_through(0)
        .retrieve(1)
        .find_limit(1)
        .pin_found(true)
        .timing(Timing::Immediate)
        .stale_after(0)
}

#[test]
fn three_turns_with_a_session_that_is_stored_after_each() {
    let conversation = conversation();
    let engine = Engine::builder(four_tools(&conversation)).build().unwrap();
    for (engine, jaccard) in [(engine.with_scorer(Jaccard), true), (engine, false)] {
        let mut run = engine.session(run_options()).unwrap();
        for turn in conversation["turns"].as_array().unwrap() {
            run.turn(turn["user"].as_str().unwrap()).unwrap();
            for call in turn["calls"].as_array().unwrap() {
                let names: Vec<String> = run.visible().names().map(str::to_owned).collect();
                let knows_synonyms = !jaccard && names.iter().any(|name| name == "calculator");
                if !(knows_synonyms && call["discover_returns"].is_string()) {
                    check(call, names, jaccard);
                }
                model_calls(&mut run, call);
            }
            let stored = serde_json::to_string(&run.to_state()).unwrap();
            let state = serde_json::from_str(&stored).unwrap();
            let (restored, report) = engine.restore(run_options(), state).unwrap();
            assert!(report.left_out.is_empty());
            assert_eq!(restored.visible(), run.visible());
            run = restored;
            let pinned: Vec<String> =
                run.working_set().pinned().map(|id| id.name().to_owned()).collect();
            assert_eq!(pinned, strings(&turn["pinned_after"]));
        }
        // And no other conversation sees it.
        let mut other = engine.session(run_options()).unwrap();
        other.turn("What's the weather forecast for Bergen tomorrow?").unwrap();
        assert!(!other.visible().contains("calculator"));
    }
}

fn model_calls(run: &mut Session, call: &Value) {
    let Some(name) = call["model_calls"]["tool"].as_str() else { return };
    let made = Call::new(name, call["model_calls"]["arguments"].clone());
    match run.authorize(&made).unwrap() {
        Verdict::MetaTool(search) => {
            let reply = run.find_tool(&search).unwrap();
            let found = reply.loaded.iter().chain(&reply.visible).next().unwrap();
            assert_eq!(Some(found.name.as_str()), call["discover_returns"].as_str());
        }
        Verdict::Run(tool) => run.record_use(&tool),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_discovery_of_nothing_is_a_reply_that_names_what_there_is() {
    let engine = Engine::builder(four_tools(&conversation())).scorer(Jaccard).build().unwrap();
    let mut run = engine.session(run_options()).unwrap();
    let call = Call::new("discover_tools", json!({"query": "zzz"}));
    let Verdict::MetaTool(search) = run.authorize(&call).unwrap() else { panic!() };
    insta::assert_snapshot!(run.find_tool(&search).unwrap().text(), @r"
    No tool fits. Do not repeat this search; tools exist in: default.
    Ask in other words, or load one of these by name: weather_forecast, finance_stock_quote, translate_text, calculator.
    ");
}

#[test]
fn a_trace_says_what_ranked_and_replays_by_that_alone() {
    let engine = Engine::builder(registry()).build().unwrap();
    let baseline = engine.with_scorer(Jaccard);
    let trace = TraceBuffer::new();
    let options = SessionOptions::default().limit(4).intent(IntentRules::english());
    let mut run = baseline.session(options).unwrap();
    run.trace_to(trace.clone());
    run.turn("post a message in the slack channel").unwrap();
    run.turn("What is a mutex?").unwrap();
    let text = trace.text();
    assert!(text.contains(r#""scorer":"jaccard""#), "{text}");
    assert!(text.contains(r#""intent":"conceptual""#) && text.contains("'^what is a'"), "{text}");

    let trace = Trace::parse(&text);
    assert!(baseline.replay(&trace).unwrap().is_identical());
    for other in [engine.clone(), engine.with_fusion(Fusion::DenseOnly).unwrap()] {
        let same = other.replay(&trace).is_ok_and(|report| report.is_identical());
        assert!(!same, "another ranking is another run");
    }
}
