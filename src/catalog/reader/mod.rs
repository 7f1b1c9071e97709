//! Listings in any of the formats of the field, recognised by what is in them.
//!
//! A format is recognised per definition, not per file: real lists mix shapes.

mod anthropic;
mod builtin;
mod gemini;
mod mcp;
pub(crate) mod native;
mod openai;
mod original;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

pub use builtin::Builtin;
pub(crate) use original::Original;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::raw::{RawObject, describe};
use super::tool::{Tool, ToolBuilder};
use crate::error::{Error, ErrorKind, Result};

/// The shape of a tool definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Shape {
    /// This project's own: `name`, `description`, `parameters`, ...
    Native,
    /// An entry of an MCP `tools/list` result (`inputSchema`).
    Mcp,
    /// OpenAI chat completions: `{"type": "function", "function": {...}}`.
    OpenAiChat,
    /// OpenAI responses: `{"type": "function", "name": ...}`.
    OpenAiResponses,
    /// Anthropic messages (`input_schema`).
    Anthropic,
    /// An entry of Gemini's `functionDeclarations`.
    Gemini,
}

impl Shape {
    /// Every shape, in the order of their discriminants.
    pub(crate) const ALL: [Self; 6] = [
        Self::Native,
        Self::Mcp,
        Self::OpenAiChat,
        Self::OpenAiResponses,
        Self::Anthropic,
        Self::Gemini,
    ];
}

/// Key under which an OpenAI chat definition is nested.
const NEST: &str = "function";

/// A definition that was left out, and why.
///
/// Its [`Display`](fmt::Display) text names the file, the line or index, the tool and the field.
#[derive(Debug)]
pub struct Problem {
    error: Error,
}

impl Problem {
    /// The error that kept the definition out.
    pub fn error(&self) -> &Error {
        &self.error
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self { error }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

/// A tool and where it was read, for errors that name the place.
#[derive(Debug, Clone)]
pub(crate) struct Located {
    pub tool: Tool,
    pub place: String,
}

/// What a [`Reader`] made of one listing.
#[derive(Debug, Default)]
pub struct Listing {
    pub(crate) tools: Vec<Located>,
    pub(crate) builtins: Vec<Builtin>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) incomplete: Option<String>,
}

impl Listing {
    /// A listing of tools that were built rather than read.
    pub fn from_tools(tools: impl IntoIterator<Item = Tool>) -> Self {
        let tools = tools
            .into_iter()
            .enumerate()
            .map(|(index, tool)| Located { tool, place: format!("tool {index}") })
            .collect();
        Self { tools, ..Self::default() }
    }

    /// Reads `text` with the default [`Reader`].
    ///
    /// # Errors
    /// As [`Reader::parse`].
    pub fn parse(text: &str) -> Result<Self> {
        Reader::new().parse(text)
    }

    /// The tools, in the order of the listing.
    pub fn tools(&self) -> impl ExactSizeIterator<Item = &Tool> {
        self.tools.iter().map(|located| &located.tool)
    }

    /// The built-in provider tools, in the order of the listing.
    pub fn builtins(&self) -> &[Builtin] {
        &self.builtins
    }

    /// The definitions that were left out, in the order of the listing.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Whether the listing ends where the source's does: `false` when its last MCP page announces
    /// another one.
    pub fn is_complete(&self) -> bool {
        self.incomplete.is_none()
    }

    /// Whether there were definitions and none could be read: a damaged answer rather than a source
    /// without tools.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.tools.is_empty() && self.builtins.is_empty() && !self.problems.is_empty()
    }
}

/// Reads tool listings.
///
/// Understood are: this project's JSON (a list, or an object with `tools`) and JSONL; a result of
/// MCP's `tools/list`, bare, inside a JSON-RPC response, or a list of such pages; OpenAI tool lists
/// (chat completions and responses); Anthropic tool lists; Gemini `functionDeclarations`. Lists may
/// mix them. A tool without a namespace gets the reader's.
///
/// One bad definition is reported in [`Listing::problems`] and the others load, unless the reader
/// is [`strict`](Self::strict).
///
/// # Example: one bad tool does not take the others along
/// ```
/// use toolrack::Reader;
///
/// let text = r#"[{"name": "a", "inputSchema": {}}, {"name": "b", "inputSchema": 7}]"#;
/// let listing = Reader::new().namespace("demo").parse(text)?;
/// assert_eq!(listing.tools().len(), 1);
/// assert_eq!(
///     listing.problems()[0].to_string(),
///     "tool 1 ('b'): field 'inputSchema' is a number, not an object: give a JSON schema",
/// );
/// assert!(Reader::new().strict(true).parse(text).is_err());
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "call read() or parse()"]
pub struct Reader {
    namespace: Option<String>,
    server: bool,
    place: Option<String>,
    strict: bool,
}

