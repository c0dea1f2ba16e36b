//! A signal that a thread waits for and another gives: the waker of a future without a runtime.

use std::sync::Arc;
use std::task::Wake;

use crate::sync::{Condvar, Mutex};

/// A signal. It counts even if it is given before the wait. Given several times, it counts once.
#[derive(Debug)]
pub struct Signal {
    is_given: Mutex<bool>,
    given: Condvar,
}

impl Signal {
    /// A signal that is not given.
    pub fn new() -> Signal {
        Signal {
            is_given: Mutex::new(false),
            given: Condvar::new(),
        }
    }

    /// Gives the signal.
    pub fn give(&self) {
        *self.is_given.lock().unwrap_or_else(|e| e.into_inner()) = true;
        self.given.notify_one();
    }

    /// Waits for the signal and takes it.
    pub fn wait(&self) {
        let mut is_given = self.is_given.lock().unwrap_or_else(|e| e.into_inner());
        while !*is_given {
            is_given = self.given.wait(is_given).unwrap_or_else(|e| e.into_inner());
        }
        *is_given = false;
    }
}

impl Default for Signal {
    fn default() -> Signal {
        Signal::new()
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.give();
    }
}
