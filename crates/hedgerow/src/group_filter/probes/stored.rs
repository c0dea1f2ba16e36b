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
use crate::base::entry::RunId;
use crate::base::entry::{KeyspaceId, PartitionId};
use crate::base::error::{Error, Result};
use crate::base::page::{Buffer, TableId};
use crate::base::stats::Event;
use crate::design::merge_policy::shape::{Group, GroupProbe};
use crate::group_filter::clusters::cluster_number;
use crate::group_filter::multi_level_cuckoo::MultiLevelCuckoo;
use crate::group_filter::multi_level_cuckoo::file::{Coverage, PREFIX_BYTES, Prefix};
use crate::table::filter::RunMask;
use crate::table::paged_file::Obsolete;
use crate::table::{Table, TableContext};
use crate::tree::engine::{Engine, Writer, lock};
use crate::tree::partition::{KeyspaceFacts, Partition};
use crate::tree::version::Version;

use super::{Counted, NoPages, counted};

/// A filter is written again after this many times its size in bytes of new tables.
const WRITE_SHARE: u64 = 16;
/// The bytes of one write.
const PIECE_BYTES: usize = 1 << 20;

/// The directory of filters under the database's directory.
pub(crate) fn filters_dir(root: &Path) -> PathBuf {
    root.join("filters")
}

/// The number in the name of a filter's file.
pub(crate) fn filter_number(name: &str) -> Option<u64> {
    name.strip_suffix(".filter")
        .filter(|digits| digits.len() == 10)?
        .parse()
        .ok()
}

/// The number in the name of a file in the directory of filters.
pub(crate) fn file_number(name: &str) -> Option<u64> {
    filter_number(name).or_else(|| cluster_number(name))
}

/// A file of a filter. It is removed when nobody holds it any more.
#[derive(Debug)]
pub(crate) struct FilterFile {
    number: u64,
    path: PathBuf,
    context: Arc<TableContext>,
}

impl Drop for FilterFile {
    fn drop(&mut self) {
        let path = std::mem::take(&mut self.path);
        lock(&self.context.graveyard).push(Obsolete {
            id: TableId(self.number),
            path,
            cached_bytes_max: 0,
        });
    }
}

// ---- writing ----

/// The part of a filter that is in a file.
#[derive(Debug, Clone, Default)]
pub(super) struct Stored {
    /// The file of this filter, or of one with fewer of its runs.
    pub(super) file: Option<Arc<FilterFile>>,
    /// The size of the tables of runs that the file does not know. Without a file, of all tables.
    pub(super) unwritten_bytes: u64,
}

/// Returns true if a filter is due to be written.
fn is_due(filter: &Counted) -> bool {
    let bytes = filter.filter.encoded_bytes();
    let unwritten = lock(&filter.stored).unwritten_bytes;
    unwritten >= bytes.saturating_mul(WRITE_SHARE)
}

/// Returns true if any filter of a tree is due to be written.
pub(crate) fn is_any_due(partition: &Partition) -> bool {
    let version = &partition.tree().version;
    let groups = version.levels.iter().flat_map(|level| &level.groups);
    let probes = groups.flat_map(|group| &group.probes);
    probes.filter_map(counted).any(is_due)
}

/// Writes the filters of a tree that are due.
pub(crate) fn write_due(engine: &Engine, partition: &Partition) {
    let Ok(writer) = engine.writer() else { return };
    let pace = |bytes| {
        engine.rate_limiter.take(bytes);
        engine.check_open()
    };
    write_some(engine, writer, partition, is_due, pace);
}

/// Writes all filters that no file holds yet. The database is being closed, and nobody works on it.
pub(crate) fn write_all(engine: &Engine, writer: &Writer) {
    let is_unwritten = |it: &Counted| lock(&it.stored).unwritten_bytes > 0;
    for partition in engine.catalog.load().partitions.values() {
        write_some(engine, writer, partition, is_unwritten, |_| Ok(()));
    }
}

/// Writes some filters. A full or failing device leaves no file: nothing else depends on it.
fn write_some(
    engine: &Engine,
    writer: &Writer,
    partition: &Partition,
    is_wanted: impl Fn(&Counted) -> bool,
    pace: impl Fn(u64) -> Result<()>,
) {
    let tree = partition.tree_owned();
    let groups = tree.version.levels.iter().flat_map(|level| &level.groups);
    for (group, probe) in groups.flat_map(|group| group.probes.iter().map(move |it| (group, it))) {
        let Some(filter) = counted(probe).filter(|it| is_wanted(it)) else {
            continue;
        };
        let coverage = coverage(group, probe, partition);
        if let Err(error) = write(engine, writer, &coverage, filter, &pace) {
            engine.tell(Event::BackgroundError {
                doing: "write a filter",
                error,
            });
        }
    }
}

/// The tables whose keys a filter knows. Runs that are gone or that it does not answer for have
/// none.
fn coverage(group: &Group<Arc<Table>>, probe: &GroupProbe, partition: &Partition) -> Coverage {
    let tables_of = |run: &RunId| {
        let known = group.run(*run).filter(|run| probe.covers(run.id));
        let tables = known.into_iter().flat_map(|run| &run.tables);
        let mut ids: Vec<_> = tables.map(|table| table.meta().id).collect();
        ids.sort_unstable();
        (run.0, ids)
    };
    Coverage {
        keyspace: partition.keyspace.id,
        partition: partition.id,
        hash_seed: partition.keyspace.seed,
        runs: probe.runs.iter().map(tables_of).collect(),
    }
}

