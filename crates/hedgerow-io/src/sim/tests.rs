//! The limits of what the simulated disk does to its files.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use super::*;
use crate::{ReadMode, Segment, SequentialWrite, Storage};

fn disk(seed: u64) -> SimStorage {
    let disk = SimStorage::new(seed);
    disk.create_dir_all("/db".as_ref()).unwrap();
    disk
}

fn path(name: &str) -> PathBuf {
    Path::new("/db").join(name)
}

fn sync_names(disk: &SimStorage) {
    disk.sync_dir("/db".as_ref()).unwrap();
}

fn writer(disk: &SimStorage, name: &str) -> Box<dyn SequentialWrite> {
    disk.create(&path(name)).unwrap()
}

/// Puts a durable file.
fn put(disk: &SimStorage, name: &str, bytes: &[u8]) {
    let mut file = writer(disk, name);
    file.write(bytes).unwrap();
    file.sync().unwrap();
    sync_names(disk);
}

/// Creates a segment of three sectors with a durable name and durable first bytes.
fn segment(disk: &SimStorage) -> Arc<dyn Segment> {
    let segment = disk.create_segment(&path("segment"), 1536).unwrap();
    sync_names(disk);
    segment.write_at(0, &[1; 1536]).unwrap();
    segment.sync().unwrap();
    segment
}

/// The outcomes of many crashes of disks that differ only in the seed.
fn crashes<T: Ord>(seen: impl Fn(u64) -> T) -> BTreeSet<T> {
    (0..300).map(seen).collect()
}

#[test]
fn synced_bytes_under_a_synced_name_survive_every_crash() {
    let seen = crashes(|seed| {
        let disk = disk(seed);
        put(&disk, "file", b"safe");
        disk.crash().contents(path("file")).unwrap()
    });
    assert_eq!(seen, BTreeSet::from([b"safe".to_vec()]));
}

#[test]
fn unsynced_bytes_are_kept_or_lost_by_sector() {
    let seen = crashes(|seed| {
        let disk = disk(seed);
        segment(&disk).write_at(0, &[2; 1536]).unwrap();
        let image = disk.crash().contents(path("segment")).unwrap();
        let sectors = image.chunks(512);
        sectors
            .map(|s| s.iter().all(|b| *b == s[0]).then_some(s[0]))
            .collect::<Vec<_>>()
    });
    let both = [Some(1), Some(2)];
    let all = both
        .iter()
        .flat_map(|a| both.iter().flat_map(move |b| both.map(|c| vec![*a, *b, c])));
    assert_eq!(seen, all.collect());
}

/// A log record may survive without the next one in the same sector, but never the other way round.
#[test]
fn sector_may_keep_only_its_first_writes() {
    let seen = crashes(|seed| {
        let disk = disk(seed);
        let segment = segment(&disk);
        for (index, byte) in [(0, 7), (1, 8), (2, 9)] {
            segment.write_at(index, &[byte]).unwrap();
        }
        disk.crash().contents(path("segment")).unwrap()[..3].to_vec()
    });
    let prefixes = [[1, 1, 1], [7, 1, 1], [7, 8, 1], [7, 8, 9]].map(|bytes| bytes.to_vec());
    assert_eq!(seen, BTreeSet::from(prefixes));
}

#[test]
fn unsynced_end_of_a_file_is_cut_anywhere_or_zero() {
    let seen = crashes(|seed| {
        let disk = disk(seed);
        let mut file = writer(&disk, "file");
        sync_names(&disk);
        file.write(&[1; 600]).unwrap();
        file.sync().unwrap();
        file.write(&[2; 600]).unwrap();
        file.flush().unwrap();
        let image = disk.crash().contents(path("file")).unwrap();
        assert_eq!(image[..600], [1; 600]);
        let is_torn = image[600..].windows(2).any(|pair| pair[0] != pair[1]);
        (image.len() == 600, image.len() == 1200, is_torn)
    });
    for expected in [
        (true, false, false),
        (false, true, false),
        (false, true, true),
    ] {
        assert!(seen.contains(&expected), "{expected:?}");
    }
    assert!(
        seen.contains(&(false, false, true)),
        "a cut within the new bytes"
    );
}

