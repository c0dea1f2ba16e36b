//! Open files of the simulated disk.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::contents::Contents;
use super::meter::{Fault, Op, OpClass, Verdict};
use super::names::File;
use super::random::hash;
use super::{Disk, State, lock};
use crate::{FileLock, LaterSync, RandomRead, Segment, SequentialWrite};

/// An open file and its disk.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) disk: Arc<Disk>,
    pub(super) file: Arc<File>,
    /// The path that opened the file.
    pub(super) path: PathBuf,
}

impl Handle {
    fn contents<T>(&self, with: impl FnOnce(&mut Contents) -> T) -> T {
        with(&mut lock(&self.file.inner).contents)
    }

    /// Writes as much as faults and free space allow.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = lock(&self.disk.state);
        let data = hash(bytes);
        let done = state.admit(Op {
            class: OpClass::Write,
            name: "write",
            paths: &[&self.path],
            offset,
            bytes: bytes.len() as u64,
            data,
        });
        let asked = if done.begin()? {
            bytes
        } else {
            &bytes[..bytes.len() / 2]
        };
        let mut inner = lock(&self.file.inner);
        let end = offset + asked.len() as u64;
        let growth = end.saturating_sub(inner.contents.bytes());
        let is_named = inner.links > 0;
        let missing = if is_named {
            growth.saturating_sub(state.free_bytes())
        } else {
            0
        };
        inner
            .contents
            .write(offset, &asked[..asked.len() - missing as usize]);
        if is_named {
            state.used_bytes += growth - missing;
        }
        match done {
            _ if missing > 0 => Err(Fault::StorageFull.error()),
            Verdict::Fail(fault) => Err(fault.error()),
            _ => Ok(()),
        }
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        let mut state = lock(&self.disk.state);
        let verdict = state.admit(Op::on(OpClass::Sync, "sync", &[&self.path]));
        match verdict {
            Verdict::Succeed => self.contents(Contents::sync),
            Verdict::Fail(fault) => {
                self.contents(Contents::fail_sync);
                return Err(fault.error());
            }
            Verdict::PowerLost => {}
        }
        verdict.begin().map(drop)
    }
}

/// An immutable file. It has its bytes of the moment of opening.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) handle: Handle,
    pub(super) bytes: u64,
}

impl RandomRead for Reader {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let handle = &self.handle;
        let mut state = lock(&handle.disk.state);
        let bytes = buf.len() as u64;
        let paths = [&*handle.path];
        let op = Op {
            offset,
            bytes,
            ..Op::on(OpClass::Read, "read", &paths)
        };
        let is_whole = state.admit(op).begin()?;
        if offset
            .checked_add(buf.len() as u64)
            .is_none_or(|end| end > self.bytes)
        {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if is_whole {
            handle.contents(|contents| contents.read(offset, buf));
            return Ok(());
        }
        let half = buf.len() / 2;
        handle.contents(|contents| contents.read(offset, &mut buf[..half]));
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// A file being written. It buffers as the writer of the operating system does, but less, so that a
/// missing flush shows.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) handle: Handle,
    pub(super) buffer: Vec<u8>,
    pub(super) handed_bytes: u64,
    pub(super) failed: bool,
}

impl Writer {
    const BUFFER_BYTES: usize = 4096;

    fn unless_failed(
        &mut self,
        step: impl FnOnce(&mut Writer) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("an earlier write of this file failed"));
        }
        let result = step(self);
        self.failed = result.is_err();
        result
    }

    fn hand_over(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.handle.disk.pass(&self.buffer);
        self.handle.write(self.handed_bytes, &self.buffer)?;
        self.handed_bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl SequentialWrite for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.unless_failed(|writer| {
            writer.buffer.extend_from_slice(bytes);
            if writer.buffer.len() < Writer::BUFFER_BYTES {
                return Ok(());
            }
            writer.hand_over()
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.unless_failed(Writer::hand_over)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.unless_failed(|writer| {
            writer.hand_over()?;
            writer.handle.sync()
        })
    }

    fn hand_over(mut self: Box<Self>) -> io::Result<LaterSync> {
        self.unless_failed(Writer::hand_over)?;
        let handle = self.handle;
        Ok(Box::new(move || handle.sync()))
    }

    fn bytes(&self) -> u64 {
        self.handed_bytes + self.buffer.len() as u64
    }

    fn memory_bytes(&self) -> usize {
        Writer::BUFFER_BYTES
    }
}

/// A log segment.
#[derive(Debug)]
pub(super) struct SimSegment {
    pub(super) handle: Handle,
    pub(super) capacity_bytes: u64,
}

impl Segment for SimSegment {
    fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let capacity_bytes = self.capacity_bytes;
        assert!(
            offset
                .checked_add(bytes.len() as u64)
                .is_some_and(|end| end <= capacity_bytes),
            "write of {} bytes at {offset} in a segment of {capacity_bytes} bytes",
            bytes.len()
        );
        self.handle.disk.pass(bytes);
        self.handle.write(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.handle.sync()
    }
}

/// A held lock.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) disk: Arc<Disk>,
    pub(super) path: PathBuf,
}

impl FileLock for Lock {}

impl Drop for Lock {
    fn drop(&mut self) {
        let state: &mut State = &mut lock(&self.disk.state);
        state.locks.remove(&self.path);
    }
}
