use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::base::entry::{PartitionId, SeqNo};
use crate::design::merge_policy::text::parse_table;
use crate::design::merge_policy::tree_edit::TreeEdit;

fn table(id: u64, lo: u64, hi: u64) -> TableMeta {
    parse_table(&format!("#{id}[{lo:08}-{hi:08}]@1M")).unwrap()
}

const BOTTOM: Placement = Placement {
    level: 6,
    group: 0,
    run: RunId(0),
};

/// A merge that touches few tables of a large run looks at few of them. `make` counts them, and the
/// time is small enough to notice a quadratic algorithm.
#[test]
fn edits_of_a_large_run_cost_little() {
    const TABLES: u64 = 20_000;
    let mut shape: Shape<Arc<TableMeta>> = Shape::new(7);
    let mut edit = TreeEdit::new(PartitionId(0));
    // An order that differs from key order.
    edit.added = (0..TABLES)
        .map(|i| (i * 7919) % TABLES)
        .map(|i| (BOTTOM, table(i + 1, 10 * i, 10 * i + 9)))
        .collect();
    shape.apply(&edit, |meta| Arc::new(meta.clone())).unwrap();
    shape.check().unwrap();
    for round in 0..2000 {
        let at = (round * 7) % (TABLES - 3);
        let lo = shape.levels[6].groups[0].runs[0].tables[at as usize].clone();
        let hi = shape.levels[6].groups[0].runs[0].tables[at as usize + 1].clone();
        let mut edit = TreeEdit::new(PartitionId(0));
        edit.removed = vec![hi.id, lo.id];
        for i in 0..2 {
            let mut meta = TableMeta::clone(if i == 0 { &lo } else { &hi });
            meta.id = TableId(TABLES + 1 + 2 * round + i);
            edit.added.push((BOTTOM, meta));
        }
        let mut made = 0;
        shape
            .apply(&edit, |meta| {
                made += 1;
                Arc::new(meta.clone())
            })
            .unwrap();
        assert_eq!(made, 2);
    }
    shape.check().unwrap();
    assert_eq!(shape.tables().count(), TABLES as usize);
}

/// A table that counts its copies.
#[derive(Debug)]
struct Counted(TableMeta, Arc<AtomicU64>);

impl Clone for Counted {
    fn clone(&self) -> Counted {
        self.1.fetch_add(1, Ordering::Relaxed);
        Counted(self.0.clone(), self.1.clone())
    }
}

impl Facts for Counted {
    type Filters = ();

    fn meta(&self) -> &TableMeta {
        &self.0
    }
}

/// An edited tree shares its unchanged parts with the tree before, which stays as it was.
#[test]
fn an_edit_copies_what_it_changes() {
    const GROUPS: u64 = 256;
    const TABLES: u64 = 16 * GROUPS;
    let copies = Arc::new(AtomicU64::new(0));
    let make = |meta: &TableMeta| Counted(meta.clone(), copies.clone());
    let of_group = |id: u64, group: u64| {
        let mut meta = table(id, 0, 0);
        let key = (group << 56).to_be_bytes().to_vec();
        (meta.smallest_key, meta.largest_key) = (key.clone(), key);
        let (group, run) = (group as u32, RunId(id));
        let level = 1;
        (Placement { level, group, run }, meta)
    };
    let mut before: Shape<Counted> = Shape::with_ranges(&[1, GROUPS as u32]);
    let mut edit = TreeEdit::new(PartitionId(0));
    edit.added = (1..=TABLES).map(|id| of_group(id, id % GROUPS)).collect();
    before.apply(&edit, make).unwrap();

    copies.store(0, Ordering::Relaxed);
    let mut after = before.clone();
    assert_eq!(copies.load(Ordering::Relaxed), 0);
    let mut edit = TreeEdit::new(PartitionId(0));
    edit.removed = vec![TableId(7)];
    edit.added = vec![of_group(TABLES + 1, 9)];
    after.apply(&edit, make).unwrap();
    // Two groups, two chunks of numbers, and the tables of the edit.
    let copied = copies.load(Ordering::Relaxed);
    assert!(copied <= 2 * 16 + 2 * 64 + 4, "{copied} of {TABLES}");

    let groups = |shape: &Shape<Counted>| shape.levels[1].groups.clone();
    let pairs = groups(&before).into_iter().zip(groups(&after));
    let other = pairs.enumerate().filter(|(_, (a, b))| !Arc::ptr_eq(a, b));
    assert_eq!(other.map(|(at, _)| at).collect::<Vec<_>>(), [7, 9]);
    for (shape, seven, new) in [(&before, true, false), (&after, false, true)] {
        shape.check().unwrap();
        assert_eq!(shape.tables().count(), TABLES as usize);
        assert_eq!(shape.table(TableId(7)).is_some(), seven);
        assert_eq!(shape.table(TableId(TABLES + 1)).is_some(), new);
    }
}

