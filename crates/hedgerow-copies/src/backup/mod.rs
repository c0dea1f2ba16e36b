//! Backups: the moments of databases, in one directory, the *repository*.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let [db_dir, repository, restored] = ["db", "backups", "new"].map(|it| dir.path().join(it));
//! use hedgerow::{Db, Layout};
//! use hedgerow_copies::backup::{Options, Repository};
//!
//! let db = Db::open(&db_dir)?;
//! db.keyspace("users", Layout::sorted())?.put(b"ada", b"1815")?;
//!
//! // The database stays open and in use, in this process or another.
//! let repository = Repository::new(repository);
//! let backup = repository.create(&Db::builder(&db_dir), Options::default(), |_| true)?;
//! repository.restore(Some(backup.id), &restored, |_| true)?;
//!
//! let copy = Db::open(&restored)?;
//! let users = copy.existing_keyspace("users").expect("it was copied");
//! assert_eq!(users.get(b"ada")?.as_deref(), Some(&b"1815"[..]));
//! # Ok::<(), hedgerow::Error>(())
//! ```
//!
//! A repository has a directory `files` and a directory `backups`. A file is named by the checksum
//! and the size of its bytes, so backups share the tables that they have in common. A backup is a
//! list of files, a text.
//!
//! A crash at any moment leaves a whole repository: a file gets its name when its bytes are
//! durable, a list when the names of all its files are. What a crash leaves without a list is
//! removed by [`Repository::prune`]. One process works on a repository at a time.

mod listing;
mod restore;
pub(crate) mod stream;

use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path, PathBuf};

use hedgerow::io::{Environment, FileLock, RandomRead, ReadMode, Storage};
use hedgerow::{Builder, DatabaseFile, Error, ErrorKind, Result};

pub use listing::{Backup, StoredFile};
pub use stream::Progress;
use stream::{Stream, checksum};

/// The number of attempts when a writer removes tables that could not be held open.
const ATTEMPTS: usize = 20;
/// The last bytes of a table, which [`Options::quick`] compares: its footer is among them.
const TAIL_BYTES: u64 = 4 << 10;

/// The directories of a database, the outermost first.
pub(crate) const SUBDIRECTORIES: [&str; 4] = ["", "tables", "filters", "log"];

/// The way to make a backup.
#[derive(Debug, Clone, Default)]
#[must_use = "options do nothing by themselves"]
pub struct Options {
    bytes_per_second: Option<u64>,
    quick: bool,
}

impl Options {
    /// Sets the bytes per second to read at most; no limit by default, or if it is 0.
    pub fn bytes_per_second(mut self, bytes: u64) -> Options {
        self.bytes_per_second = (bytes > 0).then_some(bytes);
        self
    }

    /// Takes a table for the one in an earlier backup if name, size and footer are the same. By
    /// default its checksum is computed, which reads all of it and finds damage since then.
    ///
    /// Use this only if the repository has a single database that was never restored or copied and
    /// then written in both places.
    pub fn quick(mut self) -> Options {
        self.quick = true;
        self
    }
}

/// A directory of backups.
#[derive(Debug, Clone)]
pub struct Repository {
    dir: PathBuf,
    environment: Environment,
}

/// The outcome of [`Repository::prune`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// The number of backups removed.
    pub backups: u64,
    /// The number of files removed.
    pub files: u64,
    /// The bytes of these files.
    pub bytes: u64,
}

impl Repository {
    /// A repository in this directory, which [`Repository::create`] makes if it is missing.
    pub fn new(dir: impl AsRef<Path>) -> Repository {
        Repository {
            dir: dir.as_ref().to_path_buf(),
            environment: Environment::os(),
        }
    }

    /// Sets the files and the clock to use; the machine's by default.
    pub fn environment(mut self, environment: Environment) -> Repository {
        self.environment = environment;
        self
    }

