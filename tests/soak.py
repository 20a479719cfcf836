#!/usr/bin/python3
"""Hours of everything at once, or as many seconds as given:
make soak [SECONDS=60] [KILL=1] [CLIENTS=10000 DAEMONS=1000] [SHARE=0.25] [STATE=runs.tsv]

Without KILL: clients of every path compare each answer with the oracle while some of them die by kill -9, others hang up
with replies pending, miss their deadlines or send garbage. In the end the daemon must hold what it held before: memory,
descriptors, threads, pools, sessions, arenas.

With KILL: 16 clients of libreduce in full flight while the daemon dies by kill -9 every few seconds and is started again: no
wrong answer, none lost; the longest time that each client had to wait is printed.

With CLIENTS and DAEMONS: that many clients are killed at any point of their work, then that many daemons under clients of
libreduce. The same holds, and each kill is counted.

With SHARE: the clients work only for that share of the time, so that others can use the machine. With STATE: the run is added to
that file, from which soak_record.py makes a page. SIGTERM ends a run early, with all its checks."""
import argparse
import contextlib
import itertools
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from conftest import TESTS, Daemon  # noqa: E402
from rawclient import DTYPES, MAX_DATA, OPS, REDUCE, REDUCE_AT, SIZE, STATES_OUT, Closed, Connection, Fault, spec  # noqa: E402
from sideclient import FILE, Side  # noqa: E402
from soak_record import Curve, append  # noqa: E402

WARM_UP = 5  # seconds before the daemon is looked at for the first time
MEMORY_SLACK = 16 << 10  # KiB of resident memory: malloc keeps some of what was free at the peak
GAP = 2.0  # seconds that a client may wait for a daemon to be back


class Clock:
    """The time of a run, which SIGTERM ends early; and the pauses that keep to the share."""

    SPELL = 1.0  # seconds of work between two pauses

    def __init__(self, seconds, share):
        self.begun = self.paused = time.monotonic()
        self.end, self.share, self.told = self.begun + seconds, share, False
        signal.signal(signal.SIGTERM, self.stop)

    def stop(self, *_):
        self.told = True

    def seconds(self):
        return time.monotonic() - self.begun

    def over(self):
        return self.told or time.monotonic() >= self.end

    def pace(self, workers):
        worked = time.monotonic() - self.paused
        if self.share < 1 and worked >= self.SPELL:
            workers.rest(worked * (1 / self.share - 1))
            self.paused = time.monotonic()


