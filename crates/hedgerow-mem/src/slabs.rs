//! Slabs: pieces of memory of one size, divided into slots of one size each.
//!
//! A slot goes back to its slab. A slab that is drained gives no slots any more, and returns to the
//! system when its last slot comes back.

use std::ptr::NonNull;
use std::sync::PoisonError;

use crate::pool::{Chunk, HUGE_PAGE_BYTES};
use crate::sync::{AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering};

/// The sizes of slots: those of the usual blocks. With more sizes, more slabs would be half empty.
pub(crate) const SLOT_BYTES: [usize; 4] = [4 << 10, 8 << 10, 16 << 10, 32 << 10];
/// The minimum of slots in a slab. A size with fewer has no slabs.
const SLOTS_MIN: usize = 8;

/// A slab of a pool. The number is the slab's index times the number of slot sizes, plus the index
/// of its slot size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlabId(u32);

impl SlabId {
    /// The id of a page outside of slabs.
    pub(crate) const NONE: SlabId = SlabId(u32::MAX);

    fn new(class: usize, index: usize) -> SlabId {
        let number = index * SLOT_BYTES.len() + class;
        SlabId(u32::try_from(number).expect("a machine has room for fewer slabs"))
    }

    fn class(self) -> usize {
        self.0 as usize % SLOT_BYTES.len()
    }

    fn index(self) -> usize {
        self.0 as usize / SLOT_BYTES.len()
    }
}

/// The slabs of a pool. Its lock is taken once per slot taken and once per slot given back.
pub(crate) struct Slabs {
    slab_bytes: usize,
    /// The number of slabs that are not drained.
    slabs: AtomicUsize,
    /// True if a slab was added since somebody last asked.
    short: AtomicBool,
    /// The memory of the next slab.
    prepared: Mutex<Option<Chunk>>,
    classes: Mutex<[Class; SLOT_BYTES.len()]>,
}

/// The slots of one size.
#[derive(Default)]
struct Class {
    free: Vec<Slot>,
    /// The slabs by index. A freed slab leaves its place to another.
    slabs: Vec<Option<Slab>>,
}

/// A free slot: initialized memory of the size of its class, aligned like its slab, with no other
/// owner.
pub(crate) struct Slot {
    pub(crate) slab: SlabId,
    pub(crate) start: NonNull<u8>,
}

// SAFETY: a free slot is memory that nobody else refers to.
unsafe impl Send for Slot {}

struct Slab {
    chunk: Chunk,
    used: u32,
    /// True if freed slots are not used again and the last one frees the slab.
    draining: bool,
}

impl Slabs {
    pub(crate) fn new(slab_bytes: usize) -> Slabs {
        Slabs {
            slab_bytes,
            slabs: AtomicUsize::new(0),
            short: AtomicBool::new(false),
            prepared: Mutex::default(),
            classes: Mutex::default(),
        }
    }

    pub(crate) fn slab_bytes(&self) -> usize {
        self.slab_bytes
    }

    /// The number of slabs that are not drained.
    pub(crate) fn count(&self) -> usize {
        self.slabs.load(Ordering::Relaxed)
    }

    fn can_be_huge(&self) -> bool {
        self.slab_bytes >= HUGE_PAGE_BYTES
    }

    /// Returns true if a slab was added since this was last asked, and the next one can be in huge
    /// pages.
    pub(crate) fn take_shortage(&self) -> bool {
        let is_short = self.short.load(Ordering::Relaxed);
        is_short && self.short.swap(false, Ordering::Relaxed) && self.can_be_huge()
    }

    /// Allocates the next slab in huge pages, unless it is prepared already.
    pub(crate) fn prepare(&self) {
        if !self.can_be_huge() || self.prepared_bytes() > 0 {
            return;
        }
        let mut chunk = Chunk::allocate(self.slab_bytes);
        chunk.fault_in();
        *self.lock_prepared() = Some(chunk);
    }

    pub(crate) fn prepared_bytes(&self) -> usize {
        self.lock_prepared().as_ref().map_or(0, Chunk::bytes)
    }

    /// The class whose slots this memory fills to at least three quarters.
    pub(crate) fn class_for(&self, memory_bytes: usize) -> Option<usize> {
        let class = SLOT_BYTES.iter().position(|&slot| memory_bytes <= slot)?;
        let slot = SLOT_BYTES[class];
        (memory_bytes >= slot / 4 * 3 && slot * SLOTS_MIN <= self.slab_bytes).then_some(class)
    }

