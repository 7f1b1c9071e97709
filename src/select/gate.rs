//! Nearest is not relevant: which ranked tools are let in.

use serde::{Deserialize, Serialize};

use crate::catalog::Risk;
use crate::embed::EmbedderProfile;
use crate::error::{Result, invalid_setting};

/// Conditions that a ranked tool has to meet to be admitted.
///
/// A tool is admitted when the request names it, when its cosine reaches the threshold of its risk
/// class, or when it covers enough of the request's words. Thresholds are `None` by default: the
/// embedder's own are taken ([`EmbedderProfile`]).
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
    /// Share of the request's words, by their rarity, that a tool has to match to be admitted on
    /// words alone; in [0, 1].
    pub coverage: f32,
    /// Difference of fused scores within which the two best tools count as ambiguous when both
    /// change something; at least 0.
    pub margin: f32,
}

impl Default for Gate {
    fn default() -> Self {
        Self { read: None, write: None, destructive: None, coverage: 0.5, margin: 0.03 }
    }
}

impl Gate {
    /// A gate that lets everything in whose score is above zero.
    pub fn open() -> Self {
        Self {
            read: Some(-1.0),
            write: Some(-1.0),
            destructive: Some(-1.0),
            coverage: 0.0,
            margin: 0.0,
        }
    }

    pub(crate) fn validate(&self) -> Result<()> {
        let cosines = [self.read, self.write, self.destructive];
        if cosines.iter().flatten().any(|value| !(-1.0..=1.0).contains(value)) {
            return Err(invalid_setting(
                "a gate threshold is out of range: give a cosine in [-1, 1]",
            ));
        }
        if !(0.0..=1.0).contains(&self.coverage) {
            return Err(invalid_setting(format!(
                "the gate's coverage is {}: give a share in [0, 1]",
                self.coverage
            )));
        }
        if !(self.margin.is_finite() && self.margin >= 0.0) {
            return Err(invalid_setting(format!(
                "the gate's margin is {}: give a number of at least 0",
                self.margin
            )));
        }
        Ok(())
    }

    /// The thresholds in force with an embedder.
    pub(crate) fn thresholds(&self, profile: &EmbedderProfile) -> Thresholds {
        Thresholds {
            read: self.read.unwrap_or(profile.read),
            write: self.write.unwrap_or(profile.write),
            destructive: self.destructive.unwrap_or(profile.destructive),
            coverage: self.coverage,
            margin: self.margin,
        }
    }
}

/// The numbers that a selection was gated with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Thresholds {
    /// Cosine for read-only tools.
    pub read: f32,
    /// Cosine for writing tools.
    pub write: f32,
    /// Cosine for destructive tools.
    pub destructive: f32,
    /// Share of the request's words.
    pub coverage: f32,
    /// Ambiguity margin in fused score.
    pub margin: f32,
}

impl Thresholds {
    pub(crate) fn cosine(&self, risk: Risk) -> f32 {
        match risk {
            Risk::Read => self.read,
            Risk::Write => self.write,
            Risk::Destructive => self.destructive,
        }
    }
}
