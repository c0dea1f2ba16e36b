//! Tables 5 and 6 and figure 10: the filters of a level of eight runs, alone and in memory.
#![allow(
    clippy::disallowed_methods,
    reason = "a bench measures the time of the machine"
)]

use std::time::Instant;

use hedgerow::FilterSpec;
use hedgerow::internals::parts::{Filters, Hash};
use hedgerow_bench::{Result, cpu_time, mix};
use serde_json::json;

use crate::experiments::micro::Micro;

const RUNS: u64 = 8;
/// Keys of a run at scale 1.
const RUN_KEYS: u64 = 10_000_000;
/// The keys probed between two reads of the clock. Their hashes are made before.
const CHUNK: u64 = 1 << 16;

/// The filters, with about the same memory each. The last two have one filter for all runs.
const FILTERS: [&str; 4] = ["bloom:16", "cuckoo:16", "mlcf:12", "mlcf:12,unique"];

/// The keys of eight runs. Each key is a copy of one in an older run with this probability.
struct Level {
    run_keys: u64,
    duplicates: f64,
    seed: u64,
}

impl Level {
    /// The number of a run's key, and if an older run holds it.
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

    /// The hashes as filters get them.
    fn run(&self, run: u64) -> Vec<Hash> {
        let key = |i| self.hash(self.key(run, i).0);
        let mut keys: Vec<_> = (0..self.run_keys).map(key).collect();
        keys.sort_unstable_by_key(|hash| (hash.place(), *hash));
        keys.dedup();
        keys
    }

    /// The number of distinct keys of all runs.
    fn distinct(&self) -> u64 {
        let numbers = (0..RUNS).flat_map(|run| (0..self.run_keys).map(move |i| (run, i)));
        numbers.filter(|(run, i)| !self.key(*run, *i).1).count() as u64
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
        let wanted: Vec<_> = wanted.collect();
        if wanted.is_empty() {
            continue;
        }
        let mut filters = Vec::new();
        let distinct = level.distinct();
        for name in wanted {
            let spec: FilterSpec = name.parse()?;
            let filter = Filters::new(spec, RUNS as usize, distinct)?;
            filters.push((name, filter, [0.0; 2]));
        }
        let mut entries = 0;
        for run in 0..RUNS {
            let keys = level.run(run);
            entries += keys.len() as u64;
            for (_, filters, [seconds, cpu_seconds]) in &mut filters {
                let (began, cpu_began) = (Instant::now(), cpu_time());
                filters.push(&keys)?;
                *seconds += began.elapsed().as_secs_f64();
                *cpu_seconds += (cpu_time() - cpu_began).as_secs_f64();
            }
        }
        for (name, filters, [seconds, cpu_seconds]) in &filters {
            let bits = filters.bytes() as f64 * 8.0;
            let bits = json!({
                "bits_per_key": bits / entries as f64,
                "bits_per_distinct_key": bits / distinct as f64,
                "cpu_seconds": cpu_seconds,
            });
            micro.row((name, &case), "insert", Some((entries, *seconds)), bits)?;
            ask(micro, &level, (name, &case), filters)?;
        }
    }
    Ok(())
}

/// Looks up present and absent keys, one at a time and 64 at a time.
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

/// The number of keys that passed, and of the runs that would be read for them.
#[derive(Default)]
struct Answers {
    keys: u64,
    runs: u64,
}

/// Looks up keys. All are present if `must_hold` names the filter.
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
