//! The pages that a prepared seek has at hand, and those that it names to be read.

use std::sync::Arc;

use super::TableIter;
use crate::base::error::{Error, Result};
use crate::base::page::{Page, PageClass, PageId, PageSource, PrefetchList, Step};
use crate::table::block_based::block::Block;
use crate::table::block_index::{self, Index};
use crate::table::read_ahead::ReadAhead;

/// The most blocks that a short scan reads with its first one: the caller may want only that.
const AHEAD_BLOCKS: usize = 4;

/// The reason why a prepared seek lacks a page: it must be read, or it is damaged. The seek reports
/// damage.
pub(super) struct NotAtHand;

impl From<Error> for NotAtHand {
    fn from(_: Error) -> NotAtHand {
        NotAtHand
    }
}

/// The page if it takes no read. Otherwise adds it to `wanted`.
fn at_hand(pages: &Arc<dyn PageSource>, id: PageId, wanted: &mut PrefetchList) -> Option<Page> {
    let page = pages.at_hand(id);
    if page.is_none() {
        wanted.extend(pages.clone().shared().map(|pages| (pages, id)));
    }
    page
}

impl TableIter {
    /// Queries the index without a read. Otherwise adds the page that it needs to `wanted`.
    fn probe_index_at_hand<T>(
        &mut self,
        wanted: &mut PrefetchList,
        question: impl Fn(&dyn Index, Option<&Page>) -> Result<Step<T>>,
    ) -> Option<T> {
        let fetch = |id| at_hand(&self.pages, id, wanted).ok_or(NotAtHand);
        block_index::probe_by(&*self.table.index, fetch, &mut self.index_page, question).ok()
    }

    /// The block that would hold a key, unless it is the current one, if it takes no read.
    /// Otherwise adds it to `wanted`, with the blocks after it up to the limit if they are few.
    pub(super) fn look_for(
        &mut self,
        key: &[u8],
        wanted: &mut PrefetchList,
    ) -> Option<Block<Page>> {
        let bracket =
            self.probe_index_at_hand(wanted, |index, page| index.lower_bound(key, page))?;
        self.key.clear();
        self.key.extend_from_slice(key);
        self.prepared = Some(bracket);
        let number = bracket.likely;
        if number >= self.table.index.blocks()
            || self.block.is_some() && self.block_number == number
        {
            return None;
        }
        (self.block, self.block_number) = (None, number);
        self.ahead = ReadAhead::default();
        self.table.places.prefetch(number);
        let id = self.block_at_hand(number, wanted)?;
        let Some(page) = at_hand(&self.pages, id, wanted) else {
            self.look_ahead(number + 1, wanted);
            return None;
        };
        // A damaged block is read again by the seek, which reports it.
        Block::parse(page).ok()
    }

    /// The name of a block, if the index knows it without a read.
    fn block_at_hand(&mut self, number: usize, wanted: &mut PrefetchList) -> Option<PageId> {
        let handle = self.probe_index_at_hand(wanted, |index, page| index.handle(number, page))?;
        Some(self.table.file.page_id(handle, PageClass::Data))
    }

    /// Adds the blocks from `first` to the limit to `wanted`, if they are few.
    fn look_ahead(&mut self, first: usize, wanted: &mut PrefetchList) -> Option<()> {
        let (limit, known) = self.limit.take()?;
        let probe = |index: &dyn Index, page: Option<&Page>| index.end_before(&limit, page);
        let end = known.or_else(|| self.probe_index_at_hand(wanted, probe));
        self.limit = Some((limit, end));
        for number in first..end.filter(|end| end.saturating_sub(first) <= AHEAD_BLOCKS)? {
            let id = self.block_at_hand(number, wanted)?;
            if !self.pages.has_cached(id) {
                wanted.push((self.pages.clone().shared()?, id));
            }
        }
        Some(())
    }
}
