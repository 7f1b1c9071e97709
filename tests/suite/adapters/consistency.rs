//! What goes out is what a provider takes, and comes back to the tool that was meant.

use serde_json::{Value, json};
use toolrack::anthropic::Search;
use toolrack::{
    Answer, Call, Catalog, Engine, FindReply, FindRequest, FindStatus, Risk, SessionOptions, Tool,
    Verdict, anthropic, gemini, mcp, openai,
};

use super::{ADAPTERS, session, six, value};

fn lists(run: &toolrack::Session) -> Vec<Vec<String>> {
    ADAPTERS.iter().map(|one| (one.names)(&value(&(one.list)(run)))).collect()
}

#[test]
fn names_that_are_cut_stay_apart_and_lead_back() {
    let long = |verb: &str| {
        format!(
            "customer_relationship_management_{verb}_account_record_for_the_current_fiscal_year_of_it"
        )
    };
    let (create, delete) = (long("create"), long("delete"));
    let text = json!([{"name": create, "inputSchema": {}}, {"name": delete, "inputSchema": {}},
        {"name": "search", "namespace": "docs"}, {"name": "search", "namespace": "tickets"}]);
    let mut run = session(&text.to_string(), SessionOptions::default());
    for names in lists(&run) {
        assert_eq!(names.len(), 4);
        for name in &names {
            assert!(
                name.len() <= 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            );
        }
        let meant: Vec<String> =
            names.iter().map(|name| run.visible().id_of(name).unwrap().to_string()).collect();
        assert_eq!(
            meant,
            [
                format!("default/{create}"),
                format!("default/{delete}"),
                "docs/search".into(),
                "tickets/search".into()
            ]
        );
        match run.authorize(&Call::new(names[1].as_str(), json!({}))).unwrap() {
            Verdict::Run(tool) => assert_eq!(tool.tool().name(), delete),
            other => panic!("{other:?}"),
        }
    }
    for adapter in &ADAPTERS {
        (adapter.list)(&run).validate().unwrap();
    }
}

#[test]
fn nested_and_flat_shapes_and_nameless_builtins_all_go_out() {
    let text = r#"[{"type": "function", "function": {"name": "a", "parameters": {"type": "object", "properties": {}}}},
        {"type": "function", "name": "b"}, {"type": "web_search"}]"#;
    let run = session(text, SessionOptions::default());
    let list = openai::tools(run.visible());
    assert_eq!(list.len(), 3);
    assert!(list.iter().any(|one| one == r#"{"type": "web_search"}"#));
    assert!(openai::responses::tools(run.visible()).iter().any(|one| one.contains("web_search")));
    assert_eq!(lists(&run)[0], ["a", "b"]);
}

#[test]
fn a_builtin_goes_to_its_own_provider_only() {
    let run = six();
    let left_out = |list: toolrack::ToolList| -> Vec<String> {
        list.left_out().iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        left_out(openai::tools(run.visible())),
        [
            "built-in tool 'web_search_20250305' is left out because it is Anthropic's",
            "built-in tool 'googleSearch' is left out because it is Gemini's",
        ]
    );
    assert_eq!(
        left_out(anthropic::tools(run.visible())),
        [
            "built-in tool 'web_search' is left out because it is OpenAI's",
            "built-in tool 'googleSearch' is left out because it is Gemini's",
        ]
    );
    assert_eq!(left_out(mcp::tools(run.visible())).len(), 3);
    let json = gemini::tools(run.visible()).json();
    assert!(json.starts_with(r#"[{"googleSearch": {}},{"functionDeclarations":["#), "{json}");
    assert!(!json.contains("web_search"));
}

#[test]
fn a_builtin_called_like_the_meta_tool_is_left_out_with_a_warning() {
    let text = r#"[{"name": "a"}, {"type": "find_tool_20260101", "name": "find_tool"}]"#;
    let engine = Engine::builder(Catalog::parse(text).unwrap()).build().unwrap();
    let run = engine.session(SessionOptions::default()).unwrap();
    insta::assert_snapshot!(run.warnings()[0], @"a built-in tool is called 'find_tool' like the meta-tool and was left out: give the meta-tool another name");
    assert!(!anthropic::tools(run.visible()).json().contains("find_tool"));
    let run = engine.session(SessionOptions::default().meta_tool("look_for_tools")).unwrap();
    assert!(anthropic::tools(run.visible()).json().contains("find_tool_20260101"));
}

#[test]
fn deferral_never_outlives_its_search() {
    // As recorded from a request of somebody who used both providers' tool search.
    let text = r#"[
        {"name": "a", "input_schema": {"type": "object"}, "defer_loading": true, "cache_control": {"type": "ephemeral"}},
        {"type": "function", "name": "b", "parameters": {"type": "object", "properties": {}}, "defer_loading": true},
        {"name": "c"},
        {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
        {"type": "tool_search"}]"#;
    let mut run = session(text, SessionOptions::default().limit(2));
    run.find_tool(&FindRequest::of_names(["a", "b"])).unwrap();
    for adapter in &ADAPTERS {
        let list = (adapter.list)(&run);
        list.validate().unwrap();
        assert!(!list.json().contains("defer_loading"), "{}", adapter.name);
        assert!(!list.json().contains("\"tool_search"), "{}", adapter.name);
    }
    assert!(anthropic::tools(run.visible()).json().contains("cache_control"));

    let history = json!([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t",
        "content": [{"type": "tool_reference", "tool_name": "a"}]}]}]);
    for messages in [&json!([]), &history] {
        for search in [Search::Client, Search::Bm25, Search::Regex] {
            let list = anthropic::deferred(&run, search, messages).unwrap();
            let deferred: Vec<bool> = value(&list)
                .as_array()
                .unwrap()
                .iter()
                .filter(|entry| entry["name"] == "a")
                .map(|entry| entry.get("defer_loading").is_some())
                .collect();
            assert_eq!(deferred, [messages == &history]);
        }
    }
    run.on_compaction();
    anthropic::deferred(&run, Search::Client, &json!([])).unwrap();
}

