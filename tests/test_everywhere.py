"""One multiset of adversarial numbers, shuffled and split at random: the library alone, one request, streams, states merged by a daemon,
Dask's chunks, torch.distributed by words. All finished values and all state bytes are equal. (tests/test_mpi.py: under two MPIs.)

REDUCED_BACKEND=cuda runs all of it on a GPU; then its daemon reduces small arrays on the GPU, too."""
import subprocess
import sys

import numpy as np
import pytest

import gens
import oracle
from conftest import BACKEND, LIB, ROOT, python_env
from libreduce import STATES_IN, STATES_OUT, Client, State
from test_states import joined, pieces

SHARED_FLAGS = ("--small-bytes", 0) if BACKEND == "cuda" else ()
NUMPY = {"f64": "<f8", "f32": "<f4", "i64": "<i8", "u8": "u1", "f16": "<f2"}


def multiset(rng, dtype):
    """NaN, infinities, -0 and what cancels, together."""
    makers = list(gens.of(dtype))
    some = [makers[i](rng, dtype, int(rng.integers(1, 60))) for i in rng.permutation(len(makers))[:4]]
    return rng.permutation(np.concatenate(some))


@pytest.fixture(scope="module")
def client(shared):
    with Client(shared.url) as c:
        yield c


@pytest.mark.parametrize("dtype", ["f64", "f32", "bf16", "i64", "u8"])
def test_all_ways_have_the_same_bytes(client, dtype):
    rng = np.random.default_rng(oracle.DTYPES[dtype] + 1000)
    for turn, nan in enumerate(oracle.NANS):
        bits = multiset(rng, dtype)
        parts = [p for at, p in pieces(rng, bits, 1 + turn * 3)] + [bits[:0]]
        at = np.cumsum([0] + [len(p) for p in parts]).tolist()
        for op in oracle.ops(dtype):
            here = [State(op, dtype).add(p, nan, i) for i, p in zip(at, parts)]
            there = [client.run(op, dtype, p.tobytes(), nan=nan, index_base=i, flags=STATES_OUT) for i, p in zip(at, parts)]
            assert [bytes(s) for s in here] == there, (op, nan)
            whole = oracle.state(oracle.Elements(dtype, bits, 0), op, nan)
            assert client.run(op, dtype, bits.tobytes(), nan=nan, flags=STATES_OUT) == whole
            assert client.run(op, dtype, b"".join(there), nan=nan, flags=STATES_IN | STATES_OUT) == whole
            assert client.stream(op, dtype, [p.tobytes() for p in parts], nan=nan, flags=STATES_OUT) == whole
            if here[0].lengths()[1]:
                assert bytes(State.of_words(op, dtype, joined(here, op, dtype))) == whole
            merged = State(op, dtype)
            for i in rng.permutation(len(here)):
                merged.merge(here[i])
            assert bytes(merged) == whole
            value = oracle.reduce_or_fault(op, dtype, bits, nan=nan)
            assert oracle.outcome(asked, client, op, dtype, bits, nan) == value == oracle.outcome(finished, merged, nan), (op, nan)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "i64"])
def test_long_arrays(client, dtype):
    """One request, many states, and a stream of enough elements that an engine cuts them, beside the library alone."""
    rng = np.random.default_rng(oracle.DTYPES[dtype] + 2000)
    for turn, nan in enumerate(oracle.NANS):
        bits = rng.permutation(np.concatenate([multiset(rng, dtype), *(make(rng, dtype, 15_000) for make in list(gens.of(dtype))[turn::4])]))
        parts = pieces(rng, bits, 1 + turn * 3)
        for op in oracle.ops(dtype):
            alone = State(op, dtype).add(bits, nan, 0)
            there = [client.run(op, dtype, p.tobytes(), nan=nan, index_base=int(i), flags=STATES_OUT) for i, p in parts]
            whole = [client.run(op, dtype, bits.tobytes(), nan=nan, flags=STATES_OUT), client.run(op, dtype, b"".join(there), nan=nan, flags=STATES_IN | STATES_OUT),
                     client.stream(op, dtype, [p.tobytes() for _, p in parts], nan=nan, flags=STATES_OUT)]
            assert [w == bytes(alone) for w in whole] == [True] * 3, (op, nan)
            assert oracle.outcome(asked, client, op, dtype, bits, nan) == oracle.outcome(finished, alone, nan), (op, nan)


