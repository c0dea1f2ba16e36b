//! An open HTable: point lookups as a state machine that names the pages it needs.

mod bucket_iter;

use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::key_order::Order;
use crate::base::options::KeyOrder;
use crate::base::page::{Page, PageClass, PageId, PageSource, Step};
use crate::base::range_tombstones::RangeTombstones;
use crate::base::table_meta::TableMeta;
use crate::table::block_index::Index as _;
use crate::table::block_index::hash_marks::HashMarks;
use crate::table::contents::Contents;
use crate::table::filter::Probe;
use crate::table::filter::bucket_bloom::BucketBlooms;
use crate::table::filter::table_filter::Description;
use crate::table::iter::InternalIter;
use crate::table::table_file::{ResidencyChoice, TableFile};
use crate::table::verify_table;
use crate::table::{GetState, Lookup, Phase, Query};

use super::bucket::Bucket;
use bucket_iter::TableIter;

/// An open table of this format.
#[derive(Debug)]
pub(crate) struct TableReader {
    file: TableFile,
    marks: HashMarks,
    order: Box<dyn Order>,
    /// The filter of the table or the filters of its buckets: at most one of the two.
    filter: Option<Box<dyn Probe>>,
    filters: Option<BucketBlooms>,
}

impl TableReader {
    /// Opens a table from its file and the page of its marks. The marks are in memory whatever
    /// `residency` is: because of them small filters are enough.
    pub(in crate::table) fn open(
        file: TableFile,
        marks: &Page,
        residency: ResidencyChoice,
    ) -> Result<TableReader> {
        let footer = &file.footer;
        if footer.key_order != KeyOrder::Hashed {
            return Err(Error::corruption(format!(
                "expected an HTable of keys of the order hashed, found {}",
                footer.key_order
            ))
            .at(&file.path, None));
        }
        let resident = residency.filter_resident;
        let id = file.meta.id;
        let (filter, filters) = match footer.filter {
            Some(Description::Buckets(buckets)) if !resident => {
                (None, Some(BucketBlooms::paged(id, buckets)))
            }
            Some(description @ Description::Buckets(buckets)) => {
                let read =
                    file.read_filter(description, |it| BucketBlooms::resident(id, buckets, it));
                (None, Some(read?))
            }
            _ => (file.filter(resident)?, None),
        };
        Ok(TableReader {
            marks: HashMarks::open(marks).map_err(|e| file.at(e, footer.index_top))?,
            order: footer.order(),
            filter,
            filters,
            file,
        })
    }

    /// Searches one bucket. `None` if the next bucket may have the answer.
    fn look_in(&self, query: &Query<'_>, page: &Page) -> Result<Option<Lookup>> {
        let bucket = Bucket::parse(&page[..])?;
        let bound = self.file.stored_bound(query.seqno);
        let Some(entry) = bucket.find(self.order.decode(query.key), bound)? else {
            return Ok(None);
        };
        Ok(Some(Lookup::Found {
            seqno: self.file.seqno(entry.seqno),
            tag: entry.tag,
            value: (self.file).value(page, entry.value(), entry.out_of_line)?,
        }))
    }

    /// The page of a bucket.
    pub(super) fn bucket_id(&self, bucket: usize) -> PageId {
        self.file.page_id(self.marks.place(bucket), PageClass::Data)
    }

    fn next(
        &self,
        query: &Query<'_>,
        state: &mut GetState,
        mut page: Option<Page>,
    ) -> Result<Step<Lookup>> {
        loop {
            match state.phase {
                Phase::Filter => {
                    let filter = self.filter.as_deref();
                    if let Some(answer) = state.probe_filter(filter, query, &mut page)? {
                        return Ok(answer);
                    }
                    state.phase = Phase::Locate;
                }
                Phase::Locate => {
                    state.blocks = self.marks.buckets_of(query.key);
                    state.phase = Phase::Handle;
                }
                Phase::Handle if state.blocks.is_empty() => return Ok(Step::Done(Lookup::Absent)),
                Phase::Handle => {
                    let bucket = state.blocks.start;
                    if let Some(filters) = &self.filters {
                        state.filter_probed = true;
                        match filters.may_hold(bucket, query.hash, page.take().as_ref())? {
                            Step::Read(id) => return Ok(Step::Read(id)),
                            Step::Done(false) => {
                                state.blocks.start += 1;
                                continue;
                            }
                            Step::Done(true) => state.filter_passed = true,
                        }
                    }
                    state.phase = Phase::Block;
                    return Ok(Step::Read(self.bucket_id(bucket)));
                }
                Phase::Block => {
                    let page = page.take().expect("a lookup resumes with its bucket");
                    if let Some(lookup) = self.look_in(query, &page)? {
                        return Ok(Step::Done(lookup));
                    }
                    state.blocks.start += 1;
                    state.phase = Phase::Handle;
                }
            }
        }
    }
}

impl crate::table::Reader for TableReader {
    fn get(
        &self,
        query: &Query<'_>,
        state: &mut GetState,
        page: Option<Page>,
    ) -> Result<Step<Lookup>> {
        let step = self
            .next(query, state, page)
            .map_err(|e| e.at(&self.file.path, None))?;
        state.pages_requested += u32::from(matches!(step, Step::Read(_)));
        Ok(step)
    }

    fn iter(self: Arc<Self>, pages: Arc<dyn PageSource>) -> Box<dyn InternalIter> {
        Box::new(TableIter::new(self, pages))
    }

    fn ranges(&self) -> Option<&Arc<RangeTombstones>> {
        None
    }

    fn meta(&self) -> &TableMeta {
        &self.file.meta
    }

    fn memory_bytes(&self) -> (usize, usize) {
        let of_table = self.filter.as_ref().map_or(0, |it| it.memory_bytes());
        let of_buckets = self.filters.as_ref().map_or(0, |it| it.memory_bytes());
        (self.marks.memory_bytes(), of_table + of_buckets)
    }

    fn block_id(&self, block: usize) -> Option<PageId> {
        (block < self.marks.blocks()).then(|| self.bucket_id(block))
    }

    fn key_hashes(&self) -> Result<Option<Vec<u64>>> {
        self.file.key_hashes()
    }

    fn split_keys(&self, pieces: usize) -> Vec<Vec<u8>> {
        self.marks.split_keys(pieces)
    }

    fn verify(&self, pages: &dyn PageSource) -> Result<()> {
        verify_table::verify(&self.file, &self.marks, pages)
    }
}

/// Walks the entries of a bucket in order. The bucket's search scans all of them, so it finds every
/// entry in order.
pub(in crate::table) fn walk(
    page: &[u8],
    order: &dyn Order,
    see: &mut dyn FnMut(&Contents<'_>) -> Result<()>,
) -> Result<()> {
    let mut order_key = Vec::new();
    for entry in Bucket::parse(page)?.entries() {
        let entry = entry?;
        see(&Contents {
            key: order.borrow(&page[entry.key()], &mut order_key),
            seqno: entry.seqno,
            tag: entry.tag,
            value: &page[entry.value()],
            out_of_line: entry.out_of_line,
        })?;
    }
    Ok(())
}
