//! Concurrent gets, of any keyspaces of a database. Each takes the path of [`get`](super::get),
//! stops where a page is missing and resumes when the page arrives, while the device reads others.
//! A get sees the state at its beginning, and no later write, however long it takes.
//!
//! ```text
//! begin: memtables -> [ ready ] -- go_on: a step each -> ended
//!                         ^              | a page is wanted, and not cached
//!                         +--- wait ---- [ awaited ]
//! ```
//!
//! Used by one thread. Cost beside that of each get: a page that several gets need is read once.
//! The keys of a piece proceed in step, so that one step prefetches the memory of the next for all
//! of them.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use hedgerow_io::Reads;

use super::{
    Answer, FoundEntry, LookupSource, NewestVersion, Position, TableLookup, combining, in_memtables,
};
use crate::base::entry::KeyHash;
use crate::base::error::Result;
use crate::base::expiry::Moment;
use crate::base::page::{Page, PageId, Step};
use crate::base::slice::Slice;
use crate::table::Query;
use crate::table::paged_file::PagedFile;
use crate::tree::engine::{Engine, KeyspaceState};
use crate::tree::partition::Partition;
use crate::tree::version::SuperVersion;

/// New gets may begin while fewer than this wait for pages: enough to keep a device with a queue
/// busy.
const IN_FLIGHT: usize = 64;
/// The number of beginning gets that proceed together: memory has a queue, too. The device reads
/// for them while the next ones begin.
const PIECE: usize = 16;

/// The view of a keyspace for gets that begin together: up to one number, each tree as it is at its
/// first probe.
pub(crate) struct View<'s> {
    state: &'s KeyspaceState,
    moment: Moment,
    trees: Vec<Option<Rc<TreeView>>>,
}

/// Its references are counted once for all gets of a view; otherwise threads would contend for the
/// counts.
struct TreeView(Arc<SuperVersion>, Arc<Partition>);

impl<'s> View<'s> {
    pub(crate) fn new(state: &'s KeyspaceState, moment: Moment) -> View<'s> {
        View {
            state,
            moment,
            trees: vec![None; state.partitions.len()],
        }
    }

    fn tree(&mut self, user_key: &[u8], hash: KeyHash) -> &Rc<TreeView> {
        let partition = self.state.facts.router.route(user_key, hash);
        let tree = || {
            let partition = &self.state.partitions[partition];
            Rc::new(TreeView(partition.tree_owned(), partition.clone()))
        };
        self.trees[partition].get_or_insert_with(tree)
    }
}

/// See the module. `T` identifies the caller of a get.
pub(crate) struct Gets<'k, T> {
    engine: &'k Engine,
    /// The gets that have not ended, by their slots. A get is large, so it stays in its slot, and
    /// the lists below have numbers of slots.
    slots: Vec<Option<Get<'k, T>>>,
    free: Vec<usize>,
    /// Gets that can proceed, with the page that they needed.
    ready: Vec<(usize, Option<Page>)>,
    /// Gets that need a page; empty except within `go_on`.
    wanted: Vec<(usize, PageId)>,
    /// Present once there is something to read.
    reads: Option<Box<dyn Reads>>,
    /// Pages that are being read, each once, by their tags, with the gets that wait for them. A
    /// free entry has no gets.
    awaited: Vec<(PageId, Vec<usize>)>,
    /// The number of gets that wait for a page.
    waiting: usize,
    ended: Vec<(T, Result<Option<Slice>>)>,
}

impl<'k, T> Gets<'k, T> {
    pub(crate) fn new(engine: &'k Engine) -> Gets<'k, T> {
        Gets {
            engine,
            slots: Vec::new(),
            free: Vec::new(),
            ready: Vec::new(),
            wanted: Vec::new(),
            reads: None,
            awaited: Vec::new(),
            waiting: 0,
            ended: Vec::new(),
        }
    }

    /// Returns true if more gets may begin without too many waiting for pages.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting + PIECE <= IN_FLIGHT
    }