def asked(client, op, dtype, bits, nan):
    try:
        return int.from_bytes(client.run(op, dtype, bits.tobytes(), nan=nan), "little")
    except Exception as f:
        raise oracle.Fault(f.code, f.value) from f


def finished(state, nan):
    try:
        return state.finish(nan=nan)
    except Exception as f:
        raise oracle.Fault(f.code, f.value) from f


# ---- Dask, xarray ----
@pytest.fixture(scope="module")
def dask(shared):
    """The package, with the daemon under test."""
    pytest.importorskip("dask.array", reason="no dask")
    from pythonpackage import _client, reduced
    import reduced.dask
    with reduced.Client(shared.url, autostart=False) as client:
        _client._default = client
        yield reduced
        _client._default = None


@pytest.mark.unsanitized
@pytest.mark.parametrize("dtype", ["f64", "f32", "i64", "u8"])
def test_dask(dask, dtype):
    """Any axis, any chunking, against the oracle."""
    import dask.array as da
    rng = np.random.default_rng(oracle.DTYPES[dtype])
    bits = multiset(rng, dtype)[:120]
    x = np.resize(bits, 120).view(NUMPY[dtype]).reshape(6, 5, 4)
    for op, ddof in (("sum", 0), ("mean", 0), ("var", 1), ("std", 0), ("min", 0), ("max", 0), ("rms", 0), ("any", 0), ("all", 0), ("count_nonzero", 0)):
        if op == "sum" and dtype == "i64":
            continue  # may overflow: an error, not a value
        for axis in (None, 0, 1, -1, (0, 2), (1, 2)):
            chunks = tuple(int(c) for c in rng.integers(1, 7, 3))
            kw = {"ddof": ddof} if op in ("var", "std") else {}
            got = getattr(dask.dask, op)(da.from_array(x, chunks=chunks), axis=axis, **kw)
            kept = [i for i in range(3) if axis is not None and i not in np.atleast_1d(axis) % 3]
            found = np.asarray(got.compute()).astype(got.dtype)
            assert found.shape == got.shape == tuple(x.shape[i] for i in kept)
            for place, value in np.ndenumerate(found):
                cell = x[tuple(place[kept.index(i)] if i in kept else slice(None) for i in range(3))]
                elements = np.ascontiguousarray(cell).ravel().view(oracle.unsigned(dtype))
                out = dtype if dtype in oracle.FLOATS and op not in ("any", "all", "count_nonzero") else None
                want = oracle.reduce(op, dtype, elements, out=out, ddof=ddof)
                assert int.from_bytes(value.tobytes(), "little") == want, (op, axis, chunks)


@pytest.mark.unsanitized
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "u1"])
def test_covariance_and_correlation_in_dask(dask, dtype):
    """The bits of the whole arrays, which tests/test_python_pairs.py checks, in any chunks."""
    import dask.array as da
    rng = np.random.default_rng(11)
    x = rng.integers(-99, 99, (4, 60)).astype(dtype) if dtype[0] != "f" else (rng.standard_normal((4, 60)) * 10.0 ** rng.integers(-9, 9, (4, 60))).astype(dtype)
    for chunks, every in (((4, 60), None), ((1, 1), 2), ((3, (7, 0, 53)), 16), ((2, 13), 3), ((2, 13), 1)):
        lazy = da.from_array(x, chunks=chunks)
        for got, want in ((dask.dask.cov(lazy, split_every=every), dask.cov(x)), (dask.dask.corrcoef(lazy, split_every=every), dask.corrcoef(x)),
                          (dask.dask.cov(lazy[:2], lazy[3], ddof=2), dask.cov(x[:2], x[3], ddof=2)), (dask.dask.corrcoef(lazy.T[:, :2], rowvar=False), dask.corrcoef(x[:2])),
                          (dask.dask.cov(lazy[0], x[1], bias=True), dask.cov(x[0], x[1], bias=True)), (dask.dask.cov(lazy[0]), dask.cov(x[0]))):
            found = got.compute()
            assert got.shape == found.shape == want.shape and got.dtype == found.dtype and np.array_equal(found, want, equal_nan=True), chunks


