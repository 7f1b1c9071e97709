//! What a session tells its trace.
//!
//! Each public call of [`Session`] goes through a `traced_` method here, which writes what was
//! asked, lets the session do it, and writes what changed.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use tracing::field::Empty;

use super::{
    Call, FindReply, FindRequest, RefusalKind, Session, SessionOptions, Turn, TurnInput, Verdict,
    Visible, cost, reach,
};
use crate::catalog::ToolId;
use crate::error::{Error, Result};
use crate::index::ToolIndex;
use crate::select::{Eligible, Outcome, RuntimeContext, SelectRequest, Selection};
use crate::trace::{
    Admission, Admitted, Authorization, CatalogStamp, Evicted, Eviction, Found, Listed, Opened,
    Provenance, Recorder, Refreshed, RefusedTool, Resume, Search, Stage, TRACE_FORMAT, TokenLine,
    TraceLevel, TraceSink, TurnBegun, World, of_selection, policy_stamp, sorted,
};
use crate::working_set::{Delta, RefuseReason};

impl Session {
    /// Writes from now on what the run does to `sink`, one JSON object a line ([`Event`]), at the
    /// level [`TraceLevel::Run`].
    ///
    /// A session without a trace pays nothing for it. A sink that fails never fails the run.
    ///
    /// [`Event`]: crate::trace::Event
    ///
    /// # Example: a trace that replays to the same bytes
    /// ```
    /// use toolrack::trace::{Trace, TraceBuffer};
    /// use toolrack::{Catalog, Engine, SessionOptions};
    ///
    /// let engine = Engine::builder(Catalog::parse(r#"[{"name": "a"}, {"name": "b"}]"#)?).build()?;
    /// let trace = TraceBuffer::new();
    /// let mut run = engine.session(SessionOptions::default().limit(1))?;
    /// run.trace_to(trace.clone());
    /// run.turn("call b")?;
    ///
    /// let report = engine.replay(&Trace::parse(&trace.text()))?;
    /// assert!(report.is_identical());
    /// # Ok::<(), toolrack::Error>(())
    /// ```
    pub fn trace_to(&mut self, sink: impl TraceSink + 'static) {
        self.trace_at(TraceLevel::Run, sink);
    }

    /// Like [`trace_to`](Self::trace_to), for a reader of `level`.
    pub fn trace_at(&mut self, level: TraceLevel, sink: impl TraceSink + 'static) {
        self.begin_trace(Recorder::to(Box::new(sink), level, None));
    }

    /// Ends the trace and lets go of its sink.
    pub fn end_trace(&mut self) {
        self.trace = Recorder::default();
    }

    /// How often the sink failed since the trace began.
    pub fn trace_failures(&self) -> u64 {
        self.trace.failures()
    }

    /// A trace that a replay writes.
    pub(super) fn retrace(
        &mut self,
        sink: impl TraceSink + 'static,
        level: TraceLevel,
        made: Provenance,
    ) {
        self.begin_trace(Recorder::to(Box::new(sink), level, Some(made)));
    }

    fn begin_trace(&mut self, recorder: Recorder) {
        // A refused call may have brought in what only a newer catalog lets the run have, and a trace
        // begins with one catalog.
        let held =
            self.set.visible().chain(&self.briefed).chain(self.told.iter().map(|(id, _)| id));
        if held.into_iter().any(|id| cost(&self.index, &self.eligible, id).is_none()) {
            let delta = self.catch_up();
            self.pending.extend(delta);
        }
        self.trace = recorder;
        self.unseen.was_taken();
        let catalog = self.trace.attribute(CatalogStamp::of(&self.index.snapshot));
        let resume = self.resume(catalog.version);
        let mut options = self.options.clone();
        if resume.is_some() {
            // They are in the state.
            options.pinned.clear();
        }
        if self.trace.level() == TraceLevel::Run {
            // What is not there for this caller now must not be named.
            let may = |row: usize| self.eligible.contains(row);
            let names = self.index.snapshot.names();
            let is_there = |name: &String| names.resolve(name, &may).len() == 1;
            options.core.retain(is_there);
            if let Some(rules) = options.intent.as_mut()
                && rules.fallback.as_ref().is_some_and(|name| !is_there(name))
            {
                Arc::make_mut(rules).fallback = None;
            }
        }
        self.trace.set_options(options_value(&options));
        let world = self.look(&self.index, &self.eligible);
        let opened = Opened {
            format: TRACE_FORMAT,
            level: self.trace.level(),
            release: self.trace.release(),
            catalog,
            policy: world.policy.clone(),
            model: world.model.clone(),
            rules: self.engine.rules_digest(),
            options: self.trace.options().clone(),
            pass_through: self.pass_through,
            resume,
        };
        self.trace.set_world(world);
        self.trace.record(Stage::Open(Box::new(opened)));
        let visible = self.list();
        self.trace_list(&visible);
        self.trace.flush();
    }

