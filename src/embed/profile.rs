//! What was fitted to one model.

use serde::{Deserialize, Serialize};

use crate::error::{Result, invalid_setting};

/// The numbers that belong to a model rather than to a catalog: how much the lexical arm weighs
/// beside its cosines, and which cosine is near enough to admit a tool.
///
/// A [`Calibration`](crate::Calibration) fits the thresholds. A model folder carries them in its `toolrack.json` under `"profile"`; an embedder without one
/// has the default, whose [`calibrated_on`](Self::calibrated_on) is `None`.
///
/// # Example
/// ```
/// use toolrack::EmbedderProfile;
///
/// let profile = EmbedderProfile::default();
/// assert!(profile.calibrated_on.is_none());
/// assert!(profile.read <= profile.write && profile.write <= profile.destructive);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct EmbedderProfile {
    /// Weight w of the lexical arm in [`Fusion::Agreement`](crate::Fusion::Agreement), at least 0.
    pub lexical_weight: f32,
    /// Cosine that unrelated texts have, which counts as nothing in fusion; in [-1, 1).
    pub cosine_floor: f32,
    /// How often the name stands at the front of a tool's text, 1 to 5.
    pub name_repeats: u32,
    /// Cosine in [-1, 1] from which a read-only tool is admitted.
    pub read: f32,
    /// Cosine from which a tool that changes something is admitted; at least `read`.
    pub write: f32,
    /// Cosine from which a tool that destroys something is admitted; at least `write`.
    pub destructive: f32,
    /// What the numbers were calibrated on; `None` when they are mere defaults.
    pub calibrated_on: Option<String>,
}

impl Default for EmbedderProfile {
    fn default() -> Self {
        Self {
            lexical_weight: 1.0,
            cosine_floor: 0.0,
            name_repeats: 1,
            read: 0.25,
            write: 0.3,
            destructive: 0.4,
            calibrated_on: None,
        }
    }
}

impl EmbedderProfile {
    /// Checks the ranges that the field docs state.
    pub(crate) fn validate(&self) -> Result<()> {
        if !(self.lexical_weight.is_finite() && self.lexical_weight >= 0.0) {
            return Err(invalid_setting(format!(
                "the profile's lexical_weight is {}: give a number of at least 0",
                self.lexical_weight
            )));
        }
        if !(-1.0..1.0).contains(&self.cosine_floor) || !(1..=5).contains(&self.name_repeats) {
            return Err(invalid_setting(format!(
                "the profile has cosine_floor {} and name_repeats {}: give a cosine in [-1, 1) and \
                 1 to 5 repeats",
                self.cosine_floor, self.name_repeats
            )));
        }
        let ordered = -1.0 <= self.read
            && self.read <= self.write
            && self.write <= self.destructive
            && self.destructive <= 1.0;
        if !ordered {
            return Err(invalid_setting(format!(
                "the profile's thresholds are read {}, write {}, destructive {}: \
                 give cosines in [-1, 1] that do not fall in this order",
                self.read, self.write, self.destructive
            )));
        }
        Ok(())
    }
}
