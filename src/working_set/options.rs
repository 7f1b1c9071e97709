//! Limits of a working set.

use serde::{Deserialize, Serialize};

use crate::error::{Result, invalid_setting};
use crate::text::TokenCount;

/// When tools that are no longer wanted leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Timing {
    /// At the end of an epoch, or when a limit would be passed: between them the list only grows
    /// and the provider's prompt cache stays warm. The default.
    #[default]
    Epoch,
    /// At once, as the textbook working set has it: the smallest list at every step.
    Immediate,
}

/// In which order the tools that came in are listed, after core tools and the meta-tool.
///
/// Both orders depend on nothing but what is in the list and how it got there: never on scores or on
/// a hash map.
///
/// # Example
/// ```
/// use toolrack::{ListOrder, Slot, ToolId, WorkingSet, WorkingSetOptions};
///
/// let slot = |name: &str| Slot { id: ToolId::new("demo", name).unwrap(), tokens: 100 };
/// let mut set = WorkingSet::new(WorkingSetOptions::default().order(ListOrder::Name), vec![], 0)?;
/// set.observe(&[slot("zip"), slot("add")], &[]);
/// let names: Vec<_> = set.visible().map(|id| id.name().to_owned()).collect();
/// assert_eq!(names, ["add", "zip"]);
/// // What is listed before others ends the provider's cached prefix.
/// assert!(set.admit_found(&[slot("mail")]).new_epoch);
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ListOrder {
    /// In the order in which they came in: the list grows at its end only. The default.
    #[default]
    Admission,
    /// By the name that the model sees, byte by byte: the same tools are the same list, however
    /// they came in. A tool that comes in among others ends the epoch.
    Name,
}

/// Limits and timing of a [`WorkingSet`](super::WorkingSet).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct WorkingSetOptions {
    /// The most tools that are visible at once, core and pins included; at least 1. Default 20.
    pub limit: usize,
    /// The most tokens that the visible definitions take, the meta-tool's included; none by
    /// default.
    pub token_budget: Option<TokenCount>,
    /// When tools leave.
    pub timing: Timing,
    /// Steps for which a tool may go unwanted before it is stale. Default 6.
    pub stale_after: u64,
    /// In which order the tools that came in are listed.
    pub order: ListOrder,
}

impl Default for WorkingSetOptions {
    fn default() -> Self {
        Self {
            limit: 20,
            token_budget: None,
            timing: Timing::Epoch,
            stale_after: 6,
            order: ListOrder::Admission,
        }
    }
}

impl WorkingSetOptions {
    /// Sets the most tools that are visible at once.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the most tokens that the visible definitions take.
    #[must_use]
    pub fn token_budget(mut self, tokens: TokenCount) -> Self {
        self.token_budget = Some(tokens);
        self
    }

    /// Sets when tools leave.
    #[must_use]
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// Sets for how many steps a tool may go unwanted.
    #[must_use]
    pub fn stale_after(mut self, steps: u64) -> Self {
        self.stale_after = steps;
        self
    }

    /// Sets in which order the tools that came in are listed.
    #[must_use]
    pub fn order(mut self, order: ListOrder) -> Self {
        self.order = order;
        self
    }

    pub(crate) fn validate(&self) -> Result<()> {
        if self.limit == 0 {
            return Err(invalid_setting("the tool limit is 0: allow at least one tool"));
        }
        if self.token_budget == Some(0) {
            return Err(invalid_setting("the token budget is 0: allow some tokens or set none"));
        }
        Ok(())
    }
}
