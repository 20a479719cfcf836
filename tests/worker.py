"""A client process of test_many.py and soak.py:  worker.py raw|lib|paths URL SEED COUNT

Reduces COUNT random arrays and compares each answer with the oracle: in messages and streams (raw, lib), or large ones as
files, in memory of the daemon's and in the client's own (paths). Prints a line "ready" after the first answer and, at the
end or after SIGTERM, "longest SECONDS done N": the longest time between two answers, and how many came. Any wrong answer or
unexpected error ends it with a traceback. Busy daemons are asked again."""
import ctypes
import os
import pathlib
import signal
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import gens  # noqa: E402
import oracle  # noqa: E402


def raw_reducer(url):
    from rawclient import Connection, Fault

    conn = Connection(url, timeout=120)
    conn.hello(name=b"worker")

    def run(op, dtype, bits):
        while True:
            try:
                if len(bits) % 3:
                    return conn.reduce(op, dtype, bits.tobytes()).cells[0]
                stream, half = conn.begin(op, dtype), len(bits) // 2
                for a, b in ((half, len(bits)), (0, half)):
                    if a < b:
                        conn.append(stream, a, bits[a:b].tobytes())
                return conn.finish(stream, len(bits)).cells[0]
            except Fault as f:
                if f.code != "BUSY":
                    raise

    return run


def lib_reducer(url):
    import libreduce

    client = libreduce.Client(url)
    return lambda op, dtype, bits: client.run(op, dtype, bits.tobytes())


def paths_reducer(url):
    import libreduce

    client, kept = libreduce.Client(url), {}

    def places(bits):
        """(descriptor, address in memory of the daemon's): made once for each array."""
        if id(bits) not in kept:
            file = tempfile.TemporaryFile()
            file.write(bits.tobytes())
            file.flush()
            memory = client.alloc(bits.nbytes)
            ctypes.memmove(memory, bits.ctypes.data, bits.nbytes)
            kept[id(bits)] = file, memory
        return kept[id(bits)]

    def run(op, dtype, bits):
        file, memory = places(bits)
        turn = run.turn = (run.turn + 1) % 3
        if turn == 0:
            return client.file(op, dtype, file.fileno(), 0, bits.nbytes)[0]
        return client.run_at(op, dtype, memory if turn == 1 else bits.ctypes.data, bits.nbytes)[0]

    run.turn = 0
    return run


def random_arrays(rng, count, sizes, odds):
    """(op, dtype, bits, what comes of it) each."""
    for _ in range(count):
        dtype = str(rng.choice(list(oracle.DTYPES)))
        family = gens.of(dtype)
        n = int(rng.choice(sizes, p=odds))
        bits = np.ascontiguousarray(family[int(rng.integers(0, len(family)))](rng, dtype, n))
        ops = [op for op in oracle.ops(dtype) if n <= 150_000 or op != "prod"]  # fractions of a million factors take long
        op = str(rng.choice(ops))
        yield op, dtype, bits, oracle.reduce_or_fault(op, dtype, bits)


def main():
    how, url, seed, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    rng = np.random.default_rng(seed)
    run = {"raw": raw_reducer, "lib": lib_reducer, "paths": paths_reducer}[how](url)
    if how == "paths":
        arrays = list(random_arrays(rng, 6, [150_000, 600_000, 2_000_000], [0.3, 0.4, 0.3]))
    else:
        arrays = list(random_arrays(rng, 40, [3, 100, 1000, 20_000, 150_000], [0.3, 0.3, 0.2, 0.15, 0.05]))
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    done, longest, last = 0, 0.0, time.monotonic()
    while not stop and done < count:
        op, dtype, bits, expected = arrays[int(rng.integers(0, len(arrays)))]
        try:
            got = "OK", int.from_bytes(run(op, dtype, bits), "little")
        except Exception as f:
            if getattr(f, "code", None) not in ("EMPTY", "OVERFLOW", "NAN"):
                raise
            got = f.code, f.value
        assert got == expected, f"{op} of {len(bits)} {dtype}: {got} instead of {expected}"
        now = time.monotonic()
        longest, last = max(longest, now - last if done else 0), now
        if done == 0:
            print("ready", flush=True)
        done += 1
    print(f"longest {longest:.3f} done {done}", flush=True)
    os._exit(0)  # without closing: the daemon has to cope


if __name__ == "__main__":
    main()
