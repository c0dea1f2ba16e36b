/* Results for which there is no memory. A call that succeeds tells the places in the code of the
 * library that take the memory of its results. Then the same call finds no memory at one of these
 * places. */
#include "check.h"
#include "leveldb/c.h"

void* __libc_malloc(size_t bytes);
void __libc_free(void* memory);

enum { TAKEN = 256, RESULTS = 3 };

/* The memory that this thread took last, and the places that took it. */
static __thread struct {
  const void *memory, *place;
} taken[TAKEN];
static __thread size_t taken_count;
/* The places that are watched, the times that they find memory before they find none, once, and
 * whether that is still to come. */
static __thread const void* watched[RESULTS];
static __thread int spared, refuses;
/* The memory that these places took before, and the part of it that is not freed. */
static __thread const void* found[RESULTS];
static __thread size_t found_count, held;

static int is_watched(const void* place) {
  for (size_t i = 0; refuses && i < RESULTS; i++)
    if (watched[i] == place) return 1;
  return 0;
}

void* malloc(size_t bytes) {
  const void* place = __builtin_return_address(0);
  int counts = is_watched(place);
  if (counts && spared == 0) {
    refuses = 0;
    return NULL;
  }
  void* memory = __libc_malloc(bytes);
  taken[taken_count % TAKEN].memory = memory;
  taken[taken_count++ % TAKEN].place = place;
  if (counts) {
    spared--;
    found[found_count++] = memory;
    held++;
  }
  return memory;
}

void free(void* freed) {
  for (size_t i = 0; i < found_count; i++) {
    if (found[i] != freed) continue;
    found[i] = found[--found_count];
    held--;
  }
  __libc_free(freed);
}

/* The place that took this memory. */
static const void* place_of(const void* memory) {
  for (size_t back = 1; back <= TAKEN && back <= taken_count; back++)
    if (taken[(taken_count - back) % TAKEN].memory == memory)
      return taken[(taken_count - back) % TAKEN].place;
  fprintf(stderr, "%s: expected memory of malloc\n", test_name);
  abort();
}

/* The places that took the memory of these results find none, after they found some as often as
 * `after` says. NULL is no result. Frees the results. */
static void refuse(char* first, char* second, char* third, int after) {
  char* results[RESULTS] = {first, second, third};
  for (size_t i = 0; i < RESULTS; i++) watched[i] = results[i] == NULL ? NULL : place_of(results[i]);
  for (size_t i = 0; i < RESULTS; i++) hg_free(results[i]);
  spared = after;
  found_count = held = 0;
  refuses = 1;
}

static hg_error error;
static char untouched[1];

static hg_db* open_db(void) {
  hg_db* db;
  OK(hg_open(path_of("db"), NULL, &db, &error));
  return db;
}

static hg_keyspace* open_keyspace(hg_db* db) {
  hg_keyspace* keyspace;
  OK(hg_keyspace_open(db, "people", NULL, NULL, &keyspace, &error));
  OK(hg_put(keyspace, hg_text("ada"), hg_text("1815"), HG_BUFFERED, &error));
  return keyspace;
}

static void check_refusal(hg_code code, const char* ending) {
  const char* end = error.message + strlen(error.message) - strlen(ending);
  CHECK(code == HG_NO_SPACE && error.code == HG_NO_SPACE && !refuses);
  CHECK(spared == 0 && held == 0);
  CHECK(strncmp(error.message, "expected memory for ", 20) == 0 && strcmp(end, ending) == 0);
}

/* The call succeeds, and then finds no memory for `result`. */
#define WITHOUT_MEMORY(result, ending, call) \
  do {                                       \
    CHECK((call) == HG_OK);                  \
    refuse(result, NULL, NULL, 0);           \
    result = untouched;                      \
    hg_code code = (call);                   \
    check_refusal(code, ending);             \
    CHECK(result == untouched);              \
  } while (0)

static void values_need_memory(void) {
  hg_db* db = open_db();
  hg_keyspace* k = open_keyspace(db);
  char* value;
  size_t len;
  hg_bytes key = hg_text("ada");
  WITHOUT_MEMORY(value, "4 bytes, found none", hg_get(k, NULL, key, &value, &len, &error));
  hg_snapshot* snapshot;
  OK(hg_snapshot_new(db, &snapshot, &error));
  WITHOUT_MEMORY(value, "found none", hg_get(k, snapshot, key, &value, &len, &error));
  hg_transaction* t;
  OK(hg_transaction_begin(db, HG_SERIALIZABLE, HG_BUFFERED, &t, &error));
  WITHOUT_MEMORY(value, "found none", hg_transaction_get(t, k, key, &value, &len, &error));
  hg_transaction_free(t);
  hg_snapshot_free(snapshot);
  OK(hg_close(db, &error));
}

