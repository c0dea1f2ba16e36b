"""Arrays of NumPy and Arrow, without a Python object for each key."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hedgerow
from hedgerow import Database

COUNT = 50_000


def test_strings_of_numpy(db: Database) -> None:
    keys = np.array([b"ada", b"grace", b"alan"], "S16")
    db.put_many(keys, np.array([b"1815", b"1906", b"1912"]))
    assert db[b"ada"] == b"1815"
    found = db.get_many(np.array([b"alan", b"nobody", b"ada"]))
    assert isinstance(found, hedgerow.BytesArray)
    assert list(found) == [b"1912", None, b"1815"]
    assert found[-1] == b"1815"
    assert (len(found), found.null_count) == (3, 1)
    assert found.to_numpy().tolist() == [b"1912", b"", b"1815"]
    with pytest.raises(IndexError):
        found[3]
    with pytest.raises(ValueError, match="1 missing"):
        found.to_numpy("u1")


def test_rows_of_numpy(db: Database) -> None:
    keys = np.arange(COUNT, dtype=">u4").view(np.uint8).reshape(COUNT, 4)
    values = np.arange(COUNT * 3, dtype="f4").reshape(COUNT, 3)
    db.put_many(keys, values)
    assert db[(7).to_bytes(4)] == values[7].tobytes()
    assert (db.get_many(keys).to_numpy("f4") == values).all()
    assert (db.get_many(keys[::-2]).to_numpy("f4") == values[::-2]).all()
    with db.snapshot() as snapshot:
        db.clear()
        assert (snapshot.get_many(keys).to_numpy("f4") == values).all()
    assert db.get_many(keys).null_count == COUNT
    assert db.get_many(keys[:0]).to_numpy("f4").shape == (0, 0)


def test_arrays_of_arrow_come_and_go_without_a_copy(db: Database) -> None:
    keys = [b"%d" % i for i in range(1000)]
    for kind in (pa.binary(), pa.large_binary(), pa.string(), pa.large_string()):
        array = pa.array(keys, pa.binary()).cast(kind)
        db.put_many(array, array)
        assert db[b"999"] == b"999"
        found = db.get_many(array[10:20])
        assert isinstance(found, pa.BinaryArray)
        found.validate(full=True)
        assert found.to_pylist() == keys[10:20]
        db.clear()
    fixed = pa.array([b"abcd", b"efgh", b"ijkl"], pa.binary(4))
    db.put_many(fixed[1:], fixed[:2])
    assert db.get_many(fixed).to_pylist() == [None, b"abcd", b"efgh"]
    assert db.get_many(pa.chunked_array([fixed[:1], fixed[1:]])).to_pylist()[1] == b"abcd"
    assert pa.array(db.get_many(np.array([b"ijkl", b"x"]))).to_pylist() == [b"efgh", None]
    assert db.get_many(fixed[:0]).to_pylist() == []


def test_a_range_is_read_into_arrays(db: Database) -> None:
    keys = np.arange(1000, dtype=">u4").view(np.uint8).reshape(1000, 4)
    values = np.arange(1000, dtype="f8")
    db.put_many(keys, values)
    parts = list(db.items(start=(100).to_bytes(4)).arrays(entries=250))
    assert [len(part) for part, _ in parts] == [250, 250, 250, 150]
    found = np.concatenate([part.to_numpy("f8") for _, part in parts])
    assert (found[:, 0] == values[100:]).all()
    assert bytes(parts[0][0].to_numpy("u1")[0]) == (100).to_bytes(4)
    reverse = next(db.items(reverse=True).arrays())
    assert reverse[1].to_numpy("f8")[0, 0] == 999
    assert list(db.items(stop=b"").arrays()) == []
    with pytest.raises(ValueError, match="more than no"):
        next(db.items().arrays(entries=0))


def test_a_result_outlives_the_database(db: Database) -> None:
    db[b"k"] = b"v" * 100
    found = db.get_many(pa.array([b"k"], pa.binary()))
    db.close()
    assert found.to_pylist() == [b"v" * 100]


def test_wrong_arrays_are_errors(db: Database) -> None:
    two = pa.array([b"a", b"b"], pa.binary())
    for keys, error, words in [
        (np.array([1, 2]), TypeError, "int64"),
        (np.array(["a", "b"]), TypeError, "<U1"),
        (np.array([b"a", None]), TypeError, "object"),
        (np.zeros((2, 2, 2), "u1"), TypeError, "3 dimensions"),
        (pa.array([1, 2]), TypeError, "format `l`"),
        (pa.array([b"a", None], pa.binary()), ValueError, "without nulls"),
        (two.dictionary_encode(), TypeError, "format `i`"),
    ]:
        with pytest.raises(error, match=words):
            db.put_many(keys, two)
        with pytest.raises(error, match=words):
            db.get_many(keys)
    with pytest.raises(ValueError, match="expected 2 values for 2 keys, found 1"):
        db.put_many(two, two[:1])
    assert not db


def test_offsets_that_are_not_aligned_are_refused(db: Database) -> None:
    for kind, dtype in ((pa.binary(), np.int32), (pa.large_string(), np.int64)):
        offsets = np.array([0, 1, 3], dtype).tobytes()
        for shift in range(np.dtype(dtype).itemsize):
            buffer = pa.py_buffer(bytes(shift) + offsets)[shift:]
            is_aligned = buffer.address % np.dtype(dtype).itemsize == 0
            array = pa.Array.from_buffers(kind, 2, [None, buffer, pa.py_buffer(b"abc")])
            if is_aligned:
                db.put_many(array, array)
                assert dict(db) == {b"a": b"a", b"bc": b"bc"}
                db.clear()
                continue
            for call in (lambda it: db.put_many(it, it), db.get_many):
                with pytest.raises(ValueError, match="expected an Arrow array whose offsets are"):
                    call(array)
    assert not db


def test_one_side_may_be_a_list(db: Database) -> None:
    db.put_many(np.array([b"a", b"b"]), [b"1", b"2"])
    db.put_many([b"c"], np.array([b"3"]))
    assert dict(db) == {b"a": b"1", b"b": b"2", b"c": b"3"}


def traced(call: Callable[[], Any]) -> tuple[Any, int]:
    """The result of a call, and the most Python objects that were there during it."""
    import gc

    gc.collect()
    tracemalloc.start()
    try:
        result = call()
        blocks = sum(trace.count for trace in tracemalloc.take_snapshot().statistics("filename"))
    finally:
        tracemalloc.stop()
    return result, blocks


def test_no_python_object_is_made_for_a_key(db: Database) -> None:
    keys = np.arange(COUNT, dtype=">u4").view(np.uint8).reshape(COUNT, 4)
    texts = pa.array(list(map(bytes, keys)), pa.binary())
    _, put = traced(lambda: db.put_many(keys, keys))
    found, got = traced(lambda: db.get_many(keys))
    arrow, got_arrow = traced(lambda: db.get_many(texts))
    listed, got_list = traced(lambda: db.get_many(texts.to_pylist()))
    assert max(put, got, got_arrow) < 1000
    # The measure finds objects where there are some.
    assert got_list > COUNT
    assert len(found) == len(arrow) == len(listed) == COUNT


def test_a_get_of_arrays_takes_no_memory_of_python(db: Database) -> None:
    keys = np.arange(COUNT, dtype=">u4").view(np.uint8).reshape(COUNT, 4)
    db.put_many(keys, np.zeros((COUNT, 100), "u1"))
    tracemalloc.start()
    try:
        found = db.get_many(keys)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(found) == COUNT
    # One copy of the keys; not a tenth of what an object for each key would take.
    assert peak < keys.nbytes + (64 << 10)
