//! The tables that a repair finds: whole tables, and the readable parts of damaged ones.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow_io::{ReadMode, Storage};

use super::RepairReport;
use super::naming::{begins_with, free_name, names, remove_left, rename};
use crate::base::durable::sync_dir;
use crate::base::entry::{KeyspaceId, PartitionId};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key_order;
use crate::base::page::{Page, PageId, PageSource, TableId};
use crate::base::range_tombstones::RangeTombstones;
use crate::base::table_meta::TableMeta;
use crate::paths::recover::under_repair::lost_dir;
use crate::table::format;
use crate::table::inspected::InspectedTable;
use crate::table::iter::InternalIter;
use crate::table::open::table_number;
use crate::table::page_io::FilePages;
use crate::table::salvage::{Loss, Salvage};
use crate::table::table_file;
use crate::table::table_file::ResidencyChoice;
use crate::table::{Footer, Reader};
use crate::tree::partition::tables_dir;
use crate::tree::version::edit::KeyspaceDescription;
use crate::tree::version::state::State;

/// The suffix of a damaged table that is kept.
const DAMAGED: &str = ".damaged";
/// The suffix of a table that a sound manifest does not name.
const UNNAMED: &str = ".unnamed";

/// The entries missing from one damaged file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingEntries {
    /// The present path of the file.
    pub path: PathBuf,
    /// The keyspace, if it is known.
    pub keyspace: Option<String>,
    /// The number of missing entries, old versions and tombstones included, if it is known.
    pub entries: Option<u64>,
    /// The key ranges of the missing entries, in the order of the keyspace; empty if unknown. A key
    /// at an end of a range may itself lack versions.
    pub ranges: Vec<RangeInclusive<Vec<u8>>>,
}

impl MissingEntries {
    /// A file whose contents are unknown.
    pub(super) fn unknown(path: PathBuf) -> MissingEntries {
        MissingEntries {
            path,
            keyspace: None,
            entries: None,
            ranges: Vec::new(),
        }
    }
}

/// A table that is readable, at least in part.
pub(super) struct FoundTable {
    pub(super) path: PathBuf,
    pub(super) meta: TableMeta,
    pub(super) footer: Footer,
    /// The number of readable entries.
    pub(super) entries: u64,
    contents: Contents,
}

enum Contents {
    /// The table reads without error from front to back.
    Whole(Arc<dyn Reader>, Arc<FilePages>),
    Damaged(Arc<Salvage>),
}

impl FoundTable {
    /// An iterator over everything that is readable.
    pub(super) fn iter(&self) -> Box<dyn InternalIter> {
        match &self.contents {
            Contents::Whole(reader, pages) => reader.clone().iter(pages.clone()),
            Contents::Damaged(salvage) => Box::new(salvage.iter()),
        }
    }

    /// The readable range tombstones.
    pub(super) fn ranges(&self) -> RangeTombstones {
        match &self.contents {
            Contents::Whole(reader, _) => reader
                .ranges()
                .map(|it| RangeTombstones::clone(it))
                .unwrap_or_default(),
            Contents::Damaged(salvage) => salvage.ranges().unwrap_or_default(),
        }
    }

    /// The page of an out-of-line value that the iterator named.
    pub(super) fn value(&self, page: PageId) -> Result<Page> {
        match &self.contents {
            Contents::Whole(_, pages) => pages.page(page),
            Contents::Damaged(_) => Err(Error::corruption(
                "expected the values of a damaged table beside their keys",
            )),
        }
    }
}

/// The tables that were set aside.
#[derive(Default)]
pub(super) struct RepairTables {
    /// Those that are merged back.
    pub(super) readable: Vec<FoundTable>,
    /// The damaged ones, and the names that they keep.
    kept: Vec<(PathBuf, PathBuf)>,
    /// Those that an opening would have removed.
    needless: Vec<PathBuf>,
}

/// Checks that every table can be moved to the directory `lost`.
pub(super) fn check_names(storage: &dyn Storage, places: &[PathBuf]) -> Result<()> {
    for (from, to) in moves(storage, places)? {
        check_not_taken(storage, &from, &to)?;
    }
    Ok(())
}