impl Reader {
    /// A lenient reader with the default namespace.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the namespace of tools that name none; [`DEFAULT_NAMESPACE`](crate::DEFAULT_NAMESPACE)
    /// otherwise.
    ///
    /// A listing may name others, and a policy with them: read what a server says with
    /// [`server`](Self::server).
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Takes the listing for what a server says of itself, which decides neither whose its tools
    /// are nor who may use them.
    ///
    /// All tools are in `namespace`, whatever the listing claims. Fields that set a policy, aliases,
    /// tags or examples in this project's own form are kept as unknown ones, and only the
    /// annotations of MCP give the risk. A provider's built-in tool is a problem, as no server has
    /// one. A JSON-RPC response is always read so, with the reader's namespace.
    ///
    /// # Example
    /// ```
    /// use toolrack::Reader;
    ///
    /// let page = r#"{"tools": [{"name": "create_issue", "namespace": "github", "aliases": ["open"],
    ///                           "inputSchema": {}}, {"name": "x", "namespace": "github"}]}"#;
    /// let listing = Reader::new().server("evil").parse(page)?;
    /// let ids: Vec<String> = listing.tools().map(|tool| tool.id().to_string()).collect();
    /// assert_eq!(ids, ["evil/create_issue", "evil/x"]);
    /// # Ok::<(), toolrack::Error>(())
    /// ```
    pub fn server(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self.server = true;
        self
    }

    /// Sets what errors call the text; [`read`](Self::read) uses the path.
    pub fn place(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }

    /// Whether one bad definition refuses the whole listing; `false` by default.
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// The listing in the file at `path`.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when the file cannot be read, else as [`parse`](Self::parse).
    pub fn read(mut self, path: impl AsRef<Path>) -> Result<Listing> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|error| {
            Error::new(ErrorKind::Io, format!("cannot read {shown}: give a readable file"))
                .with_source(error)
        })?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            Error::new(
                ErrorKind::Format,
                format!("{shown} is not UTF-8 text (byte {at}): save it as UTF-8"),
            )
        })?;
        self.place.get_or_insert(shown);
        self.parse(&text)
    }

    /// The listing in `text`.
    ///
    /// # Errors
    /// [`ErrorKind::Format`] when `text` is neither JSON nor JSON lines, or JSON that holds no list
    /// of definitions; in a strict reader, the first problem.
    pub fn parse(self, text: &str) -> Result<Listing> {
        let text = text.trim_start_matches('\u{feff}');
        let server = self.server;
        let mut walk = Walk { reader: &self, server, listing: Listing::default(), count: 0 };
        if text.trim().is_empty() {
            return Err(walk.format_error("is empty: give a list of tool definitions"));
        }
        match serde_json::from_str::<&RawValue>(text) {
            Ok(whole) => walk.document(whole)?,
            Err(error) if is_json_lines(text) => walk.lines(text, &error)?,
            Err(error) => {
                return Err(walk
                    .format_error(&format!(
                        "is not JSON (line {}, column {}): mend the JSON",
                        error.line(),
                        error.column()
                    ))
                    .with_source(error));
            }
        }
        let mut listing = walk.listing;
        if self.strict && !listing.problems.is_empty() {
            return Err(listing.problems.swap_remove(0).error);
        }
        Ok(listing)
    }
}

/// Whether the first line that holds anything is a JSON object of its own, or all lines after it are:
/// a damaged first line must not take the others along. Two others at least, since the last line of a
/// document that was cut off may look like one.
fn is_json_lines(text: &str) -> bool {
    let is_object = |line: &str| RawObject::parse(line).is_some();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let Some(first) = lines.next() else { return false };
    is_object(first)
        || (first.starts_with('{') && lines.clone().nth(1).is_some() && lines.all(is_object))
}

struct Walk<'a> {
    reader: &'a Reader,
    /// Whether it is a server that speaks.
    server: bool,
    listing: Listing,
    /// Definitions seen so far.
    count: usize,
}

