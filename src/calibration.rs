//! From labelled requests to the thresholds of a gate.

use std::fmt;

use serde::Serialize;

use crate::embed::EmbedderProfile;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result, invalid_setting};
use crate::select::{Candidate, Gate};
use crate::selector::LabelledQuery;

/// Requests of either kind below which a share is a guess.
const LEAST: usize = 10;

/// Fits the gate's cosine thresholds to a model, from requests that tools answer and requests that no
/// tool answers.
///
/// - read: the highest threshold that keeps a share of the answerable requests ([`keep`](Self::keep),
///   0.97): a missed read costs a search.
/// - write: the one that parts the two kinds best (kept less wrongly admitted, Youden's J), at least
///   the read threshold.
/// - destructive: the lowest one that admits at most a share of the unanswerable requests
///   ([`admit`](Self::admit), 0.1), at least the write threshold.
///
/// What is compared is what the gate compares ([`Candidate::gate`](crate::Candidate)): for an
/// answerable request the best of its right tools, for another the best tool there is. Requests that
/// name a tool are left out: names are admitted anyway. What the gate admits for the words that it
/// has ([`Gate::coverage`](crate::Gate)) comes on top of the shares that are reported.
///
/// # Example
/// ```
/// use toolrack::{Calibration, Catalog, Engine, LabelledQuery};
///
/// let catalog = Catalog::parse(
///     r#"[{"name": "send_email", "description": "Send an e-mail to somebody."},
///         {"name": "get_weather", "description": "The weather forecast of a city."}]"#)?;
/// let engine = Engine::builder(catalog.clone()).build()?;
/// let mut queries = Vec::new();
/// for city in ["Oslo", "Lyon", "Bergen", "Rome", "Kyiv", "Lima", "Cairo", "Quito", "Perth", "Turin"] {
///     queries.push(LabelledQuery::new(format!("will it rain in {city}?"), ["get_weather"]));
///     queries.push(LabelledQuery::new(format!("repair a bicycle in {city}"), [""; 0]));
/// }
/// let mut calibration = Calibration::default();
/// calibration.add(&engine, &queries)?;
/// let fitted = calibration.fit("ten cities")?;
/// assert_eq!(fitted.profile.calibrated_on.as_deref(), Some("ten cities"));
/// assert!(fitted.read.kept >= 0.97);
///
/// // Put the profile into the model folder's toolrack.json, or set the gate.
/// let engine = Engine::builder(catalog).gate(fitted.gate()).build()?;
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "call fit() to get the thresholds"]
pub struct Calibration {
    keep: f64,
    admit: f64,
    /// The model, when the first requests were added.
    model: Option<(String, EmbedderProfile)>,
    answerable: Vec<f32>,
    unanswerable: Vec<f32>,
}

impl Default for Calibration {
    fn default() -> Self {
        Self {
            keep: 0.97,
            admit: 0.1,
            model: None,
            answerable: Vec::new(),
            unanswerable: Vec::new(),
        }
    }
}

/// What one threshold does to the labelled requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Fit {
    /// The threshold, a cosine in [-1, 1].
    pub threshold: f32,
    /// Share of answerable requests of which a right tool is admitted, in [0, 1].
    pub kept: f64,
    /// Share of unanswerable requests for which some tool is admitted, in [0, 1].
    pub admitted: f64,
}

/// What a [`Calibration`] came to. Its [`Display`](fmt::Display) text is a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Calibrated {
    /// The model's profile with the fitted thresholds; everything else is as it was.
    pub profile: EmbedderProfile,
    /// Answerable requests that were counted.
    pub answerable: usize,
    /// Unanswerable requests that were counted.
    pub unanswerable: usize,
    /// For read-only tools.
    pub read: Fit,
    /// For writing tools.
    pub write: Fit,
    /// For destructive tools.
    pub destructive: Fit,
}

impl Calibrated {
    /// A gate with the fitted thresholds and otherwise defaults.
    pub fn gate(&self) -> Gate {
        let EmbedderProfile { read, write, destructive, .. } = self.profile;
        let mut gate = Gate::default();
        (gate.read, gate.write, gate.destructive) = (Some(read), Some(write), Some(destructive));
        gate
    }
}

impl Calibration {
    /// Sets the share of answerable requests that the read threshold keeps, in (0, 1].
    pub fn keep(mut self, share: f64) -> Self {
        self.keep = share;
        self
    }

    /// Sets the share of unanswerable requests that the destructive threshold admits, in [0, 1).
    pub fn admit(mut self, share: f64) -> Self {
        self.admit = share;
        self
    }

