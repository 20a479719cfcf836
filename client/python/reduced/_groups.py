"""A reduction for each of many groups, whatever does it."""
from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from . import _abi
from ._elements import Element, cell_dtype, element
from ._functions import _stats_fields
from ._lib import lib
from ._plan import NANS, is_wide, out_code
from ._remote import Array
from ._results import fit
from ._state import finished, named


def element_of_groups(dtype: np.dtype[Any], name: str) -> Element:
    """What elements of a type are for the library."""
    found = element(dtype, name)
    if found.parts == 2 or found.dated:
        raise TypeError(f"{name}: elements of {dtype} have no groups")
    return found


def table(fields: dict[str, Array]) -> Array:
    """Fields as an array of records."""
    found = np.empty(len(fields["count"]), [(name, field.dtype) for name, field in fields.items()])
    for name, field in fields.items():
        found[name] = field
    return found


class Groups:
    """A reduction of elements of a type, for each of `groups` groups."""

    def __init__(self, op: str, dtype: Any, groups: int, nan: str):
        if nan not in NANS:
            raise ValueError(f"nan is propagate, omit or raise, not {nan!r}")
        self.op, self.dtype, self.groups, self.nan = named(op), np.dtype(dtype).newbyteorder("="), groups, nan
        self.element = element_of_groups(self.dtype, "a")

    def spec(self, out: int, ddof: int = 0, flags: int = 0) -> Any:
        return _abi.Spec(size=ctypes.sizeof(_abi.Spec), op=_abi.OPS[self.op].code, dtype=self.element.code, out=out, nan=NANS[self.nan], ddof=ddof,
                         flags=flags, rows=1)

    def write(self, spec: Any, cells: Array) -> None:
        """Fill the cells of all groups."""
        raise NotImplementedError

    def states(self) -> Array:
        raise NotImplementedError

    def state_size(self) -> int:
        return int(lib().reduce_state_size(_abi.OPS[self.op].code, self.element.code))

    def finish(self, wanted: np.dtype[Any], ddof: int) -> Array:
        """The values of all groups."""
        if is_wide(self.op, self.element, wanted):
            return finished(self.op, self.element, self.states(), wanted, self.nan, ddof)
        out = out_code(self.op, self.element, wanted) if self.op != "stats" else 0
        cells = np.empty((self.groups, 2) if self.op == "minmax" else self.groups, cell_dtype(self.op, self.element, out))
        self.write(self.spec(out, ddof), cells)
        if self.op == "stats":
            return table(_stats_fields(cells, self.element))
        return cells.view(np.intp) if self.op == "count" and wanted == np.intp else fit(cells, wanted, self.op)  # there are at most 2^60 elements
