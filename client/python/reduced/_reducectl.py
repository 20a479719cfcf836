"""Files that reducectl reads: it reduces them, and this process gets values. It is the one that the package has, or that of $PATH."""
from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from typing import Any, Iterable

import numpy as np

from . import _abi
from ._client import Client
from ._elements import element
from .errors import CLASSES, Error, IoError
from ._functions import MinMax, Stats
from ._lib import milliseconds, program
from ._order import TopK
from ._plan import NANS
from ._state import first_ddof, named

FLAGS = {"text", "header", "unpack", "verify", "scale", "wrap"}  # of these options "no" is another flag, or nothing
NO = {"header": "no-header", "unpack": "no-unpack", "scale": "no-scale"}
TEXTS = {"axis", "rows", "ddof", "q", "k", "method", "initial", "delimiter", "decimal", "quote", "comment", "skip_lines", "missing", "mask", "offsets", "bins", "edges"}
LISTS = {"axis", "q", "edges"}
COUNTS = {"count", "nans", "zeros", "argmin", "argmax"}
INTEGERS = {"i64": np.dtype("i8"), "u64": np.dtype("u8")}
OUT = {"": None, "f16": np.dtype("f2"), "f32": np.dtype("f4"), "f64": np.dtype("f8"), **INTEGERS}
NUMBERS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf"), None: -1}  # None: a place of no element


def type_name(dtype: Any, name: str) -> str:
    """A type as reducectl names it. What NumPy knows has NumPy's meaning: "i8" has eight bytes."""
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except TypeError as e:
        if isinstance(dtype, str) and dtype in _abi.DTYPES:
            return dtype
        raise TypeError(f"{name}: {e}") from None
    el = element(found, name)
    if el.parts == 2 or el.dated:
        raise TypeError(f"{name}: elements of type {found} cannot be read from such files")
    return ("" if found.isnative else found.str[0]) + (next(n for n, code in _abi.DTYPES.items() if code == el.code) if found.isnative else found.str[1:])


def words_of(name: str, value: Any) -> list[str]:
    """An option as words of a command."""
    if name not in FLAGS | TEXTS:
        raise TypeError(f"file() got an unexpected keyword argument {name!r}")
    if value is None:
        return []
    flag = "--" + name.replace("_", "-")
    if name in FLAGS:
        if not isinstance(value, bool):
            raise TypeError(f"{name} is True or False, not {value!r:.60}")
        return ([] if name in ("unpack", "scale") else [flag]) if value else ["--" + NO[name]] if name in NO else []
    if name in ("mask", "offsets") and not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name} is the name of a file here, not {type(value).__name__}")
    if name == "missing" and not isinstance(value, str) or name in LISTS and isinstance(value, (tuple, list, np.ndarray)):
        return [f"{flag}={','.join(map(str, value))}"]
    return [f"{flag}={os.fspath(value) if isinstance(value, os.PathLike) else value}"]


def connection(client: Client | None) -> list[str]:
    """The options of a client."""
    if client is None:
        return []
    if not isinstance(client, Client):
        raise TypeError(f"client is a Client, not {client!r:.60}")
    o = client._options
    words = [f"--connect={o['url']}"] if o["url"] else [] if o["autostart"] else ["--no-autostart"]
    words += [f"--tls-{name}={os.fspath(path)}" for name, path in zip(("ca", "cert", "key"), o["tls"] or ()) if path is not None]
    return [*words, f"--priority={o['priority']}"]


def label(path: Any, member: str | None) -> str:
    """FILE:MEMBER. ValueError if it is the name of another file, too."""
    name = os.path.abspath(os.fsdecode(path))
    if member is None:
        return name
    whole = f"{name}:{member}"
    others = [whole[:m.start()] for m in re.finditer(":", whole)] + [whole]
    for other in others:
        if other != name and os.path.lexists(other):
            raise ValueError(f"member: {whole!r} may be meant, or a member of the file {other!r}; rename that")
    return whole


def integer(text: str) -> float:
    return -0.0 if text == "-0" else int(text)


def value_of(found: Any, out: str) -> Any:
    """A value of JSON as Python's: NaN and infinities are texts there, and floats may have no point."""
    if isinstance(found, bool):
        return found
    number = NUMBERS.get(found, found)
    return float(number) if out.startswith(("f", "bf")) else number


def several(line: dict[str, Any], wanted: Any) -> Any:
    """The values of a result that has several: those of minmax, of quantiles, the best elements, or the counts of bins."""
    out = line["out"]
    values = [value_of(x, out) for x in line["value"]]
    if line["op"] == "minmax":
        return MinMax(*values)
    array = np.array(values, wanted or INTEGERS.get(out, np.dtype(float)))
    if "index" in line:
        return TopK(array, np.array(line["index"], np.intp))
    return (array.astype(np.intp), np.array([value_of(x, "f64") for x in line["edges"]], float)) if "edges" in line else array


def one(line: dict[str, Any], wanted: Any = None) -> Any:
    """The value of a result. None: an array of several that cannot be reduced."""
    found, out = line["value"], line.get("out", line.get("type", ""))
    if isinstance(found, list):
        return several(line, wanted)
    if not isinstance(found, dict):
        return value_of(found, out) if "out" in line else None
    floats = {"mean", "var", "std", "norm2"} | ({"min", "max", "sum"} if "f" in out else set())
    none = {name: NUMBERS["nan"] if "f" in out else 0 for name in ("min", "max") if found[name] is None}  # as `stats` has it of nothing
    values = {name: value_of(x, "f64" if name in floats else "") for name, x in found.items()} | none
    return Stats(**values) if set(values) == set(Stats._fields) else values


