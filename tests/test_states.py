"""States in libreduce, without a daemon: each call against the oracle, the words against the golden vectors, and what they refuse."""
import ctypes as C
import mmap
import re
import subprocess

import numpy as np
import pytest

import gens
import libreduce
import oracle
import pairs
from conftest import LIB, ROOT, SANITIZER, sanitizer
from libreduce import WRAP, Client, Fault, State

GOLDEN = ROOT / "tests" / "golden"
OP, DTYPE, NAN = ({code: name for name, code in table.items()} for table in (oracle.OPS, oracle.DTYPES, oracle.NANS))
ALL = [(op, dtype) for dtype in oracle.DTYPES for op in oracle.ops(dtype)]


def golden(name, fields):
    for line in (GOLDEN / name).read_text().splitlines():
        if not line.startswith("#"):
            yield line.split(" ", fields - 1)


def code_of(call, *args, **kw):
    """(error, field) of a call; ("OK", "") if it has none."""
    try:
        call(*args, **kw)
    except Fault as f:
        return f.code, f.field
    return "OK", ""


def cut(rng, n, parts):
    """The bounds of that many parts, some of them empty."""
    return [0, *sorted(rng.integers(0, n + 1, parts - 1)), n]


def pieces(rng, bits, parts):
    """(first index, elements)"""
    at = cut(rng, len(bits), parts)
    return [(int(a), bits[a:b]) for a, b in zip(at, at[1:])]


def joined(states, op, dtype):
    """The words of several states as an all-reduce joins them."""
    added, _ = states[0].lengths()
    columns = list(zip(*(s.words() for s in states)))
    return [sum(c) for c in columns[:added]] + [max(c) for c in columns[added:]]


# ---- one state ----
def test_golden_states():
    seen = 0
    for op, dtype, nan, base, missing, data, state in golden("states.txt", 7):
        op, dtype, data = OP[int(op)], DTYPE[int(dtype)], bytes.fromhex(data.strip("-"))
        s = State(op, dtype).add(oracle.bits_of(dtype, data), NAN[int(nan)], int(base)).add_missing(int(missing))
        assert bytes(s).hex() == state, (op, dtype, nan, data.hex())
        seen += 1
    assert seen > 400


@pytest.mark.parametrize("dtype", oracle.DTYPES)
def test_adding_and_finishing_are_the_oracles(dtype):
    rng = np.random.default_rng(oracle.DTYPES[dtype])
    for i, make in enumerate(gens.of(dtype)):
        bits = make(rng, dtype, int(rng.integers(0, 40)))
        nan, ddof = list(oracle.NANS)[i % 3], i % 4
        one = bits[:1].tobytes() if i % 2 and len(bits) else None
        for op in oracle.ops(dtype):
            out = oracle.outs(op, dtype)[i % len(oracle.outs(op, dtype))]
            kw = {"out": out, "nan": nan, "ddof": ddof if op in ("var", "std", "sem", "stats") else 0}
            s = State(op, dtype).add(bits, nan, 5)
            assert bytes(s) == oracle.state(oracle.Elements(dtype, bits, 5), op, nan), (op, make.__name__)
            expected = oracle.reduce_or_fault(op, dtype, bits, index_base=5, initial=None if one is None else int(bits[0]), **kw)
            assert oracle.outcome(finish, s, initial=one, **kw) == expected, (op, make.__name__)


def finish(s, **kw):
    before = bytes(s)
    try:
        return s.finish(**{**kw, "out": None if s.op == "stats" else kw["out"]})
    except Fault as f:
        assert bytes(s) == before
        raise oracle.Fault(f.code, f.value) from f


def test_plain_adding_continues_the_indexes():
    bits = np.array([5, 3, 3, 9, 9, 1], "<u4")
    for op, cell in (("argmin", 5), ("argmax", 3)):
        s = State(op, "u32").add(bits[:2]).add(bits[2:5]).add(bits[5:])
        assert s.finish() == cell and bytes(s) == bytes(State(op, "u32").add(bits, "propagate", 0))