@pytest.mark.unsanitized
def test_correlation_in_dask_of_infinities_and_of_nothing_useful(dask):
    import dask.array as da
    x = np.array([[1.0, 2, np.inf, 4], [1, 3, 2, 5], [2, 2, 2, 2]])
    assert np.array_equal(dask.dask.cov(da.from_array(x, chunks=(3, 2))).compute(), dask.cov(x), equal_nan=True)
    assert np.array_equal(dask.dask.corrcoef(da.from_array(x, chunks=(3, 1))).compute(), dask.corrcoef(x), equal_nan=True)
    for text, call in (("more than 2 dim", lambda: dask.dask.cov(da.ones((2, 2, 2)))), ("ddof must be", lambda: dask.dask.cov(da.ones(3), ddof=0.5)),
                       ("as many", lambda: dask.dask.cov(da.ones(3), da.ones(4)))):
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(TypeError, match="elements of type"):
        dask.dask.corrcoef(da.ones(3, dtype="c16"))


@pytest.mark.unsanitized
@pytest.mark.parametrize("dtype, weights", [("f8", "f8"), ("f4", "f8"), ("f4", "f4"), ("f2", "f2"), ("i8", "i8"), ("u1", "f8")])
def test_pairs_in_dask(dask, dtype, weights):
    """The bits of the whole arrays, which tests/test_python_pairs.py checks, for any axes, in any chunks of both."""
    import dask.array as da
    rng = np.random.default_rng(12)
    x = (rng.standard_normal((6, 5, 4)) * 10.0 ** rng.integers(-3, 4, (6, 5, 4))).astype(dtype) if dtype[0] == "f" else rng.integers(0, 99, (6, 5, 4)).astype(dtype)
    w = (99 * rng.random((6, 5, 4)) + 1).astype(weights)
    for chunks, others, every in (((6, 5, 4), 3, None), ((1, 2, 3), (2, 5, 1), 2), ((4, 5, 1), (6, 1, 2), 3)):
        lazy, heavy = da.from_array(x, chunks=chunks), da.from_array(w, chunks=others)
        pairs = [(dask.dask.vdot(lazy, heavy, split_every=every), dask.vdot(x, w)), (dask.dask.dot(lazy, w[0, 0]), dask.dot(x, w[0, 0])),
                 (dask.dask.dot(lazy[0, 0], heavy[0, 0]), dask.dot(x[0, 0], w[0, 0])), (dask.dask.average(lazy, 1), dask.mean(x, 1)),
                 (dask.dask.average(lazy, (2, 1), w[0].T), dask.average(x, (2, 1), w[0].T)),
                 (dask.dask.average(lazy, 1, w[0, :, 0], keepdims=True), dask.average(x, 1, w[0, :, 0], keepdims=True))]
        pairs += [(dask.dask.average(lazy, axis, heavy, split_every=every), dask.average(x, axis, w)) for axis in (None, 0, -1, (0, 2))]
        for got, want in pairs:
            found = got.compute()
            assert got.shape == found.shape == np.shape(want) and got.dtype == found.dtype and np.array_equal(found, want), chunks


