//! One server behind the gateway: its connection, its status, requests to it.

mod flight;
mod handler;
mod listing;
mod process;
mod secrets;
mod supervisor;
mod tap;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::{ArcSwap, ArcSwapOption};
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientNotification, ClientRequest,
    ClientResult, Prompt, RequestMetaObject, Resource, ResourceTemplate, ServerRequest,
    ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, ServiceError};
use rmcp::{ErrorData, RoleClient};
use serde::Serialize;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

pub(crate) use flight::{Aside, Question};
pub(crate) use supervisor::supervise;

use super::config::ServerConfig;
use super::indexer::Indexer;
use super::metrics::Metrics;
use super::sessions::Sessions;
use flight::Flight;
use secrets::Secrets;

/// The largest message that is taken from a server.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;
/// How long a failed request waits to learn how its server ended.
const LAST_WORDS: Duration = Duration::from_millis(1500);

/// A server and everything that the gateway knows of it.
pub(crate) struct Upstream {
    pub config: ServerConfig,
    pub sessions: Arc<Sessions>,
    pub metrics: Arc<Metrics>,
    pub indexer: Indexer,
    changes: Changes,
    link: ArcSwapOption<Link>,
    status: Mutex<UpstreamStatus>,
    shelf: ArcSwap<Shelf>,
    secrets: Secrets,
}

/// A connection that is up.
struct Link {
    peer: Peer<RoleClient>,
    flight: Arc<Flight>,
    /// How the connection ended, once it has.
    ended: watch::Receiver<Option<String>>,
    /// Rung when a request could not be delivered.
    suspect: Arc<Notify>,
}

/// What a server lists besides tools.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    pub resources: Vec<Resource>,
    pub templates: Vec<ResourceTemplate>,
    pub prompts: Vec<Prompt>,
}

/// What can change in a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tools,
    Resources,
    Prompts,
}

/// Announced changes, counted so that none is lost and many are one.
#[derive(Debug, Default)]
struct Changes {
    counts: [AtomicU64; 3],
    bell: Notify,
}

impl Changes {
    fn note(&self, kind: Kind) {
        self.counts[kind as usize].fetch_add(1, Ordering::SeqCst);
        self.bell.notify_one();
    }

    fn count(&self, kind: Kind) -> u64 {
        self.counts[kind as usize].load(Ordering::SeqCst)
    }
}

/// What a server is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum UpstreamState {
    /// It is switched off in the configuration.
    Disabled,
    /// It is being started or called.
    Connecting,
    /// It answers.
    Connected,
    /// It stopped or was not reached, and is tried again soon.
    Waiting,
    /// The gateway is ending.
    Stopped,
}

/// A server as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UpstreamStatus {
    /// Its name.
    pub server: String,
    /// What it is doing.
    pub state: UpstreamState,
    /// Tools that it listed last, those that policy hides left out.
    pub tools: usize,
    /// Tools of it that can be found and called now.
    pub indexed: usize,
    /// Tools that policy hides.
    pub hidden: usize,
    /// Since when its tools are those of an earlier listing, in seconds since 1970.
    pub stale_since: Option<u64>,
    /// What last went wrong; `None` when all is well.
    pub last_error: Option<String>,
    /// How often it was connected to.
    pub connections: u64,
    /// How often its tools were listed.
    pub listings: u64,
    /// Requests that it has not answered.
    pub open_calls: usize,
    /// Its process, for a stdio server that runs.
    pub process: Option<u32>,
    /// Its own name and version.
    pub implementation: Option<String>,
    /// Definitions that were left out, each with its reason.
    pub problems: Vec<String>,
    /// Tools that are withheld because they changed or were flagged, and how to accept them.
    pub withheld: Vec<String>,
}

