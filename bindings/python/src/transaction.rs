//! Transactions: reads and writes that are committed if nobody else came first.

use std::ops::DerefMut;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use engine::{Isolation, Savepoint, TransactionOptions};

use crate::batch::chosen;
use crate::bytes::{Bytes, Expires, durability, range};
use crate::errors::OrRaise;
use crate::fork::Owned;
use crate::keyspace::{Keyspace, get_list, value_or};
use crate::scan::{Bounds, Part, Range, Scans, Steps};
use crate::shared::Closable;
use crate::waiting::{wait, wait_for_memory};

/// A transaction, which reads and writes one keyspace if a call names no other.
#[pyclass(frozen, subclass, module = "hedgerow._native")]
pub(crate) struct Transaction {
    transaction: Closable<engine::Transaction>,
    db: Owned<engine::Db>,
    keyspace: Owned<engine::Keyspace>,
}

/// A moment of a transaction to roll back to.
#[pyclass(frozen, name = "Savepoint", module = "hedgerow._native")]
pub(crate) struct Mark(Savepoint);

impl Scans for engine::Transaction {
    fn range(&mut self, of: &engine::Keyspace, range: Bounds<'_>) -> engine::Result<engine::Scan> {
        self.scan::<&[u8]>(of, range)
    }

    fn prefix(&mut self, of: &engine::Keyspace, prefix: &[u8]) -> engine::Result<engine::Scan> {
        self.scan_prefix(of, prefix)
    }

    fn unordered(&mut self, of: &engine::Keyspace) -> engine::Result<engine::UnorderedScan> {
        self.scan_unordered(of)
    }

    fn cursor(&mut self, of: &engine::Keyspace) -> engine::Result<engine::Cursor> {
        self.deref_mut().cursor(of)
    }
}

#[pymethods]
impl Transaction {
    #[new]
    #[pyo3(signature = (keyspace, isolation, sync, memory))]
    fn new(
        keyspace: &Bound<'_, Keyspace>,
        isolation: &str,
        sync: bool,
        memory: Option<usize>,
    ) -> PyResult<Transaction> {
        let keyspace = keyspace.get();
        let isolation = match isolation {
            "serializable" => Isolation::Serializable,
            "snapshot" => Isolation::Snapshot,
            _ => {
                let message = format!("expected `serializable` or `snapshot`, found `{isolation}`");
                return Err(PyValueError::new_err(message));
            }
        };
        let mut options = TransactionOptions {
            isolation,
            durability: durability(sync),
            ..Default::default()
        };
        if let Some(bytes) = memory {
            options.memory_bytes_max = bytes;
        }
        let db = keyspace.db()?;
        let transaction = db.transaction_with(options).or_raise()?;
        Ok(Transaction {
            transaction: Closable::new("transaction", transaction),
            db: Owned::new(db.clone()),
            keyspace: Owned::new(keyspace.engine()?.clone()),
        })
    }

    /// The value of a key.
    #[pyo3(signature = (key, default=None, *, keyspace=None))]
    fn get(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        default: Option<Py<PyAny>>,
        keyspace: Option<&Bound<'_, Keyspace>>,
    ) -> PyResult<Py<PyAny>> {
        let (keyspace, key) = (chosen(keyspace, &self.keyspace)?, &*key);
        let get = |it: &mut engine::Transaction| it.get(keyspace, key);
        let value = self.transaction.with_detached(py, get)?.or_raise()?;
        Ok(value_or(py, value, default))
    }

    fn __contains__(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<bool> {
        let (keyspace, key) = (self.keyspace.get()?, &*key);
        let contains = |it: &mut engine::Transaction| it.contains_key(keyspace, key);
        self.transaction.with_detached(py, contains)?.or_raise()
    }

    fn _get_list<'py>(
        &self,
        py: Python<'py>,
        keys: Vec<Bytes<'py>>,
        default: Py<PyAny>,
        keyspace: Option<&Bound<'_, Keyspace>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let keyspace = chosen(keyspace, &self.keyspace)?;
        get_list(py, &keys, &default, |some| {
            let get = |it: &mut engine::Transaction| it.multi_get(keyspace, some);
            self.transaction.with_detached(py, get)?.or_raise()
        })
    }

