//! Copies all keys of a Redis into a database, and back, with a bar.

use std::ops::RangeInclusive;
use std::path::Path;

use crate::database::DatabaseArguments;
use crate::exit::Failure;
use crate::output::Output;

/// The arguments of copies of a Redis.
#[derive(Debug, clap::Args)]
pub(crate) struct TransferArguments {
    /// Begins at the first key of a Redis, also if an earlier copy was not finished.
    #[arg(long)]
    restart: bool,

    /// Copies only the keys of these slots of Redis Cluster, such as `0-5460`; servers with a map
    /// of slots take and give them whatever the map says.
    #[arg(long, value_name = "SLOTS", value_parser = slots)]
    slots: Option<RangeInclusive<u16>>,
}

impl TransferArguments {
    /// Returns true if anything was given.
    pub(crate) fn is_given(&self) -> bool {
        self.restart || self.slots.is_some()
    }
}

/// Parses a slot or a range of them.
fn slots(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let slots = first.parse().ok().zip(last.parse().ok());
    slots
        .filter(|(first, last)| first <= last && *last < 16_384)
        .map(|(first, last)| first..=last)
        .ok_or_else(|| format!("expected slots from 0 to 16383 such as `0-5460`, found `{text}`"))
}

/// Returns true for the URL of a server.
pub(crate) fn is_url(path: &Path) -> bool {
    path.to_str().is_some_and(|it| it.contains("://"))
}

/// Copies a Redis or an RDB file into a database, or into the server whose URL stands in its place.
pub(crate) fn import(
    source: &Path,
    database: &DatabaseArguments,
    arguments: &TransferArguments,
    output: &mut Output,
) -> Result<(), Failure> {
    with::import(source, database, arguments, output)
}

/// Copies a database, or the server whose URL stands in its place, into a Redis.
pub(crate) fn export(
    database: &DatabaseArguments,
    target: &Path,
    arguments: &TransferArguments,
    output: &mut Output,
) -> Result<(), Failure> {
    with::export(database, target, arguments, output)
}

#[cfg(feature = "server")]
mod with {
    use std::path::Path;

    use hedgerow_server::{Endpoint, TransferOptions, transfer};
    use serde_json::json;

    use super::{TransferArguments, is_url};
    use crate::database::DatabaseArguments;
    use crate::exit::{Exit, Failure};
    use crate::interrupt::Interrupt;
    use crate::output::{Output, count, counted, progress, progress_bytes};

    pub(super) fn import(
        source: &Path,
        database: &DatabaseArguments,
        arguments: &TransferArguments,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let source = match is_url(source) {
            true => server(source)?,
            false => Endpoint::RdbFile(source.to_owned()),
        };
        let target = match is_url(&database.db) {
            true => server(&database.db)?,
            false => Endpoint::Directory(Box::new(database.to_create()?)),
        };
        run("importing", (source, target), arguments, output)
    }

    pub(super) fn export(
        database: &DatabaseArguments,
        target: &Path,
        arguments: &TransferArguments,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let source = match is_url(&database.db) {
            true => server(&database.db)?,
            false => Endpoint::Directory(Box::new(database.existing()?)),
        };
        run("exporting", (source, server(target)?), arguments, output)
    }

    fn server(url: &Path) -> Result<Endpoint, Failure> {
        let url = url.to_string_lossy().parse();
        url.map(Endpoint::Server)
            .map_err(|text: String| Failure::new(Exit::Usage, text))
    }

    fn run(
        doing: &str,
        (source, target): (Endpoint, Endpoint),
        arguments: &TransferArguments,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let options = TransferOptions {
            restarts: arguments.restart,
            slots: arguments.slots.clone(),
        };
        let interrupt = Interrupt::listen()?;
        let bar = match source {
            Endpoint::RdbFile(_) => progress_bytes(doing, 0),
            _ => progress(doing, 0),
        };
        let done = transfer(source, target, &options, &mut |progress| {
            bar.set_length(progress.total);
            bar.set_position(progress.done);
            !interrupt.came()
        });
        bar.finish_and_clear();
        let done = done?;
        let before = match done.keys_before {
            0 => String::new(),
            keys => format!("; {} of them earlier", count(keys)),
        };
        let libraries = match done.libraries {
            0 => String::new(),
            number => format!(", {number} libraries of functions"),
        };
        let keys = counted(done.keys, "key");
        output.line(format_args!("copied {keys}{libraries}{before}"));
        output.object(&json!({
            "keys": done.keys,
            "keys_before": done.keys_before,
            "libraries": done.libraries,
        }));
        Ok(())
    }
}

#[cfg(not(feature = "server"))]
mod with {
    use std::path::Path;

    use super::TransferArguments;
    use crate::database::DatabaseArguments;
    use crate::exit::{Exit, Failure};
    use crate::output::Output;

    pub(super) fn import(
        _source: &Path,
        _database: &DatabaseArguments,
        _arguments: &TransferArguments,
        _output: &mut Output,
    ) -> Result<(), Failure> {
        Err(missing())
    }

    pub(super) fn export(
        _database: &DatabaseArguments,
        _target: &Path,
        _arguments: &TransferArguments,
        _output: &mut Output,
    ) -> Result<(), Failure> {
        Err(missing())
    }

    fn missing() -> Failure {
        let text = "expected a build with the feature `server` to copy from or to a Redis";
        Failure::new(Exit::Usage, text)
    }
}
