//! Rankers to compare with: what people write before they reach for an engine.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::dataset::Dataset;
use crate::catalog::{Tool, schema_text};
use crate::index::cost_text;
use crate::text::{EstimatedTokens, TokenCounter as _};

/// Jaccard similarity of word sets: words of the request against words of name and description.
///
/// Words are runs of ASCII letters and digits, in lower case. Every tool is ranked, also those
/// without a common word; equal scores keep catalog order.
#[derive(Debug)]
pub(crate) struct Jaccard {
    tools: Vec<BTreeSet<String>>,
}

impl Jaccard {
    pub(crate) fn new<'a>(tools: impl Iterator<Item = &'a Tool>) -> Self {
        let words = |tool: &Tool| words(&format!("{} {}", tool.name(), tool.description()));
        Self { tools: tools.map(words).collect() }
    }

    pub(crate) fn scores(&self, request: &str) -> Vec<f64> {
        let request = words(request);
        let score = |tool: &BTreeSet<String>| {
            let common = tool.intersection(&request).count();
            let all = tool.len() + request.len() - common;
            if all == 0 { 0.0 } else { common as f64 / all as f64 }
        };
        self.tools.iter().map(score).collect()
    }
}

fn words(text: &str) -> BTreeSet<String> {
    // Lower-casing is Unicode's, as in the original: the Kelvin sign becomes a k.
    text.to_lowercase()
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Textbook BM25 (k1 = 1.2, b = 0.75) over one field: the name twice, the description and the
/// parameters' names, lightly stemmed and without stop words.
///
/// It has a tokeniser of its own: a baseline that moves with what it is compared with is none.
#[derive(Debug)]
pub(crate) struct Bm25 {
    /// Term to rows and frequencies.
    postings: HashMap<String, Vec<(usize, f64)>>,
    lengths: Vec<f64>,
    average: f64,
}

impl Bm25 {
    pub(crate) fn new<'a>(tools: impl Iterator<Item = &'a Tool>) -> Self {
        let mut postings: HashMap<String, Vec<(usize, f64)>> = HashMap::new();
        let mut lengths = Vec::new();
        for (row, tool) in tools.enumerate() {
            let names = tool.parameters().map(schema_text).unwrap_or_default().names.join(" ");
            let text =
                [tool.name(), tool.name(), tool.description(), &names].map(plain_terms).concat();
            lengths.push(text.len() as f64);
            let mut counts: BTreeMap<String, f64> = BTreeMap::new();
            for term in text {
                *counts.entry(term).or_default() += 1.0;
            }
            for (term, count) in counts {
                postings.entry(term).or_default().push((row, count));
            }
        }
        let average = lengths.iter().sum::<f64>() / (lengths.len().max(1) as f64);
        Self { postings, lengths, average }
    }

    pub(crate) fn scores(&self, request: &str) -> Vec<f64> {
        const K1: f64 = 1.2;
        const B: f64 = 0.75;
        let mut scores = vec![0.0; self.lengths.len()];
        let n = self.lengths.len() as f64;
        let request: BTreeSet<String> = plain_terms(request).into_iter().collect();
        for term in &request {
            let Some(postings) = self.postings.get(term) else { continue };
            let df = postings.len() as f64;
            let idf = (1.0 + (n - df + 0.5) / (df + 0.5)).ln();
            for &(row, count) in postings {
                let norm = K1 * (1.0 - B + B * self.lengths[row] / self.average);
                scores[row] += idf * count * (K1 + 1.0) / (count + norm);
            }
        }
        scores
    }
}

/// Words that every list of stop words has.
const STOP_WORDS: [&str; 62] = [
    "a", "about", "all", "am", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by",
    "can", "could", "did", "do", "does", "for", "from", "had", "has", "have", "he", "her", "his",
    "how", "i", "if", "in", "is", "it", "its", "me", "my", "of", "on", "or", "our", "please",
    "she", "so", "that", "the", "their", "them", "then", "there", "they", "this", "to", "was",
    "we", "were", "what", "which", "will", "with", "would", "you", "your",
];

/// Words in lower case, cut at humps, without stop words and English endings.
fn plain_terms(text: &str) -> Vec<String> {
    let mut spaced = String::with_capacity(text.len());
    let mut before = ' ';
    for c in text.chars() {
        if before.is_lowercase() && c.is_uppercase() {
            spaced.push(' ');
        }
        spaced.push(c);
        before = c;
    }
    spaced
        .to_lowercase()
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty() && !STOP_WORDS.contains(word))
        .map(|word| stem(word).to_owned())
        .collect()
}

/// `word` without a plural or verb ending that leaves at least three letters.
fn stem(word: &str) -> &str {
    for ending in ["ies", "ing", "es", "ed", "s"] {
        let Some(rest) = word.strip_suffix(ending) else { continue };
        let whole = ending == "s" && rest.ends_with('s');
        if rest.len() >= 3 && !whole {
            return rest;
        }
    }
    word
}

/// Rows by falling score, ties in catalog order.
pub(crate) fn by_score(scores: &[f64], keep: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..scores.len()).filter(|&row| keep(row)).collect();
    rows.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    rows
}

/// Characters of names and descriptions: the payload that the jaccard baseline's article counts.
pub(crate) fn payload(dataset: &Dataset, row: usize) -> usize {
    let tool = dataset.snapshot().tool(row);
    tool.name().chars().count() + tool.description().chars().count()
}

/// Estimated tokens of a tool's definition, as one JSON object of name, description and parameters.
pub fn definition_tokens(tool: &Tool) -> usize {
    EstimatedTokens.count(&cost_text(tool))
}
