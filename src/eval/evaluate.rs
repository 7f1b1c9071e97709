//! Systems against datasets.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use super::baseline::{definition_tokens, payload};
use super::bootstrap::{Bootstrap, mean};
use super::dataset::Dataset;
use super::memory::peak_rss_mb;
use super::metric::{Metric, NoMatch, slot_ranks};
use super::query::Query;
use super::report::{
    Confusion, DatasetReport, Difference, Group, MacroReport, Miss, Report, SweepPoint,
    SystemReport, ThresholdPoint,
};
use super::system::{Built, System};
use crate::embed::Progress;
use crate::error::{Error, ErrorKind, Result};
use crate::index::VectorCache;
use crate::select::{DEFAULT_K, GatedBy};

/// Requests that are ranked before the clock starts.
const WARM_UP: usize = 50;

/// How systems are measured.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct EvalOptions {
    /// The measures. Default [`Metric::STANDARD`].
    pub metrics: Vec<Metric>,
    /// The k of the sweep. Default 1, 2, 3, 5, 8, 10, 15, 20, 30, 50.
    pub ks: Vec<usize>,
    /// How many tools are ranked for a query; what lies below counts as not ranked. Default 100.
    pub depth: usize,
    /// Cosine thresholds of the sweep. Default 0, 0.05, ... 0.7.
    pub thresholds: Vec<f32>,
    /// How intervals are drawn.
    pub bootstrap: Bootstrap,
    /// The most misses that are listed for a system. Default 20.
    pub misses: usize,
    /// A gold tool below this rank is a miss. Default 10.
    pub miss_k: usize,
}

impl Default for EvalOptions {
    fn default() -> Self {
        Self {
            metrics: Metric::STANDARD.to_vec(),
            ks: vec![1, 2, 3, 5, 8, 10, 15, 20, 30, 50],
            depth: 100,
            thresholds: (0..=14).map(|step| step as f32 / 20.0).collect(),
            bootstrap: Bootstrap::default(),
            misses: 20,
            miss_k: DEFAULT_K,
        }
    }
}

impl EvalOptions {
    /// Sets the measures.
    #[must_use]
    pub fn metrics(mut self, metrics: impl IntoIterator<Item = Metric>) -> Self {
        self.metrics = metrics.into_iter().collect();
        self
    }

    /// Sets the k of the sweep.
    #[must_use]
    pub fn ks(mut self, ks: impl IntoIterator<Item = usize>) -> Self {
        self.ks = ks.into_iter().collect();
        self
    }

    /// Sets how many tools are ranked for a query.
    #[must_use]
    pub fn depth(mut self, depth: usize) -> Self {
        self.depth = depth;
        self
    }

    /// Sets the cosine thresholds of the sweep.
    #[must_use]
    pub fn thresholds(mut self, thresholds: impl IntoIterator<Item = f32>) -> Self {
        self.thresholds = thresholds.into_iter().collect();
        self
    }

    /// Sets how intervals are drawn.
    #[must_use]
    pub fn bootstrap(mut self, bootstrap: Bootstrap) -> Self {
        self.bootstrap = bootstrap;
        self
    }

    /// Sets the most misses that are listed for a system.
    #[must_use]
    pub fn misses(mut self, misses: usize) -> Self {
        self.misses = misses;
        self
    }

    fn validate(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::new(ErrorKind::InvalidSetting, what));
        if self.depth == 0 || self.ks.contains(&0) {
            return wrong("a depth or k is 0: rank at least one tool");
        }
        let deepest = self.metrics.iter().find(|metric| metric.depth() > Some(self.depth));
        if let Some(metric) = deepest {
            return wrong(&format!(
                "the depth is {} but {metric} looks deeper: rank at least as many tools",
                self.depth
            ));
        }
        if self.bootstrap.samples == 0 {
            return wrong("the bootstrap has 0 samples: draw at least one");
        }
        if self.thresholds.iter().any(|value| !(-1.0..=1.0).contains(value)) {
            return wrong("a threshold is out of range: give cosines in [-1, 1]");
        }
        Ok(())
    }
}

