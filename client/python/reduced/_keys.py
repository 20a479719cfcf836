"""One reduction for each key, in this process: libreduce's accumulators need no daemon. Of resident data the daemon does it."""
from __future__ import annotations

import ctypes
import math
import numbers
from typing import Any

import numpy as np

from . import _abi
from ._arrays import Operand, operand, to_numpy
from ._elements import element
from ._groups import Groups, element_of_groups
from .errors import EmptyError, Error
from ._lib import check, lib
from ._plan import NANS
from ._prepare import in_memory, kept, result_dtype
from ._remote import Array, Remote
from ._resident_keys import Kept, number_of, present, repeated
from ._sources import address
from ._state import divisor_of, dtype_of, finished, first_ddof, named

OF_SOME = ("min", "max", "minmax", "range", "argmin", "argmax")  # which need an element
SPREAD = 4  # integer keys need no sorting if their range has at most this many numbers for each element


class Accumulators(Groups):
    """Those of libreduce."""

    def __init__(self, op: str, dtype: Any, groups: int, nan: str):
        super().__init__(op, dtype, groups, nan)
        self._a = ctypes.c_void_p()
        check(lib().reduce_accumulators_new(_abi.OPS[self.op].code, self.element.code, NANS[nan], min(groups, 2**64 - 1), ctypes.byref(self._a)))

    def __enter__(self) -> Accumulators:
        return self

    def __exit__(self, *_: Any) -> None:
        lib().reduce_accumulators_free(self._a)
        self._a = ctypes.c_void_p()

    def add(self, keys: Array, values: Array, keep: Array | None, flags: int) -> None:
        """Elements of our type, in order from place 0; `keep` says which count."""
        batch = _abi.Batch(size=ctypes.sizeof(_abi.Batch), key_dtype=element(keys.dtype).code, keys=address(keys), values=address(values),
                           mask=None if keep is None else address(keep), count=len(values), index=0, flags=flags)
        check(lib().reduce_accumulators_add(self._a, ctypes.byref(batch)))

    def write(self, spec: Any, cells: Array) -> None:
        check(lib().reduce_accumulators_finish(self._a, ctypes.byref(spec), 0, self.groups, address(cells), cells.nbytes))

    def states(self) -> Array:
        size = self.state_size()
        found = np.empty((self.groups, size), np.uint8)
        for i in range(self.groups):
            check(lib().reduce_accumulators_state(self._a, i, address(found) + i * size, size))
        return found


def _numbers(o: Operand, name: str) -> tuple[Array, Array | None]:
    """Integer keys in one dimension, and which are not missing."""
    data = np.asarray(o.data).reshape(-1)
    if data.size == 0 and data.dtype.kind == "f":
        data = data.astype(np.int64)  # as NumPy makes an empty list
    if data.dtype.kind not in "iu":
        raise TypeError(f"{name}: keys are integers, not {data.dtype}")
    return np.ascontiguousarray(data, data.dtype.newbyteorder("=")), None if o.keep is None else np.ascontiguousarray(o.keep).reshape(-1)


def _near(keys: Array, first: int, last: int) -> tuple[Array, Array]:
    """The different ones of integers from `first` to `last`, and the number of each, without sorting."""
    wide = keys if keys.dtype == np.uint64 else keys.astype(np.int64, copy=False)
    codes = (wide - wide.dtype.type(first)).astype(np.int64, copy=False)
    there = np.zeros(last - first + 1, bool)
    there[codes] = True
    found = there.nonzero()[0]
    if len(found) < len(there):
        codes = (there.cumsum() - 1)[codes]
    return (found.astype(wide.dtype, copy=False) + wide.dtype.type(first)).astype(keys.dtype, copy=False), codes


def _missing(x: Any) -> bool:
    """None, NaN, NA and NaT of pandas, and what NumPy has of these; a tuple, as of a MultiIndex, is missing with any of its parts."""
    if isinstance(x, tuple):
        return any(map(_missing, x))
    return x is None or type(x).__name__ in ("NAType", "NaTType") or isinstance(x, (numbers.Number, np.generic)) and bool(x != x)


def _texts(keys: Any) -> tuple[Array, Array | None] | None:
    """Text or objects, and which are not missing; None: `keys` is another kind of array."""
    data = np.asarray(keys)
    if data.dtype.kind not in "OSUT" or isinstance(keys, np.ma.MaskedArray):
        return None
    if data.dtype.kind in "SU":
        return data.reshape(-1), None
    data = data.astype(object, copy=False)  # Polars makes NumPy's StringDType of text, but objects where some is missing
    keep = np.array([type(x) is str or not _missing(x) for x in data.reshape(-1)], bool)
    return data.reshape(-1), keep


