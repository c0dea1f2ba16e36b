//! The progress of long calls, and the end that their caller may put to them.

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use hedgerow_bindings::{Failure, Report, wait_for};

/// A function that is told about progress; 0 as an answer ends the call.
pub type hg_go_on = Option<unsafe extern "C" fn(*mut c_void, u64, u64) -> c_int>;

thread_local! {
    static OF_THREAD: Cell<Progress> = const {
        Cell::new(Progress {
            go_on: None,
            state: std::ptr::null_mut(),
        })
    };
}

/// The function of a thread, and its state.
#[derive(Clone, Copy)]
pub(crate) struct Progress {
    go_on: hg_go_on,
    state: *mut c_void,
}

/// Has long calls of this thread call `go_on`; NULL ends that.
///
/// # Safety
/// The function may be called with `state` by this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_set_progress(go_on: hg_go_on, state: *mut c_void) {
    OF_THREAD.set(Progress { go_on, state });
}

impl Progress {
    pub(crate) fn of_thread() -> Progress {
        OF_THREAD.get()
    }

    /// Returns true if the thread has a function.
    pub(crate) fn is_wanted(self) -> bool {
        self.go_on.is_some()
    }

    /// The entries that a call reads before it asks.
    #[inline]
    pub(crate) fn entries_at_once(self) -> usize {
        if self.is_wanted() { 4096 } else { usize::MAX }
    }

    /// Returns false if the call is to end. The bytes done and the bytes to do are 0 if unknown.
    pub(crate) fn go_on(self, done: u64, total: u64) -> bool {
        let Some(go_on) = self.go_on else {
            return true;
        };
        // SAFETY: `hg_set_progress` was given both together, and this is the thread that gave them.
        unsafe { go_on(self.state, done, total) != 0 }
    }
}

/// Makes a call that the engine cannot end: on this thread, or, if the thread has a progress
/// function, on another one, for which this one waits until the function returns 0.
pub(crate) fn wait<R: Send + 'static>(
    call: impl FnOnce() -> Result<R, Failure> + Send + 'static,
) -> Result<R, Failure> {
    let progress = Progress::of_thread();
    match progress.is_wanted() {
        false => call(),
        true => wait_for(|_, _| progress.go_on(0, 0), |_| call()),
    }
}

/// Makes a call that reports its bytes: on this thread, or, if the thread has a progress function,
/// on another one. It ends at the first report after the function has returned 0, which this one
/// does not wait for.
pub(crate) fn wait_with_reports<R: Send + 'static>(
    call: impl FnOnce(Report<'_>) -> Result<R, Failure> + Send + 'static,
) -> Result<R, Failure> {
    let progress = Progress::of_thread();
    match progress.is_wanted() {
        false => call(&mut |_, _| true),
        true => wait_for(|done, total| progress.go_on(done, total), call),
    }
}

/// Waits for a flush as long as a write that begins now. The progress function of the thread may
/// end that, before anything is written. `writes_wait` and `wait_for_memory` are those of the
/// database, or of a keyspace of it.
#[inline]
pub(crate) fn wait_for_memory<T: Clone + Send + 'static>(
    object: &T,
    writes_wait: fn(&T) -> bool,
    wait_for_memory: fn(&T) -> engine::Result<()>,
) -> Result<(), Failure> {
    while writes_wait(object) {
        let object = object.clone();
        wait(move || Ok(wait_for_memory(&object)?))?;
    }
    Ok(())
}
