//! Whether a provider would take a list.

use std::collections::HashSet;

use serde_json::Value;

use super::list::{defers, is_search, provider};
use super::schema::{MAPS, MAX_DEPTH, SCHEMAS};
use super::{items, text};
use crate::catalog::Shape;
use crate::error::{Error, ErrorKind, Result, invalid_setting};

/// The most tools that Anthropic's tool search takes.
const MAX_SEARCHED: usize = 10_000;
/// The most entries of Anthropic's that may have a cache mark, in tools alone.
const MAX_CACHED: usize = 4;
/// The most tools that OpenAI takes.
const MAX_OPENAI: usize = 128;
/// The most functions that Gemini takes.
const MAX_GEMINI: usize = 512;
/// The longest name of a property that Anthropic takes.
const MAX_PROPERTY: usize = 64;

/// One entry of a list.
struct Definition<'a> {
    entry: &'a Value,
    name: Option<&'a str>,
    /// The parameters of a function; `None` for a built-in tool.
    schema: Option<Option<&'a Value>>,
}

impl Definition<'_> {
    fn shown(&self) -> String {
        self.name.or_else(|| text(self.entry, "type")).unwrap_or("(no name)").to_owned()
    }

    fn is_deferred(&self) -> bool {
        self.entry.get("defer_loading") == Some(&Value::Bool(true))
    }

    fn is_search(&self) -> bool {
        text(self.entry, "type").is_some_and(is_search)
    }

    /// Whether it brings deferred tools along: a server or namespace whose tools are deferred.
    fn defers(&self) -> bool {
        self.is_deferred() || (self.schema.is_none() && defers(self.entry))
    }
}

/// Checks `tools`, in the form in which a request of `shape` takes them; `search` is the client's
/// own search tool.
pub(super) fn check(shape: Shape, tools: &Value, search: &str) -> Result<()> {
    let definitions = definitions(shape, tools)?;
    let mut names = HashSet::new();
    for definition in &definitions {
        name(shape, definition)?;
        if definition.name.is_some_and(|name| !names.insert(name)) {
            return Err(Error::new(
                ErrorKind::DuplicateTool,
                format!(
                    "two tools of the list are called '{}': rename one of them or give it a \
                     namespace",
                    definition.shown()
                ),
            ));
        }
        schema(shape, definition)?;
    }
    count(shape, &definitions)?;
    match shape {
        Shape::Anthropic | Shape::OpenAiResponses => deferral(shape, &definitions, search),
        _ => Ok(()),
    }
}

fn definitions(shape: Shape, tools: &Value) -> Result<Vec<Definition<'_>>> {
    let list = match shape {
        Shape::Mcp => tools.get("tools").unwrap_or(tools),
        _ => tools,
    };
    let Some(list) = list.as_array() else {
        return Err(Error::new(
            ErrorKind::Format,
            format!("the tools are no list: give what goes into a request of {}", provider(shape)),
        ));
    };
    let of =
        |entry, schema: Option<Option<_>>| Definition { entry, name: text(entry, "name"), schema };
    let mut definitions = Vec::with_capacity(list.len());
    for entry in list {
        match shape {
            Shape::OpenAiChat => definitions.push(match entry.get("function") {
                Some(function) => Definition {
                    entry,
                    name: text(function, "name"),
                    schema: Some(function.get("parameters")),
                },
                None => Definition {
                    entry,
                    name: entry.get("custom").and_then(|custom| text(custom, "name")),
                    schema: None,
                },
            }),
            Shape::OpenAiResponses => {
                let function = text(entry, "type") == Some("function");
                definitions.push(of(entry, function.then(|| entry.get("parameters"))));
            }
            Shape::Anthropic => {
                definitions.push(of(entry, entry.get("input_schema").map(Some)));
            }
            Shape::Gemini => {
                for key in ["functionDeclarations", "function_declarations"] {
                    definitions.extend(items(entry, key).map(|entry| {
                        of(
                            entry,
                            Some(entry.get("parametersJsonSchema").or(entry.get("parameters"))),
                        )
                    }));
                }
            }
            Shape::Mcp | Shape::Native => {
                definitions.push(of(entry, Some(entry.get("inputSchema"))));
            }
        }
    }
    Ok(definitions)
}

