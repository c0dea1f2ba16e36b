//! The part of `rocksdb/c.h` that the store needs, as RocksDB 7.8 to 11.8 declare it.

use std::ffi::{c_char, c_int, c_uchar, c_void};

macro_rules! opaque {
    ($($name:ident)*) => {$(
        #[repr(C)]
        pub(super) struct $name {
            _private: [u8; 0],
        }
    )*};
}
opaque! { Db Options ReadOptions WriteOptions FlushOptions WriteBatch Iterator ColumnFamily PinnableSlice OptimisticDb OptimisticOptions Transaction }

// Linked by `build.rs`.
unsafe extern "C" {
    pub(super) fn rocksdb_optimistictransactiondb_open(
        options: *const Options,
        name: *const c_char,
        error: *mut *mut c_char,
    ) -> *mut OptimisticDb;
    pub(super) fn rocksdb_optimistictransactiondb_get_base_db(db: *mut OptimisticDb) -> *mut Db;
    pub(super) fn rocksdb_optimistictransactiondb_close_base_db(db: *mut Db);
    pub(super) fn rocksdb_optimistictransactiondb_close(db: *mut OptimisticDb);
    pub(super) fn rocksdb_optimistictransaction_options_create() -> *mut OptimisticOptions;
    pub(super) fn rocksdb_optimistictransaction_options_destroy(options: *mut OptimisticOptions);
    pub(super) fn rocksdb_optimistictransaction_options_set_set_snapshot(
        options: *mut OptimisticOptions,
        value: c_uchar,
    );
    pub(super) fn rocksdb_optimistictransaction_begin(
        db: *mut OptimisticDb,
        write: *const WriteOptions,
        options: *const OptimisticOptions,
        old: *mut Transaction,
    ) -> *mut Transaction;
    pub(super) fn rocksdb_transaction_get_for_update(
        transaction: *mut Transaction,
        options: *const ReadOptions,
        key: *const c_char,
        key_length: usize,
        value_length: *mut usize,
        exclusive: c_uchar,
        error: *mut *mut c_char,
    ) -> *mut c_char;
    pub(super) fn rocksdb_transaction_put(
        transaction: *mut Transaction,
        key: *const c_char,
        key_length: usize,
        value: *const c_char,
        value_length: usize,
        error: *mut *mut c_char,
    );
    pub(super) fn rocksdb_transaction_commit(
        transaction: *mut Transaction,
        error: *mut *mut c_char,
    );
    pub(super) fn rocksdb_transaction_destroy(transaction: *mut Transaction);

    pub(super) fn rocksdb_open_column_families(
        options: *const Options,
        name: *const c_char,
        column_families: c_int,
        column_family_names: *const *const c_char,
        column_family_options: *const *const Options,
        column_family_handles: *mut *mut ColumnFamily,
        error: *mut *mut c_char,
    ) -> *mut Db;
    pub(super) fn rocksdb_column_family_handle_destroy(handle: *mut ColumnFamily);
    pub(super) fn rocksdb_close(db: *mut Db);

    pub(super) fn rocksdb_put(
        db: *mut Db,
        options: *const WriteOptions,
        key: *const c_char,
        key_length: usize,
        value: *const c_char,
        value_length: usize,
        error: *mut *mut c_char,
    );
    pub(super) fn rocksdb_delete(
        db: *mut Db,
        options: *const WriteOptions,
        key: *const c_char,
        key_length: usize,
        error: *mut *mut c_char,
    );
    pub(super) fn rocksdb_write(
        db: *mut Db,
        options: *const WriteOptions,
        batch: *mut WriteBatch,
        error: *mut *mut c_char,
    );
    pub(super) fn rocksdb_writebatch_create() -> *mut WriteBatch;
    pub(super) fn rocksdb_writebatch_destroy(batch: *mut WriteBatch);
    pub(super) fn rocksdb_writebatch_put(
        batch: *mut WriteBatch,
        key: *const c_char,
        key_length: usize,
        value: *const c_char,
        value_length: usize,
    );

    pub(super) fn rocksdb_get_pinned(
        db: *mut Db,
        options: *const ReadOptions,
        key: *const c_char,
        key_length: usize,
        error: *mut *mut c_char,
    ) -> *mut PinnableSlice;
    pub(super) fn rocksdb_batched_multi_get_cf(
        db: *mut Db,
        options: *const ReadOptions,
        column_family: *mut ColumnFamily,
        keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values: *mut *mut PinnableSlice,
        errors: *mut *mut c_char,
        sorted_input: bool,
    );
    pub(super) fn rocksdb_pinnableslice_value(
        slice: *const PinnableSlice,
        length: *mut usize,
    ) -> *const c_char;
    pub(super) fn rocksdb_pinnableslice_destroy(slice: *mut PinnableSlice);

    pub(super) fn rocksdb_create_iterator(
        db: *mut Db,
        options: *const ReadOptions,
    ) -> *mut Iterator;
    pub(super) fn rocksdb_iter_destroy(iterator: *mut Iterator);
    pub(super) fn rocksdb_iter_seek(iterator: *mut Iterator, key: *const c_char, length: usize);
    pub(super) fn rocksdb_iter_next(iterator: *mut Iterator);
    pub(super) fn rocksdb_iter_valid(iterator: *const Iterator) -> c_uchar;
    pub(super) fn rocksdb_iter_key(iterator: *const Iterator, length: *mut usize) -> *const c_char;
    pub(super) fn rocksdb_iter_value(
        iterator: *const Iterator,
        length: *mut usize,
    ) -> *const c_char;
    pub(super) fn rocksdb_iter_get_error(iterator: *const Iterator, error: *mut *mut c_char);

    pub(super) fn rocksdb_flush(db: *mut Db, options: *const FlushOptions, error: *mut *mut c_char);
    pub(super) fn rocksdb_property_value(db: *mut Db, name: *const c_char) -> *mut c_char;
    pub(super) fn rocksdb_property_int(db: *mut Db, name: *const c_char, value: *mut u64) -> c_int;

    pub(super) fn rocksdb_options_create() -> *mut Options;
    pub(super) fn rocksdb_options_destroy(options: *mut Options);
    pub(super) fn rocksdb_get_options_from_string(
        base: *const Options,
        text: *const c_char,
        options: *mut Options,
        error: *mut *mut c_char,
    );
    pub(super) fn rocksdb_readoptions_create() -> *mut ReadOptions;
    pub(super) fn rocksdb_readoptions_destroy(options: *mut ReadOptions);
    pub(super) fn rocksdb_writeoptions_create() -> *mut WriteOptions;
    pub(super) fn rocksdb_writeoptions_destroy(options: *mut WriteOptions);
    pub(super) fn rocksdb_writeoptions_set_sync(options: *mut WriteOptions, sync: c_uchar);
    pub(super) fn rocksdb_flushoptions_create() -> *mut FlushOptions;
    pub(super) fn rocksdb_flushoptions_destroy(options: *mut FlushOptions);
    pub(super) fn rocksdb_free(allocated: *mut c_void);
}
