//! A recorded run, run again.

use std::collections::VecDeque;
use std::fmt;

use serde::Serialize;

use super::{Call, FindRequest, Session, SessionOptions, TurnInput};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::select::RuntimeContext;
use crate::trace::{CatalogStamp, Event, Opened, Provenance, Search, Stage, Trace, TraceBuffer};

/// Feeds what a trace recorded (messages, searches, calls, changes of context) to a new session and
/// compares what that one writes, byte for byte.
///
/// [`Engine::replay`] does it for a run over one catalog. A run that saw a refresh needs
/// [`on_refresh`](Self::on_refresh). Where the model did not answer then, it is not asked now.
///
/// Two things are not in a trace, so that a run with them may take another course: a model that had
/// vectors of a part of the tools only, and, at the level `Run`, a core tool that the caller could not
/// use when the trace began but later.
///
/// # Example: a run that saw a refresh
/// ```
/// use toolrack::trace::{Trace, TraceBuffer};
/// use toolrack::{Catalog, Engine, Listing, Replay, SessionOptions};
///
/// let before = r#"[{"name": "read_mail"}, {"name": "send_mail"}]"#;
/// let after = r#"[{"name": "read_mail"}, {"name": "sort_mail"}]"#;
///
/// let engine = Engine::builder(Catalog::parse(before)?).build()?;
/// let trace = TraceBuffer::new();
/// let mut run = engine.session(SessionOptions::default().limit(1))?;
/// run.trace_to(trace.clone());
/// run.turn("send a mail")?;
/// engine.refresh("catalog", Listing::parse(after)?)?;
/// run.turn("sort my mail")?;
///
/// let again = Engine::builder(Catalog::parse(before)?).build()?;
/// let report = Replay::new(&again)
///     .on_refresh(|_| again.refresh("catalog", Listing::parse(after)?).map(drop))
///     .run(&Trace::parse(&trace.text()))?;
/// assert!(report.is_identical(), "{report}");
/// # Ok::<(), toolrack::Error>(())
/// ```
pub struct Replay<'a> {
    engine: &'a Engine,
    refresh: Option<Refresh<'a>>,
}

type Refresh<'a> = Box<dyn FnMut(&CatalogStamp) -> Result<()> + 'a>;

impl<'a> Replay<'a> {
    /// A replay on `engine`, which has to hold the catalog and the model that the run began with.
    pub fn new(engine: &'a Engine) -> Self {
        Self { engine, refresh: None }
    }

    /// Calls `refresh` where the run saw another catalog or model, to bring the engine there.
    #[must_use]
    pub fn on_refresh(mut self, refresh: impl FnMut(&CatalogStamp) -> Result<()> + 'a) -> Self {
        self.refresh = Some(Box::new(refresh));
        self
    }

    /// Runs the trace again.
    ///
    /// # Errors
    /// [`ErrorKind::CatalogMismatch`] when the engine's catalog is not the recorded one, byte for
    /// byte, [`ErrorKind::ModelMismatch`] when its model is not, [`ErrorKind::Format`] for a damaged
    /// trace, [`ErrorKind::FormatVersion`] for one of another format, and what opening a session or
    /// `on_refresh` fails with. A run that takes another course is no error: see
    /// [`ReplayReport::difference`].
    pub fn run(&mut self, trace: &Trace) -> Result<ReplayReport> {
        let opened = trace.opened()?;
        check(self.engine, &opened.catalog, opened.model.as_deref())?;
        let written = TraceBuffer::new();
        let mut session = open(self.engine, opened)?;
        session.retrace(written.clone(), opened.level, provenance(trace, opened));
        for (place, event) in trace.events.iter().enumerate().skip(1) {
            if is_input(&event.stage) {
                let seen = self.follow(&trace.events[place + 1..])?;
                session.failed = failure(&trace.events[place + 1..]);
                feed(&mut session, &event.stage, &seen);
            }
        }
        Ok(compare(trace.lines(), &written.text()))
    }

    /// Brings the engine to the catalog that the call before `events` saw; gives the caller's facts
    /// as they were recorded with it.
    fn follow<'t>(&mut self, events: &'t [Event]) -> Result<Vec<&'t RuntimeContext>> {
        let mut seen = Vec::new();
        for event in events.iter().take_while(|event| !is_input(&event.stage)) {
            let Stage::Refresh(refreshed) = &event.stage else { continue };
            if let Some(refresh) = &mut self.refresh {
                refresh(&refreshed.catalog)?;
            }
            check(self.engine, &refreshed.catalog, refreshed.model.as_deref()).map_err(
                |error| error.within(format_args!("at event {} of the trace", event.seq)),
            )?;
            seen.push(&refreshed.policy.context);
        }
        Ok(seen)
    }
}

