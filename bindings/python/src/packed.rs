//! Keys and values one after another, with the places where each ends.

/// Keys and values in one piece of memory, which is used again.
#[derive(Default)]
pub(crate) struct Packed {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Packed {
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
    }

    /// The number of keys and values.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of all keys and values.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The key or value at a place.
    #[inline]
    pub(crate) fn at(&self, place: usize) -> &[u8] {
        let start = match place {
            0 => 0,
            _ => self.ends[place - 1],
        };
        &self.bytes[start..self.ends[place]]
    }

    /// The keys and values, in their order.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut start = 0;
        self.ends
            .iter()
            .map(move |&end| &self.bytes[std::mem::replace(&mut start, end)..end])
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}
