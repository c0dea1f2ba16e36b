use hedgerow_io::sim::SimStorage;
use proptest::prelude::*;

use super::super::payload::{Payload, logged};
use super::super::record::{seal, seal_short};
use super::*;
use crate::base::entry::{PartitionId, SeqNo};
use crate::base::error::ErrorKind;

const PATH: &str = "/db/log";
const SEGMENT: u32 = 5;

fn at(segment: u32, offset: u32) -> LogPosition {
    LogPosition { segment, offset }
}

/// A segment that is written in memory.
struct Image {
    segment: u32,
    bytes: Vec<u8>,
    end: usize,
    /// The offsets at which records start.
    starts: Vec<u32>,
}

impl Image {
    fn new(segment: u32, capacity: usize) -> Image {
        let mut image = Image {
            segment,
            bytes: vec![0; capacity],
            end: 0,
            starts: Vec::new(),
        };
        image.begin(segment);
        image
    }

    /// Writes a segment header over the present bytes.
    fn begin(&mut self, segment: u32) {
        let header = SegmentHeader::new(segment, at(segment - 1, 64), SeqNo(1)).encode();
        self.bytes[..SEGMENT_HEADER_BYTES].copy_from_slice(&header);
        self.segment = segment;
        self.end = SEGMENT_HEADER_BYTES;
        self.starts.clear();
    }

    /// Appends a full record that says that the log is durable up to `durable`.
    fn append(&mut self, value_bytes: usize, durable: LogPosition) {
        self.append_as(Form::Full, value_bytes, durable);
    }

    fn append_short(&mut self, value_bytes: usize) {
        self.append_as(Form::Short, value_bytes, at(0, 0));
    }

    fn append_as(&mut self, form: Form, value_bytes: usize, durable: LogPosition) {
        let mut payload = Payload::new();
        let number = self.starts.len() as u8;
        payload.put(PartitionId(1), &[b'k', number], &vec![number; value_bytes]);
        self.append_payload(form, payload.bytes(), durable);
    }

    fn append_payload(&mut self, form: Form, payload: &[u8], durable: LogPosition) {
        let number = self.starts.len() as u8;
        let here = at(self.segment, self.end as u32);
        let seqno = SeqNo(1 + u64::from(number));
        let header = match form {
            Form::Full => seal(payload, 1, seqno, durable, here).to_vec(),
            Form::Short => seal_short(payload, 1, u64::from(number), here).to_vec(),
        };
        let end = form.end(self.end as u64, payload.len() as u64) as usize;
        let record = &mut self.bytes[self.end..end];
        record.fill(0);
        record[..header.len()].copy_from_slice(&header);
        record[header.len()..][..payload.len()].copy_from_slice(payload);
        self.starts.push(self.end as u32);
        self.end = end;
    }

    fn reader(&self) -> SegmentReader {
        reader_of(&self.bytes, self.segment).unwrap()
    }
}

fn reader_of(bytes: &[u8], segment: u32) -> Result<SegmentReader> {
    let storage = SimStorage::new(1);
    storage.create_dir_all(Path::new("/db")).unwrap();
    storage.set_contents(PATH, bytes).unwrap();
    SegmentReader::open(&storage, Path::new(PATH), segment)
}

fn read_all(reader: &mut SegmentReader) -> Vec<u32> {
    let mut offsets = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        for op in record.ops() {
            op.unwrap();
        }
        offsets.push(record.offset);
    }
    offsets
}

fn three_records() -> Image {
    let mut image = Image::new(SEGMENT, 4096);
    image.append(10, at(SEGMENT, 64));
    image.append(100, at(SEGMENT, 64));
    image.append(7, at(SEGMENT, 120));
    image
}

/// Short records of odd sizes among full ones.
fn mixed_records() -> Image {
    let mut image = Image::new(SEGMENT, 4096);
    image.append(10, at(SEGMENT, 64));
    for value_bytes in [1, 2, 3, 100] {
        image.append_short(value_bytes);
    }
    image.append(7, at(SEGMENT, 120));
    image.append_short(9);
    image
}

