"""Files, shared memory and messages through libreduce and reducectl: the same bits from each, and what happens where one of
them cannot be had."""
import ctypes
import json
import mmap
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import pytest

from conftest import BIN, SANITIZER, TESTS, python_env, sanitizer, select_a_moment
from libreduce import COLUMNS, STATES_OUT, Client, Fault
from rawclient import REDUCE_AT
from relay import Relay
from test_side import calm, settle  # noqa: F401

AUTO, INLINE, STREAM, SHM, FILE = range(5)
NAMES = {INLINE: "inline", STREAM: "stream", SHM: "shm", FILE: "file"}
SEED = 20261122
MIB = 1 << 20


@pytest.fixture
def lib(shared):
    with Client(shared.url) as c:
        yield c


def noise(size, seed=SEED):
    """Any bits, but few enough NaNs and infinities to leave finite sums in some rows."""
    return bytearray(random.Random(seed).randbytes(size))


def address(data):
    return ctypes.addressof(ctypes.c_char.from_buffer(data))


def file_of(folder, data):
    path = folder / "data"
    path.write_bytes(b"#" * 64 + data)
    return os.open(path, os.O_RDONLY)


# ---- libreduce ----
REDUCTIONS = [
    ("sum", "f32", {}), ("stats", "f64", {"nan": "omit"}), ("max", "f16", {"rows": 1024, "nan": "omit"}), ("sumsq", "u32", {"flags": STATES_OUT, "rows": 2}),
    ("stats", "i16", {"rows": 64, "planes": 21 * MIB // 8192, "flags": COLUMNS}), ("var", "u8", {"rows": 21 * 1024, "flags": COLUMNS}),
    ("sum", "f64", {"nan": "omit"}), ("argmin", "i16", {"index_base": 1000}), ("prod", "bf16", {}), ("var", "i64", {"ddof": 1}), ("sum", "i32", {"rows": 7}),
    ("xor", "u8", {"rows": 3 * MIB // 8}), ("norm2", "f32", {"initial": b"\0\0\x80\x40"})]


@pytest.mark.values
@pytest.mark.parametrize("op,dtype,kw", REDUCTIONS[:4] if sanitizer() else REDUCTIONS, ids=str)
def test_same_bits_by_every_path(lib, scratch, op, dtype, kw):
    size = 21 * MIB  # a few rounds of the stage; 7 x 3 MiB
    data = noise(size)
    fd = file_of(scratch, data)
    memory = lib.alloc(size)
    ctypes.memmove(memory, address(data), size)
    want, result = lib.run_at(op, dtype, address(data), size, path=INLINE, **kw)
    assert result.path == INLINE
    for path in (AUTO, SHM):
        for where in (address(data), memory):
            got, result = lib.run_at(op, dtype, where, size, path=path, **kw)
            assert got == want and result.path == SHM
    for path in (AUTO, INLINE, SHM, FILE):
        got, result = lib.file(op, dtype, fd, 64, size, path=path, **kw)
        assert got == want and result.path == (path or FILE)
        assert result.count * {"8": 1, "6": 2, "2": 4, "4": 8}[dtype[-1]] == size and result.compute_ns > 0
    assert (result.copy_ns > 0) == (result.path == FILE)
    lib.free(memory)
    os.close(fd)


def test_larger_arrays_are_copied_in_larger_tiles(shared, lib):
    """... through memory that is made anew for them; what there was is given back."""
    a, stage = np.arange(260 * MIB // 8 + 1, dtype="u8"), 12 * MIB
    for size, tile in ((3 * MIB, 1), (130 * MIB, 2), (3 * MIB + 8, 2), (a.nbytes, 4)):
        for rows in (1, 5):
            part = a[: size // 8 // rows * rows]
            got, result = lib.run_at("sum", "u64", part.ctypes.data, part.nbytes, rows=rows)
            assert np.frombuffer(got, "u8").tolist() == part.reshape(rows, -1).sum(axis=1).tolist() and result.path == SHM
        while shared.status()["side.arena_bytes"] != tile * stage:  # the smaller one may still be on its way out
            select_a_moment(shared.process)


@pytest.mark.same_threads
@pytest.mark.parametrize("op, rows, planes", [("sum", 64, 256), ("stats", 3, 2), ("argmin", 4096, 16)])
def test_rows_in_runs(lib, scratch, op, rows, planes):
    """Cut between rows, between runs and within them; from memory, a file and by every path the same bits."""
    a = np.frombuffer(noise(24 * MIB), "u2").reshape(planes, rows, -1)
    b = np.ascontiguousarray(a.swapaxes(0, 1)).reshape(rows, -1)
    want, _ = lib.run_at(op, "i16", b.ctypes.data, b.nbytes, rows=rows)
    memory = lib.alloc(a.nbytes)
    ctypes.memmove(memory, a.ctypes.data, a.nbytes)
    for where in (a.ctypes.data, memory):
        for path in (AUTO, INLINE, SHM):
            got, result = lib.run_at(op, "i16", where, a.nbytes, rows=rows, planes=planes, path=path)
            assert got == want and result.path == (path or SHM)
    fd = file_of(scratch, a.tobytes())
    for path in (AUTO, SHM):
        got, result = lib.file(op, "i16", fd, 64, a.nbytes, rows=rows, planes=planes, path=path)
        assert got == want
    lib.free(memory)
    os.close(fd)


@pytest.mark.same_threads(threads_elsewhere=True)
def test_shapes_that_are_copied(lib):
    """Masks, columns and segments of memory that the daemon has, and of memory that it has not."""
    a = np.frombuffer(noise(8 * MIB), "u2").reshape(2048, 2048)
    mask = np.frombuffer(random.Random(SEED).randbytes(a.size), "u1") & 1
    offsets = np.sort(np.random.default_rng(SEED).integers(0, a.size, 1001)).astype("u8")
    offsets[500] = offsets[501] - 1 if offsets[501] else 0
    offsets = np.sort(offsets)
    memory = lib.alloc(a.nbytes)
    ctypes.memmove(memory, a.ctypes.data, a.nbytes)
    segments = [int(a.reshape(-1)[i:j].sum(dtype="u8")) for i, j in zip(offsets[:-1].tolist(), offsets[1:].tolist())]
    for where in (a.ctypes.data, memory):
        for path in (AUTO, INLINE, SHM):
            got, result = lib.run_at("sum", "u16", where, a.nbytes, mask=mask.tobytes(), path=path)
            assert int.from_bytes(got, "little") == int(a.reshape(-1)[mask != 0].sum(dtype="u8")) and result.path == (path or SHM)
            got, result = lib.run_at("sum", "u16", where, a.nbytes, flags=COLUMNS, rows=2048, path=path)
            assert np.array_equal(np.frombuffer(got, "u8"), a.sum(axis=0, dtype="u8")) and result.path == (path or SHM)
            got, result = lib.run_at("sum", "u16", where, a.nbytes, rows=1000, offsets=offsets.tobytes(), path=path)
            assert np.frombuffer(got, "u8").tolist() == segments and result.path == INLINE  # offsets go in messages
    lib.free(memory)


def test_parts_of_allocated_memory(lib):
    memory = lib.alloc(4 * MIB)
    ctypes.memset(memory, 1, 4 * MIB)
    for at, size in ((0, 4 * MIB), (1, 4 * MIB - 1), (MIB + 3, 2 * MIB), (4 * MIB - 100, 100), (3 * MIB, MIB)):
        got, _ = lib.run_at("sum", "u8", memory + at, size)
        assert int.from_bytes(got, "little") == size
    lib.free(memory)
    lib.free(None)


def test_an_arena_that_cannot_be_mapped_is_given_back(shared, lib):
    """No room for addresses: the daemon must not count what nobody has."""
    resource_limits = resource.getrlimit(resource.RLIMIT_AS)
    with shared.connect() as c:
        before = c.query(2)["side.arena_bytes"]
        used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
        resource.setrlimit(resource.RLIMIT_AS, (used + 16 * MIB, resource_limits[1]))
        try:
            with pytest.raises(Fault) as caught:
                lib.alloc(64 * MIB)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, resource_limits)
        assert caught.value.code == "NO_MEMORY"
        until = time.monotonic() + 20
        while c.query(2)["side.arena_bytes"] > before:  # a worker frees it
            assert time.monotonic() < until
            select_a_moment(shared.process)


def test_small_arrays_go_in_messages(lib, scratch):
    data = noise(1000)
    fd = file_of(scratch, data)
    want, result = lib.run_at("sum", "u8", address(data), 1000)
    assert result.path == INLINE
    assert lib.file("sum", "u8", fd, 64, 1000)[1].path == INLINE
    assert lib.file("sum", "u8", fd, 64, 1000, path=FILE)[0] == want
    assert lib.file("sum", "u8", fd, 64, 0, path=FILE)[0] == bytes(8)
    os.close(fd)


def fails(code, call, *args, **kw):
    with pytest.raises(Fault) as e:
        call(*args, **kw)
    assert e.value.code == code, e.value
    return e.value


@pytest.mark.same_threads(threads_elsewhere=True)
def test_wrong_files(lib, scratch):
    data = noise(2 * MIB)
    fd = file_of(scratch, data)
    write, folder, null = os.open(scratch / "data", os.O_WRONLY), os.open(scratch, os.O_RDONLY), os.open("/dev/zero", os.O_RDONLY)
    pipe = os.pipe()
    for path in (AUTO, INLINE, SHM, FILE):
        assert fails("IO", lib.file, "sum", "u8", fd, 65, 2 * MIB, path=path).field == "file"  # one byte too many
        assert fails("IO", lib.file, "sum", "u8", fd, 10**12, 2 * MIB, path=path).field == "file"
        for bad in (folder, null, *pipe):
            fails("IO", lib.file, "sum", "u8", bad, 0, 2 * MIB, path=path)
        fails("ARGUMENT", lib.file, "sum", "u8", -1, 0, 2 * MIB, path=path)
        fails("ARGUMENT", lib.file, "sum", "u8", fd, 2**63, 2 * MIB, path=path)
        fails("ARGUMENT", lib.file, "sum", "u8", fd, 0, 2 * MIB, mask=bytes(2 * MIB), path=path)
        fails("IO", lib.file, "sum", "u8", fd, 65, 2 * MIB, flags=COLUMNS, rows=2, path=path)
        fails("SHAPE", lib.file, "sum", "u8", fd, 64, 2 * MIB, flags=COLUMNS, rows=3, path=path)
    fails("IO", lib.file, "sum", "u8", write, 0, 2 * MIB)
    fails("ARGUMENT", lib.file, "sum", "u8", fd, 0, MIB, path=STREAM)
    fails("ARGUMENT", lib.run_at, "sum", "u8", address(data), MIB, path=FILE)
    fails("ARGUMENT", lib.run_at, "sum", "u8", address(data), MIB, path=5)
    assert lib.file("sum", "u8", fd, 64, 2 * MIB)[0] == lib.run_at("sum", "u8", address(data), 2 * MIB)[0]
    for x in (fd, write, folder, null, *pipe):
        os.close(x)


def test_an_error_in_the_middle_leaves_nothing(shared, scratch):
    """A file that shrinks while it is read, again and again, and deadlines."""
    before = settle(shared)
    data = noise(32 * MIB)
    fd = file_of(scratch, data)
    seen = set()
    with Client(shared.url) as c:
        want = c.file("sum", "u8", fd, 64, len(data))[0]
        for i in range(30):  # each path with each length and deadline
            path = (FILE, SHM, INLINE)[i % 3]
            cutter = threading.Thread(target=os.truncate, args=(scratch / "data", 40 * MIB - (i % 10) * 4 * MIB))
            cutter.start()
            try:
                assert c.file("max", "u8", fd, 64, len(data), path=path, deadline_ms=(0, 5)[i % 2])[0]
                seen.add("OK")
            except Fault as e:
                seen.add(e.code)
            cutter.join()
        (scratch / "data").write_bytes(b"#" * 64 + data)
        assert c.file("sum", "u8", fd, 64, len(data))[0] == want
    assert "IO" in seen and seen <= {"OK", "IO", "DEADLINE"}
    os.close(fd)
    settle(shared, before)


def test_closing_unmaps_the_stage(shared):
    def arenas():
        return [line for line in pathlib.Path("/proc/self/maps").read_text().splitlines() if "memfd:" in line]

    before = arenas()
    with Client(shared.url) as client:
        data = noise(4 * MIB)
        _, result = client.run_at("sum", "u8", address(data), len(data), path=SHM)
        assert result.path == SHM and len(arenas()) == len(before) + 1
    assert arenas() == before


def test_closing_closes_the_channel(shared):
    """Also after a job whose callback freed it, which lets go of the client in another place than other jobs."""
    def sockets():
        return {p.name for p in pathlib.Path("/proc/self/fd").iterdir() if p.is_socket()}

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
    def done(_, freed, err):
        client.lib.reduce_job_free(ctypes.c_void_p(freed))
        errors.append(err)
        called.set()

    before, errors, called = sockets(), [], threading.Event()
    data, out, job = noise(4 * MIB), ctypes.create_string_buffer(8), ctypes.c_void_p()
    with Client(shared.url) as client:
        client.run_at("sum", "u8", address(data), len(data), path=SHM)
        assert len(sockets() - before) == 2
        assert client.lib.reduce_submit(client.handle, ctypes.byref(client.spec("sum", "u8")), ctypes.c_void_p(address(data)), ctypes.c_size_t(len(data)), out,
                                        ctypes.c_size_t(8), done, None, ctypes.byref(job)) == 0
        assert called.wait(60)
    assert sockets() <= before and errors == [0] and int.from_bytes(out.raw, "little") == sum(data)


def test_many_threads_share_one_stage(lib):
    arrays = [noise(5 * MIB + 8 * i, i) for i in range(6)]
    wants = [int(np.frombuffer(a, "u8").sum(dtype="u8")) for a in arrays]
    wrong = []

    def work(i):
        for _ in range(4):
            got, _ = lib.run_at("xor", "u64", address(arrays[i]), len(arrays[i]))
            if int.from_bytes(got, "little") != int(np.bitwise_xor.reduce(np.frombuffer(arrays[i], "u8"))):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and len(wants) == 6


def test_everything_goes_on_after_a_restart(start, scratch):
    """Handles of the daemon before mean nothing to the next one: data go in messages, and by the fast ways again."""
    daemon = start()
    data = noise(16 * MIB)
    fd = file_of(scratch, data)
    with Client(daemon.url) as c:
        memory = c.alloc(len(data))
        ctypes.memmove(memory, address(data), len(data))
        want = c.run_at("xor", "u64", memory, len(data))[0]
        for i in range(3):
            daemon.kill()
            daemon = start()
            for _ in range(2):
                assert c.run_at("xor", "u64", memory, len(data))[0] == want
                assert c.run_at("xor", "u64", address(data), len(data))[0] == want
                assert c.file("xor", "u64", fd, 64, len(data))[0] == want
            assert c.run_at("xor", "u64", address(data), len(data))[1].path == SHM
            assert c.file("xor", "u64", fd, 64, len(data))[1].path == FILE
        c.free(memory)
    os.close(fd)


@pytest.mark.same_threads
@pytest.mark.parametrize("error", [None, "TOO_LARGE", "BAD_HANDLE"])
def test_long_ranges_of_columns_are_given_up(shared, scratch, error):
    """A daemon that no longer takes them, or that has lost the file: the job begins again with ranges that any daemon takes."""
    rows, columns = 2200, 16384
    data = np.zeros((5, columns), "<f4")
    data[1], data[4] = np.arange(columns), 0.5
    want = data.sum(0).astype("<f8").tobytes()
    with open(scratch / "data", "w+b") as f:
        f.write(data.tobytes())
        f.truncate(rows * columns * 4)
        os.symlink(shared.url.removeprefix("ipc://") + ".side", scratch / "relay.side")
        with Relay(scratch / "relay", shared.url, 4 * MIB, MIB, cancelled=REDUCE_AT if error else None, error=error) as relay, Client(relay.url) as c:
            for _ in range(2):  # the second time the daemon takes them
                cells, result = c.file("sum", "f32", f.fileno(), 0, rows * columns * 4, flags=COLUMNS, rows=rows)
                assert cells == want
            assert result.path == FILE and relay.cancelled is None
            assert relay.longest_range > 4 * MIB


def test_threads_and_restarts(start, scratch):
    (scratch / "data").write_bytes(noise(6 * MIB))
    daemon = start()
    worker = subprocess.Popen([sys.executable, TESTS / "paths_worker.py", daemon.url, scratch / "data"], env=python_env(), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert worker.stdout.readline() == b"ready\n", worker.stderr.read().decode()
    for _ in range(3):
        daemon.kill()
        daemon = start()
        end = time.monotonic() + 60
        while daemon.status()["requests.reduce_at"] < 20 and worker.poll() is None:
            assert time.monotonic() < end
            select_a_moment(daemon.process)
    out, err = worker.communicate(timeout=120)
    assert worker.returncode == 0 and int(out) > 0 and not SANITIZER.search(err.decode()), err.decode()


def test_over_tcp_everything_goes_in_messages(shared, scratch):
    data = noise(6 * MIB)
    fd = file_of(scratch, data)
    with Client(shared.tcp_url) as c:
        memory = c.alloc(len(data))
        ctypes.memmove(memory, address(data), len(data))
        want, result = c.run_at("sum", "u8", address(data), len(data))
        assert result.path == INLINE
        for got, result in (c.run_at("sum", "u8", memory, len(data)), c.file("sum", "u8", fd, 64, len(data))):
            assert got == want and result.path == INLINE
        for call, where in ((c.run_at, [address(data)]), (c.file, [fd, 64])):
            e = fails("ARGUMENT", call, "sum", "u8", *where, len(data), path=SHM)
            assert e.field == "path" and "passes no descriptors" in e.text
        fails("ARGUMENT", c.file, "sum", "u8", fd, 64, len(data), path=FILE)
        c.free(memory)
    os.close(fd)


# ---- reducectl ----
@pytest.mark.same_threads(threads_elsewhere=True)
def test_reducectl_by_every_path(shared, ctl, scratch):
    a = np.frombuffer(noise(9 * MIB), "f4").reshape(9, -1)
    np.save(scratch / "a.npy", a)
    a.tofile(scratch / "a.raw")
    for args in (["stats", "--nan", "omit", "a.npy"], ["max", "-t", "i64", "a.raw"], ["max", "--axis", "1", "--nan", "omit", "a.npy"],
                 ["sum", "--rows", "9", "-t", "f32", "a.raw"], ["xor", "-t", "u8", "a.raw"]):
        outputs = set()
        args[-1] = scratch / args[-1]
        for path in (None, "inline", "shm", "file"):
            done = ctl(*args, "--json", *(["--path", path] if path else []), url=shared.url)
            assert done.returncode == 0, done.stderr
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            assert {line["path"] for line in lines} == {path or "file"}
            outputs.add(json.dumps([line["value"] for line in lines]))
        assert len(outputs) == 1
    stream = ctl("sum", "-t", "f32", "--json", "--path", "stream", scratch / "a.raw", url=shared.url)
    assert json.loads(stream.stdout)["path"] == "stream"
    assert json.loads(ctl("sum", "-t", "f32", "--json", stdin=a.tobytes(), url=shared.url).stdout)["path"] == "stream"
    with open(scratch / "a.raw", "rb") as f:  # standard input may be a file, somewhere in the middle
        f.seek(4 * MIB)
        env = {**os.environ, "REDUCED_URL": shared.url}
        done = subprocess.run([BIN / "reducectl", "sum", "-t", "u8", "--json", "--no-autostart", "-"], stdin=f, capture_output=True, env=env, timeout=60)
    answer = json.loads(done.stdout)
    assert (answer["path"], answer["value"]) == ("file", int(a.view("u1").reshape(-1)[4 * MIB:].sum(dtype="u8")))


@pytest.mark.same_threads(threads_elsewhere=True)
def test_reducectl_falls_back_and_says_so(start, ctl, scratch):
    daemon = start("--arena", 1, tcp=True)
    np.full(MIB, 0.5, "f8").tofile(scratch / "a")
    done = ctl("sum", "-t", "f64", "-v", "--json", scratch / "a", url=daemon.tcp_url)
    assert json.loads(done.stdout)["path"] == "inline" and b"no shared memory and no passed files: the daemon passes no" in done.stderr
    done = ctl("sum", "-t", "f64", "-v", "--path", "shm", scratch / "a", url=daemon.url)  # the quota is below a stage
    assert done.returncode == 2 and b"TOO_LARGE" in done.stderr
    np.save(scratch / "c.npy", np.full((1024, 1024), 0.5))
    done = ctl("sum", "-v", "--axis", "0", "--json", scratch / "c.npy", url=daemon.url)
    assert {json.loads(line)["path"] for line in done.stdout.splitlines()} == {"file"}  # which needs no stage
    (scratch / "no socket").touch()
    (scratch / "no socket").replace(f"{daemon.path}.side")  # what is removed comes back within a second
    done = ctl("sum", "-t", "f64", "-v", "--json", scratch / "a", url=daemon.url)
    assert json.loads(done.stdout)["value"] == MIB / 2 and json.loads(done.stdout)["path"] == "inline"
    assert b"cannot be reached" in done.stderr
    assert ctl("sum", "-t", "f64", "--path", "file", scratch / "a", url=daemon.url).returncode == 2
    assert ctl("sum", "--path", "nothing", scratch / "a", url=daemon.url).returncode == 2
    assert ctl("sum", "-t", "f32", "--path", "file", stdin=b"1234", url=daemon.url).returncode == 2


@pytest.mark.parametrize("n", [30, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("path", ["file", "shm", "inline", "stream"])
def test_killed_reducectl_leaves_nothing(calm, scratch, path, n):  # noqa: F811
    data = scratch / "data"
    with open(data, "wb") as f:
        for _ in range(24):
            f.write(noise(MIB))
    pick = random.Random(SEED)
    env = {**os.environ, "REDUCED_URL": calm.url}
    killed = 0
    for _ in range(n):
        p = subprocess.Popen([BIN / "reducectl", "stats", "-t", "f32", "--no-autostart", "--path", path, data], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
        try:
            p.wait(pick.uniform(0, 0.03))
        except subprocess.TimeoutExpired:
            p.send_signal(signal.SIGKILL)
            killed += p.wait() == -signal.SIGKILL
    assert killed
    done = subprocess.run([BIN / "reducectl", "sum", "-t", "u8", "--no-autostart", "--path", path, data], capture_output=True, env=env, timeout=60)
    assert int(done.stdout) == int(np.fromfile(data, "u1").sum(dtype="u8"))


# ---- memory on a GPU, where there is none ----
def device_fault(lib, handle=b"h" * 64, offset=0, size=4096, **kw):
    with pytest.raises(Fault) as e:
        lib.device("sum", "f32", handle, offset, size, **kw)
    return e.value.code, e.value.field


def test_data_on_a_device_need_one(lib):
    assert device_fault(lib) == ("TYPE", "device")
    assert device_fault(lib, None) == ("ARGUMENT", "handle")
    assert device_fault(lib, path=INLINE) == ("ARGUMENT", "path")
    assert device_fault(lib, mask=bytes(1024)) == ("ARGUMENT", "spec")
    assert device_fault(lib, size=4097) == ("SHAPE", "bytes")
    assert device_fault(lib, size=2**23, rows=1, flags=COLUMNS) == ("TOO_LARGE", "columns")
    with tempfile.TemporaryFile() as f, pytest.raises(Fault) as e:
        lib.device_import(f.fileno(), 4096)
    assert (e.value.code, e.value.field) == ("TYPE", "device")
    assert lib.lib.reduce_device_close(lib.handle, b"h" * 64) == 0
    assert lib.lib.reduce_device_close(lib.handle, None) == -101
    assert lib.run("sum", "f32", bytes(4096)) == bytes(8)


def test_data_on_a_device_need_a_local_daemon(start):
    daemon = start(tcp=True)
    with Client(daemon.tcp_url) as lib:
        assert device_fault(lib) == ("ARGUMENT", "device")
