//! One tool and its identity.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::policy::{Risk, ToolPolicy};
use super::raw::{RawObject, describe, raw};
use super::reader::{Original, Shape, native};
use crate::digest::sha256_hex;
use crate::error::{Error, ErrorKind, Result};

/// Namespace of a tool whose listing names none.
pub const DEFAULT_NAMESPACE: &str = "default";

/// Identity of a tool: namespace and name, written `namespace/name`.
///
/// A namespace is not empty and has no slash; a name may have any character. Two tools of one
/// catalog never share an id. Cheap to clone.
///
/// # Example
/// ```
/// use toolrack::ToolId;
///
/// let id: ToolId = "github/create_issue".parse()?;
/// assert_eq!((id.namespace(), id.name()), ("github", "create_issue"));
/// assert_eq!("read_file".parse::<ToolId>()?.to_string(), "default/read_file");
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolId {
    namespace: Arc<str>,
    name: Arc<str>,
}

impl ToolId {
    /// The id `namespace/name`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidTool`] when either part is empty or only white space, or the namespace
    /// has a slash.
    pub fn new(namespace: impl AsRef<str>, name: impl AsRef<str>) -> Result<Self> {
        let (namespace, name) = (namespace.as_ref(), name.as_ref());
        if name.trim().is_empty() {
            return Err(Error::new(ErrorKind::InvalidTool, "field 'name' is empty: name the tool"));
        }
        if namespace.trim().is_empty() || namespace.contains('/') {
            return Err(Error::new(
                ErrorKind::InvalidTool,
                format!("namespace '{namespace}' is empty or has a slash: use one plain word"),
            ));
        }
        Ok(Self { namespace: namespace.into(), name: name.into() })
    }

    /// The id of something without a name in a namespace that is a plain word.
    pub(super) fn nameless(namespace: &str) -> Self {
        Self { namespace: namespace.into(), name: "?".into() }
    }

    /// The part before the slash.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The part after the slash.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl FromStr for ToolId {
    type Err = Error;

    /// Splits at the first slash; without one the namespace is [`DEFAULT_NAMESPACE`].
    fn from_str(text: &str) -> Result<Self> {
        match text.split_once('/') {
            Some((namespace, name)) => Self::new(namespace, name),
            None => Self::new(DEFAULT_NAMESPACE, text),
        }
    }
}

impl fmt::Display for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl fmt::Debug for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for ToolId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ToolId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// One tool: what a model is told of it and what a policy needs to know.
///
/// A tool has no executor: it describes, the runtime runs. Read tools with a
/// [`Reader`](crate::Reader) or build them; a tool is immutable, and clones share its text.
///
/// With serde it is written in this project's own form (`name`, `namespace`, `description`,
/// `parameters`, ... and every field that was not understood, as it came; one that has a meaning here
/// but not where it was read goes under `foreign`); only `serde_json` can carry the parameters'
/// bytes.
///
/// # Example: building a tool
/// ```
/// use toolrack::{Risk, Tool};
///
/// let tool = Tool::builder("create_ticket")
///     .namespace("helpdesk")
///     .description("Open a ticket for a customer.")
///     .parameters_json(r#"{"type": "object",  "properties": {"subject": {"type": "string"}}}"#)
///     .aliases(["new ticket"])
///     .risk(Risk::Write)
///     .build()?;
/// assert_eq!(tool.id().to_string(), "helpdesk/create_ticket");
/// // Byte for byte, the double space included.
/// assert!(tool.parameters().unwrap().contains(r#""object",  "properties""#));
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Clone)]
pub struct Tool(Arc<Definition>);

#[derive(Clone)]
struct Definition {
    id: ToolId,
    title: Option<String>,
    description: String,
    parameters: Option<Arc<RawValue>>,
    examples: Vec<String>,
    aliases: Vec<String>,
    tags: Vec<String>,
    policy: ToolPolicy,
    /// Whether the policy's source is merely where the tool was listed.
    source_is_default: bool,
    states_risk: bool,
    original: Option<Original>,
    content_hash: String,
}

impl Tool {
    /// Begins a tool called `name` in the namespace [`DEFAULT_NAMESPACE`].
    pub fn builder(name: impl Into<String>) -> ToolBuilder {
        ToolBuilder { name: name.into(), ..ToolBuilder::default() }
    }

    /// Namespace and name.
    pub fn id(&self) -> &ToolId {
        &self.0.id
    }

    /// The tool's own name, as it was given.
    pub fn name(&self) -> &str {
        self.0.id.name()
    }

    /// The namespace: usually the server or integration.
    pub fn namespace(&self) -> &str {
        self.0.id.namespace()
    }

    /// A name for people, if there is one.
    pub fn title(&self) -> Option<&str> {
        self.0.title.as_deref()
    }

