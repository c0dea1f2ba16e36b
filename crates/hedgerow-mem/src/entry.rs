//! An entry in memory. It is written once and then read by any thread until its map is dropped.
//!
//! ```text
//! 0      8                                       16      16 + key       16 + key + value
//! | seqno | key bytes:18 | tag:16 | value bytes:30 | key ... | value ... |
//! ```

use std::cmp::Ordering;
use std::marker::PhantomData;
use std::ptr::{NonNull, copy_nonoverlapping};
use std::slice;

use crate::arena::Arena;

const HEADER_BYTES: usize = size_of::<Header>();
const KEY_BITS: u32 = 18;
const TAG_BITS: u32 = 16;
/// The length of the longest key, in bytes.
pub(crate) const KEY_BYTES_MAX: usize = (1 << KEY_BITS) - 1;
/// The length of the longest value, in bytes.
pub(crate) const VALUE_BYTES_MAX: usize = (1 << (64 - KEY_BITS - TAG_BITS)) - 1;

/// One entry of the map. The bytes live as long as the map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryRef<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The sequence number. Within a key the largest comes first.
    pub seqno: u64,
    /// The caller's bits beside the value.
    pub tag: u16,
    /// The value.
    pub value: &'a [u8],
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Header {
    seqno: u64,
    lengths_and_tag: u64,
}

/// A pointer to an entry of an arena that lives for `'a`.
///
/// Invariant: the entry is completely written, the writes happened before this thread got the
/// pointer, and nobody writes to the entry again.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    start: NonNull<u8>,
    lifetime: PhantomData<&'a Arena>,
}

// SAFETY: an entry is immutable memory of an arena that outlives `'a`.
unsafe impl Send for Entry<'_> {}
// SAFETY: as above.
unsafe impl Sync for Entry<'_> {}

impl<'a> Entry<'a> {
    /// Copies an entry into the arena.
    ///
    /// # Panics
    /// If key or value is longer than an entry can hold.
    #[inline(always)]
    pub(crate) fn write(arena: &'a Arena, key: &[u8], seqno: u64, tag: u16, value: &[u8]) -> Self {
        assert!(
            key.len() <= KEY_BYTES_MAX,
            "a key of {} bytes is too long",
            key.len()
        );
        assert!(
            value.len() <= VALUE_BYTES_MAX,
            "a value of {} bytes is too long",
            value.len()
        );
        let start = arena.front(HEADER_BYTES + key.len() + value.len());
        let lengths_and_tag = key.len() as u64
            | u64::from(tag) << KEY_BITS
            | (value.len() as u64) << (KEY_BITS + TAG_BITS);
        // SAFETY: the piece is aligned to 8, has room for the header and is ours alone.
        unsafe {
            start.cast::<Header>().write(Header {
                seqno,
                lengths_and_tag,
            })
        };
        // SAFETY: the key's place is inside the piece just taken.
        let key_start = unsafe { start.add(HEADER_BYTES) };
        // SAFETY: the piece has room for the key, is ours alone and so cannot overlap `key`.
        unsafe { copy_nonoverlapping(key.as_ptr(), key_start.as_ptr(), key.len()) };
        // SAFETY: the value's place is inside the piece just taken.
        let value_start = unsafe { key_start.add(key.len()) };
        // SAFETY: the piece has room for the value behind the key, and is ours alone.
        unsafe { copy_nonoverlapping(value.as_ptr(), value_start.as_ptr(), value.len()) };
        Self {
            start,
            lifetime: PhantomData,
        }
    }

    pub(crate) fn as_ptr(self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The entry at `start`.
    ///
    /// # Safety
    /// `start` came from [`as_ptr`](Self::as_ptr) of an entry in an arena that outlives `'a`, and
    /// reached this thread through a release and an acquire.
    #[inline]
    pub(crate) unsafe fn from_ptr(start: NonNull<u8>) -> Self {
        Self {
            start,
            lifetime: PhantomData,
        }
    }

    #[inline]
    fn header(self) -> Header {
        // SAFETY: the type's invariant: an entry begins with a header that nobody writes again.
        unsafe { self.start.cast::<Header>().read() }
    }

    #[inline]
    pub(crate) fn seqno(self) -> u64 {
        self.header().seqno
    }

    #[inline]
    pub(crate) fn key(self) -> &'a [u8] {
        let bytes = (self.header().lengths_and_tag as usize) & KEY_BYTES_MAX;
        // SAFETY: the key begins behind the header of the same piece.
        let key_start = unsafe { self.start.add(HEADER_BYTES) };
        // SAFETY: `write` put that many key bytes there; they are immutable for `'a`.
        unsafe { slice::from_raw_parts(key_start.as_ptr(), bytes) }
    }

    #[inline]
    pub(crate) fn get(self) -> EntryRef<'a> {
        let Header {
            seqno,
            lengths_and_tag,
        } = self.header();
        let key = self.key();
        let tag = (lengths_and_tag >> KEY_BITS) as u16;
        let value_bytes = (lengths_and_tag >> (KEY_BITS + TAG_BITS)) as usize;
        // SAFETY: the value begins behind the key of the same piece.
        let value_start = unsafe { self.start.add(HEADER_BYTES + key.len()) };
        // SAFETY: `write` put that many value bytes there; they are immutable for `'a`.
        let value = unsafe { slice::from_raw_parts(value_start.as_ptr(), value_bytes) };
        EntryRef {
            key,
            seqno,
            tag,
            value,
        }
    }

    /// Compares the entry with `position`.
    #[inline]
    pub(crate) fn cmp_position(self, position: &Position<'_>) -> Ordering {
        self.key()
            .cmp(position.key)
            .then_with(|| position.seqno.cmp(&self.seqno()))
    }

    /// The entry's own position.
    #[inline]
    pub(crate) fn position(self) -> Position<'a> {
        Position {
            key: self.key(),
            seqno: self.seqno(),
        }
    }
}

/// A position in the order of a map: keys ascending, sequence numbers descending within a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) seqno: u64,
}

/// The eight bytes of `key` after the first `skip`, as a number, padded with zeros. Two keys with
/// equal first `skip` bytes compare as their prefixes do, unless the prefixes are equal.
#[inline]
pub(crate) fn prefix(key: &[u8], skip: usize) -> u64 {
    let tail = key.get(skip..).unwrap_or_default();
    if let Some(bytes) = tail.first_chunk::<8>() {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; 8];
    bytes[..tail.len()].copy_from_slice(tail);
    u64::from_be_bytes(bytes)
}
