//! Filters over the runs of a group: one for all of them, in place of one for each table (SlimDB,
//! section 3.2; [`crate::filter::multi_level_cuckoo`]).
//!
//! They are built beside flushes and merges, of the hashes that tables keep, and come into the tree
//! by themselves: until a run is covered, reads ask it without a filter. So flushes, merges, moves,
//! bulk loads and opening a database are all alike. A run is covered when it is whole: not while
//! merges out of the level above still bring it tables.
//!
//! The filters of a group are *generations*: a run is added to the newest one (a copy, with the
//! run's keys inserted) as long as there is room and none of its runs is going down; otherwise it
//! begins the next.
//!
//! In unique mode a filter must be told which keys of a new run its older runs hold, too. Their hashes say so,
//! also of what was written blindly and of deleted keys, of which no flag of an entry could.
//!
//! They are kept in files, too ([`stored`]), so that a database need not build them when it is opened.
//!
//! Cost: of adding a run, one read per table of about four bytes per key, in unique mode also of the
//! older runs; and a copy of the filter.
//! Memory: a filter is made for the full group at once, since fingerprints do not say where their
//! keys would go in a larger one; twice that while it is copied, and 24 bytes per key of the run.

pub(crate) mod clusters;
pub(crate) mod stored;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use crate::engine::{Engine, lock};
use crate::entry::KeyHash;
use crate::error::{Error, ErrorKind, Result};
use crate::filter::multi_level_cuckoo::{Mode, MultiLevelCuckoo, Prior, Sizing, hash_of};
use crate::filter::{Probe, RunMask};
use crate::memory::Memory;
use crate::merge_policy::shape::{Group, GroupProbe, Run, RunId};
use crate::options::FilterSpec;
use crate::page::{Page, PageId, PageSource, Step};
use crate::partition::{DesignInForce, KeyspaceFacts, Partition};
use crate::runtime::Priority;
use crate::stats::Event;
use crate::table::Table;
use crate::table::open::{STREAM_BYTES_MIN, StreamedPages};
use crate::version::Version;
use stored::Stored;

/// Begins to build the filters that a tree lacks, if nobody does.
pub(crate) fn schedule(engine: &Arc<Engine>, partition: &Arc<Partition>) {
    {
        let mut work = partition.work();
        if work.probing || next(engine, partition).is_none() {
            return;
        }
        work.probing = true;
    }
    let (engine_ref, partition) = (Arc::downgrade(engine), partition.clone());
    engine.scheduler.submit(Priority::MergeTop, move || {
        let Some(engine) = engine_ref.upgrade() else {
            return;
        };
        let mut on_panic = OnPanic(Some(&partition));
        build_all(&engine, &partition);
        on_panic.0 = None;
        engine.remove_obsolete();
        engine.scheduler.notify_progress();
    });
}

/// A panic, which would be a bug, must not keep later filters from being built.
struct OnPanic<'a>(Option<&'a Partition>);

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if let Some(partition) = self.0 {
            partition.work().probing = false;
        }
    }
}

fn build_all(engine: &Engine, partition: &Partition) {
    loop {
        let step = {
            let mut work = partition.work();
            let step = next(engine, partition);
            // Whoever changes the tree from now on begins anew.
            work.probing = step.is_some();
            step
        };
        let Some(step) = step else { return };
        if let Err(error) = step.run(engine, partition) {
            let mut work = partition.work();
            work.probing = false;
            work.merge_failure = Some(error.clone());
            drop(work);
            if error.kind() != ErrorKind::Closed {
                engine.tell(&Event::BackgroundError {
                    doing: "build a filter",
                    error,
                });
            }
            return;
        }
        stored::write_due(engine, partition);
    }
}

/// What filters over several runs lack.
pub(crate) enum NextStep {
    Add(Addition),
    Cluster(clusters::Task),
}

impl NextStep {
    fn run(&self, engine: &Engine, partition: &Partition) -> Result<()> {
        match self {
            NextStep::Cluster(task) => task.run(engine, partition),
            NextStep::Add(addition) => {
                let probe = addition.build(engine, &partition.keyspace)?;
                addition.install(engine, partition, probe)
            }
        }
    }
}

/// What a filter of a group is to be made of.
pub(crate) struct Addition {
    level: usize,
    group: usize,
    /// The filter that gets the run; otherwise there will be a new one.
    base: Option<GroupProbe>,
    /// The runs that it has.
    known: Vec<Run<Arc<Table>>>,
    /// Oldest first, with the tables that they have now.
    runs: Vec<Run<Arc<Table>>>,
    /// Of a new filter.
    sizing: Sizing,
}

