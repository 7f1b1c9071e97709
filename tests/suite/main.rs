//! Tests on public paths, as one binary: each further one would link the whole crate again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub
)]

mod adapters;
mod catalog;
mod concurrency;
mod eviction;
mod field_cases;
mod find_tool;
mod fixtures;
mod hostile;
mod invoice_example;
mod layers;
#[cfg(feature = "onnx")]
mod onnx;
mod policy;
mod readers;
mod readme;
mod session;
mod static_model;
mod working_set;
