"""From NumPy's arguments to one request of libreduce."""
from __future__ import annotations

import ctypes
from copy import copy
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Callable

import numpy as np

from . import _abi, _sources
from ._arrays import Operand, operand
from ._arrow import Flowing
from ._elements import Element, cell_dtype, element, float_code, is_nan, other_dates, part_code
from .errors import EmptyError
from ._layout import Layout, arrange, axes_of, copied, in_order
from ._lib import check, lib
from ._prepare import OF_STATES, PLACES, RANKED, Prepared, become_integers, native, roomy, without_nat
from ._remote import Array, Remote
from ._results import LATER, Finish, Make, as_out
from ._sources import InPieces, InRows, Memory, Source, address, in_memory

if TYPE_CHECKING:
    from ._client import Client
    from ._segments import Segments

NANS = {"propagate": _abi.NAN_PROPAGATE, "omit": _abi.NAN_OMIT, "raise": _abi.NAN_ERROR}
MOST_ROWS_IN_RUNS = 4096  # of data that the daemon has: a reply holds as many results of any kind
OF_SQUARES = ("var", "std", "sem", "rms", "sumsq", "norm2", "stats")
RANKED_IN_RUNS = 1 << 14   # elements: rows of fewer take less time if they are copied
MOST_BYTES_AT_ONCE = 2047  # of a row of bools; of a longer one the first ones may decide sooner
MOST_STATES_OF_SQUARES = 1 << 17  # more of them take longer than a copy on the GPU: tests/bench/tuning/python.md



NO_VALUE = getattr(np, "_NoValue")  # what NumPy's own functions pass for a missing argument


def divisor(op: str, ddof: Any) -> Any:
    """`ddof` as an integer that the library takes; for var and std any other number as a Fraction."""
    if isinstance(ddof, (int, np.integer)) and 0 <= ddof < 2**32:
        return int(ddof)
    from fractions import Fraction
    try:
        ddof = ddof.item() if isinstance(ddof, np.ndarray) else ddof
        exact = Fraction(*ddof.as_integer_ratio())
    except (AttributeError, ValueError, OverflowError):  # a string, a NaN, an infinity
        raise ValueError(f"ddof is a number, not {ddof!r}") from None
    if exact.denominator == 1 and 0 <= exact < 2**32:
        return int(exact)
    if op not in ("var", "std"):
        raise ValueError(f"ddof is an integer of 0 or more, and only of var and std another number, not {ddof!r}")
    return exact


class Plan:
    """One request: what to reduce (`spec`, `source`), room for its cells, and how they become the result (`finish`)."""

    __slots__ = ("op", "element", "spec", "source", "cells", "result", "finish", "keep", "recipe", "of_nothing")

    def __init__(self, op: str, el: Element, spec: Any, source: Source, cells: Array, finish: Callable[[Array], Any], keep: Any):
        self.op, self.element, self.spec, self.source, self.cells, self.finish, self.keep = op, el, spec, source, cells, finish, keep
        self.recipe: Recipe | None = None  # one that later plans may share
        self.of_nothing: Callable[[Any], Any] | None = None  # gives the value where no element can be chosen; None: an error
        self.result: Any = None  # a struct for what the library says of it, if somebody wants to know

    def value(self) -> Any:
        """What the caller gets, once the cells are written."""
        return self.finish(self.cells)

    def instead(self, error: Exception, client: Any) -> Any:
        """What the caller gets where the library had no element to choose from. Re-raises other errors."""
        found = self.of_nothing(client) if self.of_nothing and isinstance(error, EmptyError) else None
        if found is None:
            raise error
        return found


