"""Clients of the package: jobs, streams, states, resident data, asyncio, threads, forks, and daemons that go away."""
import asyncio
import concurrent.futures
import contextlib
import fractions
import functools
import math
import multiprocessing
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from conftest import LIB, python_env, sanitizer
from pythonpackage import PACKAGE, package, reduced  # noqa: F401
from reduced import magic

BIG = np.random.default_rng(5).standard_normal(1_500_000)


def test_submit_gives_futures(package):  # noqa: F811
    tasks = [package.submit(f, BIG, **kw) for f, kw in (("sum", {}), (reduced.var, {"ddof": 1}), ("max", {}))]
    assert isinstance(tasks[0], concurrent.futures.Future)
    done, _ = concurrent.futures.wait(tasks, timeout=60)
    assert len(done) == 3 and [t.result() for t in tasks] == [math.fsum(BIG), package.var(BIG, ddof=1), BIG.max()]
    seen, called = [], threading.Event()

    def callback(task):
        seen.append(package.sum([task.result(), 4]))  # it may call anything
        called.set()
    package.submit("sum", [1, 2]).add_done_callback(callback)
    one = package.submit(reduced.quantile, [1, 2, 3], 0.5).result()
    assert one == 2 and np.ndim(one) == 0 and package.submit(reduced.quantile, [1, 2, 3], [0.5]).result().tolist() == [2]
    assert package.submit("sum", [5]).result() == 5 and called.wait(60) and seen == [7]
    with pytest.raises(package.EmptyError):
        package.submit("min", []).result()
    with pytest.raises(TypeError):
        package.submit("sum", ["x"])


def test_products_are_tasks_too(package):  # noqa: F811
    x, w = BIG[:300_000].reshape(-1, 30), BIG[-30:]
    assert package.submit("dot", x, w).result().tolist() == package.dot(x, w).tolist()
    assert package.submit(reduced.vdot, BIG, BIG).result() == package.vdot(BIG, BIG)
    small = [("dot", [1.0, 2], {"b": [3.0, y]}) for y in range(4)]
    assert package.many([*small, ("vdot", [[1, 2]], {"b": [[3, 4]]})]) == [3, 5, 7, 9, 11]
    assert asyncio.run(package.aio.dot(x[0], w)) == package.dot(x[0], w)
    with pytest.raises(ValueError, match="not aligned"):
        package.submit("dot", [1, 2], [1, 2, 3])


def test_a_task_can_be_cancelled(package):  # noqa: F811
    busy = [package.submit("std", BIG) for _ in range(8)]
    task = package.submit("std", BIG)
    cancelled = task.cancel()
    if isinstance(task.exception(), package.CancelledError):
        assert cancelled
    else:
        assert task.result() == busy[0].result()  # it was done before
    assert len({t.result() for t in busy}) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_tasks_go_on_after_callbacks_that_fail(package):  # noqa: F811
    """One thread completes them all."""
    def leave(_):
        raise SystemExit
    mine = package.submit("var", BIG)
    with contextlib.suppress(concurrent.futures.InvalidStateError):
        mine.set_result("mine")
    left = package.submit("var", BIG)
    left.add_done_callback(leave)
    assert left.result(60) == package.var(BIG) and mine.result(60) in ("mine", left.result())
    assert package.submit("sum", [1, 2]).result(60) == 3


def test_a_callback_may_wait_for_other_tasks(package):  # noqa: F811
    found = queue.SimpleQueue()

    def callback(_):
        others = [package.submit("max", [i, 7]) for i in range(3)]
        found.put([t.result(60) for t in others] + [package.submit("min", []).exception(60), package.submit("sum", BIG).result(60)])
    package.submit("sum", [1]).add_done_callback(callback)
    *maxima, error, total = found.get(timeout=60)
    assert maxima == [7, 7, 7] and isinstance(error, package.EmptyError) and total == math.fsum(BIG)


def test_tasks_are_used_while_they_end(package):  # noqa: F811
    """Their jobs are freed by another thread; what is wrong there, AddressSanitizer sees."""
    for _ in range(20):
        tasks = [package.submit("std", BIG[:n]) for n in range(1, 2000, 20)]
        while not all([t.done() for t in tasks]):
            assert all(done <= total for done, total in [t.progress() for t in tasks])
        assert not any(t.cancel() for t in tasks) and {t.progress() for t in tasks} == {(0, 0)}


