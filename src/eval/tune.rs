//! Settings fitted to one half of a dataset and reported on the other.

use serde::{Deserialize, Serialize};

use super::bootstrap::{Bootstrap, Estimate, mean};
use super::dataset::Dataset;
use super::evaluate::{Rankings, rank_again};
use super::metric::{Metric, slot_ranks};
use super::split::halves;
use super::system::{EngineSettings, System};
use crate::config::Fitted;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Fusion, VectorCache};
use crate::select::Gate;

/// The fewest queries of a half: below, an interval is wider than any gain.
const LEAST: usize = 20;
/// The most queries of the training half that a trial ranks.
const MOST: usize = 1_000;
/// Weights that are tried, as multiples of the model's own.
const WEIGHTS: [f32; 9] = [0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0];
/// Gain in the measure below which the simpler setting stays.
const LEAST_GAIN: f64 = 0.001;
/// What is fitted to.
const GOAL: Metric = Metric::Ndcg(10);

/// How settings are fitted.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct TuneOptions {
    /// Seed by which the dataset is cut into halves. Default 17.
    pub seed: u64,
    /// Share of the requests with a gold tool whose best one the gate should admit. Default 0.97.
    pub keep: f64,
}

impl Default for TuneOptions {
    fn default() -> Self {
        Self { seed: 17, keep: 0.97 }
    }
}

impl TuneOptions {
    /// Sets the seed by which the dataset is cut into halves.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the share of requests whose best gold tool the gate should admit.
    #[must_use]
    pub fn keep(mut self, keep: f64) -> Self {
        self.keep = keep;
        self
    }
}

/// Fitted settings, and what they are worth on requests that they have not seen.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Tuned {
    /// The settings.
    pub settings: EngineSettings,
    /// What they were fitted on.
    pub fitted: Fitted,
    /// What they are worth.
    pub report: TuneReport,
}

/// What fitted settings are worth on the half that they were not fitted on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TuneReport {
    /// Name of the dataset.
    pub dataset: String,
    /// Queries that were fitted to.
    pub n_fitted: usize,
    /// Queries that are reported on.
    pub n_reported: usize,
    /// Settings that were tried.
    pub trials: usize,
    /// nDCG@10 before, on the reported half.
    pub before: Estimate,
    /// nDCG@10 after, on the reported half.
    pub after: Estimate,
    /// After less before, paired.
    pub gain: Estimate,
    /// Share of the reported requests to which the new gate admits a gold tool of the first ten.
    pub kept: f64,
    /// Share of the reported requests that no tool fits to which the new gate admits nothing; `None`
    /// without such requests.
    pub refused: Option<f64>,
}

/// Fits the weight of the lexical arm, the weights of its fields and the gate's thresholds to one
/// half of `dataset`, and reports on the other.
///
/// Weights are tried one after the other, each kept when nDCG@10 rises by at least .001. The
/// threshold of read-only tools is the greatest that admits a gold tool of the first ten for the
/// share of requests that [`TuneOptions::keep`] states; those of the other risk classes keep their
/// distance. There is no way to get figures of the half that was fitted to.
///
/// # Errors
/// [`ErrorKind::InvalidSetting`] when a half has fewer than 20 judged queries or `keep` is not in
/// (0, 1]; else as [`evaluate`](super::evaluate).
pub fn tune(
    dataset: &Dataset,
    base: &EngineSettings,
    options: &TuneOptions,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Tuned> {
    if !(options.keep > 0.0 && options.keep <= 1.0) {
        return Err(Error::new(
            ErrorKind::InvalidSetting,
            format!("keep is {}: give a share above 0 and at most 1", options.keep),
        ));
    }
    let (fit, report) = halves(dataset, options.seed);
    let judged = |set: &Dataset| set.queries().iter().filter(|q| !q.is_unanswerable()).count();
    for half in [&fit, &report] {
        if judged(half) < LEAST {
            return Err(Error::new(
                ErrorKind::InvalidSetting,
                format!(
                    "a half of {} has {} labelled queries, fewer than {LEAST}: label more to tune",
                    dataset.name(),
                    judged(half)
                ),
            ));
        }
    }
    let every = fit.len().div_ceil(MOST);
    let mut n = 0;
    let counter = std::cell::Cell::new(0_usize);
    let fit = if every > 1 {
        fit.filtered(|_| {
            counter.set(counter.get() + 1);
            counter.get().is_multiple_of(every)
        })
    } else {
        fit
    };
    let mut vectors = std::collections::HashMap::new();
    let mut trial = Trial { fit: &fit, vectors: &mut vectors, n: &mut n, progress };
    let mut best = base.clone();
    let mut goal = trial.goal(&best)?;
    if let (Some(embedder), Fusion::Agreement { .. }) = (&base.embedder, base.fusion) {
        let own = embedder.profile().lexical_weight;
        let weights = WEIGHTS.map(|times| own * times);
        for weight in weights {
            let fusion = Fusion::Agreement { lexical_weight: Some(weight) };
            trial.take_better(best.clone().fusion(fusion), &mut best, &mut goal)?;
        }
    }
    for (field, values) in
        [(0, &[1, 2, 4, 5][..]), (1, &[0, 2, 3]), (2, &[0, 2, 3]), (3, &[0, 2, 3])]
    {
        let before = best.clone();
        for &value in values {
            let mut settings = before.clone();
            let weights = &mut settings.weights;
            *[
                &mut weights.name,
                &mut weights.parameters,
                &mut weights.namespace,
                &mut weights.description,
            ][field] = value;
            trial.take_better(settings, &mut best, &mut goal)?;
        }
    }
    let rankings = trial.rank(&best)?;
    if let Some(gate) = fit_gate(&fit, &best, &rankings, options.keep) {
        best.gate = gate;
    }
    let report = on_other_half(&report, fit.len(), base, &best, n)?;
    Ok(Tuned {
        settings: best,
        fitted: Fitted {
            dataset: dataset.name().to_owned(),
            fingerprint: dataset.fingerprint().to_owned(),
            seed: options.seed,
        },
        report: TuneReport { dataset: dataset.name().to_owned(), ..report },
    })
}

struct Trial<'a> {
    fit: &'a Dataset,
    vectors: &'a mut std::collections::HashMap<String, VectorCache>,
    n: &'a mut usize,
    progress: &'a mut dyn FnMut(usize, usize),
}

