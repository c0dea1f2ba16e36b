//! A page of the index: the three levels over some thousands of blocks. The format is in
//! `docs/format/three_level.md`.
//!
//! A *unit* of the index is one block, or several if entries with equal hashes are on both sides of
//! the boundaries between them: only the last block of a unit differs by hashes from the first of
//! the next. A table avoids such cuts, so units of more than one block are rare and listed.

use std::ops::Range;

use super::Hashes;
use super::bits::{BitWriter, Bits, Cursor};
use super::boundaries;
use super::boundaries::{Boundaries, Group};
use super::prefixes;
use super::prefixes::{Prefixes, Spread};
use super::routes;
use super::routes::{Form, RouteCut};
use super::segment_layout::SegmentLayout;
use crate::base::codec::{packed, varint};
use crate::base::page::Handle;
use crate::table::block_index::Bracket;
use crate::table::block_index::extents;
use crate::table::block_index::extents::Extent;

/// The data of a unit for the index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unit {
    pub(super) first: Hashes,
    pub(super) last: Hashes,
    /// The second prefix, if there are several.
    pub(super) second_prefix: Option<u64>,
    /// The last prefix but one.
    pub(super) last_prefix_but_one: Option<u64>,
    pub(super) blocks: usize,
}

impl Unit {
    pub(super) fn new(entry: Hashes) -> Unit {
        Unit {
            first: entry,
            last: entry,
            second_prefix: None,
            last_prefix_but_one: None,
            blocks: 1,
        }
    }

    pub(super) fn push(&mut self, entry: Hashes) {
        if entry.prefix != self.last.prefix {
            self.second_prefix.get_or_insert(entry.prefix);
            self.last_prefix_but_one = Some(self.last.prefix);
        }
        self.last = entry;
    }
}

/// Computes the groups of the first and last keys of units, and level 2.
fn groups_of(units: &[Unit]) -> (Vec<u64>, Vec<Group>, BitWriter) {
    let ends = units.iter().flat_map(|u| [u.first.prefix, u.last.prefix]);
    let ends: Vec<u64> = ends.collect();
    let (mut prefixes, mut groups, mut bits) = (Vec::new(), Vec::new(), BitWriter::default());
    let mut low = 0;
    for (high, &prefix) in ends.iter().enumerate() {
        let is_last = ends.get(high + 1) != Some(&prefix);
        bits.put(u64::from(is_last), 1);
        if is_last {
            prefixes.push(prefix);
            groups.push(Group { low, high });
            low = high + 1;
        }
    }
    (prefixes, groups, bits)
}

/// The number of bits that a group's prefix shares with its neighbours that level 1 does not know.
fn shared_with_hidden(units: &[Unit], group: Group, spread: Spread) -> Option<u32> {
    let (first, last) = (units[group.first_block()], units[group.last_block()]);
    let before = first.last_prefix_but_one;
    let before = before.filter(|p| group.begins_inside() && *p != first.first.prefix);
    let after = last.second_prefix;
    let after = after.filter(|p| group.ends_inside() && *p != last.last.prefix);
    let (bucket, key) = spread.place(first.last.prefix)?;
    let neighbours = [before, after].into_iter().flatten();
    let places = neighbours.filter_map(|prefix| spread.place(prefix));
    let shared = places.filter(|place| place.0 == bucket);
    shared.map(|place| (place.1 ^ key).leading_zeros()).max()
}

/// Encodes level 3 of all groups. Returns the place of the first group that begins in each run of
/// `1 << sample_shift` units, too.
fn encode_routes(
    units: &[Unit],
    groups: &[Group],
    spread: Spread,
    depths: &[u32],
    form: Form,
    sample_shift: u32,
) -> (BitWriter, Vec<usize>) {
    let mut out = BitWriter::default();
    let mut samples = vec![0];
    for (&group, &depth) in groups.iter().zip(depths) {
        if group.cuts() == 0 {
            continue;
        }
        while samples.len() <= group.first_block() >> sample_shift {
            samples.push(out.bits());
        }
        let key = spread.place(units[group.first_block()].last.prefix);
        let shared = shared_with_hidden(units, group, spread);
        routes::put_fence(&mut out, key.map_or(0, |(_, key)| key), depth, shared);
        let pairs = units[group.first_block()..=group.last_block()].windows(2);
        let cuts = pairs.map(|pair| RouteCut {
            last: pair[0].last.suffix,
            first: pair[1].first.suffix,
        });
        routes::put_cuts(&mut out, &cuts.collect::<Vec<_>>(), form);
    }
    samples.resize(routes::samples_for(units.len(), sample_shift), out.bits());
    (out, samples)
}

