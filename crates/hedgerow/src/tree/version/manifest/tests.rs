use hedgerow_io::sim::{Fault, OpClass, SimStorage};
use proptest::prelude::*;

use super::super::edit::Change;
use super::*;

const DIR: &str = "/db";

fn dir() -> &'static Path {
    Path::new(DIR)
}

fn file() -> PathBuf {
    dir().join(FILE_NAME)
}

fn edit(segment: u32) -> Edit {
    vec![Change::LogStart { segment }]
}

/// The numbers of the edits of [`edit`].
fn numbers(replay: &Replay) -> Vec<u32> {
    replay
        .edits
        .iter()
        .map(|edit| match edit[..] {
            [Change::LogStart { segment }] => segment,
            _ => panic!("expected another edit than {edit:?}"),
        })
        .collect()
}

fn disk(seed: u64) -> SimStorage {
    let storage = SimStorage::new(seed);
    storage.create_dir_all(dir()).unwrap();
    storage
}

fn create(storage: &SimStorage, snapshot: u32) -> Result<Manifest> {
    Manifest::create(Arc::new(storage.clone()), dir(), &edit(snapshot))
}

/// A snapshot and two edits, and the ends of their records.
fn sample() -> (Vec<u8>, Vec<usize>) {
    let storage = disk(1);
    let mut manifest = create(&storage, 1).unwrap();
    let mut ends = vec![manifest.bytes() as usize];
    for number in [2, 3] {
        manifest.append(&edit(number)).unwrap();
        ends.push(manifest.bytes() as usize);
    }
    (storage.contents(file()).unwrap(), ends)
}

#[test]
fn a_manifest_that_was_written_anew_has_another_stamp_at_the_same_size() {
    let storage = disk(1);
    let mut manifest = create(&storage, 1).unwrap();
    manifest.append(&edit(2)).unwrap();
    let (before, bytes) = (stamp(&storage, dir()).unwrap(), manifest.bytes());
    manifest.rotate(&edit(3)).unwrap();
    assert_ne!(stamp(&storage, dir()).unwrap(), before);
    manifest.append(&edit(4)).unwrap();
    assert_eq!(manifest.bytes(), bytes);
    assert_ne!(stamp(&storage, dir()).unwrap(), before);
}

#[test]
fn edits_come_back_in_order() {
    let storage = disk(1);
    assert!(!exists(&storage, dir()).unwrap());
    let mut manifest = create(&storage, 1).unwrap();
    assert!(exists(&storage, dir()).unwrap());
    manifest.append(&edit(2)).unwrap();
    manifest.append(&edit(3)).unwrap();
    let found = replay(&storage, dir()).unwrap();
    assert_eq!(numbers(&found), [1, 2, 3]);
    assert_eq!(found.bytes, manifest.bytes());
    manifest.rotate(&edit(4)).unwrap();
    manifest.append(&edit(5)).unwrap();
    assert_eq!(numbers(&replay(&storage, dir()).unwrap()), [4, 5]);
    assert_eq!(storage.paths(), [file()]);
}

#[test]
fn a_cut_file_ends_at_the_last_whole_record() {
    let (bytes, ends) = sample();
    for cut in 0..bytes.len() {
        let whole = ends.iter().filter(|&&end| end <= cut).count();
        match replay_bytes(&bytes[..cut]) {
            Ok(found) => assert_eq!(found.edits.len(), whole),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption);
                assert_eq!(whole, 0, "cut at {cut}");
            }
        }
    }
}

/// In the last record it may be a crash; in any other it cannot.
#[test]
fn every_flipped_bit_is_noticed() {
    let (bytes, ends) = sample();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let found = replay_bytes(&damaged);
        if bit / 8 >= ends[1] {
            assert_eq!(numbers(&found.unwrap()), [1, 2]);
            continue;
        }
        let error = found.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "bit {bit}");
        let start = [0, HEADER_BYTES, ends[0]]
            .into_iter()
            .rfind(|&start| start <= bit / 8);
        assert_eq!(error.offset(), start.map(|s| s as u64), "bit {bit}");
    }
}

#[test]
fn errors_name_the_file() {
    let storage = disk(1);
    assert_eq!(replay(&storage, dir()).unwrap_err().kind(), ErrorKind::Io);
    create(&storage, 1).unwrap();
    storage.flip_bit(file(), 8 * HEADER_BYTES as u64).unwrap();
    let error = replay(&storage, dir()).unwrap_err();
    assert_eq!(error.path(), Some(&*file()));
    assert_eq!(error.offset(), Some(HEADER_BYTES as u64));
}

#[test]
fn features_decide_who_may_do_what() {
    let (bytes, _) = sample();
    let with = |features| {
        let mut changed = bytes.clone();
        changed[..HEADER_BYTES].copy_from_slice(&encode_header(features));
        replay_bytes(&changed)
    };
    let plain = Features::plain(VERSION);
    let compatible = Features {
        compatible: 8,
        ..plain
    };
    assert!(with(compatible).unwrap().check_writable().is_ok());
    let read_only = with(Features {
        read_only_compatible: 8,
        ..plain
    })
    .unwrap();
    let refused = [
        read_only.check_writable().unwrap_err(),
        with(Features {
            incompatible: 8,
            ..plain
        })
        .unwrap_err(),
        with(Features::plain(VERSION + 1)).unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::FormatVersion);
    }
}

