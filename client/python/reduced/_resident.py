"""Arrays that stay with the daemon, in its device's memory if it has one."""
from __future__ import annotations

import ctypes
from math import prod
from operator import index
from typing import Any

import numpy as np

from . import _abi, _functions, _order
from ._arrays import operand
from ._client import Client, default
from ._elements import element
from .errors import ShapeError, text_of
from ._lib import milliseconds
from ._remote import Array, Remote
from ._sources import Memory, Source, address

EACH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_abi.Resident))
DTYPES = {_abi.I8: "i1", _abi.U8: "u1", _abi.I16: "i2", _abi.U16: "u2", _abi.I32: "i4", _abi.U32: "u4", _abi.I64: "i8", _abi.U64: "u8",
          _abi.F16: "f2", _abi.F32: "f4", _abi.F64: "f8", _abi.BOOL: "?"}
NUMPYS = {"amin": "min", "amax": "max"}  # NumPy's other names


def encoded(name: Any) -> bytes:
    if not isinstance(name, str):
        raise TypeError(f"name is a string, not {name!r:.60}")
    return name.encode()


def shape_of(shape: Any, n: int) -> tuple[int, ...]:
    """A shape of n elements. As in NumPy, one length may be -1."""
    try:
        found = tuple(index(i) for i in (shape if isinstance(shape, (tuple, list)) else (shape,)))
    except TypeError:
        raise TypeError(f"shape is a tuple of integers, not {shape!r:.60}") from None
    others = prod(i for i in found if i != -1)
    if found.count(-1) == 1 and others and not n % others:
        found = tuple(n // others if i == -1 else i for i in found)
    return found


class _Named(Source):
    """The source of resident data."""

    jobs = False

    def __init__(self, of: Resident, nbytes: int, offset: int = 0):
        self.name, self.client, self.nbytes, self.offset = of.name.encode(), of.client, nbytes, offset

    def run(self, client: Client, spec: Any, out: Any, room: int, result: Any) -> int:
        return client.attempt("reduce_named", spec, self.name, self.offset, self.nbytes, out, room, result)

    def start(self, *_: Any) -> int:
        raise NotImplementedError


class Resident(Remote):
    """An array of `dtype` and `shape` that the daemon keeps under a name. All reductions of this package take it, and NumPy's
    functions of the same names do, too."""

    readable = False

    def __init__(self, name: str, dtype: Any = None, shape: Any = None, *, client: Client | None = None):
        r = _abi.Resident(size=ctypes.sizeof(_abi.Resident))
        (client or default()).call("reduce_find", encoded(name), ctypes.byref(r))
        if dtype is None and r.dtype not in DTYPES:
            raise TypeError(f"dtype: that of {name!r} is not one of NumPy's; name it, for example ml_dtypes.bfloat16")
        self.name = name
        self.dtype = np.dtype(dtype or DTYPES[r.dtype])
        if element(self.dtype).code != r.dtype:
            raise TypeError(f"dtype: {name!r} does not have elements of {self.dtype}")
        n = r.bytes // self.dtype.itemsize
        known = tuple(r.shape[:r.dims]) if r.dims and not r.order else (n,)
        self.shape = known if shape is None else shape_of(shape, n)
        if prod(self.shape) != n:
            raise ValueError(f"shape: {name!r} has {n} elements, not those of {self.shape}")
        self.client = client

    @property
    def strides(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(self.dtype.itemsize * prod(self.shape[i + 1:]) for i in range(len(self.shape)))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def source(self) -> Source:
        return _Named(self, self.nbytes)

    def part(self, first: int, n: int) -> Source:
        size = self.dtype.itemsize
        return _Named(self, n * size, first * size) if n else Memory(np.empty(0, self.dtype))

    def copy(self, why: str) -> Array:
        raise NotImplementedError(f"resident data: {why} cannot be reduced with the daemon, and it does not give elements back")

    def reshape(self, *shape: Any) -> Resident:
        """The same elements with another shape."""
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return Resident(self.name, self.dtype, wanted, client=self.client)

    def drop(self) -> None:
        """Free its memory, after the reductions under way."""
        (self.client or default()).call("reduce_drop", self.name.encode())

    def __repr__(self) -> str:
        return f"<reduced.Resident {self.name!r} {self.dtype} {self.shape}>"

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"{self!r} cannot be an array: the daemon does not give elements back")

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name = NUMPYS.get(func.__name__, func.__name__)
        ours = getattr(_order if name in _order.__all__ else _functions, name, None)
        if func.__module__ != "numpy" or ours is None or func.__name__.startswith("_"):
            return NotImplemented
        if self.client is not None:
            kwargs = {"client": self.client, **kwargs}
        return ours(*args, **kwargs)


def put(name: str, a: Any, *, replace: bool = False, ttl: float | None = None, client: Client | None = None,
        deadline: float | None = None) -> Resident:
    """Store an array with the daemon under a name, for `ttl` seconds or until it is dropped. Any program of the same user can reduce it.
    After Ctrl-C within it the daemon has the array as a whole or not at all.

    >>> r = reduced.put("matrix", np.array([[1e16, 1, -1e16], [3, 4, 5]]))
    >>> np.sum(r, axis=1), reduced.max(r)
    (array([ 1., 12.]), 1e+16)
    >>> r.drop()
    """
    o = operand(a)
    if o.keep is not None:
        raise TypeError("a: a masked array cannot be resident; fill it first")
    data = np.ascontiguousarray(o.data.copy("put") if isinstance(o.data, Remote) else o.data)
    data = data.astype(data.dtype.newbyteorder("="), copy=False)
    el, encoded_name = element(data.dtype), encoded(name)
    if not data.size:
        raise ShapeError("a: an array without elements cannot be resident", "a")
    if el.parts == 2:
        raise TypeError("a: complex numbers cannot be resident; put their real and imaginary parts")
    if el.dated:  # which no reduction of resident data takes, and other programs would take NaT for a number
        raise TypeError(f"a: elements of {data.dtype} cannot be resident; put their view as int64")
    opts = _abi.PutOpts(size=ctypes.sizeof(_abi.PutOpts), flags=_abi.REPLACE * replace, ttl_ms=milliseconds(ttl, "ttl"),
                        deadline_ms=milliseconds(deadline, "deadline"), dims=data.ndim if data.ndim <= _abi.MAX_DIMS else 0)
    shape = (ctypes.c_uint64 * max(1, data.ndim))(*data.shape)
    opts.shape = ctypes.addressof(shape)
    (client or default()).call("reduce_put", encoded_name, el.code, address(data), data.nbytes, ctypes.byref(opts))
    return Resident(name, data.dtype, data.shape or (1,), client=client)


def residents(client: Client | None = None) -> list[tuple[str, str, int]]:
    """(name, type, bytes) of each array that the daemon keeps for this user."""
    found: list[tuple[str, str, int]] = []
    names = {code: name for name, code in _abi.DTYPES.items()}

    def each(_: Any, r: Any) -> int:
        found.append((text_of(r.contents.name), names.get(r.contents.dtype, "?"), r.contents.bytes))
        return 0
    (client or default()).call("reduce_list", EACH(each), None)
    return sorted(found)