def _codes(keys: Any) -> tuple[Array, Array, Array | None]:
    """The different keys in order, the number of each element's key among them, and which elements have one."""
    texts = _texts(keys)
    if texts is None:
        o = operand(keys, "keys")
        data, keep = np.asarray(o.data).reshape(-1), None if o.keep is None else np.ascontiguousarray(o.keep).reshape(-1)
    else:
        data, keep = texts
    if data.dtype.kind in "fcmM":
        some = ~(np.isnat(data) if data.dtype.kind in "mM" else np.isnan(data))
        keep = keep if some.all() else some if keep is None else keep & some
    chosen = data if keep is None else data[keep]
    if data.dtype.kind == "f":
        chosen = chosen + data.dtype.type(0)  # -0.0 and 0.0 are one key, whichever comes first
    if chosen.dtype.kind in "iu" and len(chosen):
        first, last = int(np.minimum.reduce(chosen)), int(np.maximum.reduce(chosen))
        if last - first < SPREAD * len(chosen) + 1024:
            found, codes = _near(chosen, first, last)
            return found, codes, keep
    try:
        found, codes = np.unique(chosen, return_inverse=True)
    except TypeError as e:  # objects that have no order
        raise TypeError(f"keys: {e}") from None
    return found, codes.reshape(-1).astype(np.int64, copy=False), keep


def _kept(o: Any) -> Any:
    """Data that the daemon keeps; None: others."""
    data = o.data if type(o) is Operand else o
    return data if isinstance(data, Remote) and not data.readable else None


def _values(o: Operand, name: str) -> tuple[Array, Array | None, np.dtype[Any]]:
    data = o.data.copy("") if isinstance(o.data, Remote) and o.data.readable else to_numpy(o.data, name)
    dtype = data.dtype.newbyteorder("=")
    element_of_groups(dtype, name)
    return np.ascontiguousarray(data, dtype).reshape(-1), None if o.keep is None else np.ascontiguousarray(o.keep).reshape(-1), dtype


def _same_length(keys: int, values: int, name: str) -> None:
    if keys != values:
        raise ValueError(f"{name}: {values} elements for {keys} keys")


def _at_least(e: int) -> float:
    """The smallest double that is not less."""
    near = float(e)
    return math.nextafter(near, math.inf) if near < e else near


def _bins(x: Array, edges: Array) -> Array:
    """The bin of each number, as Reduce's histogram has them; beyond the bins -1. Numbers and edges, of which some are integers, are
    compared exactly."""
    whole = edges.dtype.kind in "iu"
    if x.dtype.kind in "biu":  # x >= e is x >= ceil(e). Python compares integers with floats exactly; NumPy does not
        x = x.astype(np.uint8) if x.dtype == bool else x
        least, most = int(np.iinfo(x.dtype).min), int(np.iinfo(x.dtype).max)
        starts = np.array([int(max(e, least)) for e in (edges if whole else np.ceil(edges)).tolist() if e <= most], x.dtype)
        last = edges[-1].item() if whole else np.floor(edges[-1]).item()
        inside = x <= int(min(last, most)) if last >= least else np.zeros(len(x), bool)
    else:
        x = x.astype(float, copy=False)
        starts, last = (np.array([_at_least(e) for e in edges.tolist()]), -_at_least(-edges[-1].item())) if whole else (edges, edges[-1])
        inside = x <= last
    found = np.searchsorted(starts, x, "right") - 1
    return np.where(inside, np.minimum(found, len(edges) - 2), -1)


def weighed(a: Operand, edges: Array, weights: Any, where: Any) -> Array:
    """The exact sum of the weights of the numbers in each bin: floats rounded once to the weights' type, integers as their sum has it.
    Without weights the numbers are counted."""
    x, masked, kind = _values(a, "a")
    values, there, dtype = (x, None, kind) if weights is None else _values(operand(weights, "weights"), "weights")
    _same_length(len(x), len(values), "weights")
    asked = None if where is None else np.ascontiguousarray(in_memory(kept(where, a), "`where`")).reshape(-1)
    keep = None
    for some in masked, there, asked:
        if some is not None:
            keep = some if keep is None else keep & some
    with Accumulators("count" if weights is None else "sum", dtype, len(edges) - 1, "propagate") as bins:
        bins.add(_bins(x, edges), values, None if keep is None else np.ascontiguousarray(keep), _abi.DROP_NEGATIVE)
        floats = dtype.kind == "f" or dtype.name == "bfloat16"
        return bins.finish(np.dtype(np.intp) if weights is None else dtype if floats else result_dtype("sum", bins.element), 0)


