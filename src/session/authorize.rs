//! The gate before execution.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::find_tool::FindRequest;
use crate::catalog::{Tool, ToolId};

/// A call as the model made it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The provider's id of the call, if it gives one.
    pub id: Option<String>,
    /// The name that was called.
    pub name: String,
    /// The arguments.
    pub arguments: Value,
}

impl Call {
    /// A call without a provider's id.
    pub fn new(name: impl Into<String>, arguments: Value) -> Self {
        Self { id: None, name: name.into(), arguments }
    }

    /// Sets the provider's id of the call.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }
}

/// What to do with a call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Verdict {
    /// It is the meta-tool's: hand it to [`Session::find_tool`](crate::Session::find_tool).
    MetaTool(FindRequest),
    /// It may run.
    Run(Authorized),
    /// It must not run; tell the model why.
    Refused(Refusal),
}

/// A call that may run now. It is held in the working set until
/// [`record_use`](crate::Session::record_use) or [`abandon`](crate::Session::abandon).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorized {
    pub(crate) tool: Tool,
}

impl Authorized {
    /// The tool to run, of the catalog as it is now.
    pub fn tool(&self) -> &Tool {
        &self.tool
    }

    /// Its id.
    pub fn id(&self) -> &ToolId {
        self.tool.id()
    }
}

/// Why a call must not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RefusalKind {
    /// There is no such tool for this caller; hidden and missing tools are the same.
    Unknown,
    /// The name stands for several tools.
    Ambiguous,
    /// The tool was not in the list, so that its arguments were guessed; the reply holds its
    /// definition, and the next call may run.
    NotLoaded,
    /// The meta-tool was called with arguments that it does not understand.
    BadArguments,
}

/// A refused call, with words for the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Refusal {
    /// What kind of refusal.
    pub kind: RefusalKind,
    text: String,
}

impl Refusal {
    pub(crate) fn new(kind: RefusalKind, text: String) -> Self {
        Self { kind, text }
    }

    /// The words for the model: what went wrong and what to do.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
