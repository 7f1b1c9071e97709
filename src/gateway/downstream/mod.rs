//! The server that clients see.

mod call;
mod parking;
mod shared;
mod talk;
mod tools;

use std::sync::{Arc, OnceLock};

use axum::http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, CompleteRequestParams,
    CompleteResult, GetPromptRequestParams, GetPromptResponse, Implementation,
    InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::transport::streamable_http_server::session::SessionRestoreMarker;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tracing::Instrument as _;

use super::clients;
use super::hub::Hub;
use super::run::Run;
use super::sessions::{ClientSession, Identity};
use super::settings::Mode;
use super::tokens::Token;
use super::watch::Watched;
use super::words::INSTRUCTIONS;
pub(crate) use parking::Parking;

/// Header by which an HTTP client names its session.
pub(crate) const SESSION_HEADER: &str = "mcp-session-id";

/// One connection of a client.
pub(crate) struct Downstream {
    hub: Arc<Hub>,
    /// Whether this is the one client of a stdio gateway.
    stdio: bool,
    session: OnceLock<Arc<ClientSession>>,
}

impl Downstream {
    pub(crate) fn new(hub: Arc<Hub>, stdio: bool) -> Self {
        Self { hub, stdio, session: OnceLock::new() }
    }

    /// The client's session. A client of the newer protocol sends no `initialize`: it says with each
    /// request who it is, and the first one opens the session.
    fn session(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<Arc<ClientSession>, ErrorData> {
        if self.session.get().is_none()
            && let (Some(client), Some(capabilities)) =
                (context.meta.client_info(), context.meta.client_capabilities())
        {
            self.open(client, capabilities, context, true);
        }
        let session = self.session.get().cloned().ok_or_else(|| {
            ErrorData::invalid_request("the session was not initialized: send 'initialize'", None)
        })?;
        session.used();
        Ok(session)
    }

    fn open(
        &self,
        client: Implementation,
        capabilities: ClientCapabilities,
        context: &RequestContext<RoleServer>,
        modern: bool,
    ) {
        let parts = context.extensions.get::<Parts>();
        let token = parts.and_then(|parts| parts.extensions.get::<Token>());
        let owner = token.map(|token| token.name().to_owned());
        let known = clients::client(&client.name);
        // Over HTTP the newer protocol has no sessions: a list that is always the same needs none.
        let fleeting = modern && !self.stdio;
        let mode = if fleeting { Mode::Bridge } else { self.hub.mode.unwrap_or(known.mode) };
        let key = if self.stdio {
            Some(format!("stdio:{}", client.name))
        } else {
            context.extensions.get::<SessionRestoreMarker>().map(|marker| marker.id.to_string())
        };
        let stored = match (&self.hub.state, &key) {
            (Some(state), Some(key)) => state.state(key, owner.as_deref()),
            _ => None,
        };
        let mut options = self.hub.settings.session.clone();
        if let Some(token) = token {
            options = options.context(token.context().clone());
        }
        if !fleeting {
            let (name, version) = (&client.name, &client.version);
            tracing::info!(client = %name, %version, ?mode, "a client connected");
        }
        if self.stdio {
            self.hub.sessions.fix_capabilities(capabilities.clone());
        }
        let identity = Identity { client, capabilities, owner, mode, modern, fleeting };
        let watched = (self.hub.is_watched() && !fleeting).then(Watched::default);
        let session = Arc::new(ClientSession::new(
            self.hub.sessions.number(),
            identity,
            options.context.clone(),
            Run::new(self.hub.engine.clone(), options, mode, stored, watched),
            known.follows,
            context.peer.clone(),
        ));
        if let Some(key) = key {
            session.name(&key);
        }
        if self.session.set(Arc::clone(&session)).is_err() {
            // Two first requests came at once: the other one opened it.
            return;
        }
        self.hub.sessions.enter(&session);
        if self.stdio {
            self.hub.start();
        }
    }
}

impl Drop for Downstream {
    fn drop(&mut self) {
        if let Some(session) = self.session.get() {
            self.hub.keep_state(session);
            self.hub.sessions.leave(session.number);
        }
    }
}

impl ServerHandler for Downstream {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_completions()
            .enable_logging()
            .build();
        ServerConfig::new(capabilities)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
            .with_server_info(Implementation::new("toolrack", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let result = self.negotiate_initialize(&request)?;
        context.peer.set_peer_info(request.clone());
        self.open(request.client_info, request.capabilities, &context, false);
        Ok(result)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let parts = context.extensions.get::<Parts>();
        let id = parts.and_then(|parts| parts.headers.get(SESSION_HEADER)?.to_str().ok());
        if let (Some(id), Some(session)) = (id, self.session.get()) {
            session.name(id);
            if let Some(state) = &self.hub.state {
                state.set_owner(id, session.identity.owner.as_deref());
            }
        }
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let session = self.session(&context)?;
        self.hub.list_tools(&session).await
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let session = self.session(&context)?;
        let span = tracing::debug_span!("tools/call", session = session.number);
        self.hub.call_tool(session, request, context).instrument(span).await
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(self.hub.prompts(&*self.session(&context)?)))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let session = self.session(&context)?;
        self.hub.get_prompt(session, request, context).await
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(self.hub.resources(&*self.session(&context)?)))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(
            self.hub.templates(&*self.session(&context)?),
        ))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let session = self.session(&context)?;
        self.hub.read_resource(session, request, context).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let session = self.session(&context)?;
        self.hub.subscribe(session, &request.uri, &context).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let session = self.session(&context)?;
        self.hub.unsubscribe(session, &request.uri, &context).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let session = self.session(&context)?;
        self.hub.complete(session, request, context).await
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let session = self.session(&context)?;
        self.hub.sessions.set_level(&session, request.level, &self.hub.upstreams).await;
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let session = self.session(context.request_context())?;
        let uris = context.accepted().resource_subscriptions.clone().unwrap_or_default();
        for uri in &uris {
            self.hub.subscribe(Arc::clone(&session), uri, context.request_context()).await?;
        }
        session.add_sink(context.sink().clone());
        tokio::select! {
            () = context.cancelled() => {}
            () = self.hub.end.cancelled() => {}
        }
        session.remove_sink(context.sink());
        for uri in &uris {
            self.hub.unsubscribe(Arc::clone(&session), uri, context.request_context()).await?;
        }
        Ok(())
    }

    async fn on_roots_list_changed(&self, _: NotificationContext<RoleServer>) {
        self.hub.sessions.roots_changed(&self.hub.upstreams).await;
    }
}
