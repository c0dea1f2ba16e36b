"""The native part of hedgerow. Its classes are the bases of those in ``hedgerow``."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self, TypeVar, final, overload

from ._types import Buffer, Expire, Part

T = TypeVar("T")

def exists(dir: str | os.PathLike[str]) -> bool:
    """True if the directory has a database, also a damaged one."""

def destroy(dir: str | os.PathLike[str]) -> None:
    """Remove the files of a database, and nothing else."""

def repair(
    dir: str | os.PathLike[str], keyspace: str | None = None
) -> tuple[int, int, list[tuple[str, str]]]:
    """Rebuild the manifest of a damaged database.

    Returns the number of its tables, the number of its entries, and what was lost: files with
    reasons.
    """

@final
class Db:
    def __new__(cls, dir: str | os.PathLike[str], options: dict[str, Any]) -> Self: ...
    @property
    def path(self) -> str | os.PathLike[str]: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    def keyspaces(self) -> list[str]: ...
    def drop_keyspace(self, name: str) -> None: ...
    def rename_keyspace(self, old: str, new: str) -> None: ...
    def sync(self) -> None: ...
    def flush(self) -> None: ...
    def checkpoint(self, dir: str | os.PathLike[str]) -> None: ...
    def verify(
        self, progress: Callable[[int, int], object] | None = None
    ) -> tuple[int, int, int]: ...
    def prometheus(self) -> str: ...
    def stats_json(self) -> str: ...
    def create_slot(self, name: str, log_bytes_max: int) -> int: ...
    def confirm_slot(self, name: str, number: int) -> None: ...
    def drop_slot(self, name: str) -> None: ...
    def slots(self) -> list[tuple[str, int, int]]: ...
    def _sync_async(self) -> Call: ...
    def _checkpoint_async(self, dir: str | os.PathLike[str]) -> Call: ...
    def _close_async(self) -> Call | None: ...

class Changes:
    def __new__(cls, source: Db | str | os.PathLike[str], number: int) -> Self: ...
    def _next(self, seconds: float | None) -> tuple[Any, ...] | None: ...
    def close(self) -> None:
        """Free the position."""

@final
class Rows:
    @staticmethod
    def fixed(bytes: bytes, width: int, count: int, strip: bool) -> Rows: ...
    @staticmethod
    def arrow(schema: object, array: object) -> Rows: ...
    def __len__(self) -> int: ...

@final
class BytesArray:
    """Values in one piece of memory, some of which may be missing: what ``get_many`` returns.

    It is an Arrow array for every library that knows Arrow (``pyarrow.array(values)``), without a
    copy, and a sequence of ``bytes`` and ``None``.
    """

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> bytes | None: ...
    def __iter__(self) -> Iterator[bytes | None]: ...
    def __arrow_c_schema__(self) -> Any: ...
    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]: ...
    @property
    def null_count(self) -> int:
        """The number of missing values."""

    def to_pylist(self) -> list[bytes | None]:
        """All values as a list."""

    def to_numpy(self, dtype: Any = "S") -> Any:
        """Values as an array of NumPy.

        With ``"S"``, strings of the length of the longest; a missing value is empty. With another
        type, one row of items for each value; all values must be there and have one length.
        """

    @property
    def _longest(self) -> int: ...
    @property
    def _shortest(self) -> int: ...
    def _padded(self, width: int) -> bytes: ...

@final
class Completions:
    def __new__(cls) -> Self: ...
    def fileno(self) -> int: ...
    def take(self) -> list[int]: ...

@final
class Call:
    def poll(self, completions: Completions, number: int) -> tuple[Any] | None: ...

@final
class Steps:
    def __iter__(self) -> Iterator[Any]: ...
    def __next__(self) -> list[bytes] | tuple[list[bytes], list[bytes]]: ...
    def arrays(self, entries: int) -> tuple[BytesArray, BytesArray] | None: ...

class Keyspace:
    def __new__(
        cls,
        db: Db,
        name: str,
        kind: tuple[str | None, str | None, str | None],
        design: str | None,
        create: bool,
    ) -> Self: ...
    @overload
    def get(self, key: Buffer) -> bytes | None:
        """The value of a key; ``default`` if it has none."""
    @overload
    def get(self, key: Buffer, default: T) -> bytes | T: ...

    def __getitem__(self, key: Buffer) -> bytes: ...
    def __setitem__(self, key: Buffer, value: Buffer) -> None: ...
    def __delitem__(self, key: Buffer) -> None: ...
    def __contains__(self, key: object) -> bool: ...
    def __bool__(self) -> bool: ...
    def put(
        self,
        key: Buffer,
        value: Buffer,
        *,
        sync: bool = False,
        expire: Expire | None = None,
    ) -> None:
        """Give a key a value. ``sync`` makes it durable; ``expire`` says when it is gone."""

    def delete(self, key: Buffer, *, sync: bool = False) -> None:
        """Delete a key, whether it has a value or not."""

    def delete_range(
        self, start: Buffer | None = None, stop: Buffer | None = None, *, sync: bool = False
    ) -> None:
        """Delete the keys from ``start`` on and before ``stop``, at once."""

    def delete_prefix(self, prefix: Buffer, *, sync: bool = False) -> None:
        """Delete the keys with a prefix, at once."""

    def merge(self, key: Buffer, operand: Buffer, *, sync: bool = False) -> None:
        """Change a value by an operand of the keyspace's merge operator, without reading it."""

    def compare_and_swap(self, key: Buffer, expected: Buffer | None, new: Buffer | None) -> bool:
        """Give a key the value ``new`` if its value is ``expected``; ``None`` is no value."""

    def put_if_absent(self, key: Buffer, value: Buffer) -> bytes | None:
        """Give a key a value if it has none. Returns the value that it had."""

    def modify(
        self,
        key: Buffer,
        function: Callable[[bytes | None], Buffer | None],
        *,
        sync: bool = False,
    ) -> bytes | None:
        """Replace a value atomically by what a function returns for it. Returns the new value.

        The function may be called several times. ``None`` is no value.
        """

    def expiry(self, key: Buffer) -> float | None:
        """The time when a value expires, in seconds since 1970; ``None`` is never."""

    def set_expiry(self, key: Buffer, expire: Expire | None) -> bool:
        """Change the time when a value expires. Returns false if there is no value."""

    def first(self) -> tuple[bytes, bytes] | None:
        """The first key with its value."""

    def last(self) -> tuple[bytes, bytes] | None:
        """The last key with its value."""

    def pop_first(self, *, sync: bool = False) -> tuple[bytes, bytes] | None:
        """Take the first entry. No two callers get the same one."""

    def pop_last(self, *, sync: bool = False) -> tuple[bytes, bytes] | None:
        """Take the last entry. No two callers get the same one."""

    def bulk_load(self, entries: Iterable[tuple[Buffer, Buffer]]) -> int:
        """Load entries in the order of their keys, past the log. Returns their number."""

    @property
    def name(self) -> str:
        """The name of the keyspace."""

    @property
    def layout(self) -> str:
        """The order of its keys, its division into trees, and its merge operator."""

    @property
    def design(self) -> str:
        """The way in which it is stored."""

    @property
    def time_to_live(self) -> float | None:
        """The seconds that values live which are put without an expiry; ``None`` is for ever."""

    @staticmethod
    def _check_time_to_live(seconds: float, /) -> None: ...
    def set_time_to_live(self, seconds: float | None) -> None:
        """Set the seconds that values live which are put from now on."""

    def retune(self, design: str) -> None:
        """Give the keyspace another design, while reads and writes continue."""

    def set_self_tuning(self, on: bool) -> None:
        """Have the keyspace choose its design by its operations."""

    def approximate_len(self, start: Buffer | None = None, stop: Buffer | None = None) -> int:
        """Estimate the number of entries in a range, without reading it."""

    def approximate_bytes(self, start: Buffer | None = None, stop: Buffer | None = None) -> int:
        """Estimate the bytes of a range, without reading it."""

    def compact(
        self,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        *,
        progress: Callable[[int, int], object] | None = None,
    ) -> None:
        """Merge all data of a range into the deepest level.

        ``progress`` is called with the bytes done and all bytes. Its exception ends the work.
        """

    def flush(self) -> None:
        """Write the entries of all memtables to tables."""

    def wait_until_merged(self) -> None:
        """Wait until the background has nothing left to flush or to merge."""

    def clear(self) -> None:
        """Remove all entries, at once and durably."""

    def explain(self, key: Buffer) -> str:
        """The steps of a lookup: memtables, filters, tables and pages."""

    def shape(self) -> str:
        """The tables of each tree."""

    def _stats_json(self) -> str: ...
    def _get_list(self, keys: Sequence[Buffer], default: Any) -> list[Any]: ...
    def _get_rows(self, keys: Rows) -> BytesArray: ...
    def _get_async(self, key: Buffer, default: Any) -> Call: ...
    def _get_many_async(self, keys: Sequence[Buffer], default: Any) -> Call: ...
    def _page_async(
        self, start: Buffer | None, stop: Buffer | None, behind: Buffer | None, count: int
    ) -> Call: ...
    def _put_async(
        self, key: Buffer, value: Buffer, sync: bool, expire: Expire | None
    ) -> Call: ...
    def _delete_async(self, key: Buffer, sync: bool) -> Call: ...
    def _merge_async(self, key: Buffer, operand: Buffer, sync: bool) -> Call: ...
    def _delete_range_async(
        self, start: Buffer | None, stop: Buffer | None, sync: bool
    ) -> Call: ...
    def _take(self, key: Buffer, default: Any) -> Any: ...
    def _scan(self, part: Part, range: Any) -> Steps: ...

