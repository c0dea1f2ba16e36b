//! `hedgerow explain design`: the design of a keyspace, with predicted and measured costs.

use hedgerow::advisor::{Device, ExpectedTree, Mix, Prediction, Workload, expect};
use hedgerow::inspect::{self, Change, EntryCounts, PartitionId};
use hedgerow::io::OsStorage;
use hedgerow::{Db, Design, KeyOrder, Keyspace, KeyspaceStats, PageClass};
use serde_json::{Value, json};

use crate::database::KeyspaceArguments;
use crate::exit::{Exit, Failure};
use crate::keyspaces::{operations_object, operations_text};
use crate::output::{Output, bytes, count, counted};

const EXAMPLE: &str = "\
Example:
  hedgerow explain design --db people --keyspace default";

/// Shows the design of a keyspace and its levels, with predicted and measured costs: writes of an
/// entry, space, runs, reads per get, memory.
///
/// The prediction is for a store that grew by puts of keys in random order. The measured writes of
/// an entry are those since the keyspace got its design. The manifest counts the entries that
/// flushes and bulk loads added, and the entries that they and merges wrote; opening the
/// database again does not end the period. After a change of the design, nothing is measured until
/// four times the initial entries were added. The measured reads are lookups of a sample of keys
/// with an empty cache.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    keyspace: KeyspaceArguments,
}

/// A predicted number, and the measured one if it can be measured.
struct Pair {
    name: &'static str,
    predicted: f64,
    measured: Option<f64>,
    /// True if the number is in bytes.
    is_bytes: bool,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let (dir, memory) = arguments.keyspace.place();
    let (db, keyspace) = arguments.keyspace.open_to_read()?;
    let manifest = inspect::manifest(&OsStorage::default(), dir)?;
    // Those of the sample are not the user's.
    let operations = keyspace.stats().operations;
    let sample = Sample::of(&keyspace, &manifest)?;
    let mut stats = keyspace.stats();
    stats.operations = operations;
    let workload = Workload {
        key_bytes: sample.key_bytes,
        // The keys of the sample may be longer than others.
        value_bytes: (entry_bytes(&stats) - sample.key_bytes).max(0.0),
        ..Workload::new(
            Mix::new(Mix {
                get: 1.0,
                ..Mix::default()
            })?,
            stats.entries() as f64,
        )
    };
    let design = keyspace.design();
    let device = Device {
        block_bytes: f64::from(design.block_bytes),
        ..Device::nvme()
    };
    let expected = expect(&design, &workload, &device, memory)?;
    let mut uncached = expected.tree.clone();
    for level in &mut uncached.levels {
        level.cached = 0.0;
    }
    let prediction = uncached.predict(&workload, &device);
    let written = written(&manifest, &keyspace.name());
    let pairs = pairs(&prediction, &written, &stats, &sample, &db);
    print_head(&keyspace.name(), &design, &stats, output);
    print_levels(&expected, &stats, &workload, output);
    print_pairs(&pairs, output);
    output.wrapped("  ", &period_text(&written));
    output.object(&json!({
        "keyspace": keyspace.name(),
        "design": design.to_string(),
        "self_tuning": stats.tunes_itself,
        "operations": operations_object(&stats.operations),
        "levels": levels_object(&expected, &stats, &workload),
        "pairs": pairs.iter().map(Pair::object).collect::<Vec<_>>(),
        "written": {
            "since": "design",
            "initial": written.initial,
            "added": written.added,
            "written": written.written,
            "enough": written.entry_writes().is_some(),
        },
    }));
    Ok(())
}

fn print_head(name: &str, design: &Design, stats: &KeyspaceStats, output: &mut Output) {
    output.line(format_args!("design of `{}`", name));
    for line in design.to_string().lines() {
        output.line(format_args!("  {line}"));
    }
    let tunes = match stats.tunes_itself {
        true => "tunes itself",
        false => "does not tune itself",
    };
    let operations = operations_text(&stats.operations);
    output.wrapped("  ", &format!("{tunes}; recent operations: {operations}"));
}

/// The trees of a keyspace.
fn partitions(manifest: &inspect::Manifest, keyspace: &str) -> Vec<PartitionId> {
    let mut state = manifest.state.iter().flatten();
    let found = state.find_map(|change| match change {
        Change::CreateKeyspace {
            name, partitions, ..
        } => (name == keyspace).then(|| partitions.clone()),
        _ => None,
    });
    found.unwrap_or_default()
}

