//! What kind of request it is, by rules that are data.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Serialize};

use super::phrase::{Folded, Place};
use crate::catalog::{Tool, ToolId};
use crate::error::{Error, ErrorKind, Result};
use crate::text::TokenCount;

/// The rules that come with the crate.
const ENGLISH: &str = include_str!("intent_en.toml");

/// What kind of answer a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum QueryIntent {
    /// Something in particular is to be found out or done. What no rule decides.
    Factual,
    /// Things are to be set against each other.
    Comparative,
    /// Something general is to be explained.
    Conceptual,
    /// What happens just now.
    CurrentEvents,
    /// Thanks, greetings: nothing is asked for.
    Courtesy,
}

/// How much a request holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Complexity {
    /// One short thing.
    Simple,
    /// A longer request, or one of two parts.
    Moderate,
    /// A long request, or one of many parts.
    Complex,
}

/// Rules that read a request and say how many tools it gets, up to the number that the caller asks
/// for: a table of words, no model.
///
/// Off by default: turn them on with [`SelectRequest::intent_rules`](crate::SelectRequest) or
/// [`SessionOptions::intent`](crate::SessionOptions::intent). English rules ship; rules for another
/// language or another trade are a TOML or JSON text of the same form (`src/select/intent_en.toml` in
/// the sources says what each key means).
///
/// Tools that a request names verbatim are selected whatever the rules say, and `find_tool` is not
/// subject to them: a wrong reading costs the model one extra call.
///
/// # Example
/// ```
/// use toolrack::{Complexity, IntentRules, QueryIntent};
///
/// let rules = IntentRules::english();
/// let kind = |text: &str| { let reading = rules.classify(text); (reading.intent, reading.complexity) };
/// assert_eq!(kind("What is a vector database?"), (QueryIntent::Conceptual, Complexity::Simple));
/// assert_eq!(kind("Compare Postgres and SQLite, then file a ticket").0, QueryIntent::Comparative);
/// assert_eq!(kind("Any news on the strike?").0, QueryIntent::CurrentEvents);
/// assert_eq!(kind("Sign me up for the newsletter").0, QueryIntent::Factual);
/// assert_eq!(rules.plan(&rules.classify("What is a vector database?")).unwrap().tools, 0);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct IntentRules {
    /// Language of the patterns, for people.
    pub language: String,
    /// Tool that a request gets which needs none: an id, a name, or the unique end of one.
    #[serde(default)]
    pub fallback: Option<String>,
    /// What decides the intent; the first rule that fits.
    #[serde(default)]
    pub rules: Vec<IntentRule>,
    /// What counts as courtesy.
    #[serde(default)]
    pub courtesy: CourtesyRule,
    /// What decides the complexity.
    pub complexity: ComplexityRule,
    /// How many tools of which groups.
    #[serde(default)]
    pub plans: Vec<IntentPlan>,
}

/// One rule of [`IntentRules`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct IntentRule {
    /// What it decides.
    pub intent: QueryIntent,
    /// Patterns of which one has to match.
    pub any: Vec<String>,
    /// Patterns of which none may match.
    #[serde(default)]
    pub unless: Vec<String>,
    /// The most words for which it decides.
    #[serde(default)]
    pub max_words: Option<usize>,
}

/// What counts as courtesy in [`IntentRules`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct CourtesyRule {
    /// Patterns of which one has to match.
    pub phrases: Vec<String>,
    /// Patterns that may stand beside them.
    pub fillers: Vec<String>,
}

/// What decides the complexity in [`IntentRules`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ComplexityRule {
    /// Words from which a request is moderate.
    pub moderate_words: usize,
    /// Words from which it is complex.
    pub complex_words: usize,
    /// Joints from which it is moderate.
    pub moderate_joints: usize,
    /// Joints from which it is complex.
    pub complex_joints: usize,
    /// Patterns of joints between parts; each place counts once, for the longest pattern that
    /// matches there.
    #[serde(default)]
    pub joints: Vec<String>,
}

