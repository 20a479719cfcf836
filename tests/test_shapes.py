"""Every shape through libreduce and reducectl, cut into messages of every size, against the oracle: rows, segments, columns,
masks, initial elements, partial states. A relay lowers the size of messages, so that small arrays are cut like huge ones."""
import concurrent.futures
import ctypes as C
import os
import struct
import threading

import numpy as np
import pytest

import gens
import libreduce as lib
import oracle
from conftest import BACKEND, sanitizer
from rawclient import REDUCE
from relay import Relay

CASES = int(os.environ.get("REDUCED_SHAPE_CASES", 80 if sanitizer() else 700))
LEAST = 4096  # bytes of a message: libreduce takes no less


def whole(cells, size):
    return [int.from_bytes(cells[i : i + size], "little") for i in range(0, len(cells), size)]


class Case:
    """One random reduction of some shape."""

    def __init__(self, rng):
        self.dtype = str(rng.choice(list(oracle.DTYPES)))
        self.op = str(rng.choice(oracle.ops(self.dtype)))
        self.nan = str(rng.choice(["propagate", "omit", "error"], p=[0.6, 0.3, 0.1]))
        self.columns, self.offsets, self.rows, self.planes = False, None, 1, 1
        kind = str(rng.choice(["whole", "rows", "columns", "segments"], p=[0.15, 0.25, 0.3, 0.3]))
        long = int(10 ** rng.uniform(0, 4))
        if kind == "segments":
            lengths = np.where(rng.random(int(10 ** rng.uniform(0, 2.5))) < 0.1, 0, rng.integers(0, max(2, long // 4), 1))
            lengths = (lengths * rng.random(len(lengths)) * 2).astype(int)
            lengths[rng.random(len(lengths)) < 0.05] = long
            self.offsets = np.concatenate([[0], np.cumsum(lengths)]) + int(rng.integers(0, 5))
            count, self.rows = int(self.offsets[-1]) + int(rng.integers(0, 5)), len(lengths)
        else:
            self.rows = 1 if kind == "whole" else int(10 ** rng.uniform(0, 2.5))
            count = self.rows * (long if kind == "whole" else max(1, long // self.rows))
            self.columns = kind == "columns"
            if kind != "whole" and rng.random() < 0.6:
                self.planes = int(10 ** rng.uniform(0, 2))
                count = self.planes * self.rows * max(1, count // (self.planes * self.rows))
        family = gens.of(self.dtype)
        bits = family[int(rng.integers(0, len(family)))](rng, self.dtype, count)
        self.bits = np.ascontiguousarray(np.resize(bits, count)) if len(bits) else np.zeros(count, oracle.unsigned(self.dtype))
        self.mask = rng.integers(0, 3, count).astype(np.uint8) if rng.random() < 0.4 else None
        self.initial = int(gens.of(self.dtype)[0](rng, self.dtype, 3)[0]) if rng.random() < 0.3 else None
        self.ddof = int(rng.integers(0, 3)) if self.op in ("var", "std", "stats") else 0
        self.wrap = self.op == "prod" and self.dtype not in oracle.FLOATS and rng.random() < 0.7
        self.out = str(rng.choice(oracle.outs(self.op, self.dtype))) if rng.random() < 0.3 else oracle.default_out(self.op, self.dtype)
        self.base = int(rng.integers(0, 1000))

    def __repr__(self):
        shape = f"{len(self.offsets) - 1} segments" if self.offsets is not None else f"{self.planes} x {self.rows} {'rows by columns' if self.columns else 'rows'}"
        return (f"{self.op} {self.dtype} -> {self.out}, {self.nan}, {len(self.bits)} elements, {shape}, mask {self.mask is not None}, "
                f"initial {self.initial}, ddof {self.ddof}, wrap {self.wrap}")

    def lines(self):
        return oracle.lines(self.bits, self.mask, self.rows, self.offsets, self.columns, self.planes)

    def expected(self):
        """The cells, or (error, number of the first line that has it)."""
        cells, worst = [], None
        for i, (bits, mask) in enumerate(self.lines()):
            code, cell = oracle.reduce_or_fault(self.op, self.dtype, bits, self.nan, self.out, self.base, ddof=self.ddof, initial=self.initial,
                                                mask=mask, wrap=self.wrap)
            if code != "OK" and worst is None:
                worst = code, i
            cells.append(cell)
        return worst or cells

    def states(self):
        return [oracle.state(oracle.Elements(self.dtype, bits, self.base, mask), self.op, self.nan) for bits, mask in self.lines()]

    def arguments(self):
        """Keywords for libreduce.Client.run."""
        initial = None if self.initial is None else struct.pack("<Q", self.initial)[: oracle.SIZE[self.dtype]]
        kw = dict(nan=self.nan, out=self.out, rows=self.rows, planes=self.planes, index_base=self.base, ddof=self.ddof, initial=initial)
        kw["mask"] = None if self.mask is None else self.mask.tobytes()
        kw["offsets"] = None if self.offsets is None else self.offsets.astype("<u8").tobytes()
        kw["flags"] = (lib.COLUMNS if self.columns else 0) | (lib.WRAP if self.wrap else 0)
        return kw

    def cell_size(self):
        return 96 if self.op == "stats" else oracle.SIZE[self.out] * (2 if self.op == "minmax" else 1)


def run_case(client, case):
    try:
        got = whole(client.run(case.op, case.dtype, case.bits.tobytes(), **case.arguments()), case.cell_size())
    except lib.Fault as f:
        got = f.code, f.index
    return got


def check_case(client, case):
    expected = case.expected()
    if case.nan == "error" or isinstance(expected, tuple):
        got = run_case(client, case)
    else:  # and its states
        kw = case.arguments() | {"initial": None}
        states = client.run(case.op, case.dtype, case.bits.tobytes(), **kw | {"flags": kw["flags"] | lib.STATES_OUT})
        assert states == b"".join(case.states()), case
        got = run_case(client, case)
        kw = case.arguments() | {"mask": None, "offsets": None, "rows": len(expected), "planes": 0, "flags": lib.STATES_IN | (lib.WRAP if case.wrap else 0)}
        if expected:
            assert whole(client.run(case.op, case.dtype, states, **kw), case.cell_size()) == expected, case
    assert got == expected, case


@pytest.mark.parametrize("sizes", [(LEAST, LEAST), (5000, 4100), (20_000, 5000), (4 << 20, 1 << 20)], ids=str)
def test_random_shapes(shared, scratch, sizes):
    """Whatever the size of messages: no request is longer, and results and states are the oracle's."""
    with Relay(scratch / "relay", shared.url, *sizes) as relay, lib.Client(relay.url) as client:
        for seed in range(CASES // 4):
            check_case(client, Case(np.random.default_rng([77, sizes[0], seed])))
        assert 0.5 * min(sizes[0], 10_000) < relay.longest <= sizes[0]


def test_threads_share_a_client(shared, scratch):
    """Four threads, one client, small messages: each thread gets its own answers."""
    failures = []

    def work(number):
        for seed in range(CASES // 16):
            try:
                check_case(client, Case(np.random.default_rng([78, number, seed])))
            except AssertionError as e:
                failures.append(str(e)[:500])

    with Relay(scratch / "relay", shared.url, LEAST, LEAST) as relay, lib.Client(relay.url) as client:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not failures, failures[0]


# ---- large arrays, messages as they are ----
@pytest.mark.slow
def test_large_shapes(shared):
    """Rows, segments and columns of more than a message, with and without a mask."""
    rng = np.random.default_rng(79)
    values = rng.standard_normal(3_000_000)
    mask = rng.integers(0, 2, len(values)).astype(np.uint8)
    for shape in ((3, 1_000_000), (1_000_000, 3), (1500, 2000), (30, 100_000)):
        m, keep = values.reshape(shape), mask.reshape(shape).astype(bool)
        with lib.Client(shared.url) as client:
            for axis, columns in ((0, lib.COLUMNS), (1, 0)):
                got = np.frombuffer(client.run("max", "f64", m.tobytes(), rows=shape[0], flags=columns), "<f8")
                assert (got == m.max(axis)).all(), (shape, axis)
                got = np.frombuffer(client.run("argmin", "f64", m.tobytes(), rows=shape[0], flags=columns), "<u8")
                assert (got == m.argmin(axis)).all(), (shape, axis)
                got = np.frombuffer(client.run("min", "f64", m.tobytes(), rows=shape[0], flags=columns, mask=mask.tobytes(), initial=struct.pack("<d", 9)), "<f8")
                assert (got == np.where(keep, m, 9).min(axis)).all(), (shape, axis)
                got = np.frombuffer(client.run("count", "f64", m.tobytes(), rows=shape[0], flags=columns, mask=mask.tobytes()), "<u8")
                assert (got == keep.sum(axis)).all(), (shape, axis)
    edges = np.sort(rng.integers(0, len(values), 5000))
    edges = np.concatenate([[0], edges, [1_700_000, 2_900_000, len(values)]])
    edges.sort()
    with lib.Client(shared.url) as client:
        got = np.frombuffer(client.run("max", "f64", values.tobytes(), rows=len(edges) - 1, offsets=edges.astype("<u8").tobytes(), initial=struct.pack("<d", -9)), "<f8")
        assert got.tolist() == [max(values[a:b].max(initial=-9), -9) for a, b in zip(edges, edges[1:])]


@pytest.mark.slow
def test_more_results_than_one_reply_holds(shared):
    rng = np.random.default_rng(80)
    values = rng.integers(-100, 100, 1_000_000).astype("<i4")
    with lib.Client(shared.url) as client:
        for kw in ({"rows": len(values)}, {"rows": 1, "flags": lib.COLUMNS}):
            assert (np.frombuffer(client.run("sum", "i32", values.tobytes(), **kw), "<i8") == values).all()
        offsets = np.arange(len(values) + 1).astype("<u8").tobytes()
        assert (np.frombuffer(client.run("sum", "i32", values.tobytes(), rows=len(values), offsets=offsets), "<i8") == values).all()
        stats = np.frombuffer(client.run("stats", "i32", values[:100_000].tobytes(), rows=100_000), "<i8").reshape(-1, 12)
        assert (stats[:, 5] == values[:100_000]).all() and (stats[:, 0] == 1).all()
        states = client.run("sum", "f64", values[:20_000].astype("<f8").tobytes(), rows=20_000, flags=lib.STATES_OUT)
        assert len(states) == 20_000 * 288
        total = client.run("sum", "f64", states, flags=lib.STATES_IN)
        assert struct.unpack("<d", total)[0] == values[:20_000].sum()


@pytest.mark.slow
def test_large_arrays_over_any_axis(shared):
    """Planes that are small, that fill some messages, and that are longer than one; in memory, in shared memory and resident."""
    rng = np.random.default_rng(84)
    values = rng.integers(-(2**40), 2**40, 3_000_000)
    mask = rng.integers(0, 2, len(values)).astype(np.uint8)
    with lib.Client(shared.url) as client:
        shared_memory = client.alloc(values.nbytes)
        C.memmove(shared_memory, values.ctypes.data, values.nbytes)
        client.put("cube", "i64", values.ctypes.data, values.nbytes)
        for shape in ((100_000, 10, 3), (300, 100, 100), (2, 1_000_000, 1), (3, 500_000, 2), (2, 3, 500_000), (5, 4, 15_000, 2, 5)):
            cube, keep = values[: int(np.prod(shape))].reshape(shape), mask[: int(np.prod(shape))].reshape(shape).astype(bool)
            for axis in range(len(shape)):
                kw = dict(rows=shape[axis], planes=int(np.prod(shape[:axis])), flags=lib.COLUMNS)
                expected = cube.sum(axis).ravel()
                assert (np.frombuffer(client.run("sum", "i64", cube.tobytes(), **kw), "<i8") == expected).all(), (shape, axis)
                got = client.run("count_nonzero", "i64", cube.tobytes(), mask=keep.tobytes(), **kw)
                assert (np.frombuffer(got, "<u8") == (keep & (cube != 0)).sum(axis).ravel()).all(), (shape, axis)
                got, _ = client.run_at("argmax", "i64", shared_memory, cube.nbytes, **kw)
                assert (np.frombuffer(got, "<u8") == cube.argmax(axis).ravel()).all(), (shape, axis)
                if BACKEND == "cpu" or int(np.prod(shape[axis + 1 :])) <= 524_288:
                    got, _ = client.named("sum", "i64", "cube", size=cube.nbytes, room_for=cube.nbytes, **kw)
                    assert (np.frombuffer(got, "<i8") == expected).all(), (shape, axis)
            if len(shape) == 3:  # the axes on both sides of the middle one
                kw = dict(rows=shape[1], planes=shape[0])
                expected = cube.sum((0, 2))
                for got in (client.run("sum", "i64", cube.tobytes(), **kw), client.run_at("sum", "i64", shared_memory, cube.nbytes, **kw)[0]):
                    assert (np.frombuffer(got, "<i8") == expected).all(), shape
                if BACKEND == "cpu" or shape[1] <= 524_288:
                    got, _ = client.named("sum", "i64", "cube", size=cube.nbytes, room_for=cube.nbytes, **kw)
                    assert (np.frombuffer(got, "<i8") == expected).all(), shape
        kw = dict(size=values.nbytes, room_for=values.nbytes, rows=750_000, planes=2)
        if BACKEND == "cpu":
            assert (np.frombuffer(client.named("sum", "i64", "cube", **kw)[0], "<i8") == values.reshape(2, 750_000, 2).sum((0, 2))).all()
        else:  # a device has no place for so many results
            with pytest.raises(lib.Fault) as caught:
                client.named("sum", "i64", "cube", **kw)
            assert (caught.value.code, caught.value.field, caught.value.limit) == ("TOO_LARGE", "rows", 524_288)
        client.drop("cube")
        client.free(shared_memory)


def test_files_over_any_axis(shared, scratch):
    """Columns and planes of a file: in one piece, and in tiles that are read row by row."""
    values = np.random.default_rng(85).integers(-(2**40), 2**40, 120_000)
    path = scratch / "cube"
    path.write_bytes(bytes(24) + values.tobytes())
    with open(path, "rb") as f, Relay(scratch / "relay", shared.url, LEAST, LEAST) as relay, lib.Client(relay.url) as small, lib.Client(shared.url) as large:
        for shape in ((120_000, 1), (2000, 60), (60, 2000), (3, 4, 10_000), (40, 1000, 3), (5, 4, 30, 200)):
            cube = values.reshape(shape)
            for axis in range(len(shape)):
                kw = dict(rows=shape[axis], planes=int(np.prod(shape[:axis])), flags=lib.COLUMNS)
                for client in (small, large):
                    for op, expected in (("sum", cube.sum(axis)), ("argmax", cube.argmax(axis))):
                        got, _ = client.file(op, "i64", f.fileno(), 24, values.nbytes, **kw)
                        assert (np.frombuffer(got, "<i8") == expected.ravel()).all(), (shape, axis, op)
        with pytest.raises(lib.Fault) as caught:
            small.file("sum", "i64", f.fileno(), 32, values.nbytes, rows=60, flags=lib.COLUMNS)
        assert (caught.value.code, caught.value.field) == ("IO", "file")


def test_jobs_of_shapes(shared, scratch):
    """Many jobs at once, each with mask and offsets of its own."""
    rng = np.random.default_rng(81)
    cases = [c for c in (Case(rng) for _ in range(200)) if len(c.bits) < 5000]
    requests, keep = [], []
    for c in cases:
        kw = c.arguments()
        keep.append((c.bits.tobytes(), kw))
        requests.append((c.op, c.dtype, keep[-1][0], kw))
    with Relay(scratch / "relay", shared.url, LEAST, LEAST) as relay, lib.Client(relay.url) as client:
        for case, answer in zip(cases, client.submit_all(requests)):
            got = (answer.code, answer.index) if isinstance(answer, lib.Fault) else whole(answer, case.cell_size())
            assert got == case.expected(), case


def test_masked_streams(shared, scratch):
    rng = np.random.default_rng(82)
    for sizes in ((LEAST, LEAST), (4 << 20, 1 << 20)):
        with Relay(scratch / f"relay{sizes[0]}", shared.url, *sizes) as relay, lib.Client(relay.url) as client:
            for dtype in ("i8", "f16", "f64"):
                for n in (0, 5, 3000, 300_000):
                    bits = gens.of(dtype)[0](rng, dtype, n)
                    mask = rng.integers(0, 2, n).astype(np.uint8)
                    cuts = [0, *sorted(rng.integers(0, n + 1, 5)), n]
                    pieces = [(bits[a:b].tobytes(), mask[a:b].tobytes()) for a, b in zip(cuts, cuts[1:])]
                    for op in ("sum", "argmax", "count_nonzero") if n else ("sum", "count"):
                        expected = oracle.reduce_or_fault(op, dtype, bits, mask=mask)
                        try:
                            got = "OK", int.from_bytes(client.masked_stream(op, dtype, pieces), "little")
                        except lib.Fault as f:
                            got = f.code, f.value
                        assert got == expected, (dtype, n, op)


def test_shapes_without_elements(shared):
    with lib.Client(shared.url) as client:
        assert client.run("sum", "f64", b"", rows=3) == bytes(24)
        assert client.run("sum", "f64", b"", rows=3, flags=lib.COLUMNS) == b"", "a matrix without columns"
        assert client.run("count", "i8", b"", rows=2, offsets=bytes(24)) == bytes(16)
        assert client.run("sum", "f64", b"", rows=1, mask=b"") == bytes(8)
        assert client.run("sum", "f32", b"", rows=2, flags=lib.STATES_IN) == bytes(16), "rows of no states"


def test_a_file_without_columns(shared, scratch):
    """Also at an earlier daemon, which the library cuts planes for: it must not divide by their width."""
    path = scratch / "empty"
    path.touch()
    with Relay(scratch / "relay", shared.url, 4 << 20, 1 << 20, version=1) as relay, open(path, "rb") as f:
        for url in (shared.url, relay.url):
            with lib.Client(url) as client:
                assert client.file("sum", "f64", f.fileno(), 0, 0, rows=3, flags=lib.COLUMNS)[0] == b""
                assert client.file("sum", "f64", f.fileno(), 0, 0, rows=3)[0] == bytes(24)


def test_progress_reaches_the_end(shared):
    """Also of a job that leaves elements between segments alone."""
    values = bytes(4 * 2_000_000)
    with lib.Client(shared.url) as client:
        spec = client.spec("sum", "f32", rows=2, offsets=np.array([5, 1_500_000, 1_600_000], "<u8").tobytes())
        out, job = C.create_string_buffer(16), C.c_void_p()
        assert client.lib.reduce_submit(client.handle, C.byref(spec), values, C.c_size_t(len(values)), out, C.c_size_t(16), None, None, C.byref(job)) == 0
        assert client.lib.reduce_wait(job, C.c_uint32(2**32 - 1), None) == 0
        done, total = C.c_uint64(), C.c_uint64()
        assert client.lib.reduce_job_progress(job, C.byref(done), C.byref(total)) == 0
        assert (done.value, total.value) == (len(values), len(values))
        client.lib.reduce_job_free(job)


# ---- errors ----
def test_planes_need_a_daemon_that_has_them(shared, scratch):
    """An earlier daemon: a typed error, nothing is sent, and all else goes on, planes of one column, which are rows, too."""
    values = np.arange(24, dtype="<i4").reshape(2, 3, 4)
    with Relay(scratch / "relay", shared.url, 4 << 20, 1 << 20, version=1) as relay, lib.Client(relay.url) as client:
        with pytest.raises(lib.Fault) as caught:
            client.run("sum", "i32", values.tobytes(), rows=3, planes=2, flags=lib.COLUMNS)
        assert (caught.value.code, caught.value.field) == ("VERSION", "planes") and REDUCE not in relay.kinds
        with pytest.raises(lib.Fault) as caught:
            client.run("sum", "i32", values.tobytes(), rows=3, planes=2)
        assert (caught.value.code, caught.value.field) == ("VERSION", "planes") and REDUCE not in relay.kinds
        assert client.run("sum", "i32", values.tobytes(), rows=1, planes=2) == struct.pack("<q", values.sum())
        for rows, planes, expected in ((6, 1, values.sum((0, 1))), (6, 0, values.sum((0, 1))), (12, 2, values.sum((1, 2)))):
            got = client.run("sum", "i32", values.tobytes(), rows=rows, planes=planes, flags=lib.COLUMNS)
            assert got == expected.astype("<i8").tobytes()
        assert REDUCE in relay.kinds


@pytest.mark.parametrize("code, field, kw", [
    ("SHAPE", "offsets", dict(offsets=[0, 3, 2], rows=2)), ("SHAPE", "offsets", dict(offsets=[0, 11], rows=1)),
    ("SHAPE", "offsets", dict(offsets=[5, 2**64 - 1], rows=1)), ("SHAPE", "rows", dict(rows=3)), ("SHAPE", "rows", dict(rows=3, columns=True)),
    ("SHAPE", "rows", dict(rows=0)), ("BAD_MESSAGE", "flags", dict(columns=True, offsets=[0, 1])), ("BAD_MESSAGE", "flags", dict(flags=8)),
    ("BAD_MESSAGE", "flags", dict(flags=32)), ("BAD_MESSAGE", "flags", dict(flags=2**31)), ("ARGUMENT", "flags", dict(flags=16)),
    ("BAD_MESSAGE", "flags", dict(flags=4)), ("BAD_MESSAGE", "ddof", dict(ddof=1)), ("BAD_MESSAGE", "initial", dict(flags=2, initial=bytes(8))),
    ("BAD_MESSAGE", "flags", dict(op="prod", flags=4)), ("TYPE", "dtype", dict(op="and")), ("TYPE", "out", dict(out="i64")),
    ("TYPE", "out", dict(op="stats", out="f32")), ("TYPE", "out", dict(op="count", out="f64")), ("BAD_MESSAGE", "flags", dict(flags=1, mask=bytes(10))),
    ("BAD_MESSAGE", "flags", dict(flags=1, offsets=[0, 1])), ("BAD_MESSAGE", "flags", dict(flags=1, columns=True)),
    ("BAD_MESSAGE", "planes", dict(planes=2, flags=1)), ("BAD_MESSAGE", "planes", dict(planes=2, offsets=[0, 1])),
    ("SHAPE", "rows", dict(planes=2, rows=2, columns=True)), ("SHAPE", "rows", dict(planes=2, rows=2)),
    ("SHAPE", "rows", dict(planes=2**60, rows=2**10)), ("TOO_LARGE", "planes", dict(planes=2**60 + 1)),
    ("SHAPE", "rows", dict(planes=2**40, rows=2**40, columns=True)), ("TOO_LARGE", "planes", dict(planes=2**60 + 1, columns=True)),
])
def test_refused(shared, code, field, kw):
    kw = dict(kw)
    offsets, columns = kw.pop("offsets", None), kw.pop("columns", False)
    kw["flags"] = kw.get("flags", 0) | (lib.COLUMNS if columns else 0)
    if offsets:
        kw["offsets"] = np.array(offsets, np.uint64).tobytes()
    with lib.Client(shared.url) as client:
        with pytest.raises(lib.Fault) as caught:
            client.run(kw.pop("op", "sum"), "f64", bytes(80), **kw)
        assert (caught.value.code, caught.value.field) == (code, field), caught.value.text
        if field == "offsets":
            assert caught.value.index == next(i for i, v in enumerate(offsets) if v > 10 or v < max(offsets[:i], default=0))
        assert client.run("sum", "f64", struct.pack("<d", 2.5)) == struct.pack("<d", 2.5), "the client goes on"


def test_streams_refuse_shapes(shared):
    with lib.Client(shared.url) as client:
        for kw in (dict(rows=2), dict(planes=2), dict(flags=lib.COLUMNS), dict(flags=lib.STATES_IN), dict(mask=b"1"), dict(offsets=bytes(16))):
            with pytest.raises(lib.Fault) as caught:
                client.stream("sum", "f64", [], **kw)
            assert caught.value.code in ("SHAPE", "ARGUMENT")
        with pytest.raises(lib.Fault) as caught:
            client.stream("sum", "f64", [bytes(8)], flags=lib.MASKED)
        assert caught.value.code == "ARGUMENT"


def test_faults_name_the_first_line(shared, scratch):
    """Of many lines that fail, in whatever message, the first."""
    values = np.ones(20_000, "<f4")
    values[[7_013, 7_999, 15_000]] = np.nan
    with Relay(scratch / "relay", shared.url, LEAST, LEAST) as relay, lib.Client(relay.url) as client:
        for kw, index in ((dict(rows=2000), 701), (dict(rows=2), 0), (dict(rows=20_000), 7013), (dict(rows=20, flags=lib.COLUMNS), 0),
                          (dict(rows=1, flags=lib.COLUMNS), 7013), (dict(rows=3, offsets=np.array([0, 5000, 7013, 20_000], "<u8").tobytes()), 2)):
            with pytest.raises(lib.Fault) as caught:
                client.run("sum", "f32", values.tobytes(), nan="error", **kw)
            assert (caught.value.code, caught.value.index) == ("NAN", index), kw
        with pytest.raises(lib.Fault) as caught:
            client.run("max", "f32", values.tobytes(), rows=3, offsets=np.array([0, 9000, 9000, 20_000], "<u8").tobytes())
        assert (caught.value.code, caught.value.index) == ("EMPTY", 1)


def test_cancel_and_deadline_of_cut_jobs(shared, scratch):
    values = bytes(8 * 400_000)
    with Relay(scratch / "relay", shared.url, LEAST, LEAST) as relay, lib.Client(relay.url) as client:
        with pytest.raises(lib.Fault) as caught:
            client.run("sum", "f64", values, deadline_ms=1)
        assert caught.value.code == "DEADLINE"
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            slow = pool.submit(client.run, "sum", "f64", values, rows=2)
            quick = pool.submit(client.run, "count", "f64", values[:800])
            assert quick.result() == struct.pack("<Q", 100) and slow.result() == bytes(16)


# ---- reducectl, which carries libreduce in itself: under sanitizers, too ----
def test_reducectl_with_small_messages(ctl, shared, scratch):
    """All its ways: streams, rows, segments, columns, with and without a mask."""
    rng = np.random.default_rng(83)
    m = rng.integers(-100, 100, (300, 70)).astype("<i4")
    keep = rng.integers(0, 2, m.shape).astype(bool)
    offsets = np.array([0, 3, 3, 9000, 9010, 21_000])
    for name, array in (("m", m), ("f", np.asfortranarray(m)), ("k", keep), ("o", offsets)):
        np.save(scratch / f"{name}.npy", array)
    kept = np.where(keep, m, 0)
    segments = lambda a: [int(a.ravel()[x:y].sum()) for x, y in zip(offsets, offsets[1:])]
    with Relay(scratch / "relay", shared.url, LEAST, LEAST) as relay:
        for args, file, expected in (
            (["sum"], "m", [m.sum()]), (["argmax"], "f", [m.argmax()]), (["sum", "--rows", 4], "m", m.reshape(4, -1).sum(1)),
            (["sum", "--axis", 0], "m", m.sum(0)), (["sum", "--axis", 1], "m", m.sum(1)), (["argmin", "--axis", 0], "f", m.argmin(0)),
            (["argmin", "--axis", 1], "f", m.argmin(1)), (["sum", "--offsets", scratch / "o.npy"], "m", segments(m)),
            (["sum", "--mask", scratch / "k.npy"], "m", [kept.sum()]), (["sum", "--mask", scratch / "k.npy", "--axis", 0], "m", kept.sum(0)),
            (["sum", "--mask", scratch / "k.npy", "--axis", 1], "m", kept.sum(1)),
            (["sum", "--mask", scratch / "k.npy", "--offsets", scratch / "o.npy"], "m", segments(kept)),
        ):
            done = ctl(*args, scratch / f"{file}.npy", url=relay.url)
            assert done.returncode == 0, done.stderr
            assert list(map(int, done.stdout.split())) == list(map(int, expected)), args
        assert 0 < relay.longest <= LEAST
