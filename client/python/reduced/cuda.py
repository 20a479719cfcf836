"""Exact reductions of PyTorch's tensors, and of CuPy's, JAX's and Numba's arrays, on a GPU, in the current stream: no daemon, no copy,
no wait. PyTorch is needed for all of them.

>>> import reduced.cuda                                    # doctest: +SKIP
>>> reduced.cuda.sum(x)                                    # doctest: +SKIP
>>> reduced.cuda.var(x, dim=(0, 2), keepdim=True)          # doctest: +SKIP
>>> reduced.cuda.clip_grad_norm_(model.parameters(), 1.0)  # doctest: +SKIP

The results are tensors, or arrays of the same kind, on the same device, with the bits that every other way of this package gives. They
are there when the stream is past the call, so calls may be captured into a CUDA graph; call `prepare` with the same arguments before.
Sums, means, variances, deviations, norms, index_add and scatter_add have gradients, and torch.compile keeps each call as one operation,
reduced::reduce or reduced::add_by_key. Functions by key take tensors alone.
The library is libreduce-cuda.so: beside the package, in $REDUCED_CUDA_LIBRARY, or where the system has it.
"""
from __future__ import annotations

import builtins
import ctypes
import functools
import importlib
import itertools
import os
from math import prod as product
from typing import TYPE_CHECKING, Any, Callable, Iterable, NamedTuple, Sequence, TypeVar, Union, cast

import numpy as np

from . import _abi, errors
from ._lib import program
from ._order import AT_ONCE, METHODS, Order, TopK
from ._torch_ops import register

if TYPE_CHECKING:
    from torch import Tensor  # type: ignore[import-not-found,unused-ignore]

Dim = Union[int, Sequence[int], None]
ALIGN = 256
PLACE_OPS, COUNT_OPS = ("argmin", "argmax"), ("count_nonzero", "count_nan")
WHOLE_OPS = (*PLACE_OPS, *COUNT_OPS, "histogram")  # of integers, which have no gradient
CHOICES = (*PLACE_OPS, "min", "max")
TOP_OPS = ("largest", "smallest")
RUN_OPS = ("sum", "mean", "min", "max")  # whose partial results are joined soon
RUN, MOST_RUNS = 1024, 1 << 19  # elements; results
ELEMENT_OPS = ("min", "max", "kth", *TOP_OPS)  # which give elements
NAN_NAMES = {"propagate": 0, "omit": 1}


def _torch() -> Any:
    import torch  # type: ignore[import-not-found,unused-ignore]
    return torch


@functools.cache
def _lib() -> Any:
    path = os.environ.get("REDUCED_CUDA_LIBRARY") or program("libreduce-cuda.so") or "libreduce-cuda.so.0"
    try:
        library = ctypes.CDLL(path)
    except OSError as e:
        raise ImportError(f"libreduce-cuda cannot be loaded: {e}; $REDUCED_CUDA_LIBRARY can name it, and `make CUDA=yes` builds it") from e
    pointer, size, count, spec = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64, ctypes.c_void_p  # of Spec: an address takes least
    calls = {"create": (pointer, ctypes.c_int), "result_size": (spec, count, pointer), "workspace": (pointer, spec, count, pointer),
             "clear": (pointer, pointer, size, pointer), "prepare": (pointer, spec, count, pointer, size),
             "enqueue": (pointer, spec, pointer, count, pointer, size, pointer, pointer, size, pointer),
             "again": (pointer, pointer, pointer), "enqueue_list": (pointer, spec, pointer, count, pointer, size, pointer, pointer, size, pointer), "words": (spec, pointer),
             "keyed_workspace": (spec, pointer, count, pointer),
             "enqueue_keyed": (pointer, spec, pointer, pointer, count, pointer, size, pointer, pointer, size, pointer),
             "enqueue_words": (pointer, spec, pointer, count, pointer, pointer), "enqueue_states": (pointer, spec, pointer, count, pointer, pointer, pointer)}
    for name, arguments in calls.items():
        getattr(library, "reduce_cuda_" + name).argtypes = arguments
    library.reduce_cuda_errmsg.restype = ctypes.c_char_p
    return library


def _call(name: str, *arguments: Any) -> None:
    if err := getattr(_lib(), "reduce_cuda_" + name)(*arguments):
        raise _error(err)


def _error(err: int) -> errors.Error:
    return errors.of(err, errors.text_of(_lib().reduce_cuda_errmsg()), _abi.Fault(size=ctypes.sizeof(_abi.Fault), index=_abi.NO_INDEX))


@functools.cache
def _handle(device: int) -> Any:
    handle = ctypes.c_void_p()
    _call("create", ctypes.byref(handle), device)
    return handle


