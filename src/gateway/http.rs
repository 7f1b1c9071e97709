//! Streamable HTTP for clients, and who may use it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;

use super::downstream::{Downstream, SESSION_HEADER};
use super::hub::Hub;
use super::tokens::Tokens;
use crate::error::{Error, ErrorKind, Result};

/// How long a client may say nothing before its session is closed.
const IDLE: std::time::Duration = std::time::Duration::from_secs(1_800);
/// The largest request that is taken.
const MAX_REQUEST: usize = 16 * 1024 * 1024;

/// Refuses `address` if whoever reaches it could use every tool: beyond loopback there have to be
/// tokens.
pub(super) fn check(address: SocketAddr, what: &str, tokens: bool) -> Result<()> {
    if address.ip().is_loopback() || tokens {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidSetting,
        format!(
            "{what} would listen at {address}, beyond this machine, without authentication: give a \
             file of tokens or listen at 127.0.0.1"
        ),
    ))
}

/// A listener at `address`.
pub(super) async fn listen(address: SocketAddr, what: &str, tokens: bool) -> Result<TcpListener> {
    check(address, what, tokens)?;
    TcpListener::bind(address).await.map_err(|error| {
        let text = format!("{what} cannot listen at {address}: choose another address or port");
        Error::new(ErrorKind::Io, text).with_source(error)
    })
}

const BEARER: &str = "Bearer";
/// The most sessions whose clients have not said yet that they are ready.
const MAX_FRESH: usize = 1_024;

/// Who may call: names of this machine, and tokens.
#[derive(Clone)]
pub(super) struct Door {
    hub: Arc<Hub>,
    tokens: Option<Arc<Tokens>>,
    hosts: Arc<[String]>,
    /// Sessions that were just opened, and by whom: the hub knows them when their clients are ready.
    fresh: Arc<Mutex<Fresh>>,
}

/// Sessions and whose they are, oldest first.
type Fresh = VecDeque<(String, Option<String>)>;

impl Door {
    pub(super) fn new(hub: &Arc<Hub>, tokens: Option<Arc<Tokens>>, address: SocketAddr) -> Self {
        let mut hosts: Vec<String> =
            ["localhost", "127.0.0.1", "::1"].into_iter().map(str::to_owned).collect();
        if !address.ip().is_unspecified() {
            hosts.push(address.ip().to_string());
        }
        hosts.extend(hub.settings.hosts.iter().cloned());
        Self { hub: Arc::clone(hub), tokens, hosts: hosts.into(), fresh: Arc::default() }
    }

    fn opened(&self, id: &str, owner: Option<String>) {
        let mut fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        if fresh.len() == MAX_FRESH {
            fresh.pop_front();
        }
        fresh.push_back((id.to_owned(), owner));
    }

    /// Whether the session is of this owner.
    fn owns(&self, id: &str, owner: Option<&str>) -> bool {
        if let Some(open) = self.hub.sessions.all().iter().find(|open| open.key() == Some(id)) {
            return open.identity.owner.as_deref() == owner;
        }
        if let Some(stored) = self.hub.state.as_ref().and_then(|state| state.owner(id)) {
            return stored.as_deref() == owner;
        }
        let fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        fresh.iter().any(|(other, of)| other == id && of.as_deref() == owner)
    }

    /// `routes`, behind this door.
    pub(super) fn guard(self, routes: Router) -> Router {
        routes.layer(from_fn_with_state(self, enter))
    }

    /// `routes`, for the operator's eyes: a browser may give the token as a password.
    pub(super) fn guard_watching(self, routes: Router) -> Router {
        routes.layer(from_fn_with_state(self, watch))
    }

    /// A page on another site must not reach a gateway on its reader's machine: the name that it
    /// was called by has to be known, and the site that a browser names has to be, too.
    fn is_known(&self, headers: &HeaderMap) -> bool {
        let text = |name| headers.get(name).map(|value: &axum::http::HeaderValue| value.to_str());
        let Some(Ok(host)) = text(header::HOST) else { return false };
        let known = |name: &str| self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name));
        if !known(host) && !known(without_port(host)) {
            return false;
        }
        match text(header::ORIGIN) {
            None => true,
            Some(Err(_)) => false,
            Some(Ok(origin)) => {
                let listed = &self.hub.settings.origins;
                let site = origin.split_once("://").map(|(_, site)| without_port(site));
                listed.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin))
                    || site.is_some_and(|site| matches!(site, "localhost" | "127.0.0.1" | "::1"))
            }
        }
    }
}

