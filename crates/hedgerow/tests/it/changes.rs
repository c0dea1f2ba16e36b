//! The change feed: all commits in order, while slots keep them.

use std::time::Duration;

use hedgerow::io::Environment;
use hedgerow::io::sim::SimStorage;
use hedgerow::{
    Changes, CommitChange, Compression, Db, Durability, Error, ErrorKind, Expiry, Layout, LoadOp,
    Result, TableWriter,
};

use crate::support::{builder, files, key, kind, open, plain, plain_small, small, value};

const LIMIT: u64 = 1 << 30;
const DAY: Duration = Duration::from_secs(86400);

/// The changes as text, each with the number of its commit.
fn told(changes: &mut Changes) -> Vec<String> {
    let commits = changes.collect::<Result<Vec<_>>>().unwrap();
    let mut lines = Vec::new();
    for commit in commits {
        for change in commit.changes {
            lines.push(format!("{} {}", commit.number, text(&change)));
        }
    }
    lines
}

fn text(change: &CommitChange) -> String {
    let show = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let until = |expiry: &Expiry| match expiry.unix_millis() {
        Some(ms) => format!(" until {ms}"),
        None => String::new(),
    };
    match change {
        CommitChange::Put {
            keyspace,
            key,
            value,
            expiry,
        } => {
            let (key, value) = (show(key), show(value));
            format!("put {keyspace} {key} {value}{}", until(expiry))
        }
        CommitChange::Merge {
            keyspace,
            key,
            operand,
        } => format!("merge {keyspace} {} {}", show(key), show(operand)),
        CommitChange::Delete { keyspace, key } => format!("delete {keyspace} {}", show(key)),
        CommitChange::DeleteRange { keyspace, from, to } => {
            let to = to.as_deref().map_or("end".into(), show);
            format!("delete {keyspace} from {} to {to}", show(from))
        }
        CommitChange::DeletePrefix { keyspace, prefix } => {
            format!("delete {keyspace} prefix {}", show(prefix))
        }
        CommitChange::Load { keyspace, tables } => {
            let entries = tables.read().unwrap().map(Result::unwrap);
            let entries = entries.map(|(key, op)| match op {
                LoadOp::PutExpiring(value, expiry) => {
                    format!("{}={}{}", show(&key), show(&value), until(&expiry))
                }
                LoadOp::Merge(operand) => format!("{}+{}", show(&key), show(&operand)),
                LoadOp::Delete => format!("{}-", show(&key)),
                other => panic!("{other:?}"),
            });
            format!("load {keyspace} {}", entries.collect::<Vec<_>>().join(" "))
        }
        CommitChange::Create { keyspace, layout } => format!("create {keyspace} {layout}"),
        CommitChange::SetMergeOperator { keyspace, name } => {
            format!("operator of {keyspace} {name}")
        }
        CommitChange::SetTimeToLive {
            keyspace,
            time_to_live,
        } => format!("time to live of {keyspace} {time_to_live:?}"),
        CommitChange::Rename { keyspace, to } => format!("rename {keyspace} {to}"),
        CommitChange::Clear { keyspace } => format!("clear {keyspace}"),
        CommitChange::Drop { keyspace } => format!("drop {keyspace}"),
        other => panic!("{other:?}"),
    }
}

