//! The state that a database's edits lead to: plain maps, used when it is opened, repaired or
//! copied. Pure.
//!
//! An edit that does not fit the ones before it is `Corruption`: the manifest was changed, or
//! written by a bug.

mod tree_description;

pub(crate) use tree_description::TreeDescription;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::base::entry::{KeyspaceId, LogPosition, PartitionId, SeqNo};
use crate::base::error::{Error, Result};
use crate::base::page::TableId;
use crate::base::stats::Operations;
use crate::base::table_meta::TableMeta;
use crate::design::merge_policy::shape::check_depth;

use super::edit::{Change, Edit, EntryCounts, KeyspaceChange, KeyspaceDescription};
use super::feed::Feed;
use super::places::Places;
use crate::design::merge_policy::tree_edit::TreeEdit;

/// The whole description.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct State {
    pub(crate) keyspaces: BTreeMap<KeyspaceId, KeyspaceDescription>,
    /// The names of all keyspaces.
    names: BTreeSet<String>,
    pub(crate) trees: BTreeMap<PartitionId, TreeDescription>,
    /// The owner of each table of any tree.
    owners: BTreeMap<TableId, PartitionId>,
    /// Above every id used so far, even without a `Counters` change.
    pub(crate) next_table: u64,
    pub(crate) next_keyspace: u32,
    pub(crate) next_partition: u32,
    /// The last sequence number that may have been used when trees were removed.
    pub(crate) last: SeqNo,
    pub(crate) log_start: u32,
    /// The directories of the files.
    pub(crate) places: Places,
    /// The times to live of puts in milliseconds, of the keyspaces that have one.
    pub(crate) times_to_live: BTreeMap<KeyspaceId, u64>,
    /// The latest time that entries expired by, in milliseconds since 1970; 0 if none can.
    pub(crate) clock: u64,
    /// The end of the log and its last number, if the database was closed.
    pub(crate) closed: Option<(LogPosition, SeqNo)>,
    /// The slots, and what is kept for them.
    pub(crate) feed: Arc<Feed>,
}

impl State {
    /// The state that edits lead to, the first of them a snapshot.
    pub(crate) fn replay(edits: &[Edit]) -> Result<State> {
        let mut state = State::default();
        for (i, edit) in edits.iter().enumerate() {
            for change in edit {
                state.apply(change)?;
            }
            if i == 0 {
                state.count_from(edit);
            }
        }
        Ok(state)
    }

    /// Begins the counts of keyspaces without counts in the snapshot, which an earlier version
    /// wrote. The snapshot's own tables are initial, not added.
    fn count_from(&mut self, snapshot: &Edit) {
        let told = snapshot.iter().filter_map(|change| match change {
            Change::Keyspace(id, KeyspaceChange::Written(_)) => Some(*id),
            _ => None,
        });
        let told: BTreeSet<KeyspaceId> = told.collect();
        let ids: Vec<KeyspaceId> = self.keyspaces.keys().copied().collect();
        for id in ids.into_iter().filter(|id| !told.contains(id)) {
            let written = EntryCounts::from(self.entries(id));
            self.keyspaces
                .entry(id)
                .and_modify(|it| it.written = written);
        }
    }

    /// The number of entries in the tables of a keyspace.
    fn entries(&self, id: KeyspaceId) -> u64 {
        let partitions = self.keyspaces.get(&id).map(|it| &it.partitions);
        let trees = partitions.into_iter().flatten();
        let trees = trees.filter_map(|partition| self.trees.get(partition));
        let tables = trees.flat_map(|tree| tree.tables.values());
        tables.fold(0, |sum, (_, meta)| meta.entries.saturating_add(sum))
    }

