"""Random and adversarial arrays over the wire, by every way that there is, against the oracle: the same bits each time.

REDUCED_PROPERTY_ARRAYS sets how many short arrays (default 100,000; each by every op), REDUCED_PROPERTY_SEED where they start. A
failure names the seed of its batch or array, which alone makes it again."""
import concurrent.futures
import math
import os
import shutil
import struct
import tempfile
from fractions import Fraction

import numpy as np
import pytest

import batches
import gens
import libreduce
import oracle
import rawclient
from conftest import Daemon, finish
from rawclient import STATES_IN, STATES_OUT, Connection

ARRAYS = int(os.environ.get("REDUCED_PROPERTY_ARRAYS", 0))
SEED = int(os.environ.get("REDUCED_PROPERTY_SEED", 20261121))
BATCH = 250
# Other thread counts, and whether small requests run in the thread that received them, or like others.
SETTINGS = (("--threads", 1, "--small-bytes", 0), ("--threads", 2), ("--threads", 3, "--small-bytes", 4 << 20),
            ("--threads", 7, "--small-bytes", 0))


@pytest.fixture(scope="module")
def daemons(request):
    folders = [tempfile.mkdtemp(prefix="rd") for _ in SETTINGS]
    started = [Daemon(folder, *flags) for folder, flags in zip(folders, SETTINGS)]
    yield [d.url for d in started]
    finish(request, started)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def connect(urls):
    conns = [Connection(url, timeout=120) for url in urls]
    for c in conns:
        c.hello()
    return conns


# ---- many short arrays ----
def check_batches(urls, seeds):
    """In a process of its own: how many arrays."""
    conns, arrays = connect(urls), 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        batch = batches.random_batch(rng, BATCH)
        try:
            batches.check_batch(batch, batches.Ways(rng, conns))
        except AssertionError as e:
            raise AssertionError(f"seed {seed}: {e}") from None
        arrays += len(batch)
    return arrays


