/* Tests of every kind of call, in the order of the header. */
#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <time.h>

#include "check.h"

static hg_db* open_db(void) {
  hg_db* db;
  OK(hg_open(path_of("db"), NULL, &db, &error));
  return db;
}

static hg_keyspace* open_keyspace(hg_db* db, const char* name, const char* layout) {
  hg_keyspace* keyspace;
  OK(hg_keyspace_open(db, name, layout, NULL, &keyspace, &error));
  return keyspace;
}

static void put(hg_keyspace* keyspace, const char* key, const char* value) {
  OK(hg_put(keyspace, hg_text(key), hg_text(value), HG_BUFFERED, &error));
}

static void check_get(hg_keyspace* keyspace, const hg_snapshot* at, const char* key,
                      const char* expected) {
  char* value = NULL;
  size_t len = 0;
  EXPECT(expected == NULL ? HG_NOT_FOUND : HG_OK,
         hg_get(keyspace, at, hg_text(key), &value, &len, &error));
  if (expected != NULL) {
    CHECK(len == strlen(expected) && strcmp(value, expected) == 0);
    hg_free(value);
  }
}

/* ---- the library, options, databases ---- */

static void versions_are_told(void) {
  CHECK(hg_abi_version() == 0);
  CHECK(strcmp(hg_version(), "0.1.0") == 0);
  hg_free(NULL);
}

static void options_are_checked(void) {
  hg_options* options;
  OK(hg_options_new(&options, &error));
  OK(hg_options_set(options, "memory_budget", "16MiB", &error));
  OK(hg_options_set(options, "create_if_missing", "false", &error));
  EXPECT(HG_INVALID_ARGUMENT, hg_options_set(options, "memory_budget", "much", &error));
  EXPECT(HG_INVALID_ARGUMENT, hg_options_set(options, "speed", "1", &error));
  EXPECT(HG_INVALID_ARGUMENT, hg_options_set(options, NULL, "1", &error));
  EXPECT(HG_INVALID_ARGUMENT, hg_options_set(options, "workers", "\xff", &error));
  hg_db* db;
  EXPECT(HG_INVALID_ARGUMENT, hg_open(path_of("none"), options, &db, &error));
  OK(hg_options_set(options, "create_if_missing", "true", &error));
  OK(hg_open(path_of("db"), options, &db, &error));
  char* json;
  OK(hg_stats_json(db, &json, &error));
  CHECK(strstr(json, "\"budget\":16777216") != NULL);
  hg_free(json);
  OK(hg_options_free(options));
  OK(hg_close(db, &error));
}

static void a_database_is_locked_and_destroyed(void) {
  EXPECT(HG_NOT_FOUND, hg_exists(path_of("db"), &error));
  hg_db* db = open_db();
  hg_db* other;
  OK(hg_exists(path_of("db"), &error));
  EXPECT(HG_LOCKED, hg_open(path_of("db"), NULL, &other, &error));
  EXPECT(HG_LOCKED, hg_destroy(path_of("db"), &error));
  OK(hg_close(db, &error));
  OK(hg_destroy(path_of("db"), &error));
  EXPECT(HG_NOT_FOUND, hg_exists(path_of("db"), &error));
  EXPECT(HG_INVALID_ARGUMENT, hg_open("", NULL, &other, &error));
  EXPECT(HG_INVALID_ARGUMENT, hg_open(NULL, NULL, &other, &error));
  EXPECT(HG_INVALID_ARGUMENT, hg_open(path_of("db"), NULL, NULL, &error));
}

static void errors_have_a_code_and_a_message(void) {
  hg_db* db;
  hg_error error;
  CHECK(hg_open("/proc/no/such/place", NULL, &db, &error) == HG_IO);
  CHECK(error.code == HG_IO && strstr(error.message, "/proc/no/such") != NULL);
  /* A message that is too long is cut at a character. */
  char name[2000];
  for (size_t i = 0; i + 2 < sizeof(name); i += 2) memcpy(name + i, "\xc3\xa9", 3);
  CHECK(hg_options_set(NULL, name, "", &error) == HG_INVALID_ARGUMENT);
  size_t len = strlen(error.message);
  CHECK(len >= 504 && len <= 507);
  CHECK((unsigned char)error.message[len - 1] == 0xa9);
  /* Nobody has to want the error. */
  CHECK(hg_open(NULL, NULL, &db, NULL) == HG_INVALID_ARGUMENT);
}

/* ---- keyspaces ---- */

static void layouts_and_designs_are_texts(void) {
  hg_db* db = open_db();
  hg_keyspace *users, *again;
  OK(hg_keyspace_open(db, "users", "semi-sorted:4 hash:2 merge:append",
                      "policy = tiering:4\nfilter = bloom:10\n", &users, &error));
  char *name, *layout, *design;
  OK(hg_keyspace_describe(users, &name, &layout, &design, &error));
  CHECK(strcmp(name, "users") == 0);
  CHECK(strcmp(layout, "semi-sorted:4 hash:2 merge:append") == 0);
  CHECK(strstr(design, "policy = tiering:4\n") != NULL);
  hg_free(name), hg_free(layout), hg_free(design);

  /* Options that are not given stay. */
  OK(hg_keyspace_open(db, "users", NULL, NULL, &again, &error));
  OK(hg_keyspace_retune(again, "policy = leveling:8\n", &error));
  OK(hg_keyspace_describe(users, NULL, NULL, &design, &error));
  CHECK(strstr(design, "policy = leveling:8") != NULL);
  hg_free(design);
  OK(hg_keyspace_set_self_tuning(users, 1, &error));
  OK(hg_keyspace_free(again));

  EXPECT(HG_INVALID_ARGUMENT, hg_keyspace_open(db, "users", "sorted", NULL, &again, &error));
  EXPECT(HG_INVALID_ARGUMENT, hg_keyspace_open(db, "b", "backwards", NULL, &again, &error));
  EXPECT(HG_INVALID_ARGUMENT, hg_keyspace_open(db, "b", NULL, "policy = no", &again, &error));
  EXPECT(HG_INVALID_ARGUMENT, hg_keyspace_open(db, "", NULL, NULL, &again, &error));
  OK(hg_close(db, &error));
}

static void keyspaces_are_found_renamed_and_dropped(void) {
  hg_db* db = open_db();
  hg_keyspace *users = open_keyspace(db, "users", "sorted"), *found;
  EXPECT(HG_NOT_FOUND, hg_keyspace_find(db, "people", &found, &error));
  put(users, "ada", "1815");
  OK(hg_keyspace_rename(db, "users", "people", &error));
  OK(hg_keyspace_find(db, "people", &found, &error));
  check_get(found, NULL, "ada", "1815");
  char* json;
  OK(hg_keyspaces_json(db, &json, &error));
  CHECK(strstr(json, "\"name\":\"people\"") != NULL && strstr(json, "\"layout\":\"sorted\""));
  hg_free(json);
  OK(hg_keyspace_stats_json(found, &json, &error));
  CHECK(strstr(json, "\"memtable_entries\":1") != NULL);
  hg_free(json);
  OK(hg_keyspace_clear(found, &error));
  check_get(found, NULL, "ada", NULL);
  OK(hg_keyspace_drop(db, "people", &error));
  EXPECT(HG_CLOSED, hg_put(users, hg_text("ada"), hg_text(""), HG_BUFFERED, &error));
  OK(hg_close(db, &error));
}

