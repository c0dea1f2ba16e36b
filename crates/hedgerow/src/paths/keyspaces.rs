//! Creates, clears and drops keyspaces. Each is one edit of the manifest at one sequence number
//! (I22). So a crash, a snapshot and a checkpoint see all of it or nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hedgerow_io::{Clock, Environment};

use crate::base::entry::{KeyspaceId, SeqNo};
use crate::base::error::{Error, Result};
use crate::base::mutex::lock;
use crate::base::options::{Design, Layout};
use crate::design::merge_policy;
use crate::design::merge_policy::tree_edit::TreeEdit;
use crate::paths::compaction;
use crate::paths::recover;
use crate::paths::slots;
use crate::paths::write;
use crate::tree::engine::{Engine, Ids, KeyspaceCell, KeyspaceState};
use crate::tree::partition::Partition;
use crate::tree::version::edit::{Change, KeyspaceChange, KeyspaceDescription};

/// Creates the missing ones of these keyspaces by one edit. Returns all of them.
pub(crate) fn create(
    engine: &Arc<Engine>,
    wanted: &[(&str, Layout, Design)],
) -> Result<Vec<Arc<KeyspaceCell>>> {
    let writer = engine.writer()?;
    let _one = writer.whole_trees.begin();
    let mut catalog = (**engine.catalog.load()).clone();
    let (mut cells, mut edit) = (Vec::with_capacity(wanted.len()), Vec::new());
    for (name, layout, design) in wanted {
        let cell = match catalog.keyspaces.get(*name) {
            Some(cell) => {
                check_layout(cell, layout)?;
                edit.extend(missing_operator(cell, layout));
                cell.clone()
            }
            None => {
                let id = writer.ids.next_keyspace();
                let names = (*name, layout, design);
                let keyspace = describe(&engine.environment, &writer.ids, id, names);
                let version = engine.catalog.empty_version(usize::from(keyspace.depth));
                let tree = |_, _: &_| Ok((version.clone(), SeqNo(0)));
                let (memory, operators) = (&engine.memory, &engine.operators);
                let (cell, state) = recover::open_keyspace(memory, operators, id, &keyspace, tree)?;
                catalog.add(&cell, &state);
                edit.push(keyspace.creation(id));
                cell
            }
        };
        cells.push(cell);
    }
    if !edit.is_empty() {
        engine.memory.check_trees(catalog.partitions.len())?;
        log_edit(engine, edit)?;
        for (cell, (_, layout, _)) in cells.iter().zip(wanted) {
            if let Some(name) = &layout.merge_operator {
                cell.facts.set_merge_operator(engine.operators.named(name));
            }
        }
        engine.set_catalog(catalog);
    }
    Ok(cells)
}

/// Makes a change of keyspaces durable, at a number of its own if there are slots. The caller holds
/// `Writer::whole_trees`.
fn log_edit(engine: &Arc<Engine>, mut edit: Vec<Change>) -> Result<()> {
    let writer = engine.writer()?;
    let number = slots::number(engine)?;
    let mut manifest = writer.manifest();
    if let Some(number) = &number {
        writer.note(&mut edit, number.seqno);
    }
    engine.log_edit(writer, &mut manifest, edit)
}

/// The change that gives a keyspace the merge operator of a layout, if it has none.
pub(crate) fn missing_operator(cell: &KeyspaceCell, layout: &Layout) -> Option<Change> {
    let name = layout.merge_operator.as_deref()?.to_owned();
    let has_none = cell.facts.layout().merge_operator.is_none();
    let change = KeyspaceChange::SetMergeOperator(name);
    has_none.then_some(Change::Keyspace(cell.facts.id, change))
}

/// Describes a new keyspace, with ids for its partitions.
fn describe(
    environment: &Environment,
    ids: &Ids,
    id: KeyspaceId,
    (name, layout, design): (&str, &Layout, &Design),
) -> KeyspaceDescription {
    KeyspaceDescription::new(
        name.to_owned(),
        (layout.clone(), design.clone()),
        seed(&*environment.clock, id.0),
        ids.next_partitions(layout.partitioning.count()),
        merge_policy::policy(&design.policy).depth() as u8,
    )
}

pub(crate) fn check_layout(cell: &KeyspaceCell, layout: &Layout) -> Result<()> {
    let found = cell.facts.layout();
    if found.may_be_opened_as(layout) {
        return Ok(());
    }
    let name = cell.facts.name();
    Err(Error::invalid(format!(
        "expected the keyspace `{name}` to have the layout {layout}, found {found}"
    )))
}

/// The seed of a new keyspace. Seeds differ between keyspaces and databases, so that keys chosen to
/// collide in one do not collide in another. Seeds are stored: any value will do.
fn seed(clock: &dyn Clock, id: u32) -> u64 {
    let mut x = clock.now().as_nanos() as u64 ^ clock.unix_seconds().rotate_left(32);
    x ^= u64::from(id).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^ (x >> 31)
}

/// Drops a keyspace with everything in it.
///
/// # Errors
/// `InvalidArgument` if there is none of that name; as [`clear`].
pub(crate) fn drop_keyspace(engine: &Arc<Engine>, name: &str) -> Result<()> {
    let writer = engine.writer()?;
    {
        let _one = writer.whole_trees.begin();
        let cell = engine.catalog.load().keyspaces.get(name).cloned();
        let cell = cell.ok_or_else(|| {
            Error::invalid(format!("expected a keyspace, found none named `{name}`"))
        })?;
        replace_trees(engine, &cell, None, KeyspaceChange::Drop, Vec::new())?;
    }
    engine.release_log();
    engine.remove_obsolete();
    Ok(())
}

