//! fastembed's named models, downloaded from the Hugging Face hub (feature `onnx-hub`).

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use fastembed::{EmbeddingModel, ModelTrait, QuantizationMode, TextEmbedding, TextInitOptions};
use ort::session::builder::AutoDevicePolicy;

use super::EmbedderProfile;
use super::onnx::{Model, OnnxEmbedder, OnnxOptions, Session, ensure, explain, no_panic, probe};
use crate::digest::sha256_hex;
use crate::error::{Error, ErrorKind, Result, invalid_setting};

/// A model that fastembed knows by name.
///
/// # Example
/// ```
/// use toolrack::HubModel;
///
/// let model: HubModel = "BGESmallENV15Q".parse()?;
/// assert_eq!(model.dimensions(), 384);
/// assert!(HubModel::all().contains(&model));
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HubModel(EmbeddingModel);

impl HubModel {
    /// Every model there is, sorted by name.
    pub fn all() -> Vec<Self> {
        let listed = TextEmbedding::list_supported_models();
        let mut all: Vec<Self> = listed.into_iter().map(|info| Self(info.model)).collect();
        all.sort_by_key(ToString::to_string);
        all
    }

    /// The length of its vectors.
    pub fn dimensions(&self) -> usize {
        EmbeddingModel::get_model_info(&self.0).map_or(0, |info| info.dim)
    }

    /// The repository on the hub, such as `Xenova/all-MiniLM-L6-v2`.
    pub fn repository(&self) -> &str {
        EmbeddingModel::get_model_info(&self.0).map_or("", |info| &info.model_code)
    }

    /// What the model's card tells to put before requests and before documents.
    fn prefixes(&self) -> (&'static str, &'static str) {
        const SEARCH: &str = "Represent this sentence for searching relevant passages: ";
        use EmbeddingModel as M;
        match self.0 {
            M::MultilingualE5Small | M::MultilingualE5Base | M::MultilingualE5Large => {
                ("query: ", "passage: ")
            }
            M::NomicEmbedTextV1
            | M::NomicEmbedTextV15
            | M::NomicEmbedTextV15Q
            | M::ModernBertEmbedLarge => ("search_query: ", "search_document: "),
            M::EmbeddingGemma300M | M::EmbeddingGemma300MQ | M::EmbeddingGemma300MQ4 => {
                ("task: search result | query: ", "title: none | text: ")
            }
            M::BGESmallENV15
            | M::BGESmallENV15Q
            | M::BGEBaseENV15
            | M::BGEBaseENV15Q
            | M::BGELargeENV15
            | M::BGELargeENV15Q
            | M::MxbaiEmbedLargeV1
            | M::MxbaiEmbedLargeV1Q
            | M::SnowflakeArcticEmbedXS
            | M::SnowflakeArcticEmbedXSQ
            | M::SnowflakeArcticEmbedS
            | M::SnowflakeArcticEmbedSQ
            | M::SnowflakeArcticEmbedM
            | M::SnowflakeArcticEmbedMQ
            | M::SnowflakeArcticEmbedMLong
            | M::SnowflakeArcticEmbedMLongQ
            | M::SnowflakeArcticEmbedL
            | M::SnowflakeArcticEmbedLQ => (SEARCH, ""),
            _ => ("", ""),
        }
    }
}

impl fmt::Display for HubModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl FromStr for HubModel {
    type Err = Error;

    /// The model of that name, in any case.
    fn from_str(name: &str) -> Result<Self> {
        name.parse().map(Self).map_err(|_: String| {
            invalid_setting(format!("there is no model '{name}': take one of HubModel::all()"))
        })
    }
}

