//! The simulated disk as a [`Storage`].

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::contents::Contents;
use super::handles::{Handle, Lock, Reader, SimSegment, Writer};
use super::meter::{Fault, Op, OpClass};
use super::names::{File, Name};
use super::reads::SimReads;
use super::{SimStorage, State, lock};
use crate::{DirEntry, FileLock, RandomRead, ReadMode, Reads, Segment, SequentialWrite, Storage};

impl Storage for SimStorage {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.change("create_dir_all", &[dir], |state| {
            state.names.create_dir_all(dir)
        })
    }

    fn reads(&self) -> Box<dyn Reads> {
        Box::new(SimReads::new(self.clone()))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let state = self.look_up("list", dir)?;
        let entry = |(name, file): (&String, &Arc<File>)| {
            let bytes = lock(&file.inner).contents.bytes();
            DirEntry {
                name: name.clone(),
                bytes,
            }
        };
        Ok(state.names.list(dir)?.iter().map(entry).collect())
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        let state = self.look_up("size", path)?;
        let file = state.names.find(&Name::new(path)?)?;
        let bytes = lock(&file.inner).contents.bytes();
        Ok(bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change("rename", &[from, to], |state| state.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change("remove", &[path], |state| {
            let file = state.names.unlink(Name::new(path)?)?;
            state.give_back(&file);
            Ok(())
        })
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.change("remove_dir", &[dir], |state| state.names.remove_dir(dir))
    }

    fn rename_dir(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change("rename_dir", &[from, to], |state| {
            state.check_device(from, to)?;
            state.names.rename_dir(from, to)
        })
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        let file = lock(&self.disk.state).names.find(&Name::new(path)?)?;
        self.handle(file, path).sync()
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change("link", &[from, to], |state| {
            state.check_device(from, to)?;
            let file = state.names.find(&Name::new(from)?)?;
            state.names.link(Name::new(to)?, &file)
        })
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = lock(&self.disk.state);
        let verdict = state.admit(Op::on(OpClass::Sync, "sync_dir", &[dir]));
        if !verdict.begin()? {
            return Err(Fault::Short.error());
        }
        state.names.sync_dir(dir)
    }

    fn available_bytes(&self, dir: &Path) -> io::Result<u64> {
        let state = self.look_up("available_bytes", dir)?;
        state.names.list(dir)?;
        Ok(state.free_bytes())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        let mut state = lock(&self.disk.state);
        let is_whole = state
            .admit(Op::on(OpClass::Create, "lock", &[path]))
            .begin()?;
        let name = Name::new(path)?;
        if state.names.find(&name).is_err() {
            state.names.create(name, Contents::default())?;
        }
        if !is_whole {
            return Err(Fault::Short.error());
        }
        if !state.locks.insert(path.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(Lock {
            disk: self.disk.clone(),
            path: path.to_owned(),
        }))
    }

    fn open(&self, path: &Path, _mode: ReadMode) -> io::Result<Arc<dyn RandomRead>> {
        let file = self.look_up("open", path)?.names.find(&Name::new(path)?)?;
        let bytes = lock(&file.inner).contents.bytes();
        Ok(Arc::new(Reader {
            handle: self.handle(file, path),
            bytes,
        }))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn SequentialWrite>> {
        let file = self.create_file("create", path, Contents::default())?;
        let handle = self.handle(file, path);
        Ok(Box::new(Writer {
            handle,
            buffer: Vec::new(),
            handed_bytes: 0,
            failed: false,
        }))
    }

    fn create_segment(&self, path: &Path, bytes: u64) -> io::Result<Arc<dyn Segment>> {
        if bytes == 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a segment cannot be empty",
            ));
        }
        let file = self.create_file("create_segment", path, Contents::zeros(bytes))?;
        Ok(Arc::new(SimSegment {
            handle: self.handle(file, path),
            capacity_bytes: bytes,
        }))
    }

    fn recycle_segment(&self, from: &Path, to: &Path) -> io::Result<Arc<dyn Segment>> {
        let mut opened = None;
        self.change("recycle_segment", &[from, to], |state| {
            opened = Some(state.names.find(&Name::new(from)?)?);
            state.rename(from, to)
        })?;
        let file = opened.ok_or(io::ErrorKind::NotFound)?;
        let capacity_bytes = lock(&file.inner).contents.bytes();
        Ok(Arc::new(SimSegment {
            handle: self.handle(file, to),
            capacity_bytes,
        }))
    }
}

impl SimStorage {
    fn look_up(&self, name: &'static str, path: &Path) -> io::Result<super::Guard<'_>> {
        let mut state = lock(&self.disk.state);
        if !state
            .admit(Op::on(OpClass::Lookup, name, &[path]))
            .begin()?
        {
            return Err(Fault::Short.error());
        }
        Ok(state)
    }

    /// Changes names. A short fault does the work and returns an error.
    fn change(
        &self,
        name: &'static str,
        paths: &[&Path],
        change: impl FnOnce(&mut State) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut state = lock(&self.disk.state);
        let is_whole = state.admit(Op::on(OpClass::Name, name, paths)).begin()?;
        change(&mut state)?;
        if is_whole {
            Ok(())
        } else {
            Err(Fault::Short.error())
        }
    }

    fn create_file(
        &self,
        name: &'static str,
        path: &Path,
        contents: Contents,
    ) -> io::Result<Arc<File>> {
        let mut state = lock(&self.disk.state);
        let bytes = contents.bytes();
        let paths = [path];
        let op = Op {
            bytes,
            ..Op::on(OpClass::Create, name, &paths)
        };
        let is_whole = state.admit(op).begin()?;
        let at = Name::new(path)?;
        if bytes > state.free_bytes() && state.names.find(&at).is_err() {
            return Err(Fault::StorageFull.error());
        }
        let file = state.names.create(at, contents)?;
        state.used_bytes += bytes;
        if is_whole {
            Ok(file)
        } else {
            Err(Fault::Short.error())
        }
    }

    fn handle(&self, file: Arc<File>, path: &Path) -> Handle {
        Handle {
            disk: self.disk.clone(),
            file,
            path: path.to_owned(),
        }
    }
}
