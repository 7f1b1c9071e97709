//! The one error type of the library.

use std::error::Error as StdError;
use std::fmt;

/// Result of every fallible call in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, in one sentence that says what to do about it.
///
/// The type is opaque so that the libraries underneath (tantivy, fastembed, ONNX Runtime) can
/// change their major version without changing ours. Act on [`Error::kind`]; show the
/// [`Display`](fmt::Display) text to a person; walk [`source`](StdError::source) for the cause,
/// which the text never repeats.
///
/// # Example: acting on the kind
/// ```
/// use toolrack::{Catalog, ErrorKind};
///
/// let error = Catalog::parse("[]").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::EmptyCatalog);
/// assert_eq!(error.to_string(), "the listing holds no tool: add at least one tool definition");
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The kinds of [`Error`] that a caller can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file could not be read or written.
    Io,
    /// A listing, dataset, state or configuration is not in a format that is understood.
    Format,
    /// One tool definition breaks a rule (no name, parameters that are not an object, ...).
    InvalidTool,
    /// Two tools have the same namespace and name.
    DuplicateTool,
    /// A tool was named that the caller cannot use; the same for hidden and missing tools.
    UnknownTool,
    /// There is no tool to work with.
    EmptyCatalog,
    /// A listing was cut off (a last page that announces another).
    IncompleteListing,
    /// A setting is out of its range or contradicts another.
    InvalidSetting,
    /// Core and pinned tools alone pass the tool limit or the token budget.
    BudgetTooSmall,
    /// A vector has another length than the index or the model announces.
    DimensionMismatch,
    /// Vectors, an index or a state were made by another model or revision.
    ModelMismatch,
    /// A trace was recorded over another catalog.
    CatalogMismatch,
    /// An embedder failed, or gave a zero or non-finite vector.
    Embedder,
    /// A model file is missing, damaged or of an unexpected form.
    ModelFile,
    /// The ONNX Runtime library is missing or of a version that does not fit.
    OnnxRuntime,
    /// Stored data has a format version that this release does not read.
    FormatVersion,
    /// The lexical index could not be built or read.
    LexicalIndex,
    /// A background task was cancelled or panicked.
    Task,
}

impl Error {
    /// An error of `kind` whose text is `message`.
    ///
    /// Write the message as one sentence without a full stop that ends in what to do.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), source: None }))
    }

    /// The same error with `source` as its cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// An [`ErrorKind::Embedder`] error around a custom embedder's own failure.
    ///
    /// # Example
    /// ```
    /// use toolrack::{Error, ErrorKind};
    ///
    /// let error = Error::embedder("the embedding service answered 503");
    /// assert_eq!(error.kind(), ErrorKind::Embedder);
    /// ```
    pub fn embedder(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Embedder, message)
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The same error with `context` and a colon put before its text.
    #[must_use]
    pub(crate) fn within(mut self, context: impl fmt::Display) -> Self {
        self.0.message = format!("{context}: {}", self.0.message);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Error");
        out.field("kind", &self.0.kind).field("message", &self.0.message);
        if let Some(source) = &self.0.source {
            out.field("source", source);
        }
        out.finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

/// Shorthand for an [`ErrorKind::InvalidSetting`] error.
pub(crate) fn invalid_setting(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidSetting, message)
}
