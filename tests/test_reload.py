"""SIGHUP: who may come in, certificates and revocation lists change without a restart, and what is no longer allowed ends."""
import os
import re
import select
import shutil
import signal
import struct
import threading
import time

import pytest

from certificates import Authority
from otheruser import as_user, needs_root
from rawclient import Closed, Connection, Fault
from test_tls import LOCAL, Site, as_name, context_of, day, server, site, tls_url  # noqa: F401  # fixtures among them

ALICE, GROUP = 12345, 34567
F32 = bytes(400)


def reload(daemon):
    """Read the config again, and the lines that the log then has."""
    before = daemon.log()
    daemon.process.send_signal(signal.SIGHUP)
    n = before.count("config read again") + 1
    daemon.wait_log(rf"(?s)(?:config read again.*){{{n}}}")
    return daemon.log()[len(before):]


@pytest.fixture
def by_file(start, scratch):
    """by_file(*lines): a daemon whose file can change: (daemon, rewrite)."""
    os.chmod(scratch, 0o755)
    config = scratch / "r.conf"

    def rewrite(*lines):
        config.write_text("".join(f"{line}\n" for line in ("socket-mode = 0666", *lines)))

    def run(*lines, **kw):
        rewrite(*lines)
        return start("--config", config, **kw), rewrite
    return run


def in_the_middle(daemon, act, user=ALICE):
    """What another user's session meets before and after `act`, which runs here while that session stays open."""
    ready, go = os.pipe(), os.pipe()

    def session():
        with Connection(daemon.url) as c:
            c.hello()
            c.put("mine", "f32", F32)
            found = [c.reduce("sum", "f32", F32).count]
            os.write(ready[1], b"r")
            assert select.select([go[0]], [], [], 60)[0], "nothing was done"
            try:
                found.append(c.reduce("sum", "f32", F32).count)
            except (Closed, OSError):
                found.append("closed")
        return found

    def beside():
        os.read(ready[0], 1)
        act()
        os.write(go[1], b"g")
    helper = threading.Thread(target=beside, daemon=True)
    helper.start()
    try:
        return as_user(user, user, session)
    finally:
        helper.join(60)


def greeted(url):
    with Connection(url) as c:
        try:
            c.hello()
            return [x.name for x in c.list()]
        except Fault as e:
            return e.code


# ---- users and groups ----
@needs_root
def test_a_user_that_is_removed_is_cut_off_and_its_data_stay(by_file):
    daemon, rewrite = by_file("allow-uid = 0", f"allow-uid = {ALICE}")
    log = []

    def act():
        rewrite("allow-uid = 0")
        log.append(reload(daemon))
    with daemon.connect() as root:
        assert in_the_middle(daemon, act) == [100, "closed"]
        assert "reload: allow-uid: 12345 is removed" in daemon.log()
        assert "reload: 1 connections end, because the lists no longer let them in" in daemon.log()
        assert "reload: uid 12345 may not come in: 1 resident arrays of it stay until their time to live" in daemon.log()
        assert root.reduce("sum", "f32", F32).count == 100  # the others go on
        assert as_user(ALICE, ALICE, lambda: greeted(daemon.url)) == "AUTH"
        status = root.query(2)
        assert (status["user.12345.residents"], status["user.12345.resident_bytes"]) == (1, 400)
        rewrite("allow-uid = 0", f"allow-uid = {ALICE}")
        assert "reload: allow-uid: 12345 is added" in reload(daemon)
        assert as_user(ALICE, ALICE, lambda: greeted(daemon.url)) == ["mine"]


@needs_root
def test_data_of_a_removed_user_end_with_their_time(by_file):
    daemon, rewrite = by_file("allow-uid = 0", f"allow-uid = {ALICE}")

    def put():
        with Connection(daemon.url) as c:
            c.hello()
            c.put("brief", "f32", F32, ttl_ms=1)
            c.put("kept", "f32", F32)
    as_user(ALICE, ALICE, put)
    rewrite("allow-uid = 0")
    reload(daemon)
    with daemon.connect() as root:
        while root.query(2)["user.12345.residents"] != 1:  # the clock of the daemon is a second's
            root.ping(b"x")


