//! Writes a file from front to back and keeps little of it dirty.
//!
//! By default a kernel collects dirty pages up to a threshold and then makes every writer of the
//! machine wait. So the writer paces write-back itself. After every window of [`WINDOW_BYTES`] it
//! starts the window's write-back and waits for that of the window before. At most two windows and
//! the buffer are then not on their way to the disk.
//!
//! A write past the system's cache ([`super::direct::DirectWriter`]) goes to the disk at once.
//!
//! After an error the writer refuses everything, because the length of the file is unknown.

use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;

use super::system;
use crate::{LaterSync, SequentialWrite};

/// The size of the buffer. It is large enough that a system call costs nothing beside it (about 30
/// us of copying), and small enough to stay in the processor's cache.
const BUFFER_BYTES: usize = 64 << 10;

/// The bytes of one write-back: a large request for any disk.
const WINDOW_BYTES: u64 = 1 << 20;

/// A buffered file with paced write-back.
#[derive(Debug)]
pub(super) struct PacedWriter {
    file: File,
    buffer: Vec<u8>,
    /// The bytes handed to the kernel.
    handed_bytes: u64,
    /// The range being written back. The bytes after it are not requested yet.
    window: Range<u64>,
}

impl PacedWriter {
    /// A writer of an empty file.
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

    fn into_file(self) -> io::Result<File> {
        system::start_write_back(&self.file, self.window.end..self.handed_bytes)?;
        Ok(self.file)
    }

    fn bytes(&self) -> u64 {
        self.handed_bytes + self.buffer.len() as u64
    }

    fn memory_bytes(&self) -> usize {
        BUFFER_BYTES
    }
}

/// The steps of a writer. No step follows a failed one.
pub(super) trait Steps: Debug + Send {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Hands the appended bytes to the system.
    fn hand_over(&mut self) -> io::Result<()>;
    /// Makes the bytes handed over durable.
    fn sync(&mut self) -> io::Result<()>;
    /// The file, when all bytes are handed over. The system writes them to the disk.
    fn into_file(self) -> io::Result<File>;
    fn bytes(&self) -> u64;
    fn memory_bytes(&self) -> usize;
}

/// A writer that refuses every step after a failed one.
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

    fn hand_over(mut self: Box<Self>) -> io::Result<LaterSync> {
        self.take(S::hand_over)?;
        let file = self.steps.into_file().map_err(system::full_error)?;
        Ok(Box::new(move || {
            file.sync_data().map_err(system::full_error)
        }))
    }

    fn bytes(&self) -> u64 {
        self.steps.bytes()
    }

    fn memory_bytes(&self) -> usize {
        self.steps.memory_bytes()
    }
}
