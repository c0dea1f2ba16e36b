//! The files that a database keeps for its slots: segments that recovery does not need, and second
//! names of the tables of bulk loads.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::base::entry::SeqNo;
use crate::base::error::{Error, Result};
use crate::base::table_meta::TableMeta;
use crate::table::open::{table_name, table_number};
use crate::tree::version::VersionSet;
use crate::tree::version::edit::{Change, Edit, Slot};

use super::{Engine, Writer};

/// The path of the second name of a table whose place has this directory.
pub(crate) fn kept_path(root: &Path, meta: &TableMeta) -> PathBuf {
    kept_dir(root).join(table_name(meta.id))
}

/// The directory of second names under the directory of a place.
pub(crate) fn kept_dir(root: &Path) -> PathBuf {
    root.join("feed")
}

impl Writer {
    /// Adds to an edit what the change feed reports of it at a number, if there are slots.
    pub(crate) fn note(&self, edit: &mut Edit, at: SeqNo) {
        if self.has_slots.load(Ordering::Acquire) {
            let past = edit.clone();
            edit.push(Change::Past { at, edit: past });
        }
    }
}

impl Engine {
    /// Gives the tables of a bulk load second names, durably, if there are slots.
    pub(super) fn keep_tables(&self, edit: &Edit) -> Result<()> {
        if !self.writer()?.has_slots.load(Ordering::Acquire) {
            return Ok(());
        }
        let storage = &self.environment.storage;
        for meta in tables(edit) {
            let root = self.directories.place(meta.path);
            let (from, dir) = (self.directories.table(meta), kept_dir(&root));
            let link = || {
                storage.create_dir_all(&dir)?;
                storage.link(&from, &kept_path(&root, meta))?;
                storage.sync_dir(&dir)
            };
            link().map_err(|e| Error::io("link", &from, e))?;
        }
        Ok(())
    }

    /// Lets go of what no slot needs. A failure here concerns no caller, and the next flush tries
    /// again.
    pub(crate) fn release_kept(&self, writer: &Writer, manifest: &mut VersionSet) {
        let feed = manifest.state().feed.clone();
        if feed.is_on() {
            let kept = |slot: &&Slot| slot.position >= feed.start.0;
            let slots = feed.slots.values().filter(kept);
            let slots = slots.map(|slot| (SeqNo(slot.position), slot.log_bytes_max));
            let (segment, start) = writer.log.needed_by(slots);
            if segment <= feed.segment {
                return;
            }
            let at = start.max(feed.start);
            let change = Change::FeedStart { segment, at };
            if self.log_edit(writer, manifest, vec![change]).is_err() {
                return;
            }
            writer.log.release_kept(segment);
        } else {
            writer.log.release_kept(u32::MAX);
        }
        self.remove_kept(manifest);
    }

    /// Removes the second names of tables that no slot needs. One that stays behind is removed the
    /// next time.
    pub(crate) fn remove_kept(&self, manifest: &VersionSet) {
        let past = &manifest.state().feed.past;
        let needed = past.iter().flat_map(|(_, edit)| tables(edit));
        let needed: HashSet<u64> = needed.map(|meta| meta.id.0).collect();
        let storage = &self.environment.storage;
        for (_, place) in self.directories.places.all(&self.directories.root) {
            let dir = kept_dir(&place);
            for file in storage.list(&dir).unwrap_or_default() {
                if table_number(&file.name).is_some_and(|number| !needed.contains(&number)) {
                    let _ = storage.remove(&dir.join(&file.name));
                }
            }
        }
    }
}

/// The tables that an edit adds.
fn tables(edit: &Edit) -> impl Iterator<Item = &TableMeta> {
    let trees = edit.iter().filter_map(|change| match change {
        Change::Tree(edit) => Some(edit),
        _ => None,
    });
    trees.flat_map(|edit| edit.added.iter().map(|(_, meta)| meta))
}
