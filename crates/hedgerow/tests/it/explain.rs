//! An explanation is what a get did: it gives the same value, and names as many pages, reads and
//! filters as the statistics counted.

use hedgerow::explain::Explanation;
use hedgerow::io::sim::SimStorage;
use hedgerow::{Db, Design, EntryKind, Keyspace, Layout, PageClass, Residency};

use crate::support::{key, open, plain, small, value};

const KEYS: u64 = 400;

/// Several levels, tombstones, values out of line, and a memtable.
fn filled(db: &Db, residency: Residency) -> Keyspace {
    let design = Design {
        residency,
        ..small()
    };
    let keyspace = db
        .keyspace_with("filled", Layout::sorted().hash(2), design)
        .unwrap();
    for round in 0..3 {
        for i in (0..KEYS).filter(|i| i % 3 >= round) {
            match i % 50 {
                7 => keyspace.put(key(i), vec![i as u8; 3000]).unwrap(),
                9 => keyspace.delete(key(i)).unwrap(),
                _ => keyspace.put(key(i), value(i + round)).unwrap(),
            }
        }
        match round {
            0 => keyspace.compact::<&[u8]>(..).unwrap(),
            1 => keyspace.flush().unwrap(),
            _ => {}
        }
    }
    keyspace
}

/// Pages asked, reads, filters asked, false positives: as the statistics count them.
fn counted(db: &Db) -> [u64; 4] {
    let stats = db.stats();
    [
        stats.block_reads,
        stats.device_reads,
        stats.filter_probes,
        stats.filter_false_positives,
    ]
}

/// The same as an explanation tells them.
fn told(explanation: &Explanation) -> [u64; 4] {
    let told = [
        explanation.pages().count(),
        explanation.reads(),
        explanation.filter_probes(),
        explanation.filter_false_positives(),
    ];
    told.map(|n| n as u64)
}

#[test]
fn an_explanation_is_the_get_that_it_explains() {
    for residency in [Residency::Resident, Residency::Paged] {
        let disk = SimStorage::new(1);
        let db = open(&disk);
        let keyspace = filled(&db, residency);
        let mut cold = 0;
        for i in 0..KEYS + 100 {
            let before = counted(&db);
            let explanation = keyspace.explain(key(i)).unwrap();
            let after = counted(&db);
            let grown: [u64; 4] = std::array::from_fn(|at| after[at] - before[at]);
            assert_eq!(told(&explanation), grown, "{explanation:?}");
            cold += grown[1];

            let got = keyspace.get(key(i)).unwrap();
            assert_eq!(explanation.value.as_deref(), got.as_deref());
            let is_put = explanation
                .found()
                .is_some_and(|found| found.kind == EntryKind::Put);
            assert_eq!(is_put, got.is_some(), "{explanation:?}");
            for table in explanation.tables() {
                assert!(table.bounds.0 <= key(i) && key(i) <= table.bounds.1);
            }
        }
        assert!(cold > 0, "some pages were read");
        let paged = |explanation: &Explanation| {
            explanation
                .pages()
                .any(|page| matches!(page.class, PageClass::Filter | PageClass::Index))
        };
        let any = (0..KEYS).any(|i| paged(&keyspace.explain(key(i)).unwrap()));
        assert_eq!(any, residency == Residency::Paged);
    }
}

#[test]
fn the_newest_place_answers_and_nothing_below_it_is_asked() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let keyspace = plain(&db);
    keyspace.put("k", "old").unwrap();
    keyspace.flush().unwrap();
    let in_table = keyspace.explain("k").unwrap();
    assert!(in_table.memtables.iter().all(|asked| asked.found.is_none()));
    assert_eq!(in_table.found().unwrap().seqno, 1);
    let table = in_table.tables().last().unwrap();
    assert_eq!(table.found, in_table.found());
    assert_eq!(table.bounds, (b"k".to_vec(), b"k".to_vec()));

    keyspace.delete("k").unwrap();
    let in_memtable = keyspace.explain("k").unwrap();
    assert!(in_memtable.runs.is_empty());
    let found = in_memtable.found().unwrap();
    assert_eq!((found.seqno, found.kind), (2, EntryKind::Delete));
    assert_eq!(in_memtable.value, None);

    let nowhere = keyspace.explain("a").unwrap();
    assert_eq!(nowhere.found(), None);
    assert!(nowhere.runs.iter().all(|run| run.table.is_none()));
}

#[test]
fn a_table_is_opened_by_its_first_question() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    plain(&db).put("k", "v").unwrap();
    plain(&db).flush().unwrap();
    db.close().unwrap();
    let db = open(&disk);
    let keyspace = plain(&db);
    for (opened, cached) in [(true, false), (false, true)] {
        let explanation = keyspace.explain("k").unwrap();
        assert_eq!(explanation.tables().next().unwrap().opened, opened);
        assert_eq!(explanation.pages().next().unwrap().cached, cached);
    }
}
