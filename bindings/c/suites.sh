#!/usr/bin/env bash
# All tests of the C libraries; `make test` calls it. Each suite says how many tests ran and fails
# if that is not the expected number. What others wrote is fetched and never committed.
#
#   suites.sh BUILD             all suites; BUILD is the folder of the libraries
#   suites.sh BUILD levigo ...  these suites
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
shift
suites=(rust symbols calls safety safety_leveldb no_memory address memory cpp package warning c_test random levigo)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
cc=${CC:-cc}
warnings=(-O1 -g -Wall -Wextra -Werror)

# ran SUITE EXPECTED FOUND: records the tests of a suite.
ran() {
  local found=${3:-0}
  printf 'suite %s: %d of %d tests\n' "$1" "$found" "$2"
  [ "$2" -eq "$found" ] || { echo "suite $1: expected $2 tests, found $found"; exit 1; }
  passed=$((passed + found))
}

# need COMMAND PACKAGE: installs a package of Debian if the command is not there.
need() {
  command -v "$1" >/dev/null || install "$2"
}

install() {
  echo "installing $1"
  { apt-get update && apt-get install -y --no-install-recommends "$1"; } >"$work/apt" 2>&1 ||
    { cat "$work/apt"; echo "$1 is not there: install it"; exit 1; }
}

# ---- both libraries ----

# The tests in Rust: what the bindings share, and that the headers say what the sources define.
suite_rust() {
  (cd "$here/.." && CARGO_TARGET_DIR=$(dirname "$build") cargo test --release) >"$work/rust" 2>&1 || { cat "$work/rust"; exit 1; }
  ran rust 26 "$(awk '/^test result: ok/ {sum += $4} END {print sum}' "$work/rust")"
}

# The exported functions are those of the checked-in lists.
suite_symbols() {
  local count=0 library folder
  for library in hedgerow hedgerow_leveldb; do
    folder=$here
    [ "$library" = hedgerow ] || folder=$here/leveldb
    nm -D --defined-only "$build/lib$library.so.0" | awk '$2 == "T" {sub(/@.*/, "", $3); print $3}' | LC_ALL=C sort >"$work/symbols"
    diff "$folder/symbols.txt" "$work/symbols"
    readelf -d "$build/lib$library.so.0" >"$work/dynamic"
    grep -q "SONAME.*\[lib$library.so.0\]" "$work/dynamic"
    count=$((count + $(wc -l <"$work/symbols")))
  done
  ran symbols $((FUNCTIONS + 68)) "$count"
}

