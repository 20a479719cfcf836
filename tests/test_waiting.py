"""Threads that wait for replies read them themselves where possible (client/wire_unix.c): that they do, and what they must not
do."""
import ctypes as C
import os
import random
import signal
import struct
import threading
import time
from pathlib import Path

import pytest

import libreduce as lib

FOREVER = C.c_uint32(2**32 - 1)
DONE = C.CFUNCTYPE(None, C.c_void_p, C.c_void_p, C.c_int)
SMALL, LARGE = struct.pack("<16f", *range(16)), struct.pack("<f", 1) * 3_000_000
LONG, INLINE = struct.pack("<d", 1.0000001) * 500_000, 1  # one message, and its path
SUMS = {SMALL: struct.pack("<d", 120), LARGE: struct.pack("<d", 3_000_000)}


def threads():
    return set(os.listdir("/proc/self/task"))


def turns(tids):
    """How often these threads of this process have been given a processor."""
    return sum(int(Path(f"/proc/self/task/{t}/schedstat").read_text().split()[2]) for t in tids)


def stop(daemon):
    os.kill(daemon.process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, daemon.process.pid, os.WSTOPPED)


def go_on(daemon):
    os.kill(daemon.process.pid, signal.SIGCONT)


def until_it_sleeps(thread):
    while thread.native_id is None or "\nState:\tS" not in Path(f"/proc/self/task/{thread.native_id}/status").read_text():
        pass


class Job:
    """A job under way. Of its callback, if it has one: the thread in which it ran, and its arguments."""

    def __init__(self, client, data, callback):
        self.client, self.data, self.thread, self.err, self.called = client, data, None, 0, threading.Event()
        self.spec, self.out, self.handle = client.spec("sum", "f32"), C.create_string_buffer(8), C.c_void_p()
        self.done = DONE(self._called) if callback else C.cast(None, DONE)
        assert client.lib.reduce_submit(client.handle, C.byref(self.spec), data, C.c_size_t(len(data)), self.out, C.c_size_t(8),
                                        self.done, None, C.byref(self.handle)) == 0

    def _called(self, _arg, _job, err):
        self.thread, self.err = threading.get_native_id(), err
        self.called.set()

    def wait(self, ms=FOREVER):
        return self.client.lib.reduce_wait(self.handle, ms, None)

    def end(self):
        assert self.wait() == 0 == self.err and self.out.raw == SUMS[self.data]
        self.free()

    def free(self):
        self.client.lib.reduce_job_free(self.handle)


def test_who_waits_reads_the_reply(shared):
    """A call wakes its own thread and none of the library's. Those look around some ten times a second."""
    before = threads()
    with lib.Client(shared.url) as c:
        own = threads() - before
        assert own
        c.run("sum", "f32", SMALL)
        for _ in range(5):  # a call that waits long on a busy machine may wake them; one that needs them wakes them each time
            begin, first = time.monotonic(), turns(own)
            for _ in range(1000):
                assert c.run("sum", "f32", SMALL) == SUMS[SMALL]
            woken, most = turns(own) - first, 100 + 30 * (time.monotonic() - begin)
            if woken < most:
                break
        assert woken < most


def test_callbacks_run_in_the_library_s_threads(start):
    """Not in one of the program's that waits for something else, and may hold what the callback wants: not even if the reply
    comes while that one waits for its own, which takes longer."""
    daemon = start()
    with lib.Client(daemon.url) as c:
        for _ in range(20):
            stop(daemon)
            lone = threading.Thread(target=lambda: c.run("prod", "f64", LONG, path=INLINE))
            lone.start()
            until_it_sleeps(lone)
            job = Job(c, SMALL, True)
            go_on(daemon)
            assert job.called.wait(60) and job.thread not in (lone.native_id, threading.get_native_id())
            lone.join()
            job.end()


def test_a_job_after_a_call_does_not_wait_for_another_call(shared):
    """The library's threads leave reading to callers for 0.1 s after a call, but not if something else is under way."""
    took = []
    with lib.Client(shared.url) as c:
        for _ in range(30):
            begin = time.monotonic()
            assert c.run("sum", "f32", SMALL) == SUMS[SMALL]
            job = Job(c, SMALL, True)
            assert job.called.wait(60)
            job.end()
            took.append(time.monotonic() - begin)
    assert sorted(took)[15] < 0.1 / 2, took  # a busy machine delays some, the library's threads would delay all


@pytest.mark.parametrize("callback", [False, True])
def test_a_job_that_is_cancelled_wakes_who_waits_for_it(start, callback):
    daemon = start()
    with lib.Client(daemon.url) as c:
        c.run("sum", "f32", SMALL)
        stop(daemon)
        job, ended = Job(c, SMALL, callback), []
        waiter = threading.Thread(target=lambda: ended.append(job.wait()), daemon=True)
        waiter.start()
        until_it_sleeps(waiter)
        c.lib.reduce_cancel(job.handle)
        waiter.join(30)
        go_on(daemon)
        assert ended == [-13] and job.err == (-13 if callback else 0)
        job.free()


def test_waiting_ends_in_time(start):
    daemon = start()
    with lib.Client(daemon.url) as c:
        job = Job(c, SMALL, False)
        job.end()
        stop(daemon)
        job = Job(c, SMALL, False)
        begin = time.monotonic()
        assert job.wait(C.c_uint32(50)) == 1 and 0.05 <= time.monotonic() - begin < 30
        go_on(daemon)
        job.end()


def test_results_of_no_version_are_refused(shared):
    with lib.Client(shared.url) as c:
        job, result = Job(c, SMALL, False), lib.Result(size=3)
        assert c.lib.reduce_wait(job.handle, FOREVER, C.byref(result)) == -101
        assert job.wait() == 0 and c.lib.reduce_poll(job.handle, C.byref(result)) == -101
        job.end()


def busy(client, seed, rounds, wrong):
    """Makes calls of all kinds, one after the other, and records errors."""
    r = random.Random(seed)
    try:
        for _ in range(rounds):
            data = LARGE if r.random() < 0.1 else SMALL
            kind = r.randrange(4)
            if kind == 0:
                assert client.run("sum", "f32", data) == SUMS[data]
            elif kind == 1:
                assert client.lib.reduce_ping(client.handle, None) == 0
            else:
                job = Job(client, data, kind == 2)
                assert kind != 2 or job.called.wait(120)
                job.end()
    except BaseException as e:  # noqa: BLE001 - a thread's failure is the test's
        wrong.append(f"{seed}: {e!r}")


def test_many_threads_of_a_client(shared):
    """Lone exchanges, and such that meet others, in all orders."""
    wrong = []
    with lib.Client(shared.url) as c:
        for count in (1, 2, 6):
            workers = [threading.Thread(target=busy, args=(c, 10 * count + i, 150, wrong)) for i in range(count)]
            for w in workers:
                w.start()
            for w in workers:
                w.join()
    assert not wrong