/// One of every change.
fn change_everything(db: &Db, disk: &SimStorage) {
    let before = db.existing_keyspace("before").unwrap();
    before.put(b"a", b"1").unwrap();
    let many = db.keyspace("many", Layout::sorted().hash(3)).unwrap();
    let mut batch = db.batch();
    batch.put(&many, b"k", b"v").unwrap();
    batch.delete(&before, b"a").unwrap();
    batch
        .delete_range(&many, b"b".to_vec()..b"c".to_vec())
        .unwrap();
    batch.commit(Durability::Buffered).unwrap();
    many.delete_range(b"x".to_vec()..).unwrap();
    let hashed = Layout::hashed();
    let hashed = db.keyspace("hashed", hashed).unwrap();
    let entries = [("h1", "1"), ("h2", "2")].map(Ok::<_, Error>);
    hashed.bulk_load(entries).unwrap();
    hedgerow::io::Storage::create_dir_all(disk, "/outside".as_ref()).unwrap();
    let path = std::path::Path::new("/outside/table");
    let mut table = TableWriter::create_on(disk, path, Compression::None).unwrap();
    table.put(b"i", b"1").unwrap();
    table.delete(b"j").unwrap();
    table.finish().unwrap();
    before.ingest(&[path]).unwrap();
    before.compact::<&[u8]>(..).unwrap();
    let layout = Layout::sorted().merge_operator("append");
    db.keyspace("before", layout.clone()).unwrap();
    before.merge(b"i", b"2").unwrap();
    before
        .put_expiring(b"e", b"1", Expiry::of(Some(4_000_000_000_000)))
        .unwrap();
    before.set_time_to_live(Some(DAY)).unwrap();
    before.put(b"lives", b"a day").unwrap();
    let loaded = [
        ("loaded", LoadOp::Put("too")),
        ("merged", LoadOp::Merge("too")),
    ];
    before.bulk_load_ops(loaded.map(Ok::<_, Error>)).unwrap();
    before.set_time_to_live(None).unwrap();
    before.put(b"lives", b"on").unwrap();
    db.keyspace("words", layout).unwrap();
    db.rename_keyspace("before", "after").unwrap();
    before.put(b"r", b"").unwrap();
    many.clear().unwrap();
    many.put(b"k", b"new").unwrap();
    db.drop_keyspace("many").unwrap();
    before.put(b"last", b"").unwrap();
}

const EVERYTHING: &[&str] = &[
    "put before a 1",
    "create many sorted hash:3",
    "put many k v",
    "delete before a",
    "delete many from b to c",
    "delete many from x to end",
    "create hashed hashed",
    "load hashed h1=1 h2=2",
    "load before i=1 j-",
    "operator of before append",
    "merge before i 2",
    "put before e 1 until 4000000000000",
    "time to live of before Some(86400s)",
    "put before lives a day until 1700086400000",
    "load before loaded=too until 1700086400000 merged+too",
    "time to live of before None",
    "put before lives on",
    "create words sorted merge:append",
    "rename before after",
    "put after r ",
    "clear many",
    "put many k new",
    "drop many",
    "put after last ",
];

fn without_numbers(lines: &[String]) -> Vec<&str> {
    let rest = lines.iter().map(|line| line.split_once(' ').unwrap().1);
    let mut rest: Vec<_> = rest.collect();
    // Hashed keys come in the order of their hashes.
    for line in &mut rest {
        if *line == "load hashed h2=2 h1=1" {
            *line = "load hashed h1=1 h2=2";
        }
    }
    rest
}

#[test]
fn the_feed_has_every_change_in_order_here_and_beside_the_writer() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    db.keyspace_with("before", Layout::sorted(), small())
        .unwrap()
        .put(b"0", b"")
        .unwrap();
    let begin = db.create_slot("s", LIMIT).unwrap();
    let mut live = db.changes_since(begin).unwrap();
    let mut beside = builder(&disk).changes_since(begin).unwrap();
    assert!(live.next().is_none() && beside.next().is_none());
    change_everything(&db, &disk);
    let lines = told(&mut live);
    assert_eq!(without_numbers(&lines), EVERYTHING);
    assert_eq!(told(&mut beside), lines);
    assert!(live.next().is_none() && beside.next().is_none());
    let mut numbers: Vec<u64> = lines
        .iter()
        .map(|line| line.split_once(' ').unwrap().0.parse().unwrap())
        .collect();
    assert!(numbers.is_sorted());
    numbers.dedup();
    // It resumes behind every commit, also after the database was closed, killed or cut off.
    drop(db);
    for image in [disk.kill(), disk.crash()] {
        for close in [true, false] {
            let db = open(&image);
            for number in [begin].iter().chain(&numbers) {
                let rest: Vec<_> = lines
                    .iter()
                    .filter(|line| {
                        line.split_once(' ').unwrap().0.parse::<u64>().unwrap() > *number
                    })
                    .cloned()
                    .collect();
                assert_eq!(
                    told(&mut db.changes_since(*number).unwrap()),
                    rest,
                    "{number}"
                );
                assert_eq!(
                    told(&mut builder(&image).changes_since(*number).unwrap()),
                    rest
                );
            }
            db.verify().unwrap();
            if close {
                db.close().unwrap();
            }
        }
    }
}

