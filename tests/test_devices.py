"""Several devices behind one daemon, on machines without a GPU: the CPU engine opened several times, devices made of memory
(tests/device/device.c) that fail on cue, and the CUDA engine's own runtime on a CUDA made of memory (tests/device/kernels.cu)."""
import json
import os
import random
import select
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import order
import pairs
from conftest import BIN, memory_device, sanitizer, select_a_moment
from libreduce import Client as LibClient
from libreduce import Fault as LibFault
from oracle import DTYPES, SIZE
from rawclient import (COLUMNS, COMPANION, EXTENTS, HANDLE, REDUCE, REDUCE_AT, ROLES, STATES_IN, STATES_OUT, STORE, WEIGHTS, Fault, parameter, parse_result, part, spec,
                       store)
from sideclient import Side
from test_order import random_bits, request
from test_side import refused

DEVICE, RUNTIME = "tests/reduced-device", "faults/reduced-devices"
SEED = 20261122
ANY, SPREAD, FIRST = 0, 1, 2  # places of resident data


@pytest.fixture
def memory(start, monkeypatch):
    """memory(n, *flags) -> a daemon with n devices made of memory."""
    options = memory_device()

    def run(n, *flags, **kw):
        monkeypatch.setenv("DEVICES_OF_MEMORY", str(n))
        return start("--small-bytes", 0, "--sandbox", "no", "--threads", 1, *flags, **options, **kw)

    return run


def wait(daemon, condition):
    for _ in range(6000):
        if condition():
            return
        select_a_moment(daemon.process)
    raise AssertionError("never true")


@pytest.mark.parametrize("program", [None, DEVICE, RUNTIME], ids=["cpu", "memory", "runtime"])
def test_the_bits_do_not_depend_on_the_number_of_devices(start, scratch, ctl, monkeypatch, program):
    """Random requests, inline, as a file and of resident data at random places: the replies of 1, 2 and 8 engines, devices made of
    memory and devices of the CUDA runtime are the same, and each takes part."""
    rng, np_rng = random.Random(SEED), np.random.default_rng(SEED)
    cases = []
    for i in range(40):
        op, dtype = rng.choice(("sum", "mean", "var", "min", "argmax", "stats", "norm2", "prod", "count_nan")), rng.choice(("f32", "f64", "i16", "u8", "bf16"))
        columns, rows, row_len, planes = rng.random() < 0.5, rng.randint(1, 40), rng.randint(1, 900), rng.choice((0, 0, 3))
        bytes_ = rows * row_len * (planes or 1) * SIZE[dtype]
        cases.append((op, dtype, {"rows": rows, "row_len": row_len, "planes": planes, "flags": COLUMNS if columns else 0, "nan": "omit"}, np_rng.bytes(bytes_)))
    np.save(scratch / "x.npy", np_rng.standard_normal(9 << 20, dtype="<f4"))  # nine tiles
    daemons = [start("--threads", 1, "--small-bytes", 0, directory=make(scratch / "oracle"))] if program else []
    for n in (1, 2, 8):
        monkeypatch.setenv("DEVICES_OF_MEMORY", str(n))
        options = {**memory_device(program)} if program else {}
        devices = ["--sandbox", "no"] if program else ["--devices", n]
        daemons.append(start(*devices, "--threads", 1, "--small-bytes", 0, directory=make(scratch / str(n)), **options))
    answers, files = [], []
    for daemon in daemons:
        n = daemon.status()["devices"]
        with daemon.connect() as c:
            got = []
            for i, (op, dtype, kw, data) in enumerate(cases):
                place = rng.choice((ANY, SPREAD, FIRST + rng.randrange(n)))
                handle = c.put(f"x{i}", dtype, data, place=place)
                for ask in (lambda: c.reduce(op, dtype, data, device=rng.randrange(n + 1), **kw), lambda: c.reduce_at(op, dtype, handle, 0, len(data), **kw)):
                    got.append(outcome(ask))
            answers.append(got)
        files.append(ctl("stats", scratch / "x.npy", url=daemon.url).stdout)
        status = daemon.status()
        assert n == 1 or all(status[f"gpu.{i}.tasks"] > 1 for i in range(n))  # more than its health check
        daemon.stop()
    assert all(a == answers[0] for a in answers[1:])
    assert files[0] and all(f == files[0] for f in files[1:])
    assert sum(isinstance(a, list) for a in answers[0]) > 40


