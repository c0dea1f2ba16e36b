//! Merge operators: what reads see of operands, what flushes and merges make of them, and what
//! happens when an operator is missing or fails.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hedgerow::io::sim::SimStorage;
use hedgerow::{
    Db, Durability, EntryKind, ErrorKind, Event, Keyspace, Layout, MemoryAnswer, MergeError,
    MergeOperator,
};

use crate::support::{builder, contents, key, kind, open, small};

/// A keyspace of this operator, with small tables.
fn keyspace(db: &Db, operator: &str) -> Keyspace {
    let layout = Layout::sorted().merge_operator(operator);
    db.keyspace_with(operator, layout, small()).unwrap()
}

fn number(n: i64) -> [u8; 8] {
    n.to_le_bytes()
}

/// The number of versions of a key that a get looks at, and whether the oldest one is a put.
fn versions(keyspace: &Keyspace, key: &[u8]) -> (usize, bool) {
    let explained = keyspace.explain(key).unwrap();
    let in_memtables = explained
        .memtables
        .iter()
        .filter_map(|it| it.found.as_ref());
    let in_tables = explained.tables().filter_map(|it| it.found.as_ref());
    let found = in_memtables.chain(in_tables).map(|it| (it.seqno, it.kind));
    let found: BTreeMap<_, _> = found.collect();
    let is_put = found
        .first_key_value()
        .is_some_and(|it| *it.1 == EntryKind::Put);
    (found.len(), is_put)
}

#[test]
fn operands_are_combined_wherever_they_are() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let words = keyspace(&db, "append");
    let mut expected = String::new();
    words.put("k", "a").unwrap();
    expected.push('a');
    for (i, letter) in ('b'..='z').enumerate() {
        words.merge("k", letter.to_string()).unwrap();
        expected.push(letter);
        match i % 5 {
            1 => words.flush().unwrap(),
            3 => words.compact::<&str>(..).unwrap(),
            _ => {}
        }
        assert_eq!(words.get("k").unwrap().unwrap(), expected);
        assert_eq!(
            words.multi_get(&["k"]).unwrap()[0].as_deref(),
            Some(expected.as_bytes())
        );
        assert_eq!(contents(&words)[&b"k"[..]], expected.as_bytes());
        assert!(words.contains_key("k").unwrap());
    }
    let db = {
        db.close().unwrap();
        open(&disk)
    };
    assert_eq!(keyspace(&db, "append").get("k").unwrap().unwrap(), expected);
}

#[test]
fn a_delete_ends_the_operands_before_it() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let sums = keyspace(&db, "add_i64");
    for flushed in [false, true] {
        for ranged in [false, true] {
            sums.merge("k", number(5)).unwrap();
            if flushed {
                sums.flush().unwrap();
            }
            match ranged {
                true => sums.delete_range("a".."z").unwrap(),
                false => sums.delete("k").unwrap(),
            }
            assert_eq!(sums.get("k").unwrap(), None);
            sums.merge("k", number(7)).unwrap();
            assert_eq!(sums.get("k").unwrap().unwrap(), number(7));
            sums.compact::<&str>(..).unwrap();
            assert_eq!(sums.get("k").unwrap().unwrap(), number(7));
        }
    }
}