/// How far an evaluation has come.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EvalProgress {
    /// Name of the dataset.
    pub dataset: String,
    /// Name of the system.
    pub system: String,
    /// Queries ranked so far, over all datasets and systems.
    pub done: usize,
    /// Queries to rank.
    pub total: usize,
}

/// What one system ranked for one dataset.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Rankings {
    /// Rows for each query, best first, at least 20 as far as the catalog has so many.
    pub ranked: Vec<Vec<usize>>,
    /// Seconds from the catalog to the ready system.
    pub build_s: f64,
    /// Microseconds from request to ranked tools, one at a time, sorted.
    pub query_us: Vec<f64>,
    /// What the ranked tools reach at the gate; see [`Built::rank`].
    gates: Option<Vec<Vec<f32>>>,
}

impl Rankings {
    /// What the ranked tools of each query reach at the gate; `None` for a system without one.
    pub(crate) fn gates(&self) -> Option<&[Vec<f32>]> {
        self.gates.as_deref()
    }

    /// The time within which `share` of the queries were ranked, in microseconds.
    pub fn query_us_at(&self, share: f64) -> f64 {
        let last = self.query_us.len().saturating_sub(1);
        let place = (share * last as f64).round() as usize;
        self.query_us.get(place).copied().unwrap_or_default()
    }
}

/// Ranks all queries of `dataset` with `system`, one after the other, after a warm-up.
///
/// # Errors
/// As [`Engine::builder`](crate::Engine::builder); [`ErrorKind::Embedder`] when the model failed: a
/// system is not measured without the arm that it is named after.
pub fn rank(dataset: &Dataset, system: &System, depth: usize) -> Result<Rankings> {
    rank_with(dataset, system, depth, &mut |_| {})
}

/// Like [`rank`], telling how many queries are ranked.
///
/// # Errors
/// As [`rank`].
pub fn rank_with(
    dataset: &Dataset,
    system: &System,
    depth: usize,
    progress: &mut dyn FnMut(usize),
) -> Result<Rankings> {
    let built = system.build(dataset, &mut HashMap::new(), |_| {})?;
    rank_all(dataset, &built, depth, progress)
}

/// Like [`rank`], with vectors that are known already.
pub(crate) fn rank_again(
    dataset: &Dataset,
    system: &System,
    depth: usize,
    vectors: &mut HashMap<String, VectorCache>,
) -> Result<Rankings> {
    let built = system.build(dataset, vectors, |_| {})?;
    rank_all(dataset, &built, depth, &mut |_| {})
}

fn rank_all(
    dataset: &Dataset,
    built: &Built<'_>,
    depth: usize,
    progress: &mut dyn FnMut(usize),
) -> Result<Rankings> {
    if let Some(failure) = built.failure() {
        return Err(Error::embedder(failure));
    }
    for query in dataset.queries().iter().take(WARM_UP) {
        built.rank(query, depth)?;
    }
    let mut query_us = Vec::with_capacity(dataset.len());
    let mut ranked = Vec::with_capacity(dataset.len());
    let mut gates = Some(Vec::with_capacity(dataset.len()));
    for (at, query) in dataset.queries().iter().enumerate() {
        let started = Instant::now();
        let made = built.rank(query, depth)?;
        query_us.push(started.elapsed().as_secs_f64() * 1e6);
        ranked.push(made.rows);
        match (&mut gates, made.gates) {
            (Some(gates), Some(reached)) => gates.push(reached),
            _ => gates = None,
        }
        progress(at + 1);
    }
    query_us.sort_by(f64::total_cmp);
    Ok(Rankings { ranked, build_s: built.build_s, query_us, gates })
}

