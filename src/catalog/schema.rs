//! What a JSON schema says in words.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use serde_json::value::RawValue;

use super::raw::RawObject;

/// How deep the walk goes below the root.
const MAX_DEPTH: usize = 10;
/// How many schema nodes are looked at in all.
const MAX_NODES: usize = 512;
/// How many bytes of words are kept in all.
const MAX_BYTES: usize = 16 * 1024;
/// How many bytes of one description are kept.
const MAX_DESCRIPTION: usize = 512;

/// Keys whose value is one schema.
const ONE: [&str; 10] = [
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "additionalItems",
    "unevaluatedProperties",
];
/// Keys whose value is a list of schemas.
const LIST: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
/// Keys whose value maps names of parameters to schemas.
const NAMED: [&str; 2] = ["properties", "patternProperties"];

/// The words of a parameter schema, nearest to the root first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SchemaText {
    /// Names of parameters, nested ones too, each once.
    pub names: Vec<String>,
    /// Descriptions and titles of parameters.
    pub descriptions: Vec<String>,
    /// Values of string enums and constants.
    pub values: Vec<String>,
    /// Whether a cap cut the walk short.
    pub truncated: bool,
}

/// Walks a schema breadth first, through references and every keyword that holds schemas.
///
/// A reference is followed once, so that a schema that refers to itself ends; only references
/// into the same document (`#/...`) are followed. The caps bound time and memory whatever the
/// schema: at most [`MAX_NODES`] nodes are parsed, none deeper than [`MAX_DEPTH`].
pub(crate) fn schema_text(schema: &str) -> SchemaText {
    let mut walk = Walk { text: SchemaText::default(), seen: HashSet::new(), bytes: 0 };
    let Ok(root) = serde_json::from_str::<Box<RawValue>>(schema) else { return walk.text };
    let root: Arc<RawValue> = Arc::from(root);
    let mut references: HashSet<String> = HashSet::new();
    let mut queue: VecDeque<(Arc<RawValue>, usize)> = VecDeque::from([(Arc::clone(&root), 0)]);
    let mut nodes = 0;
    while let Some((raw, depth)) = queue.pop_front() {
        let Some(node) = RawObject::parse(raw.get()) else { continue };
        nodes += 1;
        if nodes > MAX_NODES || walk.bytes >= MAX_BYTES {
            walk.text.truncated = true;
            break;
        }
        // The root describes the tool's arguments as a whole, which the tool's description does.
        if depth > 0 {
            walk.words_of(&node);
        }
        let mut next: Vec<Arc<RawValue>> = Vec::new();
        if let Ok(Some(reference)) = node.string("$ref")
            && references.insert(reference.clone())
            && let Some(target) = resolve(&root, &reference)
        {
            next.push(target);
        }
        for key in NAMED {
            let Ok(Some(named)) = node.object(key) else { continue };
            for (name, schema) in named.iter() {
                if key == "properties" {
                    walk.name(name);
                }
                next.push(Arc::clone(schema));
            }
        }
        for key in ONE {
            next.extend(node.get(key).cloned());
        }
        for key in LIST {
            // `items` may be a list too, in drafts before 2020-12.
            let list = node.get(key).and_then(|raw| serde_json::from_str(raw.get()).ok());
            next.extend(list.unwrap_or_else(Vec::new));
        }
        if let Some(items) = node.get("items")
            && let Ok(list) = serde_json::from_str::<Vec<Arc<RawValue>>>(items.get())
        {
            next.extend(list);
        }
        if depth < MAX_DEPTH {
            queue.extend(next.into_iter().map(|schema| (schema, depth + 1)));
        } else if !next.is_empty() {
            walk.text.truncated = true;
        }
    }
    walk.text
}

struct Walk {
    text: SchemaText,
    /// Words that are in already: a reference used twice adds nothing.
    seen: HashSet<String>,
    bytes: usize,
}

