//! The meta-tool and what is deferred behind it.

use serde_json::{Value, json};
use toolrack::{
    Budget, Call, Catalog, Detail, Engine, FindReply, FindRequest, FindStatus, Gate, ListOrder,
    RefusalKind, RuntimeContext, SelectRequest, Session, SessionOptions, Tool, Verdict, openai,
};

fn office() -> Catalog {
    Catalog::parse(
        r#"[{"name": "read_state", "description": "Read the notes of this run."},
            {"name": "zip_files", "namespace": "files", "description": "Pack files into an archive."},
            {"name": "read_file", "namespace": "files", "description": "Read a text file."},
            {"name": "send_mail", "namespace": "mail", "description": "Send an e-mail to somebody.",
             "parameters": {"type": "object", "properties": {
                 "cc_recipients": {"type": "string", "description": "who gets a carbon copy"}}}},
            {"name": "list_mail", "namespace": "mail", "description": "List the mail in a mailbox."},
            {"name": "add_event", "namespace": "calendar", "description": "Put an event into the calendar."}]"#,
    )
    .unwrap()
}

fn engine() -> Engine {
    Engine::builder(office()).build().unwrap()
}

/// A run that loads nothing by itself.
fn deferred() -> SessionOptions {
    SessionOptions::default().core(["read_state"]).limit(5).pass_through(0).retrieve(0)
}