/// Measures `systems` on `datasets`.
///
/// The first system is the one that differences compare the others with. Vectors of one model are
/// made once a dataset, so that later systems with the same model build faster than alone.
///
/// # Errors
/// [`ErrorKind::InvalidSetting`] for options out of range, two systems or datasets of one name, or
/// none of either; else as [`rank`].
pub fn evaluate(
    datasets: &[Dataset],
    systems: &[System],
    options: &EvalOptions,
    progress: &mut dyn FnMut(EvalProgress),
) -> Result<Report> {
    options.validate()?;
    distinct("dataset", datasets.iter().map(Dataset::name))?;
    distinct("system", systems.iter().map(System::name))?;
    let total = datasets.iter().map(Dataset::len).sum::<usize>() * systems.len();
    let mut done = 0;
    let mut reports = Vec::new();
    let mut resampled: Vec<Vec<Vec<Vec<f64>>>> = Vec::new();
    for dataset in datasets {
        let scene = Scene::of(dataset, options);
        let mut vectors = HashMap::new();
        let mut columns = Vec::new();
        let mut list = Vec::new();
        for system in systems {
            let mut step = |at: usize| {
                progress(EvalProgress {
                    dataset: dataset.name().to_owned(),
                    system: system.name().to_owned(),
                    done: done + at,
                    total,
                });
            };
            let (report, figures) = scene.measure(system, &mut vectors, &mut step)?;
            done += dataset.len();
            list.push(report);
            columns.push(figures);
        }
        // All columns of all systems are drawn alike: differences are paired by query.
        let flat: Vec<&[f64]> = columns.iter().flatten().map(Vec::as_slice).collect();
        let mut drawn = options.bootstrap.resample(&flat).into_iter();
        let drawn: Vec<Vec<Vec<f64>>> =
            columns.iter().map(|system| drawn.by_ref().take(system.len()).collect()).collect();
        for ((report, columns), drawn) in list.iter_mut().zip(&columns).zip(&drawn) {
            for ((metric, column), drawn) in options.metrics.iter().zip(columns).zip(drawn) {
                let estimate = options.bootstrap.estimate(drawn, mean(column));
                report.figures.insert(metric.to_string(), estimate);
            }
        }
        let means: Vec<Vec<f64>> = columns
            .iter()
            .map(|system| system.iter().map(|column| mean(column)).collect())
            .collect();
        let differences = differences(systems, options, &means, &drawn);
        reports.push(scene.report(list, differences));
        resampled.push(drawn);
    }
    let overall =
        (datasets.len() > 1).then(|| macro_report(systems, options, &reports, &resampled));
    Ok(Report {
        format: Report::FORMAT,
        toolrack: env!("CARGO_PKG_VERSION").to_owned(),
        metrics: options.metrics.clone(),
        bootstrap: options.bootstrap,
        datasets: reports,
        overall,
        peak_rss_mb: peak_rss_mb(),
    })
}

fn distinct<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut seen: Vec<&str> = Vec::new();
    for name in names {
        if seen.contains(&name) {
            return Err(Error::new(
                ErrorKind::InvalidSetting,
                format!("two {what}s are called '{name}': give each a name of its own"),
            ));
        }
        seen.push(name);
    }
    if seen.is_empty() {
        return Err(Error::new(
            ErrorKind::InvalidSetting,
            format!("there is no {what} to measure: give at least one"),
        ));
    }
    Ok(())
}

/// Differences of every further system to the first.
fn differences(
    systems: &[System],
    options: &EvalOptions,
    means: &[Vec<f64>],
    drawn: &[Vec<Vec<f64>>],
) -> Vec<Difference> {
    let mut out = Vec::new();
    for (at, system) in systems.iter().enumerate().skip(1) {
        for (column, metric) in options.metrics.iter().enumerate() {
            let pairs = drawn[0][column].iter().zip(&drawn[at][column]);
            let pairs: Vec<f64> = pairs.map(|(a, b)| a - b).collect();
            let mean = means[0][column] - means[at][column];
            out.push(Difference {
                a: systems[0].name().to_owned(),
                b: system.name().to_owned(),
                metric: *metric,
                difference: options.bootstrap.estimate(&pairs, mean),
            });
        }
    }
    out
}