static void entries_move_as_tables(void) {
  hg_db* db = open_db();
  hg_keyspace *a = open_keyspace(db, "a", "sorted"), *b = open_keyspace(db, "b", "sorted");
  for (int i = 0; i < 1000; i++) {
    char key[16];
    snprintf(key, sizeof(key), "%06d", i);
    put(a, key, key);
  }
  uint64_t bytes = 0, entries = 0;
  OK(hg_keyspace_estimate(a, HG_UNBOUNDED, HG_UNBOUNDED, &bytes, &entries, &error));
  CHECK(bytes > 0 && entries >= 500 && entries <= 2000);
  OK(hg_keyspace_export(a, hg_text("000100"), hg_text("000200"), path_of("out"), &error));
  char command[1300], file[1400] = "";
  snprintf(command, sizeof(command), "ls -d %s/*", path_of("out"));
  FILE* list = popen(command, "r");
  CHECK(fgets(file, sizeof(file), list) != NULL);
  pclose(list);
  file[strcspn(file, "\n")] = 0;
  const char* paths[] = {file};
  OK(hg_keyspace_ingest(b, paths, 1, &error));
  check_get(b, NULL, "000100", "000100");
  check_get(b, NULL, "000199", "000199");
  check_get(b, NULL, "000200", NULL);
  OK(hg_keyspace_compact(b, HG_UNBOUNDED, HG_UNBOUNDED, &error));
  OK(hg_keyspace_wait_until_merged(b, &error));
  OK(hg_close(db, &error));
}

/* ---- reads and writes ---- */

static void values_are_read_in_four_ways(void) {
  hg_db* db = open_db();
  hg_keyspace* keyspace = open_keyspace(db, "k", "sorted");
  char* large = malloc(100000);
  memset(large, 'x', 100000);
  put(keyspace, "", "empty key");
  put(keyspace, "short", "value");
  put(keyspace, "nothing", "");
  OK(hg_put(keyspace, hg_text("large"), hg_slice(large, 100000), HG_SYNCED, &error));
  OK(hg_flush(db, &error));
  check_get(keyspace, NULL, "", "empty key");
  check_get(keyspace, NULL, "nothing", "");
  check_get(keyspace, NULL, "absent", NULL);

  char buffer[100];
  size_t len = 0;
  OK(hg_get_into(keyspace, NULL, hg_text("short"), buffer, sizeof(buffer), &len, &error));
  CHECK(len == 5 && memcmp(buffer, "value", 5) == 0);
  EXPECT(HG_BUFFER_TOO_SMALL,
         hg_get_into(keyspace, NULL, hg_text("large"), buffer, sizeof(buffer), &len, &error));
  CHECK(len == 100000);
  OK(hg_get_into(keyspace, NULL, hg_text("nothing"), NULL, 0, &len, &error));
  CHECK(len == 0);
  EXPECT(HG_NOT_FOUND, hg_get_into(keyspace, NULL, hg_text("absent"), buffer, 100, &len, &error));

  hg_bytes value;
  hg_pinned *pinned, *other;
  OK(hg_get_pinned(keyspace, NULL, hg_text("large"), &value, &pinned, &error));
  hg_bytes small;
  OK(hg_get_pinned(keyspace, NULL, hg_text("short"), &small, &other, &error));
  EXPECT(HG_NOT_FOUND, hg_get_pinned(keyspace, NULL, hg_text("absent"), &small, &other, &error));
  OK(hg_delete(keyspace, hg_text("large"), HG_BUFFERED, &error));
  CHECK(value.len == 100000 && memcmp(value.data, large, value.len) == 0);
  CHECK(is(small, "value"));
  OK(hg_pinned_free(pinned));
  OK(hg_pinned_free(other));
  CHECK(hg_pinned_free(other) == HG_CLOSED);

  hg_bytes keys[] = {hg_text("short"), hg_text("absent"), hg_text("nothing"), hg_text("")};
  hg_bytes values[4];
  OK(hg_multi_get(keyspace, NULL, keys, 4, values, &pinned, &error));
  CHECK(is(values[0], "value") && values[1].data == NULL);
  CHECK(values[2].data != NULL && values[2].len == 0 && is(values[3], "empty key"));
  OK(hg_pinned_free(pinned));
  OK(hg_multi_get(keyspace, NULL, NULL, 0, NULL, &pinned, &error));
  OK(hg_pinned_free(pinned));
  OK(hg_contains(keyspace, NULL, hg_text("short"), &error));
  EXPECT(HG_NOT_FOUND, hg_contains(keyspace, NULL, hg_text("large"), &error));
  free(large);
  OK(hg_close(db, &error));
}

static void ranges_and_prefixes_are_deleted(void) {
  hg_db* db = open_db();
  hg_keyspace* keyspace = open_keyspace(db, "k", "sorted");
  const char* keys[] = {"a", "b", "c", "d", "pa", "pb", "q"};
  for (int i = 0; i < 7; i++) put(keyspace, keys[i], "v");
  OK(hg_delete_range(keyspace, hg_text("b"), hg_text("d"), HG_BUFFERED, &error));
  OK(hg_delete_prefix(keyspace, hg_text("p"), HG_BUFFERED, &error));
  const char* expected[] = {"v", NULL, NULL, "v", NULL, NULL, "v"};
  for (int i = 0; i < 7; i++) check_get(keyspace, NULL, keys[i], expected[i]);
  OK(hg_delete_range(keyspace, HG_UNBOUNDED, hg_text("q"), HG_SYNCED, &error));
  check_get(keyspace, NULL, "a", NULL);
  check_get(keyspace, NULL, "q", "v");
  EXPECT(HG_INVALID_ARGUMENT, hg_put(keyspace, hg_text("a"), hg_text(""), 7, &error));
  EXPECT(HG_INVALID_ARGUMENT,
         hg_put(keyspace, hg_slice(NULL, 3), hg_text(""), HG_BUFFERED, &error));
  OK(hg_close(db, &error));
}

static void values_are_swapped_if_they_are_as_expected(void) {
  hg_db* db = open_db();
  hg_keyspace* keyspace = open_keyspace(db, "k", "sorted");
  hg_bytes one = hg_text("1"), two = hg_text("2");
  OK(hg_compare_and_swap(keyspace, hg_text("a"), NULL, &one, &error));
  EXPECT(HG_CONFLICT, hg_compare_and_swap(keyspace, hg_text("a"), NULL, &two, &error));
  OK(hg_compare_and_swap(keyspace, hg_text("a"), &one, &two, &error));
  check_get(keyspace, NULL, "a", "2");
  OK(hg_compare_and_swap(keyspace, hg_text("a"), &two, NULL, &error));
  check_get(keyspace, NULL, "a", NULL);
  OK(hg_close(db, &error));
}

/* A new value: the old one with an `x` behind it. */
static int appended(void* state, const hg_bytes* old, hg_buffer* new_value) {
  size_t len = old == NULL ? 0 : old->len;
  char* bytes = malloc(len + 1);
  CHECK(bytes != NULL);
  if (len > 0) memcpy(bytes, old->data, len);
  bytes[len] = 'x';
  *new_value = (hg_buffer){bytes, len + 1};
  return *(int*)state;
}

/* Another write comes between the first call and its write. */
static int overtaken(void* state, const hg_bytes* old, hg_buffer* new_value) {
  int answer = HG_MERGED_VALUE;
  hg_keyspace** keyspace = state;
  if (*keyspace != NULL) {
    put(*keyspace, "k", "new");
    *keyspace = NULL;
  }
  return appended(&answer, old, new_value);
}

static int overtaken_and_ended(void* state, const hg_bytes* old, hg_buffer* new_value) {
  int is_first = *(hg_keyspace**)state != NULL;
  int answer = overtaken(state, old, new_value);
  return is_first ? answer : HG_MERGED_FAILURE;
}

