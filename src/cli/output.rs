//! What people and programs see: tables, JSON, progress.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;

/// How long a command runs before it shows progress.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often plain progress is written.
const PLAIN_EVERY: Duration = Duration::from_secs(5);

/// Collects what goes to standard output, so that it is written at once or not at all.
#[derive(Debug)]
pub(crate) struct Output {
    pub json: bool,
    text: String,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, text: String::new() }
    }

    pub(crate) fn line(&mut self, text: impl AsRef<str>) {
        self.text.push_str(text.as_ref());
        self.text.push('\n');
    }

    pub(crate) fn raw(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub(crate) fn json(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(value)?;
        self.line(text);
        Ok(())
    }

    /// A note beside the result, to standard error.
    pub(crate) fn note(&self, text: &str) {
        let _ = writeln!(io::stderr(), "{text}");
    }

    pub(crate) fn flush(&self) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        match out.write_all(self.text.as_bytes()).and_then(|()| out.flush()) {
            // Whoever reads has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => Ok(other?),
        }
    }

    /// The error with its causes, one a line; as JSON when that was asked for.
    pub(crate) fn error(&self, error: &anyhow::Error) {
        let causes: Vec<String> = error.chain().skip(1).map(ToString::to_string).collect();
        let text = if self.json {
            let failure = Failure { error: error.to_string(), causes };
            serde_json::to_string(&failure).unwrap_or(failure.error)
        } else {
            let mut text = format!("error: {error}");
            for cause in causes {
                text += &format!("\n  because: {cause}");
            }
            text
        };
        let _ = writeln!(io::stderr(), "{text}");
    }
}

/// An error for programs.
#[derive(Serialize)]
struct Failure {
    error: String,
    causes: Vec<String>,
}

/// Text in columns; numbers to the right.
#[derive(Debug)]
pub(crate) struct Table {
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table; a head that begins with `>` aligns its column to the right.
    pub(crate) fn new(heads: &[&str]) -> Self {
        Self::with_heads(heads.iter().map(|head| (*head).to_owned()).collect())
    }

    pub(crate) fn with_heads(heads: Vec<String>) -> Self {
        Self { heads, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn render(&self) -> String {
        let head = |n: usize| self.heads[n].trim_start_matches('>');
        let widths: Vec<usize> = (0..self.heads.len())
            .map(|n| {
                let cells = self.rows.iter().filter_map(|row| row.get(n));
                cells.map(|cell| cell.width()).chain([head(n).width()]).max().unwrap_or(0)
            })
            .collect();
        let mut out = String::new();
        let heads: Vec<String> = (0..self.heads.len()).map(|n| head(n).to_owned()).collect();
        for row in std::iter::once(&heads).chain(&self.rows) {
            let mut line = String::new();
            for (n, cell) in row.iter().enumerate() {
                let space = " ".repeat(widths[n].saturating_sub(cell.width()));
                if n > 0 {
                    line.push_str("  ");
                }
                if self.heads[n].starts_with('>') {
                    line += &space;
                    line += cell;
                } else {
                    line += cell;
                    line += &space;
                }
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

/// Progress on standard error: a bar on a terminal, now and then a line elsewhere; nothing for what
/// is over at once.
pub(crate) struct Bar {
    started: Instant,
    bar: Option<ProgressBar>,
    plain: Option<Instant>,
}

impl Bar {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), bar: None, plain: None }
    }

    pub(crate) fn step(&mut self, what: &str, done: usize, total: usize) {
        let now = Instant::now();
        if now - self.started < PATIENCE {
            return;
        }
        if io::stderr().is_terminal() {
            let bar = self.bar.get_or_insert_with(|| {
                let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
                let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({eta})");
                style.map(|style| bar.with_style(style)).unwrap_or_else(|_| ProgressBar::hidden())
            });
            bar.set_length(total as u64);
            bar.set_position(done as u64);
            if bar.message() != what {
                bar.set_message(what.to_owned());
            }
        } else if self.plain.is_none_or(|last| now - last >= PLAIN_EVERY) {
            self.plain = Some(now);
            let _ = writeln!(io::stderr(), "{done}/{total} {what}");
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The beginning of `text`, on one line of at most `width` columns.
pub(crate) fn clip(text: &str, width: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.width() <= width {
        return line;
    }
    let mut out = String::new();
    for c in line.chars() {
        if out.width() + 2 > width {
            break;
        }
        out.push(c);
    }
    out.trim_end().to_owned() + "…"
}
