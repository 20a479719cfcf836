"""Stands in for the libreduce of an earlier version: the functions of its header, which do nothing, with their types. Programs
link with it and run with today's library; abidiff compares the two."""
import pathlib
import re
import subprocess

HERE = pathlib.Path(__file__).parent
VERSIONS = {"0.1": HERE / "reduce-0.1.h"}
MAP = "REDUCE_0 { global: reduce_*; local: *; };\n"


def statements(header):
    """Those of a header at the top level, preprocessed."""
    text = subprocess.run(["gcc", "-E", "-P", "-x", "c", "-"], input=header.read_text(), capture_output=True, text=True, check=True).stdout
    text = re.sub(r"^#.*$", "", text, flags=re.M)
    depth, begin = 0, 0
    for i, c in enumerate(text):
        depth += {"{": 1, "}": -1}.get(c, 0)
        if depth == 0 and c in ";}":
            yield " ".join(text[begin:i + 1].split())
            begin = i + 1


def prototypes(header):
    """{name: declaration} of the functions that a header declares but does not define."""
    found = {}
    for s in statements(header):
        m = re.match(r"(?!typedef|enum|static)[\w *]*?\b(reduce_\w+) ?\(.*\);$", s)
        if m:
            found[m[1]] = s[:-1]
    return found


def build(version, folder):
    """Make libreduce.so of a version in `folder`; its path."""
    header, source, script, library = VERSIONS[version], folder / "stand_in.c", folder / "stand_in.map", folder / "libreduce.so"
    source.write_text(f'#include "{header}"\n' + "".join(f"{p} {{ __builtin_trap(); }}\n" for p in prototypes(header).values()))
    script.write_text(MAP)
    subprocess.run(["gcc", "-std=c11", "-g", "-fPIC", "-shared", "-w", source, "-Wl,-soname,libreduce.so.0", f"-Wl,--version-script={script}", "-o", library], check=True)
    return library