/// The manifest's counts for a keyspace; zeros if it has no entries.
pub(crate) fn written(manifest: &inspect::Manifest, name: &str) -> EntryCounts {
    let state = || manifest.state.iter().flatten();
    let keyspace = state().find_map(|change| match change {
        Change::CreateKeyspace { id, name: it, .. } => (it == name).then_some(*id),
        _ => None,
    });
    let written = state().find_map(|change| match change {
        Change::Written { id, written } => (Some(*id) == keyspace).then_some(*written),
        _ => None,
    });
    written.unwrap_or_default()
}

fn period_text(written: &EntryCounts) -> String {
    let since = format!(
        "since the keyspace got its design: {} added, {} written",
        counted(written.added, "entry"),
        count(written.written)
    );
    match written.entry_writes() {
        Some(_) => format!("writes of an entry: {since}"),
        None => format!(
            "not enough written yet: {since}; it had {} then, {} added are enough",
            count(written.initial),
            count(written.enough().max(1))
        ),
    }
}

/// The mean bytes of a key with its value.
fn entry_bytes(stats: &KeyspaceStats) -> f64 {
    let entries: u64 = stats.levels.iter().map(|level| level.entries).sum();
    stats.raw_bytes as f64 / entries.max(1) as f64
}

// ---- measurements ----

/// Lookups of keys near the beginnings of tables, so that they are spread like the data.
struct Sample {
    key_bytes: f64,
    hit_reads: f64,
    miss_reads: f64,
}

impl Sample {
    fn of(keyspace: &Keyspace, manifest: &inspect::Manifest) -> Result<Sample, Failure> {
        const TABLES: usize = 500;
        let partitions = partitions(manifest, &keyspace.name());
        let state = manifest.state.iter().flatten();
        let starts = state.filter_map(|change| match change {
            Change::Tree(edit) if partitions.contains(&edit.partition) => {
                Some(edit.added.iter().map(|(_, meta)| &meta.smallest_key))
            }
            _ => None,
        });
        let mut starts: Vec<&Vec<u8>> = starts.flatten().collect();
        starts.sort();
        let every = starts.len().div_ceil(TABLES).max(1);
        let mut keys = Vec::new();
        if keyspace.layout().order == KeyOrder::Sorted {
            for start in starts.into_iter().step_by(every) {
                keys.extend(keys_from(keyspace, start)?);
            }
        } else {
            keys = keys_as_stored(keyspace, starts.len().min(TABLES))?;
        }
        if keys.is_empty() {
            let why = format!("expected tables in `{}`, found none", keyspace.name());
            return Err(Failure::new(Exit::NotFound, why));
        }
        let bytes: usize = keys.iter().map(Vec::len).sum();
        let absent: Vec<Vec<u8>> = keys.iter().map(|key| [key, &b"\0"[..]].concat()).collect();
        Ok(Sample {
            key_bytes: bytes as f64 / keys.len() as f64,
            hit_reads: reads(keyspace, &keys)?,
            miss_reads: reads(keyspace, &absent)?,
        })
    }
}

/// The number of keys looked up behind the beginning of a table, and their distance in entries.
const KEYS: usize = 4;
const APART: usize = 7;

/// Up to [`KEYS`] keys from `start` on, [`APART`] entries apart.
fn keys_from(keyspace: &Keyspace, start: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
    let entries = keyspace.scan(start..)?.take(KEYS * APART).step_by(APART);
    entries.map(|entry| Ok(entry?.0.to_vec())).collect()
}

/// The first keys in stored order, [`KEYS`] for each table. Their hashes have spread them already.
fn keys_as_stored(keyspace: &Keyspace, tables: usize) -> Result<Vec<Vec<u8>>, Failure> {
    let entries = keyspace.scan_unordered()?.step_by(APART);
    let keys = entries.take(KEYS * tables);
    keys.map(|entry| Ok(entry?.0.to_vec())).collect()
}

/// The mean number of data pages per lookup, cached or not.
fn reads(keyspace: &Keyspace, keys: &[Vec<u8>]) -> Result<f64, Failure> {
    let mut pages = 0;
    for key in keys {
        let explanation = keyspace.explain(key)?;
        let data = explanation
            .pages()
            .filter(|page| page.class == PageClass::Data);
        pages += data.count();
    }
    Ok(pages as f64 / keys.len() as f64)
}

