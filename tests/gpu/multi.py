#!/usr/bin/env python3
"""One daemon with all GPUs of a machine beside one with the first GPU alone: start, resident data, host data, a file, small
requests of many processes, the same bits as the CPU's, order statistics, and a GPU that fails under load. Prints a table; exit
code 1: an answer was wrong or lost.

    B=build/cuda-portable python3 tests/gpu/multi.py   (`make all gpu-tools bench-tools CUDA=yes PORTABLE=1 SYSTEMD=yes` builds it)

Part `fault`: a kernel that traps breaks the contexts of all devices of a process, so the daemon leaves, and the service manager
(tests/supervisor.py) starts the next one. Clients of libreduce notice only a pause. With the default backend the next daemon answers
by the CPU while its devices open; with `--backend cuda` it opens them first. This is tried with one GPU, too.

Without a GPU, `--cpu` tries the script itself, with small data and two CPU engines; the part `fault` then takes the CUDA engine's
runtime on two devices made of memory (`make fault-tools CUDA=yes`), where first one context breaks alone, and then all do.
"""

import argparse
import array
import json
import multiprocessing
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "bench")]
from common import BUILD, ctl, daemon, machine  # noqa: E402
from rawclient import COLUMNS, Connection, Fault, parameter  # noqa: E402

MIB, CHUNK = 1 << 20, 4 << 20
ANY, SPREAD, FIRST = 0, 1, 2
RESIDENT = 2 << 30  # elements of f32
HOST = 4 << 30  # bytes
RANKED = 1 << 30  # elements of f32
CLIENTS = 16
failed = []


def note(what, text):
    print(f"  {what:34} {text}", flush=True)


def connect(url):
    c = Connection(url, 120.0)
    c.hello()
    return c


