//! Labelled requests over a catalog.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::lines::{Lines, read_text};
use super::query::{Query, RawQuery, ToolNames};
use super::traced;
use super::trec::Qrels;
use crate::catalog::{Catalog, Reader, Snapshot, Tool};
use crate::digest::sha256_hex;
use crate::error::{Error, ErrorKind, Result};

/// File names of a dataset folder.
const TOOLS: [&str; 2] = ["tools.jsonl", "tools.json"];
const QUERIES: &str = "queries.jsonl";

/// Which field of a query is its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TextField {
    /// `request` where there is one, else `query`. The default.
    #[default]
    Request,
    /// Always `query`.
    Query,
}

/// Which tools of a query are gold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Gold {
    /// All of `tools`. The default.
    #[default]
    All,
    /// `main` where there is one, else all of `tools`: for sets whose further gold tools follow
    /// from dependencies rather than from the request.
    Main,
}

/// How a [`Dataset`] is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatasetOptions {
    /// Which field is the request.
    pub text: TextField,
    /// Which tools are gold.
    pub gold: Gold,
    /// A TREC qrels file that replaces the labels; queries that it does not judge are left out.
    pub qrels: Option<PathBuf>,
}

impl DatasetOptions {
    /// Sets which field is the request.
    #[must_use]
    pub fn text(mut self, text: TextField) -> Self {
        self.text = text;
        self
    }

    /// Sets which tools are gold.
    #[must_use]
    pub fn gold(mut self, gold: Gold) -> Self {
        self.gold = gold;
        self
    }

    /// Sets a TREC qrels file that replaces the labels.
    #[must_use]
    pub fn qrels(mut self, path: impl Into<PathBuf>) -> Self {
        self.qrels = Some(path.into());
        self
    }
}

/// A catalog and labelled requests: a folder with `tools.jsonl` (or `tools.json`, in any format that
/// a [`Reader`] knows) and `queries.jsonl`.
///
/// A line of `queries.jsonl` has `id`, `query` and `tools` (the names of the gold tools; empty when
/// no tool fits), and may have `kind`, `request` (the request proper, where `query` is longer),
/// `alternatives` (gold name to the names that count as hits too), `steps` (calls in order), `turns`
/// (`[{query, steps}]`), `candidates`, `main`, `group`, `domain`, `category` and `template`. Other
/// fields are allowed. Tools are named by their name, or by `namespace/name` where two have one
/// name. Tools marked `"core": true` are always sent and therefore not ranked.
///
/// # Example
/// ```
/// use toolrack::eval::Dataset;
///
/// let set = Dataset::parse(
///     "demo",
///     r#"[{"name": "send_mail"}, {"name": "read_file"}]"#,
///     r#"{"id": "1", "query": "write to Ana", "tools": ["send_mail"]}"#,
/// )?;
/// assert_eq!((set.len(), set.queries()[0].slots[0].tool), (1, 0));
///
/// let error = Dataset::parse(
///     "demo",
///     r#"[{"name": "send_mail"}]"#,
///     r#"{"id": "1", "query": "write to Ana", "tools": ["sendmail"]}"#,
/// ).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "demo/queries.jsonl, line 1: gold tool 'sendmail' is not in the catalog: name a tool of \
///      demo/tools.jsonl",
/// );
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Dataset {
    name: String,
    catalog: Catalog,
    snapshot: Arc<Snapshot>,
    queries: Vec<Query>,
    core: Vec<usize>,
    fingerprint: String,
}

