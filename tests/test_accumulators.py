"""libreduce's accumulators, and the engine by key: the same bits for any order, any batches and any tree of merges, which are those
of Python's integers. Elements are integers of very different sizes, so that windows overflow, move and are closed."""

import numpy as np
import pytest

from pythonpackage import package, reduced  # noqa: F401  # a fixture among them
from reduced._keys import Accumulators
from reduced._lib import check, lib
from reduced._resident_keys import Kept

SEED = 20261130
KINDS = "random", "equal", "sorted", "huge"


def keys_of(rng, kind, groups, n):
    k = rng.integers(0, groups, n)
    return {"random": k, "equal": np.full(n, groups - 1), "sorted": np.sort(k), "huge": np.where(rng.random(n) < 0.9, groups // 2, k)}[kind]


def values(rng, dtype, n):
    """Python's integers, and the same as floats: of 24 bits, most of nearly one size, some far from it, and zeros."""
    m = [int(i) for i in rng.integers(-2**24 + 1, 2**24, n)]
    far = np.where(rng.random(n) < 0.1, rng.integers(0, 80, n), rng.integers(30, 40, n)).tolist()
    x = [i << e if e % 7 else 0 for i, e in zip(m, far)]
    return x, np.array([float(i) for i in x], dtype)


def filled(rng, op, x, keys, groups, parts):
    """The parts of the elements in batches to as many accumulators, which are merged pair by pair."""
    all_of_them = [Accumulators(op, x.dtype, groups, "propagate") for _ in range(parts)]
    cuts = np.sort(rng.integers(0, len(x) + 1, 3 * parts)) if parts > 1 else []
    for batch in np.split(np.arange(len(x)), cuts):
        all_of_them[int(rng.integers(parts))].add(np.ascontiguousarray(keys[batch]), np.ascontiguousarray(x[batch]), None, 0)
    while len(all_of_them) > 1:
        rng.shuffle(all_of_them)
        with all_of_them.pop() as one:
            check(lib().reduce_accumulators_merge(all_of_them[0]._a, one._a))
    return all_of_them[0]


def expected(op, x, keys, groups):
    """By Python's integers, whose quotients are rounded once; None: the group has too few elements."""
    count, first, second = [0] * groups, [0] * groups, [0] * groups
    for i, k in zip(x, keys.tolist()):
        count[k] += 1
        first[k] += i
        second[k] += i * i
    if op == "sum":
        return [float(s) for s in first]
    if op == "mean":
        return [s / n if n else None for s, n in zip(first, count)]
    return [(n * q - s * s) / (n * (n - 1)) if n > 1 else None for s, q, n in zip(first, second, count)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("groups", [1, 100, 129, 10_000])
def test_any_order_batches_and_merges_give_the_bits_of_integers(groups, kind):
    rng = np.random.default_rng([SEED, groups, KINDS.index(kind)])
    n = 6_000 if groups < 1000 else 15_000
    for dtype, op in ("f8", "sum"), ("f8", "var"), ("f4", "mean"), ("f4", "var"):
        exact, x = values(rng, dtype, n)
        keys, at = keys_of(rng, kind, groups, n).astype(rng.choice(["u2", "i8"])), rng.permutation(n)
        with filled(rng, op, x, keys, groups, 1) as a, filled(rng, op, x[at], keys[at], groups, 5) as b:
            found = a.finish(np.dtype("f8"), op == "var")
            assert b.finish(np.dtype("f8"), op == "var").tobytes() == found.tobytes()
            assert groups > 1000 or b.states().tobytes() == a.states().tobytes()
        wanted = expected(op, exact, keys, groups)
        assert [w for w in wanted if w is not None] == [f for f, w in zip(found.tolist(), wanted) if w is not None], (op, dtype)


def test_a_million_groups_in_any_order(package):  # noqa: F811
    """Accumulators, and the engine with resident data, beside sums of integers of 64 bits."""
    rng = np.random.default_rng(SEED)
    groups, n = 10**6, 1_200_000
    whole = rng.integers(-2**53, 2**53, n) >> rng.integers(0, 40, n)
    keys, at = keys_of(rng, "random", groups, n), rng.permutation(n)
    sums = np.zeros(groups, np.int64)
    np.add.at(sums, keys, whole)  # at most 2^10 in a group: they fit
    wanted = sums.astype("f8")
    x = whole.astype("f8")
    with filled(rng, "sum", x[at], keys[at], groups, 3) as a:
        assert (a.finish(np.dtype("f8"), 0) == wanted).all()
    for order in slice(None), at:
        kept = [package.put(name, np.ascontiguousarray(data[order]), replace=True) for name, data in (("x", x), ("keys", keys))]
        found = Kept("sum", kept[0], groups, "propagate", kept[1])
        assert (found.finish(np.dtype("f8"), 0) == wanted).all()
        kept[0].drop(), kept[1].drop()
