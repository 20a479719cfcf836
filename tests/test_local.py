"""What libreduce reduces in its own process: the answers, errors included, are the daemon's to the bit; and which requests those are."""
import concurrent.futures
import ctypes as C
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
import pytest

import gens
import libreduce
import oracle
from conftest import BACKEND, Daemon, finish, memory_device, python_env
from libreduce import COLUMNS, STATES_IN, STATES_OUT, WRAP, Fault
from oracle import DTYPES, FLOATS, OPS, SIGNED, SIZE
from pythonpackage import reduced
from rawclient import MAX_DATA, claim_of

NO, YES, LOCAL = 1, 2, 7  # reduce_local; REDUCE_PATH_LOCAL
SMALL = 64 << 10


def clients(daemon):
    """Two clients of one daemon: the first leaves all to it."""
    return libreduce.Client(daemon.url, local=NO), libreduce.Client(daemon.url, local=YES)


@pytest.fixture(scope="module")
def both(shared):
    """Of the daemon with the engine under test."""
    there, here = clients(shared)
    with there, here:
        yield there, here


@pytest.fixture(scope="module")
def on_cpu(request, shared):
    """A daemon on the CPU: arrays of any size are for its clients to reduce."""
    if BACKEND == "cpu":
        yield shared
        return
    directory = tempfile.mkdtemp(prefix="rd")
    daemon = Daemon(directory, backend="cpu")
    yield daemon
    finish(request, [daemon])
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def both_on_cpu(on_cpu):
    there, here = clients(on_cpu)
    with there, here:
        yield there, here


def answer(client, op, dtype, data, **kw):
    """The cells, or the fault in full; and the path."""
    address = C.addressof(C.c_char.from_buffer(data)) if len(data) else 0
    try:
        cells, r = client.run_at(op, dtype, address, len(data), **kw)
    except Fault as e:
        return (e.code, e.field, e.index, e.limit, e.value, str(e)), None
    engine = r.backend if BACKEND == "cpu" else 0  # a GPU's answers are the same
    return (cells, r.dtype, engine, r.cell_size, r.cells, r.count), r.path


def check(both, op, dtype, bits, shift=0, **kw):
    """Both answers, of elements that begin `shift` bytes into their memory. Returns the fault's code, or None."""
    raw = bits.tobytes()
    data = memoryview(bytearray(shift) + bytearray(raw))[shift:]
    expected, _ = answer(both[0], op, dtype, data, **kw)
    found, path = answer(both[1], op, dtype, data, **kw)
    assert found == expected, (op, dtype, len(bits), shift, {k: v if k != "mask" else "" for k, v in kw.items()})
    assert path in (None, LOCAL) or not found[0]  # nobody is asked for no results
    return expected[0] if len(expected[0]) < 20 and isinstance(expected[0], str) else None


def random_shape(rng, n, kw):
    """Rows, columns, planes of either, segments or a mask of n elements; how many elements are left."""
    kind = rng.integers(0, 8)
    if kind == 0:
        kw["rows"] = int(rng.integers(1, 12))
        return n // kw["rows"] * kw["rows"]
    if kind <= 2:
        kw["rows"], kw["planes"], kw["flags"] = int(rng.integers(1, 40)), int(rng.integers(0, 4)), kw["flags"] | COLUMNS * int(kind - 1)
        each = kw["rows"] * max(1, kw["planes"])
        return n // each * each
    if kind == 3:
        ends = np.sort(rng.integers(0, n + 1, int(rng.integers(1, 20))))
        kw["offsets"], kw["rows"] = ends.astype("<u8").tobytes() + np.uint64(ends[-1]).tobytes(), len(ends)
    if kind in (3, 4) and rng.integers(0, 2):
        kw["mask"] = rng.integers(0, 2, n, np.uint8).tobytes()
    return n


