use super::super::bits::BitWriter;
use super::*;
use crate::base::codec::packed;
use crate::base::random::Random;

/// Computes the groups bit by bit.
fn groups(bits: &[bool]) -> Vec<Group> {
    let mut low = 0;
    let ends = bits.iter().enumerate().filter(|(_, is_set)| **is_set);
    ends.map(|(high, _)| Group {
        low: std::mem::replace(&mut low, high + 1),
        high,
    })
    .collect()
}

/// Each boundary is behind the one before, and there are as many boundaries as groups (T7).
#[test]
fn groups_are_found_by_rank_and_by_block() {
    let random = &mut Random::new(4);
    for blocks in [1, 2, 31, 32, 33, 255, 256, 257, 900] {
        for one_of in [1, 2, 3, 10, 500] {
            let mut set: Vec<bool> = (0..2 * blocks).map(|_| random.below(one_of) == 0).collect();
            set[2 * blocks - 1] = true;
            let mut out = BitWriter::default();
            set.iter().for_each(|&bit| out.put(u64::from(bit), 1));
            let mut samples = Vec::new();
            for rank in sample_ranks(Bits(out.bytes()), out.bits()) {
                packed::put(&mut samples, rank as u64, 2);
            }
            assert_eq!(samples.len(), 2 * samples_for(blocks));
            let found = Boundaries {
                blocks,
                bits: Bits(out.bytes()),
                samples: &samples,
                rank_bytes: 2,
            };
            let expected = groups(&set);
            for (rank, group) in expected.iter().enumerate() {
                assert_eq!(found.group(rank), *group, "{blocks} blocks, rank {rank}");
                assert_eq!(found.end_before(rank + 1), Some(group.high));
            }
            assert_eq!(found.end_before(0), None);
            for block in 0..blocks {
                let of_block = expected
                    .iter()
                    .filter(|g| g.first_block() >= block && g.cuts() > 0);
                assert!(
                    found.groups_with_cuts(block).eq(of_block.copied()),
                    "from {block}"
                );
            }
        }
    }
}
