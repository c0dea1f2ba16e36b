use proptest::prelude::*;

use super::super::edit::{EntryCounts, KeyspaceChange, KeyspaceDescription};
use super::*;
use crate::base::entry::{KeyspaceId, PartitionId, RunId};
use crate::base::error::ErrorKind;
use crate::base::options::{
    Compression, CutSpec, Design, FilterSpec, IndexSpec, KeyOrder, Layout, LevelSpec, Partitioning,
    PolicySpec, PrefixRule, Residency, TableSpec,
};
use crate::base::page::TableId;
use crate::base::stats::Operations;
use crate::base::table_meta::tests::any_meta;
use crate::design::merge_policy::tree_edit::{Placement, TreeEdit};

pub(crate) fn any_layout() -> impl Strategy<Value = Layout> {
    let partitioning = prop_oneof![
        Just(Partitioning::Single),
        (1u16..=256).prop_map(Partitioning::Hash),
        prop::collection::btree_set(prop::collection::vec(any::<u8>(), 1..20), 0..9)
            .prop_map(Partitioning::range),
    ];
    let order = prop_oneof![
        Just(KeyOrder::Sorted),
        Just(KeyOrder::Hashed),
        (1u32..=65_536).prop_map(|bytes| KeyOrder::SemiSorted(PrefixRule::Bytes(bytes))),
        any::<u8>().prop_map(|byte| KeyOrder::SemiSorted(PrefixRule::Delimiter(byte))),
        Just(KeyOrder::SemiSorted(PrefixRule::LengthPrefixed)),
    ];
    let layout = (order, partitioning).prop_map(|(order, partitioning)| Layout {
        order,
        partitioning,
        ..Layout::default()
    });
    layout.prop_filter("ranges are of sorted keys", |layout| layout.check().is_ok())
}

fn any_cut() -> impl Strategy<Value = CutSpec> {
    prop::sample::select(vec![
        CutSpec::Auto,
        CutSpec::OneTable,
        CutSpec::PartitionedFull,
        CutSpec::WholeLevel,
    ])
}

fn any_filter() -> impl Strategy<Value = FilterSpec> {
    prop_oneof![
        Just(FilterSpec::None),
        (1.0f32..=32.0).prop_map(|bits_per_key| FilterSpec::Bloom { bits_per_key }),
        prop::option::of(0.1f32..=20.0)
            .prop_map(|bits_per_key| FilterSpec::Monkey { bits_per_key }),
        (4u8..=24).prop_map(|fingerprint_bits| FilterSpec::Cuckoo { fingerprint_bits }),
        (4u8..=24, any::<bool>()).prop_map(|(fingerprint_bits, unique)| {
            FilterSpec::MultiLevelCuckoo {
                fingerprint_bits,
                unique,
            }
        }),
    ]
}

fn any_index() -> impl Strategy<Value = IndexSpec> {
    prop::sample::select(vec![
        IndexSpec::Fence,
        IndexSpec::ThreeLevel,
        IndexSpec::ThreeLevelArray,
    ])
}

prop_compose! {
    fn any_level()(
        runs in 1u32..=64,
        ratio in 64.0..1e6,
        cut in any_cut(),
        filter in prop::option::of(any_filter()),
        index in prop::option::of(any_index()),
    ) -> LevelSpec {
        LevelSpec { runs, ratio, cut, filter, index }
    }
}

fn any_policy() -> impl Strategy<Value = PolicySpec> {
    let (ratio, scaling, runs) = (|| 2.0..1e6, || 1e-9..=1.0, || 2u32..=64);
    let two = move || (ratio(), scaling());
    prop_oneof![
        (ratio(), any_cut()).prop_map(|(ratio, cut)| PolicySpec::leveling(ratio).cut(cut)),
        runs().prop_map(PolicySpec::tiering),
        (two(), any_cut()).prop_map(|((t, c), cut)| PolicySpec::garnering(t, c).cut(cut)),
        runs().prop_map(PolicySpec::lazy_leveling),
        ratio().prop_map(PolicySpec::front_loaded),
        ratio().prop_map(PolicySpec::bush),
        two().prop_map(|(t, c)| PolicySpec::garnering_paper(t, c)),
        prop::collection::vec(any_level(), 2..6).prop_map(PolicySpec::levels),
    ]
}

