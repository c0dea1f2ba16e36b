//! The tree of virtual tables: flushes, and plans carried out.

use std::sync::Arc;

use crate::compaction::SLICE_TABLES;
use crate::compaction::planner::{self, PlanLimits};
use crate::entry::{PartitionId, SeqNo};
use crate::error::Result;
use crate::memtable::ENTRY_OVERHEAD_BYTES;
use crate::merge_policy::Targets;
use crate::merge_policy::edit::{Placement, TreeEdit};
use crate::merge_policy::plan::{Input, Plan, Target};
use crate::merge_policy::shape::{Facts, RunId, Shape};
use crate::partition::DesignInForce;

use super::Simulation;
use super::cut::Cutter;
use super::merge::{Inputs, Segment};
use super::random::Random;
use super::table::{Content, KEYS, Table};
use super::workload::Workload;

/// There is one tree.
const PARTITION: PartitionId = PartitionId(1);

/// What has been done, in bytes and entries of real tables.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Work {
    pub(super) user_bytes: f64,
    pub(super) written_bytes: f64,
    pub(super) written_entries: f64,
    /// The inputs of the largest merge, in bytes.
    pub(super) largest_merge_bytes: f64,
    /// The most that the tables have taken, those that merges were writing among them, over the
    /// bytes of the entries that live.
    pub(super) transient_max: f64,
}

pub(super) struct Tree {
    pub(super) shape: Shape<Table>,
    pub(super) work: Work,
    design: Arc<DesignInForce>,
    workload: Workload,
    random: Random,
    level_tables: u64,
    /// Writes that fill a memtable.
    memtable_writes: f64,
    /// Keys and values of a write.
    write_bytes: f64,
    written: f64,
    /// Puts in all tables.
    puts: f64,
    next_id: u64,
}

