//! The meta-tool: what the model may ask, and what it is told.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalog::ToolId;
use crate::error::{Error, ErrorKind, Result};
use crate::select::MAX_INTENTS;
use crate::working_set::RefuseReason;

/// The most tools that one search may bring in.
const MAX_LIMIT: usize = 50;

/// Bytes of a search that are remembered as they are.
const MAX_KEY: usize = 512;

/// Characters of an unknown name that a reply repeats.
const MAX_ECHO: usize = 80;

/// Prefix by which an intent names tools instead: `select:a,b`.
const SELECT: &str = "select:";

/// What the model asks of the meta-tool.
///
/// # Example
/// ```
/// use toolrack::FindRequest;
///
/// let request = FindRequest::from_arguments(&serde_json::json!({"intent": "select:a, b"}))?;
/// assert_eq!(request.names, ["a", "b"]);
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct FindRequest {
    /// Things to do, each searched for.
    pub intents: Vec<String>,
    /// Tools to load without a search: ids, names, or unique ends of names. A name that several tools
    /// have loads all of them, up to 20.
    pub names: Vec<String>,
    /// Whether `names` and `describe` are whole names, so that no end of a name is looked for;
    /// `select:` says so. Default false.
    pub exact: bool,
    /// Tools whose whole definition is asked for, by the same names.
    pub describe: Vec<String>,
    /// Only tools of this namespace.
    pub namespace: Option<String>,
    /// How many searched tools to load at most; 0 or none means the session's default. Names do
    /// not count, nor does the second of two between which the model should choose.
    pub limit: Option<usize>,
}

impl FindRequest {
    /// A search for one thing to do.
    pub fn new(intent: impl Into<String>) -> Self {
        Self::of_intents([intent])
    }

    /// A search for several things at once.
    pub fn of_intents<S: Into<String>>(intents: impl IntoIterator<Item = S>) -> Self {
        let mut request = Self::default();
        for intent in intents {
            request.add_intent(&intent.into());
        }
        request
    }

    /// Tools by name, without a search.
    pub fn of_names<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self { names: names.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// The whole definitions of tools, which are loaded as well.
    pub fn of_definitions<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self { describe: names.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Restricts the search to one namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Sets how many tools the search brings in at most.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// The request in the arguments of a call, as models write them: one string or a list, numbers
    /// in quotes, nulls for what is left out.
    ///
    /// # Errors
    /// [`ErrorKind::Format`] with words for the model when nothing is asked for or a value is of
    /// the wrong type.
    pub fn from_arguments(arguments: &Value) -> Result<Self> {
        let Value::Object(fields) = arguments else {
            return Err(bad("give an object such as {\"intent\": \"send an e-mail\"}"));
        };
        let mut request = Self::default();
        for key in ["intent", "intents", "query", "queries"] {
            for intent in strings(fields.get(key), key)? {
                request.add_intent(&intent);
            }
        }
        let written = |key: &str| -> Result<Vec<String>> {
            // Models fill in what they mean to leave out.
            let list = strings(fields.get(key), key)?;
            let list = list.iter().map(|text| text.trim()).filter(|text| !text.is_empty());
            Ok(list.map(str::to_owned).collect())
        };
        let names = |key: &str| -> Result<Vec<String>> {
            match fields.get(key) {
                Some(Value::String(list)) => Ok(listed(list).collect()),
                _ => Ok(written(key)?.iter().map(|name| bare(name).to_owned()).collect()),
            }
        };
        request.names.extend(names("names")?);
        request.describe = names("describe")?;
        if request.names.len().max(request.describe.len()) > MAX_LIMIT {
            return Err(bad(&format!("give at most {MAX_LIMIT} names in one call")));
        }
        let mut namespaces = written("namespace")?.into_iter();
        request.namespace = namespaces.next();
        if namespaces.next().is_some() {
            return Err(bad("give one 'namespace', or none to search them all"));
        }
        request.limit = match fields.get("limit") {
            None => None,
            Some(value) if is_falsy(value) => None,
            Some(value) => {
                let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
                match number {
                    Some(number) if number >= 0.0 => Some(number as usize),
                    _ => return Err(bad("'limit' has to be a whole number")),
                }
            }
        };
        if request.intents.is_empty() && request.names.is_empty() && request.describe.is_empty() {
            return Err(bad("say in 'intent' what you want to do, or give 'names' of tools"));
        }
        if request.intents.len() > MAX_INTENTS {
            return Err(bad(&format!("give at most {MAX_INTENTS} intents in one call")));
        }
        Ok(request)
    }

    fn add_intent(&mut self, intent: &str) {
        let intent = intent.trim();
        match intent.get(..SELECT.len()) {
            Some(prefix) if prefix.eq_ignore_ascii_case(SELECT) => {
                self.exact = true;
                self.names.extend(listed(&intent[SELECT.len()..]));
            }
            _ if intent.is_empty() => {}
            _ => self.intents.push(intent.to_owned()),
        }
    }

    pub(crate) fn limit_or(&self, default: usize) -> usize {
        match self.limit {
            None | Some(0) => default,
            Some(limit) => limit.min(MAX_LIMIT),
        }
    }

    /// What makes two searches the same: the words, whatever their case and spacing.
    pub(crate) fn key(&self) -> String {
        let normal = |list: &[String]| -> Vec<String> {
            let mut words: Vec<String> = list
                .iter()
                .map(|text| text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" "))
                .collect();
            words.sort();
            words
        };
        let key = format!(
            "{:?} {:?} {:?} {:?} {:?} {:?}",
            normal(&self.intents),
            normal(&self.names),
            self.exact,
            normal(&self.describe),
            self.namespace,
            self.limit
        );
        // A session remembers its searches, and a model may search with a whole file.
        if key.len() > MAX_KEY { crate::digest::sha256_hex(key) } else { key }
    }
}

fn strings(value: Option<&Value>, key: &str) -> Result<Vec<String>> {
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![text.clone()]),
        Some(Value::Array(list)) => list
            .iter()
            .map(|item| match item {
                Value::String(text) => Ok(text.clone()),
                _ => Err(bad(&format!("'{key}' has to hold strings only"))),
            })
            .collect(),
        Some(_) => Err(bad(&format!("'{key}' has to be a string"))),
    }
}

