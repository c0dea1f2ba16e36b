use hedgerow_io::sim::SimStorage;

use super::*;

/// A writer copies its record outside of every lock. If the file is recycled meanwhile, the record
/// overwrites another segment, and a crash loses the commit and all behind it.
#[test]
fn a_segment_of_a_dropped_partition_is_needed_until_its_commits_are_published() {
    let storage = Arc::new(SimStorage::new(1));
    let dir = Path::new("log");
    storage.create_dir_all(dir).unwrap();
    let (log, mut tail) = Log::create(storage, dir, 4 << 10, 1, SeqNo(1), Vec::new()).unwrap();
    let latest = Arc::new(CachePadded(AtomicU64::new(7)));
    tail.touch(PartitionId(3), &latest);
    let _being_copied = tail.reserve(100).unwrap();
    log.prepare_spare(0, SeqNo(8)).unwrap();
    assert!(log.roll(&mut tail, 0, SeqNo(8)).unwrap());
    let is_dropped = |_: PartitionId| None;
    assert_eq!(log.first_needed(SeqNo(6), is_dropped), 1);
    assert_eq!(log.first_needed(SeqNo(7), is_dropped), 2);
}
