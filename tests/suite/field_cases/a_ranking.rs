//! Group A: what comes first, what does not come at all.

use serde_json::json;
use toolrack::{
    Catalog, DEFAULT_K, FindRequest, FindStatus, Message, Outcome, SelectRequest, SessionOptions,
    Tool, TurnInput,
};

use crate::fixtures::{both, catalog, ids, many, names, tool};

/// Case 1, openai/codex#21503: many exact names in one query; siblings that share most words must not
/// push a named tool out, not even past k.
#[test]
fn case_01_many_exact_names_in_one_query() {
    let catalog = catalog(&[
        ("crm/crm_list_accounts", "List the accounts of the CRM."),
        ("crm/crm_get_account", "Get one account of the CRM."),
        ("crm/crm_list_deals", "List the deals of the CRM."),
        ("crm/crm_get_deal", "Get one deal of the CRM."),
        ("crm/crm_list_notes", "List the notes on an account or a deal."),
        ("crm/crm_list_account_deals", "List the deals of one account of the CRM."),
        ("crm/crm_get_account_notes", "Get the notes on one account of the CRM."),
        ("crm/crm_list_deal_accounts", "List the accounts that take part in a deal."),
    ]);
    let query = "crm_list_accounts crm_get_account crm_list_deals crm_get_deal crm_list_notes";
    for (mode, engine) in both(&catalog) {
        for k in [0, 1, 3, 8] {
            let selection = engine.select(&SelectRequest::new(query).k(k)).unwrap();
            let first: Vec<String> = ids(&selection).into_iter().take(5).collect();
            let named: Vec<String> = query.split(' ').map(|name| format!("crm/{name}")).collect();
            assert_eq!(first, named, "{mode}, k {k}");
            assert!(selection.candidates[..5].iter().all(|candidate| candidate.is_named()));
            assert!(selection.candidates.len() <= 5 + k, "{mode}, k {k}");
            assert!(selection.total >= 5, "{mode}, k {k}");
        }
        // The meta-tool loads all that are named, whatever its limit.
        let options = SessionOptions::default().limit(6).pass_through(0);
        let mut run = engine.session(options).unwrap();
        let reply = run.find_tool(&FindRequest::new(query).limit(2)).unwrap();
        let loaded: Vec<&str> = reply.loaded.iter().map(|found| found.id.name()).collect();
        assert!(query.split(' ').all(|name| loaded.contains(&name)), "{mode}: {loaded:?}");
        assert!(reply.total >= reply.shown && reply.shown >= 5, "{mode}");
    }
}

/// Case 3, NousResearch/hermes-agent PR#98943 and nearai/ironclaw#7965: nothing fits, and one word in
/// common is no fit.
#[test]
fn case_03_nothing_fits_yet_hits_come_back() {
    let catalog = catalog(&[
        ("calendar/list_events", "List the events of a calendar in a span of time."),
        ("calendar/create_event", "Put an event into a calendar and invite people."),
        ("crm/find_contact", "Find a contact by name, company or telephone number."),
        ("crm/run_saved_search", "Execute a saved search over accounts and deals."),
        ("crm/country_lookup", "Country code lookup for telephone numbers."),
        ("desk/create_ticket", "Open a ticket for a customer."),
        ("desk/list_tickets", "List the tickets of a customer with their state."),
    ]);
    for (mode, engine) in both(&catalog) {
        let query = "run shell command execute code python";
        let selection = engine.select(&SelectRequest::new(query)).unwrap();
        assert_eq!(selection.outcome, Outcome::NoMatch, "{mode}\n{selection}");
        assert!(selection.candidates.is_empty(), "{mode}");

        let mut run = engine.session(SessionOptions::default().limit(3)).unwrap();
        let reply = run.find_tool(&FindRequest::new(query)).unwrap();
        assert_eq!(reply.status, FindStatus::NothingFound, "{mode}");
        assert_eq!(reply.namespaces, ["calendar", "crm", "desk"], "{mode}");
        assert!(reply.text().starts_with("No tool fits."), "{mode}: {reply}");
        assert_eq!(names(&run), ["find_tool"], "{mode}");
    }
}

