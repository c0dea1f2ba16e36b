//! Handles that keep a database open, and snapshots that keep what they see.

use std::sync::Arc;
use std::time::Duration;

use crate::base::entry::SeqNo;
use crate::base::expiry::Moment;
use crate::tree::snapshot_list::Registration;

use super::{Catalog, Engine};

/// The part that every handle of the user holds. The database is closed when the last handle is
/// dropped, on the dropping thread. Background jobs hold the engine alone, and only while they run.
#[derive(Clone)]
pub(crate) struct Handle(Arc<ClosesOnDrop>);

struct ClosesOnDrop {
    engine: Arc<Engine>,
    /// False for the handles of workers, which do not keep a database open.
    is_of_user: bool,
}

impl Handle {
    pub(crate) fn new(engine: Arc<Engine>) -> Handle {
        Handle(Arc::new(ClosesOnDrop {
            engine,
            is_of_user: true,
        }))
    }

    /// A handle that does not keep the database open.
    pub(crate) fn of_worker(engine: &Arc<Engine>) -> Handle {
        Handle(Arc::new(ClosesOnDrop {
            engine: engine.clone(),
            is_of_user: false,
        }))
    }
}

impl std::ops::Deref for Handle {
    type Target = Arc<Engine>;

    #[inline]
    fn deref(&self) -> &Arc<Engine> {
        &self.0.engine
    }
}

impl Drop for ClosesOnDrop {
    fn drop(&mut self) {
        if self.is_of_user {
            // A caller that needs the errors calls `close`.
            let _ = self.engine.close();
        }
    }
}

/// Keeps a number registered, so that merges keep the versions visible at it.
pub(crate) struct SnapshotGuard {
    pub(crate) engine: Handle,
    pub(crate) registration: Registration,
    pub(crate) seqno: SeqNo,
    pub(crate) taken: Duration,
    /// The time by which entries have expired for it.
    pub(crate) time: u64,
    /// The trees at that moment: a keyspace cleared later still reads as it was.
    pub(crate) catalog: Arc<Catalog>,
}

impl SnapshotGuard {
    /// The moment that it sees.
    pub(crate) fn moment(&self) -> Moment {
        Moment {
            seqno: self.seqno,
            time: Some(self.time),
        }
    }
}

impl Drop for SnapshotGuard {
    fn drop(&mut self) {
        self.engine.snapshots.release(self.registration);
    }
}
