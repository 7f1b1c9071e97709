//! What will not be found in a catalog, why, and what to do.

mod confusable;
mod language;
mod sarif;
mod text;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::dataset::Dataset;
use super::metric::slot_ranks;
use crate::catalog::{Catalog, Snapshot};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Worth knowing.
    Note,
    /// Tools will be found less often than they could.
    Warning,
    /// A tool will hardly be found, or a wrong one may be called.
    Error,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Rule {
    /// There is no description.
    EmptyDescription,
    /// The description has fewer than three words that tell anything.
    ShortDescription,
    /// The description says no more than the name.
    RepeatsName,
    /// The description is full of abbreviations that no request will use.
    Jargon,
    /// The description does not say when to use the tool.
    NoUsage,
    /// Two tools say nearly the same.
    NearDuplicate,
    /// Another tool comes first for the tool's own words.
    Confusable,
    /// Two names become one when made safe for providers.
    NameCollision,
    /// Several namespaces have a tool of this name.
    SharedName,
    /// Parameters have no description.
    UndescribedParameter,
    /// There is no schema.
    NoSchema,
    /// The schema is deeper or larger than what is indexed.
    SchemaCaps,
    /// The definition takes many tokens.
    ManyTokens,
    /// There are characters that nobody sees.
    HiddenCharacters,
    /// The description mixes languages, or is in another one than the catalog.
    MixedLanguages,
    /// A labelled request asks for the tool and never gets it.
    NeverRetrieved,
}

impl Rule {
    /// All rules, the weightiest first.
    pub const ALL: [Self; 16] = [
        Self::HiddenCharacters,
        Self::NameCollision,
        Self::EmptyDescription,
        Self::NeverRetrieved,
        Self::Confusable,
        Self::NearDuplicate,
        Self::ShortDescription,
        Self::RepeatsName,
        Self::SchemaCaps,
        Self::ManyTokens,
        Self::UndescribedParameter,
        Self::Jargon,
        Self::MixedLanguages,
        Self::SharedName,
        Self::NoSchema,
        Self::NoUsage,
    ];

    /// How much its findings matter.
    pub fn level(self) -> Level {
        match self {
            Self::HiddenCharacters | Self::NameCollision | Self::EmptyDescription => Level::Error,
            Self::NeverRetrieved
            | Self::Confusable
            | Self::NearDuplicate
            | Self::ShortDescription
            | Self::RepeatsName
            | Self::SchemaCaps
            | Self::ManyTokens => Level::Warning,
            Self::UndescribedParameter
            | Self::Jargon
            | Self::MixedLanguages
            | Self::SharedName
            | Self::NoSchema
            | Self::NoUsage => Level::Note,
        }
    }

    /// What is wrong, in a line.
    pub fn about(self) -> &'static str {
        match self {
            Self::EmptyDescription => "no description: only the name can be found",
            Self::ShortDescription => {
                "the description has fewer than three words that tell anything"
            }
            Self::RepeatsName => "the description says no more than the name",
            Self::Jargon => "the description is full of abbreviations",
            Self::NoUsage => "the description does not say when to use the tool",
            Self::NearDuplicate => "two tools say nearly the same",
            Self::Confusable => "another tool comes first for the tool's own words",
            Self::NameCollision => "two names become one when made safe for providers",
            Self::SharedName => "several namespaces have a tool of this name",
            Self::UndescribedParameter => "parameters have no description",
            Self::NoSchema => "no schema: the model guesses the arguments",
            Self::SchemaCaps => "the schema is deeper or larger than what is indexed",
            Self::ManyTokens => "the definition takes many tokens",
            Self::HiddenCharacters => "there are characters that nobody sees",
            Self::MixedLanguages => "the description mixes languages, or is not in the catalog's",
            Self::NeverRetrieved => "labelled requests ask for the tool and never get it",
        }
    }

    /// What to do, in a line.
    pub fn fix(self) -> &'static str {
        match self {
            Self::EmptyDescription => "say what the tool does and when to use it, in users' words",
            Self::ShortDescription => "add what the tool acts on and when to use it",
            Self::RepeatsName => {
                "add what the name leaves out: on what, for whom, with what result"
            }
            Self::Jargon => "write the abbreviations out, or add aliases that users would say",
            Self::NoUsage => "add a sentence such as 'Use this when ...'",
            Self::NearDuplicate => "remove one, or say in both how they differ",
            Self::Confusable => "name in the first sentence what sets it apart from the other",
            Self::NameCollision => {
                "rename one: letters, digits, _ and - have to differ in the first 53 characters"
            }
            Self::SharedName => "put what sets them apart into the names, or keep the namespaces",
            Self::UndescribedParameter => "describe each parameter: requests often name arguments",
            Self::NoSchema => "add the parameters' JSON schema",
            Self::SchemaCaps => "flatten the schema, or name what matters in the description",
            Self::ManyTokens => "shorten the description and the schema",
            Self::HiddenCharacters => "delete them: they split words, and can hide instructions",
            Self::MixedLanguages => {
                "write the description in the users' language, add aliases in others"
            }
            Self::NeverRetrieved => "add these requests' words to the description, or as examples",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = serde_json::to_value(self).unwrap_or_default();
        f.pad(value.as_str().unwrap_or_default())
    }
}

