//! `hedgerow backup`: backups of databases, also of one that another process has open.

use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use clap::ValueHint;
use hedgerow_copies::backup::{Backup, Options, Progress, Repository};
use indicatif::HumanDuration;
use serde_json::{Value, json};

use crate::arguments;
use crate::database::DatabaseArguments;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::output::{Output, bytes, counted, progress_bytes};

const EXAMPLE: &str = "\
Example:
  hedgerow backup create --db people backups
  hedgerow backup list backups
  hedgerow backup restore backups people.restored

Ctrl-C ends it; the repository stays whole.";

/// Makes, lists, checks, restores and removes backups in a directory, the repository.
///
/// Another process may have the database open. Backups in one repository share the tables that they
/// have in common.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Adds a backup of a database as it is now. It copies what the repository does not have
    Create {
        #[command(flatten)]
        database: DatabaseArguments,

        #[command(flatten)]
        repository: RepositoryArguments,

        /// The bytes per second to read at most
        #[arg(long, value_name = "BYTES", value_parser = arguments::bytes)]
        rate: Option<u64>,

        /// Takes tables of the same name, size and footer for the same, without reading them. Only
        /// for a database that was never copied and then written in both places
        #[arg(long)]
        quick: bool,
    },
    /// Lists the backups, oldest first
    List {
        #[command(flatten)]
        repository: RepositoryArguments,
    },
    /// Reads all files of a backup and compares them with their checksums
    Verify {
        #[command(flatten)]
        repository: RepositoryArguments,

        #[command(flatten)]
        choice: Choice,
    },
    /// Makes a database of a backup, in a directory that does not exist
    Restore {
        #[command(flatten)]
        repository: RepositoryArguments,

        /// The directory of the new database
        #[arg(value_name = "DEST", value_hint = ValueHint::DirPath)]
        destination: PathBuf,

        #[command(flatten)]
        choice: Choice,
    },
    /// Removes old backups, and the files that only they have
    Prune {
        #[command(flatten)]
        repository: RepositoryArguments,

        /// The number of backups to keep, the newest ones
        #[arg(long, value_name = "COUNT")]
        keep: usize,
    },
}

#[derive(Debug, clap::Args)]
struct RepositoryArguments {
    /// The directory of the backups
    #[arg(value_name = "REPOSITORY", value_hint = ValueHint::DirPath)]
    repository: PathBuf,
}

impl RepositoryArguments {
    /// The repository; `create` makes it.
    fn place(&self) -> Repository {
        Repository::new(&self.repository)
    }

    /// The repository and its backups, oldest first.
    ///
    /// # Errors
    /// `NotFound` if there is no repository.
    fn open(&self) -> Result<(Repository, Vec<Backup>), Failure> {
        let repository = self.place();
        let backups = repository.list().map_err(Failure::of_search)?;
        Ok((repository, backups))
    }

    /// The repository with the chosen backup.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    fn with(&self, choice: &Choice) -> Result<Repository, Failure> {
        let repository = self.place();
        repository.find(choice.backup).map_err(Failure::of_search)?;
        Ok(repository)
    }
}

#[derive(Debug, clap::Args)]
struct Choice {
    /// The number of the backup, as `list` shows it; the newest one by default
    #[arg(long, value_name = "NUMBER")]
    backup: Option<u64>,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    match &arguments.what {
        What::Create {
            database,
            repository,
            rate,
            quick,
        } => {
            create(database, repository, *rate, *quick, output)?;
        }
        What::List { repository } => {
            let (_, backups) = repository.open()?;
            for backup in &backups {
                let (id, age, contents) = (backup.id, age(backup), contents(backup));
                output.line(format_args!("backup {id}, made {age} ago: {contents}"));
            }
            let backups: Vec<Value> = backups.iter().map(object).collect();
            output.object(&json!({ "backups": backups }));
        }
        What::Verify { repository, choice } => {
            let repository = repository.with(choice)?;
            let found = with_bar("checking", |go_on| repository.verify(choice.backup, go_on))?;
            let (id, contents) = (found.id, contents(&found));
            output.line(format_args!("backup {id} is whole: {contents}"));
            output.object(&object(&found));
        }
        What::Restore {
            repository,
            destination,
            choice,
        } => {
            let repository = repository.with(choice)?;
            let restored = with_bar("restoring", |go_on| {
                repository.restore(choice.backup, destination, go_on)
            })?;
            let (id, to) = (restored.id, destination.display());
            let contents = contents(&restored);
            output.line(format_args!("restored backup {id} to {to}: {contents}"));
            output.object(&object(&restored));
        }
        What::Prune { repository, keep } => {
            let (repository, _) = repository.open()?;
            let pruned = repository.prune(*keep)?;
            output.line(format_args!(
                "removed {} and {}, {}",
                counted(pruned.backups, "backup"),
                counted(pruned.files, "file"),
                bytes(pruned.bytes),
            ));
            output.object(&json!({
                "backups": pruned.backups,
                "files": pruned.files,
                "bytes": pruned.bytes,
            }));
        }
    }
    Ok(())
}

fn create(
    database: &DatabaseArguments,
    repository: &RepositoryArguments,
    rate: Option<u64>,
    quick: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    database.refuse_inside(&repository.repository, "backups")?;
    let mut options = Options::default().bytes_per_second(rate.unwrap_or(0));
    if quick {
        options = options.quick();
    }
    let (db, mut copied_bytes) = (database.existing()?, 0);
    let made = with_bar("copying", |go_on| {
        repository.place().create(&db, options, |progress| {
            copied_bytes = progress.copied_bytes;
            go_on(progress)
        })
    })?;
    let (id, copied) = (made.id, bytes(copied_bytes));
    let contents = contents(&made);
    output.line(format_args!(
        "made backup {id}: {contents}, copied {copied}"
    ));
    let mut object = object(&made);
    object["copied_bytes"] = json!(copied_bytes);
    output.object(&object);
    Ok(())
}

/// Does work with a bar that shows its progress, until Ctrl-C.
fn with_bar(
    doing: &str,
    work: impl FnOnce(&mut dyn FnMut(Progress) -> bool) -> hedgerow::Result<Backup>,
) -> Result<Backup, Failure> {
    let interrupt = Interrupt::listen()?;
    let bar = progress_bytes(doing, 0);
    let done = work(&mut |progress| {
        bar.set_length(progress.total_bytes);
        bar.set_position(progress.done_bytes);
        !interrupt.came()
    });
    bar.finish_and_clear();
    Ok(done?)
}

/// The time since a backup was made. A clock that went back makes it one of now.
fn age(backup: &Backup) -> HumanDuration {
    let made = Duration::from_secs(backup.made_unix_seconds);
    let now = UNIX_EPOCH.elapsed().unwrap_or_default();
    HumanDuration(now.saturating_sub(made))
}

fn contents(backup: &Backup) -> String {
    let files = counted(backup.files.len() as u64, "file");
    let (size, last) = (bytes(backup.bytes()), backup.last);
    format!("{size} in {files}, up to write {last}")
}

fn object(backup: &Backup) -> Value {
    json!({
        "backup": backup.id,
        "made_unix_seconds": backup.made_unix_seconds,
        "last": backup.last,
        "files": backup.files.len(),
        "bytes": backup.bytes(),
    })
}
