//! The path of a read, top to bottom: one atomic load of memtables and version, then the memtables,
//! then the groups, newest first: filter, index, block, value.
//!
//! Tables answer as state machines that name the page they need ([`Step::Read`]). So one lookup
//! serves a get, with one page at a time, and [`Gets`], with many pages in flight, for a
//! `multi_get` and for the calls in a worker's queue. Each of these resumes when its page arrives,
//! while the device reads others.
//!
//! `explain` is a get with an [`Observer`] that records the steps.
//!
//! Cost of a get: only memory for an entry in a memtable; otherwise at most one page per paged
//! filter and index probed, and one data page in the table that answers (plus one per false
//! positive of a filter). It takes one lock per page: that of a set of the page cache.

mod answer;
mod cached;
pub(crate) mod combining;
mod gets;
mod neighbours;
mod observer;

use answer::{Answer, FoundEntry, read_value};
pub use cached::MemoryAnswer;
pub(crate) use cached::get_if_cached;
use cached::published_version;
pub(crate) use gets::{Gets, View};
pub(crate) use neighbours::visit_values;
pub(crate) use observer::{Observer, RunPlace, visit_value};

use std::borrow::Cow;
use std::sync::Arc;

use crate::base::entry::{Flags, KeyHash, Kind, SeqNo, Tag};
use crate::base::error::{ErrorKind, Result};
use crate::base::expiry::Moment;
use crate::base::page::{Page, PageId, Step};
use crate::base::range_tombstones::RangeTombstones;
use crate::base::slice::Slice;
use crate::base::stats::{OperationKind, Stats};
use crate::design::merge_policy::shape::{Group, Run};
use crate::group_filter::GroupProbe;
use crate::paths::background;
use crate::paths::compaction::paid::{self, Payer};
use crate::table::filter::RunMask;
use crate::table::paged_file::PagedFile;
use crate::table::{GetState, Lookup, Query, Table};
use crate::tree::engine::{Engine, KeyspaceState};
use crate::tree::version::{SuperVersion, Version};

/// The part of the value that a lookup needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    Value,
    /// Only the existence of a value: out-of-line values are not read.
    Existence,
}

/// The value of a key at a moment.
pub(crate) fn get(
    engine: &Arc<Engine>,
    state: &KeyspaceState,
    user_key: &[u8],
    moment: Moment,
    want: Want,
) -> Result<Option<Slice>> {
    get_observed(engine, state, user_key, moment, want, &mut ())
}

/// Gets as [`get`] does, and reports each step to an observer.
pub(crate) fn get_observed(
    engine: &Arc<Engine>,
    state: &KeyspaceState,
    user_key: &[u8],
    moment: Moment,
    want: Want,
    observer: &mut impl Observer,
) -> Result<Option<Slice>> {
    engine.check_open()?;
    state.facts.order.check(user_key)?;
    let hash = KeyHash::of(user_key, state.facts.seed);
    let mut scratch = Vec::new();
    let key = state.facts.order.borrow(user_key, &mut scratch);
    let query = Query::alone(key, hash, moment.seqno);

    let tree = state.route(user_key, hash).tree();
    let found = match in_memtables(engine, &tree, &query, observer)? {
        Some(found) => found,
        None => match in_tables(&engine.stats, &tree.version, query, observer)? {
            Some(answer) => {
                let answer = answer.published(&engine.publisher)?;
                read_value(&engine.memory, answer, want, observer)?
            }
            None => NewestVersion::Absent,
        },
    };
    let found = match found {
        NewestVersion::Value(value) => Some(value),
        NewestVersion::Absent => None,
        NewestVersion::Expiring(stored) => {
            let found = engine.unexpired(stored, moment.time)?;
            let found = found.inspect(|(at, _)| observer.expires(*at));
            found.map(|(_, value)| value)
        }
        NewestVersion::Operand => {
            let partition = state.route(user_key, hash);
            let (value, in_tables) =
                combining::combined(engine, partition, (&query, moment.time), observer)?;
            if in_tables > combining::AT_REST_MAX && engine.snapshots.oldest().0 == 0 {
                background::fold_operands(engine, partition, key);
            }
            value
        }
    };
    let operations = &state.facts.operations;
    if operations.add_one_of(OperationKind::Gets, paid::LOOK_EVERY) {
        background::serve_reads(engine, state, Payer::Gets, 0..state.partitions.len());
    }
    if found.is_some() {
        operations.add(OperationKind::GetHits, 1);
    }
    Ok(found)
}

