"""The short way: an array, or a tensor on a GPU, uses the plan of an earlier one of the same type, shape and strides. NumPy's arguments
take 13 us on the way to the library without it, and 5 with it."""
from __future__ import annotations

from ctypes import byref, c_double, c_int64, c_size_t, c_uint64
from functools import partial
from typing import Any

import numpy as np

from . import _client
from ._arrays import numpys, shortcuts, to_numpy
from ._client import Client
from .errors import Error
from ._lib import check, lib
from ._plan import NANS, NO_VALUE, Plan, Recipe, is_plain, make_room, marked, offsets_key, plan
from ._prepare import CHOICES, roomy
from ._remote import Array
from ._results import located, put_out, truths
from ._run import run
from ._sources import address, pointer

_known: dict[Any, Repeat] = {}
_device: Any = None  # the module, imported with the first tensor
_plain = {np.ndarray, list, tuple, int, float}  # subclasses may behave otherwise
_values: dict[str, Any] = {"f8": c_double, "i8": c_int64, "u8": c_uint64}
INT = {int}
_calls: dict[str, Any] = {}  # functions without the types of their arguments, whose conversion takes as long as the rest of the call


def untyped(name: str) -> Any:
    """The library's function."""
    found = _calls.get(name)
    if found is None:
        found = _calls[name] = lib()[name]
    return found


class Repeat:
    """What all arrays or tensors of one plan share. A single number is written to a value of C, other results to an array of cells."""

    __slots__ = ("recipe", "nbytes", "size", "spec", "make", "room", "laid", "shape")

    def __init__(self, recipe: Recipe, p: Plan, a: Any = None):
        self.recipe, self.nbytes = recipe, p.source.nbytes
        self.laid: Any = None  # makes the copy that is needed
        if a is not None and address(recipe.laid(a, recipe.pairs)) != address(a):
            simple = recipe.segments is None and not (recipe.flips or recipe.pairs) and a.dtype.isnative and recipe.layout.order == tuple(range(a.ndim))
            self.laid = np.ndarray.copy if simple else partial(recipe.laid, pairs=recipe.pairs)
        self.size, self.spec, self.room = c_uint64(p.source.nbytes), byref(recipe.spec), c_size_t(p.cells.nbytes)
        self.make = _values.get(recipe.cell.str[1:]) if recipe.number else None
        self.shape = recipe.shape if recipe.direct is None else recipe.direct

    def of_tensor(self, client: Client, pointer: int, stream: int) -> Any:
        """The caller's result. Raises the library's error."""
        handle, offset = _device.handle_of(client, pointer, self.nbytes, _device.driver().settle(pointer, stream))
        return self.result(client, untyped("reduce_device"), self.spec, (handle, c_uint64(offset)), None)

    def of_array(self, client: Client, a: Array, marks: Array | None, initial: Any, out: Any, weights: Any = None, order: Any = None) -> Any:
        """The same for elements in memory. What the call points to lives as long as the call."""
        recipe, spec, keep = self.recipe, self.spec, None
        data = a if self.laid is None else self.laid(a)
        if not (marks is initial is weights is order is None):
            one, keep = recipe.filled(marks, initial, weights, order)
            spec = byref(one)
        found = self.result(client, _calls.get("reduce_run") or untyped("reduce_run"), spec, (pointer(data),), out)
        del data, keep
        return found

    def result(self, client: Client, call: Any, spec: Any, where: tuple[Any, ...], out: Any) -> Any:
        recipe, make = self.recipe, self.make
        value: Any = np.empty(self.shape, recipe.cell) if make is None else make()
        busy = client._busy
        try:
            busy.append(None)  # from here on `close` waits. In the try, as a signal's handler may raise after any call
            err = call(client._handle or client._open(), spec, *where, self.size, pointer(value) if make is None else byref(value), self.room, None)
        finally:
            busy.pop()
        if err:
            try:
                check(err)
            except Error as e:
                raise located(e, recipe.finish)
        if make is not None:
            return bool(value.value) if recipe.number == "b" else value.value
        if recipe.direct is None:
            return recipe.finish(value) if out is None else recipe.finish(value, out)
        if (other := recipe.other) is not None:
            value = truths(value) if other.kind == "b" else value.view(other)[()]
        if recipe.back:
            value = value.transpose(recipe.back)
        return value if out is None else put_out(value, out, recipe.op)


def _first(key: Any, p: Plan, client: Client | None, a: Any = None) -> Any:
    """The result of a plan, which is kept. `a` is an array in memory."""
    global _device
    if a is None:
        from . import _device
    value = run(p, client)
    if p.recipe is not None and p.source.nbytes and p.cells.size:
        make_room(_known)
        _known[key] = Repeat(p.recipe, p, a)
    return value


