//! A trace that was written before.

use std::path::Path;

use serde::Serialize;

use super::TRACE_FORMAT;
use super::event::{Event, Opened, Stage};
use crate::error::{Error, ErrorKind, Result};

/// A trace as it was read: its lines, their events, and what could not be read.
///
/// # Example: a line that was cut off
/// ```
/// use toolrack::trace::Trace;
///
/// let trace = Trace::parse("{\"seq\":0,\"turn\":0,\"event\":\"step\"}\n{\"seq\":1,\"tu");
/// assert_eq!(trace.events.len(), 1);
/// assert_eq!(trace.damaged[0].line, 2);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Trace {
    /// The events, in order.
    pub events: Vec<Event>,
    /// The lines that hold no event.
    pub damaged: Vec<DamagedLine>,
    lines: Vec<String>,
}

/// A line of a trace that holds no event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DamagedLine {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

impl Trace {
    /// The trace in `text`. Empty lines are skipped; lines that hold no event are set aside.
    pub fn parse(text: &str) -> Self {
        let mut trace = Self::default();
        for (place, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            match serde_json::from_str::<Event>(line) {
                Ok(event) => {
                    trace.events.push(event);
                    trace.lines.push(line.to_owned());
                }
                Err(error) => {
                    trace.damaged.push(DamagedLine { line: place + 1, problem: error.to_string() })
                }
            }
        }
        trace
    }

    /// The trace in the file at `path`; bytes that are no UTF-8 damage their line only.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|error| {
            Error::new(
                ErrorKind::Io,
                format!("the trace {} cannot be read: check the path", path.display()),
            )
            .with_source(error)
        })?;
        Ok(Self::parse(&String::from_utf8_lossy(&bytes)))
    }

    /// The lines of the events, as they were written.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// On what ground the trace stands, once all of it could be read.
    pub(crate) fn opened(&self) -> Result<&Opened> {
        if let Some(damaged) = self.damaged.first() {
            return Err(Error::new(
                ErrorKind::Format,
                format!(
                    "line {} of the trace is damaged ({}): replay needs every line",
                    damaged.line, damaged.problem
                ),
            ));
        }
        let Some(Stage::Open(opened)) = self.events.first().map(|event| &event.stage) else {
            return Err(Error::new(
                ErrorKind::Format,
                "the trace does not begin with an 'open' event: give the whole trace of one run",
            ));
        };
        if opened.format != TRACE_FORMAT {
            return Err(Error::new(
                ErrorKind::FormatVersion,
                format!(
                    "the trace has format {} but this release reads {TRACE_FORMAT}: replay it with \
                     the release that wrote it ({})",
                    opened.format, opened.release
                ),
            ));
        }
        Ok(opened)
    }
}

impl From<Vec<Event>> for Trace {
    fn from(events: Vec<Event>) -> Self {
        let lines = events.iter().map(Event::to_line).collect();
        Self { events, damaged: Vec::new(), lines }
    }
}

impl Event {
    /// The event as one line of JSON, without a line end.
    pub fn to_line(&self) -> String {
        // Scores are finite and keys are strings, so that there always is a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }
}
