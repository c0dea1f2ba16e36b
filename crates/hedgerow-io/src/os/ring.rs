//! Direct reads made together, by io_uring: one system call hands all of them to the device.
//!
//! The kernel writes into memory of the ring, never into the callers': whatever goes wrong, it is
//! enough to forget the ring.

use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, PoisonError};

use io_uring::{IoUring, opcode, types};

use super::direct::{DirectFile, Sectors, Span};
use crate::ReadInto;

/// As many reads as are under way at once.
const READS_MAX: usize = 64;
/// Longer reads are made one by one. A block of the usual size lies in one sector, or in two.
const SLOT_BYTES: usize = 8 << 10;

/// The rings that nobody uses at the moment: one for each thread that ever read at the same time.
#[derive(Debug, Default)]
pub(super) struct Rings {
    free: Mutex<Vec<Ring>>,
}

impl Rings {
    /// Makes those of the reads that it can; false for the others. Each is of a direct file.
    pub(super) fn read(&self, reads: &mut [(&DirectFile, &mut ReadInto<'_>)]) -> Vec<bool> {
        let mut done = Vec::with_capacity(reads.len());
        for reads in reads.chunks_mut(READS_MAX) {
            let free = || self.free.lock().unwrap_or_else(PoisonError::into_inner);
            let taken = free().pop();
            // A system that refuses rings is asked again each time, which costs it a microsecond.
            let Some(mut ring) = taken.or_else(Ring::new) else {
                break;
            };
            let (of_these, is_whole) = ring.read(reads);
            done.extend(of_these);
            if is_whole {
                free().push(ring);
            } else {
                // The kernel may write into its memory still.
                let _kept = ManuallyDrop::new(ring);
            }
        }
        done.resize(reads.len(), false);
        done
    }
}

struct Ring {
    ring: IoUring,
    memory: Sectors,
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
        })
    }

    /// Which of the reads were made, and whether the ring can be used again.
    fn read(&mut self, reads: &mut [(&DirectFile, &mut ReadInto<'_>)]) -> (Vec<bool>, bool) {
        let memory = self.memory.bytes_mut().as_mut_ptr();
        let spans: Vec<_> = reads
            .iter()
            .map(|(_, read)| Span::around(read.offset, read.bytes.len()))
            .collect();
        let mut under_way = 0;
        for (slot, ((file, _), span)) in reads.iter().zip(&spans).enumerate() {
            if span.bytes > SLOT_BYTES {
                continue;
            }
            let into = memory.wrapping_add(slot * SLOT_BYTES);
            let read = opcode::Read::new(types::Fd(file.file.as_raw_fd()), into, span.bytes as u32);
            let entry = read.offset(span.start).build().user_data(slot as u64);
            // SAFETY: the file is borrowed until this function returns, and the slot is memory of
            // this ring that nobody looks at meanwhile. Nothing here panics before all reads are
            // completed, and a ring of which that is not known is never dropped.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            under_way += usize::from(pushed.is_ok());
        }
        let mut found = [-1; READS_MAX];
        while under_way > 0 {
            if let Err(error) = self.ring.submit_and_wait(under_way) {
                let again = [libc::EINTR, libc::EAGAIN, libc::EBUSY];
                if !error
                    .raw_os_error()
                    .is_some_and(|code| again.contains(&code))
                {
                    return (vec![false; reads.len()], false);
                }
            }
            for completed in self.ring.completion() {
                if let Some(found) = found.get_mut(completed.user_data() as usize) {
                    *found = completed.result();
                }
                under_way = under_way.saturating_sub(1);
            }
        }
        let memory = self.memory.bytes_mut();
        let each = reads.iter_mut().zip(&spans).zip(found).enumerate();
        let done = each.map(|(slot, (((_, read), span), found))| {
            let is_whole = usize::try_from(found).is_ok_and(|bytes| bytes >= span.wanted.end);
            if is_whole {
                let slot = &memory[slot * SLOT_BYTES..][..SLOT_BYTES];
                read.bytes.copy_from_slice(&slot[span.wanted.clone()]);
            }
            is_whole
        });
        (done.collect(), true)
    }
}
