//! Directories: the current names, and the ones that a crash may leave.
//!
//! One list has every change of a name since the last `sync_dir`, in the order of the calls. A
//! rename is one change, so a crash shows it entirely or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::contents::Contents;
use super::random::SplitMix64;

/// A file, independent of its names.
#[derive(Debug)]
pub(super) struct File {
    id: u64,
    pub(super) inner: Mutex<Inner>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Inner {
    pub(super) contents: Contents,
    /// The number of the file's names. A file without names takes no space.
    pub(super) links: u32,
}

/// A directory and a name in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) dir: PathBuf,
    pub(super) name: String,
}

impl Name {
    pub(super) fn new(path: &Path) -> io::Result<Name> {
        let name = path.file_name().and_then(|name| name.to_str());
        match (path.parent(), name) {
            (Some(dir), Some(name)) => Ok(Name {
                dir: dir.to_owned(),
                name: name.to_owned(),
            }),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.join(&self.name)
    }
}

#[derive(Debug, Clone)]
enum Change {
    Link {
        at: Name,
        file: Arc<File>,
    },
    Unlink {
        at: Name,
    },
    Rename {
        from: Name,
        to: Name,
        file: Arc<File>,
    },
}

type Files = BTreeMap<String, Arc<File>>;

#[derive(Debug, Clone, Default)]
struct Dir {
    current: Files,
    durable: Files,
    /// True if the directory is removed and its parent is not synced.
    removed: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Names {
    dirs: BTreeMap<PathBuf, Dir>,
    pending: Vec<Change>,
    /// The renames of directories that are not durable: old and new path, oldest first.
    moved: Vec<(PathBuf, PathBuf)>,
    next_id: u64,
}

impl Names {
    /// The root, and the empty path that relative names start from.
    pub(super) fn new() -> Names {
        let roots = ["/", ""].map(|root| (PathBuf::from(root), Dir::default()));
        Names {
            dirs: BTreeMap::from(roots),
            pending: Vec::new(),
            moved: Vec::new(),
            next_id: 0,
        }
    }

    pub(super) fn create_dir_all(&mut self, dir: &Path) -> io::Result<()> {
        for dir in dir.ancestors() {
            if Name::new(dir).is_ok_and(|name| self.find(&name).is_ok()) {
                return Err(io::ErrorKind::NotADirectory.into());
            }
        }
        // A new directory of the old name: no crash undoes the rename then.
        self.moved.retain(|(from, _)| !dir.starts_with(from));
        for dir in dir.ancestors() {
            self.dirs.entry(dir.to_owned()).or_default().removed = false;
        }
        Ok(())
    }

    pub(super) fn remove_dir(&mut self, dir: &Path) -> io::Result<()> {
        let has_dirs = self
            .dirs
            .iter()
            .any(|(path, d)| path.parent() == Some(dir) && !d.removed);
        let entry = self.dir_mut(dir)?;
        if has_dirs || !entry.current.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        entry.removed = true;
        Ok(())
    }

