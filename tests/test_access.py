"""Who may use a socket, and what one user can learn about another or do to it: nothing."""
import ctypes
import os
import pathlib
import re
import shutil
import socket
import stat
import struct
import subprocess
import sys

import pytest

from conftest import BIN, TESTS, select_a_moment
from otheruser import as_user, needs_root
from rawclient import Closed, Connection, Fault
from sideclient import Side
from supervisor import supervise  # noqa: F401  # a fixture

ALICE, BOB, GROUP = 12345, 23456, 34567
F32 = bytes(4000)

pytestmark = needs_root


def outcome(url):
    """What a user meets: "sum", or the code and the field of the refusal of every kind of message, after which the connection
    is closed."""
    refusals = []
    with Connection(url) as c:
        try:
            c.hello()
            c.reduce("sum", "f32", F32)
            return "sum"
        except Fault as e:
            refusals.append((e.code, e.field))
        with pytest.raises(Closed):
            c.ping(b"x")
    for call in (lambda c: c.ping(b"x"), lambda c: c.query(2), lambda c: c.reduce("sum", "f32", F32)):
        with Connection(url) as c, pytest.raises(Fault) as e:
            call(c)
        refusals.append((e.value.code, e.value.field))
    assert len(set(refusals)) == 1
    return " ".join(refusals[0])


def knocks(path):
    """Does the fdpass socket let us in? Where it does, a stranger's ATTACH is answered."""
    try:
        with Side(None, attach=False, path=str(path)) as side:
            side.attach(1, bytes(16))
    except Closed:
        return False
    except Fault as e:
        return e.code == "AUTH"


@pytest.fixture
def public(start, scratch):
    """public(*flags): a daemon whose sockets' modes let everybody in."""
    os.chmod(scratch, 0o755)
    return lambda *flags, **kw: start("--socket-mode", "0666", *flags, **kw)


# ---- the daemon's own process ----
def status_of_threads(daemon, key):
    """The values of a line of /proc/PID/task/*/status."""
    tasks = pathlib.Path(f"/proc/{daemon.process.pid}/task").iterdir()
    return {re.search(rf"^{key}:\s+(\d+)", (t / "status").read_text(), re.M)[1] for t in tasks}


def test_every_thread_is_in_the_sandbox(start):
    """Those of nng, for tcp, and of the trace begin later than those of the engine."""
    daemon = start("--threads", 3, tcp=True)
    with daemon.connect(tcp=True) as c:
        assert c.reduce("sum", "u8", bytes([1, 2])).cells == [struct.pack("<Q", 3)]
        if "no seccomp" in daemon.log():
            pytest.skip("this kernel has no seccomp")
        assert re.search(r"^reduced: sandbox: seccomp, (no )?Landlock$", daemon.log(), re.M)
        assert status_of_threads(daemon, "Seccomp") == {"2"} and status_of_threads(daemon, "NoNewPrivs") == {"1"}


def rings(daemon):
    """Descriptors of io_uring that the daemon has."""
    return [fd for fd in pathlib.Path(f"/proc/{daemon.process.pid}/fd").iterdir() if "io_uring" in os.readlink(fd)]


def can_make_rings():
    ring = ctypes.CDLL(None).syscall(425, 4, bytes(120))  # io_uring_setup on x86-64 and aarch64
    if ring >= 0:
        os.close(ring)
    return ring >= 0


def test_in_the_sandbox_libuv_has_no_ring(start):
    """libuv makes one for each loop from 1.45 on, and would abort at the first call that the sandbox refuses."""
    daemon = start()
    with daemon.connect() as c:
        assert c.reduce("sum", "u8", bytes([1, 2])).cells == [struct.pack("<Q", 3)]
        assert "no seccomp" in daemon.log() or rings(daemon) == []


def test_without_the_sandbox_libuv_may_have_its_ring(start):
    daemon = start("--sandbox", "no")
    with daemon.connect() as c:
        assert c.reduce("sum", "u8", bytes([1, 2])).cells == [struct.pack("<Q", 3)]
        if ctypes.CDLL("libuv.so.1").uv_version() < 0x012D00:
            pytest.skip("libuv before 1.45 has no ring")
        if not can_make_rings():
            pytest.skip("this kernel refuses io_uring")
        assert rings(daemon) != []


