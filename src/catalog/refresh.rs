//! From one snapshot to the next.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde::Serialize;

use super::findings::{Finding, findings};
use super::reader::Listing;
use super::snapshot::{Entry, Snapshot, SourceStatus};
use super::tool::{Tool, ToolId};
use super::trust::{TrustPolicy, Withheld};
use crate::error::{Error, ErrorKind, Result};

/// What became of one source since the last refresh.
#[derive(Debug)]
pub enum SourceUpdate {
    /// It answered: these are its tools now, all of them.
    Listed(Listing),
    /// It did not answer, for this reason: its tools stay and are marked stale.
    Unreachable(String),
    /// It was taken out of the configuration: its tools leave.
    Removed,
}

impl From<Listing> for SourceUpdate {
    fn from(listing: Listing) -> Self {
        Self::Listed(listing)
    }
}

/// What a refresh changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CatalogDiff {
    /// Version of the snapshot that holds the change; the old one when nothing changed.
    pub version: u64,
    /// Tools that are new, in catalog order.
    pub added: Vec<ToolId>,
    /// Tools that are gone, in the old catalog order.
    pub removed: Vec<ToolId>,
    /// Tools of the same id whose definition differs, in catalog order.
    pub changed: Vec<ToolId>,
    /// Tools that stayed as they were.
    pub unchanged: usize,
    /// Sources that did not answer and keep their tools.
    pub stale: Vec<String>,
    /// Definitions that were left out, each with its reason.
    pub problems: Vec<String>,
    /// Tools that are withheld and were not before in this form.
    pub withheld: Vec<Withheld>,
    /// What should be looked at in definitions that are new or changed.
    pub findings: Vec<Finding>,
}

/// The snapshot that follows `old`, and the difference; `None` when they would be the same.
pub(super) fn next(
    old: &Snapshot,
    updates: Vec<(String, SourceUpdate)>,
    trust: TrustPolicy,
) -> Result<(Option<Snapshot>, CatalogDiff)> {
    let version = old.version() + 1;
    let (mut builtins, mut sources) = old.parts();
    let mut diff = CatalogDiff { version: old.version(), ..CatalogDiff::default() };
    // Source -> what it lists now; `None` for a source that was removed.
    let mut listed: BTreeMap<Arc<str>, Option<Listing>> = BTreeMap::new();

    let mut named: HashSet<Arc<str>> = HashSet::new();
    for (name, update) in updates {
        let name: Arc<str> = name.into();
        if !named.insert(Arc::clone(&name)) {
            return Err(Error::new(
                ErrorKind::InvalidSetting,
                format!("source '{name}' is in one refresh twice: give one update a source"),
            ));
        }
        match update {
            SourceUpdate::Listed(listing) => {
                if let Some(reason) = &listing.incomplete {
                    return Err(Error::new(
                        ErrorKind::IncompleteListing,
                        format!("source '{name}' was not listed to its end: {reason}"),
                    ));
                }
                if let (true, Some(first)) = (listing.is_unreadable(), listing.problems.first()) {
                    return Err(Error::new(
                        ErrorKind::InvalidTool,
                        format!(
                            "source '{name}' lists {} definitions and none can be read, the first \
                             because {first}",
                            listing.problems.len()
                        ),
                    ));
                }
                let problems: Vec<String> =
                    listing.problems.iter().map(ToString::to_string).collect();
                diff.problems.extend(problems.iter().cloned());
                sources.insert(
                    Arc::clone(&name),
                    SourceStatus {
                        tools: 0,
                        withheld: 0,
                        stale: None,
                        answered: version,
                        problems,
                    },
                );
                if listing.builtins.is_empty() {
                    builtins.remove(&name);
                } else {
                    builtins.insert(Arc::clone(&name), listing.builtins.clone());
                }
                listed.insert(Arc::clone(&name), Some(listing));
            }
            SourceUpdate::Unreachable(reason) => {
                diff.stale.push(name.to_string());
                sources
                    .entry(name)
                    .or_insert(SourceStatus {
                        tools: 0,
                        withheld: 0,
                        stale: None,
                        answered: 0,
                        problems: Vec::new(),
                    })
                    .stale = Some(reason);
            }
            SourceUpdate::Removed => {
                sources.remove(&name);
                builtins.remove(&name);
                listed.insert(name, None);
            }
        }
    }

    let entries = merge(old, listed);
    let before: HashMap<&ToolId, &Tool> = old.tools().map(|tool| (tool.id(), tool)).collect();
    let snapshot = Snapshot::assemble(version, entries, trust, builtins, sources)?;
    for tool in snapshot.tools() {
        match before.get(tool.id()) {
            None => diff.added.push(tool.id().clone()),
            Some(&same) if same == tool => diff.unchanged += 1,
            Some(_) => diff.changed.push(tool.id().clone()),
        }
    }
    diff.removed =
        old.tools().map(Tool::id).filter(|id| snapshot.row(id).is_none()).cloned().collect();

    let withheld_before: HashSet<&Withheld> = old.withheld().collect();
    diff.withheld =
        snapshot.withheld().filter(|told| !withheld_before.contains(told)).cloned().collect();
    let found_before: HashSet<&Finding> = old.findings().collect();
    diff.findings =
        snapshot.findings().filter(|new| !found_before.contains(new)).cloned().collect();

    if is_same(old, &snapshot, &diff) {
        return Ok((None, diff));
    }
    diff.version = version;
    Ok((Some(snapshot), diff))
}

