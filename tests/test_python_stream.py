"""reduced.cuda without a GPU: what a call asks the library for, with a stand-in of PyTorch that has shapes and types alone. On a GPU
tests/gpu/stream.py compares its values."""
import contextlib
import math
import subprocess
import sys
import types

import numpy as np
import pytest

from conftest import TESTS

sys.path.insert(0, str(TESTS.parent / "client/python"))
TYPES = {"int8": 1, "uint8": 1, "int16": 2, "int32": 4, "int64": 8, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "bool": 1}


class Type:
    def __init__(self, name, size):
        self.name, self.itemsize, self.is_floating_point = name, size, "float" in name


class Tensor:
    def __init__(self, shape, dtype, cuda=True, grad=False, at=0x1000):
        self.shape, self.dtype, self.is_cuda, self.requires_grad, self.at, self.device = tuple(shape), dtype, cuda, grad, at, "cuda:0"

    def dim(self):
        return len(self.shape)

    def numel(self):
        return math.prod(self.shape)

    def permute(self, order):
        return Tensor([self.shape[d] for d in order], self.dtype)

    def contiguous(self):
        return self

    def is_contiguous(self):
        return True

    def detach(self):
        return self

    def reshape(self, shape):
        return Tensor(shape, self.dtype)

    def new_empty(self, shape, dtype=None):
        return Tensor([shape] if isinstance(shape, int) else shape, dtype or self.dtype, at=0x8000)

    def stride(self):
        return tuple(math.prod(self.shape[d + 1:]) for d in range(len(self.shape)))

    def get_device(self):
        return 0

    def data_ptr(self):
        return self.at

    def element_size(self):
        return self.dtype.itemsize


class Library:
    """Records calls, and answers as libreduce-cuda would."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        def call(*arguments):
            self.calls.append((name.removeprefix("reduce_cuda_"), arguments))
            if name == "reduce_cuda_result_size":
                from reduced import _abi
                spec = arguments[0]._obj if hasattr(arguments[0], "_obj") else _abi.Spec.from_address(arguments[0])
                arguments[2]._obj.value = 4 * (arguments[1] // spec.rows if spec.planes else spec.rows)
            return 0
        return call


@pytest.fixture
def torch(monkeypatch):
    module = types.ModuleType("torch")
    for name, size in TYPES.items():
        setattr(module, name, Type(name, size))
    module.Tensor, module.is_grad_enabled = Tensor, lambda: True
    module.compiler = types.SimpleNamespace(is_compiling=lambda: False)
    module._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda device: 7)
    import reduced.cuda
    kept = reduced.cuda._codes, reduced.cuda._current_device, reduced.cuda._raw_stream
    for of_torch in kept:
        of_torch.cache_clear()
    monkeypatch.setitem(sys.modules, "torch", module)
    yield module
    for of_torch in kept:
        of_torch.cache_clear()


@pytest.mark.parametrize("op, shape, dtype, dim, rows, planes, flags, out, result", [
    ("sum", (4, 5), "float32", None, 1, 0, 0, "float32", []), ("sum", (4, 5), "float32", -1, 4, 0, 0, "float32", [4]),
    ("sum", (4, 5), "float32", 0, 4, 1, 64, "float32", [5]), ("max", (2, 3, 4), "int8", 1, 3, 2, 64, "int8", [2, 4]),
    ("var", (2, 3, 4), "bfloat16", (0, 2), 3, 0, 0, "bfloat16", [3]), ("mean", (2, 3, 4), "int16", (1, 2), 2, 0, 0, "float64", [2]),
    ("prod", (2, 3), "int32", None, 1, 0, 4, "int64", []), ("sum", (2, 3), "int32", None, 1, 0, 0, "int64", []), ("argmax", (7,), "float64", 0, 1, 0, 0, "int64", []), ("sum", (), "float32", None, 1, 0, 0, "float32", [])])
def test_shapes(torch, op, shape, dtype, dim, rows, planes, flags, out, result):
    """Each set of dimensions is rows, columns, or columns of planes; products of integers wrap, as PyTorch's do."""
    import reduced.cuda
    plan = reduced.cuda._plan(op, Tensor(shape, getattr(torch, dtype)), dim, False, None, "propagate")
    assert (plan.spec.rows, plan.spec.planes, plan.spec.flags, plan.out.name, plan.shape) == (rows, planes, flags, out, result)
    kept = reduced.cuda._plan(op, Tensor(shape, getattr(torch, dtype)), dim, True, None, "propagate")
    assert len(kept.shape) == len(shape) and math.prod(kept.shape) == math.prod(result)