@needs_root
def test_lists_of_one_url_and_groups(by_file, scratch):
    other = f"ipc://{scratch}/b"
    daemon, rewrite = by_file(f"allow-gid = {GROUP}", "allow-uid = 0")
    assert as_user(ALICE, GROUP, lambda: greeted(daemon.url)) == []
    rewrite("allow-uid = 0")
    assert f"reload: allow-gid: {GROUP} is removed" in reload(daemon)
    assert as_user(ALICE, GROUP, lambda: greeted(daemon.url)) == "AUTH"
    rewrite("allow-uid = 0", f"listen = {other}")  # --listen replaces it, so nothing changes
    assert "needs a restart" not in reload(daemon)


@needs_root
def test_what_was_open_to_all_can_be_closed(by_file):
    daemon, rewrite = by_file()
    assert in_the_middle(daemon, lambda: (rewrite("allow-uid = 0"), reload(daemon))) == [100, "closed"]
    rewrite()
    reload(daemon)
    assert as_user(ALICE, ALICE, lambda: greeted(daemon.url)) == ["mine"]


def test_each_change_has_a_line_and_so_has_what_stays(by_file):
    daemon, rewrite = by_file("max-streams = 3", "threads = 1")
    rewrite("max-streams = 4", "log-level = debug", "threads = 2", "readers = 7", "batch-bytes = 1")
    log = reload(daemon)
    assert "the option batch-bytes has no effect any more\n" in log
    assert "reload: max-streams: 4 instead of 3\n" in log and "reload: log-level: debug instead of info\n" in log
    assert "changed, but needs a restart: threads readers\n" in log
    log = reload(daemon)
    assert "reload:" not in log and "needs a restart: threads readers\n" in log


# ---- names and certificates ----
class Served:
    """A daemon on tls whose files are copies that a test replaces."""

    def __init__(self, site, server, by_file, scratch, *lines):
        self.site, self.files = site, {k: scratch / k for k in ("cert", "key", "ca", "crl")}
        self.put(cert=server[0], key=server[1], ca=site.ca.file("pem"), crl=site.ca.revoke())
        self.base = [f"tls-{k} = {v}" for k, v in self.files.items()]
        self.daemon, self.rewrite = by_file(f"listen = tls+tcp://{LOCAL}:0", *self.base, *lines, listen=False)
        self.url = tls_url(self.daemon)

    def put(self, **files):
        for kind, path in files.items():
            shutil.copy(path, self.files[kind])
            self.files[kind].chmod(0o600)

    def serial(self):
        """The certificate that a new client is shown."""
        with Connection(self.url, tls=context_of(self.site, self.site.client)) as c:
            return c.socket.getpeercert()["serialNumber"]


@pytest.fixture
def served(site, server, start, scratch):  # noqa: F811
    def run(*lines):
        config = scratch / "r.conf"

        def by_file(*all_lines, listen):
            def rewrite(*more):
                config.write_text("".join(f"{line}\n" for line in (f"listen = ipc://{scratch}/s", *all_lines[:5], *more)))
            rewrite(*all_lines[5:])
            return start("--config", config, listen=listen), rewrite
        return Served(site, server, by_file, scratch, *lines)
    return run


def test_a_renewed_certificate_is_shown_to_new_clients(served, site, as_name):  # noqa: F811
    s = served()
    first = s.serial()
    with Connection(s.url, tls=context_of(site, site.client)) as c:
        c.hello()
        cert, key = site.ca.issue("renewed", "localhost", days=200)
        s.put(cert=cert, key=key)
        log = reload(s.daemon)
        assert "reload: the certificate of tls-cert is renewed: new connections get it\n" in log
        assert s.serial() != first and s.serial() == s.serial()
        assert c.reduce("sum", "f32", F32).count == 100  # who is there stays
    assert "renewed" not in reload(s.daemon)


def is_cut_off(c):
    """By the reload: it says nothing that the daemon could refuse."""
    with pytest.raises(Closed):
        c.receive_frame()


