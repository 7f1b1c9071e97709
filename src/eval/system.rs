//! What is measured: an engine with its settings, a baseline, or somebody else's ranking.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::baseline::{Bm25, Jaccard, by_score};
use super::dataset::Dataset;
use super::query::Query;
use crate::config::Config;
use crate::embed::{Embedder, Progress};
use crate::engine::Engine;
use crate::error::Result;
use crate::index::{Fusion, VectorCache};
use crate::lexical::FieldWeights;
use crate::select::{Gate, SelectRequest, Thresholds};

/// The fewest tools that a ranking lists, as far as the catalog has them: rows without any score
/// follow the scored ones in catalog order.
pub(crate) const MIN_RANKED: usize = 20;

/// Settings of an engine to measure.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct EngineSettings {
    /// The model; `None` ranks by words alone.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// How both arms' scores become one.
    pub fusion: Fusion,
    /// Weights of the lexical fields.
    pub weights: FieldWeights,
    /// Which tools are admitted.
    pub gate: Gate,
}

impl EngineSettings {
    /// The default settings with `embedder`.
    pub fn with_embedder(embedder: impl Embedder + 'static) -> Self {
        Self { embedder: Some(Arc::new(embedder)), ..Self::default() }
    }

    /// The engine's settings in a configuration, its model loaded.
    ///
    /// # Errors
    /// As [`Config::open_embedder`].
    pub fn from_config(config: &Config) -> Result<Self> {
        Ok(Self {
            embedder: config.open_embedder()?,
            fusion: config.engine.fusion,
            weights: config.engine.fields,
            gate: config.engine.gate.clone(),
        })
    }

    /// Sets how both arms' scores become one.
    #[must_use]
    pub fn fusion(mut self, fusion: Fusion) -> Self {
        self.fusion = fusion;
        self
    }

    /// Sets the weights of the lexical fields.
    #[must_use]
    pub fn weights(mut self, weights: FieldWeights) -> Self {
        self.weights = weights;
        self
    }

    /// Sets which tools are admitted.
    #[must_use]
    pub fn gate(mut self, gate: Gate) -> Self {
        self.gate = gate;
        self
    }

    /// An engine with these settings over `dataset`.
    pub(crate) fn engine(
        &self,
        dataset: &Dataset,
        vectors: Option<VectorCache>,
        progress: impl FnMut(Progress) + 'static,
    ) -> Result<Engine> {
        let mut builder = Engine::builder(dataset.catalog().clone());
        builder = match &self.embedder {
            Some(embedder) => builder.embedder(Arc::clone(embedder)),
            None => builder.without_embedder(),
        };
        if let Some(vectors) = vectors {
            builder = builder.vectors(vectors);
        }
        if self.embedder.is_some() {
            builder = builder.fusion(self.fusion);
        }
        builder.field_weights(self.weights).gate(self.gate.clone()).on_progress(progress).build()
    }
}

impl fmt::Debug for EngineSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineSettings")
            .field("embedder", &self.embedder.as_ref().map(|embedder| embedder.fingerprint()))
            .field("fusion", &self.fusion)
            .field("weights", &self.weights)
            .field("gate", &self.gate)
            .finish()
    }
}

/// Something that ranks tools for requests, under a name for tables.
///
/// # Example
/// ```
/// use toolrack::StaticEmbedder;
/// use toolrack::eval::{Dataset, EngineSettings, EvalOptions, System, evaluate};
///
/// let set = Dataset::parse(
///     "demo",
///     r#"[{"name": "send_mail", "description": "Send an e-mail."},
///         {"name": "read_file", "description": "Read a file."}]"#,
///     r#"{"id": "1", "query": "write an e-mail to Ana", "tools": ["send_mail"]}"#,
/// )?;
/// let hybrid = EngineSettings::with_embedder(StaticEmbedder::bundled());
/// let systems = [System::engine("hybrid", hybrid), System::jaccard()];
/// let report = evaluate(&[set], &systems, &EvalOptions::default(), &mut |_| {})?;
/// assert_eq!(report.datasets[0].systems[0].figures["R@1"].mean, 1.0);
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct System {
    name: String,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Engine(EngineSettings),
    Jaccard,
    Bm25,
    /// Rankings by dataset.
    Ranked(HashMap<String, Vec<Vec<usize>>>),
}

impl System {
    /// An engine.
    pub fn engine(name: impl Into<String>, settings: EngineSettings) -> Self {
        Self { name: name.into(), kind: Kind::Engine(settings) }
    }

    /// Jaccard similarity of word sets, as selectors in articles have it.
    pub fn jaccard() -> Self {
        Self { name: "jaccard".into(), kind: Kind::Jaccard }
    }

    /// Textbook BM25 over name, description and parameters' names.
    pub fn bm25() -> Self {
        Self { name: "bm25".into(), kind: Kind::Bm25 }
    }

    /// Rankings that somebody else made; see [`read_run`](super::read_run). One list a query, by
    /// the dataset's name.
    pub fn ranked(
        name: impl Into<String>,
        rankings: impl IntoIterator<Item = (String, Vec<Vec<usize>>)>,
    ) -> Self {
        Self { name: name.into(), kind: Kind::Ranked(rankings.into_iter().collect()) }
    }

