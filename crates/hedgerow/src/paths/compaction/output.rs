//! Cuts the output of a flush or merge into tables. A table ends (1) when it reaches the target
//! size; (2) when it overlaps too many bytes of the next level, because merging it down would be
//! expensive; (3) if the next level is a single run, at the last table boundary there that still
//! fits, because a merge rewrites whole tables and a straddling one would be rewritten for nothing.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use hedgerow_io::ReadMode;

use crate::base::durable::sync_dir;
use crate::base::entry::RunId;
use crate::base::entry::{KeyHash, SeqNo, Tag};
use crate::base::error::{Error, Result};
use crate::base::options::IndexSpec;
use crate::base::page::TableId;
use crate::base::range_tombstones::RangeTombstones;
use crate::base::stats::Job;
use crate::base::table_meta::TableMeta;
use crate::design::in_force::DesignInForce;
use crate::design::merge_policy::LevelTarget;
use crate::design::merge_policy::shape::{Level, range_of};
use crate::group_filter::TableBuilder;
use crate::paths::group_filters;
use crate::table;
use crate::table::iter::{Entry, ValueSource};
use crate::table::memory::Buffers;
use crate::table::open::table_name;
use crate::table::{TableOptions, Writer};
use crate::tree::engine::Engine;
use crate::tree::partition::Partition;

use super::filters;
use super::filters::FilterAllotment;
use super::unsynced::SyncQueue;
use crate::design::table_ends::{NODE_TABLES, OVERLAP_TABLES_MAX, aligns, is_last_border};

/// The maximum number of groups of a level for which a bulk load cuts its tables: it does not know
/// its size in advance.
const LOADED_RANGES_MAX: u32 = 64;
/// The number of bytes between two checks of a long output for its end and its rate.
const PACE_BYTES: u64 = 128 << 10;

/// A table of the level below the output: its largest key, and its size.
pub(crate) type Below = (Vec<u8>, u64);

/// The tables of one output, written one after another. If it is dropped before it is finished, its
/// files are removed.
pub(crate) struct OutputTables<'a> {
    engine: &'a Engine,
    partition: &'a Partition,
    design: Arc<DesignInForce>,
    level: usize,
    /// The level in whose place the tables are written.
    level_of_place: usize,
    run: RunId,
    filter: FilterAllotment,
    index: IndexSpec,
    /// A table is cut when it keeps this many bytes in memory.
    held_bytes_max: usize,
    seqno_override: Option<SeqNo>,
    /// See [`TableOptions::settled`].
    pub(crate) settled: Option<SeqNo>,
    /// No table is begun in the last room of the disk, which flushes need.
    pub(crate) leaves_room: bool,
    /// The place in which the tables wait to be made durable together with others. Without it, they
    /// are durable when the output is finished.
    pub(crate) unsynced: Option<&'a mut SyncQueue>,
    /// Tables are cut at the borders of both of these numbers of ranges.
    ranges: [u32; 2],
    /// The maximum size of a table.
    table_bytes_max: u64,
    /// In key order; consumed as the output passes them.
    below: std::vec::IntoIter<Below>,
    next_below: Option<Below>,
    overlap_bytes: u64,
    /// The number of tables below that the current table has passed.
    borders: u64,
    /// See [`aligns`].
    aligns: bool,
    current: Option<Current<'a>>,
    last_key: Vec<u8>,
    /// The range tombstones that are not in a table yet.
    pub(crate) range_tombstones: RangeTombstones,
    finished: Vec<TableMeta>,
    written: Vec<PathBuf>,
    complete: bool,
}

struct Current<'a> {
    id: TableId,
    writer: Box<dyn Writer>,
    /// Its part in a filter over several runs.
    beside: Option<Box<dyn TableBuilder>>,
    path: PathBuf,
    paced_bytes: u64,
    buffers: Buffers<'a>,
}

