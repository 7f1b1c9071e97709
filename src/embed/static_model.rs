//! The bundled model: a bag of token vectors.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use safetensors::{Dtype, SafeTensors};
use tokenizers::Tokenizer;

use super::manifest::Manifest;
use super::{Embedder, EmbedderProfile, folder};
use crate::digest::sha256_hex;
use crate::error::{Error, ErrorKind, Result, invalid_setting};

const BUNDLED_WEIGHTS: &[u8] =
    include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/models/static/model.safetensors"));
const BUNDLED_TOKENIZER: &[u8] =
    include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/models/static/tokenizer.json"));
const BUNDLED_MANIFEST: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/models/static/toolrack.json"));

/// Tokens read of one text when the manifest does not say (models/static/README.md).
const MAX_TOKENS: usize = 256;

/// A static embedding model: every token has one vector, and a text is their weighted sum.
///
/// The vector of a text with tokens *t₁ … tₙ* is Σ weight(*t*) · scale(*t*) · row(*t*), where rows
/// are int8 and the sum is brought to length 1. No attention, no runtime, no native library: a
/// request costs microseconds. Requests and tools go through the same model.
///
/// [`bundled`](Self::bundled) is compiled into the crate and is what an engine uses when nothing
/// else is asked for: 256 dimensions, 28,116 WordPiece tokens (ASCII and CJK), distilled from
/// all-MiniLM-L6-v2. See `models/static/README.md` for source, licence and figures.
///
/// # Example
/// ```
/// use toolrack::{Embedder, StaticEmbedder};
///
/// let model = StaticEmbedder::bundled();
/// let vectors = model.embed_queries(&["send an email", "mail a message"])?;
/// let cosine: f32 = vectors[0].iter().zip(&vectors[1]).map(|(a, b)| a * b).sum();
/// assert_eq!(vectors[0].len(), 256);
/// assert!(cosine > 0.5);
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Clone)]
pub struct StaticEmbedder {
    model: Arc<Model>,
    /// Leading dimensions in use.
    dimensions: usize,
}

struct Model {
    tokenizer: Tokenizer,
    /// Row-major int8 token vectors, `width` numbers a row.
    rows: Cow<'static, [u8]>,
    /// weight · scale of each row.
    factors: Vec<f32>,
    width: usize,
    max_tokens: usize,
    fingerprint: String,
    profile: EmbedderProfile,
}

impl StaticEmbedder {
    /// The model that is compiled into the crate. Read once a process, then shared.
    pub fn bundled() -> Self {
        static BUNDLED: OnceLock<StaticEmbedder> = OnceLock::new();
        BUNDLED
            .get_or_init(|| {
                let manifest = Manifest::parse(BUNDLED_MANIFEST, "models/static/toolrack.json");
                let model = manifest.and_then(|manifest| {
                    let sha = manifest.sha256.clone().unwrap_or_default();
                    let rows = Source { weights: Cow::Borrowed(BUNDLED_WEIGHTS), sha256: sha };
                    Model::load(rows, BUNDLED_TOKENIZER, &manifest, "the bundled model")
                });
                match model {
                    Ok(model) => Self::whole(model),
                    // Fixed at compile time and read by every test: it cannot happen at run time.
                    Err(error) => unreachable!("the bundled model is damaged: {error}"),
                }
            })
            .clone()
    }

