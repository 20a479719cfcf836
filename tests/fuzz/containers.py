#!/usr/bin/env python3
"""Differential fuzzer of the Python package: the same elements in every container that is installed, with their missing values, along any
axis and on several ways, against tests/oracle.py, which computes in exact integers. Bits must be equal, and errors the same.

    tests/fuzz/containers.py [--minutes 10] [--seed N] [--turns N]

It needs the programs of $REDUCED_BIN_DIR (build/cpu/bin) and prints a count for each container. A difference is printed with its turn,
which --seed N --turns 1 repeats. tests/test_python_containers.py runs some turns in the gate."""
import argparse
import collections
import math
import pathlib
import struct
import sys
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import arrowmade  # noqa: E402
import gens  # noqa: E402
import oracle  # noqa: E402
from pythonpackage import reduced  # noqa: E402
from reduced import _arrow  # noqa: E402

DTYPES = {"i8": "i1", "u8": "u1", "i16": "i2", "u16": "u2", "i32": "i4", "u32": "u4", "i64": "i8", "u64": "u8", "f16": "f2", "f32": "f4", "f64": "f8", "bool": "?"}
FORMS = {"i1": "c", "u1": "C", "i2": "s", "u2": "S", "i4": "i", "u4": "I", "i8": "l", "u8": "L", "f2": "e", "f4": "f", "f8": "g", "b1": "b"}
OPS = {"sum": "sum", "prod": "prod", "mean": "mean", "var": "var", "std": "std", "sem": "sem", "rms": "rms", "min": "min", "max": "max", "ptp": "range",
       "argmin": "argmin", "argmax": "argmax", "any": "any", "all": "all", "count_nonzero": "count_nonzero", "norm": "norm2"}
NAMES = {"EmptyError": "EMPTY", "OverflowError_": "OVERFLOW", "NanError": "NAN"}
POLICIES = {"propagate": "propagate", "omit": "omit", "raise": "error"}
MAKERS = {}


def optional(name):
    try:
        return __import__(name)
    except ImportError:
        return None


pandas, polars, pyarrow, xarray = map(optional, ("pandas", "polars", "pyarrow", "xarray"))
POLARS = {"i1": "Int8", "u1": "UInt8", "i2": "Int16", "u2": "UInt16", "i4": "Int32", "u4": "UInt32", "i8": "Int64", "u8": "UInt64", "f4": "Float32", "f8": "Float64",
          "b1": "Boolean"}


def container(nulls=False, dims=(1, 2), when=True, kinds="biuf"):
    """A way to hold elements (an array) and, with `nulls`, which of them are not missing."""
    def add(make):
        if when:
            MAKERS[make.__name__] = make, nulls, dims, kinds
        return make
    return add


# ---- NumPy ----
@container()
def array(a, keep):
    return a


@container()
def fortran(a, keep):
    return np.asfortranarray(a)


@container()
def steps(a, keep):
    return np.repeat(np.repeat(a, 2, 0), 3, -1)[::2, ..., ::3] if a.ndim > 1 else np.repeat(a, 3)[::3]


@container()
def backwards(a, keep):
    return np.flip(np.flip(a).copy())


@container()
def big_endian(a, keep):
    return a.astype(a.dtype.newbyteorder(">"))


@container()
def unaligned(a, keep):
    raw = np.empty(a.nbytes + 1, "u1")[1:]
    raw[:] = np.ascontiguousarray(a).reshape(-1).view("u1")
    return raw.view(a.dtype).reshape(a.shape)


@container()
def read_only(a, keep):
    b = a.copy()
    b.flags.writeable = False
    return b


@container(kinds="iuf")
def lists(a, keep):
    return a.tolist() if a.dtype.str[1:] in ("f8", "i8") else list(a)


@container(nulls=True)
def masked(a, keep):
    return np.ma.array(a, mask=np.ma.nomask if keep is None else ~keep)


@container(dims=(2,))
def broadcast(a, keep):
    return np.broadcast_to(a[:1], a.shape) if len(a) and (a.view("u1") == a[:1].view("u1")).all() else a.T.copy().T


