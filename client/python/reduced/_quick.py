"""The short way for small plain arrays: one call, no plan. 16 doubles take about 2 us longer than from a C program."""
from __future__ import annotations

import functools
from ctypes import byref, c_double, c_int64, c_size_t, c_uint64
from typing import Any, Callable, TypeVar, cast

import numpy as np

from . import _client
from ._abi import OPS
from ._again import with_axis
from ._elements import FLOATS, INTEGERS, element
from ._lib import check, lib
from ._sources import BEHIND_HEAD, HEAD_KNOWN, pointer_at

LIMIT = 1 << 20 if HEAD_KNOWN else -1  # elements: a plan takes 4 to 17 us more; longer calls look for signals meanwhile
sized = c_size_t.from_param  # what ctypes passes for a number, in half the time
SIZES = 1024                # numbers that are kept in that form
F = TypeVar("F", bound=Callable[..., Any])
Value = tuple[Any, Any]     # a value in C, and what ctypes passes for its address
Kinds = dict[np.dtype[Any], tuple[int, Any, list[Value], bool]]  # type of the elements -> reduce_dtype, type in C, values that are free, is the value a bool?
MISSING: Any = object()
VALUES: dict[str, Any] = {"f": c_double, "i": c_int64, "u": c_uint64}
FREE: dict[Any, list[Value]] = {make: [] for make in VALUES.values()}
_sizes: dict[int, Any] = {}
_simple: Any = None  # reduce_simple without argument types, whose conversion takes half of the time of a call by ctypes


def _new(make: Any) -> Value:
    value = make()
    return value, byref(value)


def _load() -> Any:
    global _simple
    _simple = lib()["reduce_simple"]
    return _simple


def _size(n: int) -> Any:
    """What ctypes passes for a number, which is kept."""
    if len(_sizes) >= SIZES:
        _sizes.clear()
    found = _sizes[n] = sized(n)
    return found


def _kinds(op: str) -> Kinds:
    """The types that the short way takes."""
    found: Kinds = {}
    for name in (*FLOATS, *INTEGERS, "?"):
        el = element(np.dtype(name))
        make = {"REAL": c_double, "NUMBER": c_int64}.get(value := OPS[op].value, VALUES[el.kind])
        found[el.dtype] = el.code, make, FREE[make], op in ("any", "all") or value == "END" and el.dtype.kind == "b"
    return found


def short(op: str, first: bool = True) -> Callable[[F], F]:
    """The same function; but a small whole array in C order, given alone, takes the short way, and one with no more than axes a shorter one.
    `first`: the axis is the first argument after the array."""
    def of(function: F) -> F:
        kinds, code = _kinds(op), OPS[op].code

        @functools.wraps(function)
        def call(a: Any, *others: Any, axis: Any = MISSING, keepdims: Any = MISSING, **named: Any) -> Any:
            if type(a) is np.ndarray and not named and (not others or first and axis is MISSING and len(others) == 1) \
                    and (keepdims is MISSING or keepdims is False or keepdims is True):
                along = others[0] if others else None if axis is MISSING else axis
                kind = kinds.get(a.dtype) if along is None and keepdims is not True else None
                if kind is None or (n := a.size) > LIMIT or not a.flags.c_contiguous:
                    if (known := with_axis(op, a, along, keepdims is True)) is not None:
                        return known.of_array(_client._default or _client.default(), a, None, None, None)
                else:
                    dtype, make, free, is_bool = kind
                    size = _sizes.get(n) or _size(n)
                    try:
                        one = free.pop()
                    except IndexError:
                        one = _new(make)
                    value, place = one
                    client = _client._default or _client.default()
                    busy = client._busy
                    try:
                        busy.append(None)  # as in _again.py
                        handle = client._handle
                        err = (_simple or _load())(client._open() if handle is None else handle, code, dtype, 0, pointer_at(id(a) + BEHIND_HEAD), size, place)
                    finally:
                        busy.pop()
                    if err:
                        check(err)
                    found = value.value
                    free.append(one)
                    return found != 0 if is_bool else found
            if axis is not MISSING:
                named["axis"] = axis
            if keepdims is not MISSING:
                named["keepdims"] = keepdims
            return function(a, *others, **named)
        return cast(F, call)
    return of
