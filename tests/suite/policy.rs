//! Gate, fallback, calibration and handlers on the way that a runtime goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use toolrack::{
    Boost, Calibration, Call, Catalog, Dispatch, Embedder, Engine, Error, ErrorKind, Fallback,
    FindRequest, FindStatus, Gate, HandlerFuture, Handlers, LabelledQuery, Outcome, Rejected,
    Result, RuntimeContext, SelectRequest, Selector, SessionOptions, StaticEmbedder, TrustPolicy,
    Verdict,
};

/// The bundled model, which can be switched off.
#[derive(Clone)]
struct Switched(Arc<AtomicBool>);

impl Switched {
    fn check(&self) -> Result<()> {
        let up = self.0.load(Ordering::SeqCst);
        if up { Ok(()) } else { Err(Error::embedder("the embedding service is down")) }
    }
}

impl Embedder for Switched {
    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        self.check()?;
        StaticEmbedder::bundled().embed_documents(texts)
    }
    fn dimensions(&self) -> usize {
        StaticEmbedder::bundled().dimensions()
    }
    fn max_tokens(&self) -> usize {
        256
    }
    fn fingerprint(&self) -> String {
        "switched/1".into()
    }
}

const SERVICES: &str = r#"[
    {"name": "restart_service", "aliases": ["bounce", "turn it off and on"], "risk": "write",
     "description": "Restart a running service."},
    {"name": "delete_service", "aliases": ["bounce for good"], "risk": "destructive",
     "description": "Delete a service."},
    {"name": "list_services", "aliases": ["service overview"], "description": "List the services."},
    {"name": "service_logs", "description": "Read the log of a service."}]"#;

fn services() -> (Engine, Arc<AtomicBool>) {
    let up = Arc::new(AtomicBool::new(true));
    let catalog = Catalog::parse(SERVICES).unwrap();
    let engine = Engine::builder(catalog).embedder(Switched(Arc::clone(&up))).build().unwrap();
    (engine, up)
}

fn names(selection: &toolrack::Selection) -> Vec<&str> {
    selection.candidates.iter().map(|candidate| candidate.id.name()).collect()
}

#[test]
fn without_the_model_only_names_and_trusted_aliases_count() {
    let (engine, up) = services();
    up.store(false, Ordering::SeqCst);
    let select =
        |text: &str, fallback| engine.select(&SelectRequest::new(text).fallback(fallback)).unwrap();
    let by_words = select("read the log of the service, please bounce it", Fallback::Words);
    assert!(names(&by_words).contains(&"service_logs") && by_words.is_degraded());

    let strict = select("read the log of the service, please bounce it", Fallback::Aliases);
    assert_eq!(names(&strict), ["restart_service"]);
    assert_eq!(strict.candidates[0].boosts, [Boost::Alias]);
    assert!(strict.is_degraded() && strict.outcome == Outcome::Found);

    // Word for word, and names still count; nothing else brings a tool back.
    assert_eq!(select("the bouncer of the club", Fallback::Aliases).outcome, Outcome::NoMatch);
    assert_eq!(names(&select("call `service_logs`", Fallback::Aliases)), ["service_logs"]);
    let nothing = select("everything about services", Fallback::Aliases);
    assert_eq!((nothing.outcome, nothing.candidates.len()), (Outcome::NoMatch, 0));

    // Two that change something, by one wording: somebody should choose.
    let both = select("bounce for good", Fallback::Aliases);
    let Outcome::Ambiguous(ids) = &both.outcome else { panic!("{both}") };
    assert_eq!(ids.len(), 2);

    // Hidden tools have no aliases.
    let context = RuntimeContext::default().allow_tools(["default/list_services".parse().unwrap()]);
    let request = SelectRequest::new("bounce it").fallback(Fallback::Aliases).context(context);
    assert_eq!(engine.select(&request).unwrap().outcome, Outcome::NoMatch);

    // Recovery with the next success.
    up.store(true, Ordering::SeqCst);
    let back = select("read the log of the service", Fallback::Aliases);
    assert!(!back.is_degraded() && names(&back).contains(&"service_logs"));
}

