//! Asynchronous calls: results that an event loop waits for.
//!
//! A thread of the engine that completes a call never waits for Python: it writes the call's number
//! to a list, and a byte to a socket that the event loop watches.

use std::future::Future;
use std::io::{Read, Write};
use std::ops::Bound as End;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyBytes;

use engine::Slice;

use crate::batch::Batch;
use crate::bytes::{Bytes, Expires, durability, range};
use crate::db::Db;
use crate::errors::{OrRaise, closed};
use crate::fork::Owned;
use crate::keyspace::{Keyspace, list};

/// The calls of an event loop that have completed since it looked.
#[pyclass(frozen, module = "hedgerow._native")]
pub(crate) struct Completions(Arc<Inbox>);

struct Inbox {
    completed: Mutex<Vec<u64>>,
    writer: UnixStream,
    reader: UnixStream,
}

impl Inbox {
    fn completed(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        self.completed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Completions {
    #[new]
    fn new() -> PyResult<Completions> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        Ok(Completions(Arc::new(Inbox {
            completed: Mutex::default(),
            writer,
            reader,
        })))
    }

    /// The socket that is readable when calls have completed.
    fn fileno(&self) -> i32 {
        self.0.reader.as_raw_fd()
    }

    /// The numbers of the calls that have completed.
    fn take(&self, py: Python<'_>) -> Vec<u64> {
        // A byte that comes later belongs to a number that is taken now or the next time.
        let mut bytes = [0; 64];
        while (&self.0.reader).read(&mut bytes).is_ok_and(|read| read > 0) {}
        let completed = self.0.completed.lock_py_attached(py);
        std::mem::take(&mut *completed.unwrap_or_else(PoisonError::into_inner))
    }
}

/// Tells an event loop that a call has completed.
struct Notice {
    inbox: Arc<Inbox>,
    number: u64,
}

impl Wake for Notice {
    fn wake(self: Arc<Self>) {
        let mut completed = self.inbox.completed();
        completed.push(self.number);
        if completed.len() == 1 {
            // A full socket wakes the loop, too; one that is closed has no loop.
            drop((&self.inbox.writer).write(&[0]));
        }
    }
}

/// The result of a call.
enum Outcome {
    Nothing,
    Value(Option<Slice>),
    Values(Vec<Option<Slice>>),
    Pairs(Vec<(Slice, Slice)>),
}

type Pending = Pin<Box<dyn Future<Output = engine::Result<Outcome>> + Send>>;

/// A call that was made and has not completed yet, as far as its caller knows.
#[pyclass(frozen, module = "hedgerow._native")]
pub(crate) struct Call {
    pending: Owned<Mutex<Option<Pending>>>,
    default: Py<PyAny>,
}

impl Call {
    fn new<T: Send + 'static>(
        pending: engine::Pending<T>,
        default: Py<PyAny>,
        outcome: impl FnOnce(T) -> Outcome + Send + 'static,
    ) -> Call {
        let pending: Pending = Box::pin(async move { pending.await.map(outcome) });
        Call {
            pending: Owned::new(Mutex::new(Some(pending))),
            default,
        }
    }

    fn nothing(py: Python<'_>, pending: engine::Pending<()>) -> Call {
        Call::new(pending, py.None(), |()| Outcome::Nothing)
    }
}

