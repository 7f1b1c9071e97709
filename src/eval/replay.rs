//! Runs played again: what a working set would have shown when each step needed it.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::baseline::definition_tokens;
use super::dataset::Dataset;
use super::query::Query;
use super::system::EngineSettings;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::index::definition_text;
use crate::session::{Call, Entry, FindRequest, Session, SessionOptions, Verdict};
use crate::working_set::Timing;

/// Steps after an eviction within which wanting the tool again is thrash.
const THRASH: usize = 3;
/// Runs that a recommendation is simulated on.
const RECOMMEND_RUNS: usize = 300;
/// Limits that a recommendation tries.
const LIMITS: [usize; 12] = [4, 6, 8, 10, 12, 15, 20, 25, 30, 40, 60, 80];

/// What the model is shown.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Shown {
    /// Every tool at every request.
    AllTools,
    /// The k best for the turn's message, anew each turn, and no `find_tool`.
    TopK(usize),
    /// A session with a working set.
    WorkingSet(Box<SessionOptions>),
}

/// One way to show tools, under a name for tables.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ReplaySetting {
    /// Its name in tables.
    pub name: String,
    /// What is shown.
    pub shown: Shown,
}

impl ReplaySetting {
    /// Every tool at every request.
    pub fn all_tools() -> Self {
        Self { name: "all tools".into(), shown: Shown::AllTools }
    }

    /// The `k` best for each turn's message.
    pub fn top_k(k: usize) -> Self {
        Self { name: format!("top {k} a turn"), shown: Shown::TopK(k) }
    }

    /// A working set, named by its limit and timing.
    pub fn working_set(options: SessionOptions) -> Self {
        let timing = match options.working_set.timing {
            Timing::Epoch => "epoch",
            Timing::Immediate => "immediate",
        };
        let mut name = format!("limit {}, {timing}", options.working_set.limit);
        if !options.core.is_empty() {
            name += &format!(", {} core", options.core.len());
        }
        if options.working_set.stale_after != SessionOptions::default().working_set.stale_after {
            name += &format!(", stale after {}", options.working_set.stale_after);
        }
        if options.retrieve != SessionOptions::default().retrieve {
            name += &format!(", retrieve {}", options.retrieve);
        }
        Self { name, shown: Shown::WorkingSet(Box::new(options)) }
    }
}

/// What the simulated model says to `find_tool` when it lacks a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Intent {
    /// The first sentence of the tool's description that no other tool has: a model that knows what
    /// it needs, hence an upper bound of what is rescued. The default.
    #[default]
    Description,
    /// The turn's message again: a lower bound.
    Message,
}

/// How runs are replayed.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ReplayOptions {
    /// What the model says to `find_tool`.
    pub intent: Intent,
    /// Share of steps whose tool should be visible, for the recommendation. Default 0.95.
    pub goal: f64,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self { intent: Intent::default(), goal: 0.95 }
    }
}

impl ReplayOptions {
    /// Sets what the model says to `find_tool`.
    #[must_use]
    pub fn intent(mut self, intent: Intent) -> Self {
        self.intent = intent;
        self
    }

    /// Sets the share of steps whose tool should be visible.
    #[must_use]
    pub fn goal(mut self, goal: f64) -> Self {
        self.goal = goal;
        self
    }
}

/// Replayed runs of one dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReplayReport {
    /// Name of the dataset.
    pub dataset: String,
    /// Tools in its catalog.
    pub n_tools: usize,
    /// Runs that have steps.
    pub n_runs: usize,
    /// Their turns.
    pub n_turns: usize,
    /// Their steps.
    pub n_steps: usize,
    /// What the model says to `find_tool`.
    pub intent: Intent,
    /// One a setting, in the order given.
    pub settings: Vec<ReplayFigures>,
    /// What to set for the goal.
    pub recommendation: Recommendation,
}

/// How one setting fared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReplayFigures {
    /// Name of the setting.
    pub name: String,
    /// Share of steps whose tool was visible when needed.
    pub visible: f64,
    /// Share of steps whose tool one `find_tool` call brought in.
    pub rescued: f64,
    /// Share of steps whose tool was not to be had.
    pub lost: f64,
    /// Changes of the list a step.
    pub changes: f64,
    /// Share of steps whose tool had been evicted within the three steps before.
    pub thrash: f64,
    /// Tools in the list, as a mean over requests.
    pub tools: f64,
    /// Tokens of the list, as a mean over requests.
    pub tokens: f64,
    /// Tokens of all lists sent, against all tools at every request without searches.
    pub tokens_share: f64,
    /// Share of the lists' bytes that begins like the request before, which a provider's prompt
    /// cache keeps.
    pub cached: f64,
}

