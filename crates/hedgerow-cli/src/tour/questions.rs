//! The queries of a metadata service, answered from the store alone and compared with the real file
//! system.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hedgerow::DbStats;

use super::Watch;
use super::load::Loaded;
use super::schema::{Attributes, ROOT, split_entry_key};
use super::store::{Contents, Store};
use super::walk::LeftOut;
use crate::exit::Failure;
use crate::output::{progress, shown};

/// The number of directories listed.
const LISTINGS_MAX: usize = 500;
/// The number of entries of the root that are shown.
const SHOWN_ENTRIES: usize = 6;
const LARGEST: usize = 10;

/// The comparison of answers with the file system.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) equal: u64,
    /// Different, but changed on disk since the walk began: no error of the store.
    pub(crate) changed_meanwhile: u64,
    /// Different and not changed on disk: an error.
    pub(crate) different: Vec<String>,
}

impl Comparison {
    fn add(&mut self, equal: bool, changed: bool, what: &Path) {
        if equal {
            self.equal += 1;
        } else if changed {
            self.changed_meanwhile += 1;
        } else {
            self.different
                .push(shown(what.as_os_str().as_encoded_bytes()));
        }
    }
}

// ---- stat ----

/// Lookups of paths, one component after another.
#[derive(Debug, Default)]
pub(crate) struct Stat {
    pub(crate) paths: u64,
    pub(crate) gets: u64,
    pub(crate) time: Duration,
    pub(crate) comparison: Comparison,
    /// Pages that gets used, and those read from files.
    pub(crate) pages: u64,
    pub(crate) device_reads: u64,
    pub(crate) filter_probes: u64,
    pub(crate) filter_false_positives: u64,
    /// The gets answered by each part of the tree: the memtable, then level by level.
    pub(crate) memtable_hits: u64,
}

pub(crate) fn stat(
    store: &Store,
    root: &Path,
    loaded: &Loaded,
    watch: &Watch,
) -> Result<Stat, Failure> {
    let mut answer = Stat::default();
    let bar = progress("stat", loaded.sample.len() as u64);
    let before = store.db.stats();
    for path in &loaded.sample {
        let (found, gets) = watch.add(&mut answer.time, || store.stat(path))?;
        answer.paths += 1;
        answer.gets += gets;
        let real = root.join(path);
        let (equal, changed) = compare(&real, found.as_ref(), loaded.began_unix);
        answer.comparison.add(equal, changed, &real);
        bar.inc(1);
    }
    bar.finish_and_clear();
    answer.count_work(&before, &store.db.stats());
    Ok(answer)
}

impl Stat {
    fn count_work(&mut self, before: &DbStats, after: &DbStats) {
        self.pages = after.block_reads - before.block_reads;
        self.device_reads = after.device_reads - before.device_reads;
        self.filter_probes = after.filter_probes - before.filter_probes;
        self.filter_false_positives = after.filter_false_positives - before.filter_false_positives;
        self.memtable_hits = after.memtable_hits - before.memtable_hits;
    }
}

/// Returns if the stored attributes equal the real ones, and if the real ones changed since the
/// walk began.
fn compare(real: &Path, stored: Option<&Attributes>, began_unix: i64) -> (bool, bool) {
    // The root may be a symbolic link.
    let metadata = match stored {
        Some(stored) if stored.id == ROOT => fs::metadata(real),
        _ => fs::symlink_metadata(real),
    };
    let Ok(metadata) = metadata else {
        return (stored.is_none(), true);
    };
    let target = match fs::read_link(real) {
        Ok(target) if metadata.is_symlink() => target.into_os_string().into_vec(),
        _ => Vec::new(),
    };
    let id = stored.map_or(0, |stored| stored.id);
    let equal = stored == Some(&Attributes::new(id, &metadata, target));
    (equal, metadata.ctime() >= began_unix)
}

// ---- list ----

/// Lists of directories.
#[derive(Debug, Default)]
pub(crate) struct List {
    pub(crate) directories: u64,
    pub(crate) entries: u64,
    pub(crate) time: Duration,
    pub(crate) comparison: Comparison,
    /// The first entries of the root.
    pub(crate) root: Vec<(Vec<u8>, Attributes)>,
    pub(crate) root_entries: u64,
}

pub(crate) fn list(
    store: &Store,
    root: &Path,
    (loaded, left_out): (&Loaded, &LeftOut),
    watch: &Watch,
) -> Result<List, Failure> {
    let mut answer = List::default();
    for path in directories(&loaded.sample) {
        let (Some(directory), _) = store.stat(&path)? else {
            answer
                .comparison
                .different
                .push(shown(path.as_os_str().as_encoded_bytes()));
            continue;
        };
        let found = watch.add(&mut answer.time, || {
            store.list(directory.id)?.collect::<Result<Vec<_>, _>>()
        })?;
        answer.directories += 1;
        answer.entries += found.len() as u64;
        let real = root.join(&path);
        let stored: BTreeSet<&[u8]> = found.iter().map(|(name, _)| name.as_slice()).collect();
        let names = names(&real, left_out);
        let equal = stored.iter().copied().eq(names.iter().map(Vec::as_slice));
        let changed = fs::metadata(&real).map_or(true, |m| m.ctime() >= loaded.began_unix);
        answer.comparison.add(equal, changed, &real);
        if directory.id == ROOT {
            answer.root_entries = found.len() as u64;
            answer.root = found.into_iter().take(SHOWN_ENTRIES).collect();
        }
    }
    Ok(answer)
}

