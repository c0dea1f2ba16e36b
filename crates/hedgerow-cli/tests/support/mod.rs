//! Runs the real binary and checks its exit.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hedgerow::{Db, Layout};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) fn command<S: AsRef<OsStr>>(arguments: &[S]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hedgerow"));
    command.args(arguments).env_remove("NO_COLOR");
    command
}

pub(crate) fn hedgerow<S: AsRef<OsStr>>(arguments: &[S]) -> Output {
    output(&mut command(arguments))
}

fn output(command: &mut Command) -> Output {
    command.stdin(Stdio::null());
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.wait_with_output().unwrap()
}

/// The single object that a command prints, which must succeed.
pub(crate) fn object(output: &Output) -> Value {
    serde_json::from_slice(stdout(output)).unwrap()
}

/// The output of a command, which must succeed.
pub(crate) fn stdout(output: &Output) -> &[u8] {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    &output.stdout
}

/// The error object of a command, which must end with `code`.
pub(crate) fn failure(output: &Output, code: i32) -> Value {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(output.stdout.is_empty());
    let failure: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(failure["error"]["exit_code"], code);
    failure["error"].clone()
}

/// Asserts that a command ends with `code` and that its message contains all of `parts`.
pub(crate) fn fails_saying(output: &Output, code: i32, parts: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    for part in parts {
        assert!(text.contains(part), "expected `{part}` in: {text}");
    }
}

/// A temporary directory with the path of a database in it.
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn db(&self) -> PathBuf {
        self.path("db")
    }

    /// `hedgerow COMMAND --db DB MORE…`.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, name: &str, more: &[S]) -> Command {
        let db = self.db();
        let mut command = command(&[OsStr::new(name), OsStr::new("--db"), db.as_os_str()]);
        command.args(more).current_dir(self.dir.path());
        command
    }

    pub(crate) fn run<S: AsRef<OsStr>>(&self, name: &str, more: &[S]) -> Output {
        output(&mut self.command(name, more))
    }

    /// The output of a command as text; the command must succeed.
    pub(crate) fn text<S: AsRef<OsStr>>(&self, name: &str, more: &[S]) -> String {
        String::from_utf8(stdout(&self.run(name, more)).to_vec()).unwrap()
    }

    pub(crate) fn run_with_input(&self, name: &str, more: &[&str], input: &[u8]) -> Output {
        let mut command = self.command(name, more);
        command.stdin(Stdio::piped());
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that fails early does not read all input.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap()
    }

    /// Creates the database with one keyspace, `default`, that holds `pairs`.
    pub(crate) fn fill<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, pairs: &[(K, V)]) {
        let db = Db::open(self.db()).unwrap();
        let keyspace = db.keyspace("default", Layout::sorted()).unwrap();
        for (key, value) in pairs {
            keyspace.put(key, value).unwrap();
        }
        db.close().unwrap();
    }
}

/// The files directly in a directory.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap();
    entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect()
}
