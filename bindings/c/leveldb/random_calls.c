/* A random program of C calls, made to two libraries with LevelDB's interface. Each call must have
 * the same outcome in both: value, error, position.
 *
 *   random_calls OURS.so THEIRS.so DIRECTORY CALLS [SEED]
 *
 * The seed is printed first; the same seed makes the same calls. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "leveldb/c.h"

#define FUNCTIONS(F)                                                                             \
  F(open) F(close) F(put) F(delete) F(write) F(get) F(create_iterator) F(create_snapshot)        \
  F(release_snapshot) F(property_value) F(approximate_sizes) F(compact_range) F(destroy_db)      \
  F(repair_db) F(iter_destroy) F(iter_valid) F(iter_seek_to_first) F(iter_seek_to_last)          \
  F(iter_seek) F(iter_next) F(iter_prev) F(iter_key) F(iter_value) F(iter_get_error)             \
  F(writebatch_create) F(writebatch_destroy) F(writebatch_clear) F(writebatch_put)               \
  F(writebatch_delete) F(writebatch_iterate) F(writebatch_append) F(options_create)              \
  F(options_destroy) F(options_set_comparator) F(options_set_filter_policy)                      \
  F(options_set_create_if_missing) F(options_set_error_if_exists)                                \
  F(options_set_paranoid_checks) F(options_set_env) F(options_set_info_log)                      \
  F(options_set_write_buffer_size) F(options_set_max_open_files) F(options_set_cache)            \
  F(options_set_block_size) F(options_set_block_restart_interval) F(options_set_max_file_size)   \
  F(options_set_compression) F(comparator_create) F(comparator_destroy) F(filterpolicy_create)   \
  F(filterpolicy_destroy) F(filterpolicy_create_bloom) F(readoptions_create)                     \
  F(readoptions_destroy) F(readoptions_set_verify_checksums) F(readoptions_set_fill_cache)       \
  F(readoptions_set_snapshot) F(writeoptions_create) F(writeoptions_destroy)                     \
  F(writeoptions_set_sync) F(cache_create_lru) F(cache_destroy) F(create_default_env)            \
  F(env_destroy) F(env_get_test_directory) F(free) F(major_version) F(minor_version)

enum { BATCHES = 3, SNAPSHOTS = 4, ITERATORS = 3, KEYS = 300, OURS = 0, THEIRS = 1 };

typedef struct {
#define POINTER(name) __typeof__(&leveldb_##name) name;
  FUNCTIONS(POINTER)
  char directory[4096];
  leveldb_t* db;
  leveldb_options_t* options;
  leveldb_readoptions_t* reading;
  leveldb_writeoptions_t* writing;
  leveldb_cache_t* cache;
  leveldb_filterpolicy_t* policy;
  leveldb_comparator_t* comparator;
  leveldb_env_t* env;
  leveldb_writebatch_t* batches[BATCHES];
  const leveldb_snapshot_t* snapshots[SNAPSHOTS];
  leveldb_iterator_t* iterators[ITERATORS];
} side;

static side sides[2];
static uint64_t seed, state, calls;
static const char* call_name = "";

static uint32_t pick(uint32_t below) {
  state += 0x9E3779B97F4A7C15u;
  uint64_t z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return (uint32_t)((z ^ (z >> 31)) >> 32) % below;
}

static void differ(const char* what) {
  fprintf(stderr, "seed %llu, call %llu, %s: %s differs\n", (unsigned long long)seed,
          (unsigned long long)calls, call_name, what);
  exit(1);
}

/* ---- the outcomes of a call ---- */

typedef struct {
  int is_null;
  size_t len;
  char* bytes;
} outcome;

static outcome taken(const char* bytes, size_t len) {
  outcome it = {bytes == NULL, bytes == NULL ? 0 : len, NULL};
  if (it.len > 0) {
    it.bytes = malloc(it.len);
    memcpy(it.bytes, bytes, it.len);
  }
  return it;
}

static void compare(const char* what, outcome both[2]) {
  if (both[0].is_null != both[1].is_null || both[0].len != both[1].len ||
      (both[0].len > 0 && memcmp(both[0].bytes, both[1].bytes, both[0].len) != 0))
    differ(what);
  free(both[0].bytes);
  free(both[1].bytes);
}

