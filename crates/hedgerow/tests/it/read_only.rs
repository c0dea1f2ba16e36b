//! Opening for reading only, beside a writer; and files of later versions.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use hedgerow::io::sim::SimStorage;
use hedgerow::io::{Background, Environment, OsClock, OsSpawn};
use hedgerow::{Db, Durability, Error, ErrorKind, Keyspace, Layout};

use crate::support::{
    DIR, builder, contents, files, key, kind, open, plain, plain_small, prefix_length, put_synced,
    small, value,
};
use crate::watched::{Watched, Watcher};

#[test]
fn second_writer_is_locked_out_and_a_reader_is_not() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let keyspace = plain(&db);
    put_synced(&keyspace, 0);
    assert_eq!(kind(builder(&disk).open()), ErrorKind::Locked);
    let reader = builder(&disk).read_only(true).open().unwrap();
    assert_eq!(
        contents(&reader.existing_keyspace("plain").unwrap()).len(),
        1
    );
    // It sees what there was when it was opened.
    put_synced(&keyspace, 1);
    assert_eq!(
        contents(&reader.existing_keyspace("plain").unwrap()).len(),
        1
    );
    db.close().unwrap();
    open(&disk);
}

#[test]
fn lock_holds_on_a_real_disk() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    plain(&db).put(b"k", b"v").unwrap();
    assert_eq!(kind(Db::open(dir.path())), ErrorKind::Locked);
    let reader = Db::builder(dir.path()).read_only(true).open().unwrap();
    assert!(plain(&reader).get(b"k").unwrap().is_some());
    drop(db);
    drop(plain(&Db::open(dir.path()).unwrap()));
}

#[test]
fn read_only_refuses_every_write_and_changes_nothing() {
    let disk = SimStorage::new(2);
    let db = open(&disk);
    let keyspace = plain_small(&db);
    for i in 0..200 {
        keyspace.put(key(i), value(i)).unwrap();
    }
    let expected = contents(&keyspace);
    for image in [disk.kill(), disk.crash()] {
        let before = image.counters();
        let db = builder(&image).read_only(true).open().unwrap();
        let keyspace = plain(&db);
        assert_eq!(kind(keyspace.put(b"k", b"v")), ErrorKind::Unsupported);
        assert_eq!(kind(keyspace.delete(b"k")), ErrorKind::Unsupported);
        assert_eq!(
            kind(keyspace.update(b"k", |_| None)),
            ErrorKind::Unsupported
        );
        assert_eq!(kind(keyspace.clear()), ErrorKind::Unsupported);
        assert_eq!(kind(keyspace.flush()), ErrorKind::Unsupported);
        assert_eq!(kind(keyspace.compact::<&[u8]>(..)), ErrorKind::Unsupported);
        assert_eq!(
            kind(db.keyspace("new", Layout::sorted())),
            ErrorKind::Unsupported
        );
        assert_eq!(kind(db.drop_keyspace("plain")), ErrorKind::Unsupported);
        assert_eq!(kind(db.sync()), ErrorKind::Unsupported);
        assert_eq!(kind(db.flush()), ErrorKind::Unsupported);
        assert_eq!(kind(db.checkpoint("/copy")), ErrorKind::Unsupported);
        let mut batch = db.batch();
        batch.put(&keyspace, b"k", b"v").unwrap();
        assert_eq!(
            kind(batch.commit(Durability::Buffered)),
            ErrorKind::Unsupported
        );
        assert!(contents(&keyspace).len() >= expected.len() / 2);
        db.verify().unwrap();
        db.close().unwrap();
        assert_eq!(image.counters().mutations, before.mutations);
    }
}

#[test]
fn read_only_needs_a_database() {
    let disk = SimStorage::new(3);
    let opened = builder(&disk).read_only(true).open();
    assert_eq!(kind(opened), ErrorKind::InvalidArgument);
    assert!(disk.paths().is_empty());
    assert_eq!(
        kind(builder(&disk).create_if_missing(false).open()),
        ErrorKind::InvalidArgument
    );
    assert!(disk.paths().is_empty());
}

/// Lets the writer do something before each of a reader's first steps on the disk.
struct Hook(Mutex<Box<dyn FnMut() + Send>>);

impl Watcher for Hook {
    fn before(&self, call: &str, _: &Path) {
        if matches!(call, "list" | "size" | "open") {
            (self.0.lock().unwrap())();
        }
    }
}

/// A reader's disk with such a hook.
fn hooked(disk: &SimStorage, hook: impl FnMut() + Send + 'static) -> Arc<Watched<Hook>> {
    Arc::new(Watched {
        disk: disk.clone(),
        watcher: Arc::new(Hook(Mutex::new(Box::new(hook)))),
    })
}

