//! Small collections in one string: packs of numbers and short strings.

use super::reader::Reader;

fn text(number: i64) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// The number of three bytes, little-endian.
fn of_three([low, middle, high]: [u8; 3]) -> i64 {
    i64::from(i32::from_le_bytes([0, low, middle, high]) >> 8)
}

/// The elements of a listpack: the bytes of all (4), the number of elements (2), the elements, 255.
/// Behind each element stands its length, for readers from the end.
pub(super) fn list_pack(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut from = Reader::new(bytes);
    let all = u32::from_le_bytes(from.chunk()?);
    let count = u16::from_le_bytes(from.chunk()?);
    let mut elements = Vec::new();
    if all as usize != bytes.len() {
        return None;
    }
    loop {
        let [first] = from.chunk()?;
        let low = usize::from(first);
        let (element, header) = match first {
            0xFF => break,
            0..0x80 => (text(i64::from(first)), 1),
            0x80..0xC0 => (from.take(low & 0x3F)?.to_vec(), 1),
            0xC0..0xE0 => {
                let [second] = from.chunk()?;
                let number = (i64::from(first & 0x1F) << 8) | i64::from(second);
                // 13 bits with a sign.
                (text(number << 51 >> 51), 2)
            }
            0xE0..0xF0 => {
                let [second] = from.chunk()?;
                (
                    from.take((low & 0xF) << 8 | usize::from(second))?.to_vec(),
                    2,
                )
            }
            0xF0 => {
                let length = u32::from_le_bytes(from.chunk()?);
                (from.take(length as usize)?.to_vec(), 5)
            }
            0xF1 => (text(i64::from(i16::from_le_bytes(from.chunk()?))), 3),
            0xF2 => (text(of_three(from.chunk()?)), 4),
            0xF3 => (text(i64::from(i32::from_le_bytes(from.chunk()?))), 5),
            0xF4 => (text(i64::from_le_bytes(from.chunk()?)), 9),
            _ => return None,
        };
        let is_string = (0x80..0xC0).contains(&first) || (0xE0..=0xF0).contains(&first);
        let written = if is_string {
            header + element.len()
        } else {
            header
        };
        let behind = match written {
            0..=127 => 1,
            128..16_383 => 2,
            16_383..2_097_151 => 3,
            2_097_151..268_435_455 => 4,
            _ => 5,
        };
        from.take(behind)?;
        elements.push(element);
    }
    let is_counted = count == u16::MAX || usize::from(count) == elements.len();
    (from.is_at_end() && is_counted).then_some(elements)
}

/// The elements of a ziplist, of which listpacks took the place in version 7: the bytes of all (4),
/// the place of the last element (4), the number of elements (2), the elements, 255.
pub(super) fn zip_list(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut from = Reader::new(bytes);
    let all = u32::from_le_bytes(from.chunk()?);
    from.take(4)?;
    let count = u16::from_le_bytes(from.chunk()?);
    let mut elements = Vec::new();
    if all as usize != bytes.len() {
        return None;
    }
    loop {
        // The length of the element before.
        match from.chunk()? {
            [0xFF] => break,
            [0xFE] => drop(from.take(4)?),
            [_] => {}
        }
        let [first] = from.chunk()?;
        let low = usize::from(first & 0x3F);
        elements.push(match first {
            0..0x40 => from.take(low)?.to_vec(),
            0x40..0x80 => {
                let [second] = from.chunk()?;
                from.take(low << 8 | usize::from(second))?.to_vec()
            }
            0x80 => {
                let length = u32::from_be_bytes(from.chunk()?);
                from.take(length as usize)?.to_vec()
            }
            0xC0 => text(i64::from(i16::from_le_bytes(from.chunk()?))),
            0xD0 => text(i64::from(i32::from_le_bytes(from.chunk()?))),
            0xE0 => text(i64::from_le_bytes(from.chunk()?)),
            0xF0 => text(of_three(from.chunk()?)),
            0xFE => text(i64::from(i8::from_le_bytes(from.chunk()?))),
            0xF1..=0xFD => text(i64::from(first & 0xF) - 1),
            _ => return None,
        });
    }
    let is_counted = count == u16::MAX || usize::from(count) == elements.len();
    (from.is_at_end() && is_counted).then_some(elements)
}

/// The members of a set of integers: the bytes of one (4), their number (4), the integers.
pub(super) fn int_set(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut from = Reader::new(bytes);
    let width = u32::from_le_bytes(from.chunk()?);
    let count = u32::from_le_bytes(from.chunk()?) as usize;
    let mut members = Vec::new();
    for _ in 0..count {
        members.push(text(match width {
            2 => i64::from(i16::from_le_bytes(from.chunk()?)),
            4 => i64::from(i32::from_le_bytes(from.chunk()?)),
            8 => i64::from_le_bytes(from.chunk()?),
            _ => return None,
        }));
    }
    from.is_at_end().then_some(members)
}
