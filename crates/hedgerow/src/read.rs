//! The path of a read, top to bottom: one atomic load of memtables and version, then memtables,
//! then groups newest first: filter, index, block, value.
//!
//! Tables answer as state machines that name the page they want to see ([`Step::Read`]), so the same
//! lookup runs with one page at a time for a get and with many in flight for a `multi_get`.
//!
//! `explain` is a get with an [`Observer`] that writes down what it hears.
//!
//! Cost of a get: nothing but memory for what is in memtables; for the rest, at most one page per
//! paged filter and index asked, and one data page in the table that answers (plus one per false
//! positive of a filter). No lock but that of one set of the page cache, per page.

use std::sync::Arc;

use crate::engine::{Engine, KeyspaceState};
use crate::entry::{KeyHash, Kind, SeqNo, Tag};
use crate::error::{Error, ErrorKind, Result};
use crate::filter::RunMask;
use crate::memtable::Memtable;
use crate::merge_policy::shape::{Group, GroupProbe};
use crate::page::{Page, PageId, Step};
use crate::slice::Slice;
use crate::stats::Stats;
use crate::table::paged_file::PagedFile;
use crate::table::{FoundValue, GetState, Lookup, Query, Table};
use crate::version::clusters::attached;
use crate::version::{SuperVersion, Version};

/// How many keys of a `multi_get` are in flight at once.
const IN_FLIGHT_MAX: usize = 64;

/// What a lookup wants done with the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    Value,
    /// Whether there is one: values out of line are not read.
    Existence,
}

/// Hears how a lookup goes on. `()` hears nothing, and costs nothing.
pub(crate) trait Observer {
    /// A memtable was asked.
    fn memtable(&mut self, _memtable: &Memtable, _found: Option<(SeqNo, Tag)>) {}
    /// A run is to be asked, by the table whose bounds hold the key, if it has one.
    fn run(&mut self, _place: RunPlace, _table: Option<&Arc<Table>>) {}
    /// The table wants a page, which is fetched next.
    fn page(&mut self, _table: &Table, _id: PageId) {}
    /// A filter over several runs of the group wants a page, which is fetched next.
    fn probe_page(&mut self, _probe: &GroupProbe, _id: PageId) {}
    /// A filter over several runs of the group has answered.
    fn narrowed(&mut self, _level: usize, _group: usize, _left: RunMask) {}
    /// The table has answered.
    fn answered(&mut self, _asked: &GetState, _lookup: &Lookup) {}
}

impl Observer for () {}

/// Which run of a version: the `run`-th newest of its group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunPlace {
    pub(crate) level: usize,
    pub(crate) group: usize,
    pub(crate) run: usize,
}

/// The newest version of a key numbered at most `seqno`, if it is not deleted.
pub(crate) fn get(
    engine: &Engine,
    state: &KeyspaceState,
    user_key: &[u8],
    seqno: SeqNo,
    want: Want,
) -> Result<Option<Slice>> {
    get_observed(engine, state, user_key, seqno, want, &mut ())
}

/// As [`get`], told to an observer.
pub(crate) fn get_observed(
    engine: &Engine,
    state: &KeyspaceState,
    user_key: &[u8],
    seqno: SeqNo,
    want: Want,
    observer: &mut impl Observer,
) -> Result<Option<Slice>> {
    engine.check_open()?;
    state.facts.order.check(user_key)?;
    let hash = KeyHash::of(user_key, state.facts.seed);
    let mut scratch = Vec::new();
    let key = state.facts.order.borrow(user_key, &mut scratch);
    let query = Query { key, hash, seqno };

    let tree = state.route(user_key, hash).tree();
    let found = match in_memtables(engine, &tree, &query, observer)? {
        Some(found) => found,
        None => {
            let mut lookup = TableLookup::new(&tree.version, query);
            let mut page = None;
            loop {
                match lookup.step(&engine.stats, page.take(), observer)? {
                    Step::Read(id) => {
                        let asked = lookup.asked();
                        match asked {
                            Asked::Table(table) => observer.page(table, id),
                            Asked::Probe(probe) => observer.probe_page(probe, id),
                        }
                        page = lookup.fetch(id)?;
                    }
                    Step::Done(answer) => break read_value(engine, answer, want, observer)?,
                }
            }
        }
    };
    let operations = &state.facts.operations;
    operations.gets.add(1);
    if found.is_some() {
        operations.get_hits.add(1);
    }
    Ok(found)
}

