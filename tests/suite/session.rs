//! One run from its opening to its stored state.

use serde_json::json;
use toolrack::trace::{Trace, TraceBuffer};
use toolrack::{
    AdmitReason, Call, Catalog, Engine, ErrorKind, EvictReason, FindRequest, FindStatus, Listing,
    Message, RefusalKind, Replay, Session, SessionOptions, SessionState, SourceUpdate, Tool,
    TurnInput, Verdict, openai,
};

use crate::fixtures::{allowed, engine, id, lexical, many, names, refused, tool};

fn run_over(n: usize, options: SessionOptions) -> Session {
    Engine::builder(Catalog::from_tools(many(n)).unwrap())
        .without_embedder()
        .build()
        .unwrap()
        .session(options)
        .unwrap()
}

fn refresh(engine: &Engine, tools: &[Tool]) {
    engine.refresh("catalog", Listing::from_tools(tools.iter().cloned())).unwrap();
}

#[test]
fn a_turn_retrieves_a_step_does_not() {
    let mut run =
        run_over(60, SessionOptions::default().limit(8).retrieve(3).core(["list_invoice_0"]));
    let turn = run.turn("archive the shipment").unwrap();
    assert_eq!(turn.visible.tools().len(), 4);
    assert_eq!(turn.delta.admitted.len(), 3);
    assert!(turn.delta.admitted.iter().all(|(_, why)| *why == AdmitReason::Retrieved));
    assert!(turn.selection.is_some());
    let step = run.step();
    assert!(step.selection.is_none() && !step.delta.changes_list());
    // What the meta-tool and an unseen call brought in is told with the next step.
    run.find_tool(&FindRequest::of_names(["list_playlist_30"])).unwrap();
    refused(&mut run, "get_playlist_31");
    let step = run.step();
    let admitted: Vec<(&str, AdmitReason)> =
        step.delta.admitted.iter().map(|(id, why)| (id.name(), *why)).collect();
    assert_eq!(
        admitted,
        [("list_playlist_30", AdmitReason::Found), ("get_playlist_31", AdmitReason::Called)]
    );
}

#[test]
fn explaining_a_turn() {
    let engine = lexical(&[
        ("mail/send_mail", "Send a mail."),
        ("files/read_file", "Read a file."),
        ("files/list_files", "List the files of a folder."),
    ]);
    let mut run = engine.session(SessionOptions::default().core(["read_file"]).limit(2)).unwrap();
    let turn = run.turn("send_mail now").unwrap();
    let text = turn.explain();
    assert!(text.contains("files__read_file") && text.contains("core"), "{text}");
    assert!(text.contains("new, fits: named, meaning unknown, words "), "{text}");
    assert_eq!(text, turn.to_string());
}

#[test]
fn calls_by_every_exact_name_run_and_by_an_end_do_not() {
    let engine = engine(&[
        ("crm/delete_account", "Delete an account."),
        ("crm/list_deals", "List deals."),
        ("default/account_report", "Report on accounts."),
    ]);
    let mut run = engine.session(SessionOptions::default()).unwrap();
    for name in ["crm__delete_account", "delete_account", "crm/delete_account"] {
        assert_eq!(allowed(&mut run, name).id(), &id("crm/delete_account"));
    }
    // The end of one name is good enough to find it, not to run it.
    for name in ["account", "deals", "report"] {
        let refusal = refused(&mut run, name);
        assert_eq!(refusal.kind, RefusalKind::Unknown, "{name}: {refusal}");
    }
    for name in ["", " ", "\0", "crm__", "/", "crm__delete_account ", "CRM__DELETE_ACCOUNT"] {
        assert_eq!(refused(&mut run, name).kind, RefusalKind::Unknown, "{name:?}");
    }
    let long = "x".repeat(1_000_000);
    assert!(refused(&mut run, &long).text().len() < 1_000);
}

