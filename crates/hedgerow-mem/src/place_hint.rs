//! Hints where pages are.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::page::PageRef;
use crate::prefetch::prefetch_lines;

/// The unit of hints. Pages in slabs begin at a multiple of it.
const PLACE_BYTES: usize = 4 << 10;

/// The place just before the first page that a hint was of. Hints count from it, so that four bytes
/// suffice for 8 TiB on either side.
static ORIGIN: AtomicUsize = AtomicUsize::new(0);

/// The place of a page when somebody last found it. By now the page may be gone, so this only
/// serves to prefetch it while its owner is asked for it. A wrong hint costs a useless prefetch.
#[derive(Debug, Default)]
pub struct PlaceHint(AtomicU32);

impl PlaceHint {
    /// Records where a page is. Cost: no write if it is there still.
    #[inline]
    pub fn note(&self, page: &PageRef) {
        let place = page.as_ptr().addr() / PLACE_BYTES;
        let mut origin = ORIGIN.load(Ordering::Relaxed);
        if origin == 0 {
            // If two threads store one each, the hints of one of them are wrong until they are
            // recorded again.
            origin = place - 1;
            ORIGIN.store(origin, Ordering::Relaxed);
        }
        let distance = place.wrapping_sub(origin) as u32;
        if self.0.load(Ordering::Relaxed) != distance {
            self.0.store(distance, Ordering::Relaxed);
        }
    }

    /// Prefetches the first `bytes` bytes from the recorded place on, if there is one.
    #[inline]
    pub fn prefetch(&self, bytes: usize) {
        if let Some(address) = self.address() {
            prefetch_lines(std::ptr::without_provenance(address), bytes);
        }
    }

    #[inline]
    fn address(&self) -> Option<usize> {
        let distance = self.0.load(Ordering::Relaxed);
        let place = ORIGIN
            .load(Ordering::Relaxed)
            .wrapping_add(distance as i32 as usize);
        (distance != 0).then(|| place.wrapping_mul(PLACE_BYTES))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::page::{PAGE_HEADER_BYTES, PagePool};

    #[test]
    fn a_hint_leads_to_the_page_that_it_was_recorded_for() {
        let pool = PagePool::new(2 << 20);
        let pages: Vec<_> = (0..600)
            .map(|i| pool.allocate(4000, || ()).share([1, i]))
            .collect();
        let hint = PlaceHint::default();
        assert_eq!(hint.address(), None);
        for page in &pages {
            hint.note(page);
            assert_eq!(
                hint.address(),
                Some(page.as_ptr().addr() - PAGE_HEADER_BYTES)
            );
            hint.prefetch(4000);
        }
        drop(pages);
        hint.prefetch(4000);
    }
}