/// The newest version of a key, if that is known without reading a file: `None` if it is not; the
/// device has heard then of the page that is missing.
#[allow(
    clippy::option_option,
    reason = "no answer, the answer that there is no value, a value"
)]
pub(crate) fn get_cached(
    engine: &Engine,
    state: &KeyspaceState,
    user_key: &[u8],
) -> Result<Option<Option<Slice>>> {
    let hash = KeyHash::of(user_key, state.facts.seed);
    let mut scratch = Vec::new();
    let key = state.facts.order.borrow(user_key, &mut scratch);
    let query = Query {
        key,
        hash,
        seqno: SeqNo::MAX,
    };
    let tree = state.route(user_key, hash).tree();
    let found = match in_memtables(engine, &tree, &query, &mut ())? {
        Some(found) => found,
        None => {
            let mut lookup = TableLookup::new(&tree.version, query);
            let mut page = None;
            loop {
                match lookup.step(&engine.stats, page.take(), &mut ())? {
                    Step::Read(id) => match lookup.asked().cached(id) {
                        Some(cached) => page = Some(cached),
                        None => {
                            lookup.asked().prefetch(id);
                            return Ok(None);
                        }
                    },
                    Step::Done(Some(answer)) if !answer.is_here() => return Ok(None),
                    Step::Done(answer) => break read_value(engine, answer, Want::Value, &mut ())?,
                }
            }
        }
    };
    let operations = &state.facts.operations;
    operations.gets.add(1);
    if found.is_some() {
        operations.get_hits.add(1);
    }
    Ok(Some(found))
}

/// The newest versions of several keys, in the order of the keys. Pages that are not cached are
/// asked for together, so that a device with a queue reads them at the same time.
pub(crate) fn multi_get<K: AsRef<[u8]>>(
    engine: &Engine,
    state: &KeyspaceState,
    user_keys: &[K],
    seqno: SeqNo,
) -> Result<Vec<Option<Slice>>> {
    engine.check_open()?;
    let mut values = Vec::with_capacity(user_keys.len());
    for keys in user_keys.chunks(IN_FLIGHT_MAX) {
        get_together(engine, state, keys, seqno, &mut values)?;
    }
    Ok(values)
}

fn get_together<K: AsRef<[u8]>>(
    engine: &Engine,
    state: &KeyspaceState,
    user_keys: &[K],
    seqno: SeqNo,
    values: &mut Vec<Option<Slice>>,
) -> Result<()> {
    let mut trees: Vec<Option<Arc<SuperVersion>>> = vec![None; state.partitions.len()];
    let mut routed = Vec::with_capacity(user_keys.len());
    for user_key in user_keys {
        let user_key = user_key.as_ref();
        state.facts.order.check(user_key)?;
        let hash = KeyHash::of(user_key, state.facts.seed);
        let partition = state.facts.router.route(user_key, hash);
        trees[partition].get_or_insert_with(|| state.partitions[partition].tree_owned());
        routed.push((hash, partition, Vec::new()));
    }
    let first = values.len();
    values.resize(first + user_keys.len(), None);
    let mut under_way = Vec::with_capacity(user_keys.len());
    for (i, (hash, partition, scratch)) in routed.iter_mut().enumerate() {
        let Some(tree) = &trees[*partition] else {
            continue;
        };
        let query = Query {
            key: state.facts.order.borrow(user_keys[i].as_ref(), scratch),
            hash: *hash,
            seqno,
        };
        match in_memtables(engine, tree, &query, &mut ())? {
            Some(found) => values[first + i] = found,
            None => under_way.push((first + i, TableLookup::new(&tree.version, query), None)),
        }
    }
    under_way
        .iter()
        .for_each(|(_, lookup, _)| lookup.touch_probes());
    let mut wanted = Vec::with_capacity(under_way.len());
    let mut missing = Vec::new();
    while !under_way.is_empty() {
        for (at, mut lookup, page) in under_way.drain(..) {
            match lookup.step(&engine.stats, page, &mut ())? {
                Step::Read(id) => wanted.push((at, lookup, id)),
                Step::Done(answer) => {
                    values[at] = read_value(engine, answer, Want::Value, &mut ())?;
                }
            }
        }
        // Memory has a queue, too: it hears of all pages before the first is looked at.
        let cache = &engine.memory.cache;
        wanted.iter().for_each(|(_, _, id)| cache.prefetch_set(*id));
        wanted
            .iter()
            .for_each(|(_, _, id)| cache.prefetch_page(*id));
        for (at, lookup, id) in wanted.drain(..) {
            match lookup.asked().cached(id) {
                Some(page) => {
                    engine.stats.pages_asked.add(1);
                    under_way.push((at, lookup, Some(page)));
                }
                None => missing.push((at, lookup, id)),
            }
        }
        // All that are left want a page that is not here.
        if under_way.is_empty() {
            let asked = missing.iter().map(|(_, lookup, id)| (lookup.asked(), *id));
            let pages = read_together(engine, &asked.collect::<Vec<_>>());
            for ((at, mut lookup, _), page) in missing.drain(..).zip(pages) {
                let page = lookup.accept(page)?;
                under_way.push((at, lookup, page));
            }
        }
    }
    let operations = &state.facts.operations;
    operations.gets.add(user_keys.len() as u64);
    operations
        .get_hits
        .add(values[first..].iter().flatten().count() as u64);
    Ok(())
}

