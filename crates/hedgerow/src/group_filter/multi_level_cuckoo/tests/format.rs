use std::path::Path;

use hedgerow_io::ReadMode;
use hedgerow_io::sim::SimStorage;

use super::*;
use crate::base::codec::checksum;
use crate::base::entry::{KeyspaceId, PartitionId, RunId};
use crate::base::page::TableId;
use crate::group_filter::{FilterFile, Owner, frame};
use coverage::Coverage;

const SEED: u64 = 77;

fn names(filter: &MultiLevelCuckoo) -> Vec<u64> {
    (0..filter.runs() as u64).map(|run| 100 - run).collect()
}

fn bytes_of(filter: &MultiLevelCuckoo) -> Vec<u8> {
    let mut bytes = Vec::new();
    let write = |piece: &[u8]| {
        bytes.extend_from_slice(piece);
        Ok(())
    };
    filter.encode(SEED, &names(filter), write).unwrap();
    bytes
}

fn buffer(bytes: &[u8]) -> Buffer {
    let mut buffer = Buffer::allocate(bytes.len());
    buffer.copy_from_slice(bytes);
    buffer
}

pub(super) fn through_bytes(filter: &MultiLevelCuckoo) -> MultiLevelCuckoo {
    let bytes = bytes_of(filter);
    let decoded = MultiLevelCuckoo::decode(buffer(&bytes), SEED, &names(filter)).unwrap();
    assert_eq!(bytes_of(&decoded), bytes);
    assert_eq!(decoded.entries, filter.entries);
    decoded
}

fn example() -> MultiLevelCuckoo {
    let keys = |names: &[&str]| {
        let hashes = names.iter().map(|name| KeyHash::of(name.as_bytes(), 0));
        hashes.map(hash_of).collect::<Vec<_>>()
    };
    MultiLevelCuckoo::build(
        sizing(12, 8, 3, Mode::Unique),
        [
            keys(&["hawthorn", "blackthorn", "rowan", "alder"]),
            keys(&["hawthorn", "birch"]),
        ],
    )
    .unwrap()
}

#[test]
fn a_filter_of_other_runs_or_another_place_is_refused() {
    let filter = example();
    let bytes = bytes_of(&filter);
    let refused = |seed, names: &[u64]| {
        let error = MultiLevelCuckoo::decode(buffer(&bytes), seed, names).err();
        error.expect("refused").to_string()
    };
    for names in [&[100][..], &[], &[99, 100], &[100, 98], &[100, 99, 98]] {
        assert!(refused(SEED, names).contains("run"), "{names:?}");
    }
    assert!(refused(SEED + 1, &[100, 99]).contains("checksum"));
}

#[test]
fn every_cut_and_every_changed_bit_is_refused() {
    let bytes = bytes_of(&example());
    let decode = |bytes: &[u8]| MultiLevelCuckoo::decode(buffer(bytes), SEED, &[100, 99]);
    assert!(decode(&bytes).is_ok());
    for cut in 0..bytes.len() {
        assert!(decode(&bytes[..cut]).is_err(), "cut at {cut}");
        assert!(decode(&bytes[cut + 1..]).is_err(), "begun at {cut}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(decode(&damaged).is_err(), "bit {bit}");
    }
}

/// The worked example of `docs/format/multi_level_cuckoo.md`.
#[test]
fn the_documented_example_is_what_is_written() {
    let filter = example();
    let documented = crate::table::testing::documented_bytes(
        include_str!("../../../../../../docs/format/multi_level_cuckoo.md"),
        "filter",
    );
    crate::table::testing::assert_bytes(&bytes_of(&filter), &documented);
}

/// Filters of old modes took two keys with one hash for one, and may lack a key.
#[test]
fn filters_of_modes_that_lost_keys_are_refused() {
    let bytes = bytes_of(&example());
    for mode in [1, 2] {
        let mut old = bytes.clone();
        let at = old.len() - 8;
        old[at] = mode;
        let end = old.len() - 4;
        let sum = checksum::seeded(SEED, &old[..end]);
        old[end..].copy_from_slice(&sum.to_le_bytes());
        let error = MultiLevelCuckoo::decode(buffer(&old), SEED, &[100, 99]).err();
        let error = error.expect("refused").to_string();
        assert!(error.contains("mode of 0 or 3"), "{error}");
    }
}

/// A file with the filter of the example.
fn file() -> Vec<u8> {
    let filter = example();
    let tables = |ids: &[u64]| ids.iter().copied().map(TableId).collect();
    let coverage = Coverage {
        runs: vec![(RunId(100), tables(&[5, 8])), (RunId(99), tables(&[3]))],
    };
    let owner = Owner {
        keyspace: KeyspaceId(1),
        partition: PartitionId(2),
        hash_seed: 0,
    };
    let mut bytes = Vec::new();
    let write = |piece: &[u8]| {
        bytes.extend_from_slice(piece);
        Ok(())
    };
    let seed = checksum::place(9, 0);
    filter.encode(seed, &coverage.names(), write).unwrap();
    let place = (TableId(9), bytes.len() as u64);
    let end = frame::encode(stored::MAGIC, place, owner, &coverage.encode());
    bytes.extend(end);
    bytes
}

fn decode_file(bytes: &[u8], number: u64) -> Result<(Coverage, MultiLevelCuckoo)> {
    let (disk, path) = (SimStorage::new(0), Path::new("/file"));
    disk.set_contents(path, bytes).unwrap();
    let file = FilterFile::open(&disk, ReadMode::default(), path, TableId(number))?;
    let coverage = Coverage::decode(&file.description)?;
    let filter = stored::read(&file, &coverage)?;
    Ok((coverage, filter))
}

#[test]
fn a_file_is_what_is_documented() {
    let documented = crate::table::testing::documented_bytes(
        include_str!("../../../../../../docs/format/multi_level_cuckoo.md"),
        "file",
    );
    crate::table::testing::assert_bytes(&file(), &documented);
    let (coverage, filter) = decode_file(&documented, 9).unwrap();
    assert_eq!(bytes_of(&filter), bytes_of(&example()));
    let knows = |run, tables: &[u64]| {
        let mut tables = tables.iter().copied().map(TableId);
        coverage.knows(RunId(run), &mut tables)
    };
    assert!(knows(100, &[8]) && knows(100, &[5, 8]) && knows(100, &[]) && knows(99, &[3]));
    assert!(!knows(100, &[3]) && !knows(99, &[3, 4]) && !knows(98, &[]) && !knows(98, &[3]));
}

#[test]
fn every_changed_bit_of_a_file_and_every_other_number_is_refused() {
    let bytes = file();
    assert!(decode_file(&bytes, 8).is_err());
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_file(&damaged, 9).is_err(), "bit {bit}");
    }
}

/// Bytes with a right checksum need not make sense.
#[test]
fn any_list_is_decoded_or_refused() {
    let mut word = 1;
    for length in (0..60).cycle().take(20_000) {
        let list: Vec<u8> = (0..length)
            .map(|_| {
                word = remix(word);
                (word >> 40) as u8 % if word % 3 == 0 { 255 } else { 4 }
            })
            .collect();
        if let Ok(coverage) = Coverage::decode(&list) {
            let again = Coverage::decode(&coverage.encode()).unwrap();
            assert_eq!(again, coverage);
        }
    }
}