#[test]
fn lookups_find_the_one_table_that_may_hold_a_key() {
    let mut shape: Shape<Arc<TableMeta>> = Shape::new(7);
    let mut edit = TreeEdit::new(PartitionId(0));
    edit.added = (0..100)
        .map(|i| (BOTTOM, table(i + 1, 10 * i, 10 * i + 5)))
        .collect();
    shape.apply(&edit, |meta| Arc::new(meta.clone())).unwrap();
    let run = &shape.levels[6].groups[0].runs[0];
    let key = |key: u64| format!("{key:08}").into_bytes();
    let ids = |tables: &[Arc<TableMeta>]| tables.iter().map(|it| it.id.0).collect::<Vec<_>>();
    for i in 0..100 {
        for offset in [0, 3, 5] {
            let found = run.place_for(&key(10 * i + offset));
            assert_eq!(found.map(|at| run.tables[at].id.0), Some(i + 1));
        }
        assert!(run.place_for(&key(10 * i + 6)).is_none());
        assert!(run.place_for(&key(10 * i + 9)).is_none());
    }
    assert_eq!(ids(run.overlapping(&key(15), &key(20))), [2, 3]);
    assert_eq!(ids(run.overlapping(&key(16), &key(19))), [0; 0]);
    assert_eq!(ids(run.overlapping(&key(0), &key(3))), [1]);
    assert_eq!(ids(run.overlapping(&key(996), &key(2000))), [0; 0]);
    assert_eq!(run.overlapping(b"", b"99999999").len(), 100);
}

#[test]
fn a_group_holds_at_most_64_runs() {
    let mut shape: Shape<Arc<TableMeta>> = Shape::new(1);
    for run in 0..65 {
        let mut edit = TreeEdit::new(PartitionId(0));
        let to = Placement {
            level: 0,
            group: 0,
            run: RunId(run),
        };
        edit.added = vec![(to, table(run + 1, 0, 9))];
        let result = shape.apply(&edit, |meta| Arc::new(meta.clone()));
        assert_eq!(result.is_ok(), run < 64, "{result:?}");
    }
}

#[test]
fn what_is_older_is_seen_below_an_output_and_nowhere_else() {
    let shape = crate::design::merge_policy::text::parse_shape(
        "L0: #9[a-z]@1M #8[a-c]@1M #7[d-f]@1M\nL2: #1[a-b]@1M",
    )
    .unwrap();
    let asks = |level, run, key: &str, inputs: &[u64]| {
        shape.older_may_hold(level, run, key.as_bytes(), |id| inputs.contains(&id.0))
    };
    // Into level 0 as run 9: runs 8 and 7 are older, so is level 2.
    assert!(asks(0, Some(RunId(9)), "c", &[9]));
    assert!(!asks(0, Some(RunId(9)), "c", &[9, 8]));
    assert!(asks(0, Some(RunId(9)), "e", &[9, 8]));
    assert!(asks(0, Some(RunId(9)), "a", &[9, 8, 7]));
    assert!(!asks(0, Some(RunId(9)), "x", &[9]));
    // Into level 2: nothing is below.
    assert!(!asks(2, Some(RunId(0)), "a", &[9, 1]));
    // As a new run of level 2, what is there is older.
    assert!(asks(2, None, "a", &[9]));
    assert_eq!(shape.summary(1, 1).levels[0].runs, 3);
    assert_eq!(shape.table(TableId(1)).unwrap().1.largest_seqno, SeqNo(1));
}

/// The bound also holds for a tree that was retuned from trie to trie and reached none of them.
#[test]
fn a_tree_has_no_more_groups_than_tries_need() {
    let of_level = |level| {
        let ranges = (4..=16_u32).filter_map(|fan_out| fan_out.checked_pow(level));
        ranges.filter(|ranges| *ranges <= RANGES_MAX).max()
    };
    let most: u32 = (0..=8).filter_map(of_level).sum();
    assert_eq!(of_level(9), None);
    assert!(most < GROUPS_MAX, "{most}");

    let mut shape: Shape<Arc<TableMeta>> = Shape::new(6);
    let mut cut = |level, ranges| {
        let mut edit = TreeEdit::new(PartitionId(0));
        edit.ranges = vec![(level, ranges)];
        shape.apply(&edit, |meta| Arc::new(meta.clone()))
    };
    for level in [1, 2, 3, 3] {
        cut(level, RANGES_MAX).unwrap();
    }
    cut(4, RANGES_MAX / 2).unwrap();
    let error = cut(5, RANGES_MAX).unwrap_err().to_string();
    let expected = "expected at most 262144 groups in the levels of a tree, found 294913";
    assert!(error.contains(expected), "{error}");
}

/// Levels were as large as memtables, not as what memtables become: so values that compress were
/// merged more often than others.
#[test]
fn a_memtable_counts_as_the_tables_that_it_becomes() {
    let mut shape: Shape<Arc<TableMeta>> = Shape::new(7);
    let mut memtable_with = |meta: Option<TableMeta>| {
        let mut edit = TreeEdit::new(PartitionId(0));
        edit.added.extend(meta.map(|meta| (BOTTOM, meta)));
        shape.apply(&edit, |meta| Arc::new(meta.clone())).unwrap();
        shape.summary(64 << 20, 1 << 20).memtable_bytes
    };
    assert_eq!(memtable_with(None), 64 << 20);
    let mut shrunk = table(1, 0, 9);
    shrunk.raw_bytes = 8 * shrunk.file_bytes;
    assert_eq!(memtable_with(Some(shrunk)), 8 << 20);
    // Filters and indexes of tiny entries take more than the entries.
    let mut grown = table(2, 10, 19);
    grown.file_bytes = 16 * grown.raw_bytes;
    assert_eq!(memtable_with(Some(grown)), 64 << 20);
}
