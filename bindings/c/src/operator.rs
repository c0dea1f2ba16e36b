//! Merge operators whose functions are the program's.

use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use engine::{MergeError, MergeOperator};
use hedgerow_bindings::Failure;
use hedgerow_bindings::foreign::{Bytes, Foreign};

use crate::options::{NOTHING, VALUE};
use crate::types::{hg_buffer, hg_bytes};

/// Combines the value of a key, NULL if it has none, with operands, the oldest first.
pub type hg_merge_full = Option<
    unsafe extern "C" fn(
        *mut c_void,
        hg_bytes,
        *const hg_bytes,
        *const hg_bytes,
        usize,
        *mut hg_buffer,
    ) -> c_int,
>;

/// Combines two operands, the older one first.
pub type hg_merge_partial = Option<
    unsafe extern "C" fn(*mut c_void, hg_bytes, hg_bytes, hg_bytes, *mut hg_buffer) -> c_int,
>;

pub(crate) struct Operator {
    name: String,
    state: *mut c_void,
    full: unsafe extern "C" fn(
        *mut c_void,
        hg_bytes,
        *const hg_bytes,
        *const hg_bytes,
        usize,
        *mut hg_buffer,
    ) -> c_int,
    partial: hg_merge_partial,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
}

// SAFETY: the header wants functions and a state that any thread may use.
unsafe impl Send for Operator {}
// SAFETY: as above.
unsafe impl Sync for Operator {}

impl Operator {
    pub(crate) fn new(
        name: &str,
        state: *mut c_void,
        full: hg_merge_full,
        partial: hg_merge_partial,
        destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    ) -> Result<Operator, Failure> {
        let full = full.ok_or_else(|| Failure::invalid("expected a merge function, found NULL"))?;
        Ok(Operator {
            name: name.to_owned(),
            state,
            full,
            partial,
            destroy,
        })
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: the program gave both together, and the function is called once.
            unsafe { destroy(self.state) };
        }
    }
}

/// An operator of options and of the databases that were opened with them.
pub(crate) struct Shared(pub(crate) Arc<Operator>);

/// A place for the result of a function of the program.
pub(crate) struct Made(pub(crate) hg_buffer);

impl Made {
    pub(crate) fn new() -> Made {
        Made(hg_buffer {
            data: null_mut(),
            len: 0,
        })
    }

    pub(crate) fn copied(&self) -> Result<Vec<u8>, Failure> {
        // SAFETY: the function says that it has made these bytes.
        unsafe { Bytes(self.0.data, self.0.len).here() }.map(<[u8]>::to_vec)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: the header wants memory of `malloc`, or NULL.
        unsafe { libc::free(self.0.data) };
    }
}

impl MergeOperator for Shared {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn full(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Option<Vec<u8>>, MergeError> {
        let base = base.map(hg_bytes::of);
        let base = base.as_ref().map_or(null(), std::ptr::from_ref);
        let operands: Vec<_> = operands
            .iter()
            .map(|operand| hg_bytes::of(operand))
            .collect();
        let mut made = Made::new();
        let (key, result, operator) = (hg_bytes::of(key), &raw mut made.0, &self.0);
        // SAFETY: the program gave function and state together. All arguments live until it ends.
        let outcome = unsafe {
            (operator.full)(
                operator.state,
                key,
                base,
                operands.as_ptr(),
                operands.len(),
                result,
            )
        };
        match outcome {
            VALUE => Ok(Some(made.copied().map_err(|failure| failure.to_string())?)),
            NOTHING => Ok(None),
            _ => Err(format!("the function of `{}` returned {outcome}", operator.name).into()),
        }
    }

    fn partial(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let operator = &self.0;
        let partial = operator.partial?;
        let mut made = Made::new();
        let [key, older, newer] = [key, older, newer].map(hg_bytes::of);
        // SAFETY: as for `full`.
        let outcome = unsafe { partial(operator.state, key, older, newer, &raw mut made.0) };
        made.copied().ok().filter(|_| outcome == VALUE)
    }
}
