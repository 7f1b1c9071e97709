//! A session that drives an agent's tools.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use rig_agent::agent::{
    AgentBuilder, AgentHook, CompletionCallAction, CompletionCallEvent, DispatchAction,
    DispatchEvent, HookContext, InvalidToolCallAction, InvalidToolCallContext,
    InvalidToolCallReason, ModelTurnAction, ModelTurnFinished, NoToolConfig, OutcomeAction,
    OutcomeEvent, RunSettled, RunStart, RunStartAction, StepEventKind, WithBuilderTools,
};
use rig_agent::tool::{ToolExecutionError, ToolOutput, ToolSet};
use rig_core::effect::EffectId;
use rig_core::message::AssistantContent;
use rig_core::vector_store::request::{Filter, VectorSearchRequest};
use rig_core::vector_store::{
    VectorSearchIdResult, VectorSearchResult, VectorStoreError, VectorStoreIndex,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::dynamic_tool;
use crate::catalog::{Tool, ToolId};
use crate::error::{Error, ErrorKind, Result};
use crate::session::{AsyncSession, Authorized, Call, FindRequest, MetaTool, Session, Verdict};

/// A [`Session`] as the tools of a rig agent.
///
/// A prompt begins a turn, every further model call is a step, and each asks for the visible list
/// anew, in its cache-stable order. A call goes through the gate before it is dispatched: what is
/// refused reaches the model as the session's words. A tool that ran is noted as used.
///
/// rig asks an index for tools only when the prompt, or a message before it, has text. A conversation
/// that begins with an image alone is sent no tools at all, neither core nor `find_tool`: put a line of
/// text beside the image.
///
/// A session is one run of an agent: give each conversation its own agent and session. A tool that a
/// refresh of the catalog adds later is shown only when the agent has an implementation of it.
///
/// # Example
/// ```
/// use rig_agent::AgentBuilder;
/// use rig_core::{driver::DynModel, operation::Completion};
/// use toolrack::{Catalog, Engine, SessionOptions, rig};
///
/// fn agent(model: DynModel<Completion>) -> toolrack::Result<rig_agent::Agent> {
///     let catalog = Catalog::parse(r#"[{"name": "create_ticket"}, {"name": "list_invoices"}]"#)?;
///     let engine = Engine::builder(catalog).build()?;
///     let tools = rig::toolset(&engine, |id, _| async move { Ok(format!("{id} ran").into()) })?;
///     let run = rig::SessionTools::new(engine.session(SessionOptions::default().limit(1))?);
///     Ok(run.attach(AgentBuilder::new(model), tools)?.default_max_turns(8).build())
/// }
/// # let _ = agent;
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SessionTools {
    run: AsyncSession,
    meta: MetaTool,
    /// The tools that need an implementation, by the name under which rig calls it.
    needed: Vec<String>,
}

impl SessionTools {
    /// The tools that `session` shows.
    pub fn new(session: Session) -> Self {
        let needed = session.eligible_tools().map(|tool| tool.name.clone()).collect();
        let meta = session.meta_tool().clone();
        Self { run: AsyncSession::new(session), meta, needed }
    }

    /// The session, to pin, to compact, to store.
    pub fn session(&self) -> &AsyncSession {
        &self.run
    }

    /// Gives `agent` the tools in `tools`, of which the session decides what is shown and what may
    /// run; `find_tool` is added.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownTool`] when `tools` has no implementation of a tool that the session may
    /// show, under its provider name: the model would be told of it in vain.
    pub fn attach(
        &self,
        agent: AgentBuilder<NoToolConfig>,
        mut tools: ToolSet,
    ) -> Result<AgentBuilder<WithBuilderTools>> {
        if let Some(missing) = self.needed.iter().find(|name| !tools.contains(name)) {
            return Err(Error::new(
                ErrorKind::UnknownTool,
                format!(
                    "the rig tool set has no '{missing}' but the session may show it: add the tool \
                     under that name"
                ),
            ));
        }
        let run = self.run.clone();
        tools.add_dynamic_tool(dynamic_tool(
            &self.meta.name,
            &self.meta.description,
            &self.meta.parameters,
            move |arguments| find(run.clone(), arguments),
        )?);
        let hook = SessionHook { run: self.run.clone(), running: Mutex::default() };
        let index = SessionIndex { run: self.run.clone() };
        Ok(agent.retrieved_tools(tools.len(), index, tools).add_hook(hook))
    }
}

async fn find(run: AsyncSession, arguments: Value) -> Result<ToolOutput, ToolExecutionError> {
    let request = FindRequest::from_arguments(&arguments)
        .map_err(|error| ToolExecutionError::invalid_args(error.to_string()))?;
    match run.find_tool(request).await {
        Ok(reply) => Ok(ToolOutput::text(reply.text())),
        Err(error) => Err(ToolExecutionError::from_error(error)),
    }
}

/// rig's index as the session sees it: the visible list, whatever is asked for, in its order.
struct SessionIndex {
    run: AsyncSession,
}

impl VectorStoreIndex for SessionIndex {
    type Filter = Filter<Value>;

    async fn top_n<T: DeserializeOwned + Send>(
        &self,
        _request: VectorSearchRequest<Self::Filter>,
    ) -> Result<Vec<VectorSearchResult<T>>, VectorStoreError> {
        let visible = self.run.visible().await.map_err(VectorStoreError::datastore)?;
        let mut documents = Vec::new();
        for shown in visible.tools() {
            let document = serde_json::from_value(serde_json::to_value(&shown.tool)?)?;
            documents.push(VectorSearchResult { score: 1.0, id: shown.name.clone(), document });
        }
        Ok(documents)
    }

    async fn top_n_ids(
        &self,
        _request: VectorSearchRequest<Self::Filter>,
    ) -> Result<Vec<VectorSearchIdResult>, VectorStoreError> {
        let visible = self.run.visible().await.map_err(VectorStoreError::datastore)?;
        let names = visible.names().map(str::to_owned);
        Ok(names.map(|id| VectorSearchIdResult { score: 1.0, id }).collect())
    }
}

/// Turns, steps, and the gate.
struct SessionHook {
    run: AsyncSession,
    /// Calls that may run and have not been answered. A std mutex: never held over an await.
    running: Mutex<HashMap<EffectId, Authorized>>,
}

impl SessionHook {
    fn running(&self) -> std::sync::MutexGuard<'_, HashMap<EffectId, Authorized>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn abandon(&self, call: Authorized) {
        // An error here is a runtime that shuts down: nothing is left to be told.
        let _ = self.run.with(move |session| session.abandon(&call)).await;
    }
}