def cells_of(op: str, el: Element, out: int, n: int, state: bool, order: Any = None) -> tuple[Any, Any]:
    """Shape and type of n results as the library writes them: values, pairs of them, several quantiles, or states."""
    if order is not None and order.edges:
        return (n, order.bins + 3), cell_dtype(op, el, out)
    if order is not None and op in ("largest", "smallest"):
        value = cell_dtype("min", el, out)
        indexes = -(-order.k * value.itemsize // 8) * 8
        return n, np.dtype({"names": ("values", "indices"), "formats": ((value, (order.k,)), ("u8", (order.k,))), "offsets": (0, indexes),
                            "itemsize": indexes + 8 * order.k})
    if order is not None and order.q:
        return (n, len(order.q)) if order.several else n, cell_dtype("min" if order.picks else op, el, out)
    if state:
        return n, np.dtype(f"V{lib().reduce_state_size(_abi.OPS[op].code, el.code)}")
    return (n, 2) if op == "minmax" else n, cell_dtype(op, el, out)


def first_element(initial: Any, el: Element) -> Array:
    """`initial` as one element. ValueError if the type has no such value."""
    if type(initial) is float and (el.dtype.char == "d" or el.dtype.char in "ef" and abs(initial) < 65000) \
            or type(initial) is int and el.dtype.char in "dl" and -2**53 <= initial <= 2**53:
        return np.array(initial, el.dtype)
    if el.parts == 2:
        raise TypeError(f"initial is not possible with elements of type {el.dtype}")
    if np.iscomplexobj(initial):
        raise ValueError(f"initial: elements of type {el.dtype} cannot be {initial!r}")
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            given = np.asarray(initial)
            one = given.astype(el.dtype, casting="same_kind" if el.dated else "unsafe").reshape(())
    except (TypeError, ValueError):
        raise TypeError(f"initial is one {'element' if el.dated else 'number'}, not {initial!r}") from None
    except OverflowError:
        raise ValueError(f"initial: elements of type {el.dtype} cannot be {initial!r}") from None
    if given.dtype.kind in "mM":
        lost = other_dates(given, el.dtype).any() or np.isnat(one)
    else:
        lost = (el.kind != "f" or isinstance(initial, (int, np.integer))) and (one.view(np.int64) if el.dated else one).tolist() != initial
    if lost:
        raise ValueError(f"initial: elements of type {el.dtype} cannot be {initial!r}")
    return one


def forwards(p: Prepared) -> tuple[int, ...]:
    """Flip axes with negative strides, where the result does not depend on it or can be flipped back. Returns them."""
    if isinstance(p.data, Remote) or p.segments:
        return ()
    flips = tuple(i for i, s in enumerate(p.data.strides) if s < 0 and (p.op not in PLACES or i not in p.axes))
    if flips:
        p.data = np.flip(p.data, flips)
        p.keep = None if p.keep is None else np.flip(p.keep, flips)
    return flips


def lay(p: Prepared) -> Layout:
    """How the elements are reduced. Those that cannot be reduced where they lie are copied."""
    if p.segments:
        return lay_segments(p, p.segments)

    def find() -> Layout | None:
        found = arrange(p.data.shape, p.data.strides, p.data.dtype.itemsize, p.axes, p.op in PLACES)
        return None if found and (has_too_many_runs(p.op, found, prod(p.data.shape)) if isinstance(p.data, Remote) else has_short_runs(p.op, found, p.data)) else found
    layout = find()
    if layout is None and isinstance(p.data, Remote):
        rearrange(p)
        layout = find()
    if isinstance(p.data, Remote) and (layout is None or p.keep is not None and not p.data.masks):
        p.data = p.data.copy("`where`" if layout else "these strides and axes")
        layout = find()
    if not isinstance(p.data, Remote):
        p.keep = in_memory_too(p.keep)
    return layout or copied(p.data.shape, p.data.strides, p.axes, p.op in PLACES)


def has_too_many_runs(op: str, layout: Layout, elements: int) -> bool:
    """Is a copy quicker, or the only way?"""
    if not (layout.by_row and layout.planes > 1 and elements):
        return False
    run = elements // (layout.planes * layout.rows)
    by_columns = run < layout.planes and run * layout.rows <= MOST_ROWS_IN_RUNS  # a state for each column of all planes
    states = layout.rows * (run if by_columns else layout.planes)
    return layout.rows > MOST_ROWS_IN_RUNS or op in OF_SQUARES and states > MOST_STATES_OF_SQUARES


def has_short_runs(op: str, layout: Layout, a: Array) -> bool:
    """The same in memory: short rows are ranked side by side, unless they are in runs."""
    return op in RANKED and layout.by_row and layout.planes > 1 and a.size <= layout.rows * RANKED_IN_RUNS and a.nbytes <= _sources.COPIED


def become_bytes(p: Prepared, layout: Layout) -> None:
    """Whether some or all of few elements are not 0, and the ends of few bools, are ends of bytes: a result has one byte then, not eight."""
    ends, of_one = {"any": "max", "all": "min"}, prod(p.data.shape[i] for i in p.axes)
    if not (p.element.code == _abi.BOOL and p.op in ("min", "max") or p.data.dtype.itemsize == 1 and p.op in ends) or isinstance(p.data, Remote):
        return
    if p.keep is None is p.filename and not p.segments and p.data.size > of_one > 0 and (of_one <= MOST_BYTES_AT_ONCE or not layout.by_row):
        p.op, p.data = ends.get(p.op, p.op), p.data.view(np.uint8)
        p.element = element(p.data.dtype)


def rearrange(p: Prepared) -> None:
    """Copy elements to another place on the GPU, where they can be reduced. Nothing is done if their library has no way to do that."""
    order = copied(p.data.shape, p.data.strides, p.axes, p.op in PLACES).order
    both = [x.rearranged(order) if isinstance(x, Remote) else x for x in (p.data, p.keep)]
    if both[0] is not None and (p.keep is None or both[1] is not None):
        p.data, p.keep = both
        p.moved = True


def in_memory_too(keep: Any) -> Any:
    """The mask of elements that were copied into memory."""
    return keep.copy("`where`") if isinstance(keep, Remote) else keep


def segments_of(offsets: Any, shape: tuple[int, ...], axis: Any, keepdims: bool) -> Segments:
    """The module is loaded with the first use."""
    from ._segments import Segments
    return Segments(offsets, shape, axis, keepdims)


def lay_segments(p: Prepared, segments: Segments) -> Layout:
    """The same for segments, without the elements outside of them."""
    if isinstance(p.data, Remote) and (p.keep is not None or not segments.in_place(p.data)):
        p.data = p.data.copy("`where`" if p.keep is not None else "short segments, or those along this axis")
        p.keep = in_memory_too(p.keep)
    if not isinstance(p.data, Remote):
        p.data = segments.cut(p.data)
    p.keep = None if p.keep is None else segments.cut(p.keep)
    return segments.layout(len(p.data.shape), p.axes)


def source_of(p: Prepared, layout: Layout, flips: tuple[int, ...]) -> Source:
    """Where the reduced elements are."""
    if isinstance(p.data, Remote):
        if p.keep is not None:
            return p.data.masked(p.keep if isinstance(p.keep, Remote) else in_order(p.keep, layout))
        return p.segments.pieces(p.data) if p.segments else p.data.source()
    whole = layout.by_row and layout.planes == 1 and p.keep is None
    return in_memory(in_order(p.data, layout), p.filename, whole and not (flips or p.segments))


def in_blocks(p: Prepared, layout: Layout, n: int) -> Source | None:
    """The source of many elements that do not lie in order, such as repeated ones, windows and columns, without a copy of them all. It has
    the elements of a result in a line. None: they are in order, or few."""
    if p.op in RANKED or isinstance(p.data, Remote) or p.data.nbytes <= min(_sources.COPIED, _sources.LONG_LINES) or p.segments or layout.planes > 1 \
            or p.filename is not None and p.data.flags.c_contiguous:
        return None
    a, keep = p.data.transpose(layout.order), None if p.keep is None else p.keep.transpose(layout.order)
    apart = n > 1 and layout.by_row and a.nbytes >= n * _sources.LONG_LINE and a[(0,) * len(layout.kept)].flags.c_contiguous  # only the lines lie so
    if a.flags.c_contiguous or p.data.nbytes <= _sources.COPIED and not apart:
        return None
    view = p.element.view
    if n == 1:
        return InPieces(_sources.blocks(a, keep), lambda x, k: (x.view(view), k), a.nbytes, keep is not None)
    lines = layout.kept + tuple(i for i in layout.order if i not in layout.kept)
    return InRows(p.data.transpose(lines), None if p.keep is None else p.keep.transpose(lines), len(layout.kept), view, apart)


def reply_code(p: Prepared) -> int:
    """reduce_dtype of a value that is to be rounded to a short float, to be unsigned, or to be an element; 0: as it is."""
    if p.magnified is not None or p.element.parts == 2 and p.op in OF_STATES:  # rounded when the parts are joined
        return 0
    return out_code(p.op, p.element, p.wanted)


def out_code(op: str, el: Element, wanted: np.dtype[Any]) -> int:
    """The same for an operation and its elements."""
    value = _abi.OPS[op].value
    if value == "END" and el.kind != "f" and (wanted == el.dtype or wanted.kind == "b") and el.code != _abi.BOOL:
        return el.code
    if value == "SAME" and el.kind == "i" and wanted.kind == "u":
        return _abi.U64
    return part_code(wanted) if value == "REAL" or value in ("SAME", "END") and el.kind == "f" else 0


def is_wide(op: str, el: Element, wanted: np.dtype[Any]) -> bool:
    """Whether integers give a float here, which may be beyond 64 bits (`_wide.py`)."""
    return op in ("sum", "norm1", "norminf") and el.kind != "f" and (wanted.kind in "fc" or float_code(wanted) != 0)


class Recipe:
    """All of a plan except the elements and the room for its cells."""

    __slots__ = ("op", "element", "spec", "finish", "keep", "fixed", "shape", "cell", "pairs", "number", "layout", "flips", "direct", "other", "back",
                 "segments")

    def __init__(self, p: Prepared, layout: Layout, flips: tuple[int, ...], spec: Any, finish: Callable[..., Any], keep: Any, n: int, state: bool,
                 order: Any = None, fixed: Any = None):
        self.layout, self.flips, self.segments, self.fixed = layout, flips, p.segments, fixed  # the spec points to `fixed`: quantiles, offsets
        self.op, self.element, self.spec, self.finish, self.keep = p.op, p.element, spec, finish, keep
        self.shape, self.cell = cells_of(p.op, p.element, spec.out, n, state, order)
        self.pairs = p.element.view if p.element.parts == 2 else ""
        self.number: str = getattr(finish, "number", "")
        self.direct: tuple[int, ...] | None = finish.as_written(self.cell) if isinstance(finish, Finish) else None
        self.back = finish.back if isinstance(finish, Finish) else ()
        self.other = p.wanted if self.direct is not None and p.wanted != self.cell else None  # the type of a direct result, if the cells have another

    def plan(self, source: Source) -> Plan:
        return Plan(self.op, self.element, self.spec, source, np.empty(self.shape, self.cell), self.finish, self.keep)

    def fits(self, data: Any) -> bool:
        """Whether the values allow it: where a date is missing, the result is made in another way."""
        return not self.element.dated or not is_nan(data).any()

    def laid(self, a: Array, pairs: str = "") -> Array:
        """Elements or marks as the library is to find them; a copy if they lie otherwise."""
        a = native(a)
        if self.segments is not None:
            a = self.segments.cut(a)
        if self.flips:
            a = np.flip(a, self.flips)
        if pairs:
            a = np.ascontiguousarray(a).view(pairs).reshape(a.shape + (2,))
        return in_order(a, self.layout)

    def weighted(self, weights: Array) -> Array:
        """Weights as the library takes them."""
        raise NotImplementedError

    def filled(self, marks: Array | None, initial: Any, weights: Array | None = None, order: Any = None) -> tuple[Any, Any]:
        """The spec with a mask, an initial element, weights and edges, and what it points to, which the caller keeps."""
        spec = _abi.Spec.from_buffer_copy(self.spec)
        if marks is not None:
            marks = self.laid(marks)
            spec.mask = address(marks)
        if initial is not None:
            initial = first_element(initial, self.element)
            spec.initial = address(initial)
        if weights is not None:
            weights = self.weighted(weights)
            spec.weights = address(weights)
        edges = order.fill(spec) if order is not None and order.edges else None
        return spec, (marks, initial, weights, edges, self.fixed)

    def again(self, data: Any, marks: Array | None, initial: Any, out: Any, order: Any) -> Plan:
        """For other elements of the same type, shape and strides; `marks` are those that count (None: all)."""
        source: Source
        if isinstance(data, Remote):
            source = (data.pairs(self.pairs) if self.pairs else data).source()
        else:
            source = Memory(self.laid(data, self.pairs))
        spec, keep = self.filled(marks, initial, None, order)
        finish = self.finish if out is None else partial(self.finish, out=out)
        found = Plan(self.op, self.element, spec, source, np.empty(self.shape, self.cell), finish, keep)
        found.recipe = self
        return found


RECIPES = 512  # that are kept: making one takes longer than a small reduction on the GPU
_recipes: dict[Any, Recipe] = {}
_exact = (int, type(None))
_dtypes = (np.dtype, type, str, type(None))


def is_plain(axis: Any, dtype: Any, out: Any) -> bool:
    """Whether arguments are what a key may have: equal ones mean the same. (A float equal to an axis is not an axis.)"""
    return (type(axis) in _exact or type(axis) is tuple and not {*map(type, axis)} - {int}) and isinstance(dtype, _dtypes) \
        and (out is None or type(out) is np.ndarray)


MOST_IN_A_KEY = 1024  # offsets; to plan for more takes less time than to reduce them


def offsets_key(offsets: Any) -> Any:
    """What stands for a caller's offsets where a plan is looked for: equal ones mean the same. None: there is no such thing."""
    try:
        given = np.asarray(offsets) if type(offsets) in (list, tuple) else offsets
    except (ValueError, OverflowError):
        return None
    return (given.dtype, given.shape, given.tobytes()) if type(given) is np.ndarray and given.size <= MOST_IN_A_KEY and not given.dtype.hasobject else None


def _key(data: Any, op: str, axis: Any, dtype: Any, out: Any, *others: Any) -> Any:
    """What a recipe for these elements depends on; None: it is not kept."""
    if type(data) is not np.ndarray and not getattr(data, "fixed", False) or not is_plain(axis, dtype, out):
        return None
    return op, axis, dtype, data.dtype, data.shape, data.strides, type(data) is np.ndarray, out is None or out.dtype, others


def marked(data: Any, marks: Any) -> Any:
    """Which elements count: an array of bool that has the elements' shape; None: all. False: a recipe is not enough."""
    if marks is None:
        return None
    if type(marks) is not np.ndarray or type(data) is not np.ndarray or marks.dtype != bool or data.dtype.kind not in "biuf":
        return False
    if marks.shape == data.shape:
        return marks
    try:
        return np.broadcast_to(marks, data.shape)
    except ValueError:
        return False


def make_room(kept: dict[Any, Any]) -> None:
    """Make room for one more. Other threads may do the same."""
    for key in list(kept)[:max(0, len(kept) - RECIPES + 1)]:
        kept.pop(key, None)


def _remember(key: Any, recipe: Recipe, p: Prepared) -> None:
    """Keep the recipe, without the elements, the mask and the initial element that it was made for."""
    del p.data
    recipe.keep = p.keep = None
    recipe.spec = _abi.Spec.from_buffer_copy(recipe.spec)
    recipe.spec.mask = recipe.spec.initial = None
    if isinstance(recipe.finish, Finish) and recipe.finish.out is not None:
        recipe.finish = copy(recipe.finish)
        recipe.finish.out = LATER
    make_room(_recipes)
    _recipes[key] = recipe


def goes_in_pieces(flow: Flowing, op: str, axis: Any, dtype: Any, initial: Any, where: Any, offsets: Any) -> bool:
    """Whether a stream gives one result, or one for each column, from elements as they are."""
    ndim = 2 if flow.columns else 1
    axes = axes_of(axis, ndim)
    if op in RANKED or where is not None or offsets is not None or 0 not in axes or op == "mean" and flow.dtype.kind == "m":
        return False
    if len(axes) < ndim and (initial is not None or flow.dtype.kind in "mM"):
        return False
    return dtype is None or op != "prod" and not become_integers(op, flow.dtype, np.dtype(dtype))


class Columns(Source):
    """The columns of a table that comes in pieces. The states of each piece are merged."""

    jobs = False
    nbytes = 0

    def __init__(self, flow: Flowing, op: str, nan: str):
        self.flow, self.op, self.nan = flow, op, nan

    def run(self, client: Client, spec: Any, out: Any, room: int, result: Any) -> int:
        one = ctypes.cast(spec, ctypes.POINTER(_abi.Spec)).contents
        merged, rows = self.states(client, self.flow.nothing(), None, 0, 0), 0
        for data, keep in self.flow:
            found = self.states(client, data, keep, rows, one.deadline_ms)
            lib().reduce_states_merge(address(merged), address(found), found.nbytes)
            rows += len(data)
        if one.flags & _abi.STATES_OUT:
            ctypes.memmove(out, address(merged), room)
            return 0
        one = _abi.Spec.from_buffer_copy(one)
        one.rows = 1
        return int(lib().reduce_states_finish(address(merged), merged.nbytes, ctypes.byref(one), out, room))

    def states(self, client: Client, data: Array, keep: Array | None, first: int, deadline_ms: int) -> Array:
        """Those of a piece; `first` is the number of its first row."""
        part = plan(self.op, data, 0, nan=self.nan, where=keep, state=True)
        part.spec.index_base, part.spec.deadline_ms = first, deadline_ms
        check(part.source.run(client, ctypes.byref(part.spec), address(part.cells), part.cells.nbytes, None))
        return part.cells

    def start(self, *_: Any) -> int:
        raise NotImplementedError


def in_pieces(flow: Flowing, found: Plan) -> Plan:
    """The plan for a stream, from that for no elements."""
    if len(found.cells) > 1:
        found.source = Columns(flow, found.op, next(name for name, code in NANS.items() if code == found.spec.nan))
        return found
    kind, el, op, nan = flow.dtype, found.element, found.op, next(name for name, code in NANS.items() if code == found.spec.nan)

    def ready(data: Array, keep: Array | None) -> tuple[Array, Array]:
        flat, marks = np.ascontiguousarray(data).reshape(-1), None if keep is None else np.ascontiguousarray(keep).reshape(-1)
        if kind.kind in "mM":
            flat, marks = without_nat(op, nan, flat, np.ones(flat.size, bool) if marks is None else marks)
        flat = flat.astype(el.dtype, copy=False).view(el.view)
        return flat, np.ones(flat.size, bool) if marks is None else marks
    found.source = InPieces(flow, ready)
    return found


def of_complex(p: Prepared, keepdims: bool, given: bool, initial: Any, out: Any) -> Plan:
    """The plan for products of complex numbers, which this process computes."""
    from ._complex import products
    if initial is not None:
        first_element(initial, p.element)
    kept = tuple(i for i in range(len(p.shape)) if i not in p.axes or p.segments)
    finish = Finish(p, Layout(kept, kept, 0, 1, True), (), keepdims, given, out, None)
    finish.of_pairs = np.asarray
    source, cells = products(p, finish, prod(finish.laid[i] for i in kept))
    return Plan(p.op, p.element, _abi.Spec(size=ctypes.sizeof(_abi.Spec)), source, cells, finish, None)


def plan(op: str, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None,
         where: Any = None, ddof: Any = 0, nan: str = "propagate", offsets: Any = None, wrap: bool = False, make: Make | None = None,
         state: bool = False, order: Any = None) -> Plan:
    """The request for NumPy's arguments. `make` builds the result of an operation with several values. With `state` the cells and
    the results are partial states. `order`: the parameters of an order statistic (`_order.py`)."""
    if nan not in NANS:
        raise ValueError(f"nan is propagate, omit or raise, not {nan!r}")
    initial, where = None if initial is NO_VALUE else initial, None if where is NO_VALUE else where
    if ddof.__class__ is not int or not 0 <= ddof < 2**32:
        ddof = divisor(op, ddof)
    whole = type(ddof) is int
    o, key = operand(a, flows=True), None
    if isinstance(o.data, Flowing):
        if goes_in_pieces(o.data, op, axis, dtype, initial, where, offsets):
            return in_pieces(o.data, plan(op, o.data.nothing(), axis, dtype, out, keepdims, initial, None, ddof, nan, None, wrap, make, state, order))
        o = Operand(*o.data.whole())
    keepdims = keepdims is not NO_VALUE and bool(keepdims) or o.matrix and axis is not None and offsets is None
    if state and o.masked:
        o = o._replace(masked=False)  # a state of masked elements alone is one of nothing
    if initial is not None:
        o = o._replace(data=roomy(op, o.data, initial))
    marks = marked(o.data, where if o.keep is None else o.keep if where is None else False)
    parted = None if offsets is None or isinstance(o.data, Remote) else offsets_key(offsets)
    if o.filename is None and (offsets is None or parted is not None) and marks is not False and (o.keep is None or not o.masked):
        key = _key(o.data, op, axis, dtype, out, keepdims, ddof, nan, wrap, make, state, marks is None, initial is None, order and order.alike, o.masked, o.matrix, parted)
        if key is not None and (recipe := _recipes.get(key)) is not None and recipe.fits(o.data):
            return recipe.again(o.data, marks, initial, out, order)
    segments = None if offsets is None else segments_of(offsets, tuple(o.data.shape), axis, keepdims)
    p = Prepared(op, o, axis, dtype, where, nan, segments)
    if order is not None and order.picks and p.element.kind != "f":
        p.wanted = p.element.dtype
    if dtype is None:
        p.wanted = as_out(p.wanted, out)
    if p.op == "prod" and p.element.parts == 2:
        return of_complex(p, keepdims, dtype is not None, initial, out)
    taken = p.data is p.given or p.element.parts == 2 and nan == "propagate" and p.magnified is None  # or pairs of them
    p.given = None
    flips = forwards(p)
    layout = lay(p)
    if not state and initial is None:
        become_bytes(p, layout)
    finish: Any = Finish(p, layout, flips, keepdims, dtype is not None, out, make)
    n = prod(finish.laid[i] for i in layout.kept)

    el, few = p.element, in_blocks(p, layout, n)
    keep: list[Any] = []
    source = few or source_of(p, layout, flips)
    wide = not state and is_wide(p.op, el, p.wanted)
    of_pairs = el.parts == 2 and p.op in OF_STATES
    states = state or wide or of_pairs or not whole or p.magnified is not None and p.op == "sum"
    spans = not state and el.dated and p.asked == "mean"
    states = states or spans
    if p.moved or few or wide and initial is not None or not isinstance(p.data, Remote) and (not taken or el.dated and not (p.late is p.keep is None)):
        key = None  # what becomes of the elements depends on their values, or on where they lie
    spec = _abi.Spec(size=ctypes.sizeof(_abi.Spec), op=_abi.OPS[p.op].code, dtype=el.code, nan=NANS[p.nan], ddof=ddof if whole else 0, rows=n,
                     flags=_abi.WRAP * wrap | _abi.STATES_OUT * states)
    if not layout.by_row and few is None and source.nbytes:
        spec.flags, spec.rows = spec.flags | _abi.COLUMNS, layout.rows
    if layout.planes > 1 and source.nbytes:
        spec.planes = layout.planes
    fixed: list[Any] = [None if order is None else order.fill(spec)]
    keep.append(fixed)
    if not finish.scalar or finish.given or order is not None and (order.several or op in ("largest", "smallest")):
        spec.out = reply_code(p)
    one = None if initial is None else first_element(initial, el)
    if one is not None and not wide:
        keep.append(one)
        spec.initial = one.ctypes.data
    if segments is not None and not isinstance(p.data, Remote):
        fixed.append(segments.all_offsets(p.data.shape, layout))
        spec.offsets = fixed[-1].ctypes.data
    if p.keep is not None and not isinstance(p.data, Remote) and few is None:
        keep.append(in_order(p.keep, layout))
        spec.mask = keep[-1].ctypes.data
    if of_pairs:
        from ._fractions import OfPairs
        finish.of_pairs = OfPairs(p.op, ddof, 0 if finish.scalar and not finish.given else part_code(p.wanted))
    elif not whole:
        from ._fractions import Fractional
        finish = Fractional(finish, p.op, el, spec, ddof)
    elif p.magnified is not None:
        from ._complex import Magnitudes
        finish = Magnitudes(finish, p)
    elif spans:
        from ._wide import Spans
        finish = Spans(finish)
    elif wide:
        from ._wide import Wide
        finish = Wide(finish, p.op, p.wanted, 0 if one is None else int(one))
    if out is not None and not isinstance(finish, Finish):
        key = None
    recipe = Recipe(p, layout, flips, spec, finish.states if state else finish, keep, n, states, order, fixed)
    found = recipe.plan(source)
    if key is not None:
        _remember(key, recipe, p)
        found.recipe = recipe
    return found
