//! Findings on one tool's text.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use super::{Add, Rule, language as spoken};
use crate::catalog::{Snapshot, Tool, readable, schema_text};
use crate::eval::baseline::definition_tokens;
use crate::text::stems;

/// Words by which a description says when to use a tool.
const USAGE: [&str; 16] = [
    "when",
    "use this",
    "use to",
    "used to",
    "use it",
    "use for",
    "useful",
    "if you",
    "if the",
    "before",
    "after",
    "instead",
    "prefer",
    "for example",
    "e.g.",
    "whenever",
];

/// Abbreviations that everybody says.
const COMMON: [&str; 34] = [
    "API", "URL", "ID", "IDS", "HTTP", "HTTPS", "JSON", "XML", "CSV", "PDF", "HTML", "SQL", "UUID",
    "UI", "IP", "DNS", "SSH", "USD", "EUR", "US", "UK", "UTC", "ISO", "AI", "NASA", "TV", "GPS",
    "AWS", "CPU", "OK", "NOT", "AND", "OR", "MCP",
];

pub(super) fn check(snapshot: &Snapshot, max_tokens: usize, add: &mut Add<'_>) {
    let languages: Vec<Option<Script>> =
        snapshot.tools().map(|tool| main_script(tool.description())).collect();
    let common = most_common(languages.iter().flatten().copied());
    let spoken: Vec<Option<&str>> =
        snapshot.tools().map(|tool| spoken::of(tool.description())).collect();
    let most = spoken::most_common(&spoken);
    for (row, tool) in snapshot.tools().enumerate() {
        description(row, tool, add);
        parameters(row, tool, add);
        hidden(row, tool, add);
        language(row, tool, languages[row], common, add);
        if let (Some(own), Some(most)) = (spoken[row], most)
            && own != most
        {
            let message = format!("its description is in {own}, most of the catalog in {most}");
            add(Rule::MixedLanguages, row, None, 1.0, message);
        }
        let tokens = definition_tokens(tool);
        if tokens > max_tokens {
            let message = format!("it takes {tokens} tokens, more than {max_tokens}");
            add(Rule::ManyTokens, row, None, tokens as f64, message);
        }
    }
    names(snapshot, add);
}

fn description(row: usize, tool: &Tool, add: &mut Add<'_>) {
    let text = tool.description().trim();
    if text.is_empty() {
        let message = "it has no description: only words of its name find it".to_owned();
        return add(Rule::EmptyDescription, row, None, 0.0, message);
    }
    let said: BTreeSet<String> = stems(text).into_iter().collect();
    let name: BTreeSet<String> = stems(tool.name()).into_iter().collect();
    if !said.is_empty() && said.is_subset(&name) {
        let message = format!("its description \"{}\" says no more than its name", shown(text));
        add(Rule::RepeatsName, row, None, 0.0, message);
    } else if said.len() < 3 && !is_unspaced(text) {
        let message = format!("its description is \"{}\"", shown(text));
        add(Rule::ShortDescription, row, None, -(said.len() as f64), message);
    }
    let words: Vec<&str> =
        text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let mut abbreviations: Vec<&str> = words
        .iter()
        .copied()
        .filter(|word| (2..=6).contains(&word.len()) && !COMMON.contains(word))
        .filter(|word| word.chars().all(|c| c.is_ascii_uppercase()))
        .collect();
    abbreviations.dedup();
    let share = abbreviations.len() as f64 / words.len().max(1) as f64;
    if abbreviations.len() >= 3 && share >= 0.2 {
        abbreviations.truncate(6);
        let message = format!(
            "{:.0} % of its description's words are abbreviations ({})",
            share * 100.0,
            abbreviations.join(", ")
        );
        add(Rule::Jargon, row, None, share, message);
    }
    let lower = text.to_lowercase();
    // The words are English ones; a dash or a curly quote is in any language.
    let is_english = lower.chars().all(|c| c.is_ascii() || !c.is_alphabetic());
    if said.len() >= 3 && is_english && !USAGE.iter().any(|hint| lower.contains(hint)) {
        let message = "its description says what it does but not when to use it".to_owned();
        add(Rule::NoUsage, row, None, 0.0, message);
    }
}

