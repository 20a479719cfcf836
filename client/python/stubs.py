#!/usr/bin/python3
"""Write the types of the package for type checkers: `__init__.pyi` and `aio.pyi`, with the overloads of each reduction. The wheel has
them. It reads the sources and imports nothing, so that signatures are written once.

    client/python/stubs.py FOLDER"""
import ast
import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent / "reduced"
HEAD = '''"""Made by client/python/stubs.py."""
from os import PathLike
from typing import Any, Callable, Literal, Sequence, SupportsIndex, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

'''
NAMES = '''
_Axis = SupportsIndex | Sequence[SupportsIndex] | None
_Masked = np.ma.MaskedArray[Any, Any]
_Floats = NDArray[np.floating[Any]] | Sequence[float] | float
_Integers = NDArray[np.integer[Any]] | Sequence[int] | int
_Bools = NDArray[np.bool_]
_Complexes = NDArray[np.complexfloating[Any, Any]] | Sequence[complex] | complex
_Out = TypeVar("_Out", bound=NDArray[Any])
'''
ARGUMENTS = {"a": "Any", "axis": "_Axis", "dtype": "DTypeLike | None", "out": "NDArray[Any] | None", "keepdims": "bool", "initial": "Any", "where": "Any",
             "nan": 'Literal["propagate", "omit", "raise"]', "wrap": "bool", "offsets": "ArrayLike | None", "client": "Client | None",
             "deadline": "float | None", "progress": "Callable[[int, int], Any] | None", "ddof": "float", "mean": "Any",
             "q": "ArrayLike", "k": "SupportsIndex", "method": "str", "overwrite_input": "bool", "weights": "ArrayLike | None", "interpolation": "str | None",
             "correction": "float | None", "index": "bool", "dim": "SupportsIndex | None", "largest": "bool", "sorted": "bool", "bins": "Any",
             "range": "tuple[float, float] | None", "density": "bool | None", "ord": 'float | Literal["fro"] | None', "op": 'Literal["and", "or", "xor"]'}
WHOLE = {"axis": "None", "dtype": "None", "out": "None", "keepdims": "Literal[False]", "offsets": "None", "index": "Literal[False]"}  # what gives one number
ELEMENTS = [("_Bools", "bool"), ("_Integers", "int"), ("_Floats", "float"), ("_Complexes", "complex")]
# What a number of a reduction is: a type, or for elements of each kind. Dates, tensors and tables have results of their own.
INTEGER = [("_Bools | _Integers", "int")]
NUMBERS = {"sum": [*INTEGER, *ELEMENTS[2:]], "mean": [("_Bools | _Integers | _Floats", "float"), ELEMENTS[3]], "bits": ELEMENTS[:2],
           "min": ELEMENTS[:3], "ptp": [*INTEGER, ELEMENTS[2]], "var": "float", "std": "float", "sem": "float", "rms": "float", "norm": "float", "any": "bool",
           "all": "bool", "argmin": "int", "argmax": "int", "count_nonzero": "int",
           "median": [("_Bools | _Integers | _Floats", "float")], "kth": ELEMENTS[:3]}
LIKE = {"prod": "sum", "max": "min", "amin": "min", "amax": "min"}
SEVERAL = {"minmax": "MinMax", "stats": "Stats", "quantile": "Any", "percentile": "Any", "topk": "TopK", "histogram": "tuple[NDArray[Any], NDArray[Any]]"}


def reductions():
    """(name, arguments) of each public reduction, also of those that omit NaNs."""
    body = [n for module in ("_functions.py", "_order.py") for n in ast.parse((PACKAGE / module).read_text()).body]
    found = {f.name: f.args for f in body if isinstance(f, ast.FunctionDef) and f.name[0] != "_"}
    for n in body:
        if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call) and getattr(n.value.func, "id", "") in ("_omitting", "_or_nan"):
            found[n.targets[0].id] = found[n.value.args[0].id]
    return found | {"amin": found["min"], "amax": found["max"]}


def overload(name, args, result, told, keyword=""):
    """One of its signatures, where some arguments have types of their own. `keyword` is given, by its name."""
    everything = [*args.args, *args.kwonlyargs]
    defaults = [None] * (len(args.args) - len(args.defaults)) + [*args.defaults, *args.kw_defaults]
    parts, starred = [], False
    for i, (a, default) in enumerate(zip(everything, defaults)):
        if a.arg == "nan" and name.startswith("nan"):
            continue
        if not starred and (i >= len(args.args) or a.arg == keyword):
            parts, starred = [*parts, "*"], True
        given = default is None or a.arg == keyword
        parts.append(f"{a.arg}: {told.get(a.arg, ARGUMENTS[a.arg])}" + ("" if given else f" = {ast.unparse(default)}"))
    return f"def {name}({', '.join(parts)}) -> {result}: ..."


def signatures(name, args):
    base = name.removeprefix("nan") if name != "nan" else name
    if base in SEVERAL:
        return [overload(name, args, SEVERAL[base], {})]
    numbers, has = NUMBERS[LIKE.get(base, base)], {a.arg for a in [*args.args, *args.kwonlyargs]}
    numbers = [("Any", numbers)] if isinstance(numbers, str) else numbers
    none = {"out": "None"}
    found = [overload(name, args, "Any", {"a": "_Masked"})]
    if "out" in has:
        found.append(overload(name, args, "_Out", {"out": "_Out"}, "out"))
    found += [overload(name, args, "NDArray[Any]", {**none, "keepdims": "Literal[True]"}, "keepdims"),
              overload(name, args, "NDArray[Any]", {**none, "offsets": "ArrayLike"}, "offsets"),
              *([overload(name, args, "Kth", {"index": "Literal[True]"}, "index")] if "index" in has else []),
              *(overload(name, args, result, {**WHOLE, "a": kind}) for kind, result in numbers),
              overload(name, args, "Any", {})]
    return found


def functions(prefix=""):
    for name, args in reductions().items():
        found = signatures(name, args)
        for text in found:
            yield ("@overload\n" if len(found) > 1 else "") + prefix + text


def package():
    """The public names of the package; those that are no reductions are where `__init__.py` imports them from."""
    code = ast.parse((PACKAGE / "__init__.py").read_text())
    own, lines = set(reductions()), []
    for n in ast.walk(code):
        if isinstance(n, ast.ImportFrom) and n.level == 1 and n.module and n.module != "magic":
            names = [a.name for a in n.names if a.name not in own]
            if names:
                lines.append(f"from .{n.module} import {', '.join(f'{x} as {x}' for x in names)}")
    version, names = (ast.unparse(n) for n in code.body if isinstance(n, ast.Assign) and n.targets[0].id in ("__version__", "__all__"))
    return HEAD + "\n".join([*lines, NAMES, re.sub(" =.*", ": str", version), names, *functions(), "def load_ipython_extension(shell: Any) -> None: ..."]) + "\n"


def asynchronous():
    return HEAD + "from ._client import Client\nfrom ._functions import MinMax, Stats\nfrom ._order import Kth, TopK\n" + NAMES + "\n".join(functions("async ")) + "\n"


def write(folder):
    """Into a folder, as the files of the package."""
    Path(folder, "__init__.pyi").write_text(package())
    Path(folder, "aio.pyi").write_text(asynchronous())


if __name__ == "__main__":
    write(sys.argv[1])
