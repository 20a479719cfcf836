"""Processes that share a machine: each reduces an array again and again, by default, by every way that it can be forced to, with NumPy and
with PyTorch in a context of its own. The rate of all of them together. At the end: how often the default is near the best forced way.

Ways: the process itself; a daemon's CPU; its GPU; both, which share large data. At most 60 cells, seven rounds, each in another order. The peers are
there in three of them. Some 4 minutes with a GPU and 16 cores; --cells of run.py chooses cells by their names.

Calls of up to 1 MiB have one thread. While they are timed, that of worker i stays on the same core in every way: each way has processes of its
own, and one that sits on a slower or shared core for the whole cell looked 1.4 times slower than the same code in another one."""

import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

from common import BUILD, ROOT, daemon
from figures import OURS, Skip, gpu, summary

ROUNDS, SHORT, LONG = 7, 0.04, 0.1  # seconds: up to 1 MiB, above
PEERS = ("numpy", "torch")
chosen = ""  # a regular expression for names of cells; run.py sets it
KIB, MIB = 1 << 10, 1 << 20
ONE_THREAD = MIB  # less than twice RK_THREAD_BYTES
CORES = sorted(os.sched_getaffinity(0))
NEAR, NEVER, TOLD = 1.1, 1.3, 2
CELLS = [(op, size, "malloc", n) for op, sizes in (("sum", (16, 16 * KIB, MIB, 64 * MIB)), ("var", (16 * KIB, 64 * MIB)), ("stats", (16 * KIB, 64 * MIB)),
                                                   ("prod", (16 * KIB, 64 * MIB))) for size in sizes for n in (1, 4, 16)]
CELLS += [(op, 1 << 30, "malloc", 1) for op in ("sum", "prod")]
CELLS += [(op, 64 * MIB, "alloc", n) for op in ("sum", "var", "prod") for n in (1, 4, 16)]
CELLS += [(op, 64 * MIB, "file", n) for op in ("sum", "var", "prod") for n in (1, 4, 16)]
CELLS += [("sum", size, "tensor", n) for size in (MIB, 64 * MIB) for n in (1, 4)]
WORKER = """
import ctypes, os, sys, time
import numpy as np
who, url, folder = sys.argv[1:]
if who == "torch":
    import torch
elif who != "numpy":
    os.environ["REDUCED_URL"] = url
    import reduced
    client = reduced._client.default()

def values(op, size):
    x = np.random.default_rng(1).standard_normal(min(size, 1 << 20) // 4, dtype="f4")
    return np.tile(1 + x / 1024 if op == "prod" else x, max(1, size >> 20))

def allocated(a):
    memory = ctypes.c_void_p()
    client.call("reduce_alloc", ctypes.c_size_t(a.nbytes), ctypes.byref(memory))
    found = np.frombuffer((ctypes.c_char * a.nbytes).from_address(memory.value), a.dtype)
    found[:] = a
    return found, memory

def call_of(op, size, place):
    path = f"{folder}/{op}-{size}.npy"
    a = call_of.values = values(op, size)
    if who == "numpy":
        f = {"stats": lambda a: (a.min(), a.argmin(), a.max(), a.argmax(), a.mean(), a.var())}.get(op) or (lambda a: getattr(a, op)(dtype="f8"))
        return (lambda: f(np.load(path))) if place == "file" else lambda: f(a)
    if who == "torch":
        f = {"stats": lambda t: [x.item() for x in (t.min(), t.argmin(), t.max(), t.argmax(), t.mean(), t.var())]}.get(op) or (lambda t: getattr(t, op)().item())
        t = torch.from_numpy(a)
        if place == "tensor":
            t = t.cuda()
            return lambda: f(t)
        return lambda: f(t.cuda())
    if place == "alloc":
        a, memory = allocated(a)
        call_of.kept.append(memory)
    elif place == "file":
        a = reduced.file(path)
    elif place == "tensor":
        import torch as tensors  # not above: it takes seconds
        a = tensors.from_numpy(a).cuda()
    f = getattr(reduced, op)
    return lambda: f(a)
call_of.kept = []

def expected(op, size, place):
    # real time of reduce_run or reduce_file, by what reduce_explain expects of the way that is taken
    from reduced import _abi
    spec = _abi.Spec(size=ctypes.sizeof(_abi.Spec), op=_abi.OPS[op].code, dtype=_abi.DTYPES["f32"], rows=1)
    found, took, out = [], [], ctypes.create_string_buffer(256)
    each = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_abi.Way))
    note = each(lambda arg, way: 0 if found.extend([way[0].expected_ns] * way[0].taken) is None else 1)
    fd = os.open(f"{folder}/{op}-{size}.npy", os.O_RDONLY) if place == "file" else -1
    n, end = ctypes.c_uint64(size), (out, ctypes.c_size_t(256), None)
    client.call("reduce_explain", ctypes.byref(spec), fd, n, ctypes.cast(note, ctypes.c_void_p), None)
    file = (reduced._lib.lib().reduce_file, fd, ctypes.c_uint64(128), n)
    run, *what = file if place == "file" else (reduced._lib.lib().reduce_run, ctypes.c_void_p(call_of.values.ctypes.data), n)
    what = client._handle, ctypes.byref(spec), *what, *end
    for _ in range(7):
        begin = time.monotonic()
        reduced._lib.check(run(*what))
        took.append(time.monotonic() - begin)
    return sorted(took)[3] / (found[0] * 1e-9)

case = call = None
everywhere = os.sched_getaffinity(0)
for line in sys.stdin:
    words = line.split()
    if words[0] == "case":
        if case != words:
            call = None
            for memory in call_of.kept:
                reduced._lib.lib().reduce_free(client._handle, memory)
            call_of.kept.clear()
            call = call_of(words[1], int(words[2]), words[3])
            case = words
        print("made", flush=True)
    elif words[0] == "warm":
        for _ in range(int(words[1])):
            call()
        print("warm", flush=True)
    elif words[0] == "explain":
        print(expected(words[1], int(words[2]), words[3]), flush=True)
    else:
        # only this thread, and only now: threads that the calls need have been started, and may use every core
        os.sched_setaffinity(0, map(int, words[2].split(",")))
        n, begin = 0, time.monotonic()
        while (now := time.monotonic()) < begin + float(words[1]):
            call()
            n += 1
        os.sched_setaffinity(0, everywhere)
        print(n / (now - begin), flush=True)
"""


