//! What the gateway tells the model: its own tools and its replies.

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool as McpTool, ToolAnnotations};
use serde_json::{Value, json};

use super::settings::Mode;
use crate::catalog::{Shape, Tool};
use crate::session::{FindReply, FindStatus, FoundTool, MetaTool};
use crate::working_set::RefuseReason;

/// The tool that calls another by name.
pub(crate) const CALL_TOOL: &str = "call_tool";
/// The tool that shows definitions.
pub(crate) const DESCRIBE_TOOL: &str = "describe_tool";

/// What clients are told when they connect.
pub(crate) const INSTRUCTIONS: &str = "This server stands for many others. Only some of their \
tools are in the list; find_tool looks for the others by what you want to do, and call_tool calls \
what it found. Look before you say that something cannot be done.";

/// The tools of the gateway itself, constant bytes for a mode.
pub(crate) fn own_tools(mode: Mode, find: &str) -> Vec<McpTool> {
    let meta = MetaTool::new(find, false);
    let find_text = match mode {
        Mode::List => meta.description.replace(
            "Loaded tools are in your list from your next message on.",
            "Loaded tools are in your list from your next message on; call_tool can call them at \
             once.",
        ),
        Mode::Bridge => {
            "Find tools by what you want to do. This server gives access to many tools \
             of other servers, none of which is in your tool list; say in plain words what you \
             want to do, or name tools that you know, before you say that something cannot be \
             done. The reply holds the definitions; call what was found with call_tool."
                .to_owned()
        }
    };
    let find = tool(find, &find_text, &meta.parameters, hints(true));
    let call = tool(
        CALL_TOOL,
        "Call a tool that find_tool found, by its name and with arguments that fit its definition.",
        concat!(
            r#"{"type":"object","properties":{"#,
            r#""name":{"type":"string","description":"Name of the tool, as find_tool gave it"},"#,
            r#""arguments":{"type":"object","description":"Arguments of the tool, as its definition asks for them"}},"#,
            r#""required":["name"]}"#
        ),
        hints(false),
    );
    let describe = tool(
        DESCRIBE_TOOL,
        "Show the whole definition of tools: what they do, their parameters and what they return.",
        concat!(
            r#"{"type":"object","properties":{"#,
            r#""name":{"type":"string","description":"Name of a tool"},"#,
            r#""names":{"type":"array","items":{"type":"string"},"description":"Names of several tools"}}}"#
        ),
        hints(true),
    );
    match mode {
        Mode::List => vec![find, call],
        Mode::Bridge => vec![find, describe, call],
    }
}

fn hints(read_only: bool) -> ToolAnnotations {
    ToolAnnotations::new().read_only(read_only).open_world(!read_only)
}

fn tool(name: &str, description: &str, schema: &str, annotations: ToolAnnotations) -> McpTool {
    let schema: JsonObject = serde_json::from_str(schema).unwrap_or_default();
    McpTool::new(name.to_owned(), description.to_owned(), schema).with_annotations(annotations)
}

/// A tool of the catalog as MCP lists it, with everything that its server said of it.
pub(crate) fn definition(tool: &Tool, name: &str) -> McpTool {
    let original = tool.original_in(Shape::Mcp, name, &[], &[]);
    if let Some(definition) = original.and_then(|raw| serde_json::from_str(raw.get()).ok()) {
        return definition;
    }
    let schema: JsonObject = tool
        .parameters()
        .and_then(|schema| serde_json::from_str(schema).ok())
        .unwrap_or_else(|| JsonObject::from_iter([("type".to_owned(), json!("object"))]));
    McpTool::new(name.to_owned(), tool.description().to_owned(), schema)
}

/// The whole definition as one line of JSON.
fn definition_line(name: &str, tool: &Tool) -> String {
    serde_json::to_string(&definition(tool, name)).unwrap_or_default()
}

/// What a client is told of a search. `definitions` are those of what was found, for a client that
/// does not see them in its list.
pub(crate) fn found(
    reply: &FindReply,
    mode: Mode,
    definitions: Option<&[(String, Tool)]>,
) -> CallToolResult {
    let mut text = match mode {
        Mode::List => reply.text(),
        Mode::Bridge => bridge_text(reply),
    };
    if let Some(definitions) = definitions.filter(|definitions| !definitions.is_empty()) {
        text += "\n\nDefinitions, for call_tool:";
        for (name, tool) in definitions {
            text += "\n";
            text += &definition_line(name, tool);
        }
    }
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(reply.json());
    result
}

