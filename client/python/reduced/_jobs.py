"""Reductions in the background, and many at once."""
from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import sys
import threading
import time
from concurrent.futures import Future, InvalidStateError
from queue import Empty, SimpleQueue
from types import FunctionType, MethodType
from typing import Any, Callable, Iterable, Iterator

import numpy as np

from . import _abi, _functions, _order, _pairs
from ._client import Client, default
from .errors import Error, ForkedError
from ._lib import check, milliseconds
from ._plan import Plan
from ._prepare import RANKED
from ._run import Job, run, wait
from ._sources import Memory

DONE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
LITTLE = 1 << 16  # bytes: smaller arrays share a message


class Task(Future[Any]):
    """A reduction under way: a concurrent.futures.Future that can be cancelled and says how far it is."""

    def __init__(self, client: Client, plan: Plan):
        super().__init__()
        self.set_running_or_notify_cancel()
        self._using = threading.RLock()  # guards the job, which may end before it has a handle and is not freed during a call
        self._job: Job | None = None
        if plan.source.jobs and plan.cells.size:
            try:
                _under_way.add(self)  # keeps the job alive until it has ended
                with self._using:
                    self._job = Job(client, plan, DONE(lambda *_: _ended.put(self)))  # called by a thread of the library, which must not wait
            except BaseException:
                _under_way.discard(self)
                raise
        else:
            threading.Thread(target=self._run, args=(client, plan), daemon=True).start()

    def _run(self, client: Client, plan: Plan) -> None:
        """Reduce elements on the GPU or with the daemon, for which the library has no jobs."""
        self._complete(lambda: run(plan, client), plan, client)

    def _finish(self) -> None:
        with self._using:
            job = self._job
        if job is None:  # the caller was interrupted before the task had its job
            return

        def end() -> Any:
            job.wait()
            return job.plan.value()
        try:
            self._complete(end, job.plan, job.client)
        finally:
            with self._using:
                job.free()  # waits for its callback
            with _settled:
                _under_way.discard(self)
                _settled.notify_all()

    def _complete(self, end: Callable[[], Any], plan: Plan, client: Client) -> None:
        """Complete the task with the value of `end`, or with its exception."""
        value: Any = None
        error: BaseException | None = None
        try:
            try:
                value = end()
            except Error as e:
                value = plan.instead(e, client)
        except BaseException as e:
            error = e
        with contextlib.suppress(InvalidStateError):  # the caller has already completed the task
            if error is None:
                self.set_result(value)
            else:
                self.set_exception(error)

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the value."""
        self._help(timeout)
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end. The exception, or None after success."""
        self._help(timeout)
        return super().exception(timeout)

    def _help(self, timeout: float | None) -> None:
        """Callbacks run on the thread that completes tasks. One that waits for another task completes tasks meanwhile."""
        if threading.current_thread() is not _finisher:
            return
        end = None if timeout is None else time.monotonic() + timeout
        while not self.done():
            try:
                _ended.get(timeout=None if end is None else max(0.0, end - time.monotonic()))._finish()
            except Empty:
                return

    def cancel(self) -> bool:
        """Ask the reduction to end soon with CancelledError. False: it is already done."""
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
_settled = threading.Condition()  # one of them less
_finisher: threading.Thread | None = None


def _finish_all() -> None:
    while True:
        try:
            _ended.get()._finish()
        except BaseException:  # from a callback, such as SystemExit; other tasks need this thread
            threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


def _start_finisher() -> None:
    """Start the thread that completes tasks. Callbacks of tasks may call anything; those of the library may not."""
    global _finisher
    if _finisher is None:
        _finisher = threading.Thread(target=_finish_all, name="reduced", daemon=True)
        _finisher.start()


@atexit.register
def _end() -> None:
    """No callback may run after the end of Python, which ends a thread of the library where it waits for the interpreter."""
    for task in list(_under_way):
        task.cancel()
    with _settled:
        _settled.wait_for(lambda: not _under_way, timeout=10)


def _forget() -> None:
    """In a forked child: the tasks are the parent's, and so are threads that may hold their locks."""
    global _ended, _settled, _finisher
    _ended, _settled, _finisher = SimpleQueue(), threading.Condition(), None
    for task in list(_under_way):
        vars(task).update(_using=threading.RLock(), _condition=threading.Condition(), _done_callbacks=[])  # the last two are Future's
        with contextlib.suppress(InvalidStateError):  # it was just done
            task.set_exception(ForkedError("FORKED: this task belongs to the process that submitted it, not to its forked child"))
    _under_way.clear()


os.register_at_fork(after_in_child=_forget)


class _Collector:
    """Stands for a client, and returns the plan."""

    def take(self, plan: Plan) -> Plan:
        return plan


Function = Callable[..., Any] | str
FUNCTIONS = {name: f for name, f in vars(_functions).items() if isinstance(f, FunctionType) and f.__module__ == __package__} | {
    name: f for name in _order.__all__ if isinstance(f := getattr(_order, name), FunctionType)} | {  # the public ones
    "dot": _pairs.dot, "vdot": _pairs.vdot}  # the other pairs take several reductions


def _takes_client(f: Callable[..., Any]) -> bool:
    import inspect  # takes milliseconds, and few callers come here

    return any(p.name == "client" or p.kind is p.VAR_KEYWORD for p in inspect.signature(f).parameters.values())


def _function(f: Any) -> Callable[..., Any]:
    """A reduction of this package, by name or as it is, or a caller's function or partial that passes its `client` to one."""
    if isinstance(f, str):
        if f not in FUNCTIONS:
            raise ValueError(f"f: no reduction is called {f!r}")
        return FUNCTIONS[f]
    whole = not isinstance(f, functools.partial) and str(getattr(f, "__module__", "")).partition(".")[0] == "reduced"
    if not isinstance(f, (FunctionType, MethodType, functools.partial)) or whole and FUNCTIONS.get(getattr(f, "__name__", "")) is not f:
        raise TypeError(f"f: {f!r:.60} is not a reduction of this package that tasks can do")
    if not whole and not _takes_client(f):
        raise TypeError(f"f: {f!r:.60} has no argument `client`")
    return f


