/* Hedgerow: an embeddable, parallel, tunable LSM-tree key-value engine. The C interface.
 *
 *   hg_db* db;
 *   hg_keyspace* users;
 *   hg_error error;
 *   if (hg_open("data", NULL, &db, &error) != HG_OK ||
 *       hg_keyspace_open(db, "users", "sorted", NULL, &users, &error) != HG_OK ||
 *       hg_put(users, hg_text("ada"), hg_text("1815"), HG_BUFFERED, &error) != HG_OK)
 *     fprintf(stderr, "%s\n", error.message);
 *
 * Outcomes. Every function returns a code. `HG_OK` and `HG_NOT_FOUND` are no failures. After any
 * other code, `*error` has the code and a message; `error` may be NULL. Results are written to the
 * places that the caller names; those marked `optional` may be NULL.
 *
 * Handles. A pointer to an object (`hg_db*`, `hg_keyspace*` ...) is a handle: a number that is
 * never followed. A handle that was freed, one of another kind, one from before a `fork`, and any
 * other number are `HG_CLOSED` or `HG_INVALID_ARGUMENT`. To free NULL is nothing. Objects may be
 * freed in any order: an iterator whose database was closed returns `HG_CLOSED`.
 *
 * Memory. Arguments belong to the caller: the library has read them when a call returns, also an
 * asynchronous one. A `char*` that the library writes to its place is the caller's from then on,
 * who frees it by `hg_free`. Bytes in an `hg_bytes` that the library writes, or passes to a
 * function of the program, belong to the library; each call says how long they stay. Each handle is
 * freed once, by the function for its kind (`hg_close`, `hg_iter_free` ...). A closed database
 * frees no handles of others, and keeps memory while there are some.
 *
 * Threads. Any thread may use any handle at any time. A batch, a transaction, an iterator and a
 * position among the changes serve one call at a time; calls of other threads wait.
 *
 * Functions of the program. Each gets the state that came with it, which stays the program's. It
 * must return: no exception of C++ and no `longjmp` may leave it.
 *   - `hg_go_on` is called by the thread that has set it, within its long calls. It may use any
 *     object but that of the call, which is `HG_INVALID_ARGUMENT`; it may free it.
 *   - `hg_next_entry` and `hg_new_value` are called by the thread of their call, within it. They
 *     may read with any object. `hg_new_value` may also write other keys. If it writes the key of
 *     its call, it is called again; so it is, seldom, after a write to another key.
 *   - `hg_done` is called by any thread, of the program or of the library. It may start
 *     asynchronous calls; it must not wait for them, nor make long calls.
 *   - A merge function is called by any thread that reads, writes, flushes or merges, by several at
 *     once. It must not use a database that has it: it may have been called under its locks.
 *   - `destroy` of a merge function is called by any thread; it must not call the library.
 *
 * Texts end with a zero byte and are UTF-8; paths may have any bytes. Keys have up to 64 KiB,
 * values up to 64 MiB; both may be empty. */
#ifndef HEDGEROW_H
#define HEDGEROW_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  HG_OK = 0,
  /* There is no such key, entry or keyspace. */
  HG_NOT_FOUND = 1,
  /* An argument is out of bounds, or is no handle of this kind. */
  HG_INVALID_ARGUMENT = 2,
  /* The layout, or the way the database was opened, does not allow this. */
  HG_UNSUPPORTED = 3,
  /* The database is open for writing elsewhere. */
  HG_LOCKED = 4,
  /* The operating system refused. */
  HG_IO = 5,
  /* A disk has no space, or the process no memory for the result. */
  HG_NO_SPACE = 6,
  /* Bytes on disk are not those that were written. */
  HG_CORRUPTION = 7,
  /* A newer version wrote the database. */
  HG_FORMAT_VERSION = 8,
  /* Another write came first: try again. */
  HG_CONFLICT = 9,
  /* An earlier write failed: open the database again. */
  HG_POISONED = 10,
  /* The database, the keyspace or the handle was closed, or is from before a fork. */
  HG_CLOSED = 11,
  /* A function of the program ended the call. */
  HG_CANCELLED = 12,
  /* A queue is full. */
  HG_WOULD_BLOCK = 13,
  /* A merge operator failed. */
  HG_OPERATOR = 14,
  /* The buffer has no room for the value or the entry. */
  HG_BUFFER_TOO_SMALL = 15,
  /* A defect of this library. */
  HG_DEFECT = 16,
  /* The database no longer has these changes; the message says from which number on it has some. */
  HG_GAP = 17,
} hg_code;

