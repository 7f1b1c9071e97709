//! What a request asks of a selection besides its ranking.

use std::collections::HashSet;

use super::selection::{Outcome, Rejected, Selection};
use crate::catalog::ToolId;

/// Drops candidates whose score is below `share` of the best one's.
///
/// Nothing behind a dropped candidate scores higher, so nobody starves. Tools that stand for another
/// reason than their score stay; where the best score is not above zero there is no share of it.
pub(crate) fn drop_below_ratio(selection: &mut Selection, share: f32) {
    let scored = selection.candidates.iter().filter(|candidate| !candidate.is_named());
    let Some(best) = scored.map(|candidate| candidate.score).max() else { return };
    let least = best.get() * share;
    if share <= 0.0 || best.get() <= 0.0 {
        return;
    }
    let mut dropped = Vec::new();
    selection.candidates.retain(|candidate| {
        let keep = !candidate.boosts.is_empty() || candidate.score.get() >= least;
        if !keep {
            dropped.push((candidate.clone(), Rejected::BelowRatio { least }));
        }
        keep
    });
    dropped.append(&mut selection.rejected);
    selection.rejected = dropped;
    keep_candidates_only(selection);
}

/// Takes tools that are no longer candidates out of an ambiguous outcome.
pub(crate) fn keep_candidates_only(selection: &mut Selection) {
    let Selection { outcome, candidates, .. } = selection;
    if let Outcome::Ambiguous(ids) = outcome {
        let kept: HashSet<&ToolId> = candidates.iter().map(|candidate| &candidate.id).collect();
        ids.retain(|id| kept.contains(id));
        if ids.len() < 2 {
            *outcome = if candidates.is_empty() { Outcome::NoMatch } else { Outcome::Found };
        }
    }
}
