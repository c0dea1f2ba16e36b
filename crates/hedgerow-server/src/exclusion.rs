//! The exclusion of all others. A transaction with commands that are not about data is several
//! commits: nobody else reads or writes between them.
//!
//! It begins while all stripes are held, so no write is under way. An attempt looks at it before it
//! takes its stripes and again behind its snapshot: if nothing has changed, its state is of before
//! the exclusion or of behind it. Both looks are loads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts beginnings and ends: odd while somebody excludes the others.
#[derive(Debug, Default)]
pub(crate) struct Exclusion(AtomicU64);

/// Excludes all others until it is dropped.
#[derive(Debug)]
pub(crate) struct Excluding(Arc<Exclusion>);

impl Exclusion {
    /// Begins; the caller holds all stripes. `None` if another one excludes.
    pub(crate) fn begin(self: &Arc<Exclusion>) -> Option<Excluding> {
        let epoch = self.epoch()?;
        let began = self
            .0
            .compare_exchange(epoch, epoch + 1, Ordering::SeqCst, Ordering::SeqCst);
        began.is_ok().then(|| Excluding(self.clone()))
    }

    /// A number that changes with each exclusion; `None` while there is one.
    pub(crate) fn epoch(&self) -> Option<u64> {
        let epoch = self.0.load(Ordering::SeqCst);
        epoch.is_multiple_of(2).then_some(epoch)
    }
}

impl Drop for Excluding {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_excludes_and_others_notice_that_it_was_there() {
        let exclusion = Arc::new(Exclusion::default());
        let before = exclusion.epoch();
        let one = exclusion.begin();
        assert!(one.is_some() && exclusion.epoch().is_none());
        assert!(exclusion.begin().is_none());
        drop(one);
        assert!(exclusion.epoch().is_some());
        assert_ne!(exclusion.epoch(), before);
    }
}