/// Pages that are not cached, read at the same time, each of them once.
fn read_together(engine: &Engine, wanted: &[(Asked<'_>, PageId)]) -> Vec<Result<Page>> {
    let mut in_files: Vec<(&PagedFile, PageId)> = Vec::with_capacity(wanted.len());
    let place = |in_files: &[(&PagedFile, PageId)], id| in_files.iter().position(|it| it.1 == id);
    for &(asked, id) in wanted {
        if let (Some(file), None) = (asked.file(), place(&in_files, id)) {
            in_files.push((file, id));
        }
    }
    let pages = PagedFile::read_together(&in_files);
    let page = |&(asked, id): &(Asked<'_>, PageId)| match place(&in_files, id) {
        Some(at) => {
            engine.stats.pages_asked.add(1);
            pages[at].clone()
        }
        None => asked.page(id),
    };
    wanted.iter().map(page).collect()
}

/// `Some(None)` is a tombstone: an answer, too.
#[allow(
    clippy::option_option,
    reason = "no answer, the answer that there is no value, a value"
)]
fn in_memtables(
    engine: &Engine,
    tree: &SuperVersion,
    query: &Query<'_>,
    observer: &mut impl Observer,
) -> Result<Option<Option<Slice>>> {
    for memtable in tree.memtables() {
        let found = memtable.get(query.key, query.seqno);
        observer.memtable(memtable, found.map(|(seqno, tag, _)| (seqno, tag)));
        if let Some((seqno, tag, value)) = found {
            wait_until_published(engine, seqno);
            engine.stats.memtable_hits.add(1);
            return Ok(Some(has_value(tag)?.then(|| Slice::copy_from(value))));
        }
    }
    Ok(None)
}

/// What was found is applied, but perhaps not published yet (invariant I20): who has seen it must
/// find it in every scan and snapshot from now on, and the rest of its batch or bulk load in every
/// get.
#[inline]
fn wait_until_published(engine: &Engine, seqno: SeqNo) {
    if seqno.0 > engine.publisher.published() {
        engine.publisher.wait(seqno.0);
    }
}

/// Whether an entry gives its key a value; kinds that this version cannot interpret are an error.
pub(crate) fn has_value(tag: Tag) -> Result<bool> {
    match tag.kind {
        Kind::Put => Ok(true),
        Kind::Delete => Ok(false),
        other => Err(Error::new(
            ErrorKind::FormatVersion,
            format!(
                "expected a put or a delete, found an entry of kind {other:?} of a later version"
            ),
        )),
    }
}

/// What the tables of a version say of a key.
pub(crate) struct Answer {
    table: Arc<Table>,
    seqno: SeqNo,
    tag: Tag,
    value: FoundValue,
}

