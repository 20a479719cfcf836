#!/usr/bin/python3
"""Differential fuzzers of what reducectl reads.

    differential.py [--minutes 10] [--seed N] [tables] [containers]

tables: texts and tables of random dialects, against tables.py, which has the manual in exact fractions. containers: one array through every
kind of file and every path: the same bits, or a typed error. A case prints itself if it fails; the exit code is 1 then. REDUCED_BIN_DIR names the
programs. The gate runs some cases of each (test_differential.py)."""
import argparse
import gzip
import io
import math
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np

import tables
from files import tensors

TYPED = re.compile(rb"reducectl: .*: (IO|TYPE|BAD_MESSAGE|SHAPE|EMPTY|NAN|OVERFLOW|ARGUMENT|TOO_LARGE): .", re.S)


class Wrong(AssertionError):
    pass


# ---- tables ----
def equal(text, want):
    """The value that is printed; integers in full."""
    if isinstance(want, int):
        return text == str(want)
    return math.isnan(float(text)) if math.isnan(want) else float(text) == float(want)


def compare(done, expected, what):
    try:
        want, kind = expected()
    except tables.Refused as reason:
        if done.returncode != 1 or not TYPED.match(done.stderr):
            raise Wrong(f"{what}: to be refused ({reason}): {done.returncode} {done.stdout} {done.stderr}") from None
        return "refused"
    overflow = isinstance(want, int) and kind in tables.RANGES and b": OVERFLOW: " in done.stderr and str(want).encode() in done.stderr
    if not overflow and (done.returncode or not equal(done.stdout.decode().strip(), want)):
        raise Wrong(f"{what}: {want}, not {done.returncode} {done.stdout} {done.stderr}")
    return "overflow" if overflow else "equal"


def one_table(ctl, r, folder):
    if r.random() < 0.3:
        data, args, expected = tables.random_text(r)
        what = f"{args} {data[:3000]!r}"
        if r.random() < 0.5:
            return compare(ctl(*args, stdin=data), expected, what)
        (folder / "t.txt").write_bytes(data)
        return compare(ctl(*args, folder / "t.txt"), expected, what)
    data, args, name, expected = tables.random_table(r)
    what = f"{args} {name!r} {data[:3000]!r}"
    how = r.randrange(4)
    path = folder / ("t.csv.gz" if how == 1 else "t.csv")
    path.write_bytes(gzip.compress(data, 1) if how == 1 else data)
    if not data or not data.removeprefix(b"\xef\xbb\xbf").strip():
        return "skipped"  # an empty file is not text
    return compare(ctl(*args, f"-:{name}", stdin=data) if how == 2 else ctl(*args, f"{path}:{name}"), expected, what)


# ---- containers ----
def npy(a, version=(1, 0)):
    out = io.BytesIO()
    np.lib.format.write_array(out, a, version=version)
    return out.getvalue()


def zstd(data):
    """Frames of raw blocks, after one that decoders skip."""
    block = lambda b, last: struct.pack("<L", len(b) << 3 | last)[:3] + b
    pieces = [data[i : i + 65536] for i in range(0, len(data), 65536)] or [b""]
    return struct.pack("<2L", 0x184D2A53, 3) + b"abc" + b"\x28\xb5\x2f\xfd\x00\x58" + b"".join(block(p, i + 1 == len(pieces)) for i, p in enumerate(pieces))


PATHS = ("inline", "shm", "stream", "file")
SAFE = {"i1": "I8", "u1": "U8", "i2": "I16", "u2": "U16", "i4": "I32", "u4": "U32", "i8": "I64", "u8": "U64", "f2": "F16", "f4": "F32", "f8": "F64"}
NAMES = {"i1": "i8", "u1": "u8", "i2": "i16", "u2": "u16", "i4": "i32", "u4": "u32", "i8": "i64", "u8": "u64", "f2": "f16", "f4": "f32", "f8": "f64"}