/// Whether `text` is more than a word of a script without spaces between words.
fn is_unspaced(text: &str) -> bool {
    main_script(text) == Some(Script::EastAsian) && text.chars().count() >= 6
}

fn parameters(row: usize, tool: &Tool, add: &mut Add<'_>) {
    let Some(schema) = tool.parameters() else {
        return add(Rule::NoSchema, row, None, 0.0, "it has no schema".to_owned());
    };
    if schema_text(schema).truncated {
        let message = format!(
            "its schema of {} bytes is cut short in the index: words at its end do not find it",
            schema.len()
        );
        add(Rule::SchemaCaps, row, None, schema.len() as f64, message);
    }
    let Ok(schema) = serde_json::from_str::<Value>(schema) else { return };
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    let described = |value: &Value| {
        ["description", "title", "$ref"].iter().any(|key| {
            value.get(key).and_then(Value::as_str).is_some_and(|text| !text.trim().is_empty())
        })
    };
    let bare: Vec<&str> = properties
        .iter()
        .filter(|(_, value)| !described(value))
        .map(|(name, _)| name.as_str())
        .collect();
    if !bare.is_empty() {
        let shown = bare.iter().take(6).copied().collect::<Vec<_>>().join(", ");
        let more = if bare.len() > 6 { ", ..." } else { "" };
        let message = format!(
            "{} of its {} parameters have no description ({shown}{more})",
            bare.len(),
            properties.len()
        );
        add(Rule::UndescribedParameter, row, None, bare.len() as f64, message);
    }
}

fn hidden(row: usize, tool: &Tool, add: &mut Add<'_>) {
    let mut found: BTreeMap<&str, BTreeSet<char>> = BTreeMap::new();
    let mut look = |what: &'static str, text: &str| {
        let chars: Vec<char> = text.chars().collect();
        for (at, &c) in chars.iter().enumerate() {
            if is_hidden(c, at.checked_sub(1).map(|at| chars[at])) {
                found.entry(what).or_default().insert(c);
            }
        }
    };
    look("name", tool.name());
    look("description", tool.description());
    if let Some(Ok(schema)) = tool.parameters().map(serde_json::from_str::<Value>) {
        let mut queue = vec![&schema];
        while let Some(value) = queue.pop() {
            match value {
                Value::String(text) => look("schema", text),
                Value::Array(list) => queue.extend(list),
                Value::Object(fields) => {
                    for (key, value) in fields {
                        look("schema", key);
                        queue.push(value);
                    }
                }
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
    }
    for (what, chars) in found {
        let codes: Vec<String> =
            chars.iter().take(5).map(|&c| format!("U+{:04X}", u32::from(c))).collect();
        let message = format!("its {what} has characters that nobody sees ({})", codes.join(", "));
        add(Rule::HiddenCharacters, row, None, chars.len() as f64, message);
    }
}

/// Whether `c` takes no space and is no part of ordinary writing where it stands.
fn is_hidden(c: char, before: Option<char>) -> bool {
    match c {
        '\n' | '\t' | '\r' => false,
        // Joiners belong to Indic and Arabic letters and to composed emoji.
        '\u{200c}' | '\u{200d}' => before.is_none_or(|before| before.is_ascii()),
        '\u{ad}'
        | '\u{180e}'
        | '\u{200b}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' => true,
        c => c.is_control(),
    }
}

/// Writing systems that tell languages apart well enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Script {
    Latin,
    Cyrillic,
    Greek,
    Arabic,
    Hebrew,
    Indic,
    EastAsian,
}