def ordered_case(rng):
    """(op, dtype, keywords, data) of an order statistic; some lines lie on several devices."""
    dtype, (op, _, parts) = str(rng.choice(list(DTYPES))), request(rng)
    rows, row_len, planes = int(rng.choice([1, 3, 9, 40])), int(rng.integers(1, 4000)), int(rng.choice([0, 0, 3]))
    columns = COLUMNS if rng.integers(2) else 0
    if columns:
        rows, row_len = row_len, rows
    bits = random_bits(rng, dtype, rows * row_len * (planes or 1), str(rng.choice(["bits", "few", "equal", "zeros", "near", "infinite"])))
    return order.OPS[op], dtype, {"rows": rows, "row_len": row_len, "planes": planes, "flags": columns, "nan": str(rng.choice(["propagate", "omit", "error"]))}, parts, bits.tobytes()


@pytest.mark.parametrize("program", [None, DEVICE], ids=["cpu", "memory"])
def test_order_statistics_of_data_on_several_devices(start, monkeypatch, program):
    """The bits and the faults of one device; ranks of more scattered lines than passes take are refused with the limit."""
    monkeypatch.setenv("DEVICES_OF_MEMORY", "3")
    daemon = start(*(["--sandbox", "no"] if program else ["--devices", 3]), "--threads", 1, "--small-bytes", 0, **({**memory_device(program)} if program else {}))
    rng, seen = np.random.default_rng(SEED), {"cells": 0, "faults": 0, "refused": 0}
    rounds = 150 if sanitizer() != "thread" else 50
    with daemon.connect() as c:
        for _ in range(rounds):
            op, dtype, kw, parts, data = ordered_case(rng)
            body = spec(op, dtype, tagged_len=len(parts), **kw) + parts + data
            want = outcome(lambda body=body: parse_result(c.call(REDUCE, body)))
            handle = c.put("x", dtype, data, place=SPREAD, replace=True)
            got = outcome(lambda: c.reduce_at(op, dtype, handle, 0, len(data), parts=[parts], **kw))
            lines = (kw["planes"] or 1) * kw["row_len"] if kw["flags"] else kw["rows"]
            if got[0] == "TOO_LARGE":
                assert got[1] == ("row_len" if kw["flags"] else "rows") and lines > 15 and "instead of 15 at most" in got[3]
                seen["refused"] += 1
            else:
                assert got == want
                seen["cells" if isinstance(want, list) else "faults"] += 1
        c.drop("x")
    assert seen["cells"] > rounds * 8 // 15 and seen["faults"] > rounds // 150 * 3 and seen["refused"] > rounds // 150 * 3


def test_order_statistics_of_the_runtime_on_two_devices(start, monkeypatch):
    """CUDA's own runtime: digits counted by kernels, and parts that are added."""
    monkeypatch.setenv("DEVICES_OF_MEMORY", "2")
    daemon = start("--sandbox", "no", "--threads", 1, "--small-bytes", 0, **memory_device(RUNTIME))
    x = np.random.default_rng(SEED).standard_normal((9, 5001))
    with daemon.connect() as c:
        handle = c.put("x", "f64", x.tobytes(), place=SPREAD)
        for op, parts in (("median", []), ("largest", [parameter("k", 7)]), ("histogram", [parameter("edges", -2.0, -0.5, 0.0, 3.0)])):
            for kw in ({"rows": 1, "row_len": x.size}, {"rows": 9, "row_len": 5001}, {"rows": 5001, "row_len": 9, "flags": COLUMNS}):
                body = spec(order.OPS[op], "f64", tagged_len=sum(map(len, parts)), **kw) + b"".join(parts) + x.tobytes()
                assert c.reduce_at(order.OPS[op], "f64", handle, 0, x.nbytes, parts=parts, **kw).cells == parse_result(c.call(REDUCE, body)).cells
        assert all(daemon.status()[f"gpu.{i}.tasks"] > 9 for i in range(2))
        c.drop("x")


def test_where_resident_data_lie(start):
    daemon = start("--devices", 3, "--threads", 1, "--resident", 30, "--resident-user", 30)
    with daemon.connect() as c:
        for name, place, want in (("any", ANY, FIRST), ("first", FIRST, FIRST), ("last", FIRST + 2, FIRST + 2), ("all", SPREAD, SPREAD)):
            c.put(name, "u8", bytes(range(256)) * 64, place=place)
            assert {r.name: r.place for r in c.list()}[name] == want
        refused("BAD_HANDLE", "device", c.call, STORE, store("x", "f32", 4, place=FIRST + 3))


