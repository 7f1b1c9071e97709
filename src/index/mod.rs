//! One snapshot made searchable.

mod dense;
mod fusion;
mod top_k;
mod vectors;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ndarray::ArrayView1;
use serde::Serialize;

pub(crate) use dense::DenseIndex;
pub use fusion::Fusion;
pub(crate) use top_k::{Best, top_k};
pub use vectors::VectorCache;
use vectors::text_key;

use crate::catalog::{Risk, Snapshot};
use crate::embed::{Embedder, Progress, Row, UnitVector, embed_documents, embed_queries};
use crate::error::{Error, Result};
use crate::lexical::{FieldWeights, LexicalIndex, LexicalScores, QueryTerms};
use crate::text::{TokenCount, TokenCounter, dense_text};

/// The most answers of the model between two attempts to complete an index.
const MAX_PATIENCE: u32 = 1 << 12;

/// What building an index did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BuildReport {
    /// Tools whose text was embedded.
    pub embedded: usize,
    /// Tools whose vector was known already.
    pub reused: usize,
    /// Tools without a vector, ranked by the lexical arm alone: the model failed, or the text means
    /// nothing to it.
    pub missing: usize,
    /// Why a given cache was not used.
    pub cache_refused: Option<String>,
    /// Why tools are missing.
    pub failure: Option<String>,
    /// How long the build took.
    pub elapsed: Duration,
}

/// N x D row-normalised matrix and lexical index over one snapshot.
pub(crate) struct ToolIndex {
    pub snapshot: Arc<Snapshot>,
    pub lexical: LexicalIndex,
    pub dense: Option<DenseIndex>,
    pub embedder: Option<Arc<dyn Embedder>>,
    /// Key of each row's text.
    keys: Vec<String>,
    /// Tokens of each row's definition.
    pub costs: Vec<TokenCount>,
    /// Each tool's risk, side by side: the gate asks for every one of them.
    pub risks: Vec<Risk>,
    pub report: BuildReport,
    /// Answers of the model since rows were left missing, by which completing them is put off.
    answers: AtomicU32,
    /// Answers after which completing is worth a try.
    patience: u32,
}

/// What is looked for: texts with weights, and the pieces of the first one if it is long.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct QueryText {
    pub parts: Vec<(String, f32)>,
    pub pieces: Vec<String>,
}

/// Both arms' scores of every row.
pub(crate) struct ArmScores {
    /// Cosine of each row in [-1, 1] with the request; for a long one, the mean of that and the
    /// best of its pieces. `None` when the dense arm has no say.
    pub cosines: Option<Vec<f32>>,
    pub lexical: LexicalScores,
    /// Why the dense arm has no say although it should.
    pub degraded: Option<String>,
}

/// What an index is built from, besides the snapshot.
pub(crate) struct IndexParts<'a> {
    pub embedder: Option<Arc<dyn Embedder>>,
    pub weights: FieldWeights,
    pub counter: &'a dyn TokenCounter,
    pub known: Option<&'a VectorCache>,
    pub progress: &'a mut dyn FnMut(Progress),
}

impl ToolIndex {
    /// Builds the index, embedding only texts whose vectors are not known.
    ///
    /// A failing embedder is no failure of the build: the rows stay missing and the report says so.
    pub(crate) fn build(snapshot: Arc<Snapshot>, parts: IndexParts<'_>) -> Result<Self> {
        let started = std::time::Instant::now();
        let lexical = LexicalIndex::build(snapshot.tools(), &parts.weights)?;
        let risks = snapshot.tools().map(|tool| tool.policy().risk).collect();
        let costs = snapshot.tools().map(|tool| parts.counter.count(&cost_text(tool))).collect();
        let mut report = BuildReport::default();
        let mut keys = Vec::new();
        let mut dense = None;
        if let Some(embedder) = &parts.embedder {
            let repeats = embedder.profile().name_repeats;
            let texts: Vec<String> =
                snapshot.tools().map(|tool| dense_text(tool, repeats)).collect();
            keys = texts.iter().map(|text| text_key(text)).collect();
            let known = match parts.known.map(|cache| (cache, cache.check(&**embedder))) {
                Some((cache, Ok(()))) => Some(cache),
                Some((_, Err(error))) => {
                    report.cache_refused = Some(error.to_string());
                    None
                }
                None => None,
            };
            dense = Some(fill(&**embedder, &texts, &keys, known, parts.progress, &mut report));
        }
        report.elapsed = started.elapsed();
        Ok(Self {
            snapshot,
            lexical,
            dense,
            embedder: parts.embedder,
            keys,
            costs,
            risks,
            report,
            answers: AtomicU32::new(0),
            patience: 1,
        })
    }

