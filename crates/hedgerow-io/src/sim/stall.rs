//! Stops a writer before one write into a file, like a thread that loses its processor.

use std::sync::{Arc, Condvar, Mutex};

use super::{Disk, SimStorage, lock};

/// The gate before the stopped write.
#[derive(Debug)]
pub(super) struct Gate {
    /// The bytes that the write contains.
    bytes: Vec<u8>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    /// A writer waits at the gate.
    Reached,
    Open,
}

impl Gate {
    fn stop(&self) {
        let mut state = lock(&self.state);
        if *state == State::Closed {
            *state = State::Reached;
            self.changed.notify_all();
        }
        drop(
            self.changed
                .wait_while(state, |state| *state != State::Open),
        );
    }
}

/// A stopped write. It begins when this is dropped; see [`SimStorage::stall_write`].
#[derive(Debug)]
pub struct Stall(Arc<Gate>);

impl Stall {
    /// Waits until a thread is about to do the write.
    pub fn wait_until_reached(&self) {
        let state = lock(&self.0.state);
        let reached = self
            .0
            .changed
            .wait_while(state, |state| *state == State::Closed);
        drop(reached);
    }
}

impl Drop for Stall {
    fn drop(&mut self) {
        *lock(&self.0.state) = State::Open;
        self.0.changed.notify_all();
    }
}

impl SimStorage {
    /// Stops the writer of these bytes into a log segment, or into a file that is written from
    /// front to back, until the result is dropped. The next call of this ends the search for a
    /// writer, but one that has stopped waits on. Images stop none.
    ///
    /// # Panics
    /// If there are no bytes.
    #[must_use]
    pub fn stall_write(&self, bytes: &[u8]) -> Stall {
        assert!(!bytes.is_empty(), "expected bytes to stall at, found none");
        let gate = Arc::new(Gate {
            bytes: bytes.to_vec(),
            state: Mutex::new(State::Closed),
            changed: Condvar::new(),
        });
        *lock(&self.disk.stall) = Some(gate.clone());
        Stall(gate)
    }
}

impl Disk {
    /// Stops here if the bytes of the gate are written. The caller holds no lock.
    pub(super) fn pass(&self, bytes: &[u8]) {
        let Some(gate) = lock(&self.stall).clone() else {
            return;
        };
        if bytes.windows(gate.bytes.len()).any(|w| w == gate.bytes) {
            gate.stop();
        }
    }
}
