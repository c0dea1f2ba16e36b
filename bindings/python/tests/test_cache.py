"""The cache in the manner of diskcache."""

import threading
from pathlib import Path
from typing import Any

import pytest

from hedgerow import Cache
from hedgerow import cache as module


@pytest.fixture
def cache(tmp_path: Path) -> Any:
    with Cache(tmp_path / "cache") as cache:
        yield cache


class Clock:
    """A clock that is set by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000_000.0
        monkeypatch.setattr(module, "time", self)

    def time(self) -> float:
        return self.now


def test_any_key_and_any_value(cache: Cache) -> None:
    keys = [b"b", "s", 7, -(1 << 63), 1 << 70, 1.5, None, ("a", 1), frozenset([1]), True, "\udc80"]
    for number, key in enumerate(keys):
        assert cache.set(key, (number, key))
    for number, key in enumerate(keys):
        assert cache[key] == (number, key)
        assert key in cache
    assert list(cache) == keys
    assert list(reversed(cache)) == keys[::-1]
    assert len(cache) == len(keys)
    for value in (b"", "text", -1, 1 << 90, 2.5, {"a": [1]}, None):
        cache["k"] = value
        assert cache["k"] == value
    assert cache.delete("k")
    assert not cache.delete("k")
    with pytest.raises(KeyError):
        del cache["k"]
    with pytest.raises(KeyError):
        cache["k"]
    assert cache.get("k", 7) == 7


def test_equal_keys_are_one_key(cache: Cache) -> None:
    """A pickle refers to an object that it has already; an equal object was written again."""
    one, other = "".join(["a", "b"]), "".join(["a", "b"])
    assert one is not other
    cache[one, one] = 1
    assert cache[one, other] == 1
    cache.set("tagged", 2, tag=(one, one))
    assert cache.evict((one, other)) == 1
    cache[0.0] = 3
    assert cache[-0.0] == 3


def test_the_time_until_a_value_expires_is_a_number(cache: Cache) -> None:
    with pytest.raises(ValueError, match="nan"):
        cache.set("k", 1, expire=float("nan"))
    assert "k" not in cache


def test_values_expire_and_are_counted_out(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    cache.set("short", 1, expire=10)
    cache.set("long", 2, expire=100)
    cache.set("ever", 3)
    assert cache.get("short", expire_time=True) == (1, 1_000_010.0)
    assert cache.get("ever", expire_time=True, tag=True) == (3, None, None)
    clock.now += 10
    assert cache.get("short") is None
    assert "short" not in cache
    assert list(cache) == ["long", "ever"]
    assert len(cache) == 3
    assert cache.expire() == 1
    assert len(cache) == 2
    assert cache.touch("long", 1000)
    assert not cache.touch("short")
    clock.now += 500
    assert cache["long"] == 2
    assert cache.expire(clock.now + 1000) == 1
    assert list(cache) == ["ever"]


def test_tags_are_evicted(cache: Cache) -> None:
    cache.set("a", 1, tag="red")
    cache.set("b", 2, tag="red")
    cache.set("c", 3, tag="redder")
    cache.set("d", 4)
    assert cache.get("c", tag=True) == (3, "redder")
    cache.set("b", 5)
    assert cache.evict("red") == 1
    assert cache.evict("red") == 0
    assert list(cache) == ["c", "d", "b"]
    assert cache.pop("c", tag=True) == (3, "redder")
    assert cache.evict("redder") == 0


def test_numbers_are_counted(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    assert cache.incr("n") == 1
    assert cache.incr("n", 10) == 11
    assert cache.decr("n", 2) == 9
    assert cache.incr("m", default=5) == 6
    with pytest.raises(KeyError):
        cache.incr("x", default=None)
    cache.set("timed", 1, expire=10, tag="t")
    cache.incr("timed")
    assert cache.get("timed", expire_time=True, tag=True) == (2, clock.now + 10, "t")
    threads = [
        threading.Thread(target=lambda: [cache.incr("shared") for _ in range(100)])
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache["shared"] == 800


def test_an_add_stores_once(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    assert cache.add("k", 1, expire=10)
    assert not cache.add("k", 2)
    assert cache["k"] == 1
    clock.now += 20
    assert cache.add("k", 3)
    assert cache.pop("k") == 3
    assert cache.pop("k", 4) == 4


def test_the_oldest_are_removed_above_the_limit(tmp_path: Path) -> None:
    with Cache(tmp_path, size_limit=10_000) as cache:
        for number in range(100):
            cache.set(number, b"v" * 990)
            assert cache.volume() <= 10_000
        assert list(cache) == list(range(90, 100))
        cache.size_limit = 3000
        assert cache.cull() == 7
        assert list(cache) == [97, 98, 99]
        assert cache.clear() == 3
        assert (len(cache), cache.volume()) == (0, 0)


def test_expired_entries_are_removed_before_the_oldest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    with Cache(tmp_path, size_limit=3000) as cache:
        cache.set("oldest", b"v" * 900)
        cache.set("expired", b"v" * 900, expire=1)
        cache.set("third", b"v" * 900)
        clock.now += 5
        cache.set("fourth", b"v" * 900)
        assert list(cache) == ["oldest", "third", "fourth"]


def test_counts_survive_a_close_and_a_crash(tmp_path: Path) -> None:
    with Cache(tmp_path) as cache:
        for number in range(10):
            cache.set(number, b"v" * 100, tag="t")
        facts = len(cache), cache.volume()
    with Cache(tmp_path) as cache:
        assert (len(cache), cache.volume()) == facts
        # The process ends without closing the cache, only its database.
        cache._db.close()
    with Cache(tmp_path) as cache:
        assert (len(cache), cache.volume()) == facts
        assert cache.set("new", 1)
        assert list(cache)[-1] == "new"
        assert cache.evict("t") == 10
        assert cache.directory == str(tmp_path)


def test_lookups_are_counted(tmp_path: Path) -> None:
    with Cache(tmp_path, statistics=True) as cache:
        cache["k"] = 1
        cache.get("k")
        cache.get("x")
        cache.get("y")
        assert cache.stats(enable=False, reset=True) == (1, 2)
        cache.get("k")
        assert cache.stats() == (0, 0)


def test_results_of_functions_are_stored(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    calls = 0

    @cache.memoize(expire=60, tag="squares")
    def square(number: float, *, offset: int = 0) -> float:
        nonlocal calls
        calls += 1
        return number * number + offset

    assert square(3) == square(3) == 9
    assert square(3, offset=1) == square(3, offset=1) == 10
    assert calls == 2
    clock.now += 61
    assert square(3) == 9
    assert calls == 3
    assert cache.evict("squares") == 2
    assert square(3) == 9
    assert calls == 4
    assert square.__name__ == "square"
    assert square.__cache_key__(3) in cache  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="memoize"):
        cache.memoize(square)  # type: ignore[arg-type]

    @cache.memoize("typed", typed=True)
    def kind(value: object) -> str:
        return type(value).__name__

    assert (kind(1), kind(1.0), kind(True)) == ("int", "float", "bool")


def test_a_transaction_keeps_other_writers_out(cache: Cache) -> None:
    with cache.transact():
        other = threading.Thread(target=lambda: cache.set("k", "other"))
        other.start()
        cache.set("k", "mine")
        assert cache["k"] == "mine"
    other.join()
    assert cache["k"] == "other"