def random_request(rng):
    dtype = str(rng.choice(list(DTYPES)))
    op = str(rng.choice(oracle.ops(dtype) if rng.integers(0, 4) else list(OPS)))
    kw = {"nan": str(rng.choice(["propagate", "omit", "error"])), "flags": 0, "index_base": int(rng.choice([0, 0, 5, 1 << 60]))}
    make = gens.FLOAT_GENS if dtype in FLOATS else gens.INT_GENS
    make = make[int(rng.integers(0, len(make)))] if dtype not in FLOATS or rng.integers(0, 8) else gens.specials
    bits = make(rng, dtype, int(rng.choice([0, 1, 3, 16, 100, 1000, 4000])))
    if not rng.integers(0, 3):
        kw["out"] = str(rng.choice(oracle.outs(op, dtype) if op in oracle.ops(dtype) else list(DTYPES)))
    if op in ("var", "std", "sem", "stats"):
        kw["ddof"] = int(rng.choice([0, 1, len(bits), 2**32 - 1]))
    if op == "prod" and dtype not in FLOATS and rng.integers(0, 2):
        kw["flags"] = WRAP
    if not rng.integers(0, 8):
        kw["flags"] |= STATES_OUT
    elif not rng.integers(0, 4) and len(bits):
        kw["initial"] = bits[:1].tobytes()
    return op, dtype, bits[:random_shape(rng, len(bits), kw)], kw


@pytest.mark.values
@pytest.mark.parametrize("seed", range(2))
def test_answers_and_faults_are_the_daemons(both, seed):
    rng = np.random.default_rng(seed)
    codes = set()
    for _ in range(500):
        op, dtype, bits, kw = random_request(rng)
        codes.add(check(both, op, dtype, bits, int(rng.integers(0, 9)), **kw))
    assert {None, "OVERFLOW", "EMPTY", "NAN", "TYPE"} <= codes


def test_states_are_merged_and_checked(both):
    rng = np.random.default_rng(1)
    states = [both[0].run("stats", "f32", gens.specials(rng, "f32", 50).tobytes(), flags=STATES_OUT) for _ in range(12)]
    good = np.frombuffer(b"".join(states), np.uint8)
    for rows in (1, 3, 5):  # 12 states are not 5 rows
        check(both, "stats", "f32", good, rows=rows, flags=STATES_IN)
        check(both, "stats", "f32", good, rows=rows, flags=STATES_IN | STATES_OUT)
    bad = good.copy()
    bad[len(states[0]) * 7 + 1] = 255
    assert check(both, "stats", "f32", bad, rows=3, flags=STATES_IN) == "BAD_MESSAGE"


@pytest.mark.values
@pytest.mark.parametrize("op, dtype, kw", [
    ("sum", "f64", {}), ("stats", "f32", {"nan": "omit"}), ("argmax", "f64", {"index_base": 7}), ("sum", "u64", {}), ("xor", "u8", {}),
    ("minmax", "i16", {"rows": 3}), ("sum", "f64", {"rows": 1000}), ("sum", "i64", {"rows": 100}), ("var", "f32", {"rows": 3000, "flags": COLUMNS}), ("max", "f32", {"rows": 3, "flags": COLUMNS, "nan": "omit"}),
    ("sum", "f64", {"rows": 300, "planes": 4, "flags": COLUMNS}), ("sum", "f64", {"rows": 300, "planes": 4}), ("var", "f32", {"rows": 3, "planes": 50}), ("max", "f64", {"rows": 60000, "flags": COLUMNS, "nan": "error"}),
    ("prod", "u8", {"flags": STATES_OUT})])
