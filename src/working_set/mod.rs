//! The few tools that a run carries now.

mod delta;
mod options;
mod state;

use std::cmp::Reverse;

use lru::LruCache;
use tracing::field::Empty;

pub use delta::{AdmitReason, Delta, EvictReason, RefuseReason};
pub use options::{ListOrder, Timing, WorkingSetOptions};
pub use state::WorkingSetState;

use crate::catalog::{ToolId, provider_name};
use crate::error::{Error, ErrorKind, Result};
use crate::text::TokenCount;

/// A tool and the tokens that its definition takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Which tool.
    pub id: ToolId,
    /// Tokens of its definition.
    pub tokens: TokenCount,
}

/// What is known of an active tool.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Active {
    tokens: TokenCount,
    /// Step in which it was last called, found or retrieved.
    wanted: u64,
    /// Whether the model ever called it or asked for it.
    earned: bool,
    /// Last step in which it may not be evicted: what was found has to live to be called.
    held: u64,
}

/// The visible tools of one run: core, pinned and active ones under a tool limit and a token budget.
///
/// The order is core as given, then admission order, or names when [`ListOrder::Name`] is set.
/// Wanting a tool again never moves it.
///
/// Active tools are kept in order of recency. A tool that was only retrieved makes room for what a
/// later turn retrieves, the worst of the oldest turn first, and for what the model asks for at once;
/// one that the model called or asked for yields to retrieval only when stale, and to what the model
/// asks for when it is the least recent. Never evicted are core, pins, what was called in this step,
/// what was found in this step or the one before, and tools with an unanswered call. Nothing is
/// evicted for a tool that would not fit even so.
///
/// # Example: the textbook working set
/// ```
/// use toolrack::{AdmitReason, Slot, Timing, ToolId, WorkingSet, WorkingSetOptions};
///
/// let slot = |name: &str| Slot { id: ToolId::new("demo", name).unwrap(), tokens: 100 };
/// let options = WorkingSetOptions::default().limit(3).timing(Timing::Immediate).stale_after(1);
/// let mut set = WorkingSet::new(options, vec![slot("core")], 0)?;
///
/// let delta = set.observe(&[slot("a"), slot("b"), slot("c")], &[]);
/// assert_eq!(delta.admitted.len(), 2);
/// assert_eq!(delta.refused[0].0.name(), "c");
///
/// set.observe(&[], &[slot("a")]);
/// let delta = set.observe(&[slot("d")], &[slot("a")]);
/// assert_eq!(delta.evicted[0].0.name(), "b");
/// let names: Vec<_> = set.visible().map(|id| id.name().to_owned()).collect();
/// assert_eq!(names, ["core", "a", "d"]);
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct WorkingSet {
    options: WorkingSetOptions,
    core: Vec<Slot>,
    pinned: Vec<Slot>,
    /// From the least to the most recently wanted.
    active: LruCache<ToolId, Active>,
    /// Pinned and active tools as they are listed.
    order: Vec<ToolId>,
    /// Tools with an unanswered call, one entry a call.
    busy: Vec<ToolId>,
    /// Tokens that are spent before any tool: the meta-tool's.
    reserved: TokenCount,
    step: u64,
    /// Step of the last retrieval.
    retrieved: u64,
    epoch: u64,
}

impl WorkingSet {
    /// A set with `core` always in it; `reserved` tokens of the budget are spent elsewhere.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidSetting`] for options out of range, [`ErrorKind::BudgetTooSmall`] when
    /// the core alone passes the limit or the budget.
    pub fn new(options: WorkingSetOptions, core: Vec<Slot>, reserved: TokenCount) -> Result<Self> {
        options.validate()?;
        let set = Self {
            options,
            core: dedup(core),
            pinned: Vec::new(),
            active: LruCache::unbounded(),
            order: Vec::new(),
            busy: Vec::new(),
            reserved,
            step: 0,
            retrieved: 0,
            epoch: 0,
        };
        set.check_resident()?;
        Ok(set)
    }

