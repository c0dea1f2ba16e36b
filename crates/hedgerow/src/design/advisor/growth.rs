//! The entry writes of a design of the engine and the fill of its levels, in closed form: the
//! planner's mean result for a store that grows by keys drawn uniformly, without playing it.
//! [`crate::design::merge_policy`] defines the capacities of levels; this module derives the rest.
//!
//! A level gets `a` bytes per arrival. It is emptied after `n` arrivals, when it is over its
//! capacity. An entry that arrives is written this many times:
//!
//! | level | times | because an arrival meets |
//! |---|---|---|
//! | of several runs | 1 | nothing: the arrival becomes a run |
//! | of one run, emptied as a whole | (n + 1) / 2 | a level that is half full on average |
//! | the same, in slices, below such a level | (n - 1) / 2 | the same; the last passes through it |
//! | of one run, emptied table by table | 1 + capacity / a | a level that is full |
//! | the last | 1 + its size / a | all of it |
//!
//! An arrival table by table begins where it overlaps least: it meets a part ([`OVERLAP`]) of the
//! level. An arrival in slices is merged again at their ends ([`Sweep`]).
//!
//! A level that is full by its runs passes them on in units of known size, so the bytes that reach
//! each depth are counted exactly. Capacities that are parts of the last level's size change as the
//! store grows, so its life is cut into [`STEPS`] pieces, and their costs are averaged. The content
//! of a level has not been written into the level below yet: these entry writes are still owed.

mod trie_growth;

use crate::design::merge_policy::{
    CARRIED_TABLES_MIN, CARRY_FACTOR, LevelSummary, LevelTarget, Policy, SLICE_TABLES, Summary,
};
use crate::design::planner;

/// A level at one size of the store, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stage {
    /// The level's number, from 1.
    pub(super) level: usize,
    /// Its mean content.
    pub(super) bytes: f64,
    /// The most runs.
    pub(super) runs: u32,
    /// The number of times that an arriving entry is written.
    pub(super) writes: f64,
    /// The versions of each key that it holds in the worst case.
    pub(super) versions: f64,
    /// The bytes of an arrival, and the bytes that leave at once.
    arrival: f64,
    leaving: f64,
    /// True if it is full by its runs, whatever they hold.
    by_runs: bool,
    /// True if there is no level below.
    is_end: bool,
}

/// The number of sizes at which a growing store is examined: enough for three digits.
const STEPS: usize = 256;
/// For merges table by table: the overlap of the best table over that of an average one (measured,
/// `the_closed_form_of_entry_writes`).
const OVERLAP: f64 = 0.47;

/// The part of a table below, straddling the end of a slice, that is written once more (measured,
/// as above: most tables end at the ends of tables below).
const BORDER: f64 = 0.5;

/// The most arrivals of a level that are played.
const PLAYED_MAX: f64 = 256.0;

/// A grown store.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct GrownStore {
    /// Runs of level 0 that are merged down together.
    pub(super) level0_runs: u32,
    /// The used levels from 1. Here `writes` counts writes of an entry of the store, averaged over
    /// its growth. Their sum and the flush are its entry writes.
    pub(super) stages: Vec<Stage>,
}

/// The sizes of a growing store.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) memtable_bytes: u64,
    pub(super) table_bytes: u64,
    /// The bytes of a flushed memtable, and the bytes in tables per byte of keys and values.
    pub(super) flush_bytes: f64,
    pub(super) stored: f64,
}

/// The state of a store of `bytes` of keys and values.
pub(super) fn grow(policy: &dyn Policy, sizes: &Sizes, bytes: f64) -> GrownStore {
    trie_growth::grow(policy, sizes, bytes).unwrap_or_else(|| levels(policy, sizes, bytes))
}

fn levels(policy: &dyn Policy, sizes: &Sizes, bytes: f64) -> GrownStore {
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
    // The bytes that have reached a level since the store was empty, as long as they can be
    // counted; then the mean bytes that are not above it.
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
    GrownStore {
        level0_runs,
        stages: end,
    }
}

impl Stage {
    /// The bytes that a last level of several runs has rewritten after these have come: it merges
    /// its runs in place each time it has the most.
    fn rewritten(&self, came: f64) -> f64 {
        if !self.is_end {
            return 0.0;
        }
        let fresh = f64::from(self.runs) - 1.0;
        let merges = ((came / self.arrival - 1.0) / fresh).floor().max(0.0);
        self.arrival * (merges + fresh * merges * (merges + 1.0) / 2.0)
    }
}

