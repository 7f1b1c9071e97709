//! The events of a ranking say what its selection says, and what can be worked out by hand.

use std::collections::BTreeMap;

use toolrack::trace::{DenseScore, Filter, FusedScore, Gated, Intent, LexicalScore};
use toolrack::{
    Candidate, Embedder as _, FieldWeights, Fusion, Gate, GatedBy, Jaccard, Outcome, Rejected,
    Risk, Score, SelectRequest, Selection,
};

use super::*;
use crate::fixtures::{Mood, Words, id, tool};

/// What the events of one ranking say.
struct Told<'a> {
    intent: &'a Intent,
    filter: &'a Filter,
    dense: &'a [DenseScore],
    degraded: Option<&'a str>,
    lexical: &'a [LexicalScore],
    rule: &'a Fusion,
    scorer: Option<&'a str>,
    fused: &'a [FusedScore],
    gate: &'a Gated,
}

/// The rankings of a trace; each is six events in a row.
fn rankings(events: &[Event]) -> Vec<Told<'_>> {
    let rows = events.windows(6).filter_map(|row| {
        let [a, b, c, d, e, f] = row else { return None };
        let Stage::Intent(intent) = &a.stage else { return None };
        let Stage::Filter(filter) = &b.stage else { panic!("{b:?}") };
        let Stage::Dense { scores: dense, degraded } = &c.stage else { panic!("{c:?}") };
        let Stage::Lexical { scores: lexical } = &d.stage else { panic!("{d:?}") };
        let Stage::Fusion { rule, scorer, scores: fused } = &e.stage else { panic!("{e:?}") };
        let Stage::Gate(gate) = &f.stage else { panic!("{f:?}") };
        let (degraded, scorer) = (degraded.as_deref(), scorer.as_deref());
        Some(Told { intent, filter, dense, degraded, lexical, rule, scorer, fused, gate })
    });
    rows.collect()
}

/// Thresholds between which nothing is by accident.
fn gate() -> Gate {
    let mut gate = Gate::default();
    (gate.read, gate.write, gate.destructive) = (Some(0.81), Some(0.82), Some(0.83));
    (gate.coverage, gate.margin, gate.handicap) = (0.3, 0.5, 0.07);
    (gate.read_words, gate.write_words, gate.destructive_words) = (0.3, 0.4, 0.9);
    gate
}

const RULE: Fusion = Fusion::Weighted { lexical_weight: 0.5 };

fn guarded(words: &Words) -> Engine {
    let builder = Engine::builder(Catalog::parse(CATALOGS[0]).unwrap()).embedder(words.clone());
    builder.gate(gate()).fusion(RULE).build().unwrap()
}

/// Every figure of the selection is in the events, and none besides.
fn assert_tells(told: &Told<'_>, selection: &Selection, engine: &Engine) {
    let rejected = selection.rejected.iter().map(|(candidate, _)| candidate);
    let ranked: Vec<&Candidate> = selection.candidates.iter().chain(rejected).collect();
    let by_tool =
        |figures: &dyn Fn(&Candidate) -> Option<Vec<Score>>| -> BTreeMap<ToolId, Vec<Score>> {
            ranked.iter().filter_map(|c| Some((c.id.clone(), figures(c)?))).collect()
        };
    let dense: BTreeMap<_, _> =
        told.dense.iter().map(|entry| (entry.tool.clone(), vec![entry.cosine])).collect();
    assert_eq!(dense, by_tool(&|c| Some(vec![c.cosine?])));
    assert!(told.dense.is_sorted_by(|a, b| a.cosine >= b.cosine));
    let lexical: BTreeMap<_, _> = told
        .lexical
        .iter()
        .map(|s| (s.tool.clone(), vec![s.bm25, s.lexical, s.coverage, s.name_coverage]))
        .collect();
    let expected = by_tool(&|c| Some(vec![c.bm25, c.lexical, c.coverage, c.name_coverage]));
    assert_eq!(lexical, expected);
    assert!(told.lexical.is_sorted_by(|a, b| a.lexical >= b.lexical));
    let fused: BTreeMap<_, _> = told
        .fused
        .iter()
        .map(|entry| (entry.tool.clone(), (entry.score, entry.named, entry.intent)))
        .collect();
    let expected: BTreeMap<_, _> =
        ranked.iter().map(|c| (c.id.clone(), (c.score, c.is_named(), c.intent))).collect();
    assert_eq!(fused, expected);
    assert_eq!(told.fused.len(), ranked.len());
    assert!(told.fused.is_sorted_by(|a, b| (a.named, a.score) >= (b.named, b.score)));

    let risk = |id: &ToolId| engine.snapshot().get(id).unwrap().policy().risk;
    assert_eq!(told.gate.outcome, selection.outcome);
    assert_eq!(told.gate.thresholds, selection.thresholds);
    assert_eq!(told.gate.total, selection.total);
    let admitted: Vec<_> =
        told.gate.admitted.iter().map(|j| (j.tool.clone(), j.risk, j.reaches)).collect();
    let expected: Vec<_> =
        selection.candidates.iter().map(|c| (c.id.clone(), risk(&c.id), c.gate)).collect();
    assert_eq!(admitted, expected);
    let rejected: Vec<_> =
        told.gate.rejected.iter().map(|j| (j.tool.clone(), j.risk, j.why)).collect();
    let expected: Vec<_> =
        selection.rejected.iter().map(|(c, why)| (c.id.clone(), risk(&c.id), *why)).collect();
    assert_eq!(rejected, expected);
    assert_eq!(told.filter.eligible, selection.eligible);
    assert_eq!(told.filter.excluded, engine.snapshot().len() - selection.eligible);
    assert_eq!(told.degraded, selection.degraded.as_deref());
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    product(a, b) / (product(a, a) * product(b, b)).sqrt()
}

