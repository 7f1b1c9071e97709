//! What is asked of the engine.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::context::RuntimeContext;
use super::fallback::Fallback;
use super::intent::IntentRules;
use crate::error::{Error, ErrorKind, Result, invalid_setting};
use crate::index::QueryText;
use crate::text::{count_content_words, pieces};

/// Tools of one selection when nothing else is asked for.
///
/// Field data: among siblings the right tool was in the first 5 for 70 % of requests and in the
/// first 10 for all (field case 6).
pub const DEFAULT_K: usize = 10;

/// The most bytes of one text that are read; the rest is cut at a character.
///
/// A model reads 256 tokens at most and a page of text names all that it wants; what is cut is a
/// pasted file.
const MAX_TEXT: usize = 16 * 1024;

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// One earlier message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who said it.
    pub role: Role,
    /// What was said.
    pub text: String,
}

impl Message {
    /// A message of the person.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, text: text.into() }
    }

    /// A message of the model.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self { role: Role::Assistant, text: text.into() }
    }
}

/// A request for tools: what is wanted, by whom, and how many.
///
/// # Example: several intents in one request
/// ```
/// use toolrack::{Catalog, Engine, SelectRequest};
///
/// let catalog = Catalog::parse(
///     r#"[{"name": "send_email", "description": "Send an e-mail."},
///         {"name": "create_event", "description": "Put an event into the calendar."},
///         {"name": "read_file", "description": "Read a file."}]"#)?;
/// let engine = Engine::builder(catalog).build()?;
/// let request = SelectRequest::of_intents(["mail the client", "schedule a meeting"]).k(2);
/// let names: Vec<_> =
///     engine.select(&request)?.candidates.iter().map(|c| c.id.name().to_owned()).collect();
/// assert_eq!(names, ["send_email", "create_event"]);
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SelectRequest {
    /// What is wanted; several intents are ranked apart and take turns.
    pub intents: Vec<String>,
    /// Earlier messages, oldest first. They count less the older they are, and the more the less
    /// the newest message says ("yes, do it").
    pub recent: Vec<Message>,
    /// How many tools at most; 0 selects none. Tools that are named do not count, nor does the second
    /// of two between which somebody should choose.
    pub k: usize,
    /// Only tools of this namespace.
    pub namespace: Option<String>,
    /// Share of the score of its intent's best candidate below which a candidate is not worth its
    /// tokens, in [0, 1]. The default 0 keeps all that the gate admits; named tools always stay.
    pub min_score_ratio: f32,
    /// What to fall back on when the model does not answer or no tool reaches the gate.
    pub fallback: Fallback,
    /// Rules that read the request and say how many tools it gets; none by default.
    pub intent_rules: Option<Arc<IntentRules>>,
    /// Who asks.
    pub context: RuntimeContext,
    /// Why the model is taken to have failed, in a replay of a run in which it did.
    #[serde(skip)]
    pub(crate) failed: Option<String>,
}

impl SelectRequest {
    /// A request for what `text` wants, [`DEFAULT_K`] tools.
    pub fn new(text: impl Into<String>) -> Self {
        Self::of_intents([text.into()])
    }

    /// A request for several things at once.
    pub fn of_intents<S: Into<String>>(intents: impl IntoIterator<Item = S>) -> Self {
        Self {
            intents: intents.into_iter().map(Into::into).collect(),
            recent: Vec::new(),
            k: DEFAULT_K,
            namespace: None,
            min_score_ratio: 0.0,
            fallback: Fallback::default(),
            intent_rules: None,
            context: RuntimeContext::default(),
            failed: None,
        }
    }

    /// Sets how many tools at most.
    #[must_use]
    pub fn k(mut self, k: usize) -> Self {
        self.k = k;
        self
    }

    /// Sets the earlier messages, oldest first.
    #[must_use]
    pub fn recent(mut self, recent: impl IntoIterator<Item = Message>) -> Self {
        self.recent = recent.into_iter().collect();
        self
    }

    /// Restricts the request to one namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Sets the share of the score of its intent's best candidate that a candidate needs.
    ///
    /// # Example
    /// ```
    /// use toolrack::{Catalog, Engine, Gate, SelectRequest};
    ///
    /// let catalog = Catalog::parse(
    ///     r#"[{"name": "send_email", "description": "Send an e-mail."},
    ///         {"name": "read_file", "description": "Read a file."}]"#)?;
    /// let engine = Engine::builder(catalog).gate(Gate::open()).build()?;
    /// let request = SelectRequest::new("mail the client").min_score_ratio(1.0);
    /// assert_eq!(engine.select(&request)?.candidates.len(), 1);
    /// # Ok::<(), toolrack::Error>(())
    /// ```
    #[must_use]
    pub fn min_score_ratio(mut self, share: f32) -> Self {
        self.min_score_ratio = share;
        self
    }