static void values_are_updated_by_a_function(void) {
  hg_db* db = open_db();
  hg_keyspace* keyspace = open_keyspace(db, "k", "sorted");
  hg_bytes k = hg_text("k");
  int answer = HG_MERGED_VALUE;
  OK(hg_update(keyspace, k, appended, &answer, HG_BUFFERED, &error));
  OK(hg_update(keyspace, k, appended, &answer, HG_SYNCED, &error));
  check_get(keyspace, NULL, "k", "xx");
  answer = HG_MERGED_FAILURE;
  EXPECT(HG_CANCELLED, hg_update(keyspace, k, appended, &answer, HG_BUFFERED, &error));
  answer = -7;
  EXPECT(HG_CANCELLED, hg_update(keyspace, k, appended, &answer, HG_BUFFERED, &error));
  EXPECT(HG_INVALID_ARGUMENT, hg_update(keyspace, k, NULL, NULL, HG_BUFFERED, &error));
  EXPECT(HG_INVALID_ARGUMENT, hg_update(keyspace, k, appended, &answer, 7, &error));
  check_get(keyspace, NULL, "k", "xx");
  hg_keyspace* once = keyspace;
  OK(hg_update(keyspace, k, overtaken, &once, HG_BUFFERED, &error));
  check_get(keyspace, NULL, "k", "newx");
  /* The first call made a value, the second one ends the update: nothing of it is written. */
  once = keyspace;
  EXPECT(HG_CANCELLED, hg_update(keyspace, k, overtaken_and_ended, &once, HG_BUFFERED, &error));
  check_get(keyspace, NULL, "k", "new");
  answer = HG_MERGED_NOTHING;
  OK(hg_update(keyspace, k, appended, &answer, HG_BUFFERED, &error));
  check_get(keyspace, NULL, "k", NULL);
  OK(hg_close(db, &error));
}

static void an_update_keeps_the_time_of_expiry(void) {
  hg_db* db = open_db();
  hg_keyspace* keyspace = open_keyspace(db, "k", "sorted");
  uint64_t now = (uint64_t)time(NULL) * 1000, at = now + 5000000, millis;
  int meaning, answer = HG_MERGED_VALUE;
  OK(hg_put_expiring(keyspace, hg_text("at"), hg_text("v"), HG_AT, at, HG_BUFFERED, &error));
  OK(hg_put_expiring(keyspace, hg_text("never"), hg_text("v"), HG_NEVER, 0, HG_BUFFERED, &error));
  OK(hg_keyspace_set_time_to_live(keyspace, 60000, &error));
  OK(hg_update(keyspace, hg_text("at"), appended, &answer, HG_BUFFERED, &error));
  OK(hg_update(keyspace, hg_text("never"), appended, &answer, HG_BUFFERED, &error));
  OK(hg_update(keyspace, hg_text("new"), appended, &answer, HG_BUFFERED, &error));
  check_get(keyspace, NULL, "at", "vx");
  OK(hg_expiry_of(keyspace, hg_text("at"), &meaning, &millis, &error));
  CHECK(meaning == HG_AT && millis == at);
  OK(hg_expiry_of(keyspace, hg_text("never"), &meaning, &millis, &error));
  CHECK(meaning == HG_NEVER);
  OK(hg_expiry_of(keyspace, hg_text("new"), &meaning, &millis, &error));
  CHECK(meaning == HG_AT && millis > now && millis < now + 120000);
  OK(hg_close(db, &error));
}

static void the_ends_of_a_keyspace_are_popped(void) {
  hg_db* db = open_db();
  hg_keyspace* keyspace = open_keyspace(db, "k", "sorted");
  put(keyspace, "a", "1"), put(keyspace, "b", ""), put(keyspace, "c", "3");
  char *key, *value;
  size_t klen, vlen;
  OK(hg_pop_first(keyspace, HG_BUFFERED, &key, &klen, &value, &vlen, &error));
  CHECK(klen == 1 && strcmp(key, "a") == 0 && vlen == 1 && strcmp(value, "1") == 0);
  hg_free(key), hg_free(value);
  OK(hg_pop_last(keyspace, HG_SYNCED, &key, &klen, &value, &vlen, &error));
  CHECK(klen == 1 && strcmp(key, "c") == 0 && vlen == 1 && strcmp(value, "3") == 0);
  hg_free(key), hg_free(value);
  OK(hg_pop_last(keyspace, HG_BUFFERED, &key, &klen, &value, &vlen, &error));
  CHECK(klen == 1 && strcmp(key, "b") == 0 && vlen == 0 && value[0] == 0);
  hg_free(key), hg_free(value);
  EXPECT(HG_NOT_FOUND, hg_pop_first(keyspace, HG_BUFFERED, &key, &klen, &value, &vlen, &error));
  EXPECT(HG_NOT_FOUND, hg_pop_last(keyspace, HG_BUFFERED, &key, &klen, &value, &vlen, &error));
  /* Without a place, nothing is taken. */
  put(keyspace, "a", "1");
  EXPECT(HG_INVALID_ARGUMENT,
         hg_pop_first(keyspace, HG_BUFFERED, &key, &klen, NULL, &vlen, &error));
  check_get(keyspace, NULL, "a", "1");
  hg_keyspace* hashed = open_keyspace(db, "h", "hashed");
  EXPECT(HG_INVALID_ARGUMENT,
         hg_pop_first(hashed, HG_BUFFERED, &key, &klen, &value, &vlen, &error));
  OK(hg_close(db, &error));
}

static void values_expire(void) {
  hg_db* db = open_db();
  hg_keyspace* keyspace = open_keyspace(db, "k", "sorted");
  uint64_t now = (uint64_t)time(NULL) * 1000, millis;
  int meaning;
  OK(hg_put_expiring(keyspace, hg_text("past"), hg_text("v"), HG_AT, 1, HG_BUFFERED, &error));
  OK(hg_put_expiring(keyspace, hg_text("soon"), hg_text("v"), HG_IN, 3600000, HG_BUFFERED, &error));
  OK(hg_put_expiring(keyspace, hg_text("never"), hg_text("v"), HG_NEVER, 0, HG_SYNCED, &error));
  check_get(keyspace, NULL, "past", NULL);
  OK(hg_expiry_of(keyspace, hg_text("soon"), &meaning, &millis, &error));
  CHECK(meaning == HG_AT && millis > now + 3500000 && millis < now + 3700000);
  OK(hg_expiry_of(keyspace, hg_text("never"), &meaning, &millis, &error));
  CHECK(meaning == HG_NEVER && millis == 0);
  EXPECT(HG_NOT_FOUND, hg_expiry_of(keyspace, hg_text("absent"), &meaning, &millis, &error));
  OK(hg_set_expiry(keyspace, hg_text("never"), HG_AT, now + 5000000, &error));
  OK(hg_expiry_of(keyspace, hg_text("never"), &meaning, &millis, &error));
  CHECK(meaning == HG_AT && millis == now + 5000000);
  EXPECT(HG_NOT_FOUND, hg_set_expiry(keyspace, hg_text("absent"), HG_AT, 1, &error));
  EXPECT(HG_INVALID_ARGUMENT, hg_set_expiry(keyspace, hg_text("never"), 9, 1, &error));
  OK(hg_keyspace_set_time_to_live(keyspace, 60000, &error));
  put(keyspace, "by default", "v");
  OK(hg_expiry_of(keyspace, hg_text("by default"), &meaning, &millis, &error));
  CHECK(meaning == HG_AT && millis > now && millis < now + 120000);
  OK(hg_close(db, &error));
}

/* ---- merges ---- */

