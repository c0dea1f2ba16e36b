//! Checkpoints: one number, links, and a database like any other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use hedgerow::io::sim::{Fault, OpClass, SimStorage};
use hedgerow::io::{Background, Environment, OsClock, OsSpawn};
use hedgerow::{Builder, Db, Durability, ErrorKind, Layout};

use crate::support::{builder, contents, key, kind, open, plain, plain_small, small, value};

fn open_at(disk: &SimStorage, dir: &str) -> Db {
    let environment = Environment::simulated(disk, 3);
    let builder: Builder = Db::builder(dir).environment(environment);
    builder.create_if_missing(false).open().unwrap()
}

#[test]
fn checkpoint_opens_as_a_database_with_the_contents_of_its_moment() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let keyspace = db
        .keyspace_with("plain", Layout::sorted().hash(2), small())
        .unwrap();
    for i in 0..500 {
        keyspace.put(key(i % 300), value(i)).unwrap();
    }
    let expected = contents(&keyspace);
    db.checkpoint("/copy").unwrap();
    for i in 0..500 {
        keyspace.put(key(i), b"later").unwrap();
    }
    keyspace.compact::<&[u8]>(..).unwrap();
    db.drop_keyspace("plain").unwrap();
    // It is durable when it returns.
    for image in [disk.crash(), disk.kill()] {
        let copy = open_at(&image, "/copy");
        let keyspace = copy.existing_keyspace("plain").unwrap();
        assert_eq!(contents(&keyspace), expected);
        copy.verify().unwrap();
        keyspace.put(b"more", b"v").unwrap();
        keyspace.compact::<&[u8]>(..).unwrap();
        assert_eq!(contents(&keyspace).len(), expected.len() + 1);
    }
}

#[test]
fn checkpoint_is_linked_on_one_device_and_copied_across_devices() {
    let disk = SimStorage::new(2);
    disk.add_device("/other");
    let db = open(&disk);
    let keyspace = plain(&db);
    for i in 0..300 {
        keyspace.put(key(i), [1; 400]).unwrap();
    }
    keyspace.flush().unwrap();
    let before = disk.used_bytes();
    db.checkpoint("/same").unwrap();
    let linked = disk.used_bytes() - before;
    assert!(linked < 10_000, "{linked} bytes");
    db.checkpoint("/other/copy").unwrap();
    let expected = contents(&keyspace);
    for dir in ["/same", "/other/copy"] {
        let copy = open_at(&disk.crash(), dir);
        assert_eq!(contents(&plain(&copy)), expected);
    }
}

#[test]
fn checkpoint_into_a_used_directory_is_refused() {
    let disk = SimStorage::new(3);
    let db = open(&disk);
    plain(&db).put(b"k", b"v").unwrap();
    assert_eq!(kind(db.checkpoint("/db")), ErrorKind::InvalidArgument);
    db.checkpoint("/copy").unwrap();
    assert_eq!(kind(db.checkpoint("/copy")), ErrorKind::InvalidArgument);
    disk.set_contents("/file/x", b"x").unwrap();
    assert_eq!(kind(db.checkpoint("/file")), ErrorKind::InvalidArgument);
}

#[test]
fn checkpoint_cut_short_does_not_open_and_leaves_the_source_whole() {
    let disk = SimStorage::new(4);
    let db = open(&disk);
    let keyspace = plain_small(&db);
    for i in 0..300 {
        keyspace.put(key(i), value(i)).unwrap();
    }
    keyspace.flush().unwrap();
    let expected = contents(&keyspace);
    let mutations = {
        let image = disk.kill();
        let db = open(&image);
        let before = image.counters().mutations;
        db.checkpoint("/copy").unwrap();
        image.counters().mutations - before
    };
    for after in 0..mutations {
        let image = disk.kill();
        let db = open(&image);
        image.crash_after(after);
        assert!(db.checkpoint("/copy").is_err());
        let image = image.crash();
        assert_eq!(contents(&plain(&open(&image))), expected);
        let copy = Db::builder("/copy").environment(Environment::simulated(&image, 1));
        match copy.create_if_missing(false).open() {
            // Its manifest may have reached the disk: then everything has.
            Ok(copy) => assert_eq!(contents(&plain(&copy)), expected),
            // Nothing may have, or tables without a manifest.
            Err(error) => assert!(
                [ErrorKind::InvalidArgument, ErrorKind::Corruption].contains(&error.kind()),
                "{error}"
            ),
        }
    }
}

#[test]
fn failed_checkpoint_leaves_the_database_writable() {
    for class in [
        OpClass::Name,
        OpClass::Create,
        OpClass::Write,
        OpClass::Sync,
    ] {
        let disk = SimStorage::new(5);
        let db = open(&disk);
        let keyspace = plain(&db);
        keyspace.put(b"k", b"v").unwrap();
        disk.fail_path_after(class, "/copy", 0, Fault::Io);
        assert_eq!(kind(db.checkpoint("/copy")), ErrorKind::Io, "{class:?}");
        keyspace.put(b"k2", b"v").unwrap();
        keyspace.flush().unwrap();
        db.checkpoint("/copy2").unwrap();
        assert_eq!(contents(&plain(&open_at(&disk, "/copy2"))).len(), 2);
    }
}

#[test]
fn checkpoint_beside_writers_holds_one_moment() {
    let disk = SimStorage::new(6);
    let environment = Environment {
        storage: Arc::new(disk.clone()),
        clock: Arc::new(OsClock::new()),
        spawn: Arc::new(OsSpawn),
        background: Background::Threads(2),
    };
    let db = builder(&disk).environment(environment).open().unwrap();
    let a = db.keyspace_with("a", Layout::sorted(), small()).unwrap();
    let b = db
        .keyspace_with("b", Layout::sorted().hash(3), small())
        .unwrap();
    let done = AtomicBool::new(false);
    // Copies take longer the more there is, so a writer without a bound would outrun them.
    let keys_max = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..u64::MAX {
                while i >= keys_max.load(Ordering::Relaxed) && !done.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
                let mut batch = db.batch();
                batch.put(&a, key(i), value(i)).unwrap();
                // The second keyspace is flushed more often than the first.
                batch.put(&b, key(i), [1; 300]).unwrap();
                batch.commit(Durability::Buffered).unwrap();
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for n in 0..12 {
            keys_max.fetch_add(2000, Ordering::Relaxed);
            let before = db.stats().puts / 2;
            db.checkpoint(format!("/copy-{n}")).unwrap();
            let copy = open_at(&disk, &format!("/copy-{n}"));
            let [a, b] = ["a", "b"].map(|name| contents(&copy.existing_keyspace(name).unwrap()));
            let last = a.keys().next_back().cloned();
            let fine = a.keys().eq(b.keys())
                && a.len() as u64 >= before
                && (a.is_empty() || last == Some(key(a.len() as u64 - 1)));
            if !fine {
                done.store(true, Ordering::Relaxed);
            }
            assert!(
                fine,
                "checkpoint {n}: {} and {} keys to {last:?}",
                a.len(),
                b.len()
            );
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_checkpoint_to_a_name_alone_syncs_the_directory_that_it_is_in() {
    let syncs = |dir: &str| {
        let disk = SimStorage::new(1);
        let db = open(&disk);
        plain(&db).put("a", "1").unwrap();
        let before = disk.counters().syncs;
        db.checkpoint(dir).unwrap();
        disk.counters().syncs - before
    };
    assert_eq!(syncs("copy"), syncs("/copies/copy"));
}
