/* The C side of the comparison; `src/main.rs` is the other one.
 *
 *   calls measure DIRECTORY ENTRIES GETS
 *   calls repeat DIRECTORY ENTRIES get|get_into|fill|next TIMES
 *
 * `repeat` makes one kind of call, as often as there are entries, TIMES times: to count
 * instructions. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hedgerow.h"

/* `count` finds the function by its name. */
#define ALONE __attribute__((noinline))

static hg_error error;

static void ok(hg_code code) {
  if (code == HG_OK || code == HG_NOT_FOUND) return;
  fprintf(stderr, "calls: %s\n", error.message);
  exit(1);
}

static void make_key(char key[16], uint64_t index) {
  for (int i = 15; i >= 0; i--, index /= 10) key[i] = (char)('0' + index % 10);
}

static uint64_t next(uint64_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

/* The time that this thread has run, in nanoseconds. */
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static volatile uint64_t sink;

static uint32_t length(const unsigned char* at) {
  return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Reads all entries by buffers of 16 KiB, which stay in the nearest cache of a processor. */
ALONE static void fill(hg_keyspace* keyspace) {
  static unsigned char buffer[16 << 10];
  hg_iter* iter;
  uint64_t sum = 0;
  size_t used, count;
  ok(hg_iter_new(keyspace, NULL, &iter, &error));
  for (;;) {
    hg_code code = hg_iter_fill(iter, HG_FORWARD, buffer, sizeof(buffer), &used, &count, &error);
    ok(code);
    if (code == HG_NOT_FOUND) break;
    const unsigned char* at = buffer;
    for (size_t i = 0; i < count; i++) {
      uint32_t klen = length(at), vlen = length(at + 4);
      sum += (uint64_t)at[8 + 15] + at[8 + klen] + vlen;
      at += 8 + klen + vlen;
    }
  }
  hg_iter_free(iter);
  sink = sum;
}

ALONE static void step(hg_keyspace* keyspace) {
  hg_iter* iter;
  hg_bytes key, value;
  uint64_t sum = 0;
  ok(hg_iter_new(keyspace, NULL, &iter, &error));
  while (hg_iter_next(iter, &key, &value, &error) == HG_OK)
    sum += (uint64_t)((const unsigned char*)key.data)[15] + *(const unsigned char*)value.data +
           value.len;
  hg_iter_free(iter);
  sink = sum;
}

/* Gets values of random keys by copies in new memory. */
ALONE static void get(hg_keyspace* keyspace, uint64_t entries, uint64_t gets, uint64_t* state) {
  uint64_t sum = 0;
  char key[16];
  for (uint64_t i = 0; i < gets; i++) {
    size_t len;
    char* value;
    make_key(key, next(state) % entries);
    ok(hg_get(keyspace, NULL, hg_slice(key, 16), &value, &len, &error));
    sum += (unsigned char)value[0];
    hg_free(value);
  }
  sink = sum;
}

/* Gets values of random keys into one buffer. */
ALONE static void get_into(hg_keyspace* keyspace, uint64_t entries, uint64_t gets, uint64_t* state) {
  uint64_t sum = 0;
  char key[16], buffer[1000];
  for (uint64_t i = 0; i < gets; i++) {
    size_t len;
    make_key(key, next(state) % entries);
    ok(hg_get_into(keyspace, NULL, hg_slice(key, 16), buffer, sizeof(buffer), &len, &error));
    sum += (unsigned char)buffer[0];
  }
  sink = sum;
}

static void measure(hg_keyspace* keyspace, uint64_t entries, uint64_t gets) {
  fill(keyspace); /* fills the page cache */
  uint64_t state = 42;
  double began = now();
  get_into(keyspace, entries, gets, &state);
  printf("hg_get_into %.2f\n", (now() - began) / (double)gets);
  began = now();
  get(keyspace, entries, gets, &state);
  printf("hg_get %.2f\n", (now() - began) / (double)gets);

  began = now();
  fill(keyspace);
  printf("hg_iter_fill %.2f\n", (now() - began) / (double)entries);
  began = now();
  step(keyspace);
  printf("hg_iter_next %.2f\n", (now() - began) / (double)entries);
}

/* Returns 0 if there is no such kind of call. */
static int repeat(hg_keyspace* keyspace, const char* what, uint64_t entries, uint64_t times) {
  uint64_t state = 42;
  for (uint64_t i = 0; i < times; i++) {
    if (strcmp(what, "get") == 0) get(keyspace, entries, entries, &state);
    else if (strcmp(what, "get_into") == 0) get_into(keyspace, entries, entries, &state);
    else if (strcmp(what, "fill") == 0) fill(keyspace);
    else if (strcmp(what, "next") == 0) step(keyspace);
    else return 0;
  }
  return 1;
}

int main(int argc, char** argv) {
  int measures = argc == 5 && strcmp(argv[1], "measure") == 0;
  int repeats = argc == 6 && strcmp(argv[1], "repeat") == 0;
  if (!measures && !repeats) {
    fprintf(stderr, "calls: expected `measure DIRECTORY ENTRIES GETS` or "
                    "`repeat DIRECTORY ENTRIES get|get_into|fill|next TIMES`\n");
    return 2;
  }
  uint64_t entries = strtoull(argv[3], NULL, 10);
  hg_options* options;
  hg_db* db;
  hg_keyspace* keyspace;
  ok(hg_options_new(&options, &error));
  ok(hg_options_set(options, "memory_budget", "1GiB", &error));
  ok(hg_open(argv[2], options, &db, &error));
  ok(hg_keyspace_open(db, "bench", NULL, NULL, &keyspace, &error));
  if (measures) {
    measure(keyspace, entries, strtoull(argv[4], NULL, 10));
  } else if (!repeat(keyspace, argv[4], entries, strtoull(argv[5], NULL, 10))) {
    fprintf(stderr, "calls: expected `get`, `get_into`, `fill` or `next`, found `%s`\n", argv[4]);
    return 2;
  }
  ok(hg_close(db, &error));
  hg_options_free(options);
  return 0;
}
