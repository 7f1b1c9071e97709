//! What a model folder says, and what was asked for instead.

use std::path::Path;

use serde_json::Value;
use tokenizers::{PaddingParams, PaddingStrategy, PostProcessor, Tokenizer, TruncationParams};

use super::options::{OnnxOptions, Pooling};
use crate::embed::folder;
use crate::embed::manifest::{self, Manifest};
use crate::error::{Error, ErrorKind, Result, invalid_setting};

/// Tokens read of one text when neither option nor folder says; BERT's number of positions.
const MAX_TOKENS: usize = 512;

/// Everything that is settled before the model is loaded.
#[derive(Debug)]
pub(super) struct Settings {
    pub file: String,
    pub pooling: Pooling,
    pub query_prefix: String,
    pub document_prefix: String,
    pub max_tokens: usize,
    pub name: String,
    pub revision: String,
    pub manifest: Manifest,
    /// Where the tokenizer's padding token is looked up, in order.
    pad_sources: [Value; 2],
    pad_id: Option<u32>,
}

impl Settings {
    /// Option before manifest before sentence-transformers' files before default.
    pub(super) fn read(folder: &Path, options: &OnnxOptions) -> Result<Self> {
        let manifest = Manifest::read(folder)?;
        let config = folder::read_json(folder, "config.json")?;
        let tokenizer_config = folder::read_json(folder, "tokenizer_config.json")?;
        let special_tokens = folder::read_json(folder, "special_tokens_map.json")?;
        let prompts = folder::read_json(folder, "config_sentence_transformers.json")?;
        let prompt = |names: &[&str]| {
            let found = names.iter().find_map(|name| prompts["prompts"][name].as_str());
            found.unwrap_or_default().to_string()
        };

        let name = options.name.clone().or_else(|| manifest.name.clone()).unwrap_or_else(|| {
            // Absolute, so that "." has a name as well.
            let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.into());
            absolute.file_name().unwrap_or(absolute.as_os_str()).to_string_lossy().into_owned()
        });
        let revision = options.revision.clone().or_else(|| manifest.revision.clone());
        let file = options.file.clone().or_else(|| manifest.file.clone());
        let query_prefix = options.query_prefix.clone().or_else(|| manifest.query_prefix.clone());
        let document_prefix =
            options.document_prefix.clone().or_else(|| manifest.document_prefix.clone());
        Ok(Self {
            pooling: pooling(folder, options, &manifest)?,
            max_tokens: max_tokens(folder, options, &manifest, &config, &tokenizer_config)?,
            file: file.unwrap_or_else(|| "model.onnx".into()),
            query_prefix: query_prefix.unwrap_or_else(|| prompt(&["query"])),
            document_prefix: document_prefix
                .unwrap_or_else(|| prompt(&["document", "passage", "corpus"])),
            name,
            revision: revision.unwrap_or_else(|| "unnamed".into()),
            manifest,
            pad_id: config["pad_token_id"].as_u64().and_then(|id| u32::try_from(id).ok()),
            pad_sources: [tokenizer_config, special_tokens],
        })
    }

    /// The tokenizer of the folder, set to cut at `max_tokens` and to pad as little as it can.
    ///
    /// The file's own settings are often "pad to 128", with which a request costs several times as
    /// much.
    pub(super) fn tokenizer(&self, folder: &Path, bytes: &[u8]) -> Result<Tokenizer> {
        let place = folder.join("tokenizer.json");
        let damaged = |error| {
            Error::new(
                ErrorKind::ModelFile,
                format!("{} is damaged: fetch the model again", place.display()),
            )
            .with_source(error)
        };
        let mut tokenizer = Tokenizer::from_bytes(bytes).map_err(damaged)?;
        let special = tokenizer.get_post_processor().map_or(0, |post| post.added_tokens(false));
        if self.max_tokens <= special {
            return Err(invalid_setting(format!(
                "max_tokens is {}, but the model's own marks take {special}: give at least {}",
                self.max_tokens,
                special + 1
            )));
        }
        let padding = PaddingParams {
            strategy: PaddingStrategy::BatchLongest,
            pad_to_multiple_of: None,
            ..tokenizer.get_padding().cloned().unwrap_or_else(|| self.padding(&tokenizer))
        };
        let direction = tokenizer.get_truncation().map(|cut| cut.direction).unwrap_or_default();
        tokenizer.with_padding(Some(padding));
        tokenizer
            .with_truncation(Some(TruncationParams {
                max_length: self.max_tokens,
                direction,
                ..TruncationParams::default()
            }))
            .map_err(damaged)?;
        Ok(tokenizer)
    }

    /// Padding for a tokenizer file that has none.
    ///
    /// The mask keeps padding out of the vector; the id only has to be one that the model knows.
    fn padding(&self, tokenizer: &Tokenizer) -> PaddingParams {
        let token = self.pad_sources.iter().find_map(|source| {
            let token = &source["pad_token"];
            token.as_str().or_else(|| token["content"].as_str()).map(str::to_string)
        });
        let pad_token = token.unwrap_or_else(|| "[PAD]".into());
        let pad_id = self.pad_id.or_else(|| tokenizer.token_to_id(&pad_token)).unwrap_or(0);
        PaddingParams { pad_token, pad_id, ..PaddingParams::default() }
    }

    /// The checksum that the manifest gives for the chosen file.
    pub(super) fn checksum(&self) -> Option<&str> {
        let own = self.manifest.file.as_deref().unwrap_or("model.onnx");
        if self.file == own {
            self.manifest.sha256.as_deref()
        } else {
            self.manifest.other_files.get(&self.file).map(String::as_str)
        }
    }
}