#[test]
fn records_come_back_in_order() {
    for image in [three_records(), mixed_records()] {
        let mut reader = image.reader();
        assert_eq!(reader.header().unwrap().known_durable, at(SEGMENT - 1, 64));
        assert_eq!(read_all(&mut reader), image.starts);
        assert_eq!(reader.position(), at(SEGMENT, image.end as u32));
        assert!(reader.next().unwrap().is_none());
        assert_eq!(reader.scan_for_valid(image.end as u32).unwrap(), None);
    }
    let mut reader = mixed_records().reader();
    let mut numbers = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        numbers.push(record.header.first_seqno.0);
    }
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn compressed_records_come_back_as_they_were() {
    let values: [&[u8]; 4] = [&[7; 300], b"short", &[8; 5000], &[9; 3 * CHUNK_BYTES]];
    let mut image = Image::new(SEGMENT, 1 << 20);
    for (i, value) in values.iter().enumerate() {
        let mut payload = Payload::new();
        payload.put(PartitionId(1), b"k", value);
        let packed = logged(payload.bytes(), true);
        assert_eq!(packed.len() < payload.bytes().len() / 2, i != 1);
        assert_eq!(&*logged(payload.bytes(), false), payload.bytes());
        let form = Form::shortest(packed.len(), 1, i as u64);
        image.append_payload(form, &packed, at(SEGMENT, 64));
    }
    let mut reader = image.reader();
    for value in values {
        let record = reader.next().unwrap().unwrap();
        let ops: Vec<_> = record.ops().map(|op| op.unwrap().value).collect();
        assert_eq!(ops, [value]);
    }
    assert!(reader.next().unwrap().is_none());
}

/// Their checksums hold, so somebody made them.
#[test]
fn records_that_cannot_be_decompressed_are_corruption() {
    let mut payload = Payload::new();
    payload.put(PartitionId(1), b"k", &[7; 300]);
    let good = logged(payload.bytes(), true).into_owned();
    let sizes = [0u32, 1, 300, u32::MAX].map(u32::to_le_bytes);
    let resized = sizes.map(|size| [&good[..1], &size, &good[5..]].concat());
    let cut = (1..good.len()).map(|bytes| good[..bytes].to_vec());
    for bad in resized.into_iter().chain(cut) {
        let mut image = Image::new(SEGMENT, 4096);
        image.append_payload(Form::Full, &bad, at(SEGMENT, 64));
        let mut reader = image.reader();
        let record = reader.next().unwrap().unwrap();
        let error = record.ops().next().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }
}

#[test]
fn records_may_be_larger_than_what_is_read_at_once() {
    let mut image = Image::new(SEGMENT, 8 << 20);
    for bytes in [10, CHUNK_BYTES - 200, 3 * CHUNK_BYTES, 20, CHUNK_BYTES] {
        image.append(bytes, at(SEGMENT, 64));
    }
    assert_eq!(read_all(&mut image.reader()), image.starts);
}

#[test]
fn a_record_may_end_where_the_segment_ends() {
    let mut image = three_records();
    image.bytes.truncate(image.end);
    assert_eq!(read_all(&mut image.reader()), image.starts);
}

/// A file cut anywhere holds exactly the records that are whole.
#[test]
fn a_cut_segment_ends_at_the_last_whole_record() {
    for image in [three_records(), mixed_records()] {
        is_cut_anywhere(&image);
    }
}

fn is_cut_anywhere(image: &Image) {
    for cut in 0..image.end {
        let mut reader = reader_of(&image.bytes[..cut], SEGMENT).unwrap();
        let mut ends = image.starts[1..].to_vec();
        ends.push(image.end as u32);
        let whole = ends.iter().filter(|&&end| end as usize <= cut).count();
        assert_eq!(read_all(&mut reader).len(), whole);
        assert_eq!(
            reader.scan_for_valid(reader.position().offset).unwrap(),
            None
        );
    }
}

#[test]
fn a_torn_tail_is_the_end() {
    let mut image = three_records();
    let last = image.starts[2] as usize;
    image.bytes[last + 40..].fill(0);
    let mut reader = image.reader();
    assert_eq!(read_all(&mut reader), image.starts[..2]);
    assert_eq!(reader.position().offset, image.starts[2]);
    assert_eq!(reader.scan_for_valid(image.starts[2]).unwrap(), None);
}