@pytest.mark.parametrize("op, tensor, dim, nan, error", [
    ("max", ((0,), "float32"), None, "propagate", ValueError), ("max", ((3,), "float32"), None, "omit", ValueError),
    ("sum", ((3,), "float32"), 1, "propagate", IndexError), ("sum", ((3, 4), "float32"), (0, 0), "propagate", IndexError),
    ("sum", ((3,), "float32"), None, "raise", ValueError), ("sum", ((0, 3), "float32"), 1, "propagate", ValueError)])
def test_refusals(torch, op, tensor, dim, nan, error):
    """What could have no result would be told by a wait alone, and is refused before."""
    import reduced.cuda
    with pytest.raises(error):
        reduced.cuda._plan(op, Tensor(tensor[0], getattr(torch, tensor[1])), dim, False, None, nan)


def test_other_tensors(torch):
    import reduced.cuda
    with pytest.raises(TypeError):
        reduced.cuda._plan("sum", Tensor((3,), torch.float32, cuda=False), None, False, None, "propagate")
    with pytest.raises(TypeError, match="PyTorch, CuPy, JAX or Numba on a GPU, not builtins.list"):
        reduced.cuda.sum([1.0])


@pytest.fixture
def library(torch, monkeypatch):
    import reduced.cuda
    made = Library()
    torch.empty = lambda shape, dtype, device: Tensor([shape] if isinstance(shape, int) else shape, dtype, at=0x8000)
    torch.empty_like = lambda t: t.new_empty(t.shape)
    torch.cuda = types.SimpleNamespace(current_device=lambda: 0)
    monkeypatch.setattr(reduced.cuda, "_lib", lambda: made)
    monkeypatch.setattr(reduced.cuda, "_place", lambda device: (7, 0x100, 99))
    monkeypatch.setattr(reduced.cuda, "_handle", lambda device: 0x10)
    reduced.cuda._made.clear()
    yield made
    reduced.cuda._made.clear()


def test_plans_are_kept(torch, library):
    """A call of the same kind asks the library for nothing but its launch; another shape, dimension or option is another kind."""
    import reduced.cuda
    x = Tensor((4, 5), torch.float32, at=0x4000)
    for _ in range(3):
        y = reduced.cuda.mean(x, 1)
    assert [name for name, _ in library.calls] == ["result_size", "again", "again", "again"] and list(y.shape) == [4]
    at, *rest = library.calls[-1][1]
    from reduced import _abi
    kept = reduced.cuda._Kept.from_address(at)
    assert rest == [0x4000, 0x8000] and _abi.Spec.from_address(kept.spec).rows == 4 and library.calls[-2][1][0] == at
    assert [getattr(kept, name) for name, _ in kept._fields_ if name != "spec"] == [0x10, 20, 16, None, 0x100, 99, 7]
    for kind in (dict(dim=0), dict(dim=1, keepdim=True), dict(dim=1, nan="omit")):
        reduced.cuda.mean(x, **kind)
    reduced.cuda.var(x, dim=[1])
    reduced.cuda.var(x, dim=(1,), correction=0)
    assert len(reduced.cuda._made) == 6


@pytest.mark.parametrize("compiling", [False, True])
def test_what_needs_a_gradient_or_is_compiled_is_an_operation_of_torch(torch, library, compiling):
    import reduced.cuda
    asked = []
    torch.compiler = types.SimpleNamespace(is_compiling=lambda: compiling)
    torch.ops = types.SimpleNamespace(reduced=types.SimpleNamespace(reduce=lambda *a: asked.append(a)))
    x = Tensor((4, 5), torch.float32, grad=not compiling)
    reduced.cuda.std(x, dim=-1)
    assert asked == [(x, "std", [1], False, None, "propagate", 1)] and library.calls == []
    if not compiling:
        reduced.cuda.argmax(x)
        torch.is_grad_enabled = lambda: False
        reduced.cuda.sum(x)
        assert len(asked) == 1 and [n for n, _ in library.calls] == ["result_size", "again"] * 2
        torch.is_grad_enabled = lambda: True
        with pytest.raises(RuntimeError, match="no gradients by key"):
            reduced.cuda.by_key(x, x, groups=3)


@pytest.fixture
def streams(torch, library, monkeypatch):
    import reduced.cuda
    torch.cuda.device = contextlib.nullcontext
    monkeypatch.setattr(reduced.cuda, "_told", lambda status: None)


