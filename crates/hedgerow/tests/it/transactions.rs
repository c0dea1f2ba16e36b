//! Optimistic transactions: each anomaly that they rule out, each kind of write that they notice.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use hedgerow::io::sim::SimStorage;
use hedgerow::{
    Db, Durability, Error, ErrorKind, Expiry, Isolation, Keyspace, Layout, PrefixRule, Result,
    Transaction, TransactionOptions,
};

use crate::concurrency::threaded;
use crate::support::{builder, contents, key, kind, open, plain, plain_small, small, value};

fn number(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()))
}

fn get(t: &mut Transaction, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> u64 {
    number(t.get(keyspace, key).unwrap().as_deref())
}

fn put(t: &mut Transaction, keyspace: &Keyspace, key: impl AsRef<[u8]>, n: u64) {
    t.put(keyspace, key, n.to_be_bytes()).unwrap();
}

fn snapshot_isolation() -> TransactionOptions {
    TransactionOptions {
        isolation: Isolation::Snapshot,
        ..TransactionOptions::default()
    }
}

#[track_caller]
fn conflicts(t: Transaction, key: &str) {
    let error = t.commit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(error.key(), Some(key.as_bytes()), "{error}");
    assert!(error.keyspace().is_some_and(|it| !it.is_empty()), "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("`{key}`")), "{key}: {text}");
}

#[test]
fn lost_update_is_refused() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let plain = plain(&db);
    for options in [TransactionOptions::default(), snapshot_isolation()] {
        let mut first = db.transaction_with(options).unwrap();
        let mut second = db.transaction_with(options).unwrap();
        for t in [&mut first, &mut second] {
            let n = get(t, &plain, "count");
            put(t, &plain, "count", n + 1);
        }
        first.commit().unwrap();
        conflicts(second, "count");
    }
    assert_eq!(number(plain.get("count").unwrap().as_deref()), 2);
    assert_eq!(db.stats().transaction_conflicts, 2);
}

#[test]
fn write_skew_is_refused_unless_snapshots_are_enough() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let plain = plain(&db);
    for (options, refused) in [
        (TransactionOptions::default(), true),
        (snapshot_isolation(), false),
    ] {
        let mut first = db.transaction_with(options).unwrap();
        let mut second = db.transaction_with(options).unwrap();
        get(&mut first, &plain, "a");
        put(&mut first, &plain, "b", 1);
        get(&mut second, &plain, "b");
        put(&mut second, &plain, "a", 1);
        first.commit().unwrap();
        match refused {
            true => conflicts(second, "b"),
            false => second.commit().unwrap(),
        }
    }
}

#[test]
fn phantom_is_refused() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let plain = plain(&db);
    for i in 0..10 {
        plain.put(key(i * 10), value(i)).unwrap();
    }
    let count = |t: &mut Transaction| t.scan(&plain, key(20)..key(60)).unwrap().count();
    let begin = || {
        let mut t = db.transaction().unwrap();
        assert!(count(&mut t) > 0);
        t.put(&plain, "result", "x").unwrap();
        t
    };
    let t = begin();
    plain.put(key(35), "phantom").unwrap();
    conflicts(t, "key-000035");
    let t = begin();
    plain.delete(key(40)).unwrap();
    conflicts(t, "key-000040");
    let t = begin();
    plain.delete_range(key(50)..key(90)).unwrap();
    conflicts(t, "key-000050");
    // Outside of the range.
    let t = begin();
    plain.put(key(60), "x").unwrap();
    plain.put(key(19), "x").unwrap();
    plain.delete_range(key(70)..).unwrap();
    t.commit().unwrap();
    // A prefix is a range, too.
    let mut t = db.transaction().unwrap();
    assert_eq!(t.scan_prefix(&plain, "none-").unwrap().count(), 0);
    t.put(&plain, "result", "x").unwrap();
    plain.put("none-1", "x").unwrap();
    conflicts(t, "none-1");
}

