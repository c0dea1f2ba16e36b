//! The bytes that flushes and merges have written, from the manifest. The manifest begins with a
//! snapshot. Every later edit names the tables that were added and removed, with their sizes.
//!
//! An opening begins the manifest anew. So the bytes of merges are no measure of the write
//! amplification: they may merge what was flushed before.

use std::collections::BTreeMap;

use hedgerow::inspect::{Change, Manifest, TableId, TreeEdit};
use serde_json::{Value, json};

use crate::output::{bytes, counted};

/// Sums over the edits of a manifest.
#[derive(Debug, Clone, Default)]
pub(crate) struct Written {
    pub(crate) flushes: u64,
    pub(crate) flush_bytes: u64,
    /// The bytes of tables that were added without a flush or a merge.
    pub(crate) load_bytes: u64,
    /// The bytes of flushed and loaded keys and values.
    pub(crate) raw_bytes: u64,
    pub(crate) merges: u64,
    pub(crate) merge_read_bytes: u64,
    pub(crate) merge_write_bytes: u64,
    pub(crate) moves: u64,
    /// Segments of the log before this one are no longer needed.
    pub(crate) log_start: u32,
}

impl Written {
    pub(crate) fn of(manifest: &Manifest) -> Written {
        let mut sizes = BTreeMap::new();
        let mut written = Written::default();
        for (i, record) in manifest.records.iter().flatten().enumerate() {
            for change in &record.edit {
                match change {
                    Change::LogStart { segment } => written.log_start = *segment,
                    Change::Tree(edit) => {
                        let tables = edit.added.iter();
                        sizes.extend(tables.map(|(_, meta)| (meta.id, meta.file_bytes)));
                        // The first record is the snapshot, which wrote nothing.
                        if i > 0 {
                            written.add(edit, &sizes);
                        }
                    }
                    _ => {}
                }
            }
        }
        written
    }

    fn add(&mut self, edit: &TreeEdit, sizes: &BTreeMap<TableId, u64>) {
        let added: u64 = edit.added.iter().map(|(_, meta)| meta.file_bytes).sum();
        let raw: u64 = edit.added.iter().map(|(_, meta)| meta.raw_bytes).sum();
        let removed = edit.removed.iter().filter_map(|id| sizes.get(id));
        self.moves += edit.moved.len() as u64;
        if !edit.removed.is_empty() {
            self.merges += 1;
            self.merge_read_bytes += removed.sum::<u64>();
            self.merge_write_bytes += added;
            return;
        }
        self.raw_bytes += raw;
        if edit.flushed_through.is_some() {
            self.flushes += 1;
            self.flush_bytes += added;
        } else {
            self.load_bytes += added;
        }
    }

    /// The bytes written since `before`; all bytes if the manifest was begun anew meanwhile.
    pub(crate) fn since(&self, before: &Written) -> Written {
        let less = |now: u64, then: u64| now.checked_sub(then).unwrap_or(now);
        Written {
            flushes: less(self.flushes, before.flushes),
            flush_bytes: less(self.flush_bytes, before.flush_bytes),
            load_bytes: less(self.load_bytes, before.load_bytes),
            raw_bytes: less(self.raw_bytes, before.raw_bytes),
            merges: less(self.merges, before.merges),
            merge_read_bytes: less(self.merge_read_bytes, before.merge_read_bytes),
            merge_write_bytes: less(self.merge_write_bytes, before.merge_write_bytes),
            moves: less(self.moves, before.moves),
            log_start: self.log_start,
        }
    }

    pub(crate) fn lines(&self) -> [String; 2] {
        let and_loads = match self.load_bytes {
            0 => "",
            _ => " and bulk loads",
        };
        [
            format!(
                "{}{and_loads} wrote {} for {} of keys and values",
                counted(self.flushes, "flush"),
                bytes(self.flush_bytes + self.load_bytes),
                bytes(self.raw_bytes)
            ),
            format!(
                "{} read {} and wrote {}; {}",
                counted(self.merges, "merge"),
                bytes(self.merge_read_bytes),
                bytes(self.merge_write_bytes),
                counted(self.moves, "move")
            ),
        ]
    }

    pub(crate) fn object(&self) -> Value {
        json!({
            "flushes": self.flushes,
            "flush_bytes": self.flush_bytes,
            "load_bytes": self.load_bytes,
            "raw_bytes": self.raw_bytes,
            "merges": self.merges,
            "merge_read_bytes": self.merge_read_bytes,
            "merge_write_bytes": self.merge_write_bytes,
            "moves": self.moves,
        })
    }
}
