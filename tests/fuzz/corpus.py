#!/usr/bin/env python3
"""Write the seed inputs of the fuzzers that come from the golden vectors: corpus/codec and corpus/state."""
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "golden"))
import generate  # noqa: E402


def main():
    for name in ("codec", "state"):
        (HERE / "corpus" / name).mkdir(parents=True, exist_ok=True)
    for name, _, data in generate.messages():
        (HERE / "corpus" / "codec" / name).write_bytes(data)
    seeds = {}
    for head, _, _, state in generate.states():
        op, dtype, *_ = map(int, head.split())
        seeds[op, dtype] = seeds.get((op, dtype), bytes([op, dtype])) + state
    for (op, dtype), data in seeds.items():
        (HERE / "corpus" / "state" / f"op{op}_dtype{dtype}").write_bytes(data)


if __name__ == "__main__":
    main()