#[test]
fn below_the_gate_an_alias_decides_and_a_session_goes_the_same_way() {
    let (engine, up) = services();
    let odd = "the screen froze and the pointer jumps: turn it off and on";
    let strict = Gate::default();
    let strict_engine = |fallback| {
        let mut gate = strict.clone();
        (gate.read, gate.write, gate.destructive) = (Some(0.99), Some(0.99), Some(1.0));
        gate.coverage = 1.0;
        let engine = Engine::builder(Catalog::parse(SERVICES).unwrap()).gate(gate).build().unwrap();
        engine.select(&SelectRequest::new(odd).fallback(fallback)).unwrap()
    };
    assert_eq!(strict_engine(Fallback::Words).outcome, Outcome::NoMatch);
    assert_eq!(names(&strict_engine(Fallback::Aliases)), ["restart_service"]);

    let options = SessionOptions::default().pass_through(0).fallback(Fallback::Aliases);
    let mut run = engine.session(options).unwrap();
    up.store(false, Ordering::SeqCst);
    let turn = run.turn(odd).unwrap();
    assert_eq!(turn.visible.names().collect::<Vec<_>>(), ["find_tool", "restart_service"]);
    assert!(turn.explain().contains("alias"), "{}", turn.explain());
    let reply = run.find_tool(&FindRequest::new("read the log of a service")).unwrap();
    assert_eq!(reply.status, FindStatus::NothingFound);
    let reply = run.find_tool(&FindRequest::new("a service overview")).unwrap();
    assert_eq!(reply.loaded[0].name, "list_services");
}

#[test]
fn aliases_fill_no_more_places_than_there_are() {
    let select = |risk: &str, k: usize| {
        let tools =
            (0..5).map(|n| json!({"name": format!("t{n}"), "aliases": ["go"], "risk": risk}));
        let catalog = Catalog::parse(&Value::from_iter(tools).to_string()).unwrap();
        let engine = Engine::builder(catalog).embedder(Switched(Arc::default())).build().unwrap();
        let request = SelectRequest::new("go").k(k).fallback(Fallback::Aliases);
        engine.select(&request).unwrap()
    };
    for (k, n) in [(0, 0), (1, 1), (2, 2), (4, 4), (9, 5)] {
        let reads = select("read", k);
        assert_eq!((reads.candidates.len(), reads.total), (n, n), "{k}");
        // Calling the wrong one of them breaks nothing.
        let outcome = if k == 0 { Outcome::NoMatch } else { Outcome::Found };
        assert_eq!(reads.outcome, outcome, "{k}");
    }
    for (k, n) in [(1, 2), (2, 2), (4, 4)] {
        let writes = select("write", k);
        let Outcome::Ambiguous(ids) = &writes.outcome else { panic!("{writes}") };
        assert_eq!((ids.len(), writes.candidates.len()), (n, n), "{k}");
    }
}

#[test]
fn aliases_of_a_source_that_is_not_trusted_do_not_count() {
    let catalog = Catalog::trusting(TrustPolicy::default().alias_sources(["ours"]));
    let engine = Engine::builder(catalog).embedder(Switched(Arc::default())).build().unwrap();
    let theirs = SERVICES.replace("\"name\": \"", "\"namespace\": \"theirs\", \"name\": \"");
    for (source, text) in [("ours", SERVICES), ("theirs", &theirs)] {
        engine.refresh(source, toolrack::Listing::parse(text).unwrap()).unwrap();
    }
    let request = SelectRequest::new("please bounce it").fallback(Fallback::Aliases);
    let selection = engine.select(&request).unwrap();
    assert_eq!(selection.candidates.len(), 1);
    assert_eq!(selection.candidates[0].id.namespace(), "default");
}

