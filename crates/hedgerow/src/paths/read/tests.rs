//! Lookups through filters over several runs of a group.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed expectation is a failed test"
)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::Db;
use crate::base::entry::RunId;
use crate::base::options::Layout;
use crate::base::page::{Handle, PageClass, PageSource, TableId};

/// A hash and the mask of the runs that hold it.
const RECORD: usize = 16;

/// A filter of one page that never errs: which runs hold each hash.
///
/// It keeps hashes whole, since a keyspace draws its seed: with anything less, now and then a
/// test would see a collision.
#[derive(Debug)]
struct Exact {
    paged: bool,
    page: Vec<u8>,
    id: PageId,
}

/// The name of the page of the filter over these runs.
fn page_id(places: &[usize]) -> PageId {
    PageId {
        table: TableId(u64::MAX),
        handle: Handle {
            offset: places[0] as u64,
            bytes: RECORD as u32,
        },
        class: PageClass::Filter,
    }
}

/// The page that says for each hash which runs hold it.
fn page_of(masks: &BTreeMap<u64, u64>) -> Vec<u8> {
    let records = masks.iter().map(|(hash, mask)| [*hash, *mask]);
    records.flatten().flat_map(u64::to_le_bytes).collect()
}

/// The mask of `hash` on such a page.
fn mask_in(page: &[u8], hash: KeyHash) -> u64 {
    let hash = hash.low().to_le_bytes();
    let record = page.chunks(RECORD).find(|record| record.starts_with(&hash));
    record.map_or(0, |record| {
        u64::from_le_bytes(record[8..].try_into().unwrap())
    })
}

impl crate::table::filter::Probe for Exact {
    fn candidates(&self, hash: KeyHash, page: Option<&Page>) -> Result<Step<RunMask>> {
        let mask = match (self.paged, page) {
            (false, _) => mask_in(&self.page, hash),
            (true, Some(page)) => mask_in(page, hash),
            (true, None) => return Ok(Step::Read(self.id)),
        };
        Ok(Step::Done(RunMask(mask)))
    }

    fn memory_bytes(&self) -> usize {
        self.page.len()
    }
}

/// The page of a paged filter, and the number of its reads.
struct Pages(PageId, Vec<u8>, AtomicUsize);

impl PageSource for Pages {
    fn page(&self, id: PageId) -> Result<Page> {
        assert_eq!(id, self.0);
        self.2.fetch_add(1, Ordering::Relaxed);
        Page::filled(self.1.len(), |page| {
            page.copy_from_slice(&self.1);
            Ok(())
        })
    }
}

/// The probes of a lookup, by the places of runs.
#[derive(Default)]
struct Asks {
    runs: Vec<usize>,
    left: Vec<RunMask>,
}

impl Observer for Asks {
    fn run(&mut self, place: RunPlace, _: Option<&Arc<Table>>) {
        self.runs.push(place.run);
    }
    fn narrowed(&mut self, _: usize, _: usize, left: RunMask) {
        self.left.push(left);
    }
}

struct Fixture {
    db: Db,
    _dir: tempfile::TempDir,
    /// The keys of each run of level 0, the newest first.
    runs: Vec<Vec<String>>,
}

/// Three runs in level 0: each has keys of its own, and all have `shared`.
fn three_runs() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    let keys = db.keyspace("keys", Layout::sorted()).unwrap();
    let mut runs = Vec::new();
    for run in 0..3 {
        let own = (0..100).map(|i| format!("{i:03} of run {run}"));
        let all: Vec<String> = own.chain(["shared".to_owned()]).collect();
        for key in &all {
            keys.put(key, format!("{key} {run}")).unwrap();
        }
        keys.flush().unwrap();
        runs.insert(0, all);
    }
    Fixture {
        db,
        _dir: dir,
        runs,
    }
}

impl Fixture {
    fn state(&self) -> Arc<KeyspaceState> {
        self.db.engine().catalog.load().keyspaces["keys"]
            .state
            .load_full()
    }

    fn version(&self) -> Version {
        let version = Version::clone(&self.state().partitions[0].tree().version);
        assert_eq!(version.levels[0].groups[0].runs.len(), 3);
        version
    }

    fn hash(&self, key: &str) -> KeyHash {
        KeyHash::of(key.as_bytes(), self.state().facts.seed)
    }

    /// A probe over these runs of `version`, by their places, in this order.
    fn probe(&self, version: &Version, places: &[usize], paged: bool) -> (GroupProbe, Arc<Pages>) {
        let mut masks = BTreeMap::new();
        for (bit, place) in places.iter().enumerate() {
            for key in &self.runs[*place] {
                *masks.entry(self.hash(key).low()).or_default() |= 1 << bit;
            }
        }
        let page = page_of(&masks);
        let runs = &version.levels[0].groups[0].runs;
        let ids: Vec<RunId> = places.iter().map(|place| runs[*place].id).collect();
        let id = page_id(places);
        let pages = Arc::new(Pages(id, page.clone(), AtomicUsize::new(0)));
        let probe = GroupProbe::new(
            ids.into(),
            Arc::new(Exact { paged, page, id }),
            pages.clone(),
        );
        (probe, pages)
    }