impl AgentHook for SessionHook {
    fn name(&self) -> Option<String> {
        Some("toolrack session".to_owned())
    }

    fn observes(&self, kind: StepEventKind) -> bool {
        matches!(
            kind,
            StepEventKind::RunStart
                | StepEventKind::RunSettled
                | StepEventKind::CompletionCall
                | StepEventKind::ModelTurnFinished
                | StepEventKind::InvalidToolCall
                | StepEventKind::ToolDispatch
        )
    }

    async fn on_run_start(&self, _ctx: &HookContext, event: RunStart<'_>) -> RunStartAction {
        let text = event.prompt.rag_text().unwrap_or_default();
        match self.run.turn(text).await {
            Ok(_) => RunStartAction::Continue,
            Err(error) => RunStartAction::stop(error.to_string()),
        }
    }

    async fn on_completion_call(
        &self,
        _ctx: &HookContext,
        event: CompletionCallEvent<'_>,
    ) -> CompletionCallAction {
        if event.turn > 1
            && let Err(error) = self.run.step().await
        {
            return CompletionCallAction::stop(error.to_string());
        }
        CompletionCallAction::Continue
    }

    async fn on_model_turn_finished(
        &self,
        _ctx: &HookContext,
        event: ModelTurnFinished<'_>,
    ) -> ModelTurnAction {
        let said: Vec<&str> = event
            .content
            .iter()
            .filter_map(|content| match content {
                AssistantContent::Text(text) => Some(text.text.as_str()),
                _ => None,
            })
            .collect();
        let said = said.join("\n");
        if !said.is_empty()
            && let Err(error) = self.run.with(move |session| session.note_reply(said)).await
        {
            return ModelTurnAction::stop(error.to_string());
        }
        ModelTurnAction::Continue
    }