def hdf5(path, a, **kind):
    import h5py
    with h5py.File(path, "w", userblock_size=kind.pop("block", 0)) as f:
        if kind.pop("netcdf", False):
            f.attrs["_NCProperties"] = "version=2"
        f.create_dataset("g/x", data=a, **kind)
        f["soft"] = h5py.SoftLink("/g/x")
    return path


def ways(ctl, folder, a, r):
    """(name, has a shape, arguments, standard input)"""
    kind, big = a.dtype.str[1:], a.astype(a.dtype.newbyteorder(">"))
    raw, name = a.tobytes(), NAMES[kind]

    def file(called, data):
        (folder / called).write_bytes(data)
        return folder / called
    yield "npy", True, [file("v1.npy", npy(a))], b""
    for path in PATHS:
        yield path, True, ["--path", path, file("v1.npy", npy(a))], b""
    yield "npy 2", True, [file("v2.npy", npy(a, (2, 0)))], b""
    yield "npy 3, F", True, [file("f.npy", npy(np.asfortranarray(a), (3, 0)))], b""
    yield "npy, >", True, [file("b.npy", npy(big))], b""
    yield "pipe", True, ["-"], npy(a)
    yield "gzip", True, [file("x.npy.gz", gzip.compress(npy(a), 1))], b""
    yield "gzip pipe", True, ["-"], gzip.compress(npy(a), 1)
    yield "zstd", True, [file("x.npy.zst", zstd(npy(a)))], b""
    yield "raw", False, ["--dtype", name, file("x.raw", raw)], b""
    yield "raw, >", False, ["--dtype", f">{kind}", "-"], big.tobytes()
    yield "raw gzip", False, ["--dtype", name, file("x.raw.gz", gzip.compress(raw, 1))], b""
    yield "raw zstd pipe", False, ["--dtype", name, "-"], zstd(raw)
    np.savez(folder / "s.npz", z=a[:0], x=a)
    np.savez_compressed(folder / "d.npz", x=a)
    yield "npz", True, ["--verify", f"{folder / 's.npz'}:x"], b""
    yield "npz, deflated", True, [folder / "d.npz"], b""
    yield "safetensors", True, [f"{tensors(folder / 'm.safetensors', {'o': ('U8', [3], b'abc'), 'x': (SAFE[kind], list(a.shape), raw)})}:x"], b""
    try:
        import h5py  # noqa: F401
        fill = 9.969209968386869e36 if a.dtype.kind == "f" else {"i": 2 - 2**63, "u": 2**64 - 2}[a.dtype.kind] if a.dtype.itemsize == 8 else \
            2**(8 * a.dtype.itemsize) - 1 if a.dtype.kind == "u" else 1 - 2**(8 * a.dtype.itemsize - 1)
        kinds = [{}, {"netcdf": kind == "f2" or not (a == a.dtype.type(fill)).any()}, {"block": 2048}]  # which says of this element that it is missing
        if a.size:
            kinds += [{"chunks": True, "compression": "gzip", "shuffle": True}, {"chunks": tuple(max(1, n // 3) for n in a.shape), **kinds[1], "fletcher32": True}]
        for i, k in enumerate(kinds):
            yield f"hdf5 {k}", True, [f"{hdf5(folder / f'h{i}.h5', big if i == 2 else a, **k)}:{r.choice(('g/x', '/g/x', 'soft', 'g//x'))}"], b""
    except ImportError:
        pass
    done = ctl("put", "--replace", "differential", folder / r.choice(("v1.npy", "f.npy", "b.npy")))
    if done.returncode == 0:
        yield "resident", True, ["@differential"], b""
    if a.dtype.kind in "iu" or a.dtype.str[1:] == "f8":
        words = "\n".join(map(repr, a.reshape(-1).tolist())).encode()
        yield "text", False, ["--text", "--dtype", name, "-"], words
        yield "column", False, ["--dtype", name, "--header", f"{file('x.csv', b'x,y' + b''.join(b'%c%b,1' % (10, w) for w in words.split()))}:x"], b""


def one_array(ctl, r, folder):
    """All ways agree in every bit, or end in a typed error."""
    kind = r.choice(list(NAMES))
    shape = tuple(r.randrange(1, 12) for _ in range(r.choice((1, 1, 2, 3)))) if r.random() < 0.95 else (0, 3)
    rng = np.random.default_rng(r.randrange(2**32))
    a = np.frombuffer(rng.bytes(int(np.prod(shape)) * int(kind[1])), f"<{kind}").reshape(shape)
    if a.dtype.kind == "f" and r.random() < 0.7:
        a = np.where(np.isfinite(a), a, a.dtype.type(1.5)).astype(a.dtype)
    op = r.choice(("sum", "mean", "var", "std", "min", "max", "argmin", "argmax", "norm2", "count_nonzero", "any", "stats", "sumsq", "range", "minmax"))
    options = [op, *(["--nan", r.choice(("omit", "error"))] if r.random() < 0.4 else []), *(["--ddof", "1"] if op in ("var", "std", "stats") else [])]
    axis = ["--axis", str(r.randrange(len(shape)))] if r.random() < 0.4 else []
    partial = r.random() < 0.2 and "--ddof" not in options
    first = None
    for name, shaped, args, stdin in ways(ctl, folder, a, r):
        if axis and not shaped:
            continue
        done = ctl(*options, *axis, *(["--partial", "--index-base", 0] if partial else ["--raw"]), *args, stdin=stdin)
        if done.returncode == 2 and name in PATHS and b"is not available here" in done.stderr:
            continue
        if done.returncode not in (0, 1) or (done.returncode and not TYPED.match(done.stderr)):
            raise Wrong(f"{name} {options} {axis} {kind} {shape}: {done.returncode} {done.stderr}")
        got = done.stdout if done.returncode == 0 else re.search(rb": ([A-Z_]+): ", done.stderr)[1]
        if "text" in name or "column" in name:
            if a.dtype.kind == "f" and not np.isfinite(a).all():
                continue  # missing values of a column, and payloads of NaNs
        if first is None:
            first = got
        if got != first:
            raise Wrong(f"{name} {options} {axis} {kind} {shape} {a.tobytes().hex()}: {got!r}, npy gives {first!r} {done.stderr}")
    return "equal" if isinstance(first, bytes) else "error"


KINDS = {"tables": one_table, "containers": one_array}


def run(ctl, kind, seed, enough):
    """Cases from `seed` on until enough(their number); returns their counts by outcome."""
    folder, counts = pathlib.Path(tempfile.mkdtemp(prefix="rd")), {}
    try:
        n = 0
        while not enough(n):
            r = random.Random(f"{kind} {seed + n}")
            try:
                outcome = KINDS[kind](ctl, r, folder)
            except Wrong as e:
                raise Wrong(f"{kind}, seed {seed + n}: {e}") from None
            counts[outcome] = counts.get(outcome, 0) + 1
            n += 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return counts


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--minutes", type=float, default=10)
    p.add_argument("--seed", type=int, default=int(time.time()))
    p.add_argument("kind", nargs="*", default=list(KINDS))
    a = p.parse_args()
    bins = pathlib.Path(os.environ["REDUCED_BIN_DIR"])
    home = pathlib.Path(tempfile.mkdtemp(prefix="rd"))
    url = f"ipc://{home}/s"
    daemon = subprocess.Popen([bins / "reduced", "--listen", url, "--backend", "cpu"], stderr=subprocess.DEVNULL, env={**os.environ, "XDG_CONFIG_HOME": str(home)})

    def ctl(*args, stdin=b""):
        return subprocess.run([bins / "reducectl", *map(str, args), "--wait", "60"], input=stdin, capture_output=True, env={**os.environ, "REDUCED_URL": url}, timeout=120)
    code = 0
    try:
        for kind in a.kind:
            end = time.monotonic() + a.minutes * 60
            try:
                print(kind, "from seed", a.seed, run(ctl, kind, a.seed, lambda n: time.monotonic() > end), flush=True)
            except Wrong as e:
                print(e, flush=True)
                code = 1
    finally:
        daemon.terminate()
        daemon.wait()
        shutil.rmtree(home, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