impl fmt::Display for UpstreamStatus {
    /// One line: state, tools, and what is wrong.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            UpstreamState::Disabled => "disabled",
            UpstreamState::Connecting => "connecting",
            UpstreamState::Connected => "connected",
            UpstreamState::Waiting => "waiting",
            UpstreamState::Stopped => "stopped",
        };
        write!(f, "{}: {state}, {} tools, {} indexed", self.server, self.tools, self.indexed)?;
        if let Some(since) = self.stale_since {
            write!(f, ", stale since {since}")?;
        }
        if let Some(error) = &self.last_error {
            write!(f, ", last error: {error}")?;
        }
        Ok(())
    }
}

/// For whom a request is made, and where goes what the server says meanwhile.
pub(crate) struct Errand {
    pub session: u64,
    pub asides: mpsc::UnboundedSender<Aside>,
    pub cancelled: CancellationToken,
}

impl Errand {
    /// An errand, and where what is said about it comes out.
    pub(crate) fn new(
        session: u64,
        cancelled: CancellationToken,
    ) -> (Self, mpsc::UnboundedReceiver<Aside>) {
        let (asides, heard) = mpsc::unbounded_channel();
        (Self { session, asides, cancelled }, heard)
    }

    /// Puts a question to the client.
    pub(crate) async fn ask(&self, request: ServerRequest) -> Result<ClientResult, Failure> {
        let (answer, answered) = oneshot::channel();
        let withdrawn = self.cancelled.clone();
        let question = Box::new(Question { request, withdrawn, answer });
        if self.asides.send(Aside::Ask(question)).is_err() {
            return Err(Failure::Cancelled);
        }
        match answered.await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(Failure::Refused(error)),
            Err(_) => Err(Failure::Cancelled),
        }
    }
}

/// Why an upstream gave no result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It is not connected.
    Down(String),
    /// It went away while it worked on the request.
    Died(String),
    /// It was silent for too long.
    Silent(Duration),
    /// The client withdrew the request.
    Cancelled,
    /// It answered with an error of the protocol.
    Refused(ErrorData),
    /// It answered with something else than asked for.
    Odd,
}

impl Failure {
    /// The label of this failure in metrics.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Down(_) => "down",
            Self::Died(_) => "died",
            Self::Silent(_) => "timeout",
            Self::Cancelled => "cancelled",
            Self::Refused(_) => "refused",
            Self::Odd => "malformed",
        }
    }

    /// One sentence about `server` for the model or the client.
    pub(crate) fn text(&self, server: &str) -> String {
        match self {
            Self::Down(why) => format!(
                "server '{server}' is not connected ({why}); the call did not run: try it later or \
                 use another tool"
            ),
            Self::Died(why) => format!(
                "server '{server}' went away while the call ran ({why}); it may or may not have \
                 taken effect: check before you call again"
            ),
            Self::Silent(time) => format!(
                "server '{server}' gave no sign for {} seconds; the call was cancelled and may or \
                 may not have taken effect",
                time.as_secs_f64()
            ),
            Self::Cancelled => "the call was cancelled".to_owned(),
            Self::Refused(error) => format!("server '{server}' refused: {}", error.message),
            Self::Odd => format!("server '{server}' answered in a form that MCP does not know"),
        }
    }
}

