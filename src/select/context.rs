//! What is known of the caller, from trusted sources only.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::catalog::ToolId;

/// Trusted facts of the caller that decide which tools it may use.
///
/// Fill it from authentication and configuration, never from text of a user or a model. The default
/// context has no facts: it may use every tool that asks for none.
///
/// # Example: an empty allow-list allows nothing
/// ```
/// use toolrack::{Catalog, Engine, RuntimeContext, SelectRequest};
///
/// let catalog = Catalog::parse(r#"[{"name": "wipe_disk"}, {"name": "read_file"}]"#)?;
/// let engine = Engine::builder(catalog).build()?;
/// let nobody = RuntimeContext::default().allow_tools([]);
/// let selection = engine.select(&SelectRequest::new("read a file").context(nobody))?;
/// assert!(selection.candidates.is_empty());
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RuntimeContext {
    /// Scopes that were granted.
    pub scopes: BTreeSet<String>,
    /// Roles of the caller.
    pub roles: BTreeSet<String>,
    /// Stage of the run.
    pub stage: Option<String>,
    /// Environment the run acts upon.
    pub environment: Option<String>,
    /// Tenant the caller belongs to.
    pub tenant: Option<String>,
    /// Feature flags that are on.
    pub flags: BTreeSet<String>,
    /// Approved namespaces, a provider's (`openai`) for its built-in tools; `None` approves all, an
    /// empty set none.
    pub namespaces: Option<BTreeSet<String>>,
    /// Allowed tools, built-in ones ([`Builtin::id`](crate::Builtin::id)) among them; `None` allows
    /// all, an empty set none.
    pub tools: Option<BTreeSet<ToolId>>,
}

impl RuntimeContext {
    /// Sets the granted scopes.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the caller's roles.
    #[must_use]
    pub fn roles<S: Into<String>>(mut self, roles: impl IntoIterator<Item = S>) -> Self {
        self.roles = roles.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the stage of the run.
    #[must_use]
    pub fn stage(mut self, stage: impl Into<String>) -> Self {
        self.stage = Some(stage.into());
        self
    }

    /// Sets the environment.
    #[must_use]
    pub fn environment(mut self, environment: impl Into<String>) -> Self {
        self.environment = Some(environment.into());
        self
    }

    /// Sets the tenant.
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// Sets the feature flags that are on.
    #[must_use]
    pub fn flags<S: Into<String>>(mut self, flags: impl IntoIterator<Item = S>) -> Self {
        self.flags = flags.into_iter().map(Into::into).collect();
        self
    }

    /// Approves only these namespaces; an empty list approves none.
    #[must_use]
    pub fn approve_namespaces<S: Into<String>>(
        mut self,
        namespaces: impl IntoIterator<Item = S>,
    ) -> Self {
        self.namespaces = Some(namespaces.into_iter().map(Into::into).collect());
        self
    }

    /// Allows only these tools; an empty list allows none.
    #[must_use]
    pub fn allow_tools(mut self, tools: impl IntoIterator<Item = ToolId>) -> Self {
        self.tools = Some(tools.into_iter().collect());
        self
    }

    /// Whether the lists, as far as there are any, have the tool.
    pub(crate) fn names(&self, id: &ToolId) -> bool {
        self.namespaces.as_ref().is_none_or(|list| list.contains(id.namespace()))
            && self.tools.as_ref().is_none_or(|list| list.contains(id))
    }
}
