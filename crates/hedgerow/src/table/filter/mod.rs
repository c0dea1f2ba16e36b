//! Filters: they name the runs that may hold a key, from a few bits per key and without a read of
//! the data.
//!
//! A filter never says no for a key that is there. It answers for one run (a table's own filter) or
//! for several runs of a group (`GroupProbe`). The holder of the filter knows the run of each bit
//! of an answer. Filters do no I/O: a paged filter asks for the page that it needs.

pub(crate) mod bloom;
pub(crate) mod bucket_bloom;
pub(crate) mod bucket_word;
pub(crate) mod buckets;
#[cfg(test)]
mod conformance;
pub(crate) mod cuckoo;
pub(crate) mod hash_list;
pub(crate) mod run_hashes;
pub(crate) mod small_bloom;
pub(crate) mod table_filter;

use std::any::Any;
use std::fmt::Debug;

use crate::base::entry::KeyHash;
use crate::base::error::{Error, Result};
use crate::base::page::{Buffer, Page, Step};
use crate::table::paged_file::PagedFile;

/// A set of runs. For a group, bit `i` is the `i`-th newest run; for a filter, the `i`-th that it
/// covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunMask(pub(crate) u64);

impl RunMask {
    pub(crate) const NONE: RunMask = RunMask(0);

    /// The `runs` newest runs.
    pub(crate) fn all(runs: usize) -> RunMask {
        RunMask(if runs >= 64 {
            u64::MAX
        } else {
            (1 << runs) - 1
        })
    }

    pub(crate) fn contains(self, run: usize) -> bool {
        self.0.checked_shr(run as u32).unwrap_or(0) & 1 == 1
    }

    /// The set without one run.
    pub(crate) fn without(self, run: usize) -> RunMask {
        RunMask(self.0 & !1_u64.checked_shl(run as u32).unwrap_or(0))
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Removes the newest run from the set and returns its bit.
    pub(crate) fn take_newest(&mut self) -> Option<usize> {
        let newest = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (newest < 64).then_some(newest)
    }
}

/// A filter that can be probed.
pub(crate) trait Probe: Any + Send + Sync + Debug {
    /// All runs that may hold a key with this hash. `page` is the page that the answer before this
    /// one asked for; the first call has none.
    /// Cost: one or two cache lines when resident, as many pages when paged.
    fn candidates(&self, hash: KeyHash, page: Option<&Page>) -> Result<Step<RunMask>>;
    /// Prefetches the cache lines that a probe for this hash will read. The fetches of several
    /// filters and of many keys then overlap. A paged filter does nothing.
    fn touch(&self, _hash: KeyHash) {}
    /// Bytes held in memory.
    fn memory_bytes(&self) -> usize;
    /// The file of the pages that it may ask for.
    fn file(&self) -> Option<&PagedFile> {
        None
    }
    /// Bytes in memory or in pages.
    fn bytes(&self) -> u64 {
        self.memory_bytes() as u64
    }
}

/// 2^64 / golden ratio: odd, and its multiples are spread evenly.
pub(crate) const REMIX: u64 = 0x9E37_79B9_7F4A_7C15;

/// Spreads some bits of a word over all of them.
#[inline]
pub(crate) fn remix(word: u64) -> u64 {
    let product = word.wrapping_mul(REMIX);
    (product ^ (product >> 32)).wrapping_mul(REMIX)
}

/// Checks the bits per key of a filter. Options are checked before.
///
/// # Panics
/// If it is not 1.0 to 32.0.
pub(crate) fn assert_bits_per_key(bits_per_key: f32) {
    assert!(
        (1.0..=32.0).contains(&bits_per_key),
        "1 to 32 filter bits per key, not {bits_per_key}"
    );
}

/// Joins the pages of a filter, in order: `bytes` of them, then `padding` zeros.
fn gather<'a>(
    pages: impl Iterator<Item = Result<&'a [u8]>>,
    bytes: usize,
    padding: usize,
) -> Result<Buffer> {
    let mut gathered = Buffer::allocate(bytes + padding);
    let mut filled = 0;
    for page in pages {
        let page = page?;
        if let Some(place) = gathered[..bytes].get_mut(filled..filled + page.len()) {
            place.copy_from_slice(page);
        }
        filled += page.len();
    }
    if filled == bytes {
        return Ok(gathered);
    }
    Err(Error::corruption(format!(
        "expected a filter of {bytes} bytes, found {filled} bytes"
    )))
}