fn bridge_text(reply: &FindReply) -> String {
    let mut lines = Vec::new();
    let hits: Vec<&FoundTool> = reply.visible.iter().chain(&reply.loaded).collect();
    if reply.status == FindStatus::Repeated {
        lines.push("You made this search before; the result is the same.".to_owned());
    }
    if hits.is_empty() {
        let mut line = "No tool fits. Do not repeat this search".to_owned();
        if reply.namespaces.is_empty() {
            line.push('.');
        } else {
            line += &format!("; tools exist in: {}.", reply.namespaces.join(", "));
        }
        lines.push(line);
    } else {
        let more = if reply.total > reply.shown {
            format!(" ({} of {} that fit)", reply.shown, reply.total)
        } else {
            String::new()
        };
        lines.push(format!("Found{more}; call them with call_tool:"));
        lines.extend(hits.into_iter().map(line));
    }
    if let Some((_, why)) = reply.not_loaded.first() {
        lines.push(match why {
            RefuseReason::ToolLimit => "More fit; use these first.".to_owned(),
            RefuseReason::TokenBudget => "More fit, but the token budget is used up.".to_owned(),
        });
    }
    if !reply.ambiguous.is_empty() {
        let names: Vec<&str> = reply.ambiguous.iter().map(|tool| tool.name.as_str()).collect();
        lines.push(format!("These fit alike; choose by their descriptions: {}.", names.join(", ")));
    }
    for name in &reply.unknown_names {
        lines.push(format!("There is no tool called '{}'.", name.escape_debug()));
    }
    if reply.degraded.is_some() {
        lines.push("The search went by words alone; other words may find more.".to_owned());
    }
    lines.join("\n")
}

fn line(tool: &FoundTool) -> String {
    if tool.summary.is_empty() {
        format!("- {}", tool.name)
    } else {
        format!("- {}: {}", tool.name, tool.summary)
    }
}

/// What a client is told that asked for definitions.
pub(crate) fn described(definitions: &[(String, Tool)], unknown: &[String]) -> CallToolResult {
    let mut lines: Vec<String> =
        definitions.iter().map(|(name, tool)| definition_line(name, tool)).collect();
    for name in unknown {
        lines.push(format!(
            "There is no tool called '{}'. Use find_tool to look for what you need.",
            name.escape_debug()
        ));
    }
    let content = vec![ContentBlock::text(lines.join("\n"))];
    if definitions.is_empty() {
        CallToolResult::error(content)
    } else {
        CallToolResult::success(content)
    }
}

/// What the model is told whose call was a guess: the definition, and how to go on.
pub(crate) fn guessed(name: &str, tool: &Tool) -> CallToolResult {
    failed(format!(
        "{name} did not run, because you had not been shown its definition and guessed the \
         arguments. Call it again with arguments that fit: {}",
        definition_line(name, tool)
    ))
}

/// A failure that the model is to read.
pub(crate) fn failed(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text.into())])
}

/// Name and arguments in the arguments of `call_tool`, as models write them: the arguments as an
/// object, as JSON in a string, or not at all.
pub(crate) fn call_arguments(arguments: &JsonObject) -> Result<(String, JsonObject), String> {
    let Some(Value::String(name)) = arguments.get("name") else {
        return Err(format!(
            "{CALL_TOOL} was not understood: give 'name', the name of a tool, and 'arguments', an \
             object."
        ));
    };
    let inner = match arguments.get("arguments") {
        None | Some(Value::Null) => JsonObject::new(),
        Some(Value::Object(inner)) => inner.clone(),
        Some(Value::String(text)) if text.trim().is_empty() => JsonObject::new(),
        Some(Value::String(text)) => serde_json::from_str(text).map_err(|_| {
            format!("{CALL_TOOL} was not understood: 'arguments' has to be an object.")
        })?,
        Some(_) => {
            return Err(format!(
                "{CALL_TOOL} was not understood: 'arguments' has to be an object."
            ));
        }
    };
    Ok((name.clone(), inner))
}

/// The names in the arguments of `describe_tool`.
pub(crate) fn names(arguments: &JsonObject) -> Vec<String> {
    let mut names = Vec::new();
    for key in ["name", "names"] {
        match arguments.get(key) {
            Some(Value::String(name)) => names.push(name.clone()),
            Some(Value::Array(list)) => {
                names.extend(list.iter().filter_map(|name| name.as_str().map(str::to_owned)));
            }
            _ => {}
        }
    }
    names
}
