"""reducectl as people and scripts use it: files, pipes, text, options, formats, exit codes, and the private daemon."""
import io
import json
import math
import os
import pathlib
import re
import signal
import struct
import subprocess

import numpy as np
import pytest

import gens
import oracle
from conftest import BIN

OK, FAILED, USAGE, NO_DAEMON = 0, 1, 2, 3


@pytest.fixture
def run(ctl, shared):
    """run(*args, stdin=, binary=False) -> stdout as text or bytes; the command must succeed."""

    def command(*args, binary=False, **kw):
        done = ctl(*args, url=shared.url, **kw)
        assert done.returncode == OK, done.stderr.decode()
        return done.stdout if binary else done.stdout.decode()

    return command


@pytest.fixture
def fails(ctl, shared):
    """fails(code, pattern, *args): it must leave with the code and say what is wrong in one line."""

    def command(code, pattern, *args, **kw):
        done = ctl(*args, url=shared.url, **kw)
        text = done.stderr.decode()
        assert done.returncode == code, (done.stdout, text)
        assert re.search(pattern, text), text
        assert all(line.startswith("reducectl: ") for line in text.splitlines()) and "\x1b" not in text
        return done

    return command


def npy(path, array, **kw):
    with open(path, "wb") as f:
        np.lib.format.write_array(f, array, **kw)
    return path


NUMPY = {"i8": "<i1", "u8": "<u1", "i16": "<i2", "u16": "<u2", "i32": "<i4", "u32": "<u4", "i64": "<i8", "u64": "<u8", "f16": "<f2", "f32": "<f4", "f64": "<f8"}


def shown(op, dtype, cell, out=None):
    """What reducectl prints for a cell, floats as their values: a list of numbers and words, of stats a dict."""
    out = out or oracle.default_out(op, dtype)

    def one(bits, kind=out):
        return oracle.float_value(bits, kind) if kind in oracle.FLOATS else int(oracle.value_text(bits, kind))

    if op == "stats":
        w = [cell >> 64 * i & 2**64 - 1 for i in range(12)]
        place = lambda i: "none" if i == oracle.NO_INDEX else i
        total = one(w[7]) if dtype in oracle.FLOATS else int.from_bytes(struct.pack("<2Q", w[7], w[8]), "little", signed=True)
        edges = [one(w[5]), one(w[6])] if w[0] else ["none"] * 2
        values = [*w[:3], *edges, place(w[3]), place(w[4]), total, *(one(x, "f64") for x in w[9:])]
        return dict(zip("count nans zeros min max argmin argmax sum mean var std".split(), values))
    if op in ("any", "all"):
        return ["true" if cell else "false"]
    if op.startswith("arg") and cell == oracle.NO_INDEX:
        return ["none"]
    width = 8 * oracle.SIZE[out]
    return [one(cell & 2**width - 1), one(cell >> width)] if op == "minmax" else [one(cell)]


def read(word):
    """A printed word as a number, exactly, or itself."""
    if re.fullmatch(r"-?\d+", word):
        return float(word) if word == "-0" else int(word)
    if "0x" in word:
        return float.fromhex(word)
    return word if word in ("true", "false", "none") else float(word)


def same(got, want):
    """Equal as numbers; -0 is not 0, NaN is NaN."""
    if isinstance(want, str) or isinstance(got, str):
        return got == want
    return (math.isnan(got) and math.isnan(want)) or (got == want and math.copysign(1, got) == math.copysign(1, want))


def parsed(op, text):
    """Printed results, one for each line, of stats one for each block."""
    rows = [line.split() for line in text.splitlines()]
    if op != "stats":
        return [[read(word) for word in row] for row in rows]
    results = []
    for name, word in rows:
        if name == "count":
            results.append({})
        if name not in ("row", "column", "segment", "file"):
            results[-1][name] = read(word)
    return results


def check(op, text, want):
    got = parsed(op, text)
    assert len(got) == len(want), text
    for g, w in zip(got, want):
        assert len(g) == len(w) and all(same(g[k], w[k]) for k in (w if op == "stats" else range(len(w)))), (op, g, w)


