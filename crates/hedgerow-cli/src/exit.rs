//! The end of a command: its exit code, and one sentence with the reason.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use hedgerow::{Error, ErrorKind};
use rustix::fs::{major, minor};
use serde_json::json;

use crate::interrupt::Interrupt;
use crate::words;

/// The part of the help about exit codes.
pub(crate) const HELP: &str = "\
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 corruption found, 5 locked by another \
process, 130 ended by Ctrl-C. Not found is whatever the command line names and does not exist: a \
database, keyspace, key, slot, backup or file.";

/// The exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// The reader of the output has closed it (`| head`), which is no failure.
    Unread = 0,
    Failure = 1,
    Usage = 2,
    /// Something that the command line names does not exist.
    NotFound = 3,
    Corruption = 4,
    Locked = 5,
    /// The shells' convention: 128 plus the number of the signal.
    Interrupted = 130,
}

impl Exit {
    fn name(self) -> &'static str {
        match self {
            Exit::Unread => "unread",
            Exit::Failure => "failure",
            Exit::Usage => "usage",
            Exit::NotFound => "not-found",
            Exit::Corruption => "corruption",
            Exit::Locked => "locked",
            Exit::Interrupted => "interrupted",
        }
    }
}

/// The reason why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    path: Option<PathBuf>,
    offset: Option<u64>,
    /// The output of the argument parser: a longer message, or the help.
    usage: Option<Box<clap::Error>>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure {
            exit,
            message: message.into(),
            path: None,
            offset: None,
            usage: None,
        }
    }

    /// Adds the file that the failure is about.
    pub(crate) fn at(self, path: &Path) -> Failure {
        Failure {
            path: Some(path.to_path_buf()),
            ..self
        }
    }

    /// Puts `before` in front of the message.
    pub(crate) fn after(self, before: &str) -> Failure {
        Failure {
            message: format!("{before}{}", self.message),
            usage: None,
            ..self
        }
    }

    /// The same failure with another message.
    pub(crate) fn saying(self, message: String) -> Failure {
        Failure {
            message,
            usage: None,
            ..self
        }
    }

    /// Returns true if the command line was refused.
    pub(crate) fn is_usage(&self) -> bool {
        self.exit == Exit::Usage
    }

    /// Appends `more` to the message.
    pub(crate) fn adding(mut self, more: &str) -> Failure {
        self.message.push_str(more);
        self
    }

    /// The operating system refused while doing `action` to `path`.
    pub(crate) fn io(action: &str, path: &Path, error: &io::Error) -> Failure {
        let exit = match error.kind() {
            io::ErrorKind::NotFound => Exit::NotFound,
            _ => Exit::Failure,
        };
        let message = format!("cannot {action} {}: {error}", path.display());
        Failure::new(exit, message).at(path)
    }

    /// The failure of a search for a slot or a backup, which calls its argument invalid only if
    /// there is none of the name.
    pub(crate) fn of_search(error: Error) -> Failure {
        let is_absent = error.kind() == ErrorKind::InvalidArgument;
        Failure::from(error).absent_if(is_absent)
    }

    /// The failure to open a file that the command line names.
    pub(crate) fn of_file(error: Error) -> Failure {
        let source = std::error::Error::source(&error).and_then(|it| it.downcast_ref());
        let is_absent = source.is_some_and(|it: &io::Error| it.kind() == io::ErrorKind::NotFound);
        Failure::from(error).absent_if(is_absent)
    }

    fn absent_if(self, is_absent: bool) -> Failure {
        match is_absent {
            true => Failure {
                exit: Exit::NotFound,
                ..self
            },
            false => self,
        }
    }

    /// A database is open for writing in another process.
    fn locked(dir: &Path) -> Failure {
        let process = lock_holder(&dir.join("LOCK")).map_or_else(
            || "another process".to_owned(),
            |(number, name)| format!("process {number} (`{name}`)"),
        );
        let message = format!(
            "expected to be the only writer of {}, found that {process} has it open; commands that \
             only read work beside it: `get`, `scan`, `count`, `dump`, `stats`, `verify`, `backup` and \
             others",
            dir.display()
        );
        Failure::new(Exit::Locked, message).at(dir)
    }

    /// Writing to standard output failed.
    pub(crate) fn output(error: &io::Error) -> Failure {
        let exit = match error.kind() {
            io::ErrorKind::BrokenPipe => Exit::Unread,
            _ => Exit::Failure,
        };
        Failure::new(exit, format!("cannot write to standard output: {error}"))
    }

    /// Prints the message to standard error and returns the exit code. Requested help goes to
    /// standard output. A closed standard error is ignored.
    pub(crate) fn report(self, as_json: bool) -> ExitCode {
        if self.exit == Exit::Unread {
            return ExitCode::SUCCESS;
        }
        if let Some(usage) = &self.usage
            && (!as_json || !usage.use_stderr())
        {
            let _ = usage.print();
            return ExitCode::from(usage.exit_code() as u8);
        }
        let mut stderr = io::stderr().lock();
        let _ = if as_json {
            let path = self.path.as_deref().map(Path::to_string_lossy);
            let error = json!({
                "kind": self.exit.name(),
                "exit_code": self.exit as u8,
                "message": self.message,
                "path": path,
                "offset": self.offset,
            });
            writeln!(stderr, "{}", json!({ "error": error }))
        } else {
            writeln!(stderr, "hedgerow: {}", self.message)
        };
        ExitCode::from(self.exit as u8)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The number and the name of the process that locks a file, as Linux tells them.
#[allow(clippy::disallowed_methods, reason = "files of the system")]
fn lock_holder(path: &Path) -> Option<(u32, String)> {
    let file = fs::metadata(path).ok()?;
    let (major, minor) = (major(file.dev()), minor(file.dev()));
    let locks = fs::read_to_string("/proc/locks").ok()?;
    // Another file system may have a locked file with the same inode.
    let process = holder(&locks, &format!("{major:02x}:{minor:02x}:{}", file.ino()))?;
    let name = fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
    Some((process, name.trim_end().to_owned()))
}

/// The number of the process that locks a file, in the lines of the system's locks.
fn holder(locks: &str, file: &str) -> Option<u32> {
    // 1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(4);
        let process = words.next()?.parse().ok()?;
        (words.next()? == file).then_some(process)
    })
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        if let (ErrorKind::Locked, Some(dir)) = (error.kind(), error.path()) {
            return Failure::locked(dir);
        }
        let exit = match error.kind() {
            // The call to fix is the command line.
            ErrorKind::InvalidArgument => Exit::Usage,
            ErrorKind::Corruption => Exit::Corruption,
            ErrorKind::Locked => Exit::Locked,
            // Only Ctrl-C cancels anything here.
            ErrorKind::Cancelled => Exit::Interrupted,
            _ => Exit::Failure,
        };
        let said = words::typed(&error);
        Failure {
            path: error.path().map(Path::to_path_buf),
            offset: error.offset(),
            ..match exit {
                Exit::Interrupted => Interrupt::failure().adding(words::beside_ctrl_c(&said)),
                _ => Failure::new(exit, said),
            }
        }
    }
}

