//! Hedgerow's C interface, `include/hedgerow.h`, which describes every function.
//!
//! A pointer to an object is a handle ([`hedgerow_bindings::Handles`]). A function returns a code,
//! and writes its results to places that the caller names. No panic leaves the library.
#![allow(
    non_camel_case_types,
    reason = "the names are those of the C interface"
)]

pub mod asynchronous;
pub mod backup;
pub mod batch;
pub mod database;
pub mod feed;
pub mod iterator;
pub mod keyspace;
pub mod loads;
pub mod operator;
pub mod options;
pub mod progress;
pub mod reads;
pub mod transaction;
pub mod types;
pub mod writes;

use std::ffi::{c_char, c_int, c_void};

/// Changes when a program has to be compiled again.
const ABI_VERSION: c_int = 0;

/// The number of this interface. A program for another one has to be compiled again.
#[unsafe(no_mangle)]
pub extern "C" fn hg_abi_version() -> c_int {
    ABI_VERSION
}

/// The version of the library, which is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn hg_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Frees memory that this library returned; NULL is nothing.
///
/// # Safety
/// The memory was returned as such, and is not freed twice.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_free(memory: *mut c_void) {
    // SAFETY: such memory comes from `malloc`.
    unsafe { libc::free(memory) };
}