impl FromStr for Rule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        serde_json::from_value(text.into()).map_err(|_| {
            let all: Vec<String> = Self::ALL.iter().map(Self::to_string).collect();
            Error::new(
                ErrorKind::InvalidSetting,
                format!("'{text}' is no rule: write one of {}", all.join(", ")),
            )
        })
    }
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finding {
    /// What was looked for.
    pub rule: Rule,
    /// How much it matters.
    pub level: Level,
    /// Id of the tool.
    pub tool: String,
    /// Id of the other tool, for findings on pairs.
    pub other: Option<String>,
    /// What is wrong with this tool.
    pub message: String,
    /// What to do.
    pub fix: String,
    /// File of the definition, when it was read from one.
    pub file: Option<String>,
    /// Its line there, when it is known.
    pub line: Option<usize>,
    /// For ordering within a rule: how bad it is.
    weight: f64,
}

/// What is looked for, and how strictly.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LintOptions {
    /// The most tokens that a definition should take. Default 1,000.
    pub max_tokens: usize,
    /// Rules to leave out.
    pub allow: Vec<Rule>,
    /// Rank from which a gold tool counts as not retrieved. Default 10.
    pub k: usize,
}

impl Default for LintOptions {
    fn default() -> Self {
        Self { max_tokens: 1_000, allow: Vec::new(), k: crate::select::DEFAULT_K }
    }
}

impl LintOptions {
    /// Sets the most tokens that a definition should take.
    #[must_use]
    pub fn max_tokens(mut self, tokens: usize) -> Self {
        self.max_tokens = tokens;
        self
    }

    /// Sets the rules to leave out.
    #[must_use]
    pub fn allow(mut self, rules: impl IntoIterator<Item = Rule>) -> Self {
        self.allow = rules.into_iter().collect();
        self
    }
}

/// What was found in a catalog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LintReport {
    /// Tools in the catalog.
    pub n_tools: usize,
    /// Findings by rule, the weightiest rule first, and the worst first within a rule.
    pub findings: Vec<Finding>,
}

impl LintReport {
    /// How many findings each rule has, the weightiest rule first; rules without any are left out.
    pub fn counts(&self) -> Vec<(Rule, usize)> {
        Rule::ALL
            .iter()
            .map(|&rule| (rule, self.findings.iter().filter(|f| f.rule == rule).count()))
            .filter(|&(_, count)| count > 0)
            .collect()
    }

    /// The gravest level of all findings; `None` when nothing was found.
    pub fn worst(&self) -> Option<Level> {
        self.findings.iter().map(|finding| finding.level).max()
    }
}

/// Looks through `catalog` for tools that will not be found, and why.
///
/// `labelled` is a dataset over the same tools: what its requests ask for and never get is told too.
///
/// # Errors
/// As [`Engine::rank`].
///
/// # Example
/// ```
/// use toolrack::{Catalog, Engine};
/// use toolrack::eval::{LintOptions, Rule, lint};
///
/// let catalog = Catalog::parse(
///     r#"[{"name": "q7", "description": ""},
///         {"name": "send_mail", "description": "Use this to send an e-mail to a person."}]"#)?;
/// let engine = Engine::builder(catalog).build()?;
/// let report = lint(&engine, None, &LintOptions::default())?;
/// assert_eq!(report.findings[0].rule, Rule::EmptyDescription);
/// assert_eq!(report.findings[0].tool, "default/q7");
/// # Ok::<(), toolrack::Error>(())
/// ```
pub fn lint(
    engine: &Engine,
    labelled: Option<&Dataset>,
    options: &LintOptions,
) -> Result<LintReport> {
    lint_with(engine, labelled, options, &mut |_, _| {})
}

