//! Group B: language and identity.

use serde_json::{Value, json};
use toolrack::{
    Call, Catalog, Engine, ErrorKind, FindRequest, FindStatus, Listing, Outcome, Reader,
    RefusalKind, SelectRequest, SessionOptions, SourceUpdate, Verdict, openai,
};

use crate::fixtures::{allowed, both, catalog, engine, ids, names, refused};

/// Case 12, anthropics/anthropic-sdk-python#1116: Japanese has no spaces between words.
#[test]
fn case_12_japanese_description_japanese_query() {
    let catalog = catalog(&[
        ("law/get_weather", "指定した都市の天気予報を取得します。"),
        ("law/search_laws", "法令を検索し、条文を表示します。"),
        ("law/list_files", "フォルダー内のファイルを一覧表示します。"),
    ]);
    for (mode, engine) in both(&catalog) {
        let selection = engine.select(&SelectRequest::new("法令を調べて")).unwrap();
        assert_eq!(
            ids(&selection).first().map(String::as_str),
            Some("law/search_laws"),
            "{mode}\n{selection}"
        );
        let selection = engine.select(&SelectRequest::new("東京の天気は？")).unwrap();
        assert_eq!(
            ids(&selection).first().map(String::as_str),
            Some("law/get_weather"),
            "{mode}\n{selection}"
        );
    }
}

/// Case 15, google-gemini/gemini-cli#28970: names that are equal once cut to the provider's limit, a
/// create and a delete. They have to stay apart, and a call has to reach its own tool.
#[test]
fn case_15_truncation_collides_opposite_actions() {
    let name = |verb: &str| {
        format!(
            "organisation_wide_customer_relationship_{verb}_every_record_of_the_given_account_now"
        )
    };
    let (create, delete) = (name("create"), name("delete"));
    assert!(create.len() > 64);
    let engine = engine(&[
        (&format!("crm/{create}"), "Create records."),
        (&format!("crm/{delete}"), "Delete records."),
    ]);
    let mut run = engine.session(SessionOptions::default()).unwrap();
    let shown = names(&run);
    assert_eq!(shown.len(), 2);
    assert_ne!(shown[0], shown[1]);
    for (called, meant) in shown.iter().zip([&create, &delete]) {
        assert!(called.len() <= 64);
        assert!(called.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
        assert_eq!(allowed(&mut run, called).id().name(), meant);
    }
    // The common beginning is nobody's name.
    assert_eq!(refused(&mut run, &create[..50]).kind, RefusalKind::Unknown);
}

/// Case 16, langchain-mcp-adapters#605 and zonlabs/mcp-ts PR#59: one name on two servers.
#[test]
fn case_16_same_name_on_two_servers() {
    let catalog = Catalog::empty();
    for (server, about) in [("docs", "Search the documentation."), ("tickets", "Search tickets.")] {
        let page = json!({"tools": [{"name": "search", "description": about, "inputSchema": {"type": "object"}}]});
        let listing = Reader::new().namespace(server).parse(&page.to_string()).unwrap();
        catalog.refresh(server, listing).unwrap();
    }
    assert_eq!(catalog.snapshot().len(), 2);

    for (mode, engine) in both(&catalog) {
        let selection = engine.select(&SelectRequest::new("search").k(1)).unwrap();
        assert_eq!(ids(&selection), ["docs/search", "tickets/search"], "{mode}");
        assert!(
            matches!(&selection.outcome, Outcome::Ambiguous(both) if both.len() == 2),
            "{mode}"
        );

        let mut run = engine.session(SessionOptions::default().limit(2).pass_through(0)).unwrap();
        assert_eq!(refused(&mut run, "search").kind, RefusalKind::Ambiguous, "{mode}");
        let reply = run.find_tool(&FindRequest::of_names(["search"])).unwrap();
        assert_eq!(reply.status, FindStatus::Ambiguous, "{mode}");
        assert_eq!(names(&run), ["find_tool", "docs__search", "tickets__search"], "{mode}");
        assert_eq!(allowed(&mut run, "tickets__search").id().namespace(), "tickets", "{mode}");
    }
}

/// Case 16, second half: the same namespace and name twice is an error that names both places.
#[test]
fn case_16_a_true_duplicate_is_refused() {
    let page = r#"{"tools": [{"name": "search", "inputSchema": {}}]}"#;
    let listing = |place: &str| {
        SourceUpdate::from(Reader::new().namespace("docs").place(place).parse(page).unwrap())
    };
    let catalog = Catalog::empty();
    catalog.refresh("a", listing("a.json")).unwrap();
    let error = catalog.refresh("b", listing("b.json")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DuplicateTool);
    insta::assert_snapshot!(error, @"tool docs/search is defined twice, at a.json, tool 0 ('search') (a) and at b.json, tool 0 ('search') (b): rename one or give each source its own namespace");
    assert_eq!(catalog.snapshot().len(), 1);
}

/// Case 18, BerriAI/litellm#31909, #26212 and #24984: the nested shape, the flat shape and a built-in
/// without a name in one list; none may be dropped.
#[test]
fn case_18_nested_provider_format() {
    let nested = r#"{"type":"function","function":{"name":"read_file","description":"Read a file.","parameters":{"type":"object","properties":{"path":{"type":"string"}}},"strict":true}}"#;
    let builtin = r#"{"type":"web_search", "search_context_size":"low"}"#;
    let list = format!(
        r#"[{nested}, {{"type":"function","name":"send_mail","description":"Send a mail.","parameters":{{"type":"object"}}}}, {builtin}]"#
    );
    let listing = Listing::parse(&list).unwrap();
    assert_eq!((listing.tools().len(), listing.builtins().len()), (2, 1));
    assert!(listing.problems().is_empty());

    let engine = Engine::builder(Catalog::from_listing("list", listing).unwrap()).build().unwrap();
    for pass_through in [9, 0] {
        let options = SessionOptions::default().core(["read_file"]).pass_through(pass_through);
        let mut run = engine.session(options).unwrap();
        run.turn("read the file and send a mail").unwrap();
        let list = openai::tools(run.visible());
        let sent: Vec<&str> = list.iter().collect();
        // The nested one goes out as it came, unknown field and all; so does the built-in.
        assert_eq!(sent.first(), Some(&nested));
        assert!(sent.contains(&builtin), "{sent:?}");
        let names: Vec<Value> =
            sent.iter().map(|text| serde_json::from_str::<Value>(text).unwrap()).collect();
        assert!(names.iter().any(|tool| tool["function"]["name"] == "send_mail"));
    }
    // A flat call of a model is read by name.
    let mut run = engine.session(SessionOptions::default()).unwrap();
    let verdict = run.authorize(&Call::new("send_mail", json!({}))).unwrap();
    assert!(matches!(verdict, Verdict::Run(tool) if tool.id().name() == "send_mail"));
}
