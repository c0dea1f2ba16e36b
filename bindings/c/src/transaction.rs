//! Transactions: reads and writes whose commit is refused if others came first.

use std::ffi::{c_char, c_int};

use engine::{Db, ErrorKind, Isolation, Savepoint, Transaction, TransactionOptions};
use hedgerow_bindings::foreign::{Out, number};
use hedgerow_bindings::{Exclusive, Failure};

use crate::batch::LONG_BATCH_BYTES;
use crate::iterator::Position;
use crate::keyspace::range;
use crate::progress::{wait, wait_for_memory};
use crate::reads::give_copy;
use crate::types::{
    ITERATORS, TRANSACTIONS, call, database, durability, expiry, free, give, hg_bytes, hg_code,
    hg_db, hg_error, hg_iter, hg_keyspace, hg_transaction, keyspace,
};

/// A transaction of a database.
pub(crate) struct Open {
    db: Db,
    /// With its savepoints, which C code knows by their index; `None` after its commit.
    transaction: Option<(Transaction, Vec<Savepoint>)>,
}

/// The guarantee of a transaction about what others write.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub enum hg_isolation {
    /// As if transactions had run one after another.
    HG_SERIALIZABLE = 0,
    /// Keys that it writes have not been changed by others.
    HG_SNAPSHOT = 1,
}

/// Begins a transaction.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_transaction_begin(
    db: *mut hg_db,
    isolation: c_int,
    how: c_int,
    transaction: *mut *mut hg_transaction,
    error: *mut hg_error,
) -> hg_code {
    let begin = |place: Out<*mut hg_transaction>| {
        let isolation = match isolation {
            0 => Isolation::Serializable,
            1 => Isolation::Snapshot,
            _ => {
                let message = format!("expected HG_SERIALIZABLE or HG_SNAPSHOT, found {isolation}");
                return Err(Failure::invalid(message));
            }
        };
        let options = TransactionOptions {
            isolation,
            durability: durability(how)?,
            ..TransactionOptions::default()
        };
        let db = Db::clone(&*database(db)?);
        let transaction = Some((db.transaction_with(options)?, Vec::new()));
        let open = Open { db, transaction };
        give(&place, &TRANSACTIONS, Exclusive::new(open))
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, transaction, begin) }
}

/// Frees a transaction. Without a commit, its writes are discarded.
#[unsafe(no_mangle)]
pub extern "C" fn hg_transaction_free(transaction: *mut hg_transaction) -> hg_code {
    free(&TRANSACTIONS, transaction)
}

fn ended() -> Failure {
    Failure::new(ErrorKind::Closed, "the transaction has ended")
}

fn with<R>(
    transaction: *mut hg_transaction,
    change: impl FnOnce(&mut Transaction, &mut Vec<Savepoint>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let transaction = TRANSACTIONS.get(number(transaction))?;
    let mut open = transaction.lock()?;
    let (transaction, savepoints) = open.transaction.as_mut().ok_or_else(ended)?;
    change(transaction, savepoints)
}

/// Waits for the memory that a small commit needs. If its caller ends that, the transaction keeps
/// its operations.
fn wait_to_commit(open: &Open) -> Result<(), Failure> {
    let (transaction, _) = open.transaction.as_ref().ok_or_else(ended)?;
    let batch = transaction.batch();
    match !batch.is_empty() && batch.bytes() < LONG_BATCH_BYTES {
        true => wait_for_memory(&open.db, Db::writes_wait, Db::wait_for_memory),
        false => Ok(()),
    }
}

impl Open {
    /// Ends the transaction, to commit it.
    fn take(&mut self) -> Result<Transaction, Failure> {
        let taken = self.transaction.take();
        taken.map(|(transaction, _)| transaction).ok_or_else(ended)
    }
}

/// Takes the transaction out of its handle, to commit it.
pub(crate) fn take(handle: *mut hg_transaction) -> Result<Transaction, Failure> {
    TRANSACTIONS.get(number(handle))?.lock()?.take()
}

/// Writes the value of a key, with the transaction's own writes, to new memory.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_transaction_get(
    transaction: *mut hg_transaction,
    handle: *mut hg_keyspace,
    key: hg_bytes,
    value: *mut *mut c_char,
    len: *mut usize,
    error: *mut hg_error,
) -> hg_code {
    let get = |(key, value, len): (&[u8], Out<*mut c_char>, Out<usize>)| {
        let keyspace = keyspace(handle)?;
        let found = with(transaction, |transaction, _| {
            Ok(transaction.get(&keyspace, key)?)
        })?;
        let copied = found.map(|found| give_copy(found.as_bytes(), &value, &len));
        Ok(copied.transpose()?.is_some())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (key, value, len), get) }
}

