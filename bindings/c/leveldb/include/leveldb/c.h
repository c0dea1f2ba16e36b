/* LevelDB's C interface, as libhedgerow_leveldb has it.
 *
 * A failure is a text in `*errptr`: NULL before the first call, freed by `leveldb_free`. A key or a
 * value is an address and a length. Every object is a handle: one that was destroyed causes an
 * error, or nothing where a function has no way to report one. */
#ifndef HEDGEROW_LEVELDB_C_H
#define HEDGEROW_LEVELDB_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct leveldb_t leveldb_t;
typedef struct leveldb_cache_t leveldb_cache_t;
typedef struct leveldb_comparator_t leveldb_comparator_t;
typedef struct leveldb_env_t leveldb_env_t;
typedef struct leveldb_filterpolicy_t leveldb_filterpolicy_t;
typedef struct leveldb_iterator_t leveldb_iterator_t;
typedef struct leveldb_logger_t leveldb_logger_t;
typedef struct leveldb_options_t leveldb_options_t;
typedef struct leveldb_readoptions_t leveldb_readoptions_t;
typedef struct leveldb_snapshot_t leveldb_snapshot_t;
typedef struct leveldb_writebatch_t leveldb_writebatch_t;
typedef struct leveldb_writeoptions_t leveldb_writeoptions_t;

/* ---- databases ---- */

leveldb_t* leveldb_open(const leveldb_options_t* options, const char* name, char** errptr);
/* Its iterators stay where they are, and report an error when they move. */
void leveldb_close(leveldb_t* db);
void leveldb_put(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key,
                 size_t keylen, const char* val, size_t vallen, char** errptr);
void leveldb_delete(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key,
                    size_t keylen, char** errptr);
/* Commits all operations of the batch, or none. */
void leveldb_write(leveldb_t* db, const leveldb_writeoptions_t* options,
                   leveldb_writebatch_t* batch, char** errptr);
/* NULL if the key has no value; else memory to free. */
char* leveldb_get(leveldb_t* db, const leveldb_readoptions_t* options, const char* key,
                  size_t keylen, size_t* vallen, char** errptr);
leveldb_iterator_t* leveldb_create_iterator(leveldb_t* db, const leveldb_readoptions_t* options);
const leveldb_snapshot_t* leveldb_create_snapshot(leveldb_t* db);
/* Reads that name the snapshot fail from now on. */
void leveldb_release_snapshot(leveldb_t* _db, const leveldb_snapshot_t* snapshot);
/* `leveldb.stats`, `leveldb.sstables`, `leveldb.approximate-memory-usage`,
 * `leveldb.num-files-at-level0` to 6: a text to free; NULL for another name. */
char* leveldb_property_value(leveldb_t* db, const char* propname);
void leveldb_approximate_sizes(leveldb_t* db, int num_ranges,
                               const char* const* range_start_key,
                               const size_t* range_start_key_len,
                               const char* const* range_limit_key,
                               const size_t* range_limit_key_len, uint64_t* sizes);
/* NULL is the first key, or the last one. */
void leveldb_compact_range(leveldb_t* db, const char* start_key, size_t start_key_len,
                           const char* limit_key, size_t limit_key_len);
void leveldb_destroy_db(const leveldb_options_t* _options, const char* name, char** errptr);
void leveldb_repair_db(const leveldb_options_t* options, const char* name, char** errptr);

/* ---- iterators ---- */

void leveldb_iter_destroy(leveldb_iterator_t* iterator);
uint8_t leveldb_iter_valid(const leveldb_iterator_t* iterator);
void leveldb_iter_seek_to_first(leveldb_iterator_t* iterator);
void leveldb_iter_seek_to_last(leveldb_iterator_t* iterator);
void leveldb_iter_seek(leveldb_iterator_t* iterator, const char* k, size_t klen);
void leveldb_iter_next(leveldb_iterator_t* iterator);
void leveldb_iter_prev(leveldb_iterator_t* iterator);
/* Key and value stay where they are until the iterator moves or is destroyed. */
const char* leveldb_iter_key(const leveldb_iterator_t* iterator, size_t* klen);
const char* leveldb_iter_value(const leveldb_iterator_t* iterator, size_t* vlen);
void leveldb_iter_get_error(const leveldb_iterator_t* iterator, char** errptr);

/* ---- batches ---- */

leveldb_writebatch_t* leveldb_writebatch_create(void);
void leveldb_writebatch_destroy(leveldb_writebatch_t* batch);
void leveldb_writebatch_clear(leveldb_writebatch_t* batch);
void leveldb_writebatch_put(leveldb_writebatch_t* batch, const char* key, size_t klen,
                            const char* val, size_t vlen);