/// How many tools of which groups a kind of request gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct IntentPlan {
    /// For which intent.
    pub intent: QueryIntent,
    /// For which complexity; none for every one.
    #[serde(default)]
    pub complexity: Option<Complexity>,
    /// How many tools at most, and never more than the caller asks for
    /// ([`SelectRequest::k`](crate::SelectRequest)); 0 says that none is needed.
    pub tools: usize,
    /// Namespaces or tags that it gets tools of; empty for all.
    #[serde(default)]
    pub groups: Vec<String>,
}

/// How a request was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IntentReading {
    /// What kind of request.
    pub intent: QueryIntent,
    /// How much it holds.
    pub complexity: Complexity,
    /// Why, in words.
    pub reasons: Vec<String>,
}

/// How a request was read and what that did to its selection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IntentReport {
    /// How it was read.
    pub reading: IntentReading,
    /// The plan that applied; `None` when the table has none and nothing was changed.
    pub plan: Option<IntentPlan>,
    /// Tools that would have been selected without the rules and were not.
    pub excluded: Vec<ToolId>,
    /// The fallback tool, when it was selected.
    pub fallback: Option<ToolId>,
    /// Tokens that the selected tools' definitions take less than those that would have been selected
    /// without the rules; 0 when they take more, as those of other groups may.
    pub tokens_saved: TokenCount,
}

impl fmt::Display for IntentReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let complexity = match self.complexity {
            Complexity::Simple => "simple",
            Complexity::Moderate => "moderate",
            Complexity::Complex => "complex",
        };
        let intent = match self.intent {
            QueryIntent::Factual => "factual request",
            QueryIntent::Comparative => "comparison",
            QueryIntent::Conceptual => "conceptual question",
            QueryIntent::CurrentEvents => "question of current events",
            QueryIntent::Courtesy => "courtesy",
        };
        write!(f, "{complexity} {intent} ({})", self.reasons.join("; "))
    }
}

impl fmt::Display for IntentReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reading)?;
        if let Some(plan) = &self.plan {
            write!(f, ": at most {} tools", plan.tools)?;
            if !plan.groups.is_empty() {
                write!(f, " of {}", plan.groups.join(", "))?;
            }
            let n = self.excluded.len();
            write!(f, ", {n} left out, {} tokens saved", self.tokens_saved)?;
        }
        if let Some(id) = &self.fallback {
            write!(f, ", fallback {id}")?;
        }
        Ok(())
    }
}

impl IntentRules {
    /// The English rules.
    pub fn english() -> Self {
        // A test reads the text that is compiled in.
        Self::parse(ENGLISH).unwrap_or_else(|error| unreachable!("{error}"))
    }

