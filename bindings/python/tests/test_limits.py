"""Closing, forks, signals, threads: what must be an error, and never a crash."""

import gc
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hedgerow
import hedgerow.plyvel
from hedgerow import Database


def run(code: str, *arguments: str | Path) -> str:
    """Run a program and return what it prints."""
    # A shell that starts the tests in the background has them ignore Ctrl-C.
    heeds = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    done = subprocess.run(
        [sys.executable, "-c", heeds + textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_everything_is_a_runtime_error_after_the_close(db: Database) -> None:
    users = db.keyspace("users")
    db.update({b"%04d" % i: b"" for i in range(3000)})
    batch, snapshot, transaction = db.batch(), db.snapshot(), db.transaction()
    cursor = hedgerow.Cursor(db)
    iterator = iter(db.items())
    next(iterator)
    db.close()
    db.close()
    assert db.closed
    calls: list[Callable[[], Any]] = [
        lambda: db.get(b"k"),
        lambda: db[b"k"],
        lambda: db.put(b"k", b""),
        lambda: b"k" in db,
        lambda: bool(db),
        lambda: db.get_many([b"k"]),
        lambda: db.put_many([b"k"], [b""]),
        lambda: list(db),
        lambda: users.get(b"k"),
        lambda: users.clear(),
        lambda: users.compact(),
        lambda: batch.put(b"k", b""),
        lambda: snapshot.get(b"0001"),
        lambda: list(snapshot),
        lambda: transaction.get(b"0001"),
        lambda: transaction.commit(),
        lambda: cursor.seek_first(),
        lambda: list(iterator),
        lambda: db.snapshot(),
        lambda: db.transaction(),
        lambda: db.keyspace("users"),
        lambda: db.keyspaces(),
        lambda: db.sync(),
        lambda: db.verify(),
    ]
    for number, call in enumerate(calls):
        with pytest.raises(RuntimeError):
            call()
            pytest.fail(f"call {number} did not raise")


def test_objects_that_outlive_the_database_are_harmless(tmp_path: Path) -> None:
    db = hedgerow.open(tmp_path)
    db.update({b"%04d" % i: b"v" for i in range(3000)})
    iterator, snapshot = iter(db.items()), db.snapshot()
    cursor = hedgerow.Cursor(db, snapshot)
    walk = hedgerow.plyvel.Iterator(db, None, (None, None), False, (True, True), b"")
    assert next(iterator) == (b"0000", b"v")
    del db
    gc.collect()
    # They keep the database open until they are gone.
    assert sum(1 for _ in iterator) == 2999
    assert cursor.seek_last()
    assert cursor.key == b"2999"
    assert snapshot[b"0000"] == b"v"
    assert next(walk) == (b"0000", b"v")
    del iterator, snapshot, cursor, walk
    gc.collect()
    hedgerow.open(tmp_path).close()


FORK = """
import os, sys, hedgerow
db = hedgerow.open(sys.argv[1])
db.update({b"%04d" % i: b"v" for i in range(3000)})
batch, snapshot, transaction = db.batch(), db.snapshot(), db.transaction()
cursor, iterator = hedgerow.Cursor(db), iter(db.items())
next(iterator)
child = os.fork()
if child == 0:
    calls = [
        lambda: db.get(b"0001"), lambda: db.put(b"k", b""), lambda: b"k" in db,
        lambda: batch.put(b"k", b""), lambda: batch.commit(), lambda: snapshot[b"0001"],
        lambda: transaction.get(b"0001"), lambda: transaction.commit(), lambda: cursor.seek_first(),
        lambda: list(iterator), lambda: db.batch(), lambda: db.snapshot(), lambda: db.keyspaces(),
        lambda: db.sync(), lambda: db.flush(), lambda: db.close(), lambda: db.closed,
    ]
    refused = 0
    for call in calls:
        try:
            call()
        except RuntimeError as error:
            refused += "forked" in str(error)
    del calls, batch, snapshot, transaction, cursor, iterator, db
    with hedgerow.open(sys.argv[2]) as own:
        own[b"k"] = b"child"
    print(refused, "calls refused in the child", flush=True)
    # Ends as every process does, so that everything is dropped.
    sys.exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
db[b"k"] = b"parent"
assert sum(1 for _ in iterator) == 2999
db.close()
print("the parent went on")
"""


def test_a_child_of_a_fork_gets_errors_and_the_parent_goes_on(tmp_path: Path) -> None:
    printed = run(FORK, tmp_path / "db", tmp_path / "other")
    assert printed.splitlines() == ["17 calls refused in the child", "the parent went on"]
    with hedgerow.open(tmp_path / "other") as db:
        assert db[b"k"] == b"child"
    with hedgerow.open(tmp_path / "db") as db:
        assert db[b"k"] == b"parent"


INTERRUPTED = """
import os, signal, sys, threading, hedgerow
db = hedgerow.open(sys.argv[1], memory=8 << 20)
db.bulk_load((b"%08d" % i, b"v" * 100) for i in range(20_000))
main = threading.main_thread().ident
KEYS = [b"%08d" % i for i in range(10_000)]
CALLS = {
    "scan": lambda: [len(list(db.items())) for _ in range(10**9)],
    "load": lambda: db.bulk_load((b"x%020d" % i, b"") for i in range(10**12)),
    "gets": lambda: db.get_many(KEYS * 1000),
    "snapshot": lambda: db.snapshot().get_many(KEYS * 1000),
    "verify": lambda: [db.verify() for _ in range(10**9)],
    "compact": lambda: [db.compact() for _ in range(10**9)],
    "flush": lambda: [(db.put(b"k", b""), db.flush()) for _ in range(10**9)],
    "transact": lambda: [db.transact(lambda t: t.put(b"k", b"")) for _ in range(10**9)],
}
timer = threading.Timer(0.3, lambda: signal.pthread_kill(main, signal.SIGINT))
timer.start()
try:
    CALLS[sys.argv[2]]()
except KeyboardInterrupt:
    db[b"after"] = b"interrupted"
    print(db.get(b"after"))
db.close()
"""


@pytest.mark.parametrize(
    "call", ["scan", "load", "gets", "snapshot", "verify", "compact", "flush", "transact"]
)
def test_long_calls_are_interrupted(call: str, tmp_path: Path) -> None:
    assert run(INTERRUPTED, tmp_path, call) == "b'interrupted'\n"


# The first flush takes minutes, so that a write waits for it without end. A signal comes whenever
# no write ends for a second: it may come elsewhere on a busy machine, and then another one follows.
FULL = """
import os, signal, sys, threading, hedgerow
db = hedgerow.open(sys.argv[1], memory=4 << 20, io_bytes_per_second=4096)
main = threading.main_thread().ident
written = 0

def watch():
    while True:
        before = written
        threading.Event().wait(1)
        if before == written:
            signal.pthread_kill(main, signal.SIGINT)

def write(key, value):
    if sys.argv[2] == "put":
        db.put(key, value)
    elif sys.argv[2] == "batch":
        with db.batch() as batch:
            batch.put(key, value)
    else:
        with db.transaction() as transaction:
            transaction.put(key, value)

threading.Thread(target=watch, daemon=True).start()
while True:
    try:
        write(b"%08d" % written, os.urandom(4000))
    except KeyboardInterrupt:
        if b"%08d" % written not in db:
            break
    written += 1
print("interrupted", written > 100, all(b"%08d" % i in db for i in range(written)), flush=True)
# Closing would wait for the flush.
os._exit(0)
"""


@pytest.mark.parametrize("write", ["put", "batch", "transaction"])
def test_a_write_that_waits_for_memory_is_interrupted(write: str, tmp_path: Path) -> None:
    assert run(FULL, tmp_path, write) == "interrupted True True\n"


WAITS = """
import signal, sys, threading, time, hedgerow
db = hedgerow.open(sys.argv[1], memory=8 << 20)
db.update({b"%05d" % i: b"v" * 100 for i in range(30_000)})

def slow(done, total):
    # A signal that arrives here interrupts the wait of the caller.
    signal.raise_signal(signal.SIGINT)

try:
    db.verify(progress=slow)
except KeyboardInterrupt:
    print("interrupted")
try:
    hedgerow.Backups(sys.argv[2]).create(db.path, progress=slow)
except KeyboardInterrupt:
    print("interrupted")
db.close()
"""


def test_a_wait_with_progress_is_interrupted(tmp_path: Path) -> None:
    assert run(WAITS, tmp_path / "db", tmp_path / "backups") == "interrupted\n" * 2


def test_a_process_may_end_with_everything_open(tmp_path: Path) -> None:
    run(
        """
        import sys, hedgerow
        db = hedgerow.open(sys.argv[1])
        db.update({b"%d" % i: b"v" for i in range(5000)})
        kept = db.snapshot(), db.batch(), db.transaction(), hedgerow.Cursor(db), iter(db.items())
        next(kept[-1])
        """,
        tmp_path,
    )
    with hedgerow.open(tmp_path) as db:
        assert db[b"4999"] == b"v"


def test_many_threads_share_everything(db: Database) -> None:
    count = 8
    failures: list[BaseException] = []
    batch, snapshot = db.batch(), db.snapshot()
    walk = hedgerow.plyvel.Iterator(db, None, (None, None), False, (True, True), b"")

    def work(thread: int) -> None:
        try:
            for i in range(300):
                key = b"%d-%d" % (thread, i)
                db[key] = b"v" * 50
                assert db[key] == b"v" * 50
                batch.put(b"batch-" + key, b"")
                if i % 50 == 0:
                    batch.commit()
                    list(db.items(prefix=b"%d-" % thread))
                    db.transact(lambda t: t.put(b"counter", b"%d" % (int(t.get(b"counter", 0)) + 1)))
                assert snapshot.get(key) is None
                next(walk, None)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    batch.commit()
    assert failures == []
    assert db[b"counter"] == b"%d" % (count * 6)
    assert sum(1 for _ in db.keys(prefix=b"batch-")) == count * 300


def test_a_database_may_be_closed_under_other_threads(tmp_path: Path) -> None:
    db = hedgerow.open(tmp_path)
    db.update({b"%04d" % i: b"v" * 100 for i in range(2000)})
    ended: list[BaseException] = []
    running = threading.Barrier(5)

    def work(call: Callable[[], object]) -> None:
        running.wait()
        try:
            while True:
                call()
        except BaseException as error:
            ended.append(error)

    calls: list[Callable[[], object]] = [
        lambda: list(db),
        lambda: db.get(b"0007"),
        lambda: db.put(b"k", b""),
        lambda: db.get_many([b"0001", b"0002"]),
    ]
    threads = [threading.Thread(target=work, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    running.wait()
    db.close()
    for thread in threads:
        thread.join()
    assert [type(error) for error in ended] == [hedgerow.ClosedError] * 4


def test_other_threads_run_while_one_waits(db: Database) -> None:
    # The progress of a call is reported to its caller while another thread writes.
    db.update({b"%05d" % i: b"v" * 100 for i in range(20_000)})
    started, written = threading.Event(), threading.Event()

    def write() -> None:
        started.wait()
        db[b"other"] = b"thread"
        written.set()

    thread = threading.Thread(target=write)
    thread.start()

    def progress(done: int, total: int) -> None:
        started.set()
        assert written.wait(60)

    db.verify(progress=progress)
    thread.join()
    assert db[b"other"] == b"thread"


MEMORY = """
import sys, hedgerow
from pathlib import Path

def resident():
    status = Path("/proc/self/status").read_text()
    return int(next(it.split()[1] for it in status.splitlines() if it.startswith("RssAnon"))) << 10

budget = 24 << 20
with hedgerow.open(sys.argv[1], memory=budget) as db:
    before = resident()
    most = 0
    for part in range(100):
        keys = [b"%08d" % (part * 1000 + i) for i in range(1000)]
        db.put_many(keys, [bytes([part]) * 1000] * 1000)
        most = max(most, resident() - before)
    for _ in db.values():
        pass
    for part in range(0, 100_000, 7):
        db.get(b"%08d" % part)
    most = max(most, resident() - before)
    stats = db.stats()["memory"]
    assert stats["total"] <= stats["budget"] == budget, stats
    print(most)
"""


def test_memory_stays_within_the_budget(tmp_path: Path) -> None:
    # Four times the budget is written. Threads, the batch and the allocator take some, too.
    assert int(run(MEMORY, tmp_path)) < (24 << 20) + (24 << 20)