impl Upstream {
    pub(crate) fn new(
        config: ServerConfig,
        sessions: Arc<Sessions>,
        metrics: Arc<Metrics>,
        indexer: Indexer,
    ) -> Arc<Self> {
        let state =
            if config.disabled { UpstreamState::Disabled } else { UpstreamState::Connecting };
        let status = UpstreamStatus {
            server: config.name.clone(),
            state,
            tools: 0,
            indexed: 0,
            hidden: 0,
            stale_since: None,
            last_error: None,
            connections: 0,
            listings: 0,
            open_calls: 0,
            process: None,
            implementation: None,
            problems: Vec::new(),
            withheld: Vec::new(),
        };
        Arc::new(Self {
            secrets: Secrets::of(&config.target, &config.variables),
            config,
            sessions,
            metrics,
            indexer,
            changes: Changes::default(),
            link: ArcSwapOption::empty(),
            status: Mutex::new(status),
            shelf: ArcSwap::default(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.config.name
    }

    pub(crate) fn status(&self) -> UpstreamStatus {
        let mut status = self.with_status(|status| status.clone());
        status.open_calls = self.link.load().as_ref().map_or(0, |link| link.flight.len());
        status
    }

    pub(crate) fn with_status<T>(&self, change: impl FnOnce(&mut UpstreamStatus) -> T) -> T {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn shelf(&self) -> Arc<Shelf> {
        self.shelf.load_full()
    }

    /// Whether the server said, when it was connected, that it can do what `asks` looks for.
    pub(crate) fn can(&self, asks: impl FnOnce(&rmcp::model::ServerCapabilities) -> bool) -> bool {
        let link = self.link.load();
        let info = link.as_ref().and_then(|link| link.peer.peer_info());
        info.is_some_and(|info| asks(&info.capabilities))
    }

    /// Sends a notification; one that cannot be delivered has no addressee any more.
    pub(crate) async fn notify(&self, notification: ClientNotification) {
        if let Some(link) = self.link.load_full() {
            let _ = link.peer.send_notification(notification).await;
        }
    }

    /// Makes a request whose answer says nothing; one that fails is logged.
    pub(crate) async fn tell(&self, request: ClientRequest) {
        let Some(link) = self.link.load_full() else { return };
        let options = PeerRequestOptions::with_timeout(self.config.settings.timeouts.list);
        let answer = async {
            link.peer.send_request_with_option(request, options).await?.await_response().await
        };
        if let Err(error) = answer.await {
            tracing::debug!(server = self.name(), "{}", self.redact(&error.to_string()));
        }
    }

    /// Makes a request.
    pub(crate) async fn request(
        &self,
        request: ClientRequest,
        meta: RequestMetaObject,
        errand: &Errand,
    ) -> Result<ServerResult, Failure> {
        let Some(link) = self.link.load_full() else { return Err(self.down()) };
        let patience = self.config.settings.timeouts.call;
        let options =
            PeerRequestOptions::with_timeout(patience).reset_timeout_on_progress().with_meta(meta);
        let mut entered = link.flight.enter(errand.session, errand.asides.clone());
        let Ok(handle) = link.peer.send_request_with_option(request, options).await else {
            return Err(self.down());
        };
        entered.made(handle.progress_token.clone());
        let id = handle.id.clone();
        tokio::select! {
            result = handle.await_response() => match result {
                Ok(result) => Ok(result),
                Err(error) => Err(self.failure(&link, error, patience).await),
            },
            () = errand.cancelled.cancelled() => {
                let reason = Some("the client cancelled".to_owned());
                let params = CancelledNotificationParam::new(Some(id), reason);
                let _ = link.peer.send_notification(CancelledNotification::new(params).into()).await;
                Err(Failure::Cancelled)
            }
        }
    }

    async fn failure(&self, link: &Link, error: ServiceError, patience: Duration) -> Failure {
        match error {
            ServiceError::McpError(error) => Failure::Refused(error),
            ServiceError::Timeout { .. } => Failure::Silent(patience),
            ServiceError::Cancelled { .. } => Failure::Cancelled,
            ServiceError::UnexpectedResponse => Failure::Odd,
            other => {
                link.suspect.notify_one();
                let mut ended = link.ended.clone();
                let how = tokio::time::timeout(LAST_WORDS, ended.wait_for(Option::is_some)).await;
                match how {
                    Ok(Ok(how)) => Failure::Died(how.clone().unwrap_or_default()),
                    _ => Failure::Died(self.redact(&other.to_string())),
                }
            }
        }
    }

    fn down(&self) -> Failure {
        let (state, error) = self.with_status(|status| (status.state, status.last_error.clone()));
        Failure::Down(match (state, error) {
            (_, Some(error)) => error,
            (UpstreamState::Disabled, None) => "it is disabled".to_owned(),
            _ => "it is still starting".to_owned(),
        })
    }

    /// `text` without what must not be in a log, whoever said it.
    fn redact(&self, text: &str) -> String {
        self.secrets.hide(text)
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("status", &self.status()).finish_non_exhaustive()
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
