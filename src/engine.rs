//! The engine: a catalog, a model, an index, and one way to ask.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tracing::field::Empty;

use crate::catalog::{
    Catalog, CatalogDiff, Snapshot, SourceUpdate, ToolId, TrustPolicy, accepting,
};
use crate::digest::sha256_hex;
use crate::embed::{Embedder, Progress, StaticEmbedder};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{BuildReport, Fusion, IndexParts, ToolIndex, VectorCache};
use crate::lexical::FieldWeights;
use crate::select::{
    Budget, Candidate, Detail, Eligible, Explanation, Gate, Outline, Ranker, RuntimeContext,
    Scorer, SelectRequest, Selection, TokenFigures, planned, refine,
};
use crate::session::{RestoreReport, Session, SessionOptions, SessionState};
use crate::text::{EstimatedTokens, TokenCounter};

/// Ranks requests against a catalog. Built once, shared by all sessions, cheap to clone.
///
/// An engine always answers from one published index: snapshot, matrix and lexical index of the same
/// catalog version. A refresh or a change of model builds the next index aside and swaps it in
/// whole; who is asking meanwhile is answered from the old one.
///
/// # Example
/// ```
/// use toolrack::{Catalog, Engine};
///
/// let catalog = Catalog::parse(
///     r#"[{"name": "send_email", "description": "Send an e-mail to somebody."},
///         {"name": "get_weather", "description": "The weather forecast of a city."}]"#)?;
/// let engine = Engine::builder(catalog).build()?;
/// let ranked = engine.rank("will it rain in Bergen tomorrow?", 1)?;
/// assert_eq!(ranked[0].id.name(), "get_weather");
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
    /// How this handle ranks; other handles on the same index may rank otherwise.
    fusion: Fusion,
    scorer: Option<Arc<dyn Scorer>>,
}

struct Shared {
    catalog: Catalog,
    rules: Rules,
    index: ArcSwap<ToolIndex>,
    /// Held while the next index is made. Embedding a catalog takes seconds; asking never waits.
    writer: Mutex<()>,
}

/// Settings that stay for an engine's life.
struct Rules {
    fusion: Fusion,
    weights: FieldWeights,
    gate: Gate,
    counter: Arc<dyn TokenCounter>,
}

/// Builds an [`Engine`].
#[must_use = "call build() to get the engine"]
pub struct EngineBuilder {
    catalog: Catalog,
    embedder: Option<Arc<dyn Embedder>>,
    vectors: Option<VectorCache>,
    progress: Box<dyn FnMut(Progress)>,
    scorer: Option<Arc<dyn Scorer>>,
    rules: Rules,
}

impl EngineBuilder {
    /// Sets the model; [`StaticEmbedder::bundled`] by default.
    pub fn embedder(mut self, embedder: impl Embedder + 'static) -> Self {
        self.embedder = Some(Arc::new(embedder));
        self
    }

    /// Ranks by words alone, without a model.
    pub fn without_embedder(mut self) -> Self {
        self.embedder = None;
        self
    }

    /// Gives vectors that are known already; see [`VectorCache`].
    pub fn vectors(mut self, vectors: VectorCache) -> Self {
        self.vectors = Some(vectors);
        self
    }

    /// Sets how both arms' scores become one.
    pub fn fusion(mut self, fusion: Fusion) -> Self {
        self.rules.fusion = fusion;
        self
    }

    /// Ranks by `scorer` in place of both arms, and without a model; see [`Scorer`].
    ///
    /// # Example
    /// ```
    /// use toolrack::{Catalog, Engine, Jaccard};
    ///
    /// let catalog = Catalog::parse(r#"[{"name": "send_mail"}, {"name": "read_file"}]"#)?;
    /// let engine = Engine::builder(catalog).scorer(Jaccard).build()?;
    /// assert_eq!(engine.rank("mail", 5)?.len(), 1);
    /// # Ok::<(), toolrack::Error>(())
    /// ```
    pub fn scorer(mut self, scorer: impl Scorer + 'static) -> Self {
        self.scorer = Some(Arc::new(scorer));
        self.without_embedder()
    }