    fn _scan(
        &self,
        py: Python<'_>,
        part: Part,
        range: Range<'_>,
        keyspace: Option<&Bound<'_, Keyspace>>,
    ) -> PyResult<Steps> {
        let keyspace = chosen(keyspace, &self.keyspace)?;
        let scan = |it: &mut engine::Transaction| range.scan(it, keyspace, part);
        let entries = self.transaction.with(py, scan)?.or_raise()?;
        Ok(Steps::new(entries, part))
    }

    /// Gives a key a value.
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
        self.transaction
            .with(py, |it| match expire {
                None => it.put(keyspace, key, value).map(drop),
                Some(Expires(at)) => it.put_expiring(keyspace, key, value, at).map(drop),
            })?
            .or_raise()
    }

    fn __setitem__(&self, py: Python<'_>, key: Bytes<'_>, value: Bytes<'_>) -> PyResult<()> {
        self.put(py, key, value, None, None)
    }

    /// Deletes a key.
    #[pyo3(signature = (key, *, keyspace=None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        keyspace: Option<&Bound<'_, Keyspace>>,
    ) -> PyResult<()> {
        let keyspace = chosen(keyspace, &self.keyspace)?;
        let delete = |it: &mut engine::Transaction| it.delete(keyspace, key).map(drop);
        self.transaction.with(py, delete)?.or_raise()
    }

    /// Changes a value by an operand of the merge operator.
    #[pyo3(signature = (key, operand, *, keyspace=None))]
    fn merge(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        operand: Bytes<'_>,
        keyspace: Option<&Bound<'_, Keyspace>>,
    ) -> PyResult<()> {
        let keyspace = chosen(keyspace, &self.keyspace)?;
        let merge = |it: &mut engine::Transaction| it.merge(keyspace, key, operand).map(drop);
        self.transaction.with(py, merge)?.or_raise()
    }

    /// Deletes the keys from `start` on and before `stop`.
    #[pyo3(signature = (start=None, stop=None, *, keyspace=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        keyspace: Option<&Bound<'_, Keyspace>>,
    ) -> PyResult<()> {
        let (keyspace, range) = (chosen(keyspace, &self.keyspace)?, range(&start, &stop));
        let delete =
            |it: &mut engine::Transaction| it.delete_range::<&[u8]>(keyspace, range).map(drop);
        self.transaction.with(py, delete)?.or_raise()
    }

    /// A moment to roll back to.
    fn savepoint(&self, py: Python<'_>) -> PyResult<Mark> {
        self.transaction.with(py, |it| Mark(it.savepoint()))
    }

    /// Takes back the writes since a savepoint.
    fn roll_back_to(&self, py: Python<'_>, savepoint: &Bound<'_, Mark>) -> PyResult<()> {
        let savepoint = savepoint.get().0;
        let roll_back = |it: &mut engine::Transaction| it.roll_back_to(savepoint);
        self.transaction.with_detached(py, roll_back)?.or_raise()
    }

    /// Commits all writes, or none.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        if self.transaction.with(py, |it| !it.batch().is_empty())? {
            wait_for_memory(py, self.db.get()?)?;
        }
        let transaction = self.transaction.take(py)?;
        match transaction.batch().bytes() < crate::batch::LONG_BATCH_BYTES {
            true => py.detach(|| transaction.commit()).or_raise(),
            false => wait(py, None, |_| transaction.commit()),
        }
    }

    /// Ends the transaction. Writes that were not committed are lost.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.transaction.close(py).map(drop)
    }

    /// Returns true if it was committed or closed.
    #[getter]
    fn closed(&self, py: Python<'_>) -> PyResult<bool> {
        self.transaction.is_closed(py)
    }
}
