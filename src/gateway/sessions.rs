//! The clients that are connected: one session each, never shared.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::SystemTime;

use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientCapabilities, ClientNotification,
    ClientRequest, ElicitationCapability, FormElicitationCapability, Implementation, LoggingLevel,
    LoggingMessageNotification, LoggingMessageNotificationParam, ProgressNotification,
    ProgressNotificationParam, ResourceUpdatedNotificationParam, RootsCapabilities,
    RootsListChangedNotification, SamplingCapability, ServerNotification, ServerRequest,
    SetLevelRequest, SetLevelRequestParams, UrlElicitationCapability,
};
use rmcp::service::{Peer, PeerRequestOptions, ServiceError, SubscriptionSink};
use rmcp::{ErrorData, RoleServer};

use super::metrics::Metrics;
use super::run::Run;
use super::settings::Mode;
use super::upstream::{Question, Upstream};
use crate::select::RuntimeContext;

/// Who a client is.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// Name and version that it gave.
    pub client: Implementation,
    pub capabilities: ClientCapabilities,
    /// Name of the token that it came with.
    pub owner: Option<String>,
    pub mode: Mode,
    /// Whether it speaks 2026-07-28 or later, in which servers do not ask and notifications are
    /// subscribed to.
    pub modern: bool,
    /// Whether it lasts for one request only, because the client named no session.
    pub fleeting: bool,
}

/// A list that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Tools,
    Resources,
    Prompts,
}

/// One connected client.
pub(crate) struct ClientSession {
    /// Counts up; never given twice in a process.
    pub number: u64,
    pub identity: Identity,
    /// What the client may use.
    pub context: RuntimeContext,
    pub run: Run,
    /// Name under which the session is stored.
    key: OnceLock<String>,
    peer: Peer<RoleServer>,
    /// Least level that the client wants to hear of; 0 hears all.
    level: AtomicU8,
    /// Whether the client read the list anew after an announcement.
    follows: AtomicBool,
    /// Resources that the client subscribed to: server and address there, address for the client.
    subscriptions: Mutex<BTreeMap<(String, String), String>>,
    /// Where a client of the newer protocol listens.
    sinks: Mutex<Vec<SubscriptionSink>>,
    /// Which server an address in a result came from.
    origins: Mutex<Origins>,
    last_used: AtomicU64,
}

impl ClientSession {
    pub(crate) fn new(
        number: u64,
        identity: Identity,
        context: RuntimeContext,
        run: Run,
        follows: bool,
        peer: Peer<RoleServer>,
    ) -> Self {
        Self {
            number,
            identity,
            context,
            run,
            key: OnceLock::new(),
            peer,
            level: AtomicU8::new(0),
            follows: AtomicBool::new(follows),
            subscriptions: Mutex::default(),
            sinks: Mutex::default(),
            origins: Mutex::default(),
            last_used: AtomicU64::new(now()),
        }
    }

    pub(crate) fn key(&self) -> Option<&str> {
        self.key.get().map(String::as_str)
    }

    /// Names the session for storage; the first name holds.
    pub(crate) fn name(&self, key: &str) {
        self.key.get_or_init(|| key.to_owned());
    }

    pub(crate) fn used(&self) {
        self.last_used.store(now(), Ordering::Relaxed);
    }

    pub(crate) fn last_used(&self) -> u64 {
        self.last_used.load(Ordering::Relaxed)
    }

    pub(crate) fn follows(&self) -> bool {
        self.follows.load(Ordering::Relaxed)
    }

    pub(crate) fn has_followed(&self) {
        self.follows.store(true, Ordering::Relaxed);
    }

    pub(crate) async fn progress(&self, progress: ProgressNotificationParam) {
        self.send(ServerNotification::ProgressNotification(ProgressNotification::new(progress)))
            .await;
    }

    /// Sends a message for the log; `asked` is the least level that a request of the newer protocol
    /// wants, without which it wants none.
    pub(crate) async fn log(
        &self,
        message: LoggingMessageNotificationParam,
        asked: Option<&LoggingLevel>,
    ) {
        let wanted = match (self.identity.modern, asked) {
            (true, None) => false,
            (true, Some(least)) => rank(&message.level) >= rank(least),
            (false, _) => rank(&message.level) >= self.level.load(Ordering::Relaxed),
        };
        if wanted {
            let message = LoggingMessageNotification::new(message);
            self.send(ServerNotification::LoggingMessageNotification(message)).await;
        }
    }

    /// Tells the client that a list changed.
    pub(crate) async fn changed(&self, change: Change) {
        if !self.identity.modern {
            let _ = match change {
                Change::Tools => self.peer.notify_tool_list_changed().await,
                Change::Resources => self.peer.notify_resource_list_changed().await,
                Change::Prompts => self.peer.notify_prompt_list_changed().await,
            };
            return;
        }
        // A sink that did not subscribe to this refuses it.
        for sink in self.sinks() {
            let _ = match change {
                Change::Tools => sink.notify_tool_list_changed().await,
                Change::Resources => sink.notify_resource_list_changed().await,
                Change::Prompts => sink.notify_prompt_list_changed().await,
            };
        }
    }