/// Case 4, serac-labs/serac#298 and PR#309: "the" is inside "theme", and must not count.
#[test]
fn case_04_substring_inside_a_word() {
    let catalog = catalog(&[
        ("snow/snow_sp_theme_manage", "Manage the themes of the service portal."),
        ("snow/snow_incident_query", "Query incidents by state, group and priority."),
        ("snow/snow_user_lookup", "Look up a user of the instance."),
    ]);
    for (mode, engine) in both(&catalog) {
        let selection = engine.select(&SelectRequest::new("show the open incidents")).unwrap();
        assert_eq!(ids(&selection)[0], "snow/snow_incident_query", "{mode}\n{selection}");
        let words = engine.select(&SelectRequest::new("the of and to")).unwrap();
        assert!(
            words
                .candidates
                .iter()
                .chain(words.rejected.iter().map(|(near, _)| near))
                .all(|candidate| candidate.bm25.get() == 0.0),
            "{mode}\n{words}"
        );
    }
}

/// Case 6, BerriAI/litellm#33440: k too small among siblings; the generator was at rank 6 to 9 behind
/// tools that only read images.
#[test]
fn case_06_k_too_small_among_siblings() {
    let images = [
        ("media/generate_image", "Generate a new image from a prompt, in a style you choose."),
        ("media/get_image", "Get an image of the library by its id."),
        ("media/view_image", "View an image of the library in the conversation."),
        ("media/edit_image", "Edit an image: crop, rotate, adjust colours."),
        ("media/list_images", "List the images of the library."),
        ("media/delete_image", "Delete an image from the library."),
        ("media/image_info", "Show size, format and date of an image."),
    ];
    let mut tools = many(106);
    tools.extend(images.map(|(id, description)| tool(id, description)));
    let catalog = Catalog::from_tools(tools).unwrap();
    let engine = both(&catalog).into_iter().next().unwrap().1;
    let request = SelectRequest::new("make a picture of a red fox");
    assert_eq!(request.k, DEFAULT_K);
    let selection = engine.select(&request).unwrap();
    assert!(ids(&selection).contains(&"media/generate_image".to_owned()), "{selection}");
}

/// Case 6, second half: alike tools of which one changes something are for somebody to choose from.
#[test]
fn case_06_a_small_margin_is_ambiguous() {
    let tools = ["delete_note", "remove_note", "erase_note"].map(|name| {
        Tool::builder(name)
            .description("Delete a note for good.")
            .risk(toolrack::Risk::Destructive)
            .build()
            .unwrap()
    });
    let catalog = Catalog::from_tools(tools).unwrap();
    for (mode, engine) in both(&catalog) {
        let selection = engine.select(&SelectRequest::new("a note for good")).unwrap();
        match &selection.outcome {
            Outcome::Ambiguous(alike) => assert!(alike.len() >= 2, "{mode}: {alike:?}"),
            other => panic!("{mode}: {other:?}\n{selection}"),
        }
    }
}

fn arithmetic(calculator: toolrack::ToolBuilder) -> Catalog {
    let mut tools = vec![
        tool("github/github_create_issue", "Create an issue in a repository: title, body, labels."),
        tool("github/github_create_pr", "Create a pull request from a branch."),
        tool("math/unit_convert", "Convert a quantity from one unit to another."),
        tool("math/stats_summary", "Mean, median and deviation of a list of values."),
    ];
    tools.insert(2, calculator.namespace("math").build().unwrap());
    Catalog::from_tools(tools).unwrap()
}

/// Case 7, portable-selector article: a sibling of the same domain must not win.
#[test]
fn case_07_sibling_in_the_same_domain() {
    let calculator = Tool::builder("calculator").description("Evaluate an arithmetic expression.");
    for (mode, engine) in both(&arithmetic(calculator)) {
        let selection =
            engine.select(&SelectRequest::new("open an issue for the login bug")).unwrap();
        assert_eq!(ids(&selection)[0], "github/github_create_issue", "{mode}\n{selection}");
    }
}

