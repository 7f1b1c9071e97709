//! Ranking over one index: named tools, fusion, the gate, the cut.

use super::gate::{Gate, Thresholds};
use super::policy::Eligible;
use super::request::SelectRequest;
use super::selection::{Boost, Candidate, Outcome, Rejected, Selection};
use crate::catalog::{Risk, ToolId};
use crate::error::Result;
use crate::index::{ArmScores, Fusion, ToolIndex, top_k};
use crate::score::Score;

/// Ranks requests over one index with one set of rules.
pub(crate) struct Ranker<'a> {
    pub index: &'a ToolIndex,
    pub fusion: Fusion,
    pub gate: &'a Gate,
}

/// A candidate with its row and the gate's verdict.
#[derive(Debug, Clone)]
pub(crate) struct Ranked {
    pub row: usize,
    pub candidate: Candidate,
    pub rejected: Option<Rejected>,
}

/// The ranking of one intent.
pub(crate) struct Ranking {
    /// Best first: named tools, then by fused score.
    pub ranked: Vec<Ranked>,
    /// Whether a name in the request stands for several tools.
    pub ambiguous_name: bool,
    /// Eligible rows that pass the gate.
    pub n_fitting: usize,
    pub degraded: Option<String>,
}

impl Ranker<'_> {
    pub(crate) fn thresholds(&self) -> Thresholds {
        let profile = self.index.embedder.as_ref().map(|embedder| embedder.profile());
        self.gate.thresholds(&profile.unwrap_or_default())
    }

    /// The `k` best eligible rows for each intent, besides those that the intent names.
    ///
    /// Rows whose scores are zero in every arm are never ranked.
    pub(crate) fn rank(
        &self,
        request: &SelectRequest,
        eligible: &Eligible,
        k: usize,
    ) -> Result<Vec<Ranking>> {
        let queries = request.queries();
        let use_dense = !matches!(self.fusion, Fusion::LexicalOnly);
        let arms = self.index.score(&queries, eligible.mask(), use_dense)?;
        let weight = self.index.embedder.as_ref().map(|e| e.profile().lexical_weight);
        let weight = weight.unwrap_or_default();
        let rankings = request.intents.iter().zip(arms).enumerate();
        Ok(rankings
            .map(|(n, (text, arms))| self.merge(n, text, arms, eligible, k, weight))
            .collect())
    }

    fn merge(
        &self,
        intent: usize,
        text: &str,
        arms: ArmScores,
        eligible: &Eligible,
        k: usize,
        weight: f32,
    ) -> Ranking {
        let is_eligible = |row: usize| eligible.contains(row);
        let fused =
            self.fusion.fuse(arms.cosines.as_deref(), &arms.lexical.bm25, &is_eligible, weight);
        let thresholds = self.thresholds();
        let mentions = self.index.snapshot.names().mentions(text, &is_eligible);
        let ranked = |row: usize, named: bool| {
            let rejected = if named { None } else { self.judge(row, &arms, &thresholds) };
            Ranked { row, candidate: self.candidate(row, &fused, &arms, named, intent), rejected }
        };
        let scores_at_all = |row: usize| match &arms.cosines {
            Some(cosines) => cosines[row] != 0.0 || arms.lexical.bm25[row] > 0.0,
            None => arms.lexical.bm25[row] > 0.0,
        };
        let mut best: Vec<Ranked> = mentions.rows.iter().map(|&row| ranked(row, true)).collect();
        let scored = fused
            .iter()
            .copied()
            .enumerate()
            .filter(|&(row, _)| is_eligible(row) && scores_at_all(row))
            .filter(|(row, _)| !mentions.rows.contains(row));
        best.extend(top_k(scored, k).into_iter().map(|(row, _)| ranked(row, false)));
        let n_fitting = (0..fused.len())
            .filter(|&row| is_eligible(row) && scores_at_all(row))
            .filter(|row| {
                mentions.rows.contains(row) || self.judge(*row, &arms, &thresholds).is_none()
            })
            .count();
        Ranking {
            ranked: best,
            ambiguous_name: mentions.ambiguous,
            n_fitting,
            degraded: arms.degraded,
        }
    }

    fn candidate(
        &self,
        row: usize,
        fused: &[Score],
        arms: &ArmScores,
        named: bool,
        intent: usize,
    ) -> Candidate {
        Candidate {
            id: self.index.snapshot.tool(row).id().clone(),
            score: fused[row],
            cosine: arms.cosines.as_ref().map(|cosines| Score::or_zero(cosines[row])),
            bm25: Score::or_zero(arms.lexical.bm25[row]),
            coverage: Score::or_zero(arms.lexical.coverage[row]),
            boosts: if named { vec![Boost::Named] } else { Vec::new() },
            intent,
        }
    }

    /// Why the gate keeps a row out; `None` when it is let in.
    fn judge(&self, row: usize, arms: &ArmScores, thresholds: &Thresholds) -> Option<Rejected> {
        let risk = self.index.snapshot.tool(row).policy().risk;
        let asked = thresholds.cosine(risk);
        let near = arms.cosines.as_ref().is_some_and(|cosines| cosines[row] >= asked);
        if near || self.covers(row, arms, thresholds) {
            return None;
        }
        Some(Rejected::BelowThreshold { cosine: asked, coverage: thresholds.coverage })
    }

    /// Whether the words alone let a row in.
    ///
    /// Coverage counts words that no tool has as well, by which "run shell command execute code" is
    /// not answered by one tool that happens to execute a search. Requests of up to three words are
    /// judged by the words that some tool has: there, one rare word is the whole request.
    fn covers(&self, row: usize, arms: &ArmScores, thresholds: &Thresholds) -> bool {
        let lexical = &arms.lexical;
        if lexical.bm25[row] <= 0.0 {
            return false;
        }
        if lexical.coverage[row] >= thresholds.coverage {
            return true;
        }
        let few = lexical.n_terms <= 3;
        let share = f32::from(lexical.matched[row]) / lexical.n_answerable.max(1) as f32;
        few && share >= thresholds.coverage
    }

    /// The selection of `request`: intents take turns until `k` admitted tools are together.
    pub(crate) fn select(&self, request: &SelectRequest, eligible: &Eligible) -> Result<Selection> {
        let rankings = self.rank(request, eligible, request.k)?;
        let thresholds = self.thresholds();
        let mut selection = Selection {
            outcome: Outcome::NoMatch,
            candidates: Vec::new(),
            rejected: Vec::new(),
            degraded: rankings.iter().find_map(|ranking| ranking.degraded.clone()),
            catalog_version: self.index.snapshot.version(),
            eligible: eligible.count(),
            total: rankings.iter().map(|ranking| ranking.n_fitting).max().unwrap_or(0),
            thresholds,
        };
        let ambiguous = self.ambiguous(&rankings, &thresholds);
        let mut taken: Vec<usize> = Vec::new();
        let mut named = Vec::new();
        let mut similar = Vec::new();
        // Intents take turns, so that a talkative one does not starve the others.
        let deepest = rankings.iter().map(|ranking| ranking.ranked.len()).max().unwrap_or(0);
        for depth in 0..deepest {
            for ranking in &rankings {
                let Some(entry) = ranking.ranked.get(depth) else { continue };
                if taken.contains(&entry.row) {
                    continue;
                }
                taken.push(entry.row);
                match entry.rejected {
                    None if entry.candidate.is_named() => named.push(entry.candidate.clone()),
                    None => similar.push(entry.candidate.clone()),
                    Some(why) => selection.rejected.push((entry.candidate.clone(), why)),
                }
            }
        }
        similar.truncate(request.k);
        selection.rejected.truncate(request.k);
        selection.candidates = named;
        selection.candidates.append(&mut similar);
        if !selection.candidates.is_empty() {
            selection.outcome =
                if ambiguous.is_empty() { Outcome::Found } else { Outcome::Ambiguous(ambiguous) };
        }
        Ok(selection)
    }

    /// Tools between which somebody should choose: those of one written name, or the best admitted
    /// ones within the margin when one of them changes something.
    fn ambiguous(&self, rankings: &[Ranking], thresholds: &Thresholds) -> Vec<ToolId> {
        for ranking in rankings {
            let admitted: Vec<&Ranked> =
                ranking.ranked.iter().filter(|entry| entry.rejected.is_none()).collect();
            if ranking.ambiguous_name {
                let named = admitted.iter().filter(|entry| entry.candidate.is_named());
                return named.map(|entry| entry.candidate.id.clone()).collect();
            }
            let Some(first) = admitted.first().filter(|first| !first.candidate.is_named()) else {
                continue;
            };
            let near: Vec<&&Ranked> = admitted
                .iter()
                .take_while(|entry| {
                    let gap = first.candidate.score.get() - entry.candidate.score.get();
                    gap < thresholds.margin
                })
                .collect();
            let changes = |entry: &&&Ranked| self.risk(entry.row) > Risk::Read;
            if near.len() > 1 && near.iter().any(changes) {
                return near.iter().map(|entry| entry.candidate.id.clone()).collect();
            }
        }
        Vec::new()
    }

    fn risk(&self, row: usize) -> Risk {
        self.index.snapshot.tool(row).policy().risk
    }
}