#[test]
fn a_search_tool_stays_when_a_builtin_brings_deferred_tools() {
    let text = r#"[{"name": "a"}, {"type": "tool_search"},
        {"type": "mcp", "server_label": "crm", "server_url": "https://crm.example", "defer_loading": true}]"#;
    let run = session(text, SessionOptions::default());
    let list = openai::responses::tools(run.visible());
    assert_eq!((list.len(), list.left_out().len()), (3, 0));
    list.validate().unwrap();
}

#[test]
fn a_server_whose_tools_are_deferred_keeps_its_search() {
    let text = r#"[{"name": "a", "input_schema": {"type": "object"}},
        {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
        {"type": "mcp_toolset", "mcp_server_name": "crm", "default_config": {"defer_loading": true}}]"#;
    let run = session(text, SessionOptions::default());
    for (search, name) in [
        (Search::Client, "tool_search_tool_bm25"),
        (Search::Bm25, "tool_search_tool_bm25"),
        (Search::Regex, "tool_search_tool_regex"),
    ] {
        let list = anthropic::deferred(&run, search, &json!([])).unwrap();
        let searches: Vec<String> = super::names(value(&list).as_array(), |entry| entry);
        assert_eq!(
            searches.iter().filter(|one| one.contains("search")).collect::<Vec<_>>(),
            [name]
        );
        assert!(list.json().contains("mcp_toolset"));
    }
    anthropic::tools(run.visible()).validate().unwrap();
}

#[test]
fn a_server_that_says_that_it_defers_nothing_brings_no_search() {
    let text = r#"[{"name": "a"}, {"type": "tool_search"},
        {"type": "mcp", "server_label": "crm", "server_url": "https://crm.example", "defer_loading": false}]"#;
    let list = openai::responses::tools(session(text, SessionOptions::default()).visible());
    list.validate().unwrap();
    assert_eq!(list.left_out()[0].builtin().kind(), "tool_search");
}

