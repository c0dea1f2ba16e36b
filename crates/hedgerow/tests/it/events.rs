//! The events that listeners get, and the calls that they may make meanwhile.
//!
//! Every kind of event is caused here, and its listener asks the database for everything (those of
//! opening are only heard). A kind that is added to the engine fails the test until it is caused,
//! too.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use hedgerow::io::sim::{Fault, OpClass, SimStorage};
use hedgerow::io::{Background, Environment, OsSpawn, Spawn};
use hedgerow::{Db, Design, ErrorKind, Event, Keyspace, Layout, MergeError, MergeOperator, Result};

use crate::support::{DIR, key, plain_small, small, value};
use crate::watched::{Watched, Watcher};

/// The time after which a listener that has not returned is taken for one that never will.
const HANGS: Duration = Duration::from_secs(120);

/// The names of all kinds of events, as [`name`] gives them: the variants of `Event`, and the jobs
/// that may fail. Two jobs do no I/O: `background/tests.rs` has one of them panic.
fn kinds() -> BTreeSet<String> {
    let source = include_str!("../../src/base/stats/event.rs");
    let events = source.split_once("pub enum Event {").unwrap().1;
    let (events, jobs) = events.split_once("enum Job {").unwrap();
    let is_letter = |c: char| c.is_ascii_alphanumeric();
    let variant = |line: &str| {
        let line = line.strip_prefix("    ")?;
        let end = line.find(|c| !is_letter(c)).unwrap_or(line.len());
        let is_variant = line.starts_with(|c: char| c.is_ascii_uppercase());
        is_variant.then(|| line[..end].to_owned())
    };
    let words = |line: &str| {
        let words = line.split_once("=> \"")?.1.strip_suffix("\",")?;
        Some(format!("could not {words}"))
    };
    let mut kinds: BTreeSet<_> = events.lines().filter_map(variant).collect();
    assert!(kinds.remove("BackgroundError"), "it is named by its job");
    kinds.extend(jobs.lines().filter_map(words));
    let jobs = jobs.lines().filter_map(variant).count();
    let named = kinds.iter().filter(|kind| kind.contains(' ')).count();
    assert_eq!(jobs, named, "expected words for each job");
    for job in ["prepare memory", "divide the memory budget"] {
        assert!(kinds.remove(&format!("could not {job}")), "{job}");
    }
    kinds
}

fn name(event: &Event) -> String {
    let text = match event {
        Event::BackgroundError { doing, .. } => return format!("could not {doing}"),
        other => format!("{other:?}"),
    };
    text.split(' ').next().unwrap().to_owned()
}

/// The names of the events that a listener got, and of the one that it got last.
#[derive(Default)]
struct Heard(Mutex<(BTreeSet<String>, String)>);

impl Heard {
    fn lock(&self) -> MutexGuard<'_, (BTreeSet<String>, String)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Repeats the cause of an event until the listener has it, more often than it can need.
    fn until(&self, expected: &str, mut step: impl FnMut(u64)) {
        for i in 0..1000 {
            if self.lock().0.contains(expected) {
                return;
            }
            step(i);
        }
        panic!("expected to hear: {expected}");
    }
}

/// Runs something that events come of. Fails with the name of the event whose listener hangs.
fn within(heard: &Arc<Heard>, body: impl FnOnce(&Arc<Heard>) + Send + 'static) {
    let (ended, ends) = channel();
    let to_hear = heard.clone();
    let body = move || {
        body(&to_hear);
        ended.send(()).unwrap();
    };
    let thread = OsSpawn.spawn("events", Box::new(body)).unwrap();
    match ends.recv_timeout(HANGS) {
        Ok(()) => drop(thread),
        Err(RecvTimeoutError::Timeout) => panic!("no end after the event: {}", heard.lock().1),
        Err(RecvTimeoutError::Disconnected) => {
            panic!("a failure after the event: {}", heard.lock().1)
        }
    }
}

/// The defects of a disk that `SimStorage` does not have.
struct Defects {
    /// Operations panic on the threads of the pool, as only a mistake of ours would: some jobs have
    /// no other failure.
    panics: AtomicBool,
    /// The number of edits of the manifest until they are refused.
    edits_left: AtomicI64,
}

