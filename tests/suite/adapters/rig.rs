//! rig: the engine as an index, and a session as an agent's tools.

#[path = "../../../examples/support/scripted_model.rs"]
mod scripted_model;

use rig_agent::AgentBuilder;
use rig_agent::tool::ToolSet;
use rig_core::vector_store::VectorStoreIndex;
use rig_core::vector_store::request::{Filter, SearchFilter, VectorSearchRequest};
use scripted_model::{Step, scripted, sent};
use serde_json::json;
use toolrack::rig::{EngineIndex, SessionTools, toolset};
use toolrack::{Catalog, Engine, RuntimeContext, SessionOptions};

const TOOLS: &str = r#"[
    {"name": "create_ticket", "namespace": "helpdesk", "description": "Open a helpdesk ticket."},
    {"name": "close_ticket", "namespace": "helpdesk", "description": "Close a helpdesk ticket."},
    {"name": "purge_tickets", "namespace": "admin", "description": "Erase every helpdesk ticket.", "scopes": ["admin"]},
    {"name": "list_invoices", "namespace": "billing", "description": "List the invoices of a month."}]"#;

fn engine() -> Engine {
    Engine::builder(Catalog::parse(TOOLS).unwrap()).without_embedder().build().unwrap()
}

fn request(query: &str) -> VectorSearchRequest {
    VectorSearchRequest::builder().query(query).samples(2).build()
}

async fn ids(index: &EngineIndex, request: VectorSearchRequest) -> Vec<String> {
    index.top_n_ids(request).await.unwrap().into_iter().map(|found| found.id).collect()
}

#[tokio::test]
async fn an_index_gives_names_of_a_tool_set() {
    let index = EngineIndex::new(engine());
    assert_eq!(ids(&index, request("list invoices of a month")).await, ["billing__list_invoices"]);
    let tickets = ids(&index, request("helpdesk ticket")).await;
    assert_eq!(tickets.len(), 2);
    assert!(!tickets.contains(&"admin__purge_tickets".to_owned()), "{tickets:?}");

    let named = index.clone().named_by(|tool| tool.name().to_owned());
    assert_eq!(ids(&named, request("list invoices of a month")).await, ["list_invoices"]);

    let admin = index.context(RuntimeContext::default().scopes(["admin"]));
    let filter = Filter::eq("namespace", json!("admin"));
    let request =
        VectorSearchRequest::builder().query("helpdesk ticket").samples(2).filter(filter).build();
    let found = admin.top_n::<serde_json::Value>(request).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].document["name"], "purge_tickets");
}

#[tokio::test]
async fn a_tool_without_implementation_is_refused() {
    let (model, _) = scripted([]);
    let run = SessionTools::new(engine().session(SessionOptions::default()).unwrap());
    let Err(error) = run.attach(AgentBuilder::new(model.clone()), ToolSet::default()) else {
        panic!("an empty tool set was taken");
    };
    insta::assert_snapshot!(error, @"the rig tool set has no 'helpdesk__create_ticket' but the session may show it: add the tool under that name");

    let tools = toolset(&engine(), |id, _| async move { Ok(id.to_string().into()) }).unwrap();
    assert_eq!(tools.len(), 4);
    run.attach(AgentBuilder::new(model), tools).unwrap().build();
}

/// An agent over a session of one core tool, and the lists that its model is sent.
async fn played(steps: Vec<Step>) -> (String, Vec<Vec<String>>, SessionTools) {
    let engine = engine();
    let tools = toolset(&engine, |id, _| async move { Ok(id.to_string().into()) }).unwrap();
    let options = SessionOptions::default().core(["list_invoices"]).limit(2).retrieve(0);
    let run = SessionTools::new(engine.session(options).unwrap());
    let (model, log) = scripted(steps);
    let agent = run.attach(AgentBuilder::new(model), tools).unwrap().default_max_turns(9).build();
    let answer = agent.prompt("open a ticket").await.unwrap().to_string();
    (answer, sent(&log), run)
}

#[tokio::test]
async fn what_find_tool_loads_is_in_the_next_list() {
    let (answer, lists, run) = played(vec![
        Step::Call("find_tool", json!({"names": ["create_ticket"]})),
        Step::Call("helpdesk__create_ticket", json!({})),
        Step::Say("done"),
    ])
    .await;
    assert_eq!(answer, "done");
    let first = ["billing__list_invoices", "find_tool"];
    let second = ["billing__list_invoices", "find_tool", "helpdesk__create_ticket"];
    assert_eq!(lists, [first.to_vec(), second.to_vec(), second.to_vec()]);
    let state = run.session().with(|session| session.to_state()).await.unwrap();
    assert!(state.working_set.busy.is_empty(), "an answered call is still held");
}

#[tokio::test]
async fn a_tool_that_was_not_sent_does_not_run() {
    let (answer, lists, _) = played(vec![
        Step::Guess("helpdesk__close_ticket", json!({"id": 7})),
        // Refused with its definition, and loaded.
        Step::Call("helpdesk__close_ticket", json!({"id": 7})),
        // Not allowed, and no name of anything.
        Step::Guess("admin__purge_tickets", json!({})),
        Step::Guess("no_such_tool", json!({})),
        // The tool's own name for the provider's.
        Step::Guess("close_ticket", json!({"id": 7})),
        Step::Say("done"),
    ])
    .await;
    assert_eq!(answer, "done");
    assert_eq!(lists[0], ["billing__list_invoices", "find_tool"]);
    assert_eq!(lists[5], ["billing__list_invoices", "find_tool", "helpdesk__close_ticket"]);
}
