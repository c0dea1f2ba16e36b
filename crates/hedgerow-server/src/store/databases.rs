//! The databases 0 to 15: which keyspaces each of them is, and the counters that outlive the
//! process.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};
#[cfg(feature = "lua")]
use hedgerow::Durability;
use hedgerow::{Db, Error, ErrorKind, Keyspace, Layout, Result};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{Answer, Stop, format};
use crate::clock;

/// The keyspace of what all databases share.
pub(crate) const SERVER: &str = "server";
/// The number of databases.
pub(crate) const DATABASES: usize = 16;
/// The versions that are reserved by one write.
const VERSIONS_RESERVED: u64 = 1 << 16;
pub(crate) const MAP: &[u8] = b"map";
const SEED: &[u8] = b"seed";
const VERSIONS: &[u8] = b"versions";
/// The prefix of the name of a library of functions.
#[cfg(feature = "lua")]
pub(crate) const LIBRARY: &[u8] = b"l";
/// The operator of the keyspace `server`, for numbers of keys.
const OPERATOR: &str = "add_i64";

/// The keyspaces of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    /// One entry for each key.
    Meta = 0,
    /// Elements that are read by name.
    Elements = 1,
    /// Elements in order.
    Ordered = 2,
    /// Times of expiry.
    Expiry = 3,
}

const LETTERS: [char; 4] = ['m', 'e', 's', 't'];

/// A database that has, or had, keys.
pub(crate) struct Database {
    generation: u64,
    spaces: [Keyspace; 4],
    /// The key of its number of keys, in the keyspace `server`.
    pub(crate) size_key: Vec<u8>,
}

impl Database {
    pub(crate) fn space(&self, space: Space) -> &Keyspace {
        &self.spaces[space as usize]
    }

    fn names(generation: u64) -> [String; 4] {
        LETTERS.map(|letter| format!("{letter}{generation}"))
    }

    fn size_key(generation: u64) -> Vec<u8> {
        [b"n", &generation.to_be_bytes()[..]].concat()
    }
}

/// The database with each number; `None` if it has no keys.
pub(crate) type Map = [Option<Arc<Database>>; DATABASES];

/// See the module.
pub(crate) struct Databases {
    db: Db,
    pub(crate) server: Keyspace,
    map: ArcSwap<Map>,
    /// Held while the map changes.
    changing: Mutex<Change>,
    versions: AtomicU64,
    versions_end: AtomicU64,
    seed: u64,
    #[cfg(feature = "lua")]
    pub(crate) scripts: crate::scripting::Scripts,
}

struct Change {
    next_generation: u64,
    /// Flushed databases that a command may still read.
    flushed: Vec<Arc<Database>>,
    /// A replica may have got keyspaces of flushed databases with a copy.
    may_have_unused: bool,
}

/// The state in which an opening finds the databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Whole,
    /// Those of a replica. The last keyspaces may be of a database that is not in the map yet.
    OfReplica,
    /// A repair may have lost the map and the bound of versions, or found older ones.
    Repaired,
}

impl Databases {
    pub(crate) fn open(db: &Db, found: Found) -> Result<Databases> {
        let server = db.keyspace(SERVER, Layout::sorted().merge_operator(OPERATOR))?;
        // A replica has the commits of its primary, and none of its own.
        format::check(&server, found != Found::OfReplica)?;
        let seed = match server.get(SEED)? {
            Some(stored) => number(&stored)?,
            None => {
                let seed = fastrand::u64(..);
                server.put(SEED, seed.to_be_bytes())?;
                seed
            }
        };
        if found == Found::Repaired {
            restore(db, &server)?;
        }
        let generations = stored_map(&server)?.unwrap_or_default();
        if found == Found::Whole {
            remove_unused(db, &generations)?;
        }
        let versions = stored_versions(&server)?;
        let mut map: Map = Default::default();
        for (database, generation) in map.iter_mut().zip(generations) {
            if let Some(generation) = generation {
                *database = Some(Arc::new(open_database(db, generation)?));
            }
        }
        let databases = Databases {
            db: db.clone(),
            map: ArcSwap::from_pointee(map),
            changing: Mutex::new(Change {
                // The version is above every generation that was used.
                next_generation: versions,
                flushed: Vec::new(),
                may_have_unused: found == Found::OfReplica,
            }),
            versions: AtomicU64::new(versions),
            versions_end: AtomicU64::new(versions),
            server,
            seed,
            #[cfg(feature = "lua")]
            scripts: crate::scripting::Scripts::default(),
        };
        Ok(databases)
    }

