//! What a turn takes and gives.

use std::fmt;

use super::visible::Visible;
use crate::select::{Boost, Message, Selection};
use crate::working_set::Delta;

/// What begins a turn: the newest message, and what was said before when the runtime keeps that
/// itself.
///
/// # Example
/// ```
/// use toolrack::{Message, TurnInput};
///
/// let input = TurnInput::new("yes, do it").recent([Message::assistant("Shall I send it?")]);
/// assert_eq!(input.recent.unwrap().len(), 1);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TurnInput {
    /// The newest message.
    pub message: String,
    /// Earlier messages, oldest first; `None` for those that the session saw itself.
    pub recent: Option<Vec<Message>>,
}

impl TurnInput {
    /// A turn that begins with `message`.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), recent: None }
    }

    /// Sets what was said before, oldest first.
    #[must_use]
    pub fn recent(mut self, recent: impl IntoIterator<Item = Message>) -> Self {
        self.recent = Some(recent.into_iter().collect());
        self
    }
}

impl From<&str> for TurnInput {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

impl From<String> for TurnInput {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

impl From<&String> for TurnInput {
    fn from(message: &String) -> Self {
        Self::new(message.as_str())
    }
}

/// What a turn or step came to.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Turn {
    /// The list to send to the model.
    pub visible: Visible,
    /// What was retrieved; `None` for a step without a new message, and when the catalog is shown
    /// whole.
    pub selection: Option<Selection>,
    /// What changed in the list, and why.
    pub delta: Delta,
}

impl Turn {
    /// A text that tells why each tool is there and what the list saves.
    pub fn explain(&self) -> String {
        self.to_string()
    }
}

impl AsRef<Visible> for Turn {
    fn as_ref(&self) -> &Visible {
        &self.visible
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tokens = self.visible.tokens();
        writeln!(
            f,
            "{} tools, {} tokens instead of {} ({:.0} % saved)",
            self.visible.tools().len(),
            tokens.sent,
            tokens.naive,
            tokens.saved_share() * 100.0
        )?;
        for (place, tool) in self.visible.tools().iter().enumerate() {
            write!(f, "  {:<36} ", tool.name)?;
            let admitted = self.delta.admitted.iter().any(|(id, _)| id == tool.tool.id());
            let candidate = self.selection.as_ref().and_then(|selection| {
                selection.candidates.iter().find(|candidate| candidate.id == *tool.tool.id())
            });
            match candidate {
                _ if place < self.visible.inner.core => write!(f, "core")?,
                Some(candidate) if candidate.boosts.contains(&Boost::Fallback) => {
                    write!(f, "fallback")?;
                }
                Some(candidate) if candidate.boosts.contains(&Boost::Alias) => {
                    write!(f, "alias")?;
                }
                Some(candidate) => {
                    write!(f, "{}", if admitted { "new, fits: " } else { "kept, fits: " })?;
                    if candidate.is_named() {
                        write!(f, "named, ")?;
                    }
                    match candidate.cosine {
                        Some(cosine) => write!(f, "meaning {:.2}, ", cosine.get())?,
                        None => write!(f, "meaning unknown, ")?,
                    }
                    write!(f, "words {:.0} %", candidate.coverage.get() * 100.0)?;
                }
                None if admitted => write!(f, "new")?,
                None => write!(f, "kept")?,
            }
            writeln!(f)?;
        }
        if let Some(intent) = self.selection.as_ref().and_then(|s| s.intent.as_ref()) {
            writeln!(f, "  {intent}")?;
        }
        for (id, why) in &self.delta.evicted {
            let one = Delta { evicted: vec![(id.clone(), *why)], ..Delta::default() };
            write!(f, "  {one}")?;
        }
        if let Some(reason) = self.selection.as_ref().and_then(|s| s.degraded.as_ref()) {
            writeln!(f, "  words only, because {reason}")?;
        }
        Ok(())
    }
}
