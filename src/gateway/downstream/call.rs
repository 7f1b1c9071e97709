//! `tools/call`: the gate, the way to the server, the way back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, CallToolResult, ClientRequest,
    ContentBlock, InputRequest, InputRequests, InputRequiredResult, InputResponses, JsonObject,
    RequestMetaObject, ResourceContents, ServerRequest, ServerResult,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use tracing::field::Empty;

use super::parking::Parked;
use super::talk::{Ear, forwarded};
use super::tools::internal;
use crate::gateway::hub::Hub;
use crate::gateway::sessions::{Change, ClientSession};
use crate::gateway::settings::Mode;
use crate::gateway::upstream::{Aside, Errand, Failure, Question, Upstream};
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
        if let Some(ticket) = &request.request_state {
            let owner = session.identity.owner.as_deref();
            let Some(mut parked) = self.parking.take(ticket, owner) else {
                return Ok(words::failed("the call waited too long for input: make it anew").into());
            };
            parked.answer(request.input_responses.unwrap_or_default());
            return self.drive(parked, &Ear::new(&session, &context)).await;
        }
        let arguments = request.arguments.unwrap_or_default();
        let name = &*request.name;
        let (name, arguments) = if name == self.settings.session.meta_tool {
            return self.search(&session, &arguments).await;
        } else if name == words::DESCRIBE_TOOL {
            return Ok(self.describe(&session, &arguments).await?.into());
        } else if name == words::CALL_TOOL {
            match words::call_arguments(&arguments) {
                Ok(call) => call,
                Err(why) => return Ok(words::failed(why).into()),
            }
        } else {
            (name.to_owned(), arguments)
        };
        self.dispatch(&session, name, arguments, &context).await
    }

    async fn search(
        &self,
        session: &Arc<ClientSession>,
        arguments: &JsonObject,
    ) -> Result<CallToolResponse, ErrorData> {
        match self.find_arguments(arguments) {
            Ok(request) => Ok(self.find(session, request).await?.into()),
            Err(why) => Ok(words::failed(why).into()),
        }
    }

    /// Lets a call through the gate and carries it out.
    async fn dispatch(
        &self,
        session: &Arc<ClientSession>,
        name: String,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let settled = self.is_settled();
        let fleeting = session.identity.fleeting;
        // The gate looks at the name alone; arguments may be large.
        let call = Call::new(name, Value::Null);
        let (verdict, guessed) = session
            .run
            .with(move |run| {
                let verdict = run.authorize(settled, &call)?;
                match &verdict {
                    // Without a session nobody can say what the client was shown.
                    Verdict::Refused(why) if why.kind == RefusalKind::NotLoaded && fleeting => {
                        Ok((run.authorize(settled, &call)?, None))
                    }
                    Verdict::Refused(why) if why.kind == RefusalKind::NotLoaded => {
                        let guessed = run.definition_of(&call.name);
                        Ok::<_, crate::Error>((verdict, guessed))
                    }
                    _ => Ok((verdict, None)),
                }
            })
            .await
            .and_then(|outcome| outcome)
            .map_err(internal)?;
        match verdict {
            Verdict::Run(tool) => {
                let (server, name) = (tool.id().namespace(), tool.id().name());
                let span = tracing::debug_span!("call", server, tool = name, outcome = Empty);
                let work = self.carry_out(session, tool, arguments, context);
                let result = work.instrument(span).await;
                self.announce(session).await;
                self.keep_state(session);
                result
            }
            Verdict::MetaTool(_) => self.search(session, &arguments).await,
            Verdict::Refused(why) => {
                self.metrics.refused();
                self.announce(session).await;
                self.keep_state(session);
                Ok(match guessed {
                    Some((name, tool)) => words::guessed(&name, &tool),
                    None => words::failed(why.text()),
                }
                .into())
            }
        }
    }

    async fn carry_out(
        &self,
        session: &Arc<ClientSession>,
        tool: Authorized,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let server = tool.id().namespace();
        let Some(upstream) = self.upstream(server) else {
            return Ok(words::failed(format!("server '{server}' is no longer there")).into());
        };
        let mut params = CallToolRequestParams::new(tool.id().name().to_owned());
        params.arguments = Some(arguments);
        let meta = forwarded(&context.meta);
        let ear = Ear::new(session, context);
        let began = Instant::now();
        if session.identity.modern {
            let cancelled = CancellationToken::new();
            let (errand, asides) = Errand::new(session.number, cancelled.clone());
            let upstream = Arc::clone(upstream);
            let work = tokio::spawn(async move { call(&upstream, params, meta, &errand).await });
            let owner = session.identity.owner.clone();
            let waiting = BTreeMap::new();
            let parked = Parked { owner, tool, began, asides, work, cancelled, waiting, asked: 0 };
            return self.drive(parked, &ear).await;
        }
        let (errand, asides) = Errand::new(session.number, ear.cancelled.clone());
        let outcome = ear.listen(asides, call(upstream, params, meta, &errand)).await;
        self.finish(&ear, tool, began, outcome).await.map(Into::into)
    }

    /// Goes on with a call until there is a result, or a question for which the client has to come
    /// back.
    async fn drive(&self, mut parked: Parked, ear: &Ear) -> Result<CallToolResponse, ErrorData> {
        let outcome = loop {
            tokio::select! {
                biased;
                Some(aside) = parked.asides.recv() => match aside {
                    Aside::Progress(progress) => ear.progress(progress).await,
                    Aside::Log(message) => ear.log(message).await,
                    Aside::Ask(question) => {
                        let Question { request, answer, .. } = *question;
                        let input = match ear.session.able(&request).and_then(|()| input(request)) {
                            Ok(input) => input,
                            Err(error) => {
                                let _ = answer.send(Err(error));
                                continue;
                            }
                        };
                        parked.asked += 1;
                        let key = format!("question-{}", parked.asked);
                        parked.waiting.insert(key.clone(), answer);
                        let requests = InputRequests::from([(key, input)]);
                        let ticket = self.parking.put(parked);
                        return Ok(InputRequiredResult::new(Some(requests), Some(ticket)).into());
                    }
                },
                outcome = &mut parked.work => break outcome.unwrap_or(Err(Failure::Odd)),
                () = ear.cancelled.cancelled() => {
                    parked.cancelled.cancel();
                    break Err(Failure::Cancelled);
                }
            }
        };
        ear.drain(&mut parked.asides).await;
        self.finish(ear, parked.tool.clone(), parked.began, outcome).await.map(Into::into)
    }

    /// Books a call and says what the client is told of it.
    async fn finish(
        &self,
        ear: &Ear,
        tool: Authorized,
        began: Instant,
        outcome: Result<CallToolResult, Failure>,
    ) -> Result<CallToolResult, ErrorData> {
        let session = &ear.session;
        let id = tool.id().clone();
        let server = id.namespace();
        let label = match &outcome {
            Ok(result) if result.is_error == Some(true) => "tool_error",
            Ok(_) => "ok",
            Err(failure) => failure.label(),
        };
        self.metrics.called(server, label, began.elapsed());
        tracing::Span::current().record("outcome", label);
        let ran = outcome.is_ok();
        let done =
            session.run.with(move |run| if ran { run.used(&tool) } else { run.abandon(&tool) });
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
                tracing::warn!(server, tool = id.name(), "{}", failure.text(server));
                Ok(words::failed(failure.text(server)))
            }
        }
    }
}

