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
    reducectl: `axis` `rows` `ddof` `q` `method` `k` `bins` `edges` `initial` `mask` `offsets` (both the name of a file) `wrap`, and
    `unpack=False` and `scale=False`. Those of tables are `text` `header` `delimiter` `decimal` `quote` `comment` `skip_lines` `missing`, that
    of .npz is `verify`. The file is read by pieces in another
    process, in little memory, but for order statistics. Several results are one array in C order, with several quantiles before them and
    the `k` best elements, or the counts of a histogram, behind. Those of several members are a dict. Numbers are Python's, float64, int64
    or uint64; `out` is another type.

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
        if shape is not None or offset or order != "C":
            raise TypeError("file() needs the `dtype` of raw elements for `shape`, `offset` and `order`; a .npy file has its own")
        try:
            found = _npy(path)
        except (ValueError, EOFError, UnpicklingError):
            raise ValueError(f"path: {other_format(path)}; with `dtype` it is one of raw elements") from None
        if not isinstance(found, np.ndarray):
            raise TypeError(f"path: {other_format(path)}")
        return found
    kind, nbytes = dtype_of(dtype), os.path.getsize(path)
    if kind.hasobject or not kind.itemsize:  # the bytes of a file are not addresses
        raise TypeError(f"dtype: a file has no elements of {kind}")
    if not isinstance(offset, (int, np.integer)) or not 0 <= offset <= nbytes:
        raise ValueError(f"offset is from 0 to the {nbytes} bytes of {os.fspath(path)!r}, not {offset!r}")
    if offset == 0 and (known := known_head(path)):
        raise ValueError(f"path: {os.fspath(path)!r} is {known}; np.memmap takes its bytes as elements")
    left = nbytes - offset
    if shape is None and left % kind.itemsize:
        raise ValueError(f"path: the {left} bytes of {os.fspath(path)!r} from byte {offset} on are not a multiple of the {kind.itemsize}-byte element")
    lengths = shape if isinstance(shape, (tuple, list)) else [left // kind.itemsize if shape is None else shape]
    if not all(isinstance(n, (int, np.integer)) and n >= 0 for n in lengths):
        raise ValueError(f"shape: lengths are integers of 0 or more, not {shape!r}")
    wanted = prod(map(int, lengths))
    if wanted * kind.itemsize > left:
        raise ValueError(f"shape: {shape!r} has more elements than the {left} bytes of {os.fspath(path)!r} from byte {offset} on")
    return np.memmap(path, kind, "r", offset, shape, order) if wanted else np.empty(0 if shape is None else shape, kind, order)


# Packed bytes, and arrays behind a header, are not elements, although they are bytes of a file like others. As in reducectl's sniff.c.
HEADS = {"a .npy file, which has a type": [b"\x93NUMPY"], "a zip archive (.npz)": [b"PK\3\4", b"PK\5\6", b"PK\7\x08"], "an HDF5 file": [b"\x89HDF\r\n\x1a\n"],
         "a gzip stream": [b"\x1f\x8b\x08"], "a zstd stream": [b"\x28\xb5\x2f\xfd", b"\x27\xb5\x2f\xfd", b"\x26\xb5\x2f\xfd", b"\x25\xb5\x2f\xfd"],
         "an xz stream": [b"\xfd7zXZ\0"], "a bzip2 stream": [b"BZh"], "an lz4 stream": [b"\4\x22\x4d\x18", b"\2\x21\x4c\x18"], "an lzip stream": [b"LZIP\1"],
         "an lzop stream": [b"\x89LZO\0\r\n\x1a\n"], "a snappy stream": [b"\xff\6\0\0sNaPpY"], "a stream of compress": [b"\x1f\x9d\x90"],
         "an lzma stream": [b"\x5d\0\0\x80\0"], "a RAR archive": [b"Rar!\x1a\7"], "a 7z archive": [b"7z\xbc\xaf\x27\x1c"], "a Parquet file": [b"PAR1"],
         "an Arrow file": [b"ARROW1"], "a Feather file": [b"FEA1"], "an ORC file": [b"ORC"], "an Avro file": [b"Obj\1"], "a GGUF model": [b"GGUF"],
         "a netCDF file": [b"CDF\1", b"CDF\2", b"CDF\5"], "an HDF4 file": [b"\x0e\3\x13\1"], "a GRIB file": [b"GRIB"], "an NRRD image": [b"NRRD000"],
         "a file of R": [b"RDX2\n", b"RDX3\n", b"X\n\0\0\0\2", b"X\n\0\0\0\3"], "a FITS file": [b"SIMPLE  ="], "a MATLAB file": [b"MATLAB 5"],
         "an SQLite database": [b"SQLite format 3"]}
FURTHER = {257: (b"ustar", "a tar archive"), 344: (b"n+1\0", "a NIfTI image"), 512: (b"\x89HDF\r\n\x1a\n", "an HDF5 file")}
LONGEST = 520  # bytes that say what a file is
READ_BY_REDUCECTL = (".npz", ".safetensors", ".h5", ".hdf5", ".nc", ".csv", ".tsv", ".gz", ".zst")


def known_head(path: Any) -> str | None:
    """What a file is whose bytes are not elements."""
    with open(path, "rb") as f:
        head = f.read(LONGEST)
        skipped = False
        while head[1:4] == b"\x2a\x4d\x18" and head[0] >> 4 == 5:  # a frame that decoders of zstd and lz4 skip
            f.seek(8 + int.from_bytes(head[4:8], "little") - len(head), os.SEEK_CUR)
            head, skipped = f.read(LONGEST), True
    if skipped:
        return "an lz4 stream" if head.startswith(HEADS["an lz4 stream"][0]) else "a zstd stream"
    json = int.from_bytes(head[:8], "little")
    if head[8:9] == b"{" and 2 <= json <= os.path.getsize(path) - 8 and all(c >= 32 or c in b"\n\t\r" for c in head[9:8 + json]):
        return "a safetensors file"
    found = next((name for at, (start, name) in sorted(FURTHER.items(), reverse=True) if head.startswith(start, at)), None)
    return found or next((name for name, starts in HEADS.items() if head.startswith(tuple(starts))), None)


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