#[test]
fn a_database_without_slots_keeps_no_changes_and_does_nothing_more() {
    let run = |with_slot: bool| {
        let disk = SimStorage::new(2);
        let db = open(&disk);
        db.keyspace("before", Layout::sorted()).unwrap();
        if with_slot {
            db.create_slot("s", LIMIT).unwrap();
            db.drop_slot("s").unwrap();
        }
        let before = disk.counters().mutations;
        change_everything(&db, &disk);
        let written = disk.counters().mutations - before;
        assert_eq!(
            kind(db.changes_since(0).map(drop)),
            ErrorKind::InvalidArgument
        );
        assert!(files(&disk, "feed").is_empty());
        db.flush().unwrap();
        db.close().unwrap();
        written
    };
    assert_eq!(run(false), run(true));
}

#[test]
fn a_slot_keeps_the_log_up_to_its_limit_and_then_says_what_is_left() {
    let disk = SimStorage::new(3);
    let db = builder(&disk).log_segment_bytes(4 << 10).open().unwrap();
    let keyspace = plain_small(&db);
    let begin = db.create_slot("wide", LIMIT).unwrap();
    let narrow = db.create_slot("narrow", 8 << 10).unwrap();
    let write = |from: u64| {
        (from..from + 300).for_each(|i| keyspace.put(key(i), value(i)).unwrap());
        keyspace.flush().unwrap();
    };
    write(0);
    let mut changes = db.changes_since(narrow).unwrap();
    let first = changes.next().unwrap().unwrap().number;
    assert_eq!(told(&mut changes).len(), 299);
    // The wide slot keeps what the narrow one may not.
    assert_eq!(told(&mut db.changes_since(begin).unwrap()).len(), 300);
    let kept = files(&disk, "log").len();
    let last = changes.number();
    db.confirm_slot("wide", last).unwrap();
    assert!(files(&disk, "log").len() < kept);
    let ErrorKind::Gap { oldest } = kind(db.changes_since(first).map(drop)) else {
        panic!("expected a gap");
    };
    assert!(oldest > first && oldest <= last, "{oldest}");
    assert_eq!(
        told(&mut db.changes_since(oldest).unwrap()).len() as u64,
        last - oldest
    );
    assert_eq!(
        kind(builder(&disk).changes_since(first).map(drop)),
        ErrorKind::Gap { oldest }
    );
    // A reader that falls behind meets the gap, too.
    let mut slow = db.changes_since(last).unwrap();
    let mut beside = builder(&disk).changes_since(last).unwrap();
    db.drop_slot("wide").unwrap();
    (1..20).for_each(|round| write(round * 300));
    for reader in [&mut slow, &mut beside] {
        let error = reader.next().unwrap().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Gap { .. }), "{error}");
    }
    let bytes: usize = files(&disk, "log").len() * (4 << 10);
    assert!(bytes < 200 << 10, "{bytes}");
    db.drop_slot("narrow").unwrap();
    assert_eq!(
        kind(slow.next().unwrap().map(drop)),
        ErrorKind::InvalidArgument
    );
}

