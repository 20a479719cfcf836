#!/usr/bin/env python3
"""Write the seed inputs of the fuzzers that come from the golden vectors: corpus/codec, corpus/state and corpus/words."""
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "golden"))
import generate  # noqa: E402
import oracle  # noqa: E402

ENOUGH = 600  # bytes: replay runs every prefix of a seed


def main():
    for name in ("codec", "state", "words"):
        (HERE / "corpus" / name).mkdir(parents=True, exist_ok=True)
    for name, _, data in generate.messages():
        (HERE / "corpus" / "codec" / name).write_bytes(data)
    seeds, words = {}, {}
    for op, dtype, _, _, _, state in generate.states():
        key = oracle.OPS[op], oracle.DTYPES[dtype]
        seed = seeds.setdefault(key, bytes(key))
        if len(seed) < ENOUGH:
            seeds[key] = seed + state
        vector, _ = oracle.words(op, dtype, state)
        if vector and len(words.setdefault(key, bytes(key))) < ENOUGH:
            words[key] += struct.pack(f"<{len(vector)}q", *vector)
    for folder, inputs in (("state", seeds), ("words", words)):
        for (op, dtype), data in inputs.items():
            (HERE / "corpus" / folder / f"op{op}_dtype{dtype}").write_bytes(data)


if __name__ == "__main__":
    main()
