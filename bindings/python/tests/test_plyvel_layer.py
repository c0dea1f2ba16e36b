"""The plyvel layer, where plyvel's own tests are not enough."""

import os
import random
from bisect import bisect_left
from pathlib import Path
from typing import Any

import pytest

from hedgerow import plyvel


def test_nothing_is_in_a_database_as_in_plyvel(tmp_path: Path) -> None:
    with plyvel.DB(tmp_path, create_if_missing=True) as db:
        db.put(b"a1", b"")
        prefixed = db.prefixed_db(b"a")
        for place in (db, prefixed, db.snapshot(), prefixed.snapshot(), iter(db)):
            with pytest.raises(TypeError, match="__contains__ is not supported"):
                assert b"a1" in place
            with pytest.raises(TypeError, match="__contains__ is not supported"):
                assert b"a1" not in place
        assert db.name == tmp_path


def test_errors_are_those_of_plyvel(tmp_path: Path) -> None:
    with pytest.raises(plyvel.IOError):
        plyvel.DB(tmp_path)
    with plyvel.DB(tmp_path, create_if_missing=True), pytest.raises(plyvel.IOError):
        plyvel.DB(tmp_path)
    with pytest.raises(plyvel.Error, match="already"):
        plyvel.DB(tmp_path, error_if_exists=True)
    with pytest.raises(plyvel.Error, match="comparator"):
        plyvel.DB(tmp_path, comparator=lambda a, b: 0, comparator_name=b"c")
    assert issubclass(plyvel.IOError, OSError)
    assert issubclass(plyvel.CorruptionError, plyvel.Error)


def test_a_released_snapshot_stays_released(tmp_path: Path) -> None:
    with plyvel.DB(tmp_path, create_if_missing=True) as db:
        db.put(b"k", b"v")
        kept = db.prefixed_db(b"k").snapshot()
        snapshot = db.snapshot()
        walk = snapshot.iterator()
        snapshot.release()
        snapshot.release()
        snapshot.close()
        # The iterator over it goes on.
        assert list(walk) == [(b"k", b"v")]
        for use in (lambda: snapshot.get(b"k"), snapshot.iterator, snapshot.raw_iterator):
            with pytest.raises(RuntimeError, match="the snapshot is closed"):
                use()
        assert kept.get(b"") == b"v"
    kept.release()
    with pytest.raises(RuntimeError):
        kept.get(b"")


def test_an_item_needs_a_position(tmp_path: Path) -> None:
    with plyvel.DB(tmp_path, create_if_missing=True) as db:
        db.put(b"k", b"v")
        iterator = db.raw_iterator()
        with pytest.raises(plyvel.IteratorInvalidError):
            iterator.item()
        iterator.seek_to_first()
        assert iterator.item() == (b"k", b"v")
        iterator.next()
        with pytest.raises(plyvel.IteratorInvalidError):
            iterator.item()
        iterator.close()
        for use in (iterator.item, iterator.valid, iterator.next):
            with pytest.raises(RuntimeError, match="closed"):
                use()


def test_a_database_is_destroyed_and_nothing_else(tmp_path: Path) -> None:
    place = tmp_path / "db"
    plyvel.destroy_db(place)  # there is nothing
    with plyvel.DB(place, create_if_missing=True) as db:
        db.put(b"k", b"v")
        with pytest.raises(plyvel.IOError):
            plyvel.destroy_db(place)
        assert db.get(b"k") == b"v"
    (place / "other").write_text("stays")
    plyvel.destroy_db(place)
    assert [path.name for path in place.iterdir()] == ["other"]
    plyvel.destroy_db(place)
    plyvel.destroy_db(place / "other")
    assert (place / "other").read_text() == "stays"
    (place / "other").unlink()
    plyvel.destroy_db(os.fsencode(place))
    assert not place.exists()
    for wrong in (None, 7):
        with pytest.raises(TypeError):
            plyvel.destroy_db(wrong)  # type: ignore[arg-type]


