//! What `toolrack tune` and `toolrack calibrate` share: settings fitted to one half of a dataset.

use std::path::PathBuf;

use anyhow::bail;
use toolrack::eval::Dataset;
use toolrack::{Config, Fitted};

use super::eval::write;
use super::meaning::Fit;
use super::output::Output;

/// A dataset, and the settings that are fitted to a half of it.
pub(crate) struct Fitting {
    pub set: Dataset,
    pub config: Config,
    output: Option<PathBuf>,
}

impl Fitting {
    pub(crate) fn begin(fit: Fit) -> anyhow::Result<Self> {
        let set = Dataset::read(&fit.dataset)?;
        let fitted = Fitted {
            dataset: set.name().to_owned(),
            fingerprint: set.fingerprint().to_owned(),
            seed: fit.seed,
        };
        refuse_other_halves(&fit.config, &fitted)?;
        let mut config = fit.config;
        config.fitted = Some(fitted);
        Ok(Self { set, config, output: fit.output })
    }

    /// Writes the settings where they should go and returns their text.
    pub(crate) fn keep(&self) -> anyhow::Result<String> {
        let toml = self.config.to_toml();
        if let Some(path) = &self.output {
            write(path, &toml)?;
        }
        Ok(toml)
    }

    /// Says where the settings went, or prints them.
    pub(crate) fn tell(&self, toml: &str, output: &mut Output) {
        match &self.output {
            Some(path) => output.line(format!("Written to {}.", path.display())),
            None => {
                output.line("");
                output.raw(toml);
            }
        }
    }
}

/// Fitting goes on from settings that were fitted on another half, or on another dataset: figures of
/// what one fit has not seen would be of what the other has.
fn refuse_other_halves(config: &Config, fitted: &Fitted) -> anyhow::Result<()> {
    let Some(before) = config.fitted.as_ref().filter(|before| *before != fitted) else {
        return Ok(());
    };
    bail!(
        "the settings were fitted on {} with seed {} before: fit on that again, or begin with a \
         configuration without [fitted]",
        before.dataset,
        before.seed
    )
}