impl Walk<'_> {
    fn document(&mut self, whole: &RawValue) -> Result<()> {
        let text = whole.get();
        if let Ok(list) = serde_json::from_str::<Vec<Arc<RawValue>>>(text) {
            return self.list(&list);
        }
        let Some(object) = RawObject::parse(text) else {
            return Err(self.format_error(&format!(
                "holds {}: give a list of tool definitions",
                describe(text)
            )));
        };
        if let Some(page) = page(&object) {
            return self.pages(&[page]);
        }
        if is_rpc_error(&object) {
            return Err(self.rpc_error());
        }
        if !object.contains("name") && !is_definition(&object) {
            return Err(self.format_error(
                "holds an object without 'tools', 'functionDeclarations' or 'name': give a list \
                 of tool definitions",
            ));
        }
        let raw: Arc<RawValue> = Arc::from(whole.to_owned());
        self.definition(&raw, None, Shape::Native);
        Ok(())
    }

    /// A list of definitions, of pages, or of both.
    fn list(&mut self, list: &[Arc<RawValue>]) -> Result<()> {
        let mut pages: Vec<Page> = Vec::new();
        for item in list {
            let object = RawObject::parse(item.get());
            if object.as_ref().is_some_and(is_rpc_error) {
                return Err(self.rpc_error());
            }
            pages.extend(object.as_ref().and_then(page));
        }
        if !pages.is_empty() && pages.len() == list.len() {
            return self.pages(&pages);
        }
        for item in list {
            match RawObject::parse(item.get()).as_ref().and_then(page) {
                Some(page) => self.pages(&[page])?,
                None => self.definition(item, None, Shape::Native),
            }
        }
        Ok(())
    }

    fn rpc_error(&self) -> Error {
        self.format_error("holds a JSON-RPC error: list the tools again")
    }

    fn pages(&mut self, pages: &[Page]) -> Result<()> {
        for (index, Page { fields: page, is_answer }) in pages.iter().enumerate() {
            let list = page.get("tools").map(|raw| raw.get()).unwrap_or_default();
            let list: Vec<Arc<RawValue>> = serde_json::from_str(list).map_err(|_| {
                self.format_error(&format!(
                    "has {} at 'tools', not a list: give a list of tool definitions",
                    describe(list)
                ))
            })?;
            self.server = self.reader.server || *is_answer;
            for item in &list {
                self.definition(item, None, Shape::Mcp);
            }
            self.server = self.reader.server;
            let cursor = page.string("nextCursor").ok().flatten().filter(|c| !c.is_empty());
            if let (Some(cursor), true) = (cursor, index + 1 == pages.len()) {
                self.listing.incomplete = Some(format!(
                    "the last page announces another one (nextCursor '{cursor}'): list on from there"
                ));
            }
        }
        Ok(())
    }

    fn lines(&mut self, text: &str, whole: &serde_json::Error) -> Result<()> {
        let mut lines = 0;
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            lines += 1;
            match serde_json::from_str::<Box<RawValue>>(line.trim()) {
                Ok(raw) => self.definition(&Arc::from(raw), Some(index + 1), Shape::Native),
                Err(error) => {
                    let error = Error::new(
                        ErrorKind::Format,
                        format!("is not JSON (column {}): mend the line", error.column()),
                    )
                    .with_source(error);
                    self.problem(error, Some(index + 1), None);
                }
            }
        }
        if self.count == 0 || (self.listing.tools.is_empty() && lines == 1) {
            return Err(self.format_error(&format!("is not JSON ({whole}): mend the JSON")));
        }
        Ok(())
    }

    /// Reads one definition, which may be a group of them.
    fn definition(&mut self, item: &Arc<RawValue>, line: Option<usize>, fallback: Shape) {
        let Some(object) = RawObject::parse(item.get()) else {
            let message = match describe(item.get()) {
                "an object" => {
                    "has a key with an escape that is no character: mend its text".into()
                }
                other => format!("is {other}, not an object: give a tool definition"),
            };
            return self.problem(Error::new(ErrorKind::InvalidTool, message), line, None);
        };
        if let Some(group) = gemini::declarations(&object) {
            match group {
                Ok((declarations, rest)) => {
                    for declaration in &declarations {
                        self.declaration(declaration, line);
                    }
                    if let Some(rest) = rest {
                        self.builtin(rest, Some(Shape::Gemini), line);
                    }
                }
                Err(error) => self.problem(error, line, None),
            }
            return;
        }
        if builtin::is_builtin(&object) {
            self.builtin(Arc::clone(item), None, line);
            self.count += 1;
            return;
        }
        let name = tool_name(&object);
        let server = self.server;
        let built = recognise(&object, fallback).and_then(|shape| match shape {
            Shape::Native if server => mcp::of_server(&object),
            Shape::Native => native::tool(object),
            Shape::Mcp => mcp::tool(object),
            Shape::OpenAiChat => openai::nested(object),
            Shape::OpenAiResponses => openai::flat(object),
            Shape::Anthropic => anthropic::tool(object),
            Shape::Gemini => gemini::tool(object),
        });
        let built = built.and_then(|mut builder: ToolBuilder| {
            if server || builder.namespace.is_none() {
                builder.namespace.clone_from(&self.reader.namespace);
            }
            builder.build()
        });
        match built {
            Ok(tool) => {
                let place = self.place(line, Some(tool.name()));
                self.listing.tools.push(Located { tool, place });
                self.count += 1;
            }
            Err(error) => self.problem(error, line, name.as_deref()),
        }
    }

    fn builtin(&mut self, raw: Arc<RawValue>, shape: Option<Shape>, line: Option<usize>) {
        if !self.server {
            return self.listing.builtins.push(Builtin::new(raw, shape));
        }
        let error = Error::new(
            ErrorKind::InvalidTool,
            "is built into a provider, so no server has it: give tools of the server",
        );
        let place = self.place(line, None);
        self.listing.problems.push(Problem { error: error.within(place) });
    }

    /// Reads one of a group's declarations.
    fn declaration(&mut self, item: &Arc<RawValue>, line: Option<usize>) {
        let nested = RawObject::parse(item.get());
        // A group in a group is nobody's format, and following it would go as deep as the text does.
        if nested.is_some_and(|object| gemini::declarations(&object).is_some()) {
            let error = Error::new(
                ErrorKind::InvalidTool,
                "is a group inside a group: give function declarations",
            );
            return self.problem(error, line, None);
        }
        self.definition(item, line, Shape::Gemini);
    }

    fn problem(&mut self, error: Error, line: Option<usize>, name: Option<&str>) {
        let place = self.place(line, name);
        self.count += 1;
        self.listing.problems.push(Problem { error: error.within(place) });
    }

    /// `file, line 3 ('name')` or `file, tool 2 ('name')`.
    fn place(&self, line: Option<usize>, name: Option<&str>) -> String {
        let mut place = self.reader.place.as_deref().map(|p| format!("{p}, ")).unwrap_or_default();
        place += &match line {
            Some(line) => format!("line {line}"),
            None => format!("tool {}", self.count),
        };
        if let Some(name) = name {
            place += &format!(" ('{name}')");
        }
        place
    }

    fn format_error(&self, what: &str) -> Error {
        let place = self.reader.place.as_deref().unwrap_or("the listing");
        Error::new(ErrorKind::Format, format!("{place} {what}"))
    }
}