def test_a_request_names_a_device(start):
    daemon = start("--devices", 2, "--threads", 1)
    with daemon.connect() as c:
        for device in (0, 1, 2):
            assert c.reduce("sum", "u8", b"\1\2\3", device=device).cells == [struct.pack("<Q", 6)]
        with pytest.raises(Fault) as e:
            c.call(REDUCE, spec("sum", "u8", row_len=1, device=3) + b"\1")
        assert (e.value.code, e.value.field, e.value.limit) == ("BAD_HANDLE", "device", 2)
        assert "0 (CPU-0), 1 (CPU-1)" in e.value.text


def test_reducectl_chooses_devices(ctl, start, scratch):
    daemon = start("--devices", 3, "--threads", 1)
    data = np.random.default_rng(SEED).standard_normal(100000)
    np.save(scratch / "x.npy", data)
    want = ctl("stats", scratch / "x.npy", url=daemon.url).stdout
    for i, place in enumerate((["--spread"], ["--device", "2"], [])):
        assert ctl("put", *place, f"x{i}", scratch / "x.npy", url=daemon.url).returncode == 0
        assert ctl("stats", f"@x{i}", url=daemon.url).stdout == want
        for ordered in (["median,p1,p99"], ["largest", "--k", 3], ["histogram", "--bins", 5], ["kth", "--k", 99], ["stats", "--quantiles"]):
            got = [ctl(*ordered, f, url=daemon.url).stdout for f in (f"@x{i}", scratch / "x.npy")]
            assert got[0] == got[1].replace(str(scratch / "x.npy").encode(), f"@x{i}".encode()) != b""
    assert ctl("stats", "--device", "1", scratch / "x.npy", url=daemon.url).stdout == want
    lines = ctl("ls", url=daemon.url).stdout.decode().splitlines()
    assert [line.split("  ")[-1] for line in lines[1:3]] == ["on all devices", "on device 2"]
    assert b'"device":"all"' in ctl("ls", "--json", url=daemon.url).stdout
    for args in (("sum", "--device", "3", scratch / "x.npy"), ("put", "--device", "3", "y", scratch / "x.npy")):
        done = ctl(*args, url=daemon.url)
        assert done.returncode == 1 and b"device" in done.stderr, done.stderr
    done = ctl("sum", "--device", "3", "@x0", url=daemon.url)  # the data are there, the device is not
    assert done.returncode == 1 and b"@x0: BAD_HANDLE: no device 3; there are 0 (CPU-0)" in done.stderr, done.stderr
    for args in (("put", "--spread", "--device", "1", "y", scratch / "x.npy"), ("ls", "--device", "1"), ("sum", "--spread", scratch / "x.npy"), ("sum", "--device", "x", "f")):
        assert ctl(*args, url=daemon.url).returncode == 2


@pytest.mark.parametrize("devices,told", [("7", "'7' is not a device; there are 0 (GPU-ab000000-0000-0000-0000-000000000000), 1 ("), ("GPU-cc", "not a device"),
                                          ("0,0", "twice"), ("0,GPU-ab00", "twice"), ("GPU-ab", "not enough"), ("0,MIG-ab", "mixes")])
def test_wrong_devices_are_told_at_start(memory, devices, told):
    with pytest.raises(Exception) as e:
        memory(2, "--devices", devices)
    assert told in str(e.value)


def test_a_device_that_does_not_open_is_left_out(memory, monkeypatch):
    monkeypatch.setenv("BROKEN_DEVICE", "1")
    daemon = memory(3)
    status = daemon.status()
    assert status["devices"] == 2 and status["health"] == "ok"
    assert "device 1 (GPU-ab010000-0000-0000-0000-000000000000) is left out: device 1: broken on purpose" in daemon.log()
    assert [status[f"gpu.{i}.ordinal"] for i in range(2)] == [0, 2]


