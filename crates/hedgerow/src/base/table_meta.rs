//! What a table's footer and the manifest say of a table.

use crate::base::codec::fields;
use crate::base::codec::fields::{FieldReader, FieldWriter};
use crate::base::codec::reader::put_sized;
use crate::base::codec::{ByteReader, varint};
use crate::base::entry::SeqNo;
use crate::base::error::{Error, Result};
use crate::base::page::TableId;

/// The facts about one table: enough for reads to find it, for merges to be planned without
/// opening it, and for `repair` to rebuild the manifest from footers alone.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableMeta {
    /// The number of the table.
    pub id: TableId,
    /// The table format: 1 is block-based, 2 an HTable.
    pub format: u16,
    /// The number of its keyspace.
    pub keyspace: u32,
    /// The number of its partition.
    pub partition: u32,
    /// The level it was written for and the run it belongs to. The manifest may move a table to
    /// another level without touching the file, so `repair` takes only a hint from these.
    pub level: u8,
    /// As [`TableMeta::level`].
    pub run: u64,
    /// Which of the keyspace's paths the file is on; 0 is the database's own directory.
    pub path: u8,
    /// The size of the file.
    pub file_bytes: u64,
    /// Keys and values before compression.
    pub raw_bytes: u64,
    /// What the block index takes of the file.
    pub index_bytes: u64,
    /// What the filter takes of the file; 0 if there is none.
    pub filter_bytes: u64,
    /// Entries, tombstones and old versions included.
    pub entries: u64,
    /// Entries that delete a key.
    pub tombstones: u64,
    /// Entries that delete a range.
    pub range_tombstones: u64,
    /// The order key of the first entry.
    pub smallest_key: Vec<u8>,
    /// The order key of the last entry.
    pub largest_key: Vec<u8>,
    /// The smallest sequence number of its entries.
    pub smallest_seqno: SeqNo,
    /// The largest sequence number of its entries.
    pub largest_seqno: SeqNo,
    /// A number that replaces those of the entries, of which every key has one. Bulk loads learn
    /// theirs after their tables are written: the manifest's word counts. The footer has a number
    /// from when the load began, for `repair`.
    pub seqno_override: Option<SeqNo>,
    /// Reserved: the earliest and latest time of expiry of entries that have one.
    pub expiry: Option<(u64, u64)>,
    /// Reserved: how pages were transformed beyond compression (encryption); 0 is not at all.
    pub transform: u16,
    /// Of keys in the order of their hashes: the first bytes of the first 16 order keys, each
    /// once, ascending. Those of two tables that begin at the same hash say how many of their keys
    /// they have in common.
    pub hash_sample: Vec<u64>,
}

/// Enough that the part of the keys which some tables have in common is known within a few hundredths from
/// those of a pile; 128 bytes per table.
const SAMPLE_KEYS: usize = 16;

fn hash_sample(mut field: ByteReader<'_>) -> Result<Vec<u64>> {
    let mut sample = Vec::new();
    while !field.is_empty() {
        sample.push(field.u64("sampled hash")?);
    }
    if sample.len() <= SAMPLE_KEYS && sample.is_sorted_by(|a, b| a < b) {
        return Ok(sample);
    }
    Err(Error::corruption(format!(
        "expected at most {SAMPLE_KEYS} sampled hashes, ascending, found {sample:x?}"
    )))
}

/// Tags of the fields that only some tables have. Odd ones must be understood to read the table.
mod tag {
    pub(super) const SEQNO_OVERRIDE: u64 = 1;
    pub(super) const EXPIRY: u64 = 2;
    pub(super) const TRANSFORM: u64 = 3;
    pub(super) const HASH_SAMPLE: u64 = 4;
}

