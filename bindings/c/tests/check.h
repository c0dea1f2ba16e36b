/* A small frame for tests: a list of functions, each in a directory of its own. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hedgerow.h"

static const char* test_name;
static char test_dir[1024];

#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) {                                                              \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, test_name, #condition); \
      abort();                                                                       \
    }                                                                                \
  } while (0)

/* The call has this code; a failure has a message. */
#define EXPECT(expected, call)                                                               \
  do {                                                                                       \
    hg_error error = {HG_OK, ""};                                                            \
    hg_code code = (call);                                                                   \
    if (code != (expected)) {                                                                \
      fprintf(stderr, "%s:%d: %s: expected %d, found %d: %s\n", __FILE__, __LINE__,          \
              test_name, (expected), code, error.message);                                   \
      abort();                                                                               \
    }                                                                                        \
    if (code != HG_OK && code != HG_NOT_FOUND)                                               \
      CHECK(error.code == code && error.message[0] != 0);                                    \
  } while (0)
#define OK(call) EXPECT(HG_OK, call)

static inline int is(hg_bytes bytes, const char* text) {
  return bytes.len == strlen(text) && memcmp(bytes.data, text, bytes.len) == 0;
}

/* A path in the test's directory. */
static inline const char* path_of(const char* name) {
  static char paths[8][1200];
  static int next;
  char* path = paths[next++ % 8];
  snprintf(path, sizeof(paths[0]), "%s/%s", test_dir, name);
  return path;
}

typedef struct {
  const char* name;
  void (*run)(void);
} test;

/* Runs all tests, those whose names are given, or all but those given as `-name`. Says how many
 * ran. */
static inline int run_tests(const test* tests, size_t count, int argc, char** argv) {
  size_t ran = 0;
  for (size_t i = 0; i < count; i++) {
    int wanted = argc < 2 || argv[1][0] == '-';
    for (int a = 1; a < argc; a++) {
      wanted |= strcmp(argv[a], tests[i].name) == 0;
      wanted &= argv[a][0] != '-' || strcmp(argv[a] + 1, tests[i].name) != 0;
    }
    if (!wanted) continue;
    test_name = tests[i].name;
    const char* base = getenv("TMPDIR");
    snprintf(test_dir, sizeof(test_dir), "%s/hedgerow-XXXXXX", base != NULL ? base : "/tmp");
    CHECK(mkdtemp(test_dir) != NULL);
    tests[i].run();
    char command[1200];
    snprintf(command, sizeof(command), "rm -rf '%s'", test_dir);
    CHECK(system(command) == 0);
    ran++;
  }
  printf("%zu tests ran\n", ran);
  return 0;
}

#endif
