//! rig: the engine as an index, and a session as an agent's tools.

#[path = "../../../examples/support/scripted_model.rs"]
mod scripted_model;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use rig_agent::AgentBuilder;
use rig_agent::agent::{AgentHook, HookContext, ModelTurnAction, ModelTurnFinished, StepEventKind};
use rig_agent::tool::ToolSet;
use rig_core::vector_store::VectorStoreIndex;
use rig_core::vector_store::request::{Filter, SearchFilter, VectorSearchRequest};
use scripted_model::{Step, scripted, sent};
use serde_json::json;
use toolrack::rig::{EngineIndex, SessionTools, toolset};
use toolrack::trace::TraceBuffer;
use toolrack::{AsyncSession, Catalog, Engine, RuntimeContext, SessionOptions};

use crate::fixtures::{Mood, Words};

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

/// Every tool of `engine`, and the ids of those that were run.
fn counted(engine: &Engine) -> (ToolSet, Arc<Mutex<Vec<String>>>) {
    let ran = Arc::<Mutex<Vec<String>>>::default();
    let log = Arc::clone(&ran);
    let tools = toolset(engine, move |id, _| {
        log.lock().unwrap().push(id.to_string());
        async move { Ok(id.to_string().into()) }
    });
    (tools.unwrap(), ran)
}

/// What came of a script.
struct Played {
    answer: String,
    /// The lists that the model was sent.
    lists: Vec<Vec<String>>,
    /// All messages as JSON.
    messages: String,
    /// The tools that were run.
    ran: Vec<String>,
    /// The session's trace.
    trace: String,
    run: SessionTools,
}

/// An agent over a session, whose model plays `steps` in answer to "open a ticket". The context
/// changes to `after` when the model has answered, before its call is dispatched.
async fn played_with(
    engine: Engine,
    options: SessionOptions,
    after: Option<RuntimeContext>,
    steps: Vec<Step>,
) -> Played {
    let (tools, ran) = counted(&engine);
    let run = SessionTools::new(engine.session(options).unwrap());
    let buffer = TraceBuffer::new();
    let sink = buffer.clone();
    run.session().with(move |session| session.trace_to(sink)).await.unwrap();
    let (model, log) = scripted(steps);
    let mut agent = run.attach(AgentBuilder::new(model), tools).unwrap().default_max_turns(9);
    if let Some(context) = after {
        agent = agent.add_hook(Withdraw { run: run.session().clone(), context });
    }
    let response = agent.build().prompt("open a ticket").await.unwrap();
    let messages = serde_json::to_string(&response.messages).unwrap();
    let ran = ran.lock().unwrap().clone();
    let (answer, trace) = (response.to_string(), buffer.text());
    Played { answer, lists: sent(&log), messages, ran, trace, run }
}

/// Changes a session's context between the list and the call.
struct Withdraw {
    run: AsyncSession,
    context: RuntimeContext,
}

impl AgentHook for Withdraw {
    fn observes(&self, kind: StepEventKind) -> bool {
        kind == StepEventKind::ModelTurnFinished
    }

    async fn on_model_turn_finished(
        &self,
        _ctx: &HookContext,
        _event: ModelTurnFinished<'_>,
    ) -> ModelTurnAction {
        let context = self.context.clone();
        self.run.with(move |session| session.set_context(context)).await.unwrap();
        ModelTurnAction::Continue
    }
}

/// An agent over a session of one core tool.
async fn played(steps: Vec<Step>) -> Played {
    let options = SessionOptions::default().core(["list_invoices"]).limit(2).retrieve(0);
    played_with(engine(), options, None, steps).await
}

