//! Files of filters over several runs, so that the opening of a database need not build them
//! ([0008](../../../../../docs/design/0008-multi-level-cuckoo.md)). The body is the filter, the
//! description is its [`Coverage`]; a file fits a run exactly when it lists all tables that the run
//! has. It is removed when no filter is left that was read from it or extends it.
//!
//! Filters are written on closing, if their file is not up to date. Beside merges, a filter is
//! written once its runs have gained tables of [`WRITE_SHARE`] times its own size since it was last
//! written.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::base::codec::checksum::place;
use crate::base::entry::RunId;
use crate::base::error::Result;
use crate::base::mutex::lock;
use crate::base::page::TableId;
use crate::base::stats::Job;
use crate::design::merge_policy::shape::Group;
use crate::group_filter::{
    BuildStep, Context, FilterFile, FilterFileWriter, FoundFile, GroupProbe, Magic, Version,
    VersionChange,
};
use crate::table::Table;
use crate::table::paged_file::PagedFile;

use super::coverage::Coverage;
use super::kept::{CuckooProbe, FilePart, NoPages, counted, has_memory};
use super::{Mode, MultiLevelCuckoo};

pub(super) const MAGIC: Magic = *b"hedgeflt";

/// A filter is written again after this many times its size in bytes of new tables.
const WRITE_SHARE: u64 = 16;
/// The bytes of one write.
const PIECE_BYTES: usize = 1 << 20;

// ---- writing ----

/// Returns true if a filter is due to be written.
fn is_due(filter: &CuckooProbe) -> bool {
    let bytes = filter.filter.encoded_bytes();
    let unwritten = lock(&filter.stored).unwritten_bytes;
    unwritten >= bytes.saturating_mul(WRITE_SHARE)
}

/// Returns true if any filter of a tree is due to be written.
pub(super) fn is_any_due(version: &Version) -> bool {
    probes(version).any(|(_, probe)| counted(probe).is_some_and(is_due))
}

/// The filters of a tree, with their groups.
fn probes(version: &Version) -> impl Iterator<Item = (&Group<Arc<Table>>, &GroupProbe)> {
    let levels = version.levels.iter();
    let groups = levels.flat_map(|level| level.used_groups().map(|(_, group)| group));
    groups.flat_map(|group| group.filters.probes.iter().map(move |it| (group, it)))
}

/// Writes the filters of a tree that are due.
pub(super) struct WriteDue;

impl BuildStep for WriteDue {
    fn takes_a_turn(&self) -> bool {
        false
    }

    fn run(self: Box<Self>, cx: &Context<'_>, version: &Version) -> Result<Option<VersionChange>> {
        write_some(cx, version, is_due, |bytes| cx.host.pace(bytes));
        Ok(None)
    }
}

/// Writes all filters that no file holds yet. The database is being closed, and nobody works on it.
pub(super) fn write_all(cx: &Context<'_>, version: &Version) {
    let is_unwritten = |it: &CuckooProbe| lock(&it.stored).unwritten_bytes > 0;
    write_some(cx, version, is_unwritten, |_| Ok(()));
}

/// Writes some filters. A full or failing device leaves no file: nothing else depends on it.
fn write_some(
    cx: &Context<'_>,
    version: &Version,
    is_wanted: impl Fn(&CuckooProbe) -> bool,
    pace: impl Fn(u64) -> Result<()>,
) {
    for (group, probe) in probes(version) {
        let Some(filter) = counted(probe).filter(|it| is_wanted(it)) else {
            continue;
        };
        let coverage = coverage(group, probe);
        if let Err(error) = write(cx, &coverage, filter, &pace) {
            // It is due again after more tables, or on closing.
            lock(&filter.stored).unwritten_bytes = 1;
            cx.host.report(Job::WriteFilter, error);
        }
    }
}

/// The tables whose keys a filter knows. Runs that are gone or that it does not answer for have
/// none.
fn coverage(group: &Group<Arc<Table>>, probe: &GroupProbe) -> Coverage {
    let tables_of = |run: &RunId| {
        let known = group.run(*run).filter(|run| probe.covers(run.id));
        let tables = known.into_iter().flat_map(|run| &run.tables);
        let mut ids: Vec<_> = tables.map(|table| table.meta().id).collect();
        ids.sort_unstable();
        (*run, ids)
    };
    Coverage {
        runs: probe.runs.iter().map(tables_of).collect(),
    }
}

