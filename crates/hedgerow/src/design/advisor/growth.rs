//! How often a design of the engine writes an entry, and how its levels are filled, in closed form:
//! what the planner does to a store that grows by keys drawn uniformly, on average, without playing
//! it. [`crate::design::merge_policy`] says which capacities levels have; here is what follows from them.
//!
//! Of a level, `a` bytes arrive at once, and it is emptied after `n` arrivals, when it is over its
//! capacity. An entry that comes to it is written
//!
//! | level | times | because an arrival meets |
//! |---|---|---|
//! | of several runs | 1 | nothing: it becomes a run |
//! | the same, full by its bytes | 1 + [`merged_in_place`] | runs that are too many before it is full |
//! | of one run, emptied as a whole | (n + 1) / 2 | a level that is half full on average |
//! | the same, in slices, below such a level | (n - 1) / 2 | the same, but the last goes through it |
//! | of one run, emptied table by table | 1 + capacity / a | a level that is full |
//! | the last | 1 + its size / a | all of it |
//!
//! What comes table by table comes first where it overlaps least: that meets a part ([`OVERLAP`]) of
//! what is there. What comes in slices is merged again where they end ([`Sweep`]).
//!
//! A level that is full when it has its runs gives them on in units of known size, so how much has
//! come how deep is counted exactly. Capacities that are parts of the last level's size change as the store grows, so its life is cut
//! into [`STEPS`] pieces and their costs are averaged. What a level holds has not been written into
//! the level below it yet: that many entry writes are still owed.

mod nodes;

use std::cmp::Ordering;

use crate::design::merge_policy::{
    CARRIED_TABLES_MIN, CARRY_FACTOR, Cut, LevelSummary, LevelTarget, Policy, SLICE_TABLES, Summary,
};

/// A level at one size of the store, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stage {
    /// Its number, from 1.
    pub(super) level: usize,
    /// What it holds on average.
    pub(super) bytes: f64,
    /// Runs, at most.
    pub(super) runs: u32,
    /// How often an entry that comes into it is written.
    pub(super) writes: f64,
    /// How many versions of its keys it holds at worst.
    pub(super) versions: f64,
    /// What comes into it at once, and what leaves it at once.
    arrival: f64,
    leaving: f64,
    /// It is full when it has its runs, whatever they hold.
    by_runs: bool,
    /// There is no level below.
    is_end: bool,
}

/// Sizes at which a growing store is looked at: enough for three digits.
const STEPS: usize = 256;
/// Of merges table by table: what the table that overlaps least meets, over what an average one meets
/// (measured, `the_closed_form_of_entry_writes`).
const OVERLAP: f64 = 0.47;

/// Of the table of the level below that reaches over the end of a slice, what is written once more (measured, as above:
/// most tables end where those below do).
const BORDER: f64 = 0.5;

/// Arrivals of a level that are played at most.
const PLAYED_MAX: f64 = 256.0;

/// A store that has grown.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Grown {
    /// Runs of level 0 that are merged down together.
    pub(super) level0_runs: u32,
    /// The levels from 1, as far as they are used; of `writes`, those of an entry of the store, on
    /// average over its growth. Their sum and the flush are its entry writes.
    pub(super) stages: Vec<Stage>,
}

/// The sizes that a store grows in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) memtable_bytes: u64,
    pub(super) table_bytes: u64,
    /// What a memtable becomes, and what tables take for each byte of keys and values.
    pub(super) flush_bytes: f64,
    pub(super) stored: f64,
}

/// What a store of so many `bytes` of keys and values has become.
pub(super) fn grow(policy: &dyn Policy, sizes: &Sizes, bytes: f64) -> Grown {
    nodes::grow(policy, sizes, bytes).unwrap_or_else(|| levels(policy, sizes, bytes))
}

fn levels(policy: &dyn Policy, sizes: &Sizes, bytes: f64) -> Grown {
    let &Sizes {
        memtable_bytes,
        table_bytes,
        ..
    } = sizes;
    let at = |bytes: f64| stages(policy, memtable_bytes, table_bytes, bytes);
    let (level0_runs, mut end) = at(bytes);
    let mut written = vec![0.0; end.iter().map(|it| it.level + 1).max().unwrap_or(0)];
    for step in 0..STEPS {
        let size = bytes * (step as f64 + 0.5) / STEPS as f64;
        for stage in at(size).1 {
            if let Some(written) = written.get_mut(stage.level) {
                *written += stage.writes / STEPS as f64;
            }
        }
    }
    // What has come into a level since the store was empty, while that can be counted; then what is
    // not above it, on average.
    let mut above = 0.0;
    let mut counted = Some(bytes);
    for stage in &mut end {
        counted = counted.map(|bytes| (bytes / stage.arrival).floor() * stage.arrival);
        stage.writes = match counted {
            Some(came) if stage.by_runs => (came + stage.rewritten(came)) / bytes,
            _ => written[stage.level] * (1.0 - above / bytes).max(0.0),
        };
        counted = counted.filter(|_| stage.by_runs);
        above += stage.bytes;
    }
    Grown {
        level0_runs,
        stages: end,
    }
}

