/* Tests of what a program may do wrong with LevelDB's functions, of threads and of forks. A
 * function that can report an error does; the others return nothing, or do nothing. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"
#include "leveldb/c.h"

/* The call stores a message in `e` that has this text; NULL is no message. */
#define REPORTS(text, call) \
  do {                      \
    char* e = NULL;         \
    call;                   \
    check_report(__LINE__, text, e); \
  } while (0)
#define WORKS(call) REPORTS(NULL, call)

static void check_report(int line, const char* text, char* message) {
  if (text == NULL ? message != NULL : message == NULL || strstr(message, text) == NULL) {
    fprintf(stderr, "%s:%d: %s: expected `%s`, found `%s`\n", __FILE__, line, test_name,
            text != NULL ? text : "", message != NULL ? message : "");
    abort();
  }
  leveldb_free(message);
}

/* ---- handles ---- */

typedef struct {
  leveldb_options_t* options;
  leveldb_cache_t* cache;
  leveldb_comparator_t* comparator;
  leveldb_filterpolicy_t* policy;
  leveldb_env_t* env;
  leveldb_readoptions_t* reads;
  leveldb_writeoptions_t* writes;
  leveldb_writebatch_t* batch;
  leveldb_t* db;
  const leveldb_snapshot_t* snapshot;
  leveldb_iterator_t* iter;
} handles;

static void count(void* state) { ++*(int*)state; }