/* Two errors agree if both are there and of the same kind, the words before the colon. */
static void compare_errors(char* errors[2]) {
  outcome kinds[2];
  for (int s = 0; s < 2; s++) {
    size_t len = errors[s] == NULL ? 0 : strcspn(errors[s], ":");
    kinds[s] = taken(errors[s], len);
    if (kinds[0].is_null != kinds[s].is_null)
      fprintf(stderr, "ours: %s; theirs: %s\n", errors[0] ? errors[0] : "no error",
              errors[1] ? errors[1] : "no error");
  }
  compare("error", kinds);
  for (int s = 0; s < 2; s++) sides[s].free(errors[s]);
}

#define BOTH(s) for (side* s = sides; s < sides + 2; s++)
#define INDEX(s) ((s) == &sides[THEIRS])

/* ---- random arguments ---- */

typedef struct {
  char bytes[6000];
  size_t len;
} text;

static void make_key(text* key) {
  uint32_t n = pick(KEYS);
  switch (n % 10) {
    case 0: key->len = n % 3; memset(key->bytes, 0, key->len); return;
    case 1: key->len = (size_t)sprintf(key->bytes, "%u", n); return;
    case 2: key->len = (size_t)sprintf(key->bytes, "\xff\xff%u", n); return;
    default: key->len = (size_t)sprintf(key->bytes, "key%05u", n); return;
  }
}

static void make_value(text* value) {
  value->len = pick(20) == 0 ? pick(sizeof(value->bytes)) : pick(200);
  for (size_t i = 0; i < value->len; i++) value->bytes[i] = (char)pick(256);
}

/* ---- calls ---- */

static void put(void) {
  text key, value;
  make_key(&key), make_value(&value);
  char* errors[2] = {NULL, NULL};
  BOTH(s) s->put(s->db, s->writing, key.bytes, key.len, value.bytes, value.len, &errors[INDEX(s)]);
  compare_errors(errors);
}

static void delete(void) {
  text key;
  make_key(&key);
  char* errors[2] = {NULL, NULL};
  BOTH(s) s->delete(s->db, s->writing, key.bytes, key.len, &errors[INDEX(s)]);
  compare_errors(errors);
}

static void use_snapshot(void) {
  uint32_t which = pick(2 * SNAPSHOTS);
  BOTH(s) s->readoptions_set_snapshot(s->reading, which < SNAPSHOTS ? s->snapshots[which] : NULL);
}

static void get(void) {
  text key;
  make_key(&key);
  use_snapshot();
  char* errors[2] = {NULL, NULL};
  outcome found[2];
  BOTH(s) {
    size_t len = 12345;
    char* value = s->get(s->db, s->reading, key.bytes, key.len, &len, &errors[INDEX(s)]);
    found[INDEX(s)] = taken(value, len);
    s->free(value);
  }
  compare("value", found);
  compare_errors(errors);
}

static void snapshot(void) {
  uint32_t which = pick(SNAPSHOTS);
  BOTH(s) {
    s->readoptions_set_snapshot(s->reading, NULL);
    if (s->snapshots[which] == NULL) {
      s->snapshots[which] = s->create_snapshot(s->db);
    } else {
      s->release_snapshot(s->db, s->snapshots[which]);
      s->snapshots[which] = NULL;
    }
  }
}

static void batch_change(void) {
  text key, value;
  make_key(&key), make_value(&value);
  uint32_t to = pick(BATCHES), from = pick(BATCHES), what = pick(20);
  BOTH(s) {
    leveldb_writebatch_t* batch = s->batches[to];
    if (what < 10) s->writebatch_put(batch, key.bytes, key.len, value.bytes, value.len);
    else if (what < 15) s->writebatch_delete(batch, key.bytes, key.len);
    else if (what < 17) s->writebatch_clear(batch);
    else if (what < 18 && to != from) s->writebatch_append(batch, s->batches[from]);
    else if (what < 19) {
      s->writebatch_destroy(batch);
      s->batches[to] = s->writebatch_create();
    }
  }
}

static void write_batch(void) {
  uint32_t which = pick(BATCHES);
  char* errors[2] = {NULL, NULL};
  BOTH(s) {
    s->write(s->db, s->writing, s->batches[which], &errors[INDEX(s)]);
    /* Appending makes batches grow without end. */
    s->writebatch_clear(s->batches[which]);
  }
  compare_errors(errors);
}

typedef struct {
  size_t len;
  char bytes[1 << 20];
} record;

