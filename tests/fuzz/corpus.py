#!/usr/bin/env python3
"""Write the seed inputs of the fuzzers that come from the golden vectors: corpus/codec and corpus/state."""
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "golden"))
import generate  # noqa: E402
import oracle  # noqa: E402

ENOUGH = 600  # bytes: replay runs every prefix of a seed


def main():
    for name in ("codec", "state"):
        (HERE / "corpus" / name).mkdir(parents=True, exist_ok=True)
    for name, _, data in generate.messages():
        (HERE / "corpus" / "codec" / name).write_bytes(data)
    seeds = {}
    for op, dtype, _, _, _, state in generate.states():
        key = oracle.OPS[op], oracle.DTYPES[dtype]
        seed = seeds.setdefault(key, bytes(key))
        if len(seed) < ENOUGH:
            seeds[key] = seed + state
    for (op, dtype), data in seeds.items():
        (HERE / "corpus" / "state" / f"op{op}_dtype{dtype}").write_bytes(data)


if __name__ == "__main__":
    main()
