//! The contract of every backend, as tests that run on each of them.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use crate::sim::{NoSpawn, SimClock, SimStorage};
use crate::{
    Advice, Background, Clock, Environment, OsClock, OsSpawn, OsStorage, RandomRead, ReadMode,
    SegmentMode, SequentialWrite, Spawn, Storage,
};

/// A backend and an empty directory on it.
struct Case {
    storage: Arc<dyn Storage>,
    root: PathBuf,
    read_mode: ReadMode,
    _temporary: Option<tempfile::TempDir>,
}

impl Case {
    fn os(segments: SegmentMode, read_mode: ReadMode) -> Case {
        let temporary = tempfile::tempdir().unwrap();
        Case {
            storage: Arc::new(OsStorage::with_segments(segments)),
            root: temporary.path().to_owned(),
            read_mode,
            _temporary: Some(temporary),
        }
    }

    fn sim() -> Case {
        let storage = Arc::new(SimStorage::new(1));
        let root = PathBuf::from("/db");
        storage.create_dir_all(&root).unwrap();
        Case {
            storage,
            root,
            read_mode: ReadMode::Pread,
            _temporary: None,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn SequentialWrite>> {
        match self.read_mode {
            ReadMode::Direct => self.storage.create_direct(path),
            ReadMode::Pread | ReadMode::Mmap => self.storage.create(path),
        }
    }

    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        let mut file = self.create(&path).unwrap();
        file.write(bytes).unwrap();
        file.sync().unwrap();
        path
    }

    fn open(&self, path: &Path) -> Arc<dyn RandomRead> {
        self.storage.open(path, self.read_mode).unwrap()
    }

    fn read(&self, path: &Path) -> Vec<u8> {
        read_all(&*self.open(path))
    }

    fn names(&self) -> Vec<String> {
        self.storage
            .list(&self.root)
            .unwrap()
            .into_iter()
            .map(|entry| entry.name)
            .collect()
    }
}

fn read_all(file: &dyn RandomRead) -> Vec<u8> {
    let mut bytes = vec![0; file.bytes() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

/// Bytes that differ from their neighbours and from those a sector or a page away.
fn pattern(len: usize) -> Vec<u8> {
    (0..len)
        .map(|index| (index * 7 + index / 512 * 13) as u8)
        .collect()
}

#[track_caller]
fn assert_kind<T>(result: io::Result<T>, kind: ErrorKind) {
    assert_eq!(result.err().map(|error| error.kind()), Some(kind));
}

macro_rules! every_backend {
    ($($test:ident)*) => {
        every_backend!(@suite os_pread_pwrite, Case::os(SegmentMode::Pwrite, ReadMode::Pread), $($test)*);
        every_backend!(@suite os_mmap_mmap, Case::os(SegmentMode::Mmap, ReadMode::Mmap), $($test)*);
        #[cfg(target_os = "linux")]
        every_backend!(@suite os_direct_mmap, Case::os(SegmentMode::Mmap, ReadMode::Direct), $($test)*);
        every_backend!(@suite sim, Case::sim(), $($test)*);
    };
    (@suite $suite:ident, $case:expr, $($test:ident)*) => {
        mod $suite {
            use super::*;
            $(#[test] fn $test() { super::$test(&$case) })*
        }
    };
}

every_backend! {
    directory_is_created_with_its_parents
    directory_with_something_in_it_is_not_removed
    list_has_only_files_and_sorts_them
    missing_names_are_not_found
    rename_replaces_the_file_that_had_the_name
    directory_gets_another_name_with_its_files
    file_of_another_is_synced
    removed_file_stays_readable_for_open_readers
    link_is_a_second_name_of_the_same_bytes
    lock_excludes_others_until_dropped
    lock_keeps_what_is_in_the_file
    create_refuses_a_taken_name
    written_bytes_are_read_back
    flushed_bytes_are_visible_and_counted
    files_that_are_handed_over_are_complete
    unflushed_file_can_be_dropped
    read_past_the_end_is_unexpected_eof
    empty_file_is_read
    reads_at_the_same_time_end_with_their_own_bytes
    reads_are_begun_while_others_are_under_way
    advice_changes_no_bytes
    new_segment_is_all_zero
    segment_keeps_what_was_written
    segment_refuses_a_taken_name
    segment_cannot_be_empty
    segment_takes_disjoint_writes_of_many_threads
    prepared_segment_keeps_its_bytes
    recycled_segment_keeps_its_size
    recycling_a_missing_segment_changes_nothing
    available_bytes_are_told
}

fn directory_is_created_with_its_parents(case: &Case) {
    let dir = case.path("a/b/c");
    case.storage.create_dir_all(&dir).unwrap();
    case.storage.create_dir_all(&dir).unwrap();
    assert_eq!(case.storage.list(&dir).unwrap(), []);
    assert_eq!(case.names(), [""; 0]);
}

fn directory_with_something_in_it_is_not_removed(case: &Case) {
    let dir = case.path("a/b");
    case.storage.create_dir_all(&dir).unwrap();
    let file = case.put("a/b/file", b"x");
    assert_kind(
        case.storage.remove_dir(&case.path("a")),
        ErrorKind::DirectoryNotEmpty,
    );
    assert_kind(case.storage.remove_dir(&dir), ErrorKind::DirectoryNotEmpty);
    case.storage.remove(&file).unwrap();
    case.storage.remove_dir(&dir).unwrap();
    case.storage.remove_dir(&case.path("a")).unwrap();
    assert_kind(case.storage.list(&dir), ErrorKind::NotFound);
}

fn list_has_only_files_and_sorts_them(case: &Case) {
    case.storage.create_dir_all(&case.path("m")).unwrap();
    case.put("z", b"123");
    case.put("a", b"");
    let entries = case.storage.list(&case.root).unwrap();
    let entries: Vec<_> = entries
        .iter()
        .map(|entry| (&*entry.name, entry.bytes))
        .collect();
    assert_eq!(entries, [("a", 0), ("z", 3)]);
}

fn missing_names_are_not_found(case: &Case) {
    let (missing, other) = (case.path("missing"), case.path("other"));
    assert_kind(case.storage.size(&missing), ErrorKind::NotFound);
    assert_kind(
        case.storage.open(&missing, case.read_mode),
        ErrorKind::NotFound,
    );
    assert_kind(case.storage.remove(&missing), ErrorKind::NotFound);
    assert_kind(case.storage.remove_dir(&missing), ErrorKind::NotFound);
    assert_kind(case.storage.rename(&missing, &other), ErrorKind::NotFound);
    assert_kind(case.storage.link(&missing, &other), ErrorKind::NotFound);
    assert_kind(case.storage.list(&missing), ErrorKind::NotFound);
    assert_kind(case.storage.sync_dir(&missing), ErrorKind::NotFound);
    assert_kind(case.create(&missing.join("file")), ErrorKind::NotFound);
    assert_kind(
        case.storage.create_segment(&missing.join("file"), 512),
        ErrorKind::NotFound,
    );
}

fn rename_replaces_the_file_that_had_the_name(case: &Case) {
    let from = case.put("from", b"new");
    let to = case.put("to", b"old");
    let reader = case.open(&to);
    case.storage.rename(&from, &to).unwrap();
    case.storage.sync_dir(&case.root).unwrap();
    assert_eq!(case.names(), ["to"]);
    assert_eq!(case.read(&to), b"new");
    assert_eq!(read_all(&*reader), b"old");
}

fn directory_gets_another_name_with_its_files(case: &Case) {
    let (from, to) = (case.path("from"), case.path("to"));
    case.storage.create_dir_all(&from.join("inner")).unwrap();
    case.put("from/inner/file", b"bytes");
    case.storage.rename_dir(&from, &to).unwrap();
    case.storage.sync_dir(&case.root).unwrap();
    assert_eq!(case.read(&to.join("inner/file")), b"bytes");
    assert_kind(case.storage.list(&from), ErrorKind::NotFound);
    case.storage.create_dir_all(&from).unwrap();
    // An empty directory is in the way, too.
    assert_kind(
        case.storage.rename_dir(&to, &from),
        ErrorKind::AlreadyExists,
    );
    let file = case.put("plain", b"bytes");
    assert_kind(
        case.storage.rename_dir(&to, &file),
        ErrorKind::AlreadyExists,
    );
}

fn file_of_another_is_synced(case: &Case) {
    let path = case.put("file", b"bytes");
    case.storage.sync_file(&path).unwrap();
    assert_kind(
        case.storage.sync_file(&case.path("none")),
        ErrorKind::NotFound,
    );
}

fn removed_file_stays_readable_for_open_readers(case: &Case) {
    let path = case.put("file", &pattern(10_000));
    let reader = case.open(&path);
    case.storage.remove(&path).unwrap();
    assert_eq!(case.names(), [""; 0]);
    assert_eq!(read_all(&*reader), pattern(10_000));
}

fn link_is_a_second_name_of_the_same_bytes(case: &Case) {
    let first = case.put("first", b"bytes");
    let second = case.path("second");
    case.storage.link(&first, &second).unwrap();
    assert_kind(case.storage.link(&first, &second), ErrorKind::AlreadyExists);
    case.storage.remove(&first).unwrap();
    assert_eq!(case.read(&second), b"bytes");
}

fn lock_excludes_others_until_dropped(case: &Case) {
    let path = case.path("LOCK");
    let held = case.storage.lock(&path).unwrap();
    assert_kind(case.storage.lock(&path), ErrorKind::WouldBlock);
    drop(held);
    let _again = case.storage.lock(&path).unwrap();
    assert_eq!(case.names(), ["LOCK"]);
}

fn lock_keeps_what_is_in_the_file(case: &Case) {
    let path = case.put("LOCK", b"who");
    drop(case.storage.lock(&path).unwrap());
    assert_eq!(case.read(&path), b"who");
}

fn create_refuses_a_taken_name(case: &Case) {
    let path = case.put("file", b"kept");
    assert_kind(case.create(&path), ErrorKind::AlreadyExists);
    assert_eq!(case.read(&path), b"kept");
}

/// Sizes on both sides of the buffers and write-back windows of the backends.
fn written_bytes_are_read_back(case: &Case) {
    for part in [1, 999, 4096, 100_000, 262_144, 300_000, 1 << 20] {
        let bytes = pattern(3_000_000);
        let path = case.path("file");
        let mut file = case.create(&path).unwrap();
        for part in bytes.chunks(part).take(5000) {
            file.write(part).unwrap();
        }
        let written = file.bytes() as usize;
        file.sync().unwrap();
        assert_eq!(case.storage.size(&path).unwrap(), written as u64);
        assert!(
            case.read(&path) == bytes[..written],
            "parts of {part} bytes"
        );
        case.storage.remove(&path).unwrap();
    }
}

fn flushed_bytes_are_visible_and_counted(case: &Case) {
    let path = case.path("file");
    let mut file = case.create(&path).unwrap();
    file.write(b"abc").unwrap();
    file.write(b"").unwrap();
    file.flush().unwrap();
    assert_eq!(case.read(&path), b"abc");
    file.write(b"de").unwrap();
    assert_eq!(file.bytes(), 5);
    file.sync().unwrap();
    file.flush().unwrap();
    assert_eq!(case.read(&path), b"abcde");
}

fn files_that_are_handed_over_are_complete(case: &Case) {
    let paths = ["one", "two", "three"].map(|name| case.path(name));
    let write = |path: &PathBuf| {
        let mut file = case.create(path).unwrap();
        file.write(b"abc").unwrap();
        file.flush().unwrap();
        file.write(&[7; 70_000]).unwrap();
        file.hand_over().unwrap()
    };
    let syncs = paths.each_ref().map(write);
    for path in &paths {
        assert_eq!(case.read(path), [b"abc".as_slice(), &[7; 70_000]].concat());
    }
    for sync in syncs {
        sync().unwrap();
    }
    for path in &paths {
        assert_eq!(case.read(path).len(), 70_003);
    }
}

fn unflushed_file_can_be_dropped(case: &Case) {
    let path = case.path("file");
    let mut file = case.create(&path).unwrap();
    file.write(b"abc").unwrap();
    drop(file);
    case.storage.remove(&path).unwrap();
}

fn read_past_the_end_is_unexpected_eof(case: &Case) {
    let file = case.open(&case.put("file", b"12345"));
    let mut buf = [0; 3];
    file.read_at(2, &mut buf).unwrap();
    assert_eq!(&buf, b"345");
    file.read_at(5, &mut []).unwrap();
    for offset in [3, 5, 6, 1 << 40, u64::MAX] {
        assert_kind(file.read_at(offset, &mut buf), ErrorKind::UnexpectedEof);
    }
}

fn empty_file_is_read(case: &Case) {
    let file = case.open(&case.put("file", b""));
    assert_eq!(file.bytes(), 0);
    file.read_at(0, &mut []).unwrap();
    file.advise(0..0, Advice::WillNeed);
    file.advise(0..0, Advice::DontNeed);
    assert_kind(file.read_at(0, &mut [0]), ErrorKind::UnexpectedEof);
}

/// Begins reads together and returns their results in the order of `asked`.
fn read_together(
    case: &Case,
    asked: &[(&Arc<dyn RandomRead>, u64, usize)],
) -> Vec<Result<Vec<u8>, ErrorKind>> {
    let mut reads = case.storage.reads();
    for (tag, (file, offset, bytes)) in asked.iter().enumerate() {
        reads.begin(file, *offset, *bytes, tag);
    }
    let mut found = vec![None; asked.len()];
    while let Some((tag, read)) = reads.next() {
        let before = found[tag].replace(read.map(<[u8]>::to_vec).map_err(|error| error.kind()));
        assert_eq!(before, None, "read {tag} ends once");
    }
    assert!(reads.next().is_none());
    found
        .into_iter()
        .map(|it| it.expect("every read ends"))
        .collect()
}

fn reads_at_the_same_time_end_with_their_own_bytes(case: &Case) {
    let bytes = pattern(20_000);
    let file = case.open(&case.put("file", &bytes));
    let other = case.open(&case.put("other", b"short"));
    let asked = [
        (&file, 15_000, 4096),
        (&other, 0, 5),
        (&file, 19_000, 4096),
        (&file, 7, 0),
        (&file, 3, 700),
        (&file, 1, 19_999),
    ];
    let expected = [
        Ok(bytes[15_000..19_096].to_vec()),
        Ok(b"short".to_vec()),
        Err(ErrorKind::UnexpectedEof),
        Ok(Vec::new()),
        Ok(bytes[3..703].to_vec()),
        Ok(bytes[1..].to_vec()),
    ];
    assert_eq!(read_together(case, &asked), expected);
    assert_eq!(read_together(case, &asked[2..3]), expected[2..3]);
    assert_eq!(read_together(case, &asked[4..5]), expected[4..5]);
    assert_eq!(read_together(case, &[]), []);
    let many: Vec<_> = (0..200).map(|at| (&file, at * 90, 50)).collect();
    for (at, found) in read_together(case, &many).into_iter().enumerate() {
        assert_eq!(found.unwrap(), bytes[at * 90..][..50], "at {at}");
    }
}

fn reads_are_begun_while_others_are_under_way(case: &Case) {
    let bytes = pattern(400_000);
    let file = case.open(&case.put("file", &bytes));
    let place = |tag: usize| tag * 7919 % 391_000;
    let mut reads = case.storage.reads();
    let mut begun = 0;
    let mut under_way = BTreeSet::new();
    while begun < 1000 || !under_way.is_empty() {
        // Sometimes all reads end, or more begin than any queue holds.
        let room = if begun % 300 < 100 {
            100
        } else {
            1 + begun % 5
        };
        while begun < 1000 && under_way.len() < room {
            reads.begin(&file, place(begun) as u64, 1 + begun * 9, begun);
            under_way.insert(begun);
            begun += 1;
        }
        let (tag, read) = reads.next().expect("a read is under way");
        assert!(under_way.remove(&tag), "read {tag} is under way");
        assert!(
            read.unwrap() == &bytes[place(tag)..][..1 + tag * 9],
            "{tag}"
        );
    }
    // Dropping the queue abandons its reads. The next queue does not see them.
    (0..100).for_each(|tag| reads.begin(&file, tag as u64, 50, tag));
    assert!(reads.next().is_some());
    drop(reads);
    assert_eq!(
        read_together(case, &[(&file, 9, 8)]),
        [Ok(bytes[9..17].to_vec())]
    );
}

fn advice_changes_no_bytes(case: &Case) {
    let bytes = pattern(50_000);
    let file = case.open(&case.put("file", &bytes));
    for range in [
        0..50_000,
        1..2,
        10_000..20_000,
        49_999..1 << 40,
        7..7,
        1 << 40..1 << 41,
    ] {
        for advice in [Advice::WillNeed, Advice::DontNeed] {
            file.advise(range.clone(), advice);
            assert!(read_all(&*file) == bytes, "{advice:?} {range:?}");
        }
    }
}

fn new_segment_is_all_zero(case: &Case) {
    let path = case.path("segment");
    let segment = case.storage.create_segment(&path, 100_000).unwrap();
    assert_eq!(segment.capacity_bytes(), 100_000);
    assert_eq!(case.storage.size(&path).unwrap(), 100_000);
    assert!(case.read(&path).iter().all(|byte| *byte == 0));
}

fn segment_keeps_what_was_written(case: &Case) {
    let path = case.path("segment");
    let segment = case.storage.create_segment(&path, 10_000).unwrap();
    segment.write_at(9_997, b"end").unwrap();
    segment.write_at(4_000, &pattern(200)).unwrap();
    segment.write_at(10_000, b"").unwrap();
    // Other readers see the bytes before any sync: they survive the end of the process.
    let bytes = case.read(&path);
    assert_eq!(bytes[4_000..4_200], pattern(200));
    assert_eq!(bytes[9_997..], *b"end");
    segment.write_back(0..9_000);
    segment.sync().unwrap();
    assert_eq!(case.read(&path), bytes);
    segment.write_at(4_000, b"again").unwrap();
    segment.write_back(0..u64::MAX);
    drop(segment);
    assert_eq!(case.read(&path)[4_000..4_005], *b"again");
    assert_eq!(case.read(&path)[4_005..], bytes[4_005..]);
}

fn segment_refuses_a_taken_name(case: &Case) {
    let path = case.put("segment", b"kept");
    assert_kind(
        case.storage.create_segment(&path, 512),
        ErrorKind::AlreadyExists,
    );
    assert_eq!(case.read(&path), b"kept");
}

fn segment_cannot_be_empty(case: &Case) {
    assert_kind(
        case.storage.create_segment(&case.path("segment"), 0),
        ErrorKind::InvalidInput,
    );
    assert_eq!(case.names(), [""; 0]);
}

fn segment_takes_disjoint_writes_of_many_threads(case: &Case) {
    const THREADS: u64 = 4;
    const RECORD_BYTES: usize = 160;
    let path = case.path("segment");
    let segment = case.storage.create_segment(&path, 1 << 20).unwrap();
    let count = segment.capacity_bytes() / RECORD_BYTES as u64;
    thread::scope(|scope| {
        for first in 0..THREADS {
            let segment = &segment;
            scope.spawn(move || {
                for index in (first..count).step_by(THREADS as usize) {
                    let record = [index as u8; RECORD_BYTES];
                    segment
                        .write_at(index * RECORD_BYTES as u64, &record)
                        .unwrap();
                    if index % 1000 == 0 {
                        // A concurrent write-back of the same bytes.
                        segment.write_back(0..segment.capacity_bytes());
                        segment.sync().unwrap();
                    }
                }
            });
        }
    });
    let bytes = case.read(&path);
    for (index, record) in bytes.chunks_exact(RECORD_BYTES).enumerate() {
        assert!(
            record.iter().all(|byte| *byte == index as u8),
            "record {index}"
        );
    }
}

fn prepared_segment_keeps_its_bytes(case: &Case) {
    let path = case.path("segment");
    let segment = case.storage.create_segment(&path, 20_000).unwrap();
    segment.write_at(5_000, b"here").unwrap();
    for range in [
        0..20_000,
        4_999..5_001,
        19_999..1 << 40,
        3..3,
        1 << 40..1 << 41,
    ] {
        segment.prepare(range);
    }
    let bytes = case.read(&path);
    assert_eq!(bytes[5_000..5_004], *b"here");
    assert_eq!(bytes.iter().filter(|byte| **byte != 0).count(), 4);
}

fn recycled_segment_keeps_its_size(case: &Case) {
    let (old, new) = (case.path("old"), case.path("new"));
    case.storage
        .create_segment(&old, 5_000)
        .unwrap()
        .write_at(100, b"old")
        .unwrap();
    let segment = case.storage.recycle_segment(&old, &new).unwrap();
    assert_eq!(case.names(), ["new"]);
    assert_eq!(segment.capacity_bytes(), 5_000);
    segment.write_at(102, b"new").unwrap();
    let bytes = case.read(&new);
    assert!([*b"olnew", *b"\0\0new"].contains(&bytes[100..105].try_into().unwrap()));
    assert!(bytes[105..].iter().all(|byte| *byte == 0));
}

fn recycling_a_missing_segment_changes_nothing(case: &Case) {
    let result = case
        .storage
        .recycle_segment(&case.path("old"), &case.path("new"));
    assert_kind(result, ErrorKind::NotFound);
    assert_eq!(case.names(), [""; 0]);
}

fn available_bytes_are_told(case: &Case) {
    assert!(case.storage.available_bytes(&case.root).unwrap() > 0);
    assert_kind(
        case.storage.available_bytes(&case.path("missing")),
        ErrorKind::NotFound,
    );
}

#[test]
#[should_panic(expected = "in a segment of 512 bytes")]
fn os_mapped_segment_is_not_written_past_its_end() {
    write_past_the_end(&Case::os(SegmentMode::Mmap, ReadMode::Pread));
}

#[test]
#[should_panic(expected = "in a segment of 512 bytes")]
fn os_pwrite_segment_is_not_written_past_its_end() {
    write_past_the_end(&Case::os(SegmentMode::Pwrite, ReadMode::Pread));
}

#[test]
#[should_panic(expected = "in a segment of 512 bytes")]
fn sim_segment_is_not_written_past_its_end() {
    write_past_the_end(&Case::sim());
}

fn write_past_the_end(case: &Case) {
    let segment = case
        .storage
        .create_segment(&case.path("segment"), 512)
        .unwrap();
    let _ = segment.write_at(510, b"abc");
}

/// A segment that does not fit fails at once and leaves no file behind.
#[test]
fn os_segment_that_does_not_fit_leaves_no_file() {
    for segments in [SegmentMode::Mmap, SegmentMode::Pwrite] {
        let case = Case::os(segments, ReadMode::Pread);
        let bytes = case.storage.available_bytes(&case.root).unwrap() + (1 << 40);
        let result = case.storage.create_segment(&case.path("segment"), bytes);
        assert_kind(result, ErrorKind::StorageFull);
        assert_eq!(case.names(), [""; 0]);
    }
}

#[test]
fn clocks_go_forward() {
    let clocks: [&dyn Clock; 2] = [&OsClock::new(), &SimClock::new()];
    for clock in clocks {
        let start = clock.now();
        clock.sleep(Duration::from_millis(2));
        assert!(clock.now() >= start + Duration::from_millis(2));
        assert!(clock.unix_seconds() > 1_600_000_000);
    }
}

#[test]
fn os_threads_run_and_report_panics() {
    let (sender, receiver) = mpsc::channel();
    let body = move || {
        sender
            .send(thread::current().name().map(str::to_owned))
            .unwrap()
    };
    OsSpawn
        .spawn("worker", Box::new(body))
        .unwrap()
        .join()
        .unwrap();
    assert_eq!(receiver.recv().unwrap().as_deref(), Some("worker"));
    assert!(
        OsSpawn
            .spawn("bug", Box::new(|| panic!("expected")))
            .unwrap()
            .join()
            .is_err()
    );
}

#[test]
fn simulation_starts_no_threads() {
    let (sender, receiver) = mpsc::channel();
    let body = move || sender.send(()).unwrap();
    assert_kind(
        NoSpawn.spawn("worker", Box::new(body)),
        ErrorKind::Unsupported,
    );
    assert!(
        receiver.recv().is_err(),
        "the body was dropped without being run"
    );
}

#[test]
fn environments_say_who_works_in_the_background() {
    assert!(matches!(
        Environment::os().background,
        Background::Threads(2..)
    ));
    let environment = Environment::simulated(&SimStorage::new(1), 5);
    assert_eq!(environment.background, Background::Inline { seed: 5 });
}
