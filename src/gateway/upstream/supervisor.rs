//! Keeps one server connected for as long as the gateway runs.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{HeaderName, HeaderValue};
use rmcp::RoleClient;
use rmcp::model::ProtocolVersion;
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, RunningService, serve_client_with_lifecycle_and_ct,
};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::flight::Flight;
use super::handler::Handler;
use super::process::Process;
use super::tap::Tap;
use super::{Kind, Link, MAX_MESSAGE, Shelf, Upstream, UpstreamState, listing, now};
use crate::gateway::config::Target;
use crate::gateway::indexer::Answer;
use crate::gateway::settings::Restart;

/// Least time between two listings, however often a change is announced: 1,000 announcements in 10
/// seconds make at most 15 listings.
const LISTING_PAUSE: Duration = Duration::from_millis(750);
/// First pause before a listing that failed is tried again.
const LISTING_RETRY: Duration = Duration::from_secs(2);

/// Connects to `upstream` again and again until `end`.
pub(crate) async fn supervise(upstream: Arc<Upstream>, end: CancellationToken) {
    if upstream.config.disabled {
        return;
    }
    let mut backoff = Backoff::new(upstream.config.settings.restart);
    let mut lifecycle = Lifecycle::Handshake;
    while !end.is_cancelled() {
        upstream.with_status(|status| status.state = UpstreamState::Connecting);
        let began = Instant::now();
        let why = match connect(&upstream, lifecycle, &end).await {
            Ok(connection) => stay(&upstream, connection, &end).await,
            Err(Refusal::Modern) if lifecycle == Lifecycle::Handshake => {
                lifecycle = Lifecycle::Discovery;
                continue;
            }
            Err(Refusal::Modern) => "it speaks no version of MCP that the gateway does".to_owned(),
            Err(Refusal::Because(why)) => upstream.redact(&why),
        };
        if end.is_cancelled() {
            break;
        }
        // Who comes back may be another release.
        lifecycle = Lifecycle::Handshake;
        if began.elapsed() > upstream.config.settings.restart.most {
            backoff.reset();
        }
        let pause = backoff.next();
        tracing::warn!(server = upstream.name(), "{why}; trying again in {pause:?}");
        upstream.went_away(&why);
        tokio::select! {
            () = end.cancelled() => break,
            () = tokio::time::sleep(pause) => {}
        }
    }
    upstream.with_status(|status| {
        status.state = UpstreamState::Stopped;
        status.process = None;
    });
}

/// How a connection begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lifecycle {
    /// With `initialize`, as all versions before 2026-07-28 do.
    Handshake,
    /// With `server/discover`.
    Discovery,
}

enum Refusal {
    /// The server knows no handshake.
    Modern,
    Because(String),
}

/// A connection just made.
struct Connection {
    running: RunningService<RoleClient, Handler>,
    process: Option<Process>,
    flight: Arc<Flight>,
}