@pytest.mark.unsanitized
def test_pairs_in_dask_that_are_left_out_or_refused(dask):
    import dask.array as da
    x = da.from_array(np.array([[1, np.inf, np.nan], [2, 3, 4]]), chunks=(1, 2))
    assert dask.dask.average(x, 1, [3.0, 0, 0], drop_zero_weights=True).compute().tolist() == [1, 2]
    assert dask.dask.average(x, 1, [3.0, 0, 1], nan="omit").compute()[1] == 2.5 and np.isnan(dask.dask.average(x, 0, [0.0, 0]).compute()).all()
    hidden = np.ma.MaskedArray([1.0, 9, 4], [False, True, False])
    assert dask.dask.average(da.from_array(hidden, chunks=1), weights=[1.0, 5, 2]).compute() == 3
    for error, text, call in ((ValueError, "length of a's rows", lambda: dask.dask.dot(x, [1.0, 2])), (ValueError, "the shape of a", lambda: dask.dask.vdot(x, x[0])),
                              (TypeError, "Axis must be", lambda: dask.dask.average(x, None, [1.0, 2, 3])), (ValueError, "nan is", lambda: dask.dask.vdot(x, x, nan="no")),
                              (TypeError, "weights: no Dask", lambda: dask.dask.average(x, weights=x + 1j)), (TypeError, "a: no Dask", lambda: dask.dask.dot(x + 1j, [1, 2, 3]))):
        with pytest.raises(error, match=text):
            call()


@pytest.mark.unsanitized
@pytest.mark.parametrize("dtype", ["<f8", ">f4", "<f2", "<i8", "u1", "?"])
def test_quantiles_in_dask(dask, dtype):
    """Any axis, any chunking: those of the whole array, which no chunk needs to have."""
    import dask.array as da
    rng = np.random.default_rng(8)
    x = (rng.standard_normal((9, 8, 5)) * 20).astype(dtype)
    for axis in (None, 0, 2, (0, 1), (0, 1, 2)):
        for q in (0.3, [0.5], [], [0.1, 0.25, 0.5, 0.7, 0.9, 1.0], [[0.0, 1.0], [0.2, 0.8]]):
            for method in ("linear", "hazen", "lower", "nearest"):
                got = dask.dask.quantile(da.from_array(x, chunks=tuple(int(c) for c in rng.integers(1, 9, 3))), q, axis, method=method, keepdims=q == 0.3)
                want = dask.quantile(x, q, axis, method=method, keepdims=q == 0.3)
                found = np.asarray(got.compute())
                assert np.array_equal(found, want) and found.shape == got.shape == np.shape(want) and found.dtype == got.dtype, (axis, q, method)
    if x.dtype.kind == "f":
        x[::2] = np.nan
        a = da.from_array(x, chunks=3)
        assert np.isnan(dask.dask.median(a).compute()) and dask.dask.nanmedian(a).compute() == dask.nanmedian(x, keepdims=True).ravel()[0]
        assert np.array_equal(dask.dask.nanquantile(a, [0.2, 0.7], 0).compute(), dask.nanquantile(x, [0.2, 0.7], 0))
        with pytest.raises(dask.NanError):
            dask.dask.median(a, nan="raise").compute()
    for wrong in (1.5, [-0.1]):
        with pytest.raises(ValueError):
            dask.dask.quantile(da.ones(3), wrong)
    with pytest.raises(ValueError, match="method"):
        dask.dask.quantile(da.ones(3), 0.5, method="best")


