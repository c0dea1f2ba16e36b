//! Handles: numbers that foreign code holds in place of pointers.
//!
//! ```text
//! bit 63         33 32          9 8       4 3      0
//!    ┌─────────────┬─────────────┬─────────┬────────┐
//!    │ generation  │ place       │ kind    │ forks  │
//!    └─────────────┴─────────────┴─────────┴────────┘
//! ```
//!
//! A place of the table is used again with the next generation, so a handle that was freed names
//! nothing. Neither does a handle of another kind or from before a fork, nor any other number.
//!
//! A lookup takes no lock and writes no memory that other threads write: [`arc_swap`] protects the
//! object for the length of the call, also while another thread frees the handle.

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::{ArcSwapOption, Guard};
use engine::ErrorKind;

use crate::failure::{Failure, run};
use crate::fork;

const FORK_BITS: u32 = 4;
const KIND_BITS: u32 = 5;
const PLACE_BITS: u32 = 24;
const GENERATION_BITS: u32 = 31;
const KIND_AT: u32 = FORK_BITS;
const PLACE_AT: u32 = KIND_AT + KIND_BITS;
const GENERATION_AT: u32 = PLACE_AT + PLACE_BITS;

/// A place that has had so many objects is not used again.
const GENERATION_MAX: u32 = (1 << GENERATION_BITS) - 1;
/// The handles of one kind that may be in use at once: 16.7 million.
const PLACES_MAX: u32 = 1 << PLACE_BITS;
/// A process may be so many forks away from the one that loaded the library.
const FORKS_MAX: usize = 1 << FORK_BITS;
/// The places of the first chunk; each further one has twice as many.
const CHUNK_PLACES: u32 = 64;
const CHUNKS: usize = (PLACES_MAX / CHUNK_PLACES).ilog2() as usize;

/// The handles of one kind of object.
pub struct Handles<T: 'static> {
    kind: u8,
    noun: &'static str,
    /// Each fork begins with an empty table: the child has no thread that holds a lock of it.
    tables: [OnceLock<Table<T>>; FORKS_MAX],
}

struct Table<T: 'static> {
    chunks: [OnceLock<Box<[Place<T>]>>; CHUNKS],
    unused: Mutex<Unused>,
}

/// The places without an object.
#[derive(Default)]
struct Unused {
    freed: Vec<u32>,
    /// The first place that was never used.
    next: u32,
}

struct Place<T: 'static> {
    object: ArcSwapOption<Object<T>>,
    /// The generation of the last object; written under the lock of the unused places.
    generation: AtomicU32,
}

struct Object<T> {
    generation: u32,
    value: T,
}

/// An object in use by a call. It lives until the call ends, though its handle may be freed.
pub struct Held<T: 'static>(Guard<Option<Arc<Object<T>>>>);

impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        let object = self.0.as_ref();
        &object.expect("only a place with an object is held").value
    }
}

/// An object whose handle was freed. It lives until all calls that use it have ended.
pub struct Removed<T>(Arc<Object<T>>);

impl<T> Deref for Removed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: Send + Sync> Handles<T> {
    /// No handles. `kind` is a number below 32, another one for each kind of object in a library;
    /// `noun` names the object in messages.
    pub const fn new(kind: u8, noun: &'static str) -> Handles<T> {
        assert!((kind as u32) < (1 << KIND_BITS), "a kind is below 32");
        Handles {
            kind,
            noun,
            tables: [const { OnceLock::new() }; FORKS_MAX],
        }
    }

    /// Gives an object a handle, which is never 0.
    ///
    /// # Errors
    /// `NoSpace` if there are 2^24 handles of this kind; `Unsupported` after 15 forks in a row.
    pub fn insert(&self, value: T) -> Result<u64, Failure> {
        fork::watch();
        let forks = fork::depth();
        let table = self.tables.get(forks).ok_or_else(|| {
            let message = format!("expected at most {} forks in a row", FORKS_MAX - 1);
            Failure::new(ErrorKind::Unsupported, message)
        })?;
        let table = table.get_or_init(Table::new);
        let (place, generation) = table.insert(value).ok_or_else(|| {
            let message = format!("expected at most {PLACES_MAX} handles of {}s", self.noun);
            Failure::new(ErrorKind::NoSpace, message)
        })?;
        Ok(u64::from(generation) << GENERATION_AT
            | u64::from(place) << PLACE_AT
            | u64::from(self.kind) << KIND_AT
            | forks as u64)
    }

    /// The object of a handle.
    ///
    /// # Errors
    /// `InvalidArgument` if the number never was such a handle; `Closed` if it was freed, or made
    /// before a fork.
    #[inline]
    pub fn get(&self, handle: u64) -> Result<Held<T>, Failure> {
        let generation = (handle >> GENERATION_AT) as u32;
        if let Some(place) = self.place(handle) {
            let object = place.object.load();
            if object
                .as_ref()
                .is_some_and(|it| it.generation == generation)
            {
                return Ok(Held(object));
            }
        }
        Err(self.refusal(handle))
    }

