use super::super::hash_trie;
use super::super::hash_trie::tests::Plain;
use super::super::samples::{entries, hex, text, unit};
use super::*;
use crate::base::random::Random;

/// The identity map of hashes, in one bucket.
const AS_THEY_ARE: Spread = Spread {
    first: 0,
    multiplier: 1,
};

/// The bits of the three levels, in the form `tail` and with one bucket.
fn levels(units: &[Unit]) -> [BitWriter; 3] {
    let (prefixes, groups, bits) = groups_of(units);
    let level_1 = prefixes::encode(&prefixes, AS_THEY_ARE, 1);
    assert!(groups.is_sorted_by(|a, b| a.high < b.high), "groups ascend");
    assert_eq!(groups.last().unwrap().high, 2 * units.len() - 1);
    let (level_3, _) = encode_routes(units, &groups, AS_THEY_ARE, &level_1.depths, Form::Tail, 4);
    let mut tries = BitWriter::default();
    hash_trie::encode::<Plain>(&prefixes, &mut tries, &mut |_, _, _| ());
    [tries, bits, level_3]
}

/// The worked vector of the specification, whose hashes have six bits.
pub(in super::super) fn example() -> Vec<Vec<Hashes>> {
    let blocks: [&[(u64, u64)]; 3] = [
        &[
            (0b000101, 0b011000),
            (0b001100, 0b000110),
            (0b001100, 0b010010),
        ],
        &[
            (0b001100, 0b011001),
            (0b001100, 0b101100),
            (0b001100, 0b110001),
        ],
        &[
            (0b001100, 0b111010),
            (0b001111, 0b100000),
            (0b100001, 0b000111),
            (0b101010, 0b110011),
        ],
    ];
    let hashes = |&(prefix, suffix): &(u64, u64)| hashes(prefix << 58, suffix << 58);
    blocks
        .iter()
        .map(|block| block.iter().map(hashes).collect())
        .collect()
}

fn hashes(prefix: u64, suffix: u64) -> Hashes {
    Hashes { prefix, suffix }
}

/// Blocks need no place to be found.
const NOWHERE: [Extent; 1] = [Extent::NOWHERE];

fn units(blocks: &[Vec<Hashes>]) -> Vec<Unit> {
    blocks.iter().map(|block| unit(block)).collect()
}

#[test]
fn the_worked_vector() {
    let blocks = example();
    let expected = ["0110", "100011", "100110001010101"];
    for (level, expected) in levels(&units(&blocks)).iter().zip(expected) {
        assert_eq!(text(level.bytes(), level.bits()), expected);
    }
    let asked = [
        (0b000101, 0b011000, 0..1),
        (0b001100, 0b011001, 1..2),
        (0b001100, 0b111010, 2..3),
        (0b001111, 0b100000, 2..3),
        (0b100001, 0b000111, 2..3),
        (0b001000, 0b111111, 0..1),
        (0b011111, 0b000000, 2..3),
        (0b001100, 0b100000, 1..2),
    ];
    let page = encode(&units(&blocks), &NOWHERE, Form::Tail);
    let layout = SegmentLayout::parse(&page).unwrap();
    let segment = Segment {
        layout: &layout,
        page: &page,
    };
    for (prefix, suffix, expected) in asked {
        let found = segment.locate(hashes(prefix << 58, suffix << 58));
        assert_eq!(found, expected, "{prefix:06b} {suffix:06b}");
    }
}

/// Sizes of groups, a seed, entries per block, and the bits of levels 1 and 3 that the reference
/// writes.
#[test]
fn levels_are_those_of_the_reference() {
    let many: Vec<usize> = (0..60).map(|i| 1 + i * 7 % 13).collect();
    let vectors: [(&[usize], u64, usize, &str, &str); 4] = [
        (
            &[2, 3, 4].repeat(10),
            12,
            3,
            "24c178bcd1915286dbe0",
            "3844451c50d044a27894448410",
        ),
        (
            &[30, 1, 50, 2, 2, 9, 31],
            13,
            4,
            "1400",
            "7c0003d50085a3cf658ab3a60014c56a08f1937251894c4f80",
        ),
        (&[25], 14, 1, "", "1ade0000c04016c0000c7e0280000050"),
        (&many, 15, 6, MANY_LEVEL_1, MANY_LEVEL_3),
    ];
    for (sizes, seed, per_block, level_1, level_3) in vectors {
        let entries = entries(sizes, seed);
        let units: Vec<Unit> = entries.chunks(per_block).map(unit).collect();
        let found = levels(&units);
        assert_eq!(hex(found[0].bytes()), level_1);
        assert_eq!(hex(found[2].bytes()), level_3);
    }
}

