//! The systems of an evaluation as they were typed: names resolved, no model loaded yet.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use toolrack::{Config, Fusion};

use super::meaning::absolute;

/// A system as it was typed; models are not loaded yet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SystemSpec {
    Engine { name: String, embedder: String, fusion: Fusion },
    Configured { name: String, config: Box<Config> },
    Jaccard,
    Bm25,
    Ranked { name: String, file: PathBuf },
}

impl SystemSpec {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Engine { name, .. }
            | Self::Configured { name, .. }
            | Self::Ranked { name, .. } => name,
            Self::Jaccard => "jaccard",
            Self::Bm25 => "bm25",
        }
    }
}

/// The systems to compare, the first being the one that the others are compared with.
pub(crate) fn systems(
    embedders: &[String],
    fusions: &[String],
    baselines: &[String],
    settings: &[PathBuf],
    ranked: &[PathBuf],
    config: &Config,
) -> anyhow::Result<Vec<SystemSpec>> {
    let mut systems: Vec<SystemSpec> = Vec::new();
    let typed = !embedders.is_empty() || !fusions.is_empty();
    let configured = *config != Config::default() && !typed;
    if configured {
        systems.push(SystemSpec::Configured {
            name: "configured".into(),
            config: Box::new(config.clone()),
        });
    }
    for path in settings {
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        systems.push(SystemSpec::Configured {
            name: name.unwrap_or_else(|| path.display().to_string()),
            config: Box::new(Config::read(path)?),
        });
    }
    let default_embedder = [config.engine.embedder.clone()];
    let default_fusions = ["hybrid", "lexical", "dense"].map(str::to_owned);
    if typed || (systems.is_empty() && ranked.is_empty()) {
        let embedders = if embedders.is_empty() { &default_embedder[..] } else { embedders };
        let fusions = if fusions.is_empty() { &default_fusions[..] } else { fusions };
        for embedder in embedders {
            for fusion in fusions {
                let (fusion_name, fusion) = parse_fusion(fusion)?;
                let lexical = fusion == Fusion::LexicalOnly || embedder == "none";
                // The lexical arm is the same whatever the model.
                let name = match (lexical, embedders.len() > 1) {
                    (true, _) => "lexical".to_owned(),
                    (false, true) => format!("{} {fusion_name}", short_name(embedder)),
                    (false, false) => fusion_name,
                };
                if systems.iter().any(|system| system.name() == name) {
                    continue;
                }
                let embedder = if lexical { "none".to_owned() } else { absolute(embedder) };
                systems.push(SystemSpec::Engine { name, embedder, fusion });
            }
        }
    }
    for baseline in baselines {
        systems.push(match baseline.as_str() {
            "jaccard" => SystemSpec::Jaccard,
            "bm25" => SystemSpec::Bm25,
            "lexical" | "dense" | "hybrid" => {
                bail!("'{baseline}' is a fusion, not a baseline: write --fusion {baseline}")
            }
            _ => bail!("'{baseline}' is no baseline: write jaccard or bm25"),
        });
    }
    for path in ranked {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        systems.push(SystemSpec::Ranked {
            name: name.unwrap_or_else(|| path.display().to_string()),
            file: path.clone(),
        });
    }
    Ok(systems)
}

/// A fusion and its name for tables.
pub(crate) fn parse_fusion(text: &str) -> anyhow::Result<(String, Fusion)> {
    let (name, value) = match text.split_once(':') {
        Some((name, value)) => {
            let value: f32 = value
                .parse()
                .with_context(|| format!("fusion '{text}': '{value}' is no number"))?;
            (name, Some(value))
        }
        None => (text, None),
    };
    let fusion = match (name, value) {
        ("hybrid", None) => Fusion::default(),
        ("agreement", lexical_weight) => Fusion::Agreement { lexical_weight },
        ("weighted", Some(lexical_weight)) => Fusion::Weighted { lexical_weight },
        // The second names are those of the settings file.
        ("dense" | "dense-only", None) => Fusion::DenseOnly,
        ("lexical" | "lexical-only", None) => Fusion::LexicalOnly,
        ("rrf", k) => Fusion::Rrf { k: k.unwrap_or(60.0) },
        _ => bail!(
            "'{text}' is no fusion: write hybrid, dense, lexical, rrf, rrf:10, weighted:0.2 or \
             agreement:0.5"
        ),
    };
    Ok((text.to_owned(), fusion))
}

/// The last part of a model's folder, or the name itself.
fn short_name(embedder: &str) -> String {
    let path = Path::new(embedder);
    path.file_name().map_or_else(|| embedder.to_owned(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::args::Args;
    use super::super::meaning::Command;

    fn names(line: &str) -> Vec<String> {
        let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/registry61");
        let words = ["toolrack", "eval", fixture].into_iter().chain(line.split_whitespace());
        match Command::of(Args::try_parse_from(words).unwrap()).unwrap() {
            Command::Eval(eval) => eval.systems.iter().map(|s| s.name().to_owned()).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn systems_are_the_grid_of_models_and_fusions() {
        assert_eq!(names(""), ["hybrid", "lexical", "dense"]);
        assert_eq!(names("--fusion rrf,rrf:10 --baseline bm25"), ["rrf", "rrf:10", "bm25"]);
        assert_eq!(
            names("--embedder static,static:64 --fusion hybrid,lexical"),
            ["static hybrid", "lexical", "static:64 hybrid"]
        );
        assert_eq!(names("--embedder none"), ["lexical"]);
        assert_eq!(names("--ranked other.run"), ["other.run"]);
    }
}
