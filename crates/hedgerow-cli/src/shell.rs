//! `hedgerow shell`: a prompt for the other commands, or a file of them.
//!
//! Each line is a command as on the command line, without the database and the keyspace. It opens
//! the database for itself, so others can use it between two lines.

mod completion;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::path::PathBuf;

use clap::{CommandFactory, ValueHint};
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{Config, Editor};

use self::completion::Words;
use crate::CommandLine;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::{records, standard_input};

const EXAMPLE: &str = "\
Example:
  hedgerow shell --db people
  hedgerow shell --db people commands.txt
  printf 'put ada 1815\\nget ada\\n' | hedgerow shell --db people";

/// The part of the help about the commands of the shell itself.
const IN_THE_SHELL: &str = "\
In the shell:
  put ada 1815          any command of `hedgerow`, without --db; `help` lists them
  use drafts            the keyspace of the lines that follow
  exit, quit            end the shell, as Ctrl-D does
Ctrl-C ends a command that can end early.";

/// The commands that use the shell's database only if `--db` names it.
const WITHOUT_DATABASE: [&str; 3] = ["advise", "bench", "tour"];

/// Runs commands on one database: at a prompt with history and completion, from a file, or a pipe.
///
/// Words are quoted as in `sh`; `#` begins a comment. Each command opens the database, so other
/// programs can use it in between. A file or a pipe ends at the first command that fails, with its
/// line and exit code.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLE}\n\n{IN_THE_SHELL}"))]
pub(crate) struct Arguments {
    /// The directory of the database.
    #[arg(long, env = "HEDGEROW_DB", value_name = "DIR", value_hint = ValueHint::DirPath)]
    db: PathBuf,

    /// The keyspace at the beginning.
    #[arg(long, value_name = "NAME", default_value = "default")]
    keyspace: String,

    /// The file of commands; `-` is standard input.
    #[arg(value_name = "FILE", default_value = "-", value_hint = ValueHint::FilePath)]
    file: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, json: bool) -> Result<(), Failure> {
    let mut session = Session {
        db: arguments.db.to_string_lossy().into_owned(),
        keyspace: arguments.keyspace.clone(),
        json,
    };
    match records::file(&arguments.file) {
        Some(file) => {
            #[allow(clippy::disallowed_methods, reason = "a file that the user names")]
            let opened = File::open(file).map_err(|e| Failure::io("open", file, &e))?;
            session.run_lines(BufReader::new(opened))
        }
        None if io::stdin().is_terminal() => session.prompt(),
        None => {
            standard_input::has_commands();
            session.run_lines(io::stdin().lock())
        }
    }
}

/// The state that the lines of a shell share.
struct Session {
    db: String,
    keyspace: String,
    json: bool,
}

/// The answer of a line.
enum Next {
    Line,
    End,
}

impl Session {
    fn run_lines(&mut self, lines: impl BufRead) -> Result<(), Failure> {
        for (line, number) in lines.lines().zip(1..) {
            let line = line.map_err(|e| {
                Failure::new(Exit::Failure, format!("cannot read the commands: {e}"))
            })?;
            match self.run_line(&line) {
                Ok(Next::Line) => {}
                Ok(Next::End) => break,
                Err(failure) => return Err(failure.after(&format!("line {number}: "))),
            }
            if Interrupt::came_to_any() {
                return Err(Interrupt::failure().after(&format!("line {number}: ")));
            }
        }
        Ok(())
    }

