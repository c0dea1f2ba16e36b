//! Files of filters over several runs, so that the opening of a database need not build them
//! ([0008](../../../../../docs/design/0008-multi-level-cuckoo.md)).
//!
//! A file is a cache of what the tables keep. Nothing but its place names it, and it lists the
//! tables whose keys it knows. Numbers of tables are never reused, so a file fits a run exactly
//! when it lists all tables that the run has. A file that is missing, damaged or of other tables is
//! no error: the filter is built from the hashes. A file is removed when no filter is left that was
//! read from it or extends it, and when the database is opened and the file fits nothing.
//!
//! Filters are written on closing, if their file is not up to date. Beside merges, a filter is
//! written once its runs have gained tables of [`WRITE_SHARE`] times its own size since it was last
//! written.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow_io::{RandomRead, Storage};

use crate::base::codec::checksum::place;
use crate::base::durable::sync_dir;
use crate::base::entry::RunId;
use crate::base::error::{Error, Result};
use crate::base::page::{Buffer, TableId};
use crate::base::runtime::lock;
use crate::base::stats::Job;
use crate::design::merge_policy::shape::Group;
use crate::group_filter::{
    Change, Context, FoundFiles, GroupProbe, Owner, Step, StoredFile, Version, filter_file,
    number_before,
};
use crate::table::paged_file::PagedFile;
use crate::table::{Table, TableContext};

use super::MultiLevelCuckoo;
use super::coverage::{Coverage, PREFIX_BYTES, Prefix};
use super::kept::{Counted, FilterFile, NoPages, Stored, counted};

/// A filter is written again after this many times its size in bytes of new tables.
const WRITE_SHARE: u64 = 16;
/// The bytes of one write.
const PIECE_BYTES: usize = 1 << 20;

/// The number in the name of a filter's file.
pub(crate) fn filter_number(name: &str) -> Option<u64> {
    number_before(name, ".filter")
}

// ---- writing ----