/// The other way to name the database.
const OR_VARIABLE: &str = "the environment variable HEDGEROW_DB can name it in place of --db";

/// The reason why a database has an empty name that nobody typed.
const EMPTY_VARIABLE: &str = "the environment variable HEDGEROW_DB, which names it, is empty";

/// Returns a line about the environment variable if the database was not named, or by an empty one.
fn about_variable(error: &clap::Error) -> Option<&'static str> {
    use clap::error::ErrorKind::{InvalidValue, MissingRequiredArgument};
    let is_database = |name: &String| name.starts_with("--db");
    let is_empty = || std::env::var_os("HEDGEROW_DB").is_some_and(|it| it.is_empty());
    match (error.kind(), error.get(ContextKind::InvalidArg)?) {
        (MissingRequiredArgument, ContextValue::Strings(names)) => {
            names.iter().any(is_database).then_some(OR_VARIABLE)
        }
        (InvalidValue, ContextValue::String(name)) => {
            (is_database(name) && is_empty()).then_some(EMPTY_VARIABLE)
        }
        _ => None,
    }
}

/// Returns the line to write if a keyspace was named by a flag and the command takes it as a word.
fn keyspace_as_word(error: &clap::Error) -> Option<String> {
    let unknown = match error.kind() {
        clap::error::ErrorKind::UnknownArgument => error.get(ContextKind::InvalidArg)?,
        _ => return None,
    };
    if !matches!(unknown, ContextValue::String(flag) if flag == "--keyspace") {
        return None;
    }
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else {
        return None;
    };
    let usage = usage.to_string();
    let (command, words) = [("clear", "NAME"), ("drop", "NAME"), ("rename", "FROM TO")]
        .into_iter()
        .find(|(it, _)| usage.contains(&format!("hedgerow {it} ")))?;
    Some(format!(
        "this command takes names without a flag: `hedgerow {command} {words}`"
    ))
}

impl From<clap::Error> for Failure {
    fn from(mut error: clap::Error) -> Failure {
        let text = error.to_string();
        // Keeps the lines before the hints. A missing argument has a line of its own.
        let lines = text.lines().take_while(|line| !line.is_empty());
        let said = lines.map(str::trim).collect::<Vec<_>>().join(" ");
        let mut message = said.strip_prefix("error: ").unwrap_or(&said).to_owned();
        let tip = about_variable(&error).map(str::to_owned);
        let tip = tip.or_else(|| keyspace_as_word(&error));
        if let Some(tip) = tip {
            message += &format!("; {tip}");
            let tip = ContextValue::StyledStrs(vec![tip.into()]);
            error.insert(ContextKind::Suggested, tip);
        }
        Failure {
            usage: Some(Box::new(error)),
            ..Failure::new(Exit::Usage, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::holder;

    #[test]
    fn a_lock_is_of_a_file_on_its_device() {
        let locks = "\
1: POSIX  ADVISORY  WRITE 11 00:1b:70 0 EOF
2: FLOCK  ADVISORY  WRITE 12 fe:00:7 0 EOF
2: -> FLOCK  ADVISORY  WRITE 13 00:1b:7 0 EOF
3: FLOCK  ADVISORY  WRITE 14 00:1b:7 0 EOF
";
        assert_eq!(holder(locks, "00:1b:7"), Some(14));
        assert_eq!(holder(locks, "00:1c:7"), None);
    }
}
