"""A connection to a daemon. The first call that names no client opens the default one."""
from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
import weakref
from typing import Any, Callable, NamedTuple

from . import _abi, _signals
from .errors import text_of
from ._lib import check, lib, milliseconds, program

PRIORITIES = {"normal": _abi.PRIORITY_NORMAL, "high": _abi.PRIORITY_HIGH, "background": _abi.PRIORITY_BACKGROUND}
ENTRY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_abi.Entry))
GPU = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_abi.Gpu))
TEXT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)


class TLS(NamedTuple):
    """PEM files for a daemon on the network: the CAs to trust, this client's certificate and its key."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None


class Info(NamedTuple):
    """What a client knows about its connection."""

    url: str
    server: str
    autostarted: bool
    reconnects: int
    priority: str
    wire_version: int
    side: str


class Gpu(NamedTuple):
    """A GPU of a daemon, or an engine of the CPU."""

    name: str     # "GPU-" and its UUID, as nvidia-smi -L prints it; or "CPU-0"
    ordinal: int  # CUDA's number for it in the daemon, which may differ here
    lost: bool    # it has failed; the daemon continues with the others


def _bytes(text: str | os.PathLike[str] | None, name: str = "tls") -> bytes | None:
    try:
        return None if text is None else os.fsencode(text)
    except TypeError as e:
        raise TypeError(f"{name}: {e}") from None


def _local(local: bool | None) -> int:
    """The library's option for `local`."""
    return _abi.LOCAL_DEFAULT if local is None else _abi.LOCAL_YES if local else _abi.LOCAL_NO


