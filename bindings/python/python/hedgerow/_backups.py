"""Backups of databases."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from . import _native

Progress = Callable[[int, int], object]


@dataclass(frozen=True)
class Backup:
    """A backup in a repository."""

    #: Backups are numbered from 1.
    id: int
    #: Seconds since 1970.
    made: int
    #: The bytes of its files, which it may share with other backups.
    bytes: int
    #: The number of its files.
    files: int


class Backups(_native.Backups):
    """A directory of incremental backups.

    Each is a database at one moment. The database may be in use, by this process or another.
    ``progress`` is called with the bytes done and all bytes; its exception ends the work.
    """

    def create(
        self,
        database: str | os.PathLike[str],
        *,
        bytes_per_second: int = 0,
        quick: bool = False,
        progress: Progress | None = None,
    ) -> Backup:
        """Add a backup of the database in a directory.

        ``quick`` takes a table for the one in an earlier backup if name, size and footer are the
        same, instead of reading it.
        """
        return Backup(*self._create(database, bytes_per_second, quick, progress))

    def list(self) -> list[Backup]:
        """The backups, oldest first."""
        return [Backup(*facts) for facts in self._list()]

    def restore(
        self,
        path: str | os.PathLike[str],
        *,
        id: int | None = None,
        progress: Progress | None = None,
    ) -> Backup:
        """Restore a backup, the newest one by default, into a new directory."""
        return Backup(*self._restore(id, path, progress))

    def verify(self, *, id: int | None = None, progress: Progress | None = None) -> Backup:
        """Read a backup, the newest one by default, and check it."""
        return Backup(*self._verify(id, progress))