static record records[2];

static void note(record* to, char kind, const char* bytes, size_t len) {
  if (to->len + len + 1 + sizeof(len) > sizeof(to->bytes)) return;
  to->bytes[to->len++] = kind;
  memcpy(to->bytes + to->len, &len, sizeof(len));
  to->len += sizeof(len);
  memcpy(to->bytes + to->len, bytes, len);
  to->len += len;
}

static void note_put(void* to, const char* k, size_t klen, const char* v, size_t vlen) {
  note(to, 'k', k, klen);
  note(to, 'v', v, vlen);
}

static void note_deleted(void* to, const char* k, size_t klen) { note(to, 'd', k, klen); }

static void iterate_batch(void) {
  uint32_t which = pick(BATCHES);
  outcome seen[2];
  BOTH(s) {
    record* to = &records[INDEX(s)];
    to->len = 0;
    s->writebatch_iterate(s->batches[which], to, note_put, note_deleted);
    seen[INDEX(s)] = taken(to->bytes, to->len);
  }
  compare("operations", seen);
}

static void compare_positions(uint32_t which) {
  outcome valid[2], keys[2], values[2];
  char* errors[2] = {NULL, NULL};
  BOTH(s) {
    leveldb_iterator_t* it = s->iterators[which];
    char on = (char)s->iter_valid(it);
    valid[INDEX(s)] = taken(&on, 1);
    size_t len = 0;
    const char* bytes = on ? s->iter_key(it, &len) : NULL;
    keys[INDEX(s)] = taken(bytes, len);
    bytes = on ? s->iter_value(it, &len) : NULL;
    values[INDEX(s)] = taken(bytes, len);
    s->iter_get_error(it, &errors[INDEX(s)]);
  }
  compare("position", valid);
  compare("key", keys);
  compare("value", values);
  compare_errors(errors);
}

static void iterator(void) {
  uint32_t which = pick(ITERATORS), what = pick(40);
  text key;
  make_key(&key);
  if (sides[0].iterators[which] == NULL) {
    use_snapshot();
    BOTH(s) s->iterators[which] = s->create_iterator(s->db, s->reading);
  } else if (what == 0) {
    BOTH(s) {
      s->iter_destroy(s->iterators[which]);
      s->iterators[which] = NULL;
    }
    return;
  } else if (what < 4) {
    BOTH(s) s->iter_seek_to_first(s->iterators[which]);
  } else if (what < 7) {
    BOTH(s) s->iter_seek_to_last(s->iterators[which]);
  } else if (what < 15) {
    BOTH(s) s->iter_seek(s->iterators[which], key.bytes, key.len);
  } else if (sides[THEIRS].iter_valid(sides[THEIRS].iterators[which])) {
    /* LevelDB must not be moved when it has no position. */
    BOTH(s) what < 28 ? s->iter_next(s->iterators[which]) : s->iter_prev(s->iterators[which]);
  }
  compare_positions(which);
}

static void compact(void) {
  text start, limit;
  make_key(&start), make_key(&limit);
  uint32_t what = pick(4);
  BOTH(s)
    s->compact_range(s->db, what & 1 ? start.bytes : NULL, what & 1 ? start.len : 0,
                     what & 2 ? limit.bytes : NULL, what & 2 ? limit.len : 0);
}

static void property(void) {
  static const char* const NAMES[] = {
      "leveldb.num-files-at-level0", "leveldb.num-files-at-level6", "leveldb.num-files-at-level7",
      "leveldb.num-files-at-level", "leveldb.num-files-at-level1x", "leveldb.stats",
      "leveldb.sstables", "leveldb.approximate-memory-usage", "leveldb.nothing", "stats", ""};
  const char* name = NAMES[pick(sizeof(NAMES) / sizeof(*NAMES))];
  outcome found[2];
  BOTH(s) {
    char* value = s->property_value(s->db, name);
    found[INDEX(s)] = taken(value, 0);
    s->free(value);
  }
  compare("property", found);
}

/* The sizes of one range before all keys and of one behind them: nothing is there. */
static void sizes(void) {
  const char* starts[] = {"\xff\xff\xff", "zz"};
  const char* limits[] = {"\xff\xff\xff\xff", "zz"};
  size_t start_lens[] = {3, 2}, limit_lens[] = {4, 2};
  outcome found[2];
  BOTH(s) {
    uint64_t bytes[2] = {7, 7};
    s->approximate_sizes(s->db, 2, starts, start_lens, limits, limit_lens, bytes);
    found[INDEX(s)] = taken((char*)bytes, sizeof(bytes));
  }
  compare("sizes", found);
}