impl Stage {
    /// What a last level of several runs has rewritten after so much has come: it merges them in
    /// place each time it has as many as it may.
    fn rewritten(&self, came: f64) -> f64 {
        if !self.is_end {
            return 0.0;
        }
        let fresh = f64::from(self.runs) - 1.0;
        let merges = ((came / self.arrival - 1.0) / fresh).floor().max(0.0);
        self.arrival * (merges + fresh * merges * (merges + 1.0) / 2.0)
    }
}

/// The runs of level 0 and the levels while the store has this size.
fn stages(
    policy: &dyn Policy,
    memtable_bytes: u64,
    table_bytes: u64,
    bytes: f64,
) -> (u32, Vec<Stage>) {
    let targets = targets(policy, memtable_bytes, table_bytes, bytes);
    let last = targets.len() - 1;
    let level0_runs = targets[0].runs_max.max(1);
    let mut arrival = memtable_bytes as f64 * f64::from(level0_runs);
    let mut rest = bytes;
    let mut overlap = 1.0;
    let mut sweep: Option<Sweep> = None;
    let mut stages = Vec::new();
    for (level, target) in targets.iter().enumerate().skip(1) {
        if target.capacity_bytes == 0 && level < last {
            continue;
        }
        let is_last = level == last || rest <= leaving(target, arrival);
        let mut stage = match is_last {
            true => Stage {
                is_end: level == last,
                ..last_stage(level, target, arrival, overlap, rest)
            },
            false => stage(level, target, arrival, overlap),
        };
        if let Some(sweep) = &sweep {
            stage.writes += sweep.at_borders(stage.writes);
        }
        let swept = !is_last && target.runs_max <= 1 && target.cut == Cut::PartitionedFull;
        let through = sweep.and_then(|it| it.through(arrivals(target, arrival)));
        if swept && through.is_some() {
            stage.writes -= 1.0;
        }
        sweep = swept.then(|| through.unwrap_or(Sweep::BEGINNING));
        arrival = stage.leaving;
        let by_table = target.runs_max <= 1 && target.cut == Cut::OneTable;
        overlap = if by_table { OVERLAP } else { 1.0 };
        rest = (rest - stage.bytes).max(0.0);
        stages.push(stage);
        if is_last {
            break;
        }
    }
    (level0_runs, stages)
}

/// Levels that are swept together, slice by slice.
#[derive(Debug, Clone, Copy)]
struct Sweep {
    /// Tables that a slice may read.
    slice_tables: f64,
    /// Tables of all of these levels to one of the uppermost.
    tables: f64,
    /// Of each level below the uppermost, the part of its tables that one is; their sum.
    passed: f64,
}

impl Sweep {
    /// Of one level, so far.
    const BEGINNING: Sweep = Sweep {
        slice_tables: SLICE_TABLES as f64,
        tables: 1.0,
        passed: 0.0,
    };

    /// The same through one level more, which is over its capacity after so many arrivals; nothing if slices would
    /// be of too few tables.
    fn through(self, arrivals: f64) -> Option<Sweep> {
        let more = self.tables * (arrivals - 1.0).max(1.0);
        let longer = Sweep {
            slice_tables: (SLICE_TABLES * CARRY_FACTOR) as f64,
            tables: self.tables + more,
            passed: self.passed + 1.0 / more,
        };
        let meets = 1.0 + (arrivals - 1.0) / 2.0;
        (longer.slice(meets) >= CARRIED_TABLES_MIN as f64).then_some(longer)
    }

    /// Tables of the uppermost level in a slice, of which each that arrives meets some: `writes` tables with itself.
    fn slice(&self, writes: f64) -> f64 {
        (self.slice_tables / (self.tables * writes)).max(1.0)
    }

    /// What is written beside, for each entry that arrives: a table that reaches over the end of a slice is merged by the next
    /// one, too. Of a level that is passed that is half a table with all that it meets.
    fn at_borders(&self, writes: f64) -> f64 {
        (BORDER / self.tables + self.passed * writes / 2.0) / self.slice(writes)
    }
}

