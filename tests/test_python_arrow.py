"""Containers of the Arrow C data interface: missing values are left out by what they mean, whatever holds them, and integers stay integers."""
import ctypes
import fractions
import gc
import struct
import tracemalloc

import numpy as np
import pytest

import arrowmade
from arrowmade import Column, OnDevice, OneArray, Pieces, table
from pythonpackage import package  # noqa: F401
from reduced import _arrow, _device
from test_python_device import device  # noqa: F401

FORMS = {"c": "i1", "C": "u1", "s": "i2", "S": "u2", "i": "i4", "I": "u4", "l": "i8", "L": "u8", "e": "f2", "f": "f4", "g": "f8"}
ABOVE = 2**53 + 1  # is not a double


@pytest.fixture(autouse=True)
def all_released():
    """Whatever a test passed was released once."""
    yield
    gc.collect()
    assert not arrowmade.living and not arrowmade.structs


def numbers(form, n, seed=1):
    r = np.random.default_rng(seed)
    kind = np.dtype(FORMS[form])
    return r.standard_normal(n).astype(kind) if kind.kind == "f" else r.integers(np.iinfo(kind).min, np.iinfo(kind).max, n, kind, endpoint=True)


def as_stream(column, parts=3):
    """A stream of copies of a column."""
    return Pieces(column, lambda i: column if i < parts else None)


@pytest.mark.parametrize("form", FORMS)
def test_every_number_type_with_nulls(package, form):  # noqa: F811
    values, keep = numbers(form, 100), np.random.default_rng(2).random(100) < 0.7
    values = values // 4 if values.dtype.kind in "iu" else values
    for offset in (0, 3, 8, 13):
        given = OneArray(Column(values, form, keep, offset))
        for name in ("sum", "mean", "var", "min", "max", "argmin", "argmax", "norm", "ptp", "count_nonzero"):
            ours = getattr(package, name)
            if name == "sum" and values.dtype.itemsize == 8 and values.dtype.kind in "iu":
                assert ours(given, dtype=float) == float(fractions.Fraction(sum(int(x) for x in values[keep])))
                continue
            assert ours(given) == ours(values, where=keep), (name, offset)
        assert package.stats(OneArray(Column(values >> 8 if values.dtype.kind in "iu" else values, form, keep, offset))) == \
            package.stats(values >> 8 if values.dtype.kind in "iu" else values, where=keep)
        assert package.max(OneArray(Column(values, form))) == values.max()


def test_integers_with_nulls_are_exact(package):  # noqa: F811
    given = OneArray(Column(np.array([ABOVE, 5, 2]), "l", [1, 0, 1]))
    assert package.sum(given) == package.nansum(given) == ABOVE + 2 and package.max(given) == ABOVE
    assert package.argmax(given) == 0 and package.argmin(given) == 2 and package.stats(given).sum == ABOVE + 2
    assert package.sum(as_stream(given.column)) == 3 * (ABOVE + 2) and package.sum(given, where=[True, True, False]) == ABOVE
    assert package.sum(given, offsets=[0, 2, 3]).tolist() == [ABOVE, 2]


def test_a_nan_is_not_a_null(package):  # noqa: F811
    given = OneArray(Column(np.array([1.0, np.nan, 2, 8]), "g", [1, 1, 1, 0]))
    assert np.isnan(package.sum(given)) and package.nansum(given) == 3 and package.nanmax(given) == 2
    nans = OneArray(Column(np.array([np.nan, 5.0]), "g", [1, 0]))
    assert np.isnan(package.nanmin(nans)) and np.isnan(package.nanmax(as_stream(nans.column)))
    with pytest.raises(package.EmptyError):
        package.nanmin(OneArray(Column(np.array([1.0]), "g", [0])))


