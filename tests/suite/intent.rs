//! Rules that read a request, on the way that a runtime goes.

use toolrack::{
    Boost, Catalog, Complexity, Config, Engine, ErrorKind, Fallback, FindRequest, FindStatus,
    IntentRules, Outcome, QueryIntent, RuntimeContext, SelectRequest, SessionOptions,
};

use crate::fixtures::{Mood, Words, ids};

const DATABASES: &str = r#"[{"name": "web_search", "namespace": "web", "description": "Search the web for pages."},
            {"name": "query_database", "namespace": "data", "tags": ["storage"], "description": "Run a query on a database."},
            {"name": "create_database", "namespace": "data", "risk": "write", "description": "Create a new database."},
            {"name": "compare_databases", "namespace": "ops", "tags": ["storage"], "description": "Compare two databases, table by table."},
            {"name": "drop_database", "namespace": "ops", "risk": "destructive", "description": "Drop a database for good."}]"#;

fn engine() -> Engine {
    Engine::builder(Catalog::parse(DATABASES).unwrap()).build().unwrap()
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
fn joints_count_once_for_each_place() {
    let rules = IntentRules::english();
    for (text, joints, complexity) in [
        ("Draft the mail and send it", 0, Complexity::Simple),
        ("Draft the mail and then send it and also log it", 2, Complexity::Moderate),
        ("Open it, then sort it, then filter it, then mail it", 3, Complexity::Complex),
        ("This as well as that, then", 2, Complexity::Moderate),
    ] {
        let reading = rules.classify(text);
        let counted = format!(", {joints} joint{}", if joints == 1 { "" } else { "s" });
        assert!(reading.reasons.last().unwrap().ends_with(&counted), "{text}: {reading}");
        assert_eq!(reading.complexity, complexity, "{text}: {reading}");
    }
}

#[test]
fn a_plan_is_for_one_complexity_when_it_says_so() {
    let plans = r#"
[[plans]]
intent = "factual"
complexity = "complex"
tools = 1

[[plans]]
intent = "factual"
complexity = "moderate"
tools = 2

[[plans]]
intent = "factual"
tools = 3
"#;
    let rules = GERMAN.split("[[plans]]").next().unwrap().to_owned() + plans;
    let rules = IntentRules::parse(&rules).unwrap();
    let engine = Engine::builder(Catalog::parse(DATABASES).unwrap());
    let engine = engine.gate(toolrack::Gate::open()).build().unwrap();
    for (text, tools) in [
        ("query a database", 3),
        ("query a database, danach create a database", 2),
        ("query a database, danach create it, danach compare it, danach drop it", 1),
    ] {
        let plain = engine.select(&SelectRequest::new(text)).unwrap();
        assert_eq!(plain.candidates.len(), 5, "{text}");
        let ruled = engine.select(&SelectRequest::new(text).intent_rules(rules.clone())).unwrap();
        assert_eq!(ruled.candidates.len(), tools, "{text}: {ruled}");
        // What is saved is what the definitions take less.
        let report = ruled.intent.as_ref().unwrap();
        assert_eq!(report.excluded.len(), 5 - tools);
        assert_eq!(report.tokens_saved, plain.tokens.sent - ruled.tokens.sent, "{text}");
        assert!(report.tokens_saved > report.excluded.len(), "{text}");
    }
}

#[test]
fn a_fallback_tool_is_paid_for_in_what_is_saved() {
    let engine = engine();
    let select = |rules: IntentRules| {
        let request = SelectRequest::new("What is a database?").intent_rules(rules);
        engine.select(&request).unwrap()
    };
    let plain = engine.select(&SelectRequest::new("What is a database?")).unwrap();
    let ruled = select(IntentRules::english().with_fallback("web_search"));
    let saved = ruled.intent.as_ref().unwrap().tokens_saved;
    assert_eq!(saved, plain.tokens.sent - ruled.tokens.sent);
    assert!(saved < select(IntentRules::english()).intent.unwrap().tokens_saved);
}

#[test]
fn a_plan_never_gives_more_than_the_caller_asks_for() {
    const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/tools.json");
    let engine = Engine::builder(Catalog::read(TOOLS).unwrap()).build().unwrap();
    let text = "List the invoices of last month, then match the payments, after that open a ticket \
                for each mismatch and finally mail the account owner.";
    let rules = IntentRules::english();
    assert_eq!(rules.plan(&rules.classify(text)).unwrap().tools, 12);
    for retrieve in [0, 2, 6] {
        let plain = SessionOptions::default().limit(6).retrieve(retrieve);
        let mut runs = [plain.clone().intent(rules.clone()), plain]
            .map(|options| engine.session(options).unwrap());
        let [ruled, plain] = runs.each_mut().map(|run| run.turn(text).unwrap());
        let names =
            |turn: &toolrack::Turn| turn.visible.names().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(names(&ruled), names(&plain), "{retrieve}");
        assert!(retrieve > 0 || ruled.visible.tools().is_empty());
    }
    // No place, no fallback tool.
    let request = SelectRequest::new("What is a database?").k(0);
    let request = request.intent_rules(rules.with_fallback("web_search"));
    assert!(self::engine().select(&request).unwrap().candidates.is_empty());
}

#[test]
fn a_fallback_on_aliases_keeps_to_the_rules() {
    let tools = DATABASES.replace(
        r#""name": "query_database","#,
        r#""name": "query_database", "aliases": ["abgleich", "datenbank"],"#,
    );
    let tools = tools.replace(
        r#""name": "web_search","#,
        r#""name": "web_search", "aliases": ["abgleich", "datenbank"],"#,
    );
    let model = Words::new("words/1", 16);
    let engine = Engine::builder(Catalog::parse(&tools).unwrap()).embedder(model.clone());
    let engine = engine.build().unwrap();
    model.set(Mood::Down);
    let rules = IntentRules::parse(GERMAN).unwrap().with_fallback("web_search");
    let select = |text: &str| {
        let request = SelectRequest::new(text).fallback(Fallback::Aliases);
        engine.select(&request.intent_rules(rules.clone())).unwrap()
    };
    // A request that needs no tool is not one that no tool fits.
    let question = select("Was ist eine Datenbank?");
    assert!(question.is_degraded());
    assert_eq!(question.outcome, Outcome::NotNeeded);
    assert_eq!(ids(&question), ["web/web_search"]);
    assert_eq!(question.candidates[0].boosts, [Boost::Fallback]);
    let report = question.intent.as_ref().unwrap();
    assert_eq!(report.fallback.as_ref().unwrap().name(), "web_search");
    assert_eq!(report.excluded.iter().map(|id| id.name()).collect::<Vec<_>>(), ["query_database"]);

    // An alias is no way around the plan's groups, and the report is of what was selected.
    let comparison = select("Vergleiche: Abgleich");
    assert_eq!(ids(&comparison), ["data/query_database"]);
    assert_eq!(comparison.outcome, Outcome::Found);
    let report = comparison.intent.as_ref().unwrap();
    assert_eq!(report.excluded.iter().map(|id| id.name()).collect::<Vec<_>>(), ["web_search"]);
}

#[test]
fn rules_come_as_toml_as_json_and_by_name() {
    let rules = IntentRules::english();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.json");
    std::fs::write(&path, serde_json::to_string_pretty(&rules).unwrap()).unwrap();
    assert_eq!(IntentRules::read(&path).unwrap(), rules);
    let error = IntentRules::parse("{\"language\": 3}").unwrap_err();
    assert_eq!(error.to_string(), "the intent rules are not in their JSON form: mend them");

    let config = |text: &str| Config::parse(text, "toolrack.toml");
    let named = config("[session]\nintent = \"english\"\n").unwrap();
    assert_eq!(*named.session_options().intent.unwrap(), rules);
    let error = config("[session]\nintent = \"klingon\"\n").unwrap_err().to_string();
    assert!(error.contains("line 2") && error.contains("\"english\" or a table"), "{error}");
    let none = serde_json::from_str::<SessionOptions>(r#"{"intent": null}"#).unwrap();
    assert_eq!(none.intent, None);
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
