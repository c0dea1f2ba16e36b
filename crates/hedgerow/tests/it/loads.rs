//! Values that expire and operands, on ways past the log: bulk loads, tables from outside, exports;
//! and scans of entries with all that a copy needs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use hedgerow::io::sim::SimStorage;
use hedgerow::{
    Compression, Db, Error, ErrorKind, Expiry, Keyspace, Layout, LoadOp, MergeError, MergeOperator,
    PrefixRule, StoredEntry, TableWriter,
};

use crate::expiry::{HOUR, Hours, timed};
use crate::support::{builder, contents, contents_unordered, key, kind, small};

fn at(hour: u32) -> Expiry {
    Expiry::At(SystemTime::UNIX_EPOCH + HOUR * hour)
}

/// Long enough that the entries are sorted on disk if their order is not that of the keys.
const PADDING: usize = 300;

fn text(i: u64) -> Vec<u8> {
    format!("loaded {i} {}", "x".repeat(PADDING)).into_bytes()
}

#[test]
fn a_load_has_values_that_expire_operands_and_deletes() {
    for layout in [
        Layout::sorted().hash(2),
        Layout::hashed(),
        Layout::semi_sorted(PrefixRule::Bytes(8)),
    ] {
        let (disk, clock) = (SimStorage::new(1), Hours::new());
        let db = timed(&disk, &clock).open().unwrap();
        let layout = layout.merge_operator("append");
        let words = db.keyspace_with("words", layout.clone(), small()).unwrap();
        words.set_time_to_live(Some(4 * HOUR)).unwrap();
        let old = |i: u64| format!("old {i} ").into_bytes();
        for i in 0..1000 {
            words.put_expiring(key(i), old(i), Expiry::Never).unwrap();
        }
        let ops = (0..4000).map(|i| {
            let op = match i % 5 {
                0 => LoadOp::Put(text(i)),
                1 => LoadOp::PutExpiring(text(i), Expiry::In(HOUR)),
                2 => LoadOp::PutExpiring(text(i), Expiry::Never),
                3 => LoadOp::Merge(text(i)),
                _ => LoadOp::Delete,
            };
            Ok::<_, Error>((key(i), op))
        });
        assert_eq!(words.bulk_load_ops(ops).unwrap().entries, 4000);
        let disk = disk.kill();
        drop((words, db));
        let db = timed(&disk, &clock).open().unwrap();
        let words = db.keyspace_with("words", layout.clone(), small()).unwrap();
        for (passed, gone) in [(0, &[4_u64][..]), (1, &[1, 4]), (3, &[0, 1, 4])] {
            clock.pass(passed);
            let expected: BTreeMap<_, _> = (0..4000)
                .filter(|i| !gone.contains(&(i % 5)))
                .map(|i| match i {
                    _ if i % 5 == 3 && i < 1000 => (key(i), [old(i), text(i)].concat()),
                    _ => (key(i), text(i)),
                })
                .collect();
            assert_eq!(contents_unordered(&words), expected, "{layout} {gone:?}");
        }
        db.verify().unwrap();
    }
}

#[test]
fn tables_from_outside_have_values_that_expire_and_operands() {
    let (disk, clock) = (SimStorage::new(1), Hours::new());
    let db = timed(&disk, &clock).open().unwrap();
    let layout = Layout::sorted().merge_operator("append");
    let words = db.keyspace_with("words", layout, small()).unwrap();
    words.put("b", "base").unwrap();
    let path = PathBuf::from("/db/outside.table");
    let mut table = TableWriter::create_on(&disk, &path, Compression::None).unwrap();
    table.put_expiring("a", "soon", at(500_001)).unwrap();
    table.merge("b", " and more").unwrap();
    table.put_expiring("c", "never", Expiry::Never).unwrap();
    table.finish().unwrap();
    words.ingest(std::slice::from_ref(&path)).unwrap();
    assert_eq!(words.get("b").unwrap().unwrap(), "base and more");
    assert_eq!(words.expiry("a").unwrap(), Some(at(500_001)));

    let exported = words.export::<&str>(.., "/db/exported").unwrap();
    let copy = db.keyspace_with("copy", Layout::sorted(), small()).unwrap();
    copy.ingest(&exported).unwrap();
    assert_eq!(contents(&copy), contents(&words));
    assert_eq!(copy.expiry("a").unwrap(), Some(at(500_001)));
    // An operand needs its operator.
    assert_eq!(kind(copy.ingest(&[path])), ErrorKind::Unsupported);
    let operand = [Ok::<_, Error>(("b", LoadOp::Merge("x")))];
    assert_eq!(kind(copy.bulk_load_ops(operand)), ErrorKind::Unsupported);
    clock.pass(1);
    for keyspace in [&words, &copy] {
        assert_eq!(keyspace.get("a").unwrap(), None);
        assert_eq!(contents(keyspace).len(), 2);
    }
}