    /// The static model in `folder`: `model.safetensors` (tensors `embeddings` int8 *V* x *D*,
    /// `scales` and `weights` f32 *V*), `tokenizer.json` and, if there is one, `toolrack.json`.
    ///
    /// # Errors
    /// [`ErrorKind::ModelFile`] when a file is missing, damaged or has other tensors, shapes or
    /// checksum than expected, [`ErrorKind::Io`] when one is there but cannot be read.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        let manifest = Manifest::read(folder)?;
        let name = manifest.file.as_deref().unwrap_or("model.safetensors");
        let weights = folder::read(folder, name)?;
        let tokenizer = folder::read(folder, "tokenizer.json")?;
        let sha256 = sha256_hex(&weights);
        if let Some(expected) = &manifest.sha256
            && !expected.eq_ignore_ascii_case(&sha256)
        {
            return Err(Error::new(
                ErrorKind::ModelFile,
                format!(
                    "{} has sha256 {sha256} but its manifest says {expected}: fetch it again",
                    folder.join(name).display()
                ),
            ));
        }
        let source = Source { weights: Cow::Owned(weights), sha256 };
        let place = folder.display().to_string();
        Model::load(source, &tokenizer, &manifest, &place).map(Self::whole)
    }

    /// The same model cut to its first `dimensions` numbers, smaller and a little less exact.
    ///
    /// The bundled model is rotated by principal components, so that the first 128 or 64 numbers
    /// work alone.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidSetting`] when `dimensions` is 0 or more than the model has.
    pub fn truncated(mut self, dimensions: usize) -> Result<Self> {
        if dimensions == 0 || dimensions > self.model.width {
            return Err(invalid_setting(format!(
                "the model has {} dimensions, not {dimensions}: ask for 1 to {}",
                self.model.width, self.model.width
            )));
        }
        self.dimensions = dimensions;
        Ok(self)
    }

    fn whole(model: Model) -> Self {
        Self { dimensions: model.width, model: Arc::new(model) }
    }

    /// The token ids that are summed for `text`, cut to the model's limit.
    fn token_ids(&self, text: &str) -> Result<Vec<u32>> {
        let cut = clip(text, self.model.max_tokens);
        let encoding = self.model.tokenizer.encode_fast(cut, false).map_err(|error| {
            Error::embedder("the tokenizer failed on a text").with_source(error)
        })?;
        let ids = encoding.get_ids();
        Ok(ids[..ids.len().min(self.model.max_tokens)].to_vec())
    }

    fn embed(&self, text: &str) -> Result<Vec<f32>> {
        let mut sum = vec![0.0_f32; self.dimensions];
        for id in self.token_ids(text)? {
            let row = id as usize;
            let Some(&factor) = self.model.factors.get(row) else {
                return Err(Error::embedder(format!(
                    "the tokenizer gave id {id} but the model has {} rows: use its own tokenizer",
                    self.model.factors.len()
                )));
            };
            let start = row * self.model.width;
            let values = &self.model.rows[start..start + self.dimensions];
            for (total, &value) in sum.iter_mut().zip(values) {
                *total += factor * f32::from(value as i8);
            }
        }
        let norm = sum.iter().map(|v| v * v).sum::<f32>().sqrt();
        if norm > 0.0 {
            sum.iter_mut().for_each(|value| *value /= norm);
        }
        Ok(sum)
    }
}

impl Embedder for StaticEmbedder {
    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        texts.iter().map(|text| self.embed(text)).collect()
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn max_tokens(&self) -> usize {
        self.model.max_tokens
    }

    fn fingerprint(&self) -> String {
        if self.dimensions == self.model.width {
            self.model.fingerprint.clone()
        } else {
            format!("{}/first-{}", self.model.fingerprint, self.dimensions)
        }
    }

    fn profile(&self) -> EmbedderProfile {
        self.model.profile.clone()
    }
}

impl fmt::Debug for StaticEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticEmbedder")
            .field("fingerprint", &self.fingerprint())
            .field("dimensions", &self.dimensions)
            .finish_non_exhaustive()
    }
}

struct Source {
    weights: Cow<'static, [u8]>,
    sha256: String,
}

