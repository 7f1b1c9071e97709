//! Scores from outside both arms.

use std::collections::{BTreeSet, HashSet};

use super::gate::{GatedBy, Thresholds};
use super::policy::Eligible;
use super::rank::{Ranked, Ranker, Ranking, best_of_both};
use super::request::SelectRequest;
use super::selection::{Boost, Candidate, Rejected};
use crate::catalog::{Risk, Tool};
use crate::error::{Error, ErrorKind, Result};
use crate::index::top_k;
use crate::score::Score;

/// Scores tools for a request, in place of both arms.
///
/// A scorer sees only tools that the caller may use. Its scores order the tools; equal ones keep
/// catalog order, tools that the request names still come first, and a score that is not above zero
/// is never a match. Everything that stands on an engine goes by it: `rank`, `select`, a
/// [`Selector`](crate::Selector), a [`Session`](crate::Session).
///
/// The scorers of this crate:
///
/// | scorer | how to get it |
/// |---|---|
/// | both arms (hybrid) | the default |
/// | BM25 | [`Engine::with_fusion`](crate::Engine::with_fusion)`(Fusion::LexicalOnly)`, or [`without_embedder`](crate::EngineBuilder::without_embedder) |
/// | dense | `with_fusion(Fusion::DenseOnly)` |
/// | Jaccard, without model or index | [`with_scorer`](crate::Engine::with_scorer)`(`[`Jaccard`]`)` |
/// | your own | `with_scorer(..)` |
///
/// # Example: a scorer of one's own
/// ```
/// use toolrack::{Catalog, Engine, Result, Scorer, Tool};
///
/// /// The shorter the name, the better.
/// struct Short;
///
/// impl Scorer for Short {
///     fn name(&self) -> String { "short/1".into() }
///     fn score(&self, _request: &str, tools: &[&Tool]) -> Result<Vec<f32>> {
///         Ok(tools.iter().map(|tool| 1.0 / tool.name().len() as f32).collect())
///     }
/// }
///
/// let catalog = Catalog::parse(r#"[{"name": "divide"}, {"name": "add"}]"#)?;
/// let engine = Engine::builder(catalog).build()?.with_scorer(Short);
/// assert_eq!(engine.rank("anything", 1)?[0].id.name(), "add");
/// # Ok::<(), toolrack::Error>(())
/// ```
pub trait Scorer: Send + Sync {
    /// Names the scorer and its version, for explanations and traces.
    fn name(&self) -> String;

    /// One score for each of `tools`, in their order; a non-finite one counts as zero.
    ///
    /// # Errors
    /// Whatever keeps it from answering. The ranking then goes by words alone and is marked
    /// degraded, as when a model fails; a wrong number of scores counts as failure.
    fn score(&self, request: &str, tools: &[&Tool]) -> Result<Vec<f32>>;

    /// The score from which a tool of `risk` is admitted, on top of being above zero; 0 by default.
    fn threshold(&self, risk: Risk) -> f32 {
        let _ = risk;
        0.0
    }
}

/// Words in common over words in all, of the request and of name and description: the baseline that
/// needs neither model nor index.
///
/// Words are runs of `a-z` and `0-9` in lower case, each counted once, so a request in another
/// script scores 0. The score is in [0, 1].
///
/// # Example
/// ```
/// use toolrack::{Jaccard, Scorer, Tool};
///
/// let tool = Tool::builder("add").description("Add two numbers").build()?;
/// // "add" of add, two, numbers, please.
/// assert_eq!(Jaccard.score("add, please", &[&tool])?, [0.25]);
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Jaccard;

impl Scorer for Jaccard {
    fn name(&self) -> String {
        "jaccard".to_owned()
    }

