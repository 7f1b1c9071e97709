//! Measuring retrieval: datasets, metrics, baselines, reports, replayed runs, lint.
//!
//! A [`Dataset`] is a catalog with labelled requests; [`evaluate`] measures [`System`]s on it and
//! gives a [`Report`].

mod baseline;
mod bootstrap;
mod dataset;
mod evaluate;
mod lines;
mod memory;
mod metric;
mod report;
mod system;
mod trec;

pub use bootstrap::{Bootstrap, Estimate};
pub use dataset::{Dataset, DatasetOptions, Gold, GoldSlot, Query, QueryTurn, TextField};
pub use evaluate::{EvalOptions, EvalProgress, Rankings, evaluate, rank};
pub use memory::peak_rss_mb;
pub use metric::{Metric, NoMatch, slot_ranks};
pub use report::{
    Confusion, DatasetReport, Difference, Group, MacroReport, Miss, Report, SweepPoint,
    SystemReport, ThresholdPoint,
};
pub use system::{EngineSettings, System};
pub use trec::{read_run, write_qrels, write_trec_run};
