//! Writes a table from front to back. Memory: one block, 8 bytes per key for the filter, 2 to 12
//! bytes per block for the index.
//!
//! For fence pointers, full blocks are cut and compressed. For an index of hashes, blocks are pages
//! of one size, and entries of equal hashes are not separated: such *twins* move to the next page
//! together. Twins that fill more than one page share a larger one.

use std::path::Path;

use hedgerow_io::SequentialWrite;

use crate::base::codec::compress;
use crate::base::entry::{KeyHash, SeqNo};
use crate::base::error::Result;
use crate::base::options::IndexSpec;
use crate::base::page::{Handle, PAGE_OVERHEAD_BYTES};
use crate::base::range_tombstones::RangeTombstones;
use crate::base::table_meta::TableMeta;
use crate::table::NewTable;
use crate::table::block_index;
use crate::table::filter::table_filter;
use crate::table::iter::Entry;
use crate::table::table_output::{Output, TAIL_BYTES, TableOptions};

use super::block::BlockBuilder;
use super::short_keys::{SHORT_KEYS, Shortener};

/// The largest value stored in a block; larger values are out of line. It is half of the default
/// block. A larger value would leave its block to fewer than two entries. A page of its own costs
/// at most one more read, and at this size the transfer dominates the read.
pub(super) const INLINE_VALUE_BYTES_MAX: usize = 2048;
/// Versions of one key, and twins, stay together in a block of up to this multiple of the target.
const BLOCK_STRETCH: usize = 4;
/// Returns true if blocks have one size, as an index of hashes requires.
fn has_fixed_pages(options: &TableOptions) -> bool {
    options.index != IndexSpec::Fence
}

/// A table being written.
pub(in crate::table) struct Writer {
    out: Output,
    options: TableOptions,
    block: BlockBuilder,
    /// Removes the hashes from blocks, if there are any.
    shortening: Option<Shortener>,
    /// The number of the current block.
    block_number: usize,
    /// The number of twins at the block's end.
    twins: usize,
    /// True if the block begins with the twins that end the block before.
    continues: bool,
    index: block_index::table_index::Builder,
    filter: Option<table_filter::Builder>,
    meta: TableMeta,
    /// The raw bytes of the page being written.
    raw: Vec<u8>,
}

impl Writer {
    /// Starts a table in an empty file. `path` is for errors.
    pub(in crate::table) fn new(
        out: Box<dyn SequentialWrite>,
        path: &Path,
        options: TableOptions,
    ) -> Writer {
        Writer {
            out: Output::new(out, path, &options),
            meta: TableMeta::new(&options, super::FORMAT),
            filter: options.filter.map(table_filter::Builder::new),
            index: block_index::table_index::Builder::new(options.index),
            // Fixed pages would not become smaller.
            shortening: match has_fixed_pages(&options) {
                false => Shortener::of(options.key_order, options.hash_seed),
                true => None,
            },
            options,
            block: BlockBuilder::default(),
            block_number: 0,
            twins: 0,
            continues: false,
            raw: Vec::new(),
        }
    }

    /// The size of a block without the overhead of its page.
    fn target_bytes(&self) -> usize {
        let bytes = self.options.block_bytes as usize - PAGE_OVERHEAD_BYTES;
        match has_fixed_pages(&self.options) {
            true => bytes - compress::SIZE_BYTES,
            false => bytes,
        }
    }

    /// The largest value stored in a block. Two such values fit a page of fixed size.
    fn inline_bytes_max(&self) -> usize {
        match has_fixed_pages(&self.options) {
            true => INLINE_VALUE_BYTES_MAX.min(self.target_bytes() / 2),
            false => INLINE_VALUE_BYTES_MAX,
        }
    }

    /// Makes room for an entry: finishes the block if the entry must not go into it.
    fn cut_before(&mut self, key: &[u8], seqno: SeqNo, value_bytes: usize) -> Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let target = self.target_bytes();
        let fits = self.block.bytes_max_with(key, seqno, value_bytes) <= target;
        if self.index.tells_apart(self.block.last_key(), key) {
            if fits && !(self.continues && has_fixed_pages(&self.options)) {
                self.index.add(self.block.last_key(), self.block_number);
                self.twins = 0;
                return Ok(());
            }
            self.finish_block()?;
            self.continues = false;
            return Ok(());
        }
        let moves = has_fixed_pages(&self.options)
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
            _ if has_fixed_pages(&self.options) => {
                let page_bytes = self.options.block_bytes;
                self.out.write_fixed_page(&self.raw, page_bytes)?
            }
            None => self.out.write_page(&self.raw)?,
            Some(it) => self.out.write_marked(it.shorten(&self.raw)?, SHORT_KEYS)?,
        };
        // Only now the last key is known to stay.
        self.index.add(self.block.last_key(), self.block_number);
        self.index.finish_block(self.block_number, handle);
        self.block_number += 1;
        self.twins = 0;
        Ok(())
    }

    /// Writes the index and the filter. Returns the place of the index's top and the description of
    /// the filter.
    fn write_index_and_filter(&mut self) -> Result<(Handle, Option<table_filter::Description>)> {
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
        if filter
            .as_ref()
            .is_some_and(table_filter::Description::is_asked)
        {
            self.meta.filter_bytes = filter_end - blocks_end;
        }
        let index = block_index::table_index::Builder::new(self.options.index);
        let index = std::mem::replace(&mut self.index, index);
        let index_top = index.finish(|page| out.write_raw_page(page))?;
        self.meta.index_bytes = out.offset - filter_end;
        Ok((index_top, filter))
    }
}

impl crate::table::Writer for Writer {
    fn add(&mut self, entry: &Entry<'_>, value: &[u8], hash: KeyHash) -> Result<()> {
        let seqno = self.options.stored_seqno(entry.seqno, entry.tag);
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
        let order = self.options.key_order;
        self.meta.count(entry, value, order);
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
                .map_or(0, table_filter::Builder::memory_bytes)
            + self.raw.capacity()
            + self.out.memory_bytes()
    }

    fn entries(&self) -> u64 {
        self.meta.entries
    }

    fn finish(mut self: Box<Self>, ranges: &RangeTombstones) -> Result<NewTable> {
        assert!(self.meta.entries > 0, "a table has entries");
        self.finish_block()?;
        self.meta.largest_key = self.block.last_key().to_vec();
        self.out.write_ranges(&mut self.meta, ranges)?;
        let (index_top, filter) = self.write_index_and_filter()?;
        let Writer {
            out, meta, options, ..
        } = *self;
        out.finish(meta, &options, index_top, filter)
    }
}
