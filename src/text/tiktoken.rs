//! Exact token counts.

use std::fmt;

use tiktoken_rs::CoreBPE;

use super::{TokenCount, TokenCounter};

/// Counts tokens exactly, with a vocabulary of `tiktoken-rs` that is compiled in.
///
/// # Example
/// ```
/// use toolrack::{TiktokenCounter, TokenCounter};
///
/// assert_eq!(TiktokenCounter::o200k().count("tool retrieval"), 2);
/// ```
#[derive(Clone)]
pub struct TiktokenCounter {
    vocabulary: &'static CoreBPE,
    name: &'static str,
}

impl TiktokenCounter {
    /// The vocabulary of GPT-4o and later.
    pub fn o200k() -> Self {
        Self { vocabulary: tiktoken_rs::o200k_base_singleton(), name: "o200k" }
    }

    /// The vocabulary of GPT-4 and GPT-3.5.
    pub fn cl100k() -> Self {
        Self { vocabulary: tiktoken_rs::cl100k_base_singleton(), name: "cl100k" }
    }
}

impl TokenCounter for TiktokenCounter {
    fn count(&self, text: &str) -> TokenCount {
        self.vocabulary.encode_ordinary(text).len()
    }
}

impl fmt::Debug for TiktokenCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TiktokenCounter").field(&self.name).finish()
    }
}
