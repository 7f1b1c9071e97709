//! An MCP gateway: many servers behind one, with the working set in between.
//!
//! [`serve`] reads the same `mcpServers` JSON that MCP clients use, connects to every server and is
//! itself one MCP server, over standard streams or streamable HTTP. A client sees the few tools that
//! it needs, looks for others with `find_tool` and calls what it found.
//!
//! Given a [`Config`] and [`Options`], it gives a [`Gateway`]; what flows through it is untouched:
//! results with structured content, images and annotations, errors of tools, progress, cancellation,
//! logging, sampling, elicitation and roots.
//!
//! - [`config`](Config) → upstream (one supervised connection a server) → indexer → engine
//! - client → downstream → run (its working set) → gate → upstream

// Sampling, roots, logging and the old subscriptions are on their way out of the protocol, but
// servers and clients use them.
#![allow(deprecated)]

mod clients;
mod config;
mod downstream;
mod http;
mod hub;
mod indexer;
mod jsonc;
mod metrics;
mod names;
mod run;
mod section;
mod sessions;
mod settings;
mod state;
mod tokens;
mod upstream;
mod watch;
mod words;
mod xray;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rmcp::service::{ServerInitializeError, serve_server_with_ct};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

pub use config::{Config, ServerConfig, Target};
pub use section::{Lookup, address};
pub use settings::{Mode, Restart, ServerSettings, Settings, Timeouts};
pub use tokens::{Token, Tokens};
pub use upstream::{UpstreamState, UpstreamStatus};

use crate::catalog::{Catalog, TrustPolicy};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use downstream::Downstream;
use http::Door;
use hub::Hub;
use state::StateFile;

/// The largest message that is taken from a stdio client.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// How a gateway is run. What is not given here is as the [`Config`] says ([`Settings::options`]).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// Where to serve streamable HTTP, at `/mcp`; standard streams by default.
    pub http: Option<SocketAddr>,
    /// How tools are offered; by the client's name by default.
    pub mode: Option<Mode>,
    /// Where to serve the X-ray page: servers, sessions, and what each of them sees and why.
    pub xray: Option<SocketAddr>,
    /// Where to serve figures for Prometheus, at `/metrics`.
    pub metrics: Option<SocketAddr>,
    /// File in which sessions outlive the process.
    pub state: Option<PathBuf>,
    /// File of bearer tokens; see [`Tokens`].
    pub tokens: Option<PathBuf>,
}

impl Options {
    /// These options, and `others` where nothing is given here.
    fn or(self, others: &Self) -> Self {
        Self {
            http: self.http.or(others.http),
            mode: self.mode.or(others.mode),
            xray: self.xray.or(others.xray),
            metrics: self.metrics.or(others.metrics),
            state: self.state.or_else(|| others.state.clone()),
            tokens: self.tokens.or_else(|| others.tokens.clone()),
        }
    }

    /// Looks for files in `folder` unless they say where they are.
    fn look_in(&mut self, folder: &Path) {
        for path in [&mut self.state, &mut self.tokens].into_iter().flatten() {
            *path = folder.join(&*path);
        }
    }
}

/// A running gateway. [`close`](Self::close) it: what is dropped leaves processes to end by
/// themselves.
#[derive(Debug, Clone)]
pub struct Gateway {
    hub: Arc<Hub>,
    tokens: Option<Arc<Tokens>>,
}