@pytest.mark.unsanitized
@pytest.mark.parametrize("dtype", ["<f8", ">f4", "<f2", "<i8", "u1", "?"])
def test_largest_elements_in_dask(dask, dtype):
    """Any axis, any chunking, some chunks empty or shorter than k: those of the whole array, and those of Dask without NaNs."""
    import dask.array as da
    rng = np.random.default_rng(12)
    for turn in range(3):
        x = (rng.standard_normal((9, 8, 7)) * 20).astype(dtype)
        if x.dtype.kind == "f" and turn:
            x[rng.random(x.shape) < (0.2, 0.9)[turn - 1]] = np.nan
        for axis, k in ((0, 4), (1, -3), (-1, 7), (2, -7), (-3, 9), (1, 1)):
            chunks = tuple((0, *(b - a for a, b in zip([0, *cut], [*cut, n]))) for n, cut in ((n, sorted(rng.integers(0, n, 2))) for n in x.shape))
            a = da.from_array(x, chunks=chunks)
            for nan in ("propagate", "omit") if x.dtype.kind == "f" else ("propagate",):
                got = dask.dask.topk(a, k, axis, nan=nan, split_every=2)
                want = dask.topk(x, abs(k), axis, largest=k > 0, nan=nan).values
                found = got.compute()
                assert found.shape == got.shape == want.shape and found.dtype == got.dtype == want.dtype, (axis, k, nan)
                assert np.array_equal(found, want, equal_nan=found.dtype.kind == "f"), (axis, k, nan)
            if not turn:
                assert np.array_equal(found, da.topk(da.from_array(x, chunks=3), k, axis).compute())
    if x.dtype.kind == "f":
        with pytest.raises(dask.NanError):
            dask.dask.topk(a, 2, nan="raise").compute()
    for text, call in (("k is 8, but there are 7", lambda: dask.dask.topk(a, 8)), ("k is an integer", lambda: dask.dask.topk(a, 0)),
                       ("k is an integer", lambda: dask.dask.topk(a, 1.0)), ("axis 3", lambda: dask.dask.topk(a, 1, 3)),
                       ("nan is", lambda: dask.dask.topk(a, 1, nan="x"))):
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(TypeError, match="largest elements here of elements of type complex"):
        dask.dask.topk(da.ones(3, dtype="c16"), 1)


@pytest.mark.unsanitized
@pytest.mark.parametrize("dtype", ["<f8", ">f4", "<f2", "<i8", "u1", "?"])
def test_histograms_in_dask(dask, dtype):
    import dask.array as da
    rng = np.random.default_rng(13)
    x = (rng.standard_normal((9, 40)) * 20).astype(dtype)
    if x.dtype.kind == "f":
        x[rng.random(x.shape) < 0.2] = np.nan
    a = da.from_array(x, chunks=((0, 4, 5), 7))
    for bins, range_ in ((10, (-30, 30)), (1, (0, 1)), ([-5.0, 0.0, 0.5, 60.0], None), (7, [-3, 250])):
        for density in (False, True):
            counts, edges = dask.dask.histogram(a, bins, range_, density=density)
            want, at = dask.histogram(x, bins, range_, density=density)
            found = counts.compute()
            assert np.array_equal(found, want) and found.dtype == counts.dtype == want.dtype and counts.shape == want.shape
            assert np.array_equal(edges, at) and edges.dtype == at.dtype
            if not density:
                numpys = np.histogram(x[~np.isnan(x)] if x.dtype.kind == "f" else x.astype("u1") if dtype == "?" else x, at)[0]
                assert np.array_equal(found, numpys)
    if x.dtype.kind == "f":
        with pytest.raises(dask.NanError):
            dask.dask.histogram(a, 3, (0, 1), nan="raise")[0].compute()
    for text, call in (("needs their range", lambda: dask.dask.histogram(a, 3)), ("bins", lambda: dask.dask.histogram(a, 0, (0, 1))),
                       ("monoton", lambda: dask.dask.histogram(a, [1, 0]))):
        with pytest.raises(ValueError, match=text):
            call()
    assert dask.dask.histogram(da.empty(0, dtype=dtype), 2, (0, 1))[0].compute().tolist() == [0, 0]


@pytest.mark.unsanitized
def test_bad_arguments_are_named_before_dask_computes(dask):
    import dask.array as da
    a = da.ones((4, 4), chunks=2)
    for text, call in (("nan is propagate, omit or raise", lambda: dask.dask.sum(a, nan="x")), ("ddof is an integer", lambda: dask.dask.var(a, ddof=0.5)),
                       ("ord is 1, 2 or inf", lambda: dask.dask.norm(a, 3))):
        with pytest.raises(ValueError, match=text):
            call()


