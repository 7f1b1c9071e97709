//! A session for runtimes on tokio.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::{Authorized, Call, FindReply, FindRequest, Session, Turn, TurnInput, Verdict, Visible};
use crate::error::{Error, ErrorKind, Result};

/// A handle on a [`Session`] whose slow calls run off the event loop.
///
/// Embedding and ranking are CPU work; each call is handed to tokio's blocking pool and awaited.
/// Calls on one session run one after another in the order in which they are polled. Dropping a
/// future does not undo what it began, but for the verdict of [`authorize`](Self::authorize): a call
/// whose verdict nobody received counts as abandoned. Cloning gives another handle on the same run.
///
/// # Example
/// ```
/// use toolrack::{AsyncSession, Catalog, Engine, SessionOptions};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let engine = Engine::builder(Catalog::parse(r#"[{"name": "a"}, {"name": "b"}]"#)?).build()?;
/// let run = AsyncSession::new(engine.session(SessionOptions::default().limit(1))?);
/// let turn = run.turn("call a").await?;
/// assert!(turn.visible.contains("find_tool"));
/// # Ok::<(), toolrack::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct AsyncSession {
    /// A std mutex: it is held by one blocking task and never over an await.
    session: Arc<Mutex<Session>>,
    /// Keeps calls in order while they wait for a blocking thread.
    turnstile: Arc<tokio::sync::Mutex<()>>,
    /// Authorised calls whose verdict was not received yet.
    underway: Arc<Mutex<Vec<Underway>>>,
}

/// An authorised call, and whether somebody still waits for the verdict.
struct Underway {
    waiting: Weak<()>,
    tool: Authorized,
}

impl AsyncSession {
    /// A handle on `session`.
    pub fn new(session: Session) -> Self {
        Self {
            session: Arc::new(Mutex::new(session)),
            turnstile: Arc::new(tokio::sync::Mutex::new(())),
            underway: Arc::default(),
        }
    }

    /// Runs `work` with the session on tokio's blocking pool.
    ///
    /// # Errors
    /// [`ErrorKind::Task`] when `work` panicked or the runtime shuts down.
    ///
    /// # Panics
    /// When called outside a tokio runtime.
    pub async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Session) -> T + Send + 'static,
    ) -> Result<T> {
        let turn = Arc::clone(&self.turnstile).lock_owned().await;
        let (session, underway) = (Arc::clone(&self.session), Arc::clone(&self.underway));
        tokio::task::spawn_blocking(move || {
            let _turn = turn;
            // A panic of earlier work is that work's failure; the session is in a defined state
            // between its steps.
            let mut session = session.lock().unwrap_or_else(PoisonError::into_inner);
            lock(&underway).retain(|call| {
                let is_awaited = call.waiting.strong_count() > 0;
                if !is_awaited {
                    session.abandon(&call.tool);
                }
                is_awaited
            });
            work(&mut session)
        })
        .await
        .map_err(|error| {
            Error::new(ErrorKind::Task, "a session's background task was cancelled or panicked")
                .with_source(error)
        })
    }

    /// [`Session::turn`].
    ///
    /// # Errors
    /// As there, and [`ErrorKind::Task`].
    pub async fn turn(&self, input: impl Into<TurnInput>) -> Result<Turn> {
        let input = input.into();
        self.with(move |session| session.turn(input)).await?
    }

    /// [`Session::step`].
    ///
    /// # Errors
    /// [`ErrorKind::Task`].
    pub async fn step(&self) -> Result<Turn> {
        self.with(Session::step).await
    }

    /// [`Session::visible`].
    ///
    /// # Errors
    /// [`ErrorKind::Task`].
    pub async fn visible(&self) -> Result<Visible> {
        self.with(|session| session.visible()).await
    }

    /// [`Session::find_tool`].
    ///
    /// # Errors
    /// As there, and [`ErrorKind::Task`].
    pub async fn find_tool(&self, request: FindRequest) -> Result<FindReply> {
        self.with(move |session| session.find_tool(&request)).await?
    }

    /// [`Session::authorize`]. When the future is dropped before it is ready, the call is
    /// abandoned: the tool is not held for an answer that cannot come.
    ///
    /// # Errors
    /// As there, and [`ErrorKind::Task`].
    pub async fn authorize(&self, call: Call) -> Result<Verdict> {
        // Lives as long as this future: who drops it does not wait any more.
        let waits = Arc::new(());
        let (waiting, underway) = (Arc::downgrade(&waits), Arc::clone(&self.underway));
        let verdict = self
            .with(move |session| {
                let verdict = session.authorize(&call);
                if let Ok(Verdict::Run(tool)) = &verdict {
                    lock(&underway).push(Underway { waiting, tool: tool.clone() });
                }
                verdict
            })
            .await?;
        lock(&self.underway).retain(|call| !std::ptr::eq(call.waiting.as_ptr(), &*waits));
        verdict
    }

    /// [`Session::record_use`].
    ///
    /// # Errors
    /// [`ErrorKind::Task`].
    pub async fn record_use(&self, tool: Authorized) -> Result<()> {
        self.with(move |session| session.record_use(&tool)).await
    }
}

fn lock(underway: &Mutex<Vec<Underway>>) -> std::sync::MutexGuard<'_, Vec<Underway>> {
    underway.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for AsyncSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncSession").finish_non_exhaustive()
    }
}
