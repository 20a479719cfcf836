"""Segments that are longer than a message, of memory that the daemon has and of memory that it has not: each goes by itself, in
pieces, from where it lies."""
import ctypes

import numpy as np
import pytest

import libreduce

MIB = 1 << 20
AUTO, INLINE, SHM = 0, 1, 3


@pytest.fixture
def lib(shared):
    with libreduce.Client(shared.url) as client:
        yield client


@pytest.mark.parametrize("path", [AUTO, INLINE, SHM])
def test_long_segments(lib, path):
    a = np.random.default_rng(77).integers(0, 2**32, 5 * MIB, "u4")  # 20 MiB
    memory = lib.alloc(a.nbytes)
    ctypes.memmove(memory, a.ctypes.data, a.nbytes)
    long = 2 * MIB + 3  # elements: 8 MiB, two messages
    for cuts in ([0, long, 2 * long, 5 * MIB], [7, 1000, 1000 + long, 1001 + long, 1001 + 2 * long], [100, 100, 5 * MIB - 1, 5 * MIB - 1, 5 * MIB]):
        offsets = np.array(cuts, "u8").tobytes()
        want = [int(a[i:j].sum(dtype="u8")) for i, j in zip(cuts, cuts[1:])]
        for where in (a.ctypes.data, memory):
            got, _ = lib.run_at("sum", "u32", where, a.nbytes, rows=len(want), offsets=offsets, path=path)
            assert np.frombuffer(got, "u8").tolist() == want, (cuts, where == memory)
    lib.free(memory)
