//! The gate before execution.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::find_tool::FindRequest;
use super::{Session, reach, slot};
use crate::catalog::{Tool, ToolId};
use crate::digest::sha256_hex;
use crate::error::Result;
use crate::index::{ToolIndex, definition_text};
use crate::select::SelectRequest;
use crate::trace::sorted;

/// Tools that one refusal names.
const MAX_NAMED: usize = 20;

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
    /// The tool's parameters changed since the model was shown them, so that the arguments fit a
    /// schema of the past; the reply holds the definition of now, and the next call may run.
    Changed,
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

impl Session {
    /// Whether a call may run, judged by the policy and the catalog of now.
    ///
    /// A call of a tool that the caller may use but was not shown is refused with the tool's
    /// definition, and the tool is loaded: the model guessed its arguments. So is a call of a tool
    /// whose parameters a refresh changed since the list of this step was made. A call of a tool
    /// that the caller may not use gets the same words as one that does not exist.
    ///
    /// # Errors
    /// [`ErrorKind::LexicalIndex`](crate::ErrorKind::LexicalIndex) when suggestions cannot be made.
    pub fn authorize(&mut self, call: &Call) -> Result<Verdict> {
        self.traced_authorize(call)
    }

    pub(super) fn judge(&mut self, call: &Call, now: &Arc<ToolIndex>) -> Result<Verdict> {
        if call.name == self.meta.name {
            return Ok(match FindRequest::from_arguments(&call.arguments) {
                Ok(request) => Verdict::MetaTool(request),
                Err(error) => {
                    let text = format!("{} was not understood: {error}.", self.meta.name);
                    Verdict::Refused(Refusal::new(RefusalKind::BadArguments, text))
                }
            });
        }
        match self.called(now, &call.name).as_slice() {
            [row] => Ok(self.authorize_row(now, *row)),
            [] => self.refuse_unknown(now, &call.name).map(Verdict::Refused),
            several => {
                let names: Vec<&str> = several
                    .iter()
                    .take(MAX_NAMED)
                    .map(|&row| now.snapshot.names().provider_name(row))
                    .collect();
                let text = format!(
                    "'{}' stands for several tools; call one of: {}.",
                    call.name.escape_debug(),
                    names.join(", ")
                );
                Ok(Verdict::Refused(Refusal::new(RefusalKind::Ambiguous, text)))
            }
        }
    }

    /// The rows of `now` that a called name stands for and the caller may use.
    ///
    /// A name means what it meant in the list that the model was sent. Ends of names are good enough
    /// to find a tool but not to run one: "account" must not delete an account.
    fn called(&self, now: &ToolIndex, name: &str) -> Vec<usize> {
        let eligible = reach(now, &self.options);
        let may = |row: usize| eligible.contains(row);
        let (seen, now) = (&self.index.snapshot, &now.snapshot);
        let row = seen.names().by_provider(name).filter(|&row| self.eligible.contains(row));
        if let Some(row) = row {
            return now.row(seen.tool(row).id()).filter(|&row| may(row)).into_iter().collect();
        }
        match now.names().by_provider(name).filter(|&row| may(row)) {
            Some(row) => vec![row],
            None => now.names().exact(name, &may),
        }
    }

    fn authorize_row(&mut self, now: &Arc<ToolIndex>, row: usize) -> Verdict {
        let tool = now.snapshot.tool(row).clone();
        let id = tool.id().clone();
        let known = self.is_visible(&id) || self.briefed.contains(&id);
        let shown = known && !self.unseen.contains(&id);
        if shown {
            if self.is_outdated(&tool) {
                return Verdict::Refused(self.refuse_changed(now, row));
            }
            self.set.begin_call(&id);
            return Verdict::Run(Authorized { tool });
        }
        if !Arc::ptr_eq(now, &self.index) {
            self.note_told(&tool);
        }
        let delta = self.set.admit_called(&slot(now, row));
        // A tool that only the next step's snapshot has shows with that step.
        let listed = self.set.contains(&id) && self.index.snapshot.row(&id).is_some();
        if !self.pass_through {
            self.pending.extend(delta);
        }
        self.unseen.add(id.clone());
        if !self.briefed.contains(&id) {
            self.briefed.push(id);
        }
        let name = now.snapshot.names().provider_name(row);
        let definition = definition_text(name, tool.description(), tool.parameters());
        let list = if listed { "It is in your list from your next message on. " } else { "" };
        let text = format!(
            "{name} did not run, because you had not been shown its definition and guessed the \
             arguments. {list}Call it again with arguments that fit: {definition}"
        );
        Verdict::Refused(Refusal::new(RefusalKind::NotLoaded, text))
    }

    /// Whether the model knows the parameters of `tool` only as they were.
    fn is_outdated(&self, tool: &Tool) -> bool {
        if let Some((_, known)) = self.told.iter().find(|(id, _)| id == tool.id()) {
            return *known != schema_digest(tool);
        }
        let seen = self.index.snapshot.get(tool.id());
        seen.is_some_and(|seen| {
            seen.parameters() != tool.parameters() && schema_digest(seen) != schema_digest(tool)
        })
    }

    fn refuse_changed(&mut self, now: &ToolIndex, row: usize) -> Refusal {
        let tool = now.snapshot.tool(row);
        self.note_told(tool);
        let name = now.snapshot.names().provider_name(row);
        let definition = definition_text(name, tool.description(), tool.parameters());
        let text = format!(
            "{name} did not run, because its parameters changed since you were shown them. Call it \
             again with arguments that fit: {definition}"
        );
        Refusal::new(RefusalKind::Changed, text)
    }

    /// Remembers that a reply holds the definition of `tool`, which the list of this step lacks.
    fn note_told(&mut self, tool: &Tool) {
        self.told.retain(|(id, _)| id != tool.id());
        self.told.push((tool.id().clone(), schema_digest(tool)));
    }

    /// The same words for hidden and missing tools, with suggestions from the eligible ones.
    fn refuse_unknown(&self, now: &Arc<ToolIndex>, name: &str) -> Result<Refusal> {
        let shown: String = name.chars().take(80).collect();
        let request = SelectRequest::new(shown.as_str()).k(3).context(self.options.context.clone());
        let near = self.engine.select_among(now, &request, &reach(now, &self.options))?;
        let mut text = format!("There is no tool called '{}'.", shown.escape_debug());
        let names: Vec<&str> = near
            .candidates
            .iter()
            .filter_map(|candidate| now.snapshot.row(&candidate.id))
            .take(MAX_NAMED)
            .map(|row| now.snapshot.names().provider_name(row))
            .collect();
        if !names.is_empty() {
            text += &format!(" Similar ones: {}.", names.join(", "));
        }
        if self.lists_meta_tool() {
            text += &format!(" Use {} to look for what you need.", self.meta.name);
        }
        Ok(Refusal::new(RefusalKind::Unknown, text))
    }
}

/// What is the same for parameters that mean the same, however they are written.
fn schema_digest(tool: &Tool) -> String {
    let parameters = tool.parameters().unwrap_or("{}");
    match serde_json::from_str(parameters) {
        Ok(value) => sha256_hex(sorted(value).to_string()),
        Err(_) => sha256_hex(parameters),
    }
}
