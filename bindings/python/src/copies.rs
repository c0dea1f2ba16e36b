//! Backups of databases.

use std::path::PathBuf;

use pyo3::prelude::*;

use hedgerow_copies::backup::{Backup, Options, Repository};

use crate::errors::OrRaise;
use crate::waiting::{GoOn, wait};

/// A backup: its id, the seconds since 1970 when it was made, its bytes, the number of its files.
type Facts = (u64, u64, u64, usize);

fn facts(backup: &Backup) -> Facts {
    (
        backup.id,
        backup.made_unix_seconds,
        backup.bytes(),
        backup.files.len(),
    )
}

/// A directory of backups. The Python class `Backups` has its documents.
#[pyclass(frozen, subclass, module = "hedgerow._native")]
pub(crate) struct Backups(Repository);

#[pymethods]
impl Backups {
    #[new]
    fn new(dir: PathBuf) -> Backups {
        Backups(Repository::new(dir))
    }

    fn _create(
        &self,
        py: Python<'_>,
        database: PathBuf,
        bytes_per_second: u64,
        quick: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Facts> {
        let repository = self.0.clone();
        let mut options = Options::default().bytes_per_second(bytes_per_second);
        if quick {
            options = options.quick();
        }
        let create = move |go_on: GoOn<'_>| {
            let builder = engine::Db::builder(database);
            repository.create(&builder, options, |it| go_on(it.done_bytes, it.total_bytes))
        };
        wait(py, progress, create).map(|backup| facts(&backup))
    }

    fn _list(&self, py: Python<'_>) -> PyResult<Vec<Facts>> {
        let backups = py.detach(|| self.0.list()).or_raise()?;
        Ok(backups.iter().map(facts).collect())
    }

    fn _restore(
        &self,
        py: Python<'_>,
        id: Option<u64>,
        dir: PathBuf,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Facts> {
        let repository = self.0.clone();
        let restore = move |go_on: GoOn<'_>| {
            repository.restore(id, dir, |it| go_on(it.done_bytes, it.total_bytes))
        };
        wait(py, progress, restore).map(|backup| facts(&backup))
    }

    fn _verify(
        &self,
        py: Python<'_>,
        id: Option<u64>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Facts> {
        let repository = self.0.clone();
        let verify =
            move |go_on: GoOn<'_>| repository.verify(id, |it| go_on(it.done_bytes, it.total_bytes));
        wait(py, progress, verify).map(|backup| facts(&backup))
    }

    /// Removes all backups but the newest ones. Returns the numbers of backups, files and bytes
    /// that were removed.
    fn prune(&self, py: Python<'_>, keep: usize) -> PyResult<(u64, u64, u64)> {
        let repository = self.0.clone();
        let pruned = wait(py, None, move |_| repository.prune(keep))?;
        Ok((pruned.backups, pruned.files, pruned.bytes))
    }
}