impl TableMeta {
    /// Appends the one encoding that footers and manifest share (`docs/format/manifest.md`).
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for number in [
            self.id.0,
            u64::from(self.format),
            u64::from(self.keyspace),
            u64::from(self.partition),
            u64::from(self.level),
            self.run,
            u64::from(self.path),
            self.raw_bytes,
            self.index_bytes,
            self.filter_bytes,
            self.entries,
            self.tombstones,
            self.range_tombstones,
            self.smallest_seqno.0,
            self.largest_seqno.0,
        ] {
            varint::put(out, number);
        }
        // Of fixed size: a table says its own.
        out.extend_from_slice(&self.file_bytes.to_le_bytes());
        put_sized(out, &self.smallest_key);
        put_sized(out, &self.largest_key);
        let mut fields = FieldWriter::new(out);
        fields.put_number(tag::SEQNO_OVERRIDE, self.seqno_override.map(|s| s.0));
        fields.put_pair(tag::EXPIRY, self.expiry);
        let transform = (self.transform != 0).then_some(u64::from(self.transform));
        fields.put_number(tag::TRANSFORM, transform);
        if !self.hash_sample.is_empty() {
            let bytes: Vec<u8> = self
                .hash_sample
                .iter()
                .flat_map(|it| it.to_le_bytes())
                .collect();
            fields.put(tag::HASH_SAMPLE, &bytes);
        }
        fields.finish();
    }

    /// Reads what [`TableMeta::encode`] wrote, this version's or a later one's.
    pub(crate) fn decode(reader: &mut ByteReader<'_>) -> Result<TableMeta> {
        let mut meta = TableMeta {
            id: TableId(reader.varint("table number")?),
            format: reader.varint_as("table format")?,
            keyspace: reader.varint_as("keyspace of a table")?,
            partition: reader.varint_as("partition of a table")?,
            level: reader.varint_as("level of a table")?,
            run: reader.varint("run of a table")?,
            path: reader.varint_as("path of a table")?,
            raw_bytes: reader.varint("raw size of a table")?,
            index_bytes: reader.varint("index size of a table")?,
            filter_bytes: reader.varint("filter size of a table")?,
            entries: reader.varint("entry count of a table")?,
            tombstones: reader.varint("tombstone count of a table")?,
            range_tombstones: reader.varint("range tombstone count of a table")?,
            smallest_seqno: SeqNo(reader.varint("smallest sequence number of a table")?),
            largest_seqno: SeqNo(reader.varint("largest sequence number of a table")?),
            file_bytes: reader.u64("file size of a table")?,
            smallest_key: reader.sized("smallest key of a table")?.to_vec(),
            largest_key: reader.sized("largest key of a table")?.to_vec(),
            seqno_override: None,
            expiry: None,
            transform: 0,
            hash_sample: Vec::new(),
        };
        meta.decode_fields(reader)?;
        meta.check()?;
        Ok(meta)
    }

    /// The same table with another number in the place of its entries'; itself for `None`.
    pub(crate) fn renumbered(self, seqno_override: Option<SeqNo>) -> TableMeta {
        let Some(seqno) = seqno_override else {
            return self;
        };
        TableMeta {
            smallest_seqno: seqno,
            largest_seqno: seqno,
            seqno_override,
            ..self
        }
    }

    fn decode_fields(&mut self, reader: &mut ByteReader<'_>) -> Result<()> {
        let mut fields = FieldReader::new(reader, "a table's description");
        while let Some((tag, field)) = fields.next()? {
            match tag {
                tag::SEQNO_OVERRIDE => {
                    self.seqno_override = Some(SeqNo(fields::number(field, "sequence override")?));
                }
                tag::EXPIRY => self.expiry = Some(fields::pair(field, "expiry range")?),
                tag::TRANSFORM => self.transform = fields::number(field, "transform")?,
                tag::HASH_SAMPLE => self.hash_sample = hash_sample(field)?,
                _ => fields.unknown(tag)?,
            }
        }
        Ok(())
    }

    /// Takes a key, which comes in the order of hashes, into the sample if that has room.
    pub(crate) fn sample(&mut self, order_key: &[u8]) {
        if self.hash_sample.len() < SAMPLE_KEYS
            && let Some(head) = order_key.first_chunk()
            && self.hash_sample.last() != Some(&u64::from_be_bytes(*head))
        {
            self.hash_sample.push(u64::from_be_bytes(*head));
        }
    }

    /// What holds of every table that has entries.
    fn check(&self) -> Result<()> {
        let wrong = if self.entries == 0 {
            None
        } else if self.smallest_key > self.largest_key {
            Some("keys")
        } else if self.smallest_seqno > self.largest_seqno || self.largest_seqno > SeqNo::OPENED_MAX
        {
            Some("sequence numbers")
        } else if self.tombstones > self.entries {
            Some("counts of tombstones and entries")
        } else {
            None
        };
        match wrong {
            None => Ok(()),
            Some(what) => Err(Error::corruption(format!(
                "the {what} of table {} contradict each other",
                self.id.0
            ))),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
