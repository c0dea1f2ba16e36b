"""The plyvel layer, where plyvel's own tests are not enough."""

from pathlib import Path

import pytest

from hedgerow import plyvel


def test_keys_are_in_a_database_its_prefixes_and_its_snapshots(tmp_path: Path) -> None:
    with plyvel.DB(tmp_path, create_if_missing=True) as db:
        db.put(b"a1", b"")
        assert b"a1" in db
        assert b"a2" not in db
        prefixed = db.prefixed_db(b"a")
        assert b"1" in prefixed
        assert b"a1" not in prefixed
        snapshot = prefixed.snapshot()
        db.put(b"a2", b"")
        assert b"1" in snapshot
        assert b"2" not in snapshot
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


def test_properties_count_files(tmp_path: Path) -> None:
    with plyvel.DB(tmp_path, create_if_missing=True, compression=None) as db:
        assert db.get_property(b"leveldb.num-files-at-level0") == b"0"
        for i in range(1000):
            db.put(b"%d" % i, b"v" * 100)
        db.compact_range()
        levels = (db.get_property(b"leveldb.num-files-at-level%d" % i) for i in range(8))
        assert sum(int(level or b"0") for level in levels) == 1