impl Watcher for Defects {
    fn before(&self, call: &str, _: &Path) {
        let panics = matches!(call, "open" | "segment") && self.panics.load(SeqCst);
        let thread = std::thread::current();
        if panics && thread.name() != Some("events") {
            panic!("on purpose: {call}");
        }
    }

    fn room(&self, dir: &Path) -> io::Result<()> {
        if dir == Path::new(DIR) && self.edits_left.fetch_sub(1, SeqCst) <= 0 {
            return Err(io::Error::other("a refused edit"));
        }
        Ok(())
    }
}

/// Refuses to combine.
struct Never;

impl MergeOperator for Never {
    fn name(&self) -> &str {
        "never"
    }

    fn full(
        &self,
        _: &[u8],
        _: Option<&[u8]>,
        _: &[&[u8]],
    ) -> std::result::Result<Option<Vec<u8>>, MergeError> {
        Err("it refuses".into())
    }
}

/// All that can be asked, and a write, which is refused when an event says so.
fn ask(db: &Db, event: &Event) -> Result<()> {
    db.stats();
    db.keyspaces();
    let keyspace = db.keyspace("plain", Layout::sorted())?;
    keyspace.stats();
    keyspace.shape();
    keyspace.explain(key(1))?;
    keyspace.get(key(2))?;
    db.snapshot()?.get(&keyspace, key(3))?;
    keyspace
        .scan::<&[u8]>(..)?
        .take(3)
        .try_for_each(|it| it.map(drop))?;
    let events = db.keyspace("events", Layout::sorted());
    // The second one changes nothing, but looks under the manifest's lock.
    let write = |it: Keyspace| {
        it.put(name(event), b"")
            .and_then(|()| it.set_self_tuning(false))
    };
    let _ = events.and_then(write);
    Ok(())
}

type Machine = fn(&SimStorage, u64) -> Environment;

/// A machine for databases that are asked for everything at each event.
struct Curious {
    heard: Arc<Heard>,
    disk: SimStorage,
    defects: Arc<Defects>,
    environment: Environment,
}

impl Curious {
    fn new(heard: &Arc<Heard>, seed: u64, machine: Machine) -> Curious {
        let disk = SimStorage::new(seed);
        let defects = Arc::new(Defects {
            panics: AtomicBool::new(false),
            edits_left: AtomicI64::new(i64::MAX),
        });
        let watched = Watched {
            disk: disk.clone(),
            watcher: defects.clone(),
        };
        Curious {
            heard: heard.clone(),
            defects,
            environment: Environment {
                storage: Arc::new(watched),
                ..machine(&disk, seed)
            },
            disk,
        }
    }

    /// A database, and its keyspace `plain`. Nothing can be asked of a database that is being
    /// opened: its events are only heard.
    fn open(&self, budget_bytes: u64) -> (Db, Keyspace) {
        let (heard, defects) = (self.heard.clone(), self.defects.clone());
        let asked: Arc<OnceLock<Db>> = Arc::default();
        let db = asked.clone();
        let listener = move |event: &Event| {
            heard.lock().1 = name(event);
            if let Some(db) = db.get() {
                let panics = defects.panics.swap(false, SeqCst);
                // An event at the end of closing finds the database closed, and a fault may meet a
                // read of the listener.
                if let Err(error) = ask(db, event) {
                    let may_be = matches!(error.kind(), ErrorKind::Closed | ErrorKind::Io);
                    assert!(may_be, "{event:?}: {error}");
                }
                defects.panics.store(panics, SeqCst);
            }
            heard.lock().0.insert(name(event));
        };
        let db = Db::builder(DIR)
            .environment(self.environment.clone())
            .memory_budget(budget_bytes)
            .log_segment_bytes(16 << 10)
            .merge_operator(Never)
            .listener(listener)
            .open()
            .unwrap();
        assert!(asked.set(db.clone()).is_ok());
        let keyspace = plain_small(&db);
        (db, keyspace)
    }

    /// Refuses edits of the manifest after `count` others.
    fn refuse_edits_after(&self, count: i64) {
        self.defects.edits_left.store(count, SeqCst);
    }

    fn fail(&self, class: OpClass, path: &str, count: u64, fault: Fault) {
        self.disk.fail_path_after(class, path, count, fault);
    }
}