impl<'a> OutputTables<'a> {
    /// An output for a level of the tree as it is.
    pub(crate) fn new(
        engine: &'a Engine,
        partition: &'a Partition,
        design: Arc<DesignInForce>,
        level: usize,
        run: RunId,
    ) -> OutputTables<'a> {
        let filters = filters::allot(
            &engine.memory,
            partition,
            &design,
            &partition.tree().version,
        );
        let filter = filters.get(level).copied().unwrap_or_default();
        OutputTables::with(engine, partition, design, (level, run), filter, Vec::new())
    }

    /// An output with this filter, cut where it would overlap too much of the tables below.
    pub(crate) fn with(
        engine: &'a Engine,
        partition: &'a Partition,
        design: Arc<DesignInForce>,
        (level, run): (usize, RunId),
        filter: FilterAllotment,
        below: Vec<Below>,
    ) -> OutputTables<'a> {
        let tree = partition.tree_owned();
        let targets = design.targets(&tree.version);
        let target = targets.get(level);
        let of_nodes = target.is_some_and(LevelTarget::is_of_nodes);
        let ranges = target.map_or(1, LevelTarget::ranges);
        let found = tree.version.levels.get(level).map_or(1, Level::ranges);
        let mut below = if of_nodes { Vec::new() } else { below }.into_iter();
        let next_below = below.next();
        OutputTables {
            ranges: [ranges, found],
            table_bytes_max: design.table_bytes * if of_nodes { NODE_TABLES } else { 1 },
            engine,
            partition,
            index: design.design.index_at(level),
            design,
            level,
            level_of_place: level,
            run,
            filter,
            held_bytes_max: usize::MAX,
            seqno_override: None,
            settled: None,
            leaves_room: false,
            unsynced: None,
            below,
            next_below,
            overlap_bytes: 0,
            borders: 0,
            aligns: target.is_some() && aligns(&targets, level),
            current: None,
            last_key: Vec::new(),
            range_tombstones: RangeTombstones::default(),
            finished: Vec::new(),
            written: Vec::new(),
            complete: false,
        }
    }

    /// The output of a bulk load, one of several that are written at the same time; each may keep
    /// this many bytes in memory. All entries have this number, until the manifest gives them
    /// another.
    pub(crate) fn of_bulk_load(
        engine: &'a Engine,
        partition: &'a Partition,
        design: Arc<DesignInForce>,
        seqno: SeqNo,
        held_bytes_max: usize,
    ) -> Result<OutputTables<'a>> {
        let run = RunId(engine.writer()?.ids.next_table().0);
        let filters = filters::allot(
            &engine.memory,
            partition,
            &design,
            &partition.tree().version,
        );
        // The tables go as deep as possible, where they are cut at the borders.
        let filter = filters.last().copied().unwrap_or_default();
        let mut output =
            OutputTables::with(engine, partition, design, (0, run), filter, Vec::new());
        let version = &partition.tree_owned().version;
        output.level_of_place = version.depth() - 1;
        let ranges = version.levels.iter().map(Level::ranges);
        let ranges = ranges.filter(|ranges| *ranges <= LOADED_RANGES_MAX);
        output.ranges = [ranges.max().unwrap_or(1), 1];
        output.index = output.design.design.index_at(usize::MAX);
        output.held_bytes_max = held_bytes_max;
        output.seqno_override = Some(seqno);
        Ok(output)
    }

    /// Appends an entry, in order.
    pub(crate) fn add(&mut self, entry: &Entry<'_>, value: &[u8]) -> Result<()> {
        let same_key = self.current.is_some() && self.last_key == entry.key;
        if !same_key {
            let passes = self.pass(entry.key);
            let too_wide = self.overlap_bytes > OVERLAP_TABLES_MAX * self.design.table_bytes;
            let is_beyond =
                |ranges| range_of(&self.last_key, ranges) != range_of(entry.key, ranges);
            let full = |c: &Current| {
                let bytes = c.writer.estimated_bytes();
                bytes >= self.table_bytes_max
                    || (passes && is_last_border(self.borders, bytes, self.table_bytes_max))
                    || self.ranges.into_iter().any(is_beyond)
                    || c.buffers.bytes() >= self.held_bytes_max
                    || (too_wide && c.writer.entries() > 0)
            };
            // The versions of one key stay in one table, so that tables of a run do not overlap.
            if self.current.as_ref().is_some_and(full)
                && let Some(cut) = self.range_tombstones.cut_between(&self.last_key, entry.key)
            {
                let ranges = self.range_tombstones.take_before(&cut);
                self.finish_table(&ranges)?;
            }
            self.last_key.clear();
            self.last_key.extend_from_slice(entry.key);
        }
        let current = match &mut self.current {
            Some(current) => current,
            None => {
                let current = self.begin_table()?;
                self.current.insert(current)
            }
        };
        let user_key = self.partition.keyspace.order.decode(entry.key);
        let hash = KeyHash::of(user_key, self.partition.keyspace.seed);
        current.writer.add(entry, value, hash)?;
        if let Some(beside) = current.beside.as_mut().filter(|_| !same_key) {
            beside.add(hash);
        }
        let bytes = current.writer.estimated_bytes();
        if bytes >= current.paced_bytes + PACE_BYTES {
            let wrote = bytes - current.paced_bytes;
            current.paced_bytes = bytes;
            let beside = current.beside.as_ref().map_or(0, |it| it.memory_bytes());
            let held = current.writer.memory_bytes() + beside;
            current.buffers.resize(held);
            self.engine.pace(wrote)?;
        }
        Ok(())
    }

    /// Adds a delete of one key that the first range deletes, since a table has entries.
    fn add_stand_in(&mut self) -> Result<()> {
        let order = &self.partition.keyspace.order;
        let Some(fragment) = self.range_tombstones.fragments().first() else {
            return Ok(());
        };
        let newest = &fragment.deletes[0];
        let mut key = fragment.start.clone();
        if let Some(prefix) = &newest.prefix {
            key.clear();
            order.encode(&order.key_of_prefix(prefix), &mut key);
        }
        let entry = Entry {
            key: &key,
            seqno: newest.seqno,
            tag: Tag::DELETE,
            value: ValueSource::Inline(b""),
        };
        self.add(&entry, b"")
    }

    /// Finishes the last table, and makes the names of all tables durable, unless they wait for
    /// that.
    pub(crate) fn finish(mut self) -> Result<Vec<TableMeta>> {
        if self.current.is_none() {
            self.add_stand_in()?;
        }
        let ranges = std::mem::take(&mut self.range_tombstones);
        self.finish_table(&ranges)?;
        if !self.finished.is_empty() {
            let directories = &self.engine.directories;
            let dir = directories.tables(directories.places.of_level(self.level_of_place));
            match &mut self.unsynced {
                Some(unsynced) => unsynced.add_dir(dir),
                None => sync_dir(&*self.engine.environment.storage, &dir)?,
            }
        }
        self.complete = true;
        let written = self.finished.iter().map(|meta| meta.entries).sum();
        filters::steer(&self.engine.memory, self.partition, &self.design, written);
        Ok(std::mem::take(&mut self.finished))
    }

    /// Counts the tables below that lie wholly before `key`. Returns true if the current table has
    /// newly passed some, and tables are aligned with those below.
    fn pass(&mut self, key: &[u8]) -> bool {
        let before = self.borders;
        while let Some((largest, bytes)) = &self.next_below {
            if largest.as_slice() >= key {
                break;
            }
            self.overlap_bytes += bytes;
            self.borders += 1;
            self.next_below = self.below.next();
        }
        self.aligns && self.borders > before
    }

    /// A merge that fills the disk fails in the end, and until then every flush does so, too, and
    /// writes are refused.
    fn check_room(&self, dir: &Path) -> Result<()> {
        if !self.leaves_room {
            return Ok(());
        }
        let refused = |e| Error::io("begin a table in", dir, e);
        let memory = &self.engine.memory;
        let [active, sealed] = [&*memory.active, &memory.sealed].map(|it| it.load(Relaxed));
        let (table, kept) = (self.design.table_bytes, active + sealed);
        let storage = &self.engine.environment.storage;
        let available = storage.available_bytes(dir).map_err(refused)?;
        if available >= table + kept {
            return Ok(());
        }
        let text = format!(
            "expected room for {table} bytes beside {kept} bytes of memtables, found {available}"
        );
        Err(refused(io::Error::new(io::ErrorKind::StorageFull, text)))
    }

    fn begin_table(&mut self) -> Result<Current<'a>> {
        let id = self.engine.writer()?.ids.next_table();
        let directories = &self.engine.directories;
        let place = directories.places.of_level(self.level_of_place);
        let dir = directories.tables(place);
        self.check_room(&dir)?;
        let path = dir.join(table_name(id));
        // A failed create may have left a file, too.
        self.written.push(path.clone());
        let storage = &self.engine.environment.storage;
        let file = match self.engine.tables.read_mode {
            ReadMode::Direct => storage.create_direct(&path),
            ReadMode::Pread | ReadMode::Mmap => storage.create(&path),
        };
        let file = file.map_err(|e| Error::io("create", &path, e))?;
        let facts = &self.partition.keyspace;
        let design = &self.design.design;
        let options = TableOptions {
            id,
            keyspace: facts.id.0,
            partition: self.partition.id.0,
            level: self.level as u8,
            run: self.run.0,
            path: place,
            hash_seed: facts.seed,
            key_order: facts.key_order,
            seqno_override: self.seqno_override,
            settled: self.settled,
            block_bytes: design.block_bytes,
            compression: design.compression,
            table: design.table,
            index: self.index,
            filter: self.filter.of_table(id),
        };
        (self.overlap_bytes, self.borders) = (0, 0);
        let writer = table::format::writer(file, &path, options);
        let buffers = self.engine.memory.buffers(writer.memory_bytes());
        Ok(Current {
            id,
            writer,
            beside: self.filter.beside(),
            path,
            paced_bytes: 0,
            buffers,
        })
    }

    fn finish_table(&mut self, ranges: &RangeTombstones) -> Result<()> {
        let Some(current) = self.current.take() else {
            return Ok(());
        };
        let finished = current.writer.finish(ranges);
        let (meta, mut file) = finished.map_err(|e| e.at(&current.path, None))?;
        match &mut self.unsynced {
            Some(unsynced) => unsynced.add(current.path, file)?,
            None => {
                let synced = file.sync();
                synced.map_err(|e| Error::io("sync", &current.path, e))?;
            }
        }
        self.finished.push(meta);
        let Some(beside) = current.beside else {
            return Ok(());
        };
        let cx = group_filters::context(self.engine, self.partition, &self.design);
        let version = self.partition.tree_owned().version.clone();
        let at = (self.level, current.id);
        match beside.finish(&cx, &version, at) {
            Ok(filter) => self.partition.filters.keep(current.id, filter),
            Err(error) => {
                // Nothing depends on a filter: it is built later from the table.
                self.engine.check_open()?;
                cx.host.report(Job::WriteFilter, error);
            }
        }
        Ok(())
    }
}

impl Drop for OutputTables<'_> {
    fn drop(&mut self) {
        if !self.complete {
            let finished = self.finished.iter().map(|meta| meta.id);
            self.partition.filters.forget(finished);
            for path in &self.written {
                // A file that stays behind is removed when the database is opened again.
                let _ = self.engine.environment.storage.remove(path);
            }
        }
    }
}
