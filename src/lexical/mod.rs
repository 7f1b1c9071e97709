//! The lexical arm: BM25 over tantivy's index in memory.

mod segments;
mod weights;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use tantivy::directory::RamDirectory;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::Postings as _;
use tantivy::query::Bm25Weight;
use tantivy::schema::{Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::{PreTokenizedString, Token};
use tantivy::{DocSet as _, Index, InvertedIndexReader, TERMINATED, TantivyDocument, Term};

use segments::Segments;
pub use weights::FieldWeights;

use crate::catalog::Tool;
use crate::error::{Error, ErrorKind, Result};
use crate::text::{EXACT, field_terms, joined_identifiers, terms};

/// Memory for tantivy's index writer, its minimum being 15 MB.
const WRITER_MEMORY: usize = 50_000_000;

/// A BM25 index over the tools of one snapshot, row by row.
///
/// All fields of a tool go into one posting field, the terms of a field repeated as often as the
/// field weighs. That is BM25F: weights act on the term frequency before it saturates, and one
/// length normalises all (Robertson, Zaragoza, Taylor: Simple BM25 extension to multiple weighted
/// fields, CIKM 2004). k1 = 1.2 and b = 0.75 are tantivy's.
pub(crate) struct LexicalIndex {
    inverted: Arc<InvertedIndexReader>,
    field_norms: FieldNormReader,
    field: Field,
    /// Weighted terms of each row.
    lengths: Vec<u32>,
    segments: Segments,
}

/// What the lexical arm says of every row.
#[derive(Debug, Clone, Default)]
pub(crate) struct LexicalScores {
    /// BM25 of each row, at least 0; 0 for rows that match no term or are not eligible.
    pub bm25: Vec<f32>,
    /// The arm's verdict in [0, 1], 1 for the request's best row: BM25 and name coverage, over the
    /// whole request and its best piece.
    pub score: Vec<f32>,
    /// Share of the words at the end of the tool's name, by rarity, that the request has.
    pub name_coverage: Vec<f32>,
    /// Share of the request's words, by rarity, that the tool has; words that no tool has count.
    pub coverage: Vec<f32>,
}

/// How much name coverage counts beside BM25, which is 1 for the request's best row.
///
/// Chosen on the nine development sets; leave-one-out picks it in nine of nine.
const NAME_COVERAGE: f32 = 0.3;

/// The terms of a request with their weights, in a fixed order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct QueryTerms(Vec<(String, f32)>);

impl QueryTerms {
    /// The terms of several texts, each text with a weight; a term counts once with its greatest
    /// weight.
    pub(crate) fn of<'a>(parts: impl IntoIterator<Item = (&'a str, f32)>) -> Self {
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut list: Vec<(String, f32)> = Vec::new();
        for (text, weight) in parts {
            for term in terms(text).into_iter().chain(joined_identifiers(text)) {
                match places.get(&term) {
                    Some(&place) => list[place].1 = list[place].1.max(weight),
                    None => {
                        places.insert(term.clone(), list.len());
                        list.push((term, weight));
                    }
                }
            }
        }
        Self(list)
    }
}