/// Moves all tables away from recovery, which removes files that no manifest names.
pub(super) fn set_aside(storage: &dyn Storage, places: &[PathBuf]) -> Result<()> {
    for (from, to) in moves(storage, places)? {
        rename(storage, &from, &to)?;
    }
    sync_moves(storage, places)
}

/// Makes the moves of tables to the directory `lost` durable.
fn sync_moves(storage: &dyn Storage, places: &[PathBuf]) -> Result<()> {
    let mut dirs = places.iter().flat_map(|it| [lost_dir(it), tables_dir(it)]);
    dirs.try_for_each(|dir| sync_dir(storage, &dir))
}

/// The tables in their places, and their paths in the directory `lost`.
fn moves(storage: &dyn Storage, places: &[PathBuf]) -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut moves = Vec::new();
    for place in places {
        let (tables, lost) = (tables_dir(place), lost_dir(place));
        let mut moved = names(storage, &tables)?;
        moved.retain(|name| table_number(name).is_some());
        moves.extend(
            moved
                .iter()
                .map(|name| (tables.join(name), lost.join(name))),
        );
    }
    Ok(moves)
}

/// Removes the tables that a repair which was stopped has begun, as an opening does: its manifest
/// does not name them.
pub(super) fn remove_unfinished(
    storage: &dyn Storage,
    places: &[PathBuf],
    resumed: &State,
) -> Result<()> {
    let own = next_number(storage, places)?;
    for (table, _) in moves(storage, places)? {
        let number = number_of(&table).filter(|number| *number >= own);
        if number.is_some_and(|number| resumed.table(TableId(number)).is_none()) {
            remove_left(storage, &table)?;
        }
    }
    Ok(())
}

/// Sets the tables aside that a manifest does not name. An opening would remove them: they were not
/// finished, or merges have left them. Their names tell that a repair which is started again.
pub(super) fn set_unnamed_aside(
    storage: &dyn Storage,
    places: &[PathBuf],
    known: &State,
) -> Result<()> {
    for (table, to) in moves(storage, places)? {
        let number = number_of(&table).map(TableId);
        if number.is_some_and(|number| known.table(number).is_none()) {
            let to = format!("{}{UNNAMED}", to.display());
            rename(storage, &table, Path::new(&to))?;
        }
    }
    sync_moves(storage, places)
}

/// Checks that no other table has the name that a table will get. A crash may have left both names
/// of the same table.
fn check_not_taken(storage: &dyn Storage, table: &Path, to: &Path) -> Result<()> {
    let is_taken = storage.size(to).is_ok();
    if is_taken && !begins_with(storage, to, table).unwrap_or(false) {
        let error = Error::corruption(format!(
            "expected one table of this number, found another, {}: move one of them elsewhere",
            table.display()
        ));
        return Err(error.at(to, None));
    }
    Ok(())
}

/// Opens and checks every table that was set aside. Tables of trees that were cleared since stay
/// there. Those that the manifest does not name are needed only if another one is damaged, which
/// may have been merged from them.
pub(super) fn find(
    storage: &dyn Storage,
    places: &[PathBuf],
    known: &State,
    report: &mut RepairReport,
) -> Result<RepairTables> {
    let mut found = RepairTables::default();
    for path in set_aside_in(storage, places, "")? {
        find_one(storage, path, known, (&mut found, report))?;
    }
    let unnamed = set_aside_in(storage, places, UNNAMED)?;
    if found.kept.is_empty() {
        found.needless = unnamed;
        return Ok(found);
    }
    for path in unnamed {
        find_one(storage, path, known, (&mut found, report))?;
    }
    Ok(found)
}

