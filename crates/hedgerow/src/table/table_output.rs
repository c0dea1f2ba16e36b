//! A table file being written: its pages, and the part behind the entries that every format has.

use std::path::{Path, PathBuf};

use hedgerow_io::SequentialWrite;

use crate::base::codec::compress;
use crate::base::codec::compress::Compressor;
use crate::base::entry::{Flags, Kind, SeqNo, Tag};
use crate::base::error::{Error, Result};
use crate::base::expiry;
use crate::base::options::{Compression, IndexSpec, KeyOrder, TableSpec};
use crate::base::page::{DEVICE_PAGE_BYTES, Handle, PAGE_OVERHEAD_BYTES, TRAILER_BYTES, TableId};
use crate::base::range_tombstones::RangeTombstones;
use crate::table::filter::table_filter;
use crate::table::iter::Entry;

use super::NewTable;
use super::footer;
use super::footer::Footer;
use super::page_io;
use crate::base::table_meta::TableMeta;

/// A gap before a page is at most one eighth of the page and of a device page.
const GAP_PART: u64 = 8;
/// The approximate bytes of footer and facts without keys, to estimate the file's size.
pub(super) const TAIL_BYTES: u64 = 256;

/// The identity of a table to be written, and the way to write it.
#[derive(Debug, Clone)]
pub(crate) struct TableOptions {
    pub(crate) id: TableId,
    pub(crate) keyspace: u32,
    pub(crate) partition: u32,
    pub(crate) level: u8,
    pub(crate) run: u64,
    /// The keyspace's path that holds the file.
    pub(crate) path: u8,
    /// The seed of the keyspace's key hashes. The table records it so that it outlives the
    /// manifest.
    pub(crate) hash_seed: u64,
    /// The order of the keys. The table records it likewise.
    pub(crate) key_order: KeyOrder,
    /// The target size of a block before compression, or the size of a bucket.
    pub(crate) block_bytes: u32,
    pub(crate) compression: Compression,
    pub(crate) table: TableSpec,
    /// The index of a block-based table.
    pub(crate) index: IndexSpec,
    /// See [`TableMeta::seqno_override`].
    pub(crate) seqno_override: Option<SeqNo>,
    /// Every reader sees all entries numbered up to this, and nothing older of the table's keys
    /// exists. So puts up to this number are stored as [`SeqNo::SETTLED`], which takes fewer bytes.
    pub(crate) settled: Option<SeqNo>,
    pub(crate) filter: Option<table_filter::Spec>,
}

impl TableOptions {
    /// The sequence number that an entry is stored with.
    pub(super) fn stored_seqno(&self, seqno: SeqNo, tag: Tag) -> SeqNo {
        match self.settled {
            Some(settled) if seqno <= settled && tag.kind == Kind::Put => SeqNo::SETTLED,
            _ => seqno,
        }
    }
}

/// The file and the encoder of its pages.
pub(super) struct Output {
    file: Box<dyn SequentialWrite>,
    path: PathBuf,
    table: TableId,
    compressor: Compressor,
    pub(super) offset: u64,
    stored: Vec<u8>,
}

impl Output {
    /// Starts a table in an empty file. `path` is for errors.
    pub(super) fn new(
        file: Box<dyn SequentialWrite>,
        path: &Path,
        options: &TableOptions,
    ) -> Output {
        Output {
            offset: file.bytes(),
            file,
            path: path.to_path_buf(),
            table: options.id,
            compressor: Compressor::new(options.compression),
            stored: Vec::new(),
        }
    }

    /// Appends a page, compressed if that pays.
    pub(super) fn write_page(&mut self, raw: &[u8]) -> Result<Handle> {
        self.write_marked(raw, 0)
    }

    /// Appends a page as [`Output::write_page`] does, with a mark beside the compression.
    pub(super) fn write_marked(&mut self, raw: &[u8], mark: u8) -> Result<Handle> {
        let compression = self.compressor.compress(raw, &mut self.stored);
        if compression == compress::RAW {
            self.align_stored(DEVICE_PAGE_BYTES)?;
        }
        page_io::seal(
            &mut self.stored,
            compression | mark,
            self.table,
            self.offset,
        );
        self.write_stored()
    }

    /// Appends a page that takes `page_bytes` in memory and, with a gap, in the file. Larger
    /// content gets a larger page.
    pub(super) fn write_fixed_page(&mut self, raw: &[u8], page_bytes: u32) -> Result<Handle> {
        let content_bytes = page_bytes as usize - PAGE_OVERHEAD_BYTES;
        if raw.len() + compress::SIZE_BYTES > content_bytes {
            return self.write_raw_page(raw);
        }
        compress::pad(raw, content_bytes, &mut self.stored);
        self.align_stored(page_bytes.into())?;
        let padded = compress::PADDED;
        page_io::seal(&mut self.stored, padded, self.table, self.offset);
        self.write_stored()
    }

    /// Leaves a gap before a page that would needlessly lie in two pages of the device. A page in
    /// one of them costs half the bytes per read and half the room in the system's cache. A
    /// compressed page has no gap, because gaps would cost what compression gained. `unit` is the
    /// size of a device page or of all blocks.
    fn align_stored(&mut self, unit: u64) -> Result<()> {
        self.align(self.stored.len() as u64 + u64::from(TRAILER_BYTES), unit)
    }

