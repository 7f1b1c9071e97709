//! What in a definition addresses the model behind the reader's back.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use unicode_normalization::UnicodeNormalization as _;

use super::tool::{Tool, ToolId};

const INSTRUCTIONS: &str = include_str!("instructions.txt");

/// Characters of a tool's own description, and of any other text in its definition, that nobody
/// needs to describe a tool.
const LONG_DESCRIPTION: usize = 8_000;
const LONG_TEXT: usize = 4_000;
/// Characters shown of what was found.
const EXCERPT: usize = 60;
/// Findings that are kept of one tool.
const MAX_FINDINGS: usize = 20;

/// What kind of hidden text was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FindingKind {
    /// Characters without width, where no script needs them.
    Invisible,
    /// Unicode tag characters (U+E0000 to U+E007F) or selectors that can carry hidden text.
    TagCharacters,
    /// Characters that reorder the text around them.
    Bidi,
    /// Control characters other than line breaks and tabs.
    Control,
    /// A phrase that addresses the model: "ignore previous instructions".
    Instruction,
    /// More text than a description needs.
    Oversized,
}

/// Something in a tool's definition that a person should look at.
///
/// A finding is a flag: the tool stays as it is, unless the
/// [`TrustPolicy`](crate::TrustPolicy) withholds flagged tools.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finding {
    /// In which tool.
    pub tool: ToolId,
    /// Where in its definition: `description`, `parameters.properties.path.description`.
    pub place: String,
    /// What kind.
    pub kind: FindingKind,
    /// What was found, with every character that is not plain written as an escape.
    pub excerpt: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            FindingKind::Invisible => "invisible characters",
            FindingKind::TagCharacters => "tag characters",
            FindingKind::Bidi => "characters that reorder text",
            FindingKind::Control => "control characters",
            FindingKind::Instruction => "an instruction to the model",
            FindingKind::Oversized => "a very long text",
        };
        write!(f, "{} at {}: {kind}: {}", self.tool, self.place, self.excerpt)
    }
}

/// All findings in the definition of `tool`, in the order of its fields.
///
/// Every text of the definition is read, unknown fields and the keys of objects included, since a
/// provider may be sent all of it.
pub(crate) fn findings(tool: &Tool) -> Arc<[Finding]> {
    let text = serde_json::to_string(tool).unwrap_or_default();
    let mut found = Vec::new();
    let mut look = |place: &str, text: &str| {
        for (kind, excerpt) in look_at(text, place == "description") {
            if found.len() < MAX_FINDINGS {
                let (tool, place) = (tool.id().clone(), place.to_owned());
                found.push(Finding { tool, place, kind, excerpt });
            }
        }
    };
    match serde_json::from_str::<Value>(&text) {
        Ok(Value::Object(fields)) => {
            for (key, value) in fields.iter().filter(|(key, _)| *key != "policy") {
                walk(key, value, &mut look);
            }
        }
        // Deeper than the parser goes: look at the text as a whole.
        _ => look("definition", &text),
    }
    found.into()
}

fn walk(place: &str, value: &Value, look: &mut dyn FnMut(&str, &str)) {
    match value {
        Value::String(text) => look(place, text),
        Value::Array(list) => {
            for (index, item) in list.iter().enumerate() {
                walk(&format!("{place}[{index}]"), item, look);
            }
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                let place = format!("{place}.{}", visible(key, EXCERPT));
                look(&place, key);
                walk(&place, value, look);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// At most one finding of each kind in one text.
fn look_at(text: &str, is_description: bool) -> Vec<(FindingKind, String)> {
    let mut found: Vec<(FindingKind, String)> = Vec::new();
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    if !text.is_ascii() || text.bytes().any(|byte| byte.is_ascii_control()) {
        for place in 0..chars.len() {
            let Some(kind) = hidden(&chars, place) else { continue };
            if found.iter().all(|(other, _)| *other != kind) {
                let from = chars[place.saturating_sub(12)].0;
                found.push((kind, visible(&text[from..], EXCERPT)));
            }
        }
    }
    let folded = fold(text);
    if let Some(phrase) = phrases().iter().find(|phrase| folded.contains(**phrase)) {
        let at = folded.find(phrase).unwrap_or_default();
        let start = folded.floor_char_boundary(at.saturating_sub(12));
        found.push((FindingKind::Instruction, visible(&folded[start..], EXCERPT)));
    }
    let most = if is_description { LONG_DESCRIPTION } else { LONG_TEXT };
    if chars.len() > most {
        found.push((FindingKind::Oversized, format!("{} characters", chars.len())));
    }
    found
}

/// What is wrong with the character at `place`.
fn hidden(chars: &[(usize, char)], place: usize) -> Option<FindingKind> {
    let c = chars[place].1;
    let neighbour = |offset: isize| {
        let at = place.checked_add_signed(offset)?;
        chars.get(at).map(|&(_, c)| c)
    };
    let plain = |c: Option<char>| c.is_none_or(|c| c.is_ascii());
    match c as u32 {
        0x09 | 0x0A | 0x0D => None,
        0x00..0x20 | 0x7F..0xA0 => Some(FindingKind::Control),
        0xE0000..=0xE007F | 0xE0100..=0xE01EF => Some(FindingKind::TagCharacters),
        // One selector belongs to the sign before it; a run of them is a message.
        0xFE00..=0xFE0F if matches!(neighbour(-1), Some('\u{fe00}'..='\u{fe0f}')) => {
            Some(FindingKind::TagCharacters)
        }
        0x202A..=0x202E | 0x2066..=0x2069 => Some(FindingKind::Bidi),
        0x200B | 0x2060..=0x2064 | 0x180E | 0xFEFF | 0x115F | 0x1160 | 0x3164 | 0xFFA0 => {
            Some(FindingKind::Invisible)
        }
        // Joiners shape Arabic and Indic words and emoji; between plain letters they do nothing.
        0x200C | 0x200D if plain(neighbour(-1)) || plain(neighbour(1)) => {
            Some(FindingKind::Invisible)
        }
        _ => None,
    }
}

/// Lower case, compatibility forms unified, without what has no width, single spaces.
fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    let mut push = |c: char| match c {
        '’' | '‘' => folded.push('\''),
        c if c.is_whitespace() && folded.ends_with(' ') => {}
        c if c.is_whitespace() => folded.push(' '),
        c => folded.extend(c.to_lowercase()),
    };
    if text.is_ascii() {
        text.chars().for_each(&mut push);
    } else {
        let has_width = |c: &char| {
            !matches!(*c as u32,
                0x200B..=0x200F | 0x202A..=0x202E | 0x2060..=0x2069 | 0xFEFF | 0x00AD
                | 0xFE00..=0xFE0F | 0xE0100..=0xE01EF)
        };
        // Tag characters spell ASCII.
        let plain = |c: char| match c as u32 {
            code @ 0xE0020..=0xE007E => char::from_u32(code - 0xE0000).unwrap_or(c),
            _ => c,
        };
        text.chars().filter(has_width).map(plain).nfkc().for_each(&mut push);
    }
    folded
}

fn phrases() -> &'static [&'static str] {
    static PHRASES: OnceLock<Vec<&str>> = OnceLock::new();
    PHRASES.get_or_init(|| {
        let lines = INSTRUCTIONS.lines().map(str::trim);
        lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
    })
}

/// `text` cut to `most` characters, with what is not plainly visible as an escape.
fn visible(text: &str, most: usize) -> String {
    let mut shown = String::new();
    for c in text.chars().take(most) {
        let is_hidden = hidden(&[(0, c)], 0).is_some() || c.is_control();
        if is_hidden { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    if text.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}