/// Whether a model wrote nothing, in whatever form.
fn is_falsy(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => {
            let text = text.trim();
            ["", "null", "none", "false"].iter().any(|word| text.eq_ignore_ascii_case(word))
        }
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// The names in a list that is written as one text: `a, b`.
fn listed(names: &str) -> impl Iterator<Item = String> {
    names.split(',').map(bare).filter(|name| !name.is_empty()).map(str::to_owned)
}

/// A name without the quotes that models put around it.
fn bare(name: &str) -> &str {
    name.trim_matches(|c: char| c.is_whitespace() || matches!(c, '`' | '"' | '\''))
}

fn bad(what: &str) -> Error {
    Error::new(ErrorKind::Format, what)
}

/// What a search came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FindStatus {
    /// Tools were loaded.
    Loaded,
    /// All that was found is in the list already.
    AlreadyVisible,
    /// Several tools fit alike; all that there is room for are loaded, unless they are more than 20
    /// that one name stands for.
    Ambiguous,
    /// No tool fits.
    NothingFound,
    /// Every tool that may be used is in the list already.
    NothingLeft,
    /// Tools fit but not all could be loaded.
    BudgetFull,
    /// The same search as before, with the same result.
    Repeated,
}

/// One tool in a [`FindReply`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FoundTool {
    /// Which tool.
    pub id: ToolId,
    /// The name to call it by.
    pub name: String,
    /// First line of its description.
    pub summary: String,
}

/// A name that stands for too many tools, in a [`FindReply`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CrowdedName {
    /// The name, as the model wrote it.
    pub name: String,
    /// Names of the first 5 tools, in catalog order.
    pub tools: Vec<String>,
    /// How many tools there are.
    pub total: usize,
}

/// The whole definition of one tool in a [`FindReply`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Definition {
    /// Which tool.
    pub id: ToolId,
    /// Name, description and parameters as JSON, the parameters byte for byte.
    pub json: String,
}

/// What the model is told: text for the model, and the same as data.
///
/// The definitions travel in the tool list, which has to be sent anew
/// ([`Session::visible`](crate::Session::visible)); the reply names tools and says from when they
/// can be called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FindReply {
    /// What the search came to.
    pub status: FindStatus,
    /// Tools that are new in the list, best first.
    pub loaded: Vec<FoundTool>,
    /// Tools that were found and in the list already.
    pub visible: Vec<FoundTool>,
    /// Tools that fit but could not be loaded, and why.
    pub not_loaded: Vec<(FoundTool, RefuseReason)>,
    /// Tools between which the model should choose.
    pub ambiguous: Vec<FoundTool>,
    /// Names that stand for more than 20 tools, of which none was loaded.
    pub crowded: Vec<CrowdedName>,
    /// Tools that change something and come near without reaching the gate of their risk class:
    /// not loaded unless the model names them.
    pub near: Vec<FoundTool>,
    /// Names that stand for no tool.
    pub unknown_names: Vec<String>,
    /// Definitions that were asked for.
    pub definitions: Vec<Definition>,
    /// Namespaces in which tools exist, by name, when nothing was found; the first 30.
    pub namespaces: Vec<String>,
    /// How many such namespaces there are.
    pub n_namespaces: usize,
    /// Names of tools that can be loaded, in catalog order, when nothing was found; the first 30.
    pub available: Vec<String>,
    /// How many tools can be loaded, when nothing was found.
    pub n_available: usize,
    /// Tools named in this reply.
    pub shown: usize,
    /// Tools that fit in all.
    pub total: usize,
    /// Why the search ran on words alone; `None` when all is well.
    pub degraded: Option<String>,
}