typedef struct {
  hg_code code;
  char message[508];
} hg_error;

/* Bytes of the caller or of the library: an address and a length. The address may be NULL if there
 * are none. */
typedef struct {
  const void* data;
  size_t len;
} hg_bytes;

typedef struct hg_options hg_options;
typedef struct hg_db hg_db;
typedef struct hg_keyspace hg_keyspace;
typedef struct hg_snapshot hg_snapshot;
typedef struct hg_batch hg_batch;
typedef struct hg_transaction hg_transaction;
typedef struct hg_iter hg_iter;
typedef struct hg_pinned hg_pinned;
typedef struct hg_changes hg_changes;

/* The end that a write must survive: that of the process, or of the machine. */
typedef enum { HG_BUFFERED = 0, HG_SYNCED = 1 } hg_durability;
/* When a value expires: never, at a time in milliseconds since 1970, or so many milliseconds after
 * the write. */
typedef enum { HG_NEVER = 0, HG_AT = 1, HG_IN = 2 } hg_expiry;

/* ---- the library ---- */

/* Changes when programs have to be compiled again; 0 now, as the number of the shared library. */
int hg_abi_version(void);
/* A text that stays. */
const char* hg_version(void);
/* Frees memory that a function returned: values of `hg_get`, texts. */
void hg_free(void* memory);

/* Long calls of this thread call `go_on` with the bytes done and the bytes to do (0 if unknown). If
 * it returns 0, the call ends with `HG_CANCELLED`. NULL as `go_on` ends the asking; `state` has to
 * stay until then.
 *   - Verification, and making, verifying and restoring backups ask between parts of their work,
 *     and end then, with what they have done.
 *   - A compaction asks between its parts and every 20 ms, and leaves its caller. It ends in the
 *     background behind the part under way.
 *   - `hg_multi_get` asks every 4,096 keys, and ends without values. `hg_iter_fill` asks every
 *     4,096 entries; what it has written counts, and the next call goes on behind it.
 *   - `hg_keyspace_bulk_load` asks every 20 ms, and leaves its caller. A load that has taken its
 *     last entry goes on in the background, another one leaves nothing; the caller does not learn
 *     which.
 *   - `hg_changes_next` waits no longer, and has taken no change.
 *   - All others are asked every 20 ms, and leave only their caller: the work goes on in the
 *     background to its end, which nobody learns. These are to open, close, repair and destroy a
 *     database, `hg_sync`, `hg_flush`, `hg_checkpoint`, to open, drop, rename, clear, retune,
 *     export and ingest a keyspace, to set its time to live, `hg_keyspace_wait_until_merged`, to
 *     create, confirm and drop a slot, `hg_backup_prune`, and commits of 1 MiB and more. A batch
 *     that was left is empty, a transaction has ended.
 *   - Other writes and smaller commits ask while they wait for a flush because memory is full. If
 *     they end then, nothing was written, and a batch or a transaction keeps its operations.
 * Calls that are not named do not ask. Each takes a write, which may wait for a sync, or the reads
 * of one entry; an iterator also passes deleted entries. */
typedef int (*hg_go_on)(void*, uint64_t, uint64_t);
void hg_set_progress(hg_go_on go_on, void* state);

/* ---- options of a database ---- */

