//! A run that can be stored.

use serde::{Deserialize, Serialize};

use crate::catalog::ToolId;
use crate::select::Message;
use crate::working_set::WorkingSetState;

/// Version of the stored form.
pub(crate) const FORMAT: u32 = 1;

/// What a [`Session`](crate::Session) remembers, to be stored with serde and restored with
/// [`Engine::restore`](crate::Engine::restore).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionState {
    /// Version of this form.
    pub format: u32,
    /// Version of the catalog when it was stored.
    pub catalog_version: u64,
    /// Whether the catalog is shown whole.
    pub pass_through: bool,
    /// The working set.
    pub working_set: WorkingSetState,
    /// The last messages, oldest first.
    pub recent: Vec<Message>,
    /// Searches and what they found.
    pub searches: Vec<(String, Vec<ToolId>)>,
    /// Tools whose definition the model was given in a reply.
    pub briefed: Vec<ToolId>,
    /// Tools that are in the list but were not shown to the model yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<ToolId>,
    /// Tools whose definition of now the model was given in a reply, while the list has an older one
    /// or none, with the digest of their parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<(ToolId, String)>,
}

/// What became of a restored state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RestoreReport {
    /// Version of the catalog when the state was stored.
    pub stored_version: u64,
    /// Version of the catalog now.
    pub current_version: u64,
    /// Tools of the state that are gone, may no longer be used, or no longer fit.
    pub left_out: Vec<ToolId>,
    /// Core tools of the options that do not stand for a tool now, as they were written. They come
    /// back when the catalog lists them.
    pub missing_core: Vec<String>,
}