def by_key(keys: Any, a: Any, op: str = "sum", *, dtype: Any = None, where: Any = None, nan: str = "propagate",
           ddof: int | None = None) -> tuple[Array, Array]:
    """The different keys, in order, and for each of them the reduction of the elements of `a` that have it.

    Keys are integers, text, dates or anything that NumPy sorts; elements without a key (NaN, NaT, null) are left out. `op` is any
    operation of `State`: minmax gives pairs, and stats records with the fields of `reduced.stats`. Elements are taken in C order, and a
    place (argmin, argmax) is that in the whole array.

    Of resident elements the daemon does it. Their keys may be resident, too: then they are integers of 0 or more.

    >>> reduced.by_key(["b", "a", "b"], [0.5, 1.0, 0.25])
    (array(['a', 'b'], dtype='<U1'), array([1.  , 0.75]))
    """
    o = operand(a, "a")
    if (data := _kept(o)) is not None:
        return _by_key_there(keys, data, named(op), dtype, where, nan, ddof)
    values, keep, element_type = _values(o, "a")
    found, codes, keyed = _codes(keys)
    _same_length(len(codes) if keyed is None else len(keyed), len(values), "a")
    if where is not None:
        keep = np.ascontiguousarray(in_memory(kept(where, o), "`where`")).reshape(-1)
    if keyed is not None:  # places are those in the whole array, so nothing is cut out
        every = np.full(len(values), -1, np.int64)
        every[keyed] = codes
        codes = every
    name = named(op)
    with Accumulators(name, element_type, len(found), nan) as groups:
        if len(found):  # else no element has a key
            groups.add(np.ascontiguousarray(codes), values, None if keep is None else np.ascontiguousarray(keep), _abi.DROP_NEGATIVE)
        wanted = dtype_of(dtype) if dtype is not None else result_dtype(name, groups.element)
        try:
            return found, groups.finish(wanted, first_ddof(name) if ddof is None else divisor_of(ddof))
        except Error as e:
            if e.index is None:
                raise
            key, = found[e.index:e.index + 1].tolist()  # NumPy 2 would show a number of its own with its type
            if not isinstance(e, EmptyError):
                e.args = (e.args[0].replace(f"row {e.index}", f"key {key!r}", 1),)
                raise
            cause = "nan='omit'" if where is None and nan == "omit" else "where"
            raise ValueError(f"{cause}: the key {key!r} has no element, so no {op}") from e


def _by_key_there(keys: Any, data: Any, op: str, dtype: Any, where: Any, nan: str, ddof: int | None) -> tuple[Array, Array]:
    """Of resident data."""
    if where is not None:
        raise NotImplementedError("where: resident data by key take no mask; keys below 0 in memory leave elements out")
    if isinstance(keys, Remote):
        groups = Kept(op, data, number_of(keys, "keys"), nan, keys)
        found = present(keys, groups.groups)
        keys = found.astype(keys.dtype)
    else:
        keys, codes, keyed = _codes(keys)
        every = codes
        if keyed is not None:
            every = np.full(len(keyed), -1, np.int64)
            every[keyed] = codes
        groups, found = Kept(op, data, len(keys), nan, every), None
    wanted, chosen = dtype_of(dtype) if dtype is not None else result_dtype(op, groups.element), first_ddof(op) if ddof is None else divisor_of(ddof)
    if found is None:
        return keys, groups.finish(wanted, chosen)
    if op in OF_SOME and len(found) < groups.groups:  # a group without elements has none
        return keys, finished(op, groups.element, groups.states()[found], wanted, nan, chosen)
    return keys, groups.finish(wanted, chosen)[found]


def _check_number(n: Any, name: str) -> None:
    if not isinstance(n, (int, np.integer)) or n < 0:
        raise ValueError(f"{name} is an integer of 0 or more, not {n!r}")


def _counted(o: Operand) -> tuple[Array, Array | None, int]:
    """The numbers of bincount, which of them are there (None: all), and one more than the largest of those."""
    keys, some = _numbers(o, "x")
    there = keys if some is None else keys[some]
    if there.size and (least := np.minimum.reduce(there)) < 0:
        raise ValueError(f"x: it has a number below 0, {least}")
    return keys, some, int(np.maximum.reduce(there)) + 1 if there.size else 0


def _bincount_there(x: Any, weights: Any, minlength: int) -> Array:
    """Of resident numbers, or resident weights."""
    data = x if weights is None else _kept(operand(weights, "weights"))
    if data is None:
        raise NotImplementedError("weights: those of resident numbers are resident, too; put them")
    if isinstance(x, Remote):
        most = number_of(x, "x")
    else:
        keys, some, most = _counted(operand(x, "x"))
        x = keys if some is None else np.where(some, keys, -1)
    groups = Kept("count" if weights is None else "sum", data, max(most, int(minlength)), "propagate", x)
    return groups.finish(np.dtype(np.intp if weights is None else float), 0)


