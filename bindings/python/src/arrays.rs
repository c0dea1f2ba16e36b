//! Many keys or values in one piece of memory, without a Python object for each.

mod arrow;
pub(crate) mod gets;

use std::sync::Arc;

use pyo3::exceptions::{PyIndexError, PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList};

use arrow::{Exported, Imported};

/// Keys or values: rows of one length, or the strings of an Arrow array.
#[pyclass(frozen, module = "hedgerow._native")]
pub(crate) struct Rows(Kind);

enum Kind {
    Fixed {
        bytes: Py<PyBytes>,
        width: usize,
        count: usize,
        /// Zeros at the end of a row do not belong to it.
        strip: bool,
    },
    Arrow(Imported),
}

/// Rows that can be read while other threads of Python run.
#[derive(Clone, Copy)]
pub(crate) enum View<'a> {
    Fixed(&'a [u8], usize, usize, bool),
    Arrow(&'a Imported),
}

impl View<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            View::Fixed(_, _, count, _) => *count,
            View::Arrow(array) => array.len(),
        }
    }

    /// The bytes of a row, which there must be.
    pub(crate) fn row(&self, index: usize) -> &[u8] {
        match self {
            View::Arrow(array) => array.row(index),
            View::Fixed(bytes, width, _, strip) => {
                let row = &bytes[index * width..(index + 1) * width];
                let end = row.iter().rposition(|byte| !strip || *byte != 0);
                &row[..end.map_or(0, |last| last + 1)]
            }
        }
    }
}

impl Rows {
    pub(crate) fn view(&self, py: Python<'_>) -> View<'_> {
        match &self.0 {
            Kind::Fixed {
                bytes,
                width,
                count,
                strip,
            } => View::Fixed(bytes.as_bytes(py), *width, *count, *strip),
            Kind::Arrow(array) => View::Arrow(array),
        }
    }
}

#[pymethods]
impl Rows {
    /// Rows of one length, one after another.
    #[staticmethod]
    fn fixed(bytes: Bound<'_, PyBytes>, width: usize, count: usize, strip: bool) -> PyResult<Rows> {
        let (expected, found) = (width.checked_mul(count), bytes.as_bytes().len());
        if expected != Some(found) {
            let message = format!("expected {count} rows of {width} bytes, found {found} bytes");
            return Err(PyValueError::new_err(message));
        }
        let bytes = bytes.unbind();
        Ok(Rows(Kind::Fixed {
            bytes,
            width,
            count,
            strip,
        }))
    }

    /// The strings of an Arrow array: the capsules of its `__arrow_c_array__`.
    #[staticmethod]
    fn arrow(schema: &Bound<'_, PyCapsule>, array: &Bound<'_, PyCapsule>) -> PyResult<Rows> {
        Ok(Rows(Kind::Arrow(Imported::new(schema, array)?)))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.view(py).len()
    }
}

/// The most bytes of all values: offsets have 32 bits, as in Arrow's `binary`.
const BYTES_MAX: usize = i32::MAX as usize;

/// Values in one piece of memory, some of which may be missing: an Arrow array.
#[pyclass(frozen, sequence, module = "hedgerow")]
pub(crate) struct BytesArray(Arc<Exported>);

/// Puts a `BytesArray` together.
pub(crate) struct Values(Exported);

impl Values {
    pub(crate) fn new(count: usize) -> Values {
        let mut offsets = Vec::with_capacity(count + 1);
        offsets.push(0);
        Values(Exported {
            offsets,
            bytes: Vec::new(),
            present: Vec::with_capacity(count.div_ceil(8)),
            missing: 0,
        })
    }

    /// Adds a value. Returns false if all values together are too long.
    pub(crate) fn push(&mut self, value: Option<&[u8]>) -> bool {
        let array = &mut self.0;
        let index = array.offsets.len() - 1;
        if index.is_multiple_of(8) {
            array.present.push(0);
        }
        match value {
            Some(value) => {
                array.bytes.extend_from_slice(value);
                array.present[index / 8] |= 1 << (index % 8);
            }
            None => array.missing += 1,
        }
        let end = i32::try_from(array.bytes.len());
        array.offsets.push(end.unwrap_or(i32::MAX));
        end.is_ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.offsets.len() == 1
    }

    pub(crate) fn finish(self) -> BytesArray {
        BytesArray(Arc::new(self.0))
    }
}

/// The exception for values that are too long together.
pub(crate) fn too_long() -> PyErr {
    PyOverflowError::new_err(format!(
        "expected values of at most {BYTES_MAX} bytes together, found more: get fewer keys at once"
    ))
}

impl BytesArray {
    fn lengths(&self) -> impl Iterator<Item = usize> {
        let ends = self.0.offsets.windows(2);
        ends.map(|pair| (pair[1] - pair[0]) as usize)
    }
}

#[pymethods]
impl BytesArray {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// A value; `None` if it is missing.
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: isize,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let count = self.0.len() as isize;
        let index = if index < 0 { index + count } else { index };
        if !(0..count).contains(&index) {
            let message = format!("expected an index below {count}, found {index}");
            return Err(PyIndexError::new_err(message));
        }
        let value = self.0.value(index as usize);
        Ok(value.map(|value| PyBytes::new(py, value)))
    }

    /// The number of missing values.
    #[getter]
    fn null_count(&self) -> usize {
        self.0.missing
    }

    /// All values as a list.
    fn to_pylist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let values = (0..self.0.len()).map(|index| self.0.value(index));
        PyList::new(
            py,
            values.map(|value| value.map(|value| PyBytes::new(py, value))),
        )
    }

    /// The length of the longest value.
    #[getter]
    fn _longest(&self) -> usize {
        self.lengths().max().unwrap_or(0)
    }

    /// The length of the shortest value.
    #[getter]
    fn _shortest(&self) -> usize {
        self.lengths().min().unwrap_or(0)
    }

    /// The values as an array of NumPy; see `hedgerow._arrays.to_numpy`.
    #[pyo3(signature = (dtype=None))]
    fn to_numpy<'py>(
        this: &Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let module = this.py().import("hedgerow._arrays")?;
        match dtype {
            Some(dtype) => module.call_method1("to_numpy", (this, dtype)),
            None => module.call_method1("to_numpy", (this,)),
        }
    }

    /// The values one after another, each with zeros up to this width. Longer ones are cut.
    fn _padded<'py>(&self, py: Python<'py>, width: usize) -> PyResult<Bound<'py, PyBytes>> {
        let count = self.0.len();
        PyBytes::new_with(py, count * width, |bytes| {
            let rows = bytes.chunks_exact_mut(width.max(1)).take(count);
            for (index, row) in rows.enumerate() {
                let value = self.0.value(index).unwrap_or_default();
                let length = value.len().min(width);
                row[..length].copy_from_slice(&value[..length]);
            }
            Ok(())
        })
    }

    /// The type of the array, as Arrow's C data interface has it.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        arrow::schema_capsule(py)
    }

    /// The array, as Arrow's C data interface has it; its memory is shared, not copied.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // The only type that it has; whoever wants another one converts it.
        let _ = requested_schema;
        Ok((
            arrow::schema_capsule(py)?,
            arrow::array_capsule(py, &self.0)?,
        ))
    }
}