def test_bools_of_bits(package):  # noqa: F811
    bits, keep = np.random.default_rng(3).random((2, 77)) < 0.5
    for offset in (0, 5):
        given = OneArray(Column(bits, "b", keep, offset))
        assert package.sum(given) == np.sum(bits & keep) and package.mean(given) == bits[keep].mean()
        assert package.any(given) is True and package.all(given) is False and package.argmax(given) == np.flatnonzero(bits & keep)[0]
    assert package.any(OneArray(Column(np.array([False, True]), "b", [1, 0]))) is False
    assert package.all(OneArray(Column(np.array([False, True]), "b", [0, 1]))) is True


@pytest.mark.parametrize("form, dtype, stored", [("tsu:", "M8[us]", "i8"), ("tsn:UTC", "M8[ns]", "i8"), ("tdD", "M8[D]", "i4"), ("tdm", "M8[ms]", "i8"),
                                                 ("tDs", "m8[s]", "i8")])
def test_dates_and_spans_with_nulls(package, form, dtype, stored):  # noqa: F811
    values = np.array([7, 10**6, 3, -5], stored)
    given = OneArray(Column(values, form, [1, 0, 1, 1], 2))
    meant = values.astype("i8").view(dtype)
    assert package.max(given) == meant[0] and package.min(given) == meant[3] and package.ptp(given) == meant[0] - meant[3]
    assert package.max(given).dtype == meant.dtype and package.argmax(given) == 0
    if dtype[0] == "m":
        assert package.sum(given) == np.timedelta64(5, "s") and package.mean(given) == np.timedelta64(1, "s")


def test_tables(package):  # noqa: F811
    a, b = Column(np.array([ABOVE, 5, 2]), "l", [1, 0, 1], 1, "a"), Column(np.array([7, 8, 9]), "l", None, 3, "b")
    given = OneArray(table([a, b]))
    assert package.sum(given) == ABOVE + 26 and package.sum(given, axis=0).tolist() == [ABOVE + 2, 24]
    assert package.max(given, axis=1).tolist() == [ABOVE, 8, 9] and package.argmax(given) == 0 and package.argmin(given) == 4
    assert package.sum(OneArray(table([a, b], [1, 1, 0])), axis=0).tolist() == [ABOVE, 15]  # a row that is null
    assert package.sum(as_stream(table([a, b])), axis=0).tolist() == [3 * (ABOVE + 2), 72]
    assert package.sum(OneArray(table([Column(np.array([1, 2]), "l"), Column(np.array([0.5, 1]), "g")])), axis=0).tolist() == [3, 1.5]


def test_dates_of_other_units_are_the_same_dates(package):  # noqa: F811
    """Beyond 64 bits of the finest unit of the columns they were others."""
    for far, near in (("tss:", "tsn:"), ("tDs", "tDn")):
        seconds = OneArray(table([Column(np.array([2**33, 1]), far), Column(np.array([5, 6]), near)]))
        assert package.max(seconds, axis=0).view("i8").tolist() == [2**33 * 10**9, 6]
        beyond = Column(np.array([2**40, 1]), far)
        with pytest.raises(TypeError, match=r"a: its columns have no common type: .* is not one of .*64\[ns\]"):
            package.max(OneArray(table([beyond, Column(np.array([5, 6]), near)])), axis=0)
        missing = Column(np.array([2**40, 1]), far, np.array([False, True]))
        assert package.max(OneArray(table([missing, Column(np.array([5, 6]), near)])), axis=0).view("i8").tolist() == [10**9, 6]
        with pytest.raises(ValueError, match="chunk: it has numbers that .*ns.* cannot be"), package.stream("max", "M8[ns]" if far == "tss:" else "m8[ns]") as s:
            s.append(OneArray(beyond))


def test_tables_whose_columns_have_no_common_type(package):  # noqa: F811
    whole, half = Column(np.array([ABOVE, 2]), "l"), Column(np.array([0.5, 1]), "g")
    for other, text in ((half, "9007199254740993"), (Column(np.array([1, 2], "u8"), "L"), "int64 and uint64"),
                        (Column(np.array([1, 2]), "tsu:"), "no common type"), (Column(np.array([1, 2]), "tDs"), "no common type")):
        with pytest.raises(TypeError, match=text):
            package.sum(OneArray(table([whole, other])))
    null = Column(np.array([ABOVE, 2]), "l", [0, 1])
    assert package.sum(OneArray(table([null, half]))) == 3.5  # the value that no double has is not an element


