//! Opening and closing: databases, keyspaces, snapshots.

use std::sync::Arc;

use engine::Keyspace;
use napi::Env;
use napi::bindgen_prelude::AsyncTask;
use napi_derive::napi;

use crate::call::{Answer, Call, later};
use crate::failure::{Code, Failure, Result, caught};
use crate::handles::{self, Object};
use crate::opened::Opened;
use crate::options::{KeyspaceOptions, OpenOptions};

/// A keyspace of an open database. The keyspace of the database itself is `default`.
pub struct Database {
    pub(crate) db: Arc<Opened>,
    pub(crate) keyspace: Keyspace,
}

impl Database {
    fn open(db: Arc<Opened>, name: &str, options: &KeyspaceOptions) -> Result<Answer> {
        let keyspace = options.open(&db, name)?;
        Ok(Answer::Opened(Object::Database(Arc::new(Database {
            db,
            keyspace,
        }))))
    }
}

/// The keyspace of a database itself.
pub(crate) const DEFAULT: &str = "default";

/// Prepares an environment of Node: when it ends, its handles are freed.
#[napi(catch_unwind)]
pub fn prepare(env: Env) -> napi::Result<()> {
    env.add_env_cleanup_hook((), |()| handles::clear())?;
    Ok(())
}

/// Opens a database. The result is a handle.
#[napi(catch_unwind)]
pub fn open(location: String, options: OpenOptions, keyspace: KeyspaceOptions) -> AsyncTask<Call> {
    later(move || {
        let db = Arc::new(options.open(&location)?);
        Database::open(db, DEFAULT, &keyspace)
    })
}

/// Opens a keyspace of a database. The result is a handle, which works as that of a database.
#[napi(catch_unwind)]
pub fn open_keyspace(
    handle: f64,
    name: String,
    options: KeyspaceOptions,
) -> napi::Result<AsyncTask<Call>, Code> {
    let database = handles::database(handle)?;
    Ok(later(move || {
        Database::open(database.db.clone(), &name, &options)
    }))
}

/// Closes a database: makes everything durable. Calls that are under way end with a result or as
/// `LEVEL_DATABASE_NOT_OPEN`.
#[napi(catch_unwind)]
pub fn close(handle: f64) -> napi::Result<AsyncTask<Call>, Code> {
    let db = handles::database(handle)?.db.clone();
    let of_it = handles::remove_all_of(&db);
    Ok(later(move || {
        drop(of_it);
        db.close()?;
        Ok(Answer::Nothing)
    }))
}

/// Takes a snapshot. The result is a handle.
#[napi(catch_unwind)]
pub fn snapshot(handle: f64) -> napi::Result<f64, Code> {
    let taken = caught(|| {
        let db = handles::database(handle)?.db.clone();
        let snapshot = db.snapshot()?;
        handles::insert(Object::Snapshot(db, snapshot))
    });
    Ok(taken?)
}

/// Frees a handle of a keyspace, a snapshot, an iterator or an abort. Does nothing if it was freed
/// before. There is a promise if a thread has to drop something.
#[napi(catch_unwind)]
pub fn release(handle: f64) -> Option<AsyncTask<Call>> {
    let Some(Object::Iterator(iterator)) = handles::remove(handle) else {
        return None;
    };
    iterator.abort.abort();
    iterator.holds_cursor().then(|| {
        later(move || {
            drop(iterator);
            Ok(Answer::Nothing)
        })
    })
}

/// The names of the keyspaces.
#[napi(catch_unwind)]
pub fn keyspaces(handle: f64) -> napi::Result<Vec<String>, Code> {
    Ok(handles::database(handle)?.db.keyspaces())
}

/// Removes a keyspace.
#[napi(catch_unwind)]
pub fn drop_keyspace(handle: f64, name: String) -> napi::Result<AsyncTask<Call>, Code> {
    let database = handles::database(handle)?;
    if name == DEFAULT {
        let message = format!("the keyspace `{DEFAULT}` is the database itself; clear it");
        return Err(Failure::invalid(message).into());
    }
    Ok(later(move || {
        database.db.drop_keyspace(&name)?;
        Ok(Answer::Nothing)
    }))
}
