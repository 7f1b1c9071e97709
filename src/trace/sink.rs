//! Where a trace goes.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::event::Event;
use crate::error::{Error, ErrorKind, Result};

/// Who may read a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TraceLevel {
    /// Whoever may see the run: of tools that are hidden from the caller it says only how many there
    /// are. The default.
    #[default]
    Run,
    /// The operator only: it also lists the hidden tools, each with the reason. Do not give such a
    /// trace to the caller or to a model.
    Operator,
}

/// Takes the lines of a trace.
///
/// A sink that fails never fails the run: the failure is counted
/// ([`Session::trace_failures`](crate::Session::trace_failures)), reported once through `tracing`,
/// and the next line is tried again.
///
/// # Example: a sink of one's own
/// ```
/// use std::io;
/// use toolrack::trace::{Event, TraceSink};
/// use toolrack::{Catalog, Engine, SessionOptions};
///
/// struct Standard;
///
/// impl TraceSink for Standard {
///     fn write(&mut self, event: Event) -> io::Result<()> {
///         println!("{}", event.to_line());
///         Ok(())
///     }
/// }
///
/// let engine = Engine::builder(Catalog::parse(r#"[{"name": "a"}]"#)?).build()?;
/// let mut run = engine.session(SessionOptions::default())?;
/// run.trace_to(Standard);
/// run.turn("call a")?;
/// assert_eq!(run.trace_failures(), 0);
/// # Ok::<(), toolrack::Error>(())
/// ```
pub trait TraceSink: Send + Sync {
    /// Takes one event; [`Event::to_line`] writes it down.
    ///
    /// # Errors
    /// Whatever keeps the sink from taking it.
    fn write(&mut self, event: Event) -> io::Result<()>;

    /// Called when a call of the session is over and its events are written.
    ///
    /// # Errors
    /// Whatever keeps what was taken from its place.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps a trace in memory; clones share it.
///
/// # Example
/// ```
/// use toolrack::trace::TraceBuffer;
/// use toolrack::{Catalog, Engine, SessionOptions};
///
/// let engine = Engine::builder(Catalog::parse(r#"[{"name": "a"}]"#)?).build()?;
/// let trace = TraceBuffer::new();
/// let mut run = engine.session(SessionOptions::default())?;
/// run.trace_to(trace.clone());
/// assert!(trace.text().starts_with(r#"{"seq":0,"turn":0,"event":"open","format":1"#));
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct TraceBuffer {
    /// A mutex because the session writes while somebody else reads.
    events: Arc<Mutex<Vec<Event>>>,
}

impl TraceBuffer {
    /// An empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// The events so far.
    pub fn events(&self) -> Vec<Event> {
        self.with(|events| events.clone())
    }

    /// The trace so far: a line of JSON for each event.
    pub fn text(&self) -> String {
        self.with(|events| events.iter().flat_map(|event| [event.to_line(), "\n".into()]).collect())
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.with(|events| events.len())
    }

    /// Whether there is no event.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn with<T>(&self, read: impl FnOnce(&mut Vec<Event>) -> T) -> T {
        // A panic while reading left whole events behind.
        read(&mut self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl TraceSink for TraceBuffer {
    fn write(&mut self, event: Event) -> io::Result<()> {
        self.with(|events| events.push(event));
        Ok(())
    }
}

/// Writes a trace to anything that takes bytes, one line an event.
///
/// # Example
/// ```
/// use toolrack::trace::{Trace, TraceWriter};
/// use toolrack::{Catalog, Engine, SessionOptions};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("run.jsonl");
/// let engine = Engine::builder(Catalog::parse(r#"[{"name": "a"}]"#)?).build()?;
/// let mut run = engine.session(SessionOptions::default())?;
/// run.trace_to(TraceWriter::create(&path)?);
/// run.turn("call a")?;
/// assert_eq!(Trace::read(&path)?.events[2].stage.name(), "turn");
/// # Ok::<(), toolrack::Error>(())
/// ```
pub struct TraceWriter<W> {
    inner: W,
    /// One line, kept for its room.
    line: Vec<u8>,
}

impl<W: Write + Send + Sync> TraceWriter<W> {
    /// A sink that writes to `inner`, which it flushes after each call of the session.
    pub fn new(inner: W) -> Self {
        Self { inner, line: Vec::new() }
    }
}

impl TraceWriter<BufWriter<File>> {
    /// A sink that writes to a new file at `path`; what was there is lost.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = File::create(path).map_err(|error| {
            Error::new(
                ErrorKind::Io,
                format!("the trace cannot be written to {}: check the folder", path.display()),
            )
            .with_source(error)
        })?;
        Ok(Self::new(BufWriter::new(file)))
    }
}

impl<W: Write + Send + Sync> TraceSink for TraceWriter<W> {
    fn write(&mut self, event: Event) -> io::Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, &event)?;
        self.line.push(b'\n');
        self.inner.write_all(&self.line)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<W> fmt::Debug for TraceWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceWriter").finish_non_exhaustive()
    }
}
