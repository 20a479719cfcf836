"""Exact reductions of PyTorch's tensors on a GPU, in the current stream: no daemon, no copy, no wait.

>>> import reduced.cuda                                    # doctest: +SKIP
>>> reduced.cuda.sum(x)                                    # doctest: +SKIP
>>> reduced.cuda.var(x, dim=(0, 2), keepdim=True)          # doctest: +SKIP
>>> reduced.cuda.clip_grad_norm_(model.parameters(), 1.0)  # doctest: +SKIP

The results are tensors on the same device, with the bits that every other way of this package gives. They are there when the stream
is past the call, so calls may be captured into a CUDA graph; call `prepare` with the same arguments before. There are no gradients.
The library is libreduce-cuda.so: beside the package, in $REDUCED_CUDA_LIBRARY, or where the system has it.
"""
from __future__ import annotations

import ctypes
import functools
import os
from math import prod as product
from typing import TYPE_CHECKING, Any, Iterable, NamedTuple, Sequence, Union

from . import _abi, errors
from ._lib import program

if TYPE_CHECKING:
    from torch import Tensor  # type: ignore[import-not-found,unused-ignore]

Dim = Union[int, Sequence[int], None]
ALIGN = 256
PLACE_OPS, COUNT_OPS = ("argmin", "argmax"), ("count_nonzero", "count_nan")
CHOICES = (*PLACE_OPS, "min", "max")
NAN_NAMES = {"propagate": 0, "omit": 1}


@functools.cache
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
    pointer, size, count, spec = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64, ctypes.POINTER(_abi.Spec)
    calls = {"create": (pointer, ctypes.c_int), "result_size": (spec, count, pointer), "workspace": (pointer, spec, count, pointer),
             "clear": (pointer, pointer, size, pointer), "prepare": (pointer, spec, count, pointer, size),
             "enqueue": (pointer, spec, pointer, count, pointer, size, pointer, pointer, size, pointer)}
    for name, arguments in calls.items():
        getattr(library, "reduce_cuda_" + name).argtypes = arguments
    library.reduce_cuda_errmsg.restype = ctypes.c_char_p
    return library


def _call(name: str, *arguments: Any) -> None:
    if err := getattr(_lib(), "reduce_cuda_" + name)(*arguments):
        raise errors.of(err, errors.text_of(_lib().reduce_cuda_errmsg()), _abi.Fault(size=ctypes.sizeof(_abi.Fault), index=_abi.NO_INDEX))


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
    """A checked call: what the library gets, the tensor whose elements it reads, and the shape of its results."""
    spec: Any
    tensor: Any
    out: Any
    shape: list[int]


def _axes(t: Any, dim: Dim) -> tuple[int, ...]:
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return tuple(range(t.dim()))
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    found = sorted(d % t.dim() if -t.dim() <= d < t.dim() else t.dim() for d in dims)
    if t.dim() in found or len(set(found)) < len(found):
        raise IndexError(f"dim {dim} of a tensor with {t.dim()} dimensions")
    return tuple(found)


def _layout(t: Any, axes: tuple[int, ...]) -> tuple[Any, dict[str, int]]:
    """The tensor with its elements in the order of one of the library's shapes: rows, columns, or columns of planes."""
    kept = tuple(d for d in range(t.dim()) if d not in axes)
    if axes and axes[-1] - axes[0] + 1 != len(axes):
        t, axes = t.permute(*kept, *axes), tuple(range(len(kept), t.dim()))
    t, n = t.contiguous(), [t.shape[d] for d in range(t.dim())]
    before, lines = (product(n[:axes[0]]), product(n[d] for d in axes)) if axes else (t.numel(), 1)
    if not axes or axes[-1] == t.dim() - 1:
        return t, {"rows": before}
    return t, {"rows": lines, "planes": before, "flags": _abi.COLUMNS}


def _result_type(op: str, t: Any, dtype: Any) -> Any:
    torch = _torch()
    if op in PLACE_OPS or op in COUNT_OPS:
        return torch.int64
    if dtype is not None:
        return dtype
    if t.dtype.is_floating_point or op in ("min", "max"):
        return t.dtype
    return torch.int64 if op in ("sum", "prod", "sumsq") else torch.float64


def _plan(op: str, t: Tensor, dim: Dim, keepdim: bool, dtype: Any, nan: str, **fields: Any) -> _Call:
    torch = _torch()
    if not isinstance(t, torch.Tensor) or not t.is_cuda:
        raise TypeError("reduced.cuda takes tensors of PyTorch on a GPU")
    if t.requires_grad and torch.is_grad_enabled():
        raise RuntimeError("reduced.cuda has no gradients: call it under torch.no_grad(), or with t.detach()")
    if nan not in NAN_NAMES:
        raise ValueError(f"nan is {' or '.join(map(repr, NAN_NAMES))}, not {nan!r}: an error would have to be waited for")
    if t.dtype not in _codes():
        raise TypeError(f"reduced.cuda has no {t.dtype}")
    axes, out = _axes(t, dim), _result_type(op, t, dtype)
    if 0 in t.shape and any(t.shape[d] == 0 for d in range(t.dim()) if d not in axes):
        raise ValueError("a tensor without results")
    if op in CHOICES and (nan == "omit" or 0 in t.shape):  # a result that is not there could be told with a wait alone
        raise ValueError(f"{op} has no value of no elements" + (", which nan='omit' may leave: take 'propagate'" if nan == "omit" else ""))
    laid, shape = _layout(t, axes)
    if op == "prod" and not t.dtype.is_floating_point:
        shape["flags"] = shape.get("flags", 0) | _abi.WRAP  # as PyTorch's; a sum's low word is there without it
    whole = op in PLACE_OPS + COUNT_OPS or op in ("min", "max") and not out.is_floating_point  # of 64 bits, by the sign of the elements
    wanted = 0 if whole else _abi.DTYPES[_codes()[out]]
    spec = _abi.Spec(size=ctypes.sizeof(_abi.Spec), op=_abi.OPS[op].code, dtype=_abi.DTYPES[_codes()[t.dtype]], out=wanted, nan=NAN_NAMES[nan], **shape, **fields)
    left = [1 if d in axes else n for d, n in enumerate(t.shape)] if keepdim else [n for d, n in enumerate(t.shape) if d not in axes]
    return _Call(spec, laid, out, left)


