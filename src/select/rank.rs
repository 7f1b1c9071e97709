//! Ranking over one index: named tools, fusion, the gate, the cut.

use std::collections::HashSet;

use super::gate::{Gate, GatedBy, Thresholds};
use super::policy::Eligible;
use super::request::SelectRequest;
use super::scorer::{self, Scorer};
use super::selection::{Boost, Candidate, Outcome, Rejected, Selection, TokenFigures};
use crate::catalog::{Risk, ToolId};
use crate::embed::EmbedderProfile;
use crate::error::{Result, invalid_setting};
use crate::index::{ArmScores, Best, Fusion, ToolIndex, top_k};
use crate::score::Score;
use crate::text::is_keyword_list;

/// Ranks requests over one index with one set of rules.
pub(crate) struct Ranker<'a> {
    pub index: &'a ToolIndex,
    pub fusion: Fusion,
    pub gate: &'a Gate,
    /// What ranks in place of both arms.
    pub scorer: Option<&'a dyn Scorer>,
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
    /// Eligible rows that are named or pass the gate, if they were to be counted.
    pub n_fitting: Option<usize>,
    pub thresholds: Thresholds,
    pub degraded: Option<String>,
}

impl Ranker<'_> {
    /// The `k` best eligible rows for each intent, besides those that the intent names. With `gated`
    /// they are the `k` best that the gate lets in and the `k` best that it keeps out.
    ///
    /// Rows whose scores are zero in every arm are never ranked.
    pub(crate) fn rank(
        &self,
        request: &SelectRequest,
        eligible: &Eligible,
        k: usize,
        gated: bool,
    ) -> Result<Vec<Ranking>> {
        let mut failure = request.failed.clone();
        if let (Some(scorer), None) = (self.scorer, &failure) {
            match scorer::rank(self, scorer, request, eligible, k, gated) {
                Ok(rankings) => return Ok(rankings),
                Err(error) => failure = Some(error.to_string()),
            }
        }
        let queries = request.queries();
        let use_dense = !matches!(self.fusion, Fusion::LexicalOnly) && failure.is_none();
        let arms = self.index.score(&queries, eligible.mask(), use_dense)?;
        let profile = self.index.embedder.as_ref().map(|embedder| embedder.profile());
        let profile = profile.unwrap_or_default();
        let rankings = request.intents.iter().zip(arms).enumerate();
        Ok(rankings
            .map(|(intent, (text, mut arms))| {
                arms.degraded = arms.degraded.or_else(|| failure.clone());
                let is_keyword_list = is_keyword_list(text, KEYWORDS);
                let judged = Judged {
                    ranker: self,
                    arms,
                    eligible,
                    profile: &profile,
                    by_words: self.gate.thresholds(None),
                    intent,
                    is_keyword_list,
                };
                judged.rank(text, k, gated)
            })
            .collect())
    }

    /// The selection of `request`: intents take turns until `k` admitted tools are together.
    ///
    /// The second of two between which somebody should choose comes on top when there was no place
    /// for it: alone, the first would be an arbitrary tool.
    pub(crate) fn select(&self, request: &SelectRequest, eligible: &Eligible) -> Result<Selection> {
        let rankings = self.rank(request, eligible, with_rival(request.k), true)?;
        let Some(thresholds) = rankings.first().map(|ranking| ranking.thresholds) else {
            return Err(invalid_setting("the request holds no intent: say what is wanted"));
        };
        let mut selection = Selection {
            outcome: Outcome::NoMatch,
            candidates: Vec::new(),
            rejected: Vec::new(),
            degraded: rankings.iter().find_map(|ranking| ranking.degraded.clone()),
            catalog_version: self.index.snapshot.version(),
            eligible: eligible.count(),
            total: rankings.iter().filter_map(|ranking| ranking.n_fitting).max().unwrap_or(0),
            thresholds,
            tokens: TokenFigures::default(),
            intent: None,
        };
        let alike = self.alike(&rankings);
        let (mut taken, mut kept_out) = (HashSet::new(), HashSet::new());
        let (mut named, mut similar, mut others) = (Vec::new(), Vec::new(), Vec::new());
        // Intents take turns, so that a talkative one does not starve the others.
        let mut queues: Vec<_> =
            rankings.into_iter().map(|ranking| ranking.ranked.into_iter()).collect();
        while queues.iter().any(|queue| queue.len() > 0) {
            for entry in queues.iter_mut().filter_map(Iterator::next) {
                let sees_first = match entry.rejected {
                    None => taken.insert(entry.row),
                    Some(_) => kept_out.insert(entry.row),
                };
                match entry.rejected {
                    _ if !sees_first => {}
                    None if entry.candidate.is_named() => named.push(entry.candidate),
                    None => similar.push(entry.candidate),
                    Some(why) => others.push((entry.row, entry.candidate, why)),
                }
            }
        }
        let cut = similar.split_off(request.k.min(similar.len()));
        // What one intent keeps out another may let in.
        let others = others.into_iter().filter(|(row, ..)| !taken.contains(row)).take(request.k);
        selection.rejected = others.map(|(_, candidate, why)| (candidate, why)).collect();
        selection.candidates = named;
        selection.candidates.append(&mut similar);
        if !selection.candidates.is_empty() {
            selection.outcome = Outcome::Found;
        }
        // What is said of an intent whose best tool had no place is said of nothing.
        let has = |selection: &Selection, id: &ToolId| {
            selection.candidates.iter().any(|candidate| candidate.id == *id)
        };
        if let Some(mut alike) = alike.into_iter().find(|alike| has(&selection, &alike[0])) {
            let rival = cut.into_iter().find(|candidate| candidate.id == alike[1]);
            selection.candidates.extend(rival);
            alike.retain(|id| has(&selection, id));
            selection.outcome = Outcome::Ambiguous(alike);
        }
        Ok(selection)
    }

    /// For each intent that has them, the two or more tools between which somebody should choose:
    /// those of one written name, or the best admitted ones within the margin when one of them
    /// changes something.
    fn alike(&self, rankings: &[Ranking]) -> Vec<Vec<ToolId>> {
        let mut alike = Vec::new();
        for ranking in rankings {
            let admitted: Vec<&Ranked> =
                ranking.ranked.iter().filter(|entry| entry.rejected.is_none()).collect();
            if ranking.ambiguous_name {
                let named = admitted.iter().filter(|entry| entry.candidate.is_named());
                alike.push(named.map(|entry| entry.candidate.id.clone()).collect());
                continue;
            }
            let Some(first) = admitted.first().filter(|first| !first.candidate.is_named()) else {
                continue;
            };
            let near: Vec<&&Ranked> = admitted
                .iter()
                .take_while(|entry| {
                    let (best, score) = (first.candidate.score.get(), entry.candidate.score.get());
                    best - score < ranking.thresholds.margin * best
                })
                .collect();
            let changes = |entry: &&&Ranked| self.risk(entry.row) > Risk::Read;
            // The first is always within the margin of itself, a margin of 0 excepted.
            if near.len() > 1 && near.iter().any(changes) {
                alike.push(near.iter().map(|entry| entry.candidate.id.clone()).collect());
            }
        }
        alike
    }

    fn risk(&self, row: usize) -> Risk {
        self.index.risks[row]
    }
}

