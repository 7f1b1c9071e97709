//! The catalog on a page: what there is, as detailed as a budget allows.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::policy::Eligible;
use crate::catalog::{Snapshot, Tool};
use crate::text::{TokenCount, TokenCounter};

/// Characters of a first line.
const LINE: usize = 240;
/// Characters of a first sentence.
const SENTENCE: usize = 100;

/// How much an [`Outline`] tells of each tool, from all to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Detail {
    /// Groups with the number of their tools.
    Groups,
    /// Names.
    Names,
    /// `name: first sentence`, of at most about 100 characters.
    Sentences,
    /// `name: first line`, of at most about 240 characters.
    Lines,
}

/// How long an [`Outline`] may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Budget {
    /// As long as it is.
    Unlimited,
    /// So many bytes.
    Bytes(usize),
    /// So many tokens, by the engine's counter.
    Tokens(TokenCount),
}

/// All tools that a caller may use, on one page, with the most detail that fits a budget.
///
/// The page is given whole or at the next lower detail, never cut inside; only the list of groups
/// itself is cut, and then says how many groups and tools are left out. Tools stand in catalog order
/// and groups in the order of their first tool, so that the same catalog gives the same bytes.
///
/// # Example
/// ```
/// use toolrack::{Budget, Catalog, Detail, Engine, RuntimeContext};
///
/// let catalog = Catalog::parse(
///     r#"[{"name": "add", "namespace": "math", "description": "Add numbers. Takes a list."},
///         {"name": "mail", "description": "Send a mail."}]"#)?;
/// let engine = Engine::builder(catalog).build()?;
/// let everybody = RuntimeContext::default();
/// let page = engine.outline(&everybody, Detail::Sentences, Budget::Unlimited);
/// assert_eq!(page.text, "math__add: Add numbers.\nmail: Send a mail.");
/// let page = engine.outline(&everybody, Detail::Sentences, Budget::Bytes(20));
/// assert_eq!((page.detail, page.text.as_str()), (Detail::Names, "math__add\nmail"));
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Outline {
    /// What the text tells of each tool.
    pub detail: Detail,
    /// One tool or group a line; empty when there is no tool, or when not even the number of groups
    /// fits.
    pub text: String,
    /// Tools that the caller may use.
    pub tools: usize,
    /// Their groups: namespaces.
    pub groups: usize,
}

impl fmt::Display for Outline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Outline {
    pub(crate) fn of(
        snapshot: &Snapshot,
        eligible: &Eligible,
        most: Detail,
        budget: Budget,
        counter: &dyn TokenCounter,
    ) -> Self {
        let rows: Vec<usize> = (0..snapshot.len()).filter(|&row| eligible.contains(row)).collect();
        let groups = groups(snapshot, &rows);
        let fits = |text: &str| match budget {
            Budget::Unlimited => true,
            Budget::Bytes(bytes) => text.len() <= bytes,
            Budget::Tokens(tokens) => counter.count(text) <= tokens,
        };
        let page = |detail, text| Self { detail, text, tools: rows.len(), groups: groups.len() };
        for detail in [Detail::Lines, Detail::Sentences, Detail::Names] {
            if detail > most {
                continue;
            }
            let lines: Vec<String> = rows.iter().map(|&row| line(snapshot, row, detail)).collect();
            let text = lines.join("\n");
            if fits(&text) {
                return page(detail, text);
            }
        }
        let whole: Vec<String> =
            groups.iter().map(|(name, tools)| format!("{name} ({tools})")).collect();
        // The longest beginning that fits; what is left out is told.
        for kept in (0..=whole.len()).rev() {
            let mut lines = whole[..kept].to_vec();
            if kept < whole.len() {
                let tools: usize = groups[kept..].iter().map(|(_, tools)| tools).sum();
                let more = if kept == 0 { "" } else { "more " };
                lines.push(format!("{} {more}groups ({tools})", whole.len() - kept));
            }
            let text = lines.join("\n");
            if fits(&text) {
                return page(Detail::Groups, text);
            }
        }
        page(Detail::Groups, String::new())
    }
}

/// The namespaces of `rows` with the number of their tools, in the order of their first tool.
pub(crate) fn groups<'a>(snapshot: &'a Snapshot, rows: &[usize]) -> Vec<(&'a str, usize)> {
    let mut groups: Vec<(&str, usize)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for &row in rows {
        let namespace = snapshot.tool(row).namespace();
        let place = *places.entry(namespace).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, tools)) => *tools += 1,
            None => groups.push((namespace, 1)),
        }
    }
    groups
}

fn line(snapshot: &Snapshot, row: usize, detail: Detail) -> String {
    let name = snapshot.names().provider_name(row);
    let text = match detail {
        Detail::Lines => first_line(snapshot.tool(row).description(), LINE),
        Detail::Sentences => first_sentence(snapshot.tool(row)),
        Detail::Names | Detail::Groups => String::new(),
    };
    if text.is_empty() { name.to_owned() } else { format!("{name}: {text}") }
}

/// The first sentence of a tool's description, of at most about 100 characters.
pub(crate) fn first_sentence(tool: &Tool) -> String {
    let line = first_line(tool.description(), usize::MAX);
    let mut end = line.len();
    let mut chars = line.char_indices().peekable();
    for (at, c) in chars.by_ref() {
        let after = at + c.len_utf8();
        let stops = match c {
            '。' | '！' | '？' => true,
            // An abbreviation goes on in lower case.
            '.' | '!' | '?' => {
                let mut rest = line[after..].chars();
                rest.next().is_some_and(char::is_whitespace)
                    && rest.next().is_some_and(|next| !next.is_lowercase())
            }
            _ => false,
        };
        if stops {
            end = after;
            break;
        }
    }
    first_line(&line[..end], SENTENCE)
}

/// The first line of a description, at most `most` characters and a mark, cut at a word.
///
/// Control characters become spaces: a line is a line.
pub(crate) fn first_line(description: &str, most: usize) -> String {
    let line = description.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let Some((end, _)) = line.char_indices().nth(most) else { return line };
    let cut = &line[..end];
    let cut = cut.rsplit_once(' ').map_or(cut, |(head, _)| head);
    format!("{cut}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(text: &str) -> String {
        first_sentence(&Tool::builder("t").description(text).build().unwrap())
    }

    #[test]
    fn a_sentence_ends_where_the_next_begins() {
        for (text, first) in [
            ("Add numbers. Takes a list.", "Add numbers."),
            ("Reads files, e.g. notes. And more.", "Reads files, e.g. notes."),
            ("Version 2.0 of it", "Version 2.0 of it"),
            ("法令を検索します。詳細は別。", "法令を検索します。"),
            ("\n\n  Second line first.\nThird", "Second line first."),
            ("", ""),
        ] {
            assert_eq!(sentence(text), first);
        }
        let long = sentence(&"word ".repeat(100));
        assert!(long.len() <= SENTENCE + '…'.len_utf8() && long.ends_with("word…"), "{long}");
        // A letter is a letter in every script.
        assert_eq!(sentence(&"字".repeat(100)), "字".repeat(100));
        assert_eq!(sentence(&"字".repeat(101)), format!("{}…", "字".repeat(100)));
    }
}
