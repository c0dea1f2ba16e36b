//! What a table's footer and the manifest say of a table.

use crate::codec::reader::put_sized;
use crate::codec::{ByteReader, varint};
use crate::entry::SeqNo;
use crate::error::{Error, Result};
use crate::page::TableId;

/// The facts about one table: enough for reads to find it, for merges to be planned without
/// opening it, and for `repair` to rebuild the manifest from footers alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableMeta {
    pub(crate) id: TableId,
    /// The table format: 1 is block-based.
    pub(crate) format: u16,
    pub(crate) keyspace: u32,
    pub(crate) partition: u32,
    /// The level it was written for and the run it belongs to. The manifest may move a table to
    /// another level without touching the file, so `repair` takes only a hint from these.
    pub(crate) level: u8,
    pub(crate) run: u64,
    /// Which of the keyspace's paths the file is on; 0 is the database's own directory.
    pub(crate) path: u8,
    /// The size of the file.
    pub(crate) file_bytes: u64,
    /// Keys and values before compression.
    pub(crate) raw_bytes: u64,
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    pub(crate) range_tombstones: u64,
    pub(crate) smallest_key: Vec<u8>,
    pub(crate) largest_key: Vec<u8>,
    pub(crate) smallest_seqno: SeqNo,
    pub(crate) largest_seqno: SeqNo,
    /// Reserved: a number that replaces those of the entries (ingested files).
    pub(crate) seqno_override: Option<SeqNo>,
    /// Reserved: the earliest and latest time of expiry of entries that have one.
    pub(crate) expiry: Option<(u64, u64)>,
    /// Reserved: how pages were transformed beyond compression (encryption); 0 is not at all.
    pub(crate) transform: u16,
    /// Reserved: the smallest and largest hash, for orders by hash.
    pub(crate) hash_range: Option<(u64, u64)>,
}

/// The fields in the encoding: number, size, bytes. Numbers are never used again. A reader skips
/// the ones that it does not know; a field that may not be skipped comes with a feature bit.
mod field {
    pub(super) const ID: u64 = 1;
    pub(super) const FORMAT: u64 = 2;
    pub(super) const KEYSPACE: u64 = 3;
    pub(super) const PARTITION: u64 = 4;
    pub(super) const LEVEL: u64 = 5;
    pub(super) const RUN: u64 = 6;
    pub(super) const PATH: u64 = 7;
    pub(super) const FILE_BYTES: u64 = 8;
    pub(super) const RAW_BYTES: u64 = 9;
    pub(super) const ENTRIES: u64 = 10;
    pub(super) const TOMBSTONES: u64 = 11;
    pub(super) const RANGE_TOMBSTONES: u64 = 12;
    pub(super) const SMALLEST_KEY: u64 = 13;
    pub(super) const LARGEST_KEY: u64 = 14;
    pub(super) const SMALLEST_SEQNO: u64 = 15;
    pub(super) const LARGEST_SEQNO: u64 = 16;
    pub(super) const SEQNO_OVERRIDE: u64 = 17;
    pub(super) const EXPIRY: u64 = 18;
    pub(super) const TRANSFORM: u64 = 19;
    pub(super) const HASH_RANGE: u64 = 20;
}

