//! Small collections in one string: packs of numbers and short strings.

use super::reader::Reader;

fn text(number: i64) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// The number of three bytes, little-endian.
fn of_three([low, middle, high]: [u8; 3]) -> i64 {
    i64::from(i32::from_le_bytes([0, low, middle, high]) >> 8)
}

/// The bytes of the length behind an element of a listpack.
fn behind(length: usize) -> usize {
    match length {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

/// A listpack that is written.
pub(super) struct Pack {
    bytes: Vec<u8>,
    count: usize,
}

impl Pack {
    pub(super) fn new() -> Pack {
        // The bytes of all and the number of elements follow at the end.
        Pack {
            bytes: vec![0; 6],
            count: 0,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn string(&mut self, text: &[u8]) {
        let start = self.bytes.len();
        match text.len() {
            length @ 0..0x40 => self.bytes.push(0x80 | length as u8),
            length @ 0x40..0x1000 => {
                let header = length as u16 | 0xE000;
                self.bytes.extend_from_slice(&header.to_be_bytes());
            }
            length => {
                self.bytes.push(0xF0);
                self.bytes.extend_from_slice(&(length as u32).to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(text);
        self.end(start);
    }

    pub(super) fn number(&mut self, number: i64) {
        let start = self.bytes.len();
        if let 0..0x80 = number {
            self.bytes.push(number as u8);
        } else if let Ok(number) = i16::try_from(number) {
            self.bytes.push(0xF1);
            self.bytes.extend_from_slice(&number.to_le_bytes());
        } else if let Ok(number) = i32::try_from(number) {
            self.bytes.push(0xF3);
            self.bytes.extend_from_slice(&number.to_le_bytes());
        } else {
            self.bytes.push(0xF4);
            self.bytes.extend_from_slice(&number.to_le_bytes());
        }
        self.end(start);
    }

    /// Writes the length of an element behind it: 7 bits a byte, the highest first. All bytes but
    /// the first have the high bit.
    fn end(&mut self, start: usize) {
        let length = self.bytes.len() - start;
        let places = behind(length);
        for place in (0..places).rev() {
            let bits = (length >> (7 * place)) as u8 & 0x7F;
            let marked = if place + 1 < places { 0x80 } else { 0 };
            self.bytes.push(bits | marked);
        }
        self.count += 1;
    }

    /// Appends the elements of another one.
    pub(super) fn append(&mut self, other: Pack) {
        self.bytes.extend_from_slice(&other.bytes[6..]);
        self.count += other.count;
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(0xFF);
        let all = self.bytes.len() as u32;
        let count = u16::try_from(self.count).unwrap_or(u16::MAX);
        self.bytes[..4].copy_from_slice(&all.to_le_bytes());
        self.bytes[4..6].copy_from_slice(&count.to_le_bytes());
        self.bytes
    }
}

/// The elements of a listpack: the bytes of all (4), the number of elements (2), the elements, 255.
/// Behind each element stands its length, for readers from the end.
pub(super) fn list_pack(bytes: &[u8], whole: &mut Reader<'_>) -> Option<Vec<Vec<u8>>> {
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
        from.take(behind(written))?;
        elements.push(whole.kept(element)?);
    }
    let is_counted = count == u16::MAX || usize::from(count) == elements.len();
    (from.is_at_end() && is_counted).then_some(elements)
}

/// The elements of a ziplist, of which listpacks took the place in version 7: the bytes of all (4),
/// the place of the last element (4), the number of elements (2), the elements, 255.
pub(super) fn zip_list(bytes: &[u8], whole: &mut Reader<'_>) -> Option<Vec<Vec<u8>>> {
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
        let element = match first {
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
        };
        elements.push(whole.kept(element)?);
    }
    let is_counted = count == u16::MAX || usize::from(count) == elements.len();
    (from.is_at_end() && is_counted).then_some(elements)
}

/// The keys and values of a zipmap, as Redis wrote small hashes before version 2.6: their number
/// (1), each key behind its length, each value behind its length and a number of bytes that are
/// free behind it, 255.
pub(super) fn zip_map(bytes: &[u8], whole: &mut Reader<'_>) -> Option<Vec<Vec<u8>>> {
    let mut from = Reader::new(bytes);
    let [_count] = from.chunk()?;
    let mut words = Vec::new();
    loop {
        let length = match from.chunk()? {
            [0xFF] => break,
            [0xFE] => u32::from_le_bytes(from.chunk()?) as usize,
            [length] => usize::from(length),
        };
        let is_value = words.len() % 2 == 1;
        let [free] = if is_value { from.chunk()? } else { [0] };
        words.push(whole.kept(from.take(length)?.to_vec())?);
        from.take(usize::from(free))?;
    }
    from.is_at_end().then_some(words)
}

/// The members of a set of integers: the bytes of one (4), their number (4), the integers.
pub(super) fn int_set(bytes: &[u8], whole: &mut Reader<'_>) -> Option<Vec<Vec<u8>>> {
    let mut from = Reader::new(bytes);
    let width = u32::from_le_bytes(from.chunk()?);
    let count = u32::from_le_bytes(from.chunk()?) as usize;
    let mut members = Vec::new();
    for _ in 0..count {
        let member = match width {
            2 => i64::from(i16::from_le_bytes(from.chunk()?)),
            4 => i64::from(i32::from_le_bytes(from.chunk()?)),
            8 => i64::from_le_bytes(from.chunk()?),
            _ => return None,
        };
        members.push(whole.kept(text(member))?);
    }
    from.is_at_end().then_some(members)
}