#[test]
fn two_write_tools_within_the_margin_are_ambiguous_and_both_are_told() {
    let catalog = Catalog::parse(
        r#"[{"name": "archive_ticket", "risk": "write", "description": "Put a ticket away for good."},
            {"name": "shelve_ticket", "risk": "write", "description": "Put a ticket away for good."},
            {"name": "read_ticket", "description": "Read a ticket."},
            {"name": "read_mail", "description": "Read a mail."}]"#,
    )
    .unwrap();
    let engine = Engine::builder(catalog).build().unwrap();
    let request = "put the ticket away for good";
    let selection = engine.select(&SelectRequest::new(request)).unwrap();
    let Outcome::Ambiguous(ids) = &selection.outcome else { panic!("{selection}") };
    let mut both: Vec<&str> = ids.iter().map(|id| id.name()).collect();
    both.sort();
    assert_eq!(both, ["archive_ticket", "shelve_ticket"]);

    let options = SessionOptions::default().pass_through(0).retrieve(0);
    let mut run = engine.session(options).unwrap();
    let reply = run.find_tool(&FindRequest::new(request)).unwrap();
    assert_eq!(reply.status, FindStatus::Ambiguous);
    assert_eq!(reply.ambiguous.len(), 2);
    assert!(reply.text().contains("These fit alike; choose by their descriptions: "), "{reply}");
    // Read-only tools never are: calling the wrong one breaks nothing.
    let reads = engine.select(&SelectRequest::new("read it").k(2)).unwrap();
    assert!(!matches!(reads.outcome, Outcome::Ambiguous(_)));
}

fn registry() -> (Engine, Vec<LabelledQuery>) {
    let catalog = Catalog::parse(include_str!("../fixtures/registry61/tools.jsonl")).unwrap();
    let mut queries: Vec<LabelledQuery> = include_str!("../fixtures/registry61/queries.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for nothing in [
        "repaint the garden fence",
        "tune my guitar",
        "walk the dog at noon",
        "bake sourdough bread",
        "fix the leaking tap",
        "cut my hair short",
        "milk the goats",
        "climb the north face",
        "knit a scarf for grandma",
        "change the tyres of the van",
        "train for a marathon",
        "paint a still life of pears",
    ] {
        queries.push(LabelledQuery::new(nothing, [""; 0]));
    }
    (Engine::builder(catalog).build().unwrap(), queries)
}

#[test]
fn thresholds_are_calibrated_from_labelled_requests() {
    let (engine, queries) = registry();
    let mut calibration = Calibration::default();
    calibration.add(&engine, &queries).unwrap();
    let fitted = calibration.clone().fit("the registry, for a test").unwrap();
    assert_eq!((fitted.answerable, fitted.unanswerable), (30, 12));
    assert_eq!(fitted.profile.calibrated_on.as_deref(), Some("the registry, for a test"));
    assert!(fitted.read.kept >= 0.97 && fitted.destructive.admitted <= 0.1 + 1e-9, "{fitted}");
    let profile = &fitted.profile;
    assert!(profile.read <= profile.write && profile.write <= profile.destructive, "{fitted}");
    assert!(fitted.write.kept - fitted.write.admitted >= fitted.read.kept - fitted.read.admitted);

    // What was measured is what the gate then does.
    let gated = Engine::builder(engine.catalog().clone()).gate(fitted.gate()).build().unwrap();
    let turned_away = queries[30..]
        .iter()
        .filter(|query| {
            let selection = gated.select(&SelectRequest::new(query.query.as_str())).unwrap();
            selection.outcome == Outcome::NoMatch
        })
        .count();
    let expected = 12.0 * (1.0 - fitted.read.admitted);
    assert_eq!(turned_away, expected.round() as usize, "{fitted}");
    let only_fitting = Selector::new(&gated).only_fitting().recall(&queries, &[10]).unwrap();
    assert!(only_fitting.rows[0].recall >= 0.8, "{only_fitting}");

    // A stricter wish gives stricter numbers.
    let strict = calibration.admit(0.0).keep(0.5).fit("strict").unwrap();
    assert!(strict.read.threshold >= fitted.read.threshold);
    assert_eq!(strict.destructive.admitted, 0.0);
}

