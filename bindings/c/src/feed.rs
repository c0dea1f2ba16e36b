//! The change feed: the changes of a database in order, and the slots that keep them.

use std::ffi::{c_char, c_int};
use std::time::Duration;

use engine::{Changes, Db, ErrorKind};
use hedgerow_bindings::feed::{Change, ChangeKind, Feed};
use hedgerow_bindings::foreign::{Out, Text, number};
use hedgerow_bindings::{Exclusive, Failure};
use serde_json::{Map, Value, json};

use crate::database::give_text;
use crate::options::Options;
use crate::progress::{Progress, wait};
use crate::types::{
    CHANGES, call, database, free, give, hg_bytes, hg_changes, hg_code, hg_db, hg_error, hg_options,
};

/// The kind of a change.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum hg_change_kind {
    /// `key` gets `value`, which may expire.
    HG_CHANGE_PUT = 0,
    /// `value` is an operand for `key`.
    HG_CHANGE_MERGE = 1,
    /// `key` loses its value.
    HG_CHANGE_DELETE = 2,
    /// The keys from `key` to before `value`; without an end if its address is NULL.
    HG_CHANGE_DELETE_RANGE = 3,
    /// The keys with the prefix `key`.
    HG_CHANGE_DELETE_PREFIX = 4,
    /// The keyspace is created; `value` is its layout.
    HG_CHANGE_CREATE = 5,
    /// The keyspace gets the name `value`.
    HG_CHANGE_RENAME = 6,
    /// The keyspace gets the merge operator `value`.
    HG_CHANGE_SET_MERGE_OPERATOR = 7,
    /// Later puts expire after `millis`; 0 is never. Those in the feed have their expiry already.
    HG_CHANGE_SET_TIME_TO_LIVE = 8,
    /// The keyspace loses all entries.
    HG_CHANGE_CLEAR = 9,
    /// The keyspace is dropped.
    HG_CHANGE_DROP = 10,
}

use hg_change_kind::*;

/// The time between two questions of the progress function.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// A change. Its bytes stay until the next one is asked for.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hg_change {
    /// The number of its commit.
    pub number: u64,
    /// The commit has no further change.
    pub is_last: c_int,
    /// The kind.
    pub kind: hg_change_kind,
    /// The name of the keyspace.
    pub keyspace: hg_bytes,
    /// The key.
    pub key: hg_bytes,
    /// The value.
    pub value: hg_bytes,
    /// The meaning of the expiry, `HG_NEVER` or `HG_AT`.
    pub meaning: c_int,
    /// The time of the expiry in milliseconds since 1970.
    pub millis: u64,
}

/// A position among the changes.
pub(crate) struct Position {
    feed: Feed,
    /// The change whose bytes C code reads.
    current: Option<Change>,
}

impl Position {
    fn new(changes: Changes) -> Position {
        Position {
            feed: Feed::new(changes),
            current: None,
        }
    }

    /// The next change. Asks the progress function of the thread while it waits for one.
    fn next(&mut self, at_most: Duration) -> Result<Option<hg_change>, Failure> {
        let (progress, mut left) = (Progress::of_thread(), at_most);
        loop {
            let slice = left.min(ASK_EVERY);
            if let Some(change) = self.feed.next(slice)? {
                return Ok(Some(hg_change::of(self.current.insert(change))));
            }
            left -= slice;
            if left.is_zero() {
                return Ok(None);
            }
            if !progress.go_on(0, 0) {
                let message = "the caller stopped waiting";
                return Err(Failure::new(ErrorKind::Cancelled, message));
            }
        }
    }
}

impl hg_change {
    fn of(change: &Change) -> hg_change {
        let value = change.value.as_deref();
        let millis = change.expiry.map_or(0, |it| it.as_millis());
        let expires = change.kind == ChangeKind::Put && change.expiry.is_some();
        hg_change {
            number: change.number,
            is_last: c_int::from(change.is_last),
            kind: of_kind(change.kind),
            keyspace: hg_bytes::of(change.keyspace.as_bytes()),
            key: hg_bytes::of(&change.key),
            value: value.map_or(hg_bytes::NONE, hg_bytes::of),
            meaning: c_int::from(expires),
            millis: u64::try_from(millis).unwrap_or(u64::MAX),
        }
    }
}