    /// The gets that have ended since the last call.
    pub(crate) fn ended(
        &mut self,
    ) -> impl Iterator<Item = (T, Result<Option<Slice>>)> + use<'_, 'k, T> {
        self.ended.drain(..)
    }

    /// Begins a get of a valid key: probes the memtables at once, the tables later.
    pub(crate) fn begin(
        &mut self,
        view: &mut View<'_>,
        user_key: Cow<'k, [u8]>,
        hash: KeyHash,
        to: T,
    ) {
        let moment = view.moment;
        let tree = view.tree(&user_key, hash).clone();
        let mut scratch = Vec::new();
        view.state.facts.order.borrow(&user_key, &mut scratch);
        let key = if scratch.is_empty() {
            user_key
        } else {
            Cow::Owned(scratch)
        };
        let mut get = Get {
            tree,
            key,
            hash,
            moment,
            position: Position::default(),
            found: None,
            to,
        };
        let found = in_memtables(self.engine, &get.tree.0, &get.query(), &mut ());
        match found {
            Ok(None) => {
                get.lookup().touch_filters();
                let slot = self.keep(get);
                self.ready.push((slot, None));
                if self.ready.len() >= PIECE {
                    self.go_on();
                }
            }
            Ok(Some(found)) => {
                let value = get.end(self.engine, found);
                self.ended.push((get.to, value));
            }
            Err(error) => self.ended.push((get.to, Err(error))),
        }
    }

    fn keep(&mut self, get: Get<'k, T>) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(get);
        slot
    }

    fn end(&mut self, slot: usize, value: Result<Option<Slice>>) {
        if let Some(get) = self.slots[slot].take() {
            self.ended.push((get.to, value));
            self.free.push(slot);
        }
    }

    /// Resumes all gets that need not wait for a page.
    pub(crate) fn go_on(&mut self) {
        let engine = self.engine;
        let cache = &engine.memory.cache;
        while !self.ready.is_empty() {
            let mut ready = std::mem::take(&mut self.ready);
            for (slot, page) in ready.drain(..) {
                match in_slot(&mut self.slots, slot).step(engine, page) {
                    Ok(Step::Read(id)) => self.wanted.push((slot, id)),
                    Ok(Step::Done(value)) => self.end(slot, Ok(value)),
                    Err(error) => self.end(slot, Err(error)),
                }
            }
            self.ready = ready;
            // Prefetches all pages before the first one is looked at.
            let mut wanted = std::mem::take(&mut self.wanted);
            wanted.iter().for_each(|(_, id)| cache.prefetch_set(*id));
            wanted.iter().for_each(|(_, id)| cache.prefetch_page(*id));
            wanted.drain(..).for_each(|(slot, id)| self.fetch(slot, id));
            self.wanted = wanted;
        }
    }

    /// Fetches a page from the cache, or begins to read it.
    fn fetch(&mut self, slot: usize, id: PageId) {
        let engine = self.engine;
        let get = in_slot(&mut self.slots, slot);
        let Some(file) = get.file() else {
            let page = get.source().page(id);
            return self.accept(slot, page);
        };
        engine.stats.pages_requested.add(1);
        if let Some(page) = file.cached(id) {
            return self.ready.push((slot, Some(page)));
        }
        let under_way = |it: &&mut (PageId, Vec<_>)| it.0 == id && !it.1.is_empty();
        if let Some((_, by)) = self.awaited.iter_mut().find(under_way) {
            self.waiting += 1;
            return by.push(slot);
        }
        let free = self.awaited.iter().position(|(_, by)| by.is_empty());
        let tag = free.unwrap_or(self.awaited.len());
        let storage = &engine.environment.storage;
        let reads = self.reads.get_or_insert_with(|| storage.reads());
        if let Err(error) = file.begin_read(id, &mut **reads, tag) {
            return self.accept(slot, Err(error));
        }
        if free.is_none() {
            self.awaited.push((id, Vec::new()));
        }
        self.awaited[tag].0 = id;
        self.awaited[tag].1.push(slot);
        self.waiting += 1;
    }

