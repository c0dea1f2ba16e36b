//! The tree of virtual tables: its flushes and plans.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use crate::base::entry::RunId;
use crate::base::entry::{ENTRY_OVERHEAD_BYTES, PartitionId, SeqNo};
use crate::base::error::Result;
use crate::base::runtime::delay_ns_per_byte;
use crate::design::in_force::DesignInForce;
use crate::design::merge_policy::plan::{Input, Plan, RunningJob, Target};
use crate::design::merge_policy::shape::{Facts, RUNS_MAX, Shape};
use crate::design::merge_policy::tree_edit::{Placement, TreeEdit};
use crate::design::merge_policy::{LevelTarget, SLICE_TABLES, Targets};
use crate::design::planner;
use crate::design::planner::PlanLimits;

use super::Simulation;
use super::cluster_bytes::Clusters;
use super::cut::Cutter;
use super::inputs::{Inputs, Segment};
use super::masses::Workload;
use super::sample::Sample;
use super::virtual_table::{Content, KEYS, VirtualTable, key};
use crate::base::random::Random;

/// A thread merges 100 MB/s. The delay of writers is defined in time.
const MERGE_NS_PER_BYTE: f64 = 10.0;

/// The only tree.
const PARTITION: PartitionId = PartitionId(1);

/// The work done, in bytes and entries of real tables.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Work {
    pub(super) user_bytes: f64,
    pub(super) written_bytes: f64,
    pub(super) written_entries: f64,
    /// The part of `written_bytes` that is filters in files of their own.
    pub(super) filter_bytes: f64,
    /// The inputs of the largest merge, in bytes.
    pub(super) largest_merge_bytes: f64,
    /// The largest size of the tables since the last report, outputs of running merges included,
    /// over the bytes of the live entries.
    pub(super) transient_max: f64,
}

/// A plan being carried out.
struct Job {
    plan: Plan,
    /// The inputs of a merge.
    inputs: Option<Inputs>,
    /// The job; `None` for a plan that only edits the tree.
    running: Option<RunningJob>,
    /// The bytes read by the largest of the real merges that it stands for.
    bytes: f64,
    real_merges: f64,
    end: f64,
}

/// Values derived from the shape and cached until it changes.
struct DerivedValues {
    targets: Targets,
    sample: Sample,
}

pub(super) struct VirtualTree {
    pub(super) shape: Shape<VirtualTable>,
    derived: OnceCell<DerivedValues>,
    pub(super) work: Work,
    design: Arc<DesignInForce>,
    workload: Rc<Workload>,
    clusters: Clusters,
    random: Random,
    level_tables: u64,
    merge_threads: usize,
    /// The number of writes that fill a memtable.
    memtable_writes: f64,
    /// The bytes of key and value of a write.
    write_bytes: f64,
    written: f64,
    time_to_live: f64,
    /// Puts in all tables.
    puts: f64,
    next_id: u64,
    /// The bytes of the last flush.
    flushed_bytes: f64,
    jobs: Vec<Job>,
    /// The time, in bytes that a thread merges.
    now: f64,
}

impl VirtualTree {
    pub(super) fn new(
        simulation: &Simulation,
        design: &Arc<DesignInForce>,
        workload: Workload,
    ) -> VirtualTree {
        let values = simulation.value_bytes as f64 * (1.0 - simulation.deletes);
        let write_bytes = simulation.key_bytes as f64 + values;
        let memory_bytes = write_bytes + ENTRY_OVERHEAD_BYTES as f64;
        VirtualTree {
            shape: Shape::new(design.policy.depth()),
            derived: OnceCell::new(),
            work: Work::default(),
            design: design.clone(),
            workload: Rc::new(workload),
            clusters: Clusters::new(&simulation.design, simulation.memory_budget),
            random: Random::new(simulation.seed),
            level_tables: simulation.level_tables,
            merge_threads: simulation.merge_threads,
            memtable_writes: (design.memtable_bytes as f64 / memory_bytes).max(1.0),
            write_bytes,
            written: 0.0,
            time_to_live: simulation
                .time_to_live
                .map_or(f64::INFINITY, |it| it as f64),
            puts: 0.0,
            next_id: 1,
            flushed_bytes: 0.0,
            jobs: Vec::new(),
            now: 0.0,
        }
    }

    /// Writes so far.
    pub(super) fn written(&self) -> f64 {
        self.written
    }

    /// Bytes of the tables if every key had one version.
    pub(super) fn live_bytes(&self) -> f64 {
        self.workload.live(self.written) * self.workload.put_bytes
    }

