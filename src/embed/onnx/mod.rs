//! Local ONNX models, run by fastembed on ONNX Runtime.

mod graph;
mod options;
mod runtime;
mod settings;
mod turns;

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use fastembed::{InitOptionsUserDefined, TextEmbedding, TokenizerFiles, UserDefinedEmbeddingModel};
use ort::session::builder::AutoDevicePolicy;

pub use options::{OnnxOptions, Pooling};
pub(super) use runtime::{ensure, no_panic};
use settings::Settings;
use turns::Turns;

use super::static_model::clip;
use super::{Embedder, EmbedderProfile, folder};
use crate::digest::sha256_hex;
use crate::error::{Error, ErrorKind, Result};

/// An ONNX sentence-embedding model from a local folder.
///
/// The folder holds `model.onnx` (or another [`file`](OnnxOptions::file)), `tokenizer.json` and, as
/// far as there are any, `toolrack.json` and the config files that come with a sentence-transformers
/// model. Nothing is downloaded.
///
/// The ONNX Runtime library is loaded when the first model is opened, from
/// [`OnnxOptions::library`], else `ORT_DYLIB_PATH`, else beside the executable (or in `lib` beside
/// its folder), else in `onnxruntime` beside the model folder, else from the system's library path.
/// A process keeps the one that it has loaded; an open that failed for want of it may be repeated.
///
/// Clones share one model. Calls from several threads are safe and take turns, run by run, so that a
/// request does not wait for a whole catalog. Open the folder twice to embed in parallel.
///
/// # Example
/// ```no_run
/// use toolrack::{Embedder, OnnxEmbedder};
///
/// let model = OnnxEmbedder::open("models/minilm-tuned")?;
/// let vectors = model.embed_queries(&["send an email"])?;
/// assert_eq!(vectors[0].len(), 384);
/// # Ok::<(), toolrack::Error>(())
/// ```
///
/// # Example: a folder that is not there
/// ```
/// use toolrack::{ErrorKind, OnnxEmbedder};
///
/// let error = OnnxEmbedder::open("no/such/model").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::ModelFile);
/// assert_eq!(error.to_string(), "there is no folder no/such/model: point at one that holds the model");
/// ```
#[derive(Clone)]
pub struct OnnxEmbedder {
    model: Arc<Model>,
}

/// A loaded model and what belongs to it.
pub(super) struct Model {
    pub session: Session,
    pub query_prefix: String,
    pub document_prefix: String,
    pub dimensions: usize,
    pub max_tokens: usize,
    pub batch_size: usize,
    /// Texts in one run of the model, at most.
    pub run_size: usize,
    pub fingerprint: String,
    pub profile: EmbedderProfile,
}