def pattern():
    """4 MiB of f32, and their sum."""
    return b"".join(struct.pack("<f", i % 16) for i in range(CHUNK // 4)), 15 / 2 * (CHUNK // 4)


def put(c, name, size, place, chunk):
    handle = c.store(name, "f32", size, place=place)
    for at in range(0, size, CHUNK):
        c.write(handle, at, chunk[: size - at])
    c.commit(handle)
    return handle


def check(what, right):
    if not right:
        failed.append(what)
        note("WRONG", what)


def resident(url, elements, place, runs):
    """(wall, compute) seconds of the sum, the least of some."""
    chunk, total = pattern()
    wall, compute = [], []
    with connect(url) as c:
        handle = put(c, "multi", elements * 4, place, chunk)
        for _ in range(runs):
            begin = time.perf_counter()
            r = c.reduce_at("sum", "f32", handle, 0, elements * 4)
            wall.append(time.perf_counter() - begin)
            compute.append(r.compute_ns * 1e-9)
            check("resident sum", struct.unpack("<d", r.cells[0])[0] == total * (elements * 4 // CHUNK))
        where = c.list()[0].place
        c.drop("multi")
    return min(wall), min(compute), where


def host(url, size, runs, *more):
    """GB/s of libreduce with data in memory: the best of some runs."""
    out = subprocess.run([str(BUILD / "bench/host"), url, str(size), str(runs), *more], capture_output=True, text=True)
    if out.returncode:
        check(f"host {more}: {out.stderr}", False)
        return 0
    return size / min(float(t) for t in out.stdout.split()) / 1e3


def file(url, path, runs):
    times, answers = [], set()
    for _ in range(runs + 1):
        begin = time.perf_counter()
        out = subprocess.run(ctl(url, "sum", "--dtype", "f32", path), capture_output=True, text=True)
        times.append(time.perf_counter() - begin)
        answers.add(out.stdout)
    check("sums of the file", len(answers) == 1 and out.returncode == 0)
    return os.path.getsize(path) / min(times[1:]) / 1e9


def small(url, processes, requests):
    out = subprocess.run([str(x) for x in (BUILD / "bench/load", "reduce", url, processes, requests, 1024)], capture_output=True, text=True)
    if out.returncode:
        check(f"small requests: {out.stderr}", False)
        return 0
    return processes * requests / float(out.stdout.split()[0])


# ---- the same bits ----
def cases():
    rng = random.Random(5)
    ops = "sum mean var std norm2 sumsq norm1 min max argmin argmax minmax range count_nonzero count_nan stats prod".split()
    for op in ops:
        for dtype, size in (("f32", 4), ("f64", 8), ("f16", 2), ("bf16", 2), ("i8", 1), ("u16", 2), ("i32", 4), ("u64", 8)):
            for columns, planes in ((False, 0), (True, 0), (True, 3)):
                rows, row_len = rng.randint(1, 300), rng.randint(1, 900)
                yield op, dtype, {"rows": rows, "row_len": row_len, "flags": COLUMNS if columns else 0, "planes": planes, "nan": "omit"}, \
                    rng.randbytes(rows * row_len * (planes or 1) * size)


def answer(ask):
    try:
        return ask().cells
    except Fault as f:
        return f.code, f.field, f.index


def bits(url, oracle, devices):
    n = wrong = 0
    with connect(url) as c, connect(oracle) as cpu:
        for op, dtype, kw, data in cases():
            want = answer(lambda: cpu.reduce(op, dtype, data, **kw))
            for place in (SPREAD, FIRST, FIRST + devices - 1):
                handle = c.put("bits", dtype, data, place=place, replace=True)
                got = answer(lambda: c.reduce_at(op, dtype, handle, 0, len(data), **kw))
                wrong += got != want
                n += 1
            for device in range(devices + 1):
                wrong += answer(lambda: c.reduce(op, dtype, data, device=device, **kw)) != want
                n += 1
        c.drop("bits")
    check(f"{wrong} answers have other bits", not wrong)
    return n, wrong


# ---- order statistics ----
MEDIAN, QUANTILE, KTH, LARGEST, SMALLEST, HISTOGRAM = range(27, 33)
FIVE = parameter("q", (1, -2), (25, -2), (5, -1), (75, -2), (99, -2))


def selections():
    """(what, code, tagged part)"""
    yield "median", MEDIAN, b""
    yield "five quantiles", QUANTILE, FIVE
    yield "kth", KTH, parameter("k", -7)
    yield "largest 100", LARGEST, parameter("k", 100)
    yield "smallest 100", SMALLEST, parameter("k", 100)
    yield "histogram of 100", HISTOGRAM, parameter("edges", *(i / 10 - 5 for i in range(101)))


def ranks_bits(url, oracle):
    """Rows, some of which are cut, and few columns, of any bits and of few values: the answers of two GPUs, of one, and of the CPU."""
    rng = random.Random(6)
    n = wrong = 0
    with connect(url) as c, connect(oracle) as cpu:
        for what, op, part in selections():
            for dtype, size in (("f32", 4), ("f64", 8), ("f16", 2), ("bf16", 2), ("i8", 1), ("u16", 2), ("i32", 4), ("u64", 8)):
                for rows, row_len, flags, planes in ((1, 90001, 0, 0), (5, 20011, 0, 0), (300, 301, 0, 0), (30011, 3, COLUMNS, 0), (3, 1007, 0, 5)):
                    kw = {"rows": rows, "row_len": row_len, "flags": flags, "planes": planes, "nan": rng.choice(("propagate", "omit", "error"))}
                    elements = rows * row_len * (planes or 1)
                    data = rng.randbytes(elements * size) if rng.randrange(2) else b"".join(rng.choices([rng.randbytes(size) for _ in range(5)], k=elements))
                    answers = []
                    for c_, place in ((c, SPREAD), (c, FIRST), (cpu, ANY)):
                        handle = c_.put("ranks", dtype, data, place=place, replace=True)
                        answers.append(answer(lambda c_=c_, handle=handle: c_.reduce_at(op, dtype, handle, 0, len(data), parts=[part] * bool(part), **kw)))
                    if len({str(a) for a in answers}) > 1:
                        wrong += 1
                        note("other bits", f"{what} of {dtype} {kw}: {[str(a)[:80] for a in answers]}")
                    n += 1
        c.drop("ranks")
    check(f"{wrong} order statistics have other bits", not wrong)
    return n, wrong


def ranks_times(url, elements, runs):
    """Compute times in ms of normal numbers on one GPU and on all, each beside the sum of the same."""
    rng = random.Random(7)
    chunks = [array.array("f", [rng.gauss(0, 1) for _ in range(CHUNK // 4)]).tobytes() for _ in range(2)]
    with connect(url) as c:
        def least(handle, op, part=b""):
            return min(c.reduce_at(op, "f32", handle, 0, elements * 4, parts=[part] * bool(part)).compute_ns for _ in range(runs)) * 1e-6

        print(f"\n| {elements >> 20} Mi f32, ms | one device | of its sum | all devices | of their sum |\n| --- | --- | --- | --- | --- |")
        handles = []
        for name, place in (("one", FIRST), ("all", SPREAD)):
            handle = c.store(name, "f32", elements * 4, place=place)
            for i, at in enumerate(range(0, elements * 4, CHUNK)):
                c.write(handle, at, chunks[i % len(chunks)][: elements * 4 - at])
            c.commit(handle)
            handles.append(handle)
        sums = [least(handle, "sum") for handle in handles]
        print(f"| sum | {sums[0]:.3f} | 1 | {sums[1]:.3f} | 1 |")
        for what, op, part in selections():
            one, many = (least(handle, op, part) for handle in handles)
            print(f"| {what} | {one:.3f} | {one / sums[0]:.2f} | {many:.3f} | {many / sums[1]:.2f} |", flush=True)
        c.drop("one")
        c.drop("all")


# ---- a device that fails ----
def ask(c, end, report, answers):
    """Answers, the longest pause and errors go to `report` as they come."""
    data, want, last = random.Random(3).randbytes(MIB), None, time.perf_counter()
    while time.perf_counter() < end:
        try:
            cells = c.reduce("sum", "i32", data).cells
        except Fault as f:
            report["errors"].append(str(f))
            continue
        want = want or cells
        if cells != want:
            report["errors"].append("bits")
        now = time.perf_counter()
        report["gap"], last = max(report["gap"], now - last), now
        report["done"] += 1
        with answers.get_lock():
            answers.value += 1


def client(url, seconds, out, answers):
    report = {"done": 0, "gap": 0.0, "errors": []}
    try:
        with connect(url) as c:
            ask(c, time.perf_counter() + seconds, report, answers)
    except Exception as e:  # reported
        report["errors"].append(f"after {report['done']} answers: {e!r}")
    out.put(report)


@contextmanager
def told(p, log):
    """What the daemon said, and how it ended, whatever goes wrong with its clients."""
    try:
        yield
    except Exception as e:  # reported
        check(f"the daemon does not answer: {e!r}", False)
    try:
        note("the daemon", f"left with {p.wait(2)} (70: every device is lost; below 0: a signal)")
        failed.append("the daemon ended")
    except subprocess.TimeoutExpired:
        note("the daemon", "still runs")
    print("  its log:")
    for line in log.read_text(errors="replace").splitlines()[-40:]:
        print("   ", line)


def fault(devices, seconds, flags, env, lose, program):
    with daemon(*flags, "--sandbox", "no", "--small-bytes", 0, env=env, program=program) as (url, p, log, _), told(p, log):
        chunk, total = pattern()
        with connect(url) as c:
            kept = put(c, "kept", 64 * MIB, FIRST, chunk)
            gone = put(c, "gone", 64 * MIB, FIRST + devices - 1, chunk)
            out, running, answers = multiprocessing.Queue(), [], multiprocessing.Value("L", 0)
            for _ in range(CLIENTS):
                running.append(multiprocessing.Process(target=client, args=(url, seconds, out, answers)))
                running[-1].start()
            while answers.value < 20 * CLIENTS:  # load before the fault
                time.sleep(0.01)  # poll interval
            lose(devices - 1)
            got = [out.get(timeout=seconds + 180) for _ in running]
            for x in running:
                x.join()
            errors = Counter(e for g in got for e in g["errors"])
            pause = max(g["gap"] for g in got)
            note("16 clients of 1 MiB, a device lost", f"{sum(g['done'] for g in got)} answers, longest pause {pause:.3f} s, {errors.total()} errors")
            for e, times in errors.most_common(10):
                print(f"    {times} times: {e}")
            check("answers lost or wrong after a fault", not errors)
            check("a pause above 1 s", pause < 1)
            status = c.query(2)
            note("status", ", ".join(f"{k} {status[k]}" for k in ("health", "devices", "devices_lost")))
            check("degraded", status["health"] == "degraded" and status["devices_lost"] == 1)
            check("kept data", struct.unpack("<d", c.reduce_at("sum", "f32", kept, 0, 64 * MIB).cells[0])[0] == total * 16)
            got = answer(lambda: c.reduce_at("sum", "f32", gone, 0, 64 * MIB))
            check(f"lost data: {got}", got[0] == "DEVICE_LOST")


def broken(backend, limit, env, lose, program):
    """The contexts of all devices break, four times, under load: no client waits longer than `limit` seconds."""
    os.environ["REDUCED_BIN_DIR"] = str(BUILD / "bin")
    from supervisor import Supervised
    from test_restart import restarts

    class Watched(Supervised):
        def env(self):
            return {**super().env(), **env}

    def end():
        begin, cue = time.perf_counter(), lose()
        code = d.process.wait(60)
        cue.unlink()
        check(f"left with {code}", code == 70)
        left.append(time.perf_counter() - begin)

    left = []
    with tempfile.TemporaryDirectory(prefix="rm") as folder:
        d = Watched(pathlib.Path(folder), "--sandbox", "no", "--small-bytes", 0, backend=backend, program=program)
        try:
            longest, answers = restarts(d, CLIENTS, 4, 1.5, end, MIB)
            note(f"16 clients, all contexts break, {backend}", f"4 times; {answers} right answers of sent and kept data, longest wait {longest:.3f} s; left after {max(left):.3f} s")
            check(f"a wait above {limit} s", longest < limit)  # until CUDA reports the trap 0.35, until the process has gone 0.6, start 0.5 s
        except AssertionError as e:
            check(f"answers lost or wrong after a fault: {e}", False)
        print("  the first daemon's last lines:")
        for line in pathlib.Path(folder, "log0").read_text(errors="replace").splitlines()[-6:]:
            print("   ", line)
        d.close()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cpu", action="store_true")
    p.add_argument("--only", default="start resident host file small bits ranks fault", help="parts, separated by blanks")
    a = p.parse_args()
    parts = a.only.split()
    base = ["--backend", "cpu"] if a.cpu else ["--backend", "cuda"]
    elements, size, runs, requests, seconds = (MIB, 8 * MIB, 3, 100, 2) if a.cpu else (RESIDENT, HOST, 8, 2000, 6)
    with daemon(*base, *(["--devices", 2] if a.cpu else [])) as (url, *_):
        with connect(url) as c:
            devices = c.query(2)["devices"]
    print(f"{machine()}; {devices} devices")
    ways = {1: [*base, "--devices", "1" if a.cpu else "0"], devices: [*base, "--devices", devices if a.cpu else "all"]}
    figures = {}
    with tempfile.TemporaryDirectory(prefix="rm") as folder:
        path = pathlib.Path(folder, "file.f32")
        if "file" in parts:
            chunk, _ = pattern()
            with open(path, "wb") as out:
                for _ in range(size // CHUNK):
                    out.write(chunk)
        for n, flags in ways.items():
            f = figures[n] = {}
            print(f"{n} device{'s' if n > 1 else ''}:")
            if "start" in parts:
                times = []
                for _ in range(4):
                    with daemon(*flags) as (*_, began):
                        times.append(began)
                f["start s"] = min(times)
                note("start", f"{min(times):.3f} s (of {', '.join(f'{t:.3f}' for t in times)})")
            with daemon(*flags) as (url, *_):
                if "resident" in parts:
                    wall, compute, where = resident(url, elements, SPREAD if n > 1 else ANY, 20)
                    f["resident GB/s"] = elements * 4 / compute / 1e9
                    note(f"resident f32 sum, {elements >> 20} Mi", f"{wall * 1e3:.3f} ms wall, {compute * 1e3:.3f} ms compute, {f['resident GB/s']:.0f} GB/s, place {where}")
                if "host" in parts:
                    f["alloc GB/s"], f["malloc GB/s"] = host(url, size, runs, "alloc"), host(url, size, runs)
                    note(f"reduce_alloc, malloc, {size >> 20} MiB", f"{f['alloc GB/s']:.1f}, {f['malloc GB/s']:.1f} GB/s")
                if "file" in parts:
                    f["file GB/s"], whole = host(url, size, runs, str(path)), file(url, path, runs)
                    note("file in the page cache", f"{f['file GB/s']:.1f} GB/s; {whole:.1f} GB/s with the start of reducectl")
            if "small" in parts:
                for what, more in (("on the device", ["--small-bytes", 0]), ("default settings", [])):
                    with daemon(*flags, *more) as (url, *_):
                        small(url, 32, requests // 10)
                        f[f"small {what} /s"] = max(small(url, 32, requests) for _ in range(3))
                        note(f"32 processes of 4 KiB, {what}", f"{f[f'small {what} /s']:.0f} /s")
    if "bits" in parts:
        with daemon(*ways[devices], "--small-bytes", 0) as (url, *_), daemon("--backend", "cpu") as (oracle, *_):
            note("bits", "{} answers, {} differ from the CPU's".format(*bits(url, oracle, devices)))
    if "ranks" in parts:
        with daemon(*ways[devices], "--small-bytes", 0) as (url, *_), daemon("--backend", "cpu") as (oracle, *_):
            note("order statistics", "{} answers, {} differ".format(*ranks_bits(url, oracle)))
            ranks_times(url, MIB if a.cpu else RANKED, 3 if a.cpu else 6)
    if "fault" in parts:
        with tempfile.TemporaryDirectory(prefix="rm") as folder:
            def lose(i):
                cue = pathlib.Path(folder, f"lost{i}")
                cue.touch()
                return cue

            program, env = BUILD / "bin/reduced", {"LD_PRELOAD": str(BUILD / "gpu/break.so"), "BREAK_DEVICE": f"{folder}/lost"}
            if a.cpu:
                program, env = BUILD / "faults/reduced-devices", {"DEVICES_OF_MEMORY": str(devices), "LOSE_DEVICE": f"{folder}/lost", "LOSE_HOST": "1"}
                fault(devices, seconds, ["--backend", "cuda"], env, lose, program)
                pathlib.Path(folder, f"lost{devices - 1}").unlink()
                env["LOSE_ALL"] = "1"
            for backend, limit in (("auto", 1), ("cuda", 2)):
                broken(backend, limit, env, lambda: lose(devices - 1), program)
    print("\n| case | 1 device | " + f"{devices} devices | times |\n| --- | --- | --- | --- |")
    for key, one in figures[1].items():
        many = figures[devices].get(key, 0)
        print(f"| {key} | {one:.4g} | {many:.4g} | {many / one if one else 0:.2f} |")
    print(json.dumps(figures))
    print("failed: " + "; ".join(failed) if failed else "all answers right")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
