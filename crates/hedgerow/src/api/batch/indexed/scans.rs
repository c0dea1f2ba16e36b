//! Scans and cursors of an indexed batch: its own writes above those of its snapshot.

use std::ops::RangeBounds;
use std::sync::Arc;

use super::IndexedBatch;
use crate::api::keyspace::Keyspace;
use crate::base::entry::SeqNo;
use crate::base::error::Result;
use crate::paths::scan::{
    ALL_KEYS, Cursor, Extent, OfBatch, Pair, Reach, Scan, ScanToken, UnorderedScan, View,
};
use crate::tree::own_writes::OwnWrites;
use crate::tree::partition::KeyBounds;
use crate::tree::recorded::RangesRead;

impl IndexedBatch {
    /// Scans the keys of a range with their values, from both ends.
    ///
    /// # Errors
    /// As [`Snapshot::scan`](crate::Snapshot::scan).
    pub fn scan<K: AsRef<[u8]>>(
        &mut self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<Scan> {
        let extent = Extent::of_range(&*keyspace.cell().facts.order, &range)?;
        let view = self.view(keyspace, &extent.bounds, Reach::Files)?;
        Ok(Scan::new(view, extent))
    }

    /// Scans a range as [`IndexedBatch::scan`], but reads no file: an entry that memory does not
    /// have ends the scan with an error (`WouldBlock`). For a thread that must not wait for the
    /// device: another one scans then.
    ///
    /// # Errors
    /// As [`IndexedBatch::scan`]; `WouldBlock` if it takes a read to begin.
    pub fn scan_if_cached<K: AsRef<[u8]>>(
        &mut self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<Scan> {
        let extent = Extent::of_range(&*keyspace.cell().facts.order, &range)?;
        let view = self.view(keyspace, &extent.bounds, Reach::Memory)?;
        Ok(Scan::new(view, extent))
    }

    /// Scans all keys with their values, from both ends.
    ///
    /// # Errors
    /// As [`Snapshot::scan`](crate::Snapshot::scan).
    pub fn scan_all(&mut self, keyspace: &Keyspace) -> Result<Scan> {
        self.scan::<&[u8]>(keyspace, ..)
    }

    /// Scans the keys with a prefix and their values, from both ends.
    ///
    /// # Errors
    /// As [`Snapshot::scan_prefix`](crate::Snapshot::scan_prefix).
    pub fn scan_prefix(&mut self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Result<Scan> {
        let extent = Extent::of_prefix(&*keyspace.cell().facts.order, prefix.as_ref())?;
        Ok(Scan::new(
            self.view(keyspace, &extent.bounds, Reach::Files)?,
            extent,
        ))
    }

    /// Scans all keys with their values, in the order in which they are stored.
    ///
    /// # Errors
    /// As [`Snapshot::scan_unordered`](crate::Snapshot::scan_unordered).
    pub fn scan_unordered(&mut self, keyspace: &Keyspace) -> Result<UnorderedScan> {
        UnorderedScan::new(
            self.view(keyspace, &ALL_KEYS, Reach::Files)?,
            &ScanToken::default(),
        )
    }

    /// The first key with its value; `None` if there is none.
    ///
    /// # Errors
    /// As [`Snapshot::scan`](crate::Snapshot::scan).
    pub fn first(&mut self, keyspace: &Keyspace) -> Result<Option<Pair>> {
        self.scan_all(keyspace)?.next().transpose()
    }

    /// The last key with its value; `None` if there is none.
    ///
    /// # Errors
    /// As [`Snapshot::scan`](crate::Snapshot::scan).
    pub fn last(&mut self, keyspace: &Keyspace) -> Result<Option<Pair>> {
        self.scan_all(keyspace)?.next_back().transpose()
    }

    /// A cursor over all keys.
    ///
    /// # Errors
    /// As [`Snapshot::scan`](crate::Snapshot::scan).
    pub fn cursor(&mut self, keyspace: &Keyspace) -> Result<Cursor> {
        Cursor::open(self.view(keyspace, &ALL_KEYS, Reach::Files)?)
    }

    fn view(&mut self, keyspace: &Keyspace, bounds: &KeyBounds, reach: Reach) -> Result<Arc<View>> {
        let max = self.memory_bytes_max;
        let reads = self.reads_of(keyspace)?;
        let reads = reads.map(|it| {
            it.scanned
                .get_or_insert_with(|| RangesRead::new(max))
                .clone()
        });
        let own = self.index()?;
        let of_batch = (own.is_some() || reads.is_some()).then(|| {
            Box::new(OfBatch {
                own: own.map(|own| own.of(keyspace.id())).unwrap_or_default(),
                newest: own.map_or(SeqNo::OWN, OwnWrites::newest),
                reads,
            })
        });
        self.snapshot()
            .view_with(keyspace, bounds, (of_batch, reach))
    }
}