/// Gives a keyspace another name, durably. Its trees stay as they are, and its handles open.
///
/// # Errors
/// `InvalidArgument` if there is no keyspace of the name, or one of the new name.
pub(crate) fn rename(engine: &Arc<Engine>, from: &str, to: &str) -> Result<()> {
    let writer = engine.writer()?;
    let _one = writer.whole_trees.begin();
    let mut catalog = (**engine.catalog.load()).clone();
    let Some(cell) = catalog.keyspaces.remove(from) else {
        return Err(Error::invalid(format!(
            "expected a keyspace, found none named `{from}`"
        )));
    };
    if from != to && catalog.keyspaces.contains_key(to) {
        return Err(Error::invalid(format!(
            "expected a new name, found a keyspace named `{to}`"
        )));
    }
    if from == to {
        return Ok(());
    }
    let change = KeyspaceChange::Rename(to.to_owned());
    log_edit(engine, vec![Change::Keyspace(cell.facts.id, change)])?;
    cell.facts.rename(to);
    catalog.keyspaces.insert(to.to_owned(), cell);
    engine.set_catalog(catalog);
    Ok(())
}

/// Gives the puts of a keyspace a time to live in milliseconds; 0 is for ever.
pub(crate) fn set_time_to_live(engine: &Arc<Engine>, cell: &KeyspaceCell, ms: u64) -> Result<()> {
    let writer = engine.writer()?;
    let _one = writer.whole_trees.begin();
    cell.check_not_dropped()?;
    if ms > 0 {
        // The edit stores the time, so that a kill leaves tables that are known to expire.
        engine.expiry.note_use();
    }
    let change = KeyspaceChange::SetTimeToLive(ms);
    log_edit(engine, vec![Change::Keyspace(cell.facts.id, change)])?;
    cell.facts.set_time_to_live(ms);
    Ok(())
}

/// Empties a keyspace: new, empty trees take the place of the old ones.
pub(crate) fn clear(engine: &Arc<Engine>, cell: &Arc<KeyspaceCell>) -> Result<()> {
    let writer = engine.writer()?;
    let whole_trees = writer.whole_trees.begin();
    cell.check_not_dropped()?;
    let ids = writer
        .ids
        .next_partitions(cell.state.load().partitions.len());
    let depth = cell.facts.design().policy.depth();
    let partitions = ids.iter().enumerate().map(|(index, &id)| {
        let version = engine.catalog.empty_version(depth);
        Partition::new(
            id,
            index,
            cell.facts.clone(),
            version,
            SeqNo(0),
            &engine.memory.pool,
        )
    });
    let new = Arc::new(KeyspaceState {
        facts: cell.facts.clone(),
        partitions: partitions.collect(),
    });
    // The design may have changed since the keyspace was made, and with it the depth.
    let deep = ids.iter().map(|&id| {
        Change::Tree(TreeEdit {
            depth: Some(depth as u8),
            ..TreeEdit::new(id)
        })
    });
    let deep = deep.collect();
    let change = KeyspaceChange::ReplacePartitions(ids);
    replace_trees(engine, cell, Some(new), change, deep)?;
    drop(whole_trees);
    engine.release_log();
    engine.remove_obsolete();
    Ok(())
}

/// Removes the trees of a keyspace, or replaces them, at one sequence number. Every write with a
/// smaller number was routed to the old trees, and is durable before the edit. Every write with a
/// larger number is routed after the edit. No snapshot is taken in between. The caller holds
/// `Writer::whole_trees`.
fn replace_trees(
    engine: &Arc<Engine>,
    cell: &Arc<KeyspaceCell>,
    new: Option<Arc<KeyspaceState>>,
    change: KeyspaceChange,
    of_trees: Vec<Change>,
) -> Result<()> {
    let writer = engine.writer()?;
    let mut edit = vec![Change::Keyspace(cell.facts.id, change)];
    edit.extend(of_trees);
    let rerouting = write::begin_rerouting(engine)?;
    engine.publisher.wait(rerouting.0.seqno.0 - 1);
    writer.log.sync_through(rerouting.0.log_end)?;
    let mut manifest = writer.manifest();
    let last = rerouting.0.seqno;
    writer.note(&mut edit, last);
    edit.push(Change::Numbered { last });
    engine.log_edit(writer, &mut manifest, edit)?;
    engine.snapshots.while_none_is_taken(|| {
        let commits = writer.commit();
        let old = cell.state.load_full();
        for partition in &old.partitions {
            partition.mark_dropped();
            compaction::update_pressure(&engine.throttle, &engine.scheduler, partition);
            let tree = partition.tree();
            let sealed: u64 = tree.sealed.iter().map(|m| m.reserved_bytes()).sum();
            engine.unseal(sealed);
            (engine.memory).remove_active(&old.facts.active, tree.active.reserved_bytes());
        }
        let catalog = engine.catalog.load();
        let catalog = match new {
            Some(new) => {
                let catalog = catalog.with(cell, &new);
                cell.state.store(new);
                catalog
            }
            None => {
                cell.dropped.store(true, Ordering::Release);
                let mut of_dropped = lock(&engine.stats.of_dropped);
                *of_dropped = of_dropped.plus(&cell.facts.operations.counted());
                catalog.without(cell.facts.id)
            }
        };
        engine.set_catalog(catalog);
        drop((commits, rerouting));
    });
    Ok(())
}