    pub(super) fn table_bytes(&self) -> u64 {
        self.design.table_bytes
    }

    pub(super) fn targets(&self) -> &Targets {
        &self.derived().targets
    }

    /// The nodes of a trie that stand for others.
    pub(super) fn sample(&self) -> &Sample {
        &self.derived().sample
    }

    fn derived(&self) -> &DerivedValues {
        self.derived.get_or_init(|| {
            let (memtable, table) = (self.design.memtable_bytes, self.design.table_bytes);
            let mut summary = self.shape.summary(memtable, table);
            let sample = Sample::of(&self.shape, self.level_tables);
            for (level, it) in summary.levels.iter_mut().enumerate() {
                let weight = sample.weight(level) as u64;
                it.bytes *= weight;
                it.entries *= weight;
                it.tombstones *= weight;
            }
            let targets = planner::fitted_targets(&*self.design.policy, summary);
            DerivedValues { targets, sample }
        })
    }

    /// The bytes of all tables.
    pub(super) fn bytes(&self) -> f64 {
        let sample = self.sample();
        let levels = self.shape.levels.iter().enumerate();
        let bytes = levels.map(|(number, level)| level.bytes() as f64 * sample.weight(number));
        bytes.sum()
    }

    /// Fills a memtable, or takes the rest of `entries`, and makes it the newest run of level 0.
    pub(super) fn flush(&mut self, entries: u64) -> Result<()> {
        let writes = self.memtable_writes.min(entries as f64 - self.written);
        let mass = self.workload.memtable(writes, self.puts);
        let ages = self.written..self.written + writes;
        self.written += writes;
        self.work.user_bytes += writes * self.write_bytes;
        let segment = Segment::new(0..KEYS, mass, ages, &self.workload);
        self.flushed_bytes = segment.bytes;
        self.work.written_bytes += segment.bytes;
        self.work.written_entries += segment.entries();
        let run = RunId(self.take_id());
        let mut edit = TreeEdit::new(PARTITION);
        let tables = self.add(&mut edit, 0, run, &[segment], 1.0);
        self.apply(&edit, tables)
    }

    /// Carries out plans, several at a time: all that are due, or at a pace those that end before
    /// writers have filled the next memtable. The time of a job is the bytes that it reads.
    pub(super) fn settle(&mut self, pace: Option<f64>) -> Result<()> {
        let mut unfilled = self.flushed_bytes;
        loop {
            while self.jobs.len() < self.merge_threads
                && let Some(job) = self.begin()
            {
                match job.running {
                    Some(_) => self.jobs.push(job),
                    None => self.finish(&job, 0.0)?,
                }
            }
            let ends = self.jobs.iter().enumerate();
            let first = ends.min_by(|(_, a), (_, b)| a.end.total_cmp(&b.end));
            let first = first.map(|(first, job)| (first, job.end));
            if let Some(pace) = pace {
                let per_byte = pace + self.delay();
                let full = self.now + unfilled * per_byte;
                let Some((_, end)) = first.filter(|(_, end)| *end <= full) else {
                    self.now = full;
                    return Ok(());
                };
                unfilled -= (end - self.now) / per_byte;
            }
            let Some((first, end)) = first else {
                return Ok(());
            };
            self.now = end;
            let job = self.jobs.remove(first);
            let beside = self.jobs.iter().map(|job| job.bytes).sum();
            self.finish(&job, beside)?;
        }
    }

    /// The delay of a writer per byte, in bytes that a thread merges meanwhile.
    fn delay(&self) -> f64 {
        let debt = planner::debt(&self.shape, self.targets());
        if debt.level0_runs as usize >= RUNS_MAX {
            return f64::INFINITY;
        }
        let memtable_bytes = self.design.memtable_bytes;
        let (level0, owed) = planner::fills(&debt, memtable_bytes, self.bytes() as u64);
        delay_ns_per_byte(level0.max(owed)) / MERGE_NS_PER_BYTE
    }

    /// The drop of tables of which all values have expired, and that hide nothing older.
    fn discard(&self) -> Option<Plan> {
        let expired = self.written - self.time_to_live;
        if expired <= 0.0 {
            return None;
        }
        let is_busy = |id| {
            let running = self.jobs.iter().filter_map(|job| job.running.as_ref());
            running.flat_map(|it| &it.inputs).any(|input| *input == id)
        };
        let gone = self.shape.tables().filter(|(at, table)| {
            let meta = table.meta();
            let keys = (meta.smallest_key.as_slice(), meta.largest_key.as_slice());
            let level = usize::from(at.level);
            table.ages().end <= expired
                && !is_busy(meta.id)
                && !self
                    .shape
                    .older_overlaps(level, Some(at.run), keys, |id| id == meta.id)
        });
        let inputs: Vec<Input> = gone
            .map(|(at, table)| Input {
                level: usize::from(at.level),
                run: at.run,
                tables: vec![table.meta().id],
            })
            .collect();
        (!inputs.is_empty()).then_some(Plan::Discard { inputs })
    }

