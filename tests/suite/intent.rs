//! Rules that read a request, on the way that a runtime goes.

use toolrack::{
    Boost, Catalog, Complexity, Engine, ErrorKind, FindRequest, FindStatus, IntentRules, Outcome,
    QueryIntent, RuntimeContext, SelectRequest, SessionOptions,
};

fn engine() -> Engine {
    let catalog = Catalog::parse(
        r#"[{"name": "web_search", "namespace": "web", "description": "Search the web for pages."},
            {"name": "query_database", "namespace": "data", "tags": ["storage"], "description": "Run a query on a database."},
            {"name": "create_database", "namespace": "data", "risk": "write", "description": "Create a new database."},
            {"name": "compare_databases", "namespace": "ops", "tags": ["storage"], "description": "Compare two databases, table by table."},
            {"name": "drop_database", "namespace": "ops", "risk": "destructive", "description": "Drop a database for good."}]"#,
    )
    .unwrap();
    Engine::builder(catalog).build().unwrap()
}

fn options() -> SessionOptions {
    SessionOptions::default().pass_through(0).limit(4)
}

#[test]
fn requests_are_read_by_whole_words() {
    let rules = IntentRules::english();
    use Complexity::{Complex, Moderate, Simple};
    use QueryIntent::{Comparative, Conceptual, Courtesy, CurrentEvents, Factual};
    for (text, intent, complexity) in [
        ("What is a database?", Conceptual, Simple),
        ("Explain photosynthesis", Conceptual, Simple),
        (
            "What's the idea behind a bloom filter? Then explain cuckoo filters.",
            Conceptual,
            Moderate,
        ),
        // Somebody's own affairs, a number, a thing to do.
        ("How do I reset my password?", Factual, Simple),
        ("What is a good price for 3 apples?", Factual, Simple),
        ("Explain and send it to Ana", Factual, Simple),
        // A long conceptual question counts as factual.
        (
            "What is a sensible way of telling whether the parser of a compiler has got the \
             precedence of its operators right?",
            Factual,
            Moderate,
        ),
        ("Any news about the strike?", CurrentEvents, Simple),
        ("Subscribe Ana to the newsletter", Factual, Simple),
        ("the latestness of it", Factual, Simple),
        ("Compare the two invoices", Comparative, Simple),
        ("Thanks a lot, that's all!", Courtesy, Simple),
        ("Hello", Courtesy, Simple),
        // Courtesy beside a request, and words that may be an answer.
        ("Thanks, now delete it", Factual, Simple),
        ("ok", Factual, Simple),
        ("yes, do it", Factual, Simple),
        (
            "Read the file, then sort it, after that mail it to Ana, and finally delete it.",
            Factual,
            Complex,
        ),
    ] {
        let reading = rules.classify(text);
        assert_eq!((reading.intent, reading.complexity), (intent, complexity), "{text}: {reading}");
    }
}

#[test]
fn a_simple_conceptual_question_brings_nothing_in() {
    let engine = engine();
    let question = "What is a database?";
    let mut plain = engine.session(options()).unwrap();
    let tools = plain.turn(question).unwrap().visible.tools().len();
    assert!(tools > 0, "off by default");

    let mut run = engine.session(options().intent(IntentRules::english())).unwrap();
    let turn = run.turn(question).unwrap();
    assert!(turn.visible.tools().is_empty());
    let selection = turn.selection.as_ref().unwrap();
    assert_eq!(selection.outcome, Outcome::NotNeeded);
    let report = selection.intent.as_ref().unwrap();
    assert_eq!(report.excluded.len(), tools);
    assert!(report.tokens_saved > 0);
    assert_eq!(report.reading.reasons, ["has '^what is a'", "4 words, 0 joints"]);
    let explained = turn.explain();
    assert!(
        explained.contains("simple conceptual question (has '^what is a'; 4 words, 0 joints)"),
        "{explained}"
    );

    // The model may still ask, and names go before rules.
    let reply = run.find_tool(&FindRequest::new("what is a database query")).unwrap();
    assert_ne!(reply.status, FindStatus::NothingFound);
    let turn = run.turn("What is a `query_database`?").unwrap();
    assert_eq!(turn.selection.unwrap().best().unwrap().id.name(), "query_database");
}

