use proptest::prelude::*;

use super::super::payload::{Op, Payload, logged, ops};
use super::*;
use crate::base::entry::{Flags, Kind, PartitionId, Tag};
use crate::base::error::ErrorKind;

const AT: LogPosition = LogPosition {
    segment: 7,
    offset: 4096,
};
const DURABLE: LogPosition = LogPosition {
    segment: 6,
    offset: 128,
};

fn owned(op: Op<'_>) -> (u32, Tag, Vec<u8>, Vec<u8>) {
    (
        op.partition.0,
        op.tag,
        op.user_key.to_vec(),
        op.value.to_vec(),
    )
}

fn any_tag() -> impl Strategy<Value = Tag> {
    (0u8..=4, 0u8..=1).prop_map(|(kind, flags)| Tag {
        kind: Kind::from_code(kind).unwrap(),
        flags: Flags::from_bits(flags).unwrap(),
    })
}

proptest! {
    #[test]
    fn operations_round_trip(given in prop::collection::vec(
        (
            any::<u32>(),
            any_tag(),
            prop::collection::vec(any::<u8>(), 1..300),
            prop::collection::vec(any::<u8>(), 0..300),
        ),
        0..20,
    )) {
        let mut payload = Payload::new();
        let mut expected = Vec::new();
        for (partition, tag, key, mut value) in given {
            if tag.kind == Kind::Delete {
                value.clear();
            }
            payload.push(PartitionId(partition), tag, &key, &value);
            expected.push((partition, tag, key, value));
        }
        let found: Vec<_> = payload.iter().map(|op| owned(op.unwrap())).collect();
        prop_assert_eq!(found, expected);
        for cut in 0..payload.bytes().len() {
            let last = ops(&payload.bytes()[..cut], payload.count()).last();
            prop_assert!(last.is_none_or(|op| op.is_err()));
        }
    }

    #[test]
    fn garbage_operations_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), count in 0u32..9) {
        prop_assert!(ops(&bytes, count).count() <= count as usize + 1);
    }

    #[test]
    fn garbage_is_no_record(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let header = decode_header(&bytes, 1, 64, SeqNo(1));
        prop_assert!(header.is_none_or(|header| !header.verifies(&bytes, 1, 64)));
        prop_assert_eq!(SegmentHeader::decode(&bytes, 1).unwrap(), None);
    }
}

#[test]
fn a_wrong_operation_count_is_corruption() {
    let mut payload = Payload::new();
    payload.put(PartitionId(1), b"k", b"v");
    payload.delete(PartitionId(2), b"k");
    for count in [0, 1, 3] {
        let last = ops(payload.bytes(), count).last().unwrap();
        assert_eq!(last.unwrap_err().kind(), ErrorKind::Corruption);
    }
}

/// The bytes of a record of one operation in each form, numbered 9 in a segment that counts from 3.
fn records() -> [Vec<u8>; 2] {
    let full = seal(b"payload", 1, SeqNo(9), DURABLE, AT);
    let short = seal_short(b"payload", 1, 6, AT);
    [(Form::Full, &full[..]), (Form::Short, &short[..])].map(|(form, header)| {
        let mut record = [header, b"payload"].concat();
        record.resize((form.end(4096, 7) - 4096) as usize, 0);
        record
    })
}

fn decoded(record: &[u8], segment: u32, offset: u32) -> Option<RecordHeader> {
    let header = decode_header(record, segment, offset, SeqNo(3))?;
    header.verifies(record, segment, offset).then_some(header)
}

#[test]
fn a_record_is_valid_only_in_its_place() {
    for (record, bytes) in records().iter().zip([40, 20]) {
        let header = decoded(record, AT.segment, AT.offset).unwrap();
        assert_eq!(record.len(), bytes);
        assert_eq!(header.end(AT.offset) - 4096, bytes as u64);
        assert_eq!(header.payload(record), Some(&b"payload"[..]));
        assert_eq!((header.ops, header.first_seqno), (1, SeqNo(9)));
        assert_eq!(header.last_seqno(), SeqNo(9));
        let says = (header.form == Form::Full).then_some(DURABLE);
        assert_eq!(header.known_durable, says);
        assert_eq!(decoded(record, AT.segment + 1, AT.offset), None);
        assert_eq!(decoded(record, AT.segment, AT.offset + 8), None);
        for cut in 0..bytes - 1 {
            assert_eq!(decoded(&record[..cut], AT.segment, AT.offset), None);
        }
    }
}

