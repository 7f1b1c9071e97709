//! One file for all settings: engine, policy, session, gateway.

mod keys;
mod unknown;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::embed::{Embedder, StaticEmbedder};
use crate::engine::{Engine, EngineBuilder};
use crate::error::{Error, ErrorKind, Result};
use crate::index::Fusion;
use crate::lexical::FieldWeights;
use crate::select::{Gate, RuntimeContext};
use crate::session::SessionOptions;

/// Settings in one TOML file.
///
/// Every key is optional; [`Config::template`] lists all with their defaults. An unknown key is an
/// error that suggests the one that was meant.
///
/// # Example
/// ```
/// use toolrack::{Catalog, Config};
///
/// let config = Config::parse("[session.working_set]\nlimit = 12\n", "toolrack.toml")?;
/// let catalog = Catalog::parse(r#"[{"name": "send_mail"}]"#)?;
/// let engine = config.builder(catalog)?.build()?;
/// assert_eq!(config.session_options().working_set.limit, 12);
/// assert!(engine.session(config.session_options()).is_ok());
///
/// let error = Config::parse("[session.working_set]\nlimits = 12\n", "toolrack.toml").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "toolrack.toml, line 2: unknown key 'session.working_set.limits': did you mean 'limit'?",
/// );
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// Listings that commands use when they are given none.
    pub catalog: Vec<String>,
    /// How tools are ranked.
    pub engine: EngineConfig,
    /// Trusted facts of the caller.
    pub policy: RuntimeContext,
    /// How a run is set up; its context is [`policy`](Self::policy).
    pub session: SessionOptions,
    /// The gateway's section, as it stands; the gateway reads it.
    pub gateway: toml::Table,
    /// What the settings were fitted on, when `toolrack tune` or `calibrate` wrote them.
    pub fitted: Option<Fitted>,
    /// Folder against which relative paths are read.
    folder: PathBuf,
}

/// The `[engine]` table.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct EngineConfig {
    /// `static`, `static:<dimensions>`, `none`, or a model's folder.
    pub embedder: String,
    /// How both arms' scores become one.
    pub fusion: Fusion,
    /// Weights of the lexical fields.
    pub fields: FieldWeights,
    /// Which tools are admitted.
    pub gate: Gate,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            embedder: "static".into(),
            fusion: Fusion::default(),
            fields: FieldWeights::default(),
            gate: Gate::default(),
        }
    }
}