    pub(crate) fn take(&self, class: usize) -> Option<Slot> {
        self.lock()[class].take()
    }

    /// Adds a slab and takes one of its slots.
    pub(crate) fn add(&self, class: usize) -> Slot {
        let prepared = self.lock_prepared().take();
        // The system call stays outside of the lock.
        let chunk = prepared.unwrap_or_else(|| Chunk::allocate_in_small_pages(self.slab_bytes));
        let slab = Slab::new(chunk);
        self.slabs.fetch_add(1, Ordering::Relaxed);
        self.short.store(true, Ordering::Relaxed);
        let mut classes = self.lock();
        classes[class].add(class, slab);
        classes[class].take().expect("a new slab has free slots")
    }

    /// Chooses the slabs with the fewest used slots, at most `count`, and returns them in order. No
    /// slot of them is taken again, and each is freed with its last slot.
    pub(crate) fn drain_emptiest(&self, count: usize) -> Vec<SlabId> {
        let mut classes = self.lock();
        let mut chosen = Vec::new();
        for (class, slots) in classes.iter().enumerate() {
            for (index, slab) in slots.slabs.iter().enumerate() {
                if let Some(slab) = slab.as_ref().filter(|slab| !slab.draining) {
                    let used_bytes = slab.used as usize * SLOT_BYTES[class];
                    chosen.push((used_bytes, SlabId::new(class, index)));
                }
            }
        }
        chosen.sort_unstable_by_key(|&(used_bytes, _)| used_bytes);
        chosen.truncate(count);
        let mut empty = Vec::new();
        for &(used_bytes, id) in &chosen {
            let place = &mut classes[id.class()].slabs[id.index()];
            if used_bytes == 0 {
                empty.extend(place.take());
            } else if let Some(slab) = place {
                slab.draining = true;
            }
        }
        let mut chosen: Vec<_> = chosen.into_iter().map(|(_, id)| id).collect();
        chosen.sort_unstable();
        for class in classes.iter_mut() {
            let stays = |slot: &Slot| chosen.binary_search(&slot.slab).is_err();
            class.free.retain(stays);
        }
        self.slabs.fetch_sub(chosen.len(), Ordering::Relaxed);
        drop(classes);
        drop(empty);
        chosen
    }

    /// Takes back a slot.
    ///
    /// # Safety
    /// `slab` and `start` must be those of a slot that was taken from these slabs and not given
    /// back since. Nobody may refer to its memory any more: the next page gets it, or the system.
    pub(crate) unsafe fn give_back(&self, slab: SlabId, start: NonNull<u8>) {
        let mut classes = self.lock();
        let class = &mut classes[slab.class()];
        let place = &mut class.slabs[slab.index()];
        let owner = place.as_mut().expect("the slab of a page is there");
        owner.used -= 1;
        if !owner.draining {
            class.free.push(Slot { slab, start });
        } else if owner.used == 0 {
            let empty = place.take();
            drop(classes);
            drop(empty);
        }
    }

    fn lock_prepared(&self) -> MutexGuard<'_, Option<Chunk>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, [Class; SLOT_BYTES.len()]> {
        self.classes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Class {
    fn take(&mut self) -> Option<Slot> {
        let slot = self.free.pop()?;
        let slab = self.slabs[slot.slab.index()].as_mut();
        slab.expect("the slab of a free slot is there").used += 1;
        Some(slot)
    }

    /// Frees all slots of a slab. Slots with low addresses are taken first.
    fn add(&mut self, class: usize, slab: Slab) {
        let index = match self.slabs.iter().position(Option::is_none) {
            Some(index) => index,
            None => {
                self.slabs.push(None);
                self.slabs.len() - 1
            }
        };
        let id = SlabId::new(class, index);
        let slots = slab.chunk.bytes() / SLOT_BYTES[class];
        self.free.extend((0..slots).rev().map(|i| Slot {
            slab: id,
            // SAFETY: the slot lies within the slab.
            start: unsafe { slab.chunk.start().add(i * SLOT_BYTES[class]) },
        }));
        self.slabs[index] = Some(slab);
    }
}

impl Slab {
    fn new(chunk: Chunk) -> Slab {
        Slab {
            // A page shows its bytes before anybody writes them: a new chunk is zeros.
            chunk,
            used: 0,
            draining: false,
        }
    }
}
