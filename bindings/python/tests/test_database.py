"""Keyspaces, batches, transactions, snapshots, operations, maintenance."""

import datetime
import math
import random
import re
import struct
import time
from pathlib import Path
from typing import Any

import pytest

import hedgerow
from hedgerow import Database


def test_keyspaces_have_layouts_designs_and_operators(db: Database) -> None:
    counters = db.keyspace("counters", merge_operator="add_i64", partitions="hash:2")
    assert counters.name == "counters"
    assert "merge:add_i64" in counters.layout
    for amount in (1, 2, 3):
        counters.merge(b"visits", struct.pack("<q", amount))
    assert counters[b"visits"] == struct.pack("<q", 6)
    with pytest.raises(hedgerow.InvalidArgumentError):
        counters.merge(b"visits", b"not eight bytes")
    with pytest.raises(hedgerow.UnsupportedError):
        db.merge(b"k", b"v")
    events = db.keyspace("events", design="policy = leveling:4\nfilter = bloom:12")
    assert "leveling:4" in events.design
    events.retune("policy = tiering:4")
    assert "tiering:4" in events.design
    assert db.keyspace("events").name == "events"
    with pytest.raises(hedgerow.InvalidArgumentError):
        db.keyspace("events", layout="hashed")
    with pytest.raises(hedgerow.InvalidArgumentError, match="leveling"):
        db.keyspace("other", design="policy = nonsense")
    db.rename_keyspace("events", "history")
    assert db.keyspaces() == ["counters", "default", "history"]
    assert events.name == "history"
    db.drop_keyspace("history")
    with pytest.raises(hedgerow.ClosedError):
        events.get(b"k")
    with pytest.raises(hedgerow.InvalidArgumentError, match="`nowhere`"):
        db.keyspace("nowhere", create=False).get(b"k")


def test_a_batch_is_committed_as_a_whole_or_not(db: Database) -> None:
    users = db.keyspace("users")
    with db.batch(sync=True) as batch:
        batch.put(b"k", b"v")
        batch[b"gone"] = b""
        batch.put(b"ada", b"1815", keyspace=users)
        batch.delete(b"gone")
        assert len(batch) == 4
        assert batch.bytes > 0
        assert b"k" not in db
    assert dict(db) == {b"k": b"v"}
    assert users[b"ada"] == b"1815"
    with pytest.raises(ZeroDivisionError), db.batch() as batch:
        batch.put(b"never", b"")
        raise ZeroDivisionError
    assert b"never" not in db
    with pytest.raises(hedgerow.ClosedError):
        batch.put(b"never", b"")


def test_a_batch_can_be_used_again_and_appended(db: Database) -> None:
    users = db.keyspace("users")
    first, second = db.batch(), users.batch()
    first.put(b"a", b"1")
    second.put(b"b", b"2")
    second.delete_range(b"x", b"y")
    first.append(second)
    first.append(first)
    assert len(first) == 6
    first.commit()
    assert len(first) == 0
    assert db[b"a"] == b"1"
    assert users[b"b"] == b"2"
    first.put(b"c", b"3")
    first.clear()
    first.commit()
    assert b"c" not in db


def test_a_large_batch(db: Database) -> None:
    with db.batch() as batch:
        batch.put_many([b"%d" % i for i in range(3)], [b"v" * (1 << 20)] * 3)
    assert len(db[b"2"]) == 1 << 20


def test_a_snapshot_is_a_mapping_of_one_moment(db: Database) -> None:
    users = db.keyspace("users")
    db[b"a"] = users[b"b"] = b"old"
    with db.snapshot() as snapshot:
        db[b"a"] = users[b"b"] = b"new"
        db[b"c"] = b"late"
        assert snapshot[b"a"] == b"old"
        assert snapshot.get(b"b", keyspace=users) == b"old"
        assert snapshot.get_many([b"a", b"c"]) == [b"old", None]
        assert dict(snapshot) == {b"a": b"old"}
        assert b"c" not in snapshot
        assert dict(snapshot.of(users)) == {b"b": b"old"}
        with pytest.raises(KeyError):
            snapshot.of(users)[b"x"]
    with pytest.raises(hedgerow.ClosedError):
        snapshot.get(b"a")
    snapshot.close()