/// The log does not have a bulk load or a clear, the manifest not the put behind it.
#[test]
fn read_only_sees_no_write_behind_a_bulk_load_or_a_clear_that_it_does_not_see() {
    for moment in 0..40 {
        let disk = SimStorage::new(moment);
        let db = open(&disk);
        let [loaded, cleared, put] =
            ["loaded", "cleared", "put"].map(|name| db.keyspace(name, Layout::sorted()).unwrap());
        cleared.put(b"k", b"before").unwrap();
        let handles = [loaded.clone(), cleared.clone(), put.clone()];
        let mut lookups = 0;
        let hook = hooked(&disk, move || {
            lookups += 1;
            if lookups == moment {
                let [loaded, cleared, put] = &handles;
                match moment % 2 {
                    0 => drop(loaded.bulk_load([Ok::<_, Error>((b"k", b"v"))]).unwrap()),
                    _ => cleared.clear().unwrap(),
                }
                put.put(b"k", b"behind").unwrap();
            }
        });
        let environment = Environment {
            storage: hook,
            ..Environment::simulated(&disk, 7)
        };
        let reader = builder(&disk).environment(environment).read_only(true);
        let reader = reader.open().unwrap();
        let read = |name| reader.existing_keyspace(name).unwrap().get(b"k").unwrap();
        if read("put").is_some() {
            let is_loaded = read("loaded").is_some();
            assert_eq!(
                (is_loaded, read("cleared").is_none()),
                (moment % 2 == 0, moment % 2 != 0)
            );
        }
    }
}

/// A call before the next sync of the log.
type Meanwhile = Box<dyn FnOnce() + Send>;

/// Pauses a writer before a sync of the log.
struct Pause(Mutex<Option<Meanwhile>>);

impl Watcher for Pause {
    fn before(&self, call: &str, _: &Path) {
        let meanwhile = (call == "sync").then(|| self.0.lock().unwrap().take());
        if let Some(meanwhile) = meanwhile.flatten() {
            meanwhile();
        }
    }
}

/// The record of the put is in the log while the bulk load before it is not yet in the manifest.
#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "a thread waits beside the simulation"
)]
fn read_only_sees_no_put_behind_a_bulk_load_that_is_under_way() {
    let disk = SimStorage::new(4);
    let pause = Arc::new(Pause(Mutex::new(None)));
    let environment = Environment {
        storage: Arc::new(Watched {
            disk: disk.clone(),
            watcher: pause.clone(),
        }),
        ..Environment::simulated(&disk, 7)
    };
    let db = builder(&disk).environment(environment).open().unwrap();
    let [loaded, put] = ["loaded", "put"].map(|name| db.keyspace(name, Layout::sorted()).unwrap());
    // The load has its number when it syncs what lies before.
    put.put(b"first", b"before").unwrap();
    let (paused, behind) = mpsc::channel();
    let beside = disk.clone();
    *pause.0.lock().unwrap() = Some(Box::new(move || {
        paused
            .send(thread::spawn(move || put.put(b"k", b"behind")))
            .unwrap();
        // The put does not return before the load does: nothing says when its record is there.
        for _ in 0..20 {
            thread::sleep(Duration::from_millis(5));
            let reader = builder(&beside).read_only(true).open().unwrap();
            let read = |name| reader.existing_keyspace(name).unwrap().get(b"k").unwrap();
            assert_eq!((read("put"), read("loaded")), (None, None));
        }
    }));
    loaded.bulk_load([Ok::<_, Error>((b"k", b"v"))]).unwrap();
    behind.recv().unwrap().join().unwrap().unwrap();
    let reader = builder(&disk).read_only(true).open().unwrap();
    for name in ["put", "loaded"] {
        let value = reader.existing_keyspace(name).unwrap().get(b"k").unwrap();
        assert!(value.is_some(), "{name}");
    }
}

