# Shared by the suites, which source it.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
hedgerow=${HEDGEROW:-$target/release/hedgerow}

# start ARGUMENT...: starts a server of $scratch/db, and sets `server`, its process, and `port`.
start() {
  # A server before this one has written its line.
  rm -f "$scratch/ready"
  touch "$scratch/ready"
  "$hedgerow" serve --db "$scratch/db" --port 0 "$@" >"$scratch/ready" &
  server=$!
  for _ in $(seq 100); do
    grep -q ready "$scratch/ready" && break
    sleep 0.1
  done
  port=$(sed -n 's/^ready on .*:\([0-9]*\)$/\1/p' "$scratch/ready")
}

# python_with NAME PACKAGE...: sets `python`, an interpreter in $target/NAME that has the packages.
python_with() {
  python=$target/$1/bin/python
  shift
  [ -x "$python" ] && return
  python3 -m venv "${python%/bin/python}"
  "$python" -m pip install --quiet "$@"
}