/// Ends a database whose jobs must not have panicked.
fn end(db: Db) {
    assert_eq!(db.stats().panics, 0);
    let _ = db.close();
}

fn with(policy: &str, filter: &str) -> Design {
    Design {
        policy: policy.parse().unwrap(),
        filter: filter.parse().unwrap(),
        ..small()
    }
}

/// Flushes, merges, moves, designs.
fn work(it: &Curious) {
    let (db, keyspace) = it.open(1 << 20);
    for i in 0..500 {
        keyspace.put(key(i * 7 % 500), value(i)).unwrap();
    }
    keyspace.compact::<&[u8]>(..).unwrap();
    let policy = "leveling:2".parse().unwrap();
    keyspace.retune(Design { policy, ..small() }).unwrap();
    keyspace.wait_until_merged().unwrap();
    // Keys that nothing overlaps.
    it.heard.until("Moved", |i| {
        for i in 100 * i..100 * (i + 1) {
            keyspace.put(key(1000 + i), value(i)).unwrap();
        }
        keyspace.flush().unwrap();
        keyspace.wait_until_merged().unwrap();
    });
    end(db);
}

/// Failures of flushes and merges. The next file of a table fails: a job of another thread may be
/// the one that makes it.
fn tables_fail(it: &Curious) {
    let (db, keyspace) = it.open(1 << 20);
    let fail = || it.fail(OpClass::Create, "/tables", 0, Fault::Io);
    it.heard.until("could not flush a memtable", |i| {
        keyspace.put(b"k", value(i)).unwrap();
        fail();
        let _ = keyspace.flush();
    });
    it.heard.until("could not merge tables", |i| {
        keyspace.put(b"k", value(i)).unwrap();
        let _ = keyspace.flush();
        fail();
        let _ = keyspace.compact::<&[u8]>(..);
    });
    end(db);
}

/// A refused edit where a merge begins with one: the sweep of many runs after a retune.
fn edits_fail(it: &Curious) {
    let (db, keyspace) = it.open(1 << 20);
    it.heard.until("could not begin a merge", |i| {
        it.refuse_edits_after(i64::MAX);
        keyspace.retune(with("tiering:16", "none")).unwrap();
        for i in 0..2000 {
            keyspace.put(key(i * 7919 % 2000), [7; 100]).unwrap();
        }
        let _ = keyspace.flush();
        let _ = keyspace.wait_until_merged();
        // Merges come before the edit that begins a sweep, in an order that is that of threads.
        it.refuse_edits_after(1 + i as i64 % 40);
        keyspace
            .retune(with("leveling:2,partitioned", "none"))
            .unwrap();
        let _ = keyspace.wait_until_merged();
    });
    end(db);
}

/// Filters over several runs that cannot be read for, or not be written.
fn filters_fail(it: &Curious) {
    let (db, keyspace) = it.open(1 << 20);
    let put = |from: u64| {
        for i in 0..200 {
            keyspace.put(key((from + i) * 7 % 500), value(i)).unwrap();
        }
        let _ = keyspace.flush();
    };
    it.heard.until("could not build a filter", |i| {
        keyspace.retune(with("tiering:8", "none")).unwrap();
        put(i);
        let _ = keyspace.wait_until_merged();
        it.fail(OpClass::Read, "/tables", 0, Fault::Io);
        keyspace.retune(with("tiering:8", "mlcf:12")).unwrap();
        let _ = keyspace.wait_until_merged();
    });
    it.heard.until("could not write a filter", |i| {
        it.fail(OpClass::Create, "/filters", 0, Fault::Io);
        put(i);
        let _ = keyspace.wait_until_merged();
    });
    end(db);
}