/// Old tools keep their place, vanished ones leave, new ones come last in the order listed.
fn merge(old: &Snapshot, listed: BTreeMap<Arc<str>, Option<Listing>>) -> Vec<Entry> {
    let all = old.listed();
    let before: HashMap<(Arc<str>, ToolId), &Entry> = all
        .iter()
        .map(|entry| ((Arc::clone(&entry.source), entry.tool.id().clone()), entry))
        .collect();
    let mut fresh: HashMap<(Arc<str>, ToolId), Vec<Entry>> = HashMap::new();
    let mut order: Vec<(Arc<str>, ToolId)> = Vec::new();
    let touched: HashSet<Arc<str>> = listed.keys().cloned().collect();
    for (source, listing) in listed {
        for located in listing.into_iter().flat_map(|listing| listing.tools) {
            let key = (Arc::clone(&source), located.tool.id().clone());
            let same = before.get(&key).filter(|old| old.tool == located.tool);
            let findings = match same {
                Some(old) => Arc::clone(&old.findings),
                None => {
                    let json = serde_json::to_string(&located.tool).unwrap_or_default();
                    findings(located.tool.id(), &json)
                }
            };
            let entry = Entry {
                tool: located.tool.with_default_source(&source),
                source: Arc::clone(&source),
                place: located.place,
                findings,
            };
            fresh.entry(key.clone()).or_default().push(entry);
            order.push(key);
        }
    }
    let mut entries = Vec::new();
    for entry in &all {
        if !touched.contains(&entry.source) {
            entries.push(entry.clone());
        } else if let Some(found) =
            fresh.remove(&(Arc::clone(&entry.source), entry.tool.id().clone()))
        {
            entries.extend(found);
        }
    }
    for key in order {
        entries.extend(fresh.remove(&key).into_iter().flatten());
    }
    entries
}

fn is_same(old: &Snapshot, new: &Snapshot, diff: &CatalogDiff) -> bool {
    let health = |snapshot: &Snapshot| -> Vec<(String, Option<String>, Vec<String>)> {
        snapshot
            .sources()
            .map(|(name, status)| (name.to_owned(), status.stale.clone(), status.problems.clone()))
            .collect()
    };
    let builtins = |snapshot: &Snapshot| -> Vec<String> {
        snapshot.builtins().map(|builtin| builtin.json().to_owned()).collect()
    };
    let withheld = |snapshot: &Snapshot| snapshot.withheld().cloned().collect::<Vec<_>>();
    diff.added.is_empty()
        && diff.removed.is_empty()
        && diff.changed.is_empty()
        && health(old) == health(new)
        && builtins(old) == builtins(new)
        && withheld(old) == withheld(new)
        && old.trust() == new.trust()
}
