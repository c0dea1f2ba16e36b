"""A keyspace is a mapping."""

from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

import hedgerow
from hedgerow import Database


def test_a_database_is_a_mutable_mapping(db: Database) -> None:
    assert isinstance(db, MutableMapping)
    assert not db
    db[b"ada"] = b"1815"
    db.put(b"grace", b"1906", sync=True)
    assert db
    assert db[b"ada"] == b"1815"
    assert db.get(b"alan") is None
    assert db.get(b"alan", 7) == 7
    assert b"ada" in db
    assert b"alan" not in db
    assert dict(db) == {b"ada": b"1815", b"grace": b"1906"}
    with pytest.raises(KeyError) as missing:
        db[b"alan"]
    assert missing.value.args == (b"alan",)
    with pytest.raises(KeyError):
        del db[b"alan"]
    del db[b"ada"]
    assert list(db) == [b"grace"]
    db.delete(b"never-there")


def test_a_length_is_refused_because_it_would_read_everything(db: Database) -> None:
    db.update({b"%d" % i: b"" for i in range(100)})
    with pytest.raises(TypeError, match="approximate_len"):
        len(db)
    with pytest.raises(TypeError):
        len(db.keys())
    assert db.approximate_len() == 100
    assert db.approximate_bytes() > 0


def test_pops_defaults_and_updates_are_those_of_a_mapping(db: Database) -> None:
    db.update({b"a": b"1"})
    db.update([(b"b", b"2"), (b"c", b"3")])
    assert db.pop(b"a") == b"1"
    assert db.pop(b"a", None) is None
    with pytest.raises(KeyError):
        db.pop(b"a")
    with pytest.raises(TypeError):
        db.pop(b"a", 1, 2)  # type: ignore[call-overload]
    assert db.setdefault(b"b", b"9") == b"2"
    assert db.setdefault(b"d", b"4") == b"4"
    assert db.popitem() == (b"b", b"2")
    assert db.pop_last() == (b"d", b"4")
    assert db.first() == db.last() == (b"c", b"3")
    db.clear()
    with pytest.raises(KeyError):
        db.popitem()


def test_ranges_are_views_that_begin_anew(db: Database) -> None:
    entries = {b"%03d" % i: b"v%d" % i for i in range(300)}
    db.put_many(list(entries), list(entries.values()))
    keys = list(entries)
    assert list(db.keys()) == keys
    assert list(db.values()) == list(entries.values())
    assert list(db.items()) == list(entries.items())
    assert list(db.keys(start=b"100", stop=b"110")) == keys[100:110]
    assert list(db.keys(start=b"100", stop=b"110", reverse=True)) == keys[109:99:-1]
    assert list(db.keys(prefix=b"29")) == keys[290:]
    assert list(reversed(db.keys(prefix=b"29"))) == keys[:289:-1]
    assert list(reversed(db)) == keys[::-1]
    assert list(db.keys(start=b"2", stop=b"1")) == []
    view = db.items(start=b"298")
    assert list(view) == list(view) == list(entries.items())[298:]
    assert (b"299", b"v299") in view
    assert (b"299", b"other") not in view
    assert b"100" in db.keys(stop=b"200")
    assert b"200" not in db.keys(stop=b"200")
    assert b"v7" in db.values()
    assert db.keys(stop=b"003") & {b"001", b"007"} == {b"001"}
    with pytest.raises(TypeError, match="both"):
        db.keys(prefix=b"a", start=b"a")
    with pytest.raises(TypeError):
        db.keys(b"a")  # type: ignore[call-arg]


def test_an_iterator_reads_the_moment_of_its_beginning(db: Database) -> None:
    db.update({b"%04d" % i: b"" for i in range(2000)})
    it = iter(db.keys())
    assert next(it) == b"0000"
    db.delete_range()
    assert sum(1 for _ in it) == 1999
    assert not db


