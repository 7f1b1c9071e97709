//! Listings in every format and mix, and what becomes of those that are none.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolrack::{Catalog, ErrorKind, Listing, Reader, Risk, Shape, Tool, ToolPolicy};

fn read(text: &str) -> Listing {
    Reader::new().parse(text).unwrap()
}

fn ids(listing: &Listing) -> Vec<String> {
    listing.tools().map(|tool| tool.id().to_string()).collect()
}

/// The problems of `text`, one a line.
fn problems(text: &str) -> String {
    let listing = Reader::new().place("tools.json").parse(text).unwrap();
    let lines: Vec<String> = listing.problems().iter().map(ToString::to_string).collect();
    lines.join("\n")
}

fn refused(text: &str) -> String {
    Reader::new().place("tools.json").parse(text).unwrap_err().to_string()
}

const SCHEMA: &str = r#"{"type":"object",  "properties":{"n":{"type":"number","maximum":1.0e2}} }"#;

#[test]
fn every_format_is_recognised_and_keeps_the_schema_byte_for_byte() {
    for (text, shape) in [
        (format!(r#"[{{"name":"a","parameters":{SCHEMA}}}]"#), Shape::Native),
        (format!(r#"{{"tools":[{{"name":"a","parameters":{SCHEMA}}}]}}"#), Shape::Native),
        (format!(r#"{{"name":"a","parameters":{SCHEMA}}}"#), Shape::Native),
        (format!(r#"{{"tools":[{{"name":"a","inputSchema":{SCHEMA}}}]}}"#), Shape::Mcp),
        (
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{{"name":"a","inputSchema":{SCHEMA}}}]}}}}"#
            ),
            Shape::Mcp,
        ),
        (
            format!(
                r#"[{{"tools":[{{"name":"a","inputSchema":{SCHEMA}}}],"nextCursor":"2"}},{{"tools":[]}}]"#
            ),
            Shape::Mcp,
        ),
        (
            format!(r#"[{{"type":"function","function":{{"name":"a","parameters":{SCHEMA}}}}}]"#),
            Shape::OpenAiChat,
        ),
        (
            format!(r#"[{{"type":"function","name":"a","parameters":{SCHEMA}}}]"#),
            Shape::OpenAiResponses,
        ),
        (
            format!(r#"{{"tools":[{{"type":"function","name":"a","parameters":{SCHEMA}}}]}}"#),
            Shape::OpenAiResponses,
        ),
        (format!(r#"[{{"name":"a","input_schema":{SCHEMA}}}]"#), Shape::Anthropic),
        (format!(r#"[{{"type":"custom","name":"a","input_schema":{SCHEMA}}}]"#), Shape::Anthropic),
        (
            format!(r#"[{{"functionDeclarations":[{{"name":"a","parameters":{SCHEMA}}}]}}]"#),
            Shape::Gemini,
        ),
        (
            format!(
                r#"{{"function_declarations":[{{"name":"a","parametersJsonSchema":{SCHEMA}}}]}}"#
            ),
            Shape::Gemini,
        ),
        (
            format!(
                r#"{{"tools":[{{"functionDeclarations":[{{"name":"a","parameters":{SCHEMA}}}]}}]}}"#
            ),
            Shape::Gemini,
        ),
        (format!("{{\"name\":\"a\",\"parameters\":{SCHEMA}}}\n"), Shape::Native),
    ] {
        let listing = read(&text);
        assert_eq!(ids(&listing), ["default/a"], "{text}");
        let tool = listing.tools().next().unwrap();
        assert_eq!(tool.shape(), Some(shape), "{text}");
        assert_eq!(tool.parameters(), Some(SCHEMA), "{text}");
        assert!(listing.problems().is_empty() && listing.is_complete(), "{text}");
    }
}

#[test]
fn shapes_mix_in_one_list_and_builtins_pass_through_untouched() {
    let builtins = [
        r#"{"type":"web_search"}"#,
        r#"{"type":"web_search_20250305","name":"web_search", "max_uses":5}"#,
        r#"{"type":"code_interpreter","container":{"type":"auto"}}"#,
        r#"{"googleSearch": {}}"#,
        r#"{"type":"mcp","server_label":"s","server_url":"https://example.org"}"#,
    ];
    let tools = [
        r#"{"name":"native"}"#,
        r#"{"name":"mcp","inputSchema":{}}"#,
        r#"{"type":"function","function":{"name":"nested"}}"#,
        r#"{"type":"function","name":"flat"}"#,
        r#"{"type":"custom","name":"anthropic","input_schema":{}}"#,
        r#"{"functionDeclarations":[{"name":"one"},{"name":"two"}],"googleSearchRetrieval":{"mode":1}}"#,
    ];
    let listing = read(&format!("[{},{}]", builtins.join(","), tools.join(",")));
    assert_eq!(listing.problems().len(), 0);
    let names: Vec<&str> = listing.tools().map(Tool::name).collect();
    assert_eq!(names, ["native", "mcp", "nested", "flat", "anthropic", "one", "two"]);
    let kept: Vec<&str> = listing.builtins().iter().map(|builtin| builtin.json()).collect();
    assert_eq!(kept[..5], builtins);
    assert_eq!(kept[5], r#"{"googleSearchRetrieval":{"mode":1}}"#);

    // A list of nothing but built-ins is a catalog; a response beside definitions is a page.
    assert_eq!(
        Catalog::parse(r#"[{"type":"web_search"}]"#).unwrap().snapshot().builtins().count(),
        1
    );
    let mixed =
        read(r#"[{"name":"a"},{"tools":[{"name":"b","inputSchema":{}}],"nextCursor":"x"}]"#);
    assert_eq!(ids(&mixed), ["default/a", "default/b"]);
    assert!(!mixed.is_complete());
}

#[test]
fn an_announced_further_page_makes_a_listing_incomplete() {
    let page = r#"{"tools":[{"name":"a","inputSchema":{}}],"nextCursor":"p2"}"#;
    let listing = read(page);
    assert!(!listing.is_complete());
    let error = Catalog::empty().refresh("srv", listing).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IncompleteListing);
    insta::assert_snapshot!(error, @"source 'srv' was not listed to its end: the last page announces another one (nextCursor 'p2'): list on from there");
    assert!(!read(&format!(r#"{{"result":{page}}}"#)).is_complete());
    assert!(read(&page.replace("\"p2\"", "null")).is_complete());
    assert!(read(&page.replace("p2", "")).is_complete());
    // Taken as it is when a catalog is made of it, and reported.
    let catalog = Catalog::parse(page).unwrap();
    assert_eq!(catalog.snapshot().problems().count(), 1);
}

#[test]
fn policies_are_read_nested_and_flat() {
    let nested = r#"{"name":"a","policy":{"enabled":false,"environments":["prod"],"scopes":["s"],"roles":["r"],
        "stages":["plan"],"tenants":["t"],"flags":["f"],"risk":"destructive","version":"2","source":"team"}}"#;
    let flat = r#"{"name":"a","enabled":false,"environments":["prod"],"scopes":["s"],"roles":["r"],
        "stages":["plan"],"tenants":["t"],"flags":["f"],"risk":"destructive","version":"2","source":"team"}"#;
    let tools: Vec<Tool> = [nested, flat]
        .iter()
        .flat_map(|text| read(text).tools().cloned().collect::<Vec<_>>())
        .collect();
    assert_eq!(tools[0].policy(), tools[1].policy());
    let policy = tools[0].policy();
    assert!(!policy.enabled && policy.risk == Risk::Destructive);
    assert_eq!((policy.version.as_deref(), policy.source.as_deref()), (Some("2"), Some("team")));
    // Beside the rest wins over the group; nulls and empty lists restrict nothing.
    let both = read(
        r#"{"name":"a","policy":{"risk":"read","scopes":["x"]},"risk":"write","scopes":null,"roles":[]}"#,
    );
    let policy = both.tools().next().unwrap().policy().clone();
    assert_eq!((policy.risk, policy.scopes.len(), policy.roles.len()), (Risk::Write, 0, 0));
    // A misspelt restriction must not become none.
    insta::assert_snapshot!(problems(r#"[{"name":"a","policy":{"scope":["admin"]}}]"#), @"tools.json, tool 0 ('a'): field 'policy' is not a policy (unknown field `scope`, expected one of `enabled`, `environments`, `scopes`, `roles`, `stages`, `tenants`, `flags`, `risk`, `version`, `source` at line 1 column 8)");
    insta::assert_snapshot!(problems(r#"[{"name":"a","risk":"deadly"}, {"name":"b","enabled":"yes"}, {"name":"c","scopes":"admin"}]"#), @r"
    tools.json, tool 0 ('a'): field 'risk' is 'deadly': use read, write or destructive
    tools.json, tool 1 ('b'): field 'enabled' is a string, not true or false: give true or false
    tools.json, tool 2 ('c'): field 'scopes' is a string, not a list of strings: give a list of strings
    ");
}

#[test]
fn mcp_annotations_give_the_risk_and_servers_no_policy() {
    let risk = |annotations: &str| {
        let text = format!(
            r#"{{"tools":[{{"name":"a","inputSchema":{{}},"annotations":{annotations}}}]}}"#
        );
        read(&text).tools().next().unwrap().policy().risk
    };
    assert_eq!(risk(r#"{"readOnlyHint":true,"destructiveHint":true}"#), Risk::Read);
    assert_eq!(risk(r#"{"destructiveHint":true}"#), Risk::Destructive);
    assert_eq!(risk(r#"{"readOnlyHint":false}"#), Risk::Write);
    assert_eq!(risk(r#"{"title":"A"}"#), Risk::Read);
    // What a server calls "risk" or "scopes" is not ours, neither when read nor after storing.
    let text = r#"{"tools":[{"name":"a","inputSchema":{},"annotations":{"destructiveHint":true},
        "risk":"read","scopes":7,"policy":{"enabled":false},"namespace":"x","tags":"t","parameters":5}]}"#;
    let tool = read(text).tools().next().unwrap().clone();
    let stored = serde_json::to_string(&tool).unwrap();
    let again: Tool = serde_json::from_str(&stored).unwrap();
    for tool in [&tool, &again] {
        assert_eq!(tool.policy().risk, Risk::Destructive);
        assert!(tool.policy().enabled && tool.policy().scopes.is_empty() && tool.tags().is_empty());
        assert_eq!(tool.namespace(), "default");
    }
    assert_eq!(tool, again);
    for kept in [r#""risk":"read""#, r#""scopes":7"#, r#""enabled":false"#, r#""tags":"t""#] {
        assert!(stored.contains(kept), "{stored}");
    }
}

#[test]
fn a_server_decides_neither_whose_its_tools_are_nor_who_may_use_them() {
    let page = |risk: &str| {
        format!(
            r#"{{"tools":[
            {{"name":"a","namespace":"github","inputSchema":{SCHEMA},"annotations":{{"destructiveHint":true}}}},
            {{"name":"b","namespace":"github","parameters":{SCHEMA},"risk":"{risk}","aliases":["c"],
              "tags":["t"],"examples":["e"],"policy":{{"enabled":false}}}},
            {{"name":"c","server":"own/server","scopes":7}},
            {{"type":"function","name":"d","namespace":"github"}},
            {{"type":"computer_use_preview"}},
            {{"functionDeclarations":[{{"name":"e"}}],"googleSearch":{{}}}}]}}"#
        )
    };
    let answer = |page: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"result":{page}}}"#);
    let read = |text: &str| Reader::new().server("evil").parse(text).unwrap();
    for listing in [
        read(&page("read")),
        read(&answer(&page("read"))),
        Reader::new().namespace("evil").parse(&answer(&page("read"))).unwrap(),
    ] {
        assert_eq!(ids(&listing), ["evil/a", "evil/b", "evil/c", "evil/d", "evil/e"]);
        let tools: Vec<&Tool> = listing.tools().collect();
        assert_eq!(tools[0].policy().risk, Risk::Destructive);
        assert_eq!(tools[1].policy(), &ToolPolicy::default());
        assert!(tools[1].aliases().is_empty() && tools[1].tags().is_empty());
        assert!(tools[1].examples().is_empty());
        assert_eq!((tools[0].parameters(), tools[1].parameters()), (Some(SCHEMA), Some(SCHEMA)));
        assert_eq!((listing.builtins().len(), listing.problems().len()), (0, 2));
        assert_eq!(
            listing.problems()[0].to_string(),
            "tool 4: is built into a provider, so no server has it: give tools of the server"
        );
    }
    // What decides nothing is kept, and a change of it is one of the tool.
    let hash = |risk: &str| read(&page(risk)).tools().nth(1).unwrap().content_hash().to_owned();
    assert_ne!(hash("read"), hash("write"));
    // A catalog of one's own in the same form says what it likes.
    let own = Reader::new().namespace("n").parse(&page("write")).unwrap();
    assert_eq!(ids(&own)[1..3], ["github/b", "n/c"]);
    assert_eq!(own.tools().nth(1).unwrap().policy().risk, Risk::Write);
    assert_eq!(own.builtins().len(), 2);
}

#[test]
fn unknown_fields_survive_reading_storing_and_reading_again() {
    for (text, unknown) in [
        (
            r#"{"name":"a","x-rank": 1.50,"deep":{"b":[1, 2]}}"#,
            vec![r#""x-rank":1.50"#, r#"{"b":[1, 2]}"#],
        ),
        (
            r#"{"tools":[{"name":"a","inputSchema":{},"outputSchema":{"type":"object"},"_meta":{"k":1e3}}]}"#,
            vec![r#""_meta":{"k":1e3}"#, "outputSchema"],
        ),
        (
            r#"[{"type":"function","function":{"name":"a","strict":true},"cache_control":{"type":"ephemeral"}}]"#,
            vec![r#""strict":true"#, "cache_control"],
        ),
        (r#"[{"type":"function","name":"a","strict":false}]"#, vec![r#""strict":false"#]),
        (
            r#"[{"name":"a","input_schema":{},"cache_control":{"type":"ephemeral"}}]"#,
            vec!["cache_control"],
        ),
        (
            r#"[{"functionDeclarations":[{"name":"a","behavior":"BLOCKING","response":{}}]}]"#,
            vec!["BLOCKING", "response"],
        ),
        (r#"{"name":"a","server":"gh","x":1,"x":2}"#, vec![r#""server":"gh""#, r#""x":1,"x":2"#]),
    ] {
        let tool = read(text).tools().next().unwrap().clone();
        let stored = serde_json::to_string(&tool).unwrap();
        for field in unknown {
            assert!(stored.contains(field), "{field} in {stored}");
        }
        let again: Tool = serde_json::from_str(&stored).unwrap();
        assert_eq!(again, tool);
        assert_eq!(serde_json::to_string(&again).unwrap(), stored);
        // And through a catalog, which notes where a tool was listed.
        let catalog = Catalog::from_tools([tool.clone()]).unwrap();
        let listed = catalog.snapshot().tools().next().unwrap().clone();
        assert_eq!(listed.policy().source.as_deref(), Some("catalog"));
        assert_eq!(serde_json::to_string(&listed).unwrap(), stored);
    }
}

#[test]
fn a_changed_field_around_a_definition_is_a_change_of_the_tool() {
    let with = |field: &str| {
        let text =
            format!(r#"[{{"type":"function","function":{{"name":"a"}},"cache_control":{field}}}]"#);
        read(&text).tools().next().unwrap().clone()
    };
    assert_ne!(with("1").content_hash(), with("2").content_hash());
}

#[test]
fn marks_line_ends_and_blank_lines_do_not_matter() {
    let lines = "{\"name\":\"a\"}\r\n\r\n   \r\n{\"name\":\"b\"}\r\n";
    assert_eq!(ids(&read(lines)), ["default/a", "default/b"]);
    assert_eq!(ids(&read(&format!("\u{feff}{lines}"))), ["default/a", "default/b"]);
    assert_eq!(ids(&read("\u{feff}\n [ {\"name\" : \"a\"} ]\r\n\n")), ["default/a"]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tools.jsonl");
    std::fs::write(&path, format!("\u{feff}{lines}")).unwrap();
    assert_eq!(Reader::new().namespace("n").read(&path).unwrap().tools().len(), 2);
}

#[test]
fn one_bad_definition_does_not_take_the_others_along() {
    let text = r#"[
        {"name":"good"},
        {"description":"nameless"},
        {"name":5},
        {"name":"  "},
        {"name":"schema", "parameters":[1]},
        {"name":"text", "description":["a"]},
        {"name":"nulls", "description":null, "parameters":null, "title":null},
        {"name":"examples", "examples":"one"},
        {"name":"half \ud800"},
        {"name":"half", "description":"\udc00 x"},
        {"\ud800":1, "name":"key"},
        7, null, "text", [1],
        {"functionDeclarations":{"name":"x"}},
        {"functionDeclarations":[{"functionDeclarations":[{"name":"x"}]}, {"name":"inner"}]},
        {"name":"last", "namespace":"own/server"}
    ]"#;
    let listing = read(text);
    assert_eq!(
        ids(&listing),
        ["default/good", "default/nulls", "default/inner", "own.server/last"]
    );
    assert_eq!(listing.tools().nth(1).unwrap().description(), "");
    assert_eq!(listing.tools().nth(1).unwrap().parameters(), None);
    insta::assert_snapshot!(problems(text), @r"
    tools.json, tool 1: field 'name' is missing: name the tool
    tools.json, tool 2: field 'name' is a number, not a string: give a string
    tools.json, tool 3 ('  '): field 'name' is empty: name the tool
    tools.json, tool 4 ('schema'): field 'parameters' is a list, not an object: give a JSON schema
    tools.json, tool 5 ('text'): field 'description' is a list, not a string: give a string
    tools.json, tool 7 ('examples'): field 'examples' is a string, not a list of strings: give a list of strings
    tools.json, tool 8: field 'name' has an escape that is no character: mend its text
    tools.json, tool 9 ('half'): field 'description' has an escape that is no character: mend its text
    tools.json, tool 10: has a key with an escape that is no character: mend its text
    tools.json, tool 11: is a number, not an object: give a tool definition
    tools.json, tool 12: is null, not an object: give a tool definition
    tools.json, tool 13: is a string, not an object: give a tool definition
    tools.json, tool 14: is a list, not an object: give a tool definition
    tools.json, tool 15: field 'functionDeclarations' is an object, not a list: give function declarations
    tools.json, tool 16: is a group inside a group: give function declarations
    ");

    let error = Reader::new().place("tools.json").strict(true).parse(text).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidTool);
    insta::assert_snapshot!(error, @"tools.json, tool 1: field 'name' is missing: name the tool");
}

#[test]
fn a_bad_line_is_named_by_its_number() {
    let text = "{\"name\":\"a\"}\n\n{\"name\":\n{\"name\":\"b\",\"parameters\":1}\nplain text\n{\"name\":\"c\"}";
    assert_eq!(ids(&read(text)), ["default/a", "default/c"]);
    insta::assert_snapshot!(problems(text), @r"
    tools.json, line 3: is not JSON (column 8): mend the line
    tools.json, line 4 ('b'): field 'parameters' is a number, not an object: give a JSON schema
    tools.json, line 5: is not JSON (column 1): mend the line
    ");
    // Also when the first line is the bad one.
    let first = "{\"name\": \"cut off\n{\"name\":\"b\"}\n{\"name\":\"c\"}\n";
    assert_eq!(ids(&read(first)), ["default/b", "default/c"]);
    insta::assert_snapshot!(problems(first), @"tools.json, line 1: is not JSON (column 17): mend the line");
}

#[test]
fn what_is_no_listing_is_refused_in_one_sentence() {
    insta::assert_snapshot!(refused(""), @"tools.json is empty: give a list of tool definitions");
    insta::assert_snapshot!(refused(" \n\t"), @"tools.json is empty: give a list of tool definitions");
    insta::assert_snapshot!(refused("\u{feff}"), @"tools.json is empty: give a list of tool definitions");
    insta::assert_snapshot!(refused("hello"), @"tools.json is not JSON (line 1, column 1): mend the JSON");
    insta::assert_snapshot!(refused("7"), @"tools.json holds a number: give a list of tool definitions");
    insta::assert_snapshot!(refused("{}"), @"tools.json holds an object without 'tools', 'functionDeclarations' or 'name': give a list of tool definitions");
    insta::assert_snapshot!(refused(r#"{"tools": 5}"#), @"tools.json has a number at 'tools', not a list: give a list of tool definitions");
    insta::assert_snapshot!(refused(r#"{"tools": {"a": {"name": "a"}}}"#), @"tools.json has an object at 'tools', not a list: give a list of tool definitions");
    insta::assert_snapshot!(refused(r#"[{"name":"a"},{"name":"b""#), @"tools.json is not JSON (line 1, column 25): mend the JSON");
    insta::assert_snapshot!(refused("[\n  {\"name\": \"a\"},\n  {\"name\": \"b\"}\n"), @"tools.json is not JSON (line 4, column 0): mend the JSON");
    insta::assert_snapshot!(refused("{\n  \"tools\": [\n    {\"name\": \"a\"},\n"), @"tools.json is not JSON (line 4, column 0): mend the JSON");
    insta::assert_snapshot!(refused(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#), @"tools.json holds a JSON-RPC error: list the tools again");
    insta::assert_snapshot!(refused(r#"[{"jsonrpc":"2.0","id":1,"result":{"tools":[]}},{"jsonrpc":"2.0","id":2,"error":{}}]"#), @"tools.json holds a JSON-RPC error: list the tools again");
    insta::assert_snapshot!(Catalog::parse("[]").unwrap_err(), @"the listing holds no tool: add at least one tool definition");
    insta::assert_snapshot!(Catalog::parse(r#"[{"name":1},{"name":2}]"#).unwrap_err(), @"none of the 2 definitions can be read, the first because tool 0: field 'name' is a number, not a string: give a string");
}

#[test]
fn files_that_cannot_be_read_say_why() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tools.json");
    let text = |error: toolrack::Error| {
        error.to_string().replace(&dir.path().display().to_string(), "DIR")
    };
    let error = Reader::new().read(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    insta::assert_snapshot!(text(error), @"cannot read DIR/tools.json: give a readable file");
    std::fs::write(&path, b"[{\"name\": \"caf\xe9\"}]").unwrap();
    let error = Reader::new().read(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Format);
    insta::assert_snapshot!(text(error), @"DIR/tools.json is not UTF-8 text (byte 14): save it as UTF-8");
    std::fs::write(&path, "[{\"name\": \"a\"}, {\"name\": \"b\", \"parameters\": \"x\"}]").unwrap();
    let error = Reader::new().strict(true).read(&path).unwrap_err();
    insta::assert_snapshot!(text(error), @"DIR/tools.json, tool 1 ('b'): field 'parameters' is a string, not an object: give a JSON schema");
    assert_eq!(Reader::new().read(dir.path()).unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn repeated_keys_count_by_the_last_as_everywhere() {
    let tool = read(r#"[{"name":"a","name":"b","description":"1","description":"2"}]"#)
        .tools()
        .next()
        .unwrap()
        .clone();
    assert_eq!((tool.name(), tool.description()), ("b", "2"));
}

#[test]
fn duplicates_name_both_places() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tools.jsonl");
    std::fs::write(&path, "{\"name\":\"a\"}\n{\"name\":\"b\"}\n{\"name\":\"a\"}\n").unwrap();
    let error = Catalog::read(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DuplicateTool);
    insta::assert_snapshot!(error.to_string().replace(&path.display().to_string(), "FILE"), @"tool default/a is defined twice, at FILE, line 1 ('a') (FILE) and at FILE, line 3 ('a') (FILE): rename one or give each source its own namespace");
    // The same name in two namespaces is no duplicate.
    assert_eq!(
        Catalog::parse(r#"[{"name":"a"},{"name":"a","namespace":"n"}]"#).unwrap().snapshot().len(),
        2
    );
}

#[test]
fn a_huge_file_is_read() {
    let text: String = (0..50_000)
        .map(|n| {
            format!(
                "{{\"name\":\"tool_{n}\",\"description\":\"Does {n}.\",\"parameters\":{SCHEMA}}}\n"
            )
        })
        .collect();
    let listing = read(&text);
    assert_eq!(listing.tools().len(), 50_000);
    assert_eq!(listing.tools().last().unwrap().parameters(), Some(SCHEMA));
}

#[test]
fn depth_is_no_danger() {
    for open in [
        "[",
        "{\"a\":",
        "{\"functionDeclarations\":[",
        "{\"tools\":[",
        "{\"result\":",
        "[{\"function\":",
    ] {
        let deep = open.repeat(200_000);
        assert!(Reader::new().parse(&deep).is_err());
        let close: String = open
            .chars()
            .rev()
            .filter_map(|c| match c {
                '[' => Some(']'),
                '{' => Some('}'),
                _ => None,
            })
            .collect();
        let whole = format!("{}1{}", open.repeat(50_000), close.repeat(50_000));
        // Whatever it is taken for, it has to end.
        let _ = Reader::new().parse(&whole);
    }
    let schema = format!("{}1{}", r#"{"properties":{"x":"#.repeat(20_000), "}}".repeat(20_000));
    let listing = read(&format!(r#"[{{"name":"a","parameters":{schema}}}]"#));
    assert_eq!(listing.tools().next().unwrap().parameters(), Some(schema.as_str()));
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        4 => prop::sample::select(vec![
            "name", "description", "parameters", "inputSchema", "input_schema", "function", "type",
            "tools", "functionDeclarations", "parametersJsonSchema", "policy", "namespace", "server",
            "result", "jsonrpc", "error", "nextCursor", "annotations", "title", "examples", "risk",
            "properties", "$ref", "items", "googleSearch",
        ]).prop_map(str::to_owned),
        1 => ".{0,8}",
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_tool() -> impl Strategy<Value = Tool> {
    let words = || prop::collection::vec(".{1,20}", 0..3);
    let risk = prop::sample::select(vec![Risk::Read, Risk::Write, Risk::Destructive]);
    (
        ("[a-z]{1,6}", ".{0,20}x.{0,20}", ".{0,60}", prop::option::of(".{0,20}")),
        prop::option::of(prop::collection::btree_map(".{0,8}", json_value(), 0..4)),
        (words(), words(), words(), risk, any::<bool>(), words()),
    )
        .prop_map(|((namespace, name, description, title), schema, rest)| {
            let (examples, aliases, tags, risk, enabled, scopes) = rest;
            let mut policy = ToolPolicy::default();
            (policy.enabled, policy.scopes, policy.risk) = (enabled, scopes, risk);
            let mut builder = Tool::builder(name)
                .namespace(namespace)
                .description(description)
                .examples(examples)
                .aliases(aliases)
                .tags(tags)
                .policy(policy);
            if let Some(title) = title {
                builder = builder.title(title);
            }
            if let Some(schema) = schema {
                builder = builder.parameters(&json!(schema));
            }
            builder.build().unwrap()
        })
}

proptest! {
    #[test]
    fn tools_written_are_the_tools_read(tools in prop::collection::vec(any_tool(), 1..8), lines: bool) {
        let texts: Vec<String> =
            tools.iter().map(|tool| serde_json::to_string(tool).unwrap()).collect();
        let text = if lines { texts.join("\n") } else { format!("[{}]", texts.join(",")) };
        let listing = Reader::new().strict(true).parse(&text).unwrap();
        let read: Vec<Tool> = listing.tools().cloned().collect();
        prop_assert_eq!(&read, &tools);
        for (read, tool) in read.iter().zip(&tools) {
            prop_assert_eq!(read.parameters(), tool.parameters());
            prop_assert_eq!(read.policy(), tool.policy());
            prop_assert_eq!(read.content_hash(), tool.content_hash());
        }
    }

    #[test]
    fn any_json_ends_in_a_listing_or_an_error(value in json_value()) {
        let text = value.to_string();
        if let Ok(listing) = Reader::new().parse(&text) {
            for tool in listing.tools() {
                let stored = serde_json::to_string(tool).unwrap();
                let again: Tool = serde_json::from_str(&stored).unwrap();
                prop_assert_eq!(&again, tool, "{}", stored);
            }
            let _ = Catalog::from_listing("any", listing);
        }
    }

    #[test]
    fn any_bytes_end_in_a_listing_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Reader::new().parse(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_cut_of_a_listing_ends_in_a_listing_or_an_error(at in 0_usize..400) {
        let text = r#"{"jsonrpc":"2.0","result":{"tools":[{"name":"a","description":"é","inputSchema":{"type":"object"}},
            {"type":"function","function":{"name":"b","parameters":{"type":"object"}}},{"googleSearch":{}}]}}"#;
        let cut = text.floor_char_boundary(at.min(text.len()));
        let result = Reader::new().parse(&text[..cut]);
        prop_assert_eq!(result.is_ok(), cut == text.len());
    }
}