fn macro_report(
    systems: &[System],
    options: &EvalOptions,
    reports: &[DatasetReport],
    resampled: &[Vec<Vec<Vec<f64>>>],
) -> MacroReport {
    let n = reports.len() as f64;
    let mut means = Vec::new();
    let mut drawn = Vec::new();
    let mut figures = Vec::new();
    for (at, system) in systems.iter().enumerate() {
        let mut by_metric = Vec::new();
        let mut by_mean = Vec::new();
        let mut table = BTreeMap::new();
        for (column, metric) in options.metrics.iter().enumerate() {
            let key = metric.to_string();
            let sum: f64 = reports.iter().map(|report| report.systems[at].figures[&key].mean).sum();
            let samples: Vec<f64> = (0..options.bootstrap.samples)
                .map(|draw| resampled.iter().map(|set| set[at][column][draw]).sum::<f64>() / n)
                .collect();
            table.insert(key, options.bootstrap.estimate(&samples, sum / n));
            by_mean.push(sum / n);
            by_metric.push(samples);
        }
        figures.push((system.name().to_owned(), table));
        means.push(by_mean);
        drawn.push(by_metric);
    }
    MacroReport { figures, differences: differences(systems, options, &means, &drawn) }
}

/// One dataset with what every measure of it needs.
struct Scene<'a> {
    dataset: &'a Dataset,
    options: &'a EvalOptions,
    /// Queries that have something to retrieve, with their slots that are not always sent.
    judged: Vec<(usize, Query)>,
    tokens: Vec<usize>,
    characters: Vec<usize>,
}

impl<'a> Scene<'a> {
    fn of(dataset: &'a Dataset, options: &'a EvalOptions) -> Self {
        let judged = dataset
            .queries()
            .iter()
            .enumerate()
            .filter_map(|(at, query)| {
                let mut query = query.clone();
                query.slots.retain(|slot| !dataset.core().iter().any(|&row| slot.takes(row)));
                (!query.slots.is_empty()).then_some((at, query))
            })
            .collect();
        let tokens = dataset.tools().map(definition_tokens).collect();
        let characters = (0..dataset.n_tools()).map(|row| payload(dataset, row)).collect();
        Self { dataset, options, judged, tokens, characters }
    }

    fn report(&self, systems: Vec<SystemReport>, differences: Vec<Difference>) -> DatasetReport {
        DatasetReport {
            name: self.dataset.name().to_owned(),
            fingerprint: self.dataset.fingerprint().to_owned(),
            n_tools: self.dataset.n_tools(),
            n_queries: self.dataset.len(),
            n_judged: self.judged.len(),
            n_core: self.dataset.core().len(),
            all_tokens: self.tokens.iter().sum(),
            all_characters: self.characters.iter().sum(),
            systems,
            differences,
        }
    }

    /// The report of `system`, and one column of figures a metric.
    fn measure(
        &self,
        system: &System,
        vectors: &mut HashMap<String, VectorCache>,
        progress: &mut dyn FnMut(usize),
    ) -> Result<(SystemReport, Vec<Vec<f64>>)> {
        let built = system.build(self.dataset, vectors, |_: Progress| {})?;
        let rankings = rank_all(self.dataset, &built, self.options.depth, progress)?;
        let ranks: Vec<Vec<Option<usize>>> = self
            .judged
            .iter()
            .map(|(at, query)| slot_ranks(query, &rankings.ranked[*at]))
            .collect();
        let columns: Vec<Vec<f64>> = self
            .options
            .metrics
            .iter()
            .map(|metric| ranks.iter().map(|ranks| metric.of(ranks)).collect())
            .collect();
        let (no_match, wrongly_refused) = self.no_match(&built, &rankings)?;
        let (misses, n_misses, confusions) = self.misses(&rankings.ranked, &ranks);
        let report = SystemReport {
            name: system.name().to_owned(),
            figures: BTreeMap::new(),
            sweep: self.sweep(&rankings.ranked, &ranks),
            thresholds: self.thresholds(&built, &rankings)?,
            kinds: self.groups(&ranks, |query| Some(query.kind.clone())),
            groups: self.groups(&ranks, |query| query.group.clone()),
            namespaces: self.namespaces(&ranks),
            no_match,
            wrongly_refused,
            n_misses,
            misses,
            confusions,
            build_s: rankings.build_s,
            query_us_p50: rankings.query_us_at(0.5),
            query_us_p95: rankings.query_us_at(0.95),
        };
        Ok((report, columns))
    }

