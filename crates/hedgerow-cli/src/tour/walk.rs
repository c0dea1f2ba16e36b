//! Walks a directory tree: every entry once, without following links.
//!
//! Entries that cannot be read are counted and skipped, because a tree in use changes during the
//! walk.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, DirEntry, ReadDir};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::schema::{ABOVE_ROOT, Attributes, ROOT};
use crate::exit::{Exit, Failure};
use crate::output::{shown, wheel};

/// Refuses a root that is no directory.
pub(crate) fn check(root: &Path) -> Result<(), Failure> {
    let metadata = fs::metadata(root).map_err(|e| Failure::io("read", root, &e))?;
    if !metadata.is_dir() {
        let message = format!("expected a directory, found a file at {}", root.display());
        return Err(Failure::new(Exit::Usage, message));
    }
    fs::read_dir(root).map_err(|e| Failure::io("list", root, &e))?;
    Ok(())
}

/// The tour's own directories, which the walk leaves out if they lie in the tree.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeftOut {
    /// Device and inode of each.
    identities: Vec<(u64, u64)>,
}

impl LeftOut {
    /// Leaves out the existing ones of `dirs`.
    pub(crate) fn new(dirs: &[&Path]) -> LeftOut {
        let identity = |dir: &&Path| fs::symlink_metadata(dir).ok().map(|m| (m.dev(), m.ino()));
        LeftOut {
            identities: dirs.iter().filter_map(identity).collect(),
        }
    }

    fn has(&self, device: u64, inode: u64) -> bool {
        self.identities.contains(&(device, inode))
    }

    pub(crate) fn has_entry(&self, entry: &DirEntry) -> bool {
        // The inode is in the listing; the device needs a system call.
        let may_be = self
            .identities
            .iter()
            .any(|(_, inode)| *inode == entry.ino());
        may_be && entry.metadata().is_ok_and(|m| self.has(m.dev(), m.ino()))
    }
}

/// The approximate number of entries of a tree: it may change, and errors are skipped. Reads names
/// only, which is much cheaper than a walk.
pub(crate) fn count(root: &Path, left_out: &LeftOut) -> u64 {
    let wheel = wheel("counting");
    let mut entries = 1;
    let mut waiting = vec![root.to_path_buf()];
    while let Some(dir) = waiting.pop() {
        let Ok(names) = fs::read_dir(&dir) else {
            continue;
        };
        for entry in names.flatten().filter(|entry| !left_out.has_entry(entry)) {
            entries += 1;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push(entry.path());
            }
        }
        wheel.set_position(entries);
    }
    wheel.finish_and_clear();
    entries
}

/// An entry of the walk.
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) parent: u64,
    pub(crate) name: Vec<u8>,
    pub(crate) attributes: Attributes,
    /// True for another name of an earlier entry.
    pub(crate) again: bool,
}

/// The entries that could not be read.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    pub(crate) permission: u64,
    /// Removed between the listing and the read of the metadata.
    pub(crate) vanished: u64,
    pub(crate) other: u64,
    /// The first one, to show.
    pub(crate) example: Option<String>,
}

impl Problems {
    fn add(&mut self, path: &Path, error: &io::Error) {
        match error.kind() {
            io::ErrorKind::PermissionDenied => self.permission += 1,
            io::ErrorKind::NotFound => self.vanished += 1,
            _ => self.other += 1,
        }
        let name = shown(path.as_os_str().as_encoded_bytes());
        self.example
            .get_or_insert_with(|| format!("{name}: {error}"));
    }

    pub(crate) fn total(&self) -> u64 {
        self.permission + self.vanished + self.other
    }
}

/// An iterator over the entries: the root first, each directory before its entries.
pub(crate) struct Walk {
    root: Option<PathBuf>,
    /// The directory being listed.
    listing: Option<(ReadDir, PathBuf, u64)>,
    /// The directories left to list.
    waiting: Vec<(PathBuf, u64)>,
    left_out: LeftOut,
    /// The ids of entries with several names, by device and inode.
    hard_linked: HashMap<(u64, u64), u64>,
    last_id: u64,
    pub(crate) problems: Problems,
}

impl Walk {
    pub(crate) fn new(root: &Path, left_out: &LeftOut) -> Walk {
        Walk {
            root: Some(root.to_path_buf()),
            listing: None,
            waiting: Vec::new(),
            left_out: left_out.clone(),
            hard_linked: HashMap::new(),
            last_id: ROOT - 1,
            problems: Problems::default(),
        }
    }

    /// Reads the metadata of one entry; `None` if that fails.
    fn look(&mut self, path: PathBuf, parent: u64, name: OsString) -> Option<Found> {
        // The root may be a symbolic link.
        let metadata = if parent == ABOVE_ROOT {
            fs::metadata(&path)
        } else {
            fs::symlink_metadata(&path)
        };
        let metadata = metadata
            .map_err(|error| self.problems.add(&path, &error))
            .ok()?;
        let identity = (metadata.dev(), metadata.ino());
        if self.left_out.has(identity.0, identity.1) {
            return None;
        }
        let target = if metadata.is_symlink() {
            fs::read_link(&path)
                .map_err(|error| self.problems.add(&path, &error))
                .ok()?
                .into_os_string()
                .into_vec()
        } else {
            Vec::new()
        };
        let mut attributes = Attributes::new(self.last_id + 1, &metadata, target);
        let mut again = false;
        if attributes.is_hard_linked() {
            let id = *self.hard_linked.entry(identity).or_insert(attributes.id);
            again = id != attributes.id;
            attributes.id = id;
        }
        self.last_id = self.last_id.max(attributes.id);
        if attributes.is_directory() {
            self.waiting.push((path.clone(), attributes.id));
        }
        Some(Found {
            path,
            parent,
            name: name.into_vec(),
            attributes,
            again,
        })
    }

    /// The next name in the current directory or in the next readable one.
    fn next_name(&mut self) -> Option<(PathBuf, u64, OsString)> {
        loop {
            if let Some((names, dir, id)) = &mut self.listing {
                match names.next() {
                    Some(Ok(entry)) => return Some((entry.path(), *id, entry.file_name())),
                    Some(Err(error)) => self.problems.add(dir, &error),
                    None => self.listing = None,
                }
                continue;
            }
            let (dir, id) = self.waiting.pop()?;
            match fs::read_dir(&dir) {
                Ok(names) => self.listing = Some((names, dir, id)),
                Err(error) => self.problems.add(&dir, &error),
            }
        }
    }
}

impl Iterator for Walk {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        if let Some(root) = self.root.take() {
            return self.look(root, ABOVE_ROOT, OsString::new());
        }
        loop {
            let (path, parent, name) = self.next_name()?;
            if let Some(found) = self.look(path, parent, name) {
                return Some(found);
            }
        }
    }
}
