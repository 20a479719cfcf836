"""Programs built against an earlier reduce.h run with today's library, and structs of every size that a version had are taken."""
import ctypes as C
import os
import subprocess
import sys

import pytest

import libreduce
from conftest import LIB, ROOT, SANITIZER, sanitizer

sys.path.insert(0, str(ROOT / "tests" / "abi"))
import stand_in  # noqa: E402

MOST = 4096  # bytes of a struct of any version


@pytest.mark.parametrize("version", stand_in.VERSIONS)
def test_an_old_program_runs_with_the_new_library(start, scratch, version):
    """Compiled with the old header, linked with the old library, run with the new one."""
    program = scratch / "program"
    (scratch / "reduce.h").write_text(stand_in.VERSIONS[version].read_text())
    stand_in.build(version, scratch)
    sanitize = [f"-fsanitize={sanitizer()}"] if sanitizer() else []
    subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{scratch}", *sanitize, ROOT / "tests/abi/program.c",
                    f"-L{scratch}", "-lreduce", "-o", program], check=True)
    ran = subprocess.run([program, start().url], capture_output=True, text=True, timeout=60, env={**os.environ, "LD_LIBRARY_PATH": str(LIB)})
    assert (ran.returncode, ran.stdout) == (0, "fine\n"), ran.stderr
    assert not SANITIZER.search(ran.stderr)


def grown(struct, more):
    """The struct of a later version, which has `more` further bytes."""
    return type("Later", (struct,), {"_fields_": [("later", C.c_uint8 * more)]})


@pytest.fixture
def client(start):
    with libreduce.Client(start().url) as c:
        yield c


def spec_of(client, struct, size):
    plain = client.spec("sum", "f64")
    spec = struct()
    C.memmove(C.byref(spec), C.byref(plain), C.sizeof(plain))
    spec.size = size
    return spec


def run(client, spec, result=None):
    out = C.c_double()
    data = (C.c_double * 2)(1.5, 2.25)
    code = client.lib.reduce_run(client.handle, C.byref(spec), data, C.c_size_t(16), C.byref(out), C.c_size_t(8), result and C.byref(result))
    return code, out.value


def field(client):
    f = libreduce.FaultStruct(size=C.sizeof(libreduce.FaultStruct))
    assert client.lib.reduce_last_fault(C.byref(f)) == 0
    return f.field.decode()


@pytest.mark.parametrize("more", [8, 256])
def test_a_larger_input_struct_is_taken_if_what_is_unknown_is_0(client, more):
    later = grown(libreduce.Spec, more)
    spec = spec_of(client, later, C.sizeof(later))
    assert run(client, spec) == (0, 3.75)
    for at in (0, more - 1):
        spec.later[at] = 1
        assert run(client, spec)[0] == -101 and field(client) == "spec"
        spec.later[at] = 0
    assert run(client, spec) == (0, 3.75)


@pytest.mark.parametrize("size", [0, 3, 4, libreduce.Spec.planes.offset - 1, MOST + 1, 2**32 - 1])  # planes came with 0.2
def test_a_size_of_no_version_is_refused(client, size):
    assert run(client, spec_of(client, libreduce.Spec, size))[0] == -101 and field(client) == "spec"


def test_put_opts_of_a_later_version(client):
    later = grown(libreduce.PutOpts, 8)
    opts = later(size=C.sizeof(later))
    data = (C.c_double * 2)(1.5, 2.25)

    def put():
        return client.lib.reduce_put(client.handle, b"x", 12, data, C.c_size_t(16), C.byref(opts))
    assert put() == 0
    opts.later[7] = 1
    assert put() == -101 and field(client) == "opts"


@pytest.mark.parametrize("struct,fill", [
    (libreduce.Result, lambda c, s: run(c, c.spec("sum", "f64"), s)[0]),
    (libreduce.Resident, lambda c, s: c.lib.reduce_find(c.handle, b"x", C.byref(s))),
    (libreduce.FaultStruct, lambda c, s: c.lib.reduce_last_fault(C.byref(s))),
], ids=["result", "resident", "fault"])
def test_a_larger_output_struct_is_filled(client, struct, fill):
    """What the library does not know becomes 0, and nothing behind the struct changes."""
    data = (C.c_double * 2)(1.5, 2.25)
    client.put("x", "f64", C.addressof(data), 16)
    later, exact = grown(struct, 24), struct(size=C.sizeof(struct))
    out = later(size=C.sizeof(later) - 8)  # a version between: 16 further bytes
    C.memset(out.later, 0xA5, 24)
    assert fill(client, exact) == 0 and fill(client, out) == 0
    assert bytes(out.later) == bytes(16) + b"\xa5" * 8 and out.size == C.sizeof(later) - 8
    changing = {"size", "queue_ns", "copy_ns", "compute_ns", "wall_ns", "age_ms"}
    for name, _ in struct._fields_:
        f = getattr(struct, name)
        theirs, ours = (bytes(s)[f.offset:f.offset + f.size] for s in (out, exact))
        assert name in changing or theirs == ours, name
    for size in (0, 4, MOST + 1):
        out.size = size
        assert fill(client, out) == -101