def test_progress_and_deadlines(package):  # noqa: F811
    seen = []
    package.sum(BIG, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (BIG.nbytes, BIG.nbytes)
    with pytest.raises(package.DeadlineError):
        package.prod(np.ones(30_000_000, "i1"), deadline=0.001)


def test_many_at_once(package, shared):  # noqa: F811
    arrays = [np.random.default_rng(i).standard_normal(i) for i in range(1, 60)]
    before = shared.status()["requests.reduce"]
    assert package.many([("sum", a) for a in arrays]) == [math.fsum(a) for a in arrays]
    assert shared.status()["requests.reduce"] - before == 1
    mixed = package.many([("sum", arrays[3]), ("minmax", [3, 1]), ("minmax", [4, 9]), ("sum", np.ones((2, 3)), {"axis": 0}), (reduced.var, BIG, {"ddof": 1})])
    assert mixed[:3] == [math.fsum(arrays[3]), (1, 3), (4, 9)] and mixed[3].tolist() == [2, 2, 2] and mixed[4] == package.var(BIG, ddof=1)
    assert package.many([]) == []
    with pytest.raises(package.EmptyError):
        package.many([("max", [1]), ("max", [])])


def test_many_dates_of_several_units(package):  # noqa: F811
    days, seconds, numbers = np.array(["2020-01-02", "2020-01-01"], "M8[D]"), np.array([5, 7], "M8[s]"), np.array([3, 9])
    assert package.many([("max", x) for x in (days, seconds, numbers, days)]) == [days[0], seconds[1], 9, days[0]]
    assert package.many([("sum", days - days[1]), ("sum", numbers), ("sum", seconds - seconds[0])]) == [np.timedelta64(1, "D"), 12, np.timedelta64(2, "s")]


def test_errors_of_many_name_the_request(package):  # noqa: F811
    strict = {"nan": "raise"}
    for kind, text, requests in (
            (package.EmptyError, r"max of no elements \(requests\[1\]\)$", [("sum", [1]), ("max", [])]),
            (package.NanError, r"^NAN: holds a NaN \(requests\[2\]\)$", [("max", [1]), ("sum", [1.0], strict), ("sum", [np.nan], strict), ("sum", [1.0], strict)]),
            (package.OverflowError_, r"9223372036854775808 \(requests\[1\]\)$", [("sum", [1, 2]), ("sum", [2**63 - 1, 1])]),
            (TypeError, r"^a: .* \(requests\[0\]\)$", [("sum", "x")]),
            (ValueError, r"^f: no reduction is called 'mode' \(requests\[1\]\)$", [("sum", [1]), ("mode", [1])])):
        with pytest.raises(kind, match=text):
            package.many(requests)
    with pytest.raises(package.OverflowError_) as e:
        package.many([("sum", [1, 2]), ("sum", [2**63 - 1, 1])])
    assert e.value.exact == 2**63 and e.value.index is None


@pytest.mark.parametrize("f", ["Stats", "quick", "np", "_stats", "", None, 5, sum, np.sum, reduced.Stats, reduced.many, reduced.state])
def test_what_is_not_a_reduction_is_named(package, f):  # noqa: F811
    for call in (lambda: package.submit(f, [1]), lambda: package.many([(f, [1])])):
        with pytest.raises((TypeError, ValueError), match="^f: "):
            call()


def test_callers_functions_are_reductions_too(package):  # noqa: F811
    along = functools.partial(package.sum, axis=0)
    assert package.submit(along, np.ones((2, 3))).result().tolist() == package.many([(along, np.ones((2, 3)))])[0].tolist() == [2, 2, 2]
    assert package.submit(lambda a, **kw: package.sum([2 * x for x in a], **kw), [1, 2]).result() == 6
    with pytest.raises(TypeError, match="^f: .* does not pass its `client`"):
        package.submit(lambda a, client: 5, [1])
    for f, *args, kw in ((package.histogram, {"bins": [0, 1], "weights": [2.0]}), (package.quantile, 0.5, {"weights": [2.0], "method": "inverted_cdf"})):
        with pytest.raises(TypeError, match="^f: .* with these arguments cannot be a task"):
            package.submit(f, [1.0], *args, **kw)
    with pytest.raises(TypeError, match="^f: .* that tasks can do"):
        package.submit(package.average, [1.0])


def test_arguments_that_tasks_do_not_have(package):  # noqa: F811
    for text, call in (("progress is of calls", lambda: package.submit("sum", [1], progress=print)),
                       ("progress is of calls", lambda: asyncio.run(package.aio.sum([1], progress=print))),
                       ("progress is of calls", lambda: package.many([("sum", [1], {"progress": print})])),
                       ("requests: deadline", lambda: package.many([("sum", [1], {"deadline": 1})])),
                       ("requests: client", lambda: package.many([("sum", [1], {"client": None})])),
                       ("client is a Client", lambda: package.submit("sum", [1], client="x"))):
        with pytest.raises(TypeError, match=text):
            call()


def test_extremes_of_nans_alone_in_the_background(package):  # noqa: F811
    nans = [np.nan, np.nan]
    found = [package.nanmax(nans), package.submit("nanmax", nans).result(), asyncio.run(package.aio.nanmin(nans)),
             *package.many([("nanmax", nans), ("nanmax", nans), (package.nanmin, nans)])]
    assert all(math.isnan(x) for x in found) and package.many([("nanmax", nans), ("nanmax", [np.nan, 3])])[1] == 3
    rows = np.array([[np.nan, np.nan], [1, np.nan]])
    assert str(package.submit("nanmin", rows, axis=1).result()) == "[nan  1.]"
    with pytest.raises(package.EmptyError):
        package.submit("nanmax", []).result()


def test_streams(package):  # noqa: F811
    with package.stream("sum", "f8") as s:
        for piece in np.array_split(BIG, 7):
            s.append(piece)
    assert s.value == math.fsum(BIG)
    with package.stream("argmax", "i4") as s:
        s.append([1, 2])
        s.append(np.array([9, 9], "i2"))
    assert s.value == 2
    with package.stream("mean", "f4", masked=True, nan="omit") as s:
        s.append([1, 2, np.nan], where=[True, False, True])
        s.append([3])
    assert s.value == 2.0
    with pytest.raises(TypeError, match="chunk"), package.stream("sum", "i4") as s:
        s.append([0.5])
    with pytest.raises(ValueError, match="finished"):
        s.append([1])
    with pytest.raises(package.EmptyError), package.stream("max", "f8"):
        pass


def test_places_of_merged_states(package):  # noqa: F811
    """They count the elements in the order of merges, or from the index that a part was given."""
    state = package.state
    a = state("argmax", [1, 2])
    a |= state("argmax", [5, 3])
    assert int(a) == 2 and a.count == 4
    a |= state("argmax", [9])
    assert int(a) == 4
    parts = [np.arange(5.0) % 3, np.array([np.nan, 7, 7]), np.empty(0), np.array([-1.0])]
    whole = np.concatenate(parts)
    for op in ("argmin", "argmax", "stats"):
        merged, added, indexed, place = state(op, dtype="f8", nan="omit"), state(op, dtype="f8", nan="omit"), state(op, dtype="f8", nan="omit"), 0
        for part in parts:
            merged |= state(op, part, nan="omit")
            added += part
            indexed |= package.State(op, "f8", nan="omit").add(part, index=place)
            place += part.size
        want = package.stats(whole, nan="omit")._asdict() if op == "stats" else getattr(package, op)(whole, nan="omit")
        for s in (merged, added, indexed, merged.copy(), pickle.loads(pickle.dumps(merged)), state(op, dtype="f8", nan="omit") | merged):
            assert s.finish() == want, op
        copy = pickle.loads(pickle.dumps(merged)) | state(op, [1e9])
        assert (copy.finish()["argmax"] if op == "stats" else int(copy)) == (whole.size if op != "argmin" else want)


def test_places_that_are_not_known_are_refused(package):  # noqa: F811
    first, rest = package.state("argmax", [1, 2]), package.state("argmax", [5, 3])
    raw = bytes(rest)
    of_bytes = package.State.from_bytes("argmax", "i8", raw)
    with pytest.raises(ValueError, match="index: how many elements"):
        of_bytes.add([9])
    assert int(of_bytes.copy().add([9], index=100)) == 100 and int(package.State.from_bytes("argmax", "i8", raw, count=2).add([9])) == 2
    assert int(first | of_bytes) == 0  # places of bytes stay
    assert int(first | package.State.from_bytes("argmax", "i8", raw, count=3)) == 2
    based = package.State("argmax", "i8").add([5], index=1000)
    assert int(first | based) == 1000
    with pytest.raises(ValueError, match="other: its elements were counted from 0"):
        based.copy().merge(rest)
    with pytest.raises(ValueError, match="index: how many elements"):
        based.add([6])
    for count in (1, 2**64 + 2):
        with pytest.raises(ValueError, match="count is an integer of 2 or more"):
            package.State.from_bytes("argmax", "i8", raw, count=count)
    for index in (-1, 2**64, 1.0):
        with pytest.raises(ValueError, match="index is an integer of 0 or more"):
            package.State("argmax", "i8").add([5], index=index)
    assert int(package.State.from_bytes("sum", "i8", bytes(package.state("sum", [1, 2]))).add([4])) == 7


def test_masks_of_pieces_have_their_shape(package):  # noqa: F811
    """A mask whose count fits is not enough."""
    a = np.arange(12.0).reshape(3, 4)
    with package.stream("sum", "f8", masked=True) as s:
        s.append(a, where=a > 3)
        s.append(a, where=[True, False, False, False])  # broadcast, as NumPy does
        for other in (a.reshape(4, 3), a.reshape(12), a.reshape(2, 6)):
            with pytest.raises(ValueError, match="where: its shape"):
                s.append(a, where=other > 3)
            with pytest.raises(ValueError, match="where: its shape"):
                package.sum(a, where=other > 3)
    assert s.value == a[a > 3].sum() + 12


def test_pieces_of_other_types_are_exact(package):  # noqa: F811
    """Integers that a float type does not have are refused, in states and streams."""
    for given in (np.array([2**53 + 1, 1]), [2**53 + 1, 1]):
        with pytest.raises(ValueError, match="9007199254740993"):
            package.state("sum", dtype="f8").add(given)
        with pytest.raises(ValueError, match="9007199254740993"), package.stream("sum", "f8") as s:
            s.append(given)
    assert float(package.state("sum", np.array([2**53, 2]), dtype="f8")) == 2**53 + 2


def test_streams_of_several_values(package):  # noqa: F811
    found = {}
    for op in ("stats", "minmax", "ptp", "norm"):
        with package.stream(op, "f8") as s:
            s.append([3.0])
            s.append(np.array([[4.0, 0.0]]))
        found[op] = s.value
    a = [3.0, 4, 0]
    assert found == {"stats": package.stats(a), "minmax": package.minmax(a), "ptp": 4, "norm": 5}
    assert isinstance(found["stats"], package.Stats) and isinstance(found["minmax"], package.MinMax)
    assert package.state("ptp", a).finish() == 4 and package.state("norm", a).finish() == 5
    for op in ("var", "std", "sem"):
        with package.stream(op, "f8") as s:
            s.append(a)
        assert s.value == package.state(op, a).finish() == getattr(package, op)(a)


def test_streams_of_dates(package):  # noqa: F811
    d = np.array(["2020-01-01", "NaT", "2021-05-05"], "M8[D]")
    for op, chunk, kw, value in (("max", d[::2], {}, d[2]), ("ptp", d, {"nan": "omit"}, d[2] - d[0]), ("count_nonzero", d, {}, 3),
                                 ("argmax", d, {"nan": "omit", "masked": True}, 2), ("sum", (d - d[0])[::2], {}, d[2] - d[0])):
        with package.stream(op, chunk.dtype, **kw) as s:
            s.append(chunk)
        assert s.value == value and type(s.value) is (int if isinstance(value, int) else type(value))
    with pytest.raises(ValueError, match="chunk: it has a NaT"), package.stream("max", d.dtype) as s:
        s.append(d)
    with pytest.raises(package.NanError), package.stream("max", d.dtype, nan="raise") as s:
        s.append(d)
    with pytest.raises(TypeError, match="op: the mean"):
        package.stream("mean", "m8[D]")


def test_bad_arguments_of_streams_and_states_are_named(package):  # noqa: F811
    def masked(chunk, where):
        with package.stream("sum", "f8", masked=True) as s:
            s.append(chunk, where)
    for kind, text, call in (
            (ValueError, "op: no reduction is called 'mode'", lambda: package.stream("mode", "f8")),
            (ValueError, "op: the median needs all elements at once", lambda: package.stream("median", "f8")),
            (ValueError, "op: no reduction is called None", lambda: package.stream(None, "f8")),
            (TypeError, "dtype: ", lambda: package.stream("sum", "x9")),
            (ValueError, "where: its shape", lambda: masked([1.0, 2], [True] * 3)),
            (TypeError, "where is an array of bool", lambda: masked([1.0, 2], [1, 2])),
            (TypeError, "dtype: ", lambda: package.state("sum", dtype="x9")),
            (TypeError, "out: ", lambda: package.state("sum", [1.0]).finish(out="x9")),
            (TypeError, "data is bytes", lambda: package.State.from_bytes("sum", "f8", "xx")),
            (ValueError, "ddof is an integer", lambda: package.state("var", [1.0], ddof=0.5)),
            (ValueError, "ddof is an integer", lambda: package.state("var", [1.0]).finish(ddof=-1)),
            (ValueError, "index is an integer", lambda: package.state("argmax", [1.0]).add([2.0], index="x")),
            (ValueError, "index is an integer", lambda: package.state("argmax", [1.0]).add([2.0], index=-1)),
            (package.TypeError_, "other is a state of max of float64, not of sum", lambda: package.state("sum", [1.0]).merge(package.state("max", [1.0]))),
            (TypeError, "a stream cannot be pickled", lambda: pickle.dumps(package.stream("sum", "f8")))):
        with pytest.raises(kind, match=text):
            call()
    assert repr(package.stream("ptp", "f4")) == "<reduced.Stream range of float32>"


def test_threads_share_a_stream_and_a_state(package):  # noqa: F811
    s, state, ended = package.stream("sum", "f8"), package.state("sum", dtype="f8"), []

    def add():
        for _ in range(200):
            s.append(np.ones(1000))
            state.add(np.ones(1000)).merge(package.state("sum", [1.0]))

    def append():
        try:
            while True:
                s.append(np.ones(1000))
        except ValueError as e:
            ended.append(str(e))
    for work in (add, append):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        if work is append:
            s.abort() if state.count % 2 else s.finish()
        for t in threads:
            t.join()
        if work is add:
            assert s.finish() == 800_000 and float(state) == state.count == 800_800
            s = package.stream("sum", "f8")
    assert ended == ["the stream is finished"] * 4


def test_a_stream_with_a_fraction_as_ddof(package):  # noqa: F811
    with package.stream("std", "f8", ddof=0.5) as s:
        s.append([1.0, 2.0])
        s.append([6.0])
    assert s.value == package.std([1.0, 2, 6], ddof=0.5)


def test_states_of_integers_beyond_64_bits(package):  # noqa: F811
    big = np.array([2**63 - 1, 2**63 - 1])
    found = package.state("stats", big).finish()
    assert found == package.stats(big)._asdict() and list(found) == list(package.Stats._fields) and found["sum"] == 2**64 - 2
    assert package.state("stats", [-5]).finish()["sum"] == -5 and package.state("stats", dtype="i8").finish()["argmin"] == -1
    assert package.state("norm1", big).finish() == 2.0**64 and package.state("norminf", [-(2**63)]).finish() == 2.0**63
    assert package.state("sum", big).finish(out="f8") == 2.0**64 and package.state("sum", [3]).finish(out="f4") == np.float32(3)
    with pytest.raises(package.OverflowError_) as e:
        package.state("sum", big).finish()
    assert e.value.exact == 2**64 - 2


def test_states(package):  # noqa: F811
    parts = np.array_split(BIG[:200_000], 9)
    states = [package.state("sum", part) for part in parts]
    total = package.state("sum", dtype="f8")
    for s in reversed(pickle.loads(pickle.dumps(states))):
        total |= s
    assert float(total) == math.fsum(BIG[:200_000]) and total.from_bytes("sum", "f8", bytes(total)) == total
    assert float(states[0] | states[1]) == math.fsum([*parts[0], *parts[1]])
    words = sum(s.words() for s in states)
    assert float(package.State.from_words("sum", "f8", words)) == float(total)
    places = package.state("argmax", dtype="f8")
    for part in parts:
        places += part
    assert int(places) == np.argmax(BIG[:200_000])
    assert package.state("minmax", [3, 1, 2]).finish() == (1, 3) and package.state("var", [1.0, 3.0], ddof=1).finish() == 2.0
    assert package.state("sum", [1.5, 2.0**-30]).finish(out="f4") == np.float32(1.5)
    with pytest.raises(package.BadMessageError):
        package.State.from_bytes("sum", "f8", b"\xff" * len(bytes(total)))
    with pytest.raises(package.Error):
        total |= package.state("sum", [1])
    with pytest.raises(TypeError, match="a: elements"):
        package.state("sum", dtype="i4").add(np.array([0.5]))
    with pytest.raises(ValueError, match="op: the median needs all elements at once"):
        package.state("median")


def test_resident_arrays(package):  # noqa: F811
    a = np.random.default_rng(2).standard_normal((40, 50))
    r = package.put("matrix", a)
    try:
        for name in ("sum", "mean", "std", "max", "argmin", "ptp", "any"):
            for axis in (None, 0, 1):
                assert np.array_equal(getattr(np, name)(r, axis=axis), getattr(package, name)(a, axis=axis)), (name, axis)
        assert r.shape == (40, 50) and r.nbytes == 16_000 and r.ndim == 2 and r.size == 2000
        assert package.Resident("matrix").shape == (40, 50) and np.array_equal(package.sum(r.reshape(50, 40), axis=0), package.sum(a.reshape(50, 40), axis=0))
        assert package.residents() == [("matrix", "f64", 16_000)]
        assert package.submit("sum", r).result() == math.fsum(a.ravel()) and package.many([("sum", r), ("max", [1])]) == [math.fsum(a.ravel()), 1]
        with pytest.raises(package.ExistsError):
            package.put("matrix", a)
        assert np.median(r) == package.median(a) and np.array_equal(np.quantile(r, [0.1, 0.9], axis=0), package.quantile(a, [0.1, 0.9], axis=0))
        with pytest.raises(TypeError):
            np.cumsum(r)
        with pytest.raises(TypeError, match="does not give elements back"):
            np.asarray(r)
        with pytest.raises(NotImplementedError, match="where"):
            package.sum(r, where=a > 0)
    finally:
        r.drop()
    with pytest.raises(package.BadHandleError):
        package.sum(r)
    with pytest.raises(LookupError):
        package.Resident("matrix")


def test_asyncio(package):  # noqa: F811
    async def both():
        return await asyncio.gather(package.aio.sum(BIG), package.aio.std([1, 2, 3, 4], ddof=1), package.aio.nansum([1, np.nan]))

    async def cancelled():
        task = asyncio.ensure_future(package.aio.std(BIG))
        await asyncio.sleep(0)  # it is submitted, and waits
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert asyncio.run(both()) == [math.fsum(BIG), package.std([1, 2, 3, 4], ddof=1), 1.0]
    asyncio.run(cancelled())


def test_threads_share_a_client(package):  # noqa: F811
    wrong = []

    def work(seed):
        g = np.random.default_rng(seed)
        for n in g.integers(1, 3000, 40):
            a = g.standard_normal(n)
            if package.sum(a) != math.fsum(a) or package.submit("max", a).result() != a.max():
                wrong.append(n)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def exact_mean(numbers):
    return reduced.mean(numbers)


@pytest.mark.skipif(bool(sanitizer()), reason="a forked child of a sanitized Python is not one of its own")
def test_forked_children_open_their_own_client(package):  # noqa: F811
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(exact_mean, [[1.0, 2.0], [0.1] * 10]) == [1.5, float(fractions.Fraction(0.1))]
    assert package.sum([1, 2]) == 3


def test_a_client_pickles_as_its_arguments(package, shared):  # noqa: F811
    with reduced.Client(shared.url, autostart=False, priority="background", timeout=30) as c:
        assert c.info().url == shared.url and c.info().priority == "background" and c.ping() > 0
        with pickle.loads(pickle.dumps(c)) as other:
            assert reduced.sum([0.1] * 10, client=other) == 1.0 and other.info().priority == "background"
        assert c.status("info")["version"] == reduced.__version__ and "reduced_requests_total" in c.metrics()
    with pytest.raises(ValueError, match="closed"):
        reduced.sum([1], client=c)
    c.close()
    with reduced.Client(shared.tcp_url) as c:
        assert reduced.sum(BIG, client=c) == math.fsum(BIG)


def test_exceptions_pickle(package):  # noqa: F811
    with pytest.raises(package.OverflowError_) as e:
        package.sum([2**63 - 1, 1])
    copy = pickle.loads(pickle.dumps(e.value))
    assert type(copy) is package.OverflowError_ and copy.exact == 2**63 and str(copy) == str(e.value)


def test_a_daemon_that_comes_back_and_one_that_does_not(start, scratch):
    daemon = start()
    with reduced.Client(daemon.url, autostart=False, reconnect_timeout=30) as c, reduced.Client(daemon.url, autostart=False, reconnect_timeout=0.2) as short:
        assert reduced.sum(BIG, client=c) == math.fsum(BIG)
        s = reduced.stream("sum", "f8", client=c)
        s.append(BIG)
        daemon.kill()
        with pytest.raises(reduced.NoDaemonError):
            reduced.sum([1.0], client=short)
        task = reduced.submit("sum", BIG, client=c)  # it waits
        again = start()
        assert task.result(60) == math.fsum(BIG) and reduced.sum([0.1] * 10, client=c) == 1.0
        with pytest.raises(reduced.StreamLostError):
            s.append(BIG)
            s.finish()
        s.abort()
        again.stop()
    with pytest.raises(ConnectionError):
        reduced.Client(daemon.url, autostart=False)


PENDING = """
import sys
import numpy as np
import reduced
c = reduced.Client(sys.argv[1], autostart=False)
tasks = [reduced.submit("std", np.ones(500_000), client=c) for _ in range(20)]
"""


def test_python_ends_while_tasks_are_under_way(shared):
    env = {**python_env(), "PYTHONPATH": str(PACKAGE), "REDUCED_LIBRARY": str(LIB / "libreduce.so")}
    done = subprocess.run([sys.executable, "-c", PENDING, shared.url], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stderr == ""


SLOW = """
import atexit, sys, threading
begun, ended, returned = threading.Event(), threading.Event(), []
atexit.register(lambda: (print(returned), ended.set()))  # after reduced's own
import reduced
from reduced import _jobs
class Slow(_jobs.SimpleQueue):
    def put(self, task):
        super().put(task)
        begun.set()
        ended.wait(0.2)
        returned.append(threading.current_thread() is not threading.main_thread())
_jobs._ended = Slow()
c = reduced.Client(sys.argv[1], autostart=False, local=False)
reduced.submit("sum", [1.0] * 100_000, client=c)
begun.wait(60)
"""


def test_python_ends_after_the_callbacks_of_tasks(shared):
    env = {**python_env(), "PYTHONPATH": str(PACKAGE), "REDUCED_LIBRARY": str(LIB / "libreduce.so")}
    done = subprocess.run([sys.executable, "-c", SLOW, shared.url], env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[True]\n", "")


HELD = """
import sys
import reduced
client = reduced.Client(sys.argv[1], autostart=False)
streams = [reduced.stream("sum", "f8", client=client)]
reduced._client._default = client
print(reduced.submit("sum", [1, 2]).result())
"""


def test_what_a_program_still_holds_at_its_end_ends_in_silence(shared):
    env = {**python_env(), "PYTHONPATH": str(PACKAGE), "REDUCED_LIBRARY": str(LIB / "libreduce.so")}
    done = subprocess.run([sys.executable, "-c", HELD, shared.url], env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


def test_closing_waits_for_calls(package, shared):  # noqa: F811
    c = reduced.Client(shared.url, autostart=False)
    results = []
    ready = threading.Event()

    def work():
        try:
            while True:
                results.append(reduced.sum(BIG[:50_000], client=c))
                ready.set()
        except (ValueError, reduced.Error):
            results.append("closed")
            ready.set()
    t = threading.Thread(target=work)
    t.start()
    ready.wait(60)
    c.close()
    t.join(60)
    assert results[-1] == "closed" and len(set(results[:-1])) == 1


class Shell:
    def register_magic_function(self, f, kind):
        self.f, self.kind = f, kind


def test_the_notebook_magic(shared, monkeypatch, capsys, tmp_path):
    from conftest import BIN
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
    monkeypatch.setenv("REDUCED_URL", shared.url)
    shell = Shell()
    reduced.load_ipython_extension(shell)
    np.save(tmp_path / "m.npy", np.ones((2, 3)))
    assert shell.kind == "line" and shell.f.__name__ == "reducectl" and shell.f(f"sum {tmp_path}/m.npy") is None
    assert capsys.readouterr().out == "6\n"
    with pytest.raises(RuntimeError, match="no-such-file"):
        magic.run("sum /no-such-file")


def test_signals_reach_python(package):  # noqa: F811
    """The library's threads take none, so that handlers run in the main thread."""
    got = []
    old = signal.signal(signal.SIGUSR1, lambda *_: got.append(threading.current_thread()))
    try:
        task = package.submit("std", BIG)
        os.kill(os.getpid(), signal.SIGUSR1)
        task.result()
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert got == [threading.main_thread()]
