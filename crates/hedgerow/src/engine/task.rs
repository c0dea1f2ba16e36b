//! What is put into the queue of a worker.

use std::sync::Arc;

use super::{Engine, KeyspaceCell};
use crate::entry::KeyHash;
use crate::error::Result;
use crate::options::Durability;
use crate::slice::Slice;

/// What a worker is to do.
pub(crate) enum Task {
    /// Gets.
    Reads(Vec<(Access, Answer<Option<Slice>>)>),
    /// A put, or a delete if there is no value; nobody may be waiting for it.
    Write {
        access: Access,
        value: Option<Vec<u8>>,
        durability: Durability,
        answer: Option<Answer<()>>,
    },
    /// Anything else, behind everything before it and before everything behind it.
    Call(Call),
}

/// What a worker calls with the engine.
pub(crate) type Call = Box<dyn FnOnce(&Arc<Engine>) + Send>;

/// A key of a keyspace.
pub(crate) struct Access {
    pub(crate) cell: Arc<KeyspaceCell>,
    pub(crate) key: Vec<u8>,
    pub(crate) hash: KeyHash,
}

/// Where a result goes. Dropped, it tells that there will be none.
pub(crate) enum Answer<T> {
    One(oneshot::Sender<Result<T>>),
    /// One of several results that are given together.
    Part(Box<dyn FnOnce(Result<T>) + Send>),
}

impl<T> Answer<T> {
    /// Whether anybody waits for it.
    pub(crate) fn is_wanted(&self) -> bool {
        match self {
            Answer::One(sender) => !sender.is_closed(),
            Answer::Part(_) => true,
        }
    }

    pub(crate) fn give(self, result: Result<T>) {
        match self {
            // Nobody may wait for it any more.
            Answer::One(sender) => drop(sender.send(result)),
            Answer::Part(give) => give(result),
        }
    }
}
