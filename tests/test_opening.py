"""Devices that open while the CPU answers. Only requests that need a device wait for it. Devices are made of memory
(tests/device/device.c, and the CUDA runtime on tests/faults/cudart.c). They open when a test removes the file $HOLD_OPEN."""
import ctypes
import json
import os
import random
import struct
import threading
import urllib.request
from pathlib import Path

import pytest

import libreduce
from conftest import BIN, memory_device, select_a_moment
from rawclient import REDUCE, STORE, Fault, parse_result, spec, store
from sideclient import Side
from test_devices import DEVICE, RUNTIME
from test_device import allocate  # noqa: F401  # a fixture
from test_resident import noise
from test_restart import in_bytes, restarts, sum_of, supervise  # noqa: F401  # a fixture

MIB = 1 << 20
INFO, STATUS, REQUESTS = 1, 2, 4


@pytest.fixture
def held(monkeypatch, scratch):
    """The cue: devices open when it is released."""
    cue = scratch / "hold"
    cue.touch()
    monkeypatch.setenv("HOLD_OPEN", str(cue))
    monkeypatch.setenv("DEVICES_OF_MEMORY", "2")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(BIN.parent / "tests" / "driver"))  # there is a driver; CUDA's first call waits for the cue
    yield cue
    cue.unlink(missing_ok=True)


def options(program=DEVICE, backend="auto"):
    return {**memory_device(program), "backend": backend}


def wait(daemon, condition):
    for _ in range(3000):
        if condition():
            return
        select_a_moment(daemon.process)
    raise AssertionError(f"never true:\n{daemon.log()}")


def opened(daemon):
    wait(daemon, lambda: not daemon.status()["devices_opening"])


def waits(daemon, n):
    """Wait until `n` requests wait for a device, and not in a queue."""
    def held_ones():
        with daemon.connect() as c:
            return sum(" where=device " in v for k, v in c.query(REQUESTS).items() if k.startswith("request."))
    wait(daemon, lambda: held_ones() == n)