def test_a_repair_is_that_of_plyvel(tmp_path: Path) -> None:
    with plyvel.DB(os.fsencode(tmp_path), create_if_missing=True) as db:
        db.put(b"k", b"v")
        db.compact_range()
    for manifest in tmp_path.glob("MANIFEST*"):
        manifest.unlink()
    plyvel.repair_db(os.fsencode(tmp_path), bloom_filter_bits=10)
    with plyvel.DB(tmp_path) as db:
        assert db.get(b"k") == b"v"
    with pytest.raises(plyvel.Error, match="expected a database"):
        plyvel.repair_db(tmp_path / "none")
    with pytest.raises(TypeError, match="foo"):
        plyvel.repair_db(tmp_path, foo=1)  # type: ignore[call-arg]


def test_properties_count_files(tmp_path: Path) -> None:
    with plyvel.DB(tmp_path, create_if_missing=True, compression=None) as db:
        assert db.get_property(b"leveldb.num-files-at-level0") == b"0"
        for i in range(1000):
            db.put(b"%d" % i, b"v" * 100)
        db.compact_range()
        levels = [db.get_property(b"leveldb.num-files-at-level%d" % i) for i in range(8)]
        assert levels == [b"0"] * 6 + [b"1", None]


OPTIONS: list[dict[str, Any]] = [
    {},
    {"reverse": True},
    {"start": b"0100", "stop": b"0700"},
    {"start": b"0100", "stop": b"0700", "include_stop": True, "reverse": True},
    {"prefix": b"01"},
    {"include_value": False},
    {"include_key": False, "reverse": True},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_an_iterator_walks_as_a_list_does(tmp_path: Path, options: dict[str, Any]) -> None:
    seed = int(os.environ.get("HEDGEROW_SEED", "7"))
    print(f"HEDGEROW_SEED={seed}")
    randoms = random.Random(seed)
    # Some values are pages of their own.
    entries = [(b"%04d" % i, bytes([i % 256]) * (9000 if i % 97 == 0 else i % 50)) for i in range(1000)]
    with plyvel.DB(tmp_path, create_if_missing=True) as db:
        for key, value in entries:
            db.put(key, value)
        db.compact_range()
        iterator = db.iterator(**options)
        db.delete(b"0101")  # after the iterator was made
        stop = options.get("stop", b"~")
        prefix = options.get("prefix", b"")
        inside = [
            (key, value)
            for key, value in entries
            if key >= options.get("start", b"") and key.startswith(prefix)
            and (key < stop or (key == stop and "include_stop" in options))
        ]  # fmt: skip
        reverse = "reverse" in options
        place = len(inside) if reverse else 0

        def expected(forward: bool) -> Any:
            nonlocal place
            if place == (len(inside) if forward else 0):
                return StopIteration
            key, value = inside[place if forward else place - 1]
            place += 1 if forward else -1
            if not options.get("include_value", True):
                return key
            return (key, value) if options.get("include_key", True) else value

        for _ in range(400):
            match randoms.randrange(8):
                case 0:
                    iterator.seek_to_start()
                    place = 0
                case 1:
                    iterator.seek_to_stop()
                    place = len(inside)
                case 2:
                    key = b"%04d" % randoms.randrange(1000)
                    iterator.seek(key)
                    place = bisect_left([key for key, _ in inside], key)
                case _:
                    steps = randoms.choice([1, 2, 5, 30, 400])
                    is_back = randoms.random() < 0.4
                    for _ in range(steps):
                        try:
                            found: Any = iterator.prev() if is_back else next(iterator)
                        except StopIteration:
                            found = StopIteration
                        assert found == expected(is_back == reverse)


def test_an_iterator_over_damage_ends_in_an_error(tmp_path: Path) -> None:
    randoms = random.Random(1)
    with plyvel.DB(tmp_path, create_if_missing=True) as db:
        for i in range(5000):
            db.put(b"%04d" % i, randoms.randbytes(100))
        db.compact_range()
    table = max(tmp_path.rglob("*.table"), key=lambda path: path.stat().st_size)
    damaged = bytearray(table.read_bytes())
    damaged[len(damaged) // 2] ^= 255
    table.write_bytes(damaged)
    with plyvel.DB(tmp_path) as db:
        for reverse in (False, True):
            iterator, count = db.iterator(reverse=reverse), 0
            with pytest.raises(plyvel.CorruptionError):
                for _ in iterator:
                    count += 1
            assert 0 < count < 5000
            with pytest.raises(plyvel.CorruptionError):
                next(iterator)
            iterator.prev()