impl Tree {
    pub(super) fn new(
        simulation: &Simulation,
        design: &Arc<DesignInForce>,
        workload: Workload,
    ) -> Tree {
        let values = simulation.value_bytes as f64 * (1.0 - simulation.deletes);
        let write_bytes = simulation.key_bytes as f64 + values;
        let memory_bytes = write_bytes + ENTRY_OVERHEAD_BYTES as f64;
        Tree {
            shape: Shape::new(design.policy.depth()),
            work: Work::default(),
            design: design.clone(),
            workload,
            random: Random(simulation.seed),
            level_tables: simulation.level_tables,
            memtable_writes: (design.memtable_bytes as f64 / memory_bytes).max(1.0),
            write_bytes,
            written: 0.0,
            puts: 0.0,
            next_id: 1,
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

    pub(super) fn targets(&self) -> Targets {
        let (memtable, table) = (self.design.memtable_bytes, self.design.table_bytes);
        planner::fitted_targets(&*self.design.policy, self.shape.summary(memtable, table))
    }

    /// Fills a memtable, or what is left of so many entries, and makes it the newest run of level 0.
    pub(super) fn flush(&mut self, entries: u64) -> Result<()> {
        let writes = self.memtable_writes.min(entries as f64 - self.written);
        let mass = self.workload.memtable(writes, self.puts);
        self.written += writes;
        self.work.user_bytes += writes * self.write_bytes;
        let segment = Segment::new(0..KEYS, mass, &self.workload);
        self.work.written_bytes += segment.bytes;
        self.work.written_entries += segment.entries();
        let run = RunId(self.take_id());
        let mut edit = TreeEdit::new(PARTITION);
        let tables = self.add(&mut edit, 0, run, &[segment], 1.0);
        self.apply(&edit, tables)
    }

    /// Carries out plan after plan until there is none.
    pub(super) fn settle(&mut self) -> Result<()> {
        let limits = PlanLimits {
            merge_bytes_max: self.design.table_bytes * SLICE_TABLES,
            oldest_snapshot: SeqNo::MAX,
        };
        while let Some((plan, _)) = planner::plan(&self.shape, &self.targets(), &[], &limits) {
            let mut edit = plan.edit(PARTITION);
            let mut tables = Vec::new();
            match &plan {
                Plan::Drain { .. } | Plan::SetDepth { .. } | Plan::Shift(_) => {}
                Plan::Move { input, target, .. } => self.move_down(&mut edit, input, target),
                Plan::Merge { inputs, target, .. } => {
                    tables = self.merge(&mut edit, inputs, target);
                }
            }
            self.apply(&edit, tables)?;
        }
        Ok(())
    }

    fn move_down(&mut self, edit: &mut TreeEdit, input: &Input, target: &Target) {
        let run = target.run.unwrap_or_else(|| RunId(self.take_id()));
        for id in &input.tables {
            if let Some((_, table)) = self.shape.table(*id) {
                let to = self.placement(target.level, run, table);
                edit.moved.push((*id, to));
            }
        }
    }

    fn merge(&mut self, edit: &mut TreeEdit, inputs: &[Input], target: &Target) -> Vec<Table> {
        let run = target.run.unwrap_or_else(|| RunId(self.take_id()));
        let merge = Inputs::new(&self.shape, inputs, target);
        let segments = merge.segments(&self.shape, target, &self.workload, self.puts);
        let written = segments.iter().filter(|segment| !segment.aside);
        let (bytes, entries) = written.fold((0.0, 0.0), |(bytes, entries), segment| {
            (bytes + segment.bytes, entries + segment.entries())
        });
        self.work.written_bytes += bytes;
        self.work.written_entries += entries;
        let (read, real) = (merge.bytes(), merge.real_merges());
        self.work.largest_merge_bytes = self.work.largest_merge_bytes.max(read / real);
        let transient = (self.shape.bytes() as f64 + bytes / real) / self.live_bytes();
        self.work.transient_max = self.work.transient_max.max(transient);

        self.puts -= merge.tables().map(Table::puts).sum::<f64>();
        edit.removed = merge.tables().map(|table| table.meta().id).collect();
        self.add(edit, target.level, run, &segments, bytes)
    }

    /// Cuts segments into tables of a level and adds them to an edit.
    fn add(
        &mut self,
        edit: &mut TreeEdit,
        level: usize,
        run: RunId,
        segments: &[Segment],
        coming_bytes: f64,
    ) -> Vec<Table> {
        let above = (1..level).map(|level| self.stands_for(level, 0.0)).max();
        let above = above.unwrap_or(1);
        let stands_for = match level {
            0 => 1,
            _ => self.stands_for(level, coming_bytes).max(above),
        };
        let unit_bytes = self.design.table_bytes as f64;
        let cutter = Cutter::new(&self.shape, level, segments, unit_bytes * stands_for as f64);
        let contents = cutter.cut(segments, &self.workload, &mut self.random, unit_bytes);
        let mut tables = Vec::with_capacity(contents.len());
        for content in contents {
            let parts = match stands_for > above {
                true => (content.bytes / (unit_bytes * above as f64)).ceil() as u64,
                false => 1,
            };
            let table = self.table(content, stands_for, parts);
            self.puts += table.puts();
            let to = self.placement(level, run, &table);
            edit.added.push((to, table.meta().clone()));
            tables.push(table);
        }
        tables
    }

    fn table(&mut self, content: Content, stands_for: u64, parts: u64) -> Table {
        let id = self.take_id();
        Table::new(id, content, stands_for, parts)
    }

    /// How many real tables one of a level stands for, once `coming_bytes` are there, too.
    fn stands_for(&self, level: usize, coming_bytes: f64) -> u64 {
        let bytes = self.shape.levels[level].bytes() as f64 + coming_bytes;
        let times = bytes / (self.design.table_bytes * self.level_tables) as f64;
        1 << (times.max(1.0) as u64).ilog2()
    }

    fn placement(&self, level: usize, run: RunId, table: &Table) -> Placement {
        let group = self.shape.levels[level].group_for(&table.meta().smallest_key);
        Placement {
            level: level as u8,
            group: group as u32,
            run,
        }
    }

    fn apply(&mut self, edit: &TreeEdit, tables: Vec<Table>) -> Result<()> {
        let mut tables = tables.into_iter();
        self.shape
            .apply(edit, |_| tables.next().expect("as many as were added"))
    }

    fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }
}
