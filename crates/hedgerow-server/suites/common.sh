# Shared by the suites, which source it.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
hedgerow=${HEDGEROW:-$target/release/hedgerow}

# start ARGUMENT...: starts a server of $scratch/db, and sets `server`, its process, and `port`,
# which is $fixed_port if that is set.
start() {
  # A server before this one has written its line.
  rm -f "$scratch/ready"
  touch "$scratch/ready"
  "$hedgerow" serve --db "$scratch/db" --port "${fixed_port:-0}" "$@" >"$scratch/ready" &
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

# go_program NAME MODULE: sets `program`, which is $here/NAME.go, built with a module.
go_program() {
  local folder=$target/$1
  program=$folder/suite
  [ ! -x "$program" ] || [ "$here/$1.go" -nt "$program" ] || return 0
  mkdir -p "$folder"
  cp "$here/$1.go" "$folder/main.go"
  (cd "$folder" && { [ -e go.mod ] || go mod init suite; } && go get "$2" && go build -o suite .) \
    >"$folder/log" 2>&1 || { cat "$folder/log"; return 1; }
}

# java_libraries FOLDER GROUP:ARTIFACT:VERSION...: copies libraries and what they need from Maven
# Central to a folder.
java_libraries() {
  local folder=$1 library group artifact version dependencies=
  shift
  for library; do
    IFS=: read -r group artifact version <<<"$library"
    dependencies+="<dependency><groupId>$group</groupId><artifactId>$artifact</artifactId>"
    dependencies+="<version>$version</version></dependency>"
  done
  [ "$(cat "$folder/libraries" 2>/dev/null)" != "$*" ] || return 0
  rm -rf "$folder"
  mkdir -p "$folder"
  cat >"$folder/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>suite</groupId><artifactId>suite</artifactId><version>1</version>
  <dependencies>$dependencies</dependencies>
</project>
POM
  mvn -q -B -f "$folder/pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
    -DoutputDirectory="$folder" >"$folder/log" 2>&1 || { cat "$folder/log"; return 1; }
  echo "$*" >"$folder/libraries"
}
