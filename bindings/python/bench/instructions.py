"""Counts the instructions of a processor for an entry of a scan, by callgrind.

    python bench/instructions.py [--entries 20000] [--stores hedgerow,hedgerow.plyvel,plyvel]

Each store is filled, and scanned once and eleven times by processes of their own. The difference is
that of ten scans: what is done before and after cancels out. It needs valgrind.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from peers import STORES, Store

MEMORY = 64 << 20
SCANS = 10


def opened(name: str, dir: Path) -> Store:
    store_class = next(store for store in STORES if store.name == name)
    return store_class(dir / name, MEMORY)


def fill(name: str, dir: Path, entries: int) -> None:
    randoms = random.Random(1)
    keys = [randoms.randbytes(16) for _ in range(entries)]
    store = opened(name, dir)
    store.fill(keys, [randoms.randbytes(50) + b"v" * 50 for _ in range(entries)])
    store.close()


def instructions(name: str, dir: Path, scans: int) -> int:
    out = dir / "callgrind.out"
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", sys.executable]
    command += [__file__, "--scan", name, "--dir", str(dir), "--scans", str(scans)]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0:
        raise SystemExit(ended.stderr)
    summary = re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.MULTILINE)
    assert summary is not None
    return int(summary[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=20_000)
    parser.add_argument("--stores", default="hedgerow,hedgerow.plyvel,plyvel")
    parser.add_argument("--scan", help=argparse.SUPPRESS)
    parser.add_argument("--dir", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--scans", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.scan:
        store = opened(arguments.scan, arguments.dir)
        for _ in range(arguments.scans):
            store.scan()
        store.close()
        return
    for name in arguments.stores.split(","):
        with tempfile.TemporaryDirectory() as dir:
            fill(name, Path(dir), arguments.entries)
            one = instructions(name, Path(dir), 1)
            many = instructions(name, Path(dir), 1 + SCANS)
        print(f"{name} {(many - one) / SCANS / arguments.entries:.0f}", flush=True)


if __name__ == "__main__":
    main()
