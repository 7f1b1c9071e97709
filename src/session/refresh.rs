//! A run that sees the catalog or its caller's rights change.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Session, SessionOptions, cost, naive_tokens, reach, resolve, slots};
use crate::catalog::ToolId;
use crate::index::ToolIndex;
use crate::select::Eligible;
use crate::text::TokenCount;
use crate::working_set::{AdmitReason, Delta, EvictReason, WorkingSetOptions};

/// A core tool as the options name it, and the tool that it was found to be.
///
/// It is looked up once: a tool that is listed later must not take the place of a core tool by having
/// the name that fits better.
#[derive(Debug)]
pub(super) struct CoreTool {
    pub name: String,
    pub id: Option<ToolId>,
}

impl Session {
    /// Takes in the current index; what changed since the last step comes with it.
    pub(super) fn begin_step(&mut self) -> Delta {
        let mut delta = std::mem::take(&mut self.pending);
        delta.extend(self.catch_up());
        delta
    }

    /// Takes in the current index, if it is another one, and gives what that changed.
    pub(super) fn catch_up(&mut self) -> Delta {
        let index = self.engine.index();
        if Arc::ptr_eq(&index, &self.index) {
            return Delta::default();
        }
        self.trace_world(&index);
        self.see(index)
    }

    pub(super) fn see(&mut self, index: Arc<ToolIndex>) -> Delta {
        let before = if self.pass_through { self.visible_ids() } else { Vec::new() };
        let old = std::mem::replace(&mut self.index, index);
        self.told.clear();
        self.eligible = reach(&self.index, &self.options);
        self.naive_tokens = naive_tokens(&self.index, &self.eligible);
        let (index, eligible) = (Arc::clone(&self.index), self.eligible.clone());
        for tool in self.core.iter_mut().filter(|tool| tool.id.is_none()) {
            tool.id = core_id(&index, &eligible, &tool.name);
        }
        // A core tool that is gone comes back by itself when its source does.
        let core = slots(&index, core_rows(&index, &eligible, &self.core));
        let mut delta = self.set.reconcile(core, &|id| cost(&index, &eligible, id));
        if self.pass_through {
            let outgrown = !fits_whole(&self.options, eligible.count(), self.naive_tokens);
            if outgrown {
                self.pass_through = false;
                let options = self.options.working_set.clone();
                delta.new_epoch |= self.set.restrict(options, self.meta_tokens).new_epoch;
            }
            delta = self.list_delta(&before, delta.new_epoch, outgrown);
        }
        let changed = |id: &ToolId| {
            let (old, new) = (old.snapshot.get(id), index.snapshot.get(id));
            old.is_some() && old != new
        };
        if self.visible_ids().iter().any(changed) {
            self.set.begin_epoch(&mut delta);
        }
        // What the model was shown of them is of the past, and of those that came in nothing.
        let reshaped = |id: &&ToolId| {
            let (old, new) = (old.snapshot.get(id), index.snapshot.get(id));
            old.is_some_and(|old| new.is_some_and(|new| old.parameters() != new.parameters()))
        };
        self.visible_ids().iter().filter(reshaped).for_each(|id| self.unseen.add(id.clone()));
        self.unseen.extend(&delta);
        let may = |id: &ToolId| cost(&index, &eligible, id).is_some();
        self.unseen.retain(may);
        self.briefed.retain(|id| may(id) && old.snapshot.get(id) == index.snapshot.get(id));
        // What found a tool that is gone would find something else now.
        self.searches.retain(|(_, found)| found.iter().all(may));
        delta
    }

    /// The difference of a list that was shown whole to the list of now.
    fn list_delta(&mut self, before: &[ToolId], new_epoch: bool, outgrown: bool) -> Delta {
        let after = self.visible_ids();
        let (old, new): (HashSet<&ToolId>, HashSet<&ToolId>) =
            (before.iter().collect(), after.iter().collect());
        let gone = |id: &ToolId| match cost(&self.index, &self.eligible, id) {
            Some(_) if outgrown => EvictReason::Outgrown,
            _ => EvictReason::Gone,
        };
        let evicted = before.iter().filter(|id| !new.contains(id));
        let admitted = after.iter().filter(|id| !old.contains(id));
        let mut delta = Delta {
            evicted: evicted.map(|id| (id.clone(), gone(id))).collect(),
            admitted: admitted.map(|id| (id.clone(), AdmitReason::Listed)).collect(),
            new_epoch,
            ..Delta::default()
        };
        if outgrown || !after.starts_with(before) {
            self.set.begin_epoch(&mut delta);
        }
        delta
    }
}

/// Whether so many eligible tools of so many tokens are shown whole. A limit of 0 means never, even
/// before the first tool is there.
pub(super) fn fits_whole(options: &SessionOptions, tools: usize, tokens: TokenCount) -> bool {
    let most = options.pass_through.unwrap_or(options.working_set.limit);
    let fits = most > 0 && tools <= most;
    fits && options.working_set.token_budget.is_none_or(|budget| tokens <= budget)
}

/// Limits of a set whose catalog is shown whole: none can be passed.
pub(super) fn roomy() -> WorkingSetOptions {
    WorkingSetOptions::default().limit(usize::MAX)
}

pub(super) fn core_id(index: &ToolIndex, eligible: &Eligible, name: &str) -> Option<ToolId> {
    let row = resolve(index, eligible, name, "core").ok()?;
    Some(index.snapshot.tool(row).id().clone())
}

/// The rows of the core tools that are there and may be used.
pub(super) fn core_rows(index: &ToolIndex, eligible: &Eligible, core: &[CoreTool]) -> Vec<usize> {
    let ids = core.iter().filter_map(|tool| tool.id.as_ref());
    ids.filter_map(|id| index.snapshot.row(id)).filter(|&row| eligible.contains(row)).collect()
}