hg_code hg_options_new(hg_options** options, hg_error* error);
/* `memory_budget` (`64MiB`; 256MiB by default), `create_if_missing` (`true`), `read_only`
 * (`false`), `background_threads`, `workers` and `worker_queue` (for asynchronous calls),
 * `io_bytes_per_second`, `log_bytes_max`, `log_segment_bytes`, `compress_log` (`false`),
 * `level_paths` (`0-1=/fast;2-=/slow;log=/fast`), `read_mode` (`pread`, `mmap`, `direct`). */
hg_code hg_options_set(hg_options* options, const char* name, const char* value, hg_error* error);
hg_code hg_options_free(hg_options* options);

/* A merge function writes memory of `malloc` to its result, which the library frees, and returns
 * one of these. */
typedef enum {
  HG_MERGED_VALUE = 0,
  /* `full`: the key has no value now. `partial`: the operands stay apart. */
  HG_MERGED_NOTHING = 1,
  /* The operands cannot be combined; reads of the key fail. */
  HG_MERGED_FAILURE = 2,
} hg_merged;
typedef struct {
  void* data;
  size_t len;
} hg_buffer;
/* State; key; the value, NULL if there is none; operands, the oldest first; their number;
   result. */
typedef int (*hg_merge_full)(void*, hg_bytes, const hg_bytes*, const hg_bytes*, size_t, hg_buffer*);
/* State; key; the older operand; the newer one; result. */
typedef int (*hg_merge_partial)(void*, hg_bytes, hg_bytes, hg_bytes, hg_buffer*);
/* Adds an operator, which keyspaces name in their layout. All bytes that its functions get stay
 * until they return. `partial` and `destroy` may be NULL. If the call succeeds, `state` has to stay
 * until `destroy`, which is called once: when the options are freed, each database that was opened
 * with them is closed, all handles of these are freed, and calls that use them have ended; also if
 * no database could be opened. If the call fails, `destroy` is not called. Built in are `add_i64`,
 * `add_f64`, `min`, `max`, `append`, `bit_and`, `bit_or`, `bit_xor` and `union_u64`. */
hg_code hg_options_add_merge_operator(hg_options* options, const char* name, void* state,
                                      hg_merge_full full, hg_merge_partial partial,
                                      void (*destroy)(void*), hg_error* error);

/* ---- databases ---- */

/* `options` may be NULL. They are copied: they may be freed afterwards. */
hg_code hg_open(const char* path, const hg_options* options, hg_db** db, hg_error* error);
/* Makes everything durable; its keyspaces, snapshots and iterators are closed, too. */
hg_code hg_close(hg_db* db, hg_error* error);
/* `HG_OK` or `HG_NOT_FOUND`. */
hg_code hg_exists(const char* path, hg_error* error);
/* Removes the files of a database and nothing else. */
hg_code hg_destroy(const char* path, hg_error* error);
/* Rebuilds a damaged database of its tables and its log. The optional report is JSON to free. After
 * `HG_NO_SPACE` the message says if the database was repaired. */
hg_code hg_repair(const char* path, const hg_options* options, char** report, hg_error* error);
hg_code hg_sync(hg_db* db, hg_error* error);
hg_code hg_flush(hg_db* db, hg_error* error);
/* A copy in a new directory, mostly of links. */
hg_code hg_checkpoint(hg_db* db, const char* path, hg_error* error);
hg_code hg_verify(hg_db* db, hg_error* error);
/* JSON to free; sizes in bytes, times in microseconds. */
hg_code hg_stats_json(hg_db* db, char** json, hg_error* error);
/* The text format of Prometheus, to free; sizes in bytes, times in seconds. */
hg_code hg_stats_prometheus(hg_db* db, char** text, hg_error* error);

/* ---- keyspaces ---- */

/* Opens a keyspace, or creates it. The layout is an order of keys (`sorted`, `semi-sorted:8`,
 * `hashed`), a partitioning (`hash:8`, `range:KEY,KEY`) and a merge operator (`merge:append`), all
 * optional: `semi-sorted:8 hash:4 merge:append`. The design has a line for each choice: `filter =
 * bloom:10`. An existing keyspace keeps what is NULL or empty; another design changes it. */