# ---- what is reduced ----
@pytest.mark.parametrize("dtype", oracle.DTYPES)
def test_every_op_on_raw_and_npy(run, scratch, dtype):
    rng = np.random.default_rng(50)
    bits = gens.gauss(rng, dtype, 500) if dtype in oracle.FLOATS else rng.integers(0, 2**7, 500).astype(oracle.unsigned(dtype))
    raw = scratch / "a.bin"
    raw.write_bytes(bits.tobytes())
    as_npy = npy(scratch / "a.npy", bits.view(NUMPY.get(dtype, "V2")))
    elements = oracle.Elements(dtype, bits)
    for op in oracle.ops(dtype):
        wrap = ["--wrap"] if op == "prod" and dtype not in oracle.FLOATS else []
        cell = oracle.value(elements, op, wrap=bool(wrap))
        for path, options in ((raw, ["--dtype", dtype]), (as_npy, [] if dtype in NUMPY else ["--dtype", dtype])):
            check(op, run(op, *options, *wrap, path), [shown(op, dtype, cell)])
            check(op, run(op, *options, *wrap, "--hex", path), [shown(op, dtype, cell)])
            assert int.from_bytes(run(op, *options, *wrap, "--raw", path, binary=True), "little") == cell


def test_shortest_decimals_read_back(run, scratch):
    rng = np.random.default_rng(51)
    values = rng.integers(0, 2**64, 300, np.uint64).view("<f8")
    values = np.concatenate([values[np.isfinite(values)], [0.0, -0.0, 5e-324, 1.7976931348623157e308, 0.1, 1e22, 123456789.0, 1 / 3]])
    path = scratch / "v.bin"
    path.write_bytes(values.tobytes())
    lines = run("max", "--dtype", "f64", "--rows", len(values), path).split()
    assert [struct.pack("<d", float(x)) for x in lines] == [struct.pack("<d", v) for v in values]
    assert all(len(re.sub(r"[-+.e]|^-?0\.?0*", "", x)) <= len(re.sub(r"[-+.e]|^-?0\.?0*", "", repr(float(v)))) + 4 for x, v in zip(lines, values))
    lines = run("max", "--dtype", "f64", "--hex", "--rows", len(values), path).split()
    assert [float.fromhex(x) for x in lines] == values.tolist()


@pytest.mark.parametrize("out", ["f16", "bf16", "f32"])
def test_narrow_replies_read_back(run, scratch, out):
    rng = np.random.default_rng(52)
    values = np.concatenate([rng.standard_normal(200), [65504.0, 6e-8, 1e-5, -0.0, 0.1]])
    path = scratch / "v.bin"
    path.write_bytes(values.tobytes())
    lines = run("sum", "--dtype", "f64", "--out", out, "--rows", len(values), path).split()
    for text, value in zip(lines, values):
        expected = oracle.reduce("sum", "f64", np.array([value]).view("<u8"), out=out)
        back = oracle.convert(struct.unpack("<Q", struct.pack("<d", float(text)))[0], "f64", out)
        assert back == expected, (text, value)
    hexes = run("sum", "--dtype", "f64", "--out", out, "--hex", "--rows", len(values), path).split()
    assert [float.fromhex(h) for h in hexes] == [oracle.float_value(oracle.reduce("sum", "f64", np.array([v]).view("<u8"), out=out), out) for v in values]


def test_special_values(run):
    f64 = lambda *v: struct.pack(f"<{len(v)}d", *v)
    ask = lambda op, data, *a: run(op, "--dtype", "f64", *a, "-", stdin=data).strip()
    assert ask("sum", f64(math.inf, 1)) == "inf" and ask("sum", f64(-math.inf)) == "-inf"
    assert ask("sum", f64(math.inf, -math.inf)) == "nan" and ask("sum", f64(-0.0)) == "-0" and ask("sum", b"") == "0"
    assert ask("sum", f64(math.nan, 2), "--nan", "omit") == "2"
    assert ask("sum", f64(1e308, 1e308, -1e308)) in ("1e+308", "1e308")


def test_rows(run, scratch):
    a = np.arange(12, dtype="<i4").reshape(4, 3)
    path = npy(scratch / "m.npy", a)
    assert run("sum", "--rows", 4, path).split() == ["3", "12", "21", "30"]
    assert run("argmax", "--rows", 2, path).split() == ["5", "5"]
    big = np.random.default_rng(53).standard_normal(100_000).astype("<f4")
    (scratch / "big").write_bytes(big.tobytes())
    assert run("max", "--rows", 100_000, "--out", "f32", "--raw", scratch / "big", binary=True) == big.tobytes()


