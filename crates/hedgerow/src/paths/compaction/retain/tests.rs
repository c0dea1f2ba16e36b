use super::*;
use crate::base::entry::Flags;
use crate::base::range_tombstones::tests::range;

/// The result of a read: the number of the final version (0 for nothing, 1 for the version below
/// the output) and the operands on top of it.
type Answer = (u64, Vec<u64>);

const BELOW: u64 = 1;

fn read(versions: &[(u64, Kind)], below: bool, at: u64) -> Answer {
    let mut operands = Vec::new();
    for (seqno, kind) in versions.iter().filter(|(seqno, _)| *seqno <= at) {
        match kind {
            Kind::Merge => operands.push(*seqno),
            Kind::Delete | Kind::RangeDelete => return (0, operands),
            _ => return (*seqno, operands),
        }
    }
    (if below { BELOW } else { 0 }, operands)
}

/// The range deletes among these versions, of a range around their key.
fn ranges(versions: &[(u64, Kind)]) -> RangeTombstones {
    let lists: Vec<_> = versions
        .iter()
        .filter(|(_, kind)| *kind == Kind::RangeDelete)
        .map(|(seqno, _)| range(("a", "z"), *seqno))
        .collect();
    RangeTombstones::merged(&lists)
}

fn retain(versions: &[(u64, Kind)], snapshots: &[SeqNo], below: bool) -> Vec<(u64, Kind)> {
    let mut rule = Retain::new(&SnapshotFacts::by(snapshots), ranges(versions));
    let mut kept = Vec::new();
    let points = versions.iter().filter(|it| it.1 != Kind::RangeDelete);
    for (index, (seqno, kind)) in points.enumerate() {
        let tag = Tag {
            kind: *kind,
            flags: Flags::NONE,
        };
        if rule.keep((b"k", index == 0), SeqNo(*seqno), tag, || !below) {
            kept.push((*seqno, *kind));
        }
    }
    for fragment in rule.ranges(|_, _| !below).fragments() {
        assert_eq!((&*fragment.start, &*fragment.end), (&b"a"[..], &b"z"[..]));
        kept.extend(
            fragment
                .deletes
                .iter()
                .map(|it| (it.seqno.0, Kind::RangeDelete)),
        );
    }
    kept.sort_by_key(|(seqno, _)| std::cmp::Reverse(*seqno));
    kept
}

/// Versions are numbered 10, 20, .. 50; snapshots lie on and between them.
#[test]
fn every_small_history_reads_the_same_after_a_merge_and_keeps_no_more_than_needed() {
    const KINDS: [Kind; 4] = [Kind::Put, Kind::Delete, Kind::Merge, Kind::ValueRef];
    const RANGED: [Kind; 4] = [Kind::Put, Kind::Delete, Kind::Merge, Kind::RangeDelete];
    for (all, count) in [KINDS, RANGED]
        .into_iter()
        .zip([5, 4])
        .flat_map(|(all, most)| (0..=most).map(move |count: u32| (all, count)))
    {
        for kinds in 0..4_usize.pow(count) {
            let versions: Vec<(u64, Kind)> = (0..count)
                .rev()
                .map(|i| (u64::from(i + 1) * 10, all[(kinds >> (2 * i)) & 3]))
                .collect();
            // Two positions per version are enough: on it, and just before it.
            for set in 0..1_u32 << (2 * count).min(7) {
                let snapshots: Vec<SeqNo> = (0..2 * count)
                    .filter(|bit| set & (1 << bit) != 0)
                    .map(|bit| SeqNo(u64::from(bit / 2 + 1) * 10 - u64::from(1 - bit % 2)))
                    .collect();
                for below in [false, true] {
                    check(&versions, &snapshots, below);
                }
            }
        }
    }
}

fn check(versions: &[(u64, Kind)], snapshots: &[SeqNo], below: bool) {
    let kept = retain(versions, snapshots, below);
    let context = || format!("{versions:?} at {snapshots:?}, below: {below}, kept: {kept:?}");
    let readers = || snapshots.iter().map(|s| s.0).chain([u64::MAX]);
    let answers = |versions: &[(u64, Kind)]| {
        readers()
            .map(|at| read(versions, below, at))
            .collect::<Vec<_>>()
    };
    assert_eq!(answers(versions), answers(&kept), "{}", context());
    // A second merge finds nothing more to leave out.
    assert_eq!(retain(&kept, snapshots, below), kept, "{}", context());
    for (index, (seqno, kind)) in kept.iter().enumerate() {
        let mut less = kept.clone();
        less.remove(index);
        let needed = answers(&less) != answers(&kept);
        // A tombstone that some reader does not see stays, even if it hides nothing: the rule does
        // not look at older versions.
        assert!(
            needed || matches!(kind, Kind::Delete | Kind::RangeDelete),
            "{seqno} is kept for nothing: {}",
            context()
        );
    }
}

#[test]
fn a_new_key_starts_afresh() {
    let mut rule = Retain::new(&SnapshotFacts::default(), RangeTombstones::default());
    assert!(rule.keep((b"k", true), SeqNo(9), Tag::PUT, || false));
    assert!(!rule.keep((b"k", false), SeqNo(8), Tag::PUT, || false));
    assert!(rule.keep((b"k", true), SeqNo(7), Tag::PUT, || false));
    assert!(!rule.keep((b"k", true), SeqNo(6), Tag::DELETE, || true));
}

#[test]
fn a_table_is_hidden_unless_a_snapshot_reads_it() {
    let table = |smallest, largest| TableMeta {
        smallest_seqno: SeqNo(smallest),
        largest_seqno: SeqNo(largest),
        ..TableMeta::modelled(1, (b"c".to_vec(), b"k".to_vec()), 1, 1)
    };
    let ranges = RangeTombstones::merged(&[range(("b", "f"), 9), range(("f", "m"), 8)]);
    let hides = |table: &TableMeta, snapshots: &[u64]| {
        let snapshots: Vec<_> = snapshots.iter().copied().map(SeqNo).collect();
        hide_table(&ranges, table, &snapshots)
    };
    assert!(hides(&table(3, 7), &[]));
    assert!(
        !hides(&table(3, 8), &[]),
        "an entry may be as new as the delete"
    );
    assert!(hides(&table(3, 7), &[2, 9]));
    for read in [3, 5, 7] {
        assert!(!hides(&table(3, 7), &[read]), "at {read}");
    }
    // It sees the delete of one half only.
    assert!(!hides(&table(3, 7), &[8]));
    let wider = TableMeta {
        largest_key: b"m".to_vec(),
        ..table(3, 7)
    };
    assert!(!hides(&wider, &[]));
}