fn pooling(folder: &Path, options: &OnnxOptions, manifest: &Manifest) -> Result<Pooling> {
    if let Some(pooling) = options.pooling {
        return Ok(pooling);
    }
    let unknown = |word: &str, place: &str| {
        Error::new(
            ErrorKind::ModelFile,
            format!(
                "{} asks for '{word}' pooling: choose mean or cls with OnnxOptions::pooling, or \
                 use another model",
                folder.join(place).display()
            ),
        )
    };
    if let Some(word) = &manifest.pooling {
        return Pooling::parse(word).ok_or_else(|| unknown(word, manifest::FILE_NAME));
    }
    const PLACE: &str = "1_Pooling/config.json";
    let config = folder::read_json(folder, PLACE)?;
    // {"pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true, ...}
    let mut modes = config.as_object().into_iter().flatten().filter_map(|(key, on)| {
        let mode = key.strip_prefix("pooling_mode_")?;
        (on.as_bool() == Some(true)).then_some(mode)
    });
    match (modes.next(), modes.next()) {
        (None, _) => Ok(Pooling::default()),
        (Some("mean_tokens"), None) => Ok(Pooling::Mean),
        (Some("cls_token"), None) => Ok(Pooling::Cls),
        (Some(mode), None) => Err(unknown(mode, PLACE)),
        (Some(one), Some(two)) => Err(unknown(&format!("{one} and {two}"), PLACE)),
    }
}

fn max_tokens(
    folder: &Path,
    options: &OnnxOptions,
    manifest: &Manifest,
    config: &Value,
    tokenizer_config: &Value,
) -> Result<usize> {
    let limit = positions(config);
    if let (Some(asked), Some(limit)) = (options.max_tokens, limit)
        && asked > limit
    {
        return Err(invalid_setting(format!(
            "max_tokens is {asked}, but the model has {limit} positions: give at most {limit}"
        )));
    }
    if let (None, Some(said), Some(limit)) = (options.max_tokens, manifest.max_tokens, limit)
        && said > limit
    {
        return Err(Error::new(
            ErrorKind::ModelFile,
            format!(
                "{} says max_tokens {said}, but the model has {limit} positions: mend it",
                folder.join(manifest::FILE_NAME).display()
            ),
        ));
    }
    if let Some(said) = options.max_tokens.or(manifest.max_tokens) {
        return Ok(said);
    }
    let sentence = folder::read_json(folder, "sentence_bert_config.json")?;
    // Some tokenizers say 10^30 for "no limit".
    let tokenizer = &tokenizer_config["model_max_length"];
    let known = [sentence["max_seq_length"].as_f64(), tokenizer.as_f64()]
        .into_iter()
        .flatten()
        .filter(|&number| (1.0..1e6).contains(&number))
        .map(|number| number as usize);
    // A model without absolute positions may say nothing; then what it was trained on is unknown.
    Ok(known.chain(limit).min().unwrap_or(MAX_TOKENS))
}

