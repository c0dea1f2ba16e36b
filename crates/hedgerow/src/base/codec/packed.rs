//! Arrays of integers of one width, 0 to 8 bytes: half the size of whole words and still addressed
//! by index. A read past the end gives zeros, so the caller checks the array's extent only once.

/// The fewest bytes that hold `value`.
pub(crate) fn width_for(value: u64) -> usize {
    8 - value.leading_zeros() as usize / 8
}

/// Appends the `width` low bytes of `value`, least significant first.
pub(crate) fn put(out: &mut Vec<u8>, value: u64, width: usize) {
    debug_assert!(width_for(value) <= width, "{value} in {width} bytes");
    out.extend_from_slice(&value.to_le_bytes()[..width]);
}

/// The integer stored at `at`, least significant byte first.
#[inline]
pub(crate) fn get(bytes: &[u8], at: usize, width: usize) -> u64 {
    debug_assert!(width <= 8);
    if width == 0 {
        return 0;
    }
    let word = match bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => u64::from_le_bytes(padded(bytes, at)),
    };
    word & (u64::MAX >> (64 - 8 * width))
}

/// The first `width` bytes at `at` as an integer that compares as they do, zeros past the end.
#[inline]
pub(crate) fn get_ordered(bytes: &[u8], at: usize, width: usize) -> u64 {
    debug_assert!(width <= 8);
    if width == 0 {
        return 0;
    }
    let word = match bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => u64::from_be_bytes(padded(bytes, at)),
    };
    word >> (64 - 8 * width)
}

/// Eight bytes from `at`, near the end of `bytes`.
#[inline]
fn padded(bytes: &[u8], at: usize) -> [u8; 8] {
    if let (Some(last), true) = (bytes.last_chunk::<8>(), at < bytes.len()) {
        let beyond = at - (bytes.len() - 8);
        return (u64::from_le_bytes(*last) >> (8 * beyond)).to_le_bytes();
    }
    padded_short(bytes, at)
}

#[cold]
fn padded_short(bytes: &[u8], at: usize) -> [u8; 8] {
    let mut chunk = [0; 8];
    let rest = bytes.get(at..).unwrap_or_default();
    let count = rest.len().min(8);
    chunk[..count].copy_from_slice(&rest[..count]);
    chunk
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_round_trips() {
        for width in 1..=8 {
            let value = 0x0102_0304_0506_0708u64 >> (64 - 8 * width);
            assert_eq!(width_for(value), width);
            let mut bytes = vec![0xFF];
            put(&mut bytes, value, width);
            assert_eq!(get(&bytes, 1, width), value);
            bytes.extend([0xFF; 9]);
            assert_eq!(get(&bytes, 1, width), value);
        }
        assert_eq!(width_for(0), 0);
        assert_eq!(get(&[], 7, 3), 0);
    }

    #[test]
    fn ordered_reads_compare_like_bytes() {
        assert_eq!(get_ordered(b"abc", 0, 2), 0x6162);
        assert_eq!(get_ordered(b"abc", 2, 2), 0x6300);
        assert_eq!(get_ordered(b"abcdefghi", 1, 8), 0x6263_6465_6667_6869);
    }
}