/// Case 7, second half: arithmetic without the word. Found by meaning; by words only through aliases
/// or examples, and otherwise not at all rather than by chance.
#[test]
fn case_07_arithmetic_without_the_word() {
    let query = SelectRequest::new("what is 340 divided by 12");
    let plain = || Tool::builder("calculator").description("Evaluate an arithmetic expression.");
    let [(_, embedded), (_, lexical)] = both(&arithmetic(plain()));
    let selection = embedded.select(&query).unwrap();
    assert_eq!(ids(&selection).first().map(String::as_str), Some("math/calculator"), "{selection}");
    let selection = lexical.select(&query).unwrap();
    assert_eq!(selection.outcome, Outcome::NoMatch, "{selection}");
    assert!(selection.candidates.is_empty() && selection.rejected.is_empty(), "{selection}");

    for helped in
        [plain().aliases(["divide numbers"]), plain().examples(["how much is 81 divided by 9?"])]
    {
        for (mode, engine) in both(&arithmetic(helped)) {
            let selection = engine.select(&query).unwrap();
            assert_eq!(ids(&selection)[0], "math/calculator", "{mode}\n{selection}");
        }
    }
}

/// A catalog of the tool whose schema alone says what it is for, among others.
fn nested_argument(schema: &serde_json::Value) -> Catalog {
    let update = Tool::builder("record_update").description("Update a record").parameters(schema);
    Catalog::from_tools([
        tool("default/list_files", "List the files of a folder."),
        tool("default/record_delete", "Delete a record"),
        update.build().unwrap(),
        tool("default/send_mail", "Send a mail."),
    ])
    .unwrap()
}

/// Case 8, zonlabs/mcp-ts#101 and nearai/ironclaw#7166: the word is only in a nested argument, behind
/// every keyword that can hold a schema.
#[test]
fn case_08_word_only_in_a_nested_argument() {
    let due = json!({"type": "string", "description": "deadline of the task"});
    let holder = json!({"type": "object", "properties": {"due_date": due}});
    for schema in [
        json!({"properties": {"fields": {"type": "array", "items": holder}}}),
        json!({"properties": {"fields": {"anyOf": [{"type": "null"}, holder]}}}),
        json!({"properties": {"fields": {"oneOf": [holder, {"type": "string"}]}}}),
        json!({"properties": {"fields": {"allOf": [{"title": "Fields"}, holder]}}}),
        json!({"properties": {"fields": {"additionalProperties": holder}}}),
        json!({"properties": {"fields": {"$ref": "#/$defs/fields"}}, "$defs": {"fields": holder}}),
    ] {
        for (mode, engine) in both(&nested_argument(&schema)) {
            let selection = engine.select(&SelectRequest::new("change the deadline")).unwrap();
            assert_eq!(
                ids(&selection).first().map(String::as_str),
                Some("default/record_update"),
                "{mode} {schema}\n{selection}"
            );
        }
    }
}

/// Case 8, second half: a schema that refers to itself ends, and its words count like others.
#[test]
fn case_08_a_schema_that_refers_to_itself() {
    let schema = json!({
        "properties": {"fields": {"$ref": "#/$defs/node"}},
        "$defs": {"node": {"properties": {
            "due_date": {"type": "string", "description": "deadline of the task"},
            "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            "parent": {"$ref": "#"}
        }}}
    });
    for (mode, engine) in both(&nested_argument(&schema)) {
        let ranked = engine.rank("change the deadline", 4).unwrap();
        assert_eq!(ranked[0].id.name(), "record_update", "{mode}");
        assert!(ranked[0].bm25.get() > 0.0, "{mode}");
    }
    let [_, (_, lexical)] = both(&nested_argument(&schema));
    let selection = lexical.select(&SelectRequest::new("change the deadline")).unwrap();
    assert_eq!(ids(&selection), ["default/record_update"], "{selection}");
}

