"""A cache in files with expiry, tags and a limit of its size, in the manner of ``diskcache``.

>>> import hedgerow, tempfile
>>> with hedgerow.Cache(tempfile.mkdtemp(), size_limit=1 << 20) as cache:
...     cache.set("user:1", {"name": "Ada"}, expire=60, tag="users")
...     cache["user:1"], cache.evict("users"), cache.get("user:1")
True
({'name': 'Ada'}, 1, None)

One process uses a cache at a time, with any number of threads. Keys and values are of any type that
can be pickled; open only caches that you trust, as unpickling runs code.
"""

from __future__ import annotations

import functools
import io
import math
import os
import pickle
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, Self, TypeVar

from ._database import Batch, Database

__all__ = ["Cache"]

F = TypeVar("F", bound=Callable[..., Any])

#: A record: the number of its store, the time when it expires (0 is never), the bytes of its tag;
#: the tag and the value follow.
_HEAD = struct.Struct(">QdI")
_NUMBER = struct.Struct(">Q")
_SIZE = struct.Struct(">Q")
_DUE = struct.Struct(">d")
_INT = struct.Struct(">q")
_FLOAT = struct.Struct(">d")
_TAG_BYTES = struct.Struct(">I")
#: The entries that one store removes at most, while the cache is above its limit.
_CULL_LIMIT = 10
_MISSING: Any = object()


def _encode_key(key: Any) -> bytes:
    """The bytes of a key or a tag. Equal ones of one type have equal bytes.

    Sets of texts are an exception: their order, and so their bytes, may differ between processes.
    """
    # Both zeros are one key.
    return _encode(key + 0.0 if type(key) is float else key, _pickle_plainly)


def _pickle_plainly(key: Any) -> bytes:
    """The pickle of a key that repeats an object that is in two places, as equal objects are."""
    out = io.BytesIO()
    pickler = pickle.Pickler(out, protocol=5)
    pickler.fast = True
    pickler.dump(key)
    return out.getvalue()


def _pickle(value: Any) -> bytes:
    return pickle.dumps(value, protocol=5)


def _encode(value: Any, pickled: Callable[[Any], bytes] = _pickle) -> bytes:
    """The bytes of a value."""
    kind = type(value)
    if kind is bytes:
        return b"".join((b"b", value))
    if kind is str:
        return b"".join((b"s", value.encode("utf-8", "surrogatepass")))
    if kind is int and -(1 << 63) <= value < 1 << 63:
        return b"i" + _INT.pack(value)
    if kind is float:
        return b"f" + _FLOAT.pack(value)
    return b"p" + pickled(value)


def _decode(encoded: bytes) -> Any:
    kind, body = encoded[:1], encoded[1:]
    if kind == b"b":
        return body
    if kind == b"s":
        return body.decode("utf-8", "surrogatepass")
    if kind == b"i":
        return _INT.unpack(body)[0]
    if kind == b"f":
        return _FLOAT.unpack(body)[0]
    return pickle.loads(body)


class _Record:
    """A stored value with what belongs to it."""

    __slots__ = ("expires", "number", "tag", "value")

    def __init__(self, stored: bytes) -> None:
        self.number, self.expires, tag_bytes = _HEAD.unpack_from(stored)
        end = _HEAD.size + tag_bytes
        self.tag, self.value = stored[_HEAD.size : end], stored[end:]