/// How many tokens the model has positions for, when config.json says so.
fn positions(config: &Value) -> Option<usize> {
    let total = usize::try_from(config["max_position_embeddings"].as_u64()?).ok()?;
    // RoBERTa counts positions from the padding token's id on, so 514 positions hold 512 tokens.
    let offset = match config["model_type"].as_str() {
        Some("roberta" | "xlm-roberta" | "camembert" | "mpnet") => {
            config["pad_token_id"].as_u64().unwrap_or(1) as usize + 1
        }
        _ => 0,
    };
    total.checked_sub(offset).filter(|&left| left > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    const SENTENCE: [(&str, &str); 5] = [
        (
            "1_Pooling/config.json",
            r#"{"word_embedding_dimension": 384, "pooling_mode_cls_token": true,
                "pooling_mode_mean_tokens": false, "include_prompt": true}"#,
        ),
        ("sentence_bert_config.json", r#"{"max_seq_length": 256, "do_lower_case": false}"#),
        ("tokenizer_config.json", r#"{"model_max_length": 1000000000000000019884624838656}"#),
        ("config.json", r#"{"max_position_embeddings": 512, "model_type": "bert"}"#),
        (
            "config_sentence_transformers.json",
            r#"{"prompts": {"query": "query: ", "passage": "passage: "}}"#,
        ),
    ];

    fn read(folder: &tempfile::TempDir, options: &OnnxOptions) -> Settings {
        Settings::read(folder.path(), options).unwrap()
    }

    #[test]
    fn an_empty_folder_has_the_defaults() {
        let folder = folder(&[]);
        let settings = read(&folder, &OnnxOptions::default());
        assert_eq!(settings.file, "model.onnx");
        assert_eq!(settings.pooling, Pooling::Mean);
        assert_eq!((settings.query_prefix.as_str(), settings.document_prefix.as_str()), ("", ""));
        assert_eq!((settings.max_tokens, settings.revision.as_str()), (512, "unnamed"));
        assert_eq!(settings.name, folder.path().file_name().unwrap().to_str().unwrap());
    }

    #[test]
    fn option_before_manifest_before_config_files() {
        let plain = folder(&SENTENCE);
        let settings = read(&plain, &OnnxOptions::default());
        assert_eq!((settings.pooling, settings.max_tokens), (Pooling::Cls, 256));
        assert_eq!(settings.query_prefix, "query: ");
        assert_eq!(settings.document_prefix, "passage: ");

        let manifest = r#"{"name": "m", "revision": "3", "file": "a.onnx", "sha256": "aa",
            "other_files": {"b.onnx": "bb"}, "pooling": "mean", "query_prefix": "ask: ",
            "document_prefix": "", "max_tokens": 128}"#;
        let with_manifest = folder(&[&SENTENCE[..], &[("toolrack.json", manifest)]].concat());
        let settings = read(&with_manifest, &OnnxOptions::default());
        assert_eq!((settings.pooling, settings.max_tokens), (Pooling::Mean, 128));
        assert_eq!(
            (settings.query_prefix.as_str(), settings.document_prefix.as_str()),
            ("ask: ", "")
        );
        assert_eq!((settings.name.as_str(), settings.checksum()), ("m", Some("aa")));

        let options = OnnxOptions::default()
            .file("b.onnx")
            .pooling(Pooling::Cls)
            .query_prefix("")
            .document_prefix("doc: ")
            .max_tokens(64)
            .name("n")
            .revision("4");
        let settings = read(&with_manifest, &options);
        assert_eq!((settings.pooling, settings.max_tokens), (Pooling::Cls, 64));
        assert_eq!(
            (settings.query_prefix.as_str(), settings.document_prefix.as_str()),
            ("", "doc: ")
        );
        assert_eq!((settings.name.as_str(), settings.revision.as_str()), ("n", "4"));
        assert_eq!(settings.checksum(), Some("bb"));
        assert_eq!(read(&with_manifest, &options.file("c.onnx")).checksum(), None);
    }

    #[test]
    fn more_tokens_than_positions_are_refused() {
        let plain = folder(&SENTENCE);
        let error =
            Settings::read(plain.path(), &OnnxOptions::default().max_tokens(513)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSetting);
        assert_eq!(
            error.to_string(),
            "max_tokens is 513, but the model has 512 positions: give at most 512"
        );
        let manifest = folder(&[SENTENCE[3], ("toolrack.json", r#"{"max_tokens": 1024}"#)]);
        let error = Settings::read(manifest.path(), &OnnxOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ModelFile);

        let config =
            r#"{"max_position_embeddings": 514, "model_type": "roberta", "pad_token_id": 1}"#;
        assert_eq!(
            read(&folder(&[("config.json", config)]), &OnnxOptions::default()).max_tokens,
            512
        );
    }

    #[test]
    fn unknown_pooling_and_broken_files_say_what_to_do() {
        let last = r#"{"pooling_mode_lasttoken": true}"#;
        let both = r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}"#;
        let cases = [
            ("1_Pooling/config.json", last, "asks for 'lasttoken' pooling: choose mean or cls"),
            ("1_Pooling/config.json", both, "asks for 'cls_token and mean_tokens' pooling"),
            ("toolrack.json", r#"{"pooling": "max"}"#, "asks for 'max' pooling"),
            ("toolrack.json", r#"{"poling": "mean"}"#, "is not a model manifest"),
            ("config.json", "{", "config.json is not JSON: mend or remove it"),
        ];
        for (name, text, expected) in cases {
            let folder = folder(&[(name, text)]);
            let error = Settings::read(folder.path(), &OnnxOptions::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ModelFile);
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
