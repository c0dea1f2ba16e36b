//! A disk in memory that can lose power, fail and fill up. A seed replays all of it.
//!
//! ```
//! use hedgerow_io::{Storage, sim::SimStorage};
//!
//! let disk = SimStorage::new(42);
//! disk.create_dir_all("/db".as_ref())?;
//! let mut file = disk.create("/db/file".as_ref())?;
//! disk.sync_dir("/db".as_ref())?;
//! file.write(b"synced")?;
//! file.sync()?;
//! file.write(b"perhaps")?;
//! file.flush()?;
//! let after_power_loss = disk.crash();
//! assert!(after_power_loss.contents("/db/file")?.starts_with(b"synced"));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Behaviour
//!
//! A loss of power ([`SimStorage::crash`]) draws from the seed
//! - for every 512-byte sector written since the last successful sync of its file: the bytes of any
//!   of these writes to it, or the old ones (zeros after the old end of the file). So a write of
//!   several sectors can be torn; a sector cannot;
//! - for a file that grew since then: any length between the old and the new one, even one beyond
//!   the kept sectors;
//! - for the names changed since the last `sync_dir` of their directory: all, none, the first few,
//!   or any subset of the changes. A rename happens entirely or not at all. A sync of the directory
//!   that a file left also keeps its new name;
//! - for a directory removed since the last `sync_dir` of its parent: whether it comes back.
//!
//! A failed sync of a file leaves each sector written since the last successful one either way at
//! the next crash, whatever syncs succeed later, unless the sector is written again. Until then
//! reads return the written bytes.
//!
//! A failed `sync_dir` changes nothing; a later one can succeed.
//!
//! The end of the process ([`SimStorage::kill`]) loses the buffers of sequential writers, and the
//! locks.
//!
//! Operations fail on request ([`SimStorage::fail_after`], [`SimStorage::crash_after`],
//! [`SimStorage::set_capacity_bytes`]), and writers stop on request ([`SimStorage::stall_write`]).
//!
//! # Limits
//!
//! It never changes synced bytes (except on request: [`SimStorage::flip_bit`],
//! [`SimStorage::set_contents`]), tears no sector, misdirects no write, shows no stale bytes of
//! removed files, and loses no created directory: [`Storage::create_dir_all`] promises these.
//!
//! # Cost
//!
//! An operation takes one lock, and time linear in its length. Images share the bytes of files that
//! neither side changes.

mod contents;
mod handles;
mod machine;
mod meter;
mod names;
mod random;
mod reads;
mod stall;
mod storage;
#[cfg(test)]
mod tests;

pub use machine::{NoSpawn, SimClock};
pub use meter::{Counters, Fault, OpClass};
pub use random::{SplitMix64, mix};
pub use stall::Stall;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use contents::Contents;
use meter::{Meter, Op, Verdict};
use names::{File, Name, Names};

#[cfg(doc)]
use crate::Storage;

/// A simulated disk. A clone is the same disk.
#[derive(Debug, Clone)]
pub struct SimStorage {
    disk: Arc<Disk>,
}

#[derive(Debug)]
struct Disk {
    state: Mutex<State>,
    stall: Mutex<Option<Arc<stall::Gate>>>,
}

type Guard<'a> = MutexGuard<'a, State>;

#[derive(Debug)]
struct State {
    names: Names,
    meter: Meter,
    random: SplitMix64,
    capacity_bytes: Option<u64>,
    full_path: Option<String>,
    used_bytes: u64,
    locks: BTreeSet<PathBuf>,
    /// The directories that are devices of their own.
    devices: BTreeSet<PathBuf>,
}

impl SimStorage {
    /// An empty disk without limits. Equal seeds and equal operations make equal disks.
    pub fn new(seed: u64) -> SimStorage {
        SimStorage::from_state(State {
            names: Names::new(),
            meter: Meter::default(),
            random: SplitMix64::new(seed),
            capacity_bytes: None,
            full_path: None,
            used_bytes: 0,
            locks: BTreeSet::new(),
            devices: BTreeSet::new(),
        })
    }

    /// Draws a disk as it may be after a loss of power: see the [module](self). The image has no
    /// locks, no scheduled faults and fresh counters. This disk is unchanged and shares nothing
    /// with it. A second call draws a second image.
    pub fn crash(&self) -> SimStorage {
        self.image(Names::after_crash)
    }

    /// Returns this disk as the next process finds it if this process is killed. All bytes handed
    /// to the system are there. Nothing more of them is durable than before.
    pub fn kill(&self) -> SimStorage {
        self.image(|names, _| names.copy())
    }

    /// Makes one operation of a class fail, after `count` successful ones.
    pub fn fail_after(&self, class: OpClass, count: u64, fault: Fault) {
        self.state().meter.schedule(class, "", count, fault);
    }

    /// Makes one operation of a class on a path that contains `path` fail, after `count` successful
    /// ones. If the operation has two paths, either may contain it.
    pub fn fail_path_after(&self, class: OpClass, path: &str, count: u64, fault: Fault) {
        self.state().meter.schedule(class, path, count, fault);
    }

    /// Lets `count` more mutating operations succeed. From the next one on every operation fails
    /// with "simulated power loss". Then take the image with [`SimStorage::crash`].
    pub fn crash_after(&self, count: u64) {
        self.state().meter.lose_power_after(count);
    }

    /// Cancels all faults, and a loss of power, that have not happened yet.
    pub fn clear_faults(&self) {
        self.state().meter.clear_faults();
    }