#[test]
fn every_flipped_bit_of_a_record_shows() {
    for record in records() {
        for bit in 0..record.len() * 8 {
            let mut damaged = record.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decoded(&damaged, AT.segment, AT.offset), None, "bit {bit}");
        }
    }
    let segment = SegmentHeader::new(7, DURABLE, SeqNo(3)).encode();
    for bit in 0..SEGMENT_HEADER_BYTES * 8 {
        let mut damaged = segment;
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(SegmentHeader::decode(&damaged, 7).unwrap(), None);
    }
}

#[test]
fn only_small_records_are_short() {
    assert_eq!(Form::shortest(1023, 255, u64::from(u32::MAX)), Form::Short);
    assert_eq!(Form::shortest(1024, 1, 0), Form::Full);
    assert_eq!(Form::shortest(100, 256, 0), Form::Full);
    assert_eq!(Form::shortest(0, 0, 0), Form::Full, "a seal");
    assert_eq!(Form::shortest(100, 1, 1 << 32), Form::Full);
}

#[test]
fn a_record_cannot_know_more_than_came_before_it() {
    let mut header = seal(b"", 0, SeqNo(9), AT, AT);
    assert!(decode_header(&header, AT.segment, AT.offset, SeqNo(3)).is_some());
    header[28..32].copy_from_slice(&(AT.offset + 8).to_le_bytes());
    let checksum = seeded(seed(AT.segment, AT.offset), &header[4..]);
    header[..4].copy_from_slice(&checksum.to_le_bytes());
    let found = decode_header(&header, AT.segment, AT.offset, SeqNo(3));
    assert_eq!(found, None);
}

#[test]
fn segment_headers_round_trip_and_refuse_later_versions() {
    let mut header = SegmentHeader::new(7, DURABLE, SeqNo(3));
    assert_eq!(
        SegmentHeader::decode(&header.encode(), 7).unwrap(),
        Some(header)
    );
    assert_eq!(SegmentHeader::decode(&header.encode(), 8).unwrap(), None);
    header.features.compatible = 1;
    assert!(SegmentHeader::decode(&header.encode(), 7).is_ok());
    header.features.incompatible = 4;
    let error = SegmentHeader::decode(&header.encode(), 7).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FormatVersion);
    header.features = Features::plain(VERSION + 1);
    let error = SegmentHeader::decode(&header.encode(), 7).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FormatVersion);
}

/// The example of `docs/format/wal.md`.
#[test]
fn the_documented_bytes_are_the_bytes() {
    let mut payload = Payload::new();
    payload.put(PartitionId(3), b"oak", b"tree");
    payload.delete(PartitionId(300), b"elm");
    let at = LogPosition {
        segment: 2,
        offset: 64,
    };
    let durable = LogPosition {
        segment: 1,
        offset: 4096,
    };
    let mut bytes = SegmentHeader::new(2, durable, SeqNo(17)).encode().to_vec();
    bytes.extend_from_slice(&seal(
        payload.bytes(),
        payload.count(),
        SeqNo(17),
        durable,
        at,
    ));
    bytes.extend_from_slice(payload.bytes());
    let end = Form::Full.end(64, payload.bytes().len() as u64);
    bytes.resize(end as usize, 0);
    let at = LogPosition {
        segment: 2,
        offset: end as u32,
    };
    payload.clear();
    payload.put(PartitionId(3), b"ash", b"tree");
    bytes.extend_from_slice(&seal_short(payload.bytes(), 1, 2, at));
    bytes.extend_from_slice(payload.bytes());
    bytes.resize(
        Form::Short.end(end, payload.bytes().len() as u64) as usize,
        0,
    );
    crate::base::codec::hex::check_documented("wal.md", &bytes);
}

/// The compressed payload of `docs/format/wal.md`.
#[test]
fn the_documented_compressed_payload_is_what_is_written() {
    let mut payload = Payload::new();
    payload.put(PartitionId(3), b"ivy", &[b'a'; 100]);
    let documented = crate::table::testing::documented_bytes(
        include_str!("../../../../../../docs/format/wal.md"),
        "compressed payload",
    );
    crate::table::testing::assert_bytes(&logged(payload.bytes(), true), &documented);
}