def test_a_transaction_conflicts_if_another_write_came_first(db: Database) -> None:
    db[b"n"] = b"1"
    with db.transaction() as transaction:
        transaction[b"n"] = transaction[b"n"] + b"2"
        assert transaction[b"n"] == b"12"
        assert db[b"n"] == b"1"
        assert list(transaction.items()) == [(b"n", b"12")]
    assert db[b"n"] == b"12"
    with pytest.raises(hedgerow.ConflictError, match="default"), db.transaction() as transaction:
        transaction.put(b"other", transaction[b"n"])
        db[b"n"] = b"3"
    assert b"other" not in db
    with pytest.raises(ZeroDivisionError), db.transaction() as transaction:
        transaction[b"never"] = b""
        raise ZeroDivisionError
    assert b"never" not in db


def test_a_transaction_has_savepoints_and_other_keyspaces(db: Database) -> None:
    users = db.keyspace("users")
    with db.transaction(isolation="snapshot", sync=True) as transaction:
        transaction.put(b"a", b"1", keyspace=users)
        savepoint = transaction.savepoint()
        transaction.put(b"a", b"2", keyspace=users)
        transaction.delete_range()
        transaction.roll_back_to(savepoint)
        assert transaction.of(users)[b"a"] == b"1"
    assert users[b"a"] == b"1"
    with pytest.raises(ValueError, match="serializable"):
        db.transaction(isolation="none")  # type: ignore[arg-type]


def test_transact_repeats_until_nobody_comes_first(db: Database) -> None:
    db[b"n"] = b"0"
    attempts = 0

    def add(transaction: hedgerow.Transaction) -> int:
        nonlocal attempts
        attempts += 1
        number = int(transaction[b"n"]) + 1
        if attempts < 3:
            db[b"n"] = b"%d" % (10 * attempts)
        transaction[b"n"] = b"%d" % number
        return number

    assert db.transact(add) == 21
    assert (attempts, db[b"n"]) == (3, b"21")
    attempts = 0
    with pytest.raises(hedgerow.ConflictError):
        db.transact(add, attempts=2)
    with pytest.raises(ValueError, match="attempt"):
        db.transact(add, attempts=0)


def test_values_expire(db: Database) -> None:
    db.put(b"short", b"", expire=0.02)
    db.put(b"long", b"", expire=datetime.timedelta(hours=1))
    at = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)
    db.put(b"moment", b"", expire=at)
    db[b"ever"] = b""
    assert db.expiry(b"moment") == at.timestamp()
    assert db.expiry(b"ever") is None
    hour = db.expiry(b"long")
    assert hour is not None
    assert 3500 < hour - time.time() < 3700
    deadline = time.monotonic() + 20
    while b"short" in db:
        assert time.monotonic() < deadline
    with pytest.raises(KeyError):
        db.expiry(b"short")
    assert db.set_expiry(b"moment", None)
    assert db.expiry(b"moment") is None
    assert not db.set_expiry(b"short", 1.0)
    for wrong in ("soon", object()):
        with pytest.raises(TypeError, match="seconds"):
            db.put(b"k", b"", expire=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="seconds"):
        db.put(b"k", b"", expire=float("nan"))


def test_wrong_options_are_errors_that_say_what_is_right(tmp_path: Path) -> None:
    path = tmp_path / "none"
    wrongs: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"memory": "1"}, TypeError, "expected an integer, which is bytes, for memory, found '1'"),
        ({"memory": "64MiB"}, TypeError, "for memory, found '64MiB'"),
        ({"memory": 1.5}, TypeError, "for memory, found 1.5"),
        ({"memory": -1}, ValueError, "for memory, found -1"),
        ({"workers": "two"}, TypeError, "expected an integer for workers, found 'two'"),
        ({"read_only": "no"}, TypeError, "expected a bool for read_only, found 'no'"),
        ({"read_mode": 1}, TypeError, "expected a str for read_mode, found 1"),
    ]
    for options, error, message in wrongs:
        with pytest.raises(error, match=re.escape(message)):
            hedgerow.open(path, **options)
    assert not path.exists()


def test_a_database_to_be_read_only_must_be_there(tmp_path: Path) -> None:
    wrongs: list[dict[str, Any]] = [{"read_only": True}, {"create": False}]
    for options in wrongs:
        with pytest.raises(hedgerow.MissingError, match="expected a database in .*, found none"):
            hedgerow.open(tmp_path / "none", **options)
    assert not (tmp_path / "none").exists()


def test_a_merge_operator_that_does_not_exist_is_refused(db: Database) -> None:
    with pytest.raises(ValueError, match="`add_f64`, `add_i64`, `append`, .*, found `foo`"):
        db.keyspace("words", merge_operator="foo")
    assert "words" not in db.keyspaces()
    db.keyspace("words", merge_operator="append").merge(b"k", b"v")