hg_code hg_keyspace_open(hg_db* db, const char* name, const char* layout, const char* design,
                         hg_keyspace** keyspace, hg_error* error);
/* `HG_NOT_FOUND` if there is none. */
hg_code hg_keyspace_find(hg_db* db, const char* name, hg_keyspace** keyspace, hg_error* error);
hg_code hg_keyspace_free(hg_keyspace* keyspace);
hg_code hg_keyspace_drop(hg_db* db, const char* name, hg_error* error);
hg_code hg_keyspace_rename(hg_db* db, const char* from, const char* to, hg_error* error);
/* JSON to free: an array of names, layouts and designs. */
hg_code hg_keyspaces_json(hg_db* db, char** json, hg_error* error);
/* Texts to free, all optional. */
hg_code hg_keyspace_describe(hg_keyspace* handle, char** name, char** layout, char** design,
                             hg_error* error);
hg_code hg_keyspace_retune(hg_keyspace* handle, const char* design, hg_error* error);
hg_code hg_keyspace_set_self_tuning(hg_keyspace* handle, int on, hg_error* error);
/* Later puts expire after so many milliseconds; 0 is never. */
hg_code hg_keyspace_set_time_to_live(hg_keyspace* handle, uint64_t millis, hg_error* error);
hg_code hg_keyspace_clear(hg_keyspace* handle, hg_error* error);
hg_code hg_keyspace_stats_json(hg_keyspace* handle, char** json, hg_error* error);

/* A range is from `from` to before `to`; `HG_UNBOUNDED` is no bound. */
hg_code hg_keyspace_compact(hg_keyspace* handle, hg_bytes from, hg_bytes to, hg_error* error);
hg_code hg_keyspace_wait_until_merged(hg_keyspace* handle, hg_error* error);
/* Both estimates are optional. */
hg_code hg_keyspace_estimate(hg_keyspace* handle, hg_bytes from, hg_bytes to, uint64_t* bytes,
                             uint64_t* entries, hg_error* error);
/* Writes tables to a new directory, which `hg_keyspace_ingest` takes in as one commit. */
hg_code hg_keyspace_export(hg_keyspace* handle, hg_bytes from, hg_bytes to, const char* path,
                           hg_error* error);
hg_code hg_keyspace_ingest(hg_keyspace* handle, const char* const* paths, size_t count,
                           hg_error* error);
/* State; places for a key and its value, whose bytes have to stay until the next call. It returns
 * `HG_OK` with an entry, `HG_NOT_FOUND` at the end. Any other number ends the load with
 * `HG_CANCELLED`. */
typedef int (*hg_next_entry)(void*, hg_bytes*, hg_bytes*);
/* Puts entries directly into tables, as one durable commit: the fastest way to fill a keyspace. The
 * keys ascend if the keyspace is sorted; each comes once. After a failure nothing was put, except
 * perhaps after `HG_POISONED`, and if a progress function ended it behind the last entry. The
 * number of entries is optional. */
hg_code hg_keyspace_bulk_load(hg_keyspace* handle, hg_next_entry next, void* state, uint64_t* entries,
                              hg_error* error);

/* ---- writes: `how` is a durability, `meaning` an expiry ---- */

hg_code hg_put(hg_keyspace* handle, hg_bytes key, hg_bytes value, int how, hg_error* error);
hg_code hg_put_expiring(hg_keyspace* handle, hg_bytes key, hg_bytes value, int meaning,
                        uint64_t millis, int how, hg_error* error);
/* `HG_NOT_FOUND` if the key has no value. */
hg_code hg_set_expiry(hg_keyspace* handle, hg_bytes key, int meaning, uint64_t millis,
                      hg_error* error);