@functools.cache
def _workspace(device: int, stream: int) -> Any:
    """That of a stream, kept as long as the process."""
    torch, size = _torch(), ctypes.c_size_t()
    _call("workspace", _handle(device), ctypes.byref(_abi.Spec(size=ctypes.sizeof(_abi.Spec), op=_abi.OPS["sum"].code, dtype=_abi.DTYPES["f32"], rows=1)), 1,
          ctypes.byref(size))
    memory = torch.empty(size.value + ALIGN, dtype=torch.uint8, device=f"cuda:{device}")
    at = -(-memory.data_ptr() // ALIGN) * ALIGN
    _call("clear", _handle(device), at, size.value, stream)
    return memory, at, size.value


@functools.cache
def _codes() -> dict[Any, str]:
    t = _torch()
    codes = {t.int8: "i8", t.uint8: "u8", t.int16: "i16", t.int32: "i32", t.int64: "i64", t.float16: "f16", t.bfloat16: "bf16", t.float32: "f32",
             t.float64: "f64", t.bool: "bool"}
    return codes | {getattr(t, f"uint{bits}"): f"u{bits}" for bits in (16, 32, 64) if hasattr(t, f"uint{bits}")}


class _Call(NamedTuple):
    """A checked call, for all tensors of one type, shape and device."""
    spec: Any
    count: int  # of elements
    order: tuple[int, ...]  # of dimensions, in which the library has one of its shapes
    out: Any
    shape: list[int]  # of the results
    strides: tuple[int, ...] | None  # of the results, where they are not contiguous
    device: int
    beside: Any = None  # what the spec points to


class _Kept(ctypes.Structure):
    """reduce_cuda_call"""
    _fields_ = [("handle", ctypes.c_void_p), ("spec", ctypes.c_void_p), ("count", ctypes.c_uint64), ("room", ctypes.c_size_t), ("status", ctypes.c_void_p),
                ("workspace", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("stream", ctypes.c_void_p)]


class _Made(NamedTuple):
    """The same with what a launch needs beside the tensors."""
    call: _Call
    again: Any  # the library's function
    kept: dict[int, tuple[int, _Kept]]  # what it is called with, by stream, and where that is
    current: Any  # of _current_device()
    stream: Any  # of _raw_stream()
    straight: bool  # the tensor's own memory will do
    stored: Any  # what the library writes
    room: int  # bytes of it
    like: Any  # one result that was made so: to make another takes less time


def _axes(dims: int, dim: Dim) -> tuple[int, ...]:
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return tuple(range(dims))
    found = sorted(d % dims if -dims <= d < dims else dims for d in ((dim,) if isinstance(dim, int) else dim))
    if dims in found or len(set(found)) < len(found):
        raise IndexError(f"dim {dim} of a tensor with {dims} dimensions")
    return tuple(found)


def _in_memory(t: Tensor) -> tuple[int, ...]:
    """The dimensions, those first whose elements are far apart; those of one element as they come."""
    far = iter(sorted((d for d, n in enumerate(t.shape) if n > 1), key=t.stride().__getitem__, reverse=True))
    return tuple(next(far) if n > 1 else d for d, n in enumerate(t.shape))


def _layout(shape: Sequence[int], axes: tuple[int, ...], order: tuple[int, ...], rows: bool, runs: bool = False) -> dict[str, int] | None:
    """What the library calls the dimensions in this order: rows, columns, or columns of planes. None: nothing. `rows`: these alone. `runs`:
    also rows of planes, where those in each plane are so long that a copy takes longer (H200)."""
    long = [d for d in order if shape[d] != 1]
    parts = [(kept, product(shape[d] for d in part)) for kept, part in itertools.groupby(long, lambda d: d not in axes)]
    sizes = [size for _, size in parts]
    if runs and [kept for kept, _ in parts] == [False, True, False] and sizes[2] >= RUN and sizes[1] <= MOST_RUNS:
        return {"rows": sizes[1], "planes": sizes[0]}
    if parts and not parts[0][0]:  # one plane
        sizes.insert(0, 1)
    if len(sizes) > 3 or rows and len(sizes) == 3:
        return None
    return {"rows": sizes[1], "planes": sizes[0], "flags": _abi.COLUMNS} if len(sizes) == 3 else {"rows": sizes[0] if sizes else 1}


def _order(t: Tensor, axes: tuple[int, ...], placed: bool, ordered: bool, runs: bool) -> tuple[tuple[int, ...], dict[str, int]]:
    """The order of dimensions in which the library takes them, and what it calls them: as they lie in memory, if it may, else for a copy.
    `placed`: elements keep their order along `axes`. `ordered`: results keep theirs; they are rows."""
    natural, order = tuple(range(t.dim())), _in_memory(t)
    kept = tuple(d for d in natural if d not in axes)
    in_order = all(tuple(d for d in order if d in fixed) == fixed for fixed in (axes if placed else (), kept if ordered else ()))
    shape = _layout(t.shape, axes, order, ordered, runs) if in_order and t.permute(order).is_contiguous() else None
    if shape is None:
        order = natural if _layout(t.shape, axes, natural, ordered) else kept + axes
        shape = _layout(t.shape, axes, order, ordered)
    assert shape
    return order, shape


def _result_type(op: str, t: Any, dtype: Any) -> Any:
    torch = _torch()
    if op in WHOLE_OPS:
        return torch.int64
    if dtype is not None:
        return dtype
    if t.dtype.is_floating_point or op in ELEMENT_OPS:
        return t.dtype
    return torch.int64 if op in ("sum", "prod", "sumsq", "dot") else torch.float64


def _adopt(x: Any) -> tuple[Any, Any]:
    """An array of CuPy, JAX or Numba as a tensor of the same memory, and what makes a result an array of its kind. By DLPack, which
    orders the streams of both; jax.jit has no array to read, so it is refused there."""
    torch, module = _torch(), type(x).__module__.partition(".")[0]
    if module == "cupy":
        return torch.from_dlpack(x), importlib.import_module("cupy").from_dlpack
    if module in ("jax", "jaxlib") and hasattr(x, "__dlpack__"):
        return torch.from_dlpack(x), importlib.import_module("jax.dlpack").from_dlpack
    if module == "numba" and hasattr(x, "__cuda_array_interface__"):
        return torch.as_tensor(x, device="cuda"), importlib.import_module("numba.cuda").as_cuda_array
    raise TypeError(f"reduced.cuda takes arrays of PyTorch, CuPy, JAX or Numba on a GPU, not {type(x).__module__}.{type(x).__qualname__}")


def _check_tensor(t: Any) -> None:
    if not isinstance(t, _torch().Tensor) or not t.is_cuda:
        raise TypeError("reduced.cuda takes tensors of PyTorch on a GPU")
    if t.dtype not in _codes():
        raise TypeError(f"reduced.cuda has no {t.dtype}")


def _check_nan(nan: str) -> None:
    if nan not in NAN_NAMES:
        raise ValueError(f"nan is {' or '.join(map(repr, NAN_NAMES))}, not {nan!r}: an error would have to be waited for")


def _left(t: Any, axes: tuple[int, ...], keepdim: bool) -> list[int]:
    """The shape of the results."""
    return [1 if d in axes else n for d, n in enumerate(t.shape)] if keepdim else [n for d, n in enumerate(t.shape) if d not in axes]


def _parts(op: str, asked: Order, item: int) -> list[int]:
    """How many values the result of an order statistic has, or of topk bytes: those of the values, from a multiple of 8 on the places."""
    if op in TOP_OPS:
        return [-(-asked.k * item // 8) * 8 + 8 * asked.k]
    return [asked.bins + 3] if asked.edges else [len(asked.q)] if asked.several else []


def _strides(t: Tensor, axes: tuple[int, ...], keepdim: bool, order: tuple[int, ...]) -> tuple[int, ...] | None:
    """Of results that the library writes in this order. None: they are contiguous."""
    kept = [d for d in order if d not in axes]
    if kept == sorted(kept):
        return None
    of = {d: product(t.shape[k] for k in kept[i + 1:]) for i, d in enumerate(kept)}
    return tuple(of.get(d, 1) for d in range(t.dim()) if keepdim or d in of)


def _plan(op: str, t: Tensor, dim: Dim, keepdim: bool, dtype: Any, nan: str, asked: Order | None = None, placed: bool = False, **fields: Any) -> _Call:
    """`placed`: the elements' order along `dim` matters."""
    _check_tensor(t)
    _check_nan(nan)
    axes, out = _axes(t.dim(), dim), _result_type(op, t, dtype)
    if 0 in t.shape and any(n == 0 for d, n in enumerate(t.shape) if d not in axes):
        raise ValueError("a tensor without results")
    if op in CHOICES and (nan == "omit" or 0 in t.shape):  # a result that is not there could be told with a wait alone
        raise ValueError(f"{op} has no value of no elements" + (", which nan='omit' may leave: take 'propagate'" if nan == "omit" else ""))
    order, shape = _order(t, axes, placed or op in PLACE_OPS, asked is not None, op in RUN_OPS)  # order statistics of columns may not exceed a length
    if op == "prod" and not t.dtype.is_floating_point:
        shape["flags"] = shape.get("flags", 0) | _abi.WRAP  # as PyTorch's; a sum's low word is there without it
    whole = op in WHOLE_OPS or op in (*ELEMENT_OPS, "quantile") and not out.is_floating_point  # of 64 bits, by the sign of the elements
    wanted = 0 if whole else _abi.DTYPES[_codes()[out]]
    spec = _abi.Spec(size=ctypes.sizeof(_abi.Spec), op=_abi.OPS[op].code, dtype=_abi.DTYPES[_codes()[t.dtype]], out=wanted, nan=NAN_NAMES[nan], **shape, **fields)
    call = _Call(spec, t.numel(), order, out, _left(t, axes, keepdim), _strides(t, axes, keepdim, order), t.get_device())
    if asked is None:
        return call
    parts = _parts(op, asked, 8 if whole else out.itemsize)
    return call._replace(shape=call.shape + parts, out=_torch().uint8 if op in TOP_OPS else out, beside=asked.fill(spec))


def _make(t: Tensor, call: _Call) -> _Made:
    room, torch = ctypes.c_size_t(), _torch()
    spec = ctypes.addressof(call.spec)
    _call("result_size", spec, call.count, ctypes.byref(room))
    stored = call.out if room.value == product(call.shape) * call.out.itemsize else torch.int64  # integers have 64 bits there
    like = _empty(t, call, stored) if product(call.shape) <= FEW else None
    return _Made(call, _lib().reduce_cuda_again, {}, _current_device(), _raw_stream(), t.permute(call.order).is_contiguous(), stored, room.value, like)


def _empty(t: Tensor, call: _Call, stored: Any) -> Tensor:
    """Room for results."""
    return t.new_empty(call.shape, dtype=stored) if call.strides is None else t.new_empty_strided(call.shape, call.strides, dtype=stored)


def _keep(made: _Made, stream: int) -> tuple[int, _Kept]:
    call = made.call
    _, workspace, size = _place(call.device)
    kept = _Kept(_handle(call.device), ctypes.addressof(call.spec), call.count, made.room, None, workspace, size, stream)
    return made.kept.setdefault(stream, (ctypes.addressof(kept), kept))


def _place(device: int) -> tuple[int, int, int]:
    """The current stream of a device, and its workspace."""
    stream = _raw_stream()(device)
    _, at, size = _workspace(device, stream)
    return stream, at, size


@functools.cache
def _raw_stream() -> Any:
    torch = _torch()  # the number alone: a stream of torch.cuda takes 2 us
    return getattr(torch._C, "_cuda_getCurrentRawStream", None) or (lambda device: torch.cuda.current_stream(device).cuda_stream)


@functools.cache
def _current_device() -> Any:
    torch = _torch()  # without a look whether CUDA has begun: a tensor is there
    return getattr(torch._C, "_cuda_getDevice", None) or torch.cuda.current_device


def _on(device: int, name: str, *arguments: Any) -> None:
    """A call on the current stream of that device."""
    if _current_device()() != device:
        with _torch().cuda.device(device):
            return _on(device, name, *arguments)
    stream, workspace, size = _place(device)
    _call(name, _handle(device), *arguments, workspace, size, stream)


def _run(made: _Made, t: Tensor) -> Any:
    call, device = made.call, made.call.device
    if made.current() != device:
        with _torch().cuda.device(device):
            return _run(made, t)
    data = t if made.straight else t.permute(call.order).contiguous()
    found = _empty(t, call, made.stored) if made.like is None else _torch().empty_like(made.like)
    stream = made.stream(device)
    at, _ = made.kept.get(stream) or _keep(made, stream)
    if err := made.again(at, data.data_ptr(), found.data_ptr()):
        raise _error(err)
    return found if made.stored is call.out else found.to(call.out)


MOST_MADE, FEW = 4096, 64  # FEW: results that are kept as well
_made: dict[Any, _Made] = {}  # a call of the same kind takes a third of the time


def _launch(op: str, t: Tensor, dim: Dim, keepdim: bool, dtype: Any, nan: str, ddof: int, asked: Order | None = None) -> Any:
    if dim is not None and not isinstance(dim, int):
        dim = tuple(dim)
    key = (op, t.dtype, t.shape, t.stride(), t.get_device(), dim, keepdim, dtype, nan, ddof, asked)
    made = _made.get(key)
    if made is None:
        if len(_made) >= MOST_MADE:
            _made.clear()
        made = _made[key] = _make(t, _plan(op, t, dim, keepdim, dtype, nan, asked, ddof=ddof))
    return _run(made, t)


def _shape_of(op: str, t: Tensor, dim: Dim, keepdim: bool, dtype: Any) -> Any:
    _check_tensor(t)
    return t.new_empty(_left(t, _axes(t.dim(), dim), keepdim), dtype=_result_type(op, t, dtype))


register(lambda *call: _launch(*call).contiguous(), _shape_of, lambda *call: _add(*call))


def _reduce(op: str, t: Tensor, dim: Dim = None, keepdim: bool = False, dtype: Any = None, nan: str = "propagate", ddof: int = 0) -> Any:
    torch = _torch()
    if not isinstance(t, torch.Tensor):
        t, back = _adopt(t)
        return back(_reduce(op, t, dim, keepdim, dtype, nan, ddof))
    if (t.requires_grad and torch.is_grad_enabled() and op not in WHOLE_OPS) or torch.compiler.is_compiling():
        return torch.ops.reduced.reduce(t, op, list(_axes(t.dim(), dim)), keepdim, dtype, nan, ddof)
    return _launch(op, t, dim, keepdim, dtype, nan, ddof)


def prepare(op: str, t: Tensor, dim: Dim = None, dtype: Any = None, nan: str = "propagate") -> None:
    """Load what a call of this operation on such a tensor needs: before a capture, or for a first call as fast as the others."""
    call = _plan(op, t, dim, False, dtype, nan)
    with _torch().cuda.device(call.device):
        _, workspace, size = _place(call.device)
        _call("prepare", _handle(call.device), ctypes.byref(call.spec), call.count, workspace, size)


def sum(t: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None, nan: str = "propagate") -> Tensor:
    """The exact sum, rounded once; of integers modulo 2^64. As torch.sum."""
    return _reduce("sum", t, dim, keepdim, dtype, nan)


def mean(t: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None, nan: str = "propagate") -> Tensor:
    """The exact mean, rounded once. As torch.mean; of integers it is float64."""
    return _reduce("mean", t, dim, keepdim, dtype, nan)


def prod(t: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None, nan: str = "propagate") -> Tensor:
    """The product, rounded once; of integers modulo 2^64. As torch.prod."""
    return _reduce("prod", t, dim, keepdim, dtype, nan)


def var(t: Tensor, dim: Dim = None, *, correction: int = 1, keepdim: bool = False, dtype: Any = None, nan: str = "propagate") -> Tensor:
    """The exact variance, rounded once. As torch.var."""
    return _reduce("var", t, dim, keepdim, dtype, nan, ddof=correction)


def std(t: Tensor, dim: Dim = None, *, correction: int = 1, keepdim: bool = False, dtype: Any = None, nan: str = "propagate") -> Tensor:
    """The root of the exact variance, rounded once. As torch.std."""
    return _reduce("std", t, dim, keepdim, dtype, nan, ddof=correction)


def norm(t: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None, nan: str = "propagate") -> Tensor:
    """The root of the exact sum of squares, rounded once. As torch.linalg.vector_norm."""
    return _reduce("norm2", t, dim, keepdim, dtype, nan)


def amin(t: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """As torch.amin."""
    return _reduce("min", t, dim, keepdim)


def amax(t: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """As torch.amax."""
    return _reduce("max", t, dim, keepdim)


def argmin(t: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """The index of the first least element. As torch.argmin, whose ties are not defined."""
    return _reduce("argmin", t, dim, keepdim)


def argmax(t: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """The index of the first greatest element. As torch.argmax, whose ties are not defined."""
    return _reduce("argmax", t, dim, keepdim)


def count_nonzero(t: Tensor, dim: Dim = None) -> Tensor:
    """As torch.count_nonzero."""
    return _reduce("count_nonzero", t, dim)


def median(t: Tensor, dim: Dim = None, keepdim: bool = False, *, nan: str = "propagate") -> Tensor:
    """The middle element, or the mean of the two middle ones. As torch.quantile(t, 0.5, dim)."""
    return _reduce("median", t, dim, keepdim, None, nan)


# ---- order statistics ----

F = TypeVar("F", bound=Callable[..., Any])


def _of_any_arrays(call: F) -> F:
    """The same of arrays of CuPy, JAX and Numba: operands become tensors of the same memory, and results arrays of the first one's kind."""
    @functools.wraps(call)
    def of_arrays(first: Any, *others: Any, **named: Any) -> Any:
        if isinstance(first, _torch().Tensor):
            return call(first, *others, **named)
        t, back = _adopt(first)
        found = call(t, *map(_adopted, others), **{name: _adopted(x) for name, x in named.items()})
        whole = [back(x.contiguous()) for x in (found if isinstance(found, TopK) else [found])]  # JAX takes no strides, Numba cannot copy them
        return TopK(*whole) if isinstance(found, TopK) else whole[0]
    return cast(F, of_arrays)


def _adopted(x: Any) -> Any:
    """An operand; options as they are."""
    is_array = hasattr(x, "__dlpack__") or hasattr(x, "__cuda_array_interface__")
    return _adopt(x)[0] if is_array and not isinstance(x, (_torch().Tensor, np.ndarray)) else x


def _check_detached(what: str, *tensors: Any) -> None:
    for t in tensors:
        _check_tensor(t)
    if _torch().is_grad_enabled() and any(t.requires_grad for t in tensors):
        raise RuntimeError(f"reduced.cuda has no gradient of {what}: call it under torch.no_grad(), or with t.detach()")


@_of_any_arrays
def quantile(input: Tensor, q: Any, dim: Dim = None, keepdim: bool = False, *, interpolation: str = "linear", nan: str = "propagate") -> Tensor:
    """The exact quantiles, rounded once. As torch.quantile, whose q comes first in the shape if it is several; of any length and type.

    `interpolation`: NumPy's other methods, too. Each q is the shortest decimal that gives the float: 0.1 is 1/10. A tensor `q` on a GPU
    is waited for. Of integers the result is float64, or by methods that pick an element of their type.
    """
    _check_detached("quantile", input)
    q = q.tolist() if hasattr(q, "tolist") else q
    several = not isinstance(q, (int, float))
    values = tuple(float(x) for x in q) if several else (float(q),)
    if interpolation not in METHODS:
        raise ValueError(f"interpolation is one of {', '.join(METHODS)}, not {interpolation!r}")
    if not values or not all(0 <= x <= 1 for x in values) or 0 in input.shape:
        raise ValueError("quantile() takes numbers q from 0 to 1 and a tensor with elements")
    parts = [Order(values[i:i + AT_ONCE], METHODS.index(interpolation), several=several) for i in range(0, len(values), AT_ONCE)]
    found = [_launch("quantile", input, dim, keepdim, input.dtype if asked.picks else None, nan, 0, asked) for asked in parts]
    return (found[0] if len(found) == 1 else _torch().cat(found, -1)).movedim(-1, 0) if several else found[0]


@_of_any_arrays
def nanquantile(input: Tensor, q: Any, dim: Dim = None, keepdim: bool = False, *, interpolation: str = "linear") -> Tensor:
    """`quantile` without NaNs. As torch.nanquantile."""
    return quantile(input, q, dim, keepdim, interpolation=interpolation, nan="omit")


def _line(input: Tensor, k: int, dim: int, most: int) -> int:
    """The dimension along which a rank is taken, or several are."""
    (axis,) = _axes(input.dim(), dim)
    if not isinstance(k, int) or not 1 <= k <= builtins.min(input.shape[axis], most):
        raise ValueError(f"k is {k!r}, not an integer from 1 to {builtins.min(input.shape[axis], most)}")
    return axis


@_of_any_arrays
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> TopK:
    """The k largest or smallest elements and their indices. As torch.topk, but always sorted, the lowest index first of equal elements, and
    NaNs come first, also of the smallest. k is at most 262144."""
    _check_detached("topk", input)
    axis, torch = _line(input, k, dim, _abi.MAX_TOP), _torch()
    cells = _launch("largest" if largest else "smallest", input, axis, False, None, "propagate", 0, Order(k=k))
    stored = input.dtype if input.dtype.is_floating_point else torch.int64
    values, places = cells[..., :k * stored.itemsize].view(stored), cells[..., cells.shape[-1] - 8 * k:].view(torch.int64)
    return TopK(values.to(input.dtype).movedim(-1, axis), places.movedim(-1, axis))


@_of_any_arrays
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> TopK:
    """The k-th smallest element, from 1 on, and the lowest index of equal ones. As torch.kthvalue, but NaN if there is a NaN."""
    _check_detached("kthvalue", input)
    axis, torch = _line(input, k, dim, _abi.NO_INDEX), _torch()
    found = _launch("kth", input, axis, True, None, "propagate", 0, Order(k=k - 1))
    if input.dtype.is_floating_point:  # -0 is below 0, and of NaNs the first one counts
        bits = getattr(torch, f"int{8 * input.dtype.itemsize}")
        same = (input.view(bits) == found.view(bits)) | torch.isnan(input)
    else:
        same = input == found
    place = argmax(same, axis, True)
    return TopK(found, place) if keepdim else TopK(found.squeeze(axis), place.squeeze(axis))


@_of_any_arrays
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements are in each of the bins of one width. As torch.histc, but the elements are compared exactly with the edges of
    numpy.linspace, counts of integers are int64, and if min and max are equal the call waits for those of the elements."""
    _check_detached("histc", input)
    low, high = float(min), float(max)
    if low == high and input.numel():
        low, high = float(amin(input)), float(amax(input))
    if low == high:
        low, high = low - 1, high + 1
    if not -np.inf < low < high < np.inf or bins < 1:
        raise ValueError(f"histc() takes bins from 1 on and a finite range, not {bins} from {low} to {high}")
    call = _plan("histogram", input, None, False, None, "propagate", Order(edges=np.linspace(low, high, bins + 1).tobytes()))
    counts = _run(_make(input, call), input)[:bins]  # not kept: edges may be many, and others each time
    return counts.to(input.dtype) if input.dtype.is_floating_point else counts


# ---- two operands ----

DIGITS = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}  # of integers that a float has exactly


def _alike(x: Any, w: Any) -> tuple[Any, Any]:
    """Both in one type that has their elements exactly; float64 may stand beside float32."""
    torch = _torch()
    if x.device != w.device:
        raise ValueError(f"two tensors on {x.device} and {w.device}")
    if x.dtype == w.dtype or x.dtype == torch.float32 and w.dtype == torch.float64:
        return x, w
    common = torch.promote_types(x.dtype, w.dtype)
    for t in (x, w):
        if not t.dtype.is_floating_point and 8 * t.dtype.itemsize > DIGITS.get(_codes()[common], 64):
            raise TypeError(f"{common} has not all numbers of {t.dtype}: give both tensors one type")
    return x.to(common), w.to(common)


def _of_pairs(op: str, x: Any, w: Any, dim: Dim, keepdim: bool = False, dtype: Any = None, nan: str = "propagate", flags: int = 0, ddof: int = 0) -> Any:
    """`w` has the shape of `x`, or that of the dimensions that are reduced, in their order. The spec points to it, so no plan is kept."""
    _check_detached(op, x, w)
    x, w = _alike(x, w)
    call = _plan(op, x, dim, keepdim, dtype or (w.dtype if w.dtype == _torch().float64 else None), nan, placed=w.shape != x.shape, ddof=ddof)
    spec, extent = call.spec, _abi.EACH_ELEMENT
    if w.shape != x.shape:
        extent = _abi.EACH_ROW if spec.flags & _abi.COLUMNS else _abi.EACH_COLUMN
    else:
        w = w.permute(call.order)
    w = w.contiguous() if w.numel() else w.new_empty(1)
    spec.weights, spec.weights_dtype, spec.weights_extent = w.data_ptr(), _abi.DTYPES[_codes()[w.dtype]], extent
    spec.flags |= flags
    return _run(_make(x, call), x)


@_of_any_arrays
def dot(input: Tensor, tensor: Tensor, *, dtype: Any = None, nan: str = "propagate") -> Tensor:
    """The exact dot product of two vectors, rounded once; of a matrix and a vector that of each row. As torch.dot; of integers modulo
    2^64. Types may differ if one has the numbers of both."""
    _check_detached("dot", input, tensor)
    if tensor.dim() != 1 or not input.dim() or input.shape[-1] != tensor.shape[0]:
        raise ValueError(f"dot() takes rows and a vector of one length, not {tuple(input.shape)} and {tuple(tensor.shape)}")
    return _of_pairs("dot", input, tensor, -1, False, dtype, nan)


@_of_any_arrays
def vdot(input: Tensor, other: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None, nan: str = "propagate") -> Tensor:
    """The exact sum of the products of two tensors of one shape, of all elements or along `dim` as torch.linalg.vecdot, rounded once."""
    _check_detached("vdot", input, other)
    if input.shape != other.shape:
        raise ValueError(f"vdot() takes two tensors of one shape, not {tuple(input.shape)} and {tuple(other.shape)}")
    return _of_pairs("dot", input, other, dim, keepdim, dtype, nan)


@_of_any_arrays
def average(t: Tensor, weights: Any = None, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None, nan: str = "propagate",
            drop_zero_weights: bool = False) -> Tensor:
    """The exact weighted sum over the exact sum of the weights, rounded once. As numpy.average: weights have the shape of `t`, or that of
    the dimensions in `dim`. If they sum to zero the result is infinite or NaN: an error would have to be waited for.

    With weights of float64 the result is float64, also of float32. `drop_zero_weights`: a weight of 0 leaves out its element, even an
    infinity or a NaN.
    """
    if weights is None:
        return mean(t, dim, keepdim, dtype=dtype, nan=nan)
    _check_detached("average", t, weights)
    if weights.shape != t.shape:
        axes = _axes(t.dim(), dim)
        given = axes if dim is None else [d % t.dim() for d in ((dim,) if isinstance(dim, int) else dim)]
        if dim is None or tuple(weights.shape) != tuple(t.shape[d] for d in given):
            raise ValueError(f"weights of {tuple(weights.shape)} along dim {dim} of {tuple(t.shape)}")
        weights = weights.permute([given.index(d) for d in axes])
    return _of_pairs("wmean", t, weights, dim, keepdim, dtype, nan, _abi.DROP_ZERO_WEIGHTS if drop_zero_weights else 0)


def _matrix(op: str, input: Any, other: Any, dtype: Any, ddof: int = 0) -> Any:
    """Of each two rows: a launch for each row, with it and those behind it."""
    torch, parts = _torch(), [input] if other is None else [input, other]
    _check_detached(op, *parts)
    if any(t.dim() > 2 for t in parts):
        raise ValueError("variables are the rows of a matrix, or vectors")
    parts = [t if t.dim() == 2 else t.reshape(1, -1) for t in parts]
    rows = (parts[0] if other is None else torch.cat(_alike(*parts))).contiguous()
    n = rows.shape[0]
    if not n:
        raise ValueError("no variables")
    found = [_of_pairs(op, rows[i:], rows[i], 1, dtype=dtype, ddof=ddof) for i in range(n)]
    matrix = found[0].new_empty((n, n))
    for i, line in enumerate(found):
        matrix[i, i:] = matrix[i:, i] = line
    return matrix.squeeze()


@_of_any_arrays
def cov(input: Tensor, other: Any = None, *, correction: int = 1, dtype: Any = None) -> Tensor:
    """The covariances of the rows, each the exact value, rounded once. As torch.cov, without weights. `other`: more rows, as numpy.cov's."""
    return _matrix("cov", input, other, dtype, correction)


@_of_any_arrays
def corrcoef(input: Tensor, other: Any = None, *, dtype: Any = None) -> Tensor:
    """The correlations of the rows, each the exact value, rounded once; of a constant NaN. As torch.corrcoef. `other`: more rows."""
    return _matrix("corr", input, other, dtype)


# ---- by key ----

KEYED_OPS = ("sum", "mean", "var", "std", "sem", "sumsq", "norm2", "rms", "count", "min", "max", "argmin", "argmax")
INTEGER_OPS = ("sum", "sumsq", "count", *CHOICES)  # of integers, an integer


class _Keys(ctypes.Structure):
    _fields_ = [("keys", ctypes.c_void_p), ("groups", ctypes.c_uint64), ("dtype", ctypes.c_int32), ("flags", ctypes.c_uint32),
                ("initial", ctypes.c_void_p)]


def _told(status: Any) -> None:
    """Wait, and raise what went wrong."""
    code, index = status.tolist()
    code = ctypes.c_int32(code).value
    if _abi.ERRORS.get(code) == "SHAPE":
        raise IndexError(f"keys: element {index} has a key that is not a group")
    if code:
        raise errors.of(code, f"group {index} has no result", _abi.Fault(size=ctypes.sizeof(_abi.Fault), index=index))


def _by_key(keys: Tensor, t: Tensor, op: str, groups: int, dtype: Any = None, nan: str = "propagate", outside: str = "error", ddof: int = 0,
            initial: Tensor | None = None) -> Any:
    torch = _torch()
    out = torch.int64 if op == "count" else _result_type(op, t, dtype)
    wanted = 0 if not out.is_floating_point and op in INTEGER_OPS else _abi.DTYPES[_codes()[out]]
    spec = _abi.Spec(size=ctypes.sizeof(_abi.Spec), op=_abi.OPS[op].code, dtype=_abi.DTYPES[_codes()[t.dtype]], out=wanted, nan=NAN_NAMES[nan], rows=1, ddof=ddof)
    keys, t, device, size = keys.contiguous(), t.contiguous(), t.get_device(), ctypes.c_size_t()
    initial = None if initial is None else initial.contiguous()
    k = _Keys(keys.data_ptr(), groups, _abi.DTYPES[_codes()[keys.dtype]], _abi.DROP_OUTSIDE if outside == "drop" else 0,
              None if initial is None else initial.data_ptr())
    _call("keyed_workspace", ctypes.byref(spec), ctypes.byref(k), t.numel(), ctypes.byref(size))
    memory = torch.empty(size.value + ALIGN, dtype=torch.uint8, device=t.device)
    status = torch.empty(2, dtype=torch.int64, device=t.device) if outside == "error" or op in CHOICES else None
    found = torch.empty(groups, dtype=out if wanted else torch.int64, device=t.device)
    with torch.cuda.device(device):
        _call("enqueue_keyed", _handle(device), ctypes.byref(spec), ctypes.byref(k), t.data_ptr(), t.numel(), found.data_ptr(),
              groups * found.element_size(), None if status is None else status.data_ptr(), -(-memory.data_ptr() // ALIGN) * ALIGN, size.value,
              _raw_stream()(device))
    if status is not None:
        _told(status)
    return found if found.dtype == out else found.to(out)


def by_key(keys: Tensor, t: Tensor, op: str = "sum", *, groups: int, dtype: Any = None, nan: str = "propagate", outside: str = "error",
           correction: int = 1, initial: Tensor | None = None) -> Tensor:
    """The reduction of the elements of each group: `keys` has the group of each element of `t`, 0 to groups - 1.

    `op`: one of KEYED_OPS. A group without elements has the value of none: 0, or NaN for means and variances. min, max and their
    places have none. `correction`: of var, std and sem. `initial`: one more element of each group, of t's type.
    `outside`: keys that are not a group are an IndexError, for which the call waits, or "drop" leaves their elements out. The call
    waits for min, max and places, too. The bits do not depend on the order, as those of torch.index_add do.
    """
    _check_tensor(t)
    if t.requires_grad and _torch().is_grad_enabled():
        raise RuntimeError("reduced.cuda has no gradients by key but of index_add and scatter_add: call it under torch.no_grad(), or with t.detach()")
    if op not in KEYED_OPS:
        raise ValueError(f"op is {', '.join(KEYED_OPS)}, not {op!r}")
    if outside not in ("error", "drop"):
        raise ValueError(f"outside is 'error' or 'drop', not {outside!r}")
    _check_nan(nan)
    if keys.device != t.device or keys.numel() != t.numel():
        raise ValueError(f"{keys.numel()} keys on {keys.device} of {t.numel()} elements on {t.device}")
    if initial is not None and (initial.device != t.device or initial.dtype != t.dtype or initial.numel() != groups):
        raise ValueError(f"initial: {initial.numel()} elements of {initial.dtype} on {initial.device}, for {groups} groups of {t.dtype} on {t.device}")
    return _by_key(keys, t, op, groups, dtype, nan, outside, correction if op in ("var", "std", "sem") else 0, initial)


def bincount(input: Tensor, weights: Any = None, minlength: int = 0) -> Tensor:
    """How many elements have each value, or the exact sums of their weights, rounded once. As torch.bincount; it waits."""
    groups = builtins.max(minlength, int(input.max()) + 1 if input.numel() else 0)
    found = by_key(input, input if weights is None else weights, "count" if weights is None else "sum", groups=groups)
    return found if weights is None or weights.dtype.is_floating_point else found.to(_torch().float64)


def _add(input: Tensor, keys: Tensor, values: Tensor) -> Any:
    """The elements of `input`, each with the values that have its place as their key."""
    return _by_key(keys, values, "sum", input.numel(), input.dtype, initial=input.detach()).reshape(input.shape)


def _added(input: Tensor, keys: Tensor, values: Tensor) -> Any:
    torch = _torch()
    if ((input.requires_grad or values.requires_grad) and torch.is_grad_enabled()) or torch.compiler.is_compiling():
        return torch.ops.reduced.add_by_key(input, keys, values)
    return _add(input, keys, values)


def _check_added(input: Tensor, index: Tensor, source: Tensor, name: str) -> None:
    for t in input, source:
        _check_tensor(t)
    if source.dtype != input.dtype or source.device != input.device or index.device != input.device:
        raise ValueError(f"{name} of {source.dtype} on {source.device} with indexes on {index.device}, for {input.dtype} on {input.device}")
    if index.dtype.is_floating_point or index.dtype == _torch().bool:
        raise IndexError(f"an index is an integer, not {index.dtype}")


def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """`input` with the slices of `source` along `dim` added to those that `index` names: each element is the exact sum of all that
    come to it, rounded once. As torch.index_add, with the same bits in any order, and its gradients; an index outside is an IndexError, for
    which the call waits."""
    (dim,) = _axes(builtins.max(input.dim(), 1), dim)
    if dim:
        return index_add(input.movedim(dim, 0), 0, index, source.movedim(dim, 0)).movedim(0, dim)
    _check_added(input, index, source, "source")
    rows, given = (t if t.dim() else t.reshape(1) for t in (input, source))
    if given.shape[1:] != rows.shape[1:] or index.numel() != len(given):
        raise ValueError(f"source of {tuple(source.shape)} with {index.numel()} indexes, for {tuple(input.shape)}")
    each = product(rows.shape[1:])
    keys = (index.reshape(-1, 1).long() * each + _torch().arange(each, device=input.device)).reshape(-1)
    return _added(input, keys, source)


def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """`input` with each element of `src` added at its own place, but along `dim` at that which `index` names: exact sums, rounded once.
    As torch.scatter_add, with the same bits in any order, and its gradients; an index outside is an IndexError, for which the call waits."""
    torch, dims = _torch(), builtins.max(input.dim(), 1)
    (dim,) = _axes(dims, dim)
    _check_added(input, index, src, "src")
    rows, places, given = (t if t.dim() else t.reshape(1) for t in (input, index, src))
    if not places.numel():
        return input.clone()
    if not places.dim() == given.dim() == dims or any(
            n > given.shape[d] or (d != dim and n > rows.shape[d]) for d, n in enumerate(places.shape)):
        raise ValueError(f"index of {tuple(index.shape)} along {dim} is larger than src of {tuple(src.shape)} or input of {tuple(input.shape)}")
    places, step = places.long(), product(rows.shape[dim + 1:])
    keys = torch.where((places >= 0) & (places < rows.shape[dim]), places * step, -1)
    for d, n in enumerate(places.shape):
        if d != dim:
            along = torch.arange(n, device=input.device) * product(rows.shape[d + 1:])
            keys = torch.where(keys < 0, keys, keys + along.reshape([n if d == other else 1 for other in range(dims)]))
    return _added(input, keys, given[tuple(slice(n) for n in places.shape)])


# ---- norms of many tensors, sums of many ranks ----

class _Array(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("count", ctypes.c_uint64)]


def _summed(spec: Any, state: Any, n: int, group: Any) -> None:
    """The states of all ranks' elements, in place of this rank's `n`: their words are added up by one all-reduce in the current stream."""
    torch, each = _torch(), ctypes.c_size_t()
    _call("words", ctypes.byref(spec), ctypes.byref(each))
    device = state.get_device()
    words = torch.empty(n * each.value, dtype=torch.int64, device=state.device)
    handle, stream = _handle(device), _raw_stream()(device)
    _call("enqueue_words", handle, ctypes.byref(spec), state.data_ptr(), n, words.data_ptr(), stream)
    torch.distributed.all_reduce(words, group=group)
    _call("enqueue_states", handle, ctypes.byref(spec), words.data_ptr(), n, state.data_ptr(), None, stream)


def _of_ranks(spec: Any, call: str, data: Any, count: int, result: Any, group: Any) -> None:
    """The call's results for the elements of all ranks."""
    torch, device, room, n = _torch(), result.get_device(), ctypes.c_size_t(), spec.rows
    out, spec.out, spec.flags = spec.out, 0, _abi.STATES_OUT
    _call("result_size", ctypes.byref(spec), 0, ctypes.byref(room))
    state = torch.empty(room.value, dtype=torch.uint8, device=result.device)
    _on(device, call, ctypes.byref(spec), data, count, state.data_ptr(), room.value, None)
    with torch.cuda.device(device):
        _summed(spec, state, n, group)
    spec.out, spec.flags = out, _abi.STATES_IN
    _on(device, "enqueue", ctypes.byref(spec), state.data_ptr(), n, result.data_ptr(), n * result.element_size(), None)


# Bytes of all ranks' elements up to which each rank gets them all: one exchange instead of two, of more bytes.
ONE_EXCHANGE = 8 << 20
FEW_RANKS = 8            # the most rows of which libreduce-cuda reduces any number of columns
SHARE_OF_MANY = 4 << 20  # bytes of the longest share of more ranks


def _swap(sent: Any, received: Any, group: Any) -> Any:
    """Begin to give sent[r] to each other rank r, and to get received[r] of it. Returns what is to be waited for."""
    dist = _torch().distributed
    mine, others = dist.get_rank(group), []
    for rank in range(dist.get_world_size(group)):
        if rank != mine:
            others.append((rank, rank if group is None else dist.get_global_rank(group, rank)))
    return dist.batch_isend_irecv([dist.P2POp(dist.isend, sent[rank], peer, group) for rank, peer in others]
                                  + [dist.P2POp(dist.irecv, received[rank], peer, group) for rank, peer in others])


def _reduce_columns(op: str, rows: Tensor, result: Tensor) -> None:
    count, columns = rows.shape
    dtype = _abi.DTYPES[_codes()[rows.dtype]]
    spec = _abi.Spec(size=ctypes.sizeof(_abi.Spec), op=_abi.OPS[op].code, dtype=dtype, out=dtype, flags=_abi.COLUMNS, rows=count, row_len=columns)
    _on(rows.get_device(), "enqueue", ctypes.byref(spec), rows.data_ptr(), count * columns, result.data_ptr(), columns * rows.itemsize, None)


def all_reduce(t: Tensor, op: str = "sum", *, group: Any = None) -> Tensor:
    """The exact sum or mean of each element over all ranks, rounded once: the same bits for any number and order of ranks.

    As torch.distributed.all_reduce, but the result is a new tensor. `group`: of torch.distributed, on NCCL; None: of all ranks. Each rank
    gets its share of the elements of all, reduces it, and gives it to the others, so nothing is rounded before. It needs room for two copies.
    """
    _check_tensor(t)
    torch = _torch()
    if op not in ("sum", "mean") or not t.dtype.is_floating_point:
        raise ValueError(f"all_reduce is of sum or mean of floats, not {op!r} of {t.dtype}")
    ranks, n, mine = torch.distributed.get_world_size(group), t.numel(), t.detach().contiguous().reshape(-1)
    if n == 0:
        return torch.empty_like(t)
    if ranks == 1 or ranks * n * t.itemsize <= ONE_EXCHANGE:
        of_all = mine.new_empty(ranks * n)
        torch.distributed.all_gather_into_tensor(of_all, mine, group=group)
        return _launch(op, of_all.reshape(ranks, n), 0, False, None, "propagate", 0).reshape(t.shape)
    most = n if ranks <= FEW_RANKS else ranks * (SHARE_OF_MANY // t.itemsize)
    if n > most:
        return torch.cat([all_reduce(piece, op, group=group) for piece in mine.split(most)]).reshape(t.shape)
    vector = 16 // t.itemsize
    share = -(-n // (ranks * vector)) * vector
    if share * ranks > n:
        mine = torch.nn.functional.pad(mine, (0, share * ranks - n))
    own, sent = torch.distributed.get_rank(group), mine.reshape(ranks, share)
    rows, found = mine.new_empty((ranks, share)), mine.new_empty((ranks, share))
    under_way = _swap(sent, rows, group)
    rows[own] = sent[own]
    for work in under_way:
        work.wait()
    _reduce_columns(op, rows, found[own])
    for work in _swap([found[own]] * ranks, found, group):
        work.wait()
    return found.reshape(-1)[:n].reshape(t.shape)


def total_norm(tensors: Union[Tensor, Iterable[Tensor]], norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: Any = None, *,
               dtype: Any = None, group: Any = None) -> Tensor:
    """The norm of all elements of the tensors, which are of one type and on one device. The same bits for any grouping of the elements.

    As torch.nn.utils.get_total_norm, whose `foreach` is not needed. `dtype`: of the result; None: that of the tensors. `group`: of
    torch.distributed, on NCCL: the norm is that of all its ranks' tensors, for any sharding. Each rank has one at least, of the same type.
    """
    torch = _torch()
    if norm_type != 2:
        raise ValueError(f"norm_type {norm_type}: only 2 has an exact norm of many tensors here")
    found = [t.detach() for t in ([tensors] if isinstance(tensors, torch.Tensor) else tensors)]
    if not found:
        return torch.tensor(0.0)
    first = found[0]
    for t in found:
        _check_tensor(t)
        if t.dtype != first.dtype or t.device != first.device:
            raise TypeError("tensors of several types or devices: they have no norm together here")
    if not first.dtype.is_floating_point:
        raise TypeError(f"total_norm takes floats, not {first.dtype}")
    found = [t.contiguous() for t in found]
    out = dtype or first.dtype
    spec = _abi.Spec(size=ctypes.sizeof(_abi.Spec), op=_abi.OPS["norm2"].code, dtype=_abi.DTYPES[_codes()[first.dtype]], out=_abi.DTYPES[_codes()[out]], rows=1)
    arrays = (_Array * len(found))(*((t.data_ptr(), t.numel()) for t in found))
    result = torch.empty((), dtype=out, device=first.device)
    if group is None:
        _on(first.get_device(), "enqueue_list", ctypes.byref(spec), arrays, len(found), result.data_ptr(), result.element_size(), None)
    else:
        _of_ranks(spec, "enqueue_list", arrays, len(found), result, group)
    if error_if_nonfinite and not torch.isfinite(result):
        raise RuntimeError("the total norm is not finite: it cannot be clipped; error_if_nonfinite=False would go on")
    return result


def clip_grad_norm_(parameters: Union[Tensor, Iterable[Tensor]], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
                    foreach: Any = None, *, group: Any = None) -> Tensor:
    """Scale the gradients so that their norm is at most `max_norm`; returns the norm before. As torch.nn.utils.clip_grad_norm_.

    `group`: as for total_norm, so that the shards of all its ranks are scaled alike.
    """
    torch = _torch()
    with torch.no_grad():
        grads = [p.grad for p in ([parameters] if isinstance(parameters, torch.Tensor) else parameters) if p.grad is not None]
        norm = total_norm(grads, norm_type, error_if_nonfinite, group=group)
        if grads:
            torch._foreach_mul_(grads, torch.clamp(max_norm / (norm + 1e-6), max=1.0))
        return norm