/// The newest version of a key in the tables. Gets call it from one place, so it is a part of them.
#[inline(always)]
fn in_tables<'v>(
    stats: &Stats,
    version: &'v Version,
    query: Query<'_>,
    observer: &mut impl Observer,
) -> Result<Option<Answer<'v>>> {
    let mut position = Position::default();
    let mut lookup = TableLookup::new(version, query, &mut position);
    lookup.touch_filters();
    let mut page = None;
    loop {
        match lookup.step(stats, page.take(), observer)? {
            Step::Read(id) => {
                let source = lookup.source();
                match source {
                    LookupSource::Table(table) => observer.page(table, id),
                    LookupSource::Probe(probe) => observer.probe_page(probe, id),
                }
                page = lookup.accept(source, source.page(id))?;
            }
            Step::Done(answer) => return Ok(answer),
        }
    }
}

/// The newest versions of several keys, in the order of the keys. Pages that are not cached are
/// read at the same time, as far as the device can.
pub(crate) fn multi_get<K: AsRef<[u8]>>(
    engine: &Engine,
    state: &KeyspaceState,
    user_keys: &[K],
    moment: Moment,
) -> Result<Vec<Option<Slice>>> {
    engine.check_open()?;
    let mut view = View::new(state, moment);
    let mut gets = Gets::new(engine);
    let mut values = vec![None; user_keys.len()];
    let mut keys = user_keys.iter().enumerate();
    loop {
        while gets.has_room()
            && let Some((at, key)) = keys.next()
        {
            let key = key.as_ref();
            state.facts.order.check(key)?;
            let hash = KeyHash::of(key, state.facts.seed);
            gets.begin(&mut view, Cow::Borrowed(key), hash, at);
        }
        gets.go_on();
        for (at, value) in gets.ended() {
            values[at] = value?;
        }
        if !gets.wait() {
            break;
        }
    }
    let operations = &state.facts.operations;
    operations.add(OperationKind::Gets, user_keys.len() as u64);
    let hits = values.iter().flatten().count();
    operations.add(OperationKind::GetHits, hits as u64);
    Ok(values)
}

/// The meaning of the newest version of a key.
pub(crate) enum NewestVersion {
    Value(Slice),
    /// It is a put that expires: a time, then the value.
    Expiring(Slice),
    /// It is a tombstone, or there is no version.
    Absent,
    /// It is an operand, so older versions count, too.
    Operand,
}

impl NewestVersion {
    /// The meaning of a version with this tag. `value` is called for a value.
    #[inline]
    fn of(tag: Tag, value: impl FnOnce() -> Slice) -> Result<NewestVersion> {
        match tag.kind {
            Kind::Put if tag.flags.has(Flags::EXPIRES) => Ok(NewestVersion::Expiring(value())),
            Kind::Put => Ok(NewestVersion::Value(value())),
            Kind::Delete | Kind::RangeDelete => Ok(NewestVersion::Absent),
            Kind::Merge => Ok(NewestVersion::Operand),
            Kind::ValueRef => Err(tag.of_later_version()),
        }
    }
}

/// The answer of the memtables, if they have one.
fn in_memtables(
    engine: &Engine,
    tree: &SuperVersion,
    query: &Query<'_>,
    observer: &mut impl Observer,
) -> Result<Option<NewestVersion>> {
    for memtable in tree.memtables() {
        let published = engine.publisher.published();
        let found = match memtable.get(query.key, query.seqno) {
            Some((seqno, ..)) if seqno.0 > published => {
                published_version(&engine.publisher, memtable, (query, seqno))
            }
            found => found,
        };
        observer.memtable(memtable, found.map(|(seqno, tag, _)| (seqno, tag)));
        if let Some((_, tag, value)) = found {
            engine.stats.memtable_hits.add(1);
            let is_seen = tag == Tag::PUT && observer.value(value);
            return NewestVersion::of(tag, || Slice::copy_from(if is_seen { b"" } else { value }))
                .map(Some);
        }
    }
    Ok(None)
}

