//! Bytes: integers, checksums, compression. Decoders never panic; their errors name the expected
//! field.

pub(crate) mod byte_reader;
pub(crate) mod checksum;
pub(crate) mod compress;
pub(crate) mod features;
pub(crate) mod fields;
#[cfg(test)]
pub(crate) mod hex;
pub(crate) mod packed;
pub(crate) mod varint;

pub(crate) use byte_reader::ByteReader;

/// The number of leading bytes that two strings share.
#[inline]
pub(crate) fn shared_prefix(a: &[u8], b: &[u8]) -> usize {
    let bytes_max = a.len().min(b.len());
    let mut at = 0;
    while let (Some(x), Some(y)) = (
        a.get(at..).and_then(<[u8]>::first_chunk::<8>),
        b.get(at..).and_then(<[u8]>::first_chunk::<8>),
    ) {
        let differing = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differing != 0 {
            return at + differing.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while at < bytes_max && a[at] == b[at] {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_prefix_ends_at_the_first_difference() {
        let bytes: Vec<u8> = (0..40).collect();
        for shared in 0..40 {
            for len in shared..40 {
                let mut other = bytes[..len].to_vec();
                if shared < len {
                    other[shared] ^= 0x80;
                }
                assert_eq!(shared_prefix(&bytes, &other), shared);
                assert_eq!(shared_prefix(&other, &bytes), shared);
            }
        }
    }
}