#[test]
fn a_file_that_is_handed_over_is_durable_after_its_sync() {
    let seen = crashes(|seed| {
        let disk = disk(seed);
        let mut file = writer(&disk, "file");
        sync_names(&disk);
        file.write(b"bytes").unwrap();
        let sync = file.hand_over().unwrap();
        assert_eq!(disk.kill().contents(path("file")).unwrap(), b"bytes");
        let before = disk.crash().contents(path("file")).unwrap();
        sync().unwrap();
        assert_eq!(disk.crash().contents(path("file")).unwrap(), b"bytes");
        before == b"bytes"
    });
    assert_eq!(seen, BTreeSet::from([false, true]));
}

#[test]
fn new_name_needs_a_synced_directory() {
    let seen = crashes(|seed| {
        let disk = disk(seed);
        let mut file = writer(&disk, "file");
        file.write(b"bytes").unwrap();
        file.sync().unwrap();
        disk.crash().contents(path("file")).ok()
    });
    assert_eq!(seen, BTreeSet::from([None, Some(b"bytes".to_vec())]));
}

#[test]
fn removed_name_may_come_back_until_the_directory_is_synced() {
    let seen = crashes(|seed| {
        let disk = disk(seed);
        put(&disk, "file", b"bytes");
        disk.remove(&path("file")).unwrap();
        let before = disk.crash().contents(path("file")).ok();
        sync_names(&disk);
        assert_eq!(disk.crash().paths(), [""; 0].map(PathBuf::from));
        before
    });
    assert_eq!(seen, BTreeSet::from([None, Some(b"bytes".to_vec())]));
}

#[test]
fn rename_is_atomic() {
    let seen = crashes(|seed| {
        let disk = disk(seed);
        put(&disk, "CURRENT", b"old");
        put(&disk, "temporary", b"new");
        disk.rename(&path("temporary"), &path("CURRENT")).unwrap();
        let image = disk.crash();
        (
            image.contents(path("CURRENT")).unwrap(),
            image.contents(path("temporary")).ok(),
        )
    });
    let old = (b"old".to_vec(), Some(b"new".to_vec()));
    assert_eq!(seen, BTreeSet::from([old, (b"new".to_vec(), None)]));
}

/// The classic mistake: the rename comes before the bytes are durable.
#[test]
fn renamed_file_without_sync_can_be_empty() {
    let seen = crashes(|seed| {
        let disk = disk(seed);
        let mut file = writer(&disk, "temporary");
        file.write(b"new").unwrap();
        file.flush().unwrap();
        disk.rename(&path("temporary"), &path("CURRENT")).unwrap();
        sync_names(&disk);
        disk.crash().contents(path("CURRENT")).unwrap()
    });
    assert!(seen.contains(&b""[..]) && seen.contains(&b"new"[..]));
}

#[test]
fn names_may_reach_the_disk_out_of_order() {
    let seen = crashes(|seed| {
        let disk = disk(seed);
        ["a", "b", "c"]
            .iter()
            .for_each(|name| drop(writer(&disk, name)));
        disk.crash().paths()
    });
    assert_eq!(seen.len(), 8);
}

#[test]
fn rename_across_directories_never_loses_the_file() {
    let seen = crashes(|seed| {
        let disk = disk(seed);
        disk.create_dir_all("/other".as_ref()).unwrap();
        put(&disk, "file", b"bytes");
        put(&disk, "replaced", b"x");
        disk.rename(&path("replaced"), "/other/file".as_ref())
            .unwrap();
        disk.sync_dir("/other".as_ref()).unwrap();
        disk.rename(&path("file"), "/other/file".as_ref()).unwrap();
        let synced = if seed % 2 == 0 { "/db" } else { "/other" };
        disk.sync_dir(synced.as_ref()).unwrap();
        let image = disk.crash();
        assert_eq!(image.contents("/other/file").unwrap(), b"bytes");
        (seed % 2, image.contents(path("file")).is_ok())
    });
    assert_eq!(seen, BTreeSet::from([(0, false), (1, false), (1, true)]));
}