fn pairs(
    prediction: &Prediction,
    written: &EntryCounts,
    stats: &KeyspaceStats,
    sample: &Sample,
    db: &Db,
) -> Vec<Pair> {
    let memory = db.stats().memory;
    let [indexes, filters] = match db.keyspaces().len() {
        1 => ["indexes", "filters"],
        _ => ["indexes, all keyspaces", "filters, all keyspaces"],
    };
    let runs: usize = stats
        .levels
        .iter()
        .filter(|it| it.level > 0)
        .map(|it| it.runs)
        .sum();
    let pair = |name, predicted, measured| Pair {
        name,
        predicted,
        measured,
        is_bytes: false,
    };
    let bytes_pair = |name, predicted, measured: u64| Pair {
        is_bytes: true,
        ..pair(name, predicted, Some(measured as f64))
    };
    vec![
        pair(
            "writes of an entry",
            prediction.entry_writes,
            written.entry_writes(),
        ),
        pair(
            "space, at worst",
            prediction.space,
            Some(stats.space_amplification()),
        ),
        pair("runs below level 0", prediction.runs, Some(runs as f64)),
        pair(
            "pages per get that finds",
            prediction.hit_reads,
            Some(sample.hit_reads),
        ),
        pair(
            "pages per get that does not",
            prediction.miss_reads,
            Some(sample.miss_reads),
        ),
        bytes_pair(indexes, prediction.memory.indexes, memory.indexes),
        bytes_pair(filters, prediction.memory.filters, memory.filters),
    ]
}

// ---- for people and programs ----

fn print_pairs(pairs: &[Pair], output: &mut Output) {
    output.heading("Predicted beside measured", "");
    output.line(format_args!(
        "  {:<28} {:>12} {:>12}",
        "", "predicted", "measured"
    ));
    for pair in pairs {
        let shown = |number: f64| match pair.is_bytes {
            true => bytes(number as u64),
            false => format!("{number:.3}"),
        };
        let measured = pair.measured.map_or("-".to_owned(), shown);
        output.line(format_args!(
            "  {:<28} {:>12} {measured:>12}",
            pair.name,
            shown(pair.predicted)
        ));
    }
}

impl Pair {
    fn object(&self) -> Value {
        json!({ "name": self.name, "predicted": self.predicted, "measured": self.measured })
    }
}

fn print_levels(
    expected: &ExpectedTree,
    stats: &KeyspaceStats,
    workload: &Workload,
    output: &mut Output,
) {
    output.heading("Levels", "");
    output.line(format_args!(
        "  {:>5} {:>11} {:>8} {:>11} {:>11} {:>6} {:>6} {:>10}",
        "level", "predicted", "writes", "measured", "target", "runs", "max", "bits/key"
    ));
    for level in &stats.levels {
        let (mut predicted, mut writes, mut most, mut bits) = Default::default();
        if let Some(it) = at(expected, level.level) {
            predicted = bytes((it.entries * workload.entry_bytes()) as u64);
            writes = format!("{:.2}", it.writes);
            most = it.runs.to_string();
            bits = format!("{:.1}", it.filter_bits());
        }
        output.line(format_args!(
            "  {:>5} {predicted:>11} {writes:>8} {:>11} {:>11} {:>6} {most:>6} {bits:>10}",
            level.level,
            bytes(level.bytes),
            level.target_bytes.map(bytes).unwrap_or_default(),
            level.runs,
        ));
    }
}

fn at(expected: &ExpectedTree, level: usize) -> Option<&hedgerow::advisor::Level> {
    let at = expected.levels.iter().position(|it| *it == level)?;
    expected.tree.levels.get(at)
}

fn levels_object(
    expected: &ExpectedTree,
    stats: &KeyspaceStats,
    workload: &Workload,
) -> Vec<Value> {
    let object = |level: &hedgerow::LevelStats| {
        let predicted = at(expected, level.level).map(|it| {
            json!({
                "bytes": it.entries * workload.entry_bytes(),
                "writes": it.writes,
                "runs": it.runs,
                "bits_per_key": it.filter_bits(),
            })
        });
        json!({
            "level": level.level,
            "runs": level.runs,
            "bytes": level.bytes,
            "target_bytes": level.target_bytes,
            "predicted": predicted,
        })
    };
    stats.levels.iter().map(object).collect()
}