#[test]
fn a_calibration_that_cannot_be_made_says_why() {
    let (engine, queries) = registry();
    let error = Calibration::default().fit("nothing").unwrap_err();
    assert_eq!(
        error.to_string(),
        "there are 0 answerable and 0 unanswerable requests: give at least 10 of each"
    );
    let mut calibration = Calibration::default();
    calibration.add(&engine, &queries).unwrap();
    assert!(calibration.clone().keep(0.0).fit("x").is_err());
    let words = Engine::builder(engine.catalog().clone()).without_embedder().build().unwrap();
    assert_eq!(calibration.add(&words, &queries).unwrap_err().kind(), ErrorKind::Embedder);
    let other = StaticEmbedder::bundled().truncated(64).unwrap();
    let other = Engine::builder(engine.catalog().clone()).embedder(other).build().unwrap();
    assert_eq!(calibration.add(&other, &queries).unwrap_err().kind(), ErrorKind::ModelMismatch);
    let unknown = [LabelledQuery::new("x", ["no_such_tool"])];
    assert_eq!(calibration.add(&engine, &unknown).unwrap_err().kind(), ErrorKind::UnknownTool);
}

#[test]
fn handlers_and_schema_only_tools_live_side_by_side() {
    let catalog = Catalog::parse(
        r#"[{"name": "add"}, {"name": "fetch", "namespace": "web"}, {"name": "deploy"}, {"name": "fail"}]"#,
    )
    .unwrap();
    let engine = Engine::builder(catalog).build().unwrap();
    let mut run = engine.session(SessionOptions::default()).unwrap();
    run.visible();

    let mut handlers = Handlers::default();
    handlers.register("default/add".parse().unwrap(), |arguments: &Value| {
        Ok(json!(arguments["a"].as_i64().ok_or("'a' is no number")? + 1))
    });
    handlers.register("default/fail".parse().unwrap(), |_: &Value| Err("disk full".into()));
    handlers.register_async("web/fetch".parse().unwrap(), |arguments: Value| -> HandlerFuture {
        Box::pin(async move {
            tokio::task::yield_now().await;
            Ok(json!({"url": arguments["url"]}))
        })
    });
    assert_eq!(format!("{handlers:?}"), "Handlers([default/add, default/fail, web/fetch])");

    let mut dispatch = |name: &str, arguments: Value| {
        let call = Call::new(name, arguments);
        let Verdict::Run(tool) = run.authorize(&call).unwrap() else { panic!("{name}") };
        let dispatched = handlers.dispatch(&tool, &call.arguments);
        run.record_use(&tool);
        dispatched
    };
    let Dispatch::Done(Ok(sum)) = dispatch("add", json!({"a": 1})) else { panic!() };
    assert_eq!(sum, json!(2));
    let Dispatch::Done(Err(error)) = dispatch("add", json!({})) else { panic!() };
    assert_eq!(error.to_string(), "'a' is no number");
    assert!(matches!(dispatch("fail", json!({})), Dispatch::Done(Err(_))));
    assert!(matches!(dispatch("deploy", json!({})), Dispatch::SchemaOnly));
    let Dispatch::Pending(answer) = dispatch("web__fetch", json!({"url": "u"})) else { panic!() };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(answer).unwrap(), json!({"url": "u"}));

    let mut gone = handlers.clone();
    assert!(gone.remove(&"default/add".parse().unwrap()));
    let Verdict::Run(tool) = run.authorize(&Call::new("add", json!({}))).unwrap() else { panic!() };
    assert!(runtime.block_on(gone.run(&tool, &json!({}))).is_none());
    assert!(runtime.block_on(handlers.run(&tool, &json!({"a": 4}))).unwrap().unwrap() == json!(5));
}

