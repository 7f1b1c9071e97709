//! What in a definition addresses the model behind the reader's back.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use super::texts;
use super::tool::ToolId;

const INSTRUCTIONS: &str = include_str!("instructions.txt");

/// Characters of a tool's own description, and of any other text in its definition, that nobody
/// needs to describe a tool.
const LONG_DESCRIPTION: usize = 8_000;
const LONG_TEXT: usize = 4_000;
/// Characters shown of what was found.
const EXCERPT: usize = 60;
/// Characters on either side in which a mark of direction has its letter.
const NEAR: usize = 16;
/// Findings that are kept of one tool.
const MAX_FINDINGS: usize = 20;

/// What kind of hidden text was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FindingKind {
    /// Characters without width, where no script needs them.
    Invisible,
    /// Unicode tag characters or selectors that can carry hidden text (U+E0000 to U+E0FFF).
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

/// All findings in the definition `json` of `tool`, in the order of its fields.
///
/// Every text of the definition is read, unknown fields and the keys of objects included, since a
/// provider may be sent all of it.
pub(super) fn findings(tool: &ToolId, json: &str) -> Arc<[Finding]> {
    let mut found = Vec::new();
    texts::each(
        json,
        |key| visible(key, EXCERPT),
        |place, text| {
            for (kind, excerpt) in look_at(text, place == "description") {
                if found.len() < MAX_FINDINGS {
                    let (tool, place) = (tool.clone(), place.to_owned());
                    found.push(Finding { tool, place, kind, excerpt });
                }
            }
        },
    );
    found.into()
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
    if let Some(excerpt) = instruction(&folded) {
        found.push((FindingKind::Instruction, excerpt));
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
    let beside =
        |is: fn(char) -> bool| neighbour(-1).is_some_and(is) || neighbour(1).is_some_and(is);
    let invisible_unless = |needed: bool| (!needed).then_some(FindingKind::Invisible);
    match c as u32 {
        0x09 | 0x0A | 0x0D => None,
        0x00..0x20 | 0x7F..0xA0 => Some(FindingKind::Control),
        0xE0000..=0xE0FFF => Some(FindingKind::TagCharacters),
        // One selector belongs to the sign before it; a run of them is a message.
        0xFE00..=0xFE0F => matches!(neighbour(-1), Some('\u{fe00}'..='\u{fe0f}'))
            .then_some(FindingKind::TagCharacters),
        0x202A..=0x202E | 0x2066..=0x2069 => Some(FindingKind::Bidi),
        // Joiners shape Arabic and Indic words and emoji, others put hieroglyphs together; between
        // plain letters they do nothing.
        0x200C | 0x200D | 0x13430..=0x1343F => {
            invisible_unless(!plain(neighbour(-1)) && !plain(neighbour(1)))
        }
        // Keeps marks on one letter apart.
        0x034F => invisible_unless(beside(is_combining_mark)),
        // Marks of direction belong to the letters that are written from the right.
        0x061C | 0x200E | 0x200F => invisible_unless(is_right_to_left(chars, place)),
        // Selectors of Mongolian letters.
        0x180B..=0x180D | 0x180F => {
            invisible_unless(matches!(neighbour(-1), Some('\u{1820}'..='\u{18aa}')))
        }
        // The space of Braille.
        0x2800 => invisible_unless(beside(|c| matches!(c, '\u{2801}'..='\u{28ff}'))),
        _ => invisible_unless(!is_blank(c) && has_width(c)),
    }
}

/// Whether the letter next to `place`, on one side at least, is of a script that runs from right to
/// left.
fn is_right_to_left(chars: &[(usize, char)], place: usize) -> bool {
    let is_so = |c: char| {
        matches!(c as u32,
            0x0590..=0x08FF | 0xFB1D..=0xFDFF | 0xFE70..=0xFEFC | 0x10800..=0x10FFF
            | 0x1E800..=0x1EFFF)
    };
    let letter = |(_, c): &&(usize, char)| c.is_alphabetic();
    let before = chars[place.saturating_sub(NEAR)..place].iter().rev().find(letter);
    let after = chars[place + 1..].iter().take(NEAR).find(letter);
    before.into_iter().chain(after).any(|&(_, c)| is_so(c))
}

/// Whether the character takes room, or may: what Unicode says to pass over when it cannot be shown
/// does not.
fn has_width(c: char) -> bool {
    !matches!(c as u32,
        0x00AD | 0x034F | 0x061C | 0x17B4 | 0x17B5 | 0x180B..=0x180F | 0x200B..=0x200F
        | 0x202A..=0x202E | 0x2060..=0x206F | 0xFE00..=0xFE0F | 0xFEFF | 0xFFF0..=0xFFFB
        | 0x13430..=0x1343F | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A | 0xE0000..=0xE0FFF)
}

/// Whether it is a letter or a sign that shows nothing.
fn is_blank(c: char) -> bool {
    matches!(c, '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{2800}')
}

/// Lower case, compatibility forms unified, without what has no width, single spaces.
fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    let mut push = |c: char| match c {
        '’' | '‘' => folded.push('\''),
        c if c.is_whitespace() || is_blank(c) => {
            if !folded.ends_with(' ') {
                folded.push(' ');
            }
        }
        c => folded.extend(c.to_lowercase()),
    };
    if text.is_ascii() {
        text.chars().for_each(&mut push);
    } else {
        // Tag characters spell ASCII.
        let plain = |c: char| match c as u32 {
            code @ 0xE0020..=0xE007E => char::from_u32(code - 0xE0000).unwrap_or(c),
            _ => c,
        };
        text.chars().map(plain).filter(|&c| has_width(c)).nfkc().for_each(&mut push);
    }
    folded
}

/// The words of a folded text, one space between them, with a full stop after each sentence: what
/// stands over two sentences is no phrase.
fn words(folded: &str) -> String {
    let mut words = String::with_capacity(folded.len());
    let mut chars = folded.chars().peekable();
    let mut before = ' ';
    while let Some(c) = chars.next() {
        let next = chars.peek().copied().unwrap_or(' ');
        let inside = before.is_alphanumeric() && next.is_alphanumeric();
        match c {
            c if c.is_alphanumeric() => words.push(c),
            // "don't", `ignore_previous`: one word.
            '\'' | '_' if inside => words.push(c),
            '.' | '!' | '?' if next == ' ' => words.push('.'),
            _ if words.ends_with(' ') => {}
            _ => words.push(' '),
        }
        before = c;
    }
    words
}

/// The first phrase in a folded text that addresses the model, with some text around it.
fn instruction(folded: &str) -> Option<String> {
    let words = words(folded);
    let (plain, signs) = phrases();
    let in_words = plain.iter().find_map(|phrase| Some((&*words, words.find(&**phrase)?)));
    let found =
        in_words.or_else(|| signs.iter().find_map(|phrase| Some((folded, folded.find(phrase)?))));
    let (text, at) = found?;
    let start = text.floor_char_boundary(at.saturating_sub(12));
    Some(visible(&text[start..], EXCERPT))
}

/// The phrases that are words alone, as [`words`] gives them, and those with signs of their own.
fn phrases() -> &'static (Vec<String>, Vec<&'static str>) {
    static PHRASES: OnceLock<(Vec<String>, Vec<&str>)> = OnceLock::new();
    PHRASES.get_or_init(|| {
        let lines = INSTRUCTIONS.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let is_plain = |c: char| c.is_alphanumeric() || " ',".contains(c);
        let (plain, signs): (Vec<&str>, Vec<&str>) =
            lines.partition(|line| line.chars().all(is_plain));
        (plain.into_iter().map(words).collect(), signs)
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
