//! Direct reads at the same time, by io_uring: one system call hands several of them to the device.
//!
//! The kernel writes into memory of the ring, never into the callers': whatever goes wrong, it is
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

/// As many reads as are under way at once.
const READS_MAX: usize = 64;
/// Longer reads are made in another way. A block of the usual size lies in one sector, or in two.
const SLOT_BYTES: usize = 8 << 10;

/// The rings that nobody uses at the moment: one for each thread that ever read at the same time.
#[derive(Debug, Default)]
pub(super) struct Rings {
    free: Mutex<Vec<Ring>>,
}

impl Rings {
    /// A ring; none if the system refuses rings. It is asked again each time, which costs it a microsecond.
    pub(super) fn take(&self) -> Option<Ring> {
        let free = self
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        free.or_else(Ring::new)
    }

    /// Takes a ring back when its reads have ended.
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

/// A read that is not under way any more.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) read: Read,
    slot: usize,
    /// So many sector bytes are in the slot.
    bytes: usize,
}

/// Never dropped while a read of it is under way: it goes to [`Rings::give_back`], or is left.
pub(super) struct Ring {
    ring: IoUring,
    memory: Sectors,
    /// The reads under way, each with the memory of its number, and their files, which stay open.
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

    /// Whether it makes such reads.
    pub(super) fn takes(read: &Read) -> bool {
        Span::around(read.offset, read.bytes).bytes <= SLOT_BYTES
    }

    /// Makes a read of a direct file one of those that the kernel is handed next, if there is room.
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
        // SAFETY: the slot holds the file open and nobody looks at its memory until the read is completed; a
        // ring of which that is not known is never dropped.
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

    /// Hands the kernel what was pushed.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        if self.ring.submission().is_empty() {
            return Ok(());
        }
        self.enter(0)
    }

    /// Whether a read has ended, as far as the kernel has said.
    pub(super) fn has_ended(&mut self) -> bool {
        !self.ring.completion().is_empty()
    }

    /// Waits until a read has ended. `None` if none is under way.
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

    /// What a read asked for, until the next is pushed; `None` if the kernel has read less.
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

    /// Leaves it to the kernel, which may write into its memory still: the reads that were under way.
    pub(super) fn leave(self) -> Vec<Read> {
        let ring = ManuallyDrop::new(self);
        let reads = ring.slots.iter().flatten();
        reads.map(|(read, _)| read.clone()).collect()
    }
}

/// The call is to be made again.
fn is_passing(error: &io::Error) -> bool {
    let passing = [libc::EINTR, libc::EAGAIN, libc::EBUSY];
    error
        .raw_os_error()
        .is_some_and(|code| passing.contains(&code))
}
