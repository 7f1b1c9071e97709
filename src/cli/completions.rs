//! `toolrack completions`.

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use super::Outcome;
use super::args::Args;
use super::output::Output;

pub(crate) fn run(shell: Shell, output: &mut Output) -> anyhow::Result<Outcome> {
    let mut script = Vec::new();
    generate(shell, &mut Args::command(), "toolrack", &mut script);
    output.raw(&String::from_utf8(script)?);
    Ok(Outcome::Yes)
}
