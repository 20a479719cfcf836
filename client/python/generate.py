#!/usr/bin/env python3
"""Write reduced/_abi.py, as `make` does after a change of either: the structs, constants and calls of client/reduce.h and the tables
of proto/types.def, for ctypes."""
import os
import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(__file__).parent / "reduced/_abi.py"
SCALARS = {"uint32_t": "c_uint32", "int32_t": "c_int32", "uint64_t": "c_uint64", "int64_t": "c_int64", "size_t": "c_size_t",
           "double": "c_double", "int": "c_int", "char": "c_char", "uint8_t": "c_uint8"}

CALLBACKS = ("reduce_done", "reduce_exchange", "reduce_interrupted")


def header():
    """reduce.h without comments and without macros, but for the constants that are macros."""
    text = (ROOT / "client/reduce.h").read_text()
    constants = re.findall(r"^#define (REDUCE_(?:VERSION_\w+|NO_INDEX|REST)) (\w+)$", text, re.M)
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.M)
    return re.sub(r'extern "C" \{', "", text), constants


def enums(text):
    """(name, value) of every constant."""
    for body in re.findall(r"enum \w* ?\{(.*?)\}", text, re.S):
        yield from re.findall(r"(REDUCE_\w+) = (-?\d+)", body)


def ctype(base, pointer):
    if pointer:
        return "c_char_p" if base == "char" else "c_void_p"
    return "c_void_p" if base in CALLBACKS else SCALARS.get(base) or base


def structs(text):
    """(kind, name, [(field, type)]) of every struct and union that has fields."""
    for kind, name, body in re.findall(r"typedef (struct|union) (\w+) \{(.*?)\} \2;", text, re.S):
        body = re.sub(r"\w+ \(\*(\w+)\)\([^;]*\);", r"void *\1;", body)  # pointers to functions
        fields = re.findall(r"(?:const )?(\w+) (\*?)(\w+)(?:\[(\d+)\])?;", body)
        yield kind, name, [(field, ctype(base, star) + (f" * {n}" if n else "")) for base, star, field, n in fields]


def calls(text):
    """(name, result, [types]) of every function."""
    flat = " ".join(re.sub(r"\{.*?\}", "{}", text, flags=re.S).split())
    for result, star, name, arguments in re.findall(r"(?:const )?(\w+) (\*?)(reduce_\w+)\(([^;]*)\);", flat):
        yield name, None if result == "void" else ctype(result, star), list(map(argument, split(arguments)))


def split(arguments):
    """At the commas that stand in no brackets."""
    return [] if arguments == "void" else re.split(r", (?![^()]*\))", arguments)


def argument(text):
    if "(" in text:
        return "c_void_p"
    m = re.match(r"(?:const )?(\w+) (\**)\w+$", text)
    if m[1] in CALLBACKS:
        return "c_void_p"
    return ctype(m[1], m[2] if m[1] != "char" or m[2] == "*" else "**")


def rows(name):
    """The rows of a table of types.def, as lists of words."""
    text = (ROOT / "proto/types.def").read_text()
    body = re.search(rf"#define {name}\(X\)(.*?)(?<!\\)\n", text.replace("\\\n", " ") + "\n", re.S)[1]
    return [[w.strip('"') for w in re.findall(r'"[^"]*"|\w+', row)] for row in re.findall(r'X\(((?:"[^"]*"|[^()"])*)\)', body)]


def class_name(struct):
    return "".join(word.capitalize() for word in struct.removeprefix("reduce_").split("_"))


def listed(entries, indent):
    """Entries on lines as long as they may be."""
    return textwrap.wrap(", ".join(entries) + ",", 156, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def write():
    text, constants = header()
    names = {name: class_name(name) for _, name, _ in structs(text)}
    yield '"""Made by generate.py from client/reduce.h and proto/types.def. Do not edit."""'
    yield "from __future__ import annotations\n"
    yield "from ctypes import Structure, Union, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_uint8, c_void_p"
    yield "from typing import Any, NamedTuple\n"
    for name, value in [*((n, v.replace("UINT64_MAX", "2**64 - 1")) for n, v in constants), *enums(text)]:
        yield f"{name.removeprefix('REDUCE_')} = {value}"
    yield "ERRORS = {"
    yield from listed((f'{value}: "{name[9:]}"' for name, value in enums(text) if name.startswith("REDUCE_E_")), "    ")
    yield "}"
    for kind, name, fields in structs(text):
        yield f"\n\nclass {names[name]}({kind.capitalize().replace('Struct', 'Structure')}):  # {name}"
        yield "    _fields_ = ["
        yield from listed((f'("{field}", {names.get(base, base)})' for field, base in fields), "        ")
        yield "    ]"
    yield "\n\nSTRUCTS: dict[str, Any] = {"
    yield from listed((f'"{n}": {c}' for n, c in names.items()), "    ")
    yield "}"
    yield "\n\nclass Op(NamedTuple):\n    code: int\n    value: str\n    empty: bool\n    ddof: bool\n\n"
    yield "OPS = {"
    yield from listed((f'"{r[1]}": Op({r[2]}, "{r[4]}", {r[9] == "EMPTY"}, {"DDOF" in r[10]})' for r in rows("RP_OPS")), "    ")
    yield "}"
    yield "DTYPES = {" + ", ".join(f'"{r[1]}": {r[2]}' for r in rows("RP_DTYPES")) + "}"
    yield "CALLS: dict[str, tuple[Any, list[Any]]] = {"
    for name, result, arguments in calls(text):
        yield f'    "{name}": ({result}, [{", ".join(arguments)}]),'
    yield "}"


if __name__ == "__main__":
    mine = TARGET.with_suffix(f".{os.getpid()}")  # several builds of a tree may write it at the same time
    mine.write_text("\n".join(write()) + "\n")
    mine.replace(TARGET)
