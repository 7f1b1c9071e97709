//! The working set of one client, and how it fares while servers come and go.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::settings::Mode;
use super::watch::{Watched, Watcher};
use crate::catalog::{Tool, ToolId, VisibleTool};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::select::{TokenFigures, policy};
use crate::session::{
    Authorized, Call, FindReply, FindRequest, Session, SessionOptions, SessionState, Verdict,
};
use crate::trace::TraceLevel;

/// Tools that a bridged client may have found at once: its list does not grow with them.
const BRIDGE_LIMIT: usize = 10_000;

/// A handle on the working set of one client.
#[derive(Clone)]
pub(crate) struct Run {
    /// A std mutex: it is held by one blocking task and never over an await.
    inner: Arc<Mutex<Inner>>,
    /// Keeps requests in order while they wait for a blocking thread.
    turnstile: Arc<tokio::sync::Mutex<()>>,
}

pub(crate) struct Inner {
    engine: Engine,
    options: SessionOptions,
    mode: Mode,
    session: Option<Session>,
    /// Whether all servers had been heard of when the session was opened.
    settled: bool,
    /// Whether the client has searched or called.
    touched: bool,
    restored: Option<SessionState>,
    /// Where its trace goes while somebody may watch.
    watched: Option<Watched>,
    /// The list that the client was last sent or told of.
    announced: Option<Vec<Shown>>,
    /// Whether a change was announced since the client last read the list.
    unread: bool,
}

/// A listed tool: the name and the definition's hash.
type Shown = (String, String);

/// The list for the client.
pub(crate) struct List {
    pub tools: Vec<Arc<VisibleTool>>,
    /// How many of them are core.
    pub core: usize,
    /// Whether everything is in the list, so that there is nothing to search.
    pub whole: bool,
    pub tokens: TokenFigures,
    /// Whether the client read the list because a change was announced.
    pub followed: bool,
}

impl Run {
    pub(crate) fn new(
        engine: Engine,
        options: SessionOptions,
        mode: Mode,
        restored: Option<SessionState>,
        watched: Option<Watched>,
    ) -> Self {
        let inner = Inner {
            engine,
            options,
            mode,
            session: None,
            settled: false,
            touched: restored.is_some(),
            restored,
            watched,
            announced: None,
            unread: false,
        };
        Self { inner: Arc::new(Mutex::new(inner)), turnstile: Arc::default() }
    }

    /// Runs `work` off the event loop, after what was asked before.
    pub(crate) async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Inner) -> T + Send + 'static,
    ) -> Result<T> {
        let turn = Arc::clone(&self.turnstile).lock_owned().await;
        let inner = Arc::clone(&self.inner);
        let span = tracing::Span::current();
        let task = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let _entered = span.entered();
            work(&mut inner.lock().unwrap_or_else(PoisonError::into_inner))
        });
        task.await.map_err(|error| {
            Error::new(ErrorKind::Task, "a session's background task was cancelled or panicked")
                .with_source(error)
        })
    }

    /// What is to be stored, `None` while there is nothing.
    pub(crate) fn state(&self) -> Option<SessionState> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match &inner.session {
            Some(session) if inner.touched => Some(session.to_state()),
            _ => inner.restored.clone(),
        }
    }

    /// Follows the trace; `None` when nobody was to watch.
    pub(crate) fn watcher(&self) -> Option<Watcher> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.watched.as_ref().map(Watched::watcher)
    }

    /// What the X-ray page shows of the run.
    pub(crate) fn view(&self) -> Value {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(session) = &inner.session else { return Value::Null };
        let visible = session.visible();
        let tokens = visible.tokens();
        let mut names: Vec<_> = visible.names().collect();
        if inner.mode == Mode::Bridge {
            // A search tool that it has of its own.
            names = visible.tools().iter().map(|tool| tool.name.as_str()).collect();
        }
        serde_json::json!({
            "visible": names,
            "tokens": { "sent": tokens.sent, "naive": tokens.naive },
            "pass_through": session.is_pass_through(),
            "epoch": visible.epoch(),
        })
    }
}

impl Inner {
    /// The session, opened when it is first asked for.
    ///
    /// While servers are still being waited for, a small catalog says nothing about the whole one:
    /// the session then begins with the core and `find_tool`. Once all were heard of and all tools
    /// fit, a session in which nothing happened yet is opened anew and shows them whole.
    fn session(&mut self, settled: bool) -> Result<&mut Session> {
        let reopen = settled && !self.settled && !self.touched;
        let session = match self.session.take().filter(|_| !reopen) {
            Some(session) => session,
            None => {
                self.settled = settled;
                self.open(settled)?
            }
        };
        Ok(self.session.insert(session))
    }

    fn open(&mut self, settled: bool) -> Result<Session> {
        let mut session = self.begin(settled)?;
        if let Some(watched) = &self.watched {
            session.trace_at(TraceLevel::Operator, watched.clone());
        }
        Ok(session)
    }

