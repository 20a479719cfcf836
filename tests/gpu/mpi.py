#!/usr/bin/env python3
"""Memory, files and device memory of all ranks as items of one reduce_collective, by mpi4py, with a daemon on the GPU: each value and
each state is that of the library alone, for any number of ranks.

    B=build/cuda-portable python3 tests/gpu/mpi.py [--ranks 1,2,5,8]     (exit 77: no mpirun or no mpi4py; the last line counts)
    B=build/cpu python3 tests/gpu/mpi.py --pretend                       the same with tests/device's daemon, to try this script"""
import argparse
import contextlib
import ctypes as C
import importlib.util
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "bench")]
os.environ["REDUCED_BIN_DIR"] = str(ROOT / os.environ.get("B", "build/cuda") / "bin")

import common  # noqa: E402
import gens  # noqa: E402
import numpy as np  # noqa: E402
import oracle  # noqa: E402
from libreduce import ERRORS, STATES_OUT, Client, Fault, State  # noqa: E402

ELEMENTS, HEAD = 300_000, 256  # of all ranks; bytes in front of them in the file and in device memory
CASES = [(op, dtype) for dtype in ("f64", "f32", "i32") for op in ("sum", "mean", "var", "norm2", "min", "argmax", "minmax", "count_nonzero", "prod", "stats")]


class Item(C.Structure):
    """reduce_item"""
    _fields_ = [("size", C.c_uint32), ("fd", C.c_int32), ("spec", C.c_void_p), ("data", C.c_void_p), ("device", C.c_void_p), ("offset", C.c_uint64),
                ("bytes", C.c_uint64), ("out", C.c_void_p), ("room", C.c_size_t)]


class Gpu:
    """Allocations of cuMemAlloc, which the daemon opens by their handles."""

    def __init__(self):
        self.driver, device, context = C.CDLL("libcuda.so.1"), C.c_int(), C.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", C.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", C.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *args):
        err = getattr(self.driver, name)(*args)
        if err:
            raise RuntimeError(f"{name}: CUDA driver error {err}")

    @contextlib.contextmanager
    def holds(self, data):
        at, handle = C.c_uint64(), C.create_string_buffer(64)
        self.call("cuMemAlloc_v2", C.byref(at), C.c_size_t(len(data)))
        self.call("cuMemcpyHtoD_v2", at, data, C.c_size_t(len(data)))
        self.call("cuIpcGetMemHandle", handle, at)
        yield handle
        self.call("cuMemFree_v2", at)


class Pretended:
    """Memory in the place of a GPU's, as tests/device has it."""

    @contextlib.contextmanager
    def holds(self, data):
        fd = os.memfd_create("allocation")
        os.write(fd, data)
        yield C.create_string_buffer(b"a device" + struct.pack("<II", os.getpid(), fd), 64)
        os.close(fd)