fn name(shape: Shape, definition: &Definition<'_>) -> Result<()> {
    let Some(name) = definition.name else {
        if definition.schema.is_none() {
            return Ok(());
        }
        return Err(invalid(definition, "has no name: name it"));
    };
    let (most, more) = match shape {
        Shape::Mcp => (128, "."),
        Shape::Gemini => (64, ".:"),
        // A name that is referred to is shorter: a deferred tool is loaded by a reference.
        Shape::Anthropic if !definition.is_deferred() => (128, ""),
        _ => (64, ""),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || more.contains(c);
    if name.is_empty() || name.len() > most || !name.chars().all(plain) {
        let more: String = more.chars().map(|c| format!(" {c}")).collect();
        return Err(invalid(
            definition,
            &format!(
                "has a name that {} does not take: use 1 to {most} of a-z A-Z 0-9 _ -{more}",
                provider(shape)
            ),
        ));
    }
    if shape == Shape::Gemini && !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return Err(invalid(
            definition,
            "has a name that Gemini does not take: begin it with a letter or give the tool a \
             namespace",
        ));
    }
    Ok(())
}

fn schema(shape: Shape, definition: &Definition<'_>) -> Result<()> {
    let Some(schema) = definition.schema else { return Ok(()) };
    if shape == Shape::Gemini {
        let both = definition.entry.get("parameters").is_some()
            && definition.entry.get("parametersJsonSchema").is_some();
        if both {
            return Err(invalid(
                definition,
                "has both parameters and parametersJsonSchema: give one",
            ));
        }
        let own = definition.entry.get("parameters");
        return own.map_or(Ok(()), |parameters| dialect(definition, parameters));
    }
    let needed = matches!(shape, Shape::Anthropic | Shape::Mcp);
    let Some(schema) = schema else {
        if needed {
            return Err(invalid(definition, "has no schema: give {\"type\": \"object\"} at least"));
        }
        return Ok(());
    };
    if text(schema, "type") != Some("object") {
        return Err(invalid(
            definition,
            "has parameters that are no object: give a schema of type object",
        ));
    }
    let refused: &[&str] = match shape {
        Shape::OpenAiChat | Shape::OpenAiResponses => &["oneOf", "anyOf", "allOf", "enum", "not"],
        Shape::Anthropic => &["oneOf", "anyOf", "allOf"],
        _ => &[],
    };
    if let Some(key) = refused.iter().find(|key| schema.get(**key).is_some()) {
        return Err(invalid(
            definition,
            &format!(
                "has '{key}' at the top of its schema, which {} refuses: move it into a property",
                provider(shape)
            ),
        ));
    }
    match shape {
        Shape::OpenAiChat | Shape::OpenAiResponses => openai(definition, schema),
        Shape::Anthropic => properties(definition, schema),
        _ => Ok(()),
    }
}

fn openai(definition: &Definition<'_>, schema: &Value) -> Result<()> {
    if schema.get("properties").is_none() {
        return Err(invalid(
            definition,
            "has an object without 'properties', which OpenAI refuses: add \"properties\": {}",
        ));
    }
    let bare = |schema: &Value| is(schema, "array") && schema.get("items").is_none();
    match place(schema, 0, &bare) {
        Some(place) => Err(invalid(
            definition,
            &format!(
                "has an array without 'items' at '{place}', which OpenAI refuses: add \"items\": {{}}"
            ),
        )),
        None => Ok(()),
    }
}

fn properties(definition: &Definition<'_>, schema: &Value) -> Result<()> {
    let taken = |name: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        (1..=MAX_PROPERTY).contains(&name.len()) && name.chars().all(plain)
    };
    let names = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    match names.map(|(name, _)| name).find(|name| !taken(name)) {
        Some(name) => Err(invalid(
            definition,
            &format!(
                "has a property '{}' that Anthropic does not take: use 1 to {MAX_PROPERTY} of \
                 a-z A-Z 0-9 _ . -",
                name.escape_debug()
            ),
        )),
        None => Ok(()),
    }
}

/// Parameters in Gemini's own dialect.
fn dialect(definition: &Definition<'_>, parameters: &Value) -> Result<()> {
    if !is(parameters, "object") {
        return Err(invalid(
            definition,
            "has parameters that are no object: give a schema of type OBJECT",
        ));
    }
    let empty = |schema: &Value| {
        is(schema, "object")
            && schema.get("properties").and_then(Value::as_object).is_none_or(|map| map.is_empty())
    };
    match place(parameters, 0, &empty) {
        Some(place) if place.is_empty() => Err(invalid(
            definition,
            "has an object without properties, which Gemini refuses: leave parameters out",
        )),
        Some(place) => Err(invalid(
            definition,
            &format!(
                "has an object without properties at '{place}', which Gemini refuses: list some, \
                 or take parametersJsonSchema"
            ),
        )),
        None => Ok(()),
    }
}

/// Whether a schema is of `kind`, alone or among others, in either spelling of types.
fn is(schema: &Value, kind: &str) -> bool {
    let named = |name: &Value| name.as_str().is_some_and(|name| name.eq_ignore_ascii_case(kind));
    match schema.get("type") {
        Some(Value::Array(names)) => names.iter().any(named),
        Some(name) => named(name),
        None => false,
    }
}

