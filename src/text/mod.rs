//! From a tool to the texts that both arms read, and to what it costs a model.

mod cost;
mod document;
mod pieces;
mod tokenize;

#[cfg(feature = "tiktoken")]
mod tiktoken;

pub use cost::{EstimatedTokens, TokenCount, TokenCounter};
pub(crate) use document::{dense_text, field_terms, last_segment};
pub(crate) use pieces::pieces;
#[cfg(feature = "tiktoken")]
pub use tiktoken::TiktokenCounter;
pub(crate) use tokenize::{
    EXACT, count_content_words, is_cjk, is_keyword_list, joined_identifiers, stems, terms,
};
