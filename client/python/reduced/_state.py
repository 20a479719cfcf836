"""Partial states: exact reductions of parts, here or anywhere, that are merged in any order. They need no daemon."""
from __future__ import annotations

import ctypes
import threading
from math import prod
from typing import Any

import numpy as np

from . import _abi
from ._arrays import PLAIN, Operand, operand, remote, to_numpy
from ._arrow import Flowing
from ._elements import Element, cell_dtype, element
from .errors import TypeError_
from ._lib import check, lib
from ._plan import NANS, is_wide, out_code, plan
from ._prepare import PAIRED, PLACES, RANKED, elements_of, result_dtype
from ._remote import Array
from ._results import fit, plain
from ._run import run
from ._sources import address
from ._wide import numbers

COUNT = slice(8, 16)  # where a state has the number of its elements (proto/PROTOCOL.md, Partial states)
MOST = 1 << 60  # elements
HERE = 1 << 12  # elements: more of them are reduced as an array, by several threads
OTHER_NAMES = {"ptp": "range", "norm": "norm2", "amin": "min", "amax": "max"}


def named(op: Any) -> str:
    """The library's name of an operation."""
    found = OTHER_NAMES.get(op, op) if isinstance(op, str) else op
    if not isinstance(found, str) or found not in _abi.OPS:
        raise ValueError(f"op: no reduction is called {op!r}; there are {', '.join(_abi.OPS)}")
    return found


def mergeable(op: Any) -> str:
    """The same of one that has states, and so streams."""
    found = named(op)
    if found in RANKED:
        raise ValueError(f"op: the {found} needs all elements at once, so it has no states and no streams; reduced.{found} takes whole arrays")
    return found


def dtype_of(dtype: Any, name: str = "dtype") -> np.dtype[Any]:
    try:
        found: np.dtype[Any] = np.dtype(dtype)
        return found
    except TypeError as e:
        raise TypeError(f"{name}: {e}") from None


def first_ddof(op: str) -> int:
    """The default of the function of that name."""
    return int(op in ("sem", "cov"))


def check_place(name: str, place: Any, least: int) -> None:
    """Is it a number of elements that a state can have?"""
    if not isinstance(place, (int, np.integer)) or not least <= place <= MOST:
        raise ValueError(f"{name} is an integer of {least} or more, at most 2^60, not {place!r}")


def divisor_of(ddof: Any) -> int:
    """`ddof` of a state, which must be an integer."""
    if not isinstance(ddof, (int, np.integer)) or not 0 <= ddof < 2**32:
        raise ValueError(f"ddof is an integer of 0 or more for a state, not {ddof!r}")
    return int(ddof)


def runs(keep: Any, size: int) -> Any:
    """(begin, end) of each run of elements that are not missing."""
    if keep is None:
        return ((0, size),)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], keep, [False]]).view("i1"))).tolist()
    return zip(edges[::2], edges[1::2])


def finished(op: str, el: Element, states: Array, wanted: np.dtype[Any], nan: str, ddof: int) -> Array:
    """The values of consecutive states as a type, rounded to it once."""
    if is_wide(op, el, wanted):
        return fit(numbers(states.tobytes(), op, wanted), wanted, op)
    out = out_code(op, el, wanted) if op != "stats" else 0
    states, cells = np.ascontiguousarray(states), np.empty((len(states), 2) if op == "minmax" else len(states), cell_dtype(op, el, out))
    spec = _abi.Spec(size=ctypes.sizeof(_abi.Spec), op=_abi.OPS[op].code, dtype=el.code, out=out, nan=NANS[nan], ddof=ddof, rows=1)
    check(lib().reduce_states_finish(address(states), states.nbytes, ctypes.byref(spec), address(cells), cells.nbytes))
    return cells if op == "stats" else fit(cells, wanted, op)


