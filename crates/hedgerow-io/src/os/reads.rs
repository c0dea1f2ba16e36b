//! Overlapping reads. Direct reads go through io_uring or, without it, through threads. All other
//! reads are announced to the system and then made one by one.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use super::direct::DirectFile;
use super::readers::{PoolReads, Readers};
use super::ring::{Ring, Rings};
use crate::RandomRead;
use crate::reads::{OneByOne, Read, Reads};

/// The number of direct reads that are submitted together. A submission costs as much processor
/// time as a read, and the device idles until it.
const PIECE: usize = 8;

/// A queue of overlapping reads; see the module.
#[derive(Debug)]
pub(super) struct OsReads {
    rings: Arc<Rings>,
    /// The direct reads that are not submitted yet.
    waiting: VecDeque<Read>,
    ring: Option<Ring>,
    readers: Arc<Readers>,
    /// The reads by threads; made with the first of them.
    pool: Option<PoolReads>,
    buffered: OneByOne,
    bytes: Vec<u8>,
}

impl OsReads {
    pub(super) fn new(rings: Arc<Rings>, readers: Arc<Readers>) -> OsReads {
        OsReads {
            rings,
            waiting: VecDeque::new(),
            ring: None,
            readers,
            pool: None,
            buffered: OneByOne::default(),
            bytes: Vec::new(),
        }
    }

    /// Moves waiting reads to the ring or the threads while there is room.
    fn hand_on(&mut self) {
        if self.ring.is_none() && !self.waiting.is_empty() {
            self.ring = self.rings.take();
        }
        while let Some(read) = self.waiting.pop_front() {
            match &mut self.ring {
                Some(ring) if Ring::takes(&read) => {
                    if let Err(read) = ring.push(read) {
                        self.waiting.push_front(read);
                        return;
                    }
                }
                _ => self.read_by_threads(read),
            }
        }
    }

    fn read_by_threads(&mut self, read: Read) {
        let pool = || PoolReads::new(self.readers.clone());
        self.pool.get_or_insert_with(pool).begin(read);
    }

    fn is_under_way(&self) -> bool {
        let ring = self.ring.as_ref().is_some_and(|ring| ring.is_under_way());
        ring || self.pool.as_ref().is_some_and(PoolReads::is_under_way)
    }

    /// Abandons a failed ring and gives its reads to the threads.
    fn give_up_ring(&mut self) {
        if let Some(ring) = self.ring.take() {
            ring.leave()
                .into_iter()
                .for_each(|read| self.read_by_threads(read));
        }
    }
}

impl Reads for OsReads {
    fn begin(&mut self, file: &Arc<dyn RandomRead>, offset: u64, bytes: usize, tag: usize) {
        if !DirectFile::is_to_be_read(&**file, offset, bytes) {
            return self.buffered.begin(file, offset, bytes, tag);
        }
        self.waiting.push_back(Read::new(file, offset, bytes, tag));
        if self.waiting.len() < PIECE {
            return;
        }
        self.hand_on();
        if self
            .ring
            .as_mut()
            .is_some_and(|ring| ring.submit().is_err())
        {
            self.give_up_ring();
        }
    }

    fn next(&mut self) -> Option<(usize, io::Result<&[u8]>)> {
        // A single read gains nothing from a submission.
        if self.waiting.len() == 1 && !self.is_under_way() {
            let read = self.waiting.pop_front()?;
            return Some((read.tag, read.make(&mut self.bytes)));
        }
        if !self.ring.as_mut().is_some_and(|ring| ring.has_ended()) {
            self.hand_on();
        }
        match self.ring.as_mut().map_or(Ok(None), |ring| ring.wait()) {
            Ok(Some(ended)) => {
                let bytes = self.ring.as_ref().and_then(|ring| ring.bytes(&ended));
                // The kernel read too few bytes or none: a repeated read gets the error.
                let bytes = bytes.map_or_else(|| ended.read.make(&mut self.bytes), Ok);
                return Some((ended.read.tag, bytes));
            }
            Ok(None) => {}
            Err(_) => self.give_up_ring(),
        }
        match &mut self.pool {
            Some(pool) if pool.is_under_way() => pool.next(),
            _ => self.buffered.next(),
        }
    }
}

impl Drop for OsReads {
    fn drop(&mut self) {
        if let Some(ring) = self.ring.take() {
            self.rings.give_back(ring);
        }
    }
}
