//! Filters over the runs of a group: one answer for several runs, in place of one for each table.
//!
//! Each [`FilterKind`] has a folder: [`multi_level_cuckoo`] (SlimDB, section 3.2) and [`cluster`]
//! (LSM-trie, section 3.3). Here is what a tree sees of them all. A filter comes into the tree
//! together with the tables that it answers for ([`prepare`], [`carry`]). A background job builds
//! what a tree lacks ([`next`]). A tree without a filter is right, only slower, so nothing here
//! fails a write, and files of filters are caches, of one form for all kinds ([`FilterFile`]).
//!
//! Filters know tables and the shape of trees, but not the engine. What they need of it is a
//! [`Context`].

pub(crate) mod cluster;
pub(crate) mod frame;
mod group;
pub(crate) mod multi_level_cuckoo;

#[cfg(test)]
mod conformance;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::base::entry::KeyHash;
use crate::base::error::{Error, Result};
use crate::base::key_order::Order;
use crate::base::mutex::lock;
use crate::base::options::FilterSpec;
use crate::base::page::TableId;
use crate::base::stats::Job;
use crate::base::table_meta::TableMeta;
use crate::design::in_force::DesignInForce;
use crate::design::merge_policy::shape::{Facts, Shape};
use crate::design::merge_policy::tree_edit::TreeEdit;
use crate::table::open::{STREAM_BYTES_MIN, StreamedPages};
use crate::table::paged_file::PagedFile;
use crate::table::{Table, TableContext};

pub use cluster::{ClusterContents, Stripe};
pub(crate) use frame::{FilterFile, Owner, file_number, verify};
pub(crate) use group::{GroupFilters, GroupProbe};
pub use multi_level_cuckoo::CuckooContents;

use frame::{FilterFileWriter, Magic, filter_file};

/// The tables of one tree.
type Version = Shape<Arc<Table>>;

impl Facts for Arc<Table> {
    type Filters = GroupFilters;

    fn meta(&self) -> &TableMeta {
        Table::meta(self)
    }
}

/// All kinds of filters over runs.
const KINDS: [&dyn FilterKind; 2] = [&multi_level_cuckoo::CuckooKind, &cluster::ClusterKind];

/// One kind of filter over the runs of a group. Each method concerns only the levels whose filters
/// are of the kind.
pub(crate) trait FilterKind: Sync {
    /// Builds filters for the tables that an edit will add, so that no read looks at those tables
    /// without a filter. `open` opens a table that is not in the tree yet. Kinds that write theirs
    /// with each table build none.
    fn prepare(
        &self,
        _cx: &Context<'_>,
        _version: &Version,
        _edit: &TreeEdit,
        _open: &dyn Fn(&TableMeta) -> Arc<Table>,
    ) -> Vec<VersionChange> {
        Vec::new()
    }

    /// Gives the groups that an edit changed what is known of their tables. Kinds that answer for
    /// runs have nothing to do: [`GroupFilters`] drops the answers for runs that grew or went.
    fn carry(&self, _before: &Version, _after: &mut Version, _edit: &TreeEdit) {}

