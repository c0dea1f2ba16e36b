//! `hedgerow import SOURCE`: copies what is in another database.

mod rocksdb;

use std::path::PathBuf;

use clap::ValueHint;

use crate::creation::CreationArguments;
use crate::database::KeyspaceArguments;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::transfer::{self, TransferArguments};

const EXAMPLE: &str = "\
Example:
  hedgerow import --db people /var/lib/people.rocks
  hedgerow import --db people --keyspace drafts --column-family drafts /var/lib/people.rocks
  hedgerow import --db data redis://:password@localhost:6379
  hedgerow import --db data /var/lib/redis/dump.rdb";

/// Copies the entries of a database of RocksDB or LevelDB, or all keys of a Redis.
///
/// DIR is a database of RocksDB or LevelDB, whose keys are compared as bytes. The program `ldb` of
/// RocksDB reads them (`apt install rocksdb-tools`), and the copy is checked against its count. No
/// process may have the source open to write.
///
/// URL is a Redis that runs, FILE an RDB file that one has saved. Their keys come into a database
/// that `hedgerow serve` opens, or into a server that runs, if `--db` is its URL. What clients
/// write to the source meanwhile may be missing. A copy into a directory that Ctrl-C or a crash has
/// ended resumes where it was; one into a server begins again. Keys that are there are replaced.
///
/// The source is only read. Creates the database and the keyspace if they are missing. Everything
/// is durable when the command ends.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    #[command(flatten)]
    keyspace: KeyspaceArguments,

    #[command(flatten)]
    creation: CreationArguments,

    /// The `column family` of RocksDB.
    #[arg(long, value_name = "NAME", default_value = "default")]
    column_family: String,

    /// Passes over the first N entries of RocksDB, which an import that ended early has put.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    skip: u64,

    #[command(flatten)]
    transfer: TransferArguments,

    /// The directory of another database, the RDB file, or the URL of a Redis:
    /// redis://[[user]:password@]host[:port][/database].
    #[arg(value_name = "DIR|FILE|URL", value_hint = ValueHint::AnyPath)]
    source: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    if !transfer::is_url(&arguments.source) && !arguments.source.is_file() {
        if arguments.transfer.is_given() {
            let text = "expected no `--restart` and no `--slots` but for a Redis, found one";
            return Err(Failure::new(Exit::Usage, text));
        }
        return rocksdb::run(arguments, output);
    }
    let is_of_rocksdb = arguments.keyspace.name != "default"
        || arguments.column_family != "default"
        || arguments.skip > 0
        || arguments.creation.is_given();
    if is_of_rocksdb {
        let text = "expected no `--keyspace`, `--column-family`, `--skip` or design for the keys of a \
                    Redis, found one: they have keyspaces of their own";
        return Err(Failure::new(Exit::Usage, text));
    }
    transfer::import(
        &arguments.source,
        &arguments.keyspace.database,
        &arguments.transfer,
        output,
    )
}
