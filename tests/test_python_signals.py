"""Ctrl-C in Python while a call waits for a daemon that is stopped: it ends the call at once, of every kind, and the next call works."""
import json
import math
import os
import signal
import statistics
import subprocess
import sys

import numpy as np
import pytest

from conftest import LIB, python_env, sanitizer
from pythonpackage import PACKAGE

BIG = 600_000  # elements of f8: large data, by way of a stage, a file, a handle

# decimal: calls may import it at their first use, and CPython prints a warning when its interrupted import is repeated.
COMMON = """
import ctypes, decimal, gc, json, math, os, signal, sys, tempfile, threading, time, warnings
import numpy as np
import reduced
from reduced import _abi
signal.signal(signal.SIGINT, signal.default_int_handler)   # as in a terminal, if the tests run where it is ignored
url, pid, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
big = np.random.default_rng(7).standard_normal(600_000)
def running():
    states = [open(f"/proc/{pid}/task/{thread}/stat").read().rpartition(") ")[2][0] for thread in os.listdir(f"/proc/{pid}/task")]
    return set(states) != {"T"}
def ask(sig):
    os.kill(pid, sig)
    while sig == signal.SIGSTOP and running():
        time.sleep(0.001)  # poll interval
def open_client():
    return reduced.Client(url, autostart=False, local=False)
def signals(go, sent):
    go.wait()
    threading.Event().wait(0.15)               # most calls wait in the library by then
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
def interrupted(call, wanted=KeyboardInterrupt, then=lambda: ask(signal.SIGCONT)):
    '''Seconds from the signal to the exception that ends the call. The daemon continues after it.'''
    ask(signal.SIGSTOP)
    go, sent = threading.Event(), []
    sender = threading.Thread(target=signals, args=(go, sent))
    sender.start()
    try:
        go.set()
        found = call()
    except wanted:
        seconds = time.monotonic() - sent[0]
    else:
        seconds = None
        print("not interrupted:", found, file=sys.stderr)
    finally:
        sender.join()
        then()
    return seconds
"""

KINDS = COMMON + """
c = open_client()
small, matrix = np.array([1.0, 2.25]), big.reshape(600, 1000)
held = tempfile.NamedTemporaryFile()
held.write(big.tobytes())
held.flush()
mapped = np.memmap(held.name, "f8", "r")
kept = reduced.put("kept", big, client=c) if kind == "ipc" else None   # over tcp it belongs to nobody
spec = _abi.Spec(size=ctypes.sizeof(_abi.Spec), op=1, dtype=_abi.F64, rows=1)
cell, handle, s = ctypes.c_double(), ctypes.create_string_buffer(b"no allocation", 64), None

def streamed(finish):
    global s
    s = reduced.stream("sum", "f8", client=c)
    while not finish:
        s.append(big)
    s.append(big)
    ask(signal.SIGSTOP)
    return s.finish()

calls = {
    "small": lambda: reduced.sum(small, client=c), "mean": lambda: reduced.mean([1, 2, 3], client=c), "large": lambda: reduced.sum(big, client=c),
    "rows": lambda: reduced.stats(matrix, axis=1, client=c), "where": lambda: reduced.max(big, where=big > 0, client=c),
    "segments": lambda: reduced.sum(big, offsets=[0, 9, 600_000], client=c), "file": lambda: reduced.sum(mapped, client=c),
    "progress": lambda: reduced.sum(big, progress=lambda *_: None, client=c), "deadline": lambda: reduced.sum(small, deadline=50, client=c),
    "put": lambda: reduced.put("left", big, client=c), "put-small": lambda: reduced.put("left", small, client=c),
    "named": lambda: reduced.sum(kept), "find": lambda: reduced.Resident("kept", client=c), "list": lambda: reduced.residents(c),
    "append": lambda: streamed(False), "finish": lambda: streamed(True),
    "device": lambda: c.call("reduce_device", ctypes.byref(spec), handle, 0, 1 << 20, ctypes.byref(cell), 8, None),
    "arena": lambda: c.call("reduce_alloc", 1 << 20, ctypes.byref(ctypes.c_void_p())),
    "task": lambda: reduced.submit("sum", big, client=c).result(), "many": lambda: reduced.many([("sum", small), ("max", big)], client=c),
    "ping": lambda: c.ping(), "status": lambda: c.status(), "metrics": lambda: c.metrics(), "gpus": lambda: c.gpus(), "open": open_client,
}
if kind == "tcp":                              # of those, the ones whose waits differ there
    calls = {name: calls[name] for name in ("small", "large", "progress", "append", "finish", "ping", "open")}
expected = math.fsum(big)

def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))

def once():
    found = {}
    for name, call in calls.items():
        found[name] = interrupted(call)
        assert reduced.sum(small, client=c) == 3.25 and reduced.sum(big, client=c) == expected, name
        if s is not None:
            try:
                s.append([1.0])
            except ValueError as e:
                assert str(e) == "the stream is finished", name
        if kept is not None:
            assert reduced.sum(kept) == expected and [n for n, *_ in reduced.residents(c)] == ["kept"], name
    return found
once()
before = descriptors()
found = once()
for _ in range(10):                            # many have been given up when the daemon continues
    interrupted(lambda: reduced.sum(big, client=c), then=lambda: None)
ask(signal.SIGCONT)
assert reduced.sum(big, client=c) == expected
end = time.monotonic() + 10
while descriptors() > before and time.monotonic() < end:
    time.sleep(0.01)  # poll interval
print(json.dumps([found, before, descriptors()]))
if kept is not None:
    kept.drop()
c.close()
"""


