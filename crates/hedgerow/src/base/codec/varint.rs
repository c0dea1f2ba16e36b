//! LEB128: seven bits per byte, least significant first, the top bit set on all bytes but the last.

/// The longest encoding of a `u64`, in bytes.
pub(crate) const BYTES_MAX: usize = 10;

/// Appends `value`.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The number of bytes that [`put`] appends.
pub(crate) fn size(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Decodes the front of `bytes`. Returns the value and the number of bytes it took; `None` if the
/// bytes end too early or the value does not fit 64 bits.
#[inline]
pub(crate) fn get(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((u64::from(first), 1));
    }
    let (mut value, mut at) = (u64::from(first & 0x7F), 1);
    while at < BYTES_MAX {
        let byte = *bytes.get(at)?;
        value |= u64::from(byte & 0x7F) << (7 * at);
        at += 1;
        if byte < 0x80 {
            return (at < BYTES_MAX || byte <= 1).then_some((value, at));
        }
    }
    None
}

/// Decodes the integer at `at`, and moves `at` behind it.
#[inline(always)]
pub(crate) fn take(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let first = *bytes.get(*at)?;
    if first < 0x80 {
        *at += 1;
        return Some(u64::from(first));
    }
    let (value, taken) = get(&bytes[*at..])?;
    *at += taken;
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_round_trips() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                put(&mut bytes, value);
                assert_eq!(bytes.len(), size(value));
                assert_eq!(get(&bytes), Some((value, bytes.len())));
                assert_eq!(get(&bytes[..bytes.len() - 1]), None);
            }
        }
    }

    #[test]
    fn too_long_encodings_are_refused() {
        assert_eq!(get(&[0xFF; 11]), None);
        assert_eq!(
            get(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02]),
            None
        );
    }
}
