"""Over the network: TLS with certificates on both sides, nothing in plain unless told, and no secret in the log."""
import base64
import contextlib
import json
import re
import socket
import ssl
import subprocess
import time

import pytest

from certificates import Authority
from conftest import BIN, SANITIZER
from rawclient import REDUCE, Closed, Connection, Fault
from sideclient import Side

DATA = bytes(range(256)) * 64  # as f32: a wide mix, NaNs omitted
HEX = ("--hex", "--dtype", "f32", "--nan", "omit")
# The certificates name localhost, of whose addresses nng tries the first.
LOCAL = socket.getaddrinfo("localhost", 1, type=socket.SOCK_STREAM)[0][4][0]
LOCAL = f"[{LOCAL}]" if ":" in LOCAL else LOCAL


class Site:
    """A CA, a daemon's certificate and a client's, and those that a stranger has."""

    def __init__(self, folder):
        self.folder = folder
        self.ca, self.other = Authority(folder, "ca"), Authority(folder, "other")
        self.client = self.ca.issue("client", "client")

    def flags(self, cert, *more):
        return ["--listen", f"tls+tcp://{LOCAL}:0", "--tls-cert", cert[0], "--tls-key", cert[1], "--tls-ca", self.ca.file("pem"),
                *more]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return Site(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def server(site):
    return site.ca.issue("server", "localhost")


def tls_ports(daemon):
    daemon.wait_log("ready$")
    return re.findall(rf"serving tls.tcp://{re.escape(LOCAL)}:([0-9]+)", daemon.log())


def tls_url(daemon, host="localhost"):
    return f"tls+tcp://{host}:{tls_ports(daemon)[0]}"


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
@pytest.mark.threads
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
        refused(reduce(tls_url(daemon, LOCAL), None, site.client))  # not the name in its certificate
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


@pytest.mark.threads
@pytest.mark.parametrize("plain", [b"\0SP\0\0\x30\0\0", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff", b""], ids=["sp", "http", "hello", "silence"])
def test_peers_without_tls_hurt_nobody(start, site, server, reduce, plain):
    """Some leave, some stay for as long as they like: clients get in beside them."""
    daemon = start(*site.flags(server))
    url = tls_url(daemon)
    port = int(url.rsplit(":", 1)[1])
    stay = [socket.create_connection(("localhost", port)) for _ in range(20)]
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


# ---- the name in the certificate is the user ----
def context_of(site, cert):
    context = ssl.create_default_context(cafile=site.ca.file("pem"))
    context.load_cert_chain(*cert)
    return context


@pytest.fixture
def as_name(site):
    """as_name(url, name): a session by a certificate of its own with this name."""
    made = []

    def open_session(url, name, **kw):
        cert = site.ca.issue(f"{len(made)}{name}" if kw else name, "client", **kw)
        made.append(Connection(url, tls=context_of(site, cert)))
        made[-1].hello(name=name.encode())
        return made[-1]
    yield open_session
    for c in made:
        c.close()


def refused_as(site, url, subject, then=lambda c: None):
    """The text of AUTH for a certificate with this subject. `then`: with the connection, which stays for a second."""
    with Connection(url, tls=context_of(site, site.ca.issue("odd", "client", subject=subject))) as c:
        with pytest.raises(Fault) as e:
            c.hello()
        assert (e.value.code, e.value.field) == ("AUTH", "user")
        then(c)
    return e.value.text


def ends(c):
    with pytest.raises(Closed):
        c.ping(b"x")


@pytest.mark.threads
def test_resident_data_belong_to_the_name(start, site, server, as_name):
    daemon = start(*site.flags(server))
    url = tls_url(daemon)
    alice, bob = as_name(url, "alice"), as_name(url, "bob")
    handle = alice.put("mine", "u8", DATA)
    assert [x.name for x in alice.list()] == ["mine"] and bob.list() == []
    for call in (lambda: bob.reduce_at("sum", "u8", handle, 0, len(DATA)), lambda: bob.drop("mine")):
        with pytest.raises(Fault) as e:
            call()
        assert e.value.code == "BAD_HANDLE"
    bob.put("mine", "u8", b"\1\2")
    alice.close()
    renewed = as_name(url, "alice", subject="/O=renewed/CN=alice")  # another key, another certificate
    assert [x.bytes for x in renewed.list()] == [len(DATA)]
    assert renewed.reduce_at("sum", "u8", handle, 0, len(DATA)).cells == [sum(DATA).to_bytes(8, "little")]
    with daemon.connect() as local:
        assert local.list() == []
    renewed.drop("mine")
    assert renewed.list() == [] and [x.bytes for x in bob.list()] == [2]


@pytest.mark.threads
def test_reducectl_puts_and_reduces_by_name(start, site, server, ctl, scratch):
    url = tls_url(start(*site.flags(server)))
    (scratch / "data").write_bytes(DATA)

    def run(name, *args):
        cert, key = site.ca.issue(name, "client")
        done = ctl(*args, "--tls-ca", site.ca.file("pem"), "--tls-cert", cert, "--tls-key", key, url=url)
        return done.returncode, done.stdout
    assert run("alice", "put", "mine", "--dtype", "u8", scratch / "data")[0] == 0
    assert run("alice", "sum", "@mine") == (0, b"%d\n" % sum(DATA))
    assert b"mine" in run("alice", "ls")[1] and run("bob", "ls") == (0, b"")
    assert run("bob", "sum", "@mine") == (1, b"")


def test_quotas_are_of_the_name(start, site, server, as_name):
    url = tls_url(start(*site.flags(server), "--max-user-sessions", 2, "--resident-user", 1))
    as_name(url, "alice").put("a", "u8", bytes(1 << 20))
    also_alice = as_name(url, "alice")
    with pytest.raises(Fault) as e:
        as_name(url, "alice")
    assert (e.value.code, e.value.field) == ("BUSY", "user_sessions")
    with pytest.raises(Fault) as e:
        also_alice.put("b", "u8", bytes(1))
    assert (e.value.code, e.value.field) == ("QUOTA", "resident")
    as_name(url, "bob").put("b", "u8", bytes(1 << 20))


def test_lists_show_the_name(start, site, server, as_name, scratch):
    daemon = start(*site.flags(server), "--trace", scratch / "trace", "--log-level", "debug", "--threads", 1)
    url = tls_url(daemon)
    alice, bob, again = as_name(url, "alice"), as_name(url, "bob@example.org"), as_name(url, "alice")
    alice.reduce("sum", "u8", DATA)
    body = alice.reduce_body("var", "f64", bytes(1 << 20), rows=1 << 14)
    with daemon.connect() as admin:
        def told(topic, prefix):
            return [str(v) for k, v in admin.query(topic).items() if k.startswith(prefix)]
        for _ in range(30):  # work of a second
            sent = [alice.send(REDUCE, body) for _ in range(16)]
            requests = told(4, "request.")
            for x in sent:
                alice.wait(x)
            if requests:
                break
        assert re.search(rf" address={re.escape(LOCAL)}:\d+ user=tls:alice id=\d+ name=alice$", requests[0])
        assert len([t for t in told(5, "session.") if " user=tls:alice priority=" in t]) == 2
        status = admin.query(2)
        rows = {v: k.rsplit(".", 1)[0] for k, v in status.items() if k.startswith("user.tls") and k.endswith(".name")}
        assert {n: status[f"{row}.sessions"] for n, row in rows.items()} == {"tls:alice": 2, "tls:bob@example.org": 1}
        metrics = admin.metrics()
        assert re.search(r'^reduced_user_data_bytes_total{uid="tls:alice"} [1-9]', metrics, re.M)
        assert 'reduced_user_held{uid="tls:bob@example.org",what="sessions"} 1' in metrics
    # a name sees its own sessions, and no other's
    assert [len([k for k in c.query(5) if k.startswith("session.")]) for c in (alice, again, bob)] == [2, 2, 1]
    daemon.wait_log(rf"debug: tls alice {re.escape(LOCAL)}:\d+: session of 'alice'")
    daemon.stop()
    events = json.loads((scratch / "trace").read_text())["traceEvents"]
    assert {e["args"].get("user") for e in events if e["name"] == "sum u8"} == {"tls:alice"}


def test_lists_of_names_let_in_whom_they_name(start, site, server, as_name):
    daemon = start(*site.flags(server, "--allow-name", "alice", "--allow-name", "carol", "--listen", f"tls+tcp://{LOCAL}:0",
                               "--allow-name", "bob"))
    daemon.wait_log("ready$")
    first, second = (f"tls+tcp://localhost:{port}" for port in tls_ports(daemon))
    for url, name, other in ((first, "alice", "/CN=bob"), (first, "carol", "/CN=Alice"), (second, "bob", "/CN=alice"),
                             (second, "bob", "/O=x, CN=bob")):
        assert as_name(url, name).reduce("sum", "u8", DATA).count == len(DATA)
        assert "certificate" in refused_as(site, url, other)
    with daemon.connect() as local:
        local.ping(b"not for ipc")


def test_odd_names_are_refused(start, site, server, as_name):
    url = tls_url(start(*site.flags(server)))
    for subject, why in (("/O=nameless", "no common name"),
                         ("/CN=alice/CN=root", "two common names"),
                         ("/CN=two words", "other characters"),
                         ("/CN=line\nbreak", "other characters"),
                         ("/CN=tab\t", "other characters"),
                         ('/CN=quote"', "other characters"),
                         ("/CN=J\u00e9r\u00f4me", "other characters"),
                         ("/CN=a\\/b", "other characters"),
                         ("/CN=-rf", "does not begin")):
        assert why in refused_as(site, url, subject), subject
    assert as_name(url, "alice").reduce("sum", "u8", DATA).count == len(DATA)


def test_other_fields_are_not_the_name(start, site, server, as_name):
    """A text of the whole subject would show a second name."""
    daemon = start(*site.flags(server, "--allow-name", "alice"))
    url = tls_url(daemon)
    assert "allow-name" in refused_as(site, url, "/O=x, CN=alice/CN=mallory", ends)
    as_name(url, "1alice", subject="/O=x, CN=mallory/OU=CN=root/CN=alice").put("x", "u8", b"1")
    with daemon.connect() as admin:
        assert "tls:alice" in admin.query(2).values()


def test_names_that_look_alike_are_one_at_a_time(start, site, server, as_name):
    url = tls_url(start(*site.flags(server)))
    alice = as_name(url, "alice")
    assert "other letters" in refused_as(site, url, "/CN=ALICE", lambda c: as_name(url, "alice").put("x", "u8", b"1"))
    assert [x.name for x in alice.list()] == ["x"]


def test_refused_names_keep_nobody_out(start, site, server, as_name):
    url = tls_url(start(*site.flags(server, "--allow-name", "alice")))
    assert "allow-name" in refused_as(site, url, "/CN=ALICE", lambda c: as_name(url, "alice").ping(b"x"))


def test_without_certificates_peers_are_the_network(start, site, server):
    daemon = start(*site.flags(server, "--tls-clients", "any"))
    context = ssl.create_default_context(cafile=site.ca.file("pem"))
    context.load_cert_chain(*site.client)  # which nobody asks for
    with Connection(tls_url(daemon), tls=context) as c, daemon.connect() as admin:
        c.hello()
        with pytest.raises(Fault) as e:
            c.put("x", "u8", b"1")
        assert (e.value.code, e.value.field) == ("AUTH", "user")
        assert admin.query(2)["user.tcp.sessions"] == 1


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_versions_before_1_2_are_refused(start, site, server):
    url = tls_url(start(*site.flags(server)))
    context = context_of(site, site.client)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):  # not only for want of a common cipher suite
        Connection(url, tls=context)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with Connection(url, tls=context) as c:
        assert c.socket.version() == "TLSv1.2"


def test_only_fresh_keys_and_authenticated_encryption(start, site, server):
    """Each suite of TLS 1.2 that this machine's OpenSSL has, alone."""
    url = tls_url(start(*site.flags(server)))
    taken = set()
    context = context_of(site, site.client)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ALL:@SECLEVEL=0")
    names = [c["name"] for c in context.get_ciphers() if c["protocol"] != "TLSv1.3"]
    assert len(names) > 20
    for name in names:
        context.set_ciphers(f"{name}:@SECLEVEL=0")
        with contextlib.suppress(ssl.SSLError, ConnectionResetError), Connection(url, tls=context) as c:
            c.hello()
            taken.add(c.socket.cipher()[0])
    assert taken and all(re.match("ECDHE-.*(GCM|CHACHA20-POLY1305)", name) for name in taken), taken


# ---- handshakes ----
ORIGIN_STRANGERS = 128  # daemon/net/limits.h


def client_hello(site):
    """The first flight of a handshake."""
    out = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context_of(site, site.client).wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost").do_handshake()
    return out.read()


@pytest.mark.threads
def test_handshakes_that_stop_are_bounded(start, site, server, as_name):
    """They hold the daemon's first flight, its keys and nng's buffers, and the oldest go."""
    daemon = start(*site.flags(server))
    url = tls_url(daemon)
    as_name(url, "alice").reduce("sum", "u8", DATA)
    before, hello, n = daemon.rss(), client_hello(site), ORIGIN_STRANGERS + 40
    stopped = []
    for _ in range(n):
        stopped.append(socket.create_connection(("localhost", int(url.rsplit(":", 1)[1])), 60))
        stopped[-1].sendall(hello)
    as_name(url, "alice").reduce("sum", "u8", DATA)
    for s in stopped[: n - ORIGIN_STRANGERS]:
        while s.recv(1 << 16):  # the first flight; a timeout fails the test
            pass
    assert daemon.rss() - before < 64 << 20
    for s in stopped:
        s.close()


HANDSHAKE_S, HANDSHAKES = 0.016, 64  # daemon/net/limits.h: seconds between two of one address, and how many it may start with


@pytest.mark.threads
def test_handshakes_take_turns(start, site, server, as_name):
    """An address has its part of a core. Peers that say nothing have paid for theirs until they go, so a client waits behind them,
    and is served; those that go while they wait, or are there when the daemon goes, do no harm."""
    daemon = start(*site.flags(server))
    url = tls_url(daemon)
    n, begun = ORIGIN_STRANGERS - 8, time.monotonic()
    silent = [socket.create_connection(("localhost", int(url.rsplit(":", 1)[1])), 60) for _ in range(n)]
    as_name(url, "alice").reduce("sum", "u8", DATA)
    assert time.monotonic() - begun >= (n - HANDSHAKES - 1) * HANDSHAKE_S
    for s in silent:
        s.close()
    as_name(url, "alice").reduce("sum", "u8", DATA)
    silent = [socket.create_connection(("localhost", int(url.rsplit(":", 1)[1])), 60) for _ in range(n)]
    for s in silent[HANDSHAKES:]:
        s.close()
    daemon.stop()
    for s in silent[:HANDSHAKES]:
        s.close()


@pytest.mark.slow
def test_handshakes_have_a_deadline(start, site, server):
    """One byte at a time is not fast enough."""
    url = tls_url(start(*site.flags(server)))
    hello, begun = client_hello(site), time.monotonic()
    with socket.create_connection(("localhost", int(url.rsplit(":", 1)[1]))) as s:
        s.settimeout(0.2)  # between two bytes
        for at in range(len(hello)):
            try:
                s.send(hello[at : at + 1])
                assert s.recv(1) == b""
                break
            except TimeoutError:
                continue
            except (ConnectionResetError, BrokenPipeError):
                break
    assert 9 < time.monotonic() - begun < 20


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
    (["--listen", "ipc:///tmp/x", "--allow-name", "alice"], "allow-name is for tls"),
    (["--listen", "tcp://127.0.0.1:0", "--allow-plain-tcp", "yes", "--allow-name", "alice"], "allow-name is for tls"),
    (["--listen", "tls+tcp://127.0.0.1:0", "--allow-name", "alice", "--tls-cert", "/c", "--tls-key", "/k", "--tls-ca", "/a", "--tls-clients",
      "any"], "allow-name is for tls"),
    (["--allow-name", "alice", "--listen", "tls+tcp://127.0.0.1:0", "--tls-cert", "/c", "--tls-key", "/k", "--tls-clients", "any"],
     "allow-name is for tls"),
    (["--listen", "tls+tcp://127.0.0.1:0", "--allow-name", "two words"], "other characters"),
    (["--listen", "tls+tcp://127.0.0.1:0", "--allow-name", "alice", "--allow-name", "Alice"], "in other letters"),
])
def test_what_gives_less_than_it_seems_is_no_config(flags, told):
    done = subprocess.run([BIN / "reduced", "--config", "/dev/null", *flags], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and told in done.stderr, done.stderr


def reduced(*flags):
    done = subprocess.run([BIN / "reduced", "--config", "/dev/null", "--backend", "cpu", *map(str, flags)], capture_output=True,
                          text=True, timeout=60)
    assert not SANITIZER.search(done.stderr), done.stderr
    return done


def start_fails(*flags):
    """Why the daemon does not start, which --check-config says as well."""
    done, checked = reduced(*flags), reduced(*flags, "--check-config")
    why = re.search(r"no tls: (.*)\n", done.stderr)[1]
    assert (done.returncode, checked.returncode, checked.stdout, checked.stderr) == (1, 2, "", f"reduced: {why}\n"), done.stderr
    return why


def test_unusable_files_end_the_start(site, server, scratch):
    cert, key = server
    open_key = scratch / "key"
    open_key.write_bytes(key.read_bytes())
    open_key.chmod(0o644)
    cert_as_key = scratch / "cert"
    cert_as_key.write_bytes(cert.read_bytes())
    cert_as_key.chmod(0o600)
    assert "access to the key" in start_fails(*site.flags((cert, open_key)))
    assert "No such file" in start_fails(*site.flags((scratch / "none", key)))
    assert "tls-cert: a certificate cannot be read" in start_fails(*site.flags((key, key)))
    assert "tls-key: it is not a private key" in start_fails(*site.flags((cert, cert_as_key)))
    assert "tls-key is not the key of the first certificate in tls-cert" in start_fails(*site.flags((cert, site.client[1])))
    assert "tls-ca: a certificate cannot be read" in start_fails(*site.flags((cert, key)), "--tls-ca", key)
    assert "tls-crl: a revocation list cannot be read" in start_fails(*site.flags((cert, key)), "--tls-crl", cert)
    assert "No such file" in start_fails(*site.flags((cert, key)), "--tls-crl", scratch / "none")
    assert "more than 1 MiB" in start_fails(*site.flags(("/dev/zero", key)))


def day(days):
    return time.strftime("%Y-%m-%d", time.gmtime(time.time() + days * 86400))


def test_the_end_of_a_certificate_is_announced(start, site, server, scratch):
    """At the start and by --check-config: of each certificate that is sent, of the last CA, and of lists that have expired."""
    def warnings(*flags):
        checked = reduced(*flags, "--check-config")
        assert checked.returncode == 0 and checked.stdout == "the configuration is right\n", checked.stderr
        daemon = start(*flags)
        tls_url(daemon)
        daemon.stop()
        assert "".join(f"{line}\n" for line in daemon.log().splitlines() if "tls-" in line) == checked.stderr
        return checked.stderr

    def with_ca(*files):
        bundle = scratch / "cas.pem"
        bundle.write_text("".join(f.read_text() for f in files))
        return warnings(*site.flags(server), "--tls-ca", bundle)

    assert warnings(*site.flags(server)) == warnings(*site.flags(site.ca.issue("later", "localhost", days=15))) == ""
    soon, past = (site.ca.issue(name, "localhost", days=days) for name, days in (("soon", 13), ("past", -1)))
    assert warnings(*site.flags(soon)) == f"reduced: warning: a certificate in tls-cert expires on {day(13)}\n"
    assert warnings(*site.flags(past)) == f"reduced: warning: a certificate in tls-cert expired on {day(-1)}\n"
    chain = scratch / "chain.pem"
    chain.write_text(server[0].read_text() + past[0].read_text())
    assert f"expired on {day(-1)}" in warnings(*site.flags((chain, server[1])))
    brief = Authority(scratch, "brief", days=3)
    assert with_ca(brief.file("pem")) == f"reduced: warning: tls-ca expires on {day(3)}\n"
    assert with_ca(brief.file("pem"), site.ca.file("pem"), brief.file("pem")) == ""
    lists = Authority(scratch, "lists")
    with_lists = [*site.flags(server), "--tls-ca", lists.file("pem"), "--tls-crl"]
    assert warnings(*with_lists, lists.revoke(days=2)) == ""
    short = lists.revoke(days=0)
    end = time.monotonic() + 60
    while not (told := reduced(*with_lists, short, "--check-config").stderr) and time.monotonic() < end:
        time.sleep(0.1)  # poll interval: the list is valid for a second
    assert told.startswith("reduced: warning: a list in tls-crl refuses all clients of its CA, because it expired on "), told


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


@pytest.mark.unsanitized
def test_the_key_is_no_text_in_memory(start, site, server, reduce):
    """The certificate beside it is one: nng keeps what it was given, and of the key what it made of it."""
    daemon = start(*site.flags(server), backend="cpu")
    assert reduce(tls_url(daemon), None, site.client).returncode == 0
    texts = [key_lines(file)[0].encode() for file in server]
    found = set()
    with contextlib.ExitStack() as files:
        try:
            maps, memory = (files.enter_context(open(f"/proc/{daemon.process.pid}/{name}", "rb", 0)) for name in ("maps", "mem"))
        except PermissionError:
            pytest.skip("only root reads the memory of a process in a sandbox")
        for begin, end in re.findall(rb"^(\w+)-(\w+) rw", maps.read(), re.M):
            memory.seek(int(begin, 16))
            with contextlib.suppress(OSError):  # of a device
                part = memory.read(int(end, 16) - int(begin, 16))
                found |= {text for text in texts if text in part}
    assert found == {texts[0]}
