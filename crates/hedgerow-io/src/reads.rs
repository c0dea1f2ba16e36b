//! Overlapping reads. They begin one after the other and end in any order, so that the caller works
//! on the first result while the device reads the others.
//!
//! ```text
//! begin(a) begin(b) begin(c)  next -> b  begin(d)  next -> a  next -> d  next -> c  next -> none
//! ```

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use crate::{Advice, RandomRead};

/// A queue of overlapping reads; see the module. One thread uses it. Dropping it abandons the reads
/// under way.
pub trait Reads: Debug {
    /// Begins to read `bytes` bytes from `offset`. Does not wait. The read may start only in
    /// `next`. `next` returns `tag` with the bytes.
    fn begin(&mut self, file: &Arc<dyn RandomRead>, offset: u64, bytes: usize, tag: usize);

    /// Waits for any read to end and returns its tag and its bytes. The bytes are valid until the
    /// next call. `None` if no read is under way.
    ///
    /// # Errors
    /// Each read fails as [`RandomRead::read_at`] does, without effect on the others.
    fn next(&mut self) -> Option<(usize, io::Result<&[u8]>)>;
}

/// Reads that `next` makes itself, in the order of `begin`.
#[derive(Debug, Default)]
pub struct OneByOne {
    waiting: VecDeque<Read>,
    /// The number of waiting reads that the system was advised of.
    announced: usize,
    bytes: Vec<u8>,
}

/// A read that is not made yet.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    pub(crate) file: Arc<dyn RandomRead>,
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
    pub(crate) tag: usize,
}

impl Read {
    pub(crate) fn new(file: &Arc<dyn RandomRead>, offset: u64, bytes: usize, tag: usize) -> Read {
        Read {
            file: file.clone(),
            offset,
            bytes,
            tag,
        }
    }

    /// Makes the read into `memory`, which grows if it is too short.
    pub(crate) fn make<'a>(&self, memory: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        if memory.len() < self.bytes {
            memory.resize(self.bytes, 0);
        }
        let into = &mut memory[..self.bytes];
        self.file.read_at(self.offset, into).map(|()| &*into)
    }

    fn announce(&self) {
        let end = self.offset.saturating_add(self.bytes as u64);
        self.file.advise(self.offset..end, Advice::WillNeed);
    }
}

impl Reads for OneByOne {
    fn begin(&mut self, file: &Arc<dyn RandomRead>, offset: u64, bytes: usize, tag: usize) {
        self.waiting.push_back(Read::new(file, offset, bytes, tag));
    }

    fn next(&mut self) -> Option<(usize, io::Result<&[u8]>)> {
        // The system reads announced pages ahead. A single read gains nothing from that.
        if self.waiting.len() > 1 {
            self.waiting
                .range(self.announced..)
                .for_each(Read::announce);
            self.announced = self.waiting.len();
        }
        let read = self.waiting.pop_front()?;
        self.announced = self.announced.saturating_sub(1);
        Some((read.tag, read.make(&mut self.bytes)))
    }
}
