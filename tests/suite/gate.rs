//! What the gate lets in by risk class, and between which tools somebody should choose.

use toolrack::{
    Calibration, Catalog, Embedder, Engine, FindRequest, FindStatus, Gate, LabelledQuery, Outcome,
    Pins, Rejected, Result, Risk, Scorer, SelectRequest, Selection, Selector, SessionOptions, Tool,
};

use crate::fixtures::{both, ids};

/// Scores by request and name of the tool; what is not listed scores 0.
struct Table(&'static [(&'static str, &'static str, f32)]);

impl Scorer for Table {
    fn name(&self) -> String {
        "table/1".into()
    }
    fn score(&self, request: &str, tools: &[&Tool]) -> Result<Vec<f32>> {
        let score = |tool: &&Tool| {
            let is_it = |row: &&(&str, &str, f32)| row.0 == request && row.1 == tool.name();
            self.0.iter().find(is_it).map_or(0.0, |row| row.2)
        };
        Ok(tools.iter().map(score).collect())
    }
    fn threshold(&self, risk: Risk) -> f32 {
        match risk {
            Risk::Read => 0.2,
            Risk::Write => 0.5,
            Risk::Destructive => 0.8,
        }
    }
}

fn scored(tools: &str, scores: &'static [(&'static str, &'static str, f32)]) -> Engine {
    Engine::builder(Catalog::parse(tools).unwrap()).scorer(Table(scores)).build().unwrap()
}

const TICKETS: &str = r#"[
    {"name": "archive_ticket", "risk": "write", "description": "Put a ticket away for good."},
    {"name": "shelve_ticket", "risk": "write", "description": "Put a ticket away for good."},
    {"name": "get_weather", "description": "The weather forecast of a city."},
    {"name": "read_mail", "description": "Read a mail."}]"#;
const AWAY: &str = "put the ticket away for good";

/// The names of an ambiguous outcome, in alphabetical order.
fn alike(selection: &Selection) -> Vec<&str> {
    let Outcome::Ambiguous(ids) = &selection.outcome else { panic!("{selection}") };
    let mut names: Vec<&str> = ids.iter().map(|id| id.name()).collect();
    names.sort();
    let candidates: Vec<_> = selection.candidates.iter().map(|c| &c.id).collect();
    assert!(ids.iter().all(|id| candidates.contains(&id)), "{selection}");
    names
}

#[test]
fn each_risk_class_has_a_threshold_of_its_own_by_cosine_and_by_words() {
    // Less than all of the words, so that coverage alone lets nothing in.
    let text = "how many boxes are there to count before our visitors arrive";
    let catalog = |risk: &str| {
        let tools = format!(
            r#"[{{"name": "count_stock", "risk": "{risk}", "description": "Count the boxes."}},
                {{"name": "get_weather", "description": "The weather forecast of a city."}}]"#
        );
        Catalog::parse(&tools).unwrap()
    };
    for (place, mode) in ["embedded", "lexical"].into_iter().enumerate() {
        let engine = |risk: &str, gate: Gate| {
            let builder = Engine::builder(catalog(risk)).gate(gate);
            let builder = if place == 0 { builder } else { builder.without_embedder() };
            builder.build().unwrap()
        };
        let open = engine("read", Gate::open()).select(&SelectRequest::new(text)).unwrap();
        let reaches = open.best().unwrap().gate.get();
        for (admitted, steps) in
            [(1, [-0.02, 0.02, 0.04]), (2, [-0.04, -0.02, 0.02]), (3, [-0.06, -0.04, -0.02])]
        {
            let [read, write, destructive] = steps.map(|step| reaches + step);
            let mut gate = Gate::open();
            gate.coverage = 1.0;
            (gate.read, gate.write, gate.destructive) =
                (Some(read), Some(write), Some(destructive));
            (gate.read_words, gate.write_words) = (read, write);
            gate.destructive_words = destructive;
            for (class, (risk, asked)) in
                [("read", read), ("write", write), ("destructive", destructive)]
                    .into_iter()
                    .enumerate()
            {
                let selection =
                    engine(risk, gate.clone()).select(&SelectRequest::new(text)).unwrap();
                let is_in = selection.candidates.iter().any(|c| c.id.name() == "count_stock");
                assert_eq!(is_in, class < admitted, "{mode} {risk} {steps:?}: {selection}");
                if !is_in {
                    let why = selection.rejected[0].1;
                    assert_eq!(why, Rejected::BelowThreshold { reaches, asked }, "{mode} {risk}");
                }
            }
        }
    }
}

