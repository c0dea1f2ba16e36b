//! Reading lengths, strings and scores.

/// The bytes of all strings of a value together: as many as a commit may have.
const BYTES_MAX: usize = 256 << 20;

/// See the module. Every method returns `None` if the bytes are not what they should be.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    /// The bytes that strings may still take.
    left: usize,
}

/// A length, or the kind of a string that is not written as it is.
enum Length {
    Plain(usize),
    Special(u8),
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader {
            rest: bytes,
            left: BYTES_MAX,
        }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    pub(super) fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*taken)
    }

    fn length(&mut self) -> Option<Length> {
        let [first] = self.chunk()?;
        let low = first & 0x3F;
        let length = match (first >> 6, first) {
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
        usize::try_from(length).ok().map(Length::Plain)
    }

    /// A number of elements.
    pub(super) fn count(&mut self) -> Option<usize> {
        match self.length()? {
            Length::Plain(count) => Some(count),
            Length::Special(_) => None,
        }
    }

    pub(super) fn string(&mut self) -> Option<Vec<u8>> {
        let text = match self.length()? {
            Length::Plain(length) => self.take(length)?.to_vec(),
            Length::Special(0) => i8::from_le_bytes(self.chunk()?).to_string().into_bytes(),
            Length::Special(1) => i16::from_le_bytes(self.chunk()?).to_string().into_bytes(),
            Length::Special(2) => i32::from_le_bytes(self.chunk()?).to_string().into_bytes(),
            Length::Special(3) => {
                let (packed, length) = (self.count()?, self.count()?);
                let packed = self.take(packed)?;
                decompress(packed, length.min(self.left)).filter(|it| it.len() == length)?
            }
            Length::Special(_) => return None,
        };
        self.left = self.left.checked_sub(text.len())?;
        Some(text)
    }

    /// A number, and so many times that many of something.
    fn several<T>(
        &mut self,
        times: usize,
        mut read: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let count = self.count()?.checked_mul(times)?;
        // Each takes a byte at least, so a number that is too large ends early.
        (0..count).map(|_| read(self)).collect()
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
    pub(super) fn expiring_fields(&mut self) -> Option<Vec<(Vec<u8>, Vec<u8>, u64)>> {
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
        Some(self.several(1, node)?.concat())
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
