//! Groups get multi-level cuckoo filters (SlimDB, section 3.2), and these grow.
//!
//! They are built from the hashes that tables keep. A flush, merge or move builds the filter for
//! its new tables first, and both come into the tree together ([`ahead`](super::ahead)). So a
//! filter covers a run from the start, even a run that merges out of the level above fill piece by
//! piece. A run may still lack a filter: the database was opened, the design changed, or a filter
//! did not fit. A job of its own builds that filter, and until then reads look at the run without
//! one.
//!
//! The filters of a group are *generations*. A run is added to the newest one (a copy, with the
//! run's keys inserted) as long as none of its runs is going down. Otherwise the run begins the
//! next generation.
//!
//! A filter is made for up to 1.5 times the present keys, since fingerprints do not say where
//! their keys would go in a larger one. When its slots run out, a larger one is built from the
//! hashes of all its runs. A key that the filter knows takes no slot, so the new keys are counted
//! first. A filter that does not fit the memory is made smaller, or begins another generation, or
//! is not made at all ([`Addition::fitted`]).
//!
//! Filters are also kept in files ([`stored`](super::stored)), so that the opening of a database
//! need not build them.
//!
//! Cost of adding a run: one read per table of about four bytes per key, and a copy of the filter.
//! Each key is inserted about twice while a group fills. Memory: up to 1.5 times the bytes that
//! the keys need, twice that while a filter is copied, and the hashes of one table's keys.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::base::entry::RunId;
use crate::base::error::Result;
use crate::base::mutex::lock;
use crate::base::page::TableId;
use crate::design::in_force::DesignInForce;
use crate::design::merge_policy::shape::{Group, RUNS_MAX, Run};
use crate::group_filter::{self, BuildStep, Context, GroupProbe, Version, VersionChange};
use crate::table::Table;
use crate::table::filter::Probe;

use super::kept::{CuckooProbe, FilePart, NoPages, counted, has_memory};
use super::{CuckooSize, Mode, MultiLevelCuckoo, hash_of};

/// Fingerprints get shorter, down to this, while a filter takes more than half of the free memory
/// for filters. An answer then names a run in vain for 8 of 256 absent keys.
const FAIR_FINGERPRINT_BITS: u8 = 8;
/// Fingerprints get shorter, down to this, while the filter does not fit at all.
const SHORT_FINGERPRINT_BITS: u8 = 6;
/// A new filter has room for one future key per `GROWTH` present keys.
const GROWTH: u64 = 2;

/// The plan for one new or larger filter of a group.
pub(super) struct Addition {
    level: usize,
    group: usize,
    /// The filter that gets the runs, or that the new one replaces.
    base: Option<GroupProbe>,
    /// The runs that it has, newest first.
    known: Vec<Run<Arc<Table>>>,
    /// The runs to add, oldest first, with the tables that they have now. If the base grows: the
    /// tables that its newest run gets.
    runs: Vec<Run<Arc<Table>>>,
    /// True if the base has the newest run.
    grows: bool,
    /// The tables that the newest run has already.
    pub(super) rest: Vec<Arc<Table>>,
    /// True if the base may lack slots; only the hashes of the keys can tell for certain.
    is_tight: bool,
    /// The sizing of a new filter.
    sizing: CuckooSize,
    keys: Keys,
}

/// The keys that need room now, and those that the group may get later.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keys {
    pub(super) wanted: u64,
    pub(super) coming: u64,
}

/// The filter that the runs of a level share: bits of a fingerprint, and its first mode.
pub(super) fn shared(design: &DesignInForce, level: usize) -> Option<(u8, Mode)> {
    Mode::of_spec(design.design.filter_at(level))
}

/// The first filter that is lacking and has room.
pub(super) fn lacking(cx: &Context<'_>, version: &Version) -> Option<Addition> {
    let mut levels = (0..version.depth())
        .filter_map(|level| Some((level, shared(cx.design, level)?)))
        .peekable();
    levels.peek()?;
    let targets = cx.design.targets(version);
    levels.find_map(|(level, kind)| {
        let runs_max = targets.get(level)?.several_runs()? as usize;
        let mut groups = 0..version.levels[level].groups.len();
        groups.find_map(|group| addition(version, (level, group), kind, runs_max)?.fitted(cx))
    })
}