/// What settings were fitted on, so that nobody reports them on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    /// Name of the dataset.
    pub dataset: String,
    /// SHA-256 of its queries.
    pub fingerprint: String,
    /// Seed by which it was cut into halves.
    pub seed: u64,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawConfig {
    catalog: Vec<String>,
    engine: RawEngine,
    policy: RuntimeContext,
    session: SessionOptions,
    gateway: toml::Table,
    fitted: Option<Fitted>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawEngine {
    embedder: Option<String>,
    fusion: Option<FusionName>,
    lexical_weight: Option<f32>,
    rank_constant: Option<f32>,
    fields: FieldWeights,
    gate: Gate,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FusionName {
    #[default]
    Agreement,
    Weighted,
    Rrf,
    DenseOnly,
    LexicalOnly,
}

impl Config {
    /// The configuration in the file at `path`.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when the file cannot be read, else as [`parse`](Self::parse).
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|error| {
            let what = format!("cannot read {}: give a readable file", path.display());
            Error::new(ErrorKind::Io, what).with_source(error)
        })?;
        let mut config = Self::parse(&text, &path.display().to_string())?;
        config.folder = path.parent().map(Path::to_owned).unwrap_or_default();
        Ok(config)
    }

    /// The configuration in `text`, which errors call `place`.
    ///
    /// # Errors
    /// [`ErrorKind::Format`] with the line, for text that is no TOML, an unknown key or a value of
    /// another type; [`ErrorKind::InvalidSetting`] for a value out of its range.
    pub fn parse(text: &str, place: &str) -> Result<Self> {
        unknown::check(text, place)?;
        let raw: RawConfig = toml::from_str(text).map_err(|error| {
            let line = unknown::line_of(text, error.span().unwrap_or_default().start);
            let what = error.message().trim().replace('\n', ", ");
            Error::new(ErrorKind::Format, format!("{place}, line {line}: {what}: mend the value"))
        })?;
        let fusion = match raw.engine.fusion.unwrap_or_default() {
            FusionName::Agreement => {
                Fusion::Agreement { lexical_weight: raw.engine.lexical_weight }
            }
            FusionName::Weighted => {
                Fusion::Weighted { lexical_weight: raw.engine.lexical_weight.unwrap_or(1.0) }
            }
            FusionName::Rrf => Fusion::Rrf { k: raw.engine.rank_constant.unwrap_or(60.0) },
            FusionName::DenseOnly => Fusion::DenseOnly,
            FusionName::LexicalOnly => Fusion::LexicalOnly,
        };
        let config = Self {
            catalog: raw.catalog,
            engine: EngineConfig {
                embedder: raw.engine.embedder.unwrap_or_else(|| "static".into()),
                fusion,
                fields: raw.engine.fields,
                gate: raw.engine.gate,
            },
            policy: raw.policy,
            session: raw.session,
            gateway: raw.gateway,
            fitted: raw.fitted,
            folder: PathBuf::new(),
        };
        config.validate().map_err(|error| error.within(place))?;
        Ok(config)
    }

    fn validate(&self) -> Result<()> {
        self.engine.fusion.validate()?;
        self.engine.fields.validate()?;
        self.engine.gate.validate()?;
        self.session.validate()
    }

    /// A configuration with every key, its default and what it does; all commented out.
    pub fn template() -> String {
        keys::template()
    }

    /// Begins an engine with these settings over `catalog`.
    ///
    /// # Errors
    /// As [`open_embedder`](Self::open_embedder).
    pub fn builder(&self, catalog: Catalog) -> Result<EngineBuilder> {
        let builder = Engine::builder(catalog);
        let builder = match self.open_embedder()? {
            Some(embedder) => builder.embedder(embedder).fusion(self.engine.fusion),
            None => builder.without_embedder(),
        };
        Ok(builder.field_weights(self.engine.fields).gate(self.engine.gate.clone()))
    }

    /// The options of a run, the policy among them.
    pub fn session_options(&self) -> SessionOptions {
        self.session.clone().context(self.policy.clone())
    }

    /// The model that `engine.embedder` names; `None` for `none`. A relative folder is looked for
    /// beside the file.
    ///
    /// # Errors
    /// [`ErrorKind::ModelFile`], [`ErrorKind::OnnxRuntime`] or [`ErrorKind::InvalidSetting`].
    pub fn open_embedder(&self) -> Result<Option<Arc<dyn Embedder>>> {
        open_embedder(&self.engine.embedder, &self.folder)
    }

    /// The listings of [`catalog`](Self::catalog), relative ones looked for beside the file.
    pub fn sources(&self) -> Vec<String> {
        let beside = |source: &String| match source.as_str() {
            "-" => source.clone(),
            source => self.folder.join(source).display().to_string(),
        };
        self.catalog.iter().map(beside).collect()
    }

    /// Folder against which relative paths are read.
    #[cfg(feature = "gateway")]
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// These settings as TOML: what differs from the defaults.
    pub fn to_toml(&self) -> String {
        let mut root = toml::Table::new();
        let mut engine = toml::Table::new();
        let default = EngineConfig::default();
        if self.engine.embedder != default.embedder {
            engine.insert("embedder".into(), self.engine.embedder.clone().into());
        }
        if self.engine.fusion != default.fusion {
            let (name, weight, constant) = match self.engine.fusion {
                Fusion::Agreement { lexical_weight } => ("agreement", lexical_weight, None),
                Fusion::Weighted { lexical_weight } => ("weighted", Some(lexical_weight), None),
                Fusion::Rrf { k } => ("rrf", None, Some(k)),
                Fusion::DenseOnly => ("dense-only", None, None),
                Fusion::LexicalOnly => ("lexical-only", None, None),
            };
            engine.insert("fusion".into(), name.into());
            for (key, value) in [("lexical_weight", weight), ("rank_constant", constant)] {
                if let Some(value) = value {
                    engine.insert(key.into(), decimal(value));
                }
            }
        }
        let changed = [
            ("fields", changes(&self.engine.fields, &default.fields)),
            ("gate", changes(&self.engine.gate, &default.gate)),
        ];
        for (key, table) in changed {
            insert(&mut engine, key, table);
        }
        if !self.catalog.is_empty() {
            let list: Vec<toml::Value> = self.catalog.iter().cloned().map(Into::into).collect();
            root.insert("catalog".into(), list.into());
        }
        insert(&mut root, "engine", engine);
        insert(&mut root, "policy", changes(&self.policy, &RuntimeContext::default()));
        let mut session = changes(&self.session, &SessionOptions::default());
        session.remove("context");
        insert(&mut root, "session", session);
        insert(&mut root, "gateway", self.gateway.clone());
        if let Some(fitted) = &self.fitted {
            insert(&mut root, "fitted", changes(fitted, &()));
        }
        toml::to_string(&root).unwrap_or_default()
    }
}

