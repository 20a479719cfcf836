"""reduced --self-test: what an administrator runs once on a machine."""
import re
import shutil
import subprocess

from conftest import BACKEND, BIN, SANITIZER

LINES = ("descriptors", "device", "sandbox", "start", "sockets", "restart", "stop")


def self_test(program=BIN / "reduced", *flags):
    done = subprocess.run([program, "--self-test", "--config", "/dev/null", "--backend", BACKEND, *flags], capture_output=True, text=True, timeout=120)
    assert not SANITIZER.search(done.stderr), done.stderr
    return done


def test_it_tries_all():
    done = self_test()
    found = re.findall(r"^(ok|FAILED) +(\w+) +(.+)$", done.stdout, re.M)
    assert done.returncode == 0, done.stdout
    assert [f[:2] for f in found] == [("ok", line) for line in LINES] and done.stdout.endswith("all is right\n")
    told = {line: text for _, line, text in found}
    assert told["device"].startswith(BACKEND) and "4096" in told["sockets"] and re.match("1 kept descriptors, the sum is 4096 after ", told["restart"])


def test_what_fails_is_said(scratch):
    """A copy without reducectl beside it has no client."""
    shutil.copy(BIN / "reduced", scratch)
    done = self_test(scratch / "reduced")
    assert done.returncode == 1 and done.stdout.endswith("something failed\n"), done.stdout
    assert re.search(r"^FAILED +sockets +.*reducectl: No such file", done.stdout, re.M)
    assert re.search(r"^ok +stop ", done.stdout, re.M)


def test_a_start_that_fails_names_the_reason():
    done = self_test(BIN / "reduced", "--backend", "cuda", "--devices", "1000")
    assert done.returncode == 1 and re.search(r"^FAILED +device +.*no engine", done.stdout, re.M), done.stdout
