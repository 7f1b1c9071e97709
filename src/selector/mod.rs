//! Picking tools in one call, without a session.

mod pins;
mod recall;

pub use pins::Pins;
pub use recall::{LabelledQuery, RecallRow, RecallTable};

use crate::catalog::{Catalog, Snapshot, Tool, ToolId};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result, invalid_setting};
use crate::select::{
    DEFAULT_K, Eligible, Outcome, RuntimeContext, Scorer, SelectRequest, Selection, TokenFigures,
};

/// Picks the tools to send with one request, in one call and without a session.
///
/// The k best tools, plus those that are always included and those that the conversation has pinned,
/// in catalog order. All k places are filled, by score and then by catalog order, so that a picker
/// is as bold as k is great; [`only_fitting`](Self::only_fitting) leaves places empty instead. A
/// selector holds rules and no state: one serves all conversations, each of which keeps its own
/// [`Pins`]. A [`Session`](crate::Session) does more (recency, token budget, execution gate, stable
/// prefixes) over the same engine and scorer.
///
/// # Example: the escape hatch
/// ```
/// use toolrack::{Catalog, Engine, Jaccard, Pins, Selector};
///
/// let catalog = Catalog::parse(
///     r#"[{"name": "read_notes", "description": "Read the notes of this run."},
///         {"name": "calculator", "description": "Evaluate a mathematical expression."},
///         {"name": "weather", "description": "The weather forecast of a city."}]"#)?;
/// let engine = Engine::builder(catalog).scorer(Jaccard).build()?;
/// let selector = Selector::new(&engine).top_k(1).always_include(["read_notes"]);
///
/// let mut pins = Pins::default(); // one a conversation
/// let picked = selector.select("the weather in Bergen", &pins)?;
/// assert_eq!(picked.names().collect::<Vec<_>>(), ["read_notes", "weather"]);
///
/// // The model lacks something: search all tools, and keep what is found.
/// assert_eq!(selector.discover("add up some numbers", &mut pins)?, None); // no word in common
/// let found = selector.discover("evaluate an expression", &mut pins)?.unwrap();
/// assert_eq!(found.name(), "calculator");
/// let picked = selector.select("the weather in Bergen", &pins)?;
/// assert_eq!(picked.names().collect::<Vec<_>>(), ["read_notes", "calculator", "weather"]);
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "call select() to pick tools"]
pub struct Selector {
    engine: Engine,
    top_k: usize,
    always_include: Vec<String>,
    only_fitting: bool,
    context: RuntimeContext,
}

/// What a [`Selector`] picked.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Picked {
    /// The tools to send, in catalog order.
    pub tools: Vec<PickedTool>,
    /// The ranking behind it; `None` when there were no more tools than places and nothing was
    /// ranked.
    pub selection: Option<Selection>,
    /// Tokens of what was picked and of all that the caller may use.
    pub tokens: TokenFigures,
}

/// One tool of a [`Picked`] list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PickedTool {
    /// The tool.
    pub tool: Tool,
    /// The name to send it under.
    pub name: String,
    /// Why it is there.
    pub why: PickReason,
}

/// Why a tool is in a [`Picked`] list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PickReason {
    /// It is always included.
    Always,
    /// The conversation pinned it.
    Pinned,
    /// It is among the k best.
    Ranked,
    /// There are no more tools than places, or a place was left.
    Room,
}

impl Picked {
    /// The names to send the tools under, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|picked| picked.name.as_str())
    }

    /// Whether a tool of that name was picked.
    pub fn contains(&self, name: &str) -> bool {
        self.names().any(|other| other == name)
    }
}

impl Selector {
    /// A selector over `engine` of [`DEFAULT_K`] tools.
    ///
    /// What ranks is the engine's: its model, its [`Fusion`](crate::Fusion), or its
    /// [`Scorer`](crate::Scorer).
    pub fn new(engine: &Engine) -> Self {
        Self {
            engine: engine.clone(),
            top_k: DEFAULT_K,
            always_include: Vec::new(),
            only_fitting: false,
            context: RuntimeContext::default(),
        }
    }

    /// A selector over a catalog that `scorer` ranks, without an engine of one's own.
    ///
    /// # Errors
    /// [`ErrorKind::LexicalIndex`].
    ///
    /// # Example
    /// ```
    /// use toolrack::{Catalog, Jaccard, Pins, Selector};
    ///
    /// let catalog = Catalog::parse(r#"[{"name": "send_mail"}, {"name": "read_file"}]"#)?;
    /// let picked =
    ///     Selector::over(catalog, Jaccard)?.top_k(1).select("read_file", &Pins::default())?;
    /// assert_eq!(picked.names().collect::<Vec<_>>(), ["read_file"]);
    /// # Ok::<(), toolrack::Error>(())
    /// ```
    pub fn over(catalog: Catalog, scorer: impl Scorer + 'static) -> Result<Self> {
        Ok(Self::new(&Engine::builder(catalog).scorer(scorer).build()?))
    }

    /// Sets how many tools are picked by rank; those always included and pinned do not count.
    pub fn top_k(mut self, k: usize) -> Self {
        self.top_k = k;
        self
    }

