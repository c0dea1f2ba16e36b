//! The keys that transactions watch while they commit.
//!
//! A transaction that must look for newer writes watches what it has read meanwhile, until it has
//! its numbers. Each commit to the keyspace then compares its keys, inside of the critical section.
//! At other times nobody watches, and a write costs nothing
//! ([`Partition::log_segment`](super::Partition)).
//!
//! The lock of the list is the innermost, as that of the notes of [`super::ends`].

use std::sync::{Arc, Mutex, OnceLock};

use crate::base::key_ranges::KeyRanges;
use crate::base::mutex::lock;

/// The writes to watched keys.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) enum WatchedWrite {
    #[default]
    Nothing,
    /// A bulk load may have written some.
    Perhaps,
    /// This order key was written first.
    Key(Vec<u8>),
}

/// The keys that one transaction watches.
#[derive(Debug)]
pub(crate) struct Watch {
    keys: KeyRanges,
    written: Mutex<WatchedWrite>,
}

impl Watch {
    pub(crate) fn new(keys: KeyRanges) -> Arc<Watch> {
        let written = Mutex::default();
        Arc::new(Watch { keys, written })
    }

    /// The writes so far.
    pub(crate) fn written(&self) -> WatchedWrite {
        lock(&self.written).clone()
    }

    /// Returns true if nothing was written. Inside the commit's critical section, so that no
    /// further write comes first.
    pub(crate) fn is_untouched(&self) -> bool {
        *lock(&self.written) == WatchedWrite::Nothing
    }

    /// Forgets bulk loads, because the caller will look for what they wrote.
    pub(crate) fn forget_loads(&self) {
        let mut written = lock(&self.written);
        if *written == WatchedWrite::Perhaps {
            *written = WatchedWrite::Nothing;
        }
    }

    fn note(&self, new: WatchedWrite) {
        let mut written = lock(&self.written);
        if !matches!(*written, WatchedWrite::Key(_)) {
            *written = new;
        }
    }
}

/// The watches of a keyspace. They take no memory before the first one, since there are as many as
/// keyspaces.
#[derive(Debug, Default)]
pub(crate) struct Watchers(OnceLock<Box<Mutex<Vec<Arc<Watch>>>>>);

impl Watchers {
    /// Inside the commit's critical section, as the notes.
    pub(crate) fn add(&self, watch: &Arc<Watch>) {
        lock(self.0.get_or_init(Box::default)).push(watch.clone());
    }

    pub(crate) fn remove(&self, watch: &Arc<Watch>) {
        self.each(|all| all.retain(|it| !Arc::ptr_eq(it, watch)));
    }

    pub(crate) fn is_watched(&self) -> bool {
        let all = self.0.get();
        all.is_some_and(|all| !lock(all).is_empty())
    }

    /// Notes a write to the order keys from `start` up to `end`.
    pub(crate) fn note(&self, start: &[u8], end: &[u8]) {
        self.each(|all| {
            for watch in all {
                if let Some(key) = watch.keys.first_in(start, end) {
                    watch.note(WatchedWrite::Key(key));
                }
            }
        });
    }

    /// Notes that any key may have been written.
    pub(crate) fn note_load(&self) {
        self.each(|all| {
            all.iter()
                .for_each(|watch| watch.note(WatchedWrite::Perhaps))
        });
    }

    fn each(&self, act: impl FnOnce(&mut Vec<Arc<Watch>>)) {
        if let Some(all) = self.0.get() {
            act(&mut lock(all));
        }
    }
}
