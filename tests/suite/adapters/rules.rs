//! The rules by which providers refuse a list: mended on the way where that changes no meaning, told of
//! by `validate` where it would.

use serde_json::{Value, json};
use toolrack::{SessionOptions, anthropic, gemini, mcp, openai};

use super::{session, value};

type Check = fn(&Value) -> toolrack::Result<()>;

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn chat(parameters: Value) -> Value {
    json!([{"type": "function", "function": {"name": "tag", "parameters": parameters}}])
}

fn responses(parameters: Value) -> Value {
    json!([{"type": "function", "name": "tag", "parameters": parameters}])
}

fn claude(schema: Value) -> Value {
    json!([{"name": "tag", "input_schema": schema}])
}

fn google(parameters: Value) -> Value {
    json!([{"functionDeclarations": [{"name": "tag", "parameters": parameters}]}])
}

/// `n` definitions, each with the name `t` and its number put into `definition`.
fn many(n: usize, definition: impl Fn(String) -> Value) -> Value {
    (0..n).map(|number| definition(format!("t{number}"))).collect()
}

#[test]
fn each_rule_of_a_provider_is_an_error_that_says_what_to_do() {
    let bare = json!({"type": "array"});
    let plain = |name: String| json!({"name": name, "input_schema": {"type": "object"}});
    let marked = |name: String| json!({"name": name, "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}});
    let of_chat = |name: String| json!({"type": "function", "function": {"name": name}});
    let of_responses = |name: String| json!({"type": "function", "name": name});
    let of_gemini = |n| json!([{"functionDeclarations": many(n, |name| json!({"name": name}))}]);
    let deferred = |name: &str| {
        json!([{"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
            {"name": name, "input_schema": {"type": "object"}, "defer_loading": true}])
    };
    let searched = |n| {
        let mut list = many(n, |name| deferred(&name)[1].clone());
        list.as_array_mut().unwrap().push(deferred("last")[0].clone());
        list
    };
    let rules: &[(Check, Value, &str)] = &[
        (
            openai::validate,
            chat(object(json!({"tags": bare}))),
            "tool 'tag' has an array without 'items' at 'properties.tags', which OpenAI refuses: add \"items\": {}",
        ),
        (
            openai::responses::validate,
            responses(object(json!({"a": {"anyOf": [{"type": ["null", "array"]}]}}))),
            "tool 'tag' has an array without 'items' at 'properties.a.anyOf.0', which OpenAI refuses: add \"items\": {}",
        ),
        (
            openai::validate,
            chat(object(json!({"rows": {"type": "array", "items": bare}}))),
            "tool 'tag' has an array without 'items' at 'properties.rows.items', which OpenAI refuses: add \"items\": {}",
        ),
        (openai::validate, chat(object(json!({"tags": {"type": "array", "items": {}}}))), ""),
        // What a property is called is no keyword, nor is a default a schema.
        (openai::validate, chat(object(json!({"type": {"default": bare}}))), ""),
        (
            openai::validate,
            chat(json!({"type": "object"})),
            "tool 'tag' has an object without 'properties', which OpenAI refuses: add \"properties\": {}",
        ),
        (
            openai::responses::validate,
            responses(json!({"type": "object"})),
            "tool 'tag' has an object without 'properties', which OpenAI refuses: add \"properties\": {}",
        ),
        (
            openai::validate,
            chat(json!({"type": "object", "oneOf": []})),
            "tool 'tag' has 'oneOf' at the top of its schema, which OpenAI refuses: move it into a property",
        ),
        (
            openai::validate,
            chat(json!({"type": "object", "anyOf": []})),
            "tool 'tag' has 'anyOf' at the top of its schema, which OpenAI refuses: move it into a property",
        ),
        (
            openai::validate,
            chat(json!({"type": "object", "allOf": []})),
            "tool 'tag' has 'allOf' at the top of its schema, which OpenAI refuses: move it into a property",
        ),
        (
            openai::validate,
            chat(json!({"type": "object", "enum": []})),
            "tool 'tag' has 'enum' at the top of its schema, which OpenAI refuses: move it into a property",
        ),
        (
            openai::responses::validate,
            responses(json!({"type": "object", "not": {}})),
            "tool 'tag' has 'not' at the top of its schema, which OpenAI refuses: move it into a property",
        ),
        (openai::validate, many(128, of_chat), ""),
        (
            openai::validate,
            many(129, of_chat),
            "the list has 129 tools but OpenAI takes 128: lower the session's limit",
        ),
        (
            openai::responses::validate,
            many(129, of_responses),
            "the list has 129 tools but OpenAI takes 128: lower the session's limit",
        ),
        (gemini::validate, of_gemini(512), ""),
        (
            gemini::validate,
            of_gemini(513),
            "the list has 513 functions but Gemini takes 512: lower the session's limit",
        ),
        (
            gemini::validate,
            google(json!({"type": "STRING"})),
            "tool 'tag' has parameters that are no object: give a schema of type OBJECT",
        ),
        (
            gemini::validate,
            google(json!({"type": "OBJECT", "properties": {}})),
            "tool 'tag' has an object without properties, which Gemini refuses: leave parameters out",
        ),
        (
            gemini::validate,
            google(json!({"type": "OBJECT", "properties": {"where": {"type": "OBJECT"}}})),
            "tool 'tag' has an object without properties at 'properties.where', which Gemini refuses: list some, or take parametersJsonSchema",
        ),
        (
            gemini::validate,
            google(json!({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}})),
            "",
        ),
        (
            anthropic::validate,
            claude(object(json!({"$top": {}}))),
            "tool 'tag' has a property '$top' that Anthropic does not take: use 1 to 64 of a-z A-Z 0-9 _ . -",
        ),
        (
            anthropic::validate,
            claude(object(json!({"": {}}))),
            "tool 'tag' has a property '' that Anthropic does not take: use 1 to 64 of a-z A-Z 0-9 _ . -",
        ),
        (anthropic::validate, claude(object(json!({"a.b-c_D9": {}, "n".repeat(64): {}}))), ""),
        (anthropic::validate, many(4, marked), ""),
        (
            anthropic::validate,
            many(6, marked),
            "the list has 6 cache_control blocks but Anthropic takes 4: remove that of tool 't0', or all but the last one",
        ),
        (anthropic::validate, json!([plain("n".repeat(128))]), ""),
        (anthropic::validate, deferred(&"n".repeat(64)), ""),
        (
            anthropic::validate,
            deferred(&"n".repeat(65)),
            "tool 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn' has a name that Anthropic does not take: use 1 to 64 of a-z A-Z 0-9 _ -",
        ),
        (anthropic::validate, searched(9_999), ""),
        (
            anthropic::validate,
            searched(10_000),
            "the list has 10001 tools but tool search takes 10000: send the visible ones only",
        ),
    ];
    for (check, list, expected) in rules {
        let said = check(list).map_or_else(|error| error.to_string(), |()| String::new());
        let shown: String = list.to_string().chars().take(200).collect();
        assert_eq!(&said, expected, "{shown}");
    }
}

#[test]
fn what_openai_refuses_in_a_schema_is_added_on_the_way() {
    let text = r#"[
        {"name": "tag", "inputSchema": {"type": "object", "properties": {"tags": {"type": "array", "description": "Any."}, "rows": {"type": "array", "items": {"type": ["array", "null"]}}}}},
        {"type": "function", "function": {"name": "ping", "parameters": {"type": "object"}}},
        {"type": "function", "name": "pong", "parameters": {"type": "object", "properties": {"a": {"type":  "array"}}}, "strict": false}]"#;
    let run = session(text, SessionOptions::default());
    let sent = openai::tools(run.visible());
    sent.validate().unwrap();
    let sent: Vec<&str> = sent.iter().collect();
    assert!(sent[0].contains(
        r#""tags":{"type":"array","description":"Any.","items":{}},"rows":{"type":"array","items":{"type":["array", "null"],"items":{}}}"#
    ), "{}", sent[0]);
    assert!(sent[1].contains(r#""parameters":{"type":"object","properties":{}}"#), "{}", sent[1]);
    let sent = openai::responses::tools(run.visible());
    sent.validate().unwrap();
    assert!(sent.json().contains(r#""a":{"type":"array","items":{}}"#), "{}", sent.json());
    // Nobody else refuses it: the bytes stay.
    for json in [mcp::tools(run.visible()).json(), anthropic::tools(run.visible()).json()] {
        assert!(json.contains(r#"{"type": "array", "description": "Any."}"#), "{json}");
        assert!(json.contains(r#"{"a": {"type":  "array"}}"#), "{json}");
    }
}

#[test]
fn a_function_of_geminis_without_parameters_leaves_them_out() {
    let text = r#"[{"functionDeclarations": [
        {"name": "ping", "description": "Ping.", "parameters": {"type": "OBJECT", "properties": {}}},
        {"name": "pong", "parameters": {"type": "object"}},
        {"name": "tag", "parameters": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}}]}]"#;
    let list = gemini::tools(session(text, SessionOptions::default()).visible());
    list.validate().unwrap();
    let sent: Vec<Value> = list.iter().map(|one| serde_json::from_str(one).unwrap()).collect();
    assert_eq!(sent[0], json!({"name": "ping", "description": "Ping."}));
    assert_eq!(sent[1], json!({"name": "pong"}));
    assert!(sent[2].get("parameters").is_some());
}

#[test]
fn a_schema_behind_a_reference_stands_in_its_place() {
    let text = r##"[
        {"name": "a", "inputSchema": {"$ref": "#/$defs/X", "$defs": {"X": {"$ref": "#/$defs/Y"},
            "Y": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}}}},
        {"name": "b", "inputSchema": {"$ref": "#/$defs/X", "required": ["b"],
            "$defs": {"X": {"type": "object", "required": ["a"]}}}},
        {"name": "c", "inputSchema": {"$ref": "#/$defs/X", "$defs": {"X": {"$ref": "#/$defs/X"}}}}]"##;
    let run = session(text, SessionOptions::default());
    let list = value(&mcp::tools(run.visible()));
    let schema = |n: usize| &list["tools"][n]["inputSchema"];
    assert_eq!(schema(0)["properties"], json!({"a": {"type": "string"}}));
    assert_eq!(schema(0)["required"], json!(["a"]));
    assert!(schema(0).get("$ref").is_none());
    let sent = value(&openai::tools(run.visible()));
    assert_eq!(sent[0]["function"]["parameters"]["properties"], schema(0)["properties"]);
    // Two rules of one matter are not one, and a circle leads nowhere: both references stay.
    assert_eq!(schema(1)["$ref"], "#/$defs/X");
    assert_eq!(schema(1)["required"], json!(["b"]));
    assert_eq!(schema(2)["$ref"], "#/$defs/X");
    mcp::tools(run.visible()).validate().unwrap();
}