fn addition(
    version: &Version,
    (level, group): (usize, usize),
    kind: (u8, Mode),
    runs_max: usize,
) -> Option<Addition> {
    let it = &version.levels[level];
    let here = &it.groups[group];
    let growing = it.newest_run().filter(|_| grows(version, level));
    let lacks = |run: &&Run<_>| Some(run.id) != growing && !here.filters.cover(run.id);
    let mut runs: Vec<_> = here.runs.iter().rev().filter(lacks).cloned().collect();
    let first = runs.first()?;

    let base = base(version, (level, group), first.id, |filter| {
        !filter.is_full_of_runs()
    });
    if base.is_some() {
        runs.truncate(1);
    }
    let largest = runs.iter().map(|run| entries_of(&run.tables)).max();
    let there = runs.len() + base.as_ref().map_or(0, |base| base.runs.len());
    let coming = runs_max.saturating_sub(there) as u64;
    let keys = Keys {
        wanted: entries_of(runs.iter().flat_map(|run| &run.tables)),
        coming: coming.saturating_mul(largest.unwrap_or(0)),
    };
    let sizing = CuckooSize {
        fingerprint_bits: kind.0,
        runs_max: runs_max.max(runs.len()),
        entries: with_growth(keys.wanted, keys.coming),
        mode: kind.1,
    };
    Some(Addition::new(
        here,
        (level, group),
        base,
        runs,
        (sizing, keys),
    ))
}

/// The keys that a new filter is made for.
pub(super) fn with_growth(wanted: u64, coming: u64) -> u64 {
    wanted.saturating_add(coming.min(wanted / GROWTH))
}

/// Returns true if merges out of the level above bring tables to the newest run of a level.
fn grows(version: &Version, level: usize) -> bool {
    let above = level.checked_sub(1).map(|above| &version.levels[above]);
    above.is_some_and(|above| above.draining.is_some())
}

/// The newest filter of a group, if a run can come into it: its runs are older, and all of them
/// stay.
pub(super) fn base(
    version: &Version,
    (level, group): (usize, usize),
    run: RunId,
    has_room: impl Fn(&MultiLevelCuckoo) -> bool,
) -> Option<GroupProbe> {
    let it = &version.levels[level];
    let here = &it.groups[group];
    let stays = |id: &RunId| {
        let is_left = it.draining.is_none_or(|to| *id > to);
        *id <= run && is_left && here.run(*id).is_some()
    };
    let is_base = |probe: &&GroupProbe| {
        let filter = counted(probe).map(|counted| &counted.filter);
        probe.outgrown.is_empty() && probe.runs.iter().all(stays) && filter.is_some_and(&has_room)
    };
    here.filters.probes.first().filter(is_base).cloned()
}

/// The number of entries of some tables. The sum saturates.
pub(super) fn entries_of<'a>(tables: impl IntoIterator<Item = &'a Arc<Table>>) -> u64 {
    let each = tables.into_iter().map(|table| table.meta().entries);
    each.fold(0, u64::saturating_add)
}

/// The forms of a filter of at least `entries_min` keys, the best first. Each comes with a factor:
/// memory must have room for that many times its size.
fn smaller_forms(mut form: CuckooSize, entries_min: u64) -> Vec<(CuckooSize, u64)> {
    let mut forms = vec![(form, 2)];
    while form.entries > entries_min {
        form.entries = entries_min.max(form.entries / 2);
        forms.push((form, 2));
    }
    while form.fingerprint_bits > FAIR_FINGERPRINT_BITS {
        form.fingerprint_bits -= 1;
        forms.push((form, 2));
    }
    forms.push((form, 1));
    while form.fingerprint_bits > SHORT_FINGERPRINT_BITS {
        form.fingerprint_bits -= 1;
        forms.push((form, 1));
    }
    forms
}

impl Addition {
    pub(super) fn new(
        here: &Group<Arc<Table>>,
        (level, group): (usize, usize),
        base: Option<GroupProbe>,
        runs: Vec<Run<Arc<Table>>>,
        (sizing, keys): (CuckooSize, Keys),
    ) -> Addition {
        let newest = runs.last().map(|run| run.id);
        let known = base.iter().flat_map(|base| base.runs.iter());
        let known: Vec<_> = known.filter_map(|id| here.run(*id).cloned()).collect();
        let filter = base.as_ref().and_then(counted);
        Addition {
            level,
            group,
            grows: known.iter().any(|run| Some(run.id) == newest),
            is_tight: filter.is_some_and(|it| !it.filter.has_slots_for(keys.wanted)),
            base,
            known,
            runs,
            rest: Vec::new(),
            sizing,
            keys,
        }
    }

