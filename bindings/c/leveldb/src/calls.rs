//! One call of C code: its arguments are read, and its failure becomes LevelDB's `errptr`.

use std::ffi::c_char;
use std::ptr::null_mut;

use engine::ErrorKind;
pub(crate) use hedgerow_bindings::foreign::number;
use hedgerow_bindings::foreign::{self, Foreign, MallocCopy};
use hedgerow_bindings::{Failure, run};

/// Calls `body` with the arguments. Stores the message of a failure in `*errptr`.
///
/// # Safety
/// The arguments keep the rules of [`Foreign`]. `errptr` is NULL, or `*errptr` is NULL or a message
/// that this library returned.
pub(crate) unsafe fn call<A: Foreign, R>(
    errptr: *mut *mut c_char,
    arguments: A,
    body: impl FnOnce(A::Here) -> Result<R, Failure>,
) -> Option<R> {
    let result = run(|| {
        // SAFETY: the caller keeps the rules.
        let arguments = unsafe { arguments.here() }?;
        body(arguments)
    });
    match result {
        Ok(result) => Some(result),
        Err(failure) => {
            // SAFETY: the caller keeps the rules.
            unsafe { report(errptr, &status(&failure)) };
            None
        }
    }
}

/// Stores a message in `*errptr`, and frees the one that is there.
///
/// # Safety
/// As [`call`].
pub(crate) unsafe fn report(errptr: *mut *mut c_char, message: &str) {
    if errptr.is_null() {
        return;
    }
    // SAFETY: the caller promises a place for a message.
    let place = unsafe { &mut *errptr };
    // SAFETY: the message there is NULL or comes from `malloc`.
    unsafe { libc::free(place.cast()) };
    // Without memory for the message the failure is lost, as in LevelDB.
    *place = MallocCopy::of(message.as_bytes()).map_or(null_mut(), MallocCopy::give);
}

/// The text of a failure, which begins as LevelDB's do.
pub(crate) fn status(failure: &Failure) -> String {
    let begin = match failure.kind {
        Some(ErrorKind::Corruption | ErrorKind::FormatVersion) => "Corruption",
        Some(ErrorKind::Unsupported) => "Not implemented",
        Some(ErrorKind::InvalidArgument) => "Invalid argument",
        _ => "IO error",
    };
    format!("{begin}: {failure}")
}

/// The pointer that C code holds for a handle; NULL for none.
pub(crate) fn pointer<T>(handle: Option<u64>) -> *mut T {
    foreign::pointer(handle.unwrap_or(0))
}
