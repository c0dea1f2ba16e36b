//! Assembly of stripes: the filters of several tables, or of several clusters, become the pages of
//! one.
//!
//! Nothing is hashed again. Filters are copied in the order of positions, so each source is read
//! once from front to back. In a file, a page ends where the next columns would not fit it, and a
//! single column that does not fit a page takes several pages, which belong together.
//!
//! Memory: some pages of each source.

use std::ops::Range;

use crate::base::error::{Error, Result};
use crate::base::page::{Page, PageId};

use super::filter_page::{Filters, HEAD_BYTES, PageEnds, PageParts, STRIPE_BYTES, sum};
use super::{Cluster, Columns, Directory, Extent, STRIPES_MAX, Stripe};

/// The source of stripes.
pub(crate) enum Source<'a> {
    /// The stripe of a table that was just written.
    Table(&'a Columns),
    /// Some stripes of a cluster, by their places.
    Cluster(&'a Cluster, Vec<usize>),
}

impl Source<'_> {
    /// Its stripes.
    pub(super) fn stripes(&self) -> Vec<Stripe> {
        match self {
            Source::Table(columns) => vec![columns.stripe],
            Source::Cluster(cluster, stripes) => {
                let all = cluster.stripes();
                stripes.iter().map(|at| all[*at]).collect()
            }
        }
    }

    /// A bound of the bytes of its filters, which no stripe of a damaged cluster can exceed.
    pub(super) fn bytes_max(&self) -> usize {
        match self {
            Source::Table(columns) => columns.bytes() as usize,
            Source::Cluster(cluster, _) => cluster.pages_bytes() as usize,
        }
    }

    /// The approximate bytes of its filters.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Source::Table(columns) => columns.bytes() as usize,
            Source::Cluster(cluster, stripes) => {
                cluster.pages_bytes() as usize / cluster.stripes().len().max(1) * stripes.len()
            }
        }
    }
}

