//! Maintenance of a keyspace, and facts about it.

use std::time::Duration;

use engine::{Error, ErrorKind};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use hedgerow_bindings::stats;

use super::Keyspace;
use crate::bytes::{Bytes, range};
use crate::errors::{OrRaise, raised};
use crate::waiting::{GoOn, wait};

/// A time to live of seconds. The engine counts milliseconds in 64 bits.
fn time_to_live_of(seconds: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let expected = "expected seconds for a time to live, a millisecond or more, or None";
    let Ok(number) = seconds.extract::<f64>() else {
        let found = seconds.repr()?;
        return Err(PyTypeError::new_err(format!("{expected}, found {found}")));
    };
    let time = Duration::try_from_secs_f64(number).ok();
    let time = time.filter(|it| (1..=u128::from(u64::MAX)).contains(&it.as_millis()));
    time.ok_or_else(|| {
        let message = format!("{expected}, found {number:?}");
        raised(&Error::new(ErrorKind::InvalidArgument, message))
    })
}

#[pymethods]
impl Keyspace {
    #[getter]
    fn name(&self) -> PyResult<String> {
        Ok(self.engine()?.name())
    }

    /// The layout, as text.
    #[getter]
    fn layout(&self) -> PyResult<String> {
        Ok(self.engine()?.layout().to_string())
    }

    /// The design in force, as text.
    #[getter]
    fn design(&self) -> PyResult<String> {
        Ok(self.engine()?.design().to_string())
    }

    /// Gives the keyspace another design.
    fn retune(&self, py: Python<'_>, design: &str) -> PyResult<()> {
        let (keyspace, design) = (self.engine()?.clone(), design.parse().or_raise()?);
        wait(py, None, move |_| keyspace.retune(design))
    }

    /// Turns self-tuning on or off.
    fn set_self_tuning(&self, py: Python<'_>, on: bool) -> PyResult<()> {
        let keyspace = self.engine()?.clone();
        wait(py, None, move |_| keyspace.set_self_tuning(on))
    }

    /// The seconds that values live which are put without an expiry; `None` is for ever.
    #[getter]
    fn time_to_live(&self) -> PyResult<Option<f64>> {
        let time = self.engine()?.time_to_live();
        Ok(time.map(|it| it.as_secs_f64()))
    }

    /// Sets the seconds that values live which are put from now on; `None` is for ever.
    #[pyo3(signature = (seconds))]
    fn set_time_to_live(&self, py: Python<'_>, seconds: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        let keyspace = self.engine()?.clone();
        let time = seconds.as_ref().map(time_to_live_of).transpose()?;
        wait(py, None, move |_| keyspace.set_time_to_live(time))
    }

    /// Refuses a time to live that [`Keyspace::set_time_to_live`] would refuse.
    #[staticmethod]
    fn _check_time_to_live(seconds: &Bound<'_, PyAny>) -> PyResult<()> {
        time_to_live_of(seconds).map(drop)
    }

    /// Estimates the number of entries from `start` on and before `stop`.
    #[pyo3(signature = (start=None, stop=None))]
    fn approximate_len(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
    ) -> PyResult<u64> {
        let (keyspace, range) = (self.engine()?, range(&start, &stop));
        py.detach(|| keyspace.approximate_entries::<&[u8]>(range))
            .or_raise()
    }

    /// Estimates the bytes of the entries from `start` on and before `stop`.
    #[pyo3(signature = (start=None, stop=None))]
    fn approximate_bytes(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
    ) -> PyResult<u64> {
        let (keyspace, range) = (self.engine()?, range(&start, &stop));
        py.detach(|| keyspace.approximate_bytes::<&[u8]>(range))
            .or_raise()
    }

    /// Merges all data from `start` on and before `stop` into the deepest level. `progress` is
    /// called with the bytes done and all bytes.
    #[pyo3(signature = (start=None, stop=None, *, progress=None))]
    fn compact(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let keyspace = self.engine()?.clone();
        let (start, stop) = range(&start, &stop);
        let owned = (start.map(<[u8]>::to_vec), stop.map(<[u8]>::to_vec));
        let compact = move |go_on: GoOn<'_>| {
            keyspace.compact_with(owned, |it| go_on(it.done_bytes, it.total_bytes))
        };
        wait(py, progress.as_ref(), compact)
    }

    /// Writes the entries of all memtables to tables.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let keyspace = self.engine()?.clone();
        wait(py, None, move |_| keyspace.flush())
    }

    /// Waits until the background has nothing left to flush or to merge.
    fn wait_until_merged(&self, py: Python<'_>) -> PyResult<()> {
        let keyspace = self.engine()?.clone();
        wait(py, None, move |_| keyspace.wait_until_merged())
    }

    /// Removes all entries.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        let keyspace = self.engine()?.clone();
        wait(py, None, move |_| keyspace.clear())
    }

    /// The statistics as JSON.
    fn _stats_json(&self, py: Python<'_>) -> PyResult<String> {
        let keyspace = self.engine()?;
        Ok(py.detach(|| stats::keyspace(&keyspace.stats()).to_string()))
    }

    /// The steps of a lookup, as text.
    fn explain(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<String> {
        let (keyspace, key) = (self.engine()?, &*key);
        let explanation = py.detach(|| keyspace.explain(key)).or_raise()?;
        Ok(format!("{explanation:#?}"))
    }

    /// The tables of each tree, as text.
    fn shape(&self) -> PyResult<String> {
        Ok(self.engine()?.shape())
    }
}
