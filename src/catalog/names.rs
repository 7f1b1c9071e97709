//! From what somebody wrote to the tools it names.

use std::collections::{HashMap, HashSet};

use super::provider_name::{hashed, provider_name, rehashed};
use super::tool::{Tool, ToolId};

/// Characters at which a name may be cut to its end: `crm_list_deals` is also `list_deals`.
const JOINTS: [char; 5] = ['_', '-', '.', '/', ':'];

/// The longest written name in bytes that is looked for in a text, or found by its end.
///
/// A bound for what one name can cost: without it a name of a hundred thousand joints would be
/// indexed a hundred thousand times.
const MAX_WRITTEN: usize = 256;
/// Tools of one name that may be meant all together; more are told apart by whole names.
pub(crate) const MAX_ALIKE: usize = 20;
/// What is put around a name to say that it is one.
const QUOTES: [char; 9] = ['`', '"', '\'', '“', '”', '‘', '’', '«', '»'];
/// How many bytes of a text are searched for names.
const MAX_TEXT: usize = 64 * 1024;

/// Look-ups from written names to the rows of one snapshot.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Provider name of each row.
    provider: Vec<String>,
    by_provider: HashMap<String, usize>,
    by_id: HashMap<String, usize>,
    by_name: HashMap<String, Vec<usize>>,
    by_suffix: HashMap<String, Vec<usize>>,
    /// First word of each name of several words -> words in the longest such name, so that a search
    /// for names in a text knows where to begin and to stop.
    by_first_word: HashMap<String, usize>,
}

/// Rows that a request names verbatim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mentions {
    /// In the order of the text; for one name that several tools have, in catalog order.
    pub rows: Vec<usize>,
    /// Whether one written name stands for several tools.
    pub ambiguous: bool,
}

impl Names {
    pub(crate) fn of<'a>(tools: impl ExactSizeIterator<Item = &'a Tool>) -> Self {
        let mut names = Self::default();
        for (row, tool) in tools.enumerate() {
            let id = tool.id();
            let mut provider = provider_name(id);
            if names.by_provider.contains_key(&provider) {
                provider = names.spare_name(id);
            }
            names.by_provider.insert(provider.clone(), row);
            names.provider.push(provider);
            names.by_id.insert(id.to_string(), row);
            names.by_name.entry(id.name().to_owned()).or_default().push(row);
            let mut words = id.name().split_whitespace();
            if let Some(first) = words.next()
                && id.name().len() <= MAX_WRITTEN
            {
                let longest = names.by_first_word.entry(strip(first).to_owned()).or_default();
                *longest = (*longest).max(1 + words.count());
            }
            for (at, joint) in id.name().match_indices(JOINTS) {
                let suffix = &id.name()[at + joint.len()..];
                if (1..=MAX_WRITTEN).contains(&suffix.len()) {
                    names.by_suffix.entry(suffix.to_owned()).or_default().push(row);
                }
            }
        }
        names
    }

    /// A name with a hash tail that no tool has.
    pub(crate) fn spare_name(&self, id: &ToolId) -> String {
        let mut name = hashed(id);
        // Somebody may have named a tool like another one's form with a hash tail.
        for attempt in 1_u64.. {
            if !self.by_provider.contains_key(&name) {
                break;
            }
            name = rehashed(id, attempt);
        }
        name
    }

    pub(crate) fn provider_name(&self, row: usize) -> &str {
        &self.provider[row]
    }

    pub(crate) fn by_id(&self, id: &str) -> Option<usize> {
        self.by_id.get(id).copied()
    }

    pub(crate) fn by_provider(&self, name: &str) -> Option<usize> {
        self.by_provider.get(name).copied()
    }

    pub(crate) fn by_name(&self, name: &str) -> &[usize] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// The eligible rows that `written` stands for: the id or provider name, else all tools of that
    /// name, else all whose name ends in it. Several rows mean that it is ambiguous.
    pub(crate) fn resolve(&self, written: &str, eligible: &dyn Fn(usize) -> bool) -> Vec<usize> {
        let exact = self.exact(written, eligible);
        if !exact.is_empty() {
            return exact;
        }
        let suffix = self.by_suffix.get(written).map_or(&[][..], Vec::as_slice);
        suffix.iter().copied().filter(|&row| eligible(row)).collect()
    }

    /// The eligible rows whose id, provider name or whole name is `written`.
    pub(crate) fn exact(&self, written: &str, eligible: &dyn Fn(usize) -> bool) -> Vec<usize> {
        if let Some(row) = self.by_id.get(written).copied().filter(|&row| eligible(row)) {
            return vec![row];
        }
        let named: Vec<usize> =
            self.by_name(written).iter().copied().filter(|&row| eligible(row)).collect();
        if named.len() > 1 {
            return named;
        }
        match self.by_provider(written).filter(|&row| eligible(row)) {
            Some(row) => vec![row],
            None => named,
        }
    }

    /// The tools that `text` names verbatim.
    ///
    /// Inside a sentence only what looks like an identifier counts (an inner joint or capital, or
    /// back quotes): a tool called `search` is not meant by everybody who searches. A name of several
    /// words counts in quotes, or when none of them could be a word of the sentence: nobody means a
    /// tool called `of the`. A text that is a name as a whole always counts. What more than
    /// [`MAX_ALIKE`] tools are called names none of them.
    pub(crate) fn mentions(&self, text: &str, eligible: &dyn Fn(usize) -> bool) -> Mentions {
        let mut found = Mentions::default();
        let mut taken: HashSet<usize> = HashSet::new();
        let mut add = |rows: Vec<usize>| {
            if rows.len() > MAX_ALIKE {
                return;
            }
            found.ambiguous |= rows.len() > 1;
            found.rows.extend(rows.into_iter().filter(|&row| taken.insert(row)));
        };
        let text = text[..text.floor_char_boundary(MAX_TEXT)].trim();
        // No name is longer than a few hundred bytes; do not hash a megabyte to learn that.
        if text.len() <= 2 * MAX_WRITTEN {
            add(self.exact(strip(text), eligible));
        }
        // A word that is written a thousand times is looked up once.
        let mut seen: HashSet<&str> = HashSet::new();
        let words: Vec<&str> =
            text.split([' ', '\n', '\t', '\r', ',', ';']).filter(|word| !word.is_empty()).collect();
        for (start, word) in words.iter().enumerate() {
            let bare = strip(word);
            if bare.len() > MAX_WRITTEN {
                continue;
            }
            if (looks_like_identifier(bare) || word.contains('`')) && seen.insert(bare) {
                let rows = self.exact(bare, eligible);
                let two_words = bare.split(JOINTS).filter(|part| !part.is_empty()).count() > 1;
                add(if rows.is_empty() && two_words { self.resolve(bare, eligible) } else { rows });
            }
            let longest = self.by_first_word.get(bare).copied().unwrap_or_default();
            for end in start + 2..=(start + longest).min(words.len()) {
                let window = words[start..end].join(" ");
                if window.len() > 2 * MAX_WRITTEN {
                    break;
                }
                let name = strip(&window);
                if is_quoted(&window) || !name.split(' ').any(is_ordinary) {
                    add(self.exact(name, eligible));
                }
            }
        }
        found
    }
}