def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Array:
    """How many elements of `x`, integers of 0 or more, have each value, as numpy.bincount; with `weights` the exact sums of these,
    rounded once to float64.

    >>> reduced.bincount([0, 2, 2, 2], weights=[1e16, 1e16, 1.0, -1e16])
    array([1.e+16, 0.e+00, 1.e+00])
    """
    _check_number(minlength, "minlength")
    o, w = operand(x, "x"), None if weights is None else operand(weights, "weights")  # once: they may be streams
    if (there := _kept(o)) is not None or w is not None and _kept(w) is not None:
        return _bincount_there(o if there is None else there, w, minlength)
    if np.asarray(o.data).size == 0:  # of any type, as in NumPy
        return np.zeros(minlength, np.intp if weights is None else float)
    keys, some, most = _counted(o)
    groups = max(most, int(minlength))
    values, keep, dtype = (keys, None, keys.dtype) if w is None else _values(w, "weights")
    _same_length(len(keys), len(values), "weights")
    keep = some if keep is None else keep if some is None else keep & some
    with Accumulators("count" if weights is None else "sum", dtype, groups, "propagate") as found:
        found.add(keys, values, None if keep is None else np.ascontiguousarray(keep), _abi.DROP_OUTSIDE)  # of missing keys
        return found.finish(np.dtype(np.intp if weights is None else float), 0)


def _segment_sum_there(data: Any, segment_ids: Any, num_segments: int | None) -> Array:
    """Of resident rows, whose ids are in memory; of single elements also resident ones."""
    if isinstance(segment_ids, Remote):
        number, ids = number_of(segment_ids, "segment_ids") if num_segments is None else int(num_segments), segment_ids
    else:
        ids, some = _numbers(operand(segment_ids, "segment_ids"), "segment_ids")
        there = ids if some is None else ids[some]
        number = int(num_segments) if num_segments is not None else int(there.max(initial=0)) + 1 if (there >= 0).any() else 0
        inside = (ids >= 0) & (ids < number) if some is None else (ids >= 0) & (ids < number) & some
        _same_length(len(ids), data.shape[0], "data")
        ids = np.where(inside, ids, number).astype(np.int64)  # `number`: left out
    keys = repeated(ids, data.shape)
    if keys is None:
        raise NotImplementedError("segment_ids: those of resident rows of several elements are in memory")
    groups = Kept("sum", data, number * int(np.prod(data.shape[1:], dtype=np.int64)), "propagate", keys)
    wanted = data.dtype if data.dtype.kind == "f" or data.dtype.name == "bfloat16" else result_dtype("sum", groups.element)
    return groups.finish(wanted, 0).reshape((number, *data.shape[1:]))


def segment_sum(data: Any, segment_ids: Any, num_segments: int | None = None) -> Array:
    """The exact sums of the rows of `data` (along its first axis) that have each id, as jax.ops.segment_sum: ids below 0, from
    `num_segments` on, and missing ones, are left out.

    >>> reduced.segment_sum([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [1, 0, 1])
    array([[3., 4.],
           [6., 8.]])
    """
    o = operand(data, "data")
    if num_segments is not None:
        _check_number(num_segments, "num_segments")
    if (kept := _kept(o)) is not None:
        return _segment_sum_there(kept, segment_ids, num_segments)
    ids, some = _numbers(operand(segment_ids, "segment_ids"), "segment_ids")
    shape = tuple(o.data.shape)
    if not shape:
        raise ValueError("data: rows along its first axis are needed, and an id for each")
    values, keep, dtype = _values(o, "data")
    _same_length(len(ids), shape[0], "data")
    there = ids if some is None else ids[some]
    number = int(num_segments) if num_segments is not None else int(there.max(initial=0)) + 1 if (there >= 0).any() else 0
    across = int(np.prod(shape[1:], dtype=np.int64))
    inside = (ids >= 0) & (ids < number) if some is None else (ids >= 0) & (ids < number) & some
    keys = np.where(inside, ids, number).astype(np.int64)  # `number`: left out
    if across != 1:
        keys = (keys[:, None] * across + np.arange(across)).reshape(-1)
    with Accumulators("sum", dtype, number * across, "propagate") as found:
        found.add(np.ascontiguousarray(keys), values, keep, _abi.DROP_OUTSIDE)
        wanted = dtype if dtype.kind == "f" or dtype.name == "bfloat16" else result_dtype("sum", found.element)
        return found.finish(wanted, 0).reshape((number, *shape[1:]))