/// Case 10, stacklok/toolhive PR#6124 and netease wave-agent PR#1070: user text is terms, never query
/// syntax, and every odd input has a defined result.
#[test]
fn case_10_ordinary_word_treated_as_query_syntax() {
    let catalog = catalog(&[
        ("db/query_table", "Query rows of a table by a condition."),
        ("db/export_data", "Export data of a table to a file."),
        ("web/fetch_text", "Fetch the text of a page."),
    ]);
    for (mode, engine) in both(&catalog) {
        let request = SelectRequest::new("export the data to a table");
        assert_eq!(ids(&engine.select(&request).unwrap())[0], "db/export_data", "{mode}");
        for odd in [
            "title:export AND (data OR table",
            "\"export the data",
            "export-data",
            "export^2 data~1 +table -file",
            "export* data?",
            "[export TO data]",
            "data\0export",
            "EXPORT\u{200b} DATA",
        ] {
            let selection = engine.select(&SelectRequest::new(odd)).unwrap();
            assert_eq!(
                ids(&selection).first().map(String::as_str),
                Some("db/export_data"),
                "{mode} {odd:?}\n{selection}"
            );
        }
        let words = "wordless ".repeat(120_000);
        for odd in ["", "   ", "*", "+", "-", "\0", "()", "AND", "a-b", "\"", "\\", &words] {
            let selection = engine.select(&SelectRequest::new(odd)).unwrap();
            let short: String = odd.chars().take(20).collect();
            assert!(selection.candidates.len() <= 3, "{mode} {short:?}");
            if !odd.chars().any(char::is_alphanumeric) {
                assert_eq!(selection.outcome, Outcome::NoMatch, "{mode} {short:?}\n{selection}");
            }
        }
    }
}

/// Case 11, langchain-ai/langchain#40709 and aurelio-labs/semantic-router#302: the last message says
/// nothing by itself.
#[test]
fn case_11_follow_up_without_content() {
    let catalog = catalog(&[
        ("mail/draft_mail", "Draft a mail to a person."),
        ("mail/send_mail", "Send a mail that was drafted."),
        ("mail/search_mail", "Search the mails of a mailbox."),
        ("calendar/list_events", "List the events of a calendar."),
        ("calendar/create_event", "Create an event in a calendar."),
        ("files/read_file", "Read a file of a folder."),
        ("files/delete_file", "Delete a file of a folder."),
    ]);
    let said = [
        Message::user("draft a mail to Ana about the invoice"),
        Message::assistant("The draft is ready. Shall I send it?"),
    ];
    for (mode, engine) in both(&catalog) {
        let options = SessionOptions::default().limit(3).retrieve(2);
        // The runtime keeps the history.
        let mut run = engine.session(options.clone()).unwrap();
        let turn = run.turn(TurnInput::new("yes, do it").recent(said.clone())).unwrap();
        let selection = turn.selection.as_ref().unwrap();
        assert!(ids(selection)[0].starts_with("mail/"), "{mode}\n{selection}");

        // The session keeps it, and what is in the working set stays.
        let mut run = engine.session(options).unwrap();
        run.turn(said[0].text.as_str()).unwrap();
        let before = names(&run);
        assert!(before.iter().any(|name| name.starts_with("mail__")), "{mode}: {before:?}");
        run.note_reply(said[1].text.as_str());
        let turn = run.turn("yes, do it").unwrap();
        let selection = turn.selection.as_ref().unwrap();
        assert!(ids(selection)[0].starts_with("mail/"), "{mode}\n{selection}");
        let after = names(&run);
        assert_eq!(after[..before.len()], before[..], "{mode}: {}", turn.delta);

        // Without the history nothing is known, and nothing is guessed.
        let alone = engine.select(&SelectRequest::new("yes, do it")).unwrap();
        assert!(
            alone.candidates.iter().all(|candidate| candidate.bm25.get() == 0.0),
            "{mode}\n{alone}"
        );
    }
}
