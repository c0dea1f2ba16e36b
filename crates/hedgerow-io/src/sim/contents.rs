//! The bytes of one file: the current ones, and the ones that a crash may leave.
//!
//! The current bytes are shared copy-on-write chunks, so that an image of a disk copies nothing. An
//! undo log beside them has the writes since the last successful sync. A crash walks it backwards
//! and undoes the lost writes, sector by sector.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::random::SplitMix64;

/// The size of a sector. A disk writes a sector entirely or not at all.
pub(super) const SECTOR_BYTES: usize = 512;

const CHUNK_BYTES: usize = 4096;

type Chunk = [u8; CHUNK_BYTES];
type Sector = [u8; SECTOR_BYTES];

#[derive(Debug, Clone, Default)]
pub(super) struct Contents {
    /// `None` is a chunk of zeros. Bytes at and after `bytes` are zero.
    chunks: Vec<Option<Arc<Chunk>>>,
    bytes: u64,
    /// The length that a crash surely keeps.
    durable_bytes: u64,
    /// The writes since the last sync, oldest first.
    unsynced: Vec<Write>,
    /// The sectors whose sync failed, with their last durable bytes. A crash keeps either bytes of
    /// each, whatever is synced later, until the sector is written and synced again.
    unknown: BTreeMap<u64, Sector>,
}

#[derive(Debug, Clone)]
struct Write {
    offset: u64,
    len: usize,
    /// The bytes that the write replaced. They are shorter than `len` by the appended bytes.
    old: Box<[u8]>,
}

impl Contents {
    /// A file of `bytes` durable zero bytes.
    pub(super) fn zeros(bytes: u64) -> Contents {
        Contents {
            bytes,
            durable_bytes: bytes,
            ..Contents::default()
        }
    }

    /// A file of these bytes, durable.
    pub(super) fn durable(bytes: &[u8]) -> Contents {
        let mut contents = Contents::zeros(bytes.len() as u64);
        contents.put(0, bytes);
        contents
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Fills `buf`. The bytes after the end are zero.
    pub(super) fn read(&self, offset: u64, mut buf: &mut [u8]) {
        let mut at = offset as usize;
        while !buf.is_empty() {
            let within = at % CHUNK_BYTES;
            let (part, rest) = buf.split_at_mut(buf.len().min(CHUNK_BYTES - within));
            match self.chunks.get(at / CHUNK_BYTES) {
                Some(Some(chunk)) => part.copy_from_slice(&chunk[within..within + part.len()]),
                _ => part.fill(0),
            }
            at += part.len();
            buf = rest;
        }
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes as usize];
        self.read(0, &mut bytes);
        bytes
    }

