//! The command `toolrack`: search, explain, measure and mend a catalog of tools.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
