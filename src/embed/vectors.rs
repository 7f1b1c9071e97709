//! The check that stands between an embedder and the index.

use std::time::Instant;

use ndarray::Array2;

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

/// Embeds `texts` into an N x D matrix of unit rows, in the order given.
///
/// Texts are sorted by length before they are cut into batches, so that a model that pads to the
/// longest text of a batch wastes nothing.
pub(crate) fn embed_documents(
    embedder: &dyn Embedder,
    texts: &[&str],
    progress: &mut dyn FnMut(Progress),
) -> Result<Array2<f32>> {
    let mut matrix = Array2::zeros((texts.len(), embedder.dimensions()));
    let mut order: Vec<usize> = (0..texts.len()).collect();
    order.sort_by_key(|&row| texts[row].len());
    let started = Instant::now();
    let mut done = 0;
    for rows in order.chunks(embedder.batch_size().max(1)) {
        let batch: Vec<&str> = rows.iter().map(|&row| texts[row]).collect();
        let vectors = embedder.embed_documents(&batch)?;
        check_count(embedder, vectors.len(), batch.len())?;
        for (&row, vector) in rows.iter().zip(vectors) {
            let unit = UnitVector::normalise(vector, embedder)?;
            matrix.row_mut(row).as_slice_mut().into_iter().for_each(|target| {
                target.copy_from_slice(unit.as_slice());
            });
        }
        done += rows.len();
        progress(Progress { done, total: texts.len(), elapsed: started.elapsed() });
    }
    Ok(matrix)
}

/// Embeds requests, each checked and normalised.
pub(crate) fn embed_queries(embedder: &dyn Embedder, texts: &[&str]) -> Result<Vec<UnitVector>> {
    let vectors = embedder.embed_queries(texts)?;
    check_count(embedder, vectors.len(), texts.len())?;
    vectors.into_iter().map(|vector| UnitVector::normalise(vector, embedder)).collect()
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
