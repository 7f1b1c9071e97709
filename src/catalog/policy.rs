//! What a tool's owner says of who may use it, when, and what it can break.

use serde::{Deserialize, Serialize};

/// What a call of a tool can do to the world.
///
/// The order is the order of danger: `Read < Write < Destructive`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Risk {
    /// Changes nothing. The default.
    #[default]
    Read,
    /// Changes or creates something.
    Write,
    /// Removes or overwrites something that cannot be brought back.
    Destructive,
}

impl Risk {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Policy metadata of one tool. All lists are empty by default, which restricts nothing.
///
/// Every condition has to hold for a tool to be eligible; what a caller brings is its
/// [`RuntimeContext`](crate::RuntimeContext). An unknown fact (no stage, no environment) meets no
/// restriction that asks for one. A stored policy with a field that is not one of these is refused: a
/// misspelt restriction must not become none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ToolPolicy {
    /// `false` takes the tool out for everybody.
    pub enabled: bool,
    /// Environments in which it may be used (`production`, `staging`, ...).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub environments: Vec<String>,
    /// Scopes the caller needs, all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Roles of which the caller needs at least one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// Stages of a run in which it may be used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<String>,
    /// Tenants that may use it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<String>,
    /// Feature flags that have to be on, all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// What a call can do. The default is not written: it may be that nobody said so.
    #[serde(skip_serializing_if = "Risk::is_default")]
    pub risk: Risk,
    /// Version of the tool, as its owner counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where the tool comes from: a server, a file, a team.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl Default for ToolPolicy {
    fn default() -> Self {
        Self {
            enabled: true,
            environments: Vec::new(),
            scopes: Vec::new(),
            roles: Vec::new(),
            stages: Vec::new(),
            tenants: Vec::new(),
            flags: Vec::new(),
            risk: Risk::Read,
            version: None,
            source: None,
        }
    }
}

impl ToolPolicy {
    /// Whether the policy can keep anybody out.
    pub fn is_restricted(&self) -> bool {
        let lists = [
            &self.environments,
            &self.scopes,
            &self.roles,
            &self.stages,
            &self.tenants,
            &self.flags,
        ];
        !self.enabled || lists.iter().any(|list| !list.is_empty())
    }
}