#[test]
fn it_rotates_when_it_has_grown() {
    let storage = disk(1);
    let mut manifest = create(&storage, 1).unwrap();
    let many: Edit = edit(2).into_iter().cycle().take(100_000).collect();
    while manifest.bytes() < ROTATE_BYTES_MIN {
        assert!(!manifest.should_rotate());
        manifest.append(&many).unwrap();
    }
    assert!(manifest.should_rotate());
    manifest.rotate(&many).unwrap();
    assert!(!manifest.should_rotate());
}

/// Creates, appends, rotates, appends. Returns the last number acknowledged and the last one tried.
fn run(storage: &SimStorage) -> (u32, u32) {
    let Ok(mut manifest) = create(storage, 1) else {
        return (0, 1);
    };
    for number in 2..=7 {
        let done = match number {
            4 | 6 => manifest.rotate(&edit(number)),
            _ => manifest.append(&edit(number)),
        };
        if done.is_err() {
            return (number - 1, number);
        }
    }
    (7, 7)
}

#[test]
fn a_crash_leaves_the_old_state_or_the_new_one() {
    for seed in 0..20 {
        for count in 0.. {
            let storage = disk(seed);
            storage.crash_after(count);
            let (acknowledged, tried) = run(&storage);
            let image = storage.crash();
            let last = match exists(&image, dir()).unwrap() {
                true => *numbers(&replay(&image, dir()).unwrap()).last().unwrap(),
                false => 0,
            };
            assert!(
                (acknowledged..=tried).contains(&last),
                "seed {seed}, after {count}: expected {acknowledged} to {tried}, found {last}"
            );
            // The remains of a crash do not stop the next manifest.
            create(&image, 8).unwrap();
            assert_eq!(numbers(&replay(&image, dir()).unwrap()), [8]);
            if tried == acknowledged {
                break;
            }
        }
    }
}

#[test]
fn a_failed_write_leaves_the_old_state_or_the_new_one() {
    for class in [
        OpClass::Write,
        OpClass::Sync,
        OpClass::Create,
        OpClass::Name,
    ] {
        for fault in [Fault::Io, Fault::StorageFull, Fault::Short] {
            for count in 0.. {
                let storage = disk(count);
                storage.fail_after(class, count, fault);
                let (acknowledged, tried) = run(&storage);
                let image = storage.crash();
                let last = match exists(&image, dir()).unwrap() {
                    true => *numbers(&replay(&image, dir()).unwrap()).last().unwrap(),
                    false => 0,
                };
                assert!((acknowledged..=tried).contains(&last));
                if tried == acknowledged {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_failed_append_poisons() {
    for class in [OpClass::Write, OpClass::Sync] {
        let storage = disk(1);
        let mut manifest = create(&storage, 1).unwrap();
        storage.fail_after(class, 0, Fault::Io);
        assert_eq!(manifest.append(&edit(2)).unwrap_err().kind(), ErrorKind::Io);
        for _ in 0..2 {
            let error = manifest.append(&edit(3)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Poisoned);
            let error = manifest.rotate(&edit(3)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Poisoned);
        }
    }
}

#[test]
fn a_rotation_without_room_leaves_the_manifest_in_use() {
    let storage = disk(1);
    let mut manifest = create(&storage, 1).unwrap();
    storage.fail_after(OpClass::Create, 0, Fault::StorageFull);
    let error = manifest.rotate(&edit(2)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    manifest.append(&edit(3)).unwrap();
    assert_eq!(numbers(&replay(&storage, dir()).unwrap()), [1, 3]);
    // After the new name is in place but not durable, it is unknown which file a crash would keep.
    storage.fail_after(OpClass::Sync, 1, Fault::Io);
    assert!(manifest.rotate(&edit(4)).is_err());
    assert!(manifest.is_poisoned());
}

/// The search for a valid record behind a bad one must not take quadratic time.
#[test]
fn large_garbage_is_scanned_in_linear_time() {
    let (mut bytes, ends) = sample();
    bytes.truncate(ends[0]);
    let mut state = 1u64;
    for _ in 0..1 << 20 {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        bytes.extend_from_slice(&[(state >> 33) as u8, 0, 0, 0]);
    }
    assert_eq!(replay_bytes(&bytes).unwrap().edits.len(), 1);
}

proptest! {
    #[test]
    fn garbage_never_panics(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        header in any::<bool>(),
    ) {
        let mut contents = if header { encode_header(Features::plain(VERSION)) } else { Vec::new() };
        contents.extend_from_slice(&bytes);
        prop_assert!(replay_bytes(&contents).is_err());
    }
}

/// The example of `docs/format/manifest.md`.
#[test]
fn the_documented_bytes_are_the_bytes() {
    let storage = disk(1);
    let snapshot = vec![
        Change::Counters {
            next_table: 1,
            next_keyspace: 1,
            next_partition: 1,
        },
        Change::LogStart { segment: 1 },
    ];
    let mut manifest = Manifest::create(Arc::new(storage.clone()), dir(), &snapshot).unwrap();
    let design = crate::base::options::Design {
        table_bytes: Some(1 << 20),
        ..Default::default()
    };
    let keyspace = crate::tree::version::edit::KeyspaceDescription::new(
        "elm".to_owned(),
        (crate::base::options::Layout::sorted().hash(2), design),
        0x0123_4567_89AB_CDEF,
        [1, 2].map(crate::base::entry::PartitionId).to_vec(),
        3,
    );
    let created = keyspace.creation(crate::base::entry::KeyspaceId(1));
    manifest.append(&vec![created]).unwrap();
    crate::base::codec::hex::check_documented("manifest.md", &storage.contents(file()).unwrap());
}
