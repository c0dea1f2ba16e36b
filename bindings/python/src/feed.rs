//! The change feed: the changes of a database in order.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use hedgerow_bindings::feed::{Change, ChangeKind, Feed};

use crate::db::Db;
use crate::errors::OrRaise;
use crate::shared::Closable;
use crate::waiting::LOOK_EVERY;

/// A position among the changes of a database. The Python class `Changes` has its documents.
#[pyclass(frozen, subclass, module = "hedgerow._native")]
pub(crate) struct Changes(Closable<Feed>);

/// The fields of the Python class `Change`.
type Fields = (
    u64,
    bool,
    &'static str,
    String,
    Py<PyBytes>,
    Option<Py<PyBytes>>,
    Option<f64>,
);

#[pymethods]
impl Changes {
    /// The changes of an open database, or of the files in a directory.
    #[new]
    fn new(py: Python<'_>, source: &Bound<'_, PyAny>, number: u64) -> PyResult<Changes> {
        let changes = match source.cast::<Db>() {
            Ok(db) => {
                let db = db.get().engine(py)?;
                py.detach(|| db.changes_since(number))
            }
            Err(_) => {
                let builder = engine::Db::builder(source.extract::<PathBuf>()?);
                py.detach(|| builder.changes_since(number))
            }
        };
        let feed = Feed::new(changes.or_raise()?);
        Ok(Changes(Closable::new("position among the changes", feed)))
    }

    /// The next change. Waits for one, without an argument as long as it takes.
    fn _next(&self, py: Python<'_>, seconds: Option<f64>) -> PyResult<Option<Fields>> {
        let at_most = match seconds {
            None => Duration::MAX,
            Some(seconds) => Duration::try_from_secs_f64(seconds)
                .map_err(|_| PyValueError::new_err(format!("expected seconds, found {seconds}")))?,
        };
        let began = Instant::now();
        loop {
            py.check_signals()?;
            let left = at_most.saturating_sub(began.elapsed());
            let slice = left.min(LOOK_EVERY);
            let next = self.0.with_detached(py, |feed| feed.next(slice))?;
            if let Some(change) = next.or_raise()? {
                return Ok(Some(fields(py, change)));
            }
            if left <= slice {
                return Ok(None);
            }
        }
    }

    /// Frees the position.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.0.close(py).map(drop)
    }
}

fn fields(py: Python<'_>, change: Change) -> Fields {
    let bytes = |bytes: &[u8]| PyBytes::new(py, bytes).unbind();
    (
        change.number,
        change.is_last,
        name(change.kind),
        change.keyspace,
        bytes(&change.key),
        change.value.as_deref().map(bytes),
        change.expiry.map(|expiry| expiry.as_secs_f64()),
    )
}

fn name(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Put => "put",
        ChangeKind::Merge => "merge",
        ChangeKind::Delete => "delete",
        ChangeKind::DeleteRange => "delete_range",
        ChangeKind::DeletePrefix => "delete_prefix",
        ChangeKind::Create => "create",
        ChangeKind::Rename => "rename",
        ChangeKind::SetMergeOperator => "set_merge_operator",
        ChangeKind::SetTimeToLive => "set_time_to_live",
        ChangeKind::Clear => "clear",
        ChangeKind::Drop => "drop",
    }
}