/// `word` without the punctuation around it.
fn strip(word: &str) -> &str {
    word.trim_matches(|c: char| {
        c.is_ascii_punctuation() && !matches!(c, '_' | '/' | '{' | '}')
            || c.is_whitespace()
            || QUOTES.contains(&c)
    })
}

/// Whether quotes stand around `words`, punctuation after them aside.
fn is_quoted(words: &str) -> bool {
    words.starts_with(QUOTES) && words.trim_end_matches(['.', '!', '?', ':', ')']).ends_with(QUOTES)
}

/// Whether `word` could be a word of any sentence: small letters, or letters that are neither small
/// nor capital.
fn is_ordinary(word: &str) -> bool {
    word.chars().all(|c| matches!(c, '-' | '\'' | '’') || c.is_alphabetic() && !c.is_uppercase())
}

/// Whether `word` has a joint or a capital inside.
fn looks_like_identifier(word: &str) -> bool {
    let mut previous = '\0';
    word.char_indices().any(|(at, c)| {
        let inner = at > 0;
        let joint = inner && JOINTS.contains(&c) && at + 1 < word.len();
        let hump = inner && previous.is_lowercase() && c.is_uppercase();
        previous = c;
        joint || hump
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(ids: &[&str]) -> Names {
        let tools: Vec<Tool> = ids
            .iter()
            .map(|id| {
                let (namespace, name) = id.split_once('/').unwrap();
                Tool::builder(name).namespace(namespace).build().unwrap()
            })
            .collect();
        Names::of(tools.iter())
    }

    fn rows(names: &Names, text: &str) -> Vec<usize> {
        names.mentions(text, &|_| true).rows
    }

    #[test]
    fn ordinary_words_in_a_sentence_name_no_tool() {
        let names = names(&["docs/search", "tickets/search", "docs/think"]);
        assert!(rows(&names, "search the web and think").is_empty());
        assert_eq!(rows(&names, "`think` first"), [2]);
        let whole = names.mentions("search", &|_| true);
        assert_eq!((whole.rows, whole.ambiguous), (vec![0, 1], true));
    }

    #[test]
    fn suffixes_need_two_words_and_are_filtered_before_they_count_as_ambiguous() {
        let names = names(&["crm/crm_list_deals", "erp/erp_list_deals"]);
        assert!(rows(&names, "show me deals").is_empty());
        assert!(names.mentions("call list_deals now", &|_| true).ambiguous);
        let one = names.mentions("call list_deals now", &|row| row == 1);
        assert_eq!((one.rows, one.ambiguous), (vec![1], false));
    }

    #[test]
    fn names_with_spaces_are_found() {
        let names = names(&["tmdb/GET /search/person", "tmdb/GET /movie/{movie_id}"]);
        assert_eq!(rows(&names, "use GET /search/person, then GET /movie/{movie_id}."), [0, 1]);
    }

    #[test]
    fn names_of_ordinary_words_need_quotes() {
        let names = names(&["evil/of the", "evil/the e-mail", "evil/날씨 알려", "crm/List Deals"]);
        for text in ["the weather of the city", "send the e-mail now", "오늘 날씨 알려 줘"] {
            assert!(rows(&names, text).is_empty(), "{text}");
        }
        for text in
            ["call `of the` now", "call \"of the\".", "call “of the”, please", "of the", "`of the`"]
        {
            assert_eq!(rows(&names, text), [0], "{text}");
        }
        assert_eq!(rows(&names, "please use List Deals for it"), [3]);
        assert!(rows(&names, "please list deals").is_empty());
    }

    #[test]
    fn plain_forms_that_meet_are_parted() {
        let names = names(&["a/b__c", "a__b/c"]);
        assert_eq!(names.provider_name(0), "a__b__c");
        assert!(names.provider_name(1).starts_with("a__b__c_"));
        assert_eq!(names.by_provider(names.provider_name(1)), Some(1));
    }
}