def test_a_revoked_certificate_ends_its_connections(served, site, as_name):  # noqa: F811
    s = served()
    lost, kept = as_name(s.url, "lost3"), as_name(s.url, "kept3")
    lost.put("mine", "f32", F32)
    s.put(crl=site.ca.revoke(site.folder / "ca-lost3.pem"))
    assert "reload: the lists of tls-crl are others: connections that they revoke end\n" in reload(s.daemon)
    is_cut_off(lost)
    assert kept.reduce("sum", "f32", F32).count == 100
    with pytest.raises((Closed, OSError)):  # its handshake
        with Connection(s.url, tls=context_of(site, (site.folder / "ca-lost3.pem", site.folder / "ca-lost3.key"))) as c:
            c.hello()
    status = s.daemon.status()
    assert status["user.tls1.residents"] == 1


def test_another_ca_ends_the_connections_of_the_one_before(served, site, as_name):  # noqa: F811
    s = served()
    old = as_name(s.url, "old4")
    s.put(ca=site.other.file("pem"), crl=site.other.revoke())
    assert "reload: the CAs of tls-ca are others: connections that they do not trust end\n" in reload(s.daemon)
    is_cut_off(old)
    with Connection(s.url, tls=context_of(site, site.other.issue("new4", "client"))) as c:
        c.hello()
        assert c.reduce("sum", "f32", F32).count == 100


def test_a_name_that_is_removed_is_cut_off(served, site, as_name):  # noqa: F811
    s = served("allow-name = alice5", "allow-name = bob5")
    alice, bob = as_name(s.url, "alice5"), as_name(s.url, "bob5")
    alice.put("mine", "f32", F32)
    s.rewrite("allow-name = bob5")
    log = reload(s.daemon)
    assert re.search(r"reload: allow-name of tls.*: alice5 is removed\n", log)
    assert "reload: tls:alice5 may not come in: 1 resident arrays of it stay until their time to live\n" in log
    is_cut_off(alice)
    assert bob.reduce("sum", "f32", F32).count == 100
    with pytest.raises(Fault) as e:
        as_name(s.url, "alice5")
    assert e.value.code == "AUTH"


def test_files_that_cannot_be_used_leave_the_old_ones_in_use(served, site):  # noqa: F811
    s = served()
    first = s.serial()
    s.put(cert=site.client[0])
    log = reload(s.daemon)
    assert "error: reload: tls: tls-key is not the key of the first certificate in tls-cert; the old files stay in use\n" in log
    assert s.serial() == first
    s.files["crl"].unlink()
    assert "No such file or directory; the old files stay in use" in reload(s.daemon)
    assert s.serial() == first


def test_reloads_without_end_lose_no_client(served, site):  # noqa: F811
    """Each swaps the files while handshakes are under way and peers are accepted."""
    s = served()
    pair = [site.ca.issue("first6", "localhost"), site.ca.issue("second6", "localhost")]
    for i in range(12):
        s.put(cert=pair[i % 2][0], key=pair[i % 2][1])
        s.daemon.process.send_signal(signal.SIGHUP)
        with Connection(s.url, tls=context_of(site, site.client)) as c:
            c.hello()
            assert c.reduce("sum", "u8", b"ab").cells == [struct.pack("<Q", 195)]


# ---- when they end ----
def test_the_ends_of_certificates_are_metrics(served, site, scratch):  # noqa: F811
    s = served()

    def ends_of():
        with s.daemon.connect() as c:
            return {k: int(v) for k, v in re.findall(r'^reduced_certificate_end_seconds{file="([a-z-]+)"} (\d+)$', c.metrics(), re.M)}

    import ssl
    with Connection(s.url, tls=context_of(site, site.client)) as c:
        want = ssl.cert_time_to_seconds(c.socket.getpeercert()["notAfter"])
    found = ends_of()
    assert found["tls-cert"] == want and set(found) == {"tls-cert", "tls-ca", "tls-crl"}
    assert found["tls-crl"] < found["tls-ca"]
    cert, key = site.ca.issue("longer7", "localhost", days=300)
    s.put(cert=cert, key=key)
    reload(s.daemon)
    end = time.monotonic() + 30
    while ends_of()["tls-cert"] <= want:  # the text is made anew when the time that it takes is a small share
        assert time.monotonic() < end


def test_without_tls_there_are_none(start):
    with start().connect() as c:
        assert "certificate_end" not in c.metrics()
