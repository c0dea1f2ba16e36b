//! Databases: open, close, keyspaces, copies, statistics.

use std::ffi::c_char;

use engine::{Db, Keyspace};
use hedgerow_bindings::foreign::{MallocCopy, Optional, Out, Text, number};
use hedgerow_bindings::{Failure, stats, text};
use serde_json::{Value, json};

use crate::options::Options;
use crate::progress::{Progress, wait};
use crate::types::{
    DATABASES, KEYSPACES, SNAPSHOTS, call, database, free, give, hg_code, hg_db, hg_error,
    hg_keyspace, hg_options, hg_snapshot, snapshot,
};

/// Writes a text to its place; the caller frees it.
pub(crate) fn give_text(place: &Out<*mut c_char>, text: &str) -> Result<(), Failure> {
    place.set(MallocCopy::of(text.as_bytes())?.give());
    Ok(())
}

/// Opens a database.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_open(
    path: *const c_char,
    options: *const hg_options,
    db: *mut *mut hg_db,
    error: *mut hg_error,
) -> hg_code {
    let open = |(path, place): (Text, Out<*mut hg_db>)| {
        let builder = Options::of(options)?.builder(path.path()?)?;
        let db = wait(move || Ok(builder.open()?))?;
        give(&place, &DATABASES, db)
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (path, db), open) }
}

/// Closes a database.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_close(db: *mut hg_db, error: *mut hg_error) -> hg_code {
    let close = |()| {
        let db = DATABASES.remove(number(db))?;
        wait(move || Ok(Db::clone(&db).close()?))
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (), close) }
}

/// Returns `HG_OK` if the directory has a database.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_exists(path: *const c_char, error: *mut hg_error) -> hg_code {
    let exists = |path: Text| Ok(Db::exists(path.path()?)?);
    // SAFETY: the caller's promise.
    unsafe { call(error, path, exists) }
}

/// Removes the files of a database.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_destroy(path: *const c_char, error: *mut hg_error) -> hg_code {
    let destroy = |path: Text| {
        let path = path.path()?.to_owned();
        wait(move || Ok(Db::destroy(path)?))
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, path, destroy) }
}

/// Rebuilds a damaged database.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_repair(
    path: *const c_char,
    options: *const hg_options,
    report: *mut *mut c_char,
    error: *mut hg_error,
) -> hg_code {
    let repair = |(path, place): (Text, Option<Out<*mut c_char>>)| {
        let builder = Options::of(options)?.builder(path.path()?)?;
        let report = wait(move || Ok(engine::repair_with(builder)?))?;
        let lost = report.lost.iter();
        let lost: Vec<Value> = lost
            .map(|(path, why)| json!({ "path": path.to_string_lossy(), "why": why }))
            .collect();
        let text = json!({
            "tables": report.tables,
            "salvaged": report.salvaged,
            "entries": report.entries,
            "keyspaces_known": report.keyspaces_known,
            "keyspaces_guessed": report.keyspaces_guessed,
            "lost": lost,
        });
        let given = place.map_or(Ok(()), |place| give_text(&place, &text.to_string()));
        given.map_err(|failure| failure.after("the database was repaired"))
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (path, Optional(report)), repair) }
}

// ---- keyspaces ----

/// Opens a keyspace, or creates it.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_keyspace_open(
    db: *mut hg_db,
    name: *const c_char,
    layout: *const c_char,
    design: *const c_char,
    keyspace: *mut *mut hg_keyspace,
    error: *mut hg_error,
) -> hg_code {
    type Arguments = (Text, Text, Text, Out<*mut hg_keyspace>);
    let open = |(name, layout, design, place): Arguments| {
        let db = database(db)?;
        let (name, layout) = (name.required("the name of a keyspace")?, layout.read()?);
        let existing = db.existing_keyspace(name);
        // An existing keyspace keeps what is not given.
        let layout = match (layout, &existing) {
            ("", Some(existing)) => existing.layout(),
            (layout, _) => text::layout(layout)?,
        };
        let design = match design.read()? {
            "" => None,
            design => Some(text::design(design)?),
        };
        let (db, name) = (Db::clone(&db), name.to_owned());
        let keyspace = wait(move || {
            Ok(match design {
                None => db.keyspace(&name, layout)?,
                Some(design) => db.keyspace_with(&name, layout, design)?,
            })
        })?;
        give(&place, &KEYSPACES, keyspace)
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (name, layout, design, keyspace), open) }
}

/// Opens a keyspace that exists; `HG_NOT_FOUND` if it does not.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_keyspace_find(
    db: *mut hg_db,
    name: *const c_char,
    keyspace: *mut *mut hg_keyspace,
    error: *mut hg_error,
) -> hg_code {
    let find = |(name, place): (Text, Out<*mut hg_keyspace>)| {
        let name = name.required("the name of a keyspace")?;
        let Some(keyspace) = database(db)?.existing_keyspace(name) else {
            return Ok(false);
        };
        give(&place, &KEYSPACES, keyspace)?;
        Ok(true)
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (name, keyspace), find) }
}