    /// This index after an attempt to complete `before`: the next one waits twice as long.
    pub(crate) fn after(mut self, before: &Self) -> Self {
        self.patience = before.patience.saturating_mul(2).min(MAX_PATIENCE);
        self
    }

    /// Both arms' scores of every row for each of `queries`.
    pub(crate) fn score(
        &self,
        queries: &[QueryText],
        eligible: Option<&[bool]>,
        use_dense: bool,
    ) -> Result<Vec<ArmScores>> {
        let mut cosines: Vec<Option<Vec<f32>>> = vec![None; queries.len()];
        let mut degraded = None;
        if let (Some(embedder), Some(dense), true) = (&self.embedder, &self.dense, use_dense) {
            // The request is embedded also when there is nothing to compare it with, to learn whether
            // the model answers again.
            let _span = tracing::trace_span!("dense").entered();
            match QueryVectors::embed(&**embedder, queries) {
                Ok(vectors) => {
                    if !dense.is_complete() || dense.is_blank() {
                        degraded = self.report.failure.clone();
                    }
                    if !dense.is_complete() {
                        self.answers.fetch_add(1, Ordering::Relaxed);
                    }
                    let void = vectors.iter().find_map(|vectors| vectors.void.as_ref());
                    degraded = degraded.or(void.map(ToString::to_string));
                    if !dense.is_blank() {
                        cosines = vectors.into_iter().map(|v| v.cosines(dense)).collect();
                    }
                }
                Err(error) => degraded = Some(error.to_string()),
            }
        }
        let mut scores = Vec::with_capacity(queries.len());
        let _span = tracing::trace_span!("lexical").entered();
        for (query, cosines) in queries.iter().zip(cosines) {
            let whole =
                QueryTerms::of(query.parts.iter().map(|(text, weight)| (text.as_str(), *weight)));
            let pieces: Vec<QueryTerms> =
                query.pieces.iter().map(|piece| QueryTerms::of([(piece.as_str(), 1.0)])).collect();
            let lexical = self.lexical.score(&whole, &pieces, eligible)?;
            scores.push(ArmScores { cosines, lexical, degraded: degraded.clone() });
        }
        Ok(scores)
    }

    /// The vectors of this index, for the next one.
    pub(crate) fn vectors(&self) -> Option<VectorCache> {
        let (embedder, dense) = (self.embedder.as_ref()?, self.dense.as_ref()?);
        let mut cache = VectorCache::new(embedder.fingerprint(), embedder.dimensions());
        for (row, key) in self.keys.iter().enumerate() {
            if let Some(vector) = dense.row(row) {
                cache.insert(key.clone(), vector);
            }
        }
        Some(cache)
    }

    /// Whether the model has a vector for the row.
    pub(crate) fn has_vector(&self, row: usize) -> bool {
        self.dense.as_ref().is_some_and(|dense| dense.has(row))
    }

    /// Whether no tool waits for a model that failed.
    pub(crate) fn is_complete(&self) -> bool {
        self.dense.as_ref().is_none_or(DenseIndex::is_complete)
    }

    /// Whether rows are missing and the model answers again, so that completing is worth a try.
    pub(crate) fn can_be_completed(&self) -> bool {
        !self.is_complete() && self.answers.load(Ordering::Relaxed) >= self.patience
    }

    /// Why the model could not embed the snapshot; `None` when it could, but for texts that mean
    /// nothing to it.
    pub(crate) fn failure(&self) -> Option<Error> {
        let failed = !self.is_complete() || self.dense.as_ref().is_some_and(DenseIndex::is_blank);
        self.report.failure.clone().filter(|_| failed).map(Error::embedder)
    }
}

