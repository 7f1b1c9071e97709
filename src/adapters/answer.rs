//! What a call is answered with.

use serde_json::Value;

use crate::session::{FindReply, Refusal};

/// The answer to one call, before an adapter puts it into a provider's form.
///
/// Made from text, a [`FindReply`] (which keeps its data for MCP) or a [`Refusal`] (which is an
/// error); [`Answer::error`] marks a tool's own failure.
///
/// # Example
/// ```
/// use serde_json::json;
/// use toolrack::{Answer, Call, anthropic};
///
/// let call = Call::new("add", json!({})).with_id("toolu_1");
/// assert_eq!(
///     anthropic::result(&call, Answer::error("b is missing")),
///     json!({"type": "tool_result", "tool_use_id": "toolu_1", "content": "b is missing", "is_error": true}),
/// );
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    text: String,
    data: Option<Value>,
    error: bool,
}

impl Answer {
    /// What a tool said.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), data: None, error: false }
    }

    /// Why a tool failed, or was not run.
    pub fn error(text: impl Into<String>) -> Self {
        Self { error: true, ..Self::new(text) }
    }

    /// Adds the same as data, for providers that take both.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// The words for the model.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The same as data, if there is any.
    pub fn data(&self) -> Option<&Value> {
        self.data.as_ref()
    }

    /// Whether the call failed or was refused.
    pub fn is_error(&self) -> bool {
        self.error
    }
}

impl From<&str> for Answer {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Answer {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&FindReply> for Answer {
    fn from(reply: &FindReply) -> Self {
        Self::new(reply.text()).with_data(reply.json())
    }
}

impl From<&Refusal> for Answer {
    fn from(refusal: &Refusal) -> Self {
        Self::error(refusal.text())
    }
}