def test_the_sandbox_can_be_left_out(start):
    daemon = start("--sandbox", "no")
    daemon.wait_log("sandbox: none, as configured")
    own = re.search(r"^NoNewPrivs:\s+(\d+)", pathlib.Path("/proc/self/status").read_text(), re.M)[1]
    assert status_of_threads(daemon, "NoNewPrivs") == {own}


# ---- lists ----
def test_without_lists_the_mode_decides(start, public, scratch):
    daemon = public()
    assert as_user(ALICE, ALICE, lambda: outcome(daemon.url)) == "sum"
    os.mkdir(scratch / "b")
    closed = start(directory=scratch / "b")
    with pytest.raises(AssertionError, match="PermissionError"):
        as_user(ALICE, ALICE, lambda: outcome(closed.url))


def test_only_listed_users_get_in(public):
    daemon = public("--allow-uid", 0, "--allow-uid", ALICE)
    assert as_user(ALICE, ALICE, lambda: outcome(daemon.url)) == "sum"
    before = daemon.status()["errors"]
    assert as_user(BOB, ALICE, lambda: outcome(daemon.url)) == "AUTH user"
    status = daemon.status()
    assert status["errors.AUTH"] == 4 and status["errors"] == before + 4
    assert as_user(ALICE, ALICE, lambda: knocks(daemon.path)) and not as_user(BOB, ALICE, lambda: knocks(daemon.path))


def test_root_is_no_exception(public):
    daemon = public("--allow-uid", ALICE, wait=False)
    daemon.wait_log("ready$")
    assert outcome(daemon.url) == "AUTH user"
    assert as_user(ALICE, ALICE, lambda: outcome(daemon.url)) == "sum"


def test_groups_are_primary_ones_or_of_the_database(public):
    daemon = public("--allow-gid", GROUP, "--allow-gid", "root")
    assert outcome(daemon.url) == "sum"
    assert as_user(BOB, GROUP, lambda: outcome(daemon.url)) == "sum"
    assert as_user(BOB, BOB, lambda: outcome(daemon.url)) == "AUTH user"
    assert as_user(BOB, BOB, lambda: outcome(daemon.url), groups=[GROUP]) == "AUTH user"  # nng tells the primary one only
    assert as_user(BOB, GROUP, lambda: knocks(daemon.path)) and not as_user(BOB, BOB, lambda: knocks(daemon.path))


def test_each_socket_has_its_list(public, scratch):
    daemon = public("--allow-uid", 0, "--listen", f"ipc://{scratch}/a", "--allow-uid", ALICE, "--listen", f"ipc://{scratch}/b",
                    "--allow-gid", GROUP)
    urls = [daemon.url, f"ipc://{scratch}/a", f"ipc://{scratch}/b"]
    for (uid, gid), doors in {(0, 0): [1, 0, 0], (ALICE, ALICE): [0, 1, 0], (BOB, GROUP): [0, 0, 1], (BOB, BOB): [0, 0, 0]}.items():
        want = ["sum" if d else "AUTH user" for d in doors]
        assert as_user(uid, gid, lambda: [outcome(u) for u in urls]) == want
        assert as_user(uid, gid, lambda: [knocks(u[6:]) for u in urls]) == [bool(d) for d in doors]


def test_the_unlisted_keep_nobody_out(public):
    """Their connections are few, and their fdpass channels never count as strangers."""
    daemon = public("--allow-uid", 0)

    def flood():
        held, closed = [], 0
        for _ in range(150):
            try:
                held.append(Connection(daemon.url))
                held[-1].ping(b"x")
            except Fault:
                pass
            except Closed:
                closed += 1
        sides = [knocks(daemon.path) for _ in range(100)]
        return closed, any(sides)
    with daemon.connect() as c, Side(c, attach=False) as stranger:
        closed, entered = as_user(BOB, BOB, flood)
        assert closed == 150 - 64 and not entered
        stranger.attach(c.session, c.welcome["token"])