static void built_in_operators_are_named(void) {
  hg_db* db = open_db();
  hg_keyspace* keyspace = open_keyspace(db, "k", "merge:add_i64");
  hg_keyspace* list = open_keyspace(db, "list", "hashed merge:append");
  int64_t five = 5, sum;
  for (int i = 0; i < 10; i++)
    OK(hg_merge(keyspace, hg_text("n"), hg_slice(&five, 8), HG_BUFFERED, &error));
  size_t len;
  OK(hg_get_into(keyspace, NULL, hg_text("n"), &sum, sizeof(sum), &len, &error));
  CHECK(len == 8 && sum == 50);
  EXPECT(HG_INVALID_ARGUMENT,
         hg_merge(keyspace, hg_text("n"), hg_text("no number"), HG_BUFFERED, &error));
  OK(hg_merge(list, hg_text("l"), hg_text("ab"), HG_BUFFERED, &error));
  OK(hg_merge(list, hg_text("l"), hg_text("cd"), HG_BUFFERED, &error));
  check_get(list, NULL, "l", "abcd");
  hg_keyspace* plain = open_keyspace(db, "plain", "sorted");
  EXPECT(HG_UNSUPPORTED, hg_merge(plain, hg_text("l"), hg_text("x"), HG_BUFFERED, &error));
  OK(hg_close(db, &error));
}

static int destroyed;

static int longest(void* state, hg_bytes key, const hg_bytes* base, const hg_bytes* operands,
                   size_t count, hg_buffer* result) {
  CHECK(strcmp(state, "state") == 0 && key.len > 0);
  hg_bytes best = base != NULL ? *base : operands[0];
  for (size_t i = 0; i < count; i++) {
    if (is(operands[i], "delete")) return HG_MERGED_NOTHING;
    if (is(operands[i], "fail")) return HG_MERGED_FAILURE;
    if (operands[i].len > best.len) best = operands[i];
  }
  result->data = malloc(best.len + 1);
  memcpy(result->data, best.data, best.len);
  result->len = best.len;
  return HG_MERGED_VALUE;
}

static int longer(void* state, hg_bytes key, hg_bytes older, hg_bytes newer, hg_buffer* result) {
  (void)key;
  CHECK(strcmp(state, "state") == 0);
  if (is(older, "delete") || is(newer, "delete") || is(newer, "fail")) return HG_MERGED_NOTHING;
  hg_bytes best = newer.len > older.len ? newer : older;
  result->data = malloc(best.len + 1);
  memcpy(result->data, best.data, best.len);
  result->len = best.len;
  return HG_MERGED_VALUE;
}

static void destroy(void* state) {
  CHECK(strcmp(state, "state") == 0);
  destroyed++;
}

static void operators_are_functions_of_the_program(void) {
  hg_options* options;
  OK(hg_options_new(&options, &error));
  destroyed = 0;
  OK(hg_options_add_merge_operator(options, "longest", "state", longest, longer, destroy, &error));
  /* A call that fails leaves the state to the program. */
  EXPECT(HG_INVALID_ARGUMENT,
         hg_options_add_merge_operator(options, "none", "state", NULL, NULL, destroy, &error));
  EXPECT(HG_INVALID_ARGUMENT,
         hg_options_add_merge_operator(options, "", "state", longest, NULL, destroy, &error));
  EXPECT(HG_INVALID_ARGUMENT,
         hg_options_add_merge_operator(NULL, "no", "state", longest, NULL, destroy, &error));
  CHECK(destroyed == 0);
  hg_db* db;
  OK(hg_open(path_of("db"), options, &db, &error));
  OK(hg_options_free(options));
  CHECK(destroyed == 0);
  hg_keyspace* keyspace = open_keyspace(db, "k", "merge:longest");
  put(keyspace, "a", "12");
  const char* operands[] = {"1", "1234", "123"};
  for (int i = 0; i < 3; i++)
    OK(hg_merge(keyspace, hg_text("a"), hg_text(operands[i]), HG_BUFFERED, &error));
  check_get(keyspace, NULL, "a", "1234");
  OK(hg_flush(db, &error));
  OK(hg_keyspace_compact(keyspace, HG_UNBOUNDED, HG_UNBOUNDED, &error));
  check_get(keyspace, NULL, "a", "1234");
  OK(hg_merge(keyspace, hg_text("a"), hg_text("delete"), HG_BUFFERED, &error));
  check_get(keyspace, NULL, "a", NULL);
  put(keyspace, "b", "1");
  OK(hg_merge(keyspace, hg_text("b"), hg_text("fail"), HG_BUFFERED, &error));
  char* value;
  size_t len;
  EXPECT(HG_OPERATOR, hg_get(keyspace, NULL, hg_text("b"), &value, &len, &error));
  OK(hg_keyspace_free(keyspace));
  OK(hg_close(db, &error));
  CHECK(destroyed == 1);

  /* An operator that no database could be opened with. */
  OK(hg_options_new(&options, &error));
  OK(hg_options_add_merge_operator(options, "longest", "state", longest, longer, destroy, &error));
  OK(hg_options_set(options, "create_if_missing", "false", &error));
  hg_db* none;
  EXPECT(HG_INVALID_ARGUMENT, hg_open(path_of("none"), options, &none, &error));
  CHECK(destroyed == 1);
  OK(hg_options_free(options));
  CHECK(destroyed == 2);

  /* An iterator keeps the operator of a database that is closed. */
  OK(hg_options_new(&options, &error));
  OK(hg_options_add_merge_operator(options, "longest", "state", longest, longer, destroy, &error));
  OK(hg_open(path_of("db"), options, &db, &error));
  OK(hg_options_free(options));
  OK(hg_keyspace_find(db, "k", &keyspace, &error));
  hg_iter* iter;
  OK(hg_iter_new(keyspace, NULL, &iter, &error));
  OK(hg_close(db, &error));
  OK(hg_keyspace_free(keyspace));
  CHECK(destroyed == 2);
  OK(hg_iter_free(iter));
  CHECK(destroyed == 3);

  /* Without the operator the database opens, and reads of operands are refused. */
  db = open_db();
  OK(hg_keyspace_find(db, "k", &keyspace, &error));
  EXPECT(HG_UNSUPPORTED, hg_get(keyspace, NULL, hg_text("b"), &value, &len, &error));
  OK(hg_close(db, &error));
}

/* ---- batches, snapshots, transactions ---- */

static void batches_are_atomic_over_keyspaces(void) {
  hg_db* db = open_db();
  hg_keyspace *a = open_keyspace(db, "a", "sorted"), *b = open_keyspace(db, "b", "merge:append");
  hg_batch* batch;
  OK(hg_batch_new(db, &batch, &error));
  put(a, "old", "v");
  put(a, "range1", "v");
  OK(hg_batch_put(batch, a, hg_text("discarded"), hg_text("v"), &error));
  OK(hg_batch_clear(batch, &error));
  OK(hg_batch_put(batch, a, hg_text("new"), hg_text("v"), &error));
  OK(hg_batch_delete(batch, a, hg_text("old"), &error));
  OK(hg_batch_delete_range(batch, a, hg_text("range"), hg_text("rangf"), &error));
  OK(hg_batch_merge(batch, b, hg_text("list"), hg_text("x"), &error));
  OK(hg_batch_put_expiring(batch, b, hg_text("gone"), hg_text("v"), HG_AT, 1, &error));
  size_t count = 0;
  OK(hg_batch_count(batch, &count, &error));
  CHECK(count == 5);
  check_get(a, NULL, "new", NULL);
  OK(hg_batch_commit(batch, HG_SYNCED, &error));
  check_get(a, NULL, "new", "v");
  check_get(a, NULL, "old", NULL);
  check_get(a, NULL, "range1", NULL);
  check_get(a, NULL, "discarded", NULL);
  check_get(b, NULL, "list", "x");
  check_get(b, NULL, "gone", NULL);
  OK(hg_batch_count(batch, &count, &error));
  CHECK(count == 0);
  OK(hg_batch_merge(batch, b, hg_text("list"), hg_text("y"), &error));
  OK(hg_batch_commit(batch, HG_BUFFERED, &error));
  check_get(b, NULL, "list", "xy");
  OK(hg_batch_free(batch));
  OK(hg_close(db, &error));
}

