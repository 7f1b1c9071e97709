//! The list of all tools, in immutable versions.

mod access;
mod findings;
mod names;
mod policy;
mod provider_name;
mod raw;
mod reader;
mod refresh;
mod schema;
mod snapshot;
mod texts;
mod tool;
mod trust;
mod visible_tool;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

pub(crate) use access::Condition;
pub use findings::{Finding, FindingKind};
pub(crate) use names::MAX_ALIKE;
pub use policy::{Risk, ToolPolicy};
pub use provider_name::MAX_PROVIDER_NAME;
pub(crate) use provider_name::provider_name;
pub(crate) use provider_name::readable;

pub(crate) use raw::RawObject;
pub use reader::{Builtin, Listing, Problem, Reader, Shape};
pub use refresh::{CatalogDiff, SourceUpdate};
pub(crate) use schema::{SchemaText, schema_text};
pub use snapshot::{Snapshot, SourceStatus};
pub use tool::{DEFAULT_NAMESPACE, Tool, ToolBuilder, ToolId};
pub use trust::{TrustPolicy, Withheld, WithheldReason};
pub use visible_tool::VisibleTool;

use crate::error::{Error, ErrorKind, Result, invalid_setting};

/// Name of the source of tools that were given without one.
const DEFAULT_SOURCE: &str = "catalog";

/// The list of all tools, published as immutable [`Snapshot`]s.
///
/// Readers take the current snapshot without waiting and keep it for as long as they like; a
/// refresh builds the next one aside and swaps it in whole. Cloning gives another handle on the
/// same catalog.
///
/// # Example: a refresh that fails changes nothing
/// ```
/// use toolrack::{Catalog, Listing, SourceUpdate};
///
/// let catalog = Catalog::parse(r#"[{"name": "read_file"}, {"name": "write_file"}]"#)?;
/// let before = catalog.snapshot();
///
/// let twice = Listing::parse(r#"[{"name": "a"}, {"name": "a"}]"#)?;
/// let error = catalog.refresh("files", twice).unwrap_err();
/// assert!(error.to_string().contains("tool 0 ('a')") && error.to_string().contains("tool 1 ('a')"));
/// assert_eq!(catalog.snapshot().version(), before.version());
///
/// let diff = catalog.refresh("files", Listing::parse(r#"[{"name": "a"}]"#)?)?;
/// assert_eq!(diff.added.len(), 1);
/// assert_eq!((before.len(), catalog.snapshot().len()), (2, 3));
///
/// catalog.refresh("files", SourceUpdate::Unreachable("timed out".into()))?;
/// assert_eq!(catalog.snapshot().len(), 3);
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Clone)]
pub struct Catalog {
    shared: Arc<Shared>,
}

struct Shared {
    current: ArcSwap<Snapshot>,
    /// Held while the next snapshot is made, so that two refreshes cannot lose one another's work.
    writer: Mutex<()>,
}

impl Catalog {
    /// A catalog without tools, to be filled by [`refresh`](Self::refresh) as sources answer.
    pub fn empty() -> Self {
        Self::trusting(TrustPolicy::default())
    }

    /// A catalog without tools that takes from its sources what `trust` allows.
    pub fn trusting(trust: TrustPolicy) -> Self {
        let (builtins, sources) = Default::default();
        let snapshot = Snapshot::assemble(0, Vec::new(), trust, builtins, sources);
        // Nothing cannot be listed twice.
        let snapshot = snapshot.unwrap_or_else(|error| unreachable!("{error}"));
        let shared = Shared { current: ArcSwap::from_pointee(snapshot), writer: Mutex::new(()) };
        Self { shared: Arc::new(shared) }
    }

