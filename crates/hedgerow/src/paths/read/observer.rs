//! Observers of a lookup.

use std::sync::Arc;

use super::{Want, get_observed};
use crate::base::entry::{SeqNo, Tag};
use crate::base::error::Result;
use crate::base::expiry::Moment;
use crate::base::page::PageId;
use crate::group_filter::GroupProbe;
use crate::table::filter::RunMask;
use crate::table::{GetState, Lookup, Table};
use crate::tree::engine::{Engine, KeyspaceState};
use crate::tree::memtable::Memtable;

/// Observes the steps of a lookup. `()` ignores them at no cost.
pub(crate) trait Observer {
    /// [`Observer::value`] may return true.
    const SEES_VALUES: bool = false;

    /// A memtable was probed.
    fn memtable(&mut self, _memtable: &Memtable, _found: Option<(SeqNo, Tag)>) {}
    /// A run is about to be probed, by the table whose bounds hold the key, if there is one.
    fn run(&mut self, _place: RunPlace, _table: Option<&Arc<Table>>) {}
    /// The table needs a page, which is fetched next.
    fn page(&mut self, _table: &Table, _id: PageId) {}
    /// A filter over several runs of the group needs a page, which is fetched next.
    fn probe_page(&mut self, _probe: &GroupProbe, _id: PageId) {}
    /// A filter over several runs of the group has answered.
    fn narrowed(&mut self, _level: usize, _group: usize, _left: RunMask) {}
    /// The value of the lookup expires, at a time in milliseconds.
    fn expires(&mut self, _at: u64) {}
    /// The table has answered.
    fn answered(&mut self, _asked: &GetState, _lookup: &Lookup) {}
    /// The value of the lookup, where it is stored. The observer returns true if the lookup need
    /// not copy it: its result is an empty value then. Only values that do not expire and have no
    /// page of their own are offered.
    fn value(&mut self, _value: &[u8]) -> bool {
        false
    }
}

impl Observer for () {}

/// The place of a run in a version: the `run`-th newest run of its group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunPlace {
    pub(crate) level: usize,
    pub(crate) group: usize,
    pub(crate) run: usize,
}

/// Calls `see` with the value of a key at present, where it lies if it can be seen there. The first
/// call of `see` returns true; another one does nothing. Returns false if the key has no value.
pub(crate) fn visit_value(
    engine: &Arc<Engine>,
    state: &KeyspaceState,
    user_key: &[u8],
    see: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<bool> {
    let (moment, want) = (Moment::PRESENT, Want::Value);
    let found = get_observed(
        engine,
        state,
        user_key,
        moment,
        want,
        &mut ValueObserver(see),
    )?;
    if let Some(value) = &found {
        see(value);
    }
    Ok(found.is_some())
}

/// Sees the value of a lookup in place of a copy of it. The function returns true the first time.
/// It is called by its address, so that the lookup is compiled once, as a part of the engine.
struct ValueObserver<'a>(&'a mut dyn FnMut(&[u8]) -> bool);

impl Observer for ValueObserver<'_> {
    const SEES_VALUES: bool = true;

    #[inline]
    fn value(&mut self, value: &[u8]) -> bool {
        (self.0)(value)
    }
}
