//! The keys that transactions depend on. A client that watches a key is marked when the key
//! changes, before the change is seen by anyone: the writer holds the key's stripe meanwhile.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::client::{Client, lock};

type Key = (usize, Vec<u8>);

#[derive(Default)]
pub(crate) struct Watches {
    watchers: Mutex<HashMap<Key, Vec<Arc<Client>>>>,
    /// The number of watched keys, so that nobody pays while there is none.
    count: AtomicUsize,
}

impl Watches {
    pub(crate) fn add(&self, client: &Arc<Client>, key: &Key) {
        let mut watchers = lock(&self.watchers);
        watchers
            .entry(key.clone())
            .or_default()
            .push(client.clone());
        self.count.store(watchers.len(), Ordering::SeqCst);
    }

    pub(crate) fn remove(&self, client: &Client, key: &Key) {
        let mut watchers = lock(&self.watchers);
        if let Some(of_key) = watchers.get_mut(key) {
            of_key.retain(|it| it.id != client.id);
            if of_key.is_empty() {
                watchers.remove(key);
            }
        }
        self.count.store(watchers.len(), Ordering::SeqCst);
    }

    /// The number of watched keys.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Marks those who watch these keys.
    pub(crate) fn touch<'a>(&self, keys: impl IntoIterator<Item = (usize, &'a [u8])>) {
        if self.count() == 0 {
            return;
        }
        let watchers = lock(&self.watchers);
        let of_key = |(db, key): (usize, &[u8])| watchers.get(&(db, key.to_vec()));
        for client in keys.into_iter().filter_map(of_key).flatten() {
            client.is_dirty.store(true, Ordering::Release);
        }
    }

    /// The watched keys of these databases.
    pub(crate) fn keys_of(&self, dbs: &[usize]) -> Vec<Key> {
        let watchers = lock(&self.watchers);
        watchers
            .keys()
            .filter(|it| dbs.contains(&it.0))
            .cloned()
            .collect()
    }
}

/// These keys, as [`Watches::touch`] takes them.
pub(crate) fn borrowed(keys: &[Key]) -> impl Iterator<Item = (usize, &[u8])> {
    keys.iter().map(|(db, key)| (*db, key.as_slice()))
}
