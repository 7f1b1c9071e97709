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
    split(text, true)
}

/// [`split_identifier`] that leaves digits with their letters (`v1`), as the models were trained.
pub(crate) fn words_for_model(text: &str) -> String {
    split(text, false).join(" ")
}

fn split(text: &str, at_digits: bool) -> Vec<&str> {
    let mut words = Vec::new();
    for part in text.split(|c: char| !is_word_char(c)) {
        let mut start = 0;
        let mut capitals = 0;
        let mut previous = '\0';
        let mut chars = part.char_indices().peekable();
        while let Some((at, current)) = chars.next() {
            if at > 0 {
                let next = chars.peek().map(|&(_, c)| c);
                capitals = if previous.is_uppercase() { capitals + 1 } else { 0 };
                // A single capital is no acronym: OAuth is one word, XMLHttp two.
                let after_acronym = capitals > 1 && next.is_some_and(char::is_lowercase);
                let hump = current.is_uppercase()
                    && (previous.is_alphanumeric())
                    && (!previous.is_uppercase() || after_acronym)
                    && (at_digits
                        || !previous.is_numeric()
                        || next.is_some_and(char::is_lowercase));
                let digits = at_digits
                    && previous.is_numeric() != current.is_numeric()
                    && !is_combining_mark(current)
                    && !is_combining_mark(previous);
                if hump || digits {
                    words.push(&part[start..at]);
                    start = at;
                }
            }
            previous = current;
        }
        if start < part.len() {
            words.push(&part[start..]);
        }
    }
    words
}

/// The lexical terms of `text`, in order, repeats kept.
///
/// Words are split as [`split_identifier`] does; compatibility forms are unified, marks dropped,
/// letters lower-cased; stop words go. Every word then gives two terms, its stem (English Snowball)
/// and, behind [`EXACT`], itself, so that the same word counts more than a relative of it. Runs of
/// Chinese, Japanese, Korean and Thai characters become bigrams, which count as words.
pub(crate) fn terms(text: &str) -> Vec<String> {
    let words = content_words(text);
    let stems = stem_all(&words);
    stems.into_iter().zip(words).flat_map(|(stem, word)| [stem, exact(&word)]).collect()
}

/// The stems of `text`, in order, repeats kept: [`terms`] without the words themselves.
pub(crate) fn stems(text: &str) -> Vec<String> {
    stem_all(&content_words(text))
}

/// How many words of `text` are no stop words.
pub(crate) fn count_content_words(text: &str) -> usize {
    content_words(text).len()
}

/// The folded words of `text` that are no stop words.
fn content_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for_each_word(text, |word| {
        if !is_stop_word(&word) {
            words.push(word);
        }
        true
    });
    words
}

/// The identifiers of several words in `text`, each as one exact term.
pub(crate) fn joined_identifiers(text: &str) -> Vec<String> {
    let chunks = text.split(|c: char| !is_word_char(c) && c != '_');
    chunks
        .filter(|chunk| chunk.len() <= MAX_TERM && !chunk.chars().any(is_cjk))
        .map(split_identifier)
        .filter(|words| words.len() > 1)
        .map(|words| exact(&fold(&words.concat())))
        .collect()
}

/// Whether `text` is a list of at least `least` keywords: words without any that only hold a
/// sentence together. Scripts without spaces have no such words, and are never taken for a list.
pub(crate) fn is_keyword_list(text: &str, least: usize) -> bool {
    let mut words = 0;
    let mut only_keywords = true;
    for_each_word(text, |word| {
        words += 1;
        only_keywords = !is_stop_word(&word) && !word.chars().any(is_cjk);
        only_keywords
    });
    only_keywords && words >= least
}

/// Marks a term that is a word itself, not a stem.
pub(crate) const EXACT: char = '=';

fn exact(word: &str) -> String {
    format!("{EXACT}{word}")
}