    fn prompt(&mut self) -> Result<(), Failure> {
        let failed =
            |e: ReadlineError| Failure::new(Exit::Failure, format!("cannot use the terminal: {e}"));
        let config = Config::builder().auto_add_history(true).build();
        let mut editor: Editor<Words, DefaultHistory> =
            Editor::with_config(config).map_err(failed)?;
        editor.set_helper(Some(Words {
            db: self.db.clone(),
        }));
        let history = history_file();
        if let Some(file) = &history {
            // A first run has none.
            let _ = editor.load_history(file);
        }
        eprintln!("`help` lists the commands, `use NAME` changes the keyspace, `exit` ends.");
        loop {
            match editor.readline(&format!("{}> ", self.keyspace)) {
                Ok(line) => {
                    if let Some(file) = &history {
                        // A history that cannot be kept is no failure of a command.
                        let _ = editor.save_history(file);
                    }
                    // The first Ctrl-C ends no shell.
                    Interrupt::listen()?.forget();
                    if matches!(self.run_typed(&line), Next::End) {
                        break;
                    }
                }
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    /// Runs what was typed or pasted, which may be several lines, and reports what fails.
    fn run_typed(&mut self, lines: &str) -> Next {
        for line in lines.lines() {
            match self.run_line(line) {
                Ok(Next::Line) => {}
                Ok(Next::End) => return Next::End,
                Err(failure) => drop(failure.report(self.json)),
            }
            if Interrupt::came_to_any() {
                break;
            }
        }
        Next::Line
    }

    fn run_line(&mut self, line: &str) -> Result<Next, Failure> {
        let usage = |message: String| Failure::new(Exit::Usage, message);
        let words = shlex::split(line)
            .ok_or_else(|| usage(format!("expected a closing quote in `{line}`")))?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            [] => {}
            ["exit" | "quit"] => return Ok(Next::End),
            ["use", name] => name.clone_into(&mut self.keyspace),
            ["use", ..] => return Err(usage("expected `use NAME`".to_owned())),
            ["help"] => {
                crate::run_words(self.complete(&words))?;
                let mut output = Output::new(false);
                output.line(format_args!("\n{IN_THE_SHELL}"));
                output.finish()?;
            }
            ["shell", ..] => return Err(usage("this is the shell already".to_owned())),
            _ => crate::run_words(self.complete(&words))?,
        }
        Ok(Next::Line)
    }

    /// Adds the database and the keyspace, where a command takes them and has none.
    fn complete(&self, words: &[&str]) -> Vec<String> {
        let mut command = &CommandLine::command();
        let mut depth = 0;
        while let Some(inner) = words.get(depth).and_then(|it| command.find_subcommand(it)) {
            command = inner;
            depth += 1;
        }
        // Behind `--` are keys and values.
        let flags = words.iter().take_while(|word| **word != "--");
        let lacks = |flag: &str| {
            let long = format!("--{flag}");
            let with_value = format!("{long}=");
            let has = |word: &&str| **word == long || word.starts_with(&with_value);
            command
                .get_arguments()
                .any(|it| it.get_long() == Some(flag))
                && !flags.clone().any(has)
        };
        let mut all = vec!["hedgerow".to_owned()];
        all.extend(words[..depth].iter().map(|it| (*it).to_owned()));
        let has_own = words
            .first()
            .is_some_and(|it| WITHOUT_DATABASE.contains(it));
        for (flag, value) in [("db", &self.db), ("keyspace", &self.keyspace)] {
            if !has_own && lacks(flag) {
                all.push(format!("--{flag}={value}"));
            }
        }
        if self.json {
            all.push("--json".to_owned());
        }
        all.extend(words[depth..].iter().map(|it| (*it).to_owned()));
        all
    }
}

/// The file of the history, in the place that the desktop's rules name.
fn history_file() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|it| !it.is_empty());
    let state = variable("XDG_STATE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(variable("HOME")?).join(".local/state"));
    let folder = state.or_else(home)?.join("hedgerow");
    fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_and_the_keyspace_are_added_where_they_belong() {
        let session = Session {
            db: "people".to_owned(),
            keyspace: "drafts".to_owned(),
            json: false,
        };
        let line = |words: &[&str]| session.complete(words).join(" ");
        assert_eq!(
            line(&["put", "--", "-1", "x"]),
            "hedgerow put --db=people --keyspace=drafts -- -1 x"
        );
        assert_eq!(
            line(&["put", "--", "--keyspace", "--db=x"]),
            "hedgerow put --db=people --keyspace=drafts -- --keyspace --db=x"
        );
        assert_eq!(
            line(&["backup", "list", "copies"]),
            "hedgerow backup list copies"
        );
        assert_eq!(
            line(&["get", "--keyspace=other", "a"]),
            "hedgerow get --db=people --keyspace=other a"
        );
        assert_eq!(line(&["help", "get"]), "hedgerow help get");
        assert_eq!(
            line(&["bench", "fillrandom", "--num", "5"]),
            "hedgerow bench fillrandom --num 5"
        );
    }
}