def test_a_time_to_live_that_is_none_is_refused(db: Database) -> None:
    kept = db.keyspace("kept")
    for wrong in (math.inf, -math.inf, math.nan, -1, 0, 1e-9, 1e300):
        for call in (lambda: db.keyspace("new", time_to_live=wrong), lambda: kept.set_time_to_live(wrong)):
            with pytest.raises(ValueError, match="expected seconds for a time to live, .*, found"):
                call()
    with pytest.raises(TypeError, match="expected seconds for a time to live, .*, found '1'"):
        db.keyspace("new", time_to_live="1")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected seconds, found 1e300"):
        db.put(b"k", b"v", expire=1e300)
    assert "new" not in db.keyspaces()
    assert kept.time_to_live is None


def test_a_keyspace_has_a_time_to_live(db: Database) -> None:
    sessions = db.keyspace("sessions", time_to_live=3600)
    sessions[b"k"] = b""
    assert sessions.time_to_live == 3600
    assert sessions.expiry(b"k") is not None
    sessions.set_time_to_live(None)
    assert sessions.time_to_live is None


def test_ranges_and_prefixes_are_deleted(db: Database) -> None:
    db.update({b"%02d" % i: b"" for i in range(50)})
    db.delete_range(b"10", b"40")
    db.delete_prefix(b"0")
    with db.batch() as batch:
        batch.delete_range(b"41", b"45")
        batch.delete_prefix(b"49")
    assert list(db) == [b"40", b"45", b"46", b"47", b"48"]


