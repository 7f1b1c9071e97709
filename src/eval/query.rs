//! One labelled request, and how a line of a dataset's file becomes it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::dataset::{DatasetOptions, Gold, TextField};
use crate::catalog::Snapshot;

/// One thing that a request needs: a tool, or any of its alternatives.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GoldSlot {
    /// Row of the labelled tool.
    pub tool: usize,
    /// Rows of tools that would do as well.
    pub alternatives: Vec<usize>,
}

impl GoldSlot {
    /// Whether the tool in `row` fills the slot.
    pub fn takes(&self, row: usize) -> bool {
        self.tool == row || self.alternatives.contains(&row)
    }
}

/// One user turn of a run with the calls that answer it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueryTurn {
    /// What the user said.
    pub text: String,
    /// Rows of the tools called, in order, repeats kept.
    pub steps: Vec<usize>,
}

/// One labelled request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Query {
    /// Unique in its dataset.
    pub id: String,
    /// The request.
    pub text: String,
    /// What the request needs; empty when no tool fits.
    pub slots: Vec<GoldSlot>,
    /// The dataset's word for its kind, else `none`, `single` or `multi` by the number of slots.
    pub kind: String,
    /// A further grouping (`group`, `domain` or `category`), if there is one.
    pub group: Option<String>,
    /// Requests of the same `template` belong together when a set is split.
    pub template: Option<String>,
    /// Turns with their calls; a query that has only `steps` is one turn. Empty without either.
    pub turns: Vec<QueryTurn>,
    /// Rows that the benchmark itself offers; empty when it offers all.
    pub candidates: Vec<usize>,
    /// Line in the file of queries.
    pub line: usize,
}

impl Query {
    /// Whether the request is one that no tool fits.
    pub fn is_unanswerable(&self) -> bool {
        self.slots.is_empty()
    }
}

/// From the names in a dataset's files to rows.
pub(super) struct ToolNames<'a> {
    snapshot: &'a Snapshot,
    tools: &'a Path,
}

impl<'a> ToolNames<'a> {
    pub(super) fn of(snapshot: &'a Snapshot, tools: &'a Path) -> Self {
        Self { snapshot, tools }
    }

    /// The row, or the end of a sentence that says what is wrong with the name.
    pub(super) fn row(&self, name: &str) -> Result<usize, String> {
        let names = self.snapshot.names();
        match names.by_name(name) {
            [row] => Ok(*row),
            [first, ..] => names.by_id(name).ok_or_else(|| {
                let id = self.snapshot.tool(*first).id();
                format!("stands for several tools: write the namespace, as in '{id}'")
            }),
            [] => names.by_id(name).ok_or_else(|| {
                let tools = self.tools.display();
                format!("is not in the catalog: name a tool of {tools}")
            }),
        }
    }

    fn rows(&self, list: &[String], what: &str) -> Result<Vec<usize>, String> {
        list.iter()
            .map(|name| self.row(name).map_err(|why| format!("{what} '{name}' {why}")))
            .collect()
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Id {
    Text(String),
    Number(u64),
}

#[derive(Deserialize)]
struct RawTurn {
    #[serde(alias = "text", alias = "user")]
    query: String,
    #[serde(default, alias = "tools")]
    steps: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct RawQuery {
    id: Id,
    query: Option<String>,
    request: Option<String>,
    tools: Option<Vec<String>>,
    main: Option<String>,
    kind: Option<String>,
    #[serde(default)]
    alternatives: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    steps: Vec<String>,
    #[serde(default)]
    turns: Vec<RawTurn>,
    #[serde(default)]
    candidates: Vec<String>,
    group: Option<String>,
    domain: Option<String>,
    category: Option<String>,
    template: Option<String>,
}

impl RawQuery {
    /// What is asked with; `None` when the line holds no request.
    pub(super) fn asked(&self, field: TextField) -> Option<String> {
        let query = match &self.query {
            Some(query) => query.clone(),
            None if !self.turns.is_empty() => {
                let turns: Vec<&str> = self.turns.iter().map(|turn| turn.query.as_str()).collect();
                turns.join("\n")
            }
            None => return None,
        };
        Some(match (field, &self.request) {
            (TextField::Request, Some(request)) if !request.trim().is_empty() => request.clone(),
            _ => query,
        })
    }

    /// The query, or a sentence that says what is wrong with it.
    pub(super) fn resolve(
        self,
        line: usize,
        options: &DatasetOptions,
        names: &ToolNames<'_>,
    ) -> Result<Query, String> {
        let asked = self.asked(options.text);
        let id = match self.id {
            Id::Text(id) => id,
            Id::Number(id) => id.to_string(),
        };
        if id.trim().is_empty() {
            return Err("field 'id' is empty: give every query an id of its own".into());
        }
        let turns = self
            .turns
            .iter()
            .map(|turn| {
                let steps = names.rows(&turn.steps, "step")?;
                Ok(QueryTurn { text: turn.query.clone(), steps })
            })
            .collect::<Result<Vec<_>, String>>()?;
        let text = asked.ok_or("field 'query' is missing: write the request")?;
        if text.trim().is_empty() {
            return Err("field 'query' is empty: write the request".into());
        }
        let steps = names.rows(&self.steps, "step")?;
        let tools = match (options.gold, &self.main, &self.tools) {
            (Gold::Main, Some(main), _) => vec![main.clone()],
            (_, _, Some(tools)) => tools.clone(),
            (_, _, None) if !steps.is_empty() || !turns.is_empty() => {
                let called = turns.iter().flat_map(|turn| &turn.steps).chain(&steps);
                let mut distinct: Vec<String> = Vec::new();
                for &row in called {
                    let id = names.snapshot.tool(row).id().to_string();
                    if !distinct.contains(&id) {
                        distinct.push(id);
                    }
                }
                distinct
            }
            _ => {
                return Err("field 'tools' is missing: name the tools that the request needs, or \
                            write [] when none fits"
                    .into());
            }
        };
        for gold in self.alternatives.keys() {
            if !tools.contains(gold) && options.gold == Gold::All {
                return Err(format!(
                    "alternatives are given for '{gold}', which is not in 'tools': name a gold tool"
                ));
            }
        }
        let mut slots: Vec<GoldSlot> = Vec::with_capacity(tools.len());
        for name in &tools {
            let tool = names.row(name).map_err(|why| format!("gold tool '{name}' {why}"))?;
            if slots.iter().any(|slot| slot.tool == tool) {
                return Err(format!("gold tool '{name}' is named twice: name each tool once"));
            }
            let alternatives = self.alternatives.get(name).map(Vec::as_slice).unwrap_or_default();
            slots.push(GoldSlot { tool, alternatives: names.rows(alternatives, "alternative")? });
        }
        let by_count = match slots.len() {
            0 => "none",
            1 => "single",
            _ => "multi",
        };
        let turns = match (turns.is_empty(), steps.is_empty()) {
            (false, _) => turns,
            (true, false) => vec![QueryTurn { text: text.clone(), steps }],
            (true, true) => Vec::new(),
        };
        Ok(Query {
            id,
            text,
            slots,
            kind: self.kind.unwrap_or_else(|| by_count.to_owned()),
            group: self.group.or(self.domain).or(self.category),
            template: self.template,
            turns,
            candidates: names.rows(&self.candidates, "candidate")?,
            line,
        })
    }
}
