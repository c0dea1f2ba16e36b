//! Filters over several runs that know the tables of an edit before it is made. They come into the
//! tree together with the tables, so that no read looks at those tables without a filter.
//!
//! Merges add to the newest run of a level piece by piece, and the filter grows with it. Each piece
//! copies the filter and inserts the keys of the piece: a copy of 2 bytes per key of the group for
//! some hundreds of megabytes merged. Merges that add to one tree's filters below level 0 take
//! turns.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::entry::RunId;
use crate::base::stats::Job;
use crate::base::table_meta::TableMeta;
use crate::design::in_force::DesignInForce;
use crate::design::merge_policy::shape::Run;
use crate::design::merge_policy::tree_edit::TreeEdit;
use crate::group_filter::{Context, Version};
use crate::table::Table;

use super::CuckooSize;
use super::grow::{Addition, Keys, Ready, base, entries_of, shared, with_growth};

/// The level, group and run that an edit adds tables to.
type LevelRun = (usize, usize, RunId);

/// Builds the filters that know the tables that an edit will add. Nothing depends on a filter: a
/// filter that cannot be built now is built later, from the tables.
pub(super) fn build(
    cx: &Context<'_>,
    version: &Version,
    edit: &TreeEdit,
    open: &dyn Fn(&TableMeta) -> Arc<Table>,
) -> Vec<Ready> {
    let placed = edit.added.iter().map(|(place, _)| place);
    let mut levels = { placed.chain(edit.moved.iter().map(|(_, place)| place)) }
        .map(|place| usize::from(place.level))
        .filter(|level| shared(cx.design, *level).is_some());
    if levels.next().is_none() || !edit.ranges.is_empty() {
        return Vec::new();
    }
    let mut ready = Vec::new();
    for (place, tables) in added(version, edit, open) {
        let addition = addition(cx.design, version, edit, place, tables);
        let Some(addition) = addition.and_then(|it| it.fitted(cx)) else {
            continue;
        };
        match addition.build(cx) {
            Ok(built) => ready.push(built),
            Err(error) if cx.host.check_open().is_ok() => cx.host.report(Job::BuildFilter, error),
            Err(_) => {}
        }
    }
    ready
}

/// The tables that an edit adds to each run. New tables are opened for the edit alone.
fn added(
    version: &Version,
    edit: &TreeEdit,
    open: &dyn Fn(&TableMeta) -> Arc<Table>,
) -> BTreeMap<LevelRun, Vec<Arc<Table>>> {
    let new = edit.added.iter();
    let new = new.map(|(place, meta)| (place, open(meta)));
    let moved = edit.moved.iter();
    let moved = moved.filter_map(|(id, place)| Some((place, version.table(*id)?.1.clone())));
    let mut added: BTreeMap<LevelRun, Vec<_>> = BTreeMap::new();
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
    (level, group, run): LevelRun,
    mut tables: Vec<Arc<Table>>,
) -> Option<Addition> {
    let (fingerprint_bits, mode) = shared(design, level)?;
    let targets = design.targets(version);
    let runs_max = targets.get(level)?.several_runs()? as usize;
    let here = version.levels.get(level)?.groups.get(group)?;
    let new = entries_of(&tables);
    let found = here.run(run).map_or(0, |run| entries_of(&run.tables));
    let whole = (found + new).max(found + to_come(version, level));

    let is_known = here
        .filters
        .probes
        .first()
        .is_some_and(|probe| probe.covers(run));
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
    let sizing = CuckooSize {
        fingerprint_bits,
        runs_max,
        entries: with_growth(whole, coming),
        mode,
    };
    let runs = vec![Run::new(run, tables)];
    let mut addition = Addition::new(here, (level, group), base, runs, (sizing, keys));
    addition.rest = stays;
    Some(addition)
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
