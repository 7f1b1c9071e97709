//! What was fitted to one model.

use serde::{Deserialize, Serialize};

use crate::error::{Result, invalid_setting};

/// The numbers that belong to a model rather than to a catalog: how much the lexical arm weighs
/// beside its cosines, and which cosine is near enough to admit a tool.
///
/// A model folder carries them in its `toolrack.json` under `"profile"`; an embedder without one
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
    /// Weight of the normalised lexical score beside the cosine, at least 0.
    pub lexical_weight: f32,
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
        Self { lexical_weight: 0.2, read: 0.2, write: 0.25, destructive: 0.3, calibrated_on: None }
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