#[test]
fn read_only_beside_a_writer_sees_a_prefix_whatever_the_writer_does_meanwhile() {
    for seed in 0..24u64 {
        let disk = SimStorage::new(seed);
        let db = builder(&disk).log_segment_bytes(4 << 10).open().unwrap();
        let keyspace = db
            .keyspace_with("plain", Layout::sorted().hash(2), small())
            .unwrap();
        for i in 0..50 {
            put_synced(&keyspace, i);
        }
        // The writer is quiet after a while: a reader need not outrun it for ever.
        let (mut step, mut next) = (0u64, 50);
        let writer = keyspace.clone();
        let count = Arc::new(Mutex::new(50));
        let counted = count.clone();
        let hook = move || {
            step += 1;
            if step > 60 {
                return;
            }
            match (step + seed) % 7 {
                0 => writer.flush().unwrap(),
                1 if seed % 3 == 0 => writer.compact::<&[u8]>(..).unwrap(),
                _ => {
                    for _ in 0..seed % 5 + 1 {
                        put_synced(&writer, next);
                        next += 1;
                    }
                }
            }
            *counted.lock().unwrap() = next;
        };
        let environment = Environment {
            storage: hooked(&disk, hook),
            ..Environment::simulated(&disk, seed)
        };
        let reader = Db::builder(DIR)
            .environment(environment)
            .read_only(true)
            .open();
        let reader = reader.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let found = contents(&reader.existing_keyspace("plain").unwrap());
        let count = *count.lock().unwrap();
        let length = prefix_length(|i| found.contains_key(&key(i)), count);
        assert!(length >= 50);
        // The reader still reads what it saw, whatever files the writer removes.
        keyspace.compact::<&[u8]>(..).unwrap();
        db.drop_keyspace("plain").unwrap();
        assert_eq!(contents(&reader.existing_keyspace("plain").unwrap()), found);
    }
}

/// The writer flushes, merges or drops before every look of the reader at the disk, without an end.
#[test]
fn read_only_that_never_gets_ahead_of_the_writer_says_so() {
    let mut refused = 0;
    for seed in 0..30u64 {
        let disk = SimStorage::new(seed);
        let db = builder(&disk).log_segment_bytes(4 << 10).open().unwrap();
        let open = |db: &Db| {
            let layout = Layout::sorted().hash(2);
            db.keyspace_with("plain", layout, small()).unwrap()
        };
        let mut next = 0;
        let mut put = move |keyspace: &Keyspace, count| {
            for _ in 0..count {
                put_synced(keyspace, next);
                next += 1;
            }
        };
        put(&open(&db), 50);
        let (writer, mut step) = (db.clone(), seed);
        let hook = move || {
            step += 1;
            if !step.is_multiple_of(1 + seed % 5) {
                return;
            }
            let keyspace = open(&writer);
            put(&keyspace, 1 + seed % 7);
            keyspace.flush().unwrap();
            match step % 3 {
                0 => keyspace.compact::<&[u8]>(..).unwrap(),
                1 if step % 5 == 0 => writer.drop_keyspace("plain").unwrap(),
                _ => {}
            }
        };
        let environment = Environment {
            storage: hooked(&disk, hook),
            ..Environment::simulated(&disk, seed)
        };
        let reader = Db::builder(DIR).environment(environment).read_only(true);
        if let Err(error) = reader.open() {
            refused += 1;
            assert_eq!(error.kind(), ErrorKind::Conflict, "seed {seed}: {error}");
            assert!(
                error.to_string().contains("a writer changed them"),
                "{error}"
            );
        }
    }
    println!("{refused} of 30 readers did not get ahead of the writer");
    assert!(refused > 0);
}

#[test]
fn read_only_opens_all_the_time_beside_a_busy_writer() {
    let disk = SimStorage::new(5);
    let environment = Environment {
        storage: Arc::new(disk.clone()),
        clock: Arc::new(OsClock::new()),
        spawn: Arc::new(OsSpawn),
        background: Background::Threads(2),
    };
    let db = builder(&disk)
        .environment(environment.clone())
        .open()
        .unwrap();
    let keyspace = db
        .keyspace_with("plain", Layout::sorted().hash(2), small())
        .unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0.. {
                let durability =
                    [Durability::Buffered, Durability::Synced][usize::from(i % 8 == 0)];
                keyspace.put_with(key(i), value(i), durability).unwrap();
                if i % 20 == 0 {
                    thread::yield_now();
                }
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let opens: Vec<_> = (0..25)
            .map(|_| {
                let before = db.stats().puts;
                let reader = builder(&disk)
                    .environment(environment.clone())
                    .read_only(true);
                reader.open().map(|reader| (before, reader))
            })
            .collect();
        done.store(true, Ordering::Relaxed);
        for opened in opens {
            let (before, reader) = opened.unwrap();
            let found = contents(&reader.existing_keyspace("plain").unwrap());
            let length = prefix_length(|i| found.contains_key(&key(i)), found.len() as u64 + 10);
            assert!(length >= before, "{length} of {before} acknowledged");
        }
    });
}

/// Sets a word of a manifest's header and makes the header valid again. docs/format: 8 bytes of
/// magic, the version, the three feature words; at 28 the checksum, seeded with the magic.
pub(crate) fn with_manifest_word(disk: &SimStorage, at: usize, word: u32) -> SimStorage {
    let image = disk.kill();
    let path = format!("{DIR}/MANIFEST");
    let mut bytes = image.contents(&path).unwrap();
    bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(b"hedgeman"), &bytes[..28]);
    bytes[28..32].copy_from_slice(&checksum.to_le_bytes());
    image.set_contents(path, &bytes).unwrap();
    image
}