def test_failing_row_is_numbered_in_the_file(fails, scratch):
    """Rows travel in blocks; the number told is that of the file."""
    a = np.ones(100_000, "<f4")
    a[80_000] = np.nan
    path = npy(scratch / "a.npy", a)
    done = fails(FAILED, "NAN", "sum", "--nan", "error", "--json", "--rows", 100_000, path)
    assert json.loads(done.stdout.decode().splitlines()[-1])["row"] == 80_000
    assert "80000" in done.stderr.decode()


def test_several_files_and_total(run, fails, scratch):
    for name, values in (("a", [1, 2]), ("b c", [10]), ("-d", [100, 200, 300])):
        (scratch / name).write_bytes(np.array(values, "<i4").tobytes())
    paths = [scratch / "a", scratch / "b c", scratch / "-d"]
    assert run("sum", "--dtype", "i32", *paths) == "".join(f"{v}  {p}\n" for v, p in zip((3, 10, 600), paths))
    assert run("sum", "--dtype", "i32", "--total", *paths) == "613\n"
    assert run("argmax", "--dtype", "i32", "--total", *paths) == "5\n"
    missing = fails(FAILED, "IO", "sum", "--dtype", "i32", paths[0], scratch / "nothing", paths[1])
    assert missing.stdout.decode().splitlines() == [f"3  {paths[0]}", f"10  {paths[1]}"], "the others are still done"
    npy(scratch / "f.npy", np.zeros(2))
    fails(FAILED, "TYPE", "sum", "--total", npy(scratch / "g.npy", np.zeros(2, "<f4")), scratch / "f.npy")


