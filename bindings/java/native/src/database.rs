//! Calls of a whole database.

use std::path::PathBuf;
use std::sync::Mutex;

use engine::{Builder, Db, ErrorKind, Isolation, Keyspace, Layout, Snapshot, TransactionOptions};
use hedgerow_bindings::{Failure, stats, text};
use jni_sys::{jbyteArray, jint, jlong};

use crate::calls;
use crate::env::{Env, enter};
use crate::objects::{self, OwnBatch, Uncommitted, database, keep};
use crate::packed::{Pack, Unpack};
use crate::writes::durability;

/// A path, which Java passes as UTF-8.
pub(crate) fn path(env: &Env<'_>, bytes: jbyteArray) -> Result<PathBuf, Failure> {
    env.text(bytes).map(PathBuf::from)
}

/// The options of a database: names and values, packed.
pub(crate) fn builder(
    env: &Env<'_>,
    dir: jbyteArray,
    options: jbyteArray,
) -> Result<Builder, Failure> {
    let builder = Db::builder(path(env, dir)?);
    let options = env.bytes(options)?;
    let options = Unpack(&options).all(|it| Ok((it.text()?, it.text()?)))?;
    let set = |builder, (name, value)| text::option(builder, name, value);
    options.into_iter().try_fold(builder, set)
}

fn layout(env: &Env<'_>, layout: jbyteArray) -> Result<Layout, Failure> {
    text::layout(&env.text(layout)?)
}

/// Names of keyspaces, or handles, for Java in one array.
fn pack_handles(owner: jlong, keyspaces: Vec<Keyspace>) -> Result<Vec<u8>, Failure> {
    let (owner, mut packed) = (database(owner)?, Pack::default());
    for keyspace in keyspaces {
        packed.i64(keep(&owner, keyspace)?);
    }
    Ok(packed.0)
}