#[test]
fn names_begin_as_every_provider_takes_them_and_lead_back() {
    let text = r#"[{"name": "21st_magic"}, {"name": "get", "namespace": "1password"}, {"name": "-x"},
        {"name": "__3d/print"}, {"name": "_21st_magic"}]"#;
    let mut run = session(text, SessionOptions::default());
    let ids = [
        "default/21st_magic",
        "1password/get",
        "default/-x",
        "default/__3d/print",
        "default/_21st_magic",
    ];
    for (adapter, names) in ADAPTERS.iter().zip(lists(&run)) {
        (adapter.list)(&run).validate().unwrap();
        assert_eq!(names[..3], ["_21st_magic", "_1password__get", "_-x"]);
        assert!(names[4].starts_with("_21st_magic_"), "{names:?}");
        for (name, id) in names.iter().zip(ids) {
            assert!(name.starts_with('_'), "{name}");
            match run.authorize(&Call::new(name.as_str(), json!({}))).unwrap() {
                Verdict::Run(tool) => assert_eq!(tool.id().to_string(), id),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}

#[test]
fn what_the_providers_search_brought_may_run() {
    let mut run = six();
    let call = Call::new("send_mail", json!({}));
    let said = json!({"role": "assistant", "content": [
        {"type": "tool_search_tool_result", "tool_use_id": "s1", "content": {
            "type": "tool_search_tool_search_result",
            "tool_references": [{"type": "tool_reference", "tool_name": "send_mail"}]}},
        {"type": "tool_use", "id": "t1", "name": "send_mail", "input": {}}]});
    assert_eq!(anthropic::calls(&said), [call.clone().with_id("t1")]);
    run.note_shown(anthropic::discovered(&said));
    assert!(matches!(run.authorize(&call).unwrap(), Verdict::Run(_)));
    let list = anthropic::deferred(&run, Search::Bm25, &json!([said])).unwrap();
    assert!(!super::names(value(&list).as_array(), |one| one).contains(&"find_tool".to_owned()));
}

#[test]
fn references_say_only_what_they_may() {
    let mut run = six();
    let sent = anthropic::deferred(&run, Search::Client, &json!([])).unwrap();
    let call = Call::new("find_tool", json!({})).with_id("t1");
    // Core is in the list in full, so it is told in words.
    let reply =
        run.find_tool(&FindRequest::of_names(["read_state", "send_mail", "no_such_tool"])).unwrap();
    let answer = anthropic::references(&call, &reply, &sent);
    assert_eq!(
        answer.result["content"],
        json!([{"type": "tool_reference", "tool_name": "send_mail"}])
    );
    let note = answer.note.unwrap();
    assert!(note.contains("read_state") && note.contains("'no_such_tool'"), "{note}");

    let reply = run.find_tool(&FindRequest::of_names(["nothing_at_all"])).unwrap();
    let answer = anthropic::references(&call, &reply, &sent);
    assert!(answer.note.is_none() && answer.result["content"].is_string());
}

#[test]
fn a_note_says_whatever_references_leave_out() {
    let mut run = six();
    let sent = anthropic::deferred(&run, Search::Client, &json!([])).unwrap();
    let call = Call::new("find_tool", json!({})).with_id("t1");
    let whole = run.find_tool(&FindRequest::of_names(["send_mail"])).unwrap();
    assert_eq!(anthropic::references(&call, &whole, &sent).note, None);
    let more: [fn(&mut FindReply); 5] = [
        |reply| reply.near = reply.loaded.clone(),
        |reply| reply.total = 17,
        |reply| reply.degraded = Some("the embedding service answered 503".to_owned()),
        |reply| reply.status = FindStatus::Repeated,
        |reply| reply.unknown_names.push("no_such_tool".to_owned()),
    ];
    for (number, change) in more.into_iter().enumerate() {
        let mut reply = whole.clone();
        change(&mut reply);
        let answer = anthropic::references(&call, &reply, &sent);
        assert!(answer.result["content"][0]["tool_name"] == "send_mail");
        assert_eq!(answer.note, Some(reply.text()), "{number}");
    }
}

#[test]
fn data_of_any_kind_is_an_object_for_mcp() {
    let call = Call::new("a", json!({}));
    for data in [json!([1, 2]), json!("text"), json!(null), json!(3)] {
        let result = mcp::result(&call, Answer::new("x").with_data(data.clone()));
        assert_eq!(result["structuredContent"], json!({"result": data}));
    }
    let data = json!({"rows": []});
    assert_eq!(
        mcp::result(&call, Answer::new("x").with_data(data.clone()))["structuredContent"],
        data
    );
}

#[test]
fn geminis_calls_are_read_in_snake_case_and_from_a_stream() {
    let part = |key: &str, name: &str| {
        json!({"candidates": [{"content": {"parts": [
        {"text": "One moment."}, {key: {"name": name, "args": {"a": 1}}}]}}]})
    };
    let snake = gemini::calls(&part("function_call", "a"));
    assert_eq!(snake, [Call::new("a", json!({"a": 1}))]);
    let streamed = gemini::calls(
        &json!([part("functionCall", "a"), {"candidates": []}, part("function_call", "b")]),
    );
    assert_eq!(streamed.iter().map(|call| call.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn geminis_dialect_reaches_no_other_provider() {
    let text = r#"{"functionDeclarations": [{"name": "book_room", "parameters":
        {"type": "OBJECT", "properties": {"type": {"type": "STRING", "enum": ["OBJECT"]}}}}]}"#;
    let run = session(text, SessionOptions::default());
    let plain =
        json!({"type": "object", "properties": {"type": {"type": "string", "enum": ["OBJECT"]}}});
    assert_eq!(value(&openai::tools(run.visible()))[0]["function"]["parameters"], plain);
    assert_eq!(value(&openai::responses::tools(run.visible()))[0]["parameters"], plain);
    assert_eq!(value(&anthropic::tools(run.visible()))[0]["input_schema"], plain);
    assert_eq!(value(&mcp::tools(run.visible()))["tools"][0]["inputSchema"], plain);
    assert_eq!(
        value(&gemini::tools(run.visible()))[0]["functionDeclarations"][0]["parameters"]["type"],
        "OBJECT"
    );
}

#[test]
fn a_risk_that_nobody_stated_is_no_promise() {
    let tools = [
        Tool::builder("unsaid").build().unwrap(),
        Tool::builder("reads").risk(Risk::Read).build().unwrap(),
        Tool::builder("writes").risk(Risk::Write).build().unwrap(),
    ];
    // What was stated survives being stored.
    let stored = serde_json::to_string(&tools).unwrap();
    for catalog in [Catalog::from_tools(tools).unwrap(), Catalog::parse(&stored).unwrap()] {
        let run = Engine::builder(catalog).build().unwrap().session(SessionOptions::default());
        let list = value(&mcp::tools(run.unwrap().visible()));
        let hints: Vec<&Value> = (0..3).map(|n| &list["tools"][n]["annotations"]).collect();
        assert_eq!(
            hints,
            [
                &Value::Null,
                &json!({"readOnlyHint": true}),
                &json!({"readOnlyHint": false, "destructiveHint": false})
            ]
        );
    }
}

#[test]
fn refusals_are_marked_and_searches_keep_their_data() {
    let mut run = six();
    let call = Call::new("no_such_tool", json!({})).with_id("c1");
    let Verdict::Refused(why) = run.authorize(&call).unwrap() else { panic!("not refused") };
    assert_eq!(anthropic::result(&call, &why)["is_error"], true);
    assert_eq!(mcp::result(&call, &why)["isError"], true);
    let part = gemini::result(&call, &why);
    assert_eq!(part["functionResponse"]["id"], "c1");
    assert_eq!(part["functionResponse"]["response"]["error"], why.text());
    assert_eq!(openai::result(&call, &why)["content"], why.text());

    let reply = run.find_tool(&FindRequest::of_names(["send_mail"])).unwrap();
    let result = mcp::result(&call, &reply);
    assert_eq!(result["structuredContent"]["loaded"][0]["name"], "send_mail");
    assert_eq!(result["content"][0]["text"], reply.text());
}

#[test]
fn arguments_come_as_models_write_them() {
    let arguments = |text: Value| {
        let message = json!({"tool_calls": [{"function": {"name": "a", "arguments": text}}]});
        openai::calls(&message)[0].arguments.clone()
    };
    assert_eq!(arguments(json!("")), json!({}));
    assert_eq!(arguments(Value::Null), json!({}));
    assert_eq!(arguments(json!({"a": 1})), json!({"a": 1}));
    assert_eq!(arguments(json!("{not json")), json!("{not json"));
    for adapter in &ADAPTERS {
        for odd in [json!(null), json!([]), json!({"content": 7, "tool_calls": {}}), json!("text")]
        {
            assert!((adapter.calls)(&odd).is_empty(), "{}", adapter.name);
        }
    }
    assert!(Answer::from("x") == Answer::new("x") && !Answer::new("x").is_error());
}

#[test]
fn a_list_that_a_provider_would_refuse_is_told_in_one_sentence() {
    let object = json!({"type": "object"});
    let long = "n".repeat(129);
    let anthropic_of = |entries: Value| anthropic::validate(&entries).unwrap_err();
    let tool = |name: &str| json!({"name": name, "input_schema": object});
    let deferred =
        |name: &str| json!({"name": name, "input_schema": object, "defer_loading": true});
    let hosted = json!({"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"});

    insta::assert_snapshot!(anthropic_of(json!([tool("a"), deferred("b")])), @"tool 'b' is deferred but the list has no search tool: add one or remove defer_loading");
    insta::assert_snapshot!(anthropic_of(json!([deferred("a"), deferred("b")])), @"every tool of the list is deferred: leave one, such as the search tool, without defer_loading");
    insta::assert_snapshot!(anthropic_of(json!([tool("a"), tool("a")])), @"two tools of the list are called 'a': rename one of them or give it a namespace");
    insta::assert_snapshot!(anthropic_of(json!([tool(&long)])), @"tool 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn' has a name that Anthropic does not take: use 1 to 128 of a-z A-Z 0-9 _ -");
    insta::assert_snapshot!(anthropic_of(json!([tool("a.b")])), @"tool 'a.b' has a name that Anthropic does not take: use 1 to 128 of a-z A-Z 0-9 _ -");
    insta::assert_snapshot!(anthropic_of(json!([{"name": "a", "input_schema": {"type": "object", "anyOf": []}}])), @"tool 'a' has 'anyOf' at the top of its schema, which Anthropic refuses: move it into a property");
    insta::assert_snapshot!(anthropic_of(json!([{"name": "a", "input_schema": {}}])), @"tool 'a' has parameters that are no object: give a schema of type object");
    let mut cached = deferred("b");
    cached["cache_control"] = json!({"type": "ephemeral"});
    insta::assert_snapshot!(anthropic_of(json!([hosted, cached])), @"tool 'b' has both defer_loading and cache_control: remove one");
    let mut late = hosted.clone();
    late["defer_loading"] = json!(true);
    insta::assert_snapshot!(anthropic_of(json!([tool("a"), late])), @"the search tool 'tool_search_tool_bm25' is deferred itself: remove its defer_loading");
    insta::assert_snapshot!(anthropic_of(json!({})), @"the tools are no list: give what goes into a request of Anthropic");
    anthropic::validate(&json!([hosted, deferred("b")])).unwrap();
    anthropic::validate(&json!([tool("find_tool"), deferred("b")])).unwrap();

    let chat = json!([{"type": "function", "function": {"parameters": {"type": "object"}}}]);
    insta::assert_snapshot!(openai::validate(&chat).unwrap_err(), @"tool 'function' has no name: name it");
    let alone = json!([{"type": "tool_search"}, {"type": "function", "name": "a"}]);
    insta::assert_snapshot!(openai::responses::validate(&alone).unwrap_err(), @"the list has 'tool_search' but no deferred tool: defer one or leave the search out");
    let digit = json!([{"functionDeclarations": [{"name": "3d_print"}]}]);
    insta::assert_snapshot!(gemini::validate(&digit).unwrap_err(), @"tool '3d_print' has a name that Gemini does not take: begin it with a letter or give the tool a namespace");
    let both = json!([{"functionDeclarations": [{"name": "a", "parameters": {}, "parametersJsonSchema": {}}]}]);
    insta::assert_snapshot!(gemini::validate(&both).unwrap_err(), @"tool 'a' has both parameters and parametersJsonSchema: give one");
    insta::assert_snapshot!(mcp::validate(&json!({"tools": [{"name": "a"}]})).unwrap_err(), @r#"tool 'a' has no schema: give {"type": "object"} at least"#);
}