class Batch:
    def __new__(cls, keyspace: Keyspace, sync: bool) -> Self: ...
    def put(
        self,
        key: Buffer,
        value: Buffer,
        *,
        keyspace: Keyspace | None = None,
        expire: Expire | None = None,
    ) -> None:
        """Add a put."""

    def __setitem__(self, key: Buffer, value: Buffer) -> None: ...
    def __delitem__(self, key: Buffer) -> None: ...
    def delete(self, key: Buffer, *, keyspace: Keyspace | None = None) -> None:
        """Add a delete."""

    def merge(self, key: Buffer, operand: Buffer, *, keyspace: Keyspace | None = None) -> None:
        """Add an operand of the merge operator."""

    def delete_range(
        self,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        *,
        keyspace: Keyspace | None = None,
    ) -> None:
        """Add a delete of a range."""

    def delete_prefix(self, prefix: Buffer, *, keyspace: Keyspace | None = None) -> None:
        """Add a delete of the keys with a prefix."""

    def append(self, other: Batch) -> None:
        """Add all operations of another batch."""

    def commit(self) -> None:
        """Commit all operations. The batch is empty then, and may be used again."""

    def clear(self) -> None:
        """Remove all operations."""

    def close(self) -> None:
        """End the batch. Operations that were not committed are lost."""

    def __len__(self) -> int: ...
    @property
    def bytes(self) -> int:
        """The bytes of all operations."""

    def _put_list(
        self,
        keys: Sequence[Buffer],
        values: Sequence[Buffer],
        keyspace: Keyspace | None,
        expire: Expire | None,
    ) -> None: ...
    def _put_rows(
        self, keys: Rows, values: Rows, keyspace: Keyspace | None, expire: Expire | None
    ) -> None: ...
    def _commit_async(self) -> Call: ...

