/* Tests of what C code may do wrong, and of threads, forks, interrupts and asynchronous calls. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"

static hg_db* open_with(const char* option, const char* value) {
  hg_options* options;
  OK(hg_options_new(&options, &error));
  OK(hg_options_set(options, "memory_budget", "16MiB", &error));
  if (option != NULL) OK(hg_options_set(options, option, value, &error));
  hg_db* db;
  OK(hg_open(path_of("db"), options, &db, &error));
  OK(hg_options_free(options));
  return db;
}

static hg_keyspace* keyspace_of(hg_db* db, const char* layout) {
  hg_keyspace* keyspace;
  OK(hg_keyspace_open(db, "k", layout, NULL, &keyspace, &error));
  return keyspace;
}

/* ---- handles ---- */

typedef struct {
  hg_options* options;
  hg_db* db;
  hg_keyspace* keyspace;
  hg_snapshot* snapshot;
  hg_batch* batch;
  hg_transaction* transaction;
  hg_iter* iter;
  hg_changes* changes;
} handles;

static void done_nothing(void* state, hg_code code, hg_bytes value, const hg_error* error) {
  (void)state, (void)code, (void)value, (void)error;
}

static int merged_nothing(void* state, hg_bytes key, const hg_bytes* base, const hg_bytes* operands,
                          size_t count, hg_buffer* result) {
  (void)state, (void)key, (void)base, (void)operands, (void)count, (void)result;
  return HG_MERGED_NOTHING;
}

static int no_entry(void* state, hg_bytes* key, hg_bytes* value) {
  (void)state, (void)key, (void)value;
  return HG_NOT_FOUND;
}

static int new_nothing(void* state, const hg_bytes* old, hg_buffer* new_value) {
  (void)state, (void)old, (void)new_value;
  return HG_MERGED_NOTHING;
}

/* Makes every call that takes a handle. Each must fail with one of two codes, or with `only`. */
static int refused_calls(const handles* h, hg_code only) {
  hg_keyspace* k = h->keyspace;
  hg_bytes a = hg_text("a"), out;
  char *text, buffer[64];
  const char* path = path_of("out");
  size_t len;
  uint64_t number;
  int meaning, calls = 0;
  hg_pinned* pinned;
  hg_keyspace* keyspace;
  hg_snapshot* snapshot;
  hg_batch* batch;
  hg_transaction* transaction;
  hg_iter* iter;
  hg_changes* changes;
  hg_change change;
#define REFUSED(call)                                                                     \
  do {                                                                                    \
    hg_error e = {HG_OK, ""};                                                             \
    hg_code code = (call);                                                                \
    if (only == HG_OK ? code != HG_CLOSED && code != HG_INVALID_ARGUMENT : code != only) { \
      fprintf(stderr, "%s:%d: %s: %d: %s\n", __FILE__, __LINE__, test_name, code, e.message); \
      abort();                                                                            \
    }                                                                                     \
    CHECK(e.code == code);                                                                \
    calls++;                                                                              \
  } while (0)
  REFUSED(hg_options_set(h->options, "workers", "1", &e));
  REFUSED(hg_options_add_merge_operator(h->options, "m", NULL, merged_nothing, NULL, NULL, &e));
  REFUSED(hg_sync(h->db, &e));
  REFUSED(hg_flush(h->db, &e));
  REFUSED(hg_checkpoint(h->db, path, &e));
  REFUSED(hg_verify(h->db, &e));
  REFUSED(hg_stats_json(h->db, &text, &e));
  REFUSED(hg_stats_prometheus(h->db, &text, &e));
  REFUSED(hg_keyspace_open(h->db, "a", NULL, NULL, &keyspace, &e));
  REFUSED(hg_keyspace_find(h->db, "a", &keyspace, &e));
  REFUSED(hg_keyspace_drop(h->db, "a", &e));
  REFUSED(hg_keyspace_rename(h->db, "a", "b", &e));
  REFUSED(hg_keyspaces_json(h->db, &text, &e));
  REFUSED(hg_keyspace_describe(k, &text, NULL, NULL, &e));
  REFUSED(hg_keyspace_retune(k, "", &e));
  REFUSED(hg_keyspace_set_self_tuning(k, 1, &e));
  REFUSED(hg_keyspace_set_time_to_live(k, 1, &e));
  REFUSED(hg_keyspace_clear(k, &e));
  REFUSED(hg_keyspace_stats_json(k, &text, &e));
  REFUSED(hg_keyspace_compact(k, HG_UNBOUNDED, a, &e));
  REFUSED(hg_keyspace_wait_until_merged(k, &e));
  REFUSED(hg_keyspace_estimate(k, a, a, &number, &number, &e));
  REFUSED(hg_keyspace_export(k, a, a, path, &e));
  REFUSED(hg_keyspace_ingest(k, &path, 1, &e));
  REFUSED(hg_keyspace_bulk_load(k, no_entry, NULL, &number, &e));
  REFUSED(hg_put(k, a, a, HG_BUFFERED, &e));
  REFUSED(hg_put_expiring(k, a, a, HG_IN, 1, HG_BUFFERED, &e));
  REFUSED(hg_set_expiry(k, a, HG_IN, 1, &e));
  REFUSED(hg_delete(k, a, HG_BUFFERED, &e));
  REFUSED(hg_merge(k, a, a, HG_BUFFERED, &e));
  REFUSED(hg_delete_range(k, a, a, HG_BUFFERED, &e));
  REFUSED(hg_delete_prefix(k, a, HG_BUFFERED, &e));
  REFUSED(hg_compare_and_swap(k, a, &a, &a, &e));
  REFUSED(hg_update(k, a, new_nothing, NULL, HG_BUFFERED, &e));
  REFUSED(hg_pop_first(k, HG_BUFFERED, &text, &len, &text, &len, &e));
  REFUSED(hg_pop_last(k, HG_BUFFERED, &text, &len, &text, &len, &e));
  REFUSED(hg_batch_new(h->db, &batch, &e));
  REFUSED(hg_batch_put(h->batch, k, a, a, &e));
  REFUSED(hg_batch_put_expiring(h->batch, k, a, a, HG_IN, 1, &e));
  REFUSED(hg_batch_delete(h->batch, k, a, &e));
  REFUSED(hg_batch_merge(h->batch, k, a, a, &e));
  REFUSED(hg_batch_delete_range(h->batch, k, a, a, &e));
  REFUSED(hg_batch_clear(h->batch, &e));
  REFUSED(hg_batch_count(h->batch, &len, &e));
  REFUSED(hg_batch_commit(h->batch, HG_BUFFERED, &e));
  REFUSED(hg_snapshot_new(h->db, &snapshot, &e));
  REFUSED(hg_snapshot_number(h->snapshot, &number, &e));
  REFUSED(hg_get(k, h->snapshot, a, &text, &len, &e));
  REFUSED(hg_get_into(k, h->snapshot, a, buffer, 64, &len, &e));
  REFUSED(hg_get_pinned(k, h->snapshot, a, &out, &pinned, &e));
  REFUSED(hg_multi_get(k, h->snapshot, &a, 1, &out, &pinned, &e));
  REFUSED(hg_contains(k, h->snapshot, a, &e));
  REFUSED(hg_explain_json(k, a, &text, &e));
  REFUSED(hg_expiry_of(k, a, &meaning, &number, &e));
  REFUSED(hg_iter_new(k, h->snapshot, &iter, &e));
  REFUSED(hg_iter_set_bounds(h->iter, a, a, &e));
  REFUSED(hg_iter_seek_first(h->iter, &out, &out, &e));
  REFUSED(hg_iter_seek_last(h->iter, &out, &out, &e));
  REFUSED(hg_iter_seek(h->iter, a, &out, &out, &e));
  REFUSED(hg_iter_seek_for_prev(h->iter, a, &out, &out, &e));
  REFUSED(hg_iter_next(h->iter, &out, &out, &e));
  REFUSED(hg_iter_prev(h->iter, &out, &out, &e));
  REFUSED(hg_iter_entry(h->iter, &out, &out, &e));
  REFUSED(hg_iter_fill(h->iter, HG_FORWARD, buffer, 64, &len, &len, &e));
  REFUSED(hg_transaction_begin(h->db, HG_SERIALIZABLE, HG_BUFFERED, &transaction, &e));
  REFUSED(hg_transaction_get(h->transaction, k, a, &text, &len, &e));
  REFUSED(hg_transaction_put(h->transaction, k, a, a, &e));
  REFUSED(hg_transaction_put_expiring(h->transaction, k, a, a, HG_IN, 1, &e));
  REFUSED(hg_transaction_delete(h->transaction, k, a, &e));
  REFUSED(hg_transaction_merge(h->transaction, k, a, a, &e));
  REFUSED(hg_transaction_delete_range(h->transaction, k, a, a, &e));
  REFUSED(hg_transaction_iter(h->transaction, k, &iter, &e));
  REFUSED(hg_transaction_savepoint(h->transaction, &number, &e));
  REFUSED(hg_transaction_roll_back_to(h->transaction, 0, &e));
  REFUSED(hg_transaction_commit(h->transaction, &e));
  REFUSED(hg_get_async(k, a, done_nothing, NULL, &e));
  REFUSED(hg_multi_get_async(k, &a, 1, done_nothing, NULL, &e));
  REFUSED(hg_put_async(k, a, a, HG_BUFFERED, done_nothing, NULL, &e));
  REFUSED(hg_delete_async(k, a, HG_BUFFERED, done_nothing, NULL, &e));
  REFUSED(hg_merge_async(k, a, a, HG_BUFFERED, done_nothing, NULL, &e));
  REFUSED(hg_batch_commit_async(h->batch, HG_BUFFERED, done_nothing, NULL, &e));
  REFUSED(hg_transaction_commit_async(h->transaction, done_nothing, NULL, &e));
  REFUSED(hg_barrier_async(h->db, done_nothing, NULL, &e));
  REFUSED(hg_slot_create(h->db, "s", 1, &number, &e));
  REFUSED(hg_slot_confirm(h->db, "s", 1, &e));
  REFUSED(hg_slot_drop(h->db, "s", &e));
  REFUSED(hg_slots_json(h->db, &text, &e));
  REFUSED(hg_changes_since(h->db, 1, &changes, &e));
  REFUSED(hg_changes_next(h->changes, 0, &change, &e));
  REFUSED(hg_close(h->db, &e));
  return calls;
}

