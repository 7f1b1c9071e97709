//! `toolrack config`.

#[cfg(feature = "gateway")]
use std::path::Path;

use toolrack::Config;
#[cfg(feature = "gateway")]
use toolrack::gateway;

use super::Outcome;
use super::meaning::ConfigCommand;
#[cfg(feature = "gateway")]
use super::meaning::is_toml;
use super::output::Output;

pub(crate) fn run(command: ConfigCommand, output: &mut Output) -> anyhow::Result<Outcome> {
    match command {
        ConfigCommand::Template if output.json => {
            output.json(&serde_json::json!({"template": Config::template()}))?;
        }
        ConfigCommand::Template => output.raw(&Config::template()),
        ConfigCommand::Check(path) => {
            #[cfg(feature = "gateway")]
            if !is_toml(&path) {
                return check_client(&path, output);
            }
            let config = Config::read(&path)?;
            #[cfg(feature = "gateway")]
            gateway::Config::of(&config, &path.display().to_string())?;
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

/// Checks an MCP client's configuration.
#[cfg(feature = "gateway")]
fn check_client(path: &Path, output: &mut Output) -> anyhow::Result<Outcome> {
    let config = gateway::Config::read(path)?;
    let servers: Vec<&str> = config.servers.iter().map(|server| server.name.as_str()).collect();
    if output.json {
        output.json(&serde_json::json!({
            "file": path.display().to_string(),
            "valid": true,
            "servers": servers,
        }))?;
    } else {
        output.line(format!("{} is valid (servers: {}).", path.display(), servers.join(", ")));
    }
    Ok(Outcome::Yes)
}
