//! The path of a bulk load: entries in key order become tables at once, past the log and the
//! memtables. If users cannot know the key order, the load sorts the entries first (`sorting.rs`).
//!
//! The tables are written before the commit number of the load is known. Their entries have a
//! number from its beginning, and the manifest has the number that counts
//! ([`TableMeta::seqno_override`]). That number is taken at the end, when the tables are durable,
//! and no larger number is published before they are in place. So the load is newer than everything
//! published before and older than everything after.
//!
//! The load relies on the order of steps at the end ([`put_in_place`]):
//! * Entries with smaller numbers are in tables below the load's tables, so that newer stays above
//!   older (P1). So memtables are flushed first: once without blocking writers, and once for the
//!   writes made meanwhile, while writers wait for publication.
//! * The log is durable up to the load's number before the edit that names its tables (I7).
//! * One edit names the tables of all partitions, and no snapshot is taken between installing them
//!   and publishing them (I4).
//!
//! Cost: every entry is written once; at the end a sync of the log and one of the manifest.

mod sorting;

use std::sync::Arc;

use crate::base::entry::RunId;
use crate::base::entry::{KeyHash, Kind, SeqNo, Tag, check_stored, front_bytes};
use crate::base::error::{Error, Result};
use crate::base::expiry;
use crate::base::expiry::Expiry;
use crate::base::table_meta::TableMeta;
use crate::design::merge_policy::tree_edit::TreeEdit;
use crate::paths::background;
use crate::paths::background::{HeldFlushes, wait};
use crate::paths::compaction;
use crate::paths::compaction::output::OutputTables;
use crate::paths::write;
use crate::table::iter::{Entry, ValueSource};
use crate::table::memory::MergeMemory;
use crate::tree::engine::{Engine, KeyspaceState};
use crate::tree::partition::Partition;
use sorting::Sorter;

/// The outcome of a bulk load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BulkLoadReport {
    /// Entries.
    pub entries: u64,
    /// Bytes of the tables written.
    pub bytes: u64,
    /// Tables written.
    pub tables: u64,
}

/// The effect of an entry of a bulk load on its key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadOp<V> {
    /// It gets this value, which has the time to live of the keyspace, if there is one.
    Put(V),
    /// It gets this value with an expiry.
    PutExpiring(V, Expiry),
    /// It gets this operand of the keyspace's merge operator.
    Merge(V),
    /// It is deleted.
    Delete,
}

/// A load under way. Dropping it before it is finished leaves nothing behind.
pub(crate) struct BulkLoad<'a> {
    engine: &'a Arc<Engine>,
    state: &'a KeyspaceState,
    /// The sequence number with which the tables are written.
    seqno: SeqNo,
    /// One for each partition.
    outputs: Vec<OutputTables<'a>>,
    /// One for each partition, if entries come in another order than order keys.
    sorting: Vec<Sorter<'a>>,
    /// The order key of the last entry.
    last_key: Vec<u8>,
    scratch: Vec<u8>,
    entries: u64,
    user_bytes: u64,
    /// The time of expiry of values without one of their own.
    expires: Option<u64>,
    _memory: MergeMemory<'a>,
}