/// A filter or a table that is being probed and may need a page.
#[derive(Clone, Copy)]
pub(crate) enum LookupSource<'a> {
    /// A filter over several runs of a group.
    Probe(&'a GroupProbe),
    Table(&'a Arc<Table>),
}

impl<'a> LookupSource<'a> {
    /// The file of the page that it may need. `None` for a filter in memory that is not a cluster.
    fn file(self) -> Option<&'a PagedFile> {
        match self {
            LookupSource::Table(table) => Some(table.pages()),
            LookupSource::Probe(probe) => probe.filter.file(),
        }
    }

    fn page(self, id: PageId) -> Result<Page> {
        match self {
            LookupSource::Table(table) => table.pages().page(id),
            LookupSource::Probe(probe) => probe.pages.page(id),
        }
    }

    /// Returns true if it answers without opening a file.
    fn is_open(self) -> bool {
        match self {
            LookupSource::Table(table) => table.is_open(),
            LookupSource::Probe(_) => true,
        }
    }

    /// The page, if it is cached. Otherwise prefetches it.
    fn cached_or_prefetch(self, id: PageId) -> Option<Page> {
        self.file()?.cached_or_prefetch(id)
    }
}

/// A lookup on its way through the tables of a version. It visits the levels from 0. In each level
/// it visits the group of the key: first the filters over several runs, then the remaining runs,
/// newest first. In each run it probes the one table whose bounds hold the key.
pub(crate) struct TableLookup<'v, 'a> {
    version: &'v Version,
    query: Query<'a>,
    at: &'a mut Position,
}

/// The position of a lookup, without its version.
#[derive(Default)]
pub(crate) struct Position {
    level: usize,
    group: Option<GroupPosition>,
    source: Option<SourcePlace>,
    /// The page that a filter over several runs wanted last, and its content once it is read.
    /// Filters of other levels may be in the same page.
    probe_page: Option<(PageId, Option<Page>)>,
    state: GetState,
}

/// The position of a lookup in a group.
struct GroupPosition {
    number: usize,
    /// The runs that may hold the key and are still to be probed.
    runs: RunMask,
    /// The run that is being probed.
    run: usize,
    /// The number of the group's filters that have answered.
    probed: usize,
}

/// The filter or table of a group that is being probed.
#[derive(Clone, Copy)]
enum SourcePlace {
    Probe(usize),
    /// A table of the run that is being probed.
    Table(usize),
}

impl Position {
    /// The filter or table that needs the page for which the lookup waits.
    fn source<'a>(&self, version: &'a Version) -> LookupSource<'a> {
        let (Some(at), Some(source)) = (&self.group, self.source) else {
            panic!("a lookup that wants a page asks somebody for it");
        };
        let group = &version.levels[self.level].groups[at.number];
        match source {
            SourcePlace::Probe(probe) => LookupSource::Probe(&group.filters.probes[probe]),
            SourcePlace::Table(table) => LookupSource::Table(&group.runs[at.run].tables[table]),
        }
    }
}

impl<'v, 'a> TableLookup<'v, 'a> {
    pub(crate) fn new(version: &'v Version, query: Query<'a>, at: &'a mut Position) -> Self {
        TableLookup { version, query, at }
    }