static handles open_all(void) {
  handles h;
  OK(hg_options_new(&h.options, &error));
  h.db = open_with(NULL, NULL);
  h.keyspace = keyspace_of(h.db, "merge:append");
  OK(hg_put(h.keyspace, hg_text("a"), hg_text("1"), HG_BUFFERED, &error));
  OK(hg_snapshot_new(h.db, &h.snapshot, &error));
  OK(hg_batch_new(h.db, &h.batch, &error));
  OK(hg_transaction_begin(h.db, HG_SERIALIZABLE, HG_BUFFERED, &h.transaction, &error));
  OK(hg_iter_new(h.keyspace, NULL, &h.iter, &error));
  uint64_t number;
  OK(hg_slot_create(h.db, "safety", 1 << 20, &number, &error));
  OK(hg_changes_since(h.db, number, &h.changes, &error));
  return h;
}

static hg_code free_all(const handles* h) {
  hg_code code = hg_options_free(h->options);
  CHECK(code == hg_keyspace_free(h->keyspace));
  CHECK(code == hg_snapshot_free(h->snapshot));
  CHECK(code == hg_batch_free(h->batch));
  CHECK(code == hg_transaction_free(h->transaction));
  CHECK(code == hg_iter_free(h->iter));
  CHECK(code == hg_changes_free(h->changes));
  return code;
}

static void freed_handles_are_refused(void) {
  handles h = open_all();
  CHECK(free_all(&h) == HG_OK);
  OK(hg_close(h.db, &error));
  CHECK(refused_calls(&h, HG_CLOSED) == 90);
  CHECK(free_all(&h) == HG_CLOSED);
}