fn near(a: f32, b: f32) -> bool {
    (a - b).abs() < 1e-4
}

#[test]
fn each_stage_tells_the_figures_of_its_selection() {
    let words = Words::new("words", 96);
    let engine = guarded(&words);
    let documents = words.taken();
    let mut run = engine.session(options_small().retrieve(3).context(context(1))).unwrap();
    let trace = TraceBuffer::new();
    run.trace_to(trace.clone());
    let messages = [
        "book a table at the restaurant, please",
        "create an invoice and send a mail to the customer",
        "and why is the moon made of weather and qwertz",
    ];
    let selections = messages
        .map(|message| run.turn(TurnInput::new(message).recent([])).unwrap().selection.unwrap());
    words.set(Mood::Down);
    let blind = run.turn(TurnInput::new("weather of a city").recent([])).unwrap();
    words.set(Mood::Well);
    let events = trace.events();
    let told = rankings(&events);
    assert_eq!(told.len(), 4);
    for (told, selection) in told.iter().zip(selections.iter().chain(&blind.selection)) {
        assert_tells(told, selection, &engine);
        assert_eq!((told.rule, told.scorer), (&RULE, None));
        assert_eq!((told.intent.k, told.intent.recent), (3, 0));
    }
    for (told, message) in told.iter().zip(messages) {
        assert_eq!(told.intent.intents, [message]);
        // Gate::default's are other numbers.
        let asked = told.gate.thresholds;
        assert_eq!(asked.by, GatedBy::Cosine);
        assert_eq!((asked.read, asked.write, asked.destructive), (0.81, 0.82, 0.83));
        assert_eq!((asked.coverage, asked.margin), (0.3, 0.5));
        // The dense arm by hand.
        let query = words.embed_queries(&[message]).unwrap().remove(0);
        assert!(!told.dense.is_empty());
        for entry in told.dense {
            let tool = engine.snapshot().get(&entry.tool).unwrap().description().to_owned();
            let text = documents.iter().find(|text| text.contains(&tool)).unwrap();
            let vector = words.embed_documents(&[text.as_str()]).unwrap().remove(0);
            assert!(near(entry.cosine.get(), dot(&query, &vector)), "{entry:?}");
        }
        // Fusion and the gate's figure by hand.
        for entry in told.fused {
            let dense = told.dense.iter().find(|other| other.tool == entry.tool).unwrap();
            let lexical = told.lexical.iter().find(|other| other.tool == entry.tool).unwrap();
            let sum = dense.cosine.get() + 0.5 * lexical.lexical.get();
            assert!(near(entry.score.get(), sum), "{entry:?}");
            let handicap = if lexical.name_coverage.get() > 0.0 { 0.0 } else { 0.07 };
            let reaches =
                told.gate.admitted.iter().map(|judged| (&judged.tool, judged.reaches.get()));
            let kept_out = told.gate.rejected.iter().map(|kept| match kept.why {
                Rejected::BelowThreshold { reaches, asked } => {
                    let class = match kept.risk {
                        Risk::Read => 0.81,
                        Risk::Write => 0.82,
                        Risk::Destructive => 0.83,
                    };
                    assert_eq!(asked, class);
                    (&kept.tool, reaches)
                }
                other => panic!("{other:?}"),
            });
            let (_, reaches) =
                reaches.chain(kept_out).find(|(tool, _)| **tool == entry.tool).unwrap();
            assert!(near(reaches, dense.cosine.get() - handicap), "{entry:?} reaches {reaches}");
        }
        // What fits when nothing is cut.
        let all = engine.select(&SelectRequest::new(message).k(100).context(context(1))).unwrap();
        assert_eq!(told.gate.total, all.candidates.len());
    }

    assert_eq!(told[0].gate.outcome, Outcome::Found);
    let booked = &told[0].lexical[0];
    assert_eq!(booked.tool, id("default/table_book"));
    assert!(near(booked.lexical.get(), 1.0) && near(booked.name_coverage.get(), 1.0));
    assert!(booked.coverage.get() > 0.6 && booked.bm25.get() > 1.0, "{booked:?}");
    let Outcome::Ambiguous(several) = &told[1].gate.outcome else { panic!("{:?}", told[1].gate) };
    assert!(several.contains(&id("default/mail_send")) && several.len() > 1, "{several:?}");
    assert_eq!(told[2].gate.outcome, Outcome::NoMatch);
    assert!(told[2].gate.admitted.is_empty() && !told[2].gate.rejected.is_empty());

    let blind = &told[3];
    assert!(blind.degraded.unwrap().contains("503") && blind.dense.is_empty());
    let asked = blind.gate.thresholds;
    assert_eq!((asked.by, asked.read, asked.write), (GatedBy::Words, 0.3, 0.4));
    for judged in &blind.gate.admitted {
        let lexical = blind.lexical.iter().find(|other| other.tool == judged.tool).unwrap();
        let words = lexical.name_coverage.get() + 2.0 * lexical.coverage.get();
        assert!(near(judged.reaches.get(), words), "{judged:?}");
    }
    assert!(!blind.gate.admitted.is_empty());
}

