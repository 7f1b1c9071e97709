//! The newest events of a session's trace, for pages that watch it.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::watch;

use crate::trace::{Event, Stage, TraceSink};

/// Events of one session that are kept for a page opened later. A search makes about a dozen, of a
/// few hundred bytes each.
const MAX_EVENTS: usize = 1_000;

/// Where a session's trace goes while the gateway is watched; clones share it.
#[derive(Clone, Default)]
pub(crate) struct Watched {
    /// A std mutex: it is held for a push or a copy, never over an await.
    kept: Arc<Mutex<Kept>>,
    changed: Arc<watch::Sender<()>>,
}

#[derive(Default)]
struct Kept {
    /// Counts `open` events: a trace that begins anew counts its events from 0 again.
    trace: u64,
    open: Option<Event>,
    rest: VecDeque<Event>,
}

/// A page's place in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    trace: u64,
    seq: u64,
}

impl Place {
    /// The place that [`Display`](std::fmt::Display) wrote.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (trace, seq) = text.split_once('.')?;
        Some(Self { trace: trace.parse().ok()?, seq: seq.parse().ok()? })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.trace, self.seq)
    }
}

/// Follows a session's trace until the session is over, without keeping it.
pub(crate) struct Watcher {
    kept: Weak<Mutex<Kept>>,
    changed: watch::Receiver<()>,
}

impl Watched {
    pub(crate) fn watcher(&self) -> Watcher {
        Watcher { kept: Arc::downgrade(&self.kept), changed: self.changed.subscribe() }
    }
}

impl TraceSink for Watched {
    fn write(&mut self, event: Event) -> io::Result<()> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(event.stage, Stage::Open(_)) {
            kept.trace += 1;
            kept.open = Some(event);
            kept.rest.clear();
        } else {
            if kept.rest.len() == MAX_EVENTS {
                kept.rest.pop_front();
            }
            kept.rest.push_back(event);
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.changed.send_replace(());
        Ok(())
    }
}

impl Watcher {
    /// What is kept after `place`, each event with its own place; all of it when `place` is of an
    /// earlier trace. `None` once the session is over.
    pub(crate) fn after(&mut self, place: Option<Place>) -> Option<Vec<(Place, String)>> {
        self.changed.mark_unchanged();
        let kept = self.kept.upgrade()?;
        let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let trace = kept.trace;
        let is_new = |event: &&Event| match place {
            Some(place) if place.trace == trace => event.seq > place.seq,
            _ => true,
        };
        let events = kept.open.iter().chain(&kept.rest).filter(is_new);
        Some(events.map(|event| (Place { trace, seq: event.seq }, event.to_line())).collect())
    }

    /// Waits for more; `false` once the session is over.
    pub(crate) async fn more(&mut self) -> bool {
        self.changed.changed().await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceLevel;
    use crate::{Catalog, Engine, FindRequest, SessionOptions};

    fn lines(events: &[(Place, String)]) -> Vec<String> {
        events.iter().map(|(place, _)| place.to_string()).collect()
    }

    #[tokio::test]
    async fn a_watcher_goes_on_where_it_was_and_ends_with_the_session() {
        let tools = r#"[{"name": "a"}, {"name": "b"}]"#;
        let engine = Engine::builder(Catalog::parse(tools).unwrap()).build().unwrap();
        let watched = Watched::default();
        let mut watcher = watched.watcher();
        let mut run = engine.session(SessionOptions::default()).unwrap();
        run.trace_at(TraceLevel::Operator, watched.clone());
        let first = watcher.after(None).unwrap();
        assert_eq!(lines(&first)[0], "1.0");
        let place = first.last().map(|(place, _)| *place);
        run.find_tool(&FindRequest::new("b")).unwrap();
        assert!(watcher.more().await);
        let second = watcher.after(place).unwrap();
        assert!(!second.is_empty() && second[0].0.seq == place.unwrap().seq + 1);
        assert_eq!(Place::parse(&second[0].0.to_string()), Some(second[0].0));

        // A trace that begins anew is sent from its beginning.
        let place = second.last().map(|(place, _)| *place);
        run = engine.session(SessionOptions::default()).unwrap();
        run.trace_at(TraceLevel::Operator, watched.clone());
        assert_eq!(lines(&watcher.after(place).unwrap())[0], "2.0");

        // What is kept has a bound; the beginning stays.
        for _ in 0..MAX_EVENTS {
            run.step();
        }
        let all = watcher.after(None).unwrap();
        assert_eq!((all.len(), all[0].1.contains(r#""event":"open""#)), (MAX_EVENTS + 1, true));

        drop((run, watched));
        assert!(watcher.after(None).is_none() && !watcher.more().await);
    }
}