/// The read-only anomaly of Fekete, O'Neil and O'Neil (2004): a reader sees a deposit without the
/// penalty that came before it.
#[test]
fn read_only_anomaly_is_refused() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let plain = plain(&db);
    for (options, refused) in [
        (TransactionOptions::default(), true),
        (snapshot_isolation(), false),
    ] {
        plain.put("checking", 0_u64.to_be_bytes()).unwrap();
        plain.put("saving", 0_u64.to_be_bytes()).unwrap();
        let mut withdraw = db.transaction_with(options).unwrap();
        let total = get(&mut withdraw, &plain, "checking") + get(&mut withdraw, &plain, "saving");
        let mut deposit = db.transaction_with(options).unwrap();
        let saving = get(&mut deposit, &plain, "saving");
        put(&mut deposit, &plain, "saving", saving + 20);
        deposit.commit().unwrap();
        let mut report = db.transaction_with(options).unwrap();
        assert_eq!(get(&mut report, &plain, "saving"), 20);
        assert_eq!(get(&mut report, &plain, "checking"), 0);
        report.commit().unwrap();
        assert_eq!(total, 0);
        put(&mut withdraw, &plain, "checking", 11);
        match refused {
            true => conflicts(withdraw, "saving"),
            false => withdraw.commit().unwrap(),
        }
    }
}

#[test]
fn absence_is_checked() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let keyspace = db.keyspace("hashed", Layout::hashed().hash(2)).unwrap();
    let begin = || {
        let mut t = db.transaction().unwrap();
        assert!(!t.contains_key(&keyspace, "name").unwrap());
        assert_eq!(
            t.multi_get(&keyspace, &["other", "third"]).unwrap(),
            [None, None]
        );
        t.put(&keyspace, "name", "mine").unwrap();
        t
    };
    let t = begin();
    keyspace.put("third", "x").unwrap();
    conflicts(t, "third");
    keyspace.delete("third").unwrap();
    let (first, second) = (begin(), begin());
    first.commit().unwrap();
    conflicts(second, "name");
}

type Change = fn(&Db, &Keyspace) -> Result<()>;

/// The ways in which others write the key `m`.
const CHANGES: &[(&str, Change)] = &[
    ("put", |_, it| it.put("m", "x")),
    ("a put of the same value", |_, it| it.put("m", "old")),
    ("delete", |_, it| it.delete("m")),
    ("update", |_, it| {
        it.update("m", |_| Some(vec![1])).map(drop)
    }),
    ("batch", |db, it| {
        let mut batch = db.batch();
        batch.put(it, "q", "x")?.put(it, "m", "x")?;
        batch.commit(Durability::Buffered)
    }),
    ("range delete", |_, it| it.delete_range("k".."n")),
    ("prefix delete", |_, it| it.delete_prefix("m")),
    ("bulk load", |_, it| load(it, "m")),
    ("ingest", |_, it| ingest(it, "m")),
    ("operand", |_, it| it.merge("m", "x")),
    ("put that expires", |_, it| {
        it.put_expiring("m", "x", Expiry::In(Duration::from_secs(1)))
    }),
    ("clear", |_, it| it.clear()),
    ("drop", |db, it| db.drop_keyspace(&it.name())),
    ("pop", |_, it| it.pop_last().map(drop)),
    ("transaction", |db, it| {
        db.transact(|t| t.put(it, "m", "x").map(drop))
    }),
];

/// Other calls.
const OTHERS: &[(&str, Change)] = &[
    ("put beside it", |_, it| it.put("n", "x")),
    ("range delete beside it", |_, it| it.delete_range("n"..)),
    ("bulk load beside it", |_, it| load(it, "l")),
    ("ingest beside it", |_, it| ingest(it, "a")),
    ("clear of another", |db, _| {
        db.keyspace("other", Layout::sorted())?.clear()
    }),
    ("flush and merge", |_, it| {
        it.flush()?;
        it.compact::<&[u8]>(..)
    }),
];

fn load(keyspace: &Keyspace, key: &str) -> Result<()> {
    keyspace
        .bulk_load([(key, "x")].map(Ok::<_, Error>))
        .map(drop)
}

/// Ingests a table with the present value of a key.
fn ingest(keyspace: &Keyspace, key: &str) -> Result<()> {
    let tables = keyspace.export(key..=key, "/tables")?;
    keyspace.ingest(&tables).map(drop)
}

/// The result of a transaction that reads `m`, after a change. Afterwards everything is flushed or
/// not.
fn after(layout: &Layout, change: Change, flushed: bool, by_scan: bool) -> Result<()> {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let layout = layout.clone().merge_operator("append");
    let keyspace = db.keyspace_with("k", layout, small()).unwrap();
    let other = db.keyspace("other", Layout::sorted()).unwrap();
    keyspace.put("a", "old").unwrap();
    keyspace.put("m", "old").unwrap();
    let mut t = db.transaction().unwrap();
    match by_scan {
        true => drop(t.scan(&keyspace, "m"..="m").unwrap().next()),
        false => drop(t.get(&keyspace, "m").unwrap()),
    }
    t.put(&other, "result", "x").unwrap();
    change(&db, &keyspace).unwrap();
    if flushed {
        db.flush().unwrap();
    }
    t.commit()
}

