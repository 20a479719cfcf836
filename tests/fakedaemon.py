"""A daemon that misbehaves as a test wants: it speaks SP and the header of PROTOCOL.md on a unix socket, welcomes clients, and
leaves everything else to a function of the test."""
import contextlib
import itertools
import socket
import struct
import threading
from typing import NamedTuple

import rawclient
from relay import HEADER, read_exactly


def error_body(field, text):
    return struct.pack("<QQ16xHHI", 0, rawclient.NO_INDEX, len(field), len(text), 0) + field + text


class Request(NamedTuple):
    kind: int
    session: int
    mid: int
    body: bytes
    rid: int
    connection: "_Connection"

    def reply(self, body=b"", *, status="OK", time_ms=0, **other):
        """`other`: fields of the header that are not as they should be."""
        fields = {"flags": 1, "status": rawclient.ERRORS.index(status), "time_ms": time_ms, "session": self.connection.session, "mid": self.mid, **other}
        self.connection.send(struct.pack(">I", self.rid) + rawclient.header(fields.pop("kind", self.kind), len(body), **fields) + body)

    def refuse(self, status, *, time_ms=0, field=b"", text=b""):
        self.reply(error_body(field, text), status=status, time_ms=time_ms)

    def cut(self):
        """Close the connection instead."""
        self.connection.close()


class _Connection:
    def __init__(self, sock, session):
        self.socket, self.session, self.lock = sock, session, threading.Lock()

    def send(self, frame):
        with self.lock, contextlib.suppress(OSError):
            self.socket.sendall(b"\x01" + struct.pack(">Q", len(frame)) + frame)

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


class FakeDaemon:
    """FakeDaemon(path, answer): answer(request) is called for everything but HELLO, in a thread for each connection. Each
    connection has a session of its own, which HELLO tells; `requests` has all that came, in the order of coming."""

    def __init__(self, path, answer, max_inflight=64, chunk=1 << 20, max_data=4 << 20, session=None, token=bytes(16)):
        self.url, self.answer, self.max_inflight, self.chunk = f"ipc://{path}", answer, max_inflight, chunk
        self.max_data, self.session, self.token = max_data, session, token  # that HELLO reports; session None: the connection's
        self.requests, self.connections, self.threads, self.lock = [], [], [], threading.Lock()
        self._sessions = itertools.count(1000)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(64)
        self.threads.append(threading.Thread(target=self._accept))

    def __enter__(self):
        self.threads[0].start()
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.threads[0].join()
        for c in self.connections:
            c.close()
        for t in self.threads[1:]:
            t.join()
        for s in [self.listener, *(c.socket for c in self.connections)]:
            s.close()

    def count(self, kind):
        with self.lock:
            return sum(r.kind == kind for r in self.requests)

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                c = _Connection(self.listener.accept()[0], next(self._sessions))
                self.connections.append(c)
                self.threads.append(threading.Thread(target=self._serve, args=(c,)))
                self.threads[-1].start()

    def _serve(self, c):
        with contextlib.suppress(OSError):
            c.socket.sendall(b"\0SP\0\0\x31\0\0")
            read_exactly(c.socket, 8)
            while True:
                frame = read_exactly(c.socket, int.from_bytes(read_exactly(c.socket, 9)[1:], "big"))
                (rid,) = struct.unpack_from(">I", frame)
                _, _, kind, _, _, _, session, mid, _ = HEADER.unpack_from(frame, 4)
                request = Request(kind, session, mid, frame[4 + HEADER.size :], rid, c)
                with self.lock:
                    self.requests.append(request)
                if kind == rawclient.HELLO:
                    welcome = struct.pack("<BB2xIIII4xQH6x16s", 1, 0, self.max_data, self.chunk, self.max_inflight, 32, c.session if self.session is None else self.session, 4, self.token)
                    request.reply(welcome + b"fake")
                else:
                    self.answer(request)