fn of_kind(kind: ChangeKind) -> hg_change_kind {
    match kind {
        ChangeKind::Put => HG_CHANGE_PUT,
        ChangeKind::Merge => HG_CHANGE_MERGE,
        ChangeKind::Delete => HG_CHANGE_DELETE,
        ChangeKind::DeleteRange => HG_CHANGE_DELETE_RANGE,
        ChangeKind::DeletePrefix => HG_CHANGE_DELETE_PREFIX,
        ChangeKind::Create => HG_CHANGE_CREATE,
        ChangeKind::Rename => HG_CHANGE_RENAME,
        ChangeKind::SetMergeOperator => HG_CHANGE_SET_MERGE_OPERATOR,
        ChangeKind::SetTimeToLive => HG_CHANGE_SET_TIME_TO_LIVE,
        ChangeKind::Clear => HG_CHANGE_CLEAR,
        ChangeKind::Drop => HG_CHANGE_DROP,
    }
}

/// Creates a slot, and writes the number behind which it keeps changes.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_slot_create(
    db: *mut hg_db,
    name: *const c_char,
    log_bytes_max: u64,
    number: *mut u64,
    error: *mut hg_error,
) -> hg_code {
    let create = |(name, place): (Text, Out<u64>)| {
        let name = name.required("the name of a slot")?.to_owned();
        let db = Db::clone(&*database(db)?);
        place.set(wait(move || Ok(db.create_slot(&name, log_bytes_max)?))?);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (name, number), create) }
}

/// Moves a slot on.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_slot_confirm(
    db: *mut hg_db,
    name: *const c_char,
    number: u64,
    error: *mut hg_error,
) -> hg_code {
    let confirm = |name: Text| {
        let name = name.required("the name of a slot")?.to_owned();
        let db = Db::clone(&*database(db)?);
        wait(move || Ok(db.confirm_slot(&name, number)?))
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, name, confirm) }
}

/// Drops a slot.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_slot_drop(
    db: *mut hg_db,
    name: *const c_char,
    error: *mut hg_error,
) -> hg_code {
    let drop = |name: Text| {
        let name = name.required("the name of a slot")?.to_owned();
        let db = Db::clone(&*database(db)?);
        wait(move || Ok(db.drop_slot(&name)?))
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, name, drop) }
}

/// Writes the slots as JSON.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_slots_json(
    db: *mut hg_db,
    json: *mut *mut c_char,
    error: *mut hg_error,
) -> hg_code {
    let list = |place: Out<*mut c_char>| {
        let slots = database(db)?.slots()?.into_iter().map(|(name, slot)| {
            let slot = json!({ "position": slot.position, "log_bytes_max": slot.log_bytes_max });
            (name, slot)
        });
        let slots: Map<String, Value> = slots.collect();
        give_text(&place, &Value::Object(slots).to_string())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, json, list) }
}

/// Begins to read the changes behind a number.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_changes_since(
    db: *mut hg_db,
    number: u64,
    changes: *mut *mut hg_changes,
    error: *mut hg_error,
) -> hg_code {
    let begin = |place: Out<*mut hg_changes>| {
        let changes = database(db)?.changes_since(number)?;
        give(&place, &CHANGES, Exclusive::new(Position::new(changes)))
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, changes, begin) }
}

/// Begins to read the changes of a database that another process has open.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_changes_of_files(
    path: *const c_char,
    options: *const hg_options,
    number: u64,
    changes: *mut *mut hg_changes,
    error: *mut hg_error,
) -> hg_code {
    let begin = |(path, place): (Text, Out<*mut hg_changes>)| {
        let builder = Options::of(options)?.builder(path.path()?)?;
        let changes = builder.changes_since(number)?;
        give(&place, &CHANGES, Exclusive::new(Position::new(changes)))
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (path, changes), begin) }
}

/// Writes the next change.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_changes_next(
    changes: *mut hg_changes,
    wait_millis: u64,
    change: *mut hg_change,
    error: *mut hg_error,
) -> hg_code {
    let next = |place: Out<hg_change>| {
        let changes = CHANGES.get(number(changes))?;
        let found = changes.lock()?.next(Duration::from_millis(wait_millis))?;
        if let Some(change) = found {
            place.set(change);
        }
        Ok(found.is_some())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, change, next) }
}

/// Frees a position among the changes.
#[unsafe(no_mangle)]
pub extern "C" fn hg_changes_free(changes: *mut hg_changes) -> hg_code {
    free(&CHANGES, changes)
}