/// The model that `spec` names, see [`EngineConfig::embedder`]; a relative folder is looked for in
/// `folder`.
///
/// # Errors
/// [`ErrorKind::ModelFile`], [`ErrorKind::OnnxRuntime`] or [`ErrorKind::InvalidSetting`].
pub(crate) fn open_embedder(spec: &str, folder: &Path) -> Result<Option<Arc<dyn Embedder>>> {
    if spec == "none" {
        return Ok(None);
    }
    if let Some(dimensions) = spec.strip_prefix("static") {
        let bundled = StaticEmbedder::bundled();
        match dimensions.strip_prefix(':').map(str::parse) {
            None if dimensions.is_empty() => return Ok(Some(Arc::new(bundled))),
            Some(Ok(dimensions)) => return Ok(Some(Arc::new(bundled.truncated(dimensions)?))),
            _ => {}
        }
    }
    let path = folder.join(spec);
    if !path.is_dir() {
        return Err(Error::new(
            ErrorKind::InvalidSetting,
            format!(
                "there is no model '{spec}': write static, static:128, none, or a model's folder"
            ),
        ));
    }
    if path.join("model.safetensors").is_file() {
        return Ok(Some(Arc::new(StaticEmbedder::open(&path)?)));
    }
    open_onnx(&path)
}

#[cfg(feature = "onnx")]
fn open_onnx(path: &Path) -> Result<Option<Arc<dyn Embedder>>> {
    Ok(Some(Arc::new(crate::embed::OnnxEmbedder::open(path)?)))
}

#[cfg(not(feature = "onnx"))]
fn open_onnx(path: &Path) -> Result<Option<Arc<dyn Embedder>>> {
    Err(Error::new(
        ErrorKind::InvalidSetting,
        format!(
            "{} holds an ONNX model, which this build cannot run: build with the feature onnx",
            path.display()
        ),
    ))
}

fn insert(into: &mut toml::Table, key: &str, table: toml::Table) {
    if !table.is_empty() {
        into.insert(key.into(), table.into());
    }
}

/// The fields of `value` that are not those of `default`, without what is unset.
fn changes(value: &impl Serialize, default: &impl Serialize) -> toml::Table {
    let table = |value: toml::Value| match value {
        toml::Value::Table(table) => table,
        _ => toml::Table::new(),
    };
    let default = toml::Value::try_from(default).map(table).unwrap_or_default();
    let value = toml::Value::try_from(value).map(table).unwrap_or_default();
    differing(value, &default)
}

fn differing(value: toml::Table, default: &toml::Table) -> toml::Table {
    let mut out = toml::Table::new();
    for (key, value) in value {
        match (value, default.get(&key)) {
            (value, Some(default)) if value == *default => {}
            (toml::Value::Table(inner), Some(toml::Value::Table(default))) => {
                let inner = differing(inner, default);
                insert(&mut out, &key, inner);
            }
            (toml::Value::Float(float), _) => {
                out.insert(key, decimal(float as f32));
            }
            (value, _) => {
                out.insert(key, value);
            }
        }
    }
    out
}

/// A number with the digits that an `f32` has: .3 rather than .30000001192092896.
fn decimal(value: f32) -> toml::Value {
    toml::Value::Float(value.to_string().parse().unwrap_or_else(|_| f64::from(value)))
}

#[cfg(test)]
mod tests;