    /// Begins a step: the model called `just_used`, and `retrieved` fits what is wanted now.
    ///
    /// Used tools are promoted (and admitted if they were not visible), retrieved ones admitted in
    /// the order given, best first, as far as there is room.
    pub fn observe(&mut self, retrieved: &[Slot], just_used: &[Slot]) -> Delta {
        self.change(|set, delta| {
            set.step = set.step.saturating_add(1);
            set.want_all(just_used, AdmitReason::Called, delta);
            if set.options.timing == Timing::Immediate {
                // What is wanted again is not stale: to evict and admit it anew would only move it.
                set.evict_stale(retrieved, delta);
            }
            if !retrieved.is_empty() {
                set.retrieved = set.step;
            }
            set.want_all(retrieved, AdmitReason::Retrieved, delta);
        })
    }

    /// Admits what the model asked for, in the order given; stays in the same step.
    pub fn admit_found(&mut self, found: &[Slot]) -> Delta {
        self.admit(found, AdmitReason::Found)
    }

    /// Admits a tool that the model called unseen.
    pub fn admit_called(&mut self, called: &Slot) -> Delta {
        self.admit(std::slice::from_ref(called), AdmitReason::Called)
    }

    fn admit(&mut self, slots: &[Slot], why: AdmitReason) -> Delta {
        self.change(|set, delta| set.want_all(slots, why, delta))
    }

    /// Keeps `slot` visible until it is unpinned.
    ///
    /// # Errors
    /// [`ErrorKind::BudgetTooSmall`] when core and pins would pass the limit or the budget, or when
    /// no room can be made now because the other tools are in use; nothing has changed then.
    pub fn pin(&mut self, slot: Slot) -> Result<Delta> {
        if self.is_resident(&slot.id) {
            return Ok(Delta::default());
        }
        self.pinned.push(slot.clone());
        let checked = self.check_resident();
        self.pinned.pop();
        checked?;
        if !self.active.contains(&slot.id) && !self.has_room(slot.tokens, true) {
            return Err(Error::new(
                ErrorKind::BudgetTooSmall,
                format!(
                    "there is no room to pin {}, because the other tools are in use: pin it in a \
                     later step or raise the limits",
                    slot.id
                ),
            ));
        }
        Ok(self.change(|set, delta| {
            let known = set.active.pop(&slot.id).is_some();
            if !known {
                while set.overflow(Some(slot.tokens)).is_some() && set.make_room(true, delta) {}
                set.list(slot.id.clone());
                delta.admitted.push((slot.id.clone(), AdmitReason::Pinned));
            }
            set.pinned.push(slot);
        }))
    }

    /// Makes a pinned tool an active one, most recently wanted.
    pub fn unpin(&mut self, id: &ToolId) {
        if let Some(place) = self.pinned.iter().position(|slot| slot.id == *id) {
            let slot = self.pinned.remove(place);
            let active = Active { tokens: slot.tokens, wanted: self.step, earned: true, held: 0 };
            self.active.push(slot.id, active);
        }
    }

    /// Takes an active tool out; core and pinned tools stay.
    pub fn release(&mut self, id: &ToolId) -> Delta {
        self.change(|set, delta| set.evict(&id.clone(), EvictReason::Released, delta))
    }

    /// Marks the tool as called and not yet answered.
    pub fn begin_call(&mut self, id: &ToolId) {
        self.busy.push(id.clone());
    }

    /// Marks one call of the tool as answered.
    pub fn end_call(&mut self, id: &ToolId) {
        if let Some(place) = self.busy.iter().position(|busy| busy == id) {
            self.busy.remove(place);
        }
    }

    /// Promotes a visible tool at once, without beginning a step.
    pub fn touch(&mut self, id: &ToolId) {
        let step = self.step;
        if let Some(active) = self.active.get_mut(id) {
            active.wanted = step;
            active.earned = true;
        }
    }

    /// Ends the epoch: the provider's cache is lost anyway, so what is stale goes now.
    ///
    /// Call it when the history is compacted or the model is switched.
    pub fn end_epoch(&mut self) -> Delta {
        let mut delta = self.change(|set, delta| set.evict_stale(&[], delta));
        self.begin_epoch(&mut delta);
        delta
    }

    /// Notes that the list changed in a way that the set cannot see, unless `delta` says so already.
    pub(crate) fn begin_epoch(&mut self, delta: &mut Delta) {
        if !delta.new_epoch {
            self.epoch = self.epoch.saturating_add(1);
        }
        delta.new_epoch = true;
    }