#[test]
fn every_kind_of_write_is_seen() {
    let layouts = [
        Layout::sorted(),
        Layout::sorted().hash(3),
        Layout::sorted().range(["g", "p"]),
    ];
    for layout in &layouts {
        for (flushed, by_scan) in [(false, false), (false, true), (true, false), (true, true)] {
            let what = format!("in {layout}, flushed: {flushed}, by a scan: {by_scan}");
            for (change, make) in CHANGES {
                let result = after(layout, *make, flushed, by_scan);
                assert_eq!(kind(result), ErrorKind::Conflict, "{change} {what}");
            }
            for (change, make) in OTHERS {
                let result = after(layout, *make, flushed, by_scan);
                result.unwrap_or_else(|e| panic!("{change} {what}: {e}"));
            }
        }
    }
}

#[test]
fn prefixes_of_semi_sorted_keys_are_checked() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let layout = Layout::semi_sorted(PrefixRule::Delimiter(b'/')).hash(2);
    let keyspace = db.keyspace("k", layout).unwrap();
    keyspace.put("ada/1", "x").unwrap();
    keyspace.put("bob/1", "x").unwrap();
    let begin = || {
        let mut t = db.transaction().unwrap();
        assert_eq!(t.scan_prefix(&keyspace, "ada").unwrap().count(), 1);
        t.put(&keyspace, "bob/2", "x").unwrap();
        t
    };
    let t = begin();
    keyspace.put("ada/2", "x").unwrap();
    conflicts(t, "ada/2");
    keyspace.delete("ada/2").unwrap();
    let t = begin();
    keyspace.delete_prefix("ada").unwrap();
    assert_eq!(kind(t.commit()), ErrorKind::Conflict);
    keyspace.put("ada/1", "x").unwrap();
    let t = begin();
    keyspace.delete_prefix("bob").unwrap();
    keyspace.put("eve/1", "x").unwrap();
    t.commit().unwrap();
}

/// A scan depends on the part that it passed.
#[test]
fn only_what_was_read_of_a_range_is_checked() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let plain = plain_small(&db);
    for i in 1..100 {
        plain.put(key(i), value(i)).unwrap();
    }
    // A queue: one end is taken from while the other is put to.
    let mut t = db.transaction().unwrap();
    let (first, _) = t.first(&plain).unwrap().unwrap();
    t.delete(&plain, &first).unwrap();
    plain.put(key(100), value(100)).unwrap();
    plain.delete(key(2)).unwrap();
    t.commit().unwrap();
    let mut t = db.transaction().unwrap();
    let (last, _) = t.last(&plain).unwrap().unwrap();
    assert_eq!(last, key(100));
    t.delete(&plain, &last).unwrap();
    plain.delete(key(97)).unwrap();
    t.commit().unwrap();
    // A new last entry.
    let mut t = db.transaction().unwrap();
    t.last(&plain).unwrap();
    t.put(&plain, "a", "").unwrap();
    plain.put(key(101), value(101)).unwrap();
    conflicts(t, "key-000101");
    // A cursor in both directions.
    let moved = |change: u64| {
        let mut t = db.transaction().unwrap();
        let mut cursor = t.cursor(&plain).unwrap();
        assert!(cursor.seek(&key(50)).unwrap());
        for _ in 0..3 {
            cursor.next().unwrap();
        }
        for _ in 0..5 {
            cursor.prev().unwrap();
        }
        assert_eq!(cursor.key(), Some(&key(48)[..]));
        t.put(&plain, "a", "").unwrap();
        plain.put(key(change), "changed").unwrap();
        t.commit().is_err()
    };
    let changed: Vec<_> = (40..60).filter(|&i| moved(i)).collect();
    assert_eq!(changed, (48..=53).collect::<Vec<_>>());
}