#[test]
fn unknown_features_of_the_manifest_are_refused_as_far_as_they_matter() {
    let disk = SimStorage::new(6);
    put_synced(&plain(&open(&disk)), 0);
    let [version, compatible, read_only, incompatible] = [8, 12, 16, 20];
    open(&with_manifest_word(&disk, compatible, 1 << 5));
    for image in [
        with_manifest_word(&disk, version, 1000),
        with_manifest_word(&disk, incompatible, 1),
    ] {
        let before = image.counters().mutations;
        assert_eq!(
            kind(builder(&image).read_only(true).open()),
            ErrorKind::FormatVersion
        );
        assert_eq!(image.counters().mutations, before);
        assert_eq!(kind(builder(&image).open()), ErrorKind::FormatVersion);
    }
    let image = with_manifest_word(&disk, read_only, 1 << 9);
    assert_eq!(kind(builder(&image).open()), ErrorKind::FormatVersion);
    let reader = builder(&image).read_only(true).open().unwrap();
    assert_eq!(contents(&plain(&reader)).len(), 1);
}

#[test]
fn a_manifest_of_version_0_is_refused_with_a_way_out() {
    let disk = SimStorage::new(9);
    put_synced(&plain(&open(&disk)), 0);
    let image = with_manifest_word(&disk, 8, 0);
    for is_read_only in [true, false] {
        let opened = builder(&image).read_only(is_read_only).open();
        let error = opened.expect_err("it is refused");
        assert_eq!(error.kind(), ErrorKind::FormatVersion);
        let text = error.to_string();
        for part in [
            "version 1, found 0",
            "dump the database with the program that wrote it, and load it",
        ] {
            assert!(text.contains(part), "expected `{part}` in: {text}");
        }
    }
}

#[test]
fn unknown_features_of_a_log_segment_are_refused() {
    // docs/format: as in the manifest; at 60 the checksum, seeded with the number of the segment.
    let disk = SimStorage::new(7);
    put_synced(&plain(&open(&disk)), 0);
    let name = &files(&disk, "log")[0];
    let path = format!("{DIR}/log/{name}");
    let segment: u64 = name[..8].parse().unwrap();
    for at in [8, 20] {
        let image = disk.kill();
        let mut bytes = image.contents(&path).unwrap();
        bytes[at..at + 4].copy_from_slice(&1000u32.to_le_bytes());
        let seed = segment.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&seed), &bytes[..60]);
        bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
        image.set_contents(&path, &bytes).unwrap();
        assert_eq!(kind(builder(&image).open()), ErrorKind::FormatVersion);
        assert_eq!(
            kind(builder(&image).read_only(true).open()),
            ErrorKind::FormatVersion
        );
    }
}

#[test]
fn unknown_features_of_a_table_are_refused_when_it_is_read() {
    // docs/format: a footer of 96 bytes, the table's number first, the feature words at 68, the
    // version at 80, the checksum at 84, seeded with number and offset.
    let disk = SimStorage::new(8);
    let keyspace = plain(&open(&disk));
    put_synced(&keyspace, 0);
    keyspace.flush().unwrap();
    let path = format!("{DIR}/tables/{}", files(&disk, "tables")[0]);
    let [compatible, read_only, incompatible, version] = [68, 72, 76, 80];
    for word in [compatible, read_only, incompatible, version] {
        let image = disk.kill();
        let mut bytes = image.contents(&path).unwrap();
        let footer = bytes.len() - 96;
        bytes[footer + word..footer + word + 4].copy_from_slice(&64u32.to_le_bytes());
        let number = u64::from_le_bytes(bytes[footer..footer + 8].try_into().unwrap());
        let seed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ footer as u64;
        let seeded = crc32c::crc32c(&seed.to_le_bytes());
        let checksum = crc32c::crc32c_append(seeded, &bytes[footer..footer + 84]);
        bytes[footer + 84..footer + 88].copy_from_slice(&checksum.to_le_bytes());
        image.set_contents(&path, &bytes).unwrap();
        let db = open(&image);
        let found = plain(&db).get(key(0));
        if word == incompatible || word == version {
            assert_eq!(kind(found), ErrorKind::FormatVersion);
            assert_eq!(kind(db.verify()), ErrorKind::FormatVersion);
            assert_eq!(
                kind(builder(&image).read_only(true).open()),
                ErrorKind::FormatVersion
            );
        } else {
            // A table is never changed: what may not be written does not matter.
            assert_eq!(found.unwrap().as_deref(), Some(&value(0)[..]));
        }
    }
}
