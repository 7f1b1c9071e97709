//! Who may use what: the filter that comes before everything.

use serde::{Deserialize, Serialize};

use super::context::RuntimeContext;
use crate::catalog::{Condition, Snapshot, Tool};

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

/// In the order in which they are given.
const REASONS: [Ineligible; 9] = [
    Ineligible::Disabled,
    Ineligible::Namespace,
    Ineligible::NotAllowed,
    Ineligible::Environment,
    Ineligible::Scope,
    Ineligible::Role,
    Ineligible::Stage,
    Ineligible::Tenant,
    Ineligible::Flag,
];

/// Whether `context` may use `tool`; the first reason against it otherwise.
pub(crate) fn check(tool: &Tool, context: &RuntimeContext) -> Result<(), Ineligible> {
    let meets = |condition| meets(context, condition, tool);
    let stands = |reason: &Ineligible| match reason {
        Ineligible::Disabled => !meets(Condition::Enabled),
        Ineligible::Namespace => {
            context.namespaces.as_ref().is_some_and(|set| !set.contains(tool.namespace()))
        }
        Ineligible::NotAllowed => {
            context.tools.as_ref().is_some_and(|set| !set.contains(tool.id()))
        }
        Ineligible::Environment => !meets(Condition::Environments),
        Ineligible::Scope => !meets(Condition::Scopes),
        Ineligible::Role => !meets(Condition::Roles),
        Ineligible::Stage => !meets(Condition::Stages),
        Ineligible::Tenant => !meets(Condition::Tenants),
        Ineligible::Flag => !meets(Condition::Flags),
    };
    match REASONS.into_iter().find(stands) {
        None => Ok(()),
        Some(reason) => Err(reason),
    }
}