impl Script {
    fn of(c: char) -> Option<Self> {
        Some(match u32::from(c) {
            0x41..=0x5A | 0x61..=0x7A | 0xC0..=0x24F | 0x1E00..=0x1EFF => Self::Latin,
            0x370..=0x3FF => Self::Greek,
            0x400..=0x52F => Self::Cyrillic,
            0x590..=0x5FF => Self::Hebrew,
            0x600..=0x77F => Self::Arabic,
            0x900..=0xDFF => Self::Indic,
            0x3040..=0x30FF | 0x3400..=0x9FFF | 0xAC00..=0xD7AF | 0x20000..=0x2FA1F => {
                Self::EastAsian
            }
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Latin => "Latin",
            Self::Cyrillic => "Cyrillic",
            Self::Greek => "Greek",
            Self::Arabic => "Arabic",
            Self::Hebrew => "Hebrew",
            Self::Indic => "Indic",
            Self::EastAsian => "East Asian",
        }
    }
}

fn scripts(text: &str) -> BTreeMap<Script, usize> {
    let mut counts = BTreeMap::new();
    for script in text.chars().filter_map(Script::of) {
        *counts.entry(script).or_default() += 1;
    }
    counts
}

fn main_script(text: &str) -> Option<Script> {
    scripts(text).into_iter().max_by_key(|&(_, count)| count).map(|(script, _)| script)
}

fn most_common(scripts: impl Iterator<Item = Script>) -> Option<Script> {
    let mut counts: BTreeMap<Script, usize> = BTreeMap::new();
    for script in scripts {
        *counts.entry(script).or_default() += 1;
    }
    counts.into_iter().max_by_key(|&(_, count)| count).map(|(script, _)| script)
}

fn language(
    row: usize,
    tool: &Tool,
    own: Option<Script>,
    common: Option<Script>,
    add: &mut Add<'_>,
) {
    let counts = scripts(tool.description());
    let letters: usize = counts.values().sum();
    // A loanword or a symbol is no second language; single East Asian letters are words.
    let mixed: Vec<&str> = counts
        .iter()
        .filter(|&(_, &count)| count >= 4 && count * 10 >= letters)
        .map(|(script, _)| script.name())
        .collect();
    if mixed.len() > 1 {
        let message = format!("its description mixes {} letters", mixed.join(" and "));
        add(Rule::MixedLanguages, row, None, mixed.len() as f64, message);
    } else if let (Some(own), Some(common)) = (own, common)
        && own != common
    {
        let message = format!(
            "its description is in {} letters, most of the catalog in {}",
            own.name(),
            common.name()
        );
        add(Rule::MixedLanguages, row, None, 1.0, message);
    }
}

fn names(snapshot: &Snapshot, add: &mut Add<'_>) {
    let mut by_plain: HashMap<String, Vec<usize>> = HashMap::new();
    let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (row, tool) in snapshot.tools().enumerate() {
        by_plain.entry(readable(tool.id())).or_default().push(row);
        by_name.entry(tool.name()).or_default().push(row);
    }
    let mut collisions: Vec<&Vec<usize>> =
        by_plain.values().filter(|rows| rows.len() > 1).collect();
    collisions.sort();
    for rows in collisions {
        for pair in rows.windows(2) {
            let name = snapshot.names().provider_name(pair[1]);
            let other = snapshot.tool(pair[0]).id();
            let message = format!(
                "made safe for providers it is called like {other}; it is told apart as '{name}' only"
            );
            add(Rule::NameCollision, pair[1], Some(pair[0]), 0.0, message);
        }
    }
    for (name, rows) in by_name.into_iter().filter(|(_, rows)| rows.len() > 1) {
        let message = format!("{} namespaces have a tool called '{name}'", rows.len());
        add(Rule::SharedName, rows[0], rows.get(1).copied(), rows.len() as f64, message);
    }
}

fn shown(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(60).collect()
}
