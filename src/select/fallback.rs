//! What is selected when meanings cannot be told or nothing reaches the gate.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::phrase::Folded;
use super::policy::Eligible;
use super::rank::{Ranker, with_rival};
use super::request::SelectRequest;
use super::selection::{Boost, Candidate, Outcome, Selection};
use crate::catalog::{Risk, ToolId};
use crate::score::Score;

/// What a selection falls back on when the model does not answer, or no tool reaches the gate.
///
/// Nothing ever falls back on the whole catalog.
///
/// # Example
/// ```
/// use toolrack::{Catalog, Engine, Fallback, Outcome, SelectRequest};
///
/// let catalog = Catalog::parse(
///     r#"[{"name": "restart_service", "aliases": ["bounce the box"], "risk": "write"},
///         {"name": "list_services"}]"#)?;
/// let engine = Engine::builder(catalog).build()?;
/// let request = SelectRequest::new("please bounce the box").fallback(Fallback::Aliases);
/// assert_eq!(engine.select(&request)?.best().unwrap().id.name(), "restart_service");
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Fallback {
    /// On words: without a model the ranking goes by words alone, under thresholds of their own. A
    /// request that nothing fits stays without a tool. The default.
    #[default]
    Words,
    /// On names and aliases alone, which is the strictest and does not depend on any score: tools
    /// that the request names, and tools of which it holds an alias, word for word.
    ///
    /// Aliases are written by whoever writes a definition; the
    /// [`TrustPolicy`](crate::TrustPolicy) says of which sources they count.
    Aliases,
}

/// Reduces a selection without a model to names and aliases, and gives one without a match what
/// its aliases say.
pub(crate) fn by_aliases(
    ranker: &Ranker<'_>,
    request: &SelectRequest,
    eligible: &Eligible,
    selection: &mut Selection,
) {
    let degraded = selection.degraded.is_some();
    if !degraded && selection.outcome != Outcome::NoMatch {
        return;
    }
    let snapshot = &ranker.index.snapshot;
    let texts: Vec<Folded> = request.intents.iter().map(|intent| Folded::of(intent)).collect();
    let mut candidates: Vec<Candidate> = Vec::new();
    candidates.extend(selection.candidates.drain(..).filter(Candidate::is_named));
    let n_named = candidates.len();
    let named: HashSet<ToolId> = candidates.iter().map(|one| one.id.clone()).collect();
    let mut rejected: HashMap<ToolId, Candidate> =
        selection.rejected.iter().map(|(one, _)| (one.id.clone(), one.clone())).collect();
    for row in (0..snapshot.len()).filter(|&row| eligible.contains(row)) {
        let tool = snapshot.tool(row);
        if !snapshot.trusts_aliases(row) {
            continue;
        }
        let says = |text: &Folded| tool.aliases().iter().any(|alias| text.has(alias));
        let Some(intent) = texts.iter().position(says) else { continue };
        if named.contains(tool.id()) {
            continue;
        }
        let ranked = rejected.remove(tool.id());
        let mut candidate =
            ranked.unwrap_or_else(|| Candidate::unscored(tool.id().clone(), intent));
        candidate.boosts.push(Boost::Alias);
        candidates.push(candidate);
    }
    selection.rejected.retain(|(one, _)| rejected.contains_key(&one.id));
    candidates.truncate(n_named.saturating_add(with_rival(request.k)));
    let alike = &candidates[n_named..];
    let risk = |id: &ToolId| snapshot.get(id).map_or(Risk::Read, |tool| tool.policy().risk);
    let changes = alike.len() > 1 && alike.iter().any(|one| risk(&one.id) > Risk::Read);
    let ambiguous: Vec<ToolId> =
        alike.iter().filter(|_| changes).map(|one| one.id.clone()).collect();
    if !changes {
        candidates.truncate(n_named.saturating_add(request.k));
    }
    selection.total = candidates.len();
    let named_alike = matches!(&selection.outcome, Outcome::Ambiguous(ids) if n_named > 1
        && ids.iter().all(|id| candidates[..n_named].iter().any(|c| c.id == *id)));
    if !named_alike {
        selection.outcome = match candidates.len() {
            0 => Outcome::NoMatch,
            _ if changes => Outcome::Ambiguous(ambiguous),
            _ => Outcome::Found,
        };
    }
    selection.candidates = candidates;
}

impl Candidate {
    /// A candidate that stands for another reason than its scores.
    pub(crate) fn unscored(id: ToolId, intent: usize) -> Self {
        Self {
            id,
            score: Score::ZERO,
            cosine: None,
            bm25: Score::ZERO,
            lexical: Score::ZERO,
            name_coverage: Score::ZERO,
            coverage: Score::ZERO,
            gate: Score::ZERO,
            boosts: Vec::new(),
            intent,
        }
    }
}