def test_dictionaries_and_nothing_but_nulls(package):  # noqa: F811
    words = Column(np.array([ABOVE, 10, 20]), "l", [1, 1, 0])
    given = OneArray(Column(np.array([0, 1, 2, 100, 0], "i1"), "c", [1, 1, 1, 0, 1], 2, words=words))
    assert package.sum(given) == 2 * ABOVE + 10 and package.argmin(given) == 1
    nulls = OneArray(Column(np.empty(4), "n"))
    assert package.sum(nulls) == 0 and package.count_nonzero(nulls) == 0
    with pytest.raises(package.EmptyError):
        package.max(nulls)


def metadata(name):
    text = b"ARROW:extension:name"
    return ctypes.create_string_buffer(struct.pack("<ii", 1, len(text)) + text + struct.pack("<i", len(name)) + name + struct.pack("<i", 0))


def test_extension_types_mean_more_than_their_storage(package):  # noqa: F811
    assert package.sum(OneArray(Column(np.array([0, 5, -1, 1], "i1"), "c", [1, 1, 1, 0], metadata=metadata(b"arrow.bool8")))) == 2
    with pytest.raises(TypeError, match="column 'x' of Arrow's extension type geo.point"):
        package.sum(OneArray(Column(np.array([1]), "l", metadata=metadata(b"geo.point"))))


@pytest.mark.parametrize("form, text", [("u", "text"), ("vu", "text"), ("d:10,2", "decimals"), ("+l", "lists"), ("+w:2", "lists"), ("ttu", "times of day"),
                                        ("tiM", "intervals"), ("w:16", "bytes"), ("?", "Arrow's type")])
def test_what_is_not_a_number_is_named(package, form, text):  # noqa: F811
    for given in (OneArray(Column(np.array([1]), form)), as_stream(Column(np.array([1]), form)), OneArray(table([Column(np.array([1]), form)]))):
        with pytest.raises(TypeError, match=f"^a: column 'x' of {text}"):
            package.sum(given)
        with pytest.raises(TypeError, match=text):
            package.state("sum", given)


def test_states_and_streams_leave_nulls_out(package):  # noqa: F811
    given = OneArray(Column(np.array([ABOVE, 5, 2]), "l", [1, 0, 1]))
    assert int(package.state("sum", given)) == ABOVE + 2 and int(package.state("argmin", given)) == 2
    s = package.state("argmax", dtype="i8")
    s += given
    s += OneArray(Column(np.array([1, 2**60]), "l", [1, 1]))
    assert int(s) == 4 and s.count == 5
    many = Column(np.arange(10_000), "l", np.arange(10_000) % 7 != 0)
    assert int(package.state("argmax", OneArray(many))) == 9_998 + (9_999 % 7 != 0) and int(package.state("sum", OneArray(many))) == \
        sum(i for i in range(10_000) if i % 7)
    for masked in (False, True):
        with package.stream("sum", "i8", masked=masked) as one:
            one.append(given)
            one.append(as_stream(given.column))
        assert one.value == 4 * (ABOVE + 2)
    with package.stream("argmin", "i8", masked=True) as one:
        one.append(given)
        one.append(given, where=[True, True, False])
    assert one.value == 2
    with pytest.raises(TypeError, match="masked=True"), package.stream("argmin", "i8") as one:
        one.append(given)
    with pytest.raises(TypeError, match="float64 where int64"):
        package.state("sum", dtype="i8").add(OneArray(Column(np.array([1.5]), "g")))
    with pytest.raises(ValueError, match="9007199254740993"):
        package.state("sum", dtype="f8").add(given)


