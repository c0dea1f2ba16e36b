//! The gate before the stripes. Commands that hold some stripes come all the time, so at no moment
//! are all of them free. A command that has found one taken therefore closes the gate: it gets all
//! stripes when those that hold some now have ended. Newcomers find the gate closed and line up.
//!
//! The line is first come, first served. Newcomers come behind one that closes the gate and before
//! the next one that does, so neither kind keeps the other out. Nobody in the line holds a stripe,
//! and nobody waits there for one that has a turn and waits itself.
//!
//! Somebody may hold a stripe for long: a script, or a wait for the device. Then the gate is opened
//! from time to time for those who want others.
//!
//! Costs a newcomer one load while the gate is open.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

/// The turns that are given together, to others than one that closes the gate: more than there are
/// clients.
const SHARES: u32 = 1 << 20;

/// The attempts for which the gate stays closed: with the waits between them 50 to 100 ms. Nearly
/// all who hold stripes then have ended long before.
const ATTEMPTS: u32 = 64;

#[derive(Debug)]
pub(crate) struct Gate {
    is_closed: AtomicBool,
    /// Closing the gate takes all shares, and passing takes one.
    line: Semaphore,
}

/// The right to an attempt, until it is dropped. Nobody closes the gate meanwhile.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    /// The gate that this turn keeps closed.
    closes: Option<&'a Gate>,
    /// The attempts that it is still good for.
    left: u32,
    /// Given back behind the opening of the gate.
    _share: Option<SemaphorePermit<'a>>,
}

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate {
            is_closed: AtomicBool::new(false),
            line: Semaphore::new(SHARES as usize),
        }
    }

    /// Returns true if those that want some stripes have to line up.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Waits for those who lined up before, and closes the gate.
    pub(crate) async fn close(&self) -> Turn<'_> {
        // Nobody closes the semaphore.
        let share = self.line.acquire_many(SHARES).await.ok();
        self.is_closed.store(true, Ordering::SeqCst);
        Turn {
            closes: Some(self),
            left: ATTEMPTS,
            _share: share,
        }
    }

    /// Waits until the gate is opened.
    pub(crate) async fn pass(&self) -> Turn<'_> {
        Turn {
            closes: None,
            left: 1,
            _share: self.line.acquire().await.ok(),
        }
    }
}

impl Turn<'_> {
    /// Returns true if the turn keeps the gate closed.
    pub(crate) fn closes(&self) -> bool {
        self.closes.is_some()
    }

    /// Counts an attempt in vain. Returns the turn if it is good for another one.
    pub(crate) fn after_attempt(mut self) -> Option<Self> {
        self.left -= 1;
        (self.left > 0).then_some(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(gate) = self.closes {
            gate.is_closed.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests;