/* ---- opening ---- */

static void noop(void* nothing) { (void)nothing; }
static const char* bytewise_name(void* nothing) { (void)nothing; return "leveldb.BytewiseComparator"; }
static int bytewise(void* nothing, const char* a, size_t alen, const char* b, size_t blen) {
  (void)nothing;
  int order = memcmp(a, b, alen < blen ? alen : blen);
  return order != 0 ? order : (alen > blen) - (alen < blen);
}

static void change_options(void) {
  uint32_t block = 512u << pick(6), buffer = 65536u << pick(5), cache = pick(2), policy = pick(2),
           compression = pick(2), restart = 1 + pick(20), files = 20 + pick(100), sync = pick(8),
           on = pick(2), comparator = pick(2);
  BOTH(s) {
    s->options_set_block_size(s->options, block);
    s->options_set_write_buffer_size(s->options, buffer);
    if (cache) s->options_set_cache(s->options, s->cache); /* LevelDB wants no NULL here. */
    s->options_set_filter_policy(s->options, policy ? s->policy : NULL);
    s->options_set_compression(s->options, (int)compression);
    s->options_set_block_restart_interval(s->options, (int)restart);
    s->options_set_max_open_files(s->options, (int)files);
    s->options_set_max_file_size(s->options, 1u << 20);
    s->options_set_paranoid_checks(s->options, (uint8_t)on);
    s->options_set_env(s->options, s->env);
    s->options_set_info_log(s->options, NULL);
    if (comparator) s->options_set_comparator(s->options, s->comparator);
    s->writeoptions_set_sync(s->writing, sync == 0);
    s->readoptions_set_fill_cache(s->reading, (uint8_t)on);
    s->readoptions_set_verify_checksums(s->reading, (uint8_t)on);
  }
}

static void open_all(int create, int refuse) {
  char* errors[2] = {NULL, NULL};
  outcome opened[2];
  BOTH(s) {
    s->options_set_create_if_missing(s->options, (uint8_t)create);
    s->options_set_error_if_exists(s->options, (uint8_t)refuse);
    leveldb_t* db = s->open(s->options, s->directory, &errors[INDEX(s)]);
    opened[INDEX(s)] = taken(db == NULL ? NULL : "db", 2);
    if (db != NULL && s->db != NULL) differ("a second handle of an open database");
    if (db != NULL) s->db = db;
  }
  compare("database", opened);
  compare_errors(errors);
}

static void close_all(void) {
  BOTH(s) {
    for (int i = 0; i < ITERATORS; i++) {
      if (s->iterators[i] != NULL) s->iter_destroy(s->iterators[i]);
      s->iterators[i] = NULL;
    }
    s->readoptions_set_snapshot(s->reading, NULL);
    for (int i = 0; i < SNAPSHOTS; i++) {
      if (s->snapshots[i] != NULL) s->release_snapshot(s->db, s->snapshots[i]);
      s->snapshots[i] = NULL;
    }
    s->close(s->db);
    s->db = NULL;
  }
}

static void compare_all(void) {
  outcome seen[2];
  BOTH(s) {
    s->readoptions_set_snapshot(s->reading, NULL);
    leveldb_iterator_t* it = s->create_iterator(s->db, s->reading);
    record* to = &records[INDEX(s)];
    to->len = 0;
    for (s->iter_seek_to_first(it); s->iter_valid(it); s->iter_next(it)) {
      size_t klen, vlen;
      const char* k = s->iter_key(it, &klen);
      const char* v = s->iter_value(it, &vlen);
      note_put(to, k, klen, v, vlen);
    }
    s->iter_destroy(it);
    seen[INDEX(s)] = taken(to->bytes, to->len);
  }
  compare("entries", seen);
}