#[tokio::test]
async fn what_find_tool_loads_is_in_the_next_list() {
    let Played { answer, lists, ran, trace, run, .. } = played(vec![
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
    assert_eq!(ran, ["helpdesk/create_ticket"]);
    // A prompt is a turn, every further model call a step; what the model says is noted.
    let events = |kind: &str| trace.matches(&format!("\"event\":\"{kind}\"")).count();
    assert_eq!((events("turn"), events("step"), events("reply")), (1, 2, 1), "{trace}");
}

#[tokio::test]
async fn a_tool_that_was_not_sent_does_not_run() {
    let Played { answer, lists, messages, ran, .. } = played(vec![
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
    assert_eq!(ran, ["helpdesk/close_ticket", "helpdesk/close_ticket"]);
    // A hidden tool is refused in the words for a name that nothing has.
    let unknown = |name: &str| format!("There is no tool called '{name}'");
    for name in ["admin__purge_tickets", "no_such_tool"] {
        assert!(messages.contains(&unknown(name)), "{name}: {messages}");
    }
    assert!(!messages.contains("Erase every"), "{messages}");
}

#[tokio::test]
async fn a_right_that_is_withdrawn_after_the_list_keeps_the_call_from_running() {
    let admin = RuntimeContext::default().scopes(["admin"]);
    let options =
        SessionOptions::default().core(["purge_tickets"]).limit(2).retrieve(0).context(admin);
    let steps = || vec![Step::Call("admin__purge_tickets", json!({})), Step::Say("done")];
    let may = played_with(engine(), options.clone(), None, steps()).await;
    assert_eq!(may.ran, ["admin/purge_tickets"]);
    let may_not = played_with(engine(), options, Some(RuntimeContext::default()), steps()).await;
    assert!(may_not.ran.is_empty(), "{:?}", may_not.ran);
    assert!(
        may_not.messages.contains("There is no tool called 'admin__purge_tickets'"),
        "{}",
        may_not.messages
    );
    assert_eq!(may_not.answer, "done");
}

#[tokio::test]
async fn a_prompt_retrieves_by_the_sessions_model() {
    let model = Words::new("words/1", 64);
    let build = Engine::builder(Catalog::parse(TOOLS).unwrap()).embedder(model.clone());
    let options = SessionOptions::default().limit(2).retrieve(1).pass_through(0);
    let steps = vec![Step::Call("helpdesk__create_ticket", json!({})), Step::Say("done")];
    let played = played_with(build.build().unwrap(), options, None, steps).await;
    assert_eq!(played.lists[0], ["find_tool", "helpdesk__create_ticket"]);
    assert_eq!(played.ran, ["helpdesk/create_ticket"]);
    assert!(model.queries.load(Ordering::Relaxed) > 0, "nothing was embedded");
}

/// An agent of rig's own that takes `k` tools a prompt from the index, and its first list.
async fn retrieved(engine: Engine, k: usize, prompt: &str) -> Vec<String> {
    let (tools, _) = counted(&engine);
    let (model, log) = scripted([Step::Say("done")]);
    let index = EngineIndex::new(engine);
    let agent = AgentBuilder::new(model).retrieved_tools(k, index, tools).build();
    agent.prompt(prompt).await.unwrap();
    sent(&log)[0].clone()
}

#[tokio::test]
async fn an_agent_retrieves_as_many_tools_as_it_asks_for() {
    assert_eq!(
        retrieved(engine(), 3, "list invoices of a month").await,
        ["billing__list_invoices"]
    );
    assert_eq!(retrieved(engine(), 1, "helpdesk ticket").await.len(), 1);
    assert_eq!(retrieved(engine(), 2, "helpdesk ticket").await.len(), 2);
}

#[tokio::test]
async fn an_index_keeps_back_what_scores_below_a_threshold() {
    let index = EngineIndex::new(engine());
    let ask = |least: f64| {
        VectorSearchRequest::builder().query("helpdesk ticket").samples(2).threshold(least).build()
    };
    let found = index.top_n_ids(ask(0.0)).await.unwrap();
    assert_eq!(found.len(), 2);
    assert!(ids(&index, ask(found[0].score + 0.01)).await.is_empty());
}

/// Case 32 in rig, whose own index fails the turn: a model that is down costs the meaning alone.
#[tokio::test]
async fn case_32_a_failing_model_fails_no_turn() {
    let model = Words::new("words/1", 64);
    let build = Engine::builder(Catalog::parse(TOOLS).unwrap()).embedder(model.clone());
    let engine = build.build().unwrap();
    model.set(Mood::Down);
    assert_eq!(retrieved(engine.clone(), 1, "helpdesk ticket").await.len(), 1);
    let options = SessionOptions::default().limit(2).retrieve(1).pass_through(0);
    let played = played_with(engine, options, None, vec![Step::Say("done")]).await;
    assert_eq!(played.answer, "done");
    assert_eq!(played.lists[0], ["find_tool", "helpdesk__create_ticket"]);
}