    /// The catalog in the file at `path`, in any format that a [`Reader`] knows.
    ///
    /// Definitions that cannot be read are left out and reported by [`Snapshot::problems`]; the
    /// source is called by the path.
    ///
    /// # Errors
    /// As [`Reader::read`], and [`ErrorKind::DuplicateTool`] or [`ErrorKind::EmptyCatalog`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let source = path.as_ref().display().to_string();
        Self::from_listing(source, Reader::new().read(path)?)
    }

    /// The catalog in `text`; like [`read`](Self::read).
    ///
    /// # Errors
    /// As [`read`](Self::read), without the file.
    pub fn parse(text: &str) -> Result<Self> {
        Self::from_listing(DEFAULT_SOURCE, Reader::new().parse(text)?)
    }

    /// A catalog of tools that were built.
    ///
    /// # Errors
    /// [`ErrorKind::DuplicateTool`] or [`ErrorKind::EmptyCatalog`].
    pub fn from_tools(tools: impl IntoIterator<Item = Tool>) -> Result<Self> {
        Self::from_listing(DEFAULT_SOURCE, Listing::from_tools(tools))
    }

    /// A catalog of one listing from `source`.
    ///
    /// A listing that ends in an announced further page is taken as it is and reported in
    /// [`Snapshot::problems`].
    ///
    /// # Errors
    /// [`ErrorKind::DuplicateTool`], or [`ErrorKind::EmptyCatalog`] when no definition could be
    /// read.
    pub fn from_listing(source: impl Into<String>, mut listing: Listing) -> Result<Self> {
        if listing.tools.is_empty() && listing.builtins.is_empty() {
            return Err(match listing.problems.first() {
                None => Error::new(
                    ErrorKind::EmptyCatalog,
                    "the listing holds no tool: add at least one tool definition",
                ),
                Some(first) => Error::new(
                    ErrorKind::EmptyCatalog,
                    format!(
                        "none of the {} definitions can be read, the first because {first}",
                        listing.problems.len()
                    ),
                ),
            });
        }
        let incomplete = listing.incomplete.take();
        if let Some(reason) = incomplete {
            let error = Error::new(ErrorKind::IncompleteListing, reason);
            listing.problems.push(error.into());
        }
        let catalog = Self::empty();
        catalog.refresh(source, listing)?;
        Ok(catalog)
    }

    /// The current snapshot. Never waits.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.current.load_full()
    }

    /// Takes in what became of `source`: a [`Listing`] or another [`SourceUpdate`].
    ///
    /// An engine over this catalog does not see the change before
    /// [`Engine::sync`](crate::Engine::sync); refresh through
    /// [`Engine::refresh`](crate::Engine::refresh) to do both in one step.
    ///
    /// # Errors
    /// [`ErrorKind::IncompleteListing`], [`ErrorKind::DuplicateTool`], or [`ErrorKind::InvalidTool`]
    /// when there are definitions and none can be read; nothing has changed then.
    pub fn refresh(
        &self,
        source: impl Into<String>,
        update: impl Into<SourceUpdate>,
    ) -> Result<CatalogDiff> {
        self.refresh_all(vec![(source.into(), update.into())])
    }

    /// Takes in the state of several sources in one version step.
    ///
    /// # Errors
    /// As [`refresh`](Self::refresh), and [`ErrorKind::InvalidSetting`] when a source is named twice;
    /// nothing has changed then, in any source.
    pub fn refresh_all(&self, updates: Vec<(String, SourceUpdate)>) -> Result<CatalogDiff> {
        self.refresh_with(updates, |_, _| Ok(()))
    }

    /// Changes what is taken from sources; it holds for what they listed already.
    ///
    /// As with [`refresh`](Self::refresh), an engine sees the change after
    /// [`Engine::sync`](crate::Engine::sync), or in one step through
    /// [`Engine::set_trust`](crate::Engine::set_trust).
    ///
    /// # Errors
    /// [`ErrorKind::DuplicateTool`] when two tools of one id are now taken; nothing has changed then.
    pub fn set_trust(&self, trust: TrustPolicy) -> Result<CatalogDiff> {
        self.trust_with(|_| Ok(trust), |_, _| Ok(()))
    }

    /// Accepts a tool, or a built-in one, as a source lists it now, by the hash that somebody looked
    /// at: it is pinned to it, and no longer withheld for a change or a finding.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownTool`] when no source lists the tool, [`ErrorKind::InvalidSetting`] when it
    /// has another hash by now; nothing has changed then.
    pub fn accept(&self, tool: &ToolId, hash: &str) -> Result<CatalogDiff> {
        self.trust_with(|snapshot| accepting(snapshot, tool, hash), |_, _| Ok(()))
    }

    /// Like [`set_trust`](Self::set_trust), with a policy made from the current snapshot.
    pub(crate) fn trust_with(
        &self,
        trust: impl FnOnce(&Snapshot) -> Result<TrustPolicy>,
        before_publishing: impl FnOnce(&Arc<Snapshot>, &CatalogDiff) -> Result<()>,
    ) -> Result<CatalogDiff> {
        self.change(Vec::new(), trust, before_publishing)
    }

    /// Like [`refresh_all`](Self::refresh_all); `before_publishing` may still refuse the next
    /// snapshot.
    pub(crate) fn refresh_with(
        &self,
        updates: Vec<(String, SourceUpdate)>,
        before_publishing: impl FnOnce(&Arc<Snapshot>, &CatalogDiff) -> Result<()>,
    ) -> Result<CatalogDiff> {
        self.change(updates, |snapshot| Ok(snapshot.trust().clone()), before_publishing)
    }

    fn change(
        &self,
        updates: Vec<(String, SourceUpdate)>,
        trust: impl FnOnce(&Snapshot) -> Result<TrustPolicy>,
        before_publishing: impl FnOnce(&Arc<Snapshot>, &CatalogDiff) -> Result<()>,
    ) -> Result<CatalogDiff> {
        // A panic of another writer left the old snapshot in place, which is a good one.
        let _writing = self.shared.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.snapshot();
        let (snapshot, diff) = refresh::next(&old, updates, trust(&old)?)?;
        if let Some(snapshot) = snapshot {
            let snapshot = Arc::new(snapshot);
            before_publishing(&snapshot, &diff)?;
            self.shared.current.store(snapshot);
        }
        Ok(diff)
    }
}

/// The policy of `snapshot` with `tool` pinned to the `hash` that it is listed with.
pub(crate) fn accepting(snapshot: &Snapshot, tool: &ToolId, hash: &str) -> Result<TrustPolicy> {
    let listed = snapshot.listed();
    let tools = listed.iter().map(|entry| (entry.tool.id(), entry.tool.content_hash()));
    let builtins = snapshot.listed_builtins().map(|one| (one.id(), one.content_hash()));
    let all = tools.chain(builtins).filter(|(id, _)| *id == tool);
    let hashes: Vec<&str> = all.map(|(_, hash)| hash).collect();
    match hashes.first() {
        None => Err(Error::new(
            ErrorKind::UnknownTool,
            format!("no source lists a tool '{tool}': accept one that is withheld"),
        )),
        Some(now) if !hashes.contains(&hash) => Err(invalid_setting(format!(
            "tool '{tool}' has the hash {now} by now: look at it again and accept that one"
        ))),
        Some(_) => Ok(snapshot.trust().clone().pin(tool.clone(), hash)),
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let snapshot = self.snapshot();
        f.debug_struct("Catalog")
            .field("version", &snapshot.version())
            .field("tools", &snapshot.len())
            .finish_non_exhaustive()
    }
}