/// Puts a value in a transaction.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_transaction_put(
    transaction: *mut hg_transaction,
    handle: *mut hg_keyspace,
    key: hg_bytes,
    value: hg_bytes,
    error: *mut hg_error,
) -> hg_code {
    let put = |(key, value): (&[u8], &[u8])| {
        let keyspace = keyspace(handle)?;
        with(transaction, |it, _| {
            Ok(it.put(&keyspace, key, value).map(drop)?)
        })
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (key, value), put) }
}

/// Puts a value that expires in a transaction.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_transaction_put_expiring(
    transaction: *mut hg_transaction,
    handle: *mut hg_keyspace,
    key: hg_bytes,
    value: hg_bytes,
    meaning: c_int,
    millis: u64,
    error: *mut hg_error,
) -> hg_code {
    let put = |(key, value): (&[u8], &[u8])| {
        let (keyspace, expiry) = (keyspace(handle)?, expiry(meaning, millis)?);
        with(transaction, |it, _| {
            Ok(it.put_expiring(&keyspace, key, value, expiry).map(drop)?)
        })
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (key, value), put) }
}

/// Deletes a key in a transaction.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_transaction_delete(
    transaction: *mut hg_transaction,
    handle: *mut hg_keyspace,
    key: hg_bytes,
    error: *mut hg_error,
) -> hg_code {
    let delete = |key: &[u8]| {
        let keyspace = keyspace(handle)?;
        with(transaction, |it, _| {
            Ok(it.delete(&keyspace, key).map(drop)?)
        })
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, key, delete) }
}

/// Merges an operand in a transaction.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_transaction_merge(
    transaction: *mut hg_transaction,
    handle: *mut hg_keyspace,
    key: hg_bytes,
    operand: hg_bytes,
    error: *mut hg_error,
) -> hg_code {
    let merge = |(key, operand): (&[u8], &[u8])| {
        let keyspace = keyspace(handle)?;
        with(transaction, |it, _| {
            Ok(it.merge(&keyspace, key, operand).map(drop)?)
        })
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (key, operand), merge) }
}

/// Deletes a range in a transaction.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_transaction_delete_range(
    transaction: *mut hg_transaction,
    handle: *mut hg_keyspace,
    from: hg_bytes,
    to: hg_bytes,
    error: *mut hg_error,
) -> hg_code {
    let delete = |keys: (&'static [u8], &'static [u8])| {
        let keyspace = keyspace(handle)?;
        let range = range((from, keys.0), (to, keys.1));
        with(transaction, |it, _| {
            Ok(it.delete_range::<&[u8]>(&keyspace, range).map(drop)?)
        })
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (from, to), delete) }
}

/// Makes an iterator over a keyspace with the transaction's writes so far.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_transaction_iter(
    transaction: *mut hg_transaction,
    handle: *mut hg_keyspace,
    iter: *mut *mut hg_iter,
    error: *mut hg_error,
) -> hg_code {
    let make = |place: Out<*mut hg_iter>| {
        let keyspace = keyspace(handle)?;
        let cursor = with(transaction, |it, _| Ok(it.cursor(&keyspace)?))?;
        give(
            &place,
            &ITERATORS,
            Exclusive::new(Position::of_cursor(cursor)),
        )
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, iter, make) }
}

/// Remembers a place among the transaction's writes.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_transaction_savepoint(
    transaction: *mut hg_transaction,
    savepoint: *mut u64,
    error: *mut hg_error,
) -> hg_code {
    let save = |place: Out<u64>| {
        with(transaction, |transaction, savepoints| {
            place.set(savepoints.len() as u64);
            savepoints.push(transaction.savepoint());
            Ok(())
        })
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, savepoint, save) }
}

/// Discards the writes since a savepoint, and the later savepoints.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_transaction_roll_back_to(
    transaction: *mut hg_transaction,
    savepoint: u64,
    error: *mut hg_error,
) -> hg_code {
    let roll_back = |()| {
        with(transaction, |transaction, savepoints| {
            let index = usize::try_from(savepoint).unwrap_or(usize::MAX);
            let Some(place) = savepoints.get(index).copied() else {
                let found = format!("expected a savepoint of the transaction, found {savepoint}");
                return Err(Failure::invalid(found));
            };
            transaction.roll_back_to(place)?;
            savepoints.truncate(index + 1);
            Ok(())
        })
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (), roll_back) }
}

/// Commits all writes, or none: `HG_CONFLICT` if another write came first. It ends the transaction.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_transaction_commit(
    transaction: *mut hg_transaction,
    error: *mut hg_error,
) -> hg_code {
    let commit = |()| {
        // In use to the end: the progress function may free the handle, and no other call comes
        // between the wait and the commit.
        let held = TRANSACTIONS.get(number(transaction))?;
        let mut open = held.lock()?;
        wait_to_commit(&open)?;
        let transaction = open.take()?;
        match transaction.batch().bytes() < LONG_BATCH_BYTES {
            true => Ok(transaction.commit()?),
            false => wait(move || Ok(transaction.commit()?)),
        }
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (), commit) }
}