/// How many tools are looked at for `k` places: the best is never chosen without a look at the next.
pub(super) fn with_rival(k: usize) -> usize {
    if k == 0 { 0 } else { k.max(2) }
}

/// The `k` best of the admitted rows and the `k` best of the others, together best first, and how
/// many are admitted in all.
///
/// A row that the gate keeps out takes no place of one that it lets in.
pub(super) fn best_of_both(
    scored: impl Iterator<Item = (usize, Score)>,
    k: usize,
    admits: impl Fn(usize) -> bool,
) -> (Vec<usize>, usize) {
    let (mut admitted, mut others) = (Best::new(k), Best::new(k));
    let mut n_admitted = 0;
    for (row, score) in scored {
        if admits(row) {
            n_admitted += 1;
            admitted.push(row, score);
        } else {
            others.push(row, score);
        }
    }
    let mut best = admitted.into_sorted();
    best.extend(others.into_sorted());
    best.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    (best.into_iter().map(|(row, _)| row).collect(), n_admitted)
}

/// One intent's scores, on the way to its ranking.
struct Judged<'a> {
    ranker: &'a Ranker<'a>,
    arms: ArmScores,
    eligible: &'a Eligible,
    profile: &'a EmbedderProfile,
    /// For tools without a vector.
    by_words: Thresholds,
    intent: usize,
    is_keyword_list: bool,
}

/// Content words from which a request without any other words is a list of keywords.
const KEYWORDS: usize = 4;
/// Share of a list of keywords that a tool has to have, unless its meaning is near beyond doubt.
const KEYWORD_COVERAGE: f32 = 0.3;

