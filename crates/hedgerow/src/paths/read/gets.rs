//! Gets that are under way at the same time, of any keyspaces of a database: the path of [`get`](super::get), which
//! stops where a page is missing and goes on when it is there, while the device reads others. A get sees
//! what there is when it begins; what is written later it does not see, however long it takes.
//!
//! ```text
//! begin: memtables -> [ ready ] -- go_on: a step each -> ended
//!                         ^              | a page is wanted, and not cached
//!                         +--- wait ---- [ awaited ]
//! ```
//!
//! Used by one thread. Cost beside that of a get: a page that several want is read once; the keys of a piece are
//! asked in step, so that memory fetches for all of them what the next step looks at.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use hedgerow_io::Reads;

use super::{Answer, Asked, Position, TableLookup, in_memtables};
use crate::base::entry::{KeyHash, SeqNo};
use crate::base::error::Result;
use crate::base::page::{Page, PageId, Step};
use crate::base::slice::Slice;
use crate::table::Query;
use crate::table::paged_file::PagedFile;
use crate::tree::engine::{Engine, KeyspaceState};
use crate::tree::version::SuperVersion;

/// While fewer gets than this wait for pages, more may begin: what keeps a device with a queue busy.
const IN_FLIGHT: usize = 64;
/// So many of those that begin go on together: memory has a queue, too, and the device reads for them while the next
/// begin.
const PIECE: usize = 16;

/// A keyspace as gets that begin together see it: up to one number, each tree as it is when it is first asked.
pub(crate) struct View<'s> {
    state: &'s KeyspaceState,
    seqno: SeqNo,
    trees: Vec<Option<Rc<Tree>>>,
}

/// Counted once for all gets of a view: threads would take turns at the count otherwise.
struct Tree(Arc<SuperVersion>);

