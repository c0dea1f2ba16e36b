"""Arrays of keys and values: those of NumPy, and those of Arrow from any library."""

from __future__ import annotations

import sys
from typing import Any

from . import _native

#: Kinds of NumPy types whose items have a length of their own, or none.
_REFUSED_KINDS = "OUT"


def rows(array: Any) -> _native.Rows | None:
    """The rows of an array; ``None`` for something that is no array.

    A NumPy array of ``S`` gives strings, without the zeros at their ends, as NumPy sees them. Any
    other one gives the bytes of each item, or of each row if it has two dimensions.
    """
    if hasattr(array, "combine_chunks"):
        array = array.combine_chunks()
    if hasattr(array, "__arrow_c_array__"):
        return _native.Rows.arrow(*array.__arrow_c_array__())
    if not hasattr(array, "__array_interface__"):
        return None
    if array.ndim not in (1, 2) or array.dtype.kind in _REFUSED_KINDS:
        raise TypeError(
            "expected an array of one or two dimensions of bytes or numbers, found "
            f"{array.ndim} dimensions of {array.dtype}"
        )
    width = array.dtype.itemsize * (array.shape[1] if array.ndim == 2 else 1)
    strip = array.dtype.kind == "S" and array.ndim == 1
    return _native.Rows.fixed(array.tobytes(), width, len(array), strip)


def key_rows(array: Any) -> _native.Rows | None:
    """The rows of an array of keys, as :func:`rows`; numbers are refused, as their order differs."""
    kind = getattr(getattr(array, "dtype", None), "kind", "S")
    is_bytes = kind in "SV" or (kind == "u" and array.dtype.itemsize == 1 and array.ndim == 2)
    if hasattr(array, "__array_interface__") and not is_bytes:
        raise TypeError(
            f"expected keys of type S or rows of uint8, found {array.dtype} with "
            f"{array.ndim} dimensions"
        )
    return rows(array)


def found(keys: Any, values: _native.BytesArray) -> Any:
    """Values as the library of the keys has them: an array of pyarrow for one of pyarrow."""
    if type(keys).__module__.partition(".")[0] == "pyarrow":
        return sys.modules["pyarrow"].array(values)
    return values


def to_numpy(values: _native.BytesArray, dtype: Any = "S") -> Any:
    """Values as an array of NumPy.

    With ``"S"``, strings of the length of the longest; a missing value is empty. With another
    type, one row of items for each value; all values must be there and have one length.
    """
    import numpy

    kind = numpy.dtype(dtype)
    longest = values._longest
    if kind == numpy.dtype("S"):
        width = max(longest, 1)
        return numpy.frombuffer(values._padded(width), f"S{width}")
    if values.null_count or values._shortest != longest or longest % kind.itemsize:
        raise ValueError(
            f"expected values that are all there, with one length that {kind} divides, found "
            f"{values.null_count} missing and lengths of {values._shortest} to {longest} bytes"
        )
    count = longest // kind.itemsize
    return numpy.frombuffer(values._padded(longest), kind).reshape(len(values), count)
