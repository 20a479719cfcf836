"""Files as arrays whose bytes the daemon reads itself, and reductions of files of other kinds."""
from __future__ import annotations

import os
import stat
from math import prod
from pickle import UnpicklingError
from typing import Any, Literal, overload

import numpy as np

from . import _abi
from ._state import OTHER_NAMES, dtype_of


Op = Literal["sum", "prod", "mean", "var", "std", "sem", "rms", "min", "max", "minmax", "amin", "amax", "range", "ptp", "argmin", "argmax", "any", "all", "count",
             "count_nonzero", "count_nan", "sumsq", "norm", "norm1", "norm2", "norminf", "and", "or", "xor", "stats",
             "median", "quantile", "kth", "largest", "smallest", "histogram"]


@overload
def file(path: str | os.PathLike[str], dtype: Op, *, member: str | None = None, nan: str = "propagate", out: Any = None, client: Any = None,
         deadline: float | None = None, **options: Any) -> Any: ...
@overload
def file(path: str | os.PathLike[str], dtype: Any = None, *, op: str, member: str | None = None, nan: str = "propagate", out: Any = None,
         client: Any = None, deadline: float | None = None, **options: Any) -> Any: ...
@overload
def file(path: str | os.PathLike[str], dtype: Any = None, shape: Any = None, offset: int = 0, order: Any = "C") -> np.ndarray[Any, Any]: ...
def file(path: str | os.PathLike[str], dtype: Any = None, shape: Any = None, offset: int = 0, order: Any = "C", *, op: str | None = None,
         member: str | None = None, nan: str = "propagate", out: Any = None, client: Any = None, deadline: float | None = None, **options: Any) -> Any:
    """The array of a .npy file, or of raw elements of `dtype` from byte `offset` on. Reductions pass the file to the daemon, so that
    its bytes do not pass through this process. It is a read-only memmap.

    >>> np.save("m.npy", np.array([[1e16, 1, -1e16], [3, 4, 5]]))
    >>> reduced.sum(reduced.file("m.npy"), axis=1)
    array([ 1., 12.])

    With `op`, also in second place, it is the value of that reduction of any file that reducectl(1) reads: .npz, safetensors, HDF5,
    netCDF, tables as text, packed by gzip or zstd, .npy and raw elements. `member` is an array or a column of it. Options are those of
    reducectl: `axis` `rows` `ddof` `q` `method` `k` `initial` `mask` `offsets` (both the name of a file) `wrap` `text` `header` `delimiter`
    `decimal` `quote` `comment` `skip_lines` `missing` `verify`, and `unpack=False` and `scale=False`. The file is read by pieces in another
    process, in little memory, but for order statistics. Several results are one array in C order, those of several members a dict. Numbers
    are Python's, float64, int64 or uint64; `out` is another type.

    >>> np.savez("m.npz", x=np.array([[1e16, 1, -1e16], [3, 4, 5]]), y=np.arange(4))
    >>> reduced.file("m.npz", "sum", member="x", axis=1)
    array([ 1., 12.])
    >>> reduced.file("m.npz", "max")
    {'x': 1e+16, 'y': 3}
    """
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"path is the name of a file, not {path!r:.60}")
    if op is None and isinstance(dtype, str) and (dtype in _abi.OPS or dtype in OTHER_NAMES):
        op, dtype = dtype, None
    if op is not None:
        if shape is not None or offset or order != "C":
            raise TypeError("file() with `op` has no `shape`, `offset` or `order`; reduce file(...) of raw elements instead")
        from ._reducectl import reduce_file
        return reduce_file(path, op, dtype, member, nan, out, client, deadline, options)
    if member is not None or out is not None or deadline is not None or client is not None or options:
        raise TypeError(f"file() needs `op` for {', '.join(options) or 'member, out, client and deadline'}")
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
    if offset == 0 and (known := known_head(path)):
        raise ValueError(f"path: {os.fspath(path)!r} is {known}; np.memmap takes its bytes as elements")
    left = nbytes - offset
    if shape is None and left % kind.itemsize:
        raise ValueError(f"path: the {left} bytes of {os.fspath(path)!r} from byte {offset} on are not a multiple of the {kind.itemsize}-byte element")
    wanted = left // kind.itemsize if shape is None else prod(shape) if isinstance(shape, (tuple, list)) else shape
    if wanted * kind.itemsize > left:
        raise ValueError(f"shape: {shape!r} has more elements than the {left} bytes of {os.fspath(path)!r} from byte {offset} on")
    return np.memmap(path, kind, "r", offset, shape, order) if wanted else np.empty(0 if shape is None else shape, kind, order)


# Packed bytes, and arrays behind a header, are not elements, although they are bytes of a file like others.
HEADS = {b"\x93NUMPY": "a .npy file, which has a type", b"PK\3\4": "a zip archive (.npz)", b"\x89HDF\r\n": "an HDF5 file", b"\x1f\x8b\x08": "a gzip stream",
         b"\x28\xb5\x2f\xfd": "a zstd stream", b"\xfd7zXZ\0": "an xz stream", b"BZh": "a bzip2 stream", b"\4\x22\x4d\x18": "an lz4 stream",
         b"PAR1": "a Parquet file", b"ARROW1": "an Arrow file", b"CDF\1": "a netCDF file", b"CDF\2": "a netCDF file", b"CDF\5": "a netCDF file"}
READ_BY_REDUCECTL = (".npz", ".safetensors", ".h5", ".hdf5", ".nc", ".csv", ".tsv", ".gz", ".zst")


def known_head(path: Any) -> str | None:
    """What a file is whose bytes are not elements."""
    with open(path, "rb") as f:
        head = f.read(16)
    return next((name for start, name in HEADS.items() if head.startswith(start)), None)


def other_format(path: Any) -> str:
    """What a file is that is not a .npy file of numbers. Nothing in it is unpickled, and no message advises that."""
    name = os.fsdecode(path)
    with open(path, "rb") as f:
        head = f.read(256)
    if head.startswith(b"\x93NUMPY"):
        return f"{name!r} is not a .npy file of numbers: it is cut off, or holds Python objects"
    known = next((end for end in READ_BY_REDUCECTL if name.lower().endswith(end)), None)
    how = f"; file({name!r}, op) reduces a {known} file" if known else ""
    return f"{name!r} is not a .npy file that can be reduced{how}"


def _npy(path: Any) -> Any:
    try:
        return np.load(path, mmap_mode="r")
    except ValueError:  # an array without elements cannot be mapped
        return np.load(path)
