//! Tests on public paths, as one binary: each further one would link the whole crate again.

#[cfg(feature = "onnx")]
mod onnx;
mod static_model;
