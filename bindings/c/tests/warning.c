/* A warning of libhedgerow_leveldb that cannot be written is no end of the program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "leveldb/c.h"

static int destroyed;

static void destroy(void* state) {
  (void)state;
  destroyed++;
}

static char* create(void* state, const char* const* keys, const size_t* lens, int count,
                    size_t* len) {
  (void)state, (void)keys, (void)lens, (void)count, (void)len;
  abort();
}

static unsigned char may_match(void* state, const char* key, size_t len, const char* filter,
                               size_t filter_len) {
  (void)state, (void)key, (void)len, (void)filter, (void)filter_len;
  abort();
}

static const char* name(void* state) {
  (void)state;
  return "own";
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  leveldb_filterpolicy_t* policy =
      leveldb_filterpolicy_create(NULL, destroy, create, may_match, name);
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_filter_policy(options, policy);
  char* error = NULL;
  leveldb_t* db = leveldb_open(options, argv[1], &error);
  if (policy == NULL || db == NULL || error != NULL) return 3;
  leveldb_close(db);
  leveldb_options_destroy(options);
  leveldb_filterpolicy_destroy(policy);
  if (destroyed != 1) return 4;
  printf("1 tests ran\n");
  return 0;
}
