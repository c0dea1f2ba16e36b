//! Carries out one plan: moves, drops or merges tables, and logs the edit.
//!
//! The tables of a failed merge are removed. The inputs stay until the edit is durable and no
//! reader needs them.

use std::sync::Arc;

use crate::base::entry::RunId;
use crate::base::error::{ErrorKind, Result};
use crate::base::stats::Event;
use crate::design::in_force::DesignInForce;
use crate::design::merge_policy::plan::{Input, Plan, Target};
use crate::design::merge_policy::shape::Facts;
use crate::design::merge_policy::tree_edit::TreeEdit;
use crate::paths::group_filters;
use crate::tree::engine::{Directories, Engine};
use crate::tree::partition::Partition;

use super::merge_tables::{MergeOutput, merge_tables, table_of};

/// Carries a plan out up to its edit. Returns the bytes of the input tables.
pub(crate) fn run(
    engine: &Arc<Engine>,
    partition: &Arc<Partition>,
    design: &Arc<DesignInForce>,
    plan: &Plan,
) -> Result<u64> {
    match plan {
        // A file moves to another place only by being rewritten there.
        Plan::Move { inputs, target, .. }
            if !leaves_its_place(&engine.directories, partition, inputs, target)? =>
        {
            move_down(engine, partition, inputs, target)
        }
        Plan::Move { inputs, target, .. } | Plan::Merge { inputs, target, .. } => {
            merge(engine, partition, design, inputs, target)
        }
        Plan::Discard { inputs } => discard(engine, partition, plan, inputs),
        Plan::Drain { .. } | Plan::SetDepth { .. } | Plan::SetRanges { .. } | Plan::Shift(_) => {
            engine.install(partition, plan.edit(partition.id), None, None, |_| ())?;
            Ok(0)
        }
    }
}

/// Returns true if tables are in another place than that of their target level.
fn leaves_its_place(
    directories: &Directories,
    partition: &Partition,
    inputs: &[Input],
    target: &Target,
) -> Result<bool> {
    let version = &partition.tree().version;
    let place = directories.places.of_level(target.level);
    let mut leaves = false;
    for &id in inputs.iter().flat_map(|input| &input.tables) {
        leaves |= table_of(version, id)?.meta().path != place;
    }
    Ok(leaves)
}

/// Moves tables that overlap neither each other nor anything below: only their placement changes.
fn move_down(
    engine: &Engine,
    partition: &Partition,
    inputs: &[Input],
    target: &Target,
) -> Result<u64> {
    let version = partition.tree_owned().version.clone();
    let run = target
        .run
        .unwrap_or(RunId(engine.writer()?.ids.next_table().0));
    let mut edit = TreeEdit::new(partition.id);
    let mut bytes = 0;
    for &id in inputs.iter().flat_map(|input| &input.tables) {
        let table = table_of(&version, id)?;
        bytes += table.meta().file_bytes;
        let place = version.placement(target.level, run, table.meta());
        edit.moved.push((id, place));
    }
    let design = partition.keyspace.design_owned();
    group_filters::install(engine, partition, &design, edit, None, None)?;
    engine.stats.moves.add(1);
    engine.report(Event::Moved {
        keyspace: partition.keyspace.name(),
        from_level: inputs.iter().map(|it| it.level).min().unwrap_or_default(),
        to_level: target.level,
        bytes,
    });
    Ok(bytes)
}

/// Drops tables that no reader sees. Returns their bytes.
fn discard(engine: &Engine, partition: &Partition, plan: &Plan, inputs: &[Input]) -> Result<u64> {
    let version = partition.tree_owned().version.clone();
    let mut bytes = 0;
    for &id in inputs.iter().flat_map(|input| &input.tables) {
        bytes += table_of(&version, id)?.meta().file_bytes;
    }
    let edit = plan.edit(partition.id);
    let design = partition.keyspace.design_owned();
    group_filters::install(engine, partition, &design, edit, None, None)?;
    Ok(bytes)
}

fn merge(
    engine: &Arc<Engine>,
    partition: &Arc<Partition>,
    design: &Arc<DesignInForce>,
    inputs: &[Input],
    target: &Target,
) -> Result<u64> {
    let began = engine.environment.clock.now();
    let _memory = engine.memory.merge();
    let filter = partition.keyspace.compaction_filter();
    let merged = merge_tables(engine, partition, design, inputs, target, filter)?;
    let is_filtered = merged.filtered_before.is_some();
    let mut installed = install(engine, partition, design, merged);
    if is_filtered && matches!(&installed, Err(error) if error.kind() == ErrorKind::Conflict) {
        // A snapshot sees what the filter has changed. The next merge asks it again.
        let merged = merge_tables(engine, partition, design, inputs, target, None)?;
        installed = install(engine, partition, design, merged);
    }
    let (read_bytes, entries, write_bytes) = installed?;
    engine.stats.merges.add(1);
    engine.stats.merge_read_bytes.add(read_bytes);
    engine.stats.merge_write_bytes.add(write_bytes);
    engine.stats.merge_entries.add(entries);
    engine.report(Event::Merged {
        keyspace: partition.keyspace.name(),
        partition: partition.index,
        from_level: inputs.iter().map(|i| i.level).min().unwrap_or_default(),
        to_level: target.level,
        read_bytes,
        write_bytes,
        took: engine.environment.clock.now().saturating_sub(began),
    });
    Ok(read_bytes)
}

/// Installs the outputs of a merge, or removes them. Returns the bytes that were read, and the
/// entries and the bytes that were written.
fn install(
    engine: &Engine,
    partition: &Partition,
    design: &Arc<DesignInForce>,
    merged: MergeOutput,
) -> Result<(u64, u64, u64)> {
    let (edit, unless_taken) = (merged.edit, merged.filtered_before);
    let (entries, write_bytes) = edit.written();
    group_filters::install(engine, partition, design, edit, None, unless_taken)?;
    Ok((merged.read_bytes, entries, write_bytes))
}