hg_code hg_delete(hg_keyspace* handle, hg_bytes key, int how, hg_error* error);
hg_code hg_merge(hg_keyspace* handle, hg_bytes key, hg_bytes operand, int how, hg_error* error);
hg_code hg_delete_range(hg_keyspace* handle, hg_bytes from, hg_bytes to, int how, hg_error* error);
hg_code hg_delete_prefix(hg_keyspace* handle, hg_bytes prefix, int how, hg_error* error);
/* Writes `replacement` if the value is `expected`; NULL is no value. `HG_CONFLICT` if it is another
 * one. */
hg_code hg_compare_and_swap(hg_keyspace* handle, hg_bytes key, const hg_bytes* expected,
                            const hg_bytes* replacement, hg_error* error);
/* State; the old value until it returns, NULL if there is none; the new value, in memory of
 * `malloc`, which the library frees. It returns an `hg_merged`: `HG_MERGED_NOTHING` removes the
 * value. */
typedef int (*hg_new_value)(void*, const hg_bytes*, hg_buffer*);
/* Replaces a value by what a function makes of it. If another write comes between, the function is
 * called again with its value. If it returns neither `HG_MERGED_VALUE` nor `HG_MERGED_NOTHING`, the
 * call ends with `HG_CANCELLED` and writes nothing. The time of expiry stays; a new key gets the
 * keyspace's time to live. */
hg_code hg_update(hg_keyspace* handle, hg_bytes key, hg_new_value new_value, void* state, int how,
                  hg_error* error);
/* Removes the first entry, or the last one, of a sorted keyspace. Key and value are memory to free,
 * with a zero byte behind each. `HG_NOT_FOUND` if there is none. No two calls get the same entry.
 * After a failure of the sync the entry may be removed; after `HG_NO_SPACE` the message says if it
 * was. */
hg_code hg_pop_first(hg_keyspace* handle, int how, char** key, size_t* key_len, char** value,
                     size_t* value_len, hg_error* error);
hg_code hg_pop_last(hg_keyspace* handle, int how, char** key, size_t* key_len, char** value,
                    size_t* value_len, hg_error* error);

/* ---- batches: all operations become visible and durable together ---- */

hg_code hg_batch_new(hg_db* db, hg_batch** batch, hg_error* error);
hg_code hg_batch_free(hg_batch* batch);
hg_code hg_batch_put(hg_batch* batch, hg_keyspace* handle, hg_bytes key, hg_bytes value,
                     hg_error* error);
hg_code hg_batch_put_expiring(hg_batch* batch, hg_keyspace* handle, hg_bytes key, hg_bytes value,
                              int meaning, uint64_t millis, hg_error* error);
hg_code hg_batch_delete(hg_batch* batch, hg_keyspace* handle, hg_bytes key, hg_error* error);
hg_code hg_batch_merge(hg_batch* batch, hg_keyspace* handle, hg_bytes key, hg_bytes operand,
                       hg_error* error);
hg_code hg_batch_delete_range(hg_batch* batch, hg_keyspace* handle, hg_bytes from, hg_bytes to,
                              hg_error* error);
hg_code hg_batch_clear(hg_batch* batch, hg_error* error);
hg_code hg_batch_count(hg_batch* batch, size_t* count, hg_error* error);
/* The batch is empty then, and can be used again. */
hg_code hg_batch_commit(hg_batch* batch, int how, hg_error* error);

/* ---- snapshots ---- */

hg_code hg_snapshot_new(hg_db* db, hg_snapshot** snapshot, hg_error* error);
hg_code hg_snapshot_number(const hg_snapshot* handle, uint64_t* number, hg_error* error);
/* Reads at the snapshot fail from now on; iterators over it stay. */
hg_code hg_snapshot_free(hg_snapshot* snapshot);

/* ---- reads: NULL as a snapshot reads the present; `HG_NOT_FOUND` if the key has no value ---- */

/* The value is memory to free, with a zero byte behind it. */
hg_code hg_get(hg_keyspace* handle, const hg_snapshot* snapshot, hg_bytes key, char** value,
               size_t* len, hg_error* error);