/// What to set so that a share of the steps finds its tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Recommendation {
    /// The share that is asked for.
    pub goal: f64,
    /// The smallest k whose best tools for the turn's message hold the tools of that share of steps,
    /// with the share that it gives; `None` when no k does.
    pub k: Option<(usize, f64)>,
    /// The smallest limit of the working set with which tools are visible, or found by one search,
    /// for that share of steps, with that share; `None` when none that was tried does.
    pub limit: Option<(usize, f64)>,
    /// The same without any search.
    pub limit_without_search: Option<(usize, f64)>,
    /// Share of steps for k from 1 on, up to 50.
    pub by_k: Vec<f64>,
}

impl Recommendation {
    /// The recommendation in a sentence or two.
    pub fn text(&self) -> String {
        let share = |value: f64| super::report::short(value);
        let mut out = match self.k {
            Some((k, gives)) => format!("K = {k} gives {}.", share(gives)),
            None => {
                let best = self.by_k.last().copied().unwrap_or_default();
                format!(
                    "No K gives {}: the best {} give {}.",
                    share(self.goal),
                    self.by_k.len(),
                    share(best)
                )
            }
        };
        out += &match self.limit {
            Some((limit, gives)) => {
                format!(" With find_tool a limit of {limit} gives {}", share(gives))
            }
            None => format!(" With find_tool no limit that was tried gives {}", share(self.goal)),
        };
        out += &match self.limit_without_search {
            Some((limit, gives)) => {
                format!("; without, a limit of {limit} gives {}.", share(gives))
            }
            None => "; without, no limit that was tried does.".to_owned(),
        };
        out
    }
}

/// Plays the runs of `dataset` again under each of `settings`.
///
/// A turn begins with its message; then each step needs its tool. When the tool (or an alternative)
/// is not visible the model asks `find_tool` once; when it still is not, the step is lost and the
/// run goes on. One request is sent at the beginning of a turn, after each step and after each
/// search.
///
/// # Errors
/// [`ErrorKind::Format`] when no query has turns or steps; else as
/// [`Engine::session`](crate::Engine::session).
///
/// # Example
/// ```
/// use toolrack::{SessionOptions, StaticEmbedder};
/// use toolrack::eval::{Dataset, EngineSettings, ReplayOptions, ReplaySetting, replay};
///
/// let set = Dataset::parse(
///     "demo",
///     r#"[{"name": "send_mail", "description": "Send an e-mail."},
///         {"name": "read_file", "description": "Read a file."},
///         {"name": "book_room", "description": "Book a meeting room."}]"#,
///     r#"{"id": "1", "query": "write an e-mail, then book a room", "steps": ["send_mail", "book_room"]}"#,
/// )?;
/// let settings = [
///     ReplaySetting::all_tools(),
///     ReplaySetting::top_k(1),
///     ReplaySetting::working_set(SessionOptions::default().limit(2)),
/// ];
/// let engine = EngineSettings::with_embedder(StaticEmbedder::bundled());
/// let report = replay(&set, &engine, &settings, &ReplayOptions::default(), &mut |_, _| {})?;
/// assert_eq!((report.settings[0].visible, report.settings[0].cached > 0.5), (1.0, true));
/// assert!(report.settings[1].lost > 0.0);
/// # Ok::<(), toolrack::Error>(())
/// ```
pub fn replay(
    dataset: &Dataset,
    engine: &EngineSettings,
    settings: &[ReplaySetting],
    options: &ReplayOptions,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<ReplayReport> {
    let runs: Vec<&Query> = dataset.queries().iter().filter(|query| has_steps(query)).collect();
    if runs.is_empty() {
        return Err(Error::new(
            ErrorKind::Format,
            format!("no query of {} has turns or steps: give runs to replay", dataset.name()),
        ));
    }
    let sample: Vec<&Query> =
        runs.iter().copied().step_by(runs.len().div_ceil(RECOMMEND_RUNS)).collect();
    let limits = LIMITS.iter().filter(|&&limit| limit < dataset.n_tools()).count();
    let total = runs.len() * (settings.len() + 1) + sample.len() * limits;
    let mut done = 0;
    let mut tick = || {
        done += 1;
        progress(done.min(total), total);
    };
    let engine = engine.engine(dataset, None, |_| {})?;
    if let Some(failure) = engine.report().failure {
        return Err(Error::embedder(failure));
    }
    let scene = Scene::of(dataset, &engine, options.intent);
    let mut figures = Vec::new();
    for setting in settings {
        figures.push(scene.play(setting, &runs, &mut tick)?);
    }
    let recommendation = scene.recommend(&runs, &sample, settings, options.goal, &mut tick)?;
    Ok(ReplayReport {
        dataset: dataset.name().to_owned(),
        n_tools: dataset.n_tools(),
        n_runs: runs.len(),
        n_turns: runs.iter().map(|run| run.turns.len()).sum(),
        n_steps: runs.iter().flat_map(|run| &run.turns).map(|turn| turn.steps.len()).sum(),
        intent: options.intent,
        settings: figures,
        recommendation,
    })
}

fn has_steps(query: &Query) -> bool {
    query.turns.iter().any(|turn| !turn.steps.is_empty())
}

/// The rows that do for a step.
fn fitting(query: &Query, step: usize) -> Vec<usize> {
    let slot = query.slots.iter().find(|slot| slot.tool == step);
    let alternatives = slot.map(|slot| slot.alternatives.as_slice()).unwrap_or_default();
    std::iter::once(step).chain(alternatives.iter().copied()).collect()
}

/// What is sent with one request: keys (rows, or the meta-tool) with their bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct List {
    entries: Vec<(Option<usize>, usize)>,
    tokens: usize,
}