    fn sweep(&self, ranked: &[Vec<usize>], ranks: &[Vec<Option<usize>>]) -> Vec<SweepPoint> {
        let core_tokens: usize = self.dataset.core().iter().map(|&row| self.tokens[row]).sum();
        let core_characters: usize =
            self.dataset.core().iter().map(|&row| self.characters[row]).sum();
        let free = self.dataset.n_tools() - self.dataset.core().len();
        let deepest = self.options.depth.min(free);
        let ks =
            self.options.ks.iter().copied().filter(|&k| k <= deepest || k == self.options.ks[0]);
        let n = ranked.len() as f64;
        ks.map(|k| {
            let top = |costs: &[usize]| {
                let sum: usize =
                    ranked.iter().flat_map(|rows| rows.iter().take(k)).map(|&row| costs[row]).sum();
                sum as f64 / n
            };
            let tools: usize = ranked.iter().map(|rows| rows.len().min(k)).sum();
            let of = |metric: Metric| {
                mean(&ranks.iter().map(|ranks| metric.of(ranks)).collect::<Vec<_>>())
            };
            let characters = top(&self.characters);
            let all = self.characters.iter().sum::<usize>().max(1) as f64;
            SweepPoint {
                k,
                recall: of(Metric::Recall(k)),
                complete: of(Metric::Complete(k)),
                tools: tools as f64 / n + self.dataset.core().len() as f64,
                tokens: top(&self.tokens) + core_tokens as f64,
                characters: characters + core_characters as f64,
                reduction: 1.0 - (characters + core_characters as f64) / all,
                reduction_without_core: 1.0 - characters / all,
            }
        })
        .collect()
    }

    /// The gate's verdicts on requests that no tool fits, if the dataset has any, and the share of
    /// the others that it refused.
    fn no_match(
        &self,
        built: &Built<'_>,
        rankings: &Rankings,
    ) -> Result<(Option<NoMatch>, Option<f64>)> {
        let (Some(thresholds), Some(gates)) = (built.thresholds()?, &rankings.gates) else {
            return Ok((None, None));
        };
        let risk = |row: usize| self.dataset.snapshot().tool(row).policy().risk;
        let mut count = NoMatch::default();
        for ((query, rows), gates) in self.dataset.queries().iter().zip(&rankings.ranked).zip(gates)
        {
            let admits =
                rows.iter().zip(gates).any(|(&row, &gate)| gate >= thresholds.of(risk(row)));
            count.add(query.is_unanswerable(), !admits);
        }
        let answerable = self.dataset.len() - count.unanswerable;
        let wrongly =
            (answerable > 0).then(|| (count.refused - count.correct) as f64 / answerable as f64);
        Ok(((count.unanswerable > 0).then_some(count), wrongly))
    }

    /// What a gate that asks the same of all risk classes would let through.
    fn thresholds(&self, built: &Built<'_>, rankings: &Rankings) -> Result<Vec<ThresholdPoint>> {
        let (Some(thresholds), Some(gates)) = (built.thresholds()?, &rankings.gates) else {
            return Ok(Vec::new());
        };
        if thresholds.by != GatedBy::Cosine {
            return Ok(Vec::new());
        }
        let point = |&threshold: &f32| {
            let mut count = NoMatch::default();
            let (mut recall, mut tools) = (Vec::new(), 0);
            let queries = self.dataset.queries().iter().zip(&rankings.ranked).zip(gates);
            for ((query, rows), gates) in queries {
                let admitted: Vec<usize> = rows
                    .iter()
                    .zip(gates)
                    .filter(|&(_, &gate)| gate >= threshold)
                    .map(|(&row, _)| row)
                    .take(DEFAULT_K)
                    .collect();
                count.add(query.is_unanswerable(), admitted.is_empty());
                tools += admitted.len();
                if !query.is_unanswerable() {
                    recall.push(Metric::Recall(DEFAULT_K).of(&slot_ranks(query, &admitted)));
                }
            }
            let answerable = (self.dataset.len() - count.unanswerable).max(1) as f64;
            ThresholdPoint {
                threshold: f64::from(threshold),
                recall: mean(&recall),
                tools: tools as f64 / self.dataset.len() as f64,
                wrongly_refused: (count.refused - count.correct) as f64 / answerable,
                no_match_precision: count.precision(),
                no_match_recall: count.recall(),
            }
        };
        Ok(self.options.thresholds.iter().map(point).collect())
    }

