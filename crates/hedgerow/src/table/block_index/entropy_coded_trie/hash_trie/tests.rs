use super::super::bits::Bits;
use super::super::routes::Tails;
use super::super::samples::{hashes, hex, text};
use super::*;
use crate::base::random::Random;

/// The trie of the reference, without jumps.
pub(in super::super) struct Plain;

impl LeafKind for Plain {
    const JUMP_OVER: usize = usize::MAX;
    const JUMP_BITS: usize = 0;
    fn skip_leaf(_: &mut Cursor<'_>) {}
    fn skip_small(_: &mut Cursor<'_>, _: usize) -> bool {
        false
    }
}

fn plain(keys: &[u64]) -> BitWriter {
    let mut out = BitWriter::default();
    encode::<Plain>(keys, &mut out, &mut |_, _, _| ());
    out
}

/// The number of keys, the seed, and the bits that the reference writes for them.
const VECTORS: [(usize, u64, usize, &str); 8] = [
    (1, 1, 0, ""),
    (2, 2, 5, "b0"),
    (3, 3, 5, "f0"),
    (5, 4, 13, "e420"),
    (16, 5, 43, "eb936fa7d200"),
    (17, 6, 50, "3c69392dd36780"),
    (33, 7, 101, "2909f171d4cf234ed7d1188ba0"),
    (
        100,
        8,
        258,
        "98bff709131f526a7fd9b8e41a9ba5f942af1cf1efb36e838dfac153fbd07a6c00",
    ),
];

/// T2.
#[test]
fn tries_are_those_of_the_reference() {
    for (count, seed, bits, expected) in VECTORS {
        let out = plain(&hashes(&mut Random::new(seed), count));
        assert_eq!((out.bits(), hex(out.bytes())), (bits, expected.to_owned()));
    }
    let five_bits = [0b00010, 0b00101, 0b01000, 0b10110, 0b11010, 0b11101];
    let out = plain(&five_bits.map(|key: u64| key << 59));
    assert_eq!(text(out.bytes(), out.bits()), "1100110");
}

/// SILT's expected sizes, from its table with six digits (T3).
#[test]
fn random_keys_cost_what_the_theory_says() {
    let mut random = Random::new(99);
    for (count, expected) in [
        (2, 1.5),
        (4, 2.035_714),
        (16, 2.565_474),
        (64, 2.800_122),
        (256, 2.872_846),
    ] {
        let tries = 200_000 / count;
        let bits: usize = (0..tries)
            .map(|_| plain(&hashes(&mut random, count)).bits())
            .sum();
        let found = bits as f64 / (tries * count) as f64;
        assert!(
            (found / expected - 1.0).abs() < 0.01,
            "{count} keys: {found} bits per key"
        );
    }
}

/// A trie whose leaves are followed by their ranks.
struct Ranked;

impl LeafKind for Ranked {
    const JUMP_OVER: usize = Tails::JUMP_OVER;
    const JUMP_BITS: usize = Tails::JUMP_BITS;
    fn skip_leaf(cursor: &mut Cursor<'_>) {
        cursor.take(10);
    }
    fn skip_small(_: &mut Cursor<'_>, _: usize) -> bool {
        false
    }
}

/// Checks that a member's leaf has its rank (T4), that other keys get the rank beside them (T5),
/// and that a skip ends at the end of the trie (T6).
fn check_places<K: LeafKind>(keys: &[u64], leaf_bits: usize, asked: impl Iterator<Item = u64>) {
    let mut out = BitWriter::default();
    encode::<K>(keys, &mut out, &mut |rank, _, out| {
        out.put(rank as u64 % (1 << leaf_bits), leaf_bits)
    });
    let bits = Bits(out.bytes());
    let mut cursor = bits.cursor(0);
    skip::<K>(&mut cursor, keys.len());
    assert_eq!(
        cursor.at,
        out.bits(),
        "the end of a trie of {} keys",
        keys.len()
    );
    for (rank, &key) in keys.iter().enumerate() {
        let mut cursor = bits.cursor(0);
        let place = locate::<K>(&mut cursor, keys.len(), key);
        assert!(
            place.leaf && place.rank == rank,
            "{key:x}: {place:?}, not {rank}"
        );
        assert_eq!(
            cursor.take(leaf_bits) as usize,
            if leaf_bits > 0 { rank } else { 0 }
        );
    }
    for key in asked {
        let smaller = keys.partition_point(|k| *k < key);
        let place = locate::<K>(&mut bits.cursor(0), keys.len(), key);
        if !place.leaf {
            assert_eq!(place.rank, smaller, "{key:x}");
            assert!(!keys.contains(&key));
        } else {
            assert!(
                place.rank == smaller || place.rank + 1 == smaller,
                "{key:x}"
            );
        }
    }
}

#[test]
fn members_have_their_rank_and_others_one_beside() {
    let random = &mut Random::new(3);
    for count in [
        0, 1, 2, 3, 5, 16, 17, 31, 32, 33, 64, 65, 66, 129, 300, 1000,
    ] {
        for narrow in [0, 12, 40] {
            let mut keys: Vec<u64> = (0..count).map(|_| random.next() >> narrow).collect();
            keys.sort_unstable();
            keys.dedup();
            let near: Vec<u64> = keys
                .iter()
                .flat_map(|k| [k ^ 1, k.wrapping_add(7)])
                .collect();
            let asked: Vec<u64> = (0..2000)
                .map(|i| random.next() >> (narrow * (i % 2)))
                .collect();
            let asked = || asked.iter().chain(&near).copied();
            check_places::<Plain>(&keys, 0, asked());
            check_places::<Bare>(&keys, 0, asked());
            check_places::<Ranked>(&keys, 10, asked());
        }
    }
}

/// Checks all sets of keys of four bits.
#[test]
fn every_trie_over_four_bits_answers_every_key() {
    for set in 0..1u32 << 16 {
        let key = |i: u64| i << 60;
        let keys: Vec<u64> = (0..16).filter(|i| set >> i & 1 == 1).map(key).collect();
        check_places::<Bare>(&keys, 0, (0..16).map(key));
    }
}

#[test]
fn random_bits_end_every_walk() {
    let random = &mut Random::new(8);
    for _ in 0..2000 {
        let bytes: Vec<u8> = (0..random.below(60))
            .map(|_| random.next() as u8 & random.next() as u8)
            .collect();
        let keys_bits = random.below(40);
        let keys = random.below(1 << keys_bits) as usize;
        let bits = Bits(&bytes);
        skip::<Bare>(&mut bits.cursor(0), keys);
        skip::<Tails>(&mut bits.cursor(0), keys);
        locate::<Bare>(&mut bits.cursor(3), keys, random.next());
        locate::<Tails>(&mut bits.cursor(usize::MAX / 2), keys, random.next());
    }
}