    /// Writes, and logs how to undo it.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let replaced = self.bytes.saturating_sub(offset).min(bytes.len() as u64) as usize;
        let mut old = vec![0; replaced].into_boxed_slice();
        self.read(offset, &mut old);
        self.unsynced.push(Write {
            offset,
            len: bytes.len(),
            old,
        });
        self.put(offset, bytes);
        self.bytes = self.bytes.max(offset + bytes.len() as u64);
    }

    /// Inverts one bit without a record in the undo log.
    pub(super) fn flip_bit(&mut self, bit: u64) {
        let mut byte = [0];
        self.read(bit / 8, &mut byte);
        self.put(bit / 8, &[byte[0] ^ 1 << (bit % 8)]);
    }

    /// Makes all writes since the last sync durable.
    pub(super) fn sync(&mut self) {
        for sector in std::mem::take(&mut self.unsynced)
            .iter()
            .flat_map(Write::sectors)
        {
            self.unknown.remove(&sector);
        }
        self.durable_bytes = self.bytes;
    }

    /// Fails a sync: the writes since the last one are unknown from now on.
    pub(super) fn fail_sync(&mut self) {
        let mut durable = Contents {
            chunks: self.chunks.clone(),
            ..Contents::default()
        };
        durable.take_back(&self.unsynced, &BTreeMap::new());
        for write in std::mem::take(&mut self.unsynced) {
            for sector in write.sectors() {
                let old = || durable.sector(sector);
                self.unknown.entry(sector).or_insert_with(old);
            }
        }
    }

    /// Draws the contents after a loss of power.
    pub(super) fn after_crash(&self, random: &mut SplitMix64) -> Contents {
        let mut image = Contents {
            chunks: self.chunks.clone(),
            bytes: self.bytes,
            ..Contents::default()
        };
        let kept = self.draw_kept(random);
        image.take_back(&self.unsynced, &kept);
        for (sector, old) in &self.unknown {
            let rewritten = kept.get(sector).is_some_and(|writes| *writes > 0);
            if !rewritten && random.chance(4) {
                image.put(sector * SECTOR_BYTES as u64, old);
            }
        }
        let lost_bytes = match random.below(4) {
            0 => 0,
            1 => self.bytes - self.durable_bytes,
            _ => random.below(self.bytes - self.durable_bytes + 1),
        };
        image.truncate(self.bytes - lost_bytes);
        image.durable_bytes = image.bytes;
        image
    }

    /// Draws for each sector the number of its unsynced writes that reached the disk, the oldest
    /// first. A sector that is not in the result keeps none.
    fn draw_kept(&self, random: &mut SplitMix64) -> BTreeMap<u64, usize> {
        let mut kept = BTreeMap::new();
        for sector in self.unsynced.iter().flat_map(Write::sectors) {
            *kept.entry(sector).or_insert(0) += 1;
        }
        // All, none, and both ends of "some" find different bugs.
        let eighths = [0, 1, 4, 7, 8][random.below(5) as usize];
        for writes in kept.values_mut() {
            if !random.chance(eighths) {
                *writes = if random.chance(eighths) {
                    random.below(*writes as u64) as usize
                } else {
                    0
                };
            }
        }
        kept
    }

    /// Undoes writes, the last one first, except the oldest `kept[sector]` of each sector.
    fn take_back(&mut self, writes: &[Write], kept: &BTreeMap<u64, usize>) {
        let mut left = BTreeMap::new();
        for sector in writes.iter().flat_map(Write::sectors) {
            *left.entry(sector).or_insert(0) += 1;
        }
        for write in writes.iter().rev() {
            for sector in write.sectors() {
                let Some(writes) = left.get_mut(&sector) else {
                    continue;
                };
                let is_lost = *writes > kept.get(&sector).copied().unwrap_or(0);
                *writes -= 1;
                if is_lost {
                    self.restore(write, sector);
                }
            }
        }
    }

    /// Restores the bytes that a write replaced in one sector.
    fn restore(&mut self, write: &Write, sector: u64) {
        let start = (sector * SECTOR_BYTES as u64).max(write.offset);
        let end = ((sector + 1) * SECTOR_BYTES as u64).min(write.offset + write.len as u64);
        let mut piece = [0; SECTOR_BYTES];
        let piece = &mut piece[..(end - start) as usize];
        let old = write
            .old
            .get((start - write.offset) as usize..)
            .unwrap_or_default();
        let replaced = old.len().min(piece.len());
        piece[..replaced].copy_from_slice(&old[..replaced]);
        self.put(start, piece);
    }

    fn sector(&self, sector: u64) -> Sector {
        let mut bytes = [0; SECTOR_BYTES];
        self.read(sector * SECTOR_BYTES as u64, &mut bytes);
        bytes
    }

    fn put(&mut self, offset: u64, mut bytes: &[u8]) {
        let mut at = offset as usize;
        let chunks = (at + bytes.len()).div_ceil(CHUNK_BYTES);
        if self.chunks.len() < chunks {
            self.chunks.resize(chunks, None);
        }
        while !bytes.is_empty() {
            let within = at % CHUNK_BYTES;
            let (part, rest) = bytes.split_at(bytes.len().min(CHUNK_BYTES - within));
            let chunk = self.chunks[at / CHUNK_BYTES].get_or_insert_with(|| Arc::new([0; _]));
            Arc::make_mut(chunk)[within..within + part.len()].copy_from_slice(part);
            at += part.len();
            bytes = rest;
        }
    }

    fn truncate(&mut self, bytes: u64) {
        self.bytes = bytes;
        let end = bytes as usize;
        self.chunks.truncate(end.div_ceil(CHUNK_BYTES));
        if let Some(Some(chunk)) = self.chunks.get_mut(end / CHUNK_BYTES) {
            Arc::make_mut(chunk)[end % CHUNK_BYTES..].fill(0);
        }
    }
}

impl Write {
    fn sectors(&self) -> std::ops::RangeInclusive<u64> {
        let sector_bytes = SECTOR_BYTES as u64;
        self.offset / sector_bytes..=(self.offset + self.len as u64 - 1) / sector_bytes
    }
}
