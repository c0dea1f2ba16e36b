//! A database is made of a backup.

use std::io;
use std::path::Path;

use hedgerow::{Error, ErrorKind, Result};

use super::stream::Stream;
use super::{Backup, Progress, Repository, SUBDIRECTORIES};

impl Repository {
    /// Makes a database of a backup in a directory that does not exist, durably. Every byte is
    /// checked on the way. A crash leaves either no such directory or the whole database, and
    /// perhaps a directory `NAME.restoring-N` beside it.
    /// Cost: reads and writes the backup. The filters over runs are made when it is opened.
    ///
    /// # Errors
    /// `InvalidArgument` if there is something of that name; as [`Repository::verify`].
    pub fn restore(
        &self,
        id: Option<u64>,
        dir: impl AsRef<Path>,
        mut go_on: impl FnMut(Progress) -> bool,
    ) -> Result<Backup> {
        let (dir, storage) = (dir.as_ref(), self.storage());
        let _lock = self.lock()?;
        let backup = self.find(id)?;
        let taken = |dir: &Path| storage.list(dir).is_ok() || storage.size(dir).is_ok();
        let in_the_way = || {
            let message = format!("expected a new directory, found {}", dir.display());
            Error::new(ErrorKind::InvalidArgument, message)
        };
        let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else {
            return Err(in_the_way());
        };
        if taken(dir) {
            return Err(in_the_way());
        }
        let created = storage.create_dir_all(parent);
        created.map_err(|e| Error::io("create", parent, e))?;
        let name = name.to_string_lossy();
        let mut temporary = (0..).map(|n| parent.join(format!("{name}.restoring-{n}")));
        let temporary = temporary.find(|dir| !taken(dir)).ok_or_else(in_the_way)?;
        let clock = &*self.environment.clock;
        let mut stream = Stream::new(clock, None, backup.bytes(), &mut go_on);
        let restored = self.fill(&backup, &temporary, &mut stream).and_then(|()| {
            storage
                .rename_dir(&temporary, dir)
                .map_err(|e| match e.kind() {
                    io::ErrorKind::AlreadyExists => in_the_way(),
                    _ => Error::io("rename", &temporary, e),
                })
        });
        match restored {
            Ok(()) => self.sync_dir(parent).map(|()| backup),
            Err(error) => {
                self.clean(&temporary);
                Err(error)
            }
        }
    }

    /// Writes the files of a backup into a new directory.
    fn fill(&self, backup: &Backup, dir: &Path, stream: &mut Stream<'_>) -> Result<()> {
        let storage = self.storage();
        let dirs = SUBDIRECTORIES.map(|it| dir.join(it));
        for made in &dirs {
            let created = storage.create_dir_all(made);
            created.map_err(|e| Error::io("create", made, e))?;
        }
        for file in &backup.files {
            let path = dir.join(&file.path);
            let failed = |e| Error::io("write", &path, e);
            let mut writer = storage.create(&path).map_err(failed)?;
            self.read(file, stream, |bytes| writer.write(bytes).map_err(failed))?;
            writer.sync().map_err(failed)?;
        }
        dirs.iter().try_for_each(|made| self.sync_dir(made))
    }

    /// Removes what an interrupted restore has written. A failure leaves it there.
    fn clean(&self, dir: &Path) {
        for made in SUBDIRECTORIES.map(|it| dir.join(it)).iter().rev() {
            for file in self.storage().list(made).unwrap_or_default() {
                let _ = self.storage().remove(&made.join(file.name));
            }
            let _ = self.storage().remove_dir(made);
        }
    }
}