const MANY_LEVEL_1: &str = "3bb2b6bcec72ed67c4c6f9e3a388273e766ee8";
const MANY_LEVEL_3: &str = "41134f35b085362d5604d31bf7258668e2c8869b444e215b022269932d651388448259a0488cd02690a6b91160987100";

/// Queries a segment for every given pair of hashes and checks the answers against the blocks.
fn check(blocks: &[Vec<Hashes>], form: Form, asked: impl Iterator<Item = Hashes>) {
    let units: Vec<Unit> = units(blocks);
    let page = encode(&units, &NOWHERE, form);
    let layout = SegmentLayout::parse(&page).unwrap();
    let segment = Segment {
        layout: &layout,
        page: &page,
    };
    assert_eq!(layout.blocks, blocks.len());
    let holding = |holds: &dyn Fn(&Hashes) -> bool| {
        let holders = || (0..blocks.len()).filter(|i| blocks[*i].iter().any(holds));
        holders()
            .next()
            .map(|first| first..holders().next_back().unwrap() + 1)
    };
    for wanted in asked {
        let found = segment.locate(wanted);
        assert!(found.len() <= 1, "{wanted:x?}: {found:?}");
        if let Some(expected) = holding(&|entry| *entry == wanted) {
            assert_eq!(found, expected, "{wanted:x?} in {blocks:x?}");
        }
        let expected = holding(&|entry| entry.prefix == wanted.prefix);
        let Bracket { first, likely, .. } = segment.bracket(hashes(wanted.prefix, 0));
        let end = segment.end_of(wanted.prefix);
        let behind = blocks[end..].iter().flatten();
        assert!(behind.map(|entry| entry.prefix).all(|p| p > wanted.prefix));
        if let Some(expected) = expected {
            assert_eq!(first..end, expected, "{wanted:x?} in {blocks:x?}");
            assert_eq!(likely, first);
            // A scan over the prefix ends at the next one. That gives the same end unless the
            // hashes come from a narrow slice.
            let next = wanted.prefix.checked_add(1).filter(|_| !is_narrow(blocks));
            assert!(next.is_none_or(|next| segment.end_of(next) == end));
        }
        check_lower_bound(blocks, wanted, segment.bracket(wanted));
    }
}

fn is_narrow(blocks: &[Vec<Hashes>]) -> bool {
    let prefixes = || blocks.iter().flatten().map(|entry| entry.prefix);
    let bits = prefixes().fold(0, |bits, prefix| bits | prefix ^ blocks[0][0].prefix);
    (1..1 << 32).contains(&bits)
}

fn check_lower_bound(blocks: &[Vec<Hashes>], wanted: Hashes, found: Bracket) {
    let at = blocks.partition_point(|block| *block.last().unwrap() < wanted);
    let Bracket {
        first,
        likely,
        last,
    } = found;
    assert!(first <= likely && likely <= last && last <= blocks.len());
    assert!(
        first <= at && at <= last + 1,
        "{wanted:x?} is at {at}, found {found:?}"
    );
    let group_exists = blocks
        .iter()
        .flatten()
        .any(|entry| entry.prefix == wanted.prefix);
    if group_exists || first == last {
        assert!(
            likely == at || likely + 1 == at,
            "{wanted:x?} is at {at}, found {found:?}"
        );
    }
}

