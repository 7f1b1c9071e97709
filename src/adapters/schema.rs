//! Parameters as a JSON schema that every provider takes.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::list::raw;
use crate::catalog::{RawObject, Shape, Tool};

/// Levels of a schema that are looked at.
const MAX_DEPTH: usize = 64;

/// Gemini's names of the types.
const TYPES: [&str; 7] = ["STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"];
/// Keywords whose value is an object of schemas.
const MAPS: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Keywords whose value is a schema or a list of them.
const SCHEMAS: [&str; 12] = [
    "items",
    "prefixItems",
    "additionalProperties",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "contains",
    "if",
    "then",
    "else",
    "propertyNames",
];
/// Numbers that Gemini writes as strings.
const NUMBERS: [&str; 6] =
    ["minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"];

/// The tool's parameters in plain JSON schema: byte for byte, unless they are in Gemini's dialect.
pub(super) fn plain(tool: &Tool) -> Option<Cow<'_, str>> {
    let text = tool.parameters()?;
    let gemini = tool.shape() == Some(Shape::Gemini)
        || TYPES.iter().any(|name| text.contains(&format!("\"{name}\"")));
    let lowered = gemini.then(|| lower(text, 0)).flatten();
    Some(lowered.map_or(Cow::Borrowed(text), |raw| Cow::Owned(raw.get().to_owned())))
}