#[test]
fn slots_are_kept_by_name_and_move_forward_only() {
    let disk = SimStorage::new(4);
    let db = open(&disk);
    let keyspace = plain(&db);
    let begin = db.create_slot("a", LIMIT).unwrap();
    assert_eq!(kind(db.create_slot("a", LIMIT)), ErrorKind::InvalidArgument);
    keyspace.put(b"k", b"v").unwrap();
    let last = db
        .changes_since(begin)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .number;
    assert_eq!(kind(db.confirm_slot("b", last)), ErrorKind::InvalidArgument);
    assert_eq!(
        kind(db.confirm_slot("a", last + 1)),
        ErrorKind::InvalidArgument
    );
    db.confirm_slot("a", last).unwrap();
    assert_eq!(
        kind(db.confirm_slot("a", begin)),
        ErrorKind::InvalidArgument
    );
    assert_eq!(
        kind(db.changes_since(last + 1).map(drop)),
        ErrorKind::InvalidArgument
    );
    drop((keyspace, db));
    let db = open(&disk.crash());
    assert_eq!(db.slots().unwrap()["a"].position, last);
    db.drop_slot("a").unwrap();
    assert_eq!(kind(db.drop_slot("a")), ErrorKind::InvalidArgument);
    assert!(db.slots().unwrap().is_empty());
    // A copy has no slots.
    let disk = disk.crash();
    let db = open(&disk);
    db.create_slot("c", LIMIT).unwrap();
    db.checkpoint("/copy").unwrap();
    let copy = Db::builder("/copy").environment(Environment::simulated(&disk, 7));
    assert!(copy.slots().unwrap().is_empty());
}

/// A consumer that resumed at a number that was used twice would miss the commits up to it.
/// The reader skips what is before its position, and reads some of the log at a time. It ended when
/// some was skipped.
#[test]
fn commits_far_behind_the_beginning_of_their_segment_are_found_at_once() {
    const VALUE_BYTES: usize = 64 << 10;
    let disk = SimStorage::new(6);
    let environment = Environment::simulated(&disk, 7);
    let open = Db::builder("/db")
        .environment(environment)
        .memory_budget(256 << 20);
    let db = open.clone().open().unwrap();
    let keyspace = plain(&db);
    let large = vec![7; VALUE_BYTES];
    // The fourth segment, which may have 8 MiB, gets 4 MiB of them.
    for number in 0..104 {
        keyspace.put(key(number), &large).unwrap();
    }
    let begin = db.create_slot("a", LIMIT).unwrap();
    keyspace.put(b"k", b"v").unwrap();
    let expected = format!("{} put plain k v", begin + 1);
    let mut here = db.changes_since(begin).unwrap();
    let mut beside = open.changes_since(begin).unwrap();
    for changes in [&mut here, &mut beside] {
        assert_eq!(told(changes), std::slice::from_ref(&expected));
    }
}

#[test]
fn no_number_is_used_again_when_its_tables_are_gone() {
    for way in 0..4 {
        let disk = SimStorage::new(6);
        let db = open(&disk);
        plain(&db).put(b"k", b"v").unwrap();
        let last = db.keyspace_with("last", Layout::sorted(), small()).unwrap();
        let begin = db.create_slot("s", LIMIT).unwrap();
        if way % 2 == 1 {
            db.drop_slot("s").unwrap();
        }
        (0..300).for_each(|i| last.put(key(i), value(i)).unwrap());
        match way {
            0 | 1 => last.clear().unwrap(),
            _ => db.drop_keyspace("last").unwrap(),
        }
        if way % 2 == 0 {
            let changes = db.changes_since(begin).unwrap();
            assert_eq!(changes.last().unwrap().unwrap().number, begin + 301);
            db.drop_slot("s").unwrap();
        }
        let mut image = disk.crash();
        drop((last, db));
        // It stays so, however often it is opened.
        for _ in 0..3 {
            let disk = image;
            let db = open(&disk);
            let number = db.snapshot().unwrap().number();
            assert!(number > begin + 300, "{way}: {number} after {begin}");
            image = disk.crash();
        }
    }
}