    /// Sets how much the parts of a tool's text weigh in the lexical arm.
    pub fn field_weights(mut self, weights: FieldWeights) -> Self {
        self.rules.weights = weights;
        self
    }

    /// Sets which ranked tools are admitted.
    pub fn gate(mut self, gate: Gate) -> Self {
        self.rules.gate = gate;
        self
    }

    /// Sets how tokens are counted; [`EstimatedTokens`] by default.
    pub fn token_counter(mut self, counter: impl TokenCounter + 'static) -> Self {
        self.rules.counter = Arc::new(counter);
        self
    }

    /// Calls `progress` after each batch of tools that was embedded.
    pub fn on_progress(mut self, progress: impl FnMut(Progress) + 'static) -> Self {
        self.progress = Box::new(progress);
        self
    }

    /// The engine.
    ///
    /// A model that fails does not fail the build: tools without a vector are ranked by words, and
    /// [`Engine::report`] says so.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidSetting`] for a setting out of its range.
    pub fn build(mut self) -> Result<Engine> {
        self.rules.fusion.validate()?;
        self.rules.weights.validate()?;
        self.rules.gate.validate()?;
        if let Some(embedder) = &self.embedder {
            embedder.profile().validate()?;
            if embedder.dimensions() == 0 {
                return Err(Error::new(
                    ErrorKind::InvalidSetting,
                    format!(
                        "embedder '{}' has 0 dimensions: give vectors of at least one number",
                        embedder.fingerprint()
                    ),
                ));
            }
        }
        let parts = IndexParts {
            embedder: self.embedder,
            weights: self.rules.weights,
            counter: &*self.rules.counter,
            known: self.vectors.as_ref(),
            progress: &mut self.progress,
        };
        let index = ToolIndex::build(self.catalog.snapshot(), parts)?;
        Ok(Engine {
            fusion: self.rules.fusion,
            scorer: self.scorer,
            shared: Arc::new(Shared {
                catalog: self.catalog,
                rules: self.rules,
                index: ArcSwap::from_pointee(index),
                writer: Mutex::new(()),
            }),
        })
    }
}

