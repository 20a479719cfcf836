"""dot, vdot, average, cov, corrcoef and states of pairs in Python: NumPy's signatures, exact values."""
import importlib
import math
import pickle
import weakref
from fractions import Fraction as F

import numpy as np
import pytest

import pairs
from pythonpackage import both_ways as package, reduced  # noqa: F401

SEED = 20261128


def bits(a):
    return np.ascontiguousarray(a).reshape(-1).view(f"<u{a.itemsize}")


def exact(op, x, w, ddof=0):
    """The value by fractions, of arrays of f32 or f64."""
    kinds = {4: "f32", 8: "f64"}
    out = kinds[max(x.itemsize, w.itemsize)]
    word = pairs.value(op, kinds[x.itemsize], bits(x), bits(w), kinds[w.itemsize], out=out, ddof=ddof)
    return np.array(word, f"<u{max(x.itemsize, w.itemsize)}").view(f"<f{max(x.itemsize, w.itemsize)}")[()]


@pytest.mark.parametrize("x_type, w_type", [("f8", "f8"), ("f4", "f4"), ("f4", "f8")])
def test_average_along_every_axis(package, x_type, w_type):
    rng = np.random.default_rng(SEED)
    base = rng.standard_normal((4, 5, 6)).astype(x_type)
    for x in (base, np.asfortranarray(base), base[::-1, :, ::2], base.transpose(1, 2, 0)):
        full = rng.random(x.shape).astype(w_type)
        for axis in (None, 0, 1, 2, -1, (0, 1), (1, 2), (0, 2), (2, 0), (0, 1, 2)):
            axes = tuple(range(3)) if axis is None else tuple(a % 3 for a in (axis if isinstance(axis, tuple) else (axis,)))
            along = [full] if axis is None else [full, rng.random(tuple(x.shape[a] for a in axes)).astype(w_type)]
            for w in along:
                got = package.average(x, axis, w)
                aligned = w if w.shape == x.shape else np.broadcast_to(
                    w.transpose(np.argsort(axes)).reshape([n if i in axes else 1 for i, n in enumerate(x.shape)]), x.shape)
                kept = [i for i in range(3) if i not in axes]
                moved_x, moved_w = (np.ascontiguousarray(a.transpose(kept + sorted(axes))).reshape([x.shape[i] for i in kept] + [-1]) for a in (x, aligned))
                want = np.array([exact("wmean", moved_x[i], moved_w[i]) for i in np.ndindex(moved_x.shape[:-1])]).reshape(moved_x.shape[:-1])
                assert np.array_equal(got, want[()]), (axis, w.shape)
                assert np.asarray(got).dtype == want.dtype or not kept
        assert package.average(x, 1, full, keepdims=True).shape == (x.shape[0], 1, x.shape[2])


def test_dot_and_vdot(package):
    rng = np.random.default_rng(SEED)
    m, v = rng.standard_normal((7, 900)), rng.standard_normal(900)
    assert package.dot(m[0], v) == exact("dot", m[0], v)
    assert package.dot(m, v).tolist() == [exact("dot", row, v) for row in m]
    assert package.vdot(m, m) == exact("dot", m.ravel(), m.ravel())
    assert package.vdot(m, np.asfortranarray(m)) == exact("dot", m.ravel(), m.ravel())
    assert package.dot([1e16, 1, -1e16], [1, 2, 1]) == 2.0
    a = np.arange(-3, 4, dtype="i1")
    assert package.dot(a, a) == 28
    with pytest.raises(reduced.OverflowError_):
        package.dot(np.full(2, 2**62), np.array([4, 4]))
    assert package.dot(np.float32([1, 2]), np.float64([0.1, 0.2])) == exact("dot", np.float32([1, 2]), np.float64([0.1, 0.2]))
    assert type(package.dot(np.float32([1, 2]), np.float32([1, 2]))) is float
    out = np.empty(7)
    assert package.dot(m, v, out=out) is out and out[3] == exact("dot", m[3], v)
    assert package.dot(np.ma.masked_array([1.0, 5, 2], [0, 1, 0]), [1, 1, 1]) == 3
    assert package.dot([1, math.nan, 2], [1.0, 1, 1], nan="omit") == 3 and math.isnan(package.dot([1, math.nan], [1.0, 1]))
    assert package.dot([], []) == 0.0 and package.dot(3, 4) == 12
    for call, text in ((lambda: package.dot([1, 2], [1, 2, 3]), "not aligned"), (lambda: package.vdot([1, 2], [1, 2, 3]), "reshape"),
                       (lambda: package.average([1, 2], weights=[1, 2, 3], axis=0), "consistent with shape"), (lambda: package.dot([2**53 + 1], [0.5]), "cannot be")):
        with pytest.raises(ValueError, match=text):
            call()
    for call in (lambda: package.dot(m, m), lambda: package.dot([1j], [1]), lambda: package.average(m, weights=v), lambda: package.dot(np.array(["a"]), [1])):
        with pytest.raises(TypeError):
            call()