    /// Sets what to fall back on.
    #[must_use]
    pub fn fallback(mut self, fallback: Fallback) -> Self {
        self.fallback = fallback;
        self
    }

    /// Reads the request by rules, which say how many tools it gets.
    ///
    /// # Example
    /// ```
    /// use toolrack::{Catalog, Engine, IntentRules, Outcome, SelectRequest};
    ///
    /// let engine = Engine::builder(Catalog::parse(
    ///     r#"[{"name": "query_database", "description": "Query a database."}]"#)?).build()?;
    /// let request =
    ///     SelectRequest::new("What is a database?").intent_rules(IntentRules::english());
    /// let selection = engine.select(&request)?;
    /// assert_eq!(selection.outcome, Outcome::NotNeeded);
    /// assert_eq!(selection.intent.unwrap().excluded.len(), 1);
    /// # Ok::<(), toolrack::Error>(())
    /// ```
    #[must_use]
    pub fn intent_rules(mut self, rules: impl Into<Arc<IntentRules>>) -> Self {
        self.intent_rules = Some(rules.into());
        self
    }

    /// Sets who asks.
    #[must_use]
    pub fn context(mut self, context: RuntimeContext) -> Self {
        self.context = context;
        self
    }

    pub(crate) fn validate(&self) -> Result<()> {
        if self.intents.is_empty() {
            return Err(invalid_setting("the request holds no intent: say what is wanted"));
        }
        if self.intents.len() > MAX_INTENTS {
            return Err(Error::new(
                ErrorKind::InvalidSetting,
                format!(
                    "the request holds {} intents: ask for at most {MAX_INTENTS} at once",
                    self.intents.len()
                ),
            ));
        }
        check_ratio(self.min_score_ratio)
    }

    /// The weighted texts of each intent; see [`decay`].
    pub(crate) fn queries(&self) -> Vec<QueryText> {
        let query = |intent: &String| QueryText {
            parts: decay(intent, &self.recent),
            pieces: pieces(clip(intent)).into_iter().map(str::to_owned).collect(),
        };
        self.intents.iter().map(query).collect()
    }
}

/// Checks a `min_score_ratio`.
pub(crate) fn check_ratio(share: f32) -> Result<()> {
    if (0.0..=1.0).contains(&share) {
        return Ok(());
    }
    Err(invalid_setting(format!("min_score_ratio is {share}: give a share in [0, 1]")))
}

/// The most intents of one request.
pub(crate) const MAX_INTENTS: usize = 16;

/// Weight of a message against the one after it.
const DECAY: f32 = 0.5;
/// Earlier messages that are looked at.
const MAX_RECENT: usize = 6;
/// Content words from which a message speaks for itself.
const SPEAKS_FOR_ITSELF: usize = 4;
/// Bytes of an earlier message that count: the end of an answer leads to what comes next.
const MAX_RECENT_TEXT: usize = 600;

/// `text` with weight 1 and, as far as it does not speak for itself, what was said before.
///
/// With *n* content words in `text`, all earlier messages together are scaled by
/// max(0, 1 − *n* / [`SPEAKS_FOR_ITSELF`]), and each by [`DECAY`] to the power of its age; the
/// model's own messages count half. A request of four content words is thus ranked by its own words
/// alone, and "yes, do it" mostly by what it answers.
pub(crate) fn decay(text: &str, recent: &[Message]) -> Vec<(String, f32)> {
    let text = clip(text);
    let mut parts = vec![(text.to_owned(), 1.0)];
    if recent.is_empty() {
        return parts;
    }
    let content = count_content_words(text);
    let silence = 1.0 - content as f32 / SPEAKS_FOR_ITSELF as f32;
    if silence <= 0.0 {
        return parts;
    }
    for (age, message) in recent.iter().rev().take(MAX_RECENT).enumerate() {
        let start = message.text.len().saturating_sub(MAX_RECENT_TEXT);
        let tail = &message.text[message.text.ceil_char_boundary(start)..];
        let by_role = match message.role {
            Role::User => 1.0,
            Role::Assistant => 0.5,
        };
        let weight = silence * by_role * DECAY.powi(age as i32);
        if !tail.trim().is_empty() && weight > 0.01 {
            parts.push((tail.to_owned(), weight));
        }
    }
    if parts.len() > 1 {
        // What says nothing must not drown what it answers.
        parts[0].1 = (1.0 - silence).max(0.1);
    }
    parts
}

fn clip(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}
