//! The view of a command: one state of all databases, and its own writes on top.
//!
//! A command is a plain function over a `Txn`. In memory mode a read that needs the device ends the
//! command with [`Stop::Read`]; the executor has the pages read, without any lock, and runs the
//! command again. So commands know nothing of devices, locks or threads, and a command that is run
//! again has no effect twice: everything that it did is undone first.
//!
//! The state is that of a snapshot. A snapshot costs more than the lookup of a key, so an attempt
//! does without one where the present is as good: if it holds the keys that it reads, which nobody
//! else changes then, or if each command reads one entry.

use std::sync::Arc;

use arc_swap::Guard;
use hedgerow::{Durability, IndexedBatch, Keyspace, MemoryAnswer, Savepoint, Slice};

use super::databases::{self, Databases, Map, Space};
use super::effects::Effects;
use super::last::Last;
use super::misses::Misses;
use super::room::{BATCH_BYTES_MAX, Room};
use super::sizes::Sizes;
use super::stripes::Held;
#[cfg(feature = "lua")]
use super::stripes::Stripes;
use super::{Answer, Stop, together};
use crate::acl::Rules;
use crate::cluster::Cluster;
use crate::lookups;
use crate::pubsub;

/// The most elements that a command walks over in memory mode: a longer walk would keep its thread
/// from others.
const SCANNED_IN_MEMORY_MAX: u64 = 64;

/// The place from which reads are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// From memory.
    Memory,
    /// From the device, too; the thread may wait.
    Device,
}

/// Counts those who listen to a channel.
pub(crate) type Listeners<'a> = dyn Fn(pubsub::Kind, &[u8]) -> usize + Sync + 'a;

/// A key that must be read before a command can run.
pub(crate) type Wanted = (Keyspace, Vec<u8>);

/// The place to which a command is undone.
struct Begin {
    savepoint: Savepoint,
    effects: [usize; 8],
    sizes: [i64; databases::DATABASES],
    last: Option<Arc<Last>>,
    db: usize,
    message_bytes: usize,
}

/// See the module.
pub(crate) struct Txn<'a> {
    databases: &'a Databases,
    pub(super) map: Guard<Arc<Map>>,
    batch: IndexedBatch,
    /// Each command may read one entry: there is no snapshot, and others write.
    reads_once: bool,
    /// The command that runs has read it.
    has_read: bool,
    pub(super) mode: Mode,
    pub(crate) wanted: Vec<Wanted>,
    /// The keys that commands which only read have found and missed.
    pub(crate) looked_up: lookups::Count,
    /// Those of the command that runs.
    pub(super) looking_up: lookups::Count,
    pub(crate) misses: Misses,
    /// By how much the number of keys of each database changes.
    pub(super) sizes: [i64; databases::DATABASES],
    pub(crate) effects: Effects,
    /// The bytes of the messages among the effects.
    pub(super) message_bytes: usize,
    begin: Option<Begin>,
    /// The collection that was named last.
    pub(super) last: Option<Arc<Last>>,
    /// The keys that nobody else can change meanwhile.
    pub(crate) held: Held,
    /// Someone may listen to changes of keys.
    pub(crate) tells_events: bool,
    /// Replicas learn from the commit which keys have changed.
    pub(crate) is_followed: bool,
    /// Someone watches all calls.
    pub(crate) shows_calls: bool,
    /// The number of those who listen to a channel.
    pub(crate) listeners: Option<&'a Listeners<'a>>,
    /// Milliseconds since 1970, the same for all commands.
    pub(crate) now: u64,
    /// The selected database.
    pub(crate) db: usize,
    pub(crate) resp3: bool,
    /// The rules of the user, unless everything is allowed.
    pub(crate) rules: Option<Arc<Rules>>,
    /// The map of slots, if there is one.
    pub(crate) cluster: Option<&'a Cluster>,
    /// The command runs for a client that waits.
    pub(crate) is_waiting: bool,
    /// The error for whatever writes, if nothing may.
    pub(crate) refusal: Option<&'static str>,
    /// The bytes that the reply may take.
    pub(crate) room: Room,
    /// The memory in which entries are encoded.
    pub(super) scratch: Vec<u8>,
}

