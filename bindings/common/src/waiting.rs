//! Long calls that the caller may stop waiting for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use engine::ErrorKind;

use crate::failure::{Failure, run};

/// The time between two questions: short for a person who presses Ctrl-C, long for a processor.
pub const ASK_EVERY: Duration = Duration::from_millis(20);

/// Reports the bytes done and the bytes to do. Returns false if nobody waits any more.
pub type Report<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

enum Message<R> {
    Progress(u64, u64),
    Ended(Result<R, Failure>),
}

/// Starts a thread for a call.
///
/// # Errors
/// `Io`.
pub(crate) fn start(call: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let thread = thread::Builder::new().name("hedgerow-call".to_owned());
    let started = thread.spawn(call);
    started
        .map(drop)
        .map_err(|e| Failure::new(ErrorKind::Io, format!("cannot start a thread: {e}")))
}

/// The failure of a call whose caller has left it.
pub fn left() -> Failure {
    let message = "the caller stopped waiting; a change that has begun ends in the background, a \
                   write that waited for memory does not begin";
    Failure::new(ErrorKind::Cancelled, message)
}

/// Makes a call on a thread of its own. Asks `go_on` for leave to wait: with each report of the
/// call, and every 20 ms with the last one, or zeros. If it returns false, the call ends without a
/// caller, at its next report or at its end, and its result is dropped.
///
/// # Errors
/// As the call; `Cancelled`.
pub fn wait_for<R: Send + 'static>(
    mut go_on: impl FnMut(u64, u64) -> bool,
    call: impl FnOnce(Report<'_>) -> Result<R, Failure> + Send + 'static,
) -> Result<R, Failure> {
    let (sender, receiver) = channel();
    let is_left = Arc::new(AtomicBool::new(false));
    let ends = is_left.clone();
    let work = move || {
        let result = run(|| {
            call(&mut |done, total| {
                // The receiver is gone if the caller no longer waits.
                drop(sender.send(Message::Progress(done, total)));
                !ends.load(Ordering::Relaxed)
            })
        });
        drop(sender.send(Message::Ended(result)));
    };
    start(work)?;
    let mut last = (0, 0);
    loop {
        match receiver.recv_timeout(ASK_EVERY) {
            Ok(Message::Ended(result)) => return result,
            Ok(Message::Progress(done, total)) => last = (done, total),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => unreachable!("`run` returns after every panic"),
        }
        if !go_on(last.0, last.1) {
            is_left.store(true, Ordering::Relaxed);
            return Err(left());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_may_stop_waiting() {
        let (sender, receiver) = channel::<()>();
        let failure = wait_for(|_, _| false, move |_| Ok(receiver.recv().is_err())).unwrap_err();
        assert_eq!(failure.kind, Some(ErrorKind::Cancelled));
        drop(sender);
    }

    #[test]
    fn a_call_that_reports_learns_that_nobody_waits() {
        let (sender, receiver) = channel();
        let call = move |report: Report<'_>| {
            while report(1, 2) {
                thread::yield_now();
            }
            sender.send(()).map_err(|_| left())
        };
        let failure = wait_for(|done, total| (done, total) != (1, 2), call).unwrap_err();
        assert_eq!(failure.kind, Some(ErrorKind::Cancelled));
        receiver.recv().unwrap();
    }

    #[test]
    fn a_result_is_returned() {
        assert_eq!(wait_for(|_, _| true, |_| Ok(7)).unwrap(), 7);
    }
}