def test_streams_are_read_in_bounded_memory(package, monkeypatch):  # noqa: F811
    """Here a stream of 60 MB, of which 2 MB may be kept."""
    monkeypatch.setattr(_arrow, "GATHERED", 2 << 20)
    n, parts, base = 1 << 17, 60, 2**38 + 1
    keep = np.arange(n) % 3 > 0

    def make(i):
        return Column(np.arange(n) + base + i, "l", keep) if i < parts else None
    one, each = np.arange(n)[keep], int(keep.sum())
    total = sum(int(one.sum()) + each * (base + i) for i in range(parts))
    tracemalloc.start()
    assert package.sum(Pieces(make(0), make)) == total
    assert tracemalloc.get_traced_memory()[1] < 20 << 20
    tracemalloc.stop()
    assert package.argmax(Pieces(make(0), make)) == parts * n - 1 and package.argmin(Pieces(make(0), make)) == 1
    stats = package.stats(Pieces(make(0), make))
    assert stats.count == parts * each and stats.sum == total and stats.argmin == 1
    assert package.mean(Pieces(make(0), make), keepdims=True).shape == (1,)
    assert package.var(Pieces(make(0), make), ddof=0.5) > 0
    assert int(package.state("sum", Pieces(make(0), make))) == total
    assert package.submit("sum", Pieces(make(0), make)).result() == total
    assert package.sum(Pieces(make(0), make), dtype=float) == float(total)
    for kw in ({"where": True}, {"axis": 0}, {"initial": 0}):
        assert package.sum(Pieces(make(0), make), **kw) == total
    assert package.sum(Pieces(make(0), make), offsets=[0, n]).tolist() == [int(one.sum()) + each * base]


def test_long_streams_of_other_types(package, monkeypatch):  # noqa: F811
    monkeypatch.setattr(_arrow, "GATHERED", 0)
    bits, values, dates = Column(np.array([True, False, True]), "b", [1, 1, 0]), Column(np.array([0.1, np.nan]), "g", [1, 0]), Column(np.array([5, 7]), "tsu:", [1, 0])
    assert package.sum(as_stream(bits)) == 3 and package.max(as_stream(bits)) is True and package.sum(as_stream(values, 10)) == 1.0
    assert package.max(as_stream(dates)) == np.datetime64(5, "us") and package.mean(as_stream(Column(np.array([4, 6]), "tDs"))) == np.timedelta64(5, "s")
    assert np.isnan(package.nanmax(as_stream(Column(np.array([np.nan]), "g"))))
    both = table([Column(np.array([1, 9]), "l", [1, 0]), Column(np.array([3, 4]), "l")])
    assert package.sum(as_stream(both)) == 24 and package.argmax(as_stream(both)) == 3 and package.sum(as_stream(both), axis=0).tolist() == [3, 21]


@pytest.mark.parametrize("form,dtype", [("l", "i8"), ("g", "f8"), ("f", "f4")])
def test_columns_of_long_tables(package, monkeypatch, form, dtype):  # noqa: F811
    """Piece by piece they give what the whole table gives."""
    r, n, parts = np.random.default_rng(4), 50, 7
    values = (r.standard_normal((parts, 3, n)) * 2.0 ** r.integers(0, 50, (parts, 3, n))).astype(dtype)
    keep = r.random((parts, 3, n)) > 0.3
    if dtype != "i8":
        values[2, 1, 5] = np.nan

    def make(i):
        return table([Column(v, form, k) for v, k in zip(values[i], keep[i])]) if i < parts else None

    for op, kw in (("sum", {}), ("mean", {}), ("var", {"ddof": 1}), ("std", {"ddof": 0.5}), ("min", {}), ("argmax", {}), ("minmax", {}), ("stats", {}), ("count_nonzero", {}),
                   ("norm", {"ord": 1}), ("sum", {"dtype": float}), ("max", {"nan": "omit"}), ("sum", {"keepdims": True}), ("mean", {"axis": -2}), ("nanmin", {})):
        f, kw = getattr(package, op), {"axis": 0, **kw}
        monkeypatch.setattr(_arrow, "GATHERED", 64 << 20)
        want = f(Pieces(make(0), make), **kw)
        monkeypatch.setattr(_arrow, "GATHERED", 0)
        monkeypatch.setattr(_arrow, "SENT", 1000)
        got = f(Pieces(make(0), make), **kw)
        assert repr(got) == repr(want), (op, kw)
    assert package.submit("sum", Pieces(make(0), make), axis=0).result(60).tobytes() == package.sum(Pieces(make(0), make), axis=0).tobytes()
    keep[:, 1] = False
    with pytest.raises(package.EmptyError) as e:
        package.max(Pieces(make(0), make), axis=0)
    assert e.value.index == 1