/// Returns true if a filter is due to be written.
fn is_due(filter: &Counted) -> bool {
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

impl Step for WriteDue {
    fn takes_a_turn(&self) -> bool {
        false
    }

    fn run(self: Box<Self>, cx: &Context<'_>, version: &Version) -> Result<Option<Change>> {
        write_some(cx, version, is_due, |bytes| cx.host.pace(bytes));
        Ok(None)
    }
}

/// Writes all filters that no file holds yet. The database is being closed, and nobody works on it.
pub(super) fn write_all(cx: &Context<'_>, version: &Version) {
    let is_unwritten = |it: &Counted| lock(&it.stored).unwritten_bytes > 0;
    write_some(cx, version, is_unwritten, |_| Ok(()));
}

/// Writes some filters. A full or failing device leaves no file: nothing else depends on it.
fn write_some(
    cx: &Context<'_>,
    version: &Version,
    is_wanted: impl Fn(&Counted) -> bool,
    pace: impl Fn(u64) -> Result<()>,
) {
    for (group, probe) in probes(version) {
        let Some(filter) = counted(probe).filter(|it| is_wanted(it)) else {
            continue;
        };
        let coverage = coverage(cx.owner, group, probe);
        if let Err(error) = write(cx, &coverage, filter, &pace) {
            // It is due again after more tables, or on closing.
            lock(&filter.stored).unwritten_bytes = 1;
            cx.host.report(Job::WriteFilter, error);
        }
    }
}

/// The tables whose keys a filter knows. Runs that are gone or that it does not answer for have
/// none.
fn coverage(owner: Owner, group: &Group<Arc<Table>>, probe: &GroupProbe) -> Coverage {
    let tables_of = |run: &RunId| {
        let known = group.run(*run).filter(|run| probe.covers(run.id));
        let tables = known.into_iter().flat_map(|run| &run.tables);
        let mut ids: Vec<_> = tables.map(|table| table.meta().id).collect();
        ids.sort_unstable();
        (run.0, ids)
    };
    Coverage {
        owner,
        runs: probe.runs.iter().map(tables_of).collect(),
    }
}

fn write(
    cx: &Context<'_>,
    coverage: &Coverage,
    filter: &Counted,
    pace: &impl Fn(u64) -> Result<()>,
) -> Result<()> {
    let (storage, dir) = (&*cx.tables.storage, &cx.host.filters_dir());
    let number = cx.host.next_number()?;
    let path = dir.join(format!("{:010}.filter", number.0));
    // The file is removed from now on unless the filter takes it.
    let file = FilterFile(Arc::new(filter_file(cx.tables, number, path)));
    let path = file.0.path();
    let failed = |e| Error::io("write", path, e);
    let mut out = storage.create(path).map_err(failed)?;
    let names = coverage.names();
    let head = coverage.encode(number.0, filter.filter.encoded_bytes());
    out.write(&head).map_err(failed)?;
    let seed = place(number.0, head.len() as u64);
    filter.filter.encode(seed, &names, |bytes| {
        bytes.chunks(PIECE_BYTES).try_for_each(|piece| {
            pace(piece.len() as u64)?;
            out.write(piece).map_err(failed)
        })
    })?;
    out.sync().map_err(failed)?;
    sync_dir(storage, dir)?;
    cx.tables.stats.filter_write_bytes.add(out.bytes());
    *lock(&filter.stored) = Stored {
        file: Some(file),
        unwritten_bytes: 0,
    };
    Ok(())
}

// ---- reading ----

/// The files of filters that were there when the database was opened.
pub(super) struct Found(BTreeMap<Owner, Vec<(FilterFile, Coverage)>>);

impl Found {
    pub(super) fn list(context: &Arc<TableContext>, dir: &Path) -> Found {
        let files = context.storage.list(dir).unwrap_or_default();
        let read = files
            .iter()
            .filter_map(|found| -> Option<(FilterFile, Coverage)> {
                let number = TableId(filter_number(&found.name)?);
                let file = filter_file(context, number, dir.join(&found.name));
                let opened = Opened::of(&file).ok()?;
                Some((FilterFile(Arc::new(file)), opened.coverage))
            });
        let mut found = Found(BTreeMap::new());
        for (file, coverage) in read {
            let of_tree = found.0.entry(coverage.owner).or_default();
            of_tree.push((file, coverage));
        }
        found
    }
}

impl FoundFiles for Found {
    fn attach(&mut self, cx: &Context<'_>, version: &mut Version) {
        let mut own = self.0.remove(&cx.owner).unwrap_or_default();
        // Among filters with the same newest run, the one with more runs is newer.
        own.sort_by_key(|(_, it)| Reverse((it.runs.first().map(|run| run.0), it.runs.len())));
        for (file, coverage) in own {
            let mut levels = version.levels.iter_mut();
            let group = levels.find_map(|level| {
                let wanting = |group: &Arc<Group<_>>| wants(group, &coverage);
                let at = level.groups.iter().position(wanting)?;
                level.group_mut(at)
            });
            let Some(group) = group else { continue };
            let names = coverage.runs.iter().map(|run| RunId(run.0));
            if let Ok(filter) = Opened::of(&file.0).and_then(|it| it.filter()) {
                let stored = Stored {
                    file: Some(file),
                    unwritten_bytes: 0,
                };
                let filter = Counted::new(filter, cx.tables.memory.clone(), stored);
                let mut probe =
                    GroupProbe::new(names.clone().collect(), Arc::new(filter), Arc::new(NoPages));
                let is_grown =
                    |id: &_| group.run(*id).is_some() && !is_known(group, &coverage, *id);
                names.filter(is_grown).for_each(|id| probe.forget(id));
                group.filters.probes.push(probe);
            }
        }
    }
}

/// Returns true if a filter knows a run of a group that no filter of the group knows yet.
fn wants(group: &Group<Arc<Table>>, coverage: &Coverage) -> bool {
    let mut names = coverage.runs.iter().map(|run| RunId(run.0));
    names.any(|id| is_known(group, coverage, id) && !group.filters.cover(id))
}

/// Returns true if a group has a run and a filter in a file knows all its tables. The run may have
/// gained tables since the file was written.
fn is_known(group: &Group<Arc<Table>>, coverage: &Coverage, id: RunId) -> bool {
    group.run(id).is_some_and(|run| {
        let tables = run.tables.iter().map(|table| table.meta().id);
        coverage.knows(id.0, tables)
    })
}

/// A file whose list of runs was read.
pub(crate) struct Opened {
    file: Arc<dyn RandomRead>,
    path: PathBuf,
    number: u64,
    prefix: Prefix,
    pub(crate) coverage: Coverage,
}

impl Opened {
    fn of(file: &PagedFile) -> Result<Opened> {
        Opened::open(&*file.context().storage, file.path(), file.id().0)
    }

    pub(crate) fn open(storage: &dyn Storage, path: &Path, number: u64) -> Result<Opened> {
        let failed = |e| Error::io("read", path, e);
        let file = storage
            .open(path, hedgerow_io::ReadMode::Pread)
            .map_err(failed)?;
        let mut prefix = [0; PREFIX_BYTES];
        file.read_at(0, &mut prefix).map_err(failed)?;
        let prefix = Prefix::decode(&prefix, number).map_err(|e| e.at(path, Some(0)))?;
        let bytes = prefix.filter_at().checked_add(prefix.filter_bytes);
        if bytes != Some(file.bytes()) {
            return Err(Error::corruption(format!(
                "expected a list of {} and a filter of {} bytes in a file of {} bytes",
                prefix.list_bytes,
                prefix.filter_bytes,
                file.bytes()
            ))
            .at(path, Some(0)));
        }
        let mut list = vec![0; prefix.list_bytes as usize];
        file.read_at(PREFIX_BYTES as u64, &mut list)
            .map_err(failed)?;
        let coverage = Coverage::decode(&list, number);
        Ok(Opened {
            coverage: coverage.map_err(|e| e.at(path, Some(PREFIX_BYTES as u64)))?,
            path: path.to_path_buf(),
            file,
            number,
            prefix,
        })
    }

    /// The filter. Cost: one read of all of it.
    pub(crate) fn filter(&self) -> Result<MultiLevelCuckoo> {
        let at = self.prefix.filter_at();
        let mut buffer = Buffer::allocate(self.prefix.filter_bytes as usize);
        self.file
            .read_at(at, &mut buffer)
            .map_err(|e| Error::io("read", &self.path, e))?;
        let seed = place(self.number, at);
        MultiLevelCuckoo::decode(buffer, seed, &self.coverage.names())
            .map_err(|e| e.at(&self.path, Some(at)))
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.file.bytes()
    }
}

// ---- of a version ----

/// The files of the filters of a tree.
pub(super) fn files(version: &Version) -> Vec<Box<dyn StoredFile>> {
    let filters = probes(version).filter_map(|(_, probe)| counted(probe));
    let files = filters.filter_map(|it| lock(&it.stored).file.clone());
    files.map(|file| Box::new(file) as _).collect()
}

impl StoredFile for FilterFile {
    fn file(&self) -> &PagedFile {
        &self.0
    }

    fn check(&self) -> Result<u64> {
        let opened = Opened::of(&self.0)?;
        opened.filter()?;
        Ok(opened.bytes())
    }
}
