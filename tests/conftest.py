"""Real daemons for the tests. The binaries come from $REDUCED_BIN_DIR (default build/bin), the backend from
$REDUCED_BACKEND (default cpu). A daemon's log is shown when its test fails; at its end it must leave with exit code 0
after SIGTERM, and its log must be free of sanitizer reports."""
import contextlib
import functools
import os
import pathlib
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import pytest

TESTS = pathlib.Path(__file__).parent
ROOT = TESTS.parent
sys.path.insert(0, str(TESTS))

import piped  # noqa: E402
from rawclient import Connection  # noqa: E402

BIN = pathlib.Path(os.environ.get("REDUCED_BIN_DIR", ROOT / "build" / "bin")).resolve()
LIB = BIN.parent / "lib" if "REDUCED_BIN_DIR" in os.environ else (ROOT / "build" / "lib").resolve()
BACKEND = os.environ.get("REDUCED_BACKEND", "cpu")
# Files whose tests have the threads of the daemon or of libreduce at work on shared data: ThreadSanitizer gets these, since it takes
# ten times as long. The others ask the same threads for other values, or have one.
THREADS = set("charges device devices endings everywhere fake_daemon fuse hostile interrupted lib local long_segments many metrics"
              " opening paths python_client python_device python_failures python_signals requests resident restart sched side trace"
              " waiting wire reload turned_away removed_sockets".split())
# Files that the build without a sanitizer runs whole, since they look at how programs start, at their messages, or at faults that
# only this build has. Of the others it runs what is marked slow, unsanitized or values; AddressSanitizer gets them all.
PLAIN = set("config cli lib protocol outside opening faults device devices bench mpi slurm page monitoring python_docs".split())
SANITIZER = re.compile(r"(Address|Leak|Thread|Memory|UndefinedBehavior)Sanitizer|runtime error:")


def pseudo_terminal():
    """The two ends of a pseudo-terminal."""
    try:
        return pty.openpty()
    except OSError as e:  # as in a bare root
        pytest.skip(f"no pseudo-terminal (/dev/pts): {e}")


# A sanitizer's runtime that Python was started with, so that it can load libreduce. Programs that tests start bring theirs, and
# each Python among them that loads libreduce needs RUNTIME.
LOADED = os.environ.pop("LD_PRELOAD", "")
RUNTIME = os.environ.get("SANITIZER_RUNTIME", LOADED)
# ThreadSanitizer makes a vfork a fork, which copies the tables of all its memory. Without close_fds Python takes posix_spawn, and
# its descriptors close in the exec by themselves.
if "libtsan" in LOADED:
    def _spawn(self, *a, pass_fds=(), start=subprocess.Popen.__init__, **kw):
        start(self, *a, pass_fds=pass_fds, close_fds=bool(pass_fds), **kw)
    subprocess.Popen.__init__ = _spawn


@functools.cache  # which reads the whole program, and each state of test_states.py asks
def sanitizer():
    """What the programs are built with: SANITIZE of the Makefile."""
    data = (BIN / "reduced").read_bytes() if (BIN / "reduced").exists() else b""
    return "address,undefined" if b"__asan_init" in data else "thread" if b"__tsan_init" in data else ""


def libreduce_path():
    """Of the libreduce that this process may load."""
    if sanitizer() and not LOADED:
        pytest.exit("Python must load the sanitizer before libreduce: tests/run does so, as python_env() says", 2)
    return str(LIB / "libreduce.so")


def python_env():
    """The environment of a Python that loads libreduce. What Python itself leaks at its end is not ours."""
    options = os.environ["ASAN_OPTIONS"] + ":detect_leaks=0"
    return {**os.environ, "LD_PRELOAD": RUNTIME, "ASAN_OPTIONS": options} if RUNTIME else dict(os.environ)


