//! The future of a call, for any runtime or none.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use hedgerow_mem::{Signal, Turn};

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::runtime::workers::is_worker;
use crate::tree::engine::Engine;

/// The result of an asynchronous call, which a worker of the database provides.
///
/// It is a future for any runtime, and can be waited for without one. The call proceeds without
/// being polled. Dropping it does not cancel a queued write. It cancels a get that has not begun,
/// and a call that is still in line because the queue is full.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use hedgerow::{Db, Layout};
///
/// let db = Db::builder(dir.path()).workers(2).open()?;
/// let users = db.keyspace("users", Layout::sorted().hash(4))?;
/// let puts: Vec<_> = (0..100_u32).map(|i| users.put_async(i.to_be_bytes(), "x")).collect();
/// for put in puts {
///     put.wait()?;
/// }
/// let value = users.get_async(7_u32.to_be_bytes());
/// assert_eq!(value.wait()?.as_deref(), Some(&b"x"[..]));
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[must_use = "await it, or call `wait`, to know how the call ends"]
pub struct Pending<T> {
    state: State<T>,
}

enum State<T> {
    Ready(Option<Result<T>>),
    Queued {
        answer: oneshot::AsyncReceiver<Result<T>>,
        /// Not owned: a result that is waited for does not keep a database open.
        engine: Weak<Engine>,
        /// The worker, and the place in line that is given up with the call.
        line: Option<(usize, Turn)>,
    },
}

impl<T> Pending<T> {
    pub(in crate::api) fn ready(result: Result<T>) -> Pending<T> {
        Pending {
            state: State::Ready(Some(result)),
        }
    }

    /// A result and the sender that provides it.
    pub(in crate::api) fn queued(engine: &Arc<Engine>) -> (oneshot::Sender<Result<T>>, Pending<T>) {
        let (sender, answer) = oneshot::async_channel();
        let state = State::Queued {
            answer,
            engine: Arc::downgrade(engine),
            line: None,
        };
        (sender, Pending { state })
    }

    /// Adds the call's place in the queue of a worker.
    pub(super) fn at(mut self, worker: usize, place: Turn) -> Pending<T> {
        if let State::Queued { line, .. } = &mut self.state {
            *line = (place != Turn::Accepted).then_some((worker, place));
        }
        self
    }

    /// Returns true if the result is there.
    pub fn is_ready(&self) -> bool {
        match &self.state {
            State::Ready(result) => result.is_some(),
            State::Queued { answer, .. } => answer.has_message() || answer.is_closed(),
        }
    }

    /// Waits for the result on this thread.
    ///
    /// The errors of the call; `Closed` if the database was closed before the call was made;
    /// `InvalidArgument` on the thread of a worker, which would wait for itself.
    pub fn wait(mut self) -> Result<T> {
        if is_worker() && !self.is_ready() {
            return Err(Error::invalid(
                "a function that a worker calls cannot wait for another asynchronous call",
            ));
        }
        let signal = Arc::new(Signal::default());
        let waker = Waker::from(signal.clone());
        let mut context = Context::from_waker(&waker);
        loop {
            match Pin::new(&mut self).poll(&mut context) {
                Poll::Ready(result) => return result,
                Poll::Pending => signal.wait(),
            }
        }
    }
}

/// Nothing in it is pinned.
impl<T> Unpin for Pending<T> {}

impl<T> Future for Pending<T> {
    type Output = Result<T>;

    /// # Panics
    /// When it is polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let result = match &mut self.state {
            State::Ready(result) => result
                .take()
                .expect("a future is not polled after it is ready"),
            State::Queued { answer, engine, .. } => {
                if let Some(engine) = engine.upgrade().filter(|e| e.scheduler.is_inline()) {
                    let is_there = || answer.has_message() || answer.is_closed();
                    engine.scheduler.wait_until(is_there);
                }
                match Pin::new(answer).poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(result)) => result,
                    Poll::Ready(Err(_)) => Err(Error::new(
                        ErrorKind::Closed,
                        "the database was closed before the call was made",
                    )),
                }
            }
        };
        self.state = State::Ready(None);
        Poll::Ready(result)
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        if let State::Queued {
            engine,
            line: Some((worker, place)),
            ..
        } = &self.state
            && let Some(engine) = engine.upgrade()
            && let Some(workers) = engine.asynchronous.workers()
        {
            drop(workers.leave(*worker, *place));
        }
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("is_ready", &self.is_ready())
            .finish()
    }
}
