//! Measuring retrieval: datasets, metrics, baselines, reports, replayed runs, lint.
//!
//! A [`Dataset`] is a catalog with labelled requests.

mod dataset;
mod lines;
mod trec;

pub use dataset::{Dataset, DatasetOptions, Gold, GoldSlot, Query, QueryTurn, TextField};
pub use trec::{read_run, write_qrels, write_trec_run};