impl Walk {
    fn words_of(&mut self, node: &RawObject) {
        for key in ["title", "description"] {
            if let Ok(Some(text)) = node.string(key) {
                let cut = cut(&text, MAX_DESCRIPTION);
                if self.take(cut) {
                    self.text.descriptions.push(cut.to_owned());
                }
            }
        }
        let values = node.get("enum").map(|raw| raw.get()).unwrap_or("[]");
        let values: Vec<Box<RawValue>> = serde_json::from_str(values).unwrap_or_default();
        let constant = node.get("const").map(|raw| raw.get());
        for raw in values.iter().map(|raw| raw.get()).chain(constant) {
            if let Ok(value) = serde_json::from_str::<String>(raw)
                && self.take(&value)
            {
                self.text.values.push(value);
            }
        }
    }

    fn name(&mut self, name: &str) {
        // Marked apart: a parameter called like an enum value counts as both.
        if self.take(&format!("\0{name}")) {
            self.text.names.push(name.to_owned());
        }
    }

    fn take(&mut self, text: &str) -> bool {
        if text.is_empty() || self.seen.contains(text) {
            return false;
        }
        if self.bytes + text.len() > MAX_BYTES {
            self.text.truncated = true;
            return false;
        }
        self.bytes += text.len();
        self.seen.insert(text.to_owned());
        true
    }
}

/// The schema at a JSON pointer in a fragment (`#`, `#/$defs/x`; RFC 6901).
fn resolve(root: &Arc<RawValue>, reference: &str) -> Option<Arc<RawValue>> {
    let mut current = Arc::clone(root);
    let pointer = reference.strip_prefix('#')?;
    for part in pointer.split('/').skip(1).take(MAX_DEPTH) {
        let key = part.replace("~1", "/").replace("~0", "~").replace("%24", "$");
        let found = match RawObject::parse(current.get()) {
            Some(object) => object.get(&key).cloned(),
            None => serde_json::from_str::<Vec<Arc<RawValue>>>(current.get())
                .ok()
                .and_then(|list| list.get(key.parse::<usize>().ok()?).cloned()),
        };
        current = found?;
    }
    Some(current)
}

/// The longest beginning of `text` of at most `bytes` bytes.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_that_holds_schemas_is_followed() {
        for wrapped in [
            r#"{"properties": {"a": {"items": {"properties": {"due_date": {"description": "deadline"}}}}}}"#,
            r##"{"$ref": "#/$defs/t", "$defs": {"t": {"properties": {"due_date": {"description": "deadline"}}}}}"##,
            r#"{"anyOf": [{"type": "null"}, {"properties": {"due_date": {"title": "deadline"}}}]}"#,
            r#"{"oneOf": [{"allOf": [{"properties": {"due_date": {"enum": ["deadline", 3]}}}]}]}"#,
            r#"{"additionalProperties": {"properties": {"due_date": {"const": "deadline"}}}}"#,
            r#"{"items": [{"properties": {"due_date": {"description": "deadline"}}}]}"#,
        ] {
            let text = schema_text(wrapped);
            assert!(text.names.contains(&"due_date".to_owned()), "{wrapped}");
            let words = [&text.descriptions[..], &text.values[..]].concat();
            assert_eq!(words, ["deadline"], "{wrapped}");
            assert!(!text.truncated, "{wrapped}");
        }
    }

    #[test]
    fn self_reference_ends() {
        let text = schema_text(
            r##"{"properties": {"child": {"$ref": "#"}, "other": {"$ref": "#/properties/other"}}}"##,
        );
        assert_eq!(text.names, ["child", "other"]);
    }

    #[test]
    fn caps_hold_whatever_the_schema() {
        let mut deep = String::from("{}");
        for _ in 0..5_000 {
            deep = format!(r#"{{"properties":{{"x":{deep}}}}}"#);
        }
        assert!(schema_text(&deep).truncated);

        let wide: Vec<String> =
            (0..20_000).map(|i| format!(r#""p{i}": {{"description": "about {i}"}}"#)).collect();
        let text = schema_text(&format!(r#"{{"properties": {{{}}}}}"#, wide.join(",")));
        assert!(text.truncated);
        let bytes: usize = text.names.iter().chain(&text.descriptions).map(String::len).sum();
        assert!(bytes <= MAX_BYTES);

        let long =
            format!(r#"{{"properties": {{"a": {{"description": "{}"}}}}}}"#, "é".repeat(9_999));
        assert!(schema_text(&long).descriptions[0].len() <= MAX_DESCRIPTION);
    }
}