def run(script, daemon, kind, url=None, **env):
    env = {**python_env(), "PYTHONPATH": str(PACKAGE), "REDUCED_LIBRARY": str(LIB / "libreduce.so"), **env}
    try:
        return subprocess.run([sys.executable, "-c", script, url or daemon.url, str(daemon.process.pid), kind], env=env, capture_output=True, text=True,
                              timeout=300)
    finally:
        os.kill(daemon.process.pid, signal.SIGCONT)


@pytest.mark.same_threads
@pytest.mark.parametrize("wire", ["ipc", "tcp"])
def test_ctrl_c_ends_every_call_while_the_daemon_is_stopped(start, wire):
    """And leaves no descriptor behind. (The machine may be busy: most calls end within a tenth of a second, none waits for a timeout.)"""
    daemon = start(tcp=True)
    done = run(KINDS, daemon, wire, daemon.tcp_url if wire == "tcp" else None)
    assert done.returncode == 0 and not done.stderr, done.stderr
    seconds, before, after = json.loads(done.stdout)
    assert None not in seconds.values(), seconds
    assert statistics.median(seconds.values()) < 1 and max(seconds.values()) < 5, seconds
    assert after <= before


HANDLERS = COMMON + """
c = open_client()
assert reduced.sum(big, client=c) == math.fsum(big)

class Enough(Exception): pass
def enough(*_): raise Enough("by a handler")
signal.signal(signal.SIGINT, enough)
for call in (lambda: reduced.sum([1.0], client=c), lambda: reduced.sum(big, client=c), c.ping):
    try:
        interrupted(call, wanted=())
    except Enough as e:
        print(e, e.__traceback__ is not None)

seen, here = [], reduced.Client(url, autostart=False, local=True)
def helps(*_):                                 # it does not raise, so that the call goes on; and it calls the library
    seen.append(reduced.sum([1, 2], client=here))
    ask(signal.SIGCONT)
    seen.append(reduced.sum([1.5, 2], client=c))
    seen.append(reduced.sum(big, client=c) == math.fsum(big))
signal.signal(signal.SIGINT, helps)
for call in (lambda: reduced.max([1.0, 7.0], client=c), lambda: reduced.max(big, client=c) == big.max()):
    ask(signal.SIGSTOP)
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    print(call(), seen)
    seen.clear()

def nested(*_):                                # what ends a call of a handler ends the call that it interrupted
    signal.signal(signal.SIGINT, enough)
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    reduced.sum([1.5], client=c)
signal.signal(signal.SIGINT, nested)
try:
    interrupted(c.ping, wanted=())
except Enough as e:
    print(e, reduced.sum([1.5, 2], client=c))

# a signal is for the main thread: another one waits on
signal.signal(signal.SIGINT, signal.default_int_handler)
values, over = [], threading.Event()
thread = threading.Thread(target=lambda: (values.append(reduced.sum([1.0, 4.5], client=c)), over.set()))
def wait():
    thread.start()
    over.wait()
print(interrupted(wait, then=lambda: print(values) or ask(signal.SIGCONT)) is not None, over.wait(60), values)
"""

FORKS = COMMON + """
c = open_client()                              # a child's main thread is the one that forked
warnings.simplefilter("ignore", DeprecationWarning)
child = os.fork()
if not child:
    ask(signal.SIGCONT)
    try:
        assert reduced.sum([1.0, 2.0], client=c) == 3.0
        ask(signal.SIGSTOP)
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        reduced.sum([1.0, 2.0], client=c)
    except KeyboardInterrupt:
        os._exit(7)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
ask(signal.SIGCONT)
print(reduced.sum([1.0, 2.0], client=c))
"""


