//! Giving a keyspace another design while reads and writes run.
//!
//! The design is logged, then published as one pointer. Plans, flushes and tables that begin later
//! use the new design; running ones continue with the one that they began with. Ordinary merges
//! bring the trees to the new shape, and a crash between two of them is like any other. Readers
//! notice nothing: a version of a tree says where its tables are, whatever the design.
//!
//! Cost: one synced edit of the manifest.

use crate::base::error::Result;
use crate::base::options::Design;
use crate::base::stats::Event;
use crate::design::in_force::DesignInForce;
use crate::tree::engine::{Engine, KeyspaceCell};
use crate::tree::version::edit::{Change, KeyspaceChange};

/// Puts a design in force. Returns false, and does nothing, if it is in force already. The caller
/// settles the trees.
pub(crate) fn put_in_force(engine: &Engine, cell: &KeyspaceCell, design: Design) -> Result<bool> {
    let facts = &cell.facts;
    design.check()?;
    design.check_order(facts.key_order)?;
    let from = {
        let writer = engine.writer()?;
        let mut manifest = writer.manifest();
        cell.check_not_dropped()?;
        let from = facts.design_owned().design.clone();
        if from == design {
            return Ok(false);
        }
        let change = Change::Keyspace(facts.id, KeyspaceChange::SetDesign(design.clone()));
        engine.log_edit(writer, &mut manifest, vec![change])?;
        facts.operations.retuned();
        let active = engine.memory.plan().active();
        facts.set_design(DesignInForce::derive(
            design.clone(),
            &facts.layout(),
            active,
        ));
        from
    };
    engine.report(Event::Retuned {
        keyspace: facts.name(),
        from,
        to: design,
    });
    let now = engine.environment.clock.now();
    for partition in &cell.state.load().partitions {
        partition.work().retuned_at = Some(now);
    }
    Ok(true)
}