/// Calls a tool, putting what its server asks for in between to the client.
async fn call(
    upstream: &Arc<Upstream>,
    mut params: CallToolRequestParams,
    meta: RequestMetaObject,
    errand: &Errand,
) -> Result<CallToolResult, Failure> {
    for _ in 0..MAX_ROUNDS {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params.clone()));
        match upstream.request(request, meta.clone(), errand).await? {
            ServerResult::CallToolResult(result) => return Ok(result),
            // An answer without any field is a result without content.
            ServerResult::EmptyResult(_) => return Ok(CallToolResult::success(Vec::new())),
            ServerResult::InputRequiredResult(needs) => {
                params.request_state.clone_from(&needs.request_state);
                let mut responses = InputResponses::new();
                for (key, request) in needs.input_requests.unwrap_or_default() {
                    let result = errand.ask(question(request)?).await?;
                    let result = serde_json::to_value(result).map_err(|_| Failure::Odd)?;
                    responses.insert(key, result);
                }
                params.input_responses = Some(responses);
            }
            _ => return Err(Failure::Odd),
        }
    }
    Err(Failure::Odd)
}

/// A question of the newer protocol in the form of the older one.
fn question(request: InputRequest) -> Result<ServerRequest, Failure> {
    match request {
        InputRequest::CreateMessage(request) => Ok(ServerRequest::CreateMessageRequest(request)),
        InputRequest::Elicitation(request) => Ok(ServerRequest::ElicitRequest(request)),
        InputRequest::ListRoots(request) => Ok(ServerRequest::ListRootsRequest(request)),
        _ => Err(Failure::Odd),
    }
}

/// A question of the older protocol in the form of the newer one.
fn input(request: ServerRequest) -> Result<InputRequest, ErrorData> {
    match request {
        ServerRequest::CreateMessageRequest(request) => Ok(InputRequest::CreateMessage(request)),
        ServerRequest::ElicitRequest(request) => Ok(InputRequest::Elicitation(request)),
        ServerRequest::ListRootsRequest(request) => Ok(InputRequest::ListRoots(request)),
        _ => Err(ErrorData::invalid_request("the client's protocol has no such request", None)),
    }
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
            self.metrics.announced();
            session.changed(Change::Tools).await;
        }
    }
}