impl FindReply {
    /// The reply in words for the model.
    pub fn text(&self) -> String {
        self.to_string()
    }

    /// The reply as JSON for clients that take structured results.
    pub fn json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl fmt::Display for FindReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<String> = Vec::new();
        if self.status == FindStatus::Repeated {
            lines.push("You made this search before; the result is the same.".into());
        }
        if self.status == FindStatus::NothingLeft {
            lines.push(
                "Nothing is left to find: every tool that you may use is in your list already."
                    .into(),
            );
        }
        if self.status == FindStatus::NothingFound
            || (self.status == FindStatus::Repeated && self.is_empty())
        {
            let mut line = String::from("No tool fits. Do not repeat this search");
            if self.namespaces.is_empty() {
                line += ".";
            } else {
                let of = of_all(self.namespaces.len(), self.n_namespaces);
                line += &format!("; tools exist in{of}: {}.", self.namespaces.join(", "));
            }
            lines.push(line);
            if !self.available.is_empty() {
                let of = of_all(self.available.len(), self.n_available);
                lines.push(format!(
                    "Ask in other words, or load one of these by name{of}: {}.",
                    self.available.join(", ")
                ));
            }
        }
        if !self.loaded.is_empty() {
            let n = self.loaded.len();
            lines.push(format!(
                "Loaded {n} tool{}, callable from your next message on{}:",
                plural(n),
                self.of_total()
            ));
            lines.extend(self.loaded.iter().map(FoundTool::line));
        }
        if !self.visible.is_empty() {
            lines.push("Already in your list, callable now:".into());
            lines.extend(self.visible.iter().map(FoundTool::line));
        }
        for (reason, why) in [
            (RefuseReason::ToolLimit, "the list is full"),
            (RefuseReason::TokenBudget, "the token budget is used up"),
        ] {
            let mut kept_out = self.not_loaded.iter().filter(|(_, given)| *given == reason);
            if let Some((first, _)) = kept_out.next() {
                lines.push(format!("Not loaded, because {why}; finish with other tools first:"));
                lines.push(first.line());
                lines.extend(kept_out.map(|(tool, _)| tool.line()));
            }
        }
        for definition in &self.definitions {
            lines.push(format!("Definition: {}", definition.json));
        }
        if !self.ambiguous.is_empty() {
            let names: Vec<&str> = self.ambiguous.iter().map(|tool| tool.name.as_str()).collect();
            lines.push(format!(
                "These fit alike; choose by their descriptions: {}.",
                names.join(", ")
            ));
        }
        for crowd in &self.crowded {
            lines.push(format!(
                "{} stands for {} tools, of which none was loaded; give the whole name of one, \
                 such as {}.",
                echo(&crowd.name),
                crowd.total,
                crowd.tools.join(", ")
            ));
        }
        if !self.near.is_empty() {
            lines.push("Near, but not loaded unless you give their names:".into());
            lines.extend(self.near.iter().map(FoundTool::line));
        }
        if !self.unknown_names.is_empty() {
            let names: Vec<String> = self.unknown_names.iter().map(|name| echo(name)).collect();
            lines.push(format!("There is no tool called {}.", names.join(", ")));
        }
        if self.degraded.is_some() {
            lines.push("The search went by words alone; other words may find more.".into());
        }
        f.write_str(&lines.join("\n"))
    }
}

impl FindReply {
    fn of_total(&self) -> String {
        if self.total > self.shown {
            format!(" ({} of {} that fit)", self.shown, self.total)
        } else {
            String::new()
        }
    }

    fn is_empty(&self) -> bool {
        self.loaded.is_empty()
            && self.visible.is_empty()
            && self.not_loaded.is_empty()
            && self.crowded.is_empty()
    }
}

impl FoundTool {
    fn line(&self) -> String {
        if self.summary.is_empty() {
            format!("- {}", self.name)
        } else {
            format!("- {}: {}", self.name, self.summary)
        }
    }
}

/// What the model wrote, cut and escaped.
fn echo(name: &str) -> String {
    let shown: String = name.chars().take(MAX_ECHO).collect();
    format!("'{}'", shown.escape_debug())
}

/// How much of a list is shown, unless it is all.
fn of_all(shown: usize, all: usize) -> String {
    if all > shown { format!(" ({shown} of {all})") } else { String::new() }
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}