impl Gateway {
    /// A gateway whose servers fill `engine`'s catalog. They are not called before a client comes
    /// over standard streams, or HTTP is served.
    ///
    /// # Errors
    /// For a file of `options` that cannot be read, as [`Tokens::read`]; [`ErrorKind::Format`],
    /// [`ErrorKind::FormatVersion`] or [`ErrorKind::Io`] for the state.
    ///
    /// # Panics
    /// When called outside a tokio runtime.
    pub fn new(engine: Engine, config: Config, options: &Options) -> Result<Self> {
        let options = options.clone().or(&config.settings.options);
        let tokens = options.tokens.as_ref().map(Tokens::read).transpose()?.map(Arc::new);
        let state = options.state.as_deref().map(StateFile::open).transpose()?;
        let mut trust = config.settings.trust.clone();
        if trust != TrustPolicy::default() {
            if let Some(state) = &state {
                // What the operator accepted in the configuration goes before what was seen.
                for (tool, hash) in state.pins() {
                    if !trust.pins.contains_key(&tool) {
                        trust.unreviewed.insert(tool.clone());
                        trust.pins.insert(tool, hash);
                    }
                }
            }
            engine.set_trust(trust)?;
        }
        let hub = Hub::new(engine, config, options.mode, state);
        if options.xray.is_some() {
            hub.watch();
        }
        Ok(Self { hub, tokens })
    }

    /// Serves the client on standard input and output until it leaves.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when the client does not speak MCP.
    pub async fn serve_stdio(&self) -> Result<()> {
        let (input, output) = stdio_pipes();
        self.serve_streams(input, output).await
    }

