//! The frame of any file, whatever its body.

use hedgerow_io::sim::SimStorage;

use super::*;
use crate::table::testing::{assert_bytes, documented_bytes};

const OWNER: Owner = Owner {
    keyspace: KeyspaceId(1),
    partition: PartitionId(200),
    hash_seed: 3,
};
const DESCRIPTION: &[u8] = b"some tables";

fn open(bytes: &[u8], number: u64) -> Result<Framed> {
    let (disk, path) = (SimStorage::new(0), Path::new("/file"));
    disk.set_contents(path, bytes).unwrap();
    Framed::open(&disk, path, TableId(number))
}

/// File 9, with a body of this size.
fn file(kind: &dyn Kind, body_bytes: usize) -> Vec<u8> {
    let mut bytes = vec![7; body_bytes];
    let place = (TableId(9), body_bytes as u64);
    bytes.extend(encode(kind.magic(), place, OWNER, DESCRIPTION));
    bytes
}

#[test]
fn a_file_tells_what_was_written() {
    for kind in KINDS {
        for body_bytes in [0, 1, 4095, 4096, 4097, 3 * 4096] {
            let file = open(&file(kind, body_bytes), 9).unwrap();
            assert_eq!(file.kind.magic(), kind.magic());
            assert_eq!((file.number, file.owner), (TableId(9), OWNER));
            assert_eq!(file.description, DESCRIPTION);
            assert_eq!(*file.body().unwrap(), vec![7; body_bytes]);
        }
    }
}

#[test]
fn every_cut_and_every_changed_bit_and_every_other_number_is_refused() {
    for body_bytes in [0, 100] {
        let bytes = file(KINDS[0], body_bytes);
        assert!(open(&bytes, 9).is_ok() && open(&bytes, 8).is_err());
        for cut in 0..bytes.len() {
            assert!(open(&bytes[..cut], 9).is_err(), "cut at {cut}");
            assert!(open(&bytes[cut + 1..], 9).is_err(), "begun at {cut}");
        }
        for bit in body_bytes * 8..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&damaged, 9).is_err(), "bit {bit}");
        }
    }
}

/// The worked example of `docs/format/filter_file.md`.
#[test]
fn a_frame_is_what_is_documented() {
    let documented = documented_bytes(
        include_str!("../../../../../docs/format/filter_file.md"),
        "end",
    );
    let owner = Owner {
        partition: PartitionId(2),
        hash_seed: 0,
        ..OWNER
    };
    let runs = [2, 100, 2, 5, 3, 99, 1, 3];
    let end = encode(KINDS[0].magic(), (TableId(9), 72), owner, &runs);
    assert_bytes(&end, &documented);
}

#[test]
fn files_have_one_name_and_clusters_had_another() {
    assert_eq!(file_number("0000000012.filter"), Some(12));
    assert_eq!(file_number("0000000012.cluster"), Some(12));
    for other in [
        "12.filter",
        "0000000012",
        "0000000012.table",
        "00000000x2.filter",
    ] {
        assert_eq!(file_number(other), None, "{other}");
    }
}