impl<'a> Txn<'a> {
    /// The state of one moment. The keyspaces are looked up first, so that the state has them.
    pub(crate) fn new(databases: &'a Databases, mode: Mode, now: u64) -> hedgerow::Result<Txn<'a>> {
        let map = databases.map();
        let batch = databases.db().indexed_batch()?;
        Ok(Txn::over((databases, map), batch, (mode, now)))
    }

    /// The present state, for an attempt that holds the keys that it reads.
    pub(crate) fn of_present(databases: &'a Databases, mode: Mode, now: u64) -> Txn<'a> {
        let (map, batch) = (databases.map(), databases.db().present_batch());
        Txn::over((databases, map), batch, (mode, now))
    }

    fn over(
        (databases, map): (&'a Databases, Guard<Arc<Map>>),
        mut batch: IndexedBatch,
        (mode, now): (Mode, u64),
    ) -> Txn<'a> {
        batch.set_memory_max(BATCH_BYTES_MAX);
        Txn {
            map,
            batch,
            reads_once: false,
            has_read: false,
            databases,
            mode,
            wanted: Vec::new(),
            looked_up: [0; 2],
            looking_up: [0; 2],
            misses: Misses::default(),
            sizes: Default::default(),
            effects: Effects::default(),
            message_bytes: 0,
            begin: None,
            last: None,
            held: Held::Some(Vec::new()),
            tells_events: true,
            is_followed: false,
            shows_calls: false,
            listeners: None,
            now,
            db: 0,
            resp3: false,
            rules: None,
            cluster: None,
            is_waiting: false,
            refusal: None,
            room: Room::ENDLESS,
            scratch: Vec::new(),
        }
    }

    /// Lets everything be read as it was at one moment. What was read of held keys is the same.
    pub(crate) fn pin(&self) {
        self.batch.snapshot();
    }

    /// Lets each command read one entry of the present; [`Stop::Snapshot`] ends one that reads
    /// more.
    pub(crate) fn read_once(&mut self) {
        self.reads_once = true;
    }

    /// Returns true if no database was replaced since the beginning.
    pub(crate) fn has_present_map(&self) -> bool {
        Arc::ptr_eq(&self.map, &self.databases.map())
    }

    // ---- one command after the other ----

    /// Begins a command, which can be undone.
    pub(crate) fn begin(&mut self) {
        self.looking_up = [0; 2];
        self.misses.forget();
        if self.reads_once {
            self.has_read = false;
            // Others may have changed it.
            self.last = None;
        }
        self.begin = Some(Begin {
            savepoint: self.batch.savepoint(),
            effects: self.effects.lengths(),
            sizes: self.sizes,
            last: self.last.clone(),
            db: self.db,
            message_bytes: self.message_bytes,
        });
    }

    /// Runs a command as a part of another one. Undoes what it did if it fails.
    #[cfg(feature = "lua")]
    pub(crate) fn nested<T>(&mut self, run: impl FnOnce(&mut Self) -> Answer<T>) -> Answer<T> {
        let outer = self.begin.take();
        self.begin();
        let answer = run(self);
        if answer.is_err() {
            self.undo()?;
        }
        self.begin = outer;
        answer
    }

    /// Returns true if nobody else can change these keys before the commit.
    #[cfg(feature = "lua")]
    pub(crate) fn holds_all(&self, keys: &[&[u8]]) -> bool {
        let stripe = |key: &[u8]| Stripes::of(self.databases.hash(key));
        match &self.held {
            Held::All => true,
            Held::Some(held) => keys
                .iter()
                .all(|key| held.binary_search(&stripe(key)).is_ok()),
        }
    }

    pub(crate) fn databases(&self) -> &'a Databases {
        self.databases
    }

    #[cfg(feature = "lua")]
    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// Undoes everything since the last beginning.
    pub(crate) fn undo(&mut self) -> hedgerow::Result<()> {
        if let Some(begin) = &self.begin {
            self.last = begin.last.clone();
            self.batch.roll_back_to(begin.savepoint)?;
            self.effects.truncate(begin.effects);
            (self.sizes, self.db) = (begin.sizes, begin.db);
            self.message_bytes = begin.message_bytes;
        }
        Ok(())
    }

    pub(crate) fn has_writes(&self) -> bool {
        !self.batch.batch().is_empty() || self.lacks_last()
    }

    /// Returns true if its commit would wait for the engine's flushes or merges.
    pub(crate) fn is_delayed(&self) -> bool {
        let bytes = self.batch.batch().bytes();
        self.has_writes() && self.databases.db().delays_write(bytes)
    }

    /// Counts the keys that a command has looked up, if it only reads.
    pub(crate) fn count_lookups(&mut self, only_reads: bool) {
        let [found, missed] = std::mem::take(&mut self.looking_up);
        if only_reads {
            self.looked_up[0] += found;
            self.looked_up[1] += missed;
        }
    }

    /// Commits all writes, which then survive the process. Returns what is left to do.
    pub(crate) fn commit(mut self) -> hedgerow::Result<Effects> {
        // Its database is there: nothing else can stop it.
        if let Err(Stop::Engine(error)) = self.write_last() {
            return Err(error);
        }
        for (database, size) in self.map.iter().zip(self.sizes) {
            if let (Some(database), true) = (database, size != 0) {
                let server = &self.databases.server;
                self.batch
                    .merge(server, &database.size_key, size.to_le_bytes())?;
            }
        }
        if self.has_writes() {
            self.batch.commit(Durability::Buffered)?;
        }
        Ok(self.effects)
    }

    // ---- entries of the engine ----

    pub(crate) fn get(&mut self, db: usize, space: Space, key: &[u8]) -> Answer<Option<Slice>> {
        let Some(Some(database)) = self.map.get(db) else {
            return Ok(None);
        };
        if self.reads_once && std::mem::replace(&mut self.has_read, true) {
            return Err(Stop::Snapshot);
        }
        let wanted = (self.mode, &mut self.wanted);
        read(&mut self.batch, wanted, database.space(space), key)
    }

    /// Ends a command that reads several entries if it may not.
    fn check_snapshot(&self) -> Answer<()> {
        match self.reads_once {
            true => Err(Stop::Snapshot),
            false => Ok(()),
        }
    }

    /// The kept parts of several values. In memory mode all that are missing are asked for
    /// together.
    pub(crate) fn get_all<T>(
        &mut self,
        (db, space): (usize, Space),
        keys: &[Vec<u8>],
        mut kept: impl FnMut(Option<Slice>) -> Answer<T>,
    ) -> Answer<Vec<T>> {
        self.check_snapshot()?;
        let Some(Some(database)) = self.map.get(db) else {
            return keys.iter().map(|_| kept(None)).collect();
        };
        let keyspace = database.space(space);
        if self.mode == Mode::Memory {
            let (mode, batch, wanted) = (self.mode, &mut self.batch, &mut self.wanted);
            let read = |key: &Vec<u8>| kept(read(batch, (mode, wanted), keyspace, key)?);
            return together(keys.iter().map(read));
        }
        let (mut found, mut sizes, mut left) = (Vec::new(), Sizes::default(), keys);
        while !left.is_empty() {
            let (part, behind) = sizes.next(left);
            for value in self.batch.multi_get(keyspace, part)? {
                sizes.note(value.as_ref());
                found.push(kept(value)?);
            }
            left = behind;
        }
        Ok(found)
    }

    pub(crate) fn put(&mut self, db: usize, space: Space, key: &[u8], value: &[u8]) -> Answer<()> {
        self.batch
            .put(databases::space_of(&self.map, db, space)?, key, value)?;
        Ok(())
    }

    pub(crate) fn delete(&mut self, db: usize, space: Space, key: &[u8]) -> Answer<()> {
        self.batch
            .delete(databases::space_of(&self.map, db, space)?, key)?;
        Ok(())
    }

    pub(crate) fn delete_range(
        &mut self,
        db: usize,
        space: Space,
        range: std::ops::Range<Vec<u8>>,
    ) -> Answer<()> {
        let keyspace = databases::space_of(&self.map, db, space)?;
        self.batch.delete_range(keyspace, range)?;
        Ok(())
    }

    /// Deletes all that is in a keyspace of a database.
    #[cfg(feature = "lua")]
    pub(super) fn delete_all(&mut self, db: usize, space: Space) -> Answer<()> {
        let keyspace = databases::space_of(&self.map, db, space)?;
        self.batch.delete_range::<&[u8]>(keyspace, ..)?;
        Ok(())
    }

    /// Stops a command that walks over many elements in memory mode.
    pub(crate) fn may_walk(&self, count: u64) -> Answer<()> {
        if self.mode == Mode::Memory && count > SCANNED_IN_MEMORY_MAX {
            return Err(Stop::Device);
        }
        Ok(())
    }

    /// The entries from `from` on, up to `to`, in order; `count` says how many the caller expects
    /// to walk over at most.
    pub(crate) fn scan(
        &mut self,
        db: usize,
        space: Space,
        range: std::ops::Range<Vec<u8>>,
        count: u64,
    ) -> Answer<impl DoubleEndedIterator<Item = Answer<(Slice, Slice)>> + use<>> {
        self.check_snapshot()?;
        self.may_walk(count)?;
        if space == Space::Meta {
            self.write_last()?;
        }
        let database = self.map.get(db).and_then(Option::as_ref);
        let space = database.map(|it| it.space(space));
        let scan = space.map(|space| match self.mode {
            Mode::Memory => self.batch.scan_if_cached(space, range),
            Mode::Device => self.batch.scan(space, range),
        });
        let scan = scan.transpose()?;
        Ok(scan.into_iter().flatten().map(|item| Ok(item?)))
    }

    // ---- databases ----

    /// The number of keys of a database.
    pub(crate) fn size(&mut self, db: usize) -> Answer<i64> {
        let Some(Some(database)) = self.map.get(db) else {
            return Ok(0);
        };
        // Nobody holds it.
        self.pin();
        let (server, key) = (&self.databases.server, &database.size_key);
        let stored = match self.mode {
            Mode::Device => self.batch.get(server, key)?,
            Mode::Memory => match self.batch.get_if_cached(server, key)? {
                // To read it ahead is no help: memory alone does not add up the changes.
                MemoryAnswer::Unknown => return Err(Stop::Device),
                found => found.value(),
            },
        };
        let stored = stored.map(|stored| stored.as_bytes().try_into().map_err(|_| Stop::damaged()));
        let stored = stored.transpose()?.map_or(0, i64::from_le_bytes);
        Ok(stored + self.sizes[db])
    }
}

/// The value of a key. In memory mode a key that memory does not know is added to the wanted ones.
fn read(
    batch: &mut IndexedBatch,
    (mode, wanted): (Mode, &mut Vec<Wanted>),
    keyspace: &Keyspace,
    key: &[u8],
) -> Answer<Option<Slice>> {
    if mode == Mode::Device {
        return Ok(batch.get(keyspace, key)?);
    }
    match batch.get_if_cached(keyspace, key)? {
        MemoryAnswer::Unknown => {
            wanted.push((keyspace.clone(), key.to_vec()));
            Err(Stop::Read)
        }
        found => Ok(found.value()),
    }
}
