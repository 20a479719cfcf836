"""Every attack of hostile.py for a moment, beside an honest client. `make hostile` runs the same for longer, on two builds.

The honest client's slowest cycle in a hundred may take ten times as long as without an attack, and none may fail. Times below
FLOOR are ignored: beside other tests a process may get no processor for that long. Of fewer than a hundred cycles the slowest counts. If
that one was too slow, there are up to ENOUGH of them: an attack slows down one in a hundred again, a pause of the machine does not."""
import concurrent.futures
import os
import pathlib
import shutil
import tempfile
import time

import pytest

import hostile
from certificates import Authority
from conftest import BIN, Daemon, finish, sanitizer
from hostile import ATTACKS, HONEST, MIB, SLOW, WIDE, Honest, Target, begin_attack, lure, p99
from otheruser import as_user, needs_root
from rawclient import REDUCE

SECONDS = float(os.environ.get("HOSTILE_SECONDS", "0.05" if sanitizer() else "0.3"))
FLOOR = float(os.environ.get("HOSTILE_FLOOR", "0.5"))
STRANGERS = 64 << 10  # KiB: what the daemon may hold for all of them
ENOUGH, LONGEST = 400, 20  # cycles, and seconds for them

pytestmark = needs_root


class Site:
    """A daemon on every kind of socket, and how long a cycle takes when nobody attacks it."""

    def __init__(self, folder):
        os.chmod(folder, 0o755)
        self.runtime = folder / "attacker"
        self.runtime.mkdir(mode=0o700)
        os.chown(self.runtime, hostile.ATTACKER, hostile.ATTACKER)
        ca = Authority(folder, "ca")
        cert, key = ca.issue("server", "localhost")
        self.daemon = Daemon(folder, "--socket-mode", "0666", "--allow-uid", 0, "--allow-uid", HONEST, "--allow-uid", hostile.ATTACKER,
                             "--listen", "tls+tcp://127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--tls-ca", ca.file("pem"), tcp=True)
        self.daemon.wait_log("ready$")
        self.urls = [line.rsplit(" ", 1)[1] for line in self.daemon.log().splitlines() if " serving " in line]
        self.rows = []
        self.measure(1)  # the first requests of a daemon are slower
        self.task = max(self.slow_task() for _ in range(5))
        self.idle = p99(self.measure(max(2, SECONDS))[0])

    def slow_task(self):
        """Seconds that one of the slow attacks' tasks takes when it is alone."""
        with self.daemon.connect() as c:
            begin = time.monotonic()
            c.call(REDUCE, SLOW + MIB)
            c.call(REDUCE, WIDE)
            return time.monotonic() - begin

    def target(self, seconds):
        by_kind = {url.split(":")[0]: url for url in self.urls}
        return Target(by_kind["ipc"], by_kind["tcp"], by_kind["tls+tcp"], time.monotonic() + seconds, str(self.runtime))

    def measure(self, seconds, attack=None):
        """The times of the honest client's cycles, and the most KiB that the daemon had meanwhile."""
        target, most = self.target(seconds), 0
        pids = begin_attack(attack, target) if attack else []
        with concurrent.futures.ThreadPoolExecutor() as pool:
            honest = pool.submit(as_user, HONEST, HONEST, lambda: Honest(target).run())
            while attack and attack.lures and not (self.runtime / "reduced.sock.side").exists():
                assert target.left(), "the attacker does not listen"
            while not honest.done():
                if attack and attack.lures:
                    lure(target, BIN / "reducectl")
                most = max(most, self.daemon.rss())
                time.sleep(0.01)  # poll interval
        ends = [os.waitpid(pid, 0)[1] for pid in pids]
        assert not any(ends), "an attack has a fault of its own"
        return honest.result(), most


@pytest.fixture(scope="module")
def site(request):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="rd"))  # not pytest's, which is for its user alone
    s = Site(folder)
    yield s
    print(f"\nidle: p99 of a cycle {s.idle * 1e3:.1f} ms, a slow task {s.task * 1e3:.1f} ms")
    for row in s.rows:
        print("{:40} {:>6} cycles  p50 {:8.1f} ms  p99 {:8.1f} ms  {:5.1f} x idle  {:>8} KiB more".format(*row))
    finish(request, [s.daemon])
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("name", ATTACKS)
def test_an_honest_client_is_served_beside(site, name):
    attack, before = ATTACKS[name], site.daemon.rss()
    floor = FLOOR * (3 if attack.fills and sanitizer() else 1)
    limit = max(10 * site.idle, 6 * site.task * attack.slow + floor)
    times, most = site.measure(max(2, SECONDS) if attack.lures else SECONDS, attack)
    end = time.monotonic() + LONGEST
    while p99(times) > limit and len(times) < ENOUGH and time.monotonic() < end:
        more, held = site.measure(max(2, SECONDS), attack)
        times, most = times + more, max(most, held)
    site.rows.append((name, len(times), sorted(times)[len(times) // 2] * 1e3, p99(times) * 1e3, p99(times) / site.idle, most - before))
    assert p99(times) <= limit, (p99(times), len(times), site.idle)
    if attack.strangers:
        assert most - before <= STRANGERS, (before, most)