    async fn on_dispatch(&self, _ctx: &HookContext, event: DispatchEvent<'_>) -> DispatchAction {
        let Some(name) = event.tool_name() else { return DispatchAction::Proceed };
        let arguments = parsed(event.tool_args());
        match self.run.authorize(Call::new(name, arguments)).await {
            Ok(Verdict::MetaTool(_)) => DispatchAction::Proceed,
            Ok(Verdict::Run(call)) => {
                self.running().insert(event.id, call);
                DispatchAction::Proceed
            }
            Ok(Verdict::Refused(why)) => DispatchAction::skip(why.text()),
            Err(error) => DispatchAction::stop(error.to_string()),
        }
    }

    async fn on_outcome(&self, _ctx: &HookContext, event: OutcomeEvent<'_>) -> OutcomeAction {
        let Some(call) = self.running().remove(&event.id) else { return OutcomeAction::Proceed };
        if event.tool_result().is_some_and(|result| !result.is_skipped()) {
            if let Err(error) = self.run.record_use(call).await {
                return OutcomeAction::stop(error.to_string());
            }
        } else {
            self.abandon(call).await;
        }
        OutcomeAction::Proceed
    }

    /// The model called what it was not sent.
    async fn on_invalid_tool_call(
        &self,
        _ctx: &HookContext,
        event: &InvalidToolCallContext,
    ) -> Option<InvalidToolCallAction> {
        if event.reason != InvalidToolCallReason::UnknownTool {
            return None;
        }
        let arguments = parsed(event.args.as_deref());
        let call = Call::new(event.tool_name.as_str(), arguments.clone());
        Some(match self.run.authorize(call).await {
            Ok(Verdict::Refused(why)) => InvalidToolCallAction::skip(why.text()),
            Ok(Verdict::MetaTool(_)) => match find(self.run.clone(), arguments).await {
                Ok(output) => InvalidToolCallAction::skip(output.render()),
                Err(error) => InvalidToolCallAction::skip(error.message()),
            },
            Ok(Verdict::Run(call)) => {
                let name = self.name_of(call.tool()).await;
                self.abandon(call).await;
                match name {
                    Some(name) if event.available_tools.contains(&name) => {
                        InvalidToolCallAction::repair(name)
                    }
                    Some(name) => InvalidToolCallAction::skip(format!(
                        "{name} did not run: it is in your list from your next message on."
                    )),
                    None => InvalidToolCallAction::skip(format!(
                        "{} did not run: your list is full, finish with other tools first.",
                        event.tool_name
                    )),
                }
            }
            Err(error) => InvalidToolCallAction::stop(error.to_string()),
        })
    }

    async fn on_run_settled(&self, _ctx: &HookContext, _event: RunSettled<'_>) {
        let left: Vec<Authorized> = self.running().drain().map(|(_, call)| call).collect();
        for call in left {
            self.abandon(call).await;
        }
    }
}

impl SessionHook {
    /// The name by which a visible tool is called.
    async fn name_of(&self, tool: &Tool) -> Option<String> {
        let id: ToolId = tool.id().clone();
        let name = self.run.with(move |session| {
            // Not `visible()`: taking the list means sending it.
            let shown = session.is_pass_through() || session.working_set().contains(&id);
            shown.then(|| session.snapshot().provider_name(&id).map(str::to_owned))
        });
        name.await.ok().flatten().flatten()
    }
}

fn parsed(arguments: Option<&str>) -> Value {
    super::super::arguments(arguments.map(Value::from).as_ref())
}