def test_pairs_like_earlier_ones_are_not_planned(package, monkeypatch):
    """Each result is that of its own elements, weights and mask, and none of them is kept."""
    module, again = (importlib.import_module(f"{package.__name__}.{name}") for name in ("_pairs", "_again"))
    made, recipe = [], module.PairsRecipe
    monkeypatch.setattr(module, "PairsRecipe", lambda *args: made.append(args[0]) or recipe(*args))
    rng = np.random.default_rng(SEED)
    calls = [(package.dot, (40,), (40,), {}, 1), (package.dot, (3, 40), (40,), {}, 1), (package.dot, (3, 40), (40,), {"out": lambda: np.empty(3)}, 1),
             (package.vdot, (3, 5), (3, 5), {}, 1), (package.average, (3, 5), (3, 5), {}, 1), (package.average, (3, 5), (3,), {"axis": 0}, 1),
             (package.average, (3, 5, 2), (2, 3), {"axis": (2, 0), "keepdims": True}, 1),
             (package.average, (3, 5), (3, 5), {"axis": 1, "where": lambda: rng.random((3, 5)) < 0.8}, 1), (package.cov, (2, 40), (40,), {}, 1)]
    for f, shape, weights, kw, most in calls:
        for view in (lambda a: a, np.asfortranarray, lambda a: np.repeat(a, 2, -1)[..., ::-2], lambda a: a.astype(">f8")):
            again._known.clear()
            made.clear()
            held = []
            for i in range(3):
                a, w = view(rng.integers(1, 9, shape) / 8), view(rng.integers(1, 9, weights) / 8)
                given = {k: v() if callable(v) else v for k, v in kw.items()}
                got = f(a, **given, weights=w) if f is package.average else f(a, w, **given)
                more = {k: v for k, v in given.items() if k not in ("where", "out")}
                if a.ndim == 3:  # for which older NumPys take no weights of two axes
                    every = np.broadcast_to(w.T[:, None, :], a.shape)
                    want = (a * every).sum((0, 2), keepdims=True) / every.sum((0, 2), keepdims=True)
                elif f is package.average:
                    want = np.average(a, weights=w * given["where"] if "where" in given else w, **more)
                else:
                    want = getattr(np, f.__name__)(a, w)
                assert np.allclose(got, want, 1e-14) and ("out" not in given or got is given["out"]), (f.__name__, kw)
                held += [weakref.ref(x) for x in (a, w, *given.values()) if isinstance(x, np.ndarray)]
            every = None
            del a, w, given, got
            assert len(made) <= (most if f is not package.cov else 3) and not [x for x in held if x() is not None], (f.__name__, shape, kw)


def test_what_is_wrong_with_later_pairs_is_seen(package):
    for _ in range(3):
        assert package.average([1.0, 2.0], weights=np.array([1.0, 1.0])) == package.average(np.array([1.0, 2.0]), weights=np.array([1.0, 1.0])) == 1.5
        with pytest.raises(ZeroDivisionError, match="Weights sum to zero"):
            package.average(np.array([1.0, 2.0]), weights=np.array([1.0, -1.0]))
        assert math.isinf(package.average(np.array([math.inf, 2.0]), weights=np.array([1.0, 1.0])))
        assert package.dot(np.array([2, 3]), np.array([4, 5])) == 23
        with pytest.raises(reduced.OverflowError_):
            package.dot(np.array([2**62, 2**62]), np.array([4, 4]))
        with pytest.raises(ValueError, match="such as 9007199254740993"):
            package.dot(np.array([2**53 + 1, 1]), np.array([0.5, 1]))
        assert package.dot(np.array([2**53, 1]), np.array([0.5, 1])) == 2.0**52 + 1
        with pytest.raises(ValueError, match="nan is propagate"):
            package.dot(np.array([1.0]), np.array([1.0]), nan="no")
        assert package.dot(np.zeros(0), np.zeros(0)) == 0 and package.dot(np.array([True, True]), np.array([True, False])) == 1