def test_ops_of_one_kind_share_their_states():
    bits = np.array([1.0, 2.0, 4.0]).view("<u8")
    moments, total = State("std", "f64").add(bits), State("sum", "f64").add(bits)
    assert moments.finish("var", ddof=1) == oracle.reduce("var", "f64", bits, ddof=1)
    assert total.finish("mean") == oracle.reduce("mean", "f64", bits)
    assert code_of(total.finish, "sumsq") == ("BAD_MESSAGE", "layout")
    assert code_of(total.finish, "sum", "f32") == ("BAD_MESSAGE", "dtype")


def test_an_overflow_has_the_exact_value():
    s = State("sum", "i64").add(np.full(3, 2**63 - 1, "<u8"))
    with pytest.raises(Fault) as e:
        s.finish()
    assert (e.value.code, e.value.value, e.value.text) == ("OVERFLOW", 3 * (2**63 - 1), "the exact sum does not fit i64")
    assert State("prod", "i64").add(np.array([2**63 - 1, 2], "<u8")).finish(flags=WRAP) == 2**64 - 2


# ---- several states ----
@pytest.mark.skipif(sanitizer() == "thread", reason="calls of a single thread; then ThreadSanitizer leaves no room for a fork")
@pytest.mark.parametrize("dtype", oracle.DTYPES)
def test_any_split_and_tree_gives_the_same_bytes(dtype):
    """By merging, and by words where there are any."""
    rng = np.random.default_rng(100 + oracle.DTYPES[dtype])
    for i, make in enumerate(gens.of(dtype)):
        bits, nan = make(rng, dtype, 50), list(oracle.NANS)[i % 3]
        parts = pieces(rng, bits, 2 + i % 7)
        for op in oracle.ops(dtype):
            whole = bytes(State(op, dtype).add(bits, nan, 0))
            states = [State(op, dtype).add(part, nan, at) for at, part in parts]
            if states[0].lengths()[1]:
                words = joined(states, op, dtype)
                assert words[0] == len(parts) and bytes(State.of_words(op, dtype, words)) == whole, (op, make.__name__)
            while len(states) > 1:
                other = states.pop(int(rng.integers(len(states))))
                states[int(rng.integers(len(states)))].merge(other)
            assert bytes(states[0]) == whole, (op, make.__name__)


def test_counts_above_2_to_31_by_merging_a_state_with_itself():
    for op, dtype in (("mean", "f64"), ("var", "f32"), ("count_nonzero", "i8"), ("sumsq", "i64"), ("prod", "f64"), ("minmax", "f32"), ("xor", "u8")):
        s = State(op, dtype).add(np.array([0, 1, 3], oracle.unsigned(dtype)))
        one = bytes(s)
        for _ in range(58):
            s.merge(s)
        count = int.from_bytes(bytes(s)[8:16], "little")
        assert count == 3 << 58 and bytes(State.of_words(op, dtype, s.words())) == bytes(s)
        assert code_of(s.merge, s) == ("TOO_LARGE", "count") and int.from_bytes(bytes(s)[8:16], "little") == count
        assert code_of(State.of_words, op, dtype, [2 * w if i < s.lengths()[0] else w for i, w in enumerate(s.words())]) == ("BAD_MESSAGE", "count")
        s.merge(one)


@pytest.mark.parametrize("dtype", ["f64", "i8"])
def test_parts_that_were_counted_from_0(dtype):
    """Merged at the index of their first elements, in any order, they are the whole; other states than those of places do not change."""
    rng = np.random.default_rng(61)
    bits = gens.of(dtype)[0](rng, dtype, 60)
    for op in oracle.ops(dtype):
        merged = State(op, dtype)
        for at, part in sorted(pieces(rng, bits, 5), key=lambda _: rng.random()):
            merged.merge_at(State(op, dtype).add(part), at)
        assert bytes(merged) == bytes(State(op, dtype).add(bits)), op