#[test]
fn removed_directory_may_come_back() {
    let seen = crashes(|seed| {
        let disk = disk(seed);
        disk.create_dir_all("/db/a/b".as_ref()).unwrap();
        disk.set_contents("/db/a/b/file", b"x").unwrap();
        disk.remove("/db/a/b/file".as_ref()).unwrap();
        disk.remove_dir("/db/a/b".as_ref()).unwrap();
        disk.remove_dir("/db/a".as_ref()).unwrap();
        let image = disk.crash();
        let there = ["/db/a", "/db/a/b"].map(|dir| image.list(dir.as_ref()).is_ok());
        sync_names(&disk);
        assert!(disk.crash().list("/db/a".as_ref()).is_err());
        disk.create_dir_all("/db/a/b".as_ref()).unwrap();
        assert_eq!(
            disk.crash().paths(),
            [""; 0].map(PathBuf::from),
            "no ghost of the file"
        );
        (there, image.contents("/db/a/b/file").is_ok())
    });
    let no_file = [[false; 2], [true, false], [true; 2]].map(|there| (there, false));
    assert_eq!(
        seen,
        no_file.into_iter().chain([([true; 2], true)]).collect()
    );
}

#[test]
fn failed_sync_leaves_its_bytes_unknown_for_ever() {
    let seen = crashes(|seed| {
        let disk = disk(seed);
        let segment = segment(&disk);
        segment.write_at(0, &[2; 512]).unwrap();
        disk.fail_after(OpClass::Sync, 0, Fault::Io);
        segment.sync().unwrap_err();
        segment.write_at(512, &[3; 512]).unwrap();
        segment.sync().unwrap();
        let image = disk.crash().contents(path("segment")).unwrap();
        assert_eq!(image[512], 3, "written after the failure");
        // Another write and sync makes the bytes known again.
        segment.write_at(0, &[4; 512]).unwrap();
        segment.sync().unwrap();
        assert_eq!(disk.crash().contents(path("segment")).unwrap()[0], 4);
        image[0]
    });
    assert_eq!(seen, BTreeSet::from([1, 2]));
}

#[test]
fn killed_process_keeps_what_it_handed_over() {
    let disk = disk(1);
    let _lock = disk.lock(&path("LOCK")).unwrap();
    let mut file = writer(&disk, "file");
    file.write(b"flushed").unwrap();
    file.flush().unwrap();
    file.write(b"buffered").unwrap();
    segment(&disk).write_at(0, b"record").unwrap();
    let next = disk.kill();
    assert_eq!(next.contents(path("file")).unwrap(), b"flushed");
    assert_eq!(next.contents(path("segment")).unwrap()[..6], *b"record");
    next.lock(&path("LOCK")).unwrap();
    // It made nothing durable.
    let lost = (0..100).any(|_| next.crash().contents(path("segment")).unwrap()[..6] == [1; 6]);
    assert!(lost);
}

#[test]
fn handles_of_the_old_disk_do_not_touch_an_image() {
    let disk = disk(1);
    let segment = segment(&disk);
    let images = [disk.crash(), disk.kill()];
    segment.write_at(0, b"late").unwrap();
    segment.sync().unwrap();
    disk.remove(&path("segment")).unwrap();
    for image in images {
        assert_eq!(image.contents(path("segment")).unwrap(), [1; 1536]);
    }
}

#[test]
fn links_share_their_bytes_after_a_crash() {
    let disk = disk(1);
    put(&disk, "a", b"bytes");
    disk.link(&path("a"), &path("b")).unwrap();
    sync_names(&disk);
    let image = disk.crash();
    assert_eq!(image.used_bytes(), 5);
    image.flip_bit(path("a"), 0).unwrap();
    assert_eq!(image.contents(path("b")).unwrap(), b"cytes");
}

#[test]
fn full_disk_refuses_bytes_until_there_is_room() {
    let disk = disk(1);
    disk.set_capacity_bytes(Some(10_000));
    disk.create_segment(&path("log"), 6_000).unwrap();
    let full = disk.create_segment(&path("more"), 6_000).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    assert_eq!(disk.available_bytes("/db".as_ref()).unwrap(), 4_000);
    let mut file = writer(&disk, "file");
    assert_eq!(
        file.write(&[1; 5_000]).unwrap_err().kind(),
        ErrorKind::StorageFull
    );
    assert_eq!(disk.contents(path("file")).unwrap().len(), 4_000);
    assert!(
        file.sync().is_err(),
        "how much was written is not known to the writer"
    );
    disk.remove(&path("file")).unwrap();
    disk.remove(&path("log")).unwrap();
    assert_eq!(disk.paths().len(), 0);
    disk.create_segment(&path("more"), 6_000).unwrap();
    disk.set_capacity_bytes(None);
    disk.create_segment(&path("huge"), 1 << 30).unwrap();
    assert_eq!(disk.used_bytes(), 6_000 + (1 << 30));
}