# ---- pandas, xarray ----
def frame(columns):
    return pandas.concat(columns, axis=1, keys=range(len(columns)))


@container(when=pandas)
def series(a, keep):
    return pandas.Series(a) if a.ndim == 1 else pandas.DataFrame(a)


def nullable_array(a, keep):
    name = a.dtype.name.replace("uint", "UInt").replace("int", "Int").replace("Unt", "UInt").replace("float", "Float").replace("bool", "boolean")
    kinds = {"b": pandas.arrays.BooleanArray, "f": pandas.arrays.FloatingArray}
    made = kinds.get(a.dtype.kind, pandas.arrays.IntegerArray)(a.copy(), np.zeros(a.shape, bool) if keep is None else ~keep)
    assert str(made.dtype).lower() == name.lower()
    return pandas.Series(made)


@container(nulls=True, when=pandas)
def nullable(a, keep):
    if a.dtype == "f2":
        return masked(a, keep)  # pandas has no such column
    if a.ndim == 1:
        return nullable_array(a, keep)
    return frame([nullable_array(a[:, i], None if keep is None else keep[:, i]) for i in range(a.shape[1])]) if a.shape[1] else a


@container(when=xarray)
def data_array(a, keep):
    return xarray.DataArray(a)


# ---- Arrow ----
def column(a, keep, offset=0):
    return arrowmade.Column(np.ascontiguousarray(a), FORMS[a.dtype.str[1:]], keep, offset)


def made(a, keep, offset=0):
    if a.ndim == 1:
        return column(a, keep, offset)
    return arrowmade.table([column(a[:, i], None if keep is None else keep[:, i], offset) for i in range(a.shape[1])])


@container(nulls=True)
def arrow_array(a, keep):
    return arrowmade.OneArray(made(a, keep, len(a) % 11)) if a.ndim == 1 or a.shape[1] else a


@container(nulls=True)
def arrow_stream(a, keep):
    """In pieces of one to three elements."""
    if a.ndim > 1 and not a.shape[1]:
        return a
    cuts = [0, *np.cumsum(np.resize([1, 3, 2, 3, 3], len(a))).tolist()]
    cuts = [c for c in cuts if c < len(a)] + [len(a)]

    def piece(i):
        if i + 1 >= len(cuts):
            return None
        part = slice(cuts[i], cuts[i + 1])
        return made(a[part], None if keep is None else keep[part], i % 9)
    return arrowmade.Pieces(made(a[:0], None if keep is None else keep[:0]), piece)


def of_pyarrow(a, keep):
    return pyarrow.array(np.ascontiguousarray(a), mask=None if keep is None else ~keep)


@container(nulls=True, when=pyarrow)
def pyarrow_array(a, keep):
    if a.ndim == 1:
        whole = of_pyarrow(np.concatenate([a[:1], a]), None if keep is None else np.concatenate([keep[:1], keep]))
        return whole.slice(min(1, len(a)))
    return pyarrow.table([of_pyarrow(a[:, i], None if keep is None else keep[:, i]) for i in range(a.shape[1])], names=[str(i) for i in range(a.shape[1])]) \
        if a.shape[1] else a


@container(nulls=True, when=pyarrow, dims=(1,))
def pyarrow_chunks(a, keep):
    cut = len(a) // 3
    parts = [slice(0, cut), slice(cut, cut), slice(cut, None)]
    return pyarrow.chunked_array([of_pyarrow(a[p], None if keep is None else keep[p]) for p in parts])


@container(nulls=True, when=pandas and pyarrow, dims=(1,))
def pandas_on_arrow(a, keep):
    return pandas.Series(pandas.arrays.ArrowExtensionArray(pyarrow_chunks(a, keep)))


def of_polars(a, keep):
    found = polars.Series(np.ascontiguousarray(a), dtype=getattr(polars, POLARS[a.dtype.str[1:]]))
    return found if keep is None else found.zip_with(polars.Series(np.ascontiguousarray(keep), dtype=polars.Boolean), polars.Series([None], dtype=found.dtype).new_from_index(0, len(a)))


