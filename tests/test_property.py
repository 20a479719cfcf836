"""Random and adversarial arrays over the wire, by every way that there is, against the oracle: the same bits each time.

REDUCED_PROPERTY_ARRAYS sets how many arrays (default about a minute), REDUCED_PROPERTY_SEED where they start. A failure names
the seed of its array, which alone makes it again."""
import os
import struct

import numpy as np
import pytest

import gens
import oracle
import rawclient
from rawclient import STATES_IN, STATES_OUT, Fault

ARRAYS = int(os.environ.get("REDUCED_PROPERTY_ARRAYS", 0))
SEED = int(os.environ.get("REDUCED_PROPERTY_SEED", 20261121))
SHARDS = 12


def some_array(rng):
    dtype = str(rng.choice(list(oracle.DTYPES)))
    family = gens.of(dtype)
    gen = family[int(rng.integers(0, len(family)))]
    scale = rng.random()
    n = int(rng.integers(0, 12) if scale < 0.3 else rng.integers(0, 600) if scale < 0.8 else rng.integers(600, 20_000) if scale < 0.99 else rng.integers(20_000, 900_000))
    fits = rawclient.MAX_DATA // oracle.SIZE[dtype]
    return dtype, gen, np.ascontiguousarray(gen(rng, dtype, n)[:fits])


def cuts(rng, n, most=12):
    inner = sorted(map(int, rng.integers(0, n + 1, int(rng.integers(0, most)))))
    return list(zip([0, *inner], [*inner, n]))


class Raw:
    """Ways through the raw client. Each returns ('OK', value bits) or (error, exact value)."""

    def __init__(self, conn):
        self.conn = conn

    def inline(self, rng, op, dtype, bits, **kw):
        return self.conn.reduce(op, dtype, bits.tobytes(), **kw).cells[0]

    def stream(self, rng, op, dtype, bits, **kw):
        stream = self.conn.begin(op, dtype, **kw)
        chunks = [(a, b) for a, b in cuts(rng, len(bits)) if a < b]
        try:
            for request in [self.conn.send_append(stream, chunks[i][0], bits[slice(*chunks[i])].tobytes()) for i in rng.permutation(len(chunks))]:
                self.conn.wait(request)
        except Fault:
            self.conn.abort(stream)
            raise
        return self.conn.finish(stream, len(bits)).cells[0]

    def states(self, rng, op, dtype, bits, index_base=0, **kw):
        """Shards reduced apart, merged in a random tree, finished once."""
        parts = [self.conn.reduce(op, dtype, bits[a:b].tobytes(), flags=STATES_OUT, index_base=index_base + a, **kw).cells[0] for a, b in cuts(rng, len(bits))]
        while len(parts) > 2 and rng.integers(0, 4):
            take = [parts.pop(int(rng.integers(0, len(parts)))) for _ in range(int(rng.integers(1, 3)))]
            parts.append(self.conn.reduce(op, dtype, b"".join(take), flags=STATES_IN | STATES_OUT, **kw).cells[0])
        order = rng.permutation(len(parts))
        return self.conn.reduce(op, dtype, b"".join(parts[i] for i in order), flags=STATES_IN, **kw).cells[0]

    def shuffled(self, rng, op, dtype, bits, **kw):
        if op.startswith("arg"):
            return self.inline(rng, op, dtype, bits, **kw)
        return self.inline(rng, op, dtype, rng.permutation(bits), **kw)


class Lib:
    """Ways through libreduce."""

    def __init__(self, client):
        self.client = client

    def run(self, rng, op, dtype, bits, **kw):
        return self.client.run(op, dtype, bits.tobytes(), **kw)

    def stream(self, rng, op, dtype, bits, **kw):
        data = bits.tobytes()  # pieces may end inside an element
        return self.client.stream(op, dtype, [data[a:b] for a, b in cuts(rng, len(data))], **kw)

    def states(self, rng, op, dtype, bits, index_base=0, **kw):
        parts = [self.client.run(op, dtype, bits[a:b].tobytes(), flags=STATES_OUT, index_base=index_base + a, **kw) for a, b in cuts(rng, len(bits))]
        return self.client.run(op, dtype, b"".join(parts[i] for i in rng.permutation(len(parts))), flags=STATES_IN, **kw)


def check_array(seed, ways):
    rng = np.random.default_rng(seed)
    dtype, gen, bits = some_array(rng)
    for op in oracle.OPS:
        nan = str(rng.choice(list(oracle.NANS)))
        out = str(rng.choice(oracle.outs(op, dtype)))
        base = int(rng.integers(0, 2**40)) if op.startswith("arg") and rng.integers(0, 2) else 0
        expected = oracle.reduce_or_fault(op, dtype, bits, nan, out, base)
        for index in rng.permutation(len(ways))[: 2 if len(bits) < 1000 else 1]:
            try:
                got = "OK", int.from_bytes(ways[index](rng, op, dtype, bits, out=out, nan=nan, index_base=base), "little")
            except Exception as f:
                if not hasattr(f, "code"):
                    raise
                got = f.code, f.value
            assert got == expected, f"seed {seed}: {op} of {len(bits)} {dtype} ({gen.__name__}) as {out}, nan {nan}, {ways[index].__qualname__}"


def count(config):
    return ARRAYS or (600 if config.sanitized else 10_000)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_arrays_over_the_wire(shared, request, shard):
    with shared.connect(tcp=shard % 4 == 3) as conn:
        raw = Raw(conn)
        ways = [raw.inline, raw.stream, raw.states, raw.shuffled]
        if request.config.sanitized:
            for seed in range(SEED + shard, SEED + count(request.config), SHARDS):
                check_array(seed, ways)
            return
        import libreduce

        with libreduce.Client(shared.tcp_url if shard % 4 == 1 else shared.url) as client:
            lib = Lib(client)
            ways += [lib.run, lib.stream, lib.states]
            for seed in range(SEED + shard, SEED + count(request.config), SHARDS):
                check_array(seed, ways)