    /// The run that answers, and what was asked for it.
    fn get(&self, version: &Version, key: &str) -> (Option<SeqNo>, Asks) {
        let stats = Stats::default();
        let query = Query {
            key: key.as_bytes(),
            hash: self.hash(key),
            seqno: SeqNo::MAX,
            is_alone: true,
        };
        let mut asks = Asks::default();
        let mut position = Position::default();
        let mut lookup = TableLookup::new(version, query, &mut position);
        let mut page = None;
        loop {
            match lookup.step(&stats, page.take(), &mut asks).unwrap() {
                Step::Read(id) => {
                    let source = lookup.source();
                    page = lookup.accept(source, source.page(id)).unwrap();
                }
                Step::Done(answer) => return (answer.map(|it| it.entry.seqno), asks),
            }
        }
    }
}

/// Whatever is written, flushed and merged while it waits for its page.
#[test]
fn a_get_sees_what_there_was_when_it_began() {
    let fixture = three_runs();
    let keys = fixture.db.keyspace("keys", Layout::sorted()).unwrap();
    let mut gets = Gets::new(fixture.db.engine());
    let mut begin = |to| {
        let (state, hash) = (fixture.state(), fixture.hash("shared"));
        let mut view = View::new(&state, Moment::PRESENT);
        gets.begin(&mut view, Cow::Borrowed(b"shared"), hash, to);
    };
    begin(0);
    keys.put("shared", "new").unwrap();
    begin(1);
    keys.flush().unwrap();
    begin(2);
    keys.delete("shared").unwrap();
    begin(3);
    keys.compact::<&[u8]>(..).unwrap();
    begin(4);
    gets.go_on();
    while gets.wait() {
        gets.go_on();
    }
    let ended = gets.ended().map(|(to, value)| (to, value.unwrap()));
    let found: BTreeMap<_, _> = ended.collect();
    let found: Vec<_> = found.values().map(Option::as_deref).collect();
    let old = Some(&b"shared 2"[..]);
    assert_eq!(found, [old, Some(b"new"), Some(b"new"), None, None]);
}

#[test]
fn a_group_asks_its_probes_first_and_then_only_the_runs_they_leave() {
    let fixture = three_runs();
    let plain = fixture.version();
    for paged in [false, true] {
        let mut version = plain.clone();
        // Two generations, the bits of the first in an order that is not that of the runs.
        let (older, older_pages) = fixture.probe(&plain, &[2, 1], paged);
        let (newer, _) = fixture.probe(&plain, &[0], paged);
        version.levels[0].group_mut(0).unwrap().filters.probes = vec![newer, older];

        let (mut asked, mut lookups) = (0, 0);
        for (place, keys) in fixture.runs.iter().enumerate() {
            for key in keys {
                let (found, asks) = fixture.get(&version, key);
                assert_eq!(found, fixture.get(&plain, key).0, "{key}");
                let expected = if key == "shared" { 0 } else { place };
                assert_eq!(asks.runs.last(), Some(&expected), "{key}");
                asked += asks.runs.len();
                lookups += 1;
            }
        }
        assert_eq!(asked, lookups, "one run is asked for each key");
        assert_eq!(older_pages.2.load(Ordering::Relaxed) > 0, paged);

        let (found, asks) = fixture.get(&version, "absent");
        assert_eq!(found, None);
        assert_eq!(asks.left.len(), if asks.left[0].is_empty() { 1 } else { 2 });
    }
}

#[test]
fn what_no_probe_covers_is_asked_and_what_is_gone_is_ignored() {
    let fixture = three_runs();
    let mut version = fixture.version();
    let (probe, _) = fixture.probe(&version, &[0, 2], false);
    version.levels[0].group_mut(0).unwrap().filters.probes = vec![probe];
    // No probe knows of the middle run.
    let (found, asks) = fixture.get(&version, "absent");
    assert_eq!((found, asks.runs), (None, vec![1]));
    let (found, asks) = fixture.get(&version, "007 of run 1");
    assert!(found.is_some() && asks.runs.contains(&1));

    // The newest run goes: its bit means nothing any more, those of the others do.
    let newest = version.levels[0].groups[0].runs[0].tables[0].meta().id;
    let mut edit =
        crate::design::merge_policy::tree_edit::TreeEdit::new(crate::base::entry::PartitionId(0));
    edit.removed = vec![newest];
    version
        .apply(&edit, |_| panic!("nothing is added"))
        .unwrap();
    assert_eq!(version.levels[0].groups[0].filters.probes.len(), 1);
    let (found, asks) = fixture.get(&version, "007 of run 2");
    assert_eq!((found, asks.runs), (None, vec![0]));
    let (found, asks) = fixture.get(&version, "007 of run 0");
    assert!(found.is_some() && asks.runs == [0, 1]);

    // With its last run a probe goes, too.
    let oldest = version.levels[0].groups[0].runs[1].tables[0].meta().id;
    edit.removed = vec![oldest];
    version
        .apply(&edit, |_| panic!("nothing is added"))
        .unwrap();
    assert!(version.levels[0].groups[0].filters.probes.is_empty());
}
