//! The process of a stdio server.

use std::path::PathBuf;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader, ReadBuf};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use super::MAX_MESSAGE;
use super::secrets::Secrets;

/// How long a server may take to leave after its input closed, and again after it was told to.
const GRACE: Duration = Duration::from_secs(2);
/// How long the end of a process may take to be seen.
const MOMENT: Duration = Duration::from_millis(200);
/// The most bytes of a line that are logged or quoted.
const MAX_LINE: usize = 400;
/// The most lines that belong to an error: a trace of calls, the version of a runtime.
const MAX_TRACE: usize = 40;
/// A line that goes on for longer is taken for several.
const MAX_READ: u64 = 64 * 1024;

/// A running server process. Dropping it kills the process; [`stop`](Self::stop) lets it leave.
pub(super) struct Process {
    child: Child,
    id: Option<u32>,
    /// The last words on standard error, which often say why a server left.
    last_words: Arc<Mutex<String>>,
    /// Reads standard error.
    listener: Option<JoinHandle<()>>,
}

/// The streams of a new process.
pub(super) struct Streams {
    pub stdin: ChildStdin,
    pub stdout: Watched,
}

impl Process {
    /// Starts `command` in a process group of its own, so that what it starts ends with it.
    pub(super) fn spawn(
        server: &str,
        command: &str,
        args: &[String],
        env: &std::collections::BTreeMap<String, String>,
        cwd: Option<&PathBuf>,
        secrets: &Secrets,
    ) -> std::io::Result<(Self, Streams)> {
        let mut builder = Command::new(command);
        builder
            .args(args)
            .envs(env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(cwd) = cwd {
            builder.current_dir(cwd);
        }
        #[cfg(unix)]
        builder.process_group(0);
        let mut child = builder.spawn()?;
        let missing = || std::io::Error::other("a standard stream is missing");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let last_words = Arc::new(Mutex::new(String::new()));
        let listener = child.stderr.take().map(|stderr| {
            let words = Arc::clone(&last_words);
            tokio::spawn(log_lines(server.to_owned(), stderr, words, secrets.clone()))
        });
        let id = child.id();
        let stdout = Watched::new(server.to_owned(), stdout, secrets.clone());
        Ok((Self { child, id, last_words, listener }, Streams { stdin, stdout }))
    }

    pub(super) fn id(&self) -> Option<u32> {
        self.id
    }

    /// Ends the process and everything in its group: its input is closed already, so it may leave
    /// by itself, then it is told to, then it is killed. Says how it ended.
    pub(super) async fn stop(mut self) -> String {
        let mut status = self.wait().await;
        if status.is_none() {
            self.signal(Signal::Terminate);
            status = self.wait().await;
        }
        // What the server started itself may outlive it.
        self.signal(Signal::Kill);
        if status.is_none() {
            let _ = self.child.start_kill();
            status = self.child.wait().await.ok();
        }
        self.id = None;
        if let Some(listener) = self.listener.take() {
            // What it said last may not be read yet; a stranger may hold the stream open.
            let _ = tokio::time::timeout(MOMENT, listener).await;
        }
        let words = self.last_words.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let how = status.map_or_else(|| "it ended".to_owned(), describe);
        if words.is_empty() { how } else { format!("{how}; its last words were: {words}") }
    }

    /// Whether the process has left by itself; gives it a moment to be seen gone.
    pub(super) async fn has_left(&mut self) -> bool {
        tokio::time::timeout(MOMENT, self.child.wait()).await.is_ok()
    }

    async fn wait(&mut self) -> Option<ExitStatus> {
        tokio::time::timeout(GRACE, self.child.wait()).await.ok()?.ok()
    }

    fn signal(&self, signal: Signal) {
        #[cfg(unix)]
        if let Some(pid) = self.id.and_then(|id| rustix::process::Pid::from_raw(id as i32)) {
            let signal = match signal {
                Signal::Terminate => rustix::process::Signal::TERM,
                Signal::Kill => rustix::process::Signal::KILL,
            };
            // A group that is gone is what is wanted.
            let _ = rustix::process::kill_process_group(pid, signal);
        }
        #[cfg(not(unix))]
        let _ = signal;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::Kill);
    }
}

#[derive(Clone, Copy)]
enum Signal {
    Terminate,
    Kill,
}

fn describe(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("it was ended by signal {signal}");
    }
    match status.code() {
        Some(code) => format!("it exited with status {code}"),
        None => "it ended".to_owned(),
    }
}

async fn log_lines(
    server: String,
    stderr: ChildStderr,
    last_words: Arc<Mutex<String>>,
    secrets: Secrets,
) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    // Lines since one that names an error: what runtimes print after it says less.
    let mut since_error = usize::MAX;
    loop {
        line.clear();
        match (&mut reader).take(MAX_READ).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = clip(secrets.hide(&String::from_utf8_lossy(&line)).trim_end());
        if !text.is_empty() {
            tracing::info!(target: "toolrack::gateway::stderr", %server, "{text}");
            since_error = since_error.saturating_add(1);
            let names_error = text.to_lowercase().contains("error");
            if names_error {
                since_error = 0;
            }
            if names_error || since_error > MAX_TRACE {
                *last_words.lock().unwrap_or_else(PoisonError::into_inner) = text;
            }
        }
    }
}

fn clip(text: &str) -> String {
    let cut = text.floor_char_boundary(MAX_LINE);
    if cut < text.len() { format!("{}…", &text[..cut]) } else { text.to_owned() }
}

/// Standard output, with an eye on lines that are no JSON: the protocol passes them over, but the
/// operator has to know that a server prints there.
pub(super) struct Watched {
    server: String,
    stdout: ChildStdout,
    line: Line,
    /// Bytes of the line so far.
    length: usize,
    reported: usize,
    secrets: Secrets,
}

enum Line {
    Start,
    Json,
    Garbage(Vec<u8>),
}

impl Watched {
    fn new(server: String, stdout: ChildStdout, secrets: Secrets) -> Self {
        Self { server, stdout, line: Line::Start, length: 0, reported: 0, secrets }
    }

    fn look(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            let end = rest.iter().position(|&byte| byte == b'\n');
            let part = &rest[..end.unwrap_or(rest.len())];
            if let Line::Start = self.line
                && !first.is_ascii_whitespace()
            {
                self.line = if first == b'{' || first == b'[' {
                    Line::Json
                } else {
                    Line::Garbage(Vec::new())
                };
            }
            if let Line::Garbage(text) = &mut self.line {
                let room = MAX_LINE.saturating_sub(text.len());
                text.extend_from_slice(&part[..part.len().min(room)]);
            }
            let before = self.length;
            self.length += part.len();
            if before <= MAX_MESSAGE && self.length > MAX_MESSAGE {
                let most = MAX_MESSAGE >> 20;
                tracing::error!(server = %self.server, "its message of more than {most} MB is dropped");
            }
            let Some(end) = end else { return };
            self.length = 0;
            if let Line::Garbage(text) = std::mem::replace(&mut self.line, Line::Start) {
                self.report(&text);
            }
            rest = &rest[end + 1..];
        }
    }

    fn report(&mut self, text: &[u8]) {
        self.reported += 1;
        // A server that prints without end must not fill the log.
        if self.reported <= 20 {
            let text = self.secrets.hide(&String::from_utf8_lossy(text));
            tracing::warn!(server = %self.server, "it prints what is no JSON: {}", text.trim_end());
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let polled = Pin::new(&mut this.stdout).poll_read(cx, buf);
        if let Poll::Ready(Ok(())) = &polled {
            this.look(&buf.filled()[before..]);
        }
        polled
    }
}
