//! What a step changed in the visible list, and why.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::catalog::ToolId;

/// Why a tool came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AdmitReason {
    /// It fits the request of this turn.
    Retrieved,
    /// The model asked for it through `find_tool`.
    Found,
    /// The model called it without having been shown it.
    Called,
    /// The runtime pinned it.
    Pinned,
    /// The catalog lists it now: a core tool that is back, and any new tool when the catalog is shown
    /// whole.
    Listed,
}

/// Why a tool went out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "why")]
#[non_exhaustive]
pub enum EvictReason {
    /// It was not wanted for this many steps.
    Stale {
        /// Steps since it was last called, found or retrieved.
        idle: u64,
    },
    /// Room was needed, and it was the one least recently wanted.
    LeastRecent,
    /// The runtime released it.
    Released,
    /// It left the catalog, or the caller may no longer use it.
    Gone,
    /// The catalog outgrew the limits under which it is shown whole.
    Outgrown,
}

/// Why a tool did not come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RefuseReason {
    /// The tool limit is reached and nothing may be evicted for it.
    ToolLimit,
    /// The token budget is used up and nothing may be evicted for it.
    TokenBudget,
}

/// What one step changed.
///
/// An empty delta means that the visible list is byte for byte what it was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Delta {
    /// Tools that came in, in the order they came.
    pub admitted: Vec<(ToolId, AdmitReason)>,
    /// Tools that went out, in the order they went.
    pub evicted: Vec<(ToolId, EvictReason)>,
    /// Tools that would have come in, in the order asked.
    pub refused: Vec<(ToolId, RefuseReason)>,
    /// Visible tools that were wanted again. They keep their place.
    pub touched: Vec<ToolId>,
    /// Whether the list changed other than at its end, which ends the provider's cached prefix.
    pub new_epoch: bool,
}

impl Delta {
    /// Whether the visible list changed.
    pub fn changes_list(&self) -> bool {
        !self.admitted.is_empty() || !self.evicted.is_empty() || self.new_epoch
    }

    /// Takes in what a later part of the same step changed.
    pub(crate) fn extend(&mut self, later: Self) {
        self.admitted.extend(later.admitted);
        self.evicted.extend(later.evicted);
        self.refused.extend(later.refused);
        self.touched.extend(later.touched);
        self.new_epoch |= later.new_epoch;
    }
}

impl fmt::Display for Delta {
    /// One line a change, nothing when nothing changed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (id, why) in &self.admitted {
            let why = match why {
                AdmitReason::Retrieved => "fits the request",
                AdmitReason::Found => "found by the model",
                AdmitReason::Called => "called by the model",
                AdmitReason::Pinned => "pinned",
                AdmitReason::Listed => "new in the catalog",
            };
            writeln!(f, "+ {id} ({why})")?;
        }
        for (id, why) in &self.evicted {
            match why {
                EvictReason::Stale { idle } => writeln!(f, "- {id} (not wanted for {idle} steps)")?,
                EvictReason::LeastRecent => writeln!(f, "- {id} (least recently wanted)")?,
                EvictReason::Released => writeln!(f, "- {id} (released)")?,
                EvictReason::Gone => writeln!(f, "- {id} (no longer available)")?,
                EvictReason::Outgrown => writeln!(f, "- {id} (the catalog is too large to show)")?,
            }
        }
        for (id, why) in &self.refused {
            let why = match why {
                RefuseReason::ToolLimit => "the tool limit is reached",
                RefuseReason::TokenBudget => "the token budget is used up",
            };
            writeln!(f, "! {id} not loaded ({why})")?;
        }
        Ok(())
    }
}
