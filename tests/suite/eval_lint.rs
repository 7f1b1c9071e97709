//! What lint finds.

use std::time::Instant;

use toolrack::eval::{Dataset, Level, LintOptions, LintReport, Rule, lint};
use toolrack::{Catalog, Engine};

use crate::eval_shared::{benchdata, registry61};

fn lint_text(text: &str) -> LintReport {
    let engine = Engine::builder(Catalog::parse(text).unwrap()).build().unwrap();
    lint(&engine, None, &LintOptions::default()).unwrap()
}

fn rules(report: &LintReport, tool: &str) -> Vec<Rule> {
    report.findings.iter().filter(|f| f.tool == format!("default/{tool}")).map(|f| f.rule).collect()
}

#[test]
fn each_rule_finds_what_it_is_for() {
    let long = "very ".repeat(2_000);
    let deep = (0..12).fold("{}".to_owned(), |deep, _| {
        format!(r#"{{"type": "object", "properties": {{"inner": {deep}}}}}"#)
    });
    let text = format!(
        r#"[
        {{"name": "empty", "parameters": {{}}}},
        {{"name": "short", "description": "Sends it.", "parameters": {{}}}},
        {{"name": "create_issue", "description": "Creates issue", "parameters": {{}}}},
        {{"name": "codes", "description": "Get BGP OSPF and QOS of a VRF.", "parameters": {{}}}},
        {{"name": "fine", "description": "Use this when a customer wants to return a parcel.",
          "parameters": {{"properties": {{"parcel": {{"description": "its number"}}}}}}}},
        {{"name": "bare", "description": "Look up the tariff of a country when asked for tolls.",
          "parameters": {{"properties": {{"a": {{"type": "string"}}, "b": {{"description": "x"}}}}}}}},
        {{"name": "noschema", "description": "Ring the bell at the door when somebody is there."}},
        {{"name": "deep", "description": "Dig a tunnel below the river when it floods.", "parameters": {deep}}},
        {{"name": "long", "description": "Paint a wall when it is {long}grey.", "parameters": {{}}}},
        {{"name": "hidden", "description": "Water the plants\u200b of the office when dry.", "parameters": {{}}}},
        {{"name": "mixed", "description": "Feed the cat 猫にえさをあげる when hungry.", "parameters": {{}}}},
        {{"name": "russian", "description": "Открыть окно в комнате", "parameters": {{}}}}]"#
    );
    let report = lint_text(&text);
    let has = |tool: &str, rule: Rule| {
        assert!(rules(&report, tool).contains(&rule), "{tool} {rule}: {:?}", rules(&report, tool));
    };
    has("empty", Rule::EmptyDescription);
    has("short", Rule::ShortDescription);
    has("create_issue", Rule::RepeatsName);
    has("codes", Rule::Jargon);
    has("codes", Rule::NoUsage);
    has("bare", Rule::UndescribedParameter);
    has("noschema", Rule::NoSchema);
    has("deep", Rule::SchemaCaps);
    has("long", Rule::ManyTokens);
    has("hidden", Rule::HiddenCharacters);
    has("mixed", Rule::MixedLanguages);
    has("russian", Rule::MixedLanguages);
    assert_eq!(rules(&report, "fine"), []);
    assert_eq!(report.worst(), Some(Level::Error));
    assert_eq!(report.findings[0].rule, Rule::HiddenCharacters);
    for (rule, _) in report.counts() {
        assert_eq!(rule.to_string().parse::<Rule>().unwrap(), rule);
    }
}

#[test]
fn good_definitions_have_no_findings_and_odd_ones_the_right_one() {
    let good = [
        (
            "create_invoice",
            "Create a draft invoice with its line items. Use this when a customer has to be billed.",
        ),
        (
            "search_flights",
            "Find flights between two airports on a date. Use this when a traveller plans a journey by air.",
        ),
        (
            "get_forecast",
            "Get the weather of the next days for a city. Use this when somebody asks about rain or sun.",
        ),
        (
            "translate_text",
            "Translate a text into another language. Use this when the reader does not understand the original.",
        ),
        (
            "book_room",
            "Reserve a meeting room in the office. Use this when people need a place to gather.",
        ),
    ];
    let tool = |(name, description): &(&str, &str)| {
        serde_json::json!({"name": name, "description": description, "parameters":
            {"type": "object", "properties": {"it": {"type": "string", "description": "What it is about"}}}})
    };
    let all: Vec<_> = good.iter().map(tool).collect();
    assert_eq!(lint_text(&serde_json::to_string(&all).unwrap()).findings, []);

    let odd = [
        // Stop words alone do not repeat a name.
        ("launch", "Do it"),
        // A dash and a curly quote are English, too.
        (
            "add_numbers",
            "Computes the sum of two integers — the caller’s own — as a decimal number",
        ),
        ("café", "Öffnet die Tür eines Cafés mit dem Schlüssel des Besitzers"),
    ];
    let all: Vec<_> = odd.iter().chain(&good).map(tool).collect();
    let report = lint_text(&serde_json::to_string(&all).unwrap());
    assert_eq!(rules(&report, "launch"), [Rule::ShortDescription]);
    assert_eq!(rules(&report, "add_numbers"), [Rule::NoUsage]);
    assert_eq!(rules(&report, "café"), [Rule::MixedLanguages]);
}

