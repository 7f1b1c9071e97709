//! Takes listings into the engine, many at once when many servers answer together.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{mpsc, watch};

use super::upstream::Upstream;
use crate::catalog::{Listing, Reader, SourceUpdate};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};

/// What became of a server's tools.
pub(crate) enum Answer {
    /// It listed these, each as JSON.
    Tools(Vec<Value>),
    /// It did not answer, for this reason.
    Nothing(String),
}

/// Where answers are put.
#[derive(Clone)]
pub(crate) struct Indexer {
    answers: mpsc::UnboundedSender<(Arc<Upstream>, Answer)>,
}

/// The catalog as the sessions see it change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CatalogState {
    pub version: u64,
    /// Servers that have answered or failed at least once.
    pub heard: usize,
}

/// What comes out of [`Indexer::channel`] for [`run`].
pub(crate) type Answers = mpsc::UnboundedReceiver<(Arc<Upstream>, Answer)>;

impl Indexer {
    pub(crate) fn channel() -> (Self, Answers) {
        let (answers, receiver) = mpsc::unbounded_channel();
        (Self { answers }, receiver)
    }

    pub(crate) fn put(&self, upstream: Arc<Upstream>, answer: Answer) {
        // The gateway ends: nobody asks for tools any more.
        let _ = self.answers.send((upstream, answer));
    }
}

/// Indexes answers until nobody can put any. While one index is built, the next answers gather.
pub(crate) async fn run(
    engine: Engine,
    mut answers: Answers,
    catalog: watch::Sender<CatalogState>,
) {
    let mut heard: HashSet<String> = HashSet::new();
    loop {
        let mut batch = Vec::new();
        if answers.recv_many(&mut batch, 4_096).await == 0 {
            return;
        }
        // Of several answers of one server the last one holds.
        let mut latest: BTreeMap<String, (Arc<Upstream>, Answer)> = BTreeMap::new();
        for (upstream, answer) in batch {
            latest.insert(upstream.name().to_owned(), (upstream, answer));
        }
        heard.extend(latest.keys().cloned());
        let engine_of_work = engine.clone();
        let work = tokio::task::spawn_blocking(move || {
            let updates: Vec<Update> = latest
                .into_values()
                .map(|(upstream, answer)| Update::new(upstream, answer))
                .collect();
            take_in(&engine_of_work, &updates);
        });
        if let Err(error) = work.await {
            tracing::error!("indexing failed: {error}");
        }
        let version = engine.snapshot().version();
        catalog.send_replace(CatalogState { version, heard: heard.len() });
    }
}

struct Update {
    upstream: Arc<Upstream>,
    answer: Answer,
    hidden: usize,
}

impl Update {
    fn new(upstream: Arc<Upstream>, mut answer: Answer) -> Self {
        let mut hidden = 0;
        if let Answer::Tools(tools) = &mut answer {
            let (settings, server) = (&upstream.config.settings, upstream.name());
            let before = tools.len();
            tools.retain(|tool| {
                let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
                settings.allows(server, name)
            });
            hidden = before - tools.len();
        }
        Self { upstream, answer, hidden }
    }

    /// The update for the catalog, made anew each time: a listing is not cloned.
    fn source(&self) -> Result<SourceUpdate> {
        let server = self.upstream.name();
        let tools = match &self.answer {
            Answer::Nothing(why) => return Ok(SourceUpdate::Unreachable(why.clone())),
            Answer::Tools(tools) if tools.is_empty() => {
                return Ok(Listing::from_tools([]).into());
            }
            Answer::Tools(tools) => tools,
        };
        let text =
            serde_json::to_string(&serde_json::json!({ "tools": tools })).map_err(|error| {
                Error::new(ErrorKind::Format, "a listing cannot be written as JSON")
                    .with_source(error)
            })?;
        let mut listing = Reader::new().server(server).parse(&text)?;
        let mut seen = HashSet::new();
        let mut problems = Vec::new();
        listing.tools.retain_mut(|located| {
            let tool = &located.tool;
            if !seen.insert(tool.name().to_owned()) {
                problems.push(Error::new(
                    ErrorKind::DuplicateTool,
                    format!(
                        "server '{server}' lists '{}' twice; the first one is taken",
                        tool.name()
                    ),
                ));
                return false;
            }
            if let Some(risk) = self.upstream.config.settings.risk(server, tool.name()) {
                located.tool = tool.clone().with_risk(risk);
            }
            true
        });
        listing.problems.extend(problems.into_iter().map(Into::into));
        Ok(listing.into())
    }
}

/// One refresh for all; if one source is bad, each by itself.
fn take_in(engine: &Engine, updates: &[Update]) {
    let all: Result<Vec<_>> = updates
        .iter()
        .map(|update| Ok((update.upstream.name().to_owned(), update.source()?)))
        .collect();
    let together = all.and_then(|all| engine.refresh_all(all));
    for update in updates {
        let outcome = match &together {
            Ok(_) => Ok(()),
            Err(_) => update
                .source()
                .and_then(|source| engine.refresh(update.upstream.name(), source))
                .map(|_| ()),
        };
        note(engine, update, outcome);
    }
}

fn note(engine: &Engine, update: &Update, outcome: Result<()>) {
    let snapshot = engine.snapshot();
    let name = update.upstream.name();
    let source = snapshot.sources().find(|(source, _)| *source == name).map(|(_, status)| status);
    update.upstream.with_status(|status| {
        status.indexed = source.map_or(0, |source| source.tools);
        match (&update.answer, outcome) {
            (Answer::Nothing(_), _) => {}
            (Answer::Tools(tools), Ok(())) => {
                status.tools = tools.len();
                status.hidden = update.hidden;
                status.stale_since = None;
                status.last_error = None;
                status.problems = source.map(|source| source.problems.clone()).unwrap_or_default();
            }
            (Answer::Tools(tools), Err(error)) => {
                status.tools = tools.len();
                status.last_error = Some(error.to_string());
            }
        }
    });
    let withheld = snapshot.withheld().filter(|held| held.source == name);
    let withheld: Vec<String> = withheld
        .map(|held| format!("{held}; to accept it pin \"{}\": \"{}\"", held.tool, held.hash))
        .collect();
    update.upstream.with_status(|status| status.withheld = withheld.clone());
    let status = update.upstream.status();
    for problem in &withheld {
        tracing::warn!(server = name, "{problem}");
    }
    for problem in &status.problems {
        tracing::warn!(server = name, "{problem}");
    }
    tracing::info!("{status}");
    update.upstream.metrics.indexed(name, status.indexed);
}
