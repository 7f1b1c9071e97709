//! What the engine answers.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::gate::Thresholds;
use super::intent::IntentReport;
use crate::catalog::ToolId;
use crate::score::Score;
use crate::text::TokenCount;

/// Tokens of the tool list, beside what all eligible tools would take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TokenFigures {
    /// Tokens of the definitions that are sent, the meta-tool's included.
    pub sent: TokenCount,
    /// Tokens of all definitions that the caller may use.
    pub naive: TokenCount,
}

impl TokenFigures {
    pub(crate) fn new(sent: TokenCount, naive: TokenCount) -> Self {
        Self { sent, naive }
    }

    /// Tokens saved; 0 when the list takes more than all tools would.
    pub fn saved(&self) -> TokenCount {
        self.naive.saturating_sub(self.sent)
    }

    /// Share saved, in [0, 1].
    pub fn saved_share(&self) -> f64 {
        if self.naive == 0 { 0.0 } else { self.saved() as f64 / self.naive as f64 }
    }
}

/// Why a candidate stands where it stands, besides its scores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "boost")]
#[non_exhaustive]
pub enum Boost {
    /// The request names the tool: it comes before everything that is only similar.
    Named,
    /// The request holds an alias of the tool, and there was nothing better to go by.
    Alias,
    /// No tool is needed, and this is the one that intent rules fall back on.
    Fallback,
}

/// Why a ranked tool was not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "why")]
#[non_exhaustive]
pub enum Rejected {
    /// It does not reach the threshold of its risk class.
    BelowThreshold {
        /// What it reaches: [`Candidate::gate`].
        reaches: f32,
        /// What is asked for.
        asked: f32,
    },
    /// It fits, but not nearly as well as the best one.
    BelowRatio {
        /// The score that the request's `min_score_ratio` asks for in the tool's intent.
        least: f32,
    },
}

/// One ranked tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Candidate {
    /// Which tool.
    pub id: ToolId,
    /// Fused score, by which candidates are ordered; comparable within one selection only.
    pub score: Score,
    /// Cosine in [-1, 1]; `None` when the dense arm had no say.
    pub cosine: Option<Score>,
    /// BM25, at least 0.
    pub bm25: Score,
    /// The lexical arm's verdict in [0, 1]: BM25 and name coverage, 1 for the request's best tool.
    pub lexical: Score,
    /// Share of the words at the end of the tool's name, by rarity, that the request has; in [0, 1].
    pub name_coverage: Score,
    /// Share of the request's words, by rarity, that the tool has; in [0, 1].
    pub coverage: Score,
    /// What the gate compares with its threshold.
    pub gate: Score,
    /// What put it before its score.
    pub boosts: Vec<Boost>,
    /// The intent (by number) that it was ranked for.
    pub intent: usize,
}

impl Candidate {
    /// Whether the request names the tool.
    pub fn is_named(&self) -> bool {
        self.boosts.contains(&Boost::Named)
    }
}

/// What a selection came to.
///
/// Two of them say that no action is due, for different reasons: with [`NoMatch`](Self::NoMatch) the
/// request wants something that no tool does, and the model should say so or ask; with
/// [`NotNeeded`](Self::NotNeeded), which only [`IntentRules`](crate::IntentRules) give, the request
/// wants nothing of a tool, and the model should simply answer. Neither is an error, and neither
/// shows tools instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome", content = "tools")]
#[non_exhaustive]
pub enum Outcome {
    /// At least one tool fits.
    Found,
    /// Several tools fit so alike that somebody should choose: these, best first, all of them
    /// candidates. When several intents of a request are so, those of the first.
    Ambiguous(Vec<ToolId>),
    /// No tool fits.
    NoMatch,
    /// No tool is needed.
    NotNeeded,
}

/// Ranked candidates, how they were judged, and on what ground.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Selection {
    /// What it came to.
    pub outcome: Outcome,
    /// Admitted tools, best first: named ones, then by fused score, ties in catalog order. At most
    /// k that are not named, and the second of an ambiguous outcome on top when k has no place for it.
    pub candidates: Vec<Candidate>,
    /// The best tools that were not admitted, at most k, best first.
    pub rejected: Vec<(Candidate, Rejected)>,
    /// Why the dense arm had no or only part of a say although it should; `None` when all is well.
    pub degraded: Option<String>,
    /// Version of the catalog.
    pub catalog_version: u64,
    /// Tools that the caller may use and that were ranked.
    pub eligible: usize,
    /// Tools that fit, before the cut to k.
    pub total: usize,
    /// Thresholds in force.
    pub thresholds: Thresholds,
    /// Tokens of the candidates' definitions, and of all eligible ones.
    pub tokens: TokenFigures,
    /// What intent rules made of the request; `None` when there are none.
    pub intent: Option<IntentReport>,
}

impl Selection {
    /// The best candidate, or `None` when nothing fits.
    pub fn best(&self) -> Option<&Candidate> {
        self.candidates.first()
    }

    /// Whether the dense arm had no or only part of a say although it should.
    pub fn is_degraded(&self) -> bool {
        self.degraded.is_some()
    }
}

impl fmt::Display for Selection {
    /// A table of the candidates with both arms' scores.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = match &self.outcome {
            Outcome::Found => "found",
            Outcome::Ambiguous(_) => "ambiguous",
            Outcome::NoMatch => "no match",
            Outcome::NotNeeded => "no tool needed",
        };
        writeln!(
            f,
            "{outcome}: {} of {} fitting tools, {} eligible, catalog version {}",
            self.candidates.len(),
            self.total,
            self.eligible,
            self.catalog_version
        )?;
        if let Some(reason) = &self.degraded {
            writeln!(f, "words only, because {reason}")?;
        }
        if let Some(intent) = &self.intent {
            writeln!(f, "{intent}")?;
        }
        for candidate in &self.candidates {
            writeln!(f, "{candidate}")?;
        }
        for (candidate, _) in &self.rejected {
            writeln!(f, "{candidate}  not admitted")?;
        }
        Ok(())
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {:>6.3}  cosine ", self.score.get())?;
        match self.cosine {
            Some(cosine) => write!(f, "{:>6.3}", cosine.get())?,
            None => write!(f, "     -")?,
        }
        write!(
            f,
            "  bm25 {:>6.2}  words {:>3.0} %  {}",
            self.bm25.get(),
            self.coverage.get() * 100.0,
            self.id
        )?;
        if self.is_named() {
            write!(f, "  named")?;
        }
        Ok(())
    }
}