def test_columns_of_long_tables_take_little_memory(package, monkeypatch):  # noqa: F811
    monkeypatch.setattr(_arrow, "GATHERED", 2 << 20)
    n, parts = 1 << 16, 100

    def make(i):
        return table([Column(np.arange(n) + i, "l"), Column(np.full(n, 0.5), "g")]) if i < parts else None
    tracemalloc.start()
    assert package.sum(Pieces(make(0), make), axis=0).tolist() == [sum(n * (n - 1) / 2 + n * i for i in range(parts)), n * parts / 2]
    assert tracemalloc.get_traced_memory()[1] < 20 << 20  # of 100 MB
    tracemalloc.stop()


def test_a_stream_is_read_once(package):  # noqa: F811
    for name in ("sum", "nanmin", "stats", "minmax"):
        given = as_stream(Column(np.array([1.0, 5]), "g"))
        getattr(package, name)(given)
        assert given.asked == 1


def containers(values, keep):
    """The same elements, of which some are missing, in fresh containers: (name, container)."""
    column = Column(values, "g" if values.dtype.kind == "f" else "l", keep)
    yield "array", OneArray(column)
    yield "stream", Pieces(column, lambda i: column if i < 1 else None)
    yield "masked", np.ma.array(values, mask=~keep)


@pytest.mark.parametrize("values", [np.array([50, 3, -900, 9, 1, 7, 3]), np.array([50.5, 3, -900, 9, np.nan, 7, 3])], ids=["integers", "with a NaN"])
def test_every_operation_leaves_nulls_out(package, values):  # noqa: F811
    """Order statistics, pairs and keys, too, wherever the lowest and the highest element is missing: as of the elements that count."""
    keep = np.array([False, True, False, True, True, True, True])
    there, place = values[keep], np.flatnonzero(keep)
    weights, keys = np.array([1.0, 2, 4, 8, 16, 32, 64]), np.array([3, 2, 2, 2, 2, 3, 3])
    floats = values.dtype.kind == "f"
    calls = {
        "median": lambda a, w, k, nan: package.median(a, nan=nan),
        "quantile": lambda a, w, k, nan: package.quantile(a, [0, 0.4, 1], nan=nan),
        "histogram": lambda a, w, k, nan: package.histogram(a, [0, 5, 10], nan=nan),
        "average": lambda a, w, k, nan: package.average(a, weights=w, nan=nan),
        "average and its weight": lambda a, w, k, nan: package.average(a, weights=w, nan=nan, returned=True),
        "mean and its count": lambda a, w, k, nan: package.average(a, nan=nan, returned=True),
        "dot": lambda a, w, k, nan: package.dot(a, w, nan=nan),
        "by key": lambda a, w, k, nan: package.by_key(k, a, nan=nan),
        **({"bins": lambda a, w, k, nan: package.histogram(a, 3, nan=nan), "bins of a rule": lambda a, w, k, nan: package.histogram(a, "sturges", nan=nan),
            "histogram of a part": lambda a, w, k, nan: package.histogram(a, 3, nan=nan)} if not floats else {})}
    for nan in ("omit", "propagate") if floats else ("propagate",):
        for name, call in calls.items():
            want = call(there, weights[keep], keys[keep], nan)
            for container, a in containers(values, keep):
                assert repr(call(a, weights, keys, nan)).replace("masked_array", "array") == repr(want), (name, container, nan)
        for container, a in containers(values, keep):
            first = package.topk(there, 3, nan=nan)
            got = package.topk(a, 3, nan=nan)
            assert np.array_equal(got.values, first.values, equal_nan=True) and np.array_equal(got.indices, place[first.indices]), (container, nan)
        for k in (0, 2, -1):
            first = package.kth(there, k, nan=nan, index=True)
            for container, a in containers(values, keep):
                got = package.kth(a, k, nan=nan, index=True)
                assert (repr(got.value), got.index) == (repr(first.value), place[first.index]), (container, nan, k)
    # the sum of the weights is that of the elements that count, by numpy.ma, too
    masked = np.ma.array([[1.0, 2, 3], [4, 5, 6]], mask=[[0, 1, 0], [0, 0, 0]])
    for axis in (None, 0, 1):
        for w in (None, np.array([[1.0, 2, 4], [8, 16, 32]])):
            want = np.ma.average(masked, axis, w, returned=True)
            assert all(np.array_equal(x, y) for x, y in zip(package.average(masked, axis, w, returned=True), want)), (axis, w)
    assert package.average([1.0, 2, 3], returned=True, where=[True, False, True]) == (2, 2)