/// Appends, but for operands that it does not like. It does not combine them by themselves.
struct Picky;

impl MergeOperator for Picky {
    fn name(&self) -> &'static str {
        "picky"
    }

    fn full(
        &self,
        _key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Option<Vec<u8>>, MergeError> {
        match operands.contains(&&b"spinach"[..]) {
            true => Err("no".into()),
            false => Ok(Some(
                [&[base.unwrap_or_default()], operands].concat().concat(),
            )),
        }
    }
}

fn entries(keyspace: &Keyspace) -> Vec<StoredEntry> {
    let all = keyspace.scan_unordered().unwrap().entries();
    let mut all: Vec<_> = all.map(Result::unwrap).collect();
    all.sort_by(|a, b| a.key.cmp(&b.key));
    all
}

fn shown(entry: &StoredEntry) -> String {
    let operands: Vec<_> = entry.operands.iter().map(|it| text_of(it)).collect();
    let value = entry.value.as_deref().map(text_of);
    let expires = entry.expiry != Expiry::Never;
    format!("{}: {value:?} {expires} {operands:?}", text_of(&entry.key))
}

fn text_of(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn a_scan_of_entries_shows_operands_that_cannot_be_combined() {
    for layout in [Layout::sorted(), Layout::hashed()] {
        let disk = SimStorage::new(1);
        let layout = layout.merge_operator("picky");
        let open = |db: &Db| db.keyspace_with("food", layout.clone(), small()).unwrap();
        let db = builder(&disk).merge_operator(Picky).open().unwrap();
        let food = open(&db);
        let soon = Expiry::In(Duration::from_secs(3600));
        food.put_expiring("a", "rice ", soon).unwrap();
        food.merge("a", "beans ").unwrap();
        food.flush().unwrap();
        food.merge("a", "salsa").unwrap();
        food.merge("b", "peas ").unwrap();
        food.merge("b", "spinach").unwrap();
        food.put("c", "bread").unwrap();
        // One of the keys fails by itself.
        let with: Vec<_> = entries(&food).iter().map(shown).collect();
        assert_eq!(
            with,
            [
                "a: Some(\"rice beans salsa\") true []",
                "b: None false [\"peas \", \"spinach\"]",
                "c: Some(\"bread\") false []",
            ]
        );
        db.close().unwrap();
        let db = builder(&disk).open().unwrap();
        let food = open(&db);
        let refused = food.scan_unordered().unwrap().next().unwrap();
        assert_eq!(kind(refused), ErrorKind::Unsupported);
        let without: Vec<_> = entries(&food).iter().map(shown).collect();
        assert_eq!(
            without,
            [
                "a: Some(\"rice \") true [\"beans \", \"salsa\"]",
                "b: None false [\"peas \", \"spinach\"]",
                "c: Some(\"bread\") false []",
            ]
        );
        if layout.order == hedgerow::KeyOrder::Sorted {
            let some: Vec<_> = food.scan("b"..).unwrap().entries().collect();
            assert_eq!(some.len(), 2);
            assert_eq!(
                kind(food.export::<&str>(.., "/db/exported")),
                ErrorKind::Unsupported
            );
        }
    }
}
