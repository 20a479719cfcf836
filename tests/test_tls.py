"""Over the network: TLS with certificates on both sides, nothing in plain unless told, and no secret in the log."""
import base64
import re
import socket
import ssl
import subprocess

import pytest

from certificates import Authority
from conftest import BIN
from rawclient import Connection
from sideclient import Side

DATA = bytes(range(256)) * 64  # as f32: a wide mix, NaNs omitted
HEX = ("--hex", "--dtype", "f32", "--nan", "omit")


class Site:
    """A CA, a daemon's certificate and a client's, and those that a stranger has."""

    def __init__(self, folder):
        self.folder = folder
        self.ca, self.other = Authority(folder, "ca"), Authority(folder, "other")
        self.client = self.ca.issue("client", "client")

    def flags(self, cert, *more):
        return ["--listen", "tls+tcp://127.0.0.1:0", "--tls-cert", cert[0], "--tls-key", cert[1], "--tls-ca", self.ca.file("pem"),
                *more]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return Site(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def server(site):
    return site.ca.issue("server", "localhost")


def tls_url(daemon, host="localhost"):
    daemon.wait_log("ready$")
    return f"tls+tcp://{host}:{re.search(r'serving tls.tcp://127.0.0.1:([0-9]+)', daemon.log())[1]}"


@pytest.fixture
def reduce(ctl, site):
    """reduce(url, ca=, cert=) -> CompletedProcess of `reducectl sum` on DATA."""
    def run(url, ca=None, cert=None, *args):
        tls = ["--tls-ca", ca or site.ca.file("pem")] + (["--tls-cert", cert[0], "--tls-key", cert[1]] if cert else [])
        return ctl("sum", *HEX, *(tls if url.startswith("tls") else []), *args, stdin=DATA, url=url)
    return run


def refused(done):
    assert done.returncode == 3 and b"AUTH: no trust" in done.stderr, done.stderr


# ---- certificates ----
def test_the_right_certificates_give_the_same_bits(start, site, server, reduce, ctl):
    daemon = start(*site.flags(server))
    url = tls_url(daemon)
    want, got = reduce(daemon.url), reduce(url, None, site.client)
    assert (got.returncode, got.stdout) == (0, want.stdout) and want.stdout, got.stderr
    names = {"REDUCED_TLS_CA": site.ca.file("pem"), "REDUCED_TLS_CERT": site.client[0], "REDUCED_TLS_KEY": site.client[1]}
    by_environment = ctl("sum", *HEX, stdin=DATA, url=url, env={k: str(v) for k, v in names.items()})
    assert by_environment.stdout == want.stdout
    context = ssl.create_default_context(cafile=site.ca.file("pem"))
    context.load_cert_chain(*site.client)
    with Connection(url, tls=context) as c:
        assert c.hello()["token"] == bytes(16)  # no fdpass channel
        assert c.reduce("sum", "u8", DATA).cells == [sum(DATA).to_bytes(8, "little")]


def test_wrong_certificates_are_refused_and_others_go_on(start, site, server, reduce):
    daemon = start(*site.flags(server))
    url = tls_url(daemon)
    context = ssl.create_default_context(cafile=site.ca.file("pem"))
    context.load_cert_chain(*site.client)
    with Connection(url, tls=context) as bystander:
        bystander.hello()
        refused(reduce(url))  # no certificate
        refused(reduce(url, None, site.other.issue("client", "client")))
        refused(reduce(url, None, site.ca.issue("late", "client", days=-1)))
        refused(reduce(url, site.other.file("pem"), site.client))  # the daemon's CA is not ours
        refused(reduce(tls_url(daemon, "127.0.0.1"), None, site.client))  # not the name in its certificate
        assert bystander.reduce("sum", "u8", DATA).count == len(DATA)
    assert reduce(url, None, site.client).returncode == 0


def test_revoked_certificates_are_refused_and_others_go_on(start, site, server, reduce):
    lost = site.ca.issue("lost", "client")
    daemon = start(*site.flags(server, "--tls-crl", site.ca.revoke(lost[0])))
    url = tls_url(daemon)
    refused(reduce(url, None, lost))
    assert reduce(url, None, site.client).returncode == 0
    refused(reduce(url, None, lost))


def test_without_a_revocation_list_the_date_decides(start, site, server, reduce):
    lost = site.ca.issue("lost2", "client")
    site.ca.revoke(lost[0])
    assert reduce(tls_url(start(*site.flags(server))), None, lost).returncode == 0


def test_an_expired_daemon_is_not_trusted(start, site, reduce):
    daemon = start(*site.flags(site.ca.issue("old", "localhost", days=-1)))
    refused(reduce(tls_url(daemon), None, site.client))


def test_any_client_is_served_only_when_told(start, site, server, reduce):
    daemon = start(*site.flags(server, "--tls-clients", "any"))
    assert reduce(tls_url(daemon)).returncode == 0
    daemon.wait_log("warning: tls.*no authentication")


@pytest.mark.parametrize("plain", [b"\0SP\0\0\x30\0\0", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff", b""], ids=["sp", "http", "hello", "silence"])
def test_peers_without_tls_hurt_nobody(start, site, server, reduce, plain):
    """Some leave, some stay for as long as they like: clients get in beside them."""
    daemon = start(*site.flags(server))
    url = tls_url(daemon)
    port = int(url.rsplit(":", 1)[1])
    stay = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
    for s in stay:
        s.sendall(plain)
    for s in stay[::2]:
        s.close()
    assert reduce(url, None, site.client).returncode == 0
    for s in stay:
        s.close()
    assert reduce(url, None, site.client).returncode == 0


def test_a_client_that_speaks_plain_to_tls_is_told(start, site, server, reduce):
    daemon = start(*site.flags(server))
    done = reduce(tls_url(daemon)[4:])
    assert done.returncode == 3 and b"NO_DAEMON" in done.stderr


# ---- what the daemon insists on ----
@pytest.mark.parametrize("flags, told", [
    (["--listen", "tcp://127.0.0.1:0"], "allow-plain-tcp"),
    (["--listen", "tls+tcp://127.0.0.1:0"], "tls-cert"),
    (["--listen", "tls+tcp://127.0.0.1:0", "--tls-cert", "/c", "--tls-key", "/k"], "tls-ca"),
    (["--listen", "tls+tcp://127.0.0.1:0", "--tls-cert", "/c", "--tls-key", "/k", "--tls-ca", "/a", "--tls-crl", "/r", "--tls-clients",
      "any"], "tls-crl needs"),
    (["--listen", "tls+tcp://127.0.0.1:0", "--tls-cert", "c"], "absolute"),
    (["--listen", "tcp://127.0.0.1:0", "--allow-uid", "0", "--allow-plain-tcp", "yes"], "ipc sockets"),
    (["--allow-uid", "no-such-user-here"], "no such user"),
])
def test_what_gives_less_than_it_seems_is_no_config(flags, told):
    done = subprocess.run([BIN / "reduced", "--config", "/dev/null", *flags], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and told in done.stderr, done.stderr


def start_fails(*flags):
    done = subprocess.run([BIN / "reduced", "--config", "/dev/null", "--backend", "cpu", *map(str, flags)], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    return done.stderr


def test_unusable_files_end_the_start(site, server, scratch):
    cert, key = server
    open_key = scratch / "key"
    open_key.write_bytes(key.read_bytes())
    open_key.chmod(0o644)
    assert "access to the key" in start_fails(*site.flags((cert, open_key)))
    assert "No such file" in start_fails(*site.flags((scratch / "none", key)))
    assert "tls" in start_fails(*site.flags((key, key)))
    assert "tls" in start_fails(*site.flags((cert, cert)), "--tls-ca", key)
    assert "tls" in start_fails(*site.flags((cert, key)), "--tls-crl", cert)
    assert "No such file" in start_fails(*site.flags((cert, key)), "--tls-crl", scratch / "none")
    assert "more than 1 MiB" in start_fails(*site.flags(("/dev/zero", key)))


# ---- secrets ----
def key_lines(key):
    return [line for line in key.read_text().splitlines() if not line.startswith("-")]


def test_no_secret_is_logged(start, site, server, reduce):
    """Keys, tokens, handles and ids of sessions, at the level that tells most."""
    daemon = start(*site.flags(server), "--log-level", "debug")
    url = tls_url(daemon)
    secrets = key_lines(server[1]) + key_lines(site.client[1])
    assert reduce(url, None, site.client).returncode == 0
    refused(reduce(url))
    with daemon.connect() as c, Side(c) as side:
        handle, memory = side.arena(4096)
        memory.close()
        stream = c.begin("sum", "u8")
        c.append(stream, 0, b"payload-of-mine!")
        c.abort(stream)
        token = c.welcome["token"]
        secrets += [token.hex(), base64.b64encode(token).decode(), repr(token)[2:-1], "payload"]
        secrets += [form % n for n in (c.session, handle) for form in ("%d", "%x", "%016x")]
        side.send(b"malformed")
        daemon.wait_log("bad packet")  # before the session ends, which closes the channel too
    log = daemon.log()
    assert "debug: " in log and [s for s in secrets if s in log] == []
    with open(f"/proc/{daemon.process.pid}/environ", "rb") as env, open(f"/proc/{daemon.process.pid}/cmdline", "rb") as line:
        told = env.read() + line.read()
    assert not any(s.encode() in told for s in secrets)
