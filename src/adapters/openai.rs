//! OpenAI: chat completions.

use serde_json::Value;

use super::Visible;
use super::list::{NO_PARAMETERS, ToolList, quote, raw};
use crate::catalog::Shape;
use crate::session::{Call, Entry};

/// The list for `tools` of a chat completions request.
///
/// # Example
/// ```
/// use toolrack::{Catalog, Engine, SessionOptions, openai};
///
/// let catalog = Catalog::parse(r#"[{"name": "add", "description": "Add numbers."}]"#)?;
/// let engine = Engine::builder(catalog).build()?;
/// let run = engine.session(SessionOptions::default())?;
/// assert_eq!(
///     openai::tools(run.visible()).json(),
///     r#"[{"type":"function","function":{"name":"add","description":"Add numbers.","parameters":{"type":"object","properties":{}}}}]"#,
/// );
/// # Ok::<(), toolrack::Error>(())
/// ```
pub fn tools(visible: impl AsRef<Visible>) -> ToolList {
    let visible = visible.as_ref();
    let mut list = ToolList::default();
    for entry in visible.entries() {
        list.push(match entry {
            Entry::Tool(tool) => tool.rendered(Shape::OpenAiChat, |tool| {
                function(&tool.name, tool.tool.description(), tool.tool.parameters())
            }),
            Entry::Meta(meta) => function(&meta.name, &meta.description, Some(&meta.parameters)),
        });
    }
    for builtin in visible.builtins() {
        list.push(builtin.raw().clone());
    }
    list
}

fn function(
    name: &str,
    description: &str,
    parameters: Option<&str>,
) -> std::sync::Arc<serde_json::value::RawValue> {
    raw(format!(
        r#"{{"type":"function","function":{{"name":{},"description":{},"parameters":{}}}}}"#,
        quote(name),
        quote(description),
        parameters.unwrap_or(NO_PARAMETERS)
    ))
}

/// The calls in an assistant message of a chat completions response, in order.
///
/// Arguments that are not JSON stay a string, for the runtime to refuse in words.
///
/// # Example
/// ```
/// use serde_json::json;
/// use toolrack::openai;
///
/// let message = json!({"role": "assistant", "tool_calls": [
///     {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{\"a\": 1}"}}]});
/// let calls = openai::calls(&message);
/// assert_eq!((calls[0].name.as_str(), &calls[0].arguments["a"]), ("add", &json!(1)));
/// ```
pub fn calls(message: &Value) -> Vec<Call> {
    let list = message.get("tool_calls").and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(|call| {
            let function = call.get("function")?;
            Some(Call {
                id: call.get("id").and_then(Value::as_str).map(str::to_owned),
                name: function.get("name")?.as_str()?.to_owned(),
                arguments: arguments(function.get("arguments")),
            })
        })
        .collect()
}

fn arguments(value: Option<&Value>) -> Value {
    match value {
        Some(Value::String(text)) if text.trim().is_empty() => Value::Object(Default::default()),
        Some(Value::String(text)) => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
        }
        Some(value) => value.clone(),
        None => Value::Object(Default::default()),
    }
}