/// Plain parameters that say that they are an object, as providers demand. `properties` adds an
/// empty list of properties where there is none, which OpenAI demands.
pub(super) fn object(tool: &Tool, properties: bool) -> Cow<'_, str> {
    let Some(text) = plain(tool) else {
        return Cow::Borrowed(r#"{"type":"object","properties":{}}"#);
    };
    let Some(fields) = RawObject::parse(&text) else { return text };
    let typed = fields.get("type").is_some_and(|kind| kind.get() == r#""object""#);
    let listed = !properties || fields.contains("properties");
    if typed && listed {
        return text;
    }
    let mut whole = RawObject::default();
    if !typed {
        whole.push("type", raw(r#""object""#.into()));
    }
    for (key, value) in fields.iter().filter(|(key, _)| typed || *key != "type") {
        whole.push(key, Arc::clone(value));
    }
    if !listed {
        whole.push("properties", raw("{}".into()));
    }
    serde_json::to_string(&whole).map_or(text, Cow::Owned)
}

/// What the parameters of a definition that goes out as it came have to be replaced with; `None`
/// when they can stay, or are not there and not `needed`.
pub(super) fn mended(tool: &Tool, needed: bool) -> Option<String> {
    match (tool.parameters(), object(tool, false)) {
        (None, _) => needed.then(|| r#"{"type":"object"}"#.to_owned()),
        (Some(text), whole) => (whole != text).then(|| whole.into_owned()),
    }
}

/// `schema` with Gemini's dialect made plain, or `None` when there is nothing of it.
///
/// The types in capitals become lower case, `nullable` becomes a type, and limits in quotes become
/// numbers. Names of properties, defaults and enumerated values stay whatever they are.
fn lower(schema: &str, depth: usize) -> Option<Arc<RawValue>> {
    let fields = RawObject::parse(schema).filter(|_| depth < MAX_DEPTH)?;
    let nullable = fields.boolean("nullable").ok().flatten();
    let mut changed = nullable.is_some();
    let mut plain = RawObject::default();
    for (key, value) in fields.iter().filter(|(key, _)| *key != "nullable" || nullable.is_none()) {
        let new = match key {
            "type" if value.get() == r#""TYPE_UNSPECIFIED""# => {
                changed = true;
                continue;
            }
            "type" => kind(value.get(), nullable == Some(true)),
            "enum" if nullable == Some(true) => with_null(value.get()),
            _ if MAPS.contains(&key) => each_value(value.get(), depth),
            _ if SCHEMAS.contains(&key) => {
                each_item(value.get(), depth).or_else(|| lower(value.get(), depth + 1))
            }
            _ if NUMBERS.contains(&key) => number(value.get()),
            _ => None,
        };
        changed |= new.is_some();
        plain.push(key, new.unwrap_or_else(|| Arc::clone(value)));
    }
    changed.then(|| serde_json::to_string(&plain).ok().map(raw)).flatten()
}

fn kind(value: &str, nullable: bool) -> Option<Arc<RawValue>> {
    let name: String = serde_json::from_str(value).ok()?;
    let upper = TYPES.contains(&name.as_str());
    if !upper && !nullable {
        return None;
    }
    let name = if upper { name.to_lowercase() } else { name };
    Some(raw(if nullable { format!(r#"["{name}","null"]"#) } else { format!(r#""{name}""#) }))
}

fn with_null(list: &str) -> Option<Arc<RawValue>> {
    let values: Vec<&RawValue> = serde_json::from_str(list).ok()?;
    let mut values: Vec<&str> = values.iter().map(|value| value.get()).collect();
    if values.contains(&"null") {
        return None;
    }
    values.push("null");
    Some(raw(format!("[{}]", values.join(","))))
}

fn number(value: &str) -> Option<Arc<RawValue>> {
    let text: String = serde_json::from_str(value).ok()?;
    text.parse::<u64>().ok().map(|number| raw(number.to_string()))
}

fn each_value(map: &str, depth: usize) -> Option<Arc<RawValue>> {
    let fields = RawObject::parse(map)?;
    let mut changed = false;
    let mut plain = RawObject::default();
    for (key, value) in fields.iter() {
        let new = lower(value.get(), depth + 1);
        changed |= new.is_some();
        plain.push(key, new.unwrap_or_else(|| Arc::clone(value)));
    }
    changed.then(|| serde_json::to_string(&plain).ok().map(raw)).flatten()
}

fn each_item(list: &str, depth: usize) -> Option<Arc<RawValue>> {
    let items: Vec<Arc<RawValue>> = serde_json::from_str(list).ok()?;
    let new: Vec<Option<Arc<RawValue>>> =
        items.iter().map(|item| lower(item.get(), depth + 1)).collect();
    if new.iter().all(Option::is_none) {
        return None;
    }
    let whole: Vec<&str> =
        items.iter().zip(&new).map(|(old, new)| new.as_ref().unwrap_or(old).get()).collect();
    Some(raw(format!("[{}]", whole.join(","))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lowered(schema: &str) -> String {
        let tool = Tool::builder("t").parameters_json(schema).build().unwrap();
        plain(&tool).unwrap().into_owned()
    }

    #[test]
    fn geminis_dialect_becomes_plain_json_schema() {
        insta::assert_snapshot!(
            lowered(
                r#"{"type":"OBJECT","properties":{"type":{"type":"STRING","enum":["OBJECT"],"nullable":true},
                   "rows":{"type":"ARRAY","minItems":"2","items":{"anyOf":[{"type":"INTEGER"},{"type":"NULL"}]}}},
                   "required":["type"]}"#
            ),
            @r#"{"type":"object","properties":{"type":{"type":["string","null"],"enum":["OBJECT",null]},"rows":{"type":"array","minItems":2,"items":{"anyOf":[{"type":"integer"},{"type":"null"}]}}},"required":["type"]}"#
        );
    }

    #[test]
    fn what_is_plain_keeps_its_bytes() {
        let schema =
            r#"{ "type": "object",  "properties": {"kind": {"enum": ["OBJECT"], "default": 1.0}}}"#;
        assert_eq!(lowered(schema), schema);
    }

    #[test]
    fn an_object_says_so() {
        let object = |schema: &str, properties: bool| {
            let tool = Tool::builder("t").parameters_json(schema).build().unwrap();
            super::object(&tool, properties).into_owned()
        };
        assert_eq!(object("{}", false), r#"{"type":"object"}"#);
        assert_eq!(object(r#"{"type": "object"}"#, true), r#"{"type":"object","properties":{}}"#);
        assert_eq!(
            object(r#"{"type": ["object", "null"], "required": []}"#, false),
            r#"{"type":"object","required":[]}"#
        );
    }
}