impl Answer {
    /// Whether its value needs no read.
    fn is_here(&self) -> bool {
        !matches!(self.value, FoundValue::OutOfLine { .. })
    }
}

fn read_value(
    engine: &Engine,
    answer: Option<Answer>,
    want: Want,
    observer: &mut impl Observer,
) -> Result<Option<Slice>> {
    let Some(answer) = answer else {
        return Ok(None);
    };
    wait_until_published(engine, answer.seqno);
    if !has_value(answer.tag)? {
        return Ok(None);
    }
    let bytes = match answer.value {
        _ if want == Want::Existence => return Ok(Some(Slice::copy_from(b""))),
        FoundValue::InBlock(bytes) => bytes,
        FoundValue::OutOfLine { page, bytes } => {
            observer.page(&answer.table, page);
            answer.table.value(page, bytes)?
        }
    };
    Ok(Some(engine.slice(bytes)))
}

/// Who is being asked and may want a page.
#[derive(Clone, Copy)]
pub(crate) enum Asked<'a> {
    /// A filter over several runs of a group.
    Probe(&'a GroupProbe),
    Table(&'a Arc<Table>),
}

impl<'a> Asked<'a> {
    /// The file whose page it may want; none of a filter that is not a cluster, and in memory.
    fn file(self) -> Option<&'a PagedFile> {
        match self {
            Asked::Table(table) => Some(table.pages()),
            Asked::Probe(probe) => attached(probe).map(|it| it.cluster.pages()),
        }
    }

    fn page(self, id: PageId) -> Result<Page> {
        match self {
            Asked::Table(table) => table.pages().page(id),
            Asked::Probe(probe) => probe.pages.page(id),
        }
    }

    /// Whoever reads the page hears that it will be needed.
    fn prefetch(self, id: PageId) {
        if let Some(file) = self.file() {
            file.prefetch(id);
        }
    }

    /// The page if it is at hand.
    fn cached(self, id: PageId) -> Option<Page> {
        self.file()?.cached(id)
    }
}

/// A lookup on its way through the tables of a version: levels from 0, in each the group that the
/// key belongs to, in it first the filters over several runs, then the runs that are left, newest
/// first, in each the one table whose bounds hold the key.
pub(crate) struct TableLookup<'a> {
    version: &'a Version,
    query: Query<'a>,
    level: usize,
    group: Option<GroupLookup<'a>>,
    asked: Option<Asked<'a>>,
    state: GetState,
}

/// How far a lookup has come in a group.
struct GroupLookup<'a> {
    number: usize,
    group: &'a Group<Arc<Table>>,
    /// The runs that may hold the key and are still to be asked.
    runs: RunMask,
    /// Runs that were left out by filters that know the newest run of a key only.
    hidden: RunMask,
    /// The run that is asked.
    run: usize,
    /// How many of the group's probes have answered.
    probed: usize,
}

impl<'a> TableLookup<'a> {
    pub(crate) fn new(version: &'a Version, query: Query<'a>) -> Self {
        TableLookup {
            version,
            query,
            level: 0,
            group: None,
            asked: None,
            state: GetState::default(),
        }
    }

    /// Fetches what the filters over several runs will look at. Cost: two cache lines for each, not waited for.
    fn touch_probes(&self) {
        for level in &self.version.levels {
            let group = &level.groups[level.group_for(self.query.key)];
            for probe in &group.probes {
                probe.filter.touch(self.query.hash);
            }
        }
    }

