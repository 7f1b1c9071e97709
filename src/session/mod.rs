//! One run of an agent: its turns, its working set, its meta-tool, its gate.

mod asynchronous;
mod authorize;
mod find_tool;
mod lookup;
mod options;
mod record;
mod refresh;
mod replay;
mod search;
mod shadow;
mod state;
mod turn;
mod visible;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub use asynchronous::AsyncSession;
pub use authorize::{Authorized, Call, Refusal, RefusalKind, Verdict};
pub use find_tool::{CrowdedName, Definition, FindReply, FindRequest, FindStatus, FoundTool};
pub use options::{FIND_TOOL, SessionOptions};
use refresh::{CoreTool, core_id, core_rows, fits_whole, roomy};
pub use replay::{Difference, Replay, ReplayReport};
pub use shadow::{MissedCall, Shadow, ShadowReport};
pub use state::{RestoreReport, SessionState};
pub use turn::{Turn, TurnInput};
use visible::{BuiltinJson, VisibleInner};
pub use visible::{Entry, MetaTool, Visible};

use crate::catalog::{Snapshot, Tool, ToolId, VisibleTool};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{ToolIndex, definition_text};
use crate::select::{Eligible, Message, RuntimeContext, SelectRequest, TokenFigures, first_line};
use crate::text::TokenCount;
use crate::trace::{Recorder, Stage};
use crate::working_set::{Delta, Slot, WorkingSet};

/// Messages that a session remembers for its requests.
const MAX_RECENT: usize = 6;
/// Bytes of a remembered message.
const MAX_RECENT_TEXT: usize = 4 * 1024;

/// Characters of a tool's line in a reply.
const SUMMARY: usize = 120;

/// One run of an agent.
///
/// A session owns its working set and shares nothing but the engine, so sessions cannot see each
/// other's tools. It takes `&mut self`: a run is one thing after another. It sees one catalog
/// snapshot for a whole step; a refresh shows at the next [`turn`](Self::turn) or
/// [`step`](Self::step). Only the policy is always that of now: see [`authorize`](Self::authorize).
///
/// # Example: a turn, a search, a call
/// ```
/// use serde_json::json;
/// use toolrack::{Call, Catalog, Engine, FindRequest, SessionOptions, Verdict};
///
/// let catalog = Catalog::parse(
///     r#"[{"name": "read_state", "description": "Read the notes of this run."},
///         {"name": "list_invoices", "description": "List the invoices of a month."},
///         {"name": "list_payments", "description": "List payments in the ledger."},
///         {"name": "create_ticket", "description": "Open a helpdesk ticket."}]"#)?;
/// let engine = Engine::builder(catalog).build()?;
/// let options = SessionOptions::default().core(["read_state"]).limit(3).retrieve(1);
/// let mut run = engine.session(options)?;
///
/// let turn = run.turn("which invoices did we send last month?")?;
/// assert_eq!(turn.visible.names().collect::<Vec<_>>(), ["read_state", "find_tool", "list_invoices"]);
///
/// // The model lacks something and asks for it.
/// let reply = run.find_tool(&FindRequest::new("open a ticket at the helpdesk"))?;
/// assert_eq!(
///     reply.text(),
///     "Loaded 1 tool, callable from your next message on:\n- create_ticket: Open a helpdesk ticket.",
/// );
///
/// // The list is read again, and the call may run.
/// assert!(run.visible().contains("create_ticket"));
/// match run.authorize(&Call::new("create_ticket", json!({})))? {
///     Verdict::Run(tool) => run.record_use(&tool),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug)]
pub struct Session {
    engine: Engine,
    options: SessionOptions,
    /// The index of this step.
    index: Arc<ToolIndex>,
    eligible: Eligible,
    /// Tokens of all eligible tools.
    naive_tokens: TokenCount,
    core: Vec<CoreTool>,
    set: WorkingSet,
    meta: Arc<MetaTool>,
    meta_tokens: TokenCount,
    pass_through: bool,
    recent: Vec<Message>,
    /// Used since the last step.
    used: Vec<ToolId>,
    /// Changes since the last step, which the next turn reports.
    pending: Delta,
    /// Searches and what they found.
    searches: Vec<(String, Vec<ToolId>)>,
    /// Tools whose definition the model was given in a reply.
    briefed: Vec<ToolId>,
    /// Tools whose definition of now the model was given in a reply, while the list of this step has
    /// another one or none, with the digest of their parameters.
    told: Vec<(ToolId, String)>,
    /// Tools that came in since a list was last taken: the model was not shown them yet.
    unseen: Unseen,
    trace: Recorder,
    /// Why the model is taken to fail at the next search: in a replay of a run in which it did.
    failed: Option<String>,
}

