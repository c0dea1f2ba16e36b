"""Measures hedgerow beside plyvel, rocksdict, lmdb and diskcache, in one run.

    python bench/peers.py --entries 1000000 --value-bytes 100 --memory-mib 64 [--json FILE]

All stores hold the same entries. A round runs a workload over one store after another, so that a
change of the machine's load meets all of them; the number of a store is the median of its rounds.
The file gets a JSON row for each round, workload and store, with the machine and the versions.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import hedgerow
from hedgerow import plyvel as layer

KEY_BYTES = 16


class Store:
    """A store: its name, and what it does as its own documents say to do it fast."""

    name = ""

    def fill(self, keys: list[bytes], values: list[bytes]) -> None: ...
    def get(self, keys: list[bytes]) -> int: ...
    def put(self, keys: list[bytes], value: bytes) -> None: ...
    def scan(self) -> int: ...
    def close(self) -> None: ...

    #: Gets of an array of keys; only hedgerow has them.
    get_array: Callable[[Any], int] | None = None
    #: A scan into arrays; only hedgerow has it.
    scan_array: Callable[[], int] | None = None
    #: Gets of a list of keys with one call.
    get_list: Callable[[list[bytes]], int] | None = None


def count(entries: Any) -> int:
    """The entries of a scan, each of which is unpacked as a program does it."""
    entries_seen = 0
    for _key, _value in entries:
        entries_seen += 1
    return entries_seen


def found(values: Any) -> int:
    return sum(value is not None for value in values)


class Hedgerow(Store):
    name = "hedgerow"

    def __init__(self, path: Path, memory: int) -> None:
        self.db = hedgerow.open(path, memory=memory)

    def fill(self, keys: list[bytes], values: list[bytes]) -> None:
        for first in range(0, len(keys), 1000):
            self.db.put_many(keys[first : first + 1000], values[first : first + 1000])
        self.db.compact()

    def get(self, keys: list[bytes]) -> int:
        get = self.db.get
        return sum(get(key) is not None for key in keys)

    def put(self, keys: list[bytes], value: bytes) -> None:
        put = self.db.put
        for key in keys:
            put(key, value)

    def scan(self) -> int:
        return count(self.db.items())

    def get_list(self, keys: list[bytes]) -> int:  # type: ignore[override]
        return found(self.db.get_many(keys))

    def get_array(self, keys: Any) -> int:  # type: ignore[override]
        values = self.db.get_many(keys)
        return len(values) - values.null_count

    def scan_array(self) -> int:  # type: ignore[override]
        return sum(len(keys) for keys, _ in self.db.items().arrays())

    def close(self) -> None:
        self.db.close()


class Layer(Store):
    name = "hedgerow.plyvel"

    def __init__(self, path: Path, memory: int) -> None:
        self.db = layer.DB(path, create_if_missing=True, lru_cache_size=memory - (16 << 20))

    def fill(self, keys: list[bytes], values: list[bytes]) -> None:
        for first in range(0, len(keys), 1000):
            with self.db.write_batch() as batch:
                for key, value in zip(keys[first : first + 1000], values[first : first + 1000]):
                    batch.put(key, value)
        self.db.compact_range()

    def get(self, keys: list[bytes]) -> int:
        get = self.db.get
        return sum(get(key) is not None for key in keys)

    def put(self, keys: list[bytes], value: bytes) -> None:
        put = self.db.put
        for key in keys:
            put(key, value)

    def scan(self) -> int:
        return count(self.db.iterator())

    def close(self) -> None:
        self.db.close()


class Plyvel(Layer):
    name = "plyvel"

    def __init__(self, path: Path, memory: int) -> None:
        import plyvel

        self.db = plyvel.DB(
            str(path),
            create_if_missing=True,
            write_buffer_size=memory // 8,
            lru_cache_size=memory * 3 // 4,
            bloom_filter_bits=10,
        )


class RocksDict(Store):
    name = "rocksdict"

    def __init__(self, path: Path, memory: int) -> None:
        from rocksdict import BlockBasedOptions, Cache, Options, Rdict

        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(memory // 8)
        blocks = BlockBasedOptions()
        blocks.set_block_cache(Cache(memory * 3 // 4))
        blocks.set_bloom_filter(10, False)
        options.set_block_based_table_factory(blocks)
        self.db = Rdict(str(path), options)

    def fill(self, keys: list[bytes], values: list[bytes]) -> None:
        from rocksdict import WriteBatch

        for first in range(0, len(keys), 1000):
            batch = WriteBatch(raw_mode=True)
            for key, value in zip(keys[first : first + 1000], values[first : first + 1000]):
                batch.put(key, value)
            self.db.write(batch)
        self.db.flush()
        self.db.compact_range(None, None)

    def get(self, keys: list[bytes]) -> int:
        get = self.db.get
        return sum(get(key) is not None for key in keys)

    def get_list(self, keys: list[bytes]) -> int:  # type: ignore[override]
        return found(self.db.get(keys))

    def put(self, keys: list[bytes], value: bytes) -> None:
        put = self.db.put
        for key in keys:
            put(key, value)

    def scan(self) -> int:
        return count(self.db.items())

    def close(self) -> None:
        self.db.close()


class Lmdb(Store):
    name = "lmdb"

    def __init__(self, path: Path, memory: int) -> None:
        import lmdb

        # It has no budget: the system's page cache holds what fits.
        self.env = lmdb.open(str(path), map_size=1 << 36, sync=False, writemap=True)

    def fill(self, keys: list[bytes], values: list[bytes]) -> None:
        for first in range(0, len(keys), 1000):
            with self.env.begin(write=True) as transaction:
                for key, value in zip(keys[first : first + 1000], values[first : first + 1000]):
                    transaction.put(key, value)

    def get(self, keys: list[bytes]) -> int:
        with self.env.begin() as transaction:
            get = transaction.get
            return sum(get(key) is not None for key in keys)

    def put(self, keys: list[bytes], value: bytes) -> None:
        for key in keys:
            with self.env.begin(write=True) as transaction:
                transaction.put(key, value)

    def scan(self) -> int:
        with self.env.begin() as transaction:
            return count(transaction.cursor())

    def close(self) -> None:
        self.env.close()


class DiskCache(Store):
    name = "diskcache"

    def __init__(self, path: Path, memory: int) -> None:
        import diskcache

        self.db = diskcache.Cache(
            str(path), size_limit=1 << 40, eviction_policy="none", sqlite_cache_size=memory // 4096
        )

    def fill(self, keys: list[bytes], values: list[bytes]) -> None:
        for first in range(0, len(keys), 1000):
            with self.db.transact():
                for key, value in zip(keys[first : first + 1000], values[first : first + 1000]):
                    self.db.set(key, value)

    def get(self, keys: list[bytes]) -> int:
        get = self.db.get
        return sum(get(key) is not None for key in keys)

    def put(self, keys: list[bytes], value: bytes) -> None:
        put = self.db.set
        for key in keys:
            put(key, value)

    def scan(self) -> int:
        get = self.db.get
        return count((key, get(key)) for key in self.db)

    def close(self) -> None:
        self.db.close()


class HedgerowCache(DiskCache):
    name = "hedgerow.Cache"

    def __init__(self, path: Path, memory: int) -> None:
        self.db = hedgerow.Cache(path, size_limit=1 << 40, memory=memory)


STORES = [Hedgerow, Layer, Plyvel, RocksDict, Lmdb, HedgerowCache, DiskCache]


def resident() -> int:
    """The bytes of this process in memory that belong to no file."""
    status = Path("/proc/self/status").read_text()
    kib = next(line.split()[1] for line in status.splitlines() if line.startswith("RssAnon"))
    return int(kib) << 10


def answer(operations: int, began: float, worked: float) -> None:
    """Writes what operations took since these times, the second one that of the processor."""
    seconds, worked = time.perf_counter() - began, time.process_time() - worked
    rates = {"ops_per_second": operations / seconds, "ops_per_processor_second": operations / worked}
    print(json.dumps({"operations": operations, "seconds": seconds} | rates), flush=True)


def worker(arguments: argparse.Namespace) -> None:
    """Serves one store: reads the names of workloads, and writes seconds and operations."""
    store_class = next(store for store in STORES if store.name == arguments.worker)
    entries = arguments.entries
    randoms = np.random.default_rng(1)
    array = randoms.integers(0, 256, (entries, KEY_BYTES), np.uint8)
    # Values of which a half can be compressed away.
    half = arguments.value_bytes // 2
    noise = randoms.bytes(entries + half)
    keys = [bytes(key) for key in array]
    before = resident()
    store = store_class(Path(arguments.dir) / arguments.worker.replace(".", "-"), arguments.memory)
    began, worked = time.perf_counter(), time.process_time()
    values = [noise[i : i + half] + b"v" * (arguments.value_bytes - half) for i in range(entries)]
    store.fill(keys, values)
    del values
    answer(entries, began, worked)
    for line in sys.stdin:
        workload, seed = line.split()
        chosen = np.random.default_rng(int(seed)).integers(0, entries, arguments.reads)
        some = [keys[index] for index in chosen]
        some_array = array[chosen]
        began, worked = time.perf_counter(), time.process_time()
        done = arguments.reads
        if workload == "get":
            assert store.get(some) == done
        elif workload == "get_list" and store.get_list:
            assert store.get_list(some) == done
        elif workload == "get_array" and store.get_array:
            assert store.get_array(some_array) == done
        elif workload == "scan":
            done = store.scan()
            assert done == entries
        elif workload == "scan_array" and store.scan_array:
            done = store.scan_array()
            assert done == entries
        elif workload == "put":
            done = arguments.reads // 10
            store.put(some[:done], b"w" * arguments.value_bytes)
        elif workload == "memory":
            print(json.dumps({"mib": (resident() - before) / (1 << 20)}), flush=True)
            continue
        else:
            done = 0
        answer(done, began, worked)
    store.close()


READS = ["get", "get_list", "get_array", "scan", "scan_array"]


def start(name: str, arguments: argparse.Namespace, dir: str) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--worker", name, "--dir", dir]
    for option in ("entries", "value_bytes", "memory_mib", "reads"):
        command += [f"--{option.replace('_', '-')}", str(getattr(arguments, option))]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(process: subprocess.Popen[str], line: str) -> dict[str, float]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
    answer: dict[str, float] = json.loads(process.stdout.readline())
    return answer


def settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """All that a number depends on, for each row."""
    from importlib.metadata import version

    packages = ("hedgerow", "plyvel", "rocksdict", "lmdb", "diskcache", "numpy")
    versions = [f"{package}={version(package)}" for package in packages]
    script = Path(__file__).parents[2] / "common/row"
    command = [script, "python", f"python={platform.python_version()}", *versions]
    common: dict[str, Any] = json.loads(subprocess.check_output(command))
    options = ("entries", "value_bytes", "memory_mib", "reads")
    return common | {option: getattr(arguments, option) for option in options}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--memory-mib", type=int, default=256)
    parser.add_argument("--reads", type=int, default=200_000, help="operations of a workload")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--stores", default=",".join(store.name for store in STORES))
    parser.add_argument("--dir", default=None, help="directory of the stores")
    parser.add_argument("--json", type=Path, default=None, help="file for the rows")
    parser.add_argument("--worker", default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.memory = arguments.memory_mib << 20
    if arguments.worker:
        worker(arguments)
        return
    names = arguments.stores.split(",")
    fixed = settings(arguments)
    rows: list[dict[str, Any]] = []

    def row(store: str, workload: str, round: int, answer: dict[str, float]) -> None:
        measured = {"store": store, "workload": workload, "round": round} | answer
        rows.append(fixed | measured | {"load": os.getloadavg()[0]})

    with tempfile.TemporaryDirectory(dir=arguments.dir) as dir:
        running = {}
        for name in names:
            running[name] = start(name, arguments, dir)
            stdout = running[name].stdout
            assert stdout is not None
            row(name, "fill", 0, json.loads(stdout.readline()))
        # Reads come first, over stores that are settled; puts overwrite a part of the entries.
        rounds = [(workload, seed) for seed in range(arguments.rounds) for workload in READS]
        rounds += [("put", seed) for seed in range(arguments.rounds)]
        for workload, seed in rounds:
            for name in random.Random(seed).sample(names, len(names)):
                answer = ask(running[name], f"{workload} {seed}")
                if answer["operations"]:
                    row(name, workload, seed, answer)
        for name in names:
            row(name, "memory", 0, ask(running[name], "memory 0"))
        for process in running.values():
            process.communicate()
    report(fixed, names, rows, arguments.rounds)
    if arguments.json:
        arguments.json.write_text("".join(json.dumps(row) + "\n" for row in rows))


def report(
    fixed: dict[str, Any], names: list[str], rows: list[dict[str, Any]], rounds: int
) -> None:
    loads = [row["load"] for row in rows]
    print(f"{json.dumps(fixed)}\n{rounds} rounds, load {min(loads):.1f} to {max(loads):.1f}\n")

    def median(store: str, workload: str, field: str) -> str:
        of = [row for row in rows if (row["store"], row["workload"]) == (store, workload)]
        some = [row[field] for row in of if field in row]
        return f"{statistics.median(some):,.0f}" if some else ""

    columns = ["fill", *READS, "put"]
    for measure in ("ops_per_second", "ops_per_processor_second"):
        print(f"{measure}:\n")
        print("| store | " + " | ".join(columns) + " | memory (MiB) |")
        print("|---" * (len(columns) + 2) + "|")
        for name in names:
            cells = [median(name, column, measure) for column in columns]
            print("| " + " | ".join([name, *cells, median(name, "memory", "mib")]) + " |")
        print()


if __name__ == "__main__":
    main()
