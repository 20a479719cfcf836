"""Files as arrays whose bytes the daemon reads itself."""
from __future__ import annotations

import os
from typing import Any

import numpy as np


def file(path: str | os.PathLike[str], dtype: Any = None, shape: Any = None, offset: int = 0, order: Any = "C") -> np.ndarray[Any, Any]:
    """The array of a .npy file, or of raw elements of `dtype` from byte `offset` on. Reductions pass the file to the daemon, so that
    its bytes do not pass through this process. It is a read-only memmap.

    >>> np.save("m.npy", np.array([[1e16, 1, -1e16], [3, 4, 5]]))
    >>> reduced.sum(reduced.file("m.npy"), axis=1)
    array([ 1., 12.])
    """
    if dtype is None:
        try:
            found = np.load(path, mmap_mode="r")
        except ValueError:  # nothing can be mapped of an array without elements
            found = np.load(path)
        if not isinstance(found, np.ndarray):
            raise TypeError(f"path: {os.fspath(path)!r} has several arrays; use np.load and name one")
        return found
    if os.path.getsize(path) <= offset:
        return np.empty(shape or 0, dtype)
    return np.memmap(path, dtype, "r", offset, shape, order)