#[test]
fn a_search_tells_its_ranking_and_a_scorer_its_name() {
    let words = Words::new("words", 96);
    let engine = guarded(&words);
    let mut run = engine.session(options_small().retrieve(0)).unwrap();
    let trace = TraceBuffer::new();
    run.trace_to(trace.clone());
    run.find_tool(&FindRequest::new("search the documents").namespace("docs").limit(2)).unwrap();
    let events = trace.events();
    let told = rankings(&events);
    let request = SelectRequest::new("search the documents").k(2).namespace("docs");
    assert_tells(&told[0], &engine.select(&request).unwrap(), &engine);
    // The one tool of the namespace, of seven.
    assert_eq!((told[0].filter.eligible, told[0].filter.excluded), (1, 6));
    assert_eq!((told[0].intent.k, told[0].intent.namespace.as_deref()), (2, Some("docs")));

    let engine = engine.with_scorer(Jaccard);
    let mut run = engine.session(options_small()).unwrap();
    let trace = TraceBuffer::new();
    run.trace_to(trace.clone());
    let turn = run.turn("search the tickets").unwrap();
    let events = trace.events();
    let told = rankings(&events);
    assert_tells(&told[0], &turn.selection.unwrap(), &engine);
    assert!(told[0].scorer.is_some_and(|name| name.to_lowercase().contains("jaccard")));
    assert_eq!(told[0].gate.thresholds.by, GatedBy::Scorer);
}

