//! Keys of users. A command looks a key up as an entry, and stores or removes it.

use super::databases::Space;
use super::meta::{Kind, Meta};
use super::txn::{Mode, Txn};
use super::{Answer, Stop, together};

/// The bytes of the hash in front of a key.
pub(super) const PLACE_BYTES: usize = 4;

/// The reason why an entry that is stored is absent for readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expired {
    /// Its own time is over.
    Key,
    /// It is a hash, and the times of all its fields are over.
    Fields,
}

/// A key of a user, as it is stored.
pub(crate) struct Entry {
    pub(crate) db: usize,
    /// The key with its place in front, as it is stored.
    pub(super) meta_key: Vec<u8>,
    pub(super) stored: Option<Meta>,
    pub(super) expired: Option<Expired>,
}

impl Entry {
    pub(crate) fn key(&self) -> &[u8] {
        &self.meta_key[PLACE_BYTES..]
    }

    /// The entry, unless there is none or it has expired.
    pub(crate) fn meta(&self) -> Option<&Meta> {
        self.stored.as_ref().filter(|_| self.expired.is_none())
    }

    pub(crate) fn exists(&self) -> bool {
        self.meta().is_some()
    }

    pub(crate) fn expires(&self) -> u64 {
        self.meta().map_or(0, |meta| meta.expires)
    }

    pub(crate) fn count(&self) -> u64 {
        self.meta().map_or(0, |meta| meta.count)
    }
}

