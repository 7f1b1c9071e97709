//! How much the parts of a tool's text weigh.

use serde::{Deserialize, Serialize};

use crate::error::{Result, invalid_setting};

/// How often each field's terms count in the lexical arm.
///
/// # Example
/// ```
/// use toolrack::FieldWeights;
///
/// let weights = FieldWeights::default();
/// assert!(weights.name > weights.description);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct FieldWeights {
    /// Name, title and aliases.
    pub name: u32,
    /// Names, descriptions and enum values of parameters.
    pub parameters: u32,
    /// Namespace and tags.
    pub namespace: u32,
    /// Description and example requests.
    pub description: u32,
}

impl Default for FieldWeights {
    fn default() -> Self {
        Self { name: 3, parameters: 1, namespace: 1, description: 1 }
    }
}

impl FieldWeights {
    /// Every weight at most this: the index grows with the weights.
    const MAX: u32 = 20;

    pub(crate) fn validate(&self) -> Result<()> {
        let all = [self.name, self.parameters, self.namespace, self.description];
        if all.iter().all(|&weight| weight == 0) || all.iter().any(|&weight| weight > Self::MAX) {
            return Err(invalid_setting(format!(
                "the field weights are {all:?}: give numbers of 0 to {}, at least one above 0",
                Self::MAX
            )));
        }
        Ok(())
    }
}
