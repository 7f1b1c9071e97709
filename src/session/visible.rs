//! What is sent to the model: the list of this moment.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use super::Session;
use crate::catalog::{Builtin, ToolId, VisibleTool};
use crate::select::TokenFigures;
use crate::working_set::ListOrder;

/// The meta-tool's definition: constant bytes for a name and a mode.
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
    /// The meta-tool called `name`; `describe` lets it look definitions up.
    pub(crate) fn new(name: &str, describe: bool) -> Self {
        let look_up = if describe { DESCRIBE } else { "" };
        Self {
            name: name.to_owned(),
            description: "Find and load tools that are not in your tool list. Only some of the \
                available tools are loaded; call this when none of them does what you need, before \
                you say that something cannot be done. Say what you want to do in plain words, or \
                name tools that you know. Loaded tools are in your list from your next message on."
                .to_owned(),
            parameters: [
                r#"{"type":"object","properties":{"#,
                r#""intent":{"type":"string","description":"What you want to do, for example: open a support ticket for a customer"},"#,
                r#""intents":{"type":"array","items":{"type":"string"},"description":"Several things you want to do, searched at once"},"#,
                r#""names":{"type":"array","items":{"type":"string"},"description":"Names of tools to load without a search"},"#,
                look_up,
                r#""namespace":{"type":"string","description":"Search only the tools of this integration"},"#,
                r#""limit":{"type":"integer","minimum":1,"description":"How many tools to load at most"}}}"#,
            ]
            .concat(),
        }
    }
}

/// The parameter by which definitions are looked up.
const DESCRIBE: &str = r#""describe":{"type":"array","items":{"type":"string"},"description":"Names of tools whose whole definition you want to read"},"#;

/// The list of tools that the model is sent now: core, meta-tool, then in order of
/// admission or of names.
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

    /// The meta-tool; `None` when there is nothing to find, since the catalog is shown whole or all
    /// of it is core.
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
        if self.options.working_set.order == ListOrder::Name {
            rows[core.len()..].sort_by_key(|&row| snapshot.names().provider_name(row));
        }
        rows
    }

    pub(super) fn visible_ids(&self) -> Vec<ToolId> {
        let snapshot = &self.index.snapshot;
        self.visible_rows().into_iter().map(|row| snapshot.tool(row).id().clone()).collect()
    }
}