def test_a_device_lost_under_load(memory, scratch, monkeypatch):
    """Its queue goes to the other one, what lay there answers DEVICE_LOST, everything else goes on with right answers."""
    monkeypatch.setenv("LOSE_DEVICE", str(scratch / "lost"))
    daemon = memory(2)
    data = np.random.default_rng(SEED).standard_normal(1 << 16).astype("<f4").tobytes()
    stop, wrong, done = threading.Event(), [], []
    with daemon.connect() as c:
        want = c.reduce("sum", "f32", data).cells
        places = {"here": FIRST, "there": FIRST + 1, "spread": SPREAD}
        handle = {name: c.put(name, "f32", data, place=place) for name, place in places.items()}

        def load():
            with daemon.connect() as mine:
                while not stop.is_set():
                    if mine.reduce("sum", "f32", data).cells != want:
                        wrong.append("bits")
                    done.append(1)

        def run():
            try:
                load()
            except Exception as e:  # told below
                wrong.append(repr(e))

        clients = [threading.Thread(target=run) for _ in range(4)]
        for t in clients:
            t.start()
        wait(daemon, lambda: len(done) > 20)
        (scratch / "lost1").touch()
        wait(daemon, lambda: daemon.status()["health"] == "degraded")
        before = len(done)
        wait(daemon, lambda: len(done) > before + 20)
        stop.set()
        for t in clients:
            t.join()
        assert not wrong
        assert c.reduce_at("sum", "f32", handle["here"], 0, len(data)).cells == want
        for name in ("there", "spread"):
            refused("DEVICE_LOST", "device", c.reduce_at, "sum", "f32", handle[name], 0, len(data))
        refused("DEVICE_LOST", "device", c.call, REDUCE, spec("sum", "f32", row_len=1, device=2) + bytes(4))
        refused("DEVICE_LOST", "device", c.call, STORE, store("late", "f32", 4, place=FIRST + 1))
        c.put("kept", "f32", data, place=SPREAD)
        assert {r.name: r.place for r in c.list()}["kept"] != FIRST + 1
        status = daemon.status()
        assert status["devices"] == 2 and status["devices_lost"] == 1
        assert (status["gpu.0.state"], status["gpu.1.state"]) == ("ok", "lost")
        for name in handle:
            c.drop(name)
    assert "device 1 (GPU-ab010000-0000-0000-0000-000000000000) is lost" in daemon.log()