    fn score(&self, request: &str, tools: &[&Tool]) -> Result<Vec<f32>> {
        let request = request.to_lowercase();
        let wanted = words(&request);
        let score = |tool: &&Tool| {
            let text = format!("{} {}", tool.name(), tool.description()).to_lowercase();
            let words = words(&text);
            let both = words.intersection(&wanted).count();
            let all = words.len() + wanted.len() - both;
            if all == 0 { 0.0 } else { both as f32 / all as f32 }
        };
        Ok(tools.iter().map(score).collect())
    }
}

fn words(text: &str) -> BTreeSet<&str> {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.split(|c| !is_word(c)).filter(|word| !word.is_empty()).collect()
}

/// The ranking of each intent of `request` by `scorer`.
pub(super) fn rank(
    ranker: &Ranker<'_>,
    scorer: &dyn Scorer,
    request: &SelectRequest,
    eligible: &Eligible,
    k: usize,
    gated: bool,
) -> Result<Vec<Ranking>> {
    let snapshot = &ranker.index.snapshot;
    let rows: Vec<usize> = (0..snapshot.len()).filter(|&row| eligible.contains(row)).collect();
    let tools: Vec<&Tool> = rows.iter().map(|&row| snapshot.tool(row)).collect();
    let thresholds = Thresholds {
        by: GatedBy::Scorer,
        read: scorer.threshold(Risk::Read),
        write: scorer.threshold(Risk::Write),
        destructive: scorer.threshold(Risk::Destructive),
        coverage: 0.0,
        margin: ranker.gate.margin,
    };
    let mut rankings = Vec::with_capacity(request.intents.len());
    for (intent, (text, query)) in request.intents.iter().zip(request.queries()).enumerate() {
        let mut scores = vec![0.0_f32; snapshot.len()];
        for (part, weight) in &query.parts {
            let given = scorer.score(part, &tools)?;
            if given.len() != tools.len() {
                return Err(Error::new(
                    ErrorKind::Embedder,
                    format!(
                        "scorer '{}' gave {} scores for {} tools: give one a tool",
                        scorer.name(),
                        given.len(),
                        tools.len()
                    ),
                ));
            }
            for (&row, score) in rows.iter().zip(given) {
                scores[row] += weight * Score::or_zero(score).get();
            }
        }
        let mentions = snapshot.names().mentions(text, &|row| eligible.contains(row));
        let is_named: HashSet<usize> = mentions.rows.iter().copied().collect();
        let ranked = |row: usize, named: bool| {
            let reaches = scores[row];
            let asked = thresholds.of(snapshot.tool(row).policy().risk);
            let below = Rejected::BelowThreshold { reaches, asked };
            let score = Score::or_zero(reaches);
            Ranked {
                row,
                candidate: Candidate {
                    id: snapshot.tool(row).id().clone(),
                    score,
                    cosine: None,
                    bm25: Score::ZERO,
                    lexical: Score::ZERO,
                    name_coverage: Score::ZERO,
                    coverage: Score::ZERO,
                    gate: score,
                    boosts: if named { vec![Boost::Named] } else { Vec::new() },
                    intent,
                },
                rejected: (!named && reaches < asked).then_some(below),
            }
        };
        let mut best: Vec<Ranked> = mentions.rows.iter().map(|&row| ranked(row, true)).collect();
        let scored = rows
            .iter()
            .copied()
            .filter(|row| scores[*row] > 0.0 && !is_named.contains(row))
            .map(|row| (row, Score::or_zero(scores[row])));
        let admits = |row: usize| scores[row] >= thresholds.of(ranker.index.risks[row]);
        let (similar, n_fitting) = if gated {
            let (rows, n_admitted) = best_of_both(scored, k, admits);
            (rows, Some(mentions.rows.len() + n_admitted))
        } else {
            (top_k(scored, k).into_iter().map(|(row, _)| row).collect(), None)
        };
        best.extend(similar.into_iter().map(|row| ranked(row, false)));
        rankings.push(Ranking {
            ranked: best,
            ambiguous_name: mentions.ambiguous,
            n_fitting,
            thresholds,
            degraded: None,
        });
    }
    Ok(rankings)
}