/// The directories of the paths, the root first; a sample if there are many.
fn directories(sample: &[PathBuf]) -> Vec<PathBuf> {
    let parents: BTreeSet<&Path> = sample.iter().filter_map(|path| path.parent()).collect();
    let every = parents.len().div_ceil(LISTINGS_MAX).max(1);
    let chosen = parents.into_iter().filter(|p| !p.as_os_str().is_empty());
    let chosen = chosen.step_by(every).map(Path::to_path_buf);
    std::iter::once(PathBuf::new()).chain(chosen).collect()
}

fn names(dir: &Path, left_out: &LeftOut) -> BTreeSet<Vec<u8>> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| !left_out.has_entry(entry));
    entries.map(|entry| entry.file_name().into_vec()).collect()
}

// ---- the largest directories ----

/// The totals of a directory with everything below it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Total {
    parent: u64,
    /// Sizes of regular files, each counted once.
    pub(crate) bytes: u64,
    /// The number of entries below it.
    pub(crate) entries: u64,
}

/// One of the largest directories.
#[derive(Debug)]
pub(crate) struct Large {
    pub(crate) path: Vec<u8>,
    pub(crate) total: Total,
}

/// The totals of all directories, from one scan.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) directories: BTreeMap<u64, Total>,
    pub(crate) scanned: u64,
    pub(crate) time: Duration,
    pub(crate) by_bytes: Vec<Large>,
    pub(crate) by_entries: Vec<Large>,
    /// The contents of entries and inodes.
    pub(crate) contents: [Contents; 2],
}

impl Totals {
    pub(crate) fn root(&self) -> Total {
        self.directories.get(&ROOT).copied().unwrap_or_default()
    }
}

pub(crate) fn add_up(store: &Store, watch: &Watch) -> Result<Totals, Failure> {
    let mut totals = Totals::default();
    let mut time = Duration::ZERO;
    totals.scanned = watch.add(&mut time, || scan(store, &mut totals.directories))?;
    totals.time = time;
    include_children(&mut totals.directories);
    totals.by_bytes = largest(store, &totals, |total| total.bytes)?;
    totals.by_entries = largest(store, &totals, |total| total.entries)?;
    totals.contents = store.contents()?;
    Ok(totals)
}

/// Adds every entry to its own directory. Returns the number of entries.
fn scan(store: &Store, directories: &mut BTreeMap<u64, Total>) -> Result<u64, Failure> {
    let mut entries = 0;
    let mut seen = HashSet::new();
    for item in store.entries.scan::<&[u8]>(..)? {
        let (key, value) = item?;
        let (parent, _) = split_entry_key(&key)?;
        let attributes = Attributes::decode(&value)?;
        entries += 1;
        if attributes.is_directory() {
            directories.entry(attributes.id).or_default().parent = parent;
        }
        let first = !attributes.is_hard_linked() || seen.insert(attributes.id);
        let total = directories.entry(parent).or_default();
        total.entries += 1;
        if attributes.is_regular() && first {
            total.bytes += attributes.size;
        }
    }
    Ok(entries)
}

/// Adds every directory to its parent. The id of a directory is larger than its parent's, so in
/// descending order each one is complete when it is added.
fn include_children(directories: &mut BTreeMap<u64, Total>) {
    let ids: Vec<u64> = directories.keys().rev().copied().collect();
    for id in ids.into_iter().filter(|&id| id > ROOT) {
        let child = directories[&id];
        if let Some(parent) = directories.get_mut(&child.parent) {
            parent.bytes += child.bytes;
            parent.entries += child.entries;
        }
    }
}

/// The directories below the root with the largest values of `most`.
fn largest(
    store: &Store,
    totals: &Totals,
    most: impl Fn(&Total) -> u64,
) -> Result<Vec<Large>, Failure> {
    let below = totals.directories.iter().filter(|(id, _)| **id > ROOT);
    let mut all: Vec<(u64, Total)> = below.map(|(id, total)| (*id, *total)).collect();
    all.sort_by_key(|(id, total)| (std::cmp::Reverse(most(total)), *id));
    all.truncate(LARGEST);
    let named = all.into_iter().map(|(id, total)| {
        let path = store.path(id)?;
        Ok(Large { path, total })
    });
    named.collect()
}

/// The directory whose number of entries is nearest to `entries` and at most half of the tree's.
pub(crate) fn subtree_near(totals: &Totals, entries: u64) -> Option<u64> {
    let half = totals.root().entries / 2;
    let below = totals.directories.iter().filter(|(id, _)| **id > ROOT);
    let fitting = below.filter(|(_, total)| total.entries <= half);
    let nearest = fitting.min_by_key(|(id, total)| (total.entries.abs_diff(entries), **id));
    nearest.map(|(id, _)| *id)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn totals_include_everything_below() {
        let own = |parent, bytes, entries| Total {
            parent,
            bytes,
            entries,
        };
        let mut directories = BTreeMap::from([
            (0, own(0, 0, 1)),
            (1, own(0, 1, 2)),
            (2, own(1, 10, 1)),
            (5, own(2, 100, 3)),
            (9, own(1, 1000, 4)),
        ]);
        include_children(&mut directories);
        let bytes: HashMap<u64, u64> = directories.iter().map(|(id, t)| (*id, t.bytes)).collect();
        assert_eq!(
            (bytes[&1], bytes[&2], bytes[&5], bytes[&9]),
            (1111, 110, 100, 1000)
        );
        assert_eq!(directories[&1].entries, 10);
        let totals = Totals {
            directories,
            ..Totals::default()
        };
        assert_eq!(subtree_near(&totals, 3), Some(5));
    }
}
