"""CPython's tests of the mapping protocol, over a database.

The tests use keys and values of any type, and a length. A keyspace has bytes and no length, so the
class here pickles what is no text, and counts.
"""

import pickle
import tempfile
from collections.abc import Iterator
from typing import Any

from test import mapping_tests

import hedgerow


def encoded(item: Any) -> bytes:
    return b"s" + item.encode() if isinstance(item, str) else b"p" + pickle.dumps(item)


def decoded(item: bytes) -> Any:
    return item[1:].decode() if item[:1] == b"s" else pickle.loads(item[1:])


class View:
    """A view of a keyspace, decoded."""

    def __init__(self, view: Any) -> None:
        self.view = view

    def __iter__(self) -> Iterator[Any]:
        for found in self.view:
            if isinstance(found, tuple):
                yield tuple(map(decoded, found))
            else:
                yield decoded(found)


class Mapping:
    """A database as a mapping of anything. Every method is one of the keyspace."""

    def __init__(self) -> None:
        self.db = hedgerow.open(tempfile.mkdtemp())

    def __getitem__(self, key: Any) -> Any:
        try:
            return decoded(self.db[encoded(key)])
        except KeyError:
            raise KeyError(key) from None

    def __setitem__(self, key: Any, value: Any) -> None:
        self.db[encoded(key)] = encoded(value)

    def __delitem__(self, key: Any) -> None:
        del self.db[encoded(key)]

    def __contains__(self, key: Any) -> bool:
        return encoded(key) in self.db

    def __bool__(self) -> bool:
        return bool(self.db)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and self.db == other.db

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return sum(1 for _ in self.db.keys())

    def __iter__(self) -> Iterator[Any]:
        return iter(View(self.db))

    def keys(self) -> View:
        return View(self.db.keys())

    def values(self) -> View:
        return View(self.db.values())

    def items(self) -> View:
        return View(self.db.items())

    def get(self, key: Any, default: Any = None) -> Any:
        found = self.db.get(encoded(key))
        return default if found is None else decoded(found)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        return decoded(self.db.setdefault(encoded(key), encoded(default)))

    def pop(self, key: Any, *default: Any) -> Any:
        found = self.db.pop(encoded(key), *map(encoded, default))
        return decoded(found)

    def popitem(self) -> Any:
        return tuple(map(decoded, self.db.popitem()))

    def update(self, other: Any = (), /) -> None:
        keys = other.keys() if hasattr(other, "keys") else None
        pairs = other if keys is None else ((key, other[key]) for key in keys)
        self.db.update((encoded(key), encoded(value)) for key, value in pairs)

    def clear(self) -> None:
        self.db.clear()


class MappingTests(mapping_tests.BasicTestMappingProtocol):
    """All tests of the mapping protocol."""

    type2test = Mapping