    /// Adds labelled requests to the catalog of `engine`. Queries without tools are unanswerable.
    ///
    /// Several catalogs may be added, as long as the model is the same.
    ///
    /// # Errors
    /// [`ErrorKind::Embedder`] when the engine has no model or it does not answer,
    /// [`ErrorKind::ModelMismatch`] when it has another one than before,
    /// [`ErrorKind::UnknownTool`] when a label is not in the catalog.
    pub fn add(&mut self, engine: &Engine, queries: &[LabelledQuery]) -> Result<()> {
        let index = engine.index();
        let Some(embedder) = &index.embedder else {
            return Err(Error::embedder("the engine has no model to calibrate: give it one"));
        };
        let model = (embedder.fingerprint(), embedder.profile());
        let (known, _) = self.model.get_or_insert_with(|| model.clone());
        if *known != model.0 {
            return Err(Error::new(
                ErrorKind::ModelMismatch,
                format!(
                    "requests were added for the model '{known}' and now for '{}': calibrate each \
                     model by itself",
                    model.0
                ),
            ));
        }
        let snapshot = &index.snapshot;
        for query in queries {
            let mut right = Vec::new();
            for name in &query.tools {
                let rows = snapshot.names().resolve(name, &|_| true);
                if rows.is_empty() {
                    return Err(Error::new(
                        ErrorKind::UnknownTool,
                        format!(
                            "query '{}' is labelled with '{name}', which the catalog does not \
                             hold: mend the label",
                            query.query
                        ),
                    ));
                }
                right.extend(rows);
            }
            let ranked = engine.rank(&query.query, snapshot.len())?;
            if ranked.iter().any(|candidate| candidate.is_named()) {
                continue;
            }
            let has_cosine = |candidate: &Candidate| candidate.cosine.is_some();
            if !ranked.is_empty() && !ranked.iter().any(has_cosine) {
                return Err(Error::embedder(
                    "the engine ranks by words alone just now: calibrate when the model answers",
                ));
            }
            let counts = |row: Option<usize>| {
                right.is_empty() || row.is_some_and(|row| right.contains(&row))
            };
            let best = ranked
                .iter()
                .filter(|candidate| has_cosine(candidate))
                .filter(|candidate| counts(snapshot.row(&candidate.id)))
                .map(|candidate| candidate.gate)
                .max();
            // What is not ranked at all is never admitted.
            let best = best.map_or(-1.0, |score| score.get());
            if right.is_empty() {
                self.unanswerable.push(best);
            } else {
                self.answerable.push(best);
            }
        }
        Ok(())
    }

    /// The thresholds that fit what was added; `name` says what that was.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidSetting`] for a share out of its range, or fewer than 10 requests of
    /// either kind.
    pub fn fit(mut self, name: impl Into<String>) -> Result<Calibrated> {
        if !(self.keep > 0.0 && self.keep <= 1.0 && (0.0..1.0).contains(&self.admit)) {
            return Err(invalid_setting(format!(
                "keep is {} and admit {}: give a share in (0, 1] and one in [0, 1)",
                self.keep, self.admit
            )));
        }
        let counts = (self.answerable.len(), self.unanswerable.len());
        let Some((_, profile)) = self.model.take().filter(|_| counts.0.min(counts.1) >= LEAST)
        else {
            return Err(invalid_setting(format!(
                "there are {} answerable and {} unanswerable requests: give at least {LEAST} of \
                 each",
                counts.0, counts.1
            )));
        };
        self.answerable.sort_by(f32::total_cmp);
        self.unanswerable.sort_by(f32::total_cmp);

        let lost = ((1.0 - self.keep) * counts.0 as f64 + 1e-9).floor() as usize;
        let read = self.fit_of(round_down(self.answerable[lost.min(counts.0 - 1)]));
        // Only a step between two requests can be a best parting.
        let steps =
            self.answerable.iter().chain(&self.unanswerable).map(|&value| round_down(value));
        let mut write = read;
        for step in steps.filter(|&step| step >= read.threshold) {
            let fit = self.fit_of(step);
            let better = fit.kept - fit.admitted > write.kept - write.admitted + 1e-9;
            if better {
                write = fit;
            }
        }
        let admitted = (self.admit * counts.1 as f64 + 1e-9).floor() as usize;
        let last = self.unanswerable[counts.1 - 1 - admitted.min(counts.1 - 1)];
        let above = round_down(last) + STEP;
        let destructive = self.fit_of(above.clamp(write.threshold, 1.0));

        let profile = EmbedderProfile {
            read: read.threshold,
            write: write.threshold,
            destructive: destructive.threshold,
            calibrated_on: Some(name.into()),
            ..profile
        };
        let (answerable, unanswerable) = counts;
        Ok(Calibrated { profile, answerable, unanswerable, read, write, destructive })
    }

    /// What a threshold does to the requests that were added, such as ones that it was not fitted to.
    ///
    /// A share of no requests is 0.
    pub fn measure(&self, threshold: f32) -> Fit {
        let share = |values: &[f32]| {
            let reached = values.iter().filter(|&&value| value >= threshold).count();
            reached as f64 / values.len().max(1) as f64
        };
        Fit { threshold, kept: share(&self.answerable), admitted: share(&self.unanswerable) }
    }

    /// Requests that were added: those that a tool answers, and the others.
    pub fn counts(&self) -> (usize, usize) {
        (self.answerable.len(), self.unanswerable.len())
    }

    fn fit_of(&self, threshold: f32) -> Fit {
        let share = |sorted: &[f32]| {
            let below = sorted.partition_point(|&value| value < threshold);
            1.0 - below as f64 / sorted.len() as f64
        };
        Fit { threshold, kept: share(&self.answerable), admitted: share(&self.unanswerable) }
    }
}

/// Thresholds are written with three decimals; more would be noise.
const STEP: f32 = 0.001;

fn round_down(value: f32) -> f32 {
    ((f64::from(value) * 1000.0).floor() / 1000.0).clamp(-1.0, 1.0) as f32
}

impl fmt::Display for Calibrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} answerable and {} unanswerable requests",
            self.answerable, self.unanswerable
        )?;
        writeln!(f, "class        cosine  answerable kept  unanswerable admitted")?;
        for (class, fit) in
            [("read", self.read), ("write", self.write), ("destructive", self.destructive)]
        {
            writeln!(
                f,
                "{class:<11} {:>7.3} {:>14.1} % {:>19.1} %",
                fit.threshold,
                fit.kept * 100.0,
                fit.admitted * 100.0
            )?;
        }
        Ok(())
    }
}