    /// The first thing that the filters of a tree lack.
    fn next(&self, cx: &Context<'_>, version: &Version) -> Option<Box<dyn BuildStep>>;

    /// Writes the filters that no file holds, if there are any. Nobody works on the tree.
    fn write_all(&self, _cx: &Context<'_>, _version: &Version) {}

    /// The filter of one table, built while the table is written; `None` for kinds that build
    /// theirs from what tables keep.
    fn begin_table(&self, _filter: FilterSpec) -> Option<Box<dyn TableBuilder>> {
        None
    }

    /// The name of the kind in its files.
    fn magic(&self) -> Magic;

    /// Gives the groups of a tree the filters of its files that were there when the database was
    /// opened.
    fn attach(&self, cx: &Context<'_>, version: &mut Version, found: Vec<FoundFile>);

    /// The files of a tree's filters.
    fn files(&self, version: &Version) -> Vec<Arc<PagedFile>>;

    /// Reads and checks the body of a file.
    fn check(&self, file: &FilterFile) -> Result<FilterContents>;
}

/// A file that was there when the database was opened. It is removed unless a filter takes it.
pub(crate) type FoundFile = (Arc<PagedFile>, FilterFile);

/// The contents of a file of a filter over several runs, by its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterContents {
    /// A multi-level cuckoo filter.
    MultiLevelCuckoo(CuckooContents),
    /// A cluster of Bloom filters.
    Cluster(ClusterContents),
}

/// A change of a tree's filters that waits for the tree.
pub(crate) type VersionChange = Box<dyn FnOnce(&mut Version) + Send>;

/// One thing that the filters of a tree lack.
pub(crate) trait BuildStep {
    /// True if nobody else may replace the filters of the tree meanwhile ([`TreeFilters::turn`]).
    fn takes_a_turn(&self) -> bool;

    /// Builds what is lacking, or writes a file. `None` if that is all.
    fn run(self: Box<Self>, cx: &Context<'_>, version: &Version) -> Result<Option<VersionChange>>;
}

/// The filter of a table that is being written.
pub(crate) trait TableBuilder: Send {
    /// Adds a key, in the order of the table. A key that is added twice wastes space.
    fn add(&mut self, hash: KeyHash);

    fn memory_bytes(&self) -> usize;

    /// Writes the filter of a table that will be in a level. It answers for one run, which the edit
    /// that brings the table will name, as long as the run has no other table. `None` if the table
    /// has no keys.
    fn finish(
        self: Box<Self>,
        cx: &Context<'_>,
        version: &Version,
        at: (usize, TableId),
    ) -> Result<Option<GroupProbe>>;
}

/// The parts of an open database that the filters of one tree use.
pub(crate) struct Context<'a> {
    pub(crate) tables: &'a Arc<TableContext>,
    pub(crate) owner: Owner,
    pub(crate) order: &'a dyn Order,
    pub(crate) design: &'a DesignInForce,
    pub(crate) host: &'a dyn Host,
}

/// The services that filters ask of an open database.
pub(crate) trait Host {
    /// The directory of the files of filters.
    fn filters_dir(&self) -> PathBuf;
    /// A new number, for a file or a filter: those of tables.
    fn next_number(&self) -> Result<TableId>;
    /// Waits until background work may write this many bytes more. `Closed` if the database is.
    fn pace(&self, bytes: u64) -> Result<()>;
    /// `Closed` if the database is.
    fn check_open(&self) -> Result<()>;
    /// Reports an error that fails nothing.
    fn report(&self, job: Job, error: Error);
}

/// The state of a tree's filters beside its versions.
#[derive(Debug, Default)]
pub(crate) struct TreeFilters {
    /// Held while a filter over the runs of a level below level 0 is replaced by one that covers
    /// more.
    pub(crate) turn: Mutex<()>,
    /// The filters of tables that are written but not in the tree yet.
    fresh: Mutex<BTreeMap<TableId, GroupProbe>>,
}

impl TreeFilters {
    /// Keeps the filter of a table for the edit that brings the table.
    pub(crate) fn keep(&self, table: TableId, filter: Option<GroupProbe>) {
        lock(&self.fresh).extend(filter.map(|filter| (table, filter)));
    }

    /// Forgets the filters of tables that no edit will name.
    pub(crate) fn forget(&self, tables: impl Iterator<Item = TableId>) {
        let mut fresh = lock(&self.fresh);
        tables.for_each(|table| drop(fresh.remove(&table)));
    }

    /// Gives the groups of the tables that an edit brings the filters of these tables.
    fn put<T: Facts<Filters = GroupFilters>>(&self, version: &mut Shape<T>, edit: &TreeEdit) {
        let mut fresh = lock(&self.fresh);
        for (place, meta) in &edit.added {
            let Some(mut filter) = fresh.remove(&meta.id) else {
                continue;
            };
            let level = version.levels.get_mut(usize::from(place.level));
            if let Some(group) = level.and_then(|it| it.group_mut(place.group as usize)) {
                filter.runs = [place.run].into();
                // It knows no other table of the run.
                if group.run(place.run).is_none_or(|run| run.tables.len() > 1) {
                    filter.forget(place.run);
                }
                group.filters.probes.push(filter);
            }
        }
    }
}

/// Builds the filters that know the tables that an edit will add ([`FilterKind::prepare`]).
pub(crate) fn prepare(
    cx: &Context<'_>,
    version: &Version,
    edit: &TreeEdit,
    open: &dyn Fn(&TableMeta) -> Arc<Table>,
) -> Vec<VersionChange> {
    let each = KINDS.iter();
    each.flat_map(|kind| kind.prepare(cx, version, edit, open))
        .collect()
}

/// Gives the groups that an edit changed what is known of their tables: the filters that were
/// written with the tables, then those of before ([`FilterKind::carry`]).
pub(crate) fn carry(filters: &TreeFilters, before: &Version, after: &mut Version, edit: &TreeEdit) {
    filters.put(after, edit);
    let each = KINDS.iter();
    each.for_each(|kind| kind.carry(before, after, edit));
}

/// The next thing that the filters of a tree lack ([`FilterKind::next`]).
pub(crate) fn next(cx: &Context<'_>, version: &Version) -> Option<Box<dyn BuildStep>> {
    KINDS.iter().find_map(|kind| kind.next(cx, version))
}

/// Writes the filters of a tree that no file holds ([`FilterKind::write_all`]).
pub(crate) fn write_all(cx: &Context<'_>, version: &Version) {
    KINDS.iter().for_each(|kind| kind.write_all(cx, version));
}

/// The filter of a table that will be written ([`FilterKind::begin_table`]).
pub(crate) fn begin_table(filter: FilterSpec) -> Option<Box<dyn TableBuilder>> {
    KINDS.iter().find_map(|kind| kind.begin_table(filter))
}

/// The files of a tree's filters.
pub(crate) fn files(version: &Version) -> impl Iterator<Item = Arc<PagedFile>> {
    KINDS.iter().flat_map(|kind| kind.files(version))
}

/// The directory of filters under the database's directory.
pub(crate) fn filters_dir(root: &Path) -> PathBuf {
    root.join("filters")
}

/// The files of filters that were there when the database was opened. Those that no tree takes are
/// removed.
pub(crate) struct FilterFiles(BTreeMap<(Owner, Magic), Vec<FoundFile>>);

impl FilterFiles {
    /// Reads the directory of filters. A file that cannot be opened is removed. Cost: two reads per
    /// file.
    pub(crate) fn list(context: &Arc<TableContext>, dir: &Path) -> FilterFiles {
        let mut found = FilterFiles(BTreeMap::new());
        for entry in context.storage.list(dir).unwrap_or_default() {
            let Some(number) = file_number(&entry.name) else {
                continue;
            };
            let mut file = filter_file(context, TableId(number), dir.join(&entry.name));
            if let Ok(framed) = FilterFile::open_for(context, &file) {
                file.set_bytes(entry.bytes);
                let of_tree = found.0.entry((framed.owner, framed.kind.magic()));
                of_tree.or_default().push((Arc::new(file), framed));
            }
        }
        found
    }

    /// Gives the groups of a tree the filters of their tables.
    pub(crate) fn attach(&mut self, cx: &Context<'_>, version: &mut Version) {
        for kind in KINDS {
            let own = self.0.remove(&(cx.owner, kind.magic()));
            kind.attach(cx, version, own.unwrap_or_default());
        }
    }
}

/// Calls `each` with the hash of each key of a table, in the order of the table and without the
/// repetitions of a key. Cost: the table is read whole.
fn hash_keys(cx: &Context<'_>, table: &Arc<Table>, mut each: impl FnMut(KeyHash)) -> Result<()> {
    let pages = StreamedPages::new(table.clone(), STREAM_BYTES_MIN);
    let mut iter = table.reader()?.clone().iter(Arc::new(pages));
    iter.seek_first()?;
    let (mut key, mut count) = (None, 0_u64);
    while let Some(entry) = iter.entry() {
        if key.as_deref() != Some(entry.key) {
            let before: &mut Vec<u8> = key.get_or_insert_default();
            before.clear();
            before.extend_from_slice(entry.key);
            each(KeyHash::of(cx.order.decode(entry.key), cx.owner.hash_seed));
        }
        count += 1;
        if count % 1024 == 0 {
            cx.host.check_open()?;
        }
        iter.advance()?;
    }
    Ok(())
}