/* Writes the value to a buffer: the fastest way. `HG_BUFFER_TOO_SMALL` if it is longer than
 * `capacity`; `*len` is its length then, too. */
hg_code hg_get_into(hg_keyspace* handle, const hg_snapshot* snapshot, hg_bytes key, void* buffer,
                    size_t capacity, size_t* len, hg_error* error);
/* The value stays where it is until `*pinned` is freed; a long one is not copied. */
hg_code hg_get_pinned(hg_keyspace* handle, const hg_snapshot* snapshot, hg_bytes key,
                      hg_bytes* value, hg_pinned** pinned, hg_error* error);
/* Several values, whose reads overlap; an absent one has the address NULL. They stay until
 * `*pinned` is freed. */
hg_code hg_multi_get(hg_keyspace* handle, const hg_snapshot* at, const hg_bytes* keys,
                     size_t count, hg_bytes* values, hg_pinned** pinned, hg_error* error);
hg_code hg_pinned_free(hg_pinned* pinned);
hg_code hg_contains(hg_keyspace* handle, const hg_snapshot* at, hg_bytes key, hg_error* error);
/* Gets a key and writes each step as JSON to free: memtables, filters, tables, pages. */
hg_code hg_explain_json(hg_keyspace* handle, hg_bytes key, char** json, hg_error* error);
/* Writes `HG_NEVER`, or `HG_AT` with milliseconds since 1970. */
hg_code hg_expiry_of(hg_keyspace* handle, hg_bytes key, int* meaning, uint64_t* millis,
                     hg_error* error);

/* ---- iterators ---- */

/* Sees the present or a snapshot. A hashed keyspace has an order of its own: its iterators go
 * forward only, from the beginning. */
hg_code hg_iter_new(hg_keyspace* handle, const hg_snapshot* at, hg_iter** iter, hg_error* error);
hg_code hg_iter_free(hg_iter* iter);
/* Keeps the iterator within a range, before its next move. */
hg_code hg_iter_set_bounds(hg_iter* iter, hg_bytes from, hg_bytes to, hg_error* error);
/* Moves return `HG_OK` on a key, `HG_NOT_FOUND` on none. Key and value are optional; they stay
 * where they are until the iterator moves or is freed. */
hg_code hg_iter_seek_first(hg_iter* iter, hg_bytes* key, hg_bytes* value, hg_error* error);
hg_code hg_iter_seek_last(hg_iter* iter, hg_bytes* key, hg_bytes* value, hg_error* error);
/* To the first key at or after `target`. */
hg_code hg_iter_seek(hg_iter* iter, hg_bytes target, hg_bytes* key, hg_bytes* value,
                     hg_error* error);
/* To the last key at or before `target`. */
hg_code hg_iter_seek_for_prev(hg_iter* iter, hg_bytes target, hg_bytes* key, hg_bytes* value,
                              hg_error* error);
/* An iterator that was never moved goes to the first key, or to the last one. */
hg_code hg_iter_next(hg_iter* iter, hg_bytes* key, hg_bytes* value, hg_error* error);
hg_code hg_iter_prev(hg_iter* iter, hg_bytes* key, hg_bytes* value, hg_error* error);
/* The entry here, without a move. */
hg_code hg_iter_entry(hg_iter* iter, hg_bytes* key, hg_bytes* value, hg_error* error);

typedef enum { HG_FORWARD = 0, HG_BACKWARD = 1 } hg_direction;
/* Fills a buffer with entries, beginning with the one here, and moves behind them: the fastest way
 * to read many. An entry is the length of its key and that of its value, four bytes each,
 * little-endian, then key and value. `*used` is the number of bytes, the optional `*count` that of
 * entries. `HG_NOT_FOUND` if there is no entry, `HG_BUFFER_TOO_SMALL` if the next one needs `*used`
 * bytes. */
hg_code hg_iter_fill(hg_iter* iter, int direction, void* buffer, size_t capacity, size_t* used,
                     size_t* count, hg_error* error);

