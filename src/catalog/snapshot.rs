//! One immutable version of the catalog.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::Serialize;

use super::access::Access;
use super::findings::Finding;
use super::names::Names;
use super::reader::Builtin;
use super::tool::{Tool, ToolId};
use super::trust::{TrustPolicy, Withheld, WithheldEntry};
use super::visible_tool::VisibleTool;
use crate::error::{Error, ErrorKind, Result};

/// Health of one source of tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SourceStatus {
    /// Tools of this source in the snapshot.
    pub tools: usize,
    /// Tools that it lists and that are withheld, built-in ones included.
    pub withheld: usize,
    /// Why the source did not answer last time; its tools are those of its last good answer.
    pub stale: Option<String>,
    /// Snapshot version in which the source last answered.
    pub answered: u64,
    /// Definitions of its last answer that were left out, each with its reason.
    pub problems: Vec<String>,
}

/// Built-in provider tools by source.
type Builtins = BTreeMap<Arc<str>, Vec<Builtin>>;
/// Health by source.
type Sources = BTreeMap<Arc<str>, SourceStatus>;

/// A tool with where it came from.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub tool: Tool,
    pub source: Arc<str>,
    /// Where it was read, for errors.
    pub place: String,
    /// What in it should be looked at.
    pub findings: Arc<[Finding]>,
}

/// An immutable, versioned list of tools in a fixed order.
///
/// Whoever holds a snapshot sees one consistent state for as long as it is held, whatever is
/// refreshed meanwhile. The order of tools (source by source, as listed, later additions last) is
/// the order that breaks ties everywhere.
#[derive(Debug)]
pub struct Snapshot {
    version: u64,
    entries: Vec<Entry>,
    withheld: Vec<WithheldEntry>,
    trust: TrustPolicy,
    /// Built-in tools as listed, then those that are offered and those that are not.
    builtins: Builtins,
    offered_builtins: Vec<Builtin>,
    withheld_builtins: Vec<(Builtin, Withheld)>,
    sources: Sources,
    names: Names,
    /// Each row as providers are told of it.
    visible: Vec<Arc<VisibleTool>>,
    has_restricted_tools: bool,
    access: Access,
}

impl Snapshot {
    pub(crate) fn assemble(
        version: u64,
        listed: Vec<Entry>,
        mut trust: TrustPolicy,
        builtins: Builtins,
        mut sources: Sources,
    ) -> Result<Self> {
        let (entries, withheld) = trust.screen(listed);
        let (offered_builtins, withheld_builtins) = trust.screen_builtins(&builtins);
        let mut places: HashMap<&ToolId, &Entry> = HashMap::with_capacity(entries.len());
        for entry in &entries {
            if let Some(first) = places.insert(entry.tool.id(), entry) {
                return Err(Error::new(
                    ErrorKind::DuplicateTool,
                    format!(
                        "tool {} is defined twice, at {} ({}) and at {} ({}): rename one or give \
                         each source its own namespace",
                        entry.tool.id(),
                        first.place,
                        first.source,
                        entry.place,
                        entry.source
                    ),
                ));
            }
        }
        for status in sources.values_mut() {
            (status.tools, status.withheld) = (0, 0);
        }
        let held = withheld.iter().map(|held| &held.told);
        for told in held.chain(withheld_builtins.iter().map(|(_, told)| told)) {
            if let Some(status) = sources.get_mut(&*told.source) {
                status.withheld += 1;
            }
        }
        for entry in &entries {
            if let Some(status) = sources.get_mut(&entry.source) {
                status.tools += 1;
            }
        }
        let tools: Vec<&Tool> = entries.iter().map(|entry| &entry.tool).collect();
        let has_restricted_tools = tools.iter().any(|tool| tool.policy().is_restricted());
        let access = Access::of(tools.iter().copied());
        let names = Names::of(tools.iter().copied());
        let named = |(row, &tool): (usize, &&Tool)| {
            Arc::new(VisibleTool::new(tool.clone(), names.provider_name(row).to_owned()))
        };
        let visible = tools.iter().enumerate().map(named).collect();
        Ok(Self {
            version,
            entries,
            withheld,
            trust,
            builtins,
            offered_builtins,
            withheld_builtins,
            sources,
            names,
            visible,
            has_restricted_tools,
            access,
        })
    }

    /// Counts up by one with every published change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no tool.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The tools in catalog order.
    pub fn tools(&self) -> impl ExactSizeIterator<Item = &Tool> {
        self.entries.iter().map(|entry| &entry.tool)
    }

    /// The tool of that id.
    pub fn get(&self, id: &ToolId) -> Option<&Tool> {
        self.row(id).map(|row| self.tool(row))
    }

