"""What callers pass: anything that NumPy can make an array of, masked arrays, pandas, tensors on a GPU, resident data."""
from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from ._arrow import Flowing, elements, speaks
from ._arrow_layout import Piece, side_by_side
from ._elements import agreed, element, other_dates
from ._remote import Array, Remote

class Operand(NamedTuple):
    """An argument: an array or remote elements, and the elements that count (None: all)."""

    data: Any
    keep: Array | None = None
    masked: bool = False          # the caller passed a masked array
    filename: Any = None          # of a memmap
    matrix: bool = False          # the caller passed a NumPy matrix, which always has two axes


PLAIN = (list, tuple, int, float, complex, np.generic)


def numpys(a: Any) -> Array | None:
    """The elements of what pandas holds in one of NumPy's types, with nothing beside them. None: something else."""
    if not type(a).__module__.startswith("pandas."):
        return None
    blocks = getattr(getattr(a, "_mgr", None), "blocks", ()) if getattr(a, "ndim", 1) == 2 else ()  # a table with one holds no other type
    if not (len(blocks) == 1 and isinstance(blocks[0].values, np.ndarray)) and not isinstance(getattr(a, "dtype", None), np.dtype):
        return None
    found = np.asarray(a)
    return found if found.dtype.kind in "biufmM" else None


def _from_pandas(a: Any) -> Operand | None:
    """A Series, an Index, an array or a DataFrame of pandas, whose missing values may be beside its numbers."""
    try:
        inner = getattr(a, "array", a)
    except ValueError:  # of several columns, such as a MultiIndex
        return None
    data, mask, dates = (getattr(inner, name, None) for name in ("_data", "_mask", "_ndarray"))
    if isinstance(data, np.ndarray) and isinstance(mask, np.ndarray):
        return Operand(data, ~mask)
    if isinstance(dates, np.ndarray) and dates.dtype.kind in "mM":  # with a time zone, NumPy would make objects of them
        return Operand(dates)
    found = next((x for x in (getattr(inner, "_pa_array", None), data) if type(x).__module__.partition(".")[0] == "pyarrow"), None)
    return None if found is None else operand(found, flows=True)


def _from_frame(a: Any, name: str) -> Operand | None:
    """A DataFrame of pandas whose columns differ, or have missing values beside their numbers."""
    if not (type(a).__module__.partition(".")[0] == "pandas" and hasattr(a, "dtypes") and hasattr(a, "iloc") and getattr(a, "ndim", 1) == 2):
        return None
    if not a.shape[1] or len(set(a.dtypes)) == 1 and isinstance(a.dtypes.iloc[0], np.dtype):
        return None
    parts = [operand(a.iloc[:, i], name) for i in range(a.shape[1])]
    found = side_by_side([Piece(o.data, o.keep) for o in parts], agreed([o.data.dtype for o in parts], name), None, name)
    return Operand(*found)


def _from_arrow(a: Any, name: str) -> Operand | None:
    """What offers its elements by the Arrow C data interface. But pandas has said all that it knows, and xarray offers a long table."""
    library, *bases = (kind.__module__.partition(".")[0] for kind in type(a).__mro__)
    if {"pandas", "xarray"}.intersection([library, *bases]):
        return None
    if speaks(a):
        found = elements(a, name)
        return Operand(*found) if isinstance(found, Piece) else Operand(found)
    if library == "pyarrow":
        raise TypeError(f"{name}: {type(a).__name__} does not have the Arrow C data interface; arrays of pyarrow 14 and later do")
    return None


def _types(a: Any) -> set[type]:
    """The types of the elements of a list, and of the lists in it."""
    found = set(map(type, a))
    if found & {list, tuple}:
        found = found.union(*(_types(x) for x in a if type(x) in (list, tuple)))
    return found - {list, tuple}


def _opened(a: Any, name: str) -> Any:
    """A list with arrays instead of the other containers in it. TypeError if these have missing values, which NumPy would make numbers of."""
    if type(a) in (list, tuple):
        return [_opened(x, name) for x in a]
    if isinstance(a, PLAIN) or type(a) is np.ndarray:
        return a
    o = operand(a, name)
    if o.keep is not None and not np.all(o.keep):
        raise TypeError(f"{name}: a list that holds a {type(a).__name__} with missing values cannot be reduced; make one array or table of it first")
    return to_numpy(o.data, name)


def _numbers(a: Any, found: Array, name: str) -> Array:
    """The elements of a list that NumPy made floats of. Its integers stay integers, or are floats exactly; else a TypeError."""
    if not any(issubclass(kind, (int, np.integer, np.ndarray)) for kind in _types(a)):
        return found
    boxed = np.array(a, dtype=object)
    values = [int(x) if isinstance(x, np.integer) else x for x in boxed.ravel().tolist()]  # which Python compares exactly
    whole = [x for x in values if isinstance(x, int)]
    if len(whole) == len(values):
        least, most = min(whole), max(whole)
        for kind in (np.int64, np.uint64):
            if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max:
                return np.array(whole, kind).reshape(boxed.shape)
        raise TypeError(f"{name}: integers from {least} to {most} do not fit 64 bits")
    for x, y in zip(values, found.ravel().tolist()):
        if isinstance(x, int) and x != y:
            raise TypeError(f"{name}: the integer {x} beside floats cannot be one of them; convert it first")
    return found