impl Dataset {
    /// The dataset in the folder at `path`, or beside the queries file at `path`.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] for files that cannot be read; [`ErrorKind::Format`],
    /// [`ErrorKind::InvalidTool`], [`ErrorKind::DuplicateTool`] or [`ErrorKind::EmptyCatalog`] for
    /// broken ones, naming file and line: a line that is no JSON or longer than 16 MiB, a gold name
    /// that is not in the catalog, an id that occurs twice, an empty file.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        Self::read_with(path, &DatasetOptions::default())
    }

    /// Like [`read`](Self::read), with options.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_with(path: impl AsRef<Path>, options: &DatasetOptions) -> Result<Self> {
        let path = path.as_ref();
        let folder = if path.is_file() { path.parent().unwrap_or(path) } else { path };
        let queries = if path.is_file() { path.to_owned() } else { folder.join(QUERIES) };
        let (tools, catalog) = read_catalog(folder)?;
        if !queries.is_file() {
            return Err(Error::new(
                ErrorKind::Io,
                format!(
                    "{} has tools but no {QUERIES}: add labelled queries, or lint and search it as \
                     a catalog",
                    folder.display()
                ),
            ));
        }
        let resolved = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let name = resolved.file_name().map_or_else(
            || folder.display().to_string(),
            |name| name.to_string_lossy().into_owned(),
        );
        let lines = Lines::open(&queries)?.collect::<Result<Vec<_>>>()?;
        Self::assemble(name, catalog, (&tools, &queries), &lines, options)
    }

    /// The dataset `name` out of the text of both files.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(name: &str, tools: &str, queries: &str) -> Result<Self> {
        let folder = PathBuf::from(name);
        let (tools_path, queries_path) = (folder.join(TOOLS[0]), folder.join(QUERIES));
        let reader = Reader::new().strict(true).place(tools_path.display().to_string());
        let catalog = Catalog::from_listing(name, reader.parse(tools)?)?;
        let lines: Vec<(usize, String)> = queries
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
            .map(|(at, line)| (at + 1, line.to_owned()))
            .collect();
        let options = DatasetOptions::default();
        Self::assemble(name.to_owned(), catalog, (&tools_path, &queries_path), &lines, &options)
    }

    /// Runs in the file at `path` over a catalog of its own: either lines as in `queries.jsonl`, of
    /// which `turns` or `steps` matter, or what a session's trace wrote. Of a trace, each `open` event
    /// begins a run, each message a turn, and each call that was let through is a step.
    ///
    /// # Errors
    /// As [`read`](Self::read); of a trace also when a line holds no event, or no call was let through.
    pub fn read_trace(path: impl AsRef<Path>, catalog: Catalog) -> Result<Self> {
        let path = path.as_ref();
        let lines = traced::runs(path, Lines::open(path)?.collect::<Result<Vec<_>>>()?)?;
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let options = DatasetOptions::default();
        let tools = PathBuf::from("the catalog");
        Self::assemble(name.unwrap_or_default(), catalog, (&tools, path), &lines, &options)
    }

    /// The dataset folders at `path`: itself, or the folders in it that have queries, by name.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when there is none.
    pub fn discover(path: impl AsRef<Path>) -> Result<Vec<PathBuf>> {
        let path = path.as_ref();
        if path.is_file() || path.join(QUERIES).is_file() || has_tools(path) {
            return Ok(vec![path.to_owned()]);
        }
        let mut found: Vec<PathBuf> = std::fs::read_dir(path)
            .map_err(|error| {
                let what = format!("cannot read {}: give a dataset's folder", path.display());
                Error::new(ErrorKind::Io, what).with_source(error)
            })?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|folder| folder.join(QUERIES).is_file())
            .collect();
        found.sort();
        if found.is_empty() {
            return Err(Error::new(
                ErrorKind::Io,
                format!(
                    "{} holds no dataset: give a folder with {} and {QUERIES}",
                    path.display(),
                    TOOLS[0]
                ),
            ));
        }
        Ok(found)
    }

    fn assemble(
        name: String,
        catalog: Catalog,
        (tools, path): (&Path, &Path),
        lines: &[(usize, String)],
        options: &DatasetOptions,
    ) -> Result<Self> {
        let snapshot = catalog.snapshot();
        let names = ToolNames::of(&snapshot, tools);
        let mut queries = Vec::with_capacity(lines.len());
        let mut ids: HashMap<String, usize> = HashMap::new();
        let mut hashed = String::new();
        for (number, line) in lines {
            let within = |what: &str| Lines::error(path, *number, what);
            let raw: RawQuery = serde_json::from_str(line).map_err(|error| {
                let error = Lines::json_error(&error);
                within(&format!("is no query ({error}): write an object with id, query and tools"))
            })?;
            // Whichever field is asked with: what was fitted on a request was fitted on its query.
            let asked = raw.asked(TextField::Request).unwrap_or_default();
            let query = raw.resolve(*number, options, &names).map_err(|what| within(&what))?;
            if let Some(first) = ids.insert(query.id.clone(), *number) {
                return Err(within(&format!(
                    "id '{}' is that of line {first}: give every query an id of its own",
                    query.id
                )));
            }
            hashed.push_str(&query.id);
            hashed.push('\n');
            hashed.push_str(&asked);
            hashed.push('\n');
            queries.push(query);
        }
        if queries.is_empty() {
            return Err(Error::new(
                ErrorKind::Format,
                format!("{} is empty: write one query a line", path.display()),
            ));
        }
        let mut core = Vec::new();
        for (row, tool) in snapshot.tools().enumerate() {
            if is_core(tool) {
                core.push(row);
            }
        }
        let fingerprint = sha256_hex(hashed.as_bytes());
        let mut set = Self { name, catalog, snapshot, queries, core, fingerprint };
        if let Some(qrels) = &options.qrels {
            let qrels = Qrels::read(qrels, &set)?;
            qrels.apply(&mut set.queries);
        }
        Ok(set)
    }

    /// The folder's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tools, ready for an engine.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The tools in catalog order; rows are places in it.
    pub fn tools(&self) -> impl ExactSizeIterator<Item = &Tool> {
        self.snapshot.tools()
    }

    /// How many tools there are.
    pub fn n_tools(&self) -> usize {
        self.snapshot.len()
    }

    /// The name by which the dataset's files call the tool in `row`.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn tool_name(&self, row: usize) -> String {
        let tool = self.snapshot.tool(row);
        match self.snapshot.names().by_name(tool.name()) {
            [_, _, ..] => tool.id().to_string(),
            _ => tool.name().to_owned(),
        }
    }

    /// The queries in the order of the file.
    pub fn queries(&self) -> &[Query] {
        &self.queries
    }

    /// How many queries there are.
    pub fn len(&self) -> usize {
        self.queries.len()
    }

    /// Whether there is no query; a dataset that was read has at least one.
    pub fn is_empty(&self) -> bool {
        self.queries.is_empty()
    }

    /// Rows of tools that are always sent and therefore not ranked.
    pub fn core(&self) -> &[usize] {
        &self.core
    }

    /// SHA-256 over the ids and requests of all queries, in order: what tuned settings remember.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The same dataset with the queries that `keep` keeps; its fingerprint stays.
    #[must_use]
    pub fn filtered(&self, keep: impl Fn(&Query) -> bool) -> Self {
        let mut set = self.clone();
        set.queries.retain(keep);
        set
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The row that `name` stands for in the dataset's files.
    pub(crate) fn row(&self, name: &str) -> Option<usize> {
        ToolNames::of(&self.snapshot, Path::new("")).row(name).ok()
    }
}

fn has_tools(folder: &Path) -> bool {
    TOOLS.iter().any(|name| folder.join(name).is_file())
}

fn read_catalog(folder: &Path) -> Result<(PathBuf, Catalog)> {
    let Some(path) = TOOLS.iter().map(|name| folder.join(name)).find(|path| path.is_file()) else {
        return Err(Error::new(
            ErrorKind::Io,
            format!(
                "{} has no {}: give a dataset's folder, with {} and {QUERIES}",
                folder.display(),
                TOOLS[0],
                TOOLS[0]
            ),
        ));
    };
    let reader = Reader::new().strict(true);
    let listing = if path.extension().is_some_and(|ext| ext == "jsonl") {
        reader.place(path.display().to_string()).parse(&read_text(&path)?)?
    } else {
        reader.read(&path)?
    };
    let catalog = Catalog::from_listing(path.display().to_string(), listing).map_err(|error| {
        if error.kind() == ErrorKind::EmptyCatalog { error.within(path.display()) } else { error }
    })?;
    Ok((path, catalog))
}

/// Whether the listing marks a tool as always sent.
fn is_core(tool: &Tool) -> bool {
    tool.original_field("core").is_some_and(|value| value == "true")
}
