//! Completion in the shell: commands, flags, keyspaces and files.

use clap::{Arg, Command, CommandFactory, ValueHint};
use rustyline::completion::{Completer, FilenameCompleter};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use crate::CommandLine;

/// The commands of the shell itself.
const OWN: [&str; 3] = ["use", "exit", "quit"];

/// Completes commands, flags, keyspaces and files.
pub(super) struct Words {
    /// The directory of the database.
    pub(super) db: String,
}

impl Helper for Words {}
impl Highlighter for Words {}
impl Validator for Words {}

impl Hinter for Words {
    type Hint = String;
}

impl Completer for Words {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let (begun, quote) = last_word(&line[..at]);
        let (before, part) = (&line[..begun], &line[begun..at]);
        if names_file(before) && !part.starts_with('-') {
            return files(line, at, quote);
        }
        let mut words = match names_keyspace(before) {
            true => self.keyspaces(part),
            false => candidates(before, part),
        };
        if let [word] = &mut words[..] {
            // It is whole.
            word.push(' ');
        }
        Ok((begun, words))
    }
}

impl Words {
    /// The keyspaces whose names begin with `part`; none if the database cannot be opened.
    fn keyspaces(&self, part: &str) -> Vec<String> {
        let db = hedgerow::Db::builder(&self.db).read_only(true).open();
        let names = db.map(|db| db.keyspaces()).unwrap_or_default();
        names
            .into_iter()
            .filter(|it| it.starts_with(part))
            .collect()
    }
}

/// The last word of a line, which may be unfinished: where it begins, and the quote that is open in
/// it. Words end where they end for `shlex`, which divides a whole line.
fn last_word(line: &str) -> (usize, Option<char>) {
    let (mut begun, mut quote, mut is_escaped) = (0, None, false);
    for (at, char) in line.char_indices() {
        match (char, quote) {
            _ if is_escaped => is_escaped = false,
            ('\\', None | Some('"')) => is_escaped = true,
            ('"' | '\'', None) => quote = Some(char),
            (' ' | '\t', None) => begun = at + 1,
            (_, Some(open)) if char == open => quote = None,
            _ => {}
        }
    }
    (begun, quote)
}

/// The words of a line that is whole, or of its whole part.
fn words_of(line: &str) -> Vec<String> {
    shlex::split(line).unwrap_or_default()
}

/// Returns true if the name of a keyspace follows.
fn names_keyspace(before: &str) -> bool {
    let words = words_of(before);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    matches!(
        words[..],
        ["use" | "clear" | "drop" | "rename"] | [.., "--keyspace"]
    )
}

/// The files and directories that may follow, and where their names begin. `quote` is open there.
fn files(line: &str, at: usize, quote: Option<char>) -> rustyline::Result<(usize, Vec<String>)> {
    let (begun, found) = FilenameCompleter::new().complete_path(line, at)?;
    let mut names: Vec<String> = found.into_iter().map(|it| it.replacement).collect();
    if let [name] = &mut names[..]
        && !name.ends_with('/')
    {
        // It is whole.
        name.extend(quote);
        name.push(' ');
    }
    Ok((begun, names))
}

/// Returns true if the name of a file or directory follows: the value of a flag, or a word.
fn names_file(before: &str) -> bool {
    let mut root = CommandLine::command();
    // Counts the values that each argument takes.
    root.build();
    let Some((command, rest)) = command_of(&root, before) else {
        return false;
    };
    let mut flag: Option<&Arg> = None;
    let mut words = 0;
    for word in rest {
        flag = match word.strip_prefix("--") {
            Some(name) => value_of(command, name),
            None if flag.is_some() => flag.filter(|it| values_max(it) > 1),
            None => {
                words += 1;
                None
            }
        };
    }
    let argument = flag.or_else(|| {
        command.get_positionals().nth(words).or_else(|| {
            let last = command.get_positionals().last();
            last.filter(|it| values_max(it) > 1)
        })
    });
    let hint = argument.map(Arg::get_value_hint);
    matches!(
        hint,
        Some(ValueHint::AnyPath | ValueHint::DirPath | ValueHint::FilePath)
    )
}

/// The flag of a command, if a value follows it.
fn value_of<'a>(command: &'a Command, flag: &str) -> Option<&'a Arg> {
    let its = command
        .get_arguments()
        .find(|it| it.get_long() == Some(flag));
    its.filter(|it| it.get_action().takes_values() && !it.is_require_equals_set())
}

fn values_max(argument: &Arg) -> usize {
    argument.get_num_args().map_or(1, |it| it.max_values())
}

/// The innermost command of a line and the words that follow it; `None` for a command of the shell,
/// or none.
fn command_of<'a>(root: &'a Command, line: &str) -> Option<(&'a Command, Vec<String>)> {
    let mut command = root;
    let mut words = words_of(line).into_iter().peekable();
    while let Some(inner) = words.peek().and_then(|word| command.find_subcommand(word)) {
        command = inner;
        words.next();
    }
    let rest: Vec<String> = words.collect();
    let is_unknown = command.get_name() == root.get_name() && !rest.is_empty();
    (!is_unknown).then_some((command, rest))
}