    pub(crate) fn db(&self) -> &Db {
        &self.db
    }

    /// The present map. A guard does not count references, which all threads would write to.
    pub(crate) fn map(&self) -> Guard<Arc<Map>> {
        self.map.load()
    }

    /// The hash of a key or field.
    pub(crate) fn hash(&self, bytes: &[u8]) -> u64 {
        xxh3_64_with_seed(bytes, self.seed)
    }

    /// A version that no collection has ever had. Costs a write for each 65,536 of them.
    pub(crate) fn new_version(&self) -> Result<u64> {
        loop {
            let end = self.versions_end.load(Ordering::Acquire);
            let version = self.versions.load(Ordering::Relaxed);
            if version >= end {
                self.reserve(&mut self.change())?;
                continue;
            }
            let next = version + 1;
            let exchanged = self.versions.compare_exchange_weak(
                version,
                next,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            if exchanged.is_ok() {
                return Ok(version);
            }
        }
    }

    /// Reserves versions, unless another thread just has.
    fn reserve(&self, _change: &mut Change) -> Result<()> {
        let end = self.versions_end.load(Ordering::Acquire);
        if self.versions.load(Ordering::Relaxed) < end {
            return Ok(());
        }
        let end = end + VERSIONS_RESERVED;
        self.server.put(VERSIONS, end.to_be_bytes())?;
        self.versions_end.store(end, Ordering::Release);
        Ok(())
    }

    /// Makes the keyspaces of a database that has none.
    pub(crate) fn create(&self, number: usize) -> Result<()> {
        let mut change = self.change();
        let mut map = Map::clone(&self.map());
        if map[number].is_some() {
            return Ok(());
        }
        let generation = self.new_generation(&mut change)?;
        map[number] = Some(Arc::new(open_database(&self.db, generation)?));
        self.store(map)
    }

    fn new_generation(&self, change: &mut Change) -> Result<u64> {
        // Generations and versions share a bound: neither is ever used twice.
        if change.next_generation + 1 >= self.versions_end.load(Ordering::Acquire) {
            let end = self.versions_end.load(Ordering::Acquire) + VERSIONS_RESERVED;
            self.server.put(VERSIONS, end.to_be_bytes())?;
            self.versions_end.store(end, Ordering::Release);
        }
        let generation = change.next_generation;
        change.next_generation += 1;
        Ok(generation)
    }

    /// Empties these databases by one write. The caller holds all stripes.
    pub(crate) fn flush(&self, numbers: &[usize]) -> Result<()> {
        let mut change = self.change();
        let mut map = Map::clone(&self.map());
        let flushed = numbers.iter().filter_map(|number| map[*number].take());
        let flushed: Vec<_> = flushed.collect();
        if flushed.is_empty() {
            return Ok(());
        }
        self.store(map)?;
        change.flushed.extend(flushed);
        Ok(())
    }

    /// Exchanges two databases by one write. The caller holds all stripes.
    pub(crate) fn swap(&self, one: usize, other: usize) -> Result<()> {
        let _change = self.change();
        let mut map = Map::clone(&self.map());
        map.swap(one, other);
        self.store(map)
    }

    /// The database that has this generation.
    pub(crate) fn of_generation(&self, generation: u64) -> Option<usize> {
        let has = |it: &Option<Arc<Database>>| {
            it.as_ref()
                .is_some_and(|database| database.generation == generation)
        };
        self.map().iter().position(has)
    }

    /// Takes over what another server has written: the map and the bound of versions.
    pub(crate) fn reload(&self) -> Result<()> {
        format::check(&self.server, false)?;
        let mut change = self.change();
        let generations = stored_map(&self.server)?.unwrap_or_default();
        let before = self.map();
        let known = |generation: u64| {
            let mut all = before.iter().flatten();
            all.find(|database| database.generation == generation)
        };
        let mut map: Map = Default::default();
        for (database, generation) in map.iter_mut().zip(generations) {
            *database = match generation {
                None => None,
                Some(generation) => Some(match known(generation) {
                    Some(known) => known.clone(),
                    None => Arc::new(open_database(&self.db, generation)?),
                }),
            };
        }
        let is_gone = |it: &&Arc<Database>| !generations.contains(&Some(it.generation));
        let gone = before.iter().flatten().filter(is_gone).cloned();
        change.flushed.extend(gone);
        change.may_have_unused = true;
        drop(before);
        self.map.store(Arc::new(map));
        let versions = stored_versions(&self.server)?;
        change.next_generation = change.next_generation.max(versions);
        self.versions.fetch_max(versions, Ordering::Relaxed);
        self.versions_end.fetch_max(versions, Ordering::Release);
        Ok(())
    }

    /// Restores what a repair may have lost. Takes effect with [`Databases::reload`].
    pub(crate) fn restore(&self) -> Result<()> {
        restore(&self.db, &self.server)
    }

    /// Removes the keyspaces of flushed databases that nobody reads any more. A replica leaves the
    /// entry of their number of keys to its primary.
    pub(crate) fn drop_flushed(&self, is_replica: bool) -> Result<()> {
        let flushed = std::mem::take(&mut self.change().flushed);
        let mut kept = Vec::new();
        let mut result = Ok(());
        for database in flushed {
            match Arc::try_unwrap(database) {
                Ok(database) => {
                    let dropped = self.drop_keyspaces(database.generation, is_replica);
                    result = result.and(dropped);
                }
                Err(database) => kept.push(database),
            }
        }
        let unused = {
            let mut change = self.change();
            change.flushed.append(&mut kept);
            let looks = is_replica && std::mem::take(&mut change.may_have_unused);
            looks.then(|| self.unused_before_last(&change))
        };
        let dropped = unused
            .into_iter()
            .flatten()
            .try_for_each(|name| self.db.drop_keyspace(&name));
        if dropped.is_err() {
            self.change().may_have_unused = true;
        }
        result.and(dropped)
    }

    /// The keyspaces of databases that were flushed before a replica knew of them. The primary may
    /// be about to use the last ones.
    fn unused_before_last(&self, change: &Change) -> Vec<String> {
        let map = self.map();
        let used = map.iter().flatten().chain(&change.flushed);
        let used: BTreeSet<u64> = used.map(|it| it.generation).collect();
        let last = used.last().copied().unwrap_or(0);
        let is_unused = |name: &String| {
            let generation = generation_of(name).map(|it| it.1);
            generation.is_some_and(|it| it < last && !used.contains(&it))
        };
        self.db.keyspaces().into_iter().filter(is_unused).collect()
    }

    fn drop_keyspaces(&self, generation: u64, is_replica: bool) -> Result<()> {
        for name in Database::names(generation) {
            self.db.drop_keyspace(&name)?;
        }
        match is_replica {
            true => Ok(()),
            false => self.server.delete(Database::size_key(generation)),
        }
    }

    fn store(&self, map: Map) -> Result<()> {
        let generations = map.each_ref().map(|it| it.as_ref().map(|it| it.generation));
        self.server.put(MAP, encode_map(&generations))?;
        self.map.store(Arc::new(map));
        Ok(())
    }

    /// The sources of the libraries of functions.
    #[cfg(feature = "lua")]
    pub(crate) fn stored_libraries(&self) -> Result<Vec<Vec<u8>>> {
        let stored = self.server.scan_prefix(LIBRARY)?;
        stored.map(|item| Ok(item?.1.to_vec())).collect()
    }

    /// Puts these libraries in the place of all others, as one commit.
    #[cfg(feature = "lua")]
    pub(crate) fn store_libraries(
        &self,
        libraries: Vec<Arc<crate::scripting::Library>>,
    ) -> Result<()> {
        let _change = self.change();
        let mut batch = self.db.batch();
        batch.delete_range(&self.server, LIBRARY..&[LIBRARY[0] + 1][..])?;
        for library in &libraries {
            let key = [LIBRARY, library.name.as_bytes()].concat();
            batch.put(&self.server, key, &library.source)?;
        }
        batch.commit(Durability::Buffered)?;
        self.scripts.set_libraries(libraries);
        Ok(())
    }

    fn change(&self) -> MutexGuard<'_, Change> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The keyspace to write to.
pub(super) fn space_of(map: &Map, number: usize, space: Space) -> Answer<&Keyspace> {
    match map.get(number) {
        Some(Some(database)) => Ok(database.space(space)),
        _ => Err(Stop::Database(number)),
    }
}

type Generations = [Option<u64>; DATABASES];

fn stored_map(server: &Keyspace) -> Result<Option<Generations>> {
    let stored = server.get(MAP)?;
    stored.map(|stored| decode_map(&stored)).transpose()
}

/// The bound of versions.
fn stored_versions(server: &Keyspace) -> Result<u64> {
    let stored = server.get(VERSIONS)?;
    stored.map_or(Ok(1), |it| number(&it))
}

/// Restores the map and the bound of versions behind a repair. If the map is lost, databases have
/// numbers in the order in which they were made, as if none was skipped or flushed. The bound goes
/// on at the clock: no server makes a version each microsecond.
fn restore(db: &Db, server: &Keyspace) -> Result<()> {
    let names = db.keyspaces();
    let made: BTreeSet<u64> = names
        .iter()
        .filter_map(|name| Some(generation_of(name)?.1))
        .collect();
    if stored_map(server)?.is_none() && !made.is_empty() {
        let mut generations = Generations::default();
        for (generation, made) in generations.iter_mut().zip(&made) {
            *generation = Some(*made);
        }
        server.put(MAP, encode_map(&generations))?;
    }
    let versions = made.last().map_or(1, |it| it + 1);
    let versions = versions.max(stored_versions(server)?);
    let versions = versions.max(clock::unix_micros());
    server.put(VERSIONS, versions.to_be_bytes())
}

/// The generation of the database that has a keyspace of this name, and the letter.
pub(crate) fn generation_of(keyspace: &str) -> Option<(char, u64)> {
    let generation = keyspace.strip_prefix(LETTERS)?.parse().ok()?;
    Some((keyspace.chars().next()?, generation))
}

fn open_database(db: &Db, generation: u64) -> Result<Database> {
    let names = Database::names(generation);
    let made = db.create_keyspaces(names.map(|name| (name, Layout::sorted())))?;
    let spaces = made.try_into().map_err(|made: Vec<Keyspace>| {
        let found = made.len();
        Error::new(
            ErrorKind::Corruption,
            format!("expected 4 keyspaces of a database, found {found}"),
        )
    })?;
    Ok(Database {
        generation,
        spaces,
        size_key: Database::size_key(generation),
    })
}

/// Removes the keyspaces of databases that were flushed before the process ended.
fn remove_unused(db: &Db, used: &[Option<u64>]) -> Result<()> {
    for name in db.keyspaces() {
        let generation = generation_of(&name);
        if generation.is_some_and(|(_, it)| !used.contains(&Some(it))) {
            db.drop_keyspace(&name)?;
        }
    }
    Ok(())
}

pub(super) fn number(bytes: &[u8]) -> Result<u64> {
    let number = bytes.try_into().map(u64::from_be_bytes);
    number.map_err(|_| {
        let found = bytes.len();
        Error::new(
            ErrorKind::Corruption,
            format!("expected a number of 8 bytes in the keyspace `server`, found {found} bytes"),
        )
    })
}

/// A generation of each database, 0 for none.
fn encode_map(generations: &Generations) -> Vec<u8> {
    let numbers = generations.iter().map(|it| it.unwrap_or(0).to_be_bytes());
    numbers.flatten().collect()
}

fn decode_map(stored: &[u8]) -> Result<Generations> {
    let (chunks, rest) = stored.as_chunks::<8>();
    let mut generations = [None; DATABASES];
    if chunks.len() != DATABASES || !rest.is_empty() {
        let found = stored.len();
        return Err(Error::new(
            ErrorKind::Corruption,
            format!(
                "expected a map of {} bytes, found {found} bytes",
                DATABASES * 8
            ),
        ));
    }
    for (generation, chunk) in generations.iter_mut().zip(chunks) {
        *generation = Some(u64::from_be_bytes(*chunk)).filter(|it| *it > 0);
    }
    Ok(generations)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generations(databases: &Databases) -> Vec<u64> {
        let map = databases.map();
        map.iter().flatten().map(|it| it.generation).collect()
    }

    #[test]
    fn a_replica_removes_what_was_flushed_before_its_copy() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path()).unwrap();
        let databases = Databases::open(&db, Found::Whole).unwrap();
        databases.create(0).unwrap();
        let flushed = generations(&databases)[0];
        databases.flush(&[0]).unwrap();
        databases.create(0).unwrap();
        let used = generations(&databases)[0];
        // The primary has made its keyspaces, and not yet written the map.
        open_database(&db, used + 1).unwrap();
        let replica = Databases::open(&db, Found::OfReplica).unwrap();
        replica.drop_flushed(true).unwrap();
        let is_there = |generation| {
            let name = &Database::names(generation)[0];
            db.existing_keyspace(name).is_some()
        };
        assert_eq!([flushed, used, used + 1].map(is_there), [false, true, true]);
        // A later one is used instead: the primary had failed to write the map.
        open_database(&db, used + 2).unwrap();
        let mut map = Generations::default();
        map[0] = Some(used + 2);
        replica.server.put(MAP, encode_map(&map)).unwrap();
        replica.reload().unwrap();
        replica.drop_flushed(true).unwrap();
        let expected = [false, false, true];
        assert_eq!([used, used + 1, used + 2].map(is_there), expected);
    }