fn fill(
    embedder: &dyn Embedder,
    texts: &[String],
    keys: &[String],
    known: Option<&VectorCache>,
    progress: &mut dyn FnMut(Progress),
    report: &mut BuildReport,
) -> DenseIndex {
    let vector = |row: usize| known.and_then(|cache| cache.get(&keys[row]));
    let unknown: Vec<usize> = (0..texts.len()).filter(|&row| vector(row).is_none()).collect();
    report.reused = texts.len() - unknown.len();
    let new: Vec<&str> = unknown.iter().map(|&row| texts[row].as_str()).collect();
    let embedded = embed_documents(embedder, &new, progress);
    report.failure = embedded.failure.map(|error| error.to_string());
    let mut index = DenseIndex::new(texts.len(), embedder.dimensions());
    for (place, &row) in unknown.iter().enumerate() {
        match embedded.rows[place] {
            Row::Present => {
                report.embedded += 1;
                index.set(row, embedded.matrix.row(place));
            }
            Row::Void => index.set_void(row),
            Row::Missing => {}
        }
    }
    report.missing = unknown.len() - report.embedded;
    for row in 0..texts.len() {
        if let Some(vector) = vector(row) {
            index.set(row, ArrayView1::from(vector));
        }
    }
    index
}

/// The vectors of one query.
struct QueryVectors {
    /// The weighted sum of its texts' vectors; `None` when they hold no text or mean nothing to the
    /// model.
    whole: Option<UnitVector>,
    pieces: Vec<UnitVector>,
    /// Why there is no vector although there is text.
    void: Option<Error>,
}

impl QueryVectors {
    /// Embeds all texts of all queries in one call.
    fn embed(embedder: &dyn Embedder, queries: &[QueryText]) -> Result<Vec<Self>> {
        let has_text = |text: &&str| text.chars().any(char::is_alphanumeric);
        let texts: Vec<&str> = queries
            .iter()
            .flat_map(|query| query.parts.iter().map(|(text, _)| text).chain(&query.pieces))
            .map(String::as_str)
            .filter(has_text)
            .collect();
        let mut vectors = match texts.as_slice() {
            [] => Vec::new(),
            texts => embed_queries(embedder, texts)?,
        }
        .into_iter();
        let mut next = |text: &str| if has_text(&text) { vectors.next() } else { None };
        queries
            .iter()
            .map(|query| {
                let (mut parts, mut void) = (Vec::new(), None);
                for (text, weight) in &query.parts {
                    match next(text) {
                        Some(Ok(vector)) => parts.push((vector, *weight)),
                        Some(Err(error)) => void = Some(error),
                        None => {}
                    }
                }
                let pieces = query.pieces.iter().filter_map(|text| next(text)?.ok()).collect();
                let whole = weighted_sum(embedder, parts)?;
                Ok(Self { void: void.filter(|_| whole.is_none()), whole, pieces })
            })
            .collect()
    }

    fn cosines(self, dense: &DenseIndex) -> Option<Vec<f32>> {
        let mut cosines = dense.cosines(&self.whole?);
        if !self.pieces.is_empty() {
            let by_piece = dense.cosines_of(&self.pieces);
            for (row, cosine) in cosines.iter_mut().enumerate() {
                let best = by_piece.iter().map(|scores| scores[row]).fold(f32::MIN, f32::max);
                *cosine = 0.5 * (*cosine + best);
            }
        }
        Some(cosines)
    }
}

fn weighted_sum(
    embedder: &dyn Embedder,
    mut parts: Vec<(UnitVector, f32)>,
) -> Result<Option<UnitVector>> {
    if parts.len() < 2 {
        return Ok(parts.pop().map(|(vector, _)| vector));
    }
    let mut sum = vec![0.0_f32; embedder.dimensions()];
    for (vector, weight) in &parts {
        for (total, value) in sum.iter_mut().zip(vector.as_slice()) {
            *total += weight * value;
        }
    }
    UnitVector::normalise(sum, embedder).map(Some)
}

/// The text whose tokens count as a tool's cost: its definition as one JSON object.
pub(crate) fn cost_text(tool: &crate::catalog::Tool) -> String {
    definition_text(tool.name(), tool.description(), tool.parameters())
}

/// A definition as one JSON object, in the form that most providers share.
pub(crate) fn definition_text(name: &str, description: &str, parameters: Option<&str>) -> String {
    format!(
        r#"{{"name":{},"description":{},"parameters":{}}}"#,
        serde_json::Value::from(name),
        serde_json::Value::from(description),
        parameters.unwrap_or("{}")
    )
}

impl fmt::Debug for ToolIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolIndex")
            .field("version", &self.snapshot.version())
            .field("tools", &self.snapshot.len())
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}
