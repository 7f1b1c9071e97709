//! The command `toolrack`: search, explain, measure and mend a catalog of tools.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
