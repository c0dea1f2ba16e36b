//! Gets that memory answers, or nothing.

use hedgerow_mem::Publisher;

use super::{NewestVersion, Position, TableLookup, in_memtables};
use crate::base::entry::{KeyHash, SeqNo, Tag};
use crate::base::error::Result;
use crate::base::expiry::Moment;
use crate::base::page::Step;
use crate::base::slice::Slice;
use crate::base::stats::OperationKind;
use crate::table::Query;
use crate::tree::engine::{Engine, KeyspaceState};
use crate::tree::memtable::Memtable;
use crate::tree::version::Version;

/// The answer of memory alone, from [`Keyspace::get_if_cached`](crate::Keyspace::get_if_cached).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryAnswer {
    /// The key has this value.
    Value(Slice),
    /// The key has no value.
    Absent,
    /// Memory does not know: the answer takes a read of a file.
    Unknown,
}

impl MemoryAnswer {
    /// The value, if memory has it.
    pub fn value(self) -> Option<Slice> {
        match self {
            MemoryAnswer::Value(value) => Some(value),
            MemoryAnswer::Absent | MemoryAnswer::Unknown => None,
        }
    }
}

/// The value of a key at a moment, if memory knows it. Reads no file; a page that is missing is
/// prefetched.
pub(crate) fn get_if_cached(
    engine: &Engine,
    state: &KeyspaceState,
    user_key: &[u8],
    moment: Moment,
) -> Result<MemoryAnswer> {
    engine.check_open()?;
    state.facts.order.check(user_key)?;
    let hash = KeyHash::of(user_key, state.facts.seed);
    let mut scratch = Vec::new();
    let key = state.facts.order.borrow(user_key, &mut scratch);
    let query = Query::alone(key, hash, moment.seqno);
    let tree = state.route(user_key, hash).tree();
    let found = match in_memtables(engine, &tree, &query, &mut ())? {
        None => in_cached_pages(engine, &tree.version, query)?,
        found => found,
    };
    let operations = &state.facts.operations;
    let value = match found {
        None | Some(NewestVersion::Operand) => return Ok(MemoryAnswer::Unknown),
        Some(NewestVersion::Absent) => None,
        Some(NewestVersion::Value(value)) => Some(value),
        Some(NewestVersion::Expiring(stored)) => {
            let found = engine.unexpired(stored, moment.time)?;
            found.map(|(_, value)| value)
        }
    };
    let answer = match value {
        None => MemoryAnswer::Absent,
        Some(value) => {
            operations.add(OperationKind::GetHits, 1);
            MemoryAnswer::Value(value)
        }
    };
    operations.add(OperationKind::Gets, 1);
    Ok(answer)
}

/// The answer of open tables with cached pages, if they have it.
fn in_cached_pages(
    engine: &Engine,
    version: &Version,
    query: Query<'_>,
) -> Result<Option<NewestVersion>> {
    let mut position = Position::default();
    let mut lookup = TableLookup::new(version, query, &mut position);
    lookup.touch_filters();
    let mut page = None;
    while lookup.advance(&mut ()) {
        let source = lookup.source();
        if !source.is_open() {
            return Ok(None);
        }
        match lookup.probe(&engine.stats, page.take(), &mut ())? {
            Step::Read(id) => match source.cached_or_prefetch(id) {
                None => return Ok(None),
                cached => page = cached,
            },
            Step::Done(None) => {}
            Step::Done(Some(answer)) => {
                let answer = answer.published(&engine.publisher)?;
                return answer.cached_value(&engine.memory);
            }
        }
    }
    Ok(Some(NewestVersion::Absent))
}

/// The newest published version of a key, when one that was found before it was published is
/// (invariant I20). A reader that has seen that one must find it in every later scan and snapshot,
/// and the rest of its batch in every get. The key is looked up again, since the batch may write it
/// again, and that write may not have been applied when the first was found.
#[cold]
pub(super) fn published_version<'m>(
    publisher: &Publisher,
    memtable: &'m Memtable,
    (query, found): (&Query<'_>, SeqNo),
) -> Option<(SeqNo, Tag, &'m [u8])> {
    publisher.wait(found.0);
    let published = SeqNo(publisher.published());
    memtable.get(query.key, query.seqno.min(published))
}