impl OnnxEmbedder {
    /// The model in `folder`, as its files describe it.
    ///
    /// # Errors
    /// As for [`open_with`](Self::open_with).
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(folder, OnnxOptions::default())
    }

    /// The model in `folder`, with `options` before what its files say.
    ///
    /// One text is embedded on the way, so that a model that loads but cannot run is found here.
    ///
    /// # Errors
    /// - [`ErrorKind::InvalidSetting`]: an option is out of its range or past the model's limit.
    /// - [`ErrorKind::ModelFile`]: a file is missing, damaged, has another checksum than the
    ///   manifest says, or is no text embedding model.
    /// - [`ErrorKind::Io`]: a file is there but cannot be read.
    /// - [`ErrorKind::OnnxRuntime`]: the library is missing, damaged or too old.
    /// - [`ErrorKind::DimensionMismatch`]: the vectors have another length than the manifest says.
    pub fn open_with(folder: impl AsRef<Path>, options: OnnxOptions) -> Result<Self> {
        let folder = folder.as_ref();
        options.validate()?;
        // Everything that can be checked without the library comes first: whoever lacks both
        // should not have to install one to learn of the other.
        let settings = Settings::read(folder, &options)?;
        let onnx = folder::read(folder, &settings.file)?;
        let tokenizer_bytes = folder::read(folder, "tokenizer.json")?;
        let place = folder.join(&settings.file).display().to_string();
        let sha256 = sha256_hex(&onnx);
        if let Some(expected) = settings.checksum()
            && !expected.eq_ignore_ascii_case(&sha256)
        {
            return Err(Error::new(
                ErrorKind::ModelFile,
                format!(
                    "{place} has sha256 {sha256} but its manifest says {expected}: fetch it again"
                ),
            ));
        }
        let graph = graph::check(&onnx, &place)?;
        let tokenizer = settings.tokenizer(folder, &tokenizer_bytes)?;

        ensure(options.library.as_deref(), Some(folder))?;
        let mut model = UserDefinedEmbeddingModel::new(onnx, placeholder_tokenizer())
            .with_pooling(settings.pooling.into());
        let mut weights = sha256.clone();
        for suffix in ["_data", ".data"] {
            // Models of more than 2 GB keep their weights beside the graph.
            let name = format!("{}{suffix}", settings.file);
            if folder.join(&name).is_file() {
                let bytes = folder::read(folder, &name)?;
                weights = sha256_hex(weights + &sha256_hex(&bytes));
                let name = Path::new(&name).file_name().unwrap_or_default();
                model = model.with_external_initializer(name.to_string_lossy().into(), bytes);
            }
        }
        let init = InitOptionsUserDefined::new()
            .with_max_length(settings.max_tokens)
            .with_intra_threads(options.threads_or_default())
            // Or CoreML takes over on a Mac, with other vectors.
            .with_auto_device(AutoDevicePolicy::PreferCPU);
        let mut embedding = no_panic(ErrorKind::OnnxRuntime, || {
            TextEmbedding::try_new_from_user_defined(model, init)
                .map_err(|error| explain(error, &place))
        })?;
        embedding.tokenizer = tokenizer;

        let session = Session::new(embedding);
        let dimensions = probe(&session, &place)?;
        if let Some(expected) = settings.manifest.dimensions
            && expected != dimensions
        {
            return Err(Error::new(
                ErrorKind::DimensionMismatch,
                format!(
                    "{place} gives vectors of {dimensions} dimensions but its manifest says \
                     {expected}: mend the manifest or fetch the model again"
                ),
            ));
        }
        // The tokenizer and the prefixes change the vectors too.
        let rest = [
            &tokenizer_bytes,
            settings.query_prefix.as_bytes(),
            settings.document_prefix.as_bytes(),
        ];
        let fingerprint = format!(
            "{}/{}/{}/{dimensions}/{}/{}/{}",
            settings.name,
            settings.revision,
            &weights[..12],
            settings.pooling,
            settings.max_tokens,
            &sha256_hex(rest.map(sha256_hex).concat())[..8],
        );
        Ok(Self::from_model(Model {
            session,
            query_prefix: settings.query_prefix,
            document_prefix: settings.document_prefix,
            dimensions,
            max_tokens: settings.max_tokens,
            batch_size: options.batch_size_or_default(),
            run_size: options.run_size(graph.dynamic),
            fingerprint,
            profile: settings.manifest.profile.unwrap_or_default(),
        }))
    }

    pub(super) fn from_model(model: Model) -> Self {
        Self { model: Arc::new(model) }
    }

    fn embed(&self, prefix: &str, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let model = &*self.model;
        let whole: Vec<Cow<'_, str>> = texts
            .iter()
            .map(|text| match clip(text, model.max_tokens) {
                text if prefix.is_empty() => Cow::Borrowed(text),
                text => Cow::Owned(format!("{prefix}{text}")),
            })
            .collect();
        // A batch is padded to its longest text, so texts of like length go together. The engine
        // has sorted its own; this is for a direct caller.
        let mut order: Vec<usize> = (0..whole.len()).collect();
        if whole.len() > model.run_size {
            order.sort_by_key(|&row| whole[row].len());
        }
        let mut vectors = vec![Vec::new(); texts.len()];
        for rows in order.chunks(model.run_size) {
            let batch: Vec<&str> = rows.iter().map(|&row| &*whole[row]).collect();
            let got = model.session.run(&batch).map_err(|error| {
                Error::embedder(format!(
                    "model '{}' failed on {} texts: lower max_tokens (now {}) or check the model",
                    model.fingerprint,
                    batch.len(),
                    model.max_tokens
                ))
                .with_source(error)
            })?;
            for (&row, vector) in rows.iter().zip(got) {
                vectors[row] = vector;
            }
        }
        Ok(vectors)
    }
}

