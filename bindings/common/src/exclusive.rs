//! Objects that one call uses at a time.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::failure::Failure;

/// An object that one call uses at a time. Calls of other threads wait for it. A call of the same
/// thread is an error: it comes from a function of the program that the first call has called, and
/// would wait for itself.
#[derive(Debug, Default)]
pub struct Exclusive<T> {
    /// The thread whose call uses the object; 0 is none. Each thread writes and removes its own
    /// number only, so it always finds out whether it is the one.
    user: AtomicU64,
    object: Mutex<T>,
}

/// An object in use.
pub struct InUse<'a, T> {
    user: &'a AtomicU64,
    object: MutexGuard<'a, T>,
}

impl<T> Exclusive<T> {
    /// An object that no call uses.
    pub fn new(object: T) -> Exclusive<T> {
        Exclusive {
            user: AtomicU64::new(0),
            object: Mutex::new(object),
        }
    }

    /// Waits until no call of another thread uses the object. After a panic it can be used again.
    ///
    /// # Errors
    /// `InvalidArgument` if a call of this thread uses it.
    #[inline]
    pub fn lock(&self) -> Result<InUse<'_, T>, Failure> {
        let me = this_thread();
        if self.user.load(Ordering::Relaxed) == me {
            return Err(in_use());
        }
        let object = self.object.lock().unwrap_or_else(PoisonError::into_inner);
        self.user.store(me, Ordering::Relaxed);
        let user = &self.user;
        Ok(InUse { user, object })
    }
}

#[cold]
fn in_use() -> Failure {
    Failure::invalid(
        "expected another object: a function that a call has called cannot use the object of \
         that call",
    )
}

/// The number of this thread, which is not 0.
#[inline]
fn this_thread() -> u64 {
    // SAFETY: it may be called at any time.
    unsafe { libc::pthread_self() as u64 }
}

impl<T> Deref for InUse<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

impl<T> DerefMut for InUse<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.object
    }
}

impl<T> Drop for InUse<'_, T> {
    fn drop(&mut self) {
        // Before the lock is free, because the next user writes its number then.
        self.user.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc::channel;
    use std::thread;

    use engine::ErrorKind;

    use super::*;

    #[test]
    fn a_thread_does_not_wait_for_itself() {
        let object = Exclusive::new(7);
        let first = object.lock().unwrap();
        let failure = object.lock().err().unwrap();
        assert_eq!(failure.kind, Some(ErrorKind::InvalidArgument));
        assert!(failure.message.starts_with("expected another object"));
        drop(first);
        assert_eq!(*object.lock().unwrap(), 7);
    }

    #[test]
    fn threads_wait_for_each_other() {
        let object = Exclusive::new(0);
        let first = object.lock().unwrap();
        let (sender, receiver) = channel();
        thread::scope(|threads| {
            threads.spawn(|| {
                sender.send(()).unwrap();
                for _ in 0..1000 {
                    *object.lock().unwrap() += 1;
                }
            });
            receiver.recv().unwrap();
            drop(first);
            for _ in 0..1000 {
                *object.lock().unwrap() += 1;
            }
        });
        assert_eq!(*object.lock().unwrap(), 2000);
    }

    #[test]
    fn an_object_can_be_used_after_a_panic() {
        let object = Exclusive::new(7);
        let broken = catch_unwind(AssertUnwindSafe(|| {
            let _in_use = object.lock().unwrap();
            panic!("broken");
        }));
        assert!(broken.is_err());
        assert_eq!(*object.lock().unwrap(), 7);
    }
}
