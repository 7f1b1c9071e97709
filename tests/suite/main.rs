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
#[cfg(feature = "cli")]
mod cli;
mod concurrency;
mod eval_dataset;
mod eval_html;
mod eval_lint;
mod eval_metrics;
mod eval_replay;
mod eval_shared;
mod eval_systems;
mod eval_tune;
mod eviction;
mod field_cases;
mod find_tool;
mod fixtures;
mod gate;
mod hidden;
mod hostile;
mod intent;
mod invoice_example;
mod layers;
mod loader;
#[cfg(feature = "onnx")]
mod onnx;
mod policy;
mod readers;
mod readme;
mod secrecy;
mod selector;
mod session;
mod shown;
mod static_model;
#[cfg(feature = "tiktoken")]
mod tokens;
mod trace;
mod trust;
mod working_set;
mod xray;
