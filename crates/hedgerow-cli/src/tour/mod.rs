//! `hedgerow tour DIR`: the engine at work, as the metadata service of a file system.
//!
//! [`run`] is the order of the steps; each has a file. Every claim is checked against the real file
//! system or the earlier contents. A failed check gives exit code 1.

mod changes;
mod copies;
mod load;
mod place;
mod questions;
mod report;
mod schema;
mod shape;
mod store;
mod walk;

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use hedgerow::io::{Clock, OsClock};
use hedgerow::{Design, Layout, PolicySpec};

use crate::arguments;
use crate::exit::Failure;
use crate::output::Output;
use place::Directories;
use report::Report;
use store::{Background, Settings, Store};

const EXAMPLE: &str = "\
Example:
  hedgerow tour /usr
  hedgerow tour --memory-budget 64MiB --policy leveling:4 --db /tmp/metadata --keep --json /home

The memory budget and the memtables are small by default, so that even a small directory tree gets \
several levels.";

/// Stores the metadata of a directory tree, then queries, changes, copies and verifies it.
///
/// Walks DIR without following links and stores the metadata of every entry under the key (parent,
/// name), as the metadata service of a file system does. Answers queries from the store alone and
/// compares the answers with the file system. Overwrites and deletes a part under a snapshot. Makes
/// a checkpoint, reopens and verifies. Nothing in DIR is changed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    /// The directory to walk.
    #[arg(value_hint = ValueHint::DirPath)]
    dir: PathBuf,

    /// The directory of the database, new or from an earlier tour; it is kept [default: a temporary
    /// directory, which is removed, whatever HEDGEROW_DB says].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::DirPath)]
    db: Option<PathBuf>,

    /// The memory budget of the engine.
    #[arg(long, value_name = "BYTES", default_value = "16MiB", value_parser = arguments::bytes)]
    memory_budget: u64,

    /// The memtable size of each keyspace [default: so small that the tree gets several levels].
    #[arg(long, value_name = "BYTES", value_parser = arguments::bytes)]
    memtable_size: Option<u64>,

    /// The merge policy.
    #[arg(long, value_name = "SPEC", default_value = "leveling:4,one-table")]
    policy: PolicySpec,

    /// The number of partitions of each keyspace.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    partitions: u16,

    /// Keeps the temporary database and the checkpoint.
    #[arg(long)]
    keep: bool,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let root = &arguments.dir;
    walk::check(root)?;
    let watch = Watch::new();
    let place = Directories::choose(root, arguments.db.as_deref(), arguments.keep)?;
    let mut count_time = Duration::ZERO;
    let expected = watch.add(&mut count_time, || walk::count(root, &place.left_out()));
    let settings = arguments.settings(&place, expected);
    let mut report = Report::new(output, root, &settings);

    // Load.
    let store = Store::create(&settings)?;
    let size = settings.size(expected);
    let left_out = place.left_out();
    let loaded = load::load(&store, root, &left_out, &size, &watch)?;
    report.loaded(&loaded, count_time);
    report.shape("after_loading", "The trees after loading", &store);

    // Query.
    let attributes = questions::stat(&store, root, &loaded, &watch)?;
    report.stat(&attributes);
    let listings = questions::list(&store, root, (&loaded, &left_out), &watch)?;
    report.list(&listings);
    let totals = questions::add_up(&store, &watch)?;
    report.largest(&totals, &loaded);

    // Change.
    let changes = changes::make(&store, &totals, &watch)?;
    report.changes(&changes);
    report.shape("after_changes", "The trees after the changes", &store);
    report.engine(&store, &loaded, &attributes, &changes.contents);

    // Copy, close, reopen.
    let copy = copies::checkpoint(&store, &settings, &place.checkpoint, &watch)?;
    report.checkpoint(&copy, &changes.contents);
    let reopened = copies::reopen(store, &settings, &watch)?;
    report.reopened(&reopened, &changes.contents);

    place.clear_away()?;
    report.finish(&settings.background, watch.now(), &place)
}

impl Arguments {
    fn settings(&self, place: &Directories, expected: u64) -> Settings {
        let layout = match self.partitions {
            1 => Layout::sorted(),
            n => Layout::sorted().hash(n),
        };
        let memtable_bytes = self.memtable_size.unwrap_or_else(|| {
            shape::memtable_bytes(expected, self.memory_budget, self.partitions)
        });
        let design = Design {
            policy: self.policy.clone(),
            memtable_bytes: Some(memtable_bytes),
            table_bytes: Some(memtable_bytes / u64::from(self.partitions)),
            ..Design::default()
        };
        Settings {
            path: place.database.clone(),
            memory_budget: self.memory_budget,
            layout,
            design,
            background: Background::default(),
        }
    }
}

impl Settings {
    fn size(&self, expected: u64) -> shape::Size {
        shape::Size::new(expected, self.design.memtable_bytes.unwrap_or(0))
    }
}

/// The clock of the tour, and the time when it began.
pub(crate) struct Watch(OsClock, Duration);

impl Watch {
    fn new() -> Watch {
        let clock = OsClock::new();
        let began = clock.now();
        Watch(clock, began)
    }

    fn now(&self) -> Duration {
        self.0.now().saturating_sub(self.1)
    }

    fn unix_seconds(&self) -> i64 {
        self.0.unix_seconds() as i64
    }

    /// Adds the time that `work` takes to `sum`.
    fn add<T>(&self, sum: &mut Duration, work: impl FnOnce() -> T) -> T {
        let began = self.now();
        let result = work();
        *sum += self.now().saturating_sub(began);
        result
    }
}
