/* A shop: threads sell from a stock by transactions, sales are counted by merges, carts expire, a
 * backup is made while all goes on, and the books are read by buffers.
 *
 *   shop DIRECTORY [SALES] */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hedgerow.h"

enum { ITEMS = 20, SELLERS = 4 };
static int sales = 2000;
static hg_db* db;
static hg_keyspace *stock, *orders, *carts, *counters;

static void check(hg_code code, const hg_error* error) {
  if (code == HG_OK || code == HG_NOT_FOUND) return;
  fprintf(stderr, "shop: %s\n", error->message);
  exit(1);
}
#define DO(call)            \
  do {                      \
    hg_error error;         \
    check((call), &error);  \
  } while (0)

static hg_keyspace* keyspace(const char* name, const char* layout) {
  hg_keyspace* opened;
  DO(hg_keyspace_open(db, name, layout, NULL, &opened, &error));
  return opened;
}

/* Takes one piece from the stock and writes the order, or does nothing if the item is sold out. */
static int sell(int item, int seller, int number) {
  char item_key[16], order_key[32];
  snprintf(item_key, sizeof(item_key), "item%02d", item);
  snprintf(order_key, sizeof(order_key), "%d-%06d", seller, number);
  for (;;) {
    hg_transaction* transaction;
    char* found;
    size_t len;
    DO(hg_transaction_begin(db, HG_SERIALIZABLE, HG_BUFFERED, &transaction, &error));
    DO(hg_transaction_get(transaction, stock, hg_text(item_key), &found, &len, &error));
    int left = atoi(found);
    hg_free(found);
    if (left == 0) {
      hg_transaction_free(transaction);
      return 0;
    }
    char text[16];
    snprintf(text, sizeof(text), "%d", left - 1);
    DO(hg_transaction_put(transaction, stock, hg_text(item_key), hg_text(text), &error));
    DO(hg_transaction_put(transaction, orders, hg_text(order_key), hg_text(item_key), &error));
    int64_t one = 1;
    DO(hg_transaction_merge(transaction, counters, hg_text("sold"), hg_slice(&one, 8), &error));
    hg_error error;
    hg_code code = hg_transaction_commit(transaction, &error);
    hg_transaction_free(transaction);
    if (code == HG_CONFLICT) continue; /* Another seller was faster: look again. */
    check(code, &error);
    return 1;
  }
}

static void* seller(void* number) {
  int me = *(int*)number;
  unsigned random = (unsigned)me + 1;
  for (int i = 0; i < sales / SELLERS; i++) {
    random = random * 1103515245 + 12345;
    char cart[32];
    snprintf(cart, sizeof(cart), "%d-%06d", me, i);
    DO(hg_put_expiring(carts, hg_text(cart), hg_text("item"), HG_IN, 60000, HG_BUFFERED, &error));
    sell((int)(random / 65536 % ITEMS), me, i);
  }
  return NULL;
}

/* The number of entries of a keyspace, and the sum of the numbers that their values are. */
static void add_up(hg_keyspace* of, long* entries, long* sum) {
  static char buffer[64 << 10];
  hg_iter* iter;
  DO(hg_iter_new(of, NULL, &iter, &error));
  *entries = *sum = 0;
  for (;;) {
    size_t used, count;
    hg_error error;
    hg_code code = hg_iter_fill(iter, HG_FORWARD, buffer, sizeof(buffer), &used, &count, &error);
    check(code, &error);
    if (code == HG_NOT_FOUND) break;
    const unsigned char* at = (const unsigned char*)buffer;
    for (size_t i = 0; i < count; i++) {
      uint32_t klen = at[0] | (uint32_t)at[1] << 8, vlen = at[4] | (uint32_t)at[5] << 8;
      char value[32];
      snprintf(value, sizeof(value), "%.*s", (int)vlen, (const char*)at + 8 + klen);
      *sum += atoi(value);
      at += 8 + klen + vlen;
    }
    *entries += (long)count;
  }
  hg_iter_free(iter);
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: shop DIRECTORY [SALES]\n");
    return 2;
  }
  if (argc > 2) sales = atoi(argv[2]);
  char path[1000], backups[1000];
  snprintf(path, sizeof(path), "%s/db", argv[1]);
  snprintf(backups, sizeof(backups), "%s/backups", argv[1]);
  DO(hg_open(path, NULL, &db, &error));
  stock = keyspace("stock", "hashed");
  orders = keyspace("orders", "sorted");
  carts = keyspace("carts", "sorted");
  counters = keyspace("counters", "merge:add_i64");

  hg_batch* delivery;
  DO(hg_batch_new(db, &delivery, &error));
  for (int i = 0; i < ITEMS; i++) {
    char key[16];
    snprintf(key, sizeof(key), "item%02d", i);
    DO(hg_batch_put(delivery, stock, hg_text(key), hg_text("75"), &error));
  }
  DO(hg_batch_commit(delivery, HG_SYNCED, &error));
  hg_batch_free(delivery);

  pthread_t threads[SELLERS];
  int numbers[SELLERS];
  for (int i = 0; i < SELLERS; i++) {
    numbers[i] = i;
    pthread_create(&threads[i], NULL, seller, &numbers[i]);
  }
  DO(hg_backup_create(backups, path, NULL, 0, NULL, &error));
  for (int i = 0; i < SELLERS; i++) pthread_join(threads[i], NULL);

  long items, left, sold, unused;
  int64_t counted = 0;
  size_t len;
  add_up(stock, &items, &left);
  add_up(orders, &sold, &unused);
  DO(hg_get_into(counters, NULL, hg_text("sold"), &counted, sizeof(counted), &len, &error));
  printf("sold %ld of %d pieces, %ld are left; the counter says %" PRId64 "\n", sold, ITEMS * 75,
         left, counted);
  DO(hg_close(db, &error));
  return sold + left == ITEMS * 75 && counted == sold ? 0 : 1;
}
