//! Measures of one ranking against one query's gold tools.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::query::Query;
use crate::error::{Error, ErrorKind, Result};

/// A measure of one ranking, in [0, 1], higher being better.
///
/// Every gold tool is a slot whose rank is the best rank of the tool and its alternatives. Written
/// `R@5`, `C@5`, `nDCG@10`, `MRR`.
///
/// # Example
/// ```
/// use toolrack::eval::Metric;
///
/// // Two of three slots were found, at ranks 1 and 4.
/// let ranks = [Some(1), None, Some(4)];
/// assert_eq!(Metric::Recall(3).of(&ranks), 1.0 / 3.0);
/// assert_eq!(Metric::Complete(10).of(&ranks), 0.0);
/// assert_eq!(Metric::Mrr.of(&ranks), 1.0);
/// assert_eq!("R@3".parse::<Metric>()?, Metric::Recall(3));
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Metric {
    /// Share of the slots within the first k.
    Recall(usize),
    /// 1 when all slots are within the first k, else 0.
    Complete(usize),
    /// Discounted cumulative gain of the first k, gain 1 a slot and discount log2(rank + 1), over
    /// that of min(slots, k) slots at the top (Järvelin, Kekäläinen, TOIS 2002).
    Ndcg(usize),
    /// One over the best rank of any slot, 0 when none is ranked.
    Mrr,
}

impl Metric {
    /// The measures of every report: recall and completeness at 1, 5 and 10, nDCG@10 and MRR.
    pub const STANDARD: [Self; 7] = [
        Self::Recall(1),
        Self::Recall(5),
        Self::Recall(10),
        Self::Complete(5),
        Self::Complete(10),
        Self::Ndcg(10),
        Self::Mrr,
    ];

    /// How many ranks it looks at; `None` for one that looks at all.
    pub fn depth(self) -> Option<usize> {
        match self {
            Self::Recall(k) | Self::Complete(k) | Self::Ndcg(k) => Some(k),
            Self::Mrr => None,
        }
    }

    /// The measure of slots at these ranks (from 1; `None` for a slot that is not ranked); 0 without
    /// slots.
    pub fn of(self, ranks: &[Option<usize>]) -> f64 {
        if ranks.is_empty() {
            return 0.0;
        }
        let within = |k: usize| ranks.iter().flatten().filter(move |&&rank| rank <= k);
        match self {
            Self::Recall(k) => within(k).count() as f64 / ranks.len() as f64,
            Self::Complete(k) => f64::from(u8::from(within(k).count() == ranks.len())),
            Self::Ndcg(k) => {
                let gain = |rank: usize| 1.0 / (rank as f64 + 1.0).log2();
                let ideal: f64 = (1..=ranks.len().min(k)).map(gain).sum();
                // The sum of nothing is -0.0.
                let found = within(k).map(|&rank| gain(rank)).sum::<f64>() + 0.0;
                // Slots that share an alternative share its rank and could pass the ideal.
                if ideal > 0.0 { (found / ideal).min(1.0) } else { 0.0 }
            }
            Self::Mrr => ranks.iter().flatten().min().map_or(0.0, |&rank| 1.0 / rank as f64),
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recall(k) => f.pad(&format!("R@{k}")),
            Self::Complete(k) => f.pad(&format!("C@{k}")),
            Self::Ndcg(k) => f.pad(&format!("nDCG@{k}")),
            Self::Mrr => f.pad("MRR"),
        }
    }
}

impl FromStr for Metric {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let metric = match text.split_once('@') {
            None if text.eq_ignore_ascii_case("mrr") => Some(Self::Mrr),
            None => None,
            Some((name, k)) => {
                k.parse().ok().filter(|&k| k > 0).and_then(|k| match name.to_lowercase().as_str() {
                    "r" | "recall" => Some(Self::Recall(k)),
                    "c" | "complete" => Some(Self::Complete(k)),
                    "ndcg" => Some(Self::Ndcg(k)),
                    _ => None,
                })
            }
        };
        metric.ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidSetting,
                format!("'{text}' is no measure: write R@5, C@5, nDCG@10 or MRR"),
            )
        })
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Metric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// The rank (from 1) of each slot of `query` in `ranked` (rows, best first): the best rank of its
/// tool and its alternatives, `None` when none of them is ranked.
pub fn slot_ranks(query: &Query, ranked: &[usize]) -> Vec<Option<usize>> {
    query
        .slots
        .iter()
        .map(|slot| ranked.iter().position(|&row| slot.takes(row)).map(|at| at + 1))
        .collect()
}

/// How often a gate was right to say that no tool fits.
///
/// # Example
/// ```
/// use toolrack::eval::NoMatch;
///
/// let mut count = NoMatch::default();
/// count.add(true, true); // no tool fits, and the gate said so
/// count.add(false, true); // a tool would have fitted
/// count.add(false, false);
/// assert_eq!((count.precision(), count.recall()), (Some(0.5), Some(1.0)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NoMatch {
    /// Queries that no tool fits.
    pub unanswerable: usize,
    /// Queries to which the gate answered that no tool fits.
    pub refused: usize,
    /// Queries of both kinds.
    pub correct: usize,
}

impl NoMatch {
    /// Counts one query.
    pub fn add(&mut self, unanswerable: bool, refused: bool) {
        self.unanswerable += usize::from(unanswerable);
        self.refused += usize::from(refused);
        self.correct += usize::from(unanswerable && refused);
    }

    /// Of the refused queries, the share that no tool fits; `None` when nothing was refused.
    pub fn precision(&self) -> Option<f64> {
        (self.refused > 0).then(|| self.correct as f64 / self.refused as f64)
    }

    /// Of the queries that no tool fits, the share that was refused; `None` when there are none.
    pub fn recall(&self) -> Option<f64> {
        (self.unanswerable > 0).then(|| self.correct as f64 / self.unanswerable as f64)
    }
}