    /// Adds a backup of a database as it is now. Any process may have it open. The backup has a
    /// prefix of its commits with every synced one. Every table that earlier backups do not have is
    /// checked. `go_on` receives the progress, and ends the work by returning false; nothing is
    /// added then.
    /// Cost: reads the database, or what is new with [`Options::quick`]; writes what is new.
    ///
    /// # Errors
    /// `Corruption` of the database or of a list in the repository, `Locked` if another process
    /// works on the repository, `Cancelled`, `NoSpace`; as [`Builder::files`].
    pub fn create(
        &self,
        db: &Builder,
        options: Options,
        mut go_on: impl FnMut(Progress) -> bool,
    ) -> Result<Backup> {
        let made = [self.dir.clone(), self.files_dir(), self.lists_dir()];
        for dir in &made {
            let created = self.storage().create_dir_all(dir);
            created.map_err(|e| Error::io("create", dir, e))?;
        }
        let _lock = self.lock()?;
        let earlier = self.list()?;
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.copy(db, &options, &earlier, &mut go_on) {
                // The next attempt finds the files that were copied so far.
                Err(error) if is_not_found(&error) && attempt < ATTEMPTS => {}
                ended => return ended,
            }
        }
    }

    fn copy(
        &self,
        db: &Builder,
        options: &Options,
        earlier: &[Backup],
        go_on: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Backup> {
        let found = db.files()?;
        let all = found.log.iter().chain(&found.tables);
        let manifest_bytes = found.manifest.len() as u64;
        let total_bytes = manifest_bytes + all.map(|file| file.bytes).sum::<u64>();
        let clock = &*self.environment.clock;
        let mut stream = Stream::new(clock, options.bytes_per_second, total_bytes, go_on);
        let mut files = vec![self.store_bytes(Path::new("MANIFEST"), &found.manifest)?];
        stream.pass(manifest_bytes, manifest_bytes)?;
        stream.copied(manifest_bytes)?;
        for segment in &found.log {
            files.push(self.store(segment, &mut stream)?);
        }
        found.check_log()?;
        for table in &found.tables {
            let newest_first = earlier.iter().rev();
            let mut known = newest_first.filter_map(|backup| backup.like(&table.path, table.bytes));
            let stored = match known.next() {
                Some(known) if self.has(known, table, options, &mut stream)? => known.clone(),
                _ => {
                    table.check()?;
                    self.store(table, &mut stream)?
                }
            };
            files.push(stored);
        }
        let backup = Backup {
            id: earlier.last().map_or(0, |last| last.id) + 1,
            made_unix_seconds: clock.unix_seconds(),
            last: found.last,
            files,
        };
        // Also the names that a crashed attempt gave.
        self.sync_dir(&self.files_dir())?;
        let path = self.list_path(backup.id);
        self.write(&self.lists_dir(), &path, backup.encode().as_bytes())?;
        self.sync_dir(&self.lists_dir())?;
        Ok(backup)
    }

    /// Returns true if a file of an earlier backup is this table.
    fn has(
        &self,
        known: &StoredFile,
        table: &DatabaseFile,
        options: &Options,
        stream: &mut Stream<'_>,
    ) -> Result<bool> {
        let path = self.file_path(known);
        if !self.storage().size(&path).is_ok_and(|it| it == known.bytes) {
            return Ok(false);
        }
        if !options.quick {
            let found = stream.read(&*table.file, &table.path, table.bytes, |_| Ok(()))?;
            // Otherwise it is read again.
            stream.done_bytes_back(if found == known.checksum {
                0
            } else {
                table.bytes
            });
            return Ok(found == known.checksum);
        }
        let tail = |file: &dyn RandomRead, path: &Path| {
            let mut bytes = vec![0; TAIL_BYTES.min(table.bytes) as usize];
            file.read_at(table.bytes - bytes.len() as u64, &mut bytes)
                .map_err(|e| Error::io("read", path, e))?;
            Ok::<_, Error>(bytes)
        };
        stream.pass(table.bytes, 0)?;
        Ok(tail(&*table.file, &table.path)? == tail(&*self.open(&path)?, &path)?)
    }

    /// The backups, oldest first.
    ///
    /// # Errors
    /// `Corruption` of a list, `FormatVersion`, `Io`.
    pub fn list(&self) -> Result<Vec<Backup>> {
        let dir = self.lists_dir();
        let entries = match self.storage().list(&dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(self.no_repository()),
            listed => listed.map_err(|e| Error::io("list", &dir, e))?,
        };
        let named = entries.iter().filter_map(|entry| {
            let digits = entry.name.strip_suffix(".backup")?;
            Some((digits.parse::<u64>().ok()?, dir.join(&entry.name)))
        });
        let read = |(id, path): (u64, PathBuf)| {
            let file = self.open(&path)?;
            let mut bytes = vec![0; file.bytes() as usize];
            let read = file.read_at(0, &mut bytes);
            read.map_err(|e| Error::io("read", &path, e))?;
            Backup::decode(&bytes, id, &path)
        };
        let mut backups = named.map(read).collect::<Result<Vec<_>>>()?;
        backups.sort_by_key(|backup| backup.id);
        Ok(backups)
    }

    /// A backup by its id, or the newest one.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none; as [`Repository::list`].
    pub fn find(&self, id: Option<u64>) -> Result<Backup> {
        let mut backups = self.list()?;
        let found = match id {
            None => backups.pop(),
            Some(id) => backups.into_iter().find(|backup| backup.id == id),
        };
        found.ok_or_else(|| {
            let wanted = id.map_or("a backup".to_owned(), |id| format!("a backup {id}"));
            let message = format!("expected {wanted} in {}, found none", self.dir.display());
            Error::new(ErrorKind::InvalidArgument, message)
        })
    }

    /// Reads all files of a backup and compares their sizes and checksums with the list.
    ///
    /// # Errors
    /// `Corruption` with the file of the first damage, `Cancelled`; as [`Repository::find`].
    pub fn verify(
        &self,
        id: Option<u64>,
        mut go_on: impl FnMut(Progress) -> bool,
    ) -> Result<Backup> {
        let _lock = self.lock()?;
        let backup = self.find(id)?;
        let clock = &*self.environment.clock;
        let mut stream = Stream::new(clock, None, backup.bytes(), &mut go_on);
        for file in &backup.files {
            self.read(file, &mut stream, |_| Ok(()))?;
        }
        Ok(backup)
    }

    /// Removes all backups but the newest `keep`, which is at least 1, and the files that no backup
    /// has any more.
    ///
    /// # Errors
    /// `InvalidArgument`, `Locked`; `Corruption` of a list: what it needs is not known, so nothing
    /// is removed; `Io`.
    pub fn prune(&self, keep: usize) -> Result<Pruned> {
        if keep == 0 {
            let message = "expected to keep at least 1 backup, found 0";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let _lock = self.lock()?;
        let mut removed = self.list()?;
        let kept = removed.split_off(removed.len().saturating_sub(keep));
        let mut pruned = Pruned::default();
        for backup in &removed {
            self.remove(&self.list_path(backup.id))?;
            pruned.backups += 1;
        }
        self.sync_dir(&self.lists_dir())?;
        let files = kept.iter().flat_map(|backup| &backup.files);
        let needed: BTreeSet<String> = files.map(StoredFile::name).collect();
        let dir = self.files_dir();
        let found = self.storage().list(&dir);
        for file in found.map_err(|e| Error::io("list", &dir, e))? {
            if !needed.contains(&file.name) {
                self.remove(&dir.join(&file.name))?;
                pruned.files += 1;
                pruned.bytes += file.bytes;
            }
        }
        self.sync_dir(&dir)?;
        Ok(pruned)
    }

    // ---- files of the repository ----

    fn storage(&self) -> &dyn Storage {
        &*self.environment.storage
    }

    fn files_dir(&self) -> PathBuf {
        self.dir.join("files")
    }

    fn lists_dir(&self) -> PathBuf {
        self.dir.join("backups")
    }

    fn list_path(&self, id: u64) -> PathBuf {
        self.lists_dir().join(format!("{id:08}.backup"))
    }

    fn file_path(&self, file: &StoredFile) -> PathBuf {
        self.files_dir().join(file.name())
    }

    fn no_repository(&self) -> Error {
        let message = format!(
            "expected a repository of backups, found none in {}",
            self.dir.display()
        );
        Error::new(ErrorKind::InvalidArgument, message)
    }

    fn lock(&self) -> Result<Box<dyn FileLock>> {
        if self.storage().list(&self.lists_dir()).is_err() {
            return Err(self.no_repository());
        }
        let path = self.dir.join("LOCK");
        self.storage().lock(&path).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => {
                let message = format!("{} is in use by another process", self.dir.display());
                Error::new(ErrorKind::Locked, message)
            }
            _ => Error::io("lock", &path, e),
        })
    }

    fn open(&self, path: &Path) -> Result<std::sync::Arc<dyn RandomRead>> {
        let opened = self.storage().open(path, ReadMode::Pread);
        opened.map_err(|e| match e.kind() {
            // A retry would not help.
            io::ErrorKind::NotFound => Error::new(
                ErrorKind::Corruption,
                format!(
                    "expected a file of a backup, found none: {}",
                    path.display()
                ),
            ),
            _ => Error::io("open", path, e),
        })
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let removed = self.storage().remove(path);
        removed.map_err(|e| Error::io("remove", path, e))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let synced = self.storage().sync_dir(dir);
        synced.map_err(|e| Error::io("sync", dir, e))
    }

    /// Reads a stored file and checks it.
    fn read(
        &self,
        file: &StoredFile,
        stream: &mut Stream<'_>,
        each: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let path = self.file_path(file);
        let reader = self.open(&path)?;
        let damaged = |found: String| {
            let (bytes, checksum) = (file.bytes, file.checksum);
            let message = format!(
                "expected {} of {bytes} bytes with checksum {checksum:016x}, found {found} in {}",
                file.path.display(),
                path.display()
            );
            Err(Error::new(ErrorKind::Corruption, message))
        };
        if reader.bytes() != file.bytes {
            return damaged(format!("{} bytes", reader.bytes()));
        }
        match stream.read(&*reader, &path, file.bytes, each)? {
            found if found == file.checksum => Ok(()),
            found => damaged(format!("checksum {found:016x}")),
        }
    }

    /// Copies a file of a database.
    fn store(&self, file: &DatabaseFile, stream: &mut Stream<'_>) -> Result<StoredFile> {
        let new = self.files_dir().join("new");
        self.remove_leftover(&new)?;
        let failed = |e| Error::io("write", &new, e);
        let mut writer = self.storage().create(&new).map_err(failed)?;
        let checksum = stream.read(&*file.file, &file.path, file.bytes, |bytes| {
            writer.write(bytes).map_err(failed)
        })?;
        writer.sync().map_err(failed)?;
        stream.copied(file.bytes)?;
        let stored = StoredFile {
            path: file.path.clone(),
            bytes: file.bytes,
            checksum,
        };
        // A file of the same bytes may be there, perhaps damaged since.
        let renamed = self.storage().rename(&new, &self.file_path(&stored));
        renamed.map_err(failed)?;
        Ok(stored)
    }

    fn store_bytes(&self, path: &Path, bytes: &[u8]) -> Result<StoredFile> {
        let stored = StoredFile {
            path: path.to_path_buf(),
            bytes: bytes.len() as u64,
            checksum: checksum(bytes),
        };
        self.write(&self.files_dir(), &self.file_path(&stored), bytes)?;
        Ok(stored)
    }

    /// Writes a file; its bytes are durable, not yet its name.
    fn write(&self, dir: &Path, path: &Path, bytes: &[u8]) -> Result<()> {
        let new = dir.join("new");
        self.remove_leftover(&new)?;
        let write = || {
            let mut writer = self.storage().create(&new)?;
            writer.write(bytes)?;
            writer.sync()?;
            self.storage().rename(&new, path)
        };
        write().map_err(|e| Error::io("write", path, e))
    }

    /// Removes the unfinished file of a crash.
    fn remove_leftover(&self, path: &Path) -> Result<()> {
        match self.storage().remove(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path, e)),
            _ => Ok(()),
        }
    }
}

/// Returns true if a path names a file of a database and cannot lead out of its directory.
pub(crate) fn is_inside(path: &Path) -> bool {
    let is_plain = |it: Component<'_>| matches!(it, Component::Normal(_));
    let parent = path.parent().and_then(Path::to_str);
    path.components().all(is_plain) && parent.is_some_and(|it| SUBDIRECTORIES.contains(&it))
}

fn is_not_found(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    let io = source.and_then(|source| source.downcast_ref::<io::Error>());
    io.is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
}
