//! What is sent to the model: the list of this moment.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Session;
use crate::catalog::{Builtin, Snapshot, ToolId, VisibleTool};
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

/// The meta-tool's definition: constant bytes for a name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetaTool {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Its parameters' JSON schema.
    pub parameters: String,
}

impl MetaTool {
    pub(crate) fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            description: "Find and load tools that are not in your tool list. Only some of the \
                available tools are loaded; call this when none of them does what you need, before \
                you say that something cannot be done. Say what you want to do in plain words, or \
                name tools that you know. Loaded tools are in your list from your next message on."
                .to_owned(),
            parameters: concat!(
                r#"{"type":"object","properties":{"#,
                r#""intent":{"type":"string","description":"What you want to do, for example: open a support ticket for a customer"},"#,
                r#""intents":{"type":"array","items":{"type":"string"},"description":"Several things you want to do, searched at once"},"#,
                r#""names":{"type":"array","items":{"type":"string"},"description":"Names of tools to load without a search"},"#,
                r#""namespace":{"type":"string","description":"Search only the tools of this integration"},"#,
                r#""limit":{"type":"integer","minimum":1,"description":"How many tools to load at most"}}}"#
            )
            .to_owned(),
        }
    }
}

/// The list of tools that the model is sent now: core, meta-tool, then in order of admission.
///
/// Within an epoch a later list begins with the bytes of an earlier one, whichever adapter renders
/// it. Cheap to clone. After [`find_tool`](crate::Session::find_tool) the list has to be read again:
/// a runtime that keeps sending the old one makes the model call tools that it was never shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Visible {
    pub(crate) inner: Arc<VisibleInner>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct VisibleInner {
    pub tools: Vec<Arc<VisibleTool>>,
    pub core: usize,
    pub meta: Option<Arc<MetaTool>>,
    pub builtins: Vec<BuiltinJson>,
    pub tokens: TokenFigures,
    pub epoch: u64,
    pub catalog_version: u64,
}

/// A built-in with equality by bytes.
#[derive(Debug, Clone)]
pub(crate) struct BuiltinJson(pub Builtin);

impl PartialEq for BuiltinJson {
    fn eq(&self, other: &Self) -> bool {
        self.0.json() == other.0.json()
    }
}

/// One entry of a [`Visible`] list.
#[derive(Debug, Clone, Copy)]
pub enum Entry<'a> {
    /// A tool.
    Tool(&'a VisibleTool),
    /// The meta-tool.
    Meta(&'a MetaTool),
}

impl Visible {
    /// The tools in order, the meta-tool left out.
    pub fn tools(&self) -> &[Arc<VisibleTool>] {
        &self.inner.tools
    }

    /// The meta-tool; `None` when the catalog is shown whole.
    pub fn meta_tool(&self) -> Option<&MetaTool> {
        self.inner.meta.as_deref()
    }

    /// Everything in the order in which it is sent.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.lead().chain(self.rest())
    }

    /// Built-in provider tools, passed on untouched before everything that comes and goes.
    pub fn builtins(&self) -> impl Iterator<Item = &Builtin> {
        self.inner.builtins.iter().map(|builtin| &builtin.0)
    }

    /// Names by which the model can call, in order, the meta-tool's included.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries().map(|entry| match entry {
            Entry::Tool(tool) => tool.name.as_str(),
            Entry::Meta(meta) => meta.name.as_str(),
        })
    }

    /// Whether a tool can be called by `name`.
    pub fn contains(&self, name: &str) -> bool {
        self.names().any(|other| other == name)
    }

    /// The tool that is called by `name`; `None` for the meta-tool and for what is not visible.
    pub fn id_of(&self, name: &str) -> Option<&ToolId> {
        self.tools().iter().find(|tool| tool.name == name).map(|tool| tool.tool.id())
    }

    /// Everything but the tools that come and go: core, then the meta-tool.
    pub(crate) fn lead(&self) -> impl Iterator<Item = Entry<'_>> {
        let core = self.inner.tools[..self.inner.core].iter().map(|tool| Entry::Tool(tool));
        core.chain(self.inner.meta.iter().map(|meta| Entry::Meta(meta)))
    }

    /// The tools that come and go, in order of admission.
    pub(crate) fn rest(&self) -> impl Iterator<Item = Entry<'_>> {
        self.inner.tools[self.inner.core..].iter().map(|tool| Entry::Tool(tool))
    }

    /// Tokens sent and saved.
    pub fn tokens(&self) -> TokenFigures {
        self.inner.tokens
    }

    /// The epoch in which the list stands.
    pub fn epoch(&self) -> u64 {
        self.inner.epoch
    }

    /// Version of the catalog.
    pub fn catalog_version(&self) -> u64 {
        self.inner.catalog_version
    }
}

impl AsRef<Visible> for Visible {
    fn as_ref(&self) -> &Visible {
        self
    }
}

impl fmt::Display for Visible {
    /// One name a line, then the token figures.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for name in self.names() {
            writeln!(f, "{name}")?;
        }
        let tokens = self.tokens();
        write!(
            f,
            "{} tokens instead of {} ({:.0} % saved)",
            tokens.sent,
            tokens.naive,
            tokens.saved_share() * 100.0
        )
    }
}

impl Session {
    /// The rows of the visible tools, core first.
    pub(super) fn visible_rows(&self) -> Vec<usize> {
        let snapshot = &self.index.snapshot;
        let row = |id: &ToolId| snapshot.row(id);
        if !self.pass_through {
            return self.set.visible().filter_map(row).collect();
        }
        let mut rows: Vec<usize> = self.set.core().filter_map(row).collect();
        let core: HashSet<usize> = rows.iter().copied().collect();
        let others = (0..snapshot.len()).filter(|row| !core.contains(row));
        rows.extend(others.filter(|&row| self.eligible.contains(row)));
        rows
    }

    pub(super) fn visible_ids(&self) -> Vec<ToolId> {
        let snapshot = &self.index.snapshot;
        self.visible_rows().into_iter().map(|row| snapshot.tool(row).id().clone()).collect()
    }

    /// The name by which the model calls the tool: its provider name, unless the meta-tool has it. A
    /// refresh may bring in a tool of that name while the run goes on.
    pub(super) fn name_in(&self, snapshot: &Snapshot, row: usize) -> String {
        let name = snapshot.names().provider_name(row);
        if name == self.meta.name {
            snapshot.names().spare_name(snapshot.tool(row).id())
        } else {
            name.to_owned()
        }
    }

    pub(super) fn shown_in(&self, snapshot: &Snapshot, row: usize) -> Arc<VisibleTool> {
        let shown = snapshot.visible_tool(row);
        if shown.name == self.meta.name {
            let name = self.name_in(snapshot, row);
            return Arc::new(VisibleTool::new(shown.tool.clone(), name));
        }
        Arc::clone(shown)
    }

    /// The row that the model means by `name`, the reverse of [`name_in`](Self::name_in).
    pub(super) fn row_in(&self, snapshot: &Snapshot, name: &str) -> Option<usize> {
        let names = snapshot.names();
        names.by_provider(name).or_else(|| {
            let clash = names.by_provider(&self.meta.name)?;
            (self.name_in(snapshot, clash) == name).then_some(clash)
        })
    }
}