struct Page {
    fields: RawObject,
    /// Whether it is the result of a JSON-RPC response.
    is_answer: bool,
}

/// The MCP page in `object`, bare or as the result of a JSON-RPC response.
fn page(object: &RawObject) -> Option<Page> {
    if object.contains("tools") && !object.contains("name") {
        return Some(Page { fields: object.clone(), is_answer: false });
    }
    let result = object.object("result").ok().flatten()?;
    result.contains("tools").then_some(Page { fields: result, is_answer: true })
}

fn is_rpc_error(object: &RawObject) -> bool {
    object.contains("error") && object.contains("jsonrpc")
}

fn is_definition(object: &RawObject) -> bool {
    object.contains(NEST) || gemini::declarations(object).is_some() || builtin::is_builtin(object)
}

fn recognise(object: &RawObject, fallback: Shape) -> Result<Shape> {
    if object.object(NEST).ok().flatten().is_some() {
        return Ok(Shape::OpenAiChat);
    }
    for (key, shape) in [
        ("input_schema", Shape::Anthropic),
        ("inputSchema", Shape::Mcp),
        ("parametersJsonSchema", Shape::Gemini),
        ("parameters_json_schema", Shape::Gemini),
    ] {
        if object.contains(key) {
            return Ok(shape);
        }
    }
    let kind = object.string("type").ok().flatten();
    if kind.as_deref() == Some("function") {
        return Ok(Shape::OpenAiResponses);
    }
    // An entry of an MCP page has its schema elsewhere; with `parameters` it is our own.
    if fallback == Shape::Mcp && object.contains("parameters") {
        return Ok(Shape::Native);
    }
    Ok(fallback)
}

fn tool_name(object: &RawObject) -> Option<String> {
    let own = object.string("name").ok().flatten();
    own.or_else(|| object.object(NEST).ok().flatten()?.string("name").ok().flatten())
}

/// Begins a builder from the fields that all shapes share.
///
/// Of a known field that is repeated the last one counts, and the others are dropped: what is not
/// understood must not be sent as if it were.
fn common(
    shape: Shape,
    mut fields: RawObject,
    schema: &str,
    known: &'static [&'static str],
) -> Result<ToolBuilder> {
    fields.keep_last(known);
    let name = fields.string("name")?.ok_or_else(|| {
        Error::new(ErrorKind::InvalidTool, "field 'name' is missing: name the tool")
    })?;
    let mut builder =
        Tool::builder(name).description(fields.string("description")?.unwrap_or_default());
    builder.title = fields.string("title")?;
    if let Some(raw) = fields.get(schema) {
        match describe(raw.get()) {
            "an object" => builder.parameters = Some(Ok(Arc::clone(raw))),
            "null" => {}
            other => {
                return Err(Error::new(
                    ErrorKind::InvalidTool,
                    format!("field '{schema}' is {other}, not an object: give a JSON schema"),
                ));
            }
        }
    }
    builder.original = Some(Original { shape, fields, envelope: None, known });
    Ok(builder)
}
