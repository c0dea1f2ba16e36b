//! A table without entries: a range of keys, the amount of data in it, and its spread.
//!
//! After a merge takes tables out of a level, later data fills the gap thinly, and a policy that
//! prefers tables with little overlap finds the dense ones beside it. If tables forgot the spread
//! of their keys, this would even out, and merges would cost more than in a real tree.

use std::ops::Range;
use std::rc::Rc;

use crate::base::entry::SeqNo;
use crate::base::table_meta::TableMeta;
use crate::design::merge_policy::shape::{Facts, Run};

use super::masses::{Mass, Masses, Workload};

/// Keys are the numbers below this, so that the end of a range is also a number.
pub(super) const KEYS: u64 = 1 << 62;
const KEY_SHIFT: u32 = KEYS.leading_zeros() + 1;

/// A virtual table. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct VirtualTable(Rc<Virtual>);

#[derive(Debug)]
struct Virtual {
    meta: TableMeta,
    keys: Range<u64>,
    mass: Masses,
    ages: Range<f64>,
    /// The spread in key order, up to the end of the keys.
    spread: Vec<EvenSpan>,
    stands_for: u64,
    /// The number of equal parts that merges from above divide it into, and the keys of one part.
    parts: u64,
    part_width: u64,
    workload: Rc<Workload>,
}

/// Keys up to an end over which the mass of a table is spread evenly: the mass below them, and the
/// mass of each key.
#[derive(Debug, Clone, Copy)]
struct EvenSpan {
    start: u64,
    end: u64,
    below: f64,
    per_key: f64,
}

/// The content of a table.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) keys: Range<u64>,
    pub(super) bytes: f64,
    pub(super) mass: Masses,
    /// The numbers of the writes of its oldest and its newest value.
    pub(super) ages: Range<f64>,
    /// Bytes up to some keys, ascending, up to the end.
    pub(super) pieces: Vec<(u64, f64)>,
}

/// The part of a table between two keys whose mass is recorded.
const SPREAD_STEP: f64 = 1.0 / 8.0;

impl VirtualTable {
    pub(super) fn new(
        id: u64,
        content: Content,
        (stands_for, parts): (u64, u64),
        workload: &Rc<Workload>,
    ) -> VirtualTable {
        let Content {
            keys,
            bytes,
            mass,
            ages,
            pieces,
        } = content;
        let mut spread: Vec<EvenSpan> = Vec::new();
        let (mut start, mut below) = (keys.start, 0.0);
        for (end, sum) in pieces {
            let share = sum / bytes;
            if end == keys.end || share - below >= SPREAD_STEP {
                let per_key = (share - below) / (end - start) as f64;
                spread.push(EvenSpan {
                    start,
                    end,
                    below,
                    per_key,
                });
                (start, below) = (end, share);
            }
        }
        let sum = |of: fn(&Mass) -> f64| mass.iter().map(of).sum::<f64>();
        let ends = (key(keys.start).to_vec(), key(keys.end - 1).to_vec());
        let entries = sum(|mass| mass.entries()).round() as u64;
        let meta = TableMeta {
            tombstones: sum(|mass| mass.tombstones).round() as u64,
            smallest_seqno: SeqNo(0),
            largest_seqno: SeqNo(0),
            ..TableMeta::modelled(id, ends, bytes.round() as u64, entries)
        };
        let part_width = ((keys.end - keys.start) / parts.max(1)).max(1);
        VirtualTable(Rc::new(Virtual {
            meta,
            keys,
            mass,
            ages,
            spread,
            stands_for,
            parts,
            part_width,
            workload: workload.clone(),
        }))
    }

    pub(super) fn keys(&self) -> Range<u64> {
        self.0.keys.clone()
    }

    /// The keys, except the first, between which its mass is spread evenly.
    pub(super) fn spread_ends(&self) -> impl Iterator<Item = u64> {
        self.0.spread.iter().map(|it| it.end)
    }

