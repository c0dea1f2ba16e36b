//! The ready-made environments.

use std::sync::Arc;
use std::thread;

use crate::os::{OsClock, OsSpawn, OsStorage};
use crate::sim::{NoSpawn, SimClock, SimStorage};
use crate::{Background, Environment};

impl Environment {
    /// The real machine: its files, its clock, and its threads. Background work has one thread per
    /// processor and two more, at least four and at most 258. So merges never delay a flush, and
    /// flushes never delay a new segment.
    pub fn os() -> Environment {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Environment {
            storage: Arc::new(OsStorage::new()),
            clock: Arc::new(OsClock::new()),
            spawn: Arc::new(OsSpawn),
            background: Background::Threads(processors.clamp(2, 256) + 2),
        }
    }

    /// A simulated disk, a clock that starts at zero, and no threads. The callers run the
    /// background work in an order drawn from `seed`.
    ///
    /// ```
    /// use hedgerow_io::{Environment, sim::SimStorage};
    ///
    /// let disk = SimStorage::new(7);
    /// let environment = Environment::simulated(&disk, 7);
    /// environment.storage.create_dir_all("/db".as_ref())?;
    /// let after_power_loss = disk.crash();
    /// assert_eq!(after_power_loss.list("/db".as_ref())?, []);
    /// # use hedgerow_io::Storage;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn simulated(storage: &SimStorage, seed: u64) -> Environment {
        Environment {
            storage: Arc::new(storage.clone()),
            clock: Arc::new(SimClock::new()),
            spawn: Arc::new(NoSpawn),
            background: Background::Inline { seed },
        }
    }
}
