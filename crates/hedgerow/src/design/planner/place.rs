//! The place of tables that come from elsewhere than a flush and are newer than the whole tree.

use crate::base::table_meta::TableMeta;
use crate::design::merge_policy::LevelTarget;
use crate::design::merge_policy::plan::{RunningJob, Target};
use crate::design::merge_policy::shape::{Facts, RUNS_MAX, Shape, is_within};

use super::{PlanLimits, Planner};

/// The deepest used level that these tables, in key order, can enter without passing anything that
/// they overlap (P1) or blocking a running job (P3). Level 0 if there is none below it; `None` if
/// level 0 has no room for a run.
pub(crate) fn place<T: Facts>(
    shape: &Shape<T>,
    targets: &[LevelTarget],
    running: &[RunningJob],
    limits: &PlanLimits,
    tables: &[TableMeta],
) -> Option<Target> {
    let (lo, hi) = (&tables.first()?.smallest_key, &tables.last()?.largest_key);
    let planner = Planner::new(shape, targets, running, limits);
    let is_free = |level: &usize| {
        let groups = shape.levels[*level].groups_overlapping(lo, hi);
        let mut runs = groups.iter().flat_map(|group| &group.runs);
        runs.all(|run| run.overlapping(lo, hi).is_empty())
    };
    let free = (0..shape.depth()).take_while(is_free).count();
    let has_room = |level: usize| {
        let ranges = shape.levels[level].ranges();
        let groups = shape.levels[level].groups_overlapping(lo, hi);
        groups.iter().all(|group| group.runs.len() < RUNS_MAX)
            && tables.iter().all(|table| is_within(table, ranges))
    };
    let in_use = std::iter::successors(planner.next_level(0), |level| planner.next_level(*level));
    let reachable = in_use.take_while(|level| *level < free).filter(|&level| {
        has_room(level) && !running.iter().any(|job| job.conflicts(0, level, lo, hi))
    });
    let level = reachable.last().unwrap_or(0);
    let leveled = level > 0 && planner.target(level).is_leveled();
    has_room(level).then(|| Target {
        level,
        group: shape.levels[level].group_for(lo),
        run: leveled.then(|| planner.leveled_run(level)),
    })
}