@pytest.mark.parametrize("x_type", ["?", "i1", "u2", "i4", "u8"])
@pytest.mark.parametrize("w_type", ["f2", "f4", "f8"])
def test_weighted_means_of_integers_are_doubles(package, x_type, w_type):
    """They had the type of the weights, as few digits as these have."""
    x, w = np.array([[1, 0, 1], [1, 1, 0]], x_type), np.array([0.5, 0.25, 0.75], w_type)
    got, total = package.average(x, axis=1, weights=w, returned=True)
    want, sums = np.average(x, axis=1, weights=w, returned=True)
    assert got.dtype == want.dtype == total.dtype == sums.dtype == np.float64 and got.tolist() == [1.25 / 1.5, 0.5] and total.tolist() == sums.tolist()
    assert package.average(x[0], weights=w) == 1.25 / 1.5


def test_average_as_numpy(package):
    x = np.arange(12.0).reshape(3, 4)
    w = np.array([1.0, 2, 3])
    assert package.average(x) == 5.5 and package.average(x, 0).tolist() == np.average(x, 0).tolist()
    got, total = package.average(x, 0, w, returned=True)
    assert got.tolist() == np.average(x, 0, w).tolist() and total.tolist() == [6.0] * 4
    assert package.average(x, returned=True) == (5.5, 12.0)
    assert package.average([1, 2, 4], weights=[3, 2, 1]) == 11 / 6
    for bad in ([1, -1, 0], [0, 0, 0]):
        with pytest.raises(ZeroDivisionError):
            package.average([1.0, 2, 3], weights=bad)
    assert package.average([math.inf, 2], weights=[0, 1], drop_zero_weights=True) == 2
    assert package.average([1.0, 9, 3], weights=[1, 1, 1], where=[True, False, True]) == 2
    assert package.average([1e308, 1e308], weights=[1.0, 1.0]) == 1e308


def test_weights_of_an_axis_that_are_nans(package):
    """The sum of the weights leaves out their NaNs along the axis of the weights, also where the array is square."""
    x, w = np.arange(9.0).reshape(3, 3), np.array([np.nan, 1, 2])
    got, total = package.average(x, 0, w, returned=True, nan="omit", keepdims=True)
    assert got.tolist() == [[5, 6, 7]] and total.tolist() == [[3, 3, 3]]
    for weights in ([1.0, -1, 0], [np.nan] * 3):
        with pytest.raises(ZeroDivisionError):
            package.average(x[:, :2], 0, weights, nan="omit")


def test_what_a_mask_hides(package):
    """A row of masked pairs alone has a masked result, as in numpy.ma; the others have their own."""
    x = np.ma.masked_array([[1.0, 2], [3, 4]], [[True, True], [False, False]])
    assert package.average(x, 1, [1, 2]).tolist() == [None, 11 / 3] and package.average(x[0], weights=[1, 2]) is np.ma.masked
    assert package.average(x, 1, [1, 2], returned=True, keepdims=True)[0].tolist() == [[None], [11 / 3]]
    assert package.dot(x, [1.0, 2]).tolist() == [None, 11] and package.vdot(x[0], [1.0, 2]) is np.ma.masked and package.vdot(x, x) == 25
    assert package.average(np.ma.masked_array(x.data), 1, [1, 2]).tolist() == [5 / 3, 11 / 3]
    with pytest.raises(ZeroDivisionError):
        package.average(x, 1, [1, -1])
    out = np.ma.zeros(2)
    assert package.dot(x, [1.0, 2], out=out) is out and out.tolist() == [None, 11]


def test_the_sum_of_integer_weights_is_a_float(package):
    """Where it has no 64 bits, too."""
    _, total = package.average([[1, 2]], 1, [[2**63 - 1, 2**63 - 1]], returned=True)
    assert total.dtype == float and total.tolist() == [2.0**64]
    with pytest.raises(ZeroDivisionError):
        package.average([[1, 2], [3, 4]], 1, [[2**63 - 1, 2**63 - 1], [0, 0]])


def frac(a):
    return [F(float(v)) for v in a]