def _of_array(op: str, a: Any, axis: Any, dtype: Any, out: Any, keepdims: bool, initial: Any, where: Any, client: Any, ddof: Any, nan: Any,
              offsets: Any, wrap: bool, make: Any, order: Any) -> Any:
    """The result for an array in memory."""
    parted = None if offsets is None else offsets_key(offsets)
    edged, alike = (order, order.alike) if order is not None and order.edges else (None, order)
    key = op, axis, dtype, keepdims, ddof, nan, wrap, make, alike, parted, where is None, initial is None, out is None or out.dtype, a.dtype, a.shape, a.strides
    known = None if offsets is not None is parted else _known.get(key)
    if known is None:
        return _first(key, plan(op, a, axis, dtype, out, keepdims, initial, where, ddof, nan, offsets, wrap, make, order=order), client, a)
    marks = where if where is None or where.dtype == bool and where.shape == a.shape else marked(a, where)
    if marks is False or not known.recipe.fits(a):
        return run(plan(op, a, axis, dtype, out, keepdims, initial, where, ddof, nan, offsets, wrap, make, order=order), client)
    return known.of_array(client or _client._default or _client.default(), a, marks, initial, out, None, edged)


def with_axis(op: str, a: Array, axis: Any, keepdims: bool) -> Repeat | None:
    """What earlier calls with no more arguments have left for arrays like this, whose values do not matter."""
    kind = type(axis)
    if not (kind is int or kind is tuple and not {*map(type, axis)} - INT or axis is None):
        return None
    key = op, axis, keepdims, a.dtype, a.shape, a.strides
    known = _known.get(key)
    if known is None:
        known = _known.get((op, axis, None, keepdims, 0, "propagate", False, None, None, None, True, True, True, *key[3:]))
        if known is None or known.recipe.element.dated:
            return None
        make_room(_known)
        _known[key] = known
    return known


def _array(a: Any, kind: Any, whole: bool, where: Any) -> tuple[Any, Any]:
    """An argument and a mask, as an array and the mask that leaves out what it does, if its result is that of an array."""
    if kind is np.ndarray:
        return a, where
    if kind in _plain:
        return to_numpy(a, "a"), where
    if kind is not np.ma.MaskedArray:
        return (a if (found := numpys(a)) is None else found), where
    if not whole or a.dtype.names or not (where is None or where.shape == a.shape and where.dtype == bool):
        return a, where
    data, marks = np.asarray(a.data), a.mask
    if marks is np.ma.nomask:
        return data, where
    keep = ~marks
    return (data, keep if where is None else keep & where) if keep.any() else (a, where)  # what is all masked has a masked result


def _of_masked(op: str, a: Any, axis: Any, keepdims: bool, where: Any, *others: Any) -> Any:
    """The result along axes of a masked array: that of an array and a mask. None: that of some elements is not."""
    data, keep = np.asarray(a.data), a.mask
    if data.dtype.kind not in "biuf" or not (where is None or where.shape == a.shape and where.dtype == bool):
        return None
    lost: Any = False
    if keep is not np.ma.nomask:
        keep = ~keep
        try:
            lost = ~keep.any(axis=axis, keepdims=keepdims)
        except ValueError:  # the plan says what is wrong with the axis
            return None
        if type(lost) is not np.ndarray or op in CHOICES and lost.any():
            return None
        where = keep if where is None else keep & where
    found = _of_array(op, data, axis, None, None, keepdims, None, where, *others, None, False, None, None)
    return np.ma.MaskedArray(found, mask=lost) if type(found) is np.ndarray else found


def reduce(op: str, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
           where: Any = None, client: Any = None, deadline: Any = None, progress: Any = None, ddof: Any = 0, nan: str = "propagate",
           offsets: Any = None, wrap: bool = False, make: Any = None, order: Any = None) -> Any:
    """The result for NumPy's arguments."""
    kind = type(a)
    simple = deadline is progress is None and (type(ddof) is int or type(ddof) is float) and (keepdims is False or keepdims is True) and is_plain(axis, dtype, out) \
        and (client is None or isinstance(client, Client))
    if simple and nan in NANS and (where is None or type(where) is np.ndarray) and (kind in _plain or kind not in shortcuts):
        if kind is np.ma.MaskedArray and (axis is not None or keepdims) and dtype is out is initial is offsets is make is order is None and not wrap \
                and (of_masked := _of_masked(op, a, axis, keepdims, where, client, ddof, nan)) is not None:
            return of_masked
        a, where = _array(a, kind, axis is out is offsets is None and not keepdims, where)
        if type(a) is np.ndarray and (initial is None or initial is not NO_VALUE and roomy(op, a, initial) is a):  # elements may become wider ones for it
            return _of_array(op, a, axis, dtype, out, keepdims, initial, where, client, ddof, nan, offsets, wrap, make, order)
    take = shortcuts.get(kind)
    if take is not None and simple and out is initial is where is offsets is None and (found := take(a)) is not None:
        pointer, stream, kind = found
        key = op, axis, dtype, keepdims, ddof, nan, wrap, make, order, kind
        known = _known.get(key)
        if known is not None:
            try:
                return known.of_tensor(client or _client._default or _client.default(), pointer, stream)
            except (_device.CudaError, Error) as e:
                _device.obstacle(e)
        return _first(key, plan(op, a, axis, dtype, keepdims=keepdims, ddof=ddof, nan=nan, wrap=wrap, make=make, order=order), client)
    return run(plan(op, a, axis, dtype, out, keepdims, initial, where, ddof, nan, offsets, wrap, make, order=order), client, deadline, progress)
