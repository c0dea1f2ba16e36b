"""The interface of the standard ``dbm`` modules: ``hedgerow.dbm.open(path, flag)``.

A database is a directory. Keys and values are ``bytes``; a ``str`` is encoded as UTF-8. Keys come in
the order of their bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from typing import Any, Self, TypeAlias

from . import errors
from ._database import Database
from ._native import destroy, exists

__all__ = ["error", "open"]

Text: TypeAlias = str | bytes | bytearray
PathText: TypeAlias = str | bytes


class error(OSError):  # noqa: N801 - the name that every dbm module has
    """An error of a ``dbm`` database."""


class _NotFound(error, FileNotFoundError):
    """There is no database to open."""


def _bytes(text: Text) -> bytes | bytearray:
    return text.encode() if isinstance(text, str) else text


class _DBM(MutableMapping[Any, Any]):
    """An open database, with ``str`` or ``bytes`` as keys and values; it returns ``bytes``."""

    def __init__(self, db: Database, read_only: bool) -> None:
        self._open: Database | None = db
        self._read_only = read_only

    @property
    def _db(self) -> Database:
        if self._open is None:
            raise error("DBM object has already been closed")
        return self._open

    @property
    def _writable(self) -> Database:
        db = self._db
        if self._read_only:
            raise error("The database is opened for reading only")
        return db

    def __getitem__(self, key: Text) -> bytes:
        return self._db[_bytes(key)]

    def __setitem__(self, key: Text, value: Text) -> None:
        self._writable[_bytes(key)] = _bytes(value)

    def __delitem__(self, key: Text) -> None:
        del self._writable[_bytes(key)]

    def __contains__(self, key: Any) -> bool:
        return bytes(_bytes(key)) in self._db

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._db.keys())

    iterkeys = __iter__

    def __len__(self) -> int:
        """The number of entries. Reads all keys."""
        return sum(1 for _ in self._db.keys())

    def __bool__(self) -> bool:
        return bool(self._db)

    def keys(self) -> list[bytes]:  # type: ignore[override]
        """All keys, in order."""
        return list(self._db.keys())

    def items(self) -> list[tuple[bytes, bytes]]:  # type: ignore[override]
        """All keys with their values, in order."""
        return list(self._db.items())

    def values(self) -> list[bytes]:  # type: ignore[override]
        """All values, in the order of their keys."""
        return list(self._db.values())

    def setdefault(self, key: Text, default: Text = b"") -> bytes:  # type: ignore[override]
        """The value of a key, which gets ``default`` if it has none."""
        return self._writable.setdefault(_bytes(key), _bytes(default))

    def clear(self) -> None:
        """Remove all entries."""
        self._writable.clear()

    def sync(self) -> None:
        """Make everything written so far durable."""
        if not self._read_only:
            self._db.sync()

    def close(self) -> None:
        """Close the database. Closing it again does nothing."""
        db, self._open = self._open, None
        if db is not None:
            db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open(  # noqa: A001 - the name that every dbm module has
    file: PathText | os.PathLike[str] | os.PathLike[bytes], flag: str = "r", mode: int = 0o666
) -> _DBM:
    """Open a database.

    ``flag`` is ``'r'`` to read an existing one, ``'w'`` to read and write an existing one, ``'c'``
    to create it if it is missing, or ``'n'`` to begin an empty one. ``mode`` has no effect.
    """
    if flag not in ("r", "w", "c", "n"):
        raise ValueError("Flag must be one of 'r', 'w', 'c', or 'n'")
    path = os.fsdecode(os.fspath(file))
    try:
        if flag == "n":
            if os.path.isfile(path) and not os.path.getsize(path):
                os.remove(path)
            if exists(path):
                destroy(path)
        read_only = flag == "r"
        create = flag in ("c", "n")
        return _DBM(Database(path, read_only=read_only, create=create), read_only)
    except errors.MissingError as missing:
        raise _NotFound(*missing.args) from missing
    except errors.Error as failed:
        raise error(str(failed)) from failed