#[test]
fn the_fallback_tool_is_all_that_such_a_question_gets() {
    let engine = engine();
    let rules = IntentRules::english().with_fallback("web_search");
    let mut run = engine.session(options().intent(rules.clone())).unwrap();
    let turn = run.turn("What is a database?").unwrap();
    let names: Vec<&str> = turn.visible.names().collect();
    assert_eq!(names, ["find_tool", "web__web_search"]);
    let selection = turn.selection.as_ref().unwrap();
    assert_eq!(selection.outcome, Outcome::NotNeeded);
    assert_eq!(selection.candidates[0].boosts, [Boost::Fallback]);
    assert!(turn.explain().contains("fallback"));

    // Falling back is no permission.
    let data = RuntimeContext::default().approve_namespaces(["data"]);
    let mut run = engine.session(options().intent(rules).context(data)).unwrap();
    let turn = run.turn("What is a database?").unwrap();
    assert!(turn.visible.tools().is_empty());
    assert!(!format!("{turn:?}").contains("web_search"));
}

/// Rules of one's own: another language, groups, a number of tools.
const GERMAN: &str = r#"
language = "de"

[[rules]]
intent = "comparative"
any = ["vergleich*", "unterschied zwischen"]

[[rules]]
intent = "conceptual"
max_words = 8
any = ["^was ist ein", "^was ist eine"]
unless = ["mein*"]

[complexity]
moderate_words = 10
complex_words = 30
moderate_joints = 1
complex_joints = 3
joints = ["danach"]

[[plans]]
intent = "conceptual"
tools = 0

[[plans]]
intent = "comparative"
tools = 2
groups = ["storage"]
"#;

#[test]
fn a_plan_says_how_many_tools_of_which_groups() {
    let engine = engine();
    let rules = IntentRules::parse(GERMAN).unwrap();
    let request = |text: &str| SelectRequest::new(text).intent_rules(rules.clone());
    let selection = engine.select(&request("Vergleiche: compare the database")).unwrap();
    let mut names: Vec<&str> = selection.candidates.iter().map(|c| c.id.name()).collect();
    names.sort();
    // By tag across namespaces; filtered before the cut, so that both places are filled.
    assert_eq!(names, ["compare_databases", "query_database"]);
    let report = selection.intent.unwrap();
    assert_eq!(report.plan.unwrap().groups, ["storage"]);
    assert!(report.excluded.iter().all(|id| id.name() != "query_database"));

    let selection = engine.select(&request("Was ist eine database?")).unwrap();
    assert_eq!(selection.outcome, Outcome::NotNeeded);
    // What is not in the table is left alone.
    let text = "Was ist ein Eintrag in meiner database?";
    let plain = engine.select(&SelectRequest::new(text)).unwrap();
    let selection = engine.select(&request(text)).unwrap();
    assert_eq!(selection.candidates, plain.candidates);
    assert_eq!(selection.intent.unwrap().plan, None);
}

#[test]
fn rules_that_make_no_sense_are_refused() {
    let kind = |text: &str| IntentRules::parse(text).unwrap_err().kind();
    assert_eq!(kind("language = 3"), ErrorKind::Format);
    assert_eq!(kind(&GERMAN.replace("\"danach\"", "\" \"")), ErrorKind::InvalidSetting);
    assert_eq!(
        kind(&GERMAN.replace("complex_words = 30", "complex_words = 3")),
        ErrorKind::InvalidSetting
    );
    let error = IntentRules::read("no/such/file").unwrap_err();
    assert_eq!(error.to_string(), "cannot read no/such/file: give a readable text file");
    let mut bad = IntentRules::english();
    bad.complexity.moderate_words = 1_000;
    assert!(engine().session(options().intent(bad)).is_err());
    // They travel with the options.
    let options = options().intent(IntentRules::english());
    let text = serde_json::to_string(&options).unwrap();
    assert_eq!(serde_json::from_str::<SessionOptions>(&text).unwrap(), options);
}
