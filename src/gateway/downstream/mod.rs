//! The server that clients see.

mod call;
mod shared;
mod tools;

use std::sync::{Arc, OnceLock};

use axum::http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult,
    GetPromptRequestParams, GetPromptResponse, Implementation, InitializeRequestParams,
    InitializeResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, SetLevelRequestParams,
    SubscribeRequestParams, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::transport::streamable_http_server::session::SessionRestoreMarker;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::clients;
use super::hub::Hub;
use super::run::Run;
use super::sessions::{ClientSession, Identity};
use super::tokens::Token;
use super::words::INSTRUCTIONS;

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

    fn session(&self) -> Result<Arc<ClientSession>, ErrorData> {
        let session = self.session.get().cloned().ok_or_else(|| {
            ErrorData::invalid_request("the session was not initialized: send 'initialize'", None)
        })?;
        session.used();
        Ok(session)
    }

    fn open(&self, params: &InitializeRequestParams, context: &RequestContext<RoleServer>) {
        let parts = context.extensions.get::<Parts>();
        let token = parts.and_then(|parts| parts.extensions.get::<Token>());
        let owner = token.map(|token| token.name().to_owned());
        let known = clients::client(&params.client_info.name);
        let mode = self.hub.mode.unwrap_or(known.mode);
        let key = if self.stdio {
            Some(format!("stdio:{}", params.client_info.name))
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
        let identity = Identity {
            client: params.client_info.clone(),
            capabilities: params.capabilities.clone(),
            owner,
            mode,
        };
        let session = Arc::new(ClientSession::new(
            self.hub.sessions.number(),
            identity,
            options.context.clone(),
            Run::new(self.hub.engine.clone(), options, mode, stored),
            known.follows,
            context.peer.clone(),
        ));
        if let Some(key) = key {
            session.name(&key);
        }
        tracing::info!(
            client = %params.client_info.name,
            version = %params.client_info.version,
            ?mode,
            "a client connected"
        );
        self.hub.sessions.enter(&session);
        let _ = self.session.set(session);
        if self.stdio {
            self.hub.sessions.fix_capabilities(params.capabilities.clone());
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

    fn supported_protocol_versions(&self) -> std::borrow::Cow<'static, [ProtocolVersion]> {
        ProtocolVersion::known_up_to(&ProtocolVersion::LATEST_WITH_INITIALIZE).into()
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let result = self.negotiate_initialize(&request)?;
        context.peer.set_peer_info(request.clone());
        self.open(&request, &context);
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
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let session = self.session()?;
        self.hub.list_tools(&session).await
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let session = self.session()?;
        self.hub.call_tool(session, request, context).await
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(self.hub.prompts(&*self.session()?)))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let session = self.session()?;
        self.hub.get_prompt(session, request, context).await
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(self.hub.resources(&*self.session()?)))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(self.hub.templates(&*self.session()?)))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let session = self.session()?;
        self.hub.read_resource(session, request, context).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let session = self.session()?;
        self.hub.subscribe(session, &request.uri, context).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let session = self.session()?;
        self.hub.unsubscribe(session, &request.uri, context).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let session = self.session()?;
        self.hub.complete(session, request, context).await
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let session = self.session()?;
        self.hub.sessions.set_level(&session, request.level, &self.hub.upstreams).await;
        Ok(())
    }

    async fn on_roots_list_changed(&self, _: NotificationContext<RoleServer>) {
        self.hub.sessions.roots_changed(&self.hub.upstreams).await;
    }
}