impl Judged<'_> {
    fn rank(&self, text: &str, k: usize, gated: bool) -> Ranking {
        let is_eligible = |row: usize| self.eligible.contains(row);
        let (cosines, lexical) = (self.arms.cosines.as_deref(), &self.arms.lexical.score);
        let fused = tracing::trace_span!("fusion")
            .in_scope(|| self.ranker.fusion.fuse(cosines, lexical, &is_eligible, self.profile));
        let profile = self.arms.cosines.is_some().then_some(self.profile);
        let thresholds = self.ranker.gate.thresholds(profile);
        let mentions = self.ranker.index.snapshot.names().mentions(text, &is_eligible);
        let ranked = |row: usize, named: bool| Ranked {
            row,
            candidate: self.candidate(row, fused[row], &thresholds, named),
            rejected: if named { None } else { self.judge(row, &thresholds) },
        };
        let is_named: HashSet<usize> = mentions.rows.iter().copied().collect();
        let is_ranked = |row: usize| is_eligible(row) && self.scores_at_all(row);
        let mut best: Vec<Ranked> = mentions.rows.iter().map(|&row| ranked(row, true)).collect();
        let scored = fused
            .iter()
            .copied()
            .enumerate()
            .filter(|(row, _)| is_ranked(*row) && !is_named.contains(row));
        let (rows, n_fitting) = if gated {
            let admits = |row: usize| self.judge(row, &thresholds).is_none();
            let (rows, n_admitted) =
                tracing::trace_span!("gate").in_scope(|| best_of_both(scored, k, admits));
            (rows, Some(mentions.rows.len() + n_admitted))
        } else {
            (top_k(scored, k).into_iter().map(|(row, _)| row).collect(), None)
        };
        best.extend(rows.into_iter().map(|row| ranked(row, false)));
        Ranking {
            ranked: best,
            ambiguous_name: mentions.ambiguous,
            n_fitting,
            thresholds,
            degraded: self.arms.degraded.clone(),
        }
    }

    /// A zero score is never a match.
    fn scores_at_all(&self, row: usize) -> bool {
        let by_words = self.arms.lexical.bm25[row] > 0.0;
        self.arms.cosines.as_ref().map_or(by_words, |cosines| cosines[row] != 0.0 || by_words)
    }

    fn candidate(
        &self,
        row: usize,
        score: Score,
        thresholds: &Thresholds,
        named: bool,
    ) -> Candidate {
        let (lexical, index) = (&self.arms.lexical, self.ranker.index);
        Candidate {
            id: index.snapshot.tool(row).id().clone(),
            score,
            cosine: self.cosine(row).map(Score::or_zero),
            bm25: Score::or_zero(lexical.bm25[row]),
            lexical: Score::or_zero(lexical.score[row]),
            name_coverage: Score::or_zero(lexical.name_coverage[row]),
            coverage: Score::or_zero(lexical.coverage[row]),
            gate: Score::or_zero(self.reaches(row, thresholds)),
            boosts: if named { vec![Boost::Named] } else { Vec::new() },
            intent: self.intent,
        }
    }

    /// The row's cosine; `None` when the dense arm has no say, or the row no vector.
    fn cosine(&self, row: usize) -> Option<f32> {
        let cosines = self.arms.cosines.as_ref()?;
        self.ranker.index.has_vector(row).then(|| cosines[row])
    }

    fn thresholds_of<'b>(&'b self, row: usize, thresholds: &'b Thresholds) -> &'b Thresholds {
        let is_blind = thresholds.by == GatedBy::Cosine && !self.ranker.index.has_vector(row);
        if is_blind { &self.by_words } else { thresholds }
    }

    /// Why the gate keeps a row out; `None` when it is let in.
    ///
    /// A row without a vector is judged by its words: a cosine of 0 would not be its own.
    fn judge(&self, row: usize, thresholds: &Thresholds) -> Option<Rejected> {
        let thresholds = self.thresholds_of(row, thresholds);
        let mut asked = thresholds.of(self.ranker.risk(row));
        // In a list of keywords every one is meant: "run shell command execute code python" is not
        // answered by a tool that executes a saved search (field case 3).
        if self.is_keyword_list && self.arms.lexical.coverage[row] < KEYWORD_COVERAGE {
            asked = match thresholds.by {
                GatedBy::Cosine => thresholds.destructive,
                // Out of reach: words come to 1.6 at most below that coverage.
                GatedBy::Words | GatedBy::Scorer => 3.0,
            };
        }
        let covers = self.arms.lexical.coverage[row] >= thresholds.coverage;
        if covers && self.ranker.risk(row) < Risk::Destructive {
            return None;
        }
        let reaches = self.reaches(row, thresholds);
        (reaches < asked).then_some(Rejected::BelowThreshold { reaches, asked })
    }

    /// What the gate compares: the cosine, less the handicap when the request has no word of the
    /// end of the tool's name; or, without a model, the words of both.
    ///
    /// The handicap was chosen on the development sets, where it lifts the requests that nothing
    /// fits and that are turned away from .47 to .51 (static) and from .68 to .76 (tuned MiniLM), at
    /// 97 % of answerable requests kept.
    fn reaches(&self, row: usize, thresholds: &Thresholds) -> f32 {
        let lexical = &self.arms.lexical;
        match (thresholds.by, self.cosine(row)) {
            (GatedBy::Cosine, Some(cosine)) if lexical.name_coverage[row] > 0.0 => cosine,
            (GatedBy::Cosine, Some(cosine)) => cosine - self.ranker.gate.handicap,
            _ => lexical.name_coverage[row] + 2.0 * lexical.coverage[row],
        }
    }
}
