//! What a request asks of a selection besides its ranking.

use std::collections::{HashMap, HashSet};

use super::fallback::{self, Fallback};
use super::policy::Eligible;
use super::rank::Ranker;
use super::request::SelectRequest;
use super::selection::{Outcome, Rejected, Selection};
use crate::catalog::ToolId;
use crate::error::Result;
use crate::score::Score;

/// The selection of `request` with its fallback and its `min_score_ratio`.
pub(crate) fn select(
    ranker: &Ranker<'_>,
    request: &SelectRequest,
    eligible: &Eligible,
) -> Result<Selection> {
    let mut selection = ranker.select(request, eligible)?;
    if request.fallback == Fallback::Aliases {
        fallback::by_aliases(ranker, request, eligible, &mut selection);
    }
    drop_below_ratio(&mut selection, request.min_score_ratio);
    Ok(selection)
}

/// Drops candidates whose score is below `share` of the best one's of the same intent.
///
/// Scores of two intents say nothing of one another. Nothing behind a dropped candidate scores
/// higher, so nobody starves. Tools that stand for another reason than their score stay; where the
/// best score is not above zero there is no share of it.
fn drop_below_ratio(selection: &mut Selection, share: f32) {
    if share <= 0.0 {
        return;
    }
    let mut best: HashMap<usize, Score> = HashMap::new();
    for candidate in selection.candidates.iter().filter(|candidate| !candidate.is_named()) {
        let best = best.entry(candidate.intent).or_insert(candidate.score);
        *best = candidate.score.max(*best);
    }
    let mut dropped = Vec::new();
    selection.candidates.retain(|candidate| {
        let best = best.get(&candidate.intent).map_or(0.0, |best| best.get());
        let least = best * share;
        let keep = !candidate.boosts.is_empty() || best <= 0.0 || candidate.score.get() >= least;
        if !keep {
            dropped.push((candidate.clone(), Rejected::BelowRatio { least }));
        }
        keep
    });
    if dropped.is_empty() {
        return;
    }
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
