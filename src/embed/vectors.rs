//! The check that stands between an embedder and the index.

use std::time::Instant;

use ndarray::{Array2, ArrayView1};

use super::Embedder;
use crate::error::{Error, ErrorKind, Result};

/// How far the embedding of a catalog has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Tools embedded so far.
    pub done: usize,
    /// Tools to embed in all.
    pub total: usize,
    /// Time since the first batch was begun.
    pub elapsed: std::time::Duration,
}

/// A vector of length 1 whose numbers are all finite.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UnitVector(Vec<f32>);

impl UnitVector {
    /// `values` brought to length 1; the error says which model gave what.
    pub(crate) fn normalise(mut values: Vec<f32>, embedder: &dyn Embedder) -> Result<Self> {
        let dimensions = embedder.dimensions();
        if values.len() != dimensions {
            return Err(Error::new(
                ErrorKind::DimensionMismatch,
                format!(
                    "embedder '{}' gave a vector of {} numbers but announces {dimensions}: \
                     mend its dimensions()",
                    embedder.fingerprint(),
                    values.len()
                ),
            ));
        }
        // In f64, so that neither tiny nor huge but finite components lose the length.
        let norm = values.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>().sqrt();
        if !norm.is_finite() {
            return Err(Error::embedder(format!(
                "embedder '{}' gave a vector with a NaN or infinite number: check the model",
                embedder.fingerprint()
            )));
        }
        if norm == 0.0 {
            return Err(Error::embedder(format!(
                "embedder '{}' gave a zero vector, which is near to nothing: check the text and \
                 the model",
                embedder.fingerprint()
            )));
        }
        for value in &mut values {
            *value = (f64::from(*value) / norm) as f32;
        }
        Ok(Self(values))
    }

    pub(crate) fn as_slice(&self) -> &[f32] {
        &self.0
    }
}

/// What became of the texts that were to be embedded.
pub(crate) struct Embedded {
    /// N x D; unit rows in the order of the texts, zeros where there is none.
    pub matrix: Array2<f32>,
    pub rows: Vec<Row>,
    /// Why rows are [`Row::Missing`] or, when none is, why they are [`Row::Void`].
    pub failure: Option<Error>,
}

/// What became of one text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Row {
    /// The matrix has its vector.
    Present,
    /// The model has a zero vector for it: the text means nothing to it, and asking again is no use.
    Void,
    /// The model failed before it or upon it, and may do better later.
    Missing,
}

/// Embeds `texts`, in the order given.
///
/// Texts are sorted by length before they are cut into batches, so that a model that pads to the
/// longest text of a batch wastes nothing. A text that means nothing to the model costs that text its
/// vector and no other; a model that fails is not asked again.
pub(crate) fn embed_documents(
    embedder: &dyn Embedder,
    texts: &[&str],
    progress: &mut dyn FnMut(Progress),
) -> Embedded {
    let mut embedded = Embedded {
        matrix: Array2::zeros((texts.len(), embedder.dimensions())),
        rows: vec![Row::Missing; texts.len()],
        failure: None,
    };
    let mut order: Vec<usize> = (0..texts.len()).collect();
    order.sort_by_key(|&row| texts[row].len());
    let started = Instant::now();
    let mut done = 0;
    let mut void = None;
    for rows in order.chunks(embedder.batch_size().max(1)) {
        if let Err(error) = embed_batch(embedder, texts, rows, &mut embedded, &mut void) {
            embedded.failure = Some(error);
            break;
        }
        done += rows.len();
        progress(Progress { done, total: texts.len(), elapsed: started.elapsed() });
    }
    embedded.failure = embedded.failure.or(void);
    embedded
}

fn embed_batch(
    embedder: &dyn Embedder,
    texts: &[&str],
    rows: &[usize],
    into: &mut Embedded,
    void: &mut Option<Error>,
) -> Result<()> {
    let batch: Vec<&str> = rows.iter().map(|&row| texts[row]).collect();
    let vectors = embedder.embed_documents(&batch)?;
    check_count(embedder, vectors.len(), batch.len())?;
    for (&row, vector) in rows.iter().zip(vectors) {
        let is_zero = vector.iter().all(|&value| value == 0.0);
        match UnitVector::normalise(vector, embedder) {
            Ok(unit) => {
                into.rows[row] = Row::Present;
                into.matrix.row_mut(row).assign(&ArrayView1::from(unit.as_slice()));
            }
            Err(error) if error.kind() != ErrorKind::Embedder => return Err(error),
            Err(error) if is_zero => {
                into.rows[row] = Row::Void;
                void.get_or_insert(error);
            }
            Err(error) => {
                into.failure.get_or_insert(error);
            }
        }
    }
    Ok(())
}

/// Embeds requests, each checked and normalised; an inner error for one that means nothing to the
/// model, which is a zero vector.
pub(crate) fn embed_queries(
    embedder: &dyn Embedder,
    texts: &[&str],
) -> Result<Vec<Result<UnitVector>>> {
    let vectors = embedder.embed_queries(texts)?;
    check_count(embedder, vectors.len(), texts.len())?;
    vectors
        .into_iter()
        .map(|vector| {
            let is_zero = vector.iter().all(|&value| value == 0.0);
            match UnitVector::normalise(vector, embedder) {
                Err(error) if is_zero && error.kind() == ErrorKind::Embedder => Ok(Err(error)),
                result => result.map(Ok),
            }
        })
        .collect()
}

fn check_count(embedder: &dyn Embedder, got: usize, asked: usize) -> Result<()> {
    if got == asked {
        return Ok(());
    }
    Err(Error::embedder(format!(
        "embedder '{}' gave {got} vectors for {asked} texts: give one a text",
        embedder.fingerprint()
    )))
}