#[test]
fn every_snapshot_keeps_its_sum() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let sums = keyspace(&db, "add_i64");
    let mut snapshots = Vec::new();
    for i in 1..=60_i64 {
        sums.merge("k", number(1)).unwrap();
        if i % 7 == 0 {
            snapshots.push((i, db.snapshot().unwrap()));
        }
        match i % 20 {
            11 => sums.flush().unwrap(),
            19 => sums.compact::<&str>(..).unwrap(),
            _ => {}
        }
    }
    let check = |snapshots: &[(i64, hedgerow::Snapshot)]| {
        for (sum, snapshot) in snapshots {
            assert_eq!(snapshot.get(&sums, "k").unwrap().unwrap(), number(*sum));
            let scanned: Vec<_> = snapshot
                .scan::<&str>(&sums, ..)
                .unwrap()
                .map(Result::unwrap)
                .collect();
            assert_eq!(scanned[0].1, number(*sum));
            let back = snapshot
                .scan::<&str>(&sums, ..)
                .unwrap()
                .next_back()
                .unwrap()
                .unwrap();
            assert_eq!(back.1, number(*sum));
        }
        assert_eq!(sums.get("k").unwrap().unwrap(), number(60));
    };
    check(&snapshots);
    // In turns, so that operands that covered others outlive them.
    while !snapshots.is_empty() {
        snapshots.remove(snapshots.len() / 2);
        sums.compact::<&str>(..).unwrap();
        check(&snapshots);
    }
    assert_eq!(
        versions(&sums, b"k"),
        (1, true),
        "at the bottom without snapshots: a put"
    );
}

#[test]
fn a_counter_is_one_version_in_a_memtable() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let sums = keyspace(&db, "add_i64");
    for _ in 0..30 {
        sums.merge("k", number(1)).unwrap();
    }
    assert_eq!(
        versions(&sums, b"k").0,
        1,
        "operands cover those before them"
    );
    sums.put("k", number(100)).unwrap();
    for _ in 0..30 {
        sums.merge("k", number(1)).unwrap();
    }
    assert_eq!(
        versions(&sums, b"k"),
        (1, true),
        "operands over a put are puts"
    );
    assert_eq!(
        sums.get_if_cached("k").unwrap(),
        MemoryAnswer::Value(number(130)[..].into())
    );
    sums.flush().unwrap();
    assert_eq!(sums.get("k").unwrap().unwrap(), number(130));
}

/// Deletes the key with an empty operand, fails on `!`, panics on `?`. Does not pair operands.
struct Moody;

impl MergeOperator for Moody {
    fn name(&self) -> &str {
        "moody"
    }

    fn check(&self, operand: &[u8]) -> Result<(), MergeError> {
        match operand {
            b"never" => Err("expected another word".into()),
            _ => Ok(()),
        }
    }

