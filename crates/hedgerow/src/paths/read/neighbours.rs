//! Gets of many keys in ascending order. A key is often in the block of the key before it. There it
//! is found without the filter, the index and the page cache.

use std::sync::Arc;

use super::{
    Answer, FoundEntry, LookupSource, NewestVersion, Position, TableLookup, in_memtables, multi_get,
};
use crate::base::entry::{KeyHash, Tag};
use crate::base::error::Result;
use crate::base::expiry::Moment;
use crate::base::page::{Page, PageSlice, Step};
use crate::base::stats::OperationKind;
use crate::table::memory::Memory;
use crate::table::{FoundValue, Lookup, Query, Table};
use crate::tree::engine::{Engine, KeyspaceState};
use crate::tree::version::Version;

/// The number of keys after which the database is asked if it is still open.
const CHECK_EVERY: usize = 1024;
/// After this many keys in turn that were not in the block of the key before, only one key of as
/// many is searched there.
const MISSES_MAX: u32 = 8;

/// Calls `see` with the place and the value of each key that has a value. Keys that memory does not
/// answer come last; their pages are read together.
pub(crate) fn visit_values<K: AsRef<[u8]>>(
    engine: &Engine,
    state: &KeyspaceState,
    user_keys: &[K],
    moment: Moment,
    mut see: impl FnMut(usize, &[u8]),
) -> Result<()> {
    let facts = &state.facts;
    let mut near = Near::default();
    let (mut unknown, mut hits) = (Vec::new(), 0);
    let mut scratch = Vec::new();
    for (at, user_key) in user_keys.iter().enumerate() {
        if at % CHECK_EVERY == 0 {
            engine.check_open()?;
        }
        let user_key = user_key.as_ref();
        facts.order.check(user_key)?;
        let hash = KeyHash::of(user_key, facts.seed);
        let key = facts.order.borrow(user_key, &mut scratch);
        let query = Query::alone(key, hash, moment.seqno);
        let tree = state.route(user_key, hash).tree();
        let found = match in_memtables(engine, &tree, &query, &mut ())? {
            Some(found) => Some(KeyAnswer::Meaning(found)),
            None => near.look(engine, &tree.version, query)?,
        };
        let mut hit = |value: &[u8]| {
            hits += 1;
            see(at, value);
        };
        match found {
            Some(KeyAnswer::Plain(value)) => hit(&value),
            Some(KeyAnswer::Meaning(NewestVersion::Value(value))) => hit(&value),
            Some(KeyAnswer::Meaning(NewestVersion::Absent)) => {}
            Some(KeyAnswer::Meaning(NewestVersion::Expiring(stored))) => {
                if let Some((_, value)) = engine.unexpired(stored, moment.time)? {
                    hit(&value);
                }
            }
            None | Some(KeyAnswer::Meaning(NewestVersion::Operand)) => unknown.push(at),
        }
    }
    let known = user_keys.len() - unknown.len();
    facts.operations.add(OperationKind::Gets, known as u64);
    facts.operations.add(OperationKind::GetHits, hits);
    let keys: Vec<&[u8]> = unknown.iter().map(|at| user_keys[*at].as_ref()).collect();
    let values = multi_get(engine, state, &keys, moment)?;
    for (at, value) in unknown.into_iter().zip(values) {
        if let Some(value) = value {
            see(at, &value);
        }
    }
    Ok(())
}

/// The answer for a key.
enum KeyAnswer {
    /// A put that does not expire, with its value in its block.
    Plain(PageSlice),
    Meaning(NewestVersion),
}

/// The block in which the last key was found.
#[derive(Default)]
struct Near {
    block: Option<(Arc<Table>, Page)>,
    /// The order key that was found there.
    key: Vec<u8>,
    /// The number of keys in turn that were not in the block of the key before.
    misses: u32,
}

impl Near {
    /// The answer of the tables, if they are open and their pages are cached.
    fn look(
        &mut self,
        engine: &Engine,
        version: &Version,
        query: Query<'_>,
    ) -> Result<Option<KeyAnswer>> {
        let mut position = Position::default();
        let mut lookup = TableLookup::new(version, query, &mut position);
        if self.misses > 0 || self.block.is_none() {
            lookup.touch_filters();
        }
        let mut page = None;
        while lookup.advance(&mut ()) {
            let source = lookup.source();
            if !source.is_open() {
                return Ok(None);
            }
            if let (LookupSource::Table(table), None) = (source, &page)
                && let Some(answer) = self.answer(table, &query)?
            {
                match lookup.conclude(&engine.stats, table, answer) {
                    Some(answer) => {
                        return seen(answer.published(&engine.publisher)?, &engine.memory);
                    }
                    None => continue,
                }
            }
            let block = page.clone();
            match lookup.probe(&engine.stats, page.take(), &mut ())? {
                Step::Read(id) => match source.cached_or_prefetch(id) {
                    None => return Ok(None),
                    cached => page = cached,
                },
                Step::Done(None) => {}
                Step::Done(Some(answer)) => {
                    self.block = block.map(|page| (answer.table.clone(), page));
                    self.note(query.key);
                    return seen(answer.published(&engine.publisher)?, &engine.memory);
                }
            }
        }
        Ok(Some(KeyAnswer::Meaning(NewestVersion::Absent)))
    }

    /// The answer of a table by the last block alone: the key is between one that is there and
    /// another. `None` if that block does not tell.
    fn answer(&mut self, table: &Arc<Table>, query: &Query<'_>) -> Result<Option<Lookup>> {
        let Some((of, page)) = &self.block else {
            return Ok(None);
        };
        if !Arc::ptr_eq(of, table) || query.key <= self.key.as_slice() {
            return Ok(None);
        }
        let opened = table.opened()?;
        if opened.ranges.is_some() {
            return Ok(None);
        }
        if self.misses >= MISSES_MAX && !self.misses.is_multiple_of(MISSES_MAX) {
            self.misses += 1;
            return Ok(None);
        }
        let answer = opened.reader.get_within(query, page)?;
        match &answer {
            None => self.misses += 1,
            Some(Lookup::Absent) => {}
            Some(Lookup::Found { .. }) => {
                self.misses = 0;
                self.note(query.key);
            }
        }
        Ok(answer)
    }

    fn note(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
    }
}

/// The meaning of a published answer, if that takes no read.
fn seen(answer: Answer<'_>, memory: &Memory) -> Result<Option<KeyAnswer>> {
    match answer.entry {
        FoundEntry {
            tag: Tag::PUT,
            value: FoundValue::InBlock(value),
            ..
        } => Ok(Some(KeyAnswer::Plain(value))),
        _ => Ok(answer.cached_value(memory)?.map(KeyAnswer::Meaning)),
    }
}
