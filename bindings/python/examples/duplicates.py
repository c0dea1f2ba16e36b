"""Finds files with equal contents below a directory, with an index that stays on disk.

    python examples/duplicates.py /usr/share

A second run reads only files that have changed since.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import struct
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import hedgerow

#: The time of the last change of a file in nanoseconds, and its size.
FACTS = struct.Struct(">QQ")
DIGEST_BYTES = 20


def files(root: str) -> Iterator[tuple[bytes, bytes]]:
    """The paths of all files with their facts."""
    for dir, _, names in os.walk(root):
        for name in names:
            path = os.path.join(dir, name)
            stat = os.lstat(path)
            if os.path.isfile(path) and not os.path.islink(path) and stat.st_size:
                yield os.fsencode(path), FACTS.pack(stat.st_mtime_ns, stat.st_size)


def digest(path: bytes) -> bytes | None:
    """The digest of a file; nothing if it may not be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha1").digest()
    except OSError:
        return None


def index(db: hedgerow.Database, root: str) -> tuple[int, int]:
    """Brings the index up to date. Returns the numbers of files found and read."""
    by_digest = db.keyspace("by-digest")
    found = read = 0
    for path, facts in files(root):
        found += 1
        known = db.get(path)
        if known is not None and known.startswith(facts):
            continue
        read += 1
        new = digest(path)
        # Both keyspaces change together, or neither does.
        with db.batch() as batch:
            if known is not None:
                batch.delete(known[FACTS.size :] + path, keyspace=by_digest)
            if new is not None:
                batch.put(path, facts + new)
                batch.put(new + path, facts, keyspace=by_digest)
    return found, read


def duplicates(db: hedgerow.Database) -> Iterator[tuple[int, list[str]]]:
    """The sizes and the paths of files with equal contents."""
    entries = db.keyspace("by-digest").items()
    for _, group in groupby(entries, key=lambda entry: entry[0][:DIGEST_BYTES]):
        same = list(group)
        if len(same) > 1:
            size = FACTS.unpack(same[0][1])[1]
            yield size, [os.fsdecode(key[DIGEST_BYTES:]) for key, _ in same]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", nargs="?", default="/usr/share")
    default = Path(tempfile.gettempdir()) / "hedgerow-duplicates"
    parser.add_argument("--index", default=default, help=f"directory of the index ({default})")
    arguments = parser.parse_args()
    with hedgerow.open(arguments.index, memory=64 << 20) as db:
        found, read = index(db, arguments.directory)
        print(f"{found} files, {read} of them read")
        groups = sorted(duplicates(db), reverse=True)
        wasted = sum(size * (len(paths) - 1) for size, paths in groups)
        print(f"{len(groups)} contents are there more than once, which takes {wasted} bytes")
        for size, paths in groups[:5]:
            print(f"{size} bytes: {paths[0]} = {', '.join(paths[1:3])}")


if __name__ == "__main__":
    main()