@pytest.mark.parametrize("program, backend", [(DEVICE, "auto"), (DEVICE, "hybrid"), (RUNTIME, "auto")])
def test_the_cpu_answers_while_devices_open(start, held, scratch, program, backend):
    """Every kind of data of the host; then the devices, the same bits."""
    daemon = start("--metrics-url", "http://127.0.0.1:0", "--sandbox", "no", "--small-bytes", 256, **options(program, backend))
    data = random.Random(1).randbytes(MIB // 2 * 8)
    daemon.notified("the devices are opening")
    (scratch / "file").write_bytes(data)

    def ask(c, side):
        got = [c.reduce("norm2", "f64", part, nan="omit").cells for part in (data[:64], data[:8192], data)]
        handle, memory = side.arena(len(data))
        memory[:] = data
        file = side.file(os.open(scratch / "file", os.O_RDONLY))
        got += [c.reduce_at("norm2", "f64", x[0] if isinstance(x, tuple) else x, 0, len(data), nan="omit").cells for x in (handle, file)]
        stream = c.begin("norm2", "f64", nan="omit")
        c.append(stream, 0, data)
        return [*got, c.finish(stream, len(data) // 8).cells]

    url = daemon.log().split("metrics on ")[1].split()[0]
    with daemon.connect() as c, Side(c) as side:
        before = ask(c, side)
        assert len(set(map(tuple, before))) == 3, "64 bytes, 8192, and four times all of it"
        status = c.query(STATUS)
        assert (status["backend"], status["devices"], status["devices_opening"], status["health"]) == ("cpu", 1, 1, "ok")
        assert c.query(INFO)["backend"] == "cpu" and "\nreduced_devices_opening 1\n" in c.metrics()
        assert "ready; the devices are opening" in daemon.log() and status["pool.locked.bytes"] == 0

        held.unlink()
        opened(daemon)
        daemon.wait_log("the devices are open after")
        wait(daemon, lambda: "\nreduced_devices_opening 0\n" in c.metrics())  # the text may be some time old
        after = c.query(STATUS)
        assert after["backend"] == "cuda" and after["devices"] == 2 and after["tasks"] >= status["tasks"]
        if backend == "auto":
            assert after["pool.locked.bytes"] >= len(data), "the arena from before was page-locked"
        assert ask(c, side) == before
        now = c.query(STATUS)
        assert sum(now[f"gpu.{i}.tasks"] for i in range(2)) >= 2 + 4
    wait(daemon, lambda: json.load(urllib.request.urlopen(url.replace("/metrics", "") + "/status.json"))["status"]["devices_opening"] == 0)


def test_what_needs_a_device_waits_for_it(start, held, allocate):
    """Requests with --device, resident data, and memory of a device; others pass them."""
    daemon = start("--sandbox", "no", **options())
    a = allocate(struct.pack("<f", 1.5) * 1024)
    done = []
    with daemon.connect() as c, Side(c) as side, daemon.connect() as other:
        pinned = [c.send(REDUCE, c.reduce_body("sum", "u8", bytes([i, 1]), device=2)) for i in range(3)]
        wrong = c.send(REDUCE, spec("sum", "u8", row_len=1, device=3) + b"\1")
        stored = c.send(STORE, store("x", "u8", 4))
        waits(daemon, 5)
        opener = threading.Thread(target=lambda: done.append(side.device(a.handle[:16] + bytes(48))))
        opener.start()
        assert other.reduce("sum", "u8", b"\1\2").cells == [in_bytes(b"\3")]
        cancelled = other.send(REDUCE, other.reduce_body("sum", "u8", b"\1", device=1))
        waits(daemon, 6)
        assert other.cancel(cancelled) == 1
        with pytest.raises(Fault) as e:
            other.wait(cancelled)
        assert e.value.code == "CANCELLED" and not done
        held.unlink()
        for i, sent in enumerate(pinned):
            assert parse_result(c.wait(sent)).cells == [in_bytes(bytes([i, 1]))]
        with pytest.raises(Fault) as e:
            c.wait(wrong)
        assert (e.value.code, e.value.limit) == ("BAD_HANDLE", 2) and "GPU-ab01" in e.value.text
        assert len(c.wait(stored)) == 8
        opener.join()
        assert c.reduce_at("sum", "f32", done[0][0], 0, 4096).cells == [struct.pack("<d", 1536)]
    assert daemon.status()["gpu.1.tasks"] >= 4


def test_a_deadline_is_kept_while_devices_open(start, held):
    daemon = start("--sandbox", "no", **options())
    with daemon.connect() as c:
        for kind, body in ((REDUCE, c.reduce_body("sum", "u8", b"\1", device=1)), (STORE, store("x", "u8", 4))):
            with pytest.raises(Fault) as e:
                c.call(kind, body, time_ms=30)
            assert e.value.code == "DEADLINE"
        assert daemon.status()["devices_opening"] == 1


def test_a_session_that_ends_leaves_nothing(start, held):
    daemon = start("--sandbox", "no", **options())
    with daemon.connect() as c:
        c.send(STORE, store("x", "u8", 4))
        waits(daemon, 1)
    waits(daemon, 0)
    held.unlink()
    opened(daemon)
    with daemon.connect() as c:
        assert c.list() == []


@pytest.mark.parametrize("backend", ["auto", "hybrid"])
def test_devices_that_do_not_open(start, held, allocate, monkeypatch, backend):
    """A line in the log, and the daemon stays on the CPU; what waited is answered, or refused with the reason."""
    monkeypatch.setenv("BROKEN_DEVICE", "0")
    monkeypatch.setenv("DEVICES_OF_MEMORY", "1")
    daemon = start("--sandbox", "no", **options(backend=backend))
    a = allocate(bytes(4096))
    refusal = []
    with daemon.connect() as c, Side(c) as side:
        pinned = [c.send(REDUCE, c.reduce_body("sum", "u8", b"\1\2", device=i)) for i in (1, 2)]
        stored = c.send(STORE, store("x", "u8", 4))
        waits(daemon, 3)

        def ask():
            try:
                side.device(a.handle)
            except Fault as e:
                refusal.append(e.code)

        opener = threading.Thread(target=ask)
        opener.start()
        held.unlink()
        assert parse_result(c.wait(pinned[0])).cells == [in_bytes(b"\3")]
        with pytest.raises(Fault) as e:
            c.wait(pinned[1])
        assert e.value.code == "BAD_HANDLE" and "CPU-0" in e.value.text
        assert len(c.wait(stored)) == 8
        opener.join()
        assert refusal == ["TYPE"]
        status = c.query(STATUS)
        assert (status["backend"], status["devices"], status["devices_opening"], status["health"]) == ("cpu", 1, 0, "ok")
        assert "no CUDA: device 0: broken on purpose" in status["device_note"]
    assert "no device is open after" in daemon.log()


@pytest.mark.parametrize("flags", [{"backend": "cuda"}, {"devices": "0"}])
def test_what_is_asked_by_name_is_open_at_the_start(start, held, flags):
    """... so that a mistake is one of the start."""
    more = ["--devices", flags["devices"]] if "devices" in flags else []
    daemon = start("--sandbox", "no", *more, wait=False, **options(backend=flags.get("backend", "auto")))
    daemon.wait_log("reduced .* starts")
    held.unlink()
    daemon.wait_ready()
    assert daemon.status()["backend"] == "cuda" and "opening" not in daemon.log()


def test_a_stop_does_not_wait_for_devices(start, held):
    """A request that waits for a device gets BUSY, as a request that comes too late does."""
    daemon = start("--sandbox", "no", **options())
    with daemon.connect() as c:
        sent = c.send(REDUCE, c.reduce_body("sum", "u8", b"\1", device=1))
        waits(daemon, 1)
        daemon.process.terminate()
        with pytest.raises(Fault) as e:
            c.wait(sent)
        assert (e.value.code, e.value.text) == ("BUSY", "shutting down")
    assert daemon.process.wait(10) == 0
    assert held.exists() and "left while the devices were opening" in daemon.log()


def test_resident_data_are_there_at_once_and_move_to_the_devices(supervise, held):
    """They are read where they were kept until the devices are open, under load, too; then they lie there, and are kept as before."""
    held.unlink()
    d = supervise("--sandbox", "no", **options())
    data, small = noise(3 * MIB + 5), bytes(range(48))
    opened(d)
    with d.connect() as c:
        handle = c.put("large", "u8", data)
        c.put("small", "i16", small, shape=(4, 3, 2))
        c.put("gone", "u8", small)
    names = d.keeps(3)
    held.touch()
    d.crash()
    quit, wrong, done = threading.Event(), [], []

    def load():
        with d.connect() as mine:
            while not quit.is_set():
                if sum_of(mine, handle, data) != in_bytes(data):
                    wrong.append(1)
                done.append(1)

    reader = threading.Thread(target=load)
    reader.start()
    with d.connect() as c:
        wait(d, lambda: len(done) > 5)
        status = c.query(STATUS)
        assert (status["devices_opening"], status["resident.arrays"], status["resident.kept"]) == (1, 3, 3)
        c.drop("gone")
        held.unlink()
        opened(d)
        where = lambda: sum(d.status()[f"gpu.{i}.resident_bytes"] for i in range(2))  # noqa: E731
        wait(d, lambda: where() == len(data) + len(small))
        wait(d, lambda: d.status()["resident.bytes"] == len(data) + len(small))
        before = len(done)
        wait(d, lambda: len(done) > before + 5)
        assert sorted((x.name, x.bytes, x.place > 1) for x in c.list()) == [("large", len(data), True), ("small", 48, True)]
        quit.set()
        reader.join()
        assert not wrong and d.status()["gpu.0.tasks"] + d.status()["gpu.1.tasks"] > 2
    assert len(d.keeps(2)) == 2 and set(d.keeps(2)) < set(names)
    with d.connect() as c:
        c.put("vast", "u8", bytes(64 * MIB))
    assert len(d.keeps(3)) == 3
    d.restart()
    wait(d, lambda: where() == len(data) + len(small) + 64 * MIB)  # the devices open before these are read
    with d.connect() as c:
        assert sum_of(c, handle, data) == in_bytes(data)


def test_nobody_waits_for_slow_devices(supervise, monkeypatch):
    """Contexts that take twenty seconds: the longest wait of a restart is as long as without one. Half of the requests read resident
    data."""
    d = supervise("--sandbox", "no", **options())
    opened(d)
    monkeypatch.setenv("OPEN_MS", "20000")  # of those that come after this one
    longest, answers = restarts(d, 4, 3, 0.4)
    print(f"longest wait {longest:.3f} s, {answers} answers")
    assert answers > 4 and longest < 10


def test_a_gpu_is_found_by_its_name_when_it_is_open(start, held, ctl):
    daemon = start("--sandbox", "no", **options())
    found = []
    asks = threading.Thread(target=lambda: found.append(ctl("sum", "-t", "u8", "--device", "GPU-ab01", "-", url=daemon.url, stdin=b"\1\2")))
    asks.start()
    waits(daemon, 1)
    held.unlink()
    asks.join()
    assert found[0].stdout == b"3\n", found[0].stderr


def test_libreduce_puts_and_reduces_while_devices_open(start, held):
    """A put waits for the devices, and everything else does not."""
    daemon = start("--sandbox", "no", **options())
    data = bytearray(noise(MIB))
    with libreduce.Client(daemon.url) as c:
        assert c.run("sum", "u8", bytes(data)) == in_bytes(data)
        put = threading.Thread(target=lambda: c.put("x", "u8", ctypes.addressof((ctypes.c_char * len(data)).from_buffer(data)), len(data)))
        put.start()
        waits(daemon, 1)
        assert c.run("sum", "u8", b"\1\2") == in_bytes(b"\3")
        held.unlink()
        put.join()
        assert c.named("sum", "u8", "x")[0] == in_bytes(data)


def test_libreduce_reduces_arrays_itself_while_devices_open(start, held):
    """The daemon's processors would do no better. When the devices are open, their way still takes longer."""
    daemon = start(**options())
    data = noise(MIB)
    with libreduce.Client(daemon.url, local=2) as c:
        local = lambda: c.lib.reduce_is_local(c.handle, ctypes.byref(c.spec("sum", "u8")), ctypes.c_size_t(MIB))
        before = daemon.status()["requests.reduce"]
        assert local() and c.run("sum", "u8", data) == in_bytes(data)
        held.unlink()
        opened(daemon)
        assert local() and c.run("sum", "u8", data) == in_bytes(data)
        assert daemon.status()["backend"] == "cuda" and daemon.status()["requests.reduce"] == before


def threads(daemon):
    return [Path(f"/proc/{daemon.process.pid}/task/{t}/status").read_text() for t in os.listdir(f"/proc/{daemon.process.pid}/task")]


@pytest.mark.unsanitized  # a sanitizer has threads of its own
def test_the_thread_that_opens_devices_alone_is_not_in_the_sandbox(start, held):
    """CUDA's driver may start nvidia-modprobe. When the devices are open, every thread is in the filter."""
    daemon = start("--threads", 2, **options())
    daemon.wait_log("sandbox: ")
    if "no seccomp" in daemon.log():
        pytest.skip("this kernel has no seccomp")
    assert daemon.status()["devices_opening"] == 1
    outside = [t for t in threads(daemon) if "\nSeccomp:\t2" not in t]
    # this one, and those of two devices that it opens side by side
    assert 1 <= len(outside) <= 3, "\n".join(t.split("\n")[0] for t in outside)
    held.unlink()
    opened(daemon)
    assert all("\nSeccomp:\t2" in t for t in threads(daemon))
