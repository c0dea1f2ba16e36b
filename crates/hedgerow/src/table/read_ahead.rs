//! Read-ahead of a forward scan.
//!
//! A scan that enters block after block of a table waits for the device once per block. So from the
//! third block on, a block that is not cached is read together with the next ones, by one read. The
//! size of the read doubles each time: 2, 4, 8 blocks and so on. So a scan that ends early has read
//! at most about as many blocks in vain as it has used, and one that ends within its first two
//! blocks none.
//!
//! ```text
//! block  0     1   2 3   4 5 6 7   8 ..
//! read   seek  |   |--|  |-----|   |---..
//! ```
//!
//! Blocks that were read go to the page cache and stay evictable: an iterator that rests holds
//! none. A block that is evicted before the scan reaches it begins the doubling again. Cached
//! blocks take no read: a read begins and ends with blocks that are not cached, and reads over
//! cached ones only where these are shorter than another read would take.
//!
//! One thread uses it. Cost: nothing per step; per block a comparison.

use crate::base::error::Result;
use crate::base::page::{Page, PageId, PageSource};

/// The most blocks of one read. A bit stands for each.
const BLOCKS_MAX: usize = 64;

/// The most cached bytes that one read reads over. A device reads them in a fraction of the time of
/// another read.
const GAP_BYTES_MAX: u64 = 16 << 10;

/// The read-ahead of one iterator over one table; see the module.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    /// The blocks of the last read; 0 before the first.
    count: usize,
    /// The first block of the last read, and a bit for each block from there on that the read put
    /// into the cache and that the iterator has not reached yet.
    first: usize,
    ahead: u64,
}

/// A block that follows the iterator's last one.
#[derive(Debug, Clone, Copy)]
pub(super) struct NextBlock {
    pub(super) number: usize,
    pub(super) id: PageId,
    /// The memory that blocks of the table take, about, in bytes.
    pub(super) memory_bytes: usize,
}

impl ReadAhead {
    /// Returns the page of a block that follows the last one. `id_of` names the blocks after it
    /// that are of use, as far as this takes no read.
    ///
    /// # Errors
    /// Those of a read of this block alone. An error of the others is left to the reads that want
    /// them.
    pub(super) fn next_page(
        &mut self,
        pages: &dyn PageSource,
        next: NextBlock,
        id_of: impl FnMut(usize) -> Option<PageId>,
    ) -> Result<Page> {
        let was_ahead = self.reach(next.number);
        let at_hand = match was_ahead {
            true => pages.read_ahead(next.id),
            false => pages.at_hand(next.id),
        };
        if let Some(page) = at_hand {
            return Ok(page);
        }
        if was_ahead {
            *self = ReadAhead::default();
        }
        let room = pages.ahead_bytes_max();
        let blocks = room / next.memory_bytes.max(1);
        self.count = (2 * self.count).clamp(1, BLOCKS_MAX);
        let count = self.count.min(blocks);
        if count < 2 {
            return pages.page(next.id);
        }
        let ids = self.plan(pages, next, (count, room as u64), id_of);
        if ids.len() > 1 {
            if let Ok(page) = pages.pages_ahead(&ids) {
                return Ok(page);
            }
            self.ahead = 0;
        }
        pages.page(next.id)
    }

    /// Returns true if the block was read ahead and not reached since.
    fn reach(&mut self, number: usize) -> bool {
        let bit = number.checked_sub(self.first);
        let bit = bit
            .filter(|&bit| bit < BLOCKS_MAX)
            .map_or(0, |bit| 1 << bit);
        let was_ahead = self.ahead & bit != 0;
        self.ahead &= !bit;
        was_ahead
    }

    /// The pages of one read: the next block, and those of the `count - 1` after it that are not
    /// cached, up to `bytes_max` bytes of the file.
    fn plan(
        &mut self,
        pages: &dyn PageSource,
        next: NextBlock,
        (count, bytes_max): (usize, u64),
        mut id_of: impl FnMut(usize) -> Option<PageId>,
    ) -> Vec<PageId> {
        (self.first, self.ahead) = (next.number, 0);
        let start = next.id.handle.offset;
        let mut end = next.id.handle.end();
        let mut ids = vec![next.id];
        for after in 1..count {
            let Some(id) = id_of(next.number + after) else {
                break;
            };
            let gap = id.handle.offset.checked_sub(end);
            let is_near = gap.is_some_and(|gap| gap <= GAP_BYTES_MAX);
            if !is_near || id.handle.end() - start > bytes_max {
                break;
            }
            if !pages.has_cached(id) {
                end = id.handle.end();
                self.ahead |= 1 << after;
                ids.push(id);
            }
        }
        ids
    }
}

#[cfg(test)]
mod tests;
