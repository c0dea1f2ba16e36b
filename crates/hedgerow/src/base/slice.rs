//! The bytes that reads return: short ones are copied, long ones pin their page.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::base::page::PageSlice;

/// Shorter values are copied, which costs less than pinning their page.
const PIN_BYTES_MIN: usize = 1024;

/// A value pins at most this multiple of its own size. A smaller part of a page is copied.
const PIN_FACTOR_MAX: usize = 4;

/// Values up to this size are stored inside the slice.
const INLINE_BYTES_MAX: usize = 30;

/// Some bytes: a key or a value. Cheap to clone, `Send + Sync`, and free of lifetimes.
///
/// A slice of up to 30 bytes stores them inside. A longer one lies on the heap. From 1 KiB on, a
/// slice that is at least a quarter of its page pins that page instead: the page stays in memory as
/// long as the slice lives, and counts as `pinned`.
///
/// ```
/// use hedgerow::Slice;
///
/// let slice = Slice::copy_from(b"hawthorn");
/// assert_eq!(slice, "hawthorn");
/// assert!(slice.starts_with(b"haw"));
/// let owned: Vec<u8> = slice.to_vec();
/// # drop(owned);
/// ```
#[derive(Clone)]
pub struct Slice(Repr);

#[derive(Clone)]
enum Repr {
    Inline {
        len: u8,
        bytes: [u8; INLINE_BYTES_MAX],
    },
    Heap(Arc<[u8]>),
    Pinned(Arc<PagePin>),
}

struct PagePin {
    bytes: PageSlice,
    gauge: Pin,
}

/// Counts bytes as pinned for as long as it lives.
#[derive(Debug)]
pub(crate) struct Pin {
    gauge: Arc<AtomicUsize>,
    bytes: usize,
}

impl Pin {
    pub(crate) fn new(gauge: &Arc<AtomicUsize>, bytes: usize) -> Pin {
        gauge.fetch_add(bytes, Ordering::Relaxed);
        Pin {
            gauge: gauge.clone(),
            bytes,
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.gauge.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Slice {
    /// A copy of `bytes`.
    pub fn copy_from(bytes: &[u8]) -> Slice {
        if bytes.len() <= INLINE_BYTES_MAX {
            let mut inline = [0; INLINE_BYTES_MAX];
            inline[..bytes.len()].copy_from_slice(bytes);
            return Slice(Repr::Inline {
                len: bytes.len() as u8,
                bytes: inline,
            });
        }
        Slice(Repr::Heap(Arc::from(bytes)))
    }

    /// True if a slice of these bytes pins their page.
    pub(crate) fn pins(bytes: &PageSlice) -> bool {
        bytes.len() >= PIN_BYTES_MIN && bytes.len() * PIN_FACTOR_MAX >= bytes.page_bytes()
    }

    /// The bytes of a page: copied if short, otherwise the page is pinned.
    pub(crate) fn from_page(bytes: PageSlice, pinned: &Arc<AtomicUsize>) -> Slice {
        if !Slice::pins(&bytes) {
            return Slice::copy_from(&bytes);
        }
        let gauge = Pin::new(pinned, bytes.page_bytes());
        Slice(Repr::Pinned(Arc::new(PagePin { bytes, gauge })))
    }

    /// The bytes without the first ones. Does not copy a page that only this slice pins.
    pub(crate) fn without_front(mut self, bytes: usize) -> Slice {
        if let Repr::Pinned(pinned) = &mut self.0
            && let Some(pinned) = Arc::get_mut(pinned)
        {
            pinned.bytes.skip(bytes);
            return self;
        }
        Slice::copy_from(self.get(bytes..).unwrap_or_default())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Repr::Heap(bytes) => bytes,
            Repr::Pinned(pinned) => {
                debug_assert!(pinned.gauge.bytes >= pinned.bytes.len());
                &pinned.bytes
            }
        }
    }
}

impl Deref for Slice {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl std::borrow::Borrow<[u8]> for Slice {
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl From<&[u8]> for Slice {
    fn from(bytes: &[u8]) -> Slice {
        Slice::copy_from(bytes)
    }
}

impl From<Slice> for Vec<u8> {
    fn from(slice: Slice) -> Vec<u8> {
        slice.as_bytes().to_vec()
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Slice {
    fn eq(&self, other: &T) -> bool {
        self.as_bytes() == other.as_ref()
    }
}

impl Eq for Slice {}

impl PartialOrd for Slice {
    fn partial_cmp(&self, other: &Slice) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Slice {
    fn cmp(&self, other: &Slice) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for Slice {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.as_bytes().escape_ascii())
    }
}