@container(nulls=True, when=polars)
def polars_series(a, keep):
    if a.dtype == "f2":
        return masked(a, keep)
    if a.ndim == 1:
        return of_polars(a, keep)
    return polars.DataFrame({str(i): of_polars(a[:, i], None if keep is None else keep[:, i]) for i in range(a.shape[1])}) if a.shape[1] else a


@container(nulls=True, when=polars, dims=(1,))
def polars_lazy(a, keep):
    return masked(a, keep) if a.dtype == "f2" else polars.LazyFrame({"x": of_polars(a, keep)})


# ---- what is expected, and what comes ----
def elements(rng):
    """An array of one or two dimensions, and which of its elements are not missing."""
    name = str(rng.choice(list(DTYPES)))
    n, columns = int(rng.choice([0, 1, 2, 7, 30, 200])), int(rng.integers(1, 5))
    if name == "bool":
        a = rng.random(n * columns) < rng.choice([0, 0.1, 0.5, 1])
    else:
        makers = gens.of(name)
        bits = makers[int(rng.integers(len(makers)))](rng, name, max(2, n * columns))
        a = np.resize(bits, n * columns).view(DTYPES[name])
    two = rng.random() < 0.4
    a = a.reshape(n, columns) if two else a
    keep = rng.random(a.shape) < rng.choice([0, 0.5, 0.9, 1]) if rng.random() < 0.6 else None
    return name, a, keep


def expected(op, name, a, keep, axis, nan, ddof, out):
    """The outcome of each result, in C order of the axes that are kept."""
    lines = [(a.reshape(-1), None if keep is None else keep.reshape(-1))] if axis is None else \
        [(np.take(a, i, 1 - axis), None if keep is None else np.take(keep, i, 1 - axis)) for i in range(a.shape[1 - axis])] if a.ndim > 1 else [(a, keep)]
    kind = "u8" if name == "bool" else name
    found = []
    for line, mask in lines:
        bits = np.ascontiguousarray(line).view(oracle.unsigned(kind))
        found.append(oracle.outcome(oracle.reduce, OPS[op], kind, bits, POLICIES[nan], out, mask=None if mask is None else mask.astype("u1"), ddof=ddof))
    return found


def cell(value):
    """The bits of a result, as the oracle has them; all NaNs are one."""
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        return int(value) % 2**64
    size = np.asarray(value).dtype.itemsize
    return "nan" if math.isnan(value) else int.from_bytes(np.asarray(value).tobytes(), "little") if size < 8 else struct.unpack("<Q", struct.pack("<d", value))[0]


def asked(want, out):
    """The expected bits in the same form."""
    kind, value = want
    if kind != "OK" or out not in oracle.FLOATS:
        return value % 2**64 if kind == "OK" else kind
    return "nan" if oracle.is_nan(np.array([value], oracle.unsigned(out)), out).all() else value


def by_function(op, given, axis, nan, ddof, name):
    kw = {"nan": nan} if op not in ("any", "all", "count_nonzero") else {}
    if op in ("var", "std", "sem"):
        kw["ddof"] = ddof
    return getattr(reduced, op)(given, axis=axis, **kw)


def by_state(op, given, axis, nan, ddof, name):
    state = reduced.state(OPS[op], dtype=DTYPES[name], nan=nan if op not in ("any", "all", "count_nonzero") else "propagate",
                          ddof=ddof if op in ("var", "std", "sem") else None)
    state += given
    return state.finish()


def by_stream(op, given, axis, nan, ddof, name):
    with reduced.stream(OPS[op], DTYPES[name], masked=True, nan=nan if op not in ("any", "all", "count_nonzero") else "propagate",
                        ddof=ddof if op in ("var", "std", "sem") else None) as s:
        s.append(given)
    return s.value