#[test]
fn replaced_and_linked_files_give_back_their_bytes_once() {
    let disk = disk(1);
    put(&disk, "a", &[0; 100]);
    put(&disk, "b", &[0; 30]);
    disk.link(&path("a"), &path("c")).unwrap();
    disk.rename(&path("b"), &path("a")).unwrap();
    assert_eq!(disk.used_bytes(), 130);
    disk.remove(&path("c")).unwrap();
    assert_eq!(disk.used_bytes(), 30);
    assert_eq!(disk.kill().used_bytes(), 30);
}

#[test]
fn scheduled_fault_hits_the_chosen_operation_once() {
    let disk = disk(1);
    let segment = segment(&disk);
    disk.fail_after(OpClass::Write, 1, Fault::Io);
    segment.write_at(0, b"a").unwrap();
    segment.sync().unwrap();
    segment.write_at(1, b"b").unwrap_err();
    segment.write_at(2, b"c").unwrap();
    assert_eq!(disk.contents(path("segment")).unwrap()[..3], *b"a\x01c");
    assert_eq!(disk.faults_fired(), 1);
    disk.fail_after(OpClass::Any, 0, Fault::StorageFull);
    disk.clear_faults();
    disk.size(&path("segment")).unwrap();
}

#[test]
fn scheduled_fault_can_choose_a_path() {
    let disk = disk(1);
    disk.fail_path_after(OpClass::Name, "CURRENT", 0, Fault::Io);
    put(&disk, "file", b"x");
    disk.rename(&path("file"), &path("temporary")).unwrap();
    disk.rename(&path("temporary"), &path("CURRENT"))
        .unwrap_err();
    disk.rename(&path("temporary"), &path("CURRENT")).unwrap();
}

#[test]
fn short_operations_do_half_of_their_work() {
    let disk = disk(1);
    put(&disk, "file", b"1234");
    let reader = disk.open(&path("file"), ReadMode::Pread).unwrap();
    disk.fail_after(OpClass::Read, 0, Fault::Short);
    let mut buf = [0; 4];
    assert_eq!(
        reader.read_at(0, &mut buf).unwrap_err().kind(),
        ErrorKind::UnexpectedEof
    );
    assert_eq!(&buf, b"12\0\0");

    let segment = segment(&disk);
    disk.fail_after(OpClass::Write, 0, Fault::Short);
    segment.write_at(0, b"abcd").unwrap_err();
    assert_eq!(disk.contents(path("segment")).unwrap()[..4], *b"ab\x01\x01");

    disk.fail_after(OpClass::Name, 0, Fault::Short);
    disk.rename(&path("file"), &path("renamed")).unwrap_err();
    assert_eq!(disk.paths(), [path("renamed"), path("segment")]);
}

#[test]
fn power_goes_after_the_given_number_of_changes() {
    let disk = disk(1);
    let segment = segment(&disk);
    disk.crash_after(2);
    segment.write_at(0, b"a").unwrap();
    disk.size(&path("segment")).unwrap();
    segment.sync().unwrap();
    assert!(!disk.power_lost());
    let error = segment.write_at(1, b"b").unwrap_err();
    assert_eq!(error.to_string(), "simulated power loss");
    assert!(disk.power_lost());
    disk.size(&path("segment")).unwrap_err();
    disk.lock(&path("LOCK")).unwrap_err();
    let image = disk.crash();
    assert_eq!(image.contents(path("segment")).unwrap()[..2], *b"a\x01");
    image.size(&path("segment")).unwrap();
}

#[test]
fn other_devices_are_not_linked_to() {
    let disk = disk(1);
    put(&disk, "file", b"x");
    disk.create_dir_all("/other/deep".as_ref()).unwrap();
    disk.add_device("/other");
    let to = Path::new("/other/deep/file");
    assert_eq!(
        disk.link(&path("file"), to).unwrap_err().kind(),
        ErrorKind::CrossesDevices
    );
    assert_eq!(
        disk.rename(&path("file"), to).unwrap_err().kind(),
        ErrorKind::CrossesDevices
    );
    disk.link(&path("file"), &path("second")).unwrap();
}