    /// Takes in a changed catalog: `cost` gives the tokens of a tool that may still be used, and
    /// `None` for one that is gone. `core` replaces the core tools.
    ///
    /// Should the residents no longer fit (definitions grew), active tools go first; the residents
    /// themselves stay.
    pub(crate) fn reconcile(
        &mut self,
        core: Vec<Slot>,
        cost: &dyn Fn(&ToolId) -> Option<TokenCount>,
    ) -> Delta {
        self.change(|set, delta| {
            let core = dedup(core);
            for slot in set.core.iter().filter(|old| core.iter().all(|new| new.id != old.id)) {
                delta.evicted.push((slot.id.clone(), EvictReason::Gone));
            }
            for slot in &core {
                if !set.contains(&slot.id) {
                    delta.admitted.push((slot.id.clone(), AdmitReason::Listed));
                }
                set.pinned.retain(|pinned| pinned.id != slot.id);
                set.active.pop(&slot.id);
                set.order.retain(|other| *other != slot.id);
            }
            set.core = core;
            let gone = |id: &ToolId| cost(id).is_none();
            let lost: Vec<ToolId> = set.order.iter().filter(|id| gone(id)).cloned().collect();
            for id in lost {
                set.pinned.retain(|slot| slot.id != id);
                set.active.pop(&id);
                set.order.retain(|other| *other != id);
                set.busy.retain(|other| *other != id);
                delta.evicted.push((id, EvictReason::Gone));
            }
            for slot in &mut set.pinned {
                slot.tokens = cost(&slot.id).unwrap_or(slot.tokens);
            }
            for (id, active) in set.active.iter_mut() {
                active.tokens = cost(id).unwrap_or(active.tokens);
            }
            while set.overflow(None).is_some() && set.evict_least_recent(true, delta) {}
        })
    }

    /// Puts the set under stricter limits: what does not fit leaves, the least recent first, busy tools
    /// and residents excepted.
    pub(crate) fn restrict(&mut self, options: WorkingSetOptions, reserved: TokenCount) -> Delta {
        self.options = options;
        self.reserved = reserved;
        self.change(
            |set, delta| {
                while set.overflow(None).is_some() && set.evict_least_recent(true, delta) {}
            },
        )
    }

    /// The visible tools: core, then pinned and active ones in the order that is set.
    pub fn visible(&self) -> impl Iterator<Item = &ToolId> {
        self.core.iter().map(|slot| &slot.id).chain(&self.order)
    }

    /// Whether the tool is visible.
    pub fn contains(&self, id: &ToolId) -> bool {
        self.is_resident(id) || self.active.contains(id)
    }

    fn is_resident(&self, id: &ToolId) -> bool {
        self.core.iter().chain(&self.pinned).any(|slot| slot.id == *id)
    }

    /// The core tools, as given.
    pub fn core(&self) -> impl ExactSizeIterator<Item = &ToolId> {
        self.core.iter().map(|slot| &slot.id)
    }

    /// The pinned tools, in the order they were pinned.
    pub fn pinned(&self) -> impl ExactSizeIterator<Item = &ToolId> {
        self.pinned.iter().map(|slot| &slot.id)
    }

    /// How many tools are visible.
    pub fn len(&self) -> usize {
        self.core.len() + self.pinned.len() + self.active.len()
    }

    /// Whether no tool is visible.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens of the visible definitions and what was reserved.
    pub fn tokens(&self) -> TokenCount {
        sum(self.active.iter().map(|(_, active)| active.tokens))
            .saturating_add(self.resident_tokens())
    }

    /// Steps so far.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Epochs so far; within one the visible list only grew at its end.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The limits in force.
    pub fn options(&self) -> &WorkingSetOptions {
        &self.options
    }

    /// Runs `change` and notes whether it did more than append.
    fn change(&mut self, change: impl FnOnce(&mut Self, &mut Delta)) -> Delta {
        let mut delta = Delta::default();
        let before: Vec<ToolId> = self.visible().cloned().collect();
        change(self, &mut delta);
        let mut after = self.visible();
        if !before.iter().all(|id| after.next() == Some(id)) {
            drop(after);
            self.begin_epoch(&mut delta);
        }
        delta
    }

