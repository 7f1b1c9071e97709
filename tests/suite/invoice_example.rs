//! The invoice-reconciliation example: what it finds, what it may call, what it prints.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use toolrack::{AdmitReason, Catalog, Engine, RefusalKind};

#[path = "../../examples/invoice_reconciliation/agent.rs"]
mod agent;
#[path = "../../examples/invoice_reconciliation/model.rs"]
mod model;
#[path = "../../examples/invoice_reconciliation/reconcile.rs"]
mod reconcile;
#[path = "../../examples/invoice_reconciliation/report.rs"]
mod report;
#[path = "../../examples/invoice_reconciliation/script.rs"]
mod script;
#[path = "../../examples/invoice_reconciliation/seen.rs"]
mod seen;
#[path = "../../examples/invoice_reconciliation/summary.rs"]
mod summary;
#[path = "../../examples/invoice_reconciliation/task.rs"]
mod task;
#[path = "../../examples/invoice_reconciliation/world.rs"]
mod world;

use agent::{Model, Outcome, Request, Step};
use model::HttpModel;
use report::Style;
use script::Script;
use summary::Totals;
use world::World;

const PLAIN: Style = Style { colour: false };

fn engine() -> Engine {
    let catalog = Catalog::parse(include_str!("../../examples/data/tools.json")).unwrap();
    Engine::builder(catalog).build().unwrap()
}

/// A whole run, as the example makes it.
struct Run {
    steps: Vec<Kept>,
    totals: Totals,
    world: World,
    printed: String,
}

/// What a test asks of a step.
struct Kept {
    message: usize,
    sent: BTreeSet<String>,
    admitted: Vec<(String, AdmitReason)>,
    evicted: Vec<String>,
    ran: Vec<String>,
}