fn without_port(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

fn stranger() -> Response {
    (StatusCode::FORBIDDEN, "This host or origin is not allowed.").into_response()
}

/// What a request comes with under one of `schemes`: a token, or the password of a browser's user,
/// whose name means nothing.
fn secret(headers: &HeaderMap, schemes: &[&str]) -> Option<String> {
    let (scheme, text) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let scheme = schemes.iter().find(|known| scheme.eq_ignore_ascii_case(known))?;
    if *scheme == BEARER {
        return Some(text.trim().to_owned());
    }
    let pair = String::from_utf8(BASE64_STANDARD.decode(text.trim()).ok()?).ok()?;
    pair.split_once(':').map(|(_, password)| password.to_owned())
}

async fn watch(State(door): State<Door>, request: Request, next: Next) -> Response {
    if !door.is_known(request.headers()) {
        return stranger();
    }
    if let Some(tokens) = &door.tokens {
        let secret = secret(request.headers(), &[BEARER, "Basic"]);
        match secret.as_deref().and_then(|secret| tokens.find(secret)) {
            Some(token) if token.is_operator() => {}
            Some(token) => {
                let text = format!(
                    "The token '{}' is not an operator's. Mark it with \"operator\": true in the file \
                     of tokens, or come with another.",
                    token.name()
                );
                return (StatusCode::FORBIDDEN, text).into_response();
            }
            None => {
                return (
                    StatusCode::UNAUTHORIZED,
                    [(header::WWW_AUTHENTICATE, "Basic realm=\"toolrack\", charset=\"UTF-8\"")],
                    "An operator's token is needed, as the password; the user's name does not matter.",
                )
                    .into_response();
            }
        }
    }
    next.run(request).await
}

async fn enter(State(door): State<Door>, mut request: Request, next: Next) -> Response {
    if !door.is_known(request.headers()) {
        return stranger();
    }
    let mut owner = None;
    if let Some(tokens) = &door.tokens {
        let secret = secret(request.headers(), &[BEARER]);
        let Some(token) = secret.as_deref().and_then(|secret| tokens.find(secret)).cloned() else {
            return (
                StatusCode::UNAUTHORIZED,
                [(header::WWW_AUTHENTICATE, "Bearer realm=\"toolrack\"")],
                "A bearer token is needed.",
            )
                .into_response();
        };
        owner = Some(token.name().to_owned());
        // What comes after has no use for it and must not log it.
        request.headers_mut().remove(header::AUTHORIZATION);
        request.extensions_mut().insert(token);
    }
    let id = request.headers().get(SESSION_HEADER).and_then(|id| id.to_str().ok());
    let opens = id.is_none();
    if let Some(id) = id
        && !door.owns(id, owner.as_deref())
    {
        return (StatusCode::NOT_FOUND, "There is no such session.").into_response();
    }
    let response = next.run(request).await;
    let id = response.headers().get(SESSION_HEADER).and_then(|id| id.to_str().ok());
    if let (true, Some(id)) = (opens, id) {
        door.opened(id, owner);
    }
    response
}

/// The endpoint `/mcp`.
pub(super) fn routes(hub: &Arc<Hub>, door: Door) -> Router {
    let mut sessions = LocalSessionManager::default();
    let mut config = SessionConfig::default();
    config.keep_alive = Some(hub.settings.idle.unwrap_or(IDLE));
    sessions.session_config = config;

    let mut config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(door.hosts.iter().cloned())
        .with_max_request_body_bytes(MAX_REQUEST)
        .with_cancellation_token(hub.end.child_token());
    if let Some(state) = &hub.state {
        config.session_store = Some(Arc::clone(state) as Arc<_>);
    }
    let factory = Arc::clone(hub);
    let service = StreamableHttpService::new(
        move || Ok(Downstream::new(Arc::clone(&factory), false)),
        Arc::new(sessions),
        config,
    );
    door.guard(Router::new().nest_service("/mcp", service))
}

/// The endpoint `/metrics`.
pub(super) fn metrics_routes(hub: &Arc<Hub>, door: Door) -> Router {
    let metrics = Arc::clone(&hub.metrics);
    let text = move || {
        let metrics = Arc::clone(&metrics);
        async move {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], Body::from(metrics.text()))
        }
    };
    door.guard(Router::new().route("/metrics", get(text)))
}

#[cfg(test)]
mod tests {
    use super::without_port;

    #[test]
    fn ports_are_cut_off() {
        for (authority, host) in
            [("localhost:80", "localhost"), ("localhost", "localhost"), ("[::1]:8", "::1")]
        {
            assert_eq!(without_port(authority), host);
        }
    }
}