def padded(a: Any, n: int, rest: Any) -> Any:
    return np.concatenate([a, np.full(n - len(a), rest, a.dtype)])


def together(values: list[Any], out: str, wanted: Any) -> Any:
    """The results of rows, columns or segments as one array, or as an array for each of their values."""
    first = values[0]
    if isinstance(first, TopK):  # some have fewer elements than others
        most, rest = max(len(v.indices) for v in values), NUMBERS["nan"] if first.values.dtype.kind == "f" else 0
        return TopK(np.array([padded(v.values, most, rest) for v in values]), np.array([padded(v.indices, most, -1) for v in values]))
    if isinstance(first, np.ndarray):
        return np.stack(values, axis=1)  # the quantiles first
    if type(first) is tuple:
        return np.stack([counts for counts, _ in values]), first[1]
    if isinstance(first, tuple):
        columns = zip(first._fields, zip(*values))  # type: ignore[attr-defined]
        return type(first)(*(together(list(column), "i64" if name in COUNTS else out, wanted) for name, column in columns))
    kind: Any = None if isinstance(first, (bool, float)) else INTEGERS.get(out)
    if kind is not None and not all(np.iinfo(kind).min <= x <= np.iinfo(kind).max for x in values):
        kind = object  # sums of stats have 128 bits
    return np.array(values, wanted or kind)


def failure(line: dict[str, Any]) -> Error:
    cls = CLASSES.get(line["error"], Error)
    return cls(f"{line['error']}: {line['file']}: {line['message']}", line.get("field", ""), exact=line.get("exact"))


def complaint(code: int, text: str) -> Exception:
    """What was wrong with the command, or with the daemon, from its standard error."""
    first = next((x for x in text.splitlines() if x), f"it ended with {code}").removeprefix("reducectl: ")
    if code == 2:
        return ValueError(f"reducectl: {first}")
    known = re.search(rf"\b({'|'.join(CLASSES)}): (.*)", first)
    return CLASSES[known[1]](f"{known[1]}: {known[2]}") if known else Error(f"reducectl: {first}")


def answers(command: list[str]) -> Iterable[dict[str, Any]]:
    """The lines that reducectl prints. Raises the error that it reports."""
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
        except OSError as e:
            raise IoError(f"IO: path: such files are read by the program {command[0]}, which cannot be started: {e.strerror}", "path") from None
        failed = None
        with process:
            assert process.stdout
            try:
                for line in process.stdout:
                    found = json.loads(line, parse_int=integer)
                    if "error" in found:
                        failed = failed or failure(found)
                    else:
                        yield found
            except BaseException:
                process.kill()
                raise
        if failed is None and process.returncode:
            errors.seek(0)
            failed = complaint(process.returncode, errors.read().decode("utf-8", "replace"))  # type: ignore[assignment]
        if failed is not None:
            raise failed


def reduce_file(path: Any, op: str, dtype: Any, member: str | None, nan: str, out: Any, client: Client | None, deadline: float | None,
                options: dict[str, Any]) -> Any:
    """The value of a file; of several results an array, of several members a dict."""
    op = named(op)
    if nan not in NANS:
        raise ValueError(f"nan is propagate, omit or raise, not {nan!r}")
    whole = label(path, member)
    if options.get("ddof") is None and first_ddof(op):
        options = {**options, "ddof": first_ddof(op)}
    words = [w for name, value in options.items() for w in words_of(name, value)]
    words += [f"--nan={'error' if nan == 'raise' else nan}"]
    words += [f"--dtype={type_name(dtype, 'dtype')}"] if dtype is not None else []
    name = "" if out is None else type_name(out, "out")
    if name not in OUT:
        raise TypeError(f"out: results are {', '.join(str(x) for x in OUT.values() if x)}, not {out!r:.60}")
    words, wanted = words + [f"--out={name}"] * (out is not None), OUT[name]
    words += [f"--deadline={milliseconds(deadline, 'deadline')}"] if deadline is not None else []
    command = [program("reducectl") or "reducectl", op, "--json", *words, *connection(client), "--", whole]
    found: dict[str, list[Any]] = {}
    single, kind = True, ""
    listed = isinstance(options.get("q"), (list, tuple, np.ndarray))  # a list of one gives an array, too
    for line in answers(command):
        if listed and not isinstance(line["value"], list):
            line["value"] = [line["value"]]
        found.setdefault(line.get("array", line["file"]), []).append(one(line, wanted))
        single = single and not {"row", "column", "segment", "result"} & set(line)
        kind = "i64" if _abi.OPS[op].value == "NUMBER" else line.get("out", "")
    if not found:
        return np.empty(0, wanted)
    for name, v in found.items():
        if single and len(v) > 1:
            raise ValueError(f"path: {len(v)} members are called {name!r}")
    values = {name.removeprefix(label(path, None) + ":"): v[0] if single else together(v, kind, wanted) for name, v in found.items()}
    return values if len(values) > 1 else next(iter(values.values()))
