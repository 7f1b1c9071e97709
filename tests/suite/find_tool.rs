//! The contract with the model: what it may ask, and every case of what it is told.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolrack::{
    Call, Catalog, Engine, FindReply, FindRequest, FindStatus, Gate, Listing, RefusalKind, Risk,
    RuntimeContext, Session, SessionOptions, Tool, Verdict,
};

use crate::fixtures::{Mood, Words, names, tool};

/// Tools of four integrations, one of them named alike in two.
fn tools() -> Vec<Tool> {
    vec![
        tool("mail/send_mail", "Send a mail to a person.\nWith attachments."),
        tool("mail/search", "Search the mails of a mailbox."),
        tool("files/search", "Search the files of a folder."),
        tool("files/read_file", "Read a file of a folder."),
        tool("calendar/create_event", "Create an event in a calendar."),
        tool("calendar/list_events", "List the events of a calendar."),
        tool("desk/create_ticket", "Open a ticket for a customer."),
        tool("desk/close_ticket", "Close a ticket of a customer."),
        tool("desk/list_tickets", ""),
    ]
}

fn engine() -> Engine {
    Engine::builder(Catalog::from_tools(tools()).unwrap()).build().unwrap()
}

fn session(limit: usize) -> Session {
    engine().session(SessionOptions::default().limit(limit).pass_through(0).retrieve(0)).unwrap()
}