    /// What the tool does and when to use it; may be empty.
    pub fn description(&self) -> &str {
        &self.0.description
    }

    /// The JSON schema of the parameters, byte for byte as given; always a JSON object.
    pub fn parameters(&self) -> Option<&str> {
        self.0.parameters.as_ref().map(|raw| raw.get())
    }

    /// Requests that this tool answers, in users' words. They count in both arms.
    pub fn examples(&self) -> &[String] {
        &self.0.examples
    }

    /// Other names that people use for it. They count like the name.
    pub fn aliases(&self) -> &[String] {
        &self.0.aliases
    }

    /// Subject words. They count like the namespace.
    pub fn tags(&self) -> &[String] {
        &self.0.tags
    }

    /// Who may use it, when, and what it can break.
    pub fn policy(&self) -> &ToolPolicy {
        &self.0.policy
    }

    /// SHA-256 (hexadecimal) over all of the tool, unknown fields included: whatever a provider may
    /// be sent of it changes the hash, but for the order of fields and white space between them.
    ///
    /// A refresh compares these to tell which tools changed.
    pub fn content_hash(&self) -> &str {
        &self.0.content_hash
    }

    /// The shape in which the definition was read, `None` for a built tool.
    pub fn shape(&self) -> Option<Shape> {
        self.0.original.as_ref().map(|original| original.shape)
    }

    /// The definition as it was read, called `name` there, without the fields in `drop` and with
    /// those in `set`; `None` when it was not read in `shape`.
    pub(crate) fn original_in(
        &self,
        shape: Shape,
        name: &str,
        drop: &[&str],
        set: &[(&str, Arc<RawValue>)],
    ) -> Option<Arc<RawValue>> {
        let original = self.0.original.as_ref().filter(|original| original.shape == shape)?;
        original.edited(name, drop, set).ok()
    }

    /// A field of the definition as it was read.
    pub(crate) fn original_field(&self, key: &str) -> Option<&str> {
        self.0.original.as_ref()?.fields.get(key).map(|raw| raw.get())
    }

    /// Whether the risk was stated rather than left at its default.
    pub(crate) fn states_risk(&self) -> bool {
        self.0.states_risk || self.0.policy.risk != Risk::default()
    }

    /// This tool with `source` as its policy's source, unless it has one.
    pub(crate) fn with_default_source(self, source: &str) -> Self {
        if self.0.policy.source.is_some() {
            return self;
        }
        let definition = &self.0;
        let mut policy = definition.policy.clone();
        policy.source = Some(source.to_owned());
        // The hash stays: where a tool was listed is no change of the tool.
        Self(Arc::new(Definition {
            id: definition.id.clone(),
            title: definition.title.clone(),
            description: definition.description.clone(),
            parameters: definition.parameters.clone(),
            examples: definition.examples.clone(),
            aliases: definition.aliases.clone(),
            tags: definition.tags.clone(),
            policy,
            source_is_default: true,
            states_risk: definition.states_risk,
            original: definition.original.clone(),
            content_hash: definition.content_hash.clone(),
        }))
    }

    /// This tool with `risk` instead of what its server says of it.
    #[cfg(feature = "gateway")]
    pub(crate) fn with_risk(self, risk: Risk) -> Self {
        let mut definition = Definition::clone(&self.0);
        definition.policy.risk = risk;
        definition.states_risk = true;
        // The hash stays: it is the server's definition that is compared.
        Self(Arc::new(definition))
    }