void leveldb_writebatch_delete(leveldb_writebatch_t* batch, const char* key, size_t klen);
void leveldb_writebatch_iterate(const leveldb_writebatch_t* batch, void* state,
                                void (*put)(void*, const char*, size_t, const char*, size_t),
                                void (*deleted)(void*, const char*, size_t));
void leveldb_writebatch_append(leveldb_writebatch_t* destination,
                               const leveldb_writebatch_t* source);

/* ---- options ---- */

leveldb_options_t* leveldb_options_create(void);
void leveldb_options_destroy(leveldb_options_t* options);
/* A comparator must order keys by their bytes; others are refused by `leveldb_open`. */
void leveldb_options_set_comparator(leveldb_options_t* options, leveldb_comparator_t* comparator);
void leveldb_options_set_filter_policy(leveldb_options_t* options, leveldb_filterpolicy_t* policy);
void leveldb_options_set_create_if_missing(leveldb_options_t* options, uint8_t on);
void leveldb_options_set_error_if_exists(leveldb_options_t* options, uint8_t on);
/* No effect, as those whose parameters begin with a line. */
void leveldb_options_set_paranoid_checks(leveldb_options_t* _options, uint8_t _on);
void leveldb_options_set_env(leveldb_options_t* _options, leveldb_env_t* _env);
void leveldb_options_set_info_log(leveldb_options_t* _options, leveldb_logger_t* _logger);
/* The memory budget of the database: two write buffers, the cache and 8 MiB. */
void leveldb_options_set_write_buffer_size(leveldb_options_t* options, size_t bytes);
void leveldb_options_set_max_open_files(leveldb_options_t* _options, int _files);
void leveldb_options_set_cache(leveldb_options_t* options, leveldb_cache_t* cache);
void leveldb_options_set_block_size(leveldb_options_t* options, size_t bytes);
void leveldb_options_set_block_restart_interval(leveldb_options_t* _options, int _keys);
void leveldb_options_set_max_file_size(leveldb_options_t* options, size_t bytes);

/* The second one is LZ4 here. */
enum { leveldb_no_compression = 0, leveldb_snappy_compression = 1 };
void leveldb_options_set_compression(leveldb_options_t* options, int compression);

leveldb_comparator_t* leveldb_comparator_create(
    void* state, void (*destructor)(void*),
    int (*compare)(void*, const char*, size_t, const char*, size_t), const char* (*name)(void*));
void leveldb_comparator_destroy(leveldb_comparator_t* comparator);

/* Such a filter policy is not used. */
leveldb_filterpolicy_t* leveldb_filterpolicy_create(
    void* state, void (*destructor)(void*),
    char* (*_create_filter)(void*, const char* const*, const size_t*, int, size_t*),
    uint8_t (*_key_may_match)(void*, const char*, size_t, const char*, size_t),
    const char* (*_name)(void*));
void leveldb_filterpolicy_destroy(leveldb_filterpolicy_t* policy);
leveldb_filterpolicy_t* leveldb_filterpolicy_create_bloom(int bits_per_key);

leveldb_readoptions_t* leveldb_readoptions_create(void);
void leveldb_readoptions_destroy(leveldb_readoptions_t* options);
void leveldb_readoptions_set_verify_checksums(leveldb_readoptions_t* _options, uint8_t _on);
void leveldb_readoptions_set_fill_cache(leveldb_readoptions_t* _options, uint8_t _on);
void leveldb_readoptions_set_snapshot(leveldb_readoptions_t* options,
                                      const leveldb_snapshot_t* snapshot);

leveldb_writeoptions_t* leveldb_writeoptions_create(void);
void leveldb_writeoptions_destroy(leveldb_writeoptions_t* options);
void leveldb_writeoptions_set_sync(leveldb_writeoptions_t* options, uint8_t on);

leveldb_cache_t* leveldb_cache_create_lru(size_t bytes);
void leveldb_cache_destroy(leveldb_cache_t* cache);

leveldb_env_t* leveldb_create_default_env(void);
void leveldb_env_destroy(leveldb_env_t* env);
/* A path to free; NULL if it cannot be made. */
char* leveldb_env_get_test_directory(leveldb_env_t* env);

/* ---- others ---- */

void leveldb_free(void* pointer);
int leveldb_major_version(void);
int leveldb_minor_version(void);

#ifdef __cplusplus
}
#endif

#endif