/// Whether `context` meets one condition of `tool`.
fn meets(context: &RuntimeContext, condition: Condition, tool: &Tool) -> bool {
    let policy = tool.policy();
    let one_of = |list: &[String], fact: Option<&String>| {
        list.is_empty() || fact.is_some_and(|fact| list.contains(fact))
    };
    match condition {
        Condition::Enabled => policy.enabled,
        Condition::Environments => one_of(&policy.environments, context.environment.as_ref()),
        Condition::Scopes => policy.scopes.iter().all(|scope| context.scopes.contains(scope)),
        Condition::Roles => {
            policy.roles.is_empty() || policy.roles.iter().any(|role| context.roles.contains(role))
        }
        Condition::Stages => one_of(&policy.stages, context.stage.as_ref()),
        Condition::Tenants => one_of(&policy.tenants, context.tenant.as_ref()),
        Condition::Flags => policy.flags.iter().all(|flag| context.flags.contains(flag)),
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
        let holds = |condition, row| meets(context, condition, snapshot.tool(row));
        let mut mask = snapshot.access().met(context.namespaces.as_ref(), holds);
        if let Some(tools) = &context.tools {
            let met = std::mem::replace(&mut mask, vec![false; snapshot.len()]);
            for row in tools.iter().filter_map(|id| snapshot.row(id)) {
                mask[row] = met[row];
            }
        }
        Self::of_mask(mask)
    }

    /// The rows of `self` that `keep` keeps too.
    pub(crate) fn and(&self, snapshot: &Snapshot, keep: impl Fn(&Tool) -> bool) -> Self {
        self.and_rows(snapshot.len(), |row| keep(snapshot.tool(row)))
    }

    /// The rows of `self`, of `len` rows in all, that `keep` keeps too.
    pub(crate) fn and_rows(&self, len: usize, keep: impl Fn(usize) -> bool) -> Self {
        Self::of_mask((0..len).map(|row| self.contains(row) && keep(row)).collect())
    }

    fn of_mask(mask: Vec<bool>) -> Self {
        let count = mask.iter().filter(|&&keep| keep).count();
        Self { mask: (count < mask.len()).then_some(mask), count }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::{btree_set, vec};
    use proptest::option;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::catalog::{Catalog, Listing, ToolPolicy};

    const WORDS: [&str; 3] = ["a", "b", "c"];

    /// Every condition by itself and tool by tool: what they have to come to together.
    fn naive(tool: &Tool, context: &RuntimeContext) -> Result<(), Ineligible> {
        let policy = tool.policy();
        let one_of = |list: &[String], fact: Option<&String>| {
            list.is_empty() || fact.is_some_and(|fact| list.contains(fact))
        };
        let (namespaces, tools) = (context.namespaces.as_ref(), context.tools.as_ref());
        let any_role = policy.roles.iter().any(|role| context.roles.contains(role));
        let conditions = [
            (policy.enabled, Ineligible::Disabled),
            (namespaces.is_none_or(|set| set.contains(tool.namespace())), Ineligible::Namespace),
            (tools.is_none_or(|set| set.contains(tool.id())), Ineligible::NotAllowed),
            (one_of(&policy.environments, context.environment.as_ref()), Ineligible::Environment),
            (policy.scopes.iter().all(|one| context.scopes.contains(one)), Ineligible::Scope),
            (policy.roles.is_empty() || any_role, Ineligible::Role),
            (one_of(&policy.stages, context.stage.as_ref()), Ineligible::Stage),
            (one_of(&policy.tenants, context.tenant.as_ref()), Ineligible::Tenant),
            (policy.flags.iter().all(|one| context.flags.contains(one)), Ineligible::Flag),
        ];
        match conditions.into_iter().find(|(holds, _)| !holds) {
            None => Ok(()),
            Some((_, reason)) => Err(reason),
        }
    }

    fn word() -> impl Strategy<Value = String> {
        select(&WORDS[..]).prop_map(str::to_owned)
    }

    fn words() -> impl Strategy<Value = Vec<String>> {
        prop_oneof![2 => Just(Vec::new()), 1 => vec(word(), 1..3)]
    }

    fn policy() -> impl Strategy<Value = ToolPolicy> {
        let enabled = prop::bool::weighted(0.9);
        (enabled, words(), words(), words(), words(), words(), words()).prop_map(
            |(enabled, environments, scopes, roles, stages, tenants, flags)| ToolPolicy {
                enabled,
                environments,
                scopes,
                roles,
                stages,
                tenants,
                flags,
                ..ToolPolicy::default()
            },
        )
    }

    fn catalog_of(policies: &[(String, ToolPolicy)]) -> Listing {
        let tools = policies.iter().enumerate().map(|(number, (namespace, policy))| {
            let tool = Tool::builder(format!("t{number}"));
            tool.namespace(namespace).policy(policy.clone()).build().unwrap()
        });
        Listing::from_tools(tools.collect::<Vec<_>>())
    }

    fn context() -> impl Strategy<Value = RuntimeContext> {
        let facts = || btree_set(word(), 0..3);
        let number = 0_usize..14;
        let listed = btree_set((word(), number), 0..30).prop_map(|ids| -> BTreeSet<_> {
            ids.iter().map(|(space, n)| format!("{space}/t{n}").parse().unwrap()).collect()
        });
        (
            (facts(), facts(), facts()),
            (option::of(word()), option::of(word()), option::of(word())),
            option::weighted(0.3, facts()),
            option::weighted(0.3, listed),
        )
            .prop_map(
                |((scopes, roles, flags), (stage, environment, tenant), namespaces, tools)| {
                    RuntimeContext {
                        scopes,
                        roles,
                        stage,
                        environment,
                        tenant,
                        flags,
                        namespaces,
                        tools,
                    }
                },
            )
    }

    fn same(snapshot: &Snapshot, context: &RuntimeContext) -> Result<(), TestCaseError> {
        let eligible = Eligible::of(snapshot, context);
        let mut count = 0;
        for (row, tool) in snapshot.tools().enumerate() {
            let expected = naive(tool, context);
            prop_assert_eq!(check(tool, context), expected);
            prop_assert_eq!(eligible.contains(row), expected.is_ok());
            count += usize::from(expected.is_ok());
        }
        prop_assert_eq!(eligible.count(), count);
        prop_assert_eq!(eligible.mask().is_none(), count == snapshot.len());
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        #[test]
        fn conditions_come_to_what_every_tool_by_itself_does(
            before in vec((word(), policy()), 1..12),
            after in vec((word(), policy()), 1..12),
            context in context(),
        ) {
            let catalog = Catalog::from_listing("s", catalog_of(&before)).unwrap();
            same(&catalog.snapshot(), &context)?;
            // The policies change, and what is asked next goes by the new ones.
            catalog.refresh("s", catalog_of(&after)).unwrap();
            same(&catalog.snapshot(), &context)?;
        }
    }
}