/// Recovery needs to know that a record behind the damage had seen more of the log durable.
#[test]
fn damage_in_the_middle_shows_what_was_durable_behind_it() {
    let image = three_records();
    for bit in 0..(image.starts[2] - image.starts[1]) as usize * 8 {
        let mut damaged = three_records();
        damaged.bytes[image.starts[1] as usize + bit / 8] ^= 1 << (bit % 8);
        let mut reader = damaged.reader();
        assert_eq!(read_all(&mut reader), image.starts[..1], "bit {bit}");
        let end = reader.position().offset;
        assert_eq!(end, image.starts[1]);
        assert_eq!(
            reader.scan_for_valid(end).unwrap(),
            Some(at(SEGMENT, 120)),
            "bit {bit}"
        );
    }
}

#[test]
fn damage_of_a_short_record_shows_what_was_durable_behind_it() {
    let image = mixed_records();
    let (from, to) = (image.starts[2], image.starts[5]);
    for bit in from * 8..to * 8 {
        let mut damaged = mixed_records();
        damaged.bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
        let hit = image.starts.partition_point(|&start| start <= bit / 8) - 1;
        let mut reader = damaged.reader();
        assert_eq!(read_all(&mut reader), image.starts[..hit], "bit {bit}");
        let end = reader.position().offset;
        let durable = reader.scan_for_valid(end).unwrap();
        assert_eq!(durable, Some(at(SEGMENT, 120)), "bit {bit}");
    }
}

#[test]
fn a_damaged_segment_header_hides_records_but_not_what_they_know() {
    let mut image = three_records();
    image.bytes[3] ^= 1;
    let mut reader = image.reader();
    assert_eq!(reader.header(), None);
    assert_eq!(reader.position(), at(SEGMENT, 0));
    assert_eq!(read_all(&mut reader), []);
    assert_eq!(reader.scan_for_valid(0).unwrap(), Some(at(SEGMENT, 120)));
}

#[test]
fn a_recycled_segment_does_not_replay_its_former_life() {
    let mut image = three_records();
    let old_end = image.end;
    image.begin(SEGMENT + 1);
    image.append(10, at(SEGMENT, 500));
    assert!(image.end < old_end);
    let mut reader = image.reader();
    assert_eq!(read_all(&mut reader), image.starts);
    assert_eq!(reader.scan_for_valid(image.end as u32).unwrap(), None);
    // The file was renamed, but the new header never reached the disk.
    let mut renamed = reader_of(&three_records().bytes, SEGMENT + 1).unwrap();
    assert_eq!(read_all(&mut renamed), []);
    assert_eq!(renamed.scan_for_valid(0).unwrap(), None);
}

#[test]
fn a_segment_of_a_later_version_is_refused() {
    let mut header = SegmentHeader::new(SEGMENT, at(1, 0), SeqNo(1));
    header.features.incompatible = 2;
    let error = reader_of(&header.encode(), SEGMENT).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FormatVersion);
    assert_eq!(error.path(), Some(Path::new(PATH)));
}

proptest! {
    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..1000)) {
        let mut image = Image::new(SEGMENT, 64);
        image.bytes.extend_from_slice(&bytes);
        let mut reader = image.reader();
        prop_assert_eq!(read_all(&mut reader), []);
        prop_assert_eq!(reader.scan_for_valid(0).unwrap(), None);
    }
}

/// Prints the time of a scan through a segment full of former bytes.
#[test]
#[ignore = "a measurement"]
fn scan_speed() {
    use hedgerow_io::Clock;
    let clock = hedgerow_io::os::OsClock::new();
    for (what, value) in [
        ("random", None),
        ("small", Some(1)),
        ("short", Some(1)),
        ("zero", Some(0u8)),
    ] {
        let mut image = Image::new(SEGMENT, 64 << 20);
        let mut state = 1u64;
        for byte in &mut image.bytes[SEGMENT_HEADER_BYTES..] {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            *byte = value.unwrap_or((state >> 33) as u8);
        }
        let words = image.bytes[SEGMENT_HEADER_BYTES..].chunks_exact_mut(4);
        match what {
            // Sizes that fit: every offset needs a checksum.
            "small" => words.for_each(|word| word[1..].fill(0)),
            "short" => words.for_each(|word| word.copy_from_slice(&[0xFF, 3, 1, 0x80])),
            _ => {}
        }
        let mut reader = image.reader();
        let start = clock.now();
        assert_eq!(reader.scan_for_valid(0).unwrap(), None);
        println!("64 MiB of {what} bytes: {:?}", clock.now() - start);
    }
}