    /// Where the run stands; `None` when it is as one that was just opened.
    fn resume(&self, catalog_version: u64) -> Option<Resume> {
        let mut state = self.to_state();
        if !self.trace.resumed()
            && self.used.is_empty()
            && let Ok(fresh) = Self::open(self.engine.clone(), self.options.clone())
            && fresh.to_state() == state
            && fresh.pending == self.pending
        {
            return None;
        }
        let may = |id: &ToolId| {
            self.index.snapshot.row(id).is_some_and(|row| self.eligible.contains(row))
        };
        state.catalog_version = catalog_version;
        state.briefed.retain(may);
        state.unseen.retain(may);
        state.told.retain(|(id, _)| may(id));
        // A call may be open on a tool that was taken away since.
        state.working_set.busy.retain(may);
        let mut pending = self.pending.clone();
        pending.admitted.retain(|(id, _)| may(id));
        pending.evicted.retain(|(id, _)| may(id));
        pending.refused.retain(|(id, _)| may(id));
        pending.touched.retain(may);
        let used = self.used.iter().filter(|id| may(id)).cloned().collect();
        Some(Resume { state: value(&state), used, pending })
    }

    /// The catalog, model and policy of now, as a trace names them.
    fn look(&self, index: &Arc<ToolIndex>, eligible: &Eligible) -> World {
        let policy = policy_stamp(
            &index.snapshot,
            eligible,
            &self.options.context,
            self.trace.options(),
            self.trace.level(),
        );
        World {
            index: Arc::clone(index),
            eligible: eligible.clone(),
            catalog: CatalogStamp::of(&index.snapshot),
            model: index.embedder.as_ref().map(|embedder| embedder.fingerprint()),
            policy,
        }
    }

    /// Writes what a refresh changed since the last event, as this caller sees it.
    pub(super) fn trace_world(&mut self, now: &Arc<ToolIndex>) {
        let Some(old) = self.trace.world().filter(|old| !Arc::ptr_eq(&old.index, now)) else {
            return;
        };
        let eligible = reach(now, &self.options);
        let new = self.look(now, &eligible);
        let same = new.catalog.digest == old.catalog.digest && new.model == old.model;
        if !same {
            let (added, removed, changed) = difference(old, &new);
            let refreshed = Refreshed {
                catalog: new.catalog.clone(),
                policy: new.policy.clone(),
                model: new.model.clone(),
                added,
                removed,
                changed,
            };
            let catalog = self.trace.attribute(new.catalog.clone());
            self.trace.record(Stage::Refresh(Box::new(Refreshed { catalog, ..refreshed })));
        }
        self.trace.set_world(new);
    }

    /// Writes the stages of a selection.
    pub(super) fn trace_selection(&mut self, request: &SelectRequest, selection: &Selection) {
        let Some(world) = self.trace.world() else { return };
        let policy = world.policy.version.clone();
        let ranked_by = (self.engine.fusion(), self.engine.scorer_name());
        for stage in of_selection(&self.index.snapshot, request, selection, ranked_by, &policy) {
            self.trace.record(stage);
        }
    }

    fn trace_list(&mut self, visible: &Visible) {
        if self.trace.is_on() {
            self.trace.record(Stage::List(listed(visible)));
        }
    }

