//! A selection, taken apart into the stages it went through.

use std::cmp::Reverse;

use super::event::Intent;
use super::event::{
    DenseScore, Filter, FusedScore, Gated, Judged, LexicalScore, NotAdmitted, Stage,
};
use crate::catalog::{Risk, Snapshot, ToolId};
use crate::index::Fusion;
use crate::select::{Candidate, SelectRequest, Selection};

/// The stages of `selection`, in the order in which they happened.
pub(crate) fn of_selection(
    snapshot: &Snapshot,
    request: &SelectRequest,
    selection: &Selection,
    (fusion, scorer): (Fusion, Option<String>),
    policy: &str,
) -> Vec<Stage> {
    let rejected = selection.rejected.iter().map(|(candidate, _)| candidate);
    let ranked: Vec<&Candidate> = selection.candidates.iter().chain(rejected).collect();
    let risk = |id: &ToolId| snapshot.get(id).map_or(Risk::Read, |tool| tool.policy().risk);

    let mut dense: Vec<DenseScore> = ranked
        .iter()
        .filter_map(|c| Some(DenseScore { tool: c.id.clone(), cosine: c.cosine? }))
        .collect();
    dense.sort_by_key(|entry| Reverse(entry.cosine));
    let mut lexical: Vec<LexicalScore> = ranked
        .iter()
        .map(|c| LexicalScore {
            tool: c.id.clone(),
            bm25: c.bm25,
            lexical: c.lexical,
            coverage: c.coverage,
            name_coverage: c.name_coverage,
        })
        .collect();
    lexical.sort_by_key(|entry| Reverse(entry.lexical));
    let mut fused: Vec<FusedScore> = ranked
        .iter()
        .map(|c| FusedScore {
            tool: c.id.clone(),
            score: c.score,
            named: c.is_named(),
            intent: c.intent,
        })
        .collect();
    fused.sort_by_key(|entry| Reverse((entry.named, entry.score)));

    vec![
        Stage::Intent(Intent {
            intents: request.intents.clone(),
            recent: request.recent.len(),
            k: request.k,
            namespace: request.namespace.clone(),
            report: selection.intent.clone().map(Box::new),
        }),
        Stage::Filter(Filter {
            policy: policy.to_owned(),
            eligible: selection.eligible,
            excluded: snapshot.len().saturating_sub(selection.eligible),
        }),
        Stage::Dense { scores: dense, degraded: selection.degraded.clone() },
        Stage::Lexical { scores: lexical },
        Stage::Fusion { rule: fusion, scorer, scores: fused },
        Stage::Gate(Box::new(Gated {
            outcome: selection.outcome.clone(),
            thresholds: selection.thresholds,
            total: selection.total,
            admitted: selection
                .candidates
                .iter()
                .map(|c| Judged { tool: c.id.clone(), risk: risk(&c.id), reaches: c.gate })
                .collect(),
            rejected: selection
                .rejected
                .iter()
                .map(|(c, why)| NotAdmitted { tool: c.id.clone(), risk: risk(&c.id), why: *why })
                .collect(),
        })),
    ]
}
