//! Batches that read their own writes, transactions, and asynchronous commits.

use std::sync::Mutex;

use hedgerow_bindings::Failure;
use jni_sys::{jbyteArray, jint, jlong};

use crate::calls;
use crate::env::enter;
use crate::objects::{self, OwnBatch, Uncommitted, database, lock};
use crate::writes::{add_all, durability};

type Batch = Mutex<OwnBatch>;

/// Takes a batch out of its handle, which is freed.
fn take(batch: jlong) -> Result<Uncommitted, Failure> {
    let uncommitted = lock(&*objects::find::<Batch>(batch)?).take()?;
    objects::free::<Batch>(batch)?;
    Ok(uncommitted)
}

/// Commits a transaction at the durability that it was made with, a batch at this one.
fn commit(uncommitted: Uncommitted, sync: jint) -> engine::Result<()> {
    match uncommitted {
        Uncommitted::Indexed(batch) => batch.commit(durability(sync)),
        Uncommitted::Transaction(transaction) => transaction.commit(),
    }
}

native! {
    /// Adds packed writes.
    fn Java_io_hedgerow_IndexedBatch_add0(
        env, batch: jlong, packed: jbyteArray, bytes: jint
    ) -> () {
        let packed = env.bytes_of(packed, bytes)?;
        let batch = objects::find::<Batch>(batch)?;
        add_all(lock(&batch).indexed()?, &packed)
    }

    fn Java_io_hedgerow_IndexedBatch_memoryBytes0(_env, batch: jlong) -> jlong {
        let batch = objects::find::<Batch>(batch)?;
        let bytes = lock(&batch).indexed()?.memory_bytes();
        Ok(bytes as jlong)
    }

    /// Marks the end of the operations, and returns the index of the savepoint.
    fn Java_io_hedgerow_IndexedBatch_savepoint0(_env, batch: jlong) -> jint {
        let batch = objects::find::<Batch>(batch)?;
        let mut batch = lock(&batch);
        let savepoint = batch.indexed()?.savepoint();
        batch.savepoints.push(savepoint);
        Ok(batch.savepoints.len() as jint - 1)
    }

    fn Java_io_hedgerow_IndexedBatch_rollBackTo0(_env, batch: jlong, index: jint) -> () {
        let batch = objects::find::<Batch>(batch)?;
        let mut batch = lock(&batch);
        let place = usize::try_from(index).ok();
        let savepoint = place.and_then(|place| batch.savepoints.get(place).copied());
        let savepoint = savepoint
            .ok_or_else(|| Failure::invalid(format!("expected a savepoint, found {index}")))?;
        Ok(batch.indexed()?.roll_back_to(savepoint)?)
    }

    /// Commits a batch, or a transaction at the durability that it was made with.
    fn Java_io_hedgerow_IndexedBatch_commit0(_env, batch: jlong, sync: jint) -> () {
        Ok(commit(take(batch)?, sync)?)
    }

    /// Commits as `commit0` does, on a thread of its own.
    fn Java_io_hedgerow_IndexedBatch_commitLarge0(
        _env, id: jlong, batch: jlong, sync: jint
    ) -> () {
        let uncommitted = take(batch)?;
        calls::start(id, move |_| Ok(commit(uncommitted, sync).map(|()| None)?))
    }

    /// Commits packed writes, all or none, on a thread of its own.
    fn Java_io_hedgerow_Batch_commitLarge0(
        env, id: jlong, db: jlong, packed: jbyteArray, bytes: jint, sync: jint
    ) -> () {
        let packed = env.bytes_of(packed, bytes)?;
        let mut batch = database(db)?.db.batch();
        add_all(&mut batch, &packed)?;
        calls::start(id, move |_| Ok(batch.commit(durability(sync)).map(|()| None)?))
    }

    fn Java_io_hedgerow_Batch_commitAsync0(
        env, id: jlong, db: jlong, packed: jbyteArray, bytes: jint, sync: jint
    ) -> () {
        let packed = env.bytes_of(packed, bytes)?;
        let mut batch = database(db)?.db.batch();
        add_all(&mut batch, &packed)?;
        calls::follow(id, batch.commit_async(durability(sync)), |()| None);
        Ok(())
    }
}
