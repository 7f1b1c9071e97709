//! One tokeniser for names, descriptions and requests, used by both arms.

use std::cell::RefCell;
use std::sync::OnceLock;

use tantivy::tokenizer::{Language, SimpleTokenizer, Stemmer, TextAnalyzer, TokenStream as _};
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// The longest term that is kept, in bytes; longer ones are keys and blobs that nobody asks for.
const MAX_TERM: usize = 64;

/// Words that tell nothing of what is wanted, one a line.
///
/// Pronouns of the person spoken to belong here: "you", "your" and "yours" in requests drew in every
/// tool whose description addresses its reader.
const STOP_WORDS: &str = include_str!("stop_words.txt");

/// The words of an identifier: `getHTTPResponse2_v1` is `get HTTP Response 2 v 1`.
///
/// Cuts at every character that is neither letter nor digit, before a capital that begins a word
/// (also at the end of an acronym), and between letters and digits. Combining marks stay with their
/// letter.
pub(crate) fn split_identifier(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for part in text.split(|c: char| !is_word_char(c)) {
        let mut start = 0;
        let mut capitals = 0;
        let chars: Vec<(usize, char)> = part.char_indices().collect();
        for at in 1..chars.len() {
            let (previous, current) = (chars[at - 1].1, chars[at].1);
            let next = chars.get(at + 1).map(|&(_, c)| c);
            capitals = if previous.is_uppercase() { capitals + 1 } else { 0 };
            // A single capital is no acronym: OAuth is one word, XMLHttp two.
            let after_acronym = capitals > 1 && next.is_some_and(char::is_lowercase);
            let hump = current.is_uppercase()
                && previous.is_alphabetic()
                && (!previous.is_uppercase() || after_acronym);
            let digits = previous.is_numeric() != current.is_numeric()
                && !is_combining_mark(current)
                && !is_combining_mark(previous);
            if hump || digits {
                words.push(&part[start..chars[at].0]);
                start = chars[at].0;
            }
        }
        if start < part.len() {
            words.push(&part[start..]);
        }
    }
    words
}

/// The lexical terms of `text`, in order, repeats kept.
///
/// Words are split as [`split_identifier`] does, and an identifier of several words counts as a
/// whole besides; compatibility forms are unified (NFKD), marks dropped, letters lower-cased,
/// runs of Chinese, Japanese and Korean characters become bigrams, stop words go, and what is left is
/// stemmed by the English Snowball stemmer.
pub(crate) fn terms(text: &str) -> Vec<String> {
    let mut terms = Vec::new();
    // Folding after splitting: lower case has no humps.
    for chunk in text.split(|c: char| !is_word_char(c) && c != '_') {
        if chunk.is_empty() {
            continue;
        }
        let words = split_identifier(chunk);
        for word in &words {
            push_word(&mut terms, word);
        }
        if words.len() > 1 && chunk.len() <= MAX_TERM && !chunk.chars().any(is_cjk) {
            push_term(&mut terms, words.concat());
        }
    }
    terms
}

fn push_word(terms: &mut Vec<String>, word: &str) {
    let mut plain = String::with_capacity(word.len());
    let mut run: Vec<char> = Vec::new();
    for c in word.chars() {
        if is_cjk(c) {
            push_term(terms, std::mem::take(&mut plain));
            run.push(c);
        } else {
            push_bigrams(terms, &mut run);
            plain.push(c);
        }
    }
    push_bigrams(terms, &mut run);
    push_term(terms, plain);
}

fn push_bigrams(terms: &mut Vec<String>, run: &mut Vec<char>) {
    match run.as_slice() {
        [] => {}
        [single] => terms.push(single.to_string()),
        many => terms.extend(many.windows(2).map(|pair| pair.iter().collect::<String>())),
    }
    run.clear();
}

fn push_term(terms: &mut Vec<String>, word: String) {
    if word.is_empty() || word.len() > MAX_TERM {
        return;
    }
    let folded = fold(&word);
    if folded.is_empty() || is_stop_word(&folded) {
        return;
    }
    terms.push(stem(folded));
}

/// Lower case without marks and compatibility forms.
fn fold(word: &str) -> String {
    if word.is_ascii() {
        return word.to_ascii_lowercase();
    }
    word.nfkd().filter(|&c| !is_combining_mark(c)).flat_map(char::to_lowercase).collect()
}

fn stem(word: String) -> String {
    thread_local! {
        static STEMMER: RefCell<TextAnalyzer> = RefCell::new(
            TextAnalyzer::builder(SimpleTokenizer::default())
                .filter(Stemmer::new(Language::English))
                .build(),
        );
    }
    if !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word;
    }
    STEMMER.with_borrow_mut(|stemmer| {
        let mut stream = stemmer.token_stream(&word);
        if stream.advance() { stream.token().text.clone() } else { word.clone() }
    })
}

fn is_stop_word(word: &str) -> bool {
    static WORDS: OnceLock<std::collections::HashSet<&str>> = OnceLock::new();
    WORDS
        .get_or_init(|| STOP_WORDS.lines().filter(|line| !line.is_empty()).collect())
        .contains(word)
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || is_combining_mark(c)
}

/// Characters of scripts that are written without spaces between words.
fn is_cjk(c: char) -> bool {
    matches!(c as u32,
        0x3040..=0x30FF       // Hiragana, Katakana
        | 0x31F0..=0x31FF     // Katakana extensions
        | 0x3400..=0x4DBF     // CJK extension A
        | 0x4E00..=0x9FFF     // CJK unified ideographs
        | 0xAC00..=0xD7AF     // Hangul syllables
        | 0xF900..=0xFAFF     // compatibility ideographs
        | 0xFF66..=0xFF9D     // half-width Katakana
        | 0x0E00..=0x0E7F     // Thai
        | 0x20000..=0x2FA1F   // further ideographs
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_split_at_every_kind_of_joint() {
        for (text, words) in [
            ("getHTTPResponse2_v1", "get HTTP Response 2 v 1"),
            ("crm.listDeals-byOwner", "crm list Deals by Owner"),
            ("XMLHttpRequest", "XML Http Request"),
            ("GET /search/person", "GET search person"),
            ("__init__", "init"),
            ("straßeÜber", "straße Über"),
            ("OAuth2", "OAuth 2"),
            ("", ""),
        ] {
            assert_eq!(split_identifier(text).join(" "), words, "{text}");
        }
    }

    #[test]
    fn terms_are_folded_stemmed_and_without_stop_words() {
        assert_eq!(terms("Show the open Incidents"), ["show", "open", "incid"]);
        assert_eq!(terms("create_issue"), ["creat", "issu", "createissu"]);
        assert_eq!(terms("Café ﬁles"), ["cafe", "file"]);
        assert!(terms("the of and your").is_empty());
        assert!(terms("\0 \u{200b} !!! —").is_empty());
    }

    #[test]
    fn scripts_without_spaces_become_bigrams() {
        assert_eq!(terms("法令を調べて"), ["法令", "令を", "を調", "調べ", "べて"]);
        assert_eq!(terms("税"), ["税"]);
        assert_eq!(terms("get法令"), ["get", "法令"]);
    }

    #[test]
    fn blobs_are_no_terms() {
        assert!(terms(&"a".repeat(1_000_000)).is_empty());
    }
}