class Rank:
    """One process of the job."""

    def __init__(self, url, memory):
        from mpi4py import MPI
        self.mpi, self.comm, self.memory = MPI, MPI.COMM_WORLD, memory
        self.client = Client(url)
        self.lib = self.client.lib
        self.lib.reduce_states_merge.restype = None
        self.op = MPI.Op.Create(self.join, commute=True)
        self.exchange = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p, C.c_size_t)(self.all_reduce)

    def join(self, given, into, _):
        at = [C.addressof(C.c_char.from_buffer(memoryview(b))) for b in (into, given)]
        self.lib.reduce_states_merge(C.c_void_p(at[0]), C.c_void_p(at[1]), C.c_size_t(len(memoryview(into))))

    def all_reduce(self, _, buffer, n):
        element = self.mpi.BYTE.Create_contiguous(n).Commit()  # one element: MPI must not cut it
        self.comm.Allreduce(self.mpi.IN_PLACE, [(C.c_char * n).from_address(buffer), 1, element], self.op)
        element.Free()
        return 0

    def collective(self, spec, mine, file, handle):
        """(error, bytes of the three results)"""
        room = C.c_size_t()
        assert not self.lib.reduce_result_size(C.byref(spec), C.c_size_t(0), C.byref(room))
        outs = [C.create_string_buffer(room.value) for _ in range(3)]
        data = C.create_string_buffer(mine, len(mine) + 1)
        items = (Item * 3)(*(Item(size=C.sizeof(Item), fd=-1, spec=C.addressof(spec), bytes=len(mine), out=C.addressof(o), room=room.value) for o in outs))
        items[0].data = C.addressof(data)
        items[1].fd, items[1].offset = file.fileno(), HEAD
        items[2].device, items[2].offset = C.addressof(handle), HEAD
        code = self.lib.reduce_collective(self.client.handle, items, C.c_size_t(3), self.comm.rank, self.exchange, None)
        return ERRORS[code], [o.raw for o in outs]

    def check(self, op, dtype, nan, whole, first, mine):
        """How many results are right and wrong."""
        size, state = oracle.SIZE[dtype], State(op, dtype).add(whole, nan, 0)
        wanted = {0: value_of(state, nan), STATES_OUT: ("OK", bytes(state))}
        right = wrong = 0
        with tempfile.TemporaryFile() as file, self.memory.holds(b"#" * HEAD + mine.tobytes()) as handle:
            file.write(b"#" * HEAD + mine.tobytes())
            file.flush()
            for flags, (code, value) in wanted.items():
                spec = Client.spec(op, dtype, nan=nan, flags=flags, index_base=first)
                found, results = self.collective(spec, mine.tobytes(), file, handle)
                same = found == code and (code != "OK" or all(r == value for r in results))
                right, wrong = right + same, wrong + (not same)
                if not same:
                    print(f"DIFFERENT: rank {self.comm.rank} of {self.comm.size}: {op} of {dtype}, flags {flags}: {found}, not {code}; bytes {size * len(mine)}")
            self.lib.reduce_device_close(self.client.handle, handle)
        return right, wrong


def value_of(state, nan):
    """(error, bytes of the value) by the library alone."""
    try:
        value = state.finish(nan=nan)
    except Fault as f:
        return f.code, b""
    spec, room = Client.spec(state.op, state.dtype), C.c_size_t()
    state.lib.reduce_result_size(C.byref(spec), C.c_size_t(0), C.byref(room))
    return "OK", value.to_bytes(room.value, "little")


def numbers(rng, dtype, turn):
    """Elements that cancel, of all magnitudes, sometimes with NaNs; shuffled."""
    makers = list(gens.of(dtype))
    return rng.permutation(np.concatenate([makers[(turn + i) % len(makers)](rng, dtype, ELEMENTS // 3) for i in range(3)]))


def as_rank(url, memory):
    rank, rng = Rank(url, memory), np.random.default_rng(16)
    right = wrong = 0
    for turn, (op, dtype) in enumerate(CASES):
        whole = numbers(rng, dtype, turn)
        bounds = [0, *sorted(rng.integers(0, len(whole), rank.comm.size - 1).tolist()), len(whole)]
        first, end = bounds[rank.comm.rank], bounds[rank.comm.rank + 1]
        good, bad = rank.check(op, dtype, list(oracle.NANS)[turn % 3], whole, first, whole[first:end])
        right, wrong = right + good, wrong + bad
    right, wrong = rank.comm.allreduce(right), rank.comm.allreduce(wrong)
    if rank.comm.rank == 0:
        print(f"{rank.comm.size} ranks: {right} results equal, {wrong} different", flush=True)
    return wrong != 0


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--ranks", default="1,2,5,8")
    p.add_argument("--pretend", action="store_true")
    p.add_argument("--rank", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.rank:
        return as_rank(a.rank, Pretended() if a.pretend else Gpu())
    if not shutil.which("mpirun") or not importlib.util.find_spec("mpi4py"):
        print("no mpirun or no mpi4py")
        return 77
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
           "OMPI_MCA_mpi_yield_when_idle": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}  # of Open MPI 4 and 5
    flags = ["--sandbox", "no"] if a.pretend else ["--small-bytes", "0"]
    program = common.BUILD / "tests/reduced-device" if a.pretend else common.BUILD / "bin/reduced"
    failed = []
    with common.daemon("--backend", "cuda", *flags, program=program) as (url, *_):
        for ranks in a.ranks.split(","):
            command = ["mpirun", "-n", ranks, sys.executable, "-m", "mpi4py", __file__, "--rank", url, *(["--pretend"] if a.pretend else [])]
            if subprocess.run(command, env=env, timeout=250).returncode:
                failed.append(ranks)
    print(f"mpi.py: {', '.join(failed)} ranks failed" if failed else f"mpi.py: the same values and states for {a.ranks} ranks, of memory, files and device memory")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