impl Embedder for OnnxEmbedder {
    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        self.embed(&self.model.document_prefix, texts)
    }

    fn embed_queries(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        self.embed(&self.model.query_prefix, texts)
    }

    fn dimensions(&self) -> usize {
        self.model.dimensions
    }

    fn max_tokens(&self) -> usize {
        self.model.max_tokens
    }

    fn fingerprint(&self) -> String {
        self.model.fingerprint.clone()
    }

    fn batch_size(&self) -> usize {
        self.model.batch_size
    }

    fn profile(&self) -> EmbedderProfile {
        self.model.profile.clone()
    }
}

impl fmt::Debug for OnnxEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnnxEmbedder")
            .field("fingerprint", &self.model.fingerprint)
            .field("dimensions", &self.model.dimensions)
            .field("max_tokens", &self.model.max_tokens)
            .finish_non_exhaustive()
    }
}

impl From<Pooling> for fastembed::Pooling {
    fn from(pooling: Pooling) -> Self {
        match pooling {
            Pooling::Mean => Self::Mean,
            Pooling::Cls => Self::Cls,
        }
    }
}

/// A fastembed model behind a lock.
///
/// Locked because fastembed embeds through `&mut self` (ort's `Session::run` asks for it) while
/// [`Embedder`] is shared; without async because no await is held and a run takes milliseconds.
pub(super) struct Session(Turns<TextEmbedding>);

impl Session {
    pub(super) fn new(embedding: TextEmbedding) -> Self {
        Self(Turns::new(embedding))
    }

    /// One vector a text, all texts in one run of the model.
    fn run(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let failed = |error| {
            Error::embedder("ONNX Runtime refused the texts: check the model").with_source(error)
        };
        self.0.run(|embedding| {
            no_panic(ErrorKind::Embedder, || {
                embedding.embed(texts, Some(texts.len().max(1))).map_err(failed)
            })
        })
    }
}

/// The length of the model's vectors, found by embedding one text; `place` names it in errors.
pub(super) fn probe(session: &Session, place: &str) -> Result<usize> {
    let unfit = |what: &str| {
        Error::new(
            ErrorKind::ModelFile,
            format!("{place} {what}: use a text embedding model with its own tokenizer.json"),
        )
    };
    let vectors = session
        .run(&["find a tool"])
        .map_err(|error| unfit("loads but cannot embed a text").with_source(error))?;
    match vectors.as_slice() {
        [vector] if vector.iter().any(|value| !value.is_finite()) => {
            Err(unfit("gives numbers that are not finite"))
        }
        [vector] if vector.iter().any(|&value| value != 0.0) => Ok(vector.len()),
        _ => Err(unfit("does not give one vector a text")),
    }
}

/// What fastembed's failure to load `place` means to the caller.
pub(super) fn explain(error: fastembed::Error, place: &str) -> Error {
    let error = match error {
        fastembed::Error::EnvironmentRequired => {
            return Error::new(
                ErrorKind::OnnxRuntime,
                "another part of this program has set ONNX Runtime up for itself: open the model \
                 before that part starts",
            )
            .with_source(fastembed::Error::EnvironmentRequired);
        }
        error => error,
    };
    Error::new(
        ErrorKind::ModelFile,
        format!(
            "{place} cannot be loaded by ONNX Runtime: fetch the model again or export it anew"
        ),
    )
    .with_source(error)
}

/// Stands in for the tokenizer files while fastembed builds the model.
///
/// fastembed asks for four files, two of which many folders do not have, and drops the cause when
/// one is damaged. The real tokenizer is read by [`Settings::tokenizer`] and put in its place.
fn placeholder_tokenizer() -> TokenizerFiles {
    TokenizerFiles {
        tokenizer_file: br#"{"version": "1.0", "added_tokens": [], "model":
            {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}}"#
            .to_vec(),
        config_file: br#"{"pad_token_id": 0}"#.to_vec(),
        special_tokens_map_file: b"{}".to_vec(),
        tokenizer_config_file: br#"{"model_max_length": 512, "pad_token": "[UNK]"}"#.to_vec(),
    }
}

#[cfg(test)]
mod tests;
