//! Self-tuning keyspaces: finds the advisor's design for their operations.
//! [`background`](crate::paths::background) puts it in force.
//!
//! A keyspace is considered after a flush, on the flush's thread, and when the database is opened;
//! a keyspace that is only read has its turn then. [`adoption`] decides. The flag and the design
//! are in the manifest, so a crash is like any other.
//!
//! The memory of a tree is the share of the budget that its data is of all data. Partitions are
//! assumed alike: the design is found for one of them.
//!
//! Cost: some ten milliseconds each time that the operations reach half the number of entries.
//!
//! [`adoption`]: crate::design::advisor

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::error::Result;
use crate::base::options::Design;
use crate::base::stats::{Event, KeyspaceStats, LevelStats, Operations};
use crate::design::advisor::{Adoption, Constraints, Device, Workload, adoption, is_due};
use crate::table::memory::Memory;
use crate::tree::engine::{Engine, KeyspaceCell};
use crate::tree::partition::Partition;
use crate::tree::version::edit::{Change, KeyspaceChange};

/// Turns self-tuning of a keyspace on or off, durably.
pub(crate) fn set(engine: &Arc<Engine>, cell: &KeyspaceCell, on: bool) -> Result<()> {
    let facts = &cell.facts;
    let writer = engine.writer()?;
    let mut manifest = writer.manifest();
    cell.check_not_dropped()?;
    if facts.tunes_itself.load(Ordering::Acquire) == on {
        return Ok(());
    }
    let change = Change::Keyspace(facts.id, KeyspaceChange::SetSelfTuning(on));
    engine.log_edit(writer, &mut manifest, vec![change])?;
    facts.tunes_itself.store(on, Ordering::Release);
    Ok(())
}

/// The design that the keyspace of a tree adopts now: if it tunes itself, it is its turn and the
/// new design pays.
pub(crate) fn adopted(
    engine: &Engine,
    partition: &Partition,
) -> Result<Option<(Arc<KeyspaceCell>, Design)>> {
    let facts = &partition.keyspace;
    let Some(writer) = &engine.writer else {
        return Ok(None);
    };
    if !facts.tunes_itself.load(Ordering::Acquire) {
        return Ok(None);
    }
    let catalog = engine.catalog.load();
    let Some(cell) = catalog.keyspaces.get(&facts.name()) else {
        return Ok(None);
    };
    Ok(find(&engine.memory, &writer.device, cell)?.map(|found| {
        engine.report(Event::Adopted {
            keyspace: cell.facts.name(),
            us_before: found.us_before,
            us: found.us,
        });
        (cell.clone(), found.design)
    }))
}

fn find(memory: &Memory, device: &Device, cell: &KeyspaceCell) -> Result<Option<Adoption>> {
    let facts = &cell.facts;
    let state = cell.state.load();
    let mut of_tree = KeyspaceStats {
        name: facts.name(),
        operations: facts.operations.recent(),
        key_bytes: state.key_bytes(),
        ..KeyspaceStats::default()
    };
    let trees = state.partitions.len() as u64;
    let versions = state.partitions.iter().map(|it| it.tree().version.clone());
    let (mut entries, mut bytes) = (0, 0);
    for version in versions {
        entries += version.entries() / trees;
        bytes += version.bytes() / trees;
        let raw = version.tables().map(|(_, table)| table.meta().raw_bytes);
        of_tree.raw_bytes += raw.sum::<u64>() / trees;
    }
    if entries == 0 || !is_due(&of_tree.operations, entries * trees) || !is_turn(cell, entries) {
        return Ok(None);
    }
    of_tree.levels = vec![LevelStats {
        entries,
        ..LevelStats::default()
    }];
    let all = memory.stored.bytes.load(Ordering::Relaxed);
    let memory = u128::from(memory.plan().budget) * u128::from(bytes) / u128::from(all.max(1));

    let mut operations = of_tree.operations;
    operations.since_retune /= trees;
    let design = scaled(&facts.design().design, |bytes| bytes / trees);
    let workload = Workload::measured(&of_tree)?;
    let found = adoption(
        &design,
        &operations,
        &workload,
        device,
        &Constraints::new(memory as u64).of_order(facts.key_order),
    )?;
    Ok(found.map(|found| Adoption {
        design: scaled(&found.design, |bytes| bytes * trees),
        ..found
    }))
}

/// The design for another number of trees: its memtables are for all of them together.
fn scaled(design: &Design, memtable_bytes: impl Fn(u64) -> u64) -> Design {
    Design {
        memtable_bytes: design.memtable_bytes.map(memtable_bytes),
        ..design.clone()
    }
}

/// Returns true if there were enough operations since the last turn.
fn is_turn(cell: &KeyspaceCell, entries: u64) -> bool {
    let counted = cell.facts.operations.counted().total();
    let looked_at = &cell.facts.extras().looked_at;
    let before = looked_at.load(Ordering::Acquire);
    let due = before == 0 || counted >= before.saturating_add(Operations::window(entries) / 2);
    due && looked_at
        .compare_exchange(before, counted.max(1), Ordering::AcqRel, Ordering::Acquire)
        .is_ok()
}