impl OnnxEmbedder {
    /// A model that fastembed knows by name, downloaded at its first use.
    ///
    /// Downloads go to `HF_HOME`, else [`OnnxOptions::cache_dir`], else `FASTEMBED_CACHE_DIR`, else
    /// `.cache/toolrack` in the home directory; a model that is there is used without a connection.
    /// Pooling is the model's own, prefixes are those of its card unless given. What is downloaded
    /// is not checked against a checksum: for pinned weights, keep a folder and
    /// [`open`](Self::open) it. The hub's commit is part of
    /// the fingerprint.
    ///
    /// # Errors
    /// - [`ErrorKind::ModelFile`]: the model cannot be fetched, or not be loaded.
    /// - [`ErrorKind::InvalidSetting`]: an option is out of its range, or is `file` or `pooling`,
    ///   which belong to a folder.
    /// - [`ErrorKind::OnnxRuntime`]: the library is missing, damaged or too old.
    ///
    /// # Example
    /// ```no_run
    /// use toolrack::{Embedder, OnnxEmbedder, OnnxOptions};
    ///
    /// let model = OnnxEmbedder::from_hub("AllMiniLML6V2Q".parse()?, OnnxOptions::default())?;
    /// assert_eq!(model.dimensions(), 384);
    /// # Ok::<(), toolrack::Error>(())
    /// ```
    pub fn from_hub(model: HubModel, options: OnnxOptions) -> Result<Self> {
        options.validate()?;
        if options.file.is_some() || options.pooling.is_some() {
            return Err(invalid_setting(format!(
                "{model} has its own file and pooling: leave both out or open a folder"
            )));
        }
        ensure(options.library.as_deref(), None)?;
        let cache = cache_folder(&options);
        let mut init = TextInitOptions::new(model.0.clone())
            .with_cache_dir(cache.clone())
            .with_show_download_progress(false)
            .with_intra_threads(options.threads_or_default())
            .with_auto_device(AutoDevicePolicy::PreferCPU);
        if let Some(max_tokens) = options.max_tokens {
            init = init.with_max_length(max_tokens);
        }
        let place = format!("the hub's {model}");
        let quantisation = TextEmbedding::get_quantization_mode(&model.0);
        let dynamic = quantisation == QuantizationMode::Dynamic;
        let embedding = no_panic(ErrorKind::OnnxRuntime, || {
            TextEmbedding::try_new(init).map_err(|error| match error {
                error @ (fastembed::Error::Ort(_)
                | fastembed::Error::OrtBuilder(_)
                | fastembed::Error::EnvironmentRequired) => explain(error, &place),
                error => Error::new(
                    ErrorKind::ModelFile,
                    format!(
                        "{model} cannot be fetched from {} on the hub: connect once, or open a \
                         folder that holds a model",
                        model.repository()
                    ),
                )
                .with_source(error),
            })
        })?;
        // fastembed has lowered it to the tokenizer's limit.
        let max_tokens = embedding.tokenizer.get_truncation().map_or(512, |cut| cut.max_length);
        let session = Session::new(embedding);
        let dimensions = probe(&session, &place)?;
        let (query_prefix, document_prefix) = model.prefixes();
        let query_prefix = options.query_prefix.clone().unwrap_or_else(|| query_prefix.into());
        let document_prefix =
            options.document_prefix.clone().unwrap_or_else(|| document_prefix.into());
        let name = options.name.clone().unwrap_or_else(|| model.to_string());
        let revision = options.revision.clone().or_else(|| commit(&cache, model.repository()));
        let fingerprint = format!(
            "{name}/{}/hub/{dimensions}/{max_tokens}/{}",
            revision.as_deref().unwrap_or("unnamed"),
            &sha256_hex([&query_prefix, &document_prefix].map(sha256_hex).concat())[..8],
        );
        Ok(Self::from_model(Model {
            session,
            query_prefix,
            document_prefix,
            dimensions,
            max_tokens,
            batch_size: options.batch_size_or_default(),
            run_size: options.run_size(dynamic),
            fingerprint,
            profile: EmbedderProfile::default(),
        }))
    }
}

/// Where downloads go; fastembed puts `HF_HOME` before what it is told.
fn cache_folder(options: &OnnxOptions) -> PathBuf {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("HF_HOME")
        .or_else(|| options.cache_dir.clone())
        .or_else(|| set("FASTEMBED_CACHE_DIR"))
        .or_else(|| env::home_dir().map(|home| home.join(".cache").join("toolrack")))
        .unwrap_or_else(|| env::temp_dir().join("toolrack"))
}

/// The first digits of the commit that the hub's cache holds of `repository`.
fn commit(cache: &Path, repository: &str) -> Option<String> {
    let folder = format!("models--{}", repository.replace('/', "--"));
    let commit = std::fs::read_to_string(cache.join(folder).join("refs").join("main")).ok()?;
    commit.trim().get(..12).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_is_found_by_its_name() {
        let all = HubModel::all();
        assert!(all.len() > 30);
        for model in &all {
            assert_eq!(&model.to_string().parse::<HubModel>().unwrap(), model);
            assert!(model.dimensions() > 0 && model.repository().contains('/'), "{model}");
        }
        let error = "NoSuchModel".parse::<HubModel>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSetting);
    }

    #[test]
    fn file_and_pooling_belong_to_a_folder() {
        let model: HubModel = "allminilml6v2".parse().unwrap();
        let options = OnnxOptions::default().file("model.onnx");
        let error = OnnxEmbedder::from_hub(model, options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSetting);
    }

    #[test]
    fn the_commit_is_read_from_the_cache() {
        let cache = tempfile::tempdir().unwrap();
        let refs = cache.path().join("models--a--b").join("refs");
        std::fs::create_dir_all(&refs).unwrap();
        std::fs::write(refs.join("main"), "0123456789abcdef\n").unwrap();
        assert_eq!(commit(cache.path(), "a/b").as_deref(), Some("0123456789ab"));
        assert_eq!(commit(cache.path(), "a/c"), None);
    }
}
