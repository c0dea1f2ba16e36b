//! Overwrites and deletes a part under a snapshot, which must still see the old data.

use std::time::Duration;

use hedgerow::{Durability, Snapshot};

use super::Watch;
use super::questions::{Totals, subtree_near};
use super::schema::{Attributes, Time, entry_key};
use super::store::{Contents, Store};
use crate::exit::Failure;
use crate::output::progress;

/// One file in this many is touched.
const TOUCH_EVERY: usize = 20;
/// The subtree to delete has about one entry in this many.
const DELETE_PART: u64 = 20;
const BATCH_DELETES: usize = 100;

/// The changes and their checks.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) touched: u64,
    pub(crate) touch_time: Duration,
    pub(crate) subtree: Vec<u8>,
    pub(crate) deleted: u64,
    pub(crate) inodes_deleted: u64,
    pub(crate) delete_time: Duration,
    /// The contents of the snapshot after the changes, and of the store before.
    pub(crate) snapshot_contents: [Contents; 2],
    pub(crate) before: [Contents; 2],
    /// The contents of the store after the changes.
    pub(crate) contents: [Contents; 2],
    /// Touched files without their new time in the store or their old time in the snapshot.
    pub(crate) touches_lost: u64,
    /// Deleted entries that the store still had or the snapshot had lost.
    pub(crate) deletes_lost: u64,
}

pub(crate) fn make(store: &Store, totals: &Totals, watch: &Watch) -> Result<Changes, Failure> {
    let mut changes = Changes {
        before: totals.contents,
        ..Changes::default()
    };
    let snapshot = store.db.snapshot()?;
    let touched = touch(store, &snapshot, &mut changes, watch)?;
    let deleted = delete(store, totals, &mut changes, watch)?;
    store.settle()?;

    changes.snapshot_contents = store.contents_at(&snapshot)?;
    changes.contents = store.contents()?;
    for Touch { key, old, new } in touched {
        let live = mtime(store.entries.get(&key)?.as_deref())?;
        let then = mtime(snapshot.get(&store.entries, &key)?.as_deref())?;
        // The file may have been in the deleted subtree.
        let kept = live == Some(new) || live.is_none() && deleted.binary_search(&key).is_ok();
        changes.touches_lost += u64::from(!kept || then != Some(old));
    }
    for key in &deleted {
        let gone = !store.entries.contains_key(key)?;
        let seen = snapshot.contains_key(&store.entries, key)?;
        changes.deletes_lost += u64::from(!gone || !seen);
    }
    Ok(changes)
}

struct Touch {
    key: Vec<u8>,
    old: Time,
    new: Time,
}

fn mtime(value: Option<&[u8]>) -> Result<Option<Time>, Failure> {
    let attributes = value.map(Attributes::decode).transpose()?;
    Ok(attributes.map(|attributes| attributes.mtime))
}

/// Gives one file in twenty a new mtime, each by an atomic read and write.
fn touch(
    store: &Store,
    snapshot: &Snapshot,
    changes: &mut Changes,
    watch: &Watch,
) -> Result<Vec<Touch>, Failure> {
    let now = (watch.unix_seconds(), 0);
    let mut touched = Vec::new();
    let mut files = 0;
    for item in snapshot.scan::<&[u8]>(&store.entries, ..)? {
        let (key, value) = item?;
        let attributes = Attributes::decode(&value)?;
        if !attributes.is_regular() {
            continue;
        }
        if files % TOUCH_EVERY == 0 {
            touched.push(Touch {
                key: key.to_vec(),
                old: attributes.mtime,
                new: now,
            });
        }
        files += 1;
    }
    let bar = progress("touching", touched.len() as u64);
    for Touch { key, new, .. } in &touched {
        let written = watch.add(&mut changes.touch_time, || {
            store.entries.update(key, |old| {
                let mut attributes = Attributes::decode(old?).ok()?;
                attributes.mtime = *new;
                Some(attributes.encode())
            })
        })?;
        changes.touched += u64::from(written.is_some());
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(touched)
}

/// Deletes a subtree from both keyspaces. Returns the keys of its entries, sorted.
fn delete(
    store: &Store,
    totals: &Totals,
    changes: &mut Changes,
    watch: &Watch,
) -> Result<Vec<Vec<u8>>, Failure> {
    let Some(top) = subtree_near(totals, totals.root().entries / DELETE_PART) else {
        return Ok(Vec::new());
    };
    changes.subtree = store.path(top)?;
    let mut keys = Vec::new();
    let mut inodes = Vec::new();
    let mut waiting = vec![top];
    while let Some(directory) = waiting.pop() {
        for item in store.list(directory)? {
            let (name, attributes) = item?;
            if attributes.is_directory() {
                waiting.push(attributes.id);
            }
            // The inode stays if the entry has further names.
            inodes.push((!attributes.is_hard_linked()).then_some(attributes.id));
            keys.push(entry_key(directory, &name));
        }
    }
    let bar = progress("deleting", keys.len() as u64);
    for (keys, inodes) in keys.chunks(BATCH_DELETES).zip(inodes.chunks(BATCH_DELETES)) {
        watch.add(&mut changes.delete_time, || -> Result<(), Failure> {
            let mut batch = store.db.batch();
            for (key, inode) in keys.iter().zip(inodes) {
                batch.delete(&store.entries, key)?;
                if let Some(inode) = inode {
                    batch.delete(&store.inodes, inode.to_be_bytes())?;
                }
            }
            Ok(batch.commit(Durability::Buffered)?)
        })?;
        bar.inc(keys.len() as u64);
    }
    bar.finish_and_clear();
    changes.deleted = keys.len() as u64;
    changes.inodes_deleted = inodes.iter().flatten().count() as u64;
    keys.sort_unstable();
    Ok(keys)
}
