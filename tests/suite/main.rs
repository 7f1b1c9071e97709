//! Tests on public paths, as one binary: each further one would link the whole crate again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub
)]

mod fixtures;
#[cfg(feature = "onnx")]
mod onnx;
mod readers;
mod static_model;