    /// Touches those of `slots` that are there and then admits the others, so that none of them makes
    /// room for another.
    fn want_all(&mut self, slots: &[Slot], why: AdmitReason, delta: &mut Delta) {
        if slots.is_empty() {
            return;
        }
        let (admitted, refused) = (delta.admitted.len(), delta.refused.len());
        let span =
            tracing::trace_span!("admission", ?why, admitted = Empty, refused = Empty).entered();
        let (there, new): (Vec<&Slot>, Vec<&Slot>) =
            slots.iter().partition(|slot| self.contains(&slot.id));
        for slot in there.into_iter().chain(new) {
            self.want(slot, why, delta);
        }
        span.record("admitted", delta.admitted.len() - admitted);
        span.record("refused", delta.refused.len() - refused);
    }

    fn want(&mut self, slot: &Slot, why: AdmitReason, delta: &mut Delta) {
        let earns = why != AdmitReason::Retrieved;
        let step = self.step;
        if self.is_resident(&slot.id) {
            delta.touched.push(slot.id.clone());
            return;
        }
        if let Some(active) = self.active.get_mut(&slot.id) {
            active.wanted = step;
            active.earned |= earns;
            active.held =
                if why == AdmitReason::Found { step.saturating_add(1) } else { active.held };
            delta.touched.push(slot.id.clone());
            return;
        }
        while let Some(over) = self.overflow(Some(slot.tokens)) {
            if !self.has_room(slot.tokens, earns) || !self.make_room(earns, delta) {
                delta.refused.push((slot.id.clone(), over));
                return;
            }
        }
        let held = if earns { step.saturating_add(1) } else { step };
        let active = Active { tokens: slot.tokens, wanted: step, earned: earns, held };
        self.active.push(slot.id.clone(), active);
        self.list(slot.id.clone());
        delta.admitted.push((slot.id.clone(), why));
    }

    /// Puts a tool that came in into its place.
    fn list(&mut self, id: ToolId) {
        let place = match self.options.order {
            ListOrder::Admission => self.order.len(),
            ListOrder::Name => {
                let key = name_key(&id);
                self.order.partition_point(|other| name_key(other) < key)
            }
        };
        self.order.insert(place, id);
    }

    /// Which limit one more tool of so many tokens would pass, or with `None` is passed now.
    fn overflow(&self, more: Option<TokenCount>) -> Option<RefuseReason> {
        if self.len() + usize::from(more.is_some()) > self.options.limit {
            return Some(RefuseReason::ToolLimit);
        }
        let tokens = self.tokens().saturating_add(more.unwrap_or_default());
        match self.options.token_budget {
            Some(budget) if tokens > budget => Some(RefuseReason::TokenBudget),
            _ => None,
        }
    }

    /// Whether one more tool of so many tokens fits once all have left that may.
    fn has_room(&self, more: TokenCount, for_demand: bool) -> bool {
        let (mut count, mut tokens) = (self.core.len() + self.pinned.len() + 1, more);
        for (id, active) in &self.active {
            if !self.yields(id, active, for_demand) {
                count += 1;
                tokens = tokens.saturating_add(active.tokens);
            }
        }
        let tokens = tokens.saturating_add(self.resident_tokens());
        count <= self.options.limit
            && self.options.token_budget.is_none_or(|budget| tokens <= budget)
    }

    /// Evicts something; `false` when nothing may go.
    ///
    /// With [`Timing::Epoch`] the cached prefix is lost by the first eviction, so what earlier turns
    /// retrieved and nobody wanted leaves with it: the room is then there for later turns, which
    /// append.
    fn make_room(&mut self, for_demand: bool, delta: &mut Delta) -> bool {
        if self.options.timing == Timing::Epoch {
            let before = delta.evicted.len();
            let swept =
                |set: &Self, active: &Active| !active.earned && active.wanted < set.retrieved;
            self.evict_all(swept, &[], delta);
            if delta.evicted.len() > before {
                return true;
            }
        }
        self.evict_least_recent(for_demand, delta)
    }

    /// Whether an active tool may go for what the model asks for (`for_demand`), or else for what is
    /// merely retrieved: tools that earned their place yield to mere retrieval only when stale.
    fn yields(&self, id: &ToolId, active: &Active, for_demand: bool) -> bool {
        let earned = active.earned && !self.is_stale(active);
        (for_demand || !earned) && self.is_evictable(id, active, for_demand)
    }