    /// Who asked for a page.
    pub(crate) fn asked(&self) -> Asked<'a> {
        self.asked
            .expect("a lookup that asks for a page asks somebody")
    }

    /// Reads the page that is wanted. A filter over several runs whose page is damaged is done without: it is
    /// made of the tables again, and they know the answer.
    fn fetch(&mut self, id: PageId) -> Result<Option<Page>> {
        let page = self.asked().page(id);
        self.accept(page)
    }

    fn accept(&mut self, page: Result<Page>) -> Result<Option<Page>> {
        match (self.asked(), page) {
            (Asked::Probe(probe), Err(error)) if error.kind() == ErrorKind::Corruption => {
                if let Some(attached) = attached(probe) {
                    attached.cluster.note_damage(&error);
                }
                self.asked = None;
                Ok(None)
            }
            (_, page) => page.map(Some),
        }
    }

    /// Goes on until a page is wanted or the answer is there. `page` is the page wanted before.
    pub(crate) fn step(
        &mut self,
        stats: &Stats,
        mut page: Option<Page>,
        observer: &mut impl Observer,
    ) -> Result<Step<Option<Answer>>> {
        loop {
            let Some(asked) = self.asked.or_else(|| self.next(observer)) else {
                return Ok(Step::Done(None));
            };
            self.asked = Some(asked);
            let answer = match asked {
                Asked::Probe(probe) => self.ask_probe(probe, stats, page.take(), observer)?,
                Asked::Table(table) => self.ask_table(table, stats, page.take(), observer)?,
            };
            match answer {
                Step::Read(id) => return Ok(Step::Read(id)),
                Step::Done(Some(answer)) => return Ok(Step::Done(Some(answer))),
                Step::Done(None) => self.asked = None,
            }
        }
    }

    fn ask_probe(
        &mut self,
        probe: &GroupProbe,
        stats: &Stats,
        page: Option<Page>,
        observer: &mut impl Observer,
    ) -> Result<Step<Option<Answer>>> {
        let candidates = match probe.filter.candidates(self.query.hash, page.as_ref())? {
            Step::Read(id) => return Ok(Step::Read(id)),
            Step::Done(candidates) => candidates,
        };
        stats.filter_probes.add(1);
        if let Some(at) = &mut self.group {
            let left = at.group.narrowed(at.runs, probe, candidates);
            if probe.filter.knows_newest_only() {
                at.hidden.0 |= at.runs.0 & !left.0;
            }
            at.runs = left;
            observer.narrowed(self.level, at.number, at.runs);
        }
        Ok(Step::Done(None))
    }

    fn ask_table(
        &mut self,
        table: &Arc<Table>,
        stats: &Stats,
        page: Option<Page>,
        observer: &mut impl Observer,
    ) -> Result<Step<Option<Answer>>> {
        let lookup = match table.reader()?.get(&self.query, &mut self.state, page)? {
            Step::Read(id) => return Ok(Step::Read(id)),
            Step::Done(lookup) => lookup,
        };
        let asked = std::mem::take(&mut self.state);
        observer.answered(&asked, &lookup);
        if asked.filter_asked {
            stats.filter_probes.add(1);
        }
        match lookup {
            Lookup::Found { seqno, tag, value } => {
                stats.count_hit(self.level);
                return Ok(Step::Done(Some(Answer {
                    table: table.clone(),
                    seqno,
                    tag,
                    value,
                })));
            }
            Lookup::Absent if asked.filter_passed => stats.filter_false_positives.add(1),
            Lookup::Absent => {}
        }
        // The newest version may be there, but too new for this reader.
        if let Some(at) = &mut self.group
            && table.meta().largest_seqno > self.query.seqno
        {
            at.runs.0 |= at.hidden.0 & !RunMask::all(at.run + 1).0;
        }
        Ok(Step::Done(None))
    }

    /// Who is to be asked next.
    #[inline]
    fn next(&mut self, observer: &mut impl Observer) -> Option<Asked<'a>> {
        let key = self.query.key;
        while let Some(level) = self.version.levels.get(self.level) {
            let at = self.group.get_or_insert_with(|| {
                let number = level.group_for(key);
                let group = &level.groups[number];
                GroupLookup {
                    number,
                    group,
                    runs: RunMask::all(group.runs.len()),
                    hidden: RunMask::NONE,
                    run: 0,
                    probed: 0,
                }
            });
            if let Some(probe) = at.group.probes.get(at.probed)
                && !at.runs.is_empty()
            {
                at.probed += 1;
                return Some(Asked::Probe(probe));
            }
            while let Some(run) = at.runs.take_newest() {
                at.run = run;
                let table = at.group.runs[run].table_for(key);
                let place = RunPlace {
                    level: self.level,
                    group: at.number,
                    run,
                };
                observer.run(place, table);
                if let Some(table) = table {
                    return Some(Asked::Table(table));
                }
            }
            self.level += 1;
            self.group = None;
        }
        None
    }
}

#[cfg(test)]
mod tests;