    /// Sets the tools that are always there: ids, names, or unique ends of names.
    pub fn always_include<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.always_include = names.into_iter().map(Into::into).collect();
        self
    }

    /// Leaves places empty rather than fill them with tools that the gate does not admit.
    pub fn only_fitting(mut self) -> Self {
        self.only_fitting = true;
        self
    }

    /// Sets who asks.
    pub fn context(mut self, context: RuntimeContext) -> Self {
        self.context = context;
        self
    }

    /// The tools to send with `query`.
    ///
    /// Where no more tools are left than there are places, all are there and nothing is ranked. Tools
    /// that the query names verbatim are the first of the ranked ones, all of them even when they are
    /// more than k. Pins that the caller may no longer use, or that are gone, are passed over.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownTool`] when a tool to be always included is not there,
    /// [`ErrorKind::LexicalIndex`]. A failing model or scorer is no error: see
    /// [`Selection::degraded`].
    pub fn select(&self, query: &str, pins: &Pins) -> Result<Picked> {
        let index = self.engine.index();
        let snapshot = &index.snapshot;
        let eligible = Eligible::of(snapshot, &self.context);
        let mut reasons: Vec<Option<PickReason>> = vec![None; snapshot.len()];
        for name in &self.always_include {
            reasons[resolve(snapshot, &eligible, name)?] = Some(PickReason::Always);
        }
        let pinned = pins.iter().filter_map(|id| snapshot.row(id));
        for row in pinned.filter(|&row| eligible.contains(row)) {
            reasons[row].get_or_insert(PickReason::Pinned);
        }
        let rest: Vec<usize> = (0..snapshot.len())
            .filter(|&row| eligible.contains(row) && reasons[row].is_none())
            .collect();
        let mut selection = None;
        if rest.len() <= self.top_k {
            for &row in &rest {
                reasons[row] = Some(PickReason::Room);
            }
        } else {
            let rank_among = eligible.and_rows(snapshot.len(), |row| reasons[row].is_none());
            let request = SelectRequest::new(query).k(self.top_k);
            let ranked = self.engine.select_among(&index, &request, &rank_among)?;
            let admitted = ranked.candidates.iter();
            let others = ranked.rejected.iter().map(|(candidate, _)| candidate);
            let mut best: Vec<_> = if self.only_fitting {
                admitted.collect()
            } else {
                admitted.chain(others).collect()
            };
            // The gate parted them; here the score alone counts.
            best.sort_by_key(|candidate| {
                (!candidate.is_named(), std::cmp::Reverse(candidate.score))
            });
            let n_named = best.iter().filter(|candidate| candidate.is_named()).count();
            best.truncate(self.top_k.max(n_named));
            let mut places = self.top_k.saturating_sub(best.len());
            for row in best.iter().filter_map(|candidate| snapshot.row(&candidate.id)) {
                reasons[row] = Some(PickReason::Ranked);
            }
            for &row in &rest {
                if !self.only_fitting && places > 0 && reasons[row].is_none() {
                    reasons[row] = Some(PickReason::Room);
                    places -= 1;
                }
            }
            selection = Some(ranked);
        }
        let naive = (0..snapshot.len()).filter(|&row| eligible.contains(row));
        let naive = naive.map(|row| index.costs[row]).sum();
        let mut tools = Vec::new();
        let mut sent = 0;
        for (row, why) in reasons.into_iter().enumerate() {
            let Some(why) = why else { continue };
            sent += index.costs[row];
            let name = snapshot.names().provider_name(row).to_owned();
            tools.push(PickedTool { tool: snapshot.tool(row).clone(), name, why });
        }
        Ok(Picked { tools, selection, tokens: TokenFigures::new(sent, naive) })
    }

    /// The tool that fits `query` best out of all that the caller may use, which is pinned for the
    /// conversation of `pins`; `None` when no tool fits or when several fit so alike that somebody
    /// should choose ([`Outcome::Ambiguous`]), and then nothing is pinned.
    ///
    /// Never an arbitrary tool: the engine's gate admits it, and a score of zero is no match.
    ///
    /// # Errors
    /// [`ErrorKind::LexicalIndex`].
    pub fn discover(&self, query: &str, pins: &mut Pins) -> Result<Option<Tool>> {
        let index = self.engine.index();
        let eligible = Eligible::of(&index.snapshot, &self.context);
        let request = SelectRequest::new(query).k(1);
        let selection = self.engine.select_among(&index, &request, &eligible)?;
        let best = selection.best().filter(|_| !matches!(selection.outcome, Outcome::Ambiguous(_)));
        let Some(best) = best else { return Ok(None) };
        pins.pin(best.id.clone());
        Ok(index.snapshot.get(&best.id).cloned())
    }

    /// How often the right tool is among the picked ones, and how much smaller they are than all, for
    /// each k of `ks`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidSetting`] for no query or no k, [`ErrorKind::UnknownTool`] when a query is
    /// labelled with a tool that the catalog does not hold, else as [`select`](Self::select).
    pub fn recall(&self, queries: &[LabelledQuery], ks: &[usize]) -> Result<RecallTable> {
        if queries.is_empty() || ks.is_empty() {
            return Err(invalid_setting(
                "there is nothing to measure: give at least one labelled query and one k",
            ));
        }
        recall::table(self, queries, ks)
    }
}

/// The one eligible tool that `name` stands for.
fn resolve(snapshot: &Snapshot, eligible: &Eligible, name: &str) -> Result<usize> {
    match snapshot.names().resolve(name, &|row| eligible.contains(row)).as_slice() {
        [row] => Ok(*row),
        [] => Err(Error::new(
            ErrorKind::UnknownTool,
            format!("there is no tool '{name}': name a tool of the catalog"),
        )),
        several => {
            let ids: Vec<String> =
                several.iter().map(|&row| ToolId::to_string(snapshot.tool(row).id())).collect();
            Err(Error::new(
                ErrorKind::UnknownTool,
                format!("'{name}' stands for {}: name one of them", ids.join(" and ")),
            ))
        }
    }
}
