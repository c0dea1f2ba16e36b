//! Strings of bits. The first bit of a byte is its most significant. Bits are appended at the end
//! and read a word at a time from any position. Behind the end there are zeros.

/// A string of bits being written.
#[derive(Debug, Default, Clone)]
pub(super) struct BitWriter {
    bytes: Vec<u8>,
    bits: usize,
}

impl BitWriter {
    /// Appends the `count` low bits of `value`, at most 64.
    pub(super) fn put(&mut self, value: u64, count: usize) {
        debug_assert!(
            count == 64 || value >> count == 0,
            "{value} in {count} bits"
        );
        let mut left = count;
        while left > 0 {
            if self.bits.is_multiple_of(8) {
                self.bytes.push(0);
            }
            let free = 8 - self.bits % 8;
            let taken = free.min(left);
            left -= taken;
            let piece = (value >> left) as u8 & (0xFF >> (8 - taken));
            if let Some(last) = self.bytes.last_mut() {
                *last |= piece << (free - taken);
            }
            self.bits += taken;
        }
    }

    /// Appends the bits of another string.
    pub(super) fn append(&mut self, other: &BitWriter) {
        let whole = other.bits / 8;
        for &byte in &other.bytes[..whole] {
            self.put(u64::from(byte), 8);
        }
        if let Some(&last) = other.bytes.get(whole) {
            let count = other.bits % 8;
            self.put(u64::from(last >> (8 - count)), count);
        }
    }

    pub(super) fn bits(&self) -> usize {
        self.bits
    }

    /// The bits, padded to whole bytes with zeros.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A string of bits for reading.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bits<'a>(pub(super) &'a [u8]);

impl<'a> Bits<'a> {
    /// The bits from position `at` on, the first one at the top. At least 57 of them are valid.
    #[inline]
    pub(super) fn peek(self, at: usize) -> u64 {
        let word = match self.0.get(at / 8..).and_then(<[u8]>::first_chunk::<8>) {
            Some(chunk) => u64::from_be_bytes(*chunk),
            None => self.peek_near_end(at),
        };
        word << (at % 8)
    }

    #[cold]
    fn peek_near_end(self, at: usize) -> u64 {
        crate::base::codec::packed::get_ordered(self.0, at / 8, 8)
    }

    pub(super) fn cursor(self, at: usize) -> Cursor<'a> {
        Cursor { bits: self, at }
    }

    /// The number of bits, with the padding of the last byte.
    #[inline]
    pub(super) fn end(self) -> usize {
        self.0.len() * 8
    }
}

/// A position in a string of bits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    bits: Bits<'a>,
    pub(super) at: usize,
}

impl Cursor<'_> {
    /// The bits from here on. At least 57 of them are valid.
    #[inline]
    pub(super) fn peek(&self) -> u64 {
        self.bits.peek(self.at)
    }

    #[inline]
    pub(super) fn advance(&mut self, count: usize) {
        self.at += count;
    }

    /// The next bit.
    #[inline]
    pub(super) fn take_bit(&mut self) -> bool {
        let next = self.peek();
        self.at += 1;
        next >> 63 == 1
    }

    /// The next `count` bits, at most 64, as an integer.
    #[inline]
    pub(super) fn take(&mut self, count: usize) -> u64 {
        if count == 0 {
            return 0;
        }
        if count > 57 {
            let high = self.take(32);
            return high << (count - 32) | self.take(count - 32);
        }
        let value = self.peek() >> (64 - count);
        self.at += count;
        value
    }

    pub(super) fn bits_left(&self) -> usize {
        self.bits.end().saturating_sub(self.at)
    }

    /// Returns true if damage led beyond the end. Every decoder with a loop checks this.
    #[inline]
    pub(super) fn is_past_end(&self) -> bool {
        self.at > self.bits.end()
    }
}
