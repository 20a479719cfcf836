"""Files of a file system that a user serves (FUSE), really mounted: what `files-from` says, and reads that nobody answers."""
import contextlib
import ctypes
import mmap
import os
import signal
import stat
import struct

import pytest

from otheruser import as_user, needs_root
from rawclient import COLUMNS, REDUCE_AT, Connection, Fault, spec
from sideclient import FILE, Side

pytestmark = needs_root
LIBC = ctypes.CDLL(None, use_errno=True)
MAGIC = 0x65735546
DETACH = 2
DATA = bytes(range(1, 101)) * 100
SUM = struct.pack("<Q", sum(DATA))
HONEST = 12345
# linux/fuse.h
LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, INIT, FLUSH, INTERRUPT = 1, 2, 3, 14, 15, 17, 18, 26, 25, 36
ROOT, FILE_NODE = 1, 2
HELD = 63  # beside the kinds


class Fuse:
    """A file system with one file, `data`, served by a process: a thread could not answer while this one forks and closes the
    file. Requests of the kinds in `silent` are never answered; reads are not while they are held. `zeros`: that many zero bytes
    are the file."""

    def __init__(self, folder, silent=(), zeros=0):
        self.folder, self.silent, self.kinds = folder, set(silent), mmap.mmap(-1, 64)
        self.size, self.data = (zeros, lambda offset, size: bytes(size)) if zeros else (len(DATA), lambda offset, size: DATA[offset : offset + size])
        folder.mkdir()
        try:
            self.device = os.open("/dev/fuse", os.O_RDWR)
        except OSError as e:
            pytest.skip(f"/dev/fuse: {e.strerror}")
        options = f"fd={self.device},rootmode=40000,user_id=0,group_id=0,allow_other"
        if LIBC.mount(b"test", bytes(folder), b"fuse", 0, options.encode()):
            os.close(self.device)
            pytest.skip(f"no mount of FUSE here: {os.strerror(ctypes.get_errno())}")
        self.released, self.release = os.pipe()
        self.server = os.fork()
        if self.server == 0:
            try:
                self._serve()
            finally:
                os._exit(1)
        os.close(self.device)

    def asked(self, kind):
        return bool(self.kinds[kind])

    def hold(self, held):
        self.kinds[HELD] = held
        if not held:
            os.write(self.release, b"\0")  # one that nobody waits for only lets the next one look again

    def end(self):
        """What is unanswered ends with an error: nobody serves the file system any more."""
        if self.server:
            os.kill(self.server, signal.SIGKILL)
            os.waitpid(self.server, 0)
            LIBC.umount2(bytes(self.folder), DETACH)
            os.close(self.released)
            os.close(self.release)
        self.server = 0

    def _serve(self):
        while True:
            request = os.read(self.device, 1 << 20)
            _, kind, unique, node = struct.unpack_from("<IIQQ", request)
            self.kinds[kind] = 1
            while kind == READ and self.kinds[HELD]:
                os.read(self.released, 1)
            if kind in self.silent or kind in (FORGET, INTERRUPT):
                continue
            answer = self._answer(kind, node, request[40:])
            error, body = (answer, b"") if isinstance(answer, int) else (0, answer)
            with contextlib.suppress(FileNotFoundError):  # its asker was killed
                os.write(self.device, struct.pack("<IiQ", 16 + len(body), error, unique) + body)

    def _attributes(self, node):
        mode = stat.S_IFDIR | 0o755 if node == ROOT else stat.S_IFREG | 0o644
        return struct.pack("<6Q10I", node, self.size, 1, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def _answer(self, kind, node, body):
        if kind == INIT:
            return struct.pack("<4I2H2I2H8I", 7, 31, 0, 0, 8, 8, 1 << 16, 1, 0, 0, *[0] * 8)
        if kind == LOOKUP:
            return struct.pack("<4Q2I", FILE_NODE, 0, 60, 60, 0, 0) + self._attributes(FILE_NODE)
        if kind == GETATTR:
            return struct.pack("<Q2I", 60, 0, 0) + self._attributes(node)
        if kind == OPEN:
            return struct.pack("<Q2I", 0, 1, 0)  # read directly, without the page cache
        if kind == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            return self.data(offset, size)
        if kind == STATFS:
            return struct.pack("<5Q4I24x", 1, 0, 0, 1, 0, 4096, 255, 4096, 0)
        return b"" if kind in (FLUSH, RELEASE) else -38  # ENOSYS


def close(fd):
    with contextlib.suppress(OSError):  # nobody serves its file system any more
        os.close(fd)


@pytest.fixture
def mounted(scratch):
    """mounted(silent=(), zeros=0) -> (Fuse, descriptor of its file)"""
    with contextlib.ExitStack() as stack:
        def run(**kw):
            fuse = Fuse(scratch / "fuse", **kw)
            stack.callback(fuse.end)
            fd = os.open(scratch / "fuse/data", os.O_RDONLY)
            stack.callback(close, fd)
            return fuse, fd

        yield run


def sum_of_a_disk_file(url, path):
    """By another user, as hexadecimal digits."""
    with Connection(url) as c:
        c.hello()
        with Side(c) as side:
            fd = os.open(path, os.O_RDONLY)
            handle, size = side.file(fd)
            os.close(fd)
            return c.reduce_at("sum", "u8", handle, 0, size).cells[0].hex()


@pytest.fixture
def others(scratch):
    """others(daemon): another user's file is read."""
    os.chmod(scratch, 0o755)
    (scratch / "disk").write_bytes(DATA)
    return lambda daemon: as_user(HONEST, HONEST, lambda: sum_of_a_disk_file(daemon.url, scratch / "disk")) == SUM.hex()


@pytest.mark.parametrize("allowed", ["local", "network"])
def test_they_are_not_read_unless_the_administrator_says_so(start, mounted, allowed):
    fuse, fd = mounted()
    with start("--files-from", allowed).connect() as c, Side(c) as side, pytest.raises(Fault) as caught:
        side.file(fd)
    assert (caught.value.code, caught.value.field, caught.value.limit) == ("IO", "file", MAGIC)
    assert not fuse.asked(READ)


def test_they_are_read_if_the_administrator_says_so(start, mounted):
    fuse, fd = mounted()
    with start("--files-from", "any").connect() as c, Side(c) as side:
        handle, size = side.file(fd)
        assert size == len(DATA) and c.reduce_at("sum", "u8", handle, 0, size).cells == [SUM]
    assert fuse.asked(READ)


def test_reads_that_nobody_answers_are_their_users_alone(start, mounted, others):
    """More of them than there are readers. When the file system goes, they end with an error."""
    daemon = start("--files-from", "any", "--readers", 2, "--socket-mode", "0666")
    with contextlib.ExitStack() as stack:
        fuse, fd = mounted(silent=[READ])
        c = stack.enter_context(daemon.connect())
        side = stack.enter_context(Side(c))
        handle, size = side.file(fd)
        place = spec("sum", "u8", row_len=size) + struct.pack("<QQQ", handle, 0, size)
        sent = [c.send(REDUCE_AT, place) for _ in range(6)]
        while not fuse.asked(READ):
            assert daemon.process.poll() is None
        for _ in range(3):
            assert others(daemon)
        fuse.end()
        for s in sent:
            with pytest.raises(Fault) as caught:
                c.wait(s)
            assert caught.value.code == "IO"
        assert others(daemon)


def test_a_file_system_that_does_not_say_what_it_is(start, mounted, others):
    """Already the look at the descriptor hangs: it is made by a reader, and the others find another one."""
    daemon = start("--readers", 2, "--socket-mode", "0666")
    fuse, fd = mounted(silent=[STATFS])
    with daemon.connect() as c, Side(c) as side:
        for _ in range(4):
            side.send(side.packet(FILE), [fd])
        while not fuse.asked(STATFS):
            assert daemon.process.poll() is None
        assert others(daemon)
        c.ping(b"still here")
        fuse.end()


def test_the_limit_of_draining_ends_a_long_range(start, mounted):
    """It is read in parts; after the limit none begins."""
    daemon = start("--files-from", "any", "--readers", 1, "--drain", 0)
    fuse, fd = mounted(zeros=24 << 20)
    with daemon.connect() as c, Side(c) as side:
        handle, size = side.file(fd)
        fuse.hold(True)
        sent = c.send(REDUCE_AT, c.reduce_at_body("sum", "u8", handle, 0, size, rows=size // 4096, row_len=4096, flags=COLUMNS, stride=4096))
        while not fuse.asked(READ):
            assert daemon.process.poll() is None
        daemon.process.send_signal(signal.SIGTERM)
        daemon.wait_log("not drained within 0 s")
        fuse.hold(False)
        with pytest.raises(Fault) as caught:
            c.wait(sent)
        assert (caught.value.code, caught.value.field) == ("CANCELLED", "daemon")
        assert daemon.process.wait(60) == 0