class State:
    """The state of one reduction: of no elements at first. `s += x` or `s.add(x)` adds elements, `s |= other` merges another state,
    and `s.finish()`, `float(s)` and `int(s)` give the value. It pickles, so that parts can be reduced by other processes.

    Places of `argmin`, `argmax` and `stats` count the elements in the order in which they are added or merged. A part that was added
    with an `index` keeps its places in a merge.

    >>> a, b = reduced.state("sum", [1e16, 1.0]), reduced.state("sum", [-1e16])
    >>> a |= b
    >>> float(a)
    1.0
    """

    def __init__(self, op: str, dtype: Any, *, nan: str = "propagate", ddof: int | None = None):
        if nan not in NANS:
            raise ValueError(f"nan is propagate, omit or raise, not {nan!r}")
        self.op, self.nan = mergeable(op), nan
        self.ddof = first_ddof(self.op) if ddof is None else divisor_of(ddof)
        self.dtype = dtype_of(dtype).newbyteorder("=")
        self._element: Element = element(self.dtype, "dtype")
        if self._element.parts == 2 or self._element.dated:
            raise TypeError(f"dtype: no state has elements of {self.dtype}")
        self._code = _abi.OPS[self.op].code, self._element.code
        self.count = 0  # of the elements that were added here
        self._based = False  # an index was given: places are those in the whole array
        self._followed = True  # the count says where the next element is
        self._using = threading.Lock()  # taken for each change: several threads may add elements
        self._bytes = ctypes.create_string_buffer(lib().reduce_state_size(*self._code) or 1)
        check(lib().reduce_state_init(self._bytes, len(self._bytes), *self._code))

    def add(self, a: Any, weights: Any = None, *, index: int | None = None, client: Any = None) -> State:
        """Add the elements of an array; `index` is that of the first one in the whole array. Those of pairs have `weights`."""
        if self.op in PAIRED or weights is not None:
            return self._add_pairs(a, weights)
        if index is not None:
            check_place("index", index, 0)
        o = operand(a, flows=True) if not isinstance(a, np.ndarray) else None
        if o is None or not isinstance(o.data, Flowing):
            self._add(a if o is None or isinstance(a, PLAIN) else o, index, client)
            return self
        for piece in o.data:
            self._add(Operand(*piece), index, client)
            index = None if index is None else index + piece.data.size
        return self

    def _add(self, a: Any, index: int | None, client: Any) -> None:
        far = remote(a)
        if far is not None and far.dtype != self.dtype:
            raise TypeError(f"a: elements of {far.dtype} where {self.dtype} is expected")
        data: Any = far
        keep: Any = None
        if far is None:
            data, keep = elements_of(a, self.dtype, "a")
        size = prod(data.shape)
        if index is None:
            self._next()
        elif index != self.count:
            self._based, self._followed = True, False
        if far is None and size <= HERE:
            with self._using:
                first = self.count if index is None else int(index)
                for begin, end in runs(keep, size):
                    check(lib().reduce_state_add_at(self._bytes, len(self._bytes), address(data) + begin * data.itemsize, end - begin, NANS[self.nan], first + begin))
                self.count += size
            return
        p = plan(self.op, data, nan=self.nan, state=True, where=keep)
        with self._using:
            p.spec.index_base, self.count = self.count if index is None else int(index), self.count + size
        try:
            self._merge(run(p, client).tobytes())
        except BaseException:
            with self._using:
                self.count -= size
            raise

    def _add_pairs(self, a: Any, weights: Any) -> State:
        if self.op not in PAIRED or weights is None:
            raise TypeError(f"weights: {self.op} {'needs' if self.op in PAIRED else 'takes no'} weights")
        (data, keep), (beside, other) = elements_of(a, self.dtype, "a"), elements_of(weights, self.dtype, "weights")
        if data.size != beside.size:
            raise ValueError(f"weights: {beside.size} of them for {data.size} elements")
        marks = keep if other is None else other if keep is None else keep & other
        with self._using:
            for begin, end in runs(marks, data.size):
                at = begin * data.itemsize
                check(lib().reduce_state_add_pairs(self._bytes, len(self._bytes), address(data) + at, self._code[1], address(beside) + at, end - begin,
                                                   NANS[self.nan], 0))
            self.count += data.size
        return self

    def _next(self) -> None:
        """ValueError if the index of the next element is not known."""
        if self.op in PLACES and not self._followed:
            raise ValueError("index: how many elements came before is not known; give `index`, or `count` to from_bytes")

    def _merge(self, other: bytes, index: int | None = 0) -> None:
        """`index`: by how much the other's places move; None: by the number of elements here."""
        check(lib().reduce_state_check(other, len(other), *self._code))
        with self._using:
            by = self.count if index is None else index
            check(lib().reduce_state_merge_at(self._bytes, len(self._bytes), other, len(other), by))

    def merge(self, other: State) -> State:
        """Add the elements of another state of the same operation and type. Its places follow those of the elements here, unless it
        has an index of its own."""
        if not isinstance(other, State):
            raise TypeError(f"other is a State, not {type(other).__name__}")
        if (other.op, other.dtype) != (self.op, self.dtype):
            raise TypeError_(f"TYPE: other is a state of {other.op} of {other.dtype}, not of {self.op} of {self.dtype}", "other")
        placed = self.op in PLACES and not other._based and other.count
        if placed and self._based:
            raise ValueError("other: its elements were counted from 0, but those here have an index; give one to both")
        if placed:
            self._next()
        self._merge(bytes(other), None if placed else 0)
        with self._using:
            self.count, self._based = self.count + other.count, self._based or other._based
            self._followed = self._followed and other._followed
        return self

    def finish(self, *, out: Any = None, ddof: int | None = None) -> Any:
        """The value, rounded once; a dict for stats. `out` is a floating-point type to round to."""
        wanted = dtype_of(out, "out") if out is not None else result_dtype(self.op, self._element)
        el, code = self._element, 0 if out is None else element(wanted, "out").code
        if is_wide(self.op, el, wanted):
            found = numbers(bytes(self), self.op, wanted)
            return plain(found[0], wanted) if out is None else fit(found, wanted, self.op)[0]
        spec = _abi.Spec(size=ctypes.sizeof(_abi.Spec), op=self._code[0], dtype=self._code[1], out=code, nan=NANS[self.nan],
                         ddof=self.ddof if ddof is None else divisor_of(ddof), rows=1)
        cells = np.empty(2 if self.op == "minmax" else 1, cell_dtype(self.op, el, code))
        check(lib().reduce_state_finish(bytes(self), len(self._bytes), ctypes.byref(spec), address(cells), cells.nbytes))
        if self.op == "stats":
            from ._functions import _one_stats
            return _one_stats(cells[0], el)._asdict()
        values = tuple(v if out is not None else plain(v, wanted) for v in (fit(cells, wanted, self.op) if out is not None else cells))
        return values if self.op == "minmax" else values[0]

    def words(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The state as integers. Their sums over any number of states, in any order, are those of the merged state: for MPI, NCCL, SQL."""
        n = lib().reduce_state_words(*self._code)
        if not n:
            raise TypeError(f"op: states of {self.op} have no words that can be added")
        found = np.empty(n, np.int64)
        check(lib().reduce_state_to_words(bytes(self), len(self._bytes), address(found), n))
        return found

    @classmethod
    def from_words(cls, op: str, dtype: Any, words: Any) -> State:
        """The state of words that were added up."""
        s = cls(op, dtype)
        w, _ = elements_of(words, np.dtype(np.int64), "words")
        check(lib().reduce_state_from_words(s._bytes, len(s._bytes), *s._code, address(w), w.size))
        return s

    @classmethod
    def from_bytes(cls, op: str, dtype: Any, data: bytes, *, count: int | None = None, **kw: Any) -> State:
        """The state of `bytes(state)`, also one that the daemon or `reducectl --partial` wrote. Its places stay as they are, and what is
        added to it needs an `index`. With `count` they were counted from 0, and that many elements, left out or not, came before."""
        s = cls(op, dtype, **kw)
        try:
            data = bytes(memoryview(data))
        except TypeError:
            raise TypeError(f"data is bytes, not {type(data).__name__}") from None
        check(lib().reduce_state_check(data, len(data), *s._code))
        s._bytes = ctypes.create_string_buffer(data, len(s._bytes))
        s.count = int.from_bytes(data[COUNT], "little")
        s._based, s._followed = count is None, count is not None
        if count is not None:
            check_place("count", count, s.count)
            s.count = int(count)
        return s

    def __bytes__(self) -> bytes:
        with self._using:
            return self._bytes.raw

    def __iadd__(self, a: Any) -> State:
        return self.add(*a) if self.op in PAIRED and isinstance(a, tuple) else self.add(a)

    def __ior__(self, other: State) -> State:
        return self.merge(other)

    def __or__(self, other: State) -> State:
        return self.copy().merge(other)

    def copy(self) -> State:
        return _restore(self.op, self.dtype, bytes(self), self.nan, self.ddof, self.count, self._based, self._followed)

    def __float__(self) -> float:
        return float(self.finish())

    def __int__(self) -> int:
        return int(self.finish())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and (self.op, self.dtype, bytes(self)) == (other.op, other.dtype, bytes(other))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return _restore, (self.op, self.dtype.str if self.dtype.kind != "V" else self.dtype, bytes(self), self.nan, self.ddof,
                          self.count, self._based, self._followed)

    def __repr__(self) -> str:
        return f"<reduced.State {self.op} of {self.count} {self.dtype}>"


def _restore(op: str, dtype: Any, data: bytes, nan: str, ddof: int, count: int, based: bool = False, followed: bool = True) -> State:
    """From a pickle, which may come from anywhere: the library checks the bytes."""
    s = State.from_bytes(op, dtype, data, nan=nan, ddof=ddof)
    s.count, s._based, s._followed = count, based, followed
    return s


def state(op: str, a: Any = None, dtype: Any = None, *, nan: str = "propagate", ddof: int | None = None) -> State:
    """A partial state of the elements of `a`, or of none with a type. `ddof` is by default that of the function of the same name.

    >>> s = reduced.state("var", dtype="f8", ddof=1)
    >>> s += [1.0, 2.0]
    >>> s += [3.0, 4.0]
    >>> float(s)
    1.6666666666666667
    """
    if a is None:
        return State(op, dtype or float, nan=nan, ddof=ddof)
    o = None if isinstance(a, (np.ndarray, *PLAIN)) else operand(a, flows=True)
    if dtype is None:
        dtype = (to_numpy(a, "a") if o is None else o.data).dtype
        element(dtype)
    return State(op, dtype, nan=nan, ddof=ddof).add(a if o is None else o)