@pytest.mark.unsanitized
@pytest.mark.parametrize("dtype", ["<f8", "<f4", "<i8", "u1", "?"])
@pytest.mark.parametrize("op", ["argmin", "argmax"])
def test_places_in_dask(dask, op, dtype):
    """Any axis, any chunking, some chunks empty: NumPy's places, in the whole array, of ties and NaNs too."""
    import dask.array as da
    rng = np.random.default_rng(7)
    ours, nan_ours = getattr(dask.dask, op), lambda *a, **kw: getattr(dask.dask, op)(*a, nan="omit", **kw)
    for turn in range(4):
        x = rng.integers(0, 3, (7, 6, 5)).astype(dtype)  # each value many times
        calls = [(ours, getattr(np, op))]
        if x.dtype.kind == "f" and turn % 2:
            x[rng.random(x.shape) < 0.1] = np.nan
            calls += [(nan_ours, getattr(np, "nan" + op))]
        chunks = tuple((0, *(b - a for a, b in zip([0, *cut], [*cut, n]))) for n, cut in ((n, sorted(rng.integers(0, n, 2))) for n in x.shape))
        for call, numpys in calls:
            for axis in (None, 0, 1, -1):
                got = call(da.from_array(x, chunks=chunks), axis=axis, keepdims=bool(turn % 2), split_every=2)
                want = numpys(x, axis=axis, keepdims=bool(turn % 2))
                assert got.shape == np.shape(want) and got.dtype == np.intp and np.array_equal(got.compute(), want), (axis, chunks)
    pairs = np.moveaxis(x, 1, 0).reshape(6, 35)  # axes 0 and 2 as one, in C order
    assert np.array_equal(ours(da.from_array(x, chunks=chunks), axis=(0, 2)).compute(), getattr(np, op)(pairs, axis=1))
    assert int(ours(da.from_array(np.array(5, dtype), chunks=())).compute()) == 0


@pytest.mark.unsanitized
@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">i4", ">f8"])
def test_types_in_dask_are_those_of_the_package(dask, dtype):
    """Of every operation, with the same values."""
    import dask.array as da
    x = np.random.default_rng(5).integers(0, 2 if dtype == "?" else 9, (6, 5)).astype(dtype)
    lazy = da.from_array(x, chunks=(4, 2))
    nans = ["nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmin", "nanmax", "nanargmin", "nanargmax"]
    for op in ("sum", "prod", "mean", "var", "std", "sem", "rms", "norm", "min", "max", "ptp", "argmin", "argmax", "any", "all", "count_nonzero", *nans):
        got, want = getattr(dask.dask, op)(lazy, axis=1), getattr(dask, op)(x, axis=1)
        assert got.dtype == got.compute().dtype == want.dtype and np.array_equal(got.compute(), want, equal_nan=True), op
    for op, out in (("sum", "f8"), ("sum", "f4"), ("mean", "f4"), ("var", "f2"), ("sum", "i8"), ("sum", "u8")):
        if np.dtype(out).kind == "f" or np.dtype(dtype).kind != "f":
            got, want = getattr(dask.dask, op)(lazy, axis=0, dtype=out), getattr(dask, op)(x, axis=0, dtype=out)
            assert got.dtype == got.compute().dtype == want.dtype == out and np.array_equal(got.compute(), want), (op, out)
    for got, want in zip([*dask.dask.stats(lazy, axis=0, ddof=1), *dask.dask.minmax(lazy, axis=0)], [*dask.stats(x, axis=0, ddof=1), *dask.minmax(x, axis=0)]):
        assert got.dtype == got.compute().dtype == want.dtype and np.array_equal(got.compute(), want)
    whole = dask.dask.stats(lazy)
    assert [v.compute() for v in whole] == list(dask.stats(x))


