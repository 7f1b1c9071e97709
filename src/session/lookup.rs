//! What a run may look up without loading it: the page of all tools, the notice, definitions.

use super::find_tool::{Definition, FindRequest};
use super::{Session, slot};
use crate::catalog::MAX_ALIKE;
use crate::index::definition_text;
use crate::select::{Budget, Detail, Outline, groups};
use crate::working_set::{Delta, Slot};

/// Groups that a notice counts up.
const MAX_GROUPS: usize = 20;
/// Begins and ends a notice, so that it can be found and replaced.
const OPEN: &str = "<deferred_tools>";
const CLOSE: &str = "</deferred_tools>";

impl Session {
    /// What the run was set up with but cannot have, in words for the operator.
    ///
    /// A tool of the catalog that is called like the meta-tool is out of reach of the run: it is
    /// neither listed nor found, and a call of that name is the meta-tool's.
    ///
    /// # Example
    /// ```
    /// use toolrack::{Catalog, Engine, SessionOptions};
    ///
    /// let catalog = Catalog::parse(r#"[{"name": "tool_search"}, {"name": "add"}]"#)?;
    /// let run = Engine::builder(catalog).build()?
    ///     .session(SessionOptions::default().meta_tool("tool_search"))?;
    /// assert_eq!(run.visible().names().collect::<Vec<_>>(), ["add"]);
    /// assert_eq!(
    ///     run.warnings(),
    ///     ["tool default/tool_search is called 'tool_search' like the meta-tool and was left out: \
    ///       give the meta-tool another name or the tool a namespace"],
    /// );
    /// # Ok::<(), toolrack::Error>(())
    /// ```
    pub fn warnings(&self) -> Vec<String> {
        let snapshot = &self.index.snapshot;
        let name = &self.meta.name;
        let tool = snapshot.names().by_provider(name).map(|row| {
            format!(
                "tool {} is called '{name}' like the meta-tool and was left out: give the \
                 meta-tool another name or the tool a namespace",
                snapshot.tool(row).id(),
            )
        });
        let builtins = snapshot.builtins().filter(|builtin| {
            builtin.name() == Some(name) && self.options.context.names(builtin.id())
        });
        let builtins = builtins.map(|_| {
            format!(
                "a built-in tool is called '{name}' like the meta-tool and was left out: give the \
                 meta-tool another name"
            )
        });
        tool.into_iter().chain(builtins).collect()
    }

    /// All tools that the run may use, on one page.
    pub fn outline(&self, most: Detail, budget: Budget) -> Outline {
        let counter = self.engine.token_counter();
        Outline::of(&self.index.snapshot, &self.eligible, most, budget, counter)
    }

    /// What the model should be told once, in its system prompt: that most tools are not loaded and
    /// how to get at them. `None` when nothing is deferred.
    ///
    /// It depends on the catalog, the caller and the options alone, not on what is loaded just now,
    /// so it can stay where it is while the working set changes.
    ///
    /// # Example
    /// ```
    /// use toolrack::{Catalog, Engine, SessionOptions};
    ///
    /// let catalog = Catalog::parse(
    ///     r#"[{"name": "add", "namespace": "math", "description": "Add numbers."},
    ///         {"name": "mail", "description": "Send a mail. To anybody."}]"#)?;
    /// let engine = Engine::builder(catalog).build()?;
    /// assert_eq!(engine.session(SessionOptions::default())?.notice(), None);
    ///
    /// let run = engine.session(SessionOptions::default().limit(1).compressed(100))?;
    /// let notice = run.notice().unwrap();
    /// assert!(notice.contains("2 tools") && notice.contains("mail: Send a mail.\n"));
    /// let system = run.with_notice("You are a clerk.");
    /// assert_eq!(run.with_notice(&system), system);
    /// # Ok::<(), toolrack::Error>(())
    /// ```
    pub fn notice(&self) -> Option<String> {
        let snapshot = &self.index.snapshot;
        let may = |row: usize| self.eligible.contains(row);
        let names = snapshot.names();
        let pinned = self.options.pinned.iter().flat_map(|name| names.resolve(name, &may));
        let resident: Vec<usize> =
            self.set.core().filter_map(|id| snapshot.row(id)).chain(pinned).collect();
        let deferred: Vec<usize> =
            (0..snapshot.len()).filter(|row| may(*row) && !resident.contains(row)).collect();
        if !self.lists_meta_tool() || deferred.is_empty() {
            return None;
        }
        let name = &self.meta.name;
        let budget = self.options.compressed.map(Budget::Tokens);
        let page = budget.map(|budget| self.outline(Detail::Sentences, budget).text);
        let mut lines = vec![format!(
            "Most tools are not loaded: your tool list holds only some of them. {} tools can be \
             loaded. When none in your list does what is needed, call {name} with what you want to \
             do, before you say that it cannot be done.",
            deferred.len()
        )];
        match page.filter(|page| !page.is_empty()) {
            Some(page) => {
                lines.push(format!(
                    "These tools exist. Call {name} with 'describe' to read a definition before \
                     you call a tool that is not in your list:"
                ));
                lines.push(page);
            }
            None => {
                let groups = groups(snapshot, &deferred);
                let mut shown: Vec<String> = groups
                    .iter()
                    .take(MAX_GROUPS)
                    .map(|(name, tools)| format!("{name} ({tools})"))
                    .collect();
                if groups.len() > MAX_GROUPS {
                    shown.push(format!("{} more", groups.len() - MAX_GROUPS));
                }
                lines.push(format!("Where they belong: {}.", shown.join(", ")));
            }
        }
        // A tool's own words must not end the notice before its end.
        let body = lines.join("\n").replace(OPEN, "&lt;deferred_tools>");
        let body = body.replace(CLOSE, "&lt;/deferred_tools>");
        Some(format!("{OPEN}\n{body}\n{CLOSE}"))
    }