#[test]
fn twins_and_tools_that_are_outranked_are_told() {
    let report = lint_text(
        r#"[{"name": "list_mail", "description": "List the newest messages of the mailbox when asked."},
            {"name": "list_mails", "description": "List the newest messages of the mailbox when asked."},
            {"name": "lookup", "description": "Find restaurants near a place. Find all restaurants near the place."},
            {"name": "find_restaurants_near_place", "description": "Find restaurants near a place."},
            {"name": "find_hotels_near_place", "description": "Find hotels near a place."}]"#,
    );
    let twin = report.findings.iter().find(|f| f.rule == Rule::NearDuplicate).unwrap();
    assert_eq!(
        (twin.tool.as_str(), twin.other.as_deref()),
        ("default/list_mails", Some("default/list_mail"))
    );
    let confused = report.findings.iter().find(|f| f.rule == Rule::Confusable).unwrap();
    assert_eq!(confused.tool, "default/lookup");
    assert!(confused.message.contains("of 3 requests in its own words"), "{}", confused.message);
}

#[test]
fn names_that_meet_are_told() {
    let stem = "a_very_long_name_that_goes_on_and_on_until_no_provider_takes_it_any_more";
    let report = lint_text(&format!(
        r#"[{{"name": "get.user", "namespace": "a"}}, {{"name": "get_user", "namespace": "a"}},
            {{"name": "get_user", "namespace": "b"}},
            {{"name": "{stem}_create"}}, {{"name": "{stem}_delete"}},
            {{"name": "sixty_four_characters_are_not_enough_for_what_this_is_to_b_one_and_more"}},
            {{"name": "sixty_four_characters_are_not_enough_for_what_this_is_to_b_two_and_more"}}]"#
    ));
    let collisions: Vec<&str> = report
        .findings
        .iter()
        .filter(|finding| finding.rule == Rule::NameCollision)
        .map(|finding| finding.tool.as_str())
        .collect();
    assert_eq!(collisions.len(), 3, "{collisions:?}");
    assert!(report.findings.iter().any(|finding| finding.rule == Rule::SharedName));
}

#[test]
fn places_are_lines_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tools.json");
    std::fs::write(&path, "[\n  {\"name\": \"first\"},\n  {\n    \"name\": \"second\"\n  }\n]")
        .unwrap();
    let engine = Engine::builder(Catalog::read(&path).unwrap()).build().unwrap();
    let report = lint(&engine, None, &LintOptions::default()).unwrap();
    let second = report.findings.iter().find(|f| f.tool == "default/second").unwrap();
    assert_eq!((second.line, second.file.as_deref()), (Some(4), path.to_str()));
    // A word of another definition is no place, and two of one name have a line each.
    let many = folder.path().join("many tools.json");
    let text = "[\n {\"name\": \"see\", \"description\": \"See\", \"parameters\": {\"properties\":\n\
                {\"last\": {\"enum\": [\"last\"]}}}},\n {\"namespace\": \"a\", \"name\": \"last\"},\n\
                {\"namespace\": \"b\", \"name\": \"last\"}]";
    std::fs::write(&many, text).unwrap();
    let engine = Engine::builder(Catalog::read(&many).unwrap()).build().unwrap();
    let lines = lint(&engine, None, &LintOptions::default()).unwrap();
    let line = |tool: &str| lines.findings.iter().find(|f| f.tool == tool).unwrap().line;
    assert_eq!((line("a/last"), line("b/last")), (Some(4), Some(5)));
    let uri = lines.to_sarif()["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
        ["artifactLocation"]["uri"]
        .clone();
    let uri = uri.as_str().unwrap();
    assert!(uri.starts_with("file:///") && uri.ends_with("/many%20tools.json"), "{uri}");

    let sarif = report.to_sarif();
    assert_eq!(sarif["version"], "2.1.0");
    let result = &sarif["runs"][0]["results"][0];
    assert_eq!(result["ruleId"], "empty-description");
    assert_eq!(result["locations"][0]["physicalLocation"]["region"]["startLine"], 2);
    assert_eq!(
        sarif["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap().len(),
        Rule::ALL.len()
    );
}

#[test]
fn labelled_requests_tell_what_is_never_retrieved() {
    let set = Dataset::read(registry61()).unwrap();
    let engine = set.engine().unwrap();
    let mut options = LintOptions::default();
    options.k = 1;
    let report = lint(&engine, Some(&set), &options).unwrap();
    let never = report.findings.iter().filter(|f| f.rule == Rule::NeverRetrieved).count();
    assert!((1..=12).contains(&never), "{never}");
    let other =
        Engine::builder(Catalog::parse(r#"[{"name": "unheard_of"}]"#).unwrap()).build().unwrap();
    let error = lint(&other, Some(&set), &options).unwrap_err();
    insta::assert_snapshot!(error, @"no tool of registry61 is in the catalog: give a dataset over the same tools and namespaces");
    let allowed = options.allow([Rule::NeverRetrieved]);
    let report = lint(&engine, Some(&set), &allowed).unwrap();
    assert!(report.findings.iter().all(|finding| finding.rule != Rule::NeverRetrieved));
}

#[test]
fn the_catalog_of_real_servers_has_findings() {
    let Some(folder) = benchdata("the_catalog_of_real_servers_has_findings") else { return };
    let catalog = Catalog::read(folder.join("mcp-catalog/tools.jsonl")).unwrap();
    let engine = Engine::builder(catalog).build().unwrap();
    let started = Instant::now();
    let report = lint(&engine, None, &LintOptions::default()).unwrap();
    eprintln!("lint of {} tools took {:?}", report.n_tools, started.elapsed());
    let count = |rule: Rule| report.findings.iter().filter(|f| f.rule == rule).count();
    assert_eq!((report.n_tools, count(Rule::EmptyDescription)), (1_484, 7));
    assert_eq!(count(Rule::NoSchema), 419);
    assert!(count(Rule::Confusable) > 0 && count(Rule::NearDuplicate) > 0);
}
