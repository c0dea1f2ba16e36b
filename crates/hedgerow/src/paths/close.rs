//! Closes a database: the last path that a process takes through it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::entry::SeqNo;
use crate::base::error::Result;
use crate::base::mutex::lock;
use crate::group_filter;
use crate::paths::group_filters;
use crate::tree::engine::{Engine, KeyspaceState};
use crate::tree::version::edit::{Change, KeyspaceChange};

impl Engine {
    /// Closes once; a later call does nothing. The workers first finish the calls in their queues.
    pub(crate) fn close(&self) -> Result<()> {
        if let Some(workers) = self.asynchronous.workers() {
            workers.finish();
        }
        let Some(writer) = &self.writer else {
            self.closed.store(true, Ordering::Release);
            self.scheduler.stop();
            self.events.deliver();
            return Ok(());
        };
        let (end, last) = {
            let state = writer.commit();
            if self.closed.swap(true, Ordering::AcqRel) {
                return Ok(());
            }
            (state.tail.position(), SeqNo(state.next_seqno.0 - 1))
        };
        self.publisher.wait(last.0);
        self.scheduler.notify_progress();
        self.scheduler.stop();
        if writer.log.check_poison().is_ok() {
            for partition in self.catalog.load().partitions.values() {
                let design = partition.keyspace.design_owned();
                let cx = group_filters::context(self, partition, &design);
                group_filter::write_all(&cx, &partition.tree_owned().version);
            }
        }
        let synced = writer.log.sync_through(end);
        let noted = synced.and_then(|()| {
            writer.log.check_poison()?;
            let mut edit = self.operations_to_note();
            edit.extend(self.clock_to_note());
            edit.extend([writer.ids.change(), Change::Closed { end, last }]);
            writer.manifest().commit(edit)
        });
        self.remove_obsolete();
        // An edit under way has ended then, also if closing failed before it came to the manifest.
        drop(writer.manifest());
        writer.names.close();
        lock(&writer.locks).clear();
        self.events.deliver();
        noted
    }

    /// The operations of each keyspace that the manifest does not have yet.
    fn operations_to_note(&self) -> Vec<Change> {
        let catalog = self.catalog.load();
        let note = |state: &Arc<KeyspaceState>| {
            let entries = state
                .partitions
                .iter()
                .map(|partition| partition.tree().version.entries());
            let operations = state.facts.operations.note(entries.sum())?;
            let change = KeyspaceChange::Operations(operations);
            Some(Change::Keyspace(state.facts.id, change))
        };
        catalog.states.values().filter_map(note).collect()
    }

    /// Stops without recording a clean close. The next recovery finishes what this one did not; a
    /// recorded close would make it take a log for continued that is not.
    pub(crate) fn abandon(&self) {
        self.closed.store(true, Ordering::Release);
        self.scheduler.stop();
        if let Some(writer) = &self.writer {
            writer.names.close();
            lock(&writer.locks).clear();
        }
        self.events.deliver();
    }
}