def test_large_arrays_by_several_threads(both_on_cpu, op, dtype, kw):
    rng = np.random.default_rng(3)
    n = (9 << 20) // SIZE[dtype] // 60000 * 60000
    bits = (gens.full_range if dtype in FLOATS else gens.any_bits)(rng, dtype, n)
    if dtype in FLOATS:
        bits[n // 3] = oracle.nan_bits(FLOATS[dtype])
    code = check(both_on_cpu, op, dtype, bits, 1, **kw)
    assert code == {"u64": "OVERFLOW", "i64": "OVERFLOW"}.get(dtype, "NAN" if kw.get("nan") == "error" else None)


@pytest.mark.values
@pytest.mark.parametrize("op, dtype", [("sum", "f64"), ("argmax", "f32"), ("var", "u8")])
def test_large_arrays_with_masks_and_segments(both_on_cpu, op, dtype):
    """They stay where they are. The first segment begins, and the last ends, within the elements."""
    rng = np.random.default_rng(6)
    n = 300_007
    bits = (gens.full_range if dtype in FLOATS else gens.any_bits)(rng, dtype, n)
    mask = rng.integers(0, 2, n, np.uint8).tobytes()
    ends = np.sort(rng.integers(5, n - 5, 2000)).astype("<u8")
    for kw in ({"mask": mask}, {"offsets": ends.tobytes(), "rows": len(ends) - 1}, {"offsets": ends.tobytes(), "rows": len(ends) - 1, "mask": mask}):
        if op == "argmax" and "offsets" in kw:
            continue  # of an empty segment: EMPTY
        assert check(both_on_cpu, op, dtype, bits, 3, **kw) is None
    short = bits[:n - 7].reshape(300, 1000)
    for flags in (0, COLUMNS):
        assert check(both_on_cpu, op, dtype, short.ravel(), 1, rows=300, flags=flags, mask=mask[:300_000]) is None


def test_many_callers_at_once(both_on_cpu):
    data = bytearray(gens.full_range(np.random.default_rng(4), "f64", 1 << 20).tobytes())
    expected, _ = answer(both_on_cpu[0], "sum", "f64", data)
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: answer(both_on_cpu[1], "sum", "f64", data), range(24)))
    assert found == [(expected, LOCAL)] * 24


def test_the_daemon_does_not_see_them(on_cpu, both_on_cpu):
    def seen():
        return on_cpu.status()["requests.reduce"]
    check(both_on_cpu, "sum", "u8", np.ones(5, np.uint8))
    before = seen()
    for n in (5, 1 << 20):
        assert answer(both_on_cpu[1], "sum", "u8", bytearray(n))[1] == LOCAL
    assert seen() == before


# ---- what the client reports of them ----

def claimed(daemon):
    s = daemon.status()
    return s["claimed.requests"], s["claimed.bytes"]


@pytest.fixture
def alone(start):
    """A daemon that no other test asks, on both wires."""
    return start(backend="cpu", tcp=True)


@pytest.mark.parametrize("wire", ["url", "tcp_url"])
@pytest.mark.parametrize("how", ["message", "large message", "shared memory", "file", "stream", "long stream", "weights", "job"])
def test_the_next_request_claims_what_was_reduced_here(alone, scratch, wire, how):
    data = np.arange(1 << 18, dtype="f8")
    path = scratch / "data"
    data.tofile(path)
    with libreduce.Client(getattr(alone, wire), local=YES) as c:
        def ask(n):
            return c.run("sum", "f64", data[:n].tobytes(), path=1)
        for n, op, kw in ((10, "sum", {}), (1 << 18, "sum", {}), (100, "wsum", {"weights": data[:100].tobytes()})):
            c.run(op, "f64", data[:n].tobytes(), path=LOCAL, **kw)
        with pytest.raises(Fault):
            c.run("sum", "u8", b"\xff" * 300, path=LOCAL, out="u8")
        assert claimed(alone) == (0, 0)
        if how.endswith("message"):
            ask(10 if how == "message" else 1 << 18)
        elif how == "shared memory":
            c.run("sum", "f64", data.tobytes(), path=3 if wire == "url" else 1)
        elif how == "file":
            with open(path, "rb") as f:
                c.file("sum", "f64", f.fileno(), 0, data.nbytes)
        elif how == "weights":
            c.run("wsum", "f64", data[:10].tobytes(), weights=data[:10].tobytes(), path=1)
        elif how == "job":
            list(c.submit_all([("sum", "f64", data.tobytes(), {})]))
        else:
            c.stream("sum", "f64", [data[:10 if how == "stream" else None].tobytes()])
        assert claimed(alone) == (3, 8 * (10 + (1 << 18) + 100))
        ask(10)
        assert claimed(alone) == (3, 8 * (10 + (1 << 18) + 100))  # once
        c.run("max", "u8", b"123", path=LOCAL)
        ask(10)
        assert claimed(alone) == (4, 8 * (10 + (1 << 18) + 100) + 3)