impl List {
    fn position(&self, rows: &[usize]) -> Option<usize> {
        rows.iter().copied().find(|&row| self.entries.iter().any(|entry| entry.0 == Some(row)))
    }

    fn rows(&self) -> BTreeSet<usize> {
        self.entries.iter().filter_map(|entry| entry.0).collect()
    }
}

/// Sums over all runs of a setting.
#[derive(Default)]
struct Tally {
    steps: usize,
    visible: usize,
    rescued: usize,
    thrash: usize,
    changes: usize,
    requests: usize,
    /// Requests without those that searches cost.
    plain_requests: usize,
    tools: usize,
    tokens: usize,
    bytes: usize,
    cached: usize,
}

/// The list's way through one run.
#[derive(Default)]
struct Trail {
    list: Option<List>,
    /// Step at which a tool left.
    left: HashMap<usize, usize>,
}

impl Trail {
    fn send(&mut self, list: List, step: usize, tally: &mut Tally) {
        tally.requests += 1;
        tally.tools += list.entries.iter().filter(|entry| entry.0.is_some()).count();
        tally.tokens += list.tokens;
        tally.bytes += list.entries.iter().map(|entry| entry.1).sum::<usize>();
        if let Some(before) = &self.list {
            let same = before.entries.iter().zip(&list.entries).take_while(|(a, b)| a == b);
            tally.cached += same.map(|(entry, _)| entry.1).sum::<usize>();
            if before.entries != list.entries {
                tally.changes += 1;
                let rows = list.rows();
                for row in before.rows().difference(&rows) {
                    self.left.insert(*row, step);
                }
            }
        }
        self.list = Some(list);
    }

    fn shown(&self, rows: &[usize]) -> Option<usize> {
        self.list.as_ref()?.position(rows)
    }
}

/// Shows tools to the simulated model.
enum Stage {
    Fixed(List),
    TopK(usize, List),
    Session(Box<Session>),
}

struct Scene<'a> {
    dataset: &'a Dataset,
    engine: &'a Engine,
    intent: Intent,
    tokens: Vec<usize>,
    bytes: Vec<usize>,
    own_words: Vec<String>,
}

impl<'a> Scene<'a> {
    fn of(dataset: &'a Dataset, engine: &'a Engine, intent: Intent) -> Self {
        let bytes = |tool: &crate::catalog::Tool| {
            definition_text(tool.name(), tool.description(), tool.parameters()).len()
        };
        Self {
            dataset,
            engine,
            intent,
            tokens: dataset.tools().map(definition_tokens).collect(),
            bytes: dataset.tools().map(bytes).collect(),
            own_words: own_words(dataset),
        }
    }

