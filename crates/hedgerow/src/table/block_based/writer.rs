//! Writing a table from front to back. Memory: one block, 8 bytes per key for the filter, 6 to 12
//! bytes per block for the index.

use std::path::{Path, PathBuf};

use hedgerow_io::SequentialWrite;

use crate::block_index::Builder as _;
use crate::block_index::fence_pointers;
use crate::codec::compress::Compressor;
use crate::entry::{KeyHash, Kind, SeqNo};
use crate::error::{Error, Result};
use crate::filter::of_table;
use crate::iter::Entry;
use crate::options::Compression;
use crate::page::{DEVICE_PAGE_BYTES, Handle, PAGE_OVERHEAD_BYTES, TRAILER_BYTES, TableId};
use crate::table::{TableMeta, page_io};

use super::block::BlockBuilder;
use super::footer::{self, Footer};

/// Values larger than this are stored out of line. Half of the default block: a larger value would
/// leave its block to fewer than two entries, and a page of its own costs at most one more read of
/// a size for which the read itself no longer dominates.
pub(super) const INLINE_VALUE_BYTES_MAX: usize = 2048;
/// Versions of one key stay together in a block of up to this many times the target.
const BLOCK_STRETCH: usize = 4;
/// A gap before a page takes at most this part of the page.
const GAP_PART: u64 = 8;
/// Footer and facts without keys, about, for the estimate of the file's size.
const TAIL_BYTES: u64 = 256;

/// What a table is written for and how.
#[derive(Debug, Clone)]
pub(crate) struct TableOptions {
    pub(crate) id: TableId,
    pub(crate) keyspace: u32,
    pub(crate) partition: u32,
    pub(crate) level: u8,
    pub(crate) run: u64,
    /// Which of the keyspace's paths the file is on.
    pub(crate) path: u8,
    /// The seed of the keyspace's key hashes; recorded so that it outlives the manifest.
    pub(crate) hash_seed: u64,
    /// The target size of a block before compression.
    pub(crate) block_bytes: u32,
    pub(crate) compression: Compression,
    /// See [`TableMeta::seqno_override`].
    pub(crate) seqno_override: Option<SeqNo>,
    /// Every reader sees what is numbered up to this, and nothing older of the table's keys is
    /// anywhere: puts that old are stored as [`SeqNo::SETTLED`], which takes fewer bytes.
    pub(crate) settled: Option<SeqNo>,
    pub(crate) filter: Option<of_table::Spec>,
}

/// A table being written.
pub(crate) struct Writer {
    out: Output,
    options: TableOptions,
    block: BlockBuilder,
    /// The number of the current block.
    block_number: usize,
    index: fence_pointers::Builder,
    filter: Option<of_table::Builder>,
    meta: TableMeta,
    /// The raw bytes of the page being written.
    raw: Vec<u8>,
}

/// The file, and what makes pages of bytes.
struct Output {
    file: Box<dyn SequentialWrite>,
    path: PathBuf,
    table: TableId,
    compressor: Compressor,
    offset: u64,
    stored: Vec<u8>,
}

impl Output {
    /// Appends a page, compressed if that pays.
    fn write_page(&mut self, raw: &[u8]) -> Result<Handle> {
        let compression = self.compressor.compress(raw, &mut self.stored);
        if compression == crate::codec::compress::RAW {
            self.align()?;
        }
        page_io::seal(&mut self.stored, compression, self.table, self.offset);
        self.write_stored()
    }

    /// Leaves a gap before a page that would lie in two pages of the device and need not: it is read
    /// with half the bytes, and takes half the room in the system's cache. A compressed page would
    /// lose by gaps what compression gained.
    fn align(&mut self) -> Result<()> {
        let bytes = self.stored.len() as u64 + u64::from(TRAILER_BYTES);
        let gap = self.offset.next_multiple_of(DEVICE_PAGE_BYTES) - self.offset;
        if bytes <= DEVICE_PAGE_BYTES && gap < bytes && gap <= bytes / GAP_PART {
            self.file
                .write(&[0; (DEVICE_PAGE_BYTES / GAP_PART) as usize][..gap as usize])
                .map_err(|e| Error::io("write", &self.path, e))?;
            self.offset += gap;
        }
        Ok(())
    }

    /// Appends a page as it is: indexes and filters would not shrink, and a table must know the
    /// size of its facts before it writes them.
    fn write_raw_page(&mut self, raw: &[u8]) -> Result<Handle> {
        self.stored.clear();
        self.stored.extend_from_slice(raw);
        page_io::seal(
            &mut self.stored,
            crate::codec::compress::RAW,
            self.table,
            self.offset,
        );
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
}

impl Writer {
    /// Starts a table in an empty file. `path` is for errors.
    pub(crate) fn new(out: Box<dyn SequentialWrite>, path: &Path, options: TableOptions) -> Writer {
        let meta = TableMeta {
            id: options.id,
            format: super::FORMAT,
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
            range_tombstones: 0,
            smallest_key: Vec::new(),
            largest_key: Vec::new(),
            smallest_seqno: SeqNo::MAX,
            largest_seqno: SeqNo(0),
            seqno_override: options.seqno_override,
            expiry: None,
            transform: 0,
            hash_range: None,
        };
        Writer {
            out: Output {
                offset: out.bytes(),
                file: out,
                path: path.to_path_buf(),
                table: options.id,
                compressor: Compressor::new(options.compression),
                stored: Vec::new(),
            },
            filter: options.filter.map(of_table::Builder::new),
            options,
            block: BlockBuilder::default(),
            block_number: 0,
            index: fence_pointers::Builder::default(),
            meta,
            raw: Vec::new(),
        }
    }

