"""Hedgerow: a key-value store in your process.

>>> import hedgerow, tempfile
>>> with hedgerow.open(tempfile.mkdtemp()) as db:
...     db[b"ada"] = b"1815"
...     db[b"grace"] = b"1906"
...     print(db[b"ada"], list(db.keys(start=b"b")))
b'1815' [b'grace']
"""

from __future__ import annotations

from ._backups import Backup, Backups
from ._database import Batch, Database, Keyspace, KeyspaceAt, Snapshot, Transaction
from ._feed import Change, Changes, Slot
from ._native import BytesArray, Cursor, Savepoint, destroy, exists, repair
from .cache import Cache
from .errors import (
    CancelledError,
    ClosedError,
    ConflictError,
    CorruptionError,
    Error,
    GapError,
    InvalidArgumentError,
    LockedError,
    MissingError,
    NoSpaceError,
    OperatorError,
    StorageError,
    UnsupportedError,
)

__all__ = [
    "Backup",
    "Backups",
    "Batch",
    "BytesArray",
    "Cache",
    "CancelledError",
    "Change",
    "Changes",
    "ClosedError",
    "ConflictError",
    "CorruptionError",
    "Cursor",
    "Database",
    "Error",
    "GapError",
    "InvalidArgumentError",
    "Keyspace",
    "KeyspaceAt",
    "LockedError",
    "MissingError",
    "NoSpaceError",
    "OperatorError",
    "Savepoint",
    "Slot",
    "Snapshot",
    "StorageError",
    "Transaction",
    "UnsupportedError",
    "destroy",
    "exists",
    "open",
    "repair",
    "semi_sorted",
]

#: Open a database, or create it; see :class:`Database` for the arguments.
open = Database


def semi_sorted(
    prefix_bytes: int | None = None, *, delimiter: str | None = None
) -> str:
    """The layout for keys of two parts that are scanned by the first part alone.

    The first part has so many bytes, or ends at the delimiter (one character). Without an
    argument, its length is the first byte of the key.
    """
    if prefix_bytes is not None:
        return f"semi-sorted:{prefix_bytes}"
    if delimiter is not None:
        return f"semi-sorted:delimiter=0x{ord(delimiter):02x}"
    return "semi-sorted:length-prefixed"
