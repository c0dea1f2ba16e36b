//! The walk into the store: batches of entries, each in both keyspaces or in none.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hedgerow::{Durability, MemoryStats};

use super::store::Store;
use super::walk::{Found, Problems, Walk};
use super::{Watch, shape};
use crate::exit::Failure;
use crate::output::progress;

/// Entries per batch: what a service might take from its clients at once.
const BATCH_ENTRIES: usize = 100;
/// How many paths are kept to ask for later.
const SAMPLE_PATHS: u64 = 5000;
/// How often memory is looked at.
const LOOKS: u64 = 200;

/// What was loaded.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) entries: u64,
    pub(crate) directories: u64,
    pub(crate) files: u64,
    pub(crate) links: u64,
    /// Further names of entries with several.
    pub(crate) names_again: u64,
    /// Sizes of regular files, each counted once.
    pub(crate) file_bytes: u64,
    pub(crate) batches: u64,
    pub(crate) puts: u64,
    /// From the first entry to the last batch.
    pub(crate) time: Duration,
    /// The part of it that the store took.
    pub(crate) store_time: Duration,
    /// What merges took after the last batch.
    pub(crate) settle_time: Duration,
    pub(crate) problems: Problems,
    /// Where the memory was when most was in use.
    pub(crate) memory_peak: MemoryStats,
    /// When the walk began, in seconds since 1970.
    pub(crate) began_unix: i64,
    /// Paths below the root, spread over the walk.
    pub(crate) sample: Vec<PathBuf>,
}

impl Loaded {
    fn count(&mut self, root: &Path, found: &Found, sample_every: u64) {
        let attributes = &found.attributes;
        if self.entries.is_multiple_of(sample_every)
            && let Ok(path) = found.path.strip_prefix(root)
        {
            self.sample.push(path.to_path_buf());
        }
        self.entries += 1;
        self.directories += u64::from(attributes.is_directory());
        self.files += u64::from(attributes.is_regular());
        self.links += u64::from(attributes.is_link());
        self.names_again += u64::from(found.again);
        self.puts += if found.again { 1 } else { 2 };
        if attributes.is_regular() && !found.again {
            self.file_bytes += attributes.size;
        }
    }

    fn look_at_memory(&mut self, store: &Store) {
        let memory = store.db.stats().memory;
        if memory.total() > self.memory_peak.total() {
            self.memory_peak = memory;
        }
    }
}

/// Walks the tree into the store. `expected` is about how many entries there are.
pub(crate) fn load(
    store: &Store,
    root: &Path,
    without: &[&Path],
    expected: u64,
    watch: &Watch,
) -> Result<Loaded, Failure> {
    let mut loaded = Loaded {
        began_unix: watch.unix_seconds(),
        ..Loaded::default()
    };
    let bar = progress("loading", expected);
    let began = watch.now();
    let sample_every = (expected / SAMPLE_PATHS).max(1);
    let look_every = (expected / BATCH_ENTRIES as u64 / LOOKS).max(1);
    let mut walk = Walk::new(root, without);
    let mut spread = shape::Spread::new(expected);
    let mut waiting: Vec<Found> = Vec::with_capacity(BATCH_ENTRIES);
    loop {
        waiting.extend(walk.by_ref().take(BATCH_ENTRIES));
        if waiting.is_empty() {
            break;
        }
        watch.add(&mut loaded.store_time, || write(store, &waiting))?;
        loaded.batches += 1;
        for found in waiting.drain(..) {
            loaded.count(root, &found, sample_every);
        }
        spread.keep(store, loaded.entries)?;
        if loaded.batches.is_multiple_of(look_every) {
            loaded.look_at_memory(store);
        }
        bar.set_position(loaded.entries);
    }
    bar.finish_and_clear();
    loaded.time = watch.now() - began;
    loaded.look_at_memory(store);
    watch.add(&mut loaded.settle_time, || store.settle())?;
    loaded.problems = walk.problems;
    Ok(loaded)
}

fn write(store: &Store, entries: &[Found]) -> Result<(), Failure> {
    let mut batch = store.db.batch();
    for found in entries {
        let place = (found.parent, found.name.as_slice());
        store.add(&mut batch, place, &found.attributes, found.again)?;
    }
    Ok(batch.commit(Durability::Buffered)?)
}