#[test]
fn no_number_is_used_again_when_merges_have_left_nothing_of_a_load() {
    for close in [false, true] {
        let mut disk = SimStorage::new(6);
        let db = open(&disk);
        let last = plain(&db);
        let deletes = (0..10).map(|i| Ok::<_, Error>((key(i), LoadOp::<Vec<u8>>::Delete)));
        last.bulk_load_ops(deletes).unwrap();
        last.compact::<&[u8]>(..).unwrap();
        let used = db.snapshot().unwrap().number();
        if close {
            db.close().unwrap();
        }
        drop(last);
        disk = disk.kill();
        for opening in 0..3 {
            let db = open(&disk);
            let number = db.snapshot().unwrap().number();
            assert!(number >= used, "{close} {opening}: {number} after {used}");
            disk = disk.kill();
        }
    }
}

#[test]
fn a_follower_tells_its_lag_and_keeps_the_view_of_earlier_handles() {
    let disk = SimStorage::new(7);
    let db = open(&disk);
    let keyspace = plain(&db);
    keyspace.put(key(0), value(0)).unwrap();
    let mut follower = builder(&disk).open_follower().unwrap();
    assert_eq!(follower.stats().unwrap().lag_writes, 0);
    (1..=5).for_each(|i| keyspace.put(key(i), value(i)).unwrap());
    let stats = follower.stats().unwrap();
    assert_eq!(stats.lag_writes, 5);
    let before = follower.db().existing_keyspace("plain").unwrap();
    assert!(follower.catch_up().unwrap());
    let after = follower.stats().unwrap();
    assert_eq!((after.lag_writes, after.number), (0, stats.number + 5));
    assert_eq!(before.scan_all().unwrap().count(), 1);
    let now = follower.db().existing_keyspace("plain").unwrap();
    assert_eq!(now.scan_all().unwrap().count(), 6);
    assert!(!follower.catch_up().unwrap());
}

#[test]
fn waiting_ends_when_there_is_more_or_the_time_is_over() {
    let disk = SimStorage::new(5);
    let db = open(&disk);
    let keyspace = plain(&db);
    let begin = db.create_slot("a", LIMIT).unwrap();
    let mut changes = db.changes_since(begin).unwrap();
    let second = Duration::from_secs(1);
    assert!(!changes.wait(second).unwrap());
    keyspace.put(b"k", b"v").unwrap();
    assert!(changes.wait(second).unwrap());
    assert_eq!(told(&mut changes).len(), 1);
    db.close().unwrap();
    assert_eq!(kind(changes.wait(second)), ErrorKind::Closed);
}

/// The flush of `p` has nothing to sync: its last record was. The end of its segment behind that
/// record is read by the feed, and by nothing else.
#[test]
fn the_feed_reads_segments_to_their_end_after_a_power_loss() {
    for seed in 0..60u64 {
        let disk = SimStorage::new(seed);
        let db = builder(&disk).log_segment_bytes(4 << 10).open().unwrap();
        let [p, q] = ["p", "q"].map(|name| db.keyspace(name, Layout::sorted()).unwrap());
        let begin = db.create_slot("s", LIMIT).unwrap();
        for i in 0..seed % 20 + 1 {
            p.put_with(key(i), value(i), Durability::Synced).unwrap();
        }
        // It does not fit into the segment.
        q.put(b"large", [b'x'; 3900]).unwrap();
        p.flush().unwrap();
        let image = disk.crash();
        let read = |changes: &mut Changes| {
            let lines = told(changes);
            assert!(lines.len() as u64 > seed % 20, "seed {seed}: {lines:?}");
        };
        read(&mut builder(&image).changes_since(begin).unwrap());
        let db = open(&image);
        read(&mut db.changes_since(begin).unwrap());
        db.keyspace("p", Layout::sorted())
            .unwrap()
            .put(b"more", b"")
            .unwrap();
        let last = told(&mut db.changes_since(begin).unwrap()).pop().unwrap();
        assert!(last.contains("put p more"), "seed {seed}: {last}");
    }
}