    /// The rules in a TOML text, or in a JSON object of the same form.
    ///
    /// # Errors
    /// [`ErrorKind::Format`] for a text that is neither or not of the form,
    /// [`ErrorKind::InvalidSetting`] for an empty pattern or thresholds that fall.
    pub fn parse(text: &str) -> Result<Self> {
        let misformed = |form: &str| {
            let what = format!("the intent rules are not in their {form} form: mend them");
            Error::new(ErrorKind::Format, what)
        };
        // No TOML begins with a brace.
        let rules: Self = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|error| misformed("JSON").with_source(error))?
        } else {
            toml::from_str(text).map_err(|error| misformed("TOML").with_source(error))?
        };
        rules.validate()?;
        Ok(rules)
    }

    /// The rules in a TOML or JSON file.
    ///
    /// # Errors
    /// [`ErrorKind::Io`], else as [`parse`](Self::parse).
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|error| {
            let shown = path.display();
            Error::new(ErrorKind::Io, format!("cannot read {shown}: give a readable text file"))
                .with_source(error)
        })?;
        Self::parse(&text).map_err(|error| error.within(path.display()))
    }

    /// Sets the tool that a request gets which needs none.
    #[must_use]
    pub fn with_fallback(mut self, name: impl Into<String>) -> Self {
        self.fallback = Some(name.into());
        self
    }

    pub(crate) fn validate(&self) -> Result<()> {
        let patterns = self.rules.iter().flat_map(|rule| rule.any.iter().chain(&rule.unless));
        let others = self.courtesy.phrases.iter().chain(&self.courtesy.fillers);
        if let Some(bad) =
            patterns.chain(others).chain(&self.complexity.joints).find(|text| is_blank(text))
        {
            return Err(crate::error::invalid_setting(format!(
                "the intent rules hold the pattern '{bad}', which has no letter: give words"
            )));
        }
        let ComplexityRule {
            moderate_words, complex_words, moderate_joints, complex_joints, ..
        } = self.complexity;
        if moderate_words > complex_words || moderate_joints > complex_joints {
            return Err(crate::error::invalid_setting(
                "the intent rules call a request complex before it is moderate: let the complex \
                 thresholds be the greater ones",
            ));
        }
        Ok(())
    }

    /// How `text` reads. Deterministic, and a matter of microseconds.
    pub fn classify(&self, text: &str) -> IntentReading {
        let text = Folded::of(text);
        let mut reasons = Vec::new();
        let complexity = self.complexity(&text, &mut reasons);
        let intent = self.intent(&text, &mut reasons);
        reasons.reverse();
        IntentReading { intent, complexity, reasons }
    }

    fn intent(&self, text: &Folded, reasons: &mut Vec<String>) -> QueryIntent {
        if self.is_courtesy(text) {
            reasons.push("nothing but courtesies".to_owned());
            return QueryIntent::Courtesy;
        }
        for rule in &self.rules {
            let Some(pattern) = rule.any.iter().find(|pattern| text.find(pattern)) else {
                continue;
            };
            if let Some(against) = rule.unless.iter().find(|pattern| text.find(pattern)) {
                reasons.push(format!("has '{pattern}', but also '{against}'"));
            } else if rule.max_words.is_some_and(|most| text.words > most) {
                reasons.push(format!("has '{pattern}', but {} words", text.words));
            } else {
                reasons.push(format!("has '{pattern}'"));
                return rule.intent;
            }
        }
        if reasons.len() < 2 {
            reasons.push("no rule fits".to_owned());
        }
        QueryIntent::Factual
    }

    fn is_courtesy(&self, text: &Folded) -> bool {
        let mut rest = text.clone();
        let mut polite = false;
        // "thank you" before "you".
        for phrase in longest_first(&self.courtesy.phrases) {
            polite |= rest.take_out(phrase) > 0;
        }
        if !polite {
            return false;
        }
        for filler in longest_first(&self.courtesy.fillers) {
            rest.take_out(filler);
        }
        !rest.text.chars().any(char::is_alphanumeric)
    }

    fn complexity(&self, text: &Folded, reasons: &mut Vec<String>) -> Complexity {
        let rule = &self.complexity;
        // "and then" is one joint, not also a "then".
        let mut rest = text.clone();
        let joints: usize = longest_first(&rule.joints).map(|joint| rest.take_out(joint)).sum();
        reasons.push(format!(
            "{} word{}, {joints} joint{}",
            text.words,
            if text.words == 1 { "" } else { "s" },
            if joints == 1 { "" } else { "s" },
        ));
        if text.words >= rule.complex_words || joints >= rule.complex_joints {
            Complexity::Complex
        } else if text.words >= rule.moderate_words || joints >= rule.moderate_joints {
            Complexity::Moderate
        } else {
            Complexity::Simple
        }
    }

    /// The plan for a request that was read so: the first of the table that fits.
    pub fn plan(&self, reading: &IntentReading) -> Option<&IntentPlan> {
        self.plans.iter().find(|plan| {
            plan.intent == reading.intent
                && plan.complexity.is_none_or(|complexity| complexity == reading.complexity)
        })
    }
}

