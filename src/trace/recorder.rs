//! Numbers events and hands them to the sink.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::event::{Event, PolicyStamp, Stage};
use super::sink::{TraceLevel, TraceSink};
use super::stamp::CatalogStamp;
use crate::index::ToolIndex;
use crate::select::Eligible;

/// The catalog, model and policy that the last event spoke of.
#[derive(Clone)]
pub(crate) struct World {
    pub index: Arc<ToolIndex>,
    pub eligible: Eligible,
    pub catalog: CatalogStamp,
    pub model: Option<String>,
    pub policy: PolicyStamp,
}

/// What a replay writes in place of its own: which process and release made the trace.
#[derive(Debug, Clone)]
pub(crate) struct Provenance {
    pub release: String,
    /// The catalogs of the recorded run, in the order in which it saw them.
    pub catalogs: VecDeque<CatalogStamp>,
    /// Whether the recorded run had begun before its trace.
    pub resumed: bool,
}

/// The trace of one session; off until it is given a sink.
#[derive(Default)]
pub(crate) struct Recorder {
    /// Boxed, so that a session without a trace carries one pointer.
    on: Option<Box<On>>,
    failures: u64,
}

struct On {
    sink: Box<dyn TraceSink>,
    level: TraceLevel,
    seq: u64,
    turn: u64,
    world: Option<World>,
    /// The session's options, as the trace has them.
    options: Value,
    provenance: Option<Provenance>,
}

impl Recorder {
    pub(crate) fn to(
        sink: Box<dyn TraceSink>,
        level: TraceLevel,
        provenance: Option<Provenance>,
    ) -> Self {
        let on = On { sink, level, seq: 0, turn: 0, world: None, options: Value::Null, provenance };
        Self { on: Some(Box::new(on)), failures: 0 }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on.is_some()
    }

    pub(crate) fn level(&self) -> TraceLevel {
        self.on.as_ref().map_or(TraceLevel::Run, |on| on.level)
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failures
    }

    /// The release to write: this one, or that of the run that is replayed.
    pub(crate) fn release(&self) -> String {
        let recorded = self.on.as_ref().and_then(|on| on.provenance.as_ref());
        recorded.map_or(env!("CARGO_PKG_VERSION"), |made| made.release.as_str()).to_owned()
    }

    /// Whether a run that is replayed had begun before its trace.
    pub(crate) fn resumed(&self) -> bool {
        let recorded = self.on.as_ref().and_then(|on| on.provenance.as_ref());
        recorded.is_some_and(|made| made.resumed)
    }

    /// `stamp` as it is written; in a replay with the version of the recorded run, which counted the
    /// changes of another process.
    pub(crate) fn attribute(&mut self, mut stamp: CatalogStamp) -> CatalogStamp {
        let provenance = self.on.as_mut().and_then(|on| on.provenance.as_mut());
        if let Some(recorded) = provenance.and_then(|made| made.catalogs.pop_front())
            && recorded.digest == stamp.digest
        {
            stamp.version = recorded.version;
        }
        stamp
    }

    pub(crate) fn options(&self) -> &Value {
        self.on.as_ref().map_or(&Value::Null, |on| &on.options)
    }

    pub(crate) fn set_options(&mut self, options: Value) {
        if let Some(on) = &mut self.on {
            on.options = options;
        }
    }

    pub(crate) fn world(&self) -> Option<&World> {
        self.on.as_ref()?.world.as_ref()
    }

    pub(crate) fn set_world(&mut self, world: World) {
        if let Some(on) = &mut self.on {
            on.world = Some(world);
        }
    }

    /// Counts the turn up for the events that follow.
    pub(crate) fn begin_turn(&mut self) {
        if let Some(on) = &mut self.on {
            on.turn += 1;
        }
    }

    pub(crate) fn record(&mut self, stage: Stage) {
        let Some(on) = &mut self.on else { return };
        let event = Event { seq: on.seq, turn: on.turn, stage };
        on.seq += 1;
        let written = on.sink.write(event);
        self.note(written);
    }

    /// Ends the events of one call of the session.
    pub(crate) fn flush(&mut self) {
        let Some(on) = &mut self.on else { return };
        let written = on.sink.flush();
        self.note(written);
    }

    fn note(&mut self, written: std::io::Result<()>) {
        if let Err(error) = written {
            self.failures += 1;
            if self.failures == 1 {
                tracing::warn!(%error, "the trace cannot be written; the run goes on without it");
            }
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("on", &self.is_on())
            .field("failures", &self.failures)
            .finish_non_exhaustive()
    }
}
