"""The change feed."""

import threading
import time
from pathlib import Path

import pytest

import hedgerow
from hedgerow import Change, Changes, Database


def test_changes_come_in_order(db: Database) -> None:
    number = db.create_slot("index")
    assert db.slots()["index"] == hedgerow.Slot(number, 1 << 30)
    users = db.keyspace("users", merge_operator="append")
    changes = db.changes_since(number)
    created = next(changes)
    assert (created.kind, created.keyspace) == ("create", "users")
    assert created.value == b"sorted merge:append"
    assert list(changes) == []

    with db.batch() as batch:
        batch.put(b"a", b"1", keyspace=users)
        batch.put(b"b", b"2", keyspace=users, expire=3600)
        batch.merge(b"a", b"+", keyspace=users)
        batch.delete(b"b", keyspace=users)
        batch.delete_range(b"c", b"e", keyspace=users)
    found = list(changes)
    last = found[-1].number
    assert {change.number for change in found} == {last}
    assert [change.is_last for change in found] == [False] * 4 + [True]
    expires = found[1].expires
    assert expires is not None
    assert expires == pytest.approx(time.time() + 3600, abs=60)
    assert [change[2:] for change in found] == [
        ("put", "users", b"a", b"1", None),
        ("put", "users", b"b", b"2", expires),
        ("merge", "users", b"a", b"+", None),
        ("delete", "users", b"b", None, None),
        ("delete_range", "users", b"c", b"e", None),
    ]
    db.confirm_slot("index", last)
    assert db.slots()["index"].position == last
    with pytest.raises(hedgerow.InvalidArgumentError):
        db.confirm_slot("index", last - 1)

    db.bulk_load((b"%04d" % i, b"v") for i in range(1000))
    db.rename_keyspace("users", "people")
    users.set_time_to_live(5)
    users.clear()
    db.drop_keyspace("people")
    loaded = list(changes)
    assert [change.key for change in loaded[:1000]] == [b"%04d" % i for i in range(1000)]
    assert [change.is_last for change in loaded[998:1000]] == [False, True]
    assert [(change.kind, change.value, change.expires) for change in loaded[1000:]] == [
        ("rename", b"people", None),
        ("set_time_to_live", None, 5),
        ("clear", None, None),
        ("drop", None, None),
    ]
    assert [change.number for change in db.changes_since(last)] == [c.number for c in loaded]
    changes.close()
    with pytest.raises(hedgerow.ClosedError):
        next(changes)
    db.drop_slot("index")
    assert db.slots() == {}


def test_changes_are_waited_for(db: Database) -> None:
    number = db.create_slot("waiting")
    with db.changes_since(number) as changes:
        assert changes.wait(0.05) is None
        timer = threading.Timer(0.1, db.put, (b"a", b"1"))
        timer.start()
        assert changes.wait() == Change(number + 1, True, "put", "default", b"a", b"1", None)
        timer.join()
        with pytest.raises(ValueError, match="expected seconds"):
            changes.wait(-1)
        db.close()
        with pytest.raises(hedgerow.ClosedError):
            next(changes)


def test_another_reads_the_changes_of_the_files(db: Database) -> None:
    number = db.create_slot("copy")
    changes = Changes(Path(db.path), number)
    db[b"a"] = b"1"
    change = changes.wait(10)
    assert change is not None
    assert (change.key, change.value) == (b"a", b"1")
    db.close()
    assert changes.wait(0.05) is None


def test_changes_that_are_not_kept_are_a_gap(tmp_path: Path) -> None:
    with hedgerow.open(tmp_path, memory=32 << 20, log_segment_bytes=1 << 20) as db:
        number = db.create_slot("slow", log_bytes_max=1)
        db.create_slot("quick")
        for i in range(40):
            db.put_many([b"%d-%d" % (i, j) for j in range(100)], [bytes(1000)] * 100)
            db.flush()
        changes = list(db.changes_since(db.slots()["quick"].position))
        assert len(changes) == 4000
        db.confirm_slot("quick", changes[-1].number)
        db.flush()
        with pytest.raises(hedgerow.GapError) as raised:
            list(db.changes_since(number))
        assert number < raised.value.number <= changes[-1].number