@pytest.mark.unsanitized
def test_statistics_in_dask_of_sums_of_both_signs(dask):
    import dask.array as da
    x = np.array([[-5, 2], [3, 9], [-1, 0]])
    for axis, keepdims in ((0, False), (1, False), (1, True)):
        found, want = (f(y, axis, keepdims=keepdims) for f, y in ((dask.dask.stats, da.from_array(x, chunks=(3, 2))), (dask.stats, x)))
        assert [v.compute().tolist() for v in found] == [v.tolist() for v in want]


@pytest.mark.unsanitized
def test_masked_results_in_dask_are_those_without_elements(dask):
    """Where NaNs were omitted there were elements: of them alone a mean is NaN and a product 1, as of the whole array."""
    import dask.array as da
    x = np.ma.array([[np.nan, 1, 2], [np.nan, np.nan, 3], [5, 6, 7]], mask=[[0, 1, 0], [0, 0, 0], [1, 1, 1]])
    for op in ("mean", "sum", "prod", "var", "count_nonzero"):
        kw = {} if op == "count_nonzero" else {"nan": "omit"}
        for axis in (0, 1):
            got, want = getattr(dask.dask, op)(da.from_array(x, chunks=1, asarray=False), axis=axis, **kw).compute(), getattr(dask, op)(x, axis=axis, **kw)
            assert np.array_equal(np.ma.getmaskarray(got), np.ma.getmaskarray(want)), (op, axis)
            assert np.array_equal(np.ma.filled(got, 0), np.ma.filled(want, 0), equal_nan=True), (op, axis)
    for got, want in zip(dask.dask.stats(da.from_array(x, chunks=1, asarray=False), axis=1), dask.stats(x, axis=1)):
        assert type(got.compute()) is type(want) and np.array_equal(got.compute(), want, equal_nan=True)


@pytest.mark.unsanitized
def test_sums_in_dask_as_floats_are_rounded_once(dask):
    import dask.array as da
    x = np.array([2**62, 2**62, 2**62, 1])
    assert float(dask.dask.sum(da.from_array(x, chunks=1), dtype="f8").compute()) == float(3 * 2**62 + 1)
    with pytest.raises(TypeError, match="dtype"):
        dask.dask.sum(da.from_array(x * 0.5, chunks=1), dtype="i8")


@pytest.mark.unsanitized
def test_nans_and_masks_in_dask(dask):
    """Extremes of NaNs alone are NaN under their NumPy names; results of masked elements alone are masked."""
    import dask.array as da
    x = np.array([[np.nan, np.nan, np.nan], [1, np.nan, 2]])
    assert np.array_equal(dask.dask.nanmax(da.from_array(x, chunks=1), axis=1).compute(), [np.nan, 2], equal_nan=True)
    with pytest.raises(dask.EmptyError):
        dask.dask.max(da.from_array(x, chunks=1), axis=1, nan="omit").compute()
    m = np.ma.array([[5, 6, 7], [-1, 2, 3]], mask=[[1, 1, 1], [0, 1, 0]])
    for op in ("sum", "min", "max", "mean"):
        for chunks in (1, 2, 3):
            found = getattr(dask.dask, op)(da.from_array(m, chunks=chunks, asarray=False), axis=1).compute()
            assert isinstance(found, np.ma.MaskedArray) and found.tolist() == getattr(dask, op)(m, axis=1).tolist(), (op, chunks)
        assert getattr(dask.dask, op)(da.from_array(m, chunks=1, asarray=False)).compute() == getattr(dask, op)(m)
    empty = np.ma.MaskedArray(np.ones((0, 2)))  # nothing to choose from is an error all the same
    for op in ("min", "argmax"):
        for call, of in ((getattr(dask, op), empty), (getattr(dask.dask, op), da.from_array(empty, chunks=1, asarray=False))):
            with pytest.raises(dask.EmptyError):
                np.asarray(call(of, axis=0))


