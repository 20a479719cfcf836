"""Many short arrays in one message, so that a property test can judge hundreds of thousands of them in minutes."""
import numpy as np

import gens
import oracle
import rawclient
from rawclient import MASK, STATES_IN, STATES_OUT

SHAPES = ("segments", "rows", "columns")
LOGARITHMS = 6000  # elements of a batch whose float products the oracle computes: 5 us each


class Batch:
    """Arrays of one dtype with their masks, and what the oracle knows of them. In rows and columns all have one length."""

    def __init__(self, dtype, shape, arrays, masks=None, index_base=0, initial=None):
        self.dtype, self.shape, self.arrays, self.masks = dtype, shape, arrays, masks
        self.index_base, self.initial = index_base, initial
        self.elements = [oracle.Elements(dtype, a, index_base, None if masks is None else masks[i], initial) for i, a in enumerate(arrays)]

    def __len__(self):
        return len(self.arrays)

    def ops(self):
        few = sum(map(len, self.arrays)) <= LOGARITHMS
        return [op for op in oracle.ops(self.dtype) if few or op != "prod" or self.dtype not in oracle.FLOATS]

    def message(self, chosen, cut=slice(None)):
        """(data, keywords) of a request for the chosen arrays, or the same piece of each."""
        arrays = [self.arrays[i][cut] for i in chosen]
        masks = None if self.masks is None else [self.masks[i][cut] for i in chosen]
        if self.shape == "columns":
            put = lambda parts: np.ascontiguousarray(np.stack(parts, axis=1)).tobytes()
            kw = {"rows": len(arrays[0]), "row_len": len(arrays), "columns": True}
            if not len(arrays[0]):  # a matrix has at least one row
                kw = {"rows": len(arrays), "row_len": 0}
        else:
            put = lambda parts: np.concatenate(parts).tobytes()
            kw = {"rows": len(arrays), "row_len": len(arrays[0])}
            if self.shape == "segments":
                kw = {"offsets": np.cumsum([0, *map(len, arrays)]).tolist()}
        return put(arrays), kw | ({} if masks is None else {"mask": put(masks)})

    def permuted(self, rng):
        """The same arrays, their elements in another order."""
        orders = [rng.permutation(len(a)) for a in self.arrays]
        other = object.__new__(Batch)
        other.__dict__ |= self.__dict__
        other.arrays = [a[o] for a, o in zip(self.arrays, orders)]
        other.masks = None if self.masks is None else [m[o] for m, o in zip(self.masks, orders)]
        return other


def random_batch(rng, count):
    dtype = str(rng.choice(list(oracle.DTYPES)))
    family, shape = gens.of(dtype), SHAPES[int(rng.integers(0, 3))]
    most = int(rng.choice([6, 40, 120, 2000], p=[0.2, 0.5, 0.28, 0.02]))
    if most == 2000:
        count = min(count, 30)
    make = lambda n: family[int(rng.integers(0, len(family)))](rng, dtype, n)
    if shape == "segments":
        arrays = [np.ascontiguousarray(make(int(rng.integers(0, most + 1)))) for _ in range(count)]
    else:
        n = int(rng.integers(0, most + 1))
        arrays = [np.resize(make(n), n).astype(oracle.unsigned(dtype)) for _ in range(count)]
    masks = [rng.integers(0, 4, len(a), np.uint8) for a in arrays] if rng.random() < 0.3 else None
    initial = int(make(1)[0]) if rng.random() < 0.25 else None
    return Batch(dtype, shape, arrays, masks, int(rng.integers(0, 2**40)) if rng.random() < 0.5 else 0, initial)


def parameters(rng, op, dtype):
    """Random keywords of a reduction; `finish` are those that states do not depend on."""
    finish = {"out": str(rng.choice(oracle.outs(op, dtype)))}
    if op in ("var", "std", "sem", "stats") and rng.random() < 0.7:
        finish["ddof"] = int(rng.choice([0, 1, 2, 5, 2**32 - 1]))
    if op == "prod" and dtype not in oracle.FLOATS and rng.random() < 0.4:
        finish["wrap"] = True
    return str(rng.choice(list(oracle.NANS))), finish


