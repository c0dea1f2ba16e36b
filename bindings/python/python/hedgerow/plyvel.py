"""The interface of plyvel 1.5 over hedgerow: ``from hedgerow import plyvel``.

Databases are Hedgerow's, not LevelDB's. Keys are in the order of their bytes, so there is no
``comparator``. They have at most 64 KiB. Options that say how LevelDB works inside
(``paranoid_checks``, ``max_open_files``, ``block_restart_interval``, ``max_file_size``,
``verify_checksums``, ``fill_cache``) are taken and have no effect: checksums are always verified.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator as _Iterator
from typing import Any, Self

from . import _native, errors
from ._database import Keyspace, Snapshot as _Snapshot
from ._native import exists as _exists
from ._ranges import as_bytes
from ._types import Buffer

__version__ = "1.5.1"
__leveldb_version__ = "1.23"

Error = errors.Error
CorruptionError = errors.CorruptionError
IOError = errors.StorageError

#: The memory of LevelDB's defaults: its cache and its write buffer.
_CACHE_BYTES = 8 << 20
_WRITE_BUFFER_BYTES = 4 << 20
#: The memory for what LevelDB does not count: indexes, filters, merges.
_OTHER_BYTES = 8 << 20


class IteratorInvalidError(Error):
    """A raw iterator has no position."""


def _number(name: str, value: int | None, default: int) -> int:
    if value is None:
        return default
    if not isinstance(value, int):
        raise TypeError(f"expected an integer for {name}, found {type(value).__name__}")
    return value


def _design(compression: str | None, block_size: int, bloom_filter_bits: int) -> str:
    """The design of a new database, as text."""
    lines = [f"compression = {'none' if compression is None else 'lz4'}"]
    lines.append(f"block-bytes = {block_size}")
    if bloom_filter_bits:
        lines.append(f"filter = bloom:{bloom_filter_bits}")
    return "\n".join(lines)


def _check_comparator(comparator: Any, name: Any) -> None:
    if comparator is None and name is None:
        return
    if not isinstance(name, bytes):
        raise TypeError("expected bytes for comparator_name")
    if comparator is None:
        raise ValueError("expected a comparator for comparator_name")
    if not callable(comparator):
        raise TypeError("expected a callable for comparator")
    raise errors.UnsupportedError("expected keys in the order of their bytes, found a comparator")


def _no_contains() -> TypeError:
    """plyvel has no ``in``. Without this, Python would walk over all entries."""
    return TypeError("__contains__ is not supported: ask for the key by get")


class _Reads:
    """Reads of a database or a snapshot, all keys of which begin with a prefix."""

    _keyspace: Keyspace
    _at: _Snapshot | None = None
    _prefix: bytes = b""

    def iterator(
        self,
        *,
        reverse: bool = False,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: Buffer | None = None,
        include_key: bool = True,
        include_value: bool = True,
        verify_checksums: bool | None = False,
        fill_cache: bool | None = True,
    ) -> Iterator:
        """An iterator over a range, or over the keys with a prefix."""
        front = self._prefix
        if prefix is not None:
            if start is not None or stop is not None:
                raise TypeError("expected a prefix, or start and stop, found both")
            start, include_start = prefix, True
            stop, include_stop = None, False
            whole = front + as_bytes(prefix)
        else:
            whole = front
        lower: tuple[bytes, bool] | None = None
        if start is not None:
            lower = (front + as_bytes(start), include_start)
        elif front:
            lower = (front, True)
        if stop is not None:
            upper: tuple[bytes, bool] | None = (front + as_bytes(stop), include_stop)
        else:
            upper = None if (end := _end_of(whole)) is None else (end, False)
        wanted = (include_key, include_value)
        return Iterator(self._keyspace, self._at, (lower, upper), reverse, wanted, front)

    def __iter__(self) -> _Iterator[tuple[bytes, bytes]]:
        return self.iterator()

    def __contains__(self, _: object) -> bool:
        raise _no_contains()


class DB(_Reads):
    """A database with the methods of ``plyvel.DB``."""

    def __init__(
        self,
        name: str | bytes | os.PathLike[str],
        *,
        create_if_missing: bool = False,
        error_if_exists: bool = False,
        paranoid_checks: bool | None = None,
        write_buffer_size: int | None = None,
        max_open_files: int | None = None,
        lru_cache_size: int | None = None,
        block_size: int | None = None,
        block_restart_interval: int | None = None,
        max_file_size: int | None = None,
        compression: str | None = "snappy",
        bloom_filter_bits: int = 0,
        comparator: Callable[[bytes, bytes], int] | None = None,
        comparator_name: bytes | None = None,
    ) -> None:
        buffers = 2 * _number("write_buffer_size", write_buffer_size, _WRITE_BUFFER_BYTES)
        cache = _number("lru_cache_size", lru_cache_size, _CACHE_BYTES)
        if compression not in (None, "snappy", "lz4"):
            raise ValueError(f"expected the compression 'snappy' or None, found {compression!r}")
        _check_comparator(comparator, comparator_name)
        self._name, path = name, _path(name)
        design = None
        if not _exists(path):
            block = _number("block_size", block_size, 4096)
            design = _design(compression, block, _number("bloom_filter_bits", bloom_filter_bits, 0))
        options = {
            "memory": cache + buffers + _OTHER_BYTES,
            "create": bool(create_if_missing),
            "error_if_exists": bool(error_if_exists),
        }
        self._db = _native.Db(path, options)
        self._keyspace = Keyspace(self._db, "default", (None, None, None), design, True)
        keyspace = self._keyspace
        # Bound once, so that a call costs no more than one of the keyspace.
        self._get, self._put, self._delete = keyspace.get, keyspace.put, keyspace.delete

    @property
    def name(self) -> str | bytes | os.PathLike[str]:
        """The directory, as it was given."""
        return self._name

    @property
    def closed(self) -> bool:
        """True if the database was closed."""
        return self._db.closed

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def get(
        self,
        key: Buffer,
        default: Any = None,
        *,
        verify_checksums: bool | None = False,
        fill_cache: bool | None = True,
    ) -> Any:
        """The value of a key."""
        return self._get(key, default)

    def put(self, key: Buffer, value: Buffer, *, sync: bool = False) -> None:
        """Give a key a value."""
        self._put(key, value, sync=sync)

    def delete(self, key: Buffer, *, sync: bool = False) -> None:
        """Delete a key."""
        self._delete(key, sync=sync)

    def write_batch(self, *, transaction: bool = False, sync: bool = False) -> WriteBatch:
        """An empty batch."""
        return WriteBatch(self._keyspace, b"", transaction, sync)

    def raw_iterator(
        self, *, verify_checksums: bool | None = False, fill_cache: bool | None = True
    ) -> RawIterator:
        """An iterator as LevelDB has it."""
        return RawIterator(self._keyspace, None)

    def snapshot(self) -> Snapshot:
        """The database as it is now."""
        return Snapshot(self._keyspace, b"")

    def prefixed_db(self, prefix: Buffer) -> PrefixedDB:
        """The keys with a prefix, as a database."""
        return PrefixedDB(self, as_bytes(prefix))

    def get_property(self, name: bytes) -> bytes | None:
        """A property of the database; ``None`` for one that is not known."""
        if not isinstance(name, bytes):
            raise TypeError(f"expected bytes for name, found {type(name).__name__}")
        if name == b"leveldb.stats":
            return self._db.prometheus().encode()
        if name == b"leveldb.sstables":
            return self._keyspace.shape().encode()
        if level := re.fullmatch(rb"leveldb\.num-files-at-level([0-6])", name):
            levels = self._keyspace.stats()["levels"]
            # LevelDB's last level, 6, has all tables that lie deeper here.
            here = (it["tables"] for it in levels if min(it["level"], 6) == int(level[1]))
            return str(sum(here)).encode()
        return None

    def compact_range(self, *, start: Buffer | None = None, stop: Buffer | None = None) -> None:
        """Merge all data of a range."""
        self._keyspace.compact(start, stop)

    def approximate_size(self, start: Buffer, stop: Buffer) -> int:
        """The approximate bytes of a range in files."""
        return self._keyspace.approximate_bytes(start, stop)

    def approximate_sizes(self, *ranges: tuple[Buffer, Buffer]) -> list[int]:
        """The approximate bytes of several ranges in files."""
        return [self.approximate_size(start, stop) for start, stop in ranges]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class PrefixedDB(_Reads):
    """The keys with a prefix, as a database. Made by :meth:`DB.prefixed_db`."""

    def __init__(self, db: DB, prefix: bytes) -> None:
        self.db = db
        self.prefix = self._prefix = prefix
        self._keyspace = db._keyspace

    def get(
        self,
        key: Buffer,
        default: Any = None,
        *,
        verify_checksums: bool | None = False,
        fill_cache: bool | None = True,
    ) -> Any:
        """The value of a key."""
        return self._keyspace.get(self.prefix + key, default)

    def put(self, key: Buffer, value: Buffer, *, sync: bool = False) -> None:
        """Give a key a value."""
        self._keyspace.put(self.prefix + key, value, sync=sync)

    def delete(self, key: Buffer, *, sync: bool = False) -> None:
        """Delete a key."""
        self._keyspace.delete(self.prefix + key, sync=sync)

    def write_batch(self, *, transaction: bool = False, sync: bool = False) -> WriteBatch:
        """An empty batch."""
        return WriteBatch(self._keyspace, self.prefix, transaction, sync)

    def snapshot(self) -> Snapshot:
        """The keys with the prefix as they are now."""
        return Snapshot(self._keyspace, self.prefix)

    def prefixed_db(self, prefix: Buffer) -> PrefixedDB:
        """The keys with a longer prefix, as a database."""
        return PrefixedDB(self.db, self.prefix + as_bytes(prefix))


class Snapshot(_Reads):
    """A database at one moment. Made by :meth:`DB.snapshot`."""

    _at: _Snapshot

    def __init__(self, keyspace: Keyspace, prefix: bytes) -> None:
        self._keyspace, self._prefix = keyspace, prefix
        self._at = keyspace.snapshot()

    def get(
        self,
        key: Buffer,
        default: Any = None,
        *,
        verify_checksums: bool | None = False,
        fill_cache: bool | None = True,
    ) -> Any:
        """The value of a key."""
        return self._at.get(self._prefix + key, default)

    def raw_iterator(
        self, *, verify_checksums: bool | None = False, fill_cache: bool | None = True
    ) -> RawIterator:
        """An iterator as LevelDB has it."""
        return RawIterator(self._keyspace, self._at)

    def close(self) -> None:
        """Release the snapshot. Releasing it again does nothing; its reads are errors then."""
        self._at.close()

    def release(self) -> None:
        """Release the snapshot, as :meth:`close` does."""
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class WriteBatch:
    """Writes that take effect together. Made by ``write_batch``."""

    def __init__(self, keyspace: Keyspace, prefix: bytes, transaction: bool, sync: bool) -> None:
        self._batch = keyspace.batch(sync=sync)
        self._prefix = prefix
        self._transaction = transaction
        self._put, self._delete = self._batch.put, self._batch.delete

    def put(self, key: Buffer, value: Buffer) -> None:
        """Add a put."""
        self._put(self._prefix + key if self._prefix else key, value)

    def delete(self, key: Buffer) -> None:
        """Add a delete."""
        self._delete(self._prefix + key if self._prefix else key)

    def clear(self) -> None:
        """Remove all operations."""
        self._batch.clear()

    def append(self, source: WriteBatch) -> None:
        """Add all operations of another batch."""
        self._batch.append(source._batch)

    def approximate_size(self) -> int:
        """The bytes of all operations."""
        return self._batch.bytes

    def write(self) -> None:
        """Commit all operations."""
        self._batch.commit()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or not self._transaction:
            self.write()
        self.clear()


class Iterator(_native.Walk):
    """An iterator in both directions. Made by ``iterator``."""

    def prev(self) -> Any:
        """Step back over an entry and return it."""
        entry = self._prev()
        if entry is None:
            raise StopIteration
        return entry[0]

    def __contains__(self, _: object) -> bool:
        raise _no_contains()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RawIterator:
    """An iterator as LevelDB has it. Made by ``raw_iterator``."""

    def __init__(self, keyspace: Keyspace, at: _Snapshot | None) -> None:
        self._cursor = _native.Cursor(keyspace, at)

    def valid(self) -> bool:
        """True if the iterator has a position."""
        return self._cursor.key is not None

    def seek_to_first(self) -> None:
        """Move to the first key."""
        self._cursor.seek_first()

    def seek_to_last(self) -> None:
        """Move to the last key."""
        self._cursor.seek_last()

    def seek(self, target: Buffer) -> None:
        """Move to the first key at or behind a key."""
        self._cursor.seek(target)

    def next(self) -> None:
        """Move to the next key."""
        self._check()
        self._cursor.next()

    def prev(self) -> None:
        """Move to the key before."""
        self._check()
        self._cursor.prev()

    def key(self) -> bytes:
        """The key here."""
        return self._check()

    def value(self) -> bytes:
        """The value here."""
        self._check()
        value = self._cursor.value
        assert value is not None
        return value

    def item(self) -> tuple[bytes, bytes]:
        """The key and the value here."""
        return self.key(), self.value()

    def _check(self) -> bytes:
        key = self._cursor.key
        if key is None:
            raise IteratorInvalidError("the iterator has no position")
        return key

    def close(self) -> None:
        """End the iterator."""
        self._cursor.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _path(name: str | bytes | os.PathLike[str]) -> str:
    path = os.fspath(name)
    return os.fsdecode(path)


def _end_of(prefix: bytes) -> bytes | None:
    """The first key behind all keys with a prefix; ``None`` if there is none."""
    front = prefix.rstrip(b"\xff")
    return front[:-1] + bytes([front[-1] + 1]) if front else None


def repair_db(
    name: str | bytes | os.PathLike[str],
    *,
    paranoid_checks: bool | None = None,
    write_buffer_size: int | None = None,
    max_open_files: int | None = None,
    lru_cache_size: int | None = None,
    block_size: int | None = None,
    block_restart_interval: int | None = None,
    max_file_size: int | None = None,
    compression: str | None = "snappy",
    bloom_filter_bits: int = 0,
    comparator: Callable[[bytes, bytes], int] | None = None,
    comparator_name: bytes | None = None,
) -> None:
    """Repair a database; the options have no effect. It is an error if there is none."""
    _check_comparator(comparator, comparator_name)
    _native.repair(_path(name), "default")


def destroy_db(name: str | bytes | os.PathLike[str]) -> None:
    """Remove the files of a database, and the directory if nothing else is in it.

    Nothing is done if there is no database. An open one is an ``IOError``, and stays.
    """
    path = _path(name)
    if os.path.isdir(path) and _exists(path):
        _native.destroy(path)
    with contextlib.suppress(OSError):
        # Refused if there are files of others.
        os.rmdir(path)
