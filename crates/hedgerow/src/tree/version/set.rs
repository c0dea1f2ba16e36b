//! The manifest being written, with the state that it describes.

use std::path::Path;
use std::sync::Arc;

use hedgerow_io::Storage;

use crate::base::error::Result;

use super::edit::Edit;
use super::manifest::Manifest;
use super::state::State;

/// The durable description of the database. Under one lock: edits are logged and applied one after
/// another.
#[derive(Debug)]
pub(crate) struct VersionSet {
    manifest: Manifest,
    state: State,
}

impl VersionSet {
    /// Writes a fresh manifest that begins with `state`.
    pub(crate) fn create(
        storage: Arc<dyn Storage>,
        dir: &Path,
        state: State,
    ) -> Result<VersionSet> {
        let manifest = Manifest::create(storage, dir, &state.snapshot())?;
        Ok(VersionSet { manifest, state })
    }

    /// Makes an edit durable. After a failure that poisons, nothing more can be written. After any
    /// other failure, nothing was written.
    pub(crate) fn commit(&mut self, edit: Edit) -> Result<()> {
        self.manifest.append(&edit)?;
        for change in &edit {
            self.state.apply(change)?;
        }
        if self.manifest.should_rotate() {
            // If the new file cannot be written, for example on a full disk, the old one stays in
            // use.
            match self.manifest.rotate(&self.state.snapshot()) {
                Err(error) if self.manifest.is_poisoned() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns true if the contents of the manifest are unknown.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.manifest.is_poisoned()
    }

    /// The oldest segment that recovery would read.
    pub(crate) fn log_start(&self) -> u32 {
        self.state.log_start
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }
}
