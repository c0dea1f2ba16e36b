// Tests of the C++ header.
#include "hedgerow.hpp"

#include "check.h"

static void objects_free_themselves() {
  std::string path = path_of("db");
  {
    hedgerow::Db db(path);
    hedgerow::Keyspace users = db.keyspace("users", "sorted");
    users.put("ada", "1815");
    users.put("grace", "1906", HG_SYNCED);
    hedgerow::Snapshot before = db.snapshot();
    users.remove("ada");
    CHECK(!users.get("ada"));
    CHECK(users.get("ada", &before) == "1815");
    std::string seen;
    for (hedgerow::Iterator it = users.iterate(&before); it.next();)
      seen += std::string(it.key()) + "=" + std::string(it.value()) + " ";
    CHECK(seen == "ada=1815 grace=1906 ");
    hedgerow::Iterator it = users.iterate();
    CHECK(it.seek("b") && it.key() == "grace");
    CHECK(!it.prev());
  }
  /* The lock is free, so the database was closed. */
  hedgerow::Db again(path);
  again.close();
}

static void failures_are_exceptions() {
  std::string path = path_of("db");
  hedgerow::Db db(path);
  try {
    hedgerow::Db other(path);
    CHECK(false);
  } catch (const hedgerow::Error& error) {
    CHECK(error.code == HG_LOCKED && std::string(error.what()).find("locked") == 0);
  }
  try {
    hedgerow::Keyspace users = db.keyspace("users", "sorted");
    users.put("ada", "1815");
    hg_bytes other = hedgerow::bytes("1816");
    hedgerow::check([&](hg_error* e) {
      return hg_compare_and_swap(users.handle(), hedgerow::bytes("ada"), &other, nullptr, e);
    });
    CHECK(false);
  } catch (const hedgerow::Error& error) {
    CHECK(error.code == HG_CONFLICT && std::string(error.what()).find("another") != std::string::npos);
  }
  try {
    db.keyspace("k", "no layout");
    CHECK(false);
  } catch (const hedgerow::Error& error) {
    CHECK(error.code == HG_INVALID_ARGUMENT);
  }
  /* The functions of the C header work with the same objects. */
  hedgerow::Keyspace k = db.keyspace("k", "merge:append");
  auto merge = [&](hg_error* e) {
    return hg_merge(k.handle(), hg_text("a"), hg_text("x"), HG_BUFFERED, e);
  };
  CHECK(hedgerow::check(merge) && hedgerow::check(merge));
  CHECK(k.get("a") == "xx");
}

static const test TESTS[] = {
    {"objects_free_themselves", objects_free_themselves},
    {"failures_are_exceptions", failures_are_exceptions},
};

int main(int argc, char** argv) {
  return run_tests(TESTS, sizeof(TESTS) / sizeof(*TESTS), argc, argv);
}