    #[test]
    fn a_repaired_database_keeps_what_has_lost_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path()).unwrap();
        let databases = Databases::open(&db, Found::Whole).unwrap();
        databases.create(0).unwrap();
        let first = generations(&databases);
        let stored = databases.server.get(MAP).unwrap().unwrap();
        databases.create(2).unwrap();
        let made = generations(&databases);
        let version = databases.new_version().unwrap();
        // The map is an older one.
        databases.server.put(MAP, &stored).unwrap();
        databases.server.delete(VERSIONS).unwrap();
        let repaired = Databases::open(&db, Found::Repaired).unwrap();
        assert_eq!(generations(&repaired), first);
        assert!(repaired.new_version().unwrap() > version + VERSIONS_RESERVED);
        let names = db.keyspaces();
        assert!(
            Database::names(made[1])
                .iter()
                .all(|name| names.contains(name))
        );
        // It is lost.
        databases.server.delete(MAP).unwrap();
        for _ in 0..2 {
            let repaired = Databases::open(&db, Found::Repaired).unwrap();
            assert_eq!(generations(&repaired), made);
        }
        repaired.server.put(MAP, &stored).unwrap();
        Databases::open(&db, Found::Whole).unwrap();
        assert!(db.existing_keyspace(&Database::names(made[1])[0]).is_none());
    }
}