def test_handlers_of_other_kinds(start):
    daemon = start()
    done = run(HANDLERS, daemon, "ipc")
    assert done.stdout.splitlines() == ["by a handler True"] * 3 + [
        "7.0 [3, 3.5, True]", "True [3, 3.5, True]", "by a handler 3.5", "[]", "True True [5.5]"], (done.stdout, done.stderr)
    assert not done.stderr


@pytest.mark.skipif(bool(sanitizer()), reason="a forked child of a sanitized Python is not one of its own")
def test_ctrl_c_in_a_forked_child(start):
    done = run(FORKS, start(), "ipc")
    assert (done.stdout, done.stderr) == ("7\n3.0\n", "")


ENDS = COMMON + """
c = open_client()
threading.Thread(target=lambda: reduced.sum(big, client=c), daemon=True).start()
ask(signal.SIGSTOP)
threading.Thread(target=lambda: reduced.sum(big, client=c), daemon=True).start()
class Late:                                    # dropped when Python has begun to end
    def __del__(self, wait=threading.Event().wait):
        wait(0.3)
late = Late()
while not c._busy:
    time.sleep(0.001)  # poll interval
"""


def test_python_ends_while_another_thread_waits(start):
    """It asks for no lock of Python, which would end the thread inside the library."""
    done = run(ENDS, start(), "")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


ANY_PLACE = """
import gc, json, math, sys, threading
import numpy as np
import reduced
from reduced import _jobs
url, faults = sys.argv[1], []
threading.excepthook = lambda e: faults.append(repr(e.exc_value))
sys.unraisablehook = lambda e: faults.append(repr(e.exc_value))

class Interrupts:
    # Raises KeyboardInterrupt at the n-th place of the package where Python may handle a signal: where a function begins or a call has returned.
    def __init__(self, n):
        self.left = n
    def __call__(self, frame, event, _):
        caller = frame.f_back
        ours = any("/reduced/_" in f.f_code.co_filename for f in (frame, caller) if f)
        if not ours or "__del__" in (frame.f_code.co_name, caller and caller.f_code.co_name) or event not in ("call", "return", "c_return"):
            return
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt

big, small, all_of = np.random.default_rng(7).standard_normal(600_000), np.array([1.0, 2.25]), np.ones(600_000, bool)
expected = math.fsum(big)
def streamed(c):
    with reduced.stream("sum", "f8", client=c) as s:
        s.append(big)
    return s.value
calls = {"task": lambda c: reduced.submit("sum", big, client=c).result(), "many": lambda c: reduced.many([("sum", big), ("max", big)], client=c)[0],
         "progress": lambda c: reduced.sum(big, progress=lambda *_: None, client=c), "call": lambda c: reduced.sum(big, client=c),
         "quick": lambda _: reduced.sum(small) == 3.25 and expected, "where": lambda c: reduced.sum(big, where=all_of, client=c), "stream": streamed}
found = {}
for name, call in calls.items():
    c = reduced._client.default() if name == "quick" else reduced.Client(url, autostart=False, local=False)
    assert call(c) == expected                 # now plans are cached and the finisher runs
    n, ended = 0, False
    while not ended:
        n += 1
        sys.setprofile(Interrupts(n))
        try:
            value = call(c)
            ended = True
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
    assert value == expected, name
    assert call(c) == expected, name
    gc.collect()
    for task in list(_jobs._under_way):
        task.exception(60)
    over = threading.Event()
    threading.Thread(target=lambda: (c.close(), over.set()), daemon=True).start()
    assert over.wait(60), f"{name}: close waits for a call that has ended"
    found[name] = n
print(json.dumps([found, faults, len(_jobs._under_way)]))
"""


@pytest.mark.skipif(bool(sanitizer()), reason="it is of Python's own code, and the plain build has it")
def test_an_interrupt_at_any_place(start):
    """No place of the package is one where an interrupt leaves a request behind, a thread with an exception or a client that cannot close."""
    url = start().url
    done = subprocess.run([sys.executable, "-c", ANY_PLACE, url], capture_output=True, text=True, timeout=300,
                          env={**python_env(), "REDUCED_URL": url, "PYTHONPATH": str(PACKAGE), "REDUCED_LIBRARY": str(LIB / "libreduce.so")})
    assert done.returncode == 0 and not done.stderr, done.stderr
    places, faults, left = json.loads(done.stdout)
    assert min(places.values()) > 10 and not faults and not left, (places, faults, left)