    /// The next job beside the running ones.
    fn begin(&self) -> Option<Job> {
        if let Some(plan) = self.discard() {
            return Some(Job {
                plan,
                inputs: None,
                running: None,
                bytes: 0.0,
                real_merges: 1.0,
                end: self.now,
            });
        }
        let limits = PlanLimits {
            merge_bytes_max: self.design.table_bytes * SLICE_TABLES,
            oldest_snapshot: SeqNo::MAX,
        };
        let targets = self.targets();
        let others = self.jobs.iter().filter_map(|job| job.running.clone());
        let others: Vec<RunningJob> = others.collect();
        let (plan, _) = planner::plan(&self.shape, targets, &others, &limits)?;
        let (mut inputs_of, mut real_merges) = (None, 1.0);
        if let Plan::Merge { inputs, target, .. } = &plan {
            inputs_of = Some(Inputs::new(&self.shape, inputs, target));
            real_merges = self.real_merges(targets, inputs, target);
        }
        let read_bytes = inputs_of.as_ref().map_or(0.0, Inputs::bytes);
        Some(Job {
            running: RunningJob::of(&self.shape, &plan),
            plan,
            inputs: inputs_of,
            bytes: read_bytes / real_merges,
            real_merges,
            end: self.now + read_bytes,
        })
    }

    /// The number of real merges that a virtual one stands for: that of its newest table, unless
    /// whole levels, or runs within their level, are merged at once.
    fn real_merges(&self, targets: &Targets, inputs: &[Input], target: &Target) -> f64 {
        let Some(newest) = inputs.first() else {
            return 1.0;
        };
        let from = targets.get(newest.level);
        let is_whole_level = from.is_some_and(LevelTarget::goes_down_whole);
        let runs_in_place =
            inputs.len() > 1 && newest.level == target.level && target.run == Some(newest.run);
        let table = newest.tables.first().and_then(|id| self.shape.table(*id));
        match table {
            Some((_, table)) if !is_whole_level && !runs_in_place => table.stands_for() as f64,
            _ => 1.0,
        }
    }

    /// Carries out a plan while `beside` bytes are being written by other jobs.
    fn finish(&mut self, job: &Job, beside: f64) -> Result<()> {
        let mut edit = job.plan.edit(PARTITION);
        let mut tables = Vec::new();
        match (&job.plan, &job.inputs) {
            (Plan::Move { inputs, target, .. }, _) => self.move_down(&mut edit, inputs, target),
            (Plan::Merge { target, .. }, Some(inputs)) => {
                self.work.largest_merge_bytes = self.work.largest_merge_bytes.max(job.bytes);
                let coming;
                (tables, coming) = self.merge(&mut edit, inputs, target);
                let coming = coming / job.real_merges + beside;
                let transient = (self.bytes() + coming) / self.live_bytes();
                self.work.transient_max = self.work.transient_max.max(transient);
            }
            (Plan::Discard { inputs }, _) => {
                for id in inputs.iter().flat_map(|input| &input.tables) {
                    if let Some((at, table)) = self.shape.table(*id) {
                        let weight = self.sample().weight(usize::from(at.level));
                        self.puts -= table.puts() * weight;
                    }
                }
            }
            // The plan only edits the tree.
            _ => {}
        }
        self.apply(&edit, tables)
    }

    fn move_down(&mut self, edit: &mut TreeEdit, inputs: &[Input], target: &Target) {
        let run = target.run.unwrap_or_else(|| RunId(self.take_id()));
        for id in inputs.iter().flat_map(|input| &input.tables) {
            if let Some((_, table)) = self.shape.table(*id) {
                let to = self.shape.placement(target.level, run, table.meta());
                edit.moved.push((*id, to));
            }
        }
    }

