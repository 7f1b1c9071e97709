//! What all connections share.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::config::Config;
use super::downstream::Parking;
use super::indexer::{self, CatalogState, Indexer};
use super::metrics::Metrics;
use super::names::Slugs;
use super::sessions::{ClientSession, Sessions};
use super::settings::{Mode, Settings};
use super::state::StateFile;
use super::upstream::{Upstream, supervise};
use super::words;
use crate::engine::Engine;

/// How long the first `tools/list` waits for servers that are only starting. It does not wait for
/// the slowest: what comes later is announced.
const GRACE: Duration = Duration::from_millis(1_500);

/// Engine, servers and clients of one gateway.
pub(crate) struct Hub {
    pub engine: Engine,
    pub settings: Settings,
    /// The mode that the user chose; by the client's name otherwise.
    pub mode: Option<Mode>,
    pub upstreams: Vec<Arc<Upstream>>,
    pub slugs: Slugs,
    pub sessions: Arc<Sessions>,
    pub metrics: Arc<Metrics>,
    pub state: Option<Arc<StateFile>>,
    pub parking: Parking,
    pub end: CancellationToken,
    /// Whether what sessions do is kept for whoever watches.
    watched: AtomicBool,
    catalog: watch::Receiver<CatalogState>,
    tasks: TaskTracker,
    started: Once,
    start: watch::Sender<Option<tokio::time::Instant>>,
}

impl Hub {
    /// A hub whose servers are not called yet. Has to be made inside a tokio runtime.
    pub(crate) fn new(
        engine: Engine,
        config: Config,
        mode: Option<Mode>,
        state: Option<Arc<StateFile>>,
    ) -> Arc<Self> {
        let metrics = Arc::new(Metrics::new());
        let sessions = Arc::new(Sessions::new(Arc::clone(&metrics)));
        let (indexer, answers) = Indexer::channel();
        let (publish, catalog) = watch::channel(CatalogState::default());
        let slugs = Slugs::of(config.servers.iter().map(|server| server.name.as_str()));
        let upstreams = config.servers.into_iter().map(|server| {
            Upstream::new(server, Arc::clone(&sessions), Arc::clone(&metrics), indexer.clone())
        });
        let hub = Arc::new(Self {
            engine: engine.clone(),
            mode,
            settings: config.settings,
            upstreams: upstreams.collect(),
            slugs,
            sessions,
            metrics,
            state,
            parking: Parking::default(),
            end: CancellationToken::new(),
            watched: AtomicBool::new(false),
            catalog,
            tasks: TaskTracker::new(),
            started: Once::new(),
            start: watch::Sender::new(None),
        });
        let end = hub.end.clone();
        hub.tasks.spawn(async move {
            tokio::select! {
                () = indexer::run(engine, answers, publish) => {}
                () = end.cancelled() => {}
            }
        });
        hub.tasks.spawn(Arc::clone(&hub).pass_changes());
        if let Some(state) = &hub.state {
            hub.tasks.spawn(Arc::clone(state).keep(hub.end.clone()));
        }
        hub
    }

    /// Keeps what sessions do from now on, for whoever watches.
    pub(crate) fn watch(&self) {
        self.watched.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    /// Calls the servers; once, however often it is asked.
    pub(crate) fn start(&self) {
        self.started.call_once(|| {
            self.start.send_replace(Some(tokio::time::Instant::now()));
            for upstream in &self.upstreams {
                self.tasks.spawn(supervise(Arc::clone(upstream), self.end.clone()));
            }
        });
    }

    /// Ends everything and waits until all processes have left.
    pub(crate) async fn close(&self) {
        self.keep_pins();
        for session in self.sessions.all() {
            self.keep_state(&session);
        }
        self.end.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    pub(crate) fn upstream(&self, name: &str) -> Option<&Arc<Upstream>> {
        self.upstreams.iter().find(|upstream| upstream.name() == name)
    }

    /// Whether every server has answered or failed at least once.
    pub(crate) fn is_settled(&self) -> bool {
        self.catalog.borrow().heard >= self.expected()
    }

    fn expected(&self) -> usize {
        self.upstreams.iter().filter(|upstream| !upstream.config.disabled).count()
    }

    /// Waits until every server has answered or failed at least once.
    pub(crate) async fn all_heard(&self) {
        let expected = self.expected();
        let _ = self.catalog.clone().wait_for(|state| state.heard >= expected).await;
    }

    /// Waits for servers that are only starting, but not for long.
    pub(crate) async fn settle(&self) {
        let Some(start) = *self.start.borrow() else { return };
        let _ = tokio::time::timeout_at(start + GRACE, self.all_heard()).await;
    }

    /// Tells clients of a change of the catalog that shows in their list.
    async fn pass_changes(self: Arc<Self>) {
        let mut catalog = self.catalog.clone();
        loop {
            tokio::select! {
                changed = catalog.changed() => if changed.is_err() { return },
                () = self.end.cancelled() => return,
            }
            self.keep_pins();
            let settled = self.is_settled();
            for session in self.sessions.all() {
                let refreshed = session.run.with(move |run| run.refresh(settled)).await;
                if let Err(error) = refreshed.and_then(|outcome| outcome) {
                    tracing::warn!("a client's list could not be refreshed: {error}");
                }
                self.announce(&session).await;
            }
        }
    }

    /// Stores how definitions looked when they were first seen, if changed ones are withheld.
    fn keep_pins(&self) {
        if let Some(file) = self.state.as_ref().filter(|_| self.settings.trust.pin_new) {
            file.put_pins(&self.engine.snapshot().trust().pins);
        }
    }

    /// Stores what has to outlive the process.
    pub(crate) fn keep_state(&self, session: &ClientSession) {
        if let (Some(file), Some(key)) = (&self.state, session.key())
            && let Some(state) = session.run.state()
        {
            file.put(key, session.identity.owner.as_deref(), state);
        }
    }

    /// Everything that a page about the gateway shows.
    pub(crate) fn view(&self) -> Value {
        let snapshot = self.engine.snapshot();
        // A session of one request is over before anybody could look at it.
        let sessions = self.sessions.all().into_iter().filter(|open| !open.identity.fleeting);
        let own = |mode| {
            let tools = words::own_tools(mode, &self.settings.session.meta_tool);
            self.engine.token_counter().count(&serde_json::to_string(&tools).unwrap_or_default())
        };
        let bridged = own(Mode::Bridge);
        let sessions = sessions.map(|session| {
            let mut run = session.run.view();
            if session.identity.mode == Mode::Bridge && !run.is_null() {
                // The list does not hold what was found.
                run["tokens"]["sent"] = json!(bridged);
            }
            json!({
                "number": session.number,
                "client": session.identity.client.name,
                "version": session.identity.client.version,
                "owner": session.identity.owner,
                "mode": session.identity.mode,
                "last_used": session.last_used(),
                "run": run,
            })
        });
        json!({
            "catalog": { "version": snapshot.version(), "tools": snapshot.len() },
            "upstreams":
                self.upstreams.iter().map(|upstream| upstream.status()).collect::<Vec<_>>(),
            "sessions": sessions.collect::<Vec<_>>(),
        })
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("upstreams", &self.upstreams).finish_non_exhaustive()
    }
}