def has_torch():
    try:
        import torch
        return torch.cuda.is_available()
    except ImportError:
        return False


class Workers:
    """As many processes of one way as a cell may need; they wait until they are asked."""

    def __init__(self, who, url, local, folder, most):
        env = dict(os.environ, PYTHONPATH=str(ROOT / "client/python"), REDUCED_LIBRARY=str(BUILD / "lib/libreduce.so.0"), REDUCE_LOCAL=local)
        self.all = [subprocess.Popen([sys.executable, "-c", WORKER, who, url, folder], env=env, text=True, stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE) for _ in range(most)]

    def tell(self, n, *lines):
        """Each of the first n a line of its own, or all the same one."""
        for i, w in enumerate(self.all[:n]):
            w.stdin.write(lines[i % len(lines)] + "\n")
            w.stdin.flush()

    def answers(self, n):
        return [w.stdout.readline().strip() for w in self.all[:n]]

    def ask(self, n, *lines):
        self.tell(n, *lines)
        return self.answers(n)

    def rate(self, n, seconds, cores):
        """Of all of them, in 1/s."""
        return sum(map(float, self.ask(n, *(f"go {seconds} {','.join(map(str, c))}" for c in cores))))

    def expected(self, op, size, place, n):
        """Real time by what reduce_explain expects: the median of all of them."""
        return statistics.median(map(float, self.ask(n, f"explain {op} {size} {place}")))

    def end(self):
        for w in self.all:
            w.stdin.close()
        for w in self.all:
            w.wait()


def makes(who, place):
    """Can it do data there?"""
    if place == "tensor":
        return who in (OURS, "torch")
    return not (who == "torch" and place == "file") and not (who == "numpy" and place == "alloc") and not (who == "process" and place == "file")


def name_of(op, size, place, n):
    text = f"{size >> 20} MiB" if size >= MIB else f"{size >> 10} KiB" if size >= KIB else f"{size} B"
    return f"{op} of {text}, {place}, {n} processes"