#[test]
fn each_risk_class_has_a_threshold_of_its_own_by_a_scorer() {
    let engine = scored(
        r#"[{"name": "a"}, {"name": "b", "risk": "write"}, {"name": "c", "risk": "destructive"}]"#,
        &[
            ("low", "a", 0.4),
            ("low", "b", 0.4),
            ("low", "c", 0.4),
            ("middle", "a", 0.1),
            ("middle", "b", 0.6),
            ("middle", "c", 0.6),
            ("high", "c", 0.9),
        ],
    );
    let select = |text: &str| engine.select(&SelectRequest::new(text)).unwrap();
    for (text, admitted) in
        [("low", ["default/a"]), ("middle", ["default/b"]), ("high", ["default/c"])]
    {
        assert_eq!(
            select(text).candidates.iter().map(|c| c.id.clone()).collect::<Vec<_>>(),
            admitted.map(|id| id.parse().unwrap()),
            "{text}"
        );
    }
    let low = select("low");
    let why: Vec<_> = low.rejected.iter().map(|(c, why)| (c.id.name(), *why)).collect();
    assert_eq!(
        why,
        [
            ("b", Rejected::BelowThreshold { reaches: 0.4, asked: 0.5 }),
            ("c", Rejected::BelowThreshold { reaches: 0.4, asked: 0.8 }),
        ]
    );
    assert_eq!((low.thresholds.write, low.thresholds.of(Risk::Write)), (0.5, 0.5));
}

/// A model for which a request has the cosine that it names.
struct Told;

impl Embedder for Told {
    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        Ok(vec![vec![1.0, 0.0]; texts.len()])
    }
    fn embed_queries(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let vector = |text: &&str| {
            let word = text.split_whitespace().next_back().unwrap();
            let cosine = word.parse::<f32>().unwrap() / 10.0;
            vec![cosine, (1.0 - cosine * cosine).sqrt()]
        };
        Ok(texts.iter().map(vector).collect())
    }
    fn dimensions(&self) -> usize {
        2
    }
    fn max_tokens(&self) -> usize {
        256
    }
    fn fingerprint(&self) -> String {
        "told/1".into()
    }
}

