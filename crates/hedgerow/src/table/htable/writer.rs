//! Writes an HTable from front to back.

use std::path::Path;

use hedgerow_io::SequentialWrite;

use crate::base::bucket_fill;
use crate::base::entry::{KeyHash, SeqNo};
use crate::base::error::Result;
use crate::base::key_order;
use crate::base::key_order::Order;
use crate::base::page::{DEVICE_PAGE_BYTES, Handle};
use crate::base::range_tombstones::RangeTombstones;
use crate::base::table_meta::TableMeta;
use crate::table::NewTable;
use crate::table::block_index::hash_marks;
use crate::table::entry_parts::ValueHandle;
use crate::table::filter::{bucket_bloom, table_filter};
use crate::table::iter::Entry;
use crate::table::table_output::{Output, TAIL_BYTES, TableOptions};

use super::bucket::{BucketBuilder, Value};

/// The most bytes that the place of a value takes in a bucket.
const PLACE_BYTES_MAX: usize = 16;
/// A table being written.
pub(in crate::table) struct Writer {
    out: Output,
    options: TableOptions,
    order: Box<dyn Order>,
    bucket: BucketBuilder,
    /// The size of the table's buckets: a multiple of `block_bytes`, chosen with the first bucket.
    bucket_bytes: u32,
    /// The first order key of the bucket.
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    last_seqno: SeqNo,
    marks: hash_marks::Builder,
    filter: Filter,
    meta: TableMeta,
    /// The raw bytes of the bucket being written.
    raw: Vec<u8>,
}

/// The filter. A Bloom filter is one per bucket; others are of the whole table.
enum Filter {
    None,
    OfBuckets(bucket_bloom::Builder),
    OfTable(table_filter::Builder),
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
            order: key_order::open(options.key_order, options.hash_seed),
            bucket: BucketBuilder::default(),
            bucket_bytes: options.block_bytes,
            first_key: Vec::new(),
            last_key: Vec::new(),
            last_seqno: SeqNo(0),
            marks: hash_marks::Builder::default(),
            filter: match options.filter {
                None => Filter::None,
                Some(table_filter::Spec::Bloom(bits)) => {
                    Filter::OfBuckets(bucket_bloom::Builder::new(bits))
                }
                Some(spec) => Filter::OfTable(table_filter::Builder::new(spec)),
            },
            meta: TableMeta::new(&options, super::FORMAT),
            options,
            raw: Vec::new(),
        }
    }

    /// Returns true if the bucket has room for `bytes_with` bytes. The first bucket may be enlarged
    /// for them.
    fn has_room(&mut self, bytes_with: usize) -> bool {
        if self.marks.is_empty() {
            let held = self.bucket.bytes();
            let unit = self.options.block_bytes;
            self.bucket_bytes = bucket_fill::enlarged(self.bucket_bytes, unit, held, bytes_with);
        }
        bytes_with <= bucket_fill::room(self.bucket_bytes)
    }

    /// Returns true if the key equals the last one. Checks first that `(key, seqno)` comes after
    /// the last entry: a table out of order would answer wrong.
    fn check_order(&self, key: &[u8], seqno: SeqNo) -> bool {
        let same_key = *key == self.last_key[..];
        assert!(
            same_key || *key > self.last_key[..],
            "entries are added in order: {key:?} after {:?}",
            self.last_key
        );
        assert!(
            !same_key || seqno < self.last_seqno,
            "versions are added newest first: {seqno:?} after {:?}",
            self.last_seqno
        );
        same_key
    }

    fn finish_bucket(&mut self) -> Result<()> {
        self.bucket.finish(&mut self.raw);
        let handle = self.out.write_fixed_page(&self.raw, self.bucket_bytes)?;
        self.marks.add(&self.first_key, &self.last_key, handle);
        if let Filter::OfBuckets(filters) = &mut self.filter {
            filters.finish_bucket();
        }
        Ok(())
    }

    fn add_to_filter(&mut self, hash: KeyHash, new_in_bucket: bool, new_in_table: bool) {
        match &mut self.filter {
            Filter::OfBuckets(filters) if new_in_bucket => filters.add(hash),
            Filter::OfTable(filter) if new_in_table => filter.add(hash),
            _ => {}
        }
    }

    /// Writes the filters and the marks. Returns the place of the marks and the description of the
    /// filters.
    fn write_filter_and_marks(&mut self) -> Result<(Handle, Option<table_filter::Description>)> {
        let out = &mut self.out;
        let buckets_end = out.offset;
        let filter = match std::mem::replace(&mut self.filter, Filter::None) {
            Filter::None => None,
            Filter::OfBuckets(filters) => {
                out.align(DEVICE_PAGE_BYTES, DEVICE_PAGE_BYTES)?;
                let filters = filters.finish(out.offset, |page| {
                    out.write_raw_page(page)?;
                    Ok(())
                })?;
                Some(table_filter::Description::Buckets(filters))
            }
            Filter::OfTable(filter) => Some(filter.finish(out.offset, |page| {
                out.write_raw_page(page)?;
                Ok(())
            })?),
        };
        if filter
            .as_ref()
            .is_some_and(table_filter::Description::is_asked)
        {
            self.meta.filter_bytes = out.offset - buckets_end;
        }
        let marks = out.write_raw_page(&std::mem::take(&mut self.marks).finish())?;
        self.meta.index_bytes = u64::from(marks.bytes);
        Ok((marks, filter))
    }
}