#[test]
fn own_writes_and_blind_writes_do_not_conflict() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let plain = plain(&db);
    let mut t = db.transaction().unwrap();
    put(&mut t, &plain, "a", 1);
    assert_eq!(get(&mut t, &plain, "a"), 1);
    t.delete_range(&plain, "c".."e").unwrap();
    assert_eq!(t.get(&plain, "d").unwrap(), None);
    put(&mut t, &plain, "b", 1);
    for key in ["a", "b", "d"] {
        plain.put(key, "others").unwrap();
    }
    t.commit().unwrap();
    assert_eq!(contents(&plain).len(), 2);
    // But under snapshot isolation each write is checked, range deletes, too.
    for (ours, theirs) in [("a", "a"), ("c", "d")] {
        let mut t = db.transaction_with(snapshot_isolation()).unwrap();
        match ours {
            "a" => put(&mut t, &plain, "a", 2),
            _ => drop(t.delete_range(&plain, "c".."e").unwrap()),
        }
        plain.put(theirs, "others").unwrap();
        conflicts(t, theirs);
    }
}

#[test]
fn read_only_transactions_never_conflict() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let plain = plain(&db);
    plain.put("a", "1").unwrap();
    let mut t = db.transaction().unwrap();
    assert_eq!(t.scan_all(&plain).unwrap().count(), 1);
    plain.clear().unwrap();
    assert!(t.contains_key(&plain, "a").unwrap());
    t.commit().unwrap();
    db.close().unwrap();
    let db = builder(&disk).read_only(true).open().unwrap();
    let plain = db.existing_keyspace("plain").unwrap();
    let mut t = db.transaction().unwrap();
    assert_eq!(t.get(&plain, "a").unwrap(), None);
    t.commit().unwrap();
    let mut t = db.transaction().unwrap();
    t.put(&plain, "a", "1").unwrap();
    assert_eq!(kind(t.commit()), ErrorKind::Unsupported);
}

/// The operations of the disk in a transaction that only reads, or in a snapshot with the same
/// reads.
fn disk_operations_of_reads(by_transaction: bool) -> u64 {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let plain = plain_small(&db);
    for i in 0..1000 {
        plain.put(key(i), value(i)).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    let db = open(&disk);
    let plain = db.existing_keyspace("plain").unwrap();
    let number = || db.snapshot().unwrap().number();
    let before = (disk.operations(), number());
    let (scan, gets) = (key(300)..key(400), [key(1), key(500), key(2000)]);
    let count = match by_transaction {
        true => {
            let mut t = db.transaction().unwrap();
            for key in &gets {
                t.get(&plain, key).unwrap();
            }
            let count = t.scan(&plain, scan).unwrap().count();
            assert_eq!(db.stats().snapshots, 1);
            let read = disk.operations();
            t.commit().unwrap();
            assert_eq!(
                disk.operations(),
                read,
                "a commit without writes does nothing"
            );
            count
        }
        false => {
            let snapshot = db.snapshot().unwrap();
            for key in &gets {
                snapshot.get(&plain, key).unwrap();
            }
            snapshot.scan(&plain, scan).unwrap().count()
        }
    };
    assert_eq!(count, 100);
    assert_eq!((db.stats().snapshots, number()), (0, before.1));
    disk.operations() - before.0
}

#[test]
fn a_transaction_that_only_reads_costs_a_snapshot() {
    let by_snapshot = disk_operations_of_reads(false);
    assert!(by_snapshot > 0);
    assert_eq!(disk_operations_of_reads(true), by_snapshot);
}

#[test]
fn a_keyspace_cleared_before_is_written_to_as_it_is_now() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let plain = plain(&db);
    let mut t = db.transaction().unwrap();
    t.put(&plain, "a", "1").unwrap();
    plain.put("b", "2").unwrap();
    plain.clear().unwrap();
    t.commit().unwrap();
    assert_eq!(contents(&plain).len(), 1);
    let mut t = db.transaction().unwrap();
    t.put(&plain, "a", "1").unwrap();
    db.drop_keyspace("plain").unwrap();
    assert_eq!(kind(t.commit()), ErrorKind::Closed);
}