def results(way, op, given, axis, nan, ddof, name):
    """(the bits of each result, which of them are masked), or the name of the error."""
    try:
        value = way(op, given, axis, nan, ddof, name)
    except reduced.Error as e:
        return NAMES.get(type(e).__name__, repr(e)), None, None
    except Exception as e:  # is a difference
        return repr(e), None, None
    if value is np.ma.masked:
        return [None], [True], None
    lost = np.ma.getmaskarray(value).ravel() if isinstance(value, np.ma.MaskedArray) else None
    flat = np.asarray(value).ravel()
    return [cell(x) for x in (flat if np.ndim(value) else [value])], lost, flat.dtype if np.ndim(value) else None


def one(rng, counts):
    """One turn: an array in one container. Returns what differs, or None."""
    name, a, keep = elements(rng)
    fits = [n for n, (_, nulls, dims, kinds) in MAKERS.items() if (nulls or keep is None) and a.ndim in dims and a.dtype.kind in kinds
            and (a.size or n != "lists")]  # an empty list has no type
    which = str(rng.choice(fits))
    op = str(rng.choice(list(OPS)))
    nan, ddof = str(rng.choice(["propagate", "omit", "raise"])), int(rng.integers(0, 3))
    if op in ("any", "all", "count_nonzero"):
        nan = "propagate"
    axis = None if rng.random() < 0.5 else int(rng.integers(0, a.ndim))
    _arrow.GATHERED = int(rng.choice([0, 64, 64 << 20]))
    given = MAKERS[which][0](a, keep)
    typed = axis is None and which not in ("lists", "big_endian") and not isinstance(given, np.ma.MaskedArray)
    way = (by_function, by_state, by_stream)[int(rng.integers(3))] if typed else by_function
    got, lost, dtype = results(way, op, given, axis, nan, ddof, name)
    out = None
    if dtype is not None and dtype.kind == "f":
        out = {2: "f16", 4: "f32", 8: "f64"}[dtype.itemsize]
    out = out or oracle.default_out(OPS[op], "u8" if name == "bool" else name)
    want = expected(op, name, a, keep, axis, nan, ddof, out if out in oracle.FLOATS else None)
    counts[which, way.__name__] += 1
    hidden = [not k.any() for k in ([keep] if axis is None or a.ndim == 1 else [keep.take(i, 1 - axis) for i in range(a.shape[1 - axis])])] \
        if keep is not None and isinstance(given, np.ma.MaskedArray) else [False] * len(want)
    bits = [asked(w, out) for w in want]
    errors = [b for b, h in zip(bits, hidden) if b in NAMES.values() and not (h and len(a))]
    if isinstance(got, str):
        ok = got in errors
    else:
        lost = [False] * len(got) if lost is None else list(lost)
        ok = not (errors and len(a)) and len(got) == len(bits) and all(h if x else g == b for g, x, b, h in zip(got, lost, bits, hidden))
    if ok:
        return None
    return f"{which} by {way.__name__}: {op} of {name} {a.shape}, axis {axis}, nan {nan}, ddof {ddof}, {'nulls' if keep is not None else 'no nulls'}: " \
           f"{got if isinstance(got, str) else got[:5]} instead of {bits[:5]}\n  elements {a.ravel()[:8]}, kept {None if keep is None else keep.ravel()[:8]}"


def run(turns, seed, end=math.inf):
    """(counts, differences) of some turns."""
    counts, wrong = collections.Counter(), []
    for turn in range(seed, seed + turns):
        if time.monotonic() > end:
            break
        found = one(np.random.default_rng(turn), counts)
        if found:
            wrong.append(f"turn {turn}: {found}")
    return counts, wrong


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--minutes", type=float, default=math.inf)
    p.add_argument("--turns", type=int, default=1 << 60)
    p.add_argument("--seed", type=int, default=1)
    o = p.parse_args()
    counts, wrong = run(o.turns, o.seed, time.monotonic() + 60 * o.minutes)
    for key, n in sorted(counts.items()):
        print(*key, n)
    print(*wrong, sep="\n")
    print(f"{sum(counts.values())} turns, {len(wrong)} differences")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
