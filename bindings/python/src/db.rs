//! The whole database: opening, keyspaces, durability, copies, closing.

use std::path::PathBuf;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use engine::io::ReadMode;
use engine::{Builder, Error, ErrorKind, Slot};

use hedgerow_bindings::repair::of_one_keyspace;
use hedgerow_bindings::stats;

use crate::errors::{OrRaise, missing, raised};
use crate::shared::Closable;
use crate::waiting::wait;

/// An open database. The Python class `Database` has its documents.
#[pyclass(frozen, module = "hedgerow._native")]
pub(crate) struct Db {
    engine: Closable<engine::Db>,
    dir: PathBuf,
}

/// The options of `hedgerow.open` that concern the whole database.
pub(crate) struct Options {
    memory: Option<u64>,
    read_only: bool,
    create: bool,
    error_if_exists: bool,
    background_threads: Option<usize>,
    workers: Option<usize>,
    worker_queue: Option<usize>,
    io_bytes_per_second: Option<u64>,
    log_bytes_max: Option<u64>,
    log_segment_bytes: Option<u64>,
    compress_log: bool,
    read_mode: Option<String>,
    level_paths: Option<String>,
}

impl<'a, 'py> FromPyObject<'a, 'py> for Options {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Options> {
        let given = object.cast::<PyDict>()?;
        Ok(Options {
            memory: option(&given, "memory", "an integer, which is bytes,")?,
            read_only: option(&given, "read_only", "a bool")?.unwrap_or(false),
            create: option(&given, "create", "a bool")?.unwrap_or(true),
            error_if_exists: option(&given, "error_if_exists", "a bool")?.unwrap_or(false),
            background_threads: option(&given, "background_threads", "an integer")?,
            workers: option(&given, "workers", "an integer")?,
            worker_queue: option(&given, "worker_queue", "an integer")?,
            io_bytes_per_second: option(&given, "io_bytes_per_second", "an integer")?,
            log_bytes_max: option(&given, "log_bytes_max", "an integer")?,
            log_segment_bytes: option(&given, "log_segment_bytes", "an integer")?,
            compress_log: option(&given, "compress_log", "a bool")?.unwrap_or(false),
            read_mode: option(&given, "read_mode", "a str")?,
            level_paths: option(&given, "level_paths", "a str")?,
        })
    }
}

/// An option; `None` if it is absent.
fn option<'py, T: FromPyObjectOwned<'py>>(
    given: &Bound<'py, PyDict>,
    name: &str,
    expected: &str,
) -> PyResult<Option<T>> {
    let Some(found) = given.get_item(name)?.filter(|it| !it.is_none()) else {
        return Ok(None);
    };
    let extracted: Result<T, _> = found.extract();
    extracted.map(Some).map_err(|wrong| {
        let wrong: PyErr = wrong.into();
        let found = found.repr().map(|it| it.to_string());
        let found = found.unwrap_or_default();
        let message = format!("expected {expected} for {name}, found {found}");
        match wrong.is_instance_of::<PyOverflowError>(given.py()) {
            true => raised(&Error::new(ErrorKind::InvalidArgument, message)),
            false => PyTypeError::new_err(message),
        }
    })
}

impl Options {
    fn builder(&self, dir: &PathBuf) -> PyResult<Builder> {
        let mut builder = engine::Db::builder(dir)
            .read_only(self.read_only)
            .create_if_missing(self.create)
            .compress_log(self.compress_log);
        if let Some(bytes) = self.memory {
            builder = builder.memory_budget(bytes);
        }
        if let Some(threads) = self.background_threads {
            builder = builder.background_threads(threads);
        }
        if let Some(count) = self.workers {
            builder = builder.workers(count);
        }
        if let Some(calls) = self.worker_queue {
            builder = builder.worker_queue(calls);
        }
        if let Some(bytes) = self.io_bytes_per_second {
            builder = builder.io_bytes_per_second(bytes);
        }
        if let Some(bytes) = self.log_bytes_max {
            builder = builder.log_bytes_max(bytes);
        }
        if let Some(bytes) = self.log_segment_bytes {
            builder = builder.log_segment_bytes(bytes);
        }
        if let Some(mode) = &self.read_mode {
            builder = builder.read_mode(read_mode(mode)?);
        }
        if let Some(paths) = &self.level_paths {
            builder = builder.level_paths(paths.parse().or_raise()?);
        }
        Ok(builder)
    }
}

fn read_mode(text: &str) -> PyResult<ReadMode> {
    match text {
        "buffered" => Ok(ReadMode::Pread),
        "mapped" => Ok(ReadMode::Mmap),
        "direct" => Ok(ReadMode::Direct),
        _ => Err(PyValueError::new_err(format!(
            "expected `buffered`, `mapped` or `direct`, found `{text}`"
        ))),
    }
}

impl Db {
    /// A handle of the engine.
    pub(crate) fn engine(&self, py: Python<'_>) -> PyResult<engine::Db> {
        self.engine.with(py, |db| db.clone())
    }

    /// Takes the handle of the engine, to close it; `None` if that was done before.
    pub(crate) fn take(&self, py: Python<'_>) -> PyResult<Option<engine::Db>> {
        self.engine.close(py)
    }
}

