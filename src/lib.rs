//! toolrack
mod digest;
mod embed;
mod error;
mod score;
#[cfg(feature = "onnx-hub")]
pub use embed::HubModel;
pub use embed::{Embedder, EmbedderProfile, Progress, StaticEmbedder};
#[cfg(feature = "onnx")]
pub use embed::{OnnxEmbedder, OnnxOptions, Pooling};
pub use error::{Error, ErrorKind, Result};
pub use score::Score;