async fn connect(
    upstream: &Arc<Upstream>,
    lifecycle: Lifecycle,
    end: &CancellationToken,
) -> Result<Connection, Refusal> {
    let flight = Arc::new(Flight::default());
    let handler = Handler { upstream: Arc::clone(upstream), flight: Arc::clone(&flight) };
    let patience = upstream.config.settings.timeouts.connect;
    let mode = match lifecycle {
        Lifecycle::Handshake => ClientLifecycleMode::Initialize,
        Lifecycle::Discovery => {
            ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] }
        }
    };
    let stop = CancellationToken::new();
    let (running, process) = match &upstream.config.target {
        Target::Stdio { command, args, env, cwd } => {
            let spawned = Process::spawn(
                upstream.name(),
                command,
                args,
                env,
                cwd.as_ref(),
                &upstream.secrets,
            );
            let (process, streams) = spawned.map_err(|error| {
                Refusal::Because(format!("'{command}' cannot be started: {error}"))
            })?;
            upstream.with_status(|status| status.process = process.id());
            let transport = AsyncRwTransport::new_client(streams.stdout, streams.stdin)
                .with_max_line_length(MAX_MESSAGE);
            let transport = Tap::new(transport, Arc::clone(&flight));
            let serving =
                serve_client_with_lifecycle_and_ct(handler, transport, mode, stop.clone());
            let outcome = tokio::select! {
                outcome = tokio::time::timeout(patience, serving) => Some(outcome),
                () = end.cancelled() => None,
            };
            match outcome {
                Some(Ok(Ok(running))) => (running, Some(process)),
                outcome => {
                    // The transport is gone, and with it the process's input.
                    let how = process.stop().await;
                    return Err(match outcome {
                        Some(Ok(Err(error))) => refusal(upstream, &error, Some(&how)),
                        Some(Err(_)) => Refusal::Because(format!(
                            "it did not answer the handshake within {} seconds",
                            patience.as_secs_f64()
                        )),
                        _ => Refusal::Because(how),
                    });
                }
            }
        }
        Target::Http { url, headers } => {
            let config = http_config(url, headers).map_err(Refusal::Because)?;
            let transport = StreamableHttpClientTransport::from_config(config);
            let transport = Tap::new(transport, Arc::clone(&flight));
            let serving =
                serve_client_with_lifecycle_and_ct(handler, transport, mode, stop.clone());
            let outcome = tokio::select! {
                outcome = tokio::time::timeout(patience, serving) => outcome,
                () = end.cancelled() => return Err(Refusal::Because("the gateway ends".into())),
            };
            match outcome {
                Ok(Ok(running)) => (running, None),
                Ok(Err(error)) => return Err(refusal(upstream, &error, None)),
                Err(_) => {
                    return Err(Refusal::Because(format!(
                        "it did not answer the handshake within {} seconds",
                        patience.as_secs_f64()
                    )));
                }
            }
        }
    };
    Ok(Connection { running, process, flight })
}

fn refusal(upstream: &Upstream, error: &ClientInitializeError, how: Option<&str>) -> Refusal {
    match error {
        ClientInitializeError::JsonRpcError(error)
            if error.code == rmcp::model::ErrorCode::METHOD_NOT_FOUND
                || error.code == rmcp::model::ErrorCode::UNSUPPORTED_PROTOCOL_VERSION =>
        {
            Refusal::Modern
        }
        ClientInitializeError::JsonRpcError(error) => {
            Refusal::Because(format!("it refused the handshake: {}", error.message))
        }
        // A pipe breaks when whoever held its other end has left.
        ClientInitializeError::ConnectionClosed(_)
        | ClientInitializeError::TransportError { .. }
            if how.is_some() =>
        {
            Refusal::Because(format!("it ended before the handshake: {}", how.unwrap_or_default()))
        }
        other if other.is_authorization_required() => {
            Refusal::Because("it asks for authorization: give it in 'headers'".to_owned())
        }
        other => {
            let cause: &dyn std::error::Error = match other {
                // What stands around the cause are names of types.
                ClientInitializeError::TransportError { error, .. } => error.error.as_ref(),
                other => other,
            };
            let mut text = cause.to_string();
            let mut source = cause.source();
            while let Some(cause) = source {
                let cause_text = cause.to_string();
                if !text.contains(&cause_text) {
                    text = format!("{text}: {cause_text}");
                }
                source = cause.source();
            }
            Refusal::Because(format!("the handshake failed: {}", upstream.redact(&text)))
        }
    }
}