/// The runs of level 0, and the levels, of a store of this size.
fn stages(
    policy: &dyn Policy,
    memtable_bytes: u64,
    table_bytes: u64,
    bytes: f64,
) -> (u32, Vec<Stage>) {
    let targets = targets(policy, memtable_bytes, table_bytes, bytes);
    let last = targets.len() - 1;
    let level0_runs = targets[0].runs_max();
    let mut arrival = memtable_bytes as f64 * f64::from(level0_runs);
    let mut rest = bytes;
    let mut overlap = 1.0;
    let mut sweep: Option<Sweep> = None;
    let mut stages = Vec::new();
    for (level, target) in targets.iter().enumerate().skip(1) {
        if !target.is_in_use() && level < last {
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
        let swept = !is_last && target.goes_down_in_slices();
        let through = sweep.and_then(|it| it.through(arrivals(target, arrival)));
        if swept && through.is_some() {
            stage.writes -= 1.0;
        }
        sweep = swept.then(|| through.unwrap_or(Sweep::BEGINNING));
        arrival = stage.leaving;
        overlap = if target.goes_down_by_table() {
            OVERLAP
        } else {
            1.0
        };
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
    /// The tables that a slice may read.
    slice_tables: f64,
    /// The tables of all these levels per table of the uppermost.
    tables: f64,
    /// The sum, over the levels below the uppermost, of the part of its tables that one table is.
    passed: f64,
}

impl Sweep {
    /// A sweep of one level.
    const BEGINNING: Sweep = Sweep {
        slice_tables: SLICE_TABLES as f64,
        tables: 1.0,
        passed: 0.0,
    };

    /// The sweep carried through one more level, which is over its capacity after this many
    /// arrivals; `None` if slices would have too few tables.
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

    /// The tables of the uppermost level in a slice. Each arriving table meets some: `writes`
    /// tables with itself.
    fn slice(&self, writes: f64) -> f64 {
        (self.slice_tables / (self.tables * writes)).max(1.0)
    }

    /// The additional writes per arriving entry: a table that straddles the end of a slice is also
    /// merged by the next slice. In a level that is passed, this is half a table with all that it
    /// meets.
    fn at_borders(&self, writes: f64) -> f64 {
        (BORDER / self.tables + self.passed * writes / 2.0) / self.slice(writes)
    }
}

/// The targets of a tree with all its data in the last level, as nearly all of it is.
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
    // A policy may ask for a deeper tree than this one.
    for _ in 0..64 {
        if let Some(last) = summary.levels.last_mut() {
            last.bytes = bytes as u64;
        }
        let targets = policy.targets(&summary);
        if targets.len() == summary.levels.len() {
            return targets.to_vec();
        }
        summary.levels = vec![LevelSummary::default(); targets.len()];
        summary.policy_note = targets.policy_note;
    }
    policy.targets(&summary).to_vec()
}

/// The arrivals after which a level is emptied.
fn arrivals(target: &LevelTarget, arrival: f64) -> f64 {
    match target.is_full_by_runs() {
        true => f64::from(target.runs_max()),
        false => (capacity(target) / arrival).floor() + 1.0,
    }
}

/// The bytes at which a level is full; infinite if it takes everything.
fn capacity(target: &LevelTarget) -> f64 {
    let capacity = target.capacity_bytes();
    capacity.map_or(f64::INFINITY, |bytes| bytes as f64)
}

/// The bytes rewritten in place by a level that reaches `runs` before its `capacity`, after this
/// many `arrivals`, all in units of an arrival. The planner says which runs are merged.
fn merged_in_place(arrivals: f64, capacity: f64, runs: u32) -> f64 {
    /// The integer that stands for an arrival.
    const ARRIVAL: u64 = 1 << 20;
    let played = arrivals.min(PLAYED_MAX);
    let share = (capacity / f64::from(runs) * ARRIVAL as f64) as u64;
    let mut written = 0;
    // Newest first.
    let mut sizes: Vec<u64> = Vec::new();
    for _ in 0..played as usize {
        sizes.insert(0, ARRIVAL);
        if sizes.len() >= runs as usize
            && let Some(merged) = planner::neighbours(&sizes, share).into_iter().next()
        {
            let sum: u64 = sizes[merged.clone()].iter().sum();
            sizes.splice(merged, [sum]);
            written += sum;
        }
    }
    written as f64 / ARRIVAL as f64 * (arrivals / played).max(1.0)
}

/// The bytes that leave a level when it is emptied.
fn leaving(target: &LevelTarget, arrival: f64) -> f64 {
    arrivals(target, arrival) * arrival
}

fn stage(level: usize, target: &LevelTarget, arrival: f64, overlap: f64) -> Stage {
    let arrivals = arrivals(target, arrival);
    let capacity = capacity(target);
    let half = arrival * (arrivals - 1.0) / 2.0;
    let (writes, bytes, leaving) = match target.several_runs() {
        Some(_) if target.is_full_by_runs() => (1.0, half, arrivals * arrival),
        Some(runs) => (
            // The last arrival puts the level over its capacity, and goes down.
            1.0 + merged_in_place(arrivals - 1.0, capacity / arrival, runs) / arrivals,
            half,
            arrivals * arrival,
        ),
        None if target.goes_down_by_table() => {
            (1.0 + overlap * capacity / arrival, capacity, capacity)
        }
        None => (
            1.0 + overlap * (arrivals - 1.0) / 2.0,
            half,
            arrivals * arrival,
        ),
    };
    Stage {
        level,
        bytes,
        runs: target.runs_max(),
        writes,
        versions: f64::from(target.runs_max()),
        arrival,
        leaving,
        by_runs: target.is_full_by_runs(),
        is_end: false,
    }
}

/// The level that holds the rest and passes nothing on.
fn last_stage(level: usize, target: &LevelTarget, arrival: f64, overlap: f64, bytes: f64) -> Stage {
    let runs = target.runs_max();
    let come = (bytes / arrival).ceil();
    let in_place = |arrivals| merged_in_place(arrivals, capacity(target) / arrival, runs);
    Stage {
        level,
        bytes,
        runs,
        writes: match (target.is_leveled(), target.is_full_by_runs()) {
            (true, _) => 1.0 + overlap * bytes / arrival,
            (_, true) => 1.0,
            _ => 1.0 + in_place(come) - in_place(come - 1.0),
        },
        versions: f64::from(runs),
        arrival,
        leaving: arrival,
        by_runs: target.is_full_by_runs(),
        is_end: false,
    }
}
