use super::*;
use crate::base::entry::Flags;

/// The result of a read: the number of the final version (0 for nothing, 1 for the version below
/// the output) and the operands on top of it.
type Answer = (u64, Vec<u64>);

const BELOW: u64 = 1;

fn read(versions: &[(u64, Kind)], below: bool, at: u64) -> Answer {
    let mut operands = Vec::new();
    for (seqno, kind) in versions.iter().filter(|(seqno, _)| *seqno <= at) {
        match kind {
            Kind::Merge => operands.push(*seqno),
            Kind::Delete => return (0, operands),
            _ => return (*seqno, operands),
        }
    }
    (if below { BELOW } else { 0 }, operands)
}

fn retain(versions: &[(u64, Kind)], snapshots: &[SeqNo], below: bool) -> Vec<(u64, Kind)> {
    let mut rule = Retain::new(snapshots);
    let mut kept = Vec::new();
    for (index, (seqno, kind)) in versions.iter().enumerate() {
        let tag = Tag {
            kind: *kind,
            flags: Flags::NONE,
        };
        if rule.keep(index == 0, SeqNo(*seqno), tag, || !below) {
            kept.push((*seqno, *kind));
        }
    }
    kept
}

/// Versions are numbered 10, 20, .. 50; snapshots lie on and between them.
#[test]
fn every_small_history_reads_the_same_after_a_merge_and_keeps_no_more_than_needed() {
    const KINDS: [Kind; 4] = [Kind::Put, Kind::Delete, Kind::Merge, Kind::ValueRef];
    for count in 0..=5_u32 {
        for kinds in 0..4_usize.pow(count) {
            let versions: Vec<(u64, Kind)> = (0..count)
                .rev()
                .map(|i| (u64::from(i + 1) * 10, KINDS[(kinds >> (2 * i)) & 3]))
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
            needed || *kind == Kind::Delete,
            "{seqno} is kept for nothing: {}",
            context()
        );
    }
}

#[test]
fn a_range_delete_is_kept_and_shadows_nothing() {
    let versions = [(30, Kind::Put), (20, Kind::RangeDelete), (10, Kind::Put)];
    assert_eq!(
        retain(&versions, &[], false),
        vec![(30, Kind::Put), (20, Kind::RangeDelete)]
    );
    let versions = [(20, Kind::RangeDelete), (10, Kind::Put)];
    assert_eq!(retain(&versions, &[], false), versions);
}

#[test]
fn a_new_key_starts_afresh() {
    let mut rule = Retain::new(&[]);
    assert!(rule.keep(true, SeqNo(9), Tag::PUT, || false));
    assert!(!rule.keep(false, SeqNo(8), Tag::PUT, || false));
    assert!(rule.keep(true, SeqNo(7), Tag::PUT, || false));
    assert!(!rule.keep(true, SeqNo(6), Tag::DELETE, || true));
}
