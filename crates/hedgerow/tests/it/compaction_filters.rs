//! Compaction filters: what they are asked about, and who sees what they decide.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hedgerow::io::sim::SimStorage;
use hedgerow::{
    CompactionFilter, Db, Expiry, FilterPass, FilteredMerge, Keyspace, Layout, PrefixRule,
    Snapshot, Verdict,
};

use crate::support::{contents, contents_unordered, key, open, plain_small};

/// A filter that decides by a function, and remembers what it was asked.
struct Asked<F> {
    decide: F,
    keys: Arc<Mutex<BTreeSet<Vec<u8>>>>,
    merges: Arc<Mutex<Vec<FilteredMerge>>>,
}

impl<F: Fn(&[u8], &[u8]) -> Verdict + Clone + Send + Sync + 'static> CompactionFilter for Asked<F> {
    fn prepare(&self, merge: &FilteredMerge) -> Box<dyn FilterPass> {
        self.merges.lock().unwrap().push(merge.clone());
        let (decide, keys) = (self.decide.clone(), self.keys.clone());
        Box::new(move |key: &[u8], value: &[u8]| {
            keys.lock().unwrap().insert(key.to_vec());
            decide(key, value)
        })
    }
}

type Keys = Arc<Mutex<BTreeSet<Vec<u8>>>>;

fn filter(
    keyspace: &Keyspace,
    decide: impl Fn(&[u8], &[u8]) -> Verdict + Clone + Send + Sync + 'static,
) -> Keys {
    let keys = Keys::default();
    keyspace.set_compaction_filter(Some(Arc::new(Asked {
        decide,
        keys: keys.clone(),
        merges: Arc::default(),
    })));
    keys
}

fn number(key: &[u8]) -> u64 {
    std::str::from_utf8(&key[4..]).unwrap().parse().unwrap()
}

fn filled(db: &Db) -> Keyspace {
    let keyspace = plain_small(db);
    for i in 0..1000 {
        keyspace.put(key(i), format!("value {i}")).unwrap();
    }
    keyspace
}

#[test]
fn values_are_kept_removed_and_replaced() {
    let db = open(&SimStorage::new(1));
    let keyspace = filled(&db);
    // The older versions do not come back.
    keyspace.compact::<&str>(..).unwrap();
    for i in 0..1000 {
        keyspace.put(key(i), format!("newer {i}")).unwrap();
    }
    let asked = filter(&keyspace, |key, value| match number(key) % 3 {
        0 => Verdict::Remove,
        1 => Verdict::Replace([value, b"!"].concat()),
        _ => Verdict::Keep,
    });
    keyspace.flush().unwrap();
    keyspace.compact::<&str>(..).unwrap();
    assert_eq!(asked.lock().unwrap().len(), 1000);
    let found = contents(&keyspace);
    for i in 0..1000_u64 {
        let found = found
            .get(&key(i))
            .map(|value| String::from_utf8(value.clone()).unwrap());
        match (i % 3, found) {
            (0, None) => {}
            // Asked by several merges.
            (1, Some(value)) => assert!(value.starts_with(&format!("newer {i}!")), "{value}"),
            (2, Some(value)) => assert_eq!(value, format!("newer {i}")),
            (_, other) => panic!("{i}: {other:?}"),
        }
    }
    keyspace.set_compaction_filter(None);
    keyspace.put(key(0), "again").unwrap();
    keyspace.compact::<&str>(..).unwrap();
    assert_eq!(keyspace.get(key(0)).unwrap().unwrap(), "again");
}

#[test]
fn a_filter_skips_to_a_key() {
    let db = open(&SimStorage::new(1));
    let keyspace = filled(&db);
    let asked = filter(&keyspace, |at, _| match number(at) {
        100 => Verdict::SkipTo(key(900)),
        950 => Verdict::SkipTo(key(3)),
        _ => Verdict::Keep,
    });
    keyspace.compact::<&str>(..).unwrap();
    let left: Vec<u64> = contents(&keyspace).keys().map(|key| number(key)).collect();
    let expected: Vec<u64> = (0..100).chain(900..950).chain(951..1000).collect();
    assert_eq!(left, expected);
    drop(asked);
}

