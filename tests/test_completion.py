"""What the shells offer after a Tab."""
import os
import re
import shutil
import subprocess

import pytest

from conftest import BIN, ROOT, reducectl_options

BASH = ROOT / "client" / "ctl" / "reducectl.bash"
TOPICS = re.findall(r'^    {"([a-z]+)", "[^"]*"},$', (ROOT / "client/ctl/help_rows.c").read_text(), re.M)
FLOATS = {"f16", "bf16", "f32", "f64"}


def offers(*words):
    """The replies to the last word, as readline cuts words: at blanks and =."""
    cut = []
    for word in words:
        name, equals, value = word.partition("=")
        cut += [name, *([equals] + ([value] if value else []) if equals else [])]
    script = 'compopt() { :; }; . "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _reducectl; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", script, BASH, "reducectl", *cut], capture_output=True, text=True, timeout=60, cwd=ROOT / "client",
                          env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"})
    assert done.returncode == 0 and not done.stderr, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize("words, expected", [
    (("su",), {"sum", "sumsq"}),
    (("sum,me",), {"sum,mean", "sum,median"}),
    (("sum,st",), {"sum,std"}),
    (("mean", "--out", ""), FLOATS),
    (("xor", "-o", ""), {"i64", "u64"}),
    (("argmax", "--out", ""), {"u64"}),
    (("sum", "--dtype=f",), {"f16", "f32", "f64"}),
    (("sum", "--dtype=",), {"i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "bool"} | FLOATS),
    (("sum", "--nan=o",), {"omit"}),
    (("sum", "--dtype", "f"), {"f16", "f32", "f64"}),
    (("sum", "--json"), {"--json", "--json-strings"}),
    (("--dtype", "f32", "ma"), {"max"}),
    (("help", "std"), {"std"}),
    (("help", "sh"), {"shards"}),
    (("status", "x"), set()),
    (("sum", "ma"), {"man"}),  # files
])
def test_bash(words, expected):
    assert offers(*words) == expected


def test_bash_offers_the_options_of_the_command():
    status = offers("status", "--")
    assert {"--json", "--watch", "--connect"} <= status and not {"--dtype", "--rows", "--once", "--replace"} & status
    assert "--once" in offers("top", "--") and "--replace" in offers("put", "--") and "--mask" in offers("sum", "--")
    assert not {"--mask", "--watch"} & offers("put", "--") and "--plot" in offers("ladder", "--")


@pytest.mark.parametrize("shell, check", [("zsh", ["-n"]), ("fish", ["--no-execute"])])
def test_other_shells_parse(shell, check):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([shell, *check, BASH.with_suffix("." + shell)], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_fish_completes():
    if not shutil.which("fish"):
        pytest.skip("fish is not installed")
    ask = lambda line: subprocess.run(["fish", "--no-config", "-c", f"source {BASH.with_suffix('.fish')}; complete -C '{line}'"], capture_output=True, text=True).stdout
    assert {line.split("\t")[0] for line in ask("reducectl mean --out ").splitlines()} == FLOATS
    assert "--watch" in ask("reducectl status --") and "--mask" not in ask("reducectl status --")


def test_all_shells_know_the_same():
    """Options, operations and topics of help are those of the program."""
    assert len(TOPICS) >= 9
    for shell in ("bash", "zsh", "fish"):
        text = BASH.with_suffix("." + shell).read_text()
        for topic in TOPICS:
            assert re.search(rf"topics.*\b{topic}\b", text), (shell, topic)
        for option in reducectl_options():
            assert f"--{option}" in text or f"-l {option}" in text, (shell, option)
