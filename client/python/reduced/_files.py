"""Files as arrays whose bytes the daemon reads itself."""
from __future__ import annotations

import os
import stat
from math import prod
from pickle import UnpicklingError
from typing import Any

import numpy as np

from ._state import dtype_of


def file(path: str | os.PathLike[str], dtype: Any = None, shape: Any = None, offset: int = 0, order: Any = "C") -> np.ndarray[Any, Any]:
    """The array of a .npy file, or of raw elements of `dtype` from byte `offset` on. Reductions pass the file to the daemon, so that
    its bytes do not pass through this process. It is a read-only memmap.

    >>> np.save("m.npy", np.array([[1e16, 1, -1e16], [3, 4, 5]]))
    >>> reduced.sum(reduced.file("m.npy"), axis=1)
    array([ 1., 12.])
    """
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"path is the name of a file, not {path!r:.60}")
    if not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path):
        raise ValueError(f"path: {os.fspath(path)!r} is not a regular file; a stream reduces what comes in pieces")
    if dtype is None:
        try:
            found = _npy(path)
        except (ValueError, EOFError, UnpicklingError):
            raise ValueError(f"path: {other_format(path)}; with `dtype` it is one of raw elements") from None
        if not isinstance(found, np.ndarray):
            raise TypeError(f"path: {other_format(path)}")
        return found
    kind, nbytes = dtype_of(dtype), os.path.getsize(path)
    if not isinstance(offset, (int, np.integer)) or not 0 <= offset <= nbytes:
        raise ValueError(f"offset is from 0 to the {nbytes} bytes of {os.fspath(path)!r}, not {offset!r}")
    left = nbytes - offset
    if shape is None and left % kind.itemsize:
        raise ValueError(f"path: the {left} bytes of {os.fspath(path)!r} from byte {offset} on are not a multiple of the {kind.itemsize}-byte element")
    wanted = left // kind.itemsize if shape is None else prod(shape) if isinstance(shape, (tuple, list)) else shape
    if wanted * kind.itemsize > left:
        raise ValueError(f"shape: {shape!r} has more elements than the {left} bytes of {os.fspath(path)!r} from byte {offset} on")
    return np.memmap(path, kind, "r", offset, shape, order) if wanted else np.empty(0 if shape is None else shape, kind, order)


READ_BY_REDUCECTL = (".npz", ".safetensors", ".h5", ".hdf5", ".nc", ".csv", ".tsv", ".gz", ".zst")


def other_format(path: Any) -> str:
    """What a file is that is not a .npy file of numbers. Nothing in it is unpickled, and no message advises that."""
    name = os.fsdecode(path)
    with open(path, "rb") as f:
        head = f.read(256)
    if head.startswith(b"\x93NUMPY"):
        return f"{name!r} is not a .npy file of numbers: it is cut off, or holds Python objects"
    known = next((end for end in READ_BY_REDUCECTL if name.lower().endswith(end)), None)
    how = f"; `reducectl OP {name}` reduces a {known} file" if known else ""
    return f"{name!r} is not a .npy file that can be reduced{how}"


def _npy(path: Any) -> Any:
    try:
        return np.load(path, mmap_mode="r")
    except ValueError:  # an array without elements cannot be mapped
        return np.load(path)
