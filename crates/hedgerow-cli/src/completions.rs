//! `hedgerow completions SHELL`: the script with which a shell completes commands and flags.

use clap::CommandFactory;
use clap_complete::Shell;
use serde_json::json;

use crate::CommandLine;
use crate::output::Output;

const EXAMPLE: &str = "\
Example:
  hedgerow completions bash > ~/.local/share/bash-completion/completions/hedgerow
  hedgerow completions zsh > ~/.zfunc/_hedgerow
  hedgerow completions fish > ~/.config/fish/completions/hedgerow.fish";

/// Prints the completion script for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) {
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut CommandLine::command(),
        "hedgerow",
        &mut script,
    );
    let script = String::from_utf8_lossy(&script);
    output.line(format_args!("{}", script.trim_end()));
    output.object(&json!({ "shell": arguments.shell.to_string(), "script": script }));
}
