// Finds the files that have all words of a question. The index is a database: each word has the
// list of its files, to which a merge appends.
//
//   search DIRECTORY WORD... -- FILE...
#include <cctype>
#include <fstream>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "hedgerow.hpp"

using Files = std::set<std::string>;

static void add(hedgerow::Keyspace& index, const std::string& path) {
  std::ifstream file(path);
  std::set<std::string> words;
  std::string word;
  for (char c; file.get(c);) {
    if (std::isalpha(static_cast<unsigned char>(c))) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!word.empty()) {
      words.insert(std::move(word));
      word.clear();
    }
  }
  std::string line = path + "\n";
  for (const std::string& found : words)
    hedgerow::check([&](hg_error* e) {
      return hg_merge(index.handle(), hedgerow::bytes(found), hedgerow::bytes(line), HG_BUFFERED, e);
    });
}

static Files files_of(const hedgerow::Keyspace& index, const std::string& word) {
  Files files;
  std::string list = index.get(word).value_or("");
  for (size_t at = 0; at < list.size();) {
    size_t end = list.find('\n', at);
    files.insert(list.substr(at, end - at));
    at = end + 1;
  }
  return files;
}

int main(int argc, char** argv) try {
  std::vector<std::string> words(argv + (argc > 1 ? 2 : 1), argv + argc), files;
  for (size_t i = 0; i < words.size(); i++) {
    if (words[i] != "--") continue;
    files.assign(words.begin() + static_cast<long>(i) + 1, words.end());
    words.resize(i);
  }
  if (words.empty() || files.empty()) {
    std::cerr << "usage: search DIRECTORY WORD... -- FILE...\n";
    return 2;
  }
  hedgerow::Db db(argv[1]);
  hedgerow::Keyspace index = db.keyspace("index", "sorted merge:append");
  for (const std::string& file : files) add(index, file);

  Files found = files_of(index, words[0]);
  for (const std::string& word : words) {
    Files with = files_of(index, word), both;
    for (const std::string& file : found)
      if (with.count(file)) both.insert(file);
    found = both;
  }
  for (const std::string& file : found) std::cout << file << "\n";
  db.close();
  return found.empty();
} catch (const hedgerow::Error& error) {
  std::cerr << "search: " << error.what() << "\n";
  return 1;
}
