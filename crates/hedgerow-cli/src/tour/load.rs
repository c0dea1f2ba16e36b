//! Loads the walk into the store: batches of entries, each in both keyspaces or in none.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hedgerow::{Durability, MemoryStats};

use super::Watch;
use super::shape::{Size, Spread};
use super::store::Store;
use super::walk::{Found, LeftOut, Problems, Walk};

use crate::exit::Failure;
use crate::output::progress;

/// The number of paths kept for later lookups.
const SAMPLE_PATHS: u64 = 5000;
/// The number of times that memory is sampled.
const LOOKS: u64 = 200;

/// Counts and times of the load.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) entries: u64,
    pub(crate) directories: u64,
    pub(crate) files: u64,
    pub(crate) links: u64,
    /// Further names of entries with several names.
    pub(crate) names_again: u64,
    /// Sizes of regular files, each counted once.
    pub(crate) file_bytes: u64,
    pub(crate) batches: u64,
    pub(crate) puts: u64,
    /// The time from the first entry to the last batch, without the pauses.
    pub(crate) time: Duration,
    /// The time that loading waited for merges near its end, see [`Spread`].
    pub(crate) pause_time: Duration,
    /// The part of `time` that the store took.
    pub(crate) store_time: Duration,
    /// The time of merges after the last batch.
    pub(crate) settle_time: Duration,
    pub(crate) problems: Problems,
    /// The memory by purpose when most was in use.
    pub(crate) memory_peak: MemoryStats,
    /// The beginning of the walk, in seconds since 1970.
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

/// Walks the tree into the store.
pub(crate) fn load(
    store: &Store,
    root: &Path,
    left_out: &LeftOut,
    size: &Size,
    watch: &Watch,
) -> Result<Loaded, Failure> {
    let mut loaded = Loaded {
        began_unix: watch.unix_seconds(),
        ..Loaded::default()
    };
    let batch_entries = size.batch_entries();
    let bar = progress("loading", size.entries);
    let began = watch.now();
    let sample_every = (size.entries / SAMPLE_PATHS).max(1);
    let look_every = (size.entries / batch_entries as u64 / LOOKS).max(1);
    let mut walk = Walk::new(root, left_out);
    let mut spread = Spread::new(size);
    let mut waiting: Vec<Found> = Vec::with_capacity(batch_entries);
    loop {
        waiting.extend(walk.by_ref().take(batch_entries));
        if waiting.is_empty() {
            break;
        }
        watch.add(&mut loaded.store_time, || write(store, &waiting))?;
        loaded.batches += 1;
        for found in waiting.drain(..) {
            loaded.count(root, &found, sample_every);
        }
        watch.add(&mut loaded.pause_time, || {
            spread.keep(store, loaded.entries)
        })?;
        if loaded.batches.is_multiple_of(look_every) {
            loaded.look_at_memory(store);
        }
        bar.set_position(loaded.entries);
    }
    bar.finish_and_clear();
    loaded.time = watch.now() - began - loaded.pause_time;
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
