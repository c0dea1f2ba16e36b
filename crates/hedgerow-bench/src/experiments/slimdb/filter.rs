//! Tables 5 and 6 and figure 10: the filters of a level of eight runs, alone and in memory.
#![allow(
    clippy::disallowed_methods,
    reason = "a bench measures the time of the machine"
)]

use std::time::Instant;

use hedgerow::FilterSpec;
use hedgerow::internals::parts::{Filters, Hash};
use serde_json::json;

use crate::experiments::micro::Micro;
use crate::permutation::mix;
use crate::store::Result;

const RUNS: u64 = 8;
/// Keys of a run at scale 1.
const RUN_KEYS: u64 = 10_000_000;
/// Keys asked between two looks at the clock: their hashes are made before.
const CHUNK: u64 = 1 << 16;

/// About the same memory for each; the last two one for all runs.
const FILTERS: [&str; 4] = ["bloom:16", "cuckoo:16", "mlcf:12", "mlcf:12,unique"];

/// The keys of eight runs, each key of a run the copy of one in an older run with this probability.
struct Level {
    run_keys: u64,
    duplicates: f64,
    seed: u64,
}

impl Level {
    /// The number of a run's key, and whether an older run holds it.
    fn key(&self, run: u64, i: u64) -> (u64, bool) {
        let (mut run, mut i, mut is_copy) = (run, i, false);
        loop {
            let drawn = mix(self.seed ^ mix(run * self.run_keys + i));
            if run == 0 || (drawn >> 11) as f64 / (1_u64 << 53) as f64 >= self.duplicates {
                return (run * self.run_keys + i, is_copy);
            }
            is_copy = true;
            (run, i) = (mix(drawn) % run, mix(drawn ^ 1) % self.run_keys);
        }
    }

    /// As filters get them.
    fn run(&self, run: u64) -> Vec<(Hash, bool)> {
        let key = |i| {
            let (key, is_copy) = self.key(run, i);
            (self.hash(key), is_copy)
        };
        let mut keys: Vec<_> = (0..self.run_keys).map(key).collect();
        keys.sort_unstable_by_key(|(hash, _)| (hash.place(), *hash));
        keys.dedup_by_key(|(hash, _)| *hash);
        keys
    }

    fn hash(&self, key: u64) -> Hash {
        Hash::of(&key.to_be_bytes(), self.seed)
    }

    fn present(&self, i: u64) -> Hash {
        let drawn = mix(i ^ mix(self.seed));
        let (key, _) = self.key(drawn % RUNS, mix(drawn) % self.run_keys);
        self.hash(key)
    }

    fn absent(&self, i: u64) -> Hash {
        self.hash(RUNS * self.run_keys + i)
    }
}

pub(super) fn run(micro: &mut Micro<'_>) -> Result<()> {
    for percent in [0, 10, 30, 50, 70, 90] {
        let case = format!("{percent} % duplicates");
        let wanted = FILTERS.into_iter().filter(|name| micro.wants(name, &case));
        let level = Level {
            run_keys: micro.size.count(RUN_KEYS),
            duplicates: f64::from(percent) / 100.0,
            seed: micro.size.seed,
        };
        let mut filters = Vec::new();
        for name in wanted {
            let spec: FilterSpec = name.parse()?;
            let entries = level.run_keys * RUNS;
            filters.push((name, Filters::new(spec, RUNS as usize, entries)?, 0.0));
        }
        if filters.is_empty() {
            continue;
        }
        let mut entries = 0;
        for run in 0..RUNS {
            let keys = level.run(run);
            entries += keys.len() as u64;
            for (_, filters, seconds) in &mut filters {
                let began = Instant::now();
                filters.push(&keys)?;
                *seconds += began.elapsed().as_secs_f64();
            }
        }
        for (name, filters, seconds) in &filters {
            let bits_per_key = filters.bytes() as f64 * 8.0 / entries as f64;
            let bits = json!({ "bits_per_key": bits_per_key });
            micro.row((name, &case), "insert", Some((entries, *seconds)), bits)?;
            ask(micro, &level, (name, &case), filters)?;
        }
    }
    Ok(())
}

/// Keys that are there and keys that are not, one at a time and 64 at a time.
fn ask(
    micro: &mut Micro<'_>,
    level: &Level,
    (name, case): (&str, &str),
    filters: &Filters,
) -> Result<()> {
    let ops = micro.size.reads(RUNS * RUN_KEYS).max(1);
    for (batch, how) in [(1, "one at a time"), (64, "64 at a time")] {
        let (_, seconds) = passed(filters, batch, ops, |i| level.present(i), Some(name))?;
        let timed = Some((ops, seconds));
        micro.row((name, case), &format!("present, {how}"), timed, json!({}))?;
        let (answers, seconds) = passed(filters, batch, ops, |i| level.absent(i), None)?;
        let share = |count: u64| count as f64 / ops as f64;
        let rates = json!({
            "false_positives": share(answers.keys),
            "runs_read_per_miss": share(answers.runs),
        });
        let timed = Some((ops, seconds));
        micro.row((name, case), &format!("absent, {how}"), timed, rates)?;
    }
    Ok(())
}

/// How many keys were let pass, and how many runs would be read for them.
#[derive(Default)]
struct Answers {
    keys: u64,
    runs: u64,
}

/// Asks for keys, which all are there if `must_hold` names the filter.
fn passed(
    filters: &Filters,
    batch: usize,
    ops: u64,
    key: impl Fn(u64) -> Hash,
    must_hold: Option<&str>,
) -> Result<(Answers, f64)> {
    let (mut passed, mut seconds) = (Answers::default(), 0.0);
    let (mut hashes, mut answers) = (Vec::new(), Vec::new());
    for first in (0..ops).step_by(CHUNK as usize) {
        hashes.clear();
        hashes.extend((first..ops.min(first + CHUNK)).map(&key));
        answers.clear();
        let began = Instant::now();
        for hashes in hashes.chunks(batch) {
            filters.candidates(hashes, &mut answers)?;
        }
        seconds += began.elapsed().as_secs_f64();
        passed.keys += answers.iter().filter(|runs| **runs != 0).count() as u64;
        passed.runs += answers
            .iter()
            .map(|runs| u64::from(runs.count_ones()))
            .sum::<u64>();
    }
    match must_hold {
        Some(name) if passed.keys != ops => Err(format!(
            "expected {name} to let all {ops} keys pass that are there, found {} of them",
            passed.keys
        )
        .into()),
        _ => Ok((passed, seconds)),
    }
}
