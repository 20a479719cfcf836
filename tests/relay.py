"""A relay that makes a daemon's messages small: it passes everything on but writes other sizes into the replies to HELLO,
so that clients cut small arrays as they would cut huge ones. And it can answer like a daemon at its end."""
import contextlib
import socket
import struct
import threading

import rawclient

HEADER = struct.Struct("<4sBBHIIQQQ")
SIZES_AT = 4 + HEADER.size + 4  # request id, header, version: then max_data and chunk_hint


def read_exactly(sock, n):
    parts = []
    while n:
        part = sock.recv(min(n, 1 << 20))
        if not part:
            raise ConnectionError
        parts.append(part)
        n -= len(part)
    return b"".join(parts)


class Relay:
    """Relay(path, url, max_data, chunk): listens on the unix socket `path` for the daemon at ipc `url` while the `with` block
    lasts. `longest` is the longest data of a request that came by, `longest_range` that of REDUCE_ATs, `kinds` those of all of them. `cancelled`: a kind of request; the client gets CANCELLED for
    the first of it that succeeds, as from a daemon whose drain is over, and the relay sets it back to None; `error` is another error for it.
    `version`: of the protocol, at most, as from an earlier daemon."""

    def __init__(self, path, url, max_data, chunk, cancelled=None, version=255, error="CANCELLED"):
        self.longest_range = 0
        self.url, self.target, self.sizes, self.longest = f"ipc://{path}", url.removeprefix("ipc://"), struct.pack("<II", max_data, chunk), 0
        self.cancelled, self.version, self.error, self.kinds = cancelled, version, error, []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self.sockets, self.threads = [], [threading.Thread(target=self._accept)]

    def __enter__(self):
        self.threads[0].start()
        return self

    def __exit__(self, *_):
        for s in [self.listener, *self.sockets]:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
        for t in self.threads:
            t.join()
        for s in [self.listener, *self.sockets]:
            s.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                daemon = socket.socket(socket.AF_UNIX)
                daemon.connect(self.target)
                self.sockets += [client, daemon]
                for pump in (self._pump(client, daemon, self._look), self._pump(daemon, client, self._rewrite)):
                    self.threads.append(pump)
                    pump.start()

    def _pump(self, source, sink, edit):
        def run():
            with contextlib.suppress(OSError):
                sink.sendall(read_exactly(source, 8))  # the greeting of SP
                while True:
                    head = read_exactly(source, 9)
                    frame = bytearray(read_exactly(source, int.from_bytes(head[1:], "big")))
                    edit(frame)
                    sink.sendall(head[:1] + len(frame).to_bytes(8, "big") + frame)
            for s in (source, sink):
                with contextlib.suppress(OSError):
                    s.shutdown(socket.SHUT_RDWR)

        return threading.Thread(target=run)

    def _look(self, frame):
        kind = HEADER.unpack_from(frame, 4)[2]
        self.kinds.append(kind)
        if kind == rawclient.REDUCE_AT:
            self.longest_range = max(self.longest_range, int.from_bytes(frame[4 + HEADER.size + 80 :][:8], "little"))
        fixed = {rawclient.REDUCE: 64, rawclient.APPEND: 16}.get(kind)
        if fixed:
            self.longest = max(self.longest, len(frame) - 4 - HEADER.size - fixed)

    def _rewrite(self, frame):
        _, _, kind, _, status, _, session, mid, _ = HEADER.unpack_from(frame, 4)
        if kind == rawclient.HELLO and status == 0:
            frame[SIZES_AT : SIZES_AT + 8] = self.sizes
            frame[SIZES_AT - 4] = min(frame[SIZES_AT - 4], self.version)
        if kind == self.cancelled and status == 0:
            self.cancelled = None
            error = struct.pack("<QQ16xHHI", 0, rawclient.NO_INDEX, 0, 0, 0)
            frame[4:] = rawclient.header(kind, len(error), flags=1, status=rawclient.ERRORS.index(self.error), session=session, mid=mid) + error