    /// Chooses the largest form that the memory has room for. If the base may lack slots, a larger
    /// filter of all its runs replaces it; without memory for that, a new one comes beside it. A
    /// new filter first gives up room for future keys, so that half of the free memory stays for
    /// other filters. Then it gets shorter fingerprints, and then it leaves out the oldest runs.
    /// `None` if not even the newest run fits.
    pub(super) fn fitted(mut self, cx: &Context<'_>) -> Option<Addition> {
        // A filter may be impossible at this size.
        let fits = |sizing: &CuckooSize, times| {
            let bytes = sizing.memory_bytes();
            bytes.is_some_and(|bytes| has_memory(cx, times * bytes))
        };
        if let Some(base) = self.base.as_ref().and_then(counted) {
            if !self.is_tight || fits(&self.larger(&base.filter, self.keys), 1) {
                return Some(self);
            }
            self.leave_base();
        }
        loop {
            let forms = smaller_forms(self.sizing, self.keys.wanted);
            if let Some((sizing, _)) = forms.iter().find(|(sizing, times)| fits(sizing, *times)) {
                self.sizing = *sizing;
                return Some(self);
            }
            if self.runs.len() <= 1 {
                return None;
            }
            let oldest = self.runs.remove(0);
            let left = self.keys.wanted.saturating_sub(entries_of(&oldest.tables));
            self.keys.wanted = left;
            self.sizing.entries = left;
        }
    }

    /// The filter that replaces one that lacks slots.
    fn larger(&self, base: &MultiLevelCuckoo, keys: Keys) -> CuckooSize {
        let wanted = base.load().saturating_add(keys.wanted);
        // A group may have more runs than the design gives its level while merges are late.
        let runs = self.known.len() + self.runs.len();
        CuckooSize {
            runs_max: self.sizing.runs_max.max(runs).min(RUNS_MAX),
            entries: with_growth(wanted, keys.coming),
            mode: base.mode(),
            fingerprint_bits: self.sizing.fingerprint_bits,
        }
    }

    /// Gives the newest run all its tables again.
    fn complete_newest(&mut self) {
        if let Some(newest) = self.runs.pop() {
            let tables = newest.tables.iter().chain(&self.rest).cloned();
            self.runs.push(Run::new(newest.id, tables.collect()));
        }
        self.rest.clear();
    }

    /// Gives the runs a filter of their own, beside the base. It needs slots for the keys that the
    /// newest run has already, too.
    fn leave_base(&mut self) {
        self.keys.wanted = self.keys.wanted.saturating_add(entries_of(&self.rest));
        self.sizing.entries = self.sizing.entries.max(self.keys.wanted);
        self.complete_newest();
        self.known.clear();
        self.base = None;
    }

    /// Adds the runs of the base to the new filter.
    fn take_known(&mut self) {
        self.complete_newest();
        let newest = self.runs.last().map(|run| run.id);
        let known = std::mem::take(&mut self.known).into_iter().rev();
        let mut runs: Vec<_> = known.filter(|run| Some(run.id) != newest).collect();
        runs.append(&mut self.runs);
        self.runs = runs;
    }

    /// The filter that the runs come into: a copy of the base, or a new one for all runs. Cost: the
    /// hashes of the new keys are read if the base may lack slots.
    fn begin(&mut self, cx: &Context<'_>) -> Result<MultiLevelCuckoo> {
        let base = self.base.clone();
        let Some(base) = base.as_ref().and_then(counted) else {
            return MultiLevelCuckoo::new(self.sizing);
        };
        if self.is_tight {
            let keys = self.unknown_keys(&base.filter, cx)?;
            if !base.filter.has_slots_for(keys.wanted) {
                self.sizing = self.larger(&base.filter, keys);
                self.take_known();
                return MultiLevelCuckoo::new(self.sizing);
            }
        }
        Ok(base.filter.copy())
    }

    /// The number of keys that the base does not know, estimated by their share of the keys at
    /// hand.
    fn unknown_keys(&self, base: &MultiLevelCuckoo, cx: &Context<'_>) -> Result<Keys> {
        let (mut at_hand, mut unknown) = (0, 0);
        for table in self.runs.iter().flat_map(|run| &run.tables) {
            let hashes = hashes_of(cx, table)?;
            at_hand += hashes.len() as u64;
            unknown += base.count_unknown(&hashes);
            cx.host.check_open()?;
        }
        let share = unknown as f64 / at_hand.max(1) as f64;
        Ok(Keys {
            wanted: (self.keys.wanted as f64 * share).ceil() as u64,
            coming: (self.keys.coming as f64 * share).ceil() as u64,
        })
    }

