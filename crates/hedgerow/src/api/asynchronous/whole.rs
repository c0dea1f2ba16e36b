//! The asynchronous commit of batches, and scans as a sequence.

use std::collections::VecDeque;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use super::{Pending, call_behind};
use crate::api::batch::Batch;
use crate::api::keyspace::Keyspace;
use crate::base::error::Result;
use crate::base::options::Durability;
use crate::base::slice::Slice;
use crate::paths::scan::range_bounds;
use crate::tree::engine::{Engine, Handle};
use crate::tree::partition::KeyBounds;

impl Batch {
    /// Commits as [`Batch::commit`] does, after the calls made before for the same trees. A call
    /// made later may take effect before it: await it where the order matters.
    pub fn commit_async(self, durability: Durability) -> Pending<()> {
        let (batch, engine, behind) = self.for_workers();
        if behind.is_empty() {
            return Pending::ready(batch.commit(durability));
        }
        call_behind(&engine, &behind, move |_: &Arc<Engine>| {
            batch.commit(durability)
        })
    }
}

/// The number of keys that a scan asks its workers for at once.
const PAGE_KEYS: usize = 256;

/// The keys of a range with their values, as a sequence to await. Made by
/// [`Keyspace::scan_async`].
pub struct AsyncScan {
    keyspace: Keyspace,
    /// The bounds of the keys that were not read; `None` at the end.
    rest: Option<Result<KeyBounds>>,
    page: VecDeque<(Slice, Slice)>,
}

impl AsyncScan {
    /// The next key with its value; `None` at the end, and behind an error.
    ///
    /// # Errors
    /// As [`Keyspace::scan`].
    pub async fn next(&mut self) -> Option<Result<(Slice, Slice)>> {
        if self.page.is_empty()
            && let Some(rest) = self.rest.take()
        {
            let read = match rest {
                Ok(rest) => self.read(rest).await,
                Err(error) => Err(error),
            };
            if let Err(error) = read {
                return Some(Err(error));
            }
        }
        self.page.pop_front().map(Ok)
    }

    /// Reads a page of these keys.
    async fn read(&mut self, (lower, upper): KeyBounds) -> Result<()> {
        let page = self
            .keyspace
            .scan_page_async((lower, upper.clone()), PAGE_KEYS);
        self.page = page.await?.into();
        let last = self.page.back().filter(|_| self.page.len() == PAGE_KEYS);
        self.rest = last.map(|(key, _)| Ok((Bound::Excluded(key.to_vec()), upper)));
        Ok(())
    }
}

impl std::fmt::Debug for AsyncScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncScan")
            .field("keyspace", &self.keyspace)
            .finish_non_exhaustive()
    }
}

impl Keyspace {
    /// Scans the keys of a range with their values as [`Keyspace::scan`] does, in pages of 256
    /// keys. Each page is as of the moment when it is read, and sees every call made before.
    ///
    /// ```
    /// # async fn sum(keyspace: hedgerow::Keyspace) -> hedgerow::Result<usize> {
    /// let mut bytes = 0;
    /// let mut scan = keyspace.scan_async("a".."b");
    /// while let Some(item) = scan.next().await {
    ///     bytes += item?.1.len();
    /// }
    /// # Ok(bytes)
    /// # }
    /// ```
    pub fn scan_async<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> AsyncScan {
        AsyncScan {
            keyspace: self.clone(),
            rest: Some(range_bounds(&*self.cell().facts.order, &range)),
            page: VecDeque::new(),
        }
    }
}

impl Batch {
    /// The batch with a handle that does not keep the database open, the engine, and the workers of
    /// its trees.
    fn for_workers(self) -> (Batch, Arc<Engine>, Vec<usize>) {
        let engine = Arc::clone(self.engine());
        let behind = engine.asynchronous.workers_of(self.trees());
        (self.with_handle(Handle::of_worker(&engine)), engine, behind)
    }
}
