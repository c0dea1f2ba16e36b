//! Overlapping direct reads by io_uring: one system call hands several of them to the device.
//!
//! The kernel writes into memory of the ring, never into the callers'. So after any failure it is
//! enough to forget the ring.

use std::any::Any;
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};

use io_uring::{IoUring, opcode, types};

use super::direct::{DirectFile, Sectors, Span};
use crate::reads::Read;

/// The reads that may be under way at once.
const READS_MAX: usize = 64;
/// The longest read, with its sectors. A block of the usual size lies in one sector or two.
const SLOT_BYTES: usize = 8 << 10;

/// The idle rings: as many as threads ever overlapped reads at the same time.
#[derive(Debug, Default)]
pub(super) struct Rings {
    free: Mutex<Vec<Ring>>,
}

impl Rings {
    /// Returns a ring, or `None` if the system refuses one. Each call tries again, which costs a
    /// microsecond.
    pub(super) fn take(&self) -> Option<Ring> {
        let free = self
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        free.or_else(Ring::new)
    }

    /// Waits for the reads of a ring and keeps it for reuse.
    pub(super) fn give_back(&self, mut ring: Ring) {
        loop {
            match ring.wait() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return drop(ring.leave()),
            }
        }
        self.free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(ring);
    }
}

/// A completed read.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) read: Read,
    slot: usize,
    /// The number of bytes that the kernel wrote into the slot.
    bytes: usize,
}

/// A ring. It is never dropped with a read under way: it goes to [`Rings::give_back`] or is leaked
/// by `leave`.
pub(super) struct Ring {
    ring: IoUring,
    memory: Sectors,
    /// The reads under way, by slot. Each holds its file open.
    slots: Vec<Option<(Read, Arc<File>)>>,
    free: Vec<usize>,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

impl Ring {
    fn new() -> Option<Ring> {
        Some(Ring {
            ring: IoUring::new(READS_MAX as u32).ok()?,
            memory: Sectors::new(READS_MAX * SLOT_BYTES),
            slots: (0..READS_MAX).map(|_| None).collect(),
            free: (0..READS_MAX).collect(),
        })
    }

    /// Returns true if the read fits into a slot.
    pub(super) fn takes(read: &Read) -> bool {
        Span::around(read.offset, read.bytes).bytes <= SLOT_BYTES
    }

    /// Queues a read of a direct file for the next submission. Returns it if there is no room.
    pub(super) fn push(&mut self, read: Read) -> Result<(), Read> {
        let file: &dyn Any = &*read.file;
        let file = file.downcast_ref::<DirectFile>();
        let file = file.and_then(|direct| direct.file.get().ok());
        let (Some(file), Some(&slot)) = (file, self.free.last()) else {
            return Err(read);
        };
        let span = Span::around(read.offset, read.bytes);
        let into = &mut self.memory.bytes_mut()[slot * SLOT_BYTES..][..span.bytes];
        let entry = opcode::Read::new(
            types::Fd(file.as_raw_fd()),
            into.as_mut_ptr(),
            span.bytes as u32,
        );
        let entry = entry.offset(span.start).build().user_data(slot as u64);
        // SAFETY: the slot holds the file open, and nobody touches its memory until the read
        // completes. A ring whose reads may be under way is never dropped.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        if pushed.is_err() {
            return Err(read);
        }
        self.free.pop();
        self.slots[slot] = Some((read, file));
        Ok(())
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.free.len() < READS_MAX
    }

    /// Submits the queued reads to the kernel.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        if self.ring.submission().is_empty() {
            return Ok(());
        }
        self.enter(0)
    }

    /// Returns true if the kernel has reported a completed read.
    pub(super) fn has_ended(&mut self) -> bool {
        !self.ring.completion().is_empty()
    }

    /// Waits for a read to complete. `None` if none is under way.
    pub(super) fn wait(&mut self) -> io::Result<Option<Ended>> {
        while self.is_under_way() {
            let Some(completed) = self.ring.completion().next() else {
                self.enter(1)?;
                continue;
            };
            let slot = completed.user_data() as usize;
            let read = self.slots.get_mut(slot).and_then(Option::take);
            let (read, _) = read.ok_or_else(|| {
                io::Error::other("the kernel told of a read that was not under way")
            })?;
            self.free.push(slot);
            let bytes = usize::try_from(completed.result()).unwrap_or(0);
            return Ok(Some(Ended { read, slot, bytes }));
        }
        Ok(None)
    }

    /// The bytes of a completed read, until the next `push`; `None` if the kernel read too few.
    pub(super) fn bytes(&self, ended: &Ended) -> Option<&[u8]> {
        let wanted = Span::around(ended.read.offset, ended.read.bytes).wanted;
        let slot = &self.memory.bytes()[ended.slot * SLOT_BYTES..][..SLOT_BYTES];
        (wanted.end <= ended.bytes).then(|| &slot[wanted])
    }

    fn enter(&mut self, ended_min: usize) -> io::Result<()> {
        match self.ring.submit_and_wait(ended_min) {
            Err(error) if is_passing(&error) => Ok(()),
            entered => entered.map(drop),
        }
    }

    /// Leaks the ring, because the kernel may still write into its memory. Returns its reads under
    /// way.
    pub(super) fn leave(self) -> Vec<Read> {
        let ring = ManuallyDrop::new(self);
        let reads = ring.slots.iter().flatten();
        reads.map(|(read, _)| read.clone()).collect()
    }
}

/// Returns true if a repeated call may succeed.
fn is_passing(error: &io::Error) -> bool {
    let passing = [libc::EINTR, libc::EAGAIN, libc::EBUSY];
    error
        .raw_os_error()
        .is_some_and(|code| passing.contains(&code))
}