impl LexicalIndex {
    pub(crate) fn build<'a>(
        tools: impl Iterator<Item = &'a Tool>,
        weights: &FieldWeights,
    ) -> Result<Self> {
        let mut schema = Schema::builder();
        // Terms come split and stemmed; the named tokenizer is never run.
        let indexing = TextFieldIndexing::default()
            .set_tokenizer("raw")
            .set_index_option(IndexRecordOption::WithFreqs)
            .set_fieldnorms(true);
        let field =
            schema.add_text_field("terms", TextOptions::default().set_indexing_options(indexing));
        // One segment with one document a tool, in order: a document's number is the tool's row.
        let mut writer = Index::builder()
            .schema(schema.build())
            .single_segment_index_writer(RamDirectory::create(), WRITER_MEMORY)
            .map_err(failed)?;
        let mut lengths = Vec::new();
        let mut segments = Segments::default();
        for tool in tools {
            let fields = field_terms(tool);
            let weighted = [
                (fields.name, weights.name),
                (fields.parameters, weights.parameters),
                (fields.namespace, weights.namespace),
                (fields.description, weights.description),
                (fields.whole_name, 1),
            ];
            let mut tokens: Vec<Token> = Vec::new();
            for (terms, weight) in weighted {
                for term in (0..weight).flat_map(|_| &terms) {
                    let position = tokens.len();
                    tokens.push(Token { text: term.clone(), position, ..Token::default() });
                }
            }
            lengths.push(u32::try_from(tokens.len()).unwrap_or(u32::MAX));
            segments.add(tool.name(), tokens.iter().map(|token| token.text.as_str()));
            let mut document = TantivyDocument::default();
            document
                .add_pre_tokenized_text(field, PreTokenizedString { text: String::new(), tokens });
            writer.add_document(document).map_err(failed)?;
        }
        let index = writer.finalize().map_err(failed)?;
        let searcher = index.reader().map_err(failed)?.searcher();
        let (inverted, field_norms) = match searcher.segment_readers() {
            [] => (
                Arc::new(InvertedIndexReader::empty(IndexRecordOption::WithFreqs)),
                FieldNormReader::constant(0, 0),
            ),
            [segment] => (
                segment.inverted_index(field).map_err(failed)?,
                segment.get_fieldnorms_reader(field).map_err(failed)?,
            ),
            several => {
                return Err(Error::new(
                    ErrorKind::LexicalIndex,
                    format!("the lexical index has {} segments, not one", several.len()),
                ));
            }
        };
        segments.finish(lengths.len());
        Ok(Self { inverted, field_norms, field, lengths, segments })
    }

    /// Scores every eligible row for a request and the pieces of it, if it is long; `eligible` is
    /// `None` when all rows are.
    ///
    /// The statistics (how rare a term is, how long the average tool) are those of the eligible
    /// rows alone: what a caller may not use leaves no trace in its scores, and the ranking is the
    /// same as in a catalog of only the eligible tools.
    ///
    /// Complexity: O(postings of the request's terms + rows), each piece again.
    pub(crate) fn score(
        &self,
        whole: &QueryTerms,
        pieces: &[QueryTerms],
        eligible: Option<&[bool]>,
    ) -> Result<LexicalScores> {
        let totals = self.segments.totals(eligible);
        let mut out = self.score_terms(whole, eligible, &totals)?;
        let mut bm25 = normalised(&out.bm25);
        let mut names = out.name_coverage.clone();
        if !pieces.is_empty() {
            let mut best = LexicalScores::default();
            for piece in pieces {
                let scores = self.score_terms(piece, eligible, &totals)?;
                raise(&mut best.bm25, &scores.bm25);
                raise(&mut best.name_coverage, &scores.name_coverage);
            }
            let best_bm25 = normalised(&best.bm25);
            for row in 0..bm25.len() {
                bm25[row] = 0.5 * (bm25[row] + best_bm25[row]);
                names[row] = 0.5 * (names[row] + best.name_coverage[row]);
            }
            raise(&mut out.name_coverage, &best.name_coverage);
        }
        let sums: Vec<f32> =
            bm25.iter().zip(&names).map(|(bm25, name)| bm25 + NAME_COVERAGE * name).collect();
        out.score = normalised(&sums);
        Ok(out)
    }

    fn score_terms(
        &self,
        query: &QueryTerms,
        eligible: Option<&[bool]>,
        totals: &[f32],
    ) -> Result<LexicalScores> {
        let rows = self.lengths.len();
        let mut out = LexicalScores {
            bm25: vec![0.0; rows],
            score: Vec::new(),
            name_coverage: vec![0.0; rows],
            coverage: vec![0.0; rows],
        };
        let is_eligible = |row: usize| eligible.is_none_or(|mask| mask[row]);
        let (mut count, mut length) = (0_u64, 0_u64);
        for (row, &terms) in self.lengths.iter().enumerate() {
            if is_eligible(row) {
                count += 1;
                length += u64::from(terms);
            }
        }
        if count == 0 || length == 0 {
            return Ok(out);
        }
        let average = length as f32 / count as f32;
        // The idf of a term that no tool has, by which the others are scaled.
        let most = idf(0, count);
        let bm25 = Bm25Weight::for_one_term_without_explain(0, count, average);
        let mut stems_total = 0.0;
        let mut postings = Vec::new();
        for (term, weight) in &query.0 {
            postings.clear();
            self.read(term, &is_eligible, &mut postings)?;
            let idf = idf(postings.len() as u64, count);
            let bm25 = bm25.boost_by(idf / most);
            let is_stem = !term.starts_with(EXACT);
            if is_stem {
                stems_total += weight * idf;
            }
            for &(row, in_tool) in &postings {
                let norm = self.field_norms.fieldnorm_id(row);
                let row = row as usize;
                out.bm25[row] += weight * bm25.score(norm, in_tool);
                if is_stem {
                    out.coverage[row] += weight * idf;
                }
            }
            for &row in self.segments.rows(term) {
                if is_eligible(row as usize) {
                    out.name_coverage[row as usize] += weight * idf;
                }
            }
        }
        if stems_total > 0.0 {
            out.coverage.iter_mut().for_each(|share| *share /= stems_total);
        }
        for (share, &total) in out.name_coverage.iter_mut().zip(totals) {
            *share = if total > 0.0 { *share / total } else { 0.0 };
        }
        Ok(out)
    }

    fn read(
        &self,
        term: &str,
        eligible: &dyn Fn(usize) -> bool,
        into: &mut Vec<(u32, u32)>,
    ) -> Result<()> {
        let term = Term::from_field_text(self.field, term);
        let read = self.inverted.read_postings(&term, IndexRecordOption::WithFreqs);
        let Some(mut list) = read.map_err(failed)? else { return Ok(()) };
        while list.doc() != TERMINATED {
            if eligible(list.doc() as usize) {
                into.push((list.doc(), list.term_freq()));
            }
            list.advance();
        }
        Ok(())
    }
}

/// `scores` divided by the greatest, or as they are when that is 0.
fn normalised(scores: &[f32]) -> Vec<f32> {
    let greatest = scores.iter().copied().fold(0.0_f32, f32::max);
    let divisor = if greatest > 0.0 { greatest } else { 1.0 };
    scores.iter().map(|score| score / divisor).collect()
}

/// Raises `best` to `scores` where these are greater.
fn raise(best: &mut Vec<f32>, scores: &[f32]) {
    best.resize(scores.len(), 0.0);
    for (best, &score) in best.iter_mut().zip(scores) {
        *best = best.max(score);
    }
}

/// BM25's weight of a term that `frequency` of `count` tools have, as tantivy computes it.
fn idf(frequency: u64, count: u64) -> f32 {
    (1.0 + ((count - frequency) as f32 + 0.5) / (frequency as f32 + 0.5)).ln()
}

fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::LexicalIndex, "the lexical index failed: build the engine anew")
        .with_source(error)
}

impl fmt::Debug for LexicalIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LexicalIndex").field("tools", &self.lengths.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
