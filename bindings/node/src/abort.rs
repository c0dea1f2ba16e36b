//! Aborts: how JavaScript ends a call that takes long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use napi_derive::napi;

use crate::failure::{Code, Failure, Result};
use crate::handles::{self, Object};

/// Tells calls to end. They look at it between steps of their work.
#[derive(Default)]
pub struct Abort(AtomicBool);

impl Abort {
    pub(crate) fn abort(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_aborted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// # Errors
    /// `LEVEL_ABORTED`.
    pub(crate) fn check(&self) -> Result<()> {
        match self.is_aborted() {
            true => Err(Failure::new(Code::ABORTED, "the call was aborted")),
            false => Ok(()),
        }
    }
}

/// Makes an abort for calls that take one. The result is a handle.
#[napi(catch_unwind)]
pub fn new_abort() -> napi::Result<f64, Code> {
    Ok(handles::insert(Object::Abort(Arc::default()))?)
}

/// Ends the calls of an abort, or the reads of an iterator, as `LEVEL_ABORTED`.
#[napi(catch_unwind)]
pub fn abort(handle: f64) -> napi::Result<(), Code> {
    if let Some(abort) = handles::abort(handle)? {
        abort.abort();
    }
    Ok(())
}
