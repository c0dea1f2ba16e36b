//! Long calls that the caller may stop waiting for.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use engine::ErrorKind;

use crate::failure::{Failure, run};

/// The time between two questions: short for a person who presses Ctrl-C, long for a processor.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// Makes a call on a thread of its own, and asks `go_on` every 20 ms for leave to wait. If it
/// returns false, the call runs to its end without a caller, and its result is dropped.
///
/// # Errors
/// As the call; `Cancelled`.
pub fn wait_for<R: Send + 'static>(
    mut go_on: impl FnMut() -> bool,
    call: impl FnOnce() -> Result<R, Failure> + Send + 'static,
) -> Result<R, Failure> {
    let (sender, receiver) = channel();
    let thread = thread::Builder::new().name("hedgerow-call".to_owned());
    thread
        // The receiver is gone if the caller no longer waits.
        .spawn(move || drop(sender.send(run(call))))
        .map_err(|e| Failure::new(ErrorKind::Io, format!("cannot start a thread: {e}")))?;
    loop {
        match receiver.recv_timeout(ASK_EVERY) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Timeout) if go_on() => {}
            Err(RecvTimeoutError::Timeout) => {
                let message = "the caller stopped waiting; a call that has begun ends in the background, a write \
                     that waited for memory does not begin";
                return Err(Failure::new(ErrorKind::Cancelled, message));
            }
            Err(RecvTimeoutError::Disconnected) => unreachable!("`run` returns after every panic"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_may_stop_waiting() {
        let (sender, receiver) = channel::<()>();
        let call = move || Ok(receiver.recv().is_err());
        let failure = wait_for(|| false, call).unwrap_err();
        assert_eq!(failure.kind, Some(ErrorKind::Cancelled));
        drop(sender);
    }

    #[test]
    fn a_result_is_returned() {
        assert_eq!(wait_for(|| true, || Ok(7)).unwrap(), 7);
    }
}