static void foreign_numbers_are_refused(void) {
  handles null = {0};
  /* NULL reads the present where a snapshot is meant, and is nothing to free. */
  null.snapshot = (hg_snapshot*)&null;
  CHECK(refused_calls(&null, HG_OK) == 90);
  null.snapshot = NULL;
  CHECK(free_all(&null) == HG_OK);
  /* Addresses, small numbers, and handles of other kinds. */
  handles h = open_all();
  void* numbers[] = {&null, (void*)1, (void*)-1, (void*)0x1000, h.options, malloc(16)};
  for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
    void* n = numbers[i];
    handles wrong = {n == h.options ? (void*)h.db : n, n, n, n, n, n, n, n};
    refused_calls(&wrong, HG_INVALID_ARGUMENT);
    CHECK(free_all(&wrong) == HG_INVALID_ARGUMENT);
  }
  free(numbers[5]);
  CHECK(free_all(&h) == HG_OK);
  OK(hg_close(h.db, &error));
}

static void objects_outlive_their_database(void) {
  handles h = open_all();
  hg_bytes key, value;
  OK(hg_iter_seek_first(h.iter, &key, &value, &error));
  hg_db* db = h.db;
  OK(hg_close(db, &error));
  /* Key and value stay; every further call says that the database is closed. */
  CHECK(is(key, "a") && is(value, "1"));
  char* text;
  size_t len;
  EXPECT(HG_CLOSED, hg_iter_next(h.iter, &key, &value, &error));
  EXPECT(HG_CLOSED, hg_get(h.keyspace, NULL, hg_text("a"), &text, &len, &error));
  EXPECT(HG_CLOSED, hg_get(h.keyspace, h.snapshot, hg_text("a"), &text, &len, &error));
  EXPECT(HG_CLOSED, hg_transaction_get(h.transaction, h.keyspace, hg_text("a"), &text, &len, &error));
  EXPECT(HG_CLOSED, hg_close(db, &error));
  /* Another one may be opened in its place while the handles are there. */
  db = open_with(NULL, NULL);
  CHECK(free_all(&h) == HG_OK);
  OK(hg_close(db, &error));
}