impl IntentPlan {
    /// Whether `tool` is of a group that the plan gives tools of.
    pub(crate) fn includes(&self, tool: &Tool) -> bool {
        self.groups.is_empty()
            || self.groups.iter().any(|group| {
                group == tool.namespace() || tool.tags().iter().any(|tag| tag == group)
            })
    }
}

/// Reads rules that are written out as a table, or named: `"english"` are those of the crate.
pub(crate) fn table_or_name<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<Arc<IntentRules>>, D::Error> {
    struct TableOrName;

    impl<'de> Visitor<'de> for TableOrName {
        type Value = Option<Arc<IntentRules>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("\"english\" or a table of intent rules")
        }
        fn visit_unit<E>(self) -> std::result::Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_none<E>(self) -> std::result::Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_some<D: Deserializer<'de>>(
            self,
            deserializer: D,
        ) -> std::result::Result<Self::Value, D::Error> {
            deserializer.deserialize_any(self)
        }
        fn visit_str<E: de::Error>(self, name: &str) -> std::result::Result<Self::Value, E> {
            match name {
                "english" => Ok(Some(Arc::new(IntentRules::english()))),
                _ => Err(E::invalid_value(Unexpected::Str(name), &self)),
            }
        }
        fn visit_map<A: MapAccess<'de>>(
            self,
            map: A,
        ) -> std::result::Result<Self::Value, A::Error> {
            let rules = IntentRules::deserialize(MapAccessDeserializer::new(map))?;
            Ok(Some(Arc::new(rules)))
        }
    }

    deserializer.deserialize_option(TableOrName)
}

fn longest_first(patterns: &[String]) -> impl Iterator<Item = &String> {
    let mut sorted: Vec<&String> = patterns.iter().collect();
    sorted.sort_by_key(|pattern| std::cmp::Reverse(pattern.len()));
    sorted.into_iter()
}

fn is_blank(pattern: &str) -> bool {
    pattern != "#" && !pattern.chars().any(char::is_alphanumeric)
}

impl Folded {
    /// Whether a pattern of rules matches.
    fn find(&self, pattern: &str) -> bool {
        if pattern == "#" {
            return self.text.chars().any(|c| c.is_ascii_digit());
        }
        let (place, words) = pattern_parts(pattern);
        self.places(words, place).next().is_some()
    }

    /// Replaces what a pattern matches by a space; in how many places.
    fn take_out(&mut self, pattern: &str) -> usize {
        let (place, words) = pattern_parts(pattern);
        let places: Vec<std::ops::Range<usize>> = self.places(words, place).collect();
        for place in places.iter().rev() {
            self.text.replace_range(place.clone(), " ");
        }
        places.len()
    }
}

/// Where a pattern may stand, and its words.
fn pattern_parts(pattern: &str) -> (Place, &str) {
    let first_only = pattern.starts_with('^');
    let open_end = pattern.ends_with('*');
    (Place { first_only, open_end }, pattern.trim_start_matches('^').trim_end_matches('*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_words() {
        let matches = |pattern: &str, text: &str| Folded::of(text).find(pattern);
        for (pattern, text, expected) in [
            ("new", "the Newsletter", false),
            ("new", "a NEW one", true),
            ("news", "News, please", true),
            ("i", "I’ve", false),
            ("what's a", "What’s a  monad", true),
            ("compar*", "in comparison", true),
            ("compar*", "incomparable", false),
            ("^explain", "They explain it", false),
            ("^explain", "Well, explain it", true),
            ("^explain", "First.\nExplain it", true),
            ("#", "in 3 days", true),
            ("#", "in three days", false),
            ("比較", "二つを比較して", true),
            ("straße", "STRASSE oder Straße", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} in {text}");
        }
    }

    #[test]
    fn odd_texts_are_read() {
        let rules = IntentRules::english();
        for text in ["", " ", "\0", "!!!", &"word ".repeat(100_000), "法令を調べて"] {
            assert_eq!(rules.classify(text).intent, QueryIntent::Factual, "{}", text.len());
        }
    }
}