static void texts_need_memory(void) {
  hg_db* db = open_db();
  hg_keyspace* k = open_keyspace(db);
  char* text;
  const char *ending = "found none", *repository = path_of("repository");
  WITHOUT_MEMORY(text, ending, hg_keyspaces_json(db, &text, &error));
  WITHOUT_MEMORY(text, ending, hg_stats_json(db, &text, &error));
  WITHOUT_MEMORY(text, ending, hg_stats_prometheus(db, &text, &error));
  WITHOUT_MEMORY(text, ending, hg_keyspace_stats_json(k, &text, &error));
  WITHOUT_MEMORY(text, ending, hg_explain_json(k, hg_text("ada"), &text, &error));
  WITHOUT_MEMORY(text, ending, hg_slots_json(db, &text, &error));
  OK(hg_close(db, &error));
  OK(hg_backup_create(repository, path_of("db"), NULL, 0, NULL, &error));
  WITHOUT_MEMORY(text, ending, hg_backup_list_json(repository, &text, &error));
  ending = "found none: the database was repaired";
  WITHOUT_MEMORY(text, ending, hg_repair(path_of("db"), NULL, &text, &error));
}

/* A call with several results gives all of them, or frees those that have found memory. */
static void several_texts_need_memory(void) {
  hg_db* db = open_db();
  hg_keyspace* k = open_keyspace(db);
  for (int after = 0; after < 3; after++) {
    char *name, *layout, *design;
    OK(hg_keyspace_describe(k, &name, &layout, &design, &error));
    refuse(name, layout, design, after);
    name = layout = design = untouched;
    hg_code code = hg_keyspace_describe(k, &name, &layout, &design, &error);
    check_refusal(code, "found none");
    CHECK(name == untouched && layout == untouched && design == untouched);
  }
  OK(hg_close(db, &error));
}

/* A pop has removed its entry, and says so. */
static void pops_need_memory(void) {
  hg_db* db = open_db();
  hg_keyspace* k = open_keyspace(db);
  for (int after = 0; after < 2; after++) {
    char *key, *value;
    size_t key_len, value_len;
    OK(hg_put(k, hg_text("grace"), hg_text("1906"), HG_BUFFERED, &error));
    OK(hg_pop_last(k, HG_BUFFERED, &key, &key_len, &value, &value_len, &error));
    OK(hg_put(k, hg_text("grace"), hg_text("1906"), HG_BUFFERED, &error));
    refuse(key, value, NULL, after);
    key = value = untouched;
    hg_code code = hg_pop_last(k, HG_BUFFERED, &key, &key_len, &value, &value_len, &error);
    check_refusal(code, "found none: the entry was removed");
    CHECK(key == untouched && value == untouched);
    EXPECT(HG_NOT_FOUND, hg_contains(k, NULL, hg_text("grace"), &error));
  }
  OK(hg_close(db, &error));
}

/* LevelDB's interface returns NULL also for a key without a value. */
static void a_value_of_leveldb_is_not_absent(void) {
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  char* message = NULL;
  leveldb_t* db = leveldb_open(options, path_of("db"), &message);
  leveldb_writeoptions_t* writes = leveldb_writeoptions_create();
  leveldb_readoptions_t* reads = leveldb_readoptions_create();
  leveldb_put(db, writes, "ada", 3, "1815", 4, &message);
  size_t len;
  char* value = leveldb_get(db, reads, "ada", 3, &len, &message);
  CHECK(message == NULL && value != NULL && len == 4);
  refuse(value, NULL, NULL, 0);
  value = leveldb_get(db, reads, "ada", 3, &len, &message);
  CHECK(!refuses && value == NULL && len == 0 && message != NULL);
  CHECK(strcmp(message, "IO error: expected memory for 4 bytes, found none") == 0);
  leveldb_free(message);
  leveldb_readoptions_destroy(reads);
  leveldb_writeoptions_destroy(writes);
  leveldb_close(db);
  leveldb_options_destroy(options);
}

#define T(name) {#name, name}

int main(int argc, char** argv) {
  static const test tests[] = {
      T(values_need_memory), T(texts_need_memory), T(several_texts_need_memory),
      T(pops_need_memory), T(a_value_of_leveldb_is_not_absent),
  };
  return run_tests(tests, sizeof(tests) / sizeof(*tests), argc, argv);
}