    fn full(
        &self,
        _key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Option<Vec<u8>>, MergeError> {
        let mut value = base.map(<[u8]>::to_vec);
        for operand in operands {
            value = match *operand {
                b"" => None,
                b"!" => return Err("it is a bad day".into()),
                b"?" => panic!("it is a worse day"),
                other => Some([value.unwrap_or_default().as_slice(), other].concat()),
            };
        }
        Ok(value)
    }
}

#[test]
fn an_operator_may_delete() {
    let disk = SimStorage::new(1);
    let db = builder(&disk).merge_operator(Moody).open().unwrap();
    let words = keyspace(&db, "moody");
    words.put("k", "a").unwrap();
    words.put("l", "a").unwrap();
    words.merge("k", "").unwrap();
    for _ in 0..3 {
        assert_eq!(words.get("k").unwrap(), None);
        assert!(!words.contains_key("k").unwrap());
        assert_eq!(words.multi_get(&["k", "l"]).unwrap()[0], None);
        assert_eq!(contents(&words).len(), 1);
        assert_eq!(words.first().unwrap().unwrap().0, "l");
        words.flush().unwrap();
        words.compact::<&str>(..).unwrap();
    }
    words.merge("k", "b").unwrap();
    assert_eq!(words.get("k").unwrap().unwrap(), "b");
}

#[test]
fn an_operator_that_fails_or_panics_loses_nothing() {
    for bad in ["!", "?"] {
        let disk = SimStorage::new(1);
        let told = Arc::new(AtomicBool::new(false));
        let heard = told.clone();
        let listener = move |event: &Event| {
            if let Event::BackgroundError { error, .. } = event {
                assert_eq!(error.kind(), ErrorKind::Operator);
                heard.store(true, Ordering::Relaxed);
            }
        };
        let db = builder(&disk)
            .merge_operator(Moody)
            .listener(listener)
            .open()
            .unwrap();
        let words = keyspace(&db, "moody");
        words.put("k", "a").unwrap();
        words.put("l", "b").unwrap();
        for operand in ["b", bad, "c"] {
            words.merge("k", operand).unwrap();
        }
        for _ in 0..2 {
            assert_eq!(kind(words.get("k")), ErrorKind::Operator);
            assert_eq!(kind(words.multi_get(&["k"])), ErrorKind::Operator);
            assert!(words.scan::<&str>(..).unwrap().next().unwrap().is_err());
            assert_eq!(words.get("l").unwrap().unwrap(), "b");
            words.compact::<&str>(..).unwrap();
        }
        assert!(told.load(Ordering::Relaxed));
        db.close().unwrap();

        /// An operator that does what `moody` should have done.
        struct Kind;
        impl MergeOperator for Kind {
            fn name(&self) -> &str {
                "moody"
            }
            fn full(
                &self,
                _key: &[u8],
                base: Option<&[u8]>,
                operands: &[&[u8]],
            ) -> Result<Option<Vec<u8>>, MergeError> {
                Ok(Some(
                    [base.unwrap_or_default(), &operands.concat()].concat(),
                ))
            }
        }
        let db = builder(&disk).merge_operator(Kind).open().unwrap();
        let words = keyspace(&db, "moody");
        assert_eq!(words.get("k").unwrap().unwrap(), format!("ab{bad}c"));
    }
}

#[test]
fn refused_operands_and_keyspaces_without_an_operator_are_told() {
    let disk = SimStorage::new(1);
    let db = builder(&disk).merge_operator(Moody).open().unwrap();
    let words = keyspace(&db, "moody");
    let refused = words.merge("k", "never").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.to_string().contains("expected another word"));
    let sums = keyspace(&db, "add_i64");
    assert_eq!(kind(sums.merge("k", "12")), ErrorKind::InvalidArgument);
    let mut batch = db.batch();
    assert_eq!(
        kind(batch.merge(&sums, "k", "12").map(drop)),
        ErrorKind::InvalidArgument
    );
    assert_eq!(
        kind(sums.merge_async("k", "12", Durability::Buffered).wait()),
        ErrorKind::InvalidArgument
    );
    assert!(batch.is_empty());
    let plain = db.keyspace("plain", Layout::sorted()).unwrap();
    assert_eq!(kind(plain.merge("k", "v")), ErrorKind::Unsupported);
    assert_eq!(sums.get("k").unwrap(), None);
}

#[test]
fn the_name_of_the_operator_stays_with_the_keyspace() {
    let disk = SimStorage::new(1);
    {
        let db = builder(&disk).merge_operator(Moody).open().unwrap();
        let words = keyspace(&db, "moody");
        words.put("k", "a").unwrap();
        words.put("l", "b").unwrap();
        words.merge("k", "b").unwrap();
        // Without a name it opens; another name is refused.
        db.keyspace("moody", Layout::sorted())
            .unwrap()
            .merge("k", "c")
            .unwrap();
        let other = db.keyspace("moody", Layout::sorted().merge_operator("append"));
        let message = other.unwrap_err().to_string();
        assert!(
            message.contains("merge:append") && message.contains("merge:moody"),
            "{message}"
        );
        let long = Layout::sorted().merge_operator("x".repeat(256));
        assert_eq!(kind(db.keyspace("long", long)), ErrorKind::InvalidArgument);
        db.close().unwrap();
    }
    {
        // A program without the operator reads all other keys, and changes no operand.
        let db = open(&disk);
        let words = db.existing_keyspace("moody").unwrap();
        assert_eq!(words.layout().merge_operator.as_deref(), Some("moody"));
        let error = words.get("k").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        for word in ["`moody`", "but `add_f64`, ", "`append`"] {
            assert!(error.to_string().contains(word), "{error}");
        }
        assert_eq!(kind(words.merge("k", "d")), ErrorKind::Unsupported);
        assert_eq!(words.get("l").unwrap().unwrap(), "b");
        words.compact::<&str>(..).unwrap();
        db.close().unwrap();
    }
    let db = builder(&disk).merge_operator(Moody).open().unwrap();
    assert_eq!(keyspace(&db, "moody").get("k").unwrap().unwrap(), "abc");
}

