//! The command line in three steps: what was typed ([`args`]), what it means ([`meaning`]), doing it.

mod args;
mod calibrate;
mod catalog;
mod completions;
mod config;
mod eval;
mod fitting;
mod lint;
mod list;
#[cfg(feature = "gateway")]
mod log;
mod meaning;
mod output;
mod replay;
mod search;
#[cfg(feature = "gateway")]
mod serve;
mod show;
mod systems;
mod tune;

use std::process::ExitCode;

use clap::Parser as _;

use meaning::Command;
use output::Output;

/// What a command came to, as an exit code. Errors are 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// 0: done, and the answer is yes where there is a question.
    Yes,
    /// 1: done, but the answer is no: nothing fits, a check failed, lint found something.
    No,
}

pub(crate) fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        // Who reads JSON reads the errors of the arguments, too.
        Err(error) if error.use_stderr() && std::env::args_os().any(|word| word == "--json") => {
            let text = error.render().to_string();
            let text = text.trim().trim_start_matches("error: ").to_owned();
            Output::new(true).error(&anyhow::Error::msg(text));
            return ExitCode::from(2);
        }
        Err(error) => error.exit(),
    };
    let mut output = Output::new(args.json);
    let result = Command::of(args).and_then(|command| run(command, &mut output));
    let result = result.and_then(|outcome| output.flush().map(|()| outcome));
    match result {
        Ok(Outcome::Yes) => ExitCode::SUCCESS,
        Ok(Outcome::No) => ExitCode::from(1),
        Err(error) => {
            output.error(&error);
            ExitCode::from(2)
        }
    }
}

fn run(command: Command, output: &mut Output) -> anyhow::Result<Outcome> {
    match command {
        Command::Search(search) => search::run(search, output),
        Command::List(list) => list::run(&list, output),
        Command::Show(show) => show::run(&show, output),
        Command::Eval(eval) => eval::run(*eval, output),
        Command::Replay(replay) => replay::run(&replay, output),
        Command::Lint(lint) => lint::run(&lint, output),
        Command::Tune(tune) => tune::run(*tune, output),
        Command::Calibrate(calibrate) => calibrate::run(*calibrate, output),
        Command::Config(config) => config::run(config, output),
        #[cfg(feature = "gateway")]
        Command::Serve(command) => serve::run(*command, output),
        Command::Completions(shell) => completions::run(shell, output),
    }
}
