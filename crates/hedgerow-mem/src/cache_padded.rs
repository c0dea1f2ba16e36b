//! Cache padding for values that several threads write.

use std::ops::Deref;

/// A value that shares no cache line with others, nor the pair of lines that the processor fetches
/// together. For values that one thread writes after the other.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CachePadded<T>(pub T);

impl<T> Deref for CachePadded<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}
