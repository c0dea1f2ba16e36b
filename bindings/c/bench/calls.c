/* The C side of the comparison; `src/main.rs` is the other one.
 *
 *   calls measure DIRECTORY ENTRIES GETS
 *   calls repeat DIRECTORY fill|next TIMES     only reads all entries so many times, to count instructions */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hedgerow.h"

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
static void fill(hg_keyspace* keyspace) {
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

static void step(hg_keyspace* keyspace) {
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

static void measure(hg_keyspace* keyspace, uint64_t entries, uint64_t gets) {
  fill(keyspace); /* fills the page cache */
  char key[16], buffer[1000];
  uint64_t state = 42, sum = 0;
  double began = now();
  for (uint64_t i = 0; i < gets; i++) {
    size_t len;
    make_key(key, next(&state) % entries);
    ok(hg_get_into(keyspace, NULL, hg_slice(key, 16), buffer, sizeof(buffer), &len, &error));
    sum += (unsigned char)buffer[0];
  }
  printf("get_into %.2f\n", (now() - began) / (double)gets);
  began = now();
  for (uint64_t i = 0; i < gets; i++) {
    size_t len;
    char* value;
    make_key(key, next(&state) % entries);
    ok(hg_get(keyspace, NULL, hg_slice(key, 16), &value, &len, &error));
    sum += (unsigned char)value[0];
    hg_free(value);
  }
  printf("get %.2f\n", (now() - began) / (double)gets);
  sink = sum;

  began = now();
  fill(keyspace);
  printf("fill %.2f\n", (now() - began) / (double)entries);
  began = now();
  step(keyspace);
  printf("next %.2f\n", (now() - began) / (double)entries);
}

int main(int argc, char** argv) {
  int measures = argc == 5 && strcmp(argv[1], "measure") == 0;
  int fills = argc == 5 && strcmp(argv[3], "fill") == 0;
  if (!measures && !fills && (argc != 5 || strcmp(argv[3], "next") != 0)) {
    fprintf(stderr, "calls: expected `measure DIRECTORY ENTRIES GETS` or `repeat DIRECTORY fill|next TIMES`\n");
    return 2;
  }
  uint64_t number = strtoull(argv[4], NULL, 10);
  hg_options* options;
  hg_db* db;
  hg_keyspace* keyspace;
  ok(hg_options_new(&options, &error));
  ok(hg_options_set(options, "memory_budget", "1GiB", &error));
  ok(hg_open(argv[2], options, &db, &error));
  ok(hg_keyspace_open(db, "bench", NULL, NULL, &keyspace, &error));
  if (measures) {
    measure(keyspace, strtoull(argv[3], NULL, 10), number);
  } else {
    for (uint64_t i = 0; i < number; i++) (fills ? fill : step)(keyspace);
  }
  ok(hg_close(db, &error));
  hg_options_free(options);
  return 0;
}
