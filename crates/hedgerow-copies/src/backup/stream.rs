//! Reads files in pieces: at a limited rate, with progress, until the caller cancels.

use std::path::Path;
use std::time::Duration;

use hedgerow::io::{Clock, RandomRead};
use hedgerow::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// The bytes read at once.
const PIECE_BYTES: u64 = 1 << 20;

/// The progress of work on a repository.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes of files that are dealt with.
    pub done_bytes: u64,
    /// Bytes of all files.
    pub total_bytes: u64,
    /// Bytes of the files that had to be copied into the repository.
    pub copied_bytes: u64,
}

pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

pub(crate) struct Stream<'a> {
    clock: &'a dyn Clock,
    bytes_per_second: Option<u64>,
    began: Duration,
    read_bytes: u64,
    progress: Progress,
    go_on: &'a mut dyn FnMut(Progress) -> bool,
}

impl<'a> Stream<'a> {
    pub(crate) fn new(
        clock: &'a dyn Clock,
        bytes_per_second: Option<u64>,
        total_bytes: u64,
        go_on: &'a mut dyn FnMut(Progress) -> bool,
    ) -> Stream<'a> {
        Stream {
            clock,
            bytes_per_second,
            began: clock.now(),
            read_bytes: 0,
            progress: Progress {
                total_bytes,
                ..Progress::default()
            },
            go_on,
        }
    }

    /// Reads the first `bytes` bytes and returns their checksum.
    pub(crate) fn read(
        &mut self,
        file: &dyn RandomRead,
        path: &Path,
        bytes: u64,
        mut each: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<u64> {
        let mut sum = Xxh3::new();
        let mut buffer = vec![0; PIECE_BYTES.min(bytes) as usize];
        let mut offset = 0;
        while offset < bytes {
            let piece = &mut buffer[..PIECE_BYTES.min(bytes - offset) as usize];
            let read = file.read_at(offset, piece);
            read.map_err(|e| Error::io("read", path, e))?;
            sum.update(piece);
            each(piece)?;
            let count = piece.len() as u64;
            offset += count;
            self.pass(count, count)?;
        }
        Ok(sum.digest())
    }

    /// Counts bytes that are dealt with, and those of them that were read.
    pub(crate) fn pass(&mut self, done_bytes: u64, read_bytes: u64) -> Result<()> {
        self.progress.done_bytes += done_bytes;
        self.read_bytes += read_bytes;
        if let Some(rate) = self.bytes_per_second {
            let due = Duration::from_secs_f64(self.read_bytes as f64 / rate as f64);
            let passed = self.clock.now().saturating_sub(self.began);
            if due > passed {
                self.clock.sleep(due - passed);
            }
        }
        self.tell()
    }

    fn tell(&mut self) -> Result<()> {
        if (self.go_on)(self.progress) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Cancelled,
            "the work was ended by its caller",
        ))
    }

    /// Takes back the progress of a file that is read again.
    pub(crate) fn done_bytes_back(&mut self, bytes: u64) {
        self.progress.done_bytes -= bytes;
    }

    pub(crate) fn copied(&mut self, bytes: u64) -> Result<()> {
        self.progress.copied_bytes += bytes;
        self.tell()
    }
}