def _plan(f: Any, a: Any, *args: Any, **kw: Any) -> Plan:
    """The plan that a function makes."""
    call = _function(f)
    found = call(a, *args, client=_Collector(), **kw)
    if not isinstance(found, Plan):
        known = call in FUNCTIONS.values()
        raise TypeError(f"f: {f!r:.60} {'with these arguments cannot be a task' if known else 'does not pass its `client` to a reduction'}")
    return found


def _asked(request: Any) -> Plan:
    """The plan of one of `many`."""
    if not isinstance(request, (tuple, list)) or len(request) not in (2, 3) or not isinstance(request[-1], dict) and len(request) == 3:
        raise TypeError(f"requests: each is (function or its name, array), and may have a dict; not {request!r:.60}")
    f, a, *others = request
    kw = others[0] if others else {}
    for name in ("client", "deadline"):
        if name in kw:
            raise TypeError(f"requests: {name} is that of all of them together")
    return _plan(f, a, **kw)


def submit(f: Function, a: Any, *args: Any, client: Client | None = None, **kw: Any) -> Task:
    """Start a reduction and return its Future. `f` is a function of this package or its name; its other arguments follow. The
    elements must not change until it is done.

    >>> reduced.submit("sum", [1, 2, 3]).result()
    6
    """
    if client is not None and not isinstance(client, Client):
        raise TypeError(f"client is a Client, not {client!r}")
    plan = _plan(f, a, *args, **kw)
    _start_finisher()
    return Task(client or plan.source.client or default(), plan)


def _joinable(p: Plan) -> Any:
    """What requests must share to be sent as segments of one request; None: it is sent alone."""
    s = p.spec
    if p.op in RANKED or p.of_nothing or not isinstance(p.source, Memory) or p.source.nbytes > LITTLE or s.rows != 1 or s.flags & _abi.COLUMNS or s.mask or s.weights or s.initial or s.offsets:
        return None
    return s.op, s.dtype, s.out, s.nan, s.flags, s.ddof


def _joined(plans: list[Plan]) -> Plan:
    """One request of segments for requests of single small arrays."""
    first = plans[0]
    parts = [p.source.a.reshape(-1).view(first.element.view) for p in plans]  # type: ignore[attr-defined]  # dates as integers
    data = np.concatenate(parts)
    offsets = np.concatenate([[0], np.cumsum([part.size for part in parts])]).astype(np.uint64)
    spec = _abi.Spec.from_buffer_copy(first.spec)
    spec.rows, spec.offsets = len(plans), offsets.ctypes.data
    cells = np.empty((len(plans),) + first.cells.shape, first.cells.dtype)

    def spread(cells: Any) -> None:
        for p, cell in zip(plans, cells):
            p.cells[...] = cell
    return Plan(first.op, first.element, spec, Memory(data), cells, spread, [offsets, data])


@contextlib.contextmanager
def _naming(numbers: list[int]) -> Iterator[None]:
    """Errors raised within it name the request. In a shared message, the index of the result says which one."""
    try:
        yield
    except Error as e:
        if len(numbers) == 1:
            e.args = (f"{e.args[0]} (requests[{numbers[0]}])",)
        elif e.index is not None:
            e.args, e.index = (f"{e.args[0].replace(f'row {e.index}: ', '')} (requests[{numbers[e.index]}])",), None
        raise
    except (TypeError, ValueError) as e:
        if type(e) in (TypeError, ValueError):
            e.args = (f"{e} (requests[{numbers[0]}])",)
        raise


def many(requests: Iterable[tuple[Any, ...]], *, client: Client | None = None, deadline: float | None = None) -> list[Any]:
    """Several reductions at once: small arrays of one type share a message, and all messages are under way together. A request
    is (function or its name, array), and may have a dict of further arguments. An error names its request.

    >>> reduced.many([("sum", [0.1, 0.2]), ("max", [3, 4]), ("var", [1.0, 3.0], {"ddof": 1})])
    [0.30000000000000004, 4, 2.0]
    """
    ms = milliseconds(deadline, "deadline")
    plans: list[Plan] = []
    groups: dict[Any, list[int]] = {}
    for i, request in enumerate(requests):
        with _naming([i]):
            plans.append(_asked(request))
        groups.setdefault(_joinable(plans[i]) or id(plans[i]), []).append(i)
    batches = [(_joined([plans[i] for i in g]) if len(g) > 1 else plans[g[0]], g) for g in groups.values()]
    values: dict[int, Any] = {}  # of requests without cells of their own: all elements were NaN
    jobs: list[tuple[Job, list[int]]] = []
    try:
        for p, g in batches:
            p.spec.deadline_ms = ms
            if p.source.jobs and p.cells.size:
                jobs.append((Job(client or default(), p), g))
        for job, g in jobs:
            with _naming(g):
                try:
                    wait(job, None)
                except Error as e:
                    values[g[0]] = job.plan.instead(e, job.client)
    finally:
        for job, _ in jobs:
            job.free()
    for p, g in batches:
        with _naming(g):
            if not p.source.jobs and p.cells.size:
                check(p.source.run(client or p.source.client or default(), ctypes.byref(p.spec), p.cells.ctypes.data, p.cells.nbytes, None))
            if len(g) > 1:
                p.value()
    found = []
    for i, p in enumerate(plans):
        with _naming([i]):
            found.append(values[i] if i in values else p.value())
    return found