#[test]
fn contents_can_be_replaced_and_damaged() {
    let disk = disk(1);
    disk.set_contents("/fresh/dir/file", b"\x00\x00").unwrap();
    disk.flip_bit("/fresh/dir/file", 9).unwrap();
    let image = disk.crash();
    assert_eq!(image.contents("/fresh/dir/file").unwrap(), b"\x00\x02");
    assert_eq!(
        image.flip_bit("/fresh/dir/file", 16).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    image.set_contents("/fresh/dir/file", b"shorter").unwrap();
    assert_eq!(image.used_bytes(), 7);
}

/// A run that uses every operation. Returns the trace and an image.
fn run(seed: u64) -> (u64, Vec<(PathBuf, Vec<u8>)>) {
    let disk = disk(seed);
    let mut random = SplitMix64::new(seed);
    let segment = segment(&disk);
    for step in 0..200_u64 {
        let name = path(&format!("{}", random.below(20)));
        let other = path(&format!("{}", random.below(20)));
        match random.below(8) {
            0..3 => {
                let bytes = vec![step as u8; random.below(3000) as usize];
                if let Ok(mut file) = disk.create(&name) {
                    file.write(&bytes).unwrap();
                    if random.chance(4) {
                        file.sync().unwrap()
                    } else {
                        file.flush().unwrap()
                    }
                }
            }
            3 => drop(disk.rename(&name, &other)),
            4 => drop(disk.remove(&name)),
            5 => drop(disk.link(&name, &other)),
            6 => sync_names(&disk),
            _ => segment
                .write_at(random.below(1400), &[step as u8; 100])
                .unwrap(),
        }
    }
    let image = disk.crash();
    let file = |path: PathBuf| (path.clone(), image.contents(path).unwrap());
    (
        disk.trace_hash(),
        image.paths().into_iter().map(file).collect(),
    )
}

#[test]
fn equal_seeds_give_equal_traces_and_images() {
    let seen = crashes(|seed| {
        let first = run(seed);
        assert_eq!(first, run(seed));
        first.0
    });
    assert_eq!(seen.len(), 300);
}

/// Each sector of a file in a crash image has bytes that were once written there.
#[test]
fn crashes_invent_no_bytes() {
    for seed in 0..300 {
        for (path, bytes) in run(seed).1 {
            if !path.ends_with("segment") {
                let known = bytes.iter().find(|byte| **byte != 0).copied().unwrap_or(0);
                assert!(
                    bytes.iter().all(|byte| [0, known].contains(byte)),
                    "seed {seed} {path:?}"
                );
            }
        }
    }
}

#[test]
fn a_renamed_directory_has_the_old_or_the_new_name_with_all_its_files() {
    let seen = |sync: bool| {
        crashes(|seed| {
            let disk = disk(seed);
            let (old, new) = (path("old"), path("new"));
            disk.create_dir_all(&old).unwrap();
            put(&disk, "old/file", b"safe");
            disk.sync_dir(&old).unwrap();
            disk.rename_dir(&old, &new).unwrap();
            if sync {
                disk.sync_dir(new.parent().unwrap()).unwrap();
            }
            let image = disk.crash();
            let found = |dir: PathBuf| image.contents(dir.join("file")).ok();
            (found(old), found(new))
        })
    };
    let (before, after) = (
        (Some(b"safe".to_vec()), None),
        (None, Some(b"safe".to_vec())),
    );
    assert_eq!(seen(true), BTreeSet::from([after.clone()]));
    assert_eq!(seen(false), BTreeSet::from([before, after]));
}

#[test]
fn a_stalled_write_begins_when_it_may_and_others_go_on() {
    let disk = disk(1);
    let segment = segment(&disk);
    let stall = disk.stall_write(b"slow");
    std::thread::scope(|scope| {
        scope.spawn(|| segment.write_at(0, b"a slow one").unwrap());
        stall.wait_until_reached();
        segment.write_at(512, b"a fast one").unwrap();
        let now = disk.contents(path("segment")).unwrap();
        assert_eq!(now[..10], [1; 10]);
        assert_eq!(now[512..522], *b"a fast one");
        drop(stall);
    });
    let after = disk.contents(path("segment")).unwrap();
    assert_eq!(after[..10], *b"a slow one");
}
