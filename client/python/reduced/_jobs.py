"""Reductions in the background, and many at once."""
from __future__ import annotations

import atexit
import ctypes
import os
import threading
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Callable, Iterable

import numpy as np

from . import _abi, _functions
from ._client import Client, default
from ._lib import check, milliseconds
from ._plan import Plan
from ._run import Job, run, wait
from ._sources import Memory

DONE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
LITTLE = 1 << 16  # bytes: smaller arrays share a message


class Task(Future[Any]):
    """A reduction under way: a concurrent.futures.Future that can be cancelled and says how far it is."""

    def __init__(self, client: Client, plan: Plan):
        super().__init__()
        self.set_running_or_notify_cancel()
        self._using = threading.RLock()  # the job: it may end before it has a handle, and is not freed during a call
        self._callback = DONE(lambda *_: _ended.put(self))  # on a thread of the library: it must be quick
        if plan.source.jobs and plan.cells.size:
            _under_way.add(self)  # which keeps the callback until it has run
            try:
                with self._using:
                    self._job: Job | None = Job(client, plan, self._callback)
            except BaseException:
                _under_way.discard(self)
                raise
        else:
            self._job = None
            threading.Thread(target=self._run, args=(client, plan), daemon=True).start()

    def _run(self, client: Client, plan: Plan) -> None:
        """For elements on the GPU or with the daemon, which the library has no jobs for."""
        try:
            self.set_result(run(plan, client))
        except BaseException as e:
            self.set_exception(e)

    def _finish(self) -> None:
        with self._using:
            job = self._job
        assert job
        try:
            job.wait()
            self.set_result(job.plan.value())
        except BaseException as e:
            self.set_exception(e)
        finally:
            with self._using:
                job.free()
            _under_way.discard(self)

    def cancel(self) -> bool:
        """Ask the reduction to end soon, with CancelledError as its exception; False: it is done."""
        if self.done() or self._job is None:
            return False
        with self._using:
            self._job.cancel()
        return True

    def progress(self) -> tuple[int, int]:
        """Bytes that the daemon has acknowledged, and their total."""
        if self._job is None or self.done():
            return 0, 0
        with self._using:
            return self._job.progress()


_ended: SimpleQueue[Task] = SimpleQueue()
_under_way: set[Task] = set()
_finisher: threading.Thread | None = None


def _finish_all() -> None:
    while True:
        _ended.get()._finish()


def _start_finisher() -> None:
    """The thread that completes tasks: their callbacks may call anything, which those of the library must not."""
    global _finisher
    if _finisher is None:
        _finisher = threading.Thread(target=_finish_all, name="reduced", daemon=True)
        _finisher.start()


@atexit.register
def _end() -> None:
    """No callback may come when Python is gone."""
    for task in list(_under_way):
        task.cancel()
    for task in list(_under_way):
        task.exception(timeout=10)


def _forget() -> None:
    """In a forked child: the tasks are the parent's, and so is a thread that may hold the queue's lock."""
    global _ended, _finisher
    _ended, _finisher = SimpleQueue(), None
    for task in _under_way:
        task._using = threading.RLock()
    _under_way.clear()


os.register_at_fork(after_in_child=_forget)


class _Starter:
    """Stands for a client, and makes a task of a plan."""

    def __init__(self, client: Client | None):
        self.client = client

    def take(self, plan: Plan) -> Task:
        _start_finisher()
        return Task(self.client or plan.source.client or default(), plan)


class _Collector:
    """Stands for a client, and returns the plan."""

    def take(self, plan: Plan) -> Plan:
        return plan


Function = Callable[..., Any] | str


def _function(f: Function) -> Callable[..., Any]:
    if callable(f):
        return f
    if f.startswith("_") or not callable(getattr(_functions, f, None)):
        raise ValueError(f"no reduction is called {f!r}")
    return getattr(_functions, f)  # type: ignore[no-any-return]


def _asked(request: Any) -> Plan:
    """The plan of one of `many`."""
    if not isinstance(request, (tuple, list)) or len(request) not in (2, 3) or not isinstance(request[-1], dict) and len(request) == 3:
        raise TypeError(f"requests: each is (function or its name, array), and may have a dict; not {request!r:.60}")
    f, a, *kw = request
    return _function(f)(a, client=_Collector(), **(kw[0] if kw else {}))  # type: ignore[no-any-return]


def submit(f: Function, a: Any, *args: Any, client: Client | None = None, **kw: Any) -> Task:
    """Start a reduction and return its Future. `f` is a function of this package or its name; its other arguments follow. The
    elements must not change until it is done.

    >>> reduced.submit("sum", [1, 2, 3]).result()
    6
    """
    return _function(f)(a, *args, client=_Starter(client), **kw)  # type: ignore[no-any-return]


def _joinable(p: Plan) -> Any:
    """What requests must share to travel as segments of one; None: it travels alone."""
    s = p.spec
    if not isinstance(p.source, Memory) or p.source.nbytes > LITTLE or s.rows != 1 or s.flags & _abi.COLUMNS or s.mask or s.initial or s.offsets:
        return None
    return s.op, s.dtype, s.out, s.nan, s.flags, s.ddof


def _joined(plans: list[Plan]) -> Plan:
    """One request of segments for requests of single small arrays."""
    first = plans[0]
    parts = [p.source.a.reshape(-1) for p in plans]  # type: ignore[attr-defined]
    data = np.concatenate(parts)
    offsets = np.concatenate([[0], np.cumsum([part.size for part in parts])]).astype(np.uint64)
    spec = _abi.Spec.from_buffer_copy(first.spec)
    spec.rows, spec.offsets = len(plans), offsets.ctypes.data
    cells = np.empty((len(plans),) + first.cells.shape, first.cells.dtype)

    def spread(cells: Any) -> None:
        for p, cell in zip(plans, cells):
            p.cells[...] = cell
    return Plan(first.op, first.element, spec, Memory(data), cells, spread, [offsets, data])


def many(requests: Iterable[tuple[Any, ...]], *, client: Client | None = None, deadline: float | None = None) -> list[Any]:
    """Several reductions at once: small arrays of one type share a message, and all messages are under way together. A request
    is (function or its name, array), and may have a dict of further arguments.

    >>> reduced.many([("sum", [0.1, 0.2]), ("max", [3, 4]), ("var", [1.0, 3.0], {"ddof": 1})])
    [0.30000000000000004, 4, 2.0]
    """
    ms = milliseconds(deadline, "deadline")
    plans = [_asked(request) for request in requests]
    groups: dict[Any, list[Plan]] = {}
    for p in plans:
        groups.setdefault(_joinable(p) or id(p), []).append(p)
    batches = [_joined(g) if len(g) > 1 else g[0] for g in groups.values()]
    jobs: list[Job] = []
    try:
        for p in batches:
            p.spec.deadline_ms = ms
            if p.source.jobs and p.cells.size:
                jobs.append(Job(client or default(), p))
        for job in jobs:
            wait(job, None)
    finally:
        for job in jobs:
            job.free()
    for p in batches:
        if not p.source.jobs and p.cells.size:
            check(p.source.run(client or p.source.client or default(), ctypes.byref(p.spec), p.cells.ctypes.data, p.cells.nbytes, None))
    for g, p in zip(groups.values(), batches):
        if len(g) > 1:
            p.value()
    return [p.value() for p in plans]
