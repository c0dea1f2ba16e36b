use proptest::prelude::*;

use super::*;
use crate::base::error::ErrorKind;

prop_compose! {
    /// Any table's description; other tests of formats use it too.
    pub(crate) fn any_meta()(
        (id, format, keyspace, partition, level) in any::<(u64, u16, u32, u32, u8)>(),
        (run, path, file_bytes, raw_bytes) in any::<(u64, u8, u64, u64)>(),
        (index_bytes, filter_bytes) in any::<(u64, u64)>(),
        (entries, tombstones, operands, range_tombstones) in any::<(u64, u64, u64, u64)>(),
        keys in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 2),
        seqnos in any::<(u64, u64)>(),
        seqno_override in prop::option::of(0..SeqNo::OPENED_MAX.0),
        (expiry, transform) in any::<(Option<(u64, u64)>, u16)>(),
        hash_sample in prop::collection::btree_set(any::<u64>(), 0..16),
    ) -> TableMeta {
        let seqnos = (seqnos.0 & SeqNo::OPENED_MAX.0, seqnos.1 & SeqNo::OPENED_MAX.0);
        TableMeta {
            id: TableId(id),
            format,
            keyspace,
            partition,
            level,
            run,
            path,
            file_bytes,
            raw_bytes,
            index_bytes,
            filter_bytes,
            entries,
            tombstones: tombstones.min(entries),
            operands,
            expiring: index_bytes,
            range_tombstones,
            smallest_key: keys[0].clone().min(keys[1].clone()),
            largest_key: keys[0].clone().max(keys[1].clone()),
            smallest_seqno: SeqNo(seqnos.0.min(seqnos.1)),
            largest_seqno: SeqNo(seqnos.0.max(seqnos.1)),
            ranges: (range_tombstones > 0).then_some(Handle { offset: run, bytes: keyspace }),
            seqno_override: seqno_override.map(SeqNo),
            expiry,
            transform,
            hash_sample: hash_sample.into_iter().collect(),
        }
    }
}

fn encoded(meta: &TableMeta) -> Vec<u8> {
    let mut bytes = Vec::new();
    meta.encode(&mut bytes);
    bytes
}

fn plain() -> TableMeta {
    TableMeta {
        id: TableId(7),
        format: 1,
        keyspace: 1,
        partition: 2,
        level: 0,
        run: 3,
        path: 0,
        file_bytes: 4096,
        raw_bytes: 5000,
        index_bytes: 90,
        filter_bytes: 13,
        entries: 10,
        tombstones: 1,
        operands: 0,
        expiring: 0,
        range_tombstones: 0,
        smallest_key: b"a".to_vec(),
        largest_key: b"z".to_vec(),
        smallest_seqno: SeqNo(5),
        largest_seqno: SeqNo(14),
        ranges: None,
        seqno_override: None,
        expiry: None,
        transform: 0,
        hash_sample: Vec::new(),
    }
}

/// The plain encoding with one more field in place of the final 0.
fn with_field(tag: u8) -> Vec<u8> {
    let mut bytes = encoded(&plain());
    assert_eq!(bytes.pop(), Some(0));
    bytes.extend_from_slice(&[tag, 3, 1, 2, 3, 0]);
    bytes
}

#[test]
fn later_versions_may_add_fields_that_can_be_ignored() {
    let bytes = with_field(100);
    let mut reader = ByteReader::new(&bytes);
    assert_eq!(TableMeta::decode(&mut reader).unwrap(), plain());
    assert!(reader.is_empty());
}

#[test]
fn fields_that_must_be_understood_are_refused() {
    let error = TableMeta::decode(&mut ByteReader::new(&with_field(101))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FormatVersion);
}

#[test]
fn contradictions_are_corruption() {
    for damage in [
        (|m: &mut TableMeta| m.smallest_key = b"zz".to_vec()) as fn(&mut TableMeta),
        |m| m.smallest_seqno = SeqNo(15),
        |m| m.largest_seqno = SeqNo(1 << 56),
        |m| m.tombstones = 11,
        |m| m.range_tombstones = 1,
    ] {
        let mut meta = plain();
        damage(&mut meta);
        let error = TableMeta::decode(&mut ByteReader::new(&encoded(&meta))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }
}

proptest! {
    #[test]
    fn every_description_round_trips(meta in any_meta()) {
        let bytes = encoded(&meta);
        let mut reader = ByteReader::new(&bytes);
        prop_assert_eq!(TableMeta::decode(&mut reader).unwrap(), meta);
        prop_assert!(reader.is_empty());
        for cut in 0..bytes.len() {
            prop_assert!(TableMeta::decode(&mut ByteReader::new(&bytes[..cut])).is_err());
        }
    }

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = TableMeta::decode(&mut ByteReader::new(&bytes));
    }
}
