//! What was measured, for machines; its texts are beside it.

mod chart;
mod html;
mod markdown;

use std::collections::BTreeMap;
use std::path::Path;

pub(crate) use markdown::short;
use serde::{Deserialize, Serialize};

use super::bootstrap::{Bootstrap, Estimate, mean};
use super::metric::{Metric, NoMatch};
use crate::error::{Error, ErrorKind, Result};

/// Results of an evaluation.
///
/// Written as JSON it is what `toolrack eval --check` compares with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// Version of this format.
    pub format: u32,
    /// Version of this crate.
    pub toolrack: String,
    /// The measures, in the order of tables.
    pub metrics: Vec<Metric>,
    /// How the intervals were drawn.
    pub bootstrap: Bootstrap,
    /// One a dataset.
    pub datasets: Vec<DatasetReport>,
    /// Means over the datasets, each counting alike; `None` for a single one.
    pub overall: Option<MacroReport>,
    /// The most memory that the process has taken so far, in MiB.
    pub peak_rss_mb: Option<f64>,
}

impl Report {
    pub(crate) const FORMAT: u32 = 1;

    /// What [`check`](super::check) compares, and no more: the datasets and each system's figures
    /// with their intervals. Small, and holds no word of the datasets, so that it can be committed.
    #[must_use]
    pub fn record(&self) -> Self {
        let mut record = self.clone();
        record.overall = None;
        record.peak_rss_mb = None;
        for set in &mut record.datasets {
            set.differences = Vec::new();
            for system in &mut set.systems {
                system.sweep = Vec::new();
                system.thresholds = Vec::new();
                system.kinds = Vec::new();
                system.groups = Vec::new();
                system.namespaces = Vec::new();
                system.misses = Vec::new();
                system.confusions = Vec::new();
            }
        }
        record
    }

    /// The measure by which systems are compared in a line: nDCG@10, or the first where that was not
    /// measured.
    pub fn main_metric(&self) -> Metric {
        let main = Metric::Ndcg(10);
        match self.metrics.first() {
            Some(first) if !self.metrics.contains(&main) => *first,
            _ => main,
        }
    }

    /// The report in the JSON file at `path`.
    ///
    /// # Errors
    /// [`ErrorKind::Io`], [`ErrorKind::Format`], or [`ErrorKind::FormatVersion`] for one that
    /// another release wrote.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|error| {
            let what = format!("cannot read {}: give a report in JSON", path.display());
            Error::new(ErrorKind::Io, what).with_source(error)
        })?;
        let report: Self = serde_json::from_str(&text).map_err(|error| {
            let (line, what) = (error.line(), "is no report: write one with toolrack eval --json");
            Error::new(ErrorKind::Format, format!("{}, line {line}: {what}", path.display()))
                .with_source(error)
        })?;
        if report.format != Self::FORMAT {
            return Err(Error::new(
                ErrorKind::FormatVersion,
                format!(
                    "{} has format {} but this release reads {}: write the report anew",
                    path.display(),
                    report.format,
                    Self::FORMAT
                ),
            ));
        }
        Ok(report)
    }
}

/// Results on one dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DatasetReport {
    /// Name of the dataset.
    pub name: String,
    /// SHA-256 over its queries.
    pub fingerprint: String,
    /// Tools in its catalog.
    pub n_tools: usize,
    /// Queries.
    pub n_queries: usize,
    /// Queries that have a gold tool to retrieve.
    pub n_judged: usize,
    /// Tools that are always sent.
    pub n_core: usize,
    /// Tokens of all definitions.
    pub all_tokens: usize,
    /// Characters of all names and descriptions.
    pub all_characters: usize,
    /// One a system, in the order given.
    pub systems: Vec<SystemReport>,
    /// The first system against each other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
}