#[test]
fn the_filter_names_the_policy_in_force_and_an_operator_sees_each_reason() {
    let restricted = |written: &str, restrict: &dyn Fn(&mut ToolPolicy)| {
        let id = id(written);
        let mut policy = ToolPolicy::default();
        restrict(&mut policy);
        let tool = Tool::builder(id.name()).namespace(id.namespace()).policy(policy);
        tool.description("Send a mail.").build().unwrap()
    };
    let yes = || vec!["yes".to_owned()];
    let catalog = Catalog::from_tools([
        restricted("a/off", &|policy| policy.enabled = false),
        restricted("b/elsewhere", &|_| {}),
        restricted("a/unlisted", &|_| {}),
        restricted("a/prod", &|policy| policy.environments = yes()),
        restricted("a/scoped", &|policy| policy.scopes = yes()),
        restricted("a/staff", &|policy| policy.roles = yes()),
        restricted("a/planning", &|policy| policy.stages = yes()),
        restricted("a/tenanted", &|policy| policy.tenants = yes()),
        restricted("a/flagged", &|policy| policy.flags = yes()),
        restricted("a/free", &|_| {}),
    ]);
    let engine = Engine::builder(catalog.unwrap()).without_embedder().build().unwrap();
    let all: Vec<ToolId> = engine.snapshot().tools().map(|tool| tool.id().clone()).collect();
    let listed = all.iter().filter(|id| id.name() != "unlisted").cloned();
    let narrow = RuntimeContext::default().approve_namespaces(["a"]).allow_tools(listed);
    let wide = RuntimeContext::default().scopes(["yes"]).roles(["yes"]);
    let mut run =
        engine.session(SessionOptions::default().pass_through(0).context(narrow.clone())).unwrap();
    let trace = TraceBuffer::new();
    run.trace_at(TraceLevel::Operator, trace.clone());
    run.turn("send a mail").unwrap();
    run.set_context(wide.clone());
    run.turn("send a mail").unwrap();

    let events = trace.events();
    let Stage::Open(opened) = &events[0].stage else { panic!("{:?}", events[0]) };
    let hidden = |policy: &toolrack::trace::PolicyStamp| -> Vec<String> {
        let hidden = policy.hidden.iter().flatten();
        hidden.map(|hidden| format!("{} {:?}", hidden.tool, hidden.reason)).collect()
    };
    assert_eq!(
        hidden(&opened.policy),
        [
            "a/off Disabled",
            "b/elsewhere Namespace",
            "a/unlisted NotAllowed",
            "a/prod Environment",
            "a/scoped Scope",
            "a/staff Role",
            "a/planning Stage",
            "a/tenanted Tenant",
            "a/flagged Flag",
        ]
    );
    let changed = events.iter().find_map(|event| match &event.stage {
        Stage::Context { policy } => Some(policy),
        _ => None,
    });
    let changed = changed.unwrap();
    assert_eq!(
        hidden(changed),
        [
            "a/off Disabled",
            "a/prod Environment",
            "a/planning Stage",
            "a/tenanted Tenant",
            "a/flagged Flag"
        ]
    );
    assert_eq!((&opened.policy.context, &changed.context), (&narrow, &wide));
    assert_ne!(opened.policy.version, changed.version);
    let told = rankings(&events);
    for (told, policy, usable) in [(&told[0], &opened.policy, 1), (&told[1], changed, 5)] {
        assert_eq!((policy.eligible, policy.excluded), (usable, 10 - usable));
        assert_eq!(told.filter.policy, policy.version);
        assert_eq!((told.filter.eligible, told.filter.excluded), (usable, 10 - usable));
    }
}

#[test]
fn the_digest_of_the_rules_changes_with_each_of_them() {
    let rules = |engine: &Engine| {
        let trace = TraceBuffer::new();
        engine.session(options_small()).unwrap().trace_to(trace.clone());
        let Stage::Open(opened) = trace.events()[0].stage.clone() else { panic!() };
        opened.rules
    };
    let builder = || {
        Engine::builder(Catalog::from_tools([tool("a/b", "Does it.")]).unwrap()).without_embedder()
    };
    let plain = builder().build().unwrap();
    let mut weights = FieldWeights::default();
    weights.name += 1;
    let mut all = vec![
        rules(&plain),
        rules(&plain.with_scorer(Jaccard)),
        rules(&builder().fusion(Fusion::LexicalOnly).build().unwrap()),
        rules(&builder().gate(gate()).build().unwrap()),
        rules(&builder().field_weights(weights).build().unwrap()),
    ];
    assert_eq!(all[0], rules(&builder().build().unwrap()));
    assert!(all.iter().all(|digest| digest.len() == 16), "{all:?}");
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 5);
}
