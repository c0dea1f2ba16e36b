//! Checkpoints: a copy of the database at one number, made of links.
//!
//! All memtables are sealed at one number and flushed. Memtables sealed later are not flushed until
//! the checkpoint holds the trees, so the trees have exactly the writes before the number. No
//! keyspace is cleared or dropped meanwhile. Files of held trees stay; they are linked, or copied
//! across file systems. The manifest comes last: a copy without one is not a database, so a crash
//! in the middle leaves nothing that opens.

use std::path::Path;
use std::sync::Arc;

use hedgerow_io::{ReadMode, Storage};

use crate::base::durable::sync_dir;
use crate::base::error::{Error, Result};
use crate::group_filter::{self, filters_dir};
use crate::paths::background::{HeldFlushes, wait};
use crate::paths::recover::under_repair::lost_dir;
use crate::paths::write;
use crate::tree::engine::{Engine, log_dir};
use crate::tree::partition::tables_dir;
use crate::tree::version::SuperVersion;
use crate::tree::version::manifest;
use crate::tree::version::manifest::Manifest;
use crate::tree::version::state::State;
use crate::tree::wal::log::segment_number;

const COPY_BYTES: usize = 1 << 20;

/// Makes a checkpoint in a directory that does not exist or is empty.
pub(crate) fn make(engine: &Arc<Engine>, dir: &Path) -> Result<()> {
    let storage = &*engine.environment.storage;
    engine.writer()?;
    refuse_used(storage, dir)?;
    let (tables, filters) = (tables_dir(dir), filters_dir(dir));
    for made in [dir, &tables, &filters, &log_dir(dir)] {
        storage
            .create_dir_all(made)
            .map_err(|e| Error::io("create", made, e))?;
    }

    let (mut state, trees) = state_at_one_number(engine)?;
    for tree in &trees {
        for (_, table) in tree.version.tables() {
            let name = table.path().file_name().unwrap_or_default();
            link_or_copy(storage, table.path(), &tables.join(name))?;
        }
        for file in group_filter::files(&tree.version) {
            let name = file.path().file_name().unwrap_or_default();
            match link_or_copy(storage, file.path(), &filters.join(name)) {
                // It is a cache: the copy builds the filter again.
                Err(error) if error.is_not_found() => {}
                copied => copied?,
            }
        }
    }
    for made in [&tables, &filters] {
        sync_dir(storage, made)?;
    }
    // The log of the copy begins empty.
    state.log_start = 0;
    // All files of the copy are in one directory.
    state.gather();
    state.closed = None;
    Manifest::create(engine.environment.storage.clone(), dir, &state.snapshot())?;
    // The caller may have made the directory. An empty parent is the current directory.
    if let Some(parent) = dir.parent() {
        sync_dir(storage, parent)?;
    }
    Ok(())
}

/// The state that has every write made so far and no later one, with the trees that it names.
fn state_at_one_number(engine: &Arc<Engine>) -> Result<(State, Vec<Arc<SuperVersion>>)> {
    // Most of the work, without blocking writers.
    let (at, partitions) = write::seal_database(engine, false)?;
    wait::for_flushes(engine, &partitions, at)?;
    let writer = engine.writer()?;
    let _one = writer.whole_trees.begin();
    let _flushes_go_on = HeldFlushes(engine);
    let (at, partitions) = write::seal_database(engine, true)?;
    wait::flush_here(engine, &partitions, at)?;
    // Edits wait for the manifest's lock.
    let manifest = writer.manifest();
    let catalog = engine.catalog.load();
    let trees = catalog.partitions.values().map(|p| p.tree_owned());
    Ok((manifest.state().clone(), trees.collect()))
}

fn refuse_used(storage: &dyn Storage, dir: &Path) -> Result<()> {
    let used = storage.list(dir).is_ok_and(|files| !files.is_empty())
        || [tables_dir(dir), filters_dir(dir), lost_dir(dir)]
            .iter()
            .any(|dir| storage.list(dir).is_ok_and(|files| !files.is_empty()))
        || storage
            .list(&log_dir(dir))
            .is_ok_and(|files| files.iter().any(|f| segment_number(&f.name).is_some()))
        || manifest::exists(storage, dir)?;
    if used {
        return Err(Error::invalid(format!(
            "expected a new or empty directory for the checkpoint, found files in {}",
            dir.display()
        )));
    }
    Ok(())
}

fn link_or_copy(storage: &dyn Storage, from: &Path, to: &Path) -> Result<()> {
    match storage.link(from, to) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::CrossesDevices => {
            copy(storage, from, to, u64::MAX)
        }
        Err(e) => Err(Error::io("link", from, e)),
    }
}

/// Copies the first bytes of a file to a new one, which is durable then.
pub(crate) fn copy(storage: &dyn Storage, from: &Path, to: &Path, bytes: u64) -> Result<()> {
    let reader = storage
        .open(from, ReadMode::Pread)
        .map_err(|e| Error::io("open", from, e))?;
    let end = reader.bytes().min(bytes);
    let mut writer = storage.create(to).map_err(|e| Error::io("create", to, e))?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut offset = 0;
    while offset < end {
        let count = COPY_BYTES.min((end - offset) as usize);
        reader
            .read_at(offset, &mut buffer[..count])
            .map_err(|e| Error::io("read", from, e))?;
        writer
            .write(&buffer[..count])
            .map_err(|e| Error::io("write", to, e))?;
        offset += count as u64;
    }
    writer.sync().map_err(|e| Error::io("sync", to, e))
}