    /// The tables that a merge writes, and their bytes.
    fn merge(
        &mut self,
        edit: &mut TreeEdit,
        merge: &Inputs,
        target: &Target,
    ) -> (Vec<VirtualTable>, f64) {
        let run = target.run.unwrap_or_else(|| RunId(self.take_id()));
        let sample = self.sample().clone();
        let known = (self.puts, self.written - self.time_to_live);
        let segments = merge.segments(&self.shape, target, &self.workload, known);
        // Absent nodes receive as much as the nodes that stand for them.
        let here = |segment: &&Segment| sample.has(target.level, &key(segment.keys.start));
        let written = segments.iter().filter(|segment| !segment.aside);
        let (bytes, entries) = written.filter(here).fold((0.0, 0.0), |sum, segment| {
            (sum.0 + segment.bytes, sum.1 + segment.entries())
        });
        let weight = sample.weight(target.level);
        self.work.written_bytes += bytes * weight;
        self.work.written_entries += entries * weight;
        for (from, table) in merge.tables() {
            self.puts -= table.puts() * sample.weight(from);
            edit.removed.push(table.meta().id);
        }
        (self.add(edit, target.level, run, &segments, bytes), bytes)
    }

    /// Cuts segments into tables of a level and adds these to an edit.
    fn add(
        &mut self,
        edit: &mut TreeEdit,
        level: usize,
        run: RunId,
        segments: &[Segment],
        coming_bytes: f64,
    ) -> Vec<VirtualTable> {
        let target = self.targets()[level];
        let above = (1..level).map(|level| self.stands_for(level, 0.0)).max();
        let above = above.unwrap_or(1);
        let stands_for = match level {
            0 => 1,
            // A node has few tables.
            _ if target.is_of_nodes() => 1,
            _ => self.stands_for(level, coming_bytes).max(above),
        };
        let unit_bytes = self.design.table_bytes as f64;
        let virtual_bytes = unit_bytes * stands_for as f64;
        let cutter = Cutter::new(&self.shape, level, segments, virtual_bytes, self.targets());
        let contents = cutter.cut(segments, &self.workload, &mut self.random, unit_bytes);
        let mut tables = Vec::with_capacity(contents.len());
        let sample = self.sample().clone();
        for content in contents {
            if !sample.has(level, &key(content.keys.start)) {
                continue;
            }
            let parts = match stands_for > above {
                true => (content.bytes / (unit_bytes * above as f64)).ceil() as u64,
                false => 1,
            };
            let table = self.table(content, stands_for, parts);
            self.puts += table.puts() * sample.weight(level);
            let to = self.shape.placement(level, run, table.meta());
            edit.added.push((to, table.meta().clone()));
            tables.push(table);
        }
        tables
    }

    fn table(&mut self, content: Content, stands_for: u64, parts: u64) -> VirtualTable {
        let id = self.take_id();
        VirtualTable::new(id, content, (stands_for, parts), &self.workload)
    }

    /// The number of real tables that one of a level stands for, after `coming_bytes` have come.
    fn stands_for(&self, level: usize, coming_bytes: f64) -> u64 {
        let bytes = self.shape.levels[level].bytes() as f64 + coming_bytes;
        let times = bytes / (self.design.table_bytes * self.level_tables) as f64;
        1 << (times.max(1.0) as u64).ilog2()
    }

    fn apply(&mut self, edit: &TreeEdit, tables: Vec<VirtualTable>) -> Result<()> {
        let place = |at: &Placement| (usize::from(at.level), at.group as usize);
        let left = edit.removed.iter().filter_map(|id| self.shape.table(*id));
        let mut changed: BTreeSet<_> = left.map(|(at, _)| place(&at)).collect();
        changed.extend(edit.added.iter().map(|(at, _)| place(at)));
        let mut tables = tables.into_iter();
        self.derived.take();
        self.shape
            .apply(edit, |_| tables.next().expect("as many as were added"))?;
        if self.clusters.are_asked(0) {
            self.write_filters(edit, &changed);
        }
        Ok(())
    }

    /// Counts the filters of new tables and of changed groups.
    fn write_filters(&mut self, edit: &TreeEdit, changed: &BTreeSet<(usize, usize)>) {
        let sample = self.sample().clone();
        let levels = self.shape.levels.iter().enumerate();
        let entries = levels.map(|(at, level)| level.entries() as f64 * sample.weight(at));
        let entries: Vec<f64> = entries.collect();
        let with_tables = edit.added.iter().map(|(at, meta)| {
            let level = usize::from(at.level);
            self.clusters.bytes(level, meta.entries as f64) * sample.weight(level)
        });
        let mut bytes: f64 = with_tables.sum();
        let weight = |level| sample.weight(level);
        bytes += (self.clusters).gather(&self.shape, changed, &entries, weight);
        self.work.filter_bytes += bytes;
        self.work.written_bytes += bytes;
    }

    fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }
}
