"""What failed requests raise: one exception for each error code of libreduce. Where Python has an exception with that meaning, ours is one
of its kind, too. All are names of `reduced`, as well: reduced.ShapeError."""
from __future__ import annotations

from typing import Any

from . import _abi

__all__ = [
    "Error", "ArgumentError", "AuthError", "BadHandleError", "BadMessageError", "BusyError", "CancelledError", "DeadlineError",
    "DeviceLostError", "EmptyError", "ExistsError", "ForkedError", "InternalError", "InterruptedError_", "IoError", "NanError",
    "NoDaemonError", "NoMemoryError", "NoSessionError", "OpError", "OverflowError_", "ProtocolError", "QuotaError", "ShapeError",
    "StartError", "StreamLostError", "TimeoutError_", "TooLargeError", "TypeError_", "VersionError"]
NOT_KNOWN = 2**127 - 1  # what the library writes for an exact value that it does not know


class Error(Exception):
    """What every failed reduction raises.

    `code` is the name of the error, `field` the argument or field concerned, and `limit` a cap that was exceeded. `index` is the
    number of the result concerned (None: none), `retry` the daemon's hint in seconds, and `exact` the exact value that did not fit.
    """

    name = ""

    def __init__(self, text: str, field: str = "", limit: int = 0, index: int | None = None, retry: float = 0.0, exact: int | None = None):
        super().__init__(text)
        self.code, self.field, self.limit, self.index, self.retry, self.exact = self.name, field, limit, index, retry, exact

    def __reduce__(self) -> Any:
        return type(self), (self.args[0], self.field, self.limit, self.index, self.retry, self.exact)


class BadMessageError(Error, ValueError):
    """A field of the request is malformed."""


class VersionError(Error):
    """Daemon and library speak no common version of the protocol."""


class TypeError_(Error, TypeError):
    """The operation is not possible for the element or reply type."""


class OpError(Error, ValueError):
    """Unknown operation."""


class ShapeError(Error, ValueError):
    """Lengths, rows or offsets do not fit together."""


class EmptyError(Error, ValueError):
    """No element to choose from."""


class OverflowError_(Error, OverflowError):
    """The exact value does not fit the result's type; `exact` has it as an int. It is None for products beyond 64 bits and sums of
    squares of 2^127 or more: those are not known exactly."""


class NanError(Error, ArithmeticError):
    """A NaN was found, and nan="raise", or the result's type has none."""


class TooLargeError(Error, ValueError):
    """Above a cap; `limit` is its value."""


class QuotaError(Error):
    """This client's share of a resource is used up."""


class BusyError(Error):
    """No capacity, also after repeats; `retry` is the daemon's hint."""


class DeadlineError(Error, TimeoutError):
    """Not done before the deadline."""


class CancelledError(Error):
    """Cancelled before it was done."""


class NoSessionError(Error, ConnectionError):
    """The daemon does not know the session."""


class BadHandleError(Error, LookupError):
    """The daemon does not know the stream, has no data of this name, or cannot open the allocation."""


class IoError(Error, OSError):
    """Reading the data failed."""


class AuthError(Error, PermissionError):
    """Not allowed."""


class DeviceLostError(Error):
    """The device failed, also after repeats."""


class NoMemoryError(Error, MemoryError):
    """Out of memory, here or in the daemon."""


class InternalError(Error):
    """A defect of the daemon."""


class ExistsError(Error):
    """Data of this name exist already."""


class ArgumentError(Error, ValueError):
    """An argument of libreduce is invalid."""


class NoDaemonError(Error, ConnectionError):
    """No daemon listens, or it went away and did not come back in time."""


class TimeoutError_(Error, TimeoutError):
    """No progress for the client's timeout."""


class StreamLostError(Error, ConnectionError):
    """The daemon restarted during a stream: begin again with the first element."""


class ForkedError(Error):
    """A client was used in a forked child."""


class ProtocolError(Error):
    """The reply is not one of this protocol."""


class StartError(Error):
    """The daemon could not be started."""


class InterruptedError_(Error, InterruptedError):
    """The program wanted the call to end. Python's own signals raise what their handlers do instead."""


def _code(cls: type[Error]) -> str:
    """The error code of a class: "TOO_LARGE" of TooLargeError."""
    words = cls.__name__.rstrip("_").removesuffix("Error")
    return "".join(f"_{c}" if c.isupper() else c for c in words).lstrip("_").upper()


def text_of(raw: bytes) -> str:
    """What a daemon wrote, whatever its bytes are."""
    return raw.decode("utf-8", "replace")


NUMPYS = {"range": "ptp", "norm1": "norm", "norm2": "norm", "norminf": "norm"}  # names of operations and of functions
CLASSES = {_code(cls): cls for cls in Error.__subclasses__()}
for _name, _class in CLASSES.items():
    _class.name = _name


def of(err: int, text: str, fault: Any) -> Error:
    """The exception of error `err`."""
    cls = CLASSES.get(_abi.ERRORS.get(err, ""), Error)
    exact = None
    if err == _abi.E_OVERFLOW:
        exact = fault.value_low | fault.value_high << 64
        exact = None if exact == NOT_KNOWN else exact - ((exact >> 127) << 128)
    index = None if fault.index == _abi.NO_INDEX else fault.index
    for name, ours in NUMPYS.items():
        text = text.replace(f" {name} of no elements", f" {ours} of no elements").replace(f" exact {name} does not", f" exact {ours} does not")
    return cls(text, text_of(fault.field), fault.limit, index, fault.retry_ms / 1000, exact)