#[test]
fn transact_repeats_until_it_commits_and_no_longer() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let plain = plain(&db);
    let mut attempts = 0;
    let n = db.transact(|t| {
        attempts += 1;
        let n = get(t, &plain, "a");
        if attempts < 4 {
            plain.put("a", (10 * attempts as u64).to_be_bytes())?;
        }
        put(t, &plain, "a", n + 1);
        Ok::<_, Error>(n + 1)
    });
    assert_eq!((n.unwrap(), attempts), (31, 4));

    let mut attempts = 0;
    let options = TransactionOptions {
        attempts_max: 7,
        ..TransactionOptions::default()
    };
    let result = db.transact_with(options, |t| {
        attempts += 1;
        t.get(&plain, "a")?;
        plain.put("a", "again")?;
        t.put(&plain, "b", "").map(drop)
    });
    assert_eq!((kind(result), attempts), (ErrorKind::Conflict, 7));

    let result = db.transact(|t| {
        put(t, &plain, "c", 1);
        Err::<(), _>(Error::new(ErrorKind::Cancelled, "not now"))
    });
    assert_eq!(kind(result), ErrorKind::Cancelled);
    assert!(!plain.contains_key("c").unwrap());
}

#[test]
fn asynchronous_transactions_end() {
    for workers in 0..3 {
        let disk = SimStorage::new(1);
        for builder in [builder(&disk), threaded(&SimStorage::new(2))] {
            let db = builder.workers(workers).open().unwrap();
            let plain = plain(&db);
            let of_call = plain.clone();
            let put_first = plain.put_async("a", 1_u64.to_be_bytes());
            let sum = db.transact_async(move |t| {
                let n = number(t.get(&of_call, "a")?.as_deref());
                t.put(&of_call, "b", (n + 1).to_be_bytes())?;
                Ok(n)
            });
            assert_eq!(sum.wait().unwrap(), 1, "it sees the calls made before");
            put_first.wait().unwrap();
            let mut t = db.transaction().unwrap();
            get(&mut t, &plain, "b");
            put(&mut t, &plain, "c", 1);
            t.commit_async().wait().unwrap();
            let mut t = db.transaction().unwrap();
            get(&mut t, &plain, "b");
            put(&mut t, &plain, "c", 1);
            plain.put("b", "").unwrap();
            assert_eq!(kind(t.commit_async().wait()), ErrorKind::Conflict);
            let panics = db.transact_async(|_| -> Result<()> { panic!("on purpose") });
            assert_eq!(kind(panics.wait()), ErrorKind::Cancelled);
            // The call has the last handle.
            let begun = db.transact_async(move |t| t.put(&plain, "d", "").map(drop));
            drop(db);
            drop(begun.wait());
        }
    }
}

#[test]
fn a_barrier_waits_for_all_attempts_of_a_transaction() {
    let disk = SimStorage::new(1);
    let db = threaded(&disk).workers(2).open().unwrap();
    let plain = plain(&db);
    let (of_body, mut attempts) = (plain.clone(), 0);
    let sum = db.transact_async(move |t| {
        attempts += 1;
        t.get(&of_body, "a")?;
        if attempts < 5 {
            of_body.put("a", "again")?;
        }
        put(t, &of_body, "b", 1);
        Ok(attempts)
    });
    db.barrier().wait().unwrap();
    assert!(sum.is_ready());
    assert_eq!(sum.wait().unwrap(), 5);
}

#[test]
fn asynchronous_transactions_of_one_key_all_commit() {
    let disk = SimStorage::new(1);
    let db = threaded(&disk).workers(3).open().unwrap();
    let plain = plain(&db);
    let add = |_| {
        let of_body = plain.clone();
        db.transact_async(move |t| {
            let n = get(t, &of_body, "count");
            put(t, &of_body, "count", n + 1);
            Ok(())
        })
    };
    let calls: Vec<_> = (0..300).map(add).collect();
    for _ in 0..300 {
        db.transact(|t| {
            let n = get(t, &plain, "count");
            put(t, &plain, "count", n + 1);
            Ok::<_, Error>(())
        })
        .unwrap();
    }
    calls.into_iter().for_each(|call| call.wait().unwrap());
    assert_eq!(number(plain.get("count").unwrap().as_deref()), 600);
}

#[test]
fn a_transaction_out_of_memory_says_so() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let plain = plain(&db);
    let options = TransactionOptions {
        memory_bytes_max: 4 << 10,
        ..TransactionOptions::default()
    };
    let mut t = db.transaction_with(options).unwrap();
    let error = (0..200).find_map(|i| t.get(&plain, key(i)).err()).unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("at most 4096 bytes"), "{error}");
    for i in 0..200 {
        plain.put(key(i), "").unwrap();
    }
    let mut t = db.transaction_with(options).unwrap();
    let mut cursor = t.cursor(&plain).unwrap();
    let mut seeks = (0..200).step_by(2);
    let error = seeks.find_map(|i| cursor.seek(&key(i)).err()).unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("at most 4096 bytes"), "{error}");
}