class Listed(OneArray):
    """As those of pyarrow, it makes NaNs of nulls for NumPy."""

    def __init__(self, values, keep=None):
        super().__init__(Column(values, "l", keep))
        self.values = values if keep is None else np.where(keep, values, np.nan)

    def __array__(self, *_, **__):
        return self.values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, i):
        return self.values[i]


def test_lists_of_containers_have_their_missing_values(package):  # noqa: F811
    """NumPy would take the masked elements as elements, and make floats of integers beside nulls."""
    values = np.array([ABOVE, 7])
    full = np.ma.array(values)
    assert package.sum([Listed(values), [1, 2]]) == ABOVE + 10 and package.sum([[full, full]]) == 2 * (ABOVE + 7)
    for missing in (Listed(values, [1, 0]), np.ma.array([ABOVE, 7], mask=[0, 1])):
        for a in ([missing], [[1, 2], missing], ([missing],)):
            for f in (package.nansum, package.max, package.stats):
                with pytest.raises(TypeError, match="with missing values"):
                    f(a)
    with pytest.raises(TypeError, match="beside floats"):
        package.sum([Listed(values), [0.5, 1.5]])


def one_read(values):
    """A stream that can be read once."""
    column = Column(np.asarray(values), "l")
    return Pieces(column, lambda i: column if i < 1 else None)


def test_what_is_masked_is_no_key(package):  # noqa: F811
    """Whatever number stands there, which may be large, or below 0."""
    for hidden in (9, -9, 2**40):
        keys = np.ma.array([0, 1, hidden], mask=[0, 0, 1])
        assert package.bincount(keys).tolist() == [1, 1] and package.bincount(keys, [2, 3, 4.0]).tolist() == [2, 3]
        assert package.bincount(keys, minlength=3).tolist() == [1, 1, 0] and package.by_key(keys, [2, 3, 4])[1].tolist() == [2, 3]
        assert package.segment_sum([2, 3, 4], keys).tolist() == [2, 3] and package.segment_sum([[2], [3], [4]], keys, 1).tolist() == [[2]]
    nothing = np.ma.array([5, -6], mask=True)
    assert package.bincount(nothing).tolist() == package.segment_sum([1, 2], nothing).tolist() == []
    with pytest.raises(ValueError, match="below 0, -3"):
        package.bincount(np.ma.array([-7, -3], mask=[1, 0]))


def test_streams_of_keys_and_ranks_are_read_once(package):  # noqa: F811
    assert package.bincount(one_read([0, 1, 1])).tolist() == [1, 2] and package.bincount([0, 1, 1], one_read([1, 2, 4])).tolist() == [1, 6]
    assert package.segment_sum(one_read([1, 2, 4]), [0, 1, 1]).ravel().tolist() == [1, 6]
    assert package.by_key([5, 5, 6], one_read([1, 2, 4]), where=np.array([True, False, True]))[1].tolist() == [1, 4]
    assert package.topk(one_read([1, 7, 4]), 2, None).indices.ravel().tolist() == [1, 2]
    assert package.quantile(one_read([1, 7, 4]), [0.5] * 10000).tolist() == [4] * 10000


