//! The memory of what clients have sent and have not read: one bound for all together, so that no
//! number of slow clients takes more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A client with so few bytes is never refused some.
const FREE_BYTES: usize = 16 << 10;

#[derive(Debug)]
pub(crate) struct Buffers {
    bytes: AtomicUsize,
    max: usize,
}

/// The bytes that one buffer counts for.
#[derive(Debug)]
pub(crate) struct Counted {
    buffers: Arc<Buffers>,
    bytes: usize,
}

impl Buffers {
    pub(crate) fn new(max: usize) -> Arc<Buffers> {
        Arc::new(Buffers {
            bytes: AtomicUsize::new(0),
            max,
        })
    }

    /// The bytes that all buffers may have together.
    pub(crate) fn bytes_max(&self) -> usize {
        self.max
    }

    /// The bytes of all buffers.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn count(self: &Arc<Buffers>) -> Counted {
        Counted {
            buffers: self.clone(),
            bytes: 0,
        }
    }
}

impl Counted {
    /// Counts `bytes` from now on. Returns false if there is no room for them.
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
        let all = &self.buffers.bytes;
        let before = std::mem::replace(&mut self.bytes, bytes);
        if bytes == before {
            return true;
        }
        if bytes < before {
            all.fetch_sub(before - bytes, Ordering::Relaxed);
            return true;
        }
        let more = bytes - before;
        let total = all.fetch_add(more, Ordering::Relaxed) + more;
        bytes <= FREE_BYTES || total <= self.buffers.max
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_makes_room() {
        let buffers = Buffers::new(100_000);
        let (mut one, mut other) = (buffers.count(), buffers.count());
        assert!(one.set(60_000));
        assert!(!other.set(60_000));
        assert!(other.set(FREE_BYTES));
        drop(one);
        assert!(other.set(90_000));
        drop(other);
        assert_eq!(buffers.bytes(), 0);
    }
}