/// The targets of a tree whose data is in the last level, as nearly all of it is.
fn targets(
    policy: &dyn Policy,
    memtable_bytes: u64,
    table_bytes: u64,
    bytes: f64,
) -> Vec<LevelTarget> {
    let mut summary = Summary {
        levels: vec![LevelSummary::default(); policy.depth()],
        memtable_bytes,
        table_bytes,
        ..Summary::default()
    };
    // A policy may ask for a deeper tree than the one that it sees.
    for _ in 0..64 {
        if let Some(last) = summary.levels.last_mut() {
            last.bytes = bytes as u64;
        }
        let targets = policy.targets(&summary);
        if targets.len() == summary.levels.len() {
            return targets.to_vec();
        }
        summary.levels = vec![LevelSummary::default(); targets.len()];
        summary.nominal_depth = targets.nominal_depth;
    }
    policy.targets(&summary).to_vec()
}

/// Arrivals after which a level is emptied.
fn arrivals(target: &LevelTarget, arrival: f64) -> f64 {
    match is_full_by_runs(target) {
        true => f64::from(target.runs_max),
        false => (target.capacity_bytes as f64 / arrival).floor() + 1.0,
    }
}

/// What a level that has its `runs` before it has its `capacity` has written again after so many `arrivals`, all in
/// arrivals: as the planner does it, neighbours are merged whose sum is a run's share of it, or else the smallest two.
fn merged_in_place(arrivals: f64, capacity: f64, runs: u32) -> f64 {
    let played = arrivals.min(PLAYED_MAX);
    let share = capacity / f64::from(runs);
    let mut written = 0.0;
    // Newest first.
    let mut sizes: Vec<f64> = Vec::new();
    for _ in 0..played as usize {
        sizes.insert(0, 1.0);
        if sizes.len() >= runs as usize {
            let (from, count, sum) = cheapest_neighbours(&sizes, share);
            sizes.splice(from..from + count, [sum]);
            written += sum;
        }
    }
    written * (arrivals / played).max(1.0)
}

/// The most neighbours whose sum is at most `share`, or the smallest two: the first of them, how many, and their sum.
fn cheapest_neighbours(sizes: &[f64], share: f64) -> (usize, usize, f64) {
    let sum = |from: usize, count: usize| sizes[from..from + count].iter().sum::<f64>();
    let windows =
        (2..=sizes.len()).flat_map(|count| (0..=sizes.len() - count).map(move |it| (it, count)));
    let windows = windows.map(|(from, count)| (from, count, sum(from, count)));
    let worth =
        |&(_, count, sum): &(usize, usize, f64)| (if sum <= share { count } else { 0 }, -sum);
    windows
        .filter(|(_, count, sum)| *count == 2 || *sum <= share)
        .min_by(|a, b| worth(b).partial_cmp(&worth(a)).unwrap_or(Ordering::Equal))
        .unwrap_or((0, sizes.len(), sizes.iter().sum()))
}

fn is_full_by_runs(target: &LevelTarget) -> bool {
    target.runs_max > 1 && target.capacity_bytes == u64::MAX
}

/// What leaves a level when it is emptied.
fn leaving(target: &LevelTarget, arrival: f64) -> f64 {
    arrivals(target, arrival) * arrival
}

fn stage(level: usize, target: &LevelTarget, arrival: f64, overlap: f64) -> Stage {
    let arrivals = arrivals(target, arrival);
    let capacity = target.capacity_bytes as f64;
    let half = arrival * (arrivals - 1.0) / 2.0;
    let (writes, bytes, leaving) = match (target.runs_max, target.cut) {
        (2.., _) if is_full_by_runs(target) => (1.0, half, arrivals * arrival),
        (2.., _) => (
            // The last arrival makes it over its capacity, and goes down.
            1.0 + merged_in_place(arrivals - 1.0, capacity / arrival, target.runs_max) / arrivals,
            half,
            arrivals * arrival,
        ),
        (_, Cut::OneTable) => (1.0 + overlap * capacity / arrival, capacity, capacity),
        _ => (
            1.0 + overlap * (arrivals - 1.0) / 2.0,
            half,
            arrivals * arrival,
        ),
    };
    Stage {
        level,
        bytes,
        runs: target.runs_max.max(1),
        writes,
        versions: f64::from(target.runs_max.max(1)),
        arrival,
        leaving,
        by_runs: is_full_by_runs(target),
        is_end: false,
    }
}

/// The level that holds the rest and lets nothing go.
fn last_stage(level: usize, target: &LevelTarget, arrival: f64, overlap: f64, bytes: f64) -> Stage {
    let runs = target.runs_max.max(1);
    let come = (bytes / arrival).ceil();
    let in_place =
        |arrivals| merged_in_place(arrivals, target.capacity_bytes as f64 / arrival, runs);
    Stage {
        level,
        bytes,
        runs,
        writes: match (runs, is_full_by_runs(target)) {
            (1, _) => 1.0 + overlap * bytes / arrival,
            (_, true) => 1.0,
            _ => 1.0 + in_place(come) - in_place(come - 1.0),
        },
        versions: f64::from(runs),
        arrival,
        leaving: arrival,
        by_runs: is_full_by_runs(target),
        is_end: false,
    }
}
