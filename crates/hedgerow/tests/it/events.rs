//! The events that listeners get, and the calls that they may make meanwhile.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use hedgerow::io::sim::{Fault, OpClass, SimStorage};
use hedgerow::io::{Background, Environment, OsSpawn};
use hedgerow::{Db, Design, ErrorKind, Event, Layout, Result};

use crate::support::{DIR, key, plain_small, small, value};

/// The names of the events that a listener got.
type Heard = Arc<Mutex<BTreeSet<String>>>;

fn name(event: &Event) -> String {
    let text = match event {
        Event::BackgroundError { doing, .. } => return format!("could not {doing}"),
        other => format!("{other:?}"),
    };
    text.split(' ').next().unwrap().to_owned()
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
    let _ = events.and_then(|it| it.put(name(event), b""));
    Ok(())
}

/// A database whose listener asks it for everything at each event.
fn curious(environment: Environment) -> (Db, Heard) {
    let heard = Heard::default();
    let told = heard.clone();
    let asked: Arc<OnceLock<Db>> = Arc::default();
    let db = asked.clone();
    let listener = move |event: &Event| {
        if let Some(db) = db.get() {
            // An event at the end of closing finds the database closed.
            if let Err(error) = ask(db, event) {
                assert_eq!(error.kind(), ErrorKind::Closed);
            }
        }
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        told.insert(name(event));
    };
    let db = Db::builder(DIR)
        .environment(environment)
        .memory_budget(1 << 20)
        .log_segment_bytes(16 << 10)
        .listener(listener)
        .open()
        .unwrap();
    assert!(asked.set(db.clone()).is_ok());
    (db, heard)
}

/// Repeats the cause of an event until the listener has it, more often than it can need.
fn until(heard: &Heard, expected: &str, mut step: impl FnMut(u64)) {
    let is_heard = || heard.lock().unwrap().contains(expected);
    for i in 0..1000 {
        if is_heard() {
            return;
        }
        step(i);
    }
    panic!("expected to hear: {expected}");
}

/// Causes every event, except those that come with filters.
fn happen(disk: &SimStorage, environment: Environment) -> Heard {
    let (db, heard) = curious(environment);
    let keyspace = plain_small(&db);
    for i in 0..500 {
        keyspace.put(key(i * 7 % 500), value(i)).unwrap();
    }
    keyspace.compact::<&[u8]>(..).unwrap();
    let policy = "leveling:2".parse().unwrap();
    keyspace.retune(Design { policy, ..small() }).unwrap();
    keyspace.wait_until_merged().unwrap();
    // The next file of a table fails: a job of another thread may be the one that makes it.
    let fail = || disk.fail_path_after(OpClass::Create, "/tables", 0, Fault::Io);
    until(&heard, "could not flush a memtable", |i| {
        keyspace.put(b"k", value(i)).unwrap();
        fail();
        let _ = keyspace.flush();
    });
    until(&heard, "could not merge tables", |i| {
        keyspace.put(b"k", value(i)).unwrap();
        let _ = keyspace.flush();
        fail();
        let _ = keyspace.compact::<&[u8]>(..);
    });
    // An edit of which nobody knows whether it is durable.
    disk.fail_path_after(OpClass::Sync, "MANIFEST", 0, Fault::Io);
    while keyspace.put(b"k", b"v").is_ok() {
        let _ = keyspace.flush();
    }
    assert_eq!(db.stats().panics, 0);
    let _ = db.close();
    heard
}

const HAPPENS: [&str; 8] = [
    "Flushed",
    "Merged",
    "Poisoned",
    "Recovered",
    "Reshaped",
    "Retuned",
    "could not flush a memtable",
    "could not merge tables",
];

#[test]
fn a_listener_may_ask_the_database_whatever_it_hears() {
    for seed in 0..20 {
        let disk = SimStorage::new(seed);
        let heard = happen(&disk, Environment::simulated(&disk, seed));
        let heard = heard.lock().unwrap();
        for expected in HAPPENS {
            assert!(heard.contains(expected), "seed {seed}: {expected}");
        }
    }
}

#[test]
fn a_listener_may_ask_the_database_while_other_threads_write() {
    let disk = SimStorage::new(1);
    let heard = happen(
        &disk,
        Environment {
            spawn: Arc::new(OsSpawn),
            background: Background::Threads(3),
            ..Environment::simulated(&disk, 1)
        },
    );
    let heard = heard.lock().unwrap();
    for expected in HAPPENS {
        assert!(heard.contains(expected), "{expected}");
    }
}