/// Encodes the page of these units. `extents` are the places of their blocks.
pub(super) fn encode(units: &[Unit], extents: &[Extent], form: Form) -> Vec<u8> {
    let (Some(first), Some(last)) = (units.first(), units.last()) else {
        panic!("a segment has units");
    };
    let (prefixes, groups, bits) = groups_of(units);
    let buckets = prefixes::buckets_for(prefixes.len());
    let spread = Spread::new(first.first.prefix, last.last.prefix, buckets);
    let level_1 = prefixes::encode(&prefixes, spread, buckets);
    let ranks = boundaries::sample_ranks(Bits(bits.bytes()), bits.bits());
    let with_cuts = groups.iter().filter(|group| group.cuts() > 0).count();
    let sample_shift = routes::sample_shift(units.len(), with_cuts);
    let (level_3, samples) =
        encode_routes(units, &groups, spread, &level_1.depths, form, sample_shift);

    let mut out = Vec::new();
    varint::put(&mut out, units.len() as u64);
    varint::put(&mut out, prefixes.len() as u64);
    varint::put(&mut out, buckets as u64);
    let widths = [prefixes.len(), level_1.tries.bits(), level_3.bits()];
    let widths = widths.map(|most| packed::width_for(most as u64));
    out.push(form.code());
    out.push(sample_shift as u8);
    out.extend(widths.map(|width| width as u8));
    out.extend(spread.first.to_le_bytes());
    out.extend(spread.multiplier.to_le_bytes());
    put_larger_units(&mut out, units);
    extents::encode(extents, &mut out);
    for (rank, offset) in level_1.ends {
        packed::put(&mut out, rank as u64, widths[0]);
        packed::put(&mut out, offset as u64, widths[1]);
    }
    for rank in ranks {
        packed::put(&mut out, rank as u64, widths[0]);
    }
    for sample in samples {
        packed::put(&mut out, sample as u64, widths[2]);
    }
    out.extend(level_1.tries.bytes());
    out.extend(bits.bytes());
    out.extend(level_3.bytes());
    out
}

/// Appends the units of more than one block: their number, then for each its index and its number
/// of further blocks.
fn put_larger_units(out: &mut Vec<u8>, units: &[Unit]) {
    let larger = units.iter().enumerate().filter(|(_, unit)| unit.blocks > 1);
    varint::put(out, larger.clone().count() as u64);
    for (number, unit) in larger {
        varint::put(out, number as u64);
        varint::put(out, unit.blocks as u64 - 1);
    }
}

/// A segment and its bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment<'a> {
    pub(super) layout: &'a SegmentLayout,
    pub(super) page: &'a [u8],
}

/// The place of a prefix, if the segment has it.
enum Whereabouts<'a> {
    /// Nowhere. Smaller prefixes end before this unit, larger ones begin with it.
    Before(usize),
    /// In this unit, or nowhere.
    Within(usize),
    /// In a group of several units. Its cuts are at the cursor.
    Across(Group, Cursor<'a>),
}

impl<'a> Segment<'a> {
    /// The blocks that may hold an entry of these hashes: one unit or none.
    #[inline]
    pub(super) fn locate(&self, wanted: Hashes) -> Range<usize> {
        let units = match self.find(wanted.prefix) {
            Whereabouts::Before(unit) => unit..unit,
            Whereabouts::Within(unit) => unit..unit + 1,
            Whereabouts::Across(group, cursor) => {
                let unit = self.route(group, cursor, wanted.suffix);
                unit..unit + 1
            }
        };
        self.layout.blocks_of(units)
    }