impl fmt::Debug for Replay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl Engine {
    /// Runs a recorded run again and compares, byte for byte; see [`Replay`].
    ///
    /// # Errors
    /// As [`Replay::run`].
    ///
    /// # Example: another catalog is named
    /// ```
    /// use toolrack::trace::{Trace, TraceBuffer};
    /// use toolrack::{Catalog, Engine, ErrorKind, SessionOptions};
    ///
    /// let engine = |text| Engine::builder(Catalog::parse(text)?).build();
    /// let trace = TraceBuffer::new();
    /// let mut run = engine(r#"[{"name": "a"}]"#)?.session(SessionOptions::default())?;
    /// run.trace_to(trace.clone());
    ///
    /// let other = engine(r#"[{"name": "b"}]"#)?;
    /// let error = other.replay(&Trace::parse(&trace.text())).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::CatalogMismatch);
    /// # Ok::<(), toolrack::Error>(())
    /// ```
    pub fn replay(&self, trace: &Trace) -> Result<ReplayReport> {
        Replay::new(self).run(trace)
    }
}

/// What a replay came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ReplayReport {
    /// Lines that were compared.
    pub lines: usize,
    /// The first line that differs; `None` when all bytes are the same.
    pub difference: Option<Difference>,
}

/// The first line in which a replay differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Difference {
    /// Its number, from 1.
    pub line: usize,
    /// The line as recorded; `None` when the recorded trace ends before it.
    pub recorded: Option<String>,
    /// The line of the replay; `None` when that one ends before it.
    pub replayed: Option<String>,
}

impl ReplayReport {
    /// Whether the replay wrote the same bytes.
    pub fn is_identical(&self) -> bool {
        self.difference.is_none()
    }
}

impl fmt::Display for ReplayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.difference {
            None => write!(f, "{} lines, all the same", self.lines),
            Some(difference) => {
                let text = |line: &Option<String>| {
                    line.clone().unwrap_or_else(|| "(the trace ends here)".to_owned())
                };
                writeln!(f, "line {} differs", difference.line)?;
                writeln!(f, "  recorded: {}", text(&difference.recorded))?;
                write!(f, "  replayed: {}", text(&difference.replayed))
            }
        }
    }
}

/// Whether the engine holds the recorded catalog and model.
fn check(engine: &Engine, catalog: &CatalogStamp, model: Option<&str>) -> Result<()> {
    let now = CatalogStamp::of(&engine.snapshot());
    if now.digest != catalog.digest {
        return Err(Error::new(
            ErrorKind::CatalogMismatch,
            format!(
                "the trace was recorded over catalog {catalog} but the engine holds {now}: load \
                 the recorded catalog"
            ),
        ));
    }
    let fingerprint = engine.fingerprint();
    if fingerprint.as_deref() != model {
        return Err(Error::new(
            ErrorKind::ModelMismatch,
            format!(
                "the trace was recorded with {} but the engine ranks with {}: build the engine \
                 with the recorded model",
                model.map_or("no model".to_owned(), |model| format!("model {model}")),
                fingerprint.map_or("no model".to_owned(), |model| format!("model {model}")),
            ),
        ));
    }
    Ok(())
}

fn open(engine: &Engine, opened: &Opened) -> Result<Session> {
    let damaged = |what: &str, error: serde_json::Error| {
        Error::new(
            ErrorKind::Format,
            format!(
                "the {what} of the trace cannot be read: replay it with release {}",
                opened.release
            ),
        )
        .with_source(error)
    };
    let mut options: SessionOptions = serde_json::from_value(opened.options.clone())
        .map_err(|error| damaged("session options", error))?;
    options.context = opened.policy.context.clone();
    let Some(resume) = &opened.resume else { return engine.session(options) };
    let state = serde_json::from_value(resume.state.clone())
        .map_err(|error| damaged("session state", error))?;
    let (mut session, _) = engine.restore(options, state)?;
    session.used.clone_from(&resume.used);
    session.pending.clone_from(&resume.pending);
    Ok(session)
}

fn provenance(trace: &Trace, opened: &Opened) -> Provenance {
    let mut catalogs = VecDeque::from([opened.catalog.clone()]);
    catalogs.extend(trace.events.iter().filter_map(|event| match &event.stage {
        Stage::Refresh(refreshed) => Some(refreshed.catalog.clone()),
        _ => None,
    }));
    Provenance { release: opened.release.clone(), catalogs, resumed: opened.resume.is_some() }
}

