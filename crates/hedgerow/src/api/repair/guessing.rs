//! Keyspaces that the manifest does not tell of, guessed from their tables and the log.

use std::collections::{BTreeMap, BTreeSet};

use super::above;
use super::replayed_log::KeysInLog;
use super::tables::{FoundTable, guessed_name};
use crate::base::entry::{KeyHash, KeyspaceId, PartitionId};
use crate::base::error::{Error, Result};
use crate::base::key_order;
use crate::base::options::{Design, KeyOrder, Layout, Partitioning};
use crate::base::table_meta::TableMeta;
use crate::design::merge_policy;
use crate::tree::partition;
use crate::tree::version::edit::{Change, KeyspaceChange, KeyspaceDescription};
use crate::tree::version::state::State;

/// Gives each known keyspace the trees that its tables name, if the readable part of the manifest
/// ends before a `clear` of it. The newest trees have the largest numbers. If only the log names
/// them, nothing tells their keyspace.
pub(super) fn replace_cleared(known: &mut State, tables: &[TableMeta]) -> Result<()> {
    let next = known.next_partition;
    for (&id, keyspace) in &known.keyspaces.clone() {
        let newer = tables
            .iter()
            .filter(|it| it.keyspace == id.0 && it.partition >= next);
        let Some(newest) = newer.clone().map(|it| it.partition).max() else {
            continue;
        };
        let count = keyspace.partitions.len() as u32;
        // The ends of range tombstones are no keys of the partition.
        let is_told = |it: &&TableMeta| it.range_tombstones == 0 && newest - it.partition < count;
        let told = newer.filter(is_told).max_by_key(|it| it.partition);
        let first = match told {
            Some(table) => table.partition.saturating_sub(index_of(table, keyspace)),
            None => next.max(newest.saturating_sub(count.saturating_sub(1))),
        };
        let partitions = (first..first.saturating_add(count)).map(PartitionId);
        let replaced = KeyspaceChange::ReplacePartitions(partitions.collect());
        known.apply(&Change::Keyspace(id, replaced))?;
    }
    // The log may name partitions between them, of keyspaces that are not known.
    known.next_partition = next;
    Ok(())
}

/// The index of the partition of a table, by its smallest key.
fn index_of(table: &TableMeta, keyspace: &KeyspaceDescription) -> u32 {
    let order = key_order::open(keyspace.layout.order, keyspace.seed);
    let router = partition::router(&keyspace.layout, keyspace.seed);
    let key = order.decode(&table.smallest_key);
    router.route(key, KeyHash::of(key, keyspace.seed)) as u32
}

/// The keyspaces that the manifest does not tell of.
pub(super) fn guess_unknown(
    known: &State,
    log: &KeysInLog,
    tables: &[FoundTable],
) -> Result<BTreeMap<KeyspaceId, KeyspaceDescription>> {
    let mut keyspaces = BTreeMap::new();
    for table in tables {
        let id = KeyspaceId(table.meta.keyspace);
        if known.keyspaces.contains_key(&id) {
            continue;
        }
        let footer = &table.footer;
        let keyspace = keyspaces
            .entry(id)
            .or_insert_with(|| guess_with(id, footer.key_order, footer.hash_seed));
        let partition = PartitionId(table.meta.partition);
        if !keyspace.partitions.contains(&partition) {
            keyspace.partitions.push(partition);
        }
    }
    guess_from_log(known, log, &mut keyspaces);
    for (&id, keyspace) in &mut keyspaces {
        keyspace.partitions.sort_unstable();
        keyspace.layout.partitioning = guess_partitioning(id, keyspace, log, tables)?;
    }
    Ok(keyspaces)
}

fn guess_with(id: KeyspaceId, order: KeyOrder, seed: u64) -> KeyspaceDescription {
    let design = Design::default();
    let depth = merge_policy::policy(&design.policy).depth() as u8;
    let layout = Layout {
        order,
        ..Layout::default()
    };
    let name = guessed_name(id);
    KeyspaceDescription::new(name, (layout, design), seed, Vec::new(), depth)
}

/// Adds a sorted keyspace for each partition that the log alone has, if the readable part of the
/// manifest ends before its creation. Whether it was dropped is not known.
fn guess_from_log(
    known: &State,
    log: &KeysInLog,
    keyspaces: &mut BTreeMap<KeyspaceId, KeyspaceDescription>,
) {
    let mut described: BTreeSet<_> = keyspaces.values().flat_map(|it| &it.partitions).collect();
    described.extend(known.trees.keys());
    let is_new = |id: &&PartitionId| id.0 >= known.next_partition && !described.contains(id);
    let found: Vec<PartitionId> = log.keys().filter(is_new).copied().collect();
    let next = above(keyspaces.keys().map(|id| u64::from(id.0))).max(known.next_keyspace.into());
    for (id, partition) in (next..).zip(found) {
        // A damaged table can claim any number; one that is too large is refused later.
        let id = KeyspaceId(u32::try_from(id).unwrap_or(u32::MAX));
        let mut keyspace = guess_with(id, KeyOrder::Sorted, 0);
        keyspace.partitions.push(partition);
        keyspaces.insert(id, keyspace);
    }
}

/// The partitioning that puts every known key into the partition where it was found. The partitions
/// of a keyspace are numbered one after another when it is created.
fn guess_partitioning(
    id: KeyspaceId,
    keyspace: &KeyspaceDescription,
    log: &KeysInLog,
    tables: &[FoundTable],
) -> Result<Partitioning> {
    let partitions = &keyspace.partitions;
    let order = key_order::open(keyspace.layout.order, keyspace.seed);
    let mut keys: Vec<BTreeSet<&[u8]>> = vec![BTreeSet::new(); partitions.len()];
    for (partition, keys) in partitions.iter().zip(&mut keys) {
        if let Some(Some((smallest, largest))) = log.get(partition) {
            keys.extend([smallest.as_slice(), largest]);
        }
        // The ends of range tombstones are no keys of the partition.
        let is_told =
            |t: &&FoundTable| t.meta.partition == partition.0 && t.meta.range_tombstones == 0;
        for FoundTable { meta, .. } in tables.iter().filter(is_told) {
            let bounds = [meta.smallest_key.as_slice(), &meta.largest_key];
            keys.extend(bounds.map(|key| order.decode(key)));
        }
    }
    let splits = keys.iter().skip(1).filter_map(|keys| keys.first());
    let guesses = [
        Partitioning::Single,
        Partitioning::Hash(partitions.len() as u16),
        Partitioning::range(splits),
    ];
    let fits = |guess: &Partitioning| {
        let layout = Layout {
            partitioning: guess.clone(),
            ..keyspace.layout.clone()
        };
        let router = partition::router(&layout, keyspace.seed);
        let is_of = |key: &[u8], p| router.route(key, KeyHash::of(key, keyspace.seed)) == p;
        let all_of = |(p, keys): (usize, &BTreeSet<&[u8]>)| keys.iter().all(|key| is_of(key, p));
        let is_possible = layout.check().is_ok() && guess.count() == partitions.len();
        is_possible && keys.iter().enumerate().all(all_of)
    };
    let consecutive = partitions.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0);
    match guesses.into_iter().find(fits).filter(|_| consecutive) {
        Some(partitioning) => Ok(partitioning),
        None => Err(Error::corruption(format!(
            "the manifest is lost and the tables do not tell how keyspace {} was divided",
            id.0
        ))),
    }
}