@pytest.mark.parametrize("program,breaks", [(DEVICE, "a device"), (RUNTIME, "a context"), (RUNTIME, "a context and page-locked memory")])
def test_sixteen_clients_and_a_context_that_breaks(start, scratch, monkeypatch, program, breaks):
    """Nothing is lost and nothing is wrong, with small and large tasks, few and many results; the daemon goes on, and opens what
    it needs of page-locked memory later."""
    options = memory_device(program)
    monkeypatch.setenv("DEVICES_OF_MEMORY", "2")
    monkeypatch.setenv("LOSE_DEVICE", str(scratch / "lost"))
    if breaks.endswith("page-locked memory"):
        monkeypatch.setenv("LOSE_HOST", "1")
    daemon = start("--small-bytes", 0, "--sandbox", "no", **options)
    stop, failed, done = threading.Event(), [], [0] * 16
    data = np.arange(1 << 18, dtype="<i4")

    def load(i):
        mine = data[: (1 << 10) << (i % 3 * 4)]  # 4 KiB, 64 KiB, 1 MiB
        rows = (1, 1024)[i % 2]
        want = [struct.pack("<q", int(x)) for x in mine.reshape(rows, -1).sum(axis=1, dtype="i8")]
        try:
            with daemon.connect() as c:
                while not stop.is_set():
                    if c.reduce("sum", "i32", mine.tobytes(), rows=rows, row_len=mine.size // rows).cells != want:
                        failed.append("bits")
                    done[i] += 1
        except Exception as e:  # told below
            failed.append(repr(e))

    def each_answers(times):
        before = list(done)
        wait(daemon, lambda: failed or all(now >= then + times for now, then in zip(done, before)))

    clients = [threading.Thread(target=load, args=(i,)) for i in range(len(done))]
    for t in clients:
        t.start()
    each_answers(3)
    (scratch / "lost1").touch()
    wait(daemon, lambda: failed or daemon.status()["health"] == "degraded")
    each_answers(3)
    stop.set()
    for t in clients:
        t.join()
    assert not failed
    assert daemon.status()["devices_lost"] == 1
    assert daemon.process.poll() is None
    daemon.notified("degraded: 1 of 2 devices lost")


def test_a_lost_device_is_reported_when_the_others_have_been_looked_at(start, scratch, monkeypatch):
    """All contexts break. The look at the second one takes a while; a request for data on the first one is answered afterwards: that no
    device is left, so that its client repeats it. It was told before that one is left."""
    options = memory_device(RUNTIME)
    monkeypatch.setenv("DEVICES_OF_MEMORY", "2")
    monkeypatch.setenv("LOSE_DEVICE", str(scratch / "lost"))
    monkeypatch.setenv("LOSE_ALL", "1")
    monkeypatch.setenv("HOLD_LOOK", str(scratch / "look"))
    daemon = start("--small-bytes", 0, "--sandbox", "no", "--probe", 86400, **options)
    with daemon.connect() as c, daemon.connect() as d:
        handle = c.put("x", "u8", bytes(4096), place=FIRST)
        (scratch / "look").touch()
        (scratch / "lost0").touch()
        while "CUDA failed on device 0" not in daemon.log():
            d.send(REDUCE, d.reduce_body("sum", "u8", b"\1", device=1))
            select_a_moment(daemon.process)
        sent = c.send(REDUCE_AT, spec("sum", "u8", row_len=4096) + struct.pack("<QQQ", handle, 0, 4096))
        early = select.select([c.socket], [], [], 0.3)[0]  # poll interval: an answer that comes too early comes soon
        (scratch / "look").unlink()
        with pytest.raises((Fault, OSError)) as e:
            c.wait(sent)
        assert not early and (not isinstance(e.value, Fault) or (e.value.code, e.value.limit) == ("DEVICE_LOST", 0))
    assert daemon.process.wait(60) == 70 and "looking at it after another device failed" in daemon.log()


def test_the_library_repeats_nothing_that_is_gone(ctl, memory, scratch, monkeypatch):
    """DEVICE_LOST with other devices left is an answer, not a reason to wait for a new daemon."""
    monkeypatch.setenv("LOSE_DEVICE", str(scratch / "lost"))
    daemon = memory(2)
    np.save(scratch / "x.npy", np.arange(100000))
    assert ctl("put", "--device", "1", "x", scratch / "x.npy", url=daemon.url).returncode == 0
    (scratch / "lost1").touch()
    begin = time.monotonic()
    for args in (("sum", "@x"), ("sum", "--device", "1", scratch / "x.npy")):
        done = ctl(*args, url=daemon.url)
        assert done.returncode != 0 and b"DEVICE_LOST" in done.stderr, done.stderr
    assert time.monotonic() - begin < 10
    assert ctl("sum", scratch / "x.npy", url=daemon.url).stdout == b"4999950000\n"


@pytest.mark.parametrize("program", [DEVICE, RUNTIME])
def test_device_and_processor_share_large_data(start, scratch, ctl, monkeypatch, program):
    """--backend auto: the same bits as the CPU's, of messages, files and arenas; both take part; what is small, resident or asked
    of the device goes there."""
    options = {**memory_device(program), "backend": "auto"}
    monkeypatch.setenv("DEVICES_OF_MEMORY", "1")
    rng, np_rng = random.Random(SEED), np.random.default_rng(SEED)
    oracle = start("--small-bytes", 0, directory=make(scratch / "oracle"))
    # by name: open at the start
    daemon = start("--devices", 0, "--small-bytes", 0, "--sandbox", "no", "--threads", 1, directory=make(scratch / "hybrid"), **options)

    def shared():
        status = daemon.status()
        return status["tasks"] - status["gpu.0.tasks"]

    with daemon.connect() as c, oracle.connect() as cpu:
        data = np_rng.standard_normal(1 << 19).tobytes()  # 4 MiB
        c.reduce("sum", "f64", data, device=1)
        c.reduce("sum", "f64", data[:4096])
        c.reduce_at("sum", "f64", c.put("x", "f64", data), 0, len(data))
        assert shared() == 0
        while not 2 <= shared() < daemon.status()["tasks"] - 8:  # once its rate is known, the slower one may rest for a while
            cases = []
            for _ in range(12):
                op, dtype = rng.choice(("sum", "var", "argmax", "stats", "norm2", "count_nan")), rng.choice(("f32", "f64", "i16", "bf16"))
                rows = rng.choice((1, 1, 7, 1000))
                row_len = rng.randrange(1 << 19, 3 << 18) // SIZE[dtype] // rows
                first = rng.randrange(1000) * 8
                cases.append((op, dtype, data[first : first + rows * row_len * SIZE[dtype]], {"rows": rows, "flags": rng.choice((0, COLUMNS)), "nan": "omit"}))
            sent = [c.send(REDUCE, c.reduce_body(op, dtype, part, **kw)) for op, dtype, part, kw in cases]
            for i, (op, dtype, part, kw) in zip(sent, cases):
                assert outcome(lambda i=i: parse_result(c.wait(i))) == outcome(lambda op=op, dtype=dtype, part=part, kw=kw: cpu.reduce(op, dtype, part, **kw))
    np.save(scratch / "x.npy", np_rng.standard_normal(1 << 20))
    for args in (["stats"], ["sum", "--path", "shm"]):
        want, got = (ctl(*args, scratch / "x.npy", url=d.url) for d in (oracle, daemon))
        assert want.returncode == 0 and got.stdout == want.stdout


def make(folder):
    folder.mkdir()
    return folder


def outcome(ask):
    """Cells, or the fault."""
    try:
        return ask().cells
    except Fault as f:
        return f.code, f.field, f.index, f.text


class Allocation:
    """What another process has on device `ordinal`."""

    def __init__(self, data, ordinal):
        self.fd = os.memfd_create("allocation")
        os.write(self.fd, data)
        self.handle = b"a device" + struct.pack("<III", os.getpid(), self.fd, ordinal) + random.randbytes(44)


def uuid(i):
    return bytes((0xAB, i)) + bytes(14)


def test_memory_of_other_processes_is_reduced_where_it_lies(memory):
    daemon = memory(2)
    data = np.arange(5000, dtype="<u4")
    with daemon.connect() as c, Side(c) as side:
        for ordinal in (0, 1):
            for known in (bytes(16), uuid(ordinal)):
                a = Allocation(data.tobytes(), ordinal)
                handle, size = side.device(a.handle, known)
                assert size == data.nbytes
                assert c.reduce_at("sum", "u32", handle, 0, size).cells == [struct.pack("<Q", int(data.sum()))]
                side.drop(handle)
                os.close(a.fd)
        a = Allocation(data.tobytes(), 1)
        with pytest.raises(Fault) as e:
            side.device(a.handle, uuid(7))
        assert (e.value.code, e.value.field) == ("BAD_HANDLE", "device")
        assert "GPU-ab070000" in e.value.text and "this daemon has 0 (GPU-ab00" in e.value.text
        for opened in (False, True):  # by another request
            if opened:
                side.device(a.handle, uuid(1))
            for said, field in ((7, "device"), (0, "handle")):
                with pytest.raises(Fault) as e:
                    side.device(a.handle, uuid(said))
                assert (e.value.code, e.value.field) == ("BAD_HANDLE", field)
        os.close(a.fd)


def test_each_gpu_has_its_numbers(ctl, memory, monkeypatch, scratch):
    """In status, info, metrics, top and trace, with its number and UUID; what the driver says of it, where it knows it."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(BIN.parent / "tests" / "driver"))
    monkeypatch.setenv("LOSE_DEVICE", str(scratch / "lost"))
    daemon = memory(3, "--devices", "0,2,1", "--trace", scratch / "trace")
    data = np.arange(4096, dtype="<f8").tobytes()
    with daemon.connect() as c:
        c.put("x", "f64", data, place=FIRST + 1)
        for device in (1, 1, 2, 3):
            c.reduce("max", "f64", data, device=device)
        wait(daemon, lambda: "device.power_w" in c.query(2))
        info, status = c.query(1), c.query(2)
    uuids = [f"GPU-ab{i:02}0000-0000-0000-0000-000000000000" for i in (0, 2, 1)]
    for topic in (info, status):
        assert [(topic[f"gpu.{i}.uuid"], topic[f"gpu.{i}.ordinal"], topic[f"gpu.{i}.state"]) for i in range(3)] == [(u, int(u[7]), "ok") for u in uuids]
    assert [status[f"gpu.{i}.resident_bytes"] for i in range(3)] == [0, len(data), 0]
    assert [status[f"gpu.{i}.tasks"] - status["gpu.2.tasks"] for i in range(3)] == [1, 1, 0]  # beside a probe each; `put` is a task
    assert [status.get(f"gpu.{i}.temperature_c") for i in range(3)] == [40, None, 41]
    assert (status["device.temperature_c"], status["device.memory_bytes"], status["device.busy_percent"], status["device.power_w"]) == (41, 3 << 30, 5, 3)
    text = ctl("metrics", url=daemon.url).stdout.decode()
    for line in (f'gpu_memory_bytes{{gpu="1",uuid="{uuids[2]}",kind="used"}} {2 << 30}', f'gpu_temperature_celsius{{gpu="0",uuid="{uuids[0]}"}} 40',
                 f'gpu_busy_ratio{{gpu="1",uuid="{uuids[2]}"}} 0.1', f'gpu_power_watts{{gpu="1",uuid="{uuids[2]}"}} 2', f'gpu_slots_busy{{gpu="2",uuid="{uuids[1]}"}} 0',
                 f'gpu_pool_bytes{{gpu="0",uuid="{uuids[0]}",pool="locked"}} 0'):
        assert f"\nreduced_{line}\n" in text, line
    assert 'gpu_power_watts{gpu="2"' not in text
    (scratch / "lost1").touch()
    with daemon.connect() as c:
        refused("DEVICE_LOST", "device", c.reduce, "max", "f64", data, device=3)
    with ThreadPoolExecutor() as pool:  # each takes a second
        text, told = pool.map(lambda args: ctl("top", "--once", *args, url=daemon.url).stdout.decode(), ([], ["--json"]))
    lines = [line for line in text.splitlines() if line.startswith("gpu ")]
    assert [(line.split()[1], line.split()[-1]) for line in lines] == [("0", "GPU-ab000000"), ("1", "LOST"), ("2", "GPU-ab020000")]
    assert "40 C  1 W" in lines[0] and "32.0 KiB of" in lines[2]
    assert [(g["gpu"], g["uuid"], g["healthy"]) for g in json.loads(told)["gpus"]] == [("0", uuids[0], True), ("1", uuids[2], False), ("2", uuids[1], True)]
    daemon.stop()
    trace = json.loads((scratch / "trace").read_text())["traceEvents"]
    kernels = [e["args"].get("device") for e in trace if e["name"] == "kernel"]
    assert kernels[:4] == [f"device {i} ({u})" for i, u in ((0, uuids[0]), (0, uuids[0]), (2, uuids[1]), (1, uuids[2]))]


def test_reducectl_names_a_gpu_by_uuid(ctl, memory, scratch):
    daemon = memory(3, "--devices", "2,0", "--probe", 86400)
    np.save(scratch / "x.npy", np.arange(100000))
    tasks = [lambda i=i: daemon.status()[f"gpu.{i}.tasks"] for i in range(2)]
    for name, number in (("GPU-ab020000-0000-0000-0000-000000000000", 0), ("gpu-ab00", 1)):
        before = [t() for t in tasks]
        assert ctl("sum,max", "--device", name, scratch / "x.npy", url=daemon.url).returncode == 0
        assert ctl("put", "--device", name, name, scratch / "x.npy", url=daemon.url).returncode == 0
        assert [t() > b for t, b in zip(tasks, before)] == [i == number for i in range(2)]
    with daemon.connect() as c:
        assert {r.name: r.place - FIRST for r in c.list()} == {"GPU-ab020000-0000-0000-0000-000000000000": 0, "gpu-ab00": 1}
    for name, told in (("GPU-ab01", b"is not one of its GPUs; the daemon has 0 (GPU-ab020000), 1 (GPU-ab000000)"), ("GPU-ab", b"is not enough to tell GPUs apart")):
        done = ctl("sum", "--device", name, scratch / "x.npy", url=daemon.url)
        assert done.returncode == 1 and b"BAD_HANDLE" in done.stderr and told in done.stderr, done.stderr
    assert ctl("status", "--device", "GPU-ab02", url=daemon.url).returncode == 2


def test_a_program_finds_its_gpu_by_uuid(memory, start, scratch, monkeypatch):
    """The daemon numbers its devices in an order of its own; libreduce tells their UUIDs, and the daemon where memory lies."""
    monkeypatch.setenv("LOSE_DEVICE", str(scratch / "lost"))
    daemon = memory(3, "--devices", "2,0")
    data = np.arange(5000, dtype="<u4")
    with LibClient(daemon.url) as c:
        gpus = c.gpus()
        assert gpus == [(1, 2, 0, uuid(2), "GPU-ab020000-0000-0000-0000-000000000000"), (2, 0, 0, uuid(0), "GPU-ab000000-0000-0000-0000-000000000000")]
        number = {u: device for device, _, _, u, _ in gpus}
        before = daemon.status()["gpu.0.tasks"]
        c.run("sum", "u32", data.tobytes(), device=number[uuid(2)])
        assert daemon.status()["gpu.0.tasks"] == before + 1
        for ordinal in (0, 2):
            a = Allocation(data.tobytes(), ordinal)
            c.device_uuid(a.handle, uuid(ordinal))
            assert c.device("sum", "u32", a.handle, 0, data.nbytes)[0] == struct.pack("<Q", int(data.sum()))
            c.device_close(a.handle)
            os.close(a.fd)
        a = Allocation(data.tobytes(), 0)
        c.device_uuid(a.handle, uuid(1))  # of a device that the daemon does not have
        with pytest.raises(LibFault) as e:
            c.device("sum", "u32", a.handle, 0, data.nbytes)
        assert "GPU-ab010000" in str(e.value) and "this daemon has 2 (GPU-ab02" in str(e.value)
        c.device_close(a.handle)
        assert c.device("sum", "u32", a.handle, 0, data.nbytes)[0] == struct.pack("<Q", int(data.sum()))
        os.close(a.fd)
        (scratch / "lost0").touch()
        with pytest.raises(LibFault):
            c.run("sum", "u32", data.tobytes(), device=number[uuid(0)])
        assert [(device, lost) for device, _, lost, _, _ in c.gpus()] == [(1, 0), (2, 1)]
    daemon.stop()
    with LibClient(start("--devices", 2, "--threads", 1).url) as c:
        assert [(device, u, name) for device, _, _, u, name in c.gpus()] == [(1, bytes(16), "CPU-0"), (2, bytes(16), "CPU-1")]


def test_metrics_have_a_label_for_each_gpu(ctl, start):
    daemon = start("--devices", 2, "--threads", 1)
    with daemon.connect() as c:
        c.put("x", "u8", bytes(1000), place=FIRST + 1)
        text = ctl("metrics", url=daemon.url).stdout.decode()
    for line in ('gpu_slots{gpu="0",uuid="CPU-0"} 1', 'gpu_slots{gpu="1",uuid="CPU-1"} 1', "slots 2", "devices 2", "devices_lost 0", 'gpu_healthy{gpu="1",uuid="CPU-1"} 1',
                 'gpu_pool_bytes{gpu="1",uuid="CPU-1",pool="resident"} 1000', 'gpu_pool_bytes{gpu="0",uuid="CPU-0",pool="resident"} 0', 'pool_bytes{pool="resident"} 1000'):
        assert f"\nreduced_{line}\n" in text, line


@pytest.mark.parametrize("backend", ["auto", "cuda"])
def test_devices_compute_cov_and_corr(start, monkeypatch, backend):
    """Of data of the host, of states, and of data on a device, with the same bits."""
    rng = np.random.default_rng(SEED)
    monkeypatch.setenv("DEVICES_OF_MEMORY", "2")
    daemon = start("--small-bytes", 0, "--sandbox", "no", **{**memory_device(DEVICE), "backend": backend})
    x, y = rng.standard_normal((2, 100_000))
    with LibClient(daemon.url) as lib, daemon.connect() as c:
        for op in ("cov", "corr"):
            want = np.cov(x, y, ddof=0)[0, 1] if op == "cov" else np.corrcoef(x, y)[0, 1]
            whole = lib.run(op, "f64", x.tobytes(), weights=y.tobytes(), path=1)
            assert np.isclose(np.frombuffer(whole)[0], want, rtol=1e-9)
            parts = [lib.run(op, "f64", x[i : i + 50_000].tobytes(), weights=y[i : i + 50_000].tobytes(), path=1, flags=STATES_OUT) for i in (0, 50_000)]
            body = spec(pairs.OPS[op], "f64", row_len=2, flags=STATES_IN) + b"".join(parts)
            assert parse_result(c.call(REDUCE, body)).cells == [whole]
            kept = c.put("x", "f64", x.tobytes(), place=FIRST)
            tagged = part(COMPANION, struct.pack("<B7xQQ", DTYPES["f64"], kept, 0), ROLES["weights"], HANDLE, EXTENTS["elements"])
            assert c.reduce_at(pairs.OPS[op], "f64", kept, 0, x.nbytes, flags=WEIGHTS, row_len=x.size, parts=[tagged]).cells != [whole]
            beside = c.put("y", "f64", y.tobytes(), place=FIRST)
            tagged = part(COMPANION, struct.pack("<B7xQQ", DTYPES["f64"], beside, 0), ROLES["weights"], HANDLE, EXTENTS["elements"])
            assert c.reduce_at(pairs.OPS[op], "f64", kept, 0, x.nbytes, flags=WEIGHTS, row_len=x.size, parts=[tagged]).cells == [whole]
            c.drop("y")
            c.drop("x")


@pytest.mark.parametrize("program, device", [(DEVICE, 1), (RUNTIME, 2)])
def test_a_few_states_are_merged_without_a_launch(start, scratch, monkeypatch, program, device):
    """The states of a file's parts, beside a GPU; the answer names the engine that reduced the parts."""
    monkeypatch.setenv("DEVICES_OF_MEMORY", "1")
    daemon = start("--sandbox", "no", **memory_device(program))
    x = np.ones(3 << 20, "<f4")
    x.tofile(scratch / "x")
    with daemon.connect() as c, LibClient(daemon.url) as lib, open(scratch / "x", "rb") as file:
        states = [c.reduce("sum", "f32", x[i << 20 : (i + 1) << 20].tobytes(), flags=STATES_OUT) for i in range(3)]
        assert {r.backend for r in states} == {device}
        small = daemon.status()["tasks_small"]
        whole = c.reduce("sum", "f32", b"".join(r.cells[0] for r in states), row_len=3, flags=STATES_IN)
        assert (whole.backend, np.frombuffer(whole.cells[0], "<f8")[0]) == (1, 3 << 20)
        cell, result = lib.file("sum", "f32", file.fileno(), 0, x.nbytes)
        assert (result.backend, np.frombuffer(cell, "<f8")[0]) == (device, 3 << 20)
        assert daemon.status()["tasks_small"] == small + 2
