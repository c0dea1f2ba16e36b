//! The inputs of a merge, and its result.

use std::ops::Range;

use crate::base::page::TableId;
use crate::design::merge_policy::plan::{Input, Target};
use crate::design::merge_policy::shape::{Facts, Shape};

use super::masses::{Mass, Masses, Workload};
use super::virtual_table::{VirtualTable, key, share};

/// A range of keys without a change of inputs, and the output there.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) keys: Range<u64>,
    pub(super) bytes: f64,
    pub(super) mass: Masses,
    /// The numbers of the writes of its oldest and its newest value.
    pub(super) ages: Range<f64>,
    /// True if the merge does not take it: a table that stands for several has more than the merge
    /// takes.
    pub(super) aside: bool,
}

impl Segment {
    pub(super) fn new(
        keys: Range<u64>,
        mass: Masses,
        ages: Range<f64>,
        workload: &Workload,
    ) -> Segment {
        Segment {
            keys,
            ages,
            bytes: mass.iter().map(|mass| workload.bytes(*mass)).sum(),
            mass,
            aside: false,
        }
    }

    pub(super) fn entries(&self) -> f64 {
        self.mass.iter().map(|mass| mass.entries()).sum()
    }
}

/// The tables of a merge: layers from the newest to the oldest, each in key order.
pub(super) struct Inputs {
    layers: Vec<Vec<(Range<u64>, VirtualTable)>>,
    /// The level of each layer.
    levels: Vec<usize>,
    ids: Vec<TableId>,
    /// The parts of tables that stand for several which the merge does not take.
    aside: Vec<(Range<u64>, VirtualTable)>,
}

impl Inputs {
    pub(super) fn new(shape: &Shape<VirtualTable>, inputs: &[Input], target: &Target) -> Inputs {
        let tables_of = |input: &Input| -> Vec<VirtualTable> {
            let tables = input.tables.iter().filter_map(|id| shape.table(*id));
            tables.map(|(_, table)| table.clone()).collect()
        };
        let is_target =
            |input: &Input| input.level == target.level && Some(input.run) == target.run;
        let sources = inputs.iter().filter(|input| !is_target(input));
        let span = span(sources.flat_map(tables_of));
        let mut aside = Vec::new();
        let mut layers = Vec::new();
        for input in inputs {
            let mut layer = Vec::new();
            for table in tables_of(input) {
                let keys = table.keys();
                let taken = match &span {
                    Some(span) if is_target(input) => table.parts_within(span),
                    _ => keys.clone(),
                };
                for rest in [keys.start..taken.start, taken.end..keys.end] {
                    if !rest.is_empty() {
                        aside.push((rest, table.clone()));
                    }
                }
                layer.push((taken, table));
            }
            layers.push(layer);
        }
        let ids = inputs.iter().flat_map(|input| input.tables.iter().copied());
        Inputs {
            layers,
            levels: inputs.iter().map(|input| input.level).collect(),
            ids: ids.collect(),
            aside,
        }
    }

    /// The tables with their levels.
    pub(super) fn tables(&self) -> impl Iterator<Item = (usize, &VirtualTable)> {
        let layers = self.levels.iter().zip(&self.layers);
        layers.flat_map(|(level, layer)| layer.iter().map(|(_, table)| (*level, table)))
    }

    /// The bytes read.
    pub(super) fn bytes(&self) -> f64 {
        let parts = self.layers.iter().flatten();
        parts
            .map(|(keys, table)| table.meta().file_bytes as f64 * table.share(keys))
            .sum()
    }

    /// The result of the merge, in key order.
    pub(super) fn segments(
        &self,
        shape: &Shape<VirtualTable>,
        target: &Target,
        workload: &Workload,
        (puts, expired): (f64, f64),
    ) -> Vec<Segment> {
        let borders = self.layers.iter().flatten();
        let mut borders: Vec<u64> = borders
            .flat_map(|(keys, table)| {
                let inner = table.spread_ends().filter(|end| keys.contains(end));
                [keys.start, keys.end].into_iter().chain(inner)
            })
            .collect();
        borders.sort_unstable();
        borders.dedup();
        let mut places = vec![0; self.layers.len()];
        let mut visible = vec![1.0; workload.classes()];
        let mut segments: Vec<Segment> = Vec::with_capacity(borders.len());
        for ends in borders.windows(2) {
            let keys = ends[0]..ends[1];
            let width = share(&keys, &(0..super::virtual_table::KEYS));
            let mut merged = Masses::of(workload.classes());
            let mut ages = f64::INFINITY..0.0;
            visible.fill(1.0);
            for (layer, place) in self.layers.iter().zip(&mut places) {
                while layer.get(*place).is_some_and(|it| it.0.end <= keys.start) {
                    *place += 1;
                }
                let Some((_, table)) = layer.get(*place).filter(|it| it.0.start <= keys.start)
                else {
                    continue;
                };
                let part = table.share(&keys);
                let of = table.ages();
                ages = ages.start.min(of.start.max(expired))..ages.end.max(of.end);
                let aged = (expired > of.start).then(|| workload.aged(table.mass(), of, expired));
                let mass = aged.as_deref().unwrap_or(table.mass());
                workload.merge_under(&mut merged, &mut visible, mass, part, (width, puts));
            }
            let is_deleted = |mass: &Mass| mass.tombstones > 0.0 || mass.covered > 0.0;
            if merged.iter().any(is_deleted) && !self.is_above(shape, target, &keys) {
                for mass in merged.iter_mut() {
                    (mass.tombstones, mass.covered) = (0.0, 0.0);
                }
            }
            segments.push(Segment::new(keys, merged, ages, workload));
        }
        for (keys, table) in &self.aside {
            let part = table.share(keys);
            let mut mass = Masses::of(workload.classes());
            mass.add_scaled(table.mass(), part);
            segments.push(Segment {
                aside: true,
                ..Segment::new(keys.clone(), mass, table.ages(), workload)
            });
        }
        segments.sort_unstable_by_key(|segment| segment.keys.start);
        segments
    }

    /// True if data older than the output lies anywhere at these keys.
    fn is_above(&self, shape: &Shape<VirtualTable>, target: &Target, keys: &Range<u64>) -> bool {
        let middle = keys.start + (keys.end - keys.start) / 2;
        let is_input = |id| self.ids.contains(&id);
        shape.older_may_hold(target.level, target.run, &key(middle), is_input)
    }
}

fn span(tables: impl Iterator<Item = VirtualTable>) -> Option<Range<u64>> {
    tables
        .map(|table| table.keys())
        .reduce(|a, b| a.start.min(b.start)..a.end.max(b.end))
}