impl fmt::Debug for EngineBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineBuilder")
            .field("catalog", &self.catalog)
            .field("fusion", &self.rules.fusion)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Begins an engine over `catalog` with the bundled model.
    pub fn builder(catalog: Catalog) -> EngineBuilder {
        EngineBuilder {
            catalog,
            embedder: Some(Arc::new(StaticEmbedder::bundled())),
            vectors: None,
            progress: Box::new(|_| {}),
            scorer: None,
            rules: Rules {
                fusion: Fusion::default(),
                weights: FieldWeights::default(),
                gate: Gate::default(),
                counter: Arc::new(EstimatedTokens),
            },
        }
    }

    /// Another handle on the same catalog and index that ranks by `scorer`; see [`Scorer`].
    ///
    /// # Example
    /// ```
    /// use toolrack::{Catalog, Engine, Jaccard};
    ///
    /// let catalog = Catalog::parse(r#"[{"name": "send_mail"}, {"name": "read_file"}]"#)?;
    /// let engine = Engine::builder(catalog).build()?;
    /// let baseline = engine.with_scorer(Jaccard);
    /// assert!(baseline.rank("post a letter", 1)?.is_empty());
    /// assert_eq!(engine.rank("post a letter", 1)?[0].id.name(), "send_mail");
    /// # Ok::<(), toolrack::Error>(())
    /// ```
    #[must_use]
    pub fn with_scorer(&self, scorer: impl Scorer + 'static) -> Self {
        Self { scorer: Some(Arc::new(scorer)), ..self.clone() }
    }

    /// Another handle on the same catalog and index that fuses otherwise.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidSetting`] for a fusion out of its range.
    pub fn with_fusion(&self, fusion: Fusion) -> Result<Self> {
        fusion.validate()?;
        Ok(Self { fusion, scorer: None, ..self.clone() })
    }

    /// The `k` tools that fit `text` best, best first, without any gate.
    ///
    /// Tools that `text` names come first and do not count; tools whose scores are all zero are
    /// never ranked; equal scores keep catalog order.
    ///
    /// # Errors
    /// [`ErrorKind::LexicalIndex`]. A failing model is no error: the ranking goes by words then.
    pub fn rank(&self, text: &str, k: usize) -> Result<Vec<Candidate>> {
        let index = self.index();
        let request = SelectRequest::new(text).k(k);
        let eligible = Eligible::of(&index.snapshot, &request.context);
        let mut rankings = self.ranker(&index).rank(&request, &eligible, k, false)?;
        let ranked = rankings.pop().map(|ranking| ranking.ranked).unwrap_or_default();
        Ok(ranked.into_iter().map(|entry| entry.candidate).collect())
    }

    /// Ranks and judges: the tools that fit `request`, and what it came to.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidSetting`] for a request without or with too many intents,
    /// [`ErrorKind::LexicalIndex`]. A failing model is no error: the selection is marked degraded.
    pub fn select(&self, request: &SelectRequest) -> Result<Selection> {
        let index = self.index();
        let eligible = tracing::trace_span!("filter")
            .in_scope(|| Eligible::of(&index.snapshot, &request.context));
        self.select_among(&index, request, &eligible)
    }

    /// Like [`select`](Self::select) among `eligible` rows, in place of the request's context.
    pub(crate) fn select_among(
        &self,
        index: &ToolIndex,
        request: &SelectRequest,
        eligible: &Eligible,
    ) -> Result<Selection> {
        request.validate()?;
        let span = tracing::debug_span!(
            "select",
            k = request.k,
            intents = request.intents.len(),
            eligible = Empty,
            candidates = Empty,
            degraded = Empty
        )
        .entered();
        let in_namespace = within_namespace(index, request, eligible);
        let eligible = in_namespace.as_ref().unwrap_or(eligible);
        let ranker = self.ranker(index);
        let mut selection =
            tracing::trace_span!("rank").in_scope(|| match &request.intent_rules {
                Some(rules) => planned::select(&ranker, request, eligible, rules),
                None => refine::select(&ranker, request, eligible),
            })?;
        selection.tokens = figures(index, &selection, eligible);
        span.record("eligible", selection.eligible);
        span.record("candidates", selection.candidates.len());
        span.record("degraded", selection.is_degraded());
        if index.can_be_completed() {
            self.complete(index);
        }
        Ok(selection)
    }

    /// How the scores of one tool for one request come about.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownTool`] when the request's context cannot use such a tool, else as
    /// [`select`](Self::select).
    pub fn explain(&self, request: &SelectRequest, id: &ToolId) -> Result<Explanation> {
        request.validate()?;
        let index = self.index();
        let eligible = Eligible::of(&index.snapshot, &request.context);
        let eligible = within_namespace(&index, request, &eligible).unwrap_or(eligible);
        let row =
            index.snapshot.row(id).filter(|&row| eligible.contains(row)).ok_or_else(|| {
                Error::new(
                    ErrorKind::UnknownTool,
                    format!("there is no tool '{id}': list the tools that there are"),
                )
            })?;
        let ranker = self.ranker(&index);
        let rankings = ranker.rank(request, &eligible, eligible.count(), false)?;
        let mut best: Option<Explanation> = None;
        for ranking in rankings {
            let place = ranking.ranked.iter().position(|entry| entry.row == row);
            let explanation = Explanation {
                tool: id.clone(),
                rank: place.map(|place| place + 1),
                of: eligible.count(),
                candidate: place.map(|place| ranking.ranked[place].candidate.clone()),
                rejected: place.and_then(|place| ranking.ranked[place].rejected),
                lexical_weight: self.lexical_weight(&index),
                fusion: self.fusion,
                scorer: self.scorer_name(),
                degraded: ranking.degraded,
            };
            let better = best.as_ref().is_none_or(|best| match (explanation.rank, best.rank) {
                (Some(new), Some(old)) => new < old,
                (new, None) => new.is_some(),
                (None, Some(_)) => false,
            });
            if better {
                best = Some(explanation);
            }
        }
        best.ok_or_else(|| crate::error::invalid_setting("the request holds no intent"))
    }

    fn lexical_weight(&self, index: &ToolIndex) -> f32 {
        match self.fusion {
            Fusion::Agreement { lexical_weight: Some(weight) }
            | Fusion::Weighted { lexical_weight: weight } => weight,
            Fusion::Agreement { lexical_weight: None } => {
                index.embedder.as_ref().map_or(1.0, |embedder| embedder.profile().lexical_weight)
            }
            Fusion::DenseOnly => 0.0,
            Fusion::Rrf { .. } | Fusion::LexicalOnly => 1.0,
        }
    }

    /// Opens a run with a working set of its own.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidSetting`] or [`ErrorKind::BudgetTooSmall`] for options that cannot be
    /// met, [`ErrorKind::UnknownTool`] when a core or pinned tool is not there.
    pub fn session(&self, options: SessionOptions) -> Result<Session> {
        Session::open(self.clone(), options)
    }

    /// Opens a run that goes on where `state` left off.
    ///
    /// What no longer exists, or may no longer be used, is left out and reported.
    ///
    /// # Errors
    /// As [`session`](Self::session), and [`ErrorKind::FormatVersion`] for a state that another
    /// release wrote.
    pub fn restore(
        &self,
        options: SessionOptions,
        state: SessionState,
    ) -> Result<(Session, RestoreReport)> {
        Session::from_state(self.clone(), options, state)
    }

    /// What the caller may use, on one page: at most as detailed as `most`, less if `budget` asks
    /// for it.
    pub fn outline(&self, context: &RuntimeContext, most: Detail, budget: Budget) -> Outline {
        let snapshot = self.snapshot();
        let eligible = Eligible::of(&snapshot, context);
        Outline::of(&snapshot, &eligible, most, budget, self.token_counter())
    }

    /// The catalog that the engine ranks.
    pub fn catalog(&self) -> &Catalog {
        &self.shared.catalog
    }

    /// The snapshot that answers now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.index().snapshot)
    }

    /// The model's fingerprint; `None` when the engine ranks by words alone.
    pub fn fingerprint(&self) -> Option<String> {
        self.index().embedder.as_ref().map(|embedder| embedder.fingerprint())
    }

    /// What building the current index did.
    pub fn report(&self) -> BuildReport {
        self.index().report.clone()
    }

    /// The vectors of the current index; `None` without a model.
    pub fn vectors(&self) -> Option<VectorCache> {
        self.index().vectors()
    }

    /// How tokens are counted.
    pub fn token_counter(&self) -> &dyn TokenCounter {
        &*self.shared.rules.counter
    }

    /// Takes in what became of a source and indexes the change in the same step.
    ///
    /// Only new texts are embedded. Readers see the old index until the new one is whole.
    ///
    /// # Errors
    /// As [`Catalog::refresh`]; nothing has changed then.
    pub fn refresh(
        &self,
        source: impl Into<String>,
        update: impl Into<SourceUpdate>,
    ) -> Result<CatalogDiff> {
        self.refresh_all(vec![(source.into(), update.into())])
    }

    /// Takes in the state of several sources in one version step.
    ///
    /// # Errors
    /// As [`refresh`](Self::refresh).
    pub fn refresh_all(&self, updates: Vec<(String, SourceUpdate)>) -> Result<CatalogDiff> {
        let span = tracing::debug_span!(
            "refresh",
            sources = updates.len(),
            version = Empty,
            added = Empty,
            removed = Empty,
            changed = Empty
        )
        .entered();
        let _writing = self.writing();
        let diff = self.shared.catalog.refresh_with(updates, |snapshot, _| {
            let embedder = self.index().embedder.clone();
            self.publish(Arc::clone(snapshot), embedder, &mut |_| {})
        })?;
        // The catalog may have been refreshed past the engine before.
        let (snapshot, index) = (self.shared.catalog.snapshot(), self.index());
        if !Arc::ptr_eq(&snapshot, &index.snapshot) {
            self.publish(snapshot, index.embedder.clone(), &mut |_| {})?;
        }
        span.record("version", diff.version);
        span.record("added", diff.added.len());
        span.record("removed", diff.removed.len());
        span.record("changed", diff.changed.len());
        Ok(diff)
    }

    /// Changes what the catalog takes from its sources, and indexes the change in the same step.
    ///
    /// # Errors
    /// As [`Catalog::set_trust`]; nothing has changed then.
    pub fn set_trust(&self, trust: TrustPolicy) -> Result<CatalogDiff> {
        self.trust_with(|_| Ok(trust))
    }

    /// Accepts a withheld tool as it is listed now, and indexes it in the same step.
    ///
    /// # Errors
    /// As [`Catalog::accept`]; nothing has changed then.
    pub fn accept(&self, tool: &ToolId, hash: &str) -> Result<CatalogDiff> {
        self.trust_with(|snapshot| accepting(snapshot, tool, hash))
    }

    fn trust_with(
        &self,
        trust: impl FnOnce(&Snapshot) -> Result<TrustPolicy>,
    ) -> Result<CatalogDiff> {
        let _writing = self.writing();
        self.shared.catalog.trust_with(trust, |snapshot, _| {
            let embedder = self.index().embedder.clone();
            self.publish(Arc::clone(snapshot), embedder, &mut |_| {})
        })
    }

    /// Indexes the catalog's current snapshot, in case it was refreshed past the engine.
    ///
    /// # Errors
    /// [`ErrorKind::LexicalIndex`].
    pub fn sync(&self) -> Result<()> {
        let _writing = self.writing();
        let (snapshot, index) = (self.shared.catalog.snapshot(), self.index());
        if Arc::ptr_eq(&snapshot, &index.snapshot) && index.is_complete() {
            return Ok(());
        }
        self.publish(snapshot, index.embedder.clone(), &mut |_| {})
    }

    /// Changes the model: embeds the catalog with it and swaps index and model in together.
    ///
    /// # Errors
    /// What the model answered, when it cannot embed the catalog, or
    /// [`ErrorKind::InvalidSetting`] when its profile is out of range; the old model stays.
    ///
    /// # Example
    /// ```
    /// use toolrack::{Catalog, Engine, StaticEmbedder};
    ///
    /// let engine = Engine::builder(Catalog::parse(r#"[{"name": "send_mail"}]"#)?).build()?;
    /// engine.swap(StaticEmbedder::bundled().truncated(64)?)?;
    /// assert!(engine.fingerprint().unwrap().ends_with("first-64"));
    /// # Ok::<(), toolrack::Error>(())
    /// ```
    pub fn swap(&self, embedder: impl Embedder + 'static) -> Result<()> {
        self.swap_with_progress(embedder, &mut |_| {})
    }

    /// Like [`swap`](Self::swap), telling after each batch how far it has come.
    ///
    /// # Errors
    /// As [`swap`](Self::swap).
    pub fn swap_with_progress(
        &self,
        embedder: impl Embedder + 'static,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        embedder.profile().validate()?;
        let _writing = self.writing();
        let snapshot = Arc::clone(&self.index().snapshot);
        let index = self.build(snapshot, Some(Arc::new(embedder)), progress)?;
        if let Some(failure) = index.failure() {
            return Err(failure);
        }
        self.shared.index.store(Arc::new(index));
        Ok(())
    }

    pub(crate) fn index(&self) -> Arc<ToolIndex> {
        self.shared.index.load_full()
    }

    pub(crate) fn ranker<'a>(&'a self, index: &'a ToolIndex) -> Ranker<'a> {
        Ranker {
            index,
            fusion: self.fusion,
            gate: &self.shared.rules.gate,
            scorer: self.scorer.as_deref(),
        }
    }

    /// Which ranked tools are admitted.
    pub(crate) fn gate(&self) -> &Gate {
        &self.shared.rules.gate
    }

    /// How both arms' scores become one.
    pub(crate) fn fusion(&self) -> Fusion {
        self.fusion
    }

    /// What ranks in place of both arms.
    pub(crate) fn scorer_name(&self) -> Option<String> {
        self.scorer.as_ref().map(|scorer| scorer.name())
    }

    /// Digest of the settings that decide how tools are ranked and judged.
    pub(crate) fn rules_digest(&self) -> String {
        let rules = &self.shared.rules;
        let settings = serde_json::to_string(&(self.fusion, rules.weights, &rules.gate));
        // Plain data always has a JSON form.
        let mut settings = settings.unwrap_or_default();
        settings.extend(self.scorer_name());
        let mut digest = sha256_hex(settings);
        digest.truncate(16);
        digest
    }

    fn writing(&self) -> std::sync::MutexGuard<'_, ()> {
        // A panic of another writer left the old index in place, which is a good one.
        self.shared.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn build(
        &self,
        snapshot: Arc<Snapshot>,
        embedder: Option<Arc<dyn Embedder>>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ToolIndex> {
        // Vectors of another model are refused by the cache itself.
        let known = self.index().vectors();
        let parts = IndexParts {
            embedder,
            weights: self.shared.rules.weights,
            counter: &*self.shared.rules.counter,
            known: known.as_ref(),
            progress,
        };
        let mut index = ToolIndex::build(snapshot, parts)?;
        index.report.cache_refused = None;
        Ok(index)
    }

    fn publish(
        &self,
        snapshot: Arc<Snapshot>,
        embedder: Option<Arc<dyn Embedder>>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        let index = self.build(snapshot, embedder, progress)?;
        self.shared.index.store(Arc::new(index));
        Ok(())
    }

    /// Embeds what is missing, now that the model answers again. One caller does it, once.
    fn complete(&self, seen: &ToolIndex) {
        let Ok(_writing) = self.shared.writer.try_lock() else { return };
        let index = self.index();
        if !std::ptr::eq(&*index, seen) || index.is_complete() {
            return;
        }
        let next = self.build(Arc::clone(&index.snapshot), index.embedder.clone(), &mut |_| {});
        // What fails here was degraded before and is so still.
        if let Ok(next) = next {
            self.shared.index.store(Arc::new(next.after(&index)));
        }
    }
}

/// The eligible rows of the request's namespace; `None` when it names none.
fn within_namespace(
    index: &ToolIndex,
    request: &SelectRequest,
    eligible: &Eligible,
) -> Option<Eligible> {
    let namespace = request.namespace.as_ref()?;
    Some(eligible.and(&index.snapshot, |tool| tool.namespace() == namespace))
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("index", &*self.index()).finish_non_exhaustive()
    }
}

fn figures(index: &ToolIndex, selection: &Selection, eligible: &Eligible) -> TokenFigures {
    let rows = selection.candidates.iter().filter_map(|one| index.snapshot.row(&one.id));
    let sent = rows.map(|row| index.costs[row]).sum();
    let costs = index.costs.iter().enumerate();
    let naive = costs.filter(|(row, _)| eligible.contains(*row)).map(|(_, cost)| cost).sum();
    TokenFigures::new(sent, naive)
}