def reducectl_options():
    """The names of all options, from the table of the program."""
    found = re.findall(r'{ROW\("([a-z-]+)", ', (ROOT / "client" / "ctl" / "options.c").read_text())
    assert len(found) > 20
    return found


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes many seconds; left out with sanitizers")
    config.addinivalue_line("markers", "unsanitized: runs nothing that is built with a sanitizer; left out with them")
    config.addinivalue_line("markers", "values: finds wrong values, with the threads of every request: same_threads, and in the plain build")
    config.addinivalue_line("markers", "threads: ThreadSanitizer gets it; by file, see THREADS")
    config.addinivalue_line("markers", "same_threads: its parameters differ in what threads do not see; of these ThreadSanitizer gets the"
                                       " first, with threads_elsewhere=True none: a cheaper test has these threads")
    config.addinivalue_line("markers", "plain: runs without a sanitizer, too; by file, see PLAIN")
    config.sanitized = bool(sanitizer())
    config.processor = sum(os.times()[:4])
    os.environ.setdefault("ASAN_OPTIONS", "abort_on_error=0")
    os.environ["ASAN_OPTIONS"] += ":detect_leaks=1:handle_sigill=1"
    # ThreadSanitizer sleeps for a second at each exit otherwise
    os.environ["TSAN_OPTIONS"] = ":".join(filter(None, [os.environ.get("TSAN_OPTIONS"), "atexit_sleep_ms=0"]))
    os.environ.pop("REDUCED_URL", None)
    os.environ["REDUCE_LOCAL"] = "no"  # what these tests ask for is the daemon's work; test_local.py is about the rest


@pytest.hookimpl(tryfirst=True)  # before pytest selects by -m
def pytest_collection_modifyitems(config, items):
    for i in items:
        name = i.path.stem.removeprefix("test_")
        for mark, names in (("threads", THREADS), ("plain", PLAIN)):
            if name in names:
                i.add_marker(mark)
    if config.sanitized:
        items[:] = [i for i in items if not i.get_closest_marker("slow") and not i.get_closest_marker("unsanitized")]
    if sanitizer() == "thread":
        seen = set()
        for i in list(items):
            if mark := i.get_closest_marker("same_threads") or i.get_closest_marker("values"):
                if i.function in seen or mark.kwargs.get("threads_elsewhere"):
                    items.remove(i)
                seen.add(i.function)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item):
    """How much processor time a test took, with its fixtures and every process that has ended: for the junit file."""
    yield
    now = sum(os.times()[:4])
    item.user_properties.append(("processor", f"{now - item.config.processor:.2f}"))
    item.config.processor = now


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.when == "call":
        item.failed = outcome.get_result().failed


class Daemon:
    """One reduced on sockets in a directory of its own."""

    def __init__(self, directory, *flags, tcp=False, backend=BACKEND, wait=True, program=BIN / "reduced", listen=True):
        self.directory = pathlib.Path(directory)
        self.path = self.directory / "s"
        self.url = f"ipc://{self.path}"
        self.log_path = self.directory / f"log{len(list(self.directory.glob('log*')))}"
        self.flags = [*(["--listen", self.url] if listen else []), "--backend", backend, *map(str, flags)]
        self.tcp_url = None
        if tcp:
            self.flags += ["--listen", "tcp://127.0.0.1:0", "--allow-plain-tcp", "yes"]
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify_path = str(self.directory / f"notify{time.monotonic_ns()}")
        self.notify.bind(self.notify_path)
        self.log_file = open(self.log_path, "wb")
        self.process = self.spawn([program, *self.flags])
        if wait:
            self.wait_ready()
        if tcp:  # it took a free port and says which
            self.tcp_url = re.search(r"serving (tcp://\S+)", self.log())[1]

    def env(self):
        """FDSTORE: nobody here keeps descriptors (supervisor.py does)."""
        return {**os.environ, "NOTIFY_SOCKET": self.notify_path, "FDSTORE": "0", "XDG_RUNTIME_DIR": str(self.directory),
                "XDG_CONFIG_HOME": str(self.directory)}

    def spawn(self, command):
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log_file, stderr=self.log_file, env=self.env())

    def wait_ready(self, seconds=60):
        """Connect until it answers; it is dead if the process has ended."""
        end = time.monotonic() + seconds
        while True:
            try:
                with Connection(self.url, timeout=max(0.1, end - time.monotonic())) as c:
                    c.ping(b"ready")
                return
            except OSError as e:
                if self.process.poll() is not None:
                    raise AssertionError(f"the daemon left with {self.process.returncode}:\n{self.log()}") from e
                if time.monotonic() > end:
                    raise AssertionError(f"the daemon is not ready after {seconds} s:\n{self.log()}") from e
                select_a_moment(self.process)

    def notified(self, what, seconds=60):
        """Wait for a message of sd_notify that has the line `what` (a regular expression)."""
        self.notify.settimeout(seconds)
        while True:
            text = self.notify.recv(4096).decode()
            if re.search(what, text, re.M):
                return text

    def connect(self, hello=True, timeout=60.0, tcp=False):
        c = Connection(self.tcp_url if tcp else self.url, timeout)
        if hello:
            c.hello()
        return c

    def status(self):
        with self.connect() as c:
            return c.query(2)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def wait_log(self, pattern, seconds=60):
        """Wait until the log has a line that matches."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.log(), re.M):
            assert time.monotonic() < end and self.process.poll() is None, f"no /{pattern}/ in the log:\n{self.log()}"
            select_a_moment(self.process)

    def rss(self):
        return self.memory()[0]

    def memory(self):
        """Resident KiB, and those of them that others share with it: arenas are the memory of its clients. gVisor does not say which."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        rss, shared = (re.search(rf"{name}:\s+(\d+)", text) for name in ("VmRSS", "RssShmem"))
        return int(rss[1]), int(shared[1]) if shared else None

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self, seconds=60):
        """SIGTERM: it must leave by itself, with 0."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(seconds)
        assert code == 0, f"the daemon left with {code}:\n{self.log()}"
        self.check_log()

    def check_log(self):
        assert not SANITIZER.search(self.log()), f"the sanitizer spoke:\n{self.log()}"

    def close(self):
        if self.process.poll() is None:
            self.kill()
        self.notify.close()
        self.log_file.close()


def select_a_moment(process):
    """Wait up to 10 ms for the process to end: pacing of a loop that waits for something which has no descriptor."""
    try:
        process.wait(0.01)
    except subprocess.TimeoutExpired:
        pass


def memory_device(program="tests/reduced-device"):
    """Options that start a daemon whose devices are made of memory (tests/device/device.c)."""
    program = BIN.parent / program
    if not program.exists():
        pytest.skip("`make unit-tests`, and with CUDA `make fault-tools`, build the daemons with devices of memory")
    return {"program": program, "backend": "cuda"}


@pytest.fixture
def scratch():
    """A short directory: a unix socket's path has 107 bytes at most."""
    directory = tempfile.mkdtemp(prefix="rd")
    yield pathlib.Path(directory)
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def start(request, scratch):
    """start(*flags, tcp=False) -> Daemon. All are stopped and checked at the end."""
    daemons = []

    def run(*flags, **kw):
        daemons.append(None)
        daemons[-1] = d = Daemon(kw.pop("directory", scratch), *flags, **kw)
        return d

    yield run
    finish(request, [d for d in daemons if d])