    /// The part of it that lies within these keys.
    pub(super) fn share(&self, keys: &Range<u64>) -> f64 {
        self.share_below(keys.end) - self.share_below(keys.start)
    }

    fn share_below(&self, key: u64) -> f64 {
        let spread = &self.0.spread;
        let Some(at) = spread.iter().find(|it| it.end > key) else {
            return 1.0;
        };
        at.below + at.per_key * key.saturating_sub(at.start) as f64
    }

    /// The mass of each class.
    pub(super) fn mass(&self) -> &[Mass] {
        &self.0.mass
    }

    /// The numbers of the writes of its oldest and its newest value.
    pub(super) fn ages(&self) -> Range<f64> {
        self.0.ages.clone()
    }

    pub(super) fn puts(&self) -> f64 {
        self.0.mass.iter().map(|mass| mass.puts).sum()
    }

    /// The smallest range of whole parts that includes `span`; all keys if it has no parts.
    pub(super) fn parts_within(&self, span: &Range<u64>) -> Range<u64> {
        let Virtual {
            keys,
            parts,
            part_width: width,
            ..
        } = &*self.0;
        if *parts <= 1 {
            return keys.clone();
        }
        let from = span.start.saturating_sub(keys.start) / width;
        let to = span.end.saturating_sub(keys.start).div_ceil(*width);
        let start = keys.start + width * from.min(parts - 1);
        let end = if to < *parts {
            keys.start + width * to
        } else {
            keys.end
        };
        start..end.max(start + 1)
    }
}

/// The part of `whole` that the range `part` is.
pub(super) fn share(part: &Range<u64>, whole: &Range<u64>) -> f64 {
    (part.end - part.start) as f64 / (whole.end - whole.start) as f64
}

/// The bytes of a key. Keys are spread over all bytes, like hashes.
pub(super) fn key(number: u64) -> [u8; 8] {
    (number << KEY_SHIFT).to_be_bytes()
}

/// The number of a key's bytes.
pub(super) fn number(key: &[u8]) -> u64 {
    let bytes = key
        .first_chunk()
        .map_or(0, |bytes| u64::from_be_bytes(*bytes));
    bytes >> KEY_SHIFT
}

impl Facts for VirtualTable {
    type Filters = ();

    fn meta(&self) -> &TableMeta {
        &self.0.meta
    }

    fn stands_for(&self) -> u64 {
        self.0.stands_for
    }

    fn stale_share(runs: &[Run<Self>]) -> f64 {
        let of_run = |run: &Run<Self>| -> Vec<Mass> {
            let mut sum = vec![Mass::default(); run.tables[0].mass().len()];
            for table in &run.tables {
                let both = sum.iter_mut().zip(table.mass());
                both.for_each(|(sum, mass)| sum.add(*mass));
            }
            sum
        };
        let workload = &runs[0].tables[0].0.workload;
        let tables = runs.iter().flat_map(|run| &run.tables);
        if workload.hides_nothing(
            tables
                .clone()
                .flat_map(|table| table.mass().iter().copied()),
        ) {
            return 0.0;
        }
        let ends = tables.map(|table| (table.0.keys.start, table.0.keys.end));
        let span = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let width = span.map_or(1.0, |(from, to)| share(&(from..to), &(0..KEYS)));
        let layers: Vec<Vec<Mass>> = runs.iter().map(of_run).collect();
        workload.stale_share(&layers, width)
    }

    fn bytes_within(&self, lo: &[u8], hi: &[u8]) -> u64 {
        if self.0.parts <= 1 {
            return self.0.meta.file_bytes;
        }
        let taken = self.parts_within(&(number(lo)..number(hi) + 1));
        if taken == self.0.keys {
            return self.0.meta.file_bytes;
        }
        (self.0.meta.file_bytes as f64 * self.share(&taken)) as u64
    }
}
