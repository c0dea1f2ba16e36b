//! The directories of the tour's database and its checkpoint, and their removal at the end.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::walk::LeftOut;
use crate::exit::{Exit, Failure};

/// The directories of the tour. A drop removes the temporary ones, unless everything is kept.
pub(crate) struct Directories {
    pub(crate) database: PathBuf,
    /// The directory of the checkpoint, beside the database.
    pub(crate) checkpoint: PathBuf,
    /// The directories to remove.
    temporary: Vec<PathBuf>,
    pub(crate) keeps_database: bool,
    pub(crate) keeps_checkpoint: bool,
}

impl Directories {
    /// Chooses the directories for the tour of `root`.
    pub(crate) fn choose(
        root: &Path,
        database: Option<&Path>,
        keep: bool,
    ) -> Result<Directories, Failure> {
        let real = |path: &Path| fs::canonicalize(path).ok();
        if database.is_some_and(|database| real(database).is_some() && real(database) == real(root))
        {
            let message =
                "the database cannot be the directory that is walked; choose another --db";
            return Err(Failure::new(Exit::Usage, message));
        }
        let mut temporary = Vec::new();
        let base = match database {
            Some(path) => path.to_path_buf(),
            None => {
                let made = temporary_directory()?;
                temporary.push(made.clone());
                made.join("metadata")
            }
        };
        let mut checkpoint = base.clone().into_os_string();
        checkpoint.push(".checkpoint");
        let checkpoint = PathBuf::from(checkpoint);
        let taken = fs::read_dir(&checkpoint).is_ok_and(|mut names| names.next().is_some());
        if taken || checkpoint.is_file() {
            let message = format!(
                "the checkpoint goes to {}, which exists; remove it or choose another --db",
                checkpoint.display()
            );
            return Err(Failure::new(Exit::Usage, message));
        }
        temporary.push(checkpoint.clone());
        if keep {
            temporary.clear();
        }
        Ok(Directories {
            keeps_database: keep || database.is_some(),
            keeps_checkpoint: keep,
            database: base,
            checkpoint,
            temporary,
        })
    }

    /// The tour's own directories, as far as they exist, which the walk leaves out.
    pub(crate) fn left_out(&self) -> LeftOut {
        LeftOut::new(&[&self.database, &self.checkpoint])
    }

    /// Removes the temporary directories and reports errors.
    pub(crate) fn clear_away(&self) -> Result<(), Failure> {
        for dir in &self.temporary {
            match fs::remove_dir_all(dir) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(Failure::io("remove", dir, &e));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Drop for Directories {
    fn drop(&mut self) {
        // Runs after a failure, which the user sees instead.
        let _ = self.clear_away();
    }
}

fn temporary_directory() -> Result<PathBuf, Failure> {
    let base = std::env::temp_dir();
    let process = std::process::id();
    for attempt in 0..1000 {
        let dir = base.join(format!("hedgerow-tour-{process}-{attempt}"));
        match fs::create_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(Failure::io("create", &dir, &e)),
        }
    }
    let message = format!("cannot make a temporary directory in {}", base.display());
    Err(Failure::new(Exit::Failure, message))
}