impl<'a> BulkLoad<'a> {
    pub(crate) fn begin(engine: &'a Arc<Engine>, state: &'a KeyspaceState) -> Result<BulkLoad<'a>> {
        let memory = engine.memory.merge();
        let seqno = write::skip_number(engine)?.seqno;
        let held_bytes_max = engine.memory.plan().merges as usize / 2 / state.partitions.len();
        let design = state.facts.design_owned();
        let output = |p: &'a Arc<Partition>| {
            OutputTables::of_bulk_load(engine, p, design.clone(), seqno, held_bytes_max)
        };
        let sorted = state.facts.order.check_ranges().is_ok();
        let expires = state.facts.expiry_of_puts(|| engine.time());
        let sorting = |p| Sorter::new(engine, p, design.clone(), seqno, held_bytes_max);
        let unsorted = state.partitions.iter().filter(|_| !sorted);
        Ok(BulkLoad {
            sorting: unsorted.map(sorting).collect(),
            engine,
            state,
            seqno,
            outputs: state.partitions.iter().map(output).collect::<Result<_>>()?,
            last_key: Vec::new(),
            scratch: Vec::new(),
            entries: 0,
            user_bytes: 0,
            expires,
            _memory: memory,
        })
    }

    /// Appends an entry. In a sorted keyspace its key must be above the one before.
    pub(crate) fn apply<V: AsRef<[u8]>>(&mut self, key: &[u8], op: &LoadOp<V>) -> Result<()> {
        match op {
            LoadOp::Put(value) => self.put(key, value.as_ref()),
            LoadOp::PutExpiring(value, expiry) => {
                let at = self.engine.time_of(*expiry);
                let (tag, stored) = expiry::stored(at, value.as_ref());
                self.add(key, tag, &stored)
            }
            LoadOp::Merge(operand) => self.add(key, Tag::MERGE, operand.as_ref()),
            LoadOp::Delete => self.add(key, Tag::DELETE, b""),
        }
    }

    /// Appends a put with the keyspace's time to live.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (tag, stored) = expiry::stored(self.expires, value);
        self.add(key, tag, &stored)
    }

    /// Appends an entry as it is stored.
    pub(crate) fn add(&mut self, user_key: &[u8], tag: Tag, stored: &[u8]) -> Result<()> {
        let facts = &self.state.facts;
        facts.order.check(user_key)?;
        check_stored(tag, stored)?;
        if tag.kind == Kind::Merge {
            facts.merge_operator()?.check(stored)?;
        }
        let key = facts.order.borrow(user_key, &mut self.scratch);
        let hash = KeyHash::of(user_key, facts.seed);
        let partition = facts.router.route(user_key, hash);
        let is_first = self.entries == 0;
        self.entries += 1;
        self.user_bytes += (user_key.len() + stored.len() - front_bytes(tag)) as u64;
        if let Some(sorting) = self.sorting.get_mut(partition) {
            return sorting.add(key, tag, stored);
        }
        if !is_first && key <= self.last_key.as_slice() {
            return Err(out_of_order(user_key, facts.order.decode(&self.last_key)));
        }
        let entry = Entry {
            key,
            seqno: self.seqno,
            tag,
            value: ValueSource::Inline(stored),
        };
        self.outputs[partition].add(&entry, stored)?;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        Ok(())
    }

    /// Commits all entries at once; they are durable then. After an error no entry is there. After
    /// `Poisoned` this is unknown until the database is opened again.
    pub(crate) fn finish(mut self) -> Result<BulkLoadReport> {
        let engine = self.engine;
        for (sorting, output) in self.sorting.drain(..).zip(&mut self.outputs) {
            sorting.drain(|entry, value| output.add(entry, value))?;
        }
        let mut loaded = Vec::new();
        let outputs = std::mem::take(&mut self.outputs).into_iter();
        let mut written = outputs.zip(&self.state.partitions);
        let result = written
            .try_for_each(|(output, partition)| {
                loaded.push((partition, output.finish()?));
                Ok(())
            })
            .and_then(|()| put_in_place(engine, &loaded));
        let tables = || loaded.iter().flat_map(|(_, tables)| tables);
        if let Err(error) = result {
            for (partition, tables) in &loaded {
                engine.remove_unnamed(partition, tables);
            }
            return Err(error);
        }
        let report = BulkLoadReport {
            entries: self.entries,
            bytes: tables().map(|meta| meta.file_bytes).sum(),
            tables: tables().count() as u64,
        };
        engine.stats.bulk_load_entries.add(report.entries);
        engine.stats.user_bytes.add(self.user_bytes);
        engine.stats.bulk_load_bytes.add(report.bytes);
        Ok(report)
    }
}

/// The error of keys that do not ascend.
pub(crate) fn out_of_order(key: &[u8], last: &[u8]) -> Error {
    Error::invalid(format!(
        "expected keys in ascending order, each once, found `{}` after `{}`",
        key.escape_ascii(),
        last.escape_ascii(),
    ))
}

/// Adds durable tables to their trees, and publishes them.
fn put_in_place(engine: &Arc<Engine>, loaded: &[(&Arc<Partition>, Vec<TableMeta>)]) -> Result<()> {
    let loaded: Vec<_> = loaded.iter().filter(|(_, t)| !t.is_empty()).collect();
    let partitions: Vec<_> = loaded.iter().map(|(p, _)| Arc::clone(p)).collect();
    if partitions.is_empty() {
        return Ok(());
    }
    let at = write::seal_all(engine, &partitions)?;
    wait::for_flushes(engine, &partitions, at)?;
    wait::for_room(engine, &partitions)?;

    let writer = engine.writer()?;
    let _one = writer.whole_trees.begin();
    let _flushes_go_on = HeldFlushes(engine);
    let number = write::number_bulk_load(engine, &partitions)?;
    let seqno = number.seqno;
    wait::flush_here(engine, &partitions, seqno)?;
    engine.publisher.wait(seqno.0 - 1);
    engine.writer()?.log.sync_through(number.log_end)?;

    let mut claims = Vec::with_capacity(loaded.len());
    let mut edits = Vec::with_capacity(loaded.len());
    for (partition, tables) in loaded {
        let claim = compaction::claim(engine.oldest_read(), partition, tables)?;
        let run = claim.target.run;
        let run = run.unwrap_or(RunId(engine.writer()?.ids.next_table().0));
        let version = &partition.tree_owned().version;
        let mut edit = TreeEdit::new(partition.id);
        let placed = tables.iter().map(|meta| {
            let placement = version.placement(claim.target.level, run, meta);
            (placement, meta.clone().renumbered(Some(seqno)))
        });
        edit.added = placed.collect();
        edits.push((&***partition, edit));
        claims.push(claim);
    }
    engine.install_together(edits, seqno, || drop(number))?;
    drop(claims);
    for partition in &partitions {
        background::settle(engine, partition);
    }
    engine.scheduler.notify_progress();
    Ok(())
}