    /// The bracket of the first entry at or after these hashes.
    pub(super) fn bracket(&self, wanted: Hashes) -> Bracket {
        let (first, likely, last) = match self.find(wanted.prefix) {
            Whereabouts::Before(unit) => (unit, unit, unit),
            Whereabouts::Within(unit) => (unit, unit, unit),
            // An absent prefix is before or after those of the whole group.
            Whereabouts::Across(group, cursor) => (
                group.first_block(),
                self.route(group, cursor, wanted.suffix),
                group.last_block(),
            ),
        };
        Bracket {
            first: self.layout.first_block(first),
            likely: self.layout.first_block(likely),
            last: self.layout.first_block(last + 1).saturating_sub(1),
        }
    }

    /// The first block that has only entries of larger prefixes, if the index knows it.
    pub(super) fn end_of(&self, prefix: u64) -> usize {
        self.layout.first_block(match self.find(prefix) {
            Whereabouts::Before(unit) => unit,
            Whereabouts::Within(unit) => unit + 1,
            Whereabouts::Across(group, _) => group.last_block() + 1,
        })
    }

    /// The place of a block.
    #[inline]
    pub(super) fn place(&self, block: usize) -> Handle {
        self.layout.extents.place(self.page, block)
    }

    #[inline]
    fn route(&self, group: Group, mut cursor: Cursor<'_>, suffix: u64) -> usize {
        let cuts = group.cuts();
        group.first_block() + routes::route(&mut cursor, cuts, suffix, self.layout.form)
    }

    #[inline]
    fn find(&self, prefix: u64) -> Whereabouts<'a> {
        let found = self.prefixes().locate(prefix);
        let boundaries = self.boundaries();
        let rank = found.place.rank;
        if !found.place.leaf {
            // Not the prefix of a first or last entry, so it is inside a unit or nowhere.
            return match boundaries.end_before(rank) {
                None => Whereabouts::Before(0),
                Some(end) if end % 2 == 0 => Whereabouts::Within(end / 2),
                Some(end) => Whereabouts::Before(end / 2 + 1),
            };
        }
        let group = boundaries.group(rank);
        if group.cuts() == 0 {
            return Whereabouts::Within(group.first_block());
        }
        let mut cursor = self.routes_of(group.first_block());
        match routes::compare_with_fence(&mut cursor, found.key, found.place.depth) {
            std::cmp::Ordering::Equal => Whereabouts::Across(group, cursor),
            std::cmp::Ordering::Less if group.begins_inside() => {
                Whereabouts::Within(group.first_block())
            }
            std::cmp::Ordering::Less => Whereabouts::Before(group.first_block()),
            std::cmp::Ordering::Greater if group.ends_inside() => {
                Whereabouts::Within(group.last_block())
            }
            std::cmp::Ordering::Greater => Whereabouts::Before(group.last_block() + 1),
        }
    }

    /// Returns a cursor at the fence of the group whose first cut is in a unit.
    #[inline]
    fn routes_of(&self, unit: usize) -> Cursor<'a> {
        let layout = self.layout;
        let sample = unit >> layout.sample_shift;
        let at = layout.samples.start + sample * layout.route_bytes;
        let offset = packed::get(self.page, at, layout.route_bytes);
        let mut cursor = self.bits(layout.routes).cursor(offset as usize);
        let boundaries = self.boundaries();
        let groups = boundaries.groups_with_cuts(sample << layout.sample_shift);
        for group in groups.take_while(|group| group.first_block() < unit) {
            routes::skip(&mut cursor, group.cuts(), layout.form);
        }
        cursor
    }

    fn prefixes(&self) -> Prefixes<'a> {
        let layout = self.layout;
        Prefixes {
            spread: layout.spread,
            count: layout.prefixes,
            buckets: layout.buckets,
            ends: self.bytes(layout.ends.start),
            rank_bytes: layout.rank_bytes,
            offset_bytes: layout.offset_bytes,
            tries: self.bits(layout.tries),
        }
    }

    fn boundaries(&self) -> Boundaries<'a> {
        let layout = self.layout;
        Boundaries {
            blocks: layout.units,
            bits: self.bits(layout.bits),
            samples: self.bytes(layout.ranks.start),
            rank_bytes: layout.rank_bytes,
        }
    }

    /// The page's bytes from `start` on. The later parts are included, so that words are read
    /// whole.
    fn bytes(&self, start: usize) -> &'a [u8] {
        self.page.get(start..).unwrap_or_default()
    }

    fn bits(&self, start: usize) -> Bits<'a> {
        Bits(self.bytes(start))
    }
}

#[cfg(test)]
pub(super) mod tests;
