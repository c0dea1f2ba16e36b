//! The index block of LevelDB's tables, for comparison: sorted separators with the handles of
//! blocks. Prefixes that neighbours share are left out between restarts (LevelDB,
//! `doc/table_format.md`, `table/block_builder.cc`). The paper's form `leveldb` restarts at every
//! key, as LevelDB's index does.

use hedgerow_bench::Result;

/// The forms that the paper compares with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Whole separators, with offset and size of each block.
    Default,
    /// Restarts only at every 16th key.
    KeysCompressed,
    /// Restarts at every 16th key, and blocks of one size, whose offsets follow from their numbers.
    FixedBlocks,
}

#[derive(Debug)]
pub(super) struct LevelDbIndex {
    entries: Vec<u8>,
    /// The offsets of entries with a whole key.
    restarts: Vec<u32>,
    interval: usize,
    has_places: bool,
}

/// The bytes of sequence number and kind, which end every key of a table.
const TAG_BYTES: usize = 8;

impl LevelDbIndex {
    pub(super) fn build(form: Form, block_bytes: usize, blocks: &[Vec<Vec<u8>>]) -> LevelDbIndex {
        let mut index = LevelDbIndex {
            entries: Vec::new(),
            restarts: Vec::new(),
            interval: if form == Form::Default { 1 } else { 16 },
            has_places: form != Form::FixedBlocks,
        };
        let mut before: Vec<u8> = Vec::new();
        for (number, block) in blocks.iter().enumerate() {
            let last = block.last().map_or(&[][..], |key| key);
            let next = blocks.get(number + 1).and_then(|block| block.first());
            let mut key = next.map_or(last.to_vec(), |next| separator(last, next));
            key.extend([0xFF; TAG_BYTES]);
            index.add(number, &before, &key, block_bytes);
            before = key;
        }
        index
    }

    fn add(&mut self, number: usize, before: &[u8], key: &[u8], block_bytes: usize) {
        let mut shared = 0;
        if number.is_multiple_of(self.interval) {
            self.restarts.push(self.entries.len() as u32);
        } else {
            shared = before.iter().zip(key).take_while(|(a, b)| a == b).count();
        }
        let mut place = Vec::new();
        if self.has_places {
            put_varint(&mut place, number * (block_bytes + 5));
            put_varint(&mut place, block_bytes);
        }
        put_varint(&mut self.entries, shared);
        put_varint(&mut self.entries, key.len() - shared);
        if self.has_places {
            put_varint(&mut self.entries, place.len());
        }
        self.entries.extend_from_slice(&key[shared..]);
        self.entries.extend(place);
    }

    pub(super) fn bytes(&self) -> usize {
        self.entries.len() + 4 * self.restarts.len() + 4
    }

    /// The number of the block that may hold a key: that of the first separator at or after the
    /// key.
    pub(super) fn locate(&self, key: &[u8]) -> Result<usize> {
        let first_key = |at: u32| {
            let mut at = at as usize;
            let (_, len) = self.head(&mut at);
            &self.entries[at..at + len - TAG_BYTES]
        };
        let restart = self.restarts.partition_point(|at| first_key(*at) < key);
        let restart = restart.saturating_sub(1);
        let mut at = *self
            .restarts
            .get(restart)
            .ok_or("expected a block, found none")? as usize;
        let mut separator: Vec<u8> = Vec::with_capacity(key.len() + TAG_BYTES);
        let mut number = restart * self.interval;
        while at < self.entries.len() {
            let (shared, len) = self.head(&mut at);
            separator.truncate(shared);
            separator.extend_from_slice(&self.entries[at..at + len]);
            at += len;
            if &separator[..separator.len() - TAG_BYTES] >= key {
                return Ok(number);
            }
            if self.has_places {
                get_varint(&self.entries, &mut at);
                get_varint(&self.entries, &mut at);
            }
            number += 1;
        }
        Ok(number)
    }

    /// The numbers of shared and of other bytes of the next key.
    fn head(&self, at: &mut usize) -> (usize, usize) {
        let shared = get_varint(&self.entries, at);
        let len = get_varint(&self.entries, at);
        if self.has_places {
            get_varint(&self.entries, at);
        }
        (shared, len)
    }
}

/// A short key from `last` on and below `next` (`FindShortestSeparator` of LevelDB).
fn separator(last: &[u8], next: &[u8]) -> Vec<u8> {
    let shared = last.iter().zip(next).take_while(|(a, b)| a == b).count();
    match (last.get(shared), next.get(shared)) {
        (Some(&a), Some(&b)) if a < 0xFF && a + 1 < b => {
            let mut short = last[..=shared].to_vec();
            short[shared] += 1;
            short
        }
        _ => last.to_vec(),
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn get_varint(bytes: &[u8], at: &mut usize) -> usize {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[*at];
        *at += 1;
        value |= usize::from(byte & 0x7F) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_finds_every_key_and_the_block_of_what_is_missing() {
        let key = |i: u32| (i * 600).to_be_bytes().to_vec();
        let blocks: Vec<Vec<Vec<u8>>> = (0..100)
            .map(|block| (block * 7..(block + 1) * 7).map(key).collect())
            .collect();
        let mut sizes = Vec::new();
        for form in [Form::Default, Form::KeysCompressed, Form::FixedBlocks] {
            let index = LevelDbIndex::build(form, 4096, &blocks);
            for (number, block) in blocks.iter().enumerate() {
                for key in block {
                    assert_eq!(index.locate(key).unwrap(), number, "{form:?}");
                }
            }
            assert_eq!(index.locate(&[0xFF; 4]).unwrap(), 100);
            sizes.push(index.bytes());
        }
        assert!(sizes[0] > sizes[1] && sizes[1] > sizes[2], "{sizes:?}");
        assert_eq!(separator(b"abcdef", b"abxy"), b"abd");
        assert_eq!(separator(b"abc", b"abd"), b"abc");
    }
}