    /// Writes what `delta` holds since `mark`, and the list if it changed.
    fn trace_changes(&mut self, mark: &Mark, delta: &Delta) -> bool {
        let admission = Admission {
            admitted: delta.admitted[mark.admitted.min(delta.admitted.len())..]
                .iter()
                .map(|(tool, why)| Admitted { tool: tool.clone(), why: *why })
                .collect(),
            refused: delta.refused[mark.refused.min(delta.refused.len())..]
                .iter()
                .map(refused)
                .collect(),
            touched: delta.touched[mark.touched.min(delta.touched.len())..].to_vec(),
        };
        let eviction = Eviction {
            evicted: delta.evicted[mark.evicted.min(delta.evicted.len())..]
                .iter()
                .map(|(tool, why)| Evicted { tool: tool.clone(), why: *why })
                .collect(),
            new_epoch: self.set.epoch() != mark.epoch,
        };
        let changed =
            !admission.admitted.is_empty() || !eviction.evicted.is_empty() || eviction.new_epoch;
        if admission != Admission::default() {
            self.trace.record(Stage::Admission(admission));
        }
        if eviction != Eviction::default() {
            self.trace.record(Stage::Eviction(eviction));
        }
        changed
    }

    /// Begins the events of one call: a list that was taken comes first, as it showed tools.
    fn mark(&mut self) -> Mark {
        self.trace_taken();
        Mark {
            admitted: self.pending.admitted.len(),
            evicted: self.pending.evicted.len(),
            refused: self.pending.refused.len(),
            touched: self.pending.touched.len(),
            epoch: self.set.epoch(),
        }
    }

    /// Writes what is pending since `mark` and, when the list changed, the list.
    fn trace_pending(&mut self, mark: &Mark) {
        let pending = std::mem::take(&mut self.pending);
        let changed = self.trace_changes(mark, &pending);
        self.pending = pending;
        if changed {
            let visible = self.list();
            self.trace_list(&visible);
        }
    }

    /// Reading the list needs no `&mut`, so that it is written when the next call comes.
    fn trace_taken(&mut self) {
        if self.trace.is_on() && self.unseen.was_taken() {
            self.trace.record(Stage::Taken);
        }
    }

    fn trace_failure(&mut self, error: &Error) {
        if self.trace.is_on() {
            self.trace.record(Stage::Failed { error: error.to_string() });
        }
    }

    pub(super) fn traced_turn(&mut self, input: TurnInput) -> Result<Turn> {
        let span = tracing::debug_span!(
            "turn",
            outcome = Empty,
            admitted = Empty,
            evicted = Empty,
            degraded = Empty,
            tokens.naive = Empty,
            tokens.sent = Empty,
            tokens.saved = Empty
        )
        .entered();
        let mark = self.mark();
        if self.trace.is_on() {
            self.trace.begin_turn();
            let (message, recent) = (input.message.clone(), input.recent.clone());
            self.trace.record(Stage::Turn(TurnBegun { message, recent }));
        }
        let result = self.take_turn(input);
        match &result {
            Ok(turn) => {
                note_turn(&span, turn);
                self.trace_turn(&mark, turn);
            }
            Err(error) => {
                self.trace_failure(error);
                if self.trace.is_on() {
                    // A refresh that was seen shows with the next turn.
                    self.trace_pending(&mark);
                }
            }
        }
        self.trace.flush();
        result
    }

    pub(super) fn traced_step(&mut self) -> Turn {
        let span = tracing::debug_span!(
            "step",
            admitted = Empty,
            evicted = Empty,
            tokens.naive = Empty,
            tokens.sent = Empty,
            tokens.saved = Empty
        )
        .entered();
        let mark = self.mark();
        self.trace.record(Stage::Step);
        let turn = self.take_step();
        note_turn(&span, &turn);
        self.trace_turn(&mark, &turn);
        self.trace.flush();
        turn
    }

    fn trace_turn(&mut self, mark: &Mark, turn: &Turn) {
        if self.trace.is_on() {
            // What was pending comes first in the turn's delta and is written already.
            self.trace_changes(mark, &turn.delta);
            self.trace_list(&turn.visible);
            // A turn gives the list anyway.
            self.unseen.was_taken();
        }
    }