/// Whether the runtime did this, other than its coming of something that the runtime did.
fn is_input(stage: &Stage) -> bool {
    match stage {
        Stage::Turn(_)
        | Stage::Step
        | Stage::FindTool(_)
        | Stage::Authorize(_)
        | Stage::Used { .. }
        | Stage::Abandoned { .. }
        | Stage::Reply { .. }
        | Stage::Taken
        | Stage::Shown { .. }
        | Stage::Pin { .. }
        | Stage::Unpin { .. }
        | Stage::Release { .. }
        | Stage::Compaction
        | Stage::Context { .. } => true,
        Stage::Open(_)
        | Stage::Refresh(_)
        | Stage::Intent(_)
        | Stage::Filter(_)
        | Stage::Dense { .. }
        | Stage::Lexical { .. }
        | Stage::Fusion { .. }
        | Stage::Gate(_)
        | Stage::Admission(_)
        | Stage::Eviction(_)
        | Stage::Found(_)
        | Stage::List(_)
        | Stage::Failed { .. } => false,
    }
}

/// Why the model did not answer the call before `events`, if it did not: it may answer in the replay.
fn failure(events: &[Event]) -> Option<String> {
    let stages = events.iter().map(|event| &event.stage).take_while(|stage| !is_input(stage));
    let mut failures = stages.filter_map(|stage| match stage {
        Stage::Dense { scores, degraded } if scores.is_empty() => degraded.clone(),
        _ => None,
    });
    failures.next()
}

/// Does to `session` what was done to the recorded one. What fails is in both traces, or differs.
fn feed(session: &mut Session, stage: &Stage, seen: &[&RuntimeContext]) {
    if !matches!(stage, Stage::Context { .. }) {
        widen(&mut session.options.context, seen);
    }
    match stage {
        Stage::Turn(begun) => {
            let input = TurnInput::new(begun.message.as_str());
            let _ = session.turn(match &begun.recent {
                Some(recent) => input.recent(recent.iter().cloned()),
                None => input,
            });
        }
        Stage::Step => drop(session.step()),
        Stage::FindTool(search) => drop(session.find_tool(&request(search))),
        Stage::Authorize(recorded) => {
            let arguments = recorded.arguments.clone().unwrap_or_default();
            let mut call = Call::new(recorded.name.as_str(), arguments);
            call.id.clone_from(&recorded.call);
            let _ = session.authorize(&call);
        }
        Stage::Used { tool } => session.note_used(tool),
        Stage::Abandoned { tool } => session.note_abandoned(tool),
        Stage::Reply { text } => session.note_reply(text.as_str()),
        Stage::Taken => drop(session.visible()),
        Stage::Shown { tools } => {
            let names: Vec<String> = tools
                .iter()
                .filter_map(|id| session.snapshot().provider_name(id))
                .map(str::to_owned)
                .collect();
            session.note_shown(names);
        }
        Stage::Pin { tool } => drop(session.pin(&tool.to_string())),
        Stage::Unpin { tool } => drop(session.unpin(&tool.to_string())),
        Stage::Release { tool } => drop(session.release(&tool.to_string())),
        Stage::Compaction => drop(session.on_compaction()),
        Stage::Context { policy } => {
            let mut context = policy.context.clone();
            widen(&mut context, seen);
            session.set_context(context);
        }
        _ => {}
    }
}

/// Adds the tools that `seen` allows: allow-lists are recorded as far as the catalog of then had their
/// tools.
fn widen(context: &mut RuntimeContext, seen: &[&RuntimeContext]) {
    if let Some(tools) = &mut context.tools {
        tools.extend(seen.iter().filter_map(|more| more.tools.as_ref()).flatten().cloned());
    }
}

fn request(search: &Search) -> FindRequest {
    FindRequest {
        intents: search.intents.clone(),
        names: search.names.clone(),
        exact: search.exact,
        describe: search.describe.clone(),
        namespace: search.namespace.clone(),
        limit: search.limit,
    }
}

fn compare(recorded: &[String], replayed: &str) -> ReplayReport {
    let replayed: Vec<&str> = replayed.lines().collect();
    let lines = recorded.len().max(replayed.len());
    let difference = (0..lines)
        .find(|&line| recorded.get(line).map(String::as_str) != replayed.get(line).copied())
        .map(|line| Difference {
            line: line + 1,
            recorded: recorded.get(line).cloned(),
            replayed: replayed.get(line).map(|&line| line.to_owned()),
        });
    ReplayReport { lines, difference }
}