/// What the filters of a tree lack.
pub(crate) fn next(engine: &Engine, partition: &Partition) -> Option<NextStep> {
    if engine.writer().is_err() || partition.is_dropped() {
        return None;
    }
    let design = partition.keyspace.design();
    let version = &partition.tree().version;
    let task = || clusters::next(engine, &design, version).map(NextStep::Cluster);
    lacking(&design, version).map(NextStep::Add).or_else(task)
}

fn lacking(design: &DesignInForce, version: &Version) -> Option<Addition> {
    let shared = |level| match design.design.filter_at(level) {
        FilterSpec::MultiLevelCuckoo {
            fingerprint_bits,
            unique,
        } => Some((
            fingerprint_bits,
            if unique { Mode::Unique } else { Mode::Set },
        )),
        _ => None,
    };
    let mut levels = (0..version.depth())
        .filter_map(|level| Some((level, shared(level)?)))
        .peekable();
    levels.peek()?;
    let targets = super::targets(design, version);
    levels.find_map(|(level, kind)| {
        let runs_max = targets.get(level)?.runs_max as usize;
        if runs_max <= 1 {
            return None;
        }
        let mut groups = 0..version.levels[level].groups.len();
        groups.find_map(|group| addition(version, (level, group), kind, runs_max))
    })
}

fn addition(
    version: &Version,
    (level, group): (usize, usize),
    (fingerprint_bits, mode): (u8, Mode),
    runs_max: usize,
) -> Option<Addition> {
    let it = &version.levels[level];
    let here = &it.groups[group];
    let above = level.checked_sub(1).map(|above| &version.levels[above]);
    let grows = above.is_some_and(|above| above.draining.is_some());
    let growing = it.newest_run().filter(|_| grows);
    let is_covered = |id| here.probes.iter().any(|probe| probe.runs.contains(&id));
    let lacks = |run: &&Run<_>| Some(run.id) != growing && !is_covered(run.id);
    let mut runs: Vec<_> = here.runs.iter().rev().filter(lacks).cloned().collect();
    let first = entries_of(runs.get(..1)?);

    let stays = |id: &RunId| here.run(*id).is_some() && it.draining.is_none_or(|to| *id > to);
    let base = here.probes.first().filter(|probe| {
        let filter = counted(probe).map(|counted| &counted.filter);
        probe.runs.iter().all(stays) && filter.is_some_and(|it| it.has_room_for(first))
    });
    if base.is_some() {
        runs.truncate(1);
    }
    let largest = runs.chunks(1).map(entries_of).max().unwrap_or(0);
    let coming = runs_max.saturating_sub(runs.len()) as u64;
    let sizing = Sizing {
        fingerprint_bits,
        runs_max: runs_max.max(runs.len()),
        entries: entries_of(&runs).saturating_add(coming.saturating_mul(largest)),
        mode,
    };
    let known = base.iter().flat_map(|base| base.runs.iter());
    Some(Addition {
        level,
        group,
        base: base.cloned(),
        known: known.filter_map(|id| here.run(*id).cloned()).collect(),
        runs,
        sizing,
    })
}

/// Sums stop at the largest number.
fn entries_of(runs: &[Run<Arc<Table>>]) -> u64 {
    let tables = runs.iter().flat_map(|run| &run.tables);
    tables.fold(0, |sum, table| table.meta().entries.saturating_add(sum))
}

impl Addition {
    fn build(&self, engine: &Engine, facts: &KeyspaceFacts) -> Result<GroupProbe> {
        let mut filter = match self.base.as_ref().and_then(counted) {
            Some(base) => base.filter.copy(),
            None => MultiLevelCuckoo::new(self.sizing)?,
        };
        let mut ids: Vec<RunId> = self.base.iter().flat_map(|b| b.runs.to_vec()).collect();
        for (at, run) in self.runs.iter().enumerate() {
            let hashes = hashes_of_run(run, facts)?;
            let mut keys: Vec<_> = hashes.into_iter().map(|it| (it, Prior::Absent)).collect();
            if filter.mode() == Mode::Unique {
                for older in self.known.iter().chain(&self.runs[..at]) {
                    engine.check_open()?;
                    mark_found(&mut keys, hashes_of_run(older, facts)?);
                }
            }
            engine.check_open()?;
            filter.push(keys)?;
            ids.insert(0, run.id);
        }
        let base = self.base.as_ref().and_then(counted);
        let mut stored = base.map_or_else(Stored::default, |base| lock(&base.stored).clone());
        stored.unwritten_bytes += self.runs.iter().map(Run::bytes).sum::<u64>();
        let filter = Counted::new(filter, engine.memory.clone(), stored);
        let filter: Arc<dyn Probe> = Arc::new(filter);
        Ok(GroupProbe {
            runs: ids.into(),
            filter,
            pages: Arc::new(NoPages),
        })
    }

