//! A keyspace: reads and writes of its keys, and its maintenance.

mod maintenance;
mod writes;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use engine::{Error, ErrorKind, Layout, Slice};
use hedgerow_bindings::text::MERGE_OPERATORS;

use crate::arrays::gets::get_rows;
use crate::arrays::{BytesArray, Rows};
use crate::bytes::Bytes;
use crate::db::{Db, no_keyspace};
use crate::errors::{OrRaise, raised};
use crate::fork::Owned;
use crate::scan::{Part, Present, Range, Steps};
use crate::waiting::{wait, wait_for_memory};

/// A keyspace of an open database. The Python class `Keyspace` has its documents.
#[pyclass(frozen, subclass, module = "hedgerow._native")]
pub(crate) struct Keyspace {
    handles: Owned<Handles>,
}

struct Handles {
    db: engine::Db,
    keyspace: Option<engine::Keyspace>,
    name: String,
}

/// Keys that are read or put between two looks for signals.
pub(crate) const KEYS_AT_ONCE: usize = 4096;

impl Keyspace {
    /// The handle of the engine.
    #[inline]
    pub(crate) fn engine(&self) -> PyResult<&engine::Keyspace> {
        let handles = self.handles.get()?;
        handles
            .keyspace
            .as_ref()
            .ok_or_else(|| no_keyspace(&handles.name))
    }

    /// The handle of the engine for a write. If the write would wait for a flush, waits for it
    /// before; a signal ends that.
    #[inline]
    fn for_writing(&self, py: Python<'_>) -> PyResult<&engine::Keyspace> {
        let keyspace = self.engine()?;
        wait_for_memory(py, self.db()?)?;
        Ok(keyspace)
    }

    pub(crate) fn db(&self) -> PyResult<&engine::Db> {
        Ok(&self.handles.get()?.db)
    }
}

/// The order of keys, the partitioning and the merge operator that a caller names.
type Kind = (Option<String>, Option<String>, Option<String>);

/// Refuses a merge operator that does not exist, unless the keyspace has it: a program in another
/// language may have brought it.
fn check_operator(name: &str, existing: Option<&engine::Keyspace>) -> PyResult<()> {
    let is_known = MERGE_OPERATORS.contains(&name);
    if is_known || existing.is_some_and(|it| it.layout().merge_operator.as_deref() == Some(name)) {
        return Ok(());
    }
    let names = MERGE_OPERATORS.map(|it| format!("`{it}`")).join(", ");
    let message = format!("expected one of the merge operators {names}, found `{name}`");
    Err(raised(&Error::new(ErrorKind::InvalidArgument, message)))
}

/// A value as `bytes`, or the default.
#[inline]
pub(crate) fn value_or(
    py: Python<'_>,
    value: Option<Slice>,
    default: Option<Py<PyAny>>,
) -> Py<PyAny> {
    match value {
        Some(value) => PyBytes::new(py, &value).into_any().unbind(),
        None => default.unwrap_or_else(|| py.None()),
    }
}

/// The values of a list of keys, which `get` looks up in parts, between which Ctrl-C ends it.
pub(crate) fn get_list<'py>(
    py: Python<'py>,
    keys: &[Bytes<'py>],
    default: &Py<PyAny>,
    mut get: impl FnMut(&[&[u8]]) -> PyResult<Vec<Option<Slice>>>,
) -> PyResult<Bound<'py, PyList>> {
    let keys: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
    let mut values = Vec::with_capacity(keys.len());
    for some in keys.chunks(KEYS_AT_ONCE) {
        values.extend(get(some)?);
        py.check_signals()?;
    }
    list(py, &values, default)
}

/// Values as a list of `bytes` or the default.
pub(crate) fn list<'py>(
    py: Python<'py>,
    values: &[Option<Slice>],
    default: &Py<PyAny>,
) -> PyResult<Bound<'py, PyList>> {
    let objects = values.iter().map(|value| match value {
        Some(value) => PyBytes::new(py, value).into_any(),
        None => default.bind(py).clone(),
    });
    PyList::new(py, objects)
}

/// A key and its value as a tuple of `bytes`.
fn pair<'py>(
    py: Python<'py>,
    pair: Option<(Slice, Slice)>,
) -> Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    pair.map(|(key, value)| (PyBytes::new(py, &key), PyBytes::new(py, &value)))
}

