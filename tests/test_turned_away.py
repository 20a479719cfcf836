"""Peers that are not let in: the log says why, now and then, and counters say how many; errors are counted by whose fault they are."""
import os
import re
import resource
import socket
import tempfile
import time

import pytest

from conftest import BIN
from otheruser import as_user, needs_root
from rawclient import REDUCE_AT, Closed, Connection, Fault, spec
from sideclient import Side
from test_tls import LOCAL, Site, context_of, server, site, tls_url  # noqa: F401  # fixtures among them

ALICE = 12345


def counted(daemon, family, label):
    with daemon.connect() as c:
        return {k: int(v) for k, v in re.findall(rf'^reduced_{family}{{{label}="(\w+)"}} (\d+)$', c.metrics(), re.M)}


def lines(daemon, pattern):
    return [line for line in daemon.log().splitlines() if re.search(pattern, line)]


def until(condition):
    while not condition():
        pass


# ---- who is not let in ----
@needs_root
def test_refused_users_are_counted_and_seldom_logged(start, scratch):
    os.chmod(scratch, 0o755)
    daemon = start("--socket-mode", "0666", "--allow-uid", 0)

    def refused():
        for _ in range(20):
            with Connection(daemon.url) as c, pytest.raises(Fault):
                c.hello()
    as_user(ALICE, ALICE, refused)
    assert counted(daemon, "turned_away_total", "reason")["user"] == 20
    said = lines(daemon, "turned away")
    assert 1 <= len(said) <= 3 and re.search(r"warning: pid \d+ uid 12345: turned away \(user\): the lists do not let", said[0])


def test_failed_handshakes_are_counted_by_reason(start, site, server):  # noqa: F811
    lost = site.ca.issue("lost8", "client")
    daemon = start(*site.flags(server, "--tls-crl", site.ca.revoke(lost[0])))
    url = tls_url(daemon)

    def fails(cert):
        with pytest.raises((Closed, OSError)), Connection(url, tls=context_of(site, cert)) as c:
            c.hello()
    before = counted(daemon, "turned_away_total", "reason")
    assert set(before.values()) == {0}
    fails(lost)
    fails(site.other.issue("other8", "client"))
    until(lambda: counted(daemon, "turned_away_total", "reason")["certificate"] == 2)
    assert re.search(re.escape(LOCAL) + r":\d+: turned away \(certificate\): its certificate is revoked", daemon.log())
    with socket.create_connection(("localhost", int(url.rsplit(":", 1)[1]))) as s:
        s.sendall(b"GET / HTTP/1.1\r\n\r\n")
        while s.recv(4096):
            pass
    until(lambda: counted(daemon, "turned_away_total", "reason")["handshake"] == 1)
    assert re.search(re.escape(LOCAL) + r":\d+: turned away \(handshake\): what the peer sent is not a TLS handshake", daemon.log())
    with Connection(url, tls=context_of(site, site.client)) as c:
        c.hello()
    assert counted(daemon, "turned_away_total", "reason") == {**before, "certificate": 2, "handshake": 1}


def test_certificates_without_a_right_name_are_counted(start, site, server):  # noqa: F811
    daemon = start(*site.flags(server, "--allow-name", "alice9"))
    with Connection(tls_url(daemon), tls=context_of(site, site.ca.issue("bob9", "client"))) as c, pytest.raises(Fault):
        c.hello()
    assert counted(daemon, "turned_away_total", "reason")["name"] == 1
    assert lines(daemon, rf"tls bob9 {re.escape(LOCAL)}:\d+: turned away \(name\): allow-name does not list the name")


# ---- no room ----
@needs_root
def test_without_descriptors_peers_get_busy_with_the_limit(start, scratch):
    """The last are for root, and the first of these for peers that are told so."""
    most = 128
    os.chmod(scratch, 0o755)
    limited = scratch / "limited"
    limited.write_text(f'#!/bin/sh\nulimit -n {most}\nexec {BIN}/reduced "$@"\n')
    limited.chmod(0o755)
    daemon = start("--socket-mode", "0666", program=limited)

    def fill():
        held, found = [], []
        for _ in range(most):
            try:
                held.append(Connection(daemon.url))
                held[-1].hello()
            except Fault as e:
                found.append((e.code, e.field, e.limit))
                held.pop().close()
                if len(found) == 3:
                    break
        return len(held), found
    held, found = as_user(ALICE, ALICE, fill)
    assert held > 5 and found == [["BUSY", "descriptors", most]] * 3
    with daemon.connect() as root:
        assert root.reduce("sum", "u8", b"ab").count == 2
    assert counted(daemon, "turned_away_total", "reason")["descriptors"] >= 3
    assert lines(daemon, r"uid 12345: turned away \(descriptors\): the daemon's descriptors are used up: LimitNOFILE")


def test_a_channel_without_a_descriptor_is_tried_again_at_the_next_tick(start):
    """Not at once and without end, though the peer goes on waiting."""
    daemon = start()
    with daemon.connect() as c, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
        def tries():
            return int(re.search(r'^reduced_turned_away_total{reason="descriptors"} (\d+)$', c.metrics(), re.M)[1])
        usual = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (3, usual[1]))
        peer.connect(f"{daemon.path}.side")
        until(tries)
        begin, first = time.monotonic(), tries()
        for _ in range(100):
            c.ping(b"x")
        assert tries() - first <= 2 + time.monotonic() - begin
        resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, usual)  # LeakSanitizer opens files at the end


def test_connections_beyond_the_cap_are_counted(start):
    daemon = start("--max-sessions", 1)
    held = []
    with pytest.raises((Closed, OSError, Fault)):
        for _ in range(30):
            held.append(Connection(daemon.url))
            held[-1].ping(b"x")
    for c in held:
        c.close()
    until(lambda: counted(daemon, "turned_away_total", "reason")["connections"] >= 1)
    assert lines(daemon, r"turned away \(connections\): max-sessions")


# ---- whose fault ----
def test_errors_are_counted_by_whose_fault(start):
    daemon = start()
    with daemon.connect() as c, Side(c) as side, tempfile.TemporaryFile() as f:
        f.write(bytes(4000))
        f.flush()
        handle, _ = side.file(f.fileno())
        os.ftruncate(f.fileno(), 100)
        with pytest.raises(Fault) as e:
            c.call(REDUCE_AT, spec("sum", "f32", row_len=1000) + handle.to_bytes(8, "little") + bytes(8) + (4000).to_bytes(8, "little"))
        assert e.value.code == "IO"
        with pytest.raises(Fault):
            c.call(99, b"")
    faults = counted(daemon, "faults_total", "fault")
    assert faults == {"data": 1, "request": 1, "load": 0, "daemon": 0, "machine": 0}