    async fn updated(&self, shown: String) {
        if !self.identity.modern {
            let params = ResourceUpdatedNotificationParam::new(shown);
            let _ = self.peer.notify_resource_updated(params).await;
            return;
        }
        for sink in self.sinks() {
            let _ = sink.notify_resource_updated(shown.clone()).await;
        }
    }

    pub(crate) fn add_sink(&self, sink: SubscriptionSink) {
        lock(&self.sinks).push(sink);
    }

    pub(crate) fn remove_sink(&self, sink: &SubscriptionSink) {
        lock(&self.sinks).retain(|other| other.id() != sink.id());
    }

    fn sinks(&self) -> Vec<SubscriptionSink> {
        lock(&self.sinks).clone()
    }

    /// Whether the client said that it can answer `request`.
    pub(crate) fn able(&self, request: &ServerRequest) -> Result<(), ErrorData> {
        let can = &self.identity.capabilities;
        let (able, what) = match request {
            ServerRequest::CreateMessageRequest(_) => (can.sampling.is_some(), "sample"),
            ServerRequest::ElicitRequest(_) => (can.elicitation.is_some(), "ask its user"),
            ServerRequest::ListRootsRequest(_) => (can.roots.is_some(), "list roots"),
            _ => (true, ""),
        };
        if able {
            return Ok(());
        }
        let code = rmcp::model::ErrorCode::METHOD_NOT_FOUND;
        Err(ErrorData::new(code, format!("the client cannot {what}"), None))
    }

    async fn send(&self, notification: ServerNotification) {
        // A client that is gone does not listen; its session ends by itself.
        let _ = self.peer.send_notification(notification).await;
    }

    /// Puts a question of a server to the client and hands the answer back.
    pub(crate) async fn answer(&self, question: Question) {
        let Question { request, withdrawn, answer } = question;
        if let Err(error) = self.able(&request) {
            let _ = answer.send(Err(error));
            return;
        }
        let options = PeerRequestOptions::no_options();
        let sent = self.peer.send_request_with_option(request, options).await;
        let handle = match sent {
            Ok(handle) => handle,
            Err(error) => {
                let _ = answer.send(Err(lost(error)));
                return;
            }
        };
        let id = handle.id.clone();
        tokio::select! {
            result = handle.await_response() => {
                let _ = answer.send(result.map_err(lost));
            }
            () = withdrawn.cancelled() => {
                let reason = Some("the server no longer asks".to_owned());
                let params = CancelledNotificationParam::new(Some(id), reason);
                let notification = CancelledNotification::new(params);
                self.send(ServerNotification::CancelledNotification(notification)).await;
            }
        }
    }

    /// Notes that addresses in a result of `server` are resources there.
    pub(crate) fn note_origin(&self, uri: &str, server: &str) {
        lock(&self.origins).note(uri, server);
    }

    /// The server from whose result the client has the address.
    pub(crate) fn origin(&self, uri: &str) -> Option<String> {
        lock(&self.origins).servers.get(uri).cloned()
    }

    pub(crate) fn subscribe(&self, server: &str, uri: &str, shown: &str) {
        lock(&self.subscriptions).insert((server.to_owned(), uri.to_owned()), shown.to_owned());
    }

    pub(crate) fn unsubscribe(&self, server: &str, uri: &str) {
        lock(&self.subscriptions).remove(&(server.to_owned(), uri.to_owned()));
    }

    fn subscription(&self, server: &str, uri: &str) -> Option<String> {
        lock(&self.subscriptions).get(&(server.to_owned(), uri.to_owned())).cloned()
    }
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSession")
            .field("number", &self.number)
            .field("client", &self.identity.client.name)
            .field("mode", &self.identity.mode)
            .finish_non_exhaustive()
    }
}

fn lost(error: ServiceError) -> ErrorData {
    match error {
        ServiceError::McpError(error) => error,
        other => ErrorData::internal_error(format!("the client did not answer: {other}"), None),
    }
}

/// Addresses seen in results, the newest [`MAX_ORIGINS`](Self::MAX).
#[derive(Debug, Default)]
struct Origins {
    servers: BTreeMap<String, String>,
    order: std::collections::VecDeque<String>,
}

impl Origins {
    const MAX: usize = 512;

    fn note(&mut self, uri: &str, server: &str) {
        if self.servers.insert(uri.to_owned(), server.to_owned()).is_none() {
            self.order.push_back(uri.to_owned());
        }
        if self.order.len() > Self::MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.servers.remove(&oldest);
        }
    }
}

