//! In-memory structures of the engine that need `unsafe`, or whose atomics deserve a crate with its
//! own model checking. Every public item is safe to use.
//!
//! * [`CachePadded`]: a cache-padded value.
//! * [`OrderedMap`]: the map of the memtable. It is concurrent and insert-only, ordered by key and,
//!   within a key, newest first. [`Cursor`] walks it both ways. [`Approach`] prefetches the way of
//!   an insertion.
//! * [`ChunkPool`]: the memory of the maps.
//! * [`PagePool`]: the memory of tables' pages. [`PageRef`] is a shared page.
//! * [`prefer_huge_pages`]: a hint that memory will be read all over.
//! * [`prefetch`] and [`prefetch_bytes`]: hints that memory will be read soon.
//! * [`Publisher`]: makes commits visible in order though they finish in any order.
//! * [`Signal`]: lets one thread wait for another.
//! * [`TaskQueue`]: a bounded queue of one worker that keeps the order of its tasks.

mod arena;
mod cache_padded;
mod entry;
mod ordered_map;
mod page;
mod place_hint;
mod pool;
mod prefetch;
mod publisher;
mod signal;
mod slabs;
mod sync;
mod task_queue;
mod tree;

pub use cache_padded::CachePadded;
pub use entry::EntryRef;
pub use ordered_map::{Approach, Cursor, OrderedMap};
pub use page::{PAGE_HEADER_BYTES, PageMut, PagePool, PageRef};
pub use place_hint::PlaceHint;
pub use pool::{ChunkPool, prefer_huge_pages};
pub use prefetch::{prefetch, prefetch_bytes};
pub use publisher::{Publisher, Ticket};
pub use signal::Signal;
pub use slabs::SlabId;
pub use task_queue::{Refused, TaskQueue, Turn};
