//! Writing a table from front to back. Memory: one block, 8 bytes per key for the filter, 2 to 12
//! bytes per block for the index.
//!
//! For fence pointers, blocks are cut where they are full and compressed. For an index of hashes they
//! are pages of one size, and not cut between entries of equal hashes: such *twins* move to the next
//! page together, and share larger pages if they fill more than one.

use std::path::{Path, PathBuf};

use hedgerow_io::SequentialWrite;

use crate::block_index;
use crate::codec::compress::{self, Compressor};
use crate::entry::{KeyHash, Kind, SeqNo};
use crate::error::{Error, Result};
use crate::filter::of_table;
use crate::iter::Entry;
use crate::options::{Compression, IndexSpec, KeyOrder};
use crate::page::{DEVICE_PAGE_BYTES, Handle, PAGE_OVERHEAD_BYTES, TRAILER_BYTES, TableId};
use crate::table::{TableMeta, page_io};

use super::block::BlockBuilder;
use super::footer::{self, Footer};
use super::short_keys::{SHORT_KEYS, Shortening};

/// Values larger than this are stored out of line. Half of the default block: a larger value would
/// leave its block to fewer than two entries, and a page of its own costs at most one more read of
/// a size for which the read itself no longer dominates.
pub(super) const INLINE_VALUE_BYTES_MAX: usize = 2048;
/// Versions of one key, and twins, stay together in a block of up to this many times the target.
const BLOCK_STRETCH: usize = 4;
/// A gap before a page takes at most this part of the page, and of a page of the device.
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
    /// The order of its keys; recorded likewise.
    pub(crate) key_order: KeyOrder,
    /// The target size of a block before compression.
    pub(crate) block_bytes: u32,
    pub(crate) compression: Compression,
    pub(crate) index: IndexSpec,
    /// See [`TableMeta::seqno_override`].
    pub(crate) seqno_override: Option<SeqNo>,
    /// Every reader sees what is numbered up to this, and nothing older of the table's keys is
    /// anywhere: puts that old are stored as [`SeqNo::SETTLED`], which takes fewer bytes.
    pub(crate) settled: Option<SeqNo>,
    pub(crate) filter: Option<of_table::Spec>,
}

impl TableOptions {
    /// Whether blocks have one size, which an index of hashes wants.
    fn has_fixed_pages(&self) -> bool {
        self.index != IndexSpec::Fence
    }
}