def test_by_key_is_one_call(torch, library, streams):
    import reduced.cuda
    keys, x = Tensor((20,), torch.int32, at=0x2000), Tensor((4, 5), torch.float64, at=0x4000)
    y = reduced.cuda.by_key(keys, x, "mean", groups=6, outside="drop")
    (size, (spec, k, *_)), (name, (_, _, _, *rest)) = library.calls
    k = k._obj
    assert (size, name, k.keys, k.groups, k.flags, k.initial, list(y.shape)) == ("keyed_workspace", "enqueue_keyed", 0x2000, 6, reduced._abi.DROP_OUTSIDE, None, [6])
    assert rest == [0x4000, 20, 0x8000, 48, None, 0x8000, 0, 7] and spec._obj.nan == 0 and spec._obj.ddof == 0
    for kw in (dict(op="median"), dict(outside="keep"), dict(nan="error")):
        with pytest.raises(ValueError):
            reduced.cuda.by_key(keys, x, groups=6, **kw)
    with pytest.raises(ValueError, match="20 keys"):
        reduced.cuda.by_key(keys, Tensor((3,), torch.float64), groups=6)


def test_a_norm_of_many_tensors_is_one_call(torch, library):
    import reduced.cuda
    grads = [Tensor((4, 5), torch.float32, at=0x4000), Tensor((7,), torch.float32, at=0x5000), Tensor((0,), torch.float32, at=0)]
    reduced.cuda.total_norm(grads)
    (name, (_, spec, arrays, n, *rest)), = library.calls
    assert (name, n, [(a.data, a.count) for a in arrays]) == ("enqueue_list", 3, [(0x4000, 20), (0x5000, 7), (None, 0)])
    assert rest == [0x8000, 4, None, 0x100, 99, 7]
    for wrong, error in (([grads[0], Tensor((3,), torch.float64)], TypeError), ([Tensor((3,), torch.int32)], TypeError)):
        with pytest.raises(error):
            reduced.cuda.total_norm(wrong)
    with pytest.raises(ValueError):
        reduced.cuda.total_norm(grads, norm_type=1.0)


def test_a_norm_over_ranks_adds_words(torch, library):
    """States of this rank, their words, one all-reduce of these, the states of all ranks, and their value: in one stream."""
    import reduced.cuda
    torch.distributed = types.SimpleNamespace(all_reduce=lambda words, group: library.calls.append(("all_reduce", (words.dtype.name, group))))
    torch.cuda.device = lambda device: contextlib.nullcontext()
    reduced.cuda.total_norm([Tensor((4, 5), torch.float32)], group="ranks")
    assert [name for name, _ in library.calls] == ["result_size", "enqueue_list", "words", "enqueue_words", "all_reduce", "enqueue_states", "enqueue"]
    assert library.calls[4][1] == ("int64", "ranks") and all(call[-1] == 7 for name, call in library.calls if name.startswith("enqueue"))


def test_without_the_library():
    """The error names the variable that names it."""
    code = "import reduced.cuda as c\ntry: c._lib()\nexcept ImportError as e: print(e)"
    env = {"PYTHONPATH": str(TESTS.parent / "client/python"), "REDUCED_CUDA_LIBRARY": "/nowhere/libreduce-cuda.so", "PATH": "/usr/bin:/bin"}
    assert "$REDUCED_CUDA_LIBRARY" in subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("op, ddof, out", [("var", 1, "float64"), ("norm2", 0, "float64"), ("argmax", 0, "int64"), ("sumsq", 0, "float64")])
def test_operations_by_key(torch, library, streams, op, ddof, out):
    """Variances have torch's divisor, and places are integers, for whose absence the call waits."""
    import reduced.cuda
    x, more = Tensor((20,), torch.float64, at=0x4000), Tensor((6,), torch.float64, at=0x6000)
    y = reduced.cuda.by_key(Tensor((20,), torch.int64), x, op, groups=6, outside="drop", initial=more)
    spec, k, *_ = library.calls[0][1]
    assert spec._obj.ddof == ddof and k._obj.initial == 0x6000 and y.dtype.name == out
    assert (library.calls[-1][1][-4] is None) == (op != "argmax")
    for wrong in (Tensor((5,), torch.float64), Tensor((6,), torch.float32)):
        with pytest.raises(ValueError, match="initial"):
            reduced.cuda.by_key(Tensor((20,), torch.int64), x, op, groups=6, initial=wrong)


def test_what_is_added_by_key(torch, library, streams):
    """The tensor's own elements are those that the groups begin with; with gradients or compiled it is an operation of torch."""
    import reduced.cuda
    x, keys, values = Tensor((2, 3), torch.float32, at=0x4000), Tensor((8,), torch.int64, at=0x2000), Tensor((8,), torch.float32, at=0x3000)
    y, asked = reduced.cuda._added(x, keys, values), []
    k, at = library.calls[0][1][1]._obj, library.calls[1][1][3]
    assert (k.groups, k.initial, k.keys, at, y.shape) == (6, 0x4000, 0x2000, 0x3000, (2, 3))
    torch.ops = types.SimpleNamespace(reduced=types.SimpleNamespace(add_by_key=lambda *a: asked.append(a)))
    values.requires_grad = True
    reduced.cuda._added(x, keys, values)
    assert asked == [(x, keys, values)] and len(library.calls) == 2


