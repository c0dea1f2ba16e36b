//! Slots: what a database keeps of its log, and beside it, for consumers of its changes.
//!
//! Without a slot the database keeps nothing, and no write does anything for the feed. While there
//! are slots,
//!
//! * segments that recovery does not need are kept for the slots, up to the limit of each;
//! * every change that the log does not have, of keyspaces or by tables, takes a number with a
//!   *mark* in the log. The mark is written when the manifest has the change. So a reader of the
//!   log that meets a mark finds the change;
//! * the tables of bulk loads have a second name until every slot is past them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::entry::SeqNo;
use crate::base::error::{Error, Result};
use crate::paths::write;
use crate::paths::write::UnloggedNumber;
use crate::tree::engine::Engine;
use crate::tree::version::edit::{Change, Slot};

/// A number for a change that the log does not have, if there is a slot. Everything before it is
/// durable.
pub(crate) fn number(engine: &Arc<Engine>) -> Result<Option<UnloggedNumber<'_>>> {
    let writer = engine.writer()?;
    if !writer.has_slots.load(Ordering::Acquire) {
        return Ok(None);
    }
    let number = write::skip_number(engine)?;
    engine.publisher.wait(number.seqno.0 - 1);
    writer.log.sync_through(number.log_end)?;
    Ok(Some(number))
}

/// Creates a slot that keeps all changes from now on. Returns its position.
pub(crate) fn create(engine: &Arc<Engine>, name: &str, log_bytes_max: u64) -> Result<u64> {
    let writer = engine.writer()?;
    let _one = writer.whole_trees.begin();
    // The first mark, so that every later number is in a segment that is kept.
    let was_on = writer.has_slots.swap(true, Ordering::AcqRel);
    let created = || {
        let number = write::skip_number(engine)?;
        engine.publisher.wait(number.seqno.0 - 1);
        writer.log.sync_through(number.log_end)?;
        let mut manifest = writer.manifest();
        let state = manifest.state();
        if state.feed.slots.contains_key(name) {
            let message = format!("expected a new slot, found one named `{name}`");
            return Err(Error::invalid(message));
        }
        let slot = Slot {
            position: number.seqno.0,
            log_bytes_max,
        };
        let mut edit = vec![Change::SetSlot {
            name: name.to_owned(),
            slot: Some(slot),
        }];
        if !state.feed.is_on() {
            let keyspaces = state.keyspaces.iter();
            let base = keyspaces.map(|(id, keyspace)| keyspace.creation(*id));
            edit.push(Change::Past {
                at: number.seqno,
                edit: base.collect(),
            });
            edit.push(Change::FeedStart {
                segment: number.log_end.segment,
                at: number.seqno,
            });
        }
        engine.log_edit(writer, &mut manifest, edit)?;
        Ok(slot.position)
    };
    created().inspect_err(|_| writer.has_slots.store(was_on, Ordering::Release))
}

/// Moves a slot on, or drops it; what no slot needs is let go.
pub(crate) fn change(
    engine: &Engine,
    name: &str,
    change: impl FnOnce(Slot) -> Result<Option<Slot>>,
) -> Result<()> {
    let writer = engine.writer()?;
    let _one = writer.whole_trees.begin();
    let mut manifest = writer.manifest();
    let Some(&slot) = manifest.state().feed.slots.get(name) else {
        let message = format!("expected a slot, found none named `{name}`");
        return Err(Error::invalid(message));
    };
    let slot = change(slot)?;
    let name = name.to_owned();
    // The last slot takes with it what the feed remembers of numbers.
    let last = SeqNo(engine.publisher.published());
    let edit = vec![Change::SetSlot { name, slot }, Change::Numbered { last }];
    engine.log_edit(writer, &mut manifest, edit)?;
    writer
        .has_slots
        .store(manifest.state().feed.is_on(), Ordering::Release);
    engine.release_kept(writer, &mut manifest);
    Ok(())
}
