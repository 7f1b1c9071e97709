//! A gateway with a client at one end and fake servers at the other.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig,
    CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationCapability, Implementation, JsonObject, ListRootsResult,
    LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion,
    ResourceUpdatedNotificationParam, Root, RootsCapabilities, SamplingCapability, SamplingMessage,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, RunningService, serve_client};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{ClientHandler, ErrorData, RoleClient};
use serde_json::{Value, json};
use toolrack::gateway::{Config, Gateway, Options, UpstreamStatus};
use toolrack::{Catalog, Engine};

/// What a test waits for comes within this time or not at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// The fake server's program.
pub(crate) fn fake() -> PathBuf {
    let mut path = std::env::current_exe().expect("a test knows its program");
    path.pop();
    path.pop();
    let path = path.join("examples/fake_server");
    assert!(path.exists(), "run `cargo build --features gateway --example fake_server` first");
    path
}

/// A configuration with fake servers under these names and arguments, and `own` as `toolrack`.
pub(crate) fn config(servers: &[(&str, &[&str])], own: Value) -> Config {
    let program = fake();
    let servers: serde_json::Map<String, Value> = servers
        .iter()
        .map(|(name, args)| ((*name).to_owned(), json!({"command": program, "args": args})))
        .collect();
    let text = json!({"mcpServers": servers, "toolrack": own}).to_string();
    Config::parse(&text, "test.json").expect("the configuration is good")
}

pub(crate) fn engine() -> Engine {
    Engine::builder(Catalog::empty()).build().expect("an empty engine builds")
}

/// What a client heard.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Heard {
    Progress(f64),
    Log(Option<String>),
    ToolsChanged,
    ResourcesChanged,
    PromptsChanged,
    Updated(String),
}

/// A client that notes what it hears and answers what it is asked.
#[derive(Clone)]
pub(crate) struct Listener {
    name: &'static str,
    /// Whether it says that it can answer questions.
    able: bool,
    pub(crate) heard: Arc<Mutex<Vec<Heard>>>,
}

impl Listener {
    pub(crate) fn named(name: &'static str) -> Self {
        Self { name, able: true, heard: Arc::default() }
    }

    /// A client that answers nothing.
    pub(crate) fn unable() -> Self {
        Self { able: false, ..Self::named("test") }
    }

    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }

    fn note(&self, heard: Heard) {
        self.heard.lock().unwrap().push(heard);
    }
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.able {
            capabilities.roots = Some(RootsCapabilities::default());
            capabilities.sampling = Some(SamplingCapability::default());
            capabilities.elicitation = Some(ElicitationCapability::new());
        }
        ClientConfig::new(capabilities, Implementation::new(self.name, "1"))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.note(Heard::Progress(params.progress));
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.note(Heard::Log(params.logger));
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.note(Heard::ToolsChanged);
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.note(Heard::ResourcesChanged);
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.note(Heard::PromptsChanged);
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.note(Heard::Updated(params.uri));
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![Root::new("file:///here")]))
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"name": "Ada"})))
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Ok(CreateMessageResult::new(SamplingMessage::assistant_text("hi"), "a-model".to_owned()))
    }
}

/// A gateway and its one client.
pub(crate) struct Rig {
    pub(crate) gateway: Gateway,
    pub(crate) client: RunningService<RoleClient, Listener>,
}

impl Rig {
    pub(crate) async fn new(servers: &[(&str, &[&str])], own: Value) -> Self {
        Self::with(servers, own, &Options::default(), Listener::named("test")).await
    }

    pub(crate) async fn with(
        servers: &[(&str, &[&str])],
        own: Value,
        options: &Options,
        listener: Listener,
    ) -> Self {
        Self::of(config(servers, own), options, listener).await
    }

    pub(crate) async fn of(config: Config, options: &Options, listener: Listener) -> Self {
        Self::on(Gateway::new(engine(), config, options).expect("it starts"), listener).await
    }

    /// A client on `gateway`.
    pub(crate) async fn on(gateway: Gateway, listener: Listener) -> Self {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let serving = gateway.clone();
        tokio::spawn(async move {
            let (input, output) = tokio::io::split(far);
            serving.serve_streams(input, output).await
        });
        let (input, output) = tokio::io::split(near);
        let transport = AsyncRwTransport::new_client(input, output);
        let client = serve_client(listener, transport).await.expect("the handshake works");
        Self { gateway, client }
    }

    /// Waits until every server has been indexed.
    pub(crate) async fn ready(self) -> Self {
        self.until(|all| all.iter().all(|status| status.indexed > 0)).await;
        self
    }

    /// Waits until the client has heard something.
    pub(crate) async fn hears(&self, holds: impl Fn(&[Heard]) -> bool) {
        let wait = async {
            while !holds(&self.client.service().heard()) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        assert!(waited.is_ok(), "it never heard it: {:?}", self.client.service().heard());
    }

    pub(crate) async fn until(&self, holds: impl Fn(&[UpstreamStatus]) -> bool) {
        let wait = async {
            while !holds(&self.gateway.status()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        assert!(waited.is_ok(), "it never came: {:#?}", self.gateway.status());
    }

    pub(crate) async fn tools(&self) -> Vec<String> {
        let list = self.client.list_tools(None).await.expect("tools are listed");
        list.tools.iter().map(|tool| tool.name.to_string()).collect()
    }

    pub(crate) async fn call(&self, name: &str, arguments: Value) -> CallToolResult {
        call(&self.client, name, arguments).await.expect("the call is answered")
    }

    /// The first text of a result.
    pub(crate) async fn text(&self, name: &str, arguments: Value) -> String {
        text(&self.call(name, arguments).await)
    }

    /// Finds a tool by its name, so that it can be called.
    pub(crate) async fn find(&self, name: &str) -> CallToolResult {
        self.call("find_tool", json!({"names": [name]})).await
    }

    pub(crate) async fn close(self) {
        let _ = self.client.cancel().await;
        self.gateway.close().await;
    }
}

pub(crate) async fn call(
    peer: &Peer<RoleClient>,
    name: &str,
    arguments: Value,
) -> Result<CallToolResult, rmcp::service::ServiceError> {
    let arguments: JsonObject = serde_json::from_value(arguments).expect("arguments are an object");
    let params = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
    match peer.call_tool_once(params).await? {
        rmcp::model::CallToolResponse::Complete(result) => Ok(result),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn text(result: &CallToolResult) -> String {
    result.content.first().and_then(|block| block.as_text()).expect("there is a text").text.clone()
}

/// A client on the fake server itself.
pub(crate) async fn direct(args: &[&str]) -> RunningService<RoleClient, Listener> {
    let mut child = tokio::process::Command::new(fake())
        .args(args)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the fake server starts");
    let (output, input) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    tokio::spawn(async move { child.wait().await });
    let transport = AsyncRwTransport::new_client(output, input);
    serve_client(Listener::named("direct"), transport).await.expect("the handshake works")
}

/// Whether a process runs; a dead one that nobody has waited for counts as running.
pub(crate) fn runs(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}
