//! Vectors that outlive an index.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::digest::sha256_hex;
use crate::embed::Embedder;
use crate::error::{Error, ErrorKind, Result};

/// First line of a stored cache: what it is and its format version.
const MAGIC: &str = "toolrack-vectors 1";

/// Key of a text: the first 32 hexadecimal digits of its SHA-256.
const KEY: usize = 32;

pub(crate) fn text_key(text: &str) -> String {
    sha256_hex(text)[..KEY].to_owned()
}

/// Tool vectors of one model, found by the text that was embedded.
///
/// Take one from an engine with [`Engine::vectors`](crate::Engine::vectors), store it, and give it
/// to the next build: only texts that it does not hold are embedded. A cache names its model; one
/// made by another model, revision or dimension is refused, never mixed in.
///
/// # Example: the second build embeds nothing
/// ```
/// use toolrack::{Catalog, Engine};
///
/// let catalog = Catalog::parse(r#"[{"name": "send_mail"}, {"name": "read_file"}]"#)?;
/// let vectors = Engine::builder(catalog.clone()).build()?.vectors().unwrap();
/// let engine = Engine::builder(catalog).vectors(vectors).build()?;
/// assert_eq!((engine.report().embedded, engine.report().reused), (0, 2));
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct VectorCache {
    fingerprint: String,
    dimensions: usize,
    vectors: HashMap<String, Arc<[f32]>>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    fingerprint: String,
    dimensions: usize,
    count: usize,
    /// Of everything after the header: a flipped sign leaves a vector's length as it was.
    sha256: String,
}

impl VectorCache {
    pub(crate) fn new(fingerprint: String, dimensions: usize) -> Self {
        Self { fingerprint, dimensions, vectors: HashMap::new() }
    }

    pub(crate) fn insert(&mut self, key: String, vector: &[f32]) {
        self.vectors.insert(key, vector.into());
    }

    pub(crate) fn get(&self, key: &str) -> Option<&[f32]> {
        self.vectors.get(key).map(|vector| &**vector)
    }

    /// The model that made the vectors, as [`Embedder::fingerprint`] names it.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// How many vectors there are.
    pub fn len(&self) -> usize {
        self.vectors.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.vectors.is_empty()
    }

    /// Whether these are vectors of `embedder`.
    ///
    /// # Errors
    /// [`ErrorKind::ModelMismatch`] or [`ErrorKind::DimensionMismatch`], naming both sides.
    pub fn check(&self, embedder: &dyn Embedder) -> Result<()> {
        let fingerprint = embedder.fingerprint();
        if self.fingerprint != fingerprint {
            return Err(Error::new(
                ErrorKind::ModelMismatch,
                format!(
                    "the vectors were made by '{}' but the model is '{fingerprint}': embed anew",
                    self.fingerprint
                ),
            ));
        }
        if self.dimensions != embedder.dimensions() {
            return Err(Error::new(
                ErrorKind::DimensionMismatch,
                format!(
                    "the vectors of '{fingerprint}' have {} dimensions but the model {}: embed anew",
                    self.dimensions,
                    embedder.dimensions()
                ),
            ));
        }
        Ok(())
    }

    /// Stores the cache at `path`, first aside and then renamed, so that no half file is left.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let mut keys: Vec<&String> = self.vectors.keys().collect();
        keys.sort();
        let mut body = Vec::with_capacity(keys.len() * (KEY + 4 * self.dimensions));
        for key in keys {
            body.extend_from_slice(key.as_bytes());
            for value in self.vectors[key].iter() {
                body.extend_from_slice(&value.to_le_bytes());
            }
        }
        let header = Header {
            fingerprint: self.fingerprint.clone(),
            dimensions: self.dimensions,
            count: self.vectors.len(),
            sha256: sha256_hex(&body),
        };
        let mut bytes = format!("{MAGIC}\n").into_bytes();
        serde_json::to_writer(&mut bytes, &header).map_err(|error| {
            Error::new(ErrorKind::Io, "the cache cannot be written").with_source(error)
        })?;
        bytes.push(b'\n');
        bytes.append(&mut body);
        let aside = path.with_extension("partial");
        std::fs::write(&aside, bytes).and_then(|()| std::fs::rename(&aside, path)).map_err(
            |error| {
                Error::new(
                    ErrorKind::Io,
                    format!("cannot write {}: give a writable place", path.display()),
                )
                .with_source(error)
            },
        )
    }

    /// The cache stored at `path`.
    ///
    /// # Errors
    /// [`ErrorKind::Io`], [`ErrorKind::FormatVersion`] when another release wrote it,
    /// [`ErrorKind::Format`] when it is damaged.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let shown = path.as_ref().display().to_string();
        let bytes = std::fs::read(&path).map_err(|error| {
            Error::new(ErrorKind::Io, format!("cannot read {shown}: give a readable file"))
                .with_source(error)
        })?;
        let damaged = |what: &str| {
            Error::new(
                ErrorKind::Format,
                format!("{shown} is damaged ({what}): remove it and embed anew"),
            )
        };
        let mut lines = bytes.splitn(3, |&byte| byte == b'\n');
        let (magic, header, body) = (lines.next(), lines.next(), lines.next());
        if magic != Some(MAGIC.as_bytes()) {
            return Err(Error::new(
                ErrorKind::FormatVersion,
                format!("{shown} is no '{MAGIC}' file: remove it and embed anew"),
            ));
        }
        let header: Header = serde_json::from_slice(header.unwrap_or_default())
            .map_err(|error| damaged("its header").with_source(error))?;
        let record = header
            .dimensions
            .checked_mul(4)
            .and_then(|vector| vector.checked_add(KEY))
            .filter(|_| header.dimensions > 0)
            .ok_or_else(|| damaged("its dimensions"))?;
        let body = body.unwrap_or_default();
        if header.count.checked_mul(record) != Some(body.len()) {
            return Err(damaged("its length"));
        }
        if sha256_hex(body) != header.sha256 {
            return Err(damaged("its checksum"));
        }
        let mut cache = Self::new(header.fingerprint, header.dimensions);
        for record in body.chunks_exact(record) {
            let key = std::str::from_utf8(&record[..KEY]).map_err(|_| damaged("a key"))?;
            let vector: Vec<f32> = record[KEY..]
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                .collect();
            let norm: f32 = vector.iter().map(|v| v * v).sum();
            if !(0.99..1.01).contains(&norm) {
                return Err(damaged("a vector that is not of length 1"));
            }
            cache.insert(key.to_owned(), &vector);
        }
        Ok(cache)
    }
}

impl fmt::Debug for VectorCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VectorCache")
            .field("fingerprint", &self.fingerprint)
            .field("dimensions", &self.dimensions)
            .field("len", &self.len())
            .finish()
    }
}
