use hedgerow_io::sim::SimStorage;
use hedgerow_mem::CachePadded;

use super::*;
use crate::base::entry::PartitionId;

/// A writer copies its record outside of every lock. If the file is recycled meanwhile, the record
/// overwrites another segment, and a crash loses the commit and all behind it.
#[test]
fn a_segment_of_a_dropped_partition_is_needed_until_its_commits_are_published() {
    let storage = Arc::new(SimStorage::new(1));
    let dir = Path::new("log");
    storage.create_dir_all(dir).unwrap();
    let (log, mut tail) =
        Log::create(storage, dir, 4 << 10, false, 1, SeqNo(1), Vec::new()).unwrap();
    let latest = Arc::new(CachePadded(AtomicU64::new(7)));
    tail.touch(PartitionId(3), &latest);
    let durable = log.durable();
    let _being_copied = tail.reserve(100, 1, SeqNo(7), durable).unwrap();
    log.prepare_spare(0, SeqNo(8)).unwrap();
    assert!(log.roll(&mut tail, 0, SeqNo(8)).unwrap());
    let is_dropped = |_: PartitionId| None;
    assert_eq!(log.first_needed(SeqNo(6), is_dropped), 1);
    assert_eq!(log.first_needed(SeqNo(7), is_dropped), 2);
}

/// A mark is written when its number is published, long after its place was taken.
#[test]
fn a_segment_with_a_mark_is_needed_until_its_number_is_published() {
    let storage = Arc::new(SimStorage::new(1));
    let dir = Path::new("log");
    storage.create_dir_all(dir).unwrap();
    let (log, mut tail) =
        Log::create(storage, dir, 4 << 10, false, 1, SeqNo(1), Vec::new()).unwrap();
    let durable = log.durable();
    let _mark = tail.reserve_mark(SeqNo(7), durable).unwrap();
    log.prepare_spare(0, SeqNo(8)).unwrap();
    assert!(log.roll(&mut tail, 0, SeqNo(8)).unwrap());
    let all_flushed = |_: PartitionId| None;
    assert_eq!(log.first_needed(SeqNo(6), all_flushed), 1);
    assert_eq!(log.first_needed(SeqNo(7), all_flushed), 2);
}

/// Nobody writes again into a part that was written back, nor into the mebibyte behind it: the
/// system may write both as one folio, twice. What is made ready has no records yet.
#[test]
fn each_part_is_made_ready_ahead_and_written_back_once_a_mebibyte_behind_the_log() {
    let storage = Arc::new(SimStorage::new(1));
    let dir = Path::new("log");
    storage.create_dir_all(dir).unwrap();
    let segment_bytes = 16 << 20;
    let (log, mut tail) =
        Log::create(storage, dir, segment_bytes, false, 1, SeqNo(1), Vec::new()).unwrap();
    // Four segments grow to the full size: 128 KiB, 512 KiB, 2 MiB, 8 MiB.
    for _ in 0..4 {
        log.prepare_spare(0, SeqNo(1)).unwrap();
        assert!(log.roll(&mut tail, 0, SeqNo(1)).unwrap());
    }
    let mut written_back = 0;
    // Some records are longer than a part.
    for (seqno, bytes) in (1..).zip([300_000, 3_000_000, 1_500_000].into_iter().cycle()) {
        let durable = log.durable();
        let Some(place) = tail.reserve(bytes, 1, SeqNo(seqno), durable) else {
            break;
        };
        let payload = vec![7; bytes];
        if let Some(upkeep) = log.write(&place, &payload, 1, SeqNo(seqno)).unwrap() {
            assert_eq!(upkeep.behind.start, written_back);
            written_back = upkeep.behind.end;
            let ahead = place.end.next_multiple_of(PREPARED_BYTES);
            let end = (ahead + PREPARED_BYTES).min(segment_bytes);
            assert_eq!(upkeep.ahead, ahead..end);
        }
        assert!(written_back + PREPARED_BYTES <= place.end.max(PREPARED_BYTES));
        assert!(place.end < written_back + 2 * PREPARED_BYTES);
    }
    assert!(written_back > segment_bytes - 6 * PREPARED_BYTES);
}

/// A small record says what is durable only if that changed, or none did in its 4 KiB.
#[test]
fn records_say_what_is_durable_once() {
    let storage = Arc::new(SimStorage::new(1));
    let dir = Path::new("log");
    storage.create_dir_all(dir).unwrap();
    let (log, mut tail) =
        Log::create(storage, dir, 64 << 10, false, 1, SeqNo(1), Vec::new()).unwrap();
    let mut seqno = 1;
    let mut durable = log.durable();
    let mut reserve = |tail: &mut Tail, durable| {
        let place = tail.reserve(100, 1, SeqNo(seqno), durable).unwrap();
        seqno += 1;
        place
    };
    let first = reserve(&mut tail, durable);
    assert_eq!((first.form, first.end - first.offset), (Form::Full, 136));
    let second = reserve(&mut tail, durable);
    assert_eq!(
        (second.form, second.end - second.offset),
        (Form::Short, 112)
    );
    durable.offset += 8;
    let told = reserve(&mut tail, durable);
    assert_eq!(told.form, Form::Full);
    tail.give_back(told);
    assert_eq!(
        reserve(&mut tail, durable).form,
        Form::Full,
        "nobody wrote it"
    );
    let places: Vec<_> = (0..72).map(|_| reserve(&mut tail, durable)).collect();
    let full = places.iter().filter(|place| place.form == Form::Full);
    let offsets: Vec<u64> = full.map(|place| place.offset).collect();
    assert!(
        matches!(offsets[..], [4096..4208, 8192..8304]),
        "{offsets:?}"
    );
}