static int compare(void* state, const char* a, size_t a_len, const char* b, size_t b_len) {
  (void)state;
  int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
  return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

static const char* name_of(void* state) {
  (void)state;
  return "bytes";
}

/* The times that the state of a comparator was destroyed. */
static int destroyed;

/* A database with `a`, and one object of each kind. */
static handles open_all(const char* name) {
  handles h;
  h.options = leveldb_options_create();
  h.cache = leveldb_cache_create_lru(1 << 20);
  h.comparator = leveldb_comparator_create(&destroyed, count, compare, name_of);
  h.policy = leveldb_filterpolicy_create_bloom(10);
  h.env = leveldb_create_default_env();
  h.reads = leveldb_readoptions_create();
  h.writes = leveldb_writeoptions_create();
  h.batch = leveldb_writebatch_create();
  leveldb_options_set_create_if_missing(h.options, 1);
  leveldb_options_set_write_buffer_size(h.options, 1 << 20);
  leveldb_options_set_cache(h.options, h.cache);
  leveldb_options_set_comparator(h.options, h.comparator);
  leveldb_options_set_filter_policy(h.options, h.policy);
  WORKS(h.db = leveldb_open(h.options, path_of(name), &e));
  WORKS(leveldb_put(h.db, h.writes, "a", 1, "1", 1, &e));
  leveldb_writebatch_put(h.batch, "b", 1, "2", 1);
  h.snapshot = leveldb_create_snapshot(h.db);
  h.iter = leveldb_create_iterator(h.db, h.reads);
  return h;
}

static void free_all(const handles* h) {
  leveldb_iter_destroy(h->iter);
  leveldb_release_snapshot(h->db, h->snapshot);
  leveldb_writebatch_destroy(h->batch);
  leveldb_writeoptions_destroy(h->writes);
  leveldb_readoptions_destroy(h->reads);
  leveldb_env_destroy(h->env);
  leveldb_options_destroy(h->options);
  leveldb_filterpolicy_destroy(h->policy);
  leveldb_comparator_destroy(h->comparator);
  leveldb_cache_destroy(h->cache);
}

static void close_all(const handles* h) {
  free_all(h);
  leveldb_close(h->db);
}

/* The key has this value; NULL is none. */
static void expect(const handles* h, const char* key, const char* value) {
  size_t len;
  char* found;
  WORKS(found = leveldb_get(h->db, h->reads, key, strlen(key), &len, &e));
  CHECK((found == NULL) == (value == NULL) && len == (value == NULL ? 0 : strlen(value)));
  CHECK(found == NULL || memcmp(found, value, len) == 0);
  leveldb_free(found);
}

/* The iterator is nowhere wherever it moves, and says why. */
static void iterator_fails(leveldb_iterator_t* iter, const char* why) {
  size_t len = 7;
  leveldb_iter_next(iter);
  CHECK(!leveldb_iter_valid(iter));
  leveldb_iter_prev(iter);
  leveldb_iter_seek_to_first(iter);
  leveldb_iter_seek_to_last(iter);
  leveldb_iter_seek(iter, "a", 1);
  CHECK(!leveldb_iter_valid(iter));
  CHECK(leveldb_iter_key(iter, &len) == NULL && len == 0);
  len = 7;
  CHECK(leveldb_iter_value(iter, &len) == NULL && len == 0);
  REPORTS(why, leveldb_iter_get_error(iter, &e));
}

static void cannot_iterate(leveldb_t* db, const leveldb_readoptions_t* reads, const char* why) {
  leveldb_iterator_t* iter = leveldb_create_iterator(db, reads);
  iterator_fails(iter, why);
  leveldb_iter_destroy(iter);
}

static void on_put(void* state, const char* key, size_t key_len, const char* value, size_t len) {
  CHECK(key_len == 1 && len == 1 && key != NULL && value != NULL);
  count(state);
}

static void on_delete(void* state, const char* key, size_t len) {
  CHECK(len == 1 && key != NULL);
  count(state);
}

static int operations_of(const leveldb_writebatch_t* batch) {
  int operations = 0;
  leveldb_writebatch_iterate(batch, &operations, on_put, on_delete);
  return operations;
}

/* Gives a wrong handle to every function that can report an error. */
static void errors_of(const handles* wrong, const handles* right, const char* why) {
  const char* path = path_of("out");
  size_t len = 7;
  REPORTS(why, CHECK(leveldb_open(wrong->options, path, &e) == NULL));
  REPORTS(why, leveldb_repair_db(wrong->options, path, &e));
  REPORTS(why, leveldb_put(wrong->db, right->writes, "a", 1, "x", 1, &e));
  REPORTS(why, leveldb_put(right->db, wrong->writes, "a", 1, "x", 1, &e));
  REPORTS(why, leveldb_delete(wrong->db, right->writes, "a", 1, &e));
  REPORTS(why, leveldb_delete(right->db, wrong->writes, "a", 1, &e));
  REPORTS(why, leveldb_write(wrong->db, right->writes, right->batch, &e));
  REPORTS(why, leveldb_write(right->db, wrong->writes, right->batch, &e));
  REPORTS(why, leveldb_write(right->db, right->writes, wrong->batch, &e));
  REPORTS(why, CHECK(leveldb_get(wrong->db, right->reads, "a", 1, &len, &e) == NULL));
  CHECK(len == 0);
  REPORTS(why, CHECK(leveldb_get(right->db, wrong->reads, "a", 1, &len, &e) == NULL));
  iterator_fails(wrong->iter, why);
  cannot_iterate(wrong->db, right->reads, why);
  cannot_iterate(right->db, wrong->reads, why);
  if (wrong->snapshot != NULL) { /* NULL reads the present. */
    leveldb_readoptions_set_snapshot(right->reads, wrong->snapshot);
    REPORTS(why, CHECK(leveldb_get(right->db, right->reads, "a", 1, &len, &e) == NULL));
    cannot_iterate(right->db, right->reads, why);
    leveldb_readoptions_set_snapshot(right->reads, NULL);
  }
  if (wrong->comparator != NULL) { /* NULL is the order of bytes. */
    leveldb_options_set_comparator(right->options, wrong->comparator);
    REPORTS(why, CHECK(leveldb_open(right->options, path, &e) == NULL));
    leveldb_options_set_comparator(right->options, right->comparator);
  }
  /* The same without a place for the error. */
  CHECK(leveldb_open(wrong->options, path, NULL) == NULL);
  leveldb_put(wrong->db, right->writes, "a", 1, "x", 1, NULL);
  CHECK(leveldb_get(wrong->db, right->reads, "a", 1, &len, NULL) == NULL);
  leveldb_iter_get_error(wrong->iter, NULL);
}

/* Gives a wrong handle to every function that reports no error. */
static void without_effect(const handles* wrong, const handles* right) {
  const char *start = "a", *limit = "b";
  size_t one = 1;
  uint64_t size = 7;
  CHECK(leveldb_create_snapshot(wrong->db) == NULL);
  CHECK(leveldb_property_value(wrong->db, "leveldb.stats") == NULL);
  leveldb_approximate_sizes(wrong->db, 1, &start, &one, &limit, &one, &size);
  CHECK(size == 0);
  leveldb_compact_range(wrong->db, NULL, 0, NULL, 0);
  CHECK(leveldb_env_get_test_directory(wrong->env) == NULL);
  leveldb_writebatch_put(wrong->batch, "x", 1, "x", 1);
  leveldb_writebatch_delete(wrong->batch, "x", 1);
  leveldb_writebatch_clear(wrong->batch);
  leveldb_writebatch_append(wrong->batch, right->batch);
  leveldb_writebatch_append(right->batch, wrong->batch);
  CHECK(operations_of(wrong->batch) == 0 && operations_of(right->batch) == 1);
  leveldb_options_set_comparator(wrong->options, right->comparator);
  leveldb_options_set_filter_policy(wrong->options, right->policy);
  leveldb_options_set_filter_policy(right->options, wrong->policy);
  leveldb_options_set_create_if_missing(wrong->options, 1);
  leveldb_options_set_error_if_exists(wrong->options, 1);
  leveldb_options_set_paranoid_checks(wrong->options, 1);
  leveldb_options_set_env(wrong->options, right->env);
  leveldb_options_set_env(right->options, wrong->env);
  leveldb_options_set_info_log(wrong->options, NULL);
  leveldb_options_set_write_buffer_size(wrong->options, 1 << 20);
  leveldb_options_set_max_open_files(wrong->options, 100);
  leveldb_options_set_cache(wrong->options, right->cache);
  leveldb_options_set_cache(right->options, wrong->cache);
  leveldb_options_set_block_size(wrong->options, 4096);
  leveldb_options_set_block_restart_interval(wrong->options, 16);
  leveldb_options_set_max_file_size(wrong->options, 1 << 20);
  leveldb_options_set_compression(wrong->options, leveldb_no_compression);
  leveldb_readoptions_set_verify_checksums(wrong->reads, 1);
  leveldb_readoptions_set_fill_cache(wrong->reads, 0);
  leveldb_readoptions_set_snapshot(wrong->reads, right->snapshot);
  leveldb_writeoptions_set_sync(wrong->writes, 1);
  int before = destroyed;
  free_all(wrong);
  leveldb_release_snapshot(right->db, wrong->snapshot);
  leveldb_close(wrong->db);
  CHECK(destroyed == before);
}

static void refused(const handles* wrong, const handles* right, const char* why) {
  errors_of(wrong, right, why);
  without_effect(wrong, right);
  /* The options of a destroy have no effect. */
  WORKS(leveldb_destroy_db(wrong->options, path_of("out"), &e));
  WORKS(leveldb_put(right->db, right->writes, "c", 1, "3", 1, &e));
  expect(right, "a", "1");
  expect(right, "c", "3");
  expect(right, "x", NULL);
}

static void freed_handles_are_refused(void) {
  handles right = open_all("right"), wrong = open_all("wrong");
  destroyed = 0;
  close_all(&wrong);
  CHECK(destroyed == 1);
  refused(&wrong, &right, "closed before");
  close_all(&right);
}

static void foreign_numbers_are_refused(void) {
  handles right = open_all("right"), null = {0};
  refused(&null, &right, "found NULL");
  /* Addresses, small numbers, and handles of another kind. */
  void* numbers[] = {&null, (void*)1, (void*)-1, (void*)0x1000, right.options, malloc(16)};
  for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
    void* n = numbers[i];
    handles wrong = {n == right.options ? (void*)right.db : n, n, n, n, n, n, n, n, n, n, n};
    refused(&wrong, &right, "expected a handle of a");
  }
  free(numbers[5]);
  close_all(&right);
}