    /// Waits until one of the pages being read arrives. Returns false if none is being read.
    pub(crate) fn wait(&mut self) -> bool {
        let Some((tag, read)) = self.reads.as_mut().and_then(|reads| reads.next()) else {
            return false;
        };
        let (id, by) = &mut self.awaited[tag];
        let (id, mut by) = (*id, std::mem::take(by));
        let file = in_slot(&mut self.slots, by[0]).file();
        let page = file
            .expect("a page that is read is wanted of a file")
            .end_read(id, read);
        self.waiting -= by.len();
        by.drain(..)
            .for_each(|slot| self.accept(slot, page.clone()));
        self.awaited[tag].1 = by;
        true
    }

    fn accept(&mut self, slot: usize, page: Result<Page>) {
        match in_slot(&mut self.slots, slot).accept(page) {
            Ok(page) => self.ready.push((slot, page)),
            Err(error) => self.end(slot, Err(error)),
        }
    }
}

fn in_slot<'g, 'k, T>(slots: &'g mut [Option<Get<'k, T>>], slot: usize) -> &'g mut Get<'k, T> {
    let get = slots[slot].as_mut();
    get.expect("a get is in its slot until it ends")
}

/// A get that has probed the memtables, and its position.
struct Get<'k, T> {
    tree: Rc<TreeView>,
    /// The order key.
    key: Cow<'k, [u8]>,
    hash: KeyHash,
    moment: Moment,
    position: Position,
    /// The published entry that the table found, while the get waits for the page of its value.
    found: Option<FoundEntry>,
    to: T,
}

impl<T> Get<'_, T> {
    fn query(&self) -> Query<'_> {
        Query {
            key: &self.key,
            hash: self.hash,
            seqno: self.moment.seqno,
            is_alone: false,
        }
    }

    fn lookup(&mut self) -> TableLookup<'_, '_> {
        let query = Query {
            key: &self.key,
            hash: self.hash,
            seqno: self.moment.seqno,
            is_alone: false,
        };
        TableLookup::new(&self.tree.0.version, query, &mut self.position)
    }

    fn source(&self) -> LookupSource<'_> {
        self.position.source(&self.tree.0.version)
    }

    /// The file of the page that it needs.
    fn file(&self) -> Option<&PagedFile> {
        self.source().file()
    }

    fn accept(&mut self, page: Result<Page>) -> Result<Option<Page>> {
        match self.found {
            Some(_) => page.map(Some),
            None => {
                let mut lookup = self.lookup();
                lookup.accept(lookup.source(), page)
            }
        }
    }

    /// Proceeds until it needs a page or has the value. `page` is the page needed before.
    fn step(&mut self, engine: &Engine, page: Option<Page>) -> Result<Step<Option<Slice>>> {
        let found = if let Some(entry) = self.found.take() {
            let LookupSource::Table(table) = self.source() else {
                panic!("a value is in a table");
            };
            Answer { table, entry }.value(&engine.memory, page)?
        } else {
            match self.lookup().step(&engine.stats, page, &mut ())? {
                Step::Read(id) => return Ok(Step::Read(id)),
                Step::Done(None) => NewestVersion::Absent,
                Step::Done(Some(answer)) => {
                    let answer = answer.published(&engine.publisher)?;
                    if let Some(id) = answer.value_page() {
                        self.found = Some(answer.entry);
                        return Ok(Step::Read(id));
                    }
                    answer.value(&engine.memory, None)?
                }
            }
        };
        self.end(engine, found).map(Step::Done)
    }

    /// The value of the key. That of a key with operands is read at once, page by page.
    fn end(&self, engine: &Engine, found: NewestVersion) -> Result<Option<Slice>> {
        match found {
            NewestVersion::Value(value) => Ok(Some(value)),
            NewestVersion::Absent => Ok(None),
            NewestVersion::Expiring(stored) => {
                let found = engine.unexpired(stored, self.moment.time)?;
                Ok(found.map(|(_, value)| value))
            }
            NewestVersion::Operand => {
                let query = (&self.query(), self.moment.time);
                let combined = combining::combined(engine, &self.tree.1, query, &mut ());
                combined.map(|(value, _)| value)
            }
        }
    }
}