/// Like [`lint`], telling how many of how many tools were compared with the others.
///
/// # Errors
/// As [`lint`].
pub fn lint_with(
    engine: &Engine,
    labelled: Option<&Dataset>,
    options: &LintOptions,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<LintReport> {
    let snapshot = engine.snapshot();
    let mut places = Places::default();
    let mut findings = Vec::new();
    let mut add = |rule: Rule, row: usize, other: Option<usize>, weight: f64, message: String| {
        if options.allow.contains(&rule) {
            return;
        }
        let (file, line) = places.of(&snapshot, row);
        findings.push(Finding {
            rule,
            level: rule.level(),
            tool: snapshot.tool(row).id().to_string(),
            other: other.map(|row| snapshot.tool(row).id().to_string()),
            message,
            fix: rule.fix().to_owned(),
            file,
            line,
            weight,
        });
    };
    text::check(&snapshot, options.max_tokens, &mut add);
    confusable::check(engine, &snapshot, &mut add, progress)?;
    if let Some(labelled) = labelled {
        never_retrieved(engine, &snapshot, labelled, options.k, &mut add)?;
    }
    let order = |rule: Rule| Rule::ALL.iter().position(|&other| other == rule);
    findings.sort_by(|a, b| order(a.rule).cmp(&order(b.rule)).then(b.weight.total_cmp(&a.weight)));
    Ok(LintReport { n_tools: snapshot.len(), findings })
}

/// Takes a finding: rule, row, other row, weight, message.
type Add<'a> = dyn FnMut(Rule, usize, Option<usize>, f64, String) + 'a;

fn never_retrieved(
    engine: &Engine,
    snapshot: &Snapshot,
    labelled: &Dataset,
    k: usize,
    add: &mut Add<'_>,
) -> Result<()> {
    if !labelled.tools().any(|tool| snapshot.row(tool.id()).is_some()) {
        return Err(Error::new(
            ErrorKind::InvalidSetting,
            format!(
                "no tool of {} is in the catalog: give a dataset over the same tools and namespaces",
                labelled.name()
            ),
        ));
    }
    let mut asked: BTreeMap<usize, (usize, usize, String)> = BTreeMap::new();
    for query in labelled.queries() {
        // Rows of the dataset's catalog, which may have another order than the engine's.
        let ranked: Vec<usize> = engine
            .rank(&query.text, k)?
            .iter()
            .filter_map(|candidate| labelled.snapshot().row(&candidate.id))
            .collect();
        for (slot, rank) in query.slots.iter().zip(slot_ranks(query, &ranked)) {
            let entry = asked.entry(slot.tool).or_insert_with(|| (0, 0, query.text.clone()));
            entry.0 += 1;
            entry.1 += usize::from(rank.is_some());
        }
    }
    for (row, (times, found, request)) in asked {
        let id = labelled.snapshot().tool(row).id();
        let Some(row) = snapshot.row(id).filter(|_| found == 0) else { continue };
        let request: String = request.chars().take(80).collect();
        add(
            Rule::NeverRetrieved,
            row,
            None,
            times as f64,
            format!(
                "{times} requests ask for it, none has it in the first {k}; one of them: \
                 \"{}\"",
                request.escape_debug()
            ),
        );
    }
    Ok(())
}

/// Where definitions stand in their files.
#[derive(Default)]
struct Places {
    /// Texts of files whose definitions are counted rather than on lines of their own.
    texts: HashMap<String, Option<String>>,
}

impl Places {
    fn of(&mut self, snapshot: &Snapshot, row: usize) -> (Option<String>, Option<usize>) {
        let place = snapshot.place(row);
        // "file, line 3 ('name')" or "file, tool 2 ('name')".
        let name = snapshot.tool(row).name();
        let place = place.strip_suffix(&format!(" ('{name}')")).unwrap_or(place);
        let Some((file, at)) = place.rsplit_once(", ") else { return (None, None) };
        let line = match at.strip_prefix("line ") {
            Some(line) => line.parse().ok(),
            None => self.search(file, name, earlier(snapshot, row, file)),
        };
        (Some(file.to_owned()), line)
    }

    /// The line on which `file` has `name` as the value of a name, after `skip` others of that name; else
    /// the first on which it has it as any JSON string.
    fn search(&mut self, file: &str, name: &str, skip: usize) -> Option<usize> {
        let text =
            self.texts.entry(file.to_owned()).or_insert_with(|| std::fs::read_to_string(file).ok());
        let quoted = serde_json::to_string(name).ok()?;
        let text = text.as_ref()?;
        let is_name = |&at: &usize| {
            let key = text[..at].trim_end().strip_suffix(':').map(str::trim_end);
            key.is_some_and(|key| key.ends_with("\"name\""))
        };
        let mut all = text.match_indices(&quoted).map(|(at, _)| at);
        let at = all.clone().filter(is_name).nth(skip).or_else(|| all.next())?;
        Some(text[..at].bytes().filter(|&byte| byte == b'\n').count() + 1)
    }
}

/// How many tools before `row` have its name, in another namespace, and come from `file`.
fn earlier(snapshot: &Snapshot, row: usize, file: &str) -> usize {
    let rows = snapshot.names().by_name(snapshot.tool(row).name()).iter();
    rows.filter(|&&other| other < row && snapshot.place(other).starts_with(file)).count()
}

/// The catalog of a dataset, for linting it with its labels.
impl Dataset {
    /// An engine over the dataset's tools with the bundled model.
    ///
    /// # Errors
    /// As [`Engine::builder`].
    pub fn engine(&self) -> Result<Engine> {
        let catalog: Catalog = self.catalog().clone();
        Engine::builder(catalog).build()
    }
}