prop_compose! {
    pub(crate) fn any_design()(
        policy in any_policy(),
        htable in any::<bool>(),
        compression in prop::sample::select(vec![Compression::None, Compression::Lz4]),
        index in any_index(),
        filter in any_filter(),
        residency in prop::sample::select(vec![Residency::Auto, Residency::Resident, Residency::Paged]),
        block_bytes in 512u32..=256 << 10,
        table_bytes in prop::option::of(4u64 << 10..=4 << 30),
        memtable_bytes in prop::option::of(4u64 << 10..=64 << 30),
    ) -> Design {
        let htable = htable && !matches!(policy, PolicySpec::Levels(_));
        Design {
            policy,
            table: if htable { TableSpec::HTable } else { TableSpec::BlockBased },
            compression,
            index: if htable { IndexSpec::Fence } else { index },
            filter,
            residency,
            block_bytes: if htable { block_bytes.min(16 << 10) } else { block_bytes },
            table_bytes,
            memtable_bytes,
        }
    }
}

prop_compose! {
    fn any_placement()(level in any::<u8>(), group in any::<u32>(), run in any::<u64>()) -> Placement {
        Placement { level, group, run: RunId(run) }
    }
}

prop_compose! {
    fn any_tree_edit()(
        partition in any::<u32>(),
        removed in prop::collection::vec(any::<u64>().prop_map(TableId), 0..4),
        moved in prop::collection::vec((any::<u64>().prop_map(TableId), any_placement()), 0..4),
        added in prop::collection::vec((any_placement(), any_meta()), 0..3),
        flushed_through in any::<Option<u64>>(),
        draining in prop::collection::vec(
            (any::<u8>(), prop::option::of(any::<u64>().prop_map(RunId))), 0..3),
        depth in any::<Option<u8>>(),
        shift_to in any::<Option<u8>>(),
        ranges in prop::collection::vec((any::<u8>(), any::<u32>()), 0..3),
        policy_note in any::<Option<u8>>(),
    ) -> TreeEdit {
        TreeEdit {
            partition: PartitionId(partition),
            removed,
            moved,
            added,
            flushed_through: flushed_through.map(SeqNo),
            draining,
            depth,
            shift_to,
            ranges,
            policy_note,
        }
    }
}

fn places() -> impl Strategy<Value = Places> {
    let place = ("\\PC{0,12}", any::<u64>()).prop_map(|(dir, mark)| Place { dir, mark });
    let levels = any::<(u8, u8, u8)>();
    (
        prop::collection::btree_map(any::<u8>(), place, 0..4),
        prop::collection::vec(levels, 0..4),
        any::<u8>(),
        any::<u8>(),
    )
        .prop_map(|(others, levels, log, filters)| Places {
            others,
            levels,
            log,
            filters,
        })
}

fn partitions() -> impl Strategy<Value = Vec<PartitionId>> {
    prop::collection::vec(any::<u32>().prop_map(PartitionId), 0..5)
}

fn keyspace_change() -> impl Strategy<Value = KeyspaceChange> {
    prop_oneof![
        Just(KeyspaceChange::Drop),
        any::<String>().prop_map(KeyspaceChange::Rename),
        partitions().prop_map(KeyspaceChange::ReplacePartitions),
        "[a-z_]{1,20}".prop_map(KeyspaceChange::SetMergeOperator),
        any_design().prop_map(KeyspaceChange::SetDesign),
        any::<[u64; 8]>().prop_map(|numbers| KeyspaceChange::Operations(Operations::of(numbers))),
        any::<[u64; 3]>().prop_map(|[initial, added, written]| {
            KeyspaceChange::Written(EntryCounts {
                initial,
                added,
                written,
            })
        }),
        any::<bool>().prop_map(KeyspaceChange::SetSelfTuning),
        any::<u64>().prop_map(KeyspaceChange::SetTimeToLive),
    ]
}