def test_places_of_parts():
    a, b = (State("argmax", "i32").add(np.array(x, "<u4")) for x in ([1, 2], [5, 3]))
    assert a.merge_at(b, 2).finish() == 2 and b.merge_at(State("argmax", "i32"), 7).finish() == 0
    for op in ("argmax", "stats"):
        s = State(op, "i32").add(np.array([1], "<u4"), "propagate", 2**60)
        before = bytes(s)
        assert code_of(s.merge_at, s, 2**60) == ("TOO_LARGE", "index") == code_of(s.merge_at, s, 2**60 + 1) and bytes(s) == before
        assert code_of(s.merge_at, State(op, "i32"), 2**60) == ("OK", "")


# ---- words ----
def test_golden_words():
    seen = 0
    for op, dtype, added, state, words in golden("words.txt", 5):
        op, dtype, words = OP[int(op)], DTYPE[int(dtype)], [int(w) for w in words.split(",")]
        s = State(op, dtype, bytes.fromhex(state))
        assert s.lengths() == (int(added), len(words)) and s.words() == words, (op, dtype)
        assert bytes(State.of_words(op, dtype, words)).hex() == state
        seen += 1
    assert seen > 400


def test_how_many_words():
    for op, dtype in ALL:
        words, added = oracle.words(op, dtype, bytes(State(op, dtype)))
        assert State(op, dtype).lengths() == (added, len(words or [])), (op, dtype)
        if not words:
            assert code_of(State(op, dtype).words, 9) == ("OP", "op") and code_of(State.of_words, op, dtype, [1] * 9) == ("OP", "op")
    lib = State("sum", "f64").lib
    assert [lib.reduce_state_words(*x) for x in ((0, 12), (1, 0), (99, 1), (21, 12))] == [0] * 4


