//! `toolrack serve`.

use std::io::IsTerminal as _;

use anyhow::Context as _;
use toolrack::{Catalog, gateway};

use super::Outcome;
use super::log::Log;
use super::meaning::Serve;
use super::output::Output;

pub(crate) fn run(command: Serve, output: &Output) -> anyhow::Result<Outcome> {
    let engine = command.config.builder(Catalog::empty())?.build()?;
    let log = Log::begin()?;
    output.note(&greeting(&command));
    let runtime = tokio::runtime::Runtime::new().context("no thread could be started")?;
    let serving = gateway::serve_with(engine, command.servers, command.options);
    let outcome = runtime.block_on(serving);
    // A read of standard input that nobody waits for must not keep the process.
    runtime.shutdown_background();
    log.end();
    outcome?;
    Ok(Outcome::Yes)
}

/// What stands behind the gateway and where it is served.
fn greeting(command: &Serve) -> String {
    let all = command.servers.servers.len();
    let off = command.servers.servers.iter().filter(|server| server.disabled).count();
    let servers = if all == 1 { "server" } else { "servers" };
    let disabled = if off == 0 { String::new() } else { format!(", {off} disabled") };
    let version = env!("CARGO_PKG_VERSION");
    let mut text =
        format!("toolrack {version} serves {all} {servers} of {}{disabled}", command.place);
    let http = command.options.http.or(command.servers.settings.options.http);
    if http.is_none() && std::io::stdin().is_terminal() {
        text += "\nwaiting for an MCP client on standard input: put this command into the client's \
                 configuration, or serve HTTP with --http 8080; Ctrl-C ends";
    }
    text
}
