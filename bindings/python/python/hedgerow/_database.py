"""Databases, keyspaces, batches, snapshots, transactions."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, MutableMapping
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from . import _native
from ._aio import wait
from ._arrays import found, key_rows, rows
from ._backups import Backup, Backups
from ._feed import Changes, Slot
from ._ranges import Bounds, Ranged
from ._types import Array, Buffer, Expire, Isolation, Part
from .errors import ConflictError

T = TypeVar("T")

#: The name of the keyspace that a database is a mapping of.
DEFAULT_KEYSPACE = "default"
#: The entries that an asynchronous scan asks for at once.
_PAGE_ENTRIES_FIRST = 16
_PAGE_ENTRIES = 256
#: A page of entries of the size of those before it is no larger.
_PAGE_BYTES = 1 << 20


class Snapshot(_native.Snapshot, Ranged):
    """The whole database at one moment, and a mapping of one keyspace.

    A call that names another ``keyspace`` reads that one. Close the snapshot, or use it in a
    ``with`` statement: merges keep the old values that it sees.
    """

    def __getitem__(self, key: Buffer) -> bytes:
        return _present(self.get(key), key)

    def get_many(
        self, keys: Any, default: Any = None, *, keyspace: Keyspace | None = None
    ) -> Any:
        """The values of several keys, in their order; see :meth:`Keyspace.get_many`."""
        array = None if isinstance(keys, list) else key_rows(keys)
        if array is not None:
            return found(keys, self._get_rows(array, keyspace))
        return self._get_list(_as_list(keys), default, keyspace)

    def of(self, keyspace: Keyspace) -> KeyspaceAt:
        """The mapping of another keyspace at the same moment."""
        return KeyspaceAt(self, keyspace)

    def _steps(self, part: Part, bounds: Bounds) -> _native.Steps:
        return self._scan(part, bounds, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Transaction(_native.Transaction, Ranged):
    """Reads and writes over all keyspaces that are committed if nobody else came first.

    It reads its own writes. Leaving its ``with`` statement commits it, or discards it after an
    exception. ``ConflictError`` says that another write has changed what was read.
    """

    def __getitem__(self, key: Buffer) -> bytes:
        return _present(self.get(key), key)

    def __delitem__(self, key: Buffer) -> None:
        self[key]
        self.delete(key)

    def get_many(
        self,
        keys: Iterable[Buffer],
        default: Any = None,
        *,
        keyspace: Keyspace | None = None,
    ) -> list[Any]:
        """The values of several keys, in their order."""
        return self._get_list(_as_list(keys), default, keyspace)

    def of(self, keyspace: Keyspace) -> KeyspaceAt:
        """The mapping of another keyspace in the same transaction."""
        return KeyspaceAt(self, keyspace)

    def _steps(self, part: Part, bounds: Bounds) -> _native.Steps:
        return self._scan(part, bounds, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and not self.closed:
            self.commit()
        else:
            self.close()


class KeyspaceAt(Ranged):
    """A keyspace as a snapshot or a transaction sees it: a mapping."""

    def __init__(self, of: Snapshot | Transaction, keyspace: Keyspace) -> None:
        self._of, self._keyspace = of, keyspace

    def get(self, key: Buffer, default: Any = None) -> Any:
        return self._of.get(key, default, keyspace=self._keyspace)

    def get_many(self, keys: Any, default: Any = None) -> Any:
        """The values of several keys, in their order."""
        return self._of.get_many(keys, default, keyspace=self._keyspace)

    def __getitem__(self, key: Buffer) -> bytes:
        return _present(self.get(key), key)

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None  # type: ignore[arg-type]

    def _steps(self, part: Part, bounds: Bounds) -> _native.Steps:
        return self._of._scan(part, bounds, self._keyspace)


class Batch(_native.Batch):
    """Writes over all keyspaces that become visible and durable together.

    Leaving its ``with`` statement commits it, or discards it after an exception.
    """

    def put_many(
        self,
        keys: Any,
        values: Any,
        *,
        keyspace: Keyspace | None = None,
        expire: Expire | None = None,
    ) -> None:
        """Add puts of several keys: two iterables, or two arrays; see :meth:`Keyspace.put_many`."""
        of_keys = None if isinstance(keys, list) else key_rows(keys)
        of_values = None if isinstance(values, list) else rows(values)
        if of_keys is not None and of_values is not None:
            self._put_rows(of_keys, of_values, keyspace, expire)
        else:
            self._put_list(_as_list(keys), _as_list(values), keyspace, expire)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.commit()
        self.close()

    async def acommit(self) -> None:
        """Commit as :meth:`commit` does, without blocking the event loop."""
        await wait(self._commit_async())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self.acommit()
        self.close()


class Keyspace(_native.Keyspace, Ranged, MutableMapping[bytes, bytes]):
    """A named, ordered map from bytes to bytes: a ``MutableMapping``.

    Every method may be called from any thread. Keys have up to 64 KiB, values up to 64 MiB, and
    both may be empty.
    """

    def _steps(self, part: Part, bounds: Bounds) -> _native.Steps:
        return self._scan(part, bounds)

    # Reading.

    @overload
    def get_many(self, keys: Array) -> Any: ...

    @overload
    def get_many(self, keys: Iterable[Buffer], default: None = None) -> list[bytes | None]: ...

    @overload
    def get_many(self, keys: Iterable[Buffer], default: T) -> list[bytes | T]: ...

    def get_many(self, keys: Any, default: Any = None) -> Any:
        """The values of several keys, in their order.

        For an iterable, a list with ``default`` for keys without a value. For an array of NumPy
        (``S``, or rows of ``uint8``) or of Arrow, a :class:`BytesArray`, or the array of pyarrow
        for one of pyarrow; no Python object is made for a key or a value.
        """
        array = None if isinstance(keys, list) else key_rows(keys)
        if array is not None:
            return found(keys, self._get_rows(array))
        return self._get_list(_as_list(keys), default)

    # Writing.

    def put_many(
        self, keys: Any, values: Any, *, sync: bool = False, expire: Expire | None = None
    ) -> None:
        """Put several keys as one batch: two iterables, or two arrays of NumPy or Arrow.

        Keys are of the type ``S`` or rows of ``uint8``; the value of a key is the bytes of an
        item, or of a row, of any type.
        """
        with self.batch(sync=sync) as batch:
            batch.put_many(keys, values, expire=expire)

    @overload
    def pop(self, key: Buffer) -> bytes: ...

    @overload
    def pop(self, key: Buffer, default: T) -> bytes | T: ...

    def pop(self, key: Buffer, *default: Any) -> Any:  # type: ignore[misc]
        """Take the value of a key, atomically."""
        if len(default) > 1:
            raise TypeError(f"pop expected at most 2 arguments, got {1 + len(default)}")
        taken = self._take(key, default[0] if default else _MISSING)
        return taken if default else _present(taken, key)

    def popitem(self) -> tuple[bytes, bytes]:
        """Take the first entry."""
        if self.layout.split()[0] != "sorted":
            return super().popitem()
        first = self.pop_first()
        if first is None:
            raise KeyError("popitem(): the keyspace is empty")
        return first

    def setdefault(self, key: Buffer, default: Buffer) -> bytes:
        """The value of a key, which gets ``default`` if it has none; atomic."""
        old: bytes | None = self.put_if_absent(key, default)
        return bytes(default) if old is None else old

    def update(self, other: Any = (), /) -> None:
        """Put the entries of a mapping, or pairs, as one batch."""
        if isinstance(other, Mapping):
            pairs: Any = other.items()
        elif hasattr(other, "keys"):
            pairs = ((key, other[key]) for key in other.keys())
        else:
            pairs = other
        entries = list(pairs)
        self.put_many([key for key, _ in entries], [value for _, value in entries])

    # Several operations at one moment.

    def batch(self, *, sync: bool = False) -> Batch:
        """An empty batch, which writes to this keyspace if a call names no other."""
        return Batch(self, sync)

    def snapshot(self) -> Snapshot:
        """The whole database as it is now."""
        return Snapshot(self)

    def transaction(
        self,
        *,
        isolation: Isolation = "serializable",
        sync: bool = False,
        memory: int | None = None,
    ) -> Transaction:
        """Begin a transaction. ``memory`` is the bytes for its writes and its record of reads."""
        return Transaction(self, isolation, sync, memory)

    def transact(
        self,
        function: Callable[[Transaction], T],
        *,
        attempts: int = 100,
        isolation: Isolation = "serializable",
        sync: bool = False,
        memory: int | None = None,
    ) -> T:
        """Call a function with a transaction and commit it, until no other write comes first.

        Returns what the function returns. An exception of the function ends it; nothing is
        written then. Raises ``ConflictError`` after so many ``attempts``.
        """
        for attempt in range(1, attempts + 1):
            with self.transaction(isolation=isolation, sync=sync, memory=memory) as transaction:
                result = function(transaction)
                try:
                    transaction.commit()
                except ConflictError:
                    if attempt == attempts:
                        raise
                else:
                    return result
            # Twice as long each time, at most two milliseconds.
            time.sleep(min(2e-5 * 2**attempt, 2e-3) * random.random())
        raise ValueError(f"expected at least one attempt, found {attempts}")

    def stats(self) -> dict[str, Any]:
        """The statistics of the keyspace: its levels, its memory, its debt."""
        stats: dict[str, Any] = json.loads(self._stats_json())
        return stats

    # Without blocking the event loop.

    async def aget(self, key: Buffer, default: Any = None) -> Any:
        """Get as :meth:`get` does. What memory answers is answered at once."""
        return await wait(self._get_async(key, default))

    async def aget_many(self, keys: Iterable[Buffer], default: Any = None) -> list[Any]:
        """Get as :meth:`get_many` does, with a list."""
        values: list[Any] = await wait(self._get_many_async(_as_list(keys), default))
        return values

    async def aput(
        self, key: Buffer, value: Buffer, *, sync: bool = False, expire: Expire | None = None
    ) -> None:
        """Put as :meth:`put` does."""
        await wait(self._put_async(key, value, sync, expire))

    async def adelete(self, key: Buffer, *, sync: bool = False) -> None:
        """Delete as :meth:`delete` does."""
        await wait(self._delete_async(key, sync))

    async def amerge(self, key: Buffer, operand: Buffer, *, sync: bool = False) -> None:
        """Merge as :meth:`merge` does."""
        await wait(self._merge_async(key, operand, sync))

    async def adelete_range(
        self, start: Buffer | None = None, stop: Buffer | None = None, *, sync: bool = False
    ) -> None:
        """Delete a range as :meth:`delete_range` does."""
        await wait(self._delete_range_async(start, stop, sync))

    async def aitems(
        self, *, start: Buffer | None = None, stop: Buffer | None = None
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        """The keys of a range with their values, in order, many per call; sorted keyspaces only."""
        behind: bytes | None = None
        count = _PAGE_ENTRIES_FIRST
        while True:
            page = await wait(self._page_async(start, stop, behind, count))
            for entry in page:
                yield entry
            if len(page) < count:
                return
            behind = page[-1][0]
            size = sum(len(key) + len(value) for key, value in page) // count
            count = max(1, min(4 * count, _PAGE_ENTRIES, _PAGE_BYTES // max(size, 1)))

    async def atransact(self, function: Callable[[Transaction], T], **options: Any) -> T:
        """Run :meth:`transact` on another thread."""
        run: Callable[[], T] = partial(self.transact, function, **options)
        return await asyncio.to_thread(run)

    def __repr__(self) -> str:
        return f"<hedgerow.{type(self).__name__} {self.name!r}>"


class Database(Keyspace):
    """An open database, and the mapping of its default keyspace. Made by :func:`hedgerow.open`.

    Leaving its ``with`` statement closes it.
    """

    _db: _native.Db

    def __new__(
        cls,
        path: str | os.PathLike[str],
        *,
        memory: int | None = None,
        read_only: bool = False,
        create: bool = True,
        error_if_exists: bool = False,
        keyspace: str = DEFAULT_KEYSPACE,
        layout: str | None = None,
        partitions: str | None = None,
        merge_operator: str | None = None,
        design: str | None = None,
        background_threads: int | None = None,
        workers: int | None = None,
        worker_queue: int | None = None,
        io_bytes_per_second: int | None = None,
        log_bytes_max: int | None = None,
        log_segment_bytes: int | None = None,
        compress_log: bool = False,
        read_mode: str | None = None,
        level_paths: str | None = None,
    ) -> Self:
        options = {
            "memory": memory,
            "read_only": read_only,
            "create": create,
            "error_if_exists": error_if_exists,
            "background_threads": background_threads,
            "workers": workers,
            "worker_queue": worker_queue,
            "io_bytes_per_second": io_bytes_per_second,
            "log_bytes_max": log_bytes_max,
            "log_segment_bytes": log_segment_bytes,
            "compress_log": compress_log,
            "read_mode": read_mode,
            "level_paths": level_paths,
        }
        db = _native.Db(path, options)
        try:
            self = super().__new__(
                cls,
                db,
                keyspace,
                (layout, partitions, merge_operator),
                design,
                not read_only,
            )
        except BaseException:
            db.close()
            raise
        self._db = db
        return self

    @property
    def path(self) -> str:
        """The directory of the database."""
        return os.fspath(self._db.path)

    @property
    def closed(self) -> bool:
        """True if the database was closed."""
        return self._db.closed

    def close(self) -> None:
        """Make everything durable and close the database. Closing it again does nothing."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # Keyspaces.

    def keyspace(
        self,
        name: str,
        *,
        layout: str | None = None,
        partitions: str | None = None,
        merge_operator: str | None = None,
        design: str | None = None,
        time_to_live: float | None = None,
        create: bool = True,
    ) -> Keyspace:
        """Open a keyspace, or create it.

        ``layout`` is the order of its keys: ``"sorted"``, ``"hashed"`` or
        :func:`hedgerow.semi_sorted`. ``partitions`` divides it into trees: ``"hash:8"`` or
        ``"range:g,p"``. ``merge_operator`` names what :meth:`Keyspace.merge` does: ``"add_i64"``,
        ``"append"`` and others. These three are fixed when a keyspace is created. ``design`` is
        the way in which it is stored, as text; an existing keyspace with another one is changed
        to it. ``time_to_live`` is the seconds that values live which are put without an expiry.
        """
        if time_to_live is not None:
            # Before the keyspace is made: a refused call changes nothing.
            Keyspace._check_time_to_live(time_to_live)
        kind = (layout, partitions, merge_operator)
        keyspace = Keyspace(self._db, name, kind, design, create)
        if time_to_live is not None and keyspace.time_to_live != time_to_live:
            keyspace.set_time_to_live(time_to_live)
        return keyspace

    def keyspaces(self) -> list[str]:
        """The names of all keyspaces, sorted."""
        return self._db.keyspaces()

    def drop_keyspace(self, name: str) -> None:
        """Drop a keyspace with everything in it, durably."""
        self._db.drop_keyspace(name)

    def rename_keyspace(self, old: str, new: str) -> None:
        """Give a keyspace another name, durably."""
        self._db.rename_keyspace(old, new)

    # The whole database.

    def sync(self) -> None:
        """Make everything written so far durable."""
        self._db.sync()

    def checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Copy the database as it is now into a new directory, by links where that can be."""
        self._db.checkpoint(path)

    def backup(
        self, path: str | os.PathLike[str], *, progress: Callable[[int, int], object] | None = None
    ) -> Backup:
        """Add a backup to a repository, which is created if it is missing; see :class:`Backups`."""
        return Backups(path).create(self.path, progress=progress)

    def verify(self, *, progress: Callable[[int, int], object] | None = None) -> dict[str, int]:
        """Read everything and check every checksum. Returns what was checked."""
        tables, entries, size = self._db.verify(progress)
        return {"tables": tables, "entries": entries, "bytes": size}

    # The change feed.

    def create_slot(self, name: str, *, log_bytes_max: int = 1 << 30) -> int:
        """Keep the changes for a consumer, who confirms what it has.

        Returns the number behind which they are kept. Beyond what the database needs itself, it
        keeps up to ``log_bytes_max`` bytes of log; then the consumer loses its place.
        """
        return self._db.create_slot(name, log_bytes_max)

    def confirm_slot(self, name: str, number: int) -> None:
        """Say that the consumer has all changes up to a number."""
        self._db.confirm_slot(name, number)

    def drop_slot(self, name: str) -> None:
        """Drop a slot, and what only it keeps."""
        self._db.drop_slot(name)

    def slots(self) -> dict[str, Slot]:
        """The slots, by name."""
        return {name: Slot(*facts) for name, *facts in self._db.slots()}

    def changes_since(self, number: int) -> Changes:
        """The changes behind a number, which a slot keeps, in the order of their commits."""
        return Changes(self._db, number)

    async def adurable(self) -> None:
        """Make everything written so far durable, as :meth:`sync` does."""
        await wait(self._db._sync_async())

    async def acheckpoint(self, path: str | os.PathLike[str]) -> None:
        """Make a checkpoint as :meth:`checkpoint` does."""
        await wait(self._db._checkpoint_async(path))

    async def aclose(self) -> None:
        """Close the database as :meth:`close` does."""
        call = self._db._close_async()
        if call is not None:
            await wait(call)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def stats(self) -> dict[str, Any]:
        """The work since the database was opened, and its present state.

        Sizes are bytes, times are microseconds (``_us``). ``["memory"]`` is the budget and its
        parts, ``["keyspaces"]`` has what :meth:`Keyspace.stats` returns for each.
        """
        stats: dict[str, Any] = json.loads(self._db.stats_json())
        return stats

    def prometheus(self) -> str:
        """The statistics in the text format of Prometheus."""
        return self._db.prometheus()


_MISSING: Any = object()


def _present(value: Any, key: Buffer) -> bytes:
    """Returns a value, or raises the error of a mapping without the key."""
    if value is None or value is _MISSING:
        raise KeyError(bytes(key))
    found: bytes = value
    return found


def _as_list(items: Iterable[Buffer]) -> list[Buffer]:
    return items if isinstance(items, list) else list(items)