class Snapshot:
    def __new__(cls, keyspace: Keyspace) -> Self: ...
    def get(self, key: Buffer, default: Any = None, *, keyspace: Keyspace | None = None) -> Any:
        """The value of a key at the moment of the snapshot."""

    def __contains__(self, key: object) -> bool: ...
    @property
    def number(self) -> int:
        """The sequence number of the last write that it sees."""

    def close(self) -> None:
        """Release the snapshot."""

    def _get_list(
        self, keys: Sequence[Buffer], default: Any, keyspace: Keyspace | None
    ) -> list[Any]: ...
    def _get_rows(self, keys: Rows, keyspace: Keyspace | None) -> BytesArray: ...
    def _scan(self, part: Part, range: Any, keyspace: Keyspace | None) -> Steps: ...

class Transaction:
    def __new__(
        cls, keyspace: Keyspace, isolation: str, sync: bool, memory: int | None
    ) -> Self: ...
    def get(self, key: Buffer, default: Any = None, *, keyspace: Keyspace | None = None) -> Any:
        """The value of a key, as the transaction sees it."""

    def __contains__(self, key: object) -> bool: ...
    def __setitem__(self, key: Buffer, value: Buffer) -> None: ...
    def put(
        self,
        key: Buffer,
        value: Buffer,
        *,
        keyspace: Keyspace | None = None,
        expire: Expire | None = None,
    ) -> None:
        """Give a key a value."""

    def delete(self, key: Buffer, *, keyspace: Keyspace | None = None) -> None:
        """Delete a key, whether it has a value or not."""

    def merge(self, key: Buffer, operand: Buffer, *, keyspace: Keyspace | None = None) -> None:
        """Change a value by an operand of the keyspace's merge operator."""

    def delete_range(
        self,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        *,
        keyspace: Keyspace | None = None,
    ) -> None:
        """Delete a range."""

    def savepoint(self) -> Savepoint:
        """A moment to roll back to."""

    def roll_back_to(self, savepoint: Savepoint) -> None:
        """Take back the writes since a savepoint."""

    def commit(self) -> None:
        """Commit all writes, or none. Raises ``ConflictError`` if another write came first."""

    def close(self) -> None:
        """End the transaction. Writes that were not committed are lost."""

    @property
    def closed(self) -> bool:
        """True if it was committed or closed."""

    def _get_list(
        self, keys: Sequence[Buffer], default: Any, keyspace: Keyspace | None
    ) -> list[Any]: ...
    def _scan(self, part: Part, range: Any, keyspace: Keyspace | None) -> Steps: ...

