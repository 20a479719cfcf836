"""Which tests reach a line: a build in which every program notes the blocks of code that it runs (reached.c), under each test.

A mutant needs only these tests, the quick ones first. Answers are kept in build/mutants/reached until a source or test changes."""
import collections
import functools
import hashlib
import json
import os
import pathlib
import pickle
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HOME = ROOT / "build/mutants/reached"
MAPS = HOME / "maps"
BUILD = ROOT / "build/reached"

# Integration tests that run what mutants change, and take seconds.
FILES = ("cli lib fake_daemon paths files protocol config tls resident access endings device shapes wire requests sched side outside "
         "waiting metrics trace charges top property completion long_segments states product order pairs by by_key accumulators selecting "
         "beside local reload turned_away").split()
MODULES = ("bin/reduced", "bin/reducectl", "lib/libreduce.so", "tests/reduced-device", "tests/req0")


def build():
    HOME.mkdir(parents=True, exist_ok=True)
    note = HOME / "reached.o"
    subprocess.run(["gcc", "-O2", "-fPIC", "-D_GNU_SOURCE", "-c", HERE / "reached.c", "-o", note], check=True)
    env = {**os.environ, "MAKEFLAGS": "", "LDFLAGS": str(note), "CFLAGS": "-fsanitize-coverage=trace-pc"}
    subprocess.run(["make", "-s", "-j2", "CUDA=no", "CC=ccache gcc", "OPT=-O1 -g", f"B={BUILD.relative_to(ROOT)}", "all", "unit-tests"],
                   cwd=ROOT, env=env, check=True, stdout=subprocess.DEVNULL)


def digest(paths):
    sums = hashlib.sha256()
    for p in sorted(paths):
        sums.update(p.read_bytes())
    return sums.hexdigest()


def tracked(*patterns):
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / n for n in names.stdout.split() if (ROOT / n).is_file()]


def environment():
    MAPS.mkdir(parents=True, exist_ok=True)
    MAPS.chmod(0o777)
    return {**os.environ, "REDUCED_REACHED": str(MAPS), "PYTHONPATH": str(HERE), "REDUCED_BIN_DIR": str(BUILD / "bin")}


def watch_unit(program, out):
    sys.path.insert(0, str(HERE))
    os.environ["REDUCED_REACHED"] = str(MAPS)
    import plugin
    env = environment()
    plugin.clear()
    begin = time.monotonic()
    subprocess.run([program], env=env, capture_output=True, timeout=900)
    out.write_text(json.dumps({program.name: {"seconds": time.monotonic() - begin, "reached": plugin.read()}}))


def watch_file(name, out):
    subprocess.run([sys.executable, "-m", "pytest", "-q", "--tb=no", "-m", "not slow", "-p", "no:cacheprovider", "-p", "plugin",
                    f"tests/test_{name}.py"], cwd=ROOT, env={**environment(), "REDUCED_REACHED_OUT": str(out)}, timeout=1800,
                   stdout=subprocess.DEVNULL)


def collect():
    """Every answer that is not there or not of these sources."""
    sources = digest(p for p in tracked("daemon", "client", "kernels", "proto") if p.suffix in (".c", ".h", ".def"))
    names = [p.stem for p in sorted((ROOT / "tests/unit").glob("test_*.c")) if p.stem != "test_ladder"] + FILES
    built = False
    for name in names:
        test = ROOT / (f"tests/test_{name}.py" if name in FILES else f"tests/unit/{name}.c")
        out, known, stamp = HOME / f"{name}.json", HOME / f"{name}.stamp", sources + digest([test])
        if known.exists() and known.read_text() == stamp and out.exists():
            continue
        if not built:
            build()
            built = True
        print(f"which code {name} reaches", flush=True)
        if name in FILES:
            watch_file(name, out)
        else:
            watch_unit(BUILD / "tests" / name, out)
        known.write_text(stamp)


def lines_of(module, offsets):
    """(file, line) of each return address of the hook, inlined ones too; offset by offset."""
    asked = "\n".join(hex(o - 1) for o in offsets)
    out = subprocess.run(["addr2line", "-a", "-i", "-e", module], input=asked, capture_output=True, text=True, check=True).stdout
    found, at = collections.defaultdict(set), -1
    for line in out.split("\n"):
        if line.startswith("0x"):
            at += 1
        elif m := re.match(rf"{re.escape(str(ROOT))}/(?:\./)?([^:]+):(\d+)", line):
            found[offsets[at]].add((m[1], int(m[2])))
    return found


def blocks(module):
    """Where each block of a program begins."""
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", module], capture_output=True, text=True, check=True).stdout
    return [int(m[1], 16) for m in re.finditer(r"call.*__sanitizer_cov_trace_pc>\n\s*([0-9a-f]+):", code)]


def known(any_age=False):
    """A Reach of what collect() found."""
    stamp = "".join(p.read_text() for p in sorted(HOME.glob("*.stamp")))
    kept = HOME / "reach.pickle"
    if kept.exists():
        r = pickle.loads(kept.read_bytes())
        if any_age or r.stamp == stamp:
            return r
    r = Reach(stamp)
    kept.write_bytes(pickle.dumps(r))
    return r


class Reach:
    def __init__(self, stamp):
        self.stamp = stamp
        self.seconds, self.tests, self.begins = {}, collections.defaultdict(set), collections.defaultdict(set)
        self.lines = collections.Counter()  # of a file that a test reaches
        for m in MODULES:
            for places in lines_of(BUILD / m, blocks(BUILD / m)).values():
                for f, line in places:
                    self.begins[f].add(line)
        for p in HOME.glob("*.json"):
            for test, found in json.loads(p.read_text()).items():
                self.seconds[test] = found["seconds"]
                for module, offsets in found["reached"].items():
                    for places in lines_of(self.path(module), offsets).values():
                        for f, line in places:
                            self.tests[f, line].add(test)
                            self.begins[f].add(line)

        for (f, _), tests in self.tests.items():
            for t in tests:
                self.lines[f, t] += 1

    def share(self, path, test):
        return self.lines[path, test]

    @staticmethod
    @functools.cache
    def path(module):
        return next(p for p in (BUILD / d / module for d in ("bin", "lib", "tests", "proto")) if p.exists())

    def of(self, path, line):
        """The tests that reach a line, or anything of the file if the line is in no function."""
        text = (ROOT / path).read_text().split("\n")
        first = line
        while first > 1 and not text[first - 1].startswith("}"):
            first -= 1
        before = [n for n in self.begins[path] if first < n <= line]
        if before:
            return self.tests[path, max(before)]
        return set().union(*(t for (f, _), t in self.tests.items() if f == path))
