//! Maintenance: sizes, merges, copies, statistics, repair. `abort` is the handle of an abort, or 0.

use engine::{CompactProgress, Db};
use hedgerow_bindings::repair::of_one_keyspace;
use hedgerow_copies::backup::{Options, Progress, Repository};
use napi::bindgen_prelude::AsyncTask;
use napi_derive::napi;

use crate::call::{Answer, Call, later};
use crate::database::DEFAULT;
use crate::failure::Code;
use crate::handles;
use crate::packed::{Bytes, Reader};
use crate::writes::bounds;

/// Estimates the bytes of a packed range.
#[napi(catch_unwind)]
pub fn approximate_size(handle: f64, range: Bytes<'_>) -> napi::Result<AsyncTask<Call>, Code> {
    let database = handles::database(handle)?;
    let range = bounds(&mut Reader::new(&range))?;
    Ok(later(move || {
        let bytes = database.keyspace.approximate_bytes(range)?;
        Ok(Answer::Number(bytes as f64))
    }))
}

/// Merges the tables of a packed range.
#[napi(catch_unwind)]
pub fn compact_range(
    handle: f64,
    range: Bytes<'_>,
    abort: f64,
) -> napi::Result<AsyncTask<Call>, Code> {
    let database = handles::database(handle)?;
    let abort = handles::abort(abort)?.unwrap_or_default();
    let range = bounds(&mut Reader::new(&range))?;
    Ok(later(move || {
        let go_on = |_: CompactProgress| !abort.is_aborted();
        database.keyspace.compact_with(range, go_on)?;
        Ok(Answer::Nothing)
    }))
}

/// Copies a database into a new directory.
#[napi(catch_unwind)]
pub fn checkpoint(handle: f64, location: String) -> napi::Result<AsyncTask<Call>, Code> {
    let database = handles::database(handle)?;
    Ok(later(move || {
        database.db.checkpoint(&location)?;
        Ok(Answer::Nothing)
    }))
}

/// Backs up the database in a directory, with everything that was written. The result is the number
/// of the backup.
#[napi(catch_unwind)]
pub fn backup(
    handle: f64,
    location: String,
    repository: String,
    abort: f64,
) -> napi::Result<AsyncTask<Call>, Code> {
    let database = handles::database(handle)?;
    let abort = handles::abort(abort)?.unwrap_or_default();
    Ok(later(move || {
        database.db.sync()?;
        let go_on = |_: Progress| !abort.is_aborted();
        let builder = Db::builder(&location);
        let backup = Repository::new(&repository).create(&builder, Options::default(), go_on)?;
        Ok(Answer::Number(backup.id as f64))
    }))
}

/// Restores a backup, the latest one without a number, into a new directory.
#[napi(catch_unwind)]
pub fn restore(
    repository: String,
    location: String,
    id: Option<f64>,
    abort: f64,
) -> napi::Result<AsyncTask<Call>, Code> {
    let abort = handles::abort(abort)?.unwrap_or_default();
    Ok(later(move || {
        let go_on = |_: Progress| !abort.is_aborted();
        let id = id.map(|id| id as u64);
        Repository::new(&repository).restore(id, &location, go_on)?;
        Ok(Answer::Nothing)
    }))
}

/// The statistics of a database, as JSON.
#[napi(catch_unwind)]
pub fn stats(handle: f64) -> napi::Result<AsyncTask<Call>, Code> {
    let database = handles::database(handle)?;
    Ok(later(move || {
        let json = hedgerow_bindings::stats::json(&database.db.stats());
        Ok(Answer::Text(json.to_string()))
    }))
}

/// Removes the files of a database, if there is one.
#[napi(catch_unwind)]
pub fn destroy(location: String) -> AsyncTask<Call> {
    later(move || {
        if Db::exists(&location)? {
            Db::destroy(&location)?;
        }
        Ok(Answer::Nothing)
    })
}

/// Rebuilds a database from what can be read.
#[napi(catch_unwind)]
pub fn repair(location: String) -> AsyncTask<Call> {
    later(move || {
        of_one_keyspace(Db::builder(&location), DEFAULT)?;
        Ok(Answer::Nothing)
    })
}
