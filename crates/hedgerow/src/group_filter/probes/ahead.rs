//! Filters over several runs that know the tables of an edit before it is made. They come into the
//! tree together with the tables, so that no read looks at those tables without a filter.
//!
//! Merges add to the newest run of a level piece by piece, and the filter grows with it. Each piece
//! copies the filter and inserts the keys of the piece: a copy of 2 bytes per key of the group for
//! some hundreds of megabytes merged. Merges that add to one tree's filters below level 0 take
//! turns.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};

use crate::base::entry::RunId;
use crate::base::stats::Event;
use crate::design::in_force::DesignInForce;
use crate::design::merge_policy::shape::{GroupProbe, Run};
use crate::design::merge_policy::tree_edit::TreeEdit;
use crate::group_filter::multi_level_cuckoo::Sizing;
use crate::table::Table;
use crate::tree::engine::{Engine, lock};
use crate::tree::partition::Partition;
use crate::tree::version::Version;

use super::{Addition, Keys, base, entries_of, shared, with_growth};

/// The filters that an edit brings to a tree.
pub(crate) struct Ahead<'a> {
    ready: Vec<(Addition, GroupProbe)>,
    /// Held so that nobody else lets the filters grow until the edit is made.
    _growing: Option<MutexGuard<'a, ()>>,
}

/// The level, group and run that an edit adds tables to.
type Place = (usize, usize, RunId);

/// Builds the filters that know the tables that an edit will add. Nothing depends on a filter: a
/// filter that cannot be built now is built later, from the tables.
pub(crate) fn build<'a>(
    engine: &Engine,
    partition: &'a Partition,
    design: &DesignInForce,
    edit: &TreeEdit,
) -> Ahead<'a> {
    let mut ahead = Ahead {
        ready: Vec::new(),
        _growing: None,
    };
    let placed = edit.added.iter().map(|(place, _)| place);
    let mut levels = { placed.chain(edit.moved.iter().map(|(_, place)| place)) }
        .map(|place| usize::from(place.level))
        .filter(|level| shared(design, *level).is_some())
        .peekable();
    if levels.peek().is_none() || !edit.ranges.is_empty() {
        return ahead;
    }
    if levels.any(|level| level > 0) {
        ahead._growing = Some(lock(&partition.growing));
    }
    let version = partition.tree_owned().version.clone();
    for (place, tables) in added(engine, partition, &version, edit) {
        let addition = addition(design, &version, edit, place, tables);
        let Some(addition) = addition.and_then(|it| it.fitted(engine, design)) else {
            continue;
        };
        match addition.build(engine, &partition.keyspace) {
            Ok(ready) => ahead.ready.push(ready),
            Err(error) if engine.check_open().is_ok() => engine.tell(Event::BackgroundError {
                doing: "build a filter",
                error,
            }),
            Err(_) => {}
        }
    }
    ahead
}

/// The tables that an edit adds to each run. New tables are opened for the edit alone.
fn added(
    engine: &Engine,
    partition: &Partition,
    version: &Version,
    edit: &TreeEdit,
) -> BTreeMap<Place, Vec<Arc<Table>>> {
    let new = edit.added.iter();
    let new = new.map(|(place, meta)| (place, engine.table(meta, &partition.keyspace)));
    let moved = edit.moved.iter();
    let moved = moved.filter_map(|(id, place)| Some((place, version.table(*id)?.1.clone())));
    let mut added: BTreeMap<Place, Vec<_>> = BTreeMap::new();
    for (place, table) in new.chain(moved) {
        let place = (usize::from(place.level), place.group as usize, place.run);
        added.entry(place).or_default().push(table);
    }
    for tables in added.values_mut() {
        tables.sort_by(|a, b| a.meta().smallest_key.cmp(&b.meta().smallest_key));
    }
    added
}

fn addition(
    design: &DesignInForce,
    version: &Version,
    edit: &TreeEdit,
    (level, group, run): Place,
    mut tables: Vec<Arc<Table>>,
) -> Option<Addition> {
    let (fingerprint_bits, mode) = shared(design, level)?;
    let targets = design.targets(version);
    let runs_max = targets.get(level)?.runs_max as usize;
    if runs_max <= 1 {
        return None;
    }
    let here = version.levels.get(level)?.groups.get(group)?;
    let new = entries_of(&tables);
    let found = here.run(run).map_or(0, |run| entries_of(&run.tables));
    let whole = (found + new).max(found + to_come(version, level));

    let is_known = here.probes.first().is_some_and(|probe| probe.covers(run));
    let base = base(version, (level, group), run, |filter| {
        is_known || !filter.is_full_of_runs()
    });
    let stays = here.run(run).into_iter().flat_map(|run| &run.tables);
    let stays = stays.filter(|table| edit.removed.binary_search(&table.meta().id).is_err());
    let mut stays: Vec<_> = stays.cloned().collect();
    let grows = is_known && base.is_some();
    if !grows {
        tables.append(&mut stays);
    }
    let wanted = if grows { new } else { whole };
    let there = base
        .as_ref()
        .map_or(1, |base| base.runs.len() + usize::from(!grows));
    let runs_coming = runs_max.saturating_sub(there) as u64;
    let coming = runs_coming.saturating_mul(whole) + (whole - found - new) * u64::from(grows);
    let keys = Keys { wanted, coming };
    let sizing = Sizing {
        fingerprint_bits,
        runs_max,
        entries: with_growth(whole, coming),
        mode,
    };
    let runs = vec![Run::new(run, tables)];
    let addition = Addition::new(here, (level, group), base, runs, (sizing, keys));
    Some(Addition {
        rest: stays,
        ..addition
    })
}

/// The approximate number of keys that merges out of the level above will yet bring to each group
/// of a level.
fn to_come(version: &Version, level: usize) -> u64 {
    let above = level.checked_sub(1).map(|above| &version.levels[above]);
    let Some((above, through)) = above.and_then(|above| Some((above, above.draining?))) else {
        return 0;
    };
    let drained = above.runs().filter(|(_, run)| run.id <= through);
    let tables = drained.flat_map(|(_, run)| &run.tables);
    entries_of(tables) / version.levels[level].groups.len().max(1) as u64
}

impl Ahead<'_> {
    /// Puts the filters into the version that the edit has made.
    pub(crate) fn put(&mut self, version: &mut Version) {
        for (addition, probe) in self.ready.drain(..) {
            let level = version.levels.get_mut(addition.level);
            if let Some(group) = level.and_then(|it| it.group_mut(addition.group)) {
                addition.put(probe, group);
            }
        }
    }
}
