//! Reads the files of a database beside its writer, who may change them meanwhile.
//!
//! The description comes from the manifest, the newest writes from the log. Both must belong to one
//! moment. The manifest is read first, so the log may have later writes; but no bulk load, clear or
//! drop may lie between them, because the log does not have these. A file that the writer removed,
//! or a change between, lets everything be read again.

use std::path::Path;

use crate::base::error::{Error, ErrorKind, Result};
use crate::tree::version::edit::{Change, Edit, KeyspaceChange};
use crate::tree::version::manifest;
use crate::tree::version::state::State;

use super::survey::{Survey, survey};
use super::{OpenOptions, marks, no_database, under_repair};

/// The number of attempts when a writer changes the files.
const ATTEMPTS: usize = 20;
/// The number of attempts when nobody seems to change them: a record that was read while it was
/// being written is whole the next time.
const UNCHANGED_ATTEMPTS: usize = 4;

/// Calls `attempt` with a description and a survey of the log until it has read all that it needs
/// before the writer changed it.
pub(crate) fn read<T>(
    dir: &Path,
    options: &OpenOptions,
    mut attempt: impl FnMut(State, &Survey) -> Result<T>,
) -> Result<T> {
    let storage = &*options.environment.storage;
    let (mut attempts, mut changes) = (0, 0);
    loop {
        if !manifest::exists(storage, dir)? {
            return Err(no_database(storage, dir));
        }
        under_repair::refuse(storage, dir)?;
        let before = manifest::replay(storage, dir)?;
        let result = State::replay(&before.edits).and_then(|mut state| {
            let places = state.places.at(&marks::choose(dir, options, &state)?);
            marks::check(storage, dir, &state.places, &places)?;
            state.places = places;
            let survey = survey(storage, dir, &state)?;
            Ok((attempt(state, &survey)?, survey))
        });
        attempts += 1;
        // It may have begun meanwhile. Then the trees lack entries.
        under_repair::refuse(storage, dir)?;
        let after = manifest::replay(storage, dir)?;
        let error = match result {
            Err(error) => error,
            Ok((_, survey)) if survey.check_there(storage).is_err() => {
                Error::new(ErrorKind::Conflict, "segments of the log were recycled")
            }
            Ok(_) if is_out_of_order(&before.edits, &after.edits) => Error::new(
                ErrorKind::Conflict,
                "keyspaces were loaded, cleared or dropped",
            ),
            Ok((value, _)) => return Ok(value),
        };
        let is_changed = after.bytes != before.bytes || after.edits != before.edits;
        changes += usize::from(is_changed);
        // A writer removes prepared segments and filters without an edit.
        let may_pass = is_changed || error.is_not_found() || error.kind() == ErrorKind::Conflict;
        if !may_pass && attempts >= UNCHANGED_ATTEMPTS {
            return Err(error);
        }
        if attempts >= ATTEMPTS {
            return Err(match changes {
                0 => error,
                _ => Error::new(
                    ErrorKind::Conflict,
                    format!(
                        "expected files that stay for as long as opening them takes, found that a writer \
                         changed them {changes} times: try again, or open a checkpoint; at last: {error}"
                    ),
                ),
            });
        }
    }
}

/// Returns true if the edits since `before` may have a number without a record in the log.
fn is_out_of_order(before: &[Edit], after: &[Edit]) -> bool {
    // A manifest that was rotated no longer has its edits.
    let Some(since) = after.strip_prefix(before) else {
        return true;
    };
    since.iter().flatten().any(|change| match change {
        Change::Keyspace(_, KeyspaceChange::Drop | KeyspaceChange::ReplacePartitions(_)) => true,
        Change::Tree(edit) => edit.added.iter().any(|(_, it)| it.seqno_override.is_some()),
        _ => false,
    })
}