/// Many keys are watched rather than compared.
#[test]
fn large_transactions_commit_beside_writers() {
    let disk = SimStorage::new(1);
    let db = threaded(&disk).open().unwrap();
    let plain = plain_small(&db);
    for i in 0..2000 {
        plain.put(key(i), value(i)).unwrap();
    }
    let rounds = AtomicU32::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..100_000 {
                plain.put(key(5000 + i % 3000), value(i)).unwrap();
                if rounds.load(Ordering::Relaxed) == 4 {
                    break;
                }
            }
        });
        for round in 0..4 {
            let mut attempts = 0;
            db.transact(|t| {
                attempts += 1;
                let keys: Vec<_> = (0..1500).map(key).collect();
                t.multi_get(&plain, &keys)?;
                assert_eq!(t.scan(&plain, ..key(2000))?.count(), 2000);
                t.put(&plain, key(round), "sum").map(drop)
            })
            .unwrap();
            rounds.fetch_add(1, Ordering::Relaxed);
            assert_eq!(attempts, 1, "nobody else writes what it has read");
        }
    });
    let mut t = db.transaction().unwrap();
    let keys: Vec<_> = (0..1500).map(key).collect();
    t.multi_get(&plain, &keys).unwrap();
    t.put(&plain, "z", "").unwrap();
    plain.put(key(1234), "").unwrap();
    conflicts(t, "key-001234");
}

/// Transfers between accounts in several keyspaces keep the sum, and every reader sees it.
#[test]
fn concurrent_transfers_keep_the_sum() {
    let disk = SimStorage::new(1);
    let db = threaded(&disk).open().unwrap();
    let layouts = [Layout::sorted().hash(2), Layout::hashed(), Layout::sorted()];
    let banks: Vec<_> = { layouts.into_iter().enumerate() }
        .map(|(i, layout)| {
            db.keyspace_with(&format!("bank-{i}"), layout, small())
                .unwrap()
        })
        .collect();
    for bank in &banks {
        for i in 0..4 {
            bank.put(key(i), 100_u64.to_be_bytes()).unwrap();
        }
    }
    let sum = |t: &mut Transaction| -> u64 {
        let all = banks.iter().flat_map(|bank| (0..4).map(move |i| (bank, i)));
        all.map(|(bank, i)| get(t, bank, key(i))).sum()
    };
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (db, banks) = (&db, &banks);
            scope.spawn(move || {
                for i in 0..150 {
                    let from = (&banks[(thread % 3) as usize], key((thread + i) % 4));
                    let to = (&banks[(i % 3) as usize], key((3 * thread + i * 7) % 4));
                    if from.0.name() == to.0.name() && from.1 == to.1 {
                        continue;
                    }
                    db.transact(|t| {
                        let have = get(t, from.0, &from.1);
                        let got = get(t, to.0, &to.1);
                        let amount = have.min(i % 9);
                        put(t, from.0, &from.1, have - amount);
                        put(t, to.0, &to.1, got + amount);
                        Ok::<_, Error>(())
                    })
                    .unwrap();
                    if i % 20 == 0 {
                        assert_eq!(sum(&mut db.transaction().unwrap()), 1200);
                    }
                }
            });
        }
    });
    assert_eq!(sum(&mut db.transaction().unwrap()), 1200);
}

#[test]
fn conditional_writes() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let plain = plain(&db);
    assert!(!plain.compare_and_swap("a", Some(b"1"), Some(b"2")).unwrap());
    assert!(plain.compare_and_swap("a", None, Some(b"1")).unwrap());
    assert_eq!(
        plain.put_if_absent("a", "9").unwrap().as_deref(),
        Some(&b"1"[..])
    );
    assert!(plain.compare_and_swap("a", Some(b"1"), Some(b"1")).unwrap());
    assert!(!plain.delete_if("a", |value| value == b"2").unwrap());
    assert!(plain.delete_if("a", |value| value == b"1").unwrap());
    assert!(!plain.delete_if("a", |_| true).unwrap());
    assert!(plain.compare_and_swap("a", None, None).unwrap());
    assert_eq!(plain.put_if_absent("a", "9").unwrap(), None);
    assert!(plain.compare_and_swap("a", Some(b"9"), None).unwrap());
    assert!(contents(&plain).is_empty());
    db.close().unwrap();
    assert_eq!(kind(plain.put_if_absent("a", "1")), ErrorKind::Closed);
}
