//! Parameters as a JSON schema that every provider takes.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::list::raw;
use crate::catalog::{RawObject, Shape, Tool};

/// Levels of a schema that are looked at.
pub(super) const MAX_DEPTH: usize = 64;
/// References in a row that are followed.
const MAX_REFERENCES: usize = 8;

/// Gemini's names of the types.
const TYPES: [&str; 7] = ["STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"];
/// Keywords whose value is an object of schemas.
pub(super) const MAPS: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Keywords whose value is a schema or a list of them.
pub(super) const SCHEMAS: [&str; 12] = [
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

/// Plain parameters as the provider of `shape` demands them: they say that they are an object. For
/// OpenAI they also list their properties, and every array says what its items are; what is missing
/// is added as `{}`.
pub(super) fn object(tool: &Tool, shape: Shape) -> Cow<'_, str> {
    let Some(text) = plain(tool) else {
        return Cow::Borrowed(r#"{"type":"object","properties":{}}"#);
    };
    let openai = matches!(shape, Shape::OpenAiChat | Shape::OpenAiResponses);
    let text = match openai.then(|| with_items(&text, 0)).flatten() {
        Some(whole) => Cow::Owned(whole.get().to_owned()),
        None => text,
    };
    let Some(fields) = RawObject::parse(&text) else { return text };
    let (fields, text) = match referred(&fields) {
        Some(whole) => {
            let text = serde_json::to_string(&whole).map_or(text, Cow::Owned);
            (whole, text)
        }
        None => (fields, text),
    };
    let typed = fields.get("type").is_some_and(|kind| kind.get() == r#""object""#);
    let listed = !openai || fields.contains("properties");
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

/// What the parameters of a definition that goes out as it came in `shape` have to be replaced
/// with; `None` when they can stay, or are not there and not needed.
pub(super) fn mended(tool: &Tool, shape: Shape) -> Option<String> {
    let needed = matches!(shape, Shape::Anthropic | Shape::Mcp);
    match (tool.parameters(), object(tool, shape)) {
        (None, _) => needed.then(|| r#"{"type":"object"}"#.to_owned()),
        (Some(text), whole) => (whole != text).then(|| whole.into_owned()),
    }
}

/// Whether Gemini's own `parameters` are an object without properties, which it refuses: a function
/// that takes nothing has no parameters.
pub(super) fn is_empty_object(parameters: &str) -> bool {
    RawObject::parse(parameters).is_some_and(|fields| {
        let kind = fields.string("type").ok().flatten();
        let object = kind.is_some_and(|kind| kind.eq_ignore_ascii_case("object"));
        let none = fields
            .get("properties")
            .is_none_or(|list| RawObject::parse(list.get()).is_some_and(|list| list.len() == 0));
        fields.len() == 0 || (object && none)
    })
}

/// A schema that is a reference to a definition of its own, with the definition in its place: no
/// provider looks behind a reference for the type.
///
/// `None` for any other, and when both sides say something of the same matter, which no merging
/// of fields can unite.
fn referred(schema: &RawObject) -> Option<RawObject> {
    let mut whole: Option<RawObject> = None;
    for _ in 0..MAX_REFERENCES {
        let fields = whole.as_ref().unwrap_or(schema);
        let Some(pointer) = fields.string("$ref").ok().flatten() else { break };
        let pointer = pointer.strip_prefix("#/")?;
        let mut target = schema.clone();
        for step in pointer.split('/') {
            let step = step.replace("~1", "/").replace("~0", "~");
            target = target.object(&step).ok().flatten()?;
        }
        let said = |key: &str| key != "$ref" && fields.contains(key);
        // A reader takes words from nearest by, and rules from both.
        let words = ["title", "description", "$defs", "definitions"];
        if target.iter().any(|(key, _)| said(key) && !words.contains(&key)) {
            return None;
        }
        let mut merged = RawObject::default();
        let theirs = target.iter().filter(|(key, _)| !said(key));
        for (key, value) in theirs.chain(fields.iter().filter(|(key, _)| *key != "$ref")) {
            merged.push(key, Arc::clone(value));
        }
        whole = Some(merged);
    }
    whole.filter(|fields| !fields.contains("$ref"))
}

/// `schema` with `"items":{}` in every array that says nothing of its items, or `None` when there is
/// none. It means the same, and OpenAI refuses the request without.
fn with_items(schema: &str, depth: usize) -> Option<Arc<RawValue>> {
    let fields =
        RawObject::parse(schema).filter(|_| depth < MAX_DEPTH && schema.contains(r#""array""#))?;
    let array = fields.get("type").is_some_and(|kind| is_array(kind.get()));
    let bare = array && !fields.contains("items");
    let mut changed = bare;
    let mut whole = RawObject::default();
    for (key, value) in fields.iter() {
        let new = below(key, value.get(), |schema| with_items(schema, depth + 1));
        changed |= new.is_some();
        whole.push(key, new.unwrap_or_else(|| Arc::clone(value)));
    }
    if bare {
        whole.push("items", raw("{}".into()));
    }
    changed.then(|| serde_json::to_string(&whole).ok().map(raw)).flatten()
}

/// Whether a type is that of arrays, alone or among others.
fn is_array(kind: &str) -> bool {
    let names = serde_json::from_str::<Vec<String>>(kind);
    kind == r#""array""# || names.is_ok_and(|names| names.iter().any(|name| name == "array"))
}

/// The value of `key` with `each` applied to the schemas in it, or `None` when none changes.
fn below(
    key: &str,
    value: &str,
    each: impl Fn(&str) -> Option<Arc<RawValue>>,
) -> Option<Arc<RawValue>> {
    if MAPS.contains(&key) {
        each_value(value, each)
    } else if SCHEMAS.contains(&key) {
        each_item(value, &each).or_else(|| each(value))
    } else {
        None
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
            _ if NUMBERS.contains(&key) => number(value.get()),
            _ => below(key, value.get(), |schema| lower(schema, depth + 1)),
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

fn each_value(map: &str, each: impl Fn(&str) -> Option<Arc<RawValue>>) -> Option<Arc<RawValue>> {
    let fields = RawObject::parse(map)?;
    let mut changed = false;
    let mut plain = RawObject::default();
    for (key, value) in fields.iter() {
        let new = each(value.get());
        changed |= new.is_some();
        plain.push(key, new.unwrap_or_else(|| Arc::clone(value)));
    }
    changed.then(|| serde_json::to_string(&plain).ok().map(raw)).flatten()
}

fn each_item(list: &str, each: impl Fn(&str) -> Option<Arc<RawValue>>) -> Option<Arc<RawValue>> {
    let items: Vec<Arc<RawValue>> = serde_json::from_str(list).ok()?;
    let new: Vec<Option<Arc<RawValue>>> = items.iter().map(|item| each(item.get())).collect();
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
        let object = |schema: &str, shape: Shape| {
            let tool = Tool::builder("t").parameters_json(schema).build().unwrap();
            super::object(&tool, shape).into_owned()
        };
        assert_eq!(object("{}", Shape::Mcp), r#"{"type":"object"}"#);
        assert_eq!(
            object(r#"{"type": "object"}"#, Shape::OpenAiChat),
            r#"{"type":"object","properties":{}}"#
        );
        assert_eq!(
            object(r#"{"type": ["object", "null"], "required": []}"#, Shape::Mcp),
            r#"{"type":"object","required":[]}"#
        );
    }
}
