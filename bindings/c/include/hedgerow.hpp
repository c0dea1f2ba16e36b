// Hedgerow for C++17: handles that free themselves, exceptions, strings. Every other call is made
// with the functions of `hedgerow.h`, which take `handle()`; `hedgerow::check` turns their codes
// into exceptions.
//
//   hedgerow::Db db("data");
//   hedgerow::Keyspace users = db.keyspace("users", "sorted");
//   users.put("ada", "1815");
//   for (hedgerow::Iterator it = users.iterate(); it.next();) use(it.key(), it.value());
#ifndef HEDGEROW_HPP
#define HEDGEROW_HPP

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "hedgerow.h"

namespace hedgerow {

struct Error : std::runtime_error {
  hg_code code;
  explicit Error(const hg_error& error) : std::runtime_error(error.message), code(error.code) {}
};

// Makes a call with a place for its error. Returns false for `HG_NOT_FOUND` and throws failures.
template <typename Call>
bool check(Call call) {
  hg_error error{};
  hg_code code = call(&error);
  if (code != HG_OK && code != HG_NOT_FOUND) throw Error(error);
  return code == HG_OK;
}

inline hg_bytes bytes(std::string_view text) { return hg_slice(text.data(), text.size()); }
inline std::string_view view(hg_bytes b) { return {static_cast<const char*>(b.data), b.len}; }

template <typename T, auto Free>
struct Freed {
  void operator()(T* handle) const { Free(handle); }
};
template <typename T, auto Free>
using Handle = std::unique_ptr<T, Freed<T, Free>>;

class Snapshot {
 public:
  explicit Snapshot(hg_db* db) {
    hg_snapshot* made;
    check([&](hg_error* e) { return hg_snapshot_new(db, &made, e); });
    handle_.reset(made);
  }
  hg_snapshot* handle() const { return handle_.get(); }

 private:
  Handle<hg_snapshot, hg_snapshot_free> handle_;
};

// Moves return true on a key. Key and value stay until the next move.
class Iterator {
 public:
  Iterator(hg_keyspace* keyspace, const hg_snapshot* at) {
    hg_iter* made;
    check([&](hg_error* e) { return hg_iter_new(keyspace, at, &made, e); });
    handle_.reset(made);
  }
  bool next() { return check([&](hg_error* e) { return hg_iter_next(handle(), &key_, &value_, e); }); }
  bool prev() { return check([&](hg_error* e) { return hg_iter_prev(handle(), &key_, &value_, e); }); }
  bool seek(std::string_view key) {
    return check([&](hg_error* e) { return hg_iter_seek(handle(), bytes(key), &key_, &value_, e); });
  }
  std::string_view key() const { return view(key_); }
  std::string_view value() const { return view(value_); }
  hg_iter* handle() const { return handle_.get(); }

 private:
  Handle<hg_iter, hg_iter_free> handle_;
  hg_bytes key_{}, value_{};
};

class Keyspace {
 public:
  explicit Keyspace(hg_keyspace* handle) : handle_(handle) {}
  void put(std::string_view key, std::string_view value, hg_durability how = HG_BUFFERED) {
    check([&](hg_error* e) { return hg_put(handle(), bytes(key), bytes(value), how, e); });
  }
  void remove(std::string_view key, hg_durability how = HG_BUFFERED) {
    check([&](hg_error* e) { return hg_delete(handle(), bytes(key), how, e); });
  }
  std::optional<std::string> get(std::string_view key, const Snapshot* at = nullptr) const {
    hg_bytes value;
    hg_pinned* pinned;
    hg_snapshot* snapshot = at ? at->handle() : nullptr;
    if (!check([&](hg_error* e) {
          return hg_get_pinned(handle(), snapshot, bytes(key), &value, &pinned, e);
        }))
      return std::nullopt;
    Handle<hg_pinned, hg_pinned_free> freed(pinned);
    return std::string(view(value));
  }
  Iterator iterate(const Snapshot* at = nullptr) const {
    return Iterator(handle(), at ? at->handle() : nullptr);
  }
  hg_keyspace* handle() const { return handle_.get(); }

 private:
  Handle<hg_keyspace, hg_keyspace_free> handle_;
};

class Db {
 public:
  explicit Db(const std::string& path, const hg_options* options = nullptr) {
    hg_db* made;
    check([&](hg_error* e) { return hg_open(path.c_str(), options, &made, e); });
    handle_.reset(made);
  }
  // The layout and the design are texts, as `hg_keyspace_open` describes them.
  Keyspace keyspace(const std::string& name, const std::string& layout = "",
                    const std::string& design = "") {
    hg_keyspace* made;
    check([&](hg_error* e) {
      return hg_keyspace_open(handle(), name.c_str(), layout.c_str(), design.c_str(), &made, e);
    });
    return Keyspace(made);
  }
  Snapshot snapshot() const { return Snapshot(handle()); }
  // Reports what the destructor would not.
  void close() {
    check([&](hg_error* e) { return hg_close(handle_.release(), e); });
  }
  hg_db* handle() const { return handle_.get(); }

 private:
  static void close_quietly(hg_db* db) { hg_close(db, nullptr); }
  Handle<hg_db, close_quietly> handle_;
};

}  // namespace hedgerow

#endif