    fn begin(&mut self, settled: bool) -> Result<Session> {
        let mut options = self.options.clone();
        if self.mode == Mode::Bridge {
            options.core.clear();
            options.working_set = options.working_set.limit(BRIDGE_LIMIT);
            options.working_set.token_budget = None;
            options = options.pass_through(0);
        } else if !settled && self.restored.is_none() {
            options = options.pass_through(0);
        }
        // Before all servers were heard of, much of a stored working set would be left out.
        let Some(state) = self.restored.take_if(|_| settled) else {
            // Core tools whose servers have not answered yet come in when these do.
            return Session::begin(self.engine.clone(), options);
        };
        let (session, report) = self.engine.restore(options, state)?;
        if !report.left_out.is_empty() {
            tracing::info!("{} stored tools are no longer there", report.left_out.len());
        }
        Ok(session)
    }

    /// A stored working set comes back once all servers were heard of; what was found meanwhile
    /// stays.
    fn revive(&mut self, settled: bool) -> Result<()> {
        if self.restored.is_none() || !settled {
            return Ok(());
        }
        let Some(before) = self.session.take() else { return Ok(()) };
        let mut session = self.open(settled)?;
        let found: Vec<String> = before.working_set().visible().map(ToString::to_string).collect();
        if !found.is_empty() {
            session.find_tool(&FindRequest::of_names(found))?;
        }
        self.session = Some(session);
        self.settled = settled;
        Ok(())
    }

    pub(crate) fn list(&mut self, settled: bool) -> Result<List> {
        self.revive(settled)?;
        let followed = std::mem::take(&mut self.unread);
        let session = self.session(settled)?;
        session.step();
        let visible = session.visible();
        let whole = session.is_pass_through();
        self.announced = Some(shown(visible.tools()));
        Ok(List {
            tools: visible.tools().to_vec(),
            core: visible.inner.core,
            whole,
            tokens: visible.tokens(),
            followed,
        })
    }

    pub(crate) fn find(&mut self, settled: bool, request: &FindRequest) -> Result<FindReply> {
        self.revive(settled)?;
        self.touched = true;
        let session = self.session(settled)?;
        session.step();
        let reply = session.find_tool(request)?;
        take_as_shown(session);
        Ok(reply)
    }

    pub(crate) fn authorize(&mut self, settled: bool, call: &Call) -> Result<Verdict> {
        self.revive(settled)?;
        self.touched = true;
        let session = self.session(settled)?;
        let verdict = session.authorize(call)?;
        take_as_shown(session);
        Ok(verdict)
    }

    pub(crate) fn used(&mut self, tool: &Authorized) {
        if let Some(session) = &mut self.session {
            session.record_use(tool);
        }
    }

    pub(crate) fn abandon(&mut self, tool: &Authorized) {
        if let Some(session) = &mut self.session {
            session.abandon(tool);
        }
    }

    /// Takes in a change of the catalog.
    pub(crate) fn refresh(&mut self, settled: bool) -> Result<()> {
        if self.session.is_some() {
            self.revive(settled)?;
            self.session(settled)?.step();
        }
        Ok(())
    }

    /// Whether the client has to be told of a change: it has read a list, and not this one.
    pub(crate) fn announce(&mut self) -> bool {
        let (Some(session), Some(announced)) = (&self.session, &mut self.announced) else {
            return false;
        };
        let now = shown(session.visible().tools());
        if self.mode == Mode::Bridge || now == *announced {
            return false;
        }
        *announced = now;
        self.unread = true;
        true
    }

    /// The tools of a reply, with the names to call them by.
    pub(crate) fn definitions(&self, ids: &[ToolId]) -> Vec<(String, Tool)> {
        let snapshot = self.engine.snapshot();
        let named = |id: &ToolId| {
            let name = snapshot.provider_name(id)?.to_owned();
            Some((name, snapshot.get(id)?.clone()))
        };
        ids.iter().filter_map(named).collect()
    }

    /// The tool that a name means, if the client may know of it.
    pub(crate) fn definition_of(&self, name: &str) -> Option<(String, Tool)> {
        let snapshot = self.engine.snapshot();
        let may = |row: usize| policy::check(snapshot.tool(row), &self.options.context).is_ok();
        let row = match snapshot.names().by_provider(name).filter(|&row| may(row)) {
            Some(row) => row,
            None => *snapshot.names().resolve(name, &may).first()?,
        };
        let name = snapshot.names().provider_name(row).to_owned();
        Some((name, snapshot.tool(row).clone()))
    }
}

/// What a reply names can be called at once through `call_tool`, before the list is read anew; a
/// refusal shows the definition.
fn take_as_shown(session: &Session) {
    let _ = session.visible();
}

fn shown(tools: &[Arc<VisibleTool>]) -> Vec<Shown> {
    tools.iter().map(|tool| (tool.name.clone(), tool.tool.content_hash().to_owned())).collect()
}