def test_masks_are_bools_of_the_elements_shape(package):  # noqa: F811
    """Nulls and numbers are not made bools, by keys and by averages, either."""
    null = OneArray(Column(np.array([True, True, False]), "b", [1, 0, 1]))
    calls = [lambda where: package.by_key([1, 1, 2], [1, 2, 4], where=where), lambda where: package.average([1, 2, 4], weights=[1, 1, 1], where=where),
             lambda where: package.sum([1, 2, 4], where=where), lambda where: package.topk([1, 2, 4], 1, where=where)]
    for call in calls:
        for kind, match, where in ((ValueError, "missing values", null), (TypeError, "array of bool", np.array([2, 0, 1])), (ValueError, "its shape", np.ones(2, bool))):
            with pytest.raises(kind, match=match):
                call(where)


def test_dates_of_pandas_that_are_missing_are_no_keys(package):  # noqa: F811
    pandas = pytest.importorskip("pandas")
    keys = pandas.Series(pandas.to_datetime(["2020-01-01", None, "2020-01-01"]).tz_localize("UTC"))
    found, sums = package.by_key(keys, [1, 2, 4])
    assert len(found) == 1 and sums.tolist() == [5]


def test_streams_that_fail(package, monkeypatch):  # noqa: F811
    def make(i):
        if i == 2:
            raise ValueError("the disk is gone")
        return Column(np.array([1, 2]), "l")
    for gathered in (0, 1 << 20):
        monkeypatch.setattr(_arrow, "GATHERED", gathered)
        with pytest.raises(RuntimeError, match="a: the disk is gone"):
            package.sum(Pieces(make(0), make))
    assert package.sum(Pieces(make(0), lambda i: None)) == 0
    with pytest.raises(TypeError, match="without columns"):
        package.sum(as_stream(Column(np.empty(1), "+s")))


def there(fake, a):
    """The address of a copy in memory of the fake device."""
    allocation = fake.make(4096)
    allocation.array[:a.nbytes] = a.view(np.uint8)
    return allocation.base


@pytest.mark.parametrize("table_of", [0, 1, 2])
def test_arrays_on_a_gpu(device, package, monkeypatch, table_of):  # noqa: F811
    """Elements are reduced there; only the mask and bools come to the host."""
    copied, waited = [], []

    def copy(to, pointer, nbytes, mask, size, stream):
        copied.append(nbytes)
        ctypes.memmove(to, pointer, nbytes)
        ctypes.memmove(to + nbytes, mask, size - nbytes)
    monkeypatch.setattr(device, "copy", copy)
    monkeypatch.setattr(device, "within", lambda pointer, name, event: waited.append((name, event.value)))
    monkeypatch.setattr(_device, "LEAST_JOINED", 0)

    def column(values, form, keep=None):
        made = Column(values, form, keep)
        made.buffers = [None if b is None else there(device, b) for b in made.buffers]
        return made

    def given(*a, **kw):
        return OnDevice(table([column(*a)] * table_of) if table_of else column(*a), **kw)
    event, times = ctypes.c_void_p(1234), max(1, table_of)
    values = np.arange(20.0)
    assert package.sum(given(values, "g", event=event)) == 190 * times
    assert waited == [("cuEventSynchronize", 1234)] and (table_of or not copied)
    assert package.sum(given(values, "g", values > 3)) == 184 * times and package.max(given(values, "g", values < 3)) == 2
    assert package.sum(given(values > 3, "b", values < 9)) == 5 * times
    assert package.max(given(np.array([3, 9]), "tsu:", [1, 0])) == np.datetime64(3, "us")
    with pytest.raises(TypeError, match="device 10"):
        package.sum(given(values, "g", device_type=10))


# ---- what other libraries make of it ----