#[pymethods]
impl Keyspace {
    /// Opens a keyspace, or creates it. Without a layout, an existing one keeps its own.
    #[new]
    fn new(
        py: Python<'_>,
        db: &Bound<'_, Db>,
        name: String,
        kind: Kind,
        design: Option<&str>,
        create: bool,
    ) -> PyResult<Keyspace> {
        let db = db.get().engine(py)?;
        let existing = db.existing_keyspace(&name);
        let (layout, partitions, merge_operator) = &kind;
        let has_layout = kind != Kind::default();
        let keyspace = match existing {
            Some(existing) if !has_layout && design.is_none() => Some(existing),
            None if !create => None,
            existing => {
                if let Some(name) = merge_operator {
                    check_operator(name, existing.as_ref())?;
                }
                let mut wanted = match existing.filter(|_| !has_layout) {
                    Some(existing) => existing.layout(),
                    None => Layout::sorted(),
                };
                if let Some(order) = layout {
                    wanted.order = order.parse().or_raise()?;
                }
                if let Some(partitions) = partitions {
                    wanted.partitioning = partitions.parse().or_raise()?;
                }
                if let Some(name) = merge_operator {
                    wanted = wanted.merge_operator(name.as_str());
                }
                let design = design.map(str::parse).transpose().or_raise()?;
                let (db, name) = (db.clone(), name.clone());
                Some(wait(py, None, move |_| match design {
                    Some(design) => db.keyspace_with(&name, wanted, design),
                    None => db.keyspace(&name, wanted),
                })?)
            }
        };
        let handles = Owned::new(Handles { db, keyspace, name });
        Ok(Keyspace { handles })
    }

    #[pyo3(signature = (key, default=None))]
    fn get(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let (keyspace, key) = (self.engine()?, &*key);
        let value = py.detach(|| keyspace.get(key)).or_raise()?;
        Ok(value_or(py, value, default))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: Bytes<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let (keyspace, bytes) = (self.engine()?, &*key);
        match py.detach(|| keyspace.get(bytes)).or_raise()? {
            Some(value) => Ok(PyBytes::new(py, &value)),
            None => Err(key.missing()),
        }
    }

    fn __contains__(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<bool> {
        let (keyspace, key) = (self.engine()?, &*key);
        py.detach(|| keyspace.contains_key(key)).or_raise()
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        let keyspace = self.engine()?;
        py.detach(|| keyspace.is_empty()).or_raise().map(|it| !it)
    }

    /// The values of a list of keys, as a list.
    fn _get_list<'py>(
        &self,
        py: Python<'py>,
        keys: Vec<Bytes<'py>>,
        default: Py<PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let keyspace = self.engine()?;
        get_list(py, &keys, &default, |some| {
            py.detach(|| keyspace.multi_get(some)).or_raise()
        })
    }

    /// The values of an array of keys, as an array.
    fn _get_rows(&self, py: Python<'_>, keys: &Bound<'_, Rows>) -> PyResult<BytesArray> {
        let keyspace = self.engine()?;
        get_rows(py, keys.get(), keyspace)
    }

    /// Begins a scan: lists of entries, many at a time.
    fn _scan(&self, part: Part, range: Range<'_>) -> PyResult<Steps> {
        let entries = range.scan(&mut Present, self.engine()?, part);
        Ok(Steps::new(entries.or_raise()?, part))
    }

    /// The first key with its value; `None` if there is none.
    fn first<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        let keyspace = self.engine()?;
        Ok(pair(py, py.detach(|| keyspace.first()).or_raise()?))
    }

    /// The last key with its value; `None` if there is none.
    fn last<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        let keyspace = self.engine()?;
        Ok(pair(py, py.detach(|| keyspace.last()).or_raise()?))
    }

    /// Takes the first entry.
    #[pyo3(signature = (*, sync=false))]
    fn pop_first<'py>(
        &self,
        py: Python<'py>,
        sync: bool,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        let (keyspace, durability) = (self.for_writing(py)?, crate::bytes::durability(sync));
        let popped = py.detach(|| keyspace.pop_first_with(durability));
        Ok(pair(py, popped.or_raise()?))
    }

    /// Takes the last entry.
    #[pyo3(signature = (*, sync=false))]
    fn pop_last<'py>(
        &self,
        py: Python<'py>,
        sync: bool,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        let (keyspace, durability) = (self.for_writing(py)?, crate::bytes::durability(sync));
        let popped = py.detach(|| keyspace.pop_last_with(durability));
        Ok(pair(py, popped.or_raise()?))
    }
}

impl Bytes<'_> {
    /// The exception for a key that has no value.
    pub(crate) fn missing(self) -> PyErr {
        PyKeyError::new_err(self.into_object())
    }
}