    /// Aligns as [`Output::align_stored`] does, for a page of `bytes` bytes with its trailer.
    pub(super) fn align(&mut self, bytes: u64, unit: u64) -> Result<()> {
        let gap = self.offset.next_multiple_of(unit) - self.offset;
        if bytes <= unit && gap < bytes && gap <= bytes.min(DEVICE_PAGE_BYTES) / GAP_PART {
            let zeros = [0; (DEVICE_PAGE_BYTES / GAP_PART) as usize];
            let written = self.file.write(&zeros[..gap as usize]);
            written.map_err(|e| Error::io("write", &self.path, e))?;
            self.offset += gap;
        }
        Ok(())
    }

    /// Appends a page uncompressed. Indexes and filters would not shrink, and a table must know the
    /// size of its facts before it writes them.
    pub(super) fn write_raw_page(&mut self, raw: &[u8]) -> Result<Handle> {
        self.stored.clear();
        self.stored.extend_from_slice(raw);
        page_io::seal(&mut self.stored, compress::RAW, self.table, self.offset);
        self.write_stored()
    }

    fn write_stored(&mut self) -> Result<Handle> {
        let handle = Handle {
            offset: self.offset,
            bytes: self.stored.len() as u32,
        };
        self.file
            .write(&self.stored)
            .map_err(|e| Error::io("write", &self.path, e))?;
        self.offset += self.stored.len() as u64;
        Ok(handle)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.stored.capacity() + self.file.memory_bytes()
    }

    /// Appends the page of range tombstones, if there are some, and counts them. The facts know all
    /// entries.
    pub(super) fn write_ranges(
        &mut self,
        meta: &mut TableMeta,
        ranges: &RangeTombstones,
    ) -> Result<()> {
        if !ranges.is_empty() {
            let mut raw = Vec::new();
            ranges.encode(&mut raw);
            meta.ranges = Some(self.write_page(&raw)?);
            meta.count_ranges(ranges);
        }
        Ok(())
    }

    /// Appends facts and footer.
    pub(super) fn finish(
        mut self,
        mut meta: TableMeta,
        options: &TableOptions,
        index_top: Handle,
        filter: Option<table_filter::Description>,
    ) -> Result<NewTable> {
        let mut facts = Vec::new();
        meta.encode(&mut facts);
        let facts_bytes = facts.len() as u64 + u64::from(TRAILER_BYTES);
        meta.file_bytes = self.offset + facts_bytes + footer::BYTES as u64;
        facts.clear();
        meta.encode(&mut facts);
        let footer = Footer {
            id: options.id,
            meta: self.write_raw_page(&facts)?,
            table: options.table,
            index: options.index,
            index_top,
            filter,
            hash_seed: options.hash_seed,
            key_order: options.key_order,
        };
        self.stored = footer.encode(self.offset);
        self.write_stored()?;
        assert!(
            self.offset == meta.file_bytes,
            "a table knows its size before it is written"
        );
        Ok((meta, self.file))
    }
}

impl TableMeta {
    /// The facts of a table without entries.
    pub(super) fn new(options: &TableOptions, format: u16) -> TableMeta {
        TableMeta {
            id: options.id,
            format,
            keyspace: options.keyspace,
            partition: options.partition,
            level: options.level,
            run: options.run,
            path: options.path,
            file_bytes: 0,
            raw_bytes: 0,
            index_bytes: 0,
            filter_bytes: 0,
            entries: 0,
            tombstones: 0,
            operands: 0,
            expiring: 0,
            range_tombstones: 0,
            smallest_key: Vec::new(),
            largest_key: Vec::new(),
            smallest_seqno: SeqNo::MAX,
            largest_seqno: SeqNo(0),
            ranges: None,
            seqno_override: options.seqno_override,
            expiry: None,
            transform: 0,
            hash_sample: Vec::new(),
        }
    }

    /// Counts an entry. Entries come in order.
    pub(super) fn count(&mut self, entry: &Entry<'_>, value: &[u8], order: KeyOrder) {
        if entry.tag.flags.has(Flags::EXPIRES) {
            self.count_expiry(value);
        }
        if self.entries == 0 {
            self.smallest_key = entry.key.to_vec();
        }
        if order == KeyOrder::Hashed {
            self.sample(entry.key);
        }
        self.entries += 1;
        self.tombstones += u64::from(entry.tag.kind == Kind::Delete);
        self.operands += u64::from(entry.tag.kind == Kind::Merge);
        self.raw_bytes += (entry.key.len() + value.len()) as u64;
        self.smallest_seqno = self.smallest_seqno.min(entry.seqno);
        self.largest_seqno = self.largest_seqno.max(entry.seqno);
    }

    /// Counts an entry that expires.
    #[cold]
    pub(super) fn count_expiry(&mut self, stored: &[u8]) {
        if let Ok((at, _)) = expiry::split(stored) {
            let (earliest, latest) = self.expiry.unwrap_or((at, at));
            self.expiry = Some((earliest.min(at), latest.max(at)));
            self.expiring += 1;
        }
    }
}