#[test]
fn a_keyspace_without_an_operator_can_get_one() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let before = db.keyspace("words", Layout::sorted()).unwrap();
    before.put("k", "a").unwrap();
    let after = db
        .keyspace("words", Layout::sorted().merge_operator("append"))
        .unwrap();
    before.merge("k", "b").unwrap();
    assert_eq!(after.get("k").unwrap().unwrap(), "ab");
    db.close().unwrap();
    let db = builder(&disk).open().unwrap();
    let words = db.existing_keyspace("words").unwrap();
    assert_eq!(words.layout().merge_operator.as_deref(), Some("append"));
    assert_eq!(words.get("k").unwrap().unwrap(), "ab");
    // A clear and a new name change nothing of it.
    words.clear().unwrap();
    db.rename_keyspace("words", "more words").unwrap();
    db.close().unwrap();
    let db = open(&disk);
    let words = db.existing_keyspace("more words").unwrap();
    words.merge("k", "c").unwrap();
    assert_eq!(words.get("k").unwrap().unwrap(), "c");
}

#[test]
fn a_get_that_meets_many_operands_has_them_merged_down() {
    let disk = SimStorage::new(1);
    let db = builder(&disk).merge_operator(Moody).open().unwrap();
    let words = keyspace(&db, "moody");
    for i in 0..3000 {
        words.put(key(i), "x".repeat(40)).unwrap();
    }
    words.flush().unwrap();
    words.wait_until_merged().unwrap();
    let mut expected = b"x".repeat(40);
    for i in 0..40 {
        words.merge(key(7), format!("{i},")).unwrap();
        expected.extend(format!("{i},").bytes());
    }
    words.flush().unwrap();
    words.wait_until_merged().unwrap();
    assert!(versions(&words, &key(7)).0 > 16, "the operator pairs none");
    assert_eq!(words.get(key(7)).unwrap().unwrap(), expected);
    words.wait_until_merged().unwrap();
    assert_eq!(versions(&words, &key(7)), (1, true));
    assert_eq!(words.get(key(7)).unwrap().unwrap(), expected);
}

/// Postings of a text index: batches of 64 changes over 10,000 terms, with the memory of a small
/// machine. What is written to the log and to tables is a few times the operands.
#[test]
fn postings_are_written_a_few_times() {
    let disk = SimStorage::new(1);
    let db = Db::builder(crate::support::DIR)
        .environment(hedgerow::io::Environment::simulated(&disk, 7))
        .memory_budget(64 << 20)
        .open()
        .unwrap();
    let layout = Layout::sorted().merge_operator("append");
    let terms = db.keyspace("terms", layout).unwrap();
    let batches = 20_000_u64;
    let mut random = 7_u64;
    for document in 0..batches {
        let mut batch = db.batch();
        for _ in 0..64 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let term = key((random >> 33) % 10_000);
            batch.merge(&terms, term, document.to_be_bytes()).unwrap();
        }
        batch.commit(Durability::Buffered).unwrap();
    }
    db.flush().unwrap();
    terms.wait_until_merged().unwrap();
    let stats = db.stats();
    let operands = (batches * 64 * (10 + 8)) as f64;
    let tables = (stats.flush_bytes + stats.merge_write_bytes) as f64;
    let log = stats.log_bytes as f64;
    println!(
        "log {:.2}, tables {:.2} times keys and operands",
        log / operands,
        tables / operands
    );
    assert!(log + tables <= 4.0 * operands);
    let length: usize = contents(&terms).values().map(Vec::len).sum();
    assert_eq!(length as u64, batches * 64 * 8);
}
