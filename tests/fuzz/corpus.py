#!/usr/bin/env python3
"""Write the seed inputs of the fuzzers that come from the golden vectors (corpus/codec, corpus/state) or from PROTOCOL.md
(corpus/side)."""
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "golden"))
import generate  # noqa: E402
import oracle  # noqa: E402

ENOUGH = 600  # bytes: replay runs every prefix of a seed


def side_packets():
    """Each kind, to the daemon (0) and back (1); kinds and layouts are PROTOCOL.md's."""
    attach, file, arena, drop = range(1, 5)
    for name, kind, value, token in (("attach", attach, 77, bytes(range(16))), ("file", file, 0, bytes(16)),
                                     ("arena", arena, 1 << 20, bytes(16)), ("drop", drop, 5, bytes(16))):
        yield name, b"\0" + struct.pack("<IIQ", kind, 0, value) + token
    for name, kind, value, size in (("attached", attach, 0, 0), ("given", file, 5, 1000), ("made", arena, 6, 1 << 20)):
        yield name, b"\1" + struct.pack("<IIQQQ", kind, 0, value, size, 0)
    fault = struct.pack("<QQQQHHI", 32, 2**64 - 1, 0, 0, 7, 9, 0) + b"handles" + b"too many!"
    yield "refused", b"\1" + struct.pack("<IIQQQ", arena, 10, 0, 0, 0) + fault


def main():
    for name in ("codec", "side", "state"):
        (HERE / "corpus" / name).mkdir(parents=True, exist_ok=True)
    for name, _, data in generate.messages():
        (HERE / "corpus" / "codec" / name).write_bytes(data)
    seeds = {}
    for op, dtype, _, _, _, state in generate.states():
        key = oracle.OPS[op], oracle.DTYPES[dtype]
        seed = seeds.setdefault(key, bytes(key))
        if len(seed) < ENOUGH:
            seeds[key] = seed + state
    for name, data in side_packets():
        (HERE / "corpus" / "side" / name).write_bytes(data)
    for (op, dtype), data in seeds.items():
        (HERE / "corpus" / "state" / f"op{op}_dtype{dtype}").write_bytes(data)


if __name__ == "__main__":
    main()
