//! A bucket as an integer, of the narrowest kind that holds it. A wider one costs more, and the
//! bytes beyond the bucket may lie in another cache line.

use std::ops::{BitAnd, BitOr, BitXor, Not, Shl, Shr};

/// A bucket of four slots and what follows it, up to the width of the integer.
pub(crate) trait Word:
    Copy
    + PartialEq
    + From<u32>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Not<Output = Self>
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
{
    const BYTES: usize;
    /// The low bits.
    fn of(bits: u128) -> Self;
    /// The low bits.
    fn low(self) -> u64;
    fn times(self, other: Self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn lowest_bit(self) -> u32;
    /// Reads little-endian bytes from `at` on; those past the end are zero.
    fn read(bytes: &[u8], at: usize) -> Self;
    /// Replaces the bits that `mask` names.
    ///
    /// # Panics
    /// If the bytes end too early.
    fn update(bytes: &mut [u8], at: usize, mask: Self, bits: Self);
}

macro_rules! word {
    ($word:ty) => {
        impl Word for $word {
            const BYTES: usize = size_of::<$word>();

            #[inline]
            fn of(bits: u128) -> Self {
                bits as $word
            }
            #[inline]
            fn low(self) -> u64 {
                self as u64
            }
            #[inline]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline]
            fn lowest_bit(self) -> u32 {
                self.trailing_zeros()
            }
            #[inline]
            fn read(bytes: &[u8], at: usize) -> Self {
                match bytes.get(at..).and_then(<[u8]>::first_chunk) {
                    Some(chunk) => <$word>::from_le_bytes(*chunk),
                    None => <$word>::from_le_bytes(padded(bytes, at)),
                }
            }
            #[inline]
            fn update(bytes: &mut [u8], at: usize, mask: Self, bits: Self) {
                let chunk = bytes[at..].first_chunk_mut();
                let chunk = chunk.expect("buckets are followed by padding");
                *chunk = (<$word>::from_le_bytes(*chunk) & !mask | bits).to_le_bytes();
            }
        }
    };
}

word!(u64);
word!(u128);

#[cold]
fn padded<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut chunk = [0; N];
    let rest = bytes.get(at..).unwrap_or_default();
    let count = rest.len().min(N);
    chunk[..count].copy_from_slice(&rest[..count]);
    chunk
}