    /// Puts the filter into the tree, unless the runs have changed meanwhile.
    fn install(&self, engine: &Engine, partition: &Partition, probe: GroupProbe) -> Result<()> {
        // Versions replace one another under this lock.
        let _manifest = engine.writer()?.manifest();
        let mut version = (*partition.tree().version).clone();
        let level = version.levels.get_mut(self.level);
        let Some(group) = level.and_then(|level| level.groups.get_mut(self.group)) else {
            return Ok(());
        };
        if self.fits(group) {
            group.probes.retain(|probe| !self.is_base(probe));
            group.probes.insert(0, probe);
            partition.install(Arc::new(version), None);
        }
        Ok(())
    }

    fn is_base(&self, probe: &GroupProbe) -> bool {
        let base = self.base.as_ref();
        base.is_some_and(|base| Arc::ptr_eq(&base.filter, &probe.filter))
    }

    /// Whether a filter knows all that the runs hold. They may have lost tables, not got any.
    fn fits(&self, group: &Group<Arc<Table>>) -> bool {
        let knows = |known: &Run<Arc<Table>>| {
            let is_known = |table: &Arc<Table>| {
                let tables = &known.tables;
                tables.iter().any(|it| it.meta().id == table.meta().id)
            };
            let run = group.run(known.id);
            run.is_some_and(|run| run.tables.iter().all(is_known))
        };
        // A filter whose runs got tables is not there any more.
        let has_base = self.base.is_none() || group.probes.iter().any(|p| self.is_base(p));
        has_base && self.runs.iter().all(knows)
    }
}

/// Notes which keys an older run holds; both ascend.
fn mark_found(keys: &mut [(u64, Prior)], older: Vec<u64>) {
    let mut keys = keys.iter_mut().peekable();
    for hash in older {
        while keys.next_if(|key| key.0 < hash).is_some() {}
        if let Some(key) = keys.next_if(|key| key.0 == hash) {
            key.1 = Prior::Found;
        }
    }
}

/// The hashes of a run's keys, ascending, each once.
fn hashes_of_run(run: &Run<Arc<Table>>, facts: &KeyspaceFacts) -> Result<Vec<u64>> {
    let mut hashes = Vec::new();
    for table in &run.tables {
        match table.reader()?.key_hashes()? {
            Some(stored) => hashes.extend(stored),
            None => hash_keys(table, facts, &mut hashes)?,
        }
    }
    hashes.sort_unstable();
    hashes.dedup();
    Ok(hashes)
}

/// Of a table written for a level with other filters. Cost: it is read whole.
fn hash_keys(table: &Arc<Table>, facts: &KeyspaceFacts, hashes: &mut Vec<u64>) -> Result<()> {
    let pages = StreamedPages::new(table.clone(), STREAM_BYTES_MIN);
    let mut iter = table.reader()?.clone().iter(Arc::new(pages));
    iter.seek_first()?;
    while let Some(entry) = iter.entry() {
        let hash = KeyHash::of(facts.order.decode(entry.key), facts.seed);
        hashes.push(hash_of(hash));
        iter.advance()?;
    }
    Ok(())
}

/// A filter whose bytes count in the memory budget as long as anybody has it.
#[derive(Debug)]
struct Counted {
    filter: MultiLevelCuckoo,
    memory: Arc<Memory>,
    stored: Mutex<Stored>,
}

impl Counted {
    fn new(filter: MultiLevelCuckoo, memory: Arc<Memory>, stored: Stored) -> Counted {
        let bytes = filter.memory_bytes() as u64;
        memory.filters.fetch_add(bytes, Ordering::Relaxed);
        memory.note();
        let stored = Mutex::new(stored);
        Counted {
            filter,
            memory,
            stored,
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let bytes = self.filter.memory_bytes() as u64;
        self.memory.filters.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Probe for Counted {
    fn candidates(&self, hash: KeyHash, page: Option<&Page>) -> Result<Step<RunMask>> {
        self.filter.candidates(hash, page)
    }

    fn knows_newest_only(&self) -> bool {
        self.filter.knows_newest_only()
    }

    fn touch(&self, hash: KeyHash) {
        self.filter.touch(hash);
    }

    fn memory_bytes(&self) -> usize {
        self.filter.memory_bytes()
    }
}

/// The filter in a probe, if it was built here.
fn counted(probe: &GroupProbe) -> Option<&Counted> {
    let filter: &dyn std::any::Any = &*probe.filter;
    filter.downcast_ref()
}

/// Of a filter that is in memory.
struct NoPages;

impl PageSource for NoPages {
    fn page(&self, id: PageId) -> Result<Page> {
        Err(Error::corruption(format!(
            "expected no page to be asked for by a filter in memory, found {id:?}"
        )))
    }
}
