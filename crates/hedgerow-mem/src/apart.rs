//! What different threads write, apart from what others read.

use std::ops::Deref;

/// A value that shares neither its cache line with others, nor the pair of lines that the processor
/// fetches together: for what one thread after the other writes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Apart<T>(pub T);

impl<T> Deref for Apart<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}
