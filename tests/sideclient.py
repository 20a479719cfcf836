"""The fdpass channel of a raw Connection, written from proto/PROTOCOL.md alone.

    with Side(connection) as side:
        handle, size = side.file(fd)
        connection.reduce_at("sum", "f32", handle, 0, size)
"""
import mmap
import os
import socket
import struct

from rawclient import Closed, Fault, Header

ATTACH, FILE, ARENA, DROP, DEVICE, DEVICE_FD = range(1, 7)


class Side:
    def __init__(self, connection, attach=True, timeout=60.0, path=None):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect((path or connection.socket.getpeername()) + ".side")  # before the timeout: a full backlog is waited for
        self.socket.settimeout(timeout)
        if attach:
            self.attach(connection.session, connection.welcome["token"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, packet, fds=()):
        try:
            socket.send_fds(self.socket, [packet], list(fds))
        except (BrokenPipeError, ConnectionResetError) as e:
            raise Closed() from e

    def packet(self, kind, value=0, token=bytes(16), status=0):
        return struct.pack("<IIQ", kind, status, value) + token

    def receive(self, kind):
        """(handle, size, descriptors)"""
        try:
            packet, fds, flags, _ = socket.recv_fds(self.socket, 4096, 4)
        except ConnectionResetError as e:
            raise Closed() from e
        if not packet:
            raise Closed()
        got, status, value, size, zero = struct.unpack_from("<IIQQQ", packet)
        assert got == kind and zero == 0 and not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
        if status:
            raise Fault(Header(1, 0, 1, status, 0, 0, 0, len(packet) - 32), packet[32:])
        assert len(packet) == 32
        return value, size, fds

    def call(self, kind, value=0, token=bytes(16), fds=()):
        self.send(self.packet(kind, value, token), fds)
        return self.receive(kind)

    def attach(self, session, token):
        self.call(ATTACH, session, token)

    def file(self, fd):
        handle, size, fds = self.call(FILE, fds=[fd])
        assert not fds and handle
        return handle, size

    def arena(self, size):
        """(handle, writable mapping); the descriptor is closed."""
        handle, size, (fd,) = self.call(ARENA, size)
        try:
            return handle, mmap.mmap(fd, size)
        finally:
            os.close(fd)

    def device(self, ipc_handle, uuid=bytes(16)):
        self.send(self.packet(DEVICE)[:16] + uuid + ipc_handle)
        handle, size, fds = self.receive(DEVICE)
        assert not fds and handle
        return handle, size

    def device_fd(self, fd, size):
        handle, got, fds = self.call(DEVICE_FD, size, fds=[fd])
        assert not fds and handle and got == size
        return handle

    def drop(self, handle):
        self.send(self.packet(DROP, handle))
