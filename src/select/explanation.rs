//! How the place of one tool comes about.

use std::fmt;

use serde::Serialize;

use super::selection::{Boost, Candidate, Rejected};
use crate::catalog::ToolId;
use crate::index::Fusion;

/// How one tool fares for one request.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// Which tool.
    pub tool: ToolId,
    /// Its place, from 1; `None` when every score is zero.
    pub rank: Option<usize>,
    /// How many tools were ranked against it.
    pub of: usize,
    /// Its scores and boosts; `None` when every score is zero.
    pub candidate: Option<Candidate>,
    /// Why it is not admitted; `None` when it is, or is not ranked.
    pub rejected: Option<Rejected>,
    /// Weight of the lexical arm.
    pub lexical_weight: f32,
    /// How the scores were fused.
    pub fusion: Fusion,
    /// What ranked in place of both arms.
    pub scorer: Option<String>,
    /// Why the dense arm had no say although it should.
    pub degraded: Option<String>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(candidate) = &self.candidate else {
            return write!(f, "{}: no word and no meaning in common with the request", self.tool);
        };
        let rank = self.rank.unwrap_or_default();
        writeln!(f, "{}: rank {rank} of {}", self.tool, self.of)?;
        if let (Some(scorer), None) = (&self.scorer, &self.degraded) {
            writeln!(f, "  scorer       {scorer}")?;
            writeln!(f, "  score        {:.4}", candidate.score.get())?;
        } else {
            self.fmt_arms(candidate, f)?;
        }
        for boost in &candidate.boosts {
            match boost {
                Boost::Named => writeln!(f, "  boost        named in the request")?,
                Boost::Alias => writeln!(f, "  boost        alias")?,
                Boost::Fallback => writeln!(f, "  boost        fallback")?,
            }
        }
        match self.rejected {
            None => write!(f, "  admitted     yes"),
            Some(Rejected::BelowThreshold { reaches, asked }) => {
                write!(f, "  admitted     no: reaches {reaches:.3} of {asked:.3}")
            }
            Some(Rejected::BelowRatio { least }) => {
                write!(f, "  admitted     no: needs a score of {least:.4}, a share of the best")
            }
        }
    }
}

impl Explanation {
    fn fmt_arms(&self, candidate: &Candidate, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match candidate.cosine {
            Some(cosine) => writeln!(f, "  cosine       {:.4}", cosine.get())?,
            None => writeln!(f, "  cosine       none (the dense arm had no say)")?,
        }
        writeln!(
            f,
            "  lexical      {:.4} (weight {}; bm25 {:.2}, {:.0} % of the name's end, {:.0} % of the \
             request's words)",
            candidate.lexical.get(),
            self.lexical_weight,
            candidate.bm25.get(),
            candidate.name_coverage.get() * 100.0,
            candidate.coverage.get() * 100.0
        )?;
        writeln!(f, "  fused        {:.4}", candidate.score.get())
    }
}