    /// Applies one change. After an error the state is not defined.
    pub(crate) fn apply(&mut self, change: &Change) -> Result<()> {
        match change {
            Change::CreateKeyspace { id, keyspace } => {
                self.create_keyspace(*id, keyspace.clone())?;
            }
            Change::Keyspace(id, change) => self.apply_to_keyspace(*id, change)?,
            Change::Clock { ms } => raise(&mut self.clock, *ms),
            Change::SetPlaces(places) => self.places = places.clone(),
            Change::Tree(edit) => self.apply_tree(edit)?,
            Change::Counters {
                next_table,
                next_keyspace,
                next_partition,
            } => {
                check_number("table", *next_table, TABLES_MAX)?;
                check_number("keyspace", (*next_keyspace).into(), NUMBERS_MAX)?;
                check_number("partition", (*next_partition).into(), NUMBERS_MAX)?;
                raise(&mut self.next_table, *next_table);
                raise(&mut self.next_keyspace, *next_keyspace);
                raise(&mut self.next_partition, *next_partition);
            }
            Change::Numbered { last } => {
                check_number("sequence", last.0, SeqNo::OPENED_MAX.0)?;
                raise(&mut self.last, *last);
            }
            Change::LogStart { segment } => {
                check_number("log segment", (*segment).into(), NUMBERS_MAX)?;
                raise(&mut self.log_start, *segment);
            }
            Change::Closed { end, last } => self.closed = Some((*end, *last)),
            Change::Opened => self.closed = None,
            Change::SetSlot { name, slot } => Arc::make_mut(&mut self.feed).set_slot(name, *slot),
            Change::Past { at, edit } => {
                check_number("sequence", at.0, SeqNo::OPENED_MAX.0)?;
                Arc::make_mut(&mut self.feed).add(*at, edit);
            }
            Change::FeedStart { segment, at } => {
                check_number("sequence", at.0, SeqNo::OPENED_MAX.0)?;
                let keyspaces = State::of_feed(&self.feed, *at)?.keyspaces;
                let base = keyspaces
                    .iter()
                    .map(|(id, keyspace)| keyspace.creation(*id));
                Arc::make_mut(&mut self.feed).begin_at(*segment, *at, base.collect());
            }
        }
        Ok(())
    }

    /// Applies a change of a keyspace that exists.
    fn apply_to_keyspace(&mut self, id: KeyspaceId, change: &KeyspaceChange) -> Result<()> {
        match change {
            KeyspaceChange::Drop => {
                let Some(keyspace) = self.keyspaces.remove(&id) else {
                    return Err(no_keyspace(id));
                };
                self.names.remove(&keyspace.name);
                self.times_to_live.remove(&id);
                self.remove_trees(&keyspace.partitions);
            }
            KeyspaceChange::Rename(name) => {
                self.take_name(name)?;
                let keyspace = self.keyspace_mut(id)?;
                let before = std::mem::replace(&mut keyspace.name, name.clone());
                self.names.remove(&before);
            }
            KeyspaceChange::SetMergeOperator(name) => {
                let keyspace = self.keyspace_mut(id)?;
                if let Some(found) = keyspace.layout.merge_operator.replace(name.as_str().into()) {
                    return Err(misfit(format!(
                        "keyspace {} has the merge operator `{found}` when it gets `{name}`",
                        id.0
                    )));
                }
            }
            KeyspaceChange::ReplacePartitions(partitions) => {
                let keyspace = self.keyspace_mut(id)?;
                let old = std::mem::replace(&mut keyspace.partitions, partitions.clone());
                keyspace.written = EntryCounts::default();
                self.remove_trees(&old);
                self.add_trees(id)?;
            }
            KeyspaceChange::SetDesign(design) => {
                let written = EntryCounts::from(self.entries(id));
                let keyspace = self.keyspace_mut(id)?;
                keyspace.design = design.clone();
                keyspace.operations.since_retune = 0;
                keyspace.written = written;
            }
            KeyspaceChange::SetSelfTuning(on) => self.keyspace_mut(id)?.tunes_itself = *on,
            KeyspaceChange::Operations(operations) => {
                self.keyspace_mut(id)?.operations = *operations;
            }
            KeyspaceChange::Written(written) => self.keyspace_mut(id)?.written = *written,
            KeyspaceChange::SetTimeToLive(ms) => {
                self.keyspace_mut(id)?;
                match ms {
                    0 => self.times_to_live.remove(&id),
                    _ => self.times_to_live.insert(id, *ms),
                };
            }
        }
        Ok(())
    }

    /// The keyspaces at a number that is not before the start of a feed.
    pub(crate) fn of_feed(feed: &Feed, at: SeqNo) -> Result<State> {
        let mut state = State::default();
        for (_, edit) in feed.past.iter().filter(|(number, _)| *number <= at) {
            state.apply_keyspaces(edit)?;
        }
        Ok(state)
    }

    /// Applies the changes of keyspaces, without those of their tables.
    pub(crate) fn apply_keyspaces(&mut self, edit: &Edit) -> Result<()> {
        let is_of_tables = |change: &&Change| matches!(change, Change::Tree(_));
        let mut changes = edit.iter().filter(|change| !is_of_tables(change));
        changes.try_for_each(|change| self.apply(change))
    }

