//! The tables of one run, one after another, opened when they are reached.

use std::sync::Arc;

use crate::entry::SeqNo;
use crate::error::Result;
use crate::iter::{Entry, InternalIter};
use crate::merge_policy::shape::Facts;
use crate::table::Table;
use crate::version::Version;

/// Iterates over a run of a version, which it keeps.
pub(crate) struct RunIter {
    version: Arc<Version>,
    /// Level, group and run.
    place: (usize, usize, usize),
    /// The open table and its iterator.
    current: Option<(usize, Box<dyn InternalIter>)>,
}

impl RunIter {
    pub(crate) fn new(version: Arc<Version>, place: (usize, usize, usize)) -> RunIter {
        RunIter { version, place, current: None }
    }

    fn tables(&self) -> &[Arc<Table>] {
        let (level, group, run) = self.place;
        &self.version.levels[level].groups[group].runs[run].tables
    }

    /// The iterator of a table, kept if it is the current one; `None` beyond the run.
    fn open(&mut self, table: usize) -> Result<Option<&mut Box<dyn InternalIter>>> {
        if self.current.as_ref().is_none_or(|(open, _)| *open != table) {
            self.current = match self.tables().get(table) {
                None => None,
                Some(found) => Some((table, found.iter()?)),
            };
        }
        Ok(self.current.as_mut().map(|(_, iter)| iter))
    }

    /// On to the first entry of the following tables, if this one is exhausted.
    fn onward(&mut self) -> Result<()> {
        while let Some((table, iter)) = &self.current {
            if iter.entry().is_some() {
                return Ok(());
            }
            let next = table + 1;
            if let Some(iter) = self.open(next)? {
                iter.seek_first()?;
            }
        }
        Ok(())
    }

    /// Back to the last entry of the tables before, if this one is exhausted.
    fn backward(&mut self) -> Result<()> {
        while let Some((table, iter)) = &self.current {
            if iter.entry().is_some() {
                return Ok(());
            }
            let Some(previous) = table.checked_sub(1) else {
                self.current = None;
                return Ok(());
            };
            if let Some(iter) = self.open(previous)? {
                iter.seek_last()?;
            }
        }
        Ok(())
    }
}

impl InternalIter for RunIter {
    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        let table = self.tables().partition_point(|t| t.meta().largest_key.as_slice() < key);
        match self.open(table)? {
            Some(iter) => iter.seek(key, seqno)?,
            None => return Ok(()),
        }
        self.onward()
    }

    fn seek_before(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        let beyond = self.tables().partition_point(|t| t.meta().smallest_key.as_slice() <= key);
        let Some(table) = beyond.checked_sub(1) else {
            self.current = None;
            return Ok(());
        };
        if let Some(iter) = self.open(table)? {
            iter.seek_before(key, seqno)?;
        }
        self.backward()
    }

    fn seek_first(&mut self) -> Result<()> {
        if let Some(iter) = self.open(0)? {
            iter.seek_first()?;
        }
        self.onward()
    }

    fn seek_last(&mut self) -> Result<()> {
        let Some(last) = self.tables().len().checked_sub(1) else { return Ok(()) };
        if let Some(iter) = self.open(last)? {
            iter.seek_last()?;
        }
        self.backward()
    }

    fn advance(&mut self) -> Result<()> {
        if let Some((_, iter)) = &mut self.current {
            iter.advance()?;
        }
        self.onward()
    }

    fn retreat(&mut self) -> Result<()> {
        if let Some((_, iter)) = &mut self.current {
            iter.retreat()?;
        }
        self.backward()
    }

    fn entry(&self) -> Option<Entry<'_>> {
        self.current.as_ref()?.1.entry()
    }
}