def test_everything_that_shows_bytes_is_a_key_or_a_value(db: Database) -> None:
    for key in (bytearray(b"k"), memoryview(b"xkx")[1:2], memoryview(b"k-k-")[::2][:1]):
        db[key] = memoryview(b"value")[1:]
        assert db.pop(b"k") == b"alue"
    for wrong in ("k", 7, None, [b"k"]):
        with pytest.raises(TypeError, match="bytes-like"):
            db.get(wrong)  # type: ignore[call-overload]
        with pytest.raises(TypeError):
            db[b"k"] = wrong  # type: ignore[assignment]
    db[b""] = b""
    assert db[b""] == b""


def test_what_is_no_key_is_a_type_error_in_every_view(db: Database) -> None:
    db[b"\0\0\0"] = b"\0"
    entry: Any = (bytearray(3), memoryview(b"\0"))
    assert entry in db.items(start=b"")
    assert memoryview(b"\0") in db.values()
    # As for `n in db`. `bytes(3)` would be a key, and `bytes(1 << 60)` all memory.
    wrongs: list[Any] = [3, -1, 1 << 60, "k", None, 2.5]
    for wrong in wrongs:
        for mapping in (db, db.snapshot(), db.transaction()):
            for view in (mapping, mapping.keys(), mapping.keys(start=b"a"), mapping.values()):
                with pytest.raises(TypeError, match="expected a bytes-like object, found"):
                    wrong in view
            with pytest.raises(TypeError, match="expected a bytes-like object, found"):
                (wrong, b"v") in mapping.items()
            with pytest.raises(TypeError, match="expected a bytes-like object, found"):
                (b"k", wrong) in mapping.items()
            with pytest.raises(TypeError, match="expected a tuple of a key and a value, found"):
                wrong in mapping.items()


def test_limits_are_errors_with_their_numbers(db: Database) -> None:
    with pytest.raises(hedgerow.InvalidArgumentError, match="65536 bytes, found 65537") as error:
        db[b"k" * 65537] = b""
    assert isinstance(error.value, ValueError)


def test_many_keys_at_once(db: Database) -> None:
    db.put_many([b"a", b"b"], [b"1", b"2"])
    assert db.get_many([b"a", b"x", b"b"]) == [b"1", None, b"2"]
    assert db.get_many((b"x",), default=b"?") == [b"?"]
    assert db.get_many(iter([b"b"])) == [b"2"]
    with pytest.raises(ValueError, match="expected 2 values for 2 keys, found 1"):
        db.put_many([b"c", b"d"], [b"1"])
    with pytest.raises(TypeError):
        db.put_many([b"c", "d"], [b"1", b"2"])
    assert b"c" not in db


def test_a_hashed_keyspace_is_a_mapping_without_order(db: Database) -> None:
    records = db.keyspace("records", layout="hashed", partitions="hash:2")
    assert records.layout == "hashed hash:2"
    for i in range(50):
        records[b"%d" % i] = b"x"
    assert sorted(records) == sorted(b"%d" % i for i in range(50))
    with pytest.raises(hedgerow.InvalidArgumentError):
        list(records.keys(start=b"1"))
    key, _ = records.popitem()
    assert key not in records


def test_a_semi_sorted_keyspace_is_scanned_by_prefixes(db: Database) -> None:
    posts = db.keyspace("posts", layout=hedgerow.semi_sorted(4))
    for user in (b"ada!", b"alan"):
        for i in range(5):
            posts[user + b"%d" % i] = b""
    assert len(list(posts.keys(prefix=b"alan"))) == 5
    assert hedgerow.semi_sorted(delimiter="/") == "semi-sorted:delimiter=0x2f"
    assert hedgerow.semi_sorted() == "semi-sorted:length-prefixed"


def test_paths_of_pathlib_and_text(tmp_path: Path) -> None:
    with hedgerow.open(tmp_path / "a") as db:
        assert db.path == str(tmp_path / "a")
    with hedgerow.open(str(tmp_path / "a"), create=False):
        pass
    assert hedgerow.exists(tmp_path / "a")
    hedgerow.destroy(tmp_path / "a")
    assert not hedgerow.exists(tmp_path / "a")
    with pytest.raises(FileNotFoundError):
        hedgerow.open(tmp_path / "b", create=False)
    with pytest.raises(TypeError):
        hedgerow.open(123)  # type: ignore[arg-type]