    /// The filter, and the plan as it was carried out.
    pub(super) fn build(mut self, cx: &Context<'_>) -> Result<Ready> {
        let before = self.base.clone();
        let before = before.as_ref().and_then(counted);
        // Makes room in memory first.
        let bytes = before.map_or(0, |base| base.filter.memory_bytes() as u64);
        let bytes = bytes.max(self.sizing.memory_bytes().unwrap_or(0));
        let mut buffers = cx.tables.memory.buffers(bytes as usize);
        let new_bytes: u64 = self.runs.iter().map(Run::bytes).sum();
        let mut filter = self.begin(cx)?;
        let is_new = filter.runs() == 0;
        let base = self.base.iter().filter(|_| !is_new);
        let mut ids: Vec<RunId> = base.flat_map(|base| base.runs.to_vec()).collect();
        for run in &self.runs {
            if is_new || !self.grows {
                filter.begin_run()?;
                ids.insert(0, run.id);
            }
            // Reads the hashes of one table at a time: those of a run take four times the filter's
            // memory.
            for table in &run.tables {
                let hashes = hashes_of(cx, table)?;
                buffers.resize(filter.memory_bytes() + hashes.len() * size_of::<u64>());
                filter.grow(hashes);
                cx.host.check_open()?;
            }
        }
        drop(buffers);
        let mut stored = before.map_or_else(FilePart::default, |base| lock(&base.stored).clone());
        stored.unwritten_bytes += new_bytes;
        let filter = CuckooProbe::new(filter, cx.tables.memory.clone(), stored);
        let filter: Arc<dyn Probe> = Arc::new(filter);
        let probe = GroupProbe::new(ids.into(), filter, Arc::new(NoPages));
        Ok(Ready {
            addition: self,
            probe,
        })
    }

    /// Replaces the base of a group by the filter, if the filter knows all that the runs hold now.
    fn put(&self, probe: GroupProbe, group: &mut Group<Arc<Table>>) {
        if !self.fits(group) {
            return;
        }
        let probes = &mut group.filters.probes;
        probes.retain(|probe| !self.is_base(probe));
        // The newest comes first: a newer run may have a filter before an older run gets one.
        let newest = probe.runs.iter().max();
        let older = probes.iter().position(|it| it.runs.iter().max() < newest);
        probes.insert(older.unwrap_or(probes.len()), probe);
    }

    fn is_base(&self, probe: &GroupProbe) -> bool {
        let base = self.base.as_ref();
        base.is_some_and(|base| Arc::ptr_eq(&base.filter, &probe.filter))
    }

    /// Returns true if the filter knows all that the runs hold. They may have lost tables, not
    /// gained any.
    fn fits(&self, group: &Group<Arc<Table>>) -> bool {
        let known: BTreeSet<TableId> = { self.known.iter().chain(&self.runs) }
            .flat_map(|run| run.tables.iter().map(|table| table.meta().id))
            .collect();
        let knows = |run: &Run<Arc<Table>>| {
            let mut tables = group.run(run.id).into_iter().flat_map(|run| &run.tables);
            tables.all(|table| known.contains(&table.meta().id))
        };
        let is_there = |run: &Run<Arc<Table>>| group.run(run.id).is_some();
        // A base that grows may be gone, because its newest run got tables that it does not know.
        // Nobody else replaces it meanwhile.
        let has_base = self.base.is_none()
            || self.grows
            || group.filters.probes.iter().any(|p| self.is_base(p));
        has_base && self.runs.iter().all(is_there) && self.known.iter().chain(&self.runs).all(knows)
    }
}

impl BuildStep for Addition {
    fn takes_a_turn(&self) -> bool {
        self.level > 0
    }

    fn run(self: Box<Self>, cx: &Context<'_>, _: &Version) -> Result<Option<VersionChange>> {
        Ok(Some(self.build(cx)?.change()))
    }
}

/// A filter that is built, and the plan as it was carried out.
pub(super) struct Ready {
    addition: Addition,
    probe: GroupProbe,
}

impl Ready {
    /// Puts the filter into a tree, unless the runs have changed meanwhile.
    pub(super) fn change(self) -> VersionChange {
        Box::new(move |version| {
            let Ready { addition, probe } = self;
            let level = version.levels.get_mut(addition.level);
            if let Some(group) = level.and_then(|it| it.group_mut(addition.group)) {
                addition.put(probe, group);
            }
        })
    }
}

/// The hashes of the keys of a table, ascending and without repetition.
fn hashes_of(cx: &Context<'_>, table: &Arc<Table>) -> Result<Vec<u64>> {
    if let Some(stored) = table.reader()?.key_hashes()? {
        return Ok(stored);
    }
    let mut hashes = Vec::new();
    group_filter::hash_keys(cx, table, |hash| hashes.push(hash_of(hash)))?;
    hashes.sort_unstable();
    hashes.dedup();
    Ok(hashes)
}
