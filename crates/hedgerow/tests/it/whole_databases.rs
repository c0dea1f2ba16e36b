//! Databases that are looked for and destroyed, keyspaces that are renamed.

use hedgerow::io::Environment;
use hedgerow::io::sim::SimStorage;
use hedgerow::{Db, ErrorKind, Layout, LevelPaths};

use crate::support::{DIR, builder, contents, hashed, key, kind, open, plain_small, small, value};

#[test]
fn a_database_is_destroyed_and_nothing_else() {
    let disk = SimStorage::new(1);
    assert!(!builder(&disk).exists().unwrap());
    assert_eq!(kind(builder(&disk).destroy()), ErrorKind::InvalidArgument);
    let paths = LevelPaths::new()
        .levels(1.., "/slow")
        .log("/fast")
        .filters("/slow");
    let db = builder(&disk).level_paths(paths).open().unwrap();
    let (sorted, unsorted) = (plain_small(&db), hashed(&db, small()));
    for i in 0..2000 {
        sorted.put(key(i), value(i)).unwrap();
        unsorted.put(key(i), value(i)).unwrap();
    }
    sorted.flush().unwrap();
    assert!(builder(&disk).exists().unwrap());
    assert_eq!(kind(builder(&disk).destroy()), ErrorKind::Locked);
    drop((sorted, unsorted));
    db.close().unwrap();
    let foreign = [
        "/db/notes.txt",
        "/db/tables/mine.table.txt",
        "/slow/log/7.log",
    ];
    for path in foreign {
        let dir = std::path::Path::new(path).parent().unwrap();
        let storage = Environment::simulated(&disk, 1).storage;
        storage.create_dir_all(dir).unwrap();
        let mut file = storage.create(std::path::Path::new(path)).unwrap();
        file.sync().unwrap();
        storage.sync_dir(dir).unwrap();
    }
    let count = disk.paths().len();
    assert!(count > foreign.len() + 10, "{count} files");
    // Cut short at every point, it can be called again.
    let begun = disk.counters().mutations;
    for after in (1..).step_by(7) {
        let again = disk.crash();
        again.crash_after(after);
        let done = builder(&again).destroy();
        let again = again.crash();
        if done.is_err() && builder(&again).exists().unwrap() {
            builder(&again).destroy().unwrap();
        }
        let mut left: Vec<_> = again.paths();
        left.retain(|path| !path.ends_with("LOCK"));
        assert_eq!(left, foreign.map(std::path::PathBuf::from), "after {after}");
        if done.is_ok() {
            break;
        }
    }
    assert_eq!(disk.counters().mutations, begun);
}

#[test]
fn a_renamed_keyspace_keeps_its_entries_handles_and_batches() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let keyspace = plain_small(&db);
    keyspace.put("k", "1").unwrap();
    let snapshot = db.snapshot().unwrap();
    let mut batch = db.batch();
    batch.put(&keyspace, "k", "2").unwrap();
    db.keyspace("taken", Layout::hashed()).unwrap();
    for (from, to) in [("none", "x"), ("plain", "taken"), ("plain", "")] {
        assert_eq!(
            kind(db.rename_keyspace(from, to)),
            ErrorKind::InvalidArgument
        );
    }
    db.rename_keyspace("plain", "plain").unwrap();
    db.rename_keyspace("plain", "renamed").unwrap();
    assert_eq!(keyspace.name(), "renamed");
    assert_eq!(db.keyspaces(), ["renamed", "taken"]);
    batch.commit(hedgerow::Durability::Buffered).unwrap();
    assert_eq!(
        snapshot.get(&keyspace, "k").unwrap().as_deref(),
        Some(&b"1"[..])
    );
    let again = db.keyspace("renamed", Layout::sorted()).unwrap();
    assert_eq!(again.get("k").unwrap().as_deref(), Some(&b"2"[..]));
    // The name is free again.
    assert!(plain_small(&db).is_empty().unwrap());
    keyspace.clear().unwrap();
    assert_eq!(db.keyspaces(), ["plain", "renamed", "taken"]);
    keyspace.put("k", "3").unwrap();
    drop((snapshot, again, keyspace));
    db.close().unwrap();
    let db = open(&disk);
    db.verify().unwrap();
    let renamed = db.existing_keyspace("renamed").unwrap();
    assert_eq!(contents(&renamed).len(), 1);
    db.drop_keyspace("renamed").unwrap();
    assert_eq!(db.keyspaces(), ["plain", "taken"]);
}

/// A crash leaves one of the two names, with all entries.
#[test]
fn a_rename_is_whole_across_any_crash() {
    let run = |disk: &SimStorage| -> hedgerow::Result<()> {
        let db: Db = builder(disk).open()?;
        let keyspace = db.keyspace_with("a", Layout::sorted(), small())?;
        keyspace.put_with("k", "v", hedgerow::Durability::Synced)?;
        db.rename_keyspace("a", "b")?;
        assert!(db.existing_keyspace("a").is_none());
        db.rename_keyspace("b", "c")?;
        db.close()
    };
    let whole = SimStorage::new(1);
    run(&whole).unwrap();
    assert!(whole.paths().iter().all(|path| path.starts_with(DIR)));
    let mut seen = std::collections::BTreeSet::new();
    for after in 5..=whole.counters().mutations {
        let disk = SimStorage::new(after);
        disk.crash_after(after);
        let _ = run(&disk);
        let db = open(&disk.crash());
        let names = db.keyspaces();
        assert!(names.len() <= 1, "after {after}: {names:?}");
        if let Some(keyspace) = names.first().and_then(|name| db.existing_keyspace(name))
            && names != ["a"]
        {
            assert_eq!(keyspace.get("k").unwrap().as_deref(), Some(&b"v"[..]));
        }
        seen.extend(names);
        db.verify().unwrap();
    }
    assert!(seen.iter().eq(["a", "b", "c"]), "{seen:?}");
}
