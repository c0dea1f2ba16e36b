//! Writing a file from front to back without ever leaving much of it dirty.
//!
//! A kernel that is left alone collects dirty pages until a threshold, and then makes every writer
//! of the machine wait. So the writer asks for write-back itself: whenever a window of
//! [`WINDOW_BYTES`] has been handed over, its write-back starts, and the one before is waited for.
//! At any time at most two windows and the buffer are not on their way to the disk.
//!
//! What is written past the system's cache ([`super::direct::DirectWriter`]) is on its way to the disk at once.
//!
//! After an error a writer refuses everything: how much of the file is there is unknown.

use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;

use super::system;
use crate::SequentialWrite;

/// Bytes collected before a system call: large enough that its cost vanishes (about 30 us of
/// copying), small enough to stay in the processor's cache.
const BUFFER_BYTES: usize = 64 << 10;

/// Bytes whose write-back is asked for at once: one large request for any disk.
const WINDOW_BYTES: u64 = 1 << 20;

/// A buffered file with paced write-back.
#[derive(Debug)]
pub(super) struct PacedWriter {
    file: File,
    buffer: Vec<u8>,
    /// Bytes that the kernel has.
    handed_bytes: u64,
    /// The range being written back; what is after it has not been asked for.
    window: Range<u64>,
}

impl PacedWriter {
    /// Writes to an empty file.
    pub(super) fn new(file: File) -> PacedWriter {
        PacedWriter {
            file,
            buffer: Vec::new(),
            handed_bytes: 0,
            window: 0..0,
        }
    }

    fn handed(&mut self, len: usize) -> io::Result<()> {
        self.handed_bytes += len as u64;
        if self.handed_bytes - self.window.end < WINDOW_BYTES {
            return Ok(());
        }
        let next = self.window.end..self.handed_bytes;
        system::start_write_back(&self.file, next.clone())?;
        if !self.window.is_empty() {
            system::wait_for_write_back(&self.file, self.window.clone())?;
        }
        self.window = next;
        Ok(())
    }
}

impl Steps for PacedWriter {
    fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if self.buffer.capacity() == 0 {
            self.buffer.reserve_exact(BUFFER_BYTES);
        }
        while !bytes.is_empty() {
            if self.buffer.is_empty() && bytes.len() >= BUFFER_BYTES {
                let (direct, rest) = bytes.split_at(BUFFER_BYTES);
                self.file.write_all(direct)?;
                self.handed(direct.len())?;
                bytes = rest;
                continue;
            }
            let (part, rest) = bytes.split_at(bytes.len().min(BUFFER_BYTES - self.buffer.len()));
            self.buffer.extend_from_slice(part);
            bytes = rest;
            if self.buffer.len() == BUFFER_BYTES {
                self.hand_over()?;
            }
        }
        Ok(())
    }

    fn hand_over(&mut self) -> io::Result<()> {
        self.file.write_all(&self.buffer)?;
        let len = self.buffer.len();
        self.buffer.clear();
        self.handed(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.window = self.handed_bytes..self.handed_bytes;
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.handed_bytes + self.buffer.len() as u64
    }

    fn memory_bytes(&self) -> usize {
        BUFFER_BYTES
    }
}

/// What a writer does, each step after the last one succeeded.
pub(super) trait Steps: Debug + Send {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// What was appended goes to the system.
    fn hand_over(&mut self) -> io::Result<()>;
    /// What was handed over becomes durable.
    fn sync(&mut self) -> io::Result<()>;
    fn bytes(&self) -> u64;
    fn memory_bytes(&self) -> usize;
}

/// A writer that takes no step after one that failed.
#[derive(Debug)]
pub(super) struct UntilFailure<S> {
    steps: S,
    failed: bool,
}

impl<S: Steps> UntilFailure<S> {
    pub(super) fn new(steps: S) -> UntilFailure<S> {
        UntilFailure {
            steps,
            failed: false,
        }
    }

    fn take(&mut self, step: impl FnOnce(&mut S) -> io::Result<()>) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("an earlier write of this file failed"));
        }
        let result = step(&mut self.steps);
        self.failed = result.is_err();
        result.map_err(system::full_error)
    }
}

impl<S: Steps> SequentialWrite for UntilFailure<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.take(|steps| steps.append(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.take(S::hand_over)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.take(|steps| {
            steps.hand_over()?;
            steps.sync()
        })
    }

    fn bytes(&self) -> u64 {
        self.steps.bytes()
    }

    fn memory_bytes(&self) -> usize {
        self.steps.memory_bytes()
    }
}
