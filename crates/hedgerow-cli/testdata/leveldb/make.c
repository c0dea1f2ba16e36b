/* Makes the database of LevelDB that the test of `hedgerow import` reads:
 *
 *   cc make.c -lleveldb -o make && ./make db && rm make db/LOCK db/LOG*
 *
 * It has a compacted table with pages in Snappy, a table of level 0 that overwrites and deletes
 * keys of it, and a log that does the same to both. The numbers are those of tests/import.rs. */
#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *error;

static void check(void) {
  if (error) {
    fprintf(stderr, "%s\n", error);
    exit(1);
  }
}

/* Puts the keys from `begin`, each `step`, with values that name the `round`. */
static void put(leveldb_t *db, int begin, int step, const char *round) {
  leveldb_writeoptions_t *options = leveldb_writeoptions_create();
  for (int i = begin; i < 300; i += step) {
    char key[16], value[128];
    snprintf(key, sizeof key, "key%04d", i);
    int bytes = snprintf(value, sizeof value, "%s of %d %060d", round, i, 0);
    leveldb_put(db, options, key, strlen(key), value, bytes, &error);
    check();
  }
  leveldb_writeoptions_destroy(options);
}

static void delete(leveldb_t *db, int begin, int step) {
  leveldb_writeoptions_t *options = leveldb_writeoptions_create();
  for (int i = begin; i < 300; i += step) {
    char key[16];
    snprintf(key, sizeof key, "key%04d", i);
    leveldb_delete(db, options, key, strlen(key), &error);
    check();
  }
  leveldb_writeoptions_destroy(options);
}

int main(int count, char **arguments) {
  if (count != 2) return 2;
  leveldb_options_t *options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_compression(options, leveldb_snappy_compression);
  leveldb_options_set_filter_policy(options, leveldb_filterpolicy_create_bloom(10));
  leveldb_t *db = leveldb_open(options, arguments[1], &error);
  check();
  put(db, 0, 1, "first");
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  put(db, 0, 5, "second");
  delete(db, 1, 5);
  leveldb_close(db);
  /* Opening writes the log to a table. */
  db = leveldb_open(options, arguments[1], &error);
  check();
  put(db, 0, 10, "third");
  delete(db, 2, 10);
  delete(db, 5, 10);
  /* A key of the empty string, bytes that are no text, and an empty value. */
  leveldb_writeoptions_t *write = leveldb_writeoptions_create();
  leveldb_put(db, write, "", 0, "no key", 6, &error);
  check();
  leveldb_put(db, write, "\0\xff\n", 3, "", 0, &error);
  check();
  leveldb_close(db);
  return 0;
}
