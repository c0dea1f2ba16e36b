"""The errors of hedgerow. All are :class:`Error`; most are also an error that Python knows."""

from __future__ import annotations

import errno as _errno

__all__ = [
    "CancelledError",
    "ClosedError",
    "ConflictError",
    "CorruptionError",
    "Error",
    "GapError",
    "InvalidArgumentError",
    "LockedError",
    "MissingError",
    "NoSpaceError",
    "OperatorError",
    "StorageError",
    "UnsupportedError",
]


class Error(Exception):
    """An error of the engine. Its message names what was expected and what was found."""

    #: The file that the error concerns, if it concerns one.
    path: str | None = None
    #: The offset in the file, in bytes.
    offset: int | None = None


class InvalidArgumentError(Error, ValueError):
    """An argument is out of bounds, or two options contradict each other."""


class UnsupportedError(Error):
    """The layout of the keyspace, or the way that the database was opened, forbids the call."""


class CorruptionError(Error):
    """Bytes on disk differ from the bytes written, or a later version wrote them."""


class ConflictError(Error):
    """Another writer changed the data first: try again."""


class GapError(Error):
    """The database no longer has the changes behind a number."""

    #: The smallest number behind which it has all changes.
    number: int


class OperatorError(Error):
    """A merge operator could not combine the operands of a key."""


class ClosedError(Error, RuntimeError):
    """The database, the keyspace, or the object that was used is closed."""


class CancelledError(Error):
    """The caller cancelled the work."""


class StorageError(Error, OSError):
    """The operating system refused; ``errno`` says why."""


class NoSpaceError(StorageError):
    """There is no space left. Writes resume by themselves when there is room."""


class MissingError(StorageError, FileNotFoundError):
    """There is no database, and none was to be created."""


class LockedError(StorageError):
    """Another process, or this one, has the database open for writing."""


_OF_KIND: dict[str, type[Error]] = {
    "InvalidArgument": InvalidArgumentError,
    "Unsupported": UnsupportedError,
    "Locked": LockedError,
    "Missing": MissingError,
    "Io": StorageError,
    "NoSpace": NoSpaceError,
    "Corruption": CorruptionError,
    "FormatVersion": CorruptionError,
    "Conflict": ConflictError,
    "Poisoned": StorageError,
    "Closed": ClosedError,
    "Cancelled": CancelledError,
    "WouldBlock": Error,
    "Operator": OperatorError,
    "Gap": GapError,
}

_ERRNO: dict[type[Error], int] = {NoSpaceError: _errno.ENOSPC, LockedError: _errno.EAGAIN, MissingError: _errno.ENOENT}


def _exception(
    kind: str, message: str, path: object, number: int | None, errno: int | None
) -> Error:
    """Make the exception for an error of the engine."""
    of_kind = _OF_KIND.get(kind, Error)
    if issubclass(of_kind, OSError):
        error: Error = of_kind(errno or _ERRNO.get(of_kind, _errno.EIO), message)
    else:
        error = of_kind(message)
    error.path = None if path is None else str(path)
    if isinstance(error, GapError):
        assert number is not None
        error.number = number
    else:
        error.offset = number
    return error
