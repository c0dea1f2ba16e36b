//! RocksDB's optimistic transactions, through its C interface.

use std::ptr;

use hedgerow_bench::{OpenOptions, Result};

use super::{Options, check, ffi, settings};
use crate::c_api;

/// An open database of optimistic transactions.
#[derive(Debug)]
pub(crate) struct Transactions {
    db: *mut ffi::OptimisticDb,
    base: *mut ffi::Db,
    read: *mut ffi::ReadOptions,
    write: *mut ffi::WriteOptions,
    options: *mut ffi::OptimisticOptions,
}

// SAFETY: as of a database; the options are only read.
unsafe impl Send for Transactions {}
// SAFETY: as above.
unsafe impl Sync for Transactions {}

impl Transactions {
    /// Opens or creates the database, with the settings of the other workloads.
    ///
    /// # Errors
    /// What RocksDB says.
    pub(crate) fn open(options: &OpenOptions) -> Result<Transactions> {
        let settings = Options::parse(&settings::options(options, "")?)?;
        let path = c_api::path(&options.dir)?;
        let mut error = ptr::null_mut();
        // SAFETY: both live through the call, which copies.
        let db = unsafe {
            ffi::rocksdb_optimistictransactiondb_open(settings.0, path.as_ptr(), &mut error)
        };
        check(error)?;
        // SAFETY: takes nothing.
        let transaction = unsafe { ffi::rocksdb_optimistictransaction_options_create() };
        // SAFETY: just made.
        unsafe { ffi::rocksdb_optimistictransaction_options_set_set_snapshot(transaction, 1) };
        Ok(Transactions {
            // SAFETY: just opened.
            base: unsafe { ffi::rocksdb_optimistictransactiondb_get_base_db(db) },
            db,
            // SAFETY: takes nothing.
            read: unsafe { ffi::rocksdb_readoptions_create() },
            // SAFETY: takes nothing.
            write: unsafe { ffi::rocksdb_writeoptions_create() },
            options: transaction,
        })
    }

    /// Puts without a transaction.
    ///
    /// # Errors
    /// What RocksDB says.
    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut error = ptr::null_mut();
        // SAFETY: ours, and lent.
        unsafe {
            ffi::rocksdb_put(
                self.base,
                self.write,
                key.as_ptr().cast(),
                key.len(),
                value.as_ptr().cast(),
                value.len(),
                &mut error,
            );
        }
        check(error)
    }

    /// Begins a transaction at a snapshot of now.
    pub(crate) fn begin(&self) -> Transaction<'_> {
        // SAFETY: ours; there is no transaction to use again.
        let t = unsafe {
            ffi::rocksdb_optimistictransaction_begin(
                self.db,
                self.write,
                self.options,
                ptr::null_mut(),
            )
        };
        Transaction { db: self, t }
    }
}

impl Drop for Transactions {
    fn drop(&mut self) {
        // SAFETY: not used again.
        unsafe { ffi::rocksdb_optimistictransaction_options_destroy(self.options) };
        // SAFETY: not used again.
        unsafe { ffi::rocksdb_readoptions_destroy(self.read) };
        // SAFETY: not used again.
        unsafe { ffi::rocksdb_writeoptions_destroy(self.write) };
        // SAFETY: lent by the database, which lives; not used again.
        unsafe { ffi::rocksdb_optimistictransactiondb_close_base_db(self.base) };
        // SAFETY: not used again.
        unsafe { ffi::rocksdb_optimistictransactiondb_close(self.db) };
    }
}

/// A transaction.
#[derive(Debug)]
pub(crate) struct Transaction<'a> {
    db: &'a Transactions,
    t: *mut ffi::Transaction,
}

impl Transaction<'_> {
    /// The value of a key, which the commit will check.
    ///
    /// # Errors
    /// What RocksDB says.
    pub(crate) fn get_for_update(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let (mut length, mut error) = (0, ptr::null_mut());
        // SAFETY: ours, and lent.
        let value = unsafe {
            ffi::rocksdb_transaction_get_for_update(
                self.t,
                self.db.read,
                key.as_ptr().cast(),
                key.len(),
                &mut length,
                1,
                &mut error,
            )
        };
        check(error)?;
        if value.is_null() {
            return Ok(None);
        }
        // SAFETY: the library has allocated as many bytes for us.
        let bytes = unsafe { c_api::lend(value, length) }.to_vec();
        // SAFETY: not used again.
        unsafe { ffi::rocksdb_free(value.cast()) };
        Ok(Some(bytes))
    }

    /// Adds a put.
    ///
    /// # Errors
    /// What RocksDB says.
    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut error = ptr::null_mut();
        // SAFETY: ours, and lent.
        unsafe {
            ffi::rocksdb_transaction_put(
                self.t,
                key.as_ptr().cast(),
                key.len(),
                value.as_ptr().cast(),
                value.len(),
                &mut error,
            );
        }
        check(error)
    }

    /// Commits. Returns false if it was refused.
    ///
    /// # Errors
    /// What else RocksDB says.
    pub(crate) fn commit(self) -> Result<bool> {
        let mut error = ptr::null_mut();
        // SAFETY: ours.
        unsafe { ffi::rocksdb_transaction_commit(self.t, &mut error) };
        match check(error) {
            Ok(()) => Ok(true),
            Err(e) if e.to_string().contains("Resource busy") => Ok(false),
            Err(e) => Err(e),
        }
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // SAFETY: not used again.
        unsafe { ffi::rocksdb_transaction_destroy(self.t) };
    }
}
