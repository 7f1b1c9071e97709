//! Rankings for other programs to score.

use serde::{Deserialize, Serialize};

use super::dataset::Dataset;
use super::evaluate::Rankings;
use super::memory::peak_rss_mb;
use crate::error::{Error, ErrorKind, Result};

/// What is told beside a run file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunMeta {
    /// Tools in the catalog.
    pub n_tools: usize,
    /// Queries ranked.
    pub n_queries: usize,
    /// Seconds from the catalog to the ready system.
    pub build_s: f64,
    /// Median of microseconds from the request's text to ranked names, one at a time, after a
    /// warm-up.
    pub query_us_p50: f64,
    /// Its 95th percentile.
    pub query_us_p95: f64,
    /// The most memory that the process has taken so far, in MiB; `None` where it is not known.
    pub peak_rss_mb: Option<f64>,
}

impl RunMeta {
    /// The figures of `rankings` of `dataset`.
    pub fn of(dataset: &Dataset, rankings: &Rankings) -> Self {
        let round = |value: f64, digits: i32| {
            let unit = 10_f64.powi(digits);
            (value * unit).round() / unit
        };
        Self {
            n_tools: dataset.n_tools(),
            n_queries: dataset.len(),
            build_s: round(rankings.build_s, 4),
            query_us_p50: round(rankings.query_us_at(0.5), 1),
            query_us_p95: round(rankings.query_us_at(0.95), 1),
            peak_rss_mb: peak_rss_mb(),
        }
    }
}

/// `rankings` as JSON lines `{"id", "ranked": [names, best first]}`, one a query.
///
/// # Errors
/// [`ErrorKind::Format`] when a name cannot be written, which does not happen.
pub fn write_run(dataset: &Dataset, rankings: &Rankings) -> Result<String> {
    #[derive(Serialize)]
    struct Line<'a> {
        id: &'a str,
        ranked: Vec<String>,
    }
    let mut out = String::new();
    for (query, rows) in dataset.queries().iter().zip(&rankings.ranked) {
        let ranked = rows.iter().map(|&row| dataset.tool_name(row)).collect();
        let line = serde_json::to_string(&Line { id: &query.id, ranked }).map_err(|error| {
            Error::new(ErrorKind::Format, "a ranking cannot be written").with_source(error)
        })?;
        out.push_str(&line);
        out.push('\n');
    }
    Ok(out)
}
