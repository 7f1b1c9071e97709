//! The one place that turns a tool into its texts.

use super::tokenize::{split_identifier, terms};
use crate::catalog::{SchemaText, Tool, schema_text};

/// The text that is embedded for a tool: name in words, a colon, the description, the parameters'
/// names in words, then aliases and example requests.
///
/// This is the form on which the shipped models were trained (models/README.md).
pub(crate) fn dense_text(tool: &Tool) -> String {
    let schema = tool.parameters().map(schema_text).unwrap_or_default();
    let mut text = split_identifier(tool.name()).join(" ");
    text.push(':');
    let parts = std::iter::once(tool.description().to_owned())
        .chain(schema.names.iter().map(|name| split_identifier(name).join(" ")))
        .chain(tool.aliases().iter().cloned())
        .chain(tool.examples().iter().cloned());
    for part in parts.filter(|part| !part.trim().is_empty()) {
        text.push(' ');
        text.push_str(&part);
    }
    text
}

/// The lexical terms of a tool, field by field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldTerms {
    pub name: Vec<String>,
    pub parameters: Vec<String>,
    pub namespace: Vec<String>,
    pub description: Vec<String>,
}

/// The fields of `tool`: name (also title and aliases), parameters (names, descriptions, values of
/// string enums), namespace (also tags), description (also example requests).
pub(crate) fn field_terms(tool: &Tool) -> FieldTerms {
    let SchemaText { names, descriptions, values, .. } =
        tool.parameters().map(schema_text).unwrap_or_default();
    FieldTerms {
        name: all(std::iter::once(tool.name()).chain(tool.title()).chain(strs(tool.aliases()))),
        parameters: all(strs(&names).chain(strs(&descriptions)).chain(strs(&values))),
        namespace: all(std::iter::once(tool.namespace()).chain(strs(tool.tags()))),
        description: all(std::iter::once(tool.description()).chain(strs(tool.examples()))),
    }
}

fn all<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<String> {
    texts.flat_map(terms).collect()
}

fn strs(list: &[String]) -> impl Iterator<Item = &str> {
    list.iter().map(String::as_str)
}