impl<'s> View<'s> {
    pub(crate) fn new(state: &'s KeyspaceState, seqno: SeqNo) -> View<'s> {
        View {
            state,
            seqno,
            trees: vec![None; state.partitions.len()],
        }
    }

    fn tree(&mut self, user_key: &[u8], hash: KeyHash) -> &Rc<Tree> {
        let partition = self.state.facts.router.route(user_key, hash);
        let tree = || self.state.partitions[partition].tree_owned();
        self.trees[partition].get_or_insert_with(|| Rc::new(Tree(tree())))
    }
}

/// See the module. `T` says whose a get is.
pub(crate) struct Gets<'k, T> {
    engine: &'k Engine,
    /// Those that can go on, with the page that they wanted.
    ready: Vec<(Get<'k, T>, Option<Page>)>,
    /// Those that want a page; empty but within `go_on`.
    wanted: Vec<(Get<'k, T>, PageId)>,
    /// Once there is something to read.
    reads: Option<Box<dyn Reads>>,
    /// Pages that are being read, each once, by their tags, and who wants them; nobody wants those that are free.
    awaited: Vec<(PageId, Vec<Get<'k, T>>)>,
    /// How many gets wait for one of them.
    waiting: usize,
    ended: Vec<(T, Result<Option<Slice>>)>,
}

impl<'k, T> Gets<'k, T> {
    pub(crate) fn new(engine: &'k Engine) -> Gets<'k, T> {
        Gets {
            engine,
            ready: Vec::new(),
            wanted: Vec::new(),
            reads: None,
            awaited: Vec::new(),
            waiting: 0,
            ended: Vec::new(),
        }
    }

    /// Whether there may be more of them without too many waiting for pages.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting + PIECE <= IN_FLIGHT
    }

    /// Those that have ended since they were last asked for.
    pub(crate) fn ended(
        &mut self,
    ) -> impl Iterator<Item = (T, Result<Option<Slice>>)> + use<'_, 'k, T> {
        self.ended.drain(..)
    }

    /// Begins a get of a valid key: the memtables are asked at once, the tables in a while.
    pub(crate) fn begin(
        &mut self,
        view: &mut View<'_>,
        user_key: Cow<'k, [u8]>,
        hash: KeyHash,
        to: T,
    ) {
        let seqno = view.seqno;
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
            seqno,
            position: Position::default(),
            answer: None,
            to,
        };
        match in_memtables(self.engine, &get.tree.0, &get.query(), &mut ()) {
            Ok(None) => {
                get.lookup().touch_filters();
                self.ready.push((get, None));
                if self.ready.len() >= PIECE {
                    self.go_on();
                }
            }
            Ok(Some(found)) => self.ended.push((get.to, Ok(found))),
            Err(error) => self.ended.push((get.to, Err(error))),
        }
    }

    /// Goes on with all that need not wait for a page.
    pub(crate) fn go_on(&mut self) {
        let cache = &self.engine.memory.cache;
        while !self.ready.is_empty() {
            for (mut get, page) in self.ready.drain(..) {
                match get.step(self.engine, page) {
                    Ok(Step::Read(id)) => self.wanted.push((get, id)),
                    Ok(Step::Done(value)) => self.ended.push((get.to, Ok(value))),
                    Err(error) => self.ended.push((get.to, Err(error))),
                }
            }
            // Memory hears of all pages before the first is looked at.
            let mut wanted = std::mem::take(&mut self.wanted);
            wanted.iter().for_each(|(_, id)| cache.prefetch_set(*id));
            wanted.iter().for_each(|(_, id)| cache.prefetch_page(*id));
            wanted.drain(..).for_each(|(get, id)| self.fetch(get, id));
            self.wanted = wanted;
        }
    }

    /// Fetches a page from the cache, or begins to read it.
    fn fetch(&mut self, get: Get<'k, T>, id: PageId) {
        let Some(file) = get.file() else {
            let page = get.asked().page(id);
            return self.accept(get, page);
        };
        self.engine.stats.pages_asked.add(1);
        if let Some(page) = file.cached(id) {
            return self.ready.push((get, Some(page)));
        }
        let under_way = |it: &&mut (PageId, Vec<_>)| it.0 == id && !it.1.is_empty();
        if let Some((_, by)) = self.awaited.iter_mut().find(under_way) {
            self.waiting += 1;
            return by.push(get);
        }
        let free = self.awaited.iter().position(|(_, by)| by.is_empty());
        let tag = free.unwrap_or(self.awaited.len());
        let storage = &self.engine.environment.storage;
        let reads = self.reads.get_or_insert_with(|| storage.reads());
        if let Err(error) = file.begin_read(id, &mut **reads, tag) {
            return self.accept(get, Err(error));
        }
        if free.is_none() {
            self.awaited.push((id, Vec::new()));
        }
        self.awaited[tag].0 = id;
        self.awaited[tag].1.push(get);
        self.waiting += 1;
    }

    /// Waits until one of the pages is there that are being read; false if there are none.
    pub(crate) fn wait(&mut self) -> bool {
        let Some((tag, read)) = self.reads.as_mut().and_then(|reads| reads.next()) else {
            return false;
        };
        let (id, by) = &mut self.awaited[tag];
        let mut by = std::mem::take(by);
        let file = by.first().and_then(Get::file);
        let page = file
            .expect("a page that is read is wanted of a file")
            .end_read(*id, read);
        self.waiting -= by.len();
        by.drain(..).for_each(|get| self.accept(get, page.clone()));
        self.awaited[tag].1 = by;
        true
    }

    fn accept(&mut self, mut get: Get<'k, T>, page: Result<Page>) {
        match get.accept(page) {
            Ok(page) => self.ready.push((get, page)),
            Err(error) => self.ended.push((get.to, Err(error))),
        }
    }
}

/// A get that has asked the memtables, and how far it has come.
struct Get<'k, T> {
    tree: Rc<Tree>,
    /// The order key.
    key: Cow<'k, [u8]>,
    hash: KeyHash,
    seqno: SeqNo,
    position: Position,
    /// What it has found, while it waits for the page of its value.
    answer: Option<Answer>,
    to: T,
}

impl<T> Get<'_, T> {
    fn query(&self) -> Query<'_> {
        Query {
            key: &self.key,
            hash: self.hash,
            seqno: self.seqno,
        }
    }

    fn lookup(&mut self) -> TableLookup<'_> {
        let query = Query {
            key: &self.key,
            hash: self.hash,
            seqno: self.seqno,
        };
        TableLookup::new(&self.tree.0.version, query, &mut self.position)
    }

    fn asked(&self) -> Asked<'_> {
        self.position.asked(&self.tree.0.version)
    }

    /// The file whose page it wants.
    fn file(&self) -> Option<&PagedFile> {
        match &self.answer {
            Some(answer) => Some(answer.table.pages()),
            None => self.asked().file(),
        }
    }

    fn accept(&mut self, page: Result<Page>) -> Result<Option<Page>> {
        match self.answer {
            Some(_) => page.map(Some),
            None => self.lookup().accept(page),
        }
    }

    /// Goes on until a page is wanted or the value is there. `page` is the page wanted before.
    fn step(&mut self, engine: &Engine, page: Option<Page>) -> Result<Step<Option<Slice>>> {
        if let Some(answer) = self.answer.take() {
            return answer.value(engine, page).map(Step::Done);
        }
        match self.lookup().step(&engine.stats, page, &mut ())? {
            Step::Read(id) => Ok(Step::Read(id)),
            Step::Done(None) => Ok(Step::Done(None)),
            Step::Done(Some(answer)) => match answer.value_page() {
                Some(id) => {
                    self.answer = Some(answer);
                    Ok(Step::Read(id))
                }
                None => answer.value(engine, None).map(Step::Done),
            },
        }
    }
}
