"""reduced's settings from outside: --check-config, --dump-config, --help, and the messages about wrong settings."""
import grp
import os
import re
import subprocess

import pytest

from certificates import Authority
from conftest import BIN, ROOT, SANITIZER
from otheruser import needs_root


def reduced(*args, cwd=None, **env):
    done = subprocess.run([BIN / "reduced", *map(str, args)], capture_output=True, text=True, timeout=60, cwd=cwd, stdin=subprocess.DEVNULL,
                          env={**os.environ, "XDG_CONFIG_HOME": "/nonexistent", **env})
    assert not SANITIZER.search(done.stderr), done.stderr
    return done


GOOD = {
    "empty": "", "comments": "# one\n; two\n\n", "trailing comments": "threads = 3 # three\ndrain = 5 ; five\n", "section": "[reduced]\nthreads = 3\n",
    "indented": "listen = ipc:///run/x.sock\n  allow-uid = 0\n\n\tthreads = 3\n",
    "all": "listen = ipc:///run/x.sock\nlisten = tcp://127.0.0.1:5\nallow-plain-tcp = yes\nbackend = cpu\ndevice = 0\nthreads = 2\nlog-level = debug\ndrain = 5\n"
           "idle-exit = 60\nmax-inflight = 8\nmax-streams = 4\nmax-sessions = 9\nsocket-mode = 0600\nslots = 4\ncontexts = 64\nprobe = 5\n",
}
BAD = {
    "unknown key": ("colour = red\n", "colour"), "typo": ("thread = 2\n", "thread"), "number": ("threads = many\n", "threads"),
    "negative": ("threads = -1\n", "threads"), "too large": ("threads = 999999\n", "1024"), "overflow": ("drain = 99999999999999999999\n", "drain"),
    "trailing": ("drain = 5s\n", "drain"), "choice": ("backend = gpu\n", "cuda"), "url": ("listen = http://x\n", "ipc://"),
    "no port": ("listen = tls+tcp://127.0.0.1\n", "a port"), "port": ("listen = tcp://[::1]:65536\n", "a port"),
    "port of letters": ("listen = tcp://127.0.0.1:abc\n", "a port"), "an address alone": ("listen = tcp://[::1]\n", "a port"),
    "relative": ("listen = ipc://x.sock\n", "absolute"), "long path": (f"listen = ipc:///{'x' * 120}\n", "107"),
    "metrics url": ("metrics-url = 127.0.0.1:9464\n", "http://"), "metrics port": ("metrics-url = http://127.0.0.1:65536\n", "PORT"),
    "metrics path": ("metrics-url = http://127.0.0.1:1/x\n", "PORT"),
    "no value": ("threads\n", ":1"), "section": ("[other]\nthreads = 1\n", "other"), "mode": ("socket-mode = 0999\n", "socket-mode"),
    "long line": ("threads = " + "1" * 5000 + "\n", ":1"), "line number": ("\n\n\ncolour = red\n", ":4"),
    "a zero byte": ("threads = 3\0\n", "zero byte"), "a zero byte at the end": ("threads = 3\0", "zero byte"), "zeros": ("\0" * 100, "zero byte"),
    "twice": ("listen = ipc:///run/x\nlisten = ipc:///run/x\n", "listed twice"),
    "indented": ("trace = /tmp/x\n  colour = red\n", "colour"), "continued": ("threads = 1\n  2\n", ":2"),
    "too many urls": ("".join(f"listen = ipc:///run/{i}\n" for i in range(9)), "8"),
}


