use proptest::prelude::*;

use super::super::edit_encoding::tests::{any_design, any_edit, any_layout};
use super::super::edit_encoding::{decode_edit, encode_edit};
use super::super::manifest;
use super::*;
use crate::base::entry::RunId;
use crate::base::error::ErrorKind;
use crate::base::options::{Design, Layout};
use crate::base::stats::Operations;
use crate::design::merge_policy::tree_edit::Placement;

pub(super) fn meta(id: u64, keyspace: u32, partition: u32, keys: (&str, &str)) -> TableMeta {
    let keys = (keys.0.into(), keys.1.into());
    TableMeta {
        keyspace,
        partition,
        run: 1,
        smallest_seqno: SeqNo(1),
        largest_seqno: SeqNo(10),
        ..TableMeta::modelled(id, keys, 4096, 10)
    }
}

/// A step of a history; its numbers choose among the present items.
#[derive(Debug, Clone)]
enum Step {
    Create(Layout, Design, u8),
    Drop(usize),
    Clear(usize),
    Design(usize, Design),
    /// The tree, the tables to remove, the tables to move, the number of tables to add.
    Tree(usize, usize, usize, u8),
    Drain(usize, u8, bool),
    Close(bool),
    Operations(usize, [u64; 8]),
    SelfTuning(usize, bool),
    Rename(usize, u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    let layout = prop_oneof![
        Just(Layout::sorted()),
        (1u16..4).prop_map(|n| Layout::sorted().hash(n)),
        any_layout(),
    ];
    prop_oneof![
        2 => (layout, any_design(), 1u8..8).prop_map(|(l, d, n)| Step::Create(l, d, n)),
        1 => any::<usize>().prop_map(Step::Drop),
        1 => any::<usize>().prop_map(Step::Clear),
        1 => (any::<usize>(), any_design()).prop_map(|(k, d)| Step::Design(k, d)),
        9 => any::<(usize, usize, usize)>()
            .prop_flat_map(|(t, r, m)| (0u8..4).prop_map(move |a| Step::Tree(t, r, m, a))),
        2 => any::<(usize, u8, bool)>().prop_map(|(t, l, on)| Step::Drain(t, l, on)),
        1 => any::<bool>().prop_map(Step::Close),
        1 => any::<(usize, bool)>().prop_map(|(k, on)| Step::SelfTuning(k, on)),
        1 => any::<(usize, u64)>().prop_map(|(k, it)| Step::Rename(k, it)),
        1 => any::<(usize, [u64; 8])>().prop_map(|(k, it)| Step::Operations(k, it)),
    ]
}

fn pick<K: Copy, V>(map: &BTreeMap<K, V>, choice: usize) -> Option<K> {
    map.keys().copied().nth(choice % map.len().max(1))
}

/// A change that fits the state.
fn change_for(state: &State, step: &Step) -> Option<Change> {
    let new_partitions = |layout: &Layout| {
        (0..layout.partitioning.count() as u32)
            .map(|i| PartitionId(state.next_partition + i))
            .collect()
    };
    let of_keyspace = |choice, change| {
        let id = pick(&state.keyspaces, choice)?;
        Some(Change::Keyspace(id, change))
    };
    Some(match step {
        Step::Create(layout, design, depth) => KeyspaceDescription::new(
            format!("k{}", state.next_keyspace),
            (layout.clone(), design.clone()),
            7,
            new_partitions(layout),
            *depth,
        )
        .creation(KeyspaceId(state.next_keyspace)),
        Step::Drop(choice) => of_keyspace(*choice, KeyspaceChange::Drop)?,
        Step::Clear(choice) => {
            let id = pick(&state.keyspaces, *choice)?;
            let partitions = new_partitions(&state.keyspaces[&id].layout);
            Change::Keyspace(id, KeyspaceChange::ReplacePartitions(partitions))
        }
        Step::Design(choice, design) => {
            of_keyspace(*choice, KeyspaceChange::SetDesign(design.clone()))?
        }
        Step::Tree(choice, remove, shift, add) => {
            let partition = pick(&state.trees, *choice)?;
            let tree = &state.trees[&partition];
            let mut edit = TreeEdit::new(partition);
            edit.removed = pick(&tree.tables, *remove).into_iter().collect();
            let moved = pick(&tree.tables, *shift).filter(|id| !edit.removed.contains(id));
            let placement = Placement {
                level: *remove as u8,
                group: *shift as u32,
                run: RunId(*choice as u64),
            };
            edit.moved = moved.into_iter().map(|id| (id, placement)).collect();
            for i in 0..u64::from(*add) {
                let id = state.next_table + i;
                edit.added.push((
                    placement,
                    meta(id, tree.keyspace.0, partition.0, ("a", "b")),
                ));
            }
            edit.flushed_through = (*add > 1).then_some(SeqNo(*remove as u64));
            edit.depth = (*add > 2).then_some((*shift as u8).clamp(1, 64));
            edit.policy_note = edit.depth;
            Change::Tree(edit)
        }
        Step::Drain(choice, level, on) => {
            let mut edit = TreeEdit::new(pick(&state.trees, *choice)?);
            edit.draining = vec![(*level, on.then_some(RunId(3)))];
            Change::Tree(edit)
        }
        Step::Operations(choice, numbers) => {
            let operations = Operations::of(*numbers);
            of_keyspace(*choice, KeyspaceChange::Operations(operations))?
        }
        Step::Rename(choice, number) => {
            let name = Some(format!("renamed {number}")).filter(|it| !state.names.contains(it));
            of_keyspace(*choice, KeyspaceChange::Rename(name?))?
        }
        Step::SelfTuning(choice, on) => of_keyspace(*choice, KeyspaceChange::SetSelfTuning(*on))?,
        Step::Close(true) => Change::Closed {
            end: LogPosition {
                segment: 3,
                offset: 64,
            },
            last: SeqNo(9),
        },
        Step::Close(false) => Change::Opened,
    })
}

proptest! {
    #[test]
    fn a_snapshot_is_worth_its_history(steps in prop::collection::vec(any_step(), 0..40)) {
        let mut state = State::default();
        let mut edits = Vec::new();
        for step in &steps {
            if let Some(change) = change_for(&state, step) {
                state.apply(&change).unwrap();
                edits.push(vec![change]);
            }
        }
        prop_assert_eq!(&State::replay(&edits).unwrap(), &state);
        let snapshot = decode_edit(&encode_edit(&state.snapshot())).unwrap();
        let again = State::replay(std::slice::from_ref(&snapshot)).unwrap();
        prop_assert_eq!(&again, &state);
        prop_assert_eq!(again.snapshot(), snapshot);
    }

    #[test]
    fn edits_that_do_not_fit_are_corruption(edits in prop::collection::vec(any_edit(), 0..5)) {
        if let Err(error) = State::replay(&edits) {
            prop_assert_eq!(error.kind(), ErrorKind::Corruption);
        }
    }

    /// From bytes through the manifest to the state.
    #[test]
    fn a_manifest_of_garbage_edits_never_panics(
        edits in prop::collection::vec(any_edit(), 1..4),
        bit in any::<usize>(),
    ) {
        let storage = hedgerow_io::sim::SimStorage::new(1);
        let dir = std::path::Path::new("/db");
        hedgerow_io::Storage::create_dir_all(&storage, dir).unwrap();
        let shared = Arc::new(storage.clone());
        let mut file = manifest::Manifest::create(shared, dir, &edits[0]).unwrap();
        for edit in &edits[1..] {
            file.append(edit).unwrap();
        }
        prop_assert_eq!(&manifest::replay(&storage, dir).unwrap().edits, &edits);
        storage.flip_bit(dir.join(manifest::FILE_NAME), bit as u64 % (file.bytes() * 8)).unwrap();
        if let Ok(replay) = manifest::replay(&storage, dir) {
            prop_assert!(edits.starts_with(&replay.edits));
            let _ = State::replay(&replay.edits);
        }
    }
}

/// Creates a keyspace with one tree of `depth` levels.
fn create(depth: u8) -> Change {
    let (name, made) = ("k".to_owned(), (Layout::default(), Design::default()));
    let partitions = vec![PartitionId(1)];
    KeyspaceDescription::new(name, made, 7, partitions, depth).creation(KeyspaceId(1))
}

/// The checksums may be right if a faulty writer made them.
#[test]
fn a_tree_without_levels_or_with_too_many_is_corruption() {
    for depth in [0, 65, u8::MAX] {
        let error = State::replay(&[vec![create(depth)]]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        let expected = format!("expected a tree of 1 to 64 levels, found {depth}");
        assert!(error.to_string().contains(&expected), "{error}");
    }
    for depth in [1, 64] {
        State::replay(&[vec![create(depth)]]).unwrap();
    }
}

/// Input and output begin at one moment, and survive a rotation of the manifest.
#[test]
fn what_was_written_is_counted_since_the_design() {
    let mut state = State::default();
    let mut apply = |change: Change| {
        state.apply(&change).unwrap();
        // The database is opened again.
        state = State::replay(&[state.snapshot()]).unwrap();
        state.keyspaces[&KeyspaceId(1)].written
    };
    apply(create(2));
    let tree = |removed: &[u64], added: &[u64]| {
        let mut edit = TreeEdit::new(PartitionId(1));
        edit.removed = removed.iter().copied().map(TableId).collect();
        let placement = Placement {
            level: 0,
            group: 0,
            run: RunId(1),
        };
        let metas = added.iter().map(|id| meta(*id, 1, 1, ("a", "b")));
        edit.added = metas.map(|meta| (placement, meta)).collect();
        Change::Tree(edit)
    };
    apply(tree(&[], &[1]));
    apply(tree(&[], &[2]));
    let written = apply(tree(&[1, 2], &[3]));
    assert_eq!(
        (written.initial, written.added, written.written),
        (0, 20, 30)
    );
    assert_eq!(written.entry_writes(), Some(1.5));
    let design = Design {
        block_bytes: 8 << 10,
        ..Design::default()
    };
    let retuned = apply(Change::Keyspace(
        KeyspaceId(1),
        KeyspaceChange::SetDesign(design),
    ));
    assert_eq!(retuned, EntryCounts::from(10));
    // The output of a merge to the new shape is not added.
    let written = apply(tree(&[3], &[4]));
    assert_eq!(
        (written.initial, written.added, written.written),
        (10, 0, 10)
    );
    assert_eq!(written.entry_writes(), None);
    apply(tree(&[], &[5, 6, 7]));
    let written = apply(tree(&[], &[8]));
    assert_eq!((written.added, written.written), (40, 50));
    assert_eq!(written.entry_writes(), Some(1.25));
    // A snapshot of an earlier version does not say when its tables came.
    let mut snapshot = state.snapshot();
    let is_written =
        |change: &Change| matches!(change, Change::Keyspace(_, KeyspaceChange::Written(_)));
    snapshot.retain(|change| !is_written(change));
    let state = State::replay(&[snapshot]).unwrap();
    assert_eq!(
        state.keyspaces[&KeyspaceId(1)].written,
        EntryCounts::from(50)
    );
}
