"""Many clients of one daemon: how long small requests take while large data are reduced in the background, and how sessions and
users share large work."""

import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path

from common import BUILD, ROOT, ctl, daemon
from figures import OURS, summary

LOAD = BUILD / "bench/load"
ROUNDS, REQUESTS, ELEMENTS = 7, 4000, 1024  # f32: 4 KiB
LARGE = 8 << 30
SHARE_SECONDS = 5
NOBODY = 65534

# A session that keeps 8 requests of 4 MiB under way until standard input ends or has a line; then it prints how many were
# answered.
WORKER = """
import os, select, struct, sys
url, path, uid = sys.argv[1:]
if int(uid) != os.geteuid():
    os.setuid(int(uid))
from rawclient import REDUCE_AT, Connection, spec
from sideclient import Side
c = Connection(url)
c.hello()
side = Side(c)
handle, size = side.file(os.open(path, os.O_RDONLY))
body = spec("sum", "f32", row_len=1 << 20) + struct.pack("<QQQ", handle, 0, 4 << 20)
sent = [c.send(REDUCE_AT, body) for _ in range(8)]
print("ready", flush=True)
sys.stdin.readline()
done = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    c.wait(sent.pop(0))
    sent.append(c.send(REDUCE_AT, body))
    done += 1
print(done)
"""


@contextmanager
def large_file(size):
    """In the page cache."""
    with tempfile.NamedTemporaryFile(prefix="rb") as f:
        f.truncate(size)
        while f.read(16 << 20):
            pass
        os.chmod(f.name, 0o644)
        yield f.name


@contextmanager
def background(url, path, *options):
    """A large sum in the background, again and again."""
    command = " ".join(map(str, ctl(url, "sum", "--dtype", "f32", "--priority", "background", *options, path)))
    p = subprocess.Popen(["sh", "-c", f"while {command} >&2; do :; done"], stderr=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(p.pid, 9)
        p.wait()


def latency(url):
    """(median, 99th percentile) in us of one small request after another"""
    out = subprocess.run([LOAD, "reduce", url, "1", str(REQUESTS), str(ELEMENTS)], stdout=subprocess.PIPE, text=True, check=True)
    return tuple(map(float, out.stdout.split()[1:]))


def small_under_large(flags):
    with daemon(*flags) as (url, *_), large_file(LARGE) as path:
        rounds = {"idle": [], "file": [], "stream": []}
        for _ in range(ROUNDS):
            rounds["idle"].append(latency(url))
            with background(url, path):
                rounds["file"].append(latency(url))
            with background(url, path, "--path", "stream"):
                rounds["stream"].append(latency(url))
    for i, what in enumerate(("p50", "p99")):
        for by in ("file", "stream"):
            yield [summary("crowd", f"{what} of 4 KiB, 8 GiB by {by}", OURS, "us", [r[i] for r in rounds[by]]),
                   summary("crowd", f"{what} of 4 KiB, 8 GiB by {by}", "idle", "us", [r[i] for r in rounds["idle"]])]


def answered(url, path, uids):
    """Requests answered in the same time to sessions of these users."""
    env = dict(os.environ, PYTHONPATH=str(ROOT / "tests"))
    with ExitStack() as stack:
        workers = [stack.enter_context(subprocess.Popen([sys.executable, "-c", WORKER, url, path, str(uid)], stdin=subprocess.PIPE,
                                                        stdout=subprocess.PIPE, text=True, env=env)) for uid in uids]
        for w in workers:
            w.stdout.readline()
        for w in workers:
            w.stdin.write("go\n")
            w.stdin.flush()
        subprocess.run(["sleep", str(SHARE_SECONDS)], check=True)
        for w in workers:
            w.stdin.write("stop\n")
            w.stdin.flush()
        return [int(w.stdout.readline()) for w in workers]


def shares(flags, skip):
    me = os.geteuid()
    cases = {"2 sessions of a user": [me, me]}
    if me == 0:
        cases.update({"2 users": [me, NOBODY], "a session beside 8 of another user": [me] + [NOBODY] * 8})
    else:
        skip("other users", "only root can be another user")
    with daemon("--socket-mode", "0777", *flags) as (url, *_), large_file(1 << 30) as path:
        os.chmod(Path(url[len("ipc://"):]).parent, 0o755)
        for case, uids in cases.items():
            counts = answered(url, path, uids)
            yield [summary("crowd", f"share of the first, {case}", OURS, "", [counts[0] / sum(counts)])]


def measure(flags, skip):
    yield from small_under_large(flags)
    yield from shares(flags, skip)