    fn list(&self, rows: impl Iterator<Item = usize>) -> List {
        let mut list = List::default();
        for row in rows {
            list.entries.push((Some(row), self.bytes[row]));
            list.tokens += self.tokens[row];
        }
        list
    }

    fn session_list(&self, session: &Session) -> List {
        let visible = session.visible();
        let snapshot = self.dataset.snapshot();
        let entries = visible.entries().filter_map(|entry| match entry {
            Entry::Tool(tool) => {
                let row = snapshot.row(tool.tool.id())?;
                Some((Some(row), self.bytes[row]))
            }
            Entry::Meta(meta) => {
                let text = definition_text(&meta.name, &meta.description, Some(&meta.parameters));
                Some((None, text.len()))
            }
        });
        List { entries: entries.collect(), tokens: visible.tokens().sent }
    }

    fn stage(&self, shown: &Shown) -> Result<Stage> {
        Ok(match shown {
            Shown::AllTools => Stage::Fixed(self.list(0..self.dataset.n_tools())),
            Shown::TopK(k) => Stage::TopK(*k, List::default()),
            Shown::WorkingSet(options) => {
                Stage::Session(Box::new(self.engine.session((**options).clone())?))
            }
        })
    }

    fn turn(&self, stage: &mut Stage, message: &str) -> Result<List> {
        Ok(match stage {
            Stage::Fixed(list) => list.clone(),
            Stage::TopK(k, list) => {
                let ranked = self.engine.rank(message, *k)?;
                let rows = ranked.iter().filter_map(|c| self.dataset.snapshot().row(&c.id));
                *list = self.list(rows.take(*k));
                list.clone()
            }
            Stage::Session(session) => {
                session.turn(message)?;
                self.session_list(session)
            }
        })
    }

    /// The list after a tool was called.
    fn step(&self, stage: &mut Stage, called: Option<usize>) -> Result<List> {
        Ok(match stage {
            Stage::Fixed(list) | Stage::TopK(_, list) => list.clone(),
            Stage::Session(session) => {
                if let Some(row) = called {
                    let snapshot = self.dataset.snapshot();
                    let name = snapshot.names().provider_name(row);
                    if let Verdict::Run(tool) = session.authorize(&Call::new(name, json!({})))? {
                        session.record_use(&tool);
                    }
                }
                session.step();
                self.session_list(session)
            }
        })
    }

    /// The list after a search for the tool in `row`; `None` where there is nothing to search with.
    fn find(&self, stage: &mut Stage, row: usize, message: &str) -> Result<Option<List>> {
        let Stage::Session(session) = stage else { return Ok(None) };
        if session.visible().meta_tool().is_none() {
            return Ok(None);
        }
        let intent = match self.intent {
            Intent::Message => message.to_owned(),
            Intent::Description => self.own_words[row].clone(),
        };
        session.find_tool(&FindRequest::new(intent))?;
        Ok(Some(self.session_list(session)))
    }

    fn play(
        &self,
        setting: &ReplaySetting,
        runs: &[&Query],
        tick: &mut dyn FnMut(),
    ) -> Result<ReplayFigures> {
        let mut tally = Tally::default();
        for run in runs {
            self.run(&setting.shown, run, &mut tally)?;
            tick();
        }
        let steps = tally.steps.max(1) as f64;
        let requests = tally.requests.max(1) as f64;
        let all: usize = self.tokens.iter().sum();
        let naive = (all * tally.plain_requests).max(1) as f64;
        let (visible, rescued) = (tally.visible as f64 / steps, tally.rescued as f64 / steps);
        Ok(ReplayFigures {
            name: setting.name.clone(),
            visible,
            rescued,
            lost: (tally.steps - tally.visible - tally.rescued) as f64 / steps,
            changes: tally.changes as f64 / steps,
            thrash: tally.thrash as f64 / steps,
            tools: tally.tools as f64 / requests,
            tokens: tally.tokens as f64 / requests,
            tokens_share: tally.tokens as f64 / naive,
            cached: tally.cached as f64 / tally.bytes.max(1) as f64,
        })
    }

