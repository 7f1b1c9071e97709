//! Rendering a visible list for a provider, and reading its calls.
//!
//! Every adapter has the same functions: `tools` renders a list (a [`Turn`](crate::Turn) or a
//! [`Visible`]), `calls` reads the calls out of what the model answered, `result` writes the answer
//! to one of them, and `validate` checks a list that was changed by hand. The bytes of a tool depend
//! on nothing but its definition, and a list only ever grows at its end within an epoch. A
//! definition that came in the adapter's own shape goes out as it came, unknown fields included;
//! any other is written from its name, description and parameters.
//!
//! The bug that users hit most: the list has to be rendered anew after
//! [`find_tool`](crate::Session::find_tool). A runtime that renders once a turn tells the model that
//! a tool is loaded and then does not send it.

mod answer;
pub mod anthropic;
pub mod gemini;
mod list;
pub mod mcp;
pub mod openai;
#[cfg(feature = "rig")]
pub mod rig;
mod schema;
mod validity;

pub use answer::Answer;
pub use list::{LeftOut, ToolList};

use serde_json::Value;

/// A field that is a string.
fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

/// The items of a field that is a list; none when it is absent.
fn items<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// Arguments as they are or as JSON in a string; what is no JSON stays a string.
fn arguments(value: Option<&Value>) -> Value {
    match value {
        Some(Value::String(text)) if text.trim().is_empty() => Value::Object(Default::default()),
        Some(Value::String(text)) => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
        }
        Some(Value::Null) | None => Value::Object(Default::default()),
        Some(value) => value.clone(),
    }
}