static void snapshots_keep_a_moment(void) {
  hg_db* db = open_db();
  hg_keyspace* keyspace = open_keyspace(db, "k", "sorted");
  put(keyspace, "a", "1");
  hg_snapshot *snapshot, *later;
  OK(hg_snapshot_new(db, &snapshot, &error));
  put(keyspace, "a", "2");
  put(keyspace, "b", "2");
  OK(hg_snapshot_new(db, &later, &error));
  uint64_t first = 0, second = 0;
  OK(hg_snapshot_number(snapshot, &first, &error));
  OK(hg_snapshot_number(later, &second, &error));
  CHECK(second == first + 2);
  check_get(keyspace, snapshot, "a", "1");
  check_get(keyspace, snapshot, "b", NULL);
  EXPECT(HG_NOT_FOUND, hg_contains(keyspace, snapshot, hg_text("b"), &error));
  hg_bytes key = hg_text("a"), value;
  hg_pinned* pinned;
  OK(hg_multi_get(keyspace, snapshot, &key, 1, &value, &pinned, &error));
  CHECK(is(value, "1"));
  OK(hg_pinned_free(pinned));
  hg_iter* iter;
  OK(hg_iter_new(keyspace, snapshot, &iter, &error));
  OK(hg_snapshot_free(snapshot));
  /* The iterator still sees the snapshot, which reads no longer do. */
  OK(hg_iter_seek_first(iter, &key, &value, &error));
  CHECK(is(key, "a") && is(value, "1"));
  EXPECT(HG_NOT_FOUND, hg_iter_next(iter, NULL, NULL, &error));
  char* found;
  size_t len;
  EXPECT(HG_CLOSED, hg_get(keyspace, snapshot, hg_text("a"), &found, &len, &error));
  OK(hg_iter_free(iter));
  OK(hg_snapshot_free(later));
  OK(hg_close(db, &error));
}

static void transactions_commit_or_conflict(void) {
  hg_db* db = open_db();
  hg_keyspace* keyspace = open_keyspace(db, "k", "merge:append");
  put(keyspace, "balance", "100");
  hg_transaction *first, *second;
  OK(hg_transaction_begin(db, HG_SERIALIZABLE, HG_BUFFERED, &first, &error));
  OK(hg_transaction_begin(db, HG_SERIALIZABLE, HG_BUFFERED, &second, &error));
  char* value;
  size_t len;
  OK(hg_transaction_get(first, keyspace, hg_text("balance"), &value, &len, &error));
  hg_free(value);
  OK(hg_transaction_get(second, keyspace, hg_text("balance"), &value, &len, &error));
  hg_free(value);
  OK(hg_transaction_put(first, keyspace, hg_text("balance"), hg_text("90"), &error));
  OK(hg_transaction_put(second, keyspace, hg_text("balance"), hg_text("80"), &error));
  OK(hg_transaction_get(second, keyspace, hg_text("balance"), &value, &len, &error));
  CHECK(strcmp(value, "80") == 0);
  hg_free(value);
  check_get(keyspace, NULL, "balance", "100");
  OK(hg_transaction_commit(first, &error));
  EXPECT(HG_CONFLICT, hg_transaction_commit(second, &error));
  check_get(keyspace, NULL, "balance", "90");
  EXPECT(HG_CLOSED, hg_transaction_commit(first, &error));
  EXPECT(HG_CLOSED, hg_transaction_put(first, keyspace, hg_text("a"), hg_text(""), &error));
  OK(hg_transaction_free(first));
  OK(hg_transaction_free(second));
  EXPECT(HG_INVALID_ARGUMENT, hg_transaction_begin(db, 5, HG_BUFFERED, &first, &error));
  OK(hg_close(db, &error));
}

static void transactions_roll_back_to_savepoints(void) {
  hg_db* db = open_db();
  hg_keyspace* keyspace = open_keyspace(db, "k", "merge:append");
  put(keyspace, "range1", "v");
  hg_transaction* transaction;
  OK(hg_transaction_begin(db, HG_SNAPSHOT, HG_SYNCED, &transaction, &error));
  OK(hg_transaction_put(transaction, keyspace, hg_text("a"), hg_text("1"), &error));
  OK(hg_transaction_merge(transaction, keyspace, hg_text("a"), hg_text("2"), &error));
  uint64_t savepoint;
  OK(hg_transaction_savepoint(transaction, &savepoint, &error));
  OK(hg_transaction_delete(transaction, keyspace, hg_text("a"), &error));
  OK(hg_transaction_delete_range(transaction, keyspace, hg_text("range"), HG_UNBOUNDED, &error));
  hg_iter* iter;
  OK(hg_transaction_iter(transaction, keyspace, &iter, &error));
  EXPECT(HG_NOT_FOUND, hg_iter_seek_first(iter, NULL, NULL, &error));
  OK(hg_iter_free(iter));
  OK(hg_transaction_roll_back_to(transaction, savepoint, &error));
  EXPECT(HG_INVALID_ARGUMENT, hg_transaction_roll_back_to(transaction, 99, &error));
  OK(hg_transaction_put_expiring(transaction, keyspace, hg_text("past"), hg_text("v"), HG_AT, 1,
                                 &error));
  OK(hg_transaction_iter(transaction, keyspace, &iter, &error));
  hg_bytes key, value;
  OK(hg_iter_next(iter, &key, &value, &error));
  CHECK(is(key, "a") && is(value, "12"));
  OK(hg_iter_next(iter, &key, &value, &error));
  CHECK(is(key, "range1"));
  OK(hg_iter_free(iter));
  OK(hg_transaction_commit(transaction, &error));
  OK(hg_transaction_free(transaction));
  check_get(keyspace, NULL, "a", "12");
  check_get(keyspace, NULL, "past", NULL);
  /* A transaction that is freed leaves no trace. */
  OK(hg_transaction_begin(db, HG_SERIALIZABLE, HG_BUFFERED, &transaction, &error));
  OK(hg_transaction_put(transaction, keyspace, hg_text("b"), hg_text("1"), &error));
  OK(hg_transaction_free(transaction));
  check_get(keyspace, NULL, "b", NULL);
  OK(hg_close(db, &error));
}

/* ---- iterators ---- */

