//! The command line of Hedgerow: one file, or folder, per subcommand.
//!
//! Results go to standard output, as tables for people or, with `--json`, as one object; progress
//! and errors go to standard error. The exit code says how a command ended ([`exit`]).

// The subcommands.
mod advise;
mod backup;
mod bench;
mod changes;
mod checkpoint;
mod clear;
mod compact;
mod completions;
mod count;
mod creation;
mod del;
mod drop;
mod dump;
mod explain;
mod export;
mod get;
mod import;
mod ingest;
mod inspect;
mod keyspaces;
mod largest;
mod load;
mod put;
mod rename;
mod repair;
mod retune;
mod scan;
#[cfg(feature = "server")]
mod serve;
mod shell;
mod simulate;
mod slot;
mod stats;
mod tour;
mod verify;

// Shared by the subcommands.
mod arguments;
mod database;
mod design_file;
mod encoding;
mod exit;
mod interrupt;
mod output;
mod range;
mod records;
mod standard_input;
mod transfer;
mod trees;
mod words;

use std::ffi::OsStr;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::exit::Failure;
use crate::output::Output;

/// Creates, reads and inspects Hedgerow databases.
#[derive(Debug, Parser)]
#[command(name = "hedgerow", version, propagate_version = true, after_help = exit::HELP)]
struct CommandLine {
    /// Prints JSON instead of text, for errors too: one object, or one object per line.
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Put(put::Arguments),
    Get(get::Arguments),
    Del(del::Arguments),
    Scan(scan::Arguments),
    Count(count::Arguments),
    Import(import::Arguments),
    Load(load::Arguments),
    Dump(dump::Arguments),
    Ingest(ingest::Arguments),
    Export(export::Arguments),
    Keyspaces(keyspaces::Arguments),
    Clear(clear::Arguments),
    Drop(drop::Arguments),
    Rename(rename::Arguments),
    Largest(largest::Arguments),
    Stats(stats::Arguments),
    Explain(explain::Arguments),
    Inspect(inspect::Arguments),
    Verify(verify::Arguments),
    Repair(repair::Arguments),
    Compact(compact::Arguments),
    Retune(retune::Arguments),
    Checkpoint(checkpoint::Arguments),
    Backup(backup::Arguments),
    Changes(changes::Arguments),
    Slot(slot::Arguments),
    #[cfg(feature = "server")]
    Serve(serve::Arguments),
    Advise(Box<advise::Arguments>),
    Bench(Box<bench::Arguments>),
    Simulate(simulate::Arguments),
    Shell(shell::Arguments),
    Tour(tour::Arguments),
    Completions(completions::Arguments),
}

fn main() -> ExitCode {
    hedgerow::io::os::raise_open_files_max();
    // Behind `--` are keys and values.
    let mut flags = std::env::args_os().take_while(|argument| argument != OsStr::new("--"));
    let json = flags.any(|argument| argument == OsStr::new("--json"));
    let result = CommandLine::try_parse()
        .map_err(Failure::from)
        .and_then(|line| run(&line));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(json),
    }
}

/// Runs a command that is given as words, as the shell does.
fn run_words(words: Vec<String>) -> Result<(), Failure> {
    match CommandLine::try_parse_from(words) {
        Ok(line) => run(&line),
        // The help that was asked for.
        Err(help) if !help.use_stderr() => help.print().map_err(|e| Failure::output(&e)),
        Err(wrong) => Err(wrong.into()),
    }
}

