//! The meter of every simulated operation: counters, the trace, and scheduled faults.

use std::io;
use std::path::Path;

use super::random::{hash, mix};

/// The kinds of operations that a fault can select.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpClass {
    /// Every operation.
    Any,
    /// `size`, `list`, `available_bytes` and `open`.
    Lookup,
    /// A read of a file.
    Read,
    /// `create`, `create_segment` and `lock`.
    Create,
    /// Bytes handed to the system by a sequential writer or a segment.
    Write,
    /// A sync of a file, a segment or a directory.
    Sync,
    /// `rename`, `remove`, `link`, `recycle_segment`, and directories made, renamed or removed.
    Name,
}

/// The failure of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It does nothing and fails as on a broken disk.
    Io,
    /// It does nothing and fails with `StorageFull`.
    StorageFull,
    /// It fails after half or all of its work. A write keeps the first half of its bytes. A read
    /// fills the first half of its buffer and is `UnexpectedEof`. Names are changed and files
    /// created although the caller gets an error. A sync has no half: it fails as with
    /// [`Fault::Io`].
    Short,
}

impl Fault {
    pub(super) fn error(self) -> io::Error {
        match self {
            Fault::Io => io::Error::other("simulated i/o error"),
            Fault::StorageFull => io::Error::new(io::ErrorKind::StorageFull, "simulated full disk"),
            Fault::Short => io::Error::other("simulated i/o error half way"),
        }
    }
}

/// The use of a simulated disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// All operations, the failed ones included.
    pub operations: u64,
    /// The operations that change something or make it durable: all but [`OpClass::Lookup`] and
    /// [`OpClass::Read`].
    pub mutations: u64,
    /// Reads of files.
    pub reads: u64,
    /// The number of batches of overlapping reads. `reads_in_batches` is the number of their reads.
    pub read_batches: u64,
    /// See `read_batches`.
    pub reads_in_batches: u64,
    /// Writes handed to the system.
    pub writes: u64,
    /// Syncs of files, segments and directories.
    pub syncs: u64,
    /// Bytes requested by reads.
    pub read_bytes: u64,
    /// Bytes handed over by writes.
    pub written_bytes: u64,
}

/// An operation about to happen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Op<'a> {
    pub(super) class: OpClass,
    pub(super) name: &'static str,
    pub(super) paths: &'a [&'a Path],
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// The hash of the written bytes.
    pub(super) data: u64,
}

impl<'a> Op<'a> {
    /// An operation on names or whole files.
    pub(super) fn on(class: OpClass, name: &'static str, paths: &'a [&'a Path]) -> Op<'a> {
        Op {
            class,
            name,
            paths,
            offset: 0,
            bytes: 0,
            data: 0,
        }
    }
}

/// The outcome of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Succeed,
    Fail(Fault),
    PowerLost,
}

impl Verdict {
    /// Returns `Ok(true)` if the operation does all its work. Returns `Ok(false)` if it does the
    /// work of [`Fault::Short`] and then fails.
    pub(super) fn begin(self) -> io::Result<bool> {
        match self {
            Verdict::Succeed => Ok(true),
            Verdict::Fail(Fault::Short) => Ok(false),
            Verdict::Fail(fault) => Err(fault.error()),
            Verdict::PowerLost => Err(io::Error::other("simulated power loss")),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Meter {
    pub(super) counters: Counters,
    pub(super) trace: u64,
    pub(super) power_lost: bool,
    pub(super) faults_fired: u64,
    /// The value of `mutations` at which the power is lost.
    power_until: Option<u64>,
    faults: Vec<Scheduled>,
}

#[derive(Debug)]
struct Scheduled {
    class: OpClass,
    /// A part of the operation's path.
    path: String,
    /// The number of matching operations that still succeed.
    left: u64,
    fault: Fault,
}

impl Scheduled {
    fn is_for(&self, op: Op<'_>) -> bool {
        let has_path = |path: &&Path| path.to_string_lossy().contains(&self.path);
        (self.class == OpClass::Any || self.class == op.class)
            && (self.path.is_empty() || op.paths.iter().any(has_path))
    }
}

impl Meter {
    pub(super) fn schedule(&mut self, class: OpClass, path: &str, left: u64, fault: Fault) {
        self.faults.push(Scheduled {
            class,
            path: path.to_owned(),
            left,
            fault,
        });
    }

    pub(super) fn clear_faults(&mut self) {
        self.faults.clear();
        if !self.power_lost {
            self.power_until = None;
        }
    }

    pub(super) fn lose_power_after(&mut self, mutations: u64) {
        self.power_until = Some(self.counters.mutations + mutations);
    }

    pub(super) fn admit(&mut self, op: Op<'_>) -> Verdict {
        let is_mutation = !matches!(op.class, OpClass::Lookup | OpClass::Read);
        if is_mutation
            && self
                .power_until
                .is_some_and(|end| self.counters.mutations >= end)
        {
            self.power_lost = true;
        }
        self.count(op, is_mutation);
        self.trace(op);
        if self.power_lost {
            return Verdict::PowerLost;
        }
        self.draw_fault(op).map_or(Verdict::Succeed, Verdict::Fail)
    }

    pub(super) fn count_batch(&mut self, reads: usize) {
        self.counters.read_batches += 1;
        self.counters.reads_in_batches += reads as u64;
    }

    fn count(&mut self, op: Op<'_>, is_mutation: bool) {
        let counters = &mut self.counters;
        counters.operations += 1;
        counters.mutations += u64::from(is_mutation);
        match op.class {
            OpClass::Read => {
                counters.reads += 1;
                counters.read_bytes += op.bytes;
            }
            OpClass::Write => {
                counters.writes += 1;
                counters.written_bytes += op.bytes;
            }
            OpClass::Sync => counters.syncs += 1,
            _ => {}
        }
    }

    fn trace(&mut self, op: Op<'_>) {
        let paths = op
            .paths
            .iter()
            .map(|path| hash(path.as_os_str().as_encoded_bytes()));
        let words = [hash(op.name.as_bytes()), op.offset, op.bytes, op.data];
        for word in words.into_iter().chain(paths) {
            self.trace = mix(self.trace.rotate_left(7) ^ word);
        }
    }

    fn draw_fault(&mut self, op: Op<'_>) -> Option<Fault> {
        let mut fired = None;
        self.faults.retain_mut(|scheduled| {
            if !scheduled.is_for(op) {
                return true;
            }
            if scheduled.left == 0 && fired.is_none() {
                fired = Some(scheduled.fault);
                return false;
            }
            scheduled.left = scheduled.left.saturating_sub(1);
            true
        });
        self.faults_fired += u64::from(fired.is_some());
        fired
    }
}
