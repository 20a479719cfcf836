"""One reduction for each key of resident data: the daemon does it, with keys that are resident, too, or in memory."""
from __future__ import annotations

import ctypes
import os
import uuid
from math import prod
from typing import Any

import numpy as np

from . import _abi
from ._client import default
from ._functions import minmax
from ._elements import element
from ._groups import Groups
from ._lib import milliseconds
from ._remote import Array, Remote
from ._sources import address
from .errors import BadHandleError, TooLargeError

LIVES = 3600.0  # seconds that keys stay which were put for one reduction, should this process die in it


class Kept(Groups):
    """The groups of resident elements. `keys` are resident, or the groups of all elements; below 0: of none."""

    def __init__(self, op: str, data: Any, groups: int, nan: str, keys: Any):
        super().__init__(op, data.dtype, groups, nan)
        self.data, self.keys = data, keys if isinstance(keys, Remote) else _short(keys, groups)
        if keys.size != data.size:
            raise ValueError(f"a: {data.size} elements for {keys.size} keys")
        self.client = data.client or default()

    def write(self, spec: Any, cells: Array) -> None:
        if not self.groups:
            return
        spec.rows = self.groups
        spec.flags |= _abi.DROP_OUTSIDE
        spec.keys_dtype = element(self.keys.dtype).code
        if isinstance(self.keys, Remote):
            self._ask(spec, cells, self.keys.name.encode())
            return
        spec.keys = address(self.keys)
        try:
            self._ask(spec, cells, None)
        except (TooLargeError, BadHandleError) as e:  # keys for more groups than messages can have; the elements are on a GPU
            if e.field != "keys":
                raise
            spec.keys = None
            self._ask_with_keys_put(spec, cells)

    def _ask(self, spec: Any, cells: Array, keys: bytes | None) -> None:
        spec.keys_name = keys
        self.client.call("reduce_named", ctypes.byref(spec), self.data.name.encode(), 0, self.data.nbytes, address(cells), cells.nbytes, None)

    def _ask_with_keys_put(self, spec: Any, cells: Array) -> None:
        name = f"reduced.by_key.{os.getpid()}.{uuid.uuid4().hex[:24]}".encode()
        there = _abi.Resident(size=ctypes.sizeof(_abi.Resident))
        self.client.call("reduce_find", self.data.name.encode(), ctypes.byref(there))
        opts = _abi.PutOpts(size=ctypes.sizeof(_abi.PutOpts), ttl_ms=milliseconds(LIVES, "ttl"), place=there.place)
        self.client.call("reduce_put", name, element(self.keys.dtype).code, address(self.keys), self.keys.nbytes, ctypes.byref(opts))
        try:
            self._ask(spec, cells, name)
        finally:
            self.client.call("reduce_drop", name)

    def states(self) -> Array:
        found = np.empty((self.groups, self.state_size()), np.uint8)
        self.write(self.spec(0, flags=_abi.STATES_OUT), found)
        return found


def _short(keys: Array, groups: int) -> Array:
    """Groups of the shortest type that has them, since they travel."""
    kind = next(np.dtype(t) for t in ("i1", "i2", "i4", "i8") if groups <= np.iinfo(t).max)
    return np.ascontiguousarray(keys, kind)


def number_of(keys: Any, name: str) -> int:
    """How many groups resident keys are of: from 0 to the largest."""
    if keys.dtype.kind not in "iu":
        raise TypeError(f"{name}: keys are integers, not {keys.dtype}")
    least, most = (int(x) for x in minmax(keys, client=keys.client))
    if least < 0:
        raise ValueError(f"{name}: it has a number below 0, {least}: resident keys are 0 or more")
    return most + 1


def present(keys: Any, groups: int) -> Array:
    """The different keys in order."""
    return Kept("count", keys, groups, "propagate", keys).finish(np.dtype(np.intp), 0).nonzero()[0]


def repeated(ids: Any, shape: tuple[int, ...]) -> Any:
    """The key of each element of rows that have one each."""
    across = prod(shape[1:])
    if across == 1:
        return ids
    return None if isinstance(ids, Remote) else (ids[:, None] * across + np.arange(across)).reshape(-1)