def foretold(ratios):
    """How far the time of a call in C was from what `reducectl explain` would have told."""
    right = sum(1 / TOLD <= r <= TOLD for r in ratios.values())
    wrong = "; ".join(f"{c}: {r:.2f}" for c, r in ratios.items() if not 1 / TOLD <= r <= TOLD)
    print(f"within {TOLD} of what is expected in {right} of {len(ratios)} cells; the others, real by expected time: {wrong}", flush=True)


def verdict(ratios):
    """How far the default was from the best forced way, as the ratio of the rates."""
    near = sum(r <= NEAR for r in ratios.values())
    worst = sorted(ratios, key=ratios.get)[-5:]
    print(f"the default is within {NEAR} of the best forced way in {near} of {len(ratios)} cells, above {NEVER} in {sum(r > NEVER for r in ratios.values())}; the furthest: "
          + "; ".join(f"{c}: {ratios[c]:.2f}" for c in reversed(worst)), flush=True)


def files(folder, cells):
    import numpy as np
    x = np.random.default_rng(1).standard_normal(MIB // 4, dtype="f4")
    for op, size in {(op, size) for op, size, place, _ in cells if place == "file"}:
        np.save(f"{folder}/{op}-{size}.npy", np.tile(1 + x / 1024 if op == "prod" else x, size >> 20))


def prepare(workers, op, size, place, n):
    """All make their data at once; then each way has the machine for itself, and learns."""
    for w in workers.values():
        w.tell(n, f"case {op} {size} {place}")
    if any(set(w.answers(n)) != {"made"} for w in workers.values()):
        raise SystemExit(f"a worker ended: {name_of(op, size, place, n)}")
    for who, w in workers.items():
        w.ask(n, f"warm {1 if who in PEERS else 3 if who != OURS or size > 1 << 27 else 12}")


def cores_of(size, n):
    """Those of each worker: one of its own for one thread, far from the others' (neighbours may share a core); or all."""
    step = max(1, len(CORES) // n)
    return [[CORES[(i * step + step - 1) % len(CORES)]] for i in range(n)] if size <= ONE_THREAD else [CORES]


def rates(workers, size, n):
    """Of each way, of each round."""
    found = {who: [] for who in workers}
    order = list(workers)
    cores = cores_of(size, n)
    for i in range(ROUNDS):
        first = i % len(order)
        for who in order[first:] + order[:first]:
            if who not in PEERS or i % 3 == 0:
                found[who].append(workers[who].rate(n, LONG if size > MIB else SHORT, cores))
    return found


def measure(flags, skip):
    try:
        import numpy  # noqa: F401
    except ImportError as err:
        raise Skip(str(err)) from err
    tensors = has_torch()
    cells = [c for c in CELLS if re.search(chosen, name_of(*c)) and (tensors or c[2] != "tensor")]
    if not cells:
        raise Skip(f"no cell matches {chosen}")
    begin = time.monotonic()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rb"))
        files(folder, cells)
        auto, cpu = (stack.enter_context(daemon("--backend", b, *flags))[0] for b in ("auto", "cpu"))
        ways = {OURS: (auto, ""), "process": (cpu, "yes"), "cpu": (cpu, "no"), "numpy": ("", "")}
        if gpu():
            ways |= {"gpu": (stack.enter_context(daemon("--backend", "cuda", *flags))[0], "no"), "shared": (auto, "no")}
        if tensors:
            ways["torch"] = ("", "")
        ratios, told, workers = {}, {}, {}
        for who, (url, local) in ways.items():
            workers[who] = Workers(who, url, local, folder, max(n for *_, n in cells))
            stack.callback(workers[who].end)
        for op, size, place, n in cells:
            name, there = name_of(op, size, place, n), {who: w for who, w in workers.items() if makes(who, place)}
            prepare(there, op, size, place, n)
            found = rates(there, size, n)
            forced = [statistics.median(x) for who, x in found.items() if who not in (OURS, *PEERS)]
            if forced:
                ratios[name] = max(forced) / statistics.median(found[OURS])
            if place in ("malloc", "file"):
                told[name] = workers[OURS].expected(op, size, place, n)
            yield [summary("share", name, who, "1/s", x) for who, x in found.items()]
        verdict(ratios)
        foretold(told)
        print(f"{len(cells)} cells in {time.monotonic() - begin:.0f} s")