fn sent(tools: &str) -> BTreeSet<String> {
    let tools: Vec<Value> = serde_json::from_str(tools).unwrap();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

fn run(model: &mut dyn Model, messages: &[&str], most_calls: usize) -> (Run, Result<()>) {
    let mut run = Run {
        steps: Vec::new(),
        totals: Totals::default(),
        world: World::new().unwrap(),
        printed: report::opening(206, 25, 10, "a model", PLAIN),
    };
    let (mut message, steps, totals, printed) =
        (0, &mut run.steps, &mut run.totals, &mut run.printed);
    let mut watch = |step: &Step| {
        message += usize::from(step.message.is_some());
        totals.add(step);
        *printed += &report::step(step, PLAIN);
        let ran = step.calls.iter().filter_map(|done| match &done.outcome {
            Outcome::Ran(id, _) => Some(id.to_string()),
            Outcome::Found(_) | Outcome::Refused(_) => None,
        });
        steps.push(Kept {
            message,
            sent: sent(&step.tools),
            admitted: step.delta.admitted.iter().map(|(id, why)| (id.to_string(), *why)).collect(),
            evicted: step.delta.evicted.iter().map(|(id, _)| id.to_string()).collect(),
            ran: ran.collect(),
        });
        Ok(())
    };
    let outcome = agent::run(
        &engine(),
        agent::options(),
        &mut run.world,
        model,
        (task::SYSTEM, messages),
        most_calls,
        &mut watch,
    );
    (run, outcome)
}

fn scripted() -> Run {
    let (run, outcome) = run(&mut Script, &task::MESSAGES, 60);
    outcome.unwrap();
    run
}

#[test]
fn every_mismatch_is_found_with_its_amount() {
    let run = scripted();
    let noted = summary::noted(&run.world);
    assert_eq!(noted.unreadable, Vec::<String>::new());
    assert_eq!(noted.found, summary::expected().unwrap());
    assert_eq!(noted.found.len(), 13);
    let kinds: BTreeSet<_> = noted.found.iter().map(|found| found.kind).collect();
    assert_eq!(kinds.len(), 6);

    let summary = summary::findings(&run.world, PLAIN).unwrap();
    insta::assert_snapshot!(summary, @"

    What does not add up
      kind                 record         payment               amount         ticket    assigned to
      invoice arithmetic   INV-2026-1029                     27.00 EUR over    TCK-3137  mara.hollweg
      invoice arithmetic   INV-2026-1043                     71.60 EUR under   TCK-3138  odile.lacombe
      missing payment      INV-2026-1026                  1,131.21 EUR under   TCK-3139  mara.hollweg
      missing payment      INV-2026-1038                  1,489.19 CHF under   TCK-3140  mara.hollweg
      currency difference  INV-2026-1010  PAY-70227         236.29 EUR under   TCK-3141  ines.bergqvist
      currency difference  INV-2026-1024  PAY-70241         103.60 GBP over    TCK-3142  dev.kapoor
      duplicate payment    INV-2026-1019  PAY-70226         886.49 GBP over    TCK-3143  dev.kapoor
      duplicate payment    INV-2026-1023  PAY-70233       1,359.36 EUR over    TCK-3144  odile.lacombe
      short payment        INV-2026-1004                     42.00 EUR under   TCK-3145  mara.hollweg
      short payment        INV-2026-1006                    116.64 EUR under   TCK-3146  mara.hollweg
      short payment        INV-2026-1021                    142.78 EUR under   TCK-3122* ines.bergqvist
      unapplied cash       PAY-70216                      2,185.40 USD over    TCK-3147  tomas.sandoval
      unapplied cash       PAY-70232                        960.00 EUR over    TCK-3148  ar
      * was at work before
      Too little: 1,489.19 CHF, 1,740.52 EUR
      Too much: 2,346.36 EUR, 990.09 GBP, 2,185.40 USD
      Checked: 13 of 13 are as examples/data/expected.json has them.
    ");
}

#[test]
fn twelve_tickets_go_to_the_account_owners_and_none_to_the_case_at_work() {
    let run = scripted();
    let expected: Value =
        serde_json::from_str(include_str!("../../examples/data/expected.json")).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let wanted: BTreeSet<(String, String)> = expected["mismatches"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|mismatch| mismatch["ticket_required"] == true)
        .map(|mismatch| {
            let invoice = mismatch["invoice_id"].as_str();
            let record = invoice.map_or_else(|| text(&mismatch["payment_id"]), str::to_owned);
            (record, text(&mismatch["owner_email"]))
        })
        .collect();
    let opened: BTreeSet<(String, String)> = run
        .world
        .opened
        .iter()
        .map(|ticket| (text(&ticket["related_record_id"]), text(&ticket["assignee_email"])))
        .collect();
    assert_eq!(opened, wanted);
    assert_eq!(run.world.opened.len(), 12);
    assert!(run.world.opened.iter().all(|ticket| ticket["category"] == "billing"));
    assert!(opened.iter().all(|(record, _)| record != "INV-2026-1021"));
}

#[test]
fn the_summary_goes_to_the_finance_lead_with_every_amount() {
    let run = scripted();
    let [mail] = run.world.outbox.as_slice() else { panic!("one mail should have been sent") };
    assert_eq!(mail["to"], json!(["henrike.voss@haldenmess.example"]));
    for found in summary::expected().unwrap() {
        assert!(mail["body"].as_str().unwrap().contains(&found.amount()), "{}", found.record());
    }
}

#[test]
fn nothing_runs_that_was_not_in_the_list() {
    let run = scripted();
    let mut ran = 0;
    for step in &run.steps {
        for id in &step.ran {
            assert!(step.sent.contains(&id.replace('/', "__")), "{id} ran unseen");
            ran += 1;
        }
        assert!(step.sent.len() <= agent::options().working_set.limit + 1);
    }
    assert!(ran > 40, "{ran} calls");
}

#[test]
fn the_ticket_tool_is_found_late_and_an_early_tool_comes_back() {
    let run = scripted();
    assert!(run.steps.len() >= 8, "{} calls", run.steps.len());
    assert!(!task::MESSAGES.concat().contains("ticket"));

    let ticket = "helpdesk/create_ticket";
    let first = run.steps.iter().position(|s| s.sent.contains("helpdesk__create_ticket")).unwrap();
    assert_eq!(run.steps[first].message, 4);
    assert!(run.steps[first].admitted.contains(&(ticket.to_owned(), AdmitReason::Found)));
    assert!(run.steps[first..].iter().any(|step| step.ran.iter().any(|id| id == ticket)));
    assert!(run.totals.found.iter().any(|id| id == ticket));

    let early = "billing/get_invoice";
    let used = run.steps.iter().position(|step| step.ran.iter().any(|id| id == early)).unwrap();
    assert_eq!(run.steps[used].message, 1);
    let gone = run.steps.iter().position(|step| step.evicted.iter().any(|id| id == early)).unwrap();
    let again =
        (gone..run.steps.len()).find(|&at| run.steps[at].ran.iter().any(|id| id == early)).unwrap();
    assert!(used < gone && gone < again);
    assert!(!run.steps[gone].sent.contains("billing__get_invoice"));
    assert_eq!(run.steps[again].message, 5);
    assert!(run.totals.returned.iter().any(|id| id == early));
}

#[test]
fn the_lists_take_less_than_a_third_of_all_tools() {
    let totals = scripted().totals;
    assert!(totals.sent * 3 < totals.baseline, "{} of {}", totals.sent, totals.baseline);
    assert!(totals.changes < totals.model_calls);
}

#[test]
fn two_runs_print_the_same_bytes() {
    let (first, second) = (scripted(), scripted());
    assert_eq!(first.printed, second.printed);
    assert_eq!(
        summary::totals(&first.world, &first.totals, PLAIN),
        summary::totals(&second.world, &second.totals, PLAIN)
    );
    let end = summary::findings(&first.world, PLAIN).unwrap()
        + &summary::totals(&first.world, &first.totals, PLAIN);
    let widest = first.printed.lines().chain(end.lines()).map(|line| line.chars().count()).max();
    assert!(widest <= Some(100), "{widest:?} columns");
}

#[test]
fn the_script_fails_loudly_when_find_tool_does_not_help() {
    let catalog = r#"[
        {"namespace": "agent", "name": "read_state", "description": "Read notes."},
        {"namespace": "agent", "name": "write_state", "description": "Write notes."},
        {"namespace": "zoo", "name": "feed_lion", "description": "Feed the lion."},
        {"namespace": "zoo", "name": "feed_seal", "description": "Feed the seal."}]"#;
    let engine = Engine::builder(Catalog::parse(catalog).unwrap()).build().unwrap();
    let outcome = agent::run(
        &engine,
        agent::options().pass_through(0),
        &mut World::new().unwrap(),
        &mut Script,
        (task::SYSTEM, &task::MESSAGES),
        20,
        &mut |_| Ok(()),
    );
    insta::assert_snapshot!(outcome.unwrap_err(), @"the scripted model wants billing__list_invoices, but find_tool did not bring it for: list the invoices that were issued in a month; customer invoices with their lines");
}

#[test]
fn tools_without_data_and_wrong_arguments_are_answered_in_words() {
    let engine = engine();
    let snapshot = engine.snapshot();
    let mut world = World::new().unwrap();
    let mut say = |name: &str, arguments: Value| {
        let tool = snapshot.by_provider_name(name).unwrap();
        world.run(tool, &arguments).unwrap_err()
    };
    let said = [
        say("billing__void_invoice", json!({"invoice_id": "INV-2026-1001", "reason": "duplicate"})),
        say("billing__get_invoice", json!({"invoice_id": "INV-2026-1199"})),
        say("billing__get_invoice", json!({})),
        say("billing__list_invoices", json!({"customer": "CUST-101"})),
        say("billing__list_invoices", json!({"status": "overdue"})),
        say("billing__list_invoices", json!({"limit": 500})),
        say("ledger__list_payments", json!({"cursor": "page 2"})),
        say("fx__get_exchange_rate", json!({"base": "EUR", "quote": "JPY"})),
        say("fx__get_exchange_rate", json!({"base": "EUR", "quote": "USD", "date": "2020-01-01"})),
        say("crm__get_customer", json!("CUST-101")),
    ];
    insta::assert_snapshot!(said.join("\n"), @"
    billing/void_invoice is in the catalog but has no data behind it in this example: use another tool
    there is no record INV-2026-1199
    'invoice_id' is missing: add it
    there is no argument 'customer': use some of cursor, customer_id, include_lines, limit, month, status
    'status' has to be one of draft, open, partially_paid, paid, void
    'limit' has to be a whole number from 1 to 100
    the cursor is unknown: use next_cursor of the previous page
    there is no rate for 'JPY': use EUR, USD, GBP or CHF
    there are no rates on or before 2020-01-01: ask for a later day
    the arguments are no JSON object: send one
    ");
}

#[test]
fn other_currency_pairs_go_by_way_of_the_euro() {
    let engine = engine();
    let snapshot = engine.snapshot();
    let tool = snapshot.by_provider_name("fx__get_exchange_rate").unwrap();
    let arguments = json!({"base": "USD", "quote": "GBP", "date": "2026-10-31"});
    let rate = World::new().unwrap().run(tool, &arguments).unwrap();
    assert_eq!((&rate["numerator"], &rate["denominator"]), (&json!(872_100), &json!(1_083_500)));
}

/// A chat completions server that gives canned answers, one a request, and keeps the requests.
struct Server {
    base: String,
    requests: JoinHandle<Vec<(String, Value)>>,
}

fn serve(answers: Vec<(u16, String)>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let requests = thread::spawn(move || {
        let mut requests = Vec::new();
        for (status, answer) in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
                head += &line;
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            requests.push((head, serde_json::from_slice(&body).unwrap()));
            write!(
                stream,
                "HTTP/1.1 {status} Answer\r\ncontent-type: application/json\r\n\
                 content-length: {}\r\nconnection: close\r\n\r\n{answer}",
                answer.len()
            )
            .unwrap();
        }
        requests
    });
    Server { base, requests }
}

impl Server {
    fn model(&self) -> HttpModel {
        let mut model = HttpModel::new(&self.base, "small-model".into(), Some("secret".into()));
        model.pause = Duration::ZERO;
        model
    }

    fn requests(self) -> Vec<(String, Value)> {
        self.requests.join().unwrap()
    }
}

fn answer(message: Value) -> (u16, String) {
    (200, json!({"choices": [{"message": message, "finish_reason": "stop"}]}).to_string())
}

fn calling(calls: &[(&str, &str, &str)]) -> (u16, String) {
    let calls: Vec<Value> = calls
        .iter()
        .map(|(id, name, arguments)| {
            json!({"id": id, "type": "function",
                "function": {"name": name, "arguments": arguments}})
        })
        .collect();
    answer(json!({"role": "assistant", "content": null, "refusal": null, "tool_calls": calls}))
}

fn saying(text: &str) -> (u16, String) {
    answer(json!({"role": "assistant", "content": text}))
}

#[test]
fn a_model_over_http_is_sent_the_list_of_now() {
    let server = serve(vec![
        // Two calls at once, one of them with an id missing.
        calling(&[
            ("a", "agent__read_state", "{}"),
            ("", "billing__list_invoices", r#"{"month": "2026-10", "limit": 2}"#),
        ]),
        // A search, and beside it two guesses at the tool that the search will load.
        calling(&[
            ("b", "find_tool", r#"{"intent": "open a new helpdesk ticket"}"#),
            ("c", "helpdesk__create_ticket", r#"{"title": "guessed"}"#),
            ("d", "helpdesk__create_ticket", r#"{"title": "guessed"}"#),
        ]),
        calling(&[(
            "e",
            "helpdesk__create_ticket",
            r#"{"subject": "s", "description": "d", "category": "billing"}"#,
        )]),
        calling(&[("f", "agent__write_state", "not json")]),
        saying("Done."),
    ]);
    let (run, outcome) = run(&mut server.model(), &task::MESSAGES[..1], 10);
    outcome.unwrap();
    let requests = server.requests();

    let lists: Vec<BTreeSet<String>> =
        requests.iter().map(|(_, body)| sent(&body["tools"].to_string())).collect();
    assert_eq!(lists.len(), 5);
    for (list, step) in lists.iter().zip(&run.steps) {
        assert_eq!(*list, step.sent);
    }
    assert!(lists[0].contains("billing__list_invoices") && lists[0].contains("find_tool"));
    assert!(!lists[1].contains("helpdesk__create_ticket"));
    assert!(lists[2].contains("helpdesk__create_ticket"));
    assert_eq!(run.world.opened.len(), 1);
    assert_eq!(run.world.opened[0]["subject"], "s");

    let (head, body) = &requests[4];
    assert!(head.starts_with("POST /v1/chat/completions "), "{head}");
    assert!(head.to_lowercase().contains("authorization: bearer secret"), "{head}");
    assert_eq!((&body["model"], &body["temperature"]), (&json!("small-model"), &json!(0)));
    let messages = body["messages"].as_array().unwrap();
    assert!(messages[0]["content"].as_str().unwrap().contains(task::AS_OF));
    let roles: Vec<&str> = messages.iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(
        roles.join(" "),
        "system user assistant tool tool assistant tool tool tool assistant tool assistant tool"
    );
    // Every call is answered under its id, and foreign fields do not travel back.
    assert_eq!(messages[2]["tool_calls"][1]["id"], messages[4]["tool_call_id"]);
    assert!(messages[2].get("refusal").is_none());
    assert!(messages[7]["content"].as_str().unwrap().contains("did not run"));
    assert!(messages[8]["content"].as_str().unwrap().contains("did not run"));
    assert!(messages[12]["content"].as_str().unwrap().contains("no JSON object"));
}

#[test]
fn a_model_that_never_finishes_is_stopped() {
    let again = || calling(&[("a", "agent__read_state", "{}")]);
    let server = serve(vec![again(), again(), again()]);
    let (run, outcome) = run(&mut server.model(), &task::MESSAGES[..1], 3);
    assert_eq!(run.totals.model_calls, 3);
    insta::assert_snapshot!(outcome.unwrap_err(), @"the model has not finished after 3 calls: allow more, or take a stronger model");
}

#[test]
fn a_busy_server_is_asked_again() {
    let server = serve(vec![(503, String::new()), (429, "{}".into()), saying("Here I am.")]);
    let (run, outcome) = run(&mut server.model(), &["hello"], 3);
    outcome.unwrap();
    assert!(run.printed.contains("says  Here I am."));
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn errors_of_a_server_say_what_to_do() {
    let mut said = Vec::new();
    let cut = json!({"choices": [{"message": {"content": "I"}, "finish_reason": "length"}]});
    for answer in [
        (401, json!({"error": {"message": "bad key"}}).to_string()),
        (404, json!({"error": "no such model"}).to_string()),
        (400, "tools are not supported".to_owned()),
        (200, "<html>".to_owned()),
        (200, "{}".to_owned()),
        (200, cut.to_string()),
    ] {
        let server = serve(vec![answer]);
        let request = Request { tools: toolrack::ToolList::default(), messages: Vec::new() };
        let error = server.model().respond(&request).unwrap_err().to_string();
        said.push(error.replace(&server.base, "http://host/v1"));
        server.requests();
    }
    insta::assert_snapshot!(said.join("\n"), @"
    http://host/v1/chat/completions answered 401: check TOOLRACK_API_KEY; it says: bad key
    http://host/v1/chat/completions answered 404: check TOOLRACK_BASE_URL and TOOLRACK_MODEL; it says: no such model
    http://host/v1/chat/completions answered 400; it says: tools are not supported
    http://host/v1/chat/completions did not answer with JSON: is it OpenAI-compatible?
    http://host/v1/chat/completions answered without a message: is it OpenAI-compatible?
    small-model was cut off at its output limit: give the server a larger context or take another model
    ");
}

#[test]
fn the_environment_chooses_the_model() {
    let choose = |set: &[(&str, &str)]| {
        let set: Vec<(String, String)> =
            set.iter().map(|(n, v)| (format!("TOOLRACK_{n}"), (*v).to_owned())).collect();
        let setting = |name: &str| set.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
        match HttpModel::from_settings(setting) {
            Ok(None) => "scripted".to_owned(),
            Ok(Some(model)) => model.name(),
            Err(error) => error.to_string(),
        }
    };
    let base = ("BASE_URL", "http://localhost:8080/v1/");
    let said = [
        choose(&[]),
        choose(&[("BASE_URL", "  ")]),
        choose(&[base, ("MODEL", "qwen3")]),
        choose(&[base]),
        choose(&[("MODEL", "qwen3")]),
        choose(&[("API_KEY", "k")]),
    ];
    insta::assert_snapshot!(said.join("\n"), @"
    scripted
    scripted
    qwen3 at http://localhost:8080/v1/chat/completions
    TOOLRACK_BASE_URL is set but TOOLRACK_MODEL is not: name the model to ask for
    TOOLRACK_BASE_URL is not set: give the address of the server, for example http://localhost:8080/v1, or unset TOOLRACK_MODEL and TOOLRACK_API_KEY
    TOOLRACK_BASE_URL is not set: give the address of the server, for example http://localhost:8080/v1, or unset TOOLRACK_MODEL and TOOLRACK_API_KEY
    ");
}

#[test]
fn a_guessed_call_does_not_run_twice_in_one_answer() {
    let guess = |id| (id, "crm__get_customer", r#"{"customer_id": "CUST-101"}"#);
    let server = serve(vec![calling(&[guess("a"), guess("b")]), saying("Sorry.")]);
    let mut refused = Vec::new();
    agent::run(
        &engine(),
        agent::options(),
        &mut World::new().unwrap(),
        &mut server.model(),
        (task::SYSTEM, &["Which exchange rate did the euro have yesterday?"]),
        5,
        &mut |step| {
            refused.extend(step.calls.iter().map(|done| match &done.outcome {
                Outcome::Refused(why) => why.kind,
                other => panic!("{other:?}"),
            }));
            Ok(())
        },
    )
    .unwrap();
    assert_eq!(refused, [RefusalKind::NotLoaded, RefusalKind::NotLoaded]);
}