static void handles_do_not_survive_a_fork(void) {
  handles h = open_all();
  pid_t child = fork();
  if (child == 0) {
    refused_calls(&h, HG_CLOSED);
    CHECK(free_all(&h) == HG_CLOSED);
    /* The parent has the database; another one can be used. */
    hg_db* db;
    EXPECT(HG_LOCKED, hg_open(path_of("db"), NULL, &db, &error));
    OK(hg_open(path_of("of_child"), NULL, &db, &error));
    hg_keyspace* keyspace = keyspace_of(db, "sorted");
    OK(hg_put(keyspace, hg_text("a"), hg_text("1"), HG_SYNCED, &error));
    /* And a fork of it, again. */
    pid_t grandchild = fork();
    if (grandchild == 0) {
      EXPECT(HG_CLOSED, hg_put(keyspace, hg_text("a"), hg_text("2"), HG_SYNCED, &error));
      _exit(0);
    }
    int status;
    CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
    OK(hg_close(db, &error));
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  OK(hg_put(h.keyspace, hg_text("a"), hg_text("2"), HG_BUFFERED, &error));
  CHECK(free_all(&h) == HG_OK);
  OK(hg_close(h.db, &error));
}

/* ---- interrupts ---- */

static volatile sig_atomic_t interrupted;
static int asked;

static void on_interrupt(int signal) {
  (void)signal;
  interrupted = 1;
}

/* The second question finds that someone pressed Ctrl-C. */
static int go_on(void* state, uint64_t done, uint64_t total) {
  CHECK(state == &asked && done <= total);
  if (++asked == 1) CHECK(raise(SIGINT) == 0);
  return !interrupted;
}

static int always(void* state, uint64_t done, uint64_t total) {
  CHECK(done <= total);
  ++*(int*)state;
  return 1;
}

static void long_calls_can_be_interrupted(void) {
  hg_db* db = open_with(NULL, NULL);
  hg_keyspace* keyspace = keyspace_of(db, "sorted");
  char* value = malloc(10000);
  memset(value, 'v', 10000);
  for (int i = 0; i < 2000; i++) {
    for (int j = 0; j < 10000; j += 7) value[j] = (char)(i * 31 + j * 17);
    char key[16];
    snprintf(key, sizeof(key), "%06d", i * 7919 % 2000);
    OK(hg_put(keyspace, hg_text(key), hg_slice(value, 10000), HG_BUFFERED, &error));
  }
  free(value);
  OK(hg_flush(db, &error));
  CHECK(signal(SIGINT, on_interrupt) != SIG_ERR);
#define INTERRUPTED(call)          \
  do {                             \
    interrupted = asked = 0;       \
    EXPECT(HG_CANCELLED, call);    \
    CHECK(asked > 0);              \
  } while (0)
  hg_set_progress(go_on, &asked);
  INTERRUPTED(hg_verify(db, &error));
  INTERRUPTED(hg_backup_create(path_of("backups"), path_of("db"), NULL, 0, NULL, &error));
  INTERRUPTED(hg_keyspace_compact(keyspace, HG_UNBOUNDED, HG_UNBOUNDED, &error));

  int times = 0;
  hg_set_progress(always, &times);
  OK(hg_verify(db, &error));
  OK(hg_backup_create(path_of("backups"), path_of("db"), NULL, 0, NULL, &error));
  OK(hg_keyspace_compact(keyspace, HG_UNBOUNDED, HG_UNBOUNDED, &error));
  OK(hg_flush(db, &error));
  CHECK(times > 0);
  hg_set_progress(NULL, NULL);
  signal(SIGINT, SIG_DFL);
  OK(hg_close(db, &error));
}

/* Reads of many keys or entries ask every 4,096. */
static void reads_of_many_can_be_interrupted(void) {
  enum { KEYS = 10000 };
  hg_db* db = open_with(NULL, NULL);
  hg_keyspace* keyspace = keyspace_of(db, "sorted");
  static char keys[KEYS][16];
  static hg_bytes texts[KEYS], values[KEYS];
  for (int i = 0; i < KEYS; i++) {
    snprintf(keys[i], sizeof(keys[i]), "%06d", i);
    texts[i] = hg_text(keys[i]);
    OK(hg_put(keyspace, texts[i], texts[i], HG_BUFFERED, &error));
  }
  CHECK(signal(SIGINT, on_interrupt) != SIG_ERR);
  hg_pinned* pinned;
  int times = 0;
  hg_set_progress(always, &times);
  OK(hg_multi_get(keyspace, NULL, texts, KEYS, values, &pinned, &error));
  CHECK(times == 2 && values[KEYS - 1].len == 6);
  CHECK(memcmp(values[KEYS - 1].data, keys[KEYS - 1], 6) == 0);
  CHECK(hg_pinned_free(pinned) == HG_OK);
  hg_set_progress(go_on, &asked);
  INTERRUPTED(hg_multi_get(keyspace, NULL, texts, KEYS, values, &pinned, &error));
  hg_set_progress(NULL, NULL);
  static char buffer[1 << 20];
  size_t used, count;
  for (int direction = HG_FORWARD; direction <= HG_BACKWARD; direction++) {
    hg_iter* iter;
    OK(hg_iter_new(keyspace, NULL, &iter, &error));
    hg_set_progress(go_on, &asked);
    INTERRUPTED(hg_iter_fill(iter, direction, buffer, sizeof(buffer), &used, &count, &error));
    CHECK(count == 4096 && used == 4096 * (8 + 6 + 6));
    hg_set_progress(NULL, NULL);
    OK(hg_iter_fill(iter, direction, buffer, sizeof(buffer), &used, &count, &error));
    CHECK(count == KEYS - 4096);
    CHECK(memcmp(buffer + 8, keys[direction == HG_FORWARD ? 4096 : KEYS - 1 - 4096], 6) == 0);
    CHECK(hg_iter_free(iter) == HG_OK);
  }
  signal(SIGINT, SIG_DFL);
  OK(hg_close(db, &error));
}

/* A merge function that does not return while the gate is closed. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
/* The calls of the function that have begun. */
static atomic_int slow_calls;

static int slow(void* state, hg_bytes key, const hg_bytes* base, const hg_bytes* operands,
                size_t count, hg_buffer* result) {
  (void)state, (void)key, (void)base, (void)operands, (void)count, (void)result;
  slow_calls++;
  pthread_mutex_lock(&gate);
  pthread_mutex_unlock(&gate);
  return HG_MERGED_NOTHING;
}

/* Options with the operator `slow`. */
static hg_options* slow_options(void) {
  hg_options* options;
  OK(hg_options_new(&options, &error));
  OK(hg_options_add_merge_operator(options, "slow", NULL, slow, NULL, NULL, &error));
  return options;
}

static hg_db* slow_db_of(const char* memory_budget) {
  hg_options* options = slow_options();
  if (memory_budget != NULL) OK(hg_options_set(options, "memory_budget", memory_budget, &error));
  hg_db* db;
  OK(hg_open(path_of("db"), options, &db, &error));
  OK(hg_options_free(options));
  return db;
}

static hg_db* slow_db(void) { return slow_db_of(NULL); }

/* A flush combines the value and both operands, for which it needs the function. */
static void write_operands(hg_keyspace* keyspace) {
  OK(hg_put(keyspace, hg_text("a"), hg_text("0"), HG_BUFFERED, &error));
  OK(hg_merge(keyspace, hg_text("a"), hg_text("1"), HG_BUFFERED, &error));
  OK(hg_merge(keyspace, hg_text("a"), hg_text("2"), HG_BUFFERED, &error));
}

static void a_caller_that_stops_waiting_leaves_the_call(void) {
  hg_db* db = slow_db();
  hg_keyspace* keyspace = keyspace_of(db, "merge:slow");
  write_operands(keyspace);
  pthread_mutex_lock(&gate);
  interrupted = asked = 0;
  CHECK(signal(SIGINT, on_interrupt) != SIG_ERR);
  hg_set_progress(go_on, &asked);
  EXPECT(HG_CANCELLED, hg_flush(db, &error));
  pthread_mutex_unlock(&gate);
  hg_set_progress(NULL, NULL);
  signal(SIGINT, SIG_DFL);
  char* value;
  size_t len;
  EXPECT(HG_NOT_FOUND, hg_get(keyspace, NULL, hg_text("a"), &value, &len, &error));
  OK(hg_close(db, &error));
}

/* The commits wait for the merge function, the clear and the drop for the commits. */
static void commits_clears_and_drops_leave_their_callers(void) {
  hg_db* db = slow_db();
  hg_keyspace* keyspace = keyspace_of(db, "merge:slow");
  OK(hg_put(keyspace, hg_text("a"), hg_text("0"), HG_BUFFERED, &error));
  OK(hg_put(keyspace, hg_text("b"), hg_text("0"), HG_BUFFERED, &error));
  char* value = calloc(1, 1 << 20);
  hg_batch* batch;
  OK(hg_batch_new(db, &batch, &error));
  OK(hg_batch_put(batch, keyspace, hg_text("long"), hg_slice(value, 1 << 20), &error));
  OK(hg_batch_merge(batch, keyspace, hg_text("a"), hg_text("1"), &error));
  hg_transaction* transaction;
  OK(hg_transaction_begin(db, HG_SERIALIZABLE, HG_BUFFERED, &transaction, &error));
  OK(hg_transaction_put(transaction, keyspace, hg_text("longer"), hg_slice(value, 1 << 20), &error));
  OK(hg_transaction_merge(transaction, keyspace, hg_text("b"), hg_text("1"), &error));
  free(value);
  pthread_mutex_lock(&gate);
  CHECK(signal(SIGINT, on_interrupt) != SIG_ERR);
  hg_set_progress(go_on, &asked);
  int calls = slow_calls;
  INTERRUPTED(hg_batch_commit(batch, HG_BUFFERED, &error));
  INTERRUPTED(hg_transaction_commit(transaction, &error));
  /* On a busy machine the thread of a commit may not have come to the function yet. */
  alarm(30);
  while (slow_calls == calls) sched_yield();
  alarm(0);
  INTERRUPTED(hg_keyspace_clear(keyspace, &error));
  INTERRUPTED(hg_keyspace_drop(db, "k", &error));
  pthread_mutex_unlock(&gate);
  hg_set_progress(NULL, NULL);
  signal(SIGINT, SIG_DFL);
  /* The objects are as the header says, and all of the work comes to its end. */
  size_t count;
  OK(hg_batch_count(batch, &count, &error));
  CHECK(count == 0);
  EXPECT(HG_CLOSED, hg_transaction_commit(transaction, &error));
  OK(hg_batch_free(batch));
  OK(hg_transaction_free(transaction));
  OK(hg_keyspace_free(keyspace));
  alarm(30);
  while (hg_keyspace_find(db, "k", &keyspace, NULL) == HG_OK) OK(hg_keyspace_free(keyspace));
  alarm(0);
  OK(hg_close(db, &error));
}

static int ends_at_third(void* state, uint64_t done, uint64_t total) {
  CHECK(done == 0 && total == 0);
  return ++*(int*)state < 3;
}

/* Puts values until one waits for memory and is ended. Returns the number of puts, with that one.
 * The next write waits, too, since the flush waits for the gate. */
static int fill_memory(hg_keyspace* keyspace) {
  int puts = 0, times = 0;
  hg_code ended = HG_OK;
  char value[4000] = {0};
  hg_set_progress(ends_at_third, &times);
  for (; ended == HG_OK; puts++) {
    CHECK(puts < 10000);
    times = 0;
    char key[16];
    snprintf(key, sizeof(key), "%06d", puts);
    ended = hg_put(keyspace, hg_text(key), hg_slice(value, sizeof(value)), HG_BUFFERED, NULL);
  }
  hg_set_progress(NULL, NULL);
  CHECK(ended == HG_CANCELLED && times == 3);
  return puts;
}

/* The flush waits for the merge function, and the writes for memory. */
static void a_write_that_waits_for_memory_leaves_its_caller(void) {
  hg_db* db = slow_db_of("4194304");
  hg_keyspace* keyspace = keyspace_of(db, "merge:slow");
  write_operands(keyspace);
  hg_batch* batch;
  OK(hg_batch_new(db, &batch, &error));
  OK(hg_batch_put(batch, keyspace, hg_text("b"), hg_text("1"), &error));
  hg_transaction* transaction;
  OK(hg_transaction_begin(db, HG_SERIALIZABLE, HG_BUFFERED, &transaction, &error));
  OK(hg_transaction_put(transaction, keyspace, hg_text("c"), hg_text("1"), &error));
  pthread_mutex_lock(&gate);
  CHECK(signal(SIGINT, on_interrupt) != SIG_ERR);
  int puts = fill_memory(keyspace);
  hg_set_progress(go_on, &asked);
  INTERRUPTED(hg_delete(keyspace, hg_text("000000"), HG_BUFFERED, &error));
  INTERRUPTED(hg_batch_commit(batch, HG_BUFFERED, &error));
  INTERRUPTED(hg_transaction_commit(transaction, &error));
  pthread_mutex_unlock(&gate);
  hg_set_progress(NULL, NULL);
  signal(SIGINT, SIG_DFL);
  /* Cancelled writes were not made. */
  char last[16];
  snprintf(last, sizeof(last), "%06d", puts - 1);
  char* found;
  size_t len;
  EXPECT(HG_NOT_FOUND, hg_get(keyspace, NULL, hg_text(last), &found, &len, &error));
  EXPECT(HG_NOT_FOUND, hg_get(keyspace, NULL, hg_text("b"), &found, &len, &error));
  EXPECT(HG_NOT_FOUND, hg_get(keyspace, NULL, hg_text("c"), &found, &len, &error));
  OK(hg_get(keyspace, NULL, hg_text("000000"), &found, &len, &error));
  hg_free(found);
  OK(hg_batch_commit(batch, HG_BUFFERED, &error));
  OK(hg_batch_free(batch));
  OK(hg_transaction_commit(transaction, &error));
  OK(hg_transaction_free(transaction));
  OK(hg_get(keyspace, NULL, hg_text("c"), &found, &len, &error));
  hg_free(found);
  OK(hg_close(db, &error));
}

/* Frees the transaction whose commit waits, and lets the flush go on that the commit waits for. */
static int frees_its_transaction(void* state, uint64_t done, uint64_t total) {
  CHECK(done == 0 && total == 0);
  hg_transaction** transaction = state;
  if (*transaction == NULL) return 1;
  /* A use other than a free is refused. */
  EXPECT(HG_INVALID_ARGUMENT, hg_transaction_savepoint(*transaction, &(uint64_t){0}, &error));
  CHECK(hg_transaction_free(*transaction) == HG_OK);
  *transaction = NULL;
  pthread_mutex_unlock(&gate);
  return 1;
}

static void a_commit_goes_on_when_its_transaction_is_freed(void) {
  hg_db* db = slow_db_of("4194304");
  hg_keyspace* keyspace = keyspace_of(db, "merge:slow");
  write_operands(keyspace);
  hg_transaction* transaction;
  OK(hg_transaction_begin(db, HG_SERIALIZABLE, HG_BUFFERED, &transaction, &error));
  OK(hg_transaction_put(transaction, keyspace, hg_text("c"), hg_text("1"), &error));
  pthread_mutex_lock(&gate);
  fill_memory(keyspace);
  hg_transaction* waits = transaction;
  alarm(30);
  hg_set_progress(frees_its_transaction, &waits);
  OK(hg_transaction_commit(transaction, &error));
  hg_set_progress(NULL, NULL);
  alarm(0);
  CHECK(waits == NULL); /* The commit has waited. */
  CHECK(hg_transaction_free(transaction) == HG_CLOSED);
  char* value;
  size_t len;
  OK(hg_get(keyspace, NULL, hg_text("c"), &value, &len, &error));
  CHECK(len == 1 && value[0] == '1');
  hg_free(value);
  OK(hg_close(db, &error));
}

/* A flush waits for the merge function, and these wait for the flush. */
static void a_checkpoint_an_ingestion_and_a_close_leave_their_caller(void) {
  hg_db* db = slow_db();
  hg_keyspace* keyspace = keyspace_of(db, "merge:slow");
  OK(hg_put(keyspace, hg_text("b"), hg_text("1"), HG_BUFFERED, &error));
  OK(hg_keyspace_export(keyspace, HG_UNBOUNDED, HG_UNBOUNDED, path_of("tables"), &error));
  const char* table = path_of("tables/000001.table");
  write_operands(keyspace);
  pthread_mutex_lock(&gate);
  CHECK(signal(SIGINT, on_interrupt) != SIG_ERR);
  hg_set_progress(go_on, &asked);
  INTERRUPTED(hg_checkpoint(db, path_of("copy"), &error));
  INTERRUPTED(hg_keyspace_ingest(keyspace, &table, 1, &error));
  INTERRUPTED(hg_close(db, &error));
  pthread_mutex_unlock(&gate);
  hg_set_progress(NULL, NULL);
  signal(SIGINT, SIG_DFL);
  EXPECT(HG_CLOSED, hg_sync(db, &error));
  /* The directory is free when the close has ended. */
  hg_options* options = slow_options();
  alarm(30);
  hg_code opened;
  while ((opened = hg_open(path_of("db"), options, &db, NULL)) != HG_OK) CHECK(opened == HG_LOCKED);
  alarm(0);
  OK(hg_options_free(options));
  OK(hg_close(db, &error));
}

static int one_entry(void* state, hg_bytes* key, hg_bytes* value) {
  *key = *value = hg_text("loaded");
  return (*(int*)state)++ == 0 ? HG_OK : HG_NOT_FOUND;
}

/* Both wait for a flush, which waits for the merge function. */
static void a_compaction_and_the_end_of_a_load_leave_their_caller(void) {
  hg_db* db = slow_db();
  hg_keyspace* keyspace = keyspace_of(db, "merge:slow");
  write_operands(keyspace);
  pthread_mutex_lock(&gate);
  CHECK(signal(SIGINT, on_interrupt) != SIG_ERR);
  hg_set_progress(go_on, &asked);
  int entries = 0;
  INTERRUPTED(hg_keyspace_compact(keyspace, HG_UNBOUNDED, HG_UNBOUNDED, &error));
  INTERRUPTED(hg_keyspace_bulk_load(keyspace, one_entry, &entries, NULL, &error));
  CHECK(entries == 2);
  pthread_mutex_unlock(&gate);
  hg_set_progress(NULL, NULL);
  signal(SIGINT, SIG_DFL);
  /* The load had its end, so it goes on to it. */
  char* value;
  size_t len;
  alarm(30);
  while (hg_get(keyspace, NULL, hg_text("loaded"), &value, &len, NULL) != HG_OK) sched_yield();
  alarm(0);
  hg_free(value);
  OK(hg_close(db, &error));
}

static void an_export_leaves_its_caller(void) {
  hg_db* db = slow_db();
  hg_keyspace* keyspace = keyspace_of(db, "merge:slow");
  OK(hg_merge(keyspace, hg_text("a"), hg_text("1"), HG_BUFFERED, &error));
  pthread_mutex_lock(&gate);
  CHECK(signal(SIGINT, on_interrupt) != SIG_ERR);
  hg_set_progress(go_on, &asked);
  INTERRUPTED(hg_keyspace_export(keyspace, HG_UNBOUNDED, HG_UNBOUNDED, path_of("tables"), &error));
  pthread_mutex_unlock(&gate);
  hg_set_progress(NULL, NULL);
  signal(SIGINT, SIG_DFL);
  OK(hg_close(db, &error));
}

/* ---- functions of the program that call the library ---- */

/* The facts that a function that the library calls finds out about the object of the call. */
static struct {
  hg_changes *own_changes, *other_changes;
  hg_iter *own_iter, *other_iter;
  int times;
  hg_code own, other;
  char message[sizeof(((hg_error*)0)->message)];
} found;

static int reads_changes(void* state, uint64_t done, uint64_t total) {
  hg_change change;
  hg_error e;
  CHECK(state == &found && done == 0 && total == 0);
  if (found.times++ > 0) return 0;
  found.own = hg_changes_next(found.own_changes, 0, &change, &e);
  memcpy(found.message, e.message, sizeof(e.message));
  found.other = hg_changes_next(found.other_changes, 0, &change, &e);
  return 1;
}

static void a_progress_function_cannot_use_the_object_of_its_call(void) {
  hg_db* db = open_with(NULL, NULL);
  uint64_t number;
  OK(hg_slot_create(db, "feed", 1 << 30, &number, &error));
  memset(&found, 0, sizeof(found));
  OK(hg_changes_since(db, number, &found.own_changes, &error));
  OK(hg_changes_since(db, number, &found.other_changes, &error));
  hg_change change;
  alarm(30); /* A call that waits for itself waits for ever. */
  hg_set_progress(reads_changes, &found);
  EXPECT(HG_CANCELLED, hg_changes_next(found.own_changes, 10000, &change, &error));
  hg_set_progress(NULL, NULL);
  alarm(0);
  CHECK(found.times == 2);
  CHECK(found.own == HG_INVALID_ARGUMENT && strstr(found.message, "expected another object"));
  CHECK(found.other == HG_NOT_FOUND);
  /* It can be used again. */
  EXPECT(HG_NOT_FOUND, hg_changes_next(found.own_changes, 0, &change, &error));
  OK(hg_changes_free(found.own_changes));
  OK(hg_changes_free(found.other_changes));
  OK(hg_close(db, &error));
}

static int reads_entries(void* state, hg_bytes key, const hg_bytes* base, const hg_bytes* operands,
                         size_t count, hg_buffer* result) {
  hg_error e;
  (void)key, (void)base, (void)operands, (void)count, (void)result;
  CHECK(state == &found);
  if (found.own_iter == NULL) return HG_MERGED_NOTHING;
  found.times++;
  found.own = hg_iter_next(found.own_iter, NULL, NULL, &e);
  memcpy(found.message, e.message, sizeof(e.message));
  found.other = hg_iter_seek_last(found.other_iter, NULL, NULL, &e);
  return HG_MERGED_NOTHING;
}

static void a_merge_function_cannot_use_the_object_of_its_call(void) {
  hg_options* options;
  OK(hg_options_new(&options, &error));
  memset(&found, 0, sizeof(found));
  OK(hg_options_add_merge_operator(options, "reads", &found, reads_entries, NULL, NULL, &error));
  hg_db* db;
  OK(hg_open(path_of("db"), options, &db, &error));
  OK(hg_options_free(options));
  hg_keyspace* keyspace = keyspace_of(db, "merge:reads");
  OK(hg_merge(keyspace, hg_text("a"), hg_text("1"), HG_BUFFERED, &error));
  OK(hg_put(keyspace, hg_text("b"), hg_text("2"), HG_BUFFERED, &error));
  hg_bytes key;
  OK(hg_iter_new(keyspace, NULL, &found.other_iter, &error));
  OK(hg_iter_new(keyspace, NULL, &found.own_iter, &error));
  alarm(30);
  OK(hg_iter_seek_first(found.own_iter, &key, NULL, &error));
  alarm(0);
  CHECK(key.len == 1 && memcmp(key.data, "b", 1) == 0);
  CHECK(found.times == 1);
  CHECK(found.own == HG_INVALID_ARGUMENT && strstr(found.message, "expected another object"));
  CHECK(found.other == HG_OK);
  OK(hg_iter_free(found.own_iter));
  found.own_iter = NULL;
  OK(hg_iter_free(found.other_iter));
  OK(hg_close(db, &error));
}

/* ---- asynchronous calls ---- */

typedef struct {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int done;
  hg_code code;
  char value[256];
  size_t len;
} answer;

static void answered(void* state, hg_code code, hg_bytes value, const hg_error* error) {
  answer* a = state;
  CHECK((error == NULL) == (code == HG_OK || code == HG_NOT_FOUND));
  pthread_mutex_lock(&a->mutex);
  a->done++;
  a->code = code;
  a->len = value.len < sizeof(a->value) ? value.len : sizeof(a->value);
  if (a->len > 0) memcpy(a->value, value.data, a->len);
  pthread_cond_broadcast(&a->changed);
  pthread_mutex_unlock(&a->mutex);
}

static void wait_for(answer* a, int done) {
  pthread_mutex_lock(&a->mutex);
  while (a->done < done) pthread_cond_wait(&a->changed, &a->mutex);
  pthread_mutex_unlock(&a->mutex);
}

#define ANSWER {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, HG_OK, "", 0}

static void asynchronous_calls_answer_once(void) {
  hg_db* db = open_with("workers", "2");
  hg_keyspace* keyspace = keyspace_of(db, "sorted hash:4 merge:append");
  answer puts = ANSWER, one = ANSWER;
  for (int i = 0; i < 1000; i++) {
    char key[16];
    snprintf(key, sizeof(key), "%d", i);
    OK(hg_put_async(keyspace, hg_text(key), hg_text(key), HG_BUFFERED, answered, &puts, &error));
  }
  wait_for(&puts, 1000);
  CHECK(puts.code == HG_OK);
  OK(hg_merge_async(keyspace, hg_text("7"), hg_text("!"), HG_SYNCED, answered, &one, &error));
  wait_for(&one, 1);
  OK(hg_get_async(keyspace, hg_text("7"), answered, &one, &error));
  wait_for(&one, 2);
  CHECK(one.code == HG_OK && one.len == 2 && memcmp(one.value, "7!", 2) == 0);
  OK(hg_delete_async(keyspace, hg_text("7"), HG_BUFFERED, answered, &one, &error));
  wait_for(&one, 3);
  OK(hg_get_async(keyspace, hg_text("7"), answered, &one, &error));
  wait_for(&one, 4);
  CHECK(one.code == HG_NOT_FOUND);
  hg_bytes keys[] = {hg_text("12"), hg_text("7"), hg_text("345")};
  OK(hg_multi_get_async(keyspace, keys, 3, answered, &one, &error));
  wait_for(&one, 5);
  CHECK(one.len == 17 && memcmp(one.value, "\2\0\0\0" "12" "\377\377\377\377" "\3\0\0\0" "345", 17) == 0);

  hg_batch* batch;
  OK(hg_batch_new(db, &batch, &error));
  OK(hg_batch_put(batch, keyspace, hg_text("batch"), hg_text("v"), &error));
  OK(hg_batch_commit_async(batch, HG_BUFFERED, answered, &one, &error));
  wait_for(&one, 6);
  OK(hg_batch_free(batch));
  hg_transaction* transaction;
  OK(hg_transaction_begin(db, HG_SERIALIZABLE, HG_BUFFERED, &transaction, &error));
  OK(hg_transaction_put(transaction, keyspace, hg_text("batch"), hg_text("w"), &error));
  OK(hg_transaction_commit_async(transaction, answered, &one, &error));
  OK(hg_transaction_free(transaction));
  wait_for(&one, 7);
  OK(hg_barrier_async(db, answered, &one, &error));
  wait_for(&one, 8);
  CHECK(one.code == HG_OK);
  EXPECT(HG_INVALID_ARGUMENT, hg_get_async(keyspace, hg_text("1"), NULL, NULL, &error));
  /* Every call ends, also those of a database that closes. */
  answer last = ANSWER;
  int made = 0;
  for (int i = 0; i < 500; i++) {
    OK(hg_put_async(keyspace, hg_text("x"), hg_text("y"), HG_BUFFERED, answered, &last, &error));
    made++;
  }
  OK(hg_close(db, &error));
  wait_for(&last, made);
  CHECK(last.done == made && (last.code == HG_OK || last.code == HG_CLOSED));
}

/* ---- threads ---- */

enum { THREADS = 8, STEPS = 3000 };
static atomic_int stop;

typedef struct {
  hg_db* db;
  hg_keyspace* keyspace;
  int index;
  long calls;
} worker;

static void in_use_or_closed(hg_code code) {
  CHECK(code == HG_OK || code == HG_NOT_FOUND || code == HG_CLOSED || code == HG_CONFLICT);
}

static void* work(void* state) {
  worker* w = state;
  unsigned random = (unsigned)w->index * 7919 + 1;
  for (int i = 0; i < STEPS && !stop; i++) {
    random = random * 1103515245 + 12345;
    char key[32], buffer[4096];
    snprintf(key, sizeof(key), "%u", random / 65536 % 500);
    size_t len, count;
    hg_bytes value;
    hg_pinned* pinned;
    hg_iter* iter;
    hg_snapshot* snapshot;
    hg_transaction* transaction;
    switch (random / 65536 % 8) {
      case 0: case 1:
        in_use_or_closed(hg_put(w->keyspace, hg_text(key), hg_text(key), HG_BUFFERED, NULL));
        break;
      case 2:
        in_use_or_closed(hg_delete(w->keyspace, hg_text(key), HG_BUFFERED, NULL));
        break;
      case 3: {
        hg_code code = hg_get_into(w->keyspace, NULL, hg_text(key), buffer, 64, &len, NULL);
        in_use_or_closed(code);
        if (code == HG_OK) CHECK(len == strlen(key) && memcmp(buffer, key, len) == 0);
        break;
      }
      case 4:
        if (hg_get_pinned(w->keyspace, NULL, hg_text(key), &value, &pinned, NULL) == HG_OK) {
          CHECK(is(value, key));
          CHECK(hg_pinned_free(pinned) == HG_OK);
        }
        break;
      case 5:
        if (hg_iter_new(w->keyspace, NULL, &iter, NULL) == HG_OK) {
          hg_code code;
          do
            code = hg_iter_fill(iter, HG_FORWARD, buffer, sizeof(buffer), &len, &count, NULL);
          while (code == HG_OK);
          in_use_or_closed(code);
          CHECK(hg_iter_free(iter) == HG_OK);
        }
        break;
      case 6:
        if (hg_snapshot_new(w->db, &snapshot, NULL) == HG_OK) {
          in_use_or_closed(hg_contains(w->keyspace, snapshot, hg_text(key), NULL));
          CHECK(hg_snapshot_free(snapshot) == HG_OK);
        }
        break;
      default:
        if (hg_transaction_begin(w->db, HG_SERIALIZABLE, HG_BUFFERED, &transaction, NULL) == HG_OK) {
          in_use_or_closed(
              hg_transaction_put(transaction, w->keyspace, hg_text(key), hg_text(key), NULL));
          in_use_or_closed(hg_transaction_commit(transaction, NULL));
          CHECK(hg_transaction_free(transaction) == HG_OK);
        }
    }
    w->calls++;
  }
  return NULL;
}

static void work_together(hg_db* db, hg_keyspace* keyspace, int close_midway) {
  pthread_t threads[THREADS];
  worker workers[THREADS];
  stop = 0;
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){db, keyspace, i, 0};
    CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
  }
  if (close_midway) {
    struct timespec moment = {0, 50000000};
    nanosleep(&moment, NULL);
    OK(hg_close(db, &error));
    nanosleep(&moment, NULL);
    OK(hg_keyspace_free(keyspace));
    stop = 1;
  }
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(close_midway || workers[i].calls == STEPS);
  }
}