fn search(run: &mut Session, meta: &str, arguments: Value) -> FindReply {
    match run.authorize(&Call::new(meta, arguments)).unwrap() {
        Verdict::MetaTool(request) => run.find_tool(&request).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn names(run: &Session) -> Vec<String> {
    run.visible().names().map(str::to_owned).collect()
}

#[test]
fn a_tool_that_is_called_like_the_meta_tool_is_left_out_with_a_warning() {
    for meta in ["find_tool", "tool_search"] {
        let text = format!(
            r#"[{{"name": "{meta}", "description": "Search secret files for words."}},
                {{"name": "read_file", "description": "Read a file."}},
                {{"name": "send_mail", "description": "Send mail."}}]"#
        );
        let engine = Engine::builder(Catalog::parse(&text).unwrap()).build().unwrap();
        let options = SessionOptions::default().meta_tool(meta).limit(1).retrieve(1);
        let mut run = engine.session(options).unwrap();
        assert!(run.warnings()[0].contains(&format!("default/{meta} is called '{meta}'")));

        // The name is the meta-tool's, and the tool is nowhere else.
        run.turn("search secret files for words").unwrap();
        assert_eq!(names(&run).iter().filter(|name| *name == meta).count(), 1);
        assert!(openai::tools(run.visible()).json().contains("Find and load tools"));
        assert!(!openai::tools(run.visible()).json().contains("secret"));
        let reply = search(&mut run, meta, json!({"names": [meta], "intent": "secret"}));
        assert!(!reply.text().contains("secret files"), "{reply}");
        let Verdict::Refused(refusal) =
            run.authorize(&Call::new("search_secret_files", json!({}))).unwrap()
        else {
            panic!()
        };
        assert_eq!(refusal.kind, RefusalKind::Unknown);
        assert!(!refusal.text().contains(&format!("ones: {meta}")), "{refusal}");
        // The others load.
        let reply = search(&mut run, meta, json!({"intent": "read a file"}));
        assert!(reply.text().contains("read_file: Read a file."), "{reply}");
    }
    // It may also arrive while the run goes on.
    let engine = engine();
    let mut run = engine.session(deferred()).unwrap();
    assert!(run.warnings().is_empty());
    let late = toolrack::Listing::parse(r#"[{"name": "find_tool", "description": "x"}]"#).unwrap();
    engine.refresh("late", late).unwrap();
    run.step();
    assert_eq!(run.warnings().len(), 1);
    assert_eq!(names(&run), ["read_state", "find_tool"]);
}

#[test]
fn core_first_then_the_meta_tool_then_either_order() {
    for (order, expected) in [
        (ListOrder::Admission, ["mail__send_mail", "files__read_file", "calendar__add_event"]),
        (ListOrder::Name, ["calendar__add_event", "files__read_file", "mail__send_mail"]),
    ] {
        let engine = engine();
        let mut run = engine.session(deferred().order(order)).unwrap();
        for name in ["send_mail", "read_file", "add_event"] {
            search(&mut run, "find_tool", json!({"intent": format!("select:{name}")}));
        }
        let list = names(&run);
        assert_eq!(list[..2], ["read_state", "find_tool"]);
        assert_eq!(list[2..], expected);
        // Stable: wanting one again changes no byte, nor does storing the run.
        let bytes = openai::tools(run.visible()).json();
        search(&mut run, "find_tool", json!({"names": "read_file"}));
        assert_eq!(openai::tools(run.visible()).json(), bytes);
        let (restored, _) = engine.restore(deferred().order(order), run.to_state()).unwrap();
        assert_eq!(openai::tools(restored.visible()).json(), bytes);
    }
}

#[test]
fn an_order_by_name_ends_the_epoch_only_when_a_tool_comes_in_among_others() {
    let mut run = engine().session(deferred().order(ListOrder::Name)).unwrap();
    search(&mut run, "find_tool", json!({"names": ["read_file"]}));
    let epoch = run.visible().epoch();
    search(&mut run, "find_tool", json!({"names": ["send_mail"]}));
    assert_eq!(run.visible().epoch(), epoch);
    search(&mut run, "find_tool", json!({"names": ["add_event"]}));
    assert_eq!(run.visible().epoch(), epoch + 1);
    assert!(run.step().delta.new_epoch);
}

#[test]
fn select_is_exact_unranked_and_without_limit() {
    let mut run = engine().session(deferred()).unwrap();
    let reply = search(
        &mut run,
        "find_tool",
        json!({"intent": "select:zip_files, mail/send_mail,add_event", "limit": 1}),
    );
    let loaded: Vec<&str> = reply.loaded.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(loaded, ["files__zip_files", "mail__send_mail", "calendar__add_event"]);

    // Some are known: the others are told, not searched for.
    let mut run = engine().session(deferred()).unwrap();
    let reply = search(&mut run, "find_tool", json!({"intent": "select:zip_files,mail_sender"}));
    assert_eq!(
        (reply.loaded.len(), reply.unknown_names.as_slice()),
        (1, &["mail_sender".into()][..])
    );

    // None is known: the guessed names say what was wanted.
    let reply = search(&mut run, "find_tool", json!({"intent": "select:email_send,send_an_email"}));
    assert_eq!(reply.loaded[0].name, "mail__send_mail");
    assert!(reply.text().contains("There is no tool called 'email_send', 'send_an_email'."));
}

#[test]
fn select_takes_whole_names_only() {
    let mut run = engine().session(deferred()).unwrap();
    // The end of two names is a guess like any other: it is searched for.
    let reply = search(&mut run, "find_tool", json!({"intent": "select:mail", "limit": 1}));
    assert_eq!(reply.unknown_names, ["mail"], "{reply}");
    assert!(reply.ambiguous.is_empty(), "{reply}");
    let reply = search(&mut run, "find_tool", json!({"names": ["mail"]}));
    assert_eq!((reply.status, reply.ambiguous.len()), (FindStatus::Ambiguous, 2), "{reply}");
}

#[test]
fn a_name_that_stands_for_many_tools_loads_none_and_says_how_many() {
    let servers = |n: usize| {
        let tools = (0..n).map(|n| {
            let tool = Tool::builder("do_search").namespace(format!("server{n}"));
            tool.description("Search the many things of this server.").build().unwrap()
        });
        let catalog = Catalog::from_tools(tools).unwrap();
        Engine::builder(catalog).without_embedder().build().unwrap()
    };
    let engine = servers(500);
    for arguments in [json!({"intent": "select:do_search"}), json!({"names": ["search"]})] {
        let mut run = engine.session(SessionOptions::default()).unwrap();
        let reply = search(&mut run, "find_tool", arguments);
        assert_eq!((reply.status, reply.loaded.len()), (FindStatus::Ambiguous, 0), "{reply}");
        assert_eq!((reply.crowded[0].total, reply.crowded[0].tools.len()), (500, 5));
        assert!(run.visible().tools().is_empty());
        assert!(reply.text().len() < 300 && reply.json().to_string().len() < 1_000, "{reply}");
    }
    let mut run = engine.session(SessionOptions::default()).unwrap();
    let reply = search(&mut run, "find_tool", json!({"names": ["search"]}));
    insta::assert_snapshot!(reply, @r"
    'search' stands for 500 tools, of which none was loaded; give the whole name of one, such as server0__do_search, server1__do_search, server2__do_search, server3__do_search, server4__do_search.
    ");
    // Whoever says only what all are called has named none of them.
    let mut run = engine.session(SessionOptions::default()).unwrap();
    let reply = search(&mut run, "find_tool", json!({"intent": "do_search"}));
    assert!((1..=8).contains(&reply.loaded.len()), "{reply}");
    assert!(reply.text().len() < 2_000, "{reply}");
    // Twenty are few enough to look at.
    for (n, loaded) in [(20, 20), (21, 0)] {
        let options = SessionOptions::default().limit(30).pass_through(0).retrieve(0);
        let mut run = servers(n).session(options).unwrap();
        let reply = search(&mut run, "find_tool", json!({"names": ["search"]}));
        assert_eq!((reply.loaded.len(), reply.crowded.len()), (loaded, usize::from(n > 20)));
    }
}

#[test]
fn names_come_as_models_write_them() {
    for arguments in [
        json!({"names": "zip_files, send_mail"}),
        json!({"names": ["`zip_files`", "\"send_mail\""]}),
        json!({"intent": "select:`zip_files`, 'send_mail'"}),
    ] {
        let mut run = engine().session(deferred()).unwrap();
        let reply = search(&mut run, "find_tool", arguments.clone());
        let loaded: Vec<&str> = reply.loaded.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(loaded, ["files__zip_files", "mail__send_mail"], "{arguments}");
    }
}

#[test]
fn a_falsy_limit_is_no_limit_of_ones_own() {
    for limit in [
        json!(0),
        json!(null),
        json!(""),
        json!(false),
        json!("0"),
        json!([]),
        json!({}),
        json!("null"),
        json!("None"),
        json!("false"),
    ] {
        let arguments = json!({"intent": "mail", "limit": limit});
        let request = FindRequest::from_arguments(&arguments).unwrap();
        assert!(request.limit.is_none_or(|limit| limit == 0), "{arguments}");
        let mut run = engine().session(deferred().find_limit(2)).unwrap();
        assert_eq!(search(&mut run, "find_tool", arguments).loaded.len(), 2);
    }
    assert!(FindRequest::from_arguments(&json!({"intent": "x", "limit": "many"})).is_err());
}

#[test]
fn a_miss_names_what_could_be_loaded() {
    let mut run = engine().session(deferred()).unwrap();
    search(&mut run, "find_tool", json!({"names": ["send_mail"]}));
    let reply = search(&mut run, "find_tool", json!({"intent": "qqqq zzzz"}));
    assert_eq!(reply.status, FindStatus::NothingFound);
    insta::assert_snapshot!(reply.text(), @r"
    No tool fits. Do not repeat this search; tools exist in: calendar, default, files, mail.
    Ask in other words, or load one of these by name: files__zip_files, files__read_file, mail__list_mail, calendar__add_event.
    ");
    assert_eq!(reply.json()["n_available"], 4);

    // Of many the first thirty, and how many there are.
    let many: Vec<Value> = (0..200).map(|n| json!({"name": format!("tool_{n:03}")})).collect();
    let catalog = Catalog::parse(&Value::from(many).to_string()).unwrap();
    let mut run = Engine::builder(catalog)
        .build()
        .unwrap()
        .session(SessionOptions::default().context(RuntimeContext::default()))
        .unwrap();
    let reply = search(&mut run, "find_tool", json!({"intent": "qqqq zzzz"}));
    assert_eq!((reply.available.len(), reply.n_available), (30, 200));
    assert!(reply.text().contains("by name (30 of 200): tool_000, tool_001,"), "{reply}");
}

#[test]
fn parameter_names_are_searchable() {
    let engine = Engine::builder(office()).without_embedder().build().unwrap();
    let mut run = engine.session(deferred()).unwrap();
    for words in ["cc_recipients", "carbon copy", "cc recipients"] {
        let reply = search(&mut run, "find_tool", json!({"intent": words}));
        let found = reply.loaded.iter().chain(&reply.visible).next().unwrap();
        assert_eq!(found.name, "mail__send_mail", "{words}");
    }
}

#[test]
fn a_share_of_the_best_score_is_asked_for_in_turns_and_searches() {
    let engine = Engine::builder(office()).gate(Gate::open()).build().unwrap();
    let request = "send an e-mail to somebody";
    let all = engine.select(&SelectRequest::new(request)).unwrap();
    let cut = engine.select(&SelectRequest::new(request).min_score_ratio(0.9)).unwrap();
    assert!(cut.candidates.len() < all.candidates.len());
    let best = cut.candidates[0].score.get();
    assert!(cut.candidates.iter().all(|candidate| candidate.score.get() >= 0.9 * best));

    let options = deferred().retrieve(5).min_score_ratio(1.0);
    let mut run = engine.session(options).unwrap();
    run.turn(request).unwrap();
    assert_eq!(names(&run), ["read_state", "find_tool", "mail__send_mail"]);
    let reply = search(&mut run, "find_tool", json!({"intent": "put an event into the calendar"}));
    assert_eq!(reply.loaded.len(), 1);
    assert!(engine.session(deferred().min_score_ratio(1.5)).is_err());
}

#[test]
fn the_outline_degrades_in_steps_and_is_stable() {
    let engine = engine();
    let everybody = RuntimeContext::default();
    let page = |budget| engine.outline(&everybody, Detail::Lines, budget);
    let whole = page(Budget::Unlimited);
    insta::assert_snapshot!(whole.text, @r"
    read_state: Read the notes of this run.
    files__zip_files: Pack files into an archive.
    files__read_file: Read a text file.
    mail__send_mail: Send an e-mail to somebody.
    mail__list_mail: List the mail in a mailbox.
    calendar__add_event: Put an event into the calendar.
    ");
    let mut details = Vec::new();
    for bytes in (0..=whole.text.len()).rev() {
        let page = page(Budget::Bytes(bytes));
        assert!(page.text.len() <= bytes);
        details.push(page.detail);
    }
    assert!(details.is_sorted_by(|a, b| a >= b), "less never shows more");
    details.dedup();
    assert_eq!(details, [Detail::Lines, Detail::Names, Detail::Groups]);
    let groups = page(Budget::Bytes(50));
    assert_eq!(groups.text, "default (1)\nfiles (2)\nmail (2)\ncalendar (1)");
    assert_eq!(page(Budget::Bytes(34)).text, "default (1)\n3 more groups (5)");
    assert_eq!(page(Budget::Bytes(14)).text, "4 groups (6)");
    assert_eq!((groups.tools, groups.groups), (6, 4));
    assert_eq!(page(Budget::Tokens(10_000)).text, whole.text);
    assert_eq!(page(Budget::Bytes(0)).text, "");

    // The policy holds, and a run's page leaves out what is reserved.
    let mail = RuntimeContext::default().approve_namespaces(["mail"]);
    let page = engine.outline(&mail, Detail::Names, Budget::Unlimited);
    assert_eq!(page.text, "mail__send_mail\nmail__list_mail");
    let run = engine.session(deferred().meta_tool("mail__list_mail")).unwrap();
    assert!(!run.outline(Detail::Names, Budget::Unlimited).text.contains("list_mail"));
}

#[test]
fn the_notice_is_added_once_and_only_when_something_is_deferred() {
    let engine = engine();
    let mut run = engine.session(deferred()).unwrap();
    let notice = run.notice().unwrap();
    insta::assert_snapshot!(notice, @r"
    <deferred_tools>
    Most tools are not loaded: your tool list holds only some of them. 5 tools can be loaded. When none in your list does what is needed, call find_tool with what you want to do, before you say that it cannot be done.
    Where they belong: files (2), mail (2), calendar (1).
    </deferred_tools>
    ");
    // What is loaded just now does not change it.
    search(&mut run, "find_tool", json!({"names": ["send_mail"]}));
    assert_eq!(run.notice().unwrap(), notice);
    let prompt = run.with_notice("You are a clerk.");
    assert!(prompt.starts_with("You are a clerk.\n\n<deferred_tools>"));
    assert_eq!(run.with_notice(&prompt), prompt);

    // A changed catalog replaces it; with nothing deferred it goes.
    engine.refresh("more", toolrack::Listing::parse(r#"[{"name": "new"}]"#).unwrap()).unwrap();
    run.step();
    let changed = run.with_notice(&prompt);
    assert!(changed.contains("6 tools") && !changed.contains("5 tools"));
    let whole = engine.session(SessionOptions::default()).unwrap();
    assert_eq!(whole.notice(), None);
    assert_eq!(whole.with_notice(&changed), "You are a clerk.");
    assert!(whole.visible().meta_tool().is_none());
}

#[test]
fn a_compressed_catalog_names_all_and_looks_definitions_up() {
    let engine = engine();
    let options = deferred().compressed(200);
    let mut run = engine.session(options.clone()).unwrap();
    let notice = run.notice().unwrap();
    for line in office().snapshot().tools().map(|tool| tool.description().to_owned()) {
        assert!(notice.contains(&line), "{line}");
    }
    assert!(!notice.contains("carbon copy"), "no schema");
    let meta = run.visible().meta_tool().unwrap().clone();
    assert!(meta.parameters.contains(r#""describe""#));
    assert!(serde_json::from_str::<Value>(&meta.parameters).is_ok());
    let plain = engine.session(deferred()).unwrap();
    assert!(!plain.visible().meta_tool().unwrap().parameters.contains("describe"));

    let reply = search(&mut run, "find_tool", json!({"describe": ["mail__send_mail"]}));
    assert!(reply.definitions[0].json.contains("who gets a carbon copy"));
    assert!(reply.text().contains(&reply.definitions[0].json));
    let call = Call::new("mail__send_mail", json!({"cc_recipients": "ana"}));
    // Not in the same message: its arguments would be guessed.
    assert!(matches!(run.authorize(&call).unwrap(), Verdict::Refused(_)));
    run.visible();
    assert!(matches!(run.authorize(&call).unwrap(), Verdict::Run(_)));

    // Also when the list is full: the model has read it, so it may call it.
    let mut full = engine.session(options.limit(1)).unwrap();
    let reply = search(&mut full, "find_tool", json!({"describe": "send_mail"}));
    assert_eq!(reply.status, FindStatus::BudgetFull);
    full.visible();
    assert!(matches!(full.authorize(&call).unwrap(), Verdict::Run(_)));
    // A hidden tool has no definition.
    let files = RuntimeContext::default().approve_namespaces(["files", "default"]);
    let mut elsewhere = engine.session(deferred().context(files)).unwrap();
    let reply = search(&mut elsewhere, "find_tool", json!({"describe": "send_mail"}));
    assert!(reply.definitions.is_empty() && !reply.text().contains("e-mail"), "{reply}");

    // Too small a budget shows names, then groups.
    let small = engine.session(deferred().compressed(30)).unwrap().notice().unwrap();
    assert!(small.contains("mail__send_mail\n") && !small.contains("e-mail"), "{small}");
}