@contextlib.contextmanager
def exits_when_idle(start, scratch):
    """A daemon and a connection to it. It ends a second after the last one."""
    config = scratch / "r.conf"
    config.touch()
    daemon = start("--config", config)
    with daemon.connect() as c:
        config.write_text("idle-exit = 1\n")  # only now, or a slow client would find it gone
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_log("config read again")
        yield daemon, c


@pytest.fixture(scope="module")
def shared(request):
    """One daemon for the tests of a module that leave it as they found it."""
    directory = tempfile.mkdtemp(prefix="rd")
    daemon = Daemon(directory, *getattr(request.module, "SHARED_FLAGS", ()), tcp=True)
    yield daemon
    finish(request, [daemon])
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(autouse=True)
def shared_log_on_failure(request):
    yield
    if getattr(request.node, "failed", False) and "shared" in request.fixturenames:
        print(f"---- daemon's log ----\n{request.getfixturevalue('shared').log()[-8000:]}")


def finish(request, daemons):
    failed = getattr(request.node, "failed", False)
    try:
        for d in daemons:
            if failed:
                print(f"---- log of {' '.join(d.flags)} ----\n{d.log()[-8000:]}")
            if d.process.poll() is None:
                d.stop()
            d.check_log()
    finally:
        for d in daemons:
            d.close()


@pytest.fixture
def ctl(scratch):
    """ctl(*args, stdin=b"", url=None, env={}) -> CompletedProcess of reducectl; never starts a daemon unless told. Arguments may be
    piped.Piped."""

    def run(*args, stdin=b"", url=None, env=(), timeout=120, autostart=False):
        full = {**os.environ, "XDG_RUNTIME_DIR": str(scratch), "XDG_CONFIG_HOME": str(scratch), "HOME": str(scratch), **dict(env)}
        if url:
            full["REDUCED_URL"] = url
        with piped.all_of(args, scratch) as descriptors:
            command = [BIN / "reducectl", *map(str, args)] + ([] if autostart else ["--no-autostart"])
            done = subprocess.run(command, input=stdin, capture_output=True, env=full, timeout=timeout, pass_fds=descriptors)
        assert not SANITIZER.search(done.stderr.decode(errors="replace")), done.stderr.decode()
        return done

    return run
