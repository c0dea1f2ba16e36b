//! A repair that must not be made now is refused before it has changed anything, and nobody reads a
//! database while it is repaired.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hedgerow::io::sim::{Fault, OpClass, SimStorage};
use hedgerow::io::{Environment, Storage};
use hedgerow::{Db, ErrorKind, Layout, LevelPaths};

use crate::crafted::{self, What};
use crate::read_only::with_manifest_word;
use crate::repair::{remove_manifest, subject};
use crate::support::{
    Contents, DIR, builder, contents, files, key, kind, open, put_synced, small, value,
};
use crate::watched::{Watched, Watcher};

const PATHS: &str = "0=/fast/db;1-=/slow/db";

fn whole(disk: &SimStorage) -> Contents {
    contents(&open(disk).existing_keyspace("it").unwrap())
}

#[test]
fn files_that_cannot_be_read_now_are_not_damaged() {
    let (disk, expected) = subject(true);
    for name in ["/MANIFEST", ".table"] {
        let disk = disk.kill();
        let before = disk.paths();
        disk.fail_path_after(OpClass::Read, name, 0, Fault::Io);
        assert_eq!(kind(hedgerow::repair_with(builder(&disk))), ErrorKind::Io);
        assert_eq!((disk.faults_fired(), disk.paths()), (1, before), "{name}");
        assert_eq!(whole(&disk), expected);
    }
}

#[test]
fn files_of_another_version_are_not_damaged() {
    let (disk, expected) = subject(true);
    let [version, read_only, incompatible] = [8, 16, 20];
    let newer_table = disk.kill();
    let mut sealed = crafted::sealed(&newer_table).into_iter();
    let footer = sealed.find(|it| matches!(it.what, What::Footer)).unwrap();
    footer.falsify(&newer_table, |bytes| bytes[80] = 64);
    for image in [
        with_manifest_word(&disk, version, 1000),
        with_manifest_word(&disk, read_only, 1 << 9),
        with_manifest_word(&disk, incompatible, 1),
        newer_table,
    ] {
        let before: Vec<_> = state(&image);
        let refused = hedgerow::repair_with(builder(&image));
        assert_eq!(kind(refused), ErrorKind::FormatVersion);
        assert_eq!(state(&image), before);
    }
    assert_eq!(whole(&disk), expected);
}

fn state(disk: &SimStorage) -> Vec<(PathBuf, Vec<u8>)> {
    let paths = disk.paths().into_iter();
    paths
        .map(|path| (path.clone(), disk.contents(path).unwrap()))
        .collect()
}

/// Without a manifest, the directories of a repair are those that the caller names. Tables that the
/// first attempt did not know have no place in what it has made.
#[test]
fn a_repair_that_is_started_again_with_other_directories_is_refused() {
    let disk = SimStorage::new(1);
    disk.add_device("/fast");
    disk.add_device("/slow");
    let paths: LevelPaths = PATHS.parse().unwrap();
    let db = builder(&disk).level_paths(paths.clone()).open().unwrap();
    for name in ["a", "b"] {
        let keyspace = db.keyspace_with(name, Layout::sorted(), small()).unwrap();
        (0..400).for_each(|i| keyspace.put(key(i), value(i)).unwrap());
        keyspace.flush().unwrap();
        keyspace.compact::<&[u8]>(..).unwrap();
        put_synced(&keyspace, 400);
    }
    drop(db);
    let disk = disk.kill();
    remove_manifest(&disk);
    let image = disk.kill();
    hedgerow::repair_with(builder(&image)).unwrap();
    let (mut refused, mut repaired) = (0, 0);
    for after in 0..image.counters().mutations {
        let disk = disk.kill();
        disk.crash_after(after);
        let _stopped = hedgerow::repair_with(builder(&disk));
        let disk = disk.kill();
        let before = disk.paths().len();
        let again = hedgerow::repair_with(builder(&disk).level_paths(paths.clone()));
        match again {
            Ok(_) => repaired += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
                assert!(error.to_string().contains("/slow/db"), "{error}");
                assert_eq!(disk.paths().len(), before);
                refused += 1;
                hedgerow::repair_with(builder(&disk)).unwrap();
                hedgerow::repair_with(builder(&disk).level_paths(paths.clone())).unwrap();
            }
        }
        let db = open(&disk);
        let names = db.keyspaces();
        let of = |name: &String| contents(&db.existing_keyspace(name).unwrap()).len();
        let found: usize = names.iter().map(of).sum();
        assert_eq!(found, 802, "after {after}: {names:?}");
    }
    assert!(refused > 5 && repaired > 0, "{refused} {repaired}");
}

/// Puts the database under repair when its manifest is opened for the first time.
struct Repairing {
    disk: SimStorage,
    under_repair: Vec<(PathBuf, Vec<u8>)>,
    began: AtomicBool,
}

impl Watcher for Repairing {
    fn before(&self, call: &str, path: &Path) {
        if call == "open" && path.ends_with("MANIFEST") && !self.began.swap(true, Ordering::Relaxed)
        {
            for (path, bytes) in &self.under_repair {
                self.disk.set_contents(path, bytes).unwrap();
            }
        }
    }
}

/// A repair may begin behind the first look for one.
#[test]
fn a_repair_that_begins_while_files_are_read_is_noticed() {
    let (disk, _) = subject(true);
    let manifest = Path::new(DIR).join("MANIFEST");
    let whole = disk.contents(&manifest).unwrap();
    // The description of the repair, which names no table yet.
    let stopped = |after: u64| {
        let image = disk.kill();
        image.crash_after(after);
        let _stopped = hedgerow::repair_with(builder(&image));
        image.kill()
    };
    let mut images = (0..100).map(stopped);
    let is_begun = |image: &SimStorage| image.contents(&manifest).unwrap() != whole;
    let image = images.find(is_begun).unwrap();
    let bytes = image.contents(&manifest).unwrap();
    let mark = Path::new(DIR).join("lost/MANIFEST.before");
    assert!(files(&image, "lost").contains(&"MANIFEST.before".to_owned()));
    let begin = || {
        let disk = disk.kill();
        disk.create_dir_all(&Path::new(DIR).join("lost")).unwrap();
        let watcher = Arc::new(Repairing {
            disk: disk.clone(),
            under_repair: vec![
                (mark.clone(), Vec::new()),
                (manifest.clone(), bytes.clone()),
            ],
            began: AtomicBool::new(false),
        });
        let environment = Environment {
            storage: Arc::new(Watched {
                disk: disk.clone(),
                watcher,
            }),
            ..Environment::simulated(&disk, 7)
        };
        builder(&disk).environment(environment)
    };
    let corruption = ErrorKind::Corruption;
    assert_eq!(kind(begin().read_only(true).open()), corruption);
    assert_eq!(kind(begin().files()), corruption);
    assert_eq!(kind(begin().slots()), corruption);
    let image = builder(&image);
    assert_eq!(kind(image.slots()), corruption);
    assert_eq!(kind(image.changes_since(0)), corruption);
}

/// The repair of a new database in the directory would take them in.
#[test]
fn a_directory_with_tables_that_a_repair_has_set_aside_is_used() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    disk.set_contents("/copy/lost/0000000001.table", b"table")
        .unwrap();
    assert_eq!(kind(db.checkpoint("/copy")), ErrorKind::InvalidArgument);
    let at = |dir: &str| Db::builder(dir).environment(Environment::simulated(&disk, 7));
    assert_eq!(kind(at("/copy").open()), ErrorKind::Corruption);
    disk.set_contents("/kept/lost/0000000001.table.damaged", b"table")
        .unwrap();
    at("/kept").open().unwrap();
}