def test_threads_lose_no_count(alone):
    with libreduce.Client(alone.url, local=YES) as c, concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: c.run("sum", "u8", bytes(1 + i % 7), path=LOCAL if i % 50 else 1), range(2000)))
        c.run("sum", "u8", b"1", path=1)
    here = [1 + i % 7 for i in range(2000) if i % 50]
    assert claimed(alone) == (len(here), sum(here))


def test_a_full_message_leaves_the_claim_to_a_later_one(alone):
    """With it the message would be too long, and the connection would end."""
    with libreduce.Client(alone.url, local=YES) as c:
        c.run("sum", "u8", b"123", path=LOCAL)
        for n, expected in ((MAX_DATA, (0, 0)), (MAX_DATA - 23, (0, 0)), (MAX_DATA - 24, (1, 3))):
            assert int.from_bytes(c.run("sum", "u8", b"\1" * n, path=1), "little") == n
            assert claimed(alone) == expected


def test_a_client_that_lies_about_its_own_work(alone):
    """It moves what is said to be claimed, and nothing else."""
    most = 2**64 - 1
    with alone.connect() as c:
        def held():
            s = c.query(2)
            return {k: v for k, v in s.items() if k.startswith(("held.", "limit.")) or k in ("requests.reduce", "errors")}
        c.reduce("sum", "u8", b"123")
        before = held()
        for requests, size in ((most - 5, most), (most, 1), (7, most)):
            assert c.reduce("sum", "u8", b"123", parts=[claim_of(requests, size)]).cells == [bytes([150, 0, 0, 0, 0, 0, 0, 0])]
        after = held()
        assert after.pop("requests.reduce") == before.pop("requests.reduce") + 3 and after == before
        assert claimed(alone) == (most, most)
        metrics = c.metrics()
    assert f"reduced_claimed_bytes_total {most}\n" in metrics and "# HELP reduced_claimed_requests_total Claimed by clients, not checked" in metrics
    assert f'reduced_user_claimed_requests_total{{uid="{os.getuid()}"}} {most}\n' in metrics and "reduced_data_bytes_total{path=\"inline\"} 12\n" in metrics


# ---- which requests ----

@pytest.mark.parametrize("n, kw, why", [
    (9, {"device": 1}, "a device"), (9, {"deadline_ms": 1000}, "a deadline"), (0, {"flags": COLUMNS}, "no results")])
def test_others_are_refused_with_a_reason(both, n, kw, why):
    with pytest.raises(Fault, match=f"path local is not available here: .*{why}") as e:
        both[1].run("sum", "u8", bytes(n), path=LOCAL, **kw)
    assert (e.value.code, e.value.field) == ("ARGUMENT", "path")
    spec = both[1].spec("sum", "u8", **kw)
    assert both[1].lib.reduce_is_local(both[1].handle, C.byref(spec), C.c_size_t(n)) == 0
    assert answer(both[1], "sum", "u8", bytearray(n), **kw)[1] == (1 if n else 0)  # by message, to the daemon


def test_the_option_and_the_path(shared, both):
    with pytest.raises(Fault, match="leaves all requests to the daemon"):
        both[0].run("sum", "u8", b"123", path=LOCAL)
    assert answer(both[1], "sum", "u8", bytearray(9), path=1)[1] == 1
    with libreduce.Client(shared.url, local=YES, priority=2) as background, pytest.raises(Fault, match="priorities"):
        background.run("sum", "u8", b"123", path=LOCAL)
    for unknown in (3, 2**32 - 1):
        with pytest.raises(Fault) as e:
            libreduce.Client(shared.url, local=unknown)
        assert (e.value.code, e.value.field) == ("ARGUMENT", "local")


@pytest.mark.parametrize("variable, path", [("yes", LOCAL), ("no", 1), ("", LOCAL), (None, LOCAL)])
def test_the_environment_decides_for_those_who_did_not(shared, monkeypatch, variable, path):
    if variable is None:
        monkeypatch.delenv("REDUCE_LOCAL")
    else:
        monkeypatch.setenv("REDUCE_LOCAL", variable)
    for local, expected in ((0, path), (NO, 1), (YES, LOCAL)):
        with libreduce.Client(shared.url, local=local) as c:
            assert answer(c, "sum", "u8", bytearray(9))[1] == expected
    monkeypatch.setenv("REDUCE_LOCAL", "off")
    with pytest.raises(Fault, match="yes or no, not 'off'") as e:
        libreduce.Client(shared.url)
    assert e.value.field == "REDUCE_LOCAL"