/// A keyspace that tunes itself, but the edit is refused. Absent keys are costly: there are many
/// runs, no filters, and more data than memory.
fn adopt(it: &Curious) {
    let (db, keyspace) = it.open(8 << 20);
    let poor = Design {
        memtable_bytes: Some(256 << 10),
        table_bytes: Some(64 << 10),
        ..with("tiering:16", "none")
    };
    keyspace.retune(poor.clone()).unwrap();
    for i in 0..60_000 {
        let at = key(i * 7919 % 60_000);
        keyspace.put(at, [i as u8; 400]).unwrap();
    }
    it.heard.until("could not adopt a design", |_| {
        it.refuse_edits_after(i64::MAX);
        keyspace.set_self_tuning(false).unwrap();
        keyspace.retune(poor.clone()).unwrap();
        for i in 0..140_000 {
            let absent = [&key(i * 31 % 60_000)[..], b"x"].concat();
            assert!(!keyspace.contains_key(absent).unwrap());
        }
        keyspace.flush().unwrap();
        keyspace.wait_until_merged().unwrap();
        keyspace.set_self_tuning(true).unwrap();
        keyspace.put(b"k", b"v").unwrap();
        // After that of the flush.
        it.refuse_edits_after(1);
        let _ = keyspace.flush();
        // The job of the flush looks for a design after it has flushed.
        let _ = keyspace.wait_until_merged();
    });
    end(db);
}

/// Operands that an operator refuses to combine.
fn operands_fail(it: &Curious) {
    let (db, _) = it.open(1 << 20);
    let layout = Layout::sorted().merge_operator("never");
    let keyspace = db.keyspace("operands", layout).unwrap();
    it.heard.until("could not fold operands", |_| {
        keyspace.merge(b"k", b"v").unwrap();
        keyspace.merge(b"k", b"v").unwrap();
        keyspace.flush().unwrap();
        keyspace.compact::<&[u8]>(..).unwrap();
    });
    end(db);
}

/// An edit of which nobody knows whether it is durable.
fn poison(it: &Curious) {
    let (db, keyspace) = it.open(1 << 20);
    it.fail(OpClass::Sync, "MANIFEST", 0, Fault::Io);
    while keyspace.put(b"k", b"v").is_ok() {
        let _ = keyspace.flush();
    }
    end(db);
}

/// Jobs that panic, on threads of the pool. Each cause begins with keys that no event has read.
fn jobs_panic(it: &Curious) {
    let (db, keyspace) = it.open(64 << 20);
    for kind in [
        "could not fill the page cache",
        "could not prepare a log segment",
    ] {
        it.heard.until(kind, |i| {
            it.defects.panics.store(true, SeqCst);
            for i in 100 * i..100 * (i + 1) {
                let _ = keyspace.put(key(i), value(i));
            }
            let _ = keyspace.flush();
            let _ = keyspace.wait_until_merged();
            it.defects.panics.store(false, SeqCst);
        });
    }
    let _ = db.close();
}

const CAUSES: [fn(&Curious); 6] = [
    work,
    tables_fail,
    edits_fail,
    filters_fail,
    operands_fail,
    poison,
];
/// Causes that take a second, or threads.
const MORE_CAUSES: [fn(&Curious); 2] = [adopt, jobs_panic];
/// The events of these only.
const MORE_KINDS: [&str; 4] = [
    "Adopted",
    "could not adopt a design",
    "could not fill the page cache",
    "could not prepare a log segment",
];

/// The names of the events that come of causes. Each has a machine of its own.
fn hear(causes: &[fn(&Curious)], seed: u64, machine: Machine) -> BTreeSet<String> {
    let heard = Arc::new(Heard::default());
    let mut all = BTreeSet::new();
    for &cause in causes {
        within(&heard, move |heard| {
            cause(&Curious::new(heard, seed, machine))
        });
        all.append(&mut heard.lock().0);
    }
    all
}

#[test]
fn a_listener_may_ask_the_database_whatever_it_hears() {
    let mut expected = kinds();
    expected.retain(|kind| !MORE_KINDS.contains(&kind.as_str()));
    for seed in 0..5 {
        assert_eq!(hear(&CAUSES, seed, Environment::simulated), expected);
    }
}

/// Expects every kind of event.
#[test]
fn a_listener_may_ask_the_database_while_other_threads_work() {
    let threads = |disk: &SimStorage, seed: u64| Environment {
        spawn: Arc::new(OsSpawn),
        background: Background::Threads(3),
        ..Environment::simulated(disk, seed)
    };
    let causes = [&CAUSES[..], &MORE_CAUSES[..]].concat();
    assert_eq!(hear(&causes, 1, threads), kinds());
}
