//! What can be said about an ONNX model beside its folder.

use std::fmt;
use std::path::PathBuf;

use crate::error::{Result, invalid_setting};

/// How the vectors of a text's tokens become the one vector of the text.
///
/// A model whose output is already one vector a text is not pooled, whatever is said here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Pooling {
    /// The mean over all tokens but the padding; what most sentence models were trained with.
    #[default]
    Mean,
    /// The vector of the first token, as BGE, GTE and Arctic models were trained with.
    Cls,
}

impl Pooling {
    /// The word for it in a `toolrack.json`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Cls => "cls",
        }
    }

    /// The pooling that `word` stands for, in any case.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        [Self::Mean, Self::Cls]
            .into_iter()
            .find(|pooling| word.eq_ignore_ascii_case(pooling.as_str()))
    }
}

impl fmt::Display for Pooling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Settings of an [`OnnxEmbedder`](super::OnnxEmbedder).
///
/// What is not set here is taken from the folder's `toolrack.json`, then from the config files that
/// sentence-transformers writes, then from the defaults that each method names.
///
/// # Example
/// ```
/// use toolrack::{OnnxOptions, Pooling};
///
/// let options = OnnxOptions::default()
///     .file("onnx/model_quantized.onnx")
///     .pooling(Pooling::Cls)
///     .query_prefix("Represent this sentence for searching relevant passages: ")
///     .threads(2);
/// assert!(format!("{options:?}").contains("model_quantized"));
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OnnxOptions {
    pub(in crate::embed) file: Option<String>,
    pub(in crate::embed) pooling: Option<Pooling>,
    pub(in crate::embed) query_prefix: Option<String>,
    pub(in crate::embed) document_prefix: Option<String>,
    pub(in crate::embed) max_tokens: Option<usize>,
    pub(in crate::embed) threads: Option<usize>,
    pub(in crate::embed) batch_size: Option<usize>,
    pub(in crate::embed) name: Option<String>,
    pub(in crate::embed) revision: Option<String>,
    pub(in crate::embed) library: Option<PathBuf>,
    #[cfg_attr(not(feature = "onnx-hub"), allow(dead_code, reason = "only downloads are cached"))]
    pub(in crate::embed) cache_dir: Option<PathBuf>,
}

/// Intra-op threads when nothing is said.
///
/// A request is too short to share: the int8 MiniLM took 1.80 ms for 15 words on one thread and 1.67
/// on two of two idle cores; with one core busy elsewhere 2.0 ms on one thread and 2 to 6 on two,
/// which wait for each other (`examples/onnx_speed.rs`).
const THREADS: usize = 1;

/// Texts in one call when nothing is said.
const BATCH_SIZE: usize = 32;

impl OnnxOptions {
    /// The model file, relative to the folder; `model.onnx` by default.
    #[must_use]
    pub fn file(mut self, file: impl Into<String>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// How token vectors are pooled; [`Pooling::Mean`] by default.
    #[must_use]
    pub fn pooling(mut self, pooling: Pooling) -> Self {
        self.pooling = Some(pooling);
        self
    }

    /// Put before every request; nothing by default.
    #[must_use]
    pub fn query_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.query_prefix = Some(prefix.into());
        self
    }

    /// Put before every tool text; nothing by default.
    #[must_use]
    pub fn document_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.document_prefix = Some(prefix.into());
        self
    }

    /// Tokens read of one text, prefix and special tokens included; by default the model's limit.
    ///
    /// Fewer are faster: the cost of a text grows a little more than linearly with its tokens.
    #[must_use]
    pub fn max_tokens(mut self, max_tokens: usize) -> Self {
        self.max_tokens = Some(max_tokens);
        self
    }

    /// Threads that ONNX Runtime uses inside one run of the model; 1 by default.
    ///
    /// A second thread shortens a large model's requests by a third when a core is idle, and makes
    /// them several times as long when none is: count the program's other threads in.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Texts in one run of the model; by default 32, or 1 for a dynamically quantised model.
    ///
    /// Dynamic quantisation scales by the range of the whole batch, so that a text's vector would
    /// depend on the texts beside it (cosine .99 to the vector alone), and on one thread 32 texts at
    /// once save no more than 4 %. Memory grows with the batch: a run holds batch × tokens² attention
    /// weights a head.
    #[must_use]
    pub fn batch_size(mut self, batch_size: usize) -> Self {
        self.batch_size = Some(batch_size);
        self
    }

    /// First part of the fingerprint; the folder's name by default.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Second part of the fingerprint; `unnamed` by default.
    #[must_use]
    pub fn revision(mut self, revision: impl Into<String>) -> Self {
        self.revision = Some(revision.into());
        self
    }

    /// The ONNX Runtime library to load, before `ORT_DYLIB_PATH` and every place that is searched.
    ///
    /// A process loads one library, with the first model it opens; later models share it.
    #[must_use]
    pub fn library(mut self, path: impl Into<PathBuf>) -> Self {
        self.library = Some(path.into());
        self
    }

    /// Where `OnnxEmbedder::from_hub` (feature `onnx-hub`) keeps its downloads; by default
    /// `FASTEMBED_CACHE_DIR` or else `.cache/toolrack` in the home directory.
    #[must_use]
    pub fn cache_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache_dir = Some(folder.into());
        self
    }

    pub(crate) fn threads_or_default(&self) -> usize {
        self.threads.unwrap_or(THREADS)
    }

    pub(crate) fn batch_size_or_default(&self) -> usize {
        self.batch_size.unwrap_or(BATCH_SIZE)
    }

    /// Texts in one run of a model that quantises dynamically, or does not.
    pub(crate) fn run_size(&self, dynamic: bool) -> usize {
        self.batch_size.unwrap_or(if dynamic { 1 } else { BATCH_SIZE })
    }

    /// Checks what can be checked without the model.
    pub(crate) fn validate(&self) -> Result<()> {
        // ONNX Runtime reads 0 as "all cores", which is what setting by hand is to prevent.
        if !(1..=1024).contains(&self.threads_or_default()) {
            return Err(invalid_setting(format!(
                "threads is {}: give 1 to 1024",
                self.threads_or_default()
            )));
        }
        if self.batch_size_or_default() == 0 {
            return Err(invalid_setting("batch_size is 0: give at least 1"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn pooling_words_go_both_ways() {
        for pooling in [Pooling::Mean, Pooling::Cls] {
            assert_eq!(Pooling::parse(&pooling.to_string().to_uppercase()), Some(pooling));
        }
        assert_eq!(Pooling::parse("max"), None);
    }

    #[test]
    fn zero_threads_and_zero_batches_are_refused() {
        for options in [OnnxOptions::default().threads(0), OnnxOptions::default().batch_size(0)] {
            assert_eq!(options.validate().unwrap_err().kind(), ErrorKind::InvalidSetting);
        }
        OnnxOptions::default().validate().unwrap();
    }
}
