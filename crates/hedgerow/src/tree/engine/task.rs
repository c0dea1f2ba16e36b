//! The workers of asynchronous calls, and the tasks in their queues.

use std::sync::{Arc, Mutex, OnceLock};

use super::{Catalog, Engine, KeyspaceCell};
use crate::base::entry::{KeyHash, Tag};
use crate::base::error::{Error, Result};
use crate::base::mutex::lock;
use crate::base::options::Durability;
use crate::base::runtime::Workers;
use crate::base::slice::Slice;
use crate::base::stats::WorkerStats;

/// The parts of asynchronous calls.
#[derive(Default)]
pub(crate) struct Asynchronous {
    /// Set when the database is open.
    workers: OnceLock<Workers<Task>>,
    /// The first error of a write without a future.
    lost_error: Mutex<Option<Error>>,
}

impl Asynchronous {
    /// The workers; `None` while the database is being opened.
    pub(crate) fn workers(&self) -> Option<&Workers<Task>> {
        self.workers.get()
    }

    /// The worker that makes the asynchronous calls for the keys of a partition.
    pub(crate) fn worker_of(&self, partition: usize) -> usize {
        partition % self.workers().map_or(1, Workers::count)
    }

    /// The workers of these partitions, ascending, each once.
    pub(crate) fn workers_of(&self, partitions: impl Iterator<Item = usize>) -> Vec<usize> {
        let mut workers: Vec<usize> = partitions.map(|it| self.worker_of(it)).collect();
        workers.sort_unstable();
        workers.dedup();
        workers
    }

    /// A worker, its partitions and its queue; `None` while the database is being opened.
    pub(crate) fn worker_stats(&self, catalog: &Catalog, worker: usize) -> Option<WorkerStats> {
        let partitions = catalog.partitions.values();
        let own = partitions.filter(|partition| self.worker_of(partition.index) == worker);
        Some(WorkerStats {
            partitions: own.count(),
            ..self.workers()?.stats(worker)
        })
    }

    /// Sets the workers of a database that no other thread has yet.
    pub(crate) fn set_workers(&self, workers: Workers<Task>) {
        drop(self.workers.set(workers));
    }

    /// Keeps the error of a write without a future for [`Asynchronous::take_lost_error`], unless
    /// there is one already.
    pub(crate) fn note_lost(&self, error: Error) {
        lock(&self.lost_error).get_or_insert(error);
    }

    /// Takes the first error of a write without a future since the last call.
    pub(crate) fn take_lost_error(&self) -> Option<Error> {
        lock(&self.lost_error).take()
    }
}

/// A task of a worker.
pub(crate) enum Task {
    /// Gets.
    Reads(Vec<(Access, Answer<Option<Slice>>)>),
    /// A put or a delete.
    Write(Write),
    /// Any other call. It runs after everything queued before it and before everything queued after
    /// it.
    Call(Call),
}

/// A function that a worker calls with the engine.
pub(crate) type Call = Box<dyn FnOnce(&Arc<Engine>) + Send>;

/// A key of a keyspace.
pub(crate) struct Access {
    pub(crate) cell: Arc<KeyspaceCell>,
    pub(crate) key: Vec<u8>,
    pub(crate) hash: KeyHash,
}

/// A put, a delete or an operand of a key of a keyspace, with or without a receiver of the result.
pub(crate) struct Write {
    pub(crate) cell: Arc<KeyspaceCell>,
    pub(crate) hash: KeyHash,
    pub(crate) tag: Tag,
    /// The key, then the value, in one piece of memory: freeing another thread's memory is
    /// expensive.
    record: Vec<u8>,
    key_bytes: usize,
    pub(crate) durability: Durability,
    pub(crate) answer: Option<Answer<()>>,
}

impl Write {
    pub(crate) fn new(
        cell: Arc<KeyspaceCell>,
        hash: KeyHash,
        tag: Tag,
        (key, value): (&[u8], &[u8]),
        durability: Durability,
        answer: Option<Answer<()>>,
    ) -> Write {
        Write {
            cell,
            hash,
            tag,
            record: [key, value].concat(),
            key_bytes: key.len(),
            durability,
            answer,
        }
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.record[..self.key_bytes]
    }

    pub(crate) fn value(&self) -> &[u8] {
        &self.record[self.key_bytes..]
    }

    /// The bytes of key and value.
    pub(crate) fn bytes(&self) -> usize {
        self.record.len()
    }
}

/// The receiver of a result. Dropping it reports that there will be none.
pub(crate) enum Answer<T> {
    One(oneshot::Sender<Result<T>>),
    /// One of several results that are delivered together.
    Part(Box<dyn FnOnce(Result<T>) + Send>),
}

impl<T> Answer<T> {
    /// Returns true if the receiver still waits.
    pub(crate) fn is_wanted(&self) -> bool {
        match self {
            Answer::One(sender) => !sender.is_closed(),
            Answer::Part(_) => true,
        }
    }

    pub(crate) fn give(self, result: Result<T>) {
        match self {
            // The receiver may be gone.
            Answer::One(sender) => drop(sender.send(result)),
            Answer::Part(give) => give(result),
        }
    }
}