fn write(
    engine: &Engine,
    writer: &Writer,
    coverage: &Coverage,
    filter: &Counted,
    pace: &impl Fn(u64) -> Result<()>,
) -> Result<()> {
    let storage = &*engine.environment.storage;
    let number = writer.next_table().0;
    let dir = filters_dir(&engine.places.filters_root(&engine.dir));
    let path = dir.join(format!("{number:010}.filter"));
    // The file is removed from now on unless the filter takes it.
    let file = Arc::new(FilterFile {
        number,
        path: path.clone(),
        context: engine.tables.clone(),
    });
    let failed = |e| Error::io("write", &path, e);
    let mut out = storage.create(&path).map_err(failed)?;
    let names = coverage.names();
    let head = coverage.encode(number, filter.filter.encoded_bytes());
    out.write(&head).map_err(failed)?;
    let seed = place(number, head.len() as u64);
    filter.filter.encode(seed, &names, |bytes| {
        bytes.chunks(PIECE_BYTES).try_for_each(|piece| {
            pace(piece.len() as u64)?;
            out.write(piece).map_err(failed)
        })
    })?;
    out.sync().map_err(failed)?;
    storage
        .sync_dir(&dir)
        .map_err(|e| Error::io("sync", &dir, e))?;
    engine.stats.filter_write_bytes.add(out.bytes());
    *lock(&filter.stored) = Stored {
        file: Some(file),
        unwritten_bytes: 0,
    };
    Ok(())
}

// ---- reading ----

/// The files of filters that were there when the database was opened. Files that no tree takes are
/// removed.
pub(crate) struct Found(BTreeMap<(KeyspaceId, PartitionId), Vec<(FilterFile, Coverage)>>);

impl Found {
    /// Reads whose keys the files know. Cost: two reads per file.
    pub(crate) fn list(context: &Arc<TableContext>, root: &Path) -> Found {
        let dir = filters_dir(root);
        let files = context.storage.list(&dir).unwrap_or_default();
        let read = files
            .iter()
            .filter_map(|found| -> Option<(FilterFile, Coverage)> {
                let file = FilterFile {
                    number: filter_number(&found.name)?,
                    path: dir.join(&found.name),
                    context: context.clone(),
                };
                let coverage = Opened::open(&*context.storage, &file.path, file.number).ok()?;
                Some((file, coverage.coverage))
            });
        let mut found = Found(BTreeMap::new());
        for (file, coverage) in read {
            let owner = (coverage.keyspace, coverage.partition);
            found.0.entry(owner).or_default().push((file, coverage));
        }
        found
    }

    /// Gives the groups of a tree the filters that were written for their runs.
    pub(crate) fn attach(
        &mut self,
        engine: &Engine,
        version: &mut Version,
        partition: PartitionId,
        facts: &KeyspaceFacts,
    ) {
        let mut own = self.0.remove(&(facts.id, partition)).unwrap_or_default();
        own.retain(|(_, it)| it.hash_seed == facts.seed);
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
            if let Ok(filter) = read(engine, &file) {
                let stored = Stored {
                    file: Some(Arc::new(file)),
                    unwritten_bytes: 0,
                };
                let mut probe = GroupProbe {
                    runs: names.clone().collect(),
                    outgrown: RunMask::NONE,
                    filter: Arc::new(Counted::new(filter, engine.memory.clone(), stored)),
                    pages: Arc::new(NoPages),
                };
                let is_grown =
                    |id: &_| group.run(*id).is_some() && !is_known(group, &coverage, *id);
                names.filter(is_grown).for_each(|id| probe.forget(id));
                group.probes.push(probe);
            }
        }
    }
}

/// Returns true if a filter knows a run of a group that no filter of the group knows yet.
fn wants(group: &Group<Arc<Table>>, coverage: &Coverage) -> bool {
    let mut names = coverage.runs.iter().map(|run| RunId(run.0));
    names.any(|id| is_known(group, coverage, id) && !group.is_covered(id))
}

/// Returns true if a group has a run and a filter in a file knows all its tables. The run may have
/// gained tables since the file was written.
fn is_known(group: &Group<Arc<Table>>, coverage: &Coverage, id: RunId) -> bool {
    group.run(id).is_some_and(|run| {
        let tables = run.tables.iter().map(|table| table.meta().id);
        coverage.knows(id.0, tables)
    })
}

fn read(engine: &Engine, file: &FilterFile) -> Result<MultiLevelCuckoo> {
    let storage = &*engine.environment.storage;
    let opened = Opened::open(storage, &file.path, file.number)?;
    opened.filter()
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
pub(crate) fn files(version: &Version) -> impl Iterator<Item = Arc<FilterFile>> {
    let groups = version.levels.iter().flat_map(|level| &level.groups);
    let probes = groups.flat_map(|group| &group.probes);
    probes.filter_map(|probe| lock(&counted(probe)?.stored).file.clone())
}

impl FilterFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads and checks the file, and returns its size. `None` if it is gone: another process that
    /// has the database open for writing removes files that it does not need.
    pub(crate) fn verify(&self) -> Result<Option<u64>> {
        let storage = &*self.context.storage;
        let opened = Opened::open(storage, &self.path, self.number);
        let whole = opened.and_then(|opened| opened.filter().map(|_| opened.bytes()));
        match whole {
            Err(_) if storage.size(&self.path).is_err() => Ok(None),
            whole => whole.map(Some),
        }
    }
}
