//! How a run is set up.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Result, invalid_setting};
use crate::select::{Fallback, IntentRules, RuntimeContext, check_ratio, table_or_name};
use crate::text::TokenCount;
use crate::working_set::{ListOrder, Timing, WorkingSetOptions};

/// Name of the meta-tool unless another is set.
pub const FIND_TOOL: &str = "find_tool";

/// Options of a [`Session`](crate::Session).
///
/// # Example
/// ```
/// use toolrack::SessionOptions;
///
/// let options = SessionOptions::default().core(["read_state"]).limit(12).token_budget(4_000);
/// assert_eq!(options.working_set.limit, 12);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SessionOptions {
    /// Tools that are always visible, in this order: ids, names, or unique ends of names.
    pub core: Vec<String>,
    /// Tools that are pinned from the start.
    pub pinned: Vec<String>,
    /// Limits and timing of the working set.
    pub working_set: WorkingSetOptions,
    /// Tools that each turn's message may bring in; 0 leaves all to `find_tool`. Default 8. A choice
    /// between two that change something brings both.
    pub retrieve: usize,
    /// Tools that one `find_tool` call brings in unless it says otherwise. Default 5.
    pub find_limit: usize,
    /// Catalogs of at most this many eligible tools are shown whole; the tool limit by default, 0
    /// never. A token budget still has to hold. Decided once, when the session opens, so that it
    /// cannot flip; a catalog that later outgrows these limits is shown whole no longer, for good.
    pub pass_through: Option<usize>,
    /// Name of the meta-tool. Default `find_tool`. A tool of the catalog that is called so is out of
    /// reach of the run ([`warnings`](crate::Session::warnings)).
    pub meta_tool: String,
    /// Whether what `find_tool` finds is pinned, so that it stays for the rest of the run. Default
    /// false.
    pub pin_found: bool,
    /// Share of the best tool's score below which a retrieved or found tool is left out, in [0, 1].
    /// Default 0.
    pub min_score_ratio: f32,
    /// Tokens for a list of all tools, by name and first sentence, in the
    /// [`notice`](crate::Session::notice); the meta-tool then looks definitions up as well. Default
    /// none.
    pub compressed: Option<TokenCount>,
    /// What turns and searches fall back on when the model does not answer or no tool reaches the
    /// gate.
    pub fallback: Fallback,
    /// Rules that read each turn's message and say how many tools it brings in, up to `retrieve`.
    /// Default none. Stored options may name those of the crate: `intent = "english"`.
    #[serde(deserialize_with = "table_or_name")]
    pub intent: Option<Arc<IntentRules>>,
    /// Who runs.
    pub context: RuntimeContext,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            core: Vec::new(),
            pinned: Vec::new(),
            working_set: WorkingSetOptions::default(),
            retrieve: 8,
            find_limit: 5,
            pass_through: None,
            meta_tool: FIND_TOOL.to_owned(),
            pin_found: false,
            min_score_ratio: 0.0,
            compressed: None,
            fallback: Fallback::default(),
            intent: None,
            context: RuntimeContext::default(),
        }
    }
}

impl SessionOptions {
    /// Sets the tools that are always visible, in this order.
    #[must_use]
    pub fn core<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.core = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the tools that are pinned from the start.
    #[must_use]
    pub fn pinned<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.pinned = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the most tools that are visible at once.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.working_set.limit = limit;
        self
    }

    /// Sets the most tokens that the visible definitions take.
    #[must_use]
    pub fn token_budget(mut self, tokens: TokenCount) -> Self {
        self.working_set.token_budget = Some(tokens);
        self
    }

    /// Sets when tools that are no longer wanted leave.
    #[must_use]
    pub fn timing(mut self, timing: Timing) -> Self {
        self.working_set.timing = timing;
        self
    }

    /// Sets in which order the tools that came in are listed, after core tools and the meta-tool.
    #[must_use]
    pub fn order(mut self, order: ListOrder) -> Self {
        self.working_set.order = order;
        self
    }

    /// Sets for how many steps a tool may go unwanted.
    #[must_use]
    pub fn stale_after(mut self, steps: u64) -> Self {
        self.working_set.stale_after = steps;
        self
    }

    /// Sets how many tools each turn's message may bring in.
    #[must_use]
    pub fn retrieve(mut self, k: usize) -> Self {
        self.retrieve = k;
        self
    }

    /// Sets how many tools one `find_tool` call brings in unless it says otherwise.
    #[must_use]
    pub fn find_limit(mut self, limit: usize) -> Self {
        self.find_limit = limit;
        self
    }

    /// Sets up to how many eligible tools a catalog is shown whole; 0 for never.
    #[must_use]
    pub fn pass_through(mut self, tools: usize) -> Self {
        self.pass_through = Some(tools);
        self
    }

    /// Sets the name of the meta-tool.
    #[must_use]
    pub fn meta_tool(mut self, name: impl Into<String>) -> Self {
        self.meta_tool = name.into();
        self
    }

    /// Keeps what `find_tool` finds for the rest of the run.
    #[must_use]
    pub fn pin_found(mut self, pin: bool) -> Self {
        self.pin_found = pin;
        self
    }

    /// Sets the share of the best tool's score that a retrieved or found tool needs.
    #[must_use]
    pub fn min_score_ratio(mut self, share: f32) -> Self {
        self.min_score_ratio = share;
        self
    }

    /// Shows the catalog compressed: every tool by name and first sentence in the notice, as far as
    /// they take at most so many tokens, and definitions by look-up.
    #[must_use]
    pub fn compressed(mut self, tokens: TokenCount) -> Self {
        self.compressed = Some(tokens);
        self
    }

    /// Sets what turns and searches fall back on.
    #[must_use]
    pub fn fallback(mut self, fallback: Fallback) -> Self {
        self.fallback = fallback;
        self
    }

    /// Reads each turn's message by rules, which say how many tools it brings in. What the model
    /// asks for with `find_tool` is not subject to them.
    ///
    /// # Example
    /// ```
    /// use toolrack::{IntentRules, SessionOptions};
    ///
    /// let options = SessionOptions::default().intent(IntentRules::english());
    /// assert_eq!(options.intent.unwrap().language, "en");
    /// ```
    #[must_use]
    pub fn intent(mut self, rules: impl Into<Arc<IntentRules>>) -> Self {
        self.intent = Some(rules.into());
        self
    }

    /// Sets who runs.
    #[must_use]
    pub fn context(mut self, context: RuntimeContext) -> Self {
        self.context = context;
        self
    }

    pub(crate) fn validate(&self) -> Result<()> {
        let name = &self.meta_tool;
        let safe = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > 64 || !name.chars().all(safe) {
            return Err(invalid_setting(format!(
                "the meta-tool's name '{name}' is no provider name: use 1 to 64 of a-z, A-Z, 0-9, \
                 _ and -"
            )));
        }
        if self.find_limit == 0 {
            return Err(invalid_setting(
                "find_limit is 0: let one search bring in at least 1 tool",
            ));
        }
        check_ratio(self.min_score_ratio)?;
        if let Some(rules) = &self.intent {
            rules.validate()?;
        }
        self.working_set.validate()
    }
}