fn http_config(
    url: &str,
    headers: &std::collections::BTreeMap<String, String>,
) -> Result<StreamableHttpClientTransportConfig, String> {
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .max_concurrent_requests(64)
        .max_sse_event_size(MAX_MESSAGE)
        .max_json_response_size(MAX_MESSAGE);
    let mut custom = HashMap::new();
    for (name, value) in headers {
        let bearer = value.strip_prefix("Bearer ").or_else(|| value.strip_prefix("bearer "));
        if name.eq_ignore_ascii_case("authorization")
            && let Some(token) = bearer
        {
            config = config.auth_header(token.trim());
            continue;
        }
        let name = HeaderName::try_from(name.as_str())
            .map_err(|_| format!("'{name}' is no header name: correct it"))?;
        let mut value = HeaderValue::try_from(value.as_str())
            .map_err(|_| format!("the value of header '{name}' is not plain text: correct it"))?;
        value.set_sensitive(true);
        custom.insert(name, value);
    }
    Ok(config.custom_headers(custom))
}

/// Serves a connection until it ends; says how it ended.
async fn stay(upstream: &Arc<Upstream>, connection: Connection, end: &CancellationToken) -> String {
    let Connection { running, process, flight } = connection;
    let peer = running.peer().clone();
    let (ended, watched) = watch::channel(None);
    let suspect = Arc::new(Notify::new());
    let link = Arc::new(Link {
        peer: peer.clone(),
        flight,
        ended: watched,
        suspect: Arc::clone(&suspect),
    });
    let info = peer.peer_info();
    upstream.with_status(|status| {
        status.state = UpstreamState::Connected;
        status.connections += 1;
        status.implementation = info
            .as_ref()
            .and_then(|info| info.server_info.as_ref())
            .map(|own| format!("{} {}", own.name, own.version));
    });
    upstream.link.store(Some(link));
    tracing::info!(server = upstream.name(), "connected");
    upstream.sessions.pass_log_level(upstream).await;

    let stop = running.cancellation_token();
    let mut quit = tokio::spawn(running.waiting());
    let why = {
        let mut lists = std::pin::pin!(keep_lists(upstream, &peer, &suspect));
        tokio::select! {
            _ = &mut quit => None,
            why = &mut lists => Some(why),
            () = end.cancelled() => None,
        }
    };
    upstream.link.store(None);
    stop.cancel();
    if !quit.is_finished() {
        let _ = tokio::time::timeout(Duration::from_secs(5), &mut quit).await;
    }
    let why = match (process, why) {
        (None, why) => why.unwrap_or_else(|| "the connection closed".to_owned()),
        (Some(process), None) => process.stop().await,
        // That it could not be asked is no reason when it had left before.
        (Some(mut process), Some(why)) => {
            let left = process.has_left().await;
            let how = process.stop().await;
            if left { how } else { why }
        }
    };
    let why = upstream.redact(&why);
    let _ = ended.send(Some(why.clone()));
    why
}

/// Lists, then lists again what changes; returns only when the server does not answer any more.
async fn keep_lists(
    upstream: &Arc<Upstream>,
    peer: &rmcp::service::Peer<RoleClient>,
    suspect: &Notify,
) -> String {
    const KINDS: [Kind; 3] = [Kind::Tools, Kind::Resources, Kind::Prompts];
    let mut done = [None::<u64>; 3];
    let mut retry = LISTING_RETRY;
    loop {
        let began = tokio::time::Instant::now();
        let mut failed = false;
        for kind in KINDS {
            let count = upstream.changes.count(kind);
            if done[kind as usize] == Some(count) {
                continue;
            }
            match upstream.list(kind, peer).await {
                Ok(()) => done[kind as usize] = Some(count),
                Err(why) => {
                    let why = upstream.redact(&why);
                    tracing::warn!(server = upstream.name(), "{why}");
                    failed = true;
                    upstream.list_failed(kind, &why);
                }
            }
        }
        if peer.is_transport_closed() {
            return "the connection closed".to_owned();
        }
        if failed {
            tokio::select! {
                () = tokio::time::sleep(retry) => {}
                () = upstream.changes.bell.notified() => {}
            }
            retry = (retry * 2).min(Duration::from_secs(60));
        } else {
            retry = LISTING_RETRY;
            tokio::select! {
                () = upstream.changes.bell.notified() => {}
                () = suspect.notified() => {
                    // A request could not be delivered: whoever still lists tools is still there.
                    let patience = upstream.config.settings.timeouts.list;
                    if let Err(why) = listing::tools(peer, patience).await {
                        return why;
                    }
                }
            }
        }
        tokio::time::sleep_until(began + LISTING_PAUSE).await;
    }
}

