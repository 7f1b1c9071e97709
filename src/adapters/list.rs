//! A rendered list.

use std::fmt;
use std::sync::Arc;

use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::error::Result;

/// Tool definitions as JSON, in order; serialises to a JSON list with exactly these bytes.
///
/// Put it into a request with serde (only `serde_json` can carry the bytes), or take
/// [`json`](Self::json).
#[derive(Debug, Clone, Default)]
pub struct ToolList(Vec<Arc<RawValue>>);

impl ToolList {
    /// How many definitions there are, built-in ones included.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The definitions' JSON texts, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(|raw| raw.get())
    }

    /// The whole list as JSON.
    pub fn json(&self) -> String {
        format!("[{}]", self.iter().collect::<Vec<_>>().join(","))
    }

    pub(super) fn push(&mut self, raw: Arc<RawValue>) {
        self.0.push(raw);
    }
}

impl Serialize for ToolList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl fmt::Display for ToolList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.json())
    }
}

/// `text`, which is JSON by construction.
pub(super) fn raw(text: String) -> Arc<RawValue> {
    match RawValue::from_string(text) {
        Ok(raw) => Arc::from(raw),
        // Parts are JSON strings and schemas that were parsed when the tool was built.
        Err(error) => unreachable!("a definition that is no JSON: {error}"),
    }
}

/// `text` as a JSON string.
pub(super) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// What stands for the parameters of a tool that has none.
pub(super) const NO_PARAMETERS: &str = r#"{"type":"object","properties":{}}"#;