#[test]
fn a_calibration_gives_each_risk_class_its_own_threshold() {
    let catalog = Catalog::parse(r#"[{"name": "brew_tea", "description": "Make tea."}]"#).unwrap();
    let engine = Engine::builder(catalog).embedder(Told).gate(Gate::open()).build().unwrap();
    let mut queries = Vec::new();
    let mut add = |times: usize, cosine: u8, tools: &[&str]| {
        let query = LabelledQuery::new(format!("hot drink {cosine}"), tools.iter().copied());
        queries.extend(std::iter::repeat_n(query, times));
    };
    // Read keeps 97 of 100. Write parts best above what is only near. Destructive admits 2 of 20.
    add(10, 3, &["brew_tea"]);
    add(90, 8, &["brew_tea"]);
    add(5, 2, &[]);
    add(12, 4, &[]);
    add(3, 9, &[]);
    let mut calibration = Calibration::default();
    calibration.add(&engine, &queries).unwrap();
    let fitted = calibration.fit("drinks").unwrap();
    let near = |fit: f32, expected: f32| (fit - expected).abs() < 0.003;
    let (read, write) = (fitted.read.threshold, fitted.write.threshold);
    assert!(near(read, 0.3) && near(write, 0.8), "{fitted}");
    assert!(near(fitted.destructive.threshold, 0.9), "{fitted}");
    let profile = &fitted.profile;
    assert_eq!((profile.read, profile.write), (read, write));
    assert_eq!((fitted.gate().read, fitted.gate().write), (Some(read), Some(write)));
}

#[test]
fn a_choice_is_seen_however_few_tools_are_asked_for() {
    for (mode, engine) in both(&Catalog::parse(TICKETS).unwrap()) {
        for k in [1, 2, 3] {
            let selection = engine.select(&SelectRequest::new(AWAY).k(k)).unwrap();
            assert_eq!(alike(&selection), ["archive_ticket", "shelve_ticket"], "{mode} {k}");
            assert!(selection.candidates.len() <= k.max(2), "{mode} {k}");
            assert!(selection.rejected.len() <= k, "{mode} {k}");
        }
        let none = engine.select(&SelectRequest::new(AWAY).k(0)).unwrap();
        assert_eq!((none.outcome, none.candidates.len()), (Outcome::NoMatch, 0), "{mode}");

        let options = SessionOptions::default().pass_through(0).retrieve(0);
        let mut run = engine.session(options).unwrap();
        let reply = run.find_tool(&FindRequest::new(AWAY).limit(1)).unwrap();
        assert_eq!((reply.status, reply.loaded.len()), (FindStatus::Ambiguous, 2), "{mode}");
        assert_eq!(reply.ambiguous.len(), 2, "{mode}");
    }
}

#[test]
fn nothing_is_discovered_where_somebody_should_choose() {
    for (mode, engine) in both(&Catalog::parse(TICKETS).unwrap()) {
        let (selector, mut pins) = (Selector::new(&engine), Pins::default());
        assert_eq!(selector.discover(AWAY, &mut pins).unwrap(), None, "{mode}");
        assert_eq!(pins, Pins::default(), "{mode}");
        let meant = selector.discover("shelve_ticket", &mut pins).unwrap();
        assert_eq!(meant.unwrap().name(), "shelve_ticket", "{mode}");
    }
}

#[test]
fn alternatives_are_candidates_beside_those_of_other_intents() {
    for (mode, engine) in both(&Catalog::parse(TICKETS).unwrap()) {
        let weather = "the weather forecast of the city";
        for intents in [[AWAY, weather], [weather, AWAY]] {
            let selection = engine.select(&SelectRequest::of_intents(intents).k(2)).unwrap();
            assert_eq!(alike(&selection), ["archive_ticket", "shelve_ticket"], "{mode}");
            assert!(ids(&selection).contains(&"default/get_weather".into()), "{mode} {selection}");
            assert_eq!(selection.candidates.len(), 3, "{mode}");
        }
        // An intent whose best tool has no place is not spoken of.
        let request = SelectRequest::of_intents([weather, AWAY]).k(1);
        let selection = engine.select(&request).unwrap();
        assert_eq!((selection.outcome, selection.candidates.len()), (Outcome::Found, 1), "{mode}");
    }
}

#[test]
fn one_tool_that_changes_something_makes_a_choice_of_two() {
    for (first, second, is_choice) in [
        ("read", "read", false),
        ("read", "write", true),
        ("write", "read", true),
        ("read", "destructive", true),
    ] {
        let tools = TICKETS.replacen("\"write\"", &format!("\"{first}\""), 1);
        let (head, tail) = tools.split_at(tools.find("shelve").unwrap());
        let tools = format!("{head}{}", tail.replacen("write", second, 1));
        let mut gate = Gate::open();
        gate.margin = 0.1;
        let engine = Engine::builder(Catalog::parse(&tools).unwrap()).gate(gate).build().unwrap();
        let selection = engine.select(&SelectRequest::new(AWAY)).unwrap();
        let ambiguous = matches!(selection.outcome, Outcome::Ambiguous(_));
        assert_eq!(ambiguous, is_choice, "{first} {second}: {selection}");
    }
}

#[test]
fn what_one_intent_keeps_out_another_may_let_in() {
    let engine = scored(
        r#"[{"name": "a"}, {"name": "b"}, {"name": "c"}]"#,
        &[("one", "a", 0.1), ("two", "b", 0.9), ("two", "c", 0.8), ("two", "a", 0.7)],
    );
    let selection = engine.select(&SelectRequest::of_intents(["one", "two"])).unwrap();
    assert_eq!(ids(&selection), ["default/b", "default/c", "default/a"]);
    assert!(selection.rejected.is_empty(), "{selection}");
}

#[test]
fn a_share_of_the_best_score_is_asked_for_in_each_intent_by_itself() {
    let engine = scored(
        r#"[{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}]"#,
        &[("one", "a", 1.0), ("one", "b", 0.6), ("two", "c", 0.4), ("two", "d", 0.25)],
    );
    let request = SelectRequest::of_intents(["one", "two"]).min_score_ratio(0.8);
    let selection = engine.select(&request).unwrap();
    assert_eq!(ids(&selection), ["default/a", "default/c"]);
    let why: Vec<_> = selection.rejected.iter().map(|(c, why)| (c.id.name(), *why)).collect();
    assert_eq!(
        why,
        [
            ("b", Rejected::BelowRatio { least: 0.8 }),
            ("d", Rejected::BelowRatio { least: 0.4 * 0.8 })
        ]
    );
    // They reach the gate: the model is not told that they come near.
    let options = SessionOptions::default().pass_through(0).retrieve(0).min_score_ratio(0.8);
    let reply = engine.session(options).unwrap().find_tool(&FindRequest::new("one")).unwrap();
    assert_eq!((reply.loaded.len(), reply.near.len()), (1, 0), "{reply}");
}
