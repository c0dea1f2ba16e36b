//! Walking a directory tree: every entry once, never following a link.
//!
//! What cannot be read is counted and passed over: a tree that is in use changes under the walk.

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

/// Refuses what is no directory.
pub(crate) fn check(root: &Path) -> Result<(), Failure> {
    let metadata = fs::metadata(root).map_err(|e| Failure::io("read", root, &e))?;
    if !metadata.is_dir() {
        let message = format!("expected a directory, found a file at {}", root.display());
        return Err(Failure::new(Exit::Usage, message));
    }
    fs::read_dir(root).map_err(|e| Failure::io("list", root, &e))?;
    Ok(())
}

/// Directories that are no part of the tree, though they may be in it: the tour's own.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeftOut {
    /// Device and inode.
    identities: Vec<(u64, u64)>,
}

impl LeftOut {
    /// Those of `dirs` that exist.
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
        // The inode is in the listing already; the device has to be asked for.
        let may_be = self
            .identities
            .iter()
            .any(|(_, inode)| *inode == entry.ino());
        may_be && entry.metadata().is_ok_and(|m| self.has(m.dev(), m.ino()))
    }
}

/// How many entries a tree has, roughly: it may change, and errors are passed over. Asks for names
/// alone, which is much cheaper than a walk.
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

/// An entry that was found.
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) parent: u64,
    pub(crate) name: Vec<u8>,
    pub(crate) attributes: Attributes,
    /// Another name of an entry that was found before.
    pub(crate) again: bool,
}

/// What could not be read.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    pub(crate) permission: u64,
    /// Gone between the listing and the look at it.
    pub(crate) vanished: u64,
    pub(crate) other: u64,
    /// One of them, to show.
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

/// A walk under way: an iterator over the entries, the root first, a directory before what is in it.
pub(crate) struct Walk {
    root: Option<PathBuf>,
    /// The directory being listed.
    listing: Option<(ReadDir, PathBuf, u64)>,
    /// Directories to list.
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

    /// Looks at one entry; `None` if that is not possible.
    fn look(&mut self, path: PathBuf, parent: u64, name: OsString) -> Option<Found> {
        // The root may be given as a link.
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

    /// The next name, in the directory being listed or the next one that can be.
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
