//! Databases of RocksDB and LevelDB, as `ldb` prints them.

use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use hedgerow::Durability;

use super::Arguments;
use crate::encoding::Encoding;
use crate::exit::{Exit, Failure};
use crate::load::pairs::Pairs;
use crate::load::put_all;
use crate::output::Output;
use crate::records::Format;

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let source = &arguments.source;
    if !source.join("CURRENT").exists() {
        let message = format!(
            "expected a database of RocksDB or LevelDB, an RDB file or the URL of a Redis, found none in {}",
            source.display()
        );
        return Err(Failure::new(Exit::NotFound, message).at(source));
    }
    let mut child = dump(source, &arguments.column_family)?;
    let entries = child.stdout.take().map(BufReader::new);
    let entries = entries.ok_or_else(|| Failure::new(Exit::Failure, "ldb has no output"))?;
    let entries = Format::Ldb.source(entries, Encoding::Hex, None)?;
    let mut pairs = Pairs::of_source("the output of ldb".into(), entries, arguments.skip)?;
    let (keyspace, creation) = (&arguments.keyspace, &arguments.creation);
    let mut errors = child.stderr.take();
    let (said, put) = thread::scope(|scope| {
        // Read beside the entries: a pipe full of warnings would stop `ldb`.
        let said = scope.spawn(|| {
            let mut said = String::new();
            if let Some(errors) = &mut errors {
                let _ = errors.read_to_string(&mut said);
            }
            said
        });
        let put = put_all(&mut pairs, keyspace, creation, Durability::Buffered, output);
        // An import that failed first reads no further, and must not wait for a full pipe.
        drop(pairs);
        (said.join().unwrap_or_default(), put)
    });
    match (ended(child, &said), put) {
        (Ok(()), put) => put,
        (Err(failure), Ok(())) => Err(failure),
        // The second one says what was kept.
        (Err(failure), Err(put)) => Err(failure.adding(&format!("; {put}"))),
    }
}

/// Starts `ldb`, which prints all entries.
fn dump(source: &Path, column_family: &str) -> Result<Child, Failure> {
    let mut option = std::ffi::OsString::from("--db=");
    option.push(source);
    let mut command = Command::new("ldb");
    command
        .arg(option)
        .arg(format!("--column_family={column_family}"))
        .args(["dump", "--hex"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::new(
            Exit::Failure,
            "expected the program `ldb` of RocksDB, found none; `apt install rocksdb-tools` has it",
        ),
        _ => Failure::io("run", Path::new("ldb"), &error),
    })
}

/// Waits for the end of `ldb`. Fails with what it has said if it has failed.
fn ended(mut child: Child, said: &str) -> Result<(), Failure> {
    let status = child.wait();
    let status = status.map_err(|e| Failure::io("wait for", Path::new("ldb"), &e))?;
    // By a signal: this process has closed the pipe after a failure of its own.
    if status.success() || status.code().is_none() {
        return Ok(());
    }
    let message = format!("ldb failed: {}", said.trim());
    Err(Failure::new(Exit::Failure, message))
}
