//! The database and the keyspace that a command works on, and the three ways to open them: to read,
//! beside a writer if there is one; to write; to write, creating the database and the keyspace.

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueHint;
use hedgerow::{Builder, Db, Keyspace, LevelPaths};

use crate::advise::profile;
use crate::arguments;
use crate::creation::CreationArguments;
use crate::encoding::EncodingArguments;
use crate::exit::{Exit, Failure};

/// A directory with either of these is a database, if only a damaged one.
const PARTS: [&str; 2] = ["MANIFEST", "tables"];

/// The arguments of every command on a database.
#[derive(Debug, clap::Args)]
pub(crate) struct DatabaseArguments {
    /// The directory of the database.
    #[arg(long, env = "HEDGEROW_DB", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) db: PathBuf,

    /// The memory budget of the engine.
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = arguments::bytes)]
    memory_budget: u64,

    /// Directories for levels, log and filters, stored in the database:
    /// `0-1=/fast;2-=/slow;log=/fast`. All other files stay in the database's directory
    #[arg(long, value_name = "PATHS")]
    level_paths: Option<LevelPaths>,
}

/// The arguments of every command on one keyspace.
#[derive(Debug, clap::Args)]
pub(crate) struct KeyspaceArguments {
    #[command(flatten)]
    pub(crate) database: DatabaseArguments,

    /// The keyspace.
    #[arg(long = "keyspace", value_name = "NAME", default_value = "default")]
    pub(crate) name: String,
}

/// The arguments of commands that empty or remove a whole keyspace: it has to be named.
#[derive(Debug, clap::Args)]
pub(crate) struct NamedKeyspaceArguments {
    #[command(flatten)]
    database: DatabaseArguments,

    /// The keyspace.
    pub(crate) name: String,
}

impl NamedKeyspaceArguments {
    pub(crate) fn open_to_write(&self) -> Result<(Db, Keyspace), Failure> {
        let db = self.database.open_to_write()?;
        let keyspace = find(&db, &self.name)?;
        Ok((db, keyspace))
    }
}

/// The arguments of every command on entries of a keyspace.
#[derive(Debug, clap::Args)]
pub(crate) struct EntryArguments {
    #[command(flatten)]
    pub(crate) keyspace: KeyspaceArguments,

    #[command(flatten)]
    pub(crate) encoding: EncodingArguments,
}

impl DatabaseArguments {
    pub(crate) fn open_to_read(&self) -> Result<Db, Failure> {
        Ok(self.existing()?.read_only(true).open()?)
    }

    pub(crate) fn open_to_write(&self) -> Result<Db, Failure> {
        Ok(self.existing()?.create_if_missing(false).open()?)
    }

    fn open_or_create(&self) -> Result<Db, Failure> {
        Ok(self.to_create()?.open()?)
    }

    /// A builder for a database that is created if there is none.
    ///
    /// # Errors
    ///
    /// `Usage` if the directory has other files.
    pub(crate) fn to_create(&self) -> Result<Builder, Failure> {
        let used = || fs::read_dir(&self.db).is_ok_and(|mut files| files.next().is_some());
        if !self.exists() && used() {
            let message = format!(
                "expected a database or an empty directory, found other files in {}",
                self.db.display()
            );
            return Err(Failure::new(Exit::Usage, message));
        }
        Ok(self.builder())
    }

    /// A builder for the database.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no database.
    pub(crate) fn existing(&self) -> Result<Builder, Failure> {
        if self.exists() {
            return Ok(self.builder());
        }
        let message = format!("expected a database, found none in {}", self.db.display());
        Err(Failure::new(Exit::NotFound, message))
    }

    /// Refuses a directory for copies that is inside the database.
    pub(crate) fn refuse_inside(&self, directory: &Path, copies: &str) -> Result<(), Failure> {
        if !real_place(directory).starts_with(real_place(&self.db)) {
            return Ok(());
        }
        let message =
            format!("expected a directory outside of the database for {copies}, found one inside");
        Err(Failure::new(Exit::Usage, message))
    }

    fn exists(&self) -> bool {
        PARTS.iter().any(|part| self.db.join(part).exists())
    }

    fn builder(&self) -> Builder {
        let mut builder = Db::builder(&self.db).memory_budget(self.memory_budget);
        if let Some(paths) = &self.level_paths {
            builder = builder.level_paths(paths.clone());
        }
        // `advise` reports a profile that cannot be read; other commands do without.
        match profile::find(None) {
            Ok(device) => builder.device(device),
            Err(_) => builder,
        }
    }
}

/// The path without links and `..`, as far as it exists.
fn real_place(path: &Path) -> PathBuf {
    let mut ancestors = path.ancestors().filter(|it| !it.as_os_str().is_empty());
    let found = ancestors.find_map(|it| Some((it, fs::canonicalize(it).ok()?)));
    let here = || Some((Path::new(""), fs::canonicalize(".").ok()?));
    match found.or_else(here) {
        Some((known, real)) => real.join(path.strip_prefix(known).unwrap_or(path)),
        None => path.to_path_buf(),
    }
}

/// Opens a keyspace for reading, with a memory budget of 64 MiB.
pub(crate) fn open_to_read(db: &Path, keyspace: &str) -> Result<(Db, Keyspace), Failure> {
    let arguments = KeyspaceArguments {
        database: DatabaseArguments {
            db: db.to_path_buf(),
            memory_budget: 64 << 20,
            level_paths: None,
        },
        name: keyspace.to_owned(),
    };
    arguments.open_to_read()
}

impl KeyspaceArguments {
    /// The directory of the database and its memory budget.
    pub(crate) fn place(&self) -> (&Path, u64) {
        (&self.database.db, self.database.memory_budget)
    }

    pub(crate) fn open_to_read(&self) -> Result<(Db, Keyspace), Failure> {
        self.find(self.database.open_to_read()?)
    }

    pub(crate) fn open_to_write(&self) -> Result<(Db, Keyspace), Failure> {
        self.find(self.database.open_to_write()?)
    }

    /// Opens the database and the keyspace, and creates them if they are missing. An existing
    /// keyspace must have the layout that is given, and keeps its design unless another one is
    /// given.
    pub(crate) fn open_or_create(
        &self,
        creation: &CreationArguments,
    ) -> Result<(Db, Keyspace), Failure> {
        let design = creation.design()?;
        let db = self.database.open_or_create()?;
        let existing = db.existing_keyspace(&self.name);
        let mut layout = existing.as_ref().map(Keyspace::layout).unwrap_or_default();
        creation.change(&mut layout);
        let design = design.or_else(|| existing.as_ref().map(Keyspace::design));
        drop(existing);
        let keyspace = db.keyspace_with(&self.name, layout, design.unwrap_or_default())?;
        if creation.auto {
            keyspace.set_self_tuning(true)?;
        }
        Ok((db, keyspace))
    }

    fn find(&self, db: Db) -> Result<(Db, Keyspace), Failure> {
        let keyspace = find(&db, &self.name)?;
        Ok((db, keyspace))
    }
}

/// The keyspace with a name.
///
/// # Errors
///
/// `NotFound` with the names of those that exist.
pub(crate) fn find(db: &Db, name: &str) -> Result<Keyspace, Failure> {
    db.existing_keyspace(name).ok_or_else(|| {
        let found = match db.keyspaces() {
            names if names.is_empty() => "none".to_owned(),
            names => format!("`{}`", names.join("`, `")),
        };
        let message = format!("expected the keyspace `{name}`, found {found}");
        Failure::new(Exit::NotFound, message)
    })
}