/// Tools that are in the list but in none that was taken.
///
/// Taking a list needs no `&mut`, as reading should not; hence the lock, which nobody contends.
#[derive(Debug, Default)]
struct Unseen {
    tools: Mutex<Vec<ToolId>>,
    /// Whether there were some when a list was taken.
    taken: AtomicBool,
}

impl Unseen {
    /// Adds a tool once, as the last one.
    fn add(&self, id: ToolId) {
        let mut tools = self.list();
        tools.retain(|other| *other != id);
        tools.push(id);
    }

    /// Adds what `delta` brought into the list.
    fn extend(&self, delta: &Delta) {
        delta.admitted.iter().for_each(|(id, _)| self.add(id.clone()));
    }

    fn remove(&self, id: &ToolId) {
        self.retain(|other| other != id);
    }

    fn retain(&self, keep: impl Fn(&ToolId) -> bool) {
        self.list().retain(keep);
    }

    fn clear(&self) {
        let mut tools = self.list();
        if !tools.is_empty() {
            tools.clear();
            self.taken.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the list was taken since the last time this was asked, and that showed something.
    fn was_taken(&self) -> bool {
        self.taken.swap(false, Ordering::Relaxed)
    }

    fn contains(&self, id: &ToolId) -> bool {
        self.list().contains(id)
    }

    fn list(&self) -> std::sync::MutexGuard<'_, Vec<ToolId>> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    pub(crate) fn open(engine: Engine, options: SessionOptions) -> Result<Self> {
        let mut session = Self::begin(engine, options)?;
        if let Some(missing) = session.core.iter().find(|tool| tool.id.is_none()) {
            resolve(&session.index, &session.eligible, &missing.name, "core")?;
        }
        for name in session.options.pinned.clone() {
            let row = resolve(&session.index, &session.eligible, &name, "pinned")?;
            let delta = session.set.pin(slot(&session.index, row))?;
            session.note(delta);
        }
        Ok(session)
    }

    /// A run without pins; core tools that are not there come in when they are listed.
    pub(crate) fn begin(engine: Engine, options: SessionOptions) -> Result<Self> {
        options.validate()?;
        let index = engine.index();
        let eligible = reach(&index, &options);
        let meta = MetaTool::new(&options.meta_tool, options.compressed.is_some());
        let text = definition_text(&meta.name, &meta.description, Some(&meta.parameters));
        let meta_tokens = engine.token_counter().count(&text);
        let naive = naive_tokens(&index, &eligible);
        let core: Vec<CoreTool> = options
            .core
            .iter()
            .map(|name| CoreTool { name: name.clone(), id: core_id(&index, &eligible, name) })
            .collect();
        let slots = slots(&index, core_rows(&index, &eligible, &core));
        let pass_through = fits_whole(&options, eligible.count(), naive);
        let set = if pass_through {
            WorkingSet::new(roomy(), slots, 0)?
        } else {
            WorkingSet::new(options.working_set.clone(), slots, meta_tokens)?
        };
        Ok(Self {
            engine,
            index,
            eligible,
            naive_tokens: naive,
            core,
            set,
            meta: Arc::new(meta),
            meta_tokens,
            pass_through,
            recent: Vec::new(),
            used: Vec::new(),
            pending: Delta::default(),
            searches: Vec::new(),
            briefed: Vec::new(),
            told: Vec::new(),
            trace: Recorder::default(),
            failed: None,
            unseen: Unseen::default(),
            options,
        })
    }

    pub(crate) fn from_state(
        engine: Engine,
        options: SessionOptions,
        state: SessionState,
    ) -> Result<(Self, RestoreReport)> {
        if state.format != state::FORMAT {
            return Err(Error::new(
                ErrorKind::FormatVersion,
                format!(
                    "the session state has format {} but this release reads {}: open a new session",
                    state.format,
                    state::FORMAT
                ),
            ));
        }
        let mut session = Self::begin(engine, options)?;
        let index = Arc::clone(&session.index);
        let eligible = session.eligible.clone();
        // Decided when the run began: it must not flip because it was stored meanwhile.
        if session.pass_through && !state.pass_through {
            session.pass_through = false;
            let core = slots(&index, core_rows(&index, &eligible, &session.core));
            let options = session.options.working_set.clone();
            session.set = WorkingSet::new(options, core, session.meta_tokens)?;
        }
        let cost = |id: &ToolId| cost(&index, &eligible, id);
        let left_out = session.set.take_over(state.working_set, &cost);
        let known = |id: &ToolId| cost(id).is_some();
        state.recent.into_iter().for_each(|message| session.remember(message));
        session.searches = state.searches;
        session.searches.retain(|(_, found)| found.iter().all(known));
        session.briefed = state.briefed.into_iter().filter(known).collect();
        state.unseen.into_iter().filter(known).for_each(|id| session.unseen.add(id));
        session.told = state.told.into_iter().filter(|(id, _)| known(id)).collect();
        let missing = session.core.iter().filter(|tool| tool.id.is_none());
        let report = RestoreReport {
            stored_version: state.catalog_version,
            current_version: index.snapshot.version(),
            left_out,
            missing_core: missing.map(|tool| tool.name.clone()).collect(),
        };
        Ok((session, report))
    }

    /// What has to be stored to go on later, perhaps in another process.
    ///
    /// # Example
    /// ```
    /// use toolrack::{Catalog, Engine, SessionOptions};
    ///
    /// let engine = Engine::builder(Catalog::parse(r#"[{"name": "a"}, {"name": "b"}]"#)?).build()?;
    /// let options = SessionOptions::default().limit(1);
    /// let mut run = engine.session(options.clone())?;
    /// run.pin("b")?;
    /// let stored = serde_json::to_string(&run.to_state()).unwrap();
    ///
    /// let (run, report) = engine.restore(options, serde_json::from_str(&stored).unwrap())?;
    /// assert!(run.visible().contains("b") && report.left_out.is_empty());
    /// # Ok::<(), toolrack::Error>(())
    /// ```
    pub fn to_state(&self) -> SessionState {
        SessionState {
            format: state::FORMAT,
            catalog_version: self.index.snapshot.version(),
            pass_through: self.pass_through,
            working_set: self.set.to_state(),
            recent: self.recent.clone(),
            searches: self.searches.clone(),
            briefed: self.briefed.clone(),
            unseen: self.unseen.list().clone(),
            told: self.told.clone(),
        }
    }

    /// Begins a turn with a new message: retrieves what it wants and updates the list.
    ///
    /// The request is built from the message and, as far as it says little by itself, from the
    /// messages before it. A failing model is no error: retrieval goes by words then and the
    /// selection is marked degraded.
    ///
    /// # Errors
    /// [`ErrorKind::LexicalIndex`]; the list is as it was then.
    pub fn turn(&mut self, input: impl Into<TurnInput>) -> Result<Turn> {
        self.traced_turn(input.into())
    }

    fn take_turn(&mut self, input: TurnInput) -> Result<Turn> {
        let mut delta = self.begin_step();
        let recent = input.recent.unwrap_or_else(|| self.recent.clone());
        let (mut selection, mut retrieved) = (None, Vec::new());
        if !self.pass_through {
            let mut request = SelectRequest::new(input.message.as_str())
                .recent(recent)
                .k(self.options.retrieve)
                .min_score_ratio(self.options.min_score_ratio)
                .context(self.options.context.clone());
            request.fallback = self.options.fallback;
            request.intent_rules.clone_from(&self.options.intent);
            request.failed = self.failed.take();
            let found = match self.engine.select_among(&self.index, &request, &self.eligible) {
                Ok(found) => found,
                Err(error) => {
                    self.pending = delta;
                    return Err(error);
                }
            };
            self.trace_selection(&request, &found);
            let rows = found.candidates.iter().filter_map(|c| self.index.snapshot.row(&c.id));
            retrieved = slots(&self.index, rows.collect());
            selection = Some(found);
        }
        self.remember(Message::user(input.message));
        let used = self.take_used();
        delta.extend(self.observe(&retrieved, &used));
        Ok(Turn { visible: self.visible(), selection, delta })
    }

    /// Begins a further step of the same turn: the model goes on after tools answered.
    ///
    /// Nothing is retrieved; what was used is promoted, and a refresh of the catalog shows.
    pub fn step(&mut self) -> Turn {
        self.traced_step()
    }

    fn take_step(&mut self) -> Turn {
        let mut delta = self.begin_step();
        let used = self.take_used();
        delta.extend(self.observe(&[], &used));
        Turn { visible: self.visible(), selection: None, delta }
    }

    fn observe(&mut self, retrieved: &[Slot], used: &[Slot]) -> Delta {
        let delta = self.set.observe(retrieved, used);
        // A list that is shown whole does not depend on the set, which only remembers what was used
        // for the day when the catalog outgrows it.
        if self.pass_through { Delta::default() } else { delta }
    }

    /// Remembers what the model said, so that "yes, do it" is understood.
    pub fn note_reply(&mut self, text: impl Into<String>) {
        let text = text.into();
        self.trace_input(|| Stage::Reply { text: text.clone() });
        self.remember(Message::assistant(text));
    }

    /// The list to send to the model now. Read it anew after [`find_tool`](Self::find_tool).
    ///
    /// Whoever takes the list is taken to send it: what came in since the last time counts as shown
    /// to the model from here on, and can be called.
    pub fn visible(&self) -> Visible {
        self.unseen.clear();
        self.list()
    }

    fn list(&self) -> Visible {
        let snapshot = &self.index.snapshot;
        let rows = self.visible_rows();
        let meta = self.lists_meta_tool().then(|| Arc::clone(&self.meta));
        let sent = rows.iter().map(|&row| self.index.costs[row]).sum::<TokenCount>()
            + if meta.is_some() { self.meta_tokens } else { 0 };
        let tools = rows.into_iter().map(|row| Arc::clone(snapshot.visible_tool(row))).collect();
        Visible {
            inner: Arc::new(VisibleInner {
                tools,
                core: self.set.core().len(),
                meta,
                builtins: snapshot
                    .builtins()
                    .filter(|builtin| self.options.context.names(builtin.id()))
                    .filter(|builtin| builtin.name() != Some(&*self.meta.name))
                    .cloned()
                    .map(BuiltinJson)
                    .collect(),
                tokens: TokenFigures::new(sent, self.naive_tokens),
                epoch: self.set.epoch(),
                catalog_version: snapshot.version(),
            }),
        }
    }

    /// Whether there may be something to find. Core and pinned tools never leave the list by
    /// themselves: what else is all loaded just now may be found again.
    fn lists_meta_tool(&self) -> bool {
        let resident = self.set.core().count() + self.set.pinned().count();
        !self.pass_through && resident < self.eligible.count()
    }

    /// Notes that an authorised call ran: the tool is promoted now and reported with the next step.
    pub fn record_use(&mut self, tool: &Authorized) {
        self.note_used(tool.id());
    }

    fn note_used(&mut self, id: &ToolId) {
        self.trace_input(|| Stage::Used { tool: id.clone() });
        self.set.end_call(id);
        self.set.touch(id);
        if !self.used.contains(id) {
            self.used.push(id.clone());
        }
    }

    /// Notes that an authorised call will not be answered: it is no longer held.
    pub fn abandon(&mut self, tool: &Authorized) {
        self.note_abandoned(tool.id());
    }

    fn note_abandoned(&mut self, id: &ToolId) {
        self.trace_input(|| Stage::Abandoned { tool: id.clone() });
        self.set.end_call(id);
    }

    /// Keeps a tool visible until it is unpinned. `name` may be an id, a name, or the unique end of
    /// one.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownTool`], [`ErrorKind::BudgetTooSmall`]; nothing has changed then.
    pub fn pin(&mut self, name: &str) -> Result<Delta> {
        let row = resolve(&self.index, &self.eligible, name, "pinned")?;
        let epoch = self.set.epoch();
        let delta = self.set.pin(slot(&self.index, row))?;
        let tool = self.index.snapshot.tool(row).id().clone();
        let delta = self.note(delta);
        self.trace_edit(epoch, &delta, Stage::Pin { tool });
        Ok(delta)
    }

    /// Makes a pinned tool an ordinary one.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownTool`].
    pub fn unpin(&mut self, name: &str) -> Result<()> {
        let row = resolve(&self.index, &self.eligible, name, "unpinned")?;
        let tool = self.index.snapshot.tool(row).id().clone();
        self.set.unpin(&tool);
        self.trace_input(|| Stage::Unpin { tool });
        Ok(())
    }

    /// Takes a tool out of the list; core and pinned tools stay.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownTool`].
    pub fn release(&mut self, name: &str) -> Result<Delta> {
        let row = resolve(&self.index, &self.eligible, name, "released")?;
        let epoch = self.set.epoch();
        let tool = self.index.snapshot.tool(row).id().clone();
        self.used.retain(|used| *used != tool);
        let delta = self.set.release(&tool);
        let delta = self.note(delta);
        self.trace_edit(epoch, &delta, Stage::Release { tool });
        Ok(delta)
    }

    /// Keeps what changed for the next turn's report; nothing when the list is shown whole, which
    /// does not depend on the set.
    fn note(&mut self, delta: Delta) -> Delta {
        if self.pass_through {
            return Delta { new_epoch: delta.new_epoch, ..Delta::default() };
        }
        self.unseen.extend(&delta);
        self.pending.extend(delta.clone());
        delta
    }

    /// The history was compacted, or the model switched: what is stale leaves, and what the model
    /// was told in replies counts as forgotten. Everything can be found again.
    pub fn on_compaction(&mut self) -> Delta {
        self.searches.clear();
        self.briefed.clear();
        self.told.clear();
        let epoch = self.set.epoch();
        let mut delta = self.set.end_epoch();
        if self.pass_through {
            delta = Delta { new_epoch: true, ..Delta::default() };
        }
        self.pending.extend(delta.clone());
        self.trace_edit(epoch, &delta, Stage::Compaction);
        delta
    }

    /// Changes the trusted facts of the caller, from the next step or call on.
    pub fn set_context(&mut self, context: RuntimeContext) {
        self.traced_context(context);
    }

    fn adopt(&mut self, context: RuntimeContext) {
        self.options.context = context;
        let delta = self.see(self.engine.index());
        self.pending.extend(delta);
    }

    /// Whether the catalog is shown whole.
    pub fn is_pass_through(&self) -> bool {
        self.pass_through
    }

    /// The working set.
    pub fn working_set(&self) -> &WorkingSet {
        &self.set
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The catalog as this step sees it.
    pub fn snapshot(&self) -> &Snapshot {
        &self.index.snapshot
    }

    /// Whether every tool that the caller may use is in the list.
    fn has_nothing_left(&self) -> bool {
        self.pass_through || self.set.len() >= self.eligible.count()
    }

    /// Every tool that the caller may use, in catalog order, under the name that providers know it
    /// by.
    pub fn eligible_tools(&self) -> impl Iterator<Item = &Arc<VisibleTool>> {
        let snapshot = &self.index.snapshot;
        let rows = (0..snapshot.len()).filter(|&row| self.eligible.contains(row));
        rows.map(|row| snapshot.visible_tool(row))
    }

    /// The meta-tool, whether it is in the list now or not.
    pub fn meta_tool(&self) -> &MetaTool {
        &self.meta
    }

    /// Notes that the model was shown the definitions of these tools by other means than the list,
    /// such as a provider's own tool search: calls of them may run until the next compaction.
    ///
    /// Names are those that providers know. What the caller may not use is passed over.
    ///
    /// # Example
    /// ```
    /// use serde_json::json;
    /// use toolrack::{Call, Catalog, Engine, SessionOptions, Verdict};
    ///
    /// let engine = Engine::builder(Catalog::parse(r#"[{"name": "a"}, {"name": "b"}]"#)?).build()?;
    /// let mut run = engine.session(SessionOptions::default().limit(1))?;
    /// run.note_shown(["b"]);
    /// assert!(matches!(run.authorize(&Call::new("b", json!({})))?, Verdict::Run(_)));
    /// # Ok::<(), toolrack::Error>(())
    /// ```
    pub fn note_shown<S: AsRef<str>>(&mut self, names: impl IntoIterator<Item = S>) {
        let mut shown = Vec::new();
        let snapshot = &self.index.snapshot;
        for name in names {
            let row = snapshot.names().by_provider(name.as_ref());
            if let Some(row) = row.filter(|&row| self.eligible.contains(row)) {
                let id = snapshot.tool(row).id();
                if !self.briefed.contains(id) {
                    self.briefed.push(id.clone());
                }
                self.unseen.remove(id);
                shown.push(id.clone());
            }
        }
        self.trace_input(|| Stage::Shown { tools: shown });
    }

    fn is_visible(&self, id: &ToolId) -> bool {
        self.set.contains(id)
            || (self.pass_through
                && self.index.snapshot.row(id).is_some_and(|row| self.eligible.contains(row)))
    }

    fn take_used(&mut self) -> Vec<Slot> {
        let used = std::mem::take(&mut self.used);
        // What was used may have been taken from the caller since.
        let rows = used.iter().filter_map(|id| self.index.snapshot.row(id));
        slots(&self.index, rows.filter(|&row| self.eligible.contains(row)).collect())
    }

    fn remember(&mut self, mut message: Message) {
        let start = message.text.len().saturating_sub(MAX_RECENT_TEXT);
        message.text.drain(..message.text.ceil_char_boundary(start));
        self.recent.push(message);
        if self.recent.len() > MAX_RECENT {
            self.recent.remove(0);
        }
    }
}

/// The rows that a run may use: those of its caller, less one that is called like the meta-tool.
fn reach(index: &ToolIndex, options: &SessionOptions) -> Eligible {
    let eligible =
        tracing::trace_span!("filter").in_scope(|| Eligible::of(&index.snapshot, &options.context));
    match index.snapshot.names().by_provider(&options.meta_tool) {
        Some(reserved) => eligible.without(reserved, index.snapshot.len()),
        None => eligible,
    }
}

fn slot(index: &ToolIndex, row: usize) -> Slot {
    Slot { id: index.snapshot.tool(row).id().clone(), tokens: index.costs[row] }
}

fn slots(index: &ToolIndex, rows: Vec<usize>) -> Vec<Slot> {
    rows.into_iter().map(|row| slot(index, row)).collect()
}

fn cost(index: &ToolIndex, eligible: &Eligible, id: &ToolId) -> Option<TokenCount> {
    let row = index.snapshot.row(id).filter(|&row| eligible.contains(row))?;
    Some(index.costs[row])
}

fn naive_tokens(index: &ToolIndex, eligible: &Eligible) -> TokenCount {
    let costs = index.costs.iter().enumerate();
    costs.filter(|(row, _)| eligible.contains(*row)).map(|(_, cost)| cost).sum()
}

/// The one eligible tool that `name` stands for.
fn resolve(index: &ToolIndex, eligible: &Eligible, name: &str, what: &str) -> Result<usize> {
    let names = index.snapshot.names();
    match names.resolve(name, &|row| eligible.contains(row)).as_slice() {
        [row] => Ok(*row),
        [] => Err(Error::new(
            ErrorKind::UnknownTool,
            format!("there is no tool '{name}' to be {what}: name a tool of the catalog"),
        )),
        several => {
            let ids: Vec<String> =
                several.iter().map(|&row| index.snapshot.tool(row).id().to_string()).collect();
            Err(Error::new(
                ErrorKind::UnknownTool,
                format!("'{name}' to be {what} stands for {}: name one of them", ids.join(" and ")),
            ))
        }
    }
}

/// The first line of a tool's description, as replies show it.
fn summary(tool: &Tool) -> String {
    first_line(tool.description(), SUMMARY)
}
