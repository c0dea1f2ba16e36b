//! Batches: several writes, over any keyspaces, all or none.

use std::ops::Bound as End;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use engine::{BatchOp, Durability, Error, ErrorKind};

use crate::arrays::Rows;
use crate::bytes::{Bytes, Expires, durability, range};
use crate::errors::OrRaise;
use crate::fork::Owned;
use crate::keyspace::{KEYS_AT_ONCE, Keyspace};
use crate::shared::Closable;
use crate::waiting::{GoOn, wait, wait_for_memory};

/// A batch from this size on is committed by a thread of its own, so that its caller can be
/// interrupted.
pub(crate) const LONG_BATCH_BYTES: usize = 1 << 20;

/// Writes that become visible together.
#[pyclass(frozen, subclass, module = "hedgerow._native")]
pub(crate) struct Batch {
    batch: Closable<engine::Batch>,
    db: Owned<engine::Db>,
    keyspace: Owned<engine::Keyspace>,
    durability: Durability,
}

/// Refuses keys and values of different numbers.
fn check_lengths(keys: usize, values: usize) -> PyResult<()> {
    if keys == values {
        return Ok(());
    }
    let message = format!("expected {keys} values for {keys} keys, found {values}");
    Err(PyValueError::new_err(message))
}

/// The keyspace that a call names, or the default one.
pub(crate) fn chosen<'a>(
    named: Option<&'a Bound<'_, Keyspace>>,
    default: &'a Owned<engine::Keyspace>,
) -> PyResult<&'a engine::Keyspace> {
    match named {
        Some(named) => named.get().engine(),
        None => default.get(),
    }
}

impl Batch {
    /// Takes the operations out, for a commit.
    pub(crate) fn take(&self, py: Python<'_>) -> PyResult<(engine::Batch, Durability)> {
        let fresh = self.db.get()?.batch();
        let batch = self
            .batch
            .with(py, |batch| std::mem::replace(batch, fresh))?;
        Ok((batch, self.durability))
    }
}

/// Adds an operation of one batch to another.
fn add(db: &engine::Db, batch: &mut engine::Batch, op: &BatchOp<'_>) -> engine::Result<()> {
    let of = |name: &str| {
        let message = || format!("the keyspace `{name}` was dropped");
        let found = db.existing_keyspace(name);
        found.ok_or_else(|| Error::new(ErrorKind::Closed, message()))
    };
    match op {
        BatchOp::Put {
            keyspace,
            key,
            value,
            expiry,
        } => batch.put_expiring(&of(keyspace)?, key, value, *expiry),
        BatchOp::Delete { keyspace, key } => batch.delete(&of(keyspace)?, key),
        BatchOp::Merge {
            keyspace,
            key,
            operand,
        } => batch.merge(&of(keyspace)?, key, operand),
        BatchOp::DeleteRange { keyspace, from, to } => {
            let end = if to.is_empty() {
                End::Unbounded
            } else {
                End::Excluded(*to)
            };
            batch.delete_range::<&[u8]>(&of(keyspace)?, (End::Included(*from), end))
        }
        _ => {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "expected a known operation",
            ));
        }
    }
    .map(drop)
}

#[pymethods]
impl Batch {
    #[new]
    fn new(keyspace: &Bound<'_, Keyspace>, sync: bool) -> PyResult<Batch> {
        let keyspace = keyspace.get();
        let db = keyspace.db()?;
        Ok(Batch {
            batch: Closable::new("batch", db.batch()),
            db: Owned::new(db.clone()),
            keyspace: Owned::new(keyspace.engine()?.clone()),
            durability: durability(sync),
        })
    }

