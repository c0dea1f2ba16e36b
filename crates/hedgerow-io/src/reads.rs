//! Reads that are under way at the same time: begun one after the other, ended in whatever order, so that
//! what was read first is looked at while the device reads the others.
//!
//! ```text
//! begin(a) begin(b) begin(c)   next -> b   begin(d)   next -> a   next -> d   next -> c   next -> none
//! ```

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use crate::{Advice, RandomRead};

/// See the module. Used by one thread at a time; dropped, it gives up what is under way.
pub trait Reads: Debug {
    /// Begins to read `bytes` bytes from `offset`. Does not wait; it may be put off until somebody does.
    /// `tag` comes back with what was read.
    fn begin(&mut self, file: &Arc<dyn RandomRead>, offset: u64, bytes: usize, tag: usize);

    /// Waits until a read has ended: its tag, and its bytes, which are here until the next call. `None` if none is
    /// under way.
    ///
    /// # Errors
    /// Those of [`RandomRead::read_at`], for each read its own.
    fn next(&mut self) -> Option<(usize, io::Result<&[u8]>)>;
}

/// Reads that are made by whoever waits for them, in their order.
#[derive(Debug, Default)]
pub struct OneByOne {
    waiting: VecDeque<Read>,
    /// Of so many of them the system has heard.
    announced: usize,
    bytes: Vec<u8>,
}

/// A read that is to be made.
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

    /// Makes it, into memory that grows as far as it must.
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
        // The system's cache reads pages ahead if it hears of them; one alone need not be announced.
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
