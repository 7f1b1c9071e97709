//! One run of an agent: its turns, its working set, its meta-tool, its gate.

mod asynchronous;
mod authorize;
mod find_tool;
mod lookup;
mod options;
mod search;
mod state;
mod turn;
mod visible;

use std::sync::{Arc, Mutex, PoisonError};

pub use asynchronous::AsyncSession;
pub use authorize::{Authorized, Call, Refusal, RefusalKind, Verdict};
pub use find_tool::{Definition, FindReply, FindRequest, FindStatus, FoundTool};
pub use options::{FIND_TOOL, SessionOptions};
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
use crate::working_set::{Delta, ListOrder, Slot, WorkingSet};

/// Messages that a session remembers for its requests.
const MAX_RECENT: usize = 6;
/// Bytes of a remembered message.
const MAX_RECENT_TEXT: usize = 4 * 1024;

/// Bytes of a tool's line in a reply.
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
    set: WorkingSet,
    meta: Arc<MetaTool>,
    meta_tokens: TokenCount,
    /// Tokens of all eligible tools.
    naive_tokens: TokenCount,
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
    /// Tools that came in since a list was last taken: the model was not shown them yet.
    unseen: Unseen,
}

/// Tools that are in the list but in none that was taken.
///
/// Taking a list needs no `&mut`, as reading should not; hence the lock, which nobody contends.
#[derive(Debug, Default)]
struct Unseen(Mutex<Vec<ToolId>>);

impl Unseen {
    fn add(&self, id: ToolId) {
        self.list().push(id);
    }

    fn remove(&self, id: &ToolId) {
        self.list().retain(|other| other != id);
    }

    fn clear(&self) {
        self.list().clear();
    }

    fn contains(&self, id: &ToolId) -> bool {
        self.list().contains(id)
    }

    fn list(&self) -> std::sync::MutexGuard<'_, Vec<ToolId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    pub(crate) fn open(engine: Engine, options: SessionOptions) -> Result<Self> {
        options.validate()?;
        let index = engine.index();
        let eligible = reach(&index, &options);
        let meta = MetaTool::new(&options.meta_tool, options.compressed.is_some());
        let meta_tokens = engine.token_counter().count(&definition_text(
            &meta.name,
            &meta.description,
            Some(&meta.parameters),
        ));

        let most = options.pass_through.unwrap_or(options.working_set.limit);
        let whole: TokenCount = naive_tokens(&index, &eligible);
        let fits = options.working_set.token_budget.is_none_or(|budget| whole <= budget);
        let pass_through = eligible.count() <= most && fits;

