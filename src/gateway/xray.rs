//! The gateway as it is now, for a page that watches it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::get;
use axum::{Json, Router};
use futures_util::stream;

use super::http::Door;
use super::hub::Hub;

/// How often a watching page is sent what changed.
const PERIOD: Duration = Duration::from_millis(500);

/// `/state` is the gateway as JSON, `/events` the same as server-sent events, one a change.
pub(super) fn routes(hub: &Arc<Hub>, door: Door) -> Router {
    let (state, events) = (Arc::clone(hub), Arc::clone(hub));
    let routes = Router::new()
        .route("/state", get(move || async move { Json(state.view()) }))
        .route("/events", get(move || async move { watch(events) }));
    door.guard(routes)
}

fn watch(hub: Arc<Hub>) -> Sse<impl stream::Stream<Item = Result<Event, Infallible>>> {
    let events = stream::unfold((hub, String::new()), |(hub, mut last)| async move {
        loop {
            let now = hub.view().to_string();
            if now != last {
                last.clone_from(&now);
                return Some((Ok(Event::default().event("state").data(now)), (hub, last)));
            }
            tokio::select! {
                () = tokio::time::sleep(PERIOD) => {}
                () = hub.end.cancelled() => return None,
            }
        }
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}
