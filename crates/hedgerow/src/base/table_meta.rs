//! The description of a table, in its footer and in the manifest.

use crate::base::codec::byte_reader::put_sized;
use crate::base::codec::fields;
use crate::base::codec::fields::{FieldReader, FieldWriter};
use crate::base::codec::{ByteReader, varint};
use crate::base::entry::SeqNo;
use crate::base::error::{Error, Result};
use crate::base::page::{Handle, TableId};
use crate::base::range_tombstones::RangeTombstones;

/// The facts about one table. Reads find the table by them, the planner plans merges without
/// opening it, and `repair` rebuilds the manifest from footers alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableMeta {
    /// The number of the table.
    pub(crate) id: TableId,
    /// The table format: 1 is block-based, 2 an HTable.
    pub(crate) format: u16,
    /// The number of its keyspace.
    pub(crate) keyspace: u32,
    /// The number of its partition.
    pub(crate) partition: u32,
    /// The level that the table was written for. The manifest may move a table to another level
    /// without touching the file, so `repair` takes this as a hint only.
    pub(crate) level: u8,
    /// The run that the table was written for; a hint like [`TableMeta::level`].
    pub(crate) run: u64,
    /// The index of the path that holds the file; 0 is the database's own directory.
    pub(crate) path: u8,
    /// The size of the file.
    pub(crate) file_bytes: u64,
    /// Bytes of keys and values before compression.
    pub(crate) raw_bytes: u64,
    /// Bytes of the block index in the file.
    pub(crate) index_bytes: u64,
    /// Bytes of the filter in the file; 0 if there is none.
    pub(crate) filter_bytes: u64,
    /// Entries, tombstones and old versions included.
    pub(crate) entries: u64,
    /// Entries that delete a key.
    pub(crate) tombstones: u64,
    /// Entries that are operands of a merge operator.
    pub(crate) operands: u64,
    /// Entries that expire.
    pub(crate) expiring: u64,
    /// Range deletes, counted in each fragment. They are no entries.
    pub(crate) range_tombstones: u64,
    /// The order key of the first entry, or the start of the first range tombstone.
    pub(crate) smallest_key: Vec<u8>,
    /// The order key of the last entry, or the end of the last range tombstone: the largest key
    /// that a range with this end may hold ([`Fragment::last_key`]).
    ///
    /// [`Fragment::last_key`]: crate::base::range_tombstones::Fragment::last_key
    pub(crate) largest_key: Vec<u8>,
    /// The smallest sequence number of its entries and range tombstones.
    pub(crate) smallest_seqno: SeqNo,
    /// The largest sequence number of its entries and range tombstones.
    pub(crate) largest_seqno: SeqNo,
    /// The page of its range tombstones, if it has some.
    pub(crate) ranges: Option<Handle>,
    /// A sequence number that replaces those of the entries; every key then has one entry. A bulk
    /// load learns its number after its tables are written, so the manifest's value counts. The
    /// footer has a number from the start of the load, for `repair`.
    pub(crate) seqno_override: Option<SeqNo>,
    /// The earliest and the latest time of expiry of the entries that expire.
    pub(crate) expiry: Option<(u64, u64)>,
    /// Reserved: a transformation of pages beyond compression (encryption); 0 is none.
    pub(crate) transform: u16,
    /// For keys in hash order: the first 8 bytes of the first 16 order keys, distinct and
    /// ascending. The samples of two tables that begin at the same hash estimate the share of keys
    /// they have in common.
    pub(crate) hash_sample: Vec<u64>,
}

/// Enough to estimate the share of common keys in the runs of a node within a few hundredths; 128
/// bytes per table.
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

/// Tags of the optional fields. A reader must understand an odd tag to read the table.
mod meta_field {
    pub(super) const SEQNO_OVERRIDE: u64 = 1;
    pub(super) const EXPIRY: u64 = 2;
    pub(super) const TRANSFORM: u64 = 3;
    pub(super) const HASH_SAMPLE: u64 = 4;
    pub(super) const RANGES: u64 = 5;
    pub(super) const OPERANDS: u64 = 6;
    pub(super) const EXPIRING: u64 = 8;
}

impl TableMeta {
    /// The facts of a table that exists in a model only: no index, no filter, no tombstones, and
    /// its number as that of all its entries.
    pub(crate) fn modelled(
        id: u64,
        (smallest_key, largest_key): (Vec<u8>, Vec<u8>),
        bytes: u64,
        entries: u64,
    ) -> TableMeta {
        TableMeta {
            id: TableId(id),
            format: 1,
            keyspace: 0,
            partition: 0,
            level: 0,
            run: 0,
            path: 0,
            file_bytes: bytes,
            raw_bytes: bytes,
            index_bytes: 0,
            filter_bytes: 0,
            entries,
            tombstones: 0,
            operands: 0,
            expiring: 0,
            range_tombstones: 0,
            smallest_key,
            largest_key,
            smallest_seqno: SeqNo(id),
            largest_seqno: SeqNo(id),
            ranges: None,
            seqno_override: None,
            expiry: None,
            transform: 0,
            hash_sample: Vec::new(),
        }
    }