def test_the_sockets_group(public, scratch):
    daemon = public("--socket-group", GROUP)
    for name in ("s", "s.side"):
        found = (scratch / name).stat()
        assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (os.geteuid(), GROUP, 0o666)
    assert outcome(daemon.url) == "sum"


@pytest.mark.parametrize("owner, mode, used", [(0, 0o700, True), (BOB, 0o700, False), (0, 0o770, False), (None, 0, False)])
def test_clients_look_in_no_runtime_directory_of_others(ctl, scratch, owner, mode, used):
    """After `su` XDG_RUNTIME_DIR is the former user's: whoever listens there meets no connection, so no file of root's."""
    runtime = scratch / "run"
    with socket.socket(socket.AF_UNIX) as listener:
        if owner is not None:
            runtime.mkdir()
            listener.bind(str(runtime / "reduced.sock"))
            listener.listen()
            os.chmod(runtime, mode)
            os.chown(runtime, owner, owner)
        secret = scratch / "secret"
        secret.write_bytes(F32)
        secret.chmod(0o600)
        process = subprocess.Popen([BIN / "reducectl", "--no-autostart", "sum", "-t", "f32", secret], stderr=subprocess.PIPE,
                                   env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)})
        if used:
            listener.settimeout(60)
            listener.accept()[0].close()
        error = process.communicate(timeout=60)[1]
        assert (str(runtime).encode() in error) == used
        if owner is not None and not used:
            listener.settimeout(0)
            with pytest.raises(BlockingIOError):
                listener.accept()


# ---- one user and another ----
def everything_told(url):
    with Connection(url) as c:
        c.hello()
        return [c.query(topic) for topic in (1, 2, 4, 5)] + [c.metrics()]


ANOTHER = """
import sys
sys.path.insert(0, sys.argv[1])
from rawclient import Connection
with Connection(sys.argv[2]) as c:
    c.hello()
    print(flush=True)
    sys.stdin.read()
"""


