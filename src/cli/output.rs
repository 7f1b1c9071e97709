//! What people and programs see: tables, JSON, progress.

use std::borrow::Cow;
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
        self.text.push_str(&visible(text.as_ref()));
        self.text.push('\n');
    }

    pub(crate) fn raw(&mut self, text: &str) {
        self.text.push_str(&visible(text));
    }

    pub(crate) fn json(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        // JSON has escapes of its own.
        self.text.push_str(&serde_json::to_string_pretty(value)?);
        self.text.push('\n');
        Ok(())
    }

    /// A note beside the result, to standard error.
    pub(crate) fn note(&self, text: &str) {
        let _ = writeln!(io::stderr(), "{}", visible(text));
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
            visible(&text).into_owned()
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
        let shown = |cell: String| visible(&cell).replace(['\n', '\t'], " ");
        self.rows.push(cells.into_iter().map(shown).collect());
    }

    /// Makes the last column fit into `room` columns, as far as there is enough left of it to read.
    fn fit(&mut self, room: usize) {
        const LEAST: usize = 12;
        let Some(last) = self.heads.len().checked_sub(1) else { return };
        let before: usize = self.widths()[..last].iter().map(|width| width + 2).sum();
        for cell in self.rows.iter_mut().filter_map(|row| row.get_mut(last)) {
            *cell = clip(cell, room.saturating_sub(before).max(LEAST));
        }
    }

    fn widths(&self) -> Vec<usize> {
        let width = |n: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(n));
            let head = self.heads[n].trim_start_matches('>');
            cells.map(|cell| cell.width()).chain([head.width()]).max().unwrap_or(0)
        };
        (0..self.heads.len()).map(width).collect()
    }

    /// The table with its last column, of text, cut to what a terminal has room for.
    pub(crate) fn render_within_terminal(&mut self) -> String {
        if io::stdout().is_terminal()
            && let Some((terminal_size::Width(columns), _)) = terminal_size::terminal_size()
        {
            self.fit(usize::from(columns));
        }
        self.render()
    }

    pub(crate) fn render(&self) -> String {
        let head = |n: usize| self.heads[n].trim_start_matches('>');
        let widths = self.widths();
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

/// `text` with what a terminal would obey or hide rather than show as an escape: definitions are
/// other people's words, and must not move the cursor or turn the line around.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    let is_hidden = |c: char| match c {
        '\n' | '\t' => false,
        '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' => true,
        '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}' => true,
        c => c.is_control(),
    };
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.replace("\r\n", "\n").chars() {
        if is_hidden(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

/// The beginning of `text`, on one line of at most `width` columns.
pub(crate) fn clip(text: &str, width: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = visible(&line).into_owned();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        assert_eq!(visible("a\u{1b}[31mb\r\nc\td"), "a\\u{1b}[31mb\nc\td");
        assert_eq!(visible("x\u{202e}y\u{200b}"), "x\\u{202e}y\\u{200b}");
        // A joiner is part of how people write.
        assert_eq!(visible("👩\u{200d}👧 日本"), "👩\u{200d}👧 日本");
        assert_eq!(clip("\u{7} bell and\n more", 12), "\\u{7} bell…");
    }

    #[test]
    fn the_last_column_fits_the_terminal() {
        let mut table = Table::new(&["tool", ">tokens", "description"]);
        table.row(["mail/send".into(), "12".into(), "Send an e-mail to a person.".into()]);
        table.fit(40);
        assert!(table.render().lines().all(|line| line.width() <= 40), "{}", table.render());
        table.fit(10);
        assert!(table.render().ends_with("Send an e-m…\n"), "{}", table.render());
    }
}