def test_cov_and_corrcoef(package):
    rng = np.random.default_rng(SEED)
    m = rng.standard_normal((3, 50)) + np.array([[1e8], [0], [-5]])
    rows = [frac(r) for r in m]
    n = 50
    for ddof in (None, 0, 2):
        d = 1 if ddof is None else ddof
        want = [[float((n * sum(a * b for a, b in zip(x, y)) - sum(x) * sum(y)) / (n * (n - d))) for y in rows] for x in rows]
        assert package.cov(m, ddof=ddof).tolist() == want
    assert package.cov(m[0], m[1]).tolist() == package.cov(m[:2]).tolist() and package.cov(m.T, rowvar=False).tolist() == package.cov(m).tolist()
    assert package.cov(m[0]).shape == () and float(package.cov(m[0], bias=True)) == reduced.var(m[0])
    assert np.allclose(package.corrcoef(m), np.corrcoef(m), rtol=1e-6)
    r = package.corrcoef(m)
    assert (np.diag(r) == 1).all() and (r == r.T).all()
    x = np.array([0.1, 0.2, 0.3])
    assert package.corrcoef(x, -4 * x)[0, 1] == -1.0
    c = package.corrcoef([[1.0, 1, 1], [1, 2, 3]])
    assert math.isnan(c[0, 0]) and math.isnan(c[0, 1]) and c[1, 1] == 1
    assert package.cov([[1, 2, 3], [3, 2, 1]]).tolist() == [[1, -1], [-1, 1]]
    assert math.isnan(package.cov([1.0, math.inf])) and math.isnan(package.cov([1.0]))
    for dtype in ("f4", "i2", "f8"):  # two of them: one state has all sums
        a, b = (rng.standard_normal((2, n)) * 100).astype(dtype)
        x, y = frac(a), frac(b)
        assert package.cov(a, b)[0, 1] == float((n * sum(p * q for p, q in zip(x, y)) - sum(x) * sum(y)) / (n * (n - 1)))
        assert package.corrcoef(a, b)[0, 0] == 1 and package.corrcoef(a, b)[0, 1] == package.corrcoef([a, b, a])[0, 1]
    least = package.cov([[0.0, 5e-324], [0, -1]])
    assert (np.signbit(least) == np.signbit([[1, -1], [-1, 1]])).all()  # of -0.0, too
    c = package.cov([[1.0, 2, math.inf], [1, 2, 4]])
    assert math.isnan(c[0, 0]) and math.isnan(c[0, 1]) and c[1, 1] == float(F(7, 3))


def test_states_of_pairs(package):
    rng = np.random.default_rng(SEED)
    x, w = rng.standard_normal(1000), rng.random(1000)
    for op in pairs.OPS:
        s, t = reduced.State(op, "f8"), reduced.State(op, "f8")
        s.add(x[:300], w[:300])
        t += (x[300:], w[300:])
        s |= pickle.loads(pickle.dumps(t))
        assert bytes(s) == pairs.state(op, "f64", bits(x), bits(w)) and float(s) == exact(op, x, w, ddof=int(op == "cov")) and s.count == 1000
        assert bytes(reduced.State.from_words(op, "f8", s.words() + t.words())) == bytes(s | t)
    with pytest.raises(TypeError):
        reduced.State("dot", "f8").add(x)
    with pytest.raises(TypeError):
        reduced.State("sum", "f8").add(x, w)
    with pytest.raises(ValueError):
        reduced.State("dot", "f8").add(x, w[:3])


def test_streams_of_pairs(package):
    rng = np.random.default_rng(SEED)
    for x_type, w_type in (("f8", "f8"), ("f4", "f8"), ("i4", "i4")):
        x, w = (rng.standard_normal(300_000) * 100).astype(x_type), (rng.random(300_000) * 100).astype(w_type)
        where = rng.random(x.size) < 0.5
        for masked in (False, True):
            with reduced.stream("wmean", x_type, weights=w_type, masked=masked) as s:
                for i in range(0, x.size, 70_001):
                    piece = slice(i, i + 70_001)
                    s.append(x[piece], where[piece] if masked else None, weights=w[piece])
            keep = where if masked else slice(None)
            assert s.value == package.average(x[keep], weights=w[keep])
    with reduced.stream("dot", "f8") as s:
        s.append([1.0, 2, 3], weights=[1.0, 0, 2])
        s.append([2.0], weights=[0.5])
    assert s.value == 8
    for wrong in (lambda: reduced.stream("sum", "f8", weights="f8"), lambda: reduced.stream("dot", "f8").append([1.0]),
                  lambda: reduced.stream("sum", "f8").append([1.0], weights=[1.0])):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(ValueError):
        reduced.stream("dot", "f8").append([1.0], weights=[1.0, 2])