def _enqueue(spec: Any, data: Any, count: int, out: Any, room: int) -> None:
    """On the current stream of the device that has the data."""
    torch = _torch()
    device = data.device.index
    with torch.cuda.device(device):
        stream = torch.cuda.current_stream(device).cuda_stream
        _, workspace, size = _workspace(device, stream)
        _call("enqueue", _handle(device), ctypes.byref(spec), data.data_ptr(), count, out.data_ptr(), room, None, workspace, size, stream)


def _reduce(op: str, t: Tensor, dim: Dim = None, keepdim: bool = False, dtype: Any = None, nan: str = "propagate", **fields: Any) -> Any:
    torch = _torch()
    call = _plan(op, t, dim, keepdim, dtype, nan, **fields)
    size = ctypes.c_size_t()
    _call("result_size", ctypes.byref(call.spec), call.tensor.numel(), ctypes.byref(size))
    cells = product(call.shape)
    stored = torch.empty(size.value, dtype=torch.uint8, device=t.device)
    _enqueue(call.spec, call.tensor, call.tensor.numel(), stored, size.value)
    cell = size.value // cells
    if call.out.itemsize == cell:
        found = stored.view(call.out)
    else:  # integers have 64 bits there
        found = stored.view(torch.int64).to(call.out)
    return found.reshape(call.shape)


def prepare(op: str, t: Tensor, dim: Dim = None, dtype: Any = None, nan: str = "propagate") -> None:
    """Load what a call of this operation on such a tensor needs: before a capture, or for a first call as fast as the others."""
    call = _plan(op, t, dim, False, dtype, nan)
    device = call.tensor.device.index
    with _torch().cuda.device(device):
        _, workspace, size = _workspace(device, _torch().cuda.current_stream(device).cuda_stream)
        _call("prepare", _handle(device), ctypes.byref(call.spec), call.tensor.numel(), workspace, size)


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


# ---- norms of many tensors ----

def total_norm(tensors: Union[Tensor, Iterable[Tensor]], dtype: Any = None) -> Tensor:
    """The norm of all elements of the tensors, which are of one type and on one device. The same bits for any grouping of the elements.

    As torch.nn.utils.get_total_norm with norm_type 2. `dtype`: of the result; None: that of the tensors.
    """
    torch = _torch()
    found = [t.detach() for t in ([tensors] if isinstance(tensors, torch.Tensor) else tensors)]
    if not found:
        return torch.tensor(0.0)
    first = found[0]
    if any(t.dtype != first.dtype or t.device != first.device for t in found):
        raise TypeError("tensors of several types or devices: their states cannot be merged here")
    calls = [_plan("norm2", t, None, False, torch.float64, "propagate") for t in found if t.numel()]
    if not calls:
        return torch.zeros((), dtype=dtype or first.dtype, device=first.device)
    for call in calls:
        call.spec.flags, call.spec.out = _abi.STATES_OUT, 0
    size = ctypes.c_size_t()
    _call("result_size", ctypes.byref(calls[0].spec), calls[0].tensor.numel(), ctypes.byref(size))
    states = torch.empty((len(calls), size.value), dtype=torch.uint8, device=first.device)
    for state, call in zip(states, calls):
        _enqueue(call.spec, call.tensor, call.tensor.numel(), state, size.value)
    out = dtype or first.dtype
    spec = _abi.Spec(size=ctypes.sizeof(_abi.Spec), op=_abi.OPS["norm2"].code, dtype=calls[0].spec.dtype, out=_abi.DTYPES[_codes()[out]], rows=1, flags=_abi.STATES_IN)
    result = torch.empty((), dtype=out, device=first.device)
    _enqueue(spec, states, len(calls), result, result.element_size())
    return result


def clip_grad_norm_(parameters: Union[Tensor, Iterable[Tensor]], max_norm: float, error_if_nonfinite: bool = False) -> Tensor:
    """Scale the gradients so that their norm is at most `max_norm`; returns the norm before. As torch.nn.utils.clip_grad_norm_."""
    torch = _torch()
    with torch.no_grad():
        grads = [p.grad for p in ([parameters] if isinstance(parameters, torch.Tensor) else parameters) if p.grad is not None]
        norm = total_norm(grads)
        if error_if_nonfinite and not torch.isfinite(norm):
            raise RuntimeError("the norm of the gradients is not finite")
        if grads:
            torch._foreach_mul_(grads, torch.clamp(max_norm / (norm + 1e-6), max=1.0))
        return norm
