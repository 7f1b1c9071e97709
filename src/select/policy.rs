//! Who may use what: the filter that comes before everything.

use serde::{Deserialize, Serialize};

use super::context::RuntimeContext;
use crate::catalog::{Snapshot, Tool};

/// Why a tool is out of reach of a caller.
///
/// For the operator only: what a model or a user sees never tells a hidden tool from a missing one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Ineligible {
    /// Switched off.
    Disabled,
    /// Its namespace is not approved.
    Namespace,
    /// It is not on the allow-list.
    NotAllowed,
    /// It belongs to other environments.
    Environment,
    /// A scope is missing.
    Scope,
    /// No role fits.
    Role,
    /// It belongs to other stages.
    Stage,
    /// It belongs to other tenants.
    Tenant,
    /// A feature flag is off.
    Flag,
}

/// Whether `context` may use `tool`; the first reason against it otherwise.
pub(crate) fn check(tool: &Tool, context: &RuntimeContext) -> Result<(), Ineligible> {
    let policy = tool.policy();
    let one_of = |list: &[String], fact: Option<&String>| {
        list.is_empty() || fact.is_some_and(|fact| list.contains(fact))
    };
    let conditions = [
        (policy.enabled, Ineligible::Disabled),
        (
            context.namespaces.as_ref().is_none_or(|set| set.contains(tool.namespace())),
            Ineligible::Namespace,
        ),
        (context.tools.as_ref().is_none_or(|set| set.contains(tool.id())), Ineligible::NotAllowed),
        (one_of(&policy.environments, context.environment.as_ref()), Ineligible::Environment),
        (policy.scopes.iter().all(|scope| context.scopes.contains(scope)), Ineligible::Scope),
        (
            policy.roles.is_empty() || policy.roles.iter().any(|role| context.roles.contains(role)),
            Ineligible::Role,
        ),
        (one_of(&policy.stages, context.stage.as_ref()), Ineligible::Stage),
        (one_of(&policy.tenants, context.tenant.as_ref()), Ineligible::Tenant),
        (policy.flags.iter().all(|flag| context.flags.contains(flag)), Ineligible::Flag),
    ];
    match conditions.into_iter().find(|(holds, _)| !holds) {
        None => Ok(()),
        Some((_, reason)) => Err(reason),
    }
}

/// The eligible rows of one snapshot for one caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Eligible {
    /// `None` when every row is.
    mask: Option<Vec<bool>>,
    count: usize,
}

impl Eligible {
    pub(crate) fn of(snapshot: &Snapshot, context: &RuntimeContext) -> Self {
        let restricts = context.namespaces.is_some() || context.tools.is_some();
        if !restricts && !snapshot.has_restricted_tools() {
            return Self { mask: None, count: snapshot.len() };
        }
        Self::filter(snapshot, |tool| check(tool, context).is_ok())
    }

    pub(crate) fn filter(snapshot: &Snapshot, keep: impl Fn(&Tool) -> bool) -> Self {
        let mask: Vec<bool> = snapshot.tools().map(keep).collect();
        let count = mask.iter().filter(|&&keep| keep).count();
        Self { mask: (count < mask.len()).then_some(mask), count }
    }

    /// The rows of `self` that `keep` keeps too.
    pub(crate) fn and(&self, snapshot: &Snapshot, keep: impl Fn(&Tool) -> bool) -> Self {
        self.and_rows(snapshot.len(), |row| keep(snapshot.tool(row)))
    }

    /// The rows of `self`, of `len` rows in all, that `keep` keeps too.
    pub(crate) fn and_rows(&self, len: usize, keep: impl Fn(usize) -> bool) -> Self {
        let rows: Vec<bool> = (0..len).map(|row| self.contains(row) && keep(row)).collect();
        let count = rows.iter().filter(|&&keep| keep).count();
        Self { mask: (count < rows.len()).then_some(rows), count }
    }

    /// The rows of `self` but `row`, of `len` rows in all.
    pub(crate) fn without(mut self, row: usize, len: usize) -> Self {
        if self.contains(row) {
            self.mask.get_or_insert_with(|| vec![true; len])[row] = false;
            self.count -= 1;
        }
        self
    }

    pub(crate) fn contains(&self, row: usize) -> bool {
        self.mask.as_ref().is_none_or(|mask| mask[row])
    }

    pub(crate) fn mask(&self) -> Option<&[bool]> {
        self.mask.as_deref()
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }
}