    pub(super) fn traced_find(&mut self, request: &FindRequest) -> Result<FindReply> {
        let span = tracing::debug_span!(
            "find_tool",
            status = Empty,
            loaded = Empty,
            total = Empty,
            degraded = Empty
        )
        .entered();
        let mark = self.mark();
        if self.trace.is_on() {
            self.trace.record(Stage::FindTool(Search {
                intents: request.intents.clone(),
                names: request.names.clone(),
                exact: request.exact,
                describe: request.describe.clone(),
                namespace: request.namespace.clone(),
                limit: request.limit,
            }));
        }
        let result = self.carry_out(request);
        match &result {
            Ok(reply) => {
                if !span.is_disabled() {
                    span.record("status", name_of(&reply.status));
                    span.record("loaded", reply.loaded.len());
                    span.record("total", reply.total);
                    span.record("degraded", reply.degraded.is_some());
                }
                if self.trace.is_on() {
                    self.trace.record(Stage::Found(Box::new(found(reply))));
                    self.trace_pending(&mark);
                }
            }
            Err(error) => self.trace_failure(error),
        }
        self.trace.flush();
        result
    }

    pub(super) fn traced_authorize(&mut self, call: &Call) -> Result<Verdict> {
        let span = tracing::debug_span!("authorize", verdict = Empty).entered();
        let mark = self.mark();
        // Looked at once, so that what is judged is what is written.
        let now = self.engine.index();
        let result = self.judge(call, &now);
        let (verdict, tool) = match &result {
            Ok(Verdict::MetaTool(_)) => ("meta-tool".to_owned(), None),
            Ok(Verdict::Run(authorized)) => ("run".to_owned(), Some(authorized.id().clone())),
            Ok(Verdict::Refused(why)) => {
                let tool = match why.kind {
                    RefusalKind::NotLoaded => self.unseen.list().last().cloned(),
                    RefusalKind::Changed => self.told.last().map(|(id, _)| id.clone()),
                    _ => None,
                };
                (name_of(&why.kind), tool)
            }
            Err(_) => ("failed".to_owned(), None),
        };
        span.record("verdict", verdict.as_str());
        if self.trace.is_on() {
            let meta = call.name == self.meta.name;
            self.trace.record(Stage::Authorize(Authorization {
                name: call.name.clone(),
                call: call.id.clone(),
                verdict,
                tool,
                arguments: meta.then(|| sorted(call.arguments.clone())),
            }));
            self.trace_world(&now);
            self.trace_pending(&mark);
            if let Err(error) = &result {
                self.trace_failure(error);
            }
            self.trace.flush();
        }
        result
    }

    /// Writes what the runtime did, when it changes no list.
    pub(super) fn trace_input(&mut self, stage: impl FnOnce() -> Stage) {
        if self.trace.is_on() {
            self.trace_taken();
            self.trace.record(stage());
            self.trace.flush();
        }
    }

    /// Writes what the runtime did and how `delta`, which is pending already, changed the list.
    pub(super) fn trace_edit(&mut self, epoch: u64, delta: &Delta, stage: Stage) {
        if !self.trace.is_on() {
            return;
        }
        self.trace_taken();
        self.trace.record(stage);
        let mark = Mark { epoch, ..Mark::default() };
        if self.trace_changes(&mark, delta) {
            let visible = self.list();
            self.trace_list(&visible);
        }
        self.trace.flush();
    }

    pub(super) fn traced_context(&mut self, context: RuntimeContext) {
        if !self.trace.is_on() {
            return self.adopt(context);
        }
        let mark = self.mark();
        // First the new facts on the catalog last spoken of, then a newer one, if there is one.
        if let Some(world) = self.trace.world().cloned() {
            let snapshot = &world.index.snapshot;
            let then = SessionOptions { context: context.clone(), ..self.options.clone() };
            let eligible = reach(&world.index, &then);
            let (options, level) = (self.trace.options(), self.trace.level());
            let policy = policy_stamp(snapshot, &eligible, &context, options, level);
            self.trace.record(Stage::Context { policy: policy.clone() });
            self.trace.set_world(World { policy, eligible, ..world });
        }
        self.adopt(context);
        let now = Arc::clone(&self.index);
        self.trace_world(&now);
        self.trace_pending(&mark);
        self.trace.flush();
    }
}

