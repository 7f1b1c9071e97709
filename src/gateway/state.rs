//! Sessions that outlive the process, in one file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rmcp::transport::streamable_http_server::session::{
    SessionState as HttpSession, SessionStore, SessionStoreError,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::catalog::ToolId;
use crate::error::{Error, ErrorKind, Result};
use crate::session::SessionState;

/// Version of the file.
const FORMAT: u32 = 1;
/// Sessions that nobody used for this long are forgotten.
const MAX_AGE: u64 = 14 * 24 * 3600;
/// The most sessions that are kept, the newest ones.
const MAX_SESSIONS: usize = 10_000;
/// How long changes gather before they are written.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    format: u32,
    /// Hashes of the definitions as they were first seen, when changed ones are withheld.
    #[serde(default)]
    pins: BTreeMap<ToolId, String>,
    sessions: BTreeMap<String, Entry>,
    /// Sessions that ended and may still be in the file.
    #[serde(skip)]
    ended: BTreeSet<String>,
}

impl Stored {
    /// Takes in what another process wrote to the same file: the windows of an editor each start a
    /// gateway of their own.
    fn join(&mut self, other: Self) {
        for (key, entry) in other.sessions {
            let own = self.sessions.get(&key);
            if !self.ended.contains(&key) && own.is_none_or(|own| own.used < entry.used) {
                self.sessions.insert(key, entry);
            }
        }
        for (tool, hash) in other.pins {
            self.pins.entry(tool).or_insert(hash);
        }
        self.ended.clear();
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Entry {
    /// Name of the token of whoever opened it.
    owner: Option<String>,
    /// Whether that is known: the transport stores a session before its client has said more than
    /// hello.
    owned: bool,
    /// How the client introduced itself, for an HTTP session.
    client: Option<HttpSession>,
    state: Option<SessionState>,
    used: u64,
}

/// The file.
pub(crate) struct StateFile {
    path: PathBuf,
    stored: Mutex<Stored>,
    changed: Notify,
}

impl StateFile {
    /// Reads the file at `path`; one that is not there is empty.
    pub(crate) fn open(path: &Path) -> Result<Arc<Self>> {
        let shown = path.display();
        let stored = match std::fs::read(path) {
            Ok(bytes) => {
                let stored: Stored = serde_json::from_slice(&bytes).map_err(|error| {
                    let text = format!("{shown} holds no sessions: remove it or name another file");
                    Error::new(ErrorKind::Format, text).with_source(error)
                })?;
                if stored.format != FORMAT {
                    return Err(Error::new(
                        ErrorKind::FormatVersion,
                        format!(
                            "{shown} has format {} but this release reads {FORMAT}: remove it",
                            stored.format
                        ),
                    ));
                }
                stored
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Stored { format: FORMAT, ..Stored::default() }
            }
            Err(error) => {
                let text = format!("cannot read {shown}: name a file that can be written");
                return Err(Error::new(ErrorKind::Io, text).with_source(error));
            }
        };
        let path = path.to_owned();
        let file = Self { path, stored: Mutex::new(stored), changed: Notify::new() };
        file.write()?;
        Ok(Arc::new(file))
    }

    /// The working set stored under `key`, if it belongs to `owner`.
    pub(crate) fn state(&self, key: &str, owner: Option<&str>) -> Option<SessionState> {
        let stored = self.lock();
        let entry = stored.sessions.get(key).filter(|entry| entry.owner.as_deref() == owner)?;
        entry.state.clone()
    }

    /// The definitions as they were first seen.
    pub(crate) fn pins(&self) -> BTreeMap<ToolId, String> {
        self.lock().pins.clone()
    }

    pub(crate) fn put_pins(&self, pins: &BTreeMap<ToolId, String>) {
        let mut stored = self.lock();
        if stored.pins != *pins {
            stored.pins.clone_from(pins);
            drop(stored);
            self.changed.notify_one();
        }
    }

    /// Whose session `key` is; `None` when there is no such session.
    pub(crate) fn owner(&self, key: &str) -> Option<Option<String>> {
        self.lock().sessions.get(key).filter(|entry| entry.owned).map(|entry| entry.owner.clone())
    }

    pub(crate) fn put(&self, key: &str, owner: Option<&str>, state: SessionState) {
        let mut stored = self.lock();
        let entry = stored.sessions.entry(key.to_owned()).or_default();
        entry.owner = owner.map(str::to_owned);
        entry.owned = true;
        entry.state = Some(state);
        entry.used = now();
        drop(stored);
        self.changed.notify_one();
    }

    pub(crate) fn set_owner(&self, key: &str, owner: Option<&str>) {
        let mut stored = self.lock();
        let entry = stored.sessions.entry(key.to_owned()).or_default();
        entry.owner = owner.map(str::to_owned);
        entry.owned = true;
        entry.used = now();
    }

    /// Writes changes as they gather, the last ones at `end`.
    pub(crate) async fn keep(self: Arc<Self>, end: CancellationToken) {
        loop {
            tokio::select! {
                () = self.changed.notified() => {}
                () = end.cancelled() => break,
            }
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = end.cancelled() => break,
            }
            self.write_aside().await;
        }
        self.write_aside().await;
    }

    async fn write_aside(self: &Arc<Self>) {
        let file = Arc::clone(self);
        let written = tokio::task::spawn_blocking(move || file.write()).await;
        if let Ok(Err(error)) = written {
            tracing::error!("{error}");
        }
    }

    /// Writes a file beside and puts it in place, so that there is a whole one at any time.
    fn write(&self) -> Result<()> {
        let there = std::fs::read(&self.path).ok();
        let there = there.and_then(|bytes| serde_json::from_slice::<Stored>(&bytes).ok());
        let bytes = {
            let mut stored = self.lock();
            if let Some(other) = there.filter(|other| other.format == FORMAT) {
                stored.join(other);
            }
            let oldest = now().saturating_sub(MAX_AGE);
            stored.sessions.retain(|_, entry| entry.used >= oldest);
            if stored.sessions.len() > MAX_SESSIONS {
                let mut ages: Vec<u64> = stored.sessions.values().map(|entry| entry.used).collect();
                ages.sort_unstable_by(|a, b| b.cmp(a));
                let least = ages[MAX_SESSIONS - 1];
                stored.sessions.retain(|_, entry| entry.used >= least);
            }
            serde_json::to_vec(&*stored)
        };
        let failed = |error: std::io::Error| {
            let text = format!("cannot write {}: name a file that can be", self.path.display());
            Error::new(ErrorKind::Io, text).with_source(error)
        };
        let bytes = bytes.map_err(|error| failed(error.into()))?;
        let beside = self.path.with_extension(format!("{}.tmp", std::process::id()));
        write_private(&beside, &bytes).map_err(failed)?;
        std::fs::rename(&beside, &self.path).map_err(failed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Stored> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For the owner's eyes only: searches say what somebody works on.
fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(bytes)
}

#[async_trait::async_trait]
impl SessionStore for StateFile {
    async fn load(&self, id: &str) -> Result<Option<HttpSession>, SessionStoreError> {
        Ok(self.lock().sessions.get(id).and_then(|entry| entry.client.clone()))
    }

    async fn store(&self, id: &str, state: &HttpSession) -> Result<(), SessionStoreError> {
        let mut stored = self.lock();
        let entry = stored.sessions.entry(id.to_owned()).or_default();
        entry.client = Some(state.clone());
        entry.used = now();
        drop(stored);
        self.changed.notify_one();
        Ok(())
    }

    async fn delete(&self, id: &str) -> Result<(), SessionStoreError> {
        let mut stored = self.lock();
        stored.sessions.remove(id);
        stored.ended.insert(id.to_owned());
        drop(stored);
        self.changed.notify_one();
        Ok(())
    }
}

impl fmt::Debug for StateFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateFile").field("path", &self.path).finish_non_exhaustive()
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