    /// The description of a table.
    pub(crate) fn table(&self, id: TableId) -> Option<&TableMeta> {
        let tree = self.trees.get(self.owners.get(&id)?)?;
        tree.tables.get(&id).map(|(_, meta)| meta)
    }

    /// Makes it the state of a copy: all files are in one directory, and nobody reads its changes.
    pub(crate) fn gather(&mut self) {
        self.feed = Arc::default();
        self.places = Places::default();
        let tables = self
            .trees
            .values_mut()
            .flat_map(|tree| tree.tables.values_mut());
        tables.for_each(|(_, meta)| meta.path = 0);
    }

    /// The same keyspaces over empty trees, for `repair`. Nobody reads the changes.
    pub(crate) fn without_tables(&self) -> State {
        let mut state = self.clone();
        state.feed = Arc::default();
        state.owners.clear();
        for keyspace in state.keyspaces.values_mut() {
            keyspace.written = EntryCounts::default();
        }
        for tree in state.trees.values_mut() {
            let keyspace = state.keyspaces.get(&tree.keyspace);
            *tree = TreeDescription {
                flushed_through: tree.flushed_through,
                ..TreeDescription::empty(tree.keyspace, keyspace.map_or(tree.depth, |k| k.depth))
            };
        }
        state
    }

    /// The edit that leads from an empty state to this one.
    pub(crate) fn snapshot(&self) -> Edit {
        let mut edit = Edit::new();
        if self.places != Places::default() {
            edit.push(Change::SetPlaces(self.places.clone()));
        }
        for (&id, keyspace) in &self.keyspaces {
            edit.push(keyspace.creation(id));
            let mut change = |change| edit.push(Change::Keyspace(id, change));
            if let Some(&ms) = self.times_to_live.get(&id) {
                change(KeyspaceChange::SetTimeToLive(ms));
            }
            if keyspace.tunes_itself {
                change(KeyspaceChange::SetSelfTuning(true));
            }
            if keyspace.operations != Operations::default() {
                change(KeyspaceChange::Operations(keyspace.operations));
            }
        }
        for (&partition, tree) in &self.trees {
            let mut change = TreeEdit::new(partition);
            change.added = tree.tables.values().cloned().collect();
            change.flushed_through =
                (tree.flushed_through > SeqNo(0)).then_some(tree.flushed_through);
            change.ranges = tree.ranges.iter().map(|(&l, &r)| (l, r)).collect();
            change.draining = tree.draining.iter().map(|(&l, &t)| (l, Some(t))).collect();
            let depth = self.keyspaces.get(&tree.keyspace).map(|k| k.depth);
            change.depth = (depth != Some(tree.depth)).then_some(tree.depth);
            change.policy_note = (tree.policy_note > 0).then_some(tree.policy_note);
            if change != TreeEdit::new(partition) {
                edit.push(Change::Tree(change));
            }
        }
        // After the trees, because replaying those counts their tables.
        for (&id, keyspace) in &self.keyspaces {
            let written = keyspace.written;
            if written != EntryCounts::default() {
                edit.push(Change::Keyspace(id, KeyspaceChange::Written(written)));
            }
        }
        edit.push(Change::Counters {
            next_table: self.next_table,
            next_keyspace: self.next_keyspace,
            next_partition: self.next_partition,
        });
        edit.push(Change::LogStart {
            segment: self.log_start,
        });
        if self.last > SeqNo(0) {
            edit.push(Change::Numbered { last: self.last });
        }
        if self.clock > 0 {
            edit.push(Change::Clock { ms: self.clock });
        }
        if let Some((end, last)) = self.closed {
            edit.push(Change::Closed { end, last });
        }
        edit.extend(self.feed.snapshot());
        edit
    }

    fn create_keyspace(&mut self, id: KeyspaceId, keyspace: KeyspaceDescription) -> Result<()> {
        check_depth(usize::from(keyspace.depth))?;
        check_number("keyspace", id.0.into(), NUMBERS_MAX)?;
        if self.keyspaces.contains_key(&id) {
            return Err(misfit(format!("keyspace {} is created twice", id.0)));
        }
        self.take_name(&keyspace.name)?;
        raise(&mut self.next_keyspace, id.0.saturating_add(1));
        self.keyspaces.insert(id, keyspace);
        self.add_trees(id)
    }

    fn take_name(&mut self, name: &str) -> Result<()> {
        match self.names.insert(name.to_owned()) {
            true => Ok(()),
            false => Err(misfit(format!("two keyspaces are named `{name}`"))),
        }
    }

