//! The frame of any file, whatever its body.

use hedgerow_io::OsStorage;
use hedgerow_io::sim::SimStorage;

use super::*;
use crate::base::error::ErrorKind;
use crate::table::testing::{assert_bytes, documented_bytes};

const OWNER: Owner = Owner {
    keyspace: KeyspaceId(1),
    partition: PartitionId(200),
    hash_seed: 3,
};
const DESCRIPTION: &[u8] = b"some tables";

fn open(bytes: &[u8], number: u64) -> Result<FilterFile> {
    let (disk, path) = (SimStorage::new(0), Path::new("/file"));
    disk.set_contents(path, bytes).unwrap();
    FilterFile::open(&disk, ReadMode::default(), path, TableId(number))
}

/// File 9, with a body of this size.
fn file(kind: &dyn FilterKind, body_bytes: usize) -> Vec<u8> {
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

/// File 9 with another version and kind in its tail, and the right checksum.
fn file_of(version: u32, magic: Magic) -> Vec<u8> {
    let mut bytes = file(KINDS[0], 100);
    let mut tail = bytes.split_off(bytes.len() - TAIL_BYTES);
    tail[12..16].copy_from_slice(&version.to_le_bytes());
    tail[16..24].copy_from_slice(&magic);
    tail.truncate(TAIL_BYTES - 4);
    seal(&mut tail, place(9, u64::MAX));
    bytes.extend(tail);
    bytes
}

#[test]
fn a_later_version_is_told_from_damage_whatever_its_kind() {
    let refused = |bytes: &[u8]| open(bytes, 9).err().map(|error| error.kind());
    for magic in [KINDS[0].magic(), *b"hedgenew"] {
        let mut later = file_of(VERSION + 1, magic);
        assert_eq!(refused(&later), Some(ErrorKind::FormatVersion));
        *later.last_mut().unwrap() ^= 1;
        assert_eq!(refused(&later), Some(ErrorKind::Corruption));
    }
    assert_eq!(refused(&file_of(VERSION, KINDS[1].magic())), None);
    let unknown = file_of(VERSION, *b"hedgenew");
    assert_eq!(refused(&unknown), Some(ErrorKind::Corruption));
}

#[test]
fn a_file_is_read_in_the_mode_of_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, path) = (OsStorage::new(), dir.path().join("file"));
    let mut out = disk.create(&path).unwrap();
    out.write(&file(KINDS[0], 5000)).unwrap();
    out.sync().unwrap();
    // The type of the opened file tells its mode.
    let reader = |file: &dyn RandomRead| format!("{file:?}").split(' ').next().map(str::to_owned);
    for mode in [ReadMode::Pread, ReadMode::Mmap, ReadMode::Direct] {
        let expected = match disk.open(&path, mode) {
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => continue,
            opened => opened.unwrap(),
        };
        let framed = FilterFile::open(&disk, mode, &path, TableId(9)).unwrap();
        assert_eq!(reader(&*framed.file), reader(&*expected), "{mode}");
        assert_eq!(*framed.body().unwrap(), vec![7; 5000], "{mode}");
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
