use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::base::entry::PartitionId;
use crate::base::page::TableId;
use crate::base::table_meta::TableMeta;
use crate::design::merge_policy::shape::Shape;
use crate::design::merge_policy::text::parse_table;
use crate::design::merge_policy::tree_edit::{Placement, TreeEdit};

const PLACE: Placement = Placement {
    level: 0,
    group: 0,
    run: RunId(1),
};

/// Zeros and ones behind a common start: heads are often equal, keys end within them, and the
/// common beginning changes while tables come and go.
fn key(starts: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let start = prop::sample::select(starts);
    (start, prop::collection::vec(0..2_u8, 0..12))
        .prop_map(|(start, rest)| [start.as_bytes(), &rest[..]].concat())
}

type Keys = Vec<Vec<u8>>;

fn keys() -> impl Strategy<Value = (Keys, Keys)> {
    let of = |starts| {
        let ends = prop::collection::btree_set(key(starts), 2..60);
        let ends = ends.prop_map(|ends| ends.into_iter().collect());
        (ends, prop::collection::vec(key(starts), 200))
    };
    prop_oneof![
        of(&[""]),
        of(&["user:0000000:"]),
        of(&["", "user:", "user:0000000:", "user:0000000:0000000"]),
    ]
}

fn in_turn(tables: &[Arc<TableMeta>], key: &[u8]) -> (usize, Option<usize>) {
    let before = |it: &&Arc<TableMeta>| *it.largest_key < *key;
    let at = tables.iter().take_while(before).count();
    let holds = |it: &&Arc<TableMeta>| *it.smallest_key <= *key;
    (at, tables.get(at).filter(holds).map(|_| at))
}

proptest! {
    #[test]
    fn searches_of_heads_find_what_looking_at_each_table_finds(
        (ends, mut asked) in keys(),
        toggles in prop::collection::vec(prop::collection::vec(any::<bool>(), 30), 8),
    ) {
        let model = parse_table("#1[a-b]@1M").unwrap();
        let table = |(i, ends): (usize, &[Vec<u8>])| TableMeta {
            id: TableId(i as u64),
            smallest_key: ends[0].clone(),
            largest_key: ends[1].clone(),
            ..model.clone()
        };
        let tables: Vec<TableMeta> = ends.chunks_exact(2).enumerate().map(table).collect();
        asked.extend(ends);
        let mut shape: Shape<Arc<TableMeta>> = Shape::new(1);
        let mut there = [false; 30];
        for toggles in toggles {
            let mut edit = TreeEdit::new(PartitionId(0));
            for (i, table) in tables.iter().enumerate().filter(|(i, _)| toggles[*i]) {
                match there[i] {
                    true => edit.removed.push(table.id),
                    false => edit.added.push((PLACE, table.clone())),
                }
                there[i] = !there[i];
            }
            shape.apply(&edit, |meta| Arc::new(meta.clone())).unwrap();
            for run in &shape.levels[0].groups[0].runs {
                for key in &asked {
                    let found = (run.first_ending_at_or_after(key), run.place_for(key));
                    prop_assert_eq!(found, in_turn(&run.tables, key), "key {:?}", key);
                }
            }
        }
    }
}

/// A manifest may say anything: tables out of order are an error, not a panic.
#[test]
fn tables_out_of_order_are_refused() {
    for (first, second) in [(["xyza", "z"], ["xyzb", "xyzc"]), (["b", "a"], ["c", "d"])] {
        let table = |id, [smallest, largest]: [&str; 2]| TableMeta {
            id: TableId(id),
            smallest_key: smallest.into(),
            largest_key: largest.into(),
            ..parse_table("#1[a-b]@1M").unwrap()
        };
        let mut edit = TreeEdit::new(PartitionId(0));
        edit.added = vec![(PLACE, table(1, first)), (PLACE, table(2, second))];
        let mut shape: Shape<Arc<TableMeta>> = Shape::new(1);
        assert!(shape.apply(&edit, |meta| Arc::new(meta.clone())).is_err());
    }
}