/// Random tables over a tiny space of hashes. Each is queried for all pairs of hashes (T9).
#[test]
fn every_pair_of_hashes_is_answered_exactly() {
    let random = &mut Random::new(21);
    for round in 0..if cfg!(debug_assertions) { 150 } else { 600 } {
        let bits = 3 + random.below(4);
        let space = 1u64 << bits;
        let prefixes = 1 + random.below(space.min(1 + round % 20));
        let prefixes: Vec<u64> = (0..prefixes).map(|_| random.below(space)).collect();
        // At the top of the words, or a narrow slice at their bottom.
        let shift = if round % 3 == 0 { 0 } else { 64 - bits };
        let mut entries: Vec<Hashes> = (0..1 + random.below(60))
            .map(|_| {
                let prefix = prefixes[random.below(prefixes.len() as u64) as usize];
                hashes(prefix << shift, random.below(space) << (64 - bits))
            })
            .collect();
        entries.sort_unstable();
        entries.dedup();
        let (mut blocks, per_block) = (Vec::new(), 1 + random.below(6));
        let mut rest = &entries[..];
        while !rest.is_empty() {
            let count = rest.len().min(1 + random.below(per_block) as usize);
            blocks.push(rest[..count].to_vec());
            rest = &rest[count..];
        }
        for form in [Form::Tail, Form::Array] {
            let pairs = (0..space * space)
                .map(|i| hashes((i / space) << shift, (i % space) << (64 - bits)));
            check(&blocks, form, pairs);
        }
    }
}

/// One entry, one block, one prefix over all blocks, blocks of one entry; hashes below the first
/// and above the last (T11).
#[test]
fn the_borders_of_segments() {
    let random = &mut Random::new(22);
    let one = vec![entries(&[1], 1)];
    let one_prefix: Vec<_> = entries(&[5000], 2)
        .chunks(4)
        .map(<[Hashes]>::to_vec)
        .collect();
    let single: Vec<_> = entries(&[1; 300], 3)
        .chunks(1)
        .map(<[Hashes]>::to_vec)
        .collect();
    let pairs: Vec<_> = entries(&[2; 300], 4)
        .chunks(1)
        .map(<[Hashes]>::to_vec)
        .collect();
    for blocks in [one, one_prefix, single, pairs] {
        let all: Vec<Hashes> = blocks.iter().flatten().copied().collect();
        let ends = [
            hashes(0, 0),
            hashes(0, u64::MAX),
            hashes(u64::MAX, 0),
            hashes(u64::MAX, u64::MAX),
        ];
        let beside = all.iter().flat_map(|h| {
            let next = hashes(h.prefix, h.suffix.wrapping_add(1));
            [
                *h,
                next,
                hashes(h.prefix + 1, h.suffix),
                hashes(h.prefix, random.next()),
                hashes(random.next(), 0),
            ]
        });
        let asked: Vec<Hashes> = beside.chain(ends).step_by(1 + all.len() / 500).collect();
        for form in [Form::Tail, Form::Array] {
            check(&blocks, form, asked.iter().copied());
        }
    }
}

#[test]
fn damaged_pages_do_not_panic() {
    for form in [Form::Tail, Form::Array] {
        let blocks: Vec<_> = entries(&[3, 200, 1, 1, 40], 5)
            .chunks(3)
            .map(<[Hashes]>::to_vec)
            .collect();
        let page = encode(&units(&blocks), &NOWHERE, form);
        let asked: Vec<Hashes> = blocks.iter().flatten().step_by(7).copied().collect();
        for bit in 0..8 * page.len() {
            let mut page = page.clone();
            page[bit / 8] ^= 1 << (bit % 8);
            answer(&page, &asked);
            page.truncate(bit / 8);
            answer(&page, &asked);
        }
    }
}

fn answer(page: &[u8], asked: &[Hashes]) {
    let Ok(layout) = SegmentLayout::parse(page) else {
        return;
    };
    let layout = &layout;
    let segment = Segment { layout, page };
    for &wanted in asked {
        assert!(segment.locate(wanted).end <= layout.blocks);
        assert!(segment.end_of(wanted.prefix) <= layout.blocks);
        segment.place(layout.blocks - 1);
        assert!(segment.bracket(wanted).last <= layout.blocks);
    }
}
