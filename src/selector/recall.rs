//! How often the right tool is picked, and at what saving.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{PickReason, PickedTool, Pins, Selector};
use crate::catalog::{Tool, ToolId};
use crate::error::{Error, ErrorKind, Result};
use crate::select::Eligible;

/// A request with the tools that answer it.
///
/// A line of a `queries.jsonl` deserialises to it; further fields are passed over.
///
/// # Example
/// ```
/// use toolrack::LabelledQuery;
///
/// let line = r#"{"id": "q1", "query": "will it rain?", "tools": ["weather"], "kind": "direct"}"#;
/// let query: LabelledQuery = serde_json::from_str(line).unwrap();
/// assert_eq!(query.tools, ["weather"]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelledQuery {
    /// The request.
    pub query: String,
    /// Ids or names of the tools that answer it; empty when no tool does.
    #[serde(default)]
    pub tools: Vec<String>,
}

impl LabelledQuery {
    /// `query`, which `tools` answer.
    pub fn new<S: Into<String>>(
        query: impl Into<String>,
        tools: impl IntoIterator<Item = S>,
    ) -> Self {
        Self { query: query.into(), tools: tools.into_iter().map(Into::into).collect() }
    }
}

/// Recall and payload at one k.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RecallRow {
    /// Tools picked by rank.
    pub k: usize,
    /// Mean share of a query's tools that were picked, in [0, 1].
    pub recall: f64,
    /// Share of the characters of the names and descriptions that the caller may use that is saved,
    /// in [0, 1], everything that was picked counted as sent.
    pub reduction: f64,
    /// The same with only the tools picked by rank counted as sent.
    pub reduction_ranked: f64,
    /// Places, from 0, of the queries of which a tool was missed.
    pub missed: Vec<usize>,
}

/// What [`Selector::recall`] measured, one row for each k.
///
/// Its [`Display`](fmt::Display) text is a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RecallTable {
    /// Queries that were asked; those without a tool are left out.
    pub queries: usize,
    /// The rows, in the order of the k.
    pub rows: Vec<RecallRow>,
}

pub(super) fn table(
    selector: &Selector,
    queries: &[LabelledQuery],
    ks: &[usize],
) -> Result<RecallTable> {
    let snapshot = selector.engine.snapshot();
    let mut labelled: Vec<(&str, Vec<ToolId>)> = Vec::new();
    for query in queries.iter().filter(|query| !query.tools.is_empty()) {
        let ids = query.tools.iter().map(|name| {
            let rows = snapshot.names().resolve(name, &|_| true);
            rows.first().map(|&row| snapshot.tool(row).id().clone()).ok_or_else(|| {
                Error::new(
                    ErrorKind::UnknownTool,
                    format!(
                        "query '{}' is labelled with '{name}', which the catalog does not hold: \
                         mend the label",
                        query.query
                    ),
                )
            })
        });
        labelled.push((&query.query, ids.collect::<Result<_>>()?));
    }
    // What the caller may not use would not be sent anyway and is no saving.
    let eligible = Eligible::of(&snapshot, &selector.context);
    let usable = snapshot.tools().enumerate().filter(|(row, _)| eligible.contains(*row));
    let all: usize = usable.map(|(_, tool)| payload(tool)).sum();
    let n = labelled.len().max(1) as f64;
    let mut rows = Vec::with_capacity(ks.len());
    for &k in ks {
        let selector = selector.clone().top_k(k);
        let (mut found, mut sent, mut sent_ranked) = (0.0, 0, 0);
        let mut missed = Vec::new();
        for (place, (query, tools)) in labelled.iter().enumerate() {
            let picked = selector.select(query, &Pins::default())?.tools;
            let hits = tools.iter().filter(|id| picked.iter().any(|one| one.tool.id() == *id));
            let hits = hits.count();
            found += hits as f64 / tools.len() as f64;
            if hits < tools.len() {
                missed.push(place);
            }
            let ranked = |one: &&PickedTool| one.why != PickReason::Always;
            sent += picked.iter().map(|one| payload(&one.tool)).sum::<usize>();
            sent_ranked +=
                picked.iter().filter(ranked).map(|one| payload(&one.tool)).sum::<usize>();
        }
        let saved = |sent: usize| 1.0 - sent as f64 / n / all.max(1) as f64;
        rows.push(RecallRow {
            k,
            recall: found / n,
            reduction: saved(sent),
            reduction_ranked: saved(sent_ranked),
            missed,
        });
    }
    Ok(RecallTable { queries: labelled.len(), rows })
}

/// Characters of name and description.
fn payload(tool: &Tool) -> usize {
    tool.name().chars().count() + tool.description().chars().count()
}

impl fmt::Display for RecallTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "   k  recall  reduction  of the ranked alone   ({} queries)", self.queries)?;
        for row in &self.rows {
            writeln!(
                f,
                "{:>4}  {:>5.1} %  {:>7.1} %  {:>17.1} %",
                row.k,
                row.recall * 100.0,
                row.reduction * 100.0,
                row.reduction_ranked * 100.0
            )?;
        }
        Ok(())
    }
}
