"""The binding says what client/reduce.h says: sizes, places, constants and calls, compared with a compiled C program."""
import ctypes
import re
import subprocess

import pytest

from conftest import ROOT
from pythonpackage import PACKAGE, reduced
from reduced import _abi, errors
from reduced._lib import lib


def constants():
    """Every constant of the header that the binding has, by its name in C."""
    return {f"REDUCE_{n}": v for n, v in vars(_abi).items() if isinstance(v, int) and n.isupper() and not n.startswith("_")}


def test_a_c_program_sees_the_same_structs_and_constants(tmp_path):
    lines = []
    for name, cls in _abi.STRUCTS.items():
        lines.append(f'printf("%zu\\n", sizeof({name}));')
        lines += [f'printf("%zu\\n", offsetof({name}, {field}));' for field, _ in cls._fields_]
        lines += [f'printf("%zu\\n", sizeof((({name} *)0)->{field}));' for field, _ in cls._fields_]
    lines += [f'printf("%lld\\n", (long long){name});' for name in constants()]
    source = tmp_path / "layout.c"
    source.write_text('#include "client/reduce.h"\n#include <stdio.h>\nint main(void) {\n' + "\n".join(lines) + "\nreturn 0;\n}\n")
    subprocess.run(["cc", "-I", ROOT, source, "-o", tmp_path / "layout"], check=True)
    printed = list(map(int, subprocess.run([tmp_path / "layout"], capture_output=True, text=True, check=True).stdout.split()))
    expected = []
    for cls in _abi.STRUCTS.values():
        expected.append(ctypes.sizeof(cls))
        expected += [getattr(cls, field).offset for field, _ in cls._fields_] + [getattr(cls, field).size for field, _ in cls._fields_]
    expected += [v - 2**64 if v >= 2**63 else v for v in constants().values()]
    assert printed == expected
    assert len(_abi.STRUCTS) >= 10 and len(constants()) >= 100


def test_every_call_of_the_header_is_bound():
    header = re.sub(r"/\*.*?\*/", "", (ROOT / "client/reduce.h").read_text(), flags=re.S)
    header = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", "", header, flags=re.M)
    declared = set(re.findall(r"\b(reduce_\w+)\([^()]*(?:\([^()]*\)\([^()]*\)[^()]*)*\);", header))
    assert declared == set(_abi.CALLS) and len(declared) >= 50


def test_operations_and_types_are_those_of_the_library():
    for name, op in _abi.OPS.items():
        assert lib().reduce_op_parse(name.encode()) == op.code
    for name, code in _abi.DTYPES.items():
        assert lib().reduce_dtype_parse(name.encode()) == code


@pytest.mark.parametrize("code", _abi.ERRORS, ids=_abi.ERRORS.get)
def test_each_error_has_an_exception(code):
    assert lib().reduce_errname(code).decode() == _abi.ERRORS[code]
    raised = errors.of(code, "text", _abi.Fault())
    assert type(raised) is not errors.Error and raised.code == _abi.ERRORS[code] and str(raised) == "text"


def test_the_versions_are_one():
    version = re.search(r"^VERSION := (\S+)", (ROOT / "Makefile").read_text(), re.M)[1]
    assert reduced.__version__ == version
    assert f'version = "{version}"' in (PACKAGE / "pyproject.toml").read_text()