#[pymethods]
impl Db {
    #[new]
    fn new(py: Python<'_>, dir: PathBuf, options: Options) -> PyResult<Db> {
        let builder = options.builder(&dir)?;
        if options.error_if_exists && py.detach(|| builder.exists()).or_raise()? {
            let message = format!("there is a database in {} already", dir.display());
            return Err(raised(&Error::new(ErrorKind::InvalidArgument, message)));
        }
        let must_exist = options.read_only || !options.create;
        if must_exist && !py.detach(|| builder.exists()).or_raise()? {
            return Err(missing(&dir));
        }
        let db = wait(py, None, |_| builder.open())?;
        Ok(Db {
            engine: Closable::new("database", db),
            dir,
        })
    }

    /// The directory.
    #[getter]
    fn path(&self) -> PathBuf {
        self.dir.clone()
    }

    #[getter]
    fn closed(&self, py: Python<'_>) -> PyResult<bool> {
        self.engine.is_closed(py)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match self.take(py)? {
            Some(db) => wait(py, None, |_| db.close()),
            None => Ok(()),
        }
    }

    fn keyspaces(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.engine.with(py, |db| db.keyspaces())
    }

    fn drop_keyspace(&self, py: Python<'_>, name: String) -> PyResult<()> {
        let db = self.engine(py)?;
        wait(py, None, move |_| db.drop_keyspace(&name))
    }

    fn rename_keyspace(&self, py: Python<'_>, from: String, to: String) -> PyResult<()> {
        let db = self.engine(py)?;
        wait(py, None, move |_| db.rename_keyspace(&from, &to))
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let db = self.engine(py)?;
        wait(py, None, move |_| db.sync())
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let db = self.engine(py)?;
        wait(py, None, move |_| db.flush())
    }

    fn checkpoint(&self, py: Python<'_>, dir: PathBuf) -> PyResult<()> {
        let db = self.engine(py)?;
        wait(py, None, move |_| db.checkpoint(dir))
    }

    #[pyo3(signature = (progress=None))]
    fn verify(
        &self,
        py: Python<'_>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<(u64, u64, u64)> {
        let db = self.engine(py)?;
        let verify = move |go_on: crate::waiting::GoOn<'_>| {
            db.verify_with(|it| go_on(it.done_bytes, it.total_bytes))
        };
        let report = wait(py, progress.as_ref(), verify)?;
        Ok((report.tables, report.entries, report.bytes))
    }

    fn create_slot(&self, py: Python<'_>, name: String, log_bytes_max: u64) -> PyResult<u64> {
        let db = self.engine(py)?;
        wait(py, None, move |_| db.create_slot(&name, log_bytes_max))
    }

    fn confirm_slot(&self, py: Python<'_>, name: String, number: u64) -> PyResult<()> {
        let db = self.engine(py)?;
        wait(py, None, move |_| db.confirm_slot(&name, number))
    }

    fn drop_slot(&self, py: Python<'_>, name: String) -> PyResult<()> {
        let db = self.engine(py)?;
        wait(py, None, move |_| db.drop_slot(&name))
    }

    /// Each slot: its name, its position, the bytes of log that are kept at most.
    fn slots(&self, py: Python<'_>) -> PyResult<Vec<(String, u64, u64)>> {
        let db = self.engine(py)?;
        let slots = py.detach(|| db.slots()).or_raise()?;
        let facts = |(name, slot): (String, Slot)| (name, slot.position, slot.log_bytes_max);
        Ok(slots.into_iter().map(facts).collect())
    }

    /// The statistics as JSON.
    fn stats_json(&self, py: Python<'_>) -> PyResult<String> {
        let db = self.engine(py)?;
        Ok(py.detach(|| stats::json(&db.stats()).to_string()))
    }

    /// The statistics in the text format of Prometheus.
    fn prometheus(&self, py: Python<'_>) -> PyResult<String> {
        let db = self.engine(py)?;
        Ok(py.detach(|| db.stats().prometheus()))
    }
}

/// Returns true if the directory has a database, also a damaged one.
#[pyfunction]
pub(crate) fn exists(py: Python<'_>, dir: PathBuf) -> PyResult<bool> {
    py.detach(|| engine::Db::exists(dir)).or_raise()
}

/// Removes the files of a database, and nothing else.
#[pyfunction]
pub(crate) fn destroy(py: Python<'_>, dir: PathBuf) -> PyResult<()> {
    wait(py, None, |_| engine::Db::destroy(dir))
}

/// A file that was lost, and why.
type Lost = (PathBuf, String);

/// Rebuilds the manifest of a damaged database. Returns the number of its tables, the number of its
/// entries, and what was lost: files with reasons. The keyspace of a database that has one, and has
/// lost its name, gets this one.
#[pyfunction]
#[pyo3(signature = (dir, keyspace=None))]
pub(crate) fn repair(
    py: Python<'_>,
    dir: PathBuf,
    keyspace: Option<String>,
) -> PyResult<(usize, u64, Vec<Lost>)> {
    let report = wait(py, None, |_| match keyspace {
        None => engine::repair(dir),
        Some(name) => of_one_keyspace(engine::Db::builder(dir), &name),
    })?;
    Ok((report.tables, report.entries, report.lost))
}

/// The error for a keyspace that is not there.
pub(crate) fn no_keyspace(name: &str) -> PyErr {
    let message = format!("expected a keyspace `{name}`, found none of that name");
    raised(&Error::new(ErrorKind::InvalidArgument, message))
}
