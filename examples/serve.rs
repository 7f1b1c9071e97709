//! The gateway from a command line: `serve --config mcp.json [--http ADDR] [--mode list|bridge]
//! [--xray ADDR] [--metrics ADDR] [--state FILE] [--tokens FILE]`.

use anyhow::{Context, Result, bail};
use toolrack::gateway::{self, Config, Mode, Options};

fn main() -> Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_from_env("TOOLRACK_LOG")
        .unwrap_or_else(|_| "info,rmcp=error".into());
    // Standard output belongs to the protocol.
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();

    let mut options = Options::default();
    let mut config = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--config" => config = Some(value),
            "--http" => options.http = Some(value.parse().context("--http is no address")?),
            "--xray" => options.xray = Some(value.parse().context("--xray is no address")?),
            "--metrics" => {
                options.metrics = Some(value.parse().context("--metrics is no address")?);
            }
            "--state" => options.state = Some(value.into()),
            "--tokens" => options.tokens = Some(value.into()),
            "--mode" => {
                options.mode = Some(match value.as_str() {
                    "list" => Mode::List,
                    "bridge" => Mode::Bridge,
                    other => bail!("--mode is '{other}': use list or bridge"),
                });
            }
            other => bail!("{other} is not known: see the head of this example"),
        }
    }
    let config = Config::read(config.context("give --config with the file of your MCP client")?)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let outcome = runtime.block_on(gateway::serve(config, options));
    // A read of standard input that nobody waits for must not keep the process.
    runtime.shutdown_background();
    Ok(outcome?)
}