def test_pipes(run, ctl, shared, scratch):
    data = np.random.default_rng(54).integers(-(2**31), 2**31, 3_000_001, np.int64).astype("<i4")
    expected = f"{int(data.sum(dtype=np.int64))}\n"
    assert run("sum", "--dtype", "i32", "-", stdin=data.tobytes()) == expected
    assert run("sum", "--dtype", "i32", stdin=data.tobytes()) == expected, "without a file a pipe is meant"
    b = io.BytesIO()
    np.save(b, data)
    assert run("sum", "-", stdin=b.getvalue()) == expected
    with subprocess.Popen([BIN / "reducectl", "sum", "--dtype", "u8", "--no-autostart"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env={**os.environ, "REDUCED_URL": shared.url}) as p:
        for _ in range(50):  # a slow writer, pieces of odd sizes
            p.stdin.write(b"\1" * 7777)
            p.stdin.flush()
        p.stdin.close()
        assert p.stdout.read() == b"388850\n"


def test_text(run, fails):
    assert run("sum", "--text", stdin=b"1 2\n3.5\t-1e0\r\n") == "5.5\n"
    assert run("max", "--text", stdin=b"0x1p-3 .5 +0.25") == "0.5\n"
    assert run("count_nonzero", "--text", stdin=b"") == "0\n"
    assert run("sum", "--text", "--nan", "omit", stdin=b"nan 1 NaN 2") == "3\n"
    assert run("sum", "--text", stdin="\n".join(map(str, range(100_001))).encode()) == "5000050000\n"
    fails(FAILED, r"line 3.*'three'", "sum", "--text", stdin=b"1\n2\nthree\n4\n")
    fails(FAILED, r"line 1.*range", "sum", "--text", stdin=b"1e999")
    fails(FAILED, r"line 2.*too long", "sum", "--text", stdin=b"1\n" + b"7" * 5000)
    fails(FAILED, r"line 1", "sum", "--text", stdin=b"1,2,3")
    fails(FAILED, r"line 1", "sum", "--text", stdin=b"\x1b[31m\x00\xff")


# ---- .npy ----
def test_npy_of_every_shape(run, scratch):
    for i, a in enumerate([np.array(3.5), np.zeros(0, "<f4"), np.zeros((0, 5)), np.ones((2, 3, 4), "<i2"), np.asfortranarray(np.arange(6.0).reshape(2, 3)),
                           np.ones(1000, "?"), np.array([1, 2], "|i1")]):
        for version in ((1, 0), (2, 0), (3, 0)):
            assert float(run("sum", npy(scratch / f"{i}.npy", a, version=version))) == a.sum()


def broken_npy():
    b = io.BytesIO()
    np.save(b, np.arange(5, dtype="<f8"))
    good = b.getvalue()
    text = lambda dict_: b"\x93NUMPY\x01\x00" + struct.pack("<H", len(dict_)) + dict_ + bytes(40)
    yield "cut magic", good[:7], "BAD_MESSAGE|SHAPE"
    yield "cut header", good[:40], "BAD_MESSAGE"
    yield "cut data", good[:-1], "IO"
    yield "more data", good + b"x", "IO"
    yield "version", good[:6] + b"\x09" + good[7:], "BAD_MESSAGE"
    yield "huge header", good[:6] + b"\x02\x00\xff\xff\xff\x7f" + good[10:], "BAD_MESSAGE"
    yield "big-endian", npy_bytes(np.arange(3, dtype=">f8")), "TYPE.*big-endian"
    yield "complex", npy_bytes(np.zeros(3, complex)), "TYPE"
    yield "structured", npy_bytes(np.zeros(3, [("a", "i4"), ("b", "f8")])), "TYPE"
    yield "strings", npy_bytes(np.array(["abc"])), "TYPE"
    yield "objects", npy_bytes(np.array([None], object)), "TYPE"
    yield "no dict", text(b"[]"), "BAD_MESSAGE"
    yield "code", text(b"{'descr': __import__('os'), 'fortran_order': False, 'shape': (5,), }"), "BAD_MESSAGE"
    yield "missing key", text(b"{'descr': '<f8', 'shape': (5,), }"), "BAD_MESSAGE"
    yield "twice", text(b"{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (5,), }"), "BAD_MESSAGE"
    yield "negative", text(b"{'descr': '<f8', 'fortran_order': False, 'shape': (-5,), }"), "BAD_MESSAGE"
    yield "overflow", text(b"{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296, 2), }"), "BAD_MESSAGE"
    yield "bytes overflow", text(b"{'descr': '<f8', 'fortran_order': False, 'shape': (2305843009213693952,), }"), "TOO_LARGE|IO"
    yield "quote", text(b"{'descr': '<f8"), "BAD_MESSAGE"
    yield "nul", text(b"{'descr': '<f8\0', 'fortran_order': False, 'shape': (5,), }"), "BAD_MESSAGE"


def npy_bytes(array):
    b = io.BytesIO()
    np.lib.format.write_array(b, array, allow_pickle=True)
    return b.getvalue()


@pytest.mark.parametrize("name, data, told", list(broken_npy()), ids=lambda v: v if isinstance(v, str) and v.isprintable() else "")
def test_malformed_npy(fails, scratch, name, data, told):
    (scratch / "x.npy").write_bytes(data)
    fails(FAILED, told, "sum", scratch / "x.npy")


def test_npy_with_the_wrong_dtype_option(fails, scratch):
    fails(FAILED, "TYPE.*f32.*f64", "sum", "--dtype", "f32", npy(scratch / "a.npy", np.zeros(3)))
    fails(FAILED, "Fortran", "sum", "--rows", 2, npy(scratch / "b.npy", np.asfortranarray(np.zeros((2, 3)))))
    fails(FAILED, "Fortran", "argmax", "--total", scratch / "b.npy", scratch / "a.npy")


# ---- errors and exit codes ----
def test_errors_of_the_reduction(fails, scratch):
    i64 = struct.pack("<2q", 2**63 - 1, 2**63 - 1)
    done = fails(FAILED, f"OVERFLOW.*{2**64 - 2}", "sum", "--dtype", "i64", "--json", stdin=i64)
    assert json.loads(done.stdout)["exact"] == 2**64 - 2 and json.loads(done.stdout)["error"] == "OVERFLOW"
    fails(FAILED, f"OVERFLOW.*-{2**64}", "sum", "--dtype", "i64", stdin=struct.pack("<2q", -(2**63), -(2**63)))
    fails(FAILED, "EMPTY", "min", stdin=b"")
    fails(FAILED, "NAN", "sum", "--nan", "error", stdin=struct.pack("<f", math.nan))
    fails(FAILED, "TYPE", "sum", "--dtype", "i32", "--out", "f64", stdin=bytes(8))
    fails(FAILED, "SHAPE", "sum", stdin=b"12345")
    (scratch / "odd").write_bytes(b"12345")
    fails(FAILED, "SHAPE.*default", "sum", scratch / "odd")
    fails(FAILED, "SHAPE", "sum", "--rows", 3, "--dtype", "u8", scratch / "odd")
    fails(FAILED, "IO", "sum", scratch)  # a directory
    fails(FAILED, "IO", "sum", scratch / "nothing")
    os.mkdir(scratch / "locked", 0)


@pytest.mark.parametrize("args, told", [
    ((), "no operation"), (("summ",), "summ"), (("sum", "--dtype", "float"), "float"), (("sum", "--out", "x"), "x"), (("sum", "--nan", "drop"), "drop"),
    (("sum", "--rows", "0"), "rows"), (("sum", "--rows", "-1"), "rows"), (("sum", "--rows", "1e3"), "rows"), (("sum", "--rows", "99999999999999999999"), "rows"),
    (("sum", "--deadline", "0"), "deadline"), (("sum", "--deadline", "2147483648"), "deadline"), (("sum", "--colour"), "colour"), (("sum", "-x"), "-x"),
    (("sum", "--dtype"), "value"), (("sum", "--hex", "--json", "-"), "only one"), (("sum", "--total", "--rows", "2", "-"), "exclude"),
    (("ping", "file"), "no files"), (("status", "--hex"), "json"), (("sum", "--text", "--dtype", "i8", "-"), "text"),
])
def test_wrong_usage(fails, args, told):
    done = fails(USAGE, told, *args)
    assert b"--help" in done.stderr and not done.stdout


def test_no_daemon(ctl, scratch):
    for url in (f"ipc://{scratch}/none", "tcp://127.0.0.1:1"):
        done = ctl("ping", "--connect", url)
        assert done.returncode == NO_DAEMON and done.stderr.startswith(b"reducectl: "), done.stderr
    assert ctl("sum", "-", stdin=b"1234").returncode == NO_DAEMON
    assert ctl("ping", "--connect", "http://x").returncode == USAGE


def test_output_that_cannot_be_written(shared):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([BIN / "reducectl", "sum", "--no-autostart"], input=bytes(4), stdout=full, stderr=subprocess.PIPE, env={**os.environ, "REDUCED_URL": shared.url})
    assert done.returncode == FAILED and b"cannot write" in done.stderr


def test_deadline(fails, shared):
    with subprocess.Popen([BIN / "reducectl", "sum", "--deadline", "200", "--no-autostart"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={**os.environ, "REDUCED_URL": shared.url}) as p:
        p.stdin.write(bytes(8 << 20))
        p.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            p.wait(0.5)  # the pipe stays open beyond the deadline
        p.stdin.close()
        assert p.wait(60) == FAILED and b"DEADLINE" in p.stderr.read()


# ---- formats ----
def test_json(run, scratch):
    name = scratch / 'odd "name"\n\u00fc\x01'
    name.write_bytes(struct.pack("<3f", 1.5, 2.25, -0.5))
    line = json.loads(run("sum", "--json", name))
    assert line["value"] == 3.25 and line["op"] == "sum" and line["count"] == 3 and line["file"] == str(name) and line["backend"] in ("cpu", "cuda")
    assert json.loads(run("sum", "--json", stdin=struct.pack("<f", math.nan)))["value"] == "nan"
    assert [json.loads(x)["row"] for x in run("max", "--json", "--rows", 3, name).splitlines()] == [0, 1, 2]
    assert json.loads(run("sum", "--json", "--dtype", "u64", stdin=b"\xff" * 8))["value"] == 2**64 - 1


def test_verbose_names_the_default_type(ctl, shared):
    done = ctl("sum", "-v", url=shared.url, stdin=bytes(8))
    assert done.returncode == OK and done.stdout == b"0\n" and b"f32" in done.stderr and b"default" in done.stderr


def test_ping_info_status(run):
    assert re.search(r"reduced .* in \d+ us", run("ping"))
    assert json.loads(run("ping", "--json"))["ns"] > 0
    for topic in ("info", "status"):
        told = json.loads(run(topic, "--json"))
        lines = dict(line.split(None, 1) for line in run(topic).splitlines())
        assert set(lines) <= set(told) | set(lines) and lines["backend"] == told["backend"]
    for key in ("backend", "device", "sessions", "requests", "bytes_in", "pool.device.bytes", "pool.pinned.bytes", "latency.p50_us", "latency.p99_us"):
        assert key in told, key


def test_help_teaches_and_its_examples_work(run, ctl, scratch, shared):
    text = run("--help")
    assert run("help") == text
    for option in ("--dtype", "--out", "--nan", "--rows", "--connect", "--deadline", "--json", "--hex", "--raw", "--text", "--total", "--no-autostart", "-v"):
        assert option in text
    npy(scratch / "data.npy", np.array([1.5, 2.5]))
    npy(scratch / "m.npy", np.arange(3000.0).reshape(1000, 3))
    npy(scratch / "t.npy", np.array([1.0, np.nan]))
    (scratch / "x.raw").write_bytes(struct.pack("<2H", 7, 9))
    (scratch / "x.bin").write_bytes(struct.pack("<2q", 7, 9))
    subprocess.run("head -c 4000 /dev/zero | gzip > big.f32.gz", shell=True, cwd=scratch, check=True)
    examples = re.findall(r"^  (.*reducectl \w+ .*?)(?: {2,}.*)?$", text.split("Examples")[1], re.M)
    assert len(examples) >= 6
    for example in examples:
        done = subprocess.run(example, shell=True, cwd=scratch, capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "REDUCED_URL": shared.url})
        assert done.returncode == OK and done.stdout, (example, done.stderr)


def test_version(run):
    assert re.fullmatch(r"reducectl \d+\.\d+\.\d+\n", run("--version"))


# ---- the private daemon ----
def test_autostart(ctl, scratch):
    """The first command of a newcomer: a daemon of his own comes up, serves, is found again, and goes on SIGTERM."""
    pids = lambda: [int(p.name) for p in pathlib.Path("/proc").iterdir() if p.name.isdigit() and is_ours(p)]

    def is_ours(p):
        try:
            return str(BIN / "reduced").encode() in (p / "cmdline").read_bytes().split(b"\0")[0] and str(scratch).encode() in (p / "environ").read_bytes()
        except OSError:
            return False

    root = os.geteuid() == 0  # root's daemon is the system's: give it a place of its own
    url = f"ipc://{scratch}/own.sock" if root else None
    try:
        done = ctl("sum", "-v", stdin=struct.pack("<f", 2.5), autostart=True, url=url)
        if root and done.returncode == NO_DAEMON:
            pytest.skip("autostart is for the usual places")
        assert done.returncode == OK and done.stdout == b"2.5\n" and b"started now" in done.stderr, done.stderr
        assert len(pids()) == 1
        again = ctl("sum", "-v", stdin=struct.pack("<f", 3.5), autostart=True, url=url)
        assert again.stdout == b"3.5\n" and b"started now" not in again.stderr
        assert ctl("ping", url=url).returncode == OK, "found without starting one, too"
        assert len(pids()) == 1
    finally:
        for pid in pids():
            os.kill(pid, signal.SIGTERM)


def test_many_autostart_at_once(ctl, scratch):
    """Ten first commands at the same moment: all answered, one daemon in the end."""
    env = {**os.environ, "XDG_RUNTIME_DIR": str(scratch), "XDG_CONFIG_HOME": str(scratch), "HOME": str(scratch)}
    if os.geteuid() == 0:
        env["REDUCED_URL"] = f"ipc://{scratch}/own.sock"
    commands = [subprocess.Popen([BIN / "reducectl", "sum"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) for _ in range(10)]
    answers = [c.communicate(struct.pack("<f", 2.5), timeout=60) for c in commands]
    found = [int(p.name) for p in pathlib.Path("/proc").iterdir() if p.name.isdigit() and owned(p, scratch)]
    for pid in found:
        os.kill(pid, signal.SIGTERM)
    if os.geteuid() == 0 and all(c.returncode == NO_DAEMON for c in commands):
        pytest.skip("autostart is for the usual places")
    assert [a[0] for a in answers] == [b"2.5\n"] * 10, answers
    assert len(found) == 1


def owned(p, scratch):
    try:
        return (p / "cmdline").read_bytes().split(b"\0")[0].endswith(b"reduced") and str(scratch).encode() in (p / "environ").read_bytes()
    except OSError:
        return False
