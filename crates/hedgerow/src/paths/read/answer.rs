//! From the entry that a table found to the meaning of its value: the wait for its publication, and
//! the page of a value that has one of its own.

use std::sync::Arc;

use hedgerow_mem::Publisher;

use super::{NewestVersion, Observer, Want};
use crate::base::entry::{Flags, Kind, SeqNo, Tag};
use crate::base::error::Result;
use crate::base::page::{Page, PageId};
use crate::base::slice::Slice;
use crate::table::memory::Memory;
use crate::table::{FoundValue, Table};

/// The answer of a version's tables for a key.
pub(crate) struct Answer<'v> {
    /// Borrowed: to count a reference to a table that all threads read is a contended cache line.
    pub(super) table: &'v Arc<Table>,
    pub(super) entry: FoundEntry,
}

/// An entry that a table has found.
pub(crate) struct FoundEntry {
    pub(super) seqno: SeqNo,
    pub(super) tag: Tag,
    pub(super) value: FoundValue,
}

impl Answer<'_> {
    /// The same answer, once its entry is published.
    #[inline(always)]
    pub(super) fn published(self, publisher: &Publisher) -> Result<Self> {
        if self.entry.seqno.0 > publisher.published() {
            self.wait_until_published(publisher)?;
        }
        Ok(self)
    }

    /// A bulk load installs a table just before it publishes the table's number. A larger number in
    /// the table would never be published.
    #[cold]
    fn wait_until_published(&self, publisher: &Publisher) -> Result<()> {
        self.table.check_number(self.entry.seqno)?;
        publisher.wait(self.entry.seqno.0);
        Ok(())
    }

    /// The page of its value, if the value has a page of its own.
    pub(super) fn value_page(&self) -> Option<PageId> {
        match self.entry.value {
            FoundValue::OutOfLine { page, .. } if self.entry.tag.kind == Kind::Put => Some(page),
            _ => None,
        }
    }

    /// The meaning of a published answer, if that takes no read. Prefetches a missing page.
    pub(super) fn cached_value(self, memory: &Memory) -> Result<Option<NewestVersion>> {
        let page = match self.value_page() {
            None => None,
            Some(id) => match self.table.pages().cached_or_prefetch(id) {
                None => return Ok(None),
                page => page,
            },
        };
        self.value(memory, page).map(Some)
    }

    /// The meaning of a published answer. `page` is that of [`Answer::value_page`]; without it, an
    /// out-of-line value is returned as an empty one.
    #[inline(always)]
    pub(super) fn value(self, memory: &Memory, page: Option<Page>) -> Result<NewestVersion> {
        let tag = self.entry.tag;
        match tag.kind {
            Kind::Put => {
                let stored = self.stored(memory, page)?;
                NewestVersion::of(tag, || stored)
            }
            _ => NewestVersion::of(tag, || Slice::copy_from(b"")),
        }
    }

    /// Its bytes as they are stored, with `page` as [`Answer::value`] gets it.
    #[inline(always)]
    pub(super) fn stored(self, memory: &Memory, page: Option<Page>) -> Result<Slice> {
        Ok(match (self.entry.value, page) {
            (FoundValue::InBlock(bytes), _) => memory.slice(bytes),
            (FoundValue::OutOfLine { page: id, bytes }, Some(page)) => {
                memory.slice(self.table.value(page, id, bytes)?)
            }
            (FoundValue::OutOfLine { .. }, None) | (FoundValue::Nothing, _) => {
                Slice::copy_from(b"")
            }
        })
    }
}

/// The meaning of a published answer. Reads the page of a value that has one of its own, if it is
/// wanted.
#[inline(always)]
pub(super) fn read_value<O: Observer>(
    memory: &Memory,
    answer: Answer<'_>,
    want: Want,
    observer: &mut O,
) -> Result<NewestVersion> {
    if O::SEES_VALUES
        && let (Tag::PUT, FoundValue::InBlock(value)) = (answer.entry.tag, &answer.entry.value)
        && observer.value(value)
    {
        return Ok(NewestVersion::Value(Slice::copy_from(b"")));
    }
    let page = match answer.value_page() {
        Some(id) if want == Want::Value || answer.entry.tag.flags.has(Flags::EXPIRES) => {
            observer.page(answer.table, id);
            Some(answer.table.pages().page(id)?)
        }
        _ => None,
    };
    answer.value(memory, page)
}