static void iterators_move_both_ways(void) {
  hg_db* db = open_db();
  hg_keyspace* keyspace = open_keyspace(db, "k", "sorted");
  const char* keys[] = {"b", "d", "f", "h"};
  for (int i = 0; i < 4; i++) put(keyspace, keys[i], keys[i]);
  hg_iter* iter;
  hg_bytes key, value;
  OK(hg_iter_new(keyspace, NULL, &iter, &error));
  EXPECT(HG_NOT_FOUND, hg_iter_entry(iter, &key, &value, &error));
  OK(hg_iter_seek(iter, hg_text("c"), &key, &value, &error));
  CHECK(is(key, "d") && is(value, "d"));
  OK(hg_iter_seek_for_prev(iter, hg_text("g"), &key, &value, &error));
  CHECK(is(key, "f"));
  OK(hg_iter_seek_for_prev(iter, hg_text("f"), &key, NULL, &error));
  CHECK(is(key, "f"));
  OK(hg_iter_prev(iter, &key, &value, &error));
  CHECK(is(key, "d"));
  OK(hg_iter_next(iter, &key, &value, &error));
  OK(hg_iter_entry(iter, &key, &value, &error));
  CHECK(is(key, "f") && is(value, "f"));
  OK(hg_iter_seek_last(iter, &key, &value, &error));
  CHECK(is(key, "h"));
  EXPECT(HG_NOT_FOUND, hg_iter_next(iter, &key, &value, &error));
  EXPECT(HG_NOT_FOUND, hg_iter_next(iter, &key, &value, &error));
  EXPECT(HG_NOT_FOUND, hg_iter_seek_for_prev(iter, hg_text("a"), &key, NULL, &error));

  OK(hg_iter_set_bounds(iter, hg_text("c"), hg_text("h"), &error));
  OK(hg_iter_seek_first(iter, &key, NULL, &error));
  CHECK(is(key, "d"));
  EXPECT(HG_NOT_FOUND, hg_iter_prev(iter, &key, NULL, &error));
  OK(hg_iter_seek_last(iter, &key, NULL, &error));
  CHECK(is(key, "f"));
  EXPECT(HG_NOT_FOUND, hg_iter_next(iter, &key, NULL, &error));
  OK(hg_iter_seek(iter, hg_text("a"), &key, NULL, &error));
  CHECK(is(key, "d"));
  OK(hg_iter_seek_for_prev(iter, hg_text("z"), &key, NULL, &error));
  CHECK(is(key, "f"));
  EXPECT(HG_NOT_FOUND, hg_iter_seek(iter, hg_text("g"), &key, NULL, &error));
  OK(hg_iter_set_bounds(iter, HG_UNBOUNDED, hg_text("d"), &error));
  OK(hg_iter_prev(iter, &key, NULL, &error));
  CHECK(is(key, "b"));
  OK(hg_iter_free(iter));
  OK(hg_close(db, &error));
}

static uint32_t little_endian(const unsigned char* bytes) {
  return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* Reads all entries by fills with a buffer of this size; returns their number. */
static int fill_all(hg_iter* iter, int direction, size_t capacity) {
  unsigned char* buffer = malloc(capacity);
  int entries = 0, last = direction == HG_FORWARD ? -1 : 1000;
  for (;;) {
    size_t used, count;
    hg_error error;
    hg_code code = hg_iter_fill(iter, direction, buffer, capacity, &used, &count, &error);
    if (code == HG_NOT_FOUND) break;
    CHECK(code == HG_OK && count > 0 && used <= capacity);
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
      uint32_t klen = little_endian(buffer + at), vlen = little_endian(buffer + at + 4);
      char key[32];
      snprintf(key, sizeof(key), "%.*s", (int)klen, (char*)buffer + at + 8);
      int n = atoi(key);
      CHECK(n == last + (direction == HG_FORWARD ? 1 : -1) && vlen == (uint32_t)n % 50);
      last = n;
      at += 8 + klen + vlen;
    }
    CHECK(at == used);
    entries += (int)count;
  }
  free(buffer);
  return entries;
}

static void buffers_are_filled_with_entries(void) {
  hg_db* db = open_db();
  hg_keyspace* keyspace = open_keyspace(db, "k", "sorted hash:1");
  char value[50];
  memset(value, 'v', sizeof(value));
  for (int i = 0; i < 1000; i++) {
    char key[16];
    snprintf(key, sizeof(key), "%06d", i);
    OK(hg_put(keyspace, hg_text(key), hg_slice(value, (size_t)(i % 50)), HG_BUFFERED, &error));
  }
  size_t sizes[] = {64, 100, 1000, 100000};
  for (int i = 0; i < 4; i++) {
    for (int direction = HG_FORWARD; direction <= HG_BACKWARD; direction++) {
      hg_iter* iter;
      OK(hg_iter_new(keyspace, NULL, &iter, &error));
      CHECK(fill_all(iter, direction, sizes[i]) == 1000);
      OK(hg_iter_free(iter));
    }
  }
  /* An entry that does not fit stays the next one. */
  hg_iter* iter;
  size_t used, count;
  char buffer[64];
  OK(hg_iter_new(keyspace, NULL, &iter, &error));
  OK(hg_iter_seek(iter, hg_text("000049"), NULL, NULL, &error));
  EXPECT(HG_BUFFER_TOO_SMALL,
         hg_iter_fill(iter, HG_FORWARD, buffer, 20, &used, &count, &error));
  CHECK(used == 8 + 6 + 49 && count == 0);
  OK(hg_iter_fill(iter, HG_FORWARD, buffer, used, &used, NULL, &error));
  CHECK(memcmp(buffer + 8, "000049", 6) == 0);
  EXPECT(HG_INVALID_ARGUMENT, hg_iter_fill(iter, 3, buffer, 64, &used, &count, &error));
  OK(hg_iter_set_bounds(iter, hg_text("000100"), hg_text("000103"), &error));
  char large[1000];
  OK(hg_iter_fill(iter, HG_BACKWARD, large, sizeof(large), &used, &count, &error));
  CHECK(count == 3 && memcmp(large + 8, "000102", 6) == 0);
  OK(hg_iter_free(iter));
  OK(hg_close(db, &error));
}

static void hashed_keyspaces_are_read_forward(void) {
  hg_db* db = open_db();
  hg_keyspace* keyspace = open_keyspace(db, "k", "hashed");
  for (int i = 0; i < 100; i++) {
    char key[16];
    snprintf(key, sizeof(key), "%d", i);
    put(keyspace, key, "v");
  }
  hg_iter* iter;
  OK(hg_iter_new(keyspace, NULL, &iter, &error));
  char seen[100] = {0};
  hg_bytes key, value;
  hg_code code = HG_OK;
  for (code = hg_iter_next(iter, &key, &value, NULL); code == HG_OK;
       code = hg_iter_next(iter, &key, &value, NULL)) {
    char text[16];
    snprintf(text, sizeof(text), "%.*s", (int)key.len, (const char*)key.data);
    seen[atoi(text)]++;
    CHECK(is(value, "v"));
  }
  CHECK(code == HG_NOT_FOUND);
  for (int i = 0; i < 100; i++) CHECK(seen[i] == 1);
  EXPECT(HG_UNSUPPORTED, hg_iter_prev(iter, NULL, NULL, &error));
  EXPECT(HG_UNSUPPORTED, hg_iter_seek(iter, hg_text("5"), NULL, NULL, &error));
  OK(hg_iter_free(iter));
  OK(hg_iter_new(keyspace, NULL, &iter, &error));
  char buffer[4000];
  size_t used, count;
  OK(hg_iter_fill(iter, HG_FORWARD, buffer, sizeof(buffer), &used, &count, &error));
  CHECK(count == 100);
  OK(hg_iter_free(iter));
  OK(hg_close(db, &error));
}

/* ---- the change feed ---- */

static hg_change next_change(hg_changes* changes, hg_change_kind kind, const char* key) {
  hg_change change;
  OK(hg_changes_next(changes, 1000, &change, &error));
  CHECK(change.kind == kind && is(change.key, key));
  return change;
}