native! {
    /// Opens a database. The answer is its handle.
    fn Java_io_hedgerow_Hedgerow_open0(
        env, id: jlong, dir: jbyteArray, options: jbyteArray
    ) -> () {
        let builder = builder(env, dir, options)?;
        calls::start(id, move |running| {
            let handle = objects::open(builder)? as jlong;
            if running.is_cancelled() {
                objects::close(handle)?;
                return Err(Failure::new(ErrorKind::Cancelled, "the database was closed again"));
            }
            Ok(Some(handle.to_le_bytes().to_vec()))
        })
    }

    /// Closes a database, and frees all handles of it.
    fn Java_io_hedgerow_Hedgerow_close0(_env, id: jlong, db: jlong) -> () {
        calls::start(id, move |_| objects::close(db).map(|()| None))
    }

    /// Returns 1 if the directory has a database.
    fn Java_io_hedgerow_Hedgerow_exists0(env, dir: jbyteArray) -> jint {
        Ok(jint::from(Db::exists(path(env, dir)?)?))
    }

    fn Java_io_hedgerow_Hedgerow_destroy0(env, id: jlong, dir: jbyteArray) -> () {
        let dir = path(env, dir)?;
        calls::start(id, move |_| Ok(Db::destroy(dir).map(|()| None)?))
    }

    /// Opens or creates a keyspace. Without a design an existing one keeps its design.
    fn Java_io_hedgerow_Hedgerow_keyspace0(
        env, db: jlong, name: jbyteArray, text: jbyteArray, design: jbyteArray
    ) -> jlong {
        let (owner, name, layout) = (database(db)?, env.text(name)?, layout(env, text)?);
        let keyspace = match design.is_null() {
            true => owner.db.keyspace(&name, layout)?,
            false => {
                let design = text::design(&env.text(design)?)?;
                owner.db.keyspace_with(&name, layout, design)?
            }
        };
        keep(&owner, keyspace)
    }

    /// Creates the missing ones of several keyspaces, together.
    fn Java_io_hedgerow_Hedgerow_createKeyspaces0(
        env, db: jlong, names: jbyteArray, text: jbyteArray, design: jbyteArray
    ) -> jbyteArray {
        let (owner, names, layout) = (database(db)?, env.bytes(names)?, layout(env, text)?);
        let names = Unpack(&names).all(Unpack::text)?;
        let design = text::design(&env.text(design)?)?;
        let wanted = names.iter().map(|name| (name, layout.clone(), design.clone()));
        let keyspaces = owner.db.create_keyspaces_with(wanted)?;
        env.new_bytes(&pack_handles(db, keyspaces)?)
    }

    /// The handle of an existing keyspace; 0 if there is none of that name.
    fn Java_io_hedgerow_Hedgerow_existingKeyspace0(env, db: jlong, name: jbyteArray) -> jlong {
        let owner = database(db)?;
        let keyspace = owner.db.existing_keyspace(&env.text(name)?);
        keyspace.map_or(Ok(0), |keyspace| keep(&owner, keyspace))
    }

    /// The names of all keyspaces, packed.
    fn Java_io_hedgerow_Hedgerow_keyspaces0(env, db: jlong) -> jbyteArray {
        let mut packed = Pack::default();
        for name in database(db)?.db.keyspaces() {
            packed.bytes(name.as_bytes());
        }
        env.new_bytes(&packed.0)
    }

    fn Java_io_hedgerow_Hedgerow_dropKeyspace0(
        env, id: jlong, db: jlong, name: jbyteArray
    ) -> () {
        let (owner, name) = (database(db)?, env.text(name)?);
        calls::start(id, move |_| Ok(owner.db.drop_keyspace(&name).map(|()| None)?))
    }

    fn Java_io_hedgerow_Hedgerow_renameKeyspace0(
        env, id: jlong, db: jlong, from: jbyteArray, to: jbyteArray
    ) -> () {
        let (owner, from, to) = (database(db)?, env.text(from)?, env.text(to)?);
        calls::start(id, move |_| Ok(owner.db.rename_keyspace(&from, &to).map(|()| None)?))
    }

    /// 1 if a write that begins now would wait for a flush.
    fn Java_io_hedgerow_Hedgerow_writesWait0(_env, db: jlong) -> jint {
        Ok(jint::from(database(db)?.db.writes_wait()))
    }

    fn Java_io_hedgerow_Hedgerow_waitForMemory0(_env, id: jlong, db: jlong) -> () {
        let database = database(db)?;
        calls::start(id, move |_| Ok(database.db.wait_for_memory().map(|()| None)?))
    }

    fn Java_io_hedgerow_Hedgerow_snapshot0(_env, db: jlong) -> jlong {
        let owner = database(db)?;
        keep::<Snapshot>(&owner, owner.db.snapshot()?)
    }

    /// A batch that reads its own writes: a transaction if `isolation` is 1 or 2.
    fn Java_io_hedgerow_Hedgerow_ownBatch0(
        _env, db: jlong, isolation: jint, sync: jint, memory_bytes: jlong
    ) -> jlong {
        let owner = database(db)?;
        let memory_bytes_max = memory_bytes.max(0) as usize;
        let batch = match isolation {
            0 => {
                let mut batch = owner.db.indexed_batch()?;
                batch.set_memory_max(memory_bytes_max);
                Uncommitted::Indexed(batch)
            }
            _ => Uncommitted::Transaction(owner.db.transaction_with(TransactionOptions {
                isolation: if isolation == 1 { Isolation::Serializable } else { Isolation::Snapshot },
                durability: durability(sync),
                memory_bytes_max,
                ..TransactionOptions::default()
            })?),
        };
        keep(&owner, Mutex::new(OwnBatch::new(batch)))
    }

    fn Java_io_hedgerow_Hedgerow_sync0(_env, id: jlong, db: jlong) -> () {
        calls::follow(id, database(db)?.db.sync_async(), |()| None);
        Ok(())
    }

    /// Waits for all asynchronous calls made before.
    fn Java_io_hedgerow_Hedgerow_barrier0(_env, id: jlong, db: jlong) -> () {
        calls::follow(id, database(db)?.db.barrier(), |()| None);
        Ok(())
    }

    fn Java_io_hedgerow_Hedgerow_flush0(_env, id: jlong, db: jlong) -> () {
        let owner = database(db)?;
        calls::start(id, move |_| Ok(owner.db.flush().map(|()| None)?))
    }

    fn Java_io_hedgerow_Hedgerow_checkpoint0(env, id: jlong, db: jlong, dir: jbyteArray) -> () {
        let (owner, dir) = (database(db)?, path(env, dir)?);
        calls::start(id, move |_| Ok(owner.db.checkpoint(dir).map(|()| None)?))
    }

    /// Verifies everything. The answer is the numbers of a `VerifyReport`, packed.
    fn Java_io_hedgerow_Hedgerow_verify0(_env, id: jlong, db: jlong) -> () {
        let owner = database(db)?;
        calls::start(id, move |running| {
            let report = owner.db.verify_with(|it| running.go_on(it.done_bytes, it.total_bytes))?;
            let mut packed = Pack::default();
            for number in [report.tables, report.entries, report.bytes, report.log_entries] {
                packed.i64(number as i64);
            }
            Ok(Some(packed.0))
        })
    }

    /// The statistics as JSON.
    fn Java_io_hedgerow_Hedgerow_stats0(env, db: jlong) -> jbyteArray {
        let json = stats::json(&database(db)?.db.stats());
        env.new_bytes(json.to_string().as_bytes())
    }

    /// The statistics as a packed map.
    fn Java_io_hedgerow_Hedgerow_statsMap0(env, db: jlong) -> jbyteArray {
        let json = stats::json(&database(db)?.db.stats());
        env.new_bytes(&crate::keyspace::flat(&json))
    }

    /// The statistics in the text format of Prometheus.
    fn Java_io_hedgerow_Hedgerow_prometheus0(env, db: jlong) -> jbyteArray {
        env.new_bytes(database(db)?.db.stats().prometheus().as_bytes())
    }
}