fn write(
    cx: &Context<'_>,
    coverage: &Coverage,
    filter: &CuckooProbe,
    pace: &impl Fn(u64) -> Result<()>,
) -> Result<()> {
    let mut file = FilterFileWriter::create(cx)?;
    let seed = place(file.number().0, 0);
    filter.filter.encode(seed, &coverage.names(), |bytes| {
        bytes.chunks(PIECE_BYTES).try_for_each(|piece| {
            pace(piece.len() as u64)?;
            file.write(piece)
        })
    })?;
    let file = file.finish(MAGIC, &coverage.encode())?;
    *lock(&filter.stored) = FilePart {
        file: Some(file),
        unwritten_bytes: 0,
    };
    Ok(())
}

// ---- reading ----

/// Gives the groups of a tree the filters of these files, as long as the memory has room: it may be
/// less than that of the process that wrote them.
pub(super) fn attach(cx: &Context<'_>, version: &mut Version, found: Vec<FoundFile>) {
    let found = found.into_iter();
    let known = found.filter_map(|it| Some((Coverage::decode(&it.1.description).ok()?, it)));
    let mut known: Vec<_> = known.collect();
    // Among filters with the same newest run, the one with more runs is newer.
    known.sort_by_key(|(it, _)| Reverse((it.runs.first().map(|run| run.0), it.runs.len())));
    for (coverage, (file, framed)) in known {
        let mut levels = version.levels.iter_mut();
        let group = levels.find_map(|level| {
            let wanting = |group: &Arc<Group<_>>| wants(group, &coverage);
            let at = level.groups.iter().position(wanting)?;
            level.group_mut(at)
        });
        let Some(group) = group else { continue };
        let names = coverage.runs.iter().map(|run| run.0);
        if has_memory(cx, framed.body_bytes)
            && let Ok(filter) = read(&framed, &coverage)
        {
            let stored = FilePart {
                file: Some(file),
                unwritten_bytes: 0,
            };
            let filter = CuckooProbe::new(filter, cx.tables.memory.clone(), stored);
            let mut probe =
                GroupProbe::new(names.clone().collect(), Arc::new(filter), Arc::new(NoPages));
            let is_grown = |id: &_| group.run(*id).is_some() && !is_known(group, &coverage, *id);
            names.filter(is_grown).for_each(|id| probe.forget(id));
            group.filters.probes.push(probe);
        }
    }
}

/// Returns true if a filter knows a run of a group that no filter of the group knows yet.
fn wants(group: &Group<Arc<Table>>, coverage: &Coverage) -> bool {
    let mut names = coverage.runs.iter().map(|run| run.0);
    names.any(|id| is_known(group, coverage, id) && !group.filters.cover(id))
}

/// Returns true if a group has a run and a filter in a file knows all its tables. The run may have
/// gained tables since the file was written.
fn is_known(group: &Group<Arc<Table>>, coverage: &Coverage, id: RunId) -> bool {
    group.run(id).is_some_and(|run| {
        let tables = run.tables.iter().map(|table| table.meta().id);
        coverage.knows(id, tables)
    })
}

/// The filter in a file. Cost: one read of all of it.
pub(super) fn read(file: &FilterFile, coverage: &Coverage) -> Result<MultiLevelCuckoo> {
    let seed = place(file.number.0, 0);
    MultiLevelCuckoo::decode(file.body()?, seed, &coverage.names())
}

/// The contents of a filter's file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CuckooContents {
    /// The runs that it answers for, newest first, and their tables.
    pub runs: Vec<(RunId, Vec<TableId>)>,
    /// The number of bits of a fingerprint.
    pub fingerprint_bits: u8,
    /// The number of buckets, of four slots each.
    pub buckets: u32,
    /// The number of slots in use.
    pub entries: u64,
    /// The number of keys that are kept by their whole hash.
    pub whole_hashes: usize,
    /// True if a key takes one slot, with its newest run and a bit for all older runs.
    pub unique: bool,
}

/// Checks all of a file.
pub(super) fn check(file: &FilterFile) -> Result<CuckooContents> {
    let coverage = Coverage::decode(&file.description)?;
    let filter = read(file, &coverage)?;
    let (buckets, fingerprint_bits) = filter.dimensions();
    Ok(CuckooContents {
        runs: coverage.runs,
        fingerprint_bits,
        buckets,
        entries: filter.entries(),
        whole_hashes: filter.whole_hashes(),
        unique: filter.mode() != Mode::Set,
    })
}

/// The files of the filters of a tree.
pub(super) fn files(version: &Version) -> Vec<Arc<PagedFile>> {
    let filters = probes(version).filter_map(|(_, probe)| counted(probe));
    let files = filters.filter_map(|it| lock(&it.stored).file.clone());
    files.collect()
}