/* ---- transactions: optimistic, over all keyspaces ---- */

/* As if transactions had run one after another; or: keys that it writes were not changed by
   others. */
typedef enum { HG_SERIALIZABLE = 0, HG_SNAPSHOT = 1 } hg_isolation;
hg_code hg_transaction_begin(hg_db* db, int isolation, int how, hg_transaction** transaction,
                             hg_error* error);
/* Without a commit, its writes are discarded. */
hg_code hg_transaction_free(hg_transaction* transaction);
/* Sees the transaction's own writes. The value is memory to free. */
hg_code hg_transaction_get(hg_transaction* transaction, hg_keyspace* handle, hg_bytes key,
                           char** value, size_t* len, hg_error* error);
hg_code hg_transaction_put(hg_transaction* transaction, hg_keyspace* handle, hg_bytes key,
                           hg_bytes value, hg_error* error);
hg_code hg_transaction_put_expiring(hg_transaction* transaction, hg_keyspace* handle, hg_bytes key,
                                    hg_bytes value, int meaning, uint64_t millis, hg_error* error);
hg_code hg_transaction_delete(hg_transaction* transaction, hg_keyspace* handle, hg_bytes key,
                              hg_error* error);
hg_code hg_transaction_merge(hg_transaction* transaction, hg_keyspace* handle, hg_bytes key,
                             hg_bytes operand, hg_error* error);
hg_code hg_transaction_delete_range(hg_transaction* transaction, hg_keyspace* handle, hg_bytes from,
                                    hg_bytes to, hg_error* error);
hg_code hg_transaction_iter(hg_transaction* transaction, hg_keyspace* handle, hg_iter** iter,
                            hg_error* error);
hg_code hg_transaction_savepoint(hg_transaction* transaction, uint64_t* savepoint, hg_error* error);
hg_code hg_transaction_roll_back_to(hg_transaction* transaction, uint64_t savepoint,
                                    hg_error* error);
/* `HG_OK`, or `HG_CONFLICT` if another write came first. It has ended then, and is still to be
   freed. */
hg_code hg_transaction_commit(hg_transaction* transaction, hg_error* error);

/* ---- asynchronous calls ---- */

/* State; outcome; value; error or NULL. It is called once for each call that returned `HG_OK`, by
 * any thread, perhaps before that call returns. Value and error live until it returns. It must not
 * wait for another asynchronous call. */
typedef void (*hg_done)(void*, hg_code, hg_bytes, const hg_error*);
hg_code hg_get_async(hg_keyspace* handle, hg_bytes key, hg_done done, void* state, hg_error* error);
/* The value has all values, each behind its length of four bytes, little-endian; an absent one has
 * the length 0xffffffff. */
hg_code hg_multi_get_async(hg_keyspace* handle, const hg_bytes* keys, size_t count, hg_done done,
                           void* state, hg_error* error);
hg_code hg_put_async(hg_keyspace* handle, hg_bytes key, hg_bytes value, int how, hg_done done,
                     void* state, hg_error* error);
hg_code hg_delete_async(hg_keyspace* handle, hg_bytes key, int how, hg_done done, void* state,
                        hg_error* error);
hg_code hg_merge_async(hg_keyspace* handle, hg_bytes key, hg_bytes operand, int how, hg_done done,
                       void* state, hg_error* error);
hg_code hg_batch_commit_async(hg_batch* batch, int how, hg_done done, void* state, hg_error* error);
hg_code hg_transaction_commit_async(hg_transaction* transaction, hg_done done, void* state,
                                    hg_error* error);
/* When everything that was called before is done. */
hg_code hg_barrier_async(hg_db* db, hg_done done, void* state, hg_error* error);

/* ---- the change feed ---- */

/* Keeps the changes for a consumer, who confirms what it has: those behind `*number`, at most so
 * many bytes of log. */
hg_code hg_slot_create(hg_db* db, const char* name, uint64_t log_bytes_max, uint64_t* number,
                       hg_error* error);