static void changes_come_in_order(void) {
  hg_db* db = open_db();
  uint64_t number;
  OK(hg_slot_create(db, "index", 1 << 30, &number, &error));
  EXPECT(HG_INVALID_ARGUMENT, hg_slot_create(db, "index", 1 << 30, &number, &error));
  hg_keyspace *keyspace = open_keyspace(db, "k", "merge:append"), *loaded;
  hg_changes* changes;
  OK(hg_changes_since(db, number, &changes, &error));
  hg_change change = next_change(changes, HG_CHANGE_CREATE, "");
  CHECK(is(change.keyspace, "k") && is(change.value, "sorted merge:append") && change.is_last);
  EXPECT(HG_NOT_FOUND, hg_changes_next(changes, 0, &change, &error));

  hg_batch* batch;
  OK(hg_batch_new(db, &batch, &error));
  OK(hg_batch_put(batch, keyspace, hg_text("a"), hg_text("1"), &error));
  OK(hg_batch_put_expiring(batch, keyspace, hg_text("b"), hg_text("2"), HG_AT, 4102444800000, &error));
  OK(hg_batch_merge(batch, keyspace, hg_text("a"), hg_text("+"), &error));
  OK(hg_batch_delete(batch, keyspace, hg_text("b"), &error));
  OK(hg_batch_delete_range(batch, keyspace, hg_text("c"), hg_text("e"), &error));
  OK(hg_batch_commit(batch, HG_BUFFERED, &error));
  OK(hg_batch_free(batch));
  change = next_change(changes, HG_CHANGE_PUT, "a");
  CHECK(is(change.value, "1") && change.meaning == HG_NEVER && !change.is_last);
  uint64_t commit = change.number;
  change = next_change(changes, HG_CHANGE_PUT, "b");
  CHECK(change.meaning == HG_AT && change.millis == 4102444800000 && change.number == commit);
  change = next_change(changes, HG_CHANGE_MERGE, "a");
  CHECK(is(change.value, "+"));
  next_change(changes, HG_CHANGE_DELETE, "b");
  change = next_change(changes, HG_CHANGE_DELETE_RANGE, "c");
  CHECK(is(change.value, "e") && change.is_last && change.number == commit);

  /* A bulk load comes as its entries. */
  OK(hg_keyspace_export(keyspace, HG_UNBOUNDED, HG_UNBOUNDED, path_of("out"), &error));
  char command[1300], file[1400] = "";
  snprintf(command, sizeof(command), "ls -d %s/*", path_of("out"));
  FILE* list = popen(command, "r");
  CHECK(fgets(file, sizeof(file), list) != NULL);
  pclose(list);
  file[strcspn(file, "\n")] = 0;
  const char* paths[] = {file};
  loaded = open_keyspace(db, "loaded", "sorted");
  OK(hg_keyspace_ingest(loaded, paths, 1, &error));
  next_change(changes, HG_CHANGE_CREATE, "");
  change = next_change(changes, HG_CHANGE_PUT, "a");
  CHECK(is(change.keyspace, "loaded") && is(change.value, "1+") && change.is_last);
  OK(hg_keyspace_rename(db, "loaded", "renamed", &error));
  OK(hg_keyspace_set_time_to_live(loaded, 5000, &error));
  OK(hg_keyspace_clear(loaded, &error));
  OK(hg_keyspace_drop(db, "renamed", &error));
  change = next_change(changes, HG_CHANGE_RENAME, "");
  CHECK(is(change.keyspace, "loaded") && is(change.value, "renamed"));
  change = next_change(changes, HG_CHANGE_SET_TIME_TO_LIVE, "");
  CHECK(change.millis == 5000);
  next_change(changes, HG_CHANGE_CLEAR, "");
  change = next_change(changes, HG_CHANGE_DROP, "");
  CHECK(is(change.keyspace, "renamed"));
  OK(hg_slot_confirm(db, "index", change.number, &error));
  char* json;
  OK(hg_slots_json(db, &json, &error));
  CHECK(strstr(json, "\"index\":{") != NULL && strstr(json, "\"log_bytes_max\":1073741824"));
  hg_free(json);
  OK(hg_changes_free(changes));
  EXPECT(HG_CLOSED, hg_changes_next(changes, 0, &change, &error));
  OK(hg_slot_drop(db, "index", &error));
  EXPECT(HG_INVALID_ARGUMENT, hg_changes_since(db, 1u << 30, &changes, &error));
  OK(hg_close(db, &error));
}

static void changes_are_read_of_the_files(void) {
  hg_db* db = open_db();
  uint64_t number;
  OK(hg_slot_create(db, "copy", 1 << 30, &number, &error));
  hg_keyspace* keyspace = open_keyspace(db, "k", "sorted");
  hg_changes* changes;
  OK(hg_changes_of_files(path_of("db"), NULL, number, &changes, &error));
  put(keyspace, "a", "1");
  next_change(changes, HG_CHANGE_CREATE, "");
  hg_change change = next_change(changes, HG_CHANGE_PUT, "a");
  CHECK(is(change.value, "1"));
  OK(hg_close(db, &error));
  EXPECT(HG_NOT_FOUND, hg_changes_next(changes, 50, &change, &error));
  OK(hg_changes_free(changes));
}

/* ---- copies and care ---- */

static void copies_are_databases(void) {
  hg_db *db = open_db(), *copy;
  hg_keyspace *keyspace = open_keyspace(db, "k", "sorted"), *copied;
  put(keyspace, "a", "1");
  OK(hg_checkpoint(db, path_of("checkpoint"), &error));
  uint64_t id = 0;
  OK(hg_backup_create(path_of("backups"), path_of("db"), NULL, 0, &id, &error));
  CHECK(id == 1);
  put(keyspace, "a", "2");
  OK(hg_sync(db, &error));
  OK(hg_backup_create(path_of("backups"), path_of("db"), NULL, 1 << 30, NULL, &error));
  char* json;
  OK(hg_backup_list_json(path_of("backups"), &json, &error));
  CHECK(strstr(json, "\"id\":1") != NULL && strstr(json, "\"id\":2") != NULL);
  hg_free(json);
  OK(hg_backup_verify(path_of("backups"), 0, &error));
  OK(hg_backup_restore(path_of("backups"), 1, path_of("first"), &error));
  OK(hg_backup_restore(path_of("backups"), 0, path_of("second"), &error));
  const char* places[] = {"checkpoint", "first", "second"};
  const char* values[] = {"1", "1", "2"};
  for (int i = 0; i < 3; i++) {
    OK(hg_open(path_of(places[i]), NULL, &copy, &error));
    OK(hg_keyspace_find(copy, "k", &copied, &error));
    check_get(copied, NULL, "a", values[i]);
    OK(hg_verify(copy, &error));
    OK(hg_close(copy, &error));
  }
  OK(hg_backup_prune(path_of("backups"), 1, &error));
  OK(hg_backup_list_json(path_of("backups"), &json, &error));
  CHECK(strstr(json, "\"id\":1") == NULL && strstr(json, "\"id\":2") != NULL);
  hg_free(json);
  OK(hg_close(db, &error));
}

static void a_damaged_database_is_repaired(void) {
  hg_db* db = open_db();
  hg_keyspace* keyspace = open_keyspace(db, "k", "sorted");
  put(keyspace, "a", "1");
  OK(hg_flush(db, &error));
  OK(hg_close(db, &error));
  FILE* manifest = fopen(path_of("db/MANIFEST"), "r+");
  CHECK(manifest != NULL);
  fputs("damage", manifest);
  fclose(manifest);
  EXPECT(HG_CORRUPTION, hg_open(path_of("db"), NULL, &db, &error));
  char* report;
  OK(hg_repair(path_of("db"), NULL, &report, &error));
  CHECK(strstr(report, "\"tables\":1") != NULL);
  hg_free(report);
  db = open_db();
  OK(hg_keyspace_find(db, "k", &keyspace, &error));
  check_get(keyspace, NULL, "a", "1");
  OK(hg_close(db, &error));
}