fn any_change() -> impl Strategy<Value = Change> {
    let keyspace = || any::<u32>().prop_map(KeyspaceId);
    prop_oneof![
        (
            keyspace(),
            "\\PC{0,12}",
            any_layout(),
            any_design(),
            any::<u64>(),
            partitions(),
            any::<u8>()
        )
            .prop_map(|(id, name, layout, design, seed, partitions, depth)| {
                let made = (layout, design);
                KeyspaceDescription::new(name, made, seed, partitions, depth).creation(id)
            }),
        (keyspace(), keyspace_change()).prop_map(|(id, change)| Change::Keyspace(id, change)),
        any::<u64>().prop_map(|ms| Change::Clock { ms }),
        places().prop_map(Change::SetPlaces),
        any_tree_edit().prop_map(Change::Tree),
        any::<(u64, u32, u32)>().prop_map(|(next_table, next_keyspace, next_partition)| {
            Change::Counters {
                next_table,
                next_keyspace,
                next_partition,
            }
        }),
        any::<u64>().prop_map(|last| Change::Numbered { last: SeqNo(last) }),
        (any::<String>(), any::<Option<(u64, u64)>>()).prop_map(|(name, slot)| Change::SetSlot {
            name,
            slot: slot.map(|(position, log_bytes_max)| Slot {
                position,
                log_bytes_max,
            }),
        }),
        (any::<u64>(), any::<u32>()).prop_map(|(at, segment)| Change::FeedStart {
            segment,
            at: SeqNo(at),
        }),
        (any::<u64>(), any_tree_edit()).prop_map(|(at, edit)| Change::Past {
            at: SeqNo(at),
            edit: vec![Change::Tree(edit), Change::Opened],
        }),
        any::<u32>().prop_map(|segment| Change::LogStart { segment }),
        any::<(u32, u32, u64)>().prop_map(|(segment, offset, last)| Change::Closed {
            end: LogPosition { segment, offset },
            last: SeqNo(last),
        }),
        Just(Change::Opened),
    ]
}

pub(crate) fn any_edit() -> impl Strategy<Value = Edit> {
    prop::collection::vec(any_change(), 0..5)
}

proptest! {
    #[test]
    fn edits_round_trip(edit in any_edit()) {
        let bytes = encode_edit(&edit);
        prop_assert_eq!(decode_edit(&bytes).unwrap(), edit);
        for cut in 0..bytes.len() {
            prop_assert!(decode_edit(&bytes[..cut]).is_err());
        }
    }

    /// Not always an error, since checksums find these. But never a panic.
    #[test]
    fn flipped_bits_never_panic(edit in any_edit()) {
        let mut bytes = encode_edit(&edit);
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let _ = decode_edit(&bytes);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode_edit(&bytes);
    }
}

#[test]
fn what_a_later_version_adds_is_refused_or_skipped() {
    let kind = |bytes: &[u8]| decode_edit(bytes).unwrap_err().kind();
    assert_eq!(kind(&[1, 99, 1, 0]), ErrorKind::FormatVersion);
    // `Opened` with one more field.
    assert_eq!(
        decode_edit(&[1, 9, 4, 2, 1, 7, 0]).unwrap(),
        [Change::Opened]
    );
    assert_eq!(kind(&[1, 9, 4, 1, 1, 7, 0]), ErrorKind::FormatVersion);
    // A design with an unknown merge policy. A layout with an unknown order.
    let text = b"policy = nine:9";
    let design = [&[1, 4, 18, 1, 15], &text[..], &[0]].concat();
    assert_eq!(kind(&design), ErrorKind::FormatVersion);
    assert_eq!(kind(&[1, 1, 4, 1, 1, b'n', 9]), ErrorKind::FormatVersion);
}

#[test]
fn options_out_of_bounds_are_corruption() {
    let design = Design {
        block_bytes: 1,
        ..Design::default()
    };
    let edit = vec![Change::Keyspace(
        KeyspaceId(1),
        KeyspaceChange::SetDesign(design),
    )];
    let error = decode_edit(&encode_edit(&edit)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
}

#[test]
fn counts_that_cannot_be_are_refused_before_anything_is_allocated() {
    let mut bytes = Vec::new();
    varint::put(&mut bytes, u64::MAX >> 1);
    assert_eq!(
        decode_edit(&bytes).unwrap_err().kind(),
        ErrorKind::Corruption
    );
}