/// A table being written.
pub(crate) struct Writer {
    out: Output,
    options: TableOptions,
    block: BlockBuilder,
    /// Takes the hashes out of blocks, if there are any.
    shortening: Option<Shortening>,
    /// The number of the current block.
    block_number: usize,
    /// How many entries at its end are twins.
    twins: usize,
    /// It goes on with the twins that the block before ended with.
    continues: bool,
    index: block_index::of_table::Builder,
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
        self.write_marked(raw, 0)
    }

    /// As [`Output::write_page`], with a mark beside the compression.
    fn write_marked(&mut self, raw: &[u8], mark: u8) -> Result<Handle> {
        let compression = self.compressor.compress(raw, &mut self.stored);
        if compression == compress::RAW {
            self.align(DEVICE_PAGE_BYTES)?;
        }
        page_io::seal(
            &mut self.stored,
            compression | mark,
            self.table,
            self.offset,
        );
        self.write_stored()
    }

    /// Appends a page that takes `page_bytes` in memory and, with a gap, in the file; a larger one if
    /// it has to be.
    fn write_fixed_page(&mut self, raw: &[u8], page_bytes: u32) -> Result<Handle> {
        let content_bytes = page_bytes as usize - PAGE_OVERHEAD_BYTES;
        if raw.len() + compress::SIZE_BYTES > content_bytes {
            return self.write_raw_page(raw);
        }
        compress::pad(raw, content_bytes, &mut self.stored);
        self.align(page_bytes.into())?;
        let padded = compress::PADDED;
        page_io::seal(&mut self.stored, padded, self.table, self.offset);
        self.write_stored()
    }

    /// Leaves a gap before a page that would lie in two pages of the device and need not: it is read
    /// with half the bytes, and takes half the room in the system's cache. A compressed page would
    /// lose by gaps what compression gained. `unit` is the size of a page of the device, or else of all
    /// blocks.
    fn align(&mut self, unit: u64) -> Result<()> {
        let bytes = self.stored.len() as u64 + u64::from(TRAILER_BYTES);
        let gap = self.offset.next_multiple_of(unit) - self.offset;
        if bytes <= unit && gap < bytes && gap <= bytes.min(DEVICE_PAGE_BYTES) / GAP_PART {
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
            hash_sample: Vec::new(),
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
            index: block_index::of_table::Builder::new(options.index),
            // Fixed pages would not be smaller.
            shortening: match options.has_fixed_pages() {
                false => Shortening::of(options.key_order, options.hash_seed),
                true => None,
            },
            options,
            block: BlockBuilder::default(),
            block_number: 0,
            twins: 0,
            continues: false,
            meta,
            raw: Vec::new(),
        }
    }

    /// The bytes of a block without what its page takes beside them.
    fn target_bytes(&self) -> usize {
        let bytes = self.options.block_bytes as usize - PAGE_OVERHEAD_BYTES;
        match self.options.has_fixed_pages() {
            true => bytes - compress::SIZE_BYTES,
            false => bytes,
        }
    }

    /// The largest value that is stored in a block; with pages of one size, two of them share one.
    fn inline_bytes_max(&self) -> usize {
        match self.options.has_fixed_pages() {
            true => INLINE_VALUE_BYTES_MAX.min(self.target_bytes() / 2),
            false => INLINE_VALUE_BYTES_MAX,
        }
    }

    /// Makes room for an entry: finishes the block if the entry should not go into it.
    fn cut_before(&mut self, key: &[u8], seqno: SeqNo, value_bytes: usize) -> Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let target = self.target_bytes();
        let fits = self.block.bytes_max_with(key, seqno, value_bytes) <= target;
        if self.index.tells_apart(self.block.last_key(), key) {
            if fits && !(self.continues && self.options.has_fixed_pages()) {
                self.index.add(self.block.last_key(), self.block_number);
                self.twins = 0;
                return Ok(());
            }
            self.finish_block()?;
            self.continues = false;
            return Ok(());
        }
        let moves = self.options.has_fixed_pages()
            && self.twins < self.block.entries()
            && self.block.are_inline(self.twins);
        if !fits && moves {
            let (twins, next) = (self.twins, self.block.take_back(self.twins));
            self.finish_block()?;
            (self.twins, self.block) = (twins, next);
        }
        if self.block.bytes_max() > BLOCK_STRETCH * target {
            self.finish_block()?;
            self.continues = true;
        }
        Ok(())
    }

    fn finish_block(&mut self) -> Result<()> {
        self.block.finish(&mut self.raw);
        let handle = match &mut self.shortening {
            _ if self.options.has_fixed_pages() => {
                let page_bytes = self.options.block_bytes;
                self.out.write_fixed_page(&self.raw, page_bytes)?
            }
            None => self.out.write_page(&self.raw)?,
            Some(it) => self.out.write_marked(it.shorten(&self.raw)?, SHORT_KEYS)?,
        };
        // Only now it is clear that the last key stays.
        self.index.add(self.block.last_key(), self.block_number);
        self.index.finish_block(self.block_number, handle);
        self.block_number += 1;
        self.twins = 0;
        Ok(())
    }

    fn note(&mut self, entry: &Entry<'_>, value_bytes: usize) {
        let meta = &mut self.meta;
        if meta.entries == 0 {
            meta.smallest_key = entry.key.to_vec();
        }
        if self.options.key_order == KeyOrder::Hashed {
            meta.sample(entry.key);
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
        let index = block_index::of_table::Builder::new(self.options.index);
        let index = std::mem::replace(&mut self.index, index);
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
            index: self.options.index,
            index_top,
            filter,
            hash_seed: self.options.hash_seed,
            key_order: self.options.key_order,
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
        let inline = value.len() <= self.inline_bytes_max();
        let value_bytes = if inline { value.len() } else { 16 };
        self.cut_before(entry.key, seqno, value_bytes)?;
        self.twins += 1;
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
