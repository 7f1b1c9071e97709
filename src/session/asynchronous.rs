//! A session for runtimes on tokio.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Authorized, Call, FindReply, FindRequest, Session, Turn, TurnInput, Verdict, Visible};
use crate::error::{Error, ErrorKind, Result};

/// A handle on a [`Session`] whose slow calls run off the event loop.
///
/// Embedding and ranking are CPU work; each call is handed to tokio's blocking pool and awaited.
/// Calls on one session run one after another in the order in which they are polled. Dropping a
/// future does not undo what it began. Cloning gives another handle on the same run.
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
}

impl AsyncSession {
    /// A handle on `session`.
    pub fn new(session: Session) -> Self {
        Self {
            session: Arc::new(Mutex::new(session)),
            turnstile: Arc::new(tokio::sync::Mutex::new(())),
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
        let session = Arc::clone(&self.session);
        tokio::task::spawn_blocking(move || {
            let _turn = turn;
            // A panic of earlier work is that work's failure; the session is in a defined state
            // between its steps.
            work(&mut session.lock().unwrap_or_else(PoisonError::into_inner))
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

    /// [`Session::authorize`].
    ///
    /// # Errors
    /// As there, and [`ErrorKind::Task`].
    pub async fn authorize(&self, call: Call) -> Result<Verdict> {
        self.with(move |session| session.authorize(&call)).await?
    }

    /// [`Session::record_use`].
    ///
    /// # Errors
    /// [`ErrorKind::Task`].
    pub async fn record_use(&self, tool: Authorized) -> Result<()> {
        self.with(move |session| session.record_use(&tool)).await
    }
}

impl fmt::Debug for AsyncSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncSession").finish_non_exhaustive()
    }
}