@pytest.mark.parametrize("dtype", oracle.DTYPES)
def test_every_op_policy_and_reply_type(shared, dtype):
    """The full table on a few arrays: nothing is left to chance."""
    rng = np.random.default_rng(21)
    with shared.connect() as conn:
        for gen in gens.of(dtype):
            bits = gen(rng, dtype, 33)
            for op in oracle.OPS:
                for nan in oracle.NANS:
                    for out in oracle.outs(op, dtype):
                        expected = oracle.reduce_or_fault(op, dtype, bits, nan, out)
                        try:
                            got = "OK", int.from_bytes(conn.reduce(op, dtype, bits.tobytes(), nan=nan, out=out).cells[0], "little")
                        except Fault as f:
                            got = f.code, f.value
                        assert got == expected, (op, dtype, gen.__name__, nan, out)


@pytest.mark.parametrize("dtype", oracle.DTYPES)
def test_rows(shared, dtype):
    """Row lengths around the vector widths and blocks of the engines; every row its own answer."""
    rng = np.random.default_rng(22)
    with shared.connect() as conn:
        for rows, row_len in ((1, 1), (7, 3), (3, 64), (50, 17), (9, 1000), (2, 4099), (1000, 1), (5, 33)):
            family = gens.of(dtype)
            bits = np.concatenate([np.resize(family[i % len(family)](rng, dtype, row_len), row_len) if row_len else [] for i in range(rows)])
            bits = bits.astype(oracle.unsigned(dtype))
            for op in oracle.OPS:
                out = "f64" if dtype in oracle.FLOATS and not op.startswith(("arg", "count")) else None
                answers = [oracle.reduce_or_fault(op, dtype, bits[i * row_len : (i + 1) * row_len], out=out) for i in range(rows)]
                bad = next((i for i, a in enumerate(answers) if a[0] != "OK"), None)
                if bad is None:
                    got = conn.reduce(op, dtype, bits.tobytes(), rows=rows, out=out or 0).cells
                    assert [int.from_bytes(c, "little") for c in got] == [a[1] for a in answers], (op, rows, row_len)
                    continue
                with pytest.raises(Fault) as caught:
                    conn.reduce(op, dtype, bits.tobytes(), rows=rows)
                assert (caught.value.code, caught.value.value, caught.value.index) == (*answers[bad], bad)


def test_long_array_by_several_ways(shared, request):
    """A few million elements with everything in them: messages, chunks and folds of every kind."""
    rng = np.random.default_rng(23)
    for dtype in ("f32", "f64", "f16", "i64"):
        n = 3_000_000 // (1 if not request.config.sanitized else 4)
        bits = np.resize(np.concatenate([g(rng, dtype, 5000) for g in gens.of(dtype) if g not in (gens.specials, gens.all_nan)]), n)
        size = oracle.SIZE[dtype]
        for op in ("sum", "argmax"):
            expected = oracle.reduce_or_fault(op, dtype, bits)
            step = rawclient.MAX_DATA // size
            with shared.connect() as conn:
                try:
                    stream = conn.begin(op, dtype)
                    window = []
                    for at in range(0, n, step):
                        window.append(conn.send_append(stream, at, bits[at : at + step].tobytes()))
                    for w in window:
                        conn.wait(w)
                    got = "OK", struct.unpack("<Q", conn.finish(stream, n).cells[0])[0]
                except Fault as f:
                    got = f.code, f.value
            assert got == expected, (dtype, op)
            if not request.config.sanitized:
                import libreduce

                with libreduce.Client(shared.url) as client:
                    try:
                        got = "OK", int.from_bytes(client.run(op, dtype, bits.tobytes()), "little")
                    except libreduce.Fault as f:
                        got = f.code, f.value
                assert got == expected, (dtype, op)


def test_rows_through_libreduce(shared, request):
    """More rows than one message holds, and rows longer than a message."""
    if request.config.sanitized:
        pytest.skip("ctypes cannot load a library with a sanitizer")
    import libreduce

    rng = np.random.default_rng(24)
    with libreduce.Client(shared.url) as client:
        for rows, row_len in ((3, 1_300_000), (40_000, 50), (2, 524_288), (5, 524_289), (700_000, 3)):
            values = rng.standard_normal(rows * row_len)
            got = np.frombuffer(client.run("max", "f64", values.tobytes(), rows=rows), "<f8")
            assert (got == values.reshape(rows, row_len).max(axis=1)).all(), (rows, row_len)
            got = np.frombuffer(client.run("argmin", "f64", values.tobytes(), rows=rows, index_base=5), "<u8")
            assert (got == values.reshape(rows, row_len).argmin(axis=1) + 5).all(), (rows, row_len)


def test_jobs_through_libreduce(shared, request):
    if request.config.sanitized:
        pytest.skip("ctypes cannot load a library with a sanitizer")
    import libreduce

    rng = np.random.default_rng(25)
    arrays = [rng.integers(-1000, 1000, int(rng.integers(0, 400_000))).astype("<i4") for _ in range(60)]
    with libreduce.Client(shared.url) as client:
        answers = list(client.submit_all([("sum", "i32", a.tobytes(), {}) for a in arrays]))
        assert [int.from_bytes(a, "little", signed=True) for a in answers] == [int(a.sum()) for a in arrays]