hg_code hg_slot_confirm(hg_db* db, const char* name, uint64_t number, hg_error* error);
hg_code hg_slot_drop(hg_db* db, const char* name, hg_error* error);
/* JSON to free: for each name, the position and the bytes of log at most. */
hg_code hg_slots_json(hg_db* db, char** json, hg_error* error);

typedef enum {
  /* `key` gets `value`, which may expire. */
  HG_CHANGE_PUT = 0,
  /* `value` is an operand for `key`. */
  HG_CHANGE_MERGE = 1,
  HG_CHANGE_DELETE = 2,
  /* The keys from `key` to before `value`; without an end if its address is NULL. */
  HG_CHANGE_DELETE_RANGE = 3,
  /* The keys with the prefix `key`. */
  HG_CHANGE_DELETE_PREFIX = 4,
  /* The keyspace is created; `value` is its layout. */
  HG_CHANGE_CREATE = 5,
  /* The keyspace gets the name `value`. */
  HG_CHANGE_RENAME = 6,
  /* The keyspace gets the merge operator `value`. */
  HG_CHANGE_SET_MERGE_OPERATOR = 7,
  /* Later puts expire after `millis`; 0 is never. Those in the feed have their expiry already. */
  HG_CHANGE_SET_TIME_TO_LIVE = 8,
  /* The keyspace loses all entries. */
  HG_CHANGE_CLEAR = 9,
  HG_CHANGE_DROP = 10,
} hg_change_kind;
typedef struct {
  /* The number of its commit; `is_last` says that the commit has no further change. */
  uint64_t number;
  int is_last;
  hg_change_kind kind;
  hg_bytes keyspace;
  hg_bytes key;
  hg_bytes value;
  /* `HG_NEVER`, or `HG_AT` with milliseconds since 1970. */
  int meaning;
  uint64_t millis;
} hg_change;
/* Begins to read the changes behind a number, which a slot keeps. `HG_GAP` if they are not kept. */
hg_code hg_changes_since(hg_db* db, uint64_t number, hg_changes** changes, hg_error* error);
/* The same for a database that another process has open. */
hg_code hg_changes_of_files(const char* path, const hg_options* options, uint64_t number,
                            hg_changes** changes, hg_error* error);
/* The next change, which is durable. `HG_NOT_FOUND` if none comes within this time; later there may
 * be one. Its bytes stay until the next call. A bulk load comes as its entries. */
hg_code hg_changes_next(hg_changes* changes, uint64_t wait_millis, hg_change* change,
                        hg_error* error);
hg_code hg_changes_free(hg_changes* changes);

/* ---- backups: the moments of databases in one directory, which may be open ---- */

/* `bytes_per_second` is a limit, or 0. The number of the backup is optional. */
hg_code hg_backup_create(const char* repository, const char* path, const hg_options* options,
                         uint64_t bytes_per_second, uint64_t* id, hg_error* error);
/* JSON to free: an array, the oldest first. */
hg_code hg_backup_list_json(const char* repository, char** json, hg_error* error);
/* 0 as a number is the newest backup. */
hg_code hg_backup_verify(const char* repository, uint64_t id, hg_error* error);
hg_code hg_backup_restore(const char* repository, uint64_t id, const char* path, hg_error* error);
/* Removes all backups but the `keep` newest ones. */
hg_code hg_backup_prune(const char* repository, size_t keep, hg_error* error);

#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
#define HG_BYTES_(data, len) hg_bytes{data, len}
#else
#define HG_BYTES_(data, len) ((hg_bytes){data, len})
#endif
/* No bound of a range; the absence of bytes. */
#define HG_UNBOUNDED HG_BYTES_(NULL, 0)
static inline hg_bytes hg_text(const char* text) { return HG_BYTES_(text, strlen(text)); }
static inline hg_bytes hg_slice(const void* data, size_t len) { return HG_BYTES_(data, len); }

#endif
