//! Text to vector: the [`Embedder`] trait and what every implementation is held to.

mod folder;
#[cfg(feature = "onnx-hub")]
mod hub;
mod manifest;
#[cfg(feature = "onnx")]
mod onnx;
mod profile;
mod static_model;
mod vectors;

#[cfg(feature = "onnx-hub")]
pub use hub::HubModel;
#[cfg(feature = "onnx")]
pub use onnx::{OnnxEmbedder, OnnxOptions, Pooling};
pub use profile::EmbedderProfile;
pub use static_model::StaticEmbedder;
pub use vectors::Progress;
pub(crate) use vectors::{Row, UnitVector, embed_documents, embed_queries};

use crate::error::Result;

/// A model that turns text into vectors of one length.
///
/// Implementations are synchronous, shared by reference and free to be slow: embedding is CPU work
/// (or a blocking call to a service), and a runtime moves it off its event loop with
/// [`AsyncSession`](crate::AsyncSession).
///
/// The engine does not trust the output. Every vector is checked for its length, for non-finite
/// numbers and for zero length, and is then L2-normalised; a vector that fails is an
/// [`ErrorKind::Embedder`](crate::ErrorKind::Embedder) or
/// [`ErrorKind::DimensionMismatch`](crate::ErrorKind::DimensionMismatch) error, upon which ranking
/// goes on with the lexical arm alone and says so. It is never a silent score.
///
/// # Example: a custom embedder
/// ```
/// use toolrack::{Catalog, Embedder, Engine, Result};
///
/// /// Counts letters; good enough to show the contract.
/// #[derive(Debug)]
/// struct Letters;
///
/// impl Embedder for Letters {
///     fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
///         Ok(texts.iter().map(|text| {
///             let mut counts = vec![0.0; 26];
///             for byte in text.bytes().filter(u8::is_ascii_lowercase) {
///                 counts[usize::from(byte - b'a')] += 1.0;
///             }
///             counts
///         }).collect())
///     }
///     fn dimensions(&self) -> usize { 26 }
///     fn max_tokens(&self) -> usize { 256 }
///     fn fingerprint(&self) -> String { "letters/1".into() }
/// }
///
/// let catalog = Catalog::parse(r#"[{"name": "zip_files", "description": "zip zip"},
///                                  {"name": "mail", "description": "send mail"}]"#)?;
/// let engine = Engine::builder(catalog).embedder(Letters).build()?;
/// assert_eq!(engine.fingerprint(), Some("letters/1".to_string()));
/// # Ok::<(), toolrack::Error>(())
/// ```
pub trait Embedder: Send + Sync {
    /// One vector a text, in the order given, each [`dimensions`](Self::dimensions) long.
    ///
    /// The engine hands over texts sorted by length in batches of at most
    /// [`batch_size`](Self::batch_size); a text longer than [`max_tokens`](Self::max_tokens) has to
    /// be cut here, by the model's own tokens. An implementation that returns another count of
    /// vectors than of texts is reported as an error.
    ///
    /// # Errors
    /// Whatever keeps the model from answering, as [`Error::embedder`](crate::Error::embedder).
    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>>;

    /// Like [`embed_documents`](Self::embed_documents), for requests.
    ///
    /// By default the same; models with a query prefix or a separate query tower override it.
    ///
    /// # Errors
    /// As for [`embed_documents`](Self::embed_documents).
    fn embed_queries(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        self.embed_documents(texts)
    }

    /// The length of every vector, at least 1.
    fn dimensions(&self) -> usize;

    /// How many of its own tokens the model reads of one text; the rest is cut.
    fn max_tokens(&self) -> usize;

    /// Names the model, its revision and everything else that changes its vectors.
    ///
    /// Two embedders with the same fingerprint must give the same vectors: the fingerprint decides
    /// whether stored vectors may be used again.
    fn fingerprint(&self) -> String;

    /// Texts in one call of [`embed_documents`](Self::embed_documents); 32 by default.
    fn batch_size(&self) -> usize {
        32
    }

    /// What was fitted to this model: the weight of the lexical arm and the admission thresholds.
    ///
    /// The default is [`EmbedderProfile::default`], which is labelled as not calibrated.
    fn profile(&self) -> EmbedderProfile {
        EmbedderProfile::default()
    }
}

/// A shared model is a model.
impl<E: Embedder + ?Sized> Embedder for std::sync::Arc<E> {
    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        (**self).embed_documents(texts)
    }

    fn embed_queries(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        (**self).embed_queries(texts)
    }

    fn dimensions(&self) -> usize {
        (**self).dimensions()
    }

    fn max_tokens(&self) -> usize {
        (**self).max_tokens()
    }

    fn fingerprint(&self) -> String {
        (**self).fingerprint()
    }

    fn batch_size(&self) -> usize {
        (**self).batch_size()
    }

    fn profile(&self) -> EmbedderProfile {
        (**self).profile()
    }
}