typedef struct {
  int next, count, answer_at_end;
  char key[8];
} numbers;

/* The numbers from `next` to before `count` as keys, each in the same place. */
static int next_number(void* state, hg_bytes* key, hg_bytes* value) {
  numbers* n = state;
  if (n->next == n->count) return n->answer_at_end;
  snprintf(n->key, sizeof(n->key), "%06d", n->next++);
  *key = hg_slice(n->key, 6);
  *value = hg_slice(n->key + 3, 3);
  return HG_OK;
}

/* A key that has a length and no address. */
static int no_key(void* state, hg_bytes* key, hg_bytes* value) {
  (void)state;
  *key = hg_slice(NULL, 3);
  *value = hg_text("v");
  return HG_OK;
}

static int same_key(void* state, hg_bytes* key, hg_bytes* value) {
  (void)state;
  *key = *value = hg_text("same");
  return HG_OK;
}

static int same_key_twice(void* state, hg_bytes* key, hg_bytes* value) {
  int* times = state;
  return ++*times > 2 ? HG_NOT_FOUND : same_key(NULL, key, value);
}

static void entries_are_loaded_in_bulk(void) {
  hg_db* db = open_db();
  hg_keyspace* keyspace = open_keyspace(db, "k", "sorted");
  numbers n = {0, 10000, HG_NOT_FOUND, ""};
  uint64_t entries = 0;
  OK(hg_keyspace_bulk_load(keyspace, next_number, &n, &entries, &error));
  CHECK(entries == 10000);
  check_get(keyspace, NULL, "000000", "000");
  check_get(keyspace, NULL, "009876", "876");
  /* After a failure nothing is put. */
  n = (numbers){10000, 10010, HG_IO, ""};
  EXPECT(HG_CANCELLED, hg_keyspace_bulk_load(keyspace, next_number, &n, NULL, &error));
  check_get(keyspace, NULL, "010000", NULL);
  EXPECT(HG_INVALID_ARGUMENT, hg_keyspace_bulk_load(keyspace, same_key, NULL, NULL, &error));
  check_get(keyspace, NULL, "same", NULL);
  EXPECT(HG_INVALID_ARGUMENT, hg_keyspace_bulk_load(keyspace, no_key, NULL, NULL, &error));
  EXPECT(HG_INVALID_ARGUMENT, hg_keyspace_bulk_load(keyspace, NULL, NULL, NULL, &error));
  n = (numbers){0, 0, HG_NOT_FOUND, ""};
  OK(hg_keyspace_bulk_load(keyspace, next_number, &n, &entries, &error));
  CHECK(entries == 0);
  OK(hg_close(db, &error));
}

/* The library sorts the entries by their hashes, and keeps copies: the program has one key at a
   time. */
static void entries_of_a_hashed_keyspace_are_loaded_in_bulk(void) {
  hg_db* db = open_db();
  hg_keyspace* keyspace = open_keyspace(db, "k", "hashed");
  numbers n = {0, 10000, HG_NOT_FOUND, ""};
  uint64_t entries = 0;
  OK(hg_keyspace_bulk_load(keyspace, next_number, &n, &entries, &error));
  CHECK(entries == 10000);
  for (int i = 0; i < 10000; i++) {
    char key[16];
    snprintf(key, sizeof(key), "%06d", i);
    check_get(keyspace, NULL, key, key + 3);
  }
  check_get(keyspace, NULL, "010000", NULL);
  EXPECT(HG_INVALID_ARGUMENT, hg_keyspace_bulk_load(keyspace, same_key_twice, &(int){0}, NULL, &error));
  check_get(keyspace, NULL, "same", NULL);
  EXPECT(HG_INVALID_ARGUMENT, hg_keyspace_bulk_load(keyspace, no_key, NULL, NULL, &error));
  OK(hg_close(db, &error));
}

static void gets_are_explained(void) {
  hg_db* db = open_db();
  hg_keyspace* keyspace = open_keyspace(db, "k", "sorted");
  put(keyspace, "a", "12345");
  char* json;
  OK(hg_explain_json(keyspace, hg_text("a"), &json, &error));
  CHECK(strstr(json, "\"runs\":[]") != NULL && strstr(json, "\"value_bytes\":5") != NULL);
  hg_free(json);
  OK(hg_flush(db, &error));
  OK(hg_explain_json(keyspace, hg_text("a"), &json, &error));
  CHECK(strstr(json, "\"filter\":\"maybe\"") != NULL && strstr(json, "\"kind\":\"put\"") != NULL);
  CHECK(strstr(json, "\"pages\":1,") != NULL && strstr(json, "\"filters\":1,") != NULL);
  CHECK(strstr(json, "\"filter_false_positives\":0") != NULL);
  hg_free(json);
  OK(hg_explain_json(keyspace, hg_text("b"), &json, &error));
  CHECK(strstr(json, "\"value_bytes\":null") != NULL && strstr(json, "\"pages\":0,") != NULL);
  hg_free(json);
  OK(hg_close(db, &error));
}

static void statistics_are_text_for_prometheus(void) {
  hg_db* db = open_db();
  put(open_keyspace(db, "k", "sorted"), "a", "1");
  char* text;
  OK(hg_stats_prometheus(db, &text, &error));
  CHECK(strstr(text, "# TYPE hedgerow_puts_total counter\nhedgerow_puts_total 1\n") != NULL);
  CHECK(strstr(text, "hedgerow_keyspace_entries{keyspace=\"k\"} 1\n") != NULL);
  hg_free(text);
  OK(hg_close(db, &error));
}

static void statistics_are_json(void) {
  hg_db* db = open_db();
  hg_keyspace* keyspace = open_keyspace(db, "k", "sorted");
  put(keyspace, "a", "1");
  check_get(keyspace, NULL, "a", "1");
  char* json;
  OK(hg_stats_json(db, &json, &error));
  CHECK(json[0] == '{' && strstr(json, "\"puts\":1") && strstr(json, "\"get_hits\":1"));
  hg_free(json);
  OK(hg_close(db, &error));
}

#define T(name) {#name, name}
static const test TESTS[] = {
    T(versions_are_told), T(options_are_checked), T(a_database_is_locked_and_destroyed),
    T(errors_have_a_code_and_a_message), T(layouts_and_designs_are_texts),
    T(keyspaces_are_found_renamed_and_dropped), T(entries_move_as_tables),
    T(values_are_read_in_four_ways), T(ranges_and_prefixes_are_deleted),
    T(values_are_swapped_if_they_are_as_expected), T(values_are_updated_by_a_function),
    T(an_update_keeps_the_time_of_expiry), T(the_ends_of_a_keyspace_are_popped), T(values_expire),
    T(built_in_operators_are_named), T(operators_are_functions_of_the_program),
    T(batches_are_atomic_over_keyspaces), T(snapshots_keep_a_moment),
    T(transactions_commit_or_conflict), T(transactions_roll_back_to_savepoints),
    T(iterators_move_both_ways), T(buffers_are_filled_with_entries),
    T(hashed_keyspaces_are_read_forward), T(changes_come_in_order),
    T(changes_are_read_of_the_files), T(copies_are_databases),
    T(a_damaged_database_is_repaired), T(entries_are_loaded_in_bulk),
    T(entries_of_a_hashed_keyspace_are_loaded_in_bulk), T(gets_are_explained),
    T(statistics_are_json), T(statistics_are_text_for_prometheus),
};

int main(int argc, char** argv) {
  return run_tests(TESTS, sizeof(TESTS) / sizeof(*TESTS), argc, argv);
}
