//! Putting an edit of a tree in force: first in the manifest, then in memory.

use std::sync::Arc;

use crate::base::entry::SeqNo;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::mutex::lock;
use crate::base::stats::Event;
use crate::base::table_meta::TableMeta;
use crate::design::merge_policy::tree_edit::TreeEdit;
use crate::group_filter;
use crate::tree::memtable::Memtable;
use crate::tree::partition::Partition;
use crate::tree::version::edit::{Change, KeyspaceChange};
use crate::tree::version::{Version, VersionSet};

use super::{Engine, Writer};

impl Engine {
    /// Logs an edit of a tree and then installs its result, as one step among all changes of the
    /// tree. The files of removed tables are deleted when they have no readers.
    ///
    /// `complete` adds the filters over the tables to the version. `unless_taken` is the
    /// registration of the first snapshot for which the edit would change what it sees.
    ///
    /// If the manifest cannot be written, its state is unknown: writes are refused from then on.
    ///
    /// # Errors
    /// `Conflict` if there is such a snapshot; those of [`Engine::log_edit`].
    pub(crate) fn install(
        &self,
        partition: &Partition,
        mut edit: TreeEdit,
        flushed: Option<(&Arc<Memtable>, SeqNo)>,
        unless_taken: Option<u64>,
        complete: impl FnOnce(&mut Version),
    ) -> Result<()> {
        let writer = self.writer()?;
        let mut manifest = lock(&writer.manifest);
        let tree = partition.tree_owned();
        let mut version = self.edited(partition, &mut edit)?;
        complete(&mut version);
        let removed: Vec<_> = edit
            .removed
            .iter()
            .filter_map(|id| tree.version.table(*id))
            .collect();
        let (entries, bytes) = edit.written();
        let mut changes = vec![Change::Tree(edit)];
        if flushed.is_some() {
            changes.extend(operations_to_note(partition, &version));
        }
        let _none_is_taken = match unless_taken {
            None => None,
            Some(from) => Some(self.snapshots.hold_unless_taken(from).ok_or_else(|| {
                Error::new(ErrorKind::Conflict, "a snapshot was taken during the merge")
            })?),
        };
        self.log_edit(writer, &mut manifest, changes)?;
        if flushed.is_some() {
            // Counted before the tables become visible: a thread that waits for the flush may read
            // the statistics next.
            self.stats.flushes.add(1);
            self.stats.flush_entries.add(entries);
            self.stats.flush_bytes.add(bytes);
        }
        partition.install(Arc::new(version), flushed);
        removed.iter().for_each(|(_, table)| table.mark_obsolete());
        Ok(())
    }

    /// Installs as [`Engine::install`] does, for tables that come into several trees together at a
    /// number.
    /// `publish` makes their entries visible; no snapshot is taken between installing and
    /// publishing.
    pub(crate) fn install_together(
        &self,
        mut edits: Vec<(&Partition, TreeEdit)>,
        at: SeqNo,
        publish: impl FnOnce(),
    ) -> Result<()> {
        let writer = self.writer()?;
        let mut manifest = lock(&writer.manifest);
        let versions = edits.iter_mut().map(|(p, edit)| self.edited(p, edit));
        let versions: Vec<_> = versions.collect::<Result<_>>()?;
        let (partitions, mut changes): (Vec<_>, Vec<_>) = edits
            .into_iter()
            .map(|(partition, edit)| (partition, Change::Tree(edit)))
            .unzip();
        self.keep_tables(&changes)?;
        writer.note(&mut changes, at);
        self.log_edit(writer, &mut manifest, changes)?;
        self.snapshots.while_none_is_taken(|| {
            for (partition, version) in partitions.into_iter().zip(versions) {
                partition.install(Arc::new(version), None);
            }
            publish();
        });
        Ok(())
    }

    /// The version that an edit makes of a tree's version. Adds the end of finished sweeps to the
    /// edit; otherwise they would begin again when the database is opened. The caller holds the
    /// manifest's lock.
    fn edited(&self, partition: &Partition, edit: &mut TreeEdit) -> Result<Version> {
        if partition.is_dropped() {
            return Err(Error::new(
                ErrorKind::Closed,
                "the keyspace was dropped or cleared",
            ));
        }
        let before = partition.tree_owned();
        let mut version = (*before.version).clone();
        self.apply(partition, &before.version, &mut version, edit)?;
        let levels = (0..).zip(before.version.levels.iter().zip(&version.levels));
        let over = levels
            .filter(|(_, (before, after))| before.draining.is_some() && after.draining.is_none());
        edit.draining.extend(over.map(|(level, _)| (level, None)));
        Ok(version)
    }

    /// Applies an edit to `version`, which is a copy of `before`.
    pub(crate) fn apply(
        &self,
        partition: &Partition,
        before: &Version,
        version: &mut Version,
        edit: &TreeEdit,
    ) -> Result<()> {
        version.apply(edit, |meta| self.table(meta, &partition.keyspace))?;
        group_filter::carry(&partition.filters, before, version, edit);
        Ok(())
    }

    /// Removes tables that no edit has named, because their flush or merge failed. After a failure
    /// that poisons, an edit may have named them: then they stay, and are removed when the database
    /// is opened again.
    pub(crate) fn remove_unnamed(&self, partition: &Partition, tables: &[TableMeta]) {
        let ids = tables.iter().map(|meta| meta.id);
        partition.filters.forget(ids);
        if self.writer().is_ok() {
            for meta in tables {
                let _ = self
                    .environment
                    .storage
                    .remove(&self.directories.table(meta));
            }
        }
    }

    /// Makes an edit durable. Rotates the manifest when it has grown. `NoSpace`, with nothing
    /// written, when the disk is full; `Closed` when the manifest has been closed meanwhile.
    pub(crate) fn log_edit(
        &self,
        writer: &Writer,
        manifest: &mut VersionSet,
        mut edit: Vec<Change>,
    ) -> Result<()> {
        self.check_open()?;
        edit.push(writer.ids.change());
        edit.extend(self.clock_to_note());
        manifest.commit(edit).map_err(|e| {
            if !manifest.is_poisoned() {
                return e;
            }
            let cause = writer.log.poison_with(e);
            self.report(Event::Poisoned {
                error: cause.clone(),
            });
            cause
        })
    }

    /// The change that keeps the clock from going back over a restart, if entries expire.
    pub(crate) fn clock_to_note(&self) -> Option<Change> {
        let is_used = self.expiry.is_used();
        is_used.then(|| Change::Clock { ms: self.time() })
    }
}

/// The operations of a keyspace that the manifest does not have yet. Assumes that its trees are of
/// about one size.
fn operations_to_note(partition: &Partition, version: &Version) -> Option<Change> {
    let facts = &partition.keyspace;
    let partitions = facts.partitioning.count() as u64;
    let entries = version.entries().saturating_mul(partitions);
    let operations = facts.operations.note(entries)?;
    let change = KeyspaceChange::Operations(operations);
    Some(Change::Keyspace(facts.id, change))
}