def is_local(client, n, op="sum", dtype="u8"):
    return client.lib.reduce_is_local(client.handle, C.byref(client.spec(op, dtype)), C.c_size_t(n))


def test_a_gpu_or_another_machine_makes_no_array_slower(start, shared):
    """Its way there takes longer than the work here. A session knows its daemon's engine; a restart may bring another one."""
    with libreduce.Client(shared.tcp_url, local=YES) as c:
        assert (is_local(c, SMALL), is_local(c, 1 << 30)) == (1, 1)
    d = start(backend="cpu")
    with libreduce.Client(d.url, local=YES) as c:
        assert is_local(c, 1 << 20) == 1
        d.kill()
        for n in (9, 1 << 20):  # no daemon is needed
            assert answer(c, "sum", "u8", bytearray(n))[1] == LOCAL
        start(**beside_a_gpu())
        assert answer(c, "sum", "u8", bytearray(9), path=1)[1] == 1  # by the new one
        assert (is_local(c, SMALL), is_local(c, SMALL + 1), is_local(c, 1 << 30)) == (1, 1, 1)
        assert answer(c, "sum", "u8", bytearray(1 << 20))[1] == LOCAL


def beside_a_gpu():
    return {**memory_device(), "backend": "auto"}


def test_what_takes_the_processor_long_goes_to_a_gpu(start):
    """On one core a product of f16 takes far longer than the copy for the GPU, a sum less."""
    d = start(**beside_a_gpu())
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        with libreduce.Client(d.url, local=YES) as c:
            assert [is_local(c, n, op, "f16") for n in (SMALL, 64 << 20) for op in ("sum", "prod")] == [1, 1, 1, 0]
    finally:
        os.sched_setaffinity(0, cores)


@pytest.mark.parametrize("options, small, large", [
    ({"backend": "cpu", "local": "no"}, 1, 0), ({"backend": "cpu", "local": "yes"}, 1, 1), ({"backend": "cuda"}, 1, 0), ({"backend": "cuda", "local": "no"}, 1, 0)])
def test_the_administrator_may_keep_large_arrays_in_the_daemon(start, options, small, large):
    device = memory_device() if options["backend"] == "cuda" else {}
    d = start(*(("--local", options["local"]) if "local" in options else ()), **{**device, "backend": options["backend"]})
    with libreduce.Client(d.url, local=YES) as c:
        assert (is_local(c, 9), is_local(c, 1 << 20)) == (small, large)
        assert [answer(c, "sum", "u8", bytearray(n))[1] == LOCAL for n in (9, 1 << 20)] == [small, large]


# ---- without a daemon ----
LAZY, AUTOSTART = 8, 1


def test_a_lazy_client_needs_a_daemon_for_what_this_process_does_not_reduce(start, scratch):
    """It finds one that begins to listen later, and leaves large arrays to one that wants them."""
    url = f"ipc://{scratch}/s"
    with libreduce.Client(url, local=YES, flags=LAZY) as c:
        for n in (0, 9, SMALL + 1, 1 << 22):
            assert answer(c, "sum", "u8", bytearray(n))[0][0] == bytes(8) and is_local(c, n) == 1
        for no in ({"path": 1}, {"deadline_ms": 1000}):
            assert answer(c, "sum", "u8", bytearray(9), **no)[0][0] == "NO_DAEMON"
        start(backend="cpu")
        assert answer(c, "sum", "u8", bytearray(9), path=1)[1] == 1
    with pytest.raises(Fault, match="not ipc:") as e:
        libreduce.Client("what", local=YES, flags=LAZY)
    assert e.value.code == "ARGUMENT"


