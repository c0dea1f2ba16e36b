use super::*;

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
    let key = |name: &[u8]| hash_of(KeyHash::of(name, 0));
    MultiLevelCuckoo::build(
        sizing(12, 8, 4, Mode::Unique),
        [
            vec![(key(b"hawthorn"), Prior::Absent)],
            vec![
                (key(b"blackthorn"), Prior::Absent),
                (key(b"hawthorn"), Prior::Unknown),
            ],
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
    assert_eq!(filter.mode(), Mode::UniqueThenSet);
    let documented = crate::table::testing::documented_bytes(
        include_str!("../../../../../../docs/format/multi_level_cuckoo.md"),
        "filter",
    );
    crate::table::testing::assert_bytes(&bytes_of(&filter), &documented);
}
