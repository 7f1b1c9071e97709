//! What one conversation keeps.

use serde::{Deserialize, Serialize};

use crate::catalog::ToolId;

/// The tools that one conversation has found and keeps, for a [`Selector`](crate::Selector).
///
/// A value, not a handle: two conversations cannot share it by accident. Store it with serde beside
/// the conversation.
///
/// # Example
/// ```
/// use toolrack::{Pins, ToolId};
///
/// let mut pins = Pins::default();
/// pins.pin("billing/list_invoices".parse()?);
/// let stored = serde_json::to_string(&pins).unwrap();
/// assert_eq!(stored, r#"["billing/list_invoices"]"#);
/// assert_eq!(serde_json::from_str::<Pins>(&stored).unwrap(), pins);
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pins(Vec<ToolId>);

impl Pins {
    /// Keeps `id` for the rest of the conversation.
    pub fn pin(&mut self, id: ToolId) {
        if !self.0.contains(&id) {
            self.0.push(id);
        }
    }

    /// Lets `id` go; whether it was pinned.
    pub fn unpin(&mut self, id: &ToolId) -> bool {
        let before = self.0.len();
        self.0.retain(|other| other != id);
        self.0.len() < before
    }

    /// The pinned tools, in the order they were pinned.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &ToolId> {
        self.0.iter()
    }
}
