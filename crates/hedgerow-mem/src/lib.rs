//! In-memory structures of the engine that cannot be written without `unsafe`, or whose atomics
//! deserve a crate with its own model checking. Every public item has a safe face.
//!
//! * [`Apart`]: a cache line of its own.
//! * [`OrderedMap`]: the memtable, a concurrent insert-only map ordered by key and, within a key,
//!   newest first. [`Cursor`] walks it both ways, [`Approach`] fetches what an insertion will look at.
//! * [`ChunkPool`]: where the maps take their memory from and give it back to.
//! * [`PagePool`]: where pages of tables lie in memory, and [`PageRef`], a shared one.
//! * [`prefetch`] and [`prefetch_bytes`]: a hint that something will be read soon.
//! * [`Publisher`]: makes commits visible in order though they finish in any order.
//! * [`Signal`]: what a thread waits for until another gives it.
//! * [`TaskQueue`]: a bounded queue of one worker, in which the order of tasks is kept.

mod apart;
mod arena;
mod entry;
mod ordered_map;
mod page;
mod pool;
mod prefetch;
mod publisher;
mod signal;
mod sync;
mod task_queue;
mod tree;

pub use apart::Apart;
pub use entry::EntryRef;
pub use ordered_map::{Approach, Cursor, OrderedMap};
pub use page::{PAGE_HEADER_BYTES, PageMut, PagePool, PageRef, SlabId};
pub use pool::ChunkPool;
pub use prefetch::{prefetch, prefetch_bytes};
pub use publisher::{Publisher, Ticket};
pub use signal::Signal;
pub use task_queue::{Place, Refused, TaskQueue};