impl TableMeta {
    /// Appends the encoding, whose size does not depend on `file_bytes`: a table says its own size.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let fixed = |out: &mut Vec<u8>, number, value: u64| {
            varint::put(out, number);
            put_sized(out, &value.to_le_bytes());
        };
        let pair = |out: &mut Vec<u8>, number, value: Option<(u64, u64)>| {
            if let Some((low, high)) = value {
                varint::put(out, number);
                put_sized(out, &[low.to_le_bytes(), high.to_le_bytes()].concat());
            }
        };
        put_number(out, field::ID, self.id.0);
        put_number(out, field::FORMAT, self.format.into());
        put_number(out, field::KEYSPACE, self.keyspace.into());
        put_number(out, field::PARTITION, self.partition.into());
        put_number(out, field::LEVEL, self.level.into());
        put_number(out, field::RUN, self.run);
        put_number(out, field::PATH, self.path.into());
        fixed(out, field::FILE_BYTES, self.file_bytes);
        put_number(out, field::RAW_BYTES, self.raw_bytes);
        put_number(out, field::ENTRIES, self.entries);
        put_number(out, field::TOMBSTONES, self.tombstones);
        put_number(out, field::RANGE_TOMBSTONES, self.range_tombstones);
        varint::put(out, field::SMALLEST_KEY);
        put_sized(out, &self.smallest_key);
        varint::put(out, field::LARGEST_KEY);
        put_sized(out, &self.largest_key);
        put_number(out, field::SMALLEST_SEQNO, self.smallest_seqno.0);
        put_number(out, field::LARGEST_SEQNO, self.largest_seqno.0);
        if let Some(seqno) = self.seqno_override {
            fixed(out, field::SEQNO_OVERRIDE, seqno.0);
        }
        pair(out, field::EXPIRY, self.expiry);
        put_number(out, field::TRANSFORM, self.transform.into());
        pair(out, field::HASH_RANGE, self.hash_range);
    }

    /// Decodes what [`TableMeta::encode`] wrote; the whole of `bytes`.
    pub(crate) fn decode(bytes: &[u8]) -> Result<TableMeta> {
        let mut meta = TableMeta::empty();
        let mut seen = 0u32;
        let mut reader = ByteReader::new(bytes);
        while !reader.is_empty() {
            let number = reader.varint("number of a table fact")?;
            let value = reader.sized("a table fact")?;
            if number <= field::HASH_RANGE {
                seen |= 1 << number;
            }
            meta.set(number, value)?;
        }
        let required = (1 << field::ID) | (1 << field::FORMAT) | (1 << field::FILE_BYTES);
        if seen & required != required {
            return Err(Error::corruption(format!(
                "expected the id, format and size of a table, found facts {seen:#x}"
            )));
        }
        Ok(meta)
    }

    fn set(&mut self, number: u64, value: &[u8]) -> Result<()> {
        match number {
            field::ID => self.id = TableId(decode_number(value)?),
            field::FORMAT => self.format = decode_number(value)?,
            field::KEYSPACE => self.keyspace = decode_number(value)?,
            field::PARTITION => self.partition = decode_number(value)?,
            field::LEVEL => self.level = decode_number(value)?,
            field::RUN => self.run = decode_number(value)?,
            field::PATH => self.path = decode_number(value)?,
            field::FILE_BYTES => self.file_bytes = decode_fixed(value)?,
            field::RAW_BYTES => self.raw_bytes = decode_number(value)?,
            field::ENTRIES => self.entries = decode_number(value)?,
            field::TOMBSTONES => self.tombstones = decode_number(value)?,
            field::RANGE_TOMBSTONES => self.range_tombstones = decode_number(value)?,
            field::SMALLEST_KEY => self.smallest_key = value.to_vec(),
            field::LARGEST_KEY => self.largest_key = value.to_vec(),
            field::SMALLEST_SEQNO => self.smallest_seqno = SeqNo(decode_number(value)?),
            field::LARGEST_SEQNO => self.largest_seqno = SeqNo(decode_number(value)?),
            field::SEQNO_OVERRIDE => self.seqno_override = Some(SeqNo(decode_fixed(value)?)),
            field::EXPIRY => self.expiry = Some(decode_pair(value)?),
            field::TRANSFORM => self.transform = decode_number(value)?,
            field::HASH_RANGE => self.hash_range = Some(decode_pair(value)?),
            _ => {}
        }
        Ok(())
    }

    /// The facts about no entries.
    fn empty() -> TableMeta {
        TableMeta {
            id: TableId(0),
            format: 0,
            keyspace: 0,
            partition: 0,
            level: 0,
            run: 0,
            path: 0,
            file_bytes: 0,
            raw_bytes: 0,
            entries: 0,
            tombstones: 0,
            range_tombstones: 0,
            smallest_key: Vec::new(),
            largest_key: Vec::new(),
            smallest_seqno: SeqNo(0),
            largest_seqno: SeqNo(0),
            seqno_override: None,
            expiry: None,
            transform: 0,
            hash_range: None,
        }
    }
}

/// A number as a field of its own; 0 is left out unless it says which table this is.
fn put_number(out: &mut Vec<u8>, number: u64, value: u64) {
    if value != 0 || number <= field::FORMAT {
        varint::put(out, number);
        varint::put(out, varint::len(value) as u64);
        varint::put(out, value);
    }
}

fn decode_number<T: TryFrom<u64>>(value: &[u8]) -> Result<T> {
    let mut reader = ByteReader::new(value);
    let number = reader.varint_as("table fact")?;
    reader.finish("a table fact")?;
    Ok(number)
}

fn decode_fixed(value: &[u8]) -> Result<u64> {
    let mut reader = ByteReader::new(value);
    let number = reader.u64("a table fact")?;
    reader.finish("a table fact")?;
    Ok(number)
}

fn decode_pair(value: &[u8]) -> Result<(u64, u64)> {
    let mut reader = ByteReader::new(value);
    let pair = (reader.u64("a table fact")?, reader.u64("a table fact")?);
    reader.finish("a table fact")?;
    Ok(pair)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> TableMeta {
        TableMeta {
            id: TableId(7),
            format: 1,
            keyspace: 2,
            partition: 300,
            level: 3,
            run: u64::MAX,
            path: 1,
            file_bytes: 123_456,
            raw_bytes: 100_000,
            entries: 1000,
            tombstones: 10,
            range_tombstones: 1,
            smallest_key: b"a".to_vec(),
            largest_key: vec![b'z'; 70_000],
            smallest_seqno: SeqNo(5),
            largest_seqno: SeqNo::MAX,
            seqno_override: Some(SeqNo(9)),
            expiry: Some((1, u64::MAX)),
            transform: 4,
            hash_range: Some((0, 17)),
        }
    }

    fn encoded(meta: &TableMeta) -> Vec<u8> {
        let mut bytes = Vec::new();
        meta.encode(&mut bytes);
        bytes
    }

    #[test]
    fn every_fact_round_trips() {
        let small = TableMeta {
            file_bytes: 1,
            ..TableMeta::empty()
        };
        for meta in [full(), small] {
            assert_eq!(TableMeta::decode(&encoded(&meta)).unwrap(), meta);
        }
    }

    #[test]
    fn unknown_facts_are_skipped() {
        let mut bytes = encoded(&full());
        varint::put(&mut bytes, 1000);
        put_sized(&mut bytes, b"from the future");
        assert_eq!(TableMeta::decode(&bytes).unwrap(), full());
    }

    #[test]
    fn damaged_facts_do_not_panic() {
        let mut bytes = encoded(&TableMeta {
            largest_key: b"z".to_vec(),
            ..full()
        });
        for cut in 0..bytes.len() {
            let _ = TableMeta::decode(&bytes[..cut]);
        }
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let _ = TableMeta::decode(&bytes);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(TableMeta::decode(&[]).is_err());
    }
}
