//! The collection that commands named last. A pipeline often has many commands on one: its entry is
//! read once and written once for all of them, and not for each.
//!
//! The entry is written before anything walks over entries, and before the commit. Whoever undoes a
//! command has the last entry from before it again, written or not.

use std::sync::Arc;

use super::databases::{self, Space};
use super::entry::{Entry, PLACE_BYTES};
use super::meta::Meta;
use super::txn::Txn;
use super::{Answer, Stop};

const KEY_BYTES_MAX: usize = hedgerow::KEY_BYTES_MAX - 32;

/// See the module.
pub(super) struct Last {
    db: usize,
    /// The key with its place in front.
    meta_key: Arc<[u8]>,
    meta: Meta,
    /// The batch or the state below it has the entry.
    is_written: bool,
}

impl Last {
    fn is_of(&self, db: usize, key: &[u8]) -> bool {
        self.db == db && &self.meta_key[PLACE_BYTES..] == key
    }
}

impl Txn<'_> {
    /// A key as it is stored, with its entry.
    #[inline]
    pub(super) fn read_meta(&mut self, db: usize, key: &[u8]) -> Answer<(Vec<u8>, Option<Meta>)> {
        let meta_key = self.meta_key(key)?;
        let stored = self.get(db, Space::Meta, &meta_key)?;
        let stored = stored.map(|stored| Meta::decode(stored).ok_or_else(Stop::damaged));
        let stored = stored.transpose()?;
        if let Some(meta) = stored.as_ref().filter(|it| it.is_collection()) {
            self.keep_last(db, &meta_key, (meta, true))?;
        }
        Ok((meta_key, stored))
    }

    fn meta_key(&self, key: &[u8]) -> Answer<Vec<u8>> {
        if key.len() > KEY_BYTES_MAX {
            return Err(Stop::reply(format!(
                "ERR expected a key of at most {KEY_BYTES_MAX} bytes, found {} bytes",
                key.len()
            )));
        }
        Ok([&self.place(key), key].concat())
    }

    /// Writes the entry of a key, that of a collection later.
    pub(super) fn write_meta(&mut self, entry: &Entry, meta: &Meta) -> Answer<()> {
        if meta.is_collection() {
            return self.keep_last(entry.db, &entry.meta_key, (meta, false));
        }
        self.forget_last(entry.db, &entry.meta_key);
        self.put_meta(entry.db, &entry.meta_key, meta)
    }

    /// Removes the entry of a key.
    pub(super) fn delete_meta(&mut self, entry: &Entry) -> Answer<()> {
        self.forget_last(entry.db, &entry.meta_key);
        self.delete(entry.db, Space::Meta, &entry.meta_key)
    }

    /// The entry of a key if it is the last collection, behind the key as it is stored.
    pub(super) fn last_of(&self, db: usize, key: &[u8]) -> Option<(Vec<u8>, Meta)> {
        let last = self.last.as_ref().filter(|it| it.is_of(db, key))?;
        Some((last.meta_key.to_vec(), last.meta.clone()))
    }

    /// Remembers a collection that was read, or is to be written.
    fn keep_last(
        &mut self,
        db: usize,
        meta_key: &[u8],
        (meta, is_written): (&Meta, bool),
    ) -> Answer<()> {
        databases::space_of(&self.map, db, Space::Meta)?;
        let known = self
            .last
            .take_if(|it| it.db == db && *it.meta_key == *meta_key);
        self.write_last()?;
        let meta_key = known.map_or_else(|| meta_key.into(), |it| it.meta_key.clone());
        self.last = Some(Arc::new(Last {
            db,
            meta_key,
            meta: meta.clone(),
            is_written,
        }));
        Ok(())
    }

    /// Forgets the last collection if it is of this key, whose entry is replaced or removed.
    fn forget_last(&mut self, db: usize, meta_key: &[u8]) {
        let is_of = |it: &mut Arc<Last>| it.db == db && *it.meta_key == *meta_key;
        self.last.take_if(is_of);
    }

    /// Forgets the last collection if it is of this database, whose keys are all removed.
    #[cfg(feature = "lua")]
    pub(super) fn forget_last_of(&mut self, db: usize) {
        self.last.take_if(|it| it.db == db);
    }

    /// Writes the entry of the last collection to the batch and forgets it, unless it is there.
    pub(super) fn write_last(&mut self) -> Answer<()> {
        match self.last.take_if(|it| !it.is_written) {
            None => Ok(()),
            Some(last) => self.put_meta(last.db, &last.meta_key, &last.meta),
        }
    }

    fn put_meta(&mut self, db: usize, meta_key: &[u8], meta: &Meta) -> Answer<()> {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        meta.encode(&mut bytes);
        let put = self.put(db, Space::Meta, meta_key, &bytes);
        self.scratch = bytes;
        put
    }

    /// Returns true if the entry of the last collection is not in the batch.
    pub(super) fn lacks_last(&self) -> bool {
        self.last.as_ref().is_some_and(|it| !it.is_written)
    }
}
