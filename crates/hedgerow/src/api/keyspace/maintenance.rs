//! The work on a whole keyspace: flushing, merging, tuning, clearing.

use std::ops::RangeBounds;
use std::sync::Arc;

use crate::base::compaction_filter::CompactionFilter;
use crate::base::error::Result;
use crate::base::options::Design;
use crate::paths::background;
use crate::paths::background::wait;
use crate::paths::compact;
use crate::paths::compact::CompactProgress;
use crate::paths::keyspaces;
use crate::paths::scan::range_bounds;
use crate::paths::self_tuning;
use crate::paths::write;

use super::Keyspace;

impl Keyspace {
    /// Writes the entries of all memtables to tables, and waits until this is done.
    ///
    /// # Errors
    /// `NoSpace`, `Io`, `Closed`, `Poisoned`.
    pub fn flush(&self) -> Result<()> {
        self.check_not_dropped()?;
        let state = self.cell.state.load_full();
        let at = write::seal_all(&self.engine, &state.partitions)?;
        wait::for_flushes(&self.engine, &state.partitions, at)
    }

    /// Flushes, then merges all data of a range into the deepest level. Deleted and replaced data
    /// of the range is gone afterwards, unless snapshots see it. Reads and writes continue
    /// meanwhile.
    /// Cost: reads and writes every table of the range, once per level that it is in.
    ///
    /// # Errors
    /// As [`Keyspace::flush`]; `Corruption`; `InvalidArgument` for bounds if keys are not sorted.
    pub fn compact<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.compact_with(range, |_| true)
    }

    /// Compacts as [`Keyspace::compact`] does. `go_on` receives the progress after every step, and
    /// ends the work by returning false. Finished steps stay.
    ///
    /// # Errors
    /// As [`Keyspace::compact`]; `Cancelled` when `go_on` returned false.
    pub fn compact_with<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
        mut go_on: impl FnMut(CompactProgress) -> bool,
    ) -> Result<()> {
        let range = range_bounds(&*self.cell.facts.order, &range)?;
        self.flush()?;
        let state = self.cell.state.load_full();
        let covering = state.covering(&range).iter();
        let bytes = covering.map(|p| p.tree().version.bytes());
        let mut progress = CompactProgress {
            done_bytes: 0,
            total_bytes: bytes.sum(),
        };
        for partition in state.covering(&range) {
            compact::compact(&self.engine, partition, &range, &mut progress, &mut go_on)?;
        }
        Ok(())
    }

    /// Waits until the background has nothing left to flush or to merge: for tests, benches and
    /// tools. The active memtables stay as they are; files without readers are removed.
    ///
    /// # Errors
    /// The error of a merge that failed; `Closed`.
    pub fn wait_until_merged(&self) -> Result<()> {
        let at = self.engine.writer()?.commit().next_seqno;
        wait::for_flushes(&self.engine, &self.cell.state.load().partitions, at)?;
        wait::until_idle(&self.engine, &self.cell.state.load().partitions)
    }

    /// Gives the keyspace another design. The design is in force and durable when this returns. A
    /// design equal to the present one changes nothing.
    ///
    /// Reads and writes continue. Memtables have the new size from the next write on. Tables
    /// written from then on have the new filter, index, compression, block size and file size.
    /// Merges in the background bring the trees to the new shape;
    /// [`KeyspaceStats::retuning`](crate::KeyspaceStats::retuning) and
    /// [`Event::Reshaped`](crate::Event::Reshaped) report it. A table that no such merge needs
    /// stays as it is until [`Keyspace::compact`]. A crash keeps the design; merging resumes when
    /// the database is opened.
    ///
    /// Cost: one sync of the manifest; then at most about the cost of merging every table once.
    ///
    /// ```
    /// # use hedgerow::{Db, Design, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let events = db.keyspace("events", Layout::sorted())?;
    /// events.retune(Design { policy: "leveling:4".parse()?, ..events.design() })?;
    /// assert_eq!(events.design().policy.to_string(), "leveling:4");
    /// events.wait_until_merged()?;
    /// assert!(!events.stats().retuning);
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for a design out of bounds, `Unsupported` when opened for reading only,
    /// `NoSpace`, `Io`, `Closed`, `Poisoned`. After an error nothing was changed. After `Poisoned`
    /// this is unknown until the database is opened again.
    pub fn retune(&self, design: Design) -> Result<()> {
        background::retune(&self.engine, &self.cell, design)
    }

    /// Turns self-tuning on or off, durably; off by default. A self-tuning keyspace retunes itself
    /// to the design that the advisor ranks first for its recent operations
    /// ([`crate::Operations`]), its share of the memory budget and the device
    /// ([`Builder::device`](crate::Builder::device)). It reports this as
    /// [`Event::Adopted`](crate::Event::Adopted).
    ///
    /// Nothing changes before the keyspace had twice as many operations as it has entries. A new
    /// design must be predicted to save an eighth of the cost, and as much as rewriting all entries
    /// costs; so designs never alternate faster than it pays. The keyspace checks this after
    /// flushes and when the database is opened.
    ///
    /// ```
    /// # use hedgerow::{Db, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let events = db.keyspace("events", Layout::sorted())?;
    /// events.set_self_tuning(true)?;
    /// assert!(events.stats().tunes_itself);
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::retune`].
    pub fn set_self_tuning(&self, on: bool) -> Result<()> {
        self_tuning::set(&self.engine, &self.cell, on)
    }

    /// Sets the filter that merges ask about values from now on; `None` is none. It is not stored:
    /// a program sets it after opening the keyspace. [`Keyspace::compact`] asks it about
    /// everything.
    ///
    /// It is not asked about values that an open snapshot sees. If a snapshot is taken during a
    /// merge in which the filter has changed something, the merge is made again without it.
    pub fn set_compaction_filter(&self, filter: Option<Arc<dyn CompactionFilter>>) {
        self.cell.facts.set_compaction_filter(filter);
    }

    /// Removes all entries, at once. The files of the tables are removed when no snapshot or cursor
    /// reads them. The clear, and everything written before it, is durable when this returns.
    /// Cost: a sync of the log and one of the manifest; writes of other threads wait for both.
    ///
    /// # Errors
    /// `Unsupported` when opened for reading only, `Io`, `Closed`, `Poisoned`.
    pub fn clear(&self) -> Result<()> {
        self.check_not_dropped()?;
        keyspaces::clear(&self.engine, &self.cell)
    }
}
