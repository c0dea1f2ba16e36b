//! Arrow's C data interface: two structures by which arrays are handed over without a copy.
//!
//! The layout and the rules are those of the specification: whoever has a structure whose `release`
//! is not null owns it, and calls `release` once when it is done with the memory.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{self, null, null_mut};
use std::slice;
use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// Type of an array.
#[repr(C)]
struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

/// Memory of an array.
#[repr(C)]
struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

// SAFETY: the specification allows to use and to release a structure on any thread.
unsafe impl Send for ArrowSchema {}
// SAFETY: as for a schema; the memory of an array does not change.
unsafe impl Send for ArrowArray {}
// SAFETY: as above; a shared array is only read.
unsafe impl Sync for ArrowArray {}

impl Drop for ArrowSchema {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: a structure that was not moved from has a `release` for itself.
            unsafe { release(self) };
        }
    }
}

impl Drop for ArrowArray {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: a structure that was not moved from has a `release` for itself.
            unsafe { release(self) };
        }
    }
}

impl ArrowArray {
    /// The structure of an array that was moved from.
    fn released() -> ArrowArray {
        ArrowArray {
            length: 0,
            null_count: 0,
            offset: 0,
            n_buffers: 0,
            n_children: 0,
            buffers: null_mut(),
            children: null_mut(),
            dictionary: null_mut(),
            release: None,
            private_data: null_mut(),
        }
    }

    /// A buffer of an array; `None` if it is absent.
    fn buffer(&self, index: usize) -> Option<*const c_void> {
        if index as i64 >= self.n_buffers || self.buffers.is_null() {
            return None;
        }
        // SAFETY: `buffers` has `n_buffers` pointers.
        let buffer = unsafe { *self.buffers.wrapping_add(index) };
        (!buffer.is_null()).then_some(buffer)
    }
}

