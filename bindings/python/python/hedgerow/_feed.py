"""The change feed: what was committed, in order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self, TypeAlias

from . import _native

ChangeKind: TypeAlias = Literal[
    "put",
    "merge",
    "delete",
    "delete_range",
    "delete_prefix",
    "create",
    "rename",
    "set_merge_operator",
    "set_time_to_live",
    "clear",
    "drop",
]


@dataclass(frozen=True)
class Slot:
    """A consumer of the changes, for whom the database keeps them."""

    #: The number up to which the consumer has all changes.
    position: int
    #: The bytes of log that are kept for it at most.
    log_bytes_max: int


class Change(NamedTuple):
    """A change of a commit."""

    #: The number of the commit, which :meth:`hedgerow.Database.confirm_slot` takes.
    number: int
    #: True if the commit has no further change.
    is_last: bool
    #: The kind, which says what the other fields mean.
    kind: ChangeKind
    #: The name of the keyspace at that moment.
    keyspace: str
    #: The key; the first one of a range, or a prefix.
    key: bytes
    #: The value or the operand; the first key behind a range, if it has an end; the layout of a
    #: keyspace that is created; its new name, or its merge operator.
    value: bytes | None
    #: The seconds since 1970 when a put expires, or the new time to live; ``None`` is never.
    expires: float | None


class Changes(_native.Changes):
    """The changes of a database behind a number, in the order of their commits.

    It is an iterator that ends when there are no more for now; later it may have more. All changes
    that it returns are durable. A bulk load comes as its entries. ``GapError`` says that the
    changes behind the number are not kept any more.

    ``source`` is a database that this process has open, or the path of one that any process has
    open.
    """

    def __new__(cls, source: _native.Db | str | os.PathLike[str], number: int) -> Self:
        return super().__new__(cls, source, number)

    def wait(self, seconds: float | None = None) -> Change | None:
        """The next change. Waits for one, at most so many seconds; ``None`` if none came."""
        fields = self._next(seconds)
        return None if fields is None else Change(*fields)

    def __iter__(self) -> Iterator[Change]:
        return self

    def __next__(self) -> Change:
        change = self.wait(0)
        if change is None:
            raise StopIteration
        return change

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
