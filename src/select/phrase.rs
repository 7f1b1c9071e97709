//! Whole words in a text, whatever its case and script.

use std::ops::Range;

/// Bytes in which phrases are looked for: what a request wants is said at its beginning.
const READ: usize = 2048;

/// A text in lower case with plain apostrophes and single spaces.
#[derive(Clone)]
pub(super) struct Folded {
    pub text: String,
    /// Words of the whole text.
    pub words: usize,
}

/// Where a phrase may stand.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    /// At the beginning of a sentence only.
    pub first_only: bool,
    /// Also as the beginning of a word.
    pub open_end: bool,
}

impl Folded {
    pub(super) fn of(text: &str) -> Self {
        let words = text
            .split(|c: char| !c.is_alphanumeric() && !is_apostrophe(c))
            .filter(|word| word.chars().any(char::is_alphanumeric))
            .count();
        let head = &text[..text.floor_char_boundary(READ)];
        let mut folded = String::with_capacity(head.len());
        for c in head.chars() {
            match c {
                c if is_apostrophe(c) => folded.push('\''),
                '\n' => folded.push('.'),
                c if c.is_whitespace() && folded.ends_with(' ') => {}
                c if c.is_whitespace() => folded.push(' '),
                c => folded.extend(c.to_lowercase()),
            }
        }
        Self { text: folded, words }
    }

    /// Whether the words of `phrase` stand in the text, next to one another.
    pub(super) fn has(&self, phrase: &str) -> bool {
        let phrase = Self::of(phrase.trim()).text;
        !phrase.is_empty() && self.places(&phrase, Place::default()).next().is_some()
    }

    /// Where a folded phrase stands as whole words; in scripts without spaces, anywhere.
    pub(super) fn places<'a>(
        &'a self,
        phrase: &'a str,
        place: Place,
    ) -> impl Iterator<Item = Range<usize>> + 'a {
        let spaceless = |c: Option<char>| c.is_some_and(crate::text::is_cjk);
        let free_start = spaceless(phrase.chars().next());
        let free_end = place.open_end || spaceless(phrase.chars().next_back());
        self.text.match_indices(phrase).filter_map(move |(start, found)| {
            let end = start + found.len();
            let before = self.text[..start].chars().next_back();
            let after = self.text[end..].chars().next();
            let in_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '\'');
            if (in_word(before) && !free_start) || (in_word(after) && !free_end) {
                return None;
            }
            let head = self.text[..start].trim_end_matches([' ', '"', '\'', '(']);
            let begins = head.is_empty() || head.ends_with(['.', '!', '?', ':', ';', ',', '。']);
            (begins || !place.first_only).then_some(start..end)
        })
    }
}

fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '’' | '‘' | 'ʼ')
}