/// The way in which an array says where its strings are.
#[derive(Clone, Copy)]
enum Offsets<'a> {
    Narrow(&'a [i32]),
    Wide(&'a [i64]),
    Fixed(usize),
}

/// Strings of an array that another library made. None is missing.
pub(crate) struct Imported {
    array: ArrowArray,
    /// The bits of the offsets, or the width of all strings.
    format: Format,
    count: usize,
}

#[derive(Clone, Copy)]
enum Format {
    Narrow,
    Wide,
    Fixed(usize),
}

impl Imported {
    /// Takes an array over from its capsule.
    pub(crate) fn new(
        schema: &Bound<'_, PyCapsule>,
        array: &Bound<'_, PyCapsule>,
    ) -> PyResult<Imported> {
        let schema = schema
            .pointer_checked(Some(c"arrow_schema"))?
            .cast::<ArrowSchema>();
        // SAFETY: a capsule of this name has a schema, which lives as long as the capsule.
        let schema = unsafe { schema.as_ref() };
        let format = format_of(schema)?;
        let array = array
            .pointer_checked(Some(c"arrow_array"))?
            .cast::<ArrowArray>();
        // SAFETY: a capsule of this name has an array, and nobody else has it now. The
        // specification says to move it out like this.
        let array = unsafe { ptr::replace(array.as_ptr(), ArrowArray::released()) };
        let wrong = |message: &str| Err(PyValueError::new_err(message.to_owned()));
        if array.release.is_none() {
            return wrong("expected an Arrow array, found one that was taken by someone else");
        }
        let (Ok(count), Ok(first)) = (usize::try_from(array.length), usize::try_from(array.offset))
        else {
            return wrong("expected an Arrow array of a length, found a negative one");
        };
        let imported = Imported {
            array,
            format,
            count,
        };
        if !imported.is_aligned() {
            return wrong("expected an Arrow array whose offsets are aligned");
        }
        if (0..count).any(|index| imported.is_missing(first + index)) {
            return wrong("expected an Arrow array without nulls");
        }
        if !imported.is_in_order() {
            return wrong("expected an Arrow array whose offsets ascend");
        }
        Ok(imported)
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The bytes of a row, which there must be.
    pub(crate) fn row(&self, index: usize) -> &[u8] {
        assert!(index < self.count, "the row exists");
        let (start, end) = match self.offsets() {
            Some(Offsets::Narrow(offsets)) => {
                (offsets[index] as usize, offsets[index + 1] as usize)
            }
            Some(Offsets::Wide(offsets)) => (offsets[index] as usize, offsets[index + 1] as usize),
            Some(Offsets::Fixed(width)) => {
                let index = self.first() + index;
                (index * width, (index + 1) * width)
            }
            None => (0, 0),
        };
        let bytes = match self.format {
            Format::Fixed(_) => self.array.buffer(1),
            Format::Narrow | Format::Wide => self.array.buffer(2),
        };
        let Some(bytes) = bytes.filter(|_| start < end) else {
            return &[];
        };
        let first = bytes.cast::<u8>().wrapping_add(start);
        // SAFETY: the offsets are within the buffer, as the maker of the array promises, and
        // ascend. The memory does not change until the array is released.
        unsafe { slice::from_raw_parts(first, end - start) }
    }

    /// The place of the first string in the buffers.
    fn first(&self) -> usize {
        usize::try_from(self.array.offset).unwrap_or(0)
    }

    fn offsets(&self) -> Option<Offsets<'_>> {
        if let Format::Fixed(width) = self.format {
            return Some(Offsets::Fixed(width));
        }
        let buffer = self.array.buffer(1)?;
        let (first, count) = (self.first(), self.count + 1);
        Some(match self.format {
            Format::Narrow => {
                let start = buffer.cast::<i32>().wrapping_add(first);
                // SAFETY: the buffer has an offset for each string of the array and one more.
                Offsets::Narrow(unsafe { slice::from_raw_parts(start, count) })
            }
            _ => {
                let start = buffer.cast::<i64>().wrapping_add(first);
                // SAFETY: the buffer has an offset for each string of the array and one more.
                Offsets::Wide(unsafe { slice::from_raw_parts(start, count) })
            }
        })
    }

    /// Returns true if the offsets are where numbers of their size may be.
    fn is_aligned(&self) -> bool {
        let buffer = self.array.buffer(1);
        buffer.is_none_or(|buffer| match self.format {
            Format::Fixed(_) => true,
            Format::Narrow => buffer.cast::<i32>().is_aligned(),
            Format::Wide => buffer.cast::<i64>().is_aligned(),
        })
    }

    fn is_in_order(&self) -> bool {
        match self.offsets() {
            Some(Offsets::Narrow(offsets)) => offsets[0] >= 0 && offsets.is_sorted(),
            Some(Offsets::Wide(offsets)) => offsets[0] >= 0 && offsets.is_sorted(),
            Some(Offsets::Fixed(_)) => true,
            None => self.count == 0,
        }
    }

    /// Returns true if the string at a place of the buffers is missing.
    fn is_missing(&self, place: usize) -> bool {
        let Some(bits) = self.array.buffer(0).filter(|_| self.array.null_count != 0) else {
            return false;
        };
        // SAFETY: the buffer has a bit for each string of the array.
        let byte = unsafe { *bits.cast::<u8>().wrapping_add(place / 8) };
        byte & (1 << (place % 8)) == 0
    }
}

fn format_of(schema: &ArrowSchema) -> PyResult<Format> {
    if schema.format.is_null() {
        return Err(PyTypeError::new_err(
            "expected an Arrow array, found one without a type",
        ));
    }
    // SAFETY: the format is a string that lives as long as the schema.
    let format = unsafe { CStr::from_ptr(schema.format) };
    match format.to_bytes() {
        b"z" | b"u" => Ok(Format::Narrow),
        b"Z" | b"U" => Ok(Format::Wide),
        [b'w', b':', digits @ ..] => {
            let width = std::str::from_utf8(digits)
                .ok()
                .and_then(|it| it.parse().ok());
            let width = width.map(Format::Fixed);
            width.ok_or_else(|| PyTypeError::new_err("expected a width of the strings"))
        }
        found => Err(PyTypeError::new_err(format!(
            "expected an Arrow array of binary, large_binary, string or fixed_size_binary, found \
             the format `{}`",
            found.escape_ascii()
        ))),
    }
}

/// An array of values that others read.
pub(super) struct Exported {
    pub(super) offsets: Vec<i32>,
    pub(super) bytes: Vec<u8>,
    /// A bit for each value that is there.
    pub(super) present: Vec<u8>,
    pub(super) missing: usize,
}

impl Exported {
    pub(crate) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// A value; `None` if it is missing.
    pub(super) fn value(&self, index: usize) -> Option<&[u8]> {
        let is_there = self.present[index / 8] & (1 << (index % 8)) != 0;
        let (start, end) = (
            self.offsets[index] as usize,
            self.offsets[index + 1] as usize,
        );
        is_there.then(|| &self.bytes[start..end])
    }
}

/// The memory that a structure that was handed out keeps alive.
struct Kept {
    buffers: [*const c_void; 3],
    _array: Arc<Exported>,
}

/// A capsule with the type `binary`.
pub(super) fn schema_capsule(py: Python<'_>) -> PyResult<Bound<'_, PyCapsule>> {
    /// The values may be missing.
    const NULLABLE: i64 = 2;
    let schema = ArrowSchema {
        format: c"z".as_ptr(),
        name: c"".as_ptr(),
        metadata: null(),
        flags: NULLABLE,
        n_children: 0,
        children: null_mut(),
        dictionary: null_mut(),
        release: Some(release_schema),
        private_data: null_mut(),
    };
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

/// A capsule with an array, whose memory it shares.
pub(super) fn array_capsule<'py>(
    py: Python<'py>,
    array: &Arc<Exported>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let kept = Box::into_raw(Box::new(Kept {
        buffers: [
            array.present.as_ptr().cast(),
            array.offsets.as_ptr().cast(),
            array.bytes.as_ptr().cast(),
        ],
        _array: array.clone(),
    }));
    // SAFETY: the pointer is that of the box above.
    let buffers = unsafe { &raw mut (*kept).buffers };
    let array = ArrowArray {
        length: array.len() as i64,
        null_count: array.missing as i64,
        offset: 0,
        n_buffers: 3,
        n_children: 0,
        buffers: buffers.cast(),
        children: null_mut(),
        dictionary: null_mut(),
        release: Some(release_array),
        private_data: kept.cast(),
    };
    PyCapsule::new_with_value(py, array, c"arrow_array")
}

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: the caller gives a schema that this module made. All that it names is static.
    unsafe { (*schema).release = None };
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: the caller gives an array that this module made, and uses it alone.
    let array = unsafe { &mut *array };
    // SAFETY: `array_capsule` made the pointer from a box, and only the owner gets here, once.
    drop(unsafe { Box::from_raw(array.private_data.cast::<Kept>()) });
    array.release = None;
}
