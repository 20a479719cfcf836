"""A client process of test_many.py:  worker.py raw|lib URL SEED COUNT [keep]

Reduces COUNT random arrays and compares each answer with the oracle. Prints a line "ready" after the first answer and
"done N" at the end; any wrong answer or unexpected error ends it with a traceback. Busy daemons are asked again."""
import os
import pathlib
import signal
import sys

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


def main():
    how, url, seed, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    rng = np.random.default_rng(seed)
    run = (raw_reducer if how == "raw" else lib_reducer)(url)
    arrays = []
    for _ in range(40):
        dtype = str(rng.choice(list(oracle.DTYPES)))
        family = gens.of(dtype)
        n = int(rng.choice([3, 100, 1000, 20_000, 150_000], p=[0.3, 0.3, 0.2, 0.15, 0.05]))
        bits = family[int(rng.integers(0, len(family)))](rng, dtype, n)
        op = str(rng.choice(oracle.ops(dtype)))
        arrays.append((op, dtype, bits, oracle.reduce_or_fault(op, dtype, bits)))
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    done = 0
    while not stop and done < count:
        op, dtype, bits, expected = arrays[int(rng.integers(0, len(arrays)))]
        try:
            got = "OK", int.from_bytes(run(op, dtype, bits), "little")
        except Exception as f:
            if getattr(f, "code", None) not in ("EMPTY", "OVERFLOW", "NAN"):
                raise
            got = f.code, f.value
        assert got == expected, f"{op} of {len(bits)} {dtype}: {got} instead of {expected}"
        if done == 0:
            print("ready", flush=True)
        done += 1
    print("done", done, flush=True)
    os._exit(0)  # without closing: the daemon has to cope


if __name__ == "__main__":
    main()