#[pymethods]
impl Call {
    /// A tuple of the result if the call has completed. Otherwise its number will be among those of
    /// the completions when it has.
    fn poll<'py>(
        &self,
        py: Python<'py>,
        completions: &Bound<'py, Completions>,
        number: u64,
    ) -> PyResult<Option<(Bound<'py, PyAny>,)>> {
        let inbox = completions.get().0.clone();
        let waker = Waker::from(Arc::new(Notice { inbox, number }));
        let pending = self.pending.get()?;
        let polled = py.detach(|| {
            let mut pending = pending.lock().unwrap_or_else(PoisonError::into_inner);
            let future = pending.as_mut()?;
            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            if polled.is_ready() {
                *pending = None;
            }
            Some(polled)
        });
        let outcome = match polled {
            None => return Err(closed("call")),
            Some(Poll::Pending) => return Ok(None),
            Some(Poll::Ready(result)) => result.or_raise()?,
        };
        let object = match outcome {
            Outcome::Nothing => py.None().into_bound(py),
            Outcome::Value(Some(value)) => PyBytes::new(py, &value).into_any(),
            Outcome::Value(None) => self.default.bind(py).clone(),
            Outcome::Values(values) => list(py, &values, &self.default)?.into_any(),
            Outcome::Pairs(pairs) => {
                let pairs = pairs.iter();
                let pairs = pairs.map(|(k, v)| (PyBytes::new(py, k), PyBytes::new(py, v)));
                pyo3::types::PyList::new(py, pairs)?.into_any()
            }
        };
        Ok(Some((object,)))
    }
}

#[pymethods]
impl Keyspace {
    fn _get_async(&self, key: Bytes<'_>, default: Py<PyAny>) -> PyResult<Call> {
        let pending = self.engine()?.get_async(key);
        Ok(Call::new(pending, default, Outcome::Value))
    }

    fn _get_many_async(&self, keys: Vec<Bytes<'_>>, default: Py<PyAny>) -> PyResult<Call> {
        let pending = self.engine()?.multi_get_async(&keys);
        Ok(Call::new(pending, default, Outcome::Values))
    }

    fn _page_async(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        behind: Option<Bytes<'_>>,
        count: usize,
    ) -> PyResult<Call> {
        let mut range = range(&start, &stop);
        if let Some(key) = &behind {
            range.0 = End::Excluded(key);
        }
        let pending = self.engine()?.scan_page_async::<&[u8]>(range, count);
        Ok(Call::new(pending, py.None(), Outcome::Pairs))
    }

    fn _put_async(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        value: Bytes<'_>,
        sync: bool,
        expire: Option<Expires>,
    ) -> PyResult<Call> {
        let (keyspace, durability) = (self.engine()?, durability(sync));
        let pending = match expire {
            None => keyspace.put_async_with(key, value, durability),
            Some(Expires(at)) => keyspace.put_expiring_async(key, value, at, durability),
        };
        Ok(Call::nothing(py, pending))
    }

    fn _delete_async(&self, py: Python<'_>, key: Bytes<'_>, sync: bool) -> PyResult<Call> {
        let pending = self.engine()?.delete_async_with(key, durability(sync));
        Ok(Call::nothing(py, pending))
    }

    fn _merge_async(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        operand: Bytes<'_>,
        sync: bool,
    ) -> PyResult<Call> {
        let pending = self.engine()?.merge_async(key, operand, durability(sync));
        Ok(Call::nothing(py, pending))
    }

    fn _delete_range_async(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        sync: bool,
    ) -> PyResult<Call> {
        let (range, durability) = (range(&start, &stop), durability(sync));
        let pending = self
            .engine()?
            .delete_range_async::<&[u8]>(range, durability);
        Ok(Call::nothing(py, pending))
    }
}

#[pymethods]
impl Batch {
    fn _commit_async(&self, py: Python<'_>) -> PyResult<Call> {
        let (batch, durability) = self.take(py)?;
        Ok(Call::nothing(py, batch.commit_async(durability)))
    }
}

#[pymethods]
impl Db {
    fn _sync_async(&self, py: Python<'_>) -> PyResult<Call> {
        Ok(Call::nothing(py, self.engine(py)?.sync_async()))
    }

    fn _checkpoint_async(&self, py: Python<'_>, dir: std::path::PathBuf) -> PyResult<Call> {
        Ok(Call::nothing(py, self.engine(py)?.checkpoint_async(dir)))
    }

    fn _close_async(&self, py: Python<'_>) -> PyResult<Option<Call>> {
        let db = self.take(py)?;
        Ok(db.map(|db| Call::nothing(py, db.close_async())))
    }
}