    /// Evicts the one least recent tool that may go; `false` when none may.
    fn evict_least_recent(&mut self, for_demand: bool, delta: &mut Delta) -> bool {
        let may_go = |(id, active): &(&ToolId, &Active)| self.yields(id, active, for_demand);
        // Those that never earned their place go first. One retrieval admits the best first, so that
        // by bare recency its best would go before its worst. The cache iterates most recent first.
        let victim = self
            .active
            .iter()
            .rev()
            .enumerate()
            .filter(|(_, entry)| may_go(entry))
            .min_by_key(|(place, (_, active))| match active.earned {
                false => (false, active.wanted, Reverse(*place)),
                true => (true, *place as u64, Reverse(0)),
            })
            .map(|(_, (id, active))| (id.clone(), self.reason(active)));
        let Some((id, why)) = victim else { return false };
        self.evict(&id, why, delta);
        true
    }

    /// Evicts what is stale, except for what is wanted again.
    fn evict_stale(&mut self, wanted: &[Slot], delta: &mut Delta) {
        self.evict_all(Self::is_stale, wanted, delta);
    }

    /// Evicts all that may go, is not in `spared` and that `condition` holds for, the least recent
    /// first.
    fn evict_all(
        &mut self,
        condition: impl Fn(&Self, &Active) -> bool,
        spared: &[Slot],
        delta: &mut Delta,
    ) {
        let going: Vec<(ToolId, EvictReason)> = self
            .active
            .iter()
            .rev()
            .filter(|(id, active)| self.is_evictable(id, active, false) && condition(self, active))
            .filter(|(id, _)| spared.iter().all(|slot| slot.id != **id))
            .map(|(id, active)| (id.clone(), self.reason(active)))
            .collect();
        for (id, why) in going {
            self.evict(&id, why, delta);
        }
    }

    fn reason(&self, active: &Active) -> EvictReason {
        if self.is_stale(active) {
            EvictReason::Stale { idle: self.step - active.wanted }
        } else {
            EvictReason::LeastRecent
        }
    }

    fn evict(&mut self, id: &ToolId, why: EvictReason, delta: &mut Delta) {
        if self.active.pop(id).is_some() {
            let _span = tracing::trace_span!("eviction", ?why).entered();
            self.order.retain(|other| other != id);
            delta.evicted.push((id.clone(), why));
        }
    }

    /// What this step retrieved yields to what the model asks for in the same step, but not to more
    /// of the same retrieval.
    fn is_evictable(&self, id: &ToolId, active: &Active, for_demand: bool) -> bool {
        let of_this_step = active.wanted == self.step && (active.earned || !for_demand);
        let held = active.earned && active.held >= self.step;
        !of_this_step && !held && !self.busy.contains(id)
    }

    fn is_stale(&self, active: &Active) -> bool {
        self.step - active.wanted > self.options.stale_after
    }

    fn resident_tokens(&self) -> TokenCount {
        let slots = self.core.iter().chain(&self.pinned);
        sum(slots.map(|slot| slot.tokens)).saturating_add(self.reserved)
    }

    fn check_resident(&self) -> Result<()> {
        let residents = self.core.len() + self.pinned.len();
        if residents > self.options.limit {
            return Err(Error::new(
                ErrorKind::BudgetTooSmall,
                format!(
                    "{residents} core and pinned tools are more than the limit of {}: raise the \
                     limit or keep fewer resident",
                    self.options.limit
                ),
            ));
        }
        let tokens = self.resident_tokens();
        match self.options.token_budget {
            Some(budget) if tokens > budget => Err(Error::new(
                ErrorKind::BudgetTooSmall,
                format!(
                    "core and pinned tools and the meta-tool take {tokens} tokens of a budget of \
                     {budget}: raise the budget or keep fewer resident"
                ),
            )),
            _ => Ok(()),
        }
    }
}

/// The sum, or the greatest number for one that is none.
fn sum(tokens: impl Iterator<Item = TokenCount>) -> TokenCount {
    tokens.fold(0, TokenCount::saturating_add)
}

/// By what a list is sorted: the provider's name, and the id where two would be equal.
pub(crate) fn name_key(id: &ToolId) -> (String, &ToolId) {
    (provider_name(id), id)
}

fn dedup(slots: Vec<Slot>) -> Vec<Slot> {
    let mut kept: Vec<Slot> = Vec::with_capacity(slots.len());
    for slot in slots {
        if kept.iter().all(|other| other.id != slot.id) {
            kept.push(slot);
        }
    }
    kept
}

#[cfg(test)]
mod tests;