    /// The files of a directory, by name.
    pub(super) fn list(&self, dir: &Path) -> io::Result<&Files> {
        match self.dirs.get(dir) {
            Some(dir) if !dir.removed => Ok(&dir.current),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn find(&self, name: &Name) -> io::Result<Arc<File>> {
        self.list(&name.dir)?
            .get(&name.name)
            .cloned()
            .ok_or(io::ErrorKind::NotFound.into())
    }

    pub(super) fn create(&mut self, at: Name, contents: Contents) -> io::Result<Arc<File>> {
        self.next_id += 1;
        let inner = Mutex::new(Inner { contents, links: 0 });
        let file = Arc::new(File {
            id: self.next_id,
            inner,
        });
        self.link(at, &file)?;
        Ok(file)
    }

    pub(super) fn link(&mut self, at: Name, file: &Arc<File>) -> io::Result<()> {
        if self.find(&at).is_ok() || self.list(&at.path()).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.dir_mut(&at.dir)?
            .current
            .insert(at.name.clone(), file.clone());
        super::lock(&file.inner).links += 1;
        self.pending.push(Change::Link {
            at,
            file: file.clone(),
        });
        Ok(())
    }

    /// Removes a name and returns its file.
    pub(super) fn unlink(&mut self, at: Name) -> io::Result<Arc<File>> {
        let file = self.find(&at)?;
        self.dir_mut(&at.dir)?.current.remove(&at.name);
        super::lock(&file.inner).links -= 1;
        self.pending.push(Change::Unlink { at });
        Ok(file)
    }

    /// Renames a file and returns the replaced file.
    pub(super) fn rename(&mut self, from: Name, to: Name) -> io::Result<Option<Arc<File>>> {
        let file = self.find(&from)?;
        if self.list(&to.path()).is_ok() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if self.find(&to).is_ok_and(|there| Arc::ptr_eq(&there, &file)) {
            return Ok(None);
        }
        let replaced = self
            .dir_mut(&to.dir)?
            .current
            .insert(to.name.clone(), file.clone());
        self.dir_mut(&from.dir)?.current.remove(&from.name);
        if let Some(replaced) = &replaced {
            super::lock(&replaced.inner).links -= 1;
        }
        self.pending.push(Change::Rename { from, to, file });
        Ok(replaced)
    }

    /// Renames a directory. A crash may undo it until the parent is synced.
    pub(super) fn rename_dir(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.list(from)?;
        let (at, is_dir) = (Name::new(to)?, self.list(to).is_ok());
        self.list(&at.dir)?;
        if is_dir || self.find(&at).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.move_dir(from, to);
        self.moved.push((from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn move_dir(&mut self, from: &Path, to: &Path) {
        let moved = |path: &Path| match path.strip_prefix(from) {
            Ok(rest) if rest.as_os_str().is_empty() => to.to_owned(),
            Ok(rest) => to.join(rest),
            Err(_) => path.to_owned(),
        };
        let dirs = std::mem::take(&mut self.dirs).into_iter();
        self.dirs = dirs.map(|(path, dir)| (moved(&path), dir)).collect();
        for change in &mut self.pending {
            match change {
                Change::Link { at, .. } | Change::Unlink { at } => at.dir = moved(&at.dir),
                Change::Rename { from, to, .. } => {
                    (from.dir, to.dir) = (moved(&from.dir), moved(&to.dir));
                }
            }
        }
    }

    /// Makes the names of a directory durable, and the removal of directories in it.
    pub(super) fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        self.list(dir)?;
        let synced = self.synced_together(dir);
        for change in std::mem::take(&mut self.pending) {
            match &change {
                Change::Link { at, .. } | Change::Unlink { at } if !synced.contains(&at.dir) => {
                    self.pending.push(change);
                }
                Change::Rename { from, to, file } if !synced.contains(&from.dir) => {
                    if !synced.contains(&to.dir) {
                        self.pending.push(change);
                        continue;
                    }
                    // The new name is durable now. The old one may come back beside it.
                    self.make_durable(&Change::Link {
                        at: to.clone(),
                        file: file.clone(),
                    });
                    self.pending.push(Change::Unlink { at: from.clone() });
                }
                _ => self.make_durable(&change),
            }
        }
        self.moved.retain(|(_, to)| to.parent() != Some(dir));
        self.forget_dirs_removed_from(dir);
        Ok(())
    }

    /// Forgets the removed directories in `parent`, with all in them.
    fn forget_dirs_removed_from(&mut self, parent: &Path) {
        let is_removed = |dir: &Path| self.dirs.get(dir).is_some_and(|dir| dir.removed);
        let roots = |dir: &Path| dir.parent() == Some(parent) && is_removed(dir);
        let gone: BTreeSet<PathBuf> = self
            .dirs
            .keys()
            .filter(|path| path.ancestors().any(roots))
            .cloned()
            .collect();
        self.dirs.retain(|path, _| !gone.contains(path));
        self.pending.retain(|change| match change {
            Change::Link { at, .. } | Change::Unlink { at } => !gone.contains(&at.dir),
            Change::Rename { .. } => true,
        });
    }

    /// The directories to sync with `dir`. A sync of the directory that a file left must not lose
    /// the file, so it also syncs the file's new directory.
    fn synced_together(&self, dir: &Path) -> BTreeSet<PathBuf> {
        let mut synced = BTreeSet::from([dir.to_owned()]);
        loop {
            let count = synced.len();
            for change in &self.pending {
                if let Change::Rename { from, to, .. } = change
                    && synced.contains(&from.dir)
                {
                    synced.insert(to.dir.clone());
                }
            }
            if synced.len() == count {
                return synced;
            }
        }
    }

    fn make_durable(&mut self, change: &Change) {
        let mut durable = |at: &Name, file: Option<&Arc<File>>| {
            // A removed directory keeps no names.
            let Some(dir) = self.dirs.get_mut(&at.dir) else {
                return;
            };
            match file {
                Some(file) => drop(dir.durable.insert(at.name.clone(), file.clone())),
                None => drop(dir.durable.remove(&at.name)),
            }
        };
        match change {
            Change::Link { at, file } => durable(at, Some(file)),
            Change::Unlink { at } => durable(at, None),
            Change::Rename { from, to, file } => {
                durable(from, None);
                durable(to, Some(file));
            }
        }
    }

    /// Draws the names after a loss of power, each file with its contents after it.
    pub(super) fn after_crash(&self, random: &mut SplitMix64) -> Names {
        let mut image = self.clone();
        for change in image.draw_kept(random) {
            image.make_durable(&change);
        }
        image.bring_back_dirs(random);
        // A rename that is kept keeps those before it.
        while let Some((from, to)) = image.moved.pop() {
            if random.chance(4) {
                break;
            }
            image.move_dir(&to, &from);
        }
        image.moved.clear();
        for dir in image.dirs.values_mut() {
            dir.current = dir.durable.clone();
        }
        image.copy_files(|file| Contents::after_crash(&file.contents, random))
    }

    /// Takes the pending changes; returns those that reach the disk.
    fn draw_kept(&mut self, random: &mut SplitMix64) -> Vec<Change> {
        let mut changes = std::mem::take(&mut self.pending);
        match random.below(4) {
            0 => changes.clear(),
            1 => {}
            // A file system with a `journal`.
            2 => changes.truncate(random.below(changes.len() as u64 + 1) as usize),
            // A file system without any order.
            _ => changes.retain(|_| random.chance(4)),
        }
        changes
    }

    /// A removed directory may come back if its parent is there.
    fn bring_back_dirs(&mut self, random: &mut SplitMix64) {
        let mut kept = BTreeMap::new();
        // Parents sort before their contents.
        for (path, mut dir) in std::mem::take(&mut self.dirs) {
            let has_parent = path.parent().is_none_or(|parent| kept.contains_key(parent));
            if !dir.removed || (has_parent && random.chance(4)) {
                dir.removed = false;
                kept.insert(path, dir);
            }
        }
        self.dirs = kept;
    }

    /// Copies the names and their files for another disk.
    pub(super) fn copy(&self) -> Names {
        self.clone().copy_files(|file| file.contents.clone())
    }

    fn copy_files(mut self, mut contents: impl FnMut(&Inner) -> Contents) -> Names {
        let mut copies = BTreeMap::<u64, Arc<File>>::new();
        let mut copy = |file: &mut Arc<File>, links: u32| {
            let copied = copies.entry(file.id).or_insert_with(|| {
                let contents = contents(&super::lock(&file.inner));
                let inner = Mutex::new(Inner { contents, links: 0 });
                Arc::new(File { id: file.id, inner })
            });
            super::lock(&copied.inner).links += links;
            *file = copied.clone();
        };
        for dir in self.dirs.values_mut() {
            dir.current.values_mut().for_each(|file| copy(file, 1));
            dir.durable.values_mut().for_each(|file| copy(file, 0));
        }
        for change in &mut self.pending {
            match change {
                Change::Link { file, .. } | Change::Rename { file, .. } => copy(file, 0),
                Change::Unlink { .. } => {}
            }
        }
        self
    }

    /// Puts a durable file with this name and these contents.
    pub(super) fn put(&mut self, at: Name, contents: Contents) -> io::Result<()> {
        self.create_dir_all(&at.dir)?;
        if let Ok(file) = self.find(&at) {
            super::lock(&file.inner).contents = contents;
            return Ok(());
        }
        self.create(at, contents)?;
        // The last change is the link of this name: nothing came between.
        if let Some(change) = self.pending.pop() {
            self.make_durable(&change);
        }
        Ok(())
    }

    /// The paths of all files.
    pub(super) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.dirs
            .iter()
            .flat_map(|(path, dir)| dir.current.keys().map(|name| path.join(name)))
    }

    /// The bytes of all files. A file with several names counts once.
    pub(super) fn used_bytes(&self) -> u64 {
        let files = self.dirs.values().flat_map(|dir| dir.current.values());
        let by_id: BTreeMap<u64, u64> = files
            .map(|file| (file.id, super::lock(&file.inner).contents.bytes()))
            .collect();
        by_id.values().sum()
    }

    fn dir_mut(&mut self, dir: &Path) -> io::Result<&mut Dir> {
        match self.dirs.get_mut(dir) {
            Some(dir) if !dir.removed => Ok(dir),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}