static void many_threads_share_handles(void) {
  hg_db* db = open_with("workers", "2");
  hg_keyspace* keyspace = keyspace_of(db, "sorted hash:1");
  work_together(db, keyspace, 0);
  OK(hg_verify(db, &error));
  OK(hg_close(db, &error));
}

static void a_database_is_closed_under_many_threads(void) {
  for (int i = 0; i < 5; i++) {
    hg_db* db = open_with(NULL, NULL);
    work_together(db, keyspace_of(db, "sorted"), 1);
  }
}

/* Threads use one iterator, one batch and one transaction: calls wait for one another. */
static hg_iter* shared_iter;
static hg_batch* shared_batch;
static hg_transaction* shared_transaction;
static hg_keyspace* shared_keyspace;

static void* share(void* unused) {
  (void)unused;
  for (int i = 0; i < 1000; i++) {
    char key[16], buffer[512];
    snprintf(key, sizeof(key), "%d", i % 50);
    size_t used, count;
    hg_code code = hg_iter_fill(shared_iter, HG_FORWARD, buffer, sizeof(buffer), &used, &count, NULL);
    CHECK(code == HG_OK || code == HG_NOT_FOUND);
    if (code == HG_NOT_FOUND) OK(hg_iter_seek_first(shared_iter, NULL, NULL, &error));
    OK(hg_batch_put(shared_batch, shared_keyspace, hg_text(key), hg_text("b"), &error));
    if (i % 100 == 0) OK(hg_batch_commit(shared_batch, HG_BUFFERED, &error));
    OK(hg_transaction_put(shared_transaction, shared_keyspace, hg_text(key), hg_text("t"), &error));
  }
  return NULL;
}