class Ways:
    """The ways to reduce a batch. Each takes the indexes of the arrays wanted and returns their cells; requests go to any of the daemons."""

    def __init__(self, rng, conns):
        self.rng, self.conns = rng, conns

    def conn(self):
        return self.conns[int(self.rng.integers(0, len(self.conns)))]

    def whole(self, batch, chosen, op, nan, finish):
        data, kw = batch.message(chosen)
        return self.conn().reduce(op, batch.dtype, data, nan=nan, index_base=batch.index_base, initial=batch.initial, **finish, **kw).cells

    def shuffled(self, batch, chosen, op, nan, finish):
        if op in oracle.INDEX_OPS or op == "stats":
            return self.whole(batch, chosen, op, nan, finish)
        return self.whole(batch.permuted(self.rng), chosen, op, nan, finish)

    def merged(self, batch, chosen, op, nan, finish):
        """The same piece of every array in one message, the states merged in a random tree."""
        longest = max(len(batch.arrays[i]) for i in chosen)
        inner = sorted(self.rng.integers(0, longest + 1, int(self.rng.integers(0, 4))).tolist())
        parts = [self.states(batch, chosen, op, nan, a, b) for a, b in zip([0, *inner], [*inner, longest])]
        while len(parts) > 1 and self.rng.random() < 0.7:
            self.rng.shuffle(parts)
            parts = [self.merge(batch, parts[:2], op, nan, flags=STATES_OUT), *parts[2:]]
        if len(parts) == 1 and batch.initial is None:
            self.check_states(batch, chosen, op, nan, parts[0])
        return self.merge(batch, parts, op, nan, initial=batch.initial, **finish)

    def states(self, batch, chosen, op, nan, a, b):
        data, kw = batch.message(chosen, slice(a, b))
        return self.conn().reduce(op, batch.dtype, data, nan=nan, index_base=batch.index_base + a, flags=STATES_OUT, **kw).cells

    def merge(self, batch, parts, op, nan, flags=0, **kw):
        rows = b"".join(b"".join(states) for states in zip(*parts))
        return self.conn().reduce(op, batch.dtype, rows, nan=nan, rows=len(parts[0]), row_len=len(parts), flags=STATES_IN | flags, **kw).cells

    def check_states(self, batch, chosen, op, nan, states):
        for k in self.rng.integers(0, len(chosen), min(3, len(chosen))):
            assert states[k] == oracle.state(batch.elements[chosen[k]], op, nan), f"state of array {chosen[k]}"

    def stream(self, batch, i, op, nan, finish):
        """One array, in chunks of any order."""
        conn, bits, mask = self.conn(), batch.arrays[i], None if batch.masks is None else batch.masks[i]
        stream = conn.begin(op, batch.dtype, nan=nan, index_base=batch.index_base, initial=batch.initial, flags=0 if mask is None else MASK, **finish)
        inner = sorted(self.rng.integers(0, len(bits) + 1, int(self.rng.integers(0, 5))).tolist())
        chunks = [(a, b) for a, b in zip([0, *inner], [*inner, len(bits)]) if a < b]
        sent = [conn.send_append(stream, a, bits[a:b].tobytes() + (b"" if mask is None else mask[a:b].tobytes()))
                for a, b in (chunks[k] for k in self.rng.permutation(len(chunks)))]
        for request in sent:
            conn.wait(request)
        return conn.finish(stream, len(bits)).cells[0]


def attempt(function, *args):
    """('OK', integer or integers), or (error, exact value), with the index of the array that failed."""
    try:
        got = function(*args)
    except rawclient.Fault as f:
        return (f.code, f.value), f.index
    return ("OK", [int.from_bytes(c, "little") for c in got] if isinstance(got, list) else int.from_bytes(got, "little")), None


def check_op(batch, ways, op):
    """All arrays by two ways, one array in a stream; where some must fail, the first of them is named, and so is each of a few asked alone."""
    rng = ways.rng
    nan, finish = parameters(rng, op, batch.dtype)
    expected = [oracle.outcome(oracle.value, e, op, nan, **finish) for e in batch.elements]
    good = [i for i, e in enumerate(expected) if e[0] == "OK"]
    bad = [i for i, e in enumerate(expected) if e[0] != "OK"]
    note = f"{op} of {batch.dtype} {batch.shape}, nan {nan}, {finish}, initial {batch.initial}, masks {batch.masks is not None}"
    way = [ways.whole, ways.shuffled, ways.merged][int(rng.integers(0, 3))]
    if bad:
        assert attempt(way, batch, range(len(batch)), op, nan, finish) == (expected[bad[0]], bad[0]), f"{note}, {way.__name__}, array {bad[0]}"
    for i in bad[1:3]:
        assert attempt(way, batch, [i], op, nan, finish) == (expected[i], 0), f"{note}, {way.__name__}, array {i} alone"
    for run in {way, ways.whole} if good else ():
        got, _ = attempt(run, batch, good, op, nan, finish)
        assert got[0] == "OK", (note, run.__name__, got)
        wrong = [i for i, cell in zip(good, got[1]) if cell != expected[i][1]]
        assert len(got[1]) == len(good) and not wrong, f"{note}, {run.__name__}: array {wrong[0]} of {len(wrong)} wrong ones, {batch.arrays[wrong[0]].tolist()}"
    i = int(rng.integers(0, len(batch)))
    got, index = attempt(ways.stream, batch, i, op, nan, finish)
    assert got == expected[i] and index in (None, rawclient.NO_INDEX), f"{note}, stream, array {i}: {got} instead of {expected[i]}"


def check_batch(batch, ways):
    for op in batch.ops():
        check_op(batch, ways, op)