def test_arrays_by_the_hundred(daemons, request):
    """Each by every op, by two ways of shape, order, split, merge tree and daemon; one of each batch as a stream."""
    wanted = ARRAYS or (5_000 if request.config.sanitized else 100_000)
    count = -(-wanted * 11 // (BATCH * 10))  # some batches are smaller
    processes = os.cpu_count()
    with concurrent.futures.ProcessPoolExecutor(processes) as pool:
        shards = [pool.submit(check_batches, daemons, range(SEED + k, SEED + count, 4 * processes)) for k in range(4 * processes)]
        arrays = sum(s.result() for s in shards)
    assert arrays >= wanted, arrays
    print(f"{arrays} arrays")


# ---- systematic ones ----
@pytest.mark.parametrize("dtype", oracle.FLOATS)
def test_specials_at_every_position(daemons, request, dtype):
    """A NaN or infinity at each place of rows around the widths of vectors and blocks, for every op."""
    rng, fmt, conns = np.random.default_rng(26), oracle.FLOATS[dtype], connect(daemons)
    inf, sign = oracle.inf_bits(fmt), 1 << (fmt.width - 1)
    for n in (3, 17, 33) if request.config.sanitized else (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65):
        row = gens.full_range(rng, dtype, n)
        arrays = []
        for special in (inf, inf | sign, inf | 1, inf | sign | 1 << (fmt.fraction - 1)):
            for i in range(n):
                arrays.append(row.copy())
                arrays[-1][i] = special
        both = row.copy()
        both[rng.permutation(n)[:2]] = [inf, inf | sign][:n]
        batch = batches.Batch(dtype, "rows", [*arrays, both])
        batches.check_batch(batch, batches.Ways(rng, conns))


@pytest.mark.parametrize("dtype", oracle.DTYPES)
def test_rows_around_the_widths(daemons, request, dtype):
    """Rows and columns whose lengths are those of the engines' vectors and blocks, give or take one."""
    lengths = (1, 2, 63, 64, 65, 127, 129, 255, 257, 1000, 2047, 2048, 2049, 4095, 4097)
    rng, conns, family = np.random.default_rng(22), connect(daemons), gens.of(dtype)
    for n in lengths[::4] if request.config.sanitized else lengths:
        for shape in ("rows", "columns"):
            arrays = [np.resize(family[k](rng, dtype, n), n).astype(oracle.unsigned(dtype)) for k in rng.permutation(len(family))[:4]]
            batches.check_batch(batches.Batch(dtype, shape, arrays), batches.Ways(rng, conns))


@pytest.mark.parametrize("dtype", oracle.DTYPES)
def test_every_op_policy_and_reply_type(shared, dtype):
    """The full table on a few arrays: nothing is left to chance."""
    rng = np.random.default_rng(21)
    with shared.connect() as conn:
        for gen in gens.of(dtype):
            bits = gen(rng, dtype, 33)
            e = oracle.Elements(dtype, bits)
            for op in oracle.ops(dtype):
                for nan in oracle.NANS:
                    for out in oracle.outs(op, dtype):
                        expected = oracle.outcome(oracle.value, e, op, nan, out)
                        got, _ = batches.attempt(lambda: conn.reduce(op, dtype, bits.tobytes(), nan=nan, out=out).cells[0])
                        assert got == expected, (op, dtype, gen.__name__, nan, out)


def exact_product(bits, dtype):
    number, exponent = 1, 0
    for b in bits.tolist():
        m, e = oracle.parts_of(b, oracle.FLOATS[dtype])
        number, exponent = number * m, exponent + e
    return Fraction(number) * Fraction(2) ** exponent


@pytest.mark.parametrize("dtype", oracle.FLOATS)
def test_float_products_are_as_near_as_promised(shared, dtype):
    """PROTOCOL.md, "Products of floats": the bound in units of the last place, and where the product is correctly rounded."""
    rng, arrays = np.random.default_rng(27), []
    fmt, most = oracle.FLOATS[dtype], {"f64": 2, "f32": 4, "f16": 9, "bf16": 13}[dtype]
    for gen in (gens.uniform, gens.gauss, gens.full_range, gens.band, gens.subnormal, gens.lognormal):
        arrays += [a[a & (2 ** (fmt.width - 1) - 1) > 0] for a in (gen(rng, dtype, int(n)) for n in rng.integers(1, 120, 25))]
        arrays += [gen(rng, dtype, most)[:most] for _ in range(25)]
    arrays = [a for a in arrays if len(a)]
    with shared.connect() as conn:
        for a in arrays:
            true, out = exact_product(a, dtype), oracle.FLOATS["f64"]
            (got,) = struct.unpack("<d", conn.reduce("prod", dtype, a.tobytes()).cells[0])
            right = oracle.float_value(oracle.round_quotient(true.numerator, true.denominator, 0, out), "f64")
            if len(a) <= most:
                assert struct.pack("<d", got) == struct.pack("<d", right), a.tolist()
            if math.isinf(right) or math.isinf(got) or right == 0:
                assert got == right or abs(true) > 2**1023, a.tolist()
                continue
            error = abs(Fraction(got) - true) / Fraction(math.ulp(right))
            assert error <= Fraction(1, 2) + Fraction(1, 2**53) + len(a) * Fraction(1, 2**59), (float(error), a.tolist())


# ---- long arrays ----
def cuts(rng, n, most=12):
    inner = sorted(map(int, rng.integers(0, n + 1, int(rng.integers(0, most)))))
    return list(zip([0, *inner], [*inner, n]))


class Raw:
    """Ways through the raw client. Each returns the bytes of the cell."""

    def __init__(self, conn):
        self.conn = conn

    def inline(self, rng, op, dtype, bits, **kw):
        return self.conn.reduce(op, dtype, bits.tobytes(), **kw).cells[0]

    def stream(self, rng, op, dtype, bits, **kw):
        stream = self.conn.begin(op, dtype, **kw)
        chunks = [(a, b) for a, b in cuts(rng, len(bits)) if a < b]
        for request in [self.conn.send_append(stream, chunks[i][0], bits[slice(*chunks[i])].tobytes()) for i in rng.permutation(len(chunks))]:
            self.conn.wait(request)
        return self.conn.finish(stream, len(bits)).cells[0]

    def states(self, rng, op, dtype, bits, index_base=0, nan="propagate", **finish):
        """Shards reduced apart, merged in a random tree, finished once."""
        parts = [self.conn.reduce(op, dtype, bits[a:b].tobytes(), nan=nan, flags=STATES_OUT, index_base=index_base + a).cells[0]
                 for a, b in cuts(rng, len(bits))]
        while len(parts) > 2 and rng.integers(0, 4):
            take = [parts.pop(int(rng.integers(0, len(parts)))) for _ in range(int(rng.integers(1, 3)))]
            parts.append(self.conn.reduce(op, dtype, b"".join(take), nan=nan, flags=STATES_IN | STATES_OUT).cells[0])
        order = rng.permutation(len(parts))
        return self.conn.reduce(op, dtype, b"".join(parts[i] for i in order), nan=nan, flags=STATES_IN, **finish).cells[0]


class Lib:
    """Ways through libreduce."""

    def __init__(self, client):
        self.client = client

    def run(self, rng, op, dtype, bits, **kw):
        return self.client.run(op, dtype, bits.tobytes(), **kw)

    def stream(self, rng, op, dtype, bits, **kw):
        data = bits.tobytes()  # pieces may end inside an element
        return self.client.stream(op, dtype, [data[a:b] for a, b in cuts(rng, len(data))], **kw)

    def states(self, rng, op, dtype, bits, index_base=0, nan="propagate", **finish):
        parts = [self.client.run(op, dtype, bits[a:b].tobytes(), nan=nan, flags=STATES_OUT, index_base=index_base + a) for a, b in cuts(rng, len(bits))]
        return self.client.run(op, dtype, b"".join(parts[i] for i in rng.permutation(len(parts))), nan=nan, flags=STATES_IN, **finish)


def check_long_array(seed, ways):
    rng = np.random.default_rng(seed)
    dtype = str(rng.choice(list(oracle.DTYPES)))
    gen = gens.of(dtype)[int(rng.integers(0, len(gens.of(dtype))))]
    n = int(rng.integers(600, 20_000) if rng.random() < 0.8 else rng.integers(20_000, 900_000))
    bits = np.ascontiguousarray(gen(rng, dtype, n)[: rawclient.MAX_DATA // oracle.SIZE[dtype]])
    base = int(rng.integers(0, 2**40))
    elements = oracle.Elements(dtype, bits, base)
    for op in rng.permutation(oracle.ops(dtype))[:12]:
        if op == "prod" and dtype in oracle.FLOATS and n > 20_000:
            continue
        nan, finish = batches.parameters(rng, op, dtype)
        finish.pop("wrap", None)
        expected = oracle.outcome(oracle.value, elements, op, nan, **finish)
        way = ways[int(rng.integers(0, len(ways)))]
        try:
            got = "OK", int.from_bytes(way(rng, op, dtype, bits, nan=nan, index_base=base, **finish), "little")
        except Exception as f:
            if not hasattr(f, "code"):
                raise
            got = f.code, f.value
        assert got == expected, f"seed {seed}: {op} of {len(bits)} {dtype} ({gen.__name__}), {finish}, nan {nan}, {way.__qualname__}"


@pytest.mark.parametrize("shard", range(4))
def test_long_arrays(shared, daemons, request, shard):
    """Raw and through libreduce; ipc and tcp."""
    count = 40 if request.config.sanitized else 1000
    seeds = range(SEED + shard, SEED + count, 4)
    with shared.connect(tcp=shard == 3) as conn:
        ways = [getattr(Raw(c), way) for c in (conn, *connect(daemons)) for way in ("inline", "stream", "states")]
        with libreduce.Client(shared.tcp_url if shard == 1 else shared.url) as client:
            ways += [getattr(Lib(client), way) for way in ("run", "stream", "states")] * 4
            for seed in seeds:
                check_long_array(seed, ways)


def test_longer_than_a_message(shared, request):
    """A few million elements with everything in them: messages, chunks and folds of every kind."""
    rng = np.random.default_rng(23)
    for dtype in ("f32", "f64", "f16", "i64"):
        n = 3_000_000 // (1 if not request.config.sanitized else 4)
        bits = np.resize(np.concatenate([g(rng, dtype, 5000) for g in gens.of(dtype) if g not in (gens.specials, gens.all_nan)]), n)
        step = rawclient.MAX_DATA // oracle.SIZE[dtype]
        elements = oracle.Elements(dtype, bits)
        for op in ("sum", "argmax", "stats", "norm2"):
            expected = oracle.outcome(oracle.value, elements, op)

            def stream(conn):
                stream = conn.begin(op, dtype)
                for w in [conn.send_append(stream, at, bits[at : at + step].tobytes()) for at in range(0, n, step)]:
                    conn.wait(w)
                return conn.finish(stream, n).cells[0]

            with shared.connect() as conn:
                assert batches.attempt(stream, conn)[0] == expected, (dtype, op)
            with libreduce.Client(shared.url) as client:
                try:
                    got = "OK", int.from_bytes(client.run(op, dtype, bits.tobytes()), "little")
                except libreduce.Fault as f:
                    got = f.code, f.value
            assert got == expected, (dtype, op)


# ---- libreduce's own cutting ----
def test_rows_through_libreduce(shared):
    """More rows than one message holds, and rows longer than a message."""
    rng = np.random.default_rng(24)
    with libreduce.Client(shared.url) as client:
        for rows, row_len in ((3, 1_300_000), (40_000, 50), (2, 524_288), (5, 524_289), (700_000, 3)):
            values = rng.standard_normal(rows * row_len)
            got = np.frombuffer(client.run("max", "f64", values.tobytes(), rows=rows), "<f8")
            assert (got == values.reshape(rows, row_len).max(axis=1)).all(), (rows, row_len)
            got = np.frombuffer(client.run("argmin", "f64", values.tobytes(), rows=rows, index_base=5), "<u8")
            assert (got == values.reshape(rows, row_len).argmin(axis=1) + 5).all(), (rows, row_len)


def test_jobs_through_libreduce(shared):
    rng = np.random.default_rng(25)
    arrays = [rng.integers(-1000, 1000, int(rng.integers(0, 400_000))).astype("<i4") for _ in range(60)]
    with libreduce.Client(shared.url) as client:
        answers = list(client.submit_all([("sum", "i32", a.tobytes(), {}) for a in arrays]))
        assert [int.from_bytes(a, "little", signed=True) for a in answers] == [int(a.sum()) for a in arrays]
