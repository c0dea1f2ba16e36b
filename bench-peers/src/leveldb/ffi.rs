//! The part of `leveldb/c.h` that the store needs, as LevelDB 1.23 declares it.

use std::ffi::{c_char, c_int, c_void};

macro_rules! opaque {
    ($($name:ident)*) => {$(
        #[repr(C)]
        pub(super) struct $name {
            _private: [u8; 0],
        }
    )*};
}
opaque! { Db Options ReadOptions WriteOptions WriteBatch Iterator Cache FilterPolicy }

/// `leveldb_no_compression`.
pub(super) const NO_COMPRESSION: c_int = 0;

#[link(name = "leveldb")]
unsafe extern "C" {
    pub(super) fn leveldb_open(
        options: *const Options,
        name: *const c_char,
        error: *mut *mut c_char,
    ) -> *mut Db;
    pub(super) fn leveldb_close(db: *mut Db);

    pub(super) fn leveldb_put(
        db: *mut Db,
        options: *const WriteOptions,
        key: *const c_char,
        key_length: usize,
        value: *const c_char,
        value_length: usize,
        error: *mut *mut c_char,
    );
    pub(super) fn leveldb_delete(
        db: *mut Db,
        options: *const WriteOptions,
        key: *const c_char,
        key_length: usize,
        error: *mut *mut c_char,
    );
    pub(super) fn leveldb_write(
        db: *mut Db,
        options: *const WriteOptions,
        batch: *mut WriteBatch,
        error: *mut *mut c_char,
    );
    pub(super) fn leveldb_writebatch_create() -> *mut WriteBatch;
    pub(super) fn leveldb_writebatch_destroy(batch: *mut WriteBatch);
    pub(super) fn leveldb_writebatch_put(
        batch: *mut WriteBatch,
        key: *const c_char,
        key_length: usize,
        value: *const c_char,
        value_length: usize,
    );

    pub(super) fn leveldb_get(
        db: *mut Db,
        options: *const ReadOptions,
        key: *const c_char,
        key_length: usize,
        value_length: *mut usize,
        error: *mut *mut c_char,
    ) -> *mut c_char;

    pub(super) fn leveldb_create_iterator(
        db: *mut Db,
        options: *const ReadOptions,
    ) -> *mut Iterator;
    pub(super) fn leveldb_iter_destroy(iterator: *mut Iterator);
    pub(super) fn leveldb_iter_seek(iterator: *mut Iterator, key: *const c_char, length: usize);
    pub(super) fn leveldb_iter_next(iterator: *mut Iterator);
    pub(super) fn leveldb_iter_valid(iterator: *const Iterator) -> u8;
    pub(super) fn leveldb_iter_key(iterator: *const Iterator, length: *mut usize) -> *const c_char;
    pub(super) fn leveldb_iter_value(
        iterator: *const Iterator,
        length: *mut usize,
    ) -> *const c_char;
    pub(super) fn leveldb_iter_get_error(iterator: *const Iterator, error: *mut *mut c_char);

    pub(super) fn leveldb_compact_range(
        db: *mut Db,
        start: *const c_char,
        start_length: usize,
        limit: *const c_char,
        limit_length: usize,
    );
    pub(super) fn leveldb_property_value(db: *mut Db, name: *const c_char) -> *mut c_char;

    pub(super) fn leveldb_options_create() -> *mut Options;
    pub(super) fn leveldb_options_destroy(options: *mut Options);
    pub(super) fn leveldb_options_set_create_if_missing(options: *mut Options, value: u8);
    pub(super) fn leveldb_options_set_filter_policy(
        options: *mut Options,
        policy: *mut FilterPolicy,
    );
    pub(super) fn leveldb_options_set_cache(options: *mut Options, cache: *mut Cache);
    pub(super) fn leveldb_options_set_write_buffer_size(options: *mut Options, bytes: usize);
    pub(super) fn leveldb_options_set_max_open_files(options: *mut Options, count: c_int);
    pub(super) fn leveldb_options_set_block_size(options: *mut Options, bytes: usize);
    pub(super) fn leveldb_options_set_max_file_size(options: *mut Options, bytes: usize);
    pub(super) fn leveldb_options_set_compression(options: *mut Options, kind: c_int);
    pub(super) fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> *mut FilterPolicy;
    pub(super) fn leveldb_filterpolicy_destroy(policy: *mut FilterPolicy);
    pub(super) fn leveldb_cache_create_lru(bytes: usize) -> *mut Cache;
    pub(super) fn leveldb_cache_destroy(cache: *mut Cache);
    pub(super) fn leveldb_readoptions_create() -> *mut ReadOptions;
    pub(super) fn leveldb_readoptions_destroy(options: *mut ReadOptions);
    pub(super) fn leveldb_writeoptions_create() -> *mut WriteOptions;
    pub(super) fn leveldb_writeoptions_destroy(options: *mut WriteOptions);
    pub(super) fn leveldb_writeoptions_set_sync(options: *mut WriteOptions, sync: u8);
    pub(super) fn leveldb_free(allocated: *mut c_void);
    pub(super) fn leveldb_major_version() -> c_int;
    pub(super) fn leveldb_minor_version() -> c_int;
}