    /// Serves one client on any two streams until it leaves. A gateway serves one client so, because
    /// what the client can do is what servers are told.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when the client does not speak MCP.
    pub async fn serve_streams(
        &self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Result<()> {
        let transport =
            AsyncRwTransport::new_server(input, output).with_max_line_length(MAX_MESSAGE);
        let downstream = Downstream::new(Arc::clone(&self.hub), true);
        let end = self.hub.end.child_token();
        let running = match serve_server_with_ct(downstream, transport, end.clone()).await {
            Ok(running) => running,
            // A client that leaves before it says anything wanted nothing.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(_) if end.is_cancelled() => return Ok(()),
            Err(error) => {
                let text =
                    "the client did not begin as MCP asks for: start this from an MCP client";
                return Err(Error::new(ErrorKind::Io, text).with_source(error));
            }
        };
        let _ = running.waiting().await;
        Ok(())
    }

    /// Serves streamable HTTP at `/mcp` until the gateway is closed.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when the listener fails, [`ErrorKind::InvalidSetting`] when it is beyond
    /// loopback and there are no tokens.
    pub async fn serve_http(&self, listener: TcpListener) -> Result<()> {
        self.hub.start();
        let door = self.door(&listener)?;
        serve_routes(listener, http::routes(&self.hub, door), &self.hub).await
    }

    /// Serves the X-ray page until the gateway is closed: at `/` the servers and sessions, behind it a
    /// page for each session, `/state` for machines. What a session did is shown if it began after
    /// this, or if [`Options::xray`] was set. With tokens, a browser is asked for one as a password, and it has to
    /// be an operator's.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when the listener fails, [`ErrorKind::InvalidSetting`] when it is beyond
    /// loopback and there are no tokens.
    pub async fn serve_xray(&self, listener: TcpListener) -> Result<()> {
        let door = self.door(&listener)?;
        self.hub.watch();
        serve_routes(listener, xray::routes(&self.hub, door), &self.hub).await
    }

    /// Serves figures at `/metrics` until the gateway is closed.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when the listener fails, [`ErrorKind::InvalidSetting`] when it is beyond
    /// loopback and there are no tokens.
    pub async fn serve_metrics(&self, listener: TcpListener) -> Result<()> {
        let door = self.door(&listener)?;
        serve_routes(listener, http::metrics_routes(&self.hub, door), &self.hub).await
    }

    fn door(&self, listener: &TcpListener) -> Result<Door> {
        let address = listener.local_addr().map_err(|error| {
            Error::new(ErrorKind::Io, "a listener has no address: bind it first").with_source(error)
        })?;
        http::check(address, "the gateway", self.tokens.is_some())?;
        Ok(Door::new(&self.hub, self.tokens.clone(), address))
    }

    /// The servers as they are, in the order of the configuration.
    pub fn status(&self) -> Vec<UpstreamStatus> {
        self.hub.upstreams.iter().map(|upstream| upstream.status()).collect()
    }

    /// Ends all sessions and servers and waits until every process has left.
    pub async fn close(&self) {
        self.hub.close().await;
    }
}

async fn serve_routes(listener: TcpListener, routes: axum::Router, hub: &Arc<Hub>) -> Result<()> {
    let end = hub.end.clone();
    let serving = axum::serve(listener, routes).with_graceful_shutdown({
        let end = end.clone();
        async move { end.cancelled().await }
    });
    tokio::select! {
        served = serving => served.map_err(|error| {
            Error::new(ErrorKind::Io, "serving HTTP failed: start again").with_source(error)
        }),
        // Event streams that clients hold open must not keep the process.
        () = async { end.cancelled().await; tokio::time::sleep(std::time::Duration::from_secs(2)).await } => Ok(()),
    }
}

/// The tools of all servers of `config`, and how each server fared. Every server is asked once,
/// within its time limits, and stopped again.
///
/// # Errors
/// As [`Gateway::new`].
pub async fn catalog(config: Config) -> Result<(Catalog, Vec<UpstreamStatus>)> {
    let engine = Engine::builder(Catalog::empty()).without_embedder().build()?;
    let hub = Hub::new(engine.clone(), config, None, None);
    hub.start();
    hub.all_heard().await;
    let status = hub.upstreams.iter().map(|upstream| upstream.status()).collect();
    hub.close().await;
    Ok((engine.catalog().clone(), status))
}

/// Serves `config` as `options` say until the client leaves or the process is told to end.
///
/// # Errors
/// As [`Gateway::new`]; [`ErrorKind::InvalidSetting`] for an address beyond loopback without tokens;
/// [`ErrorKind::Io`] for an address that cannot be listened at.
pub async fn serve(config: Config, options: Options) -> Result<()> {
    let engine = Engine::builder(Catalog::empty()).build()?;
    serve_with(engine, config, options).await
}

/// Like [`serve`], with an engine of one's own: another model, gate or token counter.
///
/// # Errors
/// As [`serve`].
pub async fn serve_with(engine: Engine, config: Config, options: Options) -> Result<()> {
    let options = options.or(&config.settings.options);
    let gateway = Gateway::new(engine, config, &options)?;
    let authenticated = gateway.tokens.is_some();
    let listen = async |address: Option<SocketAddr>, what: &str| match address {
        Some(address) => http::listen(address, what, authenticated).await.map(Some),
        None => Ok(None),
    };
    let (http, xray, metrics) = (
        listen(options.http, "the gateway").await?,
        listen(options.xray, "the X-ray page").await?,
        listen(options.metrics, "the metrics endpoint").await?,
    );
    for (listener, what) in [(&http, "mcp"), (&xray, ""), (&metrics, "metrics")] {
        if let Some(address) = listener.as_ref().and_then(|listener| listener.local_addr().ok()) {
            tracing::info!("serving http://{address}/{what}");
        }
    }
    let beside = gateway.clone();
    let extras = async move {
        let xray = async {
            match xray {
                Some(listener) => beside.serve_xray(listener).await,
                None => std::future::pending().await,
            }
        };
        let metrics = async {
            match metrics {
                Some(listener) => beside.serve_metrics(listener).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! { outcome = xray => outcome, outcome = metrics => outcome }
    };
    let main = async {
        match http {
            Some(listener) => gateway.serve_http(listener).await,
            None => gateway.serve_stdio().await,
        }
    };
    let outcome = tokio::select! {
        outcome = main => outcome,
        outcome = extras => outcome,
        () = told_to_end() => Ok(()),
    };
    gateway.close().await;
    outcome
}

/// Waits for the signals that ask a process to end.
async fn told_to_end() {
    let interrupt = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let (Ok(mut terminate), Ok(mut hangup)) =
            (signal(SignalKind::terminate()), signal(SignalKind::hangup()))
        {
            tokio::select! {
                _ = interrupt => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            return;
        }
    }
    let _ = interrupt.await;
}