impl Model {
    fn load(source: Source, tokenizer: &[u8], manifest: &Manifest, place: &str) -> Result<Self> {
        let damaged = |what: String| {
            Error::new(ErrorKind::ModelFile, format!("{place}: {what}: fetch the model again"))
        };
        let mut tokenizer = Tokenizer::from_bytes(tokenizer)
            .map_err(|error| damaged("tokenizer.json is damaged".into()).with_source(error))?;
        // The model sums what it is given: padding would be summed, truncation is done by us.
        tokenizer.with_padding(None);
        tokenizer
            .with_truncation(None)
            .map_err(|error| damaged("tokenizer.json is damaged".into()).with_source(error))?;

        let tensors = SafeTensors::deserialize(&source.weights)
            .map_err(|error| damaged("the weights are damaged".into()).with_source(error))?;
        let tensor = |name: &str, dtype: Dtype, rank: usize| {
            let view = tensors
                .tensor(name)
                .map_err(|_| damaged(format!("the weights have no tensor '{name}'")))?;
            if view.dtype() != dtype || view.shape().len() != rank {
                return Err(damaged(format!(
                    "tensor '{name}' is {:?} {:?}, not {dtype:?} of rank {rank}",
                    view.dtype(),
                    view.shape()
                )));
            }
            Ok(view)
        };
        let embeddings = tensor("embeddings", Dtype::I8, 2)?;
        let (vocabulary, width) = (embeddings.shape()[0], embeddings.shape()[1]);
        let scales = floats(tensor("scales", Dtype::F32, 1)?.data());
        let weights = floats(tensor("weights", Dtype::F32, 1)?.data());
        if width == 0 || scales.len() != vocabulary || weights.len() != vocabulary {
            return Err(damaged(format!(
                "{vocabulary} token vectors of {width} numbers, {} scales and {} weights do not \
                 go together",
                scales.len(),
                weights.len()
            )));
        }
        if tokenizer.get_vocab_size(true) > vocabulary {
            return Err(damaged(format!(
                "the tokenizer has {} tokens but the model {vocabulary}",
                tokenizer.get_vocab_size(true)
            )));
        }
        if let Some(expected) = manifest.dimensions
            && expected != width
        {
            return Err(Error::new(
                ErrorKind::DimensionMismatch,
                format!(
                    "{place}: the model has {width} dimensions but its manifest says {expected}: fetch the model again"
                ),
            ));
        }
        let factors: Vec<f32> = scales.iter().zip(&weights).map(|(s, w)| s * w).collect();
        if factors.iter().any(|factor| !factor.is_finite()) {
            return Err(damaged("a scale or weight is not a finite number".into()));
        }
        let rows = match &source.weights {
            Cow::Borrowed(bytes) => {
                // The view borrows from a short-lived parse: find its place in the static bytes.
                let start = embeddings.data().as_ptr() as usize - bytes.as_ptr() as usize;
                Cow::Borrowed(&bytes[start..start + embeddings.data().len()])
            }
            Cow::Owned(_) => Cow::Owned(embeddings.data().to_vec()),
        };
        let name = manifest.name.as_deref().unwrap_or("static");
        let revision = manifest.revision.as_deref().unwrap_or("unnamed");
        let sha = source.sha256.get(..12).unwrap_or_default();
        Ok(Self {
            tokenizer,
            rows,
            factors,
            width,
            max_tokens: manifest.max_tokens.unwrap_or(MAX_TOKENS).max(1),
            fingerprint: format!("{name}/{revision}/{sha}/{width}"),
            profile: manifest.profile.clone().unwrap_or_default(),
        })
    }
}

/// `text` without what lies far past `max_tokens` tokens, so that a megabyte costs no second.
///
/// A WordPiece token has at least one character, and a word of more than 100 characters is one
/// token; 100 characters a token therefore keep all that the limit can let through.
pub(super) fn clip(text: &str, max_tokens: usize) -> &str {
    match text.char_indices().nth(max_tokens.saturating_mul(100)) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_ids_are_those_of_the_lab() {
        let golden =
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/golden.json"));
        let golden: serde_json::Value = serde_json::from_str(golden).unwrap();
        let expected: Vec<u32> = serde_json::from_value(golden["static"]["ids0"].clone()).unwrap();
        let text = golden["texts"][0].as_str().unwrap();
        assert_eq!(StaticEmbedder::bundled().token_ids(text).unwrap(), expected);
    }

    #[test]
    fn clipping_keeps_characters_whole() {
        assert_eq!(clip("äöü", 1), "äöü");
        assert_eq!(clip(&"ä".repeat(300), 2).chars().count(), 200);
    }
}
