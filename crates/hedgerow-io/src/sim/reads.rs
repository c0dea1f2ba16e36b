//! Overlapping reads of the simulated disk.

use std::io;
use std::sync::Arc;

use super::SimStorage;
use super::random::mix;
use crate::RandomRead;
use crate::reads::{Read, Reads};

/// A queue of overlapping reads. The reads begun before a wait form a batch. They end in an order
/// drawn from the disk's operations so far. Later reads form the next batch.
#[derive(Debug)]
pub(super) struct SimReads {
    disk: SimStorage,
    begun: Vec<Read>,
    under_way: Vec<Read>,
    bytes: Vec<u8>,
}

impl SimReads {
    pub(super) fn new(disk: SimStorage) -> SimReads {
        SimReads {
            disk,
            begun: Vec::new(),
            under_way: Vec::new(),
            bytes: Vec::new(),
        }
    }
}

impl Reads for SimReads {
    fn begin(&mut self, file: &Arc<dyn RandomRead>, offset: u64, bytes: usize, tag: usize) {
        self.begun.push(Read::new(file, offset, bytes, tag));
    }

    fn next(&mut self) -> Option<(usize, io::Result<&[u8]>)> {
        if self.under_way.is_empty() {
            std::mem::swap(&mut self.begun, &mut self.under_way);
            if !self.under_way.is_empty() {
                self.disk.state().meter.count_batch(self.under_way.len());
            }
        }
        let drawn = mix(self.disk.counters().operations) as usize;
        let first = drawn.checked_rem(self.under_way.len())?;
        let read = self.under_way.swap_remove(first);
        Some((read.tag, read.make(&mut self.bytes)))
    }
}
