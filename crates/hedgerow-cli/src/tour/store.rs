//! The metadata service that the tour drives: the queries of a file system over two keyspaces.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hedgerow::{
    Batch, Builder, Db, Design, ErrorKind, Event, Keyspace, Layout, Slice, Snapshot, VerifyReport,
};

use super::schema::{Attributes, ROOT, entry_key, split_entry_key};
use crate::exit::{Exit, Failure};

const ENTRIES: &str = "entries";
const INODES: &str = "inodes";
/// The keyspace that marks the database of a tour, whose contents the next tour may replace.
const MARK: &str = "tour";

/// The settings with which the database is opened each time.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) path: PathBuf,
    pub(crate) memory_budget: u64,
    pub(crate) layout: Layout,
    pub(crate) design: Design,
    pub(crate) background: Background,
}

/// The errors of background jobs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Background {
    errors: Arc<Mutex<Vec<String>>>,
}

impl Background {
    fn hear(&self, event: &Event) {
        let text = match event {
            Event::BackgroundError { doing, error } => format!("{doing}: {error}"),
            Event::Poisoned { error } => error.to_string(),
            _ => return,
        };
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        errors.push(text);
    }

    pub(crate) fn errors(&self) -> Vec<String> {
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        errors.clone()
    }
}

impl Settings {
    fn builder(&self, path: &Path) -> Builder {
        let background = self.background.clone();
        Db::builder(path)
            .memory_budget(self.memory_budget)
            .listener(move |event| background.hear(event))
    }
}

/// A digest of a keyspace: equal contents have equal digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Contents {
    pub(crate) entries: u64,
    /// The bytes of keys and values.
    pub(crate) bytes: u64,
    hash: u64,
}

/// An open metadata store.
pub(crate) struct Store {
    pub(crate) db: Db,
    pub(crate) entries: Keyspace,
    pub(crate) inodes: Keyspace,
}

impl Store {
    /// Opens or creates the database. Empties the database of an earlier tour; refuses any other.
    pub(crate) fn create(settings: &Settings) -> Result<Store, Failure> {
        let db = open_or_create(settings)?;
        refuse_others(&db, &settings.path)?;
        for name in [ENTRIES, INODES] {
            if db.existing_keyspace(name).is_some() {
                db.drop_keyspace(name)?;
            }
        }
        db.keyspace(MARK, Layout::sorted())?;
        Store::with_keyspaces(db, settings)
    }

    /// Opens the database that [`Store::create`] made, or a copy of it.
    pub(crate) fn reopen(settings: &Settings, path: &Path) -> Result<Store, Failure> {
        let db = settings.builder(path).create_if_missing(false).open()?;
        Store::with_keyspaces(db, settings)
    }

    fn with_keyspaces(db: Db, settings: &Settings) -> Result<Store, Failure> {
        let entries =
            db.keyspace_with(ENTRIES, settings.layout.clone(), settings.design.clone())?;
        let inodes = db.keyspace_with(INODES, settings.layout.clone(), settings.design.clone())?;
        Ok(Store {
            db,
            entries,
            inodes,
        })
    }

    /// Adds an entry to a batch, in both keyspaces. A further name of an entry is already in
    /// `inodes`.
    pub(crate) fn add(
        &self,
        batch: &mut Batch,
        (parent, name): (u64, &[u8]),
        attributes: &Attributes,
        again: bool,
    ) -> Result<(), Failure> {
        let key = entry_key(parent, name);
        batch.put(&self.entries, &key, attributes.encode())?;
        if !again {
            batch.put(&self.inodes, attributes.id.to_be_bytes(), key)?;
        }
        Ok(())
    }

    /// Looks up one entry of a directory.
    pub(crate) fn lookup(&self, parent: u64, name: &[u8]) -> Result<Option<Attributes>, Failure> {
        let value = self.entries.get(entry_key(parent, name))?;
        value.map(|value| Attributes::decode(&value)).transpose()
    }