fn find(run: &mut Session, arguments: Value) -> FindReply {
    match run.authorize(&Call::new("find_tool", arguments)).unwrap() {
        Verdict::MetaTool(request) => run.find_tool(&request).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The reply without the number of fitting tools, which is for the ranking to say.
fn wording(reply: &FindReply) -> String {
    reply.text().replace(&format!("of {} that fit", reply.total), "of N that fit")
}

#[test]
fn loaded() {
    let mut run = session(6);
    let reply = find(&mut run, json!({"intent": "open a ticket for a customer", "limit": 1}));
    assert_eq!(reply.status, FindStatus::Loaded);
    insta::assert_snapshot!(wording(&reply), @r"
    Loaded 1 tool, callable from your next message on (1 of N that fit):
    - desk__create_ticket: Open a ticket for a customer.
    ");
    assert_eq!(names(&run), ["find_tool", "desk__create_ticket"]);
    // A tool without a description, and one with several lines.
    let reply = find(&mut run, json!({"names": ["list_tickets", "send_mail"]}));
    insta::assert_snapshot!(reply, @r"
    Loaded 2 tools, callable from your next message on:
    - desk__list_tickets
    - mail__send_mail: Send a mail to a person.
    ");
}

#[test]
fn already_visible() {
    let mut run = session(6);
    find(&mut run, json!({"names": ["create_ticket"]}));
    let reply = find(&mut run, json!({"names": ["desk/create_ticket"]}));
    assert_eq!(reply.status, FindStatus::AlreadyVisible);
    insta::assert_snapshot!(reply, @r"
    Already in your list, callable now:
    - desk__create_ticket: Open a ticket for a customer.
    ");
    assert!(!run.step().delta.new_epoch);
}

#[test]
fn ambiguous() {
    let mut run = session(6);
    let reply = find(&mut run, json!({"names": ["search"]}));
    assert_eq!(reply.status, FindStatus::Ambiguous);
    insta::assert_snapshot!(reply, @r"
    Loaded 2 tools, callable from your next message on:
    - mail__search: Search the mails of a mailbox.
    - files__search: Search the files of a folder.
    These fit alike; choose by their descriptions: mail__search, files__search.
    ");
}

#[test]
fn nothing_found_says_which_namespaces_exist() {
    let mut run = session(6);
    let reply = find(&mut run, json!({"intent": "qwertz asdfgh yxcvbn uiopl"}));
    assert_eq!(reply.status, FindStatus::NothingFound);
    insta::assert_snapshot!(reply, @r"
    No tool fits. Do not repeat this search; tools exist in: calendar, desk, files, mail.
    Ask in other words, or load one of these by name: mail__send_mail, mail__search, files__search, files__read_file, calendar__create_event, calendar__list_events, desk__create_ticket, desk__close_ticket, desk__list_tickets.
    ");
    // In a namespace that does not exist, too.
    let reply = find(&mut run, json!({"intent": "open a ticket", "namespace": "jira"}));
    assert_eq!(reply.status, FindStatus::NothingFound);
    insta::assert_snapshot!(reply, @r"
    No tool fits. Do not repeat this search; tools exist in: calendar, desk, files, mail.
    Ask in other words, or load one of these by name: mail__send_mail, mail__search, files__search, files__read_file, calendar__create_event, calendar__list_events, desk__create_ticket, desk__close_ticket, desk__list_tickets.
    ");
}

#[test]
fn nothing_left() {
    let mut run = session(10);
    let every: Vec<String> = tools().iter().map(|tool| tool.id().to_string()).collect();
    assert_eq!(find(&mut run, json!({"names": every})).loaded.len(), 9);
    let reply = find(&mut run, json!({"intent": "open a ticket for a customer", "limit": 1}));
    assert_eq!(reply.status, FindStatus::NothingLeft);
    insta::assert_snapshot!(reply, @r"
    Nothing is left to find: every tool that you may use is in your list already.
    Already in your list, callable now:
    - desk__create_ticket: Open a ticket for a customer.
    ");
    let reply = find(&mut run, json!({"intent": "qwertz asdfgh yxcvbn uiopl"}));
    assert_eq!(reply.status, FindStatus::NothingLeft);
    insta::assert_snapshot!(reply, @"Nothing is left to find: every tool that you may use is in your list already.");
    // The meta-tool stays: taking it out of the middle would cost the cached prefix.
    assert_eq!(names(&run)[0], "find_tool");

    // Where all is core there is nothing to find as long as the catalog stays as it is.
    let all = engine();
    let options = SessionOptions::default().limit(10).pass_through(0).core(every);
    let mut run = all.session(options).unwrap();
    assert!(run.visible().meta_tool().is_none() && run.notice().is_none());
    let before = names(&run);
    assert_eq!(before.len(), 9);
    all.refresh("more", Listing::from_tools([tool("desk/merge_tickets", "Merge.")])).unwrap();
    run.step();
    assert_eq!(names(&run), [before, vec!["find_tool".to_owned()]].concat());

    // A catalog that is shown whole has no meta-tool, but a model may call it all the same.
    let mut run = engine().session(SessionOptions::default()).unwrap();
    assert!(run.visible().meta_tool().is_none());
    let before = names(&run);
    let reply = find(&mut run, json!({"names": ["read_file"]}));
    assert_eq!(reply.status, FindStatus::NothingLeft);
    assert!(reply.loaded.is_empty() && reply.visible.len() == 1, "{reply}");
    assert_eq!(names(&run), before);
    assert!(!run.step().delta.changes_list());
}

#[test]
fn budget_full_loaded_and_not_loaded() {
    let mut run = session(2);
    let reply = find(&mut run, json!({"names": ["send_mail", "read_file", "create_event"]}));
    assert_eq!(reply.status, FindStatus::BudgetFull);
    insta::assert_snapshot!(reply, @r"
    Loaded 2 tools, callable from your next message on:
    - mail__send_mail: Send a mail to a person.
    - files__read_file: Read a file of a folder.
    Not loaded, because the list is full; finish with other tools first:
    - calendar__create_event: Create an event in a calendar.
    ");
    let mut run = session(1);
    find(&mut run, json!({"names": ["send_mail"]}));
    let reply = find(&mut run, json!({"intent": "open a ticket for a customer", "limit": 1}));
    insta::assert_snapshot!(reply, @r"
    Not loaded, because the list is full; finish with other tools first:
    - desk__create_ticket: Open a ticket for a customer.
    ");
    let options = SessionOptions::default().pass_through(0).token_budget(310);
    let mut run = engine().session(options).unwrap();
    let all = json!({"names": ["send_mail", "read_file", "create_event", "list_events", "create_ticket"]});
    let reply = find(&mut run, all);
    assert!(!reply.loaded.is_empty() && !reply.not_loaded.is_empty(), "{reply}");
    assert!(reply.text().contains(
        "Not loaded, because the token budget is used up; finish with other tools first:"
    ));
    assert!(run.visible().tokens().sent <= 310);
}

#[test]
fn repeated() {
    let mut run = session(6);
    let search = json!({"intent": "open a ticket for a customer", "limit": 1});
    find(&mut run, search.clone());
    let reply = find(&mut run, json!({"intent": " Open a TICKET for  a customer", "limit": 1}));
    assert_eq!(reply.status, FindStatus::Repeated);
    insta::assert_snapshot!(reply, @r"
    You made this search before; the result is the same.
    Already in your list, callable now:
    - desk__create_ticket: Open a ticket for a customer.
    ");
    let nothing = json!({"intent": "qwertz asdfgh yxcvbn uiopl"});
    find(&mut run, nothing.clone());
    let reply = find(&mut run, nothing.clone());
    assert_eq!(reply.status, FindStatus::Repeated);
    insta::assert_snapshot!(reply, @r"
    You made this search before; the result is the same.
    No tool fits. Do not repeat this search; tools exist in: calendar, desk, files, mail.
    Ask in other words, or load one of these by name: mail__send_mail, mail__search, files__search, files__read_file, calendar__create_event, calendar__list_events, desk__close_ticket, desk__list_tickets.
    ");
    // Loaded anew is news, and so is everything after a compaction.
    run.release("create_ticket").unwrap();
    assert_eq!(find(&mut run, search).status, FindStatus::Loaded);
    run.on_compaction();
    assert_eq!(find(&mut run, nothing).status, FindStatus::NothingFound);
}

#[test]
fn near_but_kept_out_by_its_risk() {
    let mut gate = Gate::default();
    gate.destructive = Some(1.0);
    let purge = Tool::builder("purge_ticket_archive")
        .namespace("desk")
        .description("Purge the archive of tickets.")
        .risk(Risk::Destructive);
    let all = tools().into_iter().chain([purge.build().unwrap()]);
    let catalog = Catalog::from_tools(all).unwrap();
    let engine = Engine::builder(catalog).gate(gate).build().unwrap();
    let mut run = engine.session(SessionOptions::default().limit(6).retrieve(0)).unwrap();
    let search = json!({"intent": "purge the archive of tickets", "limit": 1});
    let reply = find(&mut run, search.clone());
    assert!(
        reply.text().ends_with(
            "Near, but not loaded unless you give their names:\n\
         - desk__purge_ticket_archive: Purge the archive of tickets."
        ),
        "{reply}"
    );
    assert!(!run.visible().contains("desk__purge_ticket_archive"));
    // By name it is loaded, whatever its risk, and is then no longer kept out.
    let reply = find(&mut run, json!({"names": ["purge_ticket_archive"]}));
    assert_eq!(reply.status, FindStatus::Loaded);
    assert!(find(&mut run, search).near.is_empty());
}

#[test]
fn several_intents_take_turns() {
    let mut run = session(6);
    let reply = find(
        &mut run,
        json!({"intents": ["send a mail to a person", "open a ticket for a customer"], "limit": 2}),
    );
    let loaded: Vec<&str> = reply.loaded.iter().map(|found| found.id.name()).collect();
    assert_eq!(loaded, ["send_mail", "create_ticket"]);
    // One list under either name, one string in the plural, all at once.
    for arguments in [
        json!({"intent": ["send a mail to a person", "read a file of a folder"]}),
        json!({"intents": "send a mail to a person"}),
        json!({"query": "send a mail to a person"}),
        json!({"intent": "send a mail to a person", "intents": null, "names": []}),
    ] {
        let reply = find(&mut session(6), arguments);
        assert!(reply.loaded.iter().any(|found| found.name == "mail__send_mail"), "{reply}");
    }
}

#[test]
fn select_means_names() {
    for intent in [
        "select:read_file,create_event",
        "SELECT: read_file , create_event,",
        "  select:read_file,create_event",
    ] {
        let reply = find(&mut session(6), json!({"intent": intent}));
        let loaded: Vec<&str> = reply.loaded.iter().map(|found| found.id.name()).collect();
        assert_eq!(loaded, ["read_file", "create_event"], "{intent}");
    }
    assert_eq!(FindRequest::new("select:a,b").names, ["a", "b"]);
    // Beside a search.
    let reply = find(
        &mut session(6),
        json!({"intents": ["select:read_file", "send a mail to a person"], "limit": 1}),
    );
    assert_eq!(reply.loaded.len(), 2, "{reply}");
    // A word that only begins like it, and characters of several bytes at the edge.
    for intent in ["selection of a file to read", "select", "sélect:a", "日本語の法令"] {
        assert_eq!(FindRequest::new(intent).intents, [intent]);
    }
}

#[test]
fn names_by_id_by_name_and_by_unique_end() {
    for written in ["calendar/create_event", "calendar__create_event", "create_event", "event"] {
        let reply = find(&mut session(6), json!({"names": written}));
        assert_eq!(reply.loaded[0].name, "calendar__create_event", "{written}\n{reply}");
        assert_eq!(reply.status, FindStatus::Loaded);
    }
    let reply = find(&mut session(6), json!({"names": ["ticket"]}));
    assert_eq!((reply.status, reply.loaded.len()), (FindStatus::Ambiguous, 2), "{reply}");
    // The namespace decides between two of one name.
    let reply = find(&mut session(6), json!({"names": ["search"], "namespace": "files"}));
    assert_eq!(reply.loaded.len(), 1);
    assert_eq!(reply.status, FindStatus::Loaded);
    // An unknown name beside a known one is said to be unknown; alone it is searched for.
    let reply = find(&mut session(6), json!({"names": ["read_file", "brew_tea"]}));
    assert_eq!(reply.loaded.len(), 1);
    insta::assert_snapshot!(reply, @r"
    Loaded 1 tool, callable from your next message on:
    - files__read_file: Read a file of a folder.
    There is no tool called 'brew_tea'.
    ");
    let reply = find(&mut session(6), json!({"names": ["open_ticket"], "limit": 1}));
    assert_eq!(reply.loaded[0].name, "desk__create_ticket", "{reply}");
    assert_eq!(reply.unknown_names, ["open_ticket"]);
    // However many of them.
    let guesses: Vec<String> = (0..40).map(|n| format!("open_ticket_{n}")).collect();
    let reply = find(&mut session(6), json!({"names": guesses}));
    assert_eq!(reply.unknown_names.len(), 40);
    // And however long.
    let reply = find(&mut session(6), json!({"names": ["x".repeat(100_000)]}));
    assert!(reply.text().len() < 1_000, "{}", reply.text().len());
}

#[test]
fn what_is_left_empty_is_left_out() {
    let intent = "open a ticket for a customer";
    let whole = find(&mut session(8), json!({"intent": intent}));
    for falsy in [
        json!({"intent": intent, "limit": 0}),
        json!({"intent": intent, "limit": null}),
        json!({"intent": intent, "limit": ""}),
        json!({"intent": intent, "limit": false}),
        json!({"intent": intent, "limit": "0"}),
        json!({"intent": intent, "limit": 0.4}),
        json!({"intent": intent, "namespace": "", "names": [""], "intents": [" "]}),
        json!({"intent": intent, "namespace": [], "names": "", "unknown": {"x": 1}}),
    ] {
        let reply = find(&mut session(8), falsy.clone());
        assert_eq!(reply.loaded, whole.loaded, "{falsy}");
        assert!(reply.unknown_names.is_empty(), "{falsy}");
    }
    for (limit, loaded) in [(json!(1), 1), (json!("2"), 2), (json!(1.9), 1)] {
        let reply =
            find(&mut session(8), json!({"intent": "a ticket of a customer", "limit": limit}));
        assert!(reply.loaded.len() <= loaded, "{limit}: {reply}");
    }
    let reply = find(&mut session(8), json!({"intent": intent, "limit": 1e300}));
    assert!(reply.loaded.len() <= 8);
}

#[test]
fn bad_arguments_are_answered_with_what_to_do() {
    let mut run = session(6);
    let mut lines = Vec::new();
    for arguments in [
        json!(null),
        json!("open a ticket"),
        json!([]),
        json!({}),
        json!({"intent": ""}),
        json!({"intent": "   ", "names": []}),
        json!({"intent": 5}),
        json!({"intent": {"text": "x"}}),
        json!({"intents": ["a", 1]}),
        json!({"names": [null]}),
        json!({"intent": "a", "limit": -1}),
        json!({"intent": "a", "limit": "many"}),
        json!({"intent": "a", "limit": "NaN"}),
        json!({"intent": "a", "limit": true}),
        json!({"intent": "a", "limit": [1]}),
        json!({"intent": "a", "namespace": 7}),
        json!({"intent": "a", "namespace": ["mail", "files"]}),
        json!({"intents": vec!["a"; 17]}),
        json!({"names": vec!["a"; 51]}),
    ] {
        match run.authorize(&Call::new("find_tool", arguments.clone())).unwrap() {
            Verdict::Refused(refusal) => {
                assert_eq!(refusal.kind, RefusalKind::BadArguments);
                lines.push(format!(
                    "{}: {refusal}",
                    arguments.to_string().chars().take(40).collect::<String>()
                ));
            }
            other => panic!("{arguments}: {other:?}"),
        }
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    null: find_tool was not understood: give an object such as {"intent": "send an e-mail"}.
    "open a ticket": find_tool was not understood: give an object such as {"intent": "send an e-mail"}.
    []: find_tool was not understood: give an object such as {"intent": "send an e-mail"}.
    {}: find_tool was not understood: say in 'intent' what you want to do, or give 'names' of tools.
    {"intent":""}: find_tool was not understood: say in 'intent' what you want to do, or give 'names' of tools.
    {"intent":"   ","names":[]}: find_tool was not understood: say in 'intent' what you want to do, or give 'names' of tools.
    {"intent":5}: find_tool was not understood: 'intent' has to be a string.
    {"intent":{"text":"x"}}: find_tool was not understood: 'intent' has to be a string.
    {"intents":["a",1]}: find_tool was not understood: 'intents' has to hold strings only.
    {"names":[null]}: find_tool was not understood: 'names' has to hold strings only.
    {"intent":"a","limit":-1}: find_tool was not understood: 'limit' has to be a whole number.
    {"intent":"a","limit":"many"}: find_tool was not understood: 'limit' has to be a whole number.
    {"intent":"a","limit":"NaN"}: find_tool was not understood: 'limit' has to be a whole number.
    {"intent":"a","limit":true}: find_tool was not understood: 'limit' has to be a whole number.
    {"intent":"a","limit":[1]}: find_tool was not understood: 'limit' has to be a whole number.
    {"intent":"a","namespace":7}: find_tool was not understood: 'namespace' has to be a string.
    {"intent":"a","namespace":["mail","files: find_tool was not understood: give one 'namespace', or none to search them all.
    {"intents":["a","a","a","a","a","a","a",: find_tool was not understood: give at most 16 intents in one call.
    {"names":["a","a","a","a","a","a","a","a: find_tool was not understood: give at most 50 names in one call.
    "#);
    assert_eq!(names(&run), ["find_tool"]);
}

#[test]
fn a_degraded_search_says_so() {
    let model = Words::new("words/1", 32);
    let engine = Engine::builder(Catalog::from_tools(tools()).unwrap())
        .embedder(model.clone())
        .build()
        .unwrap();
    model.set(Mood::Down);
    let mut run = engine.session(SessionOptions::default().limit(4)).unwrap();
    let reply = find(&mut run, json!({"intent": "open a ticket for a customer", "limit": 1}));
    insta::assert_snapshot!(wording(&reply), @r"
    Loaded 1 tool, callable from your next message on (1 of N that fit):
    - desk__create_ticket: Open a ticket for a customer.
    The search went by words alone; other words may find more.
    ");
}

#[test]
fn the_reply_as_data_says_the_same() {
    let mut run = session(2);
    let reply = find(&mut run, json!({"names": ["send_mail", "read_file", "create_event", "tea"]}));
    // Sorted, since a crate of the same build may make serde_json keep the fields' own order.
    let sorted: std::collections::BTreeMap<String, serde_json::Value> =
        serde_json::from_value(reply.json()).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&sorted).unwrap(), @r#"
    {
      "ambiguous": [],
      "available": [],
      "crowded": [],
      "definitions": [],
      "degraded": null,
      "loaded": [
        {
          "id": "mail/send_mail",
          "name": "mail__send_mail",
          "summary": "Send a mail to a person."
        },
        {
          "id": "files/read_file",
          "name": "files__read_file",
          "summary": "Read a file of a folder."
        }
      ],
      "n_available": 0,
      "n_namespaces": 0,
      "namespaces": [],
      "near": [],
      "not_loaded": [
        [
          {
            "id": "calendar/create_event",
            "name": "calendar__create_event",
            "summary": "Create an event in a calendar."
          },
          "tool-limit"
        ]
      ],
      "shown": 3,
      "status": "budget-full",
      "total": 3,
      "unknown_names": [
        "tea"
      ],
      "visible": []
    }
    "#);
    assert_eq!(serde_json::from_value::<FindReply>(reply.json()).unwrap(), reply);
    // Never the schemas again: they travel in the list.
    assert!(!reply.json().to_string().contains("properties"));
}

#[test]
fn another_name_of_the_meta_tool_is_used_throughout() {
    let options = SessionOptions::default().limit(4).meta_tool("discover");
    let mut run = engine().session(options).unwrap();
    assert_eq!(names(&run), ["discover"]);
    let call = |name: &str| Call::new(name, json!({"intent": "open a ticket"}));
    assert!(matches!(run.authorize(&call("discover")).unwrap(), Verdict::MetaTool(_)));
    match run.authorize(&call("find_tool")).unwrap() {
        Verdict::Refused(refusal) => {
            assert_eq!(refusal.kind, RefusalKind::Unknown);
            assert!(
                refusal.text().ends_with("Use discover to look for what you need."),
                "{refusal}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_search_finds_only_what_the_caller_may_use() {
    let context = RuntimeContext::default().approve_namespaces(["mail", "files"]);
    let options = SessionOptions::default().limit(3).pass_through(0).context(context);
    let mut run = engine().session(options).unwrap();
    let reply = find(
        &mut run,
        json!({"intents": ["open a ticket for a customer", "create an event"], "names": ["create_ticket"]}),
    );
    assert_eq!(reply.unknown_names, ["create_ticket"]);
    let text = format!("{reply}{}", reply.json());
    assert!(!text.contains("desk") && !text.contains("calendar"), "{text}");
}

proptest! {
    #[test]
    fn any_arguments_are_understood_or_refused(
        intent in prop::option::of(".{0,20}"),
        names in prop::collection::vec(".{0,10}", 0..4),
        limit in any::<Option<i32>>(),
        namespace in prop::option::of("mail|files|.{0,4}"),
    ) {
        let mut run = session(4);
        let arguments = json!({"intent": intent, "names": names, "limit": limit, "namespace": namespace});
        if let Verdict::MetaTool(request) = run.authorize(&Call::new("find_tool", arguments)).unwrap() {
            let reply = run.find_tool(&request).unwrap();
            prop_assert!(reply.shown <= reply.total);
            prop_assert!(!reply.text().is_empty());
            prop_assert!(run.visible().tools().len() <= 4);
            for found in &reply.loaded {
                prop_assert!(run.visible().contains(&found.name));
            }
            for (found, _) in &reply.not_loaded {
                prop_assert!(!run.visible().contains(&found.name));
            }
        }
    }
}

#[test]
fn a_reply_lists_only_so_many_namespaces_and_says_how_many_there_are() {
    let tools = (0..500).map(|n| tool(&format!("area_{n:03}/work"), "Do some work."));
    let engine = Engine::builder(Catalog::from_tools(tools).unwrap()).build().unwrap();
    let mut run = engine.session(SessionOptions::default().limit(4).retrieve(0)).unwrap();
    let reply = find(&mut run, json!({"intent": "xyzzy plugh"}));
    assert_eq!(reply.status, FindStatus::NothingFound);
    assert_eq!((reply.namespaces.len(), reply.n_namespaces), (30, 500));
    let text = reply.text();
    assert!(text.contains("; tools exist in (30 of 500): area_000, area_001,"), "{text}");
    assert!(text.len() < 1_500, "{} bytes", text.len());
}