impl Upstream {
    async fn list(
        self: &Arc<Self>,
        kind: Kind,
        peer: &rmcp::service::Peer<RoleClient>,
    ) -> Result<(), String> {
        let patience = self.config.settings.timeouts.list;
        match kind {
            Kind::Tools => {
                let tools = if self.can(|can| can.tools.is_some()) {
                    listing::tools(peer, patience).await?
                } else {
                    Vec::new()
                };
                self.with_status(|status| status.listings += 1);
                self.metrics.listed(self.name());
                self.indexer.put(Arc::clone(self), Answer::Tools(tools));
            }
            Kind::Resources => {
                if self.can(|can| can.resources.is_some()) {
                    let (resources, templates) = listing::resources(peer, patience).await?;
                    self.reshelve(|shelf| Shelf {
                        resources,
                        templates,
                        prompts: shelf.prompts.clone(),
                    });
                    self.sessions.resources_changed().await;
                }
            }
            Kind::Prompts => {
                if self.can(|can| can.prompts.is_some()) {
                    let prompts = listing::prompts(peer, patience).await?;
                    self.reshelve(|shelf| Shelf {
                        resources: shelf.resources.clone(),
                        templates: shelf.templates.clone(),
                        prompts,
                    });
                    self.sessions.prompts_changed().await;
                }
            }
        }
        Ok(())
    }

    fn reshelve(&self, change: impl FnOnce(&Shelf) -> Shelf) {
        let next = change(&self.shelf.load());
        self.shelf.store(Arc::new(next));
    }

    fn list_failed(self: &Arc<Self>, kind: Kind, why: &str) {
        self.with_status(|status| {
            status.last_error = Some(why.to_owned());
            if kind == Kind::Tools {
                status.stale_since.get_or_insert_with(now);
            }
        });
        if kind == Kind::Tools {
            self.indexer.put(Arc::clone(self), Answer::Nothing(why.to_owned()));
        }
    }

    fn went_away(self: &Arc<Self>, why: &str) {
        self.with_status(|status| {
            status.state = UpstreamState::Waiting;
            status.last_error = Some(why.to_owned());
            status.process = None;
            status.stale_since.get_or_insert_with(now);
        });
        self.metrics.went_away(self.name());
        self.indexer.put(Arc::clone(self), Answer::Nothing(why.to_owned()));
    }
}

/// Pauses that double.
struct Backoff {
    rule: Restart,
    next: Duration,
    random: RandomState,
    steps: u64,
}

impl Backoff {
    fn new(rule: Restart) -> Self {
        Self { rule, next: rule.first, random: RandomState::new(), steps: 0 }
    }

    fn reset(&mut self) {
        self.next = self.rule.first;
    }

    fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (self.next * 2).min(self.rule.most);
        self.steps += 1;
        if !self.rule.jitter {
            return pause;
        }
        let random = self.random.hash_one(self.steps) % 256;
        pause.mul_f64(1.0 - random as f64 / 1024.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_most() {
        let rule = Restart { jitter: false, most: Duration::from_secs(3), ..Restart::default() };
        let mut backoff = Backoff::new(rule);
        let pauses: Vec<u128> = (0..5).map(|_| backoff.next().as_millis()).collect();
        assert_eq!(pauses, [500, 1000, 2000, 3000, 3000]);
        backoff.reset();
        assert_eq!(backoff.next().as_millis(), 500);
    }

    #[test]
    fn jitter_takes_at_most_a_quarter_off() {
        let mut backoff = Backoff::new(Restart::default());
        for _ in 0..20 {
            let whole = backoff.next;
            let pause = backoff.next();
            assert!(pause <= whole && pause >= whole.mul_f64(0.75));
        }
    }
}