/// Neighbours in the order of hashes are no neighbours by their keys.
#[test]
fn a_filter_that_skips_removes_one_key_where_keys_are_not_sorted() {
    for layout in [Layout::hashed(), Layout::semi_sorted(PrefixRule::Bytes(7))] {
        let db = open(&SimStorage::new(1));
        let keyspace = db
            .keyspace_with("unsorted", layout, crate::support::small())
            .unwrap();
        for i in 0..1000 {
            keyspace.put(key(i), "value").unwrap();
        }
        filter(&keyspace, |at, _| match number(at) {
            100 => Verdict::SkipTo(key(900)),
            _ => Verdict::Keep,
        });
        keyspace.compact::<&str>(..).unwrap();
        let left: BTreeSet<u64> = contents_unordered(&keyspace)
            .keys()
            .map(|key| number(key))
            .collect();
        assert_eq!(left, (0..1000).filter(|i| *i != 100).collect());
    }
}

#[test]
fn operands_deletes_and_expired_values_are_not_shown() {
    let db = open(&SimStorage::new(1));
    let layout = Layout::sorted().merge_operator("append");
    let keyspace = db
        .keyspace_with("words", layout, crate::support::small())
        .unwrap();
    keyspace.put("put", "1").unwrap();
    keyspace.delete("deleted").unwrap();
    keyspace
        .put_expiring("expired", "1", Expiry::In(Duration::ZERO))
        .unwrap();
    keyspace
        .put_expiring("expires", "1", Expiry::In(Duration::from_secs(9)))
        .unwrap();
    keyspace.merge("operand", "1").unwrap();
    let asked = filter(&keyspace, |_, value| {
        assert_eq!(value, b"1");
        Verdict::Replace(b"1".to_vec())
    });
    keyspace.compact::<&str>(..).unwrap();
    let asked: Vec<_> = asked.lock().unwrap().iter().cloned().collect();
    assert_eq!(asked, [&b"expires"[..], b"put"]);
    assert!(matches!(
        keyspace.expiry("expires").unwrap(),
        Some(Expiry::At(_))
    ));
}

#[test]
fn a_snapshot_sees_what_it_saw() {
    let db = open(&SimStorage::new(1));
    let keyspace = filled(&db);
    let before = db.snapshot().unwrap();
    let asked = filter(&keyspace, |_, _| Verdict::Remove);
    keyspace.put(key(0), "after the snapshot").unwrap();
    keyspace.compact::<&str>(..).unwrap();
    let seen = asked.lock().unwrap().clone();
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [key(0)]);
    assert_eq!(before.scan_all(&keyspace).unwrap().count(), 1000);
    assert_eq!(contents(&keyspace).len(), 999);
    drop(before);
    keyspace.compact::<&str>(..).unwrap();
    assert_eq!(contents(&keyspace).len(), 0);
}

/// A snapshot that is taken in the middle of a merge has a number above all entries. So the filter
/// is asked about what it sees, and must have no effect.
#[test]
fn a_snapshot_taken_during_a_merge_sees_what_it_saw() {
    let db = open(&SimStorage::new(1));
    let keyspace = filled(&db);
    keyspace.compact::<&str>(..).unwrap();
    let taken: Arc<Mutex<Option<Snapshot>>> = Arc::default();
    let (during, inside) = (taken.clone(), db.clone());
    filter(&keyspace, move |_, _| {
        let mut taken = during.lock().unwrap();
        taken.get_or_insert_with(|| inside.snapshot().unwrap());
        Verdict::Remove
    });
    keyspace.compact::<&str>(..).unwrap();
    let snapshot = taken.lock().unwrap().clone().unwrap();
    assert_eq!(snapshot.scan_all(&keyspace).unwrap().count(), 1000);
    assert_eq!(contents(&keyspace).len(), 1000);
    drop(snapshot);
    keyspace.set_compaction_filter(None);
    taken.lock().unwrap().take();
    filter(&keyspace, |_, _| Verdict::Remove);
    keyspace.compact::<&str>(..).unwrap();
    assert_eq!(contents(&keyspace).len(), 0);
}
