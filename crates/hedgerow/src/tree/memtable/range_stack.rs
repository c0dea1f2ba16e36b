//! The range tombstones of a memtable: a stack of immutable lists.
//!
//! A new delete becomes a list of its own. Neighbouring lists of similar size are merged, so that
//! there are about log2(n) lists, and each delete is merged about log2(n) times. So a search after
//! each delete costs little, while one list that is made anew after each change would cost n.
//!
//! Writers take a lock. Readers load the stack, which never changes.

use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;

use crate::base::entry::SeqNo;
use crate::base::mutex::lock;
use crate::base::range_tombstones::RangeTombstones;

/// The lists of a stack, the oldest and largest first.
pub(crate) type RangeLists = Vec<Arc<RangeTombstones>>;

/// See the module.
#[derive(Default)]
pub(super) struct RangeStack {
    lists: ArcSwap<RangeLists>,
    adding: Mutex<()>,
}

impl RangeStack {
    /// Adds a delete. Returns the number of deletes in all fragments.
    pub(super) fn add(&self, delete: RangeTombstones) -> u64 {
        let _one = lock(&self.adding);
        let mut lists = RangeLists::clone(&self.lists.load());
        let mut newest = delete;
        while let Some(last) = lists.pop_if(|last| last.count() <= newest.count()) {
            newest = RangeTombstones::merged([&*last, &newest]);
        }
        lists.push(Arc::new(newest));
        let count = lists.iter().map(|list| list.count()).sum();
        self.lists.store(Arc::new(lists));
        count
    }

    pub(super) fn lists(&self) -> Arc<RangeLists> {
        self.lists.load_full()
    }

    /// The number of the newest delete of a key up to `seqno`.
    pub(super) fn newest(&self, key: &[u8], seqno: SeqNo) -> Option<SeqNo> {
        let lists = self.lists.load();
        let found = lists.iter().filter_map(|list| list.newest(key, seqno));
        found.map(|(_, delete)| delete.seqno).max()
    }
}

#[cfg(test)]
mod tests;