    /// Looks up a path below the root, one get per component, as a kernel resolves it. Returns the
    /// attributes and the number of gets.
    pub(crate) fn stat(&self, path: &Path) -> Result<(Option<Attributes>, u64), Failure> {
        let mut here = self.lookup(super::schema::ABOVE_ROOT, b"")?;
        let mut gets = 1;
        for name in path {
            let Some(directory) = here else {
                break;
            };
            here = self.lookup(directory.id, name.as_encoded_bytes())?;
            gets += 1;
        }
        Ok((here, gets))
    }

    /// Lists the entries of a directory by name.
    pub(crate) fn list(
        &self,
        directory: u64,
    ) -> Result<impl Iterator<Item = Result<(Vec<u8>, Attributes), Failure>>, Failure> {
        let scan = self.entries.scan_prefix(directory.to_be_bytes())?;
        Ok(scan.map(|item| {
            let (key, value) = item?;
            let (_, name) = split_entry_key(&key)?;
            Ok((name.to_vec(), Attributes::decode(&value)?))
        }))
    }

    /// The path of a directory below the root, empty for the root itself.
    pub(crate) fn path(&self, id: u64) -> Result<Vec<u8>, Failure> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut here = id;
        while here != ROOT {
            let Some(place) = self.inodes.get(here.to_be_bytes())? else {
                let message = format!("corruption: expected inode {here}, found none");
                return Err(Failure::new(Exit::Corruption, message));
            };
            let (parent, name) = split_entry_key(&place)?;
            names.push(name.to_vec());
            here = parent;
        }
        names.reverse();
        Ok(names.join(&b'/'))
    }

    /// The current contents of entries and inodes.
    pub(crate) fn contents(&self) -> Result<[Contents; 2], Failure> {
        Ok([
            digest(self.entries.scan::<&[u8]>(..)?)?,
            digest(self.inodes.scan::<&[u8]>(..)?)?,
        ])
    }

    /// The contents of a snapshot.
    pub(crate) fn contents_at(&self, snapshot: &Snapshot) -> Result<[Contents; 2], Failure> {
        Ok([
            digest(snapshot.scan::<&[u8]>(&self.entries, ..)?)?,
            digest(snapshot.scan::<&[u8]>(&self.inodes, ..)?)?,
        ])
    }

    /// Waits for merges.
    pub(crate) fn settle(&self) -> Result<(), Failure> {
        self.entries.wait_until_merged()?;
        self.inodes.wait_until_merged()?;
        Ok(())
    }

    pub(crate) fn verify(&self) -> Result<VerifyReport, Failure> {
        Ok(self.db.verify()?)
    }

    pub(crate) fn close(self) -> Result<(), Failure> {
        Ok(self.db.close()?)
    }
}

/// A directory that exists and is not empty must hold a database.
fn open_or_create(settings: &Settings) -> Result<Db, Failure> {
    let path = &settings.path;
    let empty = match std::fs::read_dir(path) {
        Ok(mut names) => names.next().is_none(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
        Err(error) => return Err(Failure::io("list", path, &error)),
    };
    let opened = settings.builder(path).create_if_missing(empty).open();
    opened.map_err(|error| match error.kind() {
        ErrorKind::InvalidArgument if !empty => Failure::new(
            Exit::Usage,
            format!(
                "{} is not empty and holds no database; choose a new directory",
                path.display()
            ),
        ),
        _ => error.into(),
    })
}

fn refuse_others(db: &Db, path: &Path) -> Result<(), Failure> {
    let names = db.keyspaces();
    let ours = |name: &String| [ENTRIES, INODES, MARK].contains(&name.as_str());
    if names.is_empty() || names.iter().any(|name| name == MARK) && names.iter().all(ours) {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Usage,
        format!(
            "the database in {} is not a tour's (it has {}); choose a new directory",
            path.display(),
            names.join(", ")
        ),
    ))
}

fn digest(
    scan: impl Iterator<Item = hedgerow::Result<(Slice, Slice)>>,
) -> Result<Contents, Failure> {
    let mut contents = Contents::default();
    let mut hasher = DefaultHasher::new();
    for item in scan {
        let (key, value) = item?;
        contents.entries += 1;
        contents.bytes += (key.len() + value.len()) as u64;
        (&*key, &*value).hash(&mut hasher);
    }
    contents.hash = hasher.finish();
    Ok(contents)
}