static void handles_do_not_survive_a_fork(void) {
  handles h = open_all("db");
  pid_t child = fork();
  if (child == 0) {
    /* The parent has the database; another one can be used. */
    leveldb_options_t* options = leveldb_options_create();
    REPORTS("IO error", CHECK(leveldb_open(options, path_of("db"), &e) == NULL));
    leveldb_options_destroy(options);
    handles right = open_all("of_child");
    refused(&h, &right, "before a fork");
    pid_t grandchild = fork();
    if (grandchild == 0) {
      REPORTS("before a fork", leveldb_put(right.db, right.writes, "a", 1, "x", 1, &e));
      iterator_fails(right.iter, "before a fork");
      _exit(0);
    }
    int status;
    CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
    expect(&right, "a", "1");
    close_all(&right);
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  expect(&h, "a", "1");
  CHECK(operations_of(h.batch) == 1);
  close_all(&h);
}

/* ---- objects that outlive others ---- */

static void iterators_outlive_their_database(void) {
  handles h = open_all("db");
  char* long_value = calloc(1, 100000);
  WORKS(leveldb_put(h.db, h.writes, "b", 1, long_value, 100000, &e));
  leveldb_compact_range(h.db, NULL, 0, NULL, 0);
  leveldb_readoptions_set_snapshot(h.reads, h.snapshot);
  leveldb_iterator_t* iters[] = {h.iter, leveldb_create_iterator(h.db, h.reads)};
  leveldb_readoptions_set_snapshot(h.reads, NULL);
  leveldb_iterator_t* at_long = leveldb_create_iterator(h.db, h.reads);
  leveldb_iter_seek(at_long, "b", 1);
  size_t key_len, len;
  for (int i = 0; i < 2; i++) leveldb_iter_seek_to_first(iters[i]);
  const char* key = leveldb_iter_key(h.iter, &key_len);
  const char* value = leveldb_iter_value(h.iter, &len);
  leveldb_close(h.db);
  /* Key and value stay. The next move says that the database is closed. */
  CHECK(key_len == 1 && len == 1 && *key == 'a' && *value == '1');
  for (int i = 0; i < 2; i++) {
    CHECK(leveldb_iter_valid(iters[i]));
    CHECK(*leveldb_iter_key(iters[i], &key_len) == 'a');
    CHECK(*leveldb_iter_value(iters[i], &len) == '1');
    iterator_fails(iters[i], "closed");
  }
  /* So does a value of a page that was not read before, unless it still can be read. */
  value = leveldb_iter_value(at_long, &len);
  if (value == NULL) REPORTS("closed", leveldb_iter_get_error(at_long, &e));
  else CHECK(len == 100000 && memcmp(value, long_value, len) == 0);
  leveldb_iter_destroy(at_long);
  free(long_value);
  /* The database can be opened again while they are there. */
  WORKS(h.db = leveldb_open(h.options, path_of("db"), &e));
  expect(&h, "a", "1");
  leveldb_readoptions_set_snapshot(h.reads, h.snapshot);
  REPORTS("Invalid argument", CHECK(leveldb_get(h.db, h.reads, "a", 1, &len, &e) == NULL));
  cannot_iterate(h.db, h.reads, "Invalid argument");
  leveldb_iter_destroy(iters[1]);
  close_all(&h);
}

static void released_snapshots_are_refused(void) {
  handles h = open_all("db"), other = open_all("other");
  leveldb_readoptions_t* at = leveldb_readoptions_create();
  leveldb_readoptions_set_snapshot(at, h.snapshot);
  leveldb_iterator_t* iter = leveldb_create_iterator(h.db, at);
  WORKS(leveldb_put(h.db, h.writes, "a", 1, "2", 1, &e));
  size_t len;
  REPORTS("Invalid argument", CHECK(leveldb_get(other.db, at, "a", 1, &len, &e) == NULL));
  cannot_iterate(other.db, at, "Invalid argument");
  leveldb_release_snapshot(h.db, h.snapshot);
  leveldb_release_snapshot(h.db, h.snapshot);
  REPORTS("closed before", CHECK(leveldb_get(h.db, at, "a", 1, &len, &e) == NULL));
  cannot_iterate(h.db, at, "closed before");
  /* An iterator keeps what it sees. */
  leveldb_iter_seek_to_first(iter);
  CHECK(leveldb_iter_valid(iter) && *leveldb_iter_value(iter, &len) == '1');
  leveldb_iter_destroy(iter);
  leveldb_readoptions_destroy(at);
  expect(&h, "a", "2");
  close_all(&other);
  close_all(&h);
}

/* ---- arguments ---- */

static void addresses_may_be_missing(void) {
  handles h = open_all("db");
  size_t len = 7;
  const char* wrong = "Invalid argument";
  REPORTS(wrong, CHECK(leveldb_open(h.options, NULL, &e) == NULL));
  REPORTS(wrong, CHECK(leveldb_open(h.options, "", &e) == NULL));
  REPORTS(wrong, leveldb_destroy_db(h.options, NULL, &e));
  REPORTS(wrong, leveldb_repair_db(h.options, NULL, &e));
  REPORTS(wrong, leveldb_put(h.db, h.writes, NULL, 5, "x", 1, &e));
  REPORTS(wrong, leveldb_put(h.db, h.writes, "x", 1, NULL, 5, &e));
  REPORTS(wrong, leveldb_put(h.db, h.writes, "x", SIZE_MAX, "x", 1, &e));
  REPORTS(wrong, leveldb_delete(h.db, h.writes, NULL, 5, &e));
  REPORTS(wrong, CHECK(leveldb_get(h.db, h.reads, NULL, 5, &len, &e) == NULL));
  CHECK(len == 0);
  REPORTS(wrong, CHECK(leveldb_get(h.db, h.reads, "a", 1, NULL, &e) == NULL));
  leveldb_writebatch_put(h.batch, NULL, 5, "x", 1);
  leveldb_writebatch_put(h.batch, "x", 1, NULL, 5);
  leveldb_writebatch_delete(h.batch, NULL, 5);
  CHECK(operations_of(h.batch) == 1);
  leveldb_writebatch_iterate(h.batch, NULL, NULL, NULL);
  CHECK(leveldb_property_value(h.db, NULL) == NULL);
  CHECK(leveldb_property_value(h.db, "leveldb.\xff") == NULL);
  leveldb_iter_seek_to_first(h.iter);
  CHECK(*leveldb_iter_key(h.iter, NULL) == 'a' && *leveldb_iter_value(h.iter, NULL) == '1');
  /* A key that cannot be read is nowhere. */
  leveldb_iter_seek(h.iter, NULL, 5);
  CHECK(!leveldb_iter_valid(h.iter));
  REPORTS(wrong, leveldb_iter_get_error(h.iter, &e));
  leveldb_iter_seek(h.iter, NULL, 0);
  CHECK(leveldb_iter_valid(h.iter));
  WORKS(leveldb_iter_get_error(h.iter, &e));
  /* The key without bytes needs no address. A second message takes the place of the first one. */
  WORKS(leveldb_put(h.db, h.writes, NULL, 0, NULL, 0, &e));
  expect(&h, "", "");
  REPORTS(wrong, for (int i = 0; i < 2; i++) leveldb_delete(NULL, NULL, "x", 1, &e));
  leveldb_free(NULL);
  expect(&h, "x", NULL);
  close_all(&h);
}

static void ranges_may_be_wrong(void) {
  handles h = open_all("db");
  const char *starts[] = {"", NULL, "b", ""}, *limits[] = {"z", "z", "a", NULL};
  size_t start_lens[] = {0, 5, 1, 0}, limit_lens[] = {1, 1, 1, 5};
  uint64_t sizes[] = {7, 7, 7, 7};
  leveldb_approximate_sizes(h.db, -1, starts, start_lens, limits, limit_lens, sizes);
  CHECK(sizes[0] == 7);
  leveldb_approximate_sizes(h.db, 4, starts, start_lens, limits, limit_lens, NULL);
  leveldb_approximate_sizes(h.db, 4, starts, start_lens, limits, limit_lens, sizes);
  CHECK(sizes[0] > 0 && sizes[1] == 0 && sizes[2] == 0 && sizes[3] == 0);
  sizes[0] = 7;
  leveldb_approximate_sizes(h.db, 1, starts, NULL, limits, limit_lens, sizes);
  CHECK(sizes[0] == 0);
  leveldb_compact_range(h.db, "b", 1, "a", 1);
  leveldb_compact_range(h.db, NULL, 5, NULL, 5);
  expect(&h, "a", "1");
  close_all(&h);
}

static void long_keys_are_refused(void) {
  handles h = open_all("db");
  size_t bytes = 65537, len;
  char* key = calloc(1, bytes);
  const char* why = "expected a key of at most 65536 bytes";
  REPORTS(why, leveldb_put(h.db, h.writes, key, bytes, "x", 1, &e));
  REPORTS(why, leveldb_delete(h.db, h.writes, key, bytes, &e));
  leveldb_writebatch_delete(h.batch, key, bytes);
  REPORTS(why, leveldb_write(h.db, h.writes, h.batch, &e));
  expect(&h, "b", NULL);
  /* A longer key has no value, and a position. */
  leveldb_free(leveldb_get(h.db, h.reads, key, bytes, &len, NULL));
  CHECK(len == 0);
  leveldb_iter_seek(h.iter, key, bytes);
  CHECK(leveldb_iter_valid(h.iter) && *leveldb_iter_key(h.iter, &len) == 'a');
  free(key);
  close_all(&h);
}

static void numbers_may_be_extreme(void) {
  handles h = open_all("db");
  leveldb_options_set_write_buffer_size(h.options, 0);
  leveldb_options_set_block_size(h.options, 0);
  leveldb_options_set_max_file_size(h.options, SIZE_MAX);
  leveldb_options_set_max_open_files(h.options, -1);
  leveldb_options_set_compression(h.options, 77);
  for (int i = 0; i < 2; i++) {
    leveldb_cache_t* cache = leveldb_cache_create_lru(i == 0 ? 0 : SIZE_MAX);
    leveldb_filterpolicy_t* policy = leveldb_filterpolicy_create_bloom(i == 0 ? -1 : 1 << 30);
    leveldb_options_set_cache(h.options, cache);
    leveldb_options_set_filter_policy(h.options, policy);
    leveldb_cache_destroy(cache);
    leveldb_filterpolicy_destroy(policy);
    handles other = h;
    WORKS(other.db = leveldb_open(h.options, path_of("other"), &e));
    WORKS(leveldb_put(other.db, h.writes, "k", 1, "v", 1, &e));
    leveldb_compact_range(other.db, NULL, 0, NULL, 0);
    expect(&other, "k", "v");
    leveldb_close(other.db);
  }
  close_all(&h);
  /* A cache without a bound takes little memory while it is empty. */
  struct rusage used;
  CHECK(getrusage(RUSAGE_SELF, &used) == 0);
  CHECK(used.ru_maxrss < sysconf(_SC_PHYS_PAGES) / 1024 * sysconf(_SC_PAGESIZE) / 8);
}

/* ---- functions of the program ---- */

static void functions_may_be_missing(void) {
  handles h = open_all("db");
  leveldb_comparator_t* comparator = leveldb_comparator_create(NULL, NULL, NULL, NULL);
  leveldb_options_set_comparator(h.options, comparator);
  REPORTS("Invalid argument", CHECK(leveldb_open(h.options, path_of("other"), &e) == NULL));
  leveldb_comparator_destroy(comparator);
  leveldb_options_set_comparator(h.options, NULL);
  leveldb_filterpolicy_t* policy = leveldb_filterpolicy_create(NULL, NULL, NULL, NULL, NULL);
  leveldb_options_set_filter_policy(h.options, policy);
  leveldb_filterpolicy_destroy(policy);
  handles other = h;
  WORKS(other.db = leveldb_open(h.options, path_of("other"), &e));
  expect(&other, "a", NULL);
  leveldb_close(other.db);
  close_all(&h);
}

static void puts_and_frees(void* state, const char* key, size_t key_len, const char* value,
                           size_t len) {
  leveldb_writebatch_put(state, "more", 4, "x", 1);
  leveldb_writebatch_destroy(state);
  CHECK(key_len == 1 && *key == 'b' && len == 1 && *value == '2');
}

/* Compares while the comparator, the options and the batch of the program are freed. */
static int frees_and_compares(void* state, const char* a, size_t a_len, const char* b,
                              size_t b_len) {
  handles* h = state;
  leveldb_comparator_destroy(h->comparator);
  leveldb_options_destroy(h->options);
  return compare(NULL, a, a_len, b, b_len);
}

static void frees_itself(void* state) {
  handles* h = state;
  leveldb_comparator_destroy(h->comparator);
  destroyed++;
}

static void functions_may_call_the_library(void) {
  handles h = open_all("db");
  leveldb_writebatch_iterate(h.batch, h.batch, puts_and_frees, on_delete);
  CHECK(operations_of(h.batch) == 0);
  handles other = {.options = leveldb_options_create()};
  other.comparator = leveldb_comparator_create(&other, frees_itself, frees_and_compares, name_of);
  leveldb_options_set_create_if_missing(other.options, 1);
  leveldb_options_set_comparator(other.options, other.comparator);
  destroyed = 0;
  WORKS(other.db = leveldb_open(other.options, path_of("other"), &e));
  CHECK(destroyed == 1);
  leveldb_close(other.db);
  close_all(&h);
}

/* ---- threads ---- */

enum { THREADS = 8, STEPS = 1000, KEYS = 200 };
static atomic_int stop;

typedef struct {
  const handles* shared;
  unsigned random;
  int calls, errors;
} worker;

/* A call fails because something is closed, or not at all. */
static void note(worker* w, char* message) {
  w->calls++;
  if (message == NULL) return;
  if (strstr(message, "closed") == NULL) fprintf(stderr, "%s: %s\n", test_name, message);
  CHECK(strstr(message, "closed") != NULL);
  w->errors++;
  leveldb_free(message);
}

static void scan(worker* w, const leveldb_readoptions_t* reads) {
  leveldb_iterator_t* iter = leveldb_create_iterator(w->shared->db, reads);
  size_t key_len, len;
  for (leveldb_iter_seek_to_first(iter); leveldb_iter_valid(iter); leveldb_iter_next(iter)) {
    const char* key = leveldb_iter_key(iter, &key_len);
    const char* value = leveldb_iter_value(iter, &len);
    /* Also where another thread has closed the database: key and value stay. */
    CHECK(key_len == len && memcmp(key, value, len) == 0);
  }
  char* e = NULL;
  leveldb_iter_get_error(iter, &e);
  leveldb_iter_destroy(iter);
  note(w, e);
}

static void scan_snapshot(worker* w) {
  leveldb_readoptions_t* reads = leveldb_readoptions_create();
  const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(w->shared->db);
  leveldb_readoptions_set_snapshot(reads, snapshot);
  scan(w, reads);
  leveldb_release_snapshot(w->shared->db, snapshot);
  leveldb_readoptions_destroy(reads);
}

/* Uses the iterator, the batch and the options that all threads use. */
static void share(worker* w, const char* key) {
  const handles* h = w->shared;
  char* e = NULL;
  leveldb_iter_seek(h->iter, key, strlen(key));
  leveldb_iter_next(h->iter);
  leveldb_iter_valid(h->iter);
  leveldb_iter_get_error(h->iter, &e);
  note(w, e);
  leveldb_writebatch_put(h->batch, key, strlen(key), key, strlen(key));
  leveldb_write(h->db, h->writes, h->batch, NULL);
  leveldb_writebatch_append(h->batch, h->batch);
  leveldb_writebatch_clear(h->batch);
  leveldb_options_set_block_size(h->options, 4096);
}

static void step(worker* w) {
  const handles* h = w->shared;
  w->random = w->random * 1103515245 + 12345;
  unsigned random = w->random / 65536;
  char key[16], *e = NULL, *value;
  snprintf(key, sizeof(key), "%u", random / 8 % KEYS);
  const char *start = "", *limit = "9";
  size_t key_len = strlen(key), len, none = 0, one = 1;
  uint64_t size;
  switch (random % 8) {
    case 0: case 1:
      leveldb_put(h->db, h->writes, key, key_len, key, key_len, &e);
      return note(w, e);
    case 2:
      leveldb_delete(h->db, h->writes, key, key_len, &e);
      return note(w, e);
    case 3:
      value = leveldb_get(h->db, h->reads, key, key_len, &len, &e);
      CHECK(value == NULL || (len == key_len && memcmp(value, key, len) == 0));
      leveldb_free(value);
      return note(w, e);
    case 4:
      leveldb_free(leveldb_property_value(h->db, "leveldb.stats"));
      leveldb_approximate_sizes(h->db, 1, &start, &none, &limit, &one, &size);
      if (random % 128 == 4) leveldb_compact_range(h->db, NULL, 0, NULL, 0);
      return note(w, NULL);
    case 5:
      return scan(w, h->reads);
    case 6:
      return scan_snapshot(w);
    default:
      return share(w, key);
  }
}

static void* work(void* state) {
  worker* w = state;
  for (int i = 0; i < STEPS && !stop; i++) step(w);
  return NULL;
}

/* Returns the number of errors. */
static int work_together(const handles* h, int close_midway) {
  pthread_t threads[THREADS];
  worker workers[THREADS];
  stop = 0;
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.shared = h, .random = (unsigned)i * 7919 + 1};
    CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
  }
  if (close_midway) {
    struct timespec moment = {0, 50000000};
    nanosleep(&moment, NULL);
    leveldb_close(h->db);
    nanosleep(&moment, NULL);
    free_all(h);
    stop = 1;
  }
  int errors = 0;
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(close_midway || workers[i].calls == STEPS);
    errors += workers[i].errors;
  }
  return errors;
}