fn find_one(
    storage: &dyn Storage,
    path: PathBuf,
    known: &State,
    (found, report): (&mut RepairTables, &mut RepairReport),
) -> Result<()> {
    let facts = facts(storage, &path)?;
    let described = number_of(&path).and_then(|id| known.table(TableId(id)));
    let meta = facts.as_ref().or(described);
    if meta.is_some_and(|meta| is_cleared(meta, known)) {
        return Ok(());
    }
    match open_whole(storage, &path, known) {
        Ok(table) => {
            report.tables += 1;
            report.entries += table.entries;
            found.readable.push(table);
        }
        Err(error) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let names = names(storage, path.parent().unwrap_or(Path::new("")))?;
            let is_taken = |name: &str| names.iter().any(|it| it == name);
            let to = path.with_file_name(free_name(&format!("{name}{DAMAGED}"), is_taken));
            let damaged = (path.as_path(), to.clone());
            let table = salvage(storage, damaged, known, &error, report);
            found.readable.extend(table);
            found.kept.push((path, to));
        }
    }
    Ok(())
}

/// The readable facts of all tables, of those that were set aside, too.
///
/// # Errors
/// As [`facts`].
pub(super) fn all_facts(storage: &dyn Storage, places: &[PathBuf]) -> Result<Vec<TableMeta>> {
    let mut tables = set_aside_in(storage, places, "")?;
    tables.extend(moves(storage, places)?.into_iter().map(|(table, _)| table));
    let facts = tables
        .iter()
        .filter_map(|path| facts(storage, path).transpose());
    facts.collect()
}

/// The facts of a table; `None` if they are damaged.
///
/// # Errors
/// `FormatVersion` and `Io`: such a table is not damaged.
fn facts(storage: &dyn Storage, path: &Path) -> Result<Option<TableMeta>> {
    let table = InspectedTable::open(storage, path);
    match table.and_then(|table| table.meta().cloned()) {
        Err(error) if error.kind() == ErrorKind::Corruption => Ok(None),
        facts => facts.map(Some).map_err(|e| e.at(path, None)),
    }
}

/// The tables that were set aside, whose names have this at their ends.
fn set_aside_in(storage: &dyn Storage, places: &[PathBuf], end: &str) -> Result<Vec<PathBuf>> {
    let mut tables = Vec::new();
    for lost in places.iter().map(|place| lost_dir(place)) {
        let is_table = |name: &String| name.strip_suffix(end).and_then(table_number).is_some();
        let names = names(storage, &lost)?.into_iter().filter(is_table);
        tables.extend(names.map(|name| lost.join(name)));
    }
    Ok(tables)
}

/// A number above that of every table and every kept file.
pub(super) fn next_number(storage: &dyn Storage, places: &[PathBuf]) -> Result<u64> {
    let mut next = 0;
    for lost in places.iter().map(|place| lost_dir(place)) {
        for name in names(storage, &lost)? {
            next = next.max(number_in(&name).map_or(0, |number| number + 1));
        }
    }
    Ok(next)
}

/// Removes the tables that were merged into trees of `now`, and needless ones. Damaged ones are
/// kept, and those of trees that a repair which was stopped had not found: the next repair takes
/// them. It continues here if this one is stopped.
pub(super) fn put_away(
    storage: &dyn Storage,
    found: &RepairTables,
    now: &State,
    report: &mut RepairReport,
) -> Result<()> {
    for table in &found.readable {
        let is_merged = now.trees.contains_key(&PartitionId(table.meta.partition));
        match table.contents {
            Contents::Whole(..) if is_merged => remove_left(storage, &table.path)?,
            Contents::Whole(..) => {
                let what = "expected a table of a known tree, found another: repair again";
                report.lost.push((table.path.clone(), what.to_owned()));
            }
            Contents::Damaged(_) => {}
        }
    }
    let mut needless = found.needless.iter();
    needless.try_for_each(|path| remove_left(storage, path))?;
    let mut kept = found.kept.iter();
    kept.try_for_each(|(from, to)| rename(storage, from, to))
}

/// The number of a table in `lost`, whatever its name says of it behind that.
fn number_in(name: &str) -> Option<u64> {
    let end = name.find(".table")? + ".table".len();
    table_number(&name[..end])
}

fn number_of(table: &Path) -> Option<u64> {
    table_number(&table.file_name()?.to_string_lossy())
}

/// Returns true if the keyspace of a table has another tree in the place of the table's.
fn is_cleared(meta: &TableMeta, known: &State) -> bool {
    known.keyspaces.contains_key(&KeyspaceId(meta.keyspace))
        && !known.trees.contains_key(&PartitionId(meta.partition))
}