@final
class Savepoint:
    """A moment of a transaction."""

class Cursor:
    """A position among the keys of a keyspace, as they were when the cursor was made."""

    def __new__(cls, keyspace: Keyspace, snapshot: Snapshot | None = None) -> Self: ...
    @property
    def key(self) -> bytes | None:
        """The key here; ``None`` if there is no position."""

    @property
    def value(self) -> bytes | None:
        """The value here; ``None`` if there is no position."""

    def seek(self, key: Buffer) -> bool:
        """Move to the first key at or behind a key. Returns true if there is one."""

    def seek_for_prev(self, key: Buffer) -> bool:
        """Move to the last key at or before a key. Returns true if there is one."""

    def seek_first(self) -> bool:
        """Move to the first key. Returns true if there is one."""

    def seek_last(self) -> bool:
        """Move to the last key. Returns true if there is one."""

    def next(self) -> bool:
        """Move to the next key. Returns true if there is one."""

    def prev(self) -> bool:
        """Move to the key before. Returns true if there is one."""

    def close(self) -> None:
        """End the cursor."""

class Walk:
    def __new__(
        cls,
        keyspace: Keyspace,
        snapshot: Snapshot | None,
        limits: tuple[tuple[Buffer, bool] | None, tuple[Buffer, bool] | None],
        reverse: bool,
        wanted: tuple[bool, bool],
        front: Buffer,
    ) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...
    def seek(self, key: Buffer) -> None:
        """Move to the place of a key."""

    def seek_to_start(self) -> None:
        """Move before all entries."""

    def seek_to_stop(self) -> None:
        """Move behind all entries."""

    def close(self) -> None:
        """End the iterator."""

    def _prev(self) -> tuple[Any] | None: ...

class Backups:
    def __new__(cls, dir: str | os.PathLike[str]) -> Self: ...
    def prune(self, keep: int) -> tuple[int, int, int]:
        """Remove all backups but the newest ones.

        Returns the numbers of backups, files and bytes that were removed.
        """

    def _create(
        self,
        database: str | os.PathLike[str],
        bytes_per_second: int,
        quick: bool,
        progress: Callable[[int, int], object] | None,
    ) -> tuple[int, int, int, int]: ...
    def _list(self) -> list[tuple[int, int, int, int]]: ...
    def _restore(
        self,
        id: int | None,
        dir: str | os.PathLike[str],
        progress: Callable[[int, int], object] | None,
    ) -> tuple[int, int, int, int]: ...
    def _verify(
        self, id: int | None, progress: Callable[[int, int], object] | None
    ) -> tuple[int, int, int, int]: ...