/// How much of the pending changes is written, and the epoch then.
#[derive(Default)]
struct Mark {
    admitted: usize,
    evicted: usize,
    refused: usize,
    touched: usize,
    epoch: u64,
}

/// Tools that `new` adds, removes and changes for the caller of each.
fn difference(old: &World, new: &World) -> (Vec<ToolId>, Vec<ToolId>, Vec<ToolId>) {
    let usable = |world: &World| -> Vec<ToolId> {
        let tools = world.index.snapshot.tools().enumerate();
        tools
            .filter(|(row, _)| world.eligible.contains(*row))
            .map(|(_, tool)| tool.id().clone())
            .collect()
    };
    let may = |world: &World, id: &ToolId| {
        world.index.snapshot.row(id).is_some_and(|row| world.eligible.contains(row))
    };
    let (before, after) = (usable(old), usable(new));
    let added = after.iter().filter(|id| !may(old, id)).cloned().collect();
    let removed = before.into_iter().filter(|id| !may(new, id)).collect();
    let differs =
        |id: &&ToolId| may(old, id) && old.index.snapshot.get(id) != new.index.snapshot.get(id);
    let changed = after.iter().filter(differs).cloned().collect();
    (added, removed, changed)
}

fn listed(visible: &Visible) -> Listed {
    let tokens = visible.tokens();
    Listed {
        tools: visible.tools().iter().map(|tool| tool.tool.id().clone()).collect(),
        core: visible.inner.core,
        meta_tool: visible.meta_tool().map(|meta| meta.name.clone()),
        epoch: visible.epoch(),
        tokens: TokenLine { naive: tokens.naive, sent: tokens.sent, saved: tokens.saved() },
    }
}

fn found(reply: &FindReply) -> Found {
    let ids = |list: &[super::FoundTool]| list.iter().map(|tool| tool.id.clone()).collect();
    Found {
        status: name_of(&reply.status),
        loaded: ids(&reply.loaded),
        visible: ids(&reply.visible),
        not_loaded: reply
            .not_loaded
            .iter()
            .map(|(tool, why)| RefusedTool { tool: tool.id.clone(), why: *why })
            .collect(),
        ambiguous: ids(&reply.ambiguous),
        near: ids(&reply.near),
        unknown_names: reply.unknown_names.clone(),
        shown: reply.shown,
        total: reply.total,
        degraded: reply.degraded.clone(),
    }
}

fn refused((tool, why): &(ToolId, RefuseReason)) -> RefusedTool {
    RefusedTool { tool: tool.clone(), why: *why }
}

fn note_turn(span: &tracing::Span, turn: &Turn) {
    if span.is_disabled() {
        return;
    }
    let tokens = turn.visible.tokens();
    span.record("admitted", turn.delta.admitted.len());
    span.record("evicted", turn.delta.evicted.len());
    span.record("tokens.naive", tokens.naive);
    span.record("tokens.sent", tokens.sent);
    span.record("tokens.saved", tokens.saved());
    if let Some(selection) = &turn.selection {
        span.record("outcome", outcome_name(&selection.outcome));
        span.record("degraded", selection.is_degraded());
    }
}

fn outcome_name(outcome: &Outcome) -> String {
    value(outcome)["outcome"].as_str().unwrap_or_default().to_owned()
}

/// How serde writes a plain enum.
fn name_of(kind: &impl Serialize) -> String {
    value(kind).as_str().unwrap_or_default().to_owned()
}

fn value(data: &impl Serialize) -> Value {
    // Plain data with string keys always has a JSON form.
    sorted(serde_json::to_value(data).unwrap_or_default())
}

fn options_value(options: &super::SessionOptions) -> Value {
    let mut options = value(options);
    if let Value::Object(fields) = &mut options {
        fields.remove("context");
    }
    // Where a map keeps the order of insertion, another key has taken the place of that one.
    sorted(options)
}