    /// Finishes the block if this entry should not go into it.
    fn cut_before(
        &mut self,
        key: &[u8],
        seqno: SeqNo,
        value_bytes: usize,
        same_key: bool,
    ) -> Result<()> {
        let target = self.options.block_bytes as usize - PAGE_OVERHEAD_BYTES;
        let full = if same_key {
            self.block.bytes_max() > BLOCK_STRETCH * target
        } else {
            let block = &self.block;
            block.bytes_max_with(key, seqno, value_bytes) > target
        };
        if full && !self.block.is_empty() {
            self.finish_block()?;
        }
        Ok(())
    }

    fn finish_block(&mut self) -> Result<()> {
        self.block.finish(&mut self.raw);
        let handle = self.out.write_page(&self.raw)?;
        self.index.finish_block(self.block_number, handle);
        self.block_number += 1;
        Ok(())
    }

    fn note(&mut self, entry: &Entry<'_>, value_bytes: usize) {
        let meta = &mut self.meta;
        if meta.entries == 0 {
            meta.smallest_key = entry.key.to_vec();
        }
        meta.entries += 1;
        meta.tombstones += u64::from(entry.tag.kind == Kind::Delete);
        meta.range_tombstones += u64::from(entry.tag.kind == Kind::RangeDelete);
        meta.raw_bytes += (entry.key.len() + value_bytes) as u64;
        meta.smallest_seqno = meta.smallest_seqno.min(entry.seqno);
        meta.largest_seqno = meta.largest_seqno.max(entry.seqno);
    }

    /// Writes everything behind the blocks.
    fn write_tail(&mut self) -> Result<()> {
        let out = &mut self.out;
        let blocks_end = out.offset;
        let filter = match self.filter.take() {
            Some(filter) => Some(filter.finish(out.offset, |page| {
                out.write_raw_page(page)?;
                Ok(())
            })?),
            None => None,
        };
        let filter_end = out.offset;
        if filter.as_ref().is_some_and(of_table::Description::is_asked) {
            self.meta.filter_bytes = filter_end - blocks_end;
        }
        let index = std::mem::take(&mut self.index);
        let index_top = index.finish(|page| out.write_raw_page(page))?;
        self.meta.index_bytes = out.offset - filter_end;

        let mut facts = Vec::new();
        self.meta.encode(&mut facts);
        let facts_bytes = facts.len() as u64 + u64::from(TRAILER_BYTES);
        self.meta.file_bytes = out.offset + facts_bytes + footer::BYTES as u64;
        facts.clear();
        self.meta.encode(&mut facts);
        let footer = Footer {
            id: self.options.id,
            meta: out.write_raw_page(&facts)?,
            index_top,
            filter,
            hash_seed: self.options.hash_seed,
            key_order: footer::KEY_ORDER_SORTED,
        };
        out.stored = footer.encode(out.offset);
        out.write_stored()?;
        assert!(
            out.offset == self.meta.file_bytes,
            "a table knows its size before it is written"
        );
        Ok(())
    }
}

impl crate::table::Writer for Writer {
    fn add(&mut self, entry: &Entry<'_>, value: &[u8], hash: KeyHash) -> Result<()> {
        let seqno = match self.options.settled {
            Some(settled) if entry.seqno <= settled && entry.tag.kind == Kind::Put => {
                SeqNo::SETTLED
            }
            _ => entry.seqno,
        };
        let same_key = self.block.check_order(entry.key, seqno);
        let inline = value.len() <= INLINE_VALUE_BYTES_MAX;
        let value_bytes = if inline { value.len() } else { 16 };
        self.cut_before(entry.key, seqno, value_bytes, same_key)?;
        self.index.add(entry.key, self.block_number);
        if let (Some(filter), false) = (&mut self.filter, same_key) {
            filter.add(hash);
        }
        if inline {
            self.block.add(entry.key, seqno, entry.tag, value);
        } else {
            let handle = self.out.write_page(value)?;
            let bytes = value.len() as u32;
            self.block
                .add_out_of_line(entry.key, seqno, entry.tag, handle, bytes);
        }
        self.note(entry, value.len());
        Ok(())
    }

    fn estimated_bytes(&self) -> u64 {
        let filter = self.filter.as_ref().map_or(0, |f| f.estimated_bytes());
        let block = if self.block.is_empty() {
            0
        } else {
            self.block.bytes_max() as u64
        };
        self.out.offset + block + filter + self.index.estimated_bytes() as u64 + TAIL_BYTES
    }

    fn memory_bytes(&self) -> usize {
        self.block.memory_bytes()
            + self.index.memory_bytes()
            + self
                .filter
                .as_ref()
                .map_or(0, of_table::Builder::memory_bytes)
            + self.raw.capacity()
            + self.out.stored.capacity()
    }

    fn entries(&self) -> u64 {
        self.meta.entries
    }

    fn finish(mut self: Box<Self>) -> Result<TableMeta> {
        assert!(self.meta.entries > 0, "a table has entries");
        self.finish_block()?;
        self.meta.largest_key = self.block.last_key().to_vec();
        self.write_tail()?;
        let Output { file, path, .. } = &mut self.out;
        file.sync().map_err(|e| Error::io("sync", path, e))?;
        Ok(self.meta)
    }
}
