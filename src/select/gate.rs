//! Nearest is not relevant: which ranked tools are let in.

use serde::{Deserialize, Serialize};

use crate::catalog::Risk;
use crate::embed::EmbedderProfile;
use crate::error::{Result, invalid_setting};

/// Conditions that a ranked tool has to meet to be admitted.
///
/// A tool is admitted when the request names it, or when its cosine (less a handicap when the request
/// has no word of the end of its name) reaches the threshold of its risk class, or when it has half of
/// the request's words and destroys nothing. Without a model its words are judged: name coverage +
/// 2 · coverage of the request. Cosine thresholds are `None` by default: the embedder's own are taken
/// ([`EmbedderProfile`]).
///
/// # Example: nothing that fits is an outcome, not an error
/// ```
/// use toolrack::{Catalog, Engine, Outcome, SelectRequest};
///
/// let catalog = Catalog::parse(
///     r#"[{"name": "list_events", "description": "List the events of a calendar."},
///         {"name": "find_code", "description": "Look up the dialling code of a country."}]"#)?;
/// let engine = Engine::builder(catalog).build()?;
/// let selection = engine.select(&SelectRequest::new("run shell command execute code python"))?;
/// assert_eq!(selection.outcome, Outcome::NoMatch);
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Gate {
    /// Cosine from which a read-only tool is admitted; `None` for the embedder's.
    pub read: Option<f32>,
    /// Cosine from which a writing tool is admitted; `None` for the embedder's.
    pub write: Option<f32>,
    /// Cosine from which a destructive tool is admitted; `None` for the embedder's.
    pub destructive: Option<f32>,
    /// What is taken off the cosine of a tool of whose name's end the request has no word; at
    /// least 0. Default 0.05.
    pub handicap: f32,
    /// Share of the request's words, by rarity, from which a tool is admitted whatever its cosine,
    /// unless it destroys something; in [0, 1]. Default 0.5.
    pub coverage: f32,
    /// Words from which a read-only tool is admitted without a model, in [0, 3]. Default 0.256, which
    /// keeps 97 % of answerable requests on the development sets.
    pub read_words: f32,
    /// The same for a writing tool. Default 0.5.
    pub write_words: f32,
    /// The same for a destructive tool. Default 0.8.
    pub destructive_words: f32,
    /// Share of the best fused score within which the next tools count as ambiguous when one of them
    /// changes something; in [0, 1]. Default 0.1: under it, the first was right for two requests of
    /// three.
    pub margin: f32,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            read: None,
            write: None,
            destructive: None,
            handicap: 0.05,
            coverage: 0.5,
            read_words: 0.256,
            write_words: 0.5,
            destructive_words: 0.8,
            margin: 0.1,
        }
    }
}

impl Gate {
    /// A gate that lets in everything that is ranked, and finds nothing ambiguous.
    pub fn open() -> Self {
        Self {
            read: Some(-1.0),
            write: Some(-1.0),
            destructive: Some(-1.0),
            handicap: 0.0,
            coverage: 0.0,
            read_words: 0.0,
            write_words: 0.0,
            destructive_words: 0.0,
            margin: 0.0,
        }
    }

    pub(crate) fn validate(&self) -> Result<()> {
        let cosines = [self.read, self.write, self.destructive];
        if cosines.iter().flatten().any(|value| !(-1.0..=1.0).contains(value)) {
            return Err(invalid_setting(
                "a threshold of the gate is out of range: give a cosine in [-1, 1]",
            ));
        }
        let words = [self.read_words, self.write_words, self.destructive_words];
        if words.iter().any(|value| !(0.0..=3.0).contains(value)) {
            return Err(invalid_setting(format!(
                "the gate's words are {words:?}: give numbers in [0, 3]"
            )));
        }
        let shares = [self.margin, self.handicap, self.coverage];
        if shares.iter().any(|value| !(0.0..=1.0).contains(value)) {
            return Err(invalid_setting(format!(
                "the gate has margin {}, handicap {} and coverage {}: give numbers in [0, 1]",
                self.margin, self.handicap, self.coverage
            )));
        }
        Ok(())
    }

    /// The thresholds in force: by cosine with `profile`, by words without.
    pub(crate) fn thresholds(&self, profile: Option<&EmbedderProfile>) -> Thresholds {
        let [read, write, destructive] = match profile {
            Some(profile) => [
                self.read.unwrap_or(profile.read),
                self.write.unwrap_or(profile.write),
                self.destructive.unwrap_or(profile.destructive),
            ],
            None => [self.read_words, self.write_words, self.destructive_words],
        };
        let by = if profile.is_some() { GatedBy::Cosine } else { GatedBy::Words };
        let (coverage, margin) = (self.coverage, self.margin);
        Thresholds { by, read, write, destructive, coverage, margin }
    }
}

/// What a selection was gated by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GatedBy {
    /// Cosines, less the handicap.
    Cosine,
    /// Words alone, there being no model or none that answers.
    Words,
    /// The score of a [`Scorer`](crate::Scorer) in place of both arms.
    Scorer,
}

/// The numbers that a selection was gated with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Thresholds {
    /// What they apply to.
    pub by: GatedBy,
    /// For read-only tools.
    pub read: f32,
    /// For writing tools.
    pub write: f32,
    /// For destructive tools.
    pub destructive: f32,
    /// Share of the request's words that admits what destroys nothing.
    pub coverage: f32,
    /// Ambiguity margin, as a share of the best fused score.
    pub margin: f32,
}

impl Thresholds {
    /// The threshold for tools of `risk`.
    pub fn of(&self, risk: Risk) -> f32 {
        match risk {
            Risk::Read => self.read,
            Risk::Write => self.write,
            Risk::Destructive => self.destructive,
        }
    }
}