@pytest.mark.unsanitized
def test_chunks_of_no_elements(dask):
    import dask.array as da
    x = np.arange(12.0).reshape(3, 4)
    for axis in (None, 0, 1):
        found = dask.dask.sum(da.from_array(x, chunks=((0, 2, 0, 1), (4, 0))), axis=axis).compute()
        assert np.array_equal(found, x.sum(axis)) and type(found) is type(x.sum(axis))
    total = dask.dask.sum(da.from_array(x > 3, chunks=2))
    assert total.dtype == total.compute().dtype == np.sum(x > 3).dtype and total.compute() == 8
    one = x[:, :1]
    assert dask.dask.dot(da.from_array(one, chunks=((2, 1), (0, 1))), da.from_array([3.0], chunks=((1, 0),))).compute().tolist() == [0, 12, 24]
    assert dask.dask.average(da.from_array(one, chunks=1), 1, da.from_array([3.0], chunks=((0, 1),))).compute().tolist() == [0, 4, 8]
    nothing = dask.dask.cov(da.from_array(x[:0], chunks=((0,), (1, 3))))
    assert nothing.shape == nothing.compute().shape == (0, 0)


@pytest.mark.unsanitized
def test_places_in_dask_that_are_not_there(dask):
    import dask.array as da
    with pytest.raises(dask.EmptyError):
        dask.dask.argmax(da.from_array(np.full((4, 2), np.nan), chunks=1), axis=0, nan="omit").compute()
    with pytest.raises(dask.NanError):
        dask.dask.argmin(da.from_array(np.array([1, np.nan]), chunks=1), nan="raise").compute()
    x = da.from_array(np.arange(8.0), chunks=3)
    unknown = x[x > 2]
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        dask.dask.argmax(unknown)
    assert int(dask.dask.argmax(unknown.compute_chunk_sizes()).compute()) == 4


@pytest.mark.unsanitized
def test_xarray(dask):
    xarray = pytest.importorskip("xarray", reason="no xarray")
    import dask.array as da
    x = np.random.default_rng(1).standard_normal((30, 4)) * 10.0 ** np.arange(4)
    plain, lazy = (xarray.DataArray(v, dims=("time", "x")) for v in (x, da.from_array(x, chunks=7)))
    for dim in ("time", "x", None):
        assert (plain.reduce(dask.sum, dim=dim) == lazy.reduce(dask.dask.sum, dim=dim).compute()).all()
        assert (lazy.reduce(dask.dask.argmax, dim=dim).compute() == plain.reduce(np.argmax, dim=dim)).all()
    assert lazy.reduce(dask.dask.argmin, dim=("time", "x")).compute() == plain.data.argmin()
    assert [float(v) for v in lazy.reduce(dask.dask.sum, dim="time")] == [dask.sum(list(column)) for column in x.T]


@pytest.mark.unsanitized
def test_dask_tells_of_errors(dask):
    import dask.array as da
    with pytest.raises(OverflowError):
        dask.dask.sum(da.from_array(np.full(4, 2**62), chunks=1)).compute()
    with pytest.raises(dask.NanError):
        dask.dask.sum(da.from_array(np.array([1, np.nan]), chunks=1), nan="raise").compute()


# ---- torch.distributed ----
TORCH = ROOT / "client" / "examples" / "training_torch.py"


@pytest.mark.unsanitized
def test_torch_distributed_by_words(scratch):
    """Gloo: loss, gradient norm and accuracy, the same for any number of ranks and any cut of the batch."""
    if subprocess.run([sys.executable, "-c", "import torch.distributed as d; exit(not d.is_gloo_available())"], capture_output=True).returncode:
        pytest.skip("no torch with Gloo")
    lines = set()
    for ranks in (1, 3):
        env = {**python_env(), "LD_LIBRARY_PATH": str(LIB), "OMP_NUM_THREADS": "1"}
        done = subprocess.run([sys.executable, TORCH, "--ranks", str(ranks), "--store", scratch / f"store{ranks}"], capture_output=True, text=True, env=env,
                              timeout=120)
        assert done.returncode == 0, done.stderr
        lines.add(done.stdout)
    assert len(lines) == 1 and "loss" in lines.pop()
