#!/usr/bin/env python3
"""Write the seed inputs of the fuzzers that come from the golden vectors: corpus/codec, corpus/state and corpus/words. And those
of corpus/collective, which damage each field of a message."""
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "golden"))
import generate  # noqa: E402
import oracle  # noqa: E402
import order  # noqa: E402
import pairs  # noqa: E402
import rawclient  # noqa: E402

ENOUGH = 600  # bytes: replay runs every prefix of a seed


# name: (offset, bytes that are combined with those there); the states begin at 48, a second message at 2048
PATCHES = {"none": (0, b""), "magic": (0, b"\1"), "form": (4, b"\3"), "err": (8, b"\xf8\xff\xff\xff\xfc\xff\xff\xff"), "key": (16, b"\1"), "total": (24, b"\1"),
           "held_more": (32, b"\xf0\7"), "held_less": (32, b"\x20"), "first": (36, b"\7"), "other": (40, b"\xff\xff\xff\xff"), "reserved": (44, b"\1"),
           "layout": (48, b"\7"), "count": (56, b"\1"), "limb": (64, b"\1"), "second": (2048, b"\7"), "second_count": (2056, b"\1")}


def collective():
    """(name, input): of sums of f64, of which eight need a second message, and of argmax of i32."""
    for name, (at, data) in PATCHES.items():
        for kind, head in (("sum", (1, 12, 1)), ("states", (1, 12, 7 | 8)), ("joined", (5, 5, 2 | 8 | 16))):
            yield f"{kind}_{name}", bytes(head) + struct.pack("<HB", at, len(data)) + data


def parameters():
    """(name, input): streams with parameters, which no operation takes so far."""
    values = {"q": ((5, -1), (1, -3)), "k": (-1,), "edges": (0.0, 0.5, 1.0), "bins": (3,), "lo": (0.0,), "hi": (1.0,), "zero_weights_drop": (1,)}
    for name, given in values.items():
        tagged = rawclient.parameter(name, *given)
        yield f"begin_{name}", generate.message(rawclient.BEGIN, rawclient.spec("sum", "f64", tagged_len=len(tagged)) + tagged, version=2)


def keyed():
    """(name, input): streams by key, whose keys come with the pieces: of 3 groups, of groups whose states are too large, without a type."""
    for name, op, rows, dtype in (("few", "sum", 3, "i16"), ("many", "var", 1 << 20, "u64"), ("of_floats", "max", 2, "f32")):
        tagged = rawclient.companion("keys", dtype=dtype, data=True)
        head = rawclient.spec(op, "f64", flags=rawclient.KEYS | rawclient.MASK | rawclient.DROP_OUTSIDE, rows=rows, tagged_len=len(tagged))
        yield f"begin_keys_{name}", generate.message(rawclient.BEGIN, head + tagged, version=2)


def statistics():
    """(name, input): order statistics of eight elements, with all that they take."""
    given = {"median": (), "quantile": (("q", (5, -1), (1, 0), (333, -3)), ("method", 5)), "kth": (("k", -1),), "largest": (("k", 3),), "smallest": (("k", 5),),
             "histogram": (("edges", float("-inf"), -0.0, 0.5, float("inf")),)}
    for name, values in given.items():
        tagged = b"".join(rawclient.parameter(*v) for v in values)
        head = rawclient.spec(order.OPS[name], "f32", nan="omit", flags=rawclient.COLUMNS | rawclient.MASK, rows=4, row_len=1, planes=2, tagged_len=len(tagged))
        yield f"reduce_{name}", generate.message(rawclient.REDUCE, head + tagged + struct.pack("<8f8B", *[1.5, 0, float("nan"), -2] * 2, *[1, 0] * 4), version=2)


def main():
    for name in ("codec", "state", "words", "collective"):
        (HERE / "corpus" / name).mkdir(parents=True, exist_ok=True)
    for name, _, data in generate.messages():
        (HERE / "corpus" / "codec" / name).write_bytes(data)
    for name, data in (*parameters(), *keyed(), *statistics()):
        (HERE / "corpus" / "codec" / name).write_bytes(data)
    for name, data in collective():
        (HERE / "corpus" / "collective" / name).write_bytes(data)
    seeds, words = {}, {}
    for op, dtype, *_, state in generate.states():
        key = oracle.OPS[op], oracle.DTYPES[dtype]
        seed = seeds.setdefault(key, bytes(key))
        if len(seed) < ENOUGH:
            seeds[key] = seed + state
        vector, _ = oracle.words(op, dtype, state)
        if vector and len(words.setdefault(key, bytes(key))) < ENOUGH:
            words[key] += struct.pack(f"<{len(vector)}q", *vector)
    for op, dtype, wtype, *_, state in generate.states_of_pairs():
        key = pairs.OPS[op], oracle.DTYPES[wtype]
        if len(seeds.setdefault(key, bytes(key))) < ENOUGH:
            seeds[key] += state
            vector = pairs.words(state)
            words[key] = words.get(key, bytes(key)) + struct.pack(f"<{len(vector)}q", *vector)
    for folder, inputs in (("state", seeds), ("words", words)):
        for (op, dtype), data in inputs.items():
            (HERE / "corpus" / folder / f"op{op}_dtype{dtype}").write_bytes(data)


if __name__ == "__main__":
    main()