static void reopen(void) {
  uint32_t what = pick(12);
  open_all(1, 0); /* It is open: an error. */
  close_all();
  char* errors[2] = {NULL, NULL};
  if (what == 0) {
    BOTH(s) s->destroy_db(s->options, s->directory, &errors[INDEX(s)]);
    compare_errors(errors);
    open_all(0, 0); /* It is missing: an error. */
  } else {
    if (what == 1) {
      /* LevelDB's repair brings back what obsolete tables have. An iterator may have kept them;
       * they are removed when the database is opened. */
      open_all(0, 0);
      close_all();
      BOTH(s) s->repair_db(s->options, s->directory, &errors[INDEX(s)]);
      compare_errors(errors);
    }
    open_all(1, 1); /* It exists: an error. */
  }
  change_options();
  open_all(1, 0);
  compare_all();
}

/* ---- the program ---- */

static const struct {
  void (*call)(void);
  const char* name;
  uint32_t weight;
} CALLS[] = {
    {put, "put", 300},           {delete, "delete", 100},     {get, "get", 250},
    {snapshot, "snapshot", 30},  {batch_change, "batch", 120}, {write_batch, "write", 30},
    {iterate_batch, "iterate", 20}, {iterator, "iterator", 300}, {compact, "compact", 2},
    {property, "property", 10},  {sizes, "sizes", 10},        {compare_all, "compare all", 3},
    {reopen, "reopen", 2},
};
enum { CALL_KINDS = sizeof(CALLS) / sizeof(*CALLS) };

static void load(side* s, const char* path, const char* directory, const char* name) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
#define FIND(function)                                                       \
  if ((*(void**)&s->function = dlsym(library, "leveldb_" #function)) == NULL) { \
    fprintf(stderr, "%s\n", dlerror());                                      \
    exit(2);                                                                 \
  }
  FUNCTIONS(FIND)
  snprintf(s->directory, sizeof(s->directory), "%s/%s", directory, name);
  s->options = s->options_create();
  s->reading = s->readoptions_create();
  s->writing = s->writeoptions_create();
  s->cache = s->cache_create_lru(1 << 20);
  s->policy = s->filterpolicy_create_bloom(10);
  s->comparator = s->comparator_create(NULL, noop, bytewise, bytewise_name);
  s->env = s->create_default_env();
  for (int i = 0; i < BATCHES; i++) s->batches[i] = s->writebatch_create();
}

static void unload(side* s) {
  for (int i = 0; i < BATCHES; i++) s->writebatch_destroy(s->batches[i]);
  s->options_destroy(s->options);
  s->readoptions_destroy(s->reading);
  s->writeoptions_destroy(s->writing);
  s->cache_destroy(s->cache);
  s->filterpolicy_destroy(s->policy);
  s->comparator_destroy(s->comparator);
  s->env_destroy(s->env);
}

int main(int argc, char** argv) {
  if (argc < 5) {
    fprintf(stderr, "usage: random_calls OURS.so THEIRS.so DIRECTORY CALLS [SEED]\n");
    return 2;
  }
  uint64_t wanted = strtoull(argv[4], NULL, 10);
  seed = argc > 5 && *argv[5] ? strtoull(argv[5], NULL, 10) : (uint64_t)time(NULL);
  state = seed;
  printf("seed %llu\n", (unsigned long long)seed);
  fflush(stdout);
  load(&sides[OURS], argv[1], argv[3], "ours");
  load(&sides[THEIRS], argv[2], argv[3], "theirs");
  if (sides[OURS].major_version() != sides[THEIRS].major_version() ||
      sides[OURS].minor_version() != sides[THEIRS].minor_version())
    differ("version");

  call_name = "open";
  open_all(0, 0); /* Nothing is there: an error. */
  change_options();
  open_all(1, 1);
  uint64_t made[CALL_KINDS] = {0};
  uint32_t weights = 0;
  for (int i = 0; i < CALL_KINDS; i++) weights += CALLS[i].weight;
  for (calls = 1; calls <= wanted; calls++) {
    uint32_t which = 0;
    for (uint32_t left = pick(weights); left >= CALLS[which].weight; which++)
      left -= CALLS[which].weight;
    call_name = CALLS[which].name;
    CALLS[which].call();
    made[which]++;
  }
  call_name = "end";
  compare_all();
  close_all();
  unload(&sides[OURS]), unload(&sides[THEIRS]);
  for (int i = 0; i < CALL_KINDS; i++)
    printf("%s %llu%s", CALLS[i].name, (unsigned long long)made[i], i + 1 < CALL_KINDS ? ", " : "\n");
  printf("%llu calls agree\n", (unsigned long long)wanted);
  return 0;
}
