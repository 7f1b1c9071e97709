//! `tools/call`: the gate, the way to the server, the way back.

use std::sync::Arc;
use std::time::Instant;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, CallToolResult, ClientRequest,
    ClientResult, ContentBlock, InputRequest, InputRequiredResult, InputResponses, JsonObject,
    RequestMetaObject, ResourceContents, ServerRequest, ServerResult,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;
use tokio::sync::oneshot;

use super::tools::internal;
use crate::gateway::hub::Hub;
use crate::gateway::sessions::ClientSession;
use crate::gateway::settings::Mode;
use crate::gateway::upstream::{Caller, Failure, Question, Upstream};
use crate::gateway::words;
use crate::session::{Authorized, Call, RefusalKind, Verdict};

/// Rounds of questions that a server may ask for before it gives a result.
const MAX_ROUNDS: usize = 10;

impl Hub {
    pub(crate) async fn call_tool(
        &self,
        session: Arc<ClientSession>,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let name = &*request.name;
        let result = if name == self.settings.session.meta_tool {
            match self.find_arguments(&arguments) {
                Ok(request) => self.find(&session, request).await?,
                Err(why) => words::failed(why),
            }
        } else if name == words::DESCRIBE_TOOL {
            self.describe(&session, &arguments).await?
        } else if name == words::CALL_TOOL {
            match words::call_arguments(&arguments) {
                Ok((name, arguments)) => self.dispatch(&session, name, arguments, &context).await?,
                Err(why) => words::failed(why),
            }
        } else {
            self.dispatch(&session, name.to_owned(), arguments, &context).await?
        };
        Ok(result.into())
    }

    /// Lets a call through the gate and carries it out.
    async fn dispatch(
        &self,
        session: &Arc<ClientSession>,
        name: String,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let settled = self.is_settled();
        // The gate looks at the name alone; arguments may be large.
        let call = Call::new(name.clone(), Value::Null);
        let (verdict, guessed) = session
            .run
            .with(move |run| {
                let verdict = run.authorize(settled, &call)?;
                let guessed = match &verdict {
                    Verdict::Refused(why) if why.kind == RefusalKind::NotLoaded => {
                        run.definition_of(&call.name)
                    }
                    _ => None,
                };
                Ok::<_, crate::Error>((verdict, guessed))
            })
            .await
            .and_then(|outcome| outcome)
            .map_err(internal)?;
        match verdict {
            Verdict::Run(tool) => {
                let result = self.carry_out(session, tool, arguments, context).await;
                self.announce(session).await;
                self.keep_state(session);
                result
            }
            Verdict::MetaTool(_) => match self.find_arguments(&arguments) {
                Ok(request) => self.find(session, request).await,
                Err(why) => Ok(words::failed(why)),
            },
            Verdict::Refused(why) => {
                self.metrics.refused();
                self.announce(session).await;
                self.keep_state(session);
                Ok(match guessed {
                    Some((name, tool)) => words::guessed(&name, &tool),
                    None => words::failed(why.text()),
                })
            }
        }
    }

    async fn carry_out(
        &self,
        session: &Arc<ClientSession>,
        tool: Authorized,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let server = tool.id().namespace();
        let Some(upstream) = self.upstream(server) else {
            return Ok(words::failed(format!("server '{server}' is no longer there")));
        };
        let caller = caller(session, context);
        let mut params = CallToolRequestParams::new(tool.id().name().to_owned());
        params.arguments = Some(arguments);
        let began = Instant::now();
        let outcome = call(upstream, params, forwarded(&context.meta), &caller).await;
        let label = match &outcome {
            Ok(result) if result.is_error == Some(true) => "tool_error",
            Ok(_) => "ok",
            Err(failure) => failure.label(),
        };
        self.metrics.called(server, label, began.elapsed());
        let ran = outcome.is_ok();
        let done = session.run.with({
            let tool = tool.clone();
            move |run| if ran { run.used(&tool) } else { run.abandon(&tool) }
        });
        done.await.map_err(internal)?;
        match outcome {
            Ok(result) => {
                note_origins(session, server, &result);
                Ok(result)
            }
            Err(Failure::Refused(error)) => Err(error),
            Err(Failure::Cancelled) => {
                Err(ErrorData::internal_error(Failure::Cancelled.text(server), None))
            }
            Err(failure) => {
                tracing::warn!(server, tool = tool.id().name(), "{}", failure.text(server));
                Ok(words::failed(failure.text(server)))
            }
        }
    }
}

/// Calls a tool, answering what its server asks for in between.
async fn call(
    upstream: &Arc<Upstream>,
    mut params: CallToolRequestParams,
    meta: RequestMetaObject,
    caller: &Caller,
) -> Result<CallToolResult, Failure> {
    for _ in 0..MAX_ROUNDS {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params.clone()));
        match upstream.request(request, meta.clone(), caller).await? {
            ServerResult::CallToolResult(result) => return Ok(result),
            // An answer without any field is a result without content.
            ServerResult::EmptyResult(_) => return Ok(CallToolResult::success(Vec::new())),
            ServerResult::InputRequiredResult(needs) => {
                params.request_state.clone_from(&needs.request_state);
                params.input_responses = Some(inputs(caller, needs).await?);
            }
            _ => return Err(Failure::Odd),
        }
    }
    Err(Failure::Odd)
}

/// Puts the questions of a server that speaks the newer protocol to the client.
async fn inputs(caller: &Caller, needs: InputRequiredResult) -> Result<InputResponses, Failure> {
    let mut responses = InputResponses::new();
    for (key, request) in needs.input_requests.unwrap_or_default() {
        let request = match request {
            InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
            InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
            InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
            _ => return Err(Failure::Odd),
        };
        let (answer, answered) = oneshot::channel();
        let withdrawn = caller.cancelled.clone();
        caller.session.answer(Question { request, withdrawn, answer }).await;
        let result: ClientResult = match answered.await {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => return Err(Failure::Refused(error)),
            Err(_) => return Err(Failure::Cancelled),
        };
        responses.insert(key, serde_json::to_value(result).map_err(|_| Failure::Odd)?);
    }
    Ok(responses)
}

pub(super) fn caller(session: &Arc<ClientSession>, context: &RequestContext<RoleServer>) -> Caller {
    Caller {
        session: Arc::clone(session),
        progress: context.meta.get_progress_token(),
        cancelled: context.ct.clone(),
    }
}

/// What a client said beside its request, without what is between it and the gateway.
pub(super) fn forwarded(meta: &RequestMetaObject) -> RequestMetaObject {
    let mut meta = meta.clone();
    meta.retain(|key, _| key != "progressToken" && !key.starts_with("io.modelcontextprotocol/"));
    meta
}

fn note_origins(session: &ClientSession, server: &str, result: &CallToolResult) {
    for block in &result.content {
        match block {
            ContentBlock::ResourceLink(link) => session.note_origin(&link.uri, server),
            ContentBlock::Resource(embedded) => match &embedded.resource {
                ResourceContents::TextResourceContents { uri, .. }
                | ResourceContents::BlobResourceContents { uri, .. } => {
                    session.note_origin(uri, server);
                }
                _ => {}
            },
            _ => {}
        }
    }
}

impl Hub {
    /// Tells the client of a change in its list, if there is one that it does not know of.
    pub(crate) async fn announce(&self, session: &Arc<ClientSession>) {
        if session.identity.mode == Mode::List
            && matches!(session.run.with(|run| run.announce()).await, Ok(true))
        {
            session.announce_tools(&self.metrics).await;
        }
    }
}