/// All connected clients.
pub(crate) struct Sessions {
    /// Weak: a session lives as long as its connection.
    open: Mutex<BTreeMap<u64, Weak<ClientSession>>>,
    next: AtomicU64,
    /// What the one client of a stdio gateway can do; unset when there are many clients.
    fixed: OnceLock<ClientCapabilities>,
    level: AtomicU8,
    metrics: Arc<Metrics>,
}

impl Sessions {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            open: Mutex::default(),
            next: AtomicU64::new(1),
            fixed: OnceLock::new(),
            level: AtomicU8::new(u8::MAX),
            metrics,
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn enter(&self, session: &Arc<ClientSession>) {
        let mut open = lock(&self.open);
        open.insert(session.number, Arc::downgrade(session));
        open.retain(|_, session| session.strong_count() > 0);
        self.metrics.sessions(open.len());
    }

    pub(crate) fn leave(&self, number: u64) {
        let mut open = lock(&self.open);
        open.remove(&number);
        self.metrics.sessions(open.len());
    }

    pub(crate) fn all(&self) -> Vec<Arc<ClientSession>> {
        lock(&self.open).values().filter_map(Weak::upgrade).collect()
    }

    /// The one client there is; `None` when there are none or several.
    pub(crate) fn only(&self) -> Option<Arc<ClientSession>> {
        let mut all = self.all();
        if all.len() == 1 { all.pop() } else { None }
    }

    /// Sets what servers are told of the client.
    pub(crate) fn fix_capabilities(&self, capabilities: ClientCapabilities) {
        self.fixed.get_or_init(|| capabilities);
    }

    /// What servers are told of the client: what the one client can do, or everything, because
    /// clients that come later may be able to.
    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        if let Some(fixed) = self.fixed.get() {
            let mut capabilities = ClientCapabilities::default();
            capabilities.roots.clone_from(&fixed.roots);
            capabilities.sampling.clone_from(&fixed.sampling);
            capabilities.elicitation.clone_from(&fixed.elicitation);
            return capabilities;
        }
        let mut roots = RootsCapabilities::default();
        roots.list_changed = Some(true);
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(roots);
        capabilities.sampling = Some(SamplingCapability::default());
        capabilities.elicitation = Some(
            ElicitationCapability::new()
                .with_form(FormElicitationCapability::default())
                .with_url(UrlElicitationCapability::default()),
        );
        capabilities
    }

    pub(crate) async fn resource_updated(&self, server: &str, uri: &str) {
        for session in self.all() {
            if let Some(shown) = session.subscription(server, uri) {
                session.updated(shown).await;
            }
        }
    }

    /// Whether no other client still subscribes to the resource.
    pub(crate) fn nobody_subscribes(&self, server: &str, uri: &str) -> bool {
        self.all().iter().all(|session| session.subscription(server, uri).is_none())
    }

    pub(crate) async fn resources_changed(&self) {
        for session in self.all() {
            session.changed(Change::Resources).await;
        }
    }

    pub(crate) async fn prompts_changed(&self) {
        for session in self.all() {
            session.changed(Change::Prompts).await;
        }
    }

    /// Sets what `session` wants to hear of and tells the servers the least level of all clients.
    pub(crate) async fn set_level(
        &self,
        session: &ClientSession,
        level: LoggingLevel,
        upstreams: &[Arc<Upstream>],
    ) {
        session.level.store(rank(&level), Ordering::Relaxed);
        let least = self.all().iter().map(|open| open.level.load(Ordering::Relaxed)).min();
        self.level.store(least.unwrap_or(0), Ordering::Relaxed);
        for upstream in upstreams {
            self.pass_log_level(upstream).await;
        }
    }

    /// Tells a server that was just connected which level is wanted.
    pub(crate) async fn pass_log_level(&self, upstream: &Arc<Upstream>) {
        let Some(level) = level(self.level.load(Ordering::Relaxed)) else { return };
        if upstream.can(|can| can.logging.is_some()) {
            let request = SetLevelRequest::new(SetLevelRequestParams::new(level));
            upstream.tell(ClientRequest::SetLevelRequest(request)).await;
        }
    }

    /// Tells the servers that the roots of `session` changed, if it is the only client.
    pub(crate) async fn roots_changed(&self, upstreams: &[Arc<Upstream>]) {
        if self.only().is_some() {
            for upstream in upstreams {
                let notification = RootsListChangedNotification::default();
                upstream
                    .notify(ClientNotification::RootsListChangedNotification(notification))
                    .await;
            }
        }
    }
}

const LEVELS: [LoggingLevel; 8] = [
    LoggingLevel::Debug,
    LoggingLevel::Info,
    LoggingLevel::Notice,
    LoggingLevel::Warning,
    LoggingLevel::Error,
    LoggingLevel::Critical,
    LoggingLevel::Alert,
    LoggingLevel::Emergency,
];

fn rank(level: &LoggingLevel) -> u8 {
    LEVELS.iter().position(|other| other == level).map_or(0, |place| place as u8)
}

fn level(rank: u8) -> Option<LoggingLevel> {
    LEVELS.get(usize::from(rank)).copied()
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
