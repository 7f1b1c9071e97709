//! The lexical arm: BM25 over tantivy's index in memory.

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

pub use weights::FieldWeights;

use crate::catalog::Tool;
use crate::error::{Error, ErrorKind, Result};
use crate::text::{field_terms, terms};

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
}

/// What the lexical arm says of every row.
#[derive(Debug, Clone, Default)]
pub(crate) struct LexicalScores {
    /// BM25 of each row, at least 0; 0 for rows that match no term or are not eligible.
    pub bm25: Vec<f32>,
    /// Share of the request's weight (by idf) that each row matches, in [0, 1].
    pub coverage: Vec<f32>,
    /// Distinct terms of the request that each row matches.
    pub matched: Vec<u16>,
    /// Distinct terms of the request.
    pub n_terms: usize,
    /// Distinct terms of the request that at least one eligible row has.
    pub n_answerable: usize,
}

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
            for term in terms(text) {
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

    pub(crate) fn len(&self) -> usize {
        self.0.len()
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
        for tool in tools {
            let fields = field_terms(tool);
            let weighted = [
                (fields.name, weights.name),
                (fields.parameters, weights.parameters),
                (fields.namespace, weights.namespace),
                (fields.description, weights.description),
            ];
            let mut tokens: Vec<Token> = Vec::new();
            for (terms, weight) in weighted {
                for term in (0..weight).flat_map(|_| &terms) {
                    let position = tokens.len();
                    tokens.push(Token { text: term.clone(), position, ..Token::default() });
                }
            }
            lengths.push(u32::try_from(tokens.len()).unwrap_or(u32::MAX));
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
        Ok(Self { inverted, field_norms, field, lengths })
    }

    /// Scores every eligible row; `eligible` is `None` when all are.
    ///
    /// The statistics (how rare a term is, how long the average tool) are those of the eligible
    /// rows alone: what a caller may not use leaves no trace in its scores, and the ranking is the
    /// same as in a catalog of only the eligible tools.
    ///
    /// Complexity: O(postings of the request's terms + rows).
    pub(crate) fn score(
        &self,
        query: &QueryTerms,
        eligible: Option<&[bool]>,
    ) -> Result<LexicalScores> {
        let rows = self.lengths.len();
        let mut out = LexicalScores {
            bm25: vec![0.0; rows],
            coverage: vec![0.0; rows],
            matched: vec![0; rows],
            n_terms: query.len(),
            n_answerable: 0,
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
        let mut total = 0.0;
        let mut postings = Vec::new();
        for (term, weight) in &query.0 {
            postings.clear();
            self.read(term, &is_eligible, &mut postings)?;
            let frequency = postings.len() as u64;
            let idf = idf(frequency, count);
            total += weight * idf;
            if postings.is_empty() {
                continue;
            }
            out.n_answerable += 1;
            let bm25 = Bm25Weight::for_one_term_without_explain(frequency, count, average);
            for &(row, in_tool) in &postings {
                let norm = self.field_norms.fieldnorm_id(row);
                let row = row as usize;
                out.bm25[row] += weight * bm25.score(norm, in_tool);
                out.coverage[row] += weight * idf;
                out.matched[row] = out.matched[row].saturating_add(1);
            }
        }
        if total > 0.0 {
            out.coverage.iter_mut().for_each(|share| *share /= total);
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
