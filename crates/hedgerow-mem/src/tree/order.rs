//! The filled slots of a node and their order in one word. So one store makes a filled slot part of
//! the node.
//!
//! ```text
//! bits    60..64   ...   8..12    4..8    0..4
//!         slot #14       slot #1  slot #0 count      the filled slots in order, then the free ones
//! ```

use super::SLOTS;

/// The order word. Every slot is in it exactly once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Order(u64);

impl Order {
    /// The word of an empty node. Slot 0 is the first to be filled.
    pub(super) const EMPTY: Self = Self(0xedcb_a987_6543_2100);

    #[inline]
    pub(super) fn from_word(word: u64) -> Self {
        Self(word)
    }

    #[inline]
    pub(super) fn word(self) -> u64 {
        self.0
    }

    /// The number of filled slots.
    #[inline]
    pub(super) fn count(self) -> usize {
        (self.0 & 15) as usize
    }

    /// The slot at `rank` in order. From `count` on these are the free ones.
    #[inline]
    pub(super) fn slot(self, rank: usize) -> usize {
        (self.0 >> (4 + 4 * rank) & 15) as usize
    }

    /// Returns true if the slots were filled only in ascending order.
    pub(super) fn is_ascending(self) -> bool {
        (0..self.count()).all(|rank| self.slot(rank) == rank)
    }

    /// Inserts the first free slot at `rank`. Requires `rank` <= `count` < [`SLOTS`].
    #[inline]
    pub(super) fn with_next_at(self, rank: usize) -> Self {
        let (count, slot) = (self.count(), self.slot(self.count()) as u64);
        debug_assert!(rank <= count && count < SLOTS, "rank {rank} of {count}");
        // Ranks below `rank` stay. Ranks from `rank` to `count` move up by one, over the place of
        // the slot.
        let below = (1 << (4 + 4 * rank)) - 1;
        let moved = ((1u64 << (4 + 4 * count)) - 1) & !below;
        let above = !(below | moved | (15 << (4 + 4 * count)));
        let placed = slot << (4 + 4 * rank);
        let word = (self.0 & above) | ((self.0 & moved) << 4) | placed | (self.0 & below);
        Self(word + 1)
    }

    /// Keeps only the first `count` slots in order filled.
    pub(super) fn truncated(self, count: usize) -> Self {
        debug_assert!(count <= self.count(), "{count} of {}", self.count());
        Self(self.0 & !15 | count as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_a_list() {
        let mut order = Order::EMPTY;
        let mut list = Vec::new();
        for (i, rank) in [0, 0, 1, 3, 2, 5, 0, 7, 4, 9, 1, 11, 6, 2, 13]
            .into_iter()
            .enumerate()
        {
            if i >= SLOTS {
                break;
            }
            let rank = rank.min(list.len());
            list.insert(rank, order.slot(order.count()));
            order = order.with_next_at(rank);
            let slots: Vec<_> = (0..order.count()).map(|rank| order.slot(rank)).collect();
            assert_eq!(slots, list);
        }
        let order = order.truncated(2);
        assert_eq!(order.count(), 2);
        let mut slots: Vec<_> = (0..15).map(|rank| order.slot(rank)).collect();
        assert_eq!(slots[..2], list[..2]);
        slots.sort_unstable();
        assert_eq!(slots, (0..15).collect::<Vec<_>>(), "no slot is lost");
    }

    #[test]
    fn knows_an_ascending_fill() {
        let mut order = Order::EMPTY;
        for rank in 0..SLOTS {
            order = order.with_next_at(rank);
            assert!(order.is_ascending());
        }
        assert!(!Order::EMPTY.with_next_at(0).with_next_at(0).is_ascending());
    }
}