class Elements(np.ndarray):
    """Arrays that have what index_add and scatter_add ask of tensors."""
    is_cuda, requires_grad, device = True, False, "cuda:0"
    dtype = property(lambda self: getattr(sys.modules["torch"], np.ndarray.dtype.__get__(self).name))

    def dim(self):
        return self.ndim

    def numel(self):
        return self.size

    def long(self):
        return self.astype(np.int64)

    def movedim(self, a, b):
        return np.moveaxis(self, a, b)

    def clone(self):
        return self.copy()


def elements(values):
    return np.asarray(values).view(Elements)


@pytest.fixture
def arrays(torch, monkeypatch):
    """Elements by key are added by NumPy."""
    import reduced.cuda

    def added(x, keys, values):
        flat, keys = np.array(x).reshape(-1), np.array(keys).reshape(-1)
        if ((keys < 0) | (keys >= flat.size)).any():
            raise IndexError("a key that is not a group")
        np.add.at(flat, keys, np.array(values).reshape(-1))
        return elements(flat.reshape(x.shape))
    torch.Tensor = Elements
    torch.arange = lambda n, device: elements(np.arange(n))
    torch.where = lambda where, a, b: elements(np.where(where, a, b))
    monkeypatch.setattr(reduced.cuda, "_added", added)
    return np.random.default_rng(5)


@pytest.mark.parametrize("shape, along, dim", [((6,), (9,), 0), ((6,), (4,), -1), ((4, 5), (3, 4), 0), ((4, 5), (4, 9), 1), ((3, 4, 5), (2, 7, 5), 1), ((3, 4, 5), (3, 4, 1), -1), ((), (), 0), ((4, 5), (0, 5), 0)])
def test_scatter_add(arrays, shape, along, dim):
    """torch's definition: along one dimension the place is that of the index."""
    import reduced.cuda
    x, axis = arrays.integers(0, 9, shape).astype(np.float32), dim % max(len(shape), 1)
    index = arrays.integers(0, shape[axis] if shape else 1, along)
    src = arrays.integers(0, 9, [n + 2 for n in along]).astype(np.float32)
    want = x.copy()
    for at in np.ndindex(*along):
        want[tuple(index[at] if d == axis else i for d, i in enumerate(at))] += src[at]
    assert np.array_equal(reduced.cuda.scatter_add(elements(x), dim, elements(index), elements(src)), want)


@pytest.mark.parametrize("shape, dim", [((6,), 0), ((4, 5), 1), ((3, 4, 5), -2), ((3, 4, 5), 0)])
def test_index_add(arrays, shape, dim):
    import reduced.cuda
    x, axis = arrays.integers(0, 9, shape).astype(np.float64), dim % len(shape)
    index = arrays.integers(0, shape[axis], 30)
    source = arrays.integers(0, 9, [30 if d == axis else n for d, n in enumerate(shape)]).astype(np.float64)
    want = np.moveaxis(x.copy(), axis, 0)
    np.add.at(want, index, np.moveaxis(source, axis, 0))
    assert np.array_equal(reduced.cuda.index_add(elements(x), dim, elements(index), elements(source)), np.moveaxis(want, 0, axis))


@pytest.mark.parametrize("dim, index, src, error", [
    (2, [[0]], [[1.0]], IndexError), (0, [[4]], [[1.0]], IndexError), (0, [[-1]], [[1.0]], IndexError), (1, [[5]], [[1.0]], IndexError),
    (0, [[0.0]], [[1.0]], IndexError), (0, [0], [1.0], ValueError), (0, [[0, 0]], [[1.0]], ValueError), (0, [[0] * 6], [[1.0] * 6], ValueError),
    (1, [[0]] * 5, [[1.0]] * 5, ValueError), (0, [[0]], [[1]], ValueError)])
def test_what_cannot_be_scattered(arrays, dim, index, src, error):
    """An index that a neighbouring line would take, too, is refused."""
    import reduced.cuda
    with pytest.raises(error):
        reduced.cuda.scatter_add(elements(np.zeros((4, 5))), dim, elements(index), elements(src))


def test_what_cannot_be_added(arrays):
    import reduced.cuda
    x = elements(np.zeros((4, 5)))
    for index, source in (([0], np.zeros((1, 4))), ([0, 1], np.zeros((1, 5))), ([0], np.zeros((1, 5), np.float32))):
        with pytest.raises(ValueError):
            reduced.cuda.index_add(x, 0, elements(index), elements(source))
    for index in ([4], [-1], [0.5]):
        with pytest.raises(IndexError):
            reduced.cuda.index_add(x, 0, elements(index), elements(np.zeros((1, 5))))