    /// Its name in tables.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The settings, when it is an engine.
    pub fn settings(&self) -> Option<&EngineSettings> {
        match &self.kind {
            Kind::Engine(settings) => Some(settings),
            Kind::Jaccard | Kind::Bm25 | Kind::Ranked(_) => None,
        }
    }

    /// The system over one dataset. `vectors` has what models embedded already, by fingerprint.
    pub(crate) fn build<'a>(
        &self,
        dataset: &'a Dataset,
        vectors: &mut HashMap<String, VectorCache>,
        progress: impl FnMut(Progress) + 'static,
    ) -> Result<Built<'a>> {
        let started = Instant::now();
        let ranker = match &self.kind {
            Kind::Engine(settings) => {
                let print = settings.embedder.as_ref().map(|embedder| embedder.fingerprint());
                let known = print.as_ref().and_then(|print| vectors.get(print)).cloned();
                let fresh = known.is_none();
                let engine = settings.engine(dataset, known, progress)?;
                if let (Some(print), Some(made), true) = (print, engine.vectors(), fresh) {
                    vectors.insert(print, made);
                }
                BuiltKind::Engine(engine)
            }
            Kind::Jaccard => BuiltKind::Jaccard(Jaccard::new(dataset.tools())),
            Kind::Bm25 => BuiltKind::Bm25(Bm25::new(dataset.tools())),
            Kind::Ranked(rankings) => {
                let list = rankings.get(dataset.name()).cloned().unwrap_or_default();
                let by_id = dataset.queries().iter().zip(list);
                BuiltKind::Ranked(by_id.map(|(query, rows)| (query.id.clone(), rows)).collect())
            }
        };
        Ok(Built { dataset, ranker, build_s: started.elapsed().as_secs_f64() })
    }
}

/// A system that is ready to rank one dataset.
pub(crate) struct Built<'a> {
    dataset: &'a Dataset,
    ranker: BuiltKind,
    /// Seconds that it took to build.
    pub build_s: f64,
}

/// What a system made of one query.
pub(crate) struct Ranked {
    /// Rows, best first.
    pub rows: Vec<usize>,
    /// What the first rows reach at the gate, the greatest number for those that the request names;
    /// `None` for a system without a gate. Rows past its end have no score.
    pub gates: Option<Vec<f32>>,
}

enum BuiltKind {
    Engine(Engine),
    Jaccard(Jaccard),
    Bm25(Bm25),
    Ranked(HashMap<String, Vec<usize>>),
}

impl Built<'_> {
    /// At most `depth` rows for `query`, best first, those that are always sent left out; at least
    /// [`MIN_RANKED`] as far as there are so many.
    pub(crate) fn rank(&self, query: &Query, depth: usize) -> Result<Ranked> {
        let core = self.dataset.core();
        let free = |row: usize| !core.contains(&row);
        let mut gates = None;
        let mut rows = match &self.ranker {
            BuiltKind::Engine(engine) => {
                let snapshot = self.dataset.snapshot();
                let ranked = engine.rank(&query.text, depth + core.len())?;
                let ranked = ranked.iter().filter_map(|candidate| {
                    let row = snapshot.row(&candidate.id).filter(|&row| free(row))?;
                    let gate = if candidate.is_named() { f32::MAX } else { candidate.gate.get() };
                    Some((row, gate))
                });
                let (rows, reached): (Vec<usize>, Vec<f32>) = ranked.take(depth).unzip();
                gates = Some(reached);
                rows
            }
            BuiltKind::Jaccard(jaccard) => by_score(&jaccard.scores(&query.text), free),
            BuiltKind::Bm25(bm25) => {
                let scores = bm25.scores(&query.text);
                by_score(&scores, |row| scores[row] > 0.0 && free(row))
            }
            BuiltKind::Ranked(rankings) => rankings.get(&query.id).cloned().unwrap_or_default(),
        };
        rows.truncate(depth);
        let least = MIN_RANKED.min(depth);
        if rows.len() < least && !matches!(self.ranker, BuiltKind::Ranked(_)) {
            for row in (0..self.dataset.n_tools()).filter(|&row| free(row)) {
                if rows.len() == least {
                    break;
                }
                if !rows.contains(&row) {
                    rows.push(row);
                }
            }
        }
        Ok(Ranked { rows, gates })
    }

    /// The thresholds of the gate; `None` for a system without one.
    pub(crate) fn thresholds(&self) -> Result<Option<Thresholds>> {
        let BuiltKind::Engine(engine) = &self.ranker else { return Ok(None) };
        // Any request tells.
        Ok(Some(engine.select(&SelectRequest::new("tools").k(1))?.thresholds))
    }

    /// Why the dense arm is not at work although it should be.
    pub(crate) fn failure(&self) -> Option<String> {
        match &self.ranker {
            BuiltKind::Engine(engine) => engine.report().failure,
            BuiltKind::Jaccard(_) | BuiltKind::Bm25(_) | BuiltKind::Ranked(_) => None,
        }
    }
}