def test_status_tells_nothing_of_others(public):
    daemon = public()
    with daemon.connect(hello=False) as c:
        c.hello(name=b"payroll-of-october")
        stream = c.begin("sum", "f32")
        own, told = os.geteuid(), as_user(BOB, BOB, lambda: everything_told(daemon.url))
        families = {line.split("{")[0] for line in told[-1].splitlines() if line.startswith("reduced_user_")}
        assert "reduced_requests_total" in told[-1] and families == {"reduced_user_limit"}, "PROTOCOL.md, Metrics"
        mine = repr([c.query(topic) for topic in (2, 4, 5)] + [c.metrics()])
        for secret in (f"uid={own} ", f'uid="{own}"', "'all.sessions'", "payroll"):
            assert secret in mine and secret not in repr(told), secret
        for secret in (str(c.session), f"{c.session:x}", c.welcome["token"].hex(), f"uid {own}", f"user.{own}."):
            assert secret not in repr(told)
        sessions = [v for k, v in told[3].items() if k.startswith("session.")]
        assert len(sessions) == told[3]["sessions"] == 1 and f"uid={BOB} " in sessions[0], "its own"
        c.abort(stream)
    for _ in range(3):  # the number of one process may be what something was counted to, that of the next one too is not
        with subprocess.Popen([sys.executable, "-c", ANOTHER, TESTS, daemon.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as another:
            assert another.stdout.readline() == b"\n"
            told = repr(as_user(BOB, BOB, lambda: everything_told(daemon.url)))
        if not re.search(rf"(?<![\d.]){another.pid}(?![\d.])", told):  # as a number: any may have its digits
            break
    else:
        pytest.fail("the status shows the process number of another user")


def codes(*calls):
    """What each of them meets: "OK" or the code of its refusal."""
    met = []
    for call in calls:
        try:
            call()
            met.append("OK")
        except Fault as e:
            met.append(e.code)
    return met


def try_names(url, session, stream, handle, token):
    """Use what another user was given: every way is refused; the codes."""
    with Connection(url) as c:
        c.hello()
        met = codes(lambda: c.call(3, bytes(8), session=session), lambda: c.finish(stream, 0), lambda: c.abort(stream),
                    lambda: c.append(stream, 0, F32), lambda: c.reduce_at("sum", "u8", handle, 0, 1),
                    lambda: Side(c, attach=False).attach(session, token))
        with Side(c) as side:
            side.drop(handle)
            side.arena(4096)[1].close()  # an answer: the drop before it is through
    return met


def test_names_of_another_user_mean_nothing(public):
    """Session, stream, arena and token of one user, all told to another: of no use."""
    daemon = public()
    with daemon.connect() as c, Side(c) as side:
        stream = c.begin("sum", "f32")
        c.append(stream, 0, F32)
        handle, memory = side.arena(4096)
        memory[0] = 7
        names = c.session, stream, handle, c.welcome["token"]
        assert as_user(BOB, BOB, lambda: try_names(daemon.url, *names)) == ["NO_SESSION"] + 3 * ["BAD_HANDLE"] + ["BAD_HANDLE", "AUTH"]
        assert c.reduce_at("sum", "u8", handle, 0, 4096).cells == [b"\x07" + bytes(7)]
        assert c.finish(stream, 1000).count == 1000
        memory.close()


def what_is_mine(url):
    """Store data as one user, and list them; then open an fdpass channel."""
    with Connection(url) as c:
        c.hello()
        met = [c.reduce("sum", "u8", b"\1\2").cells[0][0]]
        for call in (lambda: c.put("x", "u8", b"secret"), c.list, lambda: Side(c)):
            try:
                call()
                met.append("OK")
            except (Fault, Closed) as e:
                met.append(getattr(e, "code", "closed"))
        return met


def test_unmapped_users_are_nobody(public, scratch):
    """In a user namespace the kernel reports all users without a number there as the same one."""
    inside = scratch / "inside"
    inside.write_text(f'#!/bin/sh\nexec unshare --user --map-root-user -- {BIN / "reduced"} "$@"\n')
    inside.chmod(0o755)
    if subprocess.run(["unshare", "--user", "--map-root-user", "true"], capture_output=True).returncode:
        pytest.skip("no user namespaces here")
    daemon = public(program=inside)
    assert what_is_mine(daemon.url) == [3, "OK", "OK", "OK"]  # root has a number
    for uid in (ALICE, BOB):
        assert as_user(uid, uid, lambda: what_is_mine(daemon.url)) == [3, "AUTH", "AUTH", "closed"]


def test_device_memory_is_for_the_daemons_own_user(public):
    """Whose allocation a CUDA handle names cannot be told, and the driver lets the daemon map all of its user's."""
    daemon = public()

    def code():
        with Connection(daemon.url) as c:
            c.hello()
            with Side(c) as side, pytest.raises(Fault) as e:
                side.device(bytes(64))
        return e.value.code
    assert as_user(BOB, BOB, code) == "AUTH"
    assert code() == "TYPE"  # no GPU here; it got that far


def may_look(pid):
    """Which doors of the kernel into the daemon's memory and descriptors are open to us."""
    doors = {"mem": lambda p: p.open("rb").read(1), "fd": os.listdir, "map_files": os.listdir, "maps": lambda p: p.read_text(),
             "environ": lambda p: p.read_text()}
    opened = []
    for name, look in doors.items():
        try:
            look(pathlib.Path(f"/proc/{pid}/{name}"))
            opened.append(name)
        except PermissionError:
            pass
    return opened


def test_memory_and_descriptors_are_out_of_reach(public):
    """An arena is a memfd without a name in any file system: only through /proc could another user come to it."""
    daemon = public()
    with daemon.connect() as c, Side(c) as side:
        side.arena(1 << 20)[1].close()
        assert as_user(BOB, BOB, lambda: may_look(daemon.process.pid)) == []


def test_sockets_are_never_wider_than_told(scratch):
    """Looked at as the daemon starts: from the moment that a socket has a name its mode is right."""
    process = subprocess.Popen([BIN / "reduced", "--config", "/dev/null", "--backend", "cpu", "--listen", f"ipc://{scratch}/s",
                                "--socket-mode", "0600"], stderr=subprocess.DEVNULL)
    seen = set()
    while not seen.issuperset({"s", "s.side"}):
        for path in scratch.glob("s*"):
            if stat.S_ISSOCK(path.stat().st_mode):
                assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
                seen.add(path.name)
        assert process.poll() is None
        select_a_moment(process)
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    assert "\nUmask:\t0077\n" in status, "the moment between bind and chmod is too short to be met"
    process.terminate()
    assert process.wait(60) == 0


# ---- resident data of others ----
def test_resident_data_of_another_are_not_met(public):
    daemon = public()
    with daemon.connect() as c:
        handle, writing = c.put("x", "u8", b"\1\2\3"), c.store("y", "u8", 3)

        def try_all():
            with daemon.connect() as d:
                met = codes(lambda: d.list("x"), lambda: d.drop("x"), lambda: d.reduce_at("sum", "u8", handle, 0, 3),
                            lambda: d.write(writing, 0, b"abc"), lambda: d.commit(writing), lambda: d.abort(writing))
                before = len(d.list())
                mine = d.put("x", "u8", b"\5")
                return met, before, d.reduce_at("sum", "u8", mine, 0, 1).cells[0][0], len(d.list())

        assert as_user(BOB, BOB, try_all) == [["BAD_HANDLE"] * 6, 0, 5, 1]
        assert [(x.name, x.handle) for x in c.list()] == [("x", handle)]
        assert c.reduce_at("sum", "u8", handle, 0, 3).cells[0][0] == 6
        assert daemon.status()["resident.arrays"] == 3  # two of ours, and the other's, which stays


def test_nor_after_a_restart(supervise):  # noqa: F811
    """Of two users each has its own again, and no more."""
    d = supervise("--socket-mode", "0666")
    os.chmod(d.directory, 0o755)
    os.chmod(d.path, 0o666)

    def put(name):
        with d.connect() as c:
            return c.put(name, "u8", b"\4")

    def look(handle):
        with d.connect() as c:
            return [x.name for x in c.list()] + codes(lambda: c.reduce_at("sum", "u8", handle, 0, 1))

    mine, his = put("mine"), as_user(BOB, BOB, lambda: put("his"))
    d.keeps(2)
    d.crash()
    assert look(mine) == ["mine", "OK"] and look(his) == ["mine", "BAD_HANDLE"]
    assert as_user(BOB, BOB, lambda: look(his)) == ["his", "OK"]
    assert as_user(BOB, BOB, lambda: look(mine)) == ["his", "BAD_HANDLE"]


# ---- what is started ----
@pytest.mark.parametrize("program, args, code", [
    ("reduced", ["sum", "-t", "u8", "data"], 3), ("reducectl-ladder", ["ladder", "--no-autostart"], 1), ("reducectl-hdf5", ["sum", "x.h5"], 1)])
def test_no_program_of_another_user_is_started(shared, scratch, program, args, code):
    """One that lies beside reducectl where all may write: it is named, and not started."""
    folder, met = scratch / "open", scratch / "met"
    folder.mkdir()
    shutil.copy(BIN / "reducectl", folder)
    (folder / program).write_text(f"#!/bin/sh\n: >{met}\n")
    os.chmod(folder / program, 0o755)
    (scratch / "data").write_bytes(bytes(3))
    (scratch / "x.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(2000))
    env = {**os.environ, "XDG_RUNTIME_DIR": str(scratch), "XDG_CONFIG_HOME": str(scratch), "HOME": str(scratch), "PATH": "/nowhere"}
    if program != "reduced":
        env["REDUCED_URL"] = shared.url

    def reducectl():
        return subprocess.run([folder / "reducectl", *args], capture_output=True, text=True, env=env, cwd=scratch, timeout=60)

    reducectl()
    assert met.exists(), "a program of one's own is started"
    met.unlink()
    os.chown(folder / program, ALICE, ALICE)
    os.chmod(folder, 0o1777)
    done = reducectl()
    assert not met.exists() and done.returncode == code, done
    assert f"not started: {folder}/{program} belongs to user {ALICE}" in done.stderr, done.stderr
    assert ("opts.daemon or $REDUCED_URL names one" in done.stderr) == (program == "reduced"), done.stderr