class Cache:
    """A cache in a directory: a mapping whose entries expire, have tags, and are removed in the
    order in which they were stored when all are larger than ``size_limit`` bytes together.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        size_limit: int = 1 << 30,
        memory: int | None = None,
        statistics: bool = False,
    ) -> None:
        self._db = Database(directory, memory=memory)
        self._entries = self._db.keyspace("entries", layout="hashed")
        #: The number of each store, to its key and size.
        self._order = self._db.keyspace("order")
        #: The time of each expiry and the number of the store, to the key.
        self._due = self._db.keyspace("due")
        #: Each tag with each of its keys.
        self._tags = self._db.keyspace("tags")
        self._lock = threading.RLock()
        self.size_limit = size_limit
        self._counts_lookups = statistics
        self._hits = self._misses = 0
        last = self._order.last()
        self._next = _NUMBER.unpack(last[0])[0] + 1 if last else 1
        self._count, self._bytes = self._counted()

    def _counted(self) -> tuple[int, int]:
        """The number of stored entries and their bytes: as the last close left them, or counted."""
        left = self._db.pop(b"counted", None)
        if left is not None:
            return _NUMBER.unpack_from(left)[0], _SIZE.unpack_from(left, _NUMBER.size)[0]
        count = size = 0
        for stored in self._order.values():
            count += 1
            size += _SIZE.unpack_from(stored)[0]
        return count, size

    # Reading.

    def get(
        self, key: Any, default: Any = None, *, expire_time: bool = False, tag: bool = False
    ) -> Any:
        """The value of a key, or ``default``.

        With ``expire_time`` or ``tag``, a tuple with the time when it expires, in seconds since
        1970, or its tag; ``None`` stands for none.
        """
        record = self._live(_encode_key(key))
        if self._counts_lookups:
            with self._lock:
                self._hits += record is not None
                self._misses += record is None
        value = default if record is None else _decode(record.value)
        return _with_facts(value, record, expire_time, tag)

    def __getitem__(self, key: Any) -> Any:
        value = self.get(key, _MISSING)
        if value is _MISSING:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return self._live(_encode_key(key)) is not None

    def __len__(self) -> int:
        """The number of entries, with expired ones that were not removed yet."""
        return self._count

    def __iter__(self) -> Iterator[Any]:
        """The keys, in the order in which they were stored."""
        return self._keys(reverse=False)

    def __reversed__(self) -> Iterator[Any]:
        return self._keys(reverse=True)

    def _keys(self, reverse: bool) -> Iterator[Any]:
        for stored in self._order.values(reverse=reverse):
            key = stored[_SIZE.size :]
            if self._live(key) is not None:
                yield _decode(key)

    # Writing.

    def set(
        self, key: Any, value: Any, expire: float | None = None, *, tag: Any = None
    ) -> bool:
        """Store a value, for ``expire`` seconds if given, with a tag if given. Returns true."""
        encoded = _encode_key(key)
        with self._lock:
            self._store(encoded, _encode(value), expire, b"" if tag is None else _encode_key(tag))
        return True

    def __setitem__(self, key: Any, value: Any) -> None:
        self.set(key, value)

    def add(
        self, key: Any, value: Any, expire: float | None = None, *, tag: Any = None
    ) -> bool:
        """Store a value if the key has none. Returns true if it had none."""
        with self._lock:
            return key not in self and self.set(key, value, expire, tag=tag)

    def incr(self, key: Any, delta: int = 1, default: int | None = 0) -> int:
        """Add to the number of a key, which is ``default`` if it has none. Returns the new one.

        Raises ``KeyError`` if it has none and ``default`` is ``None``.
        """
        encoded = _encode_key(key)
        with self._lock:
            record = self._live(encoded)
            if record is None:
                if default is None:
                    raise KeyError(key)
                value = default + delta
                self._store(encoded, _encode(value), None, b"")
                return value
            number: int = _decode(record.value) + delta
            self._store(encoded, _encode(number), _rest(record), record.tag)
            return number

    def decr(self, key: Any, delta: int = 1, default: int | None = 0) -> int:
        """Subtract from the number of a key, as :meth:`incr` adds to it."""
        return self.incr(key, -delta, default)

    def touch(self, key: Any, expire: float | None = None) -> bool:
        """Change the seconds until a value expires. Returns false if there is none."""
        encoded = _encode_key(key)
        with self._lock:
            record = self._live(encoded)
            if record is None:
                return False
            self._store(encoded, record.value, expire, record.tag)
            return True

    def pop(
        self, key: Any, default: Any = None, *, expire_time: bool = False, tag: bool = False
    ) -> Any:
        """Take the value of a key; as :meth:`get`."""
        encoded = _encode_key(key)
        with self._lock:
            record = self._live(encoded)
            if record is not None:
                self._remove([encoded])
        value = default if record is None else _decode(record.value)
        return _with_facts(value, record, expire_time, tag)

    def delete(self, key: Any) -> bool:
        """Remove a key. Returns false if it has no value."""
        return self.pop(key, _MISSING) is not _MISSING

    def __delitem__(self, key: Any) -> None:
        if not self.delete(key):
            raise KeyError(key)

    # Removing many.

    def evict(self, tag: Any) -> int:
        """Remove all entries with a tag. Returns their number."""
        front = _tag_front(_encode_key(tag))
        with self._lock:
            return self._remove(key[len(front) :] for key in self._tags.keys(prefix=front))

    def expire(self, now: float | None = None) -> int:
        """Remove the entries that have expired. Returns their number.

        Expired entries are absent without this; it gives their part of ``size_limit`` back.
        """
        stop = _due_until(time.time() if now is None else now)
        with self._lock:
            return self._remove(self._due.values(stop=stop))

    def cull(self) -> int:
        """Remove expired entries, and then the oldest until all are within the limit."""
        with self._lock:
            removed = self.expire()
            while self._bytes > self.size_limit and (some := self._oldest()):
                removed += self._remove(some)
            return removed

    def clear(self) -> int:
        """Remove all entries. Returns their number."""
        with self._lock:
            removed, self._count, self._bytes = self._count, 0, 0
            for keyspace in (self._entries, self._order, self._due, self._tags):
                keyspace.clear()
            return removed

    # Facts.

    @property
    def directory(self) -> str:
        """The directory of the cache."""
        return self._db.path

    def volume(self) -> int:
        """The bytes of all stored keys and values."""
        return self._bytes

    def stats(self, enable: bool = True, reset: bool = False) -> tuple[int, int]:
        """The lookups that found a value and those that did not, since they were counted.

        ``enable`` says whether lookups are counted from now on; ``reset`` begins at zero.
        """
        with self._lock:
            counted = self._hits, self._misses
            self._counts_lookups = enable
            if reset:
                self._hits = self._misses = 0
            return counted

    # Functions.

    def memoize(
        self,
        name: str | None = None,
        typed: bool = False,
        expire: float | None = None,
        tag: Any = None,
    ) -> Callable[[F], F]:
        """A decorator that stores the results of a function by its arguments.

        ``typed`` distinguishes arguments that are equal but of different types.
        """
        if callable(name):
            raise TypeError("expected a name, found a function: write @cache.memoize()")

        def decorate(function: F) -> F:
            base = name or f"{function.__module__}.{function.__qualname__}"

            def cache_key(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
                named = tuple(sorted(kwargs.items()))
                key: tuple[Any, ...] = (base, args, named)
                if typed:
                    values = (*args, *(value for _, value in named))
                    key += (tuple(type(value).__qualname__ for value in values),)
                return key

            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                key = cache_key(*args, **kwargs)
                result = self.get(key, _MISSING)
                if result is _MISSING:
                    result = function(*args, **kwargs)
                    self.set(key, result, expire, tag=tag)
                return result

            wrapper.__cache_key__ = cache_key  # type: ignore[attr-defined]
            return wrapper  # type: ignore[return-value]

        return decorate

    @contextmanager
    def transact(self) -> Iterator[None]:
        """Keep other threads from writing."""
        with self._lock:
            yield

    def close(self) -> None:
        """Close the cache."""
        with self._lock:
            if not self._db.closed:
                self._db.put(b"counted", _NUMBER.pack(self._count) + _SIZE.pack(self._bytes))
                self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The records. Writers have the lock.

    def _live(self, key: bytes) -> _Record | None:
        """The record of a key, unless it has expired."""
        stored = self._entries.get(key)
        if stored is None:
            return None
        record = _Record(stored)
        return None if 0 < record.expires <= time.time() else record

    def _store(self, key: bytes, value: bytes, expire: float | None, tag: bytes) -> None:
        number, self._next = self._next, self._next + 1
        if expire is not None and math.isnan(expire):
            raise ValueError("expected a number of seconds, found nan")
        expires = 0.0 if expire is None else time.time() + expire
        size = len(key) + len(value)
        old = self._entries.get(key)
        with self._db.batch() as batch:
            if old is not None:
                self._forget(batch, key, _Record(old))
            head = _HEAD.pack(number, expires, len(tag))
            batch.put(key, head + tag + value, keyspace=self._entries)
            batch.put(_NUMBER.pack(number), _SIZE.pack(size) + key, keyspace=self._order)
            if expires:
                due = _DUE.pack(expires) + _NUMBER.pack(number)
                batch.put(due, key, keyspace=self._due)
            if tag:
                batch.put(_tag_front(tag) + key, b"", keyspace=self._tags)
        self._count += 1
        self._bytes += size
        if self._bytes > self.size_limit:
            due_now = self._due.values(stop=_due_until(time.time()))
            self._remove(list(islice(due_now, _CULL_LIMIT)) or self._oldest())

    def _oldest(self) -> list[bytes]:
        """The keys of the oldest entries: those above the limit, but not many."""
        found, above = [], self._bytes - self.size_limit
        for stored in islice(self._order.values(), _CULL_LIMIT):
            if above > 0:
                found.append(stored[_SIZE.size :])
                above -= _SIZE.unpack_from(stored)[0]
        return found

    def _remove(self, keys: Iterable[bytes]) -> int:
        """Remove stored keys with all that belongs to them. Returns their number."""
        before = self._count
        with self._db.batch() as batch:
            for key in keys:
                stored = self._entries.get(key)
                if stored is not None:
                    self._forget(batch, key, _Record(stored))
                    batch.delete(key, keyspace=self._entries)
        return before - self._count

    def _forget(self, batch: Batch, key: bytes, record: _Record) -> None:
        """Remove what belongs to a record."""
        number = _NUMBER.pack(record.number)
        batch.delete(number, keyspace=self._order)
        if record.expires:
            batch.delete(_DUE.pack(record.expires) + number, keyspace=self._due)
        if record.tag:
            batch.delete(_tag_front(record.tag) + key, keyspace=self._tags)
        self._count -= 1
        self._bytes -= len(key) + len(record.value)


def _due_until(now: float) -> bytes:
    """The end of the times that are due: all numbers of a time sort behind the time alone."""
    return _DUE.pack(now) + b"\xff" * _NUMBER.size


def _tag_front(tag: bytes) -> bytes:
    """The bytes that the keys of a tag begin with."""
    return _TAG_BYTES.pack(len(tag)) + tag


def _rest(record: _Record) -> float | None:
    """The seconds until a record expires; ``None`` if it does not."""
    return record.expires - time.time() if record.expires else None


def _with_facts(value: Any, record: _Record | None, expire_time: bool, tag: bool) -> Any:
    """A value, with its time of expiry and its tag if they are wanted."""
    facts: tuple[Any, ...] = ()
    if expire_time:
        facts += ((record and record.expires) or None,)
    if tag:
        facts += (_decode(record.tag) if record and record.tag else None,)
    return (value, *facts) if facts else value