/// Drops a keyspace with all its entries.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_keyspace_drop(
    db: *mut hg_db,
    name: *const c_char,
    error: *mut hg_error,
) -> hg_code {
    let drop = |name: Text| {
        let name = name.required("the name of a keyspace")?.to_owned();
        let db = Db::clone(&*database(db)?);
        wait(move || Ok(db.drop_keyspace(&name)?))
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, name, drop) }
}

/// Renames a keyspace.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_keyspace_rename(
    db: *mut hg_db,
    from: *const c_char,
    to: *const c_char,
    error: *mut hg_error,
) -> hg_code {
    let rename = |(from, to): (Text, Text)| {
        let from = from.required("the name of a keyspace")?.to_owned();
        let to = to.required("a new name of the keyspace")?.to_owned();
        let db = Db::clone(&*database(db)?);
        wait(move || Ok(db.rename_keyspace(&from, &to)?))
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (from, to), rename) }
}

/// Writes the names, layouts and designs of all keyspaces as JSON.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_keyspaces_json(
    db: *mut hg_db,
    json: *mut *mut c_char,
    error: *mut hg_error,
) -> hg_code {
    let list = |place: Out<*mut c_char>| {
        let db = database(db)?;
        let names = db.keyspaces();
        let keyspaces = names.iter().filter_map(|name| db.existing_keyspace(name));
        let described = |keyspace: Keyspace| {
            json!({
                "name": keyspace.name(),
                "layout": keyspace.layout().to_string(),
                "design": keyspace.design().to_string(),
            })
        };
        let list: Vec<Value> = keyspaces.map(described).collect();
        give_text(&place, &Value::Array(list).to_string())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, json, list) }
}

// ---- the whole database ----

/// Makes all writes durable.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_sync(db: *mut hg_db, error: *mut hg_error) -> hg_code {
    let sync = |()| {
        let db = Db::clone(&*database(db)?);
        wait(move || Ok(db.sync()?))
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (), sync) }
}

/// Writes all memtables to tables.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_flush(db: *mut hg_db, error: *mut hg_error) -> hg_code {
    let flush = |()| {
        let db = Db::clone(&*database(db)?);
        wait(move || Ok(db.flush()?))
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (), flush) }
}

/// Makes a copy of the database, mostly of links.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_checkpoint(
    db: *mut hg_db,
    path: *const c_char,
    error: *mut hg_error,
) -> hg_code {
    let make = |path: Text| {
        let (db, path) = (Db::clone(&*database(db)?), path.path()?.to_owned());
        wait(move || Ok(db.checkpoint(path)?))
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, path, make) }
}

/// Reads and checks every file.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_verify(db: *mut hg_db, error: *mut hg_error) -> hg_code {
    let verify = |()| {
        let progress = Progress::of_thread();
        database(db)?.verify_with(|it| progress.go_on(it.done_bytes, it.total_bytes))?;
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (), verify) }
}

/// Writes the statistics as JSON.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_stats_json(
    db: *mut hg_db,
    json: *mut *mut c_char,
    error: *mut hg_error,
) -> hg_code {
    let write = |place: Out<*mut c_char>| {
        give_text(&place, &stats::json(&database(db)?.stats()).to_string())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, json, write) }
}

/// Writes the statistics in the text format of Prometheus.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_stats_prometheus(
    db: *mut hg_db,
    text: *mut *mut c_char,
    error: *mut hg_error,
) -> hg_code {
    let write = |place: Out<*mut c_char>| give_text(&place, &database(db)?.stats().prometheus());
    // SAFETY: the caller's promise.
    unsafe { call(error, text, write) }
}

// ---- snapshots ----

/// Takes a snapshot.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_snapshot_new(
    db: *mut hg_db,
    snapshot: *mut *mut hg_snapshot,
    error: *mut hg_error,
) -> hg_code {
    let take = |place: Out<*mut hg_snapshot>| {
        let snapshot = database(db)?.snapshot()?;
        give(&place, &SNAPSHOTS, snapshot)
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, snapshot, take) }
}

/// Writes the sequence number of a snapshot.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_snapshot_number(
    handle: *const hg_snapshot,
    number: *mut u64,
    error: *mut hg_error,
) -> hg_code {
    let get = |place: Out<u64>| {
        let none = || Failure::invalid("expected a handle of a snapshot, found NULL");
        place.set(snapshot(handle)?.ok_or_else(none)?.number());
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, number, get) }
}

/// Releases a snapshot.
#[unsafe(no_mangle)]
pub extern "C" fn hg_snapshot_free(snapshot: *mut hg_snapshot) -> hg_code {
    free(&SNAPSHOTS, snapshot)
}
