//! The common parts of the C interfaces of RocksDB and LevelDB: errors and strings that C owns.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;

/// The library's own `free`, for what it has allocated.
pub(crate) type Free = unsafe extern "C" fn(*mut c_void);

/// An error as both libraries report it: null, or a string that the caller is to free.
///
/// # Safety
///
/// `error` is null or what the library of `free` wrote to an `errptr`, and is not used afterwards.
pub(crate) unsafe fn check(error: *mut c_char, free: Free) -> Result<(), String> {
    // SAFETY: the caller's promise.
    match unsafe { take_string(error, free) } {
        None => Ok(()),
        Some(message) => Err(message),
    }
}

/// A string that the library has allocated, which is freed; nothing when it is null.
///
/// # Safety
///
/// `string` is null or ends with a zero, comes from the library of `free`, and is not used
/// afterwards.
pub(crate) unsafe fn take_string(string: *mut c_char, free: Free) -> Option<String> {
    if string.is_null() {
        return None;
    }
    // SAFETY: the caller promises a string that ends with a zero.
    let text = unsafe { CStr::from_ptr(string) }
        .to_string_lossy()
        .into_owned();
    // SAFETY: the caller promises that it comes from this library and is not used again.
    unsafe { free(string.cast()) };
    Some(text)
}

/// The bytes of a key or value that the library lends.
///
/// # Safety
///
/// `length` bytes at `bytes` stay valid and unchanged for `'a`.
pub(crate) unsafe fn lend<'a>(bytes: *const c_char, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(bytes.cast(), length) }
}

/// A path as C wants it.
pub(crate) fn path(path: &Path) -> Result<CString, String> {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| format!("expected a path without zero bytes, found {path:?}"))
}