    /// Adds an empty tree for each partition of a keyspace.
    fn add_trees(&mut self, id: KeyspaceId) -> Result<()> {
        let Some(keyspace) = self.keyspaces.get(&id) else {
            return Err(no_keyspace(id));
        };
        let expected = keyspace.layout.partitioning.count();
        if keyspace.partitions.len() != expected {
            return Err(misfit(format!(
                "expected {expected} partitions of keyspace {}, found {}",
                id.0,
                keyspace.partitions.len()
            )));
        }
        for &partition in &keyspace.partitions {
            check_number("partition", partition.0.into(), NUMBERS_MAX)?;
            let tree = TreeDescription::empty(id, keyspace.depth);
            if self.trees.insert(partition, tree).is_some() {
                return Err(misfit(format!("partition {} is used twice", partition.0)));
            }
            raise(&mut self.next_partition, partition.0.saturating_add(1));
        }
        Ok(())
    }

    fn remove_trees(&mut self, partitions: &[PartitionId]) {
        for partition in partitions {
            if let Some(tree) = self.trees.remove(partition) {
                for id in tree.tables.keys() {
                    self.owners.remove(id);
                }
            }
        }
    }

    fn apply_tree(&mut self, edit: &TreeEdit) -> Result<()> {
        let partition = edit.partition;
        let Some(tree) = self.trees.get_mut(&partition) else {
            return Err(misfit(format!("there is no partition {}", partition.0)));
        };
        if let Some(depth) = edit.shift_to {
            tree.shift(depth)?;
        }
        for (level, ranges) in &edit.ranges {
            tree.regroup(*level, *ranges)?;
        }
        for id in &edit.removed {
            if tree.tables.remove(id).is_none() {
                return Err(no_table("removed", *id, partition));
            }
            self.owners.remove(id);
        }
        for (id, placement) in &edit.moved {
            match tree.tables.get_mut(id) {
                Some(table) => table.0 = *placement,
                None => return Err(no_table("moved", *id, partition)),
            }
        }
        for (placement, meta) in &edit.added {
            if meta.partition != partition.0 || meta.keyspace != tree.keyspace.0 {
                return Err(misfit(format!(
                    "table {} of partition {} is added to partition {}",
                    meta.id.0, meta.partition, partition.0
                )));
            }
            check_number("table", meta.id.0, TABLES_MAX)?;
            if self.owners.insert(meta.id, partition).is_some() {
                return Err(misfit(format!("table {} is added twice", meta.id.0)));
            }
            raise(&mut self.next_table, meta.id.0.saturating_add(1));
            tree.tables.insert(meta.id, (*placement, meta.clone()));
        }
        if let Some(keyspace) = self.keyspaces.get_mut(&tree.keyspace) {
            keyspace.written.count(edit);
        }
        if let Some(seqno) = edit.flushed_through {
            raise(&mut tree.flushed_through, seqno);
        }
        for (level, through) in &edit.draining {
            match through {
                Some(id) => tree.draining.insert(*level, *id),
                None => tree.draining.remove(level),
            };
        }
        if let Some(depth) = edit.depth {
            check_depth(usize::from(depth))?;
            tree.depth = depth;
            tree.ranges.retain(|level, _| *level < depth);
        }
        if let Some(depth) = edit.policy_note {
            tree.policy_note = depth;
        }
        Ok(())
    }

    fn keyspace_mut(&mut self, id: KeyspaceId) -> Result<&mut KeyspaceDescription> {
        self.keyspaces.get_mut(&id).ok_or_else(|| no_keyspace(id))
    }
}

fn raise<T: Ord + Copy>(number: &mut T, to: T) {
    *number = to.max(*number);
}

/// The name of a table's file has ten digits. Opening a database leaves half of the numbers unused.
const TABLES_MAX: u64 = 5_000_000_000;
/// Keyspaces, partitions and segments of the log have numbers of 32 bits. Half of them stay unused.
const NUMBERS_MAX: u64 = 1 << 31;

fn check_number(what: &str, found: u64, max: u64) -> Result<()> {
    if found <= max {
        return Ok(());
    }
    Err(misfit(format!(
        "expected a {what} numbered up to {max}, found {found}"
    )))
}

fn misfit(message: String) -> Error {
    Error::corruption(message)
}

fn no_keyspace(id: KeyspaceId) -> Error {
    misfit(format!("there is no keyspace {}", id.0))
}

fn no_table(done: &str, id: TableId, partition: PartitionId) -> Error {
    misfit(format!(
        "table {} is {done} but not in partition {}",
        id.0, partition.0
    ))
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod text_tests;