#[test]
fn refusals_have_their_words() {
    let engine = engine(&[
        ("docs/search", "Search the documentation."),
        ("tickets/search", "Search tickets."),
        ("tickets/open", "Open a ticket.\nWith care."),
        ("tickets/close", "Close a ticket."),
    ]);
    let mut run = engine.session(SessionOptions::default().limit(2)).unwrap();
    let messages = [
        refused(&mut run, "search"),
        refused(&mut run, "tickets__open"),
        refused(&mut run, "qqqq\n\"'"),
        refused(&mut run, "tickets__opne"),
    ];
    let text: Vec<String> =
        messages.iter().map(|refusal| format!("{:?}: {refusal}", refusal.kind)).collect();
    insta::assert_snapshot!(text[..3].join("\n"), @r#"
    Ambiguous: 'search' stands for several tools; call one of: docs__search, tickets__search.
    NotLoaded: tickets__open did not run, because you had not been shown its definition and guessed the arguments. It is in your list from your next message on. Call it again with arguments that fit: {"name":"tickets__open","description":"Open a ticket.\nWith care.","parameters":{}}
    Unknown: There is no tool called 'qqqq\n\"\''. Use find_tool to look for what you need.
    "#);
    assert!(text[3].starts_with("Unknown: There is no tool called 'tickets__opne'."));
    // Told once, the next call may run, also when there was no room in the list.
    allowed(&mut run, "tickets__open");
}

/// A model that guesses twice in one answer, and one that calls what `find_tool` has just loaded
/// without having been sent the list.
#[test]
fn what_the_model_was_not_sent_does_not_run() {
    let mut run = run_over(30, SessionOptions::default().limit(4).retrieve(0));
    for _ in 0..2 {
        assert_eq!(refused(&mut run, "get_invoice_1").kind, RefusalKind::NotLoaded);
    }
    run.find_tool(&FindRequest::of_names(["list_ticket_6"])).unwrap();
    assert_eq!(refused(&mut run, "list_ticket_6").kind, RefusalKind::NotLoaded);
    let sent = names(&run);
    assert_eq!(sent, ["find_tool", "area_1__get_invoice_1", "area_6__list_ticket_6"]);
    for name in &sent[1..] {
        allowed(&mut run, name);
    }
}

#[test]
fn a_called_tool_is_told_its_definition_even_when_there_is_no_room() {
    let mut run = run_over(30, SessionOptions::default().core(["list_invoice_0"]).limit(1));
    let refusal = refused(&mut run, "get_invoice_1");
    assert_eq!(refusal.kind, RefusalKind::NotLoaded);
    assert!(!refusal.text().contains("It is in your list"), "{refusal}");
    assert!(!run.visible().contains("area_1__get_invoice_1"));
    let used = allowed(&mut run, "get_invoice_1");
    run.record_use(&used);
    // The briefing is forgotten with the history.
    run.on_compaction();
    assert_eq!(refused(&mut run, "get_invoice_1").kind, RefusalKind::NotLoaded);
}

#[test]
fn a_tool_with_an_unanswered_call_is_held() {
    let options = SessionOptions::default().limit(2).retrieve(0).stale_after(0).pass_through(0);
    let mut run = run_over(30, options);
    run.find_tool(&FindRequest::of_names(["list_invoice_0", "get_invoice_1"])).unwrap();
    let waiting = allowed(&mut run, "list_invoice_0");
    for _ in 0..5 {
        run.step();
    }
    run.on_compaction();
    assert_eq!(names(&run), ["find_tool", "area_0__list_invoice_0"]);
    let reply = run.find_tool(&FindRequest::of_names(["list_ticket_6", "get_ticket_7"])).unwrap();
    assert_eq!((reply.loaded.len(), reply.not_loaded.len()), (1, 1));
    assert!(run.visible().contains("area_0__list_invoice_0"));
    run.abandon(&waiting);
    for _ in 0..3 {
        run.step();
    }
    assert_eq!(run.on_compaction().evicted.len(), 2);
}

#[test]
fn what_was_used_is_promoted_and_released_is_not_brought_back() {
    let mut run = run_over(30, SessionOptions::default().limit(3).retrieve(0));
    run.find_tool(&FindRequest::of_names(["list_invoice_0", "get_invoice_1", "create_invoice_2"]))
        .unwrap();
    let used = allowed(&mut run, "list_invoice_0");
    run.record_use(&used);
    let turn = run.step();
    assert_eq!(turn.delta.touched.len(), 1);
    run.step();
    run.find_tool(&FindRequest::of_names(["list_ticket_6"])).unwrap();
    assert!(run.visible().contains("area_0__list_invoice_0"), "used last, so not the least recent");
    let used = allowed(&mut run, "list_invoice_0");
    run.record_use(&used);
    let delta = run.release("list_invoice_0").unwrap();
    assert_eq!(delta.evicted, [(id("area_0/list_invoice_0"), EvictReason::Released)]);
    assert!(!run.step().visible.contains("area_0__list_invoice_0"));
}

#[test]
fn passing_through_is_decided_once() {
    let tools = many(10);
    let engine = Engine::builder(Catalog::from_tools(tools.clone()).unwrap()).build().unwrap();
    let options = SessionOptions::default().limit(10).core(["export_invoice_5"]);
    let mut run = engine.session(options.clone()).unwrap();
    assert!(run.is_pass_through() && run.visible().meta_tool().is_none());
    assert_eq!(names(&run)[0], "area_5__export_invoice_5");
    assert_eq!(names(&run).len(), 10);
    let turn = run.turn("archive the shipment").unwrap();
    assert!(turn.selection.is_none() && !turn.delta.changes_list());
    // Using, pinning, finding, stale tools: nothing moves.
    let used = allowed(&mut run, "area_1__get_invoice_1");
    run.record_use(&used);
    run.pin("area_2/create_invoice_2").unwrap();
    run.find_tool(&FindRequest::of_names(["list_ticket_6"])).unwrap();
    for _ in 0..9 {
        assert!(!run.step().delta.changes_list());
    }
    assert!(run.release("area_1/get_invoice_1").unwrap().evicted.is_empty());
    let delta = run.on_compaction();
    assert!(delta.evicted.is_empty() && delta.new_epoch);
    assert_eq!(names(&run).len(), 10);

    // Small as another catalog may become: a run that began with a working set goes on with it.
    let mut other = engine.session(options.clone().limit(5)).unwrap();
    assert!(!other.is_pass_through());
    refresh(&engine, &tools[..6]);
    let turn = run.step();
    assert_eq!(turn.delta.evicted.len(), 4);
    assert!(
        turn.delta.evicted.iter().all(|(_, why)| *why == EvictReason::Gone) && turn.delta.new_epoch
    );
    refresh(&engine, &tools[..8]);
    let turn = run.step();
    assert_eq!(
        turn.delta.admitted.iter().map(|(_, why)| *why).collect::<Vec<_>>(),
        [AdmitReason::Listed; 2]
    );
    assert!(!turn.delta.new_epoch, "new tools come last");
    refresh(&engine, &tools[5..7]);
    other.step();
    assert!(!other.is_pass_through() && other.visible().meta_tool().is_some());
    // Where only core is left there is nothing to find.
    refresh(&engine, &tools[5..6]);
    other.step();
    assert!(!other.is_pass_through() && other.visible().meta_tool().is_none());
}

#[test]
fn a_catalog_that_outgrows_its_limits_is_shown_whole_no_longer() {
    // A service that starts before its sources answered.
    let engine = Engine::builder(Catalog::empty()).build().unwrap();
    let options = SessionOptions::default().limit(6).retrieve(2);
    let mut run = engine.session(options.clone()).unwrap();
    assert!(run.is_pass_through() && names(&run).is_empty());
    refresh(&engine, &many(4));
    assert_eq!(run.step().visible.tools().len(), 4);
    let used = allowed(&mut run, "area_1__get_invoice_1");
    run.record_use(&used);
    run.step();
    let state = run.to_state();

    refresh(&engine, &many(500));
    let turn = run.turn("archive the shipment").unwrap();
    assert!(!run.is_pass_through());
    assert!(
        turn.visible.tools().len() <= 6 && turn.visible.meta_tool().is_some(),
        "{}",
        turn.visible
    );
    assert!(turn.delta.new_epoch);
    // What was used stays, and what went is told.
    assert!(turn.visible.contains("area_1__get_invoice_1"));
    let outgrown: Vec<&str> = turn
        .delta
        .evicted
        .iter()
        .map(|(id, why)| {
            assert_eq!(*why, EvictReason::Outgrown);
            id.name()
        })
        .collect();
    assert_eq!(outgrown, ["list_invoice_0", "create_invoice_2", "update_invoice_3"]);
    // For good.
    refresh(&engine, &many(4));
    run.step();
    assert!(!run.is_pass_through());
    // A run stored before wakes up in the large catalog.
    refresh(&engine, &many(500));
    let (again, _) = engine.restore(options, state).unwrap();
    assert!(!again.is_pass_through() && again.visible().tools().len() <= 6);
}

#[test]
fn a_budget_decides_as_well_whether_all_is_shown() {
    let engine = Engine::builder(Catalog::from_tools(many(10)).unwrap()).build().unwrap();
    let whole = engine.session(SessionOptions::default()).unwrap().visible().tokens();
    assert_eq!((whole.sent, whole.saved()), (whole.naive, 0));
    assert!(
        engine
            .session(SessionOptions::default().token_budget(whole.naive))
            .unwrap()
            .is_pass_through()
    );
    let run = engine.session(SessionOptions::default().token_budget(whole.naive - 1)).unwrap();
    assert!(!run.is_pass_through());
    assert_eq!(run.visible().tokens().naive, whole.naive);
    assert!(!engine.session(SessionOptions::default().pass_through(9)).unwrap().is_pass_through());
    assert!(
        engine
            .session(SessionOptions::default().limit(1).pass_through(10))
            .unwrap()
            .is_pass_through()
    );
}

#[test]
fn a_state_goes_on_in_another_process() {
    let tools = many(40);
    let engine = Engine::builder(Catalog::from_tools(tools.clone()).unwrap()).build().unwrap();
    let options = SessionOptions::default()
        .core(["list_invoice_0"])
        .pinned(["get_invoice_1"])
        .limit(9)
        .retrieve(2);
    let mut run = engine.session(options.clone()).unwrap();
    run.turn("archive the shipment").unwrap();
    run.note_reply("Shall I archive shipment 16?");
    run.find_tool(&FindRequest::new("export a playlist").limit(1)).unwrap();
    run.unpin("get_invoice_1").unwrap();
    run.pin("list_contact_12").unwrap();
    let waiting = allowed(&mut run, "area_1__get_invoice_1");
    let list = openai::tools(run.visible()).json();
    let stored = serde_json::to_string(&run.to_state()).unwrap();

    // The same bytes, the same searches, the same open call; pins as they were left.
    let (mut again, report) =
        engine.restore(options.clone(), serde_json::from_str(&stored).unwrap()).unwrap();
    assert!(report.left_out.is_empty() && report.stored_version == report.current_version);
    assert_eq!(openai::tools(again.visible()).json(), list);
    assert_eq!(serde_json::to_string(&again.to_state()).unwrap(), stored);
    let reply = again.find_tool(&FindRequest::new("export a playlist").limit(1)).unwrap();
    assert_eq!(reply.status, FindStatus::Repeated);
    assert_eq!(
        again.working_set().pinned().map(toolrack::ToolId::name).collect::<Vec<_>>(),
        ["list_contact_12"]
    );
    let selection = again.turn("yes, do it").unwrap().selection.unwrap();
    assert!(selection.best().unwrap().id.name().starts_with("archive_shipment"), "{selection}");
    again.record_use(&waiting);

    // A newer catalog without some of the tools: the rest is restored, the loss reported.
    let gone = ["area_0/list_invoice_0", "area_1/get_invoice_1", "area_2/list_contact_12"];
    let left: Vec<Tool> = tools
        .iter()
        .filter(|tool| !gone.contains(&tool.id().to_string().as_str()))
        .cloned()
        .collect();
    refresh(&engine, &left);
    let (mut again, report) =
        engine.restore(options.clone(), serde_json::from_str(&stored).unwrap()).unwrap();
    let mut lost: Vec<String> = report.left_out.iter().map(ToString::to_string).collect();
    lost.sort();
    assert_eq!(lost, gone[1..]);
    assert_eq!(report.missing_core, ["list_invoice_0"]);
    assert_eq!((report.stored_version, report.current_version), (1, 2));
    assert!(names(&again).iter().all(|name| !gone.contains(&name.replace("__", "/").as_str())));
    // The core tool comes back by itself, first as it was.
    refresh(&engine, &tools);
    let turn = again.step();
    assert_eq!(turn.visible.names().next(), Some("area_0__list_invoice_0"));
    assert!(turn.delta.admitted.contains(&(id("area_0/list_invoice_0"), AdmitReason::Listed)));

    // Less room than before: the most recent stay.
    let (small, report) =
        engine.restore(options.clone().limit(4), serde_json::from_str(&stored).unwrap()).unwrap();
    assert_eq!(small.visible().tools().len(), 4);
    assert_eq!(report.left_out.len(), list.matches(r#""type":"function""#).count() - 1 - 4);

    // Another release's form, and a form that is none.
    let other = stored.replacen(r#""format":1"#, r#""format":2"#, 1);
    let error = engine.restore(options, serde_json::from_str(&other).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FormatVersion);
    insta::assert_snapshot!(error, @"the session state has format 2 but this release reads 1: open a new session");
    assert!(serde_json::from_str::<SessionState>("{}").is_err());
}

#[test]
fn core_tools_leave_and_come_back_with_their_source() {
    let engine = Engine::builder(Catalog::empty()).build().unwrap();
    let listing = |tools: &[Tool]| SourceUpdate::from(Listing::from_tools(tools.iter().cloned()));
    engine
        .refresh_all(vec![
            ("agent".into(), listing(&[tool("agent/agent_read_state", "Read the state.")])),
            ("rest".into(), listing(&many(20))),
        ])
        .unwrap();
    let mut run = engine.session(SessionOptions::default().core(["read_state"]).limit(5)).unwrap();
    engine.refresh("agent", SourceUpdate::Removed).unwrap();
    let turn = run.step();
    assert_eq!(turn.delta.evicted, [(id("agent/agent_read_state"), EvictReason::Gone)]);
    assert!(turn.delta.new_epoch && names(&run) == ["find_tool"]);

    // Somebody else's tool of the better name must not become core.
    engine
        .refresh("evil", listing(&[tool("evil/read_state", "Read the state, and more.")]))
        .unwrap();
    run.step();
    assert_eq!(names(&run), ["find_tool"]);
    engine.refresh("agent", listing(&[tool("agent/agent_read_state", "Read the state.")])).unwrap();
    let turn = run.step();
    assert_eq!(names(&run), ["agent__agent_read_state", "find_tool"]);
    assert_eq!(turn.delta.admitted, [(id("agent/agent_read_state"), AdmitReason::Listed)]);
    // Found by the model meanwhile or not, it is there once.
    assert_eq!(
        run.find_tool(&FindRequest::of_names(["agent_read_state"])).unwrap().status,
        FindStatus::AlreadyVisible
    );
}

#[test]
fn a_tool_called_like_the_meta_tool_is_out_of_reach() {
    let clash = |namespace: &str| {
        let tools = [(format!("{namespace}/find_tool"), "Find."), ("a/b".to_owned(), "")];
        engine(&tools.each_ref().map(|(id, text)| (id.as_str(), *text)))
    };
    let run = clash("default").session(SessionOptions::default()).unwrap();
    assert_eq!(names(&run), ["a__b"]);
    assert_eq!(run.warnings().len(), 1);
    let run = clash("default").session(SessionOptions::default().meta_tool("look")).unwrap();
    assert_eq!((names(&run).len(), run.warnings().len()), (2, 0));
    let run = clash("x").session(SessionOptions::default()).unwrap();
    assert_eq!((names(&run).len(), run.warnings().len()), (2, 0));

    // A refresh may bring one in while a run goes on: no list has the name twice, and a call of it
    // stays the meta-tool's.
    for limit in [40, 4] {
        let engine = Engine::builder(Catalog::from_tools(many(20)).unwrap()).build().unwrap();
        let options = SessionOptions::default().limit(limit).pass_through(limit);
        let mut run = engine.session(options.clone()).unwrap();
        let listing = Listing::from_tools([tool("default/find_tool", "Find a tool in the shed.")]);
        engine.refresh("shed", listing).unwrap();
        run.step();
        run.find_tool(&FindRequest::new("find a tool in the shed")).unwrap();
        let shown = names(&run);
        assert!(shown.iter().filter(|name| *name == "find_tool").count() <= 1, "{shown:?}");
        assert_eq!(refused(&mut run, "default/find_tool").kind, RefusalKind::Unknown);
        let call = Call::new("find_tool", json!({"intent": "x"}));
        assert!(matches!(run.authorize(&call).unwrap(), Verdict::MetaTool(_)));
        let (again, _) = engine.restore(options, run.to_state()).unwrap();
        assert_eq!(names(&again), shown);
    }
}

#[test]
fn a_name_means_what_it_meant_in_the_list() {
    // `a/b__c` and `a__b/c` want the same provider name; the first has it.
    let (first, second) = (tool("a/b__c", "First."), tool("a__b/c", "Second."));
    let engine =
        Engine::builder(Catalog::from_tools([first, second.clone()]).unwrap()).build().unwrap();
    let mut run = engine.session(SessionOptions::default()).unwrap();
    assert_eq!(allowed(&mut run, "a__b__c").id(), &id("a/b__c"));
    // It goes, and the second one's name becomes the plain one. A call of it was meant for the first.
    refresh(&engine, &[second]);
    assert_eq!(refused(&mut run, "a__b__c").kind, RefusalKind::Unknown);
    run.step();
    assert_eq!(allowed(&mut run, "a__b__c").id(), &id("a__b/c"));
}

#[test]
fn a_tool_of_a_newer_catalog_can_be_called_before_the_next_step() {
    let engine = Engine::builder(Catalog::from_tools(many(20)).unwrap()).build().unwrap();
    let mut run = engine.session(SessionOptions::default().limit(4)).unwrap();
    let mut tools = many(20);
    tools.push(tool("new/brew_tea", "Brew tea."));
    refresh(&engine, &tools);
    let refusal = refused(&mut run, "new__brew_tea");
    assert_eq!(refusal.kind, RefusalKind::NotLoaded);
    assert!(
        refusal.text().contains("Brew tea.") && !refusal.text().contains("in your list"),
        "{refusal}"
    );
    allowed(&mut run, "new__brew_tea");
    assert!(run.step().visible.contains("new__brew_tea"));
}

#[test]
fn the_messages_that_a_run_remembers_are_bounded() {
    let mut run = run_over(30, SessionOptions::default().limit(4));
    for n in 0..40 {
        run.turn(format!("{n} {}", "é".repeat(50_000))).unwrap();
        run.note_reply("ü".repeat(50_000));
        run.find_tool(&FindRequest::new(format!("{n} {}", "ß".repeat(50_000)))).unwrap();
    }
    let stored = serde_json::to_string(&run.to_state()).unwrap();
    assert!(stored.len() < 100_000, "{}", stored.len());
    // A history that the runtime gives is used once and not kept.
    run.turn(TurnInput::new("yes").recent([Message::user("only here")])).unwrap();
    assert!(!serde_json::to_string(&run.to_state()).unwrap().contains("only here"));
}

/// The parameters of a tool change while the model writes a call by the old ones.
#[test]
fn arguments_for_a_schema_of_the_past_do_not_run() {
    let open = |description: &str, parameters: &str| {
        let tool = Tool::builder("open").namespace("desk").description(description);
        tool.parameters_json(parameters).build().unwrap()
    };
    let v1 = open("Open.", r#"{"type":"object","properties":{"who":{"type":"string"}}}"#);
    // The same schema, written otherwise; another description.
    let same = open(
        "Open a ticket.",
        r#"{ "properties": {"who": {"type": "string"}}, "type": "object" }"#,
    );
    let v2 = open("Open.", r#"{"type":"object","properties":{"customer":{"type":"string"}}}"#);
    let v3 = open("Open.", r#"{"type":"object","properties":{"account":{"type":"string"}}}"#);
    for options in [
        SessionOptions::default().core(["open"]).limit(2).pass_through(0),
        // A catalog that is shown whole.
        SessionOptions::default(),
    ] {
        let all = |one: &Tool| -> Vec<Tool> { many(5).into_iter().chain([one.clone()]).collect() };
        let engine = Engine::builder(Catalog::from_tools(all(&v1)).unwrap()).build().unwrap();
        let trace = TraceBuffer::new();
        let mut run = engine.session(options).unwrap();
        run.trace_to(trace.clone());
        run.turn("open a ticket").unwrap();
        refresh(&engine, &all(&same));
        let ran = allowed(&mut run, "desk__open");
        run.record_use(&ran);
        refresh(&engine, &all(&v2));
        let refusal = refused(&mut run, "desk__open");
        assert_eq!(refusal.kind, RefusalKind::Changed);
        assert_eq!(
            refusal.text(),
            "desk__open did not run, because its parameters changed since you were shown them. Call \
             it again with arguments that fit: {\"name\":\"desk__open\",\"description\":\"Open.\",\
             \"parameters\":{\"type\":\"object\",\"properties\":{\"customer\":{\"type\":\"string\"}}}}"
        );
        // A trace may begin between the refusal and the call that follows it.
        let late = TraceBuffer::new();
        run.trace_to(late.clone());
        // Told once, it may run; changed again, it has to be told again.
        allowed(&mut run, "desk__open");
        refresh(&engine, &all(&v3));
        assert_eq!(refused(&mut run, "desk__open").kind, RefusalKind::Changed);
        // The next list has the schema of now.
        run.step();
        allowed(&mut run, "desk__open");

        for (trace, catalogs) in [(trace, [&v1, &same, &v2].as_slice()), (late, &[&v1, &v2, &v3])] {
            let again = Engine::builder(Catalog::from_tools(all(catalogs[0])).unwrap());
            let again = again.build().unwrap();
            let mut next = catalogs[1..].iter();
            let report = Replay::new(&again)
                .on_refresh(|_| {
                    refresh(&again, &all(next.next().unwrap()));
                    Ok(())
                })
                .run(&Trace::parse(&trace.text()))
                .unwrap();
            assert!(report.is_identical(), "{report}");
            let text = trace.text();
            assert!(text.contains(r#""verdict":"changed","tool":"desk/open""#), "{text}");
        }
    }
}

#[test]
fn what_was_unpinned_is_not_pinned_again_by_a_restore() {
    let options = SessionOptions::default().pinned(["get_invoice_1"]).limit(4).retrieve(0);
    let engine = Engine::builder(Catalog::from_tools(many(20)).unwrap()).build().unwrap();
    let mut run = engine.session(options.clone()).unwrap();
    run.pin("list_ticket_6").unwrap();
    run.unpin("get_invoice_1").unwrap();
    let stored = serde_json::to_string(&run.to_state()).unwrap();
    let (mut run, _) = engine.restore(options, serde_json::from_str(&stored).unwrap()).unwrap();
    let pinned = |run: &Session| -> Vec<String> {
        run.working_set().pinned().map(ToString::to_string).collect()
    };
    assert_eq!(pinned(&run), ["area_6/list_ticket_6"]);
    // Nor by a catalog that is listed anew or outgrown, and it leaves like any other tool.
    refresh(&engine, &many(30));
    run.step();
    run.release("get_invoice_1").unwrap();
    assert_eq!(names(&run), ["find_tool", "area_6__list_ticket_6"]);
    assert_eq!(pinned(&run), ["area_6/list_ticket_6"]);
}