/* Another database, whose values are its keys. */
static handles open_shared(void) {
  handles h = open_all("db");
  WORKS(leveldb_put(h.db, h.writes, "a", 1, "a", 1, &e));
  leveldb_writebatch_clear(h.batch);
  return h;
}

static void many_threads_share_handles(void) {
  handles h = open_shared();
  CHECK(work_together(&h, 0) == 0);
  expect(&h, "a", "a");
  close_all(&h);
}

static void a_database_is_closed_under_many_threads(void) {
  for (int i = 0; i < 5; i++) {
    handles h = open_shared();
    work_together(&h, 1);
    WORKS(leveldb_destroy_db(NULL, path_of("db"), &e));
  }
}

/* Threads make, use and free objects of all kinds, and databases of their own. */
static void* open_and_close(void* state) {
  for (int i = 0; i < 5; i++) {
    char name[16];
    snprintf(name, sizeof(name), "%d-%d", *(int*)state, i);
    char path[1200], *e = NULL;
    snprintf(path, sizeof(path), "%s/%s", test_dir, name);
    leveldb_options_t* options = leveldb_options_create();
    leveldb_writeoptions_t* writes = leveldb_writeoptions_create();
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_t* db = leveldb_open(options, path, &e);
    leveldb_put(db, writes, "a", 1, "a", 1, &e);
    leveldb_close(db);
    leveldb_destroy_db(options, path, &e);
    leveldb_writeoptions_destroy(writes);
    leveldb_options_destroy(options);
    CHECK(e == NULL);
  }
  return NULL;
}

static void many_threads_open_databases(void) {
  pthread_t threads[THREADS];
  int indexes[THREADS];
  for (int i = 0; i < THREADS; i++) {
    indexes[i] = i;
    CHECK(pthread_create(&threads[i], NULL, open_and_close, &indexes[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

#define T(name) {#name, name}
static const test TESTS[] = {
    T(freed_handles_are_refused), T(foreign_numbers_are_refused),
    T(handles_do_not_survive_a_fork), T(iterators_outlive_their_database),
    T(released_snapshots_are_refused), T(addresses_may_be_missing),
    T(ranges_may_be_wrong), T(long_keys_are_refused),
    T(numbers_may_be_extreme), T(functions_may_be_missing),
    T(functions_may_call_the_library), T(many_threads_share_handles),
    T(a_database_is_closed_under_many_threads), T(many_threads_open_databases),
};

int main(int argc, char** argv) {
  CHECK(leveldb_major_version() == 1 && leveldb_minor_version() == 23);
  return run_tests(TESTS, sizeof(TESTS) / sizeof(*TESTS), argc, argv);
}
