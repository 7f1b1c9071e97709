//! What the gateway does with requests and notifications of an upstream.

use std::sync::Arc;

use rmcp::model::{
    ClientConfig, ClientResult, CreateMessageRequest, CreateMessageRequestParams,
    CreateMessageResult, ElicitRequest, ElicitRequestParams, ElicitResult, Implementation,
    ListRootsRequest, ListRootsResult, LoggingMessageNotificationParam,
    ResourceUpdatedNotificationParam, ServerRequest,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use tokio::sync::oneshot;

use super::Upstream;
use super::flight::{Aside, Flight, Question};

/// The client side of one connection.
pub(super) struct Handler {
    pub upstream: Arc<Upstream>,
    pub flight: Arc<Flight>,
}

impl Handler {
    async fn ask(
        &self,
        request: ServerRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        let (answer, answered) = oneshot::channel();
        let question = Question { request, withdrawn: context.ct.clone(), answer };
        match self.flight.say(Aside::Ask(Box::new(question))) {
            None => {}
            Some(Aside::Ask(question)) => match self.upstream.sessions.only() {
                // Outside of any call there is no doubt either when there is one client.
                Some(session) if self.flight.len() == 0 => {
                    tokio::spawn(async move { session.answer(*question).await });
                }
                _ => return Err(no_addressee()),
            },
            Some(_) => return Err(no_addressee()),
        }
        answered.await.unwrap_or_else(|_| Err(no_addressee()))
    }
}

fn no_addressee() -> ErrorData {
    ErrorData::invalid_request(
        "the gateway cannot tell which of its clients this request is for: ask while a call of one \
         client alone is open",
        None,
    )
}

fn unexpected() -> ErrorData {
    ErrorData::internal_error("the client answered in an unexpected form", None)
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let implementation = Implementation::new("toolrack", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(self.upstream.sessions.capabilities(), implementation)
            .with_protocol_version(rmcp::model::ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let request = ServerRequest::CreateMessageRequest(CreateMessageRequest::new(params));
        match self.ask(request, context).await? {
            ClientResult::CreateMessageResult(result) => Ok(*result),
            _ => Err(unexpected()),
        }
    }

    async fn list_roots(
        &self,
        context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        let request = ServerRequest::ListRootsRequest(ListRootsRequest::default());
        match self.ask(request, context).await? {
            ClientResult::ListRootsResult(result) => Ok(result),
            _ => Err(unexpected()),
        }
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
        match self.ask(request, context).await? {
            ClientResult::ElicitResult(result) => Ok(result),
            _ => Err(unexpected()),
        }
    }

    async fn on_logging_message(
        &self,
        mut params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let server = &self.upstream.config.name;
        params.logger = Some(match params.logger {
            Some(logger) => format!("{server}/{logger}"),
            None => server.clone(),
        });
        if let Some(Aside::Log(params)) = self.flight.say(Aside::Log(params))
            && let Some(session) = self.upstream.sessions.only()
        {
            session.log(params, None).await;
        }
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.upstream.sessions.resource_updated(&self.upstream.config.name, &params.uri).await;
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.upstream.changes.note(super::Kind::Tools);
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.upstream.changes.note(super::Kind::Resources);
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.upstream.changes.note(super::Kind::Prompts);
    }
}