    fn groups(
        &self,
        ranks: &[Vec<Option<usize>>],
        key: impl Fn(&Query) -> Option<String>,
    ) -> Vec<Group> {
        let mut by_key: BTreeMap<String, Vec<&[Option<usize>]>> = BTreeMap::new();
        for ((_, query), ranks) in self.judged.iter().zip(ranks) {
            if let Some(key) = key(query) {
                by_key.entry(key).or_default().push(ranks);
            }
        }
        by_key.into_iter().map(|(name, ranks)| Group::of(name, &ranks)).collect()
    }

    /// Slots by the namespace of their tool.
    fn namespaces(&self, ranks: &[Vec<Option<usize>>]) -> Vec<Group> {
        let mut by_namespace: BTreeMap<&str, Vec<&[Option<usize>]>> = BTreeMap::new();
        for ((_, query), ranks) in self.judged.iter().zip(ranks) {
            for (slot, rank) in query.slots.iter().zip(ranks) {
                let namespace = self.dataset.snapshot().tool(slot.tool).namespace();
                by_namespace.entry(namespace).or_default().push(std::slice::from_ref(rank));
            }
        }
        by_namespace.into_iter().map(|(name, ranks)| Group::of(name.to_owned(), &ranks)).collect()
    }

    /// The gold tools that are too deep, the worst first, and which tools stand before which.
    fn misses(
        &self,
        ranked: &[Vec<usize>],
        ranks: &[Vec<Option<usize>>],
    ) -> (Vec<Miss>, usize, Vec<Confusion>) {
        let mut misses = Vec::new();
        let mut pairs: HashMap<(usize, usize), usize> = HashMap::new();
        for ((at, query), ranks) in self.judged.iter().zip(ranks) {
            for (slot, rank) in query.slots.iter().zip(ranks) {
                if rank.is_some_and(|rank| rank <= self.options.miss_k) {
                    continue;
                }
                let gold = |row: usize| query.slots.iter().any(|slot| slot.takes(row));
                let above: Vec<usize> =
                    ranked[*at].iter().copied().filter(|&row| !gold(row)).take(3).collect();
                if let Some(&first) = above.first() {
                    *pairs.entry((slot.tool, first)).or_default() += 1;
                }
                misses.push(Miss {
                    id: query.id.clone(),
                    request: shorten(&query.text),
                    tool: self.dataset.tool_name(slot.tool),
                    rank: *rank,
                    outranked_by: above.iter().map(|&row| self.dataset.tool_name(row)).collect(),
                });
            }
        }
        let n_misses = misses.len();
        misses.sort_by_key(|miss| std::cmp::Reverse(miss.rank.unwrap_or(usize::MAX)));
        misses.truncate(self.options.misses);
        let mut pairs: Vec<((usize, usize), usize)> = pairs.into_iter().collect();
        pairs.sort_by_key(|&(pair, count)| (std::cmp::Reverse(count), pair));
        pairs.truncate(self.options.misses);
        let confusions = pairs.into_iter().map(|((gold, winner), times)| Confusion {
            tool: self.dataset.tool_name(gold),
            outranked_by: self.dataset.tool_name(winner),
            times,
        });
        (misses, n_misses, confusions.collect())
    }
}

/// The beginning of a request, on one line.
fn shorten(text: &str) -> String {
    const MOST: usize = 160;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= MOST {
        return line;
    }
    let cut: String = line.chars().take(MOST - 1).collect();
    format!("{}…", cut.trim_end())
}
