#!/usr/bin/python3
"""Print reduced-python.7, the man page of the package: what `import reduced` gives, with signatures and examples, from its docstrings.
`make man-pages` writes it to build/man. It reads the sources and imports nothing."""
import ast
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = HERE / "reduced"
HEAD = r""".\" Made by client/python/manual.py from the package's docstrings.
.TH REDUCED-PYTHON 7 2026-11-22 "reduced 0.2.0" "Miscellaneous Information"
.nh
.ad l
.SH NAME
reduced\-python \- exact reductions with NumPy's signatures, by the daemon reduced
.SH SYNOPSIS
.nf
import reduced
.fi
.SH DESCRIPTION"""
TAIL = """.SH SEE ALSO
.BR reducectl (1),
.BR libreduce (3),
.BR reduced (8)"""
SECTIONS = {"_functions": "REDUCTIONS", "_order": "ORDER STATISTICS", "_pairs": "PAIRS", "_keys": "BY KEY", "_files": "FILES",
            "_state": "PARTIAL STATES", "_stream": "STREAMS", "_jobs": "MANY AND LATER", "_resident": "RESIDENT DATA", "_client": "CLIENTS",
            "errors": "EXCEPTIONS", "aio": "ASYNCIO", "dask": "DASK AND XARRAY", "magic": "NOTEBOOKS"}


def tree(name):
    return ast.parse((PACKAGE / f"{name}.py").read_text())


def escape(line):
    line = line.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + line if line[:1] in (".", "'") else line


def prose(text, paragraph=".PP"):
    """Paragraphs; examples, and what is indented, as they stand."""
    out = []
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in block.split("\n")]
        if lines[0].startswith(">>>") or block[0].isspace():
            own = len(block) - len(block.lstrip())
            out += [paragraph, ".nf", *(escape("    " + line[own:] if line[:own].isspace() else "    " + line) for line in block.split("\n")), ".fi"]
        else:
            out += [paragraph, *map(escape, lines)]
    return out


def docstring(node):
    return ast.get_docstring(node) or ""


def signature(name, f):
    """Without types, which the package has for type checkers; `self` is not passed."""
    for a in (*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs, f.args.vararg, f.args.kwarg):
        if a:
            a.annotation = None
    arguments = ast.unparse(f.args)
    return f"{name}({re.sub(r'^(self|cls)(, |$)', '', arguments)})"


def entry(head, node, below=()):
    return [".TP", f".B {escape(head)}", *prose(docstring(node), ".IP")[1:], *below]


def methods(cls):
    """The public ones, where they are explained."""
    found = [".RS"]
    for f in cls.body:
        if isinstance(f, ast.FunctionDef) and not f.name.startswith("_") and docstring(f):
            found += entry(signature(f"{cls.name}.{f.name}", f), f)
    return [*found, ".RE"] if len(found) > 1 else []


def section(module, title, public):
    nodes = tree(module)
    out = [f".SH {title}", *prose(docstring(nodes))] if docstring(nodes) else [f".SH {title}"]
    for node in nodes.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and docstring(node) and (node.name in public or not public and node.name[0] != "_"):
            if isinstance(node, ast.FunctionDef):
                out += entry(signature(node.name, node), node)
                continue
            init = next((f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "__init__" and module != "errors"), None)
            out += entry(signature(node.name, init) if init else node.name, node, methods(node))
    return out


def page():
    package = tree("__init__")
    public = {a.name for n in ast.walk(package) if isinstance(n, ast.ImportFrom) and n.level == 1 for a in n.names}
    lines = [HEAD, *prose(docstring(package))]
    for module, title in SECTIONS.items():
        lines += section(module, title, public if module.startswith("_") else set())
    return "\n".join([*lines, TAIL]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
