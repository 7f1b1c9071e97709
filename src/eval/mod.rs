//! Measuring retrieval: datasets, metrics, baselines, reports, replayed runs, lint.
//!
//! A [`Dataset`] is a catalog with labelled requests; [`evaluate`] measures [`System`]s on it and
//! gives a [`Report`].

mod baseline;
mod bootstrap;
mod check;
mod dataset;
mod evaluate;
mod lines;
mod lint;
mod memory;
mod metric;
mod query;
mod replay;
mod report;
mod run_file;
mod split;
mod system;
mod traced;
mod trec;
mod tune;

pub use baseline::definition_tokens;
pub use bootstrap::{Bootstrap, Estimate};
pub use check::{Drop, check};
pub use dataset::{Dataset, DatasetOptions, Gold, TextField};
pub use evaluate::{EvalOptions, EvalProgress, Rankings, evaluate, rank, rank_with};
pub use lint::{Finding, Level, LintOptions, LintReport, Rule, lint, lint_with};
pub use memory::peak_rss_mb;
pub use metric::{Metric, NoMatch, slot_ranks};
pub use query::{GoldSlot, Query, QueryTurn};
pub use replay::{
    Intent, Recommendation, ReplayFigures, ReplayOptions, ReplayReport, ReplaySetting, Shown,
    replay,
};
pub use report::{
    Confusion, DatasetReport, Difference, Group, MacroReport, Miss, Report, SweepPoint,
    SystemReport, ThresholdPoint,
};
pub use run_file::{RunMeta, write_run};
pub use split::halves;
pub use system::{EngineSettings, System};
pub use trec::{read_run, write_qrels, write_trec_run};
pub use tune::{TuneOptions, TuneReport, Tuned, tune};