    /// Frees a handle. Calls that use the object go on with it.
    ///
    /// # Errors
    /// As [`Handles::get`].
    pub fn remove(&self, handle: u64) -> Result<Removed<T>, Failure> {
        let generation = (handle >> GENERATION_AT) as u32;
        let removed = self.place(handle).and_then(|place| {
            let table = self.tables[fork::depth()].get()?;
            let mut unused = table.unused.lock().unwrap_or_else(PoisonError::into_inner);
            let object = place.object.load_full();
            let object = object.filter(|it| it.generation == generation)?;
            place.object.store(None);
            if generation < GENERATION_MAX {
                unused.freed.push((handle >> PLACE_AT) as u32 % PLACES_MAX);
            }
            Some(Removed(object))
        });
        removed.ok_or_else(|| self.refusal(handle))
    }

    /// Frees a handle as [`Handles::remove`] does, and drops the object if no call uses it. A panic
    /// of the object's `drop` is a failure.
    ///
    /// # Errors
    /// As [`Handles::get`].
    pub fn free(&self, handle: u64) -> Result<(), Failure> {
        run(|| self.remove(handle).map(drop))
    }

    /// The place that a number names, if it may be a handle of this kind and process.
    #[inline]
    fn place(&self, handle: u64) -> Option<&Place<T>> {
        let kind = (handle >> KIND_AT) as u8 % (1 << KIND_BITS);
        let forks = handle as usize % FORKS_MAX;
        if kind != self.kind || forks != fork::depth() {
            return None;
        }
        let place = (handle >> PLACE_AT) as u32 % PLACES_MAX;
        self.tables[forks].get()?.place(place)
    }

    #[cold]
    fn refusal(&self, handle: u64) -> Failure {
        let noun = self.noun;
        let kind = (handle >> KIND_AT) as u8 % (1 << KIND_BITS);
        let forks = handle as usize % FORKS_MAX;
        if handle == 0 {
            return Failure::invalid(format!("expected a handle of a {noun}, found NULL"));
        }
        let table = self.tables[forks].get();
        let place = table.and_then(|table| table.place((handle >> PLACE_AT) as u32 % PLACES_MAX));
        let generation = (handle >> GENERATION_AT) as u32;
        let was_given =
            |place: &Place<T>| (1..=place.generation.load(Ordering::Relaxed)).contains(&generation);
        if kind != self.kind || !place.is_some_and(was_given) {
            let message = format!("expected a handle of a {noun}, found {handle:#x}");
            return Failure::invalid(message);
        }
        let message = match forks == fork::depth() {
            true => format!("the {noun} was closed before"),
            false => format!("the {noun} was opened before a fork; open it again in this process"),
        };
        Failure::new(ErrorKind::Closed, message)
    }
}

impl<T> Table<T> {
    fn new() -> Table<T> {
        Table {
            chunks: [const { OnceLock::new() }; CHUNKS],
            unused: Mutex::default(),
        }
    }

    /// The place and the generation of a new object; `None` if all places are in use.
    fn insert(&self, value: T) -> Option<(u32, u32)> {
        let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        let index = match unused.freed.pop() {
            Some(index) => index,
            None if unused.next < PLACES_MAX - CHUNK_PLACES => {
                unused.next += 1;
                unused.next - 1
            }
            None => return None,
        };
        let (chunk, offset) = position(index);
        let place = &self.chunks[chunk].get_or_init(|| new_chunk(chunk))[offset];
        let generation = place.generation.load(Ordering::Relaxed) + 1;
        place.generation.store(generation, Ordering::Relaxed);
        place
            .object
            .store(Some(Arc::new(Object { generation, value })));
        Some((index, generation))
    }

    #[inline]
    fn place(&self, index: u32) -> Option<&Place<T>> {
        let (chunk, offset) = position(index);
        self.chunks.get(chunk)?.get()?.get(offset)
    }
}

/// The chunk of a place, and its index there.
#[inline]
fn position(index: u32) -> (usize, usize) {
    let chunk = (index / CHUNK_PLACES + 1).ilog2();
    let offset = index + CHUNK_PLACES - (CHUNK_PLACES << chunk);
    (chunk as usize, offset as usize)
}

fn new_chunk<T>(chunk: usize) -> Box<[Place<T>]> {
    let place = |_| Place {
        object: ArcSwapOption::empty(),
        generation: AtomicU32::new(0),
    };
    (0..CHUNK_PLACES << chunk).map(place).collect()
}

#[cfg(test)]
mod tests;