        let core = resolve_all(&index, &eligible, &options.core, "core")?;
        let set = if pass_through {
            // Everything is shown, so that no limit can be passed.
            let roomy = options.working_set.clone().limit(usize::MAX);
            WorkingSet::new(roomy, slots(&index, core), 0)?
        } else {
            WorkingSet::new(options.working_set.clone(), slots(&index, core), meta_tokens)?
        };
        let mut session = Self {
            engine,
            index,
            eligible,
            set,
            meta: Arc::new(meta),
            meta_tokens,
            naive_tokens: whole,
            pass_through,
            recent: Vec::new(),
            used: Vec::new(),
            pending: Delta::default(),
            searches: Vec::new(),
            briefed: Vec::new(),
            unseen: Unseen::default(),
            options,
        };
        let pinned = session.options.pinned.clone();
        for row in resolve_all(&session.index, &session.eligible, &pinned, "pinned")? {
            let slot = slot(&session.index, row);
            let delta = session.set.pin(slot)?;
            session.pending.extend(delta);
        }
        Ok(session)
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
        let mut session = Self::open(engine, options)?;
        let index = Arc::clone(&session.index);
        let eligible = session.eligible.clone();
        // Decided when the run began: it must not flip because it was stored meanwhile.
        if session.pass_through != state.pass_through {
            session.pass_through = state.pass_through;
            let core = session.set.core().cloned().collect::<Vec<_>>();
            let core = core.iter().filter_map(|id| index.snapshot.row(id)).collect();
            let (options, reserved) = if state.pass_through {
                (session.options.working_set.clone().limit(usize::MAX), 0)
            } else {
                (session.options.working_set.clone(), session.meta_tokens)
            };
            session.set = WorkingSet::new(options, slots(&index, core), reserved)?;
        }
        let cost = |id: &ToolId| cost(&index, &eligible, id);
        let left_out = session.set.take_over(state.working_set, &cost);
        let known = |id: &ToolId| cost(id).is_some();
        session.recent = state.recent;
        session.searches = state.searches;
        session.briefed = state.briefed.into_iter().filter(known).collect();
        session.pending = Delta::default();
        let report = RestoreReport {
            stored_version: state.catalog_version,
            current_version: index.snapshot.version(),
            left_out,
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
        let input = input.into();
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
            let found = self.engine.select_among(&self.index, &request, &self.eligible)?;
            let rows = found.candidates.iter().filter_map(|c| self.index.snapshot.row(&c.id));
            retrieved = slots(&self.index, rows.collect());
            selection = Some(found);
        }
        self.remember(Message::user(input.message));
        let used = self.take_used();
        delta.extend(self.set.observe(&retrieved, &used));
        Ok(Turn { visible: self.visible(), selection, delta })
    }

    /// Begins a further step of the same turn: the model goes on after tools answered.
    ///
    /// Nothing is retrieved; what was used is promoted, and a refresh of the catalog shows.
    pub fn step(&mut self) -> Turn {
        let mut delta = self.begin_step();
        let used = self.take_used();
        delta.extend(self.set.observe(&[], &used));
        Turn { visible: self.visible(), selection: None, delta }
    }

    /// Remembers what the model said, so that "yes, do it" is understood.
    pub fn note_reply(&mut self, text: impl Into<String>) {
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
        let core: Vec<usize> = self.set.core().filter_map(|id| snapshot.row(id)).collect();
        let n_core = core.len();
        let mut rows = core;
        if self.pass_through {
            for row in 0..snapshot.len() {
                if self.eligible.contains(row) && !rows.contains(&row) {
                    rows.push(row);
                }
            }
            if self.options.working_set.order == ListOrder::Name {
                rows[n_core..].sort_by_key(|&row| snapshot.names().provider_name(row));
            }
        } else {
            rows.extend(
                self.set.visible().skip(self.set.core().len()).filter_map(|id| snapshot.row(id)),
            );
        }
        let all = rows.len() >= self.eligible.count();
        let meta = (!all).then(|| self.meta.clone());
        let sent = rows.iter().map(|&row| self.index.costs[row]).sum::<TokenCount>()
            + if meta.is_some() { self.meta_tokens } else { 0 };
        let tools = rows.into_iter().map(|row| Arc::clone(snapshot.visible_tool(row))).collect();
        Visible {
            inner: Arc::new(VisibleInner {
                tools,
                core: n_core,
                meta,
                builtins: snapshot
                    .builtins()
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

    /// Whether a call may run, judged by the policy and the catalog of now.
    ///
    /// A call of a tool that the caller may use but was not shown is refused with the tool's
    /// definition, and the tool is loaded: the model guessed its arguments. A call of a tool that
    /// the caller may not use gets the same words as one that does not exist.
    ///
    /// # Errors
    /// [`ErrorKind::LexicalIndex`] when suggestions cannot be made.
    pub fn authorize(&mut self, call: &Call) -> Result<Verdict> {
        if call.name == self.meta.name {
            return Ok(match FindRequest::from_arguments(&call.arguments) {
                Ok(request) => Verdict::MetaTool(request),
                Err(error) => {
                    let text = format!("{} was not understood: {error}.", self.meta.name);
                    Verdict::Refused(Refusal::new(RefusalKind::BadArguments, text))
                }
            });
        }
        let now = self.engine.index();
        let snapshot = &now.snapshot;
        let eligible = reach(&now, &self.options);
        let may = |row: usize| eligible.contains(row);
        let rows = match snapshot.names().by_provider(&call.name).filter(|&row| may(row)) {
            Some(row) => vec![row],
            None => snapshot.names().resolve(&call.name, &may),
        };
        match rows.as_slice() {
            [row] => Ok(self.authorize_row(&now, *row)),
            [] => self.refuse_unknown(&now, &call.name).map(Verdict::Refused),
            several => {
                let names: Vec<&str> =
                    several.iter().map(|&row| snapshot.names().provider_name(row)).collect();
                let text = format!(
                    "'{}' stands for several tools; call one of: {}.",
                    call.name.escape_debug(),
                    names.join(", ")
                );
                Ok(Verdict::Refused(Refusal::new(RefusalKind::Ambiguous, text)))
            }
        }
    }

    fn authorize_row(&mut self, now: &ToolIndex, row: usize) -> Verdict {
        let tool = now.snapshot.tool(row).clone();
        let id = tool.id().clone();
        let known = self.is_visible(&id) || self.briefed.contains(&id);
        let shown = known && !self.unseen.contains(&id);
        if shown {
            self.set.begin_call(&id);
            return Verdict::Run(Authorized { tool });
        }
        let delta = self.set.admit_called(&slot(now, row));
        let loaded = self.set.contains(&id);
        self.pending.extend(delta);
        self.unseen.add(id.clone());
        if !self.briefed.contains(&id) {
            self.briefed.push(id);
        }
        let name = now.snapshot.names().provider_name(row);
        let definition = definition_text(name, tool.description(), tool.parameters());
        let list = if loaded { "It is in your list from your next message on. " } else { "" };
        let text = format!(
            "{name} did not run, because you had not been shown its definition and guessed the \
             arguments. {list}Call it again with arguments that fit: {definition}"
        );
        Verdict::Refused(Refusal::new(RefusalKind::NotLoaded, text))
    }

    /// The same words for hidden and missing tools, with suggestions from the eligible ones.
    fn refuse_unknown(&self, now: &Arc<ToolIndex>, name: &str) -> Result<Refusal> {
        let shown: String = name.chars().take(80).collect();
        let request = SelectRequest::new(shown.as_str()).k(3).context(self.options.context.clone());
        let near = self.engine.select_among(now, &request, &reach(now, &self.options))?;
        let mut text = format!("There is no tool called '{}'.", shown.escape_debug());
        let names: Vec<&str> =
            near.candidates.iter().filter_map(|c| now.snapshot.provider_name(&c.id)).collect();
        if !names.is_empty() {
            text += &format!(" Similar ones: {}.", names.join(", "));
        }
        if self.list().meta_tool().is_some() {
            text += &format!(" Use {} to look for what you need.", self.meta.name);
        }
        Ok(Refusal::new(RefusalKind::Unknown, text))
    }

    /// Notes that an authorised call ran: the tool is promoted now and reported with the next step.
    pub fn record_use(&mut self, tool: &Authorized) {
        let id = tool.id();
        self.set.end_call(id);
        self.set.touch(id);
        if !self.used.contains(id) {
            self.used.push(id.clone());
        }
    }

    /// Notes that an authorised call will not be answered: it is no longer held.
    pub fn abandon(&mut self, tool: &Authorized) {
        self.set.end_call(tool.id());
    }

    /// Keeps a tool visible until it is unpinned. `name` may be an id, a name, or the unique end of
    /// one.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownTool`], [`ErrorKind::BudgetTooSmall`]; nothing has changed then.
    pub fn pin(&mut self, name: &str) -> Result<Delta> {
        let row = resolve(&self.index, &self.eligible, name, "pinned")?;
        let delta = self.set.pin(slot(&self.index, row))?;
        self.pending.extend(delta.clone());
        Ok(delta)
    }

    /// Makes a pinned tool an ordinary one.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownTool`].
    pub fn unpin(&mut self, name: &str) -> Result<()> {
        let row = resolve(&self.index, &self.eligible, name, "unpinned")?;
        self.set.unpin(self.index.snapshot.tool(row).id());
        Ok(())
    }

    /// Takes a tool out of the list; core and pinned tools stay.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownTool`].
    pub fn release(&mut self, name: &str) -> Result<Delta> {
        let row = resolve(&self.index, &self.eligible, name, "released")?;
        let delta = self.set.release(self.index.snapshot.tool(row).id());
        self.pending.extend(delta.clone());
        Ok(delta)
    }

    /// The history was compacted, or the model switched: what is stale leaves, and what the model
    /// was told in replies counts as forgotten. Everything can be found again.
    pub fn on_compaction(&mut self) -> Delta {
        self.searches.clear();
        self.briefed.clear();
        let delta = self.set.end_epoch();
        self.pending.extend(delta.clone());
        delta
    }

    /// Changes the trusted facts of the caller, from the next step or call on.
    pub fn set_context(&mut self, context: RuntimeContext) {
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
        let snapshot = &self.index.snapshot;
        for name in names {
            let row = snapshot.names().by_provider(name.as_ref());
            if let Some(row) = row.filter(|&row| self.eligible.contains(row)) {
                let id = snapshot.tool(row).id();
                if !self.briefed.contains(id) {
                    self.briefed.push(id.clone());
                }
                self.unseen.remove(id);
            }
        }
    }

    fn is_visible(&self, id: &ToolId) -> bool {
        self.set.contains(id)
            || (self.pass_through
                && self.index.snapshot.row(id).is_some_and(|row| self.eligible.contains(row)))
    }

    /// Takes in the current index; what changed since the last step comes with it.
    fn begin_step(&mut self) -> Delta {
        let mut delta = std::mem::take(&mut self.pending);
        let index = self.engine.index();
        if !Arc::ptr_eq(&index, &self.index) {
            delta.extend(self.see(index));
        }
        delta
    }

    fn see(&mut self, index: Arc<ToolIndex>) -> Delta {
        let old = std::mem::replace(&mut self.index, index);
        self.eligible = reach(&self.index, &self.options);
        let (index, eligible) = (Arc::clone(&self.index), self.eligible.clone());
        self.naive_tokens = naive_tokens(&index, &eligible);
        // A core tool that is gone comes back by itself when its source does.
        let core = self
            .options
            .core
            .iter()
            .filter_map(|name| resolve(&index, &eligible, name, "core").ok())
            .collect();
        let mut delta = self.set.reconcile(slots(&index, core), &|id| cost(&index, &eligible, id));
        let changed = |id: &&ToolId| old.snapshot.get(id) != index.snapshot.get(id);
        if self.set.visible().any(|id| changed(&id)) {
            delta.new_epoch = true;
        }
        self.briefed.retain(|id| old.snapshot.get(id) == index.snapshot.get(id));
        delta
    }

    fn take_used(&mut self) -> Vec<Slot> {
        let used = std::mem::take(&mut self.used);
        slots(&self.index, used.iter().filter_map(|id| self.index.snapshot.row(id)).collect())
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
    let eligible = Eligible::of(&index.snapshot, &options.context);
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

fn resolve_all(
    index: &ToolIndex,
    eligible: &Eligible,
    names: &[String],
    what: &str,
) -> Result<Vec<usize>> {
    names.iter().map(|name| resolve(index, eligible, name, what)).collect()
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
