"""Types that several modules name."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal, Protocol, TypeAlias

#: Keys and values may be anything that shows its bytes.
Buffer: TypeAlias = bytes | bytearray | memoryview
#: The time until a value expires, in seconds or as a ``timedelta``; or the moment.
Expire: TypeAlias = float | timedelta | datetime
#: The guarantee of a transaction about what others write meanwhile.
Isolation: TypeAlias = Literal["serializable", "snapshot"]
Part: TypeAlias = Literal["keys", "values", "items"]


class ArrowArray(Protocol):
    """An array of Arrow, of any library."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]: ...


class NumpyArray(Protocol):
    """An array of NumPy."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


#: Keys or values without a Python object for each.
Array: TypeAlias = ArrowArray | NumpyArray