impl Trial<'_> {
    fn rank(&mut self, settings: &EngineSettings) -> Result<Rankings> {
        /// Trials of a fit, about: for progress.
        const ABOUT: usize = 25;
        *self.n += 1;
        (self.progress)(*self.n, ABOUT.max(*self.n));
        rank_again(self.fit, &System::engine("trial", settings.clone()), 10, self.vectors)
    }

    fn goal(&mut self, settings: &EngineSettings) -> Result<f64> {
        let rankings = self.rank(settings)?;
        Ok(mean(&values(self.fit, &rankings)))
    }

    fn take_better(
        &mut self,
        settings: EngineSettings,
        best: &mut EngineSettings,
        goal: &mut f64,
    ) -> Result<()> {
        let reached = self.goal(&settings);
        match reached {
            Ok(reached) if reached >= *goal + LEAST_GAIN => {
                *best = settings;
                *goal = reached;
                Ok(())
            }
            Ok(_) => Ok(()),
            // All weights zero, for instance.
            Err(error) if error.kind() == ErrorKind::InvalidSetting => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn values(dataset: &Dataset, rankings: &Rankings) -> Vec<f64> {
    let pairs = dataset.queries().iter().zip(&rankings.ranked);
    pairs
        .filter(|(query, _)| !query.is_unanswerable())
        .map(|(query, ranked)| GOAL.of(&slot_ranks(query, ranked)))
        .collect()
}

/// What the best gold tool of each request reaches at the gate.
fn reached(dataset: &Dataset, rankings: &Rankings) -> Vec<f32> {
    let Some(gates) = rankings.gates() else { return Vec::new() };
    let queries = dataset.queries().iter().zip(&rankings.ranked).zip(gates);
    queries
        .filter_map(|((query, rows), gates)| {
            let gold = rows
                .iter()
                .zip(gates)
                .filter(|&(&row, _)| query.slots.iter().any(|slot| slot.takes(row)));
            gold.map(|(_, &gate)| gate).max_by(f32::total_cmp)
        })
        .collect()
}

fn fit_gate(
    fit: &Dataset,
    settings: &EngineSettings,
    rankings: &Rankings,
    keep: f64,
) -> Option<Gate> {
    let profile = settings.embedder.as_ref()?.profile();
    let mut reached = reached(fit, rankings);
    if reached.is_empty() {
        return None;
    }
    reached.sort_by(f32::total_cmp);
    let place = ((1.0 - keep) * reached.len() as f64).floor() as usize;
    // Three digits are what such a quantile is worth; named tools pass any gate.
    let read = (reached.get(place)?.min(1.0) * 1_000.0).floor() / 1_000.0;
    let mut gate = settings.gate.clone();
    let above = |own: Option<f32>, default: f32, from: Option<f32>, from_default: f32| {
        let distance = own.unwrap_or(default) - from.unwrap_or(from_default);
        ((read + distance).clamp(-1.0, 1.0) * 1_000.0).round() / 1_000.0
    };
    let base = (gate.read, profile.read);
    let write = above(gate.write, profile.write, base.0, base.1);
    let destructive = above(gate.destructive, profile.destructive, base.0, base.1);
    gate.read = Some(read.max(-1.0));
    (gate.write, gate.destructive) = (Some(write), Some(destructive));
    Some(gate)
}

fn on_other_half(
    report: &Dataset,
    n_fitted: usize,
    base: &EngineSettings,
    best: &EngineSettings,
    trials: usize,
) -> Result<TuneReport> {
    let mut vectors = std::collections::HashMap::new();
    let old = rank_again(report, &System::engine("before", base.clone()), 10, &mut vectors)?;
    let new = rank_again(report, &System::engine("after", best.clone()), 10, &mut vectors)?;
    let (before, after) = (values(report, &old), values(report, &new));
    let bootstrap = Bootstrap::default();
    let threshold = best.gate.read.or_else(|| Some(best.embedder.as_ref()?.profile().read));
    let threshold = threshold.unwrap_or(best.gate.read_words);
    let gold = reached(report, &new);
    let kept = gold.iter().filter(|&&gate| gate >= threshold).count();
    let gates = new.gates().unwrap_or_default();
    let unanswerable = report.queries().iter().zip(gates).filter(|(q, _)| q.is_unanswerable());
    let refused: Vec<f64> = unanswerable
        .map(|(_, gates)| f64::from(u8::from(gates.iter().all(|&gate| gate < threshold))))
        .collect();
    Ok(TuneReport {
        dataset: String::new(),
        n_fitted,
        n_reported: report.len(),
        trials,
        before: bootstrap.mean(&before),
        after: bootstrap.mean(&after),
        gain: bootstrap.difference(&after, &before),
        kept: kept as f64 / before.len().max(1) as f64,
        refused: (!refused.is_empty()).then(|| mean(&refused)),
    })
}
