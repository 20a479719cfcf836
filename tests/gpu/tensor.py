#!/usr/bin/env python3
"""Reduce a tensor of this process on the GPU, exactly, where it lies: PyTorch or CuPy, ctypes and libreduce.so.

    B=build/cuda tests/gpu/tensor.py URL        (checks what it prints; exit 77: neither torch nor cupy)
"""

import ctypes as C
import importlib
import math
import os
import sys
from pathlib import Path

SUM, MAX, F32, F64, COLUMNS = 1, 3, 11, 12, 64  # client/reduce.h


class Spec(C.Structure):  # reduce_spec
    _fields_ = [("size", C.c_uint32), ("op", C.c_int32), ("dtype", C.c_int32), ("out", C.c_int32), ("nan", C.c_int32),
                ("flags", C.c_uint32), ("ddof", C.c_uint32), ("deadline_ms", C.c_uint32), ("path", C.c_int32),
                ("reserved", C.c_uint32), ("rows", C.c_uint64), ("index_base", C.c_uint64), ("initial", C.c_void_p),
                ("mask", C.c_void_p), ("offsets", C.c_void_p)]


class Reducer:
    """A connection to the daemon of `url`."""

    def __init__(self, url):
        root = Path(__file__).resolve().parents[2] / os.environ.get("B", "build/cuda")
        self.lib = C.CDLL(str(root / "lib/libreduce.so"))
        self.lib.reduce_errmsg.restype = C.c_char_p
        self.lib.reduce_close.restype = None
        self.driver = C.CDLL("libcuda.so.1")
        self.client = C.c_void_p()
        self.check(self.lib.reduce_open(C.byref(self.client), url.encode(), None))

    def check(self, err):
        if err:
            raise RuntimeError(self.lib.reduce_errmsg().decode())

    def handle(self, pointer):
        """The handle of the allocation that holds `pointer`, and how far into it that is: pools give parts of one."""
        base, size, handle = C.c_uint64(), C.c_size_t(), C.create_string_buffer(64)
        for err in (self.driver.cuMemGetAddressRange_v2(C.byref(base), C.byref(size), C.c_uint64(pointer)),
                    self.driver.cuIpcGetMemHandle(handle, base)):
            if err:
                raise RuntimeError(f"CUDA driver error {err}: memory that cannot be shared")
        return handle, pointer - base.value

    def reduce(self, op, pointer, count, results=1, rows=1, flags=0):
        """Of `count` f32 at `pointer`; the program has waited for what writes them."""
        handle, offset = self.handle(pointer)
        out = (C.c_double * results)()
        spec = Spec(size=C.sizeof(Spec), op=op, dtype=F32, out=F64, rows=rows, flags=flags)
        self.check(self.lib.reduce_device(self.client, C.byref(spec), handle, C.c_uint64(offset), C.c_uint64(4 * count), out,
                                          C.c_size_t(C.sizeof(out)), None))
        return list(out)

    def close(self):
        self.lib.reduce_close(self.client)


def with_torch():
    torch = importlib.import_module("torch")
    x = torch.randn(3000, 1000, device="cuda", dtype=torch.float32)
    torch.cuda.synchronize()
    return x[1:], x[1:].data_ptr(), x[1:].cpu().numpy()


def with_cupy():
    cupy = importlib.import_module("cupy")
    x = cupy.random.standard_normal((3000, 1000), dtype=cupy.float32)
    cupy.cuda.get_current_stream().synchronize()
    return x[1:], x[1:].data.ptr, cupy.asnumpy(x[1:])


def try_one(name, make, url):
    try:
        tensor, pointer, copy = make()
    except ImportError:
        print(f"{name}: not installed")
        return False
    r = Reducer(url)
    rows, columns = copy.shape
    total = r.reduce(SUM, pointer, copy.size)[0]
    assert total == math.fsum(copy.ravel().tolist()), total
    assert r.reduce(MAX, pointer, copy.size)[0] == copy.max()
    sums = r.reduce(SUM, pointer, copy.size, results=columns, rows=rows, flags=COLUMNS)
    assert sums == [math.fsum(column) for column in copy.T.tolist()]
    r.close()
    del tensor
    print(f"{name}: a {rows} x {columns} tensor sums to {total!r}, exactly; so do its columns")
    return True


def main():
    tried = [try_one(name, make, sys.argv[1]) for name, make in (("torch", with_torch), ("cupy", with_cupy))]
    return 0 if any(tried) else 77


if __name__ == "__main__":
    sys.exit(main())
