"""NumPy's element types, and what the daemon reduces for each: a number, two numbers (complex), or the integer of a date."""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import _abi
from .errors import NUMPYS


class Element(NamedTuple):
    """How elements of a NumPy type reach the daemon."""

    dtype: np.dtype[Any]  # NumPy's
    code: int             # reduce_dtype
    kind: str             # "f", "i" or "u": the class of its values
    view: str             # NumPy's type with the same bytes
    parts: int = 1        # 2: complex numbers

    @property
    def dated(self) -> bool:
        return self.dtype.kind in "mM"


FLOATS = {"f2": _abi.F16, "f4": _abi.F32, "f8": _abi.F64}
INTEGERS = {"i1": _abi.I8, "u1": _abi.U8, "i2": _abi.I16, "u2": _abi.U16, "i4": _abi.I32, "u4": _abi.U32, "i8": _abi.I64, "u8": _abi.U64}
NAT = np.iinfo(np.int64).min
CELL = {"f": "f8", "i": "i8", "u": "u8"}
OTHERS = {code: name for name, code in {**FLOATS, **INTEGERS}.items()} | {_abi.BF16: "u2"}
STATS = [("count", "u8"), ("nans", "u8"), ("zeros", "u8"), ("argmin", "u8"), ("argmax", "u8"), ("min", ""), ("max", ""), ("sum", ""),
         ("sum_high", "i8"), ("mean", "f8"), ("var", "f8"), ("std", "f8")]  # reduce_stats; "": of the class of the elements
_known: dict[np.dtype[Any], Element] = {}


def _find(dtype: np.dtype[Any]) -> Element | None:
    short = f"{dtype.kind}{dtype.itemsize}"
    if short in FLOATS:
        return Element(dtype, FLOATS[short], "f", short)
    if short in INTEGERS:
        return Element(dtype, INTEGERS[short], dtype.kind, short)
    if dtype.kind == "b":
        return Element(dtype, _abi.BOOL, "u", "u1")
    if dtype.kind == "c" and dtype.itemsize <= 16:
        view = f"f{dtype.itemsize // 2}"
        return Element(dtype, FLOATS[view], "f", view, 2)
    if dtype.kind in "mM":
        return Element(dtype, _abi.I64, "i", "i8")
    if dtype.name == "bfloat16":
        return Element(dtype, _abi.BF16, "f", "u2")
    return None


def element(dtype: np.dtype[Any], name: str = "a") -> Element:
    """The element of an array's type. TypeError names the argument."""
    found = _known.get(dtype)
    if found is None:
        found = _find(dtype)
        if found is None:
            what = "structured arrays" if dtype.names else f"elements of type {dtype}"
            raise TypeError(f"{name}: {what} cannot be reduced; convert them first, for example with astype(float)")
        _known[dtype] = found
    return found


def float_code(dtype: np.dtype[Any]) -> int:
    """reduce_dtype of a floating-point type; 0 for other types."""
    if dtype.kind in "biucmM":
        return 0
    return FLOATS.get(f"{dtype.kind}{dtype.itemsize}", 0) or (_abi.BF16 if dtype.name == "bfloat16" else 0)


def part_code(dtype: np.dtype[Any]) -> int:
    """The same, of complex types that of their parts."""
    return float_code(dtype) if dtype.kind != "c" else float_code(np.dtype(f"f{dtype.itemsize // 2}"))


def is_nan(a: np.ndarray[Any, Any]) -> Any:
    """Where numbers are NaN and dates NaT."""
    return np.isnat(a) if a.dtype.kind in "mM" else np.isnan(a)


def other_dates(a: Array, dtype: np.dtype[Any]) -> Array:
    """Which dates or spans are others in the unit of this type: beyond 64 bits, where NumPy wraps, or between two of its numbers."""
    lost: Array = a.astype(dtype).astype(a.dtype).view(np.int64) != a.view(np.int64)
    return lost


def shown(op: str) -> str:
    """The function of an operation, for messages."""
    return NUMPYS.get(op, op)


def agreed(kinds: list[np.dtype[Any]], name: str) -> np.dtype[Any]:
    """The type that holds the elements of all these types; TypeError if integers had to become floats."""
    if all(k == kinds[0] for k in kinds):
        return kinds[0]
    names = " and ".join(sorted({str(k) for k in kinds}))
    try:
        found: np.dtype[Any] = np.result_type(*kinds)
    except TypeError:
        raise TypeError(f"{name}: {names} have no common type; convert them first") from None
    if found.kind not in "biufcmM" or found.kind == "f" and all(k.kind in "biu" for k in kinds) \
            or found.kind == "m" and any(k.kind != "m" for k in kinds):
        raise TypeError(f"{name}: {names} have no common type; convert them first")
    return found


def cell_dtype(op: str, el: Element, out: int) -> np.dtype[Any]:
    """NumPy's type of a cell as the library writes it."""
    value = _abi.OPS[op].value
    if value == "NUMBER":
        return np.dtype("i8")  # as NumPy's: counts and places are below 2^63
    if value == "SUMMARY":
        return np.dtype([(name, kind or CELL[el.kind]) for name, kind in STATS])
    return np.dtype(OTHERS.get(out, "f8" if value == "REAL" or el.kind == "f" else CELL[el.kind]))