static void objects_serve_one_thread_after_another(void) {
  hg_db* db = open_with(NULL, NULL);
  shared_keyspace = keyspace_of(db, "sorted");
  for (int i = 0; i < 100; i++) {
    char key[16];
    snprintf(key, sizeof(key), "%d", i);
    OK(hg_put(shared_keyspace, hg_text(key), hg_text(key), HG_BUFFERED, &error));
  }
  OK(hg_iter_new(shared_keyspace, NULL, &shared_iter, &error));
  OK(hg_batch_new(db, &shared_batch, &error));
  OK(hg_transaction_begin(db, HG_SNAPSHOT, HG_BUFFERED, &shared_transaction, &error));
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, share, NULL) == 0);
  for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  OK(hg_transaction_free(shared_transaction));
  OK(hg_batch_free(shared_batch));
  OK(hg_iter_free(shared_iter));
  OK(hg_close(db, &error));
}

#define T(name) {#name, name}
static const test TESTS[] = {
    T(freed_handles_are_refused), T(foreign_numbers_are_refused),
    T(objects_outlive_their_database), T(handles_do_not_survive_a_fork),
    T(long_calls_can_be_interrupted), T(a_caller_that_stops_waiting_leaves_the_call),
    T(reads_of_many_can_be_interrupted), T(a_compaction_and_the_end_of_a_load_leave_their_caller),
    T(asynchronous_calls_answer_once), T(many_threads_share_handles),
    T(a_database_is_closed_under_many_threads), T(objects_serve_one_thread_after_another),
    T(a_progress_function_cannot_use_the_object_of_its_call),
    T(a_merge_function_cannot_use_the_object_of_its_call),
    T(commits_clears_and_drops_leave_their_callers), T(an_export_leaves_its_caller),
    T(a_checkpoint_an_ingestion_and_a_close_leave_their_caller),
    T(a_write_that_waits_for_memory_leaves_its_caller),
    T(a_commit_goes_on_when_its_transaction_is_freed),
};

int main(int argc, char** argv) {
  return run_tests(TESTS, sizeof(TESTS) / sizeof(*TESTS), argc, argv);
}