def test_writes_on_a_condition(db: Database) -> None:
    assert db.put_if_absent(b"seat", b"ada") is None
    assert db.put_if_absent(b"seat", b"alan") == b"ada"
    assert db.compare_and_swap(b"seat", b"ada", b"alan")
    assert not db.compare_and_swap(b"seat", b"ada", b"grace")
    assert db.compare_and_swap(b"seat", b"alan", None)
    assert db.compare_and_swap(b"seat", None, b"grace")
    assert db.modify(b"n", lambda old: (old or b"") + b"x") == b"x"
    assert db.modify(b"n", lambda _: None) is None
    with pytest.raises(ZeroDivisionError):
        db.modify(b"n", lambda _: 1 // 0)  # type: ignore[arg-type, return-value]
    with pytest.raises(TypeError):
        db.modify(b"n", lambda _: "text")  # type: ignore[arg-type, return-value]


def test_a_bulk_load_takes_any_iterable_in_order(db: Database) -> None:
    entries = [(b"%05d" % i, b"v") for i in range(10_000)]
    assert db.bulk_load(iter(entries)) == 10_000
    assert db[b"09999"] == b"v"
    with pytest.raises(hedgerow.InvalidArgumentError):
        db.bulk_load([(b"b", b""), (b"a", b"")])
    with pytest.raises(ZeroDivisionError):
        db.bulk_load((b"z%d" % (1 // i), b"") for i in range(1))
    assert db.approximate_len() == 10_000


def test_maintenance_reports_progress(db: Database) -> None:
    for _ in range(3):
        db.update({b"%05d" % i: b"v" * 100 for i in range(5000)})
        db.flush()
    reports: list[tuple[int, int]] = []
    db.compact(progress=lambda done, total: reports.append((done, total)))
    assert reports
    assert reports == sorted(reports, key=lambda report: report[0])
    db.wait_until_merged()
    assert db.shape().startswith("L")
    assert "found" in db.explain(b"00001")
    reports.clear()
    checked = db.verify(progress=lambda done, total: reports.append((done, total)))
    assert checked["entries"] >= 5000
    assert reports

    def stop(done: int, total: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        db.verify(progress=stop)
    stats = db.stats()
    assert stats["puts"] == 15_000
    assert 0 < stats["memory"]["total"] <= stats["memory"]["budget"] == 32 << 20
    assert stats["keyspaces"][0]["name"] == "default"
    assert db.keyspace("default").stats()["entries"] == 5000
    assert "hedgerow_puts" in db.prometheus()


def test_a_compressed_log_is_shorter(tmp_path: Path) -> None:
    logged = []
    for compress in (False, True):
        with hedgerow.open(tmp_path / str(compress), memory=8 << 20, compress_log=compress) as db:
            db.put(b"key", bytes(1000))
            logged.append(db.stats()["log_bytes"])
        with hedgerow.open(tmp_path / str(compress), memory=8 << 20) as db:
            assert db[b"key"] == bytes(1000)
    assert logged[1] < logged[0] / 5


def test_checkpoints_and_backups_are_databases(db: Database, tmp_path: Path) -> None:
    db.update({b"%d" % i: b"v" * 1000 for i in range(1000)})
    db.checkpoint(tmp_path / "copy")
    with hedgerow.open(tmp_path / "copy") as copy:
        assert copy[b"7"] == db[b"7"]
    backups = hedgerow.Backups(tmp_path / "backups")
    reports: list[tuple[int, int]] = []
    first = backups.create(db.path, progress=lambda done, total: reports.append((done, total)))
    assert reports
    assert reports[-1][0] == reports[-1][1]
    db[b"new"] = b""
    db.backup(tmp_path / "others", progress=lambda done, total: reports.append((done, total)))
    second = backups.create(db.path, quick=True)
    assert backups.list() == [first, second]
    assert backups.verify(id=2) == second
    assert backups.restore(tmp_path / "restored", id=1) == first
    with hedgerow.open(tmp_path / "restored") as copy:
        assert copy[b"999"] == db[b"999"]
        assert b"new" not in copy
    assert backups.prune(1)[0] == 1
    with pytest.raises(hedgerow.InvalidArgumentError, match="a backup 1"):
        backups.verify(id=1)


def test_a_reader_beside_a_writer(db: Database) -> None:
    db[b"k"] = b"v"
    with pytest.raises(hedgerow.LockedError) as locked:
        hedgerow.open(db.path)
    assert isinstance(locked.value, OSError)
    with hedgerow.open(db.path, read_only=True) as reader:
        assert reader[b"k"] == b"v"
        with pytest.raises(hedgerow.UnsupportedError):
            reader[b"k"] = b"w"


def test_a_reader_of_a_database_without_the_default_keyspace(tmp_path: Path) -> None:
    with hedgerow.open(tmp_path, keyspace="users") as db:
        db[b"k"] = b"v"
    with hedgerow.open(tmp_path, read_only=True) as reader:
        assert reader.keyspace("users")[b"k"] == b"v"
        with pytest.raises(hedgerow.InvalidArgumentError, match="`default`"):
            reader.get(b"k")


def test_damage_is_an_error_with_its_place(tmp_path: Path) -> None:
    with hedgerow.open(tmp_path) as db:
        db.update({b"%d" % i: b"v" * 100 for i in range(1000)})
        db.flush()
    table = next(path for path in tmp_path.rglob("*") if path.suffix == ".table")
    damaged = bytearray(table.read_bytes())
    damaged[100] ^= 255
    table.write_bytes(damaged)
    with hedgerow.open(tmp_path) as db:
        with pytest.raises(hedgerow.CorruptionError) as error:
            db.verify()
        assert error.value.path is not None
        assert error.value.path.endswith(table.name)
        assert isinstance(error.value.offset, int)


def test_a_scan_over_damage_ends_in_an_error(tmp_path: Path) -> None:
    randoms = random.Random(1)
    with hedgerow.open(tmp_path) as db:
        db.update({b"%04d" % i: randoms.randbytes(100) for i in range(5000)})
        db.flush()
    table = max(tmp_path.rglob("*.table"), key=lambda path: path.stat().st_size)
    damaged = bytearray(table.read_bytes())
    damaged[len(damaged) // 2] ^= 255
    table.write_bytes(damaged)
    with hedgerow.open(tmp_path) as db:
        views: list[Any] = [db.items(), db.keys(), db.values(), db.items(prefix=b""), db.items(start=b"", stop=b"9")]
        for entries in [iter(view) for view in views] + [reversed(view) for view in views]:
            count = 0
            with pytest.raises(hedgerow.CorruptionError):
                for _ in entries:
                    count += 1
            assert 0 < count < 5000
        count = 0
        with pytest.raises(hedgerow.CorruptionError):
            for keys, _ in db.items().arrays(100):
                count += len(keys)
        assert 0 < count < 5000


def test_an_error_of_the_system_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(hedgerow.StorageError) as error:
        hedgerow.open(tmp_path / "file" / "db")
    assert isinstance(error.value, OSError)
    assert error.value.errno


def test_repair(tmp_path: Path) -> None:
    with hedgerow.open(tmp_path / "db") as db:
        db.update({b"%d" % i: b"" for i in range(100)})
        db.flush()
    for manifest in (tmp_path / "db").glob("MANIFEST*"):
        manifest.unlink()
    tables, entries, lost = hedgerow.repair(tmp_path / "db")
    assert (tables, entries, lost) == (1, 100, [])