def test_threads_connect_a_lazy_client_once(start, scratch):
    daemon = start(backend="cpu")
    before = daemon.status()["sessions_total"]
    with libreduce.Client(daemon.url, local=YES, flags=LAZY) as c, concurrent.futures.ThreadPoolExecutor(8) as pool:
        asked = [(n, path) for n in (9, SMALL + 1, 1 << 20) for path in (0, 1)] * 8
        found = list(pool.map(lambda a: answer(c, "sum", "u8", bytearray(b"\1" * a[0]), path=a[1])[0][0], asked))
    assert found == [n.to_bytes(8, "little") for n, _ in asked]
    assert daemon.status()["sessions_total"] == before + 2  # status has one, too


NO_DAEMON = """
import os, numpy as np, reduced, reduced.dask
a = np.arange(1 << 20, dtype="f8")
whole = a.size * (a.size - 1) / 2
assert reduced.sum(a[:9]) == 36 and reduced.sum(a) == whole and reduced.sum(a.reshape(1024, -1), axis=1).shape == (1024,)
assert reduced.sum(a, where=a > 9) == whole - 45 and reduced.sum(list(range(10000))) == 49995000
s = reduced.State("sum", "f8")
s.add(a).add(a[:5000])
assert s.finish() == whole + 4999 * 2500
try:
    import dask.array
except ImportError:
    pass
else:
    x = dask.array.from_array(a, chunks=1 << 17)
    assert reduced.dask.sum(x).compute() == whole and reduced.dask.max(x.reshape(1024, -1), axis=1).compute()[0] == 1023
assert "None" in repr(reduced._client.default()) and os.listdir(os.environ["XDG_RUNTIME_DIR"]) == []
try:
    reduced.submit("sum", a).result()
except reduced.Error as e:
    print(str(e).split(":")[0])
"""


def test_python_starts_no_daemon_for_arrays_of_the_process(tmp_path):
    tmp_path.chmod(0o700)
    env = {**python_env(), "XDG_RUNTIME_DIR": str(tmp_path), "PATH": "/nowhere", "REDUCE_LOCAL": "yes"}
    env.pop("REDUCED_URL", None)
    run = subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}" + NO_DAEMON], env=env, text=True, capture_output=True, timeout=60)
    assert (run.returncode, run.stdout) == (0, "START\n"), run.stderr


# ---- explained ----
def test_explain_names_the_ways(start, scratch, ctl):
    """With a daemon and without: which are possible, how long they are expected to take, and which is taken."""
    np.save(scratch / "x.npy", np.zeros(1 << 21))

    def ways(url, *args):
        done = ctl("explain", *args, "--json", scratch / "x.npy", url=url, env={"REDUCE_LOCAL": "yes"})
        assert done.returncode == 0, done.stderr
        return {w["way"]: w for w in map(json.loads, done.stdout.splitlines())}

    nobody = ways(f"ipc://{scratch}/nobody", "sum")
    assert [w["taken"] for w in nobody.values()] == [False] * 4 and nobody["cpu"]["why"] == "no daemon listens"
    found = ways(start(backend="cpu").url, "var", "--axis", "0")
    assert list(found) == ["process", "cpu", "gpu", "shared"]
    assert [w["taken"] for w in found.values()] == [False, True, False, False] and found["gpu"]["why"] == "the daemon has no GPU"
    assert 1e5 < found["cpu"]["expected_ns"] < 1e8 and "memory" in found["process"]["why"]


def test_results_say_what_was_expected(start, scratch, ctl):
    np.save(scratch / "x.npy", np.zeros(1 << 21))
    daemon = start(backend="cpu")
    line = json.loads(ctl("sum", "--json", scratch / "x.npy", url=daemon.url).stdout)
    assert line["way"] == "cpu" and line["expected_ns"] > 1e5 and line["wall_ns"] > 0
    assert b"the way: cpu, expected to take" in ctl("max", "-v", scratch / "x.npy", url=daemon.url).stderr
    assert "way" not in json.loads(ctl("sum", "--json", "--text", "-", url=daemon.url, stdin=b"1 2").stdout)
    assert "way" not in json.loads(ctl("median", "--json", scratch / "x.npy", url=daemon.url).stdout)
    assert "way" not in json.loads(ctl("stats", "--quantiles", "--json", scratch / "x.npy", url=daemon.url).stdout)
    for op in ["median"], ["stats", "--quantiles"]:
        refused = ctl("explain", *op, scratch / "x.npy", url=daemon.url)
        assert refused.returncode == 1 and b"the times of order statistics and of operations with weights are not known so far" in refused.stderr
    for words in ["sum,max", "-"], ["sum", "--by", "k", "-:v"], ["sum", "--merge", "-"], ["sum", "--joined", "-", "-"]:
        refused = ctl("explain", *words, url=daemon.url)
        assert refused.returncode == 2 and b"explain is for one operation" in refused.stderr and not refused.stdout
    np.savez(scratch / "x.npz", a=np.zeros(3), b=np.zeros(4))
    members = ctl("explain", "stats", "--json", scratch / "x.npz", url=daemon.url).stdout.splitlines()
    assert [json.loads(line)["file"] for line in members if json.loads(line)["taken"]] == [f"{scratch}/x.npz:{name}" for name in "ab"]