/// The commands and flags that may follow `before` and begin with `part`.
fn candidates(before: &str, part: &str) -> Vec<String> {
    let mut root = CommandLine::command();
    // Adds `help` and its commands.
    root.build();
    let Some((command, _)) = command_of(&root, before) else {
        return Vec::new();
    };
    let own = OWN.iter().filter(|_| before.trim().is_empty());
    let commands = command.get_subcommands().map(|it| it.get_name().to_owned());
    let flags = command.get_arguments().filter_map(Arg::get_long);
    let mut all: Vec<String> = own
        .map(|it| (*it).to_owned())
        .chain(commands)
        .chain(flags.map(|it| format!("--{it}")))
        .filter(|word| word.starts_with(part))
        .collect();
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use rustyline::history::DefaultHistory;

    use super::*;

    #[test]
    fn commands_and_flags_are_completed() {
        assert_eq!(candidates("", "re"), ["rename", "repair", "retune"]);
        assert_eq!(candidates("", "ex"), ["exit", "explain", "export"]);
        assert_eq!(candidates("backup ", "pr"), ["prune"]);
        assert_eq!(candidates("", "he"), ["help"]);
        assert_eq!(candidates("help ", "re"), ["rename", "repair", "retune"]);
        assert_eq!(candidates("help backup ", "pr"), ["prune"]);
        assert_eq!(candidates("get ", "--he"), ["--help", "--hex"]);
        assert_eq!(candidates("scan --limit 3 ", "--rev"), ["--reverse"]);
        assert_eq!(candidates("use ", ""), [""; 0]);
        assert!(names_keyspace("use ") && names_keyspace("scan --keyspace "));
        assert!(!names_keyspace("scan ") && !names_keyspace("use a "));
    }

    #[test]
    fn files_are_completed_where_a_command_takes_one() {
        let with = [
            "load ",
            "load --format csv ",
            "load a.csv b.csv ",
            "ingest a ",
            "dump ",
            "export ",
            "import --skip 3 ",
            "checkpoint ",
            "backup restore ",
            "backup restore copies ",
            "inspect table ",
            "put --design ",
            "bench --report ",
            "bench fillseq --from a b ",
            "tour ",
        ];
        let without = [
            "",
            "get ",
            "put a ",
            "use ",
            "none ",
            "dump a ",
            "load --format ",
            "inspect ",
            "backup ",
            "bench fillseq ",
            "scan --limit ",
        ];
        for line in with {
            assert!(names_file(line), "{line}");
        }
        for line in without {
            assert!(!names_file(line), "{line}");
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("folder")).unwrap();
        #[allow(clippy::disallowed_methods, reason = "a test makes files with std::fs")]
        std::fs::write(dir.path().join("a file.csv"), "").unwrap();
        let words = Words {
            db: "none".to_owned(),
        };
        let history = DefaultHistory::new();
        let dir = dir.path().display();
        let complete = |line: &str| {
            let (begun, found) = words
                .complete(line, line.len(), &Context::new(&history))
                .unwrap();
            found
                .iter()
                .map(|it| format!("{}{it}", &line[..begun]))
                .collect::<Vec<_>>()
        };
        // `dump` takes one file, so that a part of a name must not count as a whole one.
        for (begun, whole) in [
            ("load DIR/fo", "load DIR/folder/"),
            ("load DIR/a", "load DIR/a\\ file.csv "),
            ("dump DIR/a\\ fi", "dump DIR/a\\ file.csv "),
            ("dump \"DIR/a fi", "dump \"DIR/a file.csv\" "),
            ("dump 'DIR/a fi", "dump 'DIR/a file.csv' "),
            ("dump \"DIR/fo", "dump \"DIR/folder/"),
            (
                "load 'b c.csv' \"DIR/a",
                "load 'b c.csv' \"DIR/a file.csv\" ",
            ),
        ] {
            let [begun, whole] = [begun, whole].map(|it| it.replace("DIR", &dir.to_string()));
            assert_eq!(complete(&begun), [whole]);
        }
        assert_eq!(complete(&format!("dump 'b c.csv' {dir}/a")), [""; 0]);
    }

    #[test]
    fn keyspaces_are_completed() {
        let dir = tempfile::tempdir().unwrap();
        let db = hedgerow::Db::open(dir.path()).unwrap();
        for name in ["users", "usage", "other"] {
            db.keyspace(name, hedgerow::Layout::sorted()).unwrap();
        }
        let of = |path: &std::path::Path| Words {
            db: path.to_string_lossy().into_owned(),
        };
        // The database is open: completion reads beside it.
        assert_eq!(of(dir.path()).keyspaces("us"), ["usage", "users"]);
        assert_eq!(of(&dir.path().join("none")).keyspaces(""), [""; 0]);
    }
}