    /// `system_prompt` with the [`notice`](Self::notice) at its end, once: a notice that is there is
    /// replaced, and taken out when nothing is deferred any more.
    pub fn with_notice(&self, system_prompt: &str) -> String {
        let old = system_prompt.find(OPEN).and_then(|start| {
            let end = system_prompt[start..].find(CLOSE)? + start + CLOSE.len();
            Some(start..end)
        });
        match (old, self.notice()) {
            (Some(place), Some(notice)) => {
                let mut prompt = system_prompt.to_owned();
                prompt.replace_range(place, &notice);
                prompt
            }
            (Some(place), None) => {
                let (head, tail) = (&system_prompt[..place.start], &system_prompt[place.end..]);
                format!("{}{tail}", head.trim_end_matches('\n'))
            }
            (None, Some(notice)) if system_prompt.trim().is_empty() => notice,
            (None, Some(notice)) => format!("{}\n\n{notice}", system_prompt.trim_end()),
            (None, None) => system_prompt.to_owned(),
        }
    }

    /// Names of the tools that are not in the list but may be loaded, in catalog order.
    pub(super) fn loadable(&self) -> Vec<String> {
        let snapshot = &self.index.snapshot;
        (0..snapshot.len())
            .filter(|&row| self.eligible.contains(row))
            .filter(|&row| !self.is_visible(snapshot.tool(row).id()))
            .map(|row| snapshot.names().provider_name(row).to_owned())
            .collect()
    }

    /// The rows that `name` stands for, within the namespace that `request` asks for.
    pub(super) fn asked_for(&self, request: &FindRequest, name: &str) -> Vec<usize> {
        let snapshot = &self.index.snapshot;
        let asked = request.namespace.as_ref();
        let offered = |row: usize| {
            self.eligible.contains(row)
                && asked.is_none_or(|asked| snapshot.tool(row).namespace() == asked)
        };
        match request.exact {
            true => snapshot.names().exact(name, &offered),
            false => snapshot.names().resolve(name, &offered),
        }
    }

    /// The definitions of tools that are asked for by name.
    pub(super) fn definitions(&self, request: &FindRequest) -> Vec<Definition> {
        let snapshot = &self.index.snapshot;
        let meant = request.describe.iter().map(|name| self.asked_for(request, name));
        let rows = meant.filter(|rows| rows.len() <= MAX_ALIKE).flatten();
        let mut definitions: Vec<Definition> = Vec::new();
        for row in rows {
            let tool = snapshot.tool(row);
            if definitions.iter().all(|known| known.id != *tool.id()) {
                let name = snapshot.names().provider_name(row);
                let json = definition_text(name, tool.description(), tool.parameters());
                definitions.push(Definition { id: tool.id().clone(), json });
            }
        }
        definitions
    }

    /// Notes that the model is told these definitions: it may call the tools from its next message on.
    pub(super) fn brief(&mut self, definitions: &[Definition]) {
        for definition in definitions {
            if !self.briefed.contains(&definition.id) {
                if !self.is_visible(&definition.id) {
                    self.unseen.add(definition.id.clone());
                }
                self.briefed.push(definition.id.clone());
            }
        }
    }

    /// Pins those of `found` that are in the list; what there is no room for stays as it is.
    pub(super) fn pin_what_is_visible<'a>(
        &mut self,
        found: impl Iterator<Item = &'a Slot>,
        delta: &mut Delta,
    ) {
        let rows: Vec<usize> = found.filter_map(|slot| self.index.snapshot.row(&slot.id)).collect();
        for row in rows {
            let slot = slot(&self.index, row);
            if self.set.contains(&slot.id)
                && let Ok(change) = self.set.pin(slot)
            {
                delta.extend(change);
            }
        }
    }
}