class Client:
    """A connection to one daemon, for any number of threads.

    `url` is ipc:///path, tls+tcp://host:port or tcp://host:port, by default $REDUCED_URL. Without both it is the daemon of this user
    or of the system; if none listens, a private one is started (`autostart`), which exits after `idle_exit` seconds without clients.
    `tls` has the files for tls+tcp, by default $REDUCED_TLS_CA, $REDUCED_TLS_CERT and $REDUCED_TLS_KEY. With `wait` the client keeps
    trying to connect for `connect_timeout`; without `retry` it reports BUSY and lost connections instead of repeating the request.
    A `lazy` one, as the default client is, connects when a call first needs the daemon; for arrays that this process reduces itself
    none is started. `priority` is normal, high or background.

    A client reconnects by itself. It pickles as its arguments, and opens a new connection after a fork. Times are seconds. On the
    main thread, Ctrl-C or another signal whose handler raises ends a call that waits for the daemon, within 0.1 s.

    With `local` this process reduces arrays itself where sending them would take longer: small ones, and larger ones where a GPU would
    not be faster in spite of the copy. Values and errors are the same, but the daemon shows these requests as claimed only. None, the default:
    as $REDUCE_LOCAL says, "yes" or "no"; True without it. Tasks, and calls with `deadline` or `progress`, always go to the daemon.

    >>> with reduced.Client() as c:
    ...     reduced.sum([1, 2], client=c)
    3
    """

    def __init__(self, url: str | None = None, *, name: str | None = None, autostart: bool = True, wait: bool = False,
                 retry: bool = True, connect_timeout: float = 5.0, reconnect_timeout: float = 10.0, timeout: float = 60.0,
                 idle_exit: float = 600.0, tls: TLS | None = None, priority: str = "normal",
                 local: bool | None = None, lazy: bool = False):
        if priority not in PRIORITIES:
            raise ValueError(f"priority is normal, high or background, not {priority!r}")
        if tls is not None and not isinstance(tls, TLS):
            raise TypeError(f"tls is a reduced.TLS, not {type(tls).__name__}")
        if local is not None and not isinstance(local, bool):
            raise TypeError(f"local is True, False or None, not {local!r}")
        if not milliseconds(idle_exit, "idle_exit"):
            raise TypeError(f"idle_exit is a number of seconds, not {idle_exit!r}")
        self._options: dict[str, Any] = {
            "url": url, "name": name, "autostart": autostart, "wait": wait, "retry": retry, "connect_timeout": connect_timeout,
            "reconnect_timeout": reconnect_timeout, "timeout": timeout, "idle_exit": idle_exit, "tls": tls, "priority": priority,
            "local": local, "lazy": lazy}
        self._reset()
        self._open()

    def _reset(self) -> None:
        """The state before the first connection, also in a forked child."""
        self._handle: ctypes.c_void_p | None = None
        self._closed = False
        self._busy: list[None] = []  # one for each call under way: a client is not closed during a call
        self._opening = threading.Lock()
        self.allocations: dict[Any, Any] = {}  # of the device: their handles (_device.py)
        self.places: dict[int, Any] = {}       # of tensors in these allocations
        self.naming = threading.Lock()         # guards both
        _clients.add(self)

    def _open(self) -> ctypes.c_void_p:
        """The library's handle; connects if there is none."""
        with self._opening:
            if self._closed:
                raise ValueError("the client is closed")
            if self._handle is None:
                o = self._options
                tls = o["tls"] or TLS()
                flags = _abi.AUTOSTART * o["autostart"] | _abi.WAIT * o["wait"] | _abi.NO_RETRY * (not o["retry"]) | _abi.LAZY * o["lazy"]
                opts = _abi.OpenOpts(
                    size=ctypes.sizeof(_abi.OpenOpts), flags=flags, name=_bytes(o["name"], "name"), daemon=_bytes(program("reduced")),
                    connect_timeout_ms=milliseconds(o["connect_timeout"], "connect_timeout"),
                    reconnect_timeout_ms=milliseconds(o["reconnect_timeout"], "reconnect_timeout"),
                    timeout_ms=milliseconds(o["timeout"], "timeout"), idle_exit_s=max(1, round(milliseconds(o["idle_exit"], "idle_exit") / 1000)),
                    tls_ca=_bytes(tls.ca), tls_cert=_bytes(tls.cert), tls_key=_bytes(tls.key), priority=PRIORITIES[o["priority"]], local=_local(o["local"]),
                    **_signals.options(lib()))
                handle = ctypes.c_void_p()
                check(lib().reduce_open(ctypes.byref(handle), _bytes(o["url"], "url"), ctypes.byref(opts)))
                self._handle = handle
            return self._handle

    def call(self, function: str, *arguments: Any) -> int:
        """Call the library's function of that name with this client as its first argument."""
        return check(self.attempt(function, *arguments))

    def attempt(self, function: str, *arguments: Any) -> int:
        """The same, but return an error instead of raising it."""
        f = getattr(lib(), function)
        try:
            self._busy.append(None)  # in the try, as a signal's handler may raise after any call
            return int(f(self._handle or self._open(), *arguments))
        finally:
            self._busy.pop()

    def close(self) -> None:
        """Wait for the calls under way, cancel the jobs, disconnect. A closed client raises ValueError."""
        with self._opening:
            handle, self._handle, self._closed = self._handle, None, True
        while self._busy:
            time.sleep(0.0005)
        if handle is not None:
            lib().reduce_close(handle)

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        """While Python exits, other threads may be frozen inside a call, and modules may be empty."""
        if getattr(self, "_handle", None) is not None and not is_ending():
            self.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        return _restore, (self._options,)

    def __repr__(self) -> str:
        return f"<reduced.Client {'closed' if self._closed else self._url() or self._options['url']}>"

    def _url(self) -> str:
        """Of the daemon, or nothing if there is no connection."""
        i = _abi.Info(size=ctypes.sizeof(_abi.Info))
        return text_of(i.url) if self._handle and not lib().reduce_get_info(self._handle, ctypes.byref(i)) else ""

    def ping(self) -> float:
        """Seconds of a round trip through the daemon."""
        ns = ctypes.c_uint64()
        self.call("reduce_ping", ctypes.byref(ns))
        return ns.value / 1e9

    def info(self) -> Info:
        """The state of the connection, without a request. A lazy client connects."""
        i = _abi.Info(size=ctypes.sizeof(_abi.Info))
        self.call("reduce_get_info", ctypes.byref(i))
        if not i.server:
            self.ping()
            self.call("reduce_get_info", ctypes.byref(i))
        names = {v: k for k, v in PRIORITIES.items()}
        return Info(text_of(i.url), text_of(i.server), bool(i.autostarted), i.reconnects, names.get(i.priority, "?"), i.wire_version,
                    text_of(i.side))

    def status(self, topic: str = "status") -> dict[str, Any]:
        """What the daemon reports about itself: topic "info", "status" or "requests"."""
        topics = {"info": _abi.TOPIC_INFO, "status": _abi.TOPIC_STATUS, "requests": _abi.TOPIC_REQUESTS}
        if topic not in topics:
            raise ValueError(f"topic is one of {', '.join(topics)}, not {topic!r}")
        found: dict[str, Any] = {}

        def each(_: Any, entry: Any) -> int:
            e = entry.contents
            found[text_of(e.key)] = e.u64 if e.kind == _abi.KIND_U64 else e.f64 if e.kind == _abi.KIND_F64 else text_of(e.text)
            return 0
        self.call("reduce_query", topics[topic], ENTRY(each), None)
        return found

    def gpus(self) -> list[Gpu]:
        """The daemon's GPUs. A tensor on another one goes to it by a copy, with one warning."""
        found: list[Gpu] = []

        def each(_: Any, gpu: Any) -> int:
            g = gpu.contents
            found.append(Gpu(text_of(g.name), g.ordinal, bool(g.lost)))
            return 0
        self.call("reduce_gpus", GPU(each), None)
        return found

    def metrics(self) -> str:
        """The daemon's counters as Prometheus text."""
        found: list[str] = []

        def take(_: Any, text: bytes) -> int:
            found.append(text_of(text))
            return 0
        self.call("reduce_metrics", TEXT(take), None)
        return found[0]


_clients: weakref.WeakSet[Client] = weakref.WeakSet()
_default: Client | None = None
_choosing = threading.Lock()


def _restore(options: dict[str, Any]) -> Client:
    """A client from its pickle; it connects with its first call."""
    c = Client.__new__(Client)
    c._options = options
    c._reset()
    return c


def default() -> Client:
    """The client of calls without one."""
    global _default
    if _default is None:
        with _choosing:
            _default = _default or Client(lazy=True)
    return _default


def _after_fork() -> None:
    """In the child: connections belong to the parent. The next call opens a new one."""
    global _choosing
    _choosing = threading.Lock()
    for c in list(_clients):
        closed = c._closed
        c._reset()
        c._closed = closed


os.register_at_fork(after_in_child=_after_fork)