# The packages of Debian install, and a program is compiled and runs with what they bring.
suite_package() {
  local root=$work/root
  mkdir -p "$root"/var/lib/dpkg/{info,updates,triggers}
  touch "$root/var/lib/dpkg/status"
  dpkg --root="$root" --force-depends --force-not-root --install "$build"/debian/*.deb >"$work/dpkg" 2>&1 ||
    { cat "$work/dpkg"; exit 1; }
  grep -q '^lz4_flex 0' "$root/usr/share/doc/libhedgerow0/third-party-notices.txt"
  grep -q '^lz4_flex 0' "$root/usr/share/doc/libhedgerow-dev/third-party-notices.txt"
  local libraries
  libraries=$(dirname "$(find "$root/usr/lib" -name libhedgerow.so.0)")
  export PKG_CONFIG_LIBDIR=$libraries/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
  # shellcheck disable=SC2046 # several words are meant
  "$cc" "${warnings[@]}" -o "$work/installed" "$here/tests/calls.c" $(pkg-config --cflags --libs libhedgerow)
  LD_LIBRARY_PATH=$libraries "$work/installed" statistics_are_json >"$work/installed.out"
  # And with the static library, which needs nothing of this project when it runs.
  # shellcheck disable=SC2046 # several words are meant
  "$cc" "${warnings[@]}" -o "$work/static" "$here/tests/calls.c" $(pkg-config --cflags libhedgerow) "$libraries/libhedgerow.a" \
    -lpthread -lm -ldl
  "$work/static" statistics_are_json >>"$work/installed.out"
  unset PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR
  ran package 2 "$(grep -c '^1 tests ran' "$work/installed.out")"
}

# ---- libhedgerow ----

# The numbers of functions in hedgerow.h, and of tests in tests/.
FUNCTIONS=113
CALLS=32
SAFETY=19
SAFETY_LEVELDB=14

# compile PROGRAM FLAG...: compiles a program of tests/ against libhedgerow, or libhedgerow_leveldb
# if its name says so.
compile() {
  local program=$1 library=hedgerow
  shift
  [ "${program%_leveldb}" = "$program" ] || library=hedgerow_leveldb
  "$cc" "${warnings[@]}" "$@" -I"$here/include" -I"$here/leveldb/include" -o "$work/$program" "$here/tests/$program.c" \
    -L"$build" "-l$library" -lpthread -Wl,-rpath,"$build"
}

# run COMMAND...: runs a program and adds the tests that ran to `count`.
run() {
  "$@" >"$work/tests" 2>"$work/tests.err" || { cat "$work/tests" "$work/tests.err"; exit 1; }
  count=$((count + $(awk '/ tests ran$/ {print $1}' "$work/tests")))
}

suite_calls() {
  local count=0
  compile calls
  run "$work/calls"
  ran calls "$CALLS" "$count"
}

suite_safety() {
  local count=0
  compile safety
  run "$work/safety"
  ran safety "$SAFETY" "$count"
}

# Every function is there: what it does with a wrong handle is checked.
suite_safety_leveldb() {
  local count=0 name
  while read -r name; do
    grep -qw "$name" "$here/tests/safety_leveldb.c" || { echo "no test misuses $name"; exit 1; }
  done <"$here/leveldb/symbols.txt"
  compile safety_leveldb
  run "$work/safety_leveldb"
  ran safety_leveldb "$SAFETY_LEVELDB" "$count"
}

# The program has a `malloc` of its own, which fails for the results of calls.
suite_no_memory() {
  local count=0
  compile no_memory -fno-builtin -Wl,--no-as-needed -lhedgerow_leveldb
  run "$work/no_memory"
  ran no_memory 5 "$count"
}

# All tests with the memory of the process watched: AddressSanitizer sees wrong frees, leaks, and
# copies out of bounds; valgrind sees also what the code of the library reads and writes.
suite_address() {
  local count=0 program watched=(-fsanitize=address,undefined -fno-sanitize-recover=all)
  for program in calls safety safety_leveldb; do
    compile "$program" "${watched[@]}"
    run "$work/$program"
  done
  c_test "${watched[@]}"
  ran address $((CALLS + SAFETY + SAFETY_LEVELDB + C_TEST)) "$count"
}

suite_memory() {
  need valgrind valgrind
  local count=0 watch=(valgrind --quiet --error-exitcode=9 --fair-sched=yes)
  local leaks=(--leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite)
  compile calls
  compile safety
  compile safety_leveldb
  run "${watch[@]}" "${leaks[@]}" "$work/calls"
  run "${watch[@]}" "${leaks[@]}" "$work/safety" "${SAFETY_OF_MEMORY[@]}"
  # The child of a fork cannot free what threads of its parent had.
  local fork=handles_do_not_survive_a_fork
  run "${watch[@]}" "$work/safety" "$fork"
  run "${watch[@]}" "$work/safety_leveldb" "$fork"
  run "${watch[@]}" "${leaks[@]}" "$work/safety_leveldb" "-$fork"
  ran memory $((CALLS + ${#SAFETY_OF_MEMORY[@]} + 1 + SAFETY_LEVELDB)) "$count"
}

# The others take long below valgrind, which runs one thread at a time.
SAFETY_OF_MEMORY=(freed_handles_are_refused foreign_numbers_are_refused objects_outlive_their_database
  asynchronous_calls_answer_once objects_serve_one_thread_after_another
  a_progress_function_cannot_use_the_object_of_its_call a_merge_function_cannot_use_the_object_of_its_call)

suite_cpp() {
  local count=0
  "${CXX:-c++}" -std=c++17 "${warnings[@]}" -I"$here/include" -o "$work/cpp" "$here/tests/cpp.cpp" -L"$build" -lhedgerow \
    -Wl,-rpath,"$build"
  run "$work/cpp"
  ran cpp 2 "$count"
}

# ---- libhedgerow_leveldb ----

# The library warns once of a filter policy of a program. Standard error is a pipe, a full disk,
# closed.
suite_warning() {
  local count=0
  "$cc" "${warnings[@]}" -I"$here/leveldb/include" -o "$work/warning" "$here/tests/warning.c" \
    -L"$build" -lhedgerow_leveldb -Wl,-rpath,"$build"
  run "$work/warning" "$work/warned"
  grep -q 'filter policies of a program are not used' "$work/tests.err"
  run bash -c '"$0" "$1" 2>/dev/full' "$work/warning" "$work/warned_full"
  run bash -c '"$0" "$1" 2>&-' "$work/warning" "$work/warned_closed"
  ran warning 3 "$count"
}

# The source of Debian's LevelDB package, without its checks of signatures: apt makes them.
leveldb_source() {
  leveldb=$build/fetched/leveldb
  [ -e "$leveldb/db/c_test.c" ] && return
  mkdir -p "$leveldb" "$work/lists/partial"
  sed 's/^Types: deb$/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >"$work/debian.sources"
  local options=(-o "Dir::Etc::sourcelist=$work/debian.sources" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/lists"
    -o APT::Sandbox::User=root)
  (
    cd "$work"
    apt-get "${options[@]}" update
    apt-get "${options[@]}" source --download-only leveldb
  ) >"$work/apt" 2>&1 || { cat "$work/apt"; exit 1; }
  tar -xf "$work"/leveldb_1.23.orig.tar.* -C "$leveldb" --strip-components=1
}

# c_test FLAG...: runs LevelDB's own test of its C interface, with its own header, and adds its
# tests to `count`.
C_TEST=16
c_test() {
  leveldb_source
  "$cc" -O1 -g "$@" -I"$leveldb/include" -o "$work/c_test" "$leveldb/db/c_test.c" \
    -L"$build" -lhedgerow_leveldb -Wl,-rpath,"$build"
  TEST_TMPDIR="$work/c_test_db" "$work/c_test" 2>"$work/c_test.out" || { cat "$work/c_test.out"; exit 1; }
  [ "$(tail -n 1 "$work/c_test.out")" = PASS ]
  count=$((count + $(grep -c '^=== Test' "$work/c_test.out")))
}

suite_c_test() {
  local count=0
  c_test
  ran c_test "$C_TEST" "$count"
}

# The path of Debian's LevelDB; nothing if it is not installed.
debians_leveldb() {
  # awk reads to the end: a closed pipe would be an error of ldconfig.
  ldconfig -p | awk '/libleveldb.so.1d/ {path = $NF} END {print path}'
}

# Random calls to this library and Debian's LevelDB. HEDGEROW_SEED repeats a run.
suite_random() {
  local calls=${HEDGEROW_CALLS:-10000} theirs
  theirs=$(debians_leveldb)
  [ -n "$theirs" ] || { install libleveldb1d && theirs=$(debians_leveldb); }
  "$cc" "${warnings[@]}" -I"$here/leveldb/include" -o "$work/random_calls" "$here/leveldb/random_calls.c" -ldl
  mkdir "$work/random"
  "$work/random_calls" "$build/libhedgerow_leveldb.so.0" "$theirs" "$work/random" "$calls" "${HEDGEROW_SEED:-}" |
    tee "$work/random.out"
  ran random "$calls" "$(awk '/calls agree/ {print $1}' "$work/random.out")"
}

# The tests of levigo, a Go package over LevelDB's C interface. Its linker flag -lleveldb finds a
# link to this library.
suite_levigo() {
  need go golang-go
  local module=github.com/jmhodges/levigo@v1.0.0 source
  source=$(cd "$work" && GOFLAGS=-mod=mod go mod download -json "$module" | awk -F'"' '/"Dir"/ {print $4}')
  cp -r --no-preserve=mode "$source" "$work/levigo"
  mkdir "$work/as_leveldb"
  ln -s "$build/libhedgerow_leveldb.so.0" "$work/as_leveldb/libleveldb.so"
  (
    cd "$work/levigo"
    export CGO_ENABLED=1 CGO_CFLAGS="-I$here/leveldb/include" LD_LIBRARY_PATH="$build"
    export CGO_LDFLAGS="-L$work/as_leveldb -Wl,-rpath,$build"
    go test -count=1 -v . >"$work/levigo.out" 2>&1 || { cat "$work/levigo.out"; exit 1; }
  )
  ran levigo 3 "$(grep -c '^--- PASS' "$work/levigo.out")"
}

[ $# -eq 0 ] || suites=("$@")
for suite in "${suites[@]}"; do
  "suite_$suite"
done
printf '%d passed, 0 failed\n' "$passed"
