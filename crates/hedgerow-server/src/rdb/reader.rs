//! Reading lengths, strings and scores.

use crate::store::Id;

/// The memory of all strings of a value together: as much as a commit may have.
const BYTES_MAX: usize = 256 << 20;
/// The memory of a string without its bytes, about: a `Vec`, and the least allocation.
const STRING_BYTES: usize = 48;

/// See the module. Every method returns `None` if the bytes are not what they should be.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    /// The memory that strings may still take.
    left: usize,
    /// The bytes ended before something that was read: with more of them it may be whole.
    pub(super) ran_out: bool,
    /// The strings take more memory than they may.
    pub(super) is_too_large: bool,
}

/// A length, or the kind of a string that is not written as it is.
enum Length {
    Plain(u64),
    Special(u8),
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader::within(bytes, BYTES_MAX)
    }

    /// A reader of a value that may take another amount of memory.
    pub(super) fn within(bytes: &'a [u8], bytes_max: usize) -> Reader<'a> {
        Reader {
            rest: bytes,
            left: bytes_max,
            ran_out: false,
            is_too_large: false,
        }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// The bytes that are left.
    pub(super) fn rest(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        self.is_too_large |= count > self.left;
        let taken = self.rest.split_off(..count);
        self.ran_out |= taken.is_none();
        taken
    }

    pub(super) fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn length(&mut self) -> Option<Length> {
        let [first] = self.chunk()?;
        let low = first & 0x3F;
        let number = match (first >> 6, first) {
            (0, _) => u64::from(low),
            (1, _) => {
                let [second] = self.chunk()?;
                u64::from(low) << 8 | u64::from(second)
            }
            (_, 0x80) => u64::from(u32::from_be_bytes(self.chunk()?)),
            (_, 0x81) => u64::from_be_bytes(self.chunk()?),
            (3, _) => return Some(Length::Special(low)),
            _ => return None,
        };
        Some(Length::Plain(number))
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        match self.length()? {
            Length::Plain(number) => Some(number),
            Length::Special(_) => None,
        }
    }

    /// A number of elements.
    pub(super) fn count(&mut self) -> Option<usize> {
        self.number()?.try_into().ok()
    }

    pub(super) fn string(&mut self) -> Option<Vec<u8>> {
        let text = match self.length()? {
            Length::Plain(length) => self.take(length.try_into().ok()?)?.to_vec(),
            Length::Special(0) => i8::from_le_bytes(self.chunk()?).to_string().into_bytes(),
            Length::Special(1) => i16::from_le_bytes(self.chunk()?).to_string().into_bytes(),
            Length::Special(2) => i32::from_le_bytes(self.chunk()?).to_string().into_bytes(),
            Length::Special(3) => {
                let (packed, length) = (self.count()?, self.count()?);
                let packed = self.take(packed)?;
                self.is_too_large |= length > self.left;
                decompress(packed, length.min(self.left)).filter(|it| it.len() == length)?
            }
            Length::Special(_) => return None,
        };
        self.kept(text)
    }

    /// Counts a string that is kept.
    pub(super) fn kept(&mut self, text: Vec<u8>) -> Option<Vec<u8>> {
        let left = self.left.checked_sub(text.len() + STRING_BYTES);
        self.is_too_large |= left.is_none();
        self.left = left?;
        Some(text)
    }

    /// Takes back the count of strings that are not kept, but for their bytes.
    pub(super) fn dropped(&mut self, count: usize) {
        self.left += count * STRING_BYTES;
    }

    /// The elements of a pack, which is a string that is not kept itself.
    pub(super) fn packed<T>(
        &mut self,
        read: impl FnOnce(&[u8], &mut Self) -> Option<T>,
    ) -> Option<T> {
        let pack = self.string()?;
        let elements = read(&pack, self);
        self.left += pack.len() + STRING_BYTES;
        elements
    }

    /// A count, then `times` items for each one counted.
    pub(super) fn several<T>(
        &mut self,
        times: usize,
        mut read: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let count = self.count()?.checked_mul(times)?;
        // Each takes a byte at least, so a number that is too large ends early.
        (0..count).map(|_| read(self)).collect()
    }

    /// A fixed number of something.
    pub(super) fn several_of<T>(
        &mut self,
        count: usize,
        mut read: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<()> {
        (0..count).try_for_each(|_| read(self).map(drop))
    }

    pub(super) fn strings(&mut self) -> Option<Vec<Vec<u8>>> {
        self.several(1, Reader::string)
    }

    /// Pairs, one string after the other.
    pub(super) fn doubled_strings(&mut self) -> Option<Vec<Vec<u8>>> {
        self.several(2, Reader::string)
    }

    /// Members with their scores.
    pub(super) fn members(
        &mut self,
        score: impl Fn(&mut Self) -> Option<f64>,
    ) -> Option<Vec<(Vec<u8>, f64)>> {
        self.several(1, |from| Some((from.string()?, score(from)?)))
    }

    /// Fields behind their times; see `expiring_hash`.
    pub(super) fn expiring_fields(&mut self) -> Option<Vec<super::TimedField>> {
        let first = u64::from_le_bytes(self.chunk()?);
        self.several(1, |from| {
            let time = match from.count()? as u64 {
                0 => 0,
                behind => first.checked_add(behind - 1).filter(|it| *it > 0)?,
            };
            Some((from.string()?, from.string()?, time))
        })
    }

    /// The elements of all parts of a list.
    pub(super) fn nodes(
        &mut self,
        node: impl Fn(&mut Self) -> Option<Vec<Vec<u8>>>,
    ) -> Option<Vec<Vec<u8>>> {
        Some(self.several(1, node)?.into_iter().flatten().collect())
    }

    /// The id of an entry of a stream, as two numbers.
    pub(super) fn id(&mut self) -> Option<Id> {
        let (millis, number) = (self.number()?, self.number()?);
        Some(Id { millis, number })
    }

    /// A time in milliseconds since 1970.
    pub(super) fn millis(&mut self) -> Option<u64> {
        self.chunk().map(u64::from_le_bytes)
    }

    /// A score of 8 bytes.
    pub(super) fn score(&mut self) -> Option<f64> {
        self.chunk().map(f64::from_le_bytes)
    }

    /// A score as text with a byte of length; the highest lengths stand for what has no digits.
    pub(super) fn score_text(&mut self) -> Option<f64> {
        match self.chunk()? {
            [253] => None,
            [254] => Some(f64::INFINITY),
            [255] => Some(f64::NEG_INFINITY),
            [length] => crate::number::parse_float(self.take(usize::from(length))?),
        }
    }
}

/// Undoes LZF, up to a length. Below 32 a byte counts literals; others are the high bits of a
/// distance behind 3 bits of length.
fn decompress(packed: &[u8], length_max: usize) -> Option<Vec<u8>> {
    let mut from = Reader::new(packed);
    let mut out = Vec::new();
    while !from.is_at_end() {
        let [control] = from.chunk()?;
        if control < 32 {
            out.extend_from_slice(from.take(usize::from(control) + 1)?);
        } else {
            let mut length = usize::from(control >> 5) + 2;
            if length == 9 {
                let [more] = from.chunk()?;
                length += usize::from(more);
            }
            let [low] = from.chunk()?;
            let distance = (usize::from(control & 0x1F) << 8 | usize::from(low)) + 1;
            let start = out.len().checked_sub(distance)?;
            // A copy may begin with bytes that it writes itself.
            for at in start..start + length {
                out.push(out[at]);
            }
        }
        if out.len() > length_max {
            return None;
        }
    }
    Some(out)
}
