//! Long calls: they run on threads of their own, so that their callers can be interrupted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::errors::{OrRaise, panicked};

/// The time between two looks for signals: short for a person who presses Ctrl-C, long for a
/// processor.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(20);

enum Message<R> {
    Progress(u64, u64),
    Ended(R),
}

/// Reports the bytes done and all bytes. Returns false if the work is to end.
pub(crate) type GoOn<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// Makes a call of the engine on another thread, and waits for it. Calls `progress`, if there is
/// one, with what the call reports. If a signal's handler or `progress` raises an exception, the
/// caller gets it at once; the call ends at its next report.
pub(crate) fn wait<R: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    call: impl FnOnce(GoOn<'_>) -> engine::Result<R> + Send + 'static,
) -> PyResult<R> {
    let (sender, receiver) = channel();
    let receiver = Mutex::new(receiver);
    let receive = || {
        receiver
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv_timeout(LOOK_EVERY)
    };
    let is_wanted = Arc::new(AtomicBool::new(true));
    let (goes_on, reports) = (is_wanted.clone(), progress.is_some());
    let work = move || {
        let result = call(&mut |done, total| {
            if reports {
                drop(sender.send(Message::Progress(done, total)));
            }
            goes_on.load(Ordering::Relaxed)
        });
        // The receiver is gone if the caller was interrupted.
        drop(sender.send(Message::Ended(result)));
    };
    let thread = thread::Builder::new().name("hedgerow-call".to_owned());
    let started = thread.spawn(work);
    started.map_err(|e| PyOSError::new_err(format!("cannot start a thread: {e}")))?;
    let watched = || -> PyResult<R> {
        loop {
            match py.detach(receive) {
                Ok(Message::Ended(result)) => return result.or_raise(),
                Ok(Message::Progress(done, total)) => {
                    if let Some(progress) = progress {
                        progress.call1((done, total))?;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(panicked()),
            }
            py.check_signals()?;
        }
    };
    let result = watched();
    is_wanted.store(false, Ordering::Relaxed);
    result
}

/// Waits for a flush as long as a write that begins now. A signal ends that, before anything is
/// written.
#[inline]
pub(crate) fn wait_for_memory(py: Python<'_>, db: &engine::Db) -> PyResult<()> {
    while db.writes_wait() {
        let db = db.clone();
        wait(py, None, move |_| db.wait_for_memory())?;
    }
    Ok(())
}