    /// Adds a put.
    #[pyo3(signature = (key, value, *, keyspace=None, expire=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        value: Bytes<'_>,
        keyspace: Option<&Bound<'_, Keyspace>>,
        expire: Option<Expires>,
    ) -> PyResult<()> {
        let keyspace = chosen(keyspace, &self.keyspace)?;
        self.batch
            .with(py, |batch| match expire {
                None => batch.put(keyspace, key, value).map(drop),
                Some(Expires(at)) => batch.put_expiring(keyspace, key, value, at).map(drop),
            })?
            .or_raise()
    }

    fn __setitem__(&self, py: Python<'_>, key: Bytes<'_>, value: Bytes<'_>) -> PyResult<()> {
        self.put(py, key, value, None, None)
    }

    /// Adds a delete.
    #[pyo3(signature = (key, *, keyspace=None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        keyspace: Option<&Bound<'_, Keyspace>>,
    ) -> PyResult<()> {
        let keyspace = chosen(keyspace, &self.keyspace)?;
        self.batch
            .with(py, |batch| batch.delete(keyspace, key).map(drop))?
            .or_raise()
    }

    fn __delitem__(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<()> {
        self.delete(py, key, None)
    }

    /// Adds an operand of the merge operator.
    #[pyo3(signature = (key, operand, *, keyspace=None))]
    fn merge(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        operand: Bytes<'_>,
        keyspace: Option<&Bound<'_, Keyspace>>,
    ) -> PyResult<()> {
        let keyspace = chosen(keyspace, &self.keyspace)?;
        self.batch
            .with(py, |batch| batch.merge(keyspace, key, operand).map(drop))?
            .or_raise()
    }

    /// Adds a delete of the keys from `start` on and before `stop`.
    #[pyo3(signature = (start=None, stop=None, *, keyspace=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        keyspace: Option<&Bound<'_, Keyspace>>,
    ) -> PyResult<()> {
        let keyspace = chosen(keyspace, &self.keyspace)?;
        let range = range(&start, &stop);
        self.batch
            .with(py, |batch| {
                batch.delete_range::<&[u8]>(keyspace, range).map(drop)
            })?
            .or_raise()
    }

    /// Adds a delete of the keys with a prefix.
    #[pyo3(signature = (prefix, *, keyspace=None))]
    fn delete_prefix(
        &self,
        py: Python<'_>,
        prefix: Bytes<'_>,
        keyspace: Option<&Bound<'_, Keyspace>>,
    ) -> PyResult<()> {
        let keyspace = chosen(keyspace, &self.keyspace)?;
        self.batch
            .with(py, |batch| batch.delete_prefix(keyspace, prefix).map(drop))?
            .or_raise()
    }

    /// Adds all operations of another batch.
    fn append(&self, py: Python<'_>, other: &Bound<'_, Batch>) -> PyResult<()> {
        let db = self.db.get()?;
        let added = other.get().batch.with(py, |other| {
            let mut added = db.batch();
            other.iter().try_for_each(|op| add(db, &mut added, &op))?;
            Ok::<_, Error>(added)
        })?;
        let added = added.or_raise()?;
        self.batch
            .with(py, |batch| {
                added.iter().try_for_each(|op| add(db, batch, &op))
            })?
            .or_raise()
    }

    /// Commits all operations; the batch is empty then and may be used again.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let durability = self.durability;
        wait_for_memory(py, self.db.get()?)?;
        if self.batch.with(py, |batch| batch.bytes())? < LONG_BATCH_BYTES {
            let commit = |batch: &mut engine::Batch| batch.commit_and_clear(durability);
            return self.batch.with_detached(py, commit)?.or_raise();
        }
        let fresh = self.db.get()?.batch();
        let mut batch = self
            .batch
            .with(py, |batch| std::mem::replace(batch, fresh))?;
        let commit = move |_: GoOn<'_>| {
            let result = batch.commit_and_clear(durability);
            Ok((batch, result))
        };
        let (batch, result) = wait(py, None, commit)?;
        self.batch.with(py, |it| *it = batch)?;
        result.or_raise()
    }

    /// Removes all operations.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.batch.with(py, |batch| batch.clear())
    }

    /// Adds puts of lists of equal length.
    fn _put_list(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyList>,
        values: &Bound<'_, PyList>,
        keyspace: Option<&Bound<'_, Keyspace>>,
        expire: Option<Expires>,
    ) -> PyResult<()> {
        let keyspace = chosen(keyspace, &self.keyspace)?;
        check_lengths(keys.len(), values.len())?;
        for (index, (key, value)) in keys.iter().zip(values).enumerate() {
            if index % KEYS_AT_ONCE == 0 {
                py.check_signals()?;
            }
            let (key, value): (Bytes<'_>, Bytes<'_>) = (key.extract()?, value.extract()?);
            self.batch
                .with(py, |batch| match expire {
                    None => batch.put(keyspace, key, value).map(drop),
                    Some(Expires(at)) => batch.put_expiring(keyspace, key, value, at).map(drop),
                })?
                .or_raise()?;
        }
        Ok(())
    }

    /// Adds puts of arrays of equal length.
    fn _put_rows(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, Rows>,
        values: &Bound<'_, Rows>,
        keyspace: Option<&Bound<'_, Keyspace>>,
        expire: Option<Expires>,
    ) -> PyResult<()> {
        let keyspace = chosen(keyspace, &self.keyspace)?;
        let (keys, values) = (keys.get().view(py), values.get().view(py));
        check_lengths(keys.len(), values.len())?;
        for from in (0..keys.len()).step_by(KEYS_AT_ONCE) {
            let to = keys.len().min(from + KEYS_AT_ONCE);
            let put = |batch: &mut engine::Batch| {
                (from..to).try_for_each(|index| {
                    let (key, value) = (keys.row(index), values.row(index));
                    match expire {
                        None => batch.put(keyspace, key, value).map(drop),
                        Some(Expires(at)) => batch.put_expiring(keyspace, key, value, at).map(drop),
                    }
                })
            };
            self.batch.with_detached(py, put)?.or_raise()?;
            py.check_signals()?;
        }
        Ok(())
    }

    /// Ends the batch. Operations that were not committed are lost.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.batch.close(py).map(drop)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.batch.with(py, |batch| batch.len())
    }

    /// The bytes of all operations.
    #[getter]
    fn bytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.batch.with(py, |batch| batch.bytes())
    }
}