class Workers:
    """worker.py, several at once; each ends well or the soak fails."""

    def __init__(self, url, kinds, seed):
        self.url, self.seed, self.answers, self.gaps = url, seed, 0, []
        self.running = [self.start(kind) for kind in kinds]

    def start(self, kind):
        self.seed += 1
        process = subprocess.Popen([sys.executable, TESTS / "worker.py", kind, self.url, str(self.seed), str(10**12)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.kind = kind
        return process

    def wait_ready(self):
        for p in self.running:
            assert p.stdout.readline() == "ready\n", f"{p.kind}:\n{p.stderr.read()}"

    def check(self):
        for p in self.running:
            assert p.poll() is None, f"a client ({p.kind}) left with {p.returncode}:\n{p.stderr.read()}"

    def rest(self, seconds):
        """All of them are stopped for this time, wherever they are."""
        for p in self.running:
            p.send_signal(signal.SIGSTOP)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.running[0].wait(seconds)
        for p in self.running:
            p.send_signal(signal.SIGCONT)

    def kill_one(self, pick):
        at = pick.randrange(len(self.running))
        self.running[at].kill()
        self.running[at].communicate()
        self.running[at] = self.start(self.running[at].kind)

    def end(self):
        for p in self.running:
            p.send_signal(signal.SIGTERM)
        for p in self.running:
            out, err = p.communicate(timeout=300)
            assert p.returncode in (0, -signal.SIGTERM), f"a client ({p.kind}) left with {p.returncode}:\n{err}"
            if "done" in out:  # else it had not begun
                words = out.split()
                self.gaps.append(float(words[-3]))
                self.answers += int(words[-1])


# ---- clients that misbehave ----
def hang_up(daemon, pick):
    with daemon.connect(tcp=pick.random() < 0.3) as c:
        for _ in range(pick.randrange(1, 12)):
            c.send(REDUCE, c.reduce_body("stats", "u8", bytes(pick.randrange(1, 200_000))))


def be_late(daemon, pick):
    with daemon.connect() as c:
        body = c.reduce_body("stats", "f64", bytes(MAX_DATA))
        for request in [c.send(REDUCE, body, time_ms=1) for _ in range(8)]:
            with contextlib.suppress(Fault):
                c.wait(request)


def send_garbage(daemon, pick):
    with daemon.connect(tcp=pick.random() < 0.3) as c, contextlib.suppress(Closed, Fault):
        if pick.random() < 0.5:
            c.send_frame(pick.randbytes(pick.randrange(0, 300)), pick.choice((None, 2**63, 17)))
        else:
            c.call(pick.randrange(256), pick.randbytes(pick.randrange(0, 300)))


def leave_the_fdpass_channel(daemon, pick):
    with tempfile.TemporaryFile() as f, daemon.connect() as c, Side(c) as side:
        f.write(bytes(1 << 20))
        f.flush()
        handle, size = side.file(f.fileno())
        _, memory = side.arena(4 << 20)
        memory.close()
        for _ in range(pick.randrange(6)):
            c.send(REDUCE_AT, spec("sum", "f32", row_len=size // 4) + struct.pack("<QQQ", handle, 0, size))
        if pick.random() < 0.3:
            side.send(side.packet(FILE, 1), [f.fileno()])  # a malformed packet


NUISANCES = (hang_up, be_late, send_garbage, leave_the_fdpass_channel)


# ---- what the daemon holds ----
def holdings(daemon):
    """What must be the same before and after."""
    status, proc = daemon.status(), pathlib.Path(f"/proc/{daemon.process.pid}")
    keys = [k for k in status if k.startswith(("sessions", "connections", "streams", "inflight", "side.", "pool.", "resident."))]
    held = {k: status[k] for k in keys if not k.endswith(("_total", "cap"))}
    held["arenas"] = (proc / "maps").read_text().count("memfd:reduced")
    held["descriptors"], held["threads"] = len(os.listdir(proc / "fd")), len(os.listdir(proc / "task"))
    return held


def as_before(held, before):
    """A thread that was about to end may have been counted before."""
    return held["threads"] <= before["threads"] and {**held, "threads": 0} == {**before, "threads": 0}


def settled(daemon, before=None):
    """What the daemon holds once this is its only client; waits until that is `before`."""
    end = time.monotonic() + 60
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):  # it tidies up after a second without requests
            daemon.process.wait(2.5)
        held = holdings(daemon)
        if held["connections"] == 1 and as_before(held, before or held):
            return held
        assert time.monotonic() < end, f"left over: {dict(held.items() - (before or {}).items())}, before {dict((before or held).items() - held.items())}"


def account(daemon, driver):
    """(KiB of its own without the messages that it holds, KiB shared with clients). The latter are in arenas and resident data that it
    knows of, beside what the GPU's driver shares: `driver` KiB before there were clients, and pinned memory. Both change while this
    asks."""
    def known():
        status = daemon.status()
        arrays = status["side.arena_bytes"] + status["resident.bytes"] + (status["pool.pinned.bytes"] if driver else 0)
        return driver + (arrays >> 10), status["all.message_bytes"] >> 10
    before = known()
    rss, shared = daemon.memory()
    arrays, messages = map(max, zip(before, known()))
    if shared is None:
        shared = min(arrays, rss)
    assert shared <= arrays + MEMORY_SLACK, f"{shared} KiB are shared, but arenas and resident data have {arrays}"
    return max(0, rss - shared - messages), shared


# ---- the two soaks ----
def disturb(daemon, workers, pick, clock, curve, driver):
    counts = dict.fromkeys(("killed clients", *(f.__name__ for f in NUISANCES)), 0)
    while not clock.over():
        workers.check()
        curve.sample(clock.seconds(), lambda: account(daemon, driver))
        clock.pace(workers)
        nuisance = pick.choice(NUISANCES)
        nuisance(daemon, pick)
        counts[nuisance.__name__] += 1
        if pick.random() < 0.02:
            workers.kill_one(pick)
            counts["killed clients"] += 1
    return counts


def every_kernel(daemon):
    """CUDA loads a kernel when it is first used, and keeps it: each way through an operation and a type once."""
    size, lines = 1 << 19, (2, 32, 1024, 1 << 16)  # more than --small-bytes
    with daemon.connect() as c:
        for op, dtype in itertools.product(OPS, DTYPES):
            for body in kernels_of(c, op, dtype, size // SIZE[dtype], lines):
                with contextlib.suppress(Fault):  # OP, TYPE: not every operation takes every type; OVERFLOW
                    c.call(REDUCE, body)


def kernels_of(c, op, dtype, n, lines):
    data = bytes(n * SIZE[dtype])
    for body in ({}, {"flags": STATES_OUT}, {"mask": bytes(n)}, {"offsets": list(range(0, n + 1, n // 64))}):
        yield c.reduce_body(op, dtype, data, **body)
    for rows, columns in itertools.product([n // line for line in lines], (False, True)):
        yield c.reduce_body(op, dtype, data, rows=rows, columns=columns)
        yield c.reduce_body(op, dtype, data, rows=rows, columns=columns, mask=bytes(n))


def engine(daemon):
    """What it computes on, for the record."""
    with daemon.connect() as c:
        return str(c.query(1)["device"])


def soak(folder, seconds, seed, share, found):
    pick = random.Random(seed)
    daemon = Daemon(folder, tcp=True)
    found.update(kind="work", share=share, engine=engine(daemon))
    try:
        if os.environ.get("REDUCED_BACKEND") == "cuda":
            every_kernel(daemon)
        driver = daemon.memory()[1] or 0
        kinds = ["raw", "lib", "paths", "raw", "lib", "paths"]
        warm = Workers(daemon.url, kinds, seed)
        warm.wait_ready()
        disturb(daemon, warm, pick, Clock(WARM_UP, 1), Curve(), driver)
        warm.end()
        before = settled(daemon)
        memory = daemon.rss()
        workers = Workers(daemon.url, kinds, seed + 1000)
        clock, curve = Clock(seconds, share), Curve()
        counts = disturb(daemon, workers, pick, clock, curve, driver)
        workers.end()
        found.update(seconds=round(clock.seconds()), answers=workers.answers, clients_killed=counts["killed clients"], memory=curve)
        settled(daemon, before)
        after = daemon.rss()
        print(f"{workers.answers} answers right; {', '.join(f'{v} x {k}' for k, v in counts.items())}")
        print(f"resident memory before and after: {memory} and {after} KiB; all else as before: {before}")
        assert after <= memory + MEMORY_SLACK, "memory has grown"
        assert curve.growth() <= MEMORY_SLACK, f"memory has grown after {curve.settled():.0f} s: {curve}"
        daemon.stop()
    finally:
        daemon.close()


def soak_with_kills(folder, seconds, seed, share, found, most=None, pause=(1, 5), clients=16):
    """For some seconds, or until `most` daemons were killed."""
    pick = random.Random(seed)
    daemons = [Daemon(folder)]
    found.update(kind="restarts", share=share, engine=engine(daemons[0]))
    try:
        workers = Workers(daemons[0].url, ["lib", "paths"] * (clients // 2), seed)
        workers.wait_ready()
        clock, kills = Clock(seconds, share), 0
        while not clock.told and kills < most if most else not clock.over():
            clock.pace(workers)
            with contextlib.suppress(subprocess.TimeoutExpired):  # they are in the middle of something
                daemons[-1].process.wait(pick.uniform(*pause))
            workers.check()
            daemons.pop().close()
            for log in pathlib.Path(folder).glob("notify*"):
                log.unlink()
            daemons.append(Daemon(folder))
            kills += 1
            if kills % 50 == 0 and most:
                print(f"{kills} daemons killed", flush=True)
        workers.end()
        found.update(seconds=round(clock.seconds()), answers=workers.answers, daemons_killed=kills)
        late = [g for g in workers.gaps if g > GAP]
        print(f"{workers.answers} answers right of {len(workers.gaps)} clients, {kills} daemons killed")
        print(f"longest waits of the clients: {' '.join(f'{g:.2f}' for g in sorted(workers.gaps))} s; {len(late)} above {GAP} s")
        daemons[-1].stop()
    finally:
        for d in daemons:
            d.close()


# ---- a number of kills ----
ONES = bytes([1]) * (1 << 20)


def doomed(url, seed, ready):
    """A client that works by every path until it is killed. It ends by itself only if an answer is wrong."""
    pick = random.Random(seed)
    with Connection(url) as c:
        c.hello()
        ready()
        with Side(c) as side, tempfile.TemporaryFile() as f:
            f.write(ONES)
            f.flush()
            file, _ = side.file(f.fileno())
            arena, memory = side.arena(len(ONES))
            memory[:] = ONES
            while True:
                n = pick.randrange(1, len(ONES))
                want = [struct.pack("<Q", n)]
                assert c.reduce("sum", "u8", ONES[:n]).cells == want
                assert c.reduce_at("sum", "u8", pick.choice((file, arena)), 0, n).cells == want
                stream = c.begin("sum", "u8")
                c.append(stream, 0, ONES[:n])
                assert c.finish(stream, n).cells == want
                c.put("mine" + str(pick.randrange(4)), "u8", ONES[: n // 8 + 1], replace=True)


def start_doomed(url, seed):
    """Its pid, when it has a session."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            doomed(url, seed, lambda: os.write(write, b"r"))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(write)
    assert os.read(read, 1) == b"r", "a client could not begin"
    os.close(read)
    return pid


def kill_clients(folder, kills, seed, found):
    """Four at work at a time; any of them dies every few milliseconds. One client stays, and each of its answers is right."""
    pick = random.Random(seed)
    daemon, begun = Daemon(folder), time.monotonic()
    found.update(kind="kills", engine=engine(daemon))
    try:
        before, checked = settled(daemon), 0
        with daemon.connect() as witness:
            running = [start_doomed(daemon.url, seed + i) for i in range(4)]
            for killed in range(1, kills + 1):
                for _ in range(pick.randrange(4)):
                    assert witness.reduce("sum", "u8", ONES[:70000]).cells == [struct.pack("<Q", 70000)]
                    checked += 1
                at = pick.randrange(len(running))
                os.kill(running[at], signal.SIGKILL)
                assert os.WTERMSIG(os.waitpid(running[at], 0)[1]) == signal.SIGKILL, "a client had a wrong answer"
                running[at] = start_doomed(daemon.url, seed + 4 + killed)
                if killed % 500 == 0:
                    print(f"{killed} clients killed", flush=True)
            for pid in running:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            for x in witness.list():
                witness.drop(x.name)
        found.update(seconds=round(time.monotonic() - begun), answers=checked, clients_killed=kills)
        settled(daemon, before)
        print(f"{kills} clients killed, {checked} answers of the one that stayed were right; the daemon holds what it held before")
        daemon.stop()
    finally:
        daemon.close()


def recorded(state, run, *args, **kw):
    """Run a soak, and add what it met to the state if there is one, whatever its verdict."""
    found = {"engine": "none", "share": 1, "seconds": 0, "answers": 0, "clients_killed": 0, "daemons_killed": 0, "memory": "", "verdict": "right"}
    try:
        with tempfile.TemporaryDirectory(prefix="rd") as folder:
            run(folder, *args, found=found, **kw)
    except BaseException as e:
        found["verdict"] = f"{type(e).__name__}: {e}".splitlines()[0][:120]
        raise
    finally:
        if state and "kind" in found:
            append(state, **found)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seconds", type=float, default=60)
    p.add_argument("--kill", action="store_true")
    p.add_argument("--clients", type=int, default=0, help="kill this number of clients")
    p.add_argument("--daemons", type=int, default=0, help="kill this number of daemons")
    p.add_argument("--share", type=float, default=1, help="of the time in which clients work")
    p.add_argument("--state", help="add the run to this file, and write the page beside it")
    p.add_argument("--seed", type=int, default=20261121)
    a = p.parse_args()
    if a.clients:
        recorded(a.state, kill_clients, a.clients, a.seed)
    if a.daemons:
        recorded(a.state, soak_with_kills, 0, a.seed, 1, most=a.daemons, pause=(0.05, 0.4), clients=4)
    if not a.clients and not a.daemons:
        recorded(a.state, soak_with_kills if a.kill else soak, a.seconds, a.seed, a.share)


if __name__ == "__main__":
    main()
