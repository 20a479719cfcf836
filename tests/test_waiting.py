"""Threads that wait for replies read them themselves where possible (client/wire_unix.c): that they do, and what they must not
do."""
import ctypes as C
import os
import random
import select
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
    """A job under way. Of its callback, if it has one: the thread in which it ran, and its arguments. It stays in it until
    `may_return`, unless `returns`."""

    def __init__(self, client, data, callback, returns=True, arg=None):
        self.client, self.data, self.thread, self.err, self.called, self.may_return = client, data, None, 0, threading.Event(), threading.Event()
        if returns:
            self.may_return.set()
        self.spec, self.out, self.handle = client.spec("sum", "f32"), C.create_string_buffer(8), C.c_void_p()
        self.done = DONE(self._called) if callback else C.cast(None, DONE)
        assert client.lib.reduce_submit(client.handle, C.byref(self.spec), data, C.c_size_t(len(data)), self.out, C.c_size_t(8),
                                        self.done, C.c_void_p(arg), C.byref(self.handle)) == 0

    def _called(self, _arg, _job, err):
        self.thread, self.err = threading.get_native_id(), err
        self.called.set()
        self.may_return.wait()

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
        assert ended == [-13]
        assert not callback or (job.called.wait(60) and job.err == -13)
        job.free()


def test_a_result_is_there_before_its_callback_has_returned(shared):
    """A callback that wakes an event loop is still running when the loop asks. Freeing waits for it."""
    with lib.Client(shared.url) as c:
        for data in (SMALL, LARGE):
            job, result = Job(c, data, True, returns=False), lib.Result(size=C.sizeof(lib.Result))
            assert job.called.wait(60)
            assert c.lib.reduce_poll(job.handle, C.byref(result)) == 0 and result.cells == 1 and job.out.raw == SUMS[data]
            assert job.wait(C.c_uint32(0)) == 0 == job.wait()
            freed = threading.Event()
            freeing = threading.Thread(target=lambda: (job.free(), freed.set()))
            freeing.start()
            until_it_sleeps(freeing)
            assert not freed.is_set()
            job.may_return.set()
            assert freed.wait(60)
            freeing.join()


def test_closing_waits_for_callbacks(shared):
    c = lib.Client(shared.url)
    job = Job(c, SMALL, True, returns=False)
    assert job.called.wait(60) and job.wait() == 0
    closed = threading.Event()
    closing = threading.Thread(target=lambda: (c.lib.reduce_close(c.handle), closed.set()))
    closing.start()
    until_it_sleeps(closing)
    assert not closed.is_set()
    job.may_return.set()
    assert closed.wait(60)
    closing.join()
    job.free()


class Ended:
    """The ended jobs of a client, as an event loop gets them."""

    def __init__(self, client):
        self.client, fd = client, C.c_int(-1)
        assert client.lib.reduce_ended_fd(client.handle, C.byref(fd)) == 0
        self.fd, self.epoll = fd.value, select.epoll()
        self.epoll.register(self.fd, select.EPOLLIN | select.EPOLLET)

    def next(self):
        """(the value of the call, handle of the job, its `arg`)"""
        job, arg = C.c_void_p(7), C.c_void_p()
        return self.client.lib.reduce_ended_next(self.client.handle, C.byref(job), C.byref(arg)), job.value, arg.value

    def readable(self):
        return bool(select.select([self.fd], [], [], 0)[0])


def test_an_event_loop_gets_every_job_once(shared):
    with lib.Client(shared.url) as c:
        ended, again = Ended(c), Ended(c)
        assert ended.fd == again.fd and not ended.readable() and ended.next() == (1, None, None)
        for n in (1, 3, 40):
            jobs = {job.handle.value: job for job in (Job(c, LARGE if i % 7 == 6 else SMALL, False, arg=i + 1) for i in range(n))}
            found = {}
            while len(found) < n:
                assert ended.epoll.poll(60)
                while (taken := ended.next())[0] == 0:
                    assert taken[1] not in found and c.lib.reduce_poll(C.c_void_p(taken[1]), None) == 0
                    found[taken[1]] = taken[2]
                assert taken == (1, None, None)
            assert found.keys() == jobs.keys() and sorted(found.values()) == list(range(1, n + 1)) and not ended.readable()
            for job in jobs.values():
                job.end()
            assert ended.next() == (1, None, None)


def test_jobs_that_an_event_loop_does_not_get(shared):
    """Those with a callback, of simple calls, of before, and those that were freed."""
    with lib.Client(shared.url) as c:
        before = Job(c, SMALL, False)
        ended = Ended(c)
        called = Job(c, SMALL, True)
        before.end(), called.end()
        assert c.run("sum", "f32", SMALL) == SUMS[SMALL] and not ended.readable() and ended.next() == (1, None, None)
        for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)):
            jobs = [Job(c, SMALL, False) for _ in range(3)]
            for job in jobs:
                assert job.wait() == 0
            assert ended.readable()
            jobs[order[0]].free()
            assert ended.next()[:2] in [(0, jobs[i].handle.value) for i in order[1:]] and ended.readable()
            jobs[order[1]].free(), jobs[order[2]].free()
            assert not ended.readable() and ended.next() == (1, None, None)


def test_an_event_loop_gets_the_jobs_that_a_close_cancels(start):
    daemon = start()
    c = lib.Client(daemon.url)
    ended = Ended(c)
    stop(daemon)
    job = Job(c, SMALL, False)
    c.lib.reduce_cancel(job.handle)
    assert ended.epoll.poll(60) and ended.next() == (0, job.handle.value, None) and job.wait() == -13
    late = Job(c, SMALL, False)
    c.lib.reduce_close(c.handle)
    go_on(daemon)
    with pytest.raises(OSError):
        os.fstat(ended.fd)
    job.free(), late.free()


def test_what_an_event_loop_may_not_do(shared):
    with lib.Client(shared.url) as c:
        fd, job = C.c_int(), C.c_void_p()
        assert c.lib.reduce_ended_fd(c.handle, None) == -101 == c.lib.reduce_ended_fd(None, C.byref(fd))
        assert c.lib.reduce_ended_next(c.handle, None, None) == -101 == c.lib.reduce_ended_next(None, C.byref(job), None)


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


def test_many_threads_of_a_client(shared, request):
    """Lone exchanges, and such that meet others, in all orders."""
    wrong = []
    with lib.Client(shared.url) as c:
        for count in (1, 2, 6):
            workers = [threading.Thread(target=busy, args=(c, 10 * count + i, 60 if request.config.sanitized else 150, wrong)) for i in range(count)]
            for w in workers:
                w.start()
            for w in workers:
                w.join()
    assert not wrong
