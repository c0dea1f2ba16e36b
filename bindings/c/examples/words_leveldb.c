/* Counts the words of files, by LevelDB's interface. The counts stay in the database, so a second
 * run adds to them.
 *
 *   words_leveldb DATABASE FILE... */
#include <ctype.h>
#include <inttypes.h>
#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(char* error) {
  if (error == NULL) return;
  fprintf(stderr, "words_leveldb: %s\n", error);
  exit(1);
}

static leveldb_t* db;
static leveldb_readoptions_t* reading;
static leveldb_writeoptions_t* writing;

static void count(const char* word, size_t len) {
  char* error = NULL;
  size_t found_len;
  uint64_t n = 0;
  char* found = leveldb_get(db, reading, word, len, &found_len, &error);
  check(error);
  if (found != NULL && found_len == sizeof(n)) memcpy(&n, found, sizeof(n));
  leveldb_free(found);
  n++;
  leveldb_put(db, writing, word, len, (char*)&n, sizeof(n), &error);
  check(error);
}

static void count_file(const char* path) {
  FILE* file = fopen(path, "r");
  if (file == NULL) {
    perror(path);
    exit(1);
  }
  char word[256];
  size_t len = 0;
  for (int c = getc(file);; c = getc(file)) {
    if (c != EOF && isalpha(c)) {
      if (len < sizeof(word)) word[len++] = (char)tolower(c);
    } else {
      if (len > 0) count(word, len);
      len = 0;
      if (c == EOF) break;
    }
  }
  fclose(file);
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: words_leveldb DATABASE FILE...\n");
    return 2;
  }
  char* error = NULL;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  reading = leveldb_readoptions_create();
  writing = leveldb_writeoptions_create();
  db = leveldb_open(options, argv[1], &error);
  check(error);
  for (int i = 2; i < argc; i++) count_file(argv[i]);

  uint64_t words = 0, most = 0;
  char common[256] = "";
  leveldb_iterator_t* it = leveldb_create_iterator(db, reading);
  for (leveldb_iter_seek_to_first(it); leveldb_iter_valid(it); leveldb_iter_next(it)) {
    size_t klen, vlen;
    const char* key = leveldb_iter_key(it, &klen);
    const char* value = leveldb_iter_value(it, &vlen);
    uint64_t n;
    memcpy(&n, value, sizeof(n));
    words++;
    if (n > most) {
      most = n;
      snprintf(common, sizeof(common), "%.*s", (int)klen, key);
    }
  }
  leveldb_iter_get_error(it, &error);
  check(error);
  leveldb_iter_destroy(it);
  printf("%" PRIu64 " different words; the most frequent is `%s`, %" PRIu64 " times\n", words,
         common, most);
  leveldb_close(db);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
  leveldb_options_destroy(options);
  return 0;
}
