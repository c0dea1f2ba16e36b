//! Makes a checkpoint, closes and reopens the database, and checks both.

use std::path::Path;
use std::time::Duration;

use hedgerow::VerifyReport;

use super::Watch;
use super::store::{Contents, Settings, Store};
use crate::exit::Failure;

/// A database that was opened again.
#[derive(Debug)]
pub(crate) struct Reopened {
    /// The time to make the copy or to close.
    pub(crate) leave_time: Duration,
    pub(crate) open_time: Duration,
    pub(crate) verify_time: Duration,
    pub(crate) verified: VerifyReport,
    pub(crate) contents: [Contents; 2],
}

/// Makes a checkpoint, and opens and reads it beside the original database.
pub(crate) fn checkpoint(
    store: &Store,
    settings: &Settings,
    to: &Path,
    watch: &Watch,
) -> Result<Reopened, Failure> {
    let mut leave_time = Duration::ZERO;
    watch.add(&mut leave_time, || store.db.checkpoint(to))?;
    open(leave_time, settings, to, watch)
}

/// Closes the database, and opens and reads it again.
pub(crate) fn reopen(
    store: Store,
    settings: &Settings,
    watch: &Watch,
) -> Result<Reopened, Failure> {
    let mut leave_time = Duration::ZERO;
    watch.add(&mut leave_time, || store.close())?;
    open(leave_time, settings, &settings.path, watch)
}

fn open(
    leave_time: Duration,
    settings: &Settings,
    path: &Path,
    watch: &Watch,
) -> Result<Reopened, Failure> {
    let mut open_time = Duration::ZERO;
    let mut verify_time = Duration::ZERO;
    let store = watch.add(&mut open_time, || Store::reopen(settings, path))?;
    let verified = watch.add(&mut verify_time, || store.verify())?;
    let contents = store.contents()?;
    store.close()?;
    Ok(Reopened {
        leave_time,
        open_time,
        verify_time,
        verified,
        contents,
    })
}
