//! A working set that can be stored.

use serde::{Deserialize, Serialize};

use super::{Active, Slot, WorkingSet};
use crate::catalog::ToolId;
use crate::text::TokenCount;

/// What a [`WorkingSet`] remembers of a run, apart from limits and core tools, which come from the
/// options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkingSetState {
    /// Pinned tools, in the order they were pinned.
    pub pinned: Vec<ToolId>,
    /// Active tools, from the least to the most recently wanted.
    pub active: Vec<ActiveState>,
    /// Pinned and active tools as they are listed.
    pub order: Vec<ToolId>,
    /// Tools with an unanswered call.
    pub busy: Vec<ToolId>,
    /// Steps so far.
    pub step: u64,
    /// Step of the last retrieval.
    pub retrieved: u64,
    /// Epochs so far.
    pub epoch: u64,
}

/// One active tool of a [`WorkingSetState`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ActiveState {
    /// Which tool.
    pub id: ToolId,
    /// Step in which it was last wanted.
    pub wanted: u64,
    /// Whether the model ever called it or asked for it.
    pub earned: bool,
    /// Last step in which it may not be evicted.
    pub held: u64,
}

impl WorkingSet {
    /// What has to be stored to go on later.
    pub fn to_state(&self) -> WorkingSetState {
        let active = self.active.iter().rev().map(|(id, active)| ActiveState {
            id: id.clone(),
            wanted: active.wanted,
            earned: active.earned,
            held: active.held,
        });
        WorkingSetState {
            pinned: self.pinned().cloned().collect(),
            active: active.collect(),
            order: self.order.clone(),
            busy: self.busy.clone(),
            step: self.step,
            retrieved: self.retrieved,
            epoch: self.epoch,
        }
    }

    /// Takes over `state` as far as `cost` still knows its tools and they fit; gives back the
    /// tools that were left out.
    pub(crate) fn take_over(
        &mut self,
        state: WorkingSetState,
        cost: &dyn Fn(&ToolId) -> Option<TokenCount>,
    ) -> Vec<ToolId> {
        let mut left_out = Vec::new();
        self.step = state.step;
        self.retrieved = state.retrieved.min(state.step);
        for id in state.pinned {
            match cost(&id).map(|tokens| self.pin(Slot { id: id.clone(), tokens })) {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => left_out.push(id),
            }
        }
        // The most recent first, so that what does not fit any more is the least recent.
        let mut kept = Vec::new();
        for entry in state.active.into_iter().rev() {
            if self.contains(&entry.id) {
                continue;
            }
            match cost(&entry.id).filter(|&tokens| self.overflow(Some(tokens)).is_none()) {
                Some(tokens) => {
                    // Steps of the future would never go stale.
                    let wanted = entry.wanted.min(self.step);
                    let held = entry.held.min(self.step.saturating_add(1));
                    let active = Active { tokens, wanted, earned: entry.earned, held };
                    self.active.push(entry.id.clone(), active.clone());
                    kept.push((entry.id, active));
                }
                None => left_out.push(entry.id),
            }
        }
        self.active.clear();
        for (id, active) in kept.into_iter().rev() {
            self.active.push(id, active);
        }
        let mut order: Vec<ToolId> = Vec::new();
        let known = state.order.into_iter().chain(self.order.iter().cloned());
        let rest = self.active.iter().rev().map(|(id, _)| id.clone());
        for id in known.chain(rest) {
            let listed = self.pinned.iter().any(|slot| slot.id == id) || self.active.contains(&id);
            if listed && !order.contains(&id) {
                order.push(id);
            }
        }
        self.order.clear();
        for id in order {
            self.list(id);
        }
        self.busy = state.busy.into_iter().filter(|id| cost(id).is_some()).collect();
        // Putting the tools back is no change of the list, though pins may look like one.
        self.epoch = state.epoch;
        left_out
    }
}