/// Results of one system on one dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SystemReport {
    /// Name of the system.
    pub name: String,
    /// Means with intervals, by measure.
    pub figures: BTreeMap<String, Estimate>,
    /// What sending the best k costs and finds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sweep: Vec<SweepPoint>,
    /// What a gate at each threshold lets through.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<ThresholdPoint>,
    /// Queries by their kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<Group>,
    /// Queries by their group, domain or category.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// Gold tools by namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<Group>,
    /// The gate on requests that no tool fits; `None` without a gate or without such requests.
    pub no_match: Option<NoMatch>,
    /// Share of the requests with a gold tool to which the gate answers that no tool fits.
    pub wrongly_refused: Option<f64>,
    /// Gold tools below the rank from which they count as missed.
    pub n_misses: usize,
    /// The deepest of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub misses: Vec<Miss>,
    /// Which tool stood first where a gold tool was missed, the most frequent pairs first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confusions: Vec<Confusion>,
    /// Seconds from the catalog to the ready system.
    pub build_s: f64,
    /// Median of microseconds a query.
    pub query_us_p50: f64,
    /// 95th percentile of microseconds a query.
    pub query_us_p95: f64,
}

/// What sending the best k tools costs and finds, as means over the queries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SweepPoint {
    /// How many ranked tools are sent.
    pub k: usize,
    /// Share of the gold tools among them.
    pub recall: f64,
    /// Share of the queries whose gold tools are all among them.
    pub complete: f64,
    /// Tools sent, those that always are included.
    pub tools: f64,
    /// Tokens of their definitions.
    pub tokens: f64,
    /// Characters of their names and descriptions.
    pub characters: f64,
    /// Share of all characters that is not sent.
    pub reduction: f64,
    /// The same when tools that are always sent do not count as sent.
    pub reduction_without_core: f64,
}

/// What a gate lets through at one threshold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ThresholdPoint {
    /// The cosine that is asked for.
    pub threshold: f64,
    /// Share of the gold tools that are admitted among the default k.
    pub recall: f64,
    /// Tools admitted, as a mean.
    pub tools: f64,
    /// Share of the requests with a gold tool to which nothing is admitted.
    pub wrongly_refused: f64,
    /// Of the refused requests, the share that no tool fits.
    pub no_match_precision: Option<f64>,
    /// Of the requests that no tool fits, the share that is refused.
    pub no_match_recall: Option<f64>,
}

/// Figures of some of the queries, or of some of the gold tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Group {
    /// What they have in common.
    pub name: String,
    /// How many.
    pub n: usize,
    /// Recall among the first 5.
    pub recall_5: f64,
    /// Recall among the first 10.
    pub recall_10: f64,
    /// nDCG of the first 10.
    pub ndcg_10: f64,
}

impl Group {
    pub(crate) fn of(name: String, ranks: &[&[Option<usize>]]) -> Self {
        let of =
            |metric: Metric| mean(&ranks.iter().map(|ranks| metric.of(ranks)).collect::<Vec<_>>());
        Self {
            name,
            n: ranks.len(),
            recall_5: of(Metric::Recall(5)),
            recall_10: of(Metric::Recall(10)),
            ndcg_10: of(Metric::Ndcg(10)),
        }
    }
}

/// A gold tool that was ranked too deep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Miss {
    /// Id of the query.
    pub id: String,
    /// The beginning of the request.
    pub request: String,
    /// The gold tool.
    pub tool: String,
    /// Its rank; `None` below the depth.
    pub rank: Option<usize>,
    /// The tools at the top that are not gold.
    pub outranked_by: Vec<String>,
}

/// How often one tool stood first where another was missed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Confusion {
    /// The gold tool.
    pub tool: String,
    /// The tool at the top.
    pub outranked_by: String,
    /// How often.
    pub times: usize,
}

/// One system against another on the same queries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Difference {
    /// The first system.
    pub a: String,
    /// The other.
    pub b: String,
    /// The measure.
    pub metric: Metric,
    /// Mean of a - b with its interval.
    pub difference: Estimate,
}

/// Means over datasets, each counting alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MacroReport {
    /// Means with intervals by system, then by measure. Queries are resampled within each dataset.
    pub figures: Vec<(String, BTreeMap<String, Estimate>)>,
    /// The first system against each other.
    pub differences: Vec<Difference>,
}
