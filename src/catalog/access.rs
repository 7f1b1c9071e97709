//! The conditions of use of a snapshot's tools, each one once.

use std::collections::{BTreeSet, HashMap};

use super::tool::Tool;

/// What a caller may have to meet, besides that a namespace is approved and a tool listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Condition {
    /// The tool is switched on, which no caller can change.
    Enabled,
    Environments,
    Scopes,
    Roles,
    Stages,
    Tenants,
    Flags,
}

impl Condition {
    const ALL: [Self; 7] = [
        Self::Enabled,
        Self::Environments,
        Self::Scopes,
        Self::Roles,
        Self::Stages,
        Self::Tenants,
        Self::Flags,
    ];

    /// What `tool` asks for in this respect; `None` when everybody meets it.
    fn of(self, tool: &Tool) -> Option<Vec<&str>> {
        let policy = tool.policy();
        let list = match self {
            Self::Enabled => return (!policy.enabled).then(Vec::new),
            Self::Environments => &policy.environments,
            Self::Scopes => &policy.scopes,
            Self::Roles => &policy.roles,
            Self::Stages => &policy.stages,
            Self::Tenants => &policy.tenants,
            Self::Flags => &policy.flags,
        };
        (!list.is_empty()).then(|| list.iter().map(String::as_str).collect())
    }
}

/// The conditions of all tools of a snapshot, so that a caller is held against each of them once
/// and not once a tool.
///
/// It belongs to one snapshot and is as immutable: a policy that changes comes with the next
/// snapshot and conditions of its own, so that there is nothing that has to be thrown away in time.
#[derive(Debug, Default)]
pub(crate) struct Access {
    /// The namespaces in order, one after another, and where each one ends: read in one go.
    namespaces: String,
    namespace_ends: Vec<usize>,
    namespace_of: Vec<u32>,
    /// Each condition and the first row that has it.
    conditions: Vec<(Condition, usize)>,
    /// Conditions that some tools have together, by their places, one group after another.
    groups: Vec<u32>,
    /// Where each group ends.
    ends: Vec<usize>,
    group_of: Vec<u32>,
}

impl Access {
    pub(super) fn of<'a>(tools: impl Iterator<Item = &'a Tool> + Clone) -> Self {
        let namespaces: BTreeSet<&str> = tools.clone().map(Tool::namespace).collect();
        let namespace_places: HashMap<&str, u32> = namespaces.iter().copied().zip(0..).collect();
        let mut access = Self::default();
        for namespace in namespaces {
            access.namespaces += namespace;
            access.namespace_ends.push(access.namespaces.len());
        }
        let (mut places, mut group_places) = (HashMap::new(), HashMap::new());
        for (row, tool) in tools.enumerate() {
            access.namespace_of.push(namespace_places[tool.namespace()]);
            let mut group = Vec::new();
            for condition in Condition::ALL {
                let Some(asked) = condition.of(tool) else { continue };
                let place = *places.entry((condition, asked)).or_insert(access.conditions.len());
                if place == access.conditions.len() {
                    access.conditions.push((condition, row));
                }
                group.push(place as u32);
            }
            let next = access.ends.len() as u32;
            let place = *group_places.entry(group.clone()).or_insert(next);
            if place == next {
                access.groups.append(&mut group);
                access.ends.push(access.groups.len());
            }
            access.group_of.push(place);
        }
        access
    }

    /// For each row, whether all of its conditions hold and its namespace is approved, every one
    /// being so if there is no list; `holds` is asked with a row that has the condition.
    ///
    /// Complexity: O(distinct conditions) calls, O(rows + namespaces) time.
    pub(crate) fn met(
        &self,
        approved: Option<&BTreeSet<String>>,
        holds: impl Fn(Condition, usize) -> bool,
    ) -> Vec<bool> {
        let held: Vec<bool> =
            self.conditions.iter().map(|&(condition, row)| holds(condition, row)).collect();
        let mut start = 0;
        let groups: Vec<bool> = self
            .ends
            .iter()
            .map(|&end| {
                let group = &self.groups[start..end];
                start = end;
                group.iter().all(|&place| held[place as usize])
            })
            .collect();
        let namespaces = self.approved(approved);
        self.group_of
            .iter()
            .zip(&self.namespace_of)
            .map(|(&group, &namespace)| groups[group as usize] && namespaces[namespace as usize])
            .collect()
    }

    /// For each namespace, whether it is in the list. Both are sorted, so each is read once.
    fn approved(&self, list: Option<&BTreeSet<String>>) -> Vec<bool> {
        let Some(list) = list else { return vec![true; self.namespace_ends.len()] };
        let mut list = list.iter().peekable();
        let mut start = 0;
        let mut is_listed = |&end: &usize| {
            let namespace = &self.namespaces[start..end];
            start = end;
            while list.next_if(|listed| listed.as_str() < namespace).is_some() {}
            list.peek().is_some_and(|listed| *listed == namespace)
        };
        self.namespace_ends.iter().map(&mut is_listed).collect()
    }
}