/// Calls `take` with every folded word until it answers `false`.
fn for_each_word(text: &str, mut take: impl FnMut(String) -> bool) {
    let mut plain = String::new();
    let mut run: Vec<char> = Vec::new();
    // Folding after splitting: lower case has no humps.
    for word in split_identifier(text) {
        let mut goes_on = true;
        for c in word.chars() {
            if is_cjk(c) {
                goes_on &= take_plain(&mut plain, &mut take);
                run.push(c);
            } else {
                goes_on &= take_bigrams(&mut run, &mut take);
                plain.push(c);
            }
        }
        goes_on &= take_bigrams(&mut run, &mut take);
        goes_on &= take_plain(&mut plain, &mut take);
        if !goes_on {
            return;
        }
    }
}

fn take_plain(word: &mut String, take: &mut impl FnMut(String) -> bool) -> bool {
    let folded = if word.len() <= MAX_TERM { fold(word) } else { String::new() };
    word.clear();
    folded.is_empty() || take(folded)
}

fn take_bigrams(run: &mut Vec<char>, take: &mut impl FnMut(String) -> bool) -> bool {
    let goes_on = match run.as_slice() {
        [] => true,
        [single] => take(single.to_string()),
        many => many.windows(2).fold(true, |on, pair| on & take(pair.iter().collect())),
    };
    run.clear();
    goes_on
}

/// Lower case without marks and compatibility forms.
fn fold(word: &str) -> String {
    if word.is_ascii() {
        return word.to_ascii_lowercase();
    }
    word.nfkd().filter(|&c| !is_combining_mark(c)).flat_map(char::to_lowercase).collect()
}

/// The stem of each word; what is not all ASCII letters is its own stem.
///
/// All words go through one token stream: to set one up costs more than to stem a word.
fn stem_all(words: &[String]) -> Vec<String> {
    thread_local! {
        static STEMMER: RefCell<TextAnalyzer> = RefCell::new(
            TextAnalyzer::builder(SimpleTokenizer::default())
                .filter(Stemmer::new(Language::English))
                .build(),
        );
    }
    let is_english = |word: &String| word.bytes().all(|byte| byte.is_ascii_lowercase());
    let english: Vec<&str> =
        words.iter().filter(|word| is_english(word)).map(String::as_str).collect();
    let line = english.join(" ");
    STEMMER.with_borrow_mut(|stemmer| {
        let mut stream = stemmer.token_stream(&line);
        let mut stem = |word: &String| match is_english(word) && stream.advance() {
            true => stream.token().text.clone(),
            false => word.clone(),
        };
        words.iter().map(&mut stem).collect()
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
pub(crate) fn is_cjk(c: char) -> bool {
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
    fn the_model_sees_digits_with_their_letters() {
        assert_eq!(words_for_model("getHTTPResponse2_v1"), "get HTTP Response2 v1");
    }

    #[test]
    fn stems_are_folded_and_without_stop_words() {
        assert_eq!(stems("Show the open Incidents"), ["show", "open", "incid"]);
        assert_eq!(stems("Café ﬁles"), ["cafe", "file"]);
        assert!(stems("the of and your").is_empty());
        assert!(stems("\0 \u{200b} !!! —").is_empty());
    }

    #[test]
    fn every_word_counts_as_stem_and_as_itself() {
        assert_eq!(terms("issues"), ["issu", "=issues"]);
        assert_eq!(
            joined_identifiers("call create_issue or listDeals"),
            ["=createissue", "=listdeals"]
        );
    }

    #[test]
    fn scripts_without_spaces_become_bigrams() {
        assert_eq!(stems("法令を調べて"), ["法令", "令を", "を調", "調べ", "べて"]);
        assert_eq!(stems("税"), ["税"]);
        assert_eq!(stems("get法令"), ["get", "法令"]);
    }

    #[test]
    fn a_list_of_keywords_has_no_function_words() {
        assert!(is_keyword_list("run shell command execute code python", 4));
        assert!(!is_keyword_list("run the shell command", 4));
        assert!(!is_keyword_list("shell command", 4));
        assert!(!is_keyword_list("法令を調べて法令を調べて", 4));
    }

    #[test]
    fn blobs_are_no_terms() {
        assert!(terms(&"a".repeat(1_000_000)).is_empty());
    }
}