    /// The native form: known fields that are set, then the unknown ones as they came.
    fn to_native(&self) -> Result<RawObject> {
        let tool = &*self.0;
        let mut object = RawObject::default();
        object.push("name", raw(&self.name())?);
        object.push("namespace", raw(&self.namespace())?);
        if let Some(title) = &tool.title {
            object.push("title", raw(title)?);
        }
        object.push("description", raw(&tool.description)?);
        if let Some(parameters) = &tool.parameters {
            object.push("parameters", Arc::clone(parameters));
        }
        for (key, list) in
            [("examples", &tool.examples), ("aliases", &tool.aliases), ("tags", &tool.tags)]
        {
            if !list.is_empty() {
                object.push(key, raw(list)?);
            }
        }
        let mut policy = tool.policy.clone();
        if tool.source_is_default {
            policy.source = None;
        }
        if policy != ToolPolicy::default() {
            object.push("policy", raw(&policy)?);
        }
        if tool.states_risk && policy.risk == Risk::default() {
            object.push("risk", raw(&policy.risk)?);
        }
        let Some(original) = &tool.original else { return Ok(object) };
        let mut foreign = RawObject::default();
        for (key, value) in original.unknown() {
            // What another format put under one of our names must not become our meaning of it: a
            // server's "risk" or "scopes" is no policy. Nor may its type tell what shape this is.
            let ours =
                original.shape != Shape::Native && (native::KNOWN.contains(&key) || key == "type");
            let target = if ours { &mut foreign } else { &mut object };
            target.push(key, Arc::clone(value));
        }
        if foreign.len() > 0 {
            object.push("foreign", raw(&foreign)?);
        }
        Ok(object)
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("id", &self.0.id)
            .field("description", &self.0.description)
            .field("risk", &self.0.policy.risk)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Tool {
    /// Whether two tools are the same to the last byte.
    fn eq(&self, other: &Self) -> bool {
        self.0.content_hash == other.0.content_hash
    }
}

impl Eq for Tool {}

impl Serialize for Tool {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_native().map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Tool {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = RawObject::deserialize(deserializer)?;
        native::tool(object).and_then(ToolBuilder::build).map_err(de::Error::custom)
    }
}

/// Builds a [`Tool`]; see there for an example.
#[derive(Debug, Clone, Default)]
#[must_use = "call build() to get the tool"]
pub struct ToolBuilder {
    pub(super) name: String,
    pub(super) namespace: Option<String>,
    pub(super) title: Option<String>,
    pub(super) description: String,
    pub(super) parameters: Option<Result<Arc<RawValue>, String>>,
    pub(super) examples: Vec<String>,
    pub(super) aliases: Vec<String>,
    pub(super) tags: Vec<String>,
    pub(super) policy: ToolPolicy,
    pub(super) states_risk: bool,
    pub(super) original: Option<Original>,
}

impl ToolBuilder {
    /// Sets the namespace: one word without a slash, usually the server's name.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Sets the name for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets what the tool does and when to use it.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Sets the parameters' JSON schema from a value, in `serde_json`'s key order.
    pub fn parameters(mut self, schema: &serde_json::Value) -> Self {
        self.parameters = Some(raw(schema).map_err(|error| error.to_string()));
        self
    }

    /// Sets the parameters' JSON schema from its text, which is kept byte for byte.
    pub fn parameters_json(mut self, schema: impl Into<String>) -> Self {
        self.parameters = Some(
            RawValue::from_string(schema.into()).map(Arc::from).map_err(|error| error.to_string()),
        );
        self
    }

    /// Sets requests that this tool answers, in users' words.
    pub fn examples<S: Into<String>>(mut self, examples: impl IntoIterator<Item = S>) -> Self {
        self.examples = examples.into_iter().map(Into::into).collect();
        self
    }

    /// Sets other names that people use for it.
    pub fn aliases<S: Into<String>>(mut self, aliases: impl IntoIterator<Item = S>) -> Self {
        self.aliases = aliases.into_iter().map(Into::into).collect();
        self
    }

    /// Sets subject words.
    pub fn tags<S: Into<String>>(mut self, tags: impl IntoIterator<Item = S>) -> Self {
        self.tags = tags.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the whole policy.
    pub fn policy(mut self, policy: ToolPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets what a call can do to the world.
    pub fn risk(mut self, risk: Risk) -> Self {
        self.policy.risk = risk;
        self.states_risk = true;
        self
    }

    /// The tool.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidTool`] when the name is empty, the namespace is empty or has a slash, or
    /// the parameters are not a JSON object.
    pub fn build(self) -> Result<Tool> {
        let namespace = self.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        let id = ToolId::new(namespace, &self.name)?;
        let parameters = match self.parameters {
            None => None,
            Some(Err(reason)) => {
                return Err(Error::new(
                    ErrorKind::InvalidTool,
                    format!("field 'parameters' is not JSON ({reason}): give a JSON schema"),
                ));
            }
            Some(Ok(raw)) if raw.get().trim() == "null" => None,
            Some(Ok(raw)) if raw.get().trim_start().starts_with('{') => Some(raw),
            Some(Ok(raw)) => {
                return Err(Error::new(
                    ErrorKind::InvalidTool,
                    format!(
                        "field 'parameters' is {}, not an object: give a JSON schema such as \
                         {{\"type\": \"object\"}}",
                        describe(raw.get())
                    ),
                ));
            }
        };
        let mut tool = Tool(Arc::new(Definition {
            id,
            title: self.title,
            description: self.description,
            parameters,
            examples: self.examples,
            aliases: self.aliases,
            tags: self.tags,
            policy: self.policy,
            source_is_default: false,
            states_risk: self.states_risk,
            original: self.original,
            content_hash: String::new(),
        }));
        let native = serde_json::to_vec(&tool.to_native()?).map_err(|error| {
            Error::new(ErrorKind::InvalidTool, "the tool cannot be written as JSON")
                .with_source(error)
        })?;
        if let Some(definition) = Arc::get_mut(&mut tool.0) {
            definition.content_hash = sha256_hex(native);
        }
        Ok(tool)
    }
}