    /// The filter or table that needs a page.
    pub(crate) fn source(&self) -> LookupSource<'v> {
        self.at.source(self.version)
    }

    /// Prefetches the cache lines that every filter on the lookup path will probe, so that their
    /// misses overlap instead of adding up. Cost: for each run without a filter over several runs,
    /// a search among its tables; one to five cache lines for each filter.
    fn touch_filters(&self) {
        let Query { key, hash, .. } = self.query;
        // Large levels, whose filters are seldom in a cache, have the most time to come.
        for level in self.version.levels.iter().rev() {
            if level.is_empty() {
                continue;
            }
            let group = &level.groups[level.group_for(key)];
            group.filters.touch(hash);
            // Tables under a filter over several runs have no filters of their own.
            if !group.filters.probes.is_empty() {
                continue;
            }
            for run in &group.runs {
                if let Some(at) = run.place_for(key) {
                    run.tables[at].touch(hash);
                }
            }
        }
    }

    /// Accepts the page that is needed. If the page of a filter over several runs is damaged, the
    /// lookup skips the filter: the filter is rebuilt from the tables, and they know the answer.
    #[inline]
    fn accept(&mut self, source: LookupSource<'_>, page: Result<Page>) -> Result<Option<Page>> {
        match (source, page) {
            (LookupSource::Probe(probe), Err(error)) if error.kind() == ErrorKind::Corruption => {
                probe.pages.note_damage(&error);
                self.at.source = None;
                Ok(None)
            }
            (_, page) => page.map(Some),
        }
    }

    /// Proceeds until it needs a page or has the answer. `page` is the page needed before.
    pub(crate) fn step(
        &mut self,
        stats: &Stats,
        mut page: Option<Page>,
        observer: &mut impl Observer,
    ) -> Result<Step<Option<Answer<'v>>>> {
        while self.advance(observer) {
            match self.probe(stats, page.take(), observer)? {
                Step::Done(None) => {}
                answer => return Ok(answer),
            }
        }
        Ok(Step::Done(None))
    }

    /// Advances to the next filter or table once the last one has answered. Returns false if there
    /// is none.
    #[inline(always)]
    fn advance(&mut self, observer: &mut impl Observer) -> bool {
        if self.at.source.is_none() {
            self.at.source = self.next(observer);
        }
        self.at.source.is_some()
    }

    /// Probes the filter or table that it has advanced to. `Done(None)`: the lookup continues with
    /// the next one.
    #[inline(always)]
    fn probe(
        &mut self,
        stats: &Stats,
        page: Option<Page>,
        observer: &mut impl Observer,
    ) -> Result<Step<Option<Answer<'v>>>> {
        let answer = match self.source() {
            LookupSource::Probe(probe) => self.probe_group_filter(probe, stats, page, observer)?,
            LookupSource::Table(table) => self.probe_table(table, stats, page, observer)?,
        };
        if matches!(answer, Step::Done(None)) {
            self.at.source = None;
        }
        Ok(answer)
    }

    fn probe_group_filter(
        &mut self,
        probe: &GroupProbe,
        stats: &Stats,
        page: Option<Page>,
        observer: &mut impl Observer,
    ) -> Result<Step<Option<Answer<'v>>>> {
        if let (Some((_, kept)), Some(page)) = (&mut self.at.probe_page, &page) {
            *kept = Some(page.clone());
        }
        let hash = self.query.hash;
        let mut answer = probe.filter.candidates(hash, page.as_ref())?;
        if let (Step::Read(id), Some((kept_id, Some(kept)))) = (&answer, &self.at.probe_page)
            && id == kept_id
        {
            answer = probe.filter.candidates(hash, Some(kept))?;
        }
        let candidates = match answer {
            Step::Read(id) => {
                self.at.probe_page = Some((id, None));
                return Ok(Step::Read(id));
            }
            Step::Done(candidates) => candidates,
        };
        stats.filter_probes.add(1);
        if let Some(at) = &mut self.at.group {
            let group = &self.version.levels[self.at.level].groups[at.number];
            let left = probe.narrow(group, at.runs, candidates);
            at.runs = match group.range_tombstones() {
                0 => left,
                _ => RunMask(left.0 | at.runs.0 & runs_with_ranges(group, self.query.key).0),
            };
            observer.narrowed(self.at.level, at.number, at.runs);
        }
        Ok(Step::Done(None))
    }

    fn probe_table(
        &mut self,
        table: &'v Arc<Table>,
        stats: &Stats,
        page: Option<Page>,
        observer: &mut impl Observer,
    ) -> Result<Step<Option<Answer<'v>>>> {
        let opened = table.opened()?;
        let deleted = opened.ranges.as_ref().and_then(|it| self.deleted_by(it));
        // Nothing of the table is newer than its newest delete.
        let is_newest = deleted.is_some_and(|at| at >= table.meta().largest_seqno);
        let step = match is_newest {
            true => Step::Done(Lookup::Absent),
            false => opened.reader.get(&self.query, &mut self.at.state, page)?,
        };
        let lookup = match (step, deleted) {
            (Step::Read(id), _) => return Ok(Step::Read(id)),
            (Step::Done(lookup), None) => lookup,
            (Step::Done(lookup), Some(at)) => lookup.or_deleted(at),
        };
        let state = std::mem::take(&mut self.at.state);
        observer.answered(&state, &lookup);
        if state.filter_probed {
            stats.filter_probes.add(1);
        }
        if state.filter_passed && matches!(lookup, Lookup::Absent) {
            stats.filter_false_positives.add(1);
        }
        Ok(Step::Done(self.conclude(stats, table, lookup)))
    }

    /// Takes the answer of the table that it has advanced to. `None`: it continues with the next.
    #[inline(always)]
    fn conclude(
        &mut self,
        stats: &Stats,
        table: &'v Arc<Table>,
        lookup: Lookup,
    ) -> Option<Answer<'v>> {
        match lookup {
            Lookup::Found { seqno, tag, value } => {
                stats.count_hit(self.at.level);
                let entry = FoundEntry { seqno, tag, value };
                Some(Answer { table, entry })
            }
            Lookup::Absent => {
                self.at.source = None;
                None
            }
        }
    }

    /// The number of the newest range tombstone of the key.
    #[cold]
    fn deleted_by(&self, ranges: &RangeTombstones) -> Option<SeqNo> {
        let newest = ranges.newest(self.query.key, self.query.seqno);
        newest.map(|(_, delete)| delete.seqno)
    }

    /// The filter or table to probe next.
    #[inline]
    fn next(&mut self, observer: &mut impl Observer) -> Option<SourcePlace> {
        let (key, position) = (self.query.key, &mut *self.at);
        while let Some(level) = self.version.levels.get(position.level) {
            if level.is_empty() {
                position.level += 1;
                continue;
            }
            let at = position.group.get_or_insert_with(|| {
                let number = level.group_for(key);
                GroupPosition {
                    number,
                    runs: RunMask::all(level.groups[number].runs.len()),
                    run: 0,
                    probed: 0,
                }
            });
            let group = &level.groups[at.number];
            if at.probed < group.filters.probes.len() && !at.runs.is_empty() {
                at.probed += 1;
                return Some(SourcePlace::Probe(at.probed - 1));
            }
            while let Some(run) = at.runs.take_newest() {
                at.run = run;
                let tables = &group.runs[run];
                let table = tables.place_for(key);
                let place = RunPlace {
                    level: position.level,
                    group: at.number,
                    run,
                };
                observer.run(place, table.map(|at| &tables.tables[at]));
                if let Some(table) = table {
                    return Some(SourcePlace::Table(table));
                }
            }
            position.level += 1;
            position.group = None;
        }
        None
    }
}

/// The runs of a group whose table for a key has range tombstones. No filter knows these.
#[cold]
fn runs_with_ranges(group: &Group<Arc<Table>>, key: &[u8]) -> RunMask {
    let has_ranges = |run: &Run<Arc<Table>>| {
        let table = run.place_for(key).map(|at| &run.tables[at]);
        table.is_some_and(|table| table.meta().range_tombstones > 0)
    };
    let runs = group.runs.iter().enumerate();
    let found = runs.filter(|(_, run)| has_ranges(run));
    RunMask(found.fold(0, |mask, (at, _)| mask | 1 << at))
}

#[cfg(test)]
mod tests;