def _check_dates(a: Any, found: Array, name: str) -> None:
    """TypeError if NumPy gave dates of a list another unit, and so other numbers."""
    for x in a:
        if type(x) in (list, tuple):
            _check_dates(x, found, name)
        elif isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "mM" and other_dates(np.asarray(x), found.dtype).any():
            raise TypeError(f"{name}: a list of {x.dtype} and others cannot be {found.dtype}; convert them first")


def to_numpy(a: Any, name: str) -> Array:
    try:
        found = np.asarray(a)
    except (ValueError, TypeError, RuntimeError) as e:
        raise type(e)(f"{name}: {e}") from e
    if found.ndim > 1 and isinstance(a, (list, tuple)) and any(kind is not np.ndarray and not issubclass(kind, PLAIN) for kind in _types(a)):
        return to_numpy(_opened(a, name), name)
    if found.dtype == object:
        what, how = ("integers beyond 64 bits" if _types((a,)) <= {int} else "elements of type object", "convert them first, for example with astype(float)")
        if not found.ndim and not isinstance(a, PLAIN):
            what, how = f"objects of type {type(a).__name__}", "make an array or a list of it first"
        if isinstance(a, os.PathLike):
            what, how = "paths", f"reduced.file({os.fspath(a)!r}) has the elements of a file"
        raise TypeError(f"{name}: {what} cannot be reduced; {how}")
    if isinstance(a, (str, bytes)):
        raise TypeError(f"{name}: a string cannot be reduced; reduced.file({a!r}) has the elements of a file of that name")
    if found.dtype.kind in "mM" and isinstance(a, (list, tuple)):
        _check_dates(a, found, name)
    return _numbers(a, found, name) if found.dtype.kind in "fc" and isinstance(a, (list, tuple)) else found


def complete(a: Any, name: str) -> Any:
    """The elements of an argument without missing values. (As in NumPy, those that a masked array masks are elements.)"""
    o = operand(a, name)
    if o.keep is not None and not o.masked and not o.keep.all():
        raise ValueError(f"{name}: it has missing values")
    return o.data


def remote(a: Any) -> Remote | None:
    """The elements of an argument that are on the GPU or with the daemon; None: they are in memory."""
    found = None if isinstance(a, (np.ndarray, *PLAIN)) else operand(a).data
    return found if isinstance(found, Remote) else None


shortcuts: dict[type, Any] = {}  # for some of these classes: a function that gives _again.py what it needs of a tensor
_foreign: dict[type, Any] = {}  # classes of tensors on a GPU, with `tensor` of _device.py: detecting them takes 2 us


def operand(a: Any, name: str = "a", flows: bool = False) -> Operand:
    """The operand for whatever a caller passes. TypeError or ValueError names the argument. With `flows` the data may be a Flowing."""
    if type(a) is np.ndarray:
        return Operand(a)
    o = a if type(a) is Operand else _operand(a, name)
    return o if flows or not isinstance(o.data, Flowing) else Operand(*o.data.whole())


def _operand(a: Any, name: str) -> Operand:
    if type(a) in _foreign and (found := _foreign[type(a)](a)) is not None:
        return Operand(found)
    if isinstance(a, np.ma.MaskedArray):
        element(a.dtype, name)  # the masks of structured arrays are structured, too
        keep = None if a.mask is np.ma.nomask else ~np.ma.getmaskarray(a)
        return Operand(np.asarray(a.data), keep, masked=True)
    if isinstance(a, np.ndarray):
        return Operand(np.asarray(a), filename=getattr(a, "filename", None), matrix=isinstance(a, np.matrix))
    if isinstance(a, Remote):
        return Operand(a)
    if isinstance(a, PLAIN):
        return Operand(to_numpy(a, name))
    if (plain := numpys(a)) is not None:
        return Operand(plain)
    if (held := _from_pandas(a) or _from_frame(a, name) or _from_arrow(a, name)) is not None:
        return held
    if hasattr(a, "__dlpack__") or hasattr(a, "__cuda_array_interface__"):
        from ._device import shortcut, tensor
        found = tensor(a)
        if isinstance(found, Remote):
            _foreign[type(a)] = tensor
            if (short := shortcut(a)) is not None:
                shortcuts[type(a)] = short
        if found is not None:
            return Operand(found)
        if not hasattr(a, "__array__") and not hasattr(a, "__array_interface__"):
            return Operand(_exchanged(a, name))
    return Operand(to_numpy(a, name))


def _exchanged(a: Any, name: str) -> Array:
    """The elements in memory of an array that offers no more than the array API standard asks for."""
    try:
        return np.from_dlpack(a)
    except (BufferError, RuntimeError, TypeError, ValueError) as e:
        raise TypeError(f"{name}: {type(a).__name__} gives no elements by DLPack: {e}") from e