impl Txn<'_> {
    /// The hash in front of a key or field: the order of SCAN.
    pub(crate) fn place(&self, bytes: &[u8]) -> [u8; PLACE_BYTES] {
        ((self.databases().hash(bytes) >> 32) as u32).to_be_bytes()
    }

    pub(crate) fn lookup(&mut self, key: &[u8]) -> Answer<Entry> {
        self.lookup_in(self.db, key)
    }

    pub(crate) fn lookup_in(&mut self, db: usize, key: &[u8]) -> Answer<Entry> {
        let (meta_key, stored) = match self.last_of(db, key) {
            Some((meta_key, meta)) => (meta_key, Some(meta)),
            None => self.read_meta(db, key)?,
        };
        let expired = match &stored {
            Some(meta) => self.expired(db, meta)?,
            None => None,
        };
        let entry = Entry {
            db,
            meta_key,
            stored,
            expired,
        };
        self.looking_up[usize::from(!entry.exists())] += 1;
        if !entry.exists() {
            self.misses.note(db, key);
        }
        Ok(entry)
    }

    /// The kept parts of several keys; in memory mode all that are missing are asked for together.
    pub(crate) fn lookup_all<T>(
        &mut self,
        keys: &[&[u8]],
        mut kept: impl FnMut(Entry) -> Answer<T>,
    ) -> Answer<Vec<T>> {
        together(keys.iter().map(|key| kept(self.lookup(key)?)))
    }

    /// Asks for several keys together, so that they are in memory when they are looked up.
    pub(crate) fn prefetch(&mut self, keys: &[&[u8]]) -> Answer<()> {
        if self.mode == Mode::Device {
            return Ok(());
        }
        self.lookup_all(keys, |_| Ok(())).map(drop)
    }

    /// A key that has this kind of value, or none.
    pub(crate) fn lookup_kind(&mut self, key: &[u8], kind: Kind) -> Answer<Entry> {
        let entry = self.lookup(key)?;
        match entry.meta() {
            Some(meta) if meta.kind != kind => Err(Stop::wrong_type()),
            _ => Ok(entry),
        }
    }

    /// A key that has this kind of value; `None` if there is nothing, or, for a client that waits,
    /// something else.
    pub(crate) fn lookup_awaited(&mut self, key: &[u8], kind: Kind) -> Answer<Option<Entry>> {
        let entry = self.lookup(key)?;
        match entry.meta().map(|meta| meta.kind) {
            None => Ok(None),
            Some(found) if found == kind => Ok(Some(entry)),
            Some(_) if self.is_waiting => Ok(None),
            Some(_) => Err(Stop::wrong_type()),
        }
    }

    /// A new, empty collection.
    pub(crate) fn new_collection(&self, kind: Kind) -> Answer<Meta> {
        Ok(Meta::collection(kind, self.databases().new_version()?))
    }

    /// The entry's collection, or a new one.
    pub(crate) fn collection(&self, entry: &Entry, kind: Kind) -> Answer<Meta> {
        match entry.meta() {
            Some(meta) => Ok(meta.clone()),
            None => self.new_collection(kind),
        }
    }

    /// Stores the entry of a key, whatever it was before.
    pub(crate) fn store(&mut self, entry: &mut Entry, meta: Meta) -> Answer<()> {
        let (db, is_new) = (entry.db, !entry.exists());
        self.end_old(entry, Some(&meta))?;
        self.write_meta(entry, &meta)?;
        if entry.stored.is_none() {
            self.sizes[db] += 1;
        }
        if is_new {
            self.event(entry, b'n', "new");
        }
        entry.stored = Some(meta);
        entry.expired = None;
        self.touch(entry);
        Ok(())
    }

    /// Stores an entry whose value is the same for those who watch and track it: only what is known
    /// of it is another.
    pub(crate) fn store_facts(&mut self, entry: &mut Entry, meta: Meta) -> Answer<()> {
        self.write_meta(entry, &meta)?;
        entry.stored = Some(meta);
        Ok(())
    }

    /// Stores a collection, or removes its key if it is empty.
    pub(crate) fn store_or_remove(&mut self, entry: &mut Entry, meta: Meta) -> Answer<()> {
        if meta.count > 0 {
            return self.store(entry, meta);
        }
        self.del(entry).map(drop)
    }

    /// Removes a key, and notes the event of DEL. Returns true if it was there.
    pub(crate) fn del(&mut self, entry: &mut Entry) -> Answer<bool> {
        let existed = self.remove(entry)?;
        if existed {
            self.event(entry, b'g', "del");
        }
        Ok(existed)
    }

    /// Removes a key, at the cost of one, whatever it holds. Returns true if it was there.
    pub(crate) fn remove(&mut self, entry: &mut Entry) -> Answer<bool> {
        if entry.stored.is_none() {
            return Ok(false);
        }
        let existed = entry.exists();
        let had_expired = entry.expired == Some(Expired::Key);
        self.end_old(entry, None)?;
        self.delete_meta(entry)?;
        self.sizes[entry.db] -= 1;
        entry.stored = None;
        entry.expired = None;
        self.effects
            .touched
            .push(entry.db, entry.key(), had_expired);
        Ok(existed)
    }

    /// Takes a key away and leaves its elements, which another key will have.
    pub(crate) fn detach(&mut self, entry: &mut Entry) -> Answer<Option<Meta>> {
        let Some(meta) = entry.meta().cloned() else {
            return Ok(None);
        };
        self.move_times(entry, None)?;
        self.delete_meta(entry)?;
        self.sizes[entry.db] -= 1;
        entry.stored = None;
        self.touch(entry);
        if meta.kind == Kind::Stream {
            // Its readers as members of a group learn that it is gone.
            self.ready(entry);
        }
        Ok(Some(meta))
    }

    /// Ends what an entry had: its times of expiry, and its elements unless `new` has them, too.
    fn end_old(&mut self, entry: &Entry, new: Option<&Meta>) -> Answer<()> {
        self.move_times(entry, new)?;
        let Some(old) = &entry.stored else {
            return Ok(());
        };
        match entry.expired {
            None => {}
            Some(Expired::Key) => self.event(entry, b'x', "expired"),
            Some(Expired::Fields) => {
                self.effects.expired_fields += old.count as usize;
                self.event(entry, b'h', "hexpired");
                self.event(entry, b'g', "del");
            }
        }
        let keeps = new.is_some_and(|new| new.version == old.version);
        if old.is_collection() && !keeps {
            self.delete_elements(entry.db, old)?;
            if old.kind == Kind::Stream {
                // Its readers as members of a group learn that it is gone.
                self.ready(entry);
            }
        }
        Ok(())
    }

    /// Deletes all elements of a collection by one or two records.
    fn delete_elements(&mut self, db: usize, meta: &Meta) -> Answer<()> {
        let spaces: &[Space] = match meta.kind {
            Kind::String => &[],
            Kind::Hash if meta.expiring.count > 0 => &[Space::Elements, Space::Ordered],
            Kind::Hash | Kind::Set => &[Space::Elements],
            Kind::List => &[Space::Ordered],
            Kind::SortedSet | Kind::Stream => &[Space::Elements, Space::Ordered],
        };
        let range = elements(meta.version);
        for space in spaces {
            self.delete_range(db, *space, range.clone())?;
        }
        Ok(())
    }

    /// The reason why a stored entry is absent, if it is. Costs nothing, but for a hash of which
    /// every field has a time and some field may be due: then one seek, for the last of the times.
    pub(crate) fn expired(&mut self, db: usize, meta: &Meta) -> Answer<Option<Expired>> {
        if meta.expires > 0 && meta.expires <= self.now {
            return Ok(Some(Expired::Key));
        }
        let expiring = meta.expiring;
        if expiring.count == 0 || expiring.count < meta.count || expiring.next > self.now {
            return Ok(None);
        }
        let mut times = self.scan(db, Space::Ordered, elements(meta.version), 1)?;
        let last = times.next_back().transpose()?;
        let time = last.and_then(|(key, _)| {
            let bytes = key.get(8..16)?.try_into().ok()?;
            Some(u64::from_be_bytes(bytes))
        });
        Ok(time.filter(|it| *it <= self.now).map(|_| Expired::Fields))
    }
}

/// The range of a collection's elements.
pub(crate) fn elements(version: u64) -> std::ops::Range<Vec<u8>> {
    version.to_be_bytes().to_vec()..(version + 1).to_be_bytes().to_vec()
}