def test_what_files_took_is_expected_of_the_next(start, scratch):
    """And says nothing about arrays in memory."""
    data = np.ones(1 << 17)
    data.tofile(scratch / "x")
    with libreduce.Client(start(backend="cpu").url, local=YES) as c, open(scratch / "x", "rb") as file:
        def expected(fd):
            found = []

            @C.CFUNCTYPE(C.c_int, C.c_void_p, C.POINTER(reduced._abi.Way))
            def each(_, way):
                found.extend([way[0].expected_ns] * way[0].taken)
                return 0
            assert c.lib.reduce_explain(c.handle, C.byref(c.spec("sum", "f64")), fd, C.c_uint64(data.nbytes), each, None) == 0
            return found[0]
        before, memory = expected(file.fileno()), expected(-1)
        took = []
        for _ in range(2):
            begin = time.monotonic_ns()
            cell = (C.c_char * 8)()
            assert c.lib.reduce_file(c.handle, C.byref(c.spec("sum", "f64")), file.fileno(), C.c_uint64(0), C.c_uint64(data.nbytes), cell, C.c_size_t(8), None) == 0
            took.append(time.monotonic_ns() - begin)
        assert before != expected(file.fileno()) <= min(took) and expected(-1) == memory
        stdin = os.dup(0)
        os.dup2(file.fileno(), 0)
        try:
            assert expected(0) == expected(file.fileno()), "a redirected standard input is a file, too"
        finally:
            os.dup2(stdin, 0)
            os.close(stdin)


def test_rates_of_the_engine_are_shown_and_kept(start, scratch):
    """Of a daemon that is started again at the same place."""
    data = np.ones(1 << 19).tobytes()
    daemon = start(backend="cpu")
    with daemon.connect() as c:
        for _ in range(20):
            c.reduce("sum", "f64", data)
        rate = c.query(2)["rate.cpu"]
        assert rate > 1e6 and c.query(1)["rate.device"] == 0
    daemon.stop()
    with start(backend="cpu").connect() as c:
        assert rate / 2 < c.query(1)["rate.cpu"] < rate * 2


# ---- Python ----
def test_python_reduces_here_unless_told(on_cpu, monkeypatch):
    monkeypatch.delenv("REDUCE_LOCAL")
    a = np.random.default_rng(5).standard_normal((1000, 300))

    def asked(**options):
        with reduced.Client(on_cpu.url, autostart=False, **options) as c:
            before = on_cpu.status()["requests"]
            found = [reduced.sum(a, client=c), reduced.var(a, axis=0, client=c).tobytes(), reduced.min(a[:9, :9], client=c),
                     reduced.nansum(a[:50], where=a[:50] > 0, client=c)]
            return found, on_cpu.status()["requests"] - before > 4
    found, seen = asked()
    assert asked(local=True) == (found, seen) and not seen
    assert asked(local=False) == (found, True)
    monkeypatch.setenv("REDUCE_LOCAL", "no")
    assert asked() == (found, True)
    with reduced.Client(on_cpu.url, autostart=False, local=True) as c, pytest.raises(reduced.OverflowError_) as e:
        reduced.sum(np.full(3, 2**63, "u8"), client=c)
    assert e.value.exact == 3 * 2**63 and os.environ["REDUCE_LOCAL"] == "no"