/// Where the first schema in `schema` is that is `wrong`: keywords and names joined by dots.
fn place(schema: &Value, depth: usize, wrong: &dyn Fn(&Value) -> bool) -> Option<String> {
    if wrong(schema) {
        return Some(String::new());
    }
    let fields = schema.as_object().filter(|_| depth < MAX_DEPTH)?;
    fields.iter().find_map(|(key, value)| {
        let inner = match value {
            Value::Object(map) if MAPS.contains(&key.as_str()) => {
                map.iter().find_map(|(name, one)| {
                    place(one, depth + 1, wrong).map(|inner| joined(name, &inner))
                })
            }
            Value::Array(list) if SCHEMAS.contains(&key.as_str()) => {
                list.iter().enumerate().find_map(|(at, one)| {
                    place(one, depth + 1, wrong).map(|inner| joined(&at.to_string(), &inner))
                })
            }
            _ if SCHEMAS.contains(&key.as_str()) => place(value, depth + 1, wrong),
            _ => None,
        };
        inner.map(|inner| joined(key, &inner))
    })
}

fn joined(outer: &str, inner: &str) -> String {
    if inner.is_empty() { outer.to_owned() } else { format!("{outer}.{inner}") }
}

fn count(shape: Shape, definitions: &[Definition<'_>]) -> Result<()> {
    let (what, most) = match shape {
        Shape::OpenAiChat | Shape::OpenAiResponses => ("tools", MAX_OPENAI),
        Shape::Gemini => ("functions", MAX_GEMINI),
        _ => ("tools", usize::MAX),
    };
    if definitions.len() > most {
        return Err(invalid_setting(format!(
            "the list has {} {what} but {} takes {most}: lower the session's limit",
            definitions.len(),
            provider(shape)
        )));
    }
    let cached = |definition: &&Definition<'_>| {
        definition.entry.get("cache_control").is_some_and(|mark| !mark.is_null())
    };
    let cached: Vec<_> = definitions.iter().filter(cached).collect();
    if shape == Shape::Anthropic && cached.len() > MAX_CACHED {
        return Err(invalid_setting(format!(
            "the list has {} cache_control blocks but Anthropic takes {MAX_CACHED}: remove that of \
             tool '{}', or all but the last one",
            cached.len(),
            cached[0].shown()
        )));
    }
    Ok(())
}

fn deferral(shape: Shape, definitions: &[Definition<'_>], search: &str) -> Result<()> {
    let deferred = definitions.iter().find(|definition| definition.defers());
    let hosted = definitions.iter().find(|definition| definition.is_search());
    let Some(deferred) = deferred else {
        return match hosted {
            Some(hosted) if shape == Shape::OpenAiResponses => Err(invalid_setting(format!(
                "the list has '{}' but no deferred tool: defer one or leave the search out",
                hosted.shown()
            ))),
            _ => Ok(()),
        };
    };
    if definitions.iter().all(Definition::is_deferred) {
        return Err(invalid_setting(
            "every tool of the list is deferred: leave one, such as the search tool, without \
             defer_loading",
        ));
    }
    if let Some(hosted) = hosted.filter(|hosted| hosted.is_deferred()) {
        return Err(invalid_setting(format!(
            "the search tool '{}' is deferred itself: remove its defer_loading",
            hosted.shown()
        )));
    }
    let own = |definition: &&Definition<'_>| {
        shape == Shape::Anthropic && definition.name == Some(search) && !definition.is_deferred()
    };
    if hosted.or_else(|| definitions.iter().find(own)).is_none() {
        return Err(invalid_setting(format!(
            "tool '{}' is deferred but the list has no search tool: add one or remove \
             defer_loading",
            deferred.shown()
        )));
    }
    let cached = |definition: &&Definition<'_>| {
        definition.is_deferred() && definition.entry.get("cache_control").is_some()
    };
    if let Some(cached) = definitions.iter().find(cached) {
        return Err(invalid_setting(format!(
            "tool '{}' has both defer_loading and cache_control: remove one",
            cached.shown()
        )));
    }
    if shape == Shape::Anthropic && definitions.len() > MAX_SEARCHED {
        return Err(invalid_setting(format!(
            "the list has {} tools but tool search takes {MAX_SEARCHED}: send the visible ones only",
            definitions.len()
        )));
    }
    Ok(())
}

fn invalid(definition: &Definition<'_>, what: &str) -> Error {
    Error::new(ErrorKind::InvalidTool, format!("tool '{}' {what}", definition.shown()))
}
