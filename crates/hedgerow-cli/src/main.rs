//! The command line of Hedgerow: one file, or folder, per subcommand.
//!
//! Results go to standard output, as tables for people or, with `--json`, as one object; progress
//! and errors go to standard error. What a command ended with is in its exit code ([`exit`]).

mod arguments;
mod bench;
mod exit;
mod output;
mod tour;

use std::ffi::OsStr;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::exit::Failure;
use crate::output::Output;

/// Makes, reads and judges Hedgerow databases.
#[derive(Debug, Parser)]
#[command(name = "hedgerow", version, propagate_version = true, after_help = exit::HELP)]
struct CommandLine {
    /// Prints one JSON object instead of text; errors too.
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Bench(Box<bench::Arguments>),
    Tour(tour::Arguments),
}

fn main() -> ExitCode {
    let json = std::env::args_os().any(|argument| argument == OsStr::new("--json"));
    let result = CommandLine::try_parse()
        .map_err(Failure::from)
        .and_then(|line| run(&line));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(json),
    }
}

fn run(line: &CommandLine) -> Result<(), Failure> {
    let mut output = Output::new(line.json);
    match &line.command {
        Command::Bench(arguments) => bench::run(arguments, &mut output)?,
        Command::Tour(arguments) => tour::run(arguments, &mut output)?,
    }
    output.finish()
}