def test_the_most_vectors():
    """2^31 - 1 equal states: no word overflows; one more is refused."""
    for op, dtype in (("sum", "f64"), ("var", "f32"), ("sumsq", "u64"), ("and", "i16"), ("prod", "f32"), ("count", "u8"), ("norm1", "i32")):
        s = State(op, dtype).add(np.array([2, 1], oracle.unsigned(dtype)))
        n, power = 2**31 - 1, State(op, dtype, bytes(s))
        for _ in range(30):  # 2^31 - 1 = 2 (2^30 - 1) + 1
            power.merge(power).merge(s)
        words = [n * w for w in s.words()]
        assert max(map(abs, words)) < 2**63 and bytes(State.of_words(op, dtype, words)) == bytes(power), op
        assert code_of(State.of_words, op, dtype, [w // n * 2**31 for w in words]) == ("BAD_MESSAGE", "vectors")


@pytest.mark.parametrize("op, dtype", [("sum", "f64"), ("var", "f32"), ("min", "f32"), ("or", "i32"), ("prod", "f64"), ("norm1", "f64")])
def test_words_of_others_are_refused(op, dtype):
    """Among the words that were added: another op of the same length, another dtype, another version, a rank that sent zeros."""
    words = State(op, dtype).add(np.array([3, 1, 2], oracle.unsigned(dtype))).words()
    for other in ALL:
        if other != (op, dtype) and State(*other).lengths()[1] == len(words) and oracle.layout(*other)[0] != oracle.layout(op, dtype)[0]:
            assert code_of(State.of_words, op, dtype, [a + b for a, b in zip(words, State(*other).words())]) == ("BAD_MESSAGE", "tag"), other
            assert code_of(State.of_words, op, dtype, State(*other).words()) == ("BAD_MESSAGE", "tag"), other
    tag = words[1] + 512
    assert code_of(State.of_words, op, dtype, [words[0], tag, tag * tag, *words[3:]]) == ("BAD_MESSAGE", "tag")
    assert code_of(State.of_words, op, dtype, [2 * words[0], *words[1:]]) == ("BAD_MESSAGE", "tag")
    assert code_of(State.of_words, op, dtype, [0] * len(words)) == ("BAD_MESSAGE", "vectors")
    for n in (0, 1, len(words) - 1, len(words) + 1):
        assert code_of(State.of_words, op, dtype, (words * 2)[:n]) == ("SHAPE", "n")
        assert code_of(State(op, dtype).words, n) == ("SHAPE", "n")


@pytest.mark.parametrize("op, dtype", [("sum", "f64"), ("var", "f32"), ("max", "i8"), ("minmax", "f16"), ("xor", "u8"), ("prod", "f64"), ("count", "i8"), ("sumsq", "i16")])
def test_words_that_no_states_have_are_refused(op, dtype):
    """A word out of its range, in each place."""
    words = State(op, dtype).add(np.array([3, 1, 2], oracle.unsigned(dtype))).words()
    for i in range(len(words)):
        for wrong in (-2**63, 2**63 - 1, -2**40, 2**33):
            if i >= 9 and op == "max" and wrong == -2**63:
                continue  # the key of -128
            bad = [*words[:i], wrong, *words[i + 1:]]
            assert code_of(State.of_words, op, dtype, bad)[0] == "BAD_MESSAGE", (i, wrong)


# ---- what is refused ----
def test_arguments():
    s = State("sum", "f64")
    lib, raw = s.lib, s.bytes
    big, none = C.c_size_t(1000), None
    assert lib.reduce_state_init(raw, C.c_size_t(287), 1, 12) == -101 and lib.reduce_state_init(none, big, 1, 12) == -101
    assert lib.reduce_state_init(raw, big, 0, 12) == -4 and lib.reduce_state_init(raw, big, 99, 12) == -4
    assert lib.reduce_state_init(raw, big, 1, 14) == -3 and lib.reduce_state_init(raw, big, 21, 12) == -3
    assert lib.reduce_state_add(none, big, none, C.c_size_t(0)) == -101 and lib.reduce_state_add(raw, s.size(), none, C.c_size_t(1)) == -101
    assert lib.reduce_state_add(raw, s.size(), none, C.c_size_t(0)) == 0
    assert lib.reduce_state_merge(raw, s.size(), none, big) == -101 and lib.reduce_state_finish(raw, s.size(), none, raw, big) == -101
    assert lib.reduce_state_to_words(raw, s.size(), none, C.c_size_t(77)) == -101
    assert code_of(s.add, np.zeros(1, "<u8"), "propagate", 2**60 + 1) == ("TOO_LARGE", "index")
    for kw in ({"rows": 2}, {"flags": 1}, {"flags": 2}, {"flags": 64}, {"mask": b"\1"}, {"offsets": bytes(16)}):
        assert code_of(s.finish, **kw) == ("ARGUMENT", "spec"), kw


def test_many_states_are_finished_by_one_call():
    """The values are those of one call each; an error names its state, and what is before it is written."""
    states = [State("max", "i8").add(np.array([i, 5], "u1")) for i in range(20)]
    lib, raw, spec = states[0].lib, b"".join(bytes(s) for s in states), Client.spec("max", "i8")

    def finish(data, out, n=None, room=160):
        return lib.reduce_states_finish(data, C.c_size_t(len(raw) if n is None else n), C.byref(spec), out, C.c_size_t(room))
    out = (C.c_int64 * 20)()
    assert finish(raw, out) == 0 and list(out) == [max(i, 5) for i in range(20)]
    size = len(raw) // 20
    out = (C.c_int64 * 20)(*[-1] * 20)
    assert finish(raw[:size * 7] + bytes(State("max", "i8")) + raw[size * 8:], out) == -6 and list(out) == [5] * 6 + [6] + [-1] * 13
    assert finish(None, None, 0) == 0
    for wrong in ((None, out), (raw, None), (raw, out, size - 1), (raw, out, None, 159)):
        assert finish(*wrong) == -101, wrong[1:]


def damaged(state):
    """(what, bytes): heads and limbs that no elements have."""
    for name, at, value in (("layout", 0, 255), ("special", 1, 4), ("nz", 2, 2), ("skipped", 3, 2), ("dtype", 4, 0), ("zero", 6, 1), ("count", 15, 0x20),
                            ("limbs", 16 + 8 * 34 - 2, 0x7F)):
        yield name, state[:at] + bytes([value]) + state[at + 1:]


def test_damaged_states_are_refused_by_every_call():
    good = State("sum", "f64").add(np.array([1.5, 2.5]).view("<u8"))
    before = bytes(good)
    for field, data in damaged(before):
        bad = State("sum", "f64", data)
        for call, args in ((bad.add, [np.zeros(1, "<u8")]), (bad.finish, []), (bad.words, [77]), (bad.merge, [before]), (good.merge, [data])):
            assert code_of(call, *args) == ("BAD_MESSAGE", field), (field, call)
        assert bytes(bad) == data and bytes(good) == before, "an error changed a state"
    assert code_of(good.merge, State("norm1", "f64")) == ("BAD_MESSAGE", "layout")
    assert code_of(State("sum", "f32").merge, State("sum", "f16")) == ("BAD_MESSAGE", "dtype")
    assert code_of(State("and", "i8").merge, bytes(State("and", "i8"))[:4] + b"\x0c" + bytes(27)) == ("BAD_MESSAGE", "dtype")


@pytest.mark.parametrize("dtype, eight, one", [("i32", 8, 1), ("u8", 8, 1), ("f32", 0x41000000, 0x3F800000), ("bf16", 0x4100, 0x3F80),
                                               ("f64", 0x4020000000000000, 0x3FF0000000000000)])
def test_sums_that_no_elements_have_together_are_refused(dtype, eight, one):
    """The square of a sum is at most the number of elements times the sum of squares (Cauchy): no variance is negative."""
    large, small = (bytes(State("var", dtype).add(np.full(2, x, oracle.unsigned(dtype)))) for x in (eight, one))
    at = len(bytes(State("sum", dtype)))  # a head and the sum; the squares follow
    for call in (State("var", dtype).merge, lambda state: State("var", dtype, state).finish()):
        assert code_of(call, large) == code_of(call, small[:at] + large[at:]) == ("OK", "")
        assert code_of(call, large[:at] + small[at:]) == ("BAD_MESSAGE", "limbs")


def test_bytes_of_any_length_are_checked():
    s = State("sum", "f32")
    for n in (*range(64), 65, 288):
        assert s.lib.reduce_state_check(bytes(s)[:n].ljust(n, b"\0"), C.c_size_t(n), 1, 11) == -1, n
    assert s.lib.reduce_state_check(bytes(s), C.c_size_t(64), 1, 11) == 0


def at_the_end_of_a_page(data):
    """An address behind whose bytes no memory is: a byte too many ends the process."""
    page, need = mmap.PAGESIZE, -(-len(data) // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, need + page)
    start = C.addressof(C.c_char.from_buffer(memory))
    assert C.CDLL(None).mprotect(C.c_void_p(start + need), C.c_size_t(page), 0) == 0
    C.memmove(start + need - len(data), data, len(data))
    return memory, C.c_void_p(start + need - len(data))


@pytest.mark.parametrize("op, dtype", [("sum", "f64"), ("argmax", "i32"), ("stats", "f64")])
def test_a_short_buffer_is_not_read_beyond(op, dtype):
    good = State(op, dtype).add(np.array([3, 1, 2], oracle.unsigned(dtype)))
    lib, n, big = good.lib, len(bytes(good)), C.c_size_t(1000)
    spec, out = Client.spec(op, dtype), C.create_string_buffer(1000)
    for short in sorted({0, 1, 15, 16, 17, n - 1}):
        size = C.c_size_t(short)
        memory, at = at_the_end_of_a_page(bytes(good)[:short])
        calls = {"add": lambda: lib.reduce_state_add(at, size, bytes(8), C.c_size_t(1)), "init": lambda: lib.reduce_state_init(at, size, oracle.OPS[op], oracle.DTYPES[dtype]),
                 "add_at": lambda: lib.reduce_state_add_at(at, size, bytes(8), C.c_size_t(1), 0, C.c_uint64(0)),
                 "add_missing": lambda: lib.reduce_state_add_missing(at, size, C.c_uint64(1)), "into": lambda: lib.reduce_state_merge(at, size, bytes(good), C.c_size_t(n)),
                 "from": lambda: lib.reduce_state_merge(good.bytes, C.c_size_t(n), at, size),
                 "finish": lambda: lib.reduce_state_finish(at, size, C.byref(spec), out, big), "check": lambda: lib.reduce_state_check(at, size, oracle.OPS[op], oracle.DTYPES[dtype]),
                 "words": lambda: lib.reduce_state_to_words(at, size, out, C.c_size_t(77))}
        found = {name: call() for name, call in calls.items()}
        assert found == {**dict.fromkeys(calls, -1), "init": -101}, short
        assert C.string_at(at, short) == bytes(good)[:short]


def test_a_value_is_not_written_beyond_its_room():
    s = State("minmax", "f64").add(np.array([1.5, 2.5]).view("<u8"))
    spec = Client.spec("minmax", "f64")
    for short in (0, 8, 15):
        memory, at = at_the_end_of_a_page(b"x" * short)
        assert s.lib.reduce_state_finish(s.bytes, s.size(), C.byref(spec), at, C.c_size_t(short)) == -101
        assert C.string_at(at, short) == b"x" * short


# ---- the library ----
PROGRAM = r"""
#include "client/reduce.h"
#include <stdio.h>
int main(void)
{
    unsigned char a[REDUCE_MAX_STATE], b[REDUCE_MAX_STATE];
    double x[3] = {1e100, 1, -1e100}, sum;
    int64_t words[REDUCE_MAX_WORDS];
    reduce_spec spec = REDUCE_SPEC_INIT;
    size_t n = reduce_state_words(REDUCE_SUM, REDUCE_F64);
    spec.dtype = REDUCE_F64;
    if (reduce_state_init(a, sizeof a, REDUCE_SUM, REDUCE_F64) || reduce_state_init(b, sizeof b, REDUCE_SUM, REDUCE_F64) ||
        reduce_state_add(a, sizeof a, x, 2) || reduce_state_add(b, sizeof b, x + 2, 1) || reduce_state_merge(a, sizeof a, b, sizeof b) ||
        reduce_state_to_words(a, sizeof a, words, n) ||
        reduce_state_from_words(b, sizeof b, REDUCE_SUM, REDUCE_F64, words, n) || reduce_state_finish(b, sizeof b, &spec, &sum, sizeof sum))
        return puts(reduce_errmsg()), 1;
    printf("%g\n", sum);
    return 0;
}
"""


def test_a_static_program_needs_neither_nng_nor_threads_nor_memory(scratch):
    """The calls on states take a few objects of libreduce.a: none that allocates, locks or talks."""
    source, program = scratch / "p.c", scratch / "p"
    source.write_text(PROGRAM)
    flags = [f"-fsanitize={sanitizer()}"] if sanitizer() else []
    subprocess.run(["gcc", "-std=c11", "-Wall", "-Werror", f"-I{ROOT}", source, LIB / "libreduce.a", *flags, "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.stdout == "1\n" and done.returncode == 0 and not SANITIZER.search(done.stderr), done
    if not flags:
        used = subprocess.run(["nm", "-D", "--undefined-only", program], capture_output=True, text=True, check=True).stdout
        assert "snprintf" in used and not [w for w in ("nng_", "pthread_", "malloc", "calloc", "socket", "epoll") if w in used], used


def test_the_longest():
    header = (ROOT / "client" / "reduce.h").read_text()
    longest = {name: int(re.search(rf"{name} = (\d+)", header)[1]) for name in ("MAX_STATE", "MAX_WORDS", "LARGEST_STATE", "LARGEST_WORDS")}
    library = libreduce.load()
    of_pairs = [(op, dtype) for op in pairs.OPS for dtype in oracle.DTYPES]
    sizes = {x: library.reduce_state_size(pairs.OPS[x[0]], oracle.DTYPES[x[1]]) for x in of_pairs}
    words = {x: library.reduce_state_words(pairs.OPS[x[0]], oracle.DTYPES[x[1]]) for x in of_pairs}
    short = [x for x in of_pairs if x[0] not in pairs.COMOMENTS]
    most = max(len(bytes(State(*x))) for x in ALL), max(State(*x).lengths()[1] for x in ALL)
    assert (longest["MAX_STATE"], longest["MAX_WORDS"]) == (max(most[0], *map(sizes.get, short)), max(most[1], *map(words.get, short)))
    assert (longest["LARGEST_STATE"], longest["LARGEST_WORDS"]) == (max(sizes.values()), max(words.values()))
