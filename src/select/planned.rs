//! A selection that intent rules have a say in.

use std::collections::HashSet;

use super::intent::{IntentPlan, IntentReport, IntentRules};
use super::policy::Eligible;
use super::rank::Ranker;
use super::refine::{self, keep_candidates_only};
use super::request::SelectRequest;
use super::selection::{Boost, Candidate, Outcome, Selection};
use crate::catalog::ToolId;
use crate::error::Result;
use crate::text::TokenCount;

/// The selection of `request` under `rules`, with a report of what they did.
///
/// What would be selected without rules is ranked as well, so that the report can say what was left
/// out. Tools that the request names are selected in any case. A fallback on aliases keeps to the
/// plan's groups and number, and gives nothing to a request that needs no tool.
pub(crate) fn select(
    ranker: &Ranker<'_>,
    request: &SelectRequest,
    eligible: &Eligible,
    rules: &IntentRules,
) -> Result<Selection> {
    rules.validate()?;
    let plain = refine::select(ranker, request, eligible)?;
    let _span = tracing::trace_span!("intent").entered();
    let reading = rules.classify(&request.intents.join("\n"));
    let mut report = IntentReport {
        plan: rules.plan(&reading).cloned(),
        reading,
        excluded: Vec::new(),
        fallback: None,
        tokens_saved: 0,
    };
    let Some(plan) = report.plan.clone() else {
        return Ok(Selection { intent: Some(report), ..plain });
    };
    let mut selection = match plan.tools {
        0 => named_only(plain.clone()),
        _ => within(ranker, request, eligible, &plan, &plain)?,
    };
    if plan.tools == 0 && selection.candidates.is_empty() {
        selection.outcome = Outcome::NotNeeded;
        let name = rules.fallback.as_deref().filter(|_| request.k > 0);
        let fallback = name.and_then(|name| fallback(ranker, eligible, name));
        report.fallback = fallback.as_ref().map(|candidate| candidate.id.clone());
        selection.candidates.extend(fallback);
    }
    let selected: HashSet<&ToolId> = selection.candidates.iter().map(|c| &c.id).collect();
    let excluded = plain.candidates.iter().filter(|candidate| !selected.contains(&candidate.id));
    report.excluded = excluded.map(|candidate| candidate.id.clone()).collect();
    let tokens = |selection: &Selection| -> TokenCount {
        let ids = selection.candidates.iter().map(|candidate| &candidate.id);
        let rows = ids.filter_map(|id| ranker.index.snapshot.row(id));
        rows.map(|row| ranker.index.costs[row]).sum()
    };
    report.tokens_saved = tokens(&plain).saturating_sub(tokens(&selection));
    selection.intent = Some(report);
    Ok(selection)
}

fn named_only(mut selection: Selection) -> Selection {
    selection.candidates.retain(Candidate::is_named);
    keep_candidates_only(&mut selection);
    if selection.candidates.is_empty() {
        selection.outcome = Outcome::NoMatch;
    }
    selection
}

/// The selection among the plan's groups, and as many as it and the caller say.
fn within(
    ranker: &Ranker<'_>,
    request: &SelectRequest,
    eligible: &Eligible,
    plan: &IntentPlan,
    plain: &Selection,
) -> Result<Selection> {
    let among = eligible.and(&ranker.index.snapshot, |tool| plan.includes(tool));
    let request = request.clone().k(plan.tools.min(request.k));
    let mut selection = refine::select(ranker, &request, &among)?;
    selection.eligible = plain.eligible;
    let selected: HashSet<&ToolId> = selection.candidates.iter().map(|c| &c.id).collect();
    let named = plain.candidates.iter().filter(|candidate| candidate.is_named());
    let named: Vec<Candidate> =
        named.filter(|candidate| !selected.contains(&candidate.id)).cloned().collect();
    if !named.is_empty() && selection.candidates.is_empty() {
        selection.outcome = Outcome::Found;
    }
    selection.candidates.splice(0..0, named);
    Ok(selection)
}

/// The tool to fall back on, if the caller may use it.
fn fallback(ranker: &Ranker<'_>, eligible: &Eligible, name: &str) -> Option<Candidate> {
    let snapshot = &ranker.index.snapshot;
    let rows = snapshot.names().resolve(name, &|row| eligible.contains(row));
    let [row] = rows.as_slice() else { return None };
    let mut candidate = Candidate::unscored(snapshot.tool(*row).id().clone(), 0);
    candidate.boosts.push(Boost::Fallback);
    Some(candidate)
}
