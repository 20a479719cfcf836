"""A service manager for one daemon, as sd_listen_fds(3) and sd_notify(3) describe systemd: it listens for the daemon, keeps the
descriptors that come with FDSTORE=1, and passes both to the next process. Every message is read at once."""
import os
import socket
import subprocess
import threading

import pytest

from conftest import Daemon, finish, select_a_moment

FIRST = 3  # SD_LISTEN_FDS_START
CLOSE, MARK = b"close", b"mark"  # messages of the tests' own
HIGH = 500  # descriptors are held above, and below they have the numbers of the daemon's


def high(fd):
    """The descriptor with another number; the one that came is closed."""
    import fcntl
    copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH)
    os.close(fd)
    return copy


def listening(kind, path):
    s = socket.socket(socket.AF_UNIX, kind)
    s.bind(str(path))
    s.listen(1024)
    return high(s.detach())


class Supervised(Daemon):
    """A daemon that is started anew with what the last one left. `sockets`: (name, descriptor)s that are listened to."""

    def __init__(self, directory, *flags, sockets=None, room="64", **kw):
        self.path, self.room = directory / "s", room
        self.store, self.changed, self.marked, self.ready = {}, threading.Condition(), threading.Event(), False
        if sockets is None:
            sockets = [("reduced.socket", listening(socket.SOCK_STREAM, self.path)),
                       ("reduced.socket", listening(socket.SOCK_SEQPACKET, f"{self.path}.side"))]
        self.sockets, self.thread, self.options = sockets, None, (flags, kw)
        super().__init__(directory, *flags, **kw)

    # ---- as systemd ----
    def env(self):
        room = {} if self.room is None else {"FDSTORE": self.room}
        return {**{k: v for k, v in super().env().items() if k != "FDSTORE"}, **room}

    def spawn(self, command):
        if not self.thread:
            self.thread = threading.Thread(target=self.read_messages, daemon=True)
            self.thread.start()
        with self.changed:
            passed = [*self.sockets, *self.store.items()]
        env = {**self.env(), "LISTEN_FDS": str(len(passed)), "LISTEN_FDNAMES": ":".join(name for name, _ in passed)}
        moves = " ".join(f"{FIRST + i}<&{fd} {fd}<&-" for i, (_, fd) in enumerate(passed))
        script = f'{f"exec {moves};" if moves else ""} LISTEN_PID=$$ exec "$@"'
        return subprocess.Popen(["bash", "-c", script, "bash", *command], stdin=subprocess.DEVNULL, stdout=self.log_file,
                                stderr=self.log_file, env=env, pass_fds=[fd for _, fd in passed])

    def read_messages(self):
        while True:
            try:
                message, fds, _, _ = socket.recv_fds(self.notify, 4096, 8)
            except OSError:
                return
            if message == CLOSE:
                return
            if message == MARK:
                self.marked.set()
                continue
            lines = dict(line.split("=", 1) for line in message.decode().splitlines())
            with self.changed:
                if "FDSTORE" in lines and len(self.store) < int(self.room or 64):
                    self.store[lines["FDNAME"]] = high(fds.pop())
                if "FDSTOREREMOVE" in lines and lines["FDNAME"] in self.store:
                    os.close(self.store.pop(lines["FDNAME"]))
                self.ready |= "READY" in lines
                self.changed.notify_all()
            for fd in fds:
                os.close(fd)

    def send(self, message):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.sendto(message, self.notify_path)

    def read_what_came(self):
        """Wait until the messages of the last process are read, as systemd reads them before it starts the next one: one that
        takes a descriptor back would close it while it is passed."""
        self.marked.clear()
        self.send(MARK)
        assert self.marked.wait(60)

    # ---- for tests ----
    def keeps(self, n, seconds=60):
        """Wait until the store has `n` descriptors; their names."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.store) == n, seconds), (n, list(self.store))
            return sorted(self.store)

    def keeps_only(self, handle, seconds=60):
        """Wait until the store has the resident data of this handle, and no other."""
        with self.changed:
            assert self.changed.wait_for(lambda: list(self.store) == [f"resident-{handle:016x}"], seconds), list(self.store)

    def has(self, handle, seconds=60):
        """Wait until the store has the resident data of this handle."""
        with self.changed:
            assert self.changed.wait_for(lambda: f"resident-{handle:016x}" in self.store, seconds), list(self.store)

    def is_started(self):
        """Wait until it is ready, or has left. (A connection would not tell: it waits in the socket.)"""
        while not self.ready and self.process.poll() is None:
            select_a_moment(self.process)
        return self.process.poll() is None

    def wait_ready(self, seconds=60):
        assert self.is_started(), f"the daemon left with {self.process.returncode}:\n{self.log()}"
        super().wait_ready(seconds)

    def start_again(self, *flags, wait=True):
        """The next process, with the flags of the first one and these."""
        assert self.process.poll() is not None
        self.check_log()
        self.log_file.close()
        self.log_path = self.directory / f"log{len(list(self.directory.glob('log*')))}"
        self.log_file = open(self.log_path, "wb")
        self.read_what_came()
        self.ready = False
        self.process = self.spawn([self.process.args[4], *self.flags, *map(str, flags)])
        if wait:
            self.wait_ready()

    def restart(self, *flags):
        self.stop()
        self.start_again(*flags)

    def crash(self, *flags):
        self.kill()
        self.start_again(*flags)

    def close(self):
        if self.process.poll() is None:
            self.kill()
        self.send(CLOSE)
        self.thread.join()
        for _, fd in [*self.sockets, *self.store.items()]:
            os.close(fd)
        super().close()


@pytest.fixture
def supervise(request, scratch):
    """supervise(*flags) -> a daemon of a service manager. All are stopped and checked at the end."""
    units = []

    def run(*flags, **kw):
        units.append(Supervised(scratch, *flags, **kw))
        return units[-1]

    yield run
    finish(request, units)