    /// The tool that a provider knows by `name`, the reverse of
    /// [`provider_name`](Self::provider_name).
    pub fn by_provider_name(&self, name: &str) -> Option<&Tool> {
        self.names.by_provider(name).map(|row| self.tool(row))
    }

    /// The name under which a provider is told of the tool: at most 64 of `[a-zA-Z0-9_-]`.
    pub fn provider_name(&self, id: &ToolId) -> Option<&str> {
        self.row(id).map(|row| self.names.provider_name(row))
    }

    /// The providers' built-in tools that the [`TrustPolicy`] takes, source by source.
    pub fn builtins(&self) -> impl Iterator<Item = &Builtin> {
        self.offered_builtins.iter()
    }

    /// The sources by name.
    pub fn sources(&self) -> impl Iterator<Item = (&str, &SourceStatus)> {
        self.sources.iter().map(|(name, status)| (&**name, status))
    }

    /// Definitions that were left out when the current tools were read, each with its reason.
    pub fn problems(&self) -> impl Iterator<Item = &str> {
        self.sources.values().flat_map(|status| &status.problems).map(String::as_str)
    }

    /// Tools that sources list and that the [`TrustPolicy`] keeps out, in the order listed, built-in
    /// ones last. They are for the operator: nothing else of a snapshot knows of them.
    pub fn withheld(&self) -> impl ExactSizeIterator<Item = &Withheld> {
        let tools = self.withheld.iter().map(|held| &held.told);
        let builtins = self.withheld_builtins.iter().map(|(_, told)| told);
        tools.chain(builtins).collect::<Vec<_>>().into_iter()
    }

    /// The definition of a withheld tool, to be looked at before it is accepted; `None` for a
    /// built-in one.
    pub fn withheld_definition(&self, withheld: &Withheld) -> Option<&Tool> {
        let held = self.withheld.iter().find(|held| held.told == *withheld);
        held.map(|held| &held.entry.tool)
    }

    /// The definition of a withheld built-in tool; `None` for any other.
    pub fn withheld_builtin(&self, withheld: &Withheld) -> Option<&Builtin> {
        let held = self.withheld_builtins.iter().find(|(_, told)| told == withheld);
        held.map(|(builtin, _)| builtin)
    }

    /// What in the definitions should be looked at, withheld and built-in ones included: hidden
    /// characters, instructions to the model, oversized texts.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.entries
            .iter()
            .chain(self.withheld.iter().map(|held| &held.entry))
            .flat_map(|entry| entry.findings.iter())
            .chain(self.listed_builtins().flat_map(Builtin::findings))
    }

    /// What is taken from sources, with the hashes pinned so far.
    pub fn trust(&self) -> &TrustPolicy {
        &self.trust
    }

    /// Whether the aliases of a row come from a source that may give them.
    pub(crate) fn trusts_aliases(&self, row: usize) -> bool {
        let sources = self.trust.alias_sources.as_ref();
        sources.is_none_or(|sources| sources.contains(&*self.entries[row].source))
    }

    pub(crate) fn namespaces(&self, eligible: &dyn Fn(usize) -> bool) -> BTreeSet<&str> {
        let rows = self.entries.iter().enumerate().filter(|(row, _)| eligible(*row));
        rows.map(|(_, entry)| entry.tool.namespace()).collect()
    }

    pub(crate) fn visible_tool(&self, row: usize) -> &Arc<VisibleTool> {
        &self.visible[row]
    }

    /// What the tools ask of who uses them.
    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    pub(crate) fn has_restricted_tools(&self) -> bool {
        self.has_restricted_tools
    }

    /// Where the tool was read, as errors name it.
    pub(crate) fn place(&self, row: usize) -> &str {
        &self.entries[row].place
    }

    pub(crate) fn tool(&self, row: usize) -> &Tool {
        &self.entries[row].tool
    }

    pub(crate) fn row(&self, id: &ToolId) -> Option<usize> {
        self.names.by_id(&id.to_string())
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// All that is listed, offered or withheld, in order.
    pub(crate) fn listed(&self) -> Vec<Entry> {
        let mut listed = Vec::with_capacity(self.entries.len() + self.withheld.len());
        let mut offered = self.entries.iter();
        for held in &self.withheld {
            listed.extend(offered.by_ref().take(held.place - listed.len()).cloned());
            listed.push(held.entry.clone());
        }
        listed.extend(offered.cloned());
        listed
    }

    /// All built-in tools that are listed, offered or withheld.
    pub(crate) fn listed_builtins(&self) -> impl Iterator<Item = &Builtin> {
        self.builtins.values().flatten()
    }

    pub(crate) fn parts(&self) -> (Builtins, Sources) {
        (self.builtins.clone(), self.sources.clone())
    }
}