/// Makes the pages of a cluster of at least one stripe. `emit` gets them in order, without padding,
/// and returns the number of pages that they become. `fetch` reads a page of a source that is not
/// resident.
pub(crate) fn assemble(
    sources: &[Source<'_>],
    ends: PageEnds,
    mut fetch: impl FnMut(PageId) -> Result<Page>,
    mut emit: impl FnMut(Vec<u8>) -> Result<usize>,
) -> Result<Directory> {
    let mut streams = Vec::new();
    let mut feeds = Vec::new();
    for source in sources {
        feeds.push(SourceReader::new(source, feeds.len(), &mut streams)?);
    }
    assert!(
        (1..=STRIPES_MAX).contains(&streams.len()),
        "1 to {STRIPES_MAX} stripes, not {}",
        streams.len()
    );
    let mut directory = Directory {
        stripes: streams.iter().map(|stream| stream.stripe).collect(),
        firsts: Vec::new(),
    };
    let mut waiting: Vec<usize> = (0..streams.len()).collect();
    waiting.sort_by_key(|at| std::cmp::Reverse(streams[*at].start()));
    let start = waiting.last().map_or(0, |at| streams[*at].start());
    let mut assembly = Assembly {
        streams,
        feeds,
        waiting,
        active: Vec::new(),
        start,
        end: start,
        bytes: HEAD_BYTES,
        ends,
    };
    while assembly.fill_page(&mut fetch)? {
        let first = assembly.start as u32;
        let pages = emit(assembly.take_page())?;
        directory.firsts.extend(std::iter::repeat_n(first, pages));
        assembly.begin_page();
    }
    Ok(directory)
}

/// The filters of one stripe that the next page may get.
struct Stream {
    stripe: Stripe,
    /// The source that has more of them.
    feed: usize,
    /// The column of the first one here.
    column: u64,
    lengths: Queue,
    filters: Queue,
    /// The number of filters of this stripe in the page. `taken_bytes` is their size.
    taken: usize,
    taken_bytes: usize,
}

impl Stream {
    fn new(stripe: Stripe, feed: usize) -> Stream {
        Stream {
            column: stripe.column_of(stripe.first),
            stripe,
            feed,
            lengths: Queue::default(),
            filters: Queue::default(),
            taken: 0,
            taken_bytes: 0,
        }
    }

    /// The position at which its next column outside the page begins.
    fn start(&self) -> u64 {
        self.stripe.start_of(self.next())
    }

    fn next(&self) -> u64 {
        self.column + self.taken as u64
    }

    fn is_exhausted(&self) -> bool {
        self.next() > self.stripe.column_of(self.stripe.last)
    }

    /// The next place behind `end` at which the page may end, as far as this stripe is concerned.
    fn border(&self, end: u64) -> Option<u64> {
        let start = self.start();
        if start > end {
            return Some(start);
        }
        (!self.is_exhausted()).then(|| self.stripe.end_of(self.next()))
    }

    /// Adds more filters, from a column on.
    fn push(&mut self, from: u64, filters: Filters<'_>) -> Result<()> {
        let known = self.column + self.lengths.bytes().len() as u64;
        if from > known {
            return Err(Error::corruption(format!(
                "expected column {known} of table {} in a cluster, found column {from}",
                self.stripe.table.0
            )));
        }
        // A column that reaches over the end of a page is in the next one, too.
        let new = filters.skip((known - from) as usize);
        self.lengths.push(new.lengths);
        self.filters.push(new.bytes);
        Ok(())
    }

    fn take(&mut self) {
        self.taken_bytes += usize::from(self.lengths.bytes()[self.taken]);
        self.taken += 1;
    }

    /// Forgets the columns that no later page needs: those that end before a position.
    fn forget_before(&mut self, end: u64) {
        let columns = (end >> self.stripe.shift()).saturating_sub(self.column);
        let columns = self.taken.min(columns as usize);
        let bytes = sum(&self.lengths.bytes()[..columns]);
        self.lengths.skip(columns);
        self.filters.skip(bytes);
        self.column += columns as u64;
        self.taken -= columns;
        self.taken_bytes -= bytes;
    }

    /// The bytes that the stripe takes in the page.
    fn bytes(&self) -> usize {
        match self.taken {
            0 => 0,
            columns => STRIPE_BYTES + columns + self.taken_bytes,
        }
    }

    /// The bytes that its next column adds.
    fn next_bytes(&self) -> usize {
        let head = if self.taken == 0 { STRIPE_BYTES } else { 0 };
        head + 1 + usize::from(self.lengths.bytes()[self.taken])
    }
}

/// Bytes that are added at the end and skipped at the front.
#[derive(Default)]
struct Queue {
    all: Vec<u8>,
    skipped: usize,
}

impl Queue {
    fn bytes(&self) -> &[u8] {
        &self.all[self.skipped..]
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.skipped > self.all.len() / 2 {
            self.all.drain(..self.skipped);
            self.skipped = 0;
        }
        self.all.extend_from_slice(bytes);
    }

    fn skip(&mut self, count: usize) {
        self.skipped += count;
    }
}

/// A source that is read.
struct SourceReader<'a> {
    cluster: Option<&'a Cluster>,
    /// For each stripe of the cluster the stream that it goes to.
    streams: Vec<Option<usize>>,
    extents: Box<dyn Iterator<Item = Extent> + 'a>,
}

impl<'a> SourceReader<'a> {
    /// Adds its streams to those of all sources.
    fn new(source: &Source<'a>, number: usize, all: &mut Vec<Stream>) -> Result<SourceReader<'a>> {
        let mut feed = SourceReader {
            cluster: None,
            streams: Vec::new(),
            extents: Box::new(std::iter::empty()),
        };
        match source {
            Source::Table(columns) => {
                let mut stream = Stream::new(columns.stripe, number);
                let filters = Filters {
                    lengths: &columns.lengths,
                    bytes: &columns.filters,
                };
                stream.push(stream.column, filters)?;
                all.push(stream);
            }
            Source::Cluster(cluster, wanted) => {
                let stripes = cluster.stripes();
                feed.streams = vec![None; stripes.len()];
                for &stripe in wanted {
                    feed.streams[stripe] = Some(all.len());
                    all.push(Stream::new(stripes[stripe], number));
                }
                feed.cluster = Some(*cluster);
                let wanted = || wanted.iter().map(|at| &stripes[*at]);
                let start = wanted().map(|it| u64::from(it.first)).min();
                let end = wanted().map(|it| u64::from(it.last)).max();
                let is_needed = move |it: &Extent| start < Some(it.end) && Some(it.start) <= end;
                feed.extents = Box::new(cluster.extents().filter(is_needed));
            }
        }
        Ok(feed)
    }

    /// Reads the next page. Returns false behind the last.
    fn advance(
        &mut self,
        all: &mut [Stream],
        fetch: &mut impl FnMut(PageId) -> Result<Page>,
    ) -> Result<bool> {
        let (Some(cluster), Some(extent)) = (self.cluster, self.extents.next()) else {
            return Ok(false);
        };
        let streams = &self.streams;
        let push = |stripe: usize, columns: Range<u64>, filters| match streams[stripe] {
            Some(stream) => all[stream].push(columns.start, filters),
            None => Ok(()),
        };
        match &cluster.resident {
            Some(resident) => resident.for_each(&extent, cluster.stripes(), push)?,
            None => {
                let page = fetch(cluster.page_id(&extent))?;
                PageParts::new(&page, cluster.stripes(), &extent)?.for_each(push)?;
            }
        }
        Ok(true)
    }
}

struct Assembly<'a> {
    streams: Vec<Stream>,
    feeds: Vec<SourceReader<'a>>,
    /// The streams that have not begun, the next one last.
    waiting: Vec<usize>,
    active: Vec<usize>,
    /// The positions of the page, the end exclusive. `bytes` is its size.
    start: u64,
    end: u64,
    bytes: usize,
    ends: PageEnds,
}