fn open_whole(storage: &dyn Storage, path: &Path, known: &State) -> Result<FoundTable> {
    let file = storage
        .open(path, ReadMode::Pread)
        .map_err(|e| Error::io("open", path, e))?;
    let (meta, footer) = table_file::read_meta(&*file, path)?;
    let paged = ResidencyChoice {
        index_resident: false,
        filter_resident: false,
        places: false,
    };
    let seqno_override = known.table(meta.id).and_then(|meta| meta.seqno_override);
    let reader = format::open(file.clone(), path, meta.id, seqno_override, paged)?;
    let pages = Arc::new(FilePages {
        file,
        path: path.to_path_buf(),
    });
    reader.verify(&*pages)?;
    Ok(FoundTable {
        path: path.to_path_buf(),
        entries: meta.entries,
        meta: meta.renumbered(seqno_override),
        footer,
        contents: Contents::Whole(reader, pages),
    })
}

/// Reads a damaged table, which will be kept under another name, and reports its missing entries.
fn salvage(
    storage: &dyn Storage,
    (path, kept): (&Path, PathBuf),
    known: &State,
    error: &Error,
    report: &mut RepairReport,
) -> Option<FoundTable> {
    let described = number_of(path).and_then(|id| known.table(TableId(id)));
    let table = InspectedTable::open(storage, path);
    let footer = table.as_ref().ok().map(|table| *table.footer());
    let facts = table.as_ref().ok().and_then(|table| table.meta().ok());
    let meta = facts.or(described).cloned();
    let salvaged = table.and_then(|table| Salvage::of(table, described).map(Arc::new));
    let loss = salvaged
        .as_ref()
        .map_or_else(|_| Loss::default(), |salvage| salvage.loss());
    let reason = loss.reason.as_ref().or(salvaged.as_ref().err());
    let reason = reason.unwrap_or(error).to_string();
    report.lost.push((kept.clone(), reason));
    report.entries += loss.read;
    report
        .missing
        .extend(missing(kept, known, meta, footer, &loss));
    let has_ranges = |salvage: &Salvage| salvage.ranges().is_ok_and(|it| !it.is_empty());
    let salvage = salvaged.ok().filter(|it| loss.read > 0 || has_ranges(it))?;
    report.salvaged += 1;
    Some(FoundTable {
        path: path.to_path_buf(),
        entries: loss.read,
        meta: salvage.meta().clone(),
        footer: *salvage.footer(),
        contents: Contents::Damaged(salvage),
    })
}

/// The entries missing from a damaged table; `None` if there are none.
fn missing(
    path: PathBuf,
    known: &State,
    meta: Option<TableMeta>,
    footer: Option<Footer>,
    loss: &Loss,
) -> Option<MissingEntries> {
    let Some(meta) = meta else {
        return Some(MissingEntries::unknown(path));
    };
    let entries = meta.entries.saturating_sub(loss.read);
    if entries == 0 && loss.ranges.is_empty() {
        return None;
    }
    let all = meta.smallest_key..=meta.largest_key;
    let ranges = match &loss.ranges[..] {
        [] => std::slice::from_ref(&all),
        ranges => ranges,
    };
    let id = KeyspaceId(meta.keyspace);
    let keyspace = known.keyspaces.get(&id);
    let user_key = |order_key: &[u8]| match (footer, keyspace) {
        (Some(footer), _) => footer.user_key(order_key).to_vec(),
        (None, Some(KeyspaceDescription { layout, seed, .. })) => {
            let order = key_order::open(layout.order, *seed);
            order.decode(order_key).to_vec()
        }
        (None, None) => order_key.to_vec(),
    };
    let user_keys =
        |range: &RangeInclusive<Vec<u8>>| user_key(range.start())..=user_key(range.end());
    Some(MissingEntries {
        path,
        keyspace: Some(keyspace.map_or_else(|| guessed_name(id), |k| k.name.clone())),
        entries: Some(entries),
        ranges: ranges.iter().map(user_keys).collect(),
    })
}

/// The name of a keyspace that is known from its tables only.
pub(super) fn guessed_name(id: KeyspaceId) -> String {
    format!("keyspace-{}", id.0)
}
