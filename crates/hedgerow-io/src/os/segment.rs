//! Log segments: a memory map, or `pwrite`.
//!
//! Both write into allocated blocks, and both sync with `fdatasync`. On Linux, `fdatasync` also
//! writes pages that were dirtied through a map; elsewhere `msync` goes first. The size never
//! changes, so a sync rarely has metadata to write.
//!
//! # Cost
//!
//! Measured by `examples/segment_write.rs` on ext4 with records of 160 bytes: a copy of a record
//! into mapped pages takes about 30 ns, its `pwrite` about 900 ns. A map pays for the first touch
//! of each page after a sync instead: about 0.3 us in a recycled segment and 4 us in a new one. The
//! first touch of a recycled page that has left the cache reads it from the disk. If memory is
//! short, these reads caused every commit of more than 25 ms. So a recycled segment that is not in
//! the cache is made new.
//!
//! A sync of 4 KB takes twice as long in a new segment, 250 us instead of 130, because the file
//! system journals that more of the allocated blocks are written. `prepare` helps with both: it
//! populates and dirties a range of pages, and the next sync writes and journals them all at once.
//! So a commit in a new segment costs as much as in a recycled one.
//!
//! The kernel unmaps a page before it writes the page. Each time it interrupts all processors to
//! flush their translations: 13 % of the processors' time of a load with two writers and small
//! memtables, on a virtual machine. `write_back` first unmaps a whole range, with one interruption
//! per 2 MiB.
//!
//! # Failure
//!
//! A write through a map has no result: a page that cannot be read or allocated ends the process
//! with `SIGBUS`, where `pwrite` returns an error. Allocation inside a preallocated segment cannot
//! fail unless the file system copies on write; use [`SegmentMode::Pwrite`] there. In both modes
//! `sync` reports a failed write-back.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::ptr;
use std::sync::Arc;

use memmap2::{MmapOptions, MmapRaw};

use super::system;
use crate::Segment;

/// The way to write log segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SegmentMode {
    /// Through a memory map. A record is copied without a system call.
    #[default]
    Mmap,
    /// With one `pwrite` per record.
    Pwrite,
}

/// Opens an allocated file as a segment of its whole length.
pub(super) fn open(file: File, mode: SegmentMode) -> io::Result<Arc<dyn Segment>> {
    let bytes = file.metadata()?.len();
    if bytes == 0 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a segment cannot be empty",
        ));
    }
    Ok(match mode {
        SegmentMode::Mmap => Arc::new(MappedSegment {
            map: MmapOptions::new().map_raw(&file)?,
            file,
        }),
        SegmentMode::Pwrite => Arc::new(PwriteSegment { file, bytes }),
    })
}

/// Asserts that a range is inside a segment.
fn assert_bounds(offset: u64, len: usize, capacity_bytes: u64) {
    assert!(
        offset
            .checked_add(len as u64)
            .is_some_and(|end| end <= capacity_bytes),
        "write of {len} bytes at {offset} in a segment of {capacity_bytes} bytes"
    );
}

/// A segment written through a shared map.
///
/// Its pages are those of the page cache, so copied bytes survive the process.
#[derive(Debug)]
struct MappedSegment {
    map: MmapRaw,
    file: File,
}

impl Segment for MappedSegment {
    fn capacity_bytes(&self) -> u64 {
        self.map.len() as u64
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        assert_bounds(offset, bytes.len(), self.capacity_bytes());
        let target = self.map.as_mut_ptr().wrapping_add(offset as usize);
        // SAFETY: `assert_bounds` keeps `target..target + bytes.len()` inside the map, which lives
        // as long as `self` and to which no reference exists, so `bytes` does not overlap it.
        // Concurrent calls are for disjoint ranges: the caller of `Segment::write_at` promises it.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        #[cfg(not(target_os = "linux"))]
        self.map.flush()?;
        self.file.sync_data()
    }

    fn prepare(&self, range: Range<u64>) {
        #[cfg(target_os = "linux")]
        if let Some(range) = super::clip(&range, self.map.len()) {
            // A kernel before 5.14 refuses this advice. The writers then fault the pages in.
            let _ = self
                .map
                .advise_range(memmap2::Advice::PopulateWrite, range.start, range.len());
        }
        #[cfg(not(target_os = "linux"))]
        let _ = range;
    }

    fn write_back(&self, range: Range<u64>) {
        #[cfg(target_os = "linux")]
        if let Some(range) = super::clip(&range, self.map.len()) {
            let advice = memmap2::UncheckedAdvice::DontNeed;
            // SAFETY: the map is shared and of a file, and no reference into it exists. Its pages
            // stay in the page cache with the written bytes. A later touch, also by a concurrent
            // writer, finds them there.
            let _ = unsafe {
                self.map
                    .unchecked_advise_range(advice, range.start, range.len())
            };
            // The next sync reports a failure.
            let _ = system::start_write_back(&self.file, range.start as u64..range.end as u64);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = range;
    }
}

/// A segment written with a system call per record.
#[derive(Debug)]
struct PwriteSegment {
    file: File,
    bytes: u64,
}

impl Segment for PwriteSegment {
    fn capacity_bytes(&self) -> u64 {
        self.bytes
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        assert_bounds(offset, bytes.len(), self.bytes);
        self.file.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write_back(&self, range: Range<u64>) {
        let range = range.start..range.end.min(self.bytes);
        if !range.is_empty() {
            let _ = system::start_write_back(&self.file, range);
        }
    }
}