impl Assembly<'_> {
    /// Takes columns until the page is full or all are taken. Returns false if nothing is left.
    fn fill_page(&mut self, fetch: &mut impl FnMut(PageId) -> Result<Page>) -> Result<bool> {
        let end_max = self.ends.end_max(self.start);
        while self.end < end_max {
            self.begin_streams();
            let here = self.active.iter().map(|at| &self.streams[*at]);
            let borders = here.filter_map(|stream| stream.border(self.end));
            let next = self.waiting.last().map(|at| self.streams[*at].start());
            let Some(border) = borders.chain(next).min() else {
                return Ok(self.end > self.start);
            };
            let mut added = 0;
            for i in 0..self.active.len() {
                let at = self.active[i];
                if self.is_next(at) {
                    self.load(at, fetch)?;
                    added += self.streams[at].next_bytes();
                }
            }
            if self.end > self.start && self.bytes + added > self.ends.bytes_max() {
                return Ok(true);
            }
            for i in 0..self.active.len() {
                let at = self.active[i];
                if self.is_next(at) {
                    self.streams[at].take();
                }
            }
            self.bytes += added;
            self.end = border.min(end_max);
        }
        Ok(true)
    }

    /// Returns true if the next column of a stream begins at or before the present end of the page.
    fn is_next(&self, at: usize) -> bool {
        let stream = &self.streams[at];
        !stream.is_exhausted() && stream.start() <= self.end
    }

    fn begin_streams(&mut self) {
        while let Some(at) = self
            .waiting
            .pop_if(|at| self.streams[*at].start() <= self.end)
        {
            self.active.push(at);
        }
    }

    /// Reads on until the next filter of a stream is loaded.
    fn load(&mut self, at: usize, fetch: &mut impl FnMut(PageId) -> Result<Page>) -> Result<()> {
        while self.streams[at].taken >= self.streams[at].lengths.bytes().len() {
            let feed = self.streams[at].feed;
            if !self.feeds[feed].advance(&mut self.streams, fetch)? {
                let stripe = self.streams[at].stripe;
                return Err(Error::corruption(format!(
                    "expected filters up to position {} of table {}, found a cluster that ends before",
                    stripe.last, stripe.table.0
                )));
            }
        }
        Ok(())
    }

    fn take_page(&self) -> Vec<u8> {
        let here = |at: &&usize| self.streams[**at].taken > 0;
        let here = || self.active.iter().filter(here);
        let mut page = Vec::with_capacity(self.bytes);
        page.extend((here().count() as u16).to_le_bytes());
        here().for_each(|at| page.extend((*at as u16).to_le_bytes()));
        for stream in here().map(|at| &self.streams[*at]) {
            page.extend_from_slice(&stream.lengths.bytes()[..stream.taken]);
        }
        for stream in here().map(|at| &self.streams[*at]) {
            page.extend_from_slice(&stream.filters.bytes()[..stream.taken_bytes]);
        }
        debug_assert_eq!(page.len(), self.bytes, "what was counted");
        page
    }

    /// Begins the next page where this one ended, with the columns that reach over the end. Forgets
    /// the filters that no later page needs.
    fn begin_page(&mut self) {
        let end = self.end;
        self.bytes = HEAD_BYTES;
        for at in &self.active {
            let stream = &mut self.streams[*at];
            stream.forget_before(end);
            self.bytes += stream.bytes();
        }
        let streams = &self.streams;
        self.active
            .retain(|at| streams[*at].taken > 0 || !streams[*at].is_exhausted());
        self.start = end;
    }
}
