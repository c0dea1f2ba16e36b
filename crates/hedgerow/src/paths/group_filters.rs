//! Filters over the runs of groups: they come into a tree with an edit's tables, and a background
//! job builds what a tree lacks. [`group_filter`] has the filters themselves.

use std::path::PathBuf;
use std::sync::Arc;

use crate::base::entry::{PartitionId, SeqNo};
use crate::base::error::{Error, Result};
use crate::base::mutex::lock;
use crate::base::page::TableId;
use crate::base::stats::Job;
use crate::design::in_force::DesignInForce;
use crate::design::merge_policy::tree_edit::TreeEdit;
use crate::group_filter::{self, BuildStep, Context, Host, filters_dir};
use crate::tree::engine::Engine;
use crate::tree::memtable::Memtable;
use crate::tree::partition::{KeyspaceFacts, Partition};
use crate::tree::version::Version;

impl Host for Engine {
    fn filters_dir(&self) -> PathBuf {
        let directories = &self.directories;
        filters_dir(&directories.places.filters_root(&directories.root))
    }

    fn next_number(&self) -> Result<TableId> {
        match &self.writer {
            // Filters are written while the database is being closed, too.
            Some(writer) => Ok(writer.ids.next_table()),
            None => self.writer().map(|writer| writer.ids.next_table()),
        }
    }

    fn pace(&self, bytes: u64) -> Result<()> {
        Engine::pace(self, bytes)
    }

    fn check_open(&self) -> Result<()> {
        Engine::check_open(self)
    }

    fn report(&self, job: Job, error: Error) {
        self.report_failure(job, error);
    }
}

/// The parts of the engine that the filters of a tree use.
pub(crate) fn context<'a>(
    engine: &'a Engine,
    partition: &'a Partition,
    design: &'a DesignInForce,
) -> Context<'a> {
    let facts = &partition.keyspace;
    context_at_opening(engine, facts, design, partition.id)
}

/// The same for a tree that is being opened, before there is a partition.
pub(crate) fn context_at_opening<'a>(
    engine: &'a Engine,
    facts: &'a KeyspaceFacts,
    design: &'a DesignInForce,
    partition: PartitionId,
) -> Context<'a> {
    Context {
        tables: &engine.tables,
        owner: facts.owner(partition),
        order: &*facts.order,
        design,
        host: engine,
    }
}

/// Installs an edit as [`Engine::install`] does, together with the filters that know the tables
/// that it adds. If that fails, these tables are removed.
pub(crate) fn install(
    engine: &Engine,
    partition: &Partition,
    design: &DesignInForce,
    edit: TreeEdit,
    flushed: Option<(&Arc<Memtable>, SeqNo)>,
    unless_taken: Option<u64>,
) -> Result<()> {
    let added: Vec<_> = edit.added.iter().map(|(_, meta)| meta.clone()).collect();
    let placed = edit.added.iter().map(|(place, _)| place);
    let mut placed = placed.chain(edit.moved.iter().map(|(_, place)| place));
    let turn = placed.any(|place| place.level > 0);
    // Held so that nobody else lets the filters grow until the edit is made.
    let turn = turn.then(|| lock(&partition.filters.turn));
    let version = partition.tree_owned().version.clone();
    let open = |meta: &_| engine.table(meta, &partition.keyspace);
    let cx = context(engine, partition, design);
    let filters = group_filter::prepare(&cx, &version, &edit, &open);
    let put = |version: &mut Version| filters.into_iter().for_each(|change| change(version));
    let installed = engine.install(partition, edit, flushed, unless_taken, put);
    drop(turn);
    if installed.is_err() {
        engine.remove_unnamed(partition, &added);
    }
    installed
}

/// The next thing that the filters of a tree lack.
pub(crate) fn next(engine: &Engine, partition: &Partition) -> Option<Box<dyn BuildStep>> {
    if engine.writer().is_err() || partition.is_dropped() {
        return None;
    }
    let design = partition.keyspace.design();
    let cx = context(engine, partition, &design);
    group_filter::next(&cx, &partition.tree().version)
}

/// Builds what the filters of a tree lack, and puts it into the tree.
pub(crate) fn carry_out(
    engine: &Engine,
    partition: &Partition,
    step: Box<dyn BuildStep>,
) -> Result<()> {
    let _turn = step.takes_a_turn().then(|| lock(&partition.filters.turn));
    let design = partition.keyspace.design_owned();
    let tree = partition.tree_owned();
    let cx = context(engine, partition, &design);
    let Some(change) = step.run(&cx, &tree.version)? else {
        return Ok(());
    };
    // Versions replace one another under this lock.
    let _manifest = engine.writer()?.manifest();
    let mut version = (*partition.tree().version).clone();
    change(&mut version);
    partition.install(Arc::new(version), None);
    Ok(())
}
