//! The one place that turns a tool into its texts.

use super::tokenize::{joined_identifiers, terms, words_for_model};
use crate::catalog::{DEFAULT_NAMESPACE, SchemaText, Tool, schema_text};

/// The text that is embedded for a tool: name in words, a colon, title, description, the parameters'
/// names in words, namespace, aliases and example requests.
///
/// The name stands at the front `name_repeats` times: a model that sums its tokens hears it too
/// faintly once. This is near the form on which the shipped models were trained
/// (models/README.md); namespace and title were added since, and gained.
pub(crate) fn dense_text(tool: &Tool, name_repeats: u32) -> String {
    let schema = tool.parameters().map(schema_text).unwrap_or_default();
    let name = words_for_model(tool.name());
    let mut text = format!("{name}:");
    for _ in 1..name_repeats {
        text.push_str(&format!(" {name}:"));
    }
    let title = tool.title().map(|title| format!("{title}."));
    let parts = title
        .into_iter()
        .chain(std::iter::once(tool.description().to_owned()))
        .chain(schema.names.iter().map(|name| words_for_model(name)))
        .chain(namespace(tool).map(words_for_model))
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
    /// The name as one word, which counts once.
    pub whole_name: Vec<String>,
}

/// The fields of `tool`: name (also aliases), parameters (names, descriptions, values of string
/// enums), namespace (also tags), description (also title and example requests).
pub(crate) fn field_terms(tool: &Tool) -> FieldTerms {
    let SchemaText { names, descriptions, values, .. } =
        tool.parameters().map(schema_text).unwrap_or_default();
    FieldTerms {
        name: all(std::iter::once(tool.name()).chain(strs(tool.aliases()))),
        parameters: all(strs(&names).chain(strs(&descriptions)).chain(strs(&values))),
        namespace: all(namespace(tool).into_iter().chain(strs(tool.tags()))),
        description: all(std::iter::once(tool.description())
            .chain(tool.title())
            .chain(strs(tool.examples()))),
        whole_name: joined_identifiers(tool.name()),
    }
}

/// The end of a name that says what the tool does: after the last dot, slash, colon or double
/// underscore. A `{placeholder}` is no segment. The whole name when nothing is left.
pub(crate) fn last_segment(name: &str) -> &str {
    let parts = name.split(['.', '/', ':']).flat_map(|part| part.split("__"));
    parts
        .filter(|part| !part.trim_matches(['_', ' ']).is_empty())
        .filter(|part| !(part.starts_with('{') && part.ends_with('}')))
        .last()
        .unwrap_or(name)
}

/// The namespace, unless it is the one of tools that name none.
fn namespace(tool: &Tool) -> Option<&str> {
    Some(tool.namespace()).filter(|&namespace| namespace != DEFAULT_NAMESPACE)
}

fn all<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<String> {
    texts.flat_map(terms).collect()
}

fn strs(list: &[String]) -> impl Iterator<Item = &str> {
    list.iter().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_segment_says_what_the_tool_does() {
        for (name, segment) in [
            ("create_issue", "create_issue"),
            ("analytics.create_plot", "create_plot"),
            ("airline__get_user_details", "get_user_details"),
            ("GET /person/{person_id}", "person"),
            ("GET /movie/{id}/credits", "credits"),
            ("{x}", "{x}"),
            ("__", "__"),
        ] {
            assert_eq!(last_segment(name), segment);
        }
    }

    #[test]
    fn the_default_namespace_is_no_word() {
        let tool = Tool::builder("get_it").title("Get it").description("Does.").build().unwrap();
        assert_eq!(dense_text(&tool, 2), "get it: get it: Get it. Does.");
        assert!(field_terms(&tool).namespace.is_empty());
    }
}
