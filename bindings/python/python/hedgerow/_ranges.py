"""Ranges of entries: what ``keys``, ``values`` and ``items`` return."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from itertools import chain, starmap
from typing import Any

from . import _native
from ._native import BytesArray
from ._types import Buffer, Part

Begin = Callable[[Part, "Bounds"], _native.Steps]


def as_bytes(given: Any) -> bytes:
    """The bytes of a bytes-like object. ``bytes(given)`` would make zeros of a number."""
    try:
        return memoryview(given).tobytes()
    except TypeError:
        found = type(given).__name__
        raise TypeError(f"expected a bytes-like object, found {found}") from None


class Bounds:
    """The keys of a range."""

    __slots__ = ("prefix", "reverse", "start", "stop")

    def __init__(
        self, start: Buffer | None, stop: Buffer | None, prefix: Buffer | None, reverse: bool
    ) -> None:
        if prefix is not None and (start is not None or stop is not None):
            raise TypeError("expected a prefix, or start and stop, found both")
        self.start, self.stop, self.prefix, self.reverse = start, stop, prefix, reverse

    def __contains__(self, item: Any) -> bool:
        key = as_bytes(item)
        return (
            (self.start is None or as_bytes(self.start) <= key)
            and (self.stop is None or key < as_bytes(self.stop))
            and (self.prefix is None or key.startswith(as_bytes(self.prefix)))
        )

    def reversed(self) -> Bounds:
        return Bounds(self.start, self.stop, self.prefix, not self.reverse)


class _Range:
    """A part of a mapping. Each ``iter()`` begins anew, with the entries of that moment."""

    _part: Part
    _mapping: Mapping[bytes, bytes]

    def __init__(self, mapping: Mapping[bytes, bytes], begin: Begin, bounds: Bounds) -> None:
        self._mapping, self._begin, self._bounds = mapping, begin, bounds

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self._begin(self._part, self._bounds))

    def __reversed__(self) -> Iterator[Any]:
        return chain.from_iterable(self._begin(self._part, self._bounds.reversed()))

    def __len__(self) -> int:
        raise TypeError("a range has no length without reading it: count it, or use approximate_len")

    @classmethod
    def _from_iterable(cls, iterable: Any) -> set[Any]:
        return set(iterable)


class Keys(_Range, KeysView[bytes]):
    """The keys of a range."""

    _part: Part = "keys"

    def __contains__(self, key: object) -> bool:
        return key in self._bounds and key in self._mapping


class Values(_Range, ValuesView[bytes]):
    """The values of a range."""

    _part: Part = "values"

    def __contains__(self, value: object) -> bool:
        wanted = as_bytes(value)
        return any(wanted == found for found in self)


class Items(_Range, ItemsView[bytes, bytes]):
    """The keys of a range with their values."""

    _part: Part = "items"

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return chain.from_iterable(starmap(zip, self._begin(self._part, self._bounds)))

    def __reversed__(self) -> Iterator[tuple[bytes, bytes]]:
        return chain.from_iterable(starmap(zip, self._begin(self._part, self._bounds.reversed())))

    def arrays(self, entries: int = 65_536) -> Iterator[tuple[BytesArray, BytesArray]]:
        """The keys and the values as arrays of up to so many entries, without an object for each."""
        if entries < 1:
            raise ValueError(f"expected more than no entries, found {entries}")
        steps = self._begin(self._part, self._bounds)
        while (arrays := steps.arrays(entries)) is not None:
            yield arrays

    def __contains__(self, item: Any) -> bool:
        if not isinstance(item, tuple) or len(item) != 2:
            raise TypeError(f"expected a tuple of a key and a value, found {item!r}")
        key, value = item
        wanted = as_bytes(value)
        return key in self._bounds and self._mapping.get(key) == wanted


class Ranged(Mapping[bytes, bytes]):
    """A mapping that is read by ranges."""

    __slots__ = ()

    def _steps(self, part: Part, bounds: Bounds) -> _native.Steps:
        raise NotImplementedError

    def keys(
        self,
        *,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        prefix: Buffer | None = None,
        reverse: bool = False,
    ) -> Keys:
        """The keys from ``start`` on and before ``stop``, or those with a prefix, in order."""
        return Keys(self, self._steps, Bounds(start, stop, prefix, reverse))

    def values(
        self,
        *,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        prefix: Buffer | None = None,
        reverse: bool = False,
    ) -> Values:
        """The values of such a range, in the order of their keys."""
        return Values(self, self._steps, Bounds(start, stop, prefix, reverse))

    def items(
        self,
        *,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        prefix: Buffer | None = None,
        reverse: bool = False,
    ) -> Items:
        """The keys of such a range with their values, in order."""
        return Items(self, self._steps, Bounds(start, stop, prefix, reverse))

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.keys())

    def __reversed__(self) -> Iterator[bytes]:
        return reversed(self.keys())

    def __len__(self) -> int:
        raise TypeError("a keyspace has no length without reading it: use approximate_len")