/// The bundled model, to which some texts mean nothing.
struct Blind;

impl Embedder for Blind {
    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let mut vectors = StaticEmbedder::bundled().embed_documents(texts)?;
        for (text, vector) in texts.iter().zip(&mut vectors) {
            if text.contains("warehouse") {
                vector.fill(0.0);
            }
        }
        Ok(vectors)
    }
    fn embed_queries(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        StaticEmbedder::bundled().embed_queries(texts)
    }
    fn dimensions(&self) -> usize {
        StaticEmbedder::bundled().dimensions()
    }
    fn max_tokens(&self) -> usize {
        256
    }
    fn fingerprint(&self) -> String {
        "blind/1".into()
    }
}

#[test]
fn a_tool_without_a_vector_is_judged_by_its_words() {
    let tools = r#"[
        {"name": "count_stock", "description": "Count the boxes in a warehouse."},
        {"name": "empty_stock", "description": "Throw away the boxes of a warehouse.",
         "risk": "destructive"},
        {"name": "list_invoices", "description": "List the invoices of a month."},
        {"name": "get_weather", "description": "The weather forecast of a city."}]"#;
    let catalog = || Catalog::parse(tools).unwrap();
    let engine = Engine::builder(catalog()).embedder(Blind).build().unwrap();
    assert_eq!(engine.report().missing, 2);
    let words = Engine::builder(catalog()).without_embedder().build().unwrap();
    let gate = Gate::default();
    // Less than half of the words, so that coverage alone lets nothing in.
    let text = "how many boxes are there to count before our visitors from Norway arrive tomorrow";
    let (seen, by_words) = (
        engine.select(&SelectRequest::new(text)).unwrap(),
        words.select(&SelectRequest::new(text)).unwrap(),
    );
    assert!(!seen.is_degraded(), "the model answered");
    let count = seen.candidates.iter().find(|c| c.id.name() == "count_stock");
    let count = count.expect("admitted by its words");
    assert_eq!(count.cosine, None);
    let alone = by_words.candidates.iter().find(|c| c.id.name() == "count_stock").unwrap();
    assert_eq!(count.gate, alone.gate);
    assert!(count.gate.get() >= gate.read_words);
    let why = seen.rejected.iter().find(|(c, _)| c.id.name() == "empty_stock");
    let (_, why) = why.expect("kept out by the words' threshold of its class");
    let below =
        |asked: f32| matches!(why, Rejected::BelowThreshold { asked: a, .. } if *a == asked);
    assert!(below(gate.destructive_words), "{why:?}");
    // Everything that has a vector is judged by it.
    assert_eq!(
        names(&engine.select(&SelectRequest::new("will it rain")).unwrap()),
        ["get_weather"]
    );
    // A request that has no word of it does not bring it in.
    let none = engine.select(&SelectRequest::new("repair my bicycle")).unwrap();
    assert_eq!(none.outcome, Outcome::NoMatch);
}

#[test]
fn a_boundless_k_asks_for_all_and_no_more() {
    let tools = (0..3_000).map(|n| json!({"name": format!("list_items_{n}"), "risk": "write"}));
    let catalog = Catalog::parse(&Value::from_iter(tools).to_string()).unwrap();
    let engine = Engine::builder(catalog).build().unwrap();
    let named: String = (0..3_000).map(|n| format!("list_items_{n} ")).collect();
    for text in [named.as_str(), "list the items"] {
        let select = |k| engine.select(&SelectRequest::new(text).k(k)).unwrap();
        let all = select(usize::MAX);
        assert_eq!(all.candidates.len(), 3_000);
        assert_eq!(all, select(3_000));
    }
}
