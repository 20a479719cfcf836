"""Running a plan: by one call, or as a job, which can report its progress."""
from __future__ import annotations

import ctypes
import os
import sys
from typing import Any, Callable

from . import _abi
from ._client import Client, default
from ._lib import check, lib, milliseconds
from ._plan import Plan
from ._prepare import RANKED
from ._results import located
from ._sources import address
from .errors import Error

SLICE_MS = 50  # how often progress is reported
Progress = Callable[[int, int], Any]


class Job:
    """A request that the library runs in the background. It keeps its memory, its callback and its client alive, and owns its handle: an
    exception between any two lines, such as KeyboardInterrupt, leaves no request behind that writes to freed memory."""

    handle = ctypes.c_void_p()  # of a job whose constructor was interrupted: none

    def __init__(self, client: Client, plan: Plan, done: Any = None):
        self.client, self.plan, self.done, self.pid, self.handle = client, plan, done, os.getpid(), ctypes.c_void_p()
        plan.result = _abi.Result(size=ctypes.sizeof(_abi.Result))
        check(plan.source.start(client, ctypes.byref(plan.spec), plan.cells.ctypes.data, plan.cells.nbytes, done, ctypes.byref(self.handle)))

    def wait(self, ms: int = 2**32 - 1) -> bool:
        """True once it is done. Raises the error of the job."""
        try:
            return check(lib().reduce_wait(self.handle, ms, ctypes.byref(self.plan.result))) != _abi.PENDING
        except Error as e:
            raise located(e, self.plan.finish)

    def progress(self) -> tuple[int, int]:
        """Bytes that the daemon has acknowledged, and their total."""
        done, total = ctypes.c_uint64(), ctypes.c_uint64()
        lib().reduce_job_progress(self.handle, ctypes.byref(done), ctypes.byref(total))
        return done.value, total.value

    def cancel(self) -> None:
        """Ask it to end soon."""
        lib().reduce_cancel(self.handle)

    def free(self) -> None:
        """Cancel it, wait for its end, and free its memory. In a forked child it belongs to the parent."""
        if not self.handle:
            return
        ours, free = os.getpid() == self.pid, lib().reduce_job_free
        handle, self.handle = self.handle, ctypes.c_void_p()  # signals are handled after calls: from here on, after `free`
        if ours:
            free(handle)

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_ending():  # then modules may be empty
            self.free()


def wait(job: Job, progress: Progress | None) -> None:
    """Wait until a job is done. An exception, such as KeyboardInterrupt, cancels it."""
    try:
        while not job.wait(SLICE_MS):
            if progress:
                progress(*job.progress())
        if progress:
            progress(*job.progress())
    finally:
        job.free()


def run(plan: Plan, client: Any = None, deadline: float | None = None, progress: Progress | None = None) -> Any:
    """The value of a plan. `client` may be an object that takes the plan instead of a client (`_jobs.py`)."""
    if deadline is not None:
        plan.spec.deadline_ms = milliseconds(deadline, "deadline")
    if progress is not None and not callable(progress):
        raise TypeError(f"progress is a function of two numbers, not {progress!r}")
    if client is None:
        client = plan.source.client or default()
    elif not isinstance(client, Client):
        if not hasattr(client, "take"):
            raise TypeError(f"client is a Client, not {client!r}")
        if progress is not None:
            raise TypeError("progress is of calls that wait; that of a task is its method progress()")
        return client.take(plan)
    if not plan.cells.size:
        return plan.value()
    if progress and plan.source.jobs and plan.op not in RANKED:
        wait(Job(client, plan), progress)
    else:
        try:
            check(plan.source.run(client, ctypes.byref(plan.spec), address(plan.cells), plan.cells.nbytes, plan.result and ctypes.byref(plan.result)))
        except Error as e:
            raise located(e, plan.finish)
    return plan.value()