    /// Appends the encoding that footers and manifest share (`docs/format/manifest.md`).
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
        // Fixed width, because a table contains its own size.
        out.extend_from_slice(&self.file_bytes.to_le_bytes());
        put_sized(out, &self.smallest_key);
        put_sized(out, &self.largest_key);
        let mut fields = FieldWriter::new(out);
        fields.put_number(meta_field::SEQNO_OVERRIDE, self.seqno_override.map(|s| s.0));
        fields.put_pair(meta_field::EXPIRY, self.expiry);
        let transform = (self.transform != 0).then_some(u64::from(self.transform));
        fields.put_number(meta_field::TRANSFORM, transform);
        if !self.hash_sample.is_empty() {
            let bytes: Vec<u8> = self
                .hash_sample
                .iter()
                .flat_map(|it| it.to_le_bytes())
                .collect();
            fields.put(meta_field::HASH_SAMPLE, &bytes);
        }
        let ranges = self.ranges.map(|it| (it.offset, u64::from(it.bytes)));
        fields.put_pair(meta_field::RANGES, ranges);
        fields.put_number(
            meta_field::OPERANDS,
            (self.operands > 0).then_some(self.operands),
        );
        fields.put_number(
            meta_field::EXPIRING,
            (self.expiring > 0).then_some(self.expiring),
        );
        fields.finish();
    }

    /// Reads the encoding of [`TableMeta::encode`], of this version or a later one.
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
            operands: 0,
            expiring: 0,
            range_tombstones: reader.varint("range tombstone count of a table")?,
            smallest_seqno: SeqNo(reader.varint("smallest sequence number of a table")?),
            largest_seqno: SeqNo(reader.varint("largest sequence number of a table")?),
            file_bytes: reader.u64("file size of a table")?,
            smallest_key: reader.sized("smallest key of a table")?.to_vec(),
            largest_key: reader.sized("largest key of a table")?.to_vec(),
            ranges: None,
            seqno_override: None,
            expiry: None,
            transform: 0,
            hash_sample: Vec::new(),
        };
        meta.decode_fields(reader)?;
        meta.check()?;
        Ok(meta)
    }

    /// The same table with this number in place of its entries' numbers; unchanged for `None`.
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
                meta_field::SEQNO_OVERRIDE => {
                    self.seqno_override = Some(SeqNo(fields::number(field, "sequence override")?));
                }
                meta_field::EXPIRY => self.expiry = Some(fields::pair(field, "expiry range")?),
                meta_field::TRANSFORM => self.transform = fields::number(field, "transform")?,
                meta_field::HASH_SAMPLE => self.hash_sample = hash_sample(field)?,
                meta_field::RANGES => {
                    let (offset, bytes) = fields::pair(field, "place of range tombstones")?;
                    let bytes = u32::try_from(bytes).map_err(|_| {
                        Error::corruption(format!("expected a page, found {bytes} bytes"))
                    })?;
                    self.ranges = Some(Handle { offset, bytes });
                }
                meta_field::EXPIRING => {
                    self.expiring = fields::number(field, "count of expiring entries")?
                }
                meta_field::OPERANDS => self.operands = fields::number(field, "operand count")?,
                _ => fields.unknown(tag)?,
            }
        }
        Ok(())
    }

    /// Returns true if every entry has expired at a time.
    pub(crate) fn has_expired(&self, time: u64) -> bool {
        let latest = self.expiry.is_some_and(|(_, latest)| latest <= time);
        latest && self.expiring == self.entries
    }

    /// Counts range tombstones, behind all entries.
    pub(crate) fn count_ranges(&mut self, ranges: &RangeTombstones) {
        let (Some(first), Some(last)) = (ranges.fragments().first(), ranges.fragments().last())
        else {
            return;
        };
        self.range_tombstones = ranges.count();
        if first.start < self.smallest_key {
            self.smallest_key.clone_from(&first.start);
        }
        if *last.last_key() > *self.largest_key {
            self.largest_key = last.last_key().to_vec();
        }
        for delete in ranges.fragments().iter().flat_map(|it| &it.deletes) {
            self.smallest_seqno = self.smallest_seqno.min(delete.seqno);
            self.largest_seqno = self.largest_seqno.max(delete.seqno);
        }
    }

    /// Adds a key to the sample if there is room. Keys come in hash order.
    pub(crate) fn sample(&mut self, order_key: &[u8]) {
        if self.hash_sample.len() < SAMPLE_KEYS
            && let Some(head) = order_key.first_chunk()
            && self.hash_sample.last() != Some(&u64::from_be_bytes(*head))
        {
            self.hash_sample.push(u64::from_be_bytes(*head));
        }
    }

    /// Checks the facts that hold for every table with entries.
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
        } else if (self.range_tombstones > 0) != self.ranges.is_some() {
            Some("count and place of range tombstones")
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