    /// The number of faults scheduled by [`SimStorage::fail_after`] that have happened.
    pub fn faults_fired(&self) -> u64 {
        self.state().meter.faults_fired
    }

    /// Returns true if [`SimStorage::crash_after`] has cut the power.
    pub fn power_lost(&self) -> bool {
        self.state().meter.power_lost
    }

    /// Limits the bytes of all files together; `None` is no limit. Existing files stay.
    pub fn set_capacity_bytes(&self, capacity_bytes: Option<u64>) {
        self.state().capacity_bytes = capacity_bytes;
    }

    /// Makes `StorageFull` of every new file whose path contains `path`, as a full disk of its own
    /// would; `None` ends that. Images keep it.
    pub fn fill_path(&self, path: Option<&str>) {
        self.state().full_path = path.map(str::to_owned);
    }

    /// The bytes of all files together.
    pub fn used_bytes(&self) -> u64 {
        self.state().used_bytes
    }

    /// Makes a directory and its contents a device of their own: links and renames across its
    /// border are `CrossesDevices`.
    pub fn add_device(&self, dir: impl AsRef<Path>) {
        self.state().devices.insert(dir.as_ref().to_owned());
    }

    /// The number of operations so far.
    pub fn operations(&self) -> u64 {
        self.counters().operations
    }

    /// The operations so far, by kind.
    pub fn counters(&self) -> Counters {
        self.state().meter.counters
    }

    /// A hash of every operation so far: its kind, paths, offset, length and written bytes. Equal
    /// runs have equal hashes.
    pub fn trace_hash(&self) -> u64 {
        self.state().meter.trace
    }

    /// The paths of all files, sorted. Like the other helpers below it is no operation: it is not
    /// counted, never fails on request, and works without power.
    pub fn paths(&self) -> Vec<PathBuf> {
        let mut paths: Vec<_> = self.state().names.paths().collect();
        paths.sort();
        paths
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn contents(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let file = self.file(path.as_ref())?;
        let bytes = lock(&file.inner).contents.to_vec();
        Ok(bytes)
    }

    /// Replaces the bytes of a file, durably. Creates the file and its directory if needed. Open
    /// handles see the new bytes.
    ///
    /// # Errors
    /// `InvalidInput` or `NotADirectory` for a path that cannot be a file.
    pub fn set_contents(&self, path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        state
            .names
            .put(Name::new(path.as_ref())?, Contents::durable(bytes))?;
        state.used_bytes = state.names.used_bytes();
        Ok(())
    }

    /// Inverts one bit of a file; bit 8 is the lowest of the second byte.
    ///
    /// # Errors
    /// `NotFound`; `InvalidInput` after the end of the file.
    pub fn flip_bit(&self, path: impl AsRef<Path>, bit: u64) -> io::Result<()> {
        let file = self.file(path.as_ref())?;
        let contents = &mut lock(&file.inner).contents;
        if bit / 8 >= contents.bytes() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        contents.flip_bit(bit);
        Ok(())
    }

    fn image(&self, names: impl FnOnce(&Names, &mut SplitMix64) -> Names) -> SimStorage {
        let mut state = self.state();
        let mut random = SplitMix64::new(state.random.next());
        let names = names(&state.names, &mut random);
        SimStorage::from_state(State {
            used_bytes: names.used_bytes(),
            names,
            meter: Meter::default(),
            random,
            capacity_bytes: state.capacity_bytes,
            full_path: state.full_path.clone(),
            locks: BTreeSet::new(),
            devices: state.devices.clone(),
        })
    }

    fn from_state(state: State) -> SimStorage {
        SimStorage {
            disk: Arc::new(Disk {
                state: Mutex::new(state),
                stall: Mutex::default(),
            }),
        }
    }

    fn state(&self) -> Guard<'_> {
        lock(&self.disk.state)
    }

    fn file(&self, path: &Path) -> io::Result<Arc<File>> {
        self.state().names.find(&Name::new(path)?)
    }
}

impl State {
    fn admit(&mut self, op: Op<'_>) -> Verdict {
        let verdict = self.meter.admit(op);
        let is_in = |full: &String| {
            op.paths
                .iter()
                .any(|path| path.to_string_lossy().contains(full))
        };
        if op.class == OpClass::Create
            && verdict == Verdict::Succeed
            && self.full_path.as_ref().is_some_and(is_in)
        {
            return Verdict::Fail(Fault::StorageFull);
        }
        verdict
    }

    fn free_bytes(&self) -> u64 {
        /// The free space of a disk without a limit: enough for any test, and far from overflow.
        const UNLIMITED_BYTES: u64 = 1 << 50;
        self.capacity_bytes
            .unwrap_or(UNLIMITED_BYTES)
            .saturating_sub(self.used_bytes)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.check_device(from, to)?;
        if let Some(replaced) = self.names.rename(Name::new(from)?, Name::new(to)?)? {
            self.give_back(&replaced);
        }
        Ok(())
    }

    /// Frees the space of a file without names.
    fn give_back(&mut self, file: &File) {
        let inner = lock(&file.inner);
        if inner.links == 0 {
            self.used_bytes -= inner.contents.bytes();
        }
    }

    fn check_device(&self, from: &Path, to: &Path) -> io::Result<()> {
        if self.device(from) == self.device(to) {
            return Ok(());
        }
        Err(io::ErrorKind::CrossesDevices.into())
    }

    fn device<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.ancestors().find(|dir| self.devices.contains(*dir))
    }
}

/// Locks a state. A panic elsewhere leaves it whole, because every change follows the last check.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