fn run(line: &CommandLine) -> Result<(), Failure> {
    let mut output = Output::new(line.json);
    match &line.command {
        Command::Put(arguments) => put::run(arguments, &mut output)?,
        Command::Get(arguments) => get::run(arguments, &mut output)?,
        Command::Del(arguments) => del::run(arguments, &mut output)?,
        Command::Scan(arguments) => scan::run(arguments, &output)?,
        Command::Count(arguments) => count::run(arguments, &mut output)?,
        Command::Import(arguments) => import::run(arguments, &mut output)?,
        Command::Load(arguments) => load::run(arguments, &mut output)?,
        Command::Dump(arguments) => dump::run(arguments, &mut output)?,
        Command::Ingest(arguments) => ingest::run(arguments, &mut output)?,
        Command::Export(arguments) => export::run(arguments, &mut output)?,
        Command::Keyspaces(arguments) => keyspaces::run(arguments, &mut output)?,
        Command::Clear(arguments) => clear::run(arguments, &mut output)?,
        Command::Drop(arguments) => drop::run(arguments, &mut output)?,
        Command::Rename(arguments) => rename::run(arguments, &mut output)?,
        Command::Largest(arguments) => largest::run(arguments, &mut output)?,
        Command::Stats(arguments) => stats::run(arguments, &mut output)?,
        Command::Explain(arguments) => explain::run(arguments, &mut output)?,
        Command::Inspect(arguments) => inspect::run(arguments, &mut output)?,
        Command::Verify(arguments) => verify::run(arguments, &mut output)?,
        Command::Repair(arguments) => repair::run(arguments, &mut output)?,
        Command::Compact(arguments) => compact::run(arguments, &mut output)?,
        Command::Retune(arguments) => retune::run(arguments, &mut output)?,
        Command::Checkpoint(arguments) => checkpoint::run(arguments, &mut output)?,
        Command::Backup(arguments) => backup::run(arguments, &mut output)?,
        Command::Changes(arguments) => changes::run(arguments)?,
        Command::Slot(arguments) => slot::run(arguments, &mut output)?,
        #[cfg(feature = "server")]
        Command::Serve(arguments) => serve::run(arguments, &mut output)?,
        Command::Advise(arguments) => advise::run(arguments, &mut output)?,
        Command::Bench(arguments) => bench::run(arguments, &mut output)?,
        Command::Simulate(arguments) => simulate::run(arguments, &mut output)?,
        Command::Shell(arguments) => shell::run(arguments, line.json)?,
        Command::Tour(arguments) => tour::run(arguments, &mut output)?,
        Command::Completions(arguments) => completions::run(arguments, &mut output),
    }
    output.finish()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::CommandLine;

    /// The flags and arguments of a command and of its subcommands that have no help.
    fn unexplained(command: &clap::Command) -> Vec<String> {
        let (name, arguments) = (command.get_name(), command.get_arguments());
        let own = arguments.filter(|it| it.get_help().is_none());
        let own = own.map(|it| format!("{name} {}", it.get_id()));
        own.chain(command.get_subcommands().flat_map(unexplained))
            .collect()
    }

    /// The lines of prose of a command's and its subcommands' help texts that end in the middle of
    /// a paragraph. The width of the terminal breaks paragraphs.
    fn broken_lines(command: &clap::Command) -> Vec<String> {
        let texts = [command.get_after_help(), command.get_after_long_help()];
        let texts: Vec<String> = texts
            .into_iter()
            .flatten()
            .map(|it| it.to_string())
            .collect();
        let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
        let mut broken = Vec::new();
        for text in &texts {
            let lines: Vec<&str> = text.lines().collect();
            let pairs = lines
                .windows(2)
                .filter(|it| is_prose(it[0]) && is_prose(it[1]));
            let first = pairs.map(|it| it[0]).filter(|it| !it.ends_with([':', '.']));
            broken.extend(first.map(|it| format!("{}: {it}", command.get_name())));
        }
        broken.extend(command.get_subcommands().flat_map(broken_lines));
        broken
    }

    #[test]
    fn help_is_broken_by_the_terminal_alone() {
        assert_eq!(broken_lines(&CommandLine::command()), [""; 0]);
    }

    #[test]
    fn every_argument_is_explained() {
        assert_eq!(unexplained(&CommandLine::command()), [""; 0]);
    }
}
