//! The gateway in a browser: its servers and sessions, and behind each session its run.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures_util::{StreamExt as _, stream};
use serde_json::json;

use super::http::Door;
use super::hub::Hub;
use super::sessions::ClientSession;
use super::settings::Mode;
use super::watch::{Place, Watcher};
use crate::xray::{self, Whose};

/// How often the overview is sent what changed.
const PERIOD: Duration = Duration::from_millis(500);
/// Style of the overview, beside that of a run's page.
const CSS: &str = include_str!("overview.css");
const JS: &str = include_str!("overview.js");

/// - `/` is the overview and `/events` what it follows, `/state` the same for machines.
/// - `/session/{number}` is the page of one session, `/session/{number}/events` its trace.
pub(super) fn routes(hub: &Arc<Hub>, door: Door) -> Router {
    let with = || Arc::clone(hub);
    let (state, events, page, trace) = (with(), with(), with(), with());
    let routes =
        Router::new()
            .route("/", get(async || Html(overview())))
            .route("/state", get(move || async move { Json(state.view()) }))
            .route("/events", get(move || async move { follow(events) }))
            .route(
                "/session/{number}",
                get(move |Path(number)| async move { session(&page, number) }),
            )
            .route(
                "/session/{number}/events",
                get(move |Path(number), headers: HeaderMap| async move {
                    watch(&trace, number, &headers)
                }),
            );
    door.guard_watching(routes)
}

fn overview() -> String {
    xray::fill(CSS, &json!({ "stream": "/events" }), JS)
}

fn find(hub: &Hub, number: u64) -> Option<Arc<ClientSession>> {
    hub.sessions.all().into_iter().find(|session| session.number == number)
}

fn session(hub: &Hub, number: u64) -> Response {
    let stream = format!("/session/{number}/events");
    let open = find(hub, number);
    let name = match &open {
        Some(open) => format!("Session {number}: {}", open.identity.client.name),
        None => format!("Session {number}"),
    };
    let note = open.as_ref().and_then(|open| {
        if open.run.watcher().is_none() {
            return Some("The session began before anybody watched: what it does is not kept.");
        }
        (open.identity.mode == Mode::Bridge).then_some(
            "This client's list never changes: find_tool, describe_tool and call_tool. What is \
             listed here is what it has found and may call through them.",
        )
    });
    let page = xray::session_page(&stream, &Whose { name: &name, home: "/", note });
    let status = if open.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
    (status, Html(page)).into_response()
}

/// The trace of a session from where the page was; `end` when it is over.
fn watch(hub: &Arc<Hub>, number: u64, headers: &HeaderMap) -> Response {
    let last = headers.get("last-event-id").and_then(|id| Place::parse(id.to_str().ok()?));
    let watcher = find(hub, number).and_then(|session| session.run.watcher());
    let hub = Arc::clone(hub);
    let batches = stream::unfold(Some((watcher, last)), move |at| {
        let end = hub.end.clone();
        async move {
            let (watcher, last) = at?;
            tokio::select! {
                batch = more(watcher, last) => Some(batch),
                () = end.cancelled() => None,
            }
        }
    });
    let events = batches.flat_map(stream::iter).map(Ok::<_, Infallible>);
    ([(header::CACHE_CONTROL, "no-store")], Sse::new(events).keep_alive(KeepAlive::default()))
        .into_response()
}

type At = Option<(Option<Watcher>, Option<Place>)>;

async fn more(watcher: Option<Watcher>, mut last: Option<Place>) -> (Vec<Event>, At) {
    let over = || (vec![Event::default().event("end").data("over")], None);
    let Some(mut watcher) = watcher else { return over() };
    loop {
        let Some(lines) = watcher.after(last) else { return over() };
        if let Some((place, _)) = lines.last() {
            last = Some(*place);
            let event =
                |(place, line): (Place, String)| Event::default().id(place.to_string()).data(line);
            return (lines.into_iter().map(event).collect(), Some((Some(watcher), last)));
        }
        if !watcher.more().await {
            return over();
        }
    }
}

fn follow(hub: Arc<Hub>) -> Sse<impl stream::Stream<Item = Result<Event, Infallible>>> {
    let events = stream::unfold((hub, String::new()), |(hub, mut last)| async move {
        loop {
            let now = hub.view().to_string();
            if now != last {
                last.clone_from(&now);
                return Some((Ok(Event::default().data(now)), (hub, last)));
            }
            tokio::select! {
                () = tokio::time::sleep(PERIOD) => {}
                () = hub.end.cancelled() => return None,
            }
        }
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}