impl crate::table::Writer for Writer {
    fn add(&mut self, entry: &Entry<'_>, value: &[u8], hash: KeyHash) -> Result<()> {
        let seqno = self.options.stored_seqno(entry.seqno, entry.tag);
        let same_key = self.check_order(entry.key, seqno);
        let inline = value.len() <= bucket_fill::room(self.options.block_bytes) / 2;
        let value_bytes = if inline { value.len() } else { PLACE_BYTES_MAX };
        let user_key = self.order.decode(entry.key);
        let value_bytes = (value_bytes, !inline);
        let bytes = self
            .bucket
            .bytes_max_with(user_key, seqno, entry.tag, value_bytes);
        if !self.bucket.is_empty() && !self.has_room(bytes) {
            self.finish_bucket()?;
        }
        let begins = self.bucket.is_empty();
        if begins {
            self.first_key.clear();
            self.first_key.extend_from_slice(entry.key);
        }
        self.add_to_filter(hash, begins || !same_key, !same_key);
        let stored = match inline {
            true => Value::Inline(value),
            false => Value::OutOfLine(ValueHandle {
                handle: self.out.write_page(value)?,
                bytes: value.len() as u32,
            }),
        };
        let user_key = self.order.decode(entry.key);
        self.bucket.add(user_key, seqno, entry.tag, stored);
        if !same_key {
            self.last_key.clear();
            self.last_key.extend_from_slice(entry.key);
        }
        self.last_seqno = seqno;
        let order = self.options.key_order;
        self.meta.count(entry, value, order);
        Ok(())
    }

    fn estimated_bytes(&self) -> u64 {
        let filter = match &self.filter {
            Filter::None => 0,
            Filter::OfBuckets(filters) => filters.estimated_bytes(),
            Filter::OfTable(filter) => filter.estimated_bytes(),
        };
        let rest = self.bucket.bytes() + self.marks.estimated_bytes();
        self.out.offset + rest as u64 + filter + TAIL_BYTES
    }

    fn entries(&self) -> u64 {
        self.meta.entries
    }

    fn memory_bytes(&self) -> usize {
        let filter = match &self.filter {
            Filter::None => 0,
            Filter::OfBuckets(filters) => filters.memory_bytes(),
            Filter::OfTable(filter) => filter.memory_bytes(),
        };
        self.bucket.memory_bytes()
            + self.marks.memory_bytes()
            + filter
            + self.raw.capacity()
            + self.out.memory_bytes()
    }

    fn finish(mut self: Box<Self>, ranges: &RangeTombstones) -> Result<NewTable> {
        assert!(self.meta.entries > 0, "a table has entries");
        assert!(ranges.is_empty(), "hashed keys have no ranges");
        self.finish_bucket()?;
        self.meta.largest_key.clone_from(&self.last_key);
        let (marks, filter) = self.write_filter_and_marks()?;
        let Writer {
            out, meta, options, ..
        } = *self;
        out.finish(meta, &options, marks, filter)
    }
}
