//! `toolrack config`.

use toolrack::Config;

use super::Outcome;
use super::meaning::ConfigCommand;
use super::output::Output;

pub(crate) fn run(command: ConfigCommand, output: &mut Output) -> anyhow::Result<Outcome> {
    match command {
        ConfigCommand::Template if output.json => {
            output.json(&serde_json::json!({"template": Config::template()}))?;
        }
        ConfigCommand::Template => output.raw(&Config::template()),
        ConfigCommand::Check(path) => {
            let config = Config::read(&path)?;
            let embedder = config.open_embedder()?.map(|embedder| embedder.fingerprint());
            if output.json {
                output.json(&serde_json::json!({
                    "file": path.display().to_string(),
                    "valid": true,
                    "embedder": embedder,
                }))?;
            } else {
                let model = embedder.unwrap_or_else(|| "no model".into());
                output.line(format!("{} is valid ({model}).", path.display()));
            }
        }
    }
    Ok(Outcome::Yes)
}
