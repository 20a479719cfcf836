"""What libreduce makes of ends: of a daemon that answers CANCELLED because its time to drain is over, and of its own client's
while jobs are under way."""
import ctypes as C
import os
import signal
import struct
import threading

import pytest

import libreduce as lib
from rawclient import APPEND, COMMIT, FINISH, WRITE
from relay import Relay

SIZES = 1 << 16, 1 << 16  # bytes of messages and chunks
ONES = struct.pack("<f", 1) * 100_000  # several chunks
SUM = struct.pack("<d", 100_000)


@pytest.mark.parametrize("kind", [APPEND, FINISH])
def test_a_stream_that_the_daemon_cancels_is_lost(shared, scratch, kind):
    """What was sent is gone with the daemon: the one thing to do is to begin again, so that is what the error says."""
    with Relay(scratch / "relay", shared.url, *SIZES, cancelled=kind) as relay, lib.Client(relay.url) as client:
        with pytest.raises(lib.Fault) as caught:
            client.stream("sum", "f32", [ONES])
        assert caught.value.code == "STREAM_LOST" and relay.cancelled is None
        assert client.stream("sum", "f32", [ONES]) == SUM


@pytest.mark.parametrize("kind", [APPEND, FINISH])
def test_reducectl_begins_again(shared, ctl, scratch, kind):
    (scratch / "ones").write_bytes(ONES)
    with Relay(scratch / "relay", shared.url, *SIZES, cancelled=kind) as relay:
        done = ctl("sum", "-t", "f32", "--path", "stream", scratch / "ones", url=relay.url)
        assert (done.returncode, done.stdout) == (0, b"100000\n"), done.stderr
        assert relay.cancelled is None


@pytest.mark.parametrize("kind", [WRITE, COMMIT])
def test_a_put_that_the_daemon_cancels_begins_again(shared, scratch, kind):
    data = C.create_string_buffer(ONES, len(ONES))
    with Relay(scratch / "relay", shared.url, *SIZES, cancelled=kind) as relay, lib.Client(relay.url) as client:
        client.put("ones", "f32", C.addressof(data), len(ONES))
        assert relay.cancelled is None
        assert client.named("sum", "f32", "ones")[0] == SUM
        client.drop("ones")


def test_callbacks_free_each_other_s_jobs(start):
    """reduce_close ends two jobs in one moment, and the callback of whichever comes first frees the other one."""
    daemon = start()
    client = lib.Client(daemon.url)
    spec, jobs, cells, ends = client.spec("sum", "f32"), [C.c_void_p(), C.c_void_p()], [C.c_double(), C.c_double()], []

    @C.CFUNCTYPE(None, C.c_void_p, C.c_void_p, C.c_int)
    def done(number, _, err):
        ends.append((number, err))
        if len(ends) == 1:
            client.lib.reduce_job_free(jobs[2 - number])  # numbers are 1 and 2

    os.kill(daemon.process.pid, signal.SIGSTOP)  # so that neither is done before
    for i in (0, 1):
        assert client.lib.reduce_submit(client.handle, C.byref(spec), ONES, C.c_size_t(len(ONES)), C.byref(cells[i]), C.c_size_t(8), done,
                                        C.c_void_p(i + 1), C.byref(jobs[i])) == 0
    closing = threading.Thread(target=client.lib.reduce_close, args=(client.handle,), daemon=True)
    closing.start()
    closing.join(30)
    os.kill(daemon.process.pid, signal.SIGCONT)
    assert not closing.is_alive(), f"reduce_close hangs after {ends}"
    assert sorted(ends) == [(1, -13), (2, -13)]
    client.lib.reduce_job_free(jobs[ends[0][0] - 1])