    fn run(&self, shown: &Shown, run: &Query, tally: &mut Tally) -> Result<()> {
        let mut stage = self.stage(shown)?;
        let mut trail = Trail::default();
        let mut number = 0;
        for turn in &run.turns {
            let list = self.turn(&mut stage, &turn.text)?;
            trail.send(list, number, tally);
            tally.plain_requests += 1;
            for &step in &turn.steps {
                number += 1;
                tally.steps += 1;
                let rows = fitting(run, step);
                let mut called = trail.shown(&rows);
                if called.is_some() {
                    tally.visible += 1;
                } else {
                    let since = |row: &usize| trail.left.get(row).map(|at| number - at);
                    if rows.iter().filter_map(since).any(|steps| steps <= THRASH) {
                        tally.thrash += 1;
                    }
                    if let Some(list) = self.find(&mut stage, step, &turn.text)? {
                        trail.send(list, number, tally);
                        called = trail.shown(&rows);
                        tally.rescued += usize::from(called.is_some());
                    }
                }
                let list = self.step(&mut stage, called)?;
                trail.send(list, number, tally);
                tally.plain_requests += 1;
            }
        }
        Ok(())
    }

    fn recommend(
        &self,
        runs: &[&Query],
        sample: &[&Query],
        settings: &[ReplaySetting],
        goal: f64,
        tick: &mut dyn FnMut(),
    ) -> Result<Recommendation> {
        const DEEPEST: usize = 50;
        let mut hits = vec![0_usize; DEEPEST.min(self.dataset.n_tools())];
        let mut steps = 0;
        for run in runs {
            for turn in run.turns.iter().filter(|turn| !turn.steps.is_empty()) {
                let ranked = self.engine.rank(&turn.text, hits.len())?;
                let rows: Vec<usize> =
                    ranked.iter().filter_map(|c| self.dataset.snapshot().row(&c.id)).collect();
                for &step in &turn.steps {
                    steps += 1;
                    let fitting = fitting(run, step);
                    if let Some(at) = rows.iter().position(|row| fitting.contains(row))
                        && let Some(hits) = hits.get_mut(at)
                    {
                        *hits += 1;
                    }
                }
            }
            tick();
        }
        let mut found = 0;
        let by_k: Vec<f64> = hits
            .iter()
            .map(|hits| {
                found += hits;
                found as f64 / f64::from(u32::try_from(steps).unwrap_or(u32::MAX))
            })
            .collect();
        let k = by_k.iter().position(|&share| share >= goal).map(|at| (at + 1, by_k[at]));
        let like = settings.iter().find_map(|setting| match &setting.shown {
            Shown::WorkingSet(options) => Some((**options).clone()),
            Shown::AllTools | Shown::TopK(_) => None,
        });
        let like = like.unwrap_or_default();
        let (mut limit, mut limit_without_search) = (None, None);
        for &most in LIMITS.iter().filter(|&&limit| limit < self.dataset.n_tools()) {
            let options = like.clone().limit(most).pass_through(0);
            if options.core.len() + options.pinned.len() >= most {
                continue;
            }
            let setting = ReplaySetting::working_set(options);
            let figures = self.play(&setting, sample, tick)?;
            if limit.is_none() && figures.visible + figures.rescued >= goal {
                limit = Some((most, figures.visible + figures.rescued));
            }
            if figures.visible >= goal {
                limit_without_search = Some((most, figures.visible));
                break;
            }
        }
        Ok(Recommendation { goal, k, limit, limit_without_search, by_k })
    }
}

/// What somebody who needs each tool would say: the first sentence of its description that no other
/// tool has, or its name in words.
fn own_words(dataset: &Dataset) -> Vec<String> {
    let sentences = |text: &str| -> Vec<String> {
        let parts = text.split_inclusive(['.', '\n', ':']);
        let parts = parts.map(|part| part.trim().trim_end_matches(['.', ':']).trim().to_owned());
        parts.filter(|part| part.split_whitespace().count() > 1).collect()
    };
    let mut times: HashMap<String, usize> = HashMap::new();
    for tool in dataset.tools() {
        for sentence in sentences(tool.description()) {
            *times.entry(sentence).or_default() += 1;
        }
    }
    let own = |tool: &crate::catalog::Tool| {
        let mut list = sentences(tool.description()).into_iter();
        let found = list.find(|sentence| times.get(sentence) == Some(&1));
        found.unwrap_or_else(|| tool.name().replace(['_', '-', '.', '/'], " "))
    };
    dataset.tools().map(own).collect()
}