def test_pandas(package):  # noqa: F811
    pd = pytest.importorskip("pandas", reason="needs pandas")
    a = pd.Series([ABOVE, None, 2], dtype="Int64")
    assert package.sum(a) == ABOVE + 2 and int(package.state("sum", a)) == ABOVE + 2 and package.sum(pd.Series([True, None], dtype="boolean")) == 1
    with package.stream("sum", "i8") as s:
        s.append(a)
    assert s.value == ABOVE + 2
    frame = pd.DataFrame({"a": a, "b": [1, 2, 3]})
    assert package.sum(frame, axis=0).tolist() == [ABOVE + 2, 6] and package.sum(frame) == ABOVE + 8
    with pytest.raises(TypeError, match="9007199254740993"):
        package.sum(pd.DataFrame({"a": [ABOVE, 2], "b": [0.5, 1]}))
    assert package.max(pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02"]).tz_localize("UTC"))) == np.datetime64("2020-01-02")
    assert package.sum(pd.DataFrame({"a": [1.0, 2], "b": [3.0, 4]}), axis=0).tolist() == [3, 7]


def test_pandas_on_arrow(package):  # noqa: F811
    pd = pytest.importorskip("pandas", reason="needs pandas")
    pytest.importorskip("pyarrow", minversion="14", reason="needs pyarrow 14")
    a = pd.Series([ABOVE, None, 2], dtype="int64[pyarrow]")
    assert package.sum(a) == ABOVE + 2 and package.argmax(a) == 0 and int(package.state("sum", a)) == ABOVE + 2
    assert package.sum(pd.DataFrame({"a": a, "b": a}), axis=0).tolist() == [ABOVE + 2] * 2


def test_pyarrow(package):  # noqa: F811
    pa = pytest.importorskip("pyarrow", minversion="14", reason="needs pyarrow 14")
    a = pa.array([ABOVE, None, 2])
    t = pa.table({"x": a, "y": pa.array([1, 2, None])})
    for given in (a, pa.chunked_array([a.slice(0, 2), a.slice(2)]), a.dictionary_encode()):
        assert package.sum(given) == package.nansum(given) == ABOVE + 2 and package.argmax(given) == 0
    for given in (t, t.to_batches()[0], t.to_reader()):
        assert package.sum(given, axis=0).tolist() == [ABOVE + 2, 3]
    assert package.sum(pa.array([True, None, True]).slice(1)) == 1


def test_polars(package):  # noqa: F811
    pl = pytest.importorskip("polars", reason="needs Polars")
    a = pl.Series([ABOVE, None, 2])
    assert package.sum(a) == ABOVE + 2 and package.argmax(a) == 0 and package.sum(pl.Series([True, None])) == 1
    assert package.sum(pl.DataFrame({"a": a, "b": [1, 2, None]}), axis=0).tolist() == [ABOVE + 2, 3]
    assert package.sum(pl.LazyFrame({"a": a})) == ABOVE + 2 and package.sum(pl.LazyFrame({"a": a}).filter(pl.col("a") < 0)) == 0
    assert package.max(pl.Series([1, None, 3]).cast(pl.Datetime("ms"))) == np.datetime64(3, "ms")


def test_duckdb(package, tmp_path):  # noqa: F811
    duckdb = pytest.importorskip("duckdb", reason="needs DuckDB")
    path = tmp_path / "f.parquet"
    duckdb.sql(f"copy (select case when range % 3 > 0 then range + {ABOVE} end as x from range(1000)) to '{path}'")
    expected = sum(i + ABOVE for i in range(1000) if i % 3)
    assert package.sum(duckdb.sql(f"select x from '{path}'")) == expected
    assert package.argmax(duckdb.sql(f"select x from '{path}'")) == 998


def test_xarray(package):  # noqa: F811
    """Later versions offer a long table by this interface; the array is meant."""
    xarray = pytest.importorskip("xarray", reason="needs xarray")
    a = np.arange(6.0).reshape(2, 3)
    given = xarray.DataArray(a, dims=("y", "x"))
    assert package.sum(given, axis=0).tolist() == [3, 5, 7] and package.argmax(given, axis=1).tolist() == [2, 2]