def test_a_folder_that_cannot_be_made_is_named():
    """As root, on a file system that may only be read."""
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
              'mount -t tmpfs none /run && mkdir /run/reduced && mount -t tmpfs -o ro none /run/reduced && exec "$@"', "sh"]
    if subprocess.run([*inside, "true"], capture_output=True).returncode:
        pytest.skip("no user namespaces here")
    done = subprocess.run([*inside, BIN / "reduced", "--config", "/dev/null", "--backend", "cpu", "--listen", "ipc:///run/reduced/x.sock"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "error: cannot set the mode of /run/reduced: Read-only file system\n" in done.stderr, done.stderr


def test_priorities_are_for_the_journal_alone():
    """What a service starts has its JOURNAL_STREAM, whatever its stderr is."""
    def log(stream):
        read, write = os.pipe()
        with open(read) as text:
            own = os.fstat(write)
            env = {**os.environ, "JOURNAL_STREAM": stream or f"{own.st_dev}:{own.st_ino}"}
            done = subprocess.run([BIN / "reduced", "--config", "/dev/null", "--backend", "cpu", "--listen", "ipc:///nonexistent/s"], env=env,
                                  stderr=write, timeout=60)
            os.close(write)
            assert done.returncode == 1
            return text.read().splitlines()[-1]

    assert re.match("<3>[^<]*/nonexistent/s", log(None))
    for other in ("1:2", "x", ":", "99999999999999999999:1"):
        assert re.match("reduced: error: .*/nonexistent/s", log(other)), other


def test_the_manual_has_every_option():
    manual = (ROOT / "client" / "man" / "reduced.conf.5").read_text().replace("\\-", "-")
    options = re.findall(r"^#? ?([a-z-]+) =", reduced("--dump-config").stdout, re.M)
    assert len(options) > 25
    for option in options:
        assert len(re.findall(rf'^\.BR (?:.*[ ,"])?{option} "? ?=', manual, re.M)) == 1, option


@pytest.mark.parametrize("name", GOOD)
def test_good_files(scratch, name):
    path = scratch / "good.conf"
    path.write_text(GOOD[name])
    done = reduced("--check-config", "--config", path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", BAD)
def test_bad_files(scratch, name):
    text, told = BAD[name]
    path = scratch / "bad.conf"
    path.write_text(text)
    for args in (("--check-config", "--config", path), ("--config", path)):
        done = reduced(*args)
        assert done.returncode == 2
        assert told in done.stderr and "bad.conf" in done.stderr, done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


def test_a_removed_option_is_accepted_and_told(scratch):
    path = scratch / "old.conf"
    path.write_text("batch-bytes = 4096\n")
    for args in (("--config", path), ("--batch-bytes", 0), ("--batch-bytes=many",)):
        done = reduced("--check-config", *args)
        assert (done.returncode, done.stderr) == (0, "reduced: warning: the option batch-bytes has no effect any more\n")
    assert "batch-bytes" not in reduced("--dump-config", "--config", path).stdout + reduced("--help").stdout


@pytest.mark.parametrize("args, told", [
    (("--threads",), "threads"), (("--threads", "x"), "threads"), (("--colour", "red"), "colour"), (("--colour=red",), "colour"), (("file",), "file"),
    (("--listen", "udp://x"), "udp"), (("--backend", "tpu"), "tpu"), (("--config", "/nonexistent/x"), "/nonexistent/x"), (("-x",), "-x"), (("--",), "--"),
    (("--idle-exit=-5",), "idle-exit"), (("--config", "x" * 600), "config"), (("--" + "y" * 100,), "yyy"),
    (("--config", ""), "--config"), (("--config=",), "--config"), (("--check-config", "--user="), "--user"),
])
def test_bad_flags(args, told):
    done = reduced("--check-config", *args)
    assert done.returncode == 2 and told in done.stderr, done.stderr


def test_a_start_for_another_user_is_refused():
    """It would be a daemon of root."""
    done = reduced("--user", "nobody", "--dump-config")
    assert (done.returncode, done.stdout) == (2, "") and "--user is of --check-config" in done.stderr, done


def test_flags_win_over_the_file_and_the_dump_reads_back(scratch):
    path = scratch / "a.conf"
    kept = ["drain = 7", *(f"{name} = {number}" for name in ("allow-uid", "allow-gid", "high-uid", "background-uid") for number in (1001, 1002, 1003))]
    path.write_text("\n".join(["threads = 3", *kept, "listen = ipc:///run/file.sock", ""]))
    first = reduced("--dump-config", "--config", path, "--threads", 5, "--listen=ipc:///run/flag.sock")
    assert first.returncode == 0, first.stderr
    lines = first.stdout.splitlines()
    assert {"threads = 5", "listen = ipc:///run/flag.sock", *kept} <= set(lines)
    assert "file.sock" not in first.stdout
    path.write_text(first.stdout)
    assert reduced("--dump-config", "--config", path).stdout == first.stdout


def test_a_list_of_flags_replaces_that_of_the_file(scratch):
    """Else --allow-uid would let in more users than it names."""
    path = scratch / "a.conf"
    lists = ("allow-uid", "allow-gid", "allow-name", "high-uid", "background-uid")
    path.write_text("".join(f"{name} = 7\n" for name in lists) + "listen = ipc:///run/a.sock\nallow-uid = 8\n")
    for name in lists:
        lines = reduced("--config", path, f"--{name}", 5, f"--{name}=6", "--dump-config").stdout.splitlines()
        assert {f"{other} = 7" for other in lists if other != name} | {f"{name} = 5", f"{name} = 6", "allow-uid = 8"} <= set(lines), lines
        assert f"{name} = 7" not in lines, lines
    lines = reduced("--config", path, "--allow-uid", 5, "--listen", "ipc:///run/b.sock", "--allow-uid", 6, "--dump-config").stdout.splitlines()
    assert [x for x in lines if x.startswith(("allow-uid", "listen"))] == ["allow-uid = 5", "listen = ipc:///run/b.sock", "allow-uid = 6"]


def test_default_file_is_read_when_it_is_there(scratch):
    (scratch / "reduced").mkdir()
    names = [scratch / "reduced" / "reduced.conf", scratch / "reduced.conf"]
    help_text = reduced("--help", XDG_CONFIG_HOME=str(scratch)).stdout
    told = [p for p in names if str(p) in help_text]
    if not told:
        pytest.skip("this user's default file is the system's, which a test does not write")
    told[0].write_text("drain = 77\n")
    assert "drain = 77" in reduced("--dump-config", XDG_CONFIG_HOME=str(scratch)).stdout


def test_help_and_version():
    done = reduced("--help")
    assert done.returncode == 0 and not done.stderr
    for switch in ("--check-config", "--dump-config", "--autostarted"):
        wrong = reduced(f"{switch}=yes")
        assert (wrong.returncode, wrong.stderr) == (2, f"reduced: {switch} takes no value\n")
    for option in ("--listen", "--backend", "--device", "--threads", "--drain", "--idle-exit", "--check-config", "--config"):
        assert option in done.stdout
    done = reduced("--version")
    assert done.returncode == 0 and done.stdout.startswith("reduced ")


def test_unusable_addresses(scratch):
    (scratch / "file").write_text("a file that is not a socket")
    for url in (f"ipc://{scratch}/missing/s", "tcp://256.1.1.1:1", f"ipc://{scratch}/file"):
        done = reduced("--listen", url, "--backend", "cpu", "--allow-plain-tcp", "yes")
        assert done.returncode == 1, (url, done.stderr)
        assert done.stderr
    assert (scratch / "file").read_text() == "a file that is not a socket"


def test_what_cannot_be_read_or_written(scratch):
    done = reduced("--check-config", "--config", scratch)
    assert done.returncode == 2 and done.stderr == f"reduced: {scratch}: cannot be read: Is a directory\n"
    for args in (["--help"], ["--version"], ["--dump-config"], ["--check-config"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([BIN / "reduced", *args], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        assert done.returncode == 1 and done.stderr == "reduced: cannot write the output\n", args


@pytest.mark.parametrize("n", [4, 5, 6, 7, 8, 10, 16, 40, 63])
def test_few_descriptors(scratch, n):
    done = subprocess.run(["sh", "-c", f"ulimit -n {n}; exec {BIN / 'reduced'} --backend cpu --listen ipc://{scratch}/s"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    assert done.stderr == f"reduced: error: the limit of open files (ulimit -n) is {n}; at least 64 are needed\n"


def test_metrics_stay_on_this_machine_unless_told_otherwise():
    for url in ("http://0.0.0.0:9464", "http://[::]:9464", "http://localhost:9464", "http://192.0.2.1:9464"):
        done = reduced("--check-config", "--metrics-url", url)
        assert done.returncode == 2 and "allow-remote-metrics" in done.stderr, done.stderr
        assert reduced("--check-config", "--metrics-url", url, "--allow-remote-metrics", "yes").returncode == 0
    for url in ("http://127.0.0.1:9464", "http://127.1.2.3:0", "http://[::1]:9464"):
        assert reduced("--check-config", "--metrics-url", url).returncode == 0
    assert "metrics-url = http://127.0.0.1:9464" in reduced("--dump-config", "--metrics-url", "http://127.0.0.1:9464").stdout


def test_all_errors_of_a_file_at_once(scratch):
    path = scratch / "r.conf"
    path.write_text("threads = many\nnonsense\nbackend = cpu\nno-such = 1\n[other\n" + "x" * 400 + "\nslots = 0\n[elsewhere]\nslots = 2\n")
    done = reduced("--check-config", "--config", path)
    assert done.returncode == 2 and done.stdout == ""
    assert re.findall(r"^reduced: \S+:(\d+): ", done.stderr, re.M) == ["1", "2", "4", "5", "6", "7", "9"]
    path.write_text("listen = tcp://127.0.0.1:0\nlisten = tls+tcp://127.0.0.1:0\n")
    done = reduced("--check-config", "--config", path)
    assert done.returncode == 2 and done.stderr.count("reduced: listen = ") == 2
    path.write_text("metrics-url = http://0.0.0.0:9464\nlisten = tcp://127.0.0.1:0\n")
    done = reduced("--check-config", "--config", path)
    assert done.returncode == 2 and re.findall("^reduced: ([a-z-]+) = ", done.stderr, re.M) == ["metrics-url", "listen"], done.stderr
    path.write_text("wrong\n" * 1000)
    assert reduced("--check-config", "--config", path).stderr.count("\n") == 20


@needs_root
def test_root_checks_as_the_daemons_user(scratch):
    """What root alone can read, the service cannot."""
    os.chmod(scratch, 0o755)
    ca = Authority(scratch, "ca")
    cert, key = ca.issue("server", "localhost")
    flags = ["--listen", "tls+tcp://127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--tls-ca", ca.file("pem"), "--check-config"]
    for file in (cert, ca.file("pem")):
        file.chmod(0o644)
    key.chmod(0o600)
    assert reduced(*flags, "--user", "root").returncode == 0
    done = reduced(*flags, "--user", "nobody")
    assert done.returncode == 2 and f"{key}: Permission denied" in done.stderr
    os.chown(key, -1, grp.getgrnam("nogroup").gr_gid)
    key.chmod(0o640)
    assert reduced(*flags, "--user", "nobody").returncode == 0
    config = scratch / "r.conf"
    config.write_text("threads = 1\n")
    config.chmod(0o600)
    done = reduced("--config", config, "--check-config", "--user", "nobody")
    assert done.returncode == 0 and done.stderr == f"reduced: warning: {config}: the user nobody cannot read it\n"
    assert "there is no such user" in reduced("--check-config", "--user", "no-such-user").stderr
